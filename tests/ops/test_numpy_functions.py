"""NumPy's functions that are written anew for tensors: values, gradients, compiled programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.ops.numpy_functions.register import OWN, UFUNCS

RNG = np.random.default_rng(3)
V = np.array([0.5, -1.25, 2.75, 0.25, -0.75])
UP = np.array([-2.0, -1.0, 0.25, 1.5, 3.0])
X = RNG.normal(size=(3, 5))
CUBE = RNG.normal(size=(2, 3, 4))
HOLES = np.where(np.abs(X) < 0.4, np.nan, X)
Z = RNG.normal(size=4) + 1j * RNG.normal(size=4)


def _writes(call: Callable[[Any, Any], None]) -> Callable[[Any], Any]:
    """Return a function that gives a copy of its argument after a function has written to it."""

    def run(x: Any) -> Any:
        copy = np.copy(x)
        call(copy, x)
        return copy

    return run


# By NumPy's function: data, and calls with it. Each is compared with NumPy's, and its gradients with differences.
CALLS: dict[Any, list[tuple[Any, Callable[[Any], Any]]]] = {
    np.sum: [
        (X, lambda x: np.sum(x, axis=0, where=np.array([[True], [False], [True]]))),
        (X, lambda x: np.sum(x, initial=3.0)),
        (X, lambda x: np.sum(x, 1, dtype=np.float64, keepdims=True)),
    ],
    np.prod: [(X, lambda x: np.prod(x, axis=1, initial=2.0)), (X, lambda x: np.prod(x, where=X > 0))],
    np.mean: [(X, lambda x: np.mean(x, axis=1, where=X > 0)), (X, lambda x: np.mean(x, axis=(0, 1), keepdims=True))],
    np.max: [(X, lambda x: np.max(x, axis=1, initial=0.5)), (X, lambda x: np.max(x, initial=-9.0, where=X < 0))],
    np.min: [(X, lambda x: np.min(x, axis=0, initial=0.1)), (X, lambda x: np.min(x, initial=9.0, where=X > 0))],
    np.ptp: [(X, lambda x: np.ptp(x, axis=0)), (X, lambda x: np.ptp(x, keepdims=True))],
    np.cumsum: [(X, lambda x: np.cumsum(x)), (X, lambda x: np.cumsum(x, axis=1))],
    np.cumprod: [(X, lambda x: np.cumprod(x)), (X, lambda x: np.cumprod(x, 0))],
    np.nansum: [(HOLES, lambda x: np.nansum(x, axis=0)), (HOLES, lambda x: np.nansum(x))],
    np.nanprod: [(HOLES, lambda x: np.nanprod(x, axis=1, keepdims=True))],
    np.nancumsum: [(HOLES, lambda x: np.nancumsum(x, axis=1))],
    np.nancumprod: [(HOLES, lambda x: np.nancumprod(x))],
    np.nanmean: [(HOLES, lambda x: np.nanmean(x, axis=1)), (HOLES, lambda x: np.nanmean(x))],
    np.nanvar: [(HOLES, lambda x: np.nanvar(x, axis=1)), (HOLES, lambda x: np.nanvar(x, ddof=1))],
    np.nanstd: [(HOLES, lambda x: np.nanstd(x, axis=1, keepdims=True))],
    np.nanmax: [(HOLES, lambda x: np.nanmax(x, axis=0)), (np.full(2, np.nan), lambda x: np.nanmax(x))],
    np.nanmin: [(HOLES, lambda x: np.nanmin(x)), (X, lambda x: np.nanmin(x, axis=1, keepdims=True))],
    np.nanargmax: [(HOLES, lambda x: np.nanargmax(x, axis=1))],
    np.nanargmin: [(HOLES, lambda x: np.nanargmin(x))],
    np.quantile: [
        (X, lambda x: np.quantile(x, 0.3)),
        (X, lambda x: np.quantile(x, [0.1, 0.5, 1.0], axis=1)),
        (CUBE, lambda x: np.quantile(x, [[0.2], [0.9]], axis=(0, 2), keepdims=True)),
        *[
            (X, lambda x, m=m: np.quantile(x, 0.37, axis=0, method=m))
            for m in ("lower", "higher", "nearest", "midpoint")
        ],
        (HOLES, lambda x: np.quantile(x, 0.5, axis=0)),
    ],
    np.percentile: [(X, lambda x: np.percentile(x, [5, 50], axis=1)), (X, lambda x: np.percentile(x, 30))],
    np.nanquantile: [(HOLES, lambda x: np.nanquantile(x, 0.4, axis=1))],
    np.nanpercentile: [(HOLES, lambda x: np.nanpercentile(x, [20, 80]))],
    np.nanmedian: [(HOLES, lambda x: np.nanmedian(x, axis=1)), (HOLES, lambda x: np.nanmedian(x, keepdims=True))],
    np.partition: [(V, lambda x: np.partition(x, 2)[2])],
    np.argpartition: [(V, lambda x: np.argpartition(x, 2)[2])],
    np.average: [
        (X, lambda x: np.average(x)),
        (X, lambda x: np.average(x, axis=1, weights=np.abs(V))),
        (X, lambda x: np.average(x, weights=np.abs(X), axis=0, keepdims=True)),
    ],
    np.cov: [
        (X, lambda x: np.cov(x)),
        (X, lambda x: np.cov(x, rowvar=False, bias=True)),
        (V, lambda x: np.cov(x, UP)),
        (V, lambda x: np.cov(x)),
        (X, lambda x: np.cov(x, aweights=np.abs(V), fweights=[1, 2, 1, 3, 1])),
        (Z, lambda z: np.cov(z, z.conj())),
    ],
    np.corrcoef: [
        (X, lambda x: np.corrcoef(x)),
        (V, lambda x: np.corrcoef(x, UP)),
        (X, lambda x: np.corrcoef(x, rowvar=False)),
    ],
    np.bincount: [(V, lambda x: np.bincount([0, 3, 3, 1, 0], weights=x, minlength=6))],
    np.digitize: [
        (V, lambda x: np.digitize(x, [-1.0, 0.25, 2.0])),
        (V, lambda x: np.digitize(x, [2.0, 0.25, -1.0], right=True)),
        (V, lambda x: np.digitize(x, [2.0, 0.25, -1.0])),
    ],
    np.isin: [(X, lambda x: np.isin(x, X[0, :2])), (V, lambda x: np.isin(x, [], invert=True))],
    np.unique: [
        (V, lambda x: np.unique(x)),
        (np.array([3, 1, 3, 2]), lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True)),
    ],
    np.reshape: [
        (X, lambda x: np.reshape(x, (5, 3))),
        (X, lambda x: np.reshape(x, -1)),
        (X, lambda x: np.reshape(x, (5, 3), order="F")),
    ],
    np.ravel: [(X, lambda x: np.ravel(x)), (CUBE, lambda x: np.ravel(x, order="F"))],
    np.transpose: [(X, lambda x: np.transpose(x)), (CUBE, lambda x: np.transpose(x, (2, 0, 1)))],
    np.resize: [(V, lambda x: np.resize(x, (3, 4))), (V, lambda x: np.resize(x, 2))],
    np.atleast_1d: [(np.float64(2.0), lambda x: np.atleast_1d(x)), (X, lambda x: np.atleast_1d(x, x[0]))],
    np.atleast_2d: [(V, lambda x: np.atleast_2d(x)), (np.float64(2.0), lambda x: np.atleast_2d(x))],
    np.atleast_3d: [(d, lambda x: np.atleast_3d(x)) for d in (np.float64(1.0), V, X, CUBE)],
    np.rot90: [(X, lambda x, k=k: np.rot90(x, k)) for k in range(-1, 4)] + [(CUBE, lambda x: np.rot90(x, axes=(2, 0)))],
    np.fliplr: [(X, lambda x: np.fliplr(x))],
    np.flipud: [(X, lambda x: np.flipud(x))],
    np.copy: [(X, lambda x: np.copy(x))],
    np.shape: [(X, lambda x: np.shape(x))],
    np.ndim: [(X, lambda x: np.ndim(x))],
    np.size: [(X, lambda x: np.size(x)), (X, lambda x: np.size(x, 1))],
    np.pad: [
        (X, lambda x: np.pad(x, 1)),
        (X, lambda x: np.pad(x, ((0, 1), (1, 0)), mode="constant", constant_values=2.0)),
        (X, lambda x: np.pad(x, (1, 2), constant_values=((1.0, 2.0), (3.0, 4.0)))),
        (X, lambda x: np.pad(x, ((2, 1), (1, 2)), mode="symmetric")),
        (X, lambda x: np.pad(x, ((5, 1), (0, 9)), mode="wrap")),
        (X, lambda x: np.pad(x, 1, mode="edge")),
    ],
    np.vstack: [(V, lambda x: np.vstack([x, UP]))],
    np.hstack: [(V, lambda x: np.hstack([x, UP])), (X, lambda x: np.hstack((x, X)))],
    np.dstack: [(V, lambda x: np.dstack([x, UP])), (X, lambda x: np.dstack([x, x]))],
    np.column_stack: [(V, lambda x: np.column_stack([x, UP]))],
    np.append: [(V, lambda x: np.append(x, 4.0)), (X, lambda x: np.append(X, x, axis=0))],
    np.block: [
        (V, lambda x: np.block([[x, UP], [UP, x]])),
        (np.float64(2.0), lambda x: np.block([[np.eye(2) * 1.0, np.zeros((2, 1))], [np.ones((1, 2)), x]])),
        (V, lambda x: np.block([x, x])),
    ],
    np.split: [(X, lambda x: np.split(x, 3)), (X, lambda x: np.split(x, [1, 4], axis=1))],
    np.hsplit: [(X, lambda x: np.hsplit(x, [2])), (V, lambda x: np.hsplit(x, [2]))],
    np.vsplit: [(X, lambda x: np.vsplit(x, 3))],
    np.dsplit: [(CUBE, lambda x: np.dsplit(x, 2))],
    np.delete: [
        (V, lambda x: np.delete(x, 1)),
        (X, lambda x: np.delete(x, [0, -1], axis=1)),
        (X, lambda x: np.delete(x, slice(0, 4))),
    ],
    np.insert: [
        (V, lambda x: np.insert(x, 1, 9.0)),
        (V, lambda x: np.insert(UP, [0, 3], x[:2])),
        (X, lambda x: np.insert(x, 2, V[:3], axis=1)),
        (X, lambda x: np.insert(x, -1, V, axis=0)),
        (X, lambda x: np.insert(X, [1, 1], x[:2], axis=0)),
        (X, lambda x: np.insert(x, 3, [1.0, 2.0])),
        (V, lambda x: np.insert(x, slice(1, 3), 7.0)),
    ],
    np.where: [(X, lambda x: np.where(X > 0, x, 0.0)), (X, lambda x: np.where(x > 0))],
    np.flatnonzero: [(X, lambda x: np.flatnonzero(x > 0))],
    np.argwhere: [(X, lambda x: np.argwhere(x > 0)), (np.float64(2.0), lambda x: np.argwhere(x))],
    np.extract: [(X, lambda x: np.extract(X > 0, x))],
    np.compress: [
        (X, lambda x: np.compress([True, False, True], x, axis=0)),
        (X, lambda x: np.compress(X.ravel() < 0, x)),
    ],
    np.choose: [(V, lambda x: np.choose([0, 1, 0, 1, 1], [x, -x * x]))],
    np.select: [(V, lambda x: np.select([V > 1, V < 0], [x, x**2], 7.0))],
    np.piecewise: [
        (V, lambda x: np.piecewise(x, [V < 0, V >= 0], [lambda u: -u, lambda u: np.sqrt(u)])),
        (V, lambda x: np.piecewise(x, [V > 1], [3.0, lambda u: u * u])),
    ],
    np.apply_along_axis: [
        (X, lambda x: np.apply_along_axis(lambda r: np.sum(r * r), 1, x)),
        (CUBE, lambda x: np.apply_along_axis(lambda r: np.outer(r, r), 1, x)),
    ],
    np.copyto: [
        (V, _writes(lambda a, x: np.copyto(a, x * 2, where=V > 0))),
        (V, _writes(lambda a, x: np.copyto(a, x[0]))),
    ],
    np.fill_diagonal: [
        (X, _writes(lambda a, x: np.fill_diagonal(a, x[0, :2]))),
        (X.T.copy(), _writes(lambda a, x: np.fill_diagonal(a, 3.0, wrap=True))),
    ],
    np.put: [(V, _writes(lambda a, x: np.put(a, [0, -1, 2], x[:2] * 3)))],
    np.putmask: [
        (V, _writes(lambda a, x: np.putmask(a, V > 0, x[:2] * 3))),
        (X, _writes(lambda a, x: np.putmask(a, [*range(15)], 7.0))),
    ],
    np.place: [(V, _writes(lambda a, x: np.place(a, V > 0, x[1:3])))],
    np.add.at: [
        (X, _writes(lambda a, x: np.add.at(a, ([0, 1, 1], [2, 0, 0]), x[0, :3] * 2))),
        (V, _writes(lambda a, x: np.add.at(a, V > 0, x[0]))),
    ],
    np.subtract.at: [(X, _writes(lambda a, x: np.subtract.at(a, (slice(None), [1, 1]), x[:, :2])))],
    np.put_along_axis: [
        (X, _writes(lambda a, x: np.put_along_axis(a, np.array([[1], [0], [4]]), x[:, :1] * 2, axis=1))),
        (X, _writes(lambda a, x: np.put_along_axis(a, np.array([3, 7]), x[0, :2] * 2, axis=None))),
    ],
    np.tril_indices_from: [(X, lambda x: np.tril_indices_from(x, -1))],
    np.triu_indices_from: [(X, lambda x: np.triu_indices_from(x))],
    np.diag_indices_from: [(np.eye(3), lambda x: np.diag_indices_from(x))],
    np.diagflat: [(X, lambda x: np.diagflat(x, 1))],
    np.array_equal: [(X, lambda x: np.array_equal(x, X)), (X, lambda x: np.array_equal(x, V))],
    np.sinc: [(np.array([0.0, 0.3, -1.0, 2.5]), lambda x: np.sinc(x))],
    np.i0: [(V, lambda x: np.i0(x))],
    np.angle: [(Z, lambda z: np.angle(z)), (V, lambda x: np.angle(x, deg=True)), (V, lambda x: np.angle(x + 1j * UP))],
    np.nan_to_num: [
        (np.array([1.5, np.nan, np.inf, -np.inf]), lambda x: np.nan_to_num(x, nan=-1.0, neginf=-7.0)),
        (Z, lambda z: np.nan_to_num(z * np.array([1.0, np.nan, 1.0, 1.0]))),
        (np.arange(3), lambda x: np.nan_to_num(x)),
    ],
    np.round: [
        (V * 7.3, lambda x: np.round(x)),
        (V * 7.31, lambda x: np.round(x, 1)),
        (np.array([15, 25, -15]), lambda x: np.round(x, -1)),
    ],
    np.fix: [(V, lambda x: np.fix(x))],
    np.isneginf: [(np.array([1.0, -np.inf, np.inf]), lambda x: np.isneginf(x))],
    np.isposinf: [(np.array([1.0, -np.inf, np.inf]), lambda x: np.isposinf(x))],
    np.isreal: [(Z, lambda z: np.isreal(z * np.array([1.0, 0.0, 1.0, 1.0]))), (V, lambda x: np.isreal(x))],
    np.iscomplex: [(Z, lambda z: np.iscomplex(z)), (V, lambda x: np.iscomplex(x))],
    np.iscomplexobj: [(Z, lambda z: np.iscomplexobj(z))],
    np.isrealobj: [(Z, lambda z: np.isrealobj(z))],
    np.inner: [(X, lambda x: np.inner(x, X)), (V, lambda x: np.inner(x, UP))],
    np.vdot: [(Z, lambda z: np.vdot(z, z * 2j)), (X, lambda x: np.vdot(x, X))],
    np.cross: [
        (V[:3], lambda x: np.cross(x, UP[:3])),
        (X[:, :3], lambda x: np.cross(x, UP[:3])),
        (X, lambda x: np.cross(x, X[::-1], axis=0)),
    ],
    np.diff: [
        (X, lambda x: np.diff(x)),
        (X, lambda x: np.diff(x, n=2, axis=0)),
        (V, lambda x: np.diff(x, prepend=0.0)),
        (X, lambda x: np.diff(x, axis=0, prepend=x[:1] * 2, append=7.0)),
    ],
    np.ediff1d: [(X, lambda x: np.ediff1d(x)), (V, lambda x: np.ediff1d(x, to_begin=1.0, to_end=[2.0, 3.0]))],
    np.trapezoid: [
        (X, lambda x: np.trapezoid(x)),
        (X, lambda x: np.trapezoid(x, x=UP, axis=1)),
        (X, lambda x: np.trapezoid(x, x=np.sort(X, axis=0), axis=0)),
        (V, lambda x: np.trapezoid(UP, x=x)),
    ],
    np.gradient: [
        (V, lambda x: np.gradient(x)),
        (X, lambda x: np.gradient(x)),
        (X, lambda x: np.gradient(x, 0.5, axis=1, edge_order=2)),
        (V, lambda x: np.gradient(x, UP, edge_order=2)),
        (UP, lambda x: np.gradient(V, x)),
        (CUBE, lambda x: np.gradient(x, 2.0, 0.5, axis=(0, 2))),
    ],
    np.unwrap: [
        (V * 5, lambda x: np.unwrap(x)),
        (X * 8.3, lambda x: np.unwrap(x, axis=0, period=4.0)),
        (V * 9, lambda x: np.unwrap(x, discont=5.0)),
    ],
    np.interp: [
        (V * 1.1, lambda x: np.interp(x, UP, V)),
        (V, lambda y: np.interp([-3.0, -2.0, 0.3, 3.0, 4.0], UP, y)),
        (UP, lambda places: np.interp([0.3, 1.6], places, V)),
        (X, lambda x: np.interp(x, UP, V, left=-5.0, right=6.0)),
        (V, lambda x: np.interp(x, [0.25], [3.0])),
        (V, lambda x: np.interp(x, [0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 3.0, 4.0])),
    ],
    np.correlate: [(V, lambda x, m=m: np.correlate(x, UP[:3], m)) for m in ("valid", "same", "full")]
    + [(V, lambda x, m=m: np.correlate(UP[:2], x, m)) for m in ("valid", "same", "full")]
    + [(Z, lambda z: np.correlate(z, z[:2], "full"))],
    np.convolve: [(V, lambda x, m=m: np.convolve(x, UP[:4], m)) for m in ("valid", "same", "full")]
    + [(V, lambda x, m=m: np.convolve(UP[:2], x, m)) for m in ("valid", "same", "full")]
    + [(np.arange(4), lambda x: np.convolve(x, [1, 2, 3]))],
    np.polyval: [(V, lambda p: np.polyval(p, UP)), (X, lambda x: np.polyval(UP, x))],
    np.vander: [
        (V, lambda x: np.vander(x)),
        (V, lambda x: np.vander(x, 3, increasing=True)),
        (V, lambda x: np.vander(x, 0)),
    ],
    np.polyfit: [
        (V, lambda y: np.polyfit(UP, y, 2)),
        (UP, lambda x: np.polyfit(x, V, 1, w=np.abs(V))),
        (X.T.copy(), lambda y: np.polyfit(UP, y, 1)),
    ],
    np.polymul: [(V, lambda p: np.polymul(p, [0.0, 1.0, 2.0])), (V, lambda p: np.polymul([0.0, 0.0], p))],
    np.polyadd: [(V, lambda p: np.polyadd(p, [1.0, 2.0])), (V, lambda p: np.polyadd([3.0], p))],
    np.polysub: [(V, lambda p: np.polysub([1.0, 2.0], p))],
    np.polyder: [(V, lambda p: np.polyder(p)), (V, lambda p: np.polyder(p, 3)), (V[:2], lambda p: np.polyder(p, 3))],
    np.polyint: [(V, lambda p: np.polyint(p)), (V, lambda p: np.polyint(p, 2))],
    np.linalg.svd: [
        (X, lambda x: np.linalg.svd(x, compute_uv=False)),
        (X, lambda x: np.linalg.svd(x, full_matrices=False)[1]),
    ],
    np.linalg.qr: [(X, lambda x: np.linalg.qr(x, mode="r")), (X, lambda x: np.linalg.qr(x)[1])],
    np.linspace: [
        (V, lambda x: np.linspace(x[0], x[1], 4)),
        (V, lambda x: np.linspace(x, UP, 3, endpoint=False, axis=1)),
        (V, lambda x: np.linspace(x[0], 5.0, 5, retstep=True)),
        (V, lambda x: np.linspace(x[0], x[1], 1)),
    ],
}
CALLS[np.amax], CALLS[np.amin], CALLS[np.around] = CALLS[np.max], CALLS[np.min], CALLS[np.round]

UFUNC_CALLS: dict[Any, list[tuple[Any, Callable[[Any], Any]]]] = {
    np.exp2: [(V, np.exp2), (np.arange(3), np.exp2)],
    np.logaddexp2: [(V, lambda x: np.logaddexp2(x, UP))],
    np.fabs: [(V, np.fabs)],
    np.float_power: [(np.abs(V), lambda x: np.float_power(x, UP)), (np.arange(1, 4), lambda x: np.float_power(x, -2))],
    np.deg2rad: [(V, np.deg2rad)],
    np.radians: [(V, np.radians)],
    np.rad2deg: [(V, np.rad2deg)],
    np.degrees: [(V, np.degrees)],
    np.cbrt: [(V, np.cbrt), (np.array([0.0, -8.0, np.inf, np.nan]), np.cbrt)],
    np.fmax: [(V, lambda x: np.fmax(x, UP)), (HOLES, lambda x: np.fmax(x, 0.2))],
    np.fmin: [(V, lambda x: np.fmin(x, UP)), (HOLES, lambda x: np.fmin(0.2, x))],
    np.fmod: [
        (V, lambda x: np.fmod(x, 1.1)),
        (V * 9.37, lambda x: np.fmod(x, -2 * UP)),
        (np.array([-5, 5]), lambda x: np.fmod(x, 3)),
    ],
    np.heaviside: [
        (np.array([-1.0, 2.0, 3.0]), lambda x: np.heaviside(x, 0.5)),
        (V, lambda h: np.heaviside([0.0, 1.0, -1.0, 0.0, np.nan], h)),
    ],
    np.modf: [(V, np.modf), (np.array([np.inf, -2.5, np.nan]), np.modf)],
    np.subtract: [(V, lambda x: np.subtract.outer(x, X))],
    np.add: [(X, lambda x: np.add.accumulate(x)), (X, lambda x: np.add.accumulate(x, axis=1))],
    np.multiply: [(X, lambda x: np.multiply.accumulate(x, axis=1)), (V, lambda x: np.multiply.outer(UP, x))],
}


def test_every_function_has_a_call() -> None:
    assert set(CALLS) == set(OWN)
    assert set(UFUNCS) <= set(UFUNC_CALLS)


def _flat(found: Any) -> list[Any]:
    return [x for part in found for x in _flat(part)] if isinstance(found, (tuple, list)) else [found]


def _names(function: Any) -> str:
    return str(function.__name__)


@pytest.mark.parametrize("function", CALLS | UFUNC_CALLS, ids=_names)
def test_values_and_gradients(function: Any) -> None:
    for data, call in (CALLS | UFUNC_CALLS)[function]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of NaN and infinities
            expected = _flat(call(data))
        given = wg.asarray(data)
        found = _flat(call(given))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            if isinstance(b, (np.ndarray, np.floating, np.complexfloating)):
                a = np.asarray(a)
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        floats = [i for i, b in enumerate(expected) if np.asarray(b).dtype.kind in "fc" and np.isfinite(b).all()]
        if given.dtype.kind not in "fc" or not np.isfinite(data).all() or not floats:
            continue

        def weighted(x: Any, call: Any = call, floats: list[int] = floats) -> Any:
            total: Any = 0.0
            for i, part in enumerate(_flat(call(x))):
                if i in floats:
                    real = wg.real(part * (1 - 0.5j)) if part.dtype.kind == "c" else part
                    total = total + (real * (1 + wg.arange(part.size, dtype=wg.float64).reshape(part.shape) / 3)).sum()
            return total

        wg.check_grads(weighted, given, order=1)
