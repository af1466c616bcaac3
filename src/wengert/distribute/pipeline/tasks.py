"""Tasks: the parts of a step that run as one, each a graph, and the values that go from one to another.

A task is what one stage does with one microbatch in one phase. Where microbatches meet (statistics of a whole batch,
gradients that are added up, the update) another task begins, so that tasks wait for each other without circles. What
has no stage is computed where it is used: by the task itself, or, where that would be done for every microbatch, once
at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, LEAVES, input_node, located
from ...core.node import Node
from ...core.ops.facets import VIEWS
from ...core.ops.op import TABLE, Op
from ...core.ops.record import OUTPUT
from ...core.spec import Spec
from ...ops.collective import definitions as c
from ..placing.buckets import bucketed
from .microbatches import Unrolled
from .stages import Phase, Stages

# A value of fewer elements that the batch does not touch is computed wherever it is used.
_FEW = 1024
# Results of at most so many bytes go to all places in one message; the others each in one of its own, not copied.
_JOINED = 1 << 14


class Turn(NamedTuple):
    """A turn of a place: what it does with a microbatch in a phase, as schedules order it."""

    phase: Phase
    stage: int
    micro: int


class Task(NamedTuple):
    """A part of a step: a graph, and by number the values that it takes and gives.

    `place` is the position along the pipeline that runs it; None for all. `phase` and `stage` are None for what is done
    before the first microbatch and after the last, `micro` is None for what concerns all microbatches. `turn` is None
    for what is in no schedule: what concerns all, and what all of them wait for. `seconds` is a rough measure of its
    work.
    """

    label: str
    graph: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    place: int | None
    stage: int | None
    phase: Phase | None
    micro: int | None
    turn: Turn | None
    seconds: float


class Tasks(NamedTuple):
    """The tasks of a step, each after those that it takes values of; its values' specs, and those that are results.

    The first values are the program's inputs. `makers` has the task that gives a value, by its number, and `at` the
    place that alone has an input.
    """

    tasks: tuple[Task, ...]
    specs: tuple[Spec, ...]
    outputs: tuple[int, ...]
    makers: dict[int, int]
    at: dict[int, int]

    def source(self, value: int) -> int | None:
        """Return the place that has a value first, by its number; None where all have it."""
        maker = self.makers.get(value)
        return self.at.get(value) if maker is None else self.tasks[maker].place


class Kept(NamedTuple):
    """The state that stays at the stages: the outputs that none but the next step takes, and inputs by the output that
    takes their place in it.
    """

    outputs: frozenset[int] = frozenset()
    inputs: Mapping[int, int | None] = MappingProxyType({})


NOTHING = Kept()


class _Key(NamedTuple):
    """A task in the making. Sorted, these are in an order in which tasks can run."""

    level: int  # how often microbatches have met, or parted, before
    ahead: int  # less how often they do so behind it, where microbatches wait for that
    shared: bool
    phase: int
    turn: int  # the stage; backwards in the backward pass
    micro: int
    stage: int


def tasks_of(unrolled: Unrolled, stages: Stages, places: int, over: str, kept: Kept) -> Tasks:
    """Return the tasks of a program on microbatches, for a pipeline of so many places along a mesh axis."""
    return _Cutting(unrolled, stages, places, over, kept).run()


class _Cutting:
    def __init__(self, unrolled: Unrolled, stages: Stages, places: int, over: str, kept: Kept) -> None:
        self.unrolled, self.stages, self.places, self.over, self.kept = unrolled, stages, places, over, kept
        self.graph = unrolled.graph
        self.wanted = set(self.graph.outputs)
        self.free = self._untouched()
        self.task_of = self._grouped()
        self.values: dict[Any, int] = {(n, None): i for i, n in enumerate(self.graph.inputs)}
        self.specs: list[Spec] = [n.spec for n in self.graph.inputs]
        self.makers: dict[int, int] = {}
        self.clones: dict[Node, Node] = {}  # the node of the whole graph that a task's node is a copy of
        # An order of nodes that is the same for all microbatches.
        self.rank = {n: (unrolled.one.index[o.node], i) for i, (n, o) in enumerate(unrolled.origin.items())}
        self.rank |= {n: (-1, i) for i, n in enumerate(self.graph.inputs)}

    def _untouched(self) -> frozenset[Node]:
        """Return the nodes without a stage: what the batch does not touch, its parts, and what follows from these."""
        found: set[Node] = set(self.graph.inputs)
        for node in self.graph.nodes:
            if node.op is CONSTANT:
                found.add(node)
            elif node not in found and all(e in found for e in node.inputs if isinstance(e, Node)):
                of = self.unrolled.origin[node].node
                if of not in self.stages.phase or of.op in LEAVES:
                    found.add(node)
        return frozenset(found)

    # -- which nodes are one task

    def _grouped(self) -> dict[Node, _Key]:
        origin, stages = self.unrolled.origin, self.stages
        nodes = [n for n in self.graph.nodes if n not in self.free]
        level: dict[Node, int] = {}
        bumps: dict[Node, list[tuple[Node, bool]]] = {n: [] for n in nodes}
        for node in nodes:
            found = 0
            for e in node.inputs:
                if isinstance(e, Node) and e in level:
                    bump = self._parts(e, node)
                    bumps[e].append((node, bump))
                    found = max(found, level[e] + bump)
            level[node] = found
        ahead: dict[Node, int] = {}
        leads: dict[Node, bool] = {}  # to work on a microbatch
        for node in reversed(nodes):
            leads[node] = any(leads[n] or origin[n].copy is not None for n, _ in bumps[node])
            ahead[node] = max(
                (ahead[n] + (bump and (leads[n] or origin[n].copy is not None)) for n, bump in bumps[node]), default=0
            )
        keys: dict[Node, _Key] = {}
        for node in nodes:
            if node.op is OUTPUT and node.inputs[0] in keys:  # of several results all are in one task
                keys[node] = keys[node.inputs[0]]
                continue
            of, micro = origin[node]
            stage, phase = stages.of[of], stages.phase[of]
            if micro is None:
                keys[node] = _Key(level[node], -ahead[node], True, 0, stage, -1, stage)
            else:
                turn = -stage if phase is Phase.BACKWARD else stage
                keys[node] = _Key(level[node], -ahead[node], False, int(phase), turn, micro, stage)
        # What is for a later task of the same kind alone is done there, and not kept until then.
        for node in reversed(nodes):
            if node.op is OUTPUT or keys[node].shared:
                continue
            picks = [n for n, _ in bumps[node] if n.op is OUTPUT]
            users = [n for m in (node, *picks) for n, _ in bumps[m] if n.op is not OUTPUT]
            if users and all(keys[n][2:] == keys[node][2:] for n in users) and not self.wanted & {node, *picks}:
                keys[node] = min(keys[n] for n in users)
                keys.update(dict.fromkeys(picks, keys[node]))
        return keys

    def _parts(self, e: Node, node: Node) -> bool:
        """Return whether an edge may go against the order of tasks of one level."""
        (of_e, m_e), (of, m) = self.unrolled.origin[e], self.unrolled.origin[node]
        before, after = self.stages.of[of_e], self.stages.of[of]
        if m_e is None or m is None:
            return m_e is not m or before != after
        p, q = self.stages.phase[of_e], self.stages.phase[of]
        if p != q:
            return p > q
        if m_e > m:
            return True
        if q is Phase.UPDATE:
            return before != after
        return before < after if q is Phase.BACKWARD else before > after

    # -- their graphs

    def run(self) -> Tasks:
        members: dict[_Key, set[Node]] = {}
        for node, key in self.task_of.items():
            members.setdefault(key, set()).add(node)
        self.demanded: dict[_Key, dict[Node, None]] = {key: {} for key in members}
        self.early: dict[int, dict[Node, None]] = {}  # by place: what is computed before the first microbatch
        for node in self.graph.outputs:
            if node not in self.free:
                self.demanded[self.task_of[node]][node] = None
        made: list[tuple[_Key, Graph, list[Any], list[Node], float]] = []
        for key in sorted(members, reverse=True):
            outputs = sorted(self.demanded[key], key=self.rank.__getitem__)
            if outputs:
                made.append((key, *self._closed(key, members[key], outputs), outputs, 0.0))
        tasks: list[Task] = []
        for place in sorted(self.early):
            outputs = sorted(self.early[place], key=self.rank.__getitem__)
            graph, inputs = self._cloned(outputs)
            self._add(tasks, f"start {place}", graph, inputs, [(n, place) for n in outputs], place)
        for key, graph, inputs, outputs, _ in reversed(made):
            phase = None if key.shared else Phase(key.phase)
            label = "update" if phase is None else phase.name.lower()
            micro = None if key.shared else key.micro
            place = key.stage % self.places
            label += f" {key.stage}" + ("" if micro is None else f" of {micro}")
            turn = None
            if phase in (Phase.FORWARD, Phase.BACKWARD) and micro is not None and not key.ahead:
                turn = Turn(phase, key.stage, micro)
            self._add(tasks, label, graph, inputs, [(n, None) for n in outputs], place, key.stage, phase, micro, turn)
        last = list(dict.fromkeys(n for n in self.graph.outputs if n in self.free and n not in self.graph.inputs))
        at, stays = self._at(tasks, last)
        if last:
            graph, inputs = self._cloned(last)
            self._add(tasks, "end", graph, inputs, [(n, None) for n in last], None)
        found = [self.values[n, None] for n in self.graph.outputs]
        if self.places > 1:
            found = self._exchanged(tasks, found, stays)
        return Tasks(tuple(tasks), tuple(self.specs), tuple(found), self.makers, at)

    def _at(self, tasks: Sequence[Task], last: Sequence[Node]) -> tuple[dict[int, int], frozenset[int]]:
        """Return the places that alone have inputs, by number, and the outputs that stay where they are made.

        State stays where its stage updates it, or alone reads it; unless all places read it, at the end of a step.
        """
        kept = self.kept
        if self.places == 1 or not kept.outputs | kept.inputs.keys():
            return {}, frozenset()
        everywhere = set(self._needed(last, lambda n: n.op not in LEAVES)).union(self.graph.outputs)
        read = {i for i in kept.inputs if self.graph.inputs[i] in everywhere}
        stays = kept.outputs - {kept.inputs[i] for i in read}
        users: dict[int, set[int | None]] = {}
        for task in tasks:
            for v in task.inputs:
                users.setdefault(v, set()).add(task.place)
        found: dict[int, int] = {}
        for i, o in kept.inputs.items():
            if i in read:
                continue
            number = None if o is None else self.values.get((self.graph.outputs[o], None))
            maker = None if number is None else self.makers.get(number)
            used = [*users.get(i, ())]
            place = tasks[maker].place if o in stays and maker is not None else used[0] if len(used) == 1 else None
            if place is not None:
                found[i] = place
        return found, stays

    def _add(
        self,
        tasks: list[Task],
        label: str,
        graph: Graph,
        inputs: Iterable[Any],
        outputs: Sequence[Any],
        place: int | None,
        stage: int | None = None,
        phase: Phase | None = None,
        micro: int | None = None,
        turn: Turn | None = None,
    ) -> None:
        seconds = sum(map(self._seconds, graph.computations))
        numbers = tuple(self.values[key] for key in inputs)
        given = []
        for key in outputs:
            self.values[key] = number = len(self.specs)
            self.makers[number] = len(tasks)
            self.specs.append(key[0].spec)
            given.append(number)
        tasks.append(Task(label, bucketed(graph), numbers, tuple(given), place, stage, phase, micro, turn, seconds))

    def _seconds(self, node: Node) -> float:
        of = self.clones.get(node, node)
        origin = self.unrolled.origin.get(of)
        return self.stages.seconds.get(origin.node, 0.0) if origin is not None else 0.0

    def _closed(self, key: _Key, members: set[Node], outputs: list[Node]) -> tuple[Graph, list[Any]]:
        """Return a task's graph, and the values that it takes; what it takes of other tasks is demanded of these."""
        place = key.stage % self.places
        fed: dict[Node, tuple[Node, Any]] = {}
        replace: dict[Node, Node] = {}
        order = self._needed(outputs, lambda n: n in members or self._is_copied(n, key.shared))
        for node in order:
            if node.op is CONSTANT:
                replace[node] = node
            elif node in members or self._is_copied(node, key.shared):
                replace[node] = self._copy(node, replace)
            else:
                value: tuple[Node, int | None] = node, None
                if node in self.free and node.op not in LEAVES:
                    value = node, place
                    self.early.setdefault(place, {})[node] = None
                elif node not in self.free:
                    self.demanded[self.task_of[node]][node] = None
                replace[node] = input_node(node.spec, node.attrs.get("name", "") if node.op in LEAVES else "")
                fed[node] = replace[node], value
        # The same for every microbatch: equal graphs are compiled once.
        given = sorted(fed, key=self.rank.__getitem__)
        return Graph([replace[n] for n in outputs], [fed[n][0] for n in given]), [fed[n][1] for n in given]

    def _cloned(self, outputs: list[Node]) -> tuple[Graph, list[Any]]:
        """Return the graph of values that the batch does not touch, from the program's inputs."""
        replace: dict[Node, Node] = {}
        for node in self._needed(outputs, lambda n: n.op not in LEAVES):
            if node.op is CONSTANT:
                replace[node] = node
            elif node.op in LEAVES:
                replace[node] = input_node(node.spec, node.attrs["name"])
            else:
                replace[node] = self._copy(node, replace)
        given = sorted((n for n in replace if n.op in LEAVES and n.op is not CONSTANT), key=self.rank.__getitem__)
        return Graph([replace[n] for n in outputs], [replace[n] for n in given]), [(n, None) for n in given]

    def _copy(self, node: Node, replace: dict[Node, Node]) -> Node:
        inputs = tuple(replace[e] if isinstance(e, Node) else e for e in node.inputs)
        if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            return node
        made = located(node.op, inputs, node.attrs, node.spec, node.code, node.offset, node.scope)
        self.clones[made] = node
        return made

    def _needed(self, outputs: Iterable[Node], is_inside: Any) -> list[Node]:
        """Return the nodes that outputs need, each after its operands, and no further than those that are outside."""
        order: list[Node] = []
        done: set[Node] = set()
        for root in outputs:
            waiting = [root]
            while waiting:
                node = waiting[-1]
                if node in done:
                    waiting.pop()
                    continue
                needed = [e for e in node.inputs if isinstance(e, Node) and e not in done] if is_inside(node) else []
                if needed:
                    waiting += needed
                    continue
                waiting.pop()
                done.add(node)
                order.append(node)
        return order

    def _is_copied(self, node: Node, shared: bool) -> bool:
        """Return whether a task that uses a value of another one, or of none, computes it itself."""
        if node.op in LEAVES:
            return False
        if node.op in (OUTPUT, *_ONCE) or node.op.draws or not isinstance(node.spec, Spec):
            return node in self.free and shared and node.op not in _ONCE
        of, micro = self.unrolled.origin[node]
        is_view = node.op.role in VIEWS and all(
            not isinstance(e, Node) or (isinstance(e.spec, Spec) and e.spec.size <= node.spec.size) for e in node.inputs
        )
        if node not in self.free:
            return is_view
        if micro is not None:  # another part for every microbatch is cut before: graphs are to be equal
            return of.op not in LEAVES and of.op is not c.own_part
        return shared or is_view or (node.op.kind == "elementwise" and node.spec.size <= _FEW)

    # -- what every place is to have

    def _exchanged(self, tasks: list[Task], outputs: list[int], stays: frozenset[int]) -> list[int]:
        """Add the task that sends results to all places, but for those that stay; return their numbers after it."""
        owned: dict[Any, list[int]] = {}
        for number in dict.fromkeys(number for o, number in enumerate(outputs) if o not in stays):
            maker = self.makers.get(number)
            place = tasks[maker].place if maker is not None else None
            if place is not None:
                spec = self.specs[number]
                owned.setdefault((place, spec.dtype, number if spec.nbytes > _JOINED else None), []).append(number)
        if not owned:
            return outputs
        fed: list[Node] = []
        given: list[int] = []
        found: list[Node] = []
        for (place, *_), numbers in owned.items():
            inputs = [input_node(self.specs[number]) for number in numbers]
            fed += inputs
            given += numbers
            sizes = [n.spec.size for n in inputs]
            rows = tuple(_made(TABLE["reshape"], (n,), shape=(n.spec.size,)) for n in inputs)
            joined = _made(TABLE["concat"], rows, axis=-1) if len(rows) > 1 else inputs[0]
            sent = _made(c.broadcast_from, (joined,), over=self.over, ranks=self.places, root=place)
            if len(rows) == 1:
                found.append(sent)
                continue
            at = 0
            for n, size in zip(inputs, sizes, strict=True):
                part = _made(TABLE["slice"], (sent,), entries=((at, at + size, None),))
                found.append(_made(TABLE["reshape"], (part,), shape=n.spec.shape))
                at += size
        numbers = []
        for n in found:
            numbers.append(len(self.specs))
            self.makers[len(self.specs)] = len(tasks)
            self.specs.append(n.spec)
        tasks.append(
            Task("results", Graph(found, fed), tuple(given), tuple(numbers), None, None, None, None, None, 0.0)
        )
        after = dict(zip(given, numbers, strict=True))
        return [after.get(number, number) for number in outputs]


# What is done once, before the first microbatch: it moves something.
_ONCE: frozenset[Op] = frozenset({c.all_gather, c.all_reduce, c.all_to_all, c.reduce_scatter, c.own_part, c.ppermute})


def _made(op: Op, inputs: tuple[Any, ...], **attrs: Any) -> Node:
    spec = op.infer(*(e.spec for e in inputs), **attrs)
    return located(op, inputs, attrs, spec)
