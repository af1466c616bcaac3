"""NumPy's API on tensors: `import wengert.numpy as np` lets a program written for NumPy be differentiated and compiled.

Functions mean what they mean in NumPy 2 (`np.zeros(3)` is float64, `np.std` divides by n, `np.cumsum(x)` goes over all
elements) and give tensors, to which :func:`wengert.grad`, :func:`wengert.jit` and all else apply. Programs written for
`autograd.numpy` change their imports: `import wengert.numpy as np`, `from wengert import grad`. NumPy's own functions
take tensors too (`numpy.sin(x)` is `wg.sin(x)`); this namespace adds what has no tensor among its arguments to ask, as
`np.array([x[0], 2.0])` and `np.zeros(3)`.

What they give is an :class:`ndarray`, a tensor with NumPy's methods and operators: `i / 2` of whole numbers is float64,
`b | c` is `b + c` of booleans, and a write to a slice reaches the array that it was taken from.

What Wengert has no function for is NumPy's own: it computes on the values, and is refused where gradients would be
lost. `random` is NumPy's; in compiled code draw from :mod:`wengert.random`.

>>> import wengert as wg
>>> import wengert.numpy as np
>>> def energy(x):
...     return np.sum(np.diff(x) ** 2) + np.interp(x[0], [0.0, 1.0], [0.0, 3.0])
>>> wg.grad(energy)(np.array([0.5, 1.0, 3.0]))
tensor([ 2., -3.,  4.], dtype=float64)
"""

from __future__ import annotations

from types import ModuleType as _Module
from typing import Any as _Any

import numpy as _numpy

from ..core.state.locks import imported as _imported
from . import namespace as _namespace
from .creation import JOINED as _JOINED
from .creation import MADE as _MADE
from .ndarray import FUNCTIONS as _BY_NAME
from .ndarray import ndarray as ndarray
from .open_sizes import of_open_sizes as _of_open_sizes

_FUNCTIONS = _namespace.functions_of(_numpy) | _MADE
_FUNCTIONS |= _of_open_sizes(_FUNCTIONS)
_BY_NAME.update(_FUNCTIONS)
globals().update(_FUNCTIONS | _JOINED)
_MODULES = frozenset({"fft", "linalg", "random"})


# Devices, dtypes and defaults, as the array API asks for them, are NumPy's.
__array_namespace_info__ = _numpy.__array_namespace_info__


def __getattr__(name: str) -> _Any:
    """Submodules, and what Wengert has no function for: NumPy's own dtypes, constants and functions."""
    if name in _MODULES:
        return _imported(f".{name}", __name__)
    return _namespace.numpys_own(_numpy, name)


def __dir__() -> list[str]:
    return __all__


# Beside functions and submodules NumPy's dtypes, constants and errors.
_OTHERS = {n for n in _numpy.__all__ if not n.startswith("_") and not isinstance(getattr(_numpy, n), _Module)}
__all__ = sorted({*_FUNCTIONS, *_JOINED, *_MODULES, *_OTHERS})
