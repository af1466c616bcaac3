"""A graph run by all ranks in one process, node by node: the oracle of every engine, in sight of whoever observes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from ...core.graph.evaluate import compute, run
from ...core.node import Node
from ...ops.collective.finding import collectives, subgraphs
from ..placing.partition import Partitioned
from .simulation import Simulation

# What adds to the error of a rank, by number, whose it is.
Telling = Callable[[int], AbstractContextManager[None]]


def run_lockstep(
    program: Partitioned, feeds: Sequence[Sequence[Any]], telling: Telling | None = None
) -> list[list[Any]]:
    """Return every rank's outputs of a program for every rank's inputs.

    `telling` adds to an error whose it is; None does so by the program's mesh. All ranks compute a node before any
    computes the next one; those whose operands are the same objects share one result. A graph with loops or branches
    that hold collectives is run by ranks that take turns.
    """
    graph, mesh = program.graph, program.mesh
    if any(True for n in graph.nodes for v in subgraphs(n) for _ in collectives(v)):
        given = iter(feeds)
        jobs = [list(next(given)) for _ in range(mesh.size)]
        return Simulation(mesh).run_each([partial(run, graph, feed) for feed in jobs])
    ranks = range(mesh.size)
    values: dict[Node, list[Any]] = {n: [feeds[r][i] for r in ranks] for i, n in enumerate(graph.inputs)}
    last_uses = graph.last_uses
    with np.errstate(all="ignore"):  # infinities and NaNs are values
        for node in graph.nodes:
            if node not in values:
                values[node] = _each(node, values, program, telling or program.telling)
            for done in last_uses.get(node, ()):
                del values[done]
    return [[values[n][r] for n in graph.outputs] for r in ranks]


def _each(
    node: Node,
    values: dict[Node, list[Any]],
    program: Partitioned,
    telling: Telling,
) -> list[Any]:
    mesh = program.mesh
    together = node.op.facets.get("collective")
    if together is None:
        known: dict[tuple[int, ...], Any] = {}
        found = []
        for rank in range(mesh.size):
            operands = [values[e][rank] if isinstance(e, Node) else e for e in node.inputs]
            key = tuple(map(id, operands))
            if key not in known:
                with telling(rank):
                    known[key] = compute(node, operands)
            found.append(known[key])
        return found
    over = node.attrs["over"]
    if node.op.kind == "source":
        return [np.asarray(mesh.coordinates(rank)[over]) for rank in range(mesh.size)]
    out: list[Any] = [None] * mesh.size
    (operand,) = node.inputs
    for rank in range(mesh.size):
        if out[rank] is None:
            members = mesh.along(over, rank)
            given = [
                np.asarray(values[operand][i]) if isinstance(operand, Node) else np.asarray(operand) for i in members
            ]
            for i, result in zip(members, together(given, **node.attrs), strict=True):
                out[i] = result
    return out
