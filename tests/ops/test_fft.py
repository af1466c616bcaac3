"""Fourier transforms: against NumPy in every option, derivatives of every order, dtypes, edges."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.core.errors import DTypeError, GraphError, ShapeError

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
NORMS = ("backward", "ortho", "forward")
OF_REALS = ("rfft", "ihfft", "rfftn", "rfft2")

# The standard's signatures (Array API 2024.12, fft extension).
STANDARD = {
    **dict.fromkeys(ONE, "(x, /, *, n=None, axis=-1, norm='backward')"),
    **dict.fromkeys(MANY[:4], "(x, /, *, s=None, axes=None, norm='backward')"),
    "fftfreq": "(n, /, *, d=1.0, dtype=None, device=None)",
    "rfftfreq": "(n, /, *, d=1.0, dtype=None, device=None)",
    "fftshift": "(x, /, *, axes=None)",
    "ifftshift": "(x, /, *, axes=None)",
}


def argument(name: str, shape: tuple[int, ...], dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape).astype(dtype)
    if name in OF_REALS:
        return x
    return np.asarray(x + 1j * rng.normal(size=shape).astype(dtype))


@pytest.mark.parametrize("name", STANDARD)
def test_signatures(name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f{STANDARD[name]}: pass", scope)
    ours = inspect.signature(getattr(wg.fft, name)).parameters
    for p in inspect.signature(scope["f"]).parameters.values():
        assert ours[p.name].default == p.default
        if p.kind is p.POSITIONAL_ONLY:
            assert ours[p.name].kind is p.kind


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE)
@given(
    shape=st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple),
    data=st.data(),
)
@settings(max_examples=25, deadline=None)
def test_one_axis_agrees_with_numpy(name: str, norm: str, shape: tuple[int, ...], data: Any) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = data.draw(st.one_of(st.none(), st.integers(1, 9)))
    if n is None and name in ("irfft", "hfft") and shape[axis] == 1:
        n = 1
    x = argument(name, shape)
    found = getattr(wg.fft, name)(wg.asarray(x), n=n, axis=axis, norm=norm)
    wanted = getattr(np.fft, name)(x, n, axis, norm)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize(
    ("s", "axes"),
    [
        (None, None),
        (None, (0, -1)),
        ((3, 5), (-1, 0)),
        ((-1, 2), (0, 1)),
        ((4, 4), (1, 2)),
        (None, (1,)),
        ((5,), (-2,)),
    ],
)
def test_several_axes_agree_with_numpy(name: str, norm: str, s: Any, axes: Any) -> None:
    if axes is None and name.endswith("2"):
        axes = (-2, -1)
    x = argument(name, (2, 3, 4))
    found = getattr(wg.fft, name)(wg.asarray(x), s=s, axes=axes, norm=norm)
    wanted = getattr(np.fft, name)(x, s, axes, norm)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-11, atol=1e-12)


def test_a_whole_last_axis_of_an_inverse() -> None:
    """-1 uses all of the argument: 4 frequencies are those of 6 points (NumPy would take 4 points)."""
    x = argument("irfftn", (3, 4))
    found = wg.fft.irfftn(wg.asarray(x), s=(3, -1), axes=(0, 1))
    np.testing.assert_allclose(found.numpy(), np.fft.irfftn(x, (3, 6), (0, 1)), rtol=1e-11)


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_single_precision_stays_single(name: str) -> None:
    for dtype, real, compl in ((np.float32, wg.float32, wg.complex64), (np.float64, wg.float64, wg.complex128)):
        x = argument(name, (3, 4), dtype)
        out = getattr(wg.fft, name)(wg.tensor(x, requires_grad=True))
        assert out.dtype == (real if name in ("irfft", "hfft", "irfftn", "irfft2") else compl)
        leaf = wg.tensor(x, requires_grad=True)
        wg.sum(wg.real(getattr(wg.fft, name)(leaf))).backward()
        assert leaf.grad.dtype == x.dtype


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_other_dtypes(name: str) -> None:
    fn = getattr(wg.fft, name)
    x = np.asarray([[1, 2, 3], [4, 5, 7]])
    for dtype in ("int64", "int8", "bool", "float16", "bfloat16"):
        t = wg.asarray(x).astype(dtype)
        out = fn(t)
        assert out.dtype in (wg.float32, wg.complex64)
        np.testing.assert_allclose(
            out.numpy(), getattr(np.fft, name)(t.astype(wg.float64).numpy()), rtol=1e-5, atol=1e-5
        )
    for dtype in ("float16", "bfloat16"):
        leaf = wg.asarray(x).astype(dtype).requires_grad_()
        wg.sum(wg.abs(fn(leaf)) ** 2).backward()
        assert leaf.grad.dtype == leaf.dtype
        assert bool(wg.isfinite(leaf.grad).all())


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("n", [None, 3, 4, 7])
def test_derivatives_to_second_order(name: str, norm: str, n: int | None) -> None:
    x = argument(name, (2, 4))

    def energy(t: Any) -> Any:
        out = getattr(wg.fft, name)(t, n=n, norm=norm)
        return wg.sum(wg.real(out) ** 3) + wg.sum(wg.abs(out) ** 2)

    wg.check_grads(energy, (wg.asarray(x),), order=2)


@pytest.mark.parametrize("name", MANY)
def test_derivatives_along_several_axes(name: str) -> None:
    x = argument(name, (2, 3, 2))

    def energy(t: Any) -> Any:
        out = getattr(wg.fft, name)(t, s=(3, 3), axes=(-1, 0), norm="ortho")
        return wg.sum(wg.real(out) ** 3)

    wg.check_grads(energy, (wg.asarray(x),), order=2)


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_forward_mode_and_batching(name: str) -> None:
    fn = getattr(wg.fft, name)
    x, t = argument(name, (2, 3, 4)), argument(name, (2, 3, 4), seed=1)
    out, tangent = wg.jvp(fn, (wg.asarray(x),), (wg.asarray(t),))
    np.testing.assert_allclose(out.numpy(), fn(wg.asarray(x)).numpy())
    np.testing.assert_allclose(tangent.numpy(), fn(wg.asarray(t)).numpy(), rtol=1e-11, atol=1e-12)
    batch = argument(name, (3, 2, 4))
    mapped = wg.vmap(fn)(wg.asarray(batch))
    loop = np.stack([fn(wg.asarray(b)).numpy() for b in batch])
    np.testing.assert_allclose(mapped.numpy(), loop, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_traced_is_eager(name: str) -> None:
    fn = getattr(wg.fft, name)
    x = wg.asarray(argument(name, (2, 3, 4)))
    graph = wg.graph(fn)(x)
    assert graph(x).spec == fn(x).spec
    np.testing.assert_array_equal(graph(x).numpy(), fn(x).numpy())


def test_inverses_and_parseval() -> None:
    x = wg.asarray(argument("fft", (3, 5)))
    for norm in NORMS:
        np.testing.assert_allclose(wg.fft.ifft(wg.fft.fft(x, norm=norm), norm=norm).numpy(), x.numpy(), atol=1e-14)
        np.testing.assert_allclose(wg.fft.ifftn(wg.fft.fftn(x, norm=norm), norm=norm).numpy(), x.numpy(), atol=1e-14)
        r = wg.real(x)
        back = wg.fft.irfftn(wg.fft.rfftn(r, norm=norm), s=r.shape, norm=norm)
        np.testing.assert_allclose(back.numpy(), r.numpy(), atol=1e-14)
        back = wg.fft.hfft(wg.fft.ihfft(r, norm=norm), n=5, norm=norm)
        np.testing.assert_allclose(back.numpy(), r.numpy(), atol=1e-14)
    energy = wg.sum(wg.abs(wg.fft.fftn(x, norm="ortho")) ** 2)
    np.testing.assert_allclose(energy.item(), wg.sum(wg.abs(x) ** 2).item(), rtol=1e-13)


@pytest.mark.parametrize("n", range(1, 9))
def test_frequencies(n: int) -> None:
    for d in (1.0, 0.25, 3.0):
        np.testing.assert_allclose(wg.fft.fftfreq(n, d=d, dtype=wg.float64).numpy(), np.fft.fftfreq(n, d), rtol=1e-15)
        np.testing.assert_allclose(wg.fft.rfftfreq(n, d=d, dtype=wg.float64).numpy(), np.fft.rfftfreq(n, d), rtol=1e-15)
    assert wg.fft.fftfreq(n).dtype == wg.fft.rfftfreq(n).dtype == wg.float32


@pytest.mark.parametrize("axes", [None, 0, -1, (0, 1), (-1,), ()])
def test_shifts(axes: Any) -> None:
    x = np.arange(20.0).reshape(4, 5)
    shifted = wg.fft.fftshift(wg.asarray(x), axes=axes)
    np.testing.assert_array_equal(shifted.numpy(), np.fft.fftshift(x, axes) if axes != () else x)
    assert wg.fft.ifftshift(shifted, axes=axes).tolist() == x.tolist()
    leaf = wg.tensor(x, requires_grad=True)
    (wg.fft.fftshift(leaf, axes=axes) * wg.asarray(x)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.fft.ifftshift(x, axes) if axes != () else x)


def test_pytorchs_names() -> None:
    x = wg.asarray(argument("fft", (2, 3)))
    assert wg.fft.fft(x, 4, dim=0).tolist() == wg.fft.fft(x, n=4, axis=0).tolist()
    assert wg.fft.fftn(x, dim=(0, 1)).tolist() == wg.fft.fftn(x).tolist()
    assert wg.fft.fftn(x, s=(2,)).tolist() == wg.fft.fftn(x, s=(2,), axes=(-1,)).tolist()


def test_empty_and_zero_dimensional() -> None:
    for name in (*ONE, *MANY):
        x = wg.zeros((0, 2, 3), dtype=wg.float32 if name in OF_REALS else wg.complex64)
        axes = {} if name in ONE else {"axes": (1, 2)}
        assert getattr(wg.fft, name)(x, **axes).shape[0] == 0
        with pytest.raises(ShapeError):
            getattr(wg.fft, name)(wg.zeros((2, 0)), **({} if name in ONE else {"axes": (-1,)}))
    assert wg.fft.fftn(wg.asarray(2.0)).item() == 2.0
    assert wg.fft.fftshift(wg.asarray(2.0)).item() == 2.0


def test_errors_say_what_is_wrong() -> None:
    x = wg.ones((2, 3))
    with pytest.raises(DTypeError, match="rfft takes real numbers"):
        wg.fft.rfft(x * 1j)
    with pytest.raises(ShapeError, match="norm"):
        wg.fft.fft(x, norm="both")
    with pytest.raises(ShapeError, match="to 0 points"):
        wg.fft.fft(x, n=0)
    with pytest.raises(ShapeError, match="each axis once"):
        wg.fft.fftn(x, axes=(0, -2))
    with pytest.raises(ShapeError, match="one size for each"):
        wg.fft.fftn(x, s=(2,), axes=(0, 1))
    with pytest.raises(ShapeError, match="no axis"):
        wg.fft.rfftn(x, axes=())
    with pytest.raises(ShapeError, match="axis"):
        wg.fft.fft(x, axis=2)
    with pytest.raises(ShapeError, match="0 points"):
        wg.fft.irfft(wg.ones(1))
    with pytest.raises(ShapeError, match="at least 1"):
        wg.fft.fftfreq(0)
    with pytest.raises(DTypeError, match="real"):
        wg.fft.fftfreq(3, dtype=wg.complex64)


def test_unknown_sizes() -> None:
    x = wg.placeholder((None, 4), wg.float32)
    f = wg.function([x], wg.real(wg.fft.fft(x, axis=0)))
    value = argument("rfft", (3, 4), np.float32)
    np.testing.assert_allclose(f(value).numpy(), np.fft.fft(value, axis=0).real, rtol=1e-5, atol=1e-5)
    assert wg.fft.rfft(x).shape[1] == 3
    for fn in (wg.fft.rfft, wg.fft.irfft, wg.fft.fftshift):
        with pytest.raises(GraphError, match="size"):
            fn(x, axis=0) if fn is not wg.fft.fftshift else fn(x)


def test_what_is_not_finite_spreads() -> None:
    x = wg.asarray([[1.0, np.nan], [1.0, 2.0]])
    out = wg.isnan(wg.real(wg.fft.fft(x)))
    assert out.tolist() == [[True, True], [False, False]]
