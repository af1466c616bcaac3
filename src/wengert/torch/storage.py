"""`storage()` and `untyped_storage()`: what programs ask of the memory below a tensor, its bytes and its elements.

A tensor is a value, so that its storage is its own: what is taken from it has another one, of its own size. It can be
read; what would write to it, or let tensors share it, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.errors import WriteError, fail
from ..core.tensor import Tensor as Plain
from .tensor import CPU, Tensor, device


class UntypedStorage:
    """The bytes of a tensor's present value, in C order: `len(s)` of them, `s[i]` a number from 0 to 255.

    It is made by `x.untyped_storage()`. A write raises WriteError.

    >>> import wengert.torch as torch
    >>> torch.ones(2, dtype=torch.int16).untyped_storage().tolist()
    [1, 0, 1, 0]
    """

    is_cuda = is_hpu = is_sparse = is_sparse_csr = False

    def __init__(self, *args: Any) -> None:
        if len(args) != 1 or not isinstance(args[0], Plain):
            _refuse(f"{type(self).__name__}() of no tensor")
        self._tensor = args[0]
        self._elements = self._read(np.ascontiguousarray(args[0]._value("storage")).reshape(-1))

    def _read(self, values: Any) -> Any:
        return values.view(np.uint8)

    @property
    def device(self) -> device:
        """The device, always the processor."""
        return CPU

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return int(self._elements.nbytes)

    def size(self) -> int:
        """Return the number of elements, which are bytes where the storage has no type."""
        return len(self._elements)

    def __len__(self) -> int:
        return len(self._elements)

    def element_size(self) -> int:
        """Return the number of bytes of an element."""
        return int(self._elements.itemsize)

    def data_ptr(self) -> int:
        """Return the address of the tensor's first element, as long as the value stays."""
        return int(self._tensor._value("data_ptr()").ctypes.data)

    def tolist(self) -> list[Any]:
        """Return the elements as Python's numbers."""
        found: list[Any] = self._elements.tolist()
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        found = self._elements[index]
        return found.item() if isinstance(found, np.generic) else found.tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        _refuse("a write to a tensor's storage")

    def is_shared(self) -> bool:
        """Return False: processes do not share memory that they write to."""
        return False

    def is_pinned(self) -> bool:
        """Return False: there is no other device to copy to."""
        return False

    def cpu(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy."""
        return type(self)(self._tensor.clone())

    def resize_(self, size: int) -> None:
        """Raise WriteError, unless it has that size."""
        if size != self.size():
            _refuse(f"resize_({size}) of a storage of {self.size()}")

    def share_memory_(self) -> None:
        """Raise WriteError: memory that several processes write to is not there."""
        _refuse("share_memory_() of a storage")

    def fill_(self, value: Any) -> None:
        """Raise WriteError: write to the tensor."""
        _refuse("fill_() of a storage")

    copy_ = fill_

    def __repr__(self) -> str:
        shown = "".join(f" {x}\n" for x in self)
        return f"{shown}[{type(self).__name__}(device=cpu) of size {len(self)}]"


class TypedStorage(UntypedStorage):
    """The elements of a tensor's present value, in C order, in its dtype. It is made by `x.storage()`.

    >>> import wengert.torch as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).storage().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    def _read(self, values: Any) -> Any:
        return values

    @property
    def dtype(self) -> Any:
        """The tensor's dtype."""
        return self._tensor.dtype

    def untyped(self) -> UntypedStorage:
        """Return the same as bytes."""
        return UntypedStorage(self._tensor)

    def pickle_storage_type(self) -> str:
        """Return the name of the legacy storage of the dtype, such as "FloatStorage"."""
        return str(self._tensor.type()).rpartition(".")[2].replace("Tensor", "Storage")


def is_storage(obj: Any) -> bool:
    """Return whether an object is the storage of a tensor."""
    return isinstance(obj, UntypedStorage)


def _refuse(what: str) -> Any:
    fail(WriteError, what, "A tensor is a value of its own: write to the tensor, or make another of the data.")


def _typed(self: Tensor) -> TypedStorage:
    """Return the elements in C order, to be read; see :class:`wengert.torch.storage.TypedStorage`."""
    return TypedStorage(self)


def _untyped(self: Tensor) -> UntypedStorage:
    """Return the bytes in C order, to be read; see :class:`wengert.torch.storage.UntypedStorage`."""
    return UntypedStorage(self)


for _name, _method in (("storage", _typed), ("untyped_storage", _untyped)):
    _method.__name__ = _method.__qualname__ = _name
    setattr(Tensor, _name, _method)

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


def __dir__() -> list[str]:
    return sorted(__all__)
