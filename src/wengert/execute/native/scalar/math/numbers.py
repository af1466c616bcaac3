"""Numbers in native code with operators, and the functions that formulas ask their namespace for.

The formulas of `ops/special` that take `xp` are written in this way as they stand there: for one number at a time, with
the sums over a quadrature rule's nodes by vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...codegen.builder import Builder, Value
from ...codegen.types import F64, I64
from . import base
from .exp import exp, expm1
from .gamma import digamma, lgamma
from .log import log, log1p

# The nodes of a quadrature rule that are computed at once.
_LANES = 8


class Truth:
    """A condition: the result of comparing numbers."""

    __slots__ = ("b", "value")

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.b, self.b.and_(self.value, other.value))

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.b, self.b.or_(self.value, other.value))

    def __invert__(self) -> Truth:
        return Truth(self.b, self.b.not_(self.value))


class Number:
    """A float64, or a vector of them: what is combined with a vector is one too."""

    __slots__ = ("b", "value", "_factors")

    def __init__(self, b: Builder, value: Value, factors: tuple[Value, Value] | None = None) -> None:
        self.b = b
        self.value = value
        self._factors = factors

    def _both(self, other: Number | float) -> tuple[Value, Value]:
        x = self.value
        y = other.value if isinstance(other, Number) else self.b.const(x.type, float(other))
        lanes = max(x.type.lanes, y.type.lanes)
        return self.b.splat(x, lanes), self.b.splat(y, lanes)

    def _made(self, name: str, other: Number | float, swapped: bool = False) -> Number:
        x, y = self._both(other)
        return Number(self.b, getattr(self.b, name)(*((y, x) if swapped else (x, y))))

    def _compared(self, how: str, other: Number | float) -> Truth:
        return Truth(self.b, self.b.fcmp(how, *self._both(other)))

    def __add__(self, other: Number | float) -> Number:
        return self._made("fadd", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._made("fsub", other)

    def __mul__(self, other: Number | float) -> Number:
        return self._made("fmul", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._made("fdiv", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Number:
        return self._made("fsub", other, True)

    def __rtruediv__(self, other: float) -> Number:
        return self._made("fdiv", other, True)

    def __imul__(self, other: Number | float) -> Number:
        x, y = self._both(other)
        return Number(self.b, self.b.fmul(x, y), (x, y))

    def __iadd__(self, other: Number | float) -> Number:
        """Add in place: to a product in place by one rounding, as in Horner's rule."""
        if self._factors is None:
            return self + other
        _, y = self._both(other)
        return Number(self.b, self.b.fma(*self._factors, y))

    def __neg__(self) -> Number:
        return Number(self.b, self.b.fneg(self.value))

    def __pow__(self, exponent: int) -> Number:
        """Return a power whose exponent is a whole number, at least 0, by products."""
        out: Number | None = None
        factor = self
        while exponent:
            if exponent & 1:
                out = factor if out is None else out * factor
            exponent >>= 1
            if exponent:
                factor = factor * factor
        return Number(self.b, self.b.const(self.value.type, 1.0)) if out is None else out

    def __lt__(self, other: Number | float) -> Truth:
        return self._compared("olt", other)

    def __le__(self, other: Number | float) -> Truth:
        return self._compared("ole", other)

    def __gt__(self, other: Number | float) -> Truth:
        return self._compared("ogt", other)

    def __ge__(self, other: Number | float) -> Truth:
        return self._compared("oge", other)

    def equals(self, other: Number | float) -> Truth:
        """Return whether both are the same number."""
        return self._compared("oeq", other)


