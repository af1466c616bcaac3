"""Losses that are formulas of others and of operations: likelihoods, margins, CTC."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import wengert as wg

from ...core.errors import DTypeError, RangeError, ShapeError, fail
from ...core.ops.autocast import computed_in
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, asarray
from ...ops.index.gather import one_hot
from ...ops.neural.activations import logsigmoid, softplus
from ...ops.neural.composites import linear
from ...ops.neural.losses import Flag, check_reduction, cross_entropy, reduced, reduction_of
from .distances import pairwise_distance


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """Return the :func:`cross_entropy` of a linear map of `input`; weights of more axes give classes at positions.

    `options` say how PyTorch splits the computation, and change no number. Raises ShapeError, RangeError.

    >>> import wengert as wg
    >>> wg.nn.functional.linear_cross_entropy(wg.zeros((2, 3)), wg.ones((4, 3)), wg.tensor([0, 1]))
    tensor(1.3863)
    """
    input, weights = asarray(input), asarray(linear_weight)
    classes, *positions, features = weights.shape
    rows = weights.reshape((-1, features))
    logits: Any = linear(input, rows, None if linear_bias is None else asarray(linear_bias).reshape((-1,)))
    logits = logits.reshape((*input.shape[:-1], classes, *positions))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


# -- likelihoods


@computed_in("float32", "wengert")
def gaussian_nll_loss(
    input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return the negative log-likelihood of `target` by normal distributions with means `input` and variances `var`.

    Parameters
    ----------
    var: a number, one variance for each element, or one along the last axis (which may be left out).
    full: whether the constant is added.
    eps: the smallest variance; smaller ones count as it, with the gradient of their own.

    Raises ShapeError, RangeError for a variance below 0.

    >>> import wengert as wg
    >>> wg.nn.functional.gaussian_nll_loss(wg.tensor([1.0]), wg.tensor([3.0]), wg.tensor([4.0]))
    tensor(1.1931)
    """
    input, target = asarray(input), asarray(target)
    if isinstance(var, (int, float)):
        var = wg.full_like(input, var)
    var = asarray(var)
    if not var.is_abstract and bool((var < 0).any()):
        fail(RangeError, "gaussian_nll_loss: a variance below 0")
    if var.shape != input.shape:
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = wg.expand_dims(var, -1)
        elif input.ndim != var.ndim or sum(v for n, v in zip(input.shape, var.shape, strict=True) if n != v) != 1:
            fail(ShapeError, f"gaussian_nll_loss: variances {tuple(var.shape)} for input {tuple(input.shape)}")
    var = wg.where(var < eps, eps + (var - var.detach()), var)
    loss = 0.5 * (wg.log(var) + wg.square(input - target) / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction, "gaussian_nll_loss")


@computed_in("float32")
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Flag = None,
    eps: float = 1e-8,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of counts `target` by Poisson distributions.

    Parameters
    ----------
    input: their rates, or the logarithms of those with `log_input`.
    full: whether Stirling's approximation of log(target!) is added where `target` is above 1.
    eps: added to the rates in their logarithm.

    >>> import wengert as wg
    >>> wg.nn.functional.poisson_nll_loss(wg.tensor([0.0, 0.0]), wg.tensor([1.0, 2.0]))
    tensor(1.)
    """
    input, target = asarray(input), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    loss = wg.exp(input) - target * input if log_input else input - target * wg.log(input + eps)
    if full:
        counts = wg.where(target > 1, target, wg.ones_like(target))
        stirling = counts * wg.log(counts) - counts + 0.5 * wg.log(2 * math.pi * counts)
        loss = loss + wg.where(target > 1, stirling, 0.0)
    return reduced(loss, reduction, "poisson_nll_loss")


# -- margins


def _missing(x: Tensor) -> Tensor:
    """Return max(0, x), whose derivative where x is 0 is 1, as in PyTorch's losses that clamp; relu's is 0."""
    return wg.clip(x, 0.0)


@computed_in("float32")
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return `input` where the target is 1, and what it lacks to `margin` where the target is -1.

    >>> import wengert as wg
    >>> wg.nn.functional.hinge_embedding_loss(wg.tensor([0.5, 0.25]), wg.tensor([1, -1]))
    tensor(0.625)
    """
    input, target = asarray(input), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    loss = wg.where(target != 1, _missing(margin - input), 0.0) + wg.where(target != -1, input, 0.0)
    return reduced(loss, reduction, "hinge_embedding_loss")


