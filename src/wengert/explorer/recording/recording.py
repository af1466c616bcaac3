"""Recordings: a recorder's tapes put in order, as rows of operations and leaves, with what is known of each.

A `Recording` is what documents and findings are made from, wherever it comes from: a run that was
watched, a tensor's recorded graph replayed, a graph without values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

import numpy as np

from ...core.mode import Scope
from ...core.node import EMPTY_ATTRS, Node
from ...core.ops.op import ALIAS, Op
from ...core.ops.record import OUTPUT, kept_values
from ...core.source import Source
from ...core.spec import spec_of
from ...core.tensor import Tensor
from .recorder import Activation, Called, Leaked, Optimizing, Pass, Pulled, Ran, Recorder, Tape, Updated, made_by

# Leaks by which a program takes values as numbers, to decide by them or to go on with them outside of the graph.
READS = frozenset({"__bool__", "__float__", "__int__", "__complex__", "item", "tolist", "numpy", "__array__"})

Kind = Literal["input", "param", "const", "op", "root"]
Phase = Literal["forward", "backward", "optimizer", "recompute"]


@dataclass(slots=True, eq=False)
class Row:
    """A node of the document.

    `operands` has the row of every operand, None where a Python number stands (`literals` has it, by
    position). `value` is an array, a tuple of arrays for several results, None where it is not known.
    `unrecorded` says that it ran where nothing is recorded. `gradient` is what arrived in the last backward
    pass that came by, `left` what went to each operand, `saved` what is kept for it, aligned with the
    operands, the result last. `given` says that a leaf is the program's own, a variable or an argument, and no part of
    a module.
    """

    op: Op | None
    kind: Kind
    operands: list[Row | None] = field(default_factory=list)
    literals: dict[int, Any] = field(default_factory=dict)
    value: Any = None
    spec: Any = None
    attrs: Mapping[str, Any] = field(default_factory=lambda: EMPTY_ATTRS)
    node: Node | None = None
    activation: Activation | None = None
    code: CodeType | Source | None = None
    offset: int = -1
    scope: Scope | None = None
    name: str = ""
    given: bool = False
    unrecorded: bool = False
    gradient: Any = None
    left: dict[int, Any] = field(default_factory=dict)
    saved: tuple[Any, ...] = ()
    index: int = -1

    @property
    def tracked(self) -> bool:
        """True where gradients can flow here."""
        return self.node is not None and self.node.requires_grad

    @property
    def specs(self) -> tuple[Any, ...]:
        """The specs of the results; none where nothing is known."""
        if self.spec is None:
            return ()
        return self.spec if isinstance(self.spec, tuple) else (self.spec,)

    @property
    def edges(self) -> list[tuple[int, Row]]:
        """The operands that are rows, by position: of all rows in turn, these are a document's edges."""
        return [(slot, operand) for slot, operand in enumerate(self.operands) if operand is not None]


@dataclass(slots=True, eq=False)
class Event:
    """An event of a row, in a phase; a step of a backward pass or of an optimiser has its record."""

    phase: Phase
    row: Row
    thread: int
    start: float
    end: float
    pulled: Pulled | None = None
    updated: Updated | None = None


