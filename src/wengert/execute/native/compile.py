"""Compilation of a graph to a program that runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple

from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.state.cached import cached_property
from ...passes.origins import Origins, recording
from . import rules as _rules  # noqa: F401 (declares the lowerings that plans are made with)
from .budget.within import Budget, Limit, fit
from .codegen import machine, object_cache
from .codegen.kernel import Kernel, kept_kernels
from .codegen.types import Target
from .fuse.groups import Grouping
from .lower import GraphLowering
from .overlap import Exchanges, at_place, name_of
from .plan import report
from .plan.fingerprint import Fingerprint, fingerprint
from .plan.format import Unwritable, dump, load
from .plan.once import prepare
from .plan.plan import Plan
from .rewrite.activations import in_8_bits
from .rewrite.by_parts import by_parts
from .rewrite.canonical import canonical
from .rewrite.checks import checked
from .run import threads
from .run.runtime import Commit, Program
from .run.timeline import NativeTrace


class _Made(NamedTuple):
    """A plan, together with the graph and the grouping that it was made from."""

    optimized: Graph
    origins: Origins
    grouping: Grouping
    plan: Plan
    budget: Budget | None


class Compiled:
    """A graph as native code.

    `graph` is what was compiled, `optimized` the form that the plan is made from, `plan` the steps. For the
    processor that this runs on the plan comes from the cache on disk where it is kept there; what else there is
    to know of how it was made is then made anew when somebody asks. With a `limit` of memory, the plan is one that
    keeps to it. `exchanges` moves what a rank sends to others while other steps run.
    """

    def __init__(
        self,
        graph: Graph,
        donated: Sequence[bool] | None = None,
        target: Target | None = None,
        limit: Limit | None = None,
        exchanges: Exchanges | None = None,
    ) -> None:
        self.graph = graph
        self.exchanges = exchanges
        self.limit = limit
        self.target = target if target is not None else machine.host()
        self.donated = tuple(donated) if donated is not None else (False,) * len(graph.inputs)
        self._name: Fingerprint | None = None
        found = None
        if object_cache.is_on() and self.target == machine.host():
            kept_to = limit.name if limit is not None else ""
            moved_by = name_of(graph, exchanges) if exchanges is not None else ""
            self._name = fingerprint(graph, self.donated, self.target, kept_to + moved_by)
            found = self._kept()
        # True where the plan was found in the cache.
        self.is_kept = found is not None
        # The budget of memory that the plan keeps to, with what that took; None without one, or where the plan is kept.
        self._budget: Budget | None = None
        if found is None:
            made = self._lowered()
            found, self._budget = made.plan, made.budget
            # A program that runs needs no graph: who asks for its nodes has it lowered again.
            for step in found.steps:
                step.nodes = ()
        self._plan = found

    def _kept(self) -> Plan | None:
        """Return the plan that is kept on disk."""
        contents = object_cache.load_plan(self._name.name) if self._name is not None else None
        if self._name is None or contents is None:
            return None
        return load(contents, self._name.constants, lambda keys: kept_kernels(keys, self.target))

    def _keep(self, plan: Plan) -> None:
        """Keep the plan on disk once its buffers have their places."""
        if self._name is not None and not self.is_kept:
            with suppress(Unwritable):
                object_cache.keep_plan(self._name.name, dump(plan, self._name.constants))

    @cached_property
    def _made(self) -> _Made:
        """The source of the plan and the way it was made. They are made again if somebody looks at them."""
        return self._lowered(is_explained=True)

    def _lowered(self, is_explained: bool = False) -> _Made:
        with recording(self.graph.nodes) if is_explained else nullcontext() as origins:
            kept = self.limit is not None and self.limit.in_8_bits
            optimized = canonical(in_8_bits(self.graph) if kept else self.graph, is_thrifty=self.limit is not None)
            optimized = by_parts(optimized) if self.limit is None else optimized
            optimized = at_place(optimized, self.exchanges.places) if self.exchanges is not None else optimized
        extended, checks = checked(optimized)
        lowering = GraphLowering(
            extended,
            self.target,
            self.donated,
            checks=checks,
            prepares=self.limit is None,
            exchanges=self.exchanges,
        )
        plan = lowering.lower()
        if self.limit is None:
            prepare(plan)
        budget = None if self.limit is None else fit(plan, self.limit, self.graph.name or "the program", self.target)
        return _Made(optimized, origins or Origins(), lowering.grouping, plan, budget)

    @cached_property
    def plan(self) -> Plan:
        """The steps, in which every buffer has its place."""
        for step, made in zip(self._plan.steps, self._made.plan.steps, strict=True):
            step.nodes = made.nodes
        return self._placed

    @property
    def lowered(self) -> Plan:
        """The plan as it was made, for any processor: buffers have places once it is arranged, steps have no nodes."""
        return self._plan

    @cached_property
    def program(self) -> Program:
        """The plan, ready to run."""
        program = Program(self._plan, self.limit.folder if self.limit is not None else "", exchanges=self.exchanges)
        self._keep(program.plan)
        return program

    @property
    def _placed(self) -> Plan:
        """The plan as it is run; a plan for another processor has no places."""
        return self.program.plan if self.target == machine.host() else self._plan

    @property
    def optimized(self) -> Graph:
        """The graph in the form that the plan is made from."""
        return self._made.optimized

    @property
    def grouping(self) -> Grouping:
        """The groups of nodes of `optimized` that share a kernel."""
        return self._made.grouping

    def __str__(self) -> str:
        return str(self.plan)

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> list[Any]:
        """Return the outputs for arrays of the inputs' shapes and dtypes, contiguous and in native byte order."""
        return self.program.run(inputs, outputs)

    def run_at_once(self, inputs: Sequence[Any], commit: Commit) -> list[Any]:
        """Run as `run` does, and let `commit` consume the results, as a whole or not at all."""
        return self.program.run_at_once(inputs, commit)

    def trace(self, inputs: Sequence[Any], outputs: Sequence[Any] | None = None) -> NativeTrace:
        """Run as `run` does and return which thread ran which part, and when; no input is written to."""
        return self.program.trace(inputs, outputs)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, each once, in the order of their first step."""
        # Kernels that were kept have no text before their plan is made again.
        plan = self.plan if self.is_kept else self._plan
        return list(dict.fromkeys(s.kernel for s in plan.steps if isinstance(s.kernel, Kernel)))

    @property
    def memory(self) -> report.Memory:
        """The bytes that a run needs, known before it."""
        return report.memory(self._placed, threads.get_num_threads())

    @property
    def budget(self) -> Budget | None:
        """The budget of memory that the plan keeps to, with what that took; None without one."""
        if self._budget is None and self.limit is not None:
            self._budget = self._made.budget
        return self._budget

    @property
    def cost(self) -> report.Cost:
        """The operations and the bytes moved of the whole plan."""
        return report.cost(self._plan)

    def history(self, node: Node) -> list[tuple[str, Node]]:
        """Return the rewrites behind a node of `optimized`, the last first: (rule, the node before it)."""
        return self._made.origins.history(node)

    def ancestors(self, node: Node) -> list[Node]:
        """Return the nodes of `graph` that a node of `optimized` comes from."""
        return self._made.origins.ancestors(node)

    def why_not_fused(self, a: Node, b: Node) -> str | None:
        """Return why two nodes of `optimized` are not computed in one kernel; None where they are."""
        return self.grouping.why_not_fused(a, b)

    @property
    def ir(self) -> str:
        """The LLVM IR of all kernels."""
        return "\n".join(f"; {k.key}\n{k.ir}" for k in self.kernels)

    @property
    def asm(self) -> str:
        """The assembly of all kernels."""
        return "\n".join(f"# {k.key}\n{k.asm}" for k in self.kernels)


def compile_graph(
    graph: Graph,
    donated: Sequence[bool] | None = None,
    target: Target | None = None,
    limit: Limit | None = None,
    exchanges: Exchanges | None = None,
) -> Compiled:
    """Compile a graph: `compile_graph(g).run(arrays)`. `donated` inputs may be overwritten by results.

    Collectives that `exchanges` moves are under way while other steps run; without it all are Python's.

    Raises BudgetError where there is a `limit` that its memory cannot be kept to.
    """
    return Compiled(graph, donated, target, limit, exchanges)
