"""`storage()` and `untyped_storage()`: the memory that tensors lie in, as bytes or elements.

Tensors that share memory have one storage: what is written to it is seen by all of them, and what is written to them
is seen in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..core.errors import GraphError, RangeError, WriteError, fail
from ..core.mode import no_grad
from ..core.spec import default_float
from ..core.storage import address, bounds, join, laid_in, placed_alone, share, storage_of, window_of
from ..core.tensor import of_class, wrap
from .absent import names_of
from .tensor import CPU, NOT_SHARED, Tensor, device, dtype_of, on_cpu

# By the identity of the storage inside, the objects that programs have.
_known: WeakValueDictionary[int, UntypedStorage] = WeakValueDictionary()


def _elements(x: Any, dtype: Any) -> Tensor:
    """Return all of the memory that a tensor lies in as a tensor of one axis, which shares it."""
    x = x.owner if x.is_name else x
    if not isinstance(window_of(x), np.ndarray):
        x._value("a storage")
        fail(GraphError, f"the storage of a tensor on {x.device}, {x.spec}", "Take that of a copy: x.cpu().")
    s = share(x).storage
    low, high = bounds(s.whole)
    count = (high - low) // dtype.itemsize
    out: Tensor = of_class(Tensor, wrap(laid_in(s, dtype, (count,), (dtype.itemsize,), low - address(s.whole))))
    join(out, x, keeps_gradients=False)
    return out


class UntypedStorage:
    """The bytes that a tensor, and whatever shares memory with it, lies in: `s[i]` is a number from 0 to 255.

    `x.untyped_storage()` gives it: one object for all tensors in one memory. `UntypedStorage(n)` has n bytes of its
    own, `UntypedStorage([1, 2])` those values; `x.set_(storage)` lets a tensor lie in it.

    >>> import wengert.torch as torch
    >>> x = torch.ones(2, dtype=torch.int16)
    >>> storage = x[1:].untyped_storage()
    >>> storage.tolist()
    [1, 0, 1, 0]
    >>> storage[1] = 1
    >>> x
    tensor([257,   1], dtype=torch.int16)
    """

    is_cuda = is_hpu = is_sparse = is_sparse_csr = False
    # The memory as a tensor of one axis.
    elements: Tensor

    def __init__(self, size: Any = 0, *, dtype: Any = None, device: Any = None) -> None:
        on_cpu(device)
        kind = self._dtype(dtype)
        made = np.zeros(size, kind) if isinstance(size, int) else np.array(size, kind)
        self.elements = of_class(Tensor, wrap(made))

    def _dtype(self, dtype: Any) -> Any:
        return np.dtype(np.uint8)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """Return a storage with the first bytes of a file, which are read as they are needed; writes stay here.

        Raises WriteError for `shared`: a file is not written to by a tensor.
        """
        if shared:
            fail(WriteError, "a storage that writes to its file", "Leave shared=True out, and write the file yourself.")
        read = np.memmap(filename, np.uint8, "c", shape=(nbytes,)) if nbytes else np.zeros(0, np.uint8)
        return _over(cls, of_class(Tensor, wrap(read.view(np.ndarray))))

    @property
    def device(self) -> device:
        """The device, always the processor."""
        return CPU

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.elements.nbytes

    def size(self) -> int:
        """Return the number of elements, which are bytes where the storage has no type."""
        return self.elements.numel()

    def __len__(self) -> int:
        return self.size()

    def element_size(self) -> int:
        """Return the number of bytes of an element."""
        return self.elements.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first byte, as long as the values stay; 0 where there is none."""
        return address(placed_alone(self.elements)) if self.size() else 0

    def tolist(self) -> list[Any]:
        """Return the elements as Python's numbers."""
        found: list[Any] = window_of(self.elements).tolist()
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _over(UntypedStorage, self.elements[index])
        return window_of(self.elements)[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, int) and not -self.size() <= index < self.size():
            fail(RangeError, f"element {index} of a storage of {self.size()}")
        with no_grad():
            self.elements[index] = value

    def fill_(self, value: Any) -> UntypedStorage:
        """Give all elements a value, and return the storage."""
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Take over the elements of another storage of this size, or numbers, and return the storage."""
        self[:] = source.elements.clone() if isinstance(source, UntypedStorage) else Tensor(source)
        return self

    def is_shared(self) -> bool:
        """Return False: processes do not share memory that they write to."""
        return False

    def is_pinned(self) -> bool:
        """Return False: there is no other device to copy to."""
        return False

    def cpu(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def clone(self) -> UntypedStorage:
        """Return a storage with a copy of the elements."""
        return _over(type(self), self.elements.clone())  # type: ignore[no-any-return]

    def resize_(self, size: int) -> None:
        """Raise WriteError, unless it has that size."""
        if size != self.size():
            fail(
                WriteError,
                f"resize_({size}) of a storage of {self.size()}",
                "The tensors in it would have to move. Make a new tensor.",
            )

    def share_memory_(self) -> None:
        """Raise WriteError: memory that several processes write to is not there."""
        fail(WriteError, "share_memory_() of a storage", NOT_SHARED)

    def __repr__(self) -> str:
        shown = "".join(f" {x}\n" for x in self)
        return f"{shown}[{type(self).__name__}(device=cpu) of size {len(self)}]"


class TypedStorage(UntypedStorage):
    """The elements that a tensor, and whatever shares memory with it, lies in. It is made by `x.storage()`.

    >>> import wengert.torch as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]])[1].storage().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    def _dtype(self, dtype: Any) -> Any:
        return default_float() if dtype is None else dtype_of(dtype)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self.dtype == other.dtype and self.untyped() is other.untyped()

    __hash__ = object.__hash__

    @property
    def dtype(self) -> Any:
        """The tensor's dtype."""
        return self.elements.dtype

    def __getitem__(self, index: Any) -> Any:
        found = window_of(self.elements)[index]
        return found.item() if isinstance(found, np.generic) else found.tolist()

    def untyped(self) -> UntypedStorage:
        """Return the same as bytes."""
        return _untyped(self.elements)

    def pickle_storage_type(self) -> str:
        """Return the name of the legacy storage of the dtype, such as "FloatStorage"."""
        return str(self.elements.type()).rpartition(".")[2].replace("Tensor", "Storage")


def is_storage(obj: Any) -> bool:
    """Return whether an object is the storage of a tensor."""
    return isinstance(obj, UntypedStorage)


def _over(cls: type[UntypedStorage], elements: Any) -> Any:
    made = object.__new__(cls)
    made.elements = elements
    return made


def _typed(self: Any) -> TypedStorage:
    """Return the memory that the tensor lies in as elements; see :class:`wengert.torch.storage.TypedStorage`."""
    return _over(TypedStorage, _elements(self, self.spec.dtype))  # type: ignore[no-any-return]


def _untyped(self: Any) -> UntypedStorage:
    """Return the memory that the tensor lies in as bytes; see :class:`wengert.torch.storage.UntypedStorage`."""
    s = storage_of(self.owner if self.is_name else self)
    found = None if s is None else _known.get(id(s))
    if found is None or storage_of(found.elements) is not s:
        found = _over(UntypedStorage, _elements(self, np.dtype(np.uint8)))
        s = storage_of(found.elements)
        if s is not None:
            _known[id(s)] = found
    return found


for _name, _method in (("storage", _typed), ("untyped_storage", _untyped)):
    _method.__name__ = _method.__qualname__ = _name
    setattr(Tensor, _name, _method)

__all__ = ["TypedStorage", "UntypedStorage"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
