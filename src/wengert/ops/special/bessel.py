"""Modified Bessel functions of the first kind, orders 0 and 1: plain, and times exp(-|x|)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.ops.declare import composite, elementwise
from ...core.ops.op import Algebra, Call, Missing, NoDerivative, Op, Partial
from ...core.ops.sampling import unary
from ..pointwise.arithmetic import exp, sqrt
from ..pointwise.selection import abs, sign, where_op
from ..reduce.common import running_dtype
from ..structure.shapes import cast, casted
from .wide import Array, choose, horner, in_float64

_NO_ONNX = Missing("ONNX has no such operator")

# -- times exp(-|x|)

_SERIES_TERMS = 60


def _power_series(order: int) -> tuple[float, ...]:
    """Return the coefficients 1 / (k! (k + order)!) in x*x / 4, all positive."""
    return tuple(1.0 / (math.factorial(k) * math.factorial(k + order)) for k in range(_SERIES_TERMS))


def _hankel(order: int) -> tuple[float, ...]:
    """Return the coefficients of the asymptotic series in 1 / x (DLMF 10.40.1)."""
    out = [1.0]
    for k in range(1, 25):
        out.append(out[-1] * -(4.0 * order**2 - (2 * k - 1) ** 2) / (8.0 * k))
    return tuple(out)


I0, I1, I0_FAR, I1_FAR = _power_series(0), _power_series(1), _hankel(0), _hankel(1)


def _i0e(x: Array) -> Array:
    x = np.abs(x)
    return choose(
        (x,),
        (x < 30.0, lambda x: horner(0.25 * x * x, I0) * np.exp(-x)),
        (x >= 30.0, lambda x: horner(1.0 / x, I0_FAR) / np.sqrt(2.0 * math.pi * x)),
    )


def _i1e(x: Array) -> Array:
    size = np.abs(x)
    value = choose(
        (size,),
        (size < 30.0, lambda x: 0.5 * x * horner(0.25 * x * x, I1) * np.exp(-x)),
        (size >= 30.0, lambda x: horner(1.0 / x, I1_FAR) / np.sqrt(2.0 * math.pi * x)),
    )
    return np.copysign(value, x)


# Of the derivatives where the series in 1 / x holds: what the differences of the functions there leave is rounding.
_SLOPE_TERMS = 17
_I0_SLOPE, _I1_SLOPE = (tuple((0.5 + k) * c for k, c in enumerate(far[:_SLOPE_TERMS])) for far in (I0_FAR, I1_FAR))


def _slope_far(size: Any, coefficients: tuple[float, ...]) -> Any:
    over = 1.0 / size
    total = coefficients[-1] * over
    for c in coefficients[-2:0:-1]:
        total = (total + c) * over
    return -(total + coefficients[0]) * over / sqrt(2.0 * math.pi * size)


def _slope_in_single(slope: Any) -> Any:
    """Return a slope, of half precision in float32: the powers in it leave the range."""

    def run(x: Any, out: Any) -> Any:
        wide = running_dtype(x.dtype)
        if wide == x.dtype:
            return slope(x, out)
        return cast(slope(cast(x, dtype=wide), cast(out, dtype=wide)), dtype=x.dtype)

    return run


@_slope_in_single
def _i0e_slope(x: Any, out: Any) -> Any:
    far = abs(x) >= 30.0
    near = where_op(far, 0.0, x)
    distant = sign(x) * _slope_far(where_op(far, abs(x), 30.0), _I0_SLOPE)
    return where_op(far, distant, i1e_op(near) - sign(near) * out)


@_slope_in_single
def _i1e_slope(x: Any, out: Any) -> Any:
    far = abs(x) >= 30.0
    near = where_op(far, 0.0, x)
    over_x = i1e_ratio_op(near, where_op(far, 0.0, out))
    distant = _slope_far(where_op(far, abs(x), 30.0), _I1_SLOPE)
    return where_op(far, distant, i0e_op(near) - sign(near) * out - over_x)


i0e_op: Op = elementwise(
    "i0e(x)",
    in_float64(_i0e),
    partials={"x": _i0e_slope},
    accepts="real_inexact",
    doc="exp(-|x|) times the modified Bessel function of order 0.",
    public="",
    algebra=Algebra(even=True, range="(0, 1]"),
    samples=unary((0.5, 8.0), (-8.0, -0.5), (30.0, 80.0)),
    reference="scipy.special.i0e",
    onnx=_NO_ONNX,
    source="DLMF 10.25.2, 10.40.1",
    sympy=lambda sp, x: sp.exp(-sp.Abs(x)) * sp.besseli(0, x),
    autocast="float32",
)
i1e_op: Op = elementwise(
    "i1e(x)",
    in_float64(_i1e),
    partials={"x": _i1e_slope},
    accepts="real_inexact",
    doc="exp(-|x|) times the modified Bessel function of order 1.",
    public="",
    algebra=Algebra(odd=True, range="(-1, 1)"),
    samples=unary((0.5, 8.0), (-8.0, -0.5), (30.0, 80.0)),
    reference="scipy.special.i1e",
    onnx=_NO_ONNX,
    source="DLMF 10.25.2, 10.40.1",
    sympy=lambda sp, x: sp.exp(-sp.Abs(x)) * sp.besseli(1, x),
    autocast="float32",
)


# -- plain: I_n(x) / x**n is a power series in x*x, so that all its derivatives, x I_(n+1)(x) / x**(n+1), are smooth


def _over_power_near(x: Any, n: int) -> Any:
    """Return I_n(x) / x**n by its power series, whose terms are positive."""
    square = 0.25 * x * x
    coefficients = [0.5**n * c for c in _power_series(n)]
    total = coefficients[-1] * square
    for c in coefficients[-2:0:-1]:
        total = (total + c) * square
    return total + coefficients[0]


def _over_power_far(size: Any, n: int) -> Any:
    """Return I_n(x) / x**n of |x| by the asymptotic series."""
    over = 1.0 / size
    series = _hankel(n)
    total = series[-1] * over
    for c in series[-2:0:-1]:
        total = (total + c) * over
    return (total + series[0]) * exp(size) / sqrt(2.0 * math.pi * size) * over**n


def _over_power(x: Any, n: int) -> Any:
    if n < 2:
        size = exp(abs(x))
        if n == 0:
            return i0e_op(x) * size
        at_zero = x == 0.0
        return where_op(at_zero, 0.5, i1e_op(x) * size / where_op(at_zero, 1.0, x))
    far = abs(x) >= 30.0
    return where_op(far, _over_power_far(where_op(far, abs(x), 30.0), n), _over_power_near(where_op(far, 0.0, x), n))


def _in_wider(formula: Any) -> Any:
    """Return a formula of tensors that computes half precision in float32: the exponential leaves the range."""

    def run(x: Any, **attrs: Any) -> Any:
        wide = running_dtype(x.dtype)
        return formula(x, **attrs) if wide == x.dtype else casted(formula(casted(x, wide), **attrs), x.dtype)

    return run


def _with_values(rng: Any) -> list[Call]:
    return [Call((c.args[0], i1e_op.forward(c.args[0])), order=0) for c in unary((0.5, 8.0), (-8.0, -0.5))(rng)]


def _by_integral(x: Any, n: int) -> Any:
    """Return I_n(x) / x**n by Poisson's integral (DLMF 10.32.2), with the quadrature of Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(80)
    angles = 0.5 * math.pi * (nodes + 1.0)
    scale = 0.5 * math.pi / (math.prod(range(1, 2 * n, 2)) * math.pi)
    return (np.exp(x[..., None] * np.cos(angles)) * np.sin(angles) ** (2 * n) * weights).sum(-1) * scale


