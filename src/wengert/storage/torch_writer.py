"""Files that PyTorch's `torch.load` reads, written without PyTorch: a zip with a pickle and the storages' elements."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from ..core.dtypes import is_known, record_of
from ..core.elsewhere import SAVING
from ..core.errors import DataError, fail
from ..core.storage import address, bounds, is_shared, laid_as, laid_in, storage_of, window_of
from ..core.tensor import Tensor
from .files import Array, little_endian
from .torch_files import MAGIC, STORAGES, UNTYPED, VERSION

# Elements begin at a multiple of so many bytes, so that a file mapped into memory can be used as it is.
_ALIGNMENT = 64
_HEADER = 30
_EXTRA = 4
# Sizes from here on have 20 bytes more in the header, which `zipfile` puts first.
_ZIP64 = zipfile.ZIP64_LIMIT // 2


_PLAIN = frozenset({str, int, float, bool, type(None), dict, list, tuple, bytes, OrderedDict})


class Global:
    """A name of PyTorch's, written as such: there is nothing of that name here."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"{self.module}.{self.name} stands in files only")


class _Storage:
    """The elements of an array on their way to a file."""

    def __init__(self, kind: Global, key: str, count: int) -> None:
        self.pid = ("storage", kind, key, "cpu", count)


_GLOBALS: dict[tuple[str, str], Global] = {}


def torch_name(module: str, name: str) -> Global:
    """Return the object that stands for a name of PyTorch's: one for each, so that a pickle tells it once."""
    return _GLOBALS.setdefault((module, name), Global(module, name))


def dtype_name(dtype: Any) -> str:
    """Return PyTorch's name of a dtype. Raises DataError where it has none."""
    if not is_known(dtype) or record_of(dtype).storage is None:
        fail(DataError, f"PyTorch has no dtype {dtype}")
    return record_of(dtype).name


class _NumPysDType:
    """A dtype inside one of NumPy's arrays: there it is NumPy's, elsewhere in a file PyTorch's."""

    def __init__(self, dtype: Any) -> None:
        self.reduced = dtype.__reduce__()


# The one written in Python, which writes names by a method.
_Base: Any = pickle._Pickler


