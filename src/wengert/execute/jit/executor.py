"""Executors of traced graphs: native code, or the interpreter where there is none."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.evaluate import apply, run
from ...core.graph.graph import Graph
from ...core.graph.snapshot import LEAVES
from ...core.node import Node
from ...core.state.locks import imported
from ...core.state.observer import observer
from ..native.budget.within import Limit
from ..native.codegen import machine
from ..native.compile import compile_graph
from ..native.overlap import Exchanges
from ..native.run.runtime import Commit
from ..native.run.threads import get_num_threads


class Executor(Protocol):
    """A graph made ready: `run` takes arrays for its inputs and gives new arrays for its outputs."""

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs' values, which share memory with nothing else."""
        ...

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and call `commit` with the values and with the calls to be made at once, before its own.

        Results may be there, and donated inputs written to, only after these calls.
        """
        ...


class CompileGraph(Protocol):
    """A function from a graph, and which of its inputs are donated, to what runs it.

    `replaced` says of donated inputs, by their numbers, which output takes their place outside.
    """

    def __call__(
        self, graph: Graph, donated: Sequence[bool] | None, *, replaced: Mapping[int, int] | None = None
    ) -> Executor: ...


def on_xla(
    graph: Graph, donated: Sequence[bool] | None = None, *, replaced: Mapping[int, int] | None = None
) -> Executor:
    """Return the graph as a program of XLA's. Raises GraphError where there is no jax."""
    made: Executor = imported("..xla.program", __package__).compile_graph(graph, donated, replaced)
    return made


def at_device(place: str, program: Graph, here: Collection[int]) -> CompileGraph:
    """Return what makes graphs programs of XLA's on a device; outputs of `program` in `here` are the host's."""

    def compile(
        graph: Graph, donated: Sequence[bool] | None = None, *, replaced: Mapping[int, int] | None = None
    ) -> Executor:
        placed = imported("..xla.placed", __package__)
        made: Executor = placed.OnDevice(graph, place, donated, replaced, here if graph is program else ())
        return made

    return compile


class Interpreted:
    """An executor that runs a graph node by node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs' values, which share memory with nothing else."""
        outputs = [np.asarray(v) for v in run(self.graph, arrays)]
        return [v.copy() if any(np.may_share_memory(v, a) for a in arrays) else v for v in outputs]

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and give the values to `commit` when they are there."""
        outputs = self.run(arrays)
        commit(outputs, ())
        return outputs


def executor(
    graph: Graph,
    donated: Sequence[bool] | None = None,
    limit: Limit | None = None,
    *,
    replaced: Mapping[int, int] | None = None,
    exchanges: Exchanges | None = None,
) -> Executor:
    """Return the graph as native code where that is possible; results may take the memory of `donated` inputs.

    What `exchanges` moves between ranks is under way while other steps of native code run. With a `limit`, it needs at
    most so many bytes beside its inputs, for as many threads as there are now. Raises BudgetError where it cannot.
    """
    if has_native():
        limit = None if limit is None else limit._replace(threads=get_num_threads())
        return compile_graph(graph, donated, None, limit, exchanges)
    if limit is not None:
        fail(
            GraphError,
            f"{graph.name or 'a program'} with a budget of memory: it runs through the interpreter",
            "A budget needs native code. Leave memory= and activations= out.",
        )
    return Interpreted(graph)


def run_by_node(graph: Graph, arrays: Sequence[Any], compile: CompileGraph) -> None:
    """Run a graph compiled so that every node's value is kept, and tell whoever observes of each as a step.

    A step's operands are the values that compiled code has given. What gives several results, and what picks one of
    them, is computed by NumPy.
    """
    nodes = [n for n in graph.nodes if n.op not in LEAVES and not isinstance(n.spec, tuple)]
    start = perf_counter()
    made = compile(Graph(nodes, graph.inputs, graph.name), None)
    native = dict(zip(nodes, made.run(arrays), strict=True))
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays, strict=True)) | native
    for node in graph.nodes:
        operands = [values[e] if isinstance(e, Node) else e for e in node.inputs]
        if node not in values:
            with np.errstate(all="ignore"):
                values[node] = apply(node.op, operands, node.attrs)
        elif node in native and (seen := observer()) is not None:
            outer = seen.enter(node)
            try:
                again = lambda *given, node=node: apply(node.op, given, node.attrs)
                seen.step(node.op, operands, values[node], again, node.attrs, start)
            finally:
                seen.leave(outer)


@cache
def has_native() -> bool:
    """Return whether there is a code generator; where there is none a warning says why, once."""
    lack = machine.lack()
    if lack:
        warnings.warn(f"wg.jit runs through the interpreter: {lack}", RuntimeWarning, stacklevel=2)
    return not lack
