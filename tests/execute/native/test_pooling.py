"""Native pooling against the ops' NumPy forwards."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

import wengert as wg
import wengert.execute.native.kernels.conv.pooling
from processors import on_processors
from stepping import TARGETS, Bench, node_of
from wengert.core.ops.op import TABLE
from wengert.core.ops.record import bind
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.plan.lowering import RULES, Lowering
from wengert.execute.native.plan.plan import View

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...] = (1, 1)

    @property
    def attrs(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in ("kernel", "stride", "padding", "dilation")}


NONE = ((0, 0), (0, 0))
CASES = [
    Case((2, 32, 6, 8), (2, 2), (2, 2), NONE),
    Case((2, 17, 7, 9), (2, 2), (2, 2), NONE),
    Case((3, 5, 9, 8), (3, 3), (2, 2), ((1, 1), (1, 1))),
    Case((2, 33, 5, 6), (3, 2), (1, 1), ((1, 1), (1, 0))),
    Case((2, 16, 8, 9), (2, 3), (3, 1), ((1, 0), (0, 2)), (2, 3)),
    Case((1, 3, 9, 9), (2, 2), (4, 3), NONE),
    Case((4, 7, 12), (3,), (2,), ((1, 1),), (1,)),
    Case((11,), (2,), (2,), ((0, 0),), (1,)),
    Case((2, 4, 5, 6, 7), (2, 3, 2), (2, 1, 2), ((0, 0), (1, 1), (1, 0)), (1, 1, 1)),
    Case((2, 3, 4, 6, 5), (2, 2), (2, 2), ((0, 0), (0, 1))),
    Case((1, 2, 20, 20), (18, 18), (1, 1), NONE),
]


def last(x: Array) -> Array:
    """Channels last in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -3, -1)), -1, -3) if x.ndim > 3 else x


def run(op: str, args: list[Array], attrs: dict[str, Any], level: str = "host", seed: int = 0) -> Array:
    bench = Bench(level, seed)
    node = node_of(op, args, attrs)
    bench.views.update({e: bench.given(a) for e, a in zip(node.inputs, args)})
    result = RULES[op](bench, node)
    assert result is not None
    return bench.run(result)[0]


def check(op: str, args: list[Array], attrs: dict[str, Any], level: str = "host") -> None:
    want = TABLE[op].forward(*args, **attrs)
    got = run(op, args, attrs, level)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def calls(case: Case, x: Array, rng: np.random.Generator) -> dict[str, tuple[list[Array], dict[str, Any]]]:
    """All six ops' arguments; small whole numbers, so that sums are exact in any order."""
    attrs = case.attrs
    size = {"size": case.shape[len(case.shape) - len(case.kernel) :]}
    winners = TABLE["argmax_pool"].forward(x, **attrs)
    y = rng.integers(-8, 9, winners.shape).astype(x.dtype)
    found: dict[str, tuple[list[Array], dict[str, Any]]] = {
        "max_pool": ([x], attrs),
        "argmax_pool": ([x], attrs),
        "pool_select": ([x, winners], attrs),
        "pool_scatter": ([y, winners], {**size, **attrs}),
    }
    if all(d == 1 for d in case.dilation):
        plain = {k: v for k, v in attrs.items() if k != "dilation"}
        found |= {"sum_pool": ([x], plain), "spread_pool": ([y], {**size, **plain})}
    return found


