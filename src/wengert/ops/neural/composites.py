"""Composites: softmax, the affine map, dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.arrays import where_or_zero
from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.autocast import is_half
from ...core.ops.declare import composite, public
from ...core.ops.facets import Form, Nonfinite
from ...core.ops.nonfinite import EMPTY_ROW, OVERFLOW
from ...core.ops.op import TABLE, Call, Linear, Route, Vjp
from ...core.ops.operands import promote_tensors
from ...core.spec import Spec, float32, normalize_axis, show
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..contract.products import matmul, matmul_op
from ..index.inplace import update
from ..long_sums import add_up
from ..pointwise.arithmetic import exp, log
from ..pointwise.selection import where
from ..random.draws import draw_with, key_words
from ..random.functions import random_bernoulli
from ..random.generator import Generator, draw
from ..reduce.cumulative import conjugate
from ..reduce.extremes import max_op
from ..reduce.sums import sum_op
from .activations import operand

# -- softmax


def softmax_numpy(x: Any, axis: int) -> Any:
    """Return softmax of an array; a row of -inf alone is NaN, as 0/0 is."""
    wide = x.astype(float32) if x.dtype.itemsize == 2 else x
    out = wide - np.maximum.reduce(wide, axis, keepdims=True, initial=-math.inf)
    np.exp(out, out=out)
    out /= add_up(out, axis, None, None, True)
    return out.astype(x.dtype) if wide is not x else out


def log_softmax_numpy(x: Any, axis: int) -> Any:
    """Return the logarithm of softmax, exact where softmax itself would be 0."""
    wide = x.astype(float32) if x.dtype.itemsize == 2 else x
    shifted = wide - np.maximum.reduce(wide, axis, keepdims=True, initial=-math.inf)
    shifted -= np.log(add_up(np.exp(shifted), axis, None, None, True))
    return shifted.astype(x.dtype) if wide is not x else shifted


def _rows(rng: Any) -> list[Call]:
    return [
        Call((rng.normal(size=(2, 4)),), {"axis": -1}),
        Call((rng.normal(size=(3, 2)),), {"axis": -2}),
        Call((rng.normal(size=(3,)) * 50,), {"axis": -1}),
    ]


def _each_row(fn: Any) -> Any:
    return lambda x, axis: np.apply_along_axis(lambda v: np.asarray(fn([float(a) for a in v])), axis, x)


def _softmax_row(v: list[float]) -> list[float]:
    weights = [math.exp(a - max(v)) for a in v]
    return [w / math.fsum(weights) for w in weights]


def _log_softmax_row(v: list[float]) -> list[float]:
    level = max(v) + math.log(math.fsum(math.exp(a - max(v)) for a in v))
    return [a - level for a in v]


def _softmax_pull(ct: Any, out: Any, axis: int) -> Any:
    weights = conjugate(out)
    return weights * (ct - sum_op(ct * weights, axis=(axis,), keepdims=True))


@composite(
    "softmax(x; axis)",
    accepts="floating",
    forward=softmax_numpy,
    facts={"x": Vjp(_softmax_pull)},
    doc="exp(x) over its sum along an axis.",
    source="Bridle 1990, NIPS 2",
    layout="(n)->(n)",
    samples=_rows,
    reference=_each_row(_softmax_row),
    onnx="Softmax",
    form=Form(
        "softmax", "softmax({0})", say="Each score gets its probability times how far its gradient is from the average."
    ),
    nonfinite=Nonfinite(backward=EMPTY_ROW, infinite=EMPTY_ROW),
    zero_gradient="saturated",
    autocast="float32",
)
def softmax_op(x: Any, *, axis: int) -> Any:
    """Return softmax along an axis, shifted by the largest element."""
    if x.shape[axis] == 0:
        return x  # nothing is largest
    shifted = exp.front(x - max_op.front(x, axis=(axis,), keepdims=True))
    return shifted / sum_op.front(shifted, axis=(axis,), keepdims=True)


@composite(
    "log_softmax(x; axis)",
    accepts="floating",
    forward=log_softmax_numpy,
    facts={"x": Vjp(lambda ct, out, axis: ct - conjugate(exp(out)) * sum_op(ct, axis=(axis,), keepdims=True))},
    doc="The logarithm of softmax along an axis.",
    layout="(n)->(n)",
    samples=_rows,
    reference=_each_row(_log_softmax_row),
    onnx="LogSoftmax",
    nonfinite=Nonfinite(backward=EMPTY_ROW, infinite=EMPTY_ROW),
    zero_gradient="saturated",
    autocast="float32",
)
def log_softmax_op(x: Any, *, axis: int) -> Any:
    """Return the logarithm of softmax along an axis."""
    if x.shape[axis] == 0:
        return x
    # Not x - logsumexp(x): what is close to 0 would have the error of the largest.
    shifted = x - max_op.front(x, axis=(axis,), keepdims=True)
    return shifted - log.front(sum_op.front(exp.front(shifted), axis=(axis,), keepdims=True))


@public(method=True)
@dim_alias
def softmax(x: Any, axis: int = -1) -> Tensor:
    """Return exp(x) over its sum along an axis: positive weights that sum to 1.

    Parameters
    ----------
    x: any shape, real; -inf gives weight 0, a row of nothing else NaN.
    axis: the axis that is normalised.

    Raises ShapeError. Source: Bridle 1990, NIPS 2.

    >>> import wengert as wg
    >>> wg.softmax(wg.tensor([1000.0, 1000.0]))
    tensor([0.5, 0.5])
    """
    t = operand(x, "softmax")
    out: Tensor = softmax_op.front(t, axis=normalize_axis(axis, t.ndim))
    return out


@public(method=True)
@dim_alias
def log_softmax(x: Any, axis: int = -1) -> Tensor:
    """Return the logarithm of :func:`softmax`, right also where that is too small for its dtype.

    >>> import wengert as wg
    >>> wg.log_softmax(wg.tensor([0.0, -1000.0]))
    tensor([    0., -1000.])
    """
    t = operand(x, "log_softmax")
    out: Tensor = log_softmax_op.front(t, axis=normalize_axis(axis, t.ndim))
    return out


# -- the affine map


def _as_rows(x: Any) -> Any:
    """Return all leading axes as one: the sum over them is part of one matrix product."""
    return x.reshape((math.prod(x.shape[:-1]), x.shape[-1]))


def _linear_numpy(x: Any, weight: Any, *bias: Any) -> Any:
    if is_half(x.dtype):
        # One operation rounds once, as the native kernel does: not the product first, and then the sum.
        wide = _linear_numpy(*(a.astype(np.float32) for a in (x, weight, *bias)))
        return wide.astype(x.dtype)
    out = matmul_op.forward(_as_rows(x), weight.T)
    if bias:
        out += bias[0]
    return out.reshape((*x.shape[:-1], weight.shape[0]))


def _linear_samples(rng: Any) -> list[Call]:
    weight, bias = rng.normal(size=(3, 4)), rng.normal(size=3)
    return [
        Call((rng.normal(size=(2, 4)), weight, bias)),
        Call((rng.normal(size=(2, 2, 4)), weight)),
        Call((rng.normal(size=(4,)), weight, bias)),
    ]


def _linear_fits(x: Spec, weight: Spec, *bias: Spec) -> None:
    if not x.shape or len(weight.shape) != 2 or len(bias) > 1 or any(b.shape != weight.shape[:1] for b in bias):
        fail(ShapeError, f"linear of {' and '.join(map(str, (x, weight, *bias)))}")


@composite(
    "linear(x, weight, *bias)",
    accepts="numeric",
    forward=_linear_numpy,
    fits=_linear_fits,
    facts={
        "x": Linear(lambda ct, weight, x_shape: matmul_op(_as_rows(ct), conjugate(weight)).reshape(x_shape)),
        "weight": Linear(lambda ct, x: matmul_op(_as_rows(ct).mT, _as_rows(conjugate(x)))),
        "bias": Linear(lambda ct: sum_op(_as_rows(ct), axis=(-2,), keepdims=False)),
    },
    doc="x times the transpose of a weight, plus a bias.",
    layout="(n),(m,n),(m)->(m)",
    samples=_linear_samples,
    reference=lambda x, weight, *bias: np.einsum("...n,mn->...m", x, weight) + (bias[0] if bias else 0.0),
    onnx="Gemm",
    form=Form("xWᵀ", say="Input and weight each get the gradient times the *other*; the bias gets its sum."),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
    autocast="lower",
    multiplications=lambda shapes: math.prod(shapes[0]) * shapes[1][0],
)
def linear_op(x: Any, weight: Any, *bias: Any) -> Any:
    """Return the affine map x W^T + b."""
    out = x @ weight.mT
    return out + bias[0] if bias else out


@public(home="nn.functional")
def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return the affine map x W^T + b, with the weight laid out as PyTorch has it.

    Parameters
    ----------
    input: (..., n).
    weight: (m, n), or (n,) for one output without an axis.
    bias: (m,), a number with one output, or None.

    Returns (..., m). Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.linear(wg.tensor([1.0, 2.0]), wg.tensor([[1.0, 1.0]]), wg.tensor([0.5]))
    tensor([3.5])
    """
    given = (input, weight) if bias is None else (input, weight, bias)
    tensors = promote_tensors("linear", *given)
    spec, w = tensors[0].spec, tensors[1].spec
    if len(w.shape) == 1:
        out: Tensor = matmul(tensors[0], tensors[1])
        return out if bias is None else out + tensors[2]
    if len(w.shape) != 2 or not spec.shape or spec.shape[-1] != w.shape[1]:
        fail(
            ShapeError,
            f"linear: input {show(spec.shape, spec.dtype)} and weight {show(w.shape, w.dtype)} do not fit",
            "The weight is (outputs, inputs), and the last axis of the input has the size of its inputs.",
        )
    if bias is not None and tensors[2].shape != w.shape[:1]:
        fail(ShapeError, f"linear: bias {tensors[2].spec} for {w.shape[0]} outputs", f"It has shape ({w.shape[0]},).")
    return linear_op.front(*tensors)  # type: ignore[no-any-return]


