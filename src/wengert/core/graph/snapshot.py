"""Closing a graph: recorded nodes become the fresh, valueless nodes of an immutable snapshot.

Recorded nodes hold saved values, tensors and scopes that keep a whole program alive. A snapshot's
nodes hold none of them: constants are nodes of op `constant`, leaves that require gradients of op
`parameter`, aliases are looked through, and what ran inside a composite is folded into one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array
from ..mode import Scope
from ..node import EMPTY_ATTRS, Node, make_node
from ..ops.op import ALIAS, INPUT, LEAF, Op, spec_of_input
from ..ops.record import OUTPUT
from ..source import Source
from ..spec import Spec, spec_of
from ..tensor import Tensor

PARAMETER = Op("parameter(;name)", "leaf", forward=lambda: None, doc="An input of a graph that training changes.")
CONSTANT = Op("constant(;value)", "leaf", forward=lambda value: value, doc="A value that stands in a graph.")
# The ops of nodes that compute nothing.
LEAVES = frozenset({INPUT, PARAMETER, CONSTANT})


def input_node(spec: Spec, name: str = "", parameter: bool = False) -> Node:
    """Return a graph's input, or a parameter."""
    return make_node(PARAMETER if parameter else INPUT, (), {"name": name}, None, spec, None, 0, None, False)


def constant_node(value: Array) -> Node:
    """Return a constant; the array is not copied, and read-only from here."""
    shown = np.asarray(value).view()
    shown.flags.writeable = False
    return make_node(CONSTANT, (), {"value": shown}, None, spec_of(shown.shape, shown.dtype), None, 0, None, False)


def located(
    op: Op,
    inputs: tuple[Any, ...],
    attrs: dict[str, Any],
    spec: Any,
    code: CodeType | Source | None = None,
    offset: int = 0,
    scope: Scope | None = None,
) -> Node:
    """Return a computation node of a snapshot."""
    return make_node(op, inputs, attrs, None, spec, code, offset, scope, False)


class Closed(NamedTuple):
    """The result of `close`: the graph's outputs and inputs, and the tensors behind its parameters.

    `leaves` has the recorded leaf behind every input that was not given.
    """

    outputs: list[Node]
    inputs: list[Node]
    bound: dict[Node, Tensor]
    leaves: dict[Node, Node]


class Given(NamedTuple):
    """An input that the graph is to have: its tensor and name, and whether it is a parameter bound to the tensor."""

    tensor: Tensor
    name: str
    parameter: bool
    bound: bool = False


class _View(NamedTuple):
    """A recorded node as the snapshot shows it: itself, or the composite of which it is a result."""

    key: Any
    op: Op
    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]
    spec: Any
    code: CodeType | Source | None
    offset: int
    scope: Scope | None
    leaf: Node | None = None  # a leaf that is not an input yet


class _Composite(NamedTuple):
    """The composite with several results that `output` nodes pick from."""

    mark: Scope


def close(
    outputs: Sequence[Tensor], given: Sequence[Given] | None, names: Mapping[int, str], open_: Iterable[int] = ()
) -> Closed:
    """Return the snapshot between `given` inputs (None: every leaf that requires gradients) and `outputs`.

    `names` gives the names of parameters by the identity of their tensors. Composites in `open_`, by the identity of
    their scopes' inputs, are shown as their contents.
    """
    opened = set(open_)
    while True:
        closing = _Closing(outputs, given, names, opened)
        closed = closing.run()
        # Something outside refers to the inside of a composite (its derivative does): it cannot be
        # one node.
        if closing.exposed <= opened:
            return closed
        opened |= closing.exposed


