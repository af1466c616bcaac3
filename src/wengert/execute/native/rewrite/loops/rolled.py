"""Loops are found: stretches that a long graph repeats become scans.

A Python loop of a thousand steps is traced as a thousand copies of its body, in order, and so is the loop of its
derivative. Planning costs time and memory for each node, so the copies are found and become one scan each:

1. *Runs*: every node gets a label of what it computes, but for its operands. A stretch of labels that repeats with a
   period is a run.
2. *Operands* decide what a run is. One at a constant distance is made in the same step, or is the state that the step
   before left; one that is the same in all steps is shared; one that moves by a constant distance over nodes outside,
   over the steps of an earlier run or over the rows of an array, is a row of a sequence. Where a step at either end
   differs it stays outside. A run with any other operand stays as it is.
3. *Results*: what is used of the last step alone is the state at the end, all else are rows. A later run computes again
   what is cheap to make of rows that it reads anyway: views, and sums and products of what it has.

Values are those of the copies, up to rounding, for each step computes what its copy did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from .....core.graph.graph import Graph
from .....core.graph.snapshot import CONSTANT, constant_node, input_node, located
from .....core.graph.values import array_bytes
from .....core.node import Node
from .....core.ops.facets import VIEWS
from .....core.ops.op import TABLE, Op
from .....core.ops.record import OUTPUT
from .....passes.origins import note
from .....passes.rewrite import build, with_outputs
from ...fuse.loop_nest import KEPT, cost

# Shorter graphs are planned as they are; fewer steps, and runs of fewer nodes, stay unrolled, which is as fast.
LONG = 8192
STEPS = 32
NODES = 2048
# Of so many nodes of a run one may be used outside by itself.
_FEW = 8
# Positions are recognised by so many labels in a row.
_WINDOW = 12
# Constants with more elements are nobody's copies.
_CONSTANT = 1 << 10

# The kinds of ops that a step may have, and facets of those that it may not.
_KINDS = frozenset({"elementwise", "linear", "general", "composite"})
_APART = frozenset({"collective", "calls_user", "effect"})

_WHY = "a loop that was found"
_ALL = (None, None, None)


def rolled(graph: Graph) -> Graph:
    """Return the graph with the runs that it has as scans; itself where there are none."""
    if len(graph.nodes) < LONG:
        return graph
    places = {node: i for i, node in enumerate(graph.nodes)}
    labels = _labels(graph.nodes)
    runs: list[_Run] = []
    for start, period, steps in _periods(labels):
        found = _run(graph.nodes, places, start, period, steps)
        if found is not None:
            runs.append(found)
    while runs:
        rolling = _Rolling(graph, places, runs)
        rolling.look()
        # Where most of what copies compute is used one by one, a loop has nothing to gain.
        few = [run for run, used in zip(runs, rolling.used) if used * _FEW < run.steps * run.period]
        if len(few) == len(runs):
            return rolling.graph()
        runs = few
    return graph


def _labels(nodes: Sequence[Node]) -> list[int]:
    """Return a number for each node: equal for nodes that compute the same of whatever operands of these specs."""
    known: dict[Any, int] = {}
    fit: dict[Op, bool] = {}
    labels = []
    for node in nodes:
        op = node.op
        key: Any = node
        if op is CONSTANT:
            value = node.attrs["value"]
            if value.size <= _CONSTANT:
                key = (op, node.spec.dtype, node.spec.shape, array_bytes(value))
        else:
            is_fit = fit.get(op)
            if is_fit is None:
                is_fit = fit[op] = _is_fit(op)
            if is_fit and not any(isinstance(v, Graph) for v in node.attrs.values()):
                # Which rows a slice takes may move; that is seen later.
                attrs = repr(node.attrs) if node.attrs and op is not _SLICE else ""
                operands = tuple([id(e.spec) if isinstance(e, Node) else (type(e), repr(e)) for e in node.inputs])
                key = (op, attrs, id(node.spec), operands)
        labels.append(known.setdefault(key, len(known)))
    return labels


_SLICE = TABLE["slice"]


def _is_fit(op: Op) -> bool:
    """Return whether an op may be in a step: one with a single result, which depends on the operands alone."""
    if TABLE.get(op.name) is not op or op.results != 1 or op.draws or op.kind not in _KINDS:
        return False
    return not _APART & op.facets.keys()


def _periods(labels: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of labels: where each begins, its period, and how many steps it has."""
    last: dict[tuple[int, ...], int] = {}
    count = len(labels)
    at, free = 0, 0  # what is before `free` belongs to a run
    while at + _WINDOW <= count:
        window = tuple(labels[at : at + _WINDOW])
        first = last.get(window, -1)
        last[window] = at
        if first < free:
            at += 1
            continue
        period, end = at - first, at
        while end < count and labels[end] == labels[end - period]:
            end += 1
        start = first
        while start > free and labels[start - 1] == labels[start - 1 + period]:
            start -= 1
        steps = (end - start) // period
        if steps >= STEPS and steps * period >= NODES:
            yield start, period, steps
            at = free = start + steps * period
        else:
            at += 1


