"""Parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import wengert as wg

from ....core.errors import ShapeError, fail
from ...namespace import tensor_of
from ...tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Any]) -> Tensor:
    """Return the parameters in order in a 1-d tensor, through which gradients reach them.

    >>> import wengert.torch as torch
    >>> torch.nn.utils.parameters_to_vector(torch.nn.Linear(2, 3).parameters()).shape
    torch.Size([9])
    """
    return tensor_of(wg.concat([p.reshape((math.prod(p.shape),)) for p in parameters]))


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Give the parameters the values of a 1-d tensor, in order.

    Raises ShapeError where the sizes do not add up; then nothing is changed.
    """
    held, source = list(parameters), tensor_of(vec).detach()
    sizes = [math.prod(p.shape) for p in held]
    if tuple(source.shape) != (sum(sizes),):
        fail(ShapeError, f"a vector of shape {tuple(source.shape)} for parameters with {sum(sizes)} elements")
    for p, values in zip(held, wg.split(source, sizes)):
        value = values.reshape(tuple(p.shape))
        if p.is_abstract:
            p.assign_(value)
        else:
            p.data = value  # what shared the parameter's memory keeps its value, as in PyTorch


def __dir__() -> list[str]:
    return sorted(__all__)
