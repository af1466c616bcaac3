"""NumPy's `.npy` and `.npz` files, and the `.npz` that Keras writes, read without running anything that they hold."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..core.errors import DataError, fail
from .files import Array, Budget, Path, Reading, Staged, Stored, bytes_of, native
from .pickles import PLAIN, Machine, checked_size
from .torch_files import Bytes, members

NPY = b"\x93NUMPY"
# A header longer than this describes no array of numbers.
_LONGEST_HEADER = 10_000


def _header(data: bytes, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, whether in Fortran's order, dtype, and where the elements begin."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        fail(DataError, f"{name} is of version {version} of NumPy's format, which is not read")
    shape, fortran, dtype = readers[version](file, max_header_size=_LONGEST_HEADER)
    checked_size(shape, name)
    return shape, fortran, dtype, file.tell()


def _values(data: Array, name: str) -> Array:
    shape, fortran, dtype, start = _header(data[: _LONGEST_HEADER + 128].tobytes(), name)
    if dtype.hasobject:
        # Keras keeps a layer's variables in a pickled dict.
        return np.asarray(Machine(data[start:].tobytes(), PLAIN, name).load(), dtype=object)
    if math.prod(shape) * dtype.itemsize != data.size - start:
        fail(DataError, f"{name} has {data.size - start:,} bytes where shape {shape} of {dtype} needs another number")
    found = data[start:].view(np.ndarray).view(dtype) if math.prod(shape) else np.zeros(0, dtype)
    return native(found.reshape(shape, order="F" if fortran else "C"))


def open_npy(file: Path, mmap: bool = True) -> dict[str, Stored]:
    """Return the array of a `.npy` file, under the name "array"."""
    name = os.fspath(file)
    with Reading(name):
        data = bytes_of(file, mmap)
        shape, _, dtype, start = _header(data[: _LONGEST_HEADER + 128].tobytes(), name)
        if dtype.hasobject:
            fail(DataError, f"{name} is an array of Python objects, which are not loaded")

        def read() -> Array:
            with Reading(name):
                return _values(data, name)

        return {"array": Stored(shape, dtype.name, data.size - start, read)}


def open_npz(file: Path, mmap: bool = True, limit: int | None = None) -> dict[str, Stored]:
    """Return the arrays of a `.npz` file by name; what Keras keeps in dicts by the names in them."""
    name = os.fspath(file)
    with Reading(name):
        data = bytes_of(file, mmap)
        archive = zipfile.ZipFile(io.BufferedReader(Bytes(data)))
        budget = Budget(data.size, limit)
        found: dict[str, Stored] = {}
        for path, info in members(archive, name, data.size).items():
            if not path.endswith(".npy"):
                fail(DataError, f"{name} has the member {path[:80]!r}, which is no array")
            with archive.open(info) as member:
                start = member.read(_LONGEST_HEADER + 128)
            shape, _, dtype, begin = _header(start, f"{path} in {name}")
            key = path.removesuffix(".npy")
            if dtype.hasobject:
                for inner, array in _nested(key, _member(archive, info, name, budget)):
                    found[inner] = Stored(array.shape, array.dtype.name, array.nbytes, _given(array))
            else:
                found[key] = Stored(shape, dtype.name, info.file_size - begin, _reader(archive, info, name, budget))
        return found


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, budget: Budget) -> Array:
    budget.take(info.file_size, f"{info.filename[:80]} in {name}")
    data = archive.read(info)
    return _values(np.frombuffer(data, np.uint8), f"{info.filename[:80]} in {name}")


def _reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, budget: Budget) -> Any:
    def read() -> Array:
        with Reading(name):
            return _member(archive, info, name, budget)

    return read


def _given(array: Array) -> Any:
    return lambda: array


def _nested(key: str, array: Array) -> Iterator[tuple[str, Array]]:
    inside = array.item() if array.shape == () else None
    if isinstance(inside, np.ndarray) and inside.shape == ():
        inside = inside.item()
    if not isinstance(inside, Mapping) or not all(isinstance(v, np.ndarray) for v in inside.values()):
        fail(DataError, f"{key[:80]} is an array of Python objects, which are not loaded")
    for name, value in inside.items():
        if value.dtype.hasobject:
            fail(DataError, f"{key[:80]} is an array of Python objects, which are not loaded")
        yield f"{key}/{name}", value


def write_npz(file: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name to a `.npz` file. Raises DataError where it cannot be written, or has no such dtype."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biufc":
            fail(DataError, f"{name} is of dtype {array.dtype}, which NumPy's files do not have", "Convert it first.")
    with Staged(file) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
