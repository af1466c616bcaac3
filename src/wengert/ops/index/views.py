"""Writes to views: in NumPy and PyTorch a slice or a transpose shares its array's memory, and a write reaches it.

A tensor of Wengert's is a value, and a slice of it another one. In a namespace whose tensors have `writes_through`,
what was taken from one is a *view* of it as long as that tensor, its owner, lives: a write to either makes new values
of all that share elements.

- Where they have values, the view's array lies in the owner's. Its window (offset, sizes and strides) is laid over a
  copy of the owner's memory, and so are those of all other living views.
- Where gradients are recorded, the owner's new version is computed from its old one and what was written, by the same
  window as ops; views of it are taken anew.
- Where values are abstract, the ops say what was taken, and are undone one by one.

What can be done by none of these is refused, as every write to a view is in `wengert` itself.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import nullcontext
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from ...core.elsewhere import Elsewhere, here, in_place_of
from ...core.errors import DTypeError, GradientError, WriteError, fail
from ...core.mode import enable_grad, get_mode, no_grad
from ...core.node import Node
from ...core.ops.op import LEAF, Op
from ...core.ops.record import bind, same_value
from ...core.references import ALONE, ALONE_WEAK
from ...core.spec import show
from ...core.state.at_once import Call
from ...core.state.capture import get_capture, note_write
from ...core.state.cells import set_data
from ...core.tensor import DataView, Tensor, asarray, base_of, leaf_node, of_class
from ..structure.axes import permute_op
from ..structure.shapes import cast, reshape_op, reshaped
from .indices import index_op, index_update
from .inplace import hold, recast_
from .memory import Array, address, bounds, overlaps_itself, positions, shares, slices
from .slices import slice_op, slice_update

# Ops that only name the elements of their argument anew, in the same order.
_SAME_ORDER = frozenset({"reshape", "squeeze", "expand_dims", "stop_gradient", "alias"})
# Those of them that give the value as it is.
_SAME_VALUE = frozenset({"stop_gradient", "alias"})


# -- who is a view of whom


def _owners(x: Tensor) -> list[Tensor]:
    """Return the living tensors that `x` is a view of, the nearest first."""
    found: list[Tensor] = []
    base = x._base
    while base is not None:
        owner = base[0]()
        if owner is None:
            base = base[3]
            continue
        if isinstance(owner, DataView):  # another name of its owner
            owner = owner.owner
        if owner is not x and all(owner is not f for f in found):
            found.append(owner)
        base = owner._base
    return found


def is_of(x: Tensor, owners: Iterable[Tensor]) -> bool:
    """Return whether a tensor was taken from one of these."""
    found = _owners(x)
    return any(o is t for o in found for t in owners)


# By the identity of a tensor's weak reference (one object, which all entries `_base` share): that, how many others hold
# it, and the views that were found.
_found: dict[int, tuple[Any, int, weakref.WeakSet[Tensor]]] = {}


def _entries(x: Tensor, ref: Any) -> list[int]:
    """Return the identities of the entries in the chain of `x` that name a tensor."""
    # One that another thread is making may have no entry yet.
    found, base = [], getattr(x, "_base", None)
    while base is not None:
        if base[0] is ref:
            found.append(id(base))
        base = base[3]
    return found


def views_of(owner: Tensor, near: Tensor | None = None) -> list[Tensor]:
    """Return the living tensors that were taken from `owner`, also by way of others; its other names are no views.

    `near` is a tensor that may be among them.
    """
    return [v for v in _taken(owner, near) if not isinstance(v, DataView)]


def _taken(owner: Tensor, near: Tensor | None = None) -> list[Tensor]:
    """Return the living tensors whose entries name `owner`."""
    if weakref.getweakrefcount(owner) == 0:
        return []
    return [v for v in _sharing(weakref.ref(owner), near) if v is not owner]


def _sharing(owner: Any, near: Tensor | None = None) -> list[Tensor]:
    """Return the living tensors whose entries name the tensor of a weak reference, alive or dead.

    Nothing is noted where a view is taken, which happens often. How many hold a weak reference tells here whether all
    are known: `near` alone, mostly; those that are not are looked for among the youngest objects first.
    """
    found: dict[int, Tensor] = {}
    refs, todo, top = {}, [], id(owner)

    def ask(ref: Any) -> None:
        if id(ref) not in refs:
            refs[id(ref)] = ref
            todo.append(id(ref))

    ask(owner)
    del owner  # a reference that is not counted
    while todo:
        waiting = _holding(refs, todo.pop(), near)
        while waiting:
            v = waiting.pop()
            if id(v) in found:
                continue
            found[id(v)] = v
            # What was taken by way of another, dead or alive, shares that one's entry, and is counted by its own.
            base = v._base
            while base is not None and id(base[0]) != top:
                ask(base[0])
                if (between := base[0]()) is not None:
                    waiting.append(between)
                base = base[3]
            if weakref.getweakrefcount(v):
                ask(weakref.ref(v))
    return list(found.values())


def _siblings(x: Tensor) -> list[Tensor]:
    """Return the living tensors that share memory with `x` by way of an owner that is gone.

    `x = x.view(2, 2)` leaves what was taken from `x` before with such an owner.
    """
    last, base, is_alone = None, x._base, True
    while base is not None:
        is_alone = is_alone and sys.getrefcount(base) <= ALONE and sys.getrefcount(base[0]) <= ALONE_WEAK
        last, base = base, base[3]
    if last is None or last[0]() is not None or is_alone:
        return []
    return [v for v in _sharing(last[0]) if v is not x and not isinstance(v, DataView)]


class _Memory(Tensor):
    """The bytes that a gone owner's views lie in, in the owner's place for the time of one write."""

    __slots__ = ()


def _memory_of(x: Array) -> Tensor | None:
    whole = x
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    flat = whole.ravel(order="K")
    if not np.may_share_memory(flat, whole):
        return None
    made: Tensor = of_class(_Memory, asarray(flat.view(np.uint8), copy=False))
    return made


def _around(x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return the living owners of a tensor, the nearest first, and all views of the last one.

    Where that has an owner that is gone, and other views, the memory of these stands in its place.
    """
    owners = _owners(x) if x._base is not None else []
    root = owners[-1] if owners else x
    shares_elements = root._data is not None and (isinstance(root._data, Elsewhere) or root._data.size > 0)
    siblings = [v for v in _siblings(root) if v._data is not None] if shares_elements else []
    if siblings and isinstance(root._data, Elsewhere):  # one value, of which each is a name
        return owners, [root, *siblings, *views_of(root)]
    if siblings:
        memory = _memory_of(root._data)
        if memory is None:
            fail(
                WriteError, f"a write to {show(x.shape, x.dtype)}, a view of odd pieces of memory", "Take a copy first."
            )
        return [*owners, memory], [root, *siblings]
    return owners, views_of(root, x)