class _Rows(NamedTuple):
    """The operand of a step that is a row of a sequence: in step t the node at `first + t * by`."""

    first: int
    by: int


class _Taken(NamedTuple):
    """A step's slice of a row of an array: in step t of row `first + t * by`."""

    array: int
    first: int
    by: int


class _Run(NamedTuple):
    """A run: `steps` copies of `period` nodes from `start` on.

    `operands` says for each node of a step what each operand is: the number of an earlier node of the step, a
    `_State`, `_Shared`, `_Rows`; None for a literal. `taken` are the slices that move over an array's rows.
    """

    start: int
    period: int
    steps: int
    operands: list[list[Any]]
    taken: dict[int, _Taken]

    @property
    def end(self) -> int:
        return self.start + self.period * self.steps


class _State(NamedTuple):
    """The value of a node of the step before, by its number in a step; in the first step that of a node outside."""

    number: int
    first: int


class _Shared(NamedTuple):
    """A node outside that all steps use."""

    place: int


def _run(nodes: Sequence[Node], places: Mapping[Node, int], start: int, period: int, steps: int) -> _Run | None:
    """Return the run of a stretch of nodes, without steps at both ends that differ; None where it is none."""
    first = _first(nodes, places, start, period, steps)
    if first is None:
        return None
    if first:
        start, steps = start + first, steps - 1
    turns = np.arange(steps)
    middle = steps // 2
    # In which steps the operands are as they are in the middle; what is state comes from elsewhere in the first one.
    fits, follows = np.ones(steps, bool), np.ones(steps, bool)
    rows: list[list[Any]] = []
    taken: dict[int, tuple[int, int]] = {}
    for number in range(period):
        copies = [nodes[start + number + t * period] for t in range(steps)]
        found: list[Any] = []
        for slot, entry in enumerate(copies[middle].inputs):
            if not isinstance(entry, Node):
                found.append(None)
                continue
            at = np.array([places[c.inputs[slot]] for c in copies])
            by = int(at[middle] - at[middle - 1])
            same = at == at[middle] + by * (turns - middle)
            if by == period and at[middle] >= start:
                distance = start + number + middle * period - int(at[middle])
                if distance > number:
                    follows &= same
                else:
                    fits &= same
            else:
                fits &= same
            found.append((at, by))
        if copies[0].op is _SLICE:
            moved = _moves(copies, middle, turns)
            if moved is None:
                return None
            first, by, same = moved
            fits &= same
            if by:
                taken[number] = (first, by)
        rows.append(found)
    low, high = _stretch(fits, follows, middle)
    if high - low < STEPS or (high - low) * period < NODES:
        return None
    begin = start + low * period
    operands: list[list[Any]] = []
    for number, found in enumerate(rows):
        kinds: list[Any] = []
        for operand in found:
            kind = None
            if operand is not None:
                kind = _kind(operand[0], operand[1], number, begin, period, low, high)
                if kind is None:
                    return None
            kinds.append(kind)
        operands.append(kinds)
    moving: dict[int, _Taken] = {}
    for number, (first, by) in taken.items():
        (array,) = operands[number]
        if type(array) is not _Shared:
            return None
        moving[number] = _Taken(array.place, first + low * by, by)
    return _Run(begin, period, high - low, operands, moving)


def _first(nodes: Sequence[Node], places: Mapping[Node, int], start: int, period: int, steps: int) -> int | None:
    """Return the node of a period at which steps begin that use nothing older than the step before; None for none."""
    begin = start + steps // 2 * period
    old: list[tuple[int, int]] = []  # nodes, by how much what they use is more than a period away
    for number in range(period):
        here, before = nodes[begin + number], nodes[begin + number - period]
        for entry, earlier in zip(here.inputs, before.inputs, strict=True):
            if isinstance(entry, Node) and places[entry] >= start and places[entry] - places[earlier] == period:
                late = begin + number - places[entry] - period
                if late > 0:
                    old.append((number, late))
    fit = (first for first in range(period) if all((number - first) % period >= late for number, late in old))
    return next(fit, None)


