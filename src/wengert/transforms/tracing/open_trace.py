"""Open traces: graphs of functions traced in the midst of a computation, with the captured state.

`wg.graph` closes a whole program. A transform that traces (vmap, a loop's body) meets tensors of the
program around: tracked ones, whose gradients must go on, and abstract ones of an outer trace. They
become inputs of the inner graph, and whatever of the inner program does not depend on its
arguments is not traced at all. A branch, which may never run, keeps what it makes of abstract ones alone too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.graph.snapshot import Given, close
from ...core.mode import Scope, get_mode, reset_mode, set_mode
from ...core.node import Mixed, Node
from ...core.ops.op import LEAF
from ...core.ops.record import abstract_input, resumed, same_value
from ...core.spec import Spec
from ...core.standins import weak
from ...core.state.capture import open_variables
from ...core.tensor import Tensor, abstract, wrap
from ...core.tree import Structure
from ..derivatives.reverse import refuse_hooks
from ..derivatives.variables import is_live, own_object, run_once
from .trace import as_result


class OpenTrace:
    """A function that ran on abstract tensors in the midst of a computation.

    `inside` has the recorded nodes that depend on the arguments (of a whole trace, all of its own), each after what it
    depends on. `fixed` has the other results, by position.
    """

    def __init__(
        self, name: str, inputs: list[Tensor], outs: list[Tensor], inside: dict[Node, None], structure: Structure
    ) -> None:
        self.name = name
        self.inputs = inputs
        self.outs = outs
        self.inside = inside
        self.structure = structure
        self._dead: set[Node] = set()
        self.fixed = {i: self._without_past(o) for i, o in enumerate(outs) if o.node is None or o.node not in inside}

    def in_order(self, structure: Structure) -> OpenTrace | None:
        """Return the trace with its results as a pytree of this structure (dict keys in its order), or None."""
        order = tree.arranged(range(len(self.outs)), self.structure, structure)
        if order is None or order == list(range(len(self.outs))):
            return None if order is None else self
        return OpenTrace(self.name, self.inputs, [self.outs[i] for i in order], self.inside, structure)

    def _without_past(self, t: Tensor) -> Tensor:
        """Return a tensor from outside; as a plain value where it depends on variables of ended transforms only."""
        if t.is_abstract or t.node is None or not t.requires_grad or is_live(t.node, self._dead):
            return t
        return t.detach()

    def operands(self, node: Node) -> list[Any]:
        """Return the operands of a node inside: nodes inside, or tensors and literals from outside."""
        found: list[Any] = []
        values = node.saved if type(node.saved) is Mixed else None
        for i, entry in enumerate(node.inputs):
            if isinstance(entry, Node) and entry in self.inside:
                found.append(entry)
                continue
            value = values[i] if values is not None else None
            if isinstance(value, Tensor) and not value.is_abstract:
                found.append(self._without_past(value))
            elif isinstance(entry, Node):
                found.append(abstract(entry))
            else:
                found.append(wrap(entry) if isinstance(entry, (np.ndarray, np.generic)) else entry)
        return found

    @property
    def results(self) -> list[Any]:
        """The node of every result that depends on the arguments, the tensor of every other one."""
        return [self.fixed.get(i, o.node) for i, o in enumerate(self.outs)]

    def _torn(self, captured: Mapping[Node, Tensor]) -> set[int]:
        """Return the composites that cannot be one node: an input of theirs is not captured, but what was made of it.

        An operand that does not depend on the arguments is broadcast outside. As the composite's input it would be
        taken for the value that a transform's variable stands for, and nothing would flow into the variable.
        """
        found = set()
        for node in self.inside:
            scope = node.scope
            while scope is not None:
                if scope.kind == "output" and any(
                    isinstance(e, Node) and e not in self.inside and e not in captured for e in scope.inputs
                ):
                    found.add(id(scope.inputs))
                scope = scope.parent
        return found

    def close(self) -> tuple[Graph, list[Tensor]]:
        """Return the graph of the arguments, then of the captured tensors, to all results; and these tensors."""
        captured = _captured(self.inside)
        for t in self.fixed.values():
            if t.node is not None:
                captured.setdefault(t.node, t)
        tensors = list(captured.values())
        given = [Given(t, "", False) for t in (*self.inputs, *tensors)]
        # A composite that stays one node may have a leaf as its input that nothing else names.
        closed = close([self.fixed.get(i, o) for i, o in enumerate(self.outs)], given, {}, self._torn(captured))
        for node in closed.inputs[len(given) :]:
            tensors.append(_leaf_tensor(closed.bound.get(node), closed.leaves[node], self.name))
        graph = Graph(closed.outputs, closed.inputs, self.name if self.name.isidentifier() else "")
        return graph, [self._without_past(t) for t in tensors]


def open_trace(
    fn: Callable[..., Any],
    specs: Sequence[Spec],
    arguments: Callable[[Sequence[Tensor]], tuple[tuple[Any, ...], Mapping[str, Any]]],
    tracked: Sequence[bool] | None = None,
    numbers: Sequence[bool] | None = None,
    whole: bool = False,
) -> OpenTrace:
    """Run `fn` on abstract tensors of `specs`, which `arguments` arranges as its arguments.

    `tracked` says which of them gradients will be asked for, `numbers` which stand for Python numbers. A `whole`
    trace keeps what `fn` computes of abstract tensors from outside alone: it may never run.
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    inputs = [abstract_input(s, "", bool(tracked and tracked[i])) for i, s in enumerate(specs)]
    # The function's own objects: a write to one leaves the inputs.
    given = [weak(x) if numbers and numbers[i] else same_value(x) for i, x in enumerate(inputs)]
    args, kwargs = arguments(given)
    outer = get_mode()
    # Random numbers drawn inside are known by this scope.
    mark = Scope("trace", "", outer.scope)
    own = {t.node for t in inputs}
    token = set_mode(outer.traced(mark, outer.grad))
    # Within a transform they stand for what may depend on its variables.
    variables = [t.node for t in inputs if open_variables and t.node is not None and t.requires_grad]
    open_variables.update(dict.fromkeys(variables))
    try:
        result = run_once(fn, args, kwargs, own, lambda node: node in own or _under(node.scope, mark))
    finally:
        for node in variables:
            open_variables.pop(node, None)
        reset_mode(token)
    leaves, structure = tree.flatten(result)
    outs = [own_object(as_result(name, leaf)) for leaf in leaves]
    if outer.grad:
        outs = list(map(resumed, outs))
    refuse_hooks([o.node for o in outs if o.node is not None and o.is_abstract and o.requires_grad], name)
    inside = _inside(outs, {t.node for t in inputs}, mark, whole)  # type: ignore[misc]
    return OpenTrace(name, inputs, outs, inside, structure)


