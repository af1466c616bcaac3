"""Matrix products of generated code against the ops' forwards: sizes around tiles, strides, dtypes, epilogues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

import wengert.execute.native.kernels.gemm.contractions
import wengert.execute.native.kernels.gemm.products  # noqa: F401
from processors import on_processors
from stepping import TARGETS, Bench, check, laid_out, lowered, node_of, numbers, same, target_of
from wengert.core.node import Node
from wengert.execute.native.codegen import machine
from wengert.execute.native.kernels.copies import copy_step
from wengert.execute.native.kernels.gemm.finish import plain_store
from wengert.execute.native.kernels.gemm.micro import Layout
from wengert.execute.native.kernels.gemm.plan import product
from wengert.execute.native.kernels.gemm.tiles import heights
from wengert.execute.native.plan.lowering import RULES, Epilogue
from wengert.execute.native.plan.plan import View

DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64)
# On the host without sums of pairs bfloat16 is widened, as float16 is.
EVERY = [
    *on_processors(DTYPES, lambda d: np.dtype(d).name),
    pytest.param(ml_dtypes.bfloat16, "no pairs", id="bfloat16-no pairs"),
]
# Around the heights and widths of tiles of every target: (rows, inner, columns).
SIZES = (
    (1, 1, 1),
    (1, 9, 40),
    (9, 40, 1),
    (3, 5, 7),
    (13, 3, 31),
    (14, 16, 32),
    (15, 17, 33),
    (29, 64, 65),
    (7, 33, 100),
    (0, 3, 4),
    (3, 4, 0),
    (3, 0, 4),
    (15, 0, 33),
)


LAYOUTS = ("plain", "transposed", "gaps", "spread", "reversed")


@pytest.mark.parametrize(("dtype", "target"), EVERY)
def test_sizes(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(1)
    for m, k, n in SIZES:
        x, y = rng.integers(-3, 4, (m, k)).astype(dtype), rng.integers(-3, 4, (k, n)).astype(dtype)
        check("matmul", [x, y], {}, target)


@pytest.mark.parametrize(
    ("dtype", "target"),
    [(d, t) for d in (np.float32, np.float64, np.float16) for t in TARGETS]
    + [(ml_dtypes.bfloat16, t) for t in ("host", "no pairs")],
)
def test_layouts(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(2)
    for m, k, n in ((15, 17, 33), (30, 40, 70)):
        x, y = rng.integers(-3, 4, (m, k)).astype(dtype), rng.integers(-3, 4, (k, n)).astype(dtype)
        for a in LAYOUTS:
            for b in LAYOUTS:
                check("matmul", [laid_out(x, a), laid_out(y, b)], {}, target)
    row = np.broadcast_to(numbers(rng, (17,), dtype), (15, 17))
    check("matmul", [row, np.broadcast_to(numbers(rng, (17, 1), dtype), (17, 33))], {}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_packed_operands(target: str) -> None:
    """Rows that fall on the same sets of the cache, which are packed before; inner axes done in stretches."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(-3, 4, (270, 1100)).astype(np.float32), rng.integers(-3, 4, (1100, 350)).astype(np.float32)
    check("matmul", [x, y], {}, target)
    check("matmul", [laid_out(x, "transposed"), laid_out(y, "transposed")], {}, target)
    x, y = rng.integers(-3, 4, (270, 20)).astype(np.float64), rng.integers(-3, 4, (20, 512)).astype(np.float64)
    check("matmul", [x, y[:, :290]], {}, target)
    x = rng.integers(-3, 4, (70, 1024)).astype(np.float32)
    y = rng.integers(-3, 4, (1024, 1024)).astype(np.float32)[:, :170]
    check("matmul", [x, y], {}, target)
    check("matmul", [x[:, :90], y[:90]], {}, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_slabs_of_a_long_inner_axis(dtype: Any, target: str) -> None:
    """Sums wait in scratch memory between slabs, the last of which is shorter; heights and widths that are cut off."""
    rng = np.random.default_rng(14)
    inner = 3100
    # Few numbers are not 0, so that all sums are exact in every dtype.
    x, y = (rng.integers(-2, 3, shape) * (rng.random(shape) < 0.1) for shape in ((2, 37, inner), (2, inner, 300)))
    whole = (x.astype(np.float64) @ y.astype(np.float64)).astype(dtype)
    for columns, how in ((300, "plain"), (35, "transposed"), (9, "plain")):
        given = [laid_out(x.astype(dtype), how), laid_out(y[..., :columns].astype(dtype), how)]
        assert same(lowered(node_of("matmul", given, {}), given, target), whole[..., :columns])
    # Nothing is left of what another product left there.
    given = [x[0].astype(dtype), y[0, :, :9].astype(dtype)]
    assert same(lowered(node_of("matmul", given, {}), given, target), whole[0, :, :9])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operands_on_many_pages_are_packed(dtype: Any, target: str) -> None:
    """A's tiles, whose height is no multiple of a vector's length, are copied to panels."""
    rng = np.random.default_rng(15)
    x, y = rng.integers(-3, 4, (83, 1103)).astype(dtype), rng.integers(-3, 4, (83, 64)).astype(dtype)
    bench = Bench(target)
    out = bench.temp((1103, 64), x.dtype)
    product(bench, bench.given(x.T), bench.given(y), plain_store(out))
    assert [s.label.split()[0] for s in bench.plan.steps] == ["pack", "gemm"]
    assert same(bench.run(out)[0], x.T @ y)


@pytest.mark.parametrize("target", TARGETS)
def test_lines_that_push_each_other_out_are_packed(target: str) -> None:
    """B, whose lines fall on few sets of the cache, is packed where about five tiles read it."""
    rng = np.random.default_rng(17)
    rows = 5 * heights(target_of(target))[0] + 1
    y = rng.integers(-3, 4, (530, 1024)).astype(np.float32)[:, :40]
    for m, steps in ((rows, ["pack", "gemm"]), (rows // 2, ["gemm"])):
        x = rng.integers(-3, 4, (m, 530)).astype(np.float32)
        bench = Bench(target)
        out = bench.temp((m, 40), x.dtype)
        product(bench, bench.given(x), bench.given(y), plain_store(out))
        # The last columns are packed anyway where vectors cannot be masked.
        assert [s.label.split()[0] for s in bench.plan.steps if s.label != "pack 8x530"] == steps
        assert same(bench.run(out)[0], x @ y)


@pytest.mark.parametrize(("dtype", "target"), EVERY)
def test_few_rows_or_columns(dtype: Any, target: str) -> None:
    """Their products are sums along the inner axis, which lies in order, or is copied where that is little."""
    rng = np.random.default_rng(18)
    seen = set()
    for m, k, n in ((2, 135, 33), (3, 128, 5), (8, 201, 70), (37, 131, 2), (18, 129, 2), (2, 2000, 2), (5, 128, 4)):
        x = rng.integers(-2, 3, (2, m, k)).astype(dtype)
        y = rng.integers(-2, 3, (2, k, n)).astype(dtype)
        want = (x.astype(np.float64) @ y.astype(np.float64)).astype(dtype)
        for a in LAYOUTS:
            for b in LAYOUTS:
                bench = Bench(target)
                out = bench.temp(want.shape, x.dtype)
                given = [bench.given(laid_out(v, how)) for v, how in ((x, a), (y, b))]
                product(bench, *given, plain_store(out))
                assert same(bench.run(out)[0], want), (m, k, n, a, b)
                seen.add((a, b, bench.plan.steps[-1].label.split()[0]))
    assert {("plain", "transposed", "dots"), ("spread", "transposed", "dots"), ("gaps", "plain", "gemm")} <= seen


def test_units_follow_the_operand_that_is_read_from_memory() -> None:
    """A that no cache holds is read once; one that a cache holds is read again for every few panels of B."""
    for rows, is_by_columns in ((600, True), (6000, False)):
        bench = Bench("avx2")
        x, y = np.zeros((rows, 700), np.float32), np.zeros((200, 700), np.float32)
        product(bench, bench.given(x), bench.given(y.T), plain_store(bench.temp((rows, 200), x.dtype)))
        words = [w for word in bench.plan.steps[-1].words for w in ([word] * (1 + isinstance(word, View)))]
        at = Layout(len(heights(bench.target)), 0)
        assert (words[at.row_turn] == 1) == is_by_columns
        assert (words[at.column_turn] == 1) != is_by_columns


def test_matrices_are_packed_once() -> None:
    """Products one after the other share the panels of a matrix, until its memory is written to."""
    rng = np.random.default_rng(16)
    w = rng.integers(-3, 4, (40, 30)).astype(np.float32)
    xs = [rng.integers(-3, 4, (20, 30)).astype(np.float32) for _ in range(3)]
    bench = Bench()
    outs = [bench.temp((20, 40), w.dtype) for _ in xs]
    kept, other = bench.given(w), bench.given(-w)
    weight = bench.temp(w.shape, w.dtype)
    copy_step(bench, kept, weight)
    for i, (x, out) in enumerate(zip(xs, outs)):
        if i == 2:
            copy_step(bench, other, weight)
        product(bench, bench.given(x), weight.permute((1, 0)), plain_store(out))
    assert [s.label.split()[0] for s in bench.plan.steps] == ["copy", "pack", "gemm", "gemm", "copy", "pack", "gemm"]
    found = bench.run(*outs)
    assert all(same(a, x @ b.T) for a, x, b in zip(found, xs, (w, w, -w), strict=True))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_shares_of_columns(dtype: Any, target: str) -> None:
    """Lines of B fall on few sets of the cache: panels are packed, and units of several go down the columns."""
    rng = np.random.default_rng(13)
    x = rng.integers(-1, 2, (2, 150, 700)).astype(dtype)
    y = rng.integers(-1, 2, (2, 700, 2048)).astype(dtype)[..., :600]
    # All of it is exact; NumPy's products of half precision would take seconds.
    want = (x.astype(np.float32) @ y.astype(np.float32)).astype(dtype)
    for a, b, w in ((x, y, want), (x[0, :113], y[0], want[0, :113])):
        assert same(lowered(node_of("matmul", [a, b], {}), [a, b], target), w)


@pytest.mark.parametrize("target", TARGETS)
def test_results_beyond_the_cache(target: str) -> None:
    """Large results are asked for ahead, past the last row and column too."""
    rng = np.random.default_rng(14)
    x, y = numbers(rng, (601, 3), np.float32), numbers(rng, (3, 1001), np.float32)
    check("matmul", [x, y], {}, target)


@pytest.mark.parametrize("target", TARGETS)
def test_stacks(target: str) -> None:
    rng = np.random.default_rng(4)
    for a, b in (
        ((5, 9, 6), (5, 6, 20)),
        ((2, 3, 9, 6), (3, 6, 20)),
        ((2, 1, 9, 6), (3, 6, 20)),
        ((2, 3, 9, 6), (6, 20)),
        ((9, 6), (2, 6, 20)),
        ((0, 9, 6), (0, 6, 20)),
    ):
        x, y = numbers(rng, a, np.float32), numbers(rng, b, np.float32)
        check("matmul", [x, y], {}, target)
        check("matmul", [laid_out(x, "transposed"), laid_out(y, "transposed")], {}, target)
    x = numbers(rng, (3, 2, 9, 6), np.float64).transpose(1, 0, 2, 3)
    check("matmul", [x, numbers(rng, (2, 3, 6, 5), np.float64)], {}, target)
    check("matmul", [x, numbers(rng, (6, 5), np.float64)], {}, target)


@pytest.mark.parametrize(("dtype", "target"), EVERY)
def test_vectors(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(5)
    for m, k in ((1, 1), (5, 7), (33, 70), (70, 129), (4, 0), (0, 4)):
        x = rng.integers(-3, 4, (m, k)).astype(dtype)
        v, u = rng.integers(-3, 4, k).astype(dtype), rng.integers(-3, 4, m).astype(dtype)
        for how in LAYOUTS:
            check("matvec", [laid_out(x, how), v], {}, target)
            check("vecmat", [u, laid_out(x, how)], {}, target)
        check("dot", [v, v], {}, target)
    stack = rng.integers(-3, 4, (2, 5, 6)).astype(dtype)
    check("matvec", [stack, stack[0, 0]], {}, target)
    check("matvec", [stack, stack[:, 0]], {}, target)
    check("vecmat", [stack[:, :, 0], stack], {}, target)
    check("dot", [stack, stack[0, 0]], {}, target)


def test_long_dot() -> None:
    rng = np.random.default_rng(6)
    for n in (4095, 100_001):
        x = rng.integers(-3, 4, n).astype(np.float32)
        check("dot", [x, x], {})
        check("dot", [x[::-1], x], {})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", TARGETS)
def test_close_to_exact(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((40, 300)).astype(dtype), rng.standard_normal((300, 50)).astype(dtype)
    exact = x.astype(np.longdouble) @ y.astype(np.longdouble)
    bound = 4 * np.sqrt(300) * np.finfo(dtype).eps * (np.abs(x).astype(np.longdouble) @ np.abs(y))
    check("matmul", [x, y], {}, target, equal=lambda a, w: bool((np.abs(a - exact) <= bound).all()))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_rounds_to_even(dtype: Any, target: str) -> None:
    """Products of two numbers are exact in float32, so only the last rounding shows."""
    rng = np.random.default_rng(12)
    x = (rng.standard_normal((40, 1)) * 2.0 ** rng.integers(-12, 12, (40, 1))).astype(dtype)
    y = (rng.standard_normal((1, 70)) * 2.0 ** rng.integers(-12, 12, (1, 70))).astype(dtype)
    with np.errstate(over="ignore"):
        exact = (x.astype(np.float32) * y.astype(np.float32)).astype(dtype).astype(np.float32)
    check("matmul", [x, y], {}, target, lambda a, w: np.array_equal(a.astype(np.float32), exact))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_nonfinite_and_tiny(dtype: Any, target: str) -> None:
    info = ml_dtypes.finfo(dtype)
    x = np.array(
        [[np.inf, 1, 0], [np.nan, 0, 0], [0, -0.0, 0], [info.smallest_subnormal, 0, 0], [info.max, 0, 0]], dtype
    )
    y = np.array([[0, 1, 2, -1], [1, 1, 1, 1], [1, np.inf, 1, np.nan]], dtype)
    alike = lambda a, w: same(a.astype(np.float64), w.astype(np.float64))
    check("matmul", [x, y], {}, target, alike)
    check("matvec", [x, np.ascontiguousarray(y[:, 0])], {}, target, alike)
    check("vecmat", [np.ascontiguousarray(x[0]), y], {}, target, alike)


def _epilogue(bench: Bench, m: int, n: int, dtype: Any, arrays: Sequence[np.ndarray]) -> Epilogue:
    """relu(product * scalar + row + column) and full - 0.5 * product, the latter in place of `full`."""
    scalar, row, column, full = (bench.given(a) for a in arrays)
    stretched = (
        scalar._replace(shape=(m, n), strides=(0, 0)),
        row._replace(shape=(m, n), strides=(row.strides[0], 0)),
        column._replace(shape=(m, n), strides=(0, 1)),
        full,
    )

    def emit(b: Any, x: Any, operands: Sequence[Any]) -> list[Any]:
        s, r, c, f = operands
        y = b.fadd(b.fadd(b.fmul(x, s), r), c)
        relu = b.select(b.fcmp("olt", y, b.const(y.type, 0.0)), b.const(y.type, 0.0), y)
        return [relu, b.fsub(f, b.fmul(b.const(x.type, 0.5), x))]

    out = bench.temp((m, n), dtype)
    return Epilogue("test", stretched, ("scalar", "row", "column", "full"), (out, full), emit)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_epilogue(dtype: Any, target: str) -> None:
    rng = np.random.default_rng(8)
    for m, k, n in (
        (1, 4, 16),
        (6, 0, 9),
        (17, 5, 33),
        (30, 20, 1),
        (15, 8, 70),
        (1, 60, 300),
        (300, 60, 1),
        (5, 70, 75),
        (40, 80, 2),
        (5, 9, 3),
    ):
        x, y = (rng.integers(-3, 4, s).astype(dtype) for s in ((m, k), (k, n)))
        scalar, row, column, full = (
            rng.integers(-3, 4, s).astype(dtype) for s in ((), (m,), (n,), (m, n + 3 * (n > 1)))
        )
        for left in ("plain", "transposed"):
            for right in ("plain", "transposed"):
                bench = Bench(target)
                kept = full.copy()[:, :n]
                a, b = bench.given(laid_out(x, left)), bench.given(laid_out(y, right))
                epilogue = _epilogue(bench, m, n, dtype, (scalar, row, column, kept))
                product(bench, a, b, epilogue)
                (relu,) = bench.run(epilogue.outputs[0])
                np.testing.assert_array_equal(relu, np.maximum(x @ y * scalar + row[:, None] + column, 0))
                np.testing.assert_array_equal(kept, full[:, :n] - (0.5 * (x @ y)).astype(dtype))


def test_epilogue_of_an_op() -> None:
    """An op's lowering asks for its epilogue, and gives what that gives."""

    class Doubling(Bench):
        def epilogue(self, node: Node, shape: Sequence[int], order: Sequence[int] | None = None) -> Epilogue:
            assert tuple(shape) == (2, 9, 20)
            emit = lambda b, x, operands: [b.fadd(x, x)]
            return Epilogue("double", (), (), (self.temp(shape, np.float32),), emit, [node])

    rng = np.random.default_rng(9)
    x, y = numbers(rng, (2, 9, 6), np.float32), numbers(rng, (2, 6, 20), np.float32)
    bench = Doubling()
    node = node_of("matmul", [x, y], {})
    for n, a in zip(node.inputs, (x, y)):
        bench.views[n] = bench.given(a)
    made = RULES["matmul"](bench, node)
    assert isinstance(made, tuple)
    np.testing.assert_array_equal(bench.run(*made)[0], 2 * (x @ y))


EINSUMS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ab,bc->ac", ((5, 6), (6, 7))),
    ("ab,cb->ac", ((5, 6), (7, 6))),
    ("ab,bc->ca", ((5, 6), (6, 7))),
    ("abc,adc->bad", ((2, 3, 4), (2, 5, 4))),
    ("abcd,cde->abe", ((2, 3, 4, 5), (4, 5, 6))),
    ("abcd,adce->abce", ((2, 3, 4, 5), (2, 5, 4, 3))),
    ("abc,cbd->ad", ((3, 4, 5), (5, 4, 6))),
    ("a,b->ab", ((5,), (6,))),
    ("ab,ab->", ((5, 6), (5, 6))),
    ("ab,ab->a", ((5, 6), (5, 6))),
    ("ab,ab->ab", ((5, 6), (5, 6))),
    ("ab,c->a", ((5, 6), (7,))),
    ("ab,bc,cd->da", ((5, 6), (6, 7), (7, 3))),
    ("ab->ba", ((5, 6),)),
    ("abc->b", ((5, 6, 7),)),
    ("abc->ca", ((5, 6, 7),)),
    ("a->", ((5,),)),
    (",ab->ab", ((), (5, 6))),
    ("ab,bc->ac", ((5, 0), (0, 7))),
    ("ab,bc->ac", ((0, 6), (6, 7))),
]


@pytest.mark.parametrize(("subscripts", "shapes"), EINSUMS)
def test_einsum(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(10)
    for dtype in (np.float32, np.float64, np.int64, np.float16):
        xs = [rng.integers(-3, 4, s).astype(dtype) for s in shapes]
        check("einsum", xs, {"subscripts": subscripts})
        check("einsum", [np.asarray(x.T.copy().T) for x in xs], {"subscripts": subscripts}, "avx2")


def test_linear() -> None:
    rng = np.random.default_rng(11)
    for shape in ((4, 6), (2, 3, 6), (6,)):
        x, weight, bias = (numbers(rng, s, np.float32) for s in (shape, (5, 6), (5,)))
        check("linear", [x, weight], {})
        check("linear", [x, weight, bias], {})


def test_one_kernel_for_all_sizes() -> None:
    """Sizes are numbers of the record: they are not in a kernel's key."""
    keys = set()
    for m, k, n in ((20, 30, 40), (21, 31, 41), (200, 3, 100)):
        bench = Bench()
        x, y = bench.given(np.ones((m, k), np.float32)), bench.given(np.ones((k, n), np.float32))
        product(bench, x, y, plain_store(bench.temp((m, n), np.float32)))
        keys.add(tuple(s.kernel.key for s in bench.plan.steps))  # type: ignore[union-attr]
    assert len(keys) == 1


def test_emits_for_aarch64() -> None:
    for dtype in (np.float32, np.float64, np.float16):
        bench = Bench()
        bench.target = machine.level("aarch64")
        x, y = bench.given(np.ones((20, 30), dtype)), bench.given(np.ones((33, 30), dtype).T)
        product(bench, x, y, plain_store(bench.temp((20, 33), dtype)))
        for step in bench.plan.steps:
            assert "ret" in step.kernel.asm  # type: ignore[union-attr]
