"""Recurrent and small models: what their plans must not do, and that they give the interpreter's values."""

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

_ = wg.scan  # control flow is declared where it is first asked for
RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def check(f: Callable[..., Any], *args: Any, rtol: float = 1e-11, level: str = "") -> Compiled:
    target = machine.level(level) if level else None
    made = compile_graph(wg.graph(f)(*args), target=target)
    arrays = [np.asarray(a, order="C") for a in wg.tree.leaves(args)]
    expected = run(made.graph, [a.copy() for a in arrays])
    for _ in range(2):  # what one call leaves behind must not show in the next
        for got, want in zip(made.run(arrays), expected, strict=True):
            want = np.asarray(want)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
    return made


def scans_of(made: Compiled) -> list[Any]:
    return made.optimized.find("scan")


def ops_of(body: Any) -> list[str]:
    return [n.op.name for n in body.nodes]


def recurrent(reverse: bool = False) -> Callable[..., Any]:
    def loss(w: Any, u: Any, h: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = wg.tanh(h @ w + x @ u)
            return h, h.sum()

        last, sums = wg.scan(cell, h, xs, reverse=reverse)
        return (last * last).sum() + (sums * sums).sum()

    return loss


# -- scans


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_derivatives_of_scans(reverse: bool, steps: int) -> None:
    args = normal(5, 5), normal(3, 5), normal(4, 5), normal(steps, 4, 3)
    check(wg.value_and_grad(recurrent(reverse), argnums=(0, 1, 2, 3)), *args)


def test_what_a_scan_computed_its_derivative_reads() -> None:
    made = check(wg.grad(recurrent(), argnums=(0, 1)), normal(5, 5), normal(3, 5), normal(4, 5), normal(7, 4, 3))
    _, back = scans_of(made)
    assert "tanh" not in ops_of(back.attrs["body"])
    # The products that are left bring the gradient to the state before: one in every step.
    assert ops_of(back.attrs["body"]).count("matmul") == 1


def test_gradients_of_shared_weights_are_products_after_the_loop() -> None:
    made = check(wg.grad(recurrent(), argnums=(0, 1)), normal(5, 5), normal(3, 5), normal(4, 5), normal(7, 4, 3))
    _, back = scans_of(made)
    assert back.attrs["carries"] == 1
    assert any("28" in s.label for s in made.plan.steps)  # 7 steps of 4 rows


def test_large_products_stay_in_the_loop() -> None:
    rows = 200
    made = check(wg.grad(recurrent(), argnums=(0,)), normal(5, 5), normal(3, 5), normal(rows, 5), normal(3, rows, 3))
    assert scans_of(made)[1].attrs["carries"] == 2


def test_cheap_values_are_made_again_rather_than_kept() -> None:
    def loss(w: Any, h: Any, xs: Any) -> Any:
        last, _ = wg.scan(lambda h, x: (h * w + x * x * w, None), h, xs)
        return last.sum()

    made = check(wg.grad(loss), normal(6), normal(6), normal(5, 6))
    first, _ = scans_of(made)
    # Nothing but the states is kept.
    assert len(first.attrs["body"].outputs) == 2


def test_states_and_results_that_nothing_uses_are_left_out() -> None:
    def f(a: Any, b: Any, xs: Any) -> Any:
        def cell(state: Any, x: Any) -> Any:
            a, b, c = state
            return (a * x, b + wg.exp(a), c + x), (a, wg.sin(b), x * 2)

        (a, _, c), (_, _, twice) = wg.scan(cell, (a, b, a), xs)
        return a, twice, c

    made = check(f, normal(4), normal(4), normal(6, 4))
    (scan,) = scans_of(made)
    assert (scan.attrs["carries"], len(scan.attrs["body"].outputs)) == (2, 3)
    assert "exp" not in ops_of(scan.attrs["body"])


def test_a_state_that_another_needs_is_kept() -> None:
    def f(a: Any, b: Any, xs: Any) -> Any:
        (a, _), _ = wg.scan(lambda s, x: ((s[0] + s[1], s[1] * x), s[1]), (a, b), xs)
        return a

    check(f, normal(4), normal(4), normal(6, 4))


def test_an_operand_given_twice() -> None:
    def f(h: Any, xs: Any, w: Any) -> Any:
        return wg.scan(lambda c, x: (c + x[0] * w, x[1] * w), h, (xs, xs))

    (scan,) = scans_of(check(f, normal(4), normal(6, 4), normal(4)))
    assert scan.attrs["sequences"] == 1


def test_a_sum_that_the_loop_looks_at_stays_in_it() -> None:
    def f(total: Any, xs: Any, ys: Any) -> Any:
        def cell(total: Any, rows: Any) -> Any:
            x, y = rows
            return total + x.mT @ y, total.sum()

        return wg.scan(cell, total, (xs, ys))

    check(f, normal(3, 2), normal(5, 4, 3), normal(5, 4, 2))


def test_a_sum_of_several_products_and_one_that_is_a_result() -> None:
    def f(total: Any, other: Any, xs: Any, ys: Any) -> Any:
        def cell(state: Any, rows: Any) -> Any:
            total, other = state
            x, y = rows
            product = x.mT @ y
            return ((x * 2).mT @ y + (total + wg.sin(x).mT @ wg.cos(y)), other + product), product

        return wg.scan(cell, (total, other), (xs, ys))

    (scan,) = scans_of(check(f, normal(3, 2), normal(3, 2), normal(5, 4, 3), normal(5, 4, 2)))
    assert scan.attrs["carries"] == 1


def test_second_derivatives_of_scans() -> None:
    w, h, xs = normal(3, 3), normal(2, 3), normal(4, 2, 3)

    def loss(w: Any) -> Any:
        return wg.scan(lambda h, x: (wg.tanh(h @ w + x), None), h, xs)[0].sum()

    check(lambda w, v: wg.jvp(wg.grad(loss), (w,), (v,))[1], w, normal(3, 3))
    check(wg.grad(lambda w: (wg.grad(loss)(w) ** 2).sum()), w)


def test_scans_inside_scans() -> None:
    def f(h: Any, xs: Any, w: Any) -> Any:
        def outer(h: Any, rows: Any) -> Any:
            return wg.scan(lambda h, x: (wg.tanh(h @ w + x), None), h, rows)[0], None

        return wg.scan(outer, h, xs)[0].sum()

    check(wg.grad(f, argnums=(0, 2)), normal(2, 3), normal(3, 4, 2, 3), normal(3, 3))


# -- products with a tiny axis


def kernels_of(made: Compiled) -> list[str]:
    return [s.label for s in made.plan.steps]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level", ["", "avx2", "sse2"])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(2, 1, 2), (5, 2, 17), (16, 3, 64), (33, 4, 3), (7, 30, 2), (40, 9, 4)]
)
def test_products_with_a_tiny_axis_are_loops(rows: int, inner: int, columns: int, level: str, dtype: Any) -> None:
    x, y = normal(rows, inner, dtype=dtype), normal(inner, columns, dtype=dtype)
    rtol = 1e-5 if dtype == np.float32 else 1e-12
    made = check(lambda x, y: wg.tanh(x) @ y + 1, x, y, rtol=rtol, level=level)
    assert not any("gemm" in label for label in kernels_of(made))


