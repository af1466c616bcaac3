"""NumPy's functions of tensors: tensors and gradients where Wengert has them, an error where something is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.ops.numpy_protocol import _same, known

X = np.array([[1.0, -2.0, 3.5], [0.5, 4.0, -1.0]])
V = np.array([3.0, 1.0, 2.0])
S = np.array([[4.0, 1.0], [1.0, 3.0]])

# A call of every function that is Wengert's: NumPy's own result is the expectation.
CALLS: dict[Any, list[Callable[[Callable[[np.ndarray], Any]], Any]]] = {
    np.all: [lambda t: np.all(t(X) > -3), lambda t: np.all(t(X), axis=0)],
    np.any: [lambda t: np.any(t(X), 1), lambda t: np.any(t(X), keepdims=True)],
    np.allclose: [lambda t: np.allclose(t(X), t(X) + 1e-9), lambda t: np.allclose(t(V), 2.0, rtol=1.0)],
    np.argmax: [lambda t: np.argmax(t(X)), lambda t: np.argmax(t(X), axis=1)],
    np.argmin: [lambda t: np.argmin(t(X), 0)],
    np.argsort: [lambda t: np.argsort(t(X), axis=0)],
    np.array_split: [lambda t: np.array_split(t(X), 2, axis=1)],
    np.broadcast_arrays: [lambda t: np.broadcast_arrays(t(X), t(V))],
    np.astype: [lambda t: np.astype(t(X), np.float32)],
    np.broadcast_to: [lambda t: np.broadcast_to(t(V), (2, 3))],
    np.clip: [lambda t: np.clip(t(X), 0, 2), lambda t: np.clip(t(X), a_min=0.5, a_max=None)],
    np.concatenate: [lambda t: np.concatenate([t(X), t(X)], axis=1), lambda t: np.concatenate((t(X), t(X)), None)],
    np.count_nonzero: [lambda t: np.count_nonzero(t(X) > 0, axis=1)],
    np.cumulative_prod: [lambda t: np.cumulative_prod(t(V))],
    np.cumulative_sum: [lambda t: np.cumulative_sum(t(X), axis=1, include_initial=True)],
    np.diag: [lambda t: np.diag(t(V)), lambda t: np.diag(t(S), k=1)],
    np.diagonal: [lambda t: np.diagonal(t(X), offset=1), lambda t: np.diagonal(t(X), axis1=1, axis2=0)],
    np.dot: [lambda t: np.dot(t(X), t(V)), lambda t: np.dot(t(S), t(X)), lambda t: np.dot(t(V), t(V))],
    np.einsum: [lambda t: np.einsum("ij,j->i", t(X), t(V))],
    np.expand_dims: [lambda t: np.expand_dims(t(X), 1)],
    np.flip: [lambda t: np.flip(t(X)), lambda t: np.flip(t(X), axis=1)],
    np.imag: [lambda t: np.imag(t(X + 1j * X))],
    np.isclose: [lambda t: np.isclose(t(X), t(X) * 1.0000001)],
    np.kron: [lambda t: np.kron(t(S), t(V))],
    np.matrix_transpose: [lambda t: np.matrix_transpose(t(X))],
    np.median: [lambda t: np.median(t(X), axis=1), lambda t: np.median(t(X))],
    np.meshgrid: [lambda t: np.meshgrid(t(V), t(V)), lambda t: np.meshgrid(t(V), t(V), indexing="ij")],
    np.moveaxis: [lambda t: np.moveaxis(t(X), 0, 1)],
    np.nonzero: [lambda t: np.nonzero(t(X) > 0)],
    np.outer: [lambda t: np.outer(t(V), t(V))],
    np.real: [lambda t: np.real(t(X + 2j * X))],
    np.repeat: [lambda t: np.repeat(t(X), 2, axis=0), lambda t: np.repeat(t(V), 2)],
    np.roll: [lambda t: np.roll(t(X), 1), lambda t: np.roll(t(X), -1, axis=1)],
    np.searchsorted: [lambda t: np.searchsorted(t(np.sort(V)), t(V), side="right")],
    np.sort: [lambda t: np.sort(t(X)), lambda t: np.sort(t(X), axis=0)],
    np.squeeze: [lambda t: np.squeeze(t(X[None]))],
    np.stack: [lambda t: np.stack([t(X), t(X)], axis=2)],
    np.std: [lambda t: np.std(t(X), axis=1, ddof=1), lambda t: np.std(t(X))],
    np.swapaxes: [lambda t: np.swapaxes(t(X), 0, 1)],
    np.take: [lambda t: np.take(t(X), [0, 1], axis=1)],
    np.take_along_axis: [lambda t: np.take_along_axis(t(X), np.array([[0], [2]]), axis=1)],
    np.tensordot: [lambda t: np.tensordot(t(S), t(X), axes=1)],
    np.tile: [lambda t: np.tile(t(V), (2, 2))],
    np.trace: [lambda t: np.trace(t(S)), lambda t: np.trace(t(X), offset=1)],
    np.tril: [lambda t: np.tril(t(S), k=-1)],
    np.triu: [lambda t: np.triu(t(X))],
    np.unique_all: [lambda t: np.unique_all(t(V))[:1]],
    np.unique_counts: [lambda t: np.unique_counts(t(V))],
    np.unique_inverse: [lambda t: np.unique_inverse(t(V))],
    np.unique_values: [lambda t: np.unique_values(t(V))],
    np.unstack: [lambda t: np.unstack(t(X))],
    np.var: [lambda t: np.var(t(X), ddof=1), lambda t: np.var(t(X), 0)],
    np.zeros_like: [lambda t: np.zeros_like(t(X))],
    np.ones_like: [lambda t: np.ones_like(t(X), dtype=np.float32)],
    np.full_like: [lambda t: np.full_like(t(X), 2.5)],
    np.empty_like: [lambda t: np.empty_like(t(X)) * 0],
    np.linalg.cholesky: [lambda t: np.linalg.cholesky(t(S))],
    np.linalg.cond: [lambda t: np.linalg.cond(t(S))],
    np.linalg.cross: [lambda t: np.linalg.cross(t(V), t(V[::-1].copy()))],
    np.linalg.det: [lambda t: np.linalg.det(t(S))],
    np.linalg.diagonal: [lambda t: np.linalg.diagonal(t(S))],
    np.linalg.eig: [lambda t: np.linalg.eig(t(S))[:1]],
    np.linalg.eigh: [lambda t: np.linalg.eigh(t(S))[:1]],
    np.linalg.eigvals: [lambda t: np.linalg.eigvals(t(S))],
    np.linalg.eigvalsh: [lambda t: np.linalg.eigvalsh(t(S))],
    np.linalg.inv: [lambda t: np.linalg.inv(t(S))],
    np.linalg.lstsq: [lambda t: np.linalg.lstsq(t(X.T), t(V), rcond=None)[:1]],
    np.linalg.matmul: [lambda t: np.linalg.matmul(t(S), t(X))],
    np.linalg.matrix_norm: [lambda t: np.linalg.matrix_norm(t(S), ord=2)],
    np.linalg.matrix_power: [lambda t: np.linalg.matrix_power(t(S), 3)],
    np.linalg.matrix_rank: [lambda t: np.linalg.matrix_rank(t(X))],
    np.linalg.matrix_transpose: [lambda t: np.linalg.matrix_transpose(t(X))],
    np.linalg.multi_dot: [lambda t: np.linalg.multi_dot([t(S), t(S), t(X)])],
    np.linalg.norm: [lambda t: np.linalg.norm(t(X)), lambda t: np.linalg.norm(t(X), ord=1, axis=0, keepdims=True)],
    np.linalg.outer: [lambda t: np.linalg.outer(t(V), t(V))],
    np.linalg.pinv: [lambda t: np.linalg.pinv(t(X)), lambda t: np.linalg.pinv(t(X), rcond=0.5)],
    np.linalg.slogdet: [lambda t: np.linalg.slogdet(t(S))],
    np.linalg.solve: [lambda t: np.linalg.solve(t(S), t(X))],
    np.linalg.svdvals: [lambda t: np.linalg.svdvals(t(X))],
    np.linalg.tensordot: [lambda t: np.linalg.tensordot(t(S), t(X), axes=((1,), (0,)))],
    np.linalg.trace: [lambda t: np.linalg.trace(t(S))],
    np.linalg.vecdot: [lambda t: np.linalg.vecdot(t(V), t(V))],
    np.linalg.vector_norm: [lambda t: np.linalg.vector_norm(t(X), axis=1)],
    np.fft.fftshift: [lambda t: np.fft.fftshift(t(X), axes=1)],
    np.fft.ifftshift: [lambda t: np.fft.ifftshift(t(X))],
}


def _transform(f: Any, *axes: int) -> list[Callable[[Callable[[np.ndarray], Any]], Any]]:
    return [lambda t: f(t(X)), *(lambda t, axis=axis: f(t(X), axis=axis) for axis in axes)]


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    CALLS[getattr(np.fft, _name)] = _transform(getattr(np.fft, _name), 0)
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    CALLS[getattr(np.fft, _name)] = _transform(getattr(np.fft, _name))


def test_every_function_has_a_call() -> None:
    assert set(CALLS) == set(_same())


def _flat(found: Any) -> list[Any]:
    return [x for part in found for x in _flat(part)] if isinstance(found, (tuple, list)) else [found]


@pytest.mark.parametrize("function", CALLS, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_values_are_numpys(function: Any) -> None:
    assert known(function) is not None
    for call in CALLS[function]:
        expected = _flat(call(lambda a: a))
        found = _flat(call(wg.asarray))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            if isinstance(b, (np.ndarray, np.generic)) and not isinstance(b, (np.bool_,)):
                assert isinstance(a, wg.Tensor)
                assert a.shape == np.shape(b)
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x) ** 2),
        lambda x: np.mean(x * np.exp(-x), axis=0).sum(),
        lambda x: np.sqrt(np.sum(np.square(x), axis=1)).sum(),
        lambda x: np.linalg.norm(x),
        lambda x: np.add.reduce(x, axis=None) * np.multiply.reduce(x.reshape(-1)),
        lambda x: np.std(x) + np.var(x, axis=0).sum() + np.max(x) - np.min(x),
        lambda x: np.concatenate([x, np.ones((1, 3))]).prod(),
        lambda x: np.where(x > 0, np.log(np.abs(x)), x).sum(),
        lambda x: np.einsum("ij,kj->ik", x, x).sum() + np.dot(x, np.ones(3)).sum(),
    ],
)
def test_gradients_flow(f: Callable[[Any], Any]) -> None:
    wg.check_grads(f, wg.asarray(X))
    x = wg.asarray(X)
    expected = float(f(X))
    np.testing.assert_allclose(float(f(x)), expected, rtol=1e-12)
    compiled, slope = wg.jit(f), wg.jit(wg.grad(f))
    for _ in range(6):
        np.testing.assert_allclose(float(compiled(x)), expected, rtol=1e-10)
        np.testing.assert_allclose(slope(x).numpy(), wg.grad(f)(x).numpy(), rtol=1e-10)


def test_what_wengert_lacks_is_numpys_where_nothing_is_lost() -> None:
    t = wg.asarray(X)
    counts, _ = np.histogram(t)
    np.testing.assert_array_equal(counts, np.histogram(X)[0])
    np.testing.assert_array_equal(np.add.reduceat(t, [0, 1]), np.add.reduceat(X, [0, 1]))
    out = np.zeros(3)
    assert np.sum(t, axis=0, out=out) is out
    np.testing.assert_array_equal(out, X.sum(0))
    a = X.copy()
    a += t
    np.testing.assert_array_equal(a, X * 2)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda t: np.histogram(t), "np.histogram"),
        (lambda t: np.sum(t, out=np.zeros(())), "np.sum"),
        (lambda t: np.add(t, 1, out=np.zeros((2, 3))), "np.add"),
        (lambda t: np.add.reduceat(t, [0, 1]), "np.add.reduceat"),
        (lambda t: np.linalg.tensorinv(t), "np.linalg.tensorinv"),
        (lambda t: np.zeros((2, 3)).__iadd__(t), "np.add"),
        (lambda t: np.var(t, where=t > 0), "np.var"),
    ],
)
def test_an_error_where_gradients_would_be_lost(call: Callable[[Any], Any], name: str) -> None:
    with pytest.raises(wg.GradientError, match=f"{name} of a tensor that requires gradients, f64") as e:
        call(wg.tensor(X, requires_grad=True))
    assert "test_numpy_protocol.py" in str(e.value).splitlines()[0]
    with pytest.raises(wg.GradientError, match=name):
        wg.grad(lambda x: wg.asarray(call(x)).sum())(wg.asarray(X))
    with pytest.raises(wg.TraceError, match=f"{name} of a tensor without a value"):
        wg.jit(call)(wg.asarray(X))


def test_numbers_of_numpys_on_the_left() -> None:
    t = wg.tensor([1.0, 2.0])
    assert (np.float64(2.0) * t).dtype == wg.float64
    assert isinstance(np.float32(2.0) * t, wg.Tensor)
    assert (np.ones(2, np.float32) - t).tolist() == [0.0, -1.0]
    with pytest.raises(ValueError, match="equal division"):
        np.split(wg.ones(3), 2)


def test_tolerances_may_be_tensors() -> None:
    a = np.random.default_rng(0).normal(size=(2, 3, 3))
    for rtol in (wg.tensor(1e-3), np.float64(1e-3), 1e-3):
        np.testing.assert_allclose(wg.linalg.pinv(a, rtol=rtol).numpy(), np.linalg.pinv(a, rcond=1e-3), rtol=1e-9)
    found = wg.linalg.pinv(a, rtol=wg.tensor([0.9, 1e-9]))
    for x, y, rcond in zip(found, a, (0.9, 1e-9), strict=True):
        np.testing.assert_allclose(x.numpy(), np.linalg.pinv(y, rcond=np.float32(rcond)), rtol=1e-9)
    solution = wg.linalg.lstsq(a[0], a[1], rcond=None).solution
    np.testing.assert_allclose(solution.numpy(), np.linalg.lstsq(a[0], a[1], rcond=None)[0], rtol=1e-9)
