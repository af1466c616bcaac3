"""Steps of diagonally implicit Runge-Kutta methods: each stage is solved for by simplified Newton iterations.

The Jacobian of f is kept over steps and stages until the iterations converge too slowly (Hairer & Wanner
1996, Solving Ordinary Differential Equations II, IV.8). Derivatives of a stage follow from the implicit
function theorem, not through the iterations, and are exact to every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import fail
from ...core.mode import get_mode
from ...core.spec import category
from ...core.tensor import Tensor, asarray, wrap
from ..common import ConvergenceError
from .steps import Step
from .system import Closed, State, System, Time, combine, number, values
from .tableaux import Tableau

_MOST_ITERATIONS = 10
_SLOW = 0.3  # iterations that shrink the error by less ask for a new Jacobian next time
_NEWTON_TOLERANCE = 0.01  # of the step's tolerance


class Implicit:
    """Steps of an ESDIRK method: an explicit first stage, then stages with one diagonal coefficient."""

    def __init__(self, tableau: Tableau, closed: Closed | None, fixed: bool = False) -> None:
        self.tableau = tableau
        self.fixed = fixed  # a step that does not converge cannot be made smaller
        self.closed = closed  # what derivatives of a stage are taken of; None where none are asked for
        self.evaluated = 0  # Jacobians
        self._jacobian: Any = None
        self._fresh = False  # the Jacobian is of this step
        self._inverse: Any = None
        self._scaled: complex | float | None = None  # h gamma that the inverse is of

    def step(self, system: System, t: Time, h: Time, y: State, k: State, tolerance: tuple[float, float]) -> Step | None:
        """Return the step from (t, y) over h, where the derivative is k; None where an iteration does not converge."""
        tab = self.tableau
        self._fresh = False
        while True:
            found = self._stages(system, t, h, y, k, tolerance)
            if found is not None:
                ks, z = found
                return Step(tab, t, h, y, z if _is_last_stage(tab) else combine(y, h, ks, tab.b), ks, ks[-1])
            if self._fresh:
                return None
            self._jacobian = None

    def _stages(
        self, system: System, t: Time, h: Time, y: State, k: State, tolerance: tuple[float, float]
    ) -> tuple[list[State], State] | None:
        tab = self.tableau
        ks, z = [k], y
        for i in range(1, len(tab.c)):
            base = combine(y, h, ks, tab.a[i])
            guess = combine(base, h, ks, [tab.gamma * w for w in tab.predictor[i]])
            solved = self._solve(system, t + tab.c[i] * h, number(h) * tab.gamma, base, guess, t, y, tolerance)
            if solved is None:
                return None
            z = self._differentiable(system, solved, base, h, t + tab.c[i] * h)
            ks.append([(a - b) / _like(h * tab.gamma, a) for a, b in zip(z, base)])
        return ks, z

    def _solve(
        self,
        system: System,
        t: Time,
        hg: float,
        base: State,
        guess: State,
        t0: Time,
        y0: State,
        tolerance: tuple[float, float],
    ) -> State | None:
        """Return the z with z = base + hg f(t, z), on values."""
        with wg.no_grad():
            if self._jacobian is None:
                self._jacobian = _jacobian(system, t0, y0)
                self.evaluated += 1
                self._fresh, self._scaled = True, None
            if self._scaled != hg:
                matrix = np.eye(len(self._jacobian), dtype=self._jacobian.dtype) - hg * self._jacobian
                try:
                    self._inverse = np.linalg.inv(matrix)
                except np.linalg.LinAlgError:
                    return None
                self._scaled = hg
            found = self._iterate(system, t, hg, base, guess, tolerance)
            return self._newton(system, t, hg, base, tolerance) if found is None and self.fixed else found

    def _iterate(
        self, system: System, t: Time, hg: float, base: State, guess: State, tolerance: tuple[float, float]
    ) -> State | None:
        b, z = _flat(base), _flat(guess)
        enough = max(_NEWTON_TOLERANCE, _floor(system, tolerance, z, b))
        first = z
        before = None
        with np.errstate(all="ignore"):
            for _ in range(_MOST_ITERATIONS):
                residual = b + hg * _flat(system(t, _unflat(z, base))) - z
                dz = self._inverse @ residual
                z = z + dz
                size = _size(dz, tolerance, first, b)
                if not np.isfinite(size):
                    return None
                rate = size / before if before else 0.0
                if rate >= 1.0 and size > enough:
                    return None
                if size == 0.0 or (before is not None and rate / (1 - min(rate, 0.99)) * size <= enough):
                    if rate > _SLOW:
                        self._jacobian = None
                    return _unflat(z, base)
                before = size
        return None

    def _newton(self, system: System, t: Time, hg: float, base: State, tolerance: tuple[float, float]) -> State | None:
        """Run Newton's method with a Jacobian of its own in every iteration, halving updates that lead away."""
        b = _flat(base)

        def residual(z: Any) -> Any:
            return b + hg * _flat(system(t, _unflat(z, base))) - z

        z, r = b, residual(b)
        with np.errstate(all="ignore"):
            for _ in range(5 * _MOST_ITERATIONS):
                matrix = np.eye(len(z), dtype=z.dtype) - hg * _jacobian(system, t, _unflat(z, base))
                self.evaluated += 1
                try:
                    dz = np.linalg.solve(matrix, r)
                except np.linalg.LinAlgError:
                    return None
                for _ in range(_MOST_ITERATIONS):
                    nearer = residual(z + dz)
                    if np.linalg.norm(nearer) <= np.linalg.norm(r):
                        break
                    dz = dz / 2
                z, r = z + dz, nearer
                if not np.isfinite(r).all():
                    return None
                if _size(dz, tolerance, z, b) <= max(_NEWTON_TOLERANCE, _floor(system, tolerance, z, b)):
                    return _unflat(z, base)
        return None

    def _differentiable(self, system: System, z: State, base: State, h: Time, t: Time) -> State:
        """Return the stage as a function of its equation's parts, by the implicit function theorem."""
        closed = self.closed
        if closed is None or not get_mode().grad:
            return z
        gamma = self.tableau.gamma
        found: State = _stage(closed, gamma, z)(base, _tensor(h, system), system.clock(t), list(closed.captured))
        return found


