"""Every function that is not elementwise against NumPy's, over dtypes and shapes, empty and 0-d included.

NumPy 2 follows the standard; where it raises, Wengert must too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
SHAPES = [(), (0,), (1,), (4,), (2, 3), (0, 3), (3, 0), (2, 1, 3)]
Case = Callable[[Any, Any], Any]

# The standard has axes in [-ndim, ndim): none in a 0-d array, where NumPy lets 0 and -1 pass.
NUMPY_TAKES_0D = {
    "all axis",
    "prod axis",
    "prod dtype",
    "repeat axis",
    "repeat none",
    "squeeze",
    "squeeze last",
    "sum axis",
    "take",
    "take negative",
    "take nothing",
    "max axis",
    "argmax axis",
    "argmin keepdims",
    "mean axis",
    "std correction",
    "std half",
    "var correction",
    "count_nonzero axis",
    "sum two",
    "min two",
    "any two",
    "cumulative_sum",
    "cumulative_sum initial",
    "cumulative_sum dtype",
    "cumulative_prod",
    "cumulative_prod initial",
    "diff none",
    "argsort",
    "argsort first",
}


def line(xp: Any, x: Any) -> Any:
    """All elements along one axis."""
    return xp.reshape(x, (-1,))


ANY: dict[str, Case] = {
    "astype": lambda xp, x: xp.astype(x, xp.complex128),
    "astype bool": lambda xp, x: xp.astype(x, xp.bool),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),
    "broadcast_to ones": lambda xp, x: xp.broadcast_to(x, (5,)),
    "broadcast_arrays": lambda xp, x: xp.broadcast_arrays(x, xp.reshape(x, (1, 1, *x.shape))),
    "concat": lambda xp, x: xp.concat([x, x, x]),
    "concat last": lambda xp, x: xp.concat((x, x), axis=-1),
    "concat flat": lambda xp, x: xp.concat([x, x], axis=None),
    "concat one": lambda xp, x: xp.concat([x]),
    "count_nonzero": lambda xp, x: xp.count_nonzero(x),
    "count_nonzero axis": lambda xp, x: xp.count_nonzero(x, axis=0, keepdims=True),
    "empty_like": lambda xp, x: xp.empty_like(x).shape,
    "expand_dims": lambda xp, x: xp.expand_dims(x, axis=0),
    "expand_dims last": lambda xp, x: xp.expand_dims(x, axis=-1),
    "expand_dims bad": lambda xp, x: xp.expand_dims(x, axis=x.ndim + 1),
    "flip": lambda xp, x: xp.flip(x),
    "flip last": lambda xp, x: xp.flip(x, axis=-1),
    "flip two": lambda xp, x: xp.flip(x, axis=(0, 1)),
    "full_like": lambda xp, x: xp.full_like(x, 1),
    "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
    "mT": lambda xp, x: x.mT,
    "meshgrid": lambda xp, x: xp.meshgrid(line(xp, x), line(xp, x)),
    "meshgrid ij": lambda xp, x: xp.meshgrid(line(xp, x), xp.zeros(2, dtype=xp.float64), line(xp, x), indexing="ij"),
    "meshgrid one": lambda xp, x: xp.meshgrid(line(xp, x)),
    "moveaxis": lambda xp, x: xp.moveaxis(x, 0, -1),
    "moveaxis two": lambda xp, x: xp.moveaxis(x, (0, 1), (-1, 0)),
    "nonzero": lambda xp, x: xp.nonzero(x),
    "ones_like": lambda xp, x: xp.ones_like(x),
    "permute_dims": lambda xp, x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "permute_dims bad": lambda xp, x: xp.permute_dims(x, (0, 0)),
    "repeat": lambda xp, x: xp.repeat(x, 2),
    "repeat axis": lambda xp, x: xp.repeat(x, 3, axis=-1),
    "repeat none": lambda xp, x: xp.repeat(x, 0, axis=0),
    "repeat each": lambda xp, x: xp.repeat(x, xp.asarray([2, 0]), axis=0),
    "reshape": lambda xp, x: xp.reshape(x, (-1,)),
    "reshape ones": lambda xp, x: xp.reshape(x, (1, *x.shape, 1)),
    "reshape bad": lambda xp, x: xp.reshape(x, (7, 2)),
    "reshape copy": lambda xp, x: xp.reshape(x, (-1, 1), copy=True),
    "roll": lambda xp, x: xp.roll(x, 1),
    "roll axis": lambda xp, x: xp.roll(x, -2, axis=0),
    "roll two": lambda xp, x: xp.roll(x, (1, 2), axis=(0, 1)),
    "roll twice": lambda xp, x: xp.roll(x, (1, 1), axis=(0, 0)),
    "squeeze": lambda xp, x: xp.squeeze(x, axis=0),
    "squeeze two": lambda xp, x: xp.squeeze(xp.reshape(x, (1, *x.shape, 1)), axis=(0, -1)),
    "squeeze last": lambda xp, x: xp.squeeze(x, axis=-1),
    "stack": lambda xp, x: xp.stack([x, x]),
    "stack last": lambda xp, x: xp.stack((x, x, x), axis=-1),
    "take": lambda xp, x: xp.take(x, xp.asarray([0, 0], dtype=xp.int32), axis=-1),
    "take negative": lambda xp, x: xp.take(x, xp.asarray([-1, 0]), axis=0),
    "take nothing": lambda xp, x: xp.take(x, xp.asarray([], dtype=xp.int64), axis=0),
    "take_along_axis": lambda xp, x: xp.take_along_axis(x, xp.zeros(x.shape, dtype=xp.int64), axis=-1),
    "take_along_axis first": lambda xp, x: xp.take_along_axis(x, xp.ones((1, *x.shape[1:]), dtype=xp.int64), axis=0),
    "tile": lambda xp, x: xp.tile(x, (2,)),
    "tile more": lambda xp, x: xp.tile(x, (2, 1, 3, 1)),
    "tile none": lambda xp, x: xp.tile(x, (0, 2)),
    "tile empty": lambda xp, x: xp.tile(x, ()),
    "tril": lambda xp, x: xp.tril(x[None, None, ...]),
    "triu": lambda xp, x: xp.triu(x[None, None, ...], k=-1),
    "tril far": lambda xp, x: xp.tril(x[None, None, ...], k=9),
    "unstack": lambda xp, x: xp.unstack(x),
    "unstack last": lambda xp, x: xp.unstack(x, axis=-1),
    "where": lambda xp, x: xp.where(xp.ones(x.shape, dtype=xp.bool), x, x),
    "where broadcast": lambda xp, x: xp.where(xp.asarray([[True], [False]]), x, x),
    "zeros_like": lambda xp, x: xp.zeros_like(x),
    "unique_values": lambda xp, x: np.sort(np.asarray(xp.unique_values(x))),
    "unique_all": lambda xp, x: tuple(xp.unique_all(x)),
    "unique_counts": lambda xp, x: tuple(xp.unique_counts(x)),
    "unique_inverse": lambda xp, x: tuple(xp.unique_inverse(x)),
    "all": lambda xp, x: xp.all(x),
    "all axis": lambda xp, x: xp.all(x, axis=-1, keepdims=True),
    "any": lambda xp, x: xp.any(x),
    "any two": lambda xp, x: xp.any(x, axis=(0, 1)),
    "any none": lambda xp, x: xp.any(x, axis=()),
    "index ellipsis": lambda xp, x: x[...],
    "index none": lambda xp, x: x[None, ..., None],
    "index last": lambda xp, x: x[..., -1],
    "index slice": lambda xp, x: x[1:],
    "index reversed": lambda xp, x: x[::-1],
    "index far slice": lambda xp, x: x[-9:9:2],
    "index integer": lambda xp, x: x[0],
    "index bad": lambda xp, x: x[99],
    "index too many": lambda xp, x: x[0, 0, 0, 0],
    "index mask": lambda xp, x: x[xp.astype(x, xp.bool)],
    "index array": lambda xp, x: x[xp.asarray([0, -1]), ...],
    "index two arrays": lambda xp, x: x[xp.asarray([0, 1]), xp.asarray([[1], [0]])],
    "index mixed": lambda xp, x: x[xp.asarray([0, 1]), 1],
}

NUMERIC: dict[str, Case] = {
    "cumulative_sum": lambda xp, x: xp.cumulative_sum(x, axis=-1),
    "cumulative_sum none": lambda xp, x: xp.cumulative_sum(x[None, ...]),
    "cumulative_sum initial": lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True),
    "cumulative_sum dtype": lambda xp, x: xp.cumulative_sum(x, axis=0, dtype=xp.complex128),
    "cumulative_prod": lambda xp, x: xp.cumulative_prod(x, axis=-1),
    "cumulative_prod initial": lambda xp, x: xp.cumulative_prod(x, axis=-1, include_initial=True),
    "diff": lambda xp, x: xp.diff(x),
    "diff first": lambda xp, x: xp.diff(x, axis=0, n=2),
    "diff none": lambda xp, x: xp.diff(x, n=0),
    "diff many": lambda xp, x: xp.diff(x, n=9),
    "diff ends": lambda xp, x: xp.diff(x, prepend=x, append=x),
    "matmul": lambda xp, x: xp.matmul(x, x.mT),
    "operator @": lambda xp, x: x @ x,
    "tensordot": lambda xp, x: xp.tensordot(x, x, axes=0),
    "tensordot axes": lambda xp, x: xp.tensordot(x, x, axes=((0,), (0,))),
    "tensordot two": lambda xp, x: xp.tensordot(x, x, axes=((0, 1), (0, 1))),
    "vecdot": lambda xp, x: xp.vecdot(x, x),
    "vecdot first": lambda xp, x: xp.vecdot(x, x, axis=0),
    "prod": lambda xp, x: xp.prod(x),
    "prod axis": lambda xp, x: xp.prod(x, axis=0, keepdims=True),
    "prod dtype": lambda xp, x: xp.prod(x, axis=-1, dtype=xp.complex64),
    "sum": lambda xp, x: xp.sum(x),
    "sum axis": lambda xp, x: xp.sum(x, axis=-1, keepdims=True),
    "sum two": lambda xp, x: xp.sum(x, axis=(0, -1)),
    "sum repeated": lambda xp, x: xp.sum(x, axis=(0, 0)),
    "sum bad": lambda xp, x: xp.sum(x, axis=3),
    "sum dtype": lambda xp, x: xp.sum(x, dtype=xp.complex64),
}

REAL: dict[str, Case] = {
    "argmax": lambda xp, x: xp.argmax(x),
    "argmax axis": lambda xp, x: xp.argmax(x, axis=-1),
    "argmin": lambda xp, x: xp.argmin(x),
    "argmin keepdims": lambda xp, x: xp.argmin(x, axis=0, keepdims=True),
    "argmin all keepdims": lambda xp, x: xp.argmin(x, keepdims=True),
    "argsort": lambda xp, x: xp.argsort(x, stable=True),
    "argsort first": lambda xp, x: xp.argsort(x, axis=0, stable=True),
    "sort": lambda xp, x: xp.sort(x),
    "sort first": lambda xp, x: xp.sort(x, axis=0),
    "max": lambda xp, x: xp.max(x),
    "max axis": lambda xp, x: xp.max(x, axis=-1, keepdims=True),
    "min": lambda xp, x: xp.min(x),
    "min two": lambda xp, x: xp.min(x, axis=(0, 1)),
    "max none": lambda xp, x: xp.max(x, axis=()),
    "clip": lambda xp, x: xp.clip(x, 1, 3),
    "clip min": lambda xp, x: xp.clip(x, min=2),
    "clip max": lambda xp, x: xp.clip(x, max=2),
    "clip neither": lambda xp, x: xp.clip(x),
    "clip arrays": lambda xp, x: xp.clip(x, xp.ones_like(x), xp.full_like(x, 2)),
    "clip mixed": lambda xp, x: xp.clip(x, xp.ones_like(x), 2),
    "clip broadcast": lambda xp, x: xp.clip(x, xp.asarray([[1], [2]], dtype=x.dtype), None),
    "searchsorted": lambda xp, x: xp.searchsorted(xp.sort(line(xp, x)), x),
    "searchsorted right": lambda xp, x: xp.searchsorted(xp.sort(line(xp, x)), xp.expand_dims(x, axis=0), side="right"),
    "searchsorted sorter": lambda xp, x: xp.searchsorted(line(xp, x), x, sorter=xp.argsort(line(xp, x))),
}

FLOATING: dict[str, Case] = {
    "mean": lambda xp, x: xp.mean(x),
    "mean axis": lambda xp, x: xp.mean(x, axis=-1, keepdims=True),
}
REAL_FLOATING: dict[str, Case] = {
    "std": lambda xp, x: xp.std(x),
    "std correction": lambda xp, x: xp.std(x, axis=-1, correction=1.0),
    "std half": lambda xp, x: xp.std(x, axis=0, correction=0.5, keepdims=True),
    "var": lambda xp, x: xp.var(x),
    "var correction": lambda xp, x: xp.var(x, axis=0, correction=1),
}


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(sum(shape) + 1)
    whole = rng.integers(0, 5, shape)
    x = np.asarray(whole + (1j * rng.integers(0, 3, shape) if "complex" in dtype else 0))
    return x.astype(dtype)


def taking(dtype: str) -> dict[str, Case]:
    """The cases whose functions take a dtype."""
    out = dict(ANY)
    if dtype != "bool":
        out |= NUMERIC
        if "complex" not in dtype:
            out |= REAL
    if "float" in dtype or "complex" in dtype:
        out |= FLOATING
        if "float" in dtype:
            out |= REAL_FLOATING
    return out


def outcome(case: Case, xp: Any, x: Any) -> Any:
    """What a case gives, or the fact that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return case(xp, x)
        except (ValueError, TypeError, IndexError) as e:
            return e


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def difference(name: str, case: Case, shape: tuple[int, ...], dtype: str) -> str | None:
    x = values(shape, dtype)
    found, expected = outcome(case, wg, wg.asarray(x)), outcome(case, np, x)
    at = f"{name} of {shape} {dtype}"
    if isinstance(expected, Exception):
        return None if isinstance(found, Exception) else f"{at}: NumPy raised {expected!r}, Wengert gave {found}"
    if isinstance(found, Exception):
        if shape == () and name in NUMPY_TAKES_0D and isinstance(found, wg.ShapeError):
            return None
        return f"{at}: Wengert raised {type(found).__name__}: {found}"
    if len(flat(found)) != len(flat(expected)):
        return f"{at}: {len(flat(found))} results"
    for f, e in zip(flat(found), flat(expected), strict=True):
        f, e = np.asarray(f), np.asarray(e)
        if f.shape != e.shape or f.dtype != e.dtype:
            return f"{at}: {f.shape} {f.dtype}, NumPy {e.shape} {e.dtype}"
        if not np.allclose(f, e, rtol=1e-5, equal_nan=True):
            return f"{at}: {f}, NumPy {e}"
    return None


