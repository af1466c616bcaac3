"""The protocol of a trace for compilation: what the program does beyond its graph.

Tracing a function for its graph refuses whatever needs a value. A compiler that has the arguments of
a call at hand can do better: a decision of the program (`if x > 0`) is taken by the value that it has
now and noted, and tensors from outside that the program meets or writes to are noted as its state. `x` is always
such a tensor; its class stands above this module.
"""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import user_location
from ..storage import lent_window, pin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..node import Node


class Capture:
    """A compiler's trace, told of what the graph alone would not show."""

    __slots__ = ()

    def decide(self, x: Any, what: str) -> Any:
        """Return the value of an abstract tensor with one element, on which the program's path depends from here."""
        raise NotImplementedError

    def fix(self, x: Any, what: str) -> None:
        """Raise to begin a trace in which `x` has a value, since shapes depend on it, if it may have one."""
        raise NotImplementedError

    def refuse(self, x: Any, what: str) -> None:
        """Raise for a use of an abstract tensor's value outside the graph."""
        raise NotImplementedError

    def meet(self, operands: Sequence[Any]) -> None:
        """Note tensors with values among operands, which become constants of the graph."""
        raise NotImplementedError

    def effect(self, x: Any) -> None:
        """Note a result that is computed at every run, whether anything uses it or not."""
        raise NotImplementedError

    def consume(self, roots: Sequence[Node]) -> None:
        """Note results that a backward pass started from, and whose graph it would have freed."""
        raise NotImplementedError

    def arrive(self, node: Node) -> None:
        """Raise for an input that a gradient has come to, if it would flow on from there outside."""
        raise NotImplementedError

    def write(self, x: Any) -> None:
        """Note a tensor that is about to be given an abstract value."""
        raise NotImplementedError

    def reshape(self, x: Any, what: str) -> None:
        """Raise for an abstract tensor from outside that is about to be given another shape in place."""
        raise NotImplementedError

    def part(self, x: Any) -> None:
        """Note an abstract tensor that is about to be given memory of its own."""
        raise NotImplementedError

    def lies(self, x: Any) -> tuple[int, ...] | None:
        """Return how a tensor, or a node, lies in memory that stands for one from outside; None: in C order."""
        raise NotImplementedError


_capture: ContextVar[Capture | None] = ContextVar("wengert_capture", default=None)
get_capture = _capture.get
set_capture = _capture.set
reset_capture = _capture.reset


# The leaves with values that were made while a whole program is traced: they are constants of its graph.
_fresh_leaves: ContextVar[list[Node] | None] = ContextVar("wengert_fresh_leaves", default=None)


class FreshLeaves:
    """A trace of a whole program, in which new leaves are part of it; afterwards they are ordinary leaves."""

    __slots__ = ("_found", "_token")

    def __enter__(self) -> None:
        self._found: list[Node] = []
        self._token = _fresh_leaves.set(self._found)

    def __exit__(self, *exc: object) -> None:
        _fresh_leaves.reset(self._token)
        for node in self._found:
            node.inputs = ()


fresh_leaves = _fresh_leaves.get
set_fresh_leaves = _fresh_leaves.set
reset_fresh_leaves = _fresh_leaves.reset

# The variables of transforms at work, by their nodes, with their values (None: abstract).
open_variables: weakref.WeakKeyDictionary[Node, Any] = weakref.WeakKeyDictionary()


# -- writes


class Written(NamedTuple):
    """A tensor that was written to: a weak reference, its slots before, and its place in traces.

    `data` is the value, `window` the memory of an array outside, if it lies in that.
    """

    tensor: weakref.ref[Any]
    data: Any
    node: Node | None
    base: Any
    window: Any
    where: str


class Filled(NamedTuple):
    """A leaf whose `.grad` was given a value in a trace: a weak reference, its node and gradient before, its place."""

    tensor: weakref.ref[Any]
    node: Node | None
    before: Any
    where: str


class Writes:
    """The tensors that a function writes to while a transform runs it, each as it was before.

    `is_trace` says that the function runs once in the place of many times or of none (it is traced in the midst of
    a computation): what it writes to outside is then no state of a compiled function around it.
    """

    __slots__ = ("found", "gradients", "is_trace", "outer", "_token")

    def __init__(self, is_trace: bool) -> None:
        self.found: dict[int, Written] = {}
        self.gradients: dict[int, Filled] = {}
        self.is_trace = is_trace
        self.outer: Writes | None = None

    def __enter__(self) -> Writes:
        self.outer = _writes.get()
        self._token = _writes.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _writes.reset(self._token)


_writes: ContextVar[Writes | None] = ContextVar("wengert_writes", default=None)


def notes_writes() -> bool:
    """Return whether a trace or a transform is at work that is told of writes."""
    return _writes.get() is not None or _capture.get() is not None


def note_write(x: Any, gives_abstract: bool) -> bool:
    """Tell the trace or transform at work that a tensor is about to be given another value, perhaps an abstract one.

    Returns whether there is anyone who sees to it that no abstract value outlives its trace.
    """
    writes = _writes.get()
    if writes is not None or _capture.get() is not None:
        pin(x)  # what is noted here is what the tensor has again afterwards
    while writes is not None:
        if id(x) not in writes.found:
            where = user_location() if writes.is_trace else ""
            writes.found[id(x)] = Written(weakref.ref(x), x._array, x.node, x._share, lent_window(x), where)
        if writes.is_trace:
            return True
        writes = writes.outer
    capture = _capture.get()
    if capture is not None and gives_abstract and x._array is not None:
        capture.write(x)
    return capture is not None


def note_gradient(x: Any) -> None:
    """Tell the enclosing trace, if any, that a tensor is about to be given another gradient."""
    writes = _writes.get()
    while writes is not None and not writes.is_trace:
        writes = writes.outer
    if writes is not None and id(x) not in writes.gradients:
        writes.gradients[id(x)] = Filled(weakref.ref(x), x.node, getattr(x, "_grad", None), user_location())


# The observer of writes; None while a trace of its own begins.
get_writes = _writes.get
set_writes = _writes.set
reset_writes = _writes.reset
