"""Observation of every operation that runs, with its values and the user's line, while a question is asked.

Questions about values ("where was this NaN born?") need what eager execution does not keep: results,
operations that no gradient flows through, the cotangent on every edge. Inside `observing()` the op
table's forwards and the backward pass's step are replaced by ones that also write down what they did;
outside of it nothing is different, so observation costs nothing until it is asked for.

An `Observer` is one thread's: other threads run through the same functions meanwhile, and are not
written down, unless there is somebody who gives every thread an observer (`watch`). Observers differ
in what they keep: that of `observing()` has all that answers need, the explorer's recorder only the
bare facts, as fast as it can.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from types import FrameType
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail, is_internal, user_frame
from ...core.graph import evaluate
from ...core.mode import Scope, get_mode, reset_mode, set_mode
from ...core.node import EMPTY_ATTRS, Node
from ...core.ops import kernels
from ...core.ops.op import TABLE, Op
from ...core.ops.record import OUTPUT
from ...core.state import locks
from ...core.tensor import Tensor, wrap
from ...execute import scheduler
from ...execute.jit.jit import Jit
from ...execute.native.dispatch.entry import calls_natively
from ...ops.contract import products as contract
from ...ops.pointwise import selection
from ...transforms.batch import vmap as batch
from ...transforms.batch.rules import Batched
from ...transforms.checkpoint import checkpoint
from ...transforms.control import ops as control_ops
from ...transforms.derivatives import reverse
from ...transforms.derivatives.custom_op import CustomOp
from ...transforms.tracing import replay as replay_module
from .observer import OVER, Observer, Watcher, user_place
from .origins import RULE, gradient_depth

_observer: ContextVar[Any] = ContextVar("wengert_observer", default=None)
_lock = locks.lock()
# The threads that are in blocks, one entry for each block.
_users: list[int] = []
_undo: list[Callable[[], None]] = []
# What undoes the further replacements of `watch`.
_undo_more: list[Callable[[], None]] = []
_everyone: Callable[[], Watcher] | None = None
_holder: int | None = None  # the thread that has every thread watched


@contextmanager
def observing(leaks: bool = False) -> Iterator[Observer]:
    """Observe what this thread runs inside the block; with `leaks`, also values that leave the graph.

    Blocks nest: the innermost sees.
    """
    seen = Observer()
    with _installed():
        token = _observer.set(seen)
        try:
            yield seen
        finally:
            _observer.reset(token)


Replacement = tuple[
    Any, str, Callable[[str, Any], Any]
]  # an owner, a name, and what makes the watched from the original


@contextmanager
def watch(join: Callable[[], Watcher], more: Sequence[Replacement] = ()) -> Iterator[None]:
    """Watch every thread of the program inside the block.

    `join` gives a thread that runs something its watcher, which has `OVER` in `quiet` when its time is
    over. `more` are further functions to stand in for. Raises GraphError inside of another such block, and while
    another thread is in one.
    """
    global _everyone, _holder
    with _lock:
        if _everyone is not None or _holder not in (None, threading.get_ident()):
            fail(GraphError, "a recording inside of another", "One program is recorded at a time.")
        before, _holder, _everyone = _holder, threading.get_ident(), join
    with _installed():
        token = _observer.set(join())
        outer = len(_undo_more)
        for owner, name, watched in more:
            _undo_more.append(_put(owner, name, watched(name, owner.__dict__[name])))
        try:
            yield
        finally:
            _observer.reset(token)
            while len(_undo_more) > outer:
                _undo_more.pop()()
            with _lock:
                _everyone, _holder = None, before


def is_watched() -> bool:
    """Return whether a program is being recorded."""
    return _holder is not None


@contextmanager
def aside() -> Iterator[None]:
    """Hide what this thread, and those that begin, do inside the block from a recording, if there is one.

    What is explored by a program that is itself recorded is looked at apart from it.
    """
    global _everyone
    if _holder != threading.get_ident():
        yield
        return
    everyone, _everyone = _everyone, None
    token = _observer.set(None)
    try:
        yield
    finally:
        _observer.reset(token)
        _everyone = everyone


@contextmanager
def _installed() -> Iterator[None]:
    with _lock:
        if not _users:
            _install()
        _users.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            _users.remove(threading.get_ident())
            _settle()


def _settle() -> None:
    """Put everything back where no thread is in a block any more."""
    while _undo and not _users:
        _undo.pop()()


def _end_others() -> None:
    """End, in a child process, the blocks of the threads that it does not have."""
    global _everyone, _holder
    me = threading.get_ident()
    if _holder not in (None, me):
        while _undo_more:
            _undo_more.pop()()
        _everyone = _holder = None
    _users[:] = [thread for thread in _users if thread == me]
    _settle()


locks.in_child(_end_others)


def watching() -> Any:
    """Return the watcher of this thread, or None."""
    seen = _observer.get()
    if _everyone is not None and (seen is None or seen.quiet >= OVER):
        # A thread that began meanwhile, or has its watcher from an earlier time.
        seen = _everyone()
        _observer.set(seen)
    return None if seen is None or seen.quiet else seen


def _install() -> None:
    for op in TABLE.values():
        if op.kind != "leaf" and op is not OUTPUT:  # what picks one of several results makes nothing
            _watch_forward(op)
    _replace(reverse, "_pull_node", _watched_pull)
    nodes = ((evaluate, "compute"), (scheduler, "compute"), (replay_module, "record_again"), (batch, "_run_node"))
    for module, name in nodes:
        _replace(module, name, _watched_node)
    _replace(checkpoint._Region, "_run", _watched_recomputation)
    _replace(control_ops, "_stack_arrays", _watched_stack)
    _replace(scheduler, "_Run", _one_worker)
    _replace(Tensor, "__getitem__", _watched_getitem)
    _replace(Tensor, "__setitem__", _watched_setitem)
    # A compiled function runs as it was written. Having had another `__call__`, its class has to be told again.
    _undo.append(_call_natively)
    _set(sys.modules[Jit.__module__], "calls_natively", lambda cls: False)
    _set(Jit, "__call__", _as_written(Jit.__call__))
    # Kernels, and a fast path that runs NumPy itself, step aside for what is watched.
    _set(kernels, "kernels", kernels.Off())
    _replace(selection, "_where_alike", _aside(lambda *args: None))
    _set(contract, "np", _WatchedProducts())
    for name in _METHODS:
        _replace(Tensor, name, _watched_method)
    Node.__init__ = _made  # type: ignore[assignment, method-assign]
    _undo.append(lambda: delattr(Node, "__init__"))
    data = Tensor.__dict__["data"]
    _set(Tensor, "data", property(_watched_method("data", data.fget), data.fset, doc=data.__doc__))


def _set(owner: Any, name: str, value: Any) -> None:
    _undo.append(_put(owner, name, value))


def _put(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Give an owner another value for a name, and return the function that gives it the old one again."""
    before = getattr(owner, name) if not isinstance(owner, type) else owner.__dict__[name]
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)