@computed_in("float32")
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin - target (input1 - input2)): the first is to be larger where the target is 1.

    Raises ShapeError for tensors of different numbers of dimensions.

    >>> import wengert as wg
    >>> wg.nn.functional.margin_ranking_loss(wg.tensor([1.0, 2.0]), wg.tensor([3.0, 1.0]), wg.tensor([1.0, 1.0]))
    tensor(1.)
    """
    input1, input2, target = asarray(input1), asarray(input2), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = ", ".join(str(tuple(t.shape)) for t in (input1, input2, target))
        fail(ShapeError, f"margin_ranking_loss of {shapes}", "All have one number of dimensions.")
    return reduced(_missing(-target * (input1 - input2) + margin), reduction, "margin_ranking_loss")


@computed_in("float32")
def soft_margin_loss(
    input: Any, target: Any, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """Return log(1 + exp(-target input)) for targets 1 and -1.

    >>> import wengert as wg
    >>> wg.nn.functional.soft_margin_loss(wg.tensor([0.0]), wg.tensor([1.0]))
    tensor(0.6931)
    """
    input, target = asarray(input), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    return reduced(softplus(-target * input), reduction, "soft_margin_loss")


@computed_in("float32")
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cos of the angle where the target is 1, max(0, cos - margin) where it is -1.

    The inputs are (N, D) with targets (N,), or (D,) with one target. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.cosine_embedding_loss(wg.tensor([1.0, 0.0]), wg.tensor([0.0, 1.0]), wg.tensor(1))
    tensor(1.)
    """
    input1, input2, target = asarray(input1), asarray(input2), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    if target.ndim > 1 or input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in (input1, input2, target))
        fail(
            ShapeError, f"cosine_embedding_loss of {shapes}", "It takes (N, D), (N, D) and (N,), or (D,), (D,) and ()."
        )
    squares = ((input1 * input1).sum(axis=-1) + 1e-12) * ((input2 * input2).sum(axis=-1) + 1e-12)
    cosine = (input1 * input2).sum(axis=-1) / wg.sqrt(squares)
    loss = wg.where(target == 1, 1 - cosine, 0.0) + wg.where(target == -1, _missing(cosine - margin), 0.0)
    return reduced(loss, reduction, "cosine_embedding_loss")


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin + d(anchor, positive) - d(anchor, negative)), reduced.

    Parameters
    ----------
    distance_function: d; :func:`pairwise_distance` where left out.
    swap: whether d(positive, negative) takes the second distance's place where it is smaller.

    Raises ShapeError for tensors of different numbers of dimensions, RangeError for a margin that is not positive.

    >>> import wengert as wg
    >>> wg.nn.functional.triplet_margin_with_distance_loss(
    ...     wg.zeros((1, 2)), wg.ones((1, 2)), wg.ones((1, 2)), distance_function=lambda x, y: wg.abs(x - y).sum(-1)
    ... )
    tensor(1.)
    """
    anchor, positive, negative = asarray(anchor), asarray(positive), asarray(negative)
    if margin <= 0:
        fail(RangeError, f"a triplet loss with margin {margin}", "It must be positive.")
    check_reduction(reduction, "a triplet loss")
    if not anchor.ndim == positive.ndim == negative.ndim:
        shapes = ", ".join(str(tuple(t.shape)) for t in (anchor, positive, negative))
        fail(ShapeError, f"a triplet loss of {shapes}", "All have one number of dimensions.")
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = wg.minimum(far, distance(positive, negative))
    return reduced(_missing(margin + near - far), reduction, "triplet_margin_loss")


@computed_in("float32")
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return :func:`triplet_margin_with_distance_loss` of p-norms. Raises ShapeError, RangeError.

    >>> import wengert as wg
    >>> wg.nn.functional.triplet_margin_loss(wg.zeros((1, 2)), wg.ones((1, 2)), wg.ones((1, 2)))
    tensor(1.)
    """
    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=lambda x, y: pairwise_distance(x, y, p, eps),
        margin=margin,
        swap=swap,
        reduction=reduction_of(size_average, reduce, reduction),
    )