# -- dropout


def _kept_mask(key: Any, counter: int, x_shape: Any, p: float) -> Any:
    """Return the mask of elements that are kept, drawn again from the recorded position, never stored."""
    return random_bernoulli(key=key, counter=counter, shape=x_shape, p=1 - p)


def _kept_mask_at(key: Any, counter: Any, x_shape: Any, p: float) -> Any:
    return TABLE["random_bernoulli_at"](key, counter, shape=x_shape, p=1 - p)


def _dropout_numpy(x: Any, p: float, key: Any, counter: int) -> Any:
    mask = _kept_mask(key, counter, x.shape, p)
    return where_or_zero(mask, x * x.dtype.type(1 / (1 - p)))


def _dropout_reference(x: Any, p: float, key: Any, counter: int) -> Any:
    kept = random_bernoulli.forward(key=key, counter=counter, shape=x.shape, p=1 - p)
    return np.array([v / (1 - p) if k else 0.0 for v, k in zip(x.flat, kept.flat, strict=True)]).reshape(x.shape)


@composite(
    "dropout(x; p, key, counter)",
    accepts="floating",
    forward=_dropout_numpy,
    facts={"x": Route(_kept_mask, weight=lambda p: 1 / (1 - p))},
    doc="x with elements dropped at random and the others scaled up.",
    source="Srivastava et al. 2014, JMLR 15",
    samples=lambda rng: [Call((rng.normal(size=(3, 4)),), {"p": 0.5, "key": (7, 0), "counter": 3})],
    reference=_dropout_reference,
    onnx="Dropout",
    batching="body",
    form=Form("drop", say="What was kept passes, scaled up; what was dropped gets nothing."),
)
def dropout_op(x: Any, *, p: float, key: Any, counter: int) -> Any:
    """Return elements dropped by a mask that is drawn at a position in a stream."""
    kept = random_bernoulli.front(key=key, counter=counter, shape=x.shape, p=1 - p)
    return where(kept, x * (1 / (1 - p)), 0.0)


