"""Elementwise ops: arithmetic, powers, exponentials, complex parts."""

from __future__ import annotations

import cmath
import math
import operator
from typing import Any

import numpy as np

from ...core.arrays import in_order_of
from ...core.dtypes import DType
from ...core.elsewhere import Elsewhere
from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import DIVISION, POWER, RAISING, TRANSCENDENTAL
from ...core.ops.declare import METHODS, elementwise
from ...core.ops.facets import Cause, Form, Infix, Latex, Nonfinite, Role, Square
from ...core.ops.nonfinite import (
    ABSORB,
    DIVIDE,
    EXP,
    INFINITIES,
    LOG,
    NEGATIVE,
    NORM,
    OVERFLOW,
    ROOT,
    WHOLE_POWER,
    WIDER,
    always,
    first,
    overflowed,
    real_part,
    second,
    two_infinities,
    zero_times_infinity,
)
from ...core.ops.op import TABLE, Algebra, Call, Linear, Missing, Op
from ...core.ops.record import SCALARS, bind
from ...core.ops.sampling import and_complex, apart, binary, each, unary
from ...core.spec import broadcast_shapes, real_dtype
from ..structure.shapes import as_operand, broadcast
from .complex_cases import careful, complex_expm1, complex_log1p
from .selection import NOWHERE, where_op

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)
_same = Linear(lambda ct: ct)


def _as_dtype(ct: Any, dtype: DType) -> Any:
    return ct if ct.dtype == dtype else TABLE["cast"](ct, dtype=dtype)


# -- arithmetic

add = elementwise(
    "add(x, y)",
    np.add,
    partials={"x": _same, "y": _same},
    accepts="numeric",
    operator="add",
    doc="x + y.",
    over_parts="linear",
    algebra=Algebra(commutes=True, associates=True, unit=0.0),
    samples=binary((-2.0, 2.0), (-2.0, 2.0)),
    reference=each(operator.add),
    onnx="Add",
    cost=1,
    complex_cost=2,
    form=Form("+", "{0} + {1}", binds="sum", local="1|1", say="Addition copies what arrives to *every* input."),
    infix=Infix(" + ", "sum"),
    latex=Latex(" + ", "infix", "sum"),
    sympy=lambda sp, x, y: x + y,
    nonfinite=Nonfinite(
        (
            (two_infinities, Cause("infinities of opposite signs added", INFINITIES)),
            (overflowed, Cause("overflow of a sum", WIDER)),
        )
    ),
)
subtract = elementwise(
    "subtract(x, y)",
    np.subtract,
    partials={"x": _same, "y": Linear(lambda ct: -ct)},
    accepts="numeric",
    operator="sub",
    doc="x - y.",
    over_parts="linear",
    algebra=Algebra(unit=0.0),
    samples=binary((-2.0, 2.0), (-2.0, 2.0)),
    reference=each(operator.sub),
    onnx="Sub",
    cost=1,
    complex_cost=2,
    form=Form(
        "−",
        "{0} − {1}",
        binds="sum",
        local="1|−1",
        say="Subtraction copies what arrives; for what is taken away the sign turns.",
    ),
    infix=Infix(" - ", "sum"),
    latex=Latex(" - ", "infix", "sum"),
    sympy=lambda sp, x, y: x - y,
    nonfinite=Nonfinite(
        (
            (two_infinities, Cause("an infinity minus an infinity", INFINITIES)),
            (overflowed, Cause("overflow of a difference", WIDER)),
        )
    ),
)
multiply = elementwise(
    "multiply(x, y)",
    np.multiply,
    partials={"x": lambda y: y, "y": lambda x: x},
    accepts="numeric",
    operator="mul",
    doc="x times y.",
    algebra=Algebra(commutes=True, associates=True, unit=1.0, zero=0.0),
    samples=binary((-2.0, 2.0), (-2.0, 2.0)),
    reference=each(operator.mul),
    onnx="Mul",
    cost=1,
    complex_cost=6,
    form=Form(
        "×",
        "{0} · {1}",
        binds="product",
        local="{1}|{0}",
        say="Multiplication hands each input the *other* one's value.",
    ),
    infix=Infix("*", "product"),
    latex=Latex(" ", "infix"),
    sympy=lambda sp, x, y: x * y,
    nonfinite=Nonfinite(
        (
            (zero_times_infinity, Cause("0 times an infinity", ABSORB)),
            (overflowed, Cause("overflow of a product", WIDER)),
        ),
        backward=Cause("a slope met a factor so large (or infinite) that the product is not finite", WIDER),
    ),
    zero_gradient="factor",
)


