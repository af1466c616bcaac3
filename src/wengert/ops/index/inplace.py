"""In-place writes: new versions of a tensor, without touching what was computed from it.

A tensor is a value, and a name for its newest version. `x += y` and `x.add_(y)` compute `x + y` like
any other operation and let the same object stand for the result. A leaf that requires gradients cannot be
written to while they are recorded; under `no_grad` it takes the value and stays a leaf, so that
`w -= lr * w.grad` updates the parameter whoever holds it.

What was taken from a tensor (a slice, a reshape, `detach()`) is a value of its own. In NumPy and PyTorch it
would share memory, and a write to it would be one to that tensor: such a write is refused as long as the tensor lives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...core.dtypes import DType
from ...core.elsewhere import CPU, Elsewhere, in_place_of
from ...core.errors import DTypeError, GradientError, ShapeError, WriteError, fail, is_internal
from ...core.mode import enable_grad, get_mode
from ...core.node import Hooked
from ...core.ops.declare import METHODS, public
from ...core.ops.op import LEAF, TABLE, Op
from ...core.ops.operands import elementwise_general
from ...core.ops.record import another, caller, same_value
from ...core.source import is_stored_back, resolve
from ...core.spec import broadcast_shapes, category, float16, int64, show
from ...core.standins import DataView, replace
from ...core.state.capture import fresh_leaves, note_gradient, note_write, notes_writes
from ...core.state.observer import detours, observer, observers
from ...core.storage import alone, is_shared, leave, living, pin, storage_of, window_of
from ...core.tensor import Tensor, asarray, leaf_node, like, taken_from, wrap
from ..pointwise import arithmetic, selection, trigonometry
from ..pointwise.arithmetic import add, divide, multiply, pow, subtract
from ..pointwise.selection import clip, clip_op, maximum, minimum, remainder
from ..structure.shapes import broadcast, cast, placed

# -- versions


def check_write(x: Tensor, what: str) -> None:
    """Raise WriteError where a write would be lost, GradientError where it would lose a leaf's gradient."""
    if x._share is not None:
        check_reaches(x, what)
    node = x.node
    if node is not None and node.op is LEAF and get_mode().grad:
        fail(
            GradientError,
            f"{what} on a leaf that requires gradients, {show(x.shape, x.dtype)}",
            "Its gradient would be lost. Update it without recording (with wg.no_grad(): ...), "
            "or make a new tensor: y = x.clone(), then write to y.",
        )


def check_reaches(x: Tensor, what: str) -> None:
    """Raise WriteError where `x` was taken from a tensor that still lives, which a write would not reach."""
    if storage_of(x) is not None:
        if x.writes_through is not None:
            x.writes_through.check(x, what)
        return
    base = taken_from(x)
    if base is None:
        return
    owner, code, offset, _ = base
    place = resolve(code, offset) if code is not None and not is_internal(code.co_filename) else None
    taken = f" at {place}" + (f" ({place.text})" if place is not None and place.text else "") if place else ""
    fail(
        WriteError,
        f"{what} on a value that was taken{taken} from a tensor of {show(owner().shape, owner().dtype)}, "
        f"{show(x.shape, x.dtype)}",
        "It is a value of its own: the write would not reach that tensor, as it would in NumPy and PyTorch. "
        "Take a copy, x[1:].clone(), to change it alone; write to the tensor itself, x[1, 2] = v for x[1][2] = v, "
        "x[1:] += v, to change that.",
    )


def old_version(x: Tensor) -> Tensor:
    """Return the present version of `x` as an object of its own, which a write to `x` leaves alone."""
    return same_value(x)


def write(x: Tensor, new: Tensor) -> None:
    """Give `x` the value of `new`, which has its shape and dtype, and what shares its elements theirs.

    In a namespace with views what carried gradients still does: those of its past are zeros then, and not absent.
    """
    through = x.writes_through
    if through is not None and x.requires_grad and not new.requires_grad:
        if get_mode().grad:
            new = selection.where(wrap(np.zeros((1,) * x.ndim, bool)), old_version(x), new)
        elif x._array is None and x.node is not None and x.node.op is not LEAF:
            new = _straight_through(new, x)
    if isinstance(x, DataView):
        if through is None or not through.assign(x.owner, new):
            assign_(x.owner, new)
    elif through is None or not through.write(x, new):
        hold(x, new)