def _replace(owner: Any, name: str, watched: Callable[[str, Any], Any]) -> None:
    _set(owner, name, watched(name, getattr(owner, name)))


def _watch_forward(op: Op) -> None:
    original = op.forward
    forward = _watched_ufunc(op, original) if isinstance(original, np.ufunc) else _watched_function(op, original)
    _set(op, "forward", forward)
    made = getattr(getattr(op, "front", None), "__globals__", {})
    if made.get("op") is op and "forward" in made:  # a generated front door holds the forward itself
        before = {name: made[name] for name in ("forward", "getframe") if name in made}
        made.update({"forward": forward, "getframe": _frame_of_user})
        _undo.append(lambda: made.update(before))


def _watched_ufunc(op: Op, original: Any) -> Any:
    get = _observer.get

    def forward(*values: Any, **asked: Any) -> Any:  # front doors ask for an array where there are no axes: `out=...`
        seen = get()
        if (seen is None or seen.quiet) and (seen := watching()) is None:
            return original(*values, **asked)
        start = perf_counter()
        out = as_kept(original(*values))
        seen.step(op, values, out, original, EMPTY_ATTRS, start)
        return out

    return forward


def _watched_function(op: Op, original: Any) -> Any:
    # A composite's forward may run other ops' forwards: one operation is one step. A loop is many.
    pause = 0 if op.kind == "control" else 1

    def forward(*values: Any, **attrs: Any) -> Any:
        seen = _observer.get()
        if (seen is None or seen.quiet) and (seen := watching()) is None:
            return original(*values, **attrs)
        start = perf_counter()
        seen.quiet += pause
        try:
            out = as_kept(original(*values, **attrs))
        finally:
            seen.quiet -= pause
        if pause:
            seen.step(op, values, out, (lambda *v: original(*v, **attrs)) if attrs else original, attrs, start)
        return out

    return forward


