"""New versions: writing into a tensor without touching what was computed from it.

A tensor is a value, and a name for its newest version. `x.add_(y)` computes `x + y` like any
other operation and lets the same object stand for the result. `x += y` rebinds the name instead,
as Python does with numbers. The one exception is a leaf that requires gradients: while gradients
are recorded it cannot be written to, and under `no_grad` it takes the value and stays a leaf, so
that `w -= lr * w.grad` updates the parameter whoever holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.capture import get_capture
from ..core.declare import METHODS, public
from ..core.errors import DTypeError, GradientError, ShapeError, fail
from ..core.mode import get_mode
from ..core.op import Op
from ..core.operands import elementwise_general
from ..core.record import caller
from ..core.spec import broadcast_shapes, category, show
from ..core.standins import replace
from ..core.tensor import LEAF, DataView, Tensor, abstract, asarray, wrap
from .elementwise import add, divide, multiply, negative, pow, subtract
from .selection import clip
from .structure import broadcast, cast

# -- versions


def check_write(x: Tensor, what: str) -> None:
    """Raise GradientError where `x` is a leaf that requires gradients and they are recorded."""
    node = x.node
    if node is not None and node.op is LEAF and get_mode().grad:
        fail(
            GradientError,
            f"{what} on a leaf that requires gradients, {show(x.shape, x.dtype)}",
            "Its gradient would be lost. Update it without recording (with wg.no_grad(): ...), "
            "or make a new tensor: y = x.clone(), then write to y.",
        )


def old_version(x: Tensor) -> Tensor:
    """The present version of `x` as an object of its own, which a write to `x` leaves alone."""
    if x._data is None:
        assert x.node is not None
        return abstract(x.node)
    out = wrap(x._data, x._spec)
    out.node = x.node
    return out


def write(x: Tensor, new: Tensor) -> None:
    """Let `x` stand for `new`, which has its shape and dtype. A leaf stays a leaf."""
    node = x.node
    if node is not None and node.op is LEAF:
        if new._data is None or x._data is None:
            replace(x, new)
        else:
            x._data = new._data
        return
    if new._data is None and x._data is not None:
        capture = get_capture()
        if capture is not None:
            capture.write(x)
    if new._data is not None:
        x._spec = new._spec
    elif x._data is not None:
        del x._spec
    x._data = new._data
    x.node = new.node
    if isinstance(x, DataView):
        x.owner.assign_(x)


def value_for(x: Tensor, value: Any, what: str) -> Tensor:
    """`value` as a tensor of `x`'s dtype. Raises DTypeError for a complex one where `x` is real."""
    if isinstance(value, Tensor):
        if value.dtype == x.dtype:
            return value
        if category(value.dtype) == 3:
            fail(
                DTypeError,
                f"{what}: a value of {show(value.shape, value.dtype)} for {show(x.shape, x.dtype)}",
                "The imaginary part would be lost: take wg.real(v) or wg.abs(v).",
            )
        out: Tensor = cast.front(value, dtype=x.dtype)
        return out
    return asarray(value, dtype=x.dtype)


