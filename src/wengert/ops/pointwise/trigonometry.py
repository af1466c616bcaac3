"""Elementwise ops: trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.ops.costs import DIVISION, TRANSCENDENTAL
from ...core.ops.declare import elementwise
from ...core.ops.facets import Cause, Form, Latex, Nonfinite
from ...core.ops.nonfinite import (
    DOMAIN,
    EDGE,
    EXP,
    always,
    first,
)
from ...core.ops.op import Algebra, Missing, Op
from ...core.ops.sampling import binary, each, unary
from .arithmetic import hypot, reciprocal, rsqrt, sqrt

# -- trigonometry

sin: Op = elementwise(
    "sin(x)",
    np.sin,
    partials={"x": lambda x: cos(x)},
    doc="The sine of an angle in radians.",
    algebra=Algebra(range="[-1, 1]", odd=True, undoes="asin"),
    samples=unary((-3.0, 3.0)),
    reference=each(math.sin),
    onnx="Sin",
    cost=TRANSCENDENTAL,
    form=Form("sin", "sin({0})", local="cos({0})", say="A sine scales what arrives by the *cosine*."),
    latex=Latex(r"\sin"),
    sympy=lambda sp, x: sp.sin(x),
)
cos: Op = elementwise(
    "cos(x)",
    np.cos,
    partials={"x": lambda x: -sin(x)},
    doc="The cosine of an angle in radians.",
    algebra=Algebra(range="[-1, 1]", even=True, at_zero=1.0, undoes="acos"),
    samples=unary((-3.0, 3.0)),
    reference=each(math.cos),
    onnx="Cos",
    cost=TRANSCENDENTAL,
    form=Form("cos", "cos({0})", local="−sin({0})", say="A cosine scales what arrives by minus the *sine*."),
    latex=Latex(r"\cos"),
    sympy=lambda sp, x: sp.cos(x),
)
tan = elementwise(
    "tan(x)",
    np.tan,
    partials={"x": lambda out: 1.0 + out * out},
    doc="The tangent of an angle in radians.",
    algebra=Algebra(odd=True, undoes="atan"),
    samples=unary((-1.2, 1.2)),
    reference=each(math.tan),
    onnx="Tan",
    cost=TRANSCENDENTAL,
    form=Form("tan", "tan({0})", local="1 + {out}²"),
    latex=Latex(r"\tan"),
    sympy=lambda sp, x: sp.tan(x),
    nonfinite=Nonfinite(
        backward=Cause(
            "the slope of tan near its pole overflows", "wg.sin(x) / (wg.cos(x) + eps), or keep x from the pole"
        )
    ),
    autocast="float32",
)


def _asin_partial(x: Any) -> Any:
    """Return 1 / sqrt(1 - x*x), factored: accurate near the ends, and on the right branch in the complex plane."""
    return reciprocal(sqrt(1.0 - x) * sqrt(1.0 + x))


asin = elementwise(
    "asin(x)",
    np.arcsin,
    partials={"x": _asin_partial},
    doc="The angle in [-pi/2, pi/2] whose sine is x.",
    algebra=Algebra(monotone=1, range="[-pi/2, pi/2]", odd=True),
    samples=unary((-0.9, 0.9)),
    reference=each(math.asin),
    onnx="Asin",
    cost=TRANSCENDENTAL,
    form=Form("asin", "asin({0})", local="1 / √(1 − {0}²)"),
    latex=Latex(r"\arcsin"),
    sympy=lambda sp, x: sp.asin(x),
    nonfinite=Nonfinite(
        ((always, Cause("asin beyond 1", DOMAIN)),), backward=Cause("the slope of asin at 1 is infinite", EDGE)
    ),
    autocast="float32",
)
acos = elementwise(
    "acos(x)",
    np.arccos,
    partials={"x": lambda x: -_asin_partial(x)},
    doc="The angle in [0, pi] whose cosine is x.",
    algebra=Algebra(monotone=-1, range="[0, pi]"),
    samples=unary((-0.9, 0.9)),
    reference=each(math.acos),
    onnx="Acos",
    cost=TRANSCENDENTAL,
    form=Form("acos", "acos({0})", local="−1 / √(1 − {0}²)"),
    latex=Latex(r"\arccos"),
    sympy=lambda sp, x: sp.acos(x),
    nonfinite=Nonfinite(
        ((always, Cause("acos beyond 1", DOMAIN)),), backward=Cause("the slope of acos at 1 is infinite", EDGE)
    ),
    autocast="float32",
)
atan = elementwise(
    "atan(x)",
    np.arctan,
    partials={"x": lambda x: reciprocal(1.0 + x * x)},
    doc="The angle in [-pi/2, pi/2] whose tangent is x.",
    algebra=Algebra(monotone=1, range="[-pi/2, pi/2]", odd=True),
    samples=unary((-3.0, 3.0)),
    reference=each(math.atan),
    onnx="Atan",
    cost=TRANSCENDENTAL,
    form=Form("atan", "atan({0})", local="1 / (1 + {0}²)"),
    latex=Latex(r"\arctan"),
    sympy=lambda sp, x: sp.atan(x),
)


def _over_square(x: Any, y: Any) -> Any:
    """Return x / (x*x + y*y) without overflow on the way."""
    radius = hypot(x, y)
    return x / radius / radius


atan2 = elementwise(
    "atan2(y, x)",
    np.arctan2,
    partials={"y": lambda y, x: _over_square(x, y), "x": lambda y, x: -_over_square(y, x)},
    accepts="real_inexact",
    doc="The angle in [-pi, pi] of the point (x, y); the sign of zeros tells sides apart.",
    algebra=Algebra(range="[-pi, pi]"),
    samples=binary((0.2, 2.0), (-2.0, 2.0)),
    reference=each(math.atan2),
    onnx=Missing("ONNX has no operator that knows all four quadrants"),
    cost=TRANSCENDENTAL + DIVISION,
    form=Form("atan2", "atan2({0}, {1})", local="{1} / ({0}² + {1}²)|−{0} / ({0}² + {1}²)"),
    sympy=lambda sp, y, x: sp.atan2(y, x),
    nonfinite=Nonfinite(
        backward=Cause(
            "atan2 at (0, 0) has no derivative", "leave the origin out: wg.where(r > 0, x, 1.0) before atan2"
        )
    ),
)

# -- hyperbolic functions

sinh: Op = elementwise(
    "sinh(x)",
    np.sinh,
    partials={"x": lambda x: cosh(x)},
    doc="The hyperbolic sine.",
    algebra=Algebra(monotone=1, odd=True, undoes="asinh"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.sinh),
    onnx="Sinh",
    cost=TRANSCENDENTAL,
    form=Form("sinh", "sinh({0})", local="cosh({0})"),
    latex=Latex(r"\sinh"),
    sympy=lambda sp, x: sp.sinh(x),
    nonfinite=Nonfinite(((always, Cause("overflow of an exponential", EXP)),)),
    autocast="float32",
)
cosh: Op = elementwise(
    "cosh(x)",
    np.cosh,
    partials={"x": lambda x: sinh(x)},
    doc="The hyperbolic cosine.",
    algebra=Algebra(range="[1, inf)", even=True, at_zero=1.0, undoes="acosh"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.cosh),
    onnx="Cosh",
    cost=TRANSCENDENTAL,
    form=Form("cosh", "cosh({0})", local="sinh({0})"),
    latex=Latex(r"\cosh"),
    sympy=lambda sp, x: sp.cosh(x),
    nonfinite=Nonfinite(((always, Cause("overflow of an exponential", EXP)),)),
    autocast="float32",
)
tanh = elementwise(
    "tanh(x)",
    np.tanh,
    partials={"x": lambda out: 1.0 - out * out},
    doc="The hyperbolic tangent.",
    algebra=Algebra(monotone=1, range="[-1, 1]", odd=True, undoes="atanh"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.tanh),
    onnx="Tanh",
    cost=TRANSCENDENTAL,
    form=Form(
        "tanh",
        "tanh({0})",
        local="1 − {out}²",
        say="A tanh scales what arrives by 1 − tanh²: all of it at 0, almost nothing far from 0.",
    ),
    latex=Latex(r"\tanh"),
    sympy=lambda sp, x: sp.tanh(x),
    activation="saturated",
    zero_gradient="saturated",
)
asinh = elementwise(
    "asinh(x)",
    np.arcsinh,
    # Not the root of 1 + x * x, which leaves the range of half precision from 256 on.
    partials={"x": lambda x: reciprocal(hypot(x, 1.0)) if x.dtype.kind != "c" else rsqrt(1.0 + x * x)},
    doc="The number whose hyperbolic sine is x.",
    algebra=Algebra(monotone=1, odd=True, undoes="sinh"),
    samples=unary((-3.0, 3.0)),
    reference=each(math.asinh),
    onnx="Asinh",
    cost=TRANSCENDENTAL,
    form=Form("asinh", "asinh({0})", local="1 / √({0}² + 1)"),
    sympy=lambda sp, x: sp.asinh(x),
)
acosh = elementwise(
    "acosh(x)",
    np.arccosh,
    partials={"x": lambda x: reciprocal(sqrt(x - 1.0) * sqrt(x + 1.0))},
    doc="The number at least 0 whose hyperbolic cosine is x; NaN below 1.",
    algebra=Algebra(monotone=1, range="[0, inf)"),
    samples=unary((1.2, 3.0)),
    reference=each(math.acosh),
    onnx="Acosh",
    cost=TRANSCENDENTAL,
    form=Form("acosh", "acosh({0})", local="1 / √({0}² − 1)"),
    sympy=lambda sp, x: sp.acosh(x),
    nonfinite=Nonfinite(
        ((first(lambda x: x < 1), Cause("acosh below 1", "wg.clip(x, 1.0, None)")),),
        backward=Cause("the slope of acosh at 1 is infinite", "wg.clip(x, 1.0 + eps, None)"),
    ),
    autocast="float32",
)
atanh = elementwise(
    "atanh(x)",
    np.arctanh,
    partials={"x": lambda x: reciprocal((1.0 - x) * (1.0 + x))},
    doc="The number whose hyperbolic tangent is x.",
    algebra=Algebra(monotone=1, odd=True, undoes="tanh"),
    samples=unary((-0.9, 0.9)),
    reference=each(math.atanh),
    onnx="Atanh",
    cost=TRANSCENDENTAL,
    form=Form("atanh", "atanh({0})", local="1 / (1 − {0}²)"),
    sympy=lambda sp, x: sp.atanh(x),
    nonfinite=Nonfinite(
        ((always, Cause("atanh at or beyond 1", EDGE)),), backward=Cause("the slope of atanh at 1 is infinite", EDGE)
    ),
    autocast="float32",
)
