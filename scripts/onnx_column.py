"""What each op becomes in ONNX, as the page of operations says it: told by the exporter, which writes its samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.errors import first_line
from wengert.core.ops.op import Missing, Op
from wengert.core.ops.record import bind
from wengert.interop.onnx.errors import OnnxError
from wengert.interop.onnx.export.save import DEFAULT_OPSET, model_proto
from wengert.interop.onnx.export.writer import has_form

# What documents have beside what computes.
_AROUND = ("Constant", "Identity")
_MOST = 6
_REASON = re.compile(r"cannot be said in ONNX: (.*)")
_PART = re.compile(r"op '(\w+)'")
_SINCE = re.compile(r"is an operator of ONNX since version (\d+)")


def onnx_cell(op: Op) -> str:
    """Return an op's cell: the operators that it becomes, "by its parts", or why it is not written."""
    declared = op.onnx.why if isinstance(op.onnx, Missing) else op.onnx or ""
    if op.kind == "elementwise" and isinstance(op.onnx, str) and has_form(op, DEFAULT_OPSET):
        return declared  # by its name, unless a form of its own writes it otherwise
    said = ""
    for attempt in _attempts(op):
        if isinstance(attempt, OnnxError):
            said = said or _reason(attempt, op)
            continue
        found = [name for name in dict.fromkeys(attempt) if name not in _AROUND] or ["Identity"]
        if not has_form(op, DEFAULT_OPSET):
            return "by its parts"
        more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
        return f"{', '.join(found[:_MOST])}{more}"
    return said or declared


def _attempts(op: Op) -> Iterator[list[str] | OnnxError]:
    """Yield the operators that each sample becomes, or why it is refused."""
    for call in op.samples(np.random.default_rng(0)) if op.samples is not None else ():
        # The graphs that control flow runs are in float64.
        casts = not any(isinstance(v, wg.Graph) for v in wg.tree.leaves(dict(call.attrs)))
        args = [np.asarray(a, np.float32 if casts and np.asarray(a).dtype == float else None) for a in call.args]
        if any(a.dtype.kind == "c" for a in args):
            continue

        try:
            proto, _, _ = model_proto(_calling(op, call.attrs), [wg.spec(a.shape, a.dtype) for a in args])
        except OnnxError as e:
            yield e
        else:
            yield [node.op_type for node in proto.graph.node]


def _calling(op: Op, attrs: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda *xs: bind(op, list(xs), dict(attrs))


def _reason(e: OnnxError, op: Op) -> str:
    """Return why a sample is refused, with the part that it is for where that is not the op itself."""
    text = first_line(e)
    if (since := _SINCE.search(text)) is not None:
        return f"from version {since[1]} of ONNX's operators on"
    if (found := _PART.match(text)) is None:
        return text
    if (why := _REASON.search(text)) is None:
        return ""  # what the declaration says of it
    return why[1] if found[1] == op.name else f"its part {found[1]}: {why[1]}"
