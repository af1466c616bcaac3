"""Creation functions, dtype functions, constants, and exchange through DLPack."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wengert as wg
from wengert.ops.structure.dtypes import CONSTANTS

DTYPES = (
    *(wg.bool, wg.int8, wg.int16, wg.int32, wg.int64, wg.uint8, wg.uint16, wg.uint32, wg.uint64),
    *(wg.float16, wg.bfloat16, wg.float32, wg.float64, wg.complex64, wg.complex128),
)


def value(x: wg.Tensor) -> np.ndarray:
    assert isinstance(x, wg.Tensor)
    return np.asarray(x)


# -- filled


@pytest.mark.parametrize("make", [wg.zeros, wg.ones, wg.empty])
def test_shapes_one_by_one_and_as_one(make: object) -> None:
    for args, shape in [
        ((2, 3), (2, 3)),
        (((2, 3),), (2, 3)),
        (([2, 3],), (2, 3)),
        ((4,), (4,)),
        (((),), ()),
        ((), ()),
        ((0, 2), (0, 2)),
        ((np.int64(2), 1), (2, 1)),
    ]:
        x = make(*args)  # type: ignore[operator]
        assert (x.shape, x.dtype, x.requires_grad) == (shape, wg.float32, False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: object) -> None:
    for x, number in [(wg.zeros(2, dtype=dtype), 0), (wg.ones(2, dtype=dtype), 1), (wg.full(2, 1, dtype=dtype), 1)]:
        assert x.dtype == dtype
        assert (value(x) == number).all()
        assert wg.zeros_like(x).dtype == x.dtype
    assert wg.eye(2, dtype=dtype).dtype == wg.empty_like(wg.zeros(2, dtype=dtype)).dtype == dtype


def test_requires_grad_makes_a_leaf() -> None:
    for x in (
        wg.zeros(2, requires_grad=True),
        wg.ones_like(wg.zeros(2), requires_grad=True),
        wg.full((2,), 1.0, requires_grad=True),
        wg.linspace(0, 1, 3, requires_grad=True),
        wg.arange(3.0, requires_grad=True),
        wg.eye(2, requires_grad=True),
    ):
        assert x.is_leaf
        assert x.requires_grad
    with pytest.raises(wg.DTypeError, match="int64 cannot require gradients"):
        wg.arange(3, requires_grad=True)


def test_full_takes_the_dtype_of_its_number() -> None:
    found = [wg.full((2,), v).dtype for v in (True, 1, 1.0, 1j, np.float64(1), wg.tensor(1.0))]
    assert found == [wg.bool, wg.int64, wg.float32, wg.complex64, wg.float64, wg.float32]
    assert wg.full_like([1, 2], 3.0).dtype == wg.int64
    assert wg.full(3, math.nan).shape == (3,)


def test_like_takes_shape_and_dtype() -> None:
    x = np.ones((2, 3), np.float64)
    for made, number in [(wg.zeros_like(x), 0), (wg.ones_like(x), 1), (wg.full_like(x, 7), 7)]:
        assert (made.shape, made.dtype) == ((2, 3), wg.float64)
        assert (value(made) == number).all()
    assert wg.ones_like(x, dtype=wg.int8).dtype == wg.int8
    t = wg.tensor(x)
    assert [n.dtype for n in (t.new_zeros(2), t.new_ones((2, 2)), t.new_empty(1), t.new_full((2,), 3))] == [t.dtype] * 4


def test_like_of_an_abstract_tensor_is_a_constant() -> None:
    graph = wg.graph(lambda x: x + wg.ones_like(x))(wg.zeros(3))
    np.testing.assert_array_equal(value(graph(wg.zeros(3))), [1, 1, 1])


# -- ranges


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_integer_ranges_are_pythons(start: int, stop: int, step: int) -> None:
    x = wg.arange(start, stop, step)
    assert x.dtype == wg.int64
    assert x.tolist() == list(range(start, stop, step))


def test_ranges() -> None:
    assert wg.arange(5, end=8).tolist() == [5, 6, 7]
    assert wg.arange(0.0, 1.0, 0.25).dtype == wg.float32
    assert wg.arange(3, dtype=wg.float64).tolist() == [0.0, 1.0, 2.0]
    assert wg.arange(1, 0).shape == (0,)
    np.testing.assert_array_equal(value(wg.arange(0, 1, 0.1)), np.arange(0, 1, 0.1).astype(np.float32))
    np.testing.assert_array_equal(value(wg.linspace(0, 1, steps=7, dtype=wg.float64)), np.linspace(0, 1, 7))
    np.testing.assert_array_equal(
        value(wg.linspace(2, -1, 4, endpoint=False)), np.linspace(2, -1, 4, endpoint=False, dtype=np.float32)
    )
    assert wg.linspace(0, 1j, 3).dtype == wg.complex64
    assert wg.linspace(0, 1, 0).shape == (0,)
    np.testing.assert_allclose(value(wg.logspace(-1, 1, steps=3)), [0.1, 1, 10], rtol=1e-6)
    np.testing.assert_array_equal(value(wg.logspace(0, 3, 4, base=2.0)), [1, 2, 4, 8])


def test_eye() -> None:
    for args, k in [((3,), 0), ((2, 3), 1), ((3, 2), -1), ((0,), 0), ((2,), 5)]:
        np.testing.assert_array_equal(value(wg.eye(*args, k=k)), np.eye(*args, k=k, dtype=np.float32))


# -- exchange


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != wg.bfloat16], ids=str)
def test_dlpack_both_ways_with_numpy(dtype: object) -> None:
    source = np.arange(6).reshape(2, 3).astype(dtype)
    there = np.from_dlpack(wg.tensor(source))
    assert there.dtype == source.dtype
    np.testing.assert_array_equal(there, source)
    back = wg.from_dlpack(source.T)
    assert back.dtype == source.dtype
    np.testing.assert_array_equal(value(back), source.T)


def test_dlpack_never_lets_a_tensor_change() -> None:
    t = wg.ones(3)
    np.from_dlpack(t)[0] = 5
    assert t.tolist() == [1, 1, 1]
    source = np.ones(3)
    copied, shared = wg.from_dlpack(source), wg.from_dlpack(source, copy=False)
    assert np.shares_memory(source, shared.numpy())
    source[0] = 5
    assert copied.tolist() == [1, 1, 1]
    assert wg.from_dlpack(t) is t
    assert wg.from_dlpack(t, copy=True) is not t


def test_from_numpy_shares_what_can_be_written_to() -> None:
    source = np.ones(3)
    t = wg.torch.from_numpy(source)
    source[0] = 5
    assert t.tolist() == [5, 1, 1]
    source.flags.writeable = False
    assert np.shares_memory(wg.torch.from_numpy(source)._array, source)
    assert wg.torch.as_tensor([1.0]).dtype == wg.float32
    assert wg.torch.as_tensor(t) is t


# -- dtypes


def test_result_type() -> None:
    assert wg.result_type(wg.int8, wg.uint8) == wg.int16
    assert wg.result_type(wg.tensor([1]), wg.float32, 1j) == wg.complex64
    assert wg.result_type(np.ones(2), 1) == wg.float64
    assert wg.result_type(wg.float16, wg.bfloat16) == wg.float32
    assert wg.result_type(1, 2.0) == wg.float32
    assert wg.result_type(wg.int8, True) == wg.int8
    assert wg.promote_types("float32", wg.float64) == wg.float64


def test_can_cast_is_promotion() -> None:
    for a in DTYPES:
        for b in DTYPES:
            if {a, b} & {wg.uint64} and {a.kind, b.kind} == {"u", "i"}:
                assert not wg.can_cast(a, b)
            else:
                assert wg.can_cast(a, b) == (wg.promote_types(a, b) == b)
    assert wg.can_cast(wg.ones(2), wg.float64)


def test_isdtype() -> None:
    kinds = ("bool", "signed integer", "unsigned integer", "real floating", "complex floating")
    for dtype in DTYPES:
        assert sum(wg.isdtype(dtype, k) for k in kinds) == 1
        assert wg.isdtype(dtype, "numeric") == (dtype != wg.bool)
        assert wg.isdtype(dtype, "integral") == (dtype.kind in "iu")
        assert wg.isdtype(dtype, dtype)
        assert wg.isdtype(dtype, ("integral", wg.bool)) == (dtype.kind in "iub")


@pytest.mark.parametrize("dtype", [wg.float16, wg.float32, wg.float64], ids=str)
def test_finfo(dtype: np.dtype) -> None:
    ours, numpys = wg.finfo(dtype), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "smallest_normal", "tiny"):
        assert getattr(ours, name) == getattr(numpys, name)
    assert type(ours.eps) is float
    assert ours.dtype == dtype
    assert wg.finfo(wg.ones(2, dtype=dtype)) == ours


def test_finfo_of_other_dtypes() -> None:
    import ml_dtypes

    assert wg.finfo(wg.complex128).dtype == wg.float64
    ours, theirs = wg.finfo(wg.bfloat16), ml_dtypes.finfo("bfloat16")
    for name in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(ours, name) == float(getattr(theirs, name))
    info = wg.iinfo(wg.uint16)
    assert (info.bits, info.min, info.max, info.dtype) == (16, 0, 65535, wg.uint16)


def test_namespace() -> None:
    assert (wg.pi, wg.e, wg.inf, wg.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(wg.nan)
    assert set(CONSTANTS) <= set(vars(wg))
    info = wg.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes()["real floating"] == wg.zeros(1).dtype
    assert info.dtypes(kind="bool") == {"bool": wg.bool}
    assert set(info.dtypes()) == {d.name for d in DTYPES} - {"float16", "bfloat16"}
    assert info.capabilities()["boolean indexing"]
    assert wg.ones(1).__array_namespace__() is wg


# -- refusals

REFUSED = {
    "negative": (lambda: wg.zeros(-1), wg.ShapeError, "negative"),
    "float size": (lambda: wg.zeros(2.5), wg.DTypeError, "ints"),
    "too large": (lambda: wg.ones(1 << 40, 1 << 40), wg.ShapeError, "memory"),
    "more than there is": (lambda: wg.ones(1 << 50, dtype=wg.int8), wg.ShapeError, "not enough memory"),
    "dtype": (lambda: wg.ones(2, dtype="object"), wg.DTypeError, "cannot hold dtype object"),
    "device": (lambda: wg.zeros(2, device="cuda"), ValueError, "cuda"),
    "full text": (lambda: wg.full((2,), "a"), wg.DTypeError, "must be a number"),
    "a float too large": (lambda: wg.tensor([1.0, 300.0], dtype=wg.int8), wg.DTypeError, "300.0 does not fit int8"),
    "a float below": (lambda: wg.tensor([-1.0], dtype=wg.uint8), wg.DTypeError, "-1.0 does not fit uint8"),
    "no number": (lambda: wg.tensor([1.0, float("nan")], dtype=wg.int64), wg.DTypeError, "nan does not fit int64"),
    "an infinite number": (lambda: wg.asarray(np.array([np.inf]), dtype=wg.int64), wg.DTypeError, "inf does not fit"),
    "arange too wide": (lambda: wg.arange(300, dtype=wg.uint8), wg.DTypeError, "299 does not fit uint8"),
    "arange of floats": (lambda: wg.arange(0.0, 300.0, dtype=wg.uint8), wg.DTypeError, "256.0 does not fit uint8"),
    "linspace too wide": (lambda: wg.linspace(-1, 1, 3, dtype=wg.uint8), wg.DTypeError, "-1.0 does not fit uint8"),
    "logspace too wide": (lambda: wg.logspace(0, 3, 4, dtype=wg.int8), wg.DTypeError, "1000.0 does not fit int8"),
    "fill_ too wide": (lambda: wg.zeros(2, dtype=wg.int8).fill_(300.0), wg.DTypeError, "300.0 does not fit int8"),
    "full too wide": (lambda: wg.full((2,), 300, dtype=wg.int8), wg.DTypeError, "300 does not fit int8"),
    "full complex": (lambda: wg.full((2,), 1j, dtype=wg.float32), wg.DTypeError, "does not fit"),
    "arange step": (lambda: wg.arange(0, 1, 0), wg.ShapeError, "no end"),
    "arange infinite": (lambda: wg.arange(math.inf), wg.ShapeError, "no end"),
    "arange complex": (lambda: wg.arange(1j), wg.DTypeError, "real number"),
    "arange too long": (lambda: wg.arange(1 << 70), wg.ShapeError, "memory"),
    "linspace": (lambda: wg.linspace(0, 1, -1), wg.ShapeError, "negative"),
    "linspace no number": (lambda: wg.linspace(0, 1), wg.DTypeError, "'num' is missing"),
    "linspace complex": (lambda: wg.linspace(0, 1j, 3, dtype=wg.float32), wg.DTypeError, "complex"),
    "from_numpy": (lambda: wg.torch.from_numpy([1]), wg.DTypeError, "list"),
    "from_numpy of text": (lambda: wg.torch.from_numpy(np.array(["a"])), wg.DTypeError, "cannot become a tensor"),
    "from_dlpack": (lambda: wg.from_dlpack([1]), wg.DTypeError, "__dlpack__"),
    "isdtype": (lambda: wg.isdtype(wg.int8, "integer"), wg.DTypeError, "no kind"),
    "finfo": (lambda: wg.finfo(wg.int8), wg.DTypeError, "iinfo"),
    "iinfo": (lambda: wg.iinfo(wg.float32), wg.DTypeError, "finfo"),
    "result_type": (lambda: wg.result_type(), wg.DTypeError, "nothing"),
    "result_type uint64": (lambda: wg.result_type(wg.int8, wg.uint64), wg.DTypeError, "no integer dtype"),
}


def test_numbers_at_the_ends_of_an_integer_dtype() -> None:
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(dtype)
        fits = [float(info.min), float(info.max) if info.bits < 64 else float(info.max - 4096)]
        assert wg.tensor(fits, dtype=dtype).tolist() == [int(v) for v in fits]
        assert wg.tensor([-0.5, 0.5], dtype=dtype).tolist() == [0, 0]
        with pytest.raises(wg.DTypeError, match="does not fit"):
            wg.tensor([float(info.max) + 1.0], dtype=dtype)


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        call()
