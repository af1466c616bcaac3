"""Files of the safetensors format, by the package `safetensors`: nested containers of tensors go in and come back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.dtypes import RECORDS
from ..core.errors import DataError, fail
from .files import Array, Path, Reading, Staged, Stored, bytes_of, dtype_in_file, little_endian, native, not_written
from .structure import Packed, names_in, unpack

# Where the structure of nested containers stands in the file's metadata.
STRUCTURE = "wengert"
# Programs that read such files ask for this entry.
_FORMAT = {"format": "pt"}

_NAMES = {record.safetensors: record.name for record in RECORDS.values() if record.safetensors}


def _package() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        fail(DataError, "files of safetensors need the package safetensors", "pip install 'wengert[safetensors]'")
    return safetensors


def save(file: Path, value: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors, in any nesting of dicts, lists and tuples with numbers and texts, to a safetensors file.

    Parameters
    ----------
    file: the path; a file that is there is replaced when the new one is complete.
    value: tensors, arrays, numbers, texts, bytes and None, in dicts, lists, tuples, sets and other pytrees. Values are
        saved, not how they were computed. An array that occurs several times is written once.
    metadata: texts by name, for whoever reads the file.

    A dict of names to tensors gives a file that other programs read; the nesting of anything else is told in the
    metadata. Raises DataError for what cannot be saved and where the file cannot be written.

    >>> import tempfile, os, wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "state.safetensors")
    ...     wg.storage.save(file, {"w": wg.ones(2), "step": 3, "rates": [0.1, 0.01]})
    ...     wg.storage.load(file)
    {'w': tensor([1., 1.]), 'step': 3, 'rates': [0.1, 0.01]}
    """
    packed = Packed()
    structure = packed.pack(value)
    write(file, packed.arrays, {**(metadata or {}), STRUCTURE: json.dumps(structure)})


def write(file: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays by name; complex ones as pairs of real ones. Raises DataError."""
    package = _package()
    told = {**_FORMAT, **(metadata or {})}
    pairs = [name for name, a in arrays.items() if a.dtype.kind == "c"]
    if pairs:
        told["complex"] = json.dumps(pairs)
    made = {
        name: np.ascontiguousarray(a).view(a.real.dtype).reshape(*a.shape, 2) if a.dtype.kind == "c" else _plain(a)
        for name, a in arrays.items()
    }
    with Staged(file) as temporary:
        try:
            package.numpy.save_file(made, temporary, metadata=told)
        except (package.SafetensorError, OSError) as e:
            not_written(os.fspath(file), e)


def _plain(a: Array) -> Array:
    # `ascontiguousarray` gives an array without axes one.
    made = np.array(a, order="C") if not a.flags.c_contiguous or not isinstance(a, np.ndarray) else a
    return native(made)


class Opened:
    """A safetensors file: its arrays, and its metadata."""

    def __init__(self, file: Path, mmap: bool = True) -> None:
        name = os.fspath(file)
        package = _package()
        with Reading(name):
            # The package finds what is wrong with the header; sizes and places in it are right then.
            with package.safe_open(name, framework="np") as opened:
                self.metadata: dict[str, str] = dict(opened.metadata() or {})
            data = bytes_of(name, mmap)
            start = 8 + int.from_bytes(data[:8].tobytes(), "little")
            header = json.loads(data[8:start].tobytes())
            header.pop("__metadata__", None)
            pairs = set(json.loads(self.metadata.get("complex", "[]")))
            self.arrays = {k: _stored(k, entry, data[start:], k in pairs, name) for k, entry in header.items()}
            found = self.metadata.get(STRUCTURE)
            plain = {"dict": [[k, {"tensor": k}] for k in self.arrays]}
            self.structure: Any = plain if found is None else json.loads(found)


def _stored(name: str, entry: Mapping[str, Any], data: Array, pairs: bool, file: str) -> Stored:
    told, shape = entry["dtype"], tuple(entry["shape"])
    begin, end = entry["data_offsets"]

    def read() -> Array:
        if told not in _NAMES:
            fail(DataError, f"{name} in {file} is of dtype {told}, which arrays cannot hold")
        dtype = little_endian(dtype_in_file(_NAMES[told]))
        with Reading(file):
            found = native(data[begin:end].view(np.ndarray).view(dtype).reshape(shape))
            if pairs:
                found = native(found.view(np.result_type(found.dtype, np.complex64)).reshape(shape[:-1]))
            return found

    if pairs:
        return Stored(shape[:-1], {"F32": "C64", "F64": "C128"}.get(told, told), end - begin, read)
    return Stored(shape, told, end - begin, read)


def load(file: Path, like: Any = None, mmap: bool = False) -> Any:
    """Return what :func:`save` wrote to a file, or a dict of the tensors in a safetensors file of another program.

    Parameters
    ----------
    file: the path.
    like: an object with the structure of what was saved, where that has classes of your own (named tuples,
        dataclasses): no code is run to make them up.
    mmap: read values when they are first used; the file must then stay as it is.

    Raises DataError for a file that is missing, damaged or no safetensors file.

    >>> import tempfile, os, wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "pair.safetensors")
    ...     wg.storage.save(file, (wg.zeros(2), {"name": "line"}))
    ...     wg.storage.load(file)
    (tensor([0., 0.]), {'name': 'line'})
    """
    found = Opened(file, mmap)
    name = os.fspath(file)
    structure = found.structure
    with Reading(name):
        arrays = {k: found.arrays[k].read() for k in dict.fromkeys(k for _, k in names_in(structure))}
        return unpack(structure, arrays, like)
