"""Every reduction in every dtype, eager and compiled, against NumPy: integers exactly, floats to what rounding allows.

A compiled function is judged at its first six calls, with the same numbers as they come from a program: made,
computed, sliced, transposed, flipped.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import wengert as wg

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL, INTS = [np.dtype("?")], [np.dtype(k + n) for k in "iu" for n in "1248"]
FLOATS, COMPLEX = [np.dtype("f2"), BFLOAT16, np.dtype("f4"), np.dtype("f8")], [np.dtype("c8"), np.dtype("c16")]
# Integers that become floats first do so in one way: these stand for all.
CASTED = [*BOOL, np.dtype("i1"), np.dtype("u8"), *FLOATS, *COMPLEX]
REAL, ALL = [*BOOL, *INTS, *FLOATS], [*BOOL, *INTS, *FLOATS, *COMPLEX]

# Shapes and axes: nothing, one number, one axis of size 1, rows and columns shorter and longer than vectors, and
# enough of them that several units share the work.
PLACES: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((1,), 0),
    ((7,), None),
    ((1, 5), 0),
    ((5, 33), 0),
    ((5, 33), 1),
    ((33, 5), None),
    ((3, 4, 5), (0, 2)),
    ((2, 3, 17), 1),
    ((300, 70), 0),
    ((70, 300), 1),
    ((70, 257), None),
]
EMPTY: list[tuple[tuple[int, ...], Any]] = [((0,), None), ((0, 3), 0), ((0, 3), 1), ((2, 0, 3), (1, 2))]


class Reduction(NamedTuple):
    """A function of a tensor and an axis, what it is in NumPy, and how its error scales.

    `scale` is what an error of rounding is relative to. `tame`: of large integers it overflows as floating numbers.
    """

    run: Callable[..., Any]
    want: Callable[..., Any]
    dtypes: list[np.dtype]
    scale: Callable[..., Any] | None = None
    of_nothing: bool = True
    tame: bool = False


def summed(x: np.ndarray) -> np.ndarray:
    """Integers as the Array API sums them."""
    return x.astype(np.uint64 if x.dtype.kind == "u" else np.int64) if x.dtype.kind in "biu" else x


def absolute(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis: fn(np.abs(x.astype(np.complex128)), axis=axis)


def spread(x: np.ndarray, axis: Any) -> Any:
    return np.sum(np.abs(x - np.mean(x, axis, keepdims=True)) ** 2, axis) / math.prod(np.atleast_1d(x.shape))


def logsumexp(x: np.ndarray, axis: Any) -> Any:
    top = np.max(x, axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    return np.log(np.sum(np.exp(x - shift), axis)) + np.squeeze(shift, axis if axis is not None else None)


def one_axis(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function along one axis: several are taken as the last."""
    return lambda x, axis: fn(x, axis=axis[-1] if isinstance(axis, tuple) else axis)


