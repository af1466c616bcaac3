"""NumPy's discrete Fourier transforms on tensors: `np.fft` of :mod:`wengert.numpy`.

>>> import wengert.numpy as np
>>> np.fft.rfft(np.ones(4)).real
tensor([4., 0., 0.], dtype=float64)
"""

from __future__ import annotations

from typing import Any as _Any

import numpy as _numpy

from . import namespace as _namespace

_FUNCTIONS = _namespace.functions_of(_numpy.fft)
globals().update(_FUNCTIONS)


def __getattr__(name: str) -> _Any:
    return _namespace.numpys_own(_numpy.fft, name)


__all__ = sorted(_FUNCTIONS)