def _inverse(y: Any) -> Any:
    """Return 1 / y; a Python number stays one, so that it stays weakly typed."""
    if type(y) not in SCALARS:
        return reciprocal(y)
    if y == 0:
        return complex(math.nan, math.nan) if type(y) is complex else math.copysign(math.inf, y)
    return 1 / y


divide = elementwise(
    "divide(x, y)",
    np.divide,
    partials={"x": lambda y: _inverse(y), "y": lambda y, out: -out / y},
    operator="truediv",
    doc="x over y, a floating number also for integers. Over 0 it is an infinity or NaN.",
    algebra=Algebra(unit=1.0),
    samples=binary((-2.0, 2.0), (0.5, 2.0)),
    reference=each(operator.truediv),
    onnx="Div",
    cost=DIVISION,
    form=Form(
        "÷",
        "{0} / {1}",
        binds="product",
        local="1 / {1}|−{0} / {1}²",
        say="Division scales what arrives by 1 over the divisor; the divisor gets it with the sign turned.",
    ),
    infix=Infix("/", "product"),
    latex=Latex(r"\frac{{{0}}}{{{1}}}", "form"),
    sympy=lambda sp, x, y: x / y,
    nonfinite=Nonfinite(
        (
            (lambda xs, out: len(xs) > 1 and xs[0] == 0 == xs[1], Cause("0 / 0", DIVIDE)),
            (second(lambda y: y == 0), Cause("division by 0", DIVIDE)),
            (two_infinities, Cause("an infinity divided by an infinity", INFINITIES)),
            (overflowed, Cause("overflow: the denominator is tiny against the numerator", DIVIDE)),
        ),
        backward=Cause("the slope of a quotient, 1 / y and x / y**2, overflows or meets 0 / 0", DIVIDE),
    ),
    zero_gradient="factor",
)
negative = elementwise(
    "negative(x)",
    np.negative,
    partials={"x": Linear(lambda ct: -ct)},
    accepts="numeric",
    operator="neg",
    doc="-x.",
    over_parts="linear",
    algebra=Algebra(monotone=-1, odd=True, involution=True),
    samples=unary((-2.0, 2.0)),
    reference=each(operator.neg),
    onnx="Neg",
    cost=1,
    complex_cost=2,
    form=Form("−", "−{0}", binds="sign", local="−1", say="A minus sign turns the sign of what arrives."),
    prefix="-",
    latex=Latex("-", "prefix"),
    sympy=lambda sp, x: -x,
)
positive = elementwise(
    "positive(x)",
    np.positive,
    partials={"x": _same},
    accepts="numeric",
    operator="pos",
    doc="+x, which is x.",
    algebra=Algebra(monotone=1, odd=True, involution=True, idempotent=True),
    samples=unary((-2.0, 2.0)),
    reference=each(operator.pos),
    onnx="Identity",
    cost=0,
    form=Form("+", "+{0}", binds="sign", local="1", say="A plus sign hands on what arrives."),
    sympy=lambda sp, x: x,
)
reciprocal = elementwise(
    "reciprocal(x)",
    np.reciprocal,
    partials={"x": lambda out: -out * out},
    doc="1 / x.",
    algebra=Algebra(odd=True, involution=True),
    samples=unary((0.5, 2.0), (-2.0, -0.5)),
    reference=each(lambda x: 1.0 / x),
    onnx="Reciprocal",
    cost=DIVISION,
    form=Form(
        "1/v",
        "1 / {0}",
        binds="product",
        local="−{out}²",
        say="A reciprocal scales what arrives by −1 over the square.",
    ),
    latex=Latex(r"\frac{{1}}{{{0}}}", "form"),
    sympy=lambda sp, x: 1 / x,
    nonfinite=Nonfinite(
        (
            (first(lambda x: x == 0), Cause("division by 0", DIVIDE)),
            (overflowed, Cause("overflow: the denominator is tiny", DIVIDE)),
        ),
        backward=Cause("the slope of 1 / x overflows", DIVIDE),
    ),
    autocast="float32",
)