def _scale(tolerance: tuple[float, float], z: Any, b: Any) -> Any:
    rtol, atol = tolerance
    return atol + rtol * np.maximum(np.abs(b), np.abs(z))


def _size(dz: Any, tolerance: tuple[float, float], z: Any, b: Any) -> float:
    """Return the root mean square of a change over its tolerance."""
    return float(np.sqrt(np.mean(np.abs(dz / _scale(tolerance, z, b)) ** 2))) if dz.size else 0.0


def _floor(system: System, tolerance: tuple[float, float], z: Any, b: Any) -> float:
    """Return the rounding error of a change, over its tolerance."""
    return 10 * system.eps * float(np.max((np.abs(z) + np.abs(b)) / _scale(tolerance, z, b), initial=0.0))


def _is_last_stage(tab: Tableau) -> bool:
    return tab.a[-1] == tab.b[: len(tab.a[-1])] and tab.b[-1] == tab.gamma


def _stage(closed: Closed, gamma: float, z: State) -> Any:
    """Return z(base, h, t, captured) with z = base + h gamma f(t, z, captured), whose value is known."""

    def stage(base: State, h: Tensor, t: Tensor, captured: State) -> State:
        return [wrap(x._array) for x in z]

    solved = wg.custom_jvp(stage)

    def rule(primals: Any, tangents: Any) -> tuple[State, State]:
        _, h, t, captured = primals
        out = solved(*primals)
        # Integers among what f takes from outside have no tangent.
        moving = [i for i, c in enumerate(captured) if category(c.dtype) >= 2]

        def push(h: Tensor, t: Tensor, *some: Tensor) -> State:
            full = list(captured)
            for i, c in zip(moving, some):
                full[i] = c
            return [k * _like(h * gamma, k) for k in closed(t, out, full)]

        _, direct = wg.jvp(
            push,
            (h, t, *(captured[i] for i in moving)),
            (*tangents[1:3], *(tangents[3][i] for i in moving)),
        )
        right = _joined([a + b for a, b in zip(tangents[0], direct)])

        def of(v: Tensor) -> Tensor:
            return _joined(closed(t, _split(v, out), captured))

        joined = _joined(out)
        matrix = wg.eye(joined.size, dtype=joined.dtype) - _like(h * gamma, joined) * wg.jacobian(
            of, holomorphic=joined.dtype.kind == "c"
        )(joined)
        return out, _split(wg.linalg.solve(matrix, right), out)

    solved.defjvp(rule)
    return solved


def _jacobian(system: System, t: Time, y: State) -> Any:
    joined = _joined([wrap(x._array) for x in y])
    evaluations = system.evaluations
    found = wg.jacobian(lambda v: _joined(system(t, _split(v, y))), holomorphic=joined.dtype.kind == "c")(joined)
    system.evaluations = evaluations + 1
    if found.is_abstract:
        fail(ConvergenceError, "odeint: an implicit method inside a traced program", "Use an explicit method there.")
    return found._array


def _joined(leaves: Sequence[Tensor]) -> Tensor:
    """Return the leaves as one vector."""
    flat = [x.reshape((-1,)) for x in leaves]
    return flat[0] if len(flat) == 1 else wg.concat(flat)


def _split(v: Tensor, like: Sequence[Tensor]) -> State:
    """Return a vector as leaves."""
    if len(like) == 1:
        return [v.reshape(like[0].shape)]
    out: State = []
    start = 0
    for x in like:
        part = v[start : start + x.size].reshape(x.shape)
        out.append(part if part.dtype == x.dtype else part.astype(x.dtype))
        start += x.size
    return out


def _flat(leaves: Sequence[Tensor]) -> Any:
    found = [np.asarray(x).reshape(-1) for x in values(leaves)]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _unflat(v: Any, like: Sequence[Tensor]) -> State:
    out: State = []
    start = 0
    for x in like:
        part = np.asarray(v[start : start + x.size])
        out.append(wrap((part if part.dtype == x.dtype else part.astype(x.dtype)).reshape(x.shape)))
        start += x.size
    return out


def _tensor(h: Time, system: System) -> Tensor:
    return h if isinstance(h, Tensor) else asarray(np.asarray(h, system.dtype))


def _like(x: Time, like: Tensor) -> Time:
    dtype = np.empty(0, like.dtype).real.dtype
    return x.astype(dtype) if isinstance(x, Tensor) and x.dtype != dtype else x
