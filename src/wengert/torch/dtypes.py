"""`torch.dtype`: NumPy's dtypes with PyTorch's attributes and names, which do wherever one of NumPy's is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import NATIVE, DType, record_of
from ..core.errors import DTypeError, fail
from ..core.spec import as_dtype, complex_dtype, real_dtype


class dtype:
    """A dtype of this namespace: `torch.float32`, `x.dtype`.

    Equal to NumPy's dtype of the same name, with the same hash, and taken for it by NumPy and by Wengert; its other
    attributes (`kind`, `name`) are NumPy's. There is one object for each dtype.

    >>> import numpy as np
    >>> import wengert.torch as torch
    >>> x = torch.zeros(2)
    >>> x.dtype, x.dtype.is_floating_point, x.dtype.itemsize
    (torch.float32, True, 4)
    >>> x.dtype == np.float32, isinstance(x.dtype, torch.dtype), np.zeros(2, x.dtype).dtype
    (True, True, dtype('float32'))
    """

    __slots__ = ("dtype", "name", "kind", "itemsize", "is_floating_point", "is_complex", "is_signed", "_hash")

    dtype: DType
    name: str
    kind: str
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    _hash: int

    def __new__(cls, *args: Any) -> Any:
        raise TypeError("cannot create 'torch.dtype' instances")

    def to_real(self) -> Any:
        """Return the dtype of a complex one's parts; a real one itself."""
        return dtype_named(real_dtype(self.dtype)) if self.is_complex else self

    def to_complex(self) -> Any:
        """Return the dtype of complex numbers whose parts are of this one."""
        return self if self.is_complex else dtype_named(complex_dtype(self.dtype))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dtype) or other is None:
            return self is other
        return bool(self.dtype == other)

    def __hash__(self) -> int:
        return self._hash

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dtype, name)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return by_name, (self.name,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


def _made(plain: DType) -> dtype:
    self: dtype = object.__new__(dtype)
    self.dtype, self.name, self.kind, self.itemsize = plain, plain.name, plain.kind, plain.itemsize
    self.is_complex, self.is_signed = plain.kind == "c", plain.kind not in "bu"
    self.is_floating_point = record_of(plain).category == 2
    self._hash = hash(plain)
    return self


# By NumPy's dtype; those of other packages come when they are first met.
DTYPES: dict[DType, dtype] = {plain: _made(plain) for plain in NATIVE}


def dtype_named(plain: Any) -> dtype:
    """Return the dtype of this namespace for one of NumPy's."""
    found = DTYPES.get(plain)
    if found is None:
        plain = as_dtype(plain)
        found = DTYPES[plain] = _made(plain)
    return found


def by_name(name: str) -> dtype:
    """Return a dtype by its name, such as "float32"."""
    return dtype_named(as_dtype(name))


class NamedDType(dtype):
    """A dtype that programs name, and that no tensor has here: as a tensor's it raises DTypeError."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = dtype.__hash__

    def __getattr__(self, name: str) -> Any:
        if name == "dtype":
            fail(DTypeError, f"torch.{self.name}: the dtype does not exist here", "Use one of 16 bits or more.")
        raise AttributeError(f"{self!r} has no attribute {name!r}")


def _named(name: str, itemsize: int) -> NamedDType:
    self: NamedDType = object.__new__(NamedDType)
    kind = "c" if name.startswith("complex") else "f" if name.startswith("float") else "u" if "u" in name[:2] else "i"
    self.name, self.kind, self.itemsize = name, kind, itemsize
    self.is_complex, self.is_floating_point, self.is_signed = kind == "c", kind == "f", kind != "u"
    self._hash = hash(name)
    return self


_BYTES = {"complex32": 4, "qint32": 4, "bits16": 2}
_NAMES = (
    "complex32 float8_e8m0fnu float4_e2m1fn_x2 qint8 qint32 quint8 quint4x2 quint2x4 bits8 bits16 bits1x8 bits2x4 "
    "bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7"
)
NAMED = {name: _named(name, _BYTES.get(name, 1)) for name in _NAMES.split()}
NAMED["chalf"] = NAMED["complex32"]