def _names(x: Tensor, taken: list[Tensor]) -> list[DataView]:
    return [v for v in taken if isinstance(v, DataView) and v.owner is x]


def _renamed_entries(base: Any, ref: Any, entry: Any) -> Any:
    """Return a chain of entries in which `entry` stands for the one that names the tensor of `ref`."""
    if base is None:
        return None
    if base[0] is ref:
        return (entry[0], base[1], base[2], entry[3])
    return (*base[:3], _renamed_entries(base[3], ref, entry))


def _without(base: Any, ref: Any) -> Any:
    """Return a chain of entries without the one that names the tensor of `ref`."""
    if base is None:
        return None
    return base[3] if base[0] is ref else (*base[:3], _without(base[3], ref))


def _is_alone(x: Tensor, ref: Any) -> bool:
    """Return whether a tensor was taken from that of a weak reference, and shares the entry that says so with none."""
    base = x._base
    return base is not None and base[0] is ref and sys.getrefcount(base) == ALONE


def _holding(refs: dict[int, Any], key: int, near: Tensor | None) -> list[Tensor]:
    """Return living tensors whose entries name the tensor of a weak reference: all that were taken from it directly."""
    seen = _found.get(key)
    known = seen is not None and seen[0] is refs[key]
    # Not counted: the dict of references, what is known of it, and the argument.
    holders = sys.getrefcount(refs[key]) - 2 - known
    if holders <= 0:
        return []
    if holders == 1 and near is not None and _is_alone(near, refs[key]):
        return [near]
    foreign = seen[1] if seen is not None and known else 0
    views = dict.fromkeys(seen[2]) if seen is not None and known else {}
    if foreign or _count(views, refs[key]) != holders:  # another holder may be gone, and a view have come in its place
        young = (o for g in (0, 1) for o in gc.get_objects(g))
        views.update((o, None) for o in young if issubclass(type(o), Tensor) and _entries(o, refs[key]))
        if _count(views, refs[key]) + foreign != holders:
            views = {o: None for o in gc.get_objects() if issubclass(type(o), Tensor) and _entries(o, refs[key])}
        if len(_found) > 1024:
            for k in [k for k, (_, _, them) in _found.items() if not them]:
                del _found[k]
        _found[key] = refs[key], holders - _count(views, refs[key]), weakref.WeakSet(views)
    return list(views)