def _stretch(fits: Any, follows: Any, middle: int) -> tuple[int, int]:
    """Return the steps around the middle one that are alike: from the first to behind the last."""
    alike = fits & follows
    if not alike[middle]:
        return middle, middle
    low = high = middle
    while low > 0 and alike[low - 1]:
        low -= 1
    while high < len(alike) and alike[high]:
        high += 1
    return (low - 1 if low > 0 and fits[low - 1] else low), high


def _kind(at: Any, by: int, number: int, begin: int, period: int, low: int, high: int) -> Any:
    """Return what an operand is of the steps from `low` to `high`; None where it is nothing that a scan takes."""
    at = at[low:high]
    if by == period and int(at[-1]) >= begin:
        distance = begin + number + (high - low - 1) * period - int(at[-1])
        if distance <= number:
            return number - distance
        first = int(at[0])
        return _State(number - distance + period, first) if first < begin else None
    if int(at.max()) >= begin:
        return None
    return _Shared(int(at[0])) if by == 0 else _Rows(int(at[0]), by)


def _moves(copies: Sequence[Node], middle: int, turns: Any) -> tuple[int, int, Any] | None:
    """Return which row the slices of all steps take: of the first step, by how much it moves, and where that holds."""
    entries = [c.attrs["entries"] for c in copies]
    here, before = entries[middle], entries[middle - 1]
    if here == before:
        return 0, 0, np.array([e == here for e in entries])
    rank = copies[middle].inputs[0].spec.ndim
    if len(here) != rank or type(here[0]) is not int or type(before[0]) is not int or here[1:] != before[1:]:
        return None
    by = here[0] - before[0]
    first = here[0] - middle * by
    holds = [e[1:] == here[1:] and e[0] == first + t * by for t, e in zip(turns.tolist(), entries)]
    if abs(by) != 1 or min(first, first + by * (len(copies) - 1)) < 0:
        return None
    return first, by, np.array(holds)


