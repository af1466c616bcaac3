"""Complex numbers in kernels, as pairs of real ones: the values of NumPy's loops, without a step in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.execute.native.plan.plan import HostCall

PARTS = (0.0, -0.0, 1.5, -2.25, 1e-300, 1e300, np.inf, -np.inf, np.nan)
SPECIAL = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])
# Products that round once instead of twice overflow elsewhere.
MODERATE = np.array([complex(*(3.0 if abs(x) == 1e300 else x for x in (z.real, z.imag))) for z in SPECIAL])
PRODUCTS = {"square", "multiply", "divide", "with a real number", "number"}
ROUNDED = {"exp", "sum", "mean", "abs", "sign", "reciprocal"}


def _in_python(f: Any) -> list[str]:
    return [s.label for s in f.plan.steps if isinstance(s.kernel, HostCall) and s.kernel.when is None]


def _random(*shape: int, dtype: str = "complex128", seed: int = 0) -> Any:
    r = np.random.default_rng(seed)
    return wg.asarray((r.normal(size=shape) + 1j * r.normal(size=shape)).astype(dtype))


ONE: dict[str, Callable[[Any], Any]] = {
    "negative": lambda z: -z,
    "conj": wg.conj,
    "real": wg.real,
    "imag": wg.imag,
    "abs": wg.abs,
    "square": wg.square,
    "exp": wg.exp,
    "sign": wg.sign,
    "reciprocal": wg.reciprocal,
    "isnan": wg.isnan,
    "isinf": wg.isinf,
    "isfinite": wg.isfinite,
    "view_as_real": lambda z: wg.view_as_real(-z),
    "view_as_complex": lambda z: wg.view_as_complex(wg.view_as_real(z) * 2.0) + 1.0,
    "sum": lambda z: (z * 2.0).reshape(9, 9).sum(axis=1),
    "mean": lambda z: (z * 2.0).reshape(9, 9).mean(axis=0),
    "slices": lambda z: (-z)[3:20:2],
    "permuted": lambda z: (-z).reshape(9, 9).T + 1.0,
    "gathered": lambda z: (-z)[wg.asarray([0, 5, 5, 80])],
    "joined": lambda z: wg.concat([-z, z, wg.conj(z)]),
    "stacked": lambda z: wg.stack([-z, wg.conj(z)], axis=1),
    "to complex64": lambda z: wg.astype(-z, wg.complex64),
    "number": lambda z: 1j * z + (2.0 - 3j),
    "chosen": lambda z: wg.where(wg.real(z) > 0, -z, wg.conj(z)),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "with a real number": lambda a, b: a * wg.real(b) + wg.imag(a),
}


def _same(got: Any, want: Any, exact: bool) -> None:
    got, want = np.asarray(got.numpy()), np.asarray(want.numpy())
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind == "c":
        got, want = np.stack([got.real, got.imag]), np.stack([want.real, want.imag])
    if exact:
        np.testing.assert_array_equal(got, want)
        number = ~np.isnan(want) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
    else:
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-299)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_of_one_operand(name: str) -> None:
    f = wg.jit(ONE[name])
    z = wg.asarray(MODERATE if name in PRODUCTS else SPECIAL)
    _same(f(z), ONE[name](z), exact=name not in PRODUCTS | ROUNDED)
    assert not _in_python(f)


@pytest.mark.parametrize("name", TWO)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_of_two_operands(name: str) -> None:
    f = wg.jit(TWO[name])
    values = MODERATE if name in PRODUCTS else SPECIAL
    a, b = (wg.asarray(x.copy()) for x in np.broadcast_arrays(values[:, None], values))
    _same(f(a, b), TWO[name](a, b), exact=name not in PRODUCTS)
    assert not _in_python(f)


def test_products_of_matrices() -> None:
    a, b, x = _random(3, 5, 4), _random(3, 4, 6, seed=1), wg.asarray(np.random.default_rng(2).normal(size=(4, 6)))
    f = wg.jit(lambda a, b, x: (a @ b, a @ x, x.T @ b))
    for got, want in zip(f(a, b, x), (a @ b, a @ x, x.T @ b), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13, atol=1e-13)
    assert not _in_python(f)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_gradients_have_no_step_in_python(dtype: str) -> None:
    a = _random(12, dtype=dtype)

    def fn(x: Any) -> Any:
        z = wg.exp(1j * x) * a
        z = z * z + wg.conj(z) / (1 + wg.abs(z))
        return wg.real((z - 1) * wg.conj(z)).sum()

    x = wg.asarray(np.random.default_rng(1).normal(size=12).astype(wg.real(a).numpy().dtype))
    f = wg.jit(wg.value_and_grad(fn))
    for got, want in zip(f(x), wg.value_and_grad(fn)(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-5 if dtype == "complex64" else 1e-12)
    assert not _in_python(f)


def test_transforms_take_and_give_complex_numbers() -> None:
    phase, x = _random(16), wg.asarray(np.random.default_rng(3).normal(size=16))

    def fn(v: Any) -> Any:
        h, p = wg.exp(-0.5j * v), phase
        for _ in range(3):
            p = h * wg.fft.ifft(phase * wg.fft.fft(h * p))
        return (wg.abs(p) ** 2).sum()

    f = wg.jit(wg.value_and_grad(fn))
    for got, want in zip(f(x), wg.value_and_grad(fn)(x), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-11)
    assert set(_in_python(f)) <= {"fft", "ifft"}


def test_loops_over_complex_states() -> None:
    w, xs = _random(4), _random(9, 4, seed=1)
    fn = lambda w, xs: wg.scan(lambda s, x: (s * w + x, wg.abs(s)), w, xs)
    f = wg.jit(fn)
    for got, want in zip(wg.tree.leaves(f(w, xs)), wg.tree.leaves(fn(w, xs)), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13)
    assert not _in_python(f)


def test_state_of_complex_numbers_is_written() -> None:
    state = wg.asarray(np.ones(3, complex))

    @wg.jit
    def step(x: Any) -> Any:
        state.assign_(state * x + 1j)
        return state.real if hasattr(state, "real") else wg.real(state)

    for _ in range(3):
        step(wg.asarray(np.full(3, 0.5 + 0.5j)))
    want = np.ones(3, complex)
    for _ in range(3):
        want = want * (0.5 + 0.5j) + 1j
    np.testing.assert_allclose(state.numpy(), want, rtol=1e-14)