class Pickler(_Base):  # type: ignore[misc]
    """Python's pickler, which writes tensors as PyTorch does and collects their elements.

    `reducers` has more classes, each with a function that tells how an object is rebuilt; `names` the globals that are
    written under PyTorch's names.
    """

    def __init__(
        self,
        file: IO[bytes],
        protocol: int,
        reducers: Mapping[type, Callable[[Any], Any]],
        names: Mapping[Any, Global],
        legacy: bool,
    ) -> None:
        super().__init__(file, protocol)
        # The older format has a place for the part of another storage that one is.
        self._more = (None,) if legacy else ()
        self.arrays: dict[str, Array] = {}
        self._reducers, self._names = reducers, names
        self._kinds = {type(known) for known in names}
        # By identity, what holds memory: it has to live as long as its number stands here.
        self._storages: dict[int, tuple[Any, _Storage, str]] = {}

    def persistent_id(self, obj: Any) -> Any:
        return (*obj.pid, *self._more) if isinstance(obj, _Storage) else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in _PLAIN:
            return NotImplemented
        for cls in type(obj).__mro__:
            if cls in self._reducers:
                return self._reducers[cls](obj)
        if isinstance(obj, Tensor):
            return self.tensor(obj)
        if isinstance(obj, _NumPysDType):
            return obj.reduced
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            reduced: Any = obj.__reduce__()
            rebuild, args, state = reduced
            return rebuild, args, (*state[:2], _NumPysDType(state[2]), *state[3:])
        if isinstance(obj, np.generic):
            scalar: Any = obj.__reduce__()
            rebuild, args = scalar[:2]
            return rebuild, (_NumPysDType(args[0]), *args[1:])
        return NotImplemented

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        """Write an object. Names of PyTorch's are not looked up, as they are not here."""
        found = obj if isinstance(obj, Global) else self._name_of(obj)
        if found is None:
            return super().save(obj, save_persistent_id)
        known = self.memo.get(id(found))
        if known is not None:
            self.write(self.get(known[0]))
            return None
        self.write(pickle.GLOBAL + f"{found.module}\n{found.name}\n".encode())
        self.memoize(found)
        return None

    def _name_of(self, obj: Any) -> Global | None:
        if isinstance(obj, np.dtype):
            return torch_name("torch", dtype_name(obj))
        return self._names.get(obj) if type(obj) in self._kinds else None

    def tensor(self, x: Tensor) -> Any:
        """Return how a tensor is rebuilt: tensors that share memory are parts of one storage."""
        owner = x.owner if x.is_name else x  # type: ignore[attr-defined]
        window = window_of(owner)
        shared = storage_of(owner) if type(window) is np.ndarray and is_shared(owner) else None
        array = np.asarray(x.detach()._value(SAVING)) if shared is None else window
        name, width = dtype_name(array.dtype), array.itemsize
        if shared is None:
            memory, steps = _packed(array)
            held, start = self.storage(owner, memory, name), 0
        else:
            low, high = bounds(shared.whole)
            place = low - address(shared.whole)
            memory = laid_in(shared, array.dtype, ((high - low) // width,), (width,), place)
            held = self.storage(shared, memory, name)
            start, steps = address(array) - low if array.size else 0, array.strides
        if start % width or any(step < 0 or step % width for step in steps):
            fail(DataError, f"a tensor of dtype {name} begins inside of an element", "Save a copy of it, x.clone().")
        strides = tuple(step // width for step in steps)
        args: Any = (held, start // width, tuple(array.shape), strides, bool(x.requires_grad), OrderedDict())
        if name in UNTYPED:
            return torch_name("torch._utils", "_rebuild_tensor_v3"), (*args, torch_name("torch", name))
        return torch_name("torch._utils", "_rebuild_tensor_v2"), args

    def storage(self, holder: Any, memory: Array, name: str) -> _Storage:
        """Return the storage in the file of the memory that an object holds: one for all that lies in it."""
        found = self._storages.get(id(holder))
        if found is not None:
            if found[2] != name:
                fail(
                    DataError,
                    f"tensors of dtypes {found[2]} and {name} share memory",
                    "A file of PyTorch's has one dtype for a memory. Save one of them, or a copy, x.clone().",
                )
            return found[1]
        key = str(len(self.arrays))
        untyped = name in UNTYPED
        kind = torch_name("torch.storage", "UntypedStorage") if untyped else torch_name("torch", STORAGES[name])
        made = _Storage(kind, key, memory.nbytes if untyped else memory.size)
        self.arrays[key] = memory
        self._storages[id(holder)] = holder, made, name
        return made


def _packed(array: Array) -> tuple[Array, tuple[int, ...]]:
    """Return a tensor's elements without gaps, and the strides in bytes that it has in them."""
    order = sorted(range(array.ndim), key=lambda i: -abs(array.strides[i]))
    turned = array.transpose(order)
    if turned.flags.c_contiguous:
        return turned, laid_as(array)
    packed = np.ascontiguousarray(array).reshape(array.shape)
    return packed, laid_as(packed)


def _elements(array: Array) -> memoryview:
    packed = np.ascontiguousarray(array)
    if packed.dtype.kind in "iufc" and packed.dtype.itemsize > 1 and sys.byteorder == "big":
        packed = packed.astype(little_endian(packed.dtype))
    flat: Any = packed.reshape(-1).view(np.uint8)
    return memoryview(flat) if packed.size else memoryview(b"")


def dump(
    value: Any,
    file: IO[bytes],
    folder: str = "archive",
    protocol: int = 2,
    legacy: bool = False,
    reducers: Mapping[type, Callable[[Any], Any]] | None = None,
    names: Mapping[Any, Global] | None = None,
) -> None:
    """Write a value to an open file, as a zip with a folder of that name, or in the older format.

    Raises DataError for a dtype that PyTorch does not have, pickle's errors for what cannot be pickled.
    """
    pickled = io.BytesIO()
    pickler = Pickler(pickled, protocol, reducers or {}, names or {}, legacy)
    pickler.dump(value)
    if legacy:
        _write_legacy(file, pickled.getvalue(), pickler, protocol)
        return
    crc = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _member(archive, f"{folder}/data.pkl", memoryview(pickled.getvalue()))
        _member(archive, f"{folder}/byteorder", memoryview(b"little"))
        for key, array in pickler.arrays.items():
            data = _elements(array)
            crc = zlib.crc32(data, crc)
            _member(archive, f"{folder}/data/{key}", data)
        _member(archive, f"{folder}/version", memoryview(b"3\n"))
        told = f"{zlib.crc32(pickled.getvalue()):020d}{crc:020d}"
        _member(archive, f"{folder}/.data/serialization_id", memoryview(told.encode()))


def _member(archive: zipfile.ZipFile, name: str, data: memoryview) -> None:
    info = zipfile.ZipInfo(name)
    assert archive.fp is not None
    large = len(data) >= _ZIP64
    header = archive.fp.tell() + _HEADER + len(name.encode()) + _EXTRA + (20 if large else 0)
    padding = -header % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    info.file_size = len(data)
    with archive.open(info, "w", force_zip64=large) as member:
        for start in range(0, len(data), 1 << 24):
            member.write(data[start : start + (1 << 24)])


def _write_legacy(file: IO[bytes], pickled: bytes, pickler: Pickler, protocol: int) -> None:
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": VERSION, "little_endian": True, "type_sizes": sizes}
    for part in (MAGIC, VERSION, system):
        pickle.dump(part, file, protocol)
    file.write(pickled)
    keys = sorted(pickler.arrays)
    pickle.dump(keys, file, protocol)
    for key in keys:
        array = pickler.arrays[key]
        untyped = dtype_name(array.dtype) in UNTYPED
        file.write(struct.pack("<q", array.nbytes if untyped else array.size))
        file.write(_elements(array))
