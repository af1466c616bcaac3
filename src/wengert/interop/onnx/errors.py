"""The error of ONNX documents, and the place in one that it names."""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.errors import GraphError, fail


class OnnxError(GraphError):
    """An error for an ONNX document that cannot be read, built or run, or a graph that ONNX cannot say.

    Its first line names the node: `node 'conv1' (Conv): ...`.

    >>> import wengert as wg
    >>> try:
    ...     wg.interop.onnx.load(b"not a model")
    ... except wg.interop.onnx.OnnxError as e:
    ...     print(isinstance(e, wg.GraphError))
    True
    """


def refuse(what: str, mend: str = "") -> NoReturn:
    """Raise OnnxError: what is wrong, at the user's line, then how to mend it."""
    fail(OnnxError, what, mend)


def shown(text: str | bytes, length: int = 80) -> str:
    """Return a name of a document as an error may print it; one that is no text comes as bytes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    plain = "".join(c if c.isprintable() else "?" for c in text[: length + 1])
    return plain if len(plain) <= length else plain[: length - 3] + "..."


def title(node: Any) -> str:
    """Return what an error calls a NodeProto: its name, or its first result, and its operator."""
    domain = f"{shown(node.domain)}." if node.domain else ""
    name = node.name or next((o for o in node.output if o), "")
    return f"node {shown(name)!r} ({domain}{shown(node.op_type)})"