def test_stacks_of_products_with_a_tiny_axis() -> None:
    for x, y in (((3, 5, 2), (2, 6)), ((3, 5, 2), (3, 2, 6)), ((5, 2), (3, 2, 6)), ((2, 1, 5, 7), (4, 7, 3))):
        check(lambda x, y: wg.exp(x) @ y, normal(*x), normal(*y))


def test_tiny_products_of_views_of_all_kinds() -> None:
    x, y = normal(2, 40), normal(33, 3)
    check(lambda x, y: wg.tanh(x.mT[::2] @ y.mT[:2, ::-1]), x, y)
    check(lambda x, y: wg.tanh(x[:, 3:36]) @ y[::-1], x, y)


def test_tiny_products_let_what_is_not_finite_through() -> None:
    x = np.array([[0.0, np.inf], [np.nan, 1.0], [-np.inf, 2.0]])
    y = np.array([[1.0, 0.0, -1.0, np.nan], [0.5, np.inf, 2.0, 1.0]])
    check(lambda x, y: x @ y, x, y)


def test_columns_of_few_are_summed_along_memory() -> None:
    # A weight's gradient: both factors have their rows in order.
    for dtype in (np.float32, np.float64):
        rtol = 1e-4 if dtype == np.float32 else 1e-11
        x, y = normal(60, 37, dtype=dtype), normal(60, 3, dtype=dtype)
        check(lambda x, y: x.mT @ y, x, y, rtol=rtol)
        check(lambda x, y, w: w - 0.1 * (x.mT @ y), x, y, normal(37, 3, dtype=dtype), rtol=rtol)
    # A stack of matrices times one is one product, whose rows are not the result's.
    check(lambda x, y, b: x @ y + b, normal(17, 17, 1), normal(1), normal(17))
    check(lambda x, y, b: wg.permute_dims(x, (2, 1, 0)) @ y + b, normal(9, 5, 6), normal(9, 2), normal(5, 2))


def small_network(w1: Any, b1: Any, w2: Any, b2: Any) -> Callable[[Any], Any]:
    return lambda y: wg.tanh(y @ w1 + b1) @ w2 + b2


@pytest.mark.parametrize("level", ["", "avx2", "sse2"])
def test_an_integrator_of_a_small_network_is_one_kernel_a_step(level: str) -> None:
    def loss(w1: Any, b1: Any, w2: Any, b2: Any, y: Any, targets: Any) -> Any:
        f = small_network(w1, b1, w2, b2)

        def step(y: Any, target: Any) -> Any:
            k1 = f(y)
            k2 = f(y + 0.05 * k1)
            y = y + 0.1 * k2
            return y, ((y - target) ** 2).sum()

        return wg.scan(step, y, targets)[1].sum()

    args = normal(2, 30), normal(30), normal(30, 2), normal(2), normal(16, 2), normal(9, 16, 2)
    made = check(wg.value_and_grad(loss, argnums=(0, 1, 2, 3)), *args, level=level)
    loops = [range(first, last + 1) for first, last in made.plan.loops]
    for loop in loops:
        labels = [made.plan.steps[i].label for i in loop]
        assert not any("gemm" in label or "matvec" in label for label in labels)
        assert sum("more" in label for label in labels) == 1


