"""Native convolutions against the ops' NumPy forwards in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert.execute.native.kernels.conv.lowerings  # noqa: F401
from processors import HALF_TARGETS, on_processors
from stepping import TARGETS, Bench, node_of
from wengert.core.node import Node
from wengert.core.ops.op import TABLE
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.plan.lowering import RULES, Epilogue, Lowering

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1

    @property
    def attrs(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in ("stride", "padding", "dilation", "groups")}


ONE = ((1, 1), (1, 1))
CASES = [
    Case((2, 1, 9, 11), (5, 1, 3, 3)),
    Case((2, 3, 7, 9), (16, 3, 3, 3), padding=ONE),
    Case((1, 5, 6, 33), (17, 5, 3, 3), padding=((2, 0), (0, 1))),
    Case((3, 16, 8, 8), (33, 16, 3, 3), (2, 2), ONE),
    Case((2, 17, 9, 9), (3, 17, 1, 1), (2, 2)),
    Case((2, 33, 5, 4), (64, 33, 3, 3), padding=ONE),
    Case((2, 64, 8, 8), (48, 64, 3, 3), padding=ONE),
    Case((1, 2, 1, 1), (3, 2, 3, 3), padding=ONE),
    Case((2, 3, 14, 13), (4, 3, 2, 4), (3, 2), ((1, 2), (3, 0)), (2, 3)),
    Case((2, 3, 9, 9), (4, 3, 3, 3), (4, 4), ONE),
    Case((2, 4, 9, 8), (6, 4, 3, 3), (1, 1), ((-1, 0), (2, -2))),
    Case((2, 6, 7, 7), (9, 2, 3, 3), padding=ONE, groups=3),
    Case((2, 8, 10, 10), (16, 1, 3, 3), (2, 1), ONE, (1, 2), groups=8),
    Case((2, 3, 40), (5, 3, 7), (2,), ((3, 2),), (1,)),
    Case((3, 2, 9), (4, 1, 2), (2,), ((0, 1),), (3,), 2),
    Case((2, 3, 5, 6, 7), (4, 3, 2, 3, 2), (1, 2, 1), ((1, 1), (0, 1), (0, 0)), (1, 1, 2)),
    Case((4, 2, 3, 6), (5, 3, 3), (1,), ((1, 1),), (1,)),
    # Depthwise: blocks that are not full, taps beyond the image on all sides, rows of taps too long to be written out.
    Case((2, 20, 9, 14), (20, 1, 3, 3), padding=ONE, groups=20),
    Case((1, 67, 8, 7), (67, 1, 5, 5), (2, 2), ((2, 1), (1, 2)), groups=67),
    Case((2, 9, 40), (9, 1, 13), (2,), ((6, 5),), (2,), 9),
    Case((1, 5, 4, 5, 6), (5, 1, 2, 3, 2), (1, 2, 1), ((1, 1), (0, 1), (0, 0)), (2, 1, 2), 5),
    Case((1, 33, 1, 2), (33, 1, 3, 3), padding=ONE, groups=33),
    # A kernel that the cache does not hold, of few pixels.
    Case((2, 96, 6, 5), (97, 96, 3, 3), padding=ONE),
]
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "first": np.ascontiguousarray,
    "last": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -3, -1)), -1, -3) if x.ndim > 2 else x,
    # Every other row of a larger array, from the last to the first.
    "odd": lambda x: np.repeat(x, 2, axis=-2)[..., ::-2, :].copy()[..., ::-1, :],
}


def lower(low: Lowering, op: str, args: list[Array], attrs: dict[str, Any]) -> Any:
    """What the op's rule gives for arrays."""
    node = node_of(op, args, attrs)
    if isinstance(low, Bench):
        low.views.update({e: low.given(a) for e, a in zip(node.inputs, args)})
    else:
        bench = Bench()
        low.views.update({e: bench.given(a) for e, a in zip(node.inputs, args)})
    return RULES[op](low, node)


