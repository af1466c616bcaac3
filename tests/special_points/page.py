"""The page of the docs on derivatives where there are none: what every function with a kink gives there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from .cases import Case, composites, of_the_table
from .modes import arguments, expected, points, reverse

_INTRODUCTION = """# Special points

<!-- Written by scripts/generate.py from tests/special_points: do not edit. -->

After this page you know which derivatives Wengert gives at 0, at kinks and for very large arguments.

If a function has a derivative, Wengert gives it: at 0, at whole numbers, at equal arguments and for very large
arguments, in reverse, forward and Taylor mode and in compiled code. The tests compare orders 1 to 4 with mpmath, for
every elementwise operation of one or two numbers, for losses, distances, special functions and densities of
`wg.distributions`.

Some functions are smooth although a part of them is not. Examples are even powers of `wg.abs`, of Euclidean norms,
of `wg.std` and of `wg.hypot`: the second derivative of `wg.linalg.norm(x) ** 2` at 0 is 2. This holds for the power
itself, for `wg.square` and for `n * n`. It does not hold if something else is between the norm and the power.
Derivatives with respect to the part (by a hook, `retain_grad` or `wg.autograd.grad`) stay as they are.

Functions of eigenvalues in any order, as `(wg.linalg.eigvalsh(x) ** 3).sum()`, are smooth where eigenvalues are equal,
though no single eigenvalue is. Their first derivative is right there. Those of higher orders are NaN, as in PyTorch and
JAX: the rule divides by differences of eigenvalues. A function of the matrix has them all: the trace of
`wg.linalg.matrix_power(x, 3)`, `wg.linalg.det`, `slogdet`, `expm`. The same holds for singular values.

Distances between equal points are kinks. The gradient of `wg.sqrt` of a sum of squares is NaN there (infinity times 0).
Those of `wg.linalg.vector_norm` and `torch.cdist` are 0.

Two things to know about digits:

- The slopes of `sigmoid` and `tanh` are computed from their results. For large arguments the results are near 1,
  so the slopes are inaccurate: the slope of `sigmoid` at 40 is 0 in float64.
- A derivative that is a sum of parts is NaN if parts of opposite signs leave the range, as the third one of
  `wg.special.betainc(0.5, 0.5, x)` at 1e-300 does. Powers, with exponents of any kind, are right there.

## Where there is no derivative

At a kink there is none. There Wengert gives the number in this table, in forward and in reverse mode. The third column
is the first order that does not exist. A derivative of a higher order is computed as if the numbers in this table were
right.

| function | at | order | what Wengert gives |
| --- | --- | --- | --- |"""

Row = tuple[str, tuple[float, ...], int, dict[tuple[int, ...], Any]]


def kinks_of(cases: Iterable[Case]) -> Iterator[Row]:
    """Yield name, point, the first order without a derivative, and what reverse mode gives, for the points of cases."""
    for case in cases:
        at_kinks = [
            (p, {k for k, v in right.items() if v is None})
            for p, right in zip(points(case), expected(case), strict=True)
            if None in right.values()
        ]
        if not at_kinks:
            continue
        found = reverse(case, arguments(case))
        for p, missing in at_kinks:
            i = points(case).index(p)
            order = max(1, min(sum(k) for k in missing))
            yield case.name, p, order, {s: np.asarray(v)[i] for s, v in found.items() if len(s) == order}


def _told(case: Case, found: dict[tuple[int, ...], Any]) -> str:
    """Return derivatives in words: `d/dx = 0.5, d/dy = 0.5`."""
    letters = "xy"
    parts = []
    for sequence, value in sorted(found.items()):
        below = " ".join(f"d{letters[a]}" for a in sequence) if len(case.points[0]) == 2 else _power(len(sequence))
        above = "d" if len(sequence) == 1 else f"d^{len(sequence)}"
        parts.append(f"{above}/{below} = {float(value) + 0.0:.6g}")
    return ", ".join(parts)


def _power(order: int) -> str:
    return "dx" if order == 1 else f"dx^{order}"


def _at(point: tuple[float, ...]) -> str:
    return f"{point[0]:g}" if len(point) == 1 else "(" + ", ".join(f"{p:g}" for p in point) + ")"


def page() -> str:
    """Return the page."""
    cases = [*of_the_table(), *(c for c in composites() if " by " not in c.name and not c.is_slow)]
    by_name = {c.name: c for c in cases}
    rows: dict[tuple[str, int, str], list[str]] = {}
    for name, point, order, found in kinks_of(by_name.values()):
        if not any(0.0 < abs(p) < 1e-200 for p in point):
            rows.setdefault((name, order, _told(by_name[name], found)), []).append(_at(point))
    lines = [_INTRODUCTION]
    for (name, order, told), at in rows.items():
        lines.append(f"| `{name}` | {', '.join(at)} | {order} | {told} |")
    return "\n".join([*lines, ""])
