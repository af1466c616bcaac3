"""Nodes as a document describes them: operator, attributes, and the place in the exporting program."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from .errors import shown
from .values import package

# Where exporters of PyTorch write the modules around a node, and the calls that led to it.
_SCOPES = "pkg.torch.onnx.name_scopes"
_STACK = "pkg.torch.onnx.stack_trace"
# What an exporter calls the module of a node that stood in none.
_NONE = "_empty_nn_module_stack"
# And where Wengert's own does: a file and a line.
_SOURCE = "wengert.source"
_LONGEST = 1 << 14
_DEEPEST = 40
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n]+)\n\s*(?P<text>[^\n]*)')
_LIBRARIES = ("site-packages", "dist-packages", "<frozen", "/lib/python")
_ELEMENTS = 16


class Place(NamedTuple):
    """The place of a node among modules: their path, and the call inside that it is a part of, "" for none."""

    module: str
    call: str


NOWHERE = Place("", "")


def place_of(node: Any) -> Place:
    """Return the place that a NodeProto's metadata or name tells: `/blocks/blocks.0/Add` is in `blocks.0`."""
    for entry in node.metadata_props:
        if entry.key == _SCOPES and len(entry.value) < _LONGEST:
            scopes = [s for s in _strings(shown(entry.value, _LONGEST)) if not s.startswith(_NONE)]
            if scopes:
                return Place(_clean(scopes[-2] if len(scopes) > 1 else ""), shown(scopes[-1]))
    parts: list[str] = []
    before = ""
    for part in shown(node.name, _LONGEST).split("/")[:-1][:_DEEPEST]:
        # Lists of modules say their own name again: /layers/layers.0/Add.
        parts.append(part.removeprefix(f"{before}.") if before else part)
        before = part or before
    return Place(_clean(".".join(parts)), "")


def _clean(path: str) -> str:
    return ".".join(shown(part) for part in path.split(".")[:_DEEPEST] if part)


def _strings(text: str) -> list[str]:
    """Return a list of strings that is written as Python writes one; nothing for anything else."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return found if isinstance(found, list) and all(isinstance(s, str) for s in found) else []


@dataclass(frozen=True, slots=True)
class Told:
    """A node as its document describes it, as plain data.

    `about` is the first sentence of the operator's documentation; `program` has file, line, function and text of the
    innermost call of the exporting program, where it is told.
    """

    operator: str
    domain: str
    name: str
    doc: str
    attributes: dict[str, Any]
    inputs: list[str]
    outputs: list[str]
    program: dict[str, Any] | None
    about: str


def stored(node: Any) -> bytes:
    """Return a NodeProto's bytes, without large tensors: a step keeps them, and not the whole document alive."""
    if node.ByteSize() > _LONGEST:
        small = type(node)()
        small.CopyFrom(node)
        for a in small.attribute:
            for proto in (*([a.t] if a.HasField("t") else ()), *a.tensors):
                kept = type(proto)(dims=proto.dims, data_type=proto.data_type, data_location=proto.EXTERNAL)
                proto.CopyFrom(kept)
        node = small
    found: bytes = node.SerializeToString()
    return found


def told(node: Any) -> Told:
    """Return a NodeProto's operator, attributes, operands and place in the exporting program."""
    said = {shown(e.key): e.value for e in node.metadata_props}
    program = _program(_text(said.get(_STACK, ""))[:_LONGEST]) or _line(_text(said.get(_SOURCE, "")))
    return Told(
        shown(node.op_type),
        shown(node.domain),
        shown(node.name, 200),
        shown(node.doc_string, 400),
        {shown(a.name): attribute(a) for a in node.attribute},
        [shown(n, 200) for n in node.input],
        [shown(n, 200) for n in node.output],
        program,
        _about(shown(node.op_type), shown(node.domain)),
    )


def _text(text: str | bytes) -> str:
    """Return a text of a document; one that is none comes as bytes."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _program(stack: str) -> dict[str, Any] | None:
    frames = [m.groupdict() for m in _FRAME.finditer(stack)]
    own = [f for f in frames if not any(part in f["file"] for part in _LIBRARIES)]
    if not frames:
        return None
    frame = (own or frames)[-1]
    return {
        "file": shown(frame["file"], 200),
        "line": int(frame["line"][:9]),
        "function": shown(frame["function"]),
        "text": shown(frame["text"].strip(), 200),
    }


def _line(source: str) -> dict[str, Any] | None:
    file, _, line = source.rpartition(":")
    if not file or not line.isdigit():
        return None
    return {"file": shown(file, 200), "line": int(line[:9]), "function": "", "text": ""}


def attribute(a: Any) -> Any:
    """Return an AttributeProto's value: numbers, text and lists of such; of tensors and graphs what they are."""
    kinds = package().AttributeProto
    if a.ref_attr_name:
        return f"@{shown(a.ref_attr_name)}"
    if a.type == kinds.FLOAT:
        return _number(a.f)
    if a.type == kinds.INT:
        return int(a.i)
    if a.type == kinds.STRING:
        return shown(a.s, 200)
    if a.type == kinds.TENSOR:
        return _tensor(a.t)
    if a.type == kinds.GRAPH:
        return f"graph of {len(a.g.node):,} nodes"
    if a.type in (kinds.FLOATS, kinds.INTS, kinds.STRINGS):
        values = a.floats or a.ints or a.strings
        first = [shown(v) if isinstance(v, bytes) else _number(v) for v in values[:_ELEMENTS]]
        return first if len(values) <= _ELEMENTS else [*first, f"… {len(values):,} in all"]
    return kinds.AttributeType.Name(a.type).lower() if a.type in kinds.AttributeType.values() else "unknown"


def _number(value: Any) -> Any:
    """Return a number in the digits that single precision tells apart."""
    if isinstance(value, int):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else str(value)


def _tensor(proto: Any) -> str:
    """Return a TensorProto's dtype and shape; a small one's numbers."""
    onnx = package()
    kinds = onnx.TensorProto.DataType
    name = kinds.Name(proto.data_type).lower() if proto.data_type in kinds.values() else "unknown"
    shape = "×".join(str(n) for n in proto.dims[:_ELEMENTS])
    if math.prod(proto.dims) <= _ELEMENTS and proto.ByteSize() < _LONGEST and proto.data_location == 0:
        try:
            array = onnx.numpy_helper.to_array(proto)
        except Exception:  # whatever is wrong with it is said where it is used
            return f"{name} {shape}".strip()
        return f"{name} {shown(str(array.tolist()), 200)}"
    return f"{name} {shape}".strip()


@cache
def _about(operator: str, domain: str) -> str:
    """Return the first sentence of an operator's documentation; "" where it is not known."""
    defs = package().defs
    try:
        doc = defs.get_schema(operator, domain).doc or ""
    except defs.SchemaError:
        return ""
    text = " ".join(doc.replace("`", "").split())
    sentence = re.match(r".{0,240}?[.](?=\s|$)", text)
    return sentence[0] if sentence is not None else ""