def run(op: str, args: list[Array], attrs: dict[str, Any], level: str = "host", seed: int = 0) -> Array:
    bench = Bench(level, seed)
    result = lower(bench, op, args, attrs)
    assert result is not None
    return bench.run(result)[0]


def products(case: Case, rng: np.random.Generator) -> dict[str, tuple[list[Array], dict[str, Any]]]:
    """The three ops' arguments."""
    x, w = rng.standard_normal(case.x), rng.standard_normal(case.w)
    y = TABLE["convolve"].forward(x, w, **case.attrs)
    y = rng.standard_normal(y.shape)
    n = len(case.stride)
    return {
        "convolve": ([x, w], {}),
        "convolve_transpose": ([y, w], {"size": case.x[-n:]}),
        "convolve_kernel": ([x, y], {"kernel": case.w[2:]}),
    }


def assert_close(got: Array, want: Array, dtype: Any) -> None:
    scale = np.abs(want).max(initial=0) + 1e-30
    assert got.shape == want.shape
    assert got.dtype == dtype
    np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=16 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("case", "level"), on_processors(CASES))
def test_products(case: Case, level: str) -> None:
    rng = np.random.default_rng(0)
    layouts = list(LAYOUTS.values())
    for i, (op, (args, more)) in enumerate(products(case, rng).items()):
        attrs = {**more, **case.attrs}
        for dtype in (np.float32, np.float64):
            given = [layouts[i % 3](args[0].astype(dtype)), args[1].astype(dtype)]
            want = TABLE[op].forward(*(a.astype(np.float64) for a in given), **attrs)
            assert_close(run(op, given, attrs, level), want, dtype)


def assert_rounded_once(got: Array, op: str, given: list[Array], attrs: dict[str, Any], steps: int) -> None:
    """Sums of so many products in float32, rounded once: for any order of the terms."""
    wide = [a.astype(np.float64) for a in given]
    want = TABLE[op].forward(*wide, **attrs)
    size = TABLE[op].forward(*map(np.abs, wide), **attrs)
    half = float(ml_dtypes.finfo(given[0].dtype).eps) / 2
    info = ml_dtypes.finfo(given[0].dtype)
    bound = half * np.abs(want) + 2 * steps * 2.0**-24 * size + float(info.smallest_subnormal)
    assert got.dtype == given[0].dtype
    assert (np.abs(got.astype(np.float64) - want) <= bound).all()


# Every third case is of float16, the others are of bfloat16, for which there is more code.
HALVES = [(case, np.float16 if i % 3 == 1 else ml_dtypes.bfloat16) for i, case in enumerate(CASES)]


@pytest.mark.parametrize(
    ("half", "level"),
    on_processors(HALVES, lambda v: f"{CASES.index(v[0])}-{np.dtype(v[1]).name}", HALF_TARGETS),
)
def test_half_precision(half: tuple[Case, Any], level: str) -> None:
    """Numbers are widened, or summed by pairs, of whatever layout."""
    case, dtype = half
    rng = np.random.default_rng(3)
    layouts = list(LAYOUTS.values())
    for i, (op, (args, more)) in enumerate(products(case, rng).items()):
        attrs = {**more, **case.attrs}
        given = [layouts[(i + j + CASES.index(case)) % 3](a.astype(dtype)) for j, a in enumerate(args)]
        steps = int(np.prod(case.w[1:])) if op == "convolve" else args[1].size
        assert_rounded_once(run(op, given, attrs, level), op, given, attrs, steps)


