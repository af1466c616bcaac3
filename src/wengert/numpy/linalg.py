"""NumPy's linear algebra on tensors: `np.linalg` of :mod:`wengert.numpy`.

>>> import wengert.numpy as np
>>> np.linalg.norm(np.array([3.0, 4.0]))
tensor(5., dtype=float64)
"""

from __future__ import annotations

from typing import Any as _Any

import numpy as _numpy

from . import namespace as _namespace

_FUNCTIONS = _namespace.functions_of(_numpy.linalg)
globals().update(_FUNCTIONS)


def __getattr__(name: str) -> _Any:
    return _namespace.numpys_own(_numpy.linalg, name)


__all__ = sorted(_FUNCTIONS)
