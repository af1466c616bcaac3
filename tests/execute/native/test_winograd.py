"""Convolutions by transformed tiles: numbers against float64, what is not finite, and where they are used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
import wengert.execute.native.kernels.conv.lowerings
from processors import on_processors
from stepping import Bench, node_of
from wengert.core.node import Node
from wengert.core.ops.op import TABLE
from wengert.execute.native.kernels.conv import winograd
from wengert.execute.native.plan.lowering import RULES, Epilogue

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    x: tuple[int, ...]
    channels: int
    padding: tuple[tuple[int, int], tuple[int, int]] = ((1, 1), (1, 1))


CASES = [
    Case((2, 16, 12, 12), 16),
    Case((1, 32, 13, 11), 33),
    Case((9, 48, 5, 3), 48, ((1, 1), (2, 0))),
    Case((1, 64, 20, 21), 70, ((0, 0), (0, 0))),
    Case((3, 32, 9, 16), 32, ((-1, 2), (3, -2))),
    Case((40, 32, 1, 1), 64),
    Case((2, 16, 2, 90), 200),
    Case((1, 272, 13, 12), 40),
]


class Frozen(Bench):
    """A bench whose constants are laid out once."""

    def __init__(self, level: str = "host", seed: int = 0) -> None:
        super().__init__(level, seed)
        self.prepares = True

    def run(self, *views: Any) -> list[Array]:
        self.plan.steps = [*self.plan.first, *self.plan.steps]
        return super().run(*views)


def last(x: Array) -> Array:
    """The same images with their channels last in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -3, -1)), -1, -3)


def lowered(low: Bench, op: str, x: Array, w: Array, attrs: dict[str, Any]) -> Any:
    node = node_of(op, [x, w], attrs)
    low.views.update({node.inputs[0]: low.given(last(x)), node.inputs[1]: low.constant(w)})
    return RULES[op](low, node)


def attrs_of(case: Case) -> dict[str, Any]:
    return {"stride": (1, 1), "padding": case.padding, "dilation": (1, 1), "groups": 1}


def labels(low: Bench) -> list[str]:
    return [s.label for s in low.plan.steps]


def run(op: str, x: Array, w: Array, attrs: dict[str, Any], level: str = "host", seed: int = 0) -> Array:
    low = Frozen(level, seed)
    result = lowered(low, op, x, w, attrs)
    assert any("winograd" in label for label in labels(low))
    return low.run(result)[0]


