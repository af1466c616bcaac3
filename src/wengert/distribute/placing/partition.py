"""The partition of a graph: from a program on whole values and placements of its inputs, what each rank runs.

The pass walks the graph once. For every node and mesh axis it takes the strategy that moves the fewest bytes, brings
the operands where that asks for them, and writes the node down for a rank's parts. What a value becomes on the way is
a *conversion*, made once and used by all: P to R is an all_reduce, P to V a reduce_scatter, V to R an all_gather, V to
another V an all_to_all, R to V nothing but a view. So data parallelism, sharded data parallelism and tensor parallelism
are one pass, and differ in the placements of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ...core.dims import has_dims
from ...core.errors import GraphError, WengertError, error, fail
from ...core.graph.graph import Graph
from ...core.graph.inside import inside
from ...core.graph.snapshot import CONSTANT, LEAVES, constant_node, input_node, located, topological
from ...core.node import Node
from ...core.ops.op import TABLE, Op, spec_of_input
from ...core.ops.record import OUTPUT, SCALARS
from ...core.spec import Shape, Spec, show, spec_of
from ...ops.collective import definitions as collective
from ...ops.collective.finding import collectives
from ...passes.strategies import PARTIAL, Entry, Strategy, local_attrs, operand_shapes, specs_of_results, strategies
from ...transforms.tracing.trace import graph as trace
from ..mesh import Mesh
from .buckets import bucketed
from .folding import Sides, folded, in_blocks, in_segments, sides
from .placement import Placement, local_shape, local_spec, span

_NEVER = 1 << 100
# As many parts are named where an error says what a rank has.
_TOLD = 4


class Value:
    """A value of the program and what a rank has of it: the node for its placement, and those of its conversions."""

    __slots__ = ("spec", "placement", "node", "source", "made", "gathers", "again")

    def __init__(
        self, spec: Spec, placement: Placement, node: Node, source: Node, gathers: frozenset[int] = frozenset()
    ) -> None:
        self.spec = spec
        self.placement = placement
        self.node = node
        self.source = source
        self.made: dict[Any, Node] = {placement: node}
        # The mesh axes along which a parameter is whole where it is used, and in parts elsewhere: its gathering is no
        # cost to be weighed, and is done again for the backward pass.
        self.gathers = gathers
        self.again: dict[Any, Node] = {placement: node}


class Partitioned(NamedTuple):
    """A program for the ranks of a mesh: the graph that each runs, and where its inputs and outputs are.

    `placements` has those of every value of the program that the ranks' graph came from, by its node.
    """

    graph: Graph
    mesh: Mesh
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    placements: Mapping[Node, Placement]

    @contextmanager
    def telling(self, rank: int) -> Iterator[None]:
        """Add to an error of one rank whose it is, and what its parts are: positions in it are those of a part."""
        try:
            yield
        except WengertError as e:
            parts = [
                f"{node.attrs.get('name') or 'an input'}{span(node.spec.shape, placement, self.mesh, rank)}"
                for node, placement in zip(self.graph.inputs, self.inputs, strict=True)
                if any(entry is not None for entry in placement)
            ]
            told = f": positions and sizes are those of its parts, {', '.join(parts[:_TOLD])}" if parts else ""
            e.add_note(f"raised on rank {rank} of {self.mesh}{told}")
            raise


def partition_graph(
    graph: Graph,
    mesh: Mesh,
    inputs: Sequence[Placement],
    outputs: Sequence[Placement | None],
    gathered: Sequence[frozenset[int]] | None = None,
    *,
    in_stages: bool = False,
    spread: Iterable[str] = (),
    blocks: Mapping[str, int] | None = None,
) -> Partitioned:
    """Return the part of a graph that each rank of a mesh runs.

    Parameters
    ----------
    graph: a program on whole values.
    inputs: the placement of each input.
    outputs: the placement that each output is to have; None for that in which it comes out, partial sums added up.
    gathered: for each input the mesh axes, by number, along which it is gathered where it is used.
    in_stages: whether the graph is to be cut into the stages of a pipeline: sums of several stages are not joined, and
        what is gathered once serves all microbatches.
    spread: mesh axes along which partial sums of activations may become parts, where they meet whole values.
    blocks: mesh axes with the number of blocks along them: the program is that of as many ranks, of which each rank of
        the mesh does what several would (see `folding`).

    Raises GraphError for sizes that are not known.
    """
    own = next(collectives(graph), None)
    if own is not None:
        raise error(
            GraphError,
            f"{own.op.name} over {own.attrs['over']!r} in a program on whole values",
            "Placements say what moves: leave the collective out. What one rank does, with collectives, is for "
            "wg.distribute.shard_map.",
            str(own.source),
        )
    for node in graph.nodes:
        if any(has_dims(s.shape) for s in specs_of_results(node)):
            fail(GraphError, f"a partition of {graph!r}: {graph.names[node]} has a size that is not known, {node.spec}")
    gathers = gathered or [frozenset()] * len(inputs)
    fine = in_blocks(mesh, blocks or {}, graph.name or "a partition")
    given = [sides(n.spec, p, fine) for n, p in zip(graph.inputs, inputs, strict=True)]
    wanted = [None if p is None else sides(n.spec, p, fine) for n, p in zip(graph.outputs, outputs, strict=True)]
    goals = [None if side is None else side.of_block for side in wanted]
    made = Partition(graph, fine, [side.of_block for side in given], gathers, in_stages, spread).run(goals)
    ends = [side or Sides(n.spec, p, p) for n, p, side in zip(graph.outputs, made.outputs, wanted, strict=True)]
    local = made.graph
    if blocks:
        local = folded(in_segments(local, given, mesh, blocks), given, ends, fine, mesh)
    return made._replace(
        graph=local if in_stages else bucketed(local),
        mesh=mesh,
        inputs=tuple(inputs),
        outputs=tuple(side.of_rank for side in ends),
    )


class Partition:
    """A partition in the making: values of the program by their nodes, each with what a rank has of it."""

    def __init__(
        self,
        graph: Graph,
        mesh: Mesh,
        inputs: Sequence[Placement],
        gathered: Sequence[frozenset[int]],
        in_stages: bool = False,
        spread: Iterable[str] = (),
        rings: bool = True,
    ) -> None:
        self.graph, self.mesh, self.in_stages, self.rings = graph, mesh, in_stages, rings
        self.spread = frozenset(spread)
        self.placed = tuple(inputs)
        self.values: dict[Node, Any] = {}
        self.inputs: list[Node] = []
        self.anchors = _anchors(graph, inputs, len(mesh.names))
        for node, placement, gathers in zip(graph.inputs, inputs, gathered, strict=True):
            (spec,) = specs_of_results(node)
            made = input_node(
                local_spec(spec, placement, mesh), node.attrs.get("name", ""), node.op.name == "parameter"
            )
            self.inputs.append(made)
            self.values[node] = Value(spec, placement, made, node, gathers)

    def run(self, wanted: Sequence[Placement | None]) -> Partitioned:
        for node in self.graph.nodes:
            if node not in self.values:
                self.values[node] = self.place(node, self.values)
        found: list[Node] = []
        outputs: list[Placement] = []
        for node, goal in zip(self.graph.outputs, wanted, strict=True):
            value: Value = self.values[node]
            if goal is None:
                goal = tuple(None if e == PARTIAL else e for e in value.placement)
            found.append(self.convert(value, goal, node))
            outputs.append(goal)
        local = Graph(found, self.inputs, self.graph.name, out_structure=self.graph.out_structure)
        placements = {n: v.placement for n, v in self.values.items() if isinstance(v, Value)}
        return Partitioned(local, self.mesh, self.placed, tuple(outputs), placements)

    # -- one node

    def place(self, node: Node, values: Mapping[Node, Any]) -> Any:
        """Return the value of a node (a tuple for several results), for the values of its operands."""
        none = (None,) * len(self.mesh.names)
        if node.op in LEAVES:
            assert node.op is CONSTANT
            return Value(node.spec, none, constant_node(node.attrs["value"]), node)
        if node.op is OUTPUT:
            return values[node.inputs[0]][node.attrs["index"]]
        args = [values[e] if isinstance(e, Node) else self._literal(e, node) for e in node.inputs]
        chosen = self._choose(node, args)
        if chosen is None:
            opened = self._opened(node, args)
            if opened is not None:
                return opened
            chosen = self._whole(node)
        return self.written(node, args, chosen)

    def _literal(self, entry: Any, node: Node) -> Any:
        if type(entry) in SCALARS:
            return entry
        array = np.asarray(entry)
        return Value(spec_of(array.shape, array.dtype), (None,) * len(self.mesh.names), constant_node(array), node)

    def _whole(self, node: Node) -> list[Strategy]:
        whole = Strategy((None,) * len(node.inputs), (None,) * len(specs_of_results(node)))
        return [whole] * len(self.mesh.names)

    def _choose(self, node: Node, args: Sequence[Any]) -> list[Strategy] | None:
        """Return a strategy for each mesh axis; None for an op that would gather what its inside need not."""
        if all(e is None for a in args if isinstance(a, Value) for e in a.placement):
            return self._whole(node)
        known = [s for s in strategies(node) if self.rings or not s.in_ring]
        shapes = operand_shapes(node)
        results = [s.shape for s in specs_of_results(node)]
        whole = self._whole(node)[0]
        used_in: list[set[int]] = [set() for _ in args]
        used_out: list[set[int]] = [set() for _ in results]
        chosen = []
        for i, name in enumerate(self.mesh.names):
            ranks = self.mesh.axes[name]
            if node.op.kind == "collective" and node.attrs["over"] == name:
                chosen.append(whole)
                continue
            has_parts = any(a.placement[i] is not None for a in args if isinstance(a, Value))
            best, least = whole, self._cost(whole, node, args, i)
            anchor = self.anchors.get((node, i))
            for s in known:
                if not all(
                    _splits(shape, e, ranks, used)
                    for shape, e, used in (*zip(shapes, s.operands, used_in), *zip(results, s.results, used_out))
                ):
                    continue
                if anchor is None and self._splits_sums_only(s, args, i) and not self._is_spread(s, name, results):
                    continue
                cost = self._cost(s, node, args, i)
                # Of equals, the one that leaves each rank less to do, where some rank has but a part.
                if cost < least or (
                    cost == least and best is whole and has_parts and any(e is not None for e in s.results)
                ):
                    best, least = s, cost
            if self._can_open(node) and any(
                isinstance(a, Value) and a.placement[i] not in (None, PARTIAL, e) and i not in a.gathers
                for a, e in zip(args, best.operands, strict=True)
            ):
                return None
            for used, e in (*zip(used_in, best.operands), *zip(used_out, best.results)):
                if e is not None and e != PARTIAL:
                    used.add(e)
            chosen.append(best)
        return chosen

    @staticmethod
    def _splits_sums_only(s: Strategy, args: Sequence[Any], i: int) -> bool:
        """Return whether a strategy splits values of which no rank has a part: partial sums, and whole ones."""
        there = [a.placement[i] for a in args if isinstance(a, Value)]
        return PARTIAL in there and all(e in (None, PARTIAL) for e in there) and PARTIAL not in s.operands

    def _is_spread(self, s: Strategy, name: str, results: Sequence[Shape]) -> bool:
        """Return whether a strategy makes parts of activations: of examples, or of positions where examples are cut.

        Values of fewer than three dimensions are parameters and their gradients, which are left whole.
        """
        first = 1 if self.in_stages else 0
        return name in self.spread and all(
            e is not None and first <= e < 2 and len(shape) > 2 for e, shape in zip(s.results, results, strict=True)
        )

    def _cost(self, s: Strategy, node: Node, args: Sequence[Any], i: int) -> int:
        """Return the bytes that a strategy moves along mesh axis `i`, in multiples of what one gathering moves."""
        total = 0
        if PARTIAL in s.operands and PARTIAL in s.results:  # which are added up later, when they may be more
            before = sum(a.spec.nbytes for a, e in zip(args, s.operands, strict=True) if e == PARTIAL)
            total += 2 * max(0, sum(r.nbytes for r in specs_of_results(node)) - before)
        for a, wanted in zip(args, s.operands, strict=True):
            if isinstance(a, Value) and a.placement[i] != wanted:
                if wanted == PARTIAL:
                    return _NEVER  # partial sums are not made of other values
                total += a.spec.nbytes * _moves(a.placement[i], wanted, i in a.gathers)
        if s.finish in ("max", "min"):
            total += 1
        if s.in_ring:
            total += sum(args[k].spec.nbytes for k in node.op.facets["ring"].moved)
        return total

    def _can_open(self, node: Node) -> bool:
        return node.op.body is not None or "composed" in node.op.facets

    def _opened(self, node: Node, args: Sequence[Any]) -> Any:
        """Return the value of a node by the graph inside it."""
        if node.op.body is not None:
            body = inside(node)
            inputs, outputs = body.inputs, body.outputs
        elif "composed" in node.op.facets:
            made = trace(lambda *xs: node.op.facets["composed"](*xs, **node.attrs))(
                *(spec_of_input(e) if isinstance(e, Node) or type(e) not in SCALARS else e for e in node.inputs)
            )
            inputs, outputs = list(made.inputs), list(made.outputs)
        else:
            return None
        given = [a for a in args if isinstance(a, Value)]
        env: dict[Node, Any] = dict(zip(inputs, given, strict=False))
        for inner in topological(outputs, inputs):
            if inner not in env:
                env[inner] = self.place(_at(inner, node), env)
        found = [env[o] for o in outputs]
        return tuple(found) if isinstance(node.spec, tuple) else found[0]

    def written(self, node: Node, args: Sequence[Any], chosen: Sequence[Strategy]) -> Any:
        """Return the value of a node that is written down for a rank's parts, by a strategy for each mesh axis."""
        inputs: list[Any] = []
        for k, a in enumerate(args):
            if isinstance(a, Value):
                inputs.append(self.convert(a, tuple(s.operands[k] for s in chosen), node))
            else:
                inputs.append(a)
        shapes = [None if not isinstance(e, Node) else e.spec.shape for e in inputs]
        specs = specs_of_results(node)
        placed = [tuple(s.results[k] for s in chosen) for k in range(len(specs))]
        results = [local_shape(s.shape, p, self.mesh) for s, p in zip(specs, placed, strict=True)]
        attrs = local_attrs(node, shapes, results)
        ring = next((name for name, s in zip(self.mesh.names, chosen, strict=True) if s.in_ring), None)
        if ring is not None:
            rows = zip(specs, placed, self._in_ring(node, inputs, attrs, ring), strict=True)
            return tuple(Value(*row, node) for row in rows)
        inferred = node.op.infer(*(e.spec if isinstance(e, Node) else e for e in inputs), **attrs)
        found = inferred if isinstance(inferred, tuple) else (inferred,)
        if [s.shape for s in found] != results:
            fail(
                GraphError,
                f"{node.op.name} of a rank's parts gives {', '.join(show(s.shape, s.dtype) for s in found)}, and "
                f"should give {', '.join(map(str, results))}",
                where=str(node.source),
            )
        made = located(node.op, tuple(inputs), attrs, inferred, node.code, node.offset, node.scope)
        if not isinstance(node.spec, tuple):
            return Value(node.spec, placed[0], self._finished(made, chosen, node), node)
        return tuple(
            Value(
                spec, p, located(OUTPUT, (made,), {"index": k}, made.spec[k], node.code, node.offset, node.scope), node
            )
            for k, (spec, p) in enumerate(zip(specs, placed, strict=True))
        )

    def _in_ring(self, node: Node, inputs: Sequence[Node], attrs: Mapping[str, Any], over: str) -> list[Node]:
        """Return the results of a node whose operands go round the ranks along an axis."""
        more = {**attrs, "over": over, "ranks": self.mesh.axes[over]}
        made = trace(lambda *xs: node.op.facets["ring"].run(*xs, **more))(*(e.spec for e in inputs))
        replace = dict(zip(made.inputs, inputs, strict=True))
        for inner in made.nodes:
            if inner not in replace and inner.op is not CONSTANT:
                given = tuple(replace.get(e, e) if isinstance(e, Node) else e for e in inner.inputs)
                replace[inner] = located(inner.op, given, inner.attrs, inner.spec, node.code, node.offset, node.scope)
        return [replace[n] for n in made.outputs]

    def _finished(self, made: Node, chosen: Sequence[Strategy], node: Node) -> Node:
        for name, s in zip(self.mesh.names, chosen, strict=True):
            ranks = self.mesh.axes[name]
            if s.finish == "mean":
                made = self._node(TABLE["divide"], (made, float(ranks)), {}, node)
            elif s.finish:
                is_least = s.finish == "min"
                made = self._node(TABLE["negative"], (made,), {}, node) if is_least else made
                made = self._node(collective.all_reduce_max, (made,), {"over": name, "ranks": ranks}, node)
                made = self._node(TABLE["negative"], (made,), {}, node) if is_least else made
        return made

    # -- conversions

    def convert(self, value: Value, wanted: Placement, node: Node) -> Node:
        """Return the node of a value in another placement, made for `node` where there is none yet."""
        is_backward = (
            bool(value.gathers) and not self.in_stages and node.scope is not None and node.scope.within("gradient")
        )
        kept = value.again if is_backward else value.made
        known = kept.get(wanted)
        if known is not None:
            return known
        at, placement = value.node, list(value.placement)
        # What gets smaller first, so that less is moved after it.
        order = sorted(range(len(wanted)), key=lambda i: (placement[i] is not None, wanted[i] is None))
        for i in order:
            if placement[i] != wanted[i]:
                clash = wanted[i] not in (None, PARTIAL) and wanted[i] in [e for k, e in enumerate(placement) if k != i]
                if clash:
                    return self.convert(self._via_whole(value, node), wanted, node)
                at = self._along(at, placement[i], wanted[i], self.mesh.names[i], value, node)
                placement[i] = wanted[i]
                kept.setdefault(tuple(placement), at)
        return at

    def _via_whole(self, value: Value, node: Node) -> Value:
        none = (None,) * len(self.mesh.names)
        return Value(value.spec, none, self.convert(value, none, node), value.source)

    def _along(self, at: Node, now: Entry, wanted: Entry, name: str, value: Value, node: Node) -> Node:
        attrs: dict[str, Any] = {"over": name, "ranks": self.mesh.axes[name]}
        rank = len(value.spec.shape)
        # The line that the value comes from: what is moved is its result.
        maker = value.source if value.source.source is not None else node
        if now == PARTIAL and wanted is None:
            return self._node(collective.all_reduce, (at,), attrs, maker)
        if now == PARTIAL:
            assert wanted is not None
            return self._node(collective.reduce_scatter, (at,), {**attrs, "axis": wanted - rank}, maker)
        if now is None and wanted != PARTIAL:
            assert wanted is not None
            smaller = self._broadcast_less(at, wanted, attrs["ranks"])
            if smaller is not None:
                return smaller
            return self._node(collective.own_part, (at,), {**attrs, "axis": wanted - rank}, maker)
        assert now is not None
        if wanted is None:
            return self._node(collective.all_gather, (at,), {**attrs, "axis": now - rank, "replicated": True}, maker)
        assert wanted != PARTIAL
        return self._node(collective.all_to_all, (at,), {**attrs, "split": wanted - rank, "join": now - rank}, maker)

    def _broadcast_less(self, at: Node, dim: int, ranks: int) -> Node | None:
        """Return a rank's part of what is broadcast along a dimension: fewer copies."""
        if at.op is not TABLE["broadcast"]:
            return None
        shape = at.spec.shape
        given = spec_of_input(at.inputs[0]).shape
        own = dim - (len(shape) - len(given))
        if own >= 0 and given[own] == shape[dim]:
            return None
        smaller = (*shape[:dim], shape[dim] // ranks, *shape[dim + 1 :])
        return located(
            at.op, at.inputs, {"shape": smaller}, spec_of(smaller, at.spec.dtype), at.code, at.offset, at.scope
        )

    def _node(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], node: Node) -> Node:
        spec = op.infer(*(e.spec if isinstance(e, Node) else e for e in inputs), **attrs)
        return located(op, inputs, attrs, spec, node.code, node.offset, node.scope)


