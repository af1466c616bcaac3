"""`torch.save` and `torch.load`: PyTorch's files, written and read without PyTorch.

`load` runs nothing that a file holds unless it is told to with `weights_only=False`.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import IO, Any

from ..core.errors import DataError, fail
from ..core.state.locks import lock
from ..core.storage import Storage, lies_in, over, place
from ..core.tensor import Tensor as Plain
from ..core.tensor import asarray, of_class
from ..nn.parameter import Parameter as PlainParameter
from ..storage.files import Array, Staged
from ..storage.pickles import Callee, Machine, Value
from ..storage.torch_files import DTypeName, Makers, load_torch
from ..storage.torch_writer import Global, dump, torch_name
from .absent import names_of
from .dtypes import DTYPES, dtype_named
from .namespace import function
from .nn.parameter import Parameter
from .tensor import Size, Tensor, device, on_cpu

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

Path = str | os.PathLike[str]
FILE_LIKE = Path | IO[bytes]
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None

_NAMES: dict[Any, Global] = {
    Size: torch_name("torch", "Size"),
    device: torch_name("torch", "device"),
    Tensor: torch_name("torch", "Tensor"),
    Plain: torch_name("torch", "Tensor"),
    Parameter: torch_name("torch.nn.parameter", "Parameter"),
}


def _parameter(p: PlainParameter) -> Any:
    data = of_class(Tensor, p.detach())
    return torch_name("torch._utils", "_rebuild_parameter"), (data, bool(p.requires_grad), OrderedDict())


def _device(d: device) -> Any:
    return _NAMES[device], (d.type,) if d.index is None else (d.type, d.index)


_REDUCERS: dict[type, Callable[[Any], Any]] = {
    PlainParameter: _parameter,
    Size: lambda size: (_NAMES[Size], (tuple(size),)),
    device: _device,
}


@function(method=False)
def save(
    obj: Any,
    f: Path | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file that PyTorch reads too: tensors, state dicts, containers of them, whole modules.

    Parameters
    ----------
    obj: what is saved, as pickle does it. Tensors that share memory are written with all of that memory, once, and
        share it when they are read.
    f: a path, or a file that is open for writing bytes. A file at the path is replaced when the new one is complete.
    pickle_module: taken for compatibility; pickles are written here.
    pickle_protocol: of the pickle inside.

    A tensor's history is not saved. PyTorch's `torch.load` reads files of tensors and containers; a module of this
    namespace, saved as a whole, only :func:`load` with `weights_only=False`. Raises pickle's errors for what cannot be
    pickled, DataError where the file cannot be written.

    >>> import io
    >>> import wengert.torch as torch
    >>> file = io.BytesIO()
    >>> torch.save({"w": torch.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    names = {**_NAMES, **{known: torch_name("torch", known.name) for known in DTYPES.values()}}
    given = {"reducers": _REDUCERS, "names": names, "protocol": pickle_protocol}
    given["legacy"] = not _use_new_zipfile_serialization
    if not isinstance(f, (str, os.PathLike)):
        dump(obj, f, **given)  # type: ignore[arg-type]
        return
    folder = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
    with Staged(f) as temporary, open(temporary, "wb") as file:
        dump(obj, file, folder, **given)  # type: ignore[arg-type]


class _Tensors(Makers):
    """The parts of a file as tensors of this namespace."""

    def __init__(self) -> None:
        # By identity, memories and what tensors in them share.
        self._storages: dict[int, tuple[Array, Storage]] = {}

    def tensor(self, array: Array, requires_grad: bool, memory: Array) -> Any:
        made: Any = of_class(Tensor, asarray(array, copy=False))
        if array.size and lies_in(made._array, memory):
            _, shared = self._storages.setdefault(id(memory), (memory, over(memory)))
            place(made, shared)
        return made.requires_grad_() if requires_grad else made

    def parameter(self, tensor: Any, requires_grad: bool) -> Any:
        return Parameter(tensor, requires_grad)

    def size(self, sizes: tuple[int, ...]) -> Any:
        return Size(sizes)

    def dtype(self, dtype: DTypeName) -> Any:
        return dtype_named(dtype.dtype())

    def device(self, name: str) -> Any:
        return device(name)


class _Trusting(pickle.Unpickler):
    """Python's unpickler, which runs what a file asks for; PyTorch's names are those of this namespace."""

    def __init__(
        self, data: bytes, known: Mapping[str, Any], name: str, persistent: Callable[[Any], Any], position: int, _: Any
    ) -> None:
        super().__init__(io.BytesIO(data[position:]))
        self._known, self._name, self._persistent = known, name, persistent

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        classes = {f"{g.module}.{g.name}": c for c, g in _NAMES.items() if c is not Plain}
        path = f"{module}.{name}"
        if path in ("torch.Size", "torch.device") or path not in self._known:
            found = classes.get(path)
            if found is None:
                fail(
                    DataError,
                    f"{self._name} holds an object of PyTorch's class {path[:120]}",
                    "Save what is in it in PyTorch, model.state_dict(), and load that into a model of this namespace.",
                )
            return found
        known = self._known[path]
        if isinstance(known, Value):
            return known.make()
        if isinstance(known, Callee) and path not in classes:
            return known.make or known
        return classes[path]

    def persistent_load(self, pid: Any) -> Any:
        return self._persistent(pid)


def _check_location(map_location: Any) -> None:
    if isinstance(map_location, Mapping):
        for place in map_location.values():
            on_cpu(device(place))
    elif map_location is not None and not callable(map_location):
        on_cpu(device(map_location))


@function(method=False)
def load(
    f: Path | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Return what :func:`save`, or PyTorch's, wrote to a file, in either of PyTorch's formats.

    Parameters
    ----------
    f: a path, or a file that is open for reading bytes.
    map_location: "cpu", a function or a dict: tensors come to the processor, from wherever they were saved.
    pickle_module: taken for compatibility.
    weights_only: True, the default, makes tensors, parameters, containers, numbers, texts, NumPy's arrays, and classes
        given to `torch.serialization.add_safe_globals`; a file that asks for anything else is refused, and nothing of
        it is run. False runs whatever code the file asks for: do so with files that you trust.
    mmap: map the file into memory, and read values when they are needed.

    Raises FileNotFoundError, and DataError for a file that is damaged, hostile, or asks for a name that is not known.

    >>> import io
    >>> import wengert.torch as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> file = io.BytesIO()
    >>> torch.save(model.state_dict(), file)
    >>> _ = file.seek(0)
    >>> model.load_state_dict(torch.load(file, weights_only=True))
    <All keys matched successfully>
    """
    _check_location(map_location)
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(f))
    if weights_only is False:
        return load_torch(f, _Tensors(), bool(mmap), trusted=None, machine=_Trusting)
    return load_torch(f, _Tensors(), bool(mmap), trusted=_trusted(), machine=Machine)


# -- classes that users trust

_lock = lock()
_safe: list[Any] = []


def _trusted() -> dict[str, Any]:
    found = {}
    for one in _safe:
        cls, path = one if isinstance(one, tuple) else (one, f"{one.__module__}.{one.__qualname__}")
        found[path] = cls
    return found


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let :func:`load` make these classes (or `(class, "dotted.name")` pairs) with `weights_only=True`."""
    with _lock:
        _safe.extend(one for one in safe_globals if one not in _safe)


def clear_safe_globals() -> None:
    """Forget the classes given to :func:`add_safe_globals`."""
    with _lock:
        _safe.clear()


def get_safe_globals() -> list[Any]:
    """Return the classes given to :func:`add_safe_globals`."""
    return list(_safe)


class safe_globals:
    """A block in which :func:`load` may make these classes too: `with safe_globals([Config]): ...`."""

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._given, self._before = list(safe_globals), list(_safe)

    def __enter__(self) -> None:
        self._before = get_safe_globals()
        add_safe_globals(self._given)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        with _lock:
            _safe[:] = self._before


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
