"""The functions x log(y) and x log(1 + y) as one op each: 0 where x is, with the right derivative there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.ops.costs import TRANSCENDENTAL
from ...core.ops.declare import elementwise
from ...core.ops.facets import Cause, Form, Nonfinite
from ...core.ops.nonfinite import BOUNDARY, LOG, first, real_part, second
from ...core.ops.op import Call, Missing, Op
from ...core.ops.record import SCALARS
from ...core.ops.sampling import binary, each, unary
from .arithmetic import log, log1p
from .selection import where

_NO_ONNX = Missing("ONNX writes it with Where, Mul and Log")


def _zero_with(log_of: Any) -> Any:
    def forward(x: Any, y: Any) -> Any:
        if type(y) in SCALARS:  # of a Python number NumPy's logarithm is in double precision
            y = np.asarray(y, x.dtype)
        with np.errstate(all="ignore"):
            product = x * log_of(y)
            return np.where((x == 0) & ~np.isnan(y), product.dtype.type(0), product)

    return forward


def _samples(rng: Any) -> list[Call]:
    return [*binary((-2.0, 2.0), (0.3, 3.0), order=3)(rng), Call((np.zeros(2), np.array([0.5, 2.0])), order=2)]


xlogy: Op = elementwise(
    "xlogy(x, y)",
    _zero_with(np.log),
    partials={
        "x": lambda y: log(y),
        "y": lambda x, y: where((x == 0.0) & (y == 0.0), 0.0, x / y),
    },
    accepts="real_inexact",
    doc="x log(y), 0 where x is 0 and y a number.",
    public="",
    samples=_samples,
    reference="scipy.special.xlogy",
    onnx=_NO_ONNX,
    cost=TRANSCENDENTAL + 1,
    form=Form("x ln y", "{0} · ln {1}", binds="product", local="ln {1}|{0} / {1}"),
    sympy=lambda sp, x, y: x * sp.log(y),
    nonfinite=Nonfinite(
        (
            (second(lambda y: y == 0), Cause("a factor other than 0 times the logarithm of 0", BOUNDARY)),
            (second(lambda y: real_part(y) < 0), Cause("the logarithm of a negative number", LOG)),
        ),
        backward=Cause("the slope of x log(y) where y is 0 is infinite", BOUNDARY),
    ),
    autocast="float32",
)
xlog1py: Op = elementwise(
    "xlog1py(x, y)",
    _zero_with(np.log1p),
    partials={
        "x": lambda y: log1p(y),
        "y": lambda x, y: where((x == 0.0) & (y == -1.0), 0.0, x / (1.0 + y)),
    },
    accepts="real_inexact",
    doc="x log(1 + y), 0 where x is 0 and y a number.",
    public="",
    samples=_samples,
    reference="scipy.special.xlog1py",
    onnx=_NO_ONNX,
    cost=TRANSCENDENTAL + 1,
    form=Form("x ln 1+y", "{0} · ln(1 + {1})", binds="product", local="ln(1 + {1})|{0} / (1 + {1})"),
    sympy=lambda sp, x, y: x * sp.log(1 + y),
    nonfinite=Nonfinite(
        (
            (second(lambda y: y == -1), Cause("a factor other than 0 times the logarithm of 0, log1p(-1)", BOUNDARY)),
            (second(lambda y: real_part(y) < -1), Cause("log1p below -1, the logarithm of a negative number", LOG)),
        ),
        backward=Cause("the slope of x log1p(y) where y is -1 is infinite", BOUNDARY),
    ),
    autocast="float32",
)

xlogx: Op = elementwise(
    "xlogx(x)",
    lambda x: xlogy.forward(x, x),
    partials={"x": lambda x: 1.0 + log(x)},
    accepts="real_inexact",
    doc="x log(x), 0 where x is 0.",
    public="",
    samples=unary((0.3, 3.0)),
    reference=each(lambda x: x * math.log(x)),
    onnx=_NO_ONNX,
    formulas=("xlogy(x, x)",),
    cost=TRANSCENDENTAL + 1,
    form=Form("x ln x", "{0} · ln {0}", binds="product", local="1 + ln {0}"),
    sympy=lambda sp, x: x * sp.log(x),
    nonfinite=Nonfinite(
        ((first(lambda x: real_part(x) < 0), Cause("the logarithm of a negative number", LOG)),),
        backward=Cause("the slope of x log(x) at 0 is infinite", BOUNDARY),
    ),
    autocast="float32",
)