class _Closing:
    """One pass over the recorded nodes, with the composites in `opened` shown as their contents."""

    def __init__(
        self, outputs: Sequence[Tensor], given: Sequence[Given] | None, names: Mapping[int, str], opened: set[int]
    ) -> None:
        self.outputs = outputs
        self.names = names
        self.opened = opened
        self.exposed: set[int] = set()
        self.made: dict[Any, Node] = {}
        self.inputs: list[Node] = []
        self.bound: dict[Node, Tensor] = {}
        self.leaves: dict[Node, Node] = {}
        self.free = given is None
        self._scopes: dict[int, Scope | None] = {}
        for tensor, name, parameter, bound in given or ():
            node = input_node(tensor.spec, name, parameter)
            if bound:
                self.bound[node] = tensor
            self.inputs.append(node)
            self.made[id(tensor)] = node
            if tensor._array is not None and not tensor.requires_grad:
                # A tracked one is known by its node: its array alone is a constant (`x.detach()`).
                self.made[id(tensor._array)] = node
            if tensor.node is not None:
                self.made[id(tensor.node)] = node

    def run(self) -> Closed:
        roots = [self._root(t) for t in self.outputs]
        return Closed(roots, self.inputs, self.bound, self.leaves)

    def _root(self, tensor: Tensor) -> Node:
        given = self.made.get(id(tensor))
        if given is not None:
            return given
        entry = tensor.node if tensor.node is not None else tensor._array
        return self._close(entry)

    def _close(self, root: Any) -> Node:
        stack = [self._view(root)]
        while stack:
            view = stack[-1]
            if isinstance(view, Node):
                stack.pop()
                continue
            if view.key in self.made:
                stack.pop()
                continue
            entries = [self._entry(e) for e in view.inputs]
            waiting = [e for e in entries if isinstance(e, _View)]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            stack.pop()
            if view.leaf is not None:
                self.made[view.key] = self._leaf(view.leaf)
                continue
            attrs = dict(view.attrs) if view.attrs else EMPTY_ATTRS
            self.made[view.key] = located(
                view.op, tuple(entries), attrs, view.spec, view.code, view.offset, self._clean(view.scope)
            )
        found = self._view(root)
        return found if isinstance(found, Node) else self.made[found.key]

    def _entry(self, entry: Any) -> Any:
        """Return a snapshot node where it is already made, a view of what is still to be made, or a literal."""
        if not isinstance(entry, (Node, Tensor, np.ndarray, np.generic, _Composite)):
            return entry
        view = self._view(entry)
        return view if isinstance(view, Node) else self.made.get(view.key, view)

    def _view(self, entry: Any) -> Any:
        if isinstance(entry, _Composite):
            return self._composite(entry.mark)
        while isinstance(entry, Node):
            made = self.made.get(id(entry))
            if made is not None:
                return made
            # A leaf that was given a value while it was traced is looked through to that value.
            if entry.op is not ALIAS and not (entry.op is LEAF and entry.inputs):
                break
            entry = entry.inputs[0]
        if isinstance(entry, Tensor):
            # Only what a derivative was taken in stands here as a tensor.
            return self._constant(entry._array) if entry.node is None else self._view(entry.node)
        if isinstance(entry, (np.ndarray, np.generic)):
            return self._constant(entry)
        if entry.op.kind == "leaf":
            return _View(id(entry), entry.op, (), EMPTY_ATTRS, entry.spec, None, 0, None, entry)
        mark = self._mark(entry)
        if mark is not None:
            return self._folded(entry, mark)
        if entry.scope is not None:
            self._expose(entry.scope)
        key: Any = id(entry)
        if entry.op is OUTPUT:
            key = ("output", id(entry.inputs[0]), entry.attrs["index"])
        return _View(key, entry.op, entry.inputs, entry.attrs, entry.spec, entry.code, entry.offset, entry.scope)

    def _constant(self, value: Any) -> Node:
        node = self.made.get(id(value))
        if node is None:
            node = self.made[id(value)] = constant_node(value)
        return node

    def _leaf(self, leaf: Node) -> Node:
        """Return a leaf that was not given: a parameter, or an input of an unfinished abstract program."""
        tensor = leaf.variable if leaf.op is LEAF else None
        if tensor is None:
            node = input_node(leaf.spec, leaf.attrs.get("name", ""), leaf.op is LEAF)
        else:
            node = input_node(leaf.spec, self.names.get(id(tensor), ""), True)
            self.bound[node] = tensor
        self.leaves[node] = leaf
        self.inputs.append(node)
        return node

    # -- composites

    def _mark(self, node: Node) -> Scope | None:
        """Return the outermost unopened composite of which `node` is a result."""
        scope = node.scope
        while scope is not None and scope.kind == "output":
            if id(scope.inputs) not in self.opened:
                return scope
            scope = scope.parent
        return None

    def _folded(self, node: Node, mark: Scope) -> Any:
        assert mark.op is not None
        outside = _outside(mark)
        if outside is not None:
            self._expose(outside)
        if mark.op.results == 1:
            return _View(id(node), mark.op, mark.inputs, mark.attrs, node.spec, mark.code, mark.offset, outside)
        index = mark.attrs["index"]
        key = ("output", id(mark.inputs), index)
        attrs = {"index": index}
        return _View(key, OUTPUT, (_Composite(mark),), attrs, node.spec, mark.code, mark.offset, outside)

    def _composite(self, mark: Scope) -> _View:
        assert mark.op is not None
        attrs = {k: v for k, v in mark.attrs.items() if k in mark.op.attr_names}
        specs = mark.op.infer(
            *(spec_of_input(e) if isinstance(e, (Node, np.ndarray, np.generic)) else e for e in mark.inputs), **attrs
        )
        key = ("composite", id(mark.inputs))
        return _View(key, mark.op, mark.inputs, attrs, specs, mark.code, mark.offset, _outside(mark))

    def _expose(self, scope: Scope) -> None:
        """Note the composites whose inner nodes are used from outside."""
        current: Scope | None = scope
        while current is not None and current.kind != "gradient":
            if current.kind == "composite":
                self.exposed.add(id(current.inputs))
            current = current.parent

    def _clean(self, scope: Scope | None) -> Scope | None:
        """Return the scope's chain without the recorded nodes that composites' scopes hold."""
        chain = []
        while scope is not None and id(scope) not in self._scopes:
            chain.append(scope)
            scope = scope.parent
        clean = self._scopes[id(scope)] if scope is not None else None
        for old in reversed(chain):
            if old.kind != "output":
                clean = Scope(old.kind, old.name, clean, old.code, old.offset)
            self._scopes[id(old)] = clean
        return clean


