"""Expressions in a normal form: numbers, symbols, calls, powers, products and sums.

Constructors (`add`, `mul`, `power`, `call`) keep the form: sums and products are flat, like terms
and equal bases are collected, coefficients are exact fractions. Two expressions with equal keys
are the same expression. The algebra is that of real functions where they are defined: x/x is 1,
exp(log(x)) is x. Shared parts are shared objects, and no function walks an expression as a tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple

from ..core.ops.op import TABLE, Op

_LABEL = 40
# Longer sums are not taken apart to be collected with the sum that they stand in.
FLAT_TERMS = 64
_LARGEST_POWER = 64
_LARGEST_CONTENT = 1000


class Opaque(NamedTuple):
    """The parts of a call of an op with attributes or shapes, besides its arguments.

    `slots` holds for every input of the op the spec that its argument must have, or its literal.
    """

    op: Any
    attrs: tuple[tuple[str, Any], ...]
    slots: tuple[Any, ...]
    spec: Any


class Expr:
    """An expression, made with the functions of this module.

    `kind` says what `name`, `args` and `data` hold: a number's Fraction is its data; a symbol has a
    name; a call a name, arguments, and the op's attributes as data; a power base and exponent; a
    product factors and its coefficient as data; a sum terms, and their coefficients as data, the
    constant term last.
    """

    __slots__ = ("kind", "name", "args", "data", "key", "size", "degree", "label")

    kind: str
    name: str
    args: tuple[Expr, ...]
    data: Any
    key: bytes
    size: int
    degree: Fraction
    label: str

    def __init__(self, kind: str, name: str = "", args: tuple[Expr, ...] = (), data: Any = None) -> None:
        self.kind, self.name, self.args, self.data = kind, name, args, data
        text = f"{kind}|{name}|{_shown(data)}|"
        self.key = blake2b(text.encode() + b"".join([a.key for a in args]), digest_size=16).digest()
        self.size = _size(self)
        self.degree = _degree(self)
        self.label = _label(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.label}>"


def _shown(data: Any) -> str:
    if isinstance(data, Opaque):
        return f"{data.op.name}{data.attrs}{data.slots}{data.spec}"
    return str(data)


def _size(e: Expr) -> int:
    """Return the number of names, numbers and operators that it takes to write the expression down."""
    inner = sum(a.size for a in e.args)
    if e.kind == "call":
        return inner + 1
    if e.kind == "power":
        base, exponent = e.args
        if base is E:
            return exponent.size + 1
        if exponent.kind == "number" and exponent.data in (_HALF, -1):
            return base.size + (1 if exponent.data == _HALF else 2)
        return inner + 1
    if e.kind == "product":
        divided = sum(1 for f in e.args if is_divisor(f))
        one = int(divided == len(e.args) and abs(e.data.numerator) == 1)
        return int(inner - divided + len(e.args) - 1 + 2 * (abs(e.data) != 1) + one)
    if e.kind == "sum":
        shown = [abs(c) != 1 for c in e.data[:-1]]
        return int(inner + 2 * sum(shown) + len(shown) - 1 + 2 * (e.data[-1] != 0))
    return 1


def _degree(e: Expr) -> Fraction:
    if e.kind == "symbol":
        return Fraction(1)
    if e.kind == "power" and e.args[1].kind == "number" and e.args[1].data > 0:
        return Fraction(e.args[0].degree * e.args[1].data)
    if e.kind == "product":
        return sum((f.degree for f in e.args), Fraction(0))
    if e.kind == "sum":
        return max(t.degree for t in e.args)
    return Fraction(0)


def _label(e: Expr) -> str:
    shown = e.name or (str(e.data) if e.kind == "number" else "")
    return (shown + ",".join(a.label for a in e.args))[:_LABEL]


_HALF = Fraction(1, 2)


def is_divisor(factor: Expr) -> bool:
    """Return whether a factor is written below the line: a power with a negative number as exponent."""
    return factor.kind == "power" and factor.args[1].kind == "number" and factor.args[1].data < 0


# -- atoms


def number(value: Fraction | int) -> Expr:
    """Return a rational number."""
    return Expr("number", data=Fraction(value))


def symbol(name: str) -> Expr:
    """Return a variable."""
    return Expr("symbol", name)


def constant(name: str, value: float) -> Expr:
    """Return a number with a name: pi, e, an infinity, a truth value."""
    return Expr("constant", name, data=value)


E = Expr.__new__(Expr)  # `_size` compares with it while it is made
E.__init__("constant", "e", data=math.e)  # type: ignore[misc]
PI = constant("pi", math.pi)
ZERO, ONE, MINUS_ONE = number(0), number(1), number(-1)
HALF = number(_HALF)
TRUE, FALSE = constant("True", 1.0), constant("False", 0.0)


def is_number(e: Expr, value: Fraction | int | None = None) -> bool:
    """Return whether an expression is a rational number (this one, if given)."""
    return e.kind == "number" and (value is None or e.data == value)


# -- sums


def parts(term: Expr) -> tuple[Fraction, Expr]:
    """Return a term as its coefficient and the expression that it multiplies."""
    if term.kind == "number":
        return term.data, ONE
    if term.kind == "product" and term.data != 1:
        return term.data, _product(Fraction(1), term.args)
    return Fraction(1), term


def terms_of(e: Expr) -> list[tuple[Fraction, Expr]]:
    """Return the terms of a sum (of another expression, that alone) as coefficients and expressions."""
    if e.kind != "sum":
        return [parts(e)]
    pairs = list(zip(e.data, e.args))
    if e.data[-1] != 0:
        pairs.append((e.data[-1], ONE))
    return pairs


def add(*terms: Expr) -> Expr:
    """Return the sum, like terms collected."""
    return add_terms(pair for t in terms for pair in terms_of(t))


def add_terms(pairs: Iterable[tuple[Fraction, Expr]]) -> Expr:
    """Return the sum of coefficients times expressions."""
    found: dict[Expr, Fraction] = {}
    rest = Fraction(0)
    stack = list(pairs)[::-1]
    while stack:
        c, t = stack.pop()
        if t.kind == "number":
            rest += c * t.data
        elif t.kind == "sum" and len(t.args) <= FLAT_TERMS:
            stack.extend((c * k, u) for k, u in terms_of(t)[::-1])
        else:
            k, t = parts(t)
            found[t] = found.get(t, Fraction(0)) + c * k
    kept = [(t, c) for t, c in found.items() if c != 0]
    if not kept:
        return number(rest)
    if len(kept) == 1 and rest == 0:
        return scaled(kept[0][1], kept[0][0])
    kept.sort(key=_term_order)
    return Expr("sum", args=tuple(t for t, _ in kept), data=(*(c for _, c in kept), rest))


def _term_order(pair: tuple[Expr, Fraction]) -> Any:
    t = pair[0]
    return t.kind == "constant", -t.degree, len(t.args) if t.kind == "product" else 1, _alphabetic(t.label), t.key


def scaled(c: Fraction, e: Expr) -> Expr:
    """Return a number times an expression; into a sum it is multiplied term by term."""
    if c == 0:
        return ZERO
    if c == 1:
        return e
    if e.kind == "number":
        return number(c * e.data)
    if e.kind == "sum":
        return Expr("sum", args=e.args, data=tuple(c * k for k in e.data))
    if e.kind == "product":
        return _product(c * e.data, e.args)
    return _product(c, (e,))


def negated(e: Expr) -> Expr:
    """Return -e."""
    return scaled(Fraction(-1), e)


# -- products


def _product(c: Fraction, factors: Sequence[Expr]) -> Expr:
    """Return a product of factors that are already collected."""
    if not factors:
        return number(c)
    if c == -1:
        for i, f in enumerate(factors):
            if f.kind == "sum" and min(f.data) < 0 and (len(factors) > 1):  # -(1 - x) y is (x - 1) y
                factors = [*factors[:i], negated(f), *factors[i + 1 :]]
                c = Fraction(1)
                break
    if len(factors) == 1 and (c == 1 or factors[0].kind == "sum"):
        return scaled(c, factors[0])
    return Expr("product", args=tuple(sorted(factors, key=_factor_order)), data=c)


_RANKS = {"constant": 0, "number": 0, "symbol": 1, "call": 2, "sum": 4, "product": 4}


def _factor_order(f: Expr) -> Any:
    base = f.args[0] if f.kind == "power" else f
    rank = 3 if base is E else _RANKS.get(base.kind, 2)
    return rank, _alphabetic(f.label), f.key


def _alphabetic(label: str) -> str:
    """Return a label to sort by: sines stand before cosines."""
    return label.replace("cos", "sin~")


def base_and_exponent(factor: Expr) -> tuple[Expr, Expr]:
    """Return a factor as base and exponent."""
    if factor.kind == "power":
        return factor.args[0], factor.args[1]
    return factor, ONE


def factors_of(e: Expr) -> tuple[Fraction, tuple[Expr, ...]]:
    """Return the coefficient and factors of a product; of another expression that alone."""
    if e.kind == "product":
        return e.data, e.args
    if e.kind == "number":
        return e.data, ()
    return Fraction(1), (e,)


def mul(*factors: Expr) -> Expr:
    """Return the product, equal bases collected."""
    c = Fraction(1)
    powers: dict[Expr, Expr] = {}
    stack = list(factors)[::-1]
    while stack:
        f = stack.pop()
        if f.kind == "number":
            c *= f.data
            continue
        if f.kind == "product":
            c *= f.data
            stack.extend(f.args[::-1])
            continue
        base, exponent = base_and_exponent(f)
        whole = base.kind == "sum" and exponent.kind == "number" and exponent.data.denominator == 1
        if whole and abs(exponent.data) <= _LARGEST_POWER:
            k = content(base.data)
            c, base = c * k ** int(exponent.data), scaled(1 / k, base)
        if whole and base not in powers:
            opposite = negated(base)
            if opposite in powers:  # (1 - x) and (x - 1) are one base
                base, c = opposite, c * (-1) ** (exponent.data.numerator % 2)
        powers[base] = add(powers[base], exponent) if base in powers else exponent
    if c == 0:
        return ZERO
    # Exponents that were added up may give numbers and products: those are collected again.
    made = [power(b, e) for b, e in powers.items()]
    plain = [f for f in made if f.kind not in ("number", "product")]
    bases = {base_and_exponent(f)[0] for f in plain}
    if len(plain) != len(made) or len(bases) != len(plain):
        return mul(number(c), *made)
    return _product(c, plain)


def divide(a: Expr, b: Expr) -> Expr:
    """Return a / b."""
    return mul(a, power(b, MINUS_ONE))


# -- powers


def power(base: Expr, exponent: Expr) -> Expr:
    """Return base ** exponent."""
    if is_number(exponent, 0) or is_number(base, 1):
        return ONE
    if is_number(exponent, 1):
        return base
    if base is E or base == E:
        return _exponential(exponent)
    if exponent.kind == "number":
        found = _numeric_power(base, exponent.data)
        if found is not None:
            return found
    return Expr("power", args=(base, exponent))


def _exponential(exponent: Expr) -> Expr:
    """Return e ** exponent, with e ** (c log u) as u ** c."""
    outside, inside = [], []
    for c, t in terms_of(exponent):
        logs = [f for f in factors_of(t)[1] if f.kind == "call" and f.name == "log"]
        if len(logs) == 1:
            others = [f for f in factors_of(t)[1] if f is not logs[0]]
            outside.append(power(logs[0].args[0], mul(number(c), *others)))
        else:
            inside.append((c, t))
    rest = add_terms(inside) if outside else exponent
    whole = ONE if is_number(rest, 0) else Expr("power", args=(E, rest))
    return mul(whole, *outside) if outside else whole


def _numeric_power(base: Expr, n: Fraction) -> Expr | None:
    whole = n.denominator == 1
    if base.kind == "number":
        return _power_of_number(base.data, n)
    if base.kind == "power":
        inner, k = base.args
        if whole or inner is E or (k.kind == "number" and k.data.denominator != 1):
            return power(inner, mul(k, number(n)))
        if k.kind == "number" and k.data.numerator % 2 == 0:
            return power(call("abs", inner), mul(k, number(n)))
        return None
    if base.kind == "call" and base.name == "abs" and whole and n % 2 == 0:
        return power(base.args[0], number(n))
    if base.kind == "call" and base.name == "hypot" and whole and n % 2 == 0:
        return power(add(*(power(a, number(2)) for a in base.args)), number(n / 2))
    if base.kind == "call" and base.name == "sign" and whole and n % 2 == 0:
        return ONE
    if base.kind == "product":
        return _power_of_product(base, n)
    if base.kind == "sum" and whole and abs(n) <= _LARGEST_POWER and content(base.data) != 1:
        return _with_content(base, int(n))
    return None


def _with_content(base: Expr, n: int) -> Expr:
    """Return (2 x + 2)**n as 2**n (x + 1)**n."""
    k = content(base.data)
    return mul(number(k**n), Expr("power", args=(scaled(1 / k, base), number(n))))


def content(numbers: Sequence[Fraction]) -> Fraction:
    """Return the fraction that leaves coprime integers; negative where no number is positive."""
    shown = [c for c in numbers if c != 0]
    top, bottom = 0, 1
    for c in shown:
        top = math.gcd(top, c.numerator)
        bottom = math.lcm(bottom, c.denominator)
    if top > _LARGEST_CONTENT or bottom > _LARGEST_CONTENT:
        return Fraction(1)  # coefficients would outgrow floats where expressions are nested
    return Fraction(top or 1, bottom) * (-1 if all(c < 0 for c in shown) else 1)


def _power_of_product(base: Expr, n: Fraction) -> Expr | None:
    """Return a product's factors, each to the power; to a fraction only those that cannot be negative."""
    if n.denominator == 1:
        return mul(power(number(base.data), number(n)), *(power(f, number(n)) for f in base.args))
    root = _power_of_number(abs(base.data), n)
    positive = [f for f in base.args if _never_negative(f)]
    if (root is None or base.data == -1) and not positive:
        return None
    inside = [f for f in base.args if f not in positive]
    if root is None:
        kept, root = base.data, ONE
    else:
        kept = Fraction(1 if base.data > 0 else -1)
    if kept == base.data and not positive:
        return None
    rest = _product(kept, inside)
    outside = [power(f, number(n)) for f in positive]
    return mul(root, *outside, power(rest, number(n)))


