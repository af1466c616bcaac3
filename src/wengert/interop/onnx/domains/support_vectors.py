"""Support vector machines, of the domain ai.onnx.ml."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ..errors import refuse
from ..registry import ML, operator
from .ml import labelled, post_transformed


def _numbers(values: Sequence[float], *shape: int) -> Any:
    array = np.asarray(values, dtype=np.float32)
    try:
        return array.reshape(shape)
    except ValueError:
        refuse(f"{array.size} numbers are given for the shape {shape}")


def _kernel(x: Any, vectors: Any, kind: str, parameters: Sequence[float]) -> Any:
    """Return the kernel of each row with each support vector, (rows, vectors)."""
    gamma, constant, degree = (*parameters, 0.0, 0.0, 0.0)[:3]
    if kind == "RBF":
        away = wg.expand_dims(x, 1) - vectors
        return wg.exp(-gamma * wg.sum(away * away, -1))
    product = wg.matmul(x, vectors.mT)
    if kind == "LINEAR":
        return product
    if kind == "POLY":
        return (product * gamma + constant) ** (int(degree) if degree == int(degree) else degree)
    if kind == "SIGMOID":
        return wg.tanh(product * gamma + constant)
    refuse(f"kernel_type is {kind!r}, and none of LINEAR, POLY, RBF, SIGMOID")


def _rows(x: Any) -> Any:
    if x.ndim not in (1, 2):
        refuse(f"the operand has the shape {tuple(x.shape)}, where rows of features are needed")
    return (x.reshape((1, -1)) if x.ndim == 1 else x).astype(wg.float32)


@operator("SVMRegressor", domain=ML)
def _svm_regressor(
    x: Any,
    *,
    coefficients: Any = (),
    kernel_params: Any = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Any = (),
    support_vectors: Any = (),
) -> Any:
    x = _rows(x)
    if len(rho) != 1:
        refuse(f"rho has {len(rho)} numbers instead of one")
    if n_supports > 0:
        x = _kernel(x, wg.asarray(_numbers(support_vectors, n_supports, -1)), kernel_type, kernel_params)
    found = wg.matmul(x, wg.asarray(_numbers(coefficients, -1, 1))) + rho[0]
    if one_class:
        return wg.where(found > 0, 1.0, -1.0).astype(wg.float32)
    return post_transformed(found, post_transform)


@operator("SVMClassifier", domain=ML)
def _svm_classifier(
    x: Any,
    *,
    classlabels_ints: Any = (),
    classlabels_strings: Any = (),
    coefficients: Any = (),
    kernel_params: Any = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Any = (),
    prob_b: Any = (),
    rho: Any = (),
    support_vectors: Any = (),
    vectors_per_class: Any = (),
    context: Any,
) -> Any:
    x = _rows(x)
    count = max(len(classlabels_ints or classlabels_strings), 1)
    total = sum(vectors_per_class)
    if not rho or not coefficients:
        refuse("rho or coefficients are missing")
    if total:
        pairs = list(itertools.combinations(range(count), 2))
        if len(vectors_per_class) != count or len(rho) < len(pairs) or len(prob_a) != len(prob_b):
            refuse(f"{len(vectors_per_class)} classes of vectors, {len(rho)} numbers of rho for {count} labels")
        vectors = wg.asarray(_numbers(support_vectors, total, -1))
        kernels = _kernel(x, vectors, kernel_type, kernel_params)
        scores = wg.matmul(kernels, wg.asarray(_of_pairs(coefficients, vectors_per_class, pairs))) + _row(rho, pairs)
        first = (scores > 0).astype(wg.float32)
        votes = wg.matmul(first, wg.asarray(_ones(pairs, count, 0))) + wg.matmul(
            1 - first, wg.asarray(_ones(pairs, count, 1))
        )
        if prob_a:
            scores = _probabilities(scores, _row(prob_a, pairs), _row(prob_b, pairs), pairs, count)
    else:
        scores = votes = wg.matmul(x, wg.asarray(_numbers(coefficients, count, -1)).mT) + rho[0]
    chosen, most = wg.argmax(votes, 1), wg.max(votes, 1)
    if len(rho) == 1 and count == 2:
        if min(coefficients) >= 0 and not (total and prob_a):
            chosen = wg.where(most >= 0.5, 1, chosen)
    elif len(rho) == 1:
        positive = (most > 0).astype(wg.int64)
        return positive, post_transformed(scores, post_transform)
    if scores.shape[1] == 1:
        scores = _of_two(scores, post_transform)
    else:
        scores = post_transformed(scores, post_transform)
    return labelled(chosen, classlabels_ints, classlabels_strings, context), scores


def _row(values: Sequence[float], pairs: Sequence[Any]) -> Any:
    return wg.asarray(_numbers(values[: len(pairs)], len(pairs)))


def _ones(pairs: Sequence[tuple[int, int]], count: int, at: int) -> Any:
    """Return a matrix of ones where a pair of classes, a row, names a class first (or second)."""
    return np.eye(count, dtype=np.float32)[[pair[at] for pair in pairs]].reshape(len(pairs), count)


def _of_pairs(coefficients: Sequence[float], counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Any:
    """Return each vector's coefficient in each pair of classes, (vectors, pairs)."""
    table = _numbers(coefficients, -1, sum(counts))
    ends = list(itertools.accumulate(counts, initial=0))
    out = np.zeros((sum(counts), len(pairs)), np.float32)
    for k, (i, j) in enumerate(pairs):
        out[ends[i] : ends[i + 1], k] = table[j - 1, ends[i] : ends[i + 1]]
        out[ends[j] : ends[j + 1], k] = table[i, ends[j] : ends[j + 1]]
    return out