# -- powers and roots


def _pow(x: Any, y: Any) -> Any:
    if not getattr(y, "ndim", 0) and y == 0.5:
        dtype = (x if type(y) in SCALARS else y).dtype
        if dtype.kind == "f":
            # NumPy takes the square root for it, which differs from the power at -0.0 and -inf.
            return np.where(x == -np.inf, dtype.type(np.inf), np.sqrt(dtype.type(0.0) + x))
    try:
        return x**y
    except ValueError:
        if np.result_type(x, y).kind in "iu" and np.any(np.asarray(y) < 0):
            fail(
                DTypeError,
                "pow: an integer to a negative integer power is not an integer",
                "Make the base floating: x.astype(wg.float32) ** y, or write the exponent as a float: x ** -1.0.",
            )
        raise


def _pow_in_base(x: Any, y: Any) -> Any:
    if type(y) in SCALARS:
        if y == 0:
            return 0.0
        return 1.0 if y == 1 else y * x if y == 2 else y * x ** (y - 1.0)
    if y.dtype.kind != "c":
        return scaled_power(y, x, y - 1.0)
    power = x ** (y - 1.0)
    return where_op((y == 0) & (x == 0), 0.0, y * power)


def _pow_in_exponent(x: Any, y: Any, out: Any) -> Any:
    """Return x**y log(x), and its limit 0 at x = 0, y >= 0."""
    zero = x == 0
    if y.dtype.kind != "c":
        zero = zero & (y >= 0)
    return where_op(zero, 0.0, out * _log_of_base(x, y.dtype))


def _log_of_base(x: Any, dtype: DType) -> Any:
    if type(x) not in SCALARS:
        return log(x)
    if x == 0:
        return -math.inf
    if dtype.kind == "c":
        return cmath.log(x)
    return math.log(x) if x > 0 else math.nan


pow = elementwise(
    "pow(x, y)",
    _pow,
    partials={"x": _pow_in_base, "y": _pow_in_exponent},
    accepts="numeric",
    operator="pow",
    doc="x to the power y. Integers stay integers, so their exponents must not be negative.",
    samples=binary((0.5, 2.0), (-2.0, 3.0)),
    reference=each(operator.pow),
    onnx="Pow",
    cost=RAISING,
    form=Form(
        "vⁿ",
        "{0}^{1}",
        binds="power",
        local="{1} · {0}^({1} − 1)|{out} · ln {0}",
        say="A power scales what arrives by the exponent times the power below.",
    ),
    infix=Infix("**", "power"),
    sympy=lambda sp, x, y: x**y,
    nonfinite=Nonfinite(
        (
            (
                lambda xs, out: len(xs) > 1 and xs[0] == 0 and real_part(xs[1]) < 0,
                Cause("0 to a negative power", WHOLE_POWER),
            ),
            (
                lambda xs, out: len(xs) > 1 and real_part(xs[0]) < 0 and real_part(xs[1]) % 1 != 0,
                Cause("a negative number to a fractional power", WHOLE_POWER),
            ),
            (overflowed, Cause("overflow of a power", WIDER)),
        ),
        backward=Cause("the slope of a power below 1 (or of its exponent) at 0 is infinite", WHOLE_POWER),
    ),
    autocast="float32",
)