def update(x: Tensor, what: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Give `x` the version that `compute` makes of the present one. Returns `x`."""
    check_write(x, what)
    new = compute(old_version(x))
    if category(new.dtype) > category(x.dtype):
        fail(
            DTypeError,
            f"{what}: a result of dtype {new.dtype} does not fit a tensor of {show(x.shape, x.dtype)}",
            "Write x = x + y for a result of another dtype, or cast: y.astype(x.dtype).",
        )
    if new.shape != x.shape:
        fail(
            ShapeError,
            f"{what}: a result of shape {new.shape} for a tensor of {show(x.shape, x.dtype)}",
            "The other operand must broadcast to the tensor's shape.",
        )
    write(x, new if new.dtype == x.dtype else cast.front(new, dtype=x.dtype))
    return x


# -- methods that end in an underscore


def _run(op: Op, *args: Any) -> Tensor:
    # By the general path, which finds the user's line from however deep it is called.
    return elementwise_general(op, args)


def _scaled(value: Any, alpha: Any) -> Any:
    return value if type(alpha) is int and alpha == 1 else _run(multiply, value, alpha)


@public(method=True, function=False)
def add_(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Give `x` the new version `x + alpha * other`. Returns `x`.

    Raises GradientError for a leaf that requires gradients while they are recorded, ShapeError
    and DTypeError where the result does not fit `x`.

    >>> import wengert as wg
    >>> x = wg.tensor([1.0, 2.0])
    >>> y = x * 10
    >>> x.add_(1.0)
    tensor([2., 3.])
    >>> y
    tensor([10., 20.])
    """
    return update(x, "add_", lambda old: _run(add, old, _scaled(other, alpha)))


@public(method=True, function=False)
def sub_(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Give `x` the new version `x - alpha * other`; see `add_`. Returns `x`."""
    return update(x, "sub_", lambda old: _run(subtract, old, _scaled(other, alpha)))


@public(method=True, function=False)
def mul_(x: Tensor, other: Any) -> Tensor:
    """Give `x` the new version `x * other`; see `add_`. Returns `x`."""
    return update(x, "mul_", lambda old: _run(multiply, old, other))


@public(method=True, function=False)
def div_(x: Tensor, other: Any) -> Tensor:
    """Give `x` the new version `x / other`; see `add_`. Returns `x`."""
    return update(x, "div_", lambda old: _run(divide, old, other))


@public(method=True, function=False)
def pow_(x: Tensor, exponent: Any) -> Tensor:
    """Give `x` the new version `x ** exponent`; see `add_`. Returns `x`."""
    return update(x, "pow_", lambda old: _run(pow, old, exponent))


@public(method=True, function=False)
def neg_(x: Tensor) -> Tensor:
    """Give `x` the new version `-x`; see `add_`. Returns `x`."""
    return update(x, "neg_", lambda old: _run(negative, old))


@public(method=True, function=False)
def clamp_(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Give `x` the new version `wg.clip(x, min, max)`; see `add_`. Returns `x`."""
    return update(x, "clamp_", lambda old: clip(old, min, max))


@public(method=True, function=False)
def lerp_(x: Tensor, end: Any, weight: Any) -> Tensor:
    """Give `x` the new version `x + weight * (end - x)`; see `add_`. Returns `x`."""
    return update(x, "lerp_", lambda old: _run(add, old, _run(multiply, _run(subtract, end, old), weight)))


@public(method=True, function=False)
def addcmul_(x: Tensor, a: Any, b: Any, *, value: Any = 1) -> Tensor:
    """Give `x` the new version `x + value * a * b`; see `add_`. Returns `x`."""
    return update(x, "addcmul_", lambda old: _run(add, old, _scaled(_run(multiply, a, b), value)))


@public(method=True, function=False)
def addcdiv_(x: Tensor, a: Any, b: Any, *, value: Any = 1) -> Tensor:
    """Give `x` the new version `x + value * a / b`; see `add_`. Returns `x`."""
    return update(x, "addcdiv_", lambda old: _run(add, old, _scaled(_run(divide, a, b), value)))


@public(method=True, function=False)
def copy_(x: Tensor, source: Any) -> Tensor:
    """Give `x` the values of `source`, which broadcasts to it and is cast to its dtype. Returns `x`.

    Raises GradientError for a leaf that requires gradients while they are recorded, ShapeError,
    DTypeError.
    """
    return update(x, "copy_", lambda old: _filled(old, source, "copy_"))


@public(method=True, function=False)
def fill_(x: Tensor, value: Any) -> Tensor:
    """Give every element of `x` the one `value`, a number or a 0-d tensor. Returns `x`.

    >>> import wengert as wg
    >>> wg.zeros(2).fill_(7.0)
    tensor([7., 7.])
    """
    filled = value_for(x, value, "fill_")
    if filled.ndim:
        fail(ShapeError, f"fill_: a value of shape {filled.shape}", "Give a number, or use copy_.")
    return update(x, "fill_", lambda old: _filled(old, filled, "fill_"))


@public(method=True, function=False)
def zero_(x: Tensor) -> Tensor:
    """Give every element of `x` the value 0, as `w.grad.zero_()` does between steps. Returns `x`."""
    return update(x, "zero_", lambda old: wrap(np.zeros(old.shape, old.dtype)))


def _filled(x: Tensor, value: Any, what: str) -> Tensor:
    v = value_for(x, value, what)
    if v.shape == x.shape:
        return old_version(v)
    if broadcast_shapes(v.shape, x.shape) != x.shape:
        fail(
            ShapeError,
            f"{what}: a value of shape {v.shape} for a tensor of {show(x.shape, x.dtype)}",
            "The value must broadcast to the tensor's shape.",
        )
    out: Tensor = broadcast.front(v, shape=x.shape)
    return out


@public(method=True, function=False)
def assign_(x: Tensor, value: Any) -> Tensor:
    """Give `x` another value of its own shape, outside any graph. Returns `x`.

    What was computed from the old value keeps it. The dtype stays. Raises ShapeError.
    """
    source = value if isinstance(value, Tensor) else asarray(value)
    if source.shape != x.shape:
        fail(ShapeError, f"a value of shape {source.shape} assigned to a tensor of shape {x.shape}")
    if source._data is None or x._data is None:
        replace(x, asarray(source, dtype=x.dtype))
        return x
    data = np.asarray(source._data)
    x._data = cast.forward(data, dtype=x.dtype) if data.dtype != x.dtype else data
    if x.node is not None and x.node.op is not LEAF:
        x.node = None
    return x


# -- augmented assignment

_AUGMENTED = {
    "add": "+=",
    "sub": "-=",
    "mul": "*=",
    "truediv": "/=",
    "floordiv": "//=",
    "mod": "%=",
    "pow": "**=",
    "matmul": "@=",
    "and": "&=",
    "or": "|=",
    "xor": "^=",
    "lshift": "<<=",
    "rshift": ">>=",
}


def _augmented(name: str, symbol: str) -> Callable[[Tensor, Any], Any]:
    plain = f"__{name}__"

    def augmented(self: Tensor, other: Any) -> Any:
        node = self.node
        if node is not None and node.op is LEAF:
            return update(self, symbol, lambda old: METHODS[plain](old, other))
        out = METHODS[plain](self, other)
        node = out.node
        if node is not None and node.code is augmented.__code__:
            node.code, node.offset = caller()  # the operator took this function for its caller
        return out

    augmented.__name__ = f"__i{name}__"
    augmented.__doc__ = f"`x {symbol} y`: rebinds the name `x` to a new tensor."
    return augmented


for _name, _symbol in _AUGMENTED.items():
    METHODS[f"__i{_name}__"] = _augmented(_name, _symbol)
