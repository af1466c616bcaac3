"""Dtypes, their promotion, and `Spec`: the shape and dtype of a value, without the value."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .dims import Dim
from .errors import DTypeError, ShapeError, fail
from .mode import get_mode, set_mode

Shape = tuple[int, ...]
DType = np.dtype[Any]

# More elements than these no memory holds; more axes than these no array of NumPy has.
MOST_ELEMENTS = sys.maxsize // 16
MOST_AXES = 64

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
float16, float32, float64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
complex64, complex128 = (np.dtype(t) for t in (np.complex64, np.complex128))

# Integers that bring no dtype of their own have this one.
default_int = int64


def default_float() -> DType:
    """Return the dtype of floating numbers that bring none of their own; see :func:`set_default_dtype`."""
    return get_mode().floats


def default_complex() -> DType:
    """Return the dtype of complex numbers that bring none of their own; its parts are of the default float."""
    return complex_dtype(get_mode().floats)


_STANDARD = {
    d.name: d
    for d in (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
    + (float16, float32, float64, complex64, complex128)
}
# The dtypes that NumPy has itself, by themselves: a dtype's name is slow to ask for.
NATIVE: dict[DType, DType] = {d: d for d in _STANDARD.values()}
_SHORT = {"bool": "bool", "bfloat16": "bf16"} | {
    name: name.replace("uint", "u").replace("int", "i").replace("float", "f").replace("complex", "c")
    for name in _STANDARD
    if name != "bool"
}
_LONG = {short: name for name, short in _SHORT.items()}

# The category of a dtype; promotion across categories goes to the later one.
_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def bfloat16() -> DType:
    """Return the bfloat16 dtype of `ml_dtypes`, imported when first asked for."""
    try:
        import ml_dtypes
    except ImportError:
        fail(DTypeError, "bfloat16 needs the package ml_dtypes", "Install it with: pip install ml_dtypes")
    found: DType = np.dtype(ml_dtypes.bfloat16)
    return found


def is_bfloat16(dtype: DType) -> bool:
    """Return whether a dtype is bfloat16."""
    # Every other supported dtype has a kind of its own; a dtype's name is slow to ask for.
    return dtype.kind == "V" and dtype.name == "bfloat16"


def category(dtype: DType) -> int:
    """Return the category of a dtype: 0 bool, 1 integer, 2 real floating, 3 complex."""
    return 2 if is_bfloat16(dtype) else _CATEGORY[dtype.kind]


def as_dtype(value: Any) -> DType:
    """Return a supported, native-endian dtype from a dtype, a NumPy or Python type, or a name.

    Raises DTypeError for anything that tensors cannot hold (object, str, datetime64, ...).
    """
    if value is float:
        return default_float()
    if value is complex:
        return default_complex()
    if isinstance(value, np.dtype):
        native = NATIVE.get(value)
        if native is not None:
            return native
    if isinstance(value, str):
        value = _LONG.get(value, value)
        if value == "bfloat16":
            return bfloat16()
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):  # NumPy reads some texts as Python
        fail(DTypeError, f"{value!r} is not a dtype", "Use one of: " + ", ".join(_STANDARD) + ", bfloat16.")
    found = _STANDARD.get(dtype.name)
    if found is None:
        if is_bfloat16(dtype):
            kept: DType = dtype
            return kept
        fail(
            DTypeError,
            f"tensors cannot hold dtype {dtype}",
            "Convert the data to one of: " + ", ".join(_STANDARD) + ", bfloat16.",
        )
    return found


def plain_dtype(dtype: Any) -> DType:
    """Return NumPy's object for a dtype, also for one of a namespace's own class."""
    return NATIVE.get(dtype) or as_dtype(dtype)


def short_name(dtype: DType) -> str:
    """Return the dtype as graphs print it: f32, i64, bool, bf16, c128."""
    return _SHORT[dtype.name]


def is_short_name(name: str) -> bool:
    """Return whether a name is one by which graphs print a dtype."""
    return name in _LONG


def from_short_name(name: str) -> DType:
    """Return the dtype that graphs print by this name."""
    return as_dtype(_LONG[name])


def from_name(name: str) -> DType:
    """Return the dtype with this name and no other spelling. Raises DTypeError."""
    if name not in _SHORT:
        fail(DTypeError, f"{name[:100]!r} is not the name of a dtype", "Use one of: " + ", ".join(_SHORT) + ".")
    return as_dtype(name)


def real_dtype(dtype: DType) -> DType:
    """Return the dtype of a complex dtype's parts; a real dtype itself."""
    return {"complex64": float32, "complex128": float64}.get(dtype.name, dtype)


