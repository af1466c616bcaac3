"""Dtypes, their promotion, and `Spec`: the shape and dtype of a value, without the value."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .dims import Dim
from .dtypes import NATIVE, RECORDS, SHORT, DType, canonical, is_foreign, is_known, made, names, record_of
from .errors import DTypeError, ShapeError, fail
from .mode import get_mode, set_mode

Shape = tuple[int, ...]

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


def category(dtype: DType) -> int:
    """Return the category of a dtype: 0 bool, 1 integer, 2 real floating, 3 complex."""
    return record_of(dtype).category


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
        record = SHORT.get(value) or RECORDS.get(value)
        if record is not None:
            return made(record.name)
    try:
        dtype: DType = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):  # NumPy reads some texts as Python
        fail(DTypeError, f"{value!r} is not a dtype", f"Use one of: {names()}.")
    native = dtype if dtype.isnative else dtype.newbyteorder("=")
    if not is_known(native):
        fail(DTypeError, f"tensors cannot hold dtype {dtype}", f"Convert the data to one of: {names()}.")
    return canonical(native)


def plain_dtype(dtype: Any) -> DType:
    """Return NumPy's object for a dtype, also for one of a namespace's own class."""
    return NATIVE.get(dtype) or as_dtype(dtype)


def short_name(dtype: DType) -> str:
    """Return the dtype as graphs print it: f32, i64, bool, bf16, c128."""
    return record_of(dtype).short


def is_short_name(name: str) -> bool:
    """Return whether a name is one by which graphs print a dtype."""
    return name in SHORT


def from_short_name(name: str) -> DType:
    """Return the dtype that graphs print by this name."""
    return made(SHORT[name].name)


def from_name(name: str) -> DType:
    """Return the dtype with this name and no other spelling. Raises DTypeError."""
    if name not in RECORDS:
        fail(DTypeError, f"{name[:100]!r} is not the name of a dtype", f"Use one of: {names()}.")
    return made(name)


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
    of_a, of_b = record_of(a), record_of(b)
    ca, cb = of_a.category, of_b.category
    if (of_a.stored or of_b.stored) and a != b:
        fail(
            DTypeError,
            f"no dtype for {a} and {b} together: {a if of_a.stored else b} is for storage",
            "Cast it first: x.astype(wg.float32).",
        )
    if ca != cb and not (ca >= 2 and cb >= 2):
        return a if ca > cb else b
    if a == b:
        return a
    if is_foreign(a) or is_foreign(b):  # bfloat16, which NumPy does not promote with float16
        other = b if is_foreign(a) else a
        return float32 if other == float16 else other
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

    The flags say which ops take the dtype as it is (see `Op.accepts`), and `inexact` whether values carry gradients:
    True, or where there are no axes `SCALAR`, which is true too. `boolean` and `magnitude`, the specs of a
    comparison's and of an absolute value's result, are set when first needed. `family` has the specs of the dtype by
    shape.

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
        "floating",
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
        of = record_of(dtype)
        kind = of.category
        yes: Any = True if shape else SCALAR
        # What is for storage carries gradients, and is taken by no op that computes.
        self.anything, self.inexact = yes, kind >= 2 and yes
        kind = -1 if of.stored else kind
        self.numeric = kind >= 1 and yes
        self.floating = kind >= 2 and yes
        self.real = kind in (1, 2) and yes
        self.real_inexact = kind == 2 and yes
        self.bitwise = 0 <= kind <= 1 and yes
        self.logical = kind == 0 and yes

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
        spec = family[shape] = Spec(shape, canonical(dtype), family)
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
    if category(found) != 2 or record_of(found).stored:
        fail(DTypeError, f"a default dtype of {found}", "It is the dtype of floating numbers: float32 or float64.")
    return _DefaultDtype(found)


def get_default_dtype() -> DType:
    """Return the dtype of floating numbers that bring none of their own, in this thread; see :func:`set_default_dtype`.

    >>> import wengert as wg
    >>> wg.get_default_dtype()
    dtype('float32')
    """
    return get_mode().floats