def _outside(mark: Scope) -> Scope | None:
    """Return the scope that the composite behind an output's mark ran in."""
    scope = mark.parent
    while scope is not None:
        if scope.kind == "composite" and scope.inputs is mark.inputs:
            return scope.parent
        scope = scope.parent
    return None


# -- walks over snapshots


def inputs_of(node: Node) -> Iterator[Node]:
    """Return the nodes among a snapshot node's inputs, in order, with repetitions."""
    return (e for e in node.inputs if isinstance(e, Node))


def specs_of(node: Node) -> tuple[Spec, ...]:
    """Return the specs of a node's results: one, or several before `output` picks from them."""
    return node.spec if isinstance(node.spec, tuple) else (node.spec,)


def topological(outputs: Iterable[Node], first: Iterable[Node] = ()) -> list[Node]:
    """Return every node that the outputs need: `first` ones first, the others after all of their inputs.

    The order is a function of the graph alone: depth first, inputs from left to right.
    """
    order = list(dict.fromkeys(first))
    done = set(order)
    for root in outputs:
        if root in done:
            continue
        stack = [(root, iter(root.inputs))]
        while stack:
            node, rest = stack[-1]
            for entry in rest:
                if isinstance(entry, Node) and entry not in done:
                    stack.append((entry, iter(entry.inputs)))
                    break
            else:
                stack.pop()
                done.add(node)
                order.append(node)
    return order


def rebuild(nodes: Iterable[Node], replace: dict[Node, Node], build: Callable[[Node, tuple[Any, ...]], Node]) -> None:
    """Fill `replace` with new nodes for `nodes` (in topological order) whose inputs are replaced.

    `build(node, inputs)` makes a node whose inputs changed.
    """
    for node in nodes:
        if node in replace:
            continue
        inputs = tuple(replace.get(e, e) if isinstance(e, Node) else e for e in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs))
        replace[node] = node if same else build(node, inputs)


def with_inputs(node: Node, inputs: tuple[Any, ...]) -> Node:
    """Return the same computation on other inputs."""
    return located(node.op, inputs, node.attrs, node.spec, node.code, node.offset, node.scope)
