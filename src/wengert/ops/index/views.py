"""Writes to views: in NumPy and PyTorch a slice or a transpose shares its array's memory, and a write reaches it.

In a namespace whose tensors have `writes_through`, tensors that share memory are the members of one
:mod:`wengert.core.storage`, and a write to one of them is seen by all:

- Where they have values, the value is written into the memory.
- Where gradients are recorded, the root's new version is computed from its old one and what was written, by the
  window of the member as ops; members that carry gradients are taken from it anew.
- Where values are abstract, nodes say how a member was taken from the root. A write undoes these ops one by one, and
  all members are taken anew.

What can be done by none of these is refused, as every write to a view is in `wengert` itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.elsewhere import Elsewhere, in_place_of
from ...core.errors import DTypeError, GradientError, WriteError, fail
from ...core.graph.snapshot import LEAVES
from ...core.mode import enable_grad, get_mode, no_grad
from ...core.node import EMPTY_ATTRS, Node, make_node
from ...core.ops.facets import Role
from ...core.ops.op import ALIAS, LEAF, TABLE, Op
from ...core.ops.record import bind, bind_abstract, caller, same_value
from ...core.spec import show
from ...core.state.capture import fresh_leaves, get_capture, note_write, notes_writes
from ...core.state.refusals import refuse
from ...core.storage import (
    Branch,
    Storage,
    address,
    assign_data,
    bounds,
    is_given,
    is_shared,
    join,
    leave,
    living,
    move,
    overlaps_itself,
    pin,
    root_of,
    share,
    storage_of,
    window_of,
)
from ...core.tensor import Tensor, abstract, asarray, leaf_node, of_class, wrap
from ..structure.axes import permute_op
from ..structure.shapes import cast, reshape_op, reshaped
from .indices import index_op, index_update
from .inplace import give, keep_grad, recast_
from .memory import Array, is_same, positions, shares, slices
from .slices import slice_op

# An op with its attributes, the number of the result that was taken, if it has several, and its other arguments.
Step = tuple[Op, Any, int | None, tuple[Any, ...]]


def _tracked(x: Any) -> bool:
    return x.node is not None and x.node.requires_grad


def _carries(view: Tensor) -> bool:
    """Return whether a view carries the gradients of its root: a leaf that shares its memory collects its own."""
    return _tracked(view) and view.node.op is not LEAF  # type: ignore[union-attr]


def _base_node(base: Any) -> Node | None:
    """Return the node that computed the whole of which a storage or a branch has views."""
    if type(base) is Storage and (root := root_of(base)) is not None:
        node: Node | None = root.node
        return node
    return base.node  # type: ignore[no-any-return]


def lie_in(out: Tensor, owner: Tensor, window: Any) -> Tensor:
    """Make what ops gave for a window of `owner` a view of it, which lies in its memory where both have values."""
    whole = window_of(owner)
    if out._array is not None and whole is not None:
        out._data, out._share = window(whole), None
    join(out, owner)
    return out


class FromOwner(NamedTuple):
    """The way in which a view is taken from its owner, if it is known."""

    steps: tuple[Step, ...] | None

    def trace(self, owner: Tensor, tracked: bool) -> Any:
        """Return, recorded, the view of an abstract tensor; without a gradient unless it is `tracked`."""
        assert self.steps is not None
        with enable_grad() if tracked else no_grad():
            return done(self.steps, owner)

    def of(self, owner: Tensor, value: Tensor) -> Tensor:
        """Make a view of a new tensor that has the value of one: it lies in the owner's memory."""
        whole = window_of(owner)
        if isinstance(whole, Elsewhere) != isinstance(value._array, Elsewhere):
            return value
        window = None if self.steps is None else whole
        for op, attrs, output, others in self.steps or ():
            if op is index_op or others or (isinstance(whole, Elsewhere) and op.role is not Role.PASS):
                window = None
                break
            window = op.forward(window, **attrs)
            window = window if output is None else window[output]
        if window is None and isinstance(whole, Elsewhere):
            join(value, owner, keeps_gradients=value.requires_grad)  # a write to either is refused
        elif window is None:
            _sever(value)
        elif shares(window, whole):  # else a copy was made, as of what lies otherwise
            value._data = window
            join(value, owner, keeps_gradients=value.requires_grad)
        return value


