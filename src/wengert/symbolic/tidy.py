"""Tidying: the choice of the shortest among equal expressions in normal form.

Sums are where there is a choice: common factors, common denominators, products multiplied out,
squares of sine and cosine. Every candidate is made, and the smallest is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from .expr import (
    FALSE,
    FLAT_TERMS,
    MINUS_ONE,
    ONE,
    TRUE,
    ZERO,
    E,
    Expr,
    add,
    add_terms,
    base_and_exponent,
    call,
    content,
    factors_of,
    is_number,
    mul,
    number,
    power,
    scaled,
    terms_of,
)
from .functions import opposite

_ROUNDS = 6
_GROUPED_TERMS = 24
_LARGEST_BRANCH = 200


def tidy(roots: Iterable[Expr]) -> list[Expr]:
    """Return the expressions, each in the shortest form found; shared parts stay shared."""
    # Sigmoids last: e**u in a fraction is what terms are collected by.
    return _settled(transform(_settled(list(roots)), _sigmoids))


def _settled(found: list[Expr]) -> list[Expr]:
    for _ in range(_ROUNDS):
        before = [e.key for e in found]
        found = transform(found, _shortest)
        if [e.key for e in found] == before:
            break
    return found


def transform(roots: list[Expr], change: Callable[[Expr], Expr]) -> list[Expr]:
    """Return the expressions with `change` applied to every part, from the inside out."""
    done: dict[Expr, Expr] = {}
    for e in postorder(roots):
        done[e] = change(with_args(e, [done[a] for a in e.args]))
    return [done[e] for e in roots]


def postorder(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Yield every part of the expressions once, after the parts that it is made of."""
    seen: set[Expr] = set()
    stack = [(e, False) for e in roots][::-1]
    while stack:
        e, ready = stack.pop()
        if ready:
            yield e
        elif e not in seen:
            seen.add(e)
            stack.append((e, True))
            stack.extend((a, False) for a in e.args[::-1] if a not in seen)


def with_args(e: Expr, args: list[Expr]) -> Expr:
    """Return the same expression made of other parts, in normal form."""
    if all(a is b for a, b in zip(args, e.args)):
        return e
    if e.kind == "sum":
        return add_terms([*zip(e.data, args), (e.data[-1], ONE)])
    if e.kind == "product":
        return mul(number(e.data), *args)
    if e.kind == "power":
        return power(args[0], args[1])
    return call(e.name, *args, data=e.data)


def replaced(e: Expr, old: Expr, new: Expr) -> Expr:
    """Return the expression with a part replaced wherever it occurs."""
    return transform([e], lambda part: new if part == old else part)[0]


def _shortest(e: Expr) -> Expr:
    if e.kind == "product":
        return _quotients(e)
    if e.kind == "call" and e.name == "where" and e.data is None:
        return _decided(e)
    if e.kind != "sum":
        return e
    best = _merged_choices(_squares(e))
    for make in (_common_factor, _grouped, _multiplied_out):
        if best.kind != "sum":
            break
        other = make(best)
        if other is not None and other.size < best.size:
            best = other
    return best


# -- choices


def _decided(e: Expr) -> Expr:
    """Return where(c, x, y) with the choices in x and y that c decides."""
    condition = e.args[0]
    branches = []
    for branch, truth in zip(e.args[1:], (TRUE, FALSE)):
        if branch.size > _LARGEST_BRANCH:
            return e
        for part in list(postorder([branch])):
            if part.kind == "call" and part.name == "where":
                inner = part.args[0]
                if inner == condition:
                    branch = replaced(branch, inner, truth)
                elif opposite(inner, condition):
                    branch = replaced(branch, inner, FALSE if truth == TRUE else TRUE)
        if condition.kind == "call" and condition.name == "greater" and is_number(condition.args[1], 0):
            positive = condition.args[0]
            branch = replaced(branch, call("relu", positive), positive if truth == TRUE else ZERO)
        branches.append(branch)
    return call("where", condition, *branches)


# -- products


# Of two functions of one argument: by which the first is divided, and the quotient.
_QUOTIENTS = {"sin": ("cos", "tan"), "sinh": ("cosh", "tanh")}


