"""The right-hand side of a differential equation over the leaves of a pytree, and arithmetic of states."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

import wengert as wg

from ...core import tree
from ...core.errors import DTypeError, ShapeError, fail
from ...core.mode import get_mode
from ...core.ops.record import another
from ...core.spec import Spec, category, spec_of
from ...core.standins import WeakTensor
from ...core.tensor import Tensor, asarray, wrap
from ...ops.structure.shapes import as_operand, casted
from ...transforms.derivatives.variables import has_state, own_object
from ...transforms.tracing.open_trace import open_trace

_NOTHING, _TENSOR = tree.structure(None), tree.structure(0.0)
State = list[Tensor]
Time = float | Tensor  # a number, or a tensor where times are abstract or differentiated in


class System:
    """The equation dy/dt = f(t, y): `system(t, leaves)` gives the derivative's leaves, checked against the state's.

    What f is given are objects of its own, and so is what is kept of what it returns: it may write to both.
    """

    def __init__(self, f: Callable[..., Any], y0: Any, args: tuple[Any, ...], t0: Tensor | float) -> None:
        leaves, self.structure = tree.flatten(y0)
        if not leaves:
            fail(ShapeError, "odeint: y0 has no tensors", "Give a tensor or a pytree of them.")
        self.f = f
        given, self._arguments = tree.flatten(args, has_state)
        self._given = [another(x) if isinstance(x, Tensor) else x for x in given]
        self.evaluations = 0
        self._given_state = leaves
        weak = [type(leaf) in (int, float, complex, WeakTensor) for leaf in leaves]
        self.start = [_state_leaf(leaf) for leaf in leaves]
        self._set_specs()
        first = self._flat(t0, self.start)
        # Python numbers take the dtype that the equation gives them.
        for i, number in enumerate(weak):
            if number and category(first[i].dtype) >= 2 and first[i].dtype != self.start[i].dtype:
                self.start[i] = casted(as_operand(leaves[i]), first[i].dtype)
        self._set_specs()
        self.first = self(t0, self.start) if any(weak) else self._checked(first)

    def _set_specs(self) -> None:
        self.specs: list[Spec] = [x.spec for x in self.start]
        self.dtype = real_dtype(np.result_type(*[s.dtype for s in self.specs]))
        self.eps = float(np.finfo(self.dtype).eps) if self.dtype.kind == "f" else 2.0**-7

    @property
    def abstract(self) -> bool:
        """True where values are not known: while a program is traced."""
        return get_mode().tracing or any(x.is_abstract for x in (*self.start, *self.first))

    def clock(self, t: Time) -> Tensor:
        """Return a time as a scalar tensor of the state's real dtype."""
        if isinstance(t, Tensor):
            return t if t.dtype == self.dtype else t.astype(self.dtype)
        return wrap(np.array(t, self.dtype))

    def pytree(self, leaves: Sequence[Tensor]) -> Any:
        """Return a state as the user has it, of objects to write to."""
        return tree.unflatten(self.structure, [own_object(x) for x in leaves])

    def of_state(self, fn: Callable[..., Any], t: Time, leaves: Sequence[Tensor]) -> Any:
        """Return the result of a user's function `fn(t, y, *args)`."""
        args = tree.unflatten(self._arguments, [own_object(x) for x in self._given])
        return fn(own_object(self.clock(t)), self.pytree(leaves), *args)

    def _flat(self, t: Time, leaves: Sequence[Tensor]) -> State:
        self.evaluations += 1
        out, structure = tree.flatten(self.of_state(self.f, t, leaves))
        if structure != self.structure:
            self._refuse_pytree(out, structure)
        return [own_object(x) if isinstance(x, Tensor) else asarray(x) for x in out]

    def _refuse_pytree(self, out: Sequence[Any], found: Any) -> NoReturn:
        """Raise ShapeError for a derivative in another pytree than the state, and say how to convert it."""
        mend = "f(t, y, *args) returns dy/dt, a pytree like y."
        if found == _NOTHING:
            fail(ShapeError, "odeint: f returned None, not dy/dt", mend)
        in_line = (list, tuple)
        if found == _TENSOR and self.structure.kind in in_line and all(x.ndim == 0 for x in self.start):
            plain = all(type(x) in (int, float, complex) for x in self._given_state)
            first = f"wg.tensor({self._given_state})" if plain else "wg.stack([...])"
            mend += f" Where it is one tensor, give the state as one too: y0={first}."
        elif self.structure == _TENSOR and found.kind in in_line:
            mend += " Where the state is one tensor, make it one too: return wg.stack([...])."
        fail(ShapeError, f"odeint: f returned {found} for a state {self.structure}", mend)

    def __call__(self, t: Time, leaves: Sequence[Tensor]) -> State:
        return self._checked(self._flat(t, leaves))

    def _checked(self, out: State) -> State:
        for i, (found, spec) in enumerate(zip(out, self.specs)):
            if found.spec is spec:
                continue
            if found.shape != spec.shape:
                fail(
                    ShapeError,
                    f"odeint: f returned shape {found.shape} for a state of shape {spec.shape}",
                    "The derivative has the shape of what it is the derivative of.",
                )
            if found.dtype == spec.dtype:
                continue
            if category(found.dtype) >= 2 and np.can_cast(found.dtype, spec.dtype):
                out[i] = found.astype(spec.dtype)
                continue
            if category(found.dtype) < 2:
                out[i] = found.astype(spec.dtype)
                continue
            fail(
                DTypeError,
                f"odeint: f returned {found.dtype} for a state of {spec.dtype}",
                f"Give y0 in {found.dtype}, or the arguments in {spec.dtype}.",
            )
        return out


