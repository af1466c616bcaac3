"""Paths of programs: a traced function ready to run, with the sources of its inputs and the targets of its outputs."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import setitem
from typing import Any

import numpy as np

from ...core import tree
from ...core.elsewhere import CPU, Elsewhere, as_data, here, place_of, spec_at
from ...core.errors import GraphError, WriteError, fail
from ...core.graph.graph import Graph
from ...core.ops.record import another
from ...core.spec import show
from ...core.standins import DataView, WeakTensor, weak
from ...core.state.at_once import Call, at_once
from ...core.state.cells import ArrayCell, Cell, TensorCell, set_data, set_grad, set_node, set_share, set_spec, storing
from ...core.state.turns import Turn, turns_of
from ...core.storage import is_shared
from ...core.tensor import Tensor, like, of_class, wrap
from ...ops.index.inplace import check_reaches
from ..engines import DEFAULT, XLA, Engine
from ..native.compile import Compiled
from ..xla.memory import settled
from . import donation
from .capture.captured import Captures
from .capture.results import Constant, Itself, NewLeaf, Source, Taken, class_of, node_of, output_of
from .executor import CompileGraph, Executor
from .recorded import Recorded
from .signature import Call as Arguments
from .signature import as_array, as_fed
from .tracing import TRACING, Traced


class Path:
    """One path of a program: every decision taken one way.

    `run` gives all outputs of the graph, the decisions' values among them.
    """

    __slots__ = (
        "engine",
        "place",
        "here",
        "traced",
        "graph",
        "compile_graph",
        "executor",
        "donated",
        "given",
        "decisions",
        "first",
        "carries",
        "records",
        "shares",
        "writes",
        "_turns",
    )

    def __init__(
        self,
        traced: Traced,
        compile_graph: CompileGraph,
        given: Mapping[int, str],
        engine: Engine = DEFAULT,
        place: str = CPU,
        here: Container[int] = (),
    ) -> None:
        self.engine = engine
        # The device on which tensors are placed that it is given, and the outputs that are the host's all the same.
        self.place, self.here = place, here
        self.compile_graph = compile_graph
        self.traced = traced
        self.graph = traced.graph
        # The arguments, by their numbers, that the caller gives away, each with what to say of that.
        self.given = {} if traced.tracked or traced.guards else given
        self.donated = donation.donated_inputs(traced, self.given)
        self.executor = compile_graph(traced.graph, self.donated, replaced=donation.replaced(traced, self.donated))
        if donation.fails_after_writing(self.executor) or _are_looked_at(traced):
            self.donated = (False,) * len(self.donated)
            self.executor = compile_graph(traced.graph, None)
        self.decisions = tuple(g.value for g in traced.guards)
        # Visible effects happen only on the path that is taken: the decisions are computed first.
        self.first: Executor | None = None
        if traced.has_effects and traced.guards:
            self.first = compile_graph(
                Graph([traced.graph.outputs[g.output] for g in traced.guards], traced.graph.inputs, traced.graph.name),
                None,
            )
        self.records: dict[tuple[int, ...], Recorded] = {}
        # True where results carry gradients on to what is outside.
        self.carries = bool(traced.tracked)
        # True where it writes to tensors of a namespace with views.
        self.shares = False
        # True where anything outside has another value after a run.
        self.writes = bool(
            self.given
            or traced.cell_writes
            or traced.argument_writes
            or traced.cell_grads
            or traced.argument_grads
            or traced.place_writes
            or traced.flag_writes
        )
        # The turns of the state outside, by captured state.
        self._turns: weakref.WeakKeyDictionary[Captures, tuple[Turn, ...]] = weakref.WeakKeyDictionary()

    @property
    def is_settled(self) -> bool:
        """True where it is known how the program runs, so that calls may be made to measure."""
        return not isinstance(self.executor, Compiled) or self.executor.program.is_settled

    def feeds(self, leaves: Sequence[Any], positions: Sequence[int], captures: Captures) -> list[Any]:
        """Return the present values of the inputs: arrays, in the graph's order. Raises WriteError for an argument that
        it may not write to.
        """
        if not self.decisions:  # else it is not known yet whether the call takes this path
            self._check_writes(leaves, positions, captures)
        out = []
        take, as_value = donation.taking(self.engine, self.place), as_array if self.place == CPU else as_fed
        for (kind, i), donated in zip(self.traced.sources, self.donated, strict=True):
            if kind == "argument":
                leaf = leaves[positions[i]]
                if donated:
                    out.append(take.of_tensor(leaf) if isinstance(leaf, Tensor) else np.array(as_array(leaf)))
                    continue
                out.append(as_value(self._value(leaf)) if isinstance(leaf, Tensor) else as_array(leaf))
            elif kind == "cell":
                cell = captures.cells[i]
                if donated:
                    out.append(as_value(take.of_cell(cell)))
                else:
                    out.append(as_value(self._value(cell.tensor) if isinstance(cell, TensorCell) else cell.get()))
            elif kind == "cell gradient":
                owner = captures.cells[i].tensor  # type: ignore[attr-defined]
                out.append(take.of_gradient(owner) if donated else as_value(owner.grad._array))
            else:
                out.append(as_value(leaves[positions[i]].grad._array))
        return out

    def _value(self, t: Tensor) -> Any:
        return settled(t) if self.engine.name == XLA and self.place == CPU else t._array

    def tensors(
        self, feeds: Sequence[Any], leaves: Sequence[Any], positions: Sequence[int], captures: Captures
    ) -> list[Tensor]:
        """Return the inputs as tensors that carry gradients, where they do."""
        out = []
        for feed, (kind, i) in zip(feeds, self.traced.sources, strict=True):
            owner = None
            if kind == "argument":
                owner = leaves[positions[i]]
            elif kind == "cell":
                owner = getattr(captures.cells[i], "tensor", None)
            if isinstance(owner, Tensor) and owner.requires_grad:
                out.append(another(owner))
            else:
                # The record keeps values, which a caller's array might not stay.
                out.append(wrap(np.array(feed) if isinstance(owner, np.ndarray) else as_data(feed)))
        return out

    def grads_fit(self, leaves: Sequence[Any], positions: Sequence[int], captures: Captures) -> bool:
        """Return whether there are gradients where, and only where, the trace looked and found some."""
        for (kind, i), there in self.traced.grads_read:
            owner = self._tensor(kind.removesuffix(" gradient"), i, leaves, positions, captures)
            if (owner.grad is not None) is not there:
                return False
        return True

    def recorded(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return the outputs, recorded as results of one operation."""
        tracked = tuple(i for i, t in enumerate(inputs) if t.requires_grad)
        found = self.records.get(tracked)
        if found is None:
            found = self.records[tracked] = Recorded(self.graph, self.executor, self.compile_graph, tracked)
        return found(inputs)

    def found(self, outputs: Sequence[Any]) -> tuple[bytes, ...]:
        """Return the values of the decisions among the outputs, up to the first that this path does not take."""
        return _until([outputs[g.output] for g in self.traced.guards], self.decisions)

    def found_first(self, feeds: Sequence[Any]) -> tuple[bytes, ...]:
        """Return the values of the decisions before anything else is run."""
        return self.decisions if self.first is None else _until(self.first.run(feeds), self.decisions)

    def commit(
        self,
        outputs: Sequence[Any],
        carried: Sequence[Tensor] | None,
        leaves: Sequence[Any],
        positions: Sequence[int],
        captures: Captures,
        old: list[Any],
        calls: Iterable[Call] = (),
    ) -> None:
        """Make the calls, and give everything outside that the program writes to its new value, all at once.

        What stood there is put into `old`: its end may run code of users', which is not to come in between.
        """
        if self.decisions:
            self._check_writes(leaves, positions, captures)
        writes = chain(calls, *self._writes(outputs, carried, leaves, positions, captures, old))
        flags = [
            (self._tensor(kind, i, leaves, positions, captures), collects)
            for (kind, i), collects in self.traced.flag_writes
        ]
        with TRACING:  # else they might be undone with the trace
            if flags:
                _flagged(flags, writes)
            else:
                at_once(writes)()

    def _writes(
        self,
        outputs: Sequence[Any],
        carried: Sequence[Tensor] | None,
        leaves: Sequence[Any],
        positions: Sequence[int],
        captures: Captures,
        old: list[Any],
    ) -> Iterator[Iterable[Call]]:
        """Yield the calls that give everything outside that the program writes to its new value, place by place."""
        traced = self.traced
        for write in traced.place_writes:  # first, since views are among what is kept, which the values written reach
            old.append(write.place(captures).read())
            kept = [self.shown(r, outputs, carried, leaves, positions, captures) for r in write.leaves]
            yield (write.write(captures, kept),)
        for i, k, has_past, parts in traced.cell_writes:
            cell, new = captures.cells[i], as_data(outputs[k])
            old.append(cell.get())
            if isinstance(cell, TensorCell):
                yield self._stored(cell.tensor, new, parts, k)
            else:
                yield cell.writes(new)
            if has_past:
                yield self._renewed(cell.tensor, k, carried)  # type: ignore[attr-defined]
        for i, k, has_past, parts in traced.argument_writes:
            owner = self._tensor("argument", i, leaves, positions, captures)
            if isinstance(owner, np.ndarray):
                yield ((setitem, owner, ..., outputs[k]),)
            if not isinstance(owner, Tensor):
                continue  # a NumPy scalar, whose name alone was bound anew
            old += owner._array, owner._share
            yield self._stored(owner, as_data(outputs[k]), parts or owner.writes_through is None, k)
            if has_past:
                yield self._renewed(owner, k, carried)
        for kind, grads in (("cell", traced.cell_grads), ("argument", traced.argument_grads)):
            for i, g, stays in grads:
                owner = self._tensor(kind, i, leaves, positions, captures)
                gradient, value = getattr(owner, "_grad", None), None if g is None else as_data(outputs[g])
                if stays and gradient is not None and value is not None:
                    old.append(gradient._array)
                    yield storing(gradient, value)
                else:
                    old.append(gradient)
                    yield ((set_grad, owner, None if value is None else like(owner, wrap(value))),)
        for i, where in self.given.items():
            leaf = leaves[positions[i]]
            if isinstance(leaf, Tensor):
                yield donation.killing(leaf, where)

    def _stored(self, x: Tensor, new: Any, parts: bool, k: int) -> Iterable[Call]:
        """Return the calls that give a tensor an output, and all that shares memory with it unless it `parts`.

        Raises WriteError where the others would have to carry gradients.
        """
        if parts:
            return (set_data, x, new), (set_share, x, None)
        if k in self.traced.tracked and is_shared(x):
            fail(
                WriteError,
                f"a compiled write of what carries gradients to {show(x.shape, x.dtype)}, which has views outside",
                "Their gradients would be lost. Let the function return the new value, and write it outside.",
            )
        return storing(x, new)

    def turns(self, leaves: Sequence[Any], positions: Sequence[int], captures: Captures) -> tuple[Turn, ...]:
        """Return the turns that a run holds: those of all that it reads in order to write it."""
        traced = self.traced
        arguments = sorted({*(w.number for w in traced.argument_writes), *(g.number for g in traced.argument_grads)})
        known = self._turns.get(captures)
        if known is None:
            cells = sorted({*(w.number for w in traced.cell_writes), *(g.number for g in traced.cell_grads)})
            places: list[tuple[Any, Turn | None]] = [(captures.cells[i].key, captures.cells[i].turn) for i in cells]
            found = [write.place(captures) for write in traced.place_writes]
            known = turns_of([*places, *((("place", id(p.holder), p.name), None) for p in found)])
            self._turns[captures] = known
        if not arguments:
            return known
        owners = [self._tensor("argument", i, leaves, positions, captures) for i in arguments]
        return turns_of([*((turn.number, turn) for turn in known), *(((id(x),), None) for x in owners)])

    def stands(self, captures: Captures, stood: Mapping[tuple[int, Any], Any]) -> bool:
        """Return whether the places that a run writes to still hold what `stood` there, by holder and name."""
        found = [write.place(captures) for write in self.traced.place_writes]
        return all(stood.get((id(p.holder), p.name), now) is now for p in found for now in (p.read(),))

    def _renewed(self, t: Tensor, k: int, carried: Sequence[Tensor] | None) -> Iterable[Call]:
        """Return the calls that give a tensor that is written to the shape and the history of an output."""
        yield set_node, t, self._past(k, carried)
        if not t.is_weak:
            spec: Any = self.graph.outputs[k].spec
            there = self.place != CPU and k not in self.here
            yield set_spec, t, spec_at(spec.shape, spec.dtype, self.place) if there else spec

    def _past(self, k: int, carried: Sequence[Tensor] | None) -> Any:
        """Return the node of an output, where gradients flow back from it."""
        return carried[k].node if carried is not None and k in self.traced.tracked else None

    def _check_writes(self, leaves: Sequence[Any], positions: Sequence[int], captures: Captures) -> None:
        for i, _, _, parts in self.traced.cell_writes:
            t = getattr(captures.cells[i], "tensor", None)
            if not isinstance(t, Tensor) or t.writes_through is None:
                continue
            if isinstance(t._array, Elsewhere) and not parts:
                t.writes_through.refuse_apart(t)
            if t._share is not None:
                check_reaches(t, f"a compiled function's write to a tensor from outside ({self.graph.name})")
        for i, _, _, parts in self.traced.argument_writes:
            leaf, what = leaves[positions[i]], f"a compiled function's write to an argument ({self.graph.name})"
            if isinstance(leaf, Tensor):
                check_reaches(leaf, what)
                if leaf.writes_through is not None and isinstance(leaf._array, Elsewhere) and not parts:
                    leaf.writes_through.refuse_apart(leaf)
            elif isinstance(leaf, np.ndarray) and not leaf.flags.writeable:
                fail(WriteError, f"{what} that is read-only, {show(leaf.shape, leaf.dtype)}", "Pass it a copy.")
            elif isinstance(leaf, np.ndarray) and any(
                np.may_share_memory(leaf, leaves[k]) for k in positions if k != positions[i] and _is_array(leaves[k])
            ):
                shared = f"{what} that shares memory with another one, {show(leaf.shape, leaf.dtype)}"
                fail(WriteError, shared, "The program reads each of them on its own: pass copies.")

    @staticmethod
    def _tensor(kind: str, i: int, leaves: Sequence[Any], positions: Sequence[int], captures: Captures) -> Any:
        if kind == "cell":
            return captures.cells[i].tensor  # type: ignore[attr-defined]
        leaf = leaves[positions[i]]
        return leaf.owner if isinstance(leaf, DataView) else leaf

    def results(
        self,
        outputs: Sequence[Any],
        carried: Sequence[Tensor] | None,
        leaves: Sequence[Any],
        positions: Sequence[int],
        captures: Captures,
    ) -> Any:
        """Return what the function returns."""
        found = [self.shown(r, outputs, carried, leaves, positions, captures) for r in self.traced.results]
        for i, (r, view) in enumerate(zip(self.traced.results, found, strict=True)):
            if type(r) is Taken and r.source.kind == "result":
                r.taken.of(found[r.source.number], view)
            elif type(r) is Itself and r.source.kind == "result":
                found[i] = found[r.source.number]
        structure = self.traced.structure
        return found[0] if structure.kind is None else tree.unflatten(structure, found[: structure.count])

    def itself(self, source: Source, leaves: Sequence[Any], positions: Sequence[int], captures: Captures) -> Any:
        """Return the tensor that a result is, of an argument or a cell; None where there is none."""
        if source.kind == "result":
            return None
        if source.kind == "cell":
            return captures.cells[source.number].tensor  # type: ignore[attr-defined]
        leaf = leaves[positions[source.number]]
        return leaf if isinstance(leaf, Tensor) and source.number not in self.given else None

    def shown(
        self,
        result: Any,
        outputs: Sequence[Any],
        carried: Sequence[Tensor] | None,
        leaves: Sequence[Any],
        positions: Sequence[int],
        captures: Captures,
    ) -> Any:
        """Return a leaf of what is returned or kept; `carried` tensors that carry gradients are taken as they are."""
        if type(result) is Itself:
            same = self.itself(result.source, leaves, positions, captures)
            if same is not None:
                return same
            result = result.value
        if type(result) is Taken:
            found = self.shown(result.value, outputs, carried, leaves, positions, captures)
            owner = self.itself(result.source, leaves, positions, captures)
            return found if owner is None else result.taken.of(owner, found)
        if type(result) is Constant:
            # The caller may write into an array.
            return result.value.copy() if isinstance(result.value, np.ndarray) else result.value
        k = output_of(result)
        assert k is not None
        if type(result) is NewLeaf:
            leaf = of_class(result.cls, wrap(outputs[k])).requires_grad_()
            leaf.grad = None if result.grad is None else like(leaf, wrap(outputs[result.grad]))
            return leaf
        found = carried[k] if carried is not None and k in self.traced.tracked else wrap(outputs[k])
        cls = class_of(result)
        if (node := node_of(result)) is not None:
            found.node = node
        return found if cls is Tensor else weak(found) if cls is WeakTensor else of_class(cls, found)


