"""An ONNX document as it stands: a row for each node, none of them run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...core.errors import WengertError
from ...core.mode import Scope
from ...core.ops.facets import Form
from ...core.ops.op import Op
from ...core.spec import spec_of
from ...interop.onnx.document import External
from ...interop.onnx.errors import OnnxError, refuse, shown
from ...interop.onnx.model import value_of
from ...interop.onnx.program import FAULTS
from ...interop.onnx.told import Told, place_of, told
from ...interop.onnx.values import array_of
from ..recording.recording import Recording, Row, in_order

# Nodes that are drawn at most, those of functions and of graphs inside counted where they stand.
_MOST = 200_000
_DEEPEST = 30
_LARGEST_ARRAY = 1 << 36
_AI = ("", "ai.onnx")


@dataclass(eq=False)
class _Node:
    """A node of the document, for the table of origins."""

    proto: Any

    def told(self) -> Told:
        """Return what the document says of it."""
        return told(self.proto)


def structure(proto: Any, folder: str | None) -> Recording:
    """Return a document's nodes as rows, with the values of its initializers where they can be read.

    Raises OnnxError for a document that is not well formed.
    """
    try:
        return _Structure(proto, folder).recording()
    except FAULTS as e:
        if isinstance(e, OnnxError):
            raise
        refuse(f"this ONNX model is not well formed: {type(e).__name__}: {shown(str(e), 200)}")


class _Structure:
    def __init__(self, proto: Any, folder: str | None) -> None:
        self.proto = proto
        self.folder = folder
        self.external = External(folder)
        self.functions = {(_domain(f.domain), f.name): f for f in proto.functions}
        self.rows: list[Row] = []
        self.unread: list[str] = []
        self.left = 0
        self.scopes: dict[Any, Scope | None] = {}
        self.specs: dict[str, Any] = {}

    def recording(self) -> Recording:
        """Return the recording: no values but those of parameters."""
        graph = self.proto.graph
        for value in (*graph.input, *graph.value_info, *graph.output):
            self.specs[value.name] = _spec(value)
        known: dict[str, Row] = {}
        self._graph(graph, known, None, 0)
        roots = list(dict.fromkeys(known[o.name] for o in graph.output if o.name in known))
        notes = []
        if self.unread:
            more = f", and {len(self.unread) - 1:,} more" if len(self.unread) > 1 else ""
            notes.append(f"Weights without values: {self.unread[0]}{more}.")
        if self.left:
            notes.append(f"{self.left:,} nodes more than {_MOST:,} are not drawn.")
        return Recording(in_order(self.rows), [], roots, values=False, notes=notes, stored=True)

    def _graph(self, graph: Any, known: dict[str, Row], scope: Scope | None, depth: int) -> None:
        for tensor in graph.initializer:
            known[tensor.name] = self._initializer(tensor)
        for sparse in graph.sparse_initializer:
            known[sparse.values.name] = self._leaf(sparse.values.name, "param", None, None)
        for value in graph.input:
            if value.name not in known or scope is not None:
                known[value.name] = self._leaf(value.name, "input", None, _spec(value))
        self._nodes(graph.node, known, scope, depth)

    def _nodes(self, nodes: Any, known: dict[str, Row], scope: Scope | None, depth: int) -> None:
        for node in nodes:
            if len(self.rows) >= _MOST:
                self.left += 1
                continue
            inner = self._scope(node, scope)
            function = self.functions.get((_domain(node.domain), node.op_type))
            if function is not None and depth < _DEEPEST:
                self._function(function, node, known, inner, depth)
                continue
            ends = []
            for a in node.attribute:
                if a.HasField("g") and depth < _DEEPEST:
                    own = dict(known)
                    self._graph(a.g, own, Scope("node", shown(a.name), inner), depth + 1)
                    ends += [own[o.name] for o in a.g.output if o.name in own]
            row = Row(_op(node.op_type, node.domain), "op", scope=inner)
            row.operands = [self._operand(name, known) for name in node.input] + list(ends)
            outputs = [name for name in node.output if name]
            specs = [self.specs.get(name) for name in outputs]
            if specs and all(s is not None for s in specs):
                row.spec = specs[0] if len(specs) == 1 else tuple(specs)
            self.rows.append(row)
            for name in outputs:
                known[name] = row

    def _function(self, proto: Any, node: Any, known: dict[str, Row], scope: Scope, depth: int) -> None:
        """Draw what is in a function where it is called."""
        own = {inside: known[name] for inside, name in zip(proto.input, node.input) if name in known}
        self._nodes(proto.node, own, scope, depth + 1)
        for inside, name in zip(proto.output, node.output):
            if inside in own and name:
                known[name] = own[inside]

    def _operand(self, name: str, known: dict[str, Row]) -> Row | None:
        if not name:
            return None
        if name not in known:  # nothing before it gives it
            known[name] = self._leaf(name, "input", None, self.specs.get(name))
        return known[name]

    def _initializer(self, tensor: Any) -> Row:
        what = f"initializer {shown(tensor.name)!r}"
        try:
            value = array_of(tensor, what, self.folder, _LARGEST_ARRAY, self.external)
        except OnnxError as e:
            self.unread.append(str(e).partition("\n")[0].rpartition(" (")[0] or what)
            return self._leaf(tensor.name, "param", None, None)
        if value.dtype.kind not in "biufcV" or (value.dtype.kind == "V" and value.dtype.itemsize != 2):
            return self._leaf(tensor.name, "const", None, None)  # text, and numbers of other widths
        floating = value.dtype.kind in "fcV"
        return self._leaf(tensor.name, "param" if floating else "const", value, spec_of(value.shape, value.dtype))

    def _leaf(self, name: str, kind: Any, value: Any, spec: Any) -> Row:
        row = Row(None, kind, value=value, spec=spec, name=shown(name, 200))
        self.rows.append(row)
        return row

    def _scope(self, node: Any, outer: Scope | None) -> Scope:
        place = place_of(node)
        key = id(outer), place
        if key not in self.scopes:
            found = Scope("module", place.module, outer) if place.module else outer
            self.scopes[key] = Scope("node", place.call, found) if place.call else found
        return Scope("node", shown(node.op_type), self.scopes[key], attrs={"node": _Node(node)})


def _domain(domain: str) -> str:
    return "" if domain in _AI else domain


def _spec(value: Any) -> Any:
    """Return the spec that a ValueInfoProto says; None where it says none that tensors can have."""
    try:
        return value_of(value).spec
    except (WengertError, ValueError, TypeError, OverflowError):
        return None


@cache
def _op(operator: str, domain: str) -> Op:
    """Return a stand-in for an operator, which is no entry of the op table."""
    name = re.sub(r"\W", "_", shown(operator)) or "node"
    return Op(
        f"{name if name[0].isalpha() else f'n{name}'}(*operands)", "general", _unrun, listed=False,
        form=Form(shown(operator, 24), say="Nothing was run: this is the document as it stands."),
    )  # fmt: skip


def _unrun(*operands: Any) -> Any:
    raise NotImplementedError
