"""Files of weights: the tree of their names, without a program."""

from __future__ import annotations

import os

import numpy as np

from ...core.dtypes import is_known
from ...core.mode import Scope
from ...core.spec import spec_of
from ...interop.onnx.errors import shown
from ...storage.files import Reading
from ...storage.weights import open_weights
from ..recording.recording import Recording, Row


def recording_of(path: str) -> Recording:
    """Return a file's arrays as parameters, in the scopes that the dots in their names tell. Raises DataError."""
    found = open_weights(path)
    rows: list[Row] = []
    scopes: dict[str, Scope] = {}
    other = 0
    with Reading(path):
        for name, stored in found.arrays.items():
            value = stored.read()
            if not is_known(value.dtype):
                other += 1
                continue
            module, _, last = shown(name, 400).rpartition(".")
            if module not in scopes:
                scopes[module] = Scope("module", module, None)
            floating = value.dtype.kind in "fcV"
            row = Row(None, "param" if floating else "const", value=np.asarray(value), name=last or name)
            row.spec, row.scope = spec_of(value.shape, value.dtype), scopes[module]
            rows.append(row)
    made = Recording(rows, [], [], script=os.path.basename(path), title=found.format, stored=True)
    made.notes = [f"{shown(key, 40)}: {shown(str(value), 200)}" for key, value in found.metadata.items()]
    if other:
        made.notes.append(f"{other:,} arrays of other dtypes than tensors have are not shown.")
    return made
