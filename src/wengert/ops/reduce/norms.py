"""Smooth maxima and norms: logsumexp and the vector norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.errors import DTypeError, fail
from ...core.ops.autocast import in_its_precision
from ...core.ops.costs import TRANSCENDENTAL
from ...core.ops.declare import composite, op, public
from ...core.ops.facets import Cause, Form, Nonfinite, Square
from ...core.ops.nonfinite import EMPTY_ROW, NORM, OVERFLOW, ROW
from ...core.ops.op import Call, Missing, Op, Vjp
from ...core.ops.record import bind
from ...core.spec import real_dtype
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..long_sums import add_up
from ..pointwise.arithmetic import conj, exp, real, sqrt
from ..pointwise.selection import where_op
from ..structure.shapes import casted
from .common import (
    Axis,
    inexact,
    infer,
    kept,
    largest,
    narrowed,
    ordered,
    present_where_nonzero,
    reduced_axes,
    reductions,
    row_by_row,
    running_dtype,
    widened,
)
from .cumulative import conjugate
from .extremes import max_op, min_op
from .sums import sum_op
from .truth import count_nonzero_op

# -- logsumexp


def _logsumexp(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    wide = widened(x)
    top = largest(wide, axis, None, None, True, -math.inf)
    finite = np.isfinite(top)
    if not finite.all():
        # An infinite maximum would be subtracted from itself; without it, exp and log give what is due.
        top = np.where(finite, top, wide.dtype.type(0))
    out = np.log(add_up(np.exp(wide - top), axis, None, None, keepdims))
    return narrowed(out + top.reshape(out.shape), x.dtype)


def _logsumexp_pull(ct: Any, x: Any, out: Any, axis: tuple[int, ...]) -> Any:
    """Return softmax weights; 0 where all elements are -inf, so that a row that is masked out passes nothing on."""
    level = kept(where_op(out == -math.inf, 0.0, out), x.shape, axis)
    return kept(ct, x.shape, axis) * conjugate(exp(x - level))


def _logsumexp_samples(rng: Any) -> list[Call]:
    masked = np.array([[1.0, -math.inf, 2.0], [0.5, 800.0, 801.0]])
    return [*reductions()(rng), Call((masked,), {"axis": (-1,), "keepdims": False}, order=0)]


logsumexp_op: Op = op(
    "logsumexp(x; axis: axes, keepdims)",
    _logsumexp,
    accepts="real_inexact",
    infer=infer,
    facts={"x": Vjp(_logsumexp_pull)},
    doc="log of the sum of exp along axes, without overflow.",
    samples=_logsumexp_samples,
    reference="scipy.special.logsumexp",
    onnx="ReduceLogSumExp",
    source="Blanchard, Higham, Higham, Accurately computing the log-sum-exp and softmax functions, 2021",
    cost=TRANSCENDENTAL + 3,
    form=Form(
        "ln Σe",
        "ln Σ e^({0})",
        binds="sign",
        local="softmax({0})",
        say="Each element gets its *softmax share* of what arrives.",
    ),
    nonfinite=Nonfinite(
        backward=Cause("a row without a finite entry: the slope is exp(-inf + inf)", ROW), infinite=EMPTY_ROW
    ),
    autocast="float32",
)


@public(method=True)
@dim_alias
def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) along axes, without overflow or underflow.

    Parameters
    ----------
    x: any shape, real; integers become float32.
    axis: an axis or several; None for all.
    keepdims: keep the reduced axes, with size 1.

    -inf where all elements are -inf, or there are none, and no gradient flows there. Raises
    ShapeError, DTypeError for complex numbers.

    >>> import wengert as wg
    >>> wg.logsumexp(wg.tensor([1000.0, 1000.0]))
    tensor(1000.6932)
    """
    x = inexact(ordered(x, "logsumexp"))
    out: Tensor = bind(logsumexp_op, (x,), {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)})
    return out


# -- norms


