"""Donation: memory that a program may write its results into, and the counts of references that allow it.

State that a program reads and writes (parameters, an optimiser's buffers, gradients) is *donated* to it:
the new values are written where the old ones stood, and a step allocates nothing. An array that
anything but its place refers to (a view, another tensor, a recorded graph) is copied first, so nobody
ever sees a value change. Arguments are donated where `donate_argnums` says so; their tensors are then dead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, MutableMapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.elsewhere import CPU, Elsewhere
from ...core.errors import GraphError, fail
from ...core.state.at_once import Call
from ...core.state.cells import ArrayCell, Cell, TensorCell, set_node
from ...core.storage import is_shared
from ...core.tensor import Tensor
from ..engines import XLA, Engine
from ..native.codegen.kernel import Kernel
from ..native.compile import Compiled
from ..xla.memory import Held, held_by
from .executor import Executor
from .signature import PLAIN
from .tracing import Traced

_WRITEABLE = 0x0400
_OWNS_DATA = 0x0004
# The flags of an array that may be written into: plain, writeable, and the owner of its memory.
OWNED = PLAIN | _WRITEABLE | _OWNS_DATA
_HELD = PLAIN | _WRITEABLE


def donated_inputs(traced: Traced, arguments: Container[int]) -> tuple[bool, ...]:
    """Return for each input whether results may take its memory; `arguments` are the donated ones, by number.

    None where a run may yet turn out to be of no use: what it writes to must then be as before.
    """
    if traced.guards or traced.tracked:
        return (False,) * len(traced.sources)
    cells = {w.number for w in traced.cell_writes}
    gradients = {w.number for w in traced.cell_grads}
    return tuple(
        (kind == "cell" and i in cells)
        or (kind == "cell gradient" and i in gradients)
        or (kind == "argument" and i in arguments)
        for kind, i in traced.sources
    )


def replaced(traced: Traced, donated: Sequence[bool]) -> dict[int, int]:
    """Return for donated inputs by number the output that takes their place: for each another one, of its spec."""
    cells = {w.number: w.output for w in traced.cell_writes}
    gradients = {w.number: w.output for w in traced.cell_grads if w.output is not None}
    found: dict[int, int] = {}
    taken: set[int] = set()
    outputs = traced.graph.outputs
    for n, (kind, i) in enumerate(traced.sources):
        if not donated[n]:
            continue
        spec = traced.graph.inputs[n].spec
        known = cells.get(i) if kind == "cell" else gradients.get(i) if kind == "cell gradient" else None
        fits = (k for k, out in enumerate(outputs) if k not in taken and out.spec == spec)
        k = next(fits, None) if kind == "argument" else known
        if k is not None and k not in taken and outputs[k].spec == spec:
            found[n] = k
            taken.add(k)
    return found


def fails_after_writing(executor: Executor) -> bool:
    """Return whether a step of Python's, which may raise, comes after one that writes into an input."""
    if not isinstance(executor, Compiled):
        return False
    written = False
    for step in executor.program.plan.steps:
        if written and not isinstance(step.kernel, Kernel):
            return True
        written = written or any(b.whole.kind == "input" for b in step.writes)
    return False


# Without the global lock another thread's references may come between the count and the writing.
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()


class _Holder:
    __slots__ = ("value",)

    value: Any


# References to an object that only one place holds, counted as here.
_holder = _Holder()
_holder.value = np.zeros(1)
_ALONE = sys.getrefcount(_holder.value)


def _is_free(a: Any) -> bool:
    """Return whether native code may write into an array to which nothing but its place refers."""
    if type(a) is not np.ndarray:
        return False
    base: Any = a.base
    if type(base) is Held:  # XLA's memory, of which the array is all that there is to see
        return a.flags.num & _HELD == _HELD
    return a.flags.num & OWNED == OWNED and base is None


def _is_on_device(a: Any) -> bool:
    """Return whether XLA may take an array to which nothing but its place refers: what shows an array of JAX's, too."""
    return _is_free(a) or (type(a) is np.ndarray and held_by(a) is not None)


class Taking:
    """The ways to take state that a program is given: the array where nothing else refers to it, else a copy.

    What is elsewhere says itself what is taken.
    """

    def __init__(self, is_free: Callable[[Any], bool], is_placed: bool = False) -> None:
        self.is_free = is_free
        self.is_placed = is_placed  # for a program that takes what is on a device

    def _lent(self, value: Elsewhere, is_alone: bool) -> Any:
        """Return what is taken of a value that is elsewhere."""
        return value.lent(is_alone) if self.is_placed or value.place is None else value.fetched("a program's state")

    def of_tensor(self, t: Tensor) -> Any:
        """Return a tensor's array."""
        alone = _COUNTS_ARE_EXACT and sys.getrefcount(t._array) == _ALONE
        if isinstance(t._array, Elsewhere):
            return self._lent(t._array, alone)
        if alone and self.is_free(t._array):
            return t._array
        return np.array(t._array, order="C")

    def of_gradient(self, t: Tensor) -> Any:
        """Return the array of a leaf's gradient."""
        if _COUNTS_ARE_EXACT and sys.getrefcount(t._grad) == _ALONE:
            return self.of_tensor(t._grad)
        data = t._grad._array
        return self._lent(data, False) if isinstance(data, Elsewhere) else np.array(data, order="C")

    def of_item(self, items: MutableMapping[str, Any], name: str) -> Any:
        """Return an array in a dict."""
        alone = _COUNTS_ARE_EXACT and sys.getrefcount(items[name]) == _ALONE
        if isinstance(items[name], Elsewhere):
            return self._lent(items[name], alone)
        if alone and self.is_free(items[name]):
            return items[name]
        return np.array(items[name], order="C")

    def of_cell(self, cell: Cell) -> Any:
        """Return a cell's array."""
        if isinstance(cell, TensorCell):
            return self.of_tensor(cell.tensor)
        if isinstance(cell, ArrayCell):
            return self.of_item(cell.items, cell.name)
        return np.array(cell.get(), order="C")


_taking, _taking_on_xla, _taking_placed = Taking(_is_free), Taking(_is_on_device), Taking(_is_on_device, True)


def taking(engine: Engine, place: str = CPU) -> Taking:
    """Return how the programs of an engine, or those that run on a device, take what they are given."""
    if place != CPU:
        return _taking_placed
    return _taking_on_xla if engine.name == XLA else _taking


def is_viewed(t: Tensor | None) -> bool:
    """Return whether a tensor shares memory with others, which a write to it has to reach. False for no tensor."""
    return t is not None and is_shared(t)


class Donated(Tensor):
    """The state of a donated argument: a tensor without a value, which says so however it is used."""

    __slots__ = ()

    def _dead(self) -> NoReturn:
        fail(
            GraphError,
            f"a tensor that was donated, {_where(self)}, is used again",
            "Its memory holds a result of that call: use the result, or call without donate_argnums.",
        )

    _data = _spec = node = _grad = property(_dead)

    def __repr__(self) -> str:
        return f"<a tensor that was donated, {_where(self)}>"


_where: Callable[[Tensor], Any] = Tensor.__dict__["_data"].__get__
_set_where = Tensor.__dict__["_data"].__set__


def killing(t: Tensor, where: str) -> tuple[Call, ...]:
    """Return the calls that make a donated tensor report, to whoever uses it, where it was donated."""
    return (setattr, t, "__class__", Donated), (_set_where, t, where), (set_node, t, None)
