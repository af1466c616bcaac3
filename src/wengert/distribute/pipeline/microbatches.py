"""Microbatches: a program for one part of the batch, written down for all of them, one after the other.

Microbatches are ranks that take turns. A graph is partitioned over a mesh axis on which they stand, and so the rules of
placement say what a part of the batch needs of the others: gradients come as partial sums, batch norm takes a sum over
all, dropout draws the whole mask. Here the ranks become copies in one graph, and their collectives what they mean:
additions, concatenations, slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.graph.graph import Graph
from ...core.graph.snapshot import LEAVES, located
from ...core.node import Node
from ...core.ops.op import TABLE, Op
from ...core.spec import show
from ...ops.collective import definitions as c
from ..mesh import Mesh
from ..placing.partition import Partition, Partitioned
from ..placing.placement import Placement


class Origin(NamedTuple):
    """The node of the program for one microbatch that a copy comes from, and its microbatch; None for one for all."""

    node: Node
    micro: int | None


class Unrolled(NamedTuple):
    """A program on all microbatches.

    `one` is the program for one of them, `graph` that on all, with the inputs and outputs of the program that both came
    from; `origin` says of which node of `one` a node of `graph` is a copy.
    """

    one: Graph
    graph: Graph
    origin: dict[Node, Origin]
    micro: int


def microbatched(made: Partitioned, cuts: Sequence[int | None], count: int) -> Unrolled:
    """Return a rank's program with its batch in parts that are computed one after the other.

    Parameters
    ----------
    made: a rank's program, whose sums over ranks are not joined yet.
    cuts: for each input the dimension along which it is cut, or None.
    count: the number of microbatches.

    Raises ShapeError where a dimension has no equal parts.
    """
    graph = made.graph
    name = "microbatch"
    while name in made.mesh.axes:
        name += "_"
    mesh = Mesh({name: count})
    placed: list[Placement] = []
    for node, d in zip(graph.inputs, cuts, strict=True):
        shape = node.spec.shape
        if d is not None and (d >= len(shape) or shape[d] % count):
            has = f"has {len(shape)} dimensions" if d >= len(shape) else f"{shape[d]} is no multiple of {count}"
            fail(
                ShapeError,
                f"{graph.names[node]}, {show(shape, node.spec.dtype)} on a rank, in {count} microbatches along "
                f"dimension {d}: {has}",
                "All microbatches have one size: choose another number, or say in batch= what is cut.",
            )
        placed.append((d,))
    whole: list[Placement | None] = [(None,)] * len(graph.outputs)
    # Collectives over other axes are ops of this program.
    one = Partition(graph, mesh, placed, [frozenset()] * len(placed), in_stages=True, rings=False).run(whole)
    return _Unrolling(graph, one, name, count).run()


class _Unrolling:
    """Copies in the making: for a node of the program for one microbatch a node, or one for each microbatch."""

    def __init__(self, graph: Graph, one: Partitioned, name: str, count: int) -> None:
        self.program, self.one, self.name, self.count = graph, one, name, count
        self.made: dict[Node, Node | list[Node]] = {}
        self.origin: dict[Node, Origin] = {}

    def run(self) -> Unrolled:
        graph = self.one.graph
        for node, whole, (d,) in zip(graph.inputs, self.program.inputs, self.one.inputs, strict=True):
            if d is None:
                self.made[node] = whole
                self.origin[whole] = Origin(node, None)
            else:
                assert isinstance(d, int)
                self.made[node] = self._slices(node, whole, d - len(whole.spec.shape))
        for node in graph.nodes:
            if node not in self.made:
                self.made[node] = self._copies(node)
        outputs = []
        for node in graph.outputs:
            found = self.made[node]
            assert isinstance(found, Node)  # every output is asked for whole
            outputs.append(found)
        made = Graph(outputs, self.program.inputs, self.program.name, out_structure=self.program.out_structure)
        return Unrolled(graph, made, self.origin, self.count)

    def _copies(self, node: Node) -> Node | list[Node]:
        if "collective" in node.op.facets and node.attrs["over"] == self.name:
            (operand,) = node.inputs
            assert isinstance(operand, Node)
            return _MEANINGS[node.op](self, node, self.made[operand])
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

    def _make(
        self, of: Node, micro: int | None, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], spec: Any = None
    ) -> Node:
        if spec is None:
            spec = op.infer(*(e.spec if isinstance(e, Node) else e for e in inputs), **attrs)
        made = located(op, inputs, attrs, spec, of.code, of.offset, of.scope)
        self.origin[made] = Origin(of, micro)
        return made

    # -- what collectives over microbatches mean

    def all_of(self, x: Node | list[Node]) -> list[Node]:
        return x if isinstance(x, list) else [x] * self.count

    def _slices(self, of: Node, x: Node, axis: int) -> list[Node]:
        """Return the microbatches' parts of a value along an axis."""
        size = x.spec.shape[axis] // self.count
        rest = ((None, None, None),) * (-axis - 1)
        return [
            self._make(of, m, TABLE["slice"], (x,), {"entries": ((m * size, (m + 1) * size, None), *rest)})
            for m in range(self.count)
        ]

    def own_part(self, node: Node, x: Node | list[Node]) -> list[Node]:
        assert isinstance(x, Node)
        return self._slices(node, x, node.attrs["axis"])

    def fold(self, node: Node, x: Node | list[Node], combine: str) -> Node:
        """Return the sum, or the greatest, of all microbatches in their order: half precision in float32, as ranks."""
        values = self.all_of(x)
        dtype = values[0].spec.dtype
        is_narrow = combine == "add" and dtype.itemsize == 2 and dtype.kind not in "iu"
        total: Node | None = None
        for m, value in enumerate(values):
            if is_narrow and len(values) > 1:
                value = self._make(node, m, TABLE["cast"], (value,), {"dtype": np.dtype(np.float32)})
            total = value if total is None else self._make(node, m, TABLE[combine], (total, value), {})
        assert total is not None
        if total.spec.dtype != dtype:
            total = self._make(node, self.count - 1, TABLE["cast"], (total,), {"dtype": dtype})
        return total

    def reduce_scatter(self, node: Node, x: Node | list[Node]) -> list[Node]:
        return self._slices(node, self.fold(node, x, "add"), node.attrs["axis"])

    def all_gather(self, node: Node, x: Node | list[Node]) -> Node:
        return self._make(node, None, TABLE["concat"], tuple(self.all_of(x)), {"axis": node.attrs["axis"]})

    def all_to_all(self, node: Node, x: Node | list[Node]) -> list[Node]:
        whole = self._make(node, None, TABLE["concat"], tuple(self.all_of(x)), {"axis": node.attrs["join"]})
        return self._slices(node, whole, node.attrs["split"])


_MEANINGS: dict[Op, Callable[[_Unrolling, Node, Any], Node | list[Node]]] = {
    c.own_part: _Unrolling.own_part,
    c.all_reduce: lambda self, node, x: self.fold(node, x, "add"),
    c.all_reduce_max: lambda self, node, x: self.fold(node, x, "maximum"),
    c.all_gather: _Unrolling.all_gather,
    c.reduce_scatter: _Unrolling.reduce_scatter,
    c.all_to_all: _Unrolling.all_to_all,
    c.pcast: lambda self, node, x: x,
}
