"""Losses, under PyTorch's names and in its order of arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.dims import Dim
from ...core.dtypes import DType
from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.ops.declare import composite, op, public
from ...core.ops.facets import Form, Role
from ...core.ops.nonfinite import EMPTY_ROW, OVERFLOW
from ...core.ops.op import Call, Missing, NoDerivative, Op, Partial, Vjp
from ...core.ops.operands import promote_tensors
from ...core.spec import broadcast_shapes, category, float16, float32, show
from ...core.tensor import Tensor, asarray, result_class
from ..index.gather import gather_op, one_hot_op
from ..long_sums import LONGEST_PRODUCT, product
from ..pointwise.arithmetic import exp, log, log1p, negative, sigmoid
from ..pointwise.selection import abs, maximum, minimum, where
from ..probabilities import check_probabilities, probability_op
from ..reduce.common import divided, narrowed, running_dtype, widened
from ..structure.axes import permute_op
from ..structure.shapes import broadcast, casted
from .activations import inexact_operand, operand, softplus_op
from .composites import log_softmax, log_softmax_op, softmax_numpy, softmax_op

Flag = bool | None
REDUCTIONS = ("mean", "sum", "none")
_AN_INDEX = NoDerivative("class indices are not differentiable")


def reduction_of(size_average: Flag, reduce: Flag, reduction: str, stacklevel: int = 4) -> str:
    """Return the reduction that is asked for, by its name or by the flags that it replaced.

    Raises DTypeError for a name among the flags, which come before it.
    """
    if size_average is None and reduce is None:
        return reduction
    for flag in (size_average, reduce):
        if isinstance(flag, str):
            fail(DTypeError, f"a flag of a loss that is {flag!r}", f"Write reduction={flag!r}.")
    if reduce is False:
        found = "none"
    else:
        found = "sum" if size_average is False else "mean"
    text = f"size_average and reduce args will be deprecated, please use reduction={found!r} instead."
    warnings.warn(text, stacklevel=stacklevel)
    return found


def reduced(loss: Any, reduction: str, name: str) -> Tensor:
    """Return the loss as it is, its mean or its sum. Raises RangeError for another reduction."""
    out: Tensor = loss
    if reduction != "none":
        check_reduction(reduction, name)
        out = loss.mean() if reduction == "mean" else loss.sum()
    return out


def check_reduction(reduction: str, name: str) -> None:
    """Raise RangeError for a reduction that there is not."""
    if reduction not in REDUCTIONS:
        fail(RangeError, f"{name}: reduction={reduction!r}", 'It is "mean", "sum" or "none".')


def _weighted(loss: Any, weight: Any, reduction: str, name: str, by_weights: bool) -> Tensor:
    """Return a loss of each element, weighted and reduced; the mean is over elements or over weights."""
    if weight is None:
        return reduced(loss, reduction, name)
    w = operand(weight, name)
    if w.shape != loss.shape:
        fail(ShapeError, f"{name}: weights {tuple(w.shape)} for {tuple(loss.shape)}", "They have one shape.")
    total = reduced(loss * w, "sum" if by_weights and reduction == "mean" else reduction, name)
    return total / w.sum() if by_weights and reduction == "mean" else total


def _equal(name: str, x: Any, y: Any) -> Sequence[Tensor]:
    """Return two real operands of one shape and dtype."""
    a, b = _alike(name, x, y)
    if a.shape != b.shape:
        _refuse_shapes(name, a, b)
    return a, b


def _beside(
    name: str, x: Any, y: Any, of: Callable[[Any, str], Tensor] = operand, warns: bool = True
) -> Sequence[Tensor]:
    """Return two operands of one shape and dtype: PyTorch's broadcast, as a rule with a warning."""
    a, b = _alike(name, x, y, of)
    if a.shape == b.shape:
        return a, b
    shape = broadcast_shapes(a.shape, b.shape)
    if shape is None or not result_class((a, b)).meaning.losses_broadcast:
        _refuse_shapes(name, a, b)
    if warns:
        warnings.warn(
            f"Using a target size ({b.shape}) that is different to the input size ({a.shape}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=4,
        )
    return broadcast.front(a, shape=shape), broadcast.front(b, shape=shape)