def as_kept(out: Any) -> Any:
    """Return a forward's result as tensors keep it, so that a value is known by its identity where it is used."""
    if type(out) is np.ndarray:
        return out
    return tuple(map(as_kept, out)) if type(out) in (tuple, list) else np.asarray(out)


def _made(node: Node) -> None:
    """Report a new node; stands in for the constructor of nodes, which does nothing otherwise."""
    seen = _observer.get()
    if seen is not None and not seen.quiet:
        seen.made(node)


def _frame_of_user(depth: int) -> FrameType:
    """Return a front door's caller; of a plain function of Wengert, the user's line that called it."""
    frame = sys._getframe(depth + 1)
    seen = _observer.get()
    if seen is None or not seen.places or not is_internal(frame.f_code.co_filename):
        return frame
    scope = get_mode().scope
    if scope is not None and scope.kind not in ("module", "trace"):
        return frame
    return user_frame(depth + 1) or frame


def _watched_node(name: str, original: Any) -> Any:
    """Return a watched run of a graph's node, shown at the line that the graph was made from."""

    def run(node: Node, args: Any, *more: Any) -> Any:
        seen = watching()
        if seen is None:
            return original(node, args, *more)
        outer, seen.node = seen.node, node
        try:
            out = original(node, args, *more)
        finally:
            seen.node = outer
        value = out.value if isinstance(out, Batched) else out
        made = value.node if isinstance(value, Tensor) else None
        if made is not None and made.requires_grad and made.op is node.op and node.source is not None:
            made.code, made.offset = node.source, 0
            if gradient_depth(node.scope):
                made.scope = node.scope
        return out

    return run


def _watched_recomputation(name: str, original: Any) -> Any:
    """Return a watched recomputation of a checkpoint's node."""

    def run(self: Any, node: Node, *more: Any) -> None:
        seen = watching()
        if seen is None:
            original(self, node, *more)
            return
        outer, seen.node = seen.node, node
        try:
            original(self, node, *more)
        finally:
            seen.node = outer

    return run


def _one_worker(name: str, original: Any) -> Any:
    """Return a run on threads that has one worker while it is observed, which records what it does."""
    return lambda graph, feeds, workers: original(graph, feeds, workers if watching() is None else 1)


def _watched_stack(name: str, original: Any) -> Any:
    """Return a watched stacking of the rows that a loop gave into one array."""

    def stack(rows: list[Any], spec: Any, length: int) -> Any:
        out = original(rows, spec, length)
        seen = watching()
        if seen is not None and rows:
            again = lambda *values: original(list(values), spec, length)
            seen.step(TABLE["stack"], rows, out, again, EMPTY_ATTRS, perf_counter())
        return out

    return stack


def _call_natively() -> None:
    calls_natively(Jit)


