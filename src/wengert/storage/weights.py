"""Files of weights, in whatever format: which one it is is seen from what is in them, not from their names."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import DataError, fail
from ..core.tensor import Tensor, asarray
from . import gguf, numpy_files, safetensors_files
from .files import Array, Path, Reading, Stored
from .pickles import MOST_NESTED
from .torch_files import is_legacy, load_torch

_MOST_ENTRIES = 1 << 20
_LONGEST_NAME = 4096
# How files begin that are not read, from the byte on that is named.
_UNREAD = {
    (0, b"\x89HDF\r\n\x1a\n"): "an HDF5 file, which is not read (Keras' .h5 is one): save .npz or .safetensors",
    (0, b"\x1f\x8b"): "compressed with gzip: unpack it first",
    (0, b"%PDF"): "a PDF file",
    (4, b"TFL3"): "a TensorFlow Lite model, which is not read: convert it to ONNX (tf2onnx)",
    (257, b"ustar"): "a tar archive: unpack it first",
}
# Entries of zip archives that are no weights alone.
_UNREAD_ARCHIVES = {
    "serialized_exported_program.json": "of torch.export, which is not read: torch.onnx.export writes a model that is",
    "models/model.json": "of torch.export, which is not read: torch.onnx.export writes a model that is",
    "code": "of TorchScript, which is not read: torch.onnx.export writes a model that is",
    "model.weights.h5": "of Keras, which is not read: save weights as .npz or .safetensors",
    "schema.json": "of skops, which is not read: skl2onnx writes a model that is",
}


def _unread_archive(names: Sequence[str]) -> str | None:
    """Return what an archive is that holds more than weights; None for one that may be read."""
    parts = {
        part for name in names for part in (name, name.partition("/")[2], name.partition("/")[2].partition("/")[0])
    }
    return next((what for entry, what in _UNREAD_ARCHIVES.items() if entry in parts), None)


@dataclass(frozen=True)
class Weights:
    """The arrays in a file by name, not read yet; the format, and what else the file tells."""

    format: str
    arrays: Mapping[str, Stored]
    metadata: Mapping[str, Any] = field(default_factory=dict)


def open_weights(file: Path, mmap: bool = True, limit: int | None = None) -> Weights:
    """Return the arrays in a file of weights without reading them; see :func:`load_weights`. Raises DataError."""
    name = os.fspath(file)
    with Reading(name):
        if os.path.isdir(name):
            fail(DataError, f"{name} is a folder", "Give one of the files in it.")
        with open(name, "rb") as opened:
            start = opened.read(512)
        if start[:4] == b"PK\x03\x04":
            with zipfile.ZipFile(name) as archive:
                names = archive.namelist()
            what = _unread_archive(names)
            if what is not None:
                fail(DataError, f"{name} is an archive {what}")
            if names and all(n.endswith(".npy") for n in names):
                return Weights("NumPy archive", numpy_files.open_npz(file, mmap, limit))
            return Weights("PyTorch", _arrays(load_torch(file, mmap=mmap, limit=limit), name))
        if is_legacy(start):
            return Weights("PyTorch, older format", _arrays(load_torch(file, mmap=mmap, limit=limit), name))
        if start[:4] == gguf.MAGIC:
            return Weights("GGUF", *gguf.open_gguf(file, mmap, limit))
        if start[:6] == numpy_files.NPY:
            return Weights("NumPy array", numpy_files.open_npy(file, mmap))
        if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 1 << 30:
            found = safetensors_files.Opened(file, mmap)
            told = {k: v for k, v in found.metadata.items() if k not in (safetensors_files.STRUCTURE, "complex")}
            return Weights("safetensors", found.arrays, told)
        for (at, magic), why in _UNREAD.items():
            if start[at:].startswith(magic):
                fail(DataError, f"{name} is {why}")
        what = start[:8].hex(" ") or "nothing"
        if start[:1] == b"\x08" and b"\x12" in start[:64]:
            fail(
                DataError,
                f"{name} looks like an ONNX model",
                "Call it .onnx; wg.interop.onnx.load and wengert explore read it.",
            )
        return fail(DataError, f"{name} is of no format of weights that is known: it begins with {what}")


def load_weights(file: Path, part: str = "", *, mmap: bool = False, limit: int | None = None) -> dict[str, Tensor]:
    """Return the tensors in a file of weights by name, as `load_state_dict` takes them.

    Parameters
    ----------
    file: a file of safetensors, PyTorch (`.pt`, `.pth`, `.bin`, in both formats), NumPy (`.npz`, `.npy`), Keras'
        `.npz`, or GGUF (F32, F16, BF16, F64, integers; Q8_0 and Q4_0 become float32). Its name does not matter.
    part: the part of a nested checkpoint, such as "state_dict" or "model.encoder": names then begin after it.
    mmap: read values when they are first used; the file must then stay as it is.
    limit: the bytes of memory that the contents may take beyond the file's own.

    Names of what is nested are joined with dots. Nothing in a file is run. Raises DataError for a file that is missing,
    damaged, hostile, of another format or without that part.

    >>> import tempfile, os, numpy as np, wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "weights")
    ...     with open(file, "wb") as f:
    ...         np.savez(f, w=np.ones(2, np.float32))
    ...     wg.storage.load_weights(file)
    {'w': tensor([1., 1.])}
    """
    found = open_weights(file, mmap, limit)
    chosen = part_of(found.arrays, part, os.fspath(file))
    return {name: asarray(stored.read(), copy=False) for name, stored in chosen.items()}


def part_of(arrays: Mapping[str, Stored], part: str, file: str) -> Mapping[str, Stored]:
    """Return the arrays under a name, by what follows it. Raises DataError where there are none."""
    if not part:
        return arrays
    found = {name.removeprefix(f"{part}."): stored for name, stored in arrays.items() if name.startswith(f"{part}.")}
    if not found:
        parts = sorted({name.partition(".")[0] for name in arrays})
        fail(DataError, f"{file} has no part {part!r}", f"It has: {', '.join(parts[:20])}.")
    return found


def _arrays(value: Any, name: str) -> dict[str, Stored]:
    found: dict[str, Stored] = {}
    if isinstance(value, np.ndarray):
        return {"tensor": _given(value)}
    for path, array in _walk(value, name):
        if path in found:
            fail(DataError, f"{name} has two tensors with the name {path[:80]!r}")
        found[path] = _given(array)
    return found


def _given(array: Array) -> Stored:
    return Stored(array.shape, array.dtype.name, array.nbytes, lambda: array)


def _walk(value: Any, name: str) -> Iterator[tuple[str, Array]]:
    """Yield the arrays in containers with their paths. What a container holds many times counts as often."""
    pending: list[tuple[str, Any]] = [("", value)]
    seen = 0
    while pending:
        path, one = pending.pop()
        seen += 1
        if seen > _MOST_ENTRIES or path.count(".") > 2 * MOST_NESTED or len(path) > _LONGEST_NAME:
            fail(DataError, f"{name} has more in its containers than any checkpoint")
        if isinstance(one, np.ndarray) and not one.dtype.hasobject and one.dtype.kind not in "SU":
            yield path, one
        elif isinstance(one, Mapping):
            pending += reversed([(_joined(path, k), v) for k, v in one.items()])
        elif isinstance(one, (list, tuple)):
            if len(one) > _MOST_ENTRIES - seen:
                fail(DataError, f"{name} has more in its containers than any checkpoint")
            pending += reversed([(_joined(path, i), v) for i, v in enumerate(one)])


def _joined(path: str, key: Any) -> str:
    text = str(key) if isinstance(key, (str, int, float)) else type(key).__name__
    return f"{path}.{text}" if path else text