def _alike(name: str, x: Any, y: Any, of: Callable[[Any, str], Tensor] = operand) -> Sequence[Tensor]:
    """Return two operands of one dtype."""
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.spec is y.spec and category(x.spec.dtype) == 2:
        return x, y
    return promote_tensors(name, of(x, name), of(y, name))


def _refuse_shapes(name: str, x: Tensor, y: Tensor) -> NoReturn:
    fail(
        ShapeError,
        f"{name}: input {show(x.shape, x.dtype)} and target {show(y.shape, y.dtype)} differ in shape",
        "Reshape one of them: broadcasting here is nearly always a mistake.",
    )


# -- squared and absolute errors


def _mse_numpy(x: Any, y: Any, mean: bool) -> Any:
    wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
    error = np.subtract(x, y, dtype=wide).reshape(-1)
    total = np.dot(error, error) if error.size <= LONGEST_PRODUCT else product(error[None], error[:, None])[0, 0]
    if mean:
        total = total / error.size if error.size else total * np.nan
    return np.asarray(total, x.dtype)


def _error_pull(sign: float) -> Any:
    def pull(ct: Any, x: Any, y: Any, mean: bool, x_shape: Any) -> Any:
        scale = ct * (2.0 * sign)
        return (x - y) * (divided(scale, math.prod(x_shape) or 1) if mean else scale)

    return Vjp(pull)


def _pairs(*attrs: dict[str, Any]) -> Any:
    return lambda rng: [
        Call((rng.normal(size=s), rng.normal(size=s)), a) for a in attrs or ({},) for s in ((4,), (2, 3))
    ]


@composite(
    "mse(x, y; mean)",
    accepts="real_inexact",
    forward=_mse_numpy,
    facts={"x": _error_pull(1.0), "y": _error_pull(-1.0)},
    doc="The mean, or the sum, of squared differences.",
    samples=_pairs({"mean": True}, {"mean": False}),
    reference=lambda x, y, mean: math.fsum((a - b) ** 2 for a, b in zip(x.flat, y.flat)) / (x.size if mean else 1),
    onnx=Missing("ONNX writes it as Sub, Mul and ReduceMean"),
    batching="body",
    form=Form("mse", say="Each prediction gets twice its error, divided by their number."),
    nonfinite=OVERFLOW,
    autocast="float32",
)
def mse_op(x: Any, y: Any, *, mean: bool) -> Any:
    """Return the mean, or the sum, of squared differences."""
    error = x - y
    out: Tensor = (error * error).mean() if mean else (error * error).sum()
    return out