class Functions:
    """The functions of numbers, by their names in NumPy."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def _of_one(self, fn: Callable[[Builder, Value], Value], x: Number) -> Number:
        return Number(self.b, fn(self.b, x.value))

    def exp(self, x: Number) -> Number:
        return self._of_one(exp, x)

    def expm1(self, x: Number) -> Number:
        return self._of_one(expm1, x)

    def log(self, x: Number) -> Number:
        return self._of_one(log, x)

    def log1p(self, x: Number) -> Number:
        return self._of_one(log1p, x)

    def sqrt(self, x: Number) -> Number:
        return self._of_one(base.sqrt, x)

    def abs(self, x: Number) -> Number:
        return self._of_one(base.fabs, x)

    def rint(self, x: Number) -> Number:
        return self._of_one(base.rint, x)

    def ceil(self, x: Number) -> Number:
        return self._of_one(base.ceil, x)

    def lgamma(self, x: Number) -> Number:
        return self._of_one(lgamma, x)

    def digamma(self, x: Number) -> Number:
        return self._of_one(digamma, x)

    def constant(self, number: float) -> Number:
        """Return a number that is known."""
        return Number(self.b, self.b.const(F64, number))

    def full_like(self, x: Number, number: float) -> Number:
        return Number(self.b, self.b.const(x.value.type, number))

    def maximum(self, x: Number, y: Number | float) -> Number:
        return self.where(x > y, x, y)

    def minimum(self, x: Number, y: Number | float) -> Number:
        return self.where(x < y, x, y)

    def clip(self, x: Number, low: float, high: float) -> Number:
        return self.minimum(self.maximum(x, low), high)

    def where(self, condition: Truth, x: Number | float, y: Number | float) -> Number:
        """Return x or y, both of which are computed."""
        lanes = condition.value.type.lanes
        both = [
            self.b.splat(v.value, lanes) if isinstance(v, Number) else self.b.const(F64.vector(lanes), v)
            for v in (x, y)
        ]
        return Number(self.b, self.b.select(condition.value, both[0], both[1]))

    def either(
        self, condition: Truth, then: Callable[[], Sequence[Number]], otherwise: Callable[[], Sequence[Number]]
    ) -> list[Number]:
        """Return the numbers of one of two branches, which alone is computed."""
        found = self.b.either(
            condition.value, lambda: [n.value for n in then()], lambda: [n.value for n in otherwise()]
        )
        return [Number(self.b, v) for v in found]

    def choose(self, *pieces: tuple[Truth, Callable[[], Number]], otherwise: Callable[[], Number]) -> Number:
        """Return the piece whose condition is the first to hold; no other is computed."""
        if not pieces:
            return otherwise()
        (condition, piece), *rest = pieces
        return self.either(condition, lambda: [piece()], lambda: [self.choose(*rest, otherwise=otherwise)])[0]

    def repeat(
        self, count: Number, begin: Sequence[Number], step: Callable[[Number, list[Number]], Sequence[Number]]
    ) -> list[Number]:
        """Return what `step` makes of numbers when it is done for k = 1 .. count; `count` is small and not NaN."""
        stop = self.b.cast("fptosi", count.value, I64)
        with self.b.loop(0, stop, carried=[n.value for n in begin]) as loop:
            k = Number(self.b, self.b.cast("sitofp", loop.index, F64)) + 1.0
            loop.carry(*(n.value for n in step(k, [Number(self.b, v) for v in loop.values])))
        return [Number(self.b, v) for v in loop.results]

    def until(
        self,
        most: int,
        begin: Sequence[Number],
        step: Callable[[Number, list[Number]], Sequence[Number]],
        going: Callable[[list[Number]], Truth],
    ) -> list[Number]:
        """Return what `step` makes of numbers, for k = 1, 2, ..., while `going` of them holds, `most` times at most."""
        numbers = lambda values: [Number(self.b, v) for v in values]
        first = [n.value for n in begin]
        with self.b.loop(0, most, carried=first, going=lambda values: going(numbers(values)).value) as loop:
            k = Number(self.b, self.b.cast("sitofp", loop.index, F64)) + 1.0
            loop.carry(*(n.value for n in step(k, numbers(loop.values))))
        return numbers(loop.results)

    def summed(self, columns: Sequence[Any], terms: Callable[..., Sequence[Number]]) -> list[Number]:
        """Return the sums over the nodes of a quadrature rule: in the lanes of a vector, and then of all lanes."""
        b, count = self.b, len(columns[0])
        if count % _LANES:
            raise ValueError(f"a quadrature rule of {count} nodes, which are no multiple of {_LANES}")
        tables = [b.table(F64, np.asarray(c).tolist()) for c in columns]
        type = F64.vector(_LANES)

        def of(at: Value) -> list[Number]:
            return list(terms(*(Number(b, b.load(type, b.offset(t, at, F64))) for t in tables)))

        first = [n.value for n in of(b.index(0))]
        with b.loop(_LANES, count, _LANES, carried=first) as loop:
            loop.carry(*(b.fadd(t, n.value) for t, n in zip(loop.values, of(loop.index), strict=True)))
        return [Number(b, b.sum_lanes(t)) for t in loop.results]


Function = Callable[..., Number]


def one_by_one(function: Function) -> Callable[..., Value]:
    """Return a function `function(xp, *numbers, **attrs)` of float64 as one of values of any float type.

    Lanes are taken one by one, in a loop, so that each goes through the branches that it needs alone.
    """

    def of_values(b: Builder, *xs: Value, **attrs: Any) -> Value:
        if xs[0].type.bits != 64:
            return base.narrowed(b, of_values(b, *(base.widened(b, x) for x in xs), **attrs))
        lanes = xs[0].type.lanes
        if not lanes:
            return function(Functions(b), *(Number(b, x) for x in xs), **attrs).value
        with b.loop(0, lanes, carried=[b.const(xs[0].type, 0.0)]) as loop:
            numbers = [Number(b, b.extract(x, loop.index)) for x in xs]
            found = function(Functions(b), *numbers, **attrs)
            loop.carry(b.insert(loop.values[0], found.value, loop.index))
        return loop.results[0]

    of_values.__name__, of_values.__doc__ = function.__name__, function.__doc__
    return of_values
