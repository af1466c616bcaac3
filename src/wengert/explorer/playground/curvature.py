"""The curvature of a loss: the largest eigenvalue of its Hessian, from products with it alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.tensor import Tensor, wrap
from ...transforms.jacobians.jacobian import hvp


def sharpness(
    loss: Callable[..., Tensor], at: Sequence[Tensor], *, products: int = 100, tolerance: float = 1e-9
) -> float:
    """Return the Hessian eigenvalue of largest size of `loss(*at)`, by power iteration on Hessian-vector products.

    Gradient descent on a quadratic settles while its step size is below 2/λ; for other losses that is the limit
    near a minimum (Cohen et al., "Gradient descent on neural networks typically occurs at the edge of stability",
    2021, study how training approaches it). The estimate is a Rayleigh quotient, which errs by the square of the
    direction's error. NaN where the loss is not finite there.
    """
    values = [wrap(np.array(p.detach().numpy())) for p in at]
    # No direction is favoured, and the same one is taken every time.
    direction = _unit([np.cos(1.0 + np.arange(v.size, dtype=np.float64)).reshape(v.shape) for v in values])
    found = float("nan")
    for _ in range(products):
        tangents = tuple(wrap(d.astype(v.dtype)) for d, v in zip(direction, values))
        result: Any = hvp(loss, tuple(values), tangents)
        product = [np.asarray(t.numpy(), np.float64) for t in (result if isinstance(result, tuple) else (result,))]
        before, found = found, float(sum(np.vdot(d, p) for d, p in zip(direction, product)))
        if not np.isfinite(found):
            return float("nan")
        if abs(found - before) <= tolerance * abs(found) or not any(p.any() for p in product):
            break
        direction = _unit(product)
    return found


def _unit(vector: list[Array]) -> list[Array]:
    size = float(np.sqrt(sum(np.vdot(v, v) for v in vector)))
    return [np.asarray(v / size) for v in vector]
