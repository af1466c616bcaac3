"""`torch.testing`: comparisons of values for programs' own tests.

>>> import wengert.torch as torch
>>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-7]))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

import wengert as wg

from ...core.errors import ShapeError, fail
from ...core.spec import category
from ...core.tensor import Tensor as Plain
from ...ops.structure.shapes import int_args
from ..absent import names_of
from ..namespace import FUNCTIONS, tensor_of
from ..tensor import Tensor, dtype_of

# Relative and absolute tolerances where none are given; other dtypes are compared exactly.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless `|actual - expected| <= atol + rtol * |expected|` for all elements.

    Parameters
    ----------
    actual, expected: tensors, arrays or numbers, or sequences and mappings of them, of one structure.
    rtol, atol: both or neither; else 1.3e-6 and 1e-5 for float32, 1e-7 for float64, and 0 for integers.
    equal_nan: whether NaN is close to NaN.
    check_dtype: whether dtypes have to be the same.
    msg: the error's text, or a function that is given the usual one.

    Devices, layouts and strides are all the same here. Raises ShapeError for one tolerance without the other.
    """
    if (rtol is None) != (atol is None):
        fail(ShapeError, "assert_close() with one of rtol and atol", "Give both or neither.")

    def differ(text: str) -> NoReturn:
        raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg)

    _compare(actual, expected, "", rtol, atol, equal_nan, check_dtype, differ)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Raise AssertionError unless values are close, of whatever dtype; an older name of :func:`assert_close`."""
    assert_close(
        tensor_of(actual),
        tensor_of(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


def _compare(
    actual: Any,
    expected: Any,
    at: str,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
    differ: Callable[[str], NoReturn],
) -> None:
    options = rtol, atol, equal_nan, check_dtype, differ
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            differ(f"the keys are not the same{at}: {sorted(map(str, actual))} and {sorted(map(str, expected))}")
        for key in actual:
            _compare(actual[key], expected[key], f"{at}[{key!r}]", *options)
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            differ(f"the lengths are not the same{at}: {len(actual)} and {len(expected)}")
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, f"{at}[{i}]", *options)
    elif actual is None or expected is None:
        if actual is not expected:
            differ(f"one is None{at}, the other {actual if expected is None else expected!r}")
    else:
        _compare_values(actual, expected, f" at {at}" if at else "", *options)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


def _compare_values(
    actual: Any,
    expected: Any,
    at: str,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_dtype: bool,
    differ: Callable[[str], NoReturn],
) -> None:
    kinds = [isinstance(v, (Plain, np.ndarray)) for v in (actual, expected)]
    if check_dtype and kinds[0] != kinds[1]:
        differ(f"{type(actual).__name__} and {type(expected).__name__} are not compared{at}")
    a, b = (tensor_of(v).detach() for v in (actual, expected))
    if a.shape != b.shape:
        differ(f"the shapes are not the same{at}: {tuple(a.shape)} and {tuple(b.shape)}")
    if check_dtype and kinds[0] and a.dtype != b.dtype:
        differ(f"the dtypes are not the same{at}: {a.dtype} and {b.dtype}")
    widest = max(_TOLERANCES.get(np.dtype(v.dtype).name, (0.0, 0.0)) for v in (a, b))
    relative, absolute = widest if rtol is None or atol is None else (rtol, atol)
    wide = "complex128" if "c" in (np.dtype(a.dtype).kind, np.dtype(b.dtype).kind) else "float64"
    exact = {np.dtype(v.dtype).kind for v in (a, b)} <= set("iub")
    x, y = (v.numpy() if exact else v.to(wide).numpy() for v in (a, b))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(x.astype(object) - y.astype(object)).astype(np.float64) if exact else np.abs(x - y)
        close = (x == y) | ((gap <= absolute + relative * np.abs(y)) & np.isfinite(y))
    if equal_nan and not exact:
        close |= np.isnan(x) & np.isnan(y)
    if close.all():
        return
    places = np.argwhere(~close)
    worst = tuple(int(i) for i in places[np.nanargmax(np.where(np.isnan(gap), np.inf, gap)[~close])])
    differ(
        f"{len(places)} of {close.size} elements are not close{at}; the worst, at {worst}, is {x[worst]} "
        f"and should be {y[worst]} (rtol={relative}, atol={absolute})"
    )


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return numbers drawn evenly from `low` to `high`, which is left out: integers for an integer dtype.

    Parameters
    ----------
    shape: sizes, one by one or as a sequence.
    low, high: -9 and 9 (integers to 9 inclusive, unsigned ones from 0) unless given; within what the dtype holds.
    exclude_zero: put 1 in place of an integer 0, the smallest normal number in place of another.
    noncontiguous: as every second of twice as many elements, where there are two at least.

    Raises ValueError for bounds without numbers between them, and for integers that require gradients.
    """
    want = dtype_of(dtype)
    sizes, kind = int_args(shape), category(want)
    if requires_grad and kind < 2:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype}")
    usual = {0: (0, 2), 1: (0 if want.kind == "u" else -9, 10)}.get(kind, (-9, 9))
    least, most = usual[0] if low is None else low, usual[1] if high is None else high
    if not least < most:
        raise ValueError(f"make_tensor() of numbers from {least} to {most}: there are none")
    if kind == 1:
        held = np.iinfo(want)
        least, most = math.ceil(max(least, held.min)), math.ceil(min(most, int(held.max) + 1))
    elif kind > 1:
        largest = float(wg.finfo(want).max)
        least, most = max(least, -largest), min(most, largest)
    if noncontiguous and math.prod(sizes) > 1:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    if kind < 2:
        out = FUNCTIONS["randint"](int(least), int(most), sizes, dtype=want, device=device)
    else:
        both = (1 + 1j) if kind == 3 else 1
        out = (FUNCTIONS["rand"](sizes, dtype=want, device=device) * (most - least) + least * both).to(want)
    if noncontiguous and out.numel() > 1:
        out = out[..., ::2]
    if exclude_zero:
        tiny = float(wg.finfo(want).smallest_normal) if kind > 1 else 1
        out = FUNCTIONS["where"](out == 0, (tiny + tiny * 1j) if kind == 3 else tiny, out).to(want)
    return out.requires_grad_() if requires_grad else out  # type: ignore[no-any-return]


__all__ = ["assert_allclose", "assert_close", "make_tensor"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
