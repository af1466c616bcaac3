"""Loops and branches inside plans: the interpreter's values, no Python in the loop, memory used again in every turn."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph.evaluate import run
from wengert.core.ops.op import TABLE
from wengert.core.ops.record import bind

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan.plan import HostCall
from wengert.transforms.control.functions import partial_scan, while_rows

_ = wg.scan  # control flow is declared where it is first asked for
RNG = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def check(f: Callable[..., Any], *args: Any, rtol: float = 1e-12, host_calls: int = 0) -> Compiled:
    made = compile_graph(wg.graph(f)(*args))
    arrays = [np.asarray(a, order="C") for a in wg.tree.leaves(args)]
    expected = run(made.graph, [a.copy() for a in arrays])
    for _ in range(2):  # what one call leaves behind must not show in the next
        for got, want in zip(made.run(arrays), expected, strict=True):
            want = np.asarray(want)
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
    assert sum(isinstance(s.kernel, HostCall) for s in made.plan.steps) == host_calls
    return made


@pytest.mark.parametrize("name", ["scan", "partial_scan", "while_loop", "switch"])
def test_the_samples_of_the_ops(name: str) -> None:
    op = TABLE[name]
    assert op.samples is not None
    for call in op.samples(np.random.default_rng(3)):
        check(lambda *a, call=call: tuple(bind(op, list(a), dict(call.attrs))), *call.args)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_are_taken_from_arrays_of_any_strides(reverse: bool) -> None:
    def f(h: Any, xs: Any) -> Any:
        return wg.scan(lambda c, x: (0.5 * c + x, c * x), h, xs.T, reverse=reverse)

    check(f, normal(5), normal(5, 9))


def test_states_that_change_places() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return wg.fori_loop(0, 7, lambda i, s: (s[1], s[2], s[0] + s[1] * 0.5), (a, b, c))

    check(f, normal(3), normal(3), normal(3))


def test_a_state_that_is_an_input_elsewhere_and_one_that_is_not_changed() -> None:
    def f(x: Any) -> Any:
        (kept, turned), _ = wg.scan(lambda s, _: ((s[0], wg.flip(s[1], axis=0)), None), (x, x), length=3)
        return kept, turned, x + 1

    check(f, normal(4))


@pytest.mark.parametrize("length", [0, 1])
def test_loops_of_no_turn_and_of_one(length: int) -> None:
    check(lambda h, xs: wg.scan(lambda c, x: (c + x, c), h, xs), normal(3), normal(length, 3))
    check(lambda x: wg.while_loop(lambda s: wg.sum(s) > 1e9, lambda s: s * 2, x), normal(3))


def test_the_number_of_turns_is_known_at_run_time_only() -> None:
    made = check(
        lambda x: wg.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 2.0, s[1] + 1), (x, 0)), np.array(1.0)
    )
    for start, turns in ((1.0, 7), (3.0, 6), (1e3, 0), (np.nan, 0)):
        assert made.run([np.array(start)])[1] == turns


def test_newtons_iteration_ends_at_the_most_turns() -> None:
    def f(a: Any, x: Any) -> Any:
        return wg.while_loop(lambda s: wg.abs(s * s - a) > 0.0, lambda s: 0.5 * (s + a / s), x, max_steps=5)

    check(f, np.array(2.0), np.array(1.0))


# -- loops that stop early, and their derivatives


def newton(a: Any, w: Any) -> Any:
    (x, _) = wg.while_loop(
        lambda s: wg.abs(s[0] * s[0] - a) > 1e-9, lambda s: ((s[0] + a / s[0]) * w[0], s[1] + 1), (a, 0), max_steps=400
    )
    return x * w[1]


def growing(x: Any, w: Any) -> Any:
    v = wg.while_loop(lambda v: wg.sum(v * v) < 9.0, lambda v: wg.sin(w * v) + 1.2 * v, x + w * 0.1, max_steps=300)
    return wg.sum(v * w)


def rows_of_growing(xs: Any, w: Any) -> Any:
    """Loops that stop early in each turn of a scan."""
    return wg.sum(wg.scan(lambda c, x: (c * 0.5, growing(x * c, w)), wg.ones_like(w), xs)[1])


@pytest.mark.parametrize("program", [newton, growing, rows_of_growing])
def test_derivatives_of_loops_that_stop_early(program: Any) -> None:
    w = np.array([0.5, 0.8])
    x = {newton: np.array(2.3), growing: np.array([0.3, 0.1]), rows_of_growing: normal(3, 2)}[program]
    gradient = wg.value_and_grad(program, argnums=(0, 1))
    check(gradient, x, w)
    second = lambda x, w: wg.grad(lambda w: wg.sum(wg.grad(program, argnums=1)(x, w) ** 2))(w)
    check(second, x, w, rtol=1e-9)
    check(lambda x, w: wg.jvp(lambda w: wg.grad(program, argnums=1)(x, w), (w,), (w,)), x, w, rtol=1e-9)
    check(lambda x, w: wg.grad(lambda w: wg.jvp(lambda x: program(x, w), (x,), (x,))[1])(w), x, w, rtol=1e-9)
    mapped = wg.vmap(gradient, in_axes=(0, None))
    check(mapped, np.stack([x, 0.1 * x, 30.0 * x, 0.7 * x]), w, rtol=1e-9)
    check(wg.grad(lambda xs, w: wg.sum(wg.vmap(program, in_axes=(0, None))(xs, w))), np.stack([x, 2 * x]), w)


@pytest.mark.parametrize("most", [60, 4000])
def test_a_derivative_takes_the_turns_that_the_loop_took(most: int) -> None:
    turns = [0]

    @wg.custom_vjp
    def seen(x: Any) -> Any:
        return x * 1.0

    def count(x: Any) -> Any:
        turns[0] += 1
        return x

    def back(saved: Any, ct: Any) -> Any:
        return (wg.callback(count, wg.spec((), np.float64), ct),)

    seen.defvjp(lambda x: (x * 1.0, None), back)
    f = lambda x: wg.while_loop(lambda s: s < 100.0, lambda s: seen(s) * 2.0, x, max_steps=most)
    made = compile_graph(wg.graph(wg.grad(f))(np.array(1.0)))
    assert not made.optimized.find("scan")  # which would go over all rows
    for start, expected in ((1.0, 7), (60.0, 1), (200.0, 0)):
        turns[0] = 0
        assert made.run([np.array(start)])[0] == 2.0**expected
        assert turns[0] == expected


def test_a_loop_that_is_differentiated_runs_forward_once() -> None:
    args = np.array([0.3, 0.1]), np.array([0.5, 0.8])
    made = check(wg.value_and_grad(growing), *args)
    assert len(made.optimized.find("while_loop")) == 1
    # The rows of turns that there were not are not even cleared.
    assert not any(step.label == "rows of no iteration" for step in made.plan.steps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_through_adaptive_steps(dtype: Any) -> None:
    def loss(w: Any, y: Any) -> Any:
        path = wg.solve.odeint(lambda t, y: wg.tanh(y @ w) * wg.cos(t), y, [0.0, 1.0, 3.0], rtol=1e-5)
        return wg.sum(path * path)

    # Rounding decides now and then whether a step is taken: results agree to the tolerance of the steps.
    args = normal(3, 3, dtype=dtype), normal(5, 3, dtype=dtype)
    made = check(wg.value_and_grad(loss, argnums=(0, 1)), *args, rtol=1e-9 if dtype == np.float64 else 1e-4)
    assert not made.optimized.find("switch")


def test_room_for_turns_that_are_not_taken_costs_nothing() -> None:
    args = normal(3, 2), np.array([0.5, 0.8])
    second = lambda x, w: wg.grad(lambda w: wg.sum(wg.grad(rows_of_growing, argnums=1)(x, w) ** 2))(w)
    along = lambda x, w: wg.jvp(lambda w: wg.grad(rows_of_growing, argnums=1)(x, w), (w,), (w,))
    mapped = wg.vmap(wg.grad(growing), in_axes=(0, None))
    for f in (second, along, mapped, lambda x, w: wg.vmap(lambda w: along(x, w))(wg.stack([w, -w]))):
        made = compile_graph(wg.graph(f)(*args))
        # Nothing is kept for every turn that there may be, nor cleared.
        assert not any(
            300 in n.spec.shape for n in made.optimized.nodes if not isinstance(n.spec, tuple) and f is second
        )
        assert not any(step.label == "rows of no iteration" for step in made.plan.steps)
    assert len(compile_graph(wg.graph(mapped)(*args)).optimized.find("while_loop")) == 1


def test_rows_of_turns_that_there_were_not_are_zeros() -> None:
    def f(x: Any, more: Any) -> Any:
        _, rows, turns = while_rows(lambda s: s < 100.0, lambda s: (s * 2.0, (s, s + 1.0)), x, 20)
        # More rows than the loop gave, and all rows.
        total, ys = partial_scan(lambda c, r: (c + r[0], r[0] - 1.0), wg.zeros_like(x), rows, turns + more, 20, True)
        return total, ys, rows[1], turns

    made = compile_graph(wg.graph(f)(np.array(1.0), np.array(0)))
    for start, more in ((1.0, 0), (30.0, 3), (1e3, 5), (1.5, 100), (60.0, -5)):  # what one run leaves shows in no other
        arrays = [np.array(start), np.array(more)]
        for got, want in zip(made.run(arrays), run(made.graph, arrays), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("reverse", [False, True])
def test_first_rows_of_arrays_of_any_strides(reverse: bool) -> None:
    def f(n: Any, h: Any, xs: Any) -> Any:
        xs = wg.flip(xs, axis=1).T[1:]
        return partial_scan(lambda c, x: (0.5 * c + x, c * x), h, xs, n, xs.shape[0], reverse)

    made = compile_graph(wg.graph(f)(np.array(3), normal(5), normal(5, 9)))
    for n in (-1, 0, 1, 3, 7, 8, 9, np.iinfo(np.int64).max):
        arrays = [np.array(n), normal(5), normal(5, 9)]
        for got, want in zip(made.run(arrays), run(made.graph, arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14)


def test_what_a_loop_does_not_need_is_left_out() -> None:
    def f(x: Any, y: Any) -> Any:
        step = lambda s: (s[0] * 2.0, wg.sin(s[1]) + y, s[2] + 1)
        a, _, n = wg.while_loop(lambda s: s[0] < 9.0, step, (x, y, 0), max_steps=50)
        return a, n

    made = check(f, np.array(0.3), normal(4))
    (loop,) = made.optimized.find("while_loop")
    assert loop.attrs["carries"] == 2
    assert len(loop.inputs) == 2


def test_branches() -> None:
    def f(i: Any, x: Any) -> Any:
        return wg.switch(i, [lambda x: (x, wg.sum(x)), lambda x: (wg.sin(x), x[0]), lambda x: (x @ x * x, x[1])], x)

    made = compile_graph(wg.graph(f)(np.array(0), normal(4)))
    for i in (0, 1, 2, -5, 9, np.iinfo(np.int64).min, np.iinfo(np.int64).max):
        arrays = [np.array(i), normal(4)]
        for got, want in zip(made.run(arrays), run(made.graph, arrays), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_loops_within_loops_and_branches_within_them() -> None:
    def inner(s: Any, x: Any) -> Any:
        s = wg.cond(wg.sum(s) > 0, lambda s: s - x, lambda s: s + x * x, s)
        return s, wg.while_loop(lambda t: wg.max(t) < 50.0, lambda t: t * 2.0 + 1.0, wg.abs(s))

    def outer(s: Any, xs: Any) -> Any:
        s, ys = wg.scan(inner, s, xs)
        return wg.tanh(s), (ys, s)

    check(lambda s, xs: wg.scan(outer, s, xs), normal(3), normal(4, 5, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_recurrent_layers_and_their_gradients(dtype: Any) -> None:
    w, u, h, xs = normal(24, 24, dtype=dtype) / 5, normal(16, 24, dtype=dtype), normal(8, 24), normal(6, 8, 16)

    def loss(w: Any, u: Any, h: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = wg.tanh(x @ u + h @ w)
            return h, wg.sum(h * h, axis=-1)

        h, ys = wg.scan(cell, h, xs)
        return wg.sum(ys) + wg.sum(h)

    args = w, u, h.astype(dtype), xs.astype(dtype)
    check(wg.value_and_grad(loss, argnums=(0, 1, 2, 3)), *args, rtol=1e-4 if dtype == np.float32 else 1e-11)


def test_steps_in_loops_that_python_does() -> None:
    def f(a: Any, x: Any) -> Any:
        return wg.scan(lambda s, x: (wg.linalg.eigvalsh(s + x).sum() * s, s[0, 0]), a, x)

    check(f, normal(3, 3), normal(4, 3, 3), host_calls=1, rtol=1e-8)


def test_errors_out_of_loops_leave_the_program_fit_for_use() -> None:
    def f(x: Any, at: Any) -> Any:
        return wg.scan(lambda s, i: (s + x[i], s), x[0], at)

    made = compile_graph(wg.graph(f)(normal(3), np.array([0, 1])))
    with pytest.raises(IndexError):
        made.run([np.ones(3), np.array([0, 7])])
    np.testing.assert_array_equal(made.run([np.ones(3), np.array([0, 2])])[0], 3.0)


def test_the_memory_of_a_body_does_not_grow_with_its_turns() -> None:
    def f(x: Any, length: int) -> Any:
        return wg.fori_loop(0, length, lambda i, x: wg.softmax(x @ x) + wg.cumulative_sum(x, axis=0), x)

    few, many = (check(lambda x, n=n: f(x, n), normal(20, 20)) for n in (2, 200))
    assert (few.memory.arena, few.memory.outputs) == (many.memory.arena, many.memory.outputs)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_write_after_a_branch_leaves_the_branches_as_they_are(index: int) -> None:
    """What writes to the state ends a program, and runs apart from what comes before: also from the first call on."""
    state = wg.zeros(2, dtype="float64")
    branches = [lambda v: v * 10.0, lambda v: v * 100.0, lambda v: v * 1000.0]

    def step(i: Any, x: Any) -> Any:
        y = wg.switch(i, branches, x)
        state.add_(y)
        return y

    compiled = wg.jit(step)
    x = wg.tensor(normal(2))
    expected = x.numpy() * 10.0 ** (index + 1)
    for turn in range(1, 8):
        np.testing.assert_allclose(compiled(wg.tensor(index), x).numpy(), expected)
        np.testing.assert_allclose(state.numpy(), turn * expected)


def test_long_steps_of_a_loop_are_shared_out_and_give_the_same() -> None:
    def f(x: Any, y: Any) -> Any:
        return wg.fori_loop(0, 12, lambda i, s: (wg.sin(s[0]) + s[1], wg.cos(s[1] - s[0])), (x, y))

    made = compile_graph(wg.graph(f)(normal(300_000), normal(300_000)))
    arrays = [normal(300_000), normal(300_000)]
    before = wg.get_num_threads()
    try:
        wg.set_num_threads(1)
        alone = made.run(arrays)
        wg.set_num_threads(2)
        for _ in range(6):
            for a, b in zip(alone, made.run(arrays), strict=True):
                np.testing.assert_array_equal(a, b)
    finally:
        wg.set_num_threads(before)


def test_a_loop_without_end_can_be_interrupted() -> None:
    made = compile_graph(wg.graph(lambda x: wg.while_loop(lambda s: s < 2.0, lambda s: s * 0.5, x))(np.array(1.0)))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            made.run([np.array(1.0)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert made.run([np.array(4.0)])[0] == 4.0


def test_other_threads_go_on_while_a_loop_runs() -> None:
    made = compile_graph(wg.graph(lambda x: wg.fori_loop(0, 3_000_000, lambda i, s: s * 0.5 + 1.0, x))(np.array(1.0)))
    counted = [0]
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    made.run([np.array(1.0)])
    other = threading.Thread(target=count)
    other.start()
    made.run([np.array(1.0)])
    done.set()
    other.join()
    assert counted[0] > 3


@pytest.mark.parametrize("level", ["avx2", "sse2", "aarch64"])
def test_other_processors(level: str) -> None:
    target = machine.level(level)
    f = wg.graph(lambda x, xs: wg.scan(lambda s, x: (wg.cond(s > x, wg.sin, wg.cos, s), s), x, xs))
    made = compile_graph(f(np.array(1.0), normal(5)), target=target)
    if level == "aarch64":
        assert "ret" in made.asm
        return
    arrays = [np.array(0.3), normal(5)]
    for got, want in zip(made.run(arrays), run(made.graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    arrays = [np.array([0.3, 0.1]), np.array([0.5, 0.8])]
    made = compile_graph(wg.graph(wg.value_and_grad(growing))(*arrays), target=target)
    for got, want in zip(made.run(arrays), run(made.graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
