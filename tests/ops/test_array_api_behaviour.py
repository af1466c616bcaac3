"""Behaviour that the Array API standard 2024.12 asks for beyond names and special cases, as properties."""

from __future__ import annotations

import ctypes
import inspect
import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import wengert as wg

from .test_array_api_numpy import ANY, DTYPES, FLOATING, NUMERIC, REAL, REAL_FLOATING

quick = settings(max_examples=30, deadline=None)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
finite = st.floats(-100, 100, width=32)


def arrays(dtype: Any = "float64", shape: Any = shapes, elements: Any = None) -> Any:
    return hnp.arrays(dtype, shape, elements=finite if elements is None and "float" in str(dtype) else elements)


def same(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found.numpy(), expected)


# -- the array object

METHODS = {
    "__array_namespace__": "(self, /, *, api_version=None)",
    "__dlpack__": "(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)",
    "__dlpack_device__": "(self, /)",
    "to_device": "(self, device, /, *, stream=None)",
    "__getitem__": "(self, key, /)",
    "__setitem__": "(self, key, value, /)",
}


@pytest.mark.parametrize("name", METHODS)
def test_signatures_of_methods(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f{METHODS[name]}: pass", scope)
    wanted = inspect.signature(scope["f"]).parameters
    ours = inspect.signature(getattr(wg.Tensor, name)).parameters
    assert len(ours) == len(wanted)
    for w, o in zip(wanted.values(), ours.values(), strict=True):
        if w.kind is w.KEYWORD_ONLY:
            assert (w.name, w.default, w.kind) == (o.name, o.default, o.kind)


def test_attributes() -> None:
    for shape in ((), (0,), (2, 3), (2, 0, 4)):
        x = wg.ones(shape)
        assert x.shape == shape
        assert isinstance(x.shape, tuple)
        assert x.ndim == len(shape)
        assert x.size == math.prod(shape)
        assert x.device == "cpu"
        assert x.to_device(x.device).tolist() == x.tolist()
    with pytest.raises(wg.ShapeError):
        wg.ones((2, 2, 2)).T
    with pytest.raises(wg.ShapeError):
        wg.ones(3).mT


def test_conversions_of_0d_arrays() -> None:
    for dtype in DTYPES:
        x = wg.asarray(1, dtype=getattr(wg, dtype))
        assert bool(x) is True
        assert complex(x) == 1 + 0j
        if "complex" not in dtype:
            assert type(float(x)) is float
            assert type(int(x)) is int
        else:
            for convert in (float, int):
                with pytest.raises(TypeError):
                    convert(x)
        if "int" in dtype:
            assert operator.index(x) == 1
            assert [5, 6][x] == 6
        else:
            with pytest.raises(TypeError):
                operator.index(x)
    assert bool(wg.asarray(math.nan)) is True
    assert bool(wg.asarray(-0.0)) is False
    assert bool(wg.asarray(1j)) is True
    assert int(wg.asarray(-1.9)) == -1
    with pytest.raises(ValueError, match="NaN"):
        int(wg.asarray(math.nan))
    with pytest.raises(OverflowError):
        int(wg.asarray(math.inf))
    for convert in (bool, float, int, complex):
        with pytest.raises((TypeError, ValueError)):
            convert(wg.ones(2))
    assert int(wg.asarray(2**64 - 1, dtype=wg.uint64)) == 2**64 - 1


def test_dlpack_copies_unless_told_not_to() -> None:
    x = wg.asarray([1.0, 2.0])
    mine = np.from_dlpack(x)
    mine[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    shared = np.from_dlpack(x, copy=False)
    assert np.shares_memory(shared, np.asarray(x))
    assert not shared.flags.writeable
    with pytest.raises((BufferError, ValueError)):
        x.__dlpack__(dl_device=(2, 0))


class Old:
    """An array that its consumer asks for by a DLPack before 1.0, which cannot say that memory is read-only."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **_: Any) -> Any:
        return self.x.__dlpack__(copy=False)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def write(there: Any, number: float) -> None:
    """Write to memory as a consumer that is not NumPy does; NumPy takes what it is not told of for read-only."""
    for i in range(there.size):
        ctypes.c_float.from_address(there.ctypes.data + 4 * i).value = number


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_old_dlpack_shares_what_both_may_write_to(shape: Any) -> None:
    x = wg.ones(shape)
    recorded = wg.tensor(2.0, requires_grad=True) * x.sum()
    there = np.from_dlpack(Old(x))
    write(there, 5.0)
    assert (x.numpy() == 5).all()
    x += 1
    assert (x.numpy() == 6).all()
    recorded.backward()
    for version in ((0, 8), (1, 0), (2024, 12), None):
        for copy in (True, False, None):
            x.__dlpack__(copy=copy, max_version=version)


def test_old_dlpack_of_a_recorded_value_leaves_its_gradients() -> None:
    x, w = wg.ones(3), wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * w).sum()
    write(np.from_dlpack(Old(x)), 100.0)
    y.backward()
    assert w.grad.tolist() == [1.0, 1.0, 1.0]


INPLACE = {
    "+=": (operator.iadd, operator.add),
    "-=": (operator.isub, operator.sub),
    "*=": (operator.imul, operator.mul),
    "/=": (operator.itruediv, operator.truediv),
    "//=": (operator.ifloordiv, operator.floordiv),
    "%=": (operator.imod, operator.mod),
    "**=": (operator.ipow, operator.pow),
    "@=": (operator.imatmul, operator.matmul),
    "&=": (operator.iand, operator.and_),
    "|=": (operator.ior, operator.or_),
    "^=": (operator.ixor, operator.xor),
    "<<=": (operator.ilshift, operator.lshift),
    ">>=": (operator.irshift, operator.rshift),
}


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_operators_give_the_tensor_what_the_binary_ones_give(name: str) -> None:
    inplace, binary = INPLACE[name]
    dtypes = ("int64", "uint8") if name in ("&=", "|=", "^=", "<<=", ">>=") else ("float32", "float64", "int64")
    for dtype in dtypes:
        value = np.asarray([[1, 2], [3, 4]], dtype)
        for other in (wg.asarray(value), 2):
            if name == "@=" and type(other) is int:
                continue
            x = wg.asarray(value)
            before, kept = x, x.clone()
            expected = binary(x, other)
            if expected.dtype != x.dtype:
                with pytest.raises(wg.DTypeError, match="does not fit"):
                    inplace(x, other)
                continue
            x = inplace(x, other)
            assert x is before
            assert (x.dtype, x.tolist()) == (expected.dtype, expected.tolist())
            np.testing.assert_array_equal(np.asarray(kept), value)


# -- indexing


@given(data=st.data(), shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
@quick
def test_basic_indices(data: Any, shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape)).reshape(shape)
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    same(wg.asarray(x)[index], x[index])
    y, t = x.copy(), wg.asarray(x)
    y[index] = -1
    t[index] = -1
    same(t, y)
    y[index] = x[index]
    t[index] = wg.asarray(x[index])
    same(t, y)


@given(data=st.data(), shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
@quick
def test_integer_array_indices(data: Any, shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape)).reshape(shape)
    dtype = data.draw(st.sampled_from(["int64", "int32", "uint8"]))
    index = data.draw(hnp.integer_array_indices(shape, dtype=np.dtype(dtype)))
    same(wg.asarray(x)[tuple(map(wg.asarray, index))], x[index])
    # The standard lets Python integers stand among the arrays.
    mixed = (*index[:-1], int(index[-1].flat[0]) if index[-1].size else 0)
    same(wg.asarray(x)[tuple(wg.asarray(i) if isinstance(i, np.ndarray) else i for i in mixed)], x[mixed])


@given(data=st.data(), shape=shapes)
@quick
def test_masks(data: Any, shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape)).reshape(shape)
    mask = data.draw(hnp.arrays(bool, shape))
    same(wg.asarray(x)[wg.asarray(mask)], x[mask])
    y, t = x.copy(), wg.asarray(x)
    y[mask] = -1
    t[wg.asarray(mask)] = -1
    same(t, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_set_takes_the_arrays_dtype(dtype: str) -> None:
    x = wg.zeros((2, 2), dtype=getattr(wg, dtype))
    x[0, 0] = 1 if dtype != "bool" else True
    x[1] = wg.ones(2, dtype=x.dtype)
    assert x.dtype == dtype
    assert x.tolist() == wg.asarray([[1, 0], [1, 1]], dtype=x.dtype).tolist()


# -- creation


def test_asarray_of_python_values() -> None:
    info = wg.__array_namespace_info__().default_dtypes()
    for value, dtype in (
        (True, wg.bool),
        (3, info["integral"]),
        (1.5, info["real floating"]),
        (1j, info["complex floating"]),
        ([True, False], wg.bool),
        ([True, 2], info["integral"]),
        ([1, 2.0], info["real floating"]),
        ([[1.0], [2j]], info["complex floating"]),
        ([], info["real floating"]),
    ):
        x = wg.asarray(value)
        assert x.dtype == dtype
        np.testing.assert_array_equal(x.numpy(), np.asarray(value, dtype))
    for dtype in DTYPES:
        assert wg.asarray([0, 1], dtype=getattr(wg, dtype)).dtype == dtype
    assert wg.asarray([math.inf, math.nan]).dtype == info["real floating"]
    with pytest.raises((ValueError, TypeError)):
        wg.asarray([[1, 2], [3]])


def test_asarray_copies() -> None:
    x = wg.asarray([1.0, 2.0])
    for made in (wg.asarray(x, copy=True), wg.astype(x, wg.float32), wg.reshape(x, (2,), copy=True)):
        made[0] = 9.0
        assert x.tolist() == [1.0, 2.0]
    assert not np.shares_memory(np.asarray(wg.asarray(x, copy=True)), np.asarray(x))
    assert np.shares_memory(np.asarray(wg.asarray(x, copy=False)), np.asarray(x))
    for value, dtype in ((x, wg.float64), (np.ones(2), wg.float32), (np.ones(2, ">f8"), None)):
        with pytest.raises(ValueError, match="copy"):
            wg.asarray(value, dtype=dtype, copy=False)


@given(start=finite, stop=finite, num=st.integers(0, 20), endpoint=st.booleans())
@quick
def test_linspace(start: float, stop: float, num: int, endpoint: bool) -> None:
    for dtype in (wg.float32, wg.float64):
        x = wg.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
        assert (x.shape, x.dtype) == ((num,), dtype)
        if num:
            assert x[0].item() == np.asarray(start, dtype)
        if num > 1 and endpoint:
            assert x[-1].item() == np.asarray(stop, dtype)
        np.testing.assert_allclose(x.numpy(), np.linspace(start, stop, num, endpoint=endpoint), rtol=1e-6, atol=1e-4)


@given(start=st.integers(-20, 20), stop=st.integers(-20, 20), step=st.integers(-5, 5).filter(bool))
@quick
def test_arange(start: int, stop: int, step: int) -> None:
    same(wg.arange(start, stop, step), np.arange(start, stop, step))
    same(wg.arange(start, stop, step, dtype=wg.float32), np.arange(start, stop, step, dtype=np.float32))
    found = wg.arange(start / 4, stop / 4, step / 4)
    assert found.dtype == wg.float32
    assert found.tolist() == np.arange(start / 4, stop / 4, step / 4).tolist()


@given(rows=st.integers(0, 4), columns=st.integers(0, 4), k=st.integers(-6, 6), data=st.data())
@quick
def test_eye_and_triangles(rows: int, columns: int, k: int, data: Any) -> None:
    same(wg.eye(rows, columns, k=k, dtype=wg.int8), np.eye(rows, columns, k, np.int8))
    x = data.draw(arrays(shape=(2, rows, columns)))
    same(wg.tril(wg.asarray(x), k=k), np.tril(x, k))
    same(wg.triu(wg.asarray(x), k=k), np.triu(x, k))


def test_like_functions_keep_or_take_a_dtype() -> None:
    for dtype in DTYPES:
        x = wg.zeros((2, 0), dtype=getattr(wg, dtype))
        for made in (wg.zeros_like(x), wg.ones_like(x), wg.empty_like(x), wg.full_like(x, True)):
            assert (made.shape, made.dtype) == ((2, 0), dtype)
        assert wg.ones_like(x, dtype=wg.int16).dtype == wg.int16
    assert wg.full_like(wg.zeros(2), 3).tolist() == [3.0, 3.0]


# -- dtypes


@pytest.mark.parametrize("a", DTYPES)
def test_promotion_is_a_join(a: str) -> None:
    """Commutative, associative, idempotent wherever it is defined; can_cast agrees."""

    def joined(*dtypes: Any) -> Any:
        try:
            return wg.result_type(*dtypes)
        except wg.DTypeError:
            return None

    x = getattr(wg, a)
    assert joined(x) == joined(x, x) == x
    for b in DTYPES:
        y = getattr(wg, b)
        assert joined(x, y) == joined(y, x)
        if joined(x, y) is None:
            assert {x.kind, y.kind} == {"i", "u"}
            continue
        assert wg.can_cast(x, y) == (joined(x, y) == y)
        for c in DTYPES:
            z = getattr(wg, c)
            if None not in (joined(y, z), joined(x, y, z)) and wg.isdtype(x, "numeric") == wg.isdtype(y, "numeric"):
                assert joined(joined(x, y), z) == joined(x, y, z)


SCALARS = {"bool": True, "integral": 2, "real floating": 2.5, "complex floating": 1 + 2j}


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_the_same_kind_or_a_lower_one_keep_the_dtype(dtype: str) -> None:
    x = wg.ones(2, dtype=getattr(wg, dtype))
    kinds = list(SCALARS)
    own = next(i for i, kind in enumerate(kinds) if wg.isdtype(x.dtype, kind))
    for kind in kinds[: own + 1]:
        number = SCALARS[kind]
        assert wg.result_type(x, number) == wg.result_type(number, x.dtype) == x.dtype
        assert wg.where(x == x, x, number).dtype == wg.where(x == x, number, x).dtype == x.dtype
        if own:
            for fn in (operator.add, operator.sub, operator.mul):
                assert fn(x, number).dtype == fn(number, x).dtype == x.dtype
        if kind == "bool" and own == 0:
            for fn in (operator.and_, operator.or_, operator.xor):
                assert fn(x, number).dtype == fn(number, x).dtype == wg.bool


def test_astype() -> None:
    for a in DTYPES:
        x = wg.asarray([0, 1], dtype=getattr(wg, a))
        for b in DTYPES:
            if "complex" in a and b not in ("bool", "complex64", "complex128"):
                with pytest.raises(wg.DTypeError, match="imaginary"):
                    wg.astype(x, getattr(wg, b))
                continue
            y = wg.astype(x, getattr(wg, b))
            assert (y.dtype, y.tolist()) == (b, np.asarray([0, 1], b).tolist())
    assert wg.astype(wg.asarray([math.nan, 1j, 0.0]), wg.bool).tolist() == [True, True, False]
    assert wg.astype(wg.asarray([-1.9, 1.9]), wg.int8).tolist() == [-1, 1]


def test_infos_hold_python_numbers() -> None:
    for dtype in (wg.float32, wg.float64, wg.complex64, wg.complex128):
        f = wg.finfo(dtype)
        assert {type(v) for v in (f.eps, f.max, f.min, f.smallest_normal)} == {float}
        assert type(f.bits) is int
        assert wg.isdtype(f.dtype, "real floating")
    for dtype in ("int8", "uint64"):
        i = wg.iinfo(getattr(wg, dtype))
        assert {type(v) for v in (i.bits, i.max, i.min)} == {int}
        assert wg.iinfo(wg.zeros(1, dtype=i.dtype)) == i


def test_devices() -> None:
    info = wg.__array_namespace_info__()
    for device in (None, *info.devices()):
        assert wg.zeros(2, device=device).device == info.default_device()
        assert info.dtypes(device=device) == info.dtypes()
        assert info.default_dtypes(device=device) == info.default_dtypes()
    for call in (info.dtypes, info.default_dtypes):
        with pytest.raises(ValueError, match="device"):
            call(device="tpu")
    assert info.dtypes(kind="numeric") == info.dtypes(kind=("integral", "real floating", "complex floating"))
    assert info.dtypes(kind=()) == {}
    for name, dtype in info.dtypes().items():
        assert getattr(wg, name) == dtype


# -- broadcasting and manipulation


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0))
@quick
def test_broadcasting(found: Any) -> None:
    (a, b), out = found.input_shapes, found.result_shape
    x, y = wg.ones(a), wg.ones(b)
    assert (x + y).shape == (x < y).shape == wg.where(x > 0, x, y).shape == out
    assert [t.shape for t in wg.broadcast_arrays(x, y)] == [out, out]
    assert wg.broadcast_to(x, out).shape == out


@given(hnp.array_shapes(max_dims=3, max_side=3), hnp.array_shapes(max_dims=3, max_side=3))
@quick
def test_what_does_not_broadcast_raises(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(wg.ShapeError, match="broadcast"):
            wg.ones(a) + wg.ones(b)
        with pytest.raises(wg.ShapeError):
            wg.broadcast_arrays(wg.ones(a), wg.ones(b))


@given(data=st.data(), x=arrays("int64", hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)))
@quick
def test_manipulation(data: Any, x: np.ndarray) -> None:
    t = wg.asarray(x)
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = data.draw(st.permutations(range(x.ndim)))
    shift = data.draw(st.integers(-5, 5))
    times = data.draw(st.lists(st.integers(0, 2), min_size=0, max_size=3).map(tuple))
    each = data.draw(hnp.arrays(np.int64, x.shape[axis], elements=st.integers(0, 3)))
    same(wg.permute_dims(t, order), x.transpose(order))
    same(wg.flip(t, axis=axis), np.flip(x, axis))
    same(wg.roll(t, shift, axis=axis), np.roll(x, shift, axis))
    same(wg.roll(t, shift), np.roll(x, shift))
    same(wg.tile(t, times), np.tile(x, times))
    same(wg.repeat(t, wg.asarray(each), axis=axis), np.repeat(x, each, axis))
    same(wg.concat([t, t], axis=axis), np.concatenate([x, x], axis))
    same(wg.stack([t, t], axis=axis), np.stack([x, x], axis))
    same(wg.moveaxis(t, axis, 0), np.moveaxis(x, axis, 0))
    same(wg.expand_dims(t, axis=axis), np.expand_dims(x, axis))
    same(wg.squeeze(wg.expand_dims(t, axis=axis), axis), x)
    assert wg.stack(wg.unstack(t, axis=axis), axis=axis).tolist() == x.tolist() if x.shape[axis] else True
    assert isinstance(wg.unstack(t, axis=axis), tuple)


@given(data=st.data(), x=arrays("float64", hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
@quick
def test_taking(data: Any, x: np.ndarray) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[axis]
    indices = data.draw(hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(-n, n - 1)))
    same(wg.take(wg.asarray(x), wg.asarray(indices), axis=axis), np.take(x, indices, axis))
    along_shape = list(x.shape)
    along_shape[axis] = data.draw(st.integers(0, 4))
    along = data.draw(hnp.arrays(np.int64, tuple(along_shape), elements=st.integers(-n, n - 1)))
    same(wg.take_along_axis(wg.asarray(x), wg.asarray(along), axis=axis), np.take_along_axis(x, along, axis))


# -- order, sets, statistics


@given(data=st.data(), x=arrays("int8", hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), st.integers(-2, 2)))
@quick
def test_sorting(data: Any, x: np.ndarray) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    t = wg.asarray(x)
    same(wg.sort(t, axis=axis), np.sort(x, axis))
    same(wg.argsort(t, axis=axis), np.argsort(x, axis, stable=True))
    same(wg.sort(t, axis=axis, descending=True), np.flip(np.sort(x, axis), axis))
    down = np.argsort(-x, axis, stable=True)  # equal elements in their order, also backwards
    same(wg.argsort(t, axis=axis, descending=True), down)
    unstable = wg.argsort(t, axis=axis, stable=False)
    same(wg.take_along_axis(t, unstable, axis=axis), np.sort(x, axis))


@given(arrays("float32", shapes, st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf])))
@quick
def test_unique(x: np.ndarray) -> None:
    both = np.empty(x.shape, np.complex64)
    both.real, both.imag = x, np.flip(x)
    for value in (x, both):
        found = wg.unique_all(wg.asarray(value))
        values, inverse = found.values.numpy(), found.inverse_indices.numpy()
        assert values.dtype == value.dtype
        assert inverse.shape == value.shape
        np.testing.assert_array_equal(values[inverse], value)
        np.testing.assert_array_equal(value.ravel()[found.indices.numpy()], values)
        assert int(found.counts.numpy().sum()) == value.size
        assert all(c == 1 for v, c in zip(values, found.counts.numpy(), strict=True) if np.isnan(v))
        real = values[~np.isnan(values)]
        assert len({complex(v) for v in real}) == len(real)
        for other in (wg.unique_values(wg.asarray(value)), wg.unique_counts(wg.asarray(value)).values):
            np.testing.assert_array_equal(other.numpy(), values)


@given(data=st.data(), x=arrays("int64", st.integers(0, 8), st.integers(-3, 3)))
@quick
def test_searchsorted(data: Any, x: np.ndarray) -> None:
    v = data.draw(arrays("int64", shapes, st.integers(-4, 4)))
    ordered = np.sort(x)
    for side in ("left", "right"):
        same(wg.searchsorted(wg.asarray(ordered), wg.asarray(v), side=side), np.searchsorted(ordered, v, side))
        sorter = np.argsort(x)
        found = wg.searchsorted(wg.asarray(x), wg.asarray(v), side=side, sorter=wg.asarray(sorter))
        same(found, np.searchsorted(x, v, side, sorter))


@given(data=st.data(), x=arrays("float64", hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
@quick
def test_statistics(data: Any, x: np.ndarray) -> None:
    axis = data.draw(st.one_of(st.none(), hnp.valid_tuple_axes(x.ndim)))
    keep = data.draw(st.booleans())
    t, options = wg.asarray(x), {"axis": axis, "keepdims": keep}
    for name in ("sum", "prod", "mean", "max", "min", "all", "any", "count_nonzero"):
        found, expected = getattr(wg, name)(t, **options), np.asarray(getattr(np, name)(x, **options))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), name
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-9)
    correction = data.draw(st.sampled_from([0, 1, 0.5, 2.0]))
    count = x.size if axis is None else math.prod(x.shape[a] for a in axis)
    for name in ("var", "std"):
        found = getattr(wg, name)(t, correction=correction, **options)
        if count - correction <= 0:
            assert bool(wg.isnan(found).all())
            continue
        np.testing.assert_allclose(found.numpy(), getattr(np, name)(x, correction=correction, **options), atol=1e-6)


def test_statistics_of_nan_and_nothing() -> None:
    x = wg.asarray([1.0, math.nan, 3.0])
    for name in ("sum", "prod", "mean", "std", "var", "max", "min"):
        assert math.isnan(getattr(wg, name)(x).item()), name
    for name, value in (("sum", 0.0), ("prod", 1.0)):
        assert getattr(wg, name)(wg.zeros((0, 2)), axis=0).tolist() == [value, value]
    for name in ("mean", "std", "var"):
        assert math.isnan(getattr(wg, name)(wg.zeros(0)).item())
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match="size 0"):
            getattr(wg, name)(wg.zeros((0,)))


def test_sums_are_taken_in_their_dtype() -> None:
    x = wg.asarray([100, 100], dtype=wg.int8)
    assert wg.sum(x).item() == 200
    assert wg.sum(x, dtype=wg.int8).item() == -56
    assert wg.prod(x, dtype=wg.float64).item() == 1e4
    assert wg.cumulative_sum(x).tolist() == [100, 200]
    assert wg.cumulative_prod(x, dtype=wg.int16).tolist() == [100, 10000]
    wide = wg.asarray([1.0, 1e-9], dtype=wg.float32)
    assert wg.sum(wide, dtype=wg.float64).item() == 1.0 + float(np.float32(1e-9))


# -- products


@given(data=st.data(), core=st.tuples(*[st.integers(0, 3)] * 3))
@quick
def test_matmul(data: Any, core: tuple[int, int, int]) -> None:
    m, n, p = core
    lead = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    a, b = lead.input_shapes
    for dtype in ("int64", "float64", "complex128"):
        x = np.arange(math.prod((*a, m, n))).reshape((*a, m, n)).astype(dtype)
        y = np.arange(math.prod((*b, n, p))).reshape((*b, n, p)).astype(dtype)
        same(wg.matmul(wg.asarray(x), wg.asarray(y)), np.matmul(x, y))
        same(wg.asarray(x) @ wg.asarray(y), x @ y)
        if b == ():
            same(wg.tensordot(wg.asarray(x), wg.asarray(y), axes=1), np.tensordot(x, y, 1))
    v = np.arange(n)
    same(wg.matmul(wg.asarray(v), wg.ones((n, p), dtype=wg.int64)), v @ np.ones((n, p), np.int64))


@given(data=st.data(), n=st.integers(0, 4))
@quick
def test_vecdot(data: Any, n: int) -> None:
    lead = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3))
    a, b = (wg.asarray(np.arange(math.prod(s) * n).reshape((*s, n)) * (1 + 2j)) for s in lead.input_shapes)
    expected = (np.conj(a.numpy()) * b.numpy()).sum(-1)
    found = wg.vecdot(a, b)
    assert found.shape == lead.result_shape
    np.testing.assert_allclose(found.numpy(), expected)
    first = wg.vecdot(wg.moveaxis(a, -1, 0)[..., None], wg.moveaxis(a, -1, 0)[..., None], axis=0)
    np.testing.assert_allclose(first.numpy()[..., 0], (np.conj(a.numpy()) * a.numpy()).sum(-1))


# -- the same functions without values


DEPENDENT = {  # their results' shapes depend on values
    "nonzero",
    "unique_values",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "index mask",
}


@pytest.mark.parametrize("name", [*ANY, *NUMERIC, *REAL, *FLOATING, *REAL_FLOATING])
def test_traced(name: str) -> None:
    """Every function of the standard can be traced, but for those whose shape depends on values: they say so."""
    case = (ANY | NUMERIC | REAL | FLOATING | REAL_FLOATING)[name]
    x = wg.asarray([[2.0, 0.0, 1.0], [0.0, 5.0, 3.0]], dtype=wg.float64)
    if name in DEPENDENT:
        with pytest.raises(wg.TraceError, match="depend"):
            wg.graph(lambda t: case(wg, t))(x)
        return
    try:
        expected = case(wg, x)
    except (ValueError, IndexError):
        with pytest.raises((ValueError, IndexError)):
            wg.graph(lambda t: case(wg, t))(x)
        return
    if not isinstance(expected, wg.Tensor) and not isinstance(expected[0], wg.Tensor):
        return
    found = wg.graph(lambda t: case(wg, t))(x)(x)
    for f, e in zip(wg.tree.leaves(found), wg.tree.leaves(expected), strict=True):
        same(f, e.numpy())


def test_a_0d_array_is_not_iterable() -> None:
    """Python (and NumPy's `iterable`) tell by a TypeError."""
    x = wg.asarray(1.0)
    assert not np.iterable(x)
    for ask in (iter, len):
        with pytest.raises(TypeError, match="0-d"):
            ask(x)
