"""Folds: a program for many ranks along a mesh axis, written down for fewer, each of which does what several would.

The ranks that fall together become copies in one graph, one after the other, and their collectives what they mean among
copies: additions, concatenations, slices, and after these a collective over the ranks that are left.

All ranks of an axis folded into one are *microbatches*, which take turns: see `pipeline/microbatches`. A program for a
fixed number of *blocks*, folded onto the ranks that there are, gives the same bits on any number of them: sums of a
rank's blocks are made as `summed` of the collectives makes those of ranks, neighbours first, and where 1, 2, 4, 8, ...
fall together, the sum over all is one tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import GraphError, ShapeError, WengertError, error, fail
from ...core.graph.graph import Graph
from ...core.graph.snapshot import LEAVES, input_node, located
from ...core.node import Node
from ...core.ops.op import TABLE, Op
from ...core.spec import Spec, show
from ...execute.engines import XLA
from ...ops.collective import definitions as c
from ...ops.collective.finding import collectives, subgraphs
from ...passes.strategies import PARTIAL, Entry
from ..arguments import is_whole_number
from ..mesh import Mesh
from .placement import Placement, local_spec
from .segments import outlined


class Origin(NamedTuple):
    """The node of a program that a copy comes from, and the number of the copy; None for one that all copies share."""

    node: Node
    copy: int | None


Folded = Node | list[Node]


class Folding:
    """A fold in the making: for a node of the program a node, or one for each copy.

    Parameters
    ----------
    graph: the program of one rank of many along an axis.
    over, count: the axis, and how many ranks along it fall together.
    ranks: how many are left along it.
    in_turn: whether sums are made one copy after another, so that the work on each is the same, instead of in pairs.
    """

    def __init__(self, graph: Graph, over: str, count: int, ranks: int = 1, in_turn: bool = False) -> None:
        self.graph, self.over, self.count, self.ranks, self.in_turn = graph, over, count, ranks, in_turn
        self.made: dict[Node, Folded] = {}
        self.origin: dict[Node, Origin] = {}

    def give(self, node: Node, whole: Node, axis: int | None) -> None:
        """Say what an input is: a value that all copies share, or parts of one along an axis, from the right."""
        if axis is None:
            self.made[node] = whole
            self.origin[whole] = Origin(node, None)
        else:
            self.made[node] = self._slices(node, whole, axis)

    def run(self) -> None:
        """Write down all nodes that are not given."""
        for node in self.graph.nodes:
            if node not in self.made:
                self.made[node] = self._copies(node)

    def joined(self, node: Node, axis: int | None) -> Node:
        """Return a value that all copies share, or their parts of one, joined along an axis."""
        found = self.made[node]
        if axis is None:
            assert isinstance(found, Node)  # what is the same on all ranks is made once
            return found
        return self._make(node, None, TABLE["concat"], tuple(self._all_of(found)), {"axis": axis})

    def _copies(self, node: Node) -> Folded:
        if "collective" in node.op.facets and node.attrs["over"] == self.over:
            meaning = _MEANINGS.get(node.op)
            if meaning is None:
                raise self._refusal(node)
            (operand,) = node.inputs
            assert isinstance(operand, Node)
            return meaning(self, node, self.made[operand])
        if any(n.attrs["over"] == self.over for inner in subgraphs(node) for n in collectives(inner)):
            raise self._refusal(node)
        if node.op in LEAVES:
            self.origin[node] = Origin(node, None)
            return node
        given = [self.made[e] if isinstance(e, Node) else e for e in node.inputs]
        if not any(isinstance(e, list) for e in given):
            return self._make(node, None, node.op, tuple(given), node.attrs, node.spec)
        return [
            self._make(
                node, m, node.op, tuple(e[m] if isinstance(e, list) else e for e in given), node.attrs, node.spec
            )
            for m in range(self.count)
        ]

    def _refusal(self, node: Node) -> WengertError:
        return error(
            GraphError,
            f"{node.op.name} over {self.over!r} of a program in {self.count * self.ranks} blocks on {self.ranks} ranks",
            "Each rank has several blocks there, which cannot stand in a ring or a loop: take as many blocks as ranks.",
            str(node.source),
        )

    def _make(
        self, of: Node, copy: int | None, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], spec: Any = None
    ) -> Node:
        if spec is None:
            spec = op.infer(*(e.spec if isinstance(e, Node) else e for e in inputs), **attrs)
        made = located(op, inputs, attrs, spec, of.code, of.offset, of.scope)
        self.origin[made] = Origin(of, copy)
        return made

    # -- what collectives mean

    def _among_ranks(self, node: Node, x: Node) -> Node:
        """Return the collective of a value of all copies over the ranks that are left."""
        if self.ranks == 1:
            return x
        return self._make(node, None, node.op, (x,), {**node.attrs, "ranks": self.ranks})

    def _all_of(self, x: Folded) -> list[Node]:
        return x if isinstance(x, list) else [x] * self.count

    def _slices(self, of: Node, x: Node, axis: int) -> list[Node]:
        """Return the copies' parts of a value along an axis."""
        size = x.spec.shape[axis] // self.count
        rest = ((None, None, None),) * (-axis - 1)
        return [
            self._make(of, m, TABLE["slice"], (x,), {"entries": ((m * size, (m + 1) * size, None), *rest)})
            for m in range(self.count)
        ]

    def _own_part(self, node: Node, x: Folded) -> Folded:
        assert isinstance(x, Node)
        return self._slices(node, self._among_ranks(node, x), node.attrs["axis"])

    def _combined(self, node: Node, x: Folded, combine: str) -> Node:
        """Return the sum, or the greatest, of all copies and ranks.

        In pairs, sums wait for others of their length, as the digits of a binary counter do, so that few are kept at a
        time. Those of half precision are in float32 until the end.
        """
        values = self._all_of(x)
        dtype = values[0].spec.dtype
        is_narrow = combine == "add" and dtype.itemsize == 2 and dtype.kind not in "iu"
        waiting: list[Node] = []
        for m, value in enumerate(values):
            if is_narrow:
                value = self._make(node, m, TABLE["cast"], (value,), {"dtype": np.dtype(np.float32)})
            carry = min(m, 1) if self.in_turn else m
            while carry & 1:
                value = self._make(node, m, TABLE[combine], (waiting.pop(), value), {})
                carry >>= 1
            waiting.append(value)
        total = waiting.pop()
        while waiting:
            total = self._make(node, self.count - 1, TABLE[combine], (waiting.pop(), total), {})
        total = self._among_ranks(node, total)
        if total.spec.dtype != dtype:
            copy = self.count - 1 if self.ranks == 1 else None
            total = self._make(node, copy, TABLE["cast"], (total,), {"dtype": dtype})
        return total

    def _reduce_scatter(self, node: Node, x: Folded) -> Folded:
        return self._slices(node, self._combined(node, x, "add"), node.attrs["axis"])

    def _all_gather(self, node: Node, x: Folded) -> Node:
        own = self._make(node, None, TABLE["concat"], tuple(self._all_of(x)), {"axis": node.attrs["axis"]})
        return self._among_ranks(node, own)

    def _all_to_all(self, node: Node, x: Folded) -> Folded:
        whole = self._make(node, None, TABLE["concat"], tuple(self._all_of(x)), {"axis": node.attrs["join"]})
        return self._slices(node, self._among_ranks(node, whole), node.attrs["split"])

    def _pcast(self, node: Node, x: Folded) -> Folded:
        return x if isinstance(x, list) else self._among_ranks(node, x)


