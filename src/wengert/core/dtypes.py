"""A record for each dtype: every name, code and rule by dtype is read from it.

A dtype of another package (`ml_dtypes`) is imported when it is first asked for. Those that are `stored` have too few
digits to compute with: tensors hold, move and cast them, and products compute in float32.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, NoReturn

import numpy as np

from .errors import DTypeError, fail

DType = np.dtype[Any]


class Record(NamedTuple):
    """A dtype, as everything that tells dtypes apart sees it.

    Parameters
    ----------
    name: NumPy's name, which is also that of `wg.NAME` and `torch.NAME`.
    short: the name by which graphs print it.
    category: 0 bool, 1 integer, 2 real floating, 3 complex; promotion across categories goes to the later one.
    digits: the bits of a floating dtype's significand, the hidden one among them; of its parts, if complex.
    stored: whether arithmetic has to cast it first.
    package: where NumPy has the dtype from.
    onnx: the code of the element type in ONNX; 0 for none.
    storage: the name of PyTorch's typed storage in its files; "" where it has no such class, None where not the dtype.
    safetensors: the name in safetensors files; "" for none, whose parts are saved in its place.
    gguf: the code of the tensor type in GGUF files; None for none.
    largest: what a cast makes of larger numbers and infinity; None where it makes infinity of them, or else NaN.
    """

    name: str
    short: str
    category: int
    digits: int = 0
    stored: bool = False
    package: str = "numpy"
    onnx: int = 0
    storage: str | None = None
    safetensors: str = ""
    gguf: int | None = None
    largest: float | None = None

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        digits = re.search(r"\d+", self.name)
        return int(digits[0]) // 8 if digits else 1


RECORDS = {
    record.name: record
    for record in (
        Record("bool", "bool", 0, onnx=9, storage="BoolStorage", safetensors="BOOL"),
        Record("int8", "i8", 1, onnx=3, storage="CharStorage", safetensors="I8", gguf=24),
        Record("int16", "i16", 1, onnx=5, storage="ShortStorage", safetensors="I16", gguf=25),
        Record("int32", "i32", 1, onnx=6, storage="IntStorage", safetensors="I32", gguf=26),
        Record("int64", "i64", 1, onnx=7, storage="LongStorage", safetensors="I64", gguf=27),
        Record("uint8", "u8", 1, onnx=2, storage="ByteStorage", safetensors="U8"),
        Record("uint16", "u16", 1, onnx=4, storage="", safetensors="U16"),
        Record("uint32", "u32", 1, onnx=12, storage="", safetensors="U32"),
        Record("uint64", "u64", 1, onnx=13, storage="", safetensors="U64"),
        Record("float16", "f16", 2, 11, onnx=10, storage="HalfStorage", safetensors="F16", gguf=1),
        Record("float32", "f32", 2, 24, onnx=1, storage="FloatStorage", safetensors="F32", gguf=0),
        Record("float64", "f64", 2, 53, onnx=11, storage="DoubleStorage", safetensors="F64", gguf=28),
        Record("complex64", "c64", 3, 24, onnx=14, storage="ComplexFloatStorage", safetensors="C64"),
        Record("complex128", "c128", 3, 53, onnx=15, storage="ComplexDoubleStorage"),
        Record("bfloat16", "bf16", 2, 8, False, "ml_dtypes", 16, "BFloat16Storage", "BF16", 30),
        Record("float8_e4m3fn", "f8e4m3", 2, 4, True, "ml_dtypes", 17, "", safetensors="F8_E4M3", largest=448.0),
        Record("float8_e4m3fnuz", "f8e4m3uz", 2, 4, True, "ml_dtypes", 18, "", safetensors="F8_E4M3FNUZ"),
        Record("float8_e5m2", "f8e5m2", 2, 3, True, "ml_dtypes", 19, "", safetensors="F8_E5M2"),
        Record("float8_e5m2fnuz", "f8e5m2uz", 2, 3, True, "ml_dtypes", 20, "", safetensors="F8_E5M2FNUZ"),
    )
}
# The records by the names in graphs.
SHORT = {record.short: record for record in RECORDS.values()}
# By the dtypes that NumPy has itself, and by those that were asked for. A dtype's name is slow to ask for.
_BY_DTYPE: dict[DType, Record] = {np.dtype(n): r for n, r in RECORDS.items() if r.package == "numpy"}
# NumPy's own dtypes, by themselves.
NATIVE: dict[DType, DType] = {d: d for d in _BY_DTYPE}
# The dtypes in use that are `stored`: empty until one is asked for, so that nobody looks for them before.
STORED: set[DType] = set()


def record_of(dtype: DType) -> Record:
    """Return the record of a dtype. Raises KeyError for one that tensors do not hold."""
    found = _BY_DTYPE.get(dtype)
    return _met(dtype) if found is None else found


def _met(dtype: DType) -> Record:
    name = dtype.name
    record = RECORDS[name]
    if record.package != "numpy" and made(name) != dtype:
        raise KeyError(name)
    _BY_DTYPE[dtype] = record
    if record.stored:
        STORED.add(dtype)
    return record


def is_known(dtype: DType) -> bool:
    """Return whether tensors hold a dtype."""
    try:
        record_of(dtype)
    except KeyError:
        return False
    return True


def made(name: str) -> DType:
    """Return a dtype by its name. Raises DTypeError where it is of a package that is not installed."""
    package = RECORDS[name].package
    if package == "numpy":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        fail(DTypeError, f"{name} needs the package {package}", f"Install it with: pip install {package}")
    found: DType = np.dtype(getattr(ml_dtypes, name))
    if found not in _BY_DTYPE:
        _BY_DTYPE[found] = RECORDS[name]
        if RECORDS[name].stored:
            STORED.add(found)
    return found


def canonical(dtype: DType) -> DType:
    """Return the one object for a dtype that tensors hold: compiled code compares by identity."""
    return NATIVE.get(dtype) or made(record_of(dtype).name)


def is_foreign(dtype: DType) -> bool:
    """Return whether a dtype is not NumPy's own, so that NumPy's promotion and several of its functions refuse it."""
    return dtype not in NATIVE


def is_inexact(dtype: DType) -> bool:
    """Return whether a dtype, any of NumPy's, is of floating or complex numbers that are computed with."""
    return is_known(dtype) and record_of(dtype).category >= 2 and not record_of(dtype).stored


def refuse_stored(what: str, dtype: DType, given: str) -> NoReturn:
    """Raise DTypeError for an op that computes with numbers which are for storage."""
    fail(
        DTypeError,
        f"{what} of {given}: {dtype} is for storage",
        "Cast to a dtype that is computed with, x.astype(wg.float32), and back.",
    )


def names() -> str:
    """Return the names of all dtypes, as error texts list them."""
    return ", ".join(RECORDS)