@dataclass(eq=False)
class Recording:
    """One run: rows, each after its operands, and events in the order of time.

    `passes` counts backward passes, `parameters` are all that the program can reach, with their names. `stepped` are
    those of the optimisers that took a step in it, `optimized` those of all optimisers of the program, `passing` the
    leaves that this run made when its optimisers were there already. `learned` are the leaves that gradients came to,
    in this or another step of the program; `standing` those that had one when this step's first pass came to them,
    which began at `standing_at`; `optimizer_at` is where the program made its last optimiser.
    `touched` are the leaves that operations took, also those that no row shows: nodes, and identities of arrays.
    `reads` are the values that the program took out as Python's or NumPy's numbers before its last operation, or to
    decide by before its backward pass, with their rows. `state_bytes` is what the optimisers keep from step to step.
    """

    rows: list[Row]
    events: list[Event]
    roots: list[Row]
    leaks: list[Leaked] = field(default_factory=list)
    script: str = ""
    title: str = ""
    step: int | None = None
    started: float = 0.0
    seconds: float | None = None
    values: bool = True
    passes: int = 0
    error: BaseException | None = None
    notes: list[str] = field(default_factory=list)
    parameters: list[tuple[str, Tensor]] = field(default_factory=list)
    stepped: set[Node] = field(default_factory=set)
    optimized: set[Node] = field(default_factory=set)
    passing: set[Row] = field(default_factory=set)
    learned: set[Node] = field(default_factory=set)
    standing: frozenset[Node] = frozenset()
    standing_at: Called | None = None
    optimizer_at: Called | None = None
    touched: set[Node | int] = field(default_factory=set)
    reads: list[tuple[Leaked, Row]] = field(default_factory=list)
    state_bytes: int = 0
    inputs: Mapping[str, Any] | None = None
    stored: bool = False


def raw(value: Any) -> Any:
    """Return arrays for tensors, in lists and tuples too."""
    if isinstance(value, (list, tuple)):
        return tuple(raw(v) for v in value)
    return value._array if isinstance(value, Tensor) else value


class Builder:
    """A builder of rows, as values and nodes come to be. `inputs` are the nodes that are a program's arguments."""

    def __init__(self, inputs: Iterable[Node] = ()) -> None:
        self.rows: list[Row] = []
        self.of_node: dict[Node, Row] = {}
        self.inputs = set(inputs)
        self.made: set[Node] = set()  # the nodes that this run made
        self._of_array: dict[int, Row] = {}
        self._alive: list[Any] = []  # so that no identity is used twice

    def of(self, value: Any) -> Row | None:
        """Return the row of an array, or of one that it is a view of."""
        return self._of_array.get(id(value)) or self._of_array.get(id(getattr(value, "base", None)))

    def leaf(self, value: Any, node: Node | None) -> Row:
        """Return the row of an array that nothing here has computed."""
        if node is None:
            kind: Kind = "const"
        elif node in self.inputs or node.op.kind != "leaf":
            kind = "input"
        else:
            kind = "param" if node.requires_grad else "input"
        row = self._of_array.get(id(value))
        if node is not None and row is not None and row.op is None and row.node is None:
            row.kind, row.node = kind, node  # an operation without gradients had it first
            self.of_node[node] = row
            return row
        row = Row(None, kind, value=value, node=node)
        if node is not None:
            self.of_node[node] = row
            row.spec = node.spec
        self._add(row)
        return row

    def _add(self, row: Row) -> None:
        value = row.value
        if row.spec is None and value is not None:
            if isinstance(value, (tuple, list)):
                row.spec = tuple(spec_of(v.shape, v.dtype) for v in value)
            else:
                row.spec = spec_of(value.shape, value.dtype)
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(part, (np.ndarray, np.generic)):
                self._of_array[id(part)] = row
                self._alive.append(part)
        self.rows.append(row)

    def ran(self, op: Op, inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any], node: Node | None) -> Row:
        """Return the row of an operation, made after those of its operands."""
        row = Row(op, "op", value=out, attrs=attrs, node=node)
        recorded = node is not None and len(node.inputs) == len(inputs)
        for i, value in enumerate(inputs):
            entry = node.inputs[i] if recorded and node is not None else value
            row.operands.append(self._operand(row, i, entry, value))
        if node is not None:
            self.of_node[node] = row
            row.spec = node.spec
            if recorded and node.requires_grad:
                tracked = tuple(isinstance(e, Node) and e.requires_grad for e in node.inputs)
                row.saved = kept_values(op, tracked, [raw(v) for v in inputs], out)
        self._add(row)
        return row

    def _operand(self, row: Row, index: int, entry: Any, value: Any) -> Row | None:
        if isinstance(entry, Node):
            found = self.of_node.get(entry) or self.unseen(entry, raw(value))
            if found.value is None and found.kind != "op":
                found.value = raw(value)
            return found
        value = raw(value)
        if isinstance(value, (np.ndarray, np.generic)):
            return self._of_array.get(id(value)) or self.leaf(value, None)
        if value is not None:
            row.literals[index] = value
        return None

    def unseen(self, node: Node, value: Any = None) -> Row:
        """Return the row of a node that no operation was seen to make.

        It is a leaf, or a broadcast, which is recorded and not run; a second name for a value; a user's own
        rule, whose inside was seen; or it is from before the recording. `value` is its array, or that of
        what it is a broadcast of.
        """
        stack = [node]
        while stack:
            current = stack[-1]
            waiting = [] if self._is_outside(current) else [e for e in current.inputs if isinstance(e, Node)]
            waiting = [e for e in waiting if e not in self.of_node]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if current not in self.of_node:
                self._unseen(current, value)
        return self.of_node[node]

    def _is_outside(self, node: Node) -> bool:
        return node.op.kind == "leaf" or (_is_run(node) and node not in self.made)

    def _unseen(self, node: Node, value: Any) -> None:
        if self._is_outside(node):
            owner = node.variable if node.op.name == "leaf" else None
            self.leaf(owner._array if value is None and owner is not None else value, node)
            return
        row = Row(node.op, "op", attrs=node.attrs, node=node, spec=node.spec)
        row.code, row.offset, row.scope = node.code, node.offset, node.scope
        known = value if not _is_run(node) else None  # what the operand's array is, where that is told
        for i, entry in enumerate(node.inputs):
            row.operands.append(self._operand(row, i, entry, known if isinstance(entry, Node) else entry))
        source = row.operands[0] if row.operands else None
        if node.op is ALIAS and source is not None:
            self.of_node[node] = source
            return
        if node.op.name == "broadcast":
            array = source.value if source is not None else next(iter(row.literals.values()), None)
            row.value = None if array is None else np.broadcast_to(array, node.spec.shape)
        elif node.op is OUTPUT and source is not None and source.value is not None:
            row.value = source.value[node.attrs["index"]]
        elif node.op.kind != "leaf" and not isinstance(node.spec, tuple) and _fits(value, node):
            row.value = value
        self.of_node[node] = row
        self._add(row)