def _borrowed(x: Tensor) -> Tensor:
    """Return the present version of `x` for a computation that is over before `x` is written to."""
    base = x._share
    if base is None or type(base) is tuple or x._window is None:
        return old_version(x)
    out = like(x, wrap(x._window, x._spec))
    out.node = x.node
    return out


def overwrite(x: Tensor, index: Any, value: Any) -> None:
    """Write an array or a number to the elements of a tensor with a value at an index of NumPy's, unrecorded.

    Raises what NumPy raises for the index or the value; then nothing is written.
    """
    written(x.owner if isinstance(x, DataView) else x)[index] = value


def written(x: Tensor) -> Any:
    """Return the memory of a tensor with a value, for an unrecorded write at once; traces at work are told of it."""
    if notes_writes():
        s = storage_of(x)
        for t in (x,) if s is None else living(s):
            note_write(t, False)
    _leave_graph(x)
    return alone(x)


def _leave_graph(x: Tensor) -> None:
    """Cut a tensor that is written to from what computed it, where its namespace has no views.

    In those with views the value changes, not the way that its gradients take.
    """
    if x.writes_through is None and x.node is not None and x.node.op is not LEAF:
        x.node = None


# Python's numbers that floating elements take as they are.
NUMBERS = frozenset({bool, int, float})


def _overwritten(x: Tensor, number: Any, what: str) -> bool:
    """Write a number to all elements where that is not recorded and `x` shares its memory; return whether it did."""
    if observers or storage_of(x) is None or not can_overwrite(x) or (number != 0 and x._spec.dtype.kind != "f"):
        return False
    check_write(x, what)
    overwrite(x, ..., number)
    return True


def can_overwrite(x: Tensor) -> bool:
    """Return whether writes to parts of a tensor change its value alone, and no graph."""
    return (x.node is None or not get_mode().grad) and type(window_of(x)) is np.ndarray and fresh_leaves() is None


def _straight_through(new: Tensor, x: Tensor) -> Tensor:
    """Return, recorded, a value for `x` to have without a change of the way that its gradients take."""
    with enable_grad():
        out: Tensor = TABLE["straight_through"].front(new, old_version(x))
    return out


def set_gradient(owner: Tensor, value: Tensor) -> None:
    """Make `value` the gradient of `owner`.

    Where writes reach all names of a value, the tensor that is its gradient already is written to, so that whoever
    holds that one sees it, as in PyTorch; not where one of both has a history.
    """
    old = owner.grad
    if old is None or old.writes_through is None or old.requires_grad or value.requires_grad or old.spec != value.spec:
        owner.grad = value
    elif old is not value:
        note_gradient(owner)
        write(old, value)


def hold(x: Tensor, new: Tensor) -> None:
    """Make `x` alone hold the value of `new`, which has its shape and dtype. A leaf stays a leaf."""
    if storage_of(x) is not None:
        leave(x)
    give(x, new)
    if x.node is None or x.node.op is not LEAF:
        x._share = None


def give(x: Tensor, new: Tensor) -> None:
    """Let `x` have the value of `new`, which has its shape and dtype. A leaf stays a leaf."""
    node = x.node
    if node is not None and node.op is LEAF:
        if new._array is None or x._array is None:
            replace(x, new)
        else:
            note_write(x, False)
            x._data = in_place_of(x._array, new._array)
            if node.inputs:  # in a trace, where it stands for the value that it had
                x.node = leaf_node(x, new._array)
        return
    note_write(x, new._array is None)
    data = in_place_of(x._array, new._array)
    if not x.is_weak:
        if new._array is not None:
            x._spec = wrap(data).spec
        elif x._array is not None:
            del x._spec
    before = x.node
    x._data = data
    x.node = new.node
    keep_grad(x, before)