def _are_looked_at(traced: Traced) -> bool:
    """Return whether code of users' makes pytrees of results, which it is given before they are there."""
    waiting = [write.structure for write in traced.place_writes]
    while waiting:
        structure = waiting.pop()
        if structure.kind not in (None, type(None), tuple, list, dict):
            return True
        waiting += structure.children
    return False


def _flagged(flags: Sequence[tuple[Tensor, bool]], writes: Iterable[Call]) -> None:
    """Make calls at once, after tensors have begun or ceased to collect gradients: all of it, or nothing."""
    done: list[bool] = []
    undo = at_once([(set_node, owner, owner.node) for owner, _ in flags])
    everything = at_once(chain(writes, ((done.append, True),)))
    try:
        for owner, collects in flags:
            owner.requires_grad_(collects)
        everything()
    except BaseException:
        if not done:
            undo()
        raise


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray)


def _until(values: Sequence[Any], expected: tuple[bytes, ...]) -> tuple[bytes, ...]:
    for k, (value, wanted) in enumerate(zip(values, expected, strict=True)):
        now = np.asarray(here(value, "a decision")).tobytes()
        if now != wanted:
            return (*expected[:k], now)
    return expected


# -- the device that a program runs on


def place_of_program(name: str, traced: Traced, call: Arguments, captures: Captures) -> tuple[str, str]:
    """Return the device that a program runs on, and the name of a tensor there: "cpu" where all are the processor's.

    What a module's optimiser keeps beside its parameters follows them, and numbers come from the host. Raises
    GraphError for tensors on several devices.
    """
    found: dict[str, str] = {}
    for what, x in _tensors(traced, call, captures):
        place = place_of(x)
        if place != CPU or (x.shape and x._array is not None and not isinstance(x._array, Elsewhere)):
            found.setdefault(place, what)
    places = [p for p in found if p != CPU]
    if len(found) > 1 and places:
        first, second = (places[0], places[1]) if len(places) > 1 else (places[0], CPU)
        fail(
            GraphError,
            f"{name} computes with tensors on two devices, {found[first]} on {first} and {found[second]} on {second}",
            f"A program runs on one: bring them together, x.to({first!r}), module.to({first!r}).",
        )
    return (places[0], found[places[0]]) if places else (CPU, "")


