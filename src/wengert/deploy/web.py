"""Programs for browsers and Node: an ES module beside a module of WebAssembly, and a page that holds everything."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from ..version import __version__
from .built import Built
from .wasm import linked

_TEMPLATES = Path(__file__).with_name("templates")


def module_of(built: Built) -> bytes:
    """Return the module of WebAssembly."""
    functions = [f"{built.name}_{end}" for end in (("run", "prepare") if built.ready else ("run",))]
    return linked(built.objects[f"{built.name}.o"], functions, [f"{built.name}_interface"])


def script(built: Built) -> str:
    """Return the ES module."""
    text = (_TEMPLATES / "model.mjs").read_text(encoding="utf-8")
    names = {role: [f.name for f in built.fields if f.role == role] for role in ("input", "output")}
    return Template(text).substitute(
        name=built.name,
        version=__version__,
        interface=_json(built.interface),
        given=", ".join(names["input"]),
        result=", ".join(names["output"]),
    )


def page(built: Built, examples: Mapping[str, Any]) -> str:
    """Return a page that runs the program; `examples` are values of inputs by name, with which it begins."""
    files = {"wasm": module_of(built)}
    files |= {
        role: layout.header + layout.data()
        for role, layout in (("weights", built.weights), ("state", built.state))
        if layout.nbytes
    }
    # A module inside a page has nobody who imports it, and loads nothing.
    lines = script(built).splitlines()
    first, last = (
        next(i for i, line in enumerate(lines) if line.startswith(start))
        for start in ("export const INTERFACE", "async function bytesOf")
    )
    text = "\n".join(line.removeprefix("export ") for line in lines[first:last])
    named = {f.name: examples[f.value.name] for f in built.fields if f.value and f.value.name in examples}
    return Template((_TEMPLATES / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(built.name),
        module=text,
        files=_json({role: _text(content) for role, content in files.items()}),
        examples=_json({name: _text(value.tobytes()) for name, value in named.items()}),
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _json(value: Any) -> str:
    """Return a value as JSON that a script in a page may hold."""
    return json.dumps(value).replace("</", "<\\/")
