"""L-BFGS, with a line search for the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import GraphError, RangeError, ShapeError, fail
from ..core.mode import enable_grad, no_grad
from ..core.spec import category
from ..core.state.capture import get_capture
from ..core.state.refusals import refuse
from ..core.storage import assign_data
from ..core.tensor import Tensor
from .optimizer import Array, Optimizer, Params, State, require, value_of

# Of the line search: the decrease and the slope that it asks for.
_DECREASE, _SLOPE = 1e-4, 0.9
# A pair of step and gradient change enters the history where their product exceeds this.
_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """The L-BFGS optimiser: Newton's method with a Hessian estimated from past steps, for a loss without noise.

    One call of `step(closure)` makes up to `max_iter` iterations. The closure computes the loss, and is called at
    every trial point: `zero_grad()`, the loss, `backward()`, return the loss.

    Parameters
    ----------
    params: leaf tensors, all of which are one vector here: there is one parameter group.
    lr: the step size; with a line search the first trial.
    max_iter: the iterations of a step.
    max_eval: the evaluations of the closure in a step; None: 1.25 times `max_iter`.
    tolerance_grad: a step ends where no element of the gradient is larger.
    tolerance_change: a step ends where neither the loss nor any element changes more.
    history_size: the number of past steps that are kept.
    line_search_fn: None, or "strong_wolfe".

    Source: Nocedal, Wright, Numerical Optimization, algorithms 7.4, 3.5 and 3.6.

    Raises ShapeError for several groups, RangeError for another line search, GraphError in a compiled function: what is
    evaluated next depends on the values.

    >>> import wengert as wg
    >>> w = wg.tensor([3.0, -2.0], requires_grad=True)
    >>> opt = wg.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def loss():
    ...     opt.zero_grad()
    ...     out = ((w - wg.tensor([1.0, 5.0])) ** 4).sum()
    ...     out.backward()
    ...     return out
    >>> for _ in range(5):
    ...     _ = opt.step(loss)
    >>> bool(loss() < 1e-8)
    True
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, options)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Take the only group. Raises ShapeError for a second one."""
        if self.param_groups:
            fail(ShapeError, "LBFGS with several parameter groups", "All parameters make one vector here.")
        super().add_param_group(group)

    def _check(self, group: dict[str, Any]) -> None:
        super()._check(group)
        for name in ("tolerance_grad", "tolerance_change"):
            require(group, name, lambda v: v >= 0, "at least 0")
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            fail(RangeError, f"line_search_fn must be None or 'strong_wolfe', not {group['line_search_fn']!r}")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make up to `max_iter` iterations, and return the loss before them. Raises GraphError without a closure."""
        if closure is None:
            fail(GraphError, "LBFGS.step() without a closure", "Write opt.step(loss), where loss() calls backward().")
        if get_capture() is not None:
            refuse(
                "LBFGS.step() in a compiled function",
                "What is evaluated next depends on the values. Compile the closure: opt.step(wg.jit(loss)).",
            )
        found: list[Any] = []

        def evaluate() -> tuple[float, Array]:
            with enable_grad():
                loss = closure()
            found.append(loss)
            return float(loss.detach() if isinstance(loss, Tensor) else loss), self._gradient()

        state = self._own_state()
        with no_grad(), np.errstate(all="ignore"):
            self._iterate(evaluate, state)
        return found[0]

    def _own_state(self) -> State:
        """Return what is known from past steps; it is kept with the first parameter."""
        first: State = self.state.setdefault(self._all()[0], {})
        return first

    def _loaded(self, entries: Mapping[str, Any], p: Tensor, what: str, wrong: list[str]) -> State:
        count = sum(n for _, n in self._parts())
        made = {name: arrays_of(value) for name, value in entries.items()}
        found = [a for v in made.values() for a in (v if isinstance(v, list) else [v]) if isinstance(a, np.ndarray)]
        if any(a.shape not in ((), (count,)) for a in found):
            wrong.append(f"{what}: vectors that are not of {count} elements, as the parameters are together")
        return made

    def _iterate(self, evaluate: Callable[[], tuple[float, Array]], state: State) -> None:
        group = self._resolved(self.param_groups[0])
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        loss, gradient = evaluate()
        evaluations = 1
        state["func_evals"] += 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = state["d"] = _direction(state, gradient, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            rate = group["lr"]
            if state["n_iter"] == 1:
                rate *= min(1.0, 1.0 / float(np.abs(gradient).sum()))
            state["t"] = rate
            slope = float(gradient @ direction)
            if slope > -group["tolerance_change"]:
                return
            before, previous, made = self._vector(), loss, 0
            if group["line_search_fn"] is not None:

                def trial(t: float, start: Array = before, along: Array = direction) -> _Point:
                    self._move(start + t * along)
                    value, g = evaluate()
                    return _Point(t, value, g, float(g @ along))

                start = _Point(0.0, loss, gradient, slope)
                change = group["tolerance_change"]
                best, made = _search(trial, start, rate, _largest(direction), change, group["max_eval"] - evaluations)
                rate, loss, gradient = best.t, best.loss, best.gradient
                state["t"] = rate
            self._move(before + rate * direction)
            if group["line_search_fn"] is None and iteration < group["max_iter"]:
                loss, gradient = evaluate()
                made = 1
            evaluations += made
            state["func_evals"] += made
            if (
                evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction * rate) <= group["tolerance_change"]
                or abs(loss - previous) < group["tolerance_change"]
            ):
                return

    def _parts(self) -> list[tuple[Tensor, int]]:
        return [(p, value_of(p).size * (2 if category(p.dtype) == 3 else 1)) for p in self._all()]

    def _vector(self) -> Array:
        return np.concatenate([_reals(value_of(p)) for p in self._all()])

    def _gradient(self) -> Array:
        grads = [np.zeros(p.shape, p.dtype) if p.grad is None else p.grad.detach().numpy() for p in self._all()]
        return np.concatenate([_reals(np.asarray(g)) for g in grads])

    def _move(self, values: Array) -> None:
        """Give the parameters the values that are one after the other in a vector."""
        start = 0
        for p, count in self._parts():
            part = np.array(values[start : start + count])
            start += count
            part = part.view(p.dtype) if category(p.dtype) == 3 else part.astype(p.dtype, copy=False)
            assign_data(p, part.reshape(tuple(p.shape)))


