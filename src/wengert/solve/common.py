"""The common parts of solvers: functions of pytrees as functions of vectors, closures as arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import concat, where
from ..core import tree
from ..core.dtypes import DType
from ..core.errors import DTypeError, GradientError, GraphError, ShapeError, TraceError, WengertError, fail
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.spec import Spec, category, default_float, promote, spec_of
from ..core.standins import WeakTensor
from ..core.state.refusals import refuse
from ..core.tensor import Tensor, asarray, wrap
from ..ops.random.generator import default_generator
from ..ops.structure.shapes import as_operand
from ..transforms.control import while_loop
from ..transforms.derivatives.tangents import jvp
from ..transforms.derivatives.variables import own_object
from ..transforms.tracing.open_trace import open_trace
from ..transforms.tracing.replay import replay

Flat = Callable[..., Tensor]  # from a vector and other tensors to a vector, or a scalar


class ConvergenceError(WengertError, RuntimeError):
    """An error for a solver that did not reach its tolerance."""

    __module__ = "wengert.solve"  # where users find it


class SolveInfo(NamedTuple):
    """The end of a solver, as tensors: whether it reached its tolerance, its steps, the residual's norm.

    >>> import wengert as wg
    >>> x, info = wg.solve.root(lambda x: x * x - 2.0, wg.tensor(1.0), info=True)
    >>> bool(info.converged)
    True
    """

    converged: Tensor
    steps: Tensor
    residual: Tensor


class Solved(NamedTuple):
    """The internal result of a solver: the solution as a vector, and its end."""

    solution: Tensor
    converged: Tensor
    steps: Tensor
    residual: Tensor


def default_tolerance(dtype: DType, power: float) -> float:
    """Return a power of the dtype's rounding error: 3.7e-11 for float64 and 2.4e-5 for float32 at 2/3."""
    eps = float(np.finfo(dtype).eps)
    return math.pow(eps, power)


def solver_specs(x: Spec) -> tuple[Spec, ...]:
    """Return the specs of a :class:`Solved`, for a solution of this one."""
    real = spec_of((), np.empty(0, x.dtype).real.dtype)
    return x, spec_of((), np.dtype(bool)), spec_of((), np.dtype(np.int64)), real


def largest(v: Tensor) -> Tensor:
    """Return the largest magnitude among the elements; 0 for none."""
    return abs(v).max() if v.size else wrap(np.zeros((), np.empty(0, v.dtype).real.dtype))


def stationary(v: Tensor, value: Tensor, gradient: Tensor, tol: float) -> Tensor:
    """Return whether the gradient is small, or small for a value and unknowns of this size."""
    size = largest(v)
    natural = abs(value) / where(size > 1, size, 1.0)
    found: Tensor = largest(gradient) <= tol * where(natural > 1, natural, 1.0)
    return found


