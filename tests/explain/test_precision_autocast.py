"""Which operations in half precision need float32: `wg.explain.precision` under an autocast."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)
X = wg.tensor(RNG.normal(size=(8, 16)).astype("float32"))
W = wg.tensor((RNG.normal(size=(16, 16)) / 4).astype("float32"))


def test_nothing_without_half_precision() -> None:
    assert wg.explain.precision(lambda x: wg.tanh(x @ W).sum(), X).lowered == ()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_errors_are_those_of_the_values(dtype: str) -> None:
    def f(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
        return (x @ w).float().sum()

    with wg.autocast(dtype):
        found = wg.explain.precision(f, X, W)  # what is no argument counts as exact, rounded as it enters
        product = (X @ W).astype("float64").numpy()
    exact = X.double().numpy() @ W.double().numpy()
    (entry,) = [n for n in found.lowered if n.op == "matmul"]
    assert entry.relative == pytest.approx(np.abs(product - exact).max() / np.abs(exact).max(), rel=1e-6)
    assert {n.dtype for n in found.lowered} == {dtype}
    assert sum(n.share for n in found.nodes) == pytest.approx(1.0)


def test_the_operation_that_cancels_is_named() -> None:
    """Of two nearly equal products the rounding is nearly all of the difference."""

    @wg.autocast("bfloat16")
    def f(x: wg.Tensor) -> wg.Tensor:
        kept = wg.tanh(x @ W)
        level = x @ (W + 100.0)
        return (level * level).sum() + kept.sum()

    found = wg.explain.precision(f, X)
    assert found.lowered[0].needs_float32
    assert "level" in str(found.lowered[0].source.text)
    assert "enabled=False" in found.lowered[0].advice
    quiet = [n for n in found.lowered if n.op == "tanh"]
    assert not any(n.needs_float32 for n in quiet)
    assert "in half precision:" in str(found)


def test_ranges() -> None:
    with wg.autocast("float16"):
        over = wg.explain.precision(lambda x: (x @ W * 1e6).sum(), X)
        under = wg.explain.precision(lambda x: (x @ W * 1e-9).sum(), X)
    assert "overflows float16" in over.lowered[0].advice
    assert "vanish" in under.lowered[0].advice
    with wg.autocast("bfloat16"):
        fine = wg.explain.precision(lambda x: (x @ W * 1e6).sum(), X)
    assert not any(n.overflows for n in fine.lowered)
