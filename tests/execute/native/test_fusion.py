"""Graphs as plans of fused kernels: the same values as the interpreter's, in as few steps as there should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from processors import on_processors
from wengert.core.graph.evaluate import run

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.compile import Compiled, compile_graph

F = wg.nn.functional
RNG = np.random.default_rng(7)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def compiled(f: Callable[..., Any], *args: Any, **options: Any) -> Compiled:
    return compile_graph(wg.graph(f)(*args), **options)


def check(f: Callable[..., Any], *args: Any, rtol: float = 2e-5, **options: Any) -> Compiled:
    """Compile, run, and compare with the interpreter; what was compiled."""
    made = compiled(f, *args, **options)
    arrays = [np.asarray(a, order="C") for a in wg.tree.leaves(args)]
    expected = run(made.graph, [a.copy() for a in arrays])
    for got, value in zip(made.run(arrays), expected, strict=True):
        want = np.asarray(value)
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        scale = float(np.max(np.abs(want), initial=0, where=np.isfinite(want))) if want.dtype.kind == "f" else 0
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol * max(scale, 1e-30))
    return made


def kernels(made: Compiled) -> int:
    return len([s for s in made.plan.steps if isinstance(s.kernel, Kernel)])


SHAPES = [(1,), (7,), (16,), (33,), (5000,), (3, 5), (1, 40), (40, 1), (37, 53), (2, 3, 17), (4, 1, 9), (0, 4), ()]


@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise_work_is_one_kernel_in_every_shape(shape: tuple[int, ...]) -> None:
    made = check(lambda x, y: wg.where(x > y, x * y + 0.25, -x), normal(*shape), normal(*shape))
    assert len(made.plan.steps) == (0 not in shape)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (40, 33, 20), (2, 3, 700), (900, 2, 3)])
@pytest.mark.parametrize("how", ["sum", "max", "min"])
def test_reductions_along_any_axes_take_their_operand_in(shape: Any, axis: Any, how: str) -> None:
    made = check(lambda x: getattr(wg, how)(x * x - x, axis=axis), normal(*shape))
    assert len(made.plan.steps) <= 2  # the second one adds up partial results


@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_booleans_and_integers(keepdims: bool) -> None:
    x = RNG.integers(-3, 4, (37, 21))
    check(lambda x: wg.sum(x > 0, axis=1, keepdims=keepdims), x)
    check(lambda x: wg.any(x > 2, axis=0, keepdims=keepdims), x)
    check(lambda x: wg.all(x > -3, axis=0, keepdims=keepdims), x)
    check(lambda x: wg.count_nonzero(x, axis=1, keepdims=keepdims), x)
    check(lambda x: wg.max(x, axis=0, keepdims=keepdims), x)


def test_nan_wins_in_extremes_and_infinities_are_values() -> None:
    x = np.array([[1.0, np.nan, 3.0], [-np.inf, 2.0, np.inf], [-0.0, 0.0, -1.0]], np.float32)
    check(lambda x: (wg.max(x, axis=1), wg.min(x, axis=1), wg.sum(x, axis=1)), x)


@pytest.mark.parametrize("shape", [(5, 3), (37, 53), (300, 1), (2, 3, 129), (1, 2000), (700, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_stay_in_one_kernel(shape: tuple[int, ...], dtype: Any) -> None:
    x, n = normal(*shape, dtype=dtype), shape[-1]
    assert len(check(lambda x: F.softmax(x, -1), x).plan.steps) == 1
    assert len(check(lambda x: F.log_softmax(x, -1), x).plan.steps) == 1
    made = check(lambda x, g, b: F.layer_norm(x, (n,), g, b), x, normal(n, dtype=dtype), normal(n, dtype=dtype))
    assert len(made.plan.steps) == 1


def test_softmax_along_the_first_axis() -> None:
    assert len(check(lambda x: F.softmax(x, 0), normal(37, 53)).plan.steps) == 1


def test_a_norm_and_a_softmax_and_all_their_gradients_read_their_input_once() -> None:
    def loss(x: Any, g: Any, b: Any, c: Any) -> Any:
        return (F.softmax(F.layer_norm(x, (64,), g, b), -1) * c).sum()

    args = normal(300, 64), normal(64), normal(64), normal(300, 64)
    made = check(wg.value_and_grad(loss, argnums=(0, 1, 2)), *args, rtol=2e-4)
    big = [s for s in made.plan.steps if s.nbytes > 2 * 300 * 64 * 4]
    assert len(big) == 1


def test_cross_entropy_and_its_gradient() -> None:
    target = RNG.integers(0, 10, 32)
    target[3] = -100
    check(wg.value_and_grad(lambda x, y: F.cross_entropy(x, y)), normal(32, 10), target)


def test_transposed_and_sliced_operands_are_read_in_place() -> None:
    made = check(lambda x, y: x.mT + y, normal(37, 53), normal(53, 37))
    assert len(made.plan.steps) == 1
    made = check(lambda x: x[:, 1:3] * x[::2, 0:1].sum(), normal(40, 5))
    assert all(isinstance(s.kernel, Kernel) for s in made.plan.steps)
    check(lambda x: wg.flip(x, axis=0) - wg.flip(x, axis=1), normal(6, 50))


def test_short_rows_are_done_side_by_side() -> None:
    check(lambda x: (x * x).sum(-1, keepdims=True) * x, normal(4000, 3))
    check(lambda x: F.softmax(x, -1), normal(1000, 2, dtype=np.float64))


def test_truth_along_a_short_axis_is_of_its_components() -> None:
    def inside(p: Any) -> Any:
        q = wg.stack([p[:, 0] * 2, p[:, 1], wg.abs(p[:, 2])], axis=-1)
        return wg.any(q > 1.0, axis=-1), wg.all(q > -1.0, axis=-1), wg.sum(q, axis=-1)

    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    compiled = wg.jit(inside)
    for a, b in zip(compiled(wg.tensor(x)), inside(wg.tensor(x)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert len(compiled.kernels) == 1


def test_reshapes_between_elementwise_work_cost_nothing() -> None:
    made = check(lambda x, y: (x * 3.5).reshape(-1, 4) + y, normal(3, 5, 8), normal(30, 4))
    assert len(made.plan.steps) == 1


def test_long_sums_keep_their_accuracy() -> None:
    x = (RNG.random(1 << 20) + 0.5).astype(np.float32)
    (total,) = compiled(lambda x: x.sum(), x).run([x])
    assert abs(float(total) / float(x.astype(np.float64).sum()) - 1) < 1e-6


def test_epilogues_follow_products() -> None:
    def dense(x: Any, w: Any, b: Any) -> Any:
        return wg.relu(x @ w + b)

    made = check(dense, normal(33, 20), normal(20, 17), normal(17))
    assert sum("gemm" in s.label for s in made.plan.steps) == 1
    assert not any("relu" in s.label for s in made.plan.steps)
    # The update of a weight is made where its gradient is.
    made = check(lambda w, x, y: w - 0.5 * (x.mT @ y), normal(20, 17), normal(33, 20), normal(33, 17))
    assert not any("subtract" in s.label for s in made.plan.steps)


def test_a_product_used_by_others_too_is_stored_as_well() -> None:
    check(lambda x, w: ((x @ w) * 2.5, (x @ w).sum(0)), normal(33, 20), normal(20, 17))


def test_donated_inputs_are_overwritten_only_after_their_last_use() -> None:
    def step(w: Any, m: Any, x: Any) -> Any:
        m = 0.9 * m + x
        return w - 0.1 * m, m

    w, m, x = normal(30, 20), normal(30, 20), normal(30, 20)
    made = compiled(step, w, m, x, donated=[True, True, False])
    expected = run(made.graph, [w.copy(), m.copy(), x])
    a, b = w.copy(), m.copy()
    results = made.run([a, b, x])
    assert results[0] is a or np.shares_memory(results[0], a)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def tangled(w: Any, x: Any) -> Any:
        # The product reads all of w while its kernel could already be writing it.
        return w - 0.1 * (w @ x), wg.sin(w.mT)

    w, x = normal(40, 40), normal(40, 40)
    made = compiled(tangled, w, x, donated=[True, False])
    expected = run(made.graph, [w.copy(), x])
    for got, want in zip(made.run([w.copy(), x]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_sizes_are_no_part_of_the_code() -> None:
    def f(x: Any) -> Any:
        return (x / x.mean()).sum(), wg.exp(x).mean()

    keys = [{k.key for k in compiled(f, normal(n)).kernels} for n in (100, 101, 2000, 77777)]
    assert keys[0] == keys[1] == keys[2] == keys[3] or keys[1] == keys[0]


@pytest.mark.parametrize("name", ["avx2", "sse2"])
def test_lesser_processors_give_the_same(name: str) -> None:
    if machine.host().width < 32:
        pytest.skip("the processor has no wider registers than the lesser ones")
    target = machine.level(name)

    def loss(x: Any, g: Any) -> Any:
        return (F.softmax(F.layer_norm(x, (37,), g), -1) * x).sum()

    check(wg.value_and_grad(loss, argnums=(0, 1)), normal(50, 37), normal(37), rtol=2e-4, target=target)
    check(lambda x: wg.max(x, axis=0), normal(50, 37), target=target)


def test_code_for_aarch64_is_made() -> None:
    made = compiled(lambda x: F.softmax(wg.tanh(x), -1), normal(50, 37), target=machine.level("aarch64"))
    assert "fmla" in made.asm or "fadd" in made.asm


def test_why_two_nodes_are_apart() -> None:
    made = compiled(lambda x, y: (x.sum(0), wg.sin(y).sum(0)), normal(50, 37), normal(49, 38))
    sums = made.optimized.find("sum")
    assert made.why_not_fused(sums[0], sums[0]) is None
    assert "different sizes" in str(made.why_not_fused(*sums)) or "nothing passes" in str(made.why_not_fused(*sums))


def test_the_plan_tells_its_steps_and_its_memory() -> None:
    made = compiled(lambda x, w: wg.relu(x @ w).sum(), normal(33, 20), normal(20, 17))
    text = str(made)
    assert "gemm" in text
    assert "arena" in text
    memory = made.memory
    assert memory.inputs == (33 * 20 + 20 * 17) * 4
    assert memory.outputs == 4
    assert memory.peak == sum(memory)
    assert "operations" in str(made.cost)
    assert made.cost.host_calls == 0
    assert made.kernels[0].name in made.ir


def test_safer_forms_are_used() -> None:
    x = np.array([[1000.0, 0.0, -1000.0]], np.float32)
    made = compiled(lambda x: (wg.log(F.softmax(x, -1)), wg.log(wg.exp(x).sum(-1))), x)
    logs, level = made.run([x])
    np.testing.assert_allclose(logs, [[0.0, -1000.0, -2000.0]])
    np.testing.assert_allclose(level, [1000.0])
    tiny = np.full(3, 1e-10, np.float32)
    np.testing.assert_allclose(compiled(lambda x: wg.log(1 + x), tiny).run([tiny])[0], tiny)
    np.testing.assert_allclose(compiled(lambda x: wg.exp(x) - 1, x * 0 + 1e-10).run([x * 0 + 1e-10])[0], 1e-10 + x * 0)


def test_every_node_knows_what_it_was_made_from() -> None:
    made = compiled(lambda x: x.mean() + wg.logsumexp(x, -1).sum() * wg.log(F.softmax(x, -1)).sum(), normal(5, 7))
    rewrites = {why for node in made.optimized.nodes for why, _ in made.history(node)}
    assert {"mean as sum", "logsumexp in the open"} <= rewrites
    # What stood in a composite says so by its scope.
    assert any(n.scope is not None and n.scope.name == "log_softmax" for n in made.optimized.computations)


# Rows side by side, reduced in pieces: as many as there are divisors for, none (a prime), and too few to share out.
NARROW = [(40, 16, 30, 20), (3, 5, 7, 11), (65537, 3), (16, 200, 50, 4), (2, 1, 9, 9000)]


@pytest.mark.parametrize("shape", NARROW)
@pytest.mark.parametrize("how", ["sum", "max", "prod"])
def test_reductions_that_keep_channels_are_in_pieces(shape: tuple[int, ...], how: str) -> None:
    axes = (0, *range(2, len(shape)))

    def f(x: Any) -> Any:
        # The channels last in memory, as convolutions leave them.
        y = wg.permute_dims(x, (0, len(shape) - 1, *range(1, len(shape) - 1)))
        return getattr(wg, how)(wg.sign(y) if how == "prod" else y, axes), wg.sum(wg.exp(y), axes), y.max()

    check(f, normal(shape[0], *shape[2:], shape[1]))


def test_pieces_of_narrow_rows_are_shared_out_and_results_in_16_bits_are_rounded_once() -> None:
    x = RNG.uniform(0, 1e-2, (64, 40, 40, 16)).astype(np.float16)
    made = compiled(lambda x: wg.sum(x, (0, 1, 2)), x)
    assert made.plan.steps[0].units >= 16
    np.testing.assert_array_equal(made.run([x])[0], x.astype(np.float64).sum((0, 1, 2)).astype(np.float16))


def test_statistics_of_long_rows_apart_are_not_computed_row_by_row() -> None:
    def normalised(x: Any) -> Any:
        mean = wg.mean(x, (0, 2, 3), keepdims=True)
        deviation = x - mean
        return deviation / wg.sqrt(wg.mean(deviation * deviation, (0, 2, 3), keepdims=True) + 1e-5)

    made = check(normalised, normal(16, 8, 40, 40))
    largest = [s for s in made.plan.steps if s.nbytes > 500_000]
    assert len(largest) == 3
    assert all(s.units >= 4 for s in largest)
    # Few elements stay together: one kernel, whose later passes find them in the cache.
    assert len(check(normalised, normal(4, 32, 5, 5)).plan.steps) == 1


def test_slices_put_back_among_zeros_are_read_through_windows() -> None:
    def rosenbrock(x: Any) -> Any:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    for n in (2, 10, 1001):
        made = check(wg.value_and_grad(rosenbrock), normal(n, dtype=np.float64))
        assert not any("copy" in s.label for s in made.plan.steps)
    check(wg.value_and_grad(lambda x: (wg.sin(x[1:, 2:]) * x[:-1, :-2]).sum()), normal(40, 50), rtol=2e-4)
    check(wg.grad(lambda x: (x[3] * x[4]).sum() + (x[:, 5] ** 2).sum()), normal(40, 50))
    check(wg.grad(lambda x: x[3] * x[4] + x[-1] ** 2), normal(13))
    check(wg.grad(lambda x: (x.mT[1:] * x.mT[:-1]).sum()), normal(30, 40))
    check(lambda x: F.softmax(wg.grad(lambda x: (x[:, 3:9] ** 2).sum())(x) + x, -1), normal(30, 20))


@pytest.mark.parametrize("wrong", [3, -4, 99])
def test_classes_that_do_not_exist_are_errors_before_anything_is_written(wrong: int) -> None:
    w = wg.tensor(normal(5, 3), requires_grad=True)
    opt = wg.optim.SGD([w], lr=0.1)

    @wg.jit
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(x @ w, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x = wg.asarray(normal(4, 5))
    step(x, wg.asarray([0, 1, 2, 1]))
    before = w.detach().numpy().copy()
    with pytest.raises(wg.RangeError, match=f"target {wrong} at .3. is not one of 3 classes"):
        step(x, wg.asarray([0, 1, 2, wrong]))
    np.testing.assert_array_equal(before, w.detach().numpy())


def test_places_counted_from_the_end_are_picked_too() -> None:
    x, at = normal(4, 3), np.array([[0], [-1], [2], [-3]])
    check(lambda x, at: wg.take_along_axis(wg.sin(x), at, axis=-1), x, at)


def test_the_gradient_of_a_pick_is_a_choice_in_the_loop_that_takes_it() -> None:
    x, t = normal(4, 30), np.array([3, 0, 29, 7])
    fn = wg.grad(lambda x, t: F.nll_loss(F.log_softmax(x, -1), t))
    check(fn, x, t)
    compiled = wg.jit(fn)
    compiled(wg.asarray(x), wg.asarray(t))
    # No rows of zeros are written first, and nothing is put into them.
    assert not [step.label for step in compiled.plan.steps if "fill" in step.label or "set" in step.label]
    at = np.array([[0], [-1], [29], [-30]])
    for ct in (normal(4, 1), np.array([[np.inf], [np.nan], [-0.0], [1.0]], np.float32)):
        check(lambda x, at, ct: wg.vjp(lambda x: wg.take_along_axis(x, at, axis=-1), x)[1](ct)[0] * 2, x, at, ct)
    spread = wg.jit(lambda x, at: wg.grad(lambda x: (wg.take_along_axis(x, at, axis=-1) ** 2).sum())(x))
    with pytest.raises(wg.RangeError, match="30 is out of range"):
        spread(wg.asarray(x), wg.asarray(np.array([[0], [30], [1], [2]])))


@pytest.mark.parametrize("shape", [(3, 4, 30), (12, 5001)])
def test_a_loss_by_picks_is_one_loop_with_the_softmax_before_it(shape: tuple[int, ...]) -> None:
    """Words of sentences are seen as rows, as programs for PyTorch do it; vocabularies are long."""
    x, t = normal(*shape), np.random.default_rng(0).integers(0, shape[-1], 12)

    def loss(x: Any, t: Any) -> Any:
        return F.nll_loss(F.log_softmax(x, -1).reshape(-1, shape[-1]), t)

    check(wg.value_and_grad(loss), x, t)
    compiled = wg.jit(wg.value_and_grad(loss))
    compiled(wg.asarray(x), wg.asarray(t))
    # Of all that is computed of the logits nothing is stored but their gradient.
    size = math.prod(shape)
    assert [w.nbytes for s in compiled.plan.steps for w in s.writes if w.nbytes >= 4 * size] == [4 * size]
    with pytest.raises(wg.RangeError, match="is not one of"):
        compiled(wg.asarray(x), wg.asarray(t + shape[-1]))


def test_a_pick_of_rows_in_another_shape() -> None:
    x, at = normal(2, 3, 5), np.array([[0], [-1], [2], [4], [-5], [1]])

    def pick(x: Any, at: Any) -> Any:
        return wg.take_along_axis(wg.sin(x).reshape(6, 5), at, axis=-1)

    def put(x: Any, at: Any, ct: Any) -> Any:
        """Rows of zeros in which one element was put, in another shape."""
        return wg.vjp(lambda x: wg.take_along_axis(x.reshape(6, 5), at, axis=-1), x)[1](ct)[0]

    made = check(pick, x, at)
    assert max(w.nbytes for s in made.plan.steps for w in s.writes) < x.nbytes
    check(lambda x, at: wg.vjp(lambda x: pick(x, at), x)[1](pick(x, at))[0].sum(-1), x, at)
    for ct in (np.array([[np.inf], [np.nan], [-0.0], [1.0], [0.0], [2.0]], np.float32), normal(6, 1)):
        check(lambda x, at, ct: put(x, at, ct) * 2, x, at, ct)
        check(lambda x, at, ct: (put(x, at, ct).sum(-1), wg.exp(x) * put(x, at, ct).sum(-1, keepdims=True)), x, at, ct)
    with pytest.raises(wg.RangeError, match="5 is out of range"):
        wg.jit(pick)(wg.asarray(x), wg.asarray(np.where(at == 4, 5, at)))


def test_a_reshape_moves_over_what_is_the_same_in_whole_rows() -> None:
    def program(x: Any, row: Any, column: Any, both: Any) -> Any:
        spread = wg.sin(x) * wg.exp(row) + column * both
        return spread.reshape(2, 3, 10), spread.reshape(6, 2, 5), spread.reshape(60)

    args = normal(6, 10), normal(10), normal(6, 1), normal(1, 10)
    check(program, *args)
    for shape in ((2, 3, 10), (6, 2, 5), (60,), (3, 20), (6, 10, 1), (1, 6, 10)):
        check(lambda *a, shape=shape: (wg.sin(a[0]) * a[1] + a[2] * a[3]).reshape(shape), *args)
        check(lambda x, c, shape=shape: wg.exp(wg.sin(x) * c).reshape(shape), normal(6, 2, 5), normal(6, 1, 5))


def test_what_a_scan_reads_is_not_looked_for_behind_it() -> None:
    def program(x: Any) -> Any:
        spread = wg.std(x, axis=0, keepdims=True)
        rows = wg.asinh(wg.reshape(spread, (1, 1, 5)))
        return wg.scan(lambda c, r: (c * 0.5 + wg.max(r), r + c), spread, rows, reverse=True)[1]

    check(lambda x, t: wg.jvp(program, (x,), (t,))[1], normal(2, 5), normal(2, 5))


def test_rows_of_several_dimensions_keep_their_values_apart() -> None:
    def loss(v: Any, x: Any) -> Any:
        y = F.layer_norm(x, (100,), v, v)
        size = wg.abs(y / wg.logsumexp(y, axis=(0, 1), keepdims=True))
        return (size * wg.mean(size, axis=(0, 1), keepdims=True)).sum()

    check(wg.grad(loss, argnums=(0, 1)), normal(100) + 2, normal(2, 100), rtol=2e-5)


@pytest.mark.parametrize(("columns", "target"), on_processors([1, 5, 16, 17, 64, 130, 257]))
def test_short_rows_are_computed_together(columns: int, target: str) -> None:
    """Two passes and more, kept values, sums of rows, of columns and of everything: one row at a time or several."""
    which = machine.host() if target == "host" else machine.level(target)

    def f(x: Any, g: Any, b: Any) -> Any:
        return (F.softmax(F.layer_norm(x, (columns,), g, b), -1) * wg.sin(x)).sum()

    gradients = wg.value_and_grad(f, argnums=(0, 1, 2))
    together = set()
    for rows in (1, 2, 3, 4, 6, 7, 8, 64, 130):
        args = (normal(rows, columns, dtype=np.float64), *(normal(columns, dtype=np.float64) for _ in range(2)))
        made = check(gradients, *args, rtol=1e-9, target=which)
        keys = [s.kernel.key for s in made.plan.steps if isinstance(s.kernel, Kernel)]
        found = {int(key.split(";")[0].split()[-1]) for key in keys if key.startswith("loop inner")}
        assert all(rows % n == 0 for n in found)
        together |= found
    vectors = columns * 8 / which.width
    assert together >= ({1, 2, 4} if 1 <= vectors <= 4 else set())
    assert 4 not in together or vectors <= 4


def along(axis: int) -> Callable[..., Any]:
    """Products laid side by side: plain, with a bias, with epilogues."""

    def program(x: Any, w: Any, b: Any) -> Any:
        square = x @ w @ (w.mT @ w)
        return wg.concat([x @ w, F.linear(x, w.mT, b), wg.tanh(x @ w) * 2.0, wg.sin(square)], axis=axis)

    return program


def repeated(x: Any, w: Any, b: Any) -> Any:
    p = x[0] @ w
    return wg.concat([p, p, p.reshape(4, 33) * 2.0]), p.sum(0), wg.sort(p, axis=0)


# Programs, and how many of their pieces are copied all the same.
SIDE_BY_SIDE: dict[str, tuple[Callable[..., Any], int]] = {
    "rows": (along(0), 0),
    "steps": (along(1), 4),  # the rows of a piece are not one stride apart
    "columns": (along(2), 0),
    "words": (lambda x, w, b: wg.concat([(x[:, i] @ w).reshape(6, 1, 33) for i in range(4)], axis=1), 0),
    "stack": (lambda x, w, b: wg.stack([x[0] @ w, x[1] @ w + b, wg.exp(x[2] @ w)], axis=1), 0),
    "one": (lambda x, w, b: wg.concat([x @ w[:, :1], x[:, :, :1] @ b[None, :1], x @ w[:, :2]], axis=-1), 2),
    "row": (lambda x, w, b: wg.stack([x[0, 0] @ w, b, x[1, 1] @ w], axis=0), 1),
    "nested": (lambda x, w, b: wg.stack([wg.concat([x[i] @ w, x[i + 1] @ w]) for i in (0, 2)]), 0),
    "repeated": (repeated, 1),
}


@pytest.mark.parametrize(("name", "target"), on_processors(sorted(SIDE_BY_SIDE)))
def test_products_are_written_where_they_are_laid_side_by_side(name: str, target: str) -> None:
    which = machine.host() if target == "host" else machine.level(target)
    program, copies = SIDE_BY_SIDE[name]
    made = check(program, normal(6, 4, 19), normal(19, 33), normal(33), target=which)
    assert len([step for step in made.plan.steps if "copy" in step.label]) == copies


def test_a_table_that_many_steps_look_up_has_one_gradient() -> None:
    """Steps' scatters into rows of zeros are one; others, few rows of a small table, and further terms stay."""
    table, w, rows = normal(50, 8), normal(8, 8), [np.array(i) for i in ([1, 49], [3, 3], [[0, 1], [7, 1]], [-1, 2])]

    def looked_up(e: Any, w: Any, *at: Any) -> Any:
        return sum((wg.sin(e[i] @ w) ** 2).sum() for i in at) + (e * e).sum()

    made = check(wg.grad(looked_up, argnums=(0, 1)), table, w, *rows)
    assert len([s for s in made.plan.steps if "scatter" in s.label]) == 1
    # Of other integers, from the end, and twice the same rows.
    check(wg.grad(looked_up), table, w, rows[0].astype(np.int8), rows[1], rows[1].astype(np.int8), rows[3])
    check(wg.grad(lambda e, *at: sum((e[i] ** 3).sum() for i in at)), normal(4, 3), np.arange(4), np.arange(4))
    check(wg.grad(lambda e, *at: sum((e[:, i] ** 3).sum() for i in at)), normal(40, 30), rows[0] % 30, rows[1])
    check(lambda e, *at: sum(wg.grad(lambda e, i: (e[i] ** 3).sum())(e, i) for i in at), normal(90), *rows)
    spread = wg.jit(wg.grad(looked_up))
    with pytest.raises(wg.RangeError, match="index 50 is out of range"):
        spread(wg.asarray(table), wg.asarray(w), *(wg.asarray(i) for i in rows[:3]), wg.asarray([50, 0]))


def test_indices_side_by_side_are_looked_at_unless_all_of_them_were() -> None:
    large, small, i, j = normal(50, 3), normal(40, 3), np.array([1, 49]), np.array([0, 39])

    def both(large: Any, small: Any, i: Any, j: Any) -> Any:
        return large[i].sum() + large[j].sum(), large[wg.concat([i, j])]

    def one(large: Any, small: Any, i: Any, j: Any) -> Any:
        return large[i].sum(), large[wg.concat([i, j])]

    def other(large: Any, small: Any, i: Any, j: Any) -> Any:
        return large[i].sum() + large[j].sum(), small[wg.concat([j, i])]

    for f, checks in ((both, 2), (one, 2), (other, 3)):
        good = (i, j) if f is not other else (j, j)
        made = check(f, large, small, *good)
        assert len([s for s in made.plan.steps if "range of" in s.label]) == checks
        for bad in ((np.array([1, 50]), j), (i, np.array([50, 1])), *([(i, j)] if f is other else [])):
            with pytest.raises(wg.RangeError, match="out of range"):
                wg.jit(f)(*(wg.asarray(x) for x in (large, small, *bad)))
