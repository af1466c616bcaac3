"""A graph as a list of named nodes, as TensorFlow's GraphDef has it: scopes are folders in a node's name.

Modules, composites and the bodies of loops become folders. A name that is taken gets a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.dims import Dim
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, PARAMETER, specs_of
from ..core.graph.values import encode
from ..core.mode import Scope
from ..core.node import Node
from ..core.ops.op import INPUT
from ..core.ops.record import OUTPUT
from ..core.spec import Spec
from ..explain.report import place

# TensorFlow's words for what a graph is fed and for its constants: TensorBoard draws those in shapes of their own.
_LEAF_OPS = {INPUT: "Placeholder", PARAMETER: "Parameter", CONSTANT: "Const"}
_ATTRIBUTE_LENGTH = 400


class NamedNode(NamedTuple):
    """A node: `inputs` are names of others, `name:1` their second results; a shape has None for an unknown size."""

    name: str
    op: str
    inputs: tuple[str, ...]
    shapes: tuple[tuple[int | None, ...], ...]
    attributes: Mapping[str, str]


def named_nodes(graph: Graph) -> list[NamedNode]:
    """Return the nodes of a graph, composites opened, in an order in which each comes after its inputs.

    >>> import wengert as wg
    >>> from wengert.interop.named_nodes import named_nodes
    >>> g = wg.graph(lambda x: wg.exp(x) * 2.0)(wg.spec((3,)))
    >>> [(n.name, n.op) for n in named_nodes(g)]
    [('x', 'Placeholder'), ('exp', 'exp'), ('multiply', 'multiply')]
    """
    return list(_Writer(graph.expand(), "", _Names()).nodes(None))


class _Names:
    """The names that are taken, by nodes or by folders."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, folder: str, name: str) -> str:
        """Return a name in a folder that nothing has."""
        wanted = f"{folder}/{_clean(name)}".lstrip("/")
        found, count = wanted, 0
        while found in self._taken:
            count += 1
            found = f"{wanted}_{count}"
        self._taken.add(found)
        return found


def _clean(name: str) -> str:
    """Return a name with the characters that TensorFlow allows."""
    name = re.sub(r"[^A-Za-z0-9_./-]", "_", name) or "_"
    return name if name[0].isalnum() or name[0] == "." else f"n{name}"


class _Writer:
    """A writer of one graph into a folder."""

    def __init__(self, graph: Graph, folder: str, names: _Names) -> None:
        self.graph = graph
        self.folder = folder
        self.names = names
        self.named: dict[Node, str] = {}
        self.folders: dict[int, str] = {}

    def nodes(self, fed: Sequence[str] | None) -> Iterator[NamedNode]:
        """Yield the nodes; `fed` are the names of the sources of its inputs."""
        constants: list[Node] = []
        for i, node in enumerate(self.graph.inputs):
            name = self.graph.names[node]
            path = name.replace(".", "/") if node.op is PARAMETER else name
            self.named[node] = self.names.new(self.folder, path)
            yield self._node(node, () if fed is None else (fed[i],), {})
        for node in self.graph.nodes:
            if node.op is CONSTANT:
                constants.append(node)
            elif node.op is OUTPUT:
                index = node.attrs["index"]
                self.named[node] = self.named[node.inputs[0]] + (f":{index}" if index else "")
            elif node not in self.named:
                folder = self._folder(node.scope)
                for operand in node.inputs:
                    if isinstance(operand, Node) and operand not in self.named:
                        yield self._constant(operand, folder)
                yield from self._computation(node, folder)
        for node in constants:
            if node not in self.named:  # nothing but the graph's result
                yield self._constant(node, self.folder)

    @property
    def results(self) -> list[str]:
        """The names of the graph's results."""
        return [self.named[n] for n in self.graph.outputs]

    def _constant(self, node: Node, folder: str) -> NamedNode:
        self.named[node] = self.names.new(folder, "const")
        value = node.attrs["value"]
        return self._node(node, (), {"value": encode(value.item())} if value.size == 1 else {})

    def _computation(self, node: Node, folder: str) -> Iterator[NamedNode]:
        operands = [self.named[e] for e in node.inputs if isinstance(e, Node)]
        results: list[str] = []
        attributes = {k: v for k, v in node.attrs.items() if not _graphs(v)}
        shown = {k: encode(v) for k, v in attributes.items()}
        shown |= {f"operand {i}": encode(e) for i, e in enumerate(node.inputs) if not isinstance(e, Node)}
        bodies = [(k, g) for k, v in node.attrs.items() for g in _graphs(v)]
        if bodies:
            folder = self.names.new(folder, node.op.name)
            for key, body in bodies:
                inside = _Writer(body.expand(), self.names.new(folder, key), self.names)
                # A loop's or branch's operands are the last of the node's: a switch has its index before them.
                known = 0 < len(body.inputs) <= len(operands)
                yield from inside.nodes(operands[-len(body.inputs) :] if known else None)
                results += inside.results
        self.named[node] = self.names.new(folder, node.op.name)
        yield self._node(node, (*operands, *dict.fromkeys(results)), shown)

    def _node(self, node: Node, inputs: tuple[str, ...], shown: Mapping[str, str]) -> NamedNode:
        specs = specs_of(node)
        attributes = {k: v if len(v) <= _ATTRIBUTE_LENGTH else f"{v[:_ATTRIBUTE_LENGTH]}..." for k, v in shown.items()}
        attributes["result"] = ", ".join(map(repr, specs))
        if where := place(node.source):
            attributes["line"] = where
        op = _LEAF_OPS.get(node.op, node.op.name)
        return NamedNode(self.named[node], op, inputs, tuple(map(_sizes, specs)), attributes)

    def _folder(self, scope: Scope | None) -> str:
        """Return the folder of a scope: one for every module and every composite, checkpoint or derivative."""
        chain: list[Scope] = []
        while scope is not None and id(scope) not in self.folders:
            chain.append(scope)
            scope = scope.parent
        folder = self.folder if scope is None else self.folders[id(scope)]
        for inner in reversed(chain):
            if inner.kind == "module" and inner.name:
                # Calls of one module share its folder, where its parameters are.
                folder = f"{folder}/{_clean(inner.name).replace('.', '/')}".lstrip("/")
            elif inner.kind in ("composite", "checkpoint", "gradient"):
                folder = self.names.new(folder, f"{inner.name}_gradient" if inner.kind == "gradient" else inner.name)
            self.folders[id(inner)] = folder
        return folder


def _graphs(value: Any) -> list[Graph]:
    """Return the graphs that an attribute holds."""
    if isinstance(value, (tuple, list)):
        return [g for v in value for g in _graphs(v)]
    return [value] if isinstance(value, Graph) else []


def _sizes(spec: Spec) -> tuple[int | None, ...]:
    return tuple(None if isinstance(n, Dim) else n for n in spec.shape)
