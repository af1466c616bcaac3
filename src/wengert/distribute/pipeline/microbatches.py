"""Microbatches: a program for one part of the batch, written down for all of them, one after the other.

Microbatches are ranks that take turns. A graph is partitioned over a mesh axis on which they stand, and so the rules of
placement say what a part of the batch needs of the others: gradients come as partial sums, batch norm takes a sum over
all, dropout draws the whole mask. Then all of them are folded into one: see `placing/folding`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...core.errors import ShapeError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.spec import show
from ..mesh import Mesh
from ..placing.folding import Folding, Origin
from ..placing.partition import Partition, Partitioned
from ..placing.placement import Placement


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
        is_there = d is None or 0 <= d < len(shape)
        if d is not None and (not is_there or shape[d] % count):
            has = f"has {len(shape)} dimensions" if not is_there else f"{shape[d]} is no multiple of {count}"
            fail(
                ShapeError,
                f"{graph.names[node]}, {show(shape, node.spec.dtype)} on a rank, in {count} microbatches along "
                f"dimension {d}: {has}",
                "All microbatches have one size: choose another number, or say in batch= what is cut.",
            )
        placed.append((d,))
    goals: list[Placement | None] = [(None,)] * len(graph.outputs)
    # Collectives over other axes are ops of this program.
    one = Partition(graph, mesh, placed, [frozenset()] * len(placed), in_stages=True, rings=False).run(goals)
    fold = Folding(one.graph, name, count, in_turn=True)
    for node, whole, d in zip(one.graph.inputs, graph.inputs, cuts, strict=True):
        fold.give(node, whole, None if d is None else d - len(whole.spec.shape))
    fold.run()
    outputs = [fold.joined(n, None) for n in one.graph.outputs]
    copies = Graph(outputs, graph.inputs, graph.name, out_structure=graph.out_structure)
    return Unrolled(one.graph, copies, fold.origin, count)
