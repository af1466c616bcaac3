"""Statistics of values: sizes for colour, exact numbers where they are few, histograms and pictures of arrays."""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from . import large
from .large import real

NONE, ZERO, INFINITE, NAN = 0, 1, 254, 255
_BINS, _ALL, _ROWS, _COLUMNS = 16, 64, 16, 64
# Arrays of more elements are not copied.
_LARGE = 1 << 22
# Codes are quarters of powers of two around 1.
_MIDDLE, _STEPS = 128, 4
_LEAST, _MOST = 2, 253
# Sizes whose squares, and sums of squares over any array, are ordinary numbers.
_TINY, _VAST = 1e-140, 1e140


def num(value: Any) -> float | int | str:
    """Return a number as JSON can have it."""
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return int(value)
    value = float(value)
    if math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def exact(value: Any) -> float | int | str | None:
    """Return the one element of an array, in the fewest digits that its dtype tells apart; None of a complex one."""
    if type(value) is np.float64:
        return num(value)
    item = np.asarray(value).reshape(())[()]
    if item.dtype.kind == "c":
        return None
    if item.dtype.kind == "f" and item.dtype.itemsize < 8:
        return num(float(str(item)))
    return num(item)


def parts(value: Any) -> list[Array]:
    """Return the arrays of a value: itself, or those of several results."""
    found = value if isinstance(value, (tuple, list)) else (value,)
    return [np.asarray(v) for v in found if v is not None]


def code(value: Any) -> int:
    """Return the root mean square of the finite elements, as one byte; NaN and infinities have codes of their own."""
    if value is None:
        return NONE
    total, count = 0.0, 0
    worst = NONE
    for array in parts(value):
        if array.size == 0:
            continue
        if _is_large(array):
            sums = large.sums(array)
            worst = max(worst, NAN if sums.nan else INFINITE if sums.infinite else NONE)
            total += sums.squares
            count += sums.finite
            continue
        flat = real(array).ravel()
        with np.errstate(all="ignore"):
            squares = float(np.dot(flat, flat))
        if not math.isfinite(squares):
            finite = np.isfinite(flat)
            if not finite.all():
                worst = max(worst, NAN if np.isnan(flat).any() else INFINITE)
            flat = flat[finite].astype(np.float64)
            with np.errstate(all="ignore"):
                squares = float(np.dot(flat, flat))
        total += squares
        count += flat.size
    if worst:
        return worst
    if total:
        return of_rms(math.sqrt(total / count))
    # Squares of small numbers are 0 before the numbers are.
    return _LEAST if any(array.any() for array in parts(value)) else ZERO


def size(value: Any) -> float | int | str | None:
    """Return the root mean square to six digits, for sentences; None of one number, and where not all is finite.

    `code` is for drawing: it tells sizes a tenth apart from each other, and no more.
    """
    if value is None or (not isinstance(value, (tuple, list)) and np.size(value) == 1):
        return None
    found = parts(value)
    if len(found) == 1 and _is_large(found[0]):
        sums = large.sums(found[0])
        return None if sums.finite < found[0].size else short(math.sqrt(sums.squares / sums.finite))
    flat = np.concatenate([real(array).ravel().astype(np.float64) for array in found])
    largest = float(np.abs(flat).max(initial=0.0))
    if not math.isfinite(largest):
        return None
    return short(largest * math.sqrt(float(np.square(flat / largest).mean()))) if largest else 0


def amount(value: Any) -> float | int | str | None:
    """Return a single number itself, of anything else its size."""
    single = value is not None and not isinstance(value, (tuple, list)) and np.size(value) == 1
    return exact(value) if single else size(value)


def codes(values: Sequence[Any]) -> list[int]:
    """Return the codes of many values; single numbers, of which there may be very many, all at once."""
    out = [NONE] * len(values)
    places: list[int] = []
    singles: list[float] = []
    for i, value in enumerate(values):
        if isinstance(value, np.floating):
            places.append(i)
            singles.append(float(value))
        elif value is not None:
            out[i] = code(value)
    if singles:
        sizes = np.abs(np.array(singles))
        with np.errstate(all="ignore"):
            found = np.rint(_MIDDLE + _STEPS * np.log2(sizes)).clip(_LEAST, _MOST)
        found = np.where(sizes == 0, ZERO, np.where(np.isnan(sizes), NAN, np.where(np.isinf(sizes), INFINITE, found)))
        for i, one in zip(places, found.astype(int).tolist(), strict=True):
            out[i] = one
    return out


def of_rms(size: float) -> int:
    """Return the code of a root mean square."""
    if size == 0:
        return ZERO
    if not math.isfinite(size):
        return _MOST
    return min(_MOST, max(_LEAST, round(_MIDDLE + _STEPS * math.log2(size))))


def packed(codes: Sequence[int]) -> str:
    """Return codes as the document has them: a byte each, in base64."""
    return base64.b64encode(bytes(codes)).decode("ascii")


