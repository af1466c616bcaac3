"""What ops compute, in mpmath: of the elementary ones by hand, of the others by their formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mpmath as mp

from wengert.core.ops.op import TABLE, Op


def _quotient(x: Any, y: Any) -> Any:
    if abs(y) < 1e-9:  # the points beside a pole
        raise ZeroDivisionError
    return x / y


def softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def huber(x: Any, y: Any, delta: float = 1.0) -> Any:
    size = abs(x - y)
    return size * size / 2 if size <= delta else delta * (size - mp.mpf(delta) / 2)


def _erfinv(x: Any) -> Any:
    guess = mp.erfinv(mp.mpf(float(x)))
    for _ in range(9):  # Newton's iteration doubles the digits
        guess -= (mp.erf(guess) - x) * mp.sqrt(mp.pi) / 2 * mp.exp(guess * guess)
    return guess


def _gelu(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return x * sigmoid(2 * mp.sqrt(mp.mpf(2 / mp.pi)) * (x + mp.mpf(0.044715) * x**3))
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def pow_(x: Any, y: Any) -> Any:
    if x < 0 and y != mp.floor(y):
        raise ValueError("no real power")
    return mp.power(x, y)


EXACT: Mapping[str, Callable[..., Any]] = {
    "maximum": lambda x, y: max(x, y),
    "minimum": lambda x, y: min(x, y),
    "relu": lambda x: max(x, mp.mpf(0)),
    "floor": mp.floor,
    "ceil": mp.ceil,
    "round": mp.nint,
    "trunc": lambda x: mp.floor(x) if x > 0 else mp.ceil(x),
    "floor_divide": lambda x, y: mp.floor(_quotient(x, y)),
    "remainder": lambda x, y: x - y * mp.floor(_quotient(x, y)),
    "sign": mp.sign,
    "abs": abs,
    "copysign": lambda x, y: abs(x) if y > 0 else -abs(x),
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": _quotient,
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "reciprocal": lambda x: 1 / x,
    "pow": pow_,
    "square": lambda x: x * x,
    "sqrt": mp.sqrt,
    "rsqrt": lambda x: 1 / mp.sqrt(x),
    "hypot": mp.hypot,
    "exp": mp.exp,
    "expm1": mp.expm1,
    "log": mp.log,
    "log1p": mp.log1p,
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "sigmoid": sigmoid,
    "conj": lambda x: x,
    "real": lambda x: x,
    "imag": lambda x: 0 * x,
    "copy": lambda x: x,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "atan2": mp.atan2,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "asinh": mp.asinh,
    "acosh": mp.acosh,
    "atanh": mp.atanh,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "lgamma": lambda x: mp.log(abs(mp.gamma(x))),
    "digamma": mp.digamma,
    "polygamma": lambda x, n: mp.polygamma(n, x),
    "xlogy": lambda x, y: x * mp.log(y),
    "xlogx": lambda x: x * mp.log(x),
    "xlog1py": lambda x, y: x * mp.log1p(y),
    "betaln": lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
    "erfinv": _erfinv,
    "ndtri": lambda p: mp.sqrt(2) * _erfinv(2 * p - 1),
    "ndtr": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "log_ndtr": lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
    "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "log1p_over": lambda z, k: mp.log1p(k * z) / k,
    "expm1_over": lambda z, k: mp.expm1(k * z) / k,
    "sine_ratio": lambda x, n: mp.diff(lambda t: mp.sinc(t), x, n) if n else mp.sinc(x),
    "gelu": _gelu,
    "softplus": lambda x, beta: softplus(x * beta) / beta,
    "logsigmoid": lambda x: -softplus(-x),
    "mish": lambda x: x * mp.tanh(softplus(x)),
    "huber": huber,
    "binary_cross_entropy_logits": lambda x, y: (1 - y) * x + softplus(-x),
    "binary_cross_entropy": lambda x, y: -y * mp.log(x) - (1 - y) * mp.log1p(-x),
    "hardswish": lambda x: x * min(max(x + 3, mp.mpf(0)), mp.mpf(6)) / 6,
    "where": lambda c, x, y: x if c else y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}


def exact(op: Op) -> Callable[..., Any] | None:
    """Return an op as a function of mpmath's numbers, and attributes by name; None where it is not known."""
    if op.name in EXACT:
        return None if op.name in ("where", "clip") else EXACT[op.name]
    if len(op.formulas) != 1 or op.combine:
        return None
    formula = op.formulas[0]

    def run(*args: Any, **attrs: Any) -> Any:
        values = dict(zip(op.params, args, strict=True)) | attrs
        return formula.evaluate(values, lambda part, operands: EXACT[part.name](*map(_number, operands)))

    return run if all(part.op.name in EXACT for part in formula.read().parts) else None


def _number(x: Any) -> Any:
    return mp.mpf(x) if type(x) in (int, float) else x


def kinks(op: Op, attrs: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the numbers at which a formula may change its form: those in it, the attributes, and their negatives."""
    numbers = {float(v) for v in attrs.values() if type(v) in (int, float)}
    for formula in op.formulas:
        for part in formula.read().parts:
            numbers |= {float(o[0]) for o in part.operands if type(o) is tuple}
    return tuple(sorted(numbers | {-n for n in numbers}))


DIFFERENTIATED = [
    op
    for op in TABLE.values()
    if (op.kind == "elementwise" or (op.kind == "composite" and (op.name in EXACT or (op.formulas and not op.combine))))
    and op.accepts in ("numeric", "floating", "real", "real_inexact")
    and op.result != "boolean"
]