def _scaled_power(c: Any, x: Any, p: Any) -> Any:
    out = c * x**p
    zero = np.equal(c, 0)
    return np.where(zero, out.dtype.type(0), out) if zero.any() else out


def _scaled_power_in_factor(c: Any, x: Any, p: Any) -> Any:
    """Return x**p; 0 at x = 0 where it is infinite and the factor is 0, as of the constant x**0."""
    return where_op((c == 0.0) & (x == 0.0) & (p < 0.0), 0.0, x**p)


def _scaled_power_in_exponent(c: Any, x: Any, p: Any, out: Any) -> Any:
    """Return c x**p log(x); its limit 0 at x = 0, p >= 0, and 0 there where the factor is 0."""
    return where_op((x == 0.0) & ((p >= 0.0) | (c == 0.0)), 0.0, out * log(x))


# The derivative of x**y in x. Those of higher orders have a factor that is 0 for a small whole y: then the power beside
# it may be infinite, and does not count.
scaled_power: Op = elementwise(
    "scaled_power(c, x, p)",
    _scaled_power,
    partials={
        "c": _scaled_power_in_factor,
        "x": lambda c, x, p: scaled_power(c * p, x, p - 1.0),
        "p": _scaled_power_in_exponent,
    },
    accepts="real_inexact",
    public="",
    doc="c times x to the power p, 0 where c is 0.",
    samples=lambda rng: [
        Call((rng.uniform(-2.0, 2.0, s), rng.uniform(0.5, 2.0, s), rng.uniform(-2.0, 3.0, s)), order=3)
        for s in ((2, 3), (3,), ())
    ],
    reference=each(lambda c, x, p: c * x**p),
    onnx=Missing("ONNX writes it with Where, Mul and Pow"),
    formulas=("where(c == 0.0, 0.0, c * pow(x, p))",),
    cost=POWER + 1,
    form=Form("c·vⁿ", "{0} · {1}^{2}", binds="product", local="{1}^({2})|{0} · {2} · {1}^({2} − 1)|{out} · ln {1}"),
    sympy=lambda sp, c, x, p: c * x**p,
    nonfinite=Nonfinite(
        ((overflowed, Cause("overflow of a power", WIDER)),),
        backward=Cause("the slope of a power below 1 (or of its exponent) at 0 is infinite", WHOLE_POWER),
    ),
    autocast="float32",
)
square = elementwise(
    "square(x)",
    np.square,
    partials={"x": lambda x: 2.0 * x},
    accepts="numeric",
    doc="x times x.",
    algebra=Algebra(range="[0, inf)", even=True),
    samples=unary((-2.0, 2.0)),
    reference=each(lambda x: x * x),
    onnx=Missing("ONNX writes it as Mul(x, x)"),
    cost=1,
    form=Form("v²", "{0}²", binds="power", local="2 · {0}", say="A square scales what arrives by *twice* the input."),
    sympy=lambda sp, x: x**2,
    nonfinite=OVERFLOW,
)
sqrt = elementwise(
    "sqrt(x)",
    np.sqrt,
    partials={"x": lambda out: 0.5 / out},
    doc="The square root; NaN of a negative real number.",
    algebra=Algebra(monotone=1, range="[0, inf)"),
    samples=unary((0.2, 3.0)),
    reference=each(math.sqrt),
    onnx="Sqrt",
    cost=DIVISION,
    form=Form(
        "√", "√{0}", binds="sign", local="1 / (2 · {out})", say="A root scales what arrives by 1 over *twice the root*."
    ),
    latex=Latex(r"\sqrt{{{0}}}", "form", "atom"),
    sympy=lambda sp, x: sp.sqrt(x),
    nonfinite=Nonfinite(
        ((first(lambda x: real_part(x) < 0), Cause("the root of a negative number", NEGATIVE)),),
        backward=Cause("the slope of sqrt at 0 is infinite", ROOT),
    ),
)
rsqrt = elementwise(
    "rsqrt(x)",
    lambda x: np.reciprocal(np.sqrt(x)),
    partials={"x": lambda out: -0.5 * out * out * out},
    doc="1 / sqrt(x).",
    algebra=Algebra(monotone=-1, range="[0, inf)"),
    samples=unary((0.2, 3.0)),
    reference=each(lambda x: x**-0.5),
    onnx=Missing("ONNX writes it as Reciprocal(Sqrt(x))"),
    cost=2 * DIVISION,
    form=Form(
        "1/√",
        "1 / √{0}",
        binds="product",
        local="−{out}³ / 2",
        say="It scales what arrives by minus half the cube of the result.",
    ),
    latex=Latex(r"\frac{{1}}{{\sqrt{{{0}}}}}", "form"),
    sympy=lambda sp, x: 1 / sp.sqrt(x),
    nonfinite=Nonfinite(
        (
            (first(lambda x: x == 0), Cause("1 / sqrt of 0", "wg.rsqrt(x + eps)")),
            (first(lambda x: real_part(x) < 0), Cause("the root of a negative number", NEGATIVE)),
        ),
        backward=Cause("the slope of 1 / sqrt at 0 is infinite", "wg.rsqrt(x + eps)"),
    ),
    autocast="float32",
)
hypot = elementwise(
    "hypot(x, y)",
    np.hypot,
    partials={
        "x": lambda x, out: where_op(out == 0, 0.0, x / out),
        "y": lambda y, out: where_op(out == 0, 0.0, y / out),
    },
    accepts="real_inexact",
    doc="sqrt(x*x + y*y) without overflow on the way; its gradient at (0, 0) is 0.",
    algebra=Algebra(commutes="nearly", range="[0, inf)"),
    samples=binary((0.2, 2.0), (-2.0, -0.2)),
    reference=each(math.hypot),
    onnx=Missing("ONNX writes it as Sqrt(Add(Mul(x, x), Mul(y, y)))"),
    cost=3 + DIVISION,
    form=Form("hypot", "√({0}² + {1}²)", binds="sign", local="{0} / {out}|{1} / {out}"),
    sympy=lambda sp, x, y: sp.sqrt(x**2 + y**2),
    square=Square(lambda x, y: x * y, lambda ct, x: ct * x),
    nonfinite=Nonfinite(backward=Cause("hypot at (0, 0) has no derivative", NORM)),
)

