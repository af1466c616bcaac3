"""Files that PyTorch's `torch.save` wrote, read without PyTorch and without running anything that they hold.

There are two formats. A zip has a pickle, `NAME/data.pkl`, and the elements of each storage, `NAME/data/KEY`. The older
one is a row of pickles (a number, a version, the system, the object, the storages' keys), and the storages after them.
In both a tensor is a call of a function of PyTorch's with a storage, an offset, sizes and strides.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import IO, Any

import numpy as np

from ..core.dtypes import RECORDS
from ..core.errors import DataError, fail
from .files import Array, Budget, Path, Reading, bytes_of, dtype_in_file, native
from .pickles import PLAIN, Callee, Inert, Known, Machine, Value, checked_size, shown

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
# That number in a pickle, with which files of the older format begin, after a few bytes that tell the protocol.
LEGACY_START = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"

# The classes of storage that name a dtype in files; of the others the tensor says which one it is.
STORAGES = {record.name: record.storage for record in RECORDS.values() if record.storage}
UNTYPED = tuple(record.name for record in RECORDS.values() if record.storage == "")
_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}


class DTypeName(str):
    """The name of a dtype: a dtype may need a package that is missing, and is made when an array is."""

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return RECORDS[self].itemsize

    def dtype(self) -> np.dtype[Any]:
        """Return the dtype. Raises DataError where it needs a package that is missing."""
        return dtype_in_file(self)  # type: ignore[no-any-return]


class Storage:
    """The elements of tensors: where they stand in a file, and of which dtype they are (None: untyped bytes).

    `read` gives the bytes of the memory called `key`, in which the elements begin at `start`.
    """

    __slots__ = ("dtype", "count", "read", "key", "start")

    def __init__(
        self, dtype: DTypeName | None, count: int, read: Callable[[], Array], key: str, start: int = 0
    ) -> None:
        self.dtype, self.count, self.read, self.key, self.start = dtype, count, read, key, start

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.count * (self.dtype.itemsize if self.dtype is not None else 1)


class Makers:
    """The makers of the parts of a file: NumPy arrays here, tensors in a subclass."""

    def tensor(self, array: Array, requires_grad: bool, memory: Array) -> Any:
        """Return a tensor of an array. It lies in `memory`, one object for all tensors that share it; else a copy."""
        return np.ascontiguousarray(array).reshape(array.shape)

    def parameter(self, tensor: Any, requires_grad: bool) -> Any:
        """Return a parameter."""
        return tensor

    def size(self, sizes: tuple[int, ...]) -> Any:
        """Return a shape."""
        return sizes

    def dtype(self, dtype: DTypeName) -> Any:
        """Return a dtype."""
        return dtype.dtype()

    def device(self, name: str) -> Any:
        """Return a device."""
        return name


class _Builder:
    """The callees of a file's pickle."""

    def __init__(self, name: str, makers: Makers, budget: Budget, big_endian: bool = False, dry: bool = False) -> None:
        self.name, self.makers, self.budget, self.big_endian, self.dry = name, makers, budget, big_endian, dry
        # By key and dtype, the elements of memories.
        self.memories: dict[tuple[str, DTypeName], Array] = {}
        self.known: dict[str, Any] = dict(PLAIN)
        for dtype in (*STORAGES, *UNTYPED):
            self.known[f"torch.{dtype}"] = Value(partial(makers.dtype, DTypeName(dtype)))
        for alias, dtype in _ALIASES.items():
            self.known[f"torch.{alias}"] = self.known[f"torch.{dtype}"]
        for dtype, storage in STORAGES.items():
            self.known[f"torch.{storage}"] = Callee(f"torch.{storage}", None, DTypeName(dtype))
        for untyped in ("torch.storage.UntypedStorage", "torch.UntypedStorage"):
            self.known[untyped] = Callee(untyped, None)
        calls: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor": self.tensor,
            "torch._utils._rebuild_tensor_v2": self.tensor,
            "torch._utils._rebuild_tensor_v3": self.tensor_of_dtype,
            "torch._utils._rebuild_parameter": self.parameter,
            "torch._utils._rebuild_parameter_with_state": self.parameter,
            "torch._tensor._rebuild_from_type_v2": self.of_type,
            "torch._tensor._rebuild_from_type": self.of_type,
            "torch.Size": lambda sizes=(): makers.size(tuple(self.sizes(sizes))),
            "torch.device": lambda kind, index=None: makers.device(_device(kind, index)),
            "torch.serialization._get_layout": shown,
        }
        for path, make in calls.items():
            self.known[path] = Callee(path, (lambda *a, **k: None) if dry else make)
        self.known["torch.Tensor"] = Callee("torch.Tensor", None)
        for path in ("torch.nn.parameter.Parameter", "torch.nn.Parameter"):
            self.known[path] = Callee(path, (lambda *a: None) if dry else self.parameter, "parameter")

    def sizes(self, given: Any) -> tuple[int, ...]:
        """Return a checked shape."""
        checked_size(given, self.name)
        return tuple(given)

    def tensor(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any = False,
        hooks: Any = None,
        metadata: Any = None,
    ) -> Any:
        """Return a tensor of a storage that knows its dtype."""
        if not isinstance(storage, Storage) or storage.dtype is None:
            fail(DataError, f"{self.name} is damaged: a tensor has no storage")
        array, memory = self.array(storage, storage.dtype, offset, size, stride)
        if isinstance(metadata, dict) and metadata.get("conj"):
            array = np.conj(array)
        if isinstance(metadata, dict) and metadata.get("neg"):
            array = np.negative(array)
        return self.makers.tensor(array, bool(requires_grad), memory)

    def tensor_of_dtype(
        self,
        storage: Any,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any,
        hooks: Any,
        dtype: Any,
        metadata: Any = None,
    ) -> Any:
        """Return a tensor of untyped bytes."""
        plain = getattr(dtype, "dtype", dtype)  # a namespace has dtypes of its own, by `makers`
        if not isinstance(storage, Storage) or not isinstance(plain, np.dtype) or plain.kind not in "biufcV":
            fail(DataError, f"{self.name} is damaged: a tensor has no storage or no dtype")
        array, memory = self.array(storage, DTypeName(plain.name), offset, size, stride)
        return self.makers.tensor(array, bool(requires_grad), memory)

    def parameter(self, data: Any = None, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Any:
        """Return a parameter."""
        return self.makers.parameter(data, bool(requires_grad))

    def of_type(self, make: Any, cls: Any, args: Any, state: Any = None) -> Any:
        """Return a tensor of one of PyTorch's two classes of them; attributes that it had are left out."""
        known = isinstance(make, Callee) and make.make is not None and isinstance(cls, (Callee, type))
        if not known or type(args) is not tuple:
            fail(DataError, f"{self.name} is damaged: a tensor of a class of its own makes no sense")
        if not make.name.startswith("torch._utils._rebuild"):
            fail(DataError, f"{self.name} asks {make.name[:80]} for a tensor")
        found = make.make(*args)
        return self.makers.parameter(found, True) if getattr(cls, "kind", None) == "parameter" else found

    def array(self, storage: Storage, dtype: DTypeName, offset: Any, size: Any, stride: Any) -> tuple[Array, Array]:
        """Return the elements that a storage has at an offset, with sizes and strides in elements, and its memory."""
        shape, width = self.sizes(size), dtype.itemsize
        strides = tuple(stride) if isinstance(stride, (tuple, list)) else None
        if strides is None or len(strides) != len(shape):
            fail(DataError, f"{self.name} has a tensor of shape {shape} with strides {shown(stride)}")
        if not all(type(n) is int and 0 <= n < 1 << 48 for n in (*strides, offset)):
            fail(DataError, f"{self.name} has a tensor with strides {shown(strides)}, offset {shown(offset)}")
        count = checked_size(shape, self.name)
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides)) if count else -1
        if count and (last + 1) * width > storage.nbytes:
            fail(
                DataError,
                f"{self.name} has a tensor of shape {shape}, strides {strides}, offset {offset} that goes beyond "
                f"its storage of {storage.nbytes:,} bytes",
            )
        if count == 0:
            empty = np.zeros(shape, dtype.dtype())
            return empty, empty
        memory = self.memory(storage, dtype)
        first = storage.start // width + offset
        if storage.start % width:
            fail(DataError, f"{self.name} has a part of a storage that begins inside of an element")
        if _is_packed(shape, strides):
            return memory[first : first + last - offset + 1].reshape(shape), memory
        # Elements may be repeated without end: what is computed with them takes the memory of all of them.
        self.budget.take(count * width, f"a tensor of shape {shape} in {self.name}")
        part = memory[first : first + last - offset + 1]
        return np.lib.stride_tricks.as_strided(part, shape, [s * width for s in strides]), memory

    def memory(self, storage: Storage, dtype: DTypeName) -> Array:
        """Return all elements of the memory that a storage lies in, the same array each time."""
        found = self.memories.get((storage.key, dtype))
        if found is not None:
            return found
        data, kind, width = storage.read(), dtype.dtype(), dtype.itemsize
        if len(data) < storage.start + storage.nbytes:
            fail(DataError, f"{self.name} is truncated: a storage of {storage.nbytes:,} bytes has {len(data):,}")
        if kind.kind != "V" and kind.kind != "b":
            kind = kind.newbyteorder(">" if self.big_endian else "<")
        elif self.big_endian and width > 1:
            fail(DataError, f"{self.name} has {dtype} in big-endian order, which is not read")
        whole = data[: len(data) // width * width].view(np.ndarray).view(kind)
        if not whole.dtype.isnative:
            self.budget.take(whole.nbytes, f"a storage in {self.name}")
        found = self.memories[storage.key, dtype] = native(whole)
        return found


def _is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for n, s in zip(reversed(shape), reversed(strides)):
        if n != 1 and s != step:
            return False
        step *= n
    return True


def _device(kind: Any, index: Any) -> str:
    if not isinstance(kind, str) or not (index is None or type(index) is int):
        fail(DataError, "a device without a name")
    return kind[:40] if index is None else f"{kind[:40]}:{index % 1000}"


def is_legacy(start: bytes) -> bool:
    """Return whether a file begins as those of the older format do."""
    return start[:1] == b"\x80" and LEGACY_START in start[:32]


def load_torch(
    file: Path | IO[bytes],
    makers: Makers | None = None,
    mmap: bool = False,
    limit: int | None = None,
    trusted: Known | None = MappingProxyType({}),
    machine: Callable[..., Any] = Machine,
) -> Any:
    """Return what `torch.save` wrote to a file, in either format.

    Parameters
    ----------
    file: a path, or a file that is open for reading bytes.
    makers: what tensors, parameters, shapes, dtypes and devices become: NumPy arrays and plain values.
    mmap: map the file into memory, and read elements when they are needed. Checksums are not compared then.
    limit: the bytes of memory that the contents may take beyond the file's own.
    trusted: classes by dotted name that may be made too; None for a `machine` that makes all.
    machine: what reads the pickle.

    Raises DataError for a file that is missing, damaged or hostile, or asks for a name that is not known.
    """
    is_path = isinstance(file, (str, os.PathLike))
    name = os.fspath(file) if is_path else str(getattr(file, "name", "the file"))  # type: ignore[arg-type]
    with Reading(name):
        if is_path:
            data = bytes_of(file, mmap)  # type: ignore[arg-type]
            begin = 0
        else:
            begin = file.tell() if file.seekable() else 0  # type: ignore[union-attr]
            data = np.frombuffer(file.read(), np.uint8)  # type: ignore[union-attr]
        budget = Budget(data.size, limit)
        start = data[:32].tobytes()
        if start[:4] == b"PK\x03\x04":
            return _Zip(name, data, mmap).load(makers or Makers(), budget, trusted, machine)
        if is_legacy(start):
            found, end = _legacy(name, data, makers or Makers(), budget, trusted, machine)
            if not is_path and file.seekable():  # type: ignore[union-attr]
                file.seek(begin + end)  # type: ignore[union-attr]
            return found
        told = "an old tar file of PyTorch" if data[257:262].tobytes() == b"ustar" else "no file of torch.save"
        return fail(DataError, f"{name} is {told}: it begins with {start[:8].hex(' ') or 'nothing'}")


class Bytes(io.RawIOBase):
    """A file of bytes in memory, which are not copied."""

    def __init__(self, data: Array) -> None:
        self.data, self.position = data, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = max(0, offset + (0, self.position, self.data.size)[whence])
        return self.position

    def readinto(self, buffer: Any) -> int:
        part = self.data[self.position : self.position + len(buffer)]
        buffer[: part.size] = part.tobytes()
        self.position += part.size
        return int(part.size)


def members(archive: zipfile.ZipFile, name: str, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members of a zip by name. Raises DataError for names that are none, and members that overlap."""
    found: dict[str, zipfile.ZipInfo] = {}
    packed = 0
    for info in archive.infolist():
        parts = info.filename.split("/")
        if ".." in parts or parts[0] == "" or "\\" in info.filename or ":" in parts[0]:
            fail(DataError, f"{name} has a member with the name {info.filename[:80]!r}")
        if info.filename in found:
            fail(DataError, f"{name} has two members with the name {info.filename[:80]!r}")
        if info.flag_bits & 1:
            fail(DataError, f"{name} is encrypted")
        packed += info.compress_size
        found[info.filename] = info
    if packed > size:
        fail(DataError, f"{name} is damaged: its members take {packed:,} of {size:,} bytes, so that some overlap")
    return found


class _Zip:
    """A zip of PyTorch's."""

    def __init__(self, name: str, data: Array, mmap: bool) -> None:
        self.name, self.data, self.mmap = name, data, mmap
        self.archive = zipfile.ZipFile(io.BufferedReader(Bytes(data)))
        self.members = members(self.archive, name, data.size)
        pickles = [m for m in self.members if m.count("/") == 1 and m.endswith("/data.pkl")]
        if len(pickles) != 1:
            told = "no data.pkl" if not pickles else f"{len(pickles)} files data.pkl"
            fail(DataError, f"{name} is no file of torch.save: it has {told}")
        self.folder = pickles[0].removesuffix("data.pkl")
        self.read: dict[str, Array] = {}

    def bytes(self, path: str) -> Array:
        """Return what a member holds."""
        info = self.members.get(self.folder + path)
        if info is None:
            fail(DataError, f"{self.name} is damaged: it has no {path[:80]}")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            fail(DataError, f"{self.name} is compressed, as torch.save never does", "Unpack it, and zip it without.")
        if not self.mmap:
            return np.frombuffer(self.archive.read(info), np.uint8)
        head = self.data[info.header_offset : info.header_offset + 30].tobytes()
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            fail(DataError, f"{self.name} is damaged: {path[:80]} is not where it should be")
        begin = info.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
        found = self.data[begin : begin + info.file_size]
        if found.size != info.file_size:
            fail(DataError, f"{self.name} is truncated: {path[:80]} ends after {found.size:,} bytes")
        return found

    def storage(self, pid: Any) -> Storage:
        """Return the storage of a persistent id."""
        dtype, key, count = _storage_id(pid, self.name)
        info = self.members.get(f"{self.folder}data/{key}")
        found = Storage(dtype, count, lambda: self.elements(key), key)
        if info is None or info.file_size < found.nbytes:
            has = "is missing" if info is None else f"has {info.file_size:,}"
            fail(DataError, f"{self.name} is truncated: the storage {key[:40]} of {found.nbytes:,} bytes {has}")
        return found

    def elements(self, key: str) -> Array:
        """Return the bytes of a storage, read once."""
        if key not in self.read:
            self.read[key] = self.bytes(f"data/{key}")
        return self.read[key]

    def load(self, makers: Makers, budget: Budget, trusted: Known | None, machine: Callable[..., Any]) -> Any:
        """Return the object."""
        if f"{self.folder}constants.pkl" in self.members:
            fail(DataError, f"{self.name} is a TorchScript program, not a file of torch.save", "Save its state_dict().")
        big = f"{self.folder}byteorder" in self.members and self.bytes("byteorder").tobytes() == b"big"
        builder = _Builder(self.name, makers, budget, big)
        pickled = self.bytes("data.pkl").tobytes()
        return machine(pickled, builder.known, self.name, self.storage, 0, trusted).load()


def _storage_id(pid: Any, name: str) -> tuple[DTypeName | None, str, int]:
    if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
        fail(DataError, f"{name} refers to {shown(pid)}, which is no storage")
    _, kind, key, _, count = pid[:5]
    if not isinstance(kind, Callee) or not isinstance(key, (str, int)) or type(count) is not int or count < 0:
        fail(DataError, f"{name} has a storage that makes no sense: {shown(key)}")
    if count >= 1 << 48:
        fail(DataError, f"{name} has a storage of {shown(count)} elements")
    if kind.kind is not None and not isinstance(kind.kind, DTypeName):
        fail(DataError, f"{name} has a storage of class {kind.name[:60]}")
    return kind.kind, str(key)[:80], count


def _legacy(
    name: str, data: Array, makers: Makers, budget: Budget, trusted: Known | None, machine: Callable[..., Any]
) -> tuple[Any, int]:
    """Return the object of a file of the older format, and where it ends.

    What a tensor refers to stands after the pickle of the object: that is read once for the storages' sizes, the
    storages are found, and it is read again.
    """
    raw = data.tobytes()
    position = 0

    def plain() -> Any:
        nonlocal position
        reader = Machine(raw, PLAIN, name, None, position)
        found = reader.load()
        position = reader.position
        return found

    magic, version, system = plain(), plain(), plain()
    if magic != MAGIC or version != VERSION or not isinstance(system, Mapping):
        fail(DataError, f"{name} is of version {shown(version)} of PyTorch's format, which is not known")
    sizes: dict[str, tuple[DTypeName | None, int]] = {}

    def note(pid: Any) -> Storage:
        dtype, key, count = _storage_id(pid, name)
        if sizes.setdefault(key, (dtype, count)) != (dtype, count):
            fail(DataError, f"{name} is damaged: the storage {key} has two sizes")
        return Storage(dtype, count, lambda: data, key)

    first = position
    inert = dict.fromkeys(trusted, Inert) if trusted is not None else _Any()
    dry = Machine(raw, _Builder(name, makers, budget, dry=True).known, name, note, first, inert)
    dry.load()
    position = dry.position
    keys = plain()
    if not isinstance(keys, list) or {str(k) for k in keys} - set(sizes) or len(set(map(str, keys))) != len(keys):
        fail(DataError, f"{name} is damaged: its storages are not those of its tensors")
    big = system.get("little_endian") is False
    places: dict[str, Array] = {}
    for key in map(str, keys):
        dtype, count = sizes[key]
        told = int.from_bytes(raw[position : position + 8], "big" if big else "little", signed=True)
        nbytes = count * (dtype.itemsize if dtype is not None else 1)
        if told != count:
            fail(DataError, f"{name} is damaged: the storage {key} has {told} elements where {count} were told")
        if position + 8 + nbytes > len(raw):
            fail(DataError, f"{name} is truncated: the storage {key} of {nbytes:,} bytes is not all there")
        places[key] = data[position + 8 : position + 8 + nbytes]
        position += 8 + nbytes

    def storage(pid: Any) -> Storage:
        dtype, key, count = _storage_id(pid, name)
        if key not in places:
            fail(DataError, f"{name} is truncated: the storage {key} is missing")
        offset = 0
        if len(pid) == 6 and pid[5] is not None:
            # A part of another storage: its key, its offset and its number of elements.
            if type(pid[5]) is not tuple or len(pid[5]) != 3 or not all(type(n) is int for n in pid[5][1:]):
                fail(DataError, f"{name} has a part of a storage that makes no sense")
            _, at, part = pid[5]
            if not 0 <= at <= at + part <= count:
                fail(DataError, f"{name} has a part of a storage that goes beyond it")
            offset, count = at * (dtype.itemsize if dtype is not None else 1), part
        return Storage(dtype, count, lambda: places[key], key, offset)

    builder = _Builder(name, makers, budget, big)
    found = machine(raw, builder.known, name, storage, first, trusted).load()
    return found, position


class _Any(dict[str, Any]):
    """A mapping in which every name stands for something inert."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        return Inert

    def get(self, name: str, default: Any = None) -> Any:
        """Return what is inert."""
        return Inert