def _tensors(traced: Traced, call: Arguments, captures: Captures) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that a program reads, and those on other devices that it writes, each with its name."""
    inputs = zip(traced.graph.inputs, traced.sources, strict=True)
    for node, (kind, i) in sorted(inputs, key=lambda source: source[1].kind):  # arguments first
        owner: Any = None
        if kind == "argument":
            owner = call.leaves[call.positions[i]]
        elif kind == "cell":
            owner = getattr(captures.cells[i], "tensor", None)
        if isinstance(owner, Tensor):
            yield str(node.attrs.get("name") or traced.graph.names[node]), owner
    for w in traced.cell_writes:
        cell = captures.cells[w.number]
        if isinstance(cell, TensorCell) and place_of(cell.tensor) != CPU:
            yield captures.names[cell.key], cell.tensor
    for w in traced.argument_writes:
        leaf = call.leaves[call.positions[w.number]]
        if isinstance(leaf, Tensor) and place_of(leaf) != CPU:
            yield f"argument {w.number}", leaf


def kept_here(traced: Traced, call: Arguments, captures: Captures) -> frozenset[int]:
    """Return the outputs of a program on a device that the host keeps: decisions, numbers, tensors that are there."""
    found = {g.output for g in traced.guards}
    for w in traced.cell_writes:
        if _is_here(captures.cells[w.number]):
            found.add(w.output)
    for w in traced.argument_writes:
        leaf = call.leaves[call.positions[w.number]]
        if not isinstance(leaf, Tensor) or place_of(leaf) == CPU:
            found.add(w.output)
    for kind, grads in (("cell", traced.cell_grads), ("argument", traced.argument_grads)):
        for i, k, _ in grads:
            owner = captures.cells[i].tensor if kind == "cell" else call.leaves[call.positions[i]]  # type: ignore[attr-defined]
            if k is not None and place_of(owner) == CPU:
                found.add(k)
    for r in (*traced.results, *(r for w in traced.place_writes for r in w.leaves)):
        k = output_of(r)
        while type(r) in (Itself, Taken):
            r = r.value
        if k is not None and class_of(r) is WeakTensor:
            found.add(k)
    return frozenset(found)


def _is_here(cell: Cell) -> bool:
    """Return whether a cell's value stays the host's: an optimiser's buffers go where its parameters are."""
    if isinstance(cell, TensorCell):
        return place_of(cell.tensor) == CPU
    return not isinstance(cell, ArrayCell) or not cell.spec.shape