def _at(inner: Node, outer: Node) -> Node:
    """Return a node of a composite's inside, at the line of the composite: the inside is kept from an earlier one."""
    return located(inner.op, inner.inputs, inner.attrs, inner.spec, outer.code, outer.offset, outer.scope)


def _splits(shape: Any, entry: Entry, ranks: int, used: set[int]) -> bool:
    if entry is None or entry == PARTIAL:
        return True
    return shape is not None and shape[entry] % ranks == 0 and entry not in used


def _moves(now: Entry, wanted: Entry, gathers: bool) -> int:
    """Return how often a conversion moves a value along an axis."""
    if now == wanted:
        return 0
    if now is None:
        return 0
    if now == PARTIAL:
        return 2 if wanted is None else 1
    return 0 if wanted is None and gathers else 1


def _anchors(graph: Graph, inputs: Sequence[Placement], axes: int) -> dict[tuple[Node, int], int]:
    """Return, for nodes of element by element work on inputs that are in parts, along which dimension these are.

    A gradient that comes as partial sums is wanted where the parameter and the optimiser's state have their parts.
    """
    parent: dict[Node, Node] = {}

    def root(n: Node) -> Node:
        while parent.setdefault(n, n) is not n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for node in graph.nodes:
        if node.op.kind == "elementwise" and isinstance(node.spec, Spec):
            for e in node.inputs:
                if isinstance(e, Node) and isinstance(e.spec, Spec) and e.spec.shape == node.spec.shape:
                    parent[root(e)] = root(node)
    found: dict[tuple[Node, int], int] = {}
    for node, placement in zip(graph.inputs, inputs, strict=True):
        for i in range(axes):
            entry = placement[i]
            if entry is not None:
                found.setdefault((root(node), i), entry)
    return {(n, i): found[root(n), i] for n in graph.nodes for i in range(axes) if (root(n), i) in found}
