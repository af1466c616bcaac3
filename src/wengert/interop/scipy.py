"""SciPy's optimisers and solvers on functions of tensors: results as arrays.

    minimize(arrays(f), x0, jac=arrays(wg.grad(f)), method="L-BFGS-B")

SciPy itself is not needed here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core import tree
from ..core.tensor import Tensor


def arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with its results as NumPy's arrays, and scalars among them as NumPy's scalars.

    Callers written in C, such as SciPy's L-BFGS-B and SLSQP, take arrays alone; others write into what they were given,
    or ask for its type. Results may be any pytrees of tensors.

    Raises GradientError for results that require gradients, which arrays do not carry on.

    >>> import numpy as np
    >>> import wengert as wg
    >>> from wengert.interop.scipy import arrays
    >>> both = arrays(wg.value_and_grad(lambda x: (x**2).sum()))
    >>> both(np.array([1.0, 2.0]))
    (np.float64(5.0), array([2., 4.]))
    """

    @functools.wraps(fn)
    def of_arrays(*args: Any, **named: Any) -> Any:
        return tree.map(_array, fn(*args, **named))

    return of_arrays


def _array(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    # A copy, since SciPy writes into arrays that it has got.
    found = value.numpy().copy()
    return found if found.ndim else found[()]


__all__ = ["arrays"]