# -- exponentials and logarithms

exp = elementwise(
    "exp(x)",
    np.exp,
    partials={"x": lambda out: out},
    doc="e to the power x.",
    algebra=Algebra(monotone=1, range="[0, inf)", undoes="log"),
    samples=unary((-2.0, 2.0)),
    reference=each(math.exp),
    onnx="Exp",
    cost=TRANSCENDENTAL,
    form=Form(
        "eˣ", "e^({0})", binds="power", local="{out}", say="An exponential scales what arrives by its *own value*."
    ),
    latex=Latex("e^{{{0}}}", "form", "power"),
    sympy=lambda sp, x: sp.exp(x),
    nonfinite=Nonfinite(
        ((always, Cause("overflow of an exponential", EXP)),),
        backward=Cause("a slope of 0 met an exponential that had overflowed: 0 times an infinity", EXP),
    ),
    autocast="float32",
)
expm1 = elementwise(
    "expm1(x)",
    careful(np.expm1, complex_expm1),
    partials={"x": lambda x: exp(x)},
    doc="exp(x) - 1, accurate near 0.",
    algebra=Algebra(monotone=1, range="[-1, inf)", at_zero=0.0, undoes="log1p"),
    samples=unary((-2.0, 2.0), (-1e-9, 1e-9)),
    reference=each(math.expm1),
    onnx=Missing("ONNX has no operator that is accurate near 0"),
    cost=TRANSCENDENTAL,
    form=Form(
        "eˣ−1",
        "e^({0}) − 1",
        binds="sum",
        local="{out} + 1",
        say="It scales what arrives by the exponential of the input.",
    ),
    sympy=lambda sp, x: sp.exp(x) - 1,
    nonfinite=Nonfinite(((always, Cause("overflow of an exponential", EXP)),)),
    autocast="float32",
)
log = elementwise(
    "log(x)",
    np.log,
    partials={"x": lambda x: reciprocal(x)},
    doc="The natural logarithm: -inf of 0, NaN of a negative real number.",
    algebra=Algebra(monotone=1, undoes="exp"),
    samples=unary((0.2, 3.0)),
    reference=each(math.log),
    onnx="Log",
    cost=TRANSCENDENTAL,
    form=Form(
        "ln", "ln {0}", binds="sign", local="1 / {0}", say="A logarithm scales what arrives by *1 over* its input."
    ),
    latex=Latex(r"\log"),
    sympy=lambda sp, x: sp.log(x),
    nonfinite=Nonfinite(
        (
            (first(lambda x: x == 0), Cause("the logarithm of 0", LOG)),
            (first(lambda x: real_part(x) < 0), Cause("the logarithm of a negative number", LOG)),
        ),
        backward=Cause("the slope of the logarithm at 0 is infinite", LOG),
    ),
    autocast="float32",
)
log1p = elementwise(
    "log1p(x)",
    careful(np.log1p, complex_log1p),
    partials={"x": lambda x: reciprocal(1.0 + x)},
    doc="log(1 + x), accurate near 0.",
    algebra=Algebra(monotone=1, at_zero=0.0, undoes="expm1"),
    samples=unary((-0.5, 2.0), (-1e-9, 1e-9)),
    reference=each(math.log1p),
    onnx=Missing("ONNX has no operator that is accurate near 0"),
    cost=TRANSCENDENTAL,
    form=Form("ln 1+", "ln(1 + {0})", local="1 / (1 + {0})"),
    sympy=lambda sp, x: sp.log(1 + x),
    nonfinite=Nonfinite(
        (
            (first(lambda x: x == -1), Cause("log1p of -1, the logarithm of 0", LOG)),
            (first(lambda x: x < -1), Cause("log1p below -1, the logarithm of a negative number", LOG)),
        )
    ),
    autocast="float32",
)
log2 = elementwise(
    "log2(x)",
    np.log2,
    partials={"x": lambda x: reciprocal(_LN2 * x)},
    doc="The logarithm to the base 2.",
    algebra=Algebra(monotone=1),
    samples=unary((0.2, 3.0)),
    reference=each(math.log2),
    onnx=Missing("ONNX writes it as Div(Log(x), Log(2))"),
    cost=TRANSCENDENTAL,
    form=Form("log₂", "log₂ {0}", binds="sign", local="1 / ({0} · ln 2)"),
    latex=Latex(r"\log_{2}"),
    sympy=lambda sp, x: sp.log(x) / sp.log(2),
    nonfinite=Nonfinite(
        (
            (first(lambda x: x == 0), Cause("the logarithm of 0", LOG)),
            (first(lambda x: real_part(x) < 0), Cause("the logarithm of a negative number", LOG)),
        )
    ),
    autocast="float32",
)
log10 = elementwise(
    "log10(x)",
    np.log10,
    partials={"x": lambda x: reciprocal(_LN10 * x)},
    doc="The logarithm to the base 10.",
    algebra=Algebra(monotone=1),
    samples=unary((0.2, 3.0)),
    reference=each(math.log10),
    onnx=Missing("ONNX writes it as Div(Log(x), Log(10))"),
    cost=TRANSCENDENTAL,
    form=Form("log₁₀", "log₁₀ {0}", binds="sign", local="1 / ({0} · ln 10)"),
    latex=Latex(r"\log_{10}"),
    sympy=lambda sp, x: sp.log(x) / sp.log(10),
    nonfinite=Nonfinite(
        (
            (first(lambda x: x == 0), Cause("the logarithm of 0", LOG)),
            (first(lambda x: real_part(x) < 0), Cause("the logarithm of a negative number", LOG)),
        )
    ),
    autocast="float32",
)