@computed_in("float32")
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return how far scores of other classes come within `margin` of the target's, to the power `p`, over C.

    Parameters
    ----------
    input: scores, (N, C) or (C,).
    target: class indices, (N,) or ().
    p: 1 or 2.
    weight: (C,), a factor for each target class.

    Raises ShapeError, RangeError.

    >>> import wengert as wg
    >>> wg.nn.functional.multi_margin_loss(wg.tensor([[0.0, 0.5]]), wg.tensor([1]))
    tensor(0.25)
    """
    input, target = asarray(input), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        fail(RangeError, f"multi_margin_loss: p is {p!r}", "It is 1 or 2.")
    classes = input.shape[-1] if input.ndim else 1
    x, y = input.reshape((-1, classes)), target.reshape((-1,))
    if input.ndim > 2 or x.shape[0] != y.shape[0]:
        fail(ShapeError, f"multi_margin_loss: targets {tuple(target.shape)} for scores {tuple(input.shape)}")
    right = one_hot(y, classes).astype("bool")
    own = wg.take_along_axis(x, y.reshape((-1, 1)), axis=-1)
    terms = wg.relu(margin - own + x)
    if p == 2:
        terms = terms * terms
    if weight is not None:
        terms = terms * wg.take(asarray(weight), y, axis=0).reshape((-1, 1))
    loss = wg.where(right, 0.0, terms).sum(axis=-1) / classes
    return reduced(loss.reshape(target.shape) if input.ndim < 2 else loss, reduction, "multi_margin_loss")


@computed_in("float32")
def multilabel_margin_loss(
    input: Any, target: Any, size_average: Flag = None, reduce: Flag = None, reduction: str = "mean"
) -> Tensor:
    """Return how far scores of classes that are no targets come within 1 of each target's, over C.

    Parameters
    ----------
    input: scores, (N, C) or (C,).
    target: in the shape of `input`; the classes of a row stand before the first -1.

    Raises ShapeError.

    >>> import wengert as wg
    >>> wg.nn.functional.multilabel_margin_loss(wg.tensor([[0.0, 0.5]]), wg.tensor([[1, -1]]))
    tensor(0.25)
    """
    input, target = asarray(input), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    if input.ndim > 2 or tuple(input.shape) != tuple(target.shape):
        fail(ShapeError, f"multilabel_margin_loss: targets {tuple(target.shape)} for scores {tuple(input.shape)}")
    classes = input.shape[-1] if input.ndim else 1
    x, y = input.reshape((-1, classes)), target.reshape((-1, classes))
    listed = wg.cumulative_prod((y >= 0).astype("int64"), axis=-1).astype("bool")
    y = wg.where(listed, y, 0)
    marked = one_hot(y, classes).astype("bool") & wg.expand_dims(listed, -1)
    is_target = wg.any(marked, axis=-2)
    own = wg.take_along_axis(x, y, axis=-1)
    terms = wg.relu(1 - wg.expand_dims(own, -1) + wg.expand_dims(x, -2))
    counted = wg.expand_dims(listed, -1) & ~wg.expand_dims(is_target, -2)
    loss = wg.where(counted, terms, 0.0).sum(axis=(-2, -1)) / classes
    return reduced(loss.reshape(()) if input.ndim < 2 else loss, reduction, "multilabel_margin_loss")


# By PyTorch's rules the operations inside follow theirs.
@computed_in("float32", "wengert")
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the mean over classes of binary cross-entropies of logits. `weight` broadcasts.

    >>> import wengert as wg
    >>> wg.nn.functional.multilabel_soft_margin_loss(wg.zeros((1, 2)), wg.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    input, target = asarray(input), asarray(target)
    reduction = reduction_of(size_average, reduce, reduction)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * asarray(weight)
    return reduced(loss.sum(axis=-1) / input.shape[-1], reduction, "multilabel_soft_margin_loss")


# -- connectionist temporal classification

# The logarithm of what cannot be: finite, so that the derivative of a sum of nothing else is a number.
_NEVER = -1e30


def _padded(targets: Any, lengths: Any, batch: int) -> Any:
    """Return targets as (N, S). Raises ShapeError for concatenated ones whose lengths are not known."""
    if targets.ndim == 2:
        return targets
    if lengths.is_abstract:
        refuse("ctc_loss of concatenated targets while tracing", "Give them as (N, S), padded.", lengths)
    counts = [int(n) for n in lengths.tolist()]
    width, place, rows = max(counts, default=0), 0, []
    for n in counts:
        rows.append([min(place + i, max(targets.shape[0] - 1, 0)) if i < n else 0 for i in range(width)])
        place += n
    if place != targets.shape[0]:
        fail(ShapeError, f"ctc_loss: {targets.shape[0]} concatenated targets with lengths that sum to {place}")
    if not width:
        return wg.zeros((batch, 0), dtype=targets.dtype)
    return wg.take(targets, wg.tensor(rows), axis=0)


def _lengths(name: str, given: Any, batch: int, most: int) -> Any:
    """Return lengths as an integer tensor (N,). Raises ShapeError, RangeError, DTypeError."""
    found = wg.asarray(given)
    if found.dtype.kind not in "iu" and found.size:
        fail(DTypeError, f"ctc_loss: {name} of dtype {found.dtype}", "They are numbers of elements, integers.")
    found = found.astype("int64").reshape((-1,))
    if found.shape != (batch,):
        fail(ShapeError, f"ctc_loss: {found.shape[0]} {name} for a batch of {batch}")
    if not found.is_abstract and batch and not 0 <= int(found.min()) <= int(found.max()) <= most:
        fail(RangeError, f"ctc_loss: {name} {found.tolist()}", f"They lie between 0 and {most}.")
    return found


@computed_in("float32")
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return minus the log-probability of label sequences, over all their alignments with longer sequences.

    Parameters
    ----------
    log_probs: (T, N, C) or (T, C), logarithms of the probabilities of C classes, as of `log_softmax`.
    targets: (N, S), padded; or all of a batch one after the other, (sum(target_lengths),).
    input_lengths, target_lengths: (N,), tensors or sequences of ints.
    blank: the class that separates labels.
    reduction: "mean" is over the batch of losses by their targets' lengths.
    zero_infinity: whether sequences that no alignment gives count 0 instead of infinity.

    As in PyTorch the gradient is that of `log_probs` which are log_softmax of something: it sums to 0 over the
    classes. Source: Graves et al. 2006, ICML.

    Raises ShapeError, RangeError for lengths and classes out of range.

    >>> import wengert as wg
    >>> wg.nn.functional.ctc_loss(wg.log(wg.full((2, 1, 2), 0.5)), wg.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """
    log_probs, targets = asarray(log_probs), asarray(targets)
    if log_probs.ndim not in (2, 3) or targets.ndim not in (1, 2):
        fail(ShapeError, f"ctc_loss of {tuple(log_probs.shape)} with targets {tuple(targets.shape)}")
    single = log_probs.ndim == 2
    scores = wg.expand_dims(log_probs, 1) if single else log_probs
    steps, batch, classes = scores.shape
    if not 0 <= blank < classes:
        fail(RangeError, f"ctc_loss: blank {blank} of {classes} classes")
    if targets.dtype.kind not in "iu":
        fail(DTypeError, f"ctc_loss: targets of dtype {targets.dtype}", "They are class indices, integers.")
    frames = _lengths("input_lengths", input_lengths, batch, steps)
    limit = targets.shape[-1]
    counts = _lengths("target_lengths", target_lengths, batch, limit)
    labels = targets.reshape((1, -1)) if single and targets.ndim == 1 else _padded(targets, counts, batch)
    labels = wg.where(wg.arange(labels.shape[1]) < counts.reshape((-1, 1)), labels.astype("int64"), blank)
    width = labels.shape[1]
    # Blanks before, between and after the labels.
    between = wg.full((batch, width), blank, dtype="int64")
    states = wg.stack([between, labels], axis=-1).reshape((batch, 2 * width))
    states = wg.concat([states, wg.full((batch, 1), blank, dtype="int64")], axis=1)
    before = wg.concat([wg.full((batch, min(2, 2 * width + 1)), blank, dtype="int64"), states[:, :-2]], axis=1)
    skips = (states != blank) & (states != before)
    wide = scores if scores.dtype.itemsize > 2 else scores.astype("float32")
    picked = wg.take_along_axis(wide, wg.broadcast_to(states, (steps, *states.shape)), axis=2)
    picked = wg.maximum(picked, _NEVER)
    never = wg.full((batch, 2), _NEVER, dtype=wide.dtype)
    start = wg.where(wg.arange(2 * width + 1) < 2, picked[0], _NEVER)

    def step(state: Any, at: Any) -> tuple[Any, None]:
        emitted, time = at
        behind = wg.concat([never, state], axis=1)
        ways = wg.stack([state, behind[:, 1:-1], wg.where(skips, behind[:, :-2], _NEVER)], axis=0)
        moved = wg.maximum(wg.logsumexp(ways, axis=0) + emitted, _NEVER)
        return wg.where((time < frames).reshape((-1, 1)), moved, state), None

    final = wg.scan(step, start, (picked[1:], wg.arange(1, steps)))[0] if steps > 1 else start
    last = 2 * counts.reshape((-1, 1))
    ends = wg.take_along_axis(final, wg.concat([last, wg.maximum(last - 1, 0)], axis=1), axis=1)
    ends = wg.where(wg.concat([last >= 0, last > 0], axis=1), ends, _NEVER)
    loss = -wg.logsumexp(ends, axis=1)
    loss = wg.where(frames == 0, wg.where(counts == 0, 0.0, -_NEVER), loss)
    possible = loss < -_NEVER / 2
    # What sums to a constant for probabilities, and so only moves the gradient to where PyTorch's is.
    inside = wg.arange(steps).reshape((-1, 1)) < frames
    mass = wg.where(inside, wg.exp(wide).sum(axis=2), 0.0).sum(axis=0)
    loss = wg.where(possible, loss + (mass - mass.detach()), 0.0 if zero_infinity else math.inf)
    loss = loss.astype(scores.dtype)
    if reduction == "mean":
        loss = loss / wg.maximum(counts, 1).astype(loss.dtype)
    return reduced(loss.reshape(()) if single and reduction == "none" else loss, reduction, "ctc_loss")
