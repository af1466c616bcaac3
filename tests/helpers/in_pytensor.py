"""PyTensor's functions in the mode "WENGERT" beside PyTensor's own Python code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import Mode

from wengert.interop.pytensor import Converted

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))
POSITIVE = np.abs(X) + 0.1
SQUARE = RNG.normal(size=(5, 4, 4))
DEFINITE = SQUARE @ np.swapaxes(SQUARE, 1, 2) + 4 * np.eye(4)


def both(build: Callable[..., Any], *values: Any) -> tuple[list[Any], list[Any], Any]:
    """Return the results of the mode, and of PyTensor's Python code; and the mode's function."""
    inputs = [pt.as_tensor(v).type() for v in map(np.asarray, values)]
    outputs = build(*inputs)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    ours = pytensor.function(inputs, outputs, mode="WENGERT", on_unused_input="ignore")
    theirs = pytensor.function(inputs, outputs, mode=Mode("py", "fast_compile"), on_unused_input="ignore")
    return ours(*values), theirs(*values), ours


def check(build: Callable[..., Any], *values: Any, rtol: float = 1e-12, is_compiled: bool = True) -> None:
    found, wanted, function = both(build, *values)
    for a, b in zip(found, wanted, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13)
    if is_compiled:
        converted = function.vm.jit_fn
        assert isinstance(converted, Converted)
        assert not converted._is_dynamic
