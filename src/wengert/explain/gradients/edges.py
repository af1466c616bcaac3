"""A backward pass edge by edge: the cotangent of each operand of each node, apart from the others.

The backward pass adds what arrives at a node along several edges as it goes. Answers about paths and
about the flow of gradients need the summands. Each node is therefore pulled through a twin of it whose
operands are all different nodes, by the very step of the backward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.errors import GradientError, GraphError, fail
from ...core.graph.graph import Graph
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Freed, Hooked, Node, Recomputed, UntrackedNode, make_node
from ...core.ops.op import LEAF
from ...core.spec import category
from ...core.tensor import Tensor
from ...execute.interpreter import feed
from ...transforms.derivatives import reverse
from ...transforms.derivatives.arithmetic import Arrays
from ...transforms.tracing.replay import record_again


@dataclass(slots=True)
class Cotangent:
    """A cotangent at a node: an array and a mask of where it flows; lists of them for several results."""

    value: Any
    mask: Any = None

    @property
    def absent(self) -> bool:
        """True where nothing at all flows (a `where` chose the other branch), which is not a 0 that flows."""
        return self.mask is not None and type(self.value) is not list and not np.any(self.mask())


class Puller:
    """A pull of cotangents through nodes, for each of their edges alone.

    With `needed`, only edges to these nodes are followed.
    """

    def __init__(self, what: str, needed: set[Node] | None = None) -> None:
        self.what, self.needed = what, needed
        self._twins: dict[Node, tuple[Node, dict[Node, int]]] = {}
        self._taken: dict[Node, Any] = {}
        self._regions: set[Recomputed] = set()

    def edges(self, node: Node) -> list[tuple[int, Node]]:
        """Return the operands, by position, that gradients flow to."""
        return [
            (i, e) for i, e in enumerate(node.inputs) if type(e) is Node and (self.needed is None or e in self.needed)
        ]

    def pull(self, node: Node, ct: Cotangent) -> dict[int, Cotangent]:
        """Return the cotangents of a node's operands, by position; operands that get none are left out."""
        if node.op.kind == "leaf":
            return {}
        saved = self.saved(node)
        twin, positions = self._twin(node, saved)
        cts = reverse.Cotangents()
        masks: dict[Node, Any] = {}
        with np.errstate(all="ignore"):
            reverse.pull_node(Arrays, twin, saved, ct.value, ct.mask, cts, masks, None)
        return {positions[e]: Cotangent(g, masks.get(e)) for e, g in cts.items()}

    def saved(self, node: Node) -> Any:
        """Return what a node keeps for its derivative; a checkpoint computes it again, once for all questions."""
        saved = node.saved.saved if type(node.saved) is Hooked else node.saved
        if type(saved) is Freed:
            reverse.freed_error(self.what, node, saved)
        if isinstance(saved, Recomputed):
            if node not in self._taken:
                self._taken[node] = saved.take(node)
                self._regions.add(saved)
            return self._taken[node]
        return saved

    def __enter__(self) -> Puller:
        return self

    def __exit__(self, *exc: object) -> None:
        """Forget what checkpoints computed for nodes that nobody asked about."""
        for region in self._regions:
            region.close()

    def _twin(self, node: Node, saved: Any) -> tuple[Node, dict[Node, int]]:
        found = self._twins.get(node)
        if found is None:
            positions: dict[Node, int] = {}
            followed = {i for i, _ in self.edges(node)}
            inputs: list[Any] = []
            for i, entry in enumerate(node.inputs):
                if type(entry) is not Node:
                    inputs.append(entry)
                    continue
                copy = Node() if i in followed else UntrackedNode()
                for name in ("op", "inputs", "attrs", "saved", "spec", "code", "offset", "scope"):
                    setattr(copy, name, getattr(entry, name))
                if i in followed:
                    positions[copy] = i
                inputs.append(copy)
            made = make_node(node.op, tuple(inputs), node.attrs, saved, node.spec, node.code, node.offset, node.scope)
            found = self._twins[node] = made, positions
        return found


@dataclass(slots=True, eq=False)
class Visit:
    """A node as a backward pass sees it: a cotangent along every edge, their sum, and those of all operands."""

    node: Node
    ct: Cotangent | None
    saved: Any = ()
    arrived: list[tuple[Node, int, Cotangent]] = field(default_factory=list)
    left: dict[int, Cotangent] = field(default_factory=dict)


def backward_walk(root: Node, seed: Any, puller: Puller) -> Iterator[Visit]:
    """Visit every node that gradients of `root` flow through, each after all that consume it."""
    pending = reverse.reachable([root])
    visits = {root: Visit(root, Cotangent(seed))}
    ready = [root]
    while ready:
        node = ready.pop()
        visit = visits.pop(node, None) or Visit(node, None)
        if visit.ct is not None:
            visit.left = puller.pull(node, visit.ct)
            visit.saved = puller.saved(node) if node.op.kind != "leaf" else ()
        yield visit
        for i, entry in enumerate(node.inputs):
            if type(entry) is not Node:
                continue
            if i in visit.left:
                _arrive(visits.setdefault(entry, Visit(entry, None)), node, i, visit.left[i])
            pending[entry] -= 1
            if pending[entry] == 0:
                ready.append(entry)