def _count(views: Any, ref: Any) -> int:
    return len({entry for v in views for entry in _entries(v, ref)})


# -- what a write reaches

# An op with its attributes and the number of the result that was taken, if it has several.
Step = tuple[Op, Any, int | None]


def _tracked(x: Tensor) -> bool:
    return x.node is not None and x.node.requires_grad


def _carries(view: Tensor) -> bool:
    """Return whether a view carries the gradients of its owner: a leaf that shares its memory collects its own."""
    return _tracked(view) and view.node.op is not LEAF  # type: ignore[union-attr]


def lie_in(out: Tensor, owner: Tensor, window: Callable[[Array], Array]) -> Tensor:
    """Make what ops gave for a window of `owner` a view of it, which lies in its memory where both have values."""
    if out._data is not None and owner._data is not None:
        out._data = window(owner._data)
    out._base = base_of(owner, None, 0)
    return out


def _inside(x: Tensor, others: list[Tensor]) -> list[Tensor]:
    """Return those that share memory with `x` in a trace.

    Where `x` has no value, what has one is outside, and follows when a program has run.
    """
    return others if x._data is not None else [t for t in others if t._data is None]


class FromOwner(NamedTuple):
    """The way in which a view is taken from its owner, if it is known, and the place that took it."""

    steps: tuple[Step, ...] | None
    code: CodeType | None
    offset: int

    def trace(self, owner: Tensor, tracked: bool) -> Any:
        """Return, recorded, the view of an abstract tensor; without a gradient unless it is `tracked`."""
        assert self.steps is not None
        with enable_grad() if tracked else no_grad():
            return _done(list(self.steps), owner)

    def of(self, owner: Tensor, value: Tensor) -> Tensor:
        """Make a view of a new tensor that has the value of one: it lies in the owner's memory."""
        there = isinstance(owner._data, Elsewhere)
        if there != isinstance(value._data, Elsewhere):
            return value
        window = None if self.steps is None else owner._data
        for op, attrs, output in self.steps or ():
            if op is index_op or (there and op.name not in _SAME_VALUE):
                window = None
                break
            window = op.forward(window, **attrs)
            window = window if output is None else window[output]
        if window is None:
            value._base = base_of(owner, self.code, self.offset)
        elif shares(window, owner._data):  # else a copy was made, as of what lies otherwise
            value._data, value._base = window, base_of(owner, self.code, self.offset)
        return value