def _never_negative(f: Expr) -> bool:
    base, exponent = base_and_exponent(f)
    if base.kind == "constant" or (base.kind == "call" and base.name in TABLE and _is_positive(TABLE[base.name])):
        return True
    return exponent.kind == "number" and exponent.data.denominator == 1 and exponent.data.numerator % 2 == 0


def _is_positive(op: Op) -> bool:
    """Return whether an op of numbers gives none below 0."""
    return op.kind == "elementwise" and op.algebra.range.startswith(("[0", "(0", "[1"))


def _power_of_number(x: Fraction, n: Fraction) -> Expr | None:
    """Return a number to a power, where that is a rational number."""
    if abs(n) > _LARGEST_POWER or (x == 0 and n < 0) or (x < 0 and n.denominator != 1):
        return None
    if n.denominator == 1:
        return number(x ** int(n))
    tops = [_root(k, n.denominator) for k in (x.numerator, x.denominator)]
    if None in tops:
        return None
    return number(Fraction(tops[0] or 0, tops[1] or 1) ** n.numerator)


def _root(x: int, k: int) -> int | None:
    """Return the integer whose k-th power is x, if there is one."""
    if k > 8 or x.bit_length() > 1000:
        return None
    r = math.isqrt(x) if k == 2 else round(x ** (1.0 / k)) if x < 1 << 50 else 0
    return r if r**k == x else None


# -- calls


def call(name: str, *args: Expr, data: Any = None) -> Expr:
    """Return a function's value; :mod:`wengert.symbolic.functions` has the rules for functions."""
    if name in COMMUTATIVE and data is None:
        args = tuple(sorted(args, key=lambda a: (a.kind == "number", a.label, a.key)))
    for rule in RULES.get(name, ()) if data is None else ():
        found = rule(*args)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return Expr("call", name, args, data)


# Rules by function, filled where the functions are described.
RULES: dict[str, list[Any]] = {}
# Functions whose arguments may be exchanged; filled there too.
COMMUTATIVE: set[str] = set()
