"""Costs for declarations: operations of elementary functions, and rules that several ops share.

One addition, multiplication or comparison of real numbers counts 1, other functions what a good implementation takes,
rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .facets import Count
from .op import Op

# A quotient or a root; an exponential, a logarithm or an angle; a power; what has no cost of its own.
DIVISION, TRANSCENDENTAL, POWER, SPECIAL = 4, 15, 30, 60


def cost_of(op: Op) -> int | Count | None:
    """Return the cost that an op declares; None where it declares none and is not elementwise."""
    return op.facets.get("cost", SPECIAL if op.kind == "elementwise" else None)


def cube(words: str, numerator: int, denominator: int = 1) -> Count:
    """Return the rule that counts a multiple of n^3 for every matrix, of an op whose first operand is square."""

    def count(node: Any, specs: Sequence[Any], out: Any) -> Any:
        x = specs[0]
        return x.size * x.shape[-1] * numerator // denominator

    return Count(words, count)


def rectangle(words: str, a: int, b: int, c: int = 1) -> Count:
    """Return the rule that counts (a m n^2 + b n^3) / c for every matrix, n the smaller size."""

    def count(node: Any, specs: Sequence[Any], out: Any) -> Any:
        x = specs[0]
        n = min(x.shape[-1], x.shape[-2])
        matrices = x.size // (x.shape[-1] * x.shape[-2]) if x.size else 0
        m = max(x.shape[-1], x.shape[-2])
        return matrices * (a * m * n * n + b * n * n * n) // c

    return Count(words, count)


# Of an op that sums products along the last axis of its first operand.
MATRIX_PRODUCT = Count("2 m n k", lambda node, specs, out: 2 * out.size * specs[0].shape[-1])


def _power(node: Any, specs: Sequence[Any], out: Any) -> Any:
    exponent = node.inputs[1]
    if not isinstance(exponent, (int, float)) or abs(exponent) > _WHOLE:
        return out.size * POWER
    root, whole = abs(exponent) == 0.5, int(abs(exponent))
    if not root and whole != abs(exponent):
        return out.size * POWER
    # Squares, and products with those that are needed.
    products = 0 if root or whole < 2 else whole.bit_length() + whole.bit_count() - 2
    return out.size * (products + DIVISION * (root + (exponent < 0)))


# Whole powers up to here are products.
_WHOLE = 8
RAISING = Count("30 for each element; products for a small whole exponent, 4 for a root", _power)


def _sorting(node: Any, specs: Sequence[Any], out: Any) -> int:
    x = specs[0]
    return round(float(x.size) * log2_of(x.shape[node.attrs.get("axis", -1)]))


SORTING = Count("n log2 n comparisons", _sorting)


def product_of(sizes: Iterable[Any]) -> Any:
    """Return the product of sizes, of which some may be unknown."""
    out: Any = 1
    for n in sizes:
        out = out * n
    return out


def log2_of(n: Any) -> float:
    """Return the binary logarithm of a size, 0 of no elements; raise GraphError where the size is unknown."""
    return math.log2(float(n) or 1.0)