class Through:
    """A carrier of writes to tensors of this namespace to what shares elements with them."""

    def reaches(self, x: Tensor, what: str) -> bool:
        """Return whether a write to a view can be carried to its owners.

        Raises GradientError where one is a leaf whose gradient would be lost.
        """
        chain = [x, *_owners(x)]
        grad = get_mode().grad
        siblings = _siblings(chain[-1])
        if any(t._data is None for t in chain):
            if any(v._data is None for v in siblings):
                return False
            return self._reaches_traced(_inside(x, chain), what)
        if overlaps_itself(x._data):
            return False
        if grad and siblings and any(map(_tracked, (*chain, *siblings))):
            return False
        for part, whole in zip(chain, chain[1:]):
            if not shares(part._data, whole._data):
                return False
            if grad and _carries(part) and _tracked(whole):
                self._refuse_leaf(whole, what)
        return not grad or all(t.dtype == x.dtype for t in chain) or not any(map(_tracked, chain))

    def _refuse_leaf(self, owner: Tensor, what: str) -> None:
        if owner.node is not None and owner.node.op is LEAF and owner.requires_grad:
            fail(
                GradientError,
                f"{what} on a view of a leaf that requires gradients, {show(owner.shape, owner.dtype)}",
                "Its gradient would be lost. Update it without recording (with torch.no_grad(): ...), "
                "or make a new tensor: y = x.clone(), then write to y.",
            )

    def _reaches_traced(self, chain: list[Tensor], what: str) -> bool:
        grad = get_mode().grad
        if isinstance(chain[0], DataView):  # another name: its tensor is assigned to, which looks at all that shares it
            chain = chain[1:]
        for part, whole in zip(chain, chain[1:]):
            steps = _way(part, whole)
            if steps is None or any(op.name == "broadcast" for op, *_ in steps):
                return False
            detached = any(op.name == "stop_gradient" for op, *_ in steps)
            if grad and not detached:
                self._refuse_leaf(whole, what)
            if _tracked(whole) and whole.node.op is not LEAF and (detached or not grad):  # type: ignore[union-attr]
                return False
        root = chain[-1]
        # What has a value is outside, and follows when the program has run.
        return all(v._data is not None or _from_owner(v) is not None for v in views_of(root))

    def write(self, x: Tensor, new: Tensor) -> bool:
        """Give `x` the value of `new`, and all that shares elements with it theirs; False where nothing does."""
        if new.shape != x.shape:
            return False
        owners, views = _around(x)
        if not views:
            if get_mode().grad or x._data is None or new._data is None or x.node is None or x.node.op is LEAF:
                return False
            # A write that is not recorded changes the value, not the way that its gradients take.
            note_write(x, False)
            x._data = in_place_of(x._data, new._data)
            return True
        if x._data is None or new._data is None or any(t._data is None for t in owners):
            owners, views = _inside(x, owners), _inside(x, views)
            if not owners and not views:
                _keep_base(x, new)
                return True
            self._refuse_unknown([x, *owners])
            self._write_traced(x, new, owners, views)
        else:
            _write_values(x, new, owners, views)
        return True

    def assign(self, x: Tensor, new: Tensor) -> bool:
        """Give `x` a value outside any graph, and its views theirs; False where there are none."""
        owners, views = _around(x)
        if x._data is None or new._data is None or any(t._data is None for t in owners):
            owners, views = _inside(x, owners), _inside(x, views)
            if not owners and not views:
                return False
            # Views of a leaf, in ways that are known, lead to it afterwards too.
            carriers = [x] if x.node is not None and x.node.op is LEAF and not owners else [x, *owners, *views]
            past = [t for t in carriers if _tracked(t) and (t.node is None or t.node.op is not LEAF)]
            if past or _tracked(new):
                fail(
                    WriteError,
                    f"a write past the graph to {show(x.shape, x.dtype)}, which shares memory and carries gradients",
                    "A compiled function does not know its gradients then. Write with torch.no_grad(): x.add_(v).",
                )
            self._refuse_unknown([x, *owners])
            self._write_traced(x, new if new.dtype == x.dtype else cast.front(new, dtype=x.dtype), owners, views)
            return True
        if not views:
            return False
        data = new._data if new.dtype == x.dtype else here(new._data, "another dtype").astype(x.dtype)
        _lay(x, data, owners, views)
        return True

    def part(self, x: Tensor, value: Any) -> None:
        """Give `x` memory of its own, and the dtype of `value`, as `x.data = v` does.

        What shared elements with it keeps its value.

        What `x.data` gave before goes on sharing the old memory, with whatever else does. A tensor that is `x` no
        longer has it from then on.
        """
        if isinstance(x, DataView):
            fail(
                WriteError,
                f"x.data.data = v, where x.data is another name of a tensor of {show(x.shape, x.dtype)}",
                "It would be that name's value alone. Write x.data = v.",
            )
        taken = _taken(x)
        names = _names(x, taken)
        if x._data is None and not taken:
            capture = get_capture()
            if capture is not None:
                capture.part(x)
            x._base = None
        elif x._data is None:
            fail(
                WriteError,
                f"x.data = v for {show(x.shape, x.dtype)}, while views or other names of it live",
                "They would keep the old memory, which a compiled function has not. Take copies, or do it outside.",
            )
        if names:
            kept = same_value(x) if x._data is None else of_class(x.result_class, asarray(x._data, copy=False))
            kept._base = x._base
            entry, here = base_of(kept, None, 0), weakref.ref(x)
            for v in taken:
                v._base = _renamed_entries(v._base, here, entry)
            for name in names:
                name._grad = kept
        if x._data is not None and (x._base is not None or taken):
            if (
                len(taken) == 1 and not names
            ):  # of several no tensor tells who shares the old memory: writes are refused
                taken[0]._base = _without(taken[0]._base, weakref.ref(x))
            x._data, x._base = x._data.copy(), None
        if isinstance(value, Tensor) and value.dtype != x.dtype:
            if x._data is None or value._data is None:
                fail(
                    DTypeError,
                    f"x.data = v with a value of {value.spec} for {x.spec}, while it has no value",
                    "A tensor keeps its dtype inside of a compiled function. Change it outside.",
                )
            recast_(x, value.dtype)

    def moved(self, x: Tensor, old: Array) -> None:
        """Let what shares memory with `x` follow where it was given another array instead of `old`."""
        new, x._data = x._data, old
        owners, views = _around(x)
        if views and new is not None:
            _lay(x, new, owners, views)
        else:
            x._data = new

    def following(self, x: Tensor, old: Array, new: Array, has_past: bool, parted: Container[Tensor]) -> list[Call]:
        """Return the calls that let all that shares memory with `x` follow where it was given `new` instead of `old`.

        All but what has `parted`. They may come before `new` has its numbers. Raises WriteError where the others would
        have to carry gradients.
        """
        owners, views = _around(x)
        others = dict.fromkeys(t for t in (*owners, *views) if t is not x and t not in parted)
        is_there = isinstance(old, Elsewhere)
        if is_there:
            others = dict.fromkeys(_names_of_value(x, old, others))
        if not others or is_there != isinstance(new, Elsewhere):
            return []
        if has_past:
            fail(
                WriteError,
                f"a compiled write of what carries gradients to {show(x.shape, x.dtype)}, which has views outside",
                "Their gradients would be lost. Let the function return the new value, and write it outside.",
            )
        if is_there:
            return [(set_data, t, new) for t in others]
        root = owners[-1] if owners else x
        whole = root._data if owners else old
        start = address(whole)
        if not owners and old.flags.c_contiguous and new.flags.c_contiguous and old.nbytes == new.nbytes:
            return [(set_data, *found) for found in _windows(others, old, start, new)]
        if whole.flags.c_contiguous:
            fresh = memory = whole.copy()
        else:
            start, high = bounds(whole)
            memory = np.empty(high - start, np.uint8)
            fresh = np.ndarray(whole.shape, whole.dtype, memory, address(whole) - start, whole.strides)
            fresh[...] = whole
        calls: list[Call] = [(set_data, root, fresh)]
        if x is root:
            calls = [(np.copyto, fresh, new), *calls]
        else:
            others.pop(root)
            for _, window in _windows([x], whole, start, memory):
                calls += [(np.copyto, window, new), (set_data, x, window)]
        return calls + [(set_data, *found) for found in _windows(others, whole, start, memory)]

    def owners(self, x: Tensor) -> list[Tensor]:
        """Return the living tensors that `x` is a view of, the nearest first."""
        return _owners(x)

    def outermost(self, x: Tensor) -> Any:
        """Return the weak reference to the last tensor in the chain that `x` was taken from, alive or dead."""
        base = x._base
        while base[3] is not None:
            base = base[3]
        return base[0]

    def window(self, x: Tensor, owner: Tensor) -> Any:
        """Return a hashable window that a view has of an owner with a value; None where a trace cannot take it.

        What carries gradients has to be what ops took from the owner as it is.
        """
        part, whole = x._data, owner._data
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

    def taken(self, x: Tensor, owner: Tensor) -> FromOwner:
        """Return how a view was taken from one of its owners."""
        steps, entry = _way(x, owner), x._base
        while entry is not None and entry[0]() is not owner:
            entry = entry[3]
        place = (entry[1], entry[2]) if entry is not None else (None, 0)
        return FromOwner(None if steps is None else tuple(steps), *place)

    def has_names(self, x: Tensor) -> bool:
        """Return whether what `x.data` gave lives."""
        return bool(_names(x, _taken(x)))

    def is_apart(self, x: Tensor) -> bool:
        """Return whether a tensor shares memory with no living one that it was taken from or beside.

        Then it is no view any more, and says so.
        """
        if _owners(x) or _siblings(x):
            return False
        x._base = None
        return True

    def is_viewed(self, x: Tensor) -> bool:
        """Return whether views of `x` live."""
        return any(v._data is not None and shares(v._data, x._data) for v in views_of(x))

    def refuse_apart(self, x: Tensor) -> None:
        """Raise WriteError for a value on a device, of which a program has given a view that writes do not reach."""
        _names_of_value(x, x._data, [t for found in _around(x) for t in found])

    def _refuse_unknown(self, chain: list[Tensor]) -> None:
        if any(_way(part, whole) is None for part, whole in zip(chain, chain[1:])):
            fail(
                WriteError,
                f"an abstract value written to a view of {show(chain[-1].shape, chain[-1].dtype)}",
                "What it was taken by is no slice. Write to the tensor itself: x[...] = v.",
            )

    def _write_traced(self, x: Tensor, new: Tensor, owners: list[Tensor], views: list[Tensor]) -> None:
        chain = [x, *owners]
        # How each view is taken from its nearest owner, by what both are now.
        ways = [(v, *found) for v in views if v is not x and (found := _from_owner(v)) is not None]
        up = [_way(part, whole) for part, whole in zip(chain, chain[1:])]
        done = {id(t) for t in chain}
        for view in views:  # of memory that an op took it from in no way that is known here
            if view._data is None and id(view) not in done and all(view is not v for v, *_ in ways):
                fail(
                    WriteError,
                    f"a write to {show(x.shape, x.dtype)}, of which there is a view, {show(view.shape, view.dtype)}",
                    "While a function is compiled, windows and advanced indices cannot follow. Take a copy, v.clone().",
                )
        value = new
        made: list[tuple[Tensor, Tensor]] = []
        for whole, steps in zip(owners, up):
            value = _undone(steps or [], same_value(whole), value)
            made.append((whole, value))
        if not owners:
            _keep_base(x, new)
        for whole, fresh in reversed(made):
            _keep_base(whole, fresh)
        for part, whole, steps in reversed(list(zip(chain, chain[1:], up))):
            _keep_base(part, _retaken(part, steps or [], whole))
        ways.sort(key=lambda way: len(_owners(way[0])))  # the owner first
        for view, owner, steps in ways:
            if id(view) not in done:
                _keep_base(view, _retaken(view, steps, owner))