class Severed(Branch):
    """A view that a compiled function gave in a way that is not known: it has a value of its own."""

    __slots__ = ()


def _sever(x: Tensor) -> None:
    base = Severed()
    base.storage, base.node = share(x).storage, x.node
    x._share = base


class Through:
    """The way of writes to tensors of a namespace with views to all that shares memory with them."""

    # -- what may be written

    def check(self, x: Tensor, what: str) -> None:
        """Raise where a write to a member of a storage cannot be carried to the others.

        WriteError where it is not known how, GradientError where the gradient of a leaf would be lost.
        """
        window, base = window_of(x), x._share
        if x.node is None and type(base) is Storage and type(window) is np.ndarray and window.flags.c_contiguous:
            return
        if isinstance(window, Elsewhere):
            return
        if window is None:
            if not x.is_name:  # else its owner is assigned to, which looks at all that shares memory with it
                self._check_traced(x, what)
            return
        is_own = root_of(base.storage) is x and not is_shared(x)  # a value that was made of what was expanded
        if not is_own and not window.flags.c_contiguous and overlaps_itself(window):
            fail(
                WriteError,
                f"{what} on a view, {show(x.shape, x.dtype)}, in which elements share memory",
                "One write would change several of them, as in what was expanded. Take a copy first, x.clone().",
            )
        if type(base) is Severed:
            fail(
                WriteError,
                f"{what} on a view that a compiled function gave, {show(x.shape, x.dtype)}",
                "It has a value of its own: the write would not reach the tensor that it was taken from. "
                "Write to that one, or let the function return a copy, v.clone().",
            )
        if get_mode().grad and _carries(x):
            self._refuse_leaf(base, what)
            if x.dtype != base.storage.whole.dtype and (base_node := _base_node(base)) and base_node.requires_grad:
                fail(
                    WriteError,
                    f"{what} on a view, {show(x.shape, x.dtype)}, of a tensor of another dtype that carries gradients",
                    "Write to that tensor itself, or take a copy, x.clone().",
                )

    def _refuse_leaf(self, base: Any, what: str) -> None:
        node = _base_node(base)
        if node is not None and node.op is LEAF and node.requires_grad:
            fail(
                GradientError,
                f"{what} on a view of a leaf that requires gradients, {show(node.spec.shape, node.spec.dtype)}",
                "Its gradient would be lost. Update it without recording (with torch.no_grad(): ...), "
                "or make a new tensor: y = x.clone(), then write to y.",
            )

    def _check_traced(self, x: Tensor, what: str) -> None:
        base = x._share
        steps = _way(x, base)
        if steps is None or any(op.name == "broadcast" for op, *_ in steps):
            self._refuse_unknown(x, what)
        if get_mode().grad and not _is_detached(steps):
            self._refuse_leaf(base, what)
        for t in living(base.storage):
            if _way(t, t._share) is None:
                self._refuse_unknown(t, what)

    def _refuse_unknown(self, x: Tensor, what: str) -> NoReturn:
        fail(
            WriteError,
            f"{what}, where there is a view, {show(x.shape, x.dtype)}, that was taken in a way that cannot be followed",
            "While a function is compiled, expanded tensors and values from outside cannot follow. "
            "Write to the tensor itself, x[...] = v, or take a copy, v.clone().",
        )

    # -- writes

    def write(self, x: Tensor, new: Tensor) -> bool:
        """Give `x` the value of `new`, and all that shares memory with it theirs; False where nothing does."""
        if new.shape != x.shape:
            return False
        if not is_shared(x):
            if get_mode().grad or x._array is None or new._array is None or x.node is None or x.node.op is LEAF:
                return False
            # A write that is not recorded changes the value, not the way that its gradients take.
            note_write(x, False)
            x._data = in_place_of(x._array, new._array)
            return True
        if window_of(x) is None or new._array is None:
            self._write_traced(x, new)
        else:
            self._write_values(x, new)
        return True

    def assign(self, x: Tensor, new: Tensor) -> bool:
        """Give `x` a value outside any graph, and all that shares memory with it theirs; False where nothing does."""
        if not is_shared(x):
            return False
        if new.dtype != x.dtype:
            new = cast.front(new, dtype=x.dtype)
        if window_of(x) is not None and new._array is not None:
            self.put(x, new._array)
            return True
        self._write_traced(x, new, is_past=True)
        return True

    def put(self, x: Tensor, data: Any) -> None:
        """Write an array to a member of a storage with a value, whose dtype it has, past the graph."""
        s: Storage = x._share.storage
        for t in living(s) if notes_writes() else ():
            note_write(t, False)
        old = window_of(x)
        if isinstance(old, Elsewhere):
            _names_of_value(x, old, living(s))
        assign_data(x, in_place_of(old, data))
        if fresh_leaves() is not None:
            for t in living(s):
                # In a trace a leaf stands for its value.
                if t.node is not None and t.node.op is LEAF and t.node.inputs:
                    t.node = leaf_node(t, t._array)

    def part(self, x: Tensor, value: Any) -> None:
        """Give `x` memory of its own, and the dtype of `value`, as `x.data = v` does.

        What shared memory with it keeps its value and goes on sharing the old memory, `x.data` of before included.
        """
        shared = is_shared(x)
        if window_of(x) is None and not (shared and root_of(x._share.storage) is x):
            capture = get_capture()
            if capture is not None:
                capture.part(x)
            x._share = None
        elif window_of(x) is None:
            fail(
                WriteError,
                f"x.data = v for {show(x.shape, x.dtype)}, while views of it live",
                "They would keep the old memory, which a compiled function has not. Take copies, or do it outside.",
            )
        elif shared:
            pin(x)
            data = x._array
            leave(x)
            x._data = data.copy()
        if isinstance(value, Tensor) and value.dtype != x.dtype:
            if x._array is None or value._array is None:
                fail(
                    DTypeError,
                    f"x.data = v with a value of {value.spec} for {x.spec}, while it has no value",
                    "A tensor keeps its dtype inside of a compiled function. Change it outside.",
                )
            recast_(x, value.dtype)

    def set_data(self, x: Tensor, value: Any) -> None:
        """Give `x` the value of another tensor, and its memory, as `x.data = value` does.

        Each has its own where elements share bytes or the gradients of `x` have a way to go on. Raises TraceError in a
        trace for a value that shares memory with others.
        """
        self.part(x, value)
        x.assign_(value)
        if isinstance(value, Tensor) and window_of(value) is None and window_of(x) is None:
            if storage_of(value) is not None or (value.node is not None and value.node.op in LEAVES):
                refuse(
                    f"x.data = v for {show(x.shape, x.dtype)}, where v is given or has views",
                    "Both would share memory from then on, which a compiled function does not know of. "
                    "Write x.data.copy_(v), or do it outside.",
                    x,
                )
            join(value, x, keeps_gradients=False)
            return
        if not isinstance(value, Tensor) or value.writes_through is None or value.is_weak or notes_writes():
            return
        node, window = x.node, window_of(value)
        if (node is not None and node.op is not LEAF) or type(window) is not np.ndarray or overlaps_itself(window):
            return
        if window.dtype == x.dtype and type(window_of(x)) is np.ndarray:
            move(x, window, value)
            x.node = node

    def settle(self, out: Tensor, x: Tensor) -> None:
        """Make a reshaped abstract tensor one of its own, where its elements would have to be copied."""
        whole = layout(x)
        if whole is not None and not shares(whole.reshape(tuple(out.shape)), whole):
            leave(out)

    def refuse_apart(self, x: Tensor) -> None:
        """Raise WriteError for a value on a device, of which a program has given a view that writes do not reach."""
        if is_shared(x):
            _names_of_value(x, x._array, living(x._share.storage))

    # -- views of what a compiled function is given

    def window(self, x: Tensor, owner: Tensor) -> Any:
        """Return a hashable window that a view has of an owner with a value; None where a trace cannot take it.

        What carries gradients has to be what ops took from the owner as it is.
        """
        part, whole = window_of(x), window_of(owner)
        if whole is None or not part.size or part.dtype != whole.dtype or not shares(part, whole):
            return None
        if _tracked(x) and not _is_taken(x.node, owner.node):
            return None
        if isinstance(part, Elsewhere):
            return 0, part.shape, (), whole.shape, (), _tracked(x)
        low, high = bounds(whole)
        start = address(part)
        if start < low or bounds(part)[1] > high or overlaps_itself(part):
            return None
        return start - address(whole), part.shape, part.strides, whole.shape, whole.strides, _tracked(x)

    def source(self, x: Tensor) -> Node | None:
        """Return the node that computed the memory in which an abstract tensor lies."""
        return x.node if storage_of(x) is None else _base_node(x._share.storage)

    def taken(self, x: Tensor, owner: Tensor) -> FromOwner:
        """Return how a view was taken from a tensor that shares memory with it."""
        part, whole = window_of(x), window_of(owner)
        if part is None or whole is None:
            steps = None if part is not None or whole is not None else _walked(x.node, owner.node)
        else:
            steps = _laid(part, whole)
        return FromOwner(None if steps is None else tuple(steps))

    # -- traces

    def _write_traced(self, x: Tensor, new: Tensor, is_past: bool = False) -> None:
        """Write where values are abstract: with new gradients, or past the graph, whose gradients go on as they did."""
        base = x._share
        s: Storage = base.storage
        members = living(s)
        root, found = root_of(s), [(t, _way(t, t._share)) for t in members]
        for t, steps in found:
            if steps is None:
                self._refuse_unknown(t, "a write in a compiled function")
        if s.whole is None:
            before = same_value(root) if root is not None else of_class(x.result_class, abstract(s.node))
        else:  # all of them have no value from now on, and what they shared outside stays as it is
            if is_given(s):
                fail(
                    WriteError,
                    f"an abstract value written to {show(x.shape, x.dtype)}, which shares memory with a NumPy array",
                    "A compiled function does not write to that array. Take a copy first, x.clone().",
                )
            before = of_class(x.result_class, wrap(s.whole))
            before.node = _base_node(s)
            pin(x)
        steps = next(steps for t, steps in found if t is x) or []
        is_detached = _is_detached(steps)
        if (is_past or is_detached or not get_mode().grad) and _tracked(before):
            with no_grad():
                made = _undone(steps, before, new)
            with enable_grad():
                made = TABLE["straight_through"].front(made, before)
        else:
            made = _undone(steps, before, new)
        if made._array is not None:  # a constant of the program, of which views are taken as of any other value there
            if before._array is None:  # made of the value before, so that it is one of this trace
                made = bind(TABLE["slice_update"], (before, made), {"entries": ()})
            else:
                made = of_class(x.result_class, bind_abstract(TABLE["copy"], (made,), {}))
        if s.whole is not None:
            fresh = Storage()
            fresh.members, fresh.limit = list(s.members), s.limit
            fresh.whole = fresh.memory = fresh.given = None
            fresh.read = fresh.version = 0
            for t in members:
                note_write(t, True)
                t._share = fresh
            s = fresh
        if root is not None:
            give(root, made)
            source = root
        else:
            source = made
        s.node = source.node
        s.version += 1
        for t, steps in found:
            if t is x and is_detached and _tracked(new) and not is_past:
                give(t, new)
            elif t is not root:
                give(t, _retaken(t, steps or [], source))

    # -- values

    def _write_values(self, x: Tensor, new: Tensor) -> None:
        """Write a value; recorded where gradients are."""
        base = x._share
        s: Storage = base.storage
        node = _base_node(base)
        is_tracked = node is not None and node.requires_grad
        if not (get_mode().grad and (is_tracked or _tracked(new))):
            self.put(x, new._array)
            return
        family = [t for t in living(s) if t._share is base]
        # The values before are those of recorded nodes from now on.
        pin(x)
        whole, part = s.whole, window_of(x)
        before = of_class(x.result_class, wrap(whole if s.memory is None else whole.copy()))
        before.node = node
        is_whole = is_same(part, whole)
        made = None
        if is_whole:
            made = new
        elif not is_tracked or _carries(x):
            made = _put(before, whole, part, new)
        windows = [(t, window_of(t)) for t in family if t is not x]
        self.put(x, new._array)
        if made is None:  # a detached part: the value changes, the way of its root's gradients does not
            _renew(x, new.node if _tracked(new) else None)
            return
        base.node = made.node if _tracked(made) else None
        if base.node is None or root_of(s) is x:
            _renew(x, base.node)
        else:  # from now on a view of the value that was written: gradients of that have those of its views in them
            _renew(x, _named(made) if is_whole else _take(made, whole, part).node)
        for t, window in windows:
            if is_same(window, whole):
                if root_of(s) is t or base.node is None:
                    _renew(t, base.node)
                elif t.node is None or t.node.op is not LEAF:
                    _renew(t, _named(made))
            elif window.dtype == whole.dtype and (_carries(t) or not is_tracked) and shares(window, part):
                taken = _take(made, whole, window)
                _renew(t, taken.node if _tracked(taken) else None)


