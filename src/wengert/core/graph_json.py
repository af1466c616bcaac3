"""Graphs as JSON documents.

A document is an object with

- `format`: "wengert graph", `version`: 1, `name`: the graph's name or "";
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
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .dims import Dim, has_dims
from .errors import GraphError, WengertError, fail, first_line
from .graph_text import Make, Parsed, parse_size
from .graph_values import Subgraph, opaque_name, pack, unpack
from .mode import Scope
from .node import Node
from .snapshot import CONSTANT, PARAMETER, checked_node, constant_node, input_node
from .source import Source
from .spec import Spec, as_dtype, normalize_shape, spec_of
from .tensor import INPUT

if TYPE_CHECKING:
    from .graph import Graph

FORMAT, VERSION = "wengert graph", 1


# -- writing


def dump_graph(graph: Graph, indent: int | None = None) -> str:
    """The JSON document of a graph."""
    return json.dumps(_document(graph), indent=indent, allow_nan=False)


def _document(graph: Graph) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "nodes": [_node(graph, n) for n in graph.nodes],
        "inputs": [graph.index[n] for n in graph.inputs],
        "outputs": [graph.index[n] for n in graph.outputs],
    }


def _node(graph: Graph, node: Node) -> dict[str, Any]:
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


def load_graph(text: str, make: Make) -> Parsed:
    """The nodes that a JSON document describes. Raises GraphError."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as e:
        fail(GraphError, f"not JSON: {e.msg} in line {e.lineno}, column {e.colno}")
    return _load(document, make)


def _load(document: Any, make: Make) -> Parsed:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        fail(GraphError, f"not a JSON document of a {FORMAT}")
    if document.get("version") != VERSION:
        fail(GraphError, f"version {document.get('version')} of the JSON format; this library reads {VERSION}")
    nodes: list[Node] = []
    for i, entry in enumerate(_field(document, "nodes", "the document", list)):
        try:
            nodes.append(_read_node(entry, nodes, f"node {i}", make))
        except GraphError:
            raise
        except WengertError as e:
            fail(GraphError, f"node {i}: {first_line(e)}")
        except (ValueError, TypeError, KeyError, OverflowError) as e:
            fail(GraphError, f"node {i}: {e}")
    return Parsed(
        _field(document, "name", "the document", str),
        [_reference(i, nodes, "inputs") for i in _field(document, "inputs", "the document", list)],
        [_reference(i, nodes, "outputs") for i in _field(document, "outputs", "the document", list)],
    )


def _read_node(entry: Any, nodes: list[Node], what: str, make: Make) -> Node:
    if not isinstance(entry, dict):
        fail(GraphError, f"{what} is not an object")
    op = _field(entry, "op", what, str)
    attrs = _field(entry, "attrs", what, dict)
    if op == CONSTANT.name:
        return constant_node(unpack(attrs["value"]["zlib"], _read_spec(entry, what)))
    if op in (INPUT.name, PARAMETER.name):
        return input_node(_read_spec(entry, what), str(attrs.get("name", "")), op == PARAMETER.name)
    inputs = tuple(
        _read_value(e["literal"], what) if isinstance(e, dict) else _reference(e, nodes, what)
        for e in _field(entry, "inputs", what, list)
    )
    spec: Any = _read_spec(entry, what)
    if "results" in entry:
        spec = tuple(_read_spec(s, what) for s in _field(entry, "results", what, list))
    return checked_node(
        op,
        inputs,
        {k: _read_value(v, what, make) for k, v in attrs.items()},
        spec,
        _read_source(entry.get("source"), what),
        Scope("module", entry["path"], None) if entry.get("path") else None,
    )


def _read_source(entry: Any, what: str) -> Source | None:
    if entry is None:
        return None
    return Source(*(_field(entry, k, f"{what}'s source", t) for k, t in _SOURCE_FIELDS))


_SOURCE_FIELDS = (("file", str), ("line", int), ("function", str), ("text", str))


def _read_spec(entry: Any, what: str) -> Spec:
    if "results" in entry:
        return spec_of((), as_dtype("bool"))
    shape = _read_value(_field(entry, "shape", what, list), what)
    if not has_dims(shape):
        shape = normalize_shape(shape)
    return spec_of(shape, as_dtype(_field(entry, "dtype", what, str)))


def _read_value(value: Any, what: str, make: Make | None = None) -> Any:
    if isinstance(value, list):
        return tuple(_read_value(v, what, make) for v in value)
    if not isinstance(value, dict):
        return value
    if "opaque" in value:
        fail(GraphError, f"{what} holds {value['opaque']}, which only the program that made it knows")
    if "float" in value:
        return float(value["float"])
    if "complex" in value:
        return complex(*(_read_value(part, what) for part in value["complex"]))
    if "size" in value:
        return parse_size(str(value["size"]))
    if "graph" in value and make is not None:
        return make(_load(value["graph"], make))
    if "dtype" not in value:
        fail(GraphError, f"{what}: {json.dumps(value)[:80]} is not a value")
    return as_dtype(value["dtype"])


def _field(entry: dict[str, Any], key: str, what: str, kind: type) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get(key), kind):
        _missing(key, what, kind)
    return entry[key]


def _missing(key: str, what: str, kind: type) -> NoReturn:
    fail(GraphError, f"{what} has no field {key!r} of JSON type {_JSON_TYPES[kind]}")


_JSON_TYPES = {list: "array", dict: "object", str: "string", int: "number"}


def _reference(position: Any, nodes: list[Node], what: str) -> Node:
    if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < len(nodes):
        fail(GraphError, f"{what} refers to node {position!r}, which is not among the {len(nodes)} nodes before it")
    return nodes[position]
