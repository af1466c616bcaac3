"""Running and recording an operation: `bind`, the general path behind every front door."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..arrays import in_order_of
from ..dims import has_dims
from ..dtypes import STORED, DType, refuse_stored
from ..elsewhere import Elsewhere, PlacedSpec, as_data
from ..errors import DTypeError, GraphError, RangeError, ShapeError, WengertError, fail, is_internal, user_frame
from ..mode import get_mode
from ..node import EMPTY_ATTRS, Mixed, Node, is_stopped, make_node, note_node
from ..spec import Spec, category, promote, promote_scalar, show, spec_of
from ..standins import PYTHON_DTYPES, WeakTensor, weak
from ..state.blocks import LEFT, take_op
from ..state.capture import get_capture
from ..state.observer import detours, observers, raise_of_observer
from ..storage import lies_in, viewed, window_of
from ..tensor import (
    Tensor,
    abstract,
    abstract_like,
    like,
    ndarray,
    new,
    of_class,
    result_class,
    take,
    wrap,
)
from . import kernels
from .autocast import in_its_precision
from .facets import Form, Role
from .op import ALIAS, TABLE, Op

SCALARS = frozenset({bool, int, float, complex})
# A Python number of every category, whose dtype is weak.
EXAMPLES: tuple[Any, ...] = (False, 0, 0.0, 0j)


def caller() -> tuple[CodeType | None, int]:
    """Return the code object and offset of the innermost frame outside Wengert."""
    frame = user_frame(2)
    return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)


# -- the general path


def bind(op: Op, args: Sequence[Any], attrs: Mapping[str, Any] = EMPTY_ATTRS) -> Any:
    """Run `op` on tensors and weak scalars that are already promoted and normalised; record it.

    Returns a tensor, or a tuple of them for an op with several results.
    """
    if detours:
        args = in_its_precision(op, args)
    if STORED and not (op.view or op.role is Role.PASS or "moves" in op.facets) and TABLE.get(op.name) is op:
        for a in args:
            if isinstance(a, Tensor) and a.spec.dtype in STORED:
                refuse_stored(op.name, a.spec.dtype, describe(args))
    if len(args) == 1 and op.results == 1:
        x = args[0]
        kind = type(x)
        if kind is Tensor or (isinstance(x, Tensor) and kind is not WeakTensor):
            try:
                value = x._data
            except AttributeError:
                return _bind_lent(op, args, attrs)
            if value is not None:
                return _bind_one(op, x, value, attrs)
    cls = result_class(args)
    return _bind(op, args, attrs) if cls is Tensor else of_class(cls, _bind(op, args, attrs))


def _bind(op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    if op.kind == "source" and get_mode().tracing:
        return bind_abstract(op, args, attrs)
    values = []
    tracked = is_abstract = False
    for a in args:
        if isinstance(a, Tensor):
            if type(a) is WeakTensor:
                return run_weak(op, args, attrs, bind)
            try:
                value = a._data
            except AttributeError:
                return _bind_lent(op, args, attrs)
            node = a.node
            if value is None:
                is_abstract = True
            if node is not None and node.requires_grad:
                tracked = True
            values.append(value)
        else:
            values.append(a)
    if is_abstract:
        return bind_abstract(op, args, attrs)
    try:
        data = forward_values(op, args, values, attrs)
    except GraphError as e:
        raise_of_observer(e)
        if has_dims(tuple(attrs.values())):  # values are there, but a size that an attribute names is not
            return bind_abstract(op, args, attrs)
        raise
    return record(op, args, values, data, attrs, tracked and op.differentiable and get_mode().grad)


def _bind_lent(op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Run `bind` where the slot of an argument's value is empty.

    It is in memory that is written in place, which is read at once if nothing is recorded; or it is still to be
    computed, and then a block of batching may take the operation.
    """
    if (found := take_op(op, args, attrs)) is not LEFT:
        return found
    tensors = [a for a in args if isinstance(a, Tensor)]
    if any(type(a) is WeakTensor for a in tensors):
        return run_weak(op, args, attrs, bind)
    if any(window_of(a) is None for a in tensors):
        return bind_abstract(op, args, attrs)
    tracked = op.differentiable and get_mode().grad and any(a.requires_grad for a in tensors)
    read = viewed if op.view else window_of if not (tracked or observers) else _kept
    values = [read(a) if isinstance(a, Tensor) else a for a in args]
    cls = result_class(args)
    data = forward_values(op, args, values, attrs)
    if read is window_of:
        data = apart(data, values)
    out = record(op, args, values, data, attrs, tracked)
    if op.view and op.results == 1:
        take(out, args[0], *caller())
    return out if cls is Tensor else of_class(cls, out)