@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_numpy(dtype: str) -> None:
    found = [difference(n, c, shape, dtype) for n, c in taking(dtype).items() for shape in SHAPES]
    assert [f for f in found if f is not None] == []


# -- elementwise, over integers and booleans to their limits

WHOLE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, y: xp.add(x, y),
    "+": lambda xp, x, y: x + y,
    "subtract": lambda xp, x, y: xp.subtract(x, y),
    "-": lambda xp, x, y: x - y,
    "multiply": lambda xp, x, y: xp.multiply(x, y),
    "*": lambda xp, x, y: x * y,
    "floor_divide": lambda xp, x, y: xp.floor_divide(x, y),
    "//": lambda xp, x, y: x // y,
    "remainder": lambda xp, x, y: xp.remainder(x, y),
    "%": lambda xp, x, y: x % y,
    "maximum": lambda xp, x, y: xp.maximum(x, y),
    "minimum": lambda xp, x, y: xp.minimum(x, y),
    "less": lambda xp, x, y: x < y,
    "less_equal": lambda xp, x, y: x <= y,
    "greater": lambda xp, x, y: x > y,
    "greater_equal": lambda xp, x, y: x >= y,
}
BITS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "equal": lambda xp, x, y: x == y,
    "not_equal": lambda xp, x, y: xp.not_equal(x, y),
    "&": lambda xp, x, y: x & y,
    "|": lambda xp, x, y: x | y,
    "^": lambda xp, x, y: x ^ y,
    "bitwise_and": lambda xp, x, y: xp.bitwise_and(x, y),
    "bitwise_or": lambda xp, x, y: xp.bitwise_or(x, y),
    "bitwise_xor": lambda xp, x, y: xp.bitwise_xor(x, y),
}
SMALL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "pow": lambda xp, x, y: xp.pow(x, y),
    "**": lambda xp, x, y: x**y,
    "<<": lambda xp, x, y: x << y,
    ">>": lambda xp, x, y: x >> y,
    "bitwise_left_shift": lambda xp, x, y: xp.bitwise_left_shift(x, y),
    "bitwise_right_shift": lambda xp, x, y: xp.bitwise_right_shift(x, y),
}
LOGIC: dict[str, Callable[[Any, Any, Any], Any]] = {
    "logical_and": lambda xp, x, y: xp.logical_and(x, y),
    "logical_or": lambda xp, x, y: xp.logical_or(x, y),
    "logical_xor": lambda xp, x, y: xp.logical_xor(x, y),
    "logical_not": lambda xp, x, y: xp.logical_not(x),
}
ALONE = ["abs", "negative", "positive", "square", "sign", "floor", "ceil", "trunc", "round", "conj", "real"]
INTEGERS = [d for d in DTYPES if "int" in d]


