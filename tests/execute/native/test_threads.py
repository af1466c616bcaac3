"""One state, many threads: no number is drawn twice, no update is lost, and nobody waits for ever."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from ways import WAYS
from wengert import nn, optim

THREADS = 4


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*runs: Callable[[], Any]) -> list[Any]:
    """What each returned, called in threads that begin at once; what one raised is raised."""
    barrier, found, errors = threading.Barrier(len(runs)), [None] * len(runs), []

    def work(i: int, run: Callable[[], Any]) -> None:
        barrier.wait()
        try:
            found[i] = run()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i, run), daemon=True) for i, run in enumerate(runs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads), "threads wait for each other"
    if errors:
        raise errors[0]
    return found


def repeated(run: Callable[[], Any], count: int) -> Callable[[], list[Any]]:
    return lambda: [run() for _ in range(count)]


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("way", WAYS)
def test_compiled_draws_do_not_repeat(way: str, size: int) -> None:
    wg.manual_seed(0)
    draw = wg.jit(lambda: wg.rand(size))
    for _ in range(3):
        draw()
    WAYS[way](draw)
    count = 100
    first = lambda: tuple(draw().numpy()[:3].tolist())
    found = [x for part in together(*[repeated(first, count)] * THREADS) for x in part]

    wg.manual_seed(0)
    expected = {tuple(wg.rand(size).numpy()[:3].tolist()) for _ in range(THREADS * count + 3)}
    assert len(set(found)) == len(found)
    assert set(found) < expected


def test_two_programs_and_eager_code_draw_from_one_generator() -> None:
    g = wg.random.Generator(3)
    small = wg.jit(lambda: wg.rand(4, generator=g))
    large = wg.jit(lambda: wg.rand((500, 4), generator=g)[0])
    eager = lambda: wg.rand(4, generator=g)
    draws = [lambda f=f: tuple(f().tolist()) for f in (small, large, eager, eager)]
    for draw in draws:
        draw()
    start = int(np.asarray(g.get_state())[2])
    count = 200
    found = [x for part in together(*[repeated(draw, count) for draw in draws]) for x in part]
    assert len(set(found)) == len(found)
    # Blocks of four words of 64 bits, that is eight numbers of 32.
    blocks = lambda n: -(-n // 8)
    assert int(np.asarray(g.get_state())[2]) - start == count * (3 * blocks(4) + blocks(2000))


@pytest.mark.parametrize("size", [2, 50_000])
@pytest.mark.parametrize("way", WAYS)
def test_no_update_is_lost(way: str, size: int) -> None:
    c = wg.zeros(size, dtype=wg.float64)

    @wg.jit
    def add(x: Any) -> None:
        c[...] = c + x

    one = wg.tensor(1.0, dtype=wg.float64)
    for _ in range(3):
        add(one)
    WAYS[way](add)
    together(*[repeated(lambda: add(one), 200)] * THREADS)
    assert set(c.tolist()) == {3.0 + 200 * THREADS}


def test_two_programs_write_to_one_place() -> None:
    c, d = wg.zeros(2, dtype=wg.float64), wg.zeros(2, dtype=wg.float64)

    def both(x: Any) -> None:
        c[...] = c + x
        d[...] = d + c

    def other(x: Any) -> None:
        d[...] = d + c - x + 1
        c[...] = c + x

    runs = [wg.jit(lambda x: c.add_(x)), wg.jit(both), wg.jit(other), wg.jit(lambda x: d.add_(0 * x))]
    one = wg.tensor(1.0, dtype=wg.float64)
    together(*[repeated(lambda f=f: f(one), 150) for f in runs])
    assert c.tolist() == [450.0, 450.0]


def test_an_argument_that_is_written_to() -> None:
    c = wg.zeros(3, dtype=wg.float64)
    runs = [wg.jit(lambda a: a.add_(1.0)), wg.jit(lambda b: b.mul_(1.0).add_(1.0))]
    together(*[repeated(lambda f=f: f(c), 150) for f in runs * 2])
    assert c.tolist() == [600.0] * 3


def test_training_steps_of_one_model() -> None:
    model = nn.Linear(3, 2)
    opt = optim.Adam(model.parameters(), lr=1e-3)

    @wg.jit
    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    x = wg.ones((4, 3))
    losses = [y for part in together(*[repeated(lambda: step(x).item(), 100)] * THREADS) for y in part]
    assert {s["step"] for s in opt.state.values()} == {400}
    assert len(set(losses)) > 390  # each one from where the last one had come to, as far as float32 tells


def test_programs_without_state_hold_no_turn() -> None:
    f = wg.jit(lambda x: wg.tanh(x) * 2)
    for _ in range(3):
        f(wg.ones(3))
    # One that waits inside of a program without state keeps nobody from running another, or the same.
    inside, go_on = threading.Event(), threading.Event()

    def wait(a: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return a

    waiting = wg.jit(lambda x: wg.callback(wait, wg.spec((3,)), x) + 1)
    go_on.set()
    waiting(wg.ones(3))
    inside.clear(), go_on.clear()
    thread = threading.Thread(target=lambda: waiting(wg.ones(3)), daemon=True)
    thread.start()
    assert inside.wait(60)
    assert f(wg.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()


def test_programs_with_different_state_do_not_wait_for_each_other() -> None:
    c, d = wg.zeros(3), wg.zeros(3)
    inside, go_on = threading.Event(), threading.Event()

    def wait(a: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return a

    slow = wg.jit(lambda x: c.add_(wg.callback(wait, wg.spec((3,)), x)))
    quick = wg.jit(lambda x: d.add_(x))
    same = wg.jit(lambda x: c.add_(x))
    go_on.set()
    for f in (slow, quick, same):
        f(wg.ones(3))
    inside.clear(), go_on.clear()
    first = threading.Thread(target=lambda: slow(wg.ones(3)), daemon=True)
    first.start()
    assert inside.wait(60)
    quick(wg.ones(3))
    assert d.tolist() == [2.0] * 3
    second = threading.Thread(target=lambda: same(wg.ones(3)), daemon=True)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join(60), second.join(60)
    assert c.tolist() == [4.0] * 3


def test_a_callback_may_call_a_program_that_writes_to_other_state() -> None:
    c, d = wg.zeros(3), wg.zeros(3)
    inner = wg.jit(lambda x: d.add_(x).clone())
    outer = wg.jit(lambda x: c.add_(wg.callback(lambda a: inner(wg.tensor(a)).numpy(), wg.spec((3,)), x)))
    for _ in range(5):
        outer(wg.ones(3))
    assert (c.tolist(), d.tolist()) == ([15.0] * 3, [5.0] * 3)


def test_a_callback_that_writes_to_the_same_state_is_refused() -> None:
    c = wg.zeros(3)
    inner = wg.jit(lambda x: c.add_(x).clone())
    outer = wg.jit(lambda x: c.add_(wg.callback(lambda a: inner(wg.tensor(a)).numpy(), wg.spec((3,)), x)))
    inner(wg.ones(3))
    for _ in range(3):
        with pytest.raises(wg.GraphError, match=r"(?s)in the midst of another one.*callback"):
            outer(wg.ones(3))
        inner(wg.ones(3))
    assert c.tolist() == [4.0] * 3


def test_two_threads_that_would_wait_for_each_other_are_told() -> None:
    c, d = wg.zeros(3), wg.zeros(3)
    barrier = threading.Barrier(2)
    add_c, add_d = wg.jit(lambda x: c.add_(x).clone()), wg.jit(lambda x: d.add_(x).clone())

    def crossing(mine: Any, theirs: Any) -> Any:
        def call(a: Any) -> Any:
            if crossed:
                barrier.wait(60)
                theirs(wg.tensor(a))
            return a

        return wg.jit(lambda x: mine.add_(wg.callback(call, wg.spec((3,)), x)))

    crossed: list[bool] = []
    runs = [crossing(c, add_d), crossing(d, add_c)]
    for f in (*runs, add_c, add_d):
        f(wg.ones(3))
    crossed.append(True)
    told = []

    def run(f: Any) -> None:
        try:
            f(wg.ones(3))
        except wg.GraphError as e:
            told.append(str(e))

    together(*[lambda f=f: run(f) for f in runs])
    assert len(told) == 1
    assert "each waits for the other" in told[0]
    crossed.clear()
    for f in (*runs, add_c, add_d):
        f(wg.ones(3))


def test_a_trace_does_not_wait_for_who_waits_for_it() -> None:
    hidden = wg.random.Generator(1)
    inside, go_on = threading.Event(), threading.Event()

    def wait(a: Any) -> Any:
        inside.set()
        assert go_on.wait(60)
        return a

    draw = wg.jit(lambda x: wg.rand(3, generator=hidden) + wg.callback(wait, wg.spec((3,)), x))
    go_on.set()
    for _ in range(3):
        draw(wg.ones(3))
    inside.clear(), go_on.clear()
    thread = threading.Thread(target=lambda: draw(wg.ones(3)), daemon=True)
    thread.start()
    assert inside.wait(60)

    def trace() -> None:
        with pytest.raises(wg.GraphError, match="another thread's compiled function is at work with"):
            wg.jit(lambda x: x + wg.rand(3, generator=found()))(wg.ones(3))

    def found() -> Any:  # where no search looks
        return next(g for g in gc.get_objects() if type(g) is wg.random.Generator and id(g) == number)

    number = id(hidden)
    try:
        together(trace)
    finally:
        go_on.set()
        thread.join(60)
    assert not thread.is_alive()
