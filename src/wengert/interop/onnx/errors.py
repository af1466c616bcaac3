"""The error of ONNX documents, and the place in one that it names."""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.errors import GraphError, WengertError, error, fail, first_line


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


class UnreadableError(OnnxError, OSError):
    """An error for a path at which no file can be read; a `FileNotFoundError` where there is none."""


class MissingError(UnreadableError, FileNotFoundError):
    """An error for a path at which there is no file."""


def unreadable(path: str, found: OSError) -> OnnxError:
    """Return the error for a file that could not be read, with the operating system's words and `errno`."""
    kind = MissingError if isinstance(found, FileNotFoundError) else UnreadableError
    made = error(kind, f"{shown(path)} cannot be read: {found.strerror or found}")
    assert isinstance(made, UnreadableError)
    made.errno = found.errno
    return made


def refuse(what: str, mend: str = "") -> NoReturn:
    """Raise OnnxError: what is wrong, at the user's line, then how to mend it."""
    fail(OnnxError, what, mend)


def shown(text: str | bytes, length: int = 80) -> str:
    """Return a name of a document as an error may print it; one that is no text comes as bytes."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    plain = "".join(c if c.isprintable() else "?" for c in text[: length + 1])
    return plain if len(plain) <= length else plain[: length - 3] + "..."


def said(e: BaseException, length: int = 200) -> str:
    """Return an exception's text in one line, without the place in the program."""
    return shown(first_line(e) if isinstance(e, WengertError) else str(e).partition("\n")[0], length)


def title(node: Any) -> str:
    """Return a NodeProto's name in errors: its name, or its first result, and its operator."""
    domain = f"{shown(node.domain)}." if node.domain else ""
    name = node.name or next((o for o in node.output if o), "")
    return f"node {shown(name)!r} ({domain}{shown(node.op_type)})"