_MEANINGS: dict[Op, Callable[[Folding, Node, Any], Folded]] = {
    c.own_part: Folding._own_part,
    c.all_reduce: lambda self, node, x: self._combined(node, x, "add"),
    c.all_reduce_max: lambda self, node, x: self._combined(node, x, "maximum"),
    c.all_gather: Folding._all_gather,
    c.reduce_scatter: Folding._reduce_scatter,
    c.all_to_all: Folding._all_to_all,
    c.pcast: Folding._pcast,
}


def in_blocks(mesh: Mesh, blocks: Mapping[str, int], what: str) -> Mesh:
    """Return a mesh with as many ranks as there are blocks along some axes, for `what` a user gave these.

    Raises GraphError for an axis that is not there, and for blocks that are not 1, 2, 4, 8, ... for each of its ranks.
    """
    if not isinstance(blocks, Mapping):
        fail(
            GraphError,
            f"{what} with blocks={blocks!r} on {mesh}",
            f"It names the axes: blocks={{{mesh.names[0]!r}: {4 * mesh.size}}}, say.",
        )
    for name, count in blocks.items():
        ranks = mesh.size_of(name)
        each, left = divmod(int(count), ranks) if is_whole_number(count) else (0, 1)
        if left or each < 1 or each & (each - 1):
            fail(
                GraphError,
                f"{what} with blocks={dict(blocks)!r} on {mesh}: {count!r} blocks are not 1, 2, 4, 8, ... for each of "
                f"the {ranks} ranks along {name!r}",
                f"Take {4 * ranks}, say: sums are those of pairs of blocks, of fours, and so on.",
            )
    return Mesh({**mesh.axes, **blocks})


def check_blocks(
    what: str, mesh: Mesh, blocks: Mapping[str, int] | None, in_pipeline: bool, engine: str | None
) -> None:
    """Raise GraphError unless `what` can have these blocks, on that engine."""
    if blocks is None:
        return
    in_blocks(mesh, blocks, what)
    if in_pipeline and blocks:
        fail(
            GraphError,
            f"{what} on {mesh} with a pipeline and blocks={dict(blocks)!r}",
            "A pipeline cuts the batch into microbatches: leave blocks out.",
        )
    if engine == XLA:
        refuse_blocks_on_xla(what, mesh, blocks)


