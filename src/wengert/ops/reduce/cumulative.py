"""Running sums, products and linear recurrences along an axis."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.ops.autocast import is_half
from ...core.ops.declare import linear, op, public
from ...core.ops.facets import Cause, Nonfinite
from ...core.ops.nonfinite import OVERFLOW, PRODUCT, always
from ...core.ops.op import Call, Linear, Missing, Op, Vjp
from ...core.ops.operands import promote_tensors
from ...core.ops.record import another, bind
from ...core.spec import Spec, as_dtype, bool_, float32, normalize_axis, show
from ...core.tensor import Tensor, wrap
from ..aliases import dim_alias
from ..long_sums import MANY, running, wide
from ..pointwise.arithmetic import conj
from ..structure.assemble import along, concat_op
from ..structure.shapes import as_operand, casted
from .common import running_dtype, summed_dtype

SEQUENTIAL = Missing("each element needs the one before it: a scalar expression cannot say so")


def _same(x: Spec, **attrs: Any) -> Spec:
    return x


def conjugate(x: Any) -> Any:
    """Return the complex conjugate; real numbers as they are."""
    return conj(x) if x.dtype.kind == "c" else x


# -- shift


def _shift(x: Any, axis: int, by: int) -> Any:
    out = np.zeros_like(x)
    if by > 0:
        out[along(axis, slice(by, None))] = x[along(axis, slice(None, -by))]
    else:
        out[along(axis, slice(None, by))] = x[along(axis, slice(-by, None))]
    return out


shift: Op = linear(
    "shift(x; axis, by)",
    _shift,
    infer=_same,
    transpose=lambda ct, axis, by: shift(ct, axis=axis, by=-by),
    selects=True,
    doc="The elements moved by `by` places along an axis; zeros follow, what leaves is dropped.",
    samples=lambda rng: [
        Call((rng.normal(size=4),), {"axis": -1, "by": 1}),
        Call((rng.normal(size=(3, 2)),), {"axis": -2, "by": -2}),
        Call((rng.normal(size=(2, 2)),), {"axis": -1, "by": 3}),
    ],
    reference=lambda x, axis, by: np.stack(
        [
            np.take(x, i - by, axis) if 0 <= i - by < x.shape[axis] else np.zeros_like(np.take(x, 0, axis))
            for i in range(x.shape[axis])
        ],
        axis,
    ),
    onnx="Pad",
    cost=0,
)


# -- cumulative sum and product


def _running(ufunc: np.ufunc, x: Any, axis: int, reverse: bool) -> Any:
    backwards = along(axis, slice(None, None, -1))
    seen = x[backwards] if reverse else x
    if x.shape[axis] <= MANY:
        out = ufunc.accumulate(seen, axis, running_dtype(x.dtype)).astype(x.dtype, copy=False)
    else:
        out = running(ufunc, seen, axis, running_dtype(x.dtype))
    return out[backwards] if reverse else out


def _by_hand(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return an oracle in plain Python for a running sum or product."""

    def run(x: Any, axis: int, reverse: bool, exclusive: bool = False) -> Any:
        def line(values: Any) -> Any:
            listed = values.tolist()[::-1] if reverse else values.tolist()
            if exclusive and listed:
                listed = [1.0, *listed[:-1]]
            done = list(accumulate(listed, combine))
            return np.asarray(done[::-1] if reverse else done, x.dtype)

        return np.apply_along_axis(line, axis, x)

    return run


cumulative_sum_op: Op = linear(
    "cumulative_sum(x; axis, reverse)",
    lambda x, axis, reverse: _running(np.add, x, axis, reverse),
    accepts="numeric",
    infer=_same,
    transpose=lambda ct, axis, reverse: cumulative_sum_op(ct, axis=axis, reverse=not reverse),
    fills=True,
    selects=True,
    covers=True,
    doc="Running sums along an axis, from its start or, reversed, from its end.",
    samples=lambda rng: [
        Call((rng.normal(size=5),), {"axis": -1, "reverse": False}),
        Call((rng.normal(size=(3, 2)),), {"axis": -2, "reverse": True}),
        Call((rng.normal(size=(2, 3, 2)),), {"axis": -2, "reverse": False}),
        Call((rng.normal(size=(2, 0)),), {"axis": -1, "reverse": False}),
    ],
    reference=_by_hand(lambda a, b: a + b),
    onnx="CumSum",
    dependence="running",
    cost=1,
    pattern="accumulate",
    nonfinite=OVERFLOW,
    autocast="float32",
)


