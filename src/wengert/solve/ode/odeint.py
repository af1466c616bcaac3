"""The function `odeint`: ordinary differential equations, solved and differentiated."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

import wengert as wg

from ...core.errors import GradientError, GraphError, RangeError, ShapeError, fail
from ...core.mode import get_mode
from ...core.spec import category
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, asarray
from .adjoint import checkpointed, continuous
from .events import Event, Watch
from .implicit import Implicit
from .steps import Control, Explicit, Stats, Step, Stepper, adaptive_steps, fixed_steps
from .system import Closed, State, System, Time, number, stacked
from .tableaux import TABLEAUX, Tableau
from .traced import aligned, known_where, onward, traced_adaptive, traced_fixed

Adjoint = Literal["discretise", "checkpointed", "continuous"]
Method = Literal[
    "euler",
    "midpoint",
    "heun",
    "ralston",
    "rk4",
    "bosh3",
    "dopri5",
    "tsit5",
    "implicit_euler",
    "trapezoid",
    "kvaerno3",
    "kvaerno5",
]


class OdeInfo(NamedTuple):
    """The cost of an integration: steps, evaluations of f, and of its Jacobian (each counted once).

    >>> import wengert as wg
    >>> found = wg.solve.odeint(lambda t, y: -y, wg.tensor(1.0), wg.tensor([0.0, 1.0]), return_info=True)
    >>> found.info.accepted > 0, found.info.jacobians
    (True, 0)
    """

    accepted: int
    rejected: int
    evaluations: int
    jacobians: int


@dataclass(frozen=True)
class Solution:
    """The result of `odeint` where more than the states is asked for.

    `ts` are the times and `ys` the states there: all that were asked for, or those before a terminal event.
    `event_t` and `event_y` have the event's times and states along a first axis, `interpolate` is the
    solution as a function of time; each is None where it was not asked for.

    >>> import wengert as wg
    >>> found = wg.solve.odeint(lambda t, y: -y, wg.tensor(1.0), wg.tensor([0.0, 1.0]), return_info=True)
    >>> found.ys
    tensor([1.    , 0.3679])
    """

    ts: Tensor
    ys: Any
    info: OdeInfo
    event_t: Tensor | None = None
    event_y: Any = None
    interpolate: Interpolation | None = None


def odeint(
    f: Callable[..., Any],
    y0: Any,
    ts: Any,
    *args: Any,
    method: Method = "tsit5",
    rtol: float | None = None,
    atol: float | None = None,
    adjoint: Adjoint = "discretise",
    steps: int | None = None,
    max_steps: int = 10_000,
    dense: bool = False,
    event: Event | Callable[..., Any] | None = None,
    first_step: float | None = None,
    return_info: bool = False,
) -> Any:
    """Return the solution of dy/dt = f(t, y, *args), y(ts[0]) = y0, at the times `ts`.

    Parameters
    ----------
    f: from a time (a scalar tensor), a state and `args` to the state's derivative, a pytree like it.
    y0: the state at ts[0], any pytree of floating or complex tensors.
    ts: (n,), increasing or decreasing.
    method: "tsit5", "dopri5" and "bosh3" are explicit and choose their steps; "kvaerno3" and "kvaerno5" are
        implicit, for stiff equations, and choose theirs; "euler", "midpoint", "heun", "ralston", "rk4" and
        the implicit "implicit_euler" and "trapezoid" take `steps` equal steps between any two times.
    rtol, atol: a step's estimated error, in the root mean square over all elements, is kept below
        atol + rtol |y|. By default 1e-6 for float64, 1e-4 for float32, 1e-2 for halves, and a hundredth of it.
    adjoint: how reverse mode gets its derivatives. "discretise" records all steps: exact derivatives of the
        numbers returned, every mode and order. "checkpointed": the same derivatives, with memory for about
        the root of the number of steps, which are computed once more. "continuous" solves the adjoint
        equation backwards: memory for the states at `ts` only, derivatives as accurate as the tolerances.
    steps: equal steps between any two times, also for a method that would choose them; 1 where needed.
    max_steps: after so many steps it is an error.
    dense: also give the solution as a function of time.
    event: an :class:`Event`, or its function.
    first_step: the size of the first step; chosen by itself where None.
    return_info: also give the numbers of steps and evaluations.

    Returns the states, a pytree like `y0` with a first axis of n times; a :class:`Solution` with `dense`,
    `event` or `return_info`. Gradients flow to `y0`, `ts`, `args` and whatever else f uses. Step sizes that
    a method chooses are constants to derivatives.

    Inside a traced program (`wg.graph`, `wg.jit`, `wg.vmap`) explicit methods run as one `scan`: of the
    steps, or of `while_loop`s between times, whose results are NaN where `max_steps` is reached. Under `vmap`
    every example has its own steps. Derivatives cost the steps that are taken.

    Raises ShapeError, DTypeError, GradientError, GraphError; ConvergenceError where f is not finite, the step
    size underflows or `max_steps` is reached.

    Source: Hairer, Norsett & Wanner 1993, Solving Ordinary Differential Equations I; Hairer & Wanner 1996, II.

    >>> import wengert as wg
    >>> wg.solve.odeint(lambda t, y, rate: -rate * y, wg.tensor(1.0), [0.0, 1.0, 2.0], 0.5)
    tensor([1.    , 0.6065, 0.3679])
    >>> wg.grad(lambda rate: wg.solve.odeint(lambda t, y: -rate * y, 1.0, [0.0, 2.0])[-1])(0.5)
    tensor(-0.7358)
    """
    options = _options(method, rtol, atol, adjoint, steps, max_steps, first_step)
    times = _times(ts)
    extra = dense or return_info or event is not None
    watched = event if event is None or isinstance(event, Event) else Event(event)
    if (dense or watched is not None) and adjoint != "discretise" and get_mode().grad:
        fail(
            GradientError,
            f"odeint: {'dense=True' if dense else 'an event'} with adjoint={adjoint!r}",
            'Events and dense output are differentiated with adjoint="discretise".',
        )
    system = System(f, y0, args, times[0])
    run = _Run(options, system, times)
    if run.abstract:
        if extra:
            refuse(
                "odeint: dense=, event= or return_info= in a traced program",
                "What they give depends on values.",
            )
        return system.pytree(run.traced())
    if not extra:
        return system.pytree(run.states())
    return run.solution(dense, watched)


@dataclass(frozen=True)
class _Options:
    """The options of a call."""

    tableau: Tableau
    rtol: float | None
    atol: float | None
    adjoint: Adjoint
    steps: int | None
    max_steps: int
    first_step: float | None
    measured: int | None = None

    def control(self, system: System) -> Control:
        default = 1e-6 if system.eps < 1e-10 else 1e-4 if system.eps < 1e-5 else 1e-2
        rtol = default if self.rtol is None else self.rtol
        atol = rtol / 100 if self.atol is None else self.atol
        return Control(rtol, atol, self.max_steps, self.first_step, self.measured)


def _options(method: str, rtol: Any, atol: Any, adjoint: str, steps: Any, max_steps: int, first_step: Any) -> _Options:
    tableau = TABLEAUX.get(method)
    if tableau is None:
        fail(GraphError, f"odeint: method {method!r}", f"It is one of {', '.join(TABLEAUX)}.")
    if adjoint not in get_args(Adjoint):
        fail(GraphError, f"odeint: adjoint {adjoint!r}", f"It is one of {', '.join(get_args(Adjoint))}.")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not (value >= 0.0 and math.isfinite(value)):
            fail(GraphError, f"odeint: {name} {value!r}", "A tolerance is a positive number.")
    if rtol == 0.0 and (atol is None or atol == 0.0):
        fail(GraphError, "odeint: rtol and atol are both 0")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        fail(GraphError, f"odeint: steps {steps!r}", "It is a number of equal steps between two times.")
    if steps is None and not tableau.adaptive:
        steps = 1
    if first_step is not None and not first_step > 0.0:
        fail(GraphError, f"odeint: first_step {first_step!r}", "It is a positive number, also backwards in time.")
    return _Options(tableau, rtol, atol, adjoint, steps, max_steps, first_step)  # type: ignore[arg-type]


def _times(ts: Any) -> Tensor:
    # In double precision where only numbers are given: they take the state's dtype later.
    t = ts if isinstance(ts, Tensor) else _stacked_times(ts)
    if t.ndim != 1 or t.shape[0] == 0:
        fail(ShapeError, f"odeint: ts of shape {t.shape}", "Give the times as a vector, the first is that of y0.")
    if category(t.dtype) == 3:
        fail(ShapeError, f"odeint: ts of dtype {t.dtype}", "Times are real.")
    if category(t.dtype) < 2:
        t = t.astype(wg.float64)
    if not t.is_abstract:
        values = np.asarray(t._array, np.float64)
        gaps = np.diff(values)
        if not np.isfinite(values).all() or not ((gaps > 0).all() or (gaps < 0).all()):
            fail(ShapeError, "odeint: ts that are neither increasing nor decreasing", "Sort them and drop equal ones.")
    return t


def _stacked_times(ts: Any) -> Tensor:
    if isinstance(ts, (list, tuple)) and any(isinstance(t, Tensor) for t in ts):
        return wg.stack([t if isinstance(t, Tensor) else asarray(float(t), dtype=wg.float64) for t in ts])
    return asarray(np.asarray(ts, np.float64))


class _Run:
    """An integration of a system over given times."""

    def __init__(self, options: _Options, system: System, ts: Tensor) -> None:
        self.options, self.system, self.ts = options, system, ts
        self.abstract = system.abstract or ts.is_abstract
        self.control = options.control(system)
        self.stats = Stats()
        self.steppers: list[Stepper] = []
        self.tracked = get_mode().grad and ts.requires_grad

    # -- with values

    def states(self) -> State:
        options = self.options
        differentiated = get_mode().grad and self._requires_grad()
        if self.ts.shape[0] == 1:
            return stacked([self.system.start])
        if not differentiated or options.adjoint == "discretise":
            return stacked([self.system.start, *self._rows(self._steps(self._stepper(differentiated)))])
        closed = Closed(self.system) if options.adjoint == "continuous" or options.tableau.implicit else None
        if options.adjoint == "continuous":
            assert closed is not None
            return continuous(self.system, closed, self.ts, self._values, self._adjoint)
        stepper = self._made(closed)
        if options.steps is None:
            with wg.no_grad():
                for _ in self._steps(self._made()):
                    pass
            times, ts = self._numbers(), self._tracked_times()
            grid = [p.times(self.system, times, ts) for p in self.stats.places]
        else:
            grid = self._grid()
        return stacked(
            [self.system.start, *checkpointed(self.system, stepper, grid, self._outputs(), self.control.tolerance)]
        )

    def _requires_grad(self) -> bool:
        return self.tracked or any(x.requires_grad for x in (*self.system.start, *self.system.first))

    def _stepper(self, differentiated: bool) -> Stepper:
        needs = differentiated and self.options.tableau.implicit
        return self._made(Closed(self.system) if needs else None)

    def _made(self, closed: Closed | None = None) -> Stepper:
        tableau = self.options.tableau
        stepper: Stepper = (
            Implicit(tableau, closed, self.options.steps is not None) if tableau.implicit else Explicit(tableau)
        )
        self.steppers.append(stepper)
        return stepper

    def _numbers(self) -> list[float]:
        return [float(t) for t in np.asarray(self.ts._array, np.float64)]

    def _grid(self) -> list[tuple[Time, Time]]:
        count = self.options.steps
        assert count is not None
        # As tensors where the times are differentiated in.
        ts: list[Any] = [self.system.clock(t) for t in self.ts] if self.tracked else self._numbers()
        grid: list[tuple[Time, Time]] = []
        for a, b in zip(ts, ts[1:]):
            h = (b - a) / count
            grid += [(a + h * j if j else a, h) for j in range(count)]
        return grid

    def _steps(self, stepper: Stepper, slopes: bool = False) -> Any:
        if self.options.steps is not None:
            return fixed_steps(self.system, stepper, self._grid(), self.control, self.stats, slopes)
        times = self._numbers()
        return adaptive_steps(self.system, stepper, times, self.control, self.stats, self._tracked_times())

    def _tracked_times(self) -> Tensor | None:
        return self.ts if self.tracked else None

    def _outputs(self) -> Any:
        if self.options.steps is not None:
            count = self.options.steps
            return lambda step, i: [step.y1] if (i + 1) % count == 0 else []
        return _Outputs(self._numbers())

    def _rows(self, steps: Any) -> list[State]:
        outputs = self._outputs()
        return [row for i, step in enumerate(steps) for row in outputs(step, i)]

    def _values(self) -> State:
        """Return the states without a record."""
        rows = self._rows(self._steps(self._made()))
        return [x.detach() for x in stacked([self.system.start, *rows])]

    def _adjoint(self, f: Any, y0: Any, ts: Tensor, measured: int) -> Any:
        """Return the last state of the adjoint equation; it is itself differentiated where derivatives are recorded."""
        options = replace(self.options, measured=measured, first_step=None)
        system = System(f, y0, (), ts[0])
        rows = _Run(options, system, ts).states()
        return system.pytree([r[-1] for r in rows])

    def solution(self, dense: bool, event: Event | None) -> Solution:
        """Return the states with the other results asked for."""
        if not dense and event is None:
            return Solution(self.ts, self.system.pytree(self.states()), self._info())
        stepper = self._stepper(get_mode().grad and self._requires_grad())
        numbers = self._numbers()
        watch = Watch(event, self.system, numbers[0]) if event is not None else None
        outputs = self._outputs()
        rows, kept = [self.system.start], []
        for i, step in enumerate(self._steps(stepper, slopes=True) if len(numbers) > 1 else ()):
            found = outputs(step, i)
            kept += [step] if dense else []
            if watch is not None and watch.look(step) and watch.event.terminal:
                end = number(watch.times[-1])
                sign = math.copysign(1.0, numbers[-1] - numbers[0])
                before = sum((t - end) * sign <= 0.0 for t in numbers)
                rows += found[: max(before - len(rows), 0)]
                break
            rows += found
        event_t, event_y = _events(watch, self.system) if watch is not None else (None, None)
        function = Interpolation(self.system, kept) if dense else None
        return Solution(
            self.ts[: len(rows)], self.system.pytree(stacked(rows)), self._info(), event_t, event_y, function
        )

    def _info(self) -> OdeInfo:
        jacobians = sum(s.evaluated for s in self.steppers if isinstance(s, Implicit))
        return OdeInfo(self.stats.accepted, self.stats.rejected, self.system.evaluations, jacobians)

    # -- without values

    def traced(self) -> State:
        options = self.options
        if options.tableau.implicit:
            refuse(
                f"odeint: {options.tableau.name} in a traced program",
                "Implicit methods iterate on values. Use an explicit method, or a Python loop over examples.",
            )
        if options.adjoint == "continuous":
            refuse(
                'odeint: adjoint="continuous" in a traced program',
                'A traced loop keeps only its states anyway: use adjoint="discretise".',
            )
        ts = self.system.clock(self.ts)
        if not self.ts.is_abstract:
            return self._traced_rows(ts)
        # Where these cannot be refused, nothing is computed on the way to them.
        good = onward(self.ts)
        rows = self._traced_rows(wg.where(good, ts, ts[0]))
        nothing = 0.0 * ts  # which has a derivative in every time, also in those that no step ends at
        return [known_where(good, r + aligned(nothing, r)) for r in rows]

    def _traced_rows(self, ts: Tensor) -> State:
        if ts.shape[0] == 1:
            return stacked([self.system.start])
        stepper = Explicit(self.options.tableau)
        if self.options.steps is not None:
            return traced_fixed(self.system, stepper, ts, self.options.steps)
        return traced_adaptive(self.system, stepper, ts, self.control)


def _events(watch: Watch, system: System) -> tuple[Tensor, Any]:
    if not watch.times:
        empty = [wg.zeros((0, *s.shape), dtype=s.dtype) for s in system.specs]
        return wg.zeros((0,), dtype=system.dtype), system.pytree(empty)
    return wg.stack(watch.times), system.pytree(stacked(watch.states))


class _Outputs:
    """The states at given times, from the steps in order."""

    def __init__(self, times: list[float]) -> None:
        self.times = times
        self.sign = math.copysign(1.0, times[-1] - times[0])
        self.next = 1

    def __call__(self, step: Step, _: int) -> list[State]:
        t, h = number(step.t), number(step.h)
        rows: list[State] = []
        end = t + h
        close = 8 * np.finfo(float).eps * max(abs(t), abs(end))
        while self.next < len(self.times) and (self.times[self.next] - end) * self.sign <= close:
            at = self.times[self.next]
            rows.append(step.y1 if abs(at - end) <= close else step.at((at - t) / h))
            self.next += 1
        return rows


class Interpolation:
    """The solution as a function of time: `sol(t)` for a scalar or a vector of times within the integration.

    Differentiable in the time and in all that the solution depends on. Raises RangeError, GraphError.

    >>> import wengert as wg
    >>> found = wg.solve.odeint(lambda t, y: -y, wg.tensor(1.0), wg.tensor([0.0, 1.0]), dense=True)
    >>> found.interpolate(wg.tensor(0.5))
    tensor(0.6065)
    """

    def __init__(self, system: System, steps: list[Step]) -> None:
        self._system, self._steps = system, steps
        self._starts = [number(s.t) for s in steps]
        self._sign = 1.0 if not steps or number(steps[0].h) > 0 else -1.0

    def __repr__(self) -> str:
        return f"<Interpolation of {len(self._steps)} steps>"

    def __call__(self, t: Any) -> Any:
        times = t if isinstance(t, Tensor) else asarray(np.asarray(t, np.float64))
        if times.is_abstract:
            refuse("an interpolated solution at a time without a value", "Call it outside of the trace.", times)
        if times.ndim > 1:
            fail(ShapeError, f"an interpolated solution at times of shape {times.shape}", "Give a scalar or a vector.")
        if times.ndim == 0:
            return self._system.pytree(self._at(times))
        return self._system.pytree(stacked([self._at(x) for x in times]))

    def _at(self, t: Tensor) -> State:
        value = number(t)
        if not self._steps:
            return self._system.start
        i = bisect.bisect_right(self._starts, value * self._sign, key=lambda s: s * self._sign) - 1
        step = self._steps[max(i, 0)]
        end = number(self._steps[-1].t) + number(self._steps[-1].h)
        close = 1e-9 * max(abs(end - self._starts[0]), 1e-300)
        if not -close <= (value - self._starts[0]) * self._sign <= abs(end - self._starts[0]) + close:
            fail(RangeError, f"time {value:.6g} outside the solution, from {self._starts[0]:.6g} to {end:.6g}")
        if t.requires_grad or isinstance(step.t, Tensor):
            return step.at((self._system.clock(t) - self._system.clock(step.t)) / step.h)
        return step.at((value - number(step.t)) / number(step.h))