def _quotients(e: Expr) -> Expr:
    """Return sin/cos as tan, sinh/cosh as tanh, u/|u| as sign(u), u sign(u) as |u|."""
    powers = {base: exponent.data for base, exponent in map(base_and_exponent, e.args) if exponent.kind == "number"}
    for base, n in powers.items():
        if base.kind == "call" and base.data is None:
            arg = base.args[0]
            over = _QUOTIENTS.get(base.name)
            if over is not None and powers.get(call(over[0], arg)) == -n:
                other = call(over[0], arg)
                return mul(e, power(base, number(-n)), power(other, number(n)), power(call(over[1], arg), number(n)))
            if base.name == "sign" and n == 1 and powers.get(arg, Fraction(0)) > 0:
                return mul(e, power(base, MINUS_ONE), power(arg, MINUS_ONE), call("abs", arg))
            size = powers.get(call("abs", arg), Fraction(0)) if base.name == "sign" else Fraction(0)
            if n == 1 and size.denominator == 1 and size % 2 == 1:
                return mul(e, power(base, MINUS_ONE), power(call("abs", arg), number(-size)), power(arg, number(size)))
            if base.name == "abs" and n == -1 and powers.get(arg) == 1:
                return mul(e, base, power(arg, MINUS_ONE), call("sign", arg))
    return _joined(e)


def _joined(e: Expr) -> Expr:
    """Return two sums to one power as one, where that is shorter: (1 - x)(1 + x) as 1 - x**2."""
    sums = [f for f in e.args if base_and_exponent(f)[0].kind == "sum"]
    for i, f in enumerate(sums[:_GROUPED_TERMS]):
        base, exponent = base_and_exponent(f)
        for g in sums[i + 1 : _GROUPED_TERMS]:
            other, same = base_and_exponent(g)
            product = _expanded(mul(base, other)) if same == exponent else None
            if product is not None and product.size < base.size + other.size:
                return mul(number(e.data), power(product, exponent), *(h for h in e.args if h is not f and h is not g))
    return e


def _sigmoids(e: Expr) -> Expr:
    """Return e**u/(1 + e**u) as sigmoid(u)."""
    for f in e.args if e.kind == "product" else ():
        base, exponent = base_and_exponent(f)
        if base is E and power(add(ONE, f), MINUS_ONE) in e.args:
            return mul(e, power(f, MINUS_ONE), add(ONE, f), call("sigmoid", exponent))
    return e


# -- sums


# Of functions whose squares add up to 1: the other one, and the sign before its square.
_SUMS_TO_ONE = {"sin": ("cos", 1), "cos": ("sin", 1), "cosh": ("sinh", -1)}


def _squares(e: Expr) -> Expr:
    """Return sin^2 + cos^2 as 1, 1 - sin^2 as cos^2, cosh^2 - sinh^2 as 1, each with a common factor."""
    terms = {t: c for c, t in terms_of(e)}
    for t, c in terms.items():
        for f in factors_of(t)[1]:
            base, exponent = base_and_exponent(f)
            if not (is_number(exponent, 2) and base.kind == "call" and base.name in _SUMS_TO_ONE):
                continue
            rest = mul(t, power(f, MINUS_ONE))
            partner, sign = _SUMS_TO_ONE[base.name]
            other = power(call(partner, *base.args), number(2))
            found = terms.get(mul(rest, other))
            if found == sign * c:
                return add_terms([*_without(terms, t, mul(rest, other)), (c, rest)])
            if base.name != "cosh" and terms.get(rest) == -c:
                return add_terms([*_without(terms, t, rest), (-c, mul(rest, other))])
    return e


def _without(terms: dict[Expr, Fraction], *dropped: Expr) -> list[tuple[Fraction, Expr]]:
    return [(c, t) for t, c in terms.items() if t not in dropped]


def _merged_choices(e: Expr) -> Expr:
    """Return where(c, x, 0) + where(not c, y, 0) as where(c, x, y)."""
    pairs = terms_of(e)
    choices = []
    for i, (_, t) in enumerate(pairs):
        factors = factors_of(t)[1]
        for f in factors:
            if f.kind == "call" and f.name == "where" and f.data is None:
                rest = mul(*(g for g in factors if g is not f))
                choices.append((i, f, rest))
    for i, a, rest in choices:
        for j, b, other in choices:
            if i >= j:
                continue
            left, right = (scaled(pairs[i][0], mul(rest, v)) for v in a.args[1:])
            first, second = (scaled(pairs[j][0], mul(other, v)) for v in b.args[1:])
            if a.args[0] == b.args[0]:
                merged = call("where", a.args[0], add(left, first), add(right, second))
            elif opposite(a.args[0], b.args[0]):
                merged = call("where", a.args[0], add(left, second), add(right, first))
            else:
                continue
            return _merged_choices(
                add_terms([*(p for k, p in enumerate(pairs) if k not in (i, j)), (Fraction(1), merged)])
            )
    return e


