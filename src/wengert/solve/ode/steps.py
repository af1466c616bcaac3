"""The step of an explicit Runge-Kutta method, the interpolant over it, and the control of step sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.errors import fail
from ...core.tensor import Tensor
from ..common import ConvergenceError
from .system import State, System, Time, combine, error_ratio, hermite, number, values
from .tableaux import Tableau


@dataclass(frozen=True)
class Step:
    """A step from time `t` over `h`: the states at both ends and the stages."""

    tableau: Tableau
    t: Time
    h: Time
    y0: State
    y1: State
    ks: list[State]
    last: State  # the derivative at the end

    def at(self, theta: Time) -> State:
        """Return the state at t + theta h."""
        polynomials = self.tableau.interpolant
        if polynomials is None:
            return hermite(self.y0, self.y1, self.ks[0], self.last, self.h, theta)
        weights: list[Any] = []
        for row in polynomials:
            w: Any = 0.0
            for coefficient in reversed(row):
                w = (w + coefficient) * theta if any(row) else 0.0
            weights.append(w)
        return combine(self.y0, self.h, self.ks, weights)


class Stepper(Protocol):
    """A maker of a method's steps; None where the step cannot be taken at this size."""

    tableau: Tableau

    def step(self, system: System, t: Time, h: Time, y: State, k: State, tolerance: tuple[float, float]) -> Step | None:
        """Return the step from (t, y) over h, where the derivative is k."""


class Explicit:
    """A maker of an explicit method's steps."""

    def __init__(self, tableau: Tableau) -> None:
        self.tableau = tableau

    def step(self, system: System, t: Time, h: Time, y: State, k: State, tolerance: tuple[float, float]) -> Step:
        """Return the step from (t, y) over h, where the derivative is k."""
        tab = self.tableau
        ks = [k]
        z = y
        for row, c in zip(tab.a[1:], tab.c[1:]):
            z = combine(y, h, ks, row)
            ks.append(system(t + c * h, z))
        y1 = z if tab.fsal else combine(y, h, ks, tab.b)
        return Step(tab, t, h, y, y1, ks, ks[-1] if tab.fsal else [])


# -- control of the step size


class Place(NamedTuple):
    """The position of a step: its two times, its start, its size, and whether it ends at the second time."""

    interval: int
    t: float
    h: float
    ends: bool

    def times(self, system: System, numbers: Sequence[float], ts: Tensor | None) -> tuple[Time, Time]:
        """Return the start and the size for a step: as functions of the times, where those have derivatives."""
        if ts is None:
            return self.t, self.h
        t = system.clock(ts[self.interval]) + (self.t - numbers[self.interval])
        return t, system.clock(ts[self.interval + 1]) - t if self.ends else self.h


@dataclass
class Stats:
    """The counts of an integration."""

    accepted: int = 0
    rejected: int = 0
    places: list[Place] = field(default_factory=list)  # of every accepted step


@dataclass(frozen=True)
class Control:
    """The tolerances and bounds of steps; `measured` is the number of leaves whose error is measured (None: all)."""

    rtol: float
    atol: float
    max_steps: int
    first_step: float | None = None
    measured: int | None = None

    @property
    def tolerance(self) -> tuple[float, float]:
        return self.rtol, self.atol


# Hairer, Norsett & Wanner 1993, II.4: the error is asked to be below 1, and steps aim at 0.9 of the size for that.
SAFETY, SHRINK, GROW = 0.9, 0.2, 10.0


def pi_factor(ratio: float, before: float, order: int) -> float:
    """Return the factor of the next step's size, from this step's error and the one's before (both over tolerance).

    Proportional-integral control: Gustafsson 1991; Soderlind 2003, Digital filters in adaptive time-stepping.
    """
    if ratio == 0.0:
        return GROW
    factor: float = SAFETY * ratio ** (-0.7 / order) * before ** (0.4 / order)
    return min(max(factor, SHRINK), GROW)


def initial_step(system: System, order: int, t: float, k: State, span: float, control: Control) -> float:
    """Return the size of a first step (Hairer, Norsett & Wanner 1993, II.4, Starting step size)."""
    m = control.measured
    y = values(system.start)[:m]
    scale = [np.zeros_like(x) for x in y]
    d0 = error_ratio(y, y, scale, *control.tolerance)
    d1 = error_ratio(values(k)[:m], y, scale, *control.tolerance)
    h0 = 0.01 * d0 / d1 if min(d0, d1) > 1e-5 else 1e-6
    h0 = min(h0, abs(span))
    sign = math.copysign(1.0, span)
    moved = values(system(t + sign * h0, combine(system.start, sign * h0, [k], [1.0])))[:m]
    with np.errstate(all="ignore"):
        change = [(a - b) / h0 for a, b in zip(moved, values(k))]
    d2 = error_ratio(change, y, scale, *control.tolerance)
    top = max(d1, d2)
    if not math.isfinite(top):
        return sign * h0
    h1 = max(1e-6, h0 * 1e-3) if top <= 1e-15 else (0.01 / top) ** (1.0 / order)
    return sign * min(100.0 * h0, h1, abs(span))


