"""Stages: which part of a pipeline computes a node of a training step.

What the batch goes through on its way to the loss (the *forward* nodes) is cut where it costs, or where the user says.
The backward pass follows: a node runs where what it needs of the forward pass is at hand, and what makes a parameter's
gradient of cotangents alone, where the parameter is used. Updates run where their gradients come out. What the batch
does not touch, or what follows from it at next to no cost, has no stage: it is computed where it is used.
"""

from __future__ import annotations

import fnmatch
from collections import deque
from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from ...core.errors import GraphError, error, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.ops.facets import VIEWS
from ...core.ops.record import OUTPUT
from ...core.spec import Spec
from ...explain.cost import cost
from ...passes.strategies import specs_of_results

# A processor's operations and bytes for a second, of which only the ratio counts.
FLOPS, BYTES = 4e10, 1e10
# A value that goes from stage to stage takes so many seconds besides its bytes; not more than this share of a stage,
# for stages of a small model are to be stages, too.
_VALUE, _SHARE = 1e-5, 0.05
# A microbatch's backward pass takes about twice as long as its forward pass, and moves as much.
_PASSES = 3 / 2
# What takes less than this share of the forward pass is computed wherever it is used.
_SLIGHT = 0.005
# At most so many places are looked at as cuts: those that the least crosses.
_PLACES = 256


class Phase(IntEnum):
    """A part of a step, in the order in which a microbatch goes through them."""

    FORWARD = 0
    BACKWARD = 1
    UPDATE = 2