def _of_two(score: Any, how: str) -> Any:
    """Return the scores of two classes that are told apart by one."""
    if how == "PROBIT":
        return post_transformed(score, how)
    both = wg.concat([-score, score], 1)
    return post_transformed(both, how)


# The steps of the iteration at most, and what its error may be for each class.
_STEPS, _ERROR = 100, 0.005


def _probabilities(scores: Any, a: Any, b: Any, pairs: Sequence[tuple[int, int]], count: int) -> Any:
    """Return the probabilities of classes by those of pairs: libsvm's iteration, which ends where it is near enough.

    Source: Wu, Lin & Weng 2004, Probability estimates for multi-class classification by pairwise coupling.
    """
    of_first = wg.clip(1 - wg.sigmoid(scores * a + b), 1e-7, 1 - 1e-7)
    # r[i, j] is the probability of i among i and j.
    place = np.zeros((2, len(pairs), count, count), np.float32)
    for k, (i, j) in enumerate(pairs):
        place[0, k, i, j] = place[1, k, j, i] = 1
    flat = place.reshape((2, len(pairs), count * count))
    r = wg.matmul(of_first, wg.asarray(flat[0])) + wg.matmul(1 - of_first, wg.asarray(flat[1]))
    r = r.reshape((-1, count, count))
    own = wg.asarray(np.eye(count, dtype=np.float32))
    q = own * wg.expand_dims(wg.sum(r * r, 1), 1) - r * r.mT
    begin = wg.full((scores.shape[0], count), 1.0 / count, dtype=wg.float32)

    def body(state: Any) -> Any:
        step, p, done = state
        products = wg.sum(q * wg.expand_dims(p, 1), 2)
        whole = wg.sum(p * products, 1)
        error = wg.max(wg.abs(products - wg.expand_dims(whole, 1)), 1)
        done = wg.logical_or(done, error < _ERROR / count)
        new = p
        for t in range(count):
            diagonal = q[:, t, t]
            change = (whole - products[:, t]) / diagonal
            whole = (whole + change * (change * diagonal + 2 * products[:, t])) / (1 + change) ** 2
            below = wg.expand_dims(1 + change, 1)
            new = (new + wg.expand_dims(change, 1) * own[t]) / below
            products = (products + wg.expand_dims(change, 1) * q[:, t]) / below
        return step + 1, wg.where(wg.expand_dims(done, 1), p, new), done

    def goes_on(state: Any) -> Any:
        return wg.logical_and(state[0] < max(_STEPS, count), wg.logical_not(wg.all(state[2])))

    at = wg.zeros((), dtype=wg.int64), begin, wg.zeros((scores.shape[0],), dtype=wg.bool)
    return wg.while_loop(goes_on, body, at, max_steps=max(_STEPS, count))[1]