def _is_polynomial(e: Expr) -> bool:
    """Return whether every term is a product of variables and their positive powers: such sums stay as they are."""
    for _, t in terms_of(e):
        for f in factors_of(t)[1]:
            base, exponent = base_and_exponent(f)
            if base.kind not in ("symbol", "constant") or exponent.kind != "number" or exponent.data < 0:
                return False
    return True


def _exponents(t: Expr) -> dict[tuple[Expr, Expr], Fraction]:
    """Return bases, with the symbolic part of their exponents, and the exponents' numbers."""
    out: dict[tuple[Expr, Expr], Fraction] = {}
    for f in factors_of(t)[1]:
        base, exponent = base_and_exponent(f)
        k = exponent.data if exponent.kind == "number" else exponent.data[-1] if exponent.kind == "sum" else Fraction(0)
        rest = ZERO if exponent.kind == "number" else add(exponent, number(-k))
        if base.kind == "number" and rest == ZERO:
            continue
        out[base, rest] = k
    return out


def _factored(pairs: list[tuple[Fraction, Expr]]) -> Expr | None:
    """Return a sum with its terms' common factor before the bracket; None where there is none."""
    tables = [_exponents(t) for _, t in pairs]
    common: list[Expr] = []
    for base, rest in dict.fromkeys(key for table in tables for key in table):
        key = base, rest
        if rest == ZERO:
            low = min(table.get(key, Fraction(0)) for table in tables)
            if low != 0:
                common.append(power(base, number(low)))
        elif all(key in table for table in tables):
            low = min(table[key] for table in tables)
            common.append(power(base, add(rest, number(low))))
    shared = content([c for c, _ in pairs])
    if not common and shared == 1:
        return None
    outside = mul(number(shared), *common)
    inverse = power(outside, MINUS_ONE)
    bracket = add_terms((c, mul(t, inverse)) for c, t in pairs)
    return mul(outside, _shortest(bracket) if bracket.size < add_terms(pairs).size else bracket)


def _common_factor(e: Expr) -> Expr | None:
    if _is_polynomial(e):
        return None
    return _factored(terms_of(e))


def _grouped(e: Expr) -> Expr | None:
    """Return some of the terms behind a common factor, where that saves the most."""
    pairs = terms_of(e)
    if len(pairs) > _GROUPED_TERMS or len(pairs) < 3:
        return None
    users: dict[Expr, list[int]] = {}
    for i, (_, t) in enumerate(pairs):
        for base, exponent in map(base_and_exponent, factors_of(t)[1]):
            if base.kind not in ("symbol", "number", "constant") or base is E:
                users.setdefault(power(E, exponent) if base is E else base, []).append(i)
    best: Expr | None = None
    for where in users.values():
        if not 2 <= len(where) < len(pairs):
            continue
        inside = _factored([pairs[i] for i in where])
        if inside is None:
            continue
        made = _sum_with(inside, [p for i, p in enumerate(pairs) if i not in where])
        if best is None or made.size < best.size:
            best = made
    return best


def _sum_with(inside: Expr, pairs: list[tuple[Fraction, Expr]]) -> Expr:
    return add_terms([*pairs, (Fraction(1), inside)])


def _multiplied_out(e: Expr) -> Expr | None:
    """Return the sum with products of polynomials multiplied out, where something may cancel."""
    found = False
    out: list[tuple[Fraction, Expr]] = []
    for c, t in terms_of(e):
        expanded = _expanded(t)
        found = found or expanded is not None
        out.append((c, t if expanded is None else expanded))
        if len(out) > FLAT_TERMS:
            return None
    return add_terms(out) if found else None


def _expanded(t: Expr) -> Expr | None:
    sums: list[Expr] = []
    others: list[Expr] = []
    for f in factors_of(t)[1]:
        base, exponent = base_and_exponent(f)
        if base.kind == "sum" and exponent.kind == "number" and exponent.data in (1, 2, 3):
            sums += [base] * int(exponent.data)
        else:
            others.append(f)
    if not sums:
        return None
    terms = [mul(*others)]
    for s in sums:
        if len(terms) * len(s.args) > FLAT_TERMS:
            return None
        terms = [scaled(c, mul(a, b)) for a in terms for c, b in terms_of(s)]
    return add(*terms)