class Stages:
    """The stages of a graph: `of` has those of the nodes that have one, `phase` their part of the step."""

    def __init__(self, graph: Graph, batch: Sequence[Node], count: int, patterns: Sequence[Sequence[str]]) -> None:
        self.graph, self.count = graph, count
        self.batch = frozenset(batch)
        self.seconds = _seconds(graph)
        self.phase = _phases(graph, self.batch)
        self.slight = frozenset(self._slight())
        for node in self.slight:
            del self.phase[node]
        chain = self._chain()
        self.of: dict[Node, int] = {}
        for node, stage in (self._said(chain, patterns) if patterns else self._cut(chain)).items():
            # What picks one of several results is where these are.
            self.of[node] = self.of[node.inputs[0]] if node.op is OUTPUT else stage
        self._follow()

    def _slight(self) -> list[Node]:
        """Return the nodes that the batch alone leads to, at next to no cost: masks, targets, looked-up rows."""
        whole = sum(self.seconds[n] for n, p in self.phase.items() if p is Phase.FORWARD)
        spent: dict[Node, float] = {}
        for node, phase in self.phase.items():
            given = [e for e in node.inputs if isinstance(e, Node) and e in self.phase]
            is_plain = isinstance(node.spec, Spec) and node.op is not OUTPUT and "collective" not in node.op.facets
            if phase is Phase.UPDATE or not is_plain or not all(e in spent for e in given):
                continue
            total = self.seconds[node] + sum(spent[e] for e in given)
            if total < _SLIGHT * whole:
                spent[node] = total
        return list(spent)

    def _chain(self) -> list[Node]:
        """Return the forward nodes that gradients depend on; all of them where there are none."""
        phase = self.phase
        forward = [n for n in self.graph.nodes if phase.get(n) is Phase.FORWARD]
        needed = {e for n, p in phase.items() if p is not Phase.FORWARD for e in n.inputs if isinstance(e, Node)}
        if not needed:
            return forward
        chain = []
        for node in reversed(forward):
            if node in needed:
                chain.append(node)
                needed.update(e for e in node.inputs if isinstance(e, Node))
        return chain[::-1]

    # -- cuts

    def _said(self, chain: Sequence[Node], patterns: Sequence[Sequence[str]]) -> dict[Node, int]:
        """Return the stages that patterns of module paths say; other nodes are where their operands are."""
        found: dict[Node, int] = {}
        used = set()
        for node in chain:
            before = [found[e] for e in node.inputs if isinstance(e, Node) and e in found]
            last = max(before, default=0)
            said = next((i for i, row in enumerate(patterns) if any(_within(node.path, p) for p in row)), None)
            if said is not None and said < last:
                maker = next(e for e in node.inputs if isinstance(e, Node) and found.get(e) == last)
                raise error(
                    GraphError,
                    f"{node.op.name} in {node.path!r} is of stage {said}, and takes what {maker.op.name} in "
                    f"{maker.path!r} of stage {last} gives",
                    "Values go from one stage to later ones: give the modules in the order in which they run.",
                    str(node.source),
                )
            used.add(said)
            found[node] = last if said is None else said
        unused = [i for i in range(len(patterns)) if i not in used]
        if unused:
            paths = ", ".join(repr(p) for p in dict.fromkeys(n.path for n in chain if n.path))
            fail(
                GraphError,
                f"stage {unused[0]} of a pipeline, {list(patterns[unused[0]])}, fits no module that the batch goes "
                "through",
                f"These are {paths}.",
            )
        return found

    def _cut(self, chain: Sequence[Node]) -> dict[Node, int]:
        """Return the stages of cuts by cost: the dearest as cheap as can be, of those the one that moves least.

        A stage takes what its nodes take, and what the values take that it receives and sends.
        """
        if len(chain) < self.count:
            fail(
                GraphError,
                f"{self.count} stages of a program in which the batch goes through {len(chain)} operations",
                "Take fewer stages.",
            )
        crossing = self._crossing(chain)
        load = [0.0]
        for node in chain:
            load.append(load[-1] + self.seconds[node])
        n, value = len(chain), min(_VALUE, _SHARE * load[-1] / self.count)
        seconds = [(count * value + nbytes / BYTES) / _PASSES for count, nbytes in crossing]
        # Several results are picked from a node where it is.
        places = [i for i in range(1, n) if chain[i].op is not OUTPUT]
        places = sorted(sorted(places, key=lambda i: (seconds[i], i))[:_PLACES])
        ends = [*places, n]
        # best[j]: of cuts of chain[:ends[j]] into stages so far, the dearest stage, what crosses them, and the cuts.
        best: list[tuple[float, float, tuple[int, ...]] | None] = [(load[e] + seconds[e], 0.0, ()) for e in ends]
        unit = load[-1] / 50 / self.count  # differences that are none
        for _ in range(1, self.count):
            following: list[tuple[float, float, tuple[int, ...]] | None] = [None] * len(ends)
            for j, e in enumerate(ends):
                for i in range(j):
                    before = best[i]
                    if before is None:
                        continue
                    dearest = max(before[0], load[e] - load[ends[i]] + seconds[ends[i]] + seconds[e])
                    made = dearest, before[1] + seconds[ends[i]], (*before[2], ends[i])
                    known = following[j]
                    if known is None or (made[0] // unit, made[1], made[0]) < (known[0] // unit, known[1], known[0]):
                        following[j] = made
            best = following
        chosen = best[-1]
        if chosen is None:
            fail(GraphError, f"{self.count} stages of a program that has {len(places)} places to cut it", "Take fewer.")
        stage, found = 0, {}
        for i, node in enumerate(chain):
            stage += i in chosen[2]
            found[node] = stage
        return found

    def _crossing(self, chain: Sequence[Node]) -> list[tuple[int, int]]:
        """Return for every place in the chain how many values from before are used after, and their bytes."""
        last: dict[Node, int] = {}
        for i, node in enumerate(chain):
            for e in node.inputs:
                if isinstance(e, Node):
                    last[e] = i
        change = np.zeros((len(chain) + 2, 2), np.int64)
        for i, node in enumerate(chain):
            moved = 1, sum(s.nbytes for s in specs_of_results(node))
            change[i + 1] += moved
            change[last.get(node, i) + 1] -= moved
        return [(count, nbytes) for count, nbytes in change.cumsum(0).tolist()]

    # -- what follows from the cuts

    def _follow(self) -> None:
        """Give all other touched nodes their stages."""
        known: dict[Node, set[int]] = {}  # on which stages the forward pass has a value at hand
        for node, stage in self.of.items():
            known.setdefault(node, set()).add(stage)
            for e in node.inputs:
                if isinstance(e, Node):
                    known.setdefault(e, set()).add(stage)
        later: list[Node] = []
        sums = self._sums(known)
        for node, phase in self.phase.items():
            if node in self.of:
                continue
            if node.op is OUTPUT and node.inputs[0] in self.of:
                self.of[node] = self.of[node.inputs[0]]
                continue
            at = self._backward(node, known) if phase is Phase.BACKWARD else self._by_bytes(node)
            if at is not None and node in sums:
                at = max((s for s in known[sums[node]] if s <= at), default=at)
            if at is None:
                later.append(node)
            else:
                self.of[node] = at
        for node in reversed(later):
            used = [self.of[n] for n in self.graph.consumers(node) if n in self.of]
            self.of[node] = min(used, default=self.count - 1)
        for node in later:
            if node.op is OUTPUT:
                self.of[node] = self.of[node.inputs[0]]

    def _sums(self, known: dict[Node, set[int]]) -> dict[Node, Node]:
        """Return the nodes that make gradients from cotangents alone (biases), with the parameters they update."""
        phase, found = self.phase, dict[Node, Node]()
        for node in reversed(list(phase)):
            if phase[node] is not Phase.BACKWARD or any(e in known for e in node.inputs if isinstance(e, Node)):
                continue
            users = self.graph.consumers(node)
            if users and all(phase.get(n) is Phase.UPDATE for n in users):
                parameter = self._updated(node, known)
            else:
                parameters = {found.get(n) for n in users}
                parameter = parameters.pop() if len(parameters) == 1 else None
            if parameter is not None:
                found[node] = parameter
        return found

    def _updated(self, gradient: Node, known: dict[Node, set[int]]) -> Node | None:
        """Return the value of the forward pass that a gradient's update reads first: of its shape, on its way."""
        seen, waiting = {gradient}, deque([gradient])
        while waiting:
            for node in self.graph.consumers(waiting.popleft()):
                if node in seen or self.phase.get(node) is not Phase.UPDATE:
                    continue
                for e in node.inputs:
                    if isinstance(e, Node) and e in known and e not in self.phase and e.spec == gradient.spec:
                        return e
                seen.add(node)
                waiting.append(node)
        return None

    def _backward(self, node: Node, known: dict[Node, set[int]]) -> int | None:
        """Return the last stage, not after those of the cotangents, that has what a node needs of the forward pass."""
        given = [e for e in node.inputs if isinstance(e, Node)]
        for e in given:
            self._look_through(e, known)
        saved = [known[e] for e in given if e in known]
        cotangents = [self.of[e] for e in given if e not in known and e in self.of]
        limit = min(cotangents, default=self.count - 1)
        if not saved:
            return min(cotangents) if cotangents else None
        common = {s for s in set.intersection(*saved) if s <= limit}
        if common:
            return max(common)
        return min(max((s for s in row if s <= limit), default=limit) for row in saved)

    def _look_through(self, node: Node, known: dict[Node, set[int]]) -> None:
        """Note where a value that the batch alone leads to is at hand: where the batch is that it is made of."""
        if node in known or node not in self.slight:
            return
        given = [e for e in node.inputs if isinstance(e, Node)]
        for e in given:
            self._look_through(e, known)
        stages = [known[e] for e in given if e in known]
        if stages and (common := set.intersection(*stages)):
            known[node] = common

    def _by_bytes(self, node: Node) -> int | None:
        """Return the stage that most of a node's operands come from."""
        total: dict[int, int] = {}
        for e in node.inputs:
            if isinstance(e, Node) and e in self.of and isinstance(e.spec, Spec):
                total[self.of[e]] = total.get(self.of[e], 0) + e.spec.nbytes
        return min(total, key=lambda s: (-total[s], s)) if total else None


def _within(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, pattern + ".*")


def _phases(graph: Graph, batch: frozenset[Node]) -> dict[Node, Phase]:
    """Return the phases of the nodes that the batch touches, in order."""
    found: dict[Node, Phase] = {}
    for node in graph.nodes:
        given = [found[e] for e in node.inputs if isinstance(e, Node) and e in found]
        if not given and not any(e in batch for e in node.inputs):
            continue
        if node.scope is not None and node.scope.within("gradient"):
            found[node] = Phase.BACKWARD
        else:
            found[node] = Phase.UPDATE if any(p is not Phase.FORWARD for p in given) else Phase.FORWARD
    return found


def _seconds(graph: Graph) -> dict[Node, float]:
    """Return about how long each node takes, by a roofline."""
    found = dict.fromkeys(graph.nodes, 0.0)
    for row in cost(graph):
        node = graph.node(row.name)
        is_free = node.op.role in VIEWS or "collective" in node.op.facets
        found[node] = 0.0 if is_free else max((row.flops or 0) / FLOPS, row.bytes / BYTES)
    return found