def _as_written(original: Any) -> Any:
    """Return a call of a compiled function whose operations are watched, with the lines that they stand in."""

    def call(self: Jit, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if watching() is None else self._fn(*args, **kwargs)

    return call


def _aside(instead: Callable[..., Any]) -> Callable[[str, Any], Any]:
    def watched(name: str, original: Any) -> Any:
        return lambda *args: original(*args) if watching() is None else instead(*args)

    return watched


class _WatchedProducts:
    """A stand-in for NumPy in products, whose front door computes by itself: that is an operation too."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def matmul(x: Any, y: Any, out: Any = None) -> Any:
        seen = watching()
        start = perf_counter()
        out = as_kept(np.matmul(x, y, out=out))
        if seen is not None:
            vectors = {(True, True): "matmul", (True, False): "matvec", (False, True): "vecmat", (False, False): "dot"}
            seen.step(TABLE[vectors[x.ndim > 1, y.ndim > 1]], (x, y), out, np.matmul, EMPTY_ATTRS, start)
        return out


def _watched_setitem(name: str, original: Any) -> Any:
    def setitem(self: Tensor, index: Any, value: Any) -> None:
        seen = watching() if self._data is not None else None
        if seen is None:
            original(self, index, value)
            return
        before, given = self._data, value._data if isinstance(value, Tensor) else value
        seen.leak("x[...] = v", before, self.node)
        start = perf_counter()
        seen.quiet += 1
        try:
            original(self, index, value)
        finally:
            seen.quiet -= 1

        def run(old: Any, new: Any) -> Any:
            again = wrap(np.array(old))
            original(again, index, new)
            return again._data

        seen.step(TABLE["slice_update"], (before, given), self._data, run, EMPTY_ATTRS, start, self.node)

    return setitem


def _watched_getitem(name: str, original: Any) -> Any:
    def getitem(self: Tensor, index: Any) -> Any:
        seen = watching() if self._data is not None else None
        if seen is None:
            return original(self, index)
        start = perf_counter()
        seen.quiet += 1
        try:
            out = original(self, index)
        finally:
            seen.quiet -= 1
        if out.node is not None and out.node.code is getitem.__code__:
            out.node.code, out.node.offset = user_place()  # it took this function for its caller
        if out._data is not None:
            op = out.node.op if out.node is not None else TABLE["slice"]
            picks = [i._data for i in (index if type(index) is tuple else (index,)) if isinstance(i, Tensor)]
            attrs = EMPTY_ATTRS if out.node is None else out.node.attrs

            def run(value: Any, *_: Any) -> Any:
                return original(wrap(np.asarray(value)), index)._data

            seen.step(op, (self._data, *picks), out._data, run, attrs, start, out.node)
        return out

    return getitem


_METHODS = (
    "detach", "item", "tolist", "numpy", "__array__", "__float__", "__int__", "__bool__", "__complex__",
    "__format__", "assign_", "requires_grad_",
)  # fmt: skip


def _watched_method(name: str, original: Any) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        seen = watching()
        if seen is None:
            return original(self, *args, **kwargs)
        seen.leak(name, self._data, self.node)
        seen.quiet += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            seen.quiet -= 1

    return method


def _watched_pull(name: str, original: Any) -> Any:
    def pull(lib: Any, node: Node, saved: Any, ct: Any, mask: Any, cts: Any, masks: Any, needed: Any) -> None:
        seen = _observer.get()
        if (seen is None or seen.quiet) and (seen := watching()) is None:
            original(lib, node, saved, ct, mask, cts, masks, needed)
            return
        start = perf_counter()
        if node.op is OUTPUT:
            original(lib, node, saved, ct, mask, cts, masks, needed)
            seen.pulled(node, ct, (), {node.inputs[0]: ct}, lib.recording, start)
            return
        own: dict[Node, Any] = {}
        own_masks: dict[Node, Any] = {}
        # A recorded backward pass, and a user's own rule, are made of operations: they are seen.
        rule = isinstance(node.op, CustomOp) and not lib.recording
        pause = 0 if lib.recording or rule else 1
        token = set_mode(get_mode().within(Scope("gradient", RULE, node.scope))) if rule else None
        seen.quiet += pause
        try:
            original(lib, node, saved, ct, mask, own, own_masks, needed)
        finally:
            seen.quiet -= pause
            if token is not None:
                reset_mode(token)
        seen.pulled(node, ct, saved, own, lib.recording, start)
        for entry, g in own.items():
            if entry in cts or entry in own_masks:
                reverse._accumulate(lib, cts, masks, entry, g, own_masks.get(entry))
            else:
                cts[entry] = g

    return pull