@pytest.mark.parametrize("level", ["host", "no pairs"])
@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[6], CASES[11]], ids=str)
def test_no_bfloat16_is_flushed(case: Case, level: str) -> None:
    """Denormal numbers times large ones, and numbers whose products and sums are denormal."""
    rng = np.random.default_rng(4)
    for small, large in ((2.0**-130, 2.0**125), (2.0**-66, 2.0**-66), (2.0**-60, 2.0**-58)):
        for op, (args, more) in products(case, rng).items():
            attrs = {**more, **case.attrs}
            given = [(a * by).astype(ml_dtypes.bfloat16) for a, by in zip(args, (small, large))]
            steps = int(np.prod(case.w[1:])) if op == "convolve" else args[1].size
            found = run(op, given, attrs, level)
            assert_rounded_once(found, op, given, attrs, steps)
            assert np.count_nonzero(found) > 0.9 * np.count_nonzero(TABLE[op].forward(*args, **attrs))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[8], CASES[11], CASES[15]], ids=str)
def test_layouts(case: Case, layout: str) -> None:
    """Both operands may lie anyhow."""
    rng = np.random.default_rng(1)
    for op, (args, more) in products(case, rng).items():
        attrs = {**more, **case.attrs}
        want = TABLE[op].forward(*args, **attrs)
        given = [LAYOUTS[layout](a.astype(np.float32)) for a in args]
        assert_close(run(op, given, attrs), want, np.float32)


@pytest.mark.parametrize("groups", [1, 5])
def test_phases_without_taps_copy_nothing(groups: int) -> None:
    """Of a kernel smaller than the stride some phases have taps along one axis alone, and no memory for images."""
    case, rng = Case((2, 5, 60, 9), (5, 5 // groups, 1, 1), (2, 2), groups=groups), np.random.default_rng(6)
    args, more = products(case, rng)["convolve_transpose"]
    for layout in LAYOUTS.values():
        given = [layout(a.astype(np.float32)) for a in args]
        attrs = {**more, **case.attrs}
        assert_close(run("convolve_transpose", given, attrs), TABLE["convolve_transpose"].forward(*args, **attrs), "f4")


@pytest.mark.parametrize("level", TARGETS)
def test_units_do_not_matter(level: str) -> None:
    """The same bits however the units are shared out."""
    rng = np.random.default_rng(2)
    case = Case((5, 16, 20, 21), (24, 16, 3, 3), padding=ONE)
    for op, (args, more) in products(case, rng).items():
        given = [a.astype(np.float32) for a in args]
        bench = Bench(level)
        lower(bench, op, given, {**more, **case.attrs})
        assert max(s.units for s in bench.plan.steps) >= 8
        first = run(op, given, {**more, **case.attrs}, level, 0)
        for seed in (1, 2, 3):
            np.testing.assert_array_equal(run(op, given, {**more, **case.attrs}, level, seed), first)


def test_nonfinite() -> None:
    """NaN and infinities reach the outputs whose windows hold them, and no others."""
    rng = np.random.default_rng(3)
    case = Case((2, 3, 9, 10), (17, 3, 3, 3), (2, 1), ((0, 1), (1, 1)))
    for op, (args, more) in products(case, rng).items():
        attrs = {**more, **case.attrs}
        given = [a.astype(np.float32) for a in args]
        given[0][0, 1, 2, 3] = np.nan
        given[0][1, 2, 1, 0] = np.inf
        want = TABLE[op].forward(*(a.astype(np.float64) for a in given), **attrs)
        got = run(op, given, attrs)
        # A weight gradient's windows meet at every tap; padding times infinity is in none of them.
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
        finite = np.isfinite(want)
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-5)


class WithEpilogue(Bench):
    """max(0, product + bias) and the product times a number, of one kernel."""

    made: Epilogue

    def epilogue(self, node: Node, shape: Any, order: Any = None) -> Epilogue | None:
        bias = self.constant(np.linspace(-1, 1, shape[1]).astype(np.float32))
        scale = self.constant(np.float32(3))
        outputs = [self.temp(shape, np.float32) for _ in range(2)]

        def emit(b: Any, product: Any, operands: Any) -> list[Any]:
            moved = b.fadd(product, operands[0])
            negative = b.fcmp("olt", moved, b.const(moved.type, 0))
            return [b.select(negative, b.const(moved.type, 0), moved), b.fmul(product, operands[1])]

        kinds = ["column", "scalar"]
        self.made = Epilogue("test", [bias.broadcast(shape), scale.broadcast(shape)], kinds, outputs, emit)
        return self.made


class WithSum(Bench):
    """The product plus another array: short enough to be computed in registers."""

    def epilogue(self, node: Node, shape: Any, order: Any = None) -> Epilogue | None:
        more = self.constant(np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape))
        out = self.temp(shape, np.float32)
        return Epilogue("sum", [more], ["full"], [out], lambda b, x, operands: [b.fadd(x, operands[0])])


