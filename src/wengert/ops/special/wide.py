"""The common parts of forwards that compute in float64: blocks, pieces, factors accurate where they cancel.

Formulas without choices of elements take `xp`, the namespace of their arrays' functions: NumPy's, JAX's where XLA runs
them, or that of numbers in native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...core.arrays import in_order_of

Array = np.ndarray[Any, Any]

_BLOCK = 4096


def in_float64(fn: Callable[..., Array], block: int = _BLOCK) -> Callable[..., Any]:
    """Return `fn` of float64 vectors of one length as a forward of arrays that broadcast, of one floating dtype."""

    def forward(*args: Any, **attrs: Any) -> Any:
        dtype = next(a.dtype for a in args if hasattr(a, "dtype"))
        arrays = np.broadcast_arrays(*args)
        shape = arrays[0].shape
        flat = [a.reshape(-1) for a in arrays]
        out = np.empty(flat[0].shape, dtype)
        with np.errstate(all="ignore"):
            for start in range(0, out.size, block):
                parts = [a[start : start + block].astype(np.float64) for a in flat]
                out[start : start + block] = fn(*parts, **attrs)
        return in_order_of(out.reshape(shape), args)

    return forward


def choose(args: tuple[Array, ...], *pieces: tuple[Any, Callable[..., Array]]) -> Array:
    """Return each piece's function where its mask is the first to hold, NaN where none does."""
    out = np.full_like(args[0], np.nan)
    left = np.ones(out.shape, np.bool_)
    for mask, fn in pieces:
        here = left & mask
        if here.any():
            out[here] = fn(*(a[here] for a in args))
            left &= ~here
    return out


def horner(t: Any, coefficients: Sequence[float], xp: Any = np) -> Any:
    """Return a polynomial's value by Horner's rule, the constant coefficient first."""
    out = xp.full_like(t, coefficients[-1])
    for c in coefficients[-2::-1]:
        out *= t
        out += c
    return out


INVERSE_FACTORIALS = tuple(1.0 / f for f in np.cumprod(np.arange(2.0, 22.0)).tolist())
INVERSE_ODD = tuple(1.0 / (2 * k + 3) for k in range(16))


def exp_remainder(u: Any, xp: Any = np) -> Any:
    """Return exp(u) - 1 - u, accurate where it is small."""
    near = xp.clip(u, -1.0, 1.0)
    return xp.where(xp.abs(u) < 1.0, near * near * horner(near, INVERSE_FACTORIALS, xp), xp.expm1(u) - u)


def log_remainder(u: Any, xp: Any = np) -> Any:
    """Return log(1 + u) - u, accurate where it is small: twice the series of artanh at u / (2 + u)."""
    near = xp.clip(u, -0.5, 0.5)
    t = near / (2.0 + near)
    series = 2.0 * t**3 * horner(t * t, INVERSE_ODD, xp) - near * t
    return xp.where(xp.abs(u) < 0.5, series, xp.log1p(u) - u)


def summed(columns: Sequence[Array], terms: Callable[..., Sequence[Any]], like: Any, xp: Any = np) -> list[Any]:
    """Return the sums over the nodes of a quadrature rule, whose data are columns, of each of the terms at a node.

    NumPy, which keeps what it computes, has all nodes at once for few numbers `like` the result; XLA for any. Native
    code has loops of its own.
    """
    if xp is not np and (loop := getattr(xp, "summed", None)):
        return list(loop(columns, terms))
    nodes = len(columns[0])
    step = max(1, _BLOCK // max(1, like.size)) if xp is np else nodes
    totals: list[Any] = []
    for start in range(0, nodes, step):
        found = [t.sum(axis=0) for t in terms(*(c[start : start + step, None] for c in columns))]
        totals = [total + t for total, t in zip(totals, found, strict=True)] if totals else found
    return totals


@cache
def gauss_legendre(count: int) -> tuple[Array, Array]:
    """Return the nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0