def _share(x: Any, y: Any) -> Any:
    """Return exp(x) / (exp(x) + exp(y)); equal infinities share like any equal numbers."""
    return sigmoid(where_op((x == y) & (x - y != 0.0), 0.0, x - y))


logaddexp = elementwise(
    "logaddexp(x, y)",
    np.logaddexp,
    partials={"x": lambda x, y: _share(x, y), "y": lambda x, y: _share(y, x)},
    accepts="real_inexact",
    doc="log(exp(x) + exp(y)) without overflow on the way.",
    algebra=Algebra(commutes="nearly", associates=True, unit=-math.inf),
    samples=apart(),
    reference=each(lambda x, y: math.log(math.exp(x) + math.exp(y))),
    onnx=Missing("ONNX writes it as ReduceLogSumExp of both"),
    cost=2 * TRANSCENDENTAL + 3,
    form=Form("ln Σe", "ln(e^({0}) + e^({1}))", local="e^({0} − {out})|e^({1} − {out})"),
    sympy=lambda sp, x, y: sp.log(sp.exp(x) + sp.exp(y)),
    autocast="float32",
)


def _sigmoid(x: Any) -> Any:
    # exp(-x) overflows to infinity only where the result is a denormal number or less, for which 0 stands here
    # (and never in a wider dtype for float16): otherwise one form is accurate on both sides.
    if x.dtype.itemsize == 2:
        return _sigmoid(x.astype(np.float32)).astype(x.dtype)
    return np.reciprocal(1.0 + np.exp(-x))