def keep_grad(x: Tensor, before: Any) -> None:
    """Let `.grad`, if it was kept of what the node `before` computed, be that of the tensor's new value."""
    if before is None or type(before.saved) is not Hooked or before.saved.retain is None:
        return
    node = x.node
    if before is not node and before.saved.retain() is x:
        before.saved.retain = None
        if node is not None and node.requires_grad and node.op is not LEAF:
            x.retain_grad()


def value_for(x: Tensor, value: Any, what: str) -> Tensor:
    """Return `value` as a tensor of `x`'s dtype. Raises DTypeError for a complex one where `x` is real."""
    if isinstance(value, Tensor):
        if value.dtype == x.dtype:
            return value
        if category(value.dtype) == 3:
            fail(
                DTypeError,
                f"{what}: a value of {show(value.shape, value.dtype)} for {show(x.shape, x.dtype)}",
                "The imaginary part would be lost: take wg.real(v) or wg.abs(v).",
            )
        out: Tensor = cast.front(placed(value, CPU), dtype=x.dtype)
        return out
    return asarray(value, dtype=x.dtype)


# Up to how many bytes a new value is computed first and then written: a warning that is an error leaves the old one.
_SMALL = 1 << 15


def _at_once(x: Tensor, what: str, op: Op | None, *others: Any, by: Callable[..., Any] | None = None) -> bool:
    """Compute an elementwise op in a tensor's memory where nothing is recorded; return whether that was done.

    `by` makes the second operand of `op` from the arrays of `x` and the others; without an op it is the value.
    """
    x = x.owner if isinstance(x, DataView) else x
    if observers or detours or x.is_weak or not can_overwrite(x):
        return False
    values = _plain_values(x, others)
    if values is None or not (op is None or getattr(x._spec, op.accepts)):
        return False
    if x._share is not None:
        check_reaches(x, what)
    window, s = window_of(x), storage_of(x)
    is_kept = s is not None and (s.memory is not None or is_shared(x))
    try:
        if by is not None:
            values = [by(window, *values)]
        if is_kept and op is not None and type(op.forward) is np.ufunc and window.nbytes > _SMALL:
            if broadcast_shapes(window.shape, *map(np.shape, values)) != window.shape:
                return False
            into = written(x)  # from here on, what shares its memory may lie elsewhere
            with np.errstate(all="ignore"):
                op.forward(into, *(_plain_values(x, others) or () if by is None else values), out=into)
            return True
        data = np.asarray(values[0] if op is None else op.forward(window, *values))
    except (ValueError, TypeError, OverflowError, RuntimeWarning, ShapeError):
        return False
    if data.dtype != window.dtype or data.shape != window.shape:
        return False
    if is_kept or not window.flags.c_contiguous:
        written(x)[...] = data
    else:
        note_write(x, False)
        _leave_graph(x)
        x._data = data if op is not None and data.flags.c_contiguous else np.array(data, order="C")
        x._share = None
    return True


def _plain_values(x: Tensor, others: Iterable[Any]) -> list[Any] | None:
    """Return the operands that are computed with a tensor as they are: its dtype, or numbers; None if one is not."""
    dtype = x._spec.dtype
    if dtype.kind not in "fiuc" or dtype == float16:
        return None
    values: list[Any] = []
    for a in others:
        if type(a) is float or type(a) is int:
            if dtype.kind != "f" and (type(a) is float or dtype != int64):
                return None
            values.append(a)
            continue
        if not isinstance(a, Tensor) or a.is_weak or (a.node is not None and get_mode().grad):
            return None
        value = window_of(a)
        if type(value) is not np.ndarray or value.dtype != dtype:
            return None
        values.append(value)
    return values