@pytest.mark.parametrize("level", TARGETS)
@pytest.mark.parametrize("channels", [3, 16, 33, 64])
def test_epilogue(channels: int, level: str) -> None:
    rng = np.random.default_rng(4)
    case = Case((2, 5, 9, 8), (channels, 5, 3, 3), padding=ONE)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in (case.x, case.w))
    want = np.moveaxis(TABLE["convolve"].forward(x.astype(float), w.astype(float), **case.attrs), 1, -1)
    want = want.reshape(-1, channels)
    low = WithEpilogue(level)
    result = lower(low, "convolve", [x, w], case.attrs)
    assert result == low.made.outputs
    first, second = low.run(*result)
    np.testing.assert_allclose(first, np.maximum(want + np.linspace(-1, 1, channels), 0), atol=1e-4)
    np.testing.assert_allclose(second, 3 * want, atol=1e-4)
    other = WithSum(level)
    (got,) = other.run(*lower(other, "convolve", [x, w], case.attrs))
    np.testing.assert_allclose(got, want + np.arange(want.size).reshape(want.shape), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_epilogue_of_phases(stride: int) -> None:
    """The steps of a strided data gradient each finish their own rows."""
    rng = np.random.default_rng(5)
    case = Case((2, 3, 9, 8), (5, 3, 2, 2), (stride, stride))
    args, more = products(case, rng)["convolve_transpose"]
    low = WithSum()
    (got,) = low.run(*lower(low, "convolve_transpose", [a.astype(np.float32) for a in args], {**more, **case.attrs}))
    want = np.moveaxis(TABLE["convolve_transpose"].forward(*args, **more, **case.attrs), 1, -1).reshape(got.shape)
    np.testing.assert_allclose(got, want + np.arange(want.size).reshape(want.shape), rtol=1e-6, atol=1e-4)


def test_left_to_the_host() -> None:
    """What kernels do not do is left to the op's own forward."""
    attrs = Case((), ()).attrs
    for x, w in [
        (np.zeros((0, 2, 3, 3)), np.zeros((2, 2, 1, 1))),
        (np.zeros((1, 2, 3, 3), np.int64), np.zeros((2, 2, 1, 1), np.int64)),
        (np.zeros((1, 2, 3, 3), complex), np.zeros((2, 2, 1, 1), complex)),
    ]:
        assert lower(Bench(), "convolve", [x, w], attrs) is None


def test_few_kernels() -> None:
    """Layers of one structure share their kernels, whatever their sizes."""
    keys = set()
    for n, c, size in [(2, 16, 16), (3, 32, 16), (4, 8, 16)]:
        bench = Bench()
        x, w = np.zeros((n, c, size, size), np.float32), np.zeros((32, c, 3, 3), np.float32)
        lower(bench, "convolve", [x, w], Case((), (), padding=ONE).attrs)
        keys |= {s.kernel.key for s in bench.plan.steps if isinstance(s.kernel, Kernel)}
    assert len(keys) == 2


def test_aarch64() -> None:
    rng = np.random.default_rng(6)
    for op, (args, more) in products(CASES[3], rng).items():
        low = Lowering(machine.level("aarch64"))
        lower(low, op, [a.astype(np.float32) for a in args], {**more, **CASES[3].attrs})
        kernels = [s.kernel for s in low.plan.steps if s.label.startswith("convolve")]
        assert kernels
        assert all(isinstance(k, Kernel) and "fmla" in k.asm for k in kernels)
