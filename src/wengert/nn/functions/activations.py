"""Nonlinearities that are formulas, softmax along an axis that may be left out, and what writes to its input."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import wengert as wg

from ...core.errors import RangeError, fail
from ...core.ops.op import Op
from ...core.spec import normalize_axis
from ...core.tensor import Tensor, asarray
from ...ops.aliases import alias
from ...ops.index.gather import one_hot
from ...ops.index.inplace import applied
from ...ops.neural.activations import celu, elu, hardtanh, leaky_relu, operand, selu
from ...ops.neural.composites import log_softmax_op, softmax_op
from ...ops.random.functions import rand_like, uniform

# NumPy's name of PyTorch's parameter.
_axis_alias = alias(axis="dim")
_relu = wg.relu


def relu(input: Any, inplace: bool = False) -> Tensor:
    """Return the larger of each element and 0; with `inplace` the tensor itself, which has taken that value.

    >>> import wengert as wg
    >>> wg.nn.functional.relu(wg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return applied(input, True, "relu", _relu) if inplace else _relu(input)


def _threshold(x: Any, threshold: float, value: float) -> Any:
    return wg.where(x <= threshold, wg.full_like(x, value), x)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x where it is above a threshold (or NaN), else `value`.

    >>> import wengert as wg
    >>> wg.nn.functional.threshold(wg.tensor([-1.0, 2.0]), 0.5, 9.0)
    tensor([9., 2.])
    """
    input = asarray(input)
    return applied(input, inplace, "threshold", _threshold, threshold, value)  # type: ignore[no-any-return]


def _rrelu(x: Any, lower: float, upper: float, training: bool) -> Any:
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    return wg.where(x > 0, x, x * (rand_like(x) * (upper - lower) + lower))


def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return x where it is positive, else x times a slope: in training one between the bounds, drawn for each element.

    Otherwise the slope is their mean. Raises RangeError for a `lower` above `upper`.

    >>> import wengert as wg
    >>> wg.nn.functional.rrelu(wg.tensor([-48.0, 2.0]))
    tensor([-11.,   2.])
    """
    input = asarray(input)
    if lower > upper:
        fail(RangeError, f"rrelu: lower {lower} is above upper {upper}")
    return applied(input, inplace, "rrelu", _rrelu, lower, upper, training)  # type: ignore[no-any-return]


def hardshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """Return x, and 0 where it lies within `lambd` of 0.

    >>> import wengert as wg
    >>> wg.nn.functional.hardshrink(wg.tensor([-1.0, 0.2, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    input = asarray(input)
    return wg.where((input >= -lambd) & (input <= lambd), 0, input)


def softshrink(input: Any, lambd: float = 0.5) -> Tensor:
    """Return x less `lambd` above it, plus `lambd` below its negative, 0 between. Raises RangeError where negative.

    >>> import wengert as wg
    >>> wg.nn.functional.softshrink(wg.tensor([-1.0, 0.2, 2.0]))
    tensor([-0.5,  0. ,  1.5])
    """
    input = asarray(input)
    if lambd < 0:
        fail(RangeError, f"softshrink: lambd is {lambd}", "It must be 0 or larger.")
    # 0 x where nothing is left, which keeps a NaN.
    return wg.where(input > lambd, input - lambd, wg.where(input < -lambd, input + lambd, input * 0))


def tanh(input: Any) -> Tensor:
    """Return the hyperbolic tangent.

    >>> import wengert as wg
    >>> wg.nn.functional.tanh(wg.tensor([0.0, 100.0]))
    tensor([0., 1.])
    """
    return wg.tanh(input)


def sigmoid(input: Any) -> Tensor:
    """Return 1 / (1 + exp(-x)).

    >>> import wengert as wg
    >>> wg.nn.functional.sigmoid(wg.tensor([0.0, 100.0]))
    tensor([0.5, 1. ])
    """
    return wg.sigmoid(input)


# -- softmax


def _along(x: Any, name: str, dim: int | None, dtype: Any, op: Op) -> Tensor:
    """Return an op's result along an axis; without one PyTorch's choice of old, with its warning."""
    x = operand(x if dtype is None else asarray(x).to(dtype), name)
    if dim is None:
        text = f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X."
        warnings.warn(text, stacklevel=4)
        dim = 0 if x.ndim in (0, 1, 3) else 1
    axis = normalize_axis(dim, x.ndim or 1)
    out: Tensor = op.front(x, axis=axis) if x.ndim else op.front(x.reshape((1,)), axis=axis).reshape(())
    return out


@_axis_alias
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return exp(x) over its sum along an axis, computed in `dtype` where one is given.

    Raises ShapeError for an axis that does not exist.

    >>> import wengert as wg
    >>> wg.nn.functional.softmax(wg.tensor([[1.0, 1.0], [0.0, 0.0]]), dim=1)
    tensor([[0.5, 0.5],
            [0.5, 0.5]])
    """
    return _along(input, "softmax", dim, dtype, softmax_op)


@_axis_alias
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype.

    >>> import wengert as wg
    >>> wg.nn.functional.log_softmax(wg.tensor([0.0, -1000.0]), dim=0)
    tensor([    0., -1000.])
    """
    return _along(input, "log_softmax", dim, dtype, log_softmax_op)


@_axis_alias
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Return :func:`softmax` of -x.

    >>> import wengert as wg
    >>> wg.nn.functional.softmin(wg.tensor([3.0, 3.0]), dim=0)
    tensor([0.5, 0.5])
    """
    return _along(-asarray(input), "softmin", dim, dtype, softmax_op)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Return a draw from the Gumbel-softmax distribution: softmax of logits with Gumbel noise, over `tau`.

    With `hard` it is one-hot, with the gradient of the soft one. Source: Jang et al. 2016, arXiv:1611.01144.

    >>> import wengert as wg
    >>> wg.nn.functional.gumbel_softmax(wg.tensor([0.0, 1000.0]), hard=True)
    tensor([0., 1.])
    """
    logits = asarray(logits)
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
