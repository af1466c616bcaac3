"""Indices and classes in compiled programs: each is checked once, and errors name the one that the user gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from wengert.core.graph.evaluate import run
from wengert.execute.native.compile import Compiled, compile_graph

F = wg.nn.functional

Loss = Callable[[Any, Any], Any]


def smoothed(x: Any, t: Any) -> Any:
    return F.cross_entropy(x, t, ignore_index=2, label_smoothing=0.1)


def weighted(x: Any, t: Any) -> Any:
    return F.nll_loss(x, t, weight=wg.abs(x[0]), reduction="sum")


def slope_of(loss: Loss) -> Loss:
    return lambda x, t: wg.value_and_grad(lambda x: loss(x, t))(x)


LOSSES: dict[str, Loss] = {
    "cross_entropy": F.cross_entropy,
    "cross_entropy, left out": smoothed,
    "nll_loss": F.nll_loss,
    "nll_loss, weighted": weighted,
    "one_hot": lambda x, t: wg.sum(x * F.one_hot(t, x.shape[-1])),
}


def message(f: Callable[[], Any]) -> str:
    """The error's, without the line that it happened in."""
    with pytest.raises(wg.RangeError) as found:
        f()
    first, *rest = str(found.value).split("\n")
    return "\n".join([first.rsplit(" (", 1)[0], *rest])


@pytest.mark.parametrize("bad", [9, 5, -1, -7])
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_the_error_is_that_of_eager_execution(name: str, derived: bool, bad: int) -> None:
    loss = slope_of(LOSSES[name]) if derived else LOSSES[name]
    x = wg.asarray(np.random.default_rng(0).standard_normal((4, 5)).astype("f4"))
    t = wg.asarray(np.array([0, 2, bad, 1]))
    compiled = message(lambda: wg.jit(loss)(x, t))
    assert compiled == message(lambda: loss(x, t))
    assert f" {bad} " in compiled


def compiled_for(loss: Loss, *args: Any) -> Compiled:
    return compile_graph(wg.graph(loss)(*map(wg.asarray, args)))


@pytest.mark.parametrize("name", LOSSES)
def test_a_target_is_checked_once(name: str) -> None:
    compiled = compiled_for(slope_of(LOSSES[name]), np.ones((4, 5), "f4"), np.zeros(4, np.int64))
    assert sum(step.kernel.name.startswith("check of") for step in compiled.plan.steps) == 1


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("name", LOSSES)
def test_classes_of_any_dtype(name: str, dtype: str) -> None:
    """Also where the dtype holds neither all classes nor the number of those that are left out."""
    rng = np.random.default_rng(1)
    x, t = rng.standard_normal((6, 300)).astype("f4"), np.array([0, 2, 44, 100, 127, 5], dtype)
    for loss in (LOSSES[name], slope_of(LOSSES[name])):
        graph = wg.graph(loss)(wg.asarray(x), wg.asarray(t))
        for got, want in zip(compile_graph(graph).run([x, t]), run(graph, [x, t]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)


def picked(x: Any, t: Any) -> Any:
    """What a loop computes, and the elements that an index names: one kernel."""
    return wg.take_along_axis(wg.exp(x), t, axis=-1)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8"])
def test_places_that_count_from_the_end(dtype: str) -> None:
    x = np.random.default_rng(2).standard_normal((6, 300)).astype("f4")
    t = np.array([[0], [-1], [-44], [-128], [127], [43]], dtype)
    (got,) = compiled_for(picked, x, t).run([x, t])
    np.testing.assert_allclose(got, np.take_along_axis(np.exp(x), t.astype(int), -1), rtol=1e-6)


@pytest.mark.parametrize(("dtype", "bad"), [("i8", 5), ("i8", -6), ("i8", 2**32), ("i1", -128)])
def test_a_place_out_of_range_is_named(dtype: str, bad: int) -> None:
    x, t = np.ones((3, 5), "f4"), np.array([[0], [bad], [1]], dtype)
    with pytest.raises(wg.RangeError, match=rf"index {bad} is out of range for axis \d+ of size 5 \(element \(1, 0\)"):
        compiled_for(picked, x, t).run([x, t])


def test_nothing_is_overwritten_before_an_error() -> None:
    x, t = np.ones((4, 5), "f4"), np.array([0, 1, 9, 2])
    step = wg.jit(lambda x, t: x - slope_of(F.cross_entropy)(x, t)[1], donate_argnums=(0,))
    given = wg.asarray(x.copy())
    with pytest.raises(wg.RangeError, match="target 9"):
        step(given, wg.asarray(t))
    assert np.array_equal(np.asarray(given), x)


@pytest.mark.parametrize("number", [-100, 300, 3])
@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_numbers_that_a_dtype_does_not_hold(dtype: str, number: int) -> None:
    t = np.arange(7).astype(dtype)
    for f in (
        lambda t: t != number,
        lambda t: t < number,
        lambda t: number <= t,
        lambda t: (t > number) | (t == number),
    ):
        graph = wg.graph(f)(wg.asarray(t))
        assert np.array_equal(compile_graph(graph).run([t])[0], run(graph, [t])[0])
