"""Nonlinearities with PyTorch's parameters."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import wengert as wg

from ....core.errors import RangeError, ShapeError, fail
from ....core.ops.autocast import computed_in
from ....core.tensor import Tensor
from ....nn import functional as plain
from ....nn.functions.arguments import along
from ....ops.index.gather import one_hot
from ....ops.index.inplace import applied
from ....ops.random.functions import rand_like, uniform
from ...namespace import tensor_of
from ...tensor import dtype_of

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]


def relu(input: Any, inplace: bool = False) -> Tensor:
    """Return the larger of each element and 0; with `inplace` the tensor itself, which has taken that value.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return applied(input, True, "relu", wg.relu) if inplace else wg.relu(input)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x where it is positive, else `negative_slope` x.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]), 0.2)
    tensor([-0.2,  2. ])
    """
    return applied(input, inplace, "leaky_relu", plain.leaky_relu, negative_slope)  # type: ignore[no-any-return]


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where it is positive, else alpha (exp(x) - 1)."""
    return applied(input, inplace, "elu", plain.elu, alpha)  # type: ignore[no-any-return]


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where it is positive, else alpha (exp(x / alpha) - 1)."""
    return applied(input, inplace, "celu", plain.celu, alpha)  # type: ignore[no-any-return]


def selu(input: Any, inplace: bool = False) -> Tensor:
    """Return the self-normalising elu."""
    return applied(input, inplace, "selu", plain.selu)  # type: ignore[no-any-return]


def _complex_silu(x: Any) -> Any:
    return x * wg.sigmoid(x)


def silu(input: Any, inplace: bool = False) -> Tensor:
    """Return x times its sigmoid."""
    return applied(input, inplace, "silu", _complex_silu if input.dtype.kind == "c" else plain.silu)  # type: ignore[no-any-return]


def mish(input: Any, inplace: bool = False) -> Tensor:
    """Return x tanh(softplus(x))."""
    return applied(input, inplace, "mish", plain.mish)  # type: ignore[no-any-return]


def hardswish(input: Any, inplace: bool = False) -> Tensor:
    """Return x clip(x + 3, 0, 6) / 6."""
    return applied(input, inplace, "hardswish", plain.hardswish)  # type: ignore[no-any-return]


def hardsigmoid(input: Any, inplace: bool = False) -> Tensor:
    """Return clip(x / 6 + 1/2, 0, 1)."""
    return applied(input, inplace, "hardsigmoid", plain.hardsigmoid)  # type: ignore[no-any-return]


def _hardtanh(x: Any, low: float, high: float) -> Any:
    # Integers stay integers, as the bounds are numbers.
    return plain.hardtanh(x, low, high) if x.dtype.kind not in "iu" else wg.clip(x, int(low), int(high))


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x, bounded to `min_val`..`max_val`. Raises ShapeError for a `min_val` above `max_val`."""
    return applied(input, inplace, "hardtanh", _hardtanh, min_val, max_val)  # type: ignore[no-any-return]


def relu6(input: Any, inplace: bool = False) -> Tensor:
    """Return x, bounded to 0..6."""
    return applied(input, inplace, "relu6", _hardtanh, 0, 6)  # type: ignore[no-any-return]


def _threshold(x: Any, threshold: float, value: float) -> Any:
    return wg.where(x <= threshold, wg.full_like(x, value), x)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x where it is above a threshold (or NaN), else `value`."""
    return applied(input, inplace, "threshold", _threshold, threshold, value)  # type: ignore[no-any-return]


def _rrelu(x: Any, lower: float, upper: float, training: bool) -> Any:
    if not training:
        return plain.leaky_relu(x, (lower + upper) / 2)
    return wg.where(x > 0, x, x * (rand_like(x) * (upper - lower) + lower))


def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return x where it is positive, else x times a slope: in training one between the bounds, drawn for each element.

    Otherwise the slope is their mean. Raises RangeError for a `lower` above `upper`.
    """
    if lower > upper:
        fail(RangeError, f"rrelu: lower {lower} is above upper {upper}")
    return applied(input, inplace, "rrelu", _rrelu, lower, upper, training)  # type: ignore[no-any-return]


def hardshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """Return x, and 0 where it lies within `lambd` of 0.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.hardshrink(torch.tensor([-1.0, 0.2, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return wg.where((input >= -lambd) & (input <= lambd), 0, input)


def softshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """Return x less `lambd` above it, plus `lambd` below its negative, 0 between. Raises RangeError where negative.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.2, 2.0]))
    tensor([-0.5,  0. ,  1.5])
    """
    if lambd < 0:
        fail(RangeError, f"softshrink: lambd is {lambd}", "It must be 0 or larger.")
    # 0 x where nothing is left, which keeps a NaN.
    return wg.where(input > lambd, input - lambd, wg.where(input < -lambd, input + lambd, input * 0))


def glu(input: Any, dim: int = -1) -> Tensor:
    """Return one half along an axis times the sigmoid of the other. Raises ShapeError for an odd size or 0-d."""
    if input.ndim == 0:
        fail(ShapeError, "glu of a 0-d tensor", "It has no axis to be halved.")
    return plain.glu(input, axis=dim)


@computed_in("lower", "torch")
def prelu(input: Any, weight: Any) -> Tensor:
    """Return x where it is positive, else `weight` x. Raises ShapeError unless there is one weight or one a channel."""
    return plain.prelu(input, weight)


def softsign(input: Any) -> Tensor:
    """Return x / (1 + |x|)."""
    return input / (1 + wg.abs(input)) if input.dtype.kind == "c" else plain.softsign(input)


def tanhshrink(input: Any) -> Tensor:
    """Return x - tanh(x)."""
    return input - wg.tanh(input)  # type: ignore[no-any-return]


def tanh(input: Any) -> Tensor:
    """Return the hyperbolic tangent."""
    return wg.tanh(input)


def sigmoid(input: Any) -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return wg.sigmoid(input)


# -- softmax


def _axis(name: str, x: Any, dim: int | None) -> int:
    """Return the axis; without one PyTorch's choice of old, with its warning."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if x.ndim in (0, 1, 3) else 1


def _in(x: Any, dtype: Any) -> Any:
    x = tensor_of(x)
    return x if dtype is None else x.to(dtype_of(dtype))


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return exp(x) over its sum along an axis, computed in `dtype` where one is given.

    Raises ShapeError for an axis that does not exist.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.softmax(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), dim=1)
    tensor([[0.5, 0.5],
            [0.5, 0.5]])
    """
    return along(_in(input, dtype), _axis("softmax", input, dim), wg.softmax)  # type: ignore[no-any-return]


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype."""
    return along(_in(input, dtype), _axis("log_softmax", input, dim), wg.log_softmax)  # type: ignore[no-any-return]


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return :func:`softmax` of -x."""
    return along(-_in(input, dtype), _axis("softmin", input, dim), wg.softmax)  # type: ignore[no-any-return]


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a draw from the Gumbel-softmax distribution: softmax of logits with Gumbel noise, over `tau`.

    With `hard` it is one-hot, with the gradient of the soft one. Source: Jang et al. 2016, arXiv:1611.01144.

    >>> import wengert.torch as torch
    >>> torch.nn.functional.gumbel_softmax(torch.tensor([0.0, 1000.0]), hard=True)
    tensor([0., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    smallest = float(wg.finfo(logits.dtype).tiny if logits.dtype.itemsize > 2 else 2.0**-14)
    drawn = uniform(tuple(logits.shape), smallest, 1.0, dtype=logits.dtype)
    soft = softmax((logits - wg.log(-wg.log(drawn))) / tau, dim)
    if not hard:
        return soft
    index = wg.argmax(soft, axis=dim)
    chosen = wg.moveaxis(one_hot(index, soft.shape[dim]), -1, dim).astype(soft.dtype)
    return chosen - soft.detach() + soft


def _made_in_place(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as one that writes its result to its input."""

    @functools.wraps(fn)
    def run(input: Any, *args: Any, **kwargs: Any) -> Any:
        return fn(input, *args, **kwargs, inplace=True)

    run.__name__ = run.__qualname__ = f"{fn.__name__}_"
    run.__doc__ = f"Give the tensor the value of :func:`{fn.__name__}` of it, and return it. Raises GradientError."
    return run


celu_, elu_, hardtanh_, leaky_relu_, relu_, rrelu_, selu_, threshold_ = (
    _made_in_place(fn) for fn in (celu, elu, hardtanh, leaky_relu, relu, rrelu, selu, threshold)
)