def update(x: Tensor, what: str, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Give `x` the version that `compute` makes of the present one. Returns `x`."""
    check_write(x, what)
    new = compute(_borrowed(x))
    if new.node is not None or observers:
        pin(x)  # what was recorded keeps the old value
    if category(new.dtype) > category(x.dtype):
        fail(
            DTypeError,
            f"{what}: a result of dtype {new.dtype} does not fit a tensor of {show(x.shape, x.dtype)}",
            "Write x = x + y for a result of another dtype, or cast: y.astype(x.dtype).",
        )
    if new.shape != x.shape:
        fail(
            ShapeError,
            f"{what}: a result of shape {tuple(new.shape)} for a tensor of {show(x.shape, x.dtype)}",
            "The other operand must broadcast to the tensor's shape.",
        )
    write(x, new if new.dtype == x.dtype else cast.front(new, dtype=x.dtype))
    return x


def applied(x: Any, inplace: bool, name: str, compute: Callable[..., Any], *args: Any) -> Any:
    """Return `compute(x, *args)`; with `inplace` `x` itself, which has taken that value."""
    return update(x, f"{name}_", lambda old: compute(old, *args)) if inplace else compute(x, *args)


# -- methods that end in an underscore


def _run(op: Op, *args: Any) -> Tensor:
    # By the general path, which finds the user's line from however deep it is called.
    return elementwise_general(op, args)


def _computed(x: Tensor, what: str, op: Op, *others: Any) -> Tensor:
    """Give `x` the version that an elementwise op makes of the present one. Returns `x`."""
    if _at_once(x, what, op, *others):
        return x
    return update(x, what, lambda old: _run(op, old, *others))


def _accumulate(x: Tensor, what: str, op: Op, other: Any, alpha: Any) -> Tensor:
    if type(alpha) is int and alpha == 1:
        return _computed(x, what, op, other)
    if isinstance(other, Tensor) and _at_once(x, what, op, other, alpha, by=lambda _, v, a: multiply.forward(v, a)):
        return x
    return update(x, what, lambda old: _run(op, old, _run(multiply, other, alpha)))


@public(method=True, function=False)
def add_(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Give `x` the new version `x + alpha * other`, and return it.

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
    return _accumulate(x, "add_", add, other, alpha)


@public(method=True, function=False)
def sub_(x: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Give `x` the new version `x - alpha * other`; see `add_`. Returns `x`."""
    return _accumulate(x, "sub_", subtract, other, alpha)


@public(method=True, function=False)
def mul_(x: Tensor, other: Any) -> Tensor:
    """Give `x` the new version `x * other`; see `add_`. Returns `x`."""
    return _computed(x, "mul_", multiply, other)


@public(method=True, function=False)
def div_(x: Tensor, other: Any) -> Tensor:
    """Give `x` the new version `x / other`; see `add_`. Returns `x`."""
    return _computed(x, "div_", divide, other)


@public(method=True, function=False)
def pow_(x: Tensor, exponent: Any) -> Tensor:
    """Give `x` the new version `x ** exponent`; see `add_`. Returns `x`."""
    return update(x, "pow_", lambda old: _run(pow, old, exponent))


@public(method=True, function=False)
def remainder_(x: Tensor, other: Any) -> Tensor:
    """Give `x` the new version `x % other`; see `add_`. Returns `x`."""
    return _computed(x, "remainder_", remainder, other)


def _of_one(name: str, op: Op) -> None:
    def method(x: Tensor) -> Tensor:
        return _computed(x, name, op)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Give `x` the new version `wg.{op.name}(x)`; see `add_`. Returns `x`."
    public(method, name=name, method=True, function=False)


for _op in (
    arithmetic.exp,
    arithmetic.log,
    arithmetic.reciprocal,
    arithmetic.rsqrt,
    arithmetic.sigmoid,
    arithmetic.sqrt,
    arithmetic.square,
    trigonometry.tanh,
    selection.abs,
    selection.ceil,
    selection.floor,
    selection.relu,
    selection.round,
):
    _of_one(f"{_op.name}_", _op)
_of_one("neg_", arithmetic.negative)


@public(method=True, function=False)
def clamp_(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Give `x` the new version `wg.clip(x, min, max)`; see `add_`. Returns `x`."""
    given = [b for b in (min, max) if b is not None]
    op = clip_op if len(given) == 2 else minimum if min is None else maximum
    if given and _at_once(x, "clamp_", op, *given):
        return x
    return update(x, "clamp_", lambda old: clip(old, min, max))


@public(method=True, function=False)
def clamp_min_(x: Tensor, min: Any) -> Tensor:
    """Give `x` the new version `wg.clip(x, min=min)`; see `add_`. Returns `x`."""
    return clamp_(x, min)


@public(method=True, function=False)
def clamp_max_(x: Tensor, max: Any) -> Tensor:
    """Give `x` the new version `wg.clip(x, max=max)`; see `add_`. Returns `x`."""
    return clamp_(x, None, max)


@public(method=True, function=False)
def lerp_(x: Tensor, end: Any, weight: Any) -> Tensor:
    """Give `x` the new version `x + weight * (end - x)`; see `add_`. Returns `x`."""
    if isinstance(end, Tensor) and _at_once(x, "lerp_", add, end, weight, by=lambda old, e, w: (e - old) * w):
        return x
    return update(x, "lerp_", lambda old: _run(add, old, _run(multiply, _run(subtract, end, old), weight)))


@public(method=True, function=False)
def addcmul_(x: Tensor, a: Any, b: Any, *, value: Any = 1) -> Tensor:
    """Give `x` the new version `x + value * a * b`; see `add_`. Returns `x`."""
    return _add_product(x, "addcmul_", multiply, a, b, value)


@public(method=True, function=False)
def addcdiv_(x: Tensor, a: Any, b: Any, *, value: Any = 1) -> Tensor:
    """Give `x` the new version `x + value * a / b`; see `add_`. Returns `x`."""
    return _add_product(x, "addcdiv_", divide, a, b, value)


def _add_product(x: Tensor, what: str, op: Op, a: Any, b: Any, value: Any) -> Tensor:
    is_one = type(value) is int and value == 1
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if is_one and _at_once(x, what, add, a, b, by=lambda _, p, q: op.forward(p, q)):
            return x
        if not is_one and _at_once(x, what, add, a, b, value, by=lambda _, p, q, v: op.forward(p, q) * v):
            return x
    product = _run(op, a, b)
    scaled = product if is_one else _run(multiply, product, value)
    return update(x, what, lambda old: _run(add, old, scaled))


@public(method=True, function=False)
def copy_(x: Tensor, source: Any) -> Tensor:
    """Give `x` the values of `source`, which broadcasts to it and is cast to its dtype. Returns `x`.

    Raises GradientError for a leaf that requires gradients while they are recorded, ShapeError,
    DTypeError.
    """
    if isinstance(source, Tensor) and source.shape == x.shape and _at_once(x, "copy_", None, source):
        return x
    return update(x, "copy_", lambda old: _filled(old, source, "copy_"))


@public(method=True, function=False)
def fill_(x: Tensor, value: Any) -> Tensor:
    """Give every element of `x` the one `value`, a number or a 0-d tensor. Returns `x`.

    Raises ShapeError for a value with a shape.

    >>> import wengert as wg
    >>> wg.zeros(2).fill_(7.0)
    tensor([7., 7.])
    """
    if type(value) in NUMBERS and _overwritten(x, value, "fill_"):
        return x
    filled = value_for(x, value, "fill_")
    if filled.ndim:
        fail(ShapeError, f"fill_: a value of shape {tuple(filled.shape)}", "Give a number, or use copy_.")
    return update(x, "fill_", lambda old: _filled(old, filled, "fill_"))


@public(method=True, function=False)
def zero_(x: Tensor) -> Tensor:
    """Give every element of `x` the value 0, as `w.grad.zero_()` does between steps. Returns `x`."""
    if _overwritten(x, 0, "zero_"):
        return x
    return update(x, "zero_", lambda old: wrap(np.zeros(old.shape, old.dtype)))


def _filled(x: Tensor, value: Any, what: str) -> Tensor:
    v = value_for(x, value, what)
    if v.shape != x.shape and broadcast_shapes(v.shape, x.shape) != x.shape:
        fail(
            ShapeError,
            f"{what}: a value of shape {tuple(v.shape)} for a tensor of {show(x.shape, x.dtype)}",
            "The value must broadcast to the tensor's shape.",
        )
    out = another(v) if v.shape == x.shape else broadcast.front(placed(v, CPU), shape=x.shape)
    if out.requires_grad and not get_mode().grad:  # in a trace, whose values are their nodes
        out = TABLE["stop_gradient"].front(out)
    # State has memory of its own: what is written next may be a part of it.
    if type(out._array) is np.ndarray and 0 in out._array.strides:
        out._data = np.array(out._array, order="C")
    return out


@public(method=True, function=False)
def assign_(x: Tensor, value: Any) -> Tensor:
    """Give `x` another value of its own shape, outside any graph. Returns `x`.

    What was computed from the old value keeps it. The dtype stays. Raises ShapeError, WriteError.
    """
    if isinstance(x, DataView):
        assign_(x.owner, value)
        return x
    if observers and (seen := observer()) is not None:
        seen.leak("assign_", x._array, x.node)
    check_reaches(x, "assign_")
    source = value if isinstance(value, Tensor) else asarray(value)
    if source.shape != x.shape:
        fail(ShapeError, f"a value of shape {tuple(source.shape)} assigned to a tensor of shape {tuple(x.shape)}")
    if x.writes_through is not None and x.writes_through.assign(x, source):
        return x
    if source._array is None or x._array is None:
        given = asarray(source, dtype=x.dtype)
        if x.writes_through is not None and x.requires_grad and x.node is not None and x.node.op is not LEAF:
            hold(x, _straight_through(given, x))
        else:
            replace(x, given)
        return x
    note_write(x, False)
    data = source._array
    if data.dtype != x.dtype:
        data = data.cast(x.dtype) if isinstance(data, Elsewhere) else cast.forward(data, dtype=x.dtype)
    leave(x)
    x._data = in_place_of(x._array, data)
    if x.node is not None and x.node.op is not LEAF and x.writes_through is None:
        x.node = None  # elsewhere the value changes, not the way that its gradients take
    return x


def recast_(x: Tensor, dtype: DType) -> None:
    """Give a leaf, and its gradient, another dtype; the object stays the one that others refer to."""
    if x.dtype == dtype:
        return
    tracked, grad = x.requires_grad, x.grad
    # What may raise comes before anything changes.
    made = wrap(_recast(x, dtype))
    of_gradient = None if grad is None else wrap(_recast(grad, dtype))
    x.requires_grad_(False)
    leave(x)
    x._data, x._spec, x._share = made._array, made._spec, None
    if tracked:
        x.requires_grad_()
    if of_gradient is not None:
        x.grad = of_gradient


def _recast(x: Tensor, dtype: DType) -> Any:
    """Return a tensor's value in another dtype, on the same device."""
    return x._array.cast(dtype) if isinstance(x._array, Elsewhere) else x.detach().numpy().astype(dtype)


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

    op = {"add": add, "sub": subtract, "mul": multiply, "truediv": divide}.get(name)

    def compute(x: Tensor, other: Any) -> Tensor:
        out: Tensor = METHODS[plain](x, other)
        node = out.node
        if node is not None and node.code is compute.__code__:
            node.code, node.offset = caller()  # the operator took this function for its caller
        return out

    def augmented(self: Tensor, other: Any) -> Any:
        if self.is_weak:  # a Python number, whose name is bound anew
            return compute(self, other)
        base = taken_from(self) if type(self._share) is tuple else None
        frame = sys._getframe(1)
        if base is not None and base[1] is frame.f_code and is_stored_back(frame.f_code, base[2], frame.f_lasti):
            return compute(self, other)  # x[i] += y: x takes it
        if op is not None and _at_once(self, symbol, op, other):
            return self
        return update(self, symbol, lambda old: compute(old, other))

    augmented.__name__ = f"__i{name}__"
    augmented.__doc__ = f"`x {symbol} y`: gives `x` a new version, whoever holds it."
    return augmented


for _name, _symbol in _AUGMENTED.items():
    METHODS[f"__i{_name}__"] = _augmented(_name, _symbol)
