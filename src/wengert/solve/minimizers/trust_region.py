"""Newton's method in a trust region: conjugate gradients on products with the Hessian (Steihaug 1983)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import sqrt, where
from ...core.tensor import Tensor, wrap
from ..common import directional, largest, loop, stationary
from ..krylov import dot, norm


def newton_trust_region(
    value_of: Callable[[Tensor], Tensor],
    gradient_of: Callable[[Tensor], Tensor],
    v: Tensor,
    tol: float,
    max_steps: int,
) -> tuple[Tensor, Tensor]:
    """Return the minimiser found, and the steps (Nocedal and Wright 2006, algorithms 4.1 and 7.2)."""
    eps = float(np.finfo(v.dtype).eps)

    def going(state: Any) -> Any:
        v, value, gradient, radius, steps = state
        return ~stationary(v, value, gradient, tol) & (radius > 0) & (steps < max_steps)

    def step(state: Any) -> Any:
        v, value, gradient, radius, steps = state
        d, curved = _steihaug(lambda t: directional(gradient_of, v, t), gradient, radius)
        predicted = -(dot(gradient, d) + 0.5 * dot(d, curved))
        after = value_of(v + d)
        # Differences below rounding say nothing: there the model is believed.
        slack = 10 * eps * abs(value)
        ratio = (value - after + slack) / where(predicted + slack > 0, predicted + slack, 1.0)
        ratio = where(after.isfinite(), ratio, -1.0)
        length = norm(d)
        grown = where((ratio > 0.75) & (length > 0.99 * radius), 2 * radius, radius)
        radius = where(ratio < 0.25, 0.25 * length, grown)
        take = ratio > 0.1
        v = where(take, v + d, v)
        radius = where(length <= eps * largest(v), 0.0 * radius, radius)
        return v, where(take, after, value), where(take, gradient_of(v), gradient), radius, steps + 1

    size = norm(v)
    first = where(size > 1, size, 1.0).astype(v.dtype)
    start = (v, value_of(v), gradient_of(v), first, wrap(np.zeros((), np.int64)))
    v, _, _, _, steps = loop(going, step, start)
    return v, steps


def _steihaug(product: Callable[[Tensor], Tensor], gradient: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Return the step within the radius, and the Hessian times it."""
    size = norm(gradient)
    root = sqrt(size)
    target = where(root < 0.5, root, 0.5) * size
    limit = 2 * gradient.shape[0]

    def going(state: Any) -> Any:
        _, _, r, _, done, count = state
        return (norm(r) > target) & ~done & (count < limit)

    def step(state: Any) -> Any:
        z, curved, r, d, _, count = state
        hd = product(d)
        bend = dot(d, hd)
        square = dot(r, r)
        alpha = square / where(bend > 0, bend, 1.0)
        further = z + alpha * d
        outside = ~(bend > 0) | (norm(further) >= radius)
        # To the border, where the curvature is negative or the step would leave the region.
        a, b, c = dot(d, d), dot(z, d), dot(z, z) - radius * radius
        inside = b * b - a * c
        tau = (-b + sqrt(where(inside > 0, inside, 0.0))) / where(a > 0, a, 1.0)
        alpha = where(outside, tau, alpha)
        r_after = r + alpha * hd
        d_after = -r_after + dot(r_after, r_after) / where(square > 0, square, 1.0) * d
        return z + alpha * d, curved + alpha * hd, r_after, d_after, outside, count + 1

    zero = 0 * gradient
    begin = (zero, zero, gradient, -gradient, wrap(np.zeros((), bool)), wrap(np.zeros((), np.int64)))
    z, curved, *_ = loop(going, step, begin)
    return z, curved