@composite(
    "dropout_at(x, key, counter; p)",
    accepts="floating",
    forward=lambda x, key, counter, p: _dropout_numpy(x, p, key_words(key), int(counter)),
    facts={"x": Route(_kept_mask_at, weight=lambda p: 1 / (1 - p))},
    doc="x with elements dropped at random and the others scaled up. The key and the position are inputs.",
    source="Srivastava et al. 2014, JMLR 15",
    samples=lambda rng: [
        Call((rng.normal(size=(3, 4)), np.array([7, 0], np.uint64), np.array(3, np.uint64)), {"p": 0.5})
    ],
    reference=lambda x, key, counter, p: _dropout_reference(x, p, key_words(key), int(counter)),
    onnx="Dropout",
)
def dropout_at_op(x: Any, key: Any, counter: Any, *, p: float) -> Any:
    """Return elements dropped by a mask that is drawn at a position given as an input."""
    kept = TABLE["random_bernoulli_at"].front(key, counter, shape=x.shape, p=1 - p)
    return where(kept, x * (1 / (1 - p)), 0.0)


@public(home="nn.functional")
def dropout(
    input: Any, p: float = 0.5, training: bool = True, inplace: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Return elements set to 0 with probability `p`, the others divided by 1 - p.

    Parameters
    ----------
    input: any shape, real.
    p: in 0..1.
    training: False returns the input as it is.
    inplace: write the result to the input, and return it.
    generator: where the mask is drawn from; None for the default one. The backward pass draws the
        same mask again instead of keeping it.

    Raises RangeError for another probability, DTypeError for one that is no number.

    Source: Srivastava et al. 2014, JMLR 15.

    >>> import wengert as wg
    >>> wg.nn.functional.dropout(wg.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    if isinstance(p, bool) or not isinstance(p, (int, float)):
        fail(DTypeError, f"dropout: p={p!r} is a {type(p).__name__}", "The probability is a number in 0..1.")
    if not 0 <= p <= 1:
        fail(RangeError, f"dropout: p={p!r} is not a probability", "It must lie between 0 and 1.")
    if inplace:
        return update(input, "dropout_", lambda x: dropout(x, p, training, generator=generator))
    t = operand(input, "dropout")
    if not training or p == 0:
        return t
    if p == 1:
        return t * 0.0
    out: Tensor = draw_with(dropout_op, (t,), draw(generator, (t.size + 1) // 2), {"p": float(p)})
    return out