def limits(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.asarray([False, True])
    info = np.iinfo(dtype)
    return np.asarray([info.min, info.min + 1, *range(max(info.min, -3), 4), info.max - 1, info.max], dtype)


def check_pair(fn: Any, x: np.ndarray, y: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = fn(np, x, y)
    found = fn(wg, wg.asarray(x), wg.asarray(y))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [*WHOLE, *BITS])
def test_integers_to_their_limits(name: str, dtype: str) -> None:
    fn = (WHOLE | BITS)[name]
    x = limits(dtype)
    y = x[x != 0] if name in ("floor_divide", "//", "remainder", "%") else x
    check_pair(fn, x[:, None], y)
    for v in y.tolist():  # a Python number that fits is of the tensor's dtype, on either side
        of_dtype = wg.asarray(y.dtype.type(v))
        for found, expected in (
            (fn(wg, wg.asarray(x), v), fn(wg, wg.asarray(x), of_dtype)),
            (fn(wg, v, wg.asarray(y)), fn(wg, of_dtype, wg.asarray(y))),
        ):
            assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", SMALL)
def test_powers_and_shifts(name: str, dtype: str) -> None:
    check_pair(SMALL[name], limits(dtype)[:, None], np.asarray([0, 1, 2, 5], dtype))
    for v in (0, 1, 5):
        found = SMALL[name](wg, wg.asarray(limits(dtype)), v)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), SMALL[name](np, limits(dtype), limits(dtype).dtype.type(v)))