def complex_dtype(dtype: DType) -> DType:
    """Return the complex dtype with parts of `dtype` (complex64 for what is narrower than float64)."""
    if dtype.kind == "c":
        return dtype
    return complex128 if dtype == float64 else complex64


def inexact_dtype(dtype: DType) -> DType:
    """Return the dtype itself where it is floating, else the default float."""
    return dtype if category(dtype) >= 2 else default_float()


def promote(a: DType, b: DType) -> DType:
    """Return the dtype of an operation on both (Array API 2024.12, extended across categories).

    Within a category the standard's table; across categories the later of bool, integer, real,
    complex wins with its own width, so that int64 with float32 is float32.
    """
    if a is b:
        return a
    ca, cb = category(a), category(b)
    if ca != cb and not (ca >= 2 and cb >= 2):
        return a if ca > cb else b
    if is_bfloat16(a) or is_bfloat16(b):
        other = b if is_bfloat16(a) else a
        return a if is_bfloat16(other) else (float32 if other == float16 else other)
    if ca == cb == 1 and {a.kind, b.kind} == {"u", "i"} and uint64 in (a, b):
        fail(
            DTypeError,
            f"no integer dtype holds both {a} and {b}",
            "Cast one of them first: x.astype(wg.int64) or x.astype(wg.float64).",
        )
    return np.promote_types(a, b)


def promote_scalar(dtype: DType, value: bool | int | float | complex) -> DType:
    """Return the dtype of `dtype` with a weakly typed Python scalar: the scalar changes the category only."""
    have, need = category(dtype), scalar_category(value)
    if need <= have:
        return dtype
    if need == 3:
        return complex_dtype(dtype) if have == 2 else default_complex()
    return default_float() if need == 2 else default_int


def scalar_category(value: bool | int | float | complex) -> int:
    """Return the category of a Python scalar: 0 bool, 1 integer, 2 real floating, 3 complex."""
    kind = type(value)
    return 0 if kind is bool else 1 if kind is int else 2 if kind is float else 3


# The value of a true flag in a spec without axes.
SCALAR = 2


class Spec:
    """The shape and dtype of a value. It is interned by :func:`spec_of`, so fast paths compare by identity.

    The flags say which ops take the dtype as it is (see `Op.accepts`): True, or where there are no
    axes `SCALAR`, which is true too. `boolean` and `magnitude`, the specs of a comparison's and of an
    absolute value's result, are set when first needed. `family` has the specs of the dtype by shape.

    >>> import wengert as wg
    >>> s = wg.tensor([[1.0, 2.0]]).spec
    >>> s.shape, s.dtype.name
    ((1, 2), 'float32')
    """

    __slots__ = (
        "shape",
        "dtype",
        "family",
        "numeric",
        "inexact",
        "real",
        "real_inexact",
        "bitwise",
        "logical",
        "anything",
        "boolean",
        "magnitude",
    )

    shape: Shape
    dtype: DType
    boolean: Spec
    magnitude: Spec

    def __init__(self, shape: Shape, dtype: DType, family: dict[Shape, Spec]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.family = family
        kind = category(dtype)
        yes: Any = True if shape else SCALAR
        self.numeric = kind >= 1 and yes
        self.inexact = kind >= 2 and yes
        self.real = kind in (1, 2) and yes
        self.real_inexact = kind == 2 and yes
        self.bitwise = kind <= 1 and yes
        self.logical = kind == 0 and yes
        self.anything = yes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        out = 1
        for n in self.shape:
            out *= n
        return out

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> Spec:
        return spec_of(shape, self.dtype)

    def with_dtype(self, dtype: DType) -> Spec:
        return spec_of(self.shape, dtype)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Spec) and self.shape == other.shape and self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return spec_of, (self.shape, self.dtype)


_families: dict[DType, dict[Shape, Spec]] = {}
_FAMILY_LIMIT = 1 << 14


def spec_of(shape: Shape, dtype: DType) -> Spec:
    """Return the one `Spec` with this shape and dtype."""
    family = _families.get(dtype)
    if family is None:
        family = _families.setdefault(dtype, {})
    spec = family.get(shape)
    if spec is None:
        if len(family) >= _FAMILY_LIMIT:
            # Identity only speeds comparisons up: forgetting is always safe, hoarding is not.
            family.clear()
        # Of equal dtypes the one that all others are compared with by identity.
        spec = family[shape] = Spec(shape, _STANDARD.get(dtype.name, dtype), family)
    return spec


def show(shape: Shape, dtype: DType | None = None) -> str:
    """Return a shape, and a dtype, as error messages print them: `(3, 4) float32`."""
    sizes = tuple(shape)  # not the class of a shape that a namespace has
    return f"{sizes}" if dtype is None else f"{sizes} {dtype.name}"


