"""Elementwise ops: arithmetic."""

from __future__ import annotations

import numpy as np

from ..core.op import Algebra, Linear
from ..core.record import elementwise

add = elementwise(
    "add(x, y)", np.add, partials={"x": Linear(lambda ct: ct), "y": Linear(lambda ct: ct)},
    accepts="numeric", operator="add", doc="x + y.", algebra=Algebra(commutes=True, associates=True, unit=0.0),
)
multiply = elementwise(
    "multiply(x, y)", np.multiply, partials={"x": lambda y: y, "y": lambda x: x},
    accepts="numeric", operator="mul", doc="x times y.",
)
exp = elementwise("exp(x)", np.exp, partials={"x": lambda out: out}, doc="e to the power x.")