def _retaken(view: Tensor, steps: list[Step], whole: Tensor) -> Any:
    """Return a view of its owner's new version; gradients go on taking the way that they took."""
    with enable_grad() if _tracked(view) else nullcontext():
        return _done(steps, whole)


def _keep_base(x: Tensor, new: Tensor) -> None:
    base = x._base
    hold(x, new)
    x._base = base


# -- values


def _write_values(x: Tensor, new: Tensor, owners: list[Tensor], views: list[Tensor]) -> None:
    """Write where all have values; recorded where gradients are."""
    chain, everyone = [x, *owners], dict.fromkeys([*owners, x, *views])
    recording = get_mode().grad and (_tracked(new) or any(map(_tracked, chain)))
    if recording and type(chain[-1]) is _Memory:
        fail(
            WriteError,
            f"a write of what carries gradients to a view, {show(x.shape, x.dtype)}, of a tensor that is gone",
            "Other views of it live, whose gradients would be lost. Keep the tensor, or write to a copy.",
        )
    old = {t: same_value(t) for t in everyone} if recording else {}
    if recording:
        written = {x: new}
        for part, whole in zip(chain, chain[1:]):
            if _tracked(whole) and not _carries(part):
                break  # a detached part: the value changes, its gradient's way does not
            written[whole] = _put(old[whole], old[part]._data, written[part])
    _lay(x, new._data, owners, views)
    if not recording:
        return
    for t, made in written.items():
        t.node = made.node if _tracked(made) else None
    for view in sorted(views, key=lambda v: len(_owners(v))):
        nearest = _owners(view)[0]
        if view in written or nearest not in written or (_tracked(old[nearest]) and not _carries(view)):
            continue
        if old[view]._data is None:  # of a trace that is over
            continue
        if view.dtype != nearest.dtype or not shares(old[view]._data, old[nearest]._data):
            continue
        written[view] = taken = _take(nearest, old[nearest]._data, old[view]._data)
        view.node = taken.node if _tracked(taken) else None


