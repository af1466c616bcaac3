"""Integration inside a traced program: fixed steps as one `scan`, adaptive ones as a `while_loop` per output."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ...core.tensor import Tensor, asarray
from .steps import GROW, SAFETY, SHRINK, Control, Explicit
from .system import State, System, combine, real_dtype


def onward(ts: Tensor) -> Tensor:
    """Return, for every time, whether it and all before it are finite and go strictly on in one direction."""
    good = wg.isfinite(ts)
    if ts.shape[0] > 1:
        gaps = ts[1:] - ts[:-1]
        good = good & wg.concat([good[:1], gaps * wg.sign(gaps[:1]) > 0.0])
    reached: Tensor = wg.cumulative_sum((~good).astype(wg.int64)) == 0
    return reached


def known_where(condition: Tensor, x: Tensor) -> Tensor:
    """Return `x`, NaN where the condition does not hold along its first axes, and so are derivatives."""
    return x * aligned(wg.where(condition, 1.0, float("nan")), x)


def aligned(x: Tensor, like: Tensor) -> Tensor:
    """Return real numbers that stand along the first axes of another tensor, in its precision."""
    placed = x.reshape((*x.shape, *(1,) * (like.ndim - x.ndim)))
    cast: Tensor = placed.astype(real_dtype(like.dtype))
    return cast


def traced_fixed(system: System, stepper: Explicit, ts: Tensor, steps: int) -> State:
    """Return the states at `ts`, with `steps` equal steps between any two times, as one `scan`."""
    tab = stepper.tableau
    widths = (ts[1:] - ts[:-1]) / steps
    parts = wg.arange(steps).astype(ts.dtype)
    starts = (ts[:-1].reshape((-1, 1)) + widths.reshape((-1, 1)) * parts).reshape((-1,))
    sizes = wg.broadcast_to(widths.reshape((-1, 1)), (widths.shape[0], steps)).reshape((-1,))

    def one(carry: tuple[State, State], row: tuple[Tensor, Tensor]) -> Any:
        y, k = carry
        step = stepper.step(system, row[0], row[1], y, k if tab.fsal else system(row[0], y), (0.0, 0.0))
        return (step.y1, step.last), step.y1

    first = system.first if tab.fsal else []
    _, rows = wg.scan(one, (system.start, first), (starts, sizes))
    return _with_start(system.start, [r[steps - 1 :: steps] for r in rows])


def _with_start(start: State, rows: State) -> State:
    return [wg.concat([a.reshape((1, *a.shape)), r]) for a, r in zip(start, rows)]


def traced_adaptive(system: System, stepper: Explicit, ts: Tensor, control: Control) -> State:
    """Return the states at `ts` by adaptive steps that end there; NaN after `max_steps` steps between two times.

    A traced loop cannot raise. Step sizes are constants to derivatives, but for the last before a time.
    """
    tab = stepper.tableau
    sign = wg.sign(ts[1] - ts[0]).detach()
    h0 = asarray(control.first_step, dtype=ts.dtype) * sign if control.first_step else _first_step(system, ts, control)

    def interval(carry: Any, end: Tensor) -> Any:
        t, h, before, y, k = carry

        def going(state: Any) -> Tensor:
            ahead: Tensor = (end - state[0]) * sign > 0.0
            return ahead

        def one(state: Any) -> Any:
            t, h, before, y, k = state
            last = abs(h) >= abs(end - t)
            size = wg.where(last, end - t, h)
            step = stepper.step(system, t, size, y, k, control.tolerance)
            ratio = _ratio(tab.error, step, control)
            good = ratio <= 1.0
            shrunk = SAFETY * wg.where(wg.isfinite(ratio), ratio, 1e4) ** (-1.0 / tab.order)
            grown = SAFETY * wg.maximum(ratio, 1e-9) ** (-0.7 / tab.order) * before ** (0.4 / tab.order)
            factor = wg.where(good, wg.clip(grown, SHRINK, GROW), wg.clip(shrunk, SHRINK, 0.9))
            proposed = size.detach() * factor
            kept = good & last & (abs(proposed) < abs(h))  # cut short to end at an output

            def pick(new: Tensor, old: Tensor) -> Tensor:
                return wg.where(good, new, old)

            return (
                pick(wg.where(last, end, t + size), t),
                wg.where(kept, h, proposed).astype(h.dtype),
                pick(wg.maximum(ratio, 1e-4), before).astype(before.dtype),
                [pick(a, b) for a, b in zip(step.y1, y)],
                [pick(a, b) for a, b in zip(step.last, k)],
            )

        state = wg.while_loop(going, one, (t, h, before, y, k), max_steps=control.max_steps)
        arrived = ~going(state)
        return state, [known_where(arrived, a) for a in state[3]]

    init = (ts[0], h0, wg.ones_like(ts[0]), system.start, system.first)
    _, rows = wg.scan(interval, init, ts[1:])
    return _with_start(system.start, rows)


def _first_step(system: System, ts: Tensor, control: Control) -> Tensor:
    """Return a hundredth of the time in which the state changes by itself, or by its tolerance where it is 0."""
    m = control.measured
    y, k = [x.detach() for x in system.start[:m]], [x.detach() for x in system.first[:m]]
    zero = [wg.zeros_like(abs(x)) for x in y]
    d0, d1 = _norm(y, zero, y, control), _norm(k, zero, y, control)
    h = wg.where((d0 > 1e-5) & (d1 > 1e-5), 0.01 * d0 / wg.maximum(d1, 1e-5), 1e-6).astype(ts.dtype)
    ahead = (ts - ts[0]).detach()
    return wg.minimum(h, wg.max(abs(ahead))) * wg.sign(ahead[1])


def _norm(e: State, a: State, b: State, control: Control) -> Tensor:
    total: Any = 0.0
    for error, x, y in zip(e, a, b):
        scale = control.atol + control.rtol * wg.maximum(abs(x), abs(y))
        total = total + ((abs(error) / scale) ** 2).sum()
    return wg.sqrt(total / max(sum(x.size for x in e), 1))


def _ratio(weights: Any, step: Any, control: Control) -> Tensor:
    m = control.measured
    y0, y1 = [x.detach() for x in step.y0[:m]], [x.detach() for x in step.y1[:m]]
    ks = [[x.detach() for x in k[:m]] for k in step.ks]
    zero = [wg.zeros_like(x) for x in y0]
    ratio = _norm(combine(zero, step.h.detach(), ks, weights), y0, y1, control)
    return wg.where(wg.isfinite(ratio), ratio, float("inf"))