@pytest.mark.parametrize(("case", "level"), on_processors(CASES))
def test_numbers(case: Case, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward products and data gradients are as exact as sums over the taps are, also where those take less time."""
    monkeypatch.setattr(winograd, "LEAST_SAVED", -9)
    monkeypatch.setattr(winograd, "LEAST_TILES", 1)
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        x = rng.standard_normal(case.x).astype(dtype)
        w = rng.standard_normal((case.channels, case.x[1], 3, 3)).astype(dtype)
        for op, more in (("convolve", {}), ("convolve_transpose", {"size": case.x[-2:]})):
            attrs = {**more, **attrs_of(case)}
            given = x
            if more:
                forward = TABLE["convolve"].forward(x, w, **attrs_of(case))
                given = rng.standard_normal(forward.shape).astype(dtype)
                if case.channels % 16 or not given.size:
                    continue
            want = TABLE[op].forward(given.astype(float), w.astype(float), **attrs)
            got = run(op, given, w, attrs, level)
            scale = np.abs(want).max()
            np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=16 * np.finfo(dtype).eps)


def test_errors_are_no_larger_than_those_of_sums_over_taps() -> None:
    rng = np.random.default_rng(1)
    case = Case((2, 64, 14, 14), 64)
    x = rng.standard_normal(case.x).astype(np.float32)
    w = rng.standard_normal((64, 64, 3, 3)).astype(np.float32)
    want = TABLE["convolve"].forward(x.astype(float), w.astype(float), **attrs_of(case))
    direct = Bench()
    (taps,) = direct.run(lowered(direct, "convolve", x, w, attrs_of(case)))
    assert not any("winograd" in label for label in labels(direct))
    got = run("convolve", x, w, attrs_of(case))
    assert np.linalg.norm(got - want) < 1.2 * np.linalg.norm(taps - want)


@pytest.mark.parametrize("place", [(4, 5), (5, 5), (4, 4), (0, 9)])
def test_outputs_depend_on_their_window_alone(place: tuple[int, int]) -> None:
    rng = np.random.default_rng(6)
    case = Case((1, 32, 9, 10), 40)
    x = rng.standard_normal(case.x).astype(np.float32)
    w = rng.standard_normal((40, 32, 3, 3)).astype(np.float32)
    before = run("convolve", x, w, attrs_of(case))
    x[0, 3, place[0], place[1]] = 1e20
    after = run("convolve", x, w, attrs_of(case))
    window = tuple(slice(max(0, p - 1), p + 2) for p in place)
    assert (before[0, :, *window] != after[0, :, *window]).all()
    before[0, :, *window] = after[0, :, *window]
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_reaches_no_other_outputs(value: float) -> None:
    """NaN, infinities and what only overflows in a transformed tile: each output has what its window gives."""
    rng = np.random.default_rng(2)
    case = Case((3, 32, 9, 10), 40)
    x = rng.standard_normal(case.x).astype(np.float32)
    w = rng.uniform(0.1, 0.2, (40, 32, 3, 3)).astype(np.float32)
    x[1, 3, 4, 5], x[1, 3, 4, 7], x[2, 0, 0, 0] = value, -value, value
    with np.errstate(all="ignore"):
        want = TABLE["convolve"].forward(x.astype(float), w.astype(float), **attrs_of(case)).astype(np.float32)
    got = run("convolve", x, w, attrs_of(case))
    direct = Bench()
    (taps,) = direct.run(lowered(direct, "convolve", x, w, attrs_of(case)))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got, taps)
    np.testing.assert_array_equal(run("convolve", x, w, attrs_of(case), "host", 3), got)


def test_units_do_not_matter() -> None:
    """The same bits however the units are shared out."""
    rng = np.random.default_rng(3)
    case = Case((5, 32, 20, 21), 70)
    x = rng.standard_normal(case.x).astype(np.float32)
    w = rng.standard_normal((70, 32, 3, 3)).astype(np.float32)
    first = run("convolve", x, w, attrs_of(case))
    for seed in (1, 2):
        np.testing.assert_array_equal(run("convolve", x, w, attrs_of(case), "host", seed), first)


class WithEpilogue(Frozen):
    """max(0, product + bias) and the product times a number, or the product plus another array, of one kernel."""

    def __init__(self, level: str, is_long: bool) -> None:
        super().__init__(level)
        self.is_long = is_long

    def epilogue(self, node: Node, shape: Any, order: Any = None) -> Epilogue | None:
        if not self.is_long:
            more = self.constant(np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape))
            out = self.temp(shape, np.float32)
            return Epilogue("sum", [more], ["full"], [out], lambda b, x, operands: [b.fadd(x, operands[0])])
        bias = self.constant(np.linspace(-1, 1, shape[1]).astype(np.float32))
        scale = self.constant(np.float32(3))
        outputs = [self.temp(shape, np.float32) for _ in range(2)]

        def emit(b: Any, product: Any, operands: Any) -> list[Any]:
            moved = b.fadd(product, operands[0])
            negative = b.fcmp("olt", moved, b.const(moved.type, 0))
            return [b.select(negative, b.const(moved.type, 0), moved), b.fmul(product, operands[1])]

        return Epilogue("test", [bias.broadcast(shape), scale.broadcast(shape)], ["column", "scalar"], outputs, emit)


@pytest.mark.parametrize(("channels", "level"), on_processors([16, 33, 64]))
def test_epilogue(channels: int, level: str) -> None:
    rng = np.random.default_rng(4)
    case = Case((2, 16, 13, 8), channels)
    x, w = rng.standard_normal(case.x).astype(np.float32), rng.standard_normal((channels, 16, 3, 3)).astype(np.float32)
    want = np.moveaxis(TABLE["convolve"].forward(x.astype(float), w.astype(float), **attrs_of(case)), 1, -1)
    want = want.reshape(-1, channels)
    low = WithEpilogue(level, is_long=True)
    first, second = low.run(*lowered(low, "convolve", x, w, attrs_of(case)))
    np.testing.assert_allclose(first, np.maximum(want + np.linspace(-1, 1, channels), 0), atol=1e-4)
    np.testing.assert_allclose(second, 3 * want, atol=1e-4)
    low = WithEpilogue(level, is_long=False)
    (got,) = low.run(*lowered(low, "convolve", x, w, attrs_of(case)))
    np.testing.assert_allclose(got, want + np.arange(want.size).reshape(want.shape), rtol=1e-6, atol=1e-4)


def test_a_network_of_constants_uses_it() -> None:
    """Compiled, a layer whose kernel is a constant does so, and one whose kernel is an argument does not."""
    rng = np.random.default_rng(5)
    kernel = rng.standard_normal((32, 32, 3, 3)).astype(np.float32)
    w = wg.tensor(kernel)
    x = wg.tensor(rng.standard_normal((2, 32, 16, 16)).astype(np.float32))

    def layers(x: wg.Tensor, v: wg.Tensor) -> wg.Tensor:
        y = wg.nn.functional.relu(wg.nn.functional.conv2d(x, v, padding=1))
        return wg.nn.functional.conv2d(y, v, padding=1)

    frozen = wg.jit(lambda x: layers(x, wg.tensor(kernel)))
    given = wg.jit(layers)
    want = layers(x.astype(wg.float64), w.astype(wg.float64)).numpy()
    for found in (frozen(x).numpy(), given(x, w).numpy()):
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-6 * np.abs(want).max())
    assert "winograd" in str(frozen.plan)
    assert "winograd" not in str(given.plan)
