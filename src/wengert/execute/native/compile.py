"""From a graph to a program that runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ...core.graph import Graph
from ...core.node import Node
from ...passes.origins import recording
from . import machine, report, rules, threads
from .canonical import canonical
from .checks import checked
from .kernel import Kernel
from .lower import GraphLowering
from .plan import Plan
from .runtime import Program
from .types import Target

# The lowerings that plans are made with.
LOWERINGS = rules.__all__


class Compiled:
    """A graph as native code.

    `graph` is what was compiled, `optimized` the form that the plan was made from, `plan` the steps.
    """

    def __init__(self, graph: Graph, donated: Sequence[bool] | None = None, target: Target | None = None) -> None:
        self.graph = graph
        self.target = target if target is not None else machine.host()
        with recording() as self._origins:
            self.optimized = canonical(graph)
        given = donated if donated is not None else [False] * len(graph.inputs)
        extended, checks = checked(self.optimized)
        lowering = GraphLowering(extended, self.target, given, checks=checks)
        self.grouping = lowering.grouping
        self._plan: Plan = lowering.lower()

    @property
    def plan(self) -> Plan:
        """The steps; every buffer has its place."""
        if self.target == machine.host():
            return self.program.plan
        return self._plan

    @cached_property
    def program(self) -> Program:
        """The plan, ready to run."""
        return Program(self._plan)

    def __str__(self) -> str:
        return str(self.plan)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[Any]:
        """The outputs for arrays of the inputs' shapes and dtypes, contiguous and in native byte order."""
        return self.program.run(inputs, outputs)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, each once, in the order of their first step."""
        return list(dict.fromkeys(s.kernel for s in self._plan.steps if isinstance(s.kernel, Kernel)))

    @property
    def memory(self) -> report.Memory:
        """Bytes of a run, known before it."""
        return report.memory(self.plan, threads.get_num_threads())

    @property
    def cost(self) -> report.Cost:
        """The plan's work."""
        return report.cost(self._plan)

    def history(self, node: Node) -> list[tuple[str, Node]]:
        """The rewrites behind a node of `optimized`, the last first: (which, the node before it)."""
        return self._origins.history(node)

    def why_not_fused(self, a: Node, b: Node) -> str | None:
        """Why two nodes of `optimized` are not computed in one kernel; None where they are."""
        return self.grouping.why_not_fused(a, b)

    @property
    def ir(self) -> str:
        """The LLVM IR of all kernels."""
        return "\n".join(f"; {k.key}\n{k.ir}" for k in self.kernels)

    @property
    def asm(self) -> str:
        """The assembly of all kernels."""
        return "\n".join(f"# {k.key}\n{k.asm}" for k in self.kernels)


def compile_graph(graph: Graph, donated: Sequence[bool] | None = None, target: Target | None = None) -> Compiled:
    """Compile a graph: `compile_graph(g).run(arrays)`. `donated` inputs may be overwritten by results."""
    return Compiled(graph, donated, target)
