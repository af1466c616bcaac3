"""Losses at every kind of value: what PyTorch gives, NaN that is not hidden, refusals in eager and compiled code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

functional = wg.nn.functional
REDUCTIONS = ["none", "mean", "sum"]
VALUES = [0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -2.0, math.nan, math.inf, -math.inf, 20.0, -20.0, 88.0, 100.0, 1e-8, 1e30]
GRID = np.array(list(itertools.product(VALUES, VALUES)))


def reduced(terms: np.ndarray, reduction: str) -> Any:
    return terms if reduction == "none" else terms.mean() if reduction == "mean" else terms.sum()


def xlogx(y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, 0.0, y * np.log(y))


def huber(x: np.ndarray, y: np.ndarray, delta: float) -> np.ndarray:
    size = np.abs(x - y)
    return np.where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta))


def bce_logits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (1 - y) * x + np.maximum(-x, 0) + np.log1p(np.exp(-np.abs(x)))


# What PyTorch's documentation says that they are; checked against PyTorch 2 at the grid below.
PAIRED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mse_loss": (functional.mse_loss, lambda x, y: (x - y) ** 2),
    "l1_loss": (functional.l1_loss, lambda x, y: np.abs(x - y)),
    "huber_loss": (lambda x, y, **k: functional.huber_loss(x, y, delta=0.3, **k), lambda x, y: huber(x, y, 0.3)),
    "smooth_l1_loss": (
        lambda x, y, **k: functional.smooth_l1_loss(x, y, beta=0.7, **k), lambda x, y: huber(x, y, 0.7) / 0.7,
    ),
    "binary_cross_entropy_with_logits": (functional.binary_cross_entropy_with_logits, bce_logits),
    "kl_div": (functional.kl_div, lambda x, y: xlogx(y) - y * x),
    "kl_div of logarithms": (
        lambda x, y, **k: functional.kl_div(x, y, log_target=True, **k), lambda x, y: np.exp(y) * (y - x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PAIRED)
def test_every_kind_of_value(name: str, reduction: str) -> None:
    loss, formula = PAIRED[name]
    f = lambda x, y: loss(x, y, reduction=reduction)
    compiled = wg.jit(f)
    finite = GRID[np.isfinite(GRID).all(1) & (np.abs(GRID) < 1e3).all(1)]
    for given in (GRID, finite, GRID[:1], np.empty((0, 2))):
        x, y = (wg.tensor(np.ascontiguousarray(column)) for column in given.T)
        with np.errstate(all="ignore"):
            terms = formula(*given.T)
            want = reduced(terms, reduction) if len(terms) or reduction != "mean" else math.nan
        for found in (f(x, y), *(compiled(x, y) for _ in range(3))):
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_confident_right_answer_costs_what_it_costs(dtype: Any) -> None:
    """Of a logit of 9 and a target of 1 the loss is 1.2e-4, not what is left of 9 less 9."""
    for logit in (5.0, 9.0) if dtype is np.float16 else (5.0, 20.0, 60.0):
        for target in (0.0, 1.0):
            x = np.array([logit if target else -logit], dtype)
            y = np.array([target], dtype)
            want = math.log1p(math.exp(-logit))
            for f in (functional.binary_cross_entropy_with_logits, wg.jit(functional.binary_cross_entropy_with_logits)):
                assert f(wg.tensor(x), wg.tensor(y)).item() == pytest.approx(want, rel=8 * float(np.finfo(dtype).eps))


def test_kl_div_hides_nothing() -> None:
    """A negative target is no probability, and NaN no number: the divergence is NaN, as in PyTorch, not 0."""
    x = wg.log(wg.tensor([0.5, 0.25, 0.25]))
    for bad in (-0.5, math.nan, -math.inf):
        y = wg.tensor([0.5, bad, 0.0])
        for reduction in ("mean", "batchmean", "sum"):
            f = lambda x, y: functional.kl_div(x, y, reduction=reduction)  # noqa: B023
            assert math.isnan(f(x, y).item())
            assert math.isnan(wg.jit(f)(x, y).item())
        terms = functional.kl_div(x, y, reduction="none").numpy()
        assert np.isnan(terms).tolist() == [False, True, False]
    slopes = wg.grad(lambda y: functional.kl_div(x, y, reduction="sum"))(wg.tensor([0.5, 0.0, 0.5])).numpy()
    np.testing.assert_allclose(slopes, [1.0, -math.log(0.25), 1 + math.log(0.5) - math.log(0.25)], rtol=1e-6)


# -- probabilities

FINE = ([0.0, 0.25, 1.0], [0.0, 1.0, 0.5])
BAD_INPUTS = [[0.5, 2.0, 0.5], [-1e-6, 0.5, 0.5], [0.5, 0.5, math.inf]]
BAD_TARGETS = [[0.5, 2.0, 0.5], [-1.0, 0.5, 0.5], [0.5, 0.5, -math.inf], [0.0, 255.0, 0.0]]


def contexts() -> dict[str, Callable[[Any, Any], Any]]:
    loss = functional.binary_cross_entropy
    slope = wg.grad(lambda x, y: loss(x, y))
    return {
        "eager": loss,
        "compiled": wg.jit(loss),
        "none": wg.jit(lambda x, y: loss(x, y, reduction="none")),
        "computed": wg.jit(lambda x, y: loss(x * 1.0, y + 0.0, weight=wg.ones(3))),
        "gradient": slope,
        "compiled gradient": wg.jit(slope),
        "gradient of compiled": wg.grad(wg.jit(loss)),
        "gradient in the target": wg.jit(wg.grad(loss, argnums=1)),
        "batched": lambda x, y: wg.vmap(loss)(x[None], y[None]),
        "graph": lambda x, y: wg.graph(loss)(wg.spec((3,)), wg.spec((3,)))(x, y),
        "value and gradient": wg.jit(wg.value_and_grad(loss)),
    }


@pytest.mark.parametrize("name", contexts())
def test_what_is_no_probability_is_refused_everywhere(name: str) -> None:
    f = contexts()[name]
    fine = [wg.tensor(v) for v in FINE]
    for _ in range(3):
        f(*fine)
    for values in BAD_INPUTS:
        with pytest.raises(wg.ShapeError, match=r"binary_cross_entropy: input \(.*\) float32 holds .* outside 0..1"):
            f(wg.tensor(values), fine[1])
    for values in BAD_TARGETS if name != "gradient in the target" else ():
        with pytest.raises(wg.ShapeError, match=r"binary_cross_entropy: target \(.*\) float32 holds .* outside 0..1"):
            f(fine[0], wg.tensor(values))
    for _ in range(3):
        f(*fine)


def test_nan_goes_on_to_the_loss() -> None:
    loss = functional.binary_cross_entropy
    for x, y in (([0.5, math.nan], [1.0, 1.0]), ([0.5, 0.5], [math.nan, 1.0])):
        for f in (loss, wg.jit(loss)):
            assert math.isnan(f(wg.tensor(x), wg.tensor(y)).item())


@pytest.mark.parametrize("dtype", [wg.float16, wg.bfloat16, wg.float32, wg.float64])
def test_binary_cross_entropy_is_bounded_at_certainty(dtype: Any) -> None:
    x, y = wg.tensor([0.0, 1.0, 0.0, 1.0, 0.25], dtype=dtype), wg.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=dtype)
    for f in (functional.binary_cross_entropy, wg.jit(functional.binary_cross_entropy, static_argnames="reduction")):
        found = f(x, y, reduction="none").astype(wg.float64).numpy()
        np.testing.assert_allclose(found, [0.0, 0.0, 100.0, 100.0, -math.log(0.25)], rtol=4e-3)