def _state_leaf(leaf: Any) -> Tensor:
    if not isinstance(leaf, (Tensor, np.ndarray, np.generic, int, float, complex)):
        fail(
            DTypeError, f"odeint: a {type(leaf).__name__} in y0", "The state is a pytree of tensors, arrays or numbers."
        )
    t = leaf.strong() if type(leaf) is WeakTensor else another(leaf) if isinstance(leaf, Tensor) else asarray(leaf)
    return t if category(t.dtype) >= 2 else t.astype(asarray(0.0).dtype)


def real_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of the real part."""
    return np.empty(0, dtype).real.dtype


# -- arithmetic of states


def combine(y: Sequence[Tensor], h: Time, ks: Sequence[State], weights: Sequence[float | Tensor]) -> State:
    """Return y + h sum_i w_i k_i, leaf by leaf; stages of weight 0 are left out."""
    tensors = isinstance(h, Tensor) or isinstance(weights[-1], Tensor)
    used = [(w, k) for w, k in zip(weights, ks) if isinstance(w, Tensor) or w != 0.0]
    if not used:
        return list(y)
    if not tensors and _plain(y, used):
        with np.errstate(all="ignore"):
            factors: list[Any] = [h * w for w, _ in used]
            return [wrap(_sum_of(leaf._array, factors, [k[i]._array for _, k in used])) for i, leaf in enumerate(y)]
    out: State = []
    for i, leaf in enumerate(y):
        if tensors:
            total = _sum([k[i] * _scalar(w, leaf) for w, k in used]) * _scalar(h, leaf)
        else:
            total = _sum([k[i] * (h * w) for w, k in used])
        out.append(leaf + total)
    return out


def _plain(y: Sequence[Tensor], used: Sequence[tuple[Any, State]]) -> bool:
    """Return whether there is nothing to record."""
    for leaves in (y, *(k for _, k in used)):
        for x in leaves:
            if x.node is not None:
                return False
    return True


def _sum_of(y: Any, factors: Sequence[float], terms: Sequence[Any]) -> Any:
    total = terms[0] * factors[0]
    for factor, term in zip(factors[1:], terms[1:]):
        total = total + term * factor
    return np.asarray(y + total, y.dtype)


def _scalar(x: Time, like: Tensor) -> Time:
    """Return a factor that does not change the dtype of the other operand."""
    dtype = real_dtype(like.dtype)
    return x.astype(dtype) if isinstance(x, Tensor) and x.dtype != dtype else x


def _sum(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def hermite(y0: State, y1: State, f0: State, f1: State, h: Time, theta: Time) -> State:
    """Return the cubic polynomial through both ends of a step with their slopes, at `theta` of it."""
    rest = 1.0 - theta
    w1 = theta * theta * (3.0 - 2.0 * theta)
    s0, s1 = theta * rest * rest, -theta * theta * rest
    out: State = []
    for a, b, p, q in zip(y0, y1, f0, f1):
        slopes = p * _scalar(s0, a) + q * _scalar(s1, a)
        out.append(a + (b - a) * _scalar(w1, a) + slopes * _scalar(h, a))
    return out


def error_ratio(error: Sequence[Any], y0: Sequence[Any], y1: Sequence[Any], rtol: float, atol: float) -> float:
    """Return the root mean square of the errors over their tolerances, all leaves together; NaN and inf stay.

    On NumPy arrays.
    """
    total, count = 0.0, 0
    with np.errstate(all="ignore"):
        for e, a, b in zip(error, y0, y1):
            ratio = np.abs(e) / (atol + rtol * np.maximum(np.abs(a), np.abs(b)))
            total += float(np.sum(np.square(ratio, dtype=np.float64)))
            count += ratio.size
    return math.sqrt(total / count) if count and total >= 0 else (math.nan if count else 0.0)


def number(t: Time) -> float:
    """Return the value of a time, for decisions on steps."""
    return float(t.detach().item()) if isinstance(t, Tensor) else t


def values(leaves: Sequence[Tensor]) -> list[Any]:
    """Return the NumPy arrays of a state."""
    return [x._array for x in leaves]


# -- f with everything that it uses as arguments


class Closed:
    """The right-hand side as a graph of time, state and the captured tensors."""

    def __init__(self, system: System) -> None:
        def flat(t: Tensor, *leaves: Tensor) -> State:
            return system(t, leaves)

        flat.__name__ = getattr(system.f, "__name__", "f")
        specs = [spec_of((), system.dtype), *system.specs]
        evaluations = system.evaluations
        opened = open_trace(flat, specs, lambda found: (tuple(found), {}), [True] * len(specs))
        system.evaluations = evaluations
        self.dtype = system.dtype
        self.graph, self.captured = opened.close()

    def __call__(self, t: Tensor, leaves: Sequence[Tensor], captured: Sequence[Tensor]) -> State:
        found = self.graph(t if t.dtype == self.dtype else t.astype(self.dtype), *leaves, *captured)
        return list(found) if isinstance(found, (tuple, list)) else [found]


def stacked(rows: Sequence[State]) -> State:
    """Return states at several times as one, with a leading axis."""
    return [wg.stack(list(column)) for column in zip(*rows)]
