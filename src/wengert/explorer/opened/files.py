"""The recording of a file, by what it is."""

from __future__ import annotations

import os

from ...core.errors import DataError, fail
from ...interop.onnx.inputs import Wanted
from ..recording.recording import Recording
from . import models, weights


def recording_of(path: str | os.PathLike[str], wanted: Wanted, structure: bool = False) -> Recording:
    """Return the recording of a file: a model by its ending, `.onnx`, weights by what is in them.

    With `structure` the nodes of a model are drawn as they stand, and not run.

    Raises OnnxError and DataError for what is none that can be read.
    """
    name = os.fspath(path)
    if not os.path.isfile(name):
        what = "is a folder" if os.path.isdir(name) else "does not exist"
        fail(DataError, f"{name} {what}", "Give an ONNX model, or a file of weights.")
    if name.lower().endswith(".onnx"):
        return models.recording_of(name, wanted, structure)
    if wanted.args or wanted.kwargs or wanted.sizes or structure:
        fail(DataError, f"{name} holds weights and no program: it takes no inputs", "Give the path alone.")
    return weights.recording_of(name)