def details(value: Any) -> dict[str, Any] | None:
    """Return range, moments, histogram, and all elements or a picture of them; None of nothing.

    Of complex numbers they are those of the sizes, and it says so.
    """
    arrays = parts(value)
    if not arrays:
        return None
    array = arrays[0]
    if _is_large(array):
        return _large_details(array)
    flat = real(array).ravel().astype(np.float64, copy=False)
    finite = flat[np.isfinite(flat)]
    out: dict[str, Any] = {"min": 0, "max": 0, "mean": 0, "std": 0}
    hist: list[int] = []
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        scaled, exponent = _scaled(finite, max(-low, high))
        mean, std = (_unscaled(float(v), exponent) for v in (scaled.mean(), scaled.std()))
        out = {"min": num(low), "max": num(high), "mean": short(mean), "std": short(std)}
        hist = _histogram(finite, low, high)
    nans = int(np.isnan(flat).sum())
    out |= {"nan": nans, "inf": flat.size - finite.size - nans, "zero": int((flat == 0).sum()), "size": flat.size}
    out["hist"] = hist
    if array.dtype.kind == "c":
        out["modulus"] = True
    if flat.size <= _ALL and array.dtype.kind != "c":
        out["values"] = [exact(v) for v in array.ravel()]
    elif flat.size > _ALL:
        out["cells"] = cells(flat.reshape(array.shape))
    return out


def _is_large(array: Array) -> bool:
    """Return whether an array is looked at in pieces: a large one whose numbers' squares are ordinary numbers."""
    return array.size > _LARGE and array.dtype.kind in "biufV" and array.dtype.itemsize <= 4


def _large_details(array: Array) -> dict[str, Any]:
    sums = large.sums(array)
    out: dict[str, Any] = {"min": 0, "max": 0, "mean": 0, "std": 0}
    hist: list[int] = []
    if sums.finite:
        std, hist = large.spread(array, sums, _BINS)
        out = {"min": num(sums.low), "max": num(sums.high), "mean": short(sums.total / sums.finite), "std": short(std)}
    matrix = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)
    rows, columns = min(_ROWS, matrix.shape[0]), min(_COLUMNS, matrix.shape[1])
    means, nan, inf = large.grid(matrix, rows, columns)
    cell = zip(means.ravel().tolist(), nan.ravel(), inf.ravel(), strict=True)
    values = ["nan" if n else "inf" if i else _rounded(v, 3) for v, n, i in cell]
    return {
        **out, "nan": sums.nan, "inf": sums.infinite, "zero": sums.zero, "size": array.size, "hist": hist,
        "cells": {"rows": rows, "cols": columns, "values": values},
    }  # fmt: skip


def _scaled(finite: Array, largest: float) -> tuple[Array, int]:
    """Scale by a power of two that keeps sums of numbers, and of squares, in range; return its negated exponent too."""
    if largest == 0 or _TINY < largest < _VAST:
        return finite, 0
    exponent = math.frexp(largest)[1]
    return np.ldexp(finite, -exponent), exponent


def _unscaled(value: float, exponent: int) -> float:
    """Return a mean of scaled numbers as it is, or the largest number where rounding took it past that."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(sys.float_info.max, value)


def _histogram(finite: Array, low: float, high: float) -> list[int]:
    if high == low:
        return [int(finite.size)]
    scaled, exponent = _scaled(finite, max(-low, high))
    low, high = math.ldexp(low, -exponent), math.ldexp(high, -exponent)
    places = np.minimum(((scaled - low) / (high - low) * _BINS).astype(np.int64), _BINS - 1)
    return [int(n) for n in np.bincount(places, minlength=_BINS)]


def _rounded(value: float, digits: int) -> float:
    """Return a number to so many digits; itself where that would be beyond all numbers."""
    found = float(f"{value:.{digits}g}")
    return found if math.isfinite(found) else value


def short(value: Any) -> float | int | str:
    """Return a number to six digits: statistics, not values."""
    found = num(value)
    return _rounded(found, 6) if isinstance(found, float) else found


def short_number(value: float | int | str) -> float | int | str:
    """Return an exact number to four digits, for documents of very many."""
    return _rounded(value, 4) if isinstance(value, float) else value


def cells(array: Array) -> dict[str, Any]:
    """Return an array as a matrix of cells: each the mean size of what it covers, bad where anything in it is.

    The last axis goes across; all others go down.
    """
    matrix = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)
    return _grid(np.abs(matrix), min(_ROWS, matrix.shape[0]), min(_COLUMNS, matrix.shape[1]))


def _grid(sizes: Array, rows: int, columns: int) -> dict[str, Any]:
    down = (np.arange(rows) * sizes.shape[0]) // rows
    across = (np.arange(columns) * sizes.shape[1]) // columns
    bad = ~np.isfinite(sizes)
    good = np.where(bad, 0.0, sizes)
    scaled, exponent = _scaled(good, float(good.max()))
    sums = np.add.reduceat(np.add.reduceat(scaled, down, axis=0), across, axis=1)
    counts = np.diff(np.append(down, sizes.shape[0]))[:, None] * np.diff(np.append(across, sizes.shape[1]))
    means = (sums / counts).ravel().tolist()
    values: list[Any]
    if exponent:
        values = [_rounded(_unscaled(v, exponent), 3) for v in means]
    else:
        # Many at once: a document has millions of cells.
        values = [float(v) for v in ("%.3g " * len(means) % tuple(means)).split()]
    if bad.any():
        nan = np.logical_or.reduceat(np.logical_or.reduceat(np.isnan(sizes), down, axis=0), across, axis=1).ravel()
        inf = np.logical_or.reduceat(np.logical_or.reduceat(np.isinf(sizes), down, axis=0), across, axis=1).ravel()
        values = ["nan" if n else "inf" if i else v for v, n, i in zip(values, nan, inf, strict=True)]
    return {"rows": rows, "cols": columns, "values": values}
