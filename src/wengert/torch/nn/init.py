"""Initial values of parameters with PyTorch's names; see :mod:`wengert.nn.init`.

Every function fills the tensor that it is given and returns it. The names without an underscore at the end are
PyTorch's old ones.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...nn import init as plain
from ...nn.init import (
    calculate_gain,
    constant_,
    eye_,
    kaiming_normal_,
    kaiming_uniform_,
    normal_,
    ones_,
    orthogonal_,
    trunc_normal_,
    uniform_,
    xavier_normal_,
    xavier_uniform_,
    zeros_,
)
from ...ops.random import functions as random
from ...ops.random.generator import Generator

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of one unit of a weight; programs call it by this name."""
    return plain.fans(tensor)


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    """Return the number of inputs ("fan_in") or outputs ("fan_out") of one unit of a weight."""
    return plain.fans(tensor)[("fan_in", "fan_out").index(mode.lower())]


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill the weight of a convolution so that it passes as many channels on as it can, of each group.

    Raises ShapeError for other than three to five dimensions, and channels that do not fall into groups.

    >>> import wengert.torch as torch
    >>> torch.nn.init.dirac_(torch.empty(2, 2, 3)).tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5) or tensor.shape[0] % groups:
        fail(ShapeError, f"dirac_ of a tensor of shape {tuple(tensor.shape)} in {groups} groups")
    values = np.zeros(tuple(tensor.shape))
    each = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for channel in range(tensor.shape[0]):
        if channel % each < tensor.shape[1]:
            values[(channel, channel % each, *middle)] = 1.0
    return tensor.assign_(values.astype(tensor.dtype))


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Any:
    """Fill a matrix with normal numbers, and a share `sparsity` of each column's with 0.

    Source: Martens, "Deep learning via Hessian-free optimization", 2010. Raises ShapeError for other than matrices.
    """
    if tensor.ndim != 2:
        fail(ShapeError, f"sparse_ of a tensor of shape {tuple(tensor.shape)}", "It is for matrices.")
    rows, columns = tensor.shape
    values = random.normal((rows, columns), dtype=np.float64, generator=generator).numpy() * std
    order = random.uniform((rows, columns), dtype=np.float64, generator=generator).numpy().argsort(0)
    return tensor.assign_(np.where(order < math.ceil(sparsity * rows), 0.0, values).astype(tensor.dtype))


def _old(fn: Callable[..., Any]) -> Callable[..., Any]:
    name = fn.__name__[:-1]

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"nn.init.{name} is deprecated: it is the old name of nn.init.{name}_", FutureWarning, stacklevel=2
        )
        return fn(*args, **kwargs)

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"Return what :func:`{name}_` does, of which this is the old name."
    return run


constant = _old(constant_)
dirac = _old(dirac_)
eye = _old(eye_)
kaiming_normal = _old(kaiming_normal_)
kaiming_uniform = _old(kaiming_uniform_)
normal = _old(normal_)
orthogonal = _old(orthogonal_)
sparse = _old(sparse_)
uniform = _old(uniform_)
xavier_normal = _old(xavier_normal_)
xavier_uniform = _old(xavier_uniform_)


def __dir__() -> list[str]:
    return sorted(__all__)
