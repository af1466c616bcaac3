"""ONNX models: run on inputs that are made, or drawn as they stand."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from ...core.errors import WengertError, first_line
from ...interop.onnx.document import read
from ...interop.onnx.errors import OnnxError, shown
from ...interop.onnx.inputs import OTHERS, Made, Wanted, bounds_of, make
from ...interop.onnx.model import Model, made_of, value_of
from ..recording.call import record_call
from ..recording.recording import Recording
from ..recording.scopes import node_of
from .structure import structure


def recording_of(path: str, wanted: Wanted, as_it_stands: bool = False) -> Recording:
    """Return the recording of a model's run; its structure, where that is wanted or it cannot be run."""
    proto, folder, size = read(path)
    file = os.path.basename(path)
    if as_it_stands:
        return _titled(structure(proto, folder), proto, file)
    try:
        model = made_of(proto, folder, size, None)
    except OnnxError as e:
        return _unrun(proto, folder, file, e)
    bounds = bounds_of(proto.graph)
    try:
        made = make(model.inputs, bounds, wanted)
    except OnnxError as e:
        if wanted.args or wanted.kwargs or wanted.sizes:
            raise  # what was asked for is wrong
        return _unrun(proto, folder, file, e)
    recording = _run(model, made)
    if made.guessed and isinstance(recording.error, WengertError):
        for other in OTHERS[1:]:
            larger = make(model.inputs, bounds, wanted, other)
            again = _run(model, larger)
            if again.error is None:
                recording, made = again, larger
                break
    recording.inputs = made.entry()
    recording.notes += _notes(recording, len(proto.graph.node), model.nodes)
    return _titled(recording, proto, file)


def open_sizes(path: str) -> dict[str, int]:
    """Return the sizes that a model's inputs leave open, by name, with what they are taken for where nobody says."""
    proto, _, _ = read(path)
    taken = {t.name for t in proto.graph.initializer}
    try:
        values = [value_of(v) for v in proto.graph.input if v.name not in taken]
        return make(values, {}, Wanted()).sizes
    except OnnxError:
        return {}  # it is not run


def _run(model: Model, made: Made) -> Recording:
    recording = record_call(model, (), made.values)
    recording.stored = True
    return recording


def _unrun(proto: Any, folder: str | None, file: str, e: OnnxError) -> Recording:
    recording = structure(proto, folder)
    recording.notes.append(f"The model is drawn as it stands, for it does not run: {first_line(e)}")
    return _titled(recording, proto, file)


def _titled(recording: Recording, proto: Any, file: str) -> Recording:
    taken = {t.name for t in proto.graph.initializer}
    inputs = ", ".join(shown(v.name, 40) for v in proto.graph.input[:6] if v.name not in taken)
    recording.script = file
    recording.title = f"{shown(proto.graph.name, 40) or 'graph'}({inputs})"
    return recording


def _notes(recording: Recording, count: int, nodes: Collection[Any]) -> list[str]:
    """Return what of the document's nodes is not drawn."""
    drawn = {id(node) for row in recording.rows if (node := node_of(row.scope, outermost=True)) is not None}
    left = count - sum(id(node) in drawn for node in nodes)
    if not left or recording.error is not None:
        return []
    return [
        f"{left:,} of the document's {count:,} nodes give constants and shapes, or hand values on as they are: "
        "they are not drawn. `wengert explore --structure` draws all."
    ]
