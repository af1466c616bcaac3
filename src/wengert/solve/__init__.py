"""Solvers as nodes: `wg.solve`, with derivatives of the solution, not of the steps.

>>> import wengert as wg
>>> wg.grad(lambda a: wg.solve.root(lambda x: x**2 - a, 1.0))(9.0)
tensor(0.1667)
"""

from __future__ import annotations

from .common import ConvergenceError, SolveInfo
from .fixed_point import fixed_point
from .linear import linear_solve
from .minimizers.minimize import minimize
from .ode.events import Event
from .ode.odeint import Interpolation, OdeInfo, Solution, odeint
from .root import root

__all__ = [
    "Event",
    "Interpolation",
    "OdeInfo",
    "Solution",
    "odeint",
    "ConvergenceError",
    "SolveInfo",
    "fixed_point",
    "linear_solve",
    "minimize",
    "root",
]


def __dir__() -> list[str]:
    return sorted(__all__)
