"""Symbolic derivatives, and graphs as expressions that a person can read.

>>> import wengert as wg
>>> d = wg.symbolic.derivative(lambda x: wg.sin(x) * wg.exp(-x ** 2))
>>> wg.symbolic.text(d)
'exp(-x**2)*(cos(x) - 2*x*sin(x))'
>>> d(0.0)
tensor(1., dtype=float64)
"""

from __future__ import annotations

from .bridge import from_sympy, to_sympy
from .compare import Verdict, equal
from .derivatives import derivative, gradient, hessian, jacobian, simplify
from .parsing import parse
from .printing import latex, text

__all__ = [
    "Verdict",
    "derivative",
    "equal",
    "from_sympy",
    "gradient",
    "hessian",
    "jacobian",
    "latex",
    "parse",
    "simplify",
    "text",
    "to_sympy",
]


def __dir__() -> list[str]:
    return sorted(__all__)