def _arrive(visit: Visit, user: Node, index: int, ct: Cotangent) -> None:
    visit.arrived.append((user, index, ct))
    visit.ct = ct if visit.ct is None else added(visit.node, visit.ct, ct)


def added(node: Node, a: Cotangent, b: Cotangent) -> Cotangent:
    """Return two cotangents of a node as one, as a backward pass adds them."""
    with np.errstate(all="ignore"):
        if type(a.value) is not list:
            cts = reverse.Cotangents()
            masks: dict[Node, Any] = {}
            for ct in (a, b):
                reverse._accumulate(Arrays, cts, masks, node, ct.value, ct.mask)
            return Cotangent(cts[node], masks.get(node))
        # A node of several results collects a list with its parts, each from its own `output` nodes.
        value, known = list(a.value), dict(a.mask or {})
        for i, part in enumerate(b.value):
            if part is None:
                continue
            if value[i] is not None:
                value[i] = value[i] + part
                known.pop(i, None)
            else:
                value[i] = part
                if b.mask and i in b.mask:
                    known[i] = b.mask[i]
        return Cotangent(value, known)


def nothing(node: Node) -> Cotangent:
    """Return the cotangent of an operand that a rule gives nothing: there is a path, and nothing flows along it."""
    if isinstance(node.spec, tuple):
        return Cotangent([None] * len(node.spec))
    return Cotangent(np.zeros(node.spec.shape, node.spec.dtype), lambda: np.False_)


def loss_seed(loss: Tensor, what: str) -> Any:
    """Return the cotangent of a loss, 1. Raises GradientError without a recorded graph or for no single gradient."""
    if loss._array is None:
        fail(
            GraphError,
            f"{what} of an abstract tensor, {loss.spec}",
            "It has no value. Ask about the graph, with values for its inputs: graph, ..., inputs=[...].",
        )
    if loss.node is None or not loss.requires_grad:
        fail(
            GradientError,
            f"{what} of a tensor that does not require gradients, {loss.spec}",
            "Nothing it was computed from has requires_grad=True, or it was computed under no_grad() or detached.",
        )
    if loss.size != 1 or category(loss.dtype) != 2:
        fail(
            GradientError,
            f"{what} of a tensor that is not a real scalar, {loss.spec}",
            "Only a real scalar has one gradient. Reduce it (x.sum(), x.mean()).",
        )
    return np.ones(loss.shape, loss.dtype)


def run_recorded(
    graph: Graph, inputs: Sequence[Any], what: str, tracked: Collection[Node] | None = None
) -> dict[Node, Any]:
    """Run a graph on values so that its nodes are recorded: a tensor (or a tuple) for every node of the graph.

    Gradients are recorded in the `tracked` inputs, by default in every floating one.

    Raises FeedError for inputs that do not fit.
    """
    if isinstance(inputs, (Tensor, np.ndarray, np.generic, int, float, complex)):
        inputs = [inputs]
    values: dict[Node, Any] = {}
    for node, given in zip(graph.inputs, feed(graph, tuple(inputs), {}), strict=True):
        if given.is_abstract:
            fail(
                GraphError, f"{what}: the value of input {graph.names[node]} is abstract", "Give a tensor with a value."
            )
        fresh = given.detach()
        wanted = fresh.spec.inexact and (tracked is None or node in tracked)
        values[node] = fresh.requires_grad_() if wanted else fresh
    token = set_mode(get_mode().with_grad(True))
    try:
        for node in graph.nodes:
            if node not in values:
                values[node] = record_again(node, [values[e] if isinstance(e, Node) else e for e in node.inputs])
    finally:
        reset_mode(token)
    return values


def graph_node(graph: Graph, which: Node | str, what: str) -> Node:
    """Return a graph's node by itself or by its name. Raises GraphError."""
    node = graph.node(which) if isinstance(which, str) else which
    if not isinstance(node, Node) or node not in graph:
        fail(GraphError, f"{what}: {which!r} is not a node of this graph", "Give a name as print(graph) shows it.")
    return node


def graph_loss(graph: Graph, what: str) -> Node:
    """Return the one output of a graph that is a loss. Raises GraphError for several."""
    if len(graph.outputs) != 1:
        fail(GraphError, f"{what} of a graph with {len(graph.outputs)} outputs", "Choose one with graph.subgraph(...).")
    return graph.outputs[0]


def is_start(node: Node) -> bool:
    """Return whether gradients flow to nothing before a recorded node: it is a leaf, or a transform's variable."""
    return node.op.kind == "leaf" or not any(type(e) is Node for e in node.inputs)


def expression(node: Node) -> str:
    """Return the sub-expression of the user's program that made a node; else the op's name."""
    if node.op.kind == "leaf":
        return "a leaf tensor" if node.op is LEAF else f"the graph's {node.op.name}"
    source = node.source
    return source.text if source is not None and source.text else node.op.name


def operand_name(node: Node, index: int) -> str:
    """Return an op's name for an operand."""
    params = node.op.params
    if node.op.variadic and index >= len(params) - 1:
        return f"{params[-1]}[{index - len(params) + 1}]"
    return params[index] if index < len(params) else f"operand {index}"
