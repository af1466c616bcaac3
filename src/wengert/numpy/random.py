"""NumPy's own random numbers: `np.random` of :mod:`wengert.numpy`. They are arrays, which tensors take as operands.

Compiled functions begin anew, in Python, where NumPy draws; :mod:`wengert.random` draws inside them.

>>> import wengert.numpy as np
>>> np.random.default_rng(0).normal(size=2).shape
(2,)
"""

from __future__ import annotations

from typing import Any as _Any

import numpy as _numpy

from . import namespace as _namespace


def __getattr__(name: str) -> _Any:
    return _namespace.numpys_own(_numpy.random, name)
