"""Files of the safetensors format: nested containers of tensors go in and come back.

A file is the length of its header in 8 bytes, the header (JSON: dtype, shape and place of each tensor, and texts), and
the data, which the tensors fill without gaps (https://github.com/huggingface/safetensors).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
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

_TEXTS = "__metadata__"
_NAMES = {record.safetensors: record.name for record in RECORDS.values() if record.safetensors}
# Bytes of a header, and the numbers to whose multiples data are aligned.
_LONGEST, _ALIGNED = 100_000_000, 8


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
    told = {**_FORMAT, **(metadata or {})}
    if _TEXTS in arrays:
        fail(DataError, f"an array with the name {_TEXTS!r}", "The format has that name for texts: choose another.")
    pairs = [name for name, a in arrays.items() if a.dtype.kind == "c"]
    if pairs:
        told["complex"] = json.dumps(pairs)
    made = {
        name: np.ascontiguousarray(a).view(a.real.dtype).reshape(*a.shape, 2) if a.dtype.kind == "c" else _plain(a)
        for name, a in arrays.items()
    }
    # The widest first: then each begins at a multiple of its elements' size.
    names = sorted(made, key=lambda name: (-made[name].dtype.itemsize, name))
    header: dict[str, Any] = {_TEXTS: told}
    end = 0
    for name in names:
        begin, end = end, end + made[name].nbytes
        dtype = RECORDS[made[name].dtype.name].safetensors
        header[name] = {"dtype": dtype, "shape": list(made[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNED)
    if len(text) > _LONGEST:
        fail(DataError, f"a header of {len(text):,} bytes", f"The format allows {_LONGEST:,}.")
    with Staged(file) as temporary:
        try:
            with open(temporary, "wb") as opened:
                opened.write(len(text).to_bytes(8, "little") + text)
                for name in names:
                    opened.write(made[name].reshape(-1).view(np.uint8).data)
        except OSError as e:
            not_written(os.fspath(file), e)


def _plain(a: Array) -> Array:
    # `ascontiguousarray` gives an array without axes one.
    made = np.array(a, order="C") if not a.flags.c_contiguous or not isinstance(a, np.ndarray) else a
    return made.astype(little_endian(made.dtype), copy=False)


class Opened:
    """A safetensors file: its arrays, and its metadata."""

    def __init__(self, file: Path, mmap: bool = True) -> None:
        name = os.fspath(file)
        with Reading(name):
            data = bytes_of(name, mmap)
            start, header = _header(data)
            self.metadata: dict[str, str] = header.pop(_TEXTS, {})
            _check_metadata(self.metadata)
            _check_places(header, len(data) - start)
            pairs = set(json.loads(self.metadata.get("complex", "[]")))
            self.arrays = {k: _stored(k, entry, data[start:], k in pairs, name) for k, entry in header.items()}
            found = self.metadata.get(STRUCTURE)
            plain = {"dict": [[k, {"tensor": k}] for k in self.arrays]}
            self.structure: Any = plain if found is None else json.loads(found)


def _header(data: Array) -> tuple[int, dict[str, Any]]:
    """Return where a file's data begin, and its header. Raises ValueError."""
    size = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or size > min(len(data) - 8, _LONGEST):
        raise ValueError(f"a header of {size:,} bytes in a file of {len(data):,}")
    header = json.loads(data[8 : 8 + size].tobytes().decode(), object_pairs_hook=_once)
    if not isinstance(header, dict):
        raise ValueError("its header is no table of names")
    return 8 + size, header


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries of a table whose names differ. Raises ValueError."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("its header has a name twice")
    return found


def _check_metadata(texts: Any) -> None:
    """Raise ValueError unless metadata are texts by name."""
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("its metadata are no texts")


def _check_places(header: Mapping[str, Any], nbytes: int) -> None:
    """Raise ValueError or KeyError unless a header's tensors fill the data without gaps and each has its size."""
    places = []
    for name, entry in header.items():
        shape, place, told = entry["shape"], entry["data_offsets"], entry["dtype"]
        numbers = [*shape, *place]
        if len(place) != 2 or not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers) or type(told) is not str:
            raise ValueError(f"the entry of {name!r} is no dtype, shape and place")
        if told in _NAMES and place[1] - place[0] != math.prod(shape) * dtype_in_file(_NAMES[told]).itemsize:
            raise ValueError(f"{name!r} of {told}{shape} has {place[1] - place[0]:,} bytes")
        places.append(tuple(place))
    end = 0
    for begin, after in sorted(places):
        if begin != end or after < begin:
            raise ValueError(f"its tensors leave a gap or overlap at byte {min(begin, end):,} of the data")
        end = after
    if end != nbytes:
        raise ValueError(f"its tensors have {end:,} bytes, and the file {nbytes:,}")


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