def _kept(x: Tensor) -> Any:
    return x._array


def apart(data: Any, values: Sequence[Any]) -> Any:
    """Return the results of an op in memory of their own: some ops give what they were given."""
    if isinstance(data, tuple):
        return tuple(apart(d, values) for d in data)
    if type(data) is ndarray and any(type(v) is ndarray and lies_in(data, v) for v in values):
        return data.copy()
    return data


def run_weak(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], run: Callable[..., Any]) -> Any:
    """Run an op by `run(op, args, attrs)` where some arguments are weak tensors of Python numbers.

    Where all floating arguments do, so does the result; else they take the dtype that the others have together.
    """
    others = [a.dtype for a in args if isinstance(a, Tensor) and type(a) is not WeakTensor and category(a.dtype) >= 2]
    if others:
        dtype = functools.reduce(promote, others)
        return run(op, [in_dtype_of(dtype, a) for a in args], attrs)
    out = run(op, [a.wide() if type(a) is WeakTensor else a for a in args], attrs)
    if op.name == "cast":
        return out
    before = {a.dtype for a in args if type(a) is WeakTensor}
    if isinstance(out, tuple):
        return tuple(_as_weak(o, op, before) for o in out)
    return _as_weak(out, op, before)


def in_dtype_of(dtype: DType, x: Any) -> Any:
    """Return a weak tensor in the dtype in which its numbers meet `dtype`; any other argument as it is."""
    if type(x) is not WeakTensor:
        return x
    return TABLE["cast"].front(x.wide(), dtype=promote_scalar(dtype, EXAMPLES[category(x.dtype)]))


def _as_weak(out: Tensor, op: Op, before: set[DType]) -> Tensor:
    # Counts and indices that an op makes of numbers are no such numbers.
    is_number = out.dtype in PYTHON_DTYPES[2:] or (out.dtype in before and op.kind in ("linear", "elementwise"))
    return weak(out) if is_number and category(out.dtype) else out


def record(op: Op, args: Sequence[Any], values: list[Any], data: Any, attrs: Mapping[str, Any], tracked: bool) -> Any:
    """Return the result `data` of an op, already computed, as a tensor (or several); recorded where `tracked`."""
    if op.results != 1:
        specs = tuple(spec_of(d.shape, d.dtype) for d in data)
        if not tracked:
            return _based(op, args, tuple(wrap(d, s) for d, s in zip(data, specs, strict=True)))
        node = _record(op, args, attrs, values, data, specs)
        return _based(op, args, tuple(pick(node, i, d) for i, d in enumerate(data)))
    if type(data) is ndarray and data.ndim > 1 and (op.kind == "composite" or not data.flags.c_contiguous):
        data = _packed(op, values, data)
    spec = spec_of(data.shape, data.dtype)
    out = wrap(data, spec)
    if tracked and spec.inexact:
        out.node = _record(op, args, attrs, values, data, spec)
    return out


def _packed(op: Op, values: Sequence[Any], data: Any) -> Any:
    """Return a result as it is to lie in memory: in C order, but for views and for elements in their own places.

    What is costly to compute stays as it is made.
    """
    if op.kind == "composite" and not op.layout.strip("(),->"):
        return in_order_of(data, values)
    if op.view or op.by_kernel or op.role in _IN_PLACE or any(data is v for v in values):
        return data
    return np.ascontiguousarray(data)