@public(home="nn.functional")
@computed_in("float32")
def mse_loss(
    input: Any,
    target: Any,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """Return the squared differences of two tensors of one shape, reduced.

    Parameters
    ----------
    input, target: real, of one shape. In `wengert.torch` they broadcast, with a warning.
    size_average, reduce: what `reduction` replaced.
    reduction: "mean" (NaN for no elements), "sum" or "none".
    weight: a factor for each element; the mean is over the weights.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.mse_loss(wg.tensor([1.0, 3.0]), wg.tensor([1.0, 1.0]))
    tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_reduction(reduction, "mse_loss")
    x, y = _beside("mse_loss", input, target)
    out: Tensor
    if weight is not None or reduction == "none":
        out = _weighted((x - y).square(), weight, reduction, "mse_loss", True)
    else:
        out = mse_op.front(x, y, mean=reduction == "mean")
    return out


@public(home="nn.functional")
@computed_in("float32")
def l1_loss(
    input: Any,
    target: Any,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """Return the absolute differences of two tensors of one shape, reduced. Parameters as :func:`mse_loss`.

    >>> import wengert as wg
    >>> wg.nn.functional.l1_loss(wg.tensor([1.0, 3.0]), wg.tensor([1.0, 1.0]))
    tensor(1.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    # Of complex numbers too.
    x, y = _beside("l1_loss", input, target, inexact_operand)
    return _weighted(abs.front(x - y), weight, reduction, "l1_loss", True)


def _huber_numpy(x: Any, y: Any, delta: float) -> Any:
    size = np.abs(widened(x) - y)
    near = np.minimum(size, size.dtype.type(delta))
    size -= near * size.dtype.type(0.5)
    size *= near
    return narrowed(size, x.dtype)


def _clipped(x: Any, y: Any, delta: float) -> Any:
    return minimum(maximum(x - y, -delta), delta)


@composite(
    "huber(x, y; delta)",
    accepts="real_inexact",
    forward=_huber_numpy,
    facts={"x": Partial(_clipped), "y": Partial(lambda x, y, delta: -_clipped(x, y, delta))},
    doc="Half the squared difference, linear beyond delta.",
    source="Huber 1964, Annals of Mathematical Statistics 35",
    samples=_pairs({"delta": 1.0}, {"delta": 0.3}),
    reference=lambda x, y, delta: np.vectorize(
        lambda e: 0.5 * e * e if math.fabs(e) <= delta else delta * (math.fabs(e) - 0.5 * delta)
    )(x - y),
    onnx=Missing("no such operator"),
    autocast="float32",
)
def huber_op(x: Any, y: Any, *, delta: float) -> Any:
    """Return the Huber loss of each difference."""
    wide = running_dtype(x.dtype)
    size = abs.front(casted(x, wide) - casted(y, wide))
    return casted(where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta)), x.dtype)


@public(home="nn.functional")
@computed_in("float32")
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Tensor:
    """Return half the squared difference, and `delta` (|difference| - delta / 2) beyond `delta`.

    Parameters as :func:`mse_loss`, but that the mean is over elements. Source: Huber 1964.

    Raises RangeError for a `delta` that is not positive.

    >>> import wengert as wg
    >>> wg.nn.functional.huber_loss(wg.tensor([0.5, 3.0]), wg.tensor([0.0, 0.0]), reduction="none")
    tensor([0.125, 2.5  ])
    """
    if delta <= 0:
        fail(RangeError, f"huber_loss: delta={delta!r}", "It must be positive.")
    x, y = _beside("huber_loss", input, target)
    return _weighted(huber_op.front(x, y, delta=float(delta)), weight, reduction, "huber_loss", False)