def _leaf_tensor(bound: Tensor | None, leaf: Node, name: str) -> Tensor:
    if bound is not None:
        return bound
    if leaf.op is LEAF:
        fail(GraphError, f"{name} uses a tensor {leaf.spec} that no longer exists", "Pass it as an argument.")
    return abstract(leaf)


def _entries(node: Node) -> Iterator[tuple[Node, Tensor | None]]:
    """Yield the nodes that an abstract one depends on, each with the tensor that has its value where there is one."""
    values = node.saved if type(node.saved) is Mixed else None
    for i, entry in enumerate(node.inputs):
        if isinstance(entry, Tensor):
            if entry.is_abstract:
                yield entry.node, None  # type: ignore[misc]
        elif isinstance(entry, Node):
            value = values[i] if values is not None else None
            yield entry, value if isinstance(value, Tensor) and not value.is_abstract else None


def _inside(outs: Sequence[Tensor], inputs: set[Node], mark: Scope, whole: bool) -> dict[Node, None]:
    """Return the nodes that depend on the inputs, or on numbers drawn in the trace, in topological order.

    Of a `whole` trace these are all nodes that were recorded in it.
    """
    inside: dict[Node, None] = dict.fromkeys(inputs)
    seen: set[Node] = set(inputs)
    for out in outs:
        if out.node is None or not out.is_abstract or out.node in seen:
            continue
        seen.add(out.node)
        stack = [(out.node, _entries(out.node))]
        while stack:
            node, waiting = stack[-1]
            for entry, value in waiting:
                if value is None and entry not in seen:
                    seen.add(entry)
                    stack.append((entry, _entries(entry)))
                    break
            else:
                stack.pop()
                # What the trace records of constants alone is its own too: numbers drawn, what ranks say to each other.
                alone = whole or node.op.kind == "source" or node.op.draws or "collective" in node.op.facets
                own = alone and _under(node.scope, mark)
                if own or any(v is None and e in inside for e, v in _entries(node)):
                    inside[node] = None
    return inside


def _under(scope: Scope | None, mark: Scope) -> bool:
    while scope is not None and scope is not mark:
        scope = scope.parent
    return scope is mark


def _captured(inside: Mapping[Node, None]) -> dict[Node, Tensor]:
    """Return the tensors from outside that nodes inside take."""
    found: dict[Node, Tensor] = {}
    for node in inside:
        for entry, value in _entries(node):
            if value is None:
                if entry not in inside:
                    found.setdefault(entry, abstract(entry))
            elif value.node is not None:
                # An operand that was broadcast is taken as it was before.
                found.setdefault(value.node, value)
    return found
