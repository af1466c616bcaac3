"""The native mathematical functions, all in one place: `exp(b, x)` writes e**x into the builder's code.

Arguments and results are float32 or float64 values, scalars or vectors. Errors are about 2 units in
the last place; NaN, infinities, zeros' signs, overflow and denormal results are as in C.
"""

from __future__ import annotations

from .base import ceil, copysign, fabs, floor, rint, sqrt, trunc
from .bessel import i0e, i1e
from .division import floor_divide, fmod, int_divide, remainder
from .exp import cosh, exp, exp2, exp_normal, expm1, sigmoid, sinh, tanh
from .gamma import digamma, lgamma
from .incomplete import betainc, betainc_slope, betaln, gamma_ratio, gammainc, gammaincc, polygamma
from .log import acosh, asinh, atanh, log, log1p, log2, log10, logaddexp
from .pow import hypot, pow
from .special import erf, erfc, erfinv, log_ndtr, ndtr, ndtri
from .trig import acos, asin, atan, atan2, cos, sin, tan

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "betainc", "betainc_slope", "betaln", "ceil",
    "copysign", "cos", "cosh", "digamma", "erf", "erfc", "erfinv", "exp", "exp2", "exp_normal", "expm1", "fabs",
    "floor", "floor_divide", "fmod", "gamma_ratio", "gammainc", "gammaincc", "hypot", "i0e", "i1e", "int_divide",
    "lgamma", "log", "log10", "log1p", "log2", "log_ndtr", "logaddexp", "ndtr", "ndtri", "polygamma", "pow",
    "remainder", "rint", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