@dataclass(frozen=True, slots=True)
class _Point:
    """A point on the line: how far from its start, the loss, the gradient, and the slope along the line."""

    t: float
    loss: float
    gradient: Array
    slope: float


def _direction(state: State, gradient: Array, size: int) -> Array:
    """Return the direction of the next step; the last one enters the history in `state`."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -gradient
    changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = float(y @ s)
    if curvature > _CURVATURE:
        if len(changes) == size:
            for past in (changes, steps, inverses):
                past.pop(0)
        changes.append(y)
        steps.append(s)
        inverses.append(1.0 / curvature)
        state["H_diag"] = curvature / float(y @ y)
    factors = state.setdefault("al", [None] * size)
    out = -gradient
    for i in reversed(range(len(changes))):
        factors[i] = float(steps[i] @ out) * inverses[i]
        out -= factors[i] * changes[i]
    out *= state["H_diag"]
    for i in range(len(changes)):
        out += (factors[i] - float(changes[i] @ out) * inverses[i]) * steps[i]
    return out


def _search(
    trial: Callable[[float], _Point], start: _Point, first: float, longest: float, tolerance: float, most: int
) -> tuple[_Point, int]:
    """Return a point that meets the strong Wolfe conditions, or the best there was, and the number of trials."""
    limit = start.slope * _SLOPE

    def too_high(p: _Point) -> bool:
        return p.loss > start.loss + _DECREASE * p.t * start.slope

    before, now = start, trial(first)
    count, made = 0, 1
    bracket: list[_Point] = []
    while count < most:
        if too_high(now) or (count > 1 and now.loss >= before.loss):
            bracket = [before, now]
            break
        if abs(now.slope) <= -limit:
            return now, made
        if now.slope >= 0:
            bracket = [before, now]
            break
        bounds = now.t + 0.01 * (now.t - before.t), now.t * 10
        before, now = now, trial(_cubic(before, now, bounds))
        count += 1
        made += 1
    if count >= most:
        bracket = [start, now]

    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while count < most and abs(bracket[1].t - bracket[0].t) * longest >= tolerance:
        left, right = min(p.t for p in bracket), max(p.t for p in bracket)
        t = _cubic(bracket[0], bracket[1], (left, right))
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            # Close to an end for the second time, or at it: a tenth inside of it.
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = trial(t)
        count += 1
        made += 1
        if too_high(now) or now.loss >= bracket[low].loss:
            bracket[high] = now
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        if abs(now.slope) <= -limit:
            return now, made
        if now.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
    return bracket[low], made


def _cubic(a: _Point, b: _Point, bounds: tuple[float, float]) -> float:
    """Return where the cubic through two points with their slopes is least, within bounds."""
    left, right = bounds
    one = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t) if a.t != b.t else math.nan
    square = one * one - a.slope * b.slope
    if not square >= 0:
        return (left + right) / 2
    root = math.sqrt(square)
    near, far = (a, b) if a.t <= b.t else (b, a)
    divisor = far.slope - near.slope + 2 * root
    if divisor == 0:
        return (left + right) / 2
    return min(max(far.t - (far.t - near.t) * ((far.slope + root - one) / divisor), left), right)


def _largest(x: Array) -> float:
    return float(np.abs(x).max()) if x.size else 0.0


def arrays_of(value: Any) -> Any:
    """Return what was saved, with arrays in the place of tensors, and numbers in that of those without an axis."""
    if isinstance(value, Tensor):
        array = np.array(value.detach().numpy())
        return array if array.shape else array.item()
    return list(map(arrays_of, value)) if isinstance(value, list) else value


def _reals(a: Array) -> Array:
    flat = np.ascontiguousarray(a).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