def _is_run(node: Node) -> bool:
    """Return whether an op is computed where it is recorded: all but broadcasts, and what picks or renames."""
    return node.op is not ALIAS and node.op is not OUTPUT and node.op.name != "broadcast"


def _fits(value: Any, node: Node) -> bool:
    return getattr(value, "shape", None) == node.spec.shape


# -- a watched run


class _Assembly:
    """The rows and events of a recorder's tapes, in the order of time."""

    def __init__(self, recorder: Recorder, builder: Builder) -> None:
        self.builder = builder
        self.events: list[Event] = []
        self.leaks: list[Leaked] = []
        self.reads: list[tuple[Leaked, Row]] = []
        self.stepped: set[Node] = set()
        self.passing: set[Node | int] = set()  # leaves made after the optimisers: nodes, or identities of arrays
        self.seeds: list[list[Node]] = []  # what passes began with
        self.passes = 0
        self.again: list[bool] = []  # whether a pass was itself recorded
        self.standing: frozenset[Node] | None = None  # of the first pass
        self.standing_at: Called | None = None
        self.began: Called | None = None  # the pass in progress
        self.gradients: list[dict[Row, Any]] = []  # what arrived, pass by pass
        self.last_pass_ended = float("inf")
        items = [item for tape in recorder.tapes for item in self._paired(tape)]
        if len(recorder.tapes) > 1:
            items.sort(key=lambda item: item[0])
        for _, thread, entry, node in items:
            self._take(entry, thread, node)

    def _paired(self, tape: Tape) -> Iterable[tuple[float, int, Any, Node | None]]:
        """Return the entries of a tape with their times; an operation with the node that it made, which follows it."""
        entries = tape.entries
        # Optimisers that were not made here are older.
        ready = max((i for i, e in enumerate(entries) if type(e) is Optimizing and not e.steps), default=-1)
        for i, entry in enumerate(entries):
            if i > ready and isinstance(entry, Node):
                self.passing.add(entry)
            elif i > ready and type(entry) is Leaked and entry.what == "requires_grad_":
                self.passing.add(id(entry.value))
            if type(entry) is Ran:
                yield entry.start, tape.thread, entry, made_by(entries, i)
            elif isinstance(entry, Node):
                self.builder.made.add(entry)
            elif isinstance(entry, (Pass, Leaked, Optimizing)):
                yield entry.time, tape.thread, entry, None
            else:
                yield entry.start, tape.thread, entry, None

    def _take(self, entry: Any, thread: int, node: Node | None) -> None:
        if type(entry) is Ran:
            self._ran(entry, thread, node)
        elif type(entry) is Pulled:
            self._pulled(entry, thread)
        elif type(entry) is Pass:
            if entry.roots:
                self.passes += 1
                self.began = entry.called
                self.seeds.append([n for n, _ in entry.roots])
                self.gradients.append({})
                self.again.append(False)
                for root, ct in entry.roots:
                    self._arrive(self._row(root), raw(ct))
            else:
                self.last_pass_ended = entry.time
                if self.standing is None and self.again and not self.again[-1]:
                    self.standing, self.standing_at = entry.standing, self.began
        elif type(entry) is Updated and entry.node is not None:
            row = self._row(entry.node, entry.before)
            self.events.append(Event("optimizer", row, thread, entry.start, entry.end, updated=entry))
        elif type(entry) is Leaked:
            self.leaks.append(entry)
            # Now: the truth values of NumPy are two objects, which come again and again.
            read = self.builder.of(entry.value) if entry.what in READS else None
            if read is not None:
                self.reads.append((entry, read))
        elif type(entry) is Optimizing and entry.steps:
            self.stepped.update(entry.parameters)

    def roots(self) -> list[Node]:
        """Return the roots of backward passes that were not themselves recorded, the last one's first."""
        ends = [seeds for seeds, again in zip(self.seeds, self.again, strict=True) if not again]
        return list(dict.fromkeys(node for seeds in reversed(ends) for node in seeds))

    def set_gradients(self) -> None:
        """Give rows that no step handed on a gradient from what arrived: those of leaves add up over passes.

        A pass that was itself recorded is not the last one: its gradients are intermediate values.
        """
        last = [g for g, again in zip(self.gradients, self.again, strict=True) if not again]
        totals: dict[Row, Any] = {}
        for arrived in last:
            for row, gradient in arrived.items():
                before = totals.get(row)
                with np.errstate(all="ignore"):
                    totals[row] = gradient if before is None or isinstance(before, tuple) else before + gradient
        for row, gradient in totals.items():
            if row.op is None or row.gradient is None:
                row.gradient = gradient

    def _row(self, node: Node, value: Any = None) -> Row:
        return self.builder.of_node.get(node) or self.builder.unseen(node, value)

    def _ran(self, entry: Ran, thread: int, node: Node | None) -> None:
        builder = self.builder
        again = builder.of_node.get(entry.origin) if entry.origin is not None else None
        if again is not None and node is None:
            self.events.append(Event("recompute", again, thread, entry.start, entry.end))
            return
        first = len(builder.rows)
        row = builder.ran(entry.op, entry.inputs, entry.out, entry.attrs, node)
        for new in builder.rows[first:]:
            if new.op is not None:
                new.activation, new.offset, new.scope = entry.activation, entry.offset, entry.mode.scope
                new.code = entry.activation.code if entry.activation is not None else None
                new.unrecorded = not entry.mode.grad
                start = entry.start if new is row else entry.end
                self.events.append(Event("forward", new, thread, start, entry.end))
        if entry.origin is not None and entry.origin.source is not None:
            row.code, row.offset = entry.origin.source, 0

    def _arrive(self, row: Row, ct: Any) -> None:
        arrived = self.gradients[-1] if self.gradients else {}
        before = arrived.get(row)
        if before is None or isinstance(before, tuple) or isinstance(ct, tuple):
            arrived[row] = ct
        else:
            with np.errstate(all="ignore"):
                arrived[row] = before + ct

    def _pulled(self, entry: Pulled, thread: int) -> None:
        row = self._row(entry.node)
        if self.again:
            self.again[-1] = entry.recorded
        own = {node: raw(g) for node, g in entry.own.items()}
        for node, g in own.items():
            self._arrive(self._row(node), g)
        if entry.node.op is ALIAS:
            return
        row.gradient = raw(entry.ct)
        row.left = {}
        for i, node in enumerate(entry.node.inputs):
            if isinstance(node, Node) and node in own:
                row.left[i] = own[node]
        if entry.saved and not row.saved:
            row.saved = tuple(entry.saved)
        self.events.append(Event("backward", row, thread, entry.start, entry.end, entry))