def _is_detached(steps: Iterable[Step]) -> bool:
    return any(op.name == "stop_gradient" for op, *_ in steps)


def _named(x: Tensor) -> Node:
    """Return a node for a view that has all of a value: its hooks and gradient are not those of the value's root."""
    assert x.node is not None
    return make_node(ALIAS, (x.node,), EMPTY_ATTRS, (), x.spec, *caller(), get_mode().scope)


def _renew(t: Tensor, node: Node | None) -> None:
    before, t.node = t.node, node
    keep_grad(t, before)


def _retaken(view: Tensor, steps: Iterable[Step], whole: Tensor) -> Any:
    """Return a view of its root's new version; gradients go on taking the way that they took."""
    with enable_grad() if _tracked(view) else nullcontext():
        return done(steps, whole)


def _names_of_value(x: Tensor, value: Any, tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return those of the tensors that have the same value as `x`, which is elsewhere.

    Raises WriteError for one that a program took from it: where that is, values share no memory.
    """
    found = [t for t in tensors if t._array is value]
    apart = [t for t in tensors if t._array is not value and isinstance(t._array, Elsewhere)]
    if apart:
        fail(
            WriteError,
            f"a write to {show(x.shape, x.dtype)}, of which a compiled function gave a view, "
            f"{show(apart[0].shape, apart[0].dtype)}, on {apart[0].device}",
            "The write would not reach the view there. Let the function return a copy, v.clone().",
        )
    return found


# -- a window as ops


def _take(owner: Tensor, whole: Array, part: Array) -> Any:
    """Return, recorded, the view of `owner` that a window gives, by the arrays that both had."""
    steps = _steps(part, whole)
    return done(steps, owner)


def _put(owner: Tensor, whole: Array, part: Array, value: Tensor) -> Any:
    """Return, recorded, a tensor with the elements in a window replaced, by the arrays that both had."""
    return _undone(_steps(part, whole), owner, value)


def _laid(part: Any, whole: Any) -> list[Step] | None:
    """Return ops that take a window from an array; None where it does not lie in it."""
    if isinstance(part, Elsewhere) or isinstance(whole, Elsewhere):
        return [] if part is whole else None
    if not part.size or part.dtype != whole.dtype:
        return None
    (low, high), (first, last) = bounds(whole), bounds(part)
    return _steps(part, whole) if low <= first and last <= high else None


def _steps(part: Array, whole: Array) -> list[Step]:
    """Return ops that take a window from an array: slices, in another order perhaps, else positions."""
    if is_same(part, whole):
        return []
    order = sorted(range(part.ndim), key=lambda i: -abs(part.strides[i]))
    entries = slices(part.transpose(order), whole) if part.size else None
    if entries is not None:
        back = tuple(order.index(i) - part.ndim for i in range(part.ndim))
        turned = [] if order == sorted(order) else [_step(permute_op, {"axes": back})]
        return [_step(slice_op, {"entries": entries}), *turned]
    if part.flags.c_contiguous and whole.flags.c_contiguous:
        first = (address(part) - address(whole)) // part.itemsize
        entry = (first, first + part.size, None)
        cut = [] if part.size == whole.size else [_step(slice_op, {"entries": (entry,)})]
        return [_step(reshape_op, {"shape": (whole.size,)}), *cut, _step(reshape_op, {"shape": part.shape})]
    return [_step(index_op, {"places": positions(part, whole)})]


def _step(op: Op, attrs: Any, output: int | None = None, others: tuple[Any, ...] = ()) -> Step:
    return op, attrs, output, others


# -- ops undone


def _way(x: Tensor, base: Any) -> list[Step] | None:
    """Return the ops by which a member is taken from its storage's whole, in order; None where that is not known."""
    s: Storage = base.storage
    window = window_of(x)
    if window is not None:
        return None if s.whole is None else _laid(window, s.whole)
    return None if s.whole is not None else _walked(x.node, _base_node(s))


def way(x: Any) -> tuple[Any, list[Step] | None]:
    """Return the tensor that a view is taken from and the ops by which; the tensor itself and None where it is none."""
    s = storage_of(x) if isinstance(x, Tensor) else None
    return (x, None) if s is None else (root_of(s), _way(x, x._share))


def _walked(node: Any, goal: Any) -> list[Step] | None:
    """Return the ops that lead from one node to another, those that take views; None where others do."""
    found: list[Step] = []
    while node is not goal:
        if not isinstance(node, Node):
            return None
        output: int | None = None
        others: tuple[Any, ...] = ()
        if node.op is index_op:
            places = node.inputs[-1]
            if isinstance(places, np.ndarray) and len(node.inputs) == 2 and len(node.inputs[0].spec.shape) == 1:
                found.append(_step(index_op, {"places": places}))
            else:
                others = tuple(abstract(n) if isinstance(n, Node) else asarray(n, copy=False) for n in node.inputs[1:])
                found.append(_step(index_op, dict(node.attrs), None, others))
            node = node.inputs[0]
            continue
        if node.op.name == "output":
            output, node = int(node.attrs["index"]), node.inputs[0]
        if not _is_view(node.op):
            return None
        found.append(_step(node.op, dict(node.attrs), output))
        node = node.inputs[0]
    return found[::-1]


def _is_view(op: Op) -> bool:
    """Return whether an op gives elements of its operand: a view, or another name of the value."""
    return op.view or op.role is Role.PASS


def _is_taken(node: Any, owner: Any) -> bool:
    """Return whether a node is what ops that take views made of another one."""
    while node is not owner:
        if not isinstance(node, Node) or not _is_view(node.op):
            return False
        node = node.inputs[0]
    return True


def done(steps: Iterable[Step], whole: Tensor) -> Any:
    """Return the result of applying ops to a tensor, one after the other."""
    steps = list(steps)
    value: Any = whole
    for op, attrs, output, others in steps:
        if others:
            value = bind(op, (value, *others), attrs)
            continue
        if op is index_op:
            value = bind(op, (reshaped(value, (value.spec.size,)), asarray(attrs["places"], copy=False)), {"axis": -1})
            continue
        value = bind(op, (value,), attrs)
        value = value if output is None else value[output]
    return value if steps else same_value(whole)


def _undone(steps: list[Step], whole: Tensor, value: Any) -> Any:
    """Return the whole's new version, of whose view by these ops the value is `value`."""
    before: list[Any] = [whole]
    for step in steps[:-1]:
        before.append(done([step], before[-1]))
    for (op, attrs, output, others), source in zip(reversed(steps), reversed(before)):
        value = _undone_one(op, attrs, output, others, source, value)
    return value


def _undone_one(op: Op, attrs: Any, output: int | None, others: tuple[Any, ...], source: Tensor, value: Any) -> Any:
    shape = tuple(source.shape)
    if op.role in (Role.PASS, Role.RESHAPE) and output is None:
        return value if tuple(value.shape) == shape else reshaped(value, shape)
    if others:
        return bind(index_update, (source, value, *others), attrs)
    unview = op.facets.get("unview")
    if unview is not None:
        return unview(source, value, **attrs)
    count = source.spec.size
    if op is index_op:
        places = asarray(attrs["places"].reshape((-1,)), copy=False)
    else:
        at = op.forward(np.arange(count).reshape(shape), **attrs)
        places = asarray(np.ascontiguousarray(at if output is None else at[output]).reshape(-1), copy=False)
    flat = bind(index_update, (reshaped(source, (count,)), reshaped(value, (places.spec.size,)), places), {"axis": -1})
    return reshaped(flat, shape)


def layout(x: Tensor) -> Array | None:
    """Return an array that lies in memory as an abstract view would if it had a value; None where that is unknown."""
    s, capture = storage_of(x), get_capture()
    steps = [] if s is None else _way(x, x._share)
    if steps is None:
        return None
    root, node = x if s is None else root_of(s), x.node if s is None else _base_node(s)
    shape = tuple(x.shape if node is None else node.spec.shape)
    lies = None if root is None or capture is None else capture.lies(root)
    order = None if node is None or lies is not None else _order(node)
    whole: Any = np.empty(shape, np.uint8)
    if order is not None:
        back = tuple(order.index(i) for i in range(len(order)))
        whole = np.empty([shape[a] for a in order], np.uint8).transpose(back)
    if lies is not None:
        size = 1 + sum((n - 1) * abs(step) for n, step in zip(shape, lies))
        whole = np.lib.stride_tricks.as_strided(np.empty(size, np.uint8), shape, lies)
    for op, attrs, output, others in steps:
        if op is index_op or others:
            return None
        whole = op.forward(whole, **attrs)
        whole = whole if output is None else whole[output]
    return whole  # type: ignore[no-any-return]


# The axes of abstract values from the outermost in memory to the innermost, where an eager result would not be in
# row-major order; None where it would.
_orders: weakref.WeakKeyDictionary[Node, tuple[int, ...] | None] = weakref.WeakKeyDictionary()


def _order(node: Node) -> tuple[int, ...] | None:
    """Return the order of a value's axes in memory, as the rules of eager results have it.

    A transposed value has its axes in another order, and what is computed by element lies as its first operand does.
    """
    stack = [node]
    while stack:
        n = stack[-1]
        source = _in_whose_order(n)
        if n in _orders or source is None:
            _orders.setdefault(n, _order_given(n))
        elif source not in _orders:
            stack.append(source)
            continue
        else:
            _orders[n] = _turned(_orders[source], n)
        stack.pop()
    return _orders[node]


def _order_given(node: Node) -> tuple[int, ...] | None:
    """Return the order of the axes of what a program is given; None for every other node."""
    capture = get_capture()
    lies = None if capture is None or node.op not in LEAVES else capture.lies(node)
    if lies is None:
        return None
    found = tuple(sorted(range(len(lies)), key=lambda a: -abs(lies[a])))
    return None if found == tuple(range(len(lies))) else found


def _in_whose_order(node: Node) -> Node | None:
    """Return the operand that decides how a node's result lies in memory; None if that is in row-major order."""
    if isinstance(node.spec, tuple) or len(node.spec.shape) < 2:
        return None
    if node.op is permute_op or (node.op.role is Role.PASS and node.inputs) or (node.op is LEAF and node.inputs):
        return node.inputs[0] if isinstance(node.inputs[0], Node) else None
    is_composite = node.op.kind == "composite" and not node.op.layout.strip("(),->")
    if is_composite or node.op.kind == "elementwise" or node.op.role is Role.BY_ELEMENT:
        whole = (
            e
            for e in node.inputs
            if getattr(e, "shape", getattr(getattr(e, "spec", e), "shape", ())) == node.spec.shape
        )
        first = next(whole, None)
        return first if isinstance(first, Node) else None
    return None


def _turned(order: tuple[int, ...] | None, node: Node) -> tuple[int, ...] | None:
    if node.op is not permute_op:
        return order
    ndim = len(node.spec.shape)
    axes = node.attrs["axes"]
    source = [*range(ndim - len(axes)), *(a % ndim for a in axes)]
    found = tuple(source.index(a) for a in (order or range(ndim)))
    return None if found == tuple(range(ndim)) else found


THROUGH = Through()