sigmoid = elementwise(
    "sigmoid(x)",
    _sigmoid,
    partials={"x": lambda out: out * (1.0 - out)},
    doc="The logistic function 1 / (1 + exp(-x)).",
    algebra=Algebra(monotone=1, range="[0, 1]", at_zero=0.5),
    samples=unary((-3.0, 3.0), (20.0, 40.0), (-40.0, -20.0)),
    reference="scipy.special.expit",
    onnx="Sigmoid",
    cost=TRANSCENDENTAL + DIVISION + 1,
    form=Form(
        "σ",
        "σ({0})",
        local="{out} · (1 − {out})",
        say="A sigmoid scales what arrives by σ · (1 − σ): a quarter at most, almost nothing far from 0.",
    ),
    latex=Latex(r"\sigma"),
    sympy=lambda sp, x: 1 / (1 + sp.exp(-x)),
    activation="saturated",
    zero_gradient="saturated",
)

# -- parts of complex numbers

conj: Op = elementwise(
    "conj(x)",
    lambda x: np.conjugate(x) if x.dtype.kind == "c" else x,
    partials={"x": Linear(lambda ct: TABLE["conj"](ct))},
    accepts="numeric",
    doc="The complex conjugate; a real number itself.",
    algebra=Algebra(involution=True),
    samples=unary((-2.0, 2.0)),
    reference=each(lambda x: complex(x).conjugate().real),
    onnx=Missing("ONNX operators take no complex numbers"),
    cost=0,
    form=Form("v̄", "conj({0})"),
    latex=Latex(r"\overline{{{0}}}", "form"),
    sympy=lambda sp, x: sp.conjugate(x),
)


def _of_parts(re: Any, im: Any, dtype: DType) -> Any:
    """Return complex numbers of these parts; where the dtype is real, the real ones."""
    if dtype.kind != "c":
        return re
    return _as_dtype(TABLE["view_as_complex"].front(TABLE["stack"].front(re, im, axis=-1)), dtype)


real = elementwise(
    "real(x)",
    lambda x: x.real if x.dtype.kind == "c" else x,
    partials={"x": Linear(lambda ct, x_dtype: _as_dtype(ct, x_dtype))},
    accepts="numeric",
    view=True,
    result="magnitude",
    doc="The real part.",
    algebra=Algebra(idempotent=True),
    samples=and_complex(unary((-2.0, 2.0))),
    reference=each(lambda x: complex(x).real),
    onnx=Missing("ONNX operators take no complex numbers"),
    cost=0,
    form=Form("Re", "Re({0})"),
    latex=Latex(r"\Re"),
    sympy=lambda sp, x: sp.re(x),
    role=Role.STRIDE,
    unview=lambda x, part: _of_parts(part, TABLE["imag"].front(x), x.dtype),
)


