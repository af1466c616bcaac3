"""Histories of what compiled programs return: the program as one operation of an eager graph, or a freed end.

Where a result of a compiled function carries gradients on, the run is recorded as one node. Its
backward pass is another compiled program: it computes what it needs of the forward pass again, and
is made when it is first asked for, one for each set of results that gradients come from (to a result
that none comes from, nothing flows; a zero in its place could meet an infinite partial). A pass through
that node and a few others to leaves is a program as a whole (`transforms/derivatives/whole`). Where the
backward pass is itself recorded, the program's graph is run on tensors instead, node by node.

A backward pass inside the function frees the graph of what it went through, as it does outside. A result behind that
has a node without a history (`ended`): a gradient that comes to it meets an error, never an end without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.mode import get_mode
from ...core.node import EMPTY_ATTRS, Freed, Node, make_node
from ...core.ops.op import Joint, NoDerivative, Op
from ...core.ops.record import OUTPUT, bind, caller, pick
from ...core.state.observer import observers
from ...core.tensor import Tensor, wrap
from ...transforms.derivatives.functional import vjp
from ...transforms.derivatives.reverse import reachable
from ...transforms.derivatives.whole import ProgramOp
from ...transforms.tracing.replay import replay
from ...transforms.tracing.trace import trace
from .executor import CompileGraph, Executor
from .signature import PLAIN, as_fed


class Recorded:
    """The operation that runs a graph; `tracked` are the inputs, by number, that gradients are computed for."""

    def __init__(self, graph: Graph, forward: Executor, compile_graph: CompileGraph, tracked: Sequence[int]) -> None:
        self.graph = graph
        self.tracked = tuple(tracked)
        self._compile = compile_graph
        # By which results gradients come from: the backward pass, and the inputs that they flow to.
        self._backward: dict[tuple[bool, ...], Executor] = {}
        self._flows: dict[tuple[bool, ...], tuple[int, ...]] = {}
        self._forward = forward
        count = len(graph.outputs)
        self._specs = specs = tuple(n.spec for n in graph.outputs)

        def run(*xs: Any) -> Any:
            outs = forward.run([as_fed(x) for x in xs])
            return tuple(outs) if count != 1 else outs[0]

        self.op = ProgramOp(
            "compiled(*xs)",
            "general",
            run,
            infer=lambda *_: specs if count != 1 else specs[0],
            facts=Joint(lambda ct, xs: self._pull(ct, xs), absent=True),
            results=count,
            doc="A compiled program.",
            listed=False,
        )
        self.op.graph, self.op.passes = graph, {}
        self.op.compile = lambda graph: compile_graph(graph, None)

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Run on tensors, and return the outputs, recorded."""
        try:
            values = [x._data for x in inputs]
        except AttributeError:  # what stands in memory that is written in place
            values = [x._array for x in inputs]
        fit = [type(v) is np.ndarray and v.flags.num & PLAIN == PLAIN for v in values]
        if observers or False in fit:
            outs = bind(self.op, inputs)
            return list(outs) if isinstance(outs, tuple) else [outs]
        data = self._forward.run(values)
        node = self._node(inputs, values)
        if len(data) != 1:
            return [pick(node, i, d) for i, d in enumerate(data)]
        out = wrap(data[0], self._specs[0])
        out.node = node if self._specs[0].inexact else None
        return [out]

    def _node(self, inputs: Sequence[Tensor], values: Sequence[Any]) -> Node:
        """Return the node of a run: what `bind` makes for it, in less time."""
        node = Node()
        node.op = self.op
        node.inputs = tuple([v if x.node is None else x.node for x, v in zip(inputs, values)])
        node.attrs = EMPTY_ATTRS
        node.saved = (*values, None)
        node.spec = self._specs if len(self._specs) != 1 else self._specs[0]  # type: ignore[assignment]
        node.code, node.offset = caller()
        node.scope = get_mode().scope
        return node

    def _pull(self, ct: Any, xs: Any) -> list[Any]:
        cts = ct if isinstance(ct, tuple) else (ct,)
        present = tuple(c is not None for c in cts)
        given = [c for c in cts if c is not None]
        grads: list[Any] = [None] * len(self.graph.inputs)
        reached = self._reached(present)
        if not reached:
            return grads
        if any(isinstance(v, Tensor) for v in (*xs, *given)):
            found = list(self._derivative(present, reached)(list(xs), given))
        else:
            executor = self._backward.get(present)
            if executor is None:
                specs = [n.spec for n in self.graph.inputs]
                wanted = [n.spec for n, there in zip(self.graph.outputs, present, strict=True) if there]
                graph = trace(self._derivative(present, reached), (specs, wanted), {})
                executor = self._backward[present] = self._compile(graph, None)
            found = executor.run([as_fed(v) for v in (*xs, *given)])
        for i, g in zip(reached, found, strict=True):
            grads[i] = g
        return grads

    def _reached(self, present: tuple[bool, ...]) -> tuple[int, ...]:
        """Return the tracked inputs, by number, that a gradient of these results flows to; to others comes none."""
        known = self._flows.get(present)
        if known is None:
            found = {n for n, there in zip(self.graph.outputs, present, strict=True) if there}
            for node in reversed(self.graph.nodes):
                if node in found:
                    flows = (e for i, e in enumerate(node.inputs) if isinstance(e, Node) and _passes(node.op, i))
                    found.update(flows)
            known = self._flows[present] = tuple(i for i in self.tracked if self.graph.inputs[i] in found)
        return known

    def _derivative(
        self, present: Sequence[bool], reached: Sequence[int]
    ) -> Callable[[list[Any], list[Any]], tuple[Any, ...]]:
        """Return the function from inputs and present cotangents to the gradients of the inputs that are reached."""

        def derivative(xs: list[Any], cts: list[Any]) -> tuple[Any, ...]:
            def forward(*variables: Any) -> tuple[Any, ...]:
                full = list(xs)
                for i, v in zip(reached, variables, strict=True):
                    full[i] = v
                outs = replay(self.graph, full)
                return tuple(o for o, there in zip(outs, present, strict=True) if there)

            _, pull = vjp(forward, *(xs[i] for i in reached))
            found = pull(tuple(cts))
            return found if isinstance(found, tuple) else (found,)

        return derivative


def _passes(op: Op, index: int) -> bool:
    """Return whether a gradient may flow through an operation to one of its arguments."""
    if op is OUTPUT or op.joint is not None:
        return True
    return op.differentiable and type(op.fact(index)) is not NoDerivative


def _unrun() -> NoReturn:
    fail(
        GraphError,
        "what a compiled function has returned has no graph: a backward pass inside the function freed it",
        "Give the function that computes it, without jit (f.__wrapped__), with its arguments: wg.explore(f, *args), "
        "wg.explain.nonfinite(f, *args).",
    )


# The operation that such a result comes from, as errors and `grad_fn` name it.
COMPILED = Op("compiled()", "general", _unrun, infer=_unrun, doc="A compiled program.", listed=False)


def freed_at(root: Node, consumed: Mapping[Node, str]) -> str | None:
    """Return where what a gradient from `root` needs was freed, if it was.

    `consumed` has the nodes that backward passes went through, with the line of each pass: freed is what they kept.
    """
    for node in reachable([root]):
        if node in consumed and any(node.op.save_plan(tuple(type(e) is Node for e in node.inputs))):
            return consumed[node]
    return None


def ended(node: Node, where: str) -> Node:
    """Return the node that such a result has in every call, for `node` in the trace."""
    return make_node(COMPILED, (), EMPTY_ATTRS, Freed(where), node.spec, node.code, node.offset, None)
