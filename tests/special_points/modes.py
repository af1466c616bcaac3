"""Derivatives of every order by every mode: nested reverse and forward passes, Taylor mode, compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

import wengert as wg

from .cases import Case
from .oracle import RESOLUTION, derivatives, sequences

# Relative to a derivative itself, and to the largest at the same point.
TOLERANCE, ROUNDING = 1e-7, 2e-14
# What is larger may leave the range on the way.
OVERFLOW = 1e100


def _reverse(fn: Callable[..., Any], argument: int) -> Callable[..., Any]:
    return wg.grad(lambda *xs: fn(*xs).sum(), argnums=argument)


def _forward(fn: Callable[..., Any], argument: int) -> Callable[..., Any]:
    def pushed(*xs: Any) -> Any:
        def along(x: Any) -> Any:
            return fn(*xs[:argument], x, *xs[argument + 1 :])

        return wg.jvp(along, (xs[argument],), (wg.ones_like(xs[argument]),))[1]

    return pushed


def _nested(step: Callable[..., Any], case: Case) -> dict[tuple[int, ...], Callable[..., Any]]:
    """Return the derivatives of a case by the arguments to differentiate in, the first first."""
    found: dict[tuple[int, ...], Callable[..., Any]] = {(): case.fn}
    for sequence in sorted({s for orders in expected(case)[0] for s in sequences(orders)}, key=len):
        if sequence:
            found[sequence] = step(found[sequence[:-1]], sequence[-1])
    return found


def reverse(case: Case, xs: list[Any]) -> dict[tuple[int, ...], Any]:
    return {s: fn(*xs) for s, fn in _nested(_reverse, case).items()}


def forward(case: Case, xs: list[Any]) -> dict[tuple[int, ...], Any]:
    return {s: fn(*xs) for s, fn in _nested(_forward, case).items()}


def taylor(case: Case, xs: list[Any]) -> dict[tuple[int, ...], Any]:
    """Return derivatives along one argument, the others being constant."""
    found = {}
    for a in range(len(xs)):

        def along(x: Any, a: int = a) -> Any:
            return case.fn(*xs[:a], x, *xs[a + 1 :])

        found |= {(a,) * k: d for k, d in enumerate(wg.taylor(along, xs[a], case.order))}
    return found


def compiled(case: Case, xs: list[Any]) -> dict[tuple[int, ...], Any]:
    made = _nested(_reverse, case)
    values = wg.jit(lambda *xs: tuple(fn(*xs) for fn in made.values()))(*xs)
    return dict(zip(made, values, strict=True))


MODES: Mapping[str, Callable[[Case, list[Any]], dict[tuple[int, ...], Any]]] = {
    "reverse": reverse,
    "forward": forward,
    "taylor": taylor,
    "compiled": compiled,
}


@cache
def _expected(exact: Any, points: Any, order: int) -> list[Any]:
    return [derivatives(exact, p, order) for p in points]


def expected(case: Case) -> list[dict[tuple[int, ...], float | None]]:
    """Return the right derivatives at the case's points, without those outside of the domain."""
    return [found for found in _expected(case.exact, case.points, case.order) if found is not None]


def points(case: Case) -> list[tuple[float, ...]]:
    """Return the points inside the domain."""
    found = _expected(case.exact, case.points, case.order)
    return [p for p, at in zip(case.points, found, strict=True) if at is not None]


def arguments(case: Case) -> list[Any]:
    """Return a tensor for each argument, of all points."""
    return [wg.tensor(np.array(column)) for column in zip(*points(case), strict=True)]


def faults(case: Case, mode: str) -> list[str]:
    """Return what a mode gives wrong: derivatives that exist and differ from the right ones."""
    found = MODES[mode](case, arguments(case))
    wrong = []
    for sequence, values in found.items():
        orders = tuple(sequence.count(a) for a in range(len(case.points[0])))
        for p, right, got in zip(points(case), expected(case), np.asarray(values), strict=True):
            want = right[orders]
            if want is None or abs(want) > OVERFLOW:
                continue
            scale = max(
                [abs(v) for k, v in right.items() if v is not None and any(k) and abs(v) < OVERFLOW]
                + [1.0 * case.as_about_1]
            )
            if not abs(got - want) <= TOLERANCE * abs(want) + ROUNDING * scale + RESOLUTION:
                wrong.append(f"{case.name} at {p}, differentiated in {sequence}: {got:.9g}, right is {want:.9g}")
    return wrong
