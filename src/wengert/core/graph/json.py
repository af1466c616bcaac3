"""Graphs as JSON documents.

A document is an object with

- `format`: "wengert graph", `version`: 1, `name`: the graph's name or "";
- `ops`: the declarations of ops that users declared by a formula, "log_cosh(x) = logaddexp(x, -x) - log(2)"; left out
  where there are none;
- `nodes`: in topological order, each an object with `name`; `kind` ("input", "parameter", "constant",
  "computation", "root"); `op`; `inputs`, a list of node positions (integers) and literals
  (`{"literal": value}`); `attrs`; `shape` and `dtype`, or `results`, a list of those, for an op with
  several; `path`, the module path; `source`, null or an object of `file`, `line`, `function`, `text`;
- `inputs` and `outputs`: lists of node positions.

Values are JSON's own where it has them; a tuple is a list; `{"float": "nan"}` (or "inf", "-inf"),
`{"complex": [real, imaginary]}`, `{"dtype": "float32"}` and `{"size": "2*n + 1"}` (an unknown size, also
in shapes) and `{"graph": document}` are the rest. A constant's `attrs` hold
`{"value": {"zlib": text}}`: its elements in C order, little-endian, compressed, in base64.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dims import Dim
from ..errors import GraphError, WengertError, fail, first_line
from ..mode import Scope
from ..node import Node
from ..ops.op import INPUT
from ..source import Source
from ..spec import Spec, check_size, from_name, spec_of
from .checked import checked_node
from .closed import ClosedGraph
from .declared import declarations, declared_op
from .snapshot import CONSTANT, PARAMETER, constant_node, input_node
from .text import MOST_NESTED, Make, Parsed, parse_size
from .values import Subgraph, is_too_large, opaque_name, pack, shortened, unpack

FORMAT, VERSION = "wengert graph", 1


# -- writing


def dump_graph(graph: ClosedGraph, indent: int | None = None) -> str:
    """Return the JSON document of a graph."""
    return json.dumps(_document(graph), indent=indent, allow_nan=False)


def _document(graph: ClosedGraph) -> dict[str, Any]:
    declared = declarations(graph.nodes)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        **({"ops": declared} if declared else {}),
        "nodes": [_node(graph, n) for n in graph.nodes],
        "inputs": [graph.index[n] for n in graph.inputs],
        "outputs": [graph.index[n] for n in graph.outputs],
    }


def _node(graph: ClosedGraph, node: Node) -> dict[str, Any]:
    source = node.source
    out: dict[str, Any] = {
        "name": graph.names[node],
        "kind": graph.kind(node),
        "op": node.op.name,
        "inputs": [graph.index[e] if isinstance(e, Node) else {"literal": _value(e)} for e in node.inputs],
        "attrs": {k: _value(v) for k, v in node.attrs.items()},
        "path": node.path,
        "source": source
        and {"file": source.file, "line": source.line, "function": source.function, "text": source.text},
    }
    if isinstance(node.spec, tuple):
        out["results"] = [_spec(s) for s in node.spec]
        return out
    return out | _spec(node.spec)


def _spec(spec: Spec) -> dict[str, Any]:
    return {"shape": _value(spec.shape), "dtype": spec.dtype.name}


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"zlib": pack(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, complex):
        return {"complex": [_value(value.real), _value(value.imag)]}
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, Dim):
        return {"size": str(value)}
    if isinstance(value, (tuple, list)):
        return [_value(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Subgraph):
        return {"graph": _document(value)}  # type: ignore[arg-type]
    return {"opaque": opaque_name(value)}


# -- reading
#
# A document may come from anywhere: what is not as it says is a GraphError that names the node.


def load_graph(text: str, make: Make) -> Parsed:
    """Return the nodes that a JSON document describes. Raises GraphError."""
    if not isinstance(text, str):
        fail(GraphError, f"a graph's JSON is a string, not a {type(text).__name__}")
    try:
        return _Reader(make).graph(json.loads(text), "")
    except json.JSONDecodeError as e:
        fail(GraphError, f"not JSON: {e.msg} in line {e.lineno}, column {e.colno}")
    except RecursionError:
        fail(GraphError, "JSON that is nested too deep for the Python stack that is left")
    except ValueError as e:
        if isinstance(e, GraphError):
            raise
        fail(GraphError, f"not JSON: {e}")  # a number with more digits than Python takes


class _Reader:
    def __init__(self, make: Make) -> None:
        self.make = make
        self.depth = 0

    def graph(self, document: Any, place: str) -> Parsed:
        """Return the nodes of a document; `place` says where it stands, "" for the outermost."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            fail(GraphError, f"{place}not a JSON document of a {FORMAT}")
        if document.get("version") != VERSION or isinstance(document["version"], bool):
            fail(
                GraphError,
                f"{place}version {shortened(document.get('version'))} of the JSON format; this library reads {VERSION}",
            )
        name = _field(document, "name", f"{place}the document", str)
        if not _NAME.fullmatch(name):
            fail(GraphError, f"{place}{shortened(repr(name))} is not a graph's name")
        declared = self.declared(_field({"ops": [], **document}, "ops", f"{place}the document", list), place)
        nodes: list[Node] = []
        for i, entry in enumerate(_field(document, "nodes", f"{place}the document", list)):
            what = f"{place}node {i}"
            try:
                nodes.append(self.node(entry, nodes, declared, what))
            except GraphError:
                raise
            except WengertError as e:
                fail(GraphError, f"{what}: {first_line(e)}")
            except (ValueError, TypeError, OverflowError) as e:
                fail(GraphError, f"{what}: {shortened(e)}")
        inputs = [_reference(i, nodes, f"{place}inputs") for i in _field(document, "inputs", f"{place}inputs", list)]
        for i, node in zip(document["inputs"], inputs):
            if node.op not in (INPUT, PARAMETER):
                fail(GraphError, f"{place}inputs refers to node {i}, which is of the op {node.op.name}")
        outputs = [
            _reference(i, nodes, f"{place}outputs") for i in _field(document, "outputs", f"{place}outputs", list)
        ]
        for i, node in zip(document["outputs"], outputs):
            if isinstance(node.spec, tuple):
                fail(GraphError, f"{place}outputs refers to node {i}, which has several results")
        return Parsed(name, inputs, outputs)

    def declared(self, said: list[Any], place: str) -> set[str]:
        """Return the names of the ops that a document says to be declared so and so."""
        if not all(isinstance(s, str) for s in said):
            fail(GraphError, f"{place}ops: {shortened(said)} are not declarations")
        try:
            return {declared_op(s) for s in said}
        except GraphError as e:
            fail(GraphError, f"{place}ops: {first_line(e)}")

    def node(self, entry: Any, nodes: list[Node], declared: set[str], what: str) -> Node:
        op, attrs = _field(entry, "op", what, str), _field(entry, "attrs", what, dict)
        kind = entry.get("kind", op)
        if kind != op and (kind in LEAF_KINDS or op in LEAF_KINDS):
            fail(GraphError, f"{what}, of the op {shortened(op)}, is called {shortened(repr(kind))}")
        if op == CONSTANT.name:
            return constant_node(
                unpack(_field(attrs.get("value"), "zlib", f"{what}'s value", str), _spec_of(entry, what))
            )
        if op in LEAF_KINDS:
            return input_node(
                _spec_of(entry, what), _field({"name": "", **attrs}, "name", what, str), op == PARAMETER.name
            )
        inputs = tuple(
            _reference(e, nodes, what) if not isinstance(e, dict) else self.value(_single(e, ("literal",), what), what)
            for e in _field(entry, "inputs", what, list)
        )
        if "results" in entry:
            spec: Any = tuple(_spec_of(s, what) for s in _field(entry, "results", what, list))
        else:
            spec = _spec_of(entry, what)
        path = _field({"path": "", **entry}, "path", what, str)
        return checked_node(
            op,
            inputs,
            {k: self.value(v, f"{what}: {shortened(k)}") for k, v in attrs.items()},
            spec,
            _read_source(entry.get("source"), what),
            Scope("module", path, None) if path else None,
            declared,
        )

    def value(self, value: Any, what: str) -> Any:
        if isinstance(value, list):
            return tuple(self.value(v, what) for v in value)
        if not isinstance(value, dict):
            if is_too_large(value) or (type(value) is float and not math.isfinite(value)):
                fail(GraphError, f"{what} holds a number that is too large for a graph")
            return value
        kind = next(iter(value), "")
        found = _single(value, ("float", "complex", "dtype", "size", "graph", "opaque"), what)
        if kind == "opaque":
            fail(GraphError, f"{what} holds {shortened(found)}, which only the program that made it knows")
        if kind == "graph":
            return self.inner(found, what)
        if kind == "complex" and isinstance(found, list) and len(found) == 2:
            parts = [self.value(part, what) for part in found]
            if all(type(part) is float for part in parts):
                return complex(*parts)
        if kind == "float" and found in _FLOATS:
            return float(found)
        if kind == "size" and isinstance(found, str):
            return parse_size(found)
        if kind == "dtype" and isinstance(found, str):
            return from_name(found)
        fail(GraphError, f"{what}: {shortened(value)} is not a value")

    def inner(self, document: Any, what: str) -> Any:
        """Return the graph inside a node."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            fail(GraphError, f"{what}: nested more than {MOST_NESTED} deep")
        found = self.make(self.graph(document, f"{what}: "))
        self.depth -= 1
        return found


_FLOATS = ("nan", "inf", "-inf")
_NAME = re.compile(r"([A-Za-z_][\w.]*)?", re.ASCII)
# The names of nodes without inputs, by kind and by op.
LEAF_KINDS = frozenset({INPUT.name, PARAMETER.name, CONSTANT.name})


def _single(entry: dict[str, Any], keys: Sequence[str], what: str) -> Any:
    """Return the value under the one key that an object has."""
    if len(entry) != 1 or next(iter(entry)) not in keys:
        fail(GraphError, f"{what}: {shortened(entry)} is not a value")
    return next(iter(entry.values()))


def _read_source(entry: Any, what: str) -> Source | None:
    if entry is None:
        return None
    return Source(*(_field(entry, k, f"{what}'s source", t) for k, t in _SOURCE_FIELDS))


_SOURCE_FIELDS = (("file", str), ("line", int), ("function", str), ("text", str))


def _spec_of(entry: Any, what: str) -> Spec:
    shape = tuple(_size(n, what) for n in _field(entry, "shape", what, list))
    check_size(shape)
    return spec_of(shape, from_name(_field(entry, "dtype", what, str)))


def _size(value: Any, what: str) -> Any:
    found = parse_size(_field(value, "size", what, str)) if isinstance(value, dict) else value
    if not isinstance(found, Dim) and (type(found) is not int or found < 0):
        fail(GraphError, f"{what}: {shortened(value)} is not a size")
    return found


def _field(entry: Any, key: str, what: str, kind: type) -> Any:
    if not isinstance(entry, dict):
        fail(GraphError, f"{what} is not an object")
    if not isinstance(entry.get(key), kind):
        fail(GraphError, f"{what} has no field {key!r} of JSON type {_JSON_TYPES[kind]}")
    return entry[key]


_JSON_TYPES = {list: "array", dict: "object", str: "string", int: "number"}


def _reference(position: Any, nodes: list[Node], what: str) -> Node:
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < len(nodes):
        fail(
            GraphError,
            f"{what} refers to node {shortened(repr(position))}, which is not among the {len(nodes)} nodes before it",
        )
    return nodes[position]