def _lay(x: Tensor, data: Array, owners: list[Tensor], views: list[Tensor]) -> None:
    """Lay the windows of all that share elements with `x` over a copy of their memory, in which `x` is `data`."""
    root = owners[-1] if owners else x
    whole = root._data
    if isinstance(whole, Elsewhere):
        there = in_place_of(whole, data)
        for t in _names_of_value(x, x._data, dict.fromkeys([*owners, x, *views])):
            note_write(t, False)
            t._data = there
            if t.node is not None and t.node.op is LEAF and t.node.inputs:
                t.node = leaf_node(t, there)
        return
    data = here(data, "a value")
    start = address(whole)
    if whole.flags.c_contiguous:
        ours = x is root and data.flags.c_contiguous and data.shape == whole.shape and data.dtype == whole.dtype
        fresh = buffer = data if ours else whole.copy()
    else:
        low, high = bounds(whole)
        buffer = np.empty(high - low, np.uint8)
        fresh = np.ndarray(whole.shape, whole.dtype, buffer, start - low, whole.strides)
        fresh[...] = whole
        start = low
    if not buffer.flags.writeable:
        fresh = buffer = buffer.copy()
    others = (t for t in (*owners, x, *views) if t is not root)
    windows = [(root, fresh), *_windows(dict.fromkeys(others), whole, start, buffer)]
    if buffer is not data:
        target = next((w for t, w in windows if t is x), None)
        if target is not None:
            target[...] = data
        elif data.size:
            fail(
                WriteError,
                f"a write to a view of {show(root.shape, root.dtype)}, {show(x.shape, x.dtype)}, which lies elsewhere",
                "The view has a value of its own. Write to the tensor that it was taken from.",
            )
    for t, window in windows:
        note_write(t, False)
        t._data = window
        if t.node is not None and t.node.op is LEAF and t.node.inputs:  # in a trace, where it stands for its value
            t.node = leaf_node(t, window)


