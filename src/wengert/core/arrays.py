"""NumPy arrays from whatever users bring, and how tensors are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtypes import DType, is_foreign, is_known, record_of
from .elsewhere import Elsewhere, here
from .errors import DTypeError, ShapeError, fail
from .spec import as_dtype, category, default_complex, default_float, default_int

Array = np.ndarray[Any, Any]


def _array_always() -> Any:
    try:
        return ... if type(np.negative(np.ones(()), out=...)) is np.ndarray else None
    except TypeError:
        return None


# The `out` with which NumPy's ufuncs, and their reductions, give an array also where there are no axes, instead of a
# scalar: the Ellipsis from NumPy 2.3 on; before that there is none.
ARRAY_ALWAYS: Any = _array_always()


def in_order_of(out: Array, arrays: Sequence[Any]) -> Array:
    """Return a new array as elementwise results lie in memory: in the order of the arrays' axes, without gaps.

    The first array decides in which two axes have different strides; one that is repeated along either does not.
    """
    ndim = out.ndim
    given = [x for x in arrays if type(x) is np.ndarray and x.ndim and _broadcasts(x.shape, out.shape)]
    if ndim < 2 or (out.flags.c_contiguous and all(x.flags.c_contiguous for x in given)):
        return out
    steps = []
    for x in given:
        known = [abs(step) if n > 1 or out.ndim == 1 else 0 for n, step in zip(x.shape, x.strides)]
        steps.append([0] * (ndim - x.ndim) + known)
    axes = list(range(ndim))  # the outermost in memory first

    def is_inside(first: int, second: int) -> int:
        for known in steps:
            if known[first] and known[second] and known[first] != known[second]:
                return 1 if known[first] < known[second] else -1
        return 0

    for i in range(ndim - 2, -1, -1):
        at = i
        for k in range(i + 1, ndim):
            found = is_inside(axes[at], axes[k])
            if found > 0:
                axes[at], axes[k] = axes[k], axes[at]
                at = k
            elif found < 0:
                break
    turned = out.transpose(axes)
    if turned.flags.c_contiguous:
        return out
    return turned.copy(order="C").transpose(sorted(range(ndim), key=axes.__getitem__))


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(reversed(shape), reversed(to)))


def to_numpy(data: Any) -> Array:
    """Return `data` as a NumPy array, no subclass, of whatever dtype NumPy gives it; errors name what is wrong."""
    if type(data) is np.ndarray:
        return data
    _refuse_masked(data)
    try:
        return np.asarray(data)
    except ValueError as e:
        if "inhomogeneous" in str(e):
            fail(
                ShapeError,
                f"a ragged nested list: {_ragged(data)}",
                "Every list at one depth must have the same length. Pad the short ones, or keep a list of tensors.",
            )
        fail(DTypeError, f"{type(data).__name__} is not array data: {e}")
    except (TypeError, OverflowError) as e:
        fail(DTypeError, f"{type(data).__name__} is not array data: {e}")


def _refuse_masked(data: Any) -> None:
    if isinstance(data, np.ma.MaskedArray) and np.any(data.mask):
        fail(
            DTypeError,
            f"a masked array {data.shape} of which some elements are masked",
            "A tensor has a value everywhere: give those elements one, data.filled(0.0), and keep data.mask beside it.",
        )


def refuse_subclass(x: Any, what: str) -> None:
    """Raise DTypeError for an array of NumPy's that means something else than its elements.

    The `*` and `**` of a matrix are other operations; a masked array has elements without a value.
    """
    _refuse_masked(x)
    if isinstance(x, np.matrix):
        fail(
            DTypeError,
            f"{what}: a np.matrix {x.shape} among the operands",
            "A np.matrix multiplies otherwise: write np.asarray(A), and `@` for the product of matrices.",
        )


# The number of elements from which it pays to choose them by their bits.
_BY_BITS = 256


def where_or_zero(mask: Any, values: Array) -> Array:
    """Return the values where the mask holds, else zeros; NaN and infinity are left out as any other.

    NumPy's `where` decides element by element. A number's bits times 0 or 1 are either of the two, in loops without
    branches.
    """
    if values.size < _BY_BITS or values.itemsize > 8:
        return np.where(mask, values, np.zeros((), values.dtype))
    bits: Array = np.multiply(values.view(f"i{values.itemsize}"), mask)
    return bits.view(values.dtype)


def is_frozen(a: Array) -> bool:
    """Return whether neither an array nor an array that it is a view of can be written to."""
    base: Any = a
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return base is None or type(base) is bytes


def _ragged(data: Any) -> str:
    lengths = [len(d) if hasattr(d, "__len__") else None for d in data]
    if len(set(lengths)) > 1:
        for i, n in enumerate(lengths):
            if n != lengths[0]:
                first = "a scalar" if lengths[0] is None else f"{lengths[0]} elements"
                other = "a scalar" if n is None else f"{n} elements"
                return f"element 0 has {first}, element {i} has {other}"
    return next((_ragged(d) for d in data if hasattr(d, "__len__")), "its lists differ in length")


def dtype_for(data: Any, value: Array) -> DType:
    """Return the dtype of a tensor made of `data`, whose array is `value`. Raises DTypeError where there is none."""
    if value.dtype.kind in "OSUMmV" and not is_known(value.dtype):
        kinds = sorted({type(v).__name__ for v in np.asarray(data, dtype=object).ravel()[:1000]})
        fail(
            DTypeError,
            f"data of dtype {value.dtype} cannot become a tensor (it holds {', '.join(kinds[:4])})",
            "Tensors hold booleans, integers, floating and complex numbers. "
            "Python integers beyond 64 bits need a float dtype.",
        )
    if isinstance(data, (bool, int, float, complex, list, tuple)) and not _has_numpy(data):
        kind = category(value.dtype)
        return (value.dtype, default_int, default_float(), default_complex())[kind] if kind else value.dtype
    return as_dtype(value.dtype)


def _has_numpy(data: Any) -> bool:
    """Return whether a pytree holds NumPy values, whose dtypes are kept, rather than Python scalars."""
    stack = [data]
    while stack:
        d = stack.pop()
        if isinstance(d, (np.generic, np.ndarray)):
            return True
        if isinstance(d, (list, tuple)) and d:
            if isinstance(d[0], (list, tuple)):
                stack.extend(d)
            elif any(isinstance(x, (np.generic, np.ndarray)) for x in d):
                return True
    return False


def converted(value: Array, dtype: DType) -> Array:
    """Return an array in a dtype. Raises DTypeError where that would lose an imaginary part or more."""
    if value.dtype == object or value.dtype.kind in "SUMm":
        fail(DTypeError, f"data of dtype {value.dtype} cannot become a tensor of {dtype}")
    if value.dtype.kind == "c" and dtype.kind != "c":
        fail(
            DTypeError,
            f"complex data cannot become {dtype}: the imaginary part would be lost",
            "Write wg.real(x), or pick a complex dtype.",
        )
    if value.dtype.kind in "iu" and dtype.kind in "iu" and value.size:
        info = np.iinfo(dtype)
        low, high = int(value.min()), int(value.max())
        if low < info.min or high > info.max:
            fail(
                DTypeError,
                f"the number {low if low < info.min else high} does not fit {dtype}",
                f"{dtype} holds {info.min} to {info.max}: choose a wider dtype, or wrap around with NumPy's astype.",
            )
    if value.dtype.kind in "fV" and dtype.kind in "iu" and value.size:
        whole = np.trunc(value.astype(np.float64))
        lowest, beyond = integer_bounds(dtype)
        outside = ~((whole >= lowest) & (whole < beyond))
        if outside.any():
            fail(
                DTypeError,
                f"the number {value[outside].flat[0]} does not fit {dtype}",
                f"{dtype} holds {int(lowest)} to {int(beyond) - 1}: choose a wider dtype, or bound the numbers first.",
            )
    return narrowed(value, dtype) if record_of(dtype).largest else value.astype(dtype)


def narrowed(x: Array, dtype: DType) -> Array:
    """Return real numbers in a dtype without infinities, as PyTorch and ONNX do: larger ones become its largest."""
    largest = record_of(dtype).largest
    return np.asarray(np.clip(x.astype(np.float32), -largest, largest)).astype(dtype)  # type: ignore[operator]


# -- floating numbers as integers


def integer_bounds(dtype: DType) -> tuple[float, float]:
    """Return the smallest number of an integer dtype and the one after the largest: powers of 2, which floats hold."""
    bits = 8 * dtype.itemsize
    return (0.0, 2.0**bits) if dtype.kind == "u" else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))


def to_integers(x: Array, dtype: DType) -> Array:
    """Return floating numbers truncated toward 0; out of range is the dtype's nearest bound, NaN is 0.

    What C, and NumPy with it, makes of those is left open, and differs between processors and between
    the ends of an array and its middle.
    """
    if x.itemsize == 2:
        x = x.astype(np.float32)
    if dtype.kind == "i" and dtype.itemsize >= 4:
        # Processors have these conversions, and note what does not fit: nobody has to look for it.
        try:
            with np.errstate(invalid="raise"):
                return x.astype(dtype)
        except FloatingPointError:
            return _saturated(x, dtype)
    lowest, beyond = integer_bounds(dtype)
    if x.size == 0 or (np.minimum.reduce(x, None) > lowest - 1.0 and np.maximum.reduce(x, None) < beyond):
        return x.astype(dtype)
    return _saturated(x, dtype)


def _saturated(x: Array, dtype: DType) -> Array:
    lowest, beyond = integer_bounds(dtype)
    greatest = int(beyond) - 1
    # The largest integer, or where that is no number of x's dtype the largest number below it.
    held = min(float(greatest), float(np.nextafter(x.dtype.type(beyond), x.dtype.type(0))))
    inside = np.asarray(np.minimum(np.maximum(x, lowest), held))
    np.copyto(inside, 0, where=inside != inside)
    out: Array = inside.astype(dtype)
    if int(held) != greatest:
        np.copyto(out, greatest, where=np.asarray(x >= beyond))
    return out


# -- showing


# How `numpy.array2string` shows values; a namespace with settings of its own changes them.
PRINTING: dict[str, Any] = {"threshold": 1000, "precision": 4}


def format_tensor(x: Any) -> str:
    """Return the text `tensor([1., 2.], requires_grad=True)`; dtypes other than the defaults are named."""
    tail = []
    if x._array is None:
        tail.append(f"shape={x.shape}")
        body = "<abstract>"
        tail.append(f"dtype={x.dtype}")
    elif isinstance(x._array, Elsewhere) and x._array.place is None:
        body = repr(x._array)
    else:
        value = here(x._array, "repr()")
        shown = value.astype(np.float32) if is_foreign(value.dtype) else value
        body = np.array2string(shown, separator=", ", prefix="tensor(", **PRINTING)
        if value.size == 0:
            body = "[]"
            if value.shape != (0,):
                tail.append(f"shape={x.shape}")
        known = (default_float(), default_int, default_complex())
        if x.dtype not in known and x.dtype.kind != "b" and not x.is_weak:
            tail.append(f"dtype={x.dtype}")
        if isinstance(x._array, Elsewhere):
            tail.append(f"device={x._array.place!r}")
    if x.grad_fn is not None and x.requires_grad:
        tail.append(f"grad_fn={x.grad_fn}")
    elif x.requires_grad:
        tail.append("requires_grad=True")
    label = "Parameter containing:\n" if type(x).__name__ == "Parameter" else ""
    return f"{label}tensor({', '.join([body, *tail])})"