@pytest.mark.parametrize(("case", "level"), on_processors(CASES))
def test_pools(case: Case, level: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        x = rng.integers(-8, 9, case.shape).astype(dtype)
        for op, (args, attrs) in calls(case, x, rng).items():
            check(op, args, attrs, level)
            check(op, [last(a) for a in args], attrs, level)
            check(op, [a[..., ::-1].copy()[..., ::-1] if i else last(a) for i, a in enumerate(args)], attrs, level)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "i8", "?", "f2", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(1)
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    for case in (CASES[1], CASES[2]):
        x = rng.integers(0, 9, case.shape).astype(kind)
        for op, (args, attrs) in calls(case, x, rng).items():
            if "sum" in op and kind.kind == "b":
                continue
            check(op, [last(a) for a in args], attrs)
            check(op, args, attrs)


@pytest.mark.parametrize("level", TARGETS)
def test_nonfinite(level: str) -> None:
    """NaN wins, the first of several; minus infinity wins where there is nothing else."""
    rng = np.random.default_rng(2)
    for case in CASES[:5]:
        x = rng.choice([0.0, -0.0, 1.0, np.nan, np.inf, -np.inf], case.shape, p=[0.2, 0.1, 0.2, 0.1, 0.1, 0.3])
        x[0, 0] = -np.inf
        for layout in (np.ascontiguousarray, last):
            for op in ("max_pool", "argmax_pool", "sum_pool"):
                attrs = {k: v for k, v in case.attrs.items() if op != "sum_pool" or k != "dilation"}
                with np.errstate(invalid="ignore"):
                    check(op, [layout(x.astype(np.float32))], attrs, level)


def test_windows_outside() -> None:
    """A window that lies in the padding alone has no winner, and the lowest maximum."""
    x = np.ones((1, 2, 2, 2), np.float32)
    attrs = {"kernel": (1, 1), "stride": (1, 1), "padding": ((1, 0), (0, 2)), "dilation": (1, 1)}
    check("max_pool", [x], attrs)
    check("argmax_pool", [x], attrs)


def test_units_do_not_matter() -> None:
    """The same bits however the units are shared out; rounded sums have one order."""
    rng = np.random.default_rng(3)
    case = Case((3, 48, 40, 41), (3, 3), (2, 2), ((1, 1), (1, 1)))
    x = last(rng.standard_normal(case.shape).astype(np.float32))
    for op, (args, attrs) in calls(case, x, rng).items():
        first = run(op, args, attrs, seed=0)
        for seed in (1, 2):
            np.testing.assert_array_equal(run(op, args, attrs, seed=seed), first)


def test_result_lies_as_its_operand() -> None:
    case = CASES[2]
    x = np.zeros(case.shape, np.float32)
    for given, axis in ((x, -1), (last(x), 1)):
        bench = Bench()
        node = node_of("max_pool", [given], case.attrs)
        bench.views[node.inputs[0]] = bench.given(given)
        result = RULES["max_pool"](bench, node)
        assert isinstance(result, View)
        assert result.strides[axis] == 1


def test_empty_is_left_to_the_host() -> None:
    x = np.zeros((0, 3, 4, 4), np.float32)
    bench = Bench()
    node = node_of("max_pool", [x], CASES[0].attrs)
    bench.views[node.inputs[0]] = bench.given(x)
    assert RULES["max_pool"](bench, node) is None


def test_aarch64() -> None:
    low = Lowering(machine.level("aarch64"))
    given = Bench()
    rng = np.random.default_rng(4)
    for op, (args, attrs) in calls(CASES[2], rng.standard_normal(CASES[2].shape), rng).items():
        node = node_of(op, args, attrs)
        low.views.update({e: given.given(last(a)) for e, a in zip(node.inputs, args)})
        assert RULES[op](low, node) is not None
    for step in low.plan.steps:
        assert isinstance(step.kernel, Kernel)
        assert step.kernel.asm


@pytest.mark.parametrize("level", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_maxima_and_their_places_are_one_step(case: Case, level: str) -> None:
    rng = np.random.default_rng(5)
    x = np.round(rng.standard_normal(case.shape) * 2).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = -np.inf
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(x.shape) < 0.05] = -0.0
    names = ("max_pool", "argmax_pool")
    graph = wg.graph(lambda x: tuple(bind(TABLE[n], (x,), case.attrs) for n in names))(x)
    made = compile_graph(graph, target=None if level == "host" else machine.level(level))
    assert sum(s.label in names for s in made.plan.steps) == 1
    for got, name in zip(made.run([x]), names, strict=True):
        np.testing.assert_array_equal(got, TABLE[name].forward(x, **case.attrs))