# -- components of short axes


def test_short_axes_that_differ_are_not_one() -> None:
    # The leading axis is short as well; it is no axis of components.
    def f(y: Any, w: Any) -> Any:
        z = wg.tanh(y) * 2
        return wg.stack([z[:, 1] * w, z[:, 0] - w], axis=-1) * z, wg.sin(z[:, 0])

    made = check(f, normal(16, 2), normal(16))
    assert len(made.plan.steps) <= 2


def test_a_sum_without_its_axis_has_another_last_one() -> None:
    def f(y: Any) -> Any:
        z = wg.exp(y)
        s = wg.stack([z.sum(-1), z.max(-1), z[:, :, 0]], axis=-1)
        return s * s, s.sum(-1), s[..., 1].sum(-1)

    check(f, normal(3, 4, 3))
    check(wg.grad(lambda y: (f(y)[0] ** 2).sum()), normal(3, 4, 3))


def test_components_that_are_zero_without_their_axis() -> None:
    def f(y: Any) -> Any:
        return wg.sin(wg.exp(y)[:, 0]).sum() + wg.exp(y)[:, 1:].sum()

    check(wg.grad(f), normal(5, 3))
    check(lambda y, v: wg.jvp(wg.grad(f), (y,), (v,))[1], normal(5, 3), normal(5, 3))


def test_components_of_a_constant_vector_are_scalars() -> None:
    def f(z: Any, x: Any) -> Any:
        y = wg.concat([x - x.sum(), wg.asarray(np.zeros(1))])
        shifted = y - wg.reshape(wg.max(y, axis=-1), (1,))
        rows = wg.log(wg.abs(z)) + wg.softmax(shifted)
        top = wg.max(rows, axis=-1)
        return (top + wg.log(wg.exp(rows - wg.expand_dims(top, axis=-1)).sum(-1))).sum() - wg.log(wg.exp(shifted).sum())

    check(f, normal(500, 3), normal(2))


# -- products whose readers reduce short pieces of rows


@pytest.mark.parametrize("level", ["", "avx2", "sse2"])
def test_products_that_are_reduced_in_short_pieces(level: str) -> None:
    def f(x: Any, w: Any, m: Any) -> Any:
        z = (x @ w).reshape(x.shape[0], -1, 5) - m
        return (z * z).sum(-1), wg.exp(z - 3).max(-1).sum(0)

    check(f, normal(83, 6), normal(6, 35), normal(5), level=level)
    check(
        wg.grad(lambda x, w, m: (f(x, w, m)[0] ** 2).sum(), argnums=(0, 1, 2)), normal(83, 6), normal(6, 35), normal(5)
    )


def test_contractions_that_are_reduced_in_short_pieces() -> None:
    def f(x: Any, w: Any, m: Any) -> Any:
        z = wg.einsum("nj,kij->kni", x, w) - m[:, None, :]
        level = wg.logsumexp(-0.5 * (z * z).sum(-1), axis=0)
        return level.sum(), z

    args = normal(130, 4), normal(7, 5, 4), normal(7, 5)
    check(f, *args)
    check(wg.value_and_grad(lambda *a: f(*a)[0], argnums=(0, 1, 2)), *args)


def test_column_sums_beside_reductions_of_rows_side_by_side() -> None:
    # Rows lie across memory, and what is summed over them lies along it.
    def f(x: Any) -> Any:
        p = wg.exp(x - wg.logsumexp(x, axis=0))
        return p.sum(1), p

    for rows, columns in ((25, 1000), (3, 37), (9, 5000)):
        check(f, normal(rows, columns))


def test_columns_that_every_row_reads_are_laid_side_by_side_once() -> None:
    def f(x: Any, w: Any) -> Any:
        first = wg.tanh(x) @ w
        return wg.tanh(first @ w.mT + x) @ w, first

    made = check(f, normal(40, 70), normal(70, 3))
    copies = [label for label in kernels_of(made) if label.startswith("copy")]
    assert 0 < len(copies) <= 6  # three columns of w, three of its transpose


def test_views_of_donated_arrays_are_read_before_these_are_overwritten() -> None:
    def f(x: Any) -> Any:
        parts = wg.split(x, 4, -1)
        return wg.add(x, x), wg.diagonal(x).mean(), wg.einsum("ij->ji", x).sum(0), parts[1].mean(), x.sum(0) - 1

    x = normal(40, 8)
    made = compile_graph(wg.graph(f)(x), donated=[True])
    expected = run(made.graph, [x.copy()])
    for got, want in zip(made.run([x.copy()]), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