def flat(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Of a function that keeps the shape: without an axis of the flattened tensor."""

    def run(x: Any, axis: Any) -> Any:
        if axis is None:
            return fn(x.reshape(-1), axis=0)
        return fn(x, axis=axis[-1] if isinstance(axis, tuple) else axis)

    return run


def norm(ord: float) -> Reduction:
    def want(x: Any, axis: Any) -> Any:
        size = np.abs(x.astype(np.complex128))
        if ord == 0:
            return np.sum(size != 0, axis).astype(float)
        if math.isinf(ord):
            fn, start = (np.max, 0.0) if ord > 0 else (np.min, np.inf)
            return fn(size, axis, initial=start)
        return np.sum(size**ord, axis) ** (1 / ord)

    return Reduction(
        lambda t, axis: wg.linalg.vector_norm(t, ord, axis=axis), want, CASTED, want, not math.isinf(ord), tame=True
    )


def counted(x: np.ndarray, axis: Any) -> Any:
    return np.sum(x != 0, axis, dtype=np.int64)


CASES: dict[str, Reduction] = {
    "sum": Reduction(wg.sum, lambda x, axis: np.sum(summed(x), axis), ALL, absolute(np.sum)),
    "prod": Reduction(wg.prod, lambda x, axis: np.prod(summed(x), axis), ALL, absolute(np.prod)),
    "mean": Reduction(wg.mean, np.mean, ALL, absolute(np.mean)),
    "var": Reduction(wg.var, np.var, CASTED, spread, tame=True),
    "std": Reduction(wg.std, np.std, CASTED, lambda x, axis: np.sqrt(spread(x, axis)), tame=True),
    "unbiased": Reduction(
        lambda t, axis: wg.var(t, axis=axis, correction=1), lambda x, axis: np.var(x, axis, ddof=1), FLOATS, spread,
        tame=True,
    ),
    "max": Reduction(wg.max, np.max, REAL, None, False),
    "min": Reduction(wg.min, np.min, REAL, None, False),
    "argmax": Reduction(one_axis(wg.argmax), one_axis(np.argmax), REAL, None, False),
    "argmin": Reduction(one_axis(wg.argmin), one_axis(np.argmin), REAL, None, False),
    "any": Reduction(wg.any, np.any, ALL),
    "all": Reduction(wg.all, np.all, ALL),
    "count_nonzero": Reduction(wg.count_nonzero, counted, ALL),
    "logsumexp": Reduction(
        wg.logsumexp, logsumexp, CASTED[:-2], lambda x, axis: np.abs(logsumexp(x, axis)) + 1, tame=True
    ),
    "median": Reduction(one_axis(wg.median), one_axis(np.median), REAL, absolute(np.max), False),
    "norm": norm(2),
    "norm of 0": norm(0),
    "norm of 1": norm(1),
    "norm of 3": norm(3),
    "norm of infinity": norm(math.inf),
    "norm of -infinity": norm(-math.inf),
    "cumulative_sum": Reduction(
        flat(wg.cumulative_sum), flat(lambda x, axis: np.cumsum(summed(x), axis)), ALL,
        flat(lambda x, axis: np.cumsum(np.abs(x.astype(np.complex128)), axis)),
    ),
    "cumulative_prod": Reduction(
        flat(wg.cumulative_prod), flat(lambda x, axis: np.cumprod(summed(x), axis)), ALL,
        flat(lambda x, axis: np.cumprod(np.abs(x.astype(np.complex128)), axis)),
    ),
    "sort": Reduction(flat(wg.sort), flat(np.sort), REAL),
    "sort downwards": Reduction(
        flat(lambda t, axis: wg.sort(t, axis=axis, descending=True)),
        flat(lambda x, axis: np.flip(np.sort(x, axis), axis)), REAL,
    ),
    "argsort": Reduction(flat(wg.argsort), flat(lambda x, axis: np.argsort(x, axis, stable=True)), REAL),
    "top": Reduction(
        flat(lambda t, axis: wg.top_k(t, min(3, t.shape[axis]), axis=axis).values),
        flat(lambda x, axis: np.take(np.flip(np.sort(x, axis), axis), range(min(3, x.shape[axis])), axis)), REAL,
    ),
    "bottom": Reduction(
        flat(lambda t, axis: wg.top_k(t, min(3, t.shape[axis]), axis=axis, largest=False).values),
        flat(lambda x, axis: np.take(np.sort(x, axis), range(min(3, x.shape[axis])), axis)), REAL,
    ),
    "searchsorted": Reduction(
        lambda t, axis: wg.searchsorted(wg.sort(t.reshape(-1)), t.reshape(-1)),
        lambda x, axis: np.searchsorted(np.sort(x.ravel()), x.ravel()), REAL,
    ),
}  # fmt: skip
# Of equal elements these take one or the other zero.
_ZEROS_APART = {"max", "min", "sort", "sort downwards", "top", "bottom"}
# What loops compute along with what they are computed from.
_FUSED = {"sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "count_nonzero", "logsumexp", "norm"}


def one_of_each_kind(dtypes: list[np.dtype], turn: int) -> list[np.dtype]:
    """Of the dtypes that native code treats alike (signed integers, say, which differ in their width) one, in turn."""
    kinds: dict[str, list[np.dtype]] = {}
    for d in dtypes:
        kinds.setdefault("half" if d in FLOATS[:2] else d.kind, []).append(d)
    return [alike[(turn + shift) % len(alike)] for shift, alike in enumerate(kinds.values())]


def asked() -> Iterator[Any]:
    """Every reduction in every dtype: eager all of them, compiled one of every other kind in turn.

    What is computed along with its operands takes the other kinds. The rest is left to the slow tests.
    """
    for turn, (name, case) in enumerate(CASES.items()):
        alike = one_of_each_kind(case.dtypes, turn)
        compiled, fused = alike[turn % 2 :: 2], alike[1 - turn % 2 :: 2]
        for way, usual in (("eager", case.dtypes), ("compiled", compiled), ("fused", fused)):
            for d in case.dtypes if way != "fused" or name in _FUSED else ():
                yield pytest.param(name, d, way, id=f"{name}-{d}-{way}", marks=() if d in usual else pytest.mark.slow)


ASKED = list(asked())


# -- data


def numbers(dtype: np.dtype, shape: tuple[int, ...], seed: int, tame: bool) -> np.ndarray:
    """Numbers of the whole range, and its ends among them."""
    rng, size = np.random.default_rng(seed), math.prod(shape)
    if dtype.kind == "b":
        return rng.random(shape) < 0.6
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = (max(info.min, -50), 50) if tame else (info.min, info.max)
        x = rng.integers(low, high, size, dtype, endpoint=True)
        if not tame and size:
            some = rng.integers(0, size, size // 4 + 1)
            x[some] = rng.choice(np.array([info.min, info.max, 0, 1], dtype), some.size)
        return x.reshape(shape)
    # Of magnitudes about 1: long products stay in the range of half precision.
    x = rng.choice([-1.0, 1.0], shape) * np.exp(rng.normal(size=shape) / 50)
    return (x * np.exp(1j * rng.uniform(-3, 3, shape)) if dtype.kind == "c" else x).astype(dtype)


def specials(dtype: np.dtype) -> np.ndarray:
    """Rows in which something is not an ordinary number."""
    rows = [
        [1.0, math.nan, 2.0, 3.0], [math.nan] * 4, [math.inf, 1.0, 2.0, 3.0], [-math.inf, 1.0, 2.0, 3.0],
        [math.inf, -math.inf, 1.0, 0.0], [0.0, -0.0, 0.0, -0.0], [-0.0] * 4, [math.nan, math.inf, -math.inf, 0.0],
        [math.inf] * 4, [-math.inf] * 4, [1.0, 2.0, 3.0, math.nan],
    ]  # fmt: skip
    return np.array(rows).astype(dtype)


def origins(x: np.ndarray) -> list[wg.Tensor]:
    """The same numbers as tensors that were made, computed, and taken out of others in several ways."""
    plain = wg.tensor(x)
    computed = wg.where(wg.tensor(np.ones(x.shape, bool)), plain, plain)
    turned = wg.permute_dims(wg.tensor(np.array(x.T, order="C")), tuple(range(x.ndim))[::-1])
    if x.ndim == 0:
        return [plain, computed, wg.tensor(np.stack([x, x]))[1], turned, wg.tensor(x[None])[0], plain]
    wide = np.zeros((2 * x.shape[0] + 1, *x.shape[1:]), x.dtype)
    wide[1::2] = x
    backwards = wg.flip(wg.tensor(np.flip(x, 0)), axis=0)
    return [plain, computed, wg.tensor(wide)[1::2], turned, backwards, wg.tensor(np.concatenate([x, x]))[: x.shape[0]]]


# -- judging


def expected(case: Reduction, x: np.ndarray, axis: Any) -> tuple[np.ndarray, Any]:
    """What is true, and what an error is relative to: of integers exact, of floats in float64 or long doubles."""
    wide = x
    if x.dtype in FLOATS:
        wide = x.astype(np.longdouble if x.dtype.itemsize == 8 and case.scale is not None else np.float64)
    elif x.dtype.kind in "biu" and case.tame:
        wide = x.astype(np.float64)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        want = np.asarray(case.want(wide, axis=axis))
        if case.scale is None:
            return want, None
        return want, case.scale(wide if wide.dtype.kind in "fc" else wide.astype(float), axis) + np.abs(want)


def check(name: str, found: Any, x: np.ndarray, axis: Any, judged: tuple[np.ndarray, Any], what: str) -> None:
    want, scale = judged
    got = found.numpy()
    shown = (name, str(x.dtype), x.shape, axis, what)
    assert got.shape == want.shape, shown
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=str(shown))
        return
    exact = got.astype(np.complex128 if got.dtype.kind == "c" else np.longdouble)
    if scale is None:
        np.testing.assert_array_equal(exact, want, err_msg=str(shown))
        if name not in _ZEROS_APART:
            np.testing.assert_array_equal(np.signbit(exact.real), np.signbit(want.real), err_msg=str(shown))
        return
    n = x.size // max(1, want.size)
    if want.size == x.size:
        n = x.size if axis is None else max(x.shape, default=1)
    narrow = got.dtype.itemsize == 2
    eps = {"c": 2.0**-23 if got.dtype.itemsize == 8 else 2.0**-52}.get(got.dtype.kind, 2.0**-23)
    eps = 2.0**-52 if got.dtype == np.float64 else eps
    with np.errstate(all="ignore"):
        bound = (8 + 2 * n) * eps * scale
        if narrow:
            bound = bound + np.abs(want) * float(ml_dtypes.finfo(got.dtype).eps)
        near = np.abs(exact - want) <= bound
        same = near | (exact == want) | (np.isnan(exact) & np.isnan(want))
    assert same.all(), (*shown, got[~same][:4], want[~same][:4])


def arguments(case: Reduction, dtype: np.dtype, seed: int) -> list[tuple[np.ndarray, Any]]:
    given = [(numbers(dtype, shape, seed + i, case.tame), axis) for i, (shape, axis) in enumerate(PLACES)]
    given += [(numbers(dtype, shape, 0, case.tame), axis) for shape, axis in EMPTY if case.of_nothing]
    if dtype in FLOATS:
        given += [(specials(dtype), 1), (specials(dtype).T.copy(), 0), (specials(dtype)[5:7], None)]
    return given


def reduced(case: Reduction, name: str, t: Any, axis: Any, i: int) -> Any:
    """The reduction; every other one keeps its axes, which are dropped again."""
    if name not in _FUSED or name == "norm" or i % 2:
        return case.run(t, axis=axis)
    kept = case.run(t, axis=axis, keepdims=True)
    axes = range(t.ndim) if axis is None else [a % t.ndim for a in np.atleast_1d(axis).tolist()]
    assert kept.shape == tuple(1 if a in axes else n for a, n in enumerate(t.shape))
    return kept.reshape(tuple(n for a, n in enumerate(t.shape) if a not in axes))


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_sums_of_negative_zeros_are_positive(dtype: np.dtype) -> None:
    """They begin at 0.0, also where they are of one number."""
    for shape, axis in (((), ()), ((1,), 0), ((1, 3), 0), ((3, 1), None), ((4,), ()), ((2, 3), 1), ((40,), None)):
        x = wg.tensor(np.full(shape, -0.0, dtype))
        for f in (wg.sum, wg.mean):
            eager, compiled = f(x, axis=axis).numpy(), wg.jit(f, static_argnames="axis")(x, axis=axis).numpy()
            for found in (eager, compiled):
                assert not np.signbit(found.astype(np.complex128).real).any(), (shape, axis)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_moments_of_integers_of_which_large_ones_cancel(dtype: np.dtype) -> None:
    """What float32 would round before it is added: the mean of the ends of int32 and a few small numbers, say."""
    info = np.iinfo(dtype)
    low, high = (info.min, info.max) if dtype.itemsize < 8 else (-(2**52) * (info.min < 0), 2**52 - 1)
    x = np.array([high, 5, low, 3, 2, 0, high - 3, high - 1, low + 2, 1] * 3, dtype)
    for f, want in ((wg.mean, np.mean), (wg.var, np.var), (wg.std, np.std)):
        true = want(x.astype(np.longdouble))
        compiled = wg.jit(f)
        for found in (f(wg.tensor(x)), *(compiled(wg.tensor(x)) for _ in range(3))):
            assert found.dtype == wg.float32
            assert found.item() == pytest.approx(float(true), rel=1e-6)
    close = wg.tensor(np.array([high, high - 1, high - 2], dtype))
    assert wg.std(close).item() == wg.jit(wg.std)(close).item() == pytest.approx(math.sqrt(2 / 3), rel=1e-6)


def test_half_precision_leaves_its_range_on_the_way_only() -> None:
    """Squares and powers are computed in float32."""
    values = np.array([[0.0, 1000.0], [-300.0, 300.0]], np.float16)
    wide, x = values.astype(np.float64), wg.tensor(values)
    ways = {
        "std": (lambda t: wg.std(t, axis=1), np.std(wide, 1)),
        "norm": (lambda t: wg.linalg.vector_norm(t, axis=1), np.sqrt(np.sum(wide**2, 1))),
        "norm of 3": (lambda t: wg.linalg.vector_norm(t, 3, axis=1), np.sum(np.abs(wide) ** 3, 1) ** (1 / 3)),
        "mean": (lambda t: wg.mean(t * 60, axis=1), [30000.0, 0.0]),
    }
    for f, want in ways.values():
        for found in (f(x), wg.jit(f)(x)):
            assert found.dtype == wg.float16
            np.testing.assert_allclose(found.numpy().astype(np.float64), want, rtol=1e-3)


@pytest.mark.parametrize(("name", "dtype", "way"), ASKED)
def test_against_numpy(name: str, dtype: np.dtype, way: str) -> None:
    case = CASES[name]

    def all_of(*ts: Any) -> list[Any]:
        return [reduced(case, name, t, axis, i) for i, (t, (_, axis)) in enumerate(zip(ts, given, strict=True))]

    def fused(holds: Any, *ts: Any) -> list[Any]:
        """The same numbers, computed where they are reduced."""
        return all_of(*(wg.where(holds, t, wg.zeros_like(t)) for t in ts))

    f = {"eager": all_of, "compiled": wg.jit(all_of), "fused": partial(wg.jit(fused), wg.tensor(True))}[way]
    # A compiled function is given other numbers in its last call.
    calls: dict[str, Any] = {
        "eager": [(100, range(6))],
        "compiled": [(100, range(5)), (200, [5])],
        "fused": [(200, [5])],
    }
    for seed, numbers_of_calls in calls[way]:
        given = arguments(case, dtype, seed)
        judged = [expected(case, x, axis) for x, axis in given]
        made = [origins(x) for x, _ in given]
        for number in numbers_of_calls:
            results = f(*(tensors[number] for tensors in made))
            for found, (x, axis), want in zip(results, given, judged, strict=True):
                check(name, found, x, axis, want, f"{way}, call {number + 1}")