@public(home="nn.functional")
@computed_in("float32")
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Return :func:`huber_loss` over `beta`; the absolute difference for a `beta` of 0.

    Raises RangeError for a negative `beta`.

    >>> import wengert as wg
    >>> wg.nn.functional.smooth_l1_loss(wg.tensor([3.0]), wg.tensor([0.0]))
    tensor(2.5)
    """
    if beta < 0:
        fail(RangeError, f"smooth_l1_loss: beta={beta!r}", "It must not be negative.")
    reduction = reduction_of(size_average, reduce, reduction)
    x, y = _beside("smooth_l1_loss", input, target)
    loss = huber_op.front(x, y, delta=float(beta)) if beta else abs.front(x - y)
    out = reduced(loss, reduction, "smooth_l1_loss")
    return out / beta if beta else out


# -- classes


def check_classes(name: str, target: Any, classes: int, ignore_index: int) -> None:
    """Raise RangeError for a class in an array of targets that does not exist."""
    wrong = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if wrong.any():
        at = np.argwhere(wrong)[0].tolist()
        fail(
            RangeError,
            f"{name}: target {target[tuple(at)]} at {at} is not one of {classes} classes, "
            f"targets {show(target.shape, target.dtype)}",
            f"Classes count from 0 to {classes - 1}; {ignore_index} is left out.",
        )


def _class_index(target: Any, classes: int, ignore_index: int, of: str) -> Any:
    check_classes(of, target, classes, ignore_index)
    return np.where(target == ignore_index, target.dtype.type(0), target)


class_index_op: Op = op(
    "class_index(target: integer; classes, ignore_index, of)",
    _class_index,
    infer=lambda target, **_: target,
    facts={"target": _AN_INDEX},
    doc="Target classes, each checked to be one (`of` is what the error names); 0 for those that are left out.",
    layout="()->()",
    samples=lambda rng: [
        Call((rng.integers(0, 4, (2, 3)),), {"classes": 4, "ignore_index": -100, "of": "cross_entropy"}),
        Call((np.array([2, -1, 0]),), {"classes": 3, "ignore_index": -1, "of": "nll_loss"}),
        Call((np.array(1, np.uint8),), {"classes": 300, "ignore_index": -100, "of": "nll_loss"}),
    ],
    reference=lambda target, classes, ignore_index, of: np.vectorize(lambda t: 0 if t == ignore_index else t)(target),
    onnx=Missing("ONNX's losses leave out targets themselves"),
    cost=1,
    role=Role.BY_ELEMENT,
    bound="classes",
)


def _classes(name: str, target: Tensor, classes: int | Dim, ignore_index: int) -> Tensor:
    """Return target classes as places along their axis; values that are known already are checked at once."""
    if isinstance(classes, Dim) and target._array is not None:
        # How many classes there are is known when a value is fed: the element that they pick is looked for then.
        return where(target != ignore_index, target, 0)
    out: Tensor = class_index_op.front(target, classes=classes, ignore_index=ignore_index, of=name)
    return out


def _class_numpy(logits: Any, target: Any, ignore_index: int, smoothing: float, mean: bool) -> Any:
    wide = logits.astype(float32) if logits.dtype.itemsize == 2 else logits
    flat, classes = wide.reshape(-1, wide.shape[-1]), target.reshape(-1)
    top = np.maximum.reduce(flat, -1, initial=-math.inf)
    level = np.log(np.add.reduce(np.exp(flat - top[:, None]), -1)) + top
    counted = classes != ignore_index
    check_classes("cross_entropy", target, flat.shape[1], ignore_index)
    picked = flat[np.arange(len(flat)), np.where(counted, classes, 0)]
    loss = level - (1 - smoothing) * picked
    if smoothing:
        loss -= smoothing * flat.mean(-1)
    total = np.add.reduce(np.where(counted, loss, 0))
    if mean:
        n = np.count_nonzero(counted)
        total = total / n if n else total * np.nan
    return np.asarray(total, logits.dtype)


def _class_slope(ct: Any, logits: Any, target: Any, ignore_index: int, smoothing: float, mean: bool) -> Any:
    """Return softmax less the target: 1 in its class, less what smoothing takes, spread over all."""
    out = softmax_numpy(logits.astype(running_dtype(logits.dtype), copy=False), -1)
    flat, classes = out.reshape(-1, out.shape[-1]), target.reshape(-1)
    counted = classes != ignore_index
    rows = np.arange(len(flat))
    if smoothing:
        flat -= out.dtype.type(smoothing / flat.shape[1])
    flat[rows, np.where(counted, classes, 0)] -= out.dtype.type(1 - smoothing)
    n = np.count_nonzero(counted) if mean else 1
    flat *= ct.astype(out.dtype) / out.dtype.type(n or 1)
    if n < len(flat):
        flat[~counted] = 0
    return flat.astype(logits.dtype, copy=False).reshape(logits.shape)


def _class_pull(ct: Any, logits: Any, target: Any, ignore_index: int, smoothing: float, mean: bool) -> Any:
    if not isinstance(ct, Tensor):
        return _class_slope(ct, logits, target, ignore_index, smoothing, mean)
    dtype, size = running_dtype(logits.dtype), logits.shape[-1]
    counted = target != ignore_index
    goal = one_hot_op(_classes("cross_entropy", target, size, ignore_index), num_classes=size, dtype=dtype)
    if smoothing:
        goal = goal * (1 - smoothing) + smoothing / size
    scale = casted(ct, dtype)
    if mean:
        # The number of targets that count is known wherever they are.
        scale = scale / casted(counted.sum(), dtype)
    g = (softmax_op(casted(logits, dtype), axis=-1) - goal) * scale
    return casted(where(counted.reshape((*target.shape, 1)), g, 0.0), logits.dtype)


def _class_reference(logits: Any, target: Any, ignore_index: int, smoothing: float, mean: bool) -> float:
    total, n = 0.0, 0
    for row, t in zip(logits.reshape(-1, logits.shape[-1]).tolist(), target.reshape(-1).tolist()):
        if t != ignore_index:
            level = max(row) + math.log(math.fsum(math.exp(a - max(row)) for a in row))
            total += (1 - smoothing) * (level - row[t]) + smoothing * (level - math.fsum(row) / len(row))
            n += 1
    return total / n if mean else total


def _class_samples(rng: Any) -> list[Call]:
    attrs = {"ignore_index": -100, "smoothing": 0.0, "mean": True}
    ids = rng.integers(0, 4, 3)
    return [
        Call((rng.normal(size=(3, 4)), ids), attrs),
        Call((rng.normal(size=(3, 4)), np.array([1, -100, 2])), {**attrs, "smoothing": 0.1}),
        Call((rng.normal(size=(2, 2, 3)), rng.integers(0, 3, (2, 2))), {**attrs, "mean": False}),
        Call((rng.normal(size=(3,)), np.asarray(2)), attrs),
    ]


@composite(
    "cross_entropy(logits, target: integer; ignore_index, smoothing, mean)",
    accepts="real_inexact",
    forward=_class_numpy,
    check=lambda logits, target, ignore_index, **_: check_classes(
        "cross_entropy", target, logits.shape[-1], ignore_index
    ),
    facts={"logits": Vjp(_class_pull), "target": _AN_INDEX},
    doc="Minus the log-probability of the target class, by softmax over the last axis.",
    source="label smoothing: Szegedy et al. 2015, arXiv:1512.00567",
    layout="(c),()->()",
    samples=_class_samples,
    reference=_class_reference,
    onnx="SoftmaxCrossEntropyLoss",
    batching="body",
    form=Form("CE", say="Each score gets its probability, less 1 for the right class."),
    nonfinite=OVERFLOW._replace(infinite=EMPTY_ROW),
    zero_gradient="saturated",
    autocast="float32",
)
def cross_entropy_op(logits: Any, target: Any, *, ignore_index: int, smoothing: float, mean: bool) -> Any:
    """Return the cross-entropy of logits, classes on the last axis, with target classes."""
    counted = target != ignore_index
    scores = log_softmax_op.front(logits, axis=-1)
    loss = negative.front(_picked(scores, _classes("cross_entropy", target, scores.shape[-1], ignore_index)))
    if smoothing:
        loss = (1 - smoothing) * loss - smoothing * scores.mean(axis=-1)
    total = where(counted, loss, 0.0).sum()
    return total / casted(counted.sum(), logits.dtype) if mean else total


def _picked(scores: Tensor, target: Tensor) -> Tensor:
    """Return the score of each target class, over the last axis."""
    out: Tensor = gather_op.front(scores, target.reshape((*target.shape, 1)), axis=-1).reshape(target.shape)
    return out


@public(home="nn.functional")
@computed_in("float32")
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross-entropy of softmax(input) with target classes or target probabilities.

    Parameters
    ----------
    input: logits, (classes,), (n, classes) or (n, classes, d1, ...).
    target: class indices, () or (n,) or (n, d1, ...), integers; or probabilities in input's shape.
    weight: (classes,), a weight for each class.
    size_average, reduce: what `reduction` replaced.
    ignore_index: a target that does not count.
    reduction: "mean" (over the targets that count, by their weights), "sum" or "none".
    label_smoothing: in 0..1: this part of each target is spread over all classes.

    The mean over no targets is NaN. Raises ShapeError, DTypeError, and RangeError for a class that
    does not exist. Source of label smoothing: Szegedy et al. 2015, arXiv:1512.00567.

    >>> import wengert as wg
    >>> wg.nn.functional.cross_entropy(wg.tensor([[0.0, 0.0], [0.0, 100.0]]), wg.tensor([0, 1]))
    tensor(0.3466)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_reduction(reduction, "cross_entropy")
    if not 0 <= label_smoothing <= 1:
        fail(RangeError, f"cross_entropy: label_smoothing={label_smoothing!r}", "It must lie between 0 and 1.")
    logits = operand(input, "cross_entropy")
    if not logits.spec.shape:
        fail(ShapeError, f"cross_entropy of {logits.spec}", "The logits need an axis of classes.")
    goal = target if isinstance(target, Tensor) else asarray(target)
    if category(goal.spec.dtype) == 2:
        return _soft_cross_entropy(_classes_last(logits), goal, weight, reduction, label_smoothing)
    _check_target("cross_entropy", logits, goal)
    rows = _classes_last(logits)
    if weight is None and reduction != "none":
        out: Tensor = cross_entropy_op.front(
            rows, goal, ignore_index=int(ignore_index), smoothing=float(label_smoothing), mean=reduction == "mean"
        )
        return out
    scores = log_softmax(rows, axis=-1)
    return _nll("cross_entropy", scores, goal, weight, int(ignore_index), reduction, label_smoothing)


def _classes_last(x: Tensor) -> Tensor:
    """Return (n, classes, d1, ...) as (n, d1, ..., classes)."""
    if len(x.spec.shape) <= 2:
        return x
    axes = (-x.ndim, *range(2 - x.ndim, 0), 1 - x.ndim)
    out: Tensor = permute_op.front(x, axes=axes)
    return out


def _check_target(name: str, scores: Tensor, target: Tensor) -> None:
    given, found = scores.spec.shape, target.spec
    if category(found.dtype) != 1:
        fail(DTypeError, f"{name}: targets of dtype {target.dtype}", "Class indices are integers: y.astype(wg.int64).")
    wanted = given[:1] + given[2:] if len(given) > 1 else ()
    if found.shape != wanted:
        fail(
            ShapeError,
            f"{name}: targets of shape {target.shape} for input {show(scores.shape, scores.dtype)}",
            f"Class indices have shape {wanted}: one for each row of classes.",
        )


def _nll(
    name: str, scores: Tensor, target: Tensor, weight: Any, ignore_index: int, reduction: str, smoothing: float = 0.0
) -> Tensor:
    """Return minus the weighted scores of the targets, classes on the last axis."""
    counted = target != ignore_index
    classes = _classes(name, target, scores.shape[-1], ignore_index)
    loss = negative.front(_picked(scores, classes))
    w: Any = None
    if weight is not None:
        all_w = operand(weight, "weight")
        if all_w.shape != scores.shape[-1:]:
            fail(ShapeError, f"class weights {all_w.spec} for {scores.shape[-1]} classes")
        w = _picked(broadcast.front(all_w, shape=scores.shape), classes)
        loss = loss * w
    if smoothing:
        spread = scores if weight is None else scores * all_w
        loss = (1 - smoothing) * loss - smoothing * spread.mean(axis=-1)
    loss = where(counted, loss, 0.0)
    if reduction != "mean":
        return reduced(loss, reduction, name)
    total = counted.sum() if w is None else where(counted, w, 0.0).sum()
    out: Tensor = loss.sum() / casted(total, scores.dtype)
    return out


def _soft_cross_entropy(logits: Tensor, target: Tensor, weight: Any, reduction: str, smoothing: float) -> Tensor:
    goal = _classes_last(target)
    if goal.shape != logits.shape:
        fail(
            ShapeError,
            f"cross_entropy: target probabilities {show(goal.shape, goal.dtype)} for logits {logits.spec}",
            "Probabilities have the shape of the input; class indices are integers.",
        )
    if smoothing:
        goal = goal * (1 - smoothing) + smoothing / logits.shape[-1]
    terms = goal * log_softmax(logits, axis=-1)
    if weight is not None:
        terms = terms * operand(weight, "weight")
    return reduced(negative.front(terms.sum(axis=-1)), reduction, "cross_entropy")


@public(home="nn.functional")
@computed_in("float32")
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return minus the log-probability `input` of each target class. Parameters as :func:`cross_entropy`.

    >>> import wengert as wg
    >>> wg.nn.functional.nll_loss(wg.tensor([[-1.0, -2.0]]), wg.tensor([1]))
    tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    check_reduction(reduction, "nll_loss")
    scores = operand(input, "nll_loss")
    goal = target if isinstance(target, Tensor) else asarray(target)
    _check_target("nll_loss", scores, goal)
    return _nll("nll_loss", _classes_last(scores), goal, weight, int(ignore_index), reduction)


# -- yes or no


def _bce_numpy(x: Any, y: Any) -> Any:
    z, goal = widened(x), widened(y)
    return narrowed((1 - goal) * z - np.minimum(z, 0) + np.log1p(np.exp(-np.abs(z))), x.dtype)


@composite(
    "binary_cross_entropy_logits(x, y)",
    accepts="real_inexact",
    forward=_bce_numpy,
    facts={"x": Partial(lambda x, y: sigmoid(x) - y), "y": Partial(lambda x: -x)},
    doc="Minus the log-probability of y in 0..1 by the sigmoid of x.",
    layout="(),()->()",
    samples=lambda rng: [
        Call((rng.normal(size=s) * k, rng.uniform(size=s))) for s, k in (((3,), 1.0), ((2, 3), 3.0), ((2,), 40.0))
    ],
    reference=np.vectorize(lambda x, y: (1 - y) * x + math.log1p(math.exp(-x)) if x > -30 else -y * x + math.exp(x)),
    onnx=Missing("no such operator"),
    autocast="float32",
)
def bce_logits_op(x: Any, y: Any) -> Any:
    """Return the binary cross-entropy of each logit with its target."""
    # Not softplus(x) - x y: where y is 1 and x large what is left of the difference would be rounding.
    small = log1p.front(exp.front(negative.front(abs.front(x))))
    return (1.0 - y) * x - minimum.front(x, 0.0) + small


@public(home="nn.functional")
@computed_in("float32")
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """Return the cross-entropy of targets in 0..1 with the sigmoid of `input`, right for every size of it.

    Parameters
    ----------
    input, target: real, of one shape.
    weight: scales the terms; broadcasts.
    size_average, reduce: what `reduction` replaced.
    pos_weight: scales what target 1 contributes; broadcasts.
    reduction: "mean", "sum" or "none".

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.nn.functional.binary_cross_entropy_with_logits(wg.tensor([0.0, 100.0]), wg.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    name = "binary_cross_entropy_with_logits"
    reduction = reduction_of(size_average, reduce, reduction)
    x, y = _equal(name, input, target)
    if pos_weight is None:
        loss: Tensor = bce_logits_op.front(x, y)
    else:
        scale = 1.0 + (operand(pos_weight, name) - 1.0) * y
        loss = (1.0 - y) * x + scale * softplus_op.front(negative.front(x), beta=1.0)
    if weight is not None:
        loss = loss * operand(weight, name)
    return reduced(loss, reduction, name)


def _bounded(logarithm: Any) -> Any:
    return maximum(logarithm, -100.0)


_AS_LOGITS = "Take wg.sigmoid of it, or better binary_cross_entropy_with_logits."
_AS_TARGETS = "Targets are 0, 1, or a probability between them."


def _checked(x: Any, what: str, mend: str) -> Any:
    """Return a recorded loss's probability, whose value may come later; arrays are checked when they are computed."""
    return probability_op.front(x, of="binary_cross_entropy", what=what, mend=mend) if isinstance(x, Tensor) else x


def _check_bce(x: Any, y: Any) -> None:
    check_probabilities("binary_cross_entropy", "input", x, _AS_LOGITS)
    check_probabilities("binary_cross_entropy", "target", y, _AS_TARGETS)


def _bce_slope(x: Any, y: Any, x_dtype: DType) -> Any:
    x, y = _checked(x, "input", _AS_LOGITS), _checked(y, "target", _AS_TARGETS)
    # Where a probability is wrong beyond doubt the slope is large instead of infinite, as PyTorch has it.
    smallest = 1e-12 if x_dtype != float16 else 1e-4
    return (x - y) / maximum(x * (1.0 - x), smallest)


def _bce_target_slope(x: Any) -> Any:
    x = _checked(x, "input", _AS_LOGITS)
    return _bounded(log1p(-x)) - _bounded(log(x))


def _bce_of_probabilities(x: Any, y: Any) -> Any:
    _check_bce(x, y)
    wide, goal = widened(x), widened(y)
    yes, no = np.maximum(np.log(wide), -100), np.maximum(np.log1p(-wide), -100)
    return narrowed(-(goal * yes + (1 - goal) * no), x.dtype)


@composite(
    "binary_cross_entropy(x, y)",
    accepts="real_inexact",
    forward=_bce_of_probabilities,
    check=_check_bce,
    facts={"x": Partial(_bce_slope), "y": Partial(_bce_target_slope)},
    doc="Minus the log-probability of y in 0..1 by the probability x; logarithms are at least -100.",
    layout="(),()->()",
    samples=lambda rng: [Call((rng.uniform(0.1, 0.9, s), rng.uniform(size=s))) for s in ((3,), (2, 3), ())],
    reference=np.vectorize(lambda x, y: -y * math.log(x) - (1 - y) * math.log1p(-x)),
    onnx=Missing("no such operator"),
    autocast="float32",
)
def bce_op(x: Any, y: Any) -> Any:
    """Return the binary cross-entropy of each probability with its target."""
    x, y = _checked(x, "input", _AS_LOGITS), _checked(y, "target", _AS_TARGETS)
    return negative.front(y * _bounded(log(x)) + (1.0 - y) * _bounded(log1p(-x)))


@public(home="nn.functional")
@computed_in("float32")
def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the cross-entropy of targets in 0..1 with probabilities; logarithms are bounded below by -100.

    Prefer :func:`binary_cross_entropy_with_logits`, which loses no digits. Parameters as there;
    ShapeError where `input` or `target` holds a number outside 0..1. NaN goes on to the loss.

    >>> import wengert as wg
    >>> wg.nn.functional.binary_cross_entropy(wg.tensor([0.5]), wg.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    p, y = _equal("binary_cross_entropy", input, target)
    loss: Tensor = bce_op.front(p, y)
    if weight is not None:
        loss = loss * operand(weight, "binary_cross_entropy")
    return reduced(loss, reduction, "binary_cross_entropy")


@public(home="nn.functional")
@computed_in("float32")
def kl_div(
    input: Any,
    target: Any,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Return the Kullback-Leibler divergence of `target` from exp(input), term by term.

    Parameters
    ----------
    input: log-probabilities.
    target: probabilities in the same shape, or log-probabilities with `log_target`. A negative one gives NaN. In
        `wengert.torch` both broadcast.
    size_average, reduce: what `reduction` replaced.
    reduction: "mean" (over elements), "batchmean" (the sum over the first axis' size), "sum" or "none".

    Raises ShapeError, DTypeError. Source: Kullback and Leibler 1951.

    >>> import wengert as wg
    >>> p = wg.tensor([[0.5, 0.5]])
    >>> wg.nn.functional.kl_div(wg.log(p), p, reduction="batchmean")
    tensor(0.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    x, y = _beside("kl_div", input, target, warns=False)
    if log_target:
        terms = y.exp() * (y - x)
    else:
        # 0 log 0 is 0; of a number below 0, and of NaN, it is NaN.
        terms = where(y == 0, 0.0, y * log.front(y)) - y * x
    if reduction == "batchmean":
        out: Tensor = terms.sum() / max(x.shape[0] if x.shape else 1, 1)
        return out
    return reduced(terms, reduction, "kl_div")
