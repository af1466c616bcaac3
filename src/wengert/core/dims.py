"""Sizes that are not known until a graph is fed: polynomials in named unknowns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn

from .errors import GraphError, fail

# What an unknown size counts as where a rule must compare it with a number (is it smaller than the
# kernel?). It is never a number that anything is computed with.
_PROBE = 100_003

# Formulas that are longer are refused, and products of sums of more terms: what they are made of can be told from no
# program, and a line of a document could ask for any number of them.
_MOST_LENGTH = 1000
_MOST_PRODUCTS = 256
_MOST_BITS = 64
_MOST_POWER = 8


class Dim:
    """An unknown size, or a polynomial of unknown sizes.

    Shape rules compute with it as with any size: sums, differences, products and floor quotients stay
    symbolic, equal only to the same polynomial. It is no int, so that nothing can take it for a
    number by mistake: what needs the number is told that it is not known. `bind` gives it.
    """

    __slots__ = ("terms",)

    # Coefficients by monomial; a monomial is a sorted tuple of atoms, an atom a named size or a
    # quotient that does not divide evenly, which is kept with what it is the quotient of.
    terms: Mapping[Monomial, int]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms

    @classmethod
    def named(cls, name: str) -> Any:
        """Return the unknown size called `name`."""
        return cls({(Atom(name),): 1})

    def bind(self, sizes: Mapping[str, int]) -> int:
        """Return the size as a number, given the named sizes."""
        return _value(self.terms, sizes)

    def is_natural(self) -> bool:
        """Return whether the formula shows that the size is never negative: nothing is taken off in it."""
        return _is_natural(self.terms)

    # What is compared with no number, such as a tensor, compares by itself.

    def __eq__(self, other: object) -> Any:
        return self.terms == other.terms if isinstance(other, Dim) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return _formula(self.terms)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __lt__(self, other: Any) -> Any:
        return _value(self.terms, None) < _value(_terms(other), None) if _is_number(other) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return _value(self.terms, None) > _value(_terms(other), None) if _is_number(other) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return self == other or self < other if _is_number(other) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self == other or self > other if _is_number(other) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return _made(_sum(self.terms, _terms(other))) if isinstance(other, _SIZES) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, _SIZES) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, _SIZES) else NotImplemented

    def __neg__(self) -> Any:
        return self * -1

    def __mul__(self, other: Any) -> Any:
        return _made(_product(self.terms, _terms(other))) if isinstance(other, _SIZES) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return _made(_quotient(self.terms, _terms(other))) if isinstance(other, _SIZES) else NotImplemented

    def __rfloordiv__(self, other: Any) -> Any:
        return _made(_quotient(_terms(other), self.terms)) if isinstance(other, _SIZES) else NotImplemented

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other if isinstance(other, _SIZES) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if isinstance(other, _SIZES) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if isinstance(other, _SIZES) else NotImplemented

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self if isinstance(other, _SIZES) else NotImplemented

    def __pow__(self, other: Any) -> Any:
        if type(other) is not int or not 0 <= other <= _MOST_POWER:
            self._unknown()
        return math.prod([self] * other)

    def __rpow__(self, other: Any) -> Any:
        self._unknown()

    def __truediv__(self, other: Any) -> Any:
        self._unknown()

    def __rtruediv__(self, other: Any) -> Any:
        self._unknown()

    def __float__(self) -> float:
        self._unknown()

    def __int__(self) -> int:
        self._unknown()

    def __index__(self) -> int:
        self._unknown()

    def _unknown(self) -> NoReturn:
        fail(
            GraphError,
            f"the size {self} is not known until the graph is fed",
            "Compute with tensors instead of Python numbers, or give the placeholder this size.",
        )


@dataclass(frozen=True, slots=True)
class Atom:
    """A named unknown size, or the floor of a quotient of two polynomials."""

    name: str
    parts: tuple[tuple[tuple[Monomial, int], ...], tuple[tuple[Monomial, int], ...]] | None = None

    def value(self, sizes: Mapping[str, int] | None) -> int:
        if self.parts is None:
            return _PROBE if sizes is None else sizes[self.name]
        above, below = (_value(dict(p), sizes) for p in self.parts)
        if below == 0:
            fail(GraphError, f"the size {self.name} is a quotient by 0")
        return above // below


_SIZES = (int, Dim)

Monomial = tuple[Atom, ...]
Terms = Mapping[Monomial, int]


def _value(terms: Terms, sizes: Mapping[str, int] | None) -> int:
    return sum(k * math.prod(a.value(sizes) for a in monomial) for monomial, k in terms.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, (Dim, Real))


def _is_natural(terms: Terms) -> bool:
    parts = [dict(p) for monomial in terms for a in monomial for p in a.parts or ()]
    return all(k >= 0 for k in terms.values()) and all(map(_is_natural, parts))


def _terms(value: Any) -> Terms:
    return value.terms if isinstance(value, Dim) else {(): int(value)}


def _made(terms: Terms) -> int | Dim:
    """Return a Dim, or a plain number where the polynomial is constant."""
    kept = {m: k for m, k in terms.items() if k}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    if sum(len(a.name) + 1 for monomial in kept for a in monomial) > _MOST_LENGTH:
        fail(GraphError, f"a size that is a formula of more than {_MOST_LENGTH:,} characters")
    if any(k.bit_length() > _MOST_BITS for k in kept.values()):
        fail(GraphError, "a size with a coefficient that no size reaches")
    return Dim(kept)


def _sum(a: Terms, b: Terms) -> Terms:
    out = dict(a)
    for monomial, k in b.items():
        out[monomial] = out.get(monomial, 0) + k
    return out


def _product(a: Terms, b: Terms) -> Terms:
    if len(a) * len(b) > _MOST_PRODUCTS:
        fail(GraphError, f"a size that is a product of sums of {len(a)} and of {len(b)} terms")
    out: dict[Monomial, int] = {}
    for m, k in a.items():
        for n, j in b.items():
            monomial = tuple(sorted(m + n, key=lambda atom: atom.name))
            out[monomial] = out.get(monomial, 0) + k * j
    return out


def _quotient(a: Terms, b: Terms) -> Terms:
    if not any(b.values()):
        fail(GraphError, f"the size {_formula(a)} divided by 0")
    if len(b) == 1:
        ((divisor, j),) = b.items()
        out: dict[Monomial, int] = {}
        for monomial, k in a.items():
            rest = list(monomial)
            if j == 0 or k % j or any(divisor.count(d) > rest.count(d) for d in divisor):
                break
            for d in divisor:
                rest.remove(d)
            out[tuple(rest)] = k // j
        else:
            return out
    atom = Atom(f"(({_formula(a)}) // ({_formula(b)}))", (tuple(a.items()), tuple(b.items())))
    return {(atom,): 1}


def _formula(terms: Terms) -> str:
    parts = []
    for monomial, k in terms.items():
        factors = [a.name for a in monomial]
        if k != 1 or not factors:
            factors.insert(0, str(k))
        parts.append("*".join(factors))
    return " + ".join(parts).replace("+ -", "- ")


def bind_dims(value: Any, sizes: Mapping[str, int]) -> Any:
    """Return an attribute with its unknown sizes replaced by numbers."""
    if isinstance(value, Dim):
        return value.bind(sizes)
    if isinstance(value, tuple):
        return tuple(bind_dims(v, sizes) for v in value)
    return value


def is_undecided(difference: Any) -> bool:
    """Return whether a difference of sizes, which is not 0 as a formula, may be 0: where a quotient may be whole."""
    return isinstance(difference, Dim) and any(a.parts is not None for monomial in difference.terms for a in monomial)


def has_dims(value: Any) -> bool:
    """Return whether an attribute or shape holds an unknown size."""
    if isinstance(value, tuple):
        return any(has_dims(v) for v in value)
    return isinstance(value, Dim)
