"""Derivatives of an integration without keeping all of it: checkpoints, and the continuous adjoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg

from ...core.errors import GradientError, fail
from ...core.spec import category
from ...core.tensor import Tensor
from ..common import ConvergenceError
from .steps import Step, Stepper
from .system import Closed, State, System

Outputs = Callable[[Step, int], list[State]]  # the states asked for within a step, from its position
Integrate = Callable[..., Any]


def checkpointed(
    system: System,
    stepper: Stepper,
    grid: Sequence[tuple[Any, Any]],
    outputs: Outputs,
    tolerance: tuple[float, float],
) -> list[State]:
    """Return the states at `ts` by known steps, in about the square root of their number of checkpoints.

    A backward pass computes the steps of one segment at a time again (Griewank & Walther 2008, 12.1).
    """
    length = max(1, math.isqrt(len(grid)))
    tab = stepper.tableau
    found: list[State] = []
    y, k = system.start, system.first
    for start in range(0, len(grid), length):

        def segment(y: State, k: State, start: int = start) -> tuple[State, State, list[State]]:
            rows: list[State] = []
            for i, (t, h) in enumerate(grid[start : start + length], start):
                step = stepper.step(system, t, h, y, k if tab.fsal else system(t, y), tolerance)
                if step is None:
                    fail(ConvergenceError, f"odeint: step {i} of {tab.name} does not converge", "Take smaller steps.")
                rows += outputs(step, i)
                y, k = step.y1, step.last
            return y, k, rows

        y, k, rows = wg.checkpoint(segment)(y, k)
        found += rows
    return found


def continuous(
    system: System, closed: Closed, ts: Tensor, integrate_forward: Callable[[], State], integrate: Integrate
) -> State:
    """Return the states at `ts`; backward, the adjoint equation is integrated from the last time to the first.

    Pontryagin et al. 1962; Chen et al. 2018, Neural ordinary differential equations. At every time of `ts` the
    state starts anew from what the forward integration found, so that its errors do not grow. The gradients
    of what f takes from outside are quadratures, and not measured in the step control (Kidger, Chen &
    Lyons 2021, "Hey, that's not an ODE": faster ODE adjoints via seminorms).
    """

    def forward(y0: State, ts: Tensor, captured: State) -> State:
        with wg.no_grad():
            return integrate_forward()

    def backward(kept: Any, cts: State) -> tuple[State, Tensor, State]:
        rows, ts, captured = kept
        if any(ct.is_abstract for ct in cts if ct is not None):
            fail(
                GradientError,
                'odeint: the adjoint="continuous" in forward mode, or in a traced program',
                'Its backward pass chooses its steps by values. Use adjoint="discretise" there.',
            )
        return adjoint_pass(closed, rows, ts, captured, cts, integrate)

    solve = wg.custom_vjp(forward)
    solve.defvjp(lambda y0, ts, captured: _with_residuals(forward, y0, ts, captured), backward)
    found: State = solve(system.start, ts, list(closed.captured))
    return found


def _with_residuals(forward: Any, y0: State, ts: Tensor, captured: State) -> tuple[State, Any]:
    rows = forward(y0, ts, captured)
    return rows, (rows, ts, captured)


def adjoint_pass(
    closed: Closed, rows: State, ts: Tensor, captured: State, cts: State, integrate: Integrate
) -> tuple[State, Tensor, State]:
    """Return the cotangents of the first state, the times and the tensors that f captures."""
    n = len(rows)
    wanted = [i for i, c in enumerate(captured) if category(c.dtype) >= 2]
    total = [wg.zeros_like(captured[i]) for i in wanted]

    def slope(t: Tensor, y: State) -> State:
        return closed(t, y, captured)

    def reverse(t: Tensor, state: Any) -> Any:
        y, a, _ = state

        def flat(y: State, used: State) -> State:
            full = list(captured)
            for i, c in zip(wanted, used):
                full[i] = c
            return closed(t, y, full)

        if wanted:
            out, pull = wg.vjp(flat, y, [captured[i] for i in wanted])
            gy, gc = pull(a)
        else:
            out, pull = wg.vjp(lambda y: flat(y, []), y)
            (gy,), gc = pull(a), []
        return [*out], [-g for g in gy], [-g for g in gc]

    a = [ct[-1] for ct in cts]
    time_cts: list[Tensor] = []
    for i in range(ts.shape[0] - 1, 0, -1):
        y = [r[i] for r in rows]
        time_cts.append(_inner([ct[i] for ct in cts], slope(ts[i], y), ts))
        _, a, total = integrate(reverse, (y, a, total), wg.stack([ts[i], ts[i - 1]]), measured=2 * n)
        if i > 1:
            a = [x + ct[i - 1] for x, ct in zip(a, cts)]
    time_cts.append(-_inner(a, slope(ts[0], [r[0] for r in rows]), ts))
    a = [x + ct[0] for x, ct in zip(a, cts)]
    full: list[Any] = [None] * len(captured)
    for i, g in zip(wanted, total):
        full[i] = g
    return a, wg.stack(time_cts[::-1]), full


def _inner(a: State, b: State, ts: Tensor) -> Tensor:
    total: Any = 0.0
    for x, y in zip(a, b):
        product = (x.conj() * y).real if x.dtype.kind == "c" else x * y
        total = total + product.sum()
    return total.astype(ts.dtype)  # type: ignore[no-any-return]