class _Rolling:
    """The graph made anew, with runs as scans."""

    def __init__(self, old: Graph, places: Mapping[Node, int], runs: Sequence[_Run]) -> None:
        self.old, self.places, self.runs = old, places, runs
        self.nodes = old.nodes
        self.run_of = np.full(len(self.nodes), -1)
        for k, run in enumerate(runs):
            self.run_of[run.start : run.end] = k
        # By run: the nodes in a step, and the states that it begins with, whose rows are used; the nodes whose last
        # value is; those that are used of other steps; and of these the ones that are computed again.
        self.rows: list[dict[int | _State, int]] = [{} for _ in runs]
        self.last: list[dict[int, int]] = [{} for _ in runs]
        self.wanted: list[set[int]] = [set() for _ in runs]
        self.used = [0] * len(runs)
        self.again: list[set[int]] = [set() for _ in runs]
        self.made: dict[int, Node] = {}
        # What the scan that is being made computes again: by run, node, first step and direction.
        self.copies: dict[Any, Node] = {}
        self.scans: list[Node] = []
        self.reverse: list[bool] = []

    def graph(self) -> Graph:
        """Return the graph with scans, once it is known what is used of runs."""
        k = at = 0
        while at < len(self.nodes):
            if k < len(self.runs) and at == self.runs[k].start:
                self.scan(k)
                at, k = self.runs[k].end, k + 1
                continue
            self.made[at] = self.outside(self.nodes[at])
            at += 1
        return with_outputs(self.old, [self.value(self.places[n]) for n in self.old.outputs])

    # -- what is used of runs

    def look(self) -> None:
        """Find out what is used of every run outside of it."""
        for at, node in enumerate(self.nodes):
            if self.run_of[at] < 0 and self.parts_of(node) is None:
                for e in node.inputs:
                    if isinstance(e, Node):
                        self.use(self.places[e])
            elif self.run_of[at] < 0:
                for part in self.parts_of(node) or ():
                    self.use_rows(part)
        for node in self.old.outputs:
            self.use(self.places[node])
        for run in self.runs:
            for kind in (kind for kinds in run.operands for kind in kinds):
                if type(kind) is _State:
                    self.use(kind.first)
                elif type(kind) is _Shared:
                    self.use(kind.place)
                elif type(kind) is _Rows:
                    places = [kind.first + t * kind.by for t in range(run.steps)]
                    found = self.in_run(places)
                    if found is None:
                        self.use_rows(places)
                    else:
                        self.wanted[found[0]].add(found[1])
        for k in range(len(self.runs)):
            self.choose(k)

    def choose(self, k: int) -> None:
        """Choose which of the nodes that are used of a run are rows, and which are computed again of these."""
        run, rows, again = self.runs[k], self.rows[k], self.again[k]
        cheap: list[int] = []
        stack = sorted(self.wanted[k], reverse=True)
        while stack:
            number = stack.pop()
            if number in rows or number in again:
                continue
            node = self.nodes[run.start + number]
            if node.op.role in VIEWS and number not in run.taken:
                again.add(number)
                for kind in run.operands[number]:
                    if type(kind) is int:
                        stack.append(kind)
                    elif type(kind) is _State:
                        rows.setdefault(kind, len(rows))
                    elif type(kind) is _Rows:  # rows of rows: as they are
                        again.discard(number)
                        rows.setdefault(number, len(rows))
            elif node.op is CONSTANT:
                again.add(number)
            elif node.op.kind == "elementwise" and cost(node) < KEPT:
                cheap.append(number)
            else:
                rows.setdefault(number, len(rows))
        for number in sorted(cheap):
            if all(self.is_there(k, kind) for kind in run.operands[number]):
                again.add(number)
            else:
                rows.setdefault(number, len(rows))

    def is_there(self, k: int, kind: Any) -> bool:
        """Return whether an operand of a step can be had without more rows."""
        if type(kind) is int:
            node = self.nodes[self.runs[k].start + kind]
            if kind in self.rows[k] or kind in self.again[k]:
                return True
            is_view = node.op.role in VIEWS and kind not in self.runs[k].taken
            if node.op is CONSTANT or (is_view and all(self.is_there(k, e) for e in self.runs[k].operands[kind])):
                self.again[k].add(kind)
                return True
            return False
        return kind is None or type(kind) is _Shared or (type(kind) is _State and kind in self.rows[k])

    def use(self, at: int) -> None:
        k = int(self.run_of[at])
        if k >= 0:
            self.used[k] += 1
            run = self.runs[k]
            step, number = divmod(at - run.start, run.period)
            if step == run.steps - 1:
                self.last[k].setdefault(number, len(self.last[k]))
            else:
                self.wanted[k].add(number)

    def use_rows(self, places: Sequence[int]) -> None:
        found = self.in_run(places)
        if found is None:
            for at in places:
                self.use(at)
        else:
            k, number, _, _ = found
            self.rows[k].setdefault(number, len(self.rows[k]))

    def in_run(self, places: Sequence[int]) -> tuple[int, int, int, int] | None:
        """Return the run whose steps, one after another, have these nodes, their number, the first step and 1 or -1."""
        k = int(self.run_of[places[0]])
        if k < 0 or len(places) < 2:
            return None
        run = self.runs[k]
        by = places[1] - places[0]
        step, number = divmod(places[0] - run.start, run.period)
        if abs(by) != run.period or not 0 <= step + (len(places) - 1) * (by // run.period) < run.steps:
            return None
        if any(b - a != by for a, b in zip(places, places[1:])):
            return None
        return k, number, step, by // run.period

    def parts_of(self, node: Node) -> list[list[int]] | None:
        """Return the operands of a stack, in parts: those of one run, in order, or others; None for any other node."""
        if node.op.name != "stack" or len(node.inputs) < STEPS or not all(isinstance(e, Node) for e in node.inputs):
            return None
        keys = []
        for e in node.inputs:
            at = self.places[e]
            k = int(self.run_of[at])
            keys.append((k, (at - self.runs[k].start) % self.runs[k].period if k >= 0 else 0, at))
        return [[at for _, _, at in group] for _, group in groupby(keys, lambda key: key[:2])]

    # -- values

    def value(self, at: int) -> Node:
        """Return the node that stands for an old one."""
        found = self.made.get(at)
        if found is None:
            k = int(self.run_of[at])
            run = self.runs[k]
            step, number = divmod(at - run.start, run.period)
            node = self.nodes[at]
            if step == run.steps - 1 and number in self.last[k]:
                found = self.result(k, self.last[k][number])
            elif number in self.again[k]:
                found = _on(node, [self.before(k, step, *e) for e in zip(node.inputs, run.operands[number])])
            else:
                found = self.row(k, number, step, node)
            note(found, _WHY, node)
            self.made[at] = found
        return found

    def before(self, k: int, step: int, entry: Any, kind: Any) -> Any:
        """Return an operand of a node that is computed again for one step of a run."""
        if kind is None:
            return entry
        return self.row(k, kind, step, entry) if type(kind) is _State else self.value(self.places[entry])

    def row(self, k: int, key: int | _State, step: int, like: Node) -> Node:
        """Return the row of one step of a run."""
        rows = self.stacked(k, key)
        row = self.runs[k].steps - 1 - step if self.reverse[k] else step
        return build("slice", (rows,), like, entries=(row, *(_ALL,) * (rows.spec.ndim - 1)))

    def result(self, k: int, index: int) -> Node:
        scan = self.scans[k]
        specs: Any = scan.spec
        return located(OUTPUT, (scan,), {"index": index}, specs[index], scan.code, scan.offset, scan.scope)

    def stacked(self, k: int, key: int | _State) -> Node:
        """Return the rows of a node of a run's steps, or of a state that they begin with, by row of its scan."""
        return self.result(k, self.scans[k].attrs["carries"] + self.rows[k][key])

    def in_order(self, places: Sequence[int], reverse: bool, like: Node) -> Node:
        """Return nodes stacked along a first axis, or the other way round."""
        found = self.in_run(places)
        if found is None:
            nodes = tuple([self.value(at) for at in (reversed(places) if reverse else places)])
            return build("stack", nodes, like, axis=-1 - nodes[0].spec.ndim)
        return self.part(*found, len(places), reverse, like)

    def part(self, k: int, key: int | _State, step: int, by: int, count: int, reverse: bool, like: Node) -> Node:
        """Return rows of a run, of so many steps from one on, forwards or backwards; or these the other way round."""
        rows, total = self.stacked(k, key), self.runs[k].steps
        first, last = step, step + by * (count - 1)
        if self.reverse[k]:
            first, last = total - 1 - first, total - 1 - last
        if reverse:
            first, last = last, first
        rest = (_ALL,) * (rows.spec.ndim - 1)
        low, high = min(first, last), max(first, last) + 1
        if (low, high) != (0, total):
            rows = build("slice", (rows,), like, entries=((low, high, None), *rest))
        return rows if first <= last else build("slice", (rows,), like, entries=((None, None, -1), *rest))

    def outside(self, node: Node) -> Node:
        """Return a node outside of runs, on the nodes that stand for its operands."""
        parts = self.parts_of(node)
        if parts is not None and any(self.in_run(part) is not None for part in parts):
            made = [self.in_order(part, False, node) for part in parts]
            rank = made[0].spec.ndim
            whole = made[0] if len(made) == 1 else build("concat", tuple(made), node, axis=-rank)
            axis = node.attrs["axis"] + rank
            if axis:
                order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
                whole = build("permute", (whole,), node, axes=tuple(a - rank for a in order))
        else:
            inputs = tuple([self.value(self.places[e]) if isinstance(e, Node) else e for e in node.inputs])
            if all(a is b for a, b in zip(inputs, node.inputs)):
                return node
            whole = _on(node, inputs)
            note(whole, "", node)
            return whole
        note(whole, _WHY, node)
        return whole

    # -- the scan

    def scan(self, k: int) -> None:
        """Make the scan of a run."""
        run = self.runs[k]
        copies = self.nodes[run.start : run.start + run.period]
        like = copies[-1]
        sequences = [kind for kinds in run.operands for kind in kinds if type(kind) is _Rows]
        found = [self.in_run([s.first + t * s.by for t in range(run.steps)]) for s in sequences]
        reverse = any(f is not None and (f[3] < 0) != self.reverse[f[0]] for f in found)
        self.reverse.append(reverse)
        given: dict[Any, tuple[Node, Node]] = {}  # by operand: the node outside, and the body's input
        self.copies = {}
        body: list[Node] = []
        for number, copy in enumerate(copies):
            if number in run.taken:
                body.append(self.row_taken(run, number, copy, reverse, given))
                continue
            inputs = []
            for entry, kind in zip(copy.inputs, run.operands[number], strict=True):
                if kind is None:
                    inputs.append(entry)
                elif type(kind) is int:
                    inputs.append(body[kind])
                else:
                    inputs.append(self.operand(run, kind, entry, reverse, given))
            body.append(_on(copy, inputs))
        # What only the end is asked of is state that no step reads.
        states = {kind: pair for kind, pair in given.items() if type(kind) is _State}
        last = dict(self.last[k])
        self.last[k] = {}
        for number in last:
            known = next((i for i, s in enumerate(states) if s.number == number), None)
            if known is None:
                spec: Any = copies[number].spec
                start = build("broadcast", (constant_node(np.zeros((), spec.dtype)),), like, shape=spec.shape)
                known = len(states)
                states[_State(number, -1)] = (start, input_node(spec))
            self.last[k][number] = known
        rows = [pair for kind, pair in given.items() if type(kind) not in (_State, _Shared)]
        shared = [pair for kind, pair in given.items() if type(kind) is _Shared]
        pairs = [*states.values(), *rows, *shared]
        outputs = [body[s.number] for s in states]
        outputs += [body[key] if type(key) is int else given[key][1] for key in self.rows[k]]
        made = build(
            "scan",
            tuple(outer for outer, _ in pairs),
            like,
            body=Graph(outputs, [inner for _, inner in pairs], "loop"),
            carries=len(states),
            sequences=len(rows),
            length=run.steps,
            reverse=reverse,
            keeps=False,
        )
        note(made, _WHY, *copies)
        self.scans.append(made)

    def operand(self, run: _Run, kind: Any, entry: Node, reverse: bool, given: dict[Any, tuple[Node, Node]]) -> Node:
        """Return the body's input for an operand that no node of the step is."""
        if type(kind) is _Rows:
            places = [kind.first + t * kind.by for t in range(run.steps)]
            found = self.in_run(places)
            if found is not None:
                return self.of_run(run, *found, reverse, given)
            if kind not in given:
                given[kind] = self.in_order(places, reverse, entry), input_node(entry.spec)
        elif kind not in given:
            given[kind] = self.value(kind.first if type(kind) is _State else kind.place), input_node(entry.spec)
        return given[kind][1]

    def of_run(
        self,
        run: _Run,
        k: int,
        key: int | _State,
        step: int,
        by: int,
        reverse: bool,
        given: dict[Any, tuple[Node, Node]],
    ) -> Node:
        """Return the body's node for a value of an earlier run's steps: a row, or computed again of such."""
        name = k, key, step, by
        if name in given:
            return given[name][1]
        if name in self.copies:
            return self.copies[name]
        earlier = self.runs[k]
        number = key.number if isinstance(key, _State) else key
        like = self.nodes[earlier.start + number]
        if key not in self.again[k]:
            given[name] = self.part(k, key, step, by, run.steps, reverse, like), input_node(like.spec)
            return given[name][1]
        inputs = []
        for entry, kind in zip(like.inputs, earlier.operands[number], strict=True):
            if kind is None:
                inputs.append(entry)
            elif type(kind) is _Shared:
                inputs.append(self.operand(run, kind, entry, reverse, given))
            else:
                inputs.append(self.of_run(run, k, kind, step, by, reverse, given))
        made = _on(like, inputs)
        note(made, "", like)
        self.copies[name] = made
        return made

    def row_taken(self, run: _Run, number: int, copy: Node, reverse: bool, given: dict[Any, tuple[Node, Node]]) -> Node:
        """Return the body's node for a slice that takes a row of an array, another one in each step."""
        kind = run.taken[number]
        if kind not in given:
            array = self.value(kind.array)
            rest = (_ALL,) * (array.spec.ndim - 1)
            last = kind.first + kind.by * (run.steps - 1)
            low, high = min(kind.first, last), max(kind.first, last) + 1
            rows = array
            if (low, high) != (0, array.spec.shape[0]):
                rows = build("slice", (rows,), copy, entries=((low, high, None), *rest))
            if (kind.by < 0) != reverse:
                rows = build("slice", (rows,), copy, entries=((None, None, -1), *rest))
            given[kind] = rows, input_node(array.spec.with_shape(array.spec.shape[1:]))
        row = given[kind][1]
        rest = copy.attrs["entries"][1:]
        return row if all(e == _ALL for e in rest) else build("slice", (row,), copy, entries=rest)


def _on(node: Node, inputs: Sequence[Any]) -> Node:
    """Return a node that computes the same of other operands."""
    if not inputs:
        return node
    return located(node.op, tuple(inputs), node.attrs, node.spec, node.code, node.offset, node.scope)