def _length(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    wide = widened(x)
    squares = np.square(wide) if x.dtype.kind != "c" else np.square(x.real) + np.square(x.imag)
    return narrowed(np.sqrt(add_up(squares, axis, None, None, keepdims)), real_dtype(x.dtype))


def _length_pull(ct: Any, x: Any, out: Any, axis: tuple[int, ...]) -> Any:
    length = kept(out, x.shape, axis)
    nonzero = length != 0.0
    return where_op(nonzero, kept(ct, x.shape, axis) * (x / where_op(nonzero, length, 1.0)), 0.0)


def _product(x: Any, y: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    return sum_op(real(conj(x) * y) if x.dtype.kind == "c" else x * y, axis=axis, keepdims=keepdims)


@composite(
    "l2_norm(x; axis: axes, keepdims)",
    accepts="floating",
    forward=_length,
    facts={"x": Vjp(_length_pull, present=present_where_nonzero)},
    doc="The Euclidean length along axes. No gradient flows at 0.",
    samples=reductions(),
    reference=row_by_row(lambda row: math.hypot(*row)),
    onnx="ReduceL2",
    form=Form("‖v‖", "‖{0}‖", local="{0} / {out}", say="A length sends what arrives along the vector's *direction*."),
    nonfinite=OVERFLOW._replace(backward=Cause("the norm at 0 has no derivative", NORM)),
    square=Square(_product, lambda ct, x, axis, keepdims: kept(ct, x.shape, axis) * x),
    autocast="float32",
)
def l2_norm(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return the Euclidean norm along axes, without a slope at 0."""
    squares = real(conj(x) * x) if x.dtype.kind == "c" else x * x
    total = sum_op(squares, axis=axis, keepdims=keepdims)
    return where_op(total != 0.0, sqrt(total), 0.0)


@composite(
    "p_norm(x; ord, axis: axes, keepdims)",
    accepts="floating",
    doc="The root, of order `ord`, of the sum of powers of absolute values along axes. No gradient flows at 0.",
    samples=lambda rng: [*reductions(ord=3.0)(rng)[:3], *reductions(ord=1.5)(rng)[:2], *reductions(ord=-2.0)(rng)[:1]],
    reference=row_by_row(lambda row, ord: math.fsum(abs(v) ** ord for v in row) ** (1 / ord)),
    onnx=Missing("ONNX writes it as powers of a ReduceSum; LpNorm keeps the axis"),
    nonfinite=Nonfinite(backward=Cause("the norm at 0 has no derivative", NORM)),
    autocast="float32",
)
def p_norm(x: Any, *, ord: float, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return the norm of order `ord` along axes, without a slope at 0."""
    size = abs(x)
    if ord < 0:
        # One element of 0 makes the norm 0, and its powers infinite.
        nothing = sum_op(where_op(size == 0.0, 1.0, 0.0), axis=axis, keepdims=keepdims) != 0.0
        total = sum_op(where_op(size == 0.0, 1.0, size) ** ord, axis=axis, keepdims=keepdims)
        return where_op(nothing & (total == total), 0.0, total ** (1.0 / ord))
    if ord % 2.0 == 0.0 and x.dtype.kind != "c":
        powers = x**ord  # a polynomial, where an absolute value has a kink
    else:
        # The powers' higher derivatives may be infinite at 0, where nothing is to flow.
        powers = where_op(size != 0.0, size**ord, 0.0)
    total = sum_op(powers, axis=axis, keepdims=keepdims)
    return where_op(total != 0.0, total ** (1.0 / ord), 0.0)


def _norm(x: Any, ord: Any, axis: Axis, keepdims: bool) -> Tensor:
    x = inexact(x)
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        fail(
            DTypeError,
            f"the order of a norm must be a number, not {ord!r}",
            'Use 2, 1, float("inf") or another number.',
        )
    attrs = {"axis": reduced_axes(axis, x.ndim), "keepdims": bool(keepdims)}
    out: Tensor
    if ord == 2:
        out = bind(l2_norm, (x,), attrs)
    elif ord == 1:
        out = bind(sum_op, (abs(x),), attrs)
    elif ord == math.inf:
        out = bind(max_op, (abs(x),), attrs)
    elif ord == -math.inf:
        out = bind(min_op, (abs(x),), attrs)
    elif ord == 0:
        out = casted(bind(count_nonzero_op, (x,), attrs), real_dtype(x.dtype))
    else:
        # Powers leave the range of half precision long before their root does.
        (x,) = in_its_precision(p_norm, (x,))
        wide = casted(x, running_dtype(x.dtype))
        out = casted(p_norm.front(wide, ord=float(ord), **attrs), real_dtype(x.dtype))
    return out


@public(home="linalg")
@dim_alias
def vector_norm(x: Any, ord: float = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the norm of the elements along axes, as of one vector (Array API, linalg).

    Parameters
    ----------
    x: any shape, real or complex; integers become float32.
    ord: 2 for the Euclidean length; 1, any other number p for (sum |x|^p)^(1/p); inf and -inf for
        the largest and smallest absolute value; 0 for the number of elements that are not 0.
    axis: an axis or several; None for all elements.
    keepdims: keep the reduced axes, with size 1.

    The gradient at 0 is 0, to every order. Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> x = wg.tensor([3.0, -4.0])
    >>> wg.linalg.vector_norm(x), wg.linalg.vector_norm(x, ord=1), wg.linalg.vector_norm(x, ord=float("inf"))
    (tensor(5.), tensor(7.), tensor(4.))
    """
    return _norm(x, ord, axis, keepdims)


@public(method=True, home="torch")
@dim_alias
def norm(x: Any, p: float | str = 2, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return :func:`vector_norm` by PyTorch's name and parameters; `p="fro"` is 2.

    >>> import wengert as wg
    >>> wg.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    return _norm(x, 2 if p == "fro" else p, axis, keepdims)