def refuse_blocks_on_xla(what: str, mesh: Mesh, blocks: Mapping[str, int]) -> None:
    """Raise GraphError where there are blocks: XLA's kernels and sums are not those that they are for."""
    if blocks:
        fail(
            GraphError,
            f"{what} on {mesh} with blocks={dict(blocks)!r} and engine='xla'",
            "XLA adds up in orders of its own: leave blocks out, or take native code.",
        )


def check_cut(what: str, spec: Spec, placement: Placement, mesh: Mesh, blocks: Mapping[str, int]) -> None:
    """Raise ShapeError unless a value that is split over axes in blocks has equal parts for all of them."""
    for name, entry in zip(mesh.names, placement, strict=True):
        if isinstance(entry, int) and spec.shape[entry] % blocks.get(name, 1):
            fail(
                ShapeError,
                f"{what}, {show(spec.shape, spec.dtype)}, in {blocks[name]} blocks along dimension {entry} over "
                f"{name!r}: {spec.shape[entry]} is no multiple of {blocks[name]}",
                "Every block is of the same size: choose another number, or another size of batch.",
            )


# The collectives whose result all ranks share.
_SHARED = frozenset({c.all_reduce, c.all_reduce_max, c.all_gather})


class Sides(NamedTuple):
    """An input or output of a program in blocks: its whole value's spec, where ranks have it, and where blocks do.

    What ranks have in parts that cannot be cut for all blocks, blocks have whole.
    """

    spec: Spec
    of_rank: Placement
    of_block: Placement

    def between(self, axes: int) -> Placement:
        """Return its placement once the first so many axes are folded."""
        return (*self.of_rank[:axes], *self.of_block[axes:])


def sides(spec: Spec, placement: Placement, fine: Mesh) -> Sides:
    """Return where blocks have what ranks have by a placement."""

    def fits(name: str, entry: Entry) -> bool:
        return entry is None or entry == PARTIAL or spec.shape[entry] % fine.axes[name] == 0

    of_block = tuple(e if fits(name, e) else None for name, e in zip(fine.names, placement, strict=True))
    return Sides(spec, placement, of_block)


def in_segments(graph: Graph, inputs: Sequence[Sides], mesh: Mesh, blocks: Collection[str]) -> Graph:
    """Return a program in blocks with what is computed between collectives in graphs inside, which a fold copies.

    What blocks along one of the axes share is in others than what each of them has for itself.
    """
    along = [i for i, name in enumerate(mesh.names) if name in blocks]
    own = {
        node: frozenset(i for i in along if side.of_block[i] is not None)
        for node, side in zip(graph.inputs, inputs, strict=True)
    }

    def kind(node: Node, operands: Sequence[Node]) -> frozenset[int]:
        if node not in own:
            found = frozenset[int]().union(*(own[e] for e in operands))
            if "collective" in node.op.facets and (i := mesh.names.index(node.attrs["over"])) in along:
                found = found - {i} if node.op in _SHARED else found | {i}
            own[node] = found
        return own[node]

    return outlined(graph, kind)


def folded(graph: Graph, inputs: Sequence[Sides], outputs: Sequence[Sides], fine: Mesh, mesh: Mesh) -> Graph:
    """Return the program of a rank of the mesh `fine` as one of a rank of `mesh`, with fewer ranks along some axes.

    Raises GraphError for a collective along such an axis that has no form for several blocks on a rank.
    """
    for i, name in enumerate(mesh.names):
        ranks, count = mesh.axes[name], fine.axes[name] // mesh.axes[name]
        if count == 1:
            continue
        fine = Mesh({**fine.axes, name: ranks})
        fold = Folding(graph, name, count, ranks)
        parts = []
        for node, side in zip(graph.inputs, inputs, strict=True):
            local = local_spec(side.spec, side.between(i + 1), fine)
            part = input_node(local, node.attrs.get("name", ""), node.op.name == "parameter")
            parts.append(part)
            had, cut = (_from_right(p[i], local) for p in (side.of_rank, side.of_block))
            if had != cut and ranks > 1:
                attrs = {"over": name, "ranks": ranks, "axis": had, "replicated": True}
                part = located(c.all_gather, (part,), attrs, c.all_gather.infer(local, **attrs))
            fold.give(node, part, cut)
        fold.run()
        results = []
        for node, side in zip(graph.outputs, outputs, strict=True):
            had, cut = (_from_right(p[i], node.spec) for p in (side.of_rank, side.of_block))
            found = fold.joined(node, cut)
            if had != cut and ranks > 1:
                attrs = {"over": name, "ranks": ranks, "axis": had}
                found = located(c.own_part, (found,), attrs, c.own_part.infer(found.spec, **attrs))
            results.append(found)
        graph = Graph(results, parts, graph.name, out_structure=graph.out_structure)
    return graph


def _from_right(entry: Entry, spec: Spec) -> int | None:
    """Return the dimension that a value is split along, counted from the right."""
    assert entry != PARTIAL
    return None if entry is None else entry - len(spec.shape)
