"""Solutions as nodes: a solver's result is differentiated by the equation that it satisfies.

Where F(x, a) = 0 holds along x(a), the derivative of x follows from F alone: F_x dx + F_a da = 0
(the implicit function theorem; Christianson 1994, "Reverse accumulation and attractive fixed
points", for the adjoint; Blondel et al. 2022, "Efficient and modular implicit differentiation"). The rules
are made of differentiable operations at the solution's own node, so they hold to every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import stack, where
from ..core.errors import GradientError, fail
from ..core.node import Node
from ..core.ops.op import Joint
from ..core.ops.record import abstract_input, kept_values
from ..core.spec import Spec, category, spec_of
from ..core.state.refusals import refuse
from ..core.tensor import Tensor, wrap
from ..transforms.batch.vmap import vmap
from ..transforms.derivatives.custom_op import CustomOp, as_tensor, is_tracked, record, value_of
from ..transforms.derivatives.functional import vjp
from ..transforms.derivatives.tangents import jvp
from .common import ConvergenceError, Flat, Solved, SolveInfo, solver_specs

Pull = Callable[[Tensor, Sequence[Any], Tensor, Sequence[bool]], list[Any]]
Push = Callable[[Sequence[Any], Sequence[Any], Tensor], "Tensor | None"]


@dataclass(frozen=True)
class Rules:
    """A solver as a function of tensors, and the derivatives of its solution.

    `run` gives a :class:`Solved`. `pull(ct, xs, solution, wanted)` gives the cotangents of its tensors,
    `push(ts, xs, solution)` the tangent of the solution. `traces` says that `run` can run on abstract
    tensors, `strict` that a solver that did not converge is an error.
    """

    name: str
    run: Callable[..., Solved]
    pull: Pull
    push: Push
    like: int = 0  # the argument whose spec the solution has
    traces: bool = True
    strict: bool = True
    of_one: Rules | None = None  # what this maps over a first axis
    mapped: tuple[bool, ...] = ()  # of these arguments

    def specs(self, given: Sequence[Spec]) -> tuple[Spec, ...]:
        if self.of_one is None:
            return solver_specs(given[self.like])
        size = next(s.shape[0] for s, m in zip(given, self.mapped, strict=True) if m)
        own = [spec_of(s.shape[1:], s.dtype) if m else s for s, m in zip(given, self.mapped, strict=True)]
        return tuple(spec_of((size, *s.shape), s.dtype) for s in self.of_one.specs(own))


def solve_node(rules: Rules, tensors: Sequence[Tensor]) -> Solved:
    """Run a solver; where a derivative may be asked for, its results are those of one new node."""
    return Solved(*_op(rules).front(*tensors))


def _op(rules: Rules) -> CustomOp:
    def body(*xs: Tensor) -> tuple[Tensor, ...]:
        return tuple(_checked(rules, rules.run(*xs)))

    def pulled(ct: Any, xs: Any, out: Any, node: Node) -> list[Any]:
        recording = any(isinstance(c, Tensor) for c in ct)
        wanted = [isinstance(e, Node) and e.requires_grad for e in node.inputs]
        found = rules.pull(as_tensor(ct[0]), [as_tensor(x) for x in xs], as_tensor(out[0]), wanted)
        return [g if g is None or recording else _array(g, rules.name) for g in found]

    def pushed(ts: Any, xs: Any, out: Any, node: Node) -> Any:
        recording = any(isinstance(t, Tensor) for t in ts)
        given = [None if t is None else as_tensor(t) for t in ts]
        found = rules.push(given, [as_tensor(x) for x in xs], as_tensor(out[0]))
        return found if found is None or recording else _array(found, rules.name), None, None, None

    def front(*tensors: Tensor) -> Any:
        if any(t.is_abstract for t in tensors):
            specs = rules.specs([t.spec for t in tensors])
            return tuple(record(op, tensors, list(map(abstract_input, specs)), None))
        outs = body(*(value_of(t) for t in tensors))
        if not any(map(is_tracked, tensors)):
            return outs
        data: Any = tuple(o._array for o in outs)
        saved = kept_values(op, tuple(map(is_tracked, tensors)), [t._array for t in tensors], data)
        return tuple(record(op, tensors, outs, saved))

    op = CustomOp(rules.name, 4, body, Joint(pulled, push=pushed), front)
    op.infer = lambda *specs: rules.specs(specs)
    op.batched = lambda mapped: _op(_mapped(rules, mapped)).front
    return op


def _array(t: Tensor, name: str) -> Any:
    if t.is_abstract:
        fail(GradientError, f"{name}: a derivative that is not linear in the cotangent")
    return t._array


def _checked(rules: Rules, found: Solved) -> Solved:
    """Raise for a solver that did not converge on values; where there are none, make its solution NaN."""
    if not rules.strict:
        return found
    good = found.converged
    if good.is_abstract:
        x = found.solution
        shape = (*good.shape, *(1,) * (x.ndim - good.ndim))
        return found._replace(solution=where(good.reshape(shape), x, np.asarray(np.nan, x.dtype)))
    done = good._array
    if not done.all():
        which = "" if done.ndim == 0 else f" for {int((~done).sum())} of {done.size} examples"
        fail(
            ConvergenceError,
            f"{rules.name} did not converge{which}: residual {np.max(found.residual._array):.3g} "
            f"after {int(np.max(found.steps._array))} steps",
            "Start nearer, allow more steps (max_steps=), a larger residual (tol=), or take another method; "
            "error=False returns what was found.",
        )
    return found


# -- many examples


def _mapped(rules: Rules, mapped: Sequence[bool]) -> Rules:
    axes = tuple(0 if m else None for m in mapped)

    def pull(ct: Tensor, xs: Sequence[Any], out: Tensor, wanted: Sequence[bool]) -> list[Any]:
        flows: list[bool] = []

        def one(c: Tensor, values: Any, solution: Tensor) -> list[Tensor]:
            grads = rules.pull(c, values, solution, wanted)
            flows[:] = [g is not None for g in grads]
            return [g for g in grads if g is not None]

        found = iter(vmap(one, in_axes=(0, axes, 0))(ct, tuple(xs), out))
        grads = [next(found) if flow else None for flow in flows]
        return [g if g is None or m else g.sum(axis=0) for g, m in zip(grads, mapped)]

    def push(ts: Sequence[Any], xs: Sequence[Any], out: Tensor) -> Tensor | None:
        places = [i for i, t in enumerate(ts) if t is not None]

        def one(some: Any, values: Any, solution: Tensor) -> list[Tensor]:
            full: list[Any] = [None] * len(ts)
            for i, t in zip(places, some, strict=True):
                full[i] = t
            found = rules.push(full, values, solution)
            return [] if found is None else [found]

        in_axes = (tuple(axes[i] for i in places), axes, 0)
        found = vmap(one, in_axes=in_axes)(tuple(ts[i] for i in places), tuple(xs), out)
        return found[0] if found else None

    many = replace(rules, pull=pull, push=push, of_one=rules, mapped=tuple(mapped))
    if rules.traces:
        run = vmap(lambda *xs: tuple(rules.run(*xs)), in_axes=axes)
    else:
        run = _one_by_one(many)
    return replace(many, run=lambda *xs: Solved(*run(*xs)))


def _one_by_one(many: Rules) -> Callable[..., Any]:
    mapped, one = many.mapped, many.of_one
    assert one is not None

    def run(*xs: Tensor) -> tuple[Tensor, ...]:
        on_values(xs, many.name)
        size = next(x.shape[0] for x, m in zip(xs, mapped, strict=True) if m)
        rows = [one.run(*(x[i] if m else x for x, m in zip(xs, mapped, strict=True))) for i in range(size)]
        if not rows:
            return tuple(wrap(np.zeros(s.shape, s.dtype)) for s in many.specs([x.spec for x in xs]))
        return tuple(stack(list(column)) for column in zip(*rows, strict=True))

    return run


def on_values(xs: Sequence[Tensor], name: str) -> None:
    """Refuse abstract tensors where a solver's own steps are to be traced."""
    for x in filter(lambda x: x.is_abstract, xs):
        refuse(
            f"{name}: the steps of this method run on values and cannot be traced",
            "Wengert's own methods can: newton, newton_krylov, bisect, chandrupatla; iterate, anderson; lbfgs, bfgs, "
            "gradient, newton; dense, cg, gmres, bicgstab.",
            x,
        )