def recorded(
    recorder: Recorder,
    inputs: Iterable[Node] = (),
    results: Sequence[Tensor] = (),
    builder: Builder | None = None,
) -> Recording:
    """Return the recording of what a recorder has seen.

    `inputs` are the nodes of arguments, `results` what the program gave. With `builder` there are rows already:
    those of what was not watched.
    """
    builder = builder or Builder(inputs)
    began = recorder.began
    before = [Event("forward", row, 0, began, began) for row in builder.rows if row.op is not None]
    made = _Assembly(recorder, builder)
    made.set_gradients()
    nodes = made.roots() or [t.node for t in results if t.node is not None]
    roots = list(dict.fromkeys(made._row(n) for n in nodes))
    for tensor in results:
        if tensor.node is None:
            found = builder._of_array.get(id(tensor._array))
            if found is not None and found not in roots:
                roots.append(found)
        elif (row := builder.of_node.get(tensor.node)) is not None and row.value is None:
            row.value = tensor._array
    rows = in_order(_kept(builder.rows, roots, made.events, made.last_pass_ended))
    kept = set(rows)
    touched: set[Node | int] = {id(r.value) for r in builder.rows if r.op is None}
    touched |= {r.node for r in builder.rows if r.node is not None}
    touched |= {k.node for k in made.leaks if k.node is not None and id(k.value) in touched}
    events = [e for e in before + made.events if e.row in kept]
    # A number matters to what is computed after it, a decision also to what is not.
    end = max((e.start for e in events if e.phase == "forward"), default=0.0)
    turn = min((e.start for e in events if e.phase == "backward"), default=float("inf"))
    return Recording(
        rows, events, roots, made.leaks, started=began, seconds=recorder.ended - began, step=recorder.number,
        passes=made.passes, stepped=made.stepped, optimized=recorder.optimized, learned=recorder.learned,
        standing=made.standing or frozenset(), standing_at=made.standing_at,
        optimizer_at=recorder.optimizer_at, touched=touched,
        reads=[(leak, row) for leak, row in made.reads if leak.time < (turn if leak.what == "__bool__" else end)],
        state_bytes=sum(recorder.states.values()),
        passing={r for r in rows if r.op is None and not made.passing.isdisjoint((r.node, id(r.value)))},
    )  # fmt: skip


def _kept(rows: Sequence[Row], roots: Sequence[Row], events: Sequence[Event], end: float) -> list[Row]:
    """Return the rows that results, or values that carry gradients, need.

    A program computes such things beside: values to begin with, figures to print, its update by hand.
    """
    late = {e.row for e in events if e.phase == "forward" and e.start > end and not e.row.tracked}
    needed: set[Row] = set()
    stack = [row for row in rows if row not in late and row.op is not None and (row.tracked or not roots)]
    stack += roots
    while stack:
        row = stack.pop()
        if row not in needed:
            needed.add(row)
            stack += [o for o in row.operands if o is not None and o not in needed]
    return [r for r in rows if r in needed or r.kind in ("input", "param")]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Return inputs, then parameters, then the rest as it came to be."""
    front = [r for r in rows if r.kind == "input"] + [r for r in rows if r.kind == "param"]
    return front + [r for r in rows if r.kind not in ("input", "param")]