def loop(going: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """Run `while_loop` for a solver: nothing is recorded for derivatives, which do not go through the steps."""
    token = set_mode(get_mode().with_grad(False))
    try:
        return while_loop(going, step, state)
    finally:
        reset_mode(token)


def known(x: Tensor, kind: Any) -> Any:
    """Return a scalar as a Python value."""
    return kind(x._array)


# -- pytrees as vectors


class Packing:
    """The leaves of a pytree as one vector."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        self.shapes = list(shapes)
        self.sizes = [int(np.prod(s)) for s in shapes]
        self.size = sum(self.sizes)

    def pack(self, leaves: Sequence[Tensor], dtype: DType) -> Tensor:
        flat = [x.reshape((-1,)).astype(dtype) if x.size else wrap(np.zeros(0, dtype)) for x in leaves]
        if not flat:
            return wrap(np.zeros(0, dtype))
        return flat[0] if len(flat) == 1 else concat(flat)

    def unpack(self, v: Tensor) -> list[Tensor]:
        if len(self.shapes) == 1:
            return [v.reshape(self.shapes[0])]
        found, start = [], 0
        for shape, size in zip(self.shapes, self.sizes, strict=True):
            found.append(v[start : start + size].reshape(shape))
            start += size
        return found


def unknowns(pytree: Any, what: str) -> tuple[list[Tensor], Any, DType]:
    """Return the leaves of a first guess, its structure and their common dtype; integers become floating."""
    leaves, structure = tree.flatten(pytree)
    strong: list[DType] = []
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic, int, float, complex)):
            fail(DTypeError, f"{what}: a {type(leaf).__name__} among the unknowns", "They are tensors or numbers.")
        if not isinstance(leaf, (int, float, complex, WeakTensor)) and category(asarray(leaf).dtype) >= 2:
            strong.append(asarray(leaf).dtype)
    dtype: DType = default_float()
    for i, d in enumerate(strong):
        dtype = d if i == 0 else promote(dtype, d)
    refuse_dtype(dtype, what)
    found = [leaf.detach().astype(dtype) if isinstance(leaf, Tensor) else asarray(leaf, dtype=dtype) for leaf in leaves]
    return found, structure, dtype


def refuse_dtype(dtype: DType, what: str) -> None:
    """Raise DTypeError for unknowns that are complex or narrower than float32."""
    if category(dtype) == 3:
        fail(
            DTypeError,
            f"{what} with unknowns of dtype {dtype}",
            "Its unknowns are real: make the real and the imaginary part two of them.",
        )
    if dtype not in (np.float32, np.float64):
        fail(
            DTypeError, f"{what} with unknowns of dtype {dtype}", "Solve in float32 or float64: x0.astype(wg.float32)."
        )


# -- closures as arguments


class Closed:
    """A function of a pytree with all tensors that it uses as arguments.

    `tensors` are those among the extra arguments, then those that the function takes from outside.
    Called with the pytree's leaves and tensors in the places of these it gives the result's leaves.
    """

    def __init__(self, fn: Callable[..., Any], leaves: Sequence[Tensor], structure: Any, args: Any, what: str) -> None:
        given, arguments = tree.flatten(tuple(args))
        places = [i for i, a in enumerate(given) if isinstance(a, (Tensor, np.ndarray, np.generic))]
        self.tensors = [as_operand(given[i]) for i in places]
        self.traced = True

        def arranged(tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
            full = list(given)
            for i, t in zip(places, tensors[len(leaves) :], strict=True):
                full[i] = t
            return (tree.unflatten(structure, list(tensors[: len(leaves)])), *tree.unflatten(arguments, full)), {}

        def direct(*tensors: Tensor) -> list[Tensor]:
            found, self.structure = tree.flatten(fn(*arranged([own_object(t) for t in tensors])[0]))
            return [own_object(o) if isinstance(o, Tensor) else asarray(o) for o in found]

        own = [*leaves, *self.tensors]
        outer = get_mode()
        before = default_generator.mark()
        token = set_mode(outer.recording(outer.scope))
        try:
            specs = [t.spec for t in own]
            numbers = [type(t) is WeakTensor for t in own]
            opened = open_trace(fn, specs, arranged, [category(t.dtype) >= 2 for t in own], numbers)
            graph, captured = opened.close()
            self.structure, self.specs = opened.structure, [o.spec for o in opened.outs]
            self.tensors += captured
            self._call: Callable[..., list[Tensor]] = lambda *tensors: replay(graph, tensors)
        except TraceError:
            # A function that asks for values (a Python `if`) cannot be traced; on values it runs as it is.
            if any(t.is_abstract for t in own):
                raise
            self.traced = False
            self._call = direct
            outs = direct(*(t.detach() for t in own))
            self.specs = [o.spec for o in outs]
            _nothing_outside(outs, what)
        finally:
            reset_mode(token)
        if default_generator.mark() != before:
            fail(GraphError, f"{what}: the function draws random numbers", "It is one function: draw them before.")

    def __call__(self, leaves: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
        return self._call(*leaves, *tensors)


def _nothing_outside(outs: Sequence[Tensor], what: str) -> None:
    for out in (o for o in outs if o.requires_grad):
        refuse(
            f"{what}: the function uses a tensor that requires gradients from outside, and asks for values",
            "Such a function cannot be traced, so what it uses must be among its arguments: pass the tensor as one "
            "of them, detach it, or write the function with wg.where or wg.cond in the place of a Python `if`.",
            out,
            GradientError,
        )
    if any(o.is_abstract for o in outs):
        refuse(
            f"{what}: the function uses a traced tensor and asks for values",
            "Write it with wg.where or wg.cond in the place of a Python `if`.",
        )


class System:
    """A function of a pytree of unknowns as one of a vector, `call(v, *tensors)`, in a settled dtype."""

    def __init__(self, fn: Callable[..., Any], x0: Any, args: Any, what: str) -> None:
        leaves, self.structure, dtype = unknowns(x0, what)
        while True:
            closed = Closed(fn, leaves, self.structure, args, what)
            wider = dtype
            for spec in closed.specs:
                if not spec.inexact:
                    fail(DTypeError, f"{what}: the function returned {spec}", "It returns floating values.")
                wider = promote(wider, spec.dtype)
            refuse_dtype(wider, what)
            if wider == dtype:
                break
            dtype = wider
            leaves = [x.astype(dtype) for x in leaves]
        self.what, self.closed, self.dtype = what, closed, dtype
        self.packing = Packing([x.shape for x in leaves])
        self.outs = Packing([s.shape for s in closed.specs])
        self.start = self.packing.pack(leaves, dtype)
        self.tensors = closed.tensors

    def __call__(self, v: Tensor, *tensors: Tensor) -> Tensor:
        return self.outs.pack(self.closed(self.packing.unpack(v), tensors), self.dtype)

    def scalar(self, v: Tensor, *tensors: Tensor) -> Tensor:
        (out,) = self.closed(self.packing.unpack(v), tensors)
        value: Tensor = out.reshape(()).astype(self.dtype)
        return value

    def pytree(self, v: Tensor) -> Any:
        return tree.unflatten(self.structure, self.packing.unpack(v))

    def as_many_as_unknowns(self) -> None:
        if self.outs.size != self.packing.size:
            fail(
                ShapeError,
                f"{self.what}: {self.outs.size} equations in {self.packing.size} unknowns",
                "There are as many equations as unknowns; wg.solve.minimize takes a sum of squares.",
            )


def directional(fn: Flat, v: Tensor, t: Tensor) -> Tensor:
    """Return the derivative of `fn` at `v` along `t`."""
    found: Tensor = jvp(fn, (v,), (t,))[1]
    return found
