"""Linear algebra and Fourier transforms in XLA.

What LAPACK refuses shows in a result that is not finite: the interpreter then decides, and raises what it raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.graph.snapshot import specs_of
from ....core.node import Node
from ....ops.linalg.determinants import cofactors_of_diagonal, taken_out
from ....ops.linalg.functions import PADE, PADE_NORM
from ....ops.linalg.solve import cutoff
from ..api import jax, jfft, jnp, lax
from ..rules import Trace, dtype_of, lowers, narrow, shape_of, wide


def _found(t: Trace, node: Node, *results: Any) -> Any:
    """Return results in the dtypes of the node, of which numbers that are not finite are looked into."""
    out = []
    for x, s in zip(results, specs_of(node), strict=True):
        if x.dtype.kind in "fc":
            t.check(~jnp.isfinite(x))
        out.append(narrow(x, s.dtype))
    return tuple(out) if isinstance(node.spec, tuple) else out[0]


def _nothing(node: Node) -> Any:
    """Return results without elements."""
    out = tuple(jnp.zeros(s.shape, s.dtype) for s in specs_of(node))
    return out if isinstance(node.spec, tuple) else out[0]


def _is_empty(node: Node, *args: Any) -> bool:
    return not all(x.size for x in args) and not any(s.size for s in specs_of(node))


def _hermitian(x: Any) -> Any:
    return (x + _adjoint(x)) * np.asarray(0.5, x.dtype)


def _adjoint(x: Any) -> Any:
    x = jnp.swapaxes(x, -1, -2)
    return lax.conj(x) if x.dtype.kind == "c" else x


def _product(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, precision=lax.Precision.HIGHEST)


@lowers("solve")
def _solve(t: Trace, node: Node, a: Any, b: Any) -> Any:
    if _is_empty(node, a, b):
        return _nothing(node)
    return _found(t, node, jnp.linalg.solve(wide(a), wide(b)))


@lowers("inv")
def _inv(t: Trace, node: Node, x: Any) -> Any:
    return _nothing(node) if _is_empty(node, x) else _found(t, node, jnp.linalg.inv(wide(x)))


@lowers("solve_triangular")
def _solve_triangular(t: Trace, node: Node, a: Any, b: Any) -> Any:
    if _is_empty(node, a, b):
        return _nothing(node)
    upper, unit = node.attrs["upper"], node.attrs["unit"]
    found = lax.linalg.triangular_solve(wide(a), wide(b), left_side=True, lower=not upper, unit_diagonal=unit)
    return _found(t, node, found)


@lowers("cholesky")
def _cholesky(t: Trace, node: Node, x: Any) -> Any:
    if _is_empty(node, x):
        return _nothing(node)
    return _found(t, node, lax.linalg.cholesky(_hermitian(wide(x)), symmetrize_input=False))


@lowers("qr")
def _qr(t: Trace, node: Node, x: Any) -> Any:
    mode = "complete" if node.attrs["complete"] else "reduced"
    return _nothing(node) if not x.size else _found(t, node, *jnp.linalg.qr(wide(x), mode=mode))


@lowers("geqrf")
def _geqrf(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return _nothing(node)
    packed, scales = jnp.linalg.qr(wide(x), mode="raw")
    return _found(t, node, jnp.swapaxes(packed, -1, -2), scales)


@lowers("lu")
def _lu(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return _nothing(node)
    packed, pivots, _ = lax.linalg.lu(wide(x))
    return _found(t, node, packed, pivots + 1)


@lowers("pivoted_rows")
def _pivoted_rows(t: Trace, node: Node, indices: Any) -> Any:
    rows = node.attrs["rows"]
    return narrow(lax.linalg.lu_pivots_to_permutation(narrow(indices, np.dtype(np.int32)) - 1, rows), dtype_of(node))


@lowers("eigh")
def _eigh(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return _nothing(node)
    vectors, values = lax.linalg.eigh(_hermitian(wide(x)), symmetrize_input=False)
    return _found(t, node, values, vectors)


@lowers("eigvalsh")
def _eigvalsh(t: Trace, node: Node, x: Any) -> Any:
    return _nothing(node) if not x.size else _found(t, node, jnp.linalg.eigvalsh(_hermitian(wide(x))))


@lowers("eig")
def _eig(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return _nothing(node)
    if jax.default_backend() == "tpu":
        raise NotImplementedError("XLA has the eigenvalues of general matrices on processors and GPUs alone")
    return _found(t, node, *lax.linalg.eig(wide(x), compute_left_eigenvectors=False))


@lowers("svd")
def _svd(t: Trace, node: Node, x: Any) -> Any:
    if not x.size and not node.attrs["full"]:
        return _nothing(node)
    return _found(t, node, *jnp.linalg.svd(wide(x), full_matrices=node.attrs["full"]))


@lowers("svdvals")
def _svdvals(t: Trace, node: Node, x: Any) -> Any:
    return _nothing(node) if not x.size else _found(t, node, jnp.linalg.svd(wide(x), compute_uv=False))


def _inverted(x: Any, rtol: float | None) -> tuple[Any, Any, Any]:
    """Return both sides of a singular value decomposition, adjoint, and the inverse of those values that are not 0."""
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    kept = s > np.asarray(cutoff(rtol, x.shape, np.dtype(x.dtype)), s.dtype) * jnp.max(
        s, axis=-1, initial=0, keepdims=True
    )
    return _adjoint(u), jnp.where(kept, 1 / jnp.where(kept, s, 1), 0), _adjoint(vh)


@lowers("pinv")
def _pinv(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return jnp.zeros(shape_of(node), dtype_of(node))
    uh, inverse, v = _inverted(wide(x), node.attrs["rtol"])
    return _found(t, node, _product(v * inverse[..., None, :], uh))


@lowers("lstsq")
def _lstsq(t: Trace, node: Node, a: Any, b: Any) -> Any:
    if not a.size:
        return jnp.zeros(shape_of(node), dtype_of(node))
    uh, inverse, v = _inverted(wide(a), node.attrs["rtol"])
    return _found(t, node, _product(v, inverse[..., None] * _product(uh, wide(b))))


@lowers("det")
def _det(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return jnp.ones(shape_of(node), dtype_of(node))
    return narrow(jnp.linalg.det(wide(x)) if x.shape[-1] > 3 else _det_by_lu(wide(x)), dtype_of(node))


def _det_by_lu(x: Any) -> Any:
    """Return the determinant by elimination with pivots, as LAPACK has it."""
    packed, pivots, _ = lax.linalg.lu(x)
    swaps = jnp.sum(pivots != np.arange(x.shape[-1]), axis=-1)
    return jnp.prod(jnp.diagonal(packed, 0, -2, -1), axis=-1) * jnp.where(swaps % 2 == 1, -1, 1).astype(x.dtype)


@lowers("slogdet")
def _slogdet(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        sign, value = specs_of(node)
        return jnp.ones(sign.shape, sign.dtype), jnp.zeros(value.shape, value.dtype)
    found = jnp.linalg.slogdet(wide(x))
    return tuple(narrow(v, s.dtype) for v, s in zip(found, specs_of(node), strict=True))


@lowers("adjugate")
def _adjugate(t: Trace, node: Node, x: Any) -> Any:
    if not x.size:
        return _nothing(node)
    u, s, vh = jnp.linalg.svd(wide(x), full_matrices=False)
    phase = _phase(u, vh)
    # Of each the product of the others, without dividing by what may be 0.
    n = s.shape[-1]
    rest = jnp.where(np.eye(n, dtype=bool), 1, s[..., None, :])
    others = jnp.prod(rest.astype(np.float64), axis=-1).astype(s.dtype)
    out = _product(_adjoint(vh) * others[..., None, :], _adjoint(u))
    return _found(t, node, phase[..., None, None] * out)


def _phase(u: Any, vh: Any) -> Any:
    turned = _product(u, vh)
    return jnp.linalg.det(turned) if turned.shape[-1] > 3 else _det_by_lu(turned)


@lowers("cofactors_along")
def _cofactors_along(t: Trace, node: Node, x: Any, h: Any, e: Any) -> Any:
    x, h = wide(x), jnp.concatenate([wide(h), wide(e)[..., None, :, :]], -3)
    order = h.shape[-3]
    if not x.size or order >= x.shape[-1]:
        return _nothing(node)
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    directions = [_product(_product(_adjoint(u), h[..., i, :, :]), _adjoint(vh)) for i in range(order)]
    relative, factors = taken_out(s, order, jnp)
    found = cofactors_of_diagonal(relative, directions, _product, jnp.concatenate)
    scale = _phase(u, vh) * jnp.prod(factors.astype(np.float64), axis=-1).astype(s.dtype)
    return _found(t, node, scale[..., None, None] * _product(jnp.conj(u), _product(found, jnp.conj(vh))))


@lowers("expm")
def _expm(t: Trace, node: Node, x: Any) -> Any:
    return _nothing(node) if not x.size else _found(t, node, _exponential(wide(x)))


@lowers("expm_frechet")
def _expm_frechet(t: Trace, node: Node, x: Any, e: Any) -> Any:
    if not x.size:
        return _nothing(node)
    x, e = wide(x), wide(e)
    n = x.shape[-1]
    blocks = jnp.concatenate([jnp.concatenate([x, e], -1), jnp.concatenate([jnp.zeros_like(x), x], -1)], -2)
    return _found(t, node, _exponential(blocks)[..., :n, n:])


def _exponential(x: Any) -> Any:
    """Return the exponential by scaling and squaring (Higham 2005), each matrix as often as its norm asks."""
    size = jnp.max(jnp.sum(jnp.abs(x), -2), -1)
    squarings = jnp.maximum(jnp.ceil(jnp.log2(jnp.maximum(size, 1e-30) / PADE_NORM)), 0)
    squarings = jnp.where(jnp.isfinite(squarings), squarings, 0)
    x = x * (0.5**squarings).astype(size.dtype)[..., None, None]
    b, one = [np.asarray(c, x.dtype) for c in PADE], jnp.eye(x.shape[-1], dtype=x.dtype)
    x2 = _product(x, x)
    x4 = _product(x2, x2)
    x6 = _product(x4, x2)
    odd = _product(x6, b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * one
    odd = _product(x, odd)
    even = _product(x6, b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * one
    out = jnp.linalg.solve(even - odd, even + odd)

    def step(k: Any, out: Any) -> Any:
        return jnp.where((squarings > k)[..., None, None], _product(out, out), out)

    return lax.fori_loop(0, jnp.max(squarings).astype(np.int32), step, out)


# -- Fourier transforms


@lowers("fft", "ifft")
def _fft(t: Trace, node: Node, x: Any) -> Any:
    fn = jfft.fftn if node.op.name == "fft" else jfft.ifftn
    return _transformed(
        node, x, lambda x: fn(narrow(x, dtype_of(node)), axes=node.attrs["axes"], norm=node.attrs["norm"])
    )


@lowers("rfft")
def _rfft(t: Trace, node: Node, x: Any) -> Any:
    return _transformed(node, x, lambda x: jfft.rfft(wide(x), axis=node.attrs["axis"], norm=node.attrs["norm"]))


@lowers("irfft")
def _irfft(t: Trace, node: Node, x: Any) -> Any:
    a = node.attrs
    return _transformed(node, x, lambda x: jfft.irfft(x, a["size"], axis=a["axis"], norm=a["norm"]))


def _transformed(node: Node, x: Any, fn: Any) -> Any:
    return narrow(fn(x), dtype_of(node)) if x.size else jnp.zeros(shape_of(node), dtype_of(node))