def _imag_transpose(ct: Any, x_dtype: DType) -> Any:
    return 1j * _as_dtype(ct, x_dtype) if x_dtype.kind == "c" else where_op(NOWHERE, ct, 0.0)


imag = elementwise(
    "imag(x)",
    lambda x: x.imag if x.dtype.kind == "c" else np.zeros_like(x),
    partials={"x": Linear(_imag_transpose)},
    accepts="numeric",
    view=True,
    result="magnitude",
    doc="The imaginary part; of a real number 0.",
    samples=and_complex(unary((-2.0, 2.0))),
    reference=each(lambda x: complex(x).imag),
    onnx=Missing("ONNX operators take no complex numbers"),
    cost=0,
    form=Form("Im", "Im({0})"),
    latex=Latex(r"\Im"),
    sympy=lambda sp, x: sp.im(x),
    role=Role.STRIDE,
    dependence="imaginary",
    unview=lambda x, part: _of_parts(real.front(x), part, x.dtype),
)


def _writes_part(name: str) -> Any:
    """Return the setter of `x.real` or `x.imag`: a write to all elements, of which the other part stays."""

    def write(x: Any, value: Any) -> None:
        part = as_operand(value)
        if broadcast_shapes(part.shape, x.shape) != x.shape or part.dtype.kind == "c":
            fail(
                ShapeError if part.dtype.kind != "c" else DTypeError,
                f"x.{name} = {part.spec} of {x.spec}",
                "It takes real numbers that broadcast to the tensor's shape.",
            )
        if x.dtype.kind == "c":
            part = bind(broadcast, (part.astype(real_dtype(x.dtype)),), {"shape": x.shape})
            both = (part, imag.front(x)) if name == "real" else (real.front(x), part)
            part = _of_parts(*both, x.dtype)
        elif name == "imag":
            fail(DTypeError, f"x.imag = {part.spec} of {x.spec}", "A real number has no imaginary part to write to.")
        x[...] = part

    return write


# NumPy and PyTorch write x.real, not x.real().
METHODS["real"] = property(real.front, _writes_part("real"))  # type: ignore[assignment]
METHODS["imag"] = property(imag.front, _writes_part("imag"))  # type: ignore[assignment]

# -- identities


def _copied(x: Any) -> Any:
    if isinstance(x, Elsewhere):
        return x.copy()
    out = np.array(x)
    return out if out.ndim < 2 or x.flags.c_contiguous else in_order_of(out, (x,))


copy = elementwise(
    "copy(x)",
    _copied,
    partials={"x": _same},
    accepts="anything",
    public="clone",
    home="torch",
    doc="A copy of x through which gradients flow.",
    algebra=Algebra(monotone=1, odd=True, idempotent=True),
    samples=unary((-2.0, 2.0)),
    reference=each(float),
    onnx="Identity",
    cost=0,
    sympy=lambda sp, x: x,
)
stop_gradient = elementwise(
    "stop_gradient(x)",
    lambda x: x,
    accepts="anything",
    method=False,
    doc="x as a constant: gradients do not flow through it.",
    algebra=Algebra(monotone=1, odd=True, idempotent=True),
    samples=unary((-2.0, 2.0), order=0),
    reference=each(float),
    onnx="Identity",
    cost=0,
    form=Form("stop", "stop({0})", local="0", say="The gradient stops here, as the program says."),
    sympy=lambda sp, x: x,
    role=Role.PASS,
)

# PyTorch's names.
for _alias, _op in {
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "true_divide": divide,
    "neg": negative,
}.items():
    METHODS[_alias] = _op.front