def _recur(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    if is_half(b.dtype):
        return _recur(a.astype(float32), b.astype(float32), axis, reverse).astype(b.dtype)
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), b.dtype)
    # Rows of the moved views are the steps, so that each step is one multiplication for all others.
    steps, factors, terms = (np.moveaxis(v, axis, 0) for v in (out, a, b))
    state: Any = None
    start = wide if len(steps) > MANY else np.asarray
    for i in range(len(steps))[:: -1 if reverse else 1]:
        state = start(terms[i]) if state is None else factors[i] * state + terms[i]
        steps[i] = state
    return out


def _recur_by_hand(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """Return the solution y of the bidiagonal system (I - A) y = b."""
    a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
    system = np.eye(b.shape[-1]) - a[..., None] * np.eye(b.shape[-1], k=1 if reverse else -1)
    return np.moveaxis(np.linalg.solve(system, b[..., None])[..., 0], -1, axis)


def _recur_in_a(ct: Any, a: Any, out: Any, axis: int, reverse: bool) -> Any:
    before = shift(out, axis=axis, by=-1 if reverse else 1)
    return _recur_in_b(ct, a, axis, reverse) * conjugate(before)


def _recur_in_b(ct: Any, a: Any, axis: int, reverse: bool) -> Any:
    # The transpose runs the other way, each step with the factor of the step it came from.
    factors = shift(conjugate(a), axis=axis, by=1 if reverse else -1)
    return linear_recurrence(factors, ct, axis=axis, reverse=not reverse)


def _infer_recurrence(a: Spec, b: Spec, **attrs: Any) -> Spec:
    if a.shape != b.shape:
        fail(ShapeError, f"linear_recurrence of {show(a.shape, a.dtype)} and {show(b.shape, b.dtype)}")
    return b


linear_recurrence: Op = op(
    "linear_recurrence(a, b; axis, reverse)",
    _recur,
    infer=_infer_recurrence,
    facts={"a": Vjp(_recur_in_a), "b": Linear(_recur_in_b)},
    doc="y with y[t] = a[t] y[t-1] + b[t] along an axis (t+1 instead of t-1 reversed), starting from y = 0.",
    samples=lambda rng: [
        Call((rng.normal(size=4), rng.normal(size=4)), {"axis": -1, "reverse": False}),
        Call((rng.normal(size=(3, 2)), rng.normal(size=(3, 2))), {"axis": -2, "reverse": True}),
        Call((np.array([0.5, 0.0, 2.0]), rng.normal(size=3)), {"axis": -1, "reverse": False}),
    ],
    reference=_recur_by_hand,
    onnx=Missing("needs Scan with a body of its own"),
    source="Blelloch, Prefix sums and their applications, 1990, section 1.4",
    dependence="running",
    cost=2,
    autocast="float32",
)


def _cumulative_prod(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    if not exclusive:
        return _running(np.multiply, x, axis, reverse)
    out = np.ones_like(x)
    filled, seen = slice(1, None), slice(None, -1)
    if reverse:
        filled, seen = seen, filled
    out[along(axis, filled)] = _running(np.multiply, x[along(axis, seen)], axis, reverse)
    return out


def _cumulative_prod_pull(ct: Any, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    """Return the product before an element times the sum over later results of the product between.

    No division, so that zeros are nothing special; both factors are differentiable again.
    """
    x = conjugate(x)
    onward = 1 if reverse else -1
    before = cumulative_prod_op(x, axis=axis, exclusive=True, reverse=reverse)
    if exclusive:
        ct = shift(ct, axis=axis, by=onward)
    between = shift(x, axis=axis, by=onward)
    return before * linear_recurrence(between, ct, axis=axis, reverse=not reverse)


cumulative_prod_op: Op = op(
    "cumulative_prod(x; axis, exclusive, reverse)",
    _cumulative_prod,
    accepts="numeric",
    infer=_same,
    facts={"x": Vjp(_cumulative_prod_pull)},
    doc="Running products along an axis; an exclusive one leaves the element at its own place out.",
    samples=lambda rng: [
        Call((rng.normal(size=5),), {"axis": -1, "exclusive": False, "reverse": False}),
        Call((rng.normal(size=(3, 2)),), {"axis": -2, "exclusive": True, "reverse": True}),
        Call(
            (np.array([[2.0, 0.0, 3.0, 0.0], [1.0, -2.0, 0.0, 4.0]]),),
            {"axis": -1, "exclusive": False, "reverse": True},
        ),
        Call((rng.normal(size=(2, 3, 2)),), {"axis": -3, "exclusive": True, "reverse": False}),
    ],
    reference=_by_hand(mul),
    onnx=Missing("ONNX has a running product since version 26, and writes a Scan before"),
    dependence="running",
    cost=1,
    nonfinite=Nonfinite(
        ((always, Cause("overflow of a product", PRODUCT)),),
        backward=Cause("the slope of a cumulative product is a quotient by a factor that is 0", PRODUCT),
    ),
    autocast="float32",
)


def _one_axis(name: str, x: Tensor, axis: int | None) -> int:
    if axis is not None:
        return normalize_axis(axis, x.ndim)
    if x.ndim != 1:
        fail(
            ShapeError,
            f"{name} of {show(x.shape, x.dtype)} without an axis",
            "Say along which axis it runs, axis=..., or flatten it first: x.flatten().",
        )
    return -1


def _summand(x: Any, dtype: Any) -> Tensor:
    """Return `x` in the dtype that a running sum or product of it is computed in."""
    x = as_operand(x)
    return casted(x, summed_dtype(x.dtype) if dtype is None else as_dtype(dtype))


def _with_initial(out: Tensor, axis: int, value: int) -> Tensor:
    """Return `out` with `value` before its first element."""
    shape = list(out.shape)
    shape[axis] = 1
    initial: Tensor = bind(concat_op, (wrap(np.full(shape, value, out.dtype)), out), {"axis": axis})
    return initial


@public(method=True)
@dim_alias
def cumulative_sum(x: Any, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Return running sums along an axis (Array API); `cumsum` is the same function.

    Parameters
    ----------
    x: any shape, numbers or booleans.
    axis: along which axis; may be left out for one axis only (NumPy would flatten).
    dtype: the dtype to sum in; else booleans and small integers widen to 64 bits.
    include_initial: start with the sum of nothing, 0, which makes the axis longer by 1.

    Half precision accumulates in float32. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.cumulative_sum([1.0, 2.0, 3.0])
    tensor([1., 3., 6.])
    """
    x = _summand(x, dtype)
    axis = _one_axis("cumulative_sum", x, axis)
    out: Tensor = bind(cumulative_sum_op, (x,), {"axis": axis, "reverse": False})
    return _with_initial(out, axis, 0) if include_initial else out


@public(method=True)
@dim_alias
def cumulative_prod(x: Any, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Return running products along an axis (Array API); `cumprod` is the same function.

    Parameters are those of :func:`cumulative_sum`; the product of nothing is 1. Derivatives are
    right with any number of zeros, to every order.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.cumulative_prod([1.0, 2.0, 0.0, 3.0])
    tensor([1., 2., 0., 0.])
    """
    x = _summand(x, dtype)
    axis = _one_axis("cumulative_prod", x, axis)
    out: Tensor = bind(cumulative_prod_op, (x,), {"axis": axis, "exclusive": False, "reverse": False})
    return _with_initial(out, axis, 1) if include_initial else out


public(cumulative_sum, name="cumsum", method=True, function=False)
public(cumulative_prod, name="cumprod", method=True, function=False)


@public(method=True)
@dim_alias
def diff(x: Any, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Tensor:
    """Return differences of neighbours along an axis, taken `n` times (Array API).

    Parameters
    ----------
    x: at least one axis; booleans differ where they are not equal.
    n: how often; each time makes the axis shorter by 1.
    axis: along which axis.
    prepend, append: tensors to join to `x` first, along the axis.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.diff([1, 4, 9, 16])
    tensor([3, 5, 7])
    """
    out = as_operand(x)
    axis = normalize_axis(axis, out.ndim)
    if n < 0:
        fail(ShapeError, f"diff taken n={n} times", "n counts how often: 0 or more.")
    parts = [p for p in (prepend, out, append) if p is not None]
    if len(parts) > 1:
        out = bind(concat_op, promote_tensors("diff", *parts), {"axis": axis})
    for _ in range(n):
        later, earlier = out[along(axis, slice(1, None))], out[along(axis, slice(None, -1))]
        out = later != earlier if out.dtype == bool_ else later - earlier
    return another(out) if out is x else out
