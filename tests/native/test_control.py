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
from wengert.core.evaluate import run
from wengert.core.op import TABLE
from wengert.core.record import bind

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native import machine
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan import HostCall

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


@pytest.mark.parametrize("name", ["scan", "while_loop", "switch"])
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
        return wg.fori_loop(0, length, lambda i, x: wg.softmax(x @ x) + wg.cumsum(x, axis=0), x)

    few, many = (check(lambda x, n=n: f(x, n), normal(20, 20)) for n in (2, 200))
    assert (few.memory.arena, few.memory.outputs) == (many.memory.arena, many.memory.outputs)


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
        start = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            made.run([np.array(1.0)])
        assert time.perf_counter() - start < 5
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
