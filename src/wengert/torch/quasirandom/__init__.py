"""`torch.quasirandom`: points of Sobol's sequence, by SciPy, which has PyTorch's direction numbers.

What is not scrambled is PyTorch's to the last bit; scrambled points are of another stream of random numbers.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...core.spec import default_float
from ..namespace import FUNCTIONS, as_torch
from ..random import default_generator


class SobolEngine:
    """A generator of Sobol's points in the unit cube. Raises ValueError for more than `MAXDIM` axes.

    Parameters
    ----------
    dimension: how many numbers a point has.
    scramble: shuffle the points by random digits, those of `seed` or of torch's generator.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], not {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        if scramble and seed is None:
            seed = int(FUNCTIONS["randint"](0, 2**31 - 1, (), generator=default_generator))
        self._seed = seed
        self.reset()

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """Return the next `n` points, of shape (n, dimension)."""
        with warnings.catch_warnings(action="ignore"):  # SciPy asks for powers of 2
            made = self._points.random(n)
        self.num_generated += n
        found = as_torch(FUNCTIONS["tensor"](np.asarray(made), dtype=dtype or default_float()))
        return found if out is None else out.resize_(found.shape).copy_(found)

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """Return the next 2**m points. Raises ValueError where as many do not make a balanced set."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(f"{self.num_generated} points and 2**{m} more are {total}, which is no power of 2")
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Begin anew with the first point."""
        from scipy.stats import qmc

        self._points = qmc.Sobol(self.dimension, scramble=self.scramble, bits=self.MAXBIT, rng=self._seed)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave `n` points out."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        shown = [f"dimension={self.dimension}"]
        shown += ["scramble=True"] * self.scramble + [f"seed={self.seed}"] * (self.seed is not None)
        return f"{type(self).__name__}({', '.join(shown)})"


__all__ = ["SobolEngine"]


def __dir__() -> list[str]:
    return sorted(__all__)
