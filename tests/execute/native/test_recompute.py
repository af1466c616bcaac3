"""Values that are made again where they are needed: no array for them, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph.evaluate import run

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import Compiled, compile_graph

RNG = np.random.default_rng(3)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def check(f: Callable[..., Any], *args: Any, **options: Any) -> Compiled:
    made = compile_graph(wg.graph(f)(*args), **options)
    expected = run(made.graph, [np.array(a) for a in args])
    for got, want in zip(made.run(list(args)), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * float(np.abs(want).max(initial=1e-30)))
    return made


def written(made: Compiled, nbytes: int) -> int:
    """How many arrays of a size the steps write."""
    return sum(b.nbytes == nbytes for s in made.plan.steps for b in s.writes)


def normalised(x: Any) -> Any:
    mean = wg.mean(x, (0, 2, 3), keepdims=True)
    deviation = x - mean
    return deviation / wg.sqrt(wg.mean(deviation * deviation, (0, 2, 3), keepdims=True) + 1e-5)


@pytest.mark.parametrize("level", [None, "avx2", "sse2"])
def test_deviations_are_made_again(level: str | None) -> None:
    x = normal(16, 8, 40, 40)
    made = check(normalised, x, target=machine.level(level) if level else None)
    assert written(made, x.nbytes) == 1


def test_the_gradient_of_a_normalisation() -> None:
    def loss(x: Any, w: Any) -> Any:
        return (wg.relu(normalised(x)) * w).sum()

    x, w = normal(12, 6, 30, 30), normal(12, 6, 30, 30)
    check(wg.value_and_grad(loss, argnums=(0, 1)), x, w)


def test_values_in_another_order_of_axes() -> None:
    def f(x: Any) -> Any:
        shifted = x - wg.mean(x, (0, 2), keepdims=True)
        turned = wg.permute_dims(shifted, (2, 0, 1))
        return wg.sum(shifted * shifted, (0, 2)), wg.sum(wg.exp(turned), (1, 2)), turned * 2

    check(f, normal(40, 30, 50))


def test_what_is_a_result_or_costly_is_stored_once() -> None:
    x = normal(9000, 40)

    def f(x: Any) -> Any:
        shifted = x - 1
        total = wg.sum(shifted, 0)
        return shifted, shifted * total

    assert written(check(f, x), x.nbytes) == 2

    def g(x: Any) -> Any:
        y = wg.exp(wg.sin(x))
        return y * wg.sum(y, 0)

    assert written(check(g, x), x.nbytes) == 2


def test_what_follows_a_product_keeps_its_place_there() -> None:
    def f(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return wg.relu(y) * wg.sum(y, 0)

    x, w, b = normal(300, 64), normal(64, 500), normal(500)
    made = check(f, x, w, b)
    # The sum with b is computed in the product's kernel, and stored: the product itself is not.
    assert written(made, 300 * 500 * 4) == 2


def test_statistics_with_indexed_axes_and_squares_are_as_those_with_kept_ones() -> None:
    def indexed(x: Any) -> Any:
        mean = x.mean((0, 2, 3))
        variance = ((x - mean[:, None, None]) ** 2).mean((0, 2, 3))
        return (x - mean[:, None, None]) / wg.sqrt(variance + 1e-5)[:, None, None]

    x = normal(16, 8, 40, 40)
    made = check(indexed, x)
    assert len(made.plan.steps) == len(check(normalised, x).plan.steps)
    check(wg.grad(lambda x: (wg.sin(indexed(x)) * x).sum()), x)
