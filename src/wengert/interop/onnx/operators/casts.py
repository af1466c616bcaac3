"""Changes of dtype, among them to those that tensors cannot hold, which stay NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ....core.dtypes import record_of
from ....core.spec import category
from ....core.tensor import Tensor
from ..errors import refuse
from ..registry import operator
from ..values import Known, has_sizes, holds, numpy_dtype, tensor

_ROUND_MODES = ("up", "down", "nearest")


def values_of(x: Any, what: str) -> Known:
    """Return a value as a NumPy array, for what NumPy alone computes. Raises OnnxError for one that is being traced."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, Tensor):
        if x.is_abstract:
            refuse(f"{what} is computed from values, which are not known while this is traced")
        return np.asarray(x.detach().numpy())
    refuse(f"{what} needs a tensor, not {type(x).__name__}")


def cast_to(x: Any, dtype: np.dtype[Any], saturate: int = 1, round_mode: str = "up") -> Any:
    """Return `x` in another dtype, as ONNX converts."""
    if round_mode not in _ROUND_MODES:
        refuse(f"round_mode is {round_mode!r}, and none of {', '.join(_ROUND_MODES)}")
    if isinstance(x, Tensor) and holds(dtype) and (saturate or not record_of(dtype).largest):
        if category(x.dtype) == 2 and category(dtype) == 1:
            return wg.trunc(x).astype(dtype)
        if record_of(dtype).stored and x.dtype != dtype:
            x = wg.clip(x.astype(np.float32), *_bounds(dtype)) if saturate else x
        return x.astype(dtype) if x.dtype != dtype else x
    source = values_of(x, f"a cast to {dtype.name}")
    if source.dtype == dtype:
        return source
    if dtype.kind == "O":
        return _to_text(source)
    if source.dtype.kind == "O":
        return _from_text(source, dtype)
    with np.errstate(all="ignore"):
        return _between(source, dtype, saturate, round_mode)


def _between(x: Known, dtype: np.dtype[Any], saturate: int, round_mode: str) -> Known:
    if dtype.name.startswith("float8_e8m0"):
        return _to_powers(x, dtype, saturate, round_mode)
    if dtype.name.startswith("float8"):
        return to_float8(x, dtype, saturate)
    if dtype.name.startswith(("float4", "float6")):
        return saturated(x.astype(np.float32), dtype)
    if dtype.name in ("int4", "uint4", "int2", "uint2"):
        # The bits that fit, as casts between integers keep them.
        bits = int(dtype.name[-1])
        whole = x.astype(np.float32).astype(np.int64) if x.dtype.kind in "fV" else x.astype(np.int64)
        low = whole & ((1 << bits) - 1)
        if dtype.name[0] == "i":
            low = np.where(low >> (bits - 1), low - (1 << bits), low)
        return low.astype(np.int8 if dtype.name[0] == "i" else np.uint8).astype(dtype)
    if x.dtype.kind == "V" or not holds(x.dtype):
        return x.astype(np.float32).astype(dtype)
    return x.astype(dtype)


def _bounds(dtype: np.dtype[Any]) -> tuple[float, float]:
    import ml_dtypes

    top = float(ml_dtypes.finfo(dtype).max)
    return -top, top


def saturated(x: Known, dtype: np.dtype[Any]) -> Known:
    """Return floats in a narrow dtype without infinities: what is larger than its largest becomes that."""
    return np.clip(x, *_bounds(dtype)).astype(np.float32).astype(dtype)


def to_float8(x: Known, dtype: np.dtype[Any], saturate: int) -> Known:
    """Return floats as float8: too large ones become the largest, or with `saturate=0` what the format has for them."""
    wide = x.astype(np.float32)
    out = wide.astype(dtype)
    if saturate:
        top = _bounds(dtype)[1]
        large = (np.abs(wide) > top) & ~np.isnan(wide)
        out = np.where(large, np.copysign(np.float32(top), wide), wide).astype(dtype)
    return out


def _to_powers(x: Known, dtype: np.dtype[Any], saturate: int, round_mode: str) -> Known:
    """Return positive floats as the exponents of powers of two (float8e8m0)."""
    wide = np.abs(x.astype(np.float32))
    bits = wide.view(np.uint32)
    exponent = (bits >> 23).astype(np.int64)
    rest = bits & 0x7FFFFF
    if round_mode == "up":
        exponent += (rest > 0) & ((exponent > 0) | (rest > 0x400000))
    elif round_mode == "nearest":
        exponent += (rest >> 22).astype(np.int64)
    if saturate:
        exponent = np.minimum(exponent, 254)
    out = np.where(np.isnan(x.astype(np.float32)), 255, np.where(np.isinf(wide) & bool(not saturate), 255, exponent))
    return out.astype(np.uint8).view(dtype)


def _to_text(x: Known) -> Known:
    def said(v: Any) -> str:
        if isinstance(v, (bool, np.bool_)):
            return "1" if v else "0"
        if isinstance(v, (int, np.integer)):
            return str(int(v))
        return str(v)

    return np.array([said(v) for v in x.ravel()] + [None], dtype=object)[:-1].reshape(x.shape)


def _from_text(x: Known, dtype: np.dtype[Any]) -> Known:
    if dtype.kind in "iub":
        return np.array([int(float(v)) if "." in v or "e" in v.lower() else int(v) for v in x.ravel()], dtype).reshape(
            x.shape
        )
    return np.array([float(v) for v in x.ravel()], dtype=np.float64).astype(dtype).reshape(x.shape)


def _cast_sizes(x: Known, *, to: int = 7, **_: Any) -> Any:
    return _sizes_in(x, numpy_dtype(to, "attribute 'to'"))


def _sizes_in(x: Known, dtype: np.dtype[Any]) -> Any:
    """Return sizes as sizes in a dtype of integers, as a tensor in any other."""
    return x if dtype.kind in "iu" else cast_to(tensor(x), dtype, 1, "up")


@operator("Cast", raw=True, symbolic=_cast_sizes)
def _cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    dtype = numpy_dtype(to, "attribute 'to'")
    return cast_to(_widest(x), dtype, saturate, round_mode)


def _widest(x: Any) -> Any:
    """Return a known array that tensors hold as a tensor."""
    return tensor(x) if isinstance(x, np.ndarray) and holds(x.dtype) and not has_sizes(x) else x


def _cast_like_sizes(x: Known, like: Any, **_: Any) -> Any:
    return x if has_sizes(like) else _sizes_in(x, like.dtype)


@operator("CastLike", raw=True, symbolic=_cast_like_sizes)
def _cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(_widest(x), like.dtype, saturate, round_mode)


@operator("BitCast", raw=True)
def _bit_cast(x: Any, *, to: int) -> Any:
    dtype = numpy_dtype(to, "attribute 'to'")
    if x.dtype.itemsize != dtype.itemsize:
        refuse(f"bits of {x.dtype.name} are no {dtype.name}: the widths differ")

    def view(source: Known) -> Known:
        return np.ascontiguousarray(source).view(dtype).reshape(source.shape)

    return by_values(view, tuple(x.shape), dtype, x, "a cast of bits")


def by_values(function: Callable[[Known], Known], shape: Any, dtype: np.dtype[Any], x: Any, what: str) -> Any:
    """Return a function of an array of which shape and dtype are known: while traced it is a step that NumPy runs."""
    if isinstance(x, Tensor) and x.is_abstract and holds(dtype):
        return wg.callback(function, wg.spec(shape, dtype), x)
    return function(values_of(x, what))
