"""The Array API's functions on dtypes, its constants and its namespace inspection.

Source: https://data-apis.org/array-api/2024.12/API_specification/data_type_functions.html
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ...core import spec
from ...core.dims import Dim
from ...core.dtypes import DType, is_foreign
from ...core.elsewhere import device_name
from ...core.errors import DTypeError, fail
from ...core.ops.declare import public
from ...core.ops.record import EXAMPLES, SCALARS
from ...core.spec import as_dtype, category, promote, promote_scalar, real_dtype
from ...core.standins import WeakTensor
from ...core.tensor import Tensor, asarray

# Exported as they are: `wengert.pi`.
CONSTANTS: dict[str, Any] = {
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "newaxis": None,
    "pi": math.pi,
    "__array_api_version__": "2024.12",
}

_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (spec.bool_,),
    "signed integer": (spec.int8, spec.int16, spec.int32, spec.int64),
    "unsigned integer": (spec.uint8, spec.uint16, spec.uint32, spec.uint64),
    "real floating": (spec.float32, spec.float64),
    "complex floating": (spec.complex64, spec.complex128),
}
_GROUPS: dict[str, tuple[str, ...]] = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


def _dtype_of(value: Any) -> DType:
    """Return the dtype of an array, or the dtype that a dtype-like value names."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return as_dtype(value.dtype)
    return as_dtype(value)


# -- promotion


@public
def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype of an operation on these tensors, dtypes and Python numbers.

    Python numbers are weak: they change the kind (bool, integer, real, complex) only. Raises
    DTypeError for no arguments, and for integers that no dtype holds together.

    >>> import wengert as wg
    >>> wg.result_type(wg.int8, wg.uint8)
    dtype('int16')
    >>> wg.result_type(wg.float64, 1)
    dtype('float64')
    """
    if not arrays_and_dtypes:
        fail(DTypeError, "result_type of nothing", "Give at least one tensor, dtype or number.")
    given = [
        EXAMPLES[category(v.dtype)] if type(v) is WeakTensor else 0 if isinstance(v, Dim) else v
        for v in arrays_and_dtypes
    ]
    numbers = [v for v in given if type(v) in SCALARS]
    dtypes = [_dtype_of(v) for v in given if type(v) not in SCALARS]
    out = dtypes[0] if dtypes else asarray(numbers[0]).dtype
    for dtype in dtypes[1:]:
        out = promote(out, dtype)
    for number in numbers:
        out = promote_scalar(out, number)
    return out


@public
def promote_types(type1: Any, type2: Any) -> DType:
    """Return the dtype of an operation on two dtypes. Raises DTypeError where none holds both.

    >>> import wengert as wg
    >>> wg.promote_types(wg.int64, wg.float32)
    dtype('float32')
    """
    return promote(_dtype_of(type1), _dtype_of(type2))


@public
def can_cast(from_: Any, to: Any) -> bool:
    """Return whether promotion takes `from_` (a tensor or a dtype) to the dtype `to`.

    >>> import wengert as wg
    >>> wg.can_cast(wg.int32, wg.int64), wg.can_cast(wg.float64, wg.float32)
    (True, False)
    """
    source, target = _dtype_of(from_), _dtype_of(to)
    if {source.kind, target.kind} == {"u", "i"} and spec.uint64 in (source, target):
        return False
    return promote(source, target) == target


# -- what a dtype is


@public
def isdtype(dtype: Any, kind: Any) -> bool:
    """Return whether a dtype is of a kind.

    Parameters
    ----------
    dtype: a dtype.
    kind: a dtype; one of "bool", "signed integer", "unsigned integer", "integral",
        "real floating", "complex floating", "numeric"; or a tuple of these, any of which may hold.

    Raises DTypeError for another kind.

    >>> import wengert as wg
    >>> wg.isdtype(wg.float32, "real floating"), wg.isdtype(wg.int8, ("bool", wg.int16))
    (True, False)
    """
    found = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if not isinstance(kind, str):
        return found == as_dtype(kind)
    names = _GROUPS.get(kind, (kind,))
    if names[0] not in _KINDS:
        fail(DTypeError, f"there is no kind of dtype {kind!r}", "Use one of: " + ", ".join([*_KINDS, *_GROUPS]) + ".")
    return _kind(found) in names


def _kind(dtype: DType) -> str:
    if dtype.kind == "u":
        return "unsigned integer"
    return ("bool", "signed integer", "real floating", "complex floating")[category(dtype)]


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """The limits of a floating dtype, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """The value of `smallest_normal`, under its older name."""
        return self.smallest_normal


@dataclass(frozen=True, slots=True)
class IntInfo:
    """The limits of an integer dtype, as Python integers."""

    bits: int
    max: int
    min: int
    dtype: DType


@public
def finfo(dtype: Any) -> FloatInfo:
    """Return the limits of a floating dtype, or of a complex dtype's parts, or of a tensor's dtype.

    Raises DTypeError for other dtypes.

    >>> import wengert as wg
    >>> wg.finfo(wg.float32).eps
    1.1920928955078125e-07
    """
    return _finfo(_dtype_of(dtype))


@cache
def _finfo(dtype: DType) -> FloatInfo:
    if category(dtype) < 2:
        fail(DTypeError, f"finfo of {dtype}", "Use wg.iinfo for integers.")
    part = real_dtype(dtype)
    if is_foreign(part):
        import ml_dtypes

        info: Any = ml_dtypes.finfo(part)
    else:
        info = np.finfo(part)
    return FloatInfo(info.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), part)


@public
def iinfo(dtype: Any) -> IntInfo:
    """Return the limits of an integer dtype, or of a tensor's. Raises DTypeError for other dtypes.

    >>> import wengert as wg
    >>> wg.iinfo(wg.int8).max
    127
    """
    found = _dtype_of(dtype)
    if found.kind not in "iu":
        fail(DTypeError, f"iinfo of {found}", "Use wg.finfo for floating dtypes.")
    info = np.iinfo(found)
    return IntInfo(info.bits, int(info.max), int(info.min), found)


# -- what the namespace is


class NamespaceInfo:
    """The description of the namespace that the Array API asks for: its devices, dtypes and capabilities."""

    def capabilities(self) -> dict[str, Any]:
        """Return the library's choices in the matters that the standard leaves open."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device of new tensors."""
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the dtypes of tensors that are made without one."""
        device_name(device)
        return {
            "real floating": spec.default_float(),
            "complex floating": spec.default_complex(),
            "integral": spec.default_int,
            "indexing": spec.default_int,
        }

    def devices(self) -> list[str]:
        """Return the devices there are."""
        return ["cpu"]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Return the standard's dtypes by name, all or those of a kind (see :func:`wengert.isdtype`)."""
        device_name(device)
        return {d.name: d for group in _KINDS.values() for d in group if kind is None or isdtype(d, kind)}


@public
def __array_namespace_info__() -> NamespaceInfo:
    """Return devices, dtypes and capabilities, as the Array API has them.

    >>> import wengert as wg
    >>> wg.__array_namespace_info__().default_device()
    'cpu'
    """
    return NamespaceInfo()
