"""The rules for functions: values at numbers, symmetries, inverses, choices."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from ..core.ops.op import TABLE
from .expr import (
    COMMUTATIVE,
    FALSE,
    HALF,
    MINUS_ONE,
    ONE,
    RULES,
    TRUE,
    ZERO,
    E,
    Expr,
    add,
    call,
    divide,
    is_number,
    mul,
    negated,
    number,
    power,
    terms_of,
)

# Ops that are written with sums, products and powers.
ARITHMETIC: dict[str, Callable[..., Expr]] = {
    "add": add,
    "subtract": lambda x, y: add(x, negated(y)),
    "multiply": mul,
    "divide": divide,
    "negative": negated,
    "positive": lambda x: x,
    "reciprocal": lambda x: power(x, MINUS_ONE),
    "pow": power,
    "scaled_power": lambda c, x, p: mul(c, power(x, p)),
    "square": lambda x: power(x, number(2)),
    "sqrt": lambda x: power(x, HALF),
    "rsqrt": lambda x: power(x, number(Fraction(-1, 2))),
    "exp": lambda x: power(E, x),
    "copy": lambda x: x,
    "conj": lambda x: x,
    "real": lambda x: x,
    "imag": lambda x: ZERO,
}


def rule(*names: str) -> Callable[[Any], Any]:
    """Declare the value of `fn(*args)` for calls of these names, None where the rule does not apply."""

    def register(fn: Any) -> Any:
        for name in names:
            RULES.setdefault(name, []).append(fn)
        return fn

    return register


# -- values and symmetries, from the table's algebra


def _declare_symmetries() -> None:
    for name, op in TABLE.items():
        if op.kind == "elementwise" and op.algebra.commutes:
            COMMUTATIVE.add(name)
        if op.kind != "elementwise" or len(op.params) != 1 or name in ARITHMETIC or name == "stop_gradient":
            continue
        if op.algebra.odd:
            rule(name)(lambda x, name=name: negated(call(name, negated(x))) if _leads_with_minus(x) else None)
        if op.algebra.even:
            rule(name)(lambda x, name=name: call(name, negated(x)) if _leads_with_minus(x) else None)
        if op.algebra.idempotent:
            rule(name)(lambda x, name=name: x if x.kind == "call" and x.name == name else None)
        at_zero = 0.0 if op.algebra.odd else op.algebra.at_zero
        if at_zero is not None:
            value = number(Fraction(at_zero))
            rule(name)(lambda x, value=value: value if is_number(x, 0) else None)


def _leads_with_minus(x: Expr) -> bool:
    return all(c < 0 for c, _ in terms_of(x)) and not is_number(x, 0)


@rule("abs")
def _abs(x: Expr) -> Expr | None:
    if x.kind == "number":
        return number(abs(x.data))
    even = x.kind == "power" and x.args[1].kind == "number" and x.args[1].data % 2 == 0
    return x if even or (x.kind == "power" and x.args[0] is E) else None


@rule("sign")
def _sign(x: Expr) -> Expr | None:
    if x.kind == "number":
        return number((x.data > 0) - (x.data < 0))
    return ONE if x.kind == "power" and x.args[0] is E else None


_declare_symmetries()


# -- inverses


@rule("log")
def _log(x: Expr) -> Expr | None:
    if is_number(x, 1):
        return ZERO
    if x is E or x == E:
        return ONE
    return x.args[1] if x.kind == "power" and x.args[0] is E else None


def _undone(outer: str, inner: str) -> None:
    rule(outer)(lambda x: x.args[0] if x.kind == "call" and x.name == inner and x.data is None else None)


for _name, _op in TABLE.items():
    if _op.algebra.undoes:
        _undone(_name, _op.algebra.undoes)


# -- truth and choice


def _negation(name: str) -> str:
    """Return the comparison that is true of numbers where this one is false; "" for what is no comparison."""
    return TABLE[name].algebra.negation if name in TABLE else ""


@rule("logical_not")
def _not(x: Expr) -> Expr | None:
    if x in (TRUE, FALSE):
        return FALSE if x == TRUE else TRUE
    if x.kind == "call" and x.data is None:
        if x.name == "logical_not":
            return x.args[0]
        if opposed := _negation(x.name):
            return call(opposed, *x.args)
        if x.name in ("logical_and", "logical_or"):
            other = "logical_or" if x.name == "logical_and" else "logical_and"
            return call(other, *(call("logical_not", a) for a in x.args))
    return None


@rule("logical_and", "logical_or")
def _same_truth(x: Expr, y: Expr) -> Expr | None:
    return x if x == y else None


@rule("logical_and")
def _and(x: Expr, y: Expr) -> Expr | None:
    if FALSE in (x, y):
        return FALSE
    return y if x == TRUE else x if y == TRUE else None


@rule("logical_or")
def _or(x: Expr, y: Expr) -> Expr | None:
    if TRUE in (x, y):
        return TRUE
    return y if x == FALSE else x if y == FALSE else None


def _declare_comparisons() -> None:
    for name, op in TABLE.items():
        if op.algebra.negation:
            rule(name)(
                lambda x, y, op=op: (
                    (TRUE if op.forward(x.data, y.data) else FALSE) if x.kind == y.kind == "number" else None
                )
            )


_declare_comparisons()


@rule("greater")
def _rectified(x: Expr, y: Expr) -> Expr | None:
    """Return the condition u > 0 for relu(u) > 0."""
    return call("greater", x.args[0], y) if x.kind == "call" and x.name == "relu" and is_number(y, 0) else None


@rule("where")
def _where(condition: Expr, x: Expr, y: Expr) -> Expr | None:
    if x == y or condition == TRUE:
        return x
    if condition == FALSE:
        return y
    if condition.kind == "call" and condition.name in ("logical_not", "not_equal"):
        return call("where", call("logical_not", condition), y, x)
    for at, branch in ((1, x), (2, y)):  # a choice by the same condition inside a branch is made already
        if branch.kind == "call" and branch.name == "where" and branch.args[0] == condition:
            chosen = branch.args[at]
            return call("where", condition, chosen, y) if at == 1 else call("where", condition, x, chosen)
    return None


@rule("maximum", "minimum", "relu")
def _extreme(x: Expr, y: Expr = ZERO) -> Expr | None:
    return x if x == y else None


def opposite(a: Expr, b: Expr) -> bool:
    """Return whether two conditions are each other's negation, but for where both sides are equal."""
    if call("logical_not", a) == b:
        return True
    if a.kind != "call" or b.kind != "call" or len(a.args) != 2 or len(b.args) != 2:
        return False
    first, second = _order(a.name), _order(b.name)
    if first is None or second is None:
        return False
    if a.args == b.args:
        return first != second
    return a.args == b.args[::-1] and first == second


def _order(name: str) -> bool | None:
    """Return whether a comparison holds of the smaller number and the larger; None where of both, or of neither."""
    if not _negation(name):
        return None
    upward, downward = (bool(TABLE[name].forward(*pair)) for pair in ((0, 1), (1, 0)))
    return upward if upward != downward else None