@pytest.mark.parametrize("name", [*BITS, *LOGIC])
def test_booleans(name: str) -> None:
    fn = (BITS | LOGIC)[name]
    check_pair(fn, limits("bool")[:, None], limits("bool"))
    for v in (True, False):
        assert fn(wg, wg.asarray([True, False]), v).tolist() == fn(np, limits("bool")[::-1], v).tolist()
        assert fn(wg, v, wg.asarray([True, False])).dtype == wg.bool if name != "logical_not" else True


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ALONE)
def test_functions_of_one_integer(name: str, dtype: str) -> None:
    x = limits(dtype)
    check_pair(lambda xp, a, b: getattr(xp, name)(a), x, x)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_inverted_bits(dtype: str) -> None:
    check_pair(lambda xp, a, b: xp.bitwise_invert(a), limits(dtype), limits(dtype))
    check_pair(lambda xp, a, b: ~a, limits(dtype), limits(dtype))


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d != "int64"])
def test_numbers_that_do_not_fit(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = wg.asarray(limits(dtype))
    for v in (int(info.min) - 1, int(info.max) + 1):
        with pytest.raises(wg.DTypeError, match="does not fit"):
            x + v
        assert (x < v).tolist() == [v > 0] * x.size  # comparing is always meant


def test_every_elementwise_function_of_nothing() -> None:
    """Empty and 0-d arguments give empty and 0-d results of the right dtype."""
    from .test_array_api import BINARY, UNARY

    for name in UNARY:
        kind = "bool" if name.startswith("logical") else "int64" if name.startswith("bitwise") else "float64"
        for shape in ((0,), (2, 0, 3), ()):
            x = np.full(shape, 0.5).astype(kind)
            found = getattr(wg, name)(wg.asarray(x))
            with np.errstate(invalid="ignore"):
                expected = getattr(np, name)(x)
            assert (found.shape, found.dtype) == (shape, expected.dtype), name
    for name in BINARY:
        kind = "bool" if name.startswith("logical") else "int64" if name.startswith("bitwise") else "float32"
        for a, b in (((0,), (0,)), ((2, 0, 3), (1, 3)), ((), (0,)), ((), ())):
            x, y = np.ones(a, kind), np.ones(b, kind)
            found, expected = getattr(wg, name)(wg.asarray(x), wg.asarray(y)), getattr(np, name)(x, y)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype), name