# The roles of ops whose results' elements lie as those of their arguments do.
_IN_PLACE = frozenset({Role.BY_ELEMENT, Role.PASS})


def _based(op: Op, args: Sequence[Any], outs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the results of an op, noted as taken from its argument where they are elements of it."""
    if op.view:
        place = caller()
        for out in outs:
            take(out, args[0], *place)
    return outs


_ONE_TRACKED = (True,)


def _bind_one(op: Op, x: Tensor, value: Any, attrs: Mapping[str, Any]) -> Any:
    """Run `bind` for one tensor with a value and one result (a reduction, a reshape): the same, in less time."""
    try:
        if observers or op.by_kernel:
            data = kernels.compute(op, (value,), attrs)
        else:
            data = op.forward(value, **attrs)
    except WengertError as e:
        raise_of_observer(e)
        if has_dims(tuple(attrs.values())):
            return bind_abstract(op, (x,), attrs)
        data = where_they_are(op, (value,), attrs, e)
    except Exception as e:
        raise_of_observer(e)
        data = instead(op, (x,), [value], attrs, e)
    return record_one(op, x, data, dict(attrs) if attrs else EMPTY_ATTRS)


def record_one(op: Op, x: Tensor, data: Any, attrs: dict[str, Any]) -> Tensor:
    """Return the result `data`, already computed, of an op on one tensor; recorded where `x` is tracked."""
    known: Spec | None = None
    if type(data) is not ndarray:
        data = as_data(data)
        if type(data) is not ndarray:  # what a compiled function gave on a device
            known = data.spec
    elif data.ndim > 1 and (op.kind == "composite" or not data.flags.c_contiguous):
        data = _packed(op, (viewed(x),), data)
    out = new(Tensor if type(x) is Tensor else x.result_class)
    out._data = data
    near, shape = x._spec, data.shape
    if known is None and data.dtype is near.dtype:
        known = near.family.get(shape)
    out._spec = spec = known or spec_of(shape, data.dtype)
    out.node = out._share = None
    node = x.node
    tracked = node is not None and node.requires_grad and spec.inexact and op.differentiable
    if tracked:
        mode = get_mode()
        tracked = mode.grad
    if not (tracked or op.view):
        return out
    frame: FrameType | None = sys._getframe(2)  # who calls this is one of Wengert's
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    code, offset = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    if op.view:
        take(out, x, code, offset)
    if not tracked:
        return out
    needs, needs_out = op.save_plan(_ONE_TRACKED)
    out.node = made = Node()
    made.op = op
    made.inputs = (node,)
    made.attrs = attrs if attrs else EMPTY_ATTRS
    made.saved = (x._array if needs else None, out._array if needs_out else None) if needs or needs_out else ()
    made.spec = spec
    made.code, made.offset = code, offset
    made.scope = mode.scope
    if observers:
        note_node(made)
    return out


def forward_values(op: Op, args: Sequence[Any], values: list[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the op's forward of these values; what NumPy raises becomes an error in the library's words."""
    try:
        if observers or op.by_kernel:
            return kernels.compute(op, values, attrs)
        return op.forward(*values, **attrs)
    except WengertError as e:
        return where_they_are(op, values, attrs, e)
    except Exception as e:
        return instead(op, args, values, attrs, e)


def where_they_are(op: Op, values: Sequence[Any], attrs: Mapping[str, Any], raised: WengertError) -> Any:
    """Return an op's result for values that are not here as a whole, computed where they are.

    Raises what the op's forward raised if that cannot be: of a value elsewhere, by the op that it was given to.
    """
    for value in values if raised.is_elsewhere and TABLE.get(op.name) is op else ():
        if isinstance(value, Elsewhere):
            found = value.of_elements(op, values, attrs) if op.kind == "elementwise" and op.results == 1 else None
            if found is not None:
                return found
            value.refuse(op.name)
    raise raised


def instead(op: Op, args: Sequence[Any], values: list[Any], attrs: Mapping[str, Any], raised: Exception) -> Any:
    """Raise what an op's forward raised, in the library's words; or return its value, where that was a warning."""
    if "calls_user" in op.facets:
        raise_of_observer(raised)
        raise raised
    if isinstance(raised, WengertError):
        return where_they_are(op, values, attrs, raised)
    if isinstance(raised, RuntimeWarning):
        raise_of_observer(raised)
        # Division by zero is a value: where warnings are made errors, NumPy is asked again, quietly.
        with np.errstate(all="ignore"):
            return op.told(values, attrs) if observers else op.forward(*values, **attrs)
    if isinstance(raised, MemoryError):
        fail(ShapeError, f"{op.name}: not enough memory for the result of {describe(args)}")
    if isinstance(raised, (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError)):
        raise_of_observer(raised)
        # The shape rule words the error where it can; NumPy's own words are the fallback.
        if hasattr(op, "infer"):
            op.infer(*(argument_spec(a) for a in args), **attrs)
        kind = DTypeError if isinstance(raised, (TypeError, OverflowError)) else ShapeError
        fail(RangeError if isinstance(raised, IndexError) else kind, f"{op.name} of {describe(args)}: {raised}")
    raise raised


def bind_abstract(op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Record an op without running it: its shape rule says what the result is."""
    capture = get_capture()
    if capture is not None:
        capture.meet(args)
        if any(isinstance(v, Tensor) for v in attrs.values()):  # a number among the attributes is part of the program
            attrs = {k: np.asarray(v._decided(k)).item() if isinstance(v, Tensor) else v for k, v in attrs.items()}
    specs = op.infer(*(argument_spec(a) for a in args), **attrs)
    mode = get_mode()
    given: Any = args[0] if args else None
    if mode.grad and op.differentiable:
        args = [resumed(a) for a in args]
    tracked = mode.grad and op.differentiable and any(isinstance(a, Tensor) and a.requires_grad for a in args)
    code, offset = caller()
    inputs = tuple(graph_input(a) for a in args)
    saved = mixed(args, inputs)
    if op.results != 1:
        node = make_node(op, inputs, dict(attrs), saved, specs, code, offset, mode.scope, tracked, not mode.grad)
        return _based(op, (given,), tuple(pick(node, i, None) for i in range(len(specs))))
    tracked = tracked and specs.inexact
    out = abstract(make_node(op, inputs, dict(attrs), saved, specs, code, offset, mode.scope, tracked, not mode.grad))
    if op.view:
        take(out, given, code, offset)
    return out


def resumed(x: Any) -> Any:
    """Return a value traced under `no_grad`, as used outside: an op of the graph stops its gradient there."""
    if isinstance(x, Tensor) and x._array is None and is_stopped(x.node) and x.spec.inexact:
        return stopped(x)
    return x


def stopped(x: Tensor) -> Tensor:
    """Return an abstract value behind `stop_gradient`."""
    stop = TABLE["stop_gradient"]
    node = make_node(stop, (x.node,), EMPTY_ATTRS, (), x.spec, *caller(), get_mode().scope, tracked=False)
    return abstract(node)


def mixed(args: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the saved arguments of an abstract node, where one has a value that its inputs do not hold."""
    for a, entry in zip(args, inputs, strict=True):
        if isinstance(entry, Node) and a._array is not None:
            return Mixed([same_value(a) if isinstance(a, Tensor) else a for a in args])
    return ()


def same_value(x: Tensor) -> Tensor:
    """Return a tensor of the same value and node: writing to `x` does not change it."""
    if type(x) is WeakTensor:
        return weak(x)
    if x._array is None:
        return abstract_like(x)
    out = like(x, wrap(x._array, x._spec))
    out.node = x.node
    return out


def filled(number: Any, spec: Spec) -> Tensor:
    """Return a tensor of one number; a broadcast of it where a size is not known."""
    if has_dims(spec.shape):
        return TABLE["broadcast"].front(wrap(np.asarray(number, spec.dtype)), shape=spec.shape)  # type: ignore[no-any-return]
    return wrap(np.full(spec.shape, number, spec.dtype))


def another(x: Tensor) -> Tensor:
    """Return `x` as another tensor object: writing to one of them leaves the other."""
    node = x.node
    is_recorded = node is not None and node.requires_grad and get_mode().grad
    if is_recorded and node.op.kind == "leaf":  # type: ignore[union-attr]
        node = make_node(ALIAS, (node,), EMPTY_ATTRS, (), x.spec, *caller(), get_mode().scope)
    out = abstract_like(x) if x._array is None else like(x, wrap(x._array, x.spec))
    if is_recorded or x._array is None:
        out.node = node
    return weak(out) if type(x) is WeakTensor else out


def graph_input(arg: Any) -> Any:
    """Return the entry of `Node.inputs` for an argument: its node, a constant's array, or a literal.

    An array, not its tensor: the tensor may be given another value later, its array never changes.
    """
    if isinstance(arg, Tensor):
        return arg.node if arg.node is not None else arg._array
    return arg


def argument_spec(arg: Any) -> Any:
    """Return a tensor's spec; a literal as it is."""
    return arg.spec if isinstance(arg, Tensor) else arg


def _record(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], values: list[Any], data: Any, spec: Any) -> Node:
    code, offset = caller()
    inputs = tuple([graph_input(a) for a in args])
    return make_node(
        op,
        inputs,
        dict(attrs) if attrs else EMPTY_ATTRS,
        _saved(op, args, values, data),
        spec,
        code,
        offset,
        get_mode().scope,
    )


def _saved(op: Op, args: Sequence[Any], values: list[Any], data: Any) -> tuple[Any, ...]:
    """Return the values that the derivative needs, aligned with the inputs, the result last."""
    return kept_values(op, tuple([isinstance(a, Tensor) and a.requires_grad for a in args]), values, data)


def kept_values(op: Op, tracked: tuple[bool, ...], values: list[Any], data: Any) -> tuple[Any, ...]:
    """Return the values that a node keeps when these arguments are tracked, the result last."""
    needs, needs_out = op.save_plan(tracked)
    if not needs and not needs_out:
        return ()
    kept = [v if i in needs or type(v) in SCALARS else None for i, v in enumerate(values)]
    kept.append(data if needs_out else None)
    return tuple(kept)


OUTPUT = Op(
    "output(x; index)",
    "linear",
    forward=lambda x, index: x[index],
    infer=lambda x, index: x[index],
    doc="One result of an op with several.",
    role=Role.PASS,
    cost=0,
    form=Form("#", say="One of several results: its gradient goes back to the operation."),
)


def pick(node: Node, index: int, data: Any) -> Tensor:
    """Return result `index` of a node with several; `data` is its value, None while tracing."""
    spec: Spec = node.spec[index]  # type: ignore[index]
    if not node.requires_grad or not spec.inexact:
        if data is not None:
            return wrap(data, spec)
        return abstract(
            make_node(OUTPUT, (node,), {"index": index}, (), spec, node.code, node.offset, node.scope, False)
        )
    out = abstract(node) if data is None else wrap(data, spec)
    out.node = make_node(OUTPUT, (node,), {"index": index}, (), spec, node.code, node.offset, node.scope)
    return out


def describe(args: Sequence[Any]) -> str:
    """Return arguments as errors show them: `(3, 4) float32 and (5,) float32`."""
    parts = [show(a.shape, a.dtype) if isinstance(a, Tensor) else repr(a) for a in args]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else parts)


def abstract_input(spec: Spec, name: str = "", requires_grad: bool = False) -> Tensor:
    """Return an abstract tensor that stands for a graph's input; where its value is, is no part of a graph."""
    if type(spec) is PlacedSpec:
        spec = spec_of(spec.shape, spec.dtype)
    node = make_node(
        TABLE["input"], (), {"name": name} if name else EMPTY_ATTRS, None, spec, None, 0, None, requires_grad
    )
    return abstract(node)
