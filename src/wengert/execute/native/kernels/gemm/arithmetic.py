"""The arithmetic of a product's tiles: how numbers of A and B are read, and what a step adds to the sums."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import BF16, F32, I32, Target, Type
from ...scalar.fp16 import convert
from ...scalar.pairs import dot, dot_widened, has_dot, widened

Numbers = tuple[Value, ...]


class Arithmetic(NamedTuple):
    """Sums of one type, of numbers of A and B as memory holds them.

    A "plain" step takes one number along the inner axis, and widens it in registers where it is a half-precision one.
    "pairs" of bfloat16 are taken two in a step, by one instruction; "widened" ones as well, but by two multiply-adds.
    """

    type: Type
    a: Type
    b: Type
    how: Literal["plain", "pairs", "widened"] = "plain"

    @property
    def per(self) -> int:
        """The numbers along the inner axis that a step takes; they lie side by side."""
        return 1 if self.how == "plain" else 2

    @property
    def key(self) -> str:
        return f"{self.type.text} {self.a.text} {self.b.text} {self.how}"

    def row(self, b: Builder, pointer: Value, lanes: int) -> Numbers:
        """Return the numbers of a row of A, in all lanes."""
        if self.how == "plain":
            return (b.splat(convert(b, b.load(self.a, pointer), self.type), lanes),)
        pair = b.splat(b.load(I32, pointer, align=self.a.size), lanes)
        return widened(b, pair) if self.how == "widened" else (pair,)

    def columns(self, b: Builder, pointer: Value, lanes: int, mask: Value | None) -> Numbers:
        """Return the numbers of a vector of columns of B."""
        type = (self.b if self.how == "plain" else I32).vector(lanes)
        found = b.load(type, pointer, align=self.b.size) if mask is None else b.masked_load(type, pointer, mask)
        if self.how == "plain":
            return (convert(b, found, self.type),)
        return widened(b, found) if self.how == "widened" else (found,)

    def add(self, b: Builder, x: Numbers, y: Numbers, total: Value) -> Value:
        """Return a sum and the products of a step."""
        if self.how == "pairs":
            return dot(b, y[0], x[0], total)
        if self.how == "widened":
            return dot_widened(b, (x[0], x[1]), (y[0], y[1]), total)
        return b.fma(x[0], y[0], total) if self.type.is_float else b.add(b.mul(x[0], y[0]), total)

    def plus(self, b: Builder, x: Value, y: Value) -> Value:
        """Return the sum of two sums."""
        return b.fadd(x, y) if self.type.is_float else b.add(x, y)


def takes_pairs(target: Target, x: Type, y: Type) -> bool:
    """Return whether products of these operands are sums of pairs, by an instruction."""
    return x == y == BF16 and has_dot(target)


PAIRS = Arithmetic(F32, BF16, BF16, "pairs")