# -- derivatives through a function of tensors


def push_through(fn: Flat, xs: Sequence[Any], ts: Sequence[Any]) -> Tensor | None:
    """Return the tangent of `fn(*xs)` for the tangents `ts`, None where there is none."""
    places = [i for i, t in enumerate(ts) if t is not None]
    if not places:
        return None
    found: Tensor = jvp(_only(fn, xs, places), [xs[i] for i in places], [ts[i] for i in places])[1]
    return found


def pull_through(fn: Flat, xs: Sequence[Any], ct: Tensor, wanted: Sequence[bool]) -> list[Any]:
    """Return the cotangents of the wanted among `xs` for the cotangent of `fn(*xs)`."""
    places = [i for i, x in enumerate(xs) if wanted[i] and category(x.dtype) >= 2]
    grads: list[Any] = [None] * len(xs)
    if places:
        _, pull = vjp(_only(fn, xs, places), *(xs[i] for i in places))
        for i, g in zip(places, pull(ct), strict=True):
            grads[i] = g
    return grads


def _only(fn: Flat, xs: Sequence[Any], places: Sequence[int]) -> Flat:
    def of_some(*some: Tensor) -> Tensor:
        full = list(xs)
        for i, x in zip(places, some, strict=True):
            full[i] = x
        return fn(*full)

    return of_some


def info_of(found: Solved) -> SolveInfo:
    """Return a solver's end as users see it."""
    return SolveInfo(found.converged, found.steps, found.residual.detach())
