"""The engine that rules run on: each node once, in order, until no rule fires on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, located, with_inputs
from ..core.node import Node
from ..core.ops.op import TABLE, Op
from .origins import note

# A rule looks at one node and gives the node that takes its place, or None where it does not apply.
Rewrite = Callable[[Node], Node | None]

# A node that rules rewrite more often than this is one that they rewrite in a circle.
_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rewrite of nodes of some ops (of any op where `ops` is empty).

    >>> import wengert as wg
    >>> rule = wg.passes.Rule("exp of log", ("exp",), lambda node: None)
    >>> rule.name
    'exp of log'
    """

    name: str
    ops: frozenset[str]
    apply: Rewrite


class RuleSet:
    """Rules by the op that they look at, in order.

    >>> from wengert.passes import VALUE_SAFE
    >>> "double negation" in [rule.name for rule in VALUE_SAFE]
    True
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        named = {name for rule in self.rules for name in rule.ops}
        everywhere = [rule for rule in self.rules if not rule.ops]
        self._everywhere = everywhere
        self._by_op: Mapping[str, Sequence[Rule]] = {
            name: [rule for rule in self.rules if not rule.ops or name in rule.ops] for name in named
        }

    def of(self, op: Op) -> Sequence[Rule]:
        """Return the rules that look at nodes of an op."""
        return self._by_op.get(op.name, self._everywhere)

    def __iter__(self) -> Any:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet((*self.rules, *other.rules))


def rewrite(graph: Graph, rules: RuleSet, counts: Counter[str] | None = None) -> Graph:
    """Return the graph with the rules applied to every node, inputs before consumers.

    `counts`, where given, is told how often each rule fired. A rule must keep the node's spec.
    Raises GraphError where it does not, or where rules undo each other for ever.

    >>> import wengert as wg
    >>> from collections import Counter
    >>> fired = Counter()
    >>> g = wg.graph(lambda x: -(-x))(wg.spec((2,)))
    >>> print(wg.passes.rewrite(g, wg.passes.VALUE_SAFE, fired), fired["double negation"])
    graph(x: f32[2]) -> f32[2]
      return x 1
    """
    concerned = {op for op in {node.op for node in graph.nodes} if rules.of(op)}
    if not concerned:
        return graph
    replace: dict[Node, Node] = {}
    for node in graph.nodes:
        moved = moved_onto(node, replace)
        if moved is not node:
            note(moved, "", node)
        made = settled(moved, rules, counts) if node.op in concerned else moved
        if made is not node:
            replace[node] = made
    return with_outputs(graph, [replace.get(n, n) for n in graph.outputs])


def settled(node: Node, rules: RuleSet, counts: Counter[str] | None = None) -> Node:
    """Return the replacement of one node whose inputs are settled."""
    for _ in range(_LIMIT):
        for rule in rules.of(node.op):
            found = rule.apply(node)
            if found is None:
                continue
            if found.spec != node.spec:
                fail(GraphError, f"the rule {rule.name!r} made {found.spec} of {node.op.name}, which is {node.spec}")
            if counts is not None:
                counts[rule.name] += 1
            note(found, rule.name, node)
            node = found
            break
        else:
            return node
    fail(GraphError, f"rules rewrite {node.op.name} {node.spec} in a circle")


def moved_onto(node: Node, replace: Mapping[Any, Node]) -> Node:
    """Return the node on the inputs that replace its own; itself where none does."""
    if not replace:
        return node
    inputs = node.inputs
    for e in inputs:
        if isinstance(e, Node) and e in replace:
            return with_inputs(node, tuple([replace.get(e, e) if isinstance(e, Node) else e for e in inputs]))
    return node


def with_outputs(graph: Graph, outputs: Sequence[Node]) -> Graph:
    """Return the graph with other nodes as its outputs; itself where they are its own."""
    if len(outputs) == len(graph.outputs) and all(a is b for a, b in zip(outputs, graph.outputs)):
        return graph
    return Graph(
        outputs,
        graph.inputs,
        graph.name,
        bound=graph.bound,
        in_structure=graph.in_structure,
        out_structure=graph.out_structure,
        static=graph.static,
    )


# -- what rules are written with


def build(name: str, inputs: tuple[Any, ...], like: Node, **attrs: Any) -> Node:
    """Return a node of the op called `name`, standing where `like` stands in the user's program."""
    op = TABLE[name]
    spec = op.infer(*(e.spec if isinstance(e, Node) else e for e in inputs), **attrs)
    return located(op, inputs, attrs, spec, like.code, like.offset, like.scope)


def number(entry: Any) -> Any:
    """Return the one number that an input is everywhere (literal, constant, broadcast constant); None elsewhere."""
    while isinstance(entry, Node) and entry.op.name == "broadcast":
        entry = entry.inputs[0]
    if not isinstance(entry, Node):
        return entry
    if entry.op is CONSTANT and entry.spec.ndim == 0:
        value = entry.attrs["value"]
        return value.item() if value.dtype.kind in "biufc" else float(value)
    return None


def is_op(entry: Any, *names: str) -> bool:
    """Return whether an input is a node of one of these ops."""
    return isinstance(entry, Node) and entry.op.name in names
