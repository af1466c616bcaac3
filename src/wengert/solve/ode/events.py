"""Events of an integration: where a function of the state passes through 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import wengert as wg

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.spec import category
from ...core.tensor import Tensor, asarray
from .steps import Step
from .system import State, System, Time, number


@dataclass(frozen=True)
class Event:
    """The event that `fn(t, y, *args)`, a scalar, passes through 0.

    Parameters
    ----------
    fn: with the arguments of the equation's right-hand side.
    terminal: end the integration there.
    direction: 1 for passing upwards only, -1 for downwards only, 0 for both.

    >>> import wengert as wg
    >>> ground = wg.solve.Event(lambda t, y: y[0], direction=-1)
    >>> found = wg.solve.odeint(lambda t, y: wg.stack([y[1], -9.81]), wg.tensor([10.0, 0.0]), [0.0, 5.0], event=ground)
    >>> found.event_t
    tensor([1.4278])
    """

    fn: Callable[..., Any]
    terminal: bool = True
    direction: int = 0

    def __post_init__(self) -> None:
        if self.direction not in (-1, 0, 1):
            fail(RangeError, f"Event with direction {self.direction!r}", "It is 1 (upwards), -1 (downwards) or 0.")


class Watch:
    """A search for an event in step after step."""

    def __init__(self, event: Event, system: System, t0: float) -> None:
        self.event, self.system = event, system
        with wg.no_grad():
            self.before = self._number(t0, system.start)
        self.times: list[Tensor] = []
        self.states: list[State] = []

    def _number(self, t: float, y: State) -> float:
        return number(self._scalar(t, y))

    def _scalar(self, t: Time, y: State) -> Tensor:
        found = self.system.of_state(self.event.fn, t, y)
        g = found if isinstance(found, Tensor) else asarray(found)
        if g.size != 1:
            fail(ShapeError, f"odeint: the event function returned {g.spec}, not a scalar")
        if category(g.dtype) != 2:
            fail(
                DTypeError,
                f"odeint: the event function returned {g.spec}",
                "It returns a real number that changes sign.",
            )
        scalar: Tensor = g.reshape(())
        return scalar

    def look(self, step: Step) -> bool:
        """Return whether the step has the event in it, which is then located."""
        t, h = number(step.t), number(step.h)
        with wg.no_grad():
            after = self._number(t + h, step.y1)
            before, self.before = self.before, after
            up = before < 0.0 <= after
            down = before > 0.0 >= after
            if not ((up and self.event.direction >= 0) or (down and self.event.direction <= 0)):
                return False
            theta = _root(lambda x: self._number(t + x * h, step.at(x)), before, after)
        when, state = self._differentiable(step, theta)
        self.times.append(when)
        self.states.append(state)
        return True

    def _differentiable(self, step: Step, theta: float) -> tuple[Tensor, State]:
        """Return the time and the state of the event, as functions of the step's parts.

        Two Newton steps from the root found: each doubles the order to which the derivatives of the root are
        those of the implicit function theorem, so they are right up to the third.
        """
        system = self.system
        start, h = system.clock(step.t), step.h
        x = asarray(theta, dtype=system.dtype)

        def of(x: Tensor) -> Tensor:
            return self._scalar(start + x * h, step.at(x))

        if any(leaf.requires_grad for leaf in (*step.y1, start)) or of(x).requires_grad:
            for _ in range(2):
                g, slope = wg.jvp(of, (x,), (wg.ones_like(x),))
                x = x - g / slope
        return start + x * h, step.at(x)


def _root(g: Callable[[float], float], g0: float, g1: float) -> float:
    """Return the root of g in [0, 1], where it has different signs at the ends (or is 0 at 1).

    Source: Chandrupatla 1997, A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
    function without using derivatives.
    """
    if g1 == 0.0:
        return 1.0
    x1, f1, x2, f2 = 1.0, g1, 0.0, g0
    t = 0.5
    for _ in range(100):
        x = x1 + t * (x2 - x1)
        f = g(x)
        if (f > 0.0) == (f1 > 0.0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, f
        best = x1 if abs(f1) < abs(f2) else x2
        smallest = 1e-15 / abs(x2 - x1)
        if smallest > 0.5 or min(abs(f1), abs(f2)) == 0.0:
            return best
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        t = 0.5
        if phi * phi < xi and (1 - phi) * (1 - phi) < 1 - xi:  # inverse quadratic interpolation is safe
            t = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        t = min(max(t, smallest), 1 - smallest)
    return best