i1e_ratio_op: Op = composite(
    "i1e_ratio(x, value)",
    accepts="real_inexact",
    forward=lambda x, value: np.where(x == 0, x.dtype.type(0.5), value / np.where(x == 0, x.dtype.type(1), x)),
    facts={
        "x": Partial(lambda x, out: exp(-abs(x)) * x * bessel_ratio_op(x, n=2) - sign(x) * out),
        "value": NoDerivative("it follows from x"),
    },
    doc="The value of i1e at x over x, which is 1/2 at 0. Its derivative in x has all digits near 0.",
    layout="(),()->()",
    samples=_with_values,
    reference=lambda x, value: np.vectorize(lambda a, b: b / a)(x, value),
    onnx=_NO_ONNX,
    autocast="float32",
)(lambda x, value: where_op.front(x == 0, 0.5, value / where_op.front(x == 0, 1.0, x)))
bessel_ratio_op: Op = composite(
    "bessel_ratio(x; n: order)",
    accepts="real_inexact",
    forward=in_float64(_over_power),
    facts={"x": Partial(lambda x, n: x * bessel_ratio_op(x, n=n + 1))},
    doc="The modified Bessel function of order n over the n-th power of its argument.",
    layout="()->()",
    samples=lambda rng: [
        Call(call.args, {"n": n}, order=2) for n in (0, 1, 2) for call in unary((-8.0, 8.0), (30.0, 40.0))(rng)
    ],
    reference=_by_integral,
    onnx=_NO_ONNX,
    source="DLMF 10.25.2, 10.29.4, 10.40.1",
    sympy=lambda sp, x, n: sp.besseli(n, x) / x**n,
    autocast="float32",
)(_in_wider(_over_power))
bessel_i1_op: Op = composite(
    "bessel_i1(x)",
    accepts="real_inexact",
    forward=in_float64(lambda x: i1e_op(x) * np.exp(np.abs(x))),
    facts={"x": Partial(lambda x: bessel_ratio_op(x, n=0) - bessel_ratio_op(x, n=1))},
    doc="The modified Bessel function of order 1.",
    layout="()->()",
    algebra=Algebra(odd=True, monotone=1),
    samples=unary((0.5, 8.0), (-8.0, -0.5), (30.0, 80.0)),
    reference="scipy.special.i1",
    onnx=_NO_ONNX,
    source="DLMF 10.29.3",
    sympy=lambda sp, x: sp.besseli(1, x),
    autocast="float32",
)(_in_wider(lambda x: i1e_op.front(x) * exp.front(abs.front(x))))
