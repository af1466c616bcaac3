"""The gradients of convolutions in their input and their weights, as functions: `torch.nn.grad`.

>>> import wengert.torch as torch
>>> torch.nn.grad.conv1d_weight(torch.ones(1, 1, 4), (1, 1, 2), torch.ones(1, 1, 3))
tensor([[[3., 3.]]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg

from ..autograd.gradients import grad
from ..namespace import as_torch, tensor_of
from . import functional


def _gradient(convolve: Callable[..., Any], given: list[Any], at: int, size: Any, out: Any, options: Any) -> Any:
    """Return the gradient of a convolution in one of its arguments, of which the size alone counts."""
    with wg.enable_grad():
        given[at] = as_torch(wg.zeros(tuple(size), dtype=out.dtype)).requires_grad_()
        result = convolve(*given, None, *options)
    return grad(result, given[at], tensor_of(out), create_graph=any(t.requires_grad for t in (given[1 - at], out)))[0]


def _functions(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    convolve = getattr(functional, name)

    def conv_input(
        input_size: Any,
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        options = stride, padding, dilation, groups
        return _gradient(convolve, [None, tensor_of(weight)], 0, input_size, grad_output, options)

    def conv_weight(
        input: Any,
        weight_size: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        options = stride, padding, dilation, groups
        return _gradient(convolve, [tensor_of(input), None], 1, weight_size, grad_output, options)

    for made, what in ((conv_input, "input"), (conv_weight, "weight")):
        made.__name__ = made.__qualname__ = f"{name}_{what}"
        made.__doc__ = f"""Return the gradient of :func:`torch.nn.functional.{name}` in its {what}.

        `{what}_size` is the shape of the {what}; `grad_output` the gradient of the convolution's result. The other
        parameters are those of the convolution. Raises ShapeError, DTypeError.
        """
    return conv_input, conv_weight


conv1d_input, conv1d_weight = _functions("conv1d")
conv2d_input, conv2d_weight = _functions("conv2d")
conv3d_input, conv3d_weight = _functions("conv3d")

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def __dir__() -> list[str]:
    return sorted(__all__)