def normalize_axis(axis: int, ndim: int, what: str = "axis") -> int:
    """Return `axis` counted from the right (-ndim .. -1). Raises ShapeError when it does not exist."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        fail(DTypeError, f"{what} must be an int, not {type(axis).__name__}")
    if not -ndim <= axis < ndim:
        valid = f"It must lie between {-ndim} and {ndim - 1}." if ndim else "A 0-d tensor has no axes."
        fail(ShapeError, f"{what} {axis} does not exist in a tensor with {ndim} dimensions", valid)
    return int(axis) - ndim if axis >= 0 else int(axis)


def normalize_axes(axis: int | tuple[int, ...] | list[int] | None, ndim: int) -> tuple[int, ...]:
    """Return sorted axes counted from the right; None means all of them."""
    if axis is None:
        return tuple(range(-ndim, 0))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    out = tuple(sorted(normalize_axis(a, ndim) for a in axes))
    if len(set(out)) != len(out):
        fail(ShapeError, f"axis {axis} names one axis twice")
    return out


def normalize_shape(shape: Any, what: str = "shape") -> Shape:
    """Return a shape given as an int or a sequence of ints, as a tuple of non-negative ints."""
    if isinstance(shape, (int, np.integer, Dim)) and not isinstance(shape, bool):
        shape = (shape,)
    try:
        out: tuple[Any, ...] = tuple(n if isinstance(n, Dim) else n.__index__() for n in shape)
    except (TypeError, AttributeError):
        fail(DTypeError, f"{what} must be an int or a sequence of ints, not {shape!r}")
    if any(n < 0 for n in out):
        fail(ShapeError, f"{what} {out} has a negative dimension")
    check_size(out, what)
    return out


def check_size(shape: Shape, what: str = "shape") -> None:
    """Raise ShapeError where no array can have a shape; sizes that are not known are taken to be small."""
    if len(shape) > MOST_AXES:
        fail(ShapeError, f"{what} {shape} has {len(shape)} axes", f"Arrays have up to {MOST_AXES}.")
    size, reach = 1, 1
    for n in shape:
        if not isinstance(n, Dim):
            size, reach = size * n, reach * max(n, 1)
    # NumPy counts the bytes between elements also where there are none.
    if reach > MOST_ELEMENTS:
        fail(ShapeError, f"{what} {shape} has {max(size, reach)} elements: more than memory can address")


def broadcast_shapes(*shapes: Shape) -> Shape | None:
    """Return the shape that all broadcast to, or None where they do not fit."""
    ndim = max(map(len, shapes), default=0)
    out = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if n != 1:
                if out[i] == 1:
                    out[i] = n
                elif out[i] != n:
                    return None
    return tuple(out)


# -- the default dtype


class _DefaultDtype:
    """A setting of the default dtype that takes effect when made; as a block, it restores the former at the end."""

    __slots__ = ("_before", "_dtype")

    def __init__(self, dtype: DType) -> None:
        mode = get_mode()
        self._before, self._dtype = mode.floats, dtype
        set_mode(mode.with_floats(dtype))

    def __enter__(self) -> None:
        set_mode(get_mode().with_floats(self._dtype))

    def __exit__(self, *exc: object) -> None:
        set_mode(get_mode().with_floats(self._before))


def set_default_dtype(dtype: Any) -> _DefaultDtype:
    """Set the dtype of floating numbers that bring none of their own, in this thread.

    `wg.set_default_dtype(wg.float64)` for a whole program, `with wg.set_default_dtype(wg.float64):` for a block. It is
    float32 in the beginning, also in a new thread. Python numbers and lists of them, creation functions (`zeros`,
    `linspace`, `randn`, ...) and the parameters of modules have this dtype, and so have results of operations that make
    floating numbers of integers; complex numbers have parts of it (complex64 for what is narrower than float64).
    Compiled functions are traced anew under another default.

    Parameters
    ----------
    dtype: a real floating dtype: float16, bfloat16, float32 or float64.

    Raises DTypeError for any other.

    >>> import wengert as wg
    >>> with wg.set_default_dtype(wg.float64):
    ...     wg.tensor([1.5]).dtype, wg.linspace(0, 1, 3).dtype
    (dtype('float64'), dtype('float64'))
    >>> wg.tensor([1.5]).dtype
    dtype('float32')
    """
    found = as_dtype(dtype)
    if category(found) != 2:
        fail(DTypeError, f"a default dtype of {found}", "It is the dtype of floating numbers: float32 or float64.")
    return _DefaultDtype(found)


def get_default_dtype() -> DType:
    """Return the dtype of floating numbers that bring none of their own, in this thread; see :func:`set_default_dtype`.

    >>> import wengert as wg
    >>> wg.get_default_dtype()
    dtype('float32')
    """
    return get_mode().floats
