"""Rules for ops of PyMC's own: splines, and the test whether a matrix is positive definite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pymc.distributions.continuous import SplineWrapper
from pymc.distributions.multivariate import PosDefMatrix
from scipy.interpolate import PPoly

import wengert as wg

from .convert import NoRuleError, Walk, dtype_of, funcify, tensor

# Larger matrices would be long programs.
_MOST_ROWS = 64
# What FITPACK's splines give outside of their knots.
_ZEROS, _RAISES, _BOUNDARY = 1, 2, 3


@funcify.register(PosDefMatrix)
def _is_positive_definite(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    """Return whether all pivots of elimination are positive; of the lower triangle nothing is read."""

    def run(x: Any) -> Any:
        x = wg.stop_gradient(tensor(x))
        if x.shape[-1] > _MOST_ROWS:
            raise NoRuleError(f"no rule for a test of matrices of more than {_MOST_ROWS} rows")
        rest = wg.triu(x) + wg.matrix_transpose(wg.triu(x, k=1))
        found = wg.asarray(True)
        for _ in range(x.shape[-1]):
            pivot, column = rest[0, 0], rest[1:, 0]
            found = found & (pivot > 0)
            rest = rest[1:, 1:] - wg.expand_dims(column, axis=-1) * (column / pivot)
        return found

    return run


@funcify.register(SplineWrapper)
def _spline(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
    knots, coefficients, degree = op.spline._eval_args
    outside = int(op.spline.ext)
    if outside == _RAISES:
        raise NoRuleError("no rule for a spline that raises outside of its knots")
    pieces = PPoly.from_spline((knots, coefficients, degree))
    wide = np.flatnonzero(np.diff(pieces.x) > 0)
    begins, table = pieces.x[wide], np.ascontiguousarray(pieces.c[:, wide])
    low, high = float(knots[degree]), float(knots[-degree - 1])

    def run(x: Any) -> Any:
        x = tensor(x, np.float64)
        at = wg.clip(x, low, high) if outside == _BOUNDARY else x
        piece = wg.searchsorted(wg.asarray(begins[1:]), wg.stop_gradient(at), side="right")
        away = at - wg.take(wg.asarray(begins), piece)
        value = wg.zeros_like(at)
        for row in table:
            value = value * away + wg.take(wg.asarray(row), piece)
        if outside == _ZEROS:
            value = wg.where((x < low) | (x > high), 0.0, value)
        return tensor(value, dtype_of(node))

    return run