def adaptive_steps(
    system: System,
    stepper: Stepper,
    times: list[float],
    control: Control,
    stats: Stats,
    ts: Tensor | None = None,
) -> Iterator[Step]:
    """Yield the accepted steps from the first of the times to the last.

    Step sizes are numbers, chosen so that the estimated errors stay below the tolerances: derivatives go
    through the steps, not through the choice. With `ts`, the times as tensors to differentiate in, steps end
    at every time, and the last before it depends on it. Raises ConvergenceError.
    """
    tab = stepper.tableau
    t, end = times[0], times[-1]
    sign = math.copysign(1.0, end - t)
    y, k = system.start, system.first
    stops = times[1:] if tab.stops_at_outputs or ts is not None else [end]
    if not all(np.isfinite(x).all() for x in values(k)):
        fail(ConvergenceError, f"odeint: f is not finite at the first time, t = {t:.6g}", "Look at y0 and args.")
    order = tab.order
    if control.first_step is not None:
        h = sign * min(abs(control.first_step), abs(end - t))
    else:
        h = initial_step(system, order, t, k, end - t, control)
    before, grew = 1.0, True
    passed = 0
    while passed < len(stops):
        if stats.accepted + stats.rejected >= control.max_steps:
            fail(
                ConvergenceError,
                f"odeint: {control.max_steps} steps of {tab.name} reached t = {t:.6g} of {end:.6g}",
                "Raise max_steps= or the tolerances"
                + ("." if tab.implicit else '; for a stiff equation use method="kvaerno5".'),
            )
        left = stops[passed] - t
        size = left if abs(left) <= abs(h) * 1.01 else h if abs(left) > 2 * abs(h) else left / 2
        if abs(h) < 16 * system.eps * abs(t) or h == 0.0:
            _underflow(tab, t, y, k)
        place = Place(passed, t, size, size == left)
        step = stepper.step(system, *place.times(system, times, ts), y, k, control.tolerance)
        ratio = math.inf if step is None else _ratio(step, control)
        if ratio <= 1.0 and step is not None:
            stats.accepted += 1
            stats.places.append(place)
            factor = pi_factor(ratio, before, order)
            if not grew:
                factor = min(factor, 1.0)
            # A step cut short to end at an output says little about the next one's size.
            h = h if abs(size) < abs(h) and abs(size * factor) < abs(h) else size * factor
            before, grew = max(ratio, 1e-4), True
            if place.ends:
                t = stops[passed]
                passed += 1
            else:
                t = t + size
            y, k = step.y1, step.last
            yield step
        else:
            stats.rejected += 1
            h = size * (max(SHRINK, SAFETY * ratio ** (-1.0 / order)) if math.isfinite(ratio) else 0.25)
            grew = False


def fixed_steps(
    system: System, stepper: Stepper, grid: Sequence[tuple[Time, Time]], control: Control, stats: Stats, slopes: bool
) -> Iterator[Step]:
    """Yield steps of given sizes; with `slopes` each knows the derivative at its end.

    Raises ConvergenceError where the iterations of an implicit method do not converge.
    """
    y, k = system.start, system.first
    for i, (t, h) in enumerate(grid):
        step = stepper.step(system, t, h, y, k, control.tolerance)
        if step is None:
            fail(
                ConvergenceError,
                f"odeint: step {i} of {stepper.tableau.name} does not converge",
                "Take more steps=, or a method that chooses them.",
            )
        if not stepper.tableau.fsal and (slopes or i + 1 < len(grid)):
            step = replace(step, last=system(t + h, step.y1))
        stats.accepted += 1
        y, k = step.y1, step.last
        yield step


def _ratio(step: Step, control: Control) -> float:
    error = step.tableau.error
    assert error is not None
    m = control.measured
    y0, y1 = values(step.y0)[:m], values(step.y1)[:m]
    h = number(step.h)
    parts = []
    with np.errstate(all="ignore"):
        for i in range(len(y0)):
            parts.append(sum(k[i]._array * (h * w) for w, k in zip(error, step.ks) if w != 0.0))
        # Leaves in which the error is not measured must be finite all the same.
        finite = all(np.isfinite(x).all() for x in values(step.y1))
    ratio = error_ratio(parts, y0, y1, *control.tolerance)
    return ratio if math.isfinite(ratio) and finite else math.inf


def _underflow(tab: Tableau, t: float, y: State, k: State) -> None:
    finite = all(np.isfinite(x).all() for x in values(k))
    fail(
        ConvergenceError,
        f"odeint: the step size of {tab.name} underflows at t = {t:.6g}"
        + ("" if finite else ", where f is not finite"),
        "The solution may end there (a pole, a negative argument of a root), or jump."
        + ("" if tab.implicit else ' For a stiff equation use method="kvaerno5".'),
    )