def _names_of_value(x: Tensor, value: Any, tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return those of the tensors that have the same value as `x`, which is elsewhere.

    Raises WriteError for one that a program took from it: where that is, values share no memory.
    """
    found = [t for t in tensors if t._data is value]
    apart = [t for t in tensors if t._data is not value and isinstance(t._data, Elsewhere)]
    if apart:
        fail(
            WriteError,
            f"a write to {show(x.shape, x.dtype)}, of which a compiled function gave a view, "
            f"{show(apart[0].shape, apart[0].dtype)}, on {apart[0].device}",
            "The write would not reach the view there. Let the function return a copy, v.clone().",
        )
    return found


def _windows(tensors: Iterable[Tensor], whole: Array, start: int, memory: Array) -> Iterator[tuple[Tensor, Array]]:
    """Yield those of the tensors that lie in `whole`, each with its window of `memory`.

    That is a copy of the memory that `whole` lies in and that begins at `start`.
    """
    flat = memory.reshape((-1,)).view(np.uint8)  # not every dtype of ours is one of the buffer protocol's
    for t in tensors:
        if t._data is None or isinstance(t._data, Elsewhere):
            continue
        part, offset = t._data, address(t._data) - start
        low, high = bounds(part)
        if part.size and offset >= 0 and low >= start and high <= start + flat.nbytes and shares(part, whole):
            yield t, np.ndarray(part.shape, part.dtype, flat, offset, part.strides)


# -- a window as ops


def _take(owner: Tensor, whole: Array, part: Array) -> Any:
    """Return, recorded, the view of `owner` that a window gives, by the arrays that both had."""
    entries = slices(part, whole) if part.size else None
    if entries is not None:
        return bind(slice_op, (owner,), {"entries": entries})
    return bind(
        index_op, (reshaped(owner, (owner.spec.size,)), asarray(positions(part, whole), copy=False)), {"axis": -1}
    )


def _put(owner: Tensor, part: Array, value: Tensor) -> Any:
    """Return, recorded, a tensor with the elements in a window replaced."""
    whole = owner._data
    entries = slices(part, whole) if part.size else None
    if entries is not None:
        return bind(slice_update, (owner, value), {"entries": entries})
    count = owner.spec.size
    at = asarray(positions(part, whole).reshape((-1,)), copy=False)
    new = bind(index_update, (reshaped(owner, (count,)), reshaped(value, (part.size,)), at), {"axis": -1})
    return reshaped(new, tuple(owner.shape))


# -- ops undone


def _way(part: Tensor, whole: Tensor) -> list[Step] | None:
    """Return the ops by which a view is taken from its owner, in order; None where that is not known."""
    found: list[Step] = []
    node, goal = part.node, whole.node
    if part._data is not None and whole._data is not None:
        if isinstance(part._data, Elsewhere):
            return [] if part._data is whole._data else None
        if not part._data.size or not shares(part._data, whole._data) or part.dtype != whole.dtype:
            return None
        return _steps(part._data, whole._data)
    if part._data is not None or whole._data is not None:
        return None
    while node is not goal:
        if not isinstance(node, Node):
            return None
        output = None
        if node.op is index_op and isinstance(node.inputs[-1], np.ndarray) and len(node.inputs) == 2:
            if node.attrs["axis"] != -1 or len(node.inputs[0].spec.shape) != 1:
                return None
            found.append((index_op, {"places": node.inputs[-1]}, None))
            node = node.inputs[0]
            continue
        if node.op.name == "output":
            output, node = int(node.attrs["index"]), node.inputs[0]
        if not (node.op.view or node.op.name in _SAME_ORDER):
            return None
        found.append((node.op, dict(node.attrs), output))
        node = node.inputs[0]
    return found[::-1]


def _steps(part: Array, whole: Array) -> list[Step]:
    """Return ops that take a window from an array: slices, in another order perhaps, else positions."""
    order = sorted(range(part.ndim), key=lambda i: -abs(part.strides[i]))
    entries = slices(part.transpose(order), whole)
    if entries is not None:
        back = tuple(order.index(i) - part.ndim for i in range(part.ndim))
        turned = [] if order == sorted(order) else [(permute_op, {"axes": back}, None)]
        return [(slice_op, {"entries": entries}, None), *turned]
    if part.flags.c_contiguous and whole.flags.c_contiguous:
        first = (address(part) - address(whole)) // part.itemsize
        entry = (first, first + part.size, None)
        cut = [] if part.size == whole.size else [(slice_op, {"entries": (entry,)}, None)]
        return [_reshape((whole.size,)), *cut, _reshape(part.shape)]
    return [(index_op, {"places": positions(part, whole)}, None)]


def _reshape(shape: tuple[int, ...]) -> Step:
    return reshape_op, {"shape": shape}, None


def _is_taken(node: Any, owner: Any) -> bool:
    """Return whether a node is what ops that take views made of another one."""
    while node is not owner:
        if not isinstance(node, Node) or not (node.op.view or node.op.name in _SAME_ORDER):
            return False
        node = node.inputs[0]
    return True


def _from_owner(view: Tensor) -> tuple[Tensor, list[Step]] | None:
    owners = _owners(view)
    steps = _way(view, owners[0]) if owners else None
    return None if steps is None else (owners[0], steps)


def _done(steps: list[Step], whole: Tensor) -> Any:
    value: Any = whole
    for op, attrs, output in steps:
        if op is index_op:
            value = bind(op, (reshaped(value, (value.spec.size,)), asarray(attrs["places"], copy=False)), {"axis": -1})
            continue
        value = bind(op, (value,), attrs)
        value = value if output is None else value[output]
    return value if steps else same_value(whole)


def _undone(steps: list[Step], whole: Tensor, value: Any) -> Any:
    """Return the owner's new version, of whose view by these ops the value is `value`."""
    before: list[Any] = [whole]
    for step in steps[:-1]:
        before.append(_done([step], before[-1]))
    for (op, attrs, output), source in zip(reversed(steps), reversed(before)):
        value = _undone_one(op, attrs, output, source, value)
    return value


def _undone_one(op: Op, attrs: Any, output: int | None, source: Tensor, value: Any) -> Any:
    shape = tuple(source.shape)
    if op.name in _SAME_ORDER:
        return value if tuple(value.shape) == shape else reshaped(value, shape)
    if op is slice_op:
        return bind(slice_update, (source, value), attrs)
    if op is permute_op:
        axes = attrs["axes"]
        back = sorted(range(-len(axes), 0), key=lambda i: axes[i])
        return bind(permute_op, (value,), {"axes": tuple(back[i] for i in range(len(axes)))})
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
    owners = _owners(x)
    if not owners:
        return np.empty(tuple(x.shape), np.uint8)
    whole, steps = layout(owners[0]), _way(x, owners[0])
    if whole is None or steps is None:
        return None
    for op, attrs, output in steps:
        if op is index_op:
            return None
        whole = op.forward(whole, **attrs)
        whole = whole if output is None else whole[output]
    return whole


THROUGH = Through()
