"""Traces of native code: every unit of every step once, by whom, when; and nothing is changed by looking."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg

pytest.importorskip("llvmlite")

from programs import F, all_shared, counting, given, lowering, plus_one, send_for_helpers, with_host_call
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.plan.plan import HostCall, Jump
from wengert.execute.native.run import driver, runtime, threads
from wengert.execute.native.run.runtime import Program
from wengert.execute.native.run.timeline import NativeTrace

with_helpers = pytest.mark.skipif(not driver.has_threads(), reason="helpers need Linux")


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


@pytest.fixture
def _share_all() -> Iterator[None]:
    with all_shared():
        yield


def could_have_happened(trace: NativeTrace) -> None:
    """Times are in order, no worker does two things at once, and no step begins before the one before it is done."""
    assert trace.lost == 0
    assert (trace.start >= 0).all()
    assert (trace.start <= trace.end).all()
    assert (trace.end <= trace.seconds).all()
    assert (np.diff(trace.start) >= 0).all()
    assert (trace.worker >= 0).all()
    assert (trace.worker < trace.workers).all()
    for worker in range(trace.workers):
        own = trace.worker == worker
        assert (trace.start[own][1:] >= trace.end[own][:-1]).all()
    done = 0.0
    for _, run in itertools.groupby(range(len(trace.step)), key=trace.step.tolist().__getitem__):
        rows = list(run)
        assert trace.start[rows].min() >= done
        done = trace.end[rows].max()


def covered(trace: NativeTrace, program: Program) -> dict[int, int]:
    """How often each step was run, every time all of its units, each of them once."""
    times = {}
    for step in np.unique(trace.step).tolist():
        rows = trace.step == step
        assert (trace.lo[rows] < trace.hi[rows]).all()
        counts = np.zeros(program.plan.steps[step].units, np.int64)
        for lo, hi in zip(trace.lo[rows], trace.hi[rows]):
            counts[lo:hi] += 1
        assert counts.min() == counts.max()
        times[step] = int(counts[0])
    return times


# -- what is noted


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.usefixtures("_share_all")
def test_every_unit_of_every_step_is_noted_once(count: int) -> None:
    if driver.has_threads():
        threads.set_num_threads(count)
    program = counting(997, 20)
    x = np.zeros(997, np.int64)
    for _ in range(30):
        if count > 1 and driver.has_threads():
            send_for_helpers()
        trace = program.trace([x])
        could_have_happened(trace)
        assert covered(trace, program) == dict.fromkeys(range(20), 1)
        assert trace.workers == (count if driver.has_threads() else 1)
        assert trace.labels == tuple(s.label for s in program.plan.steps)
    assert not x.any()  # it is donated, and a look all the same


@with_helpers
@pytest.mark.usefixtures("_share_all")
@pytest.mark.parametrize("count", [2, 4])
def test_who_is_noted_is_who_did_it(count: int) -> None:
    """The kernel writes the number of the thread that runs it beside every unit."""
    threads.set_num_threads(count)
    program = counting(997, 1)
    x, found, who = np.zeros(997, np.int64), np.empty(997, np.int64), np.empty(997, np.int64)
    workers = set()
    started = time.monotonic()
    while time.monotonic() < started + 0.3 or (len(workers) == 1 and time.monotonic() < started + 4):
        send_for_helpers()
        trace = program.trace([x], [found, who])
        assert (found == 1).all()
        for worker, lo, hi in zip(trace.worker, trace.lo, trace.hi):
            assert (who[lo:hi] == worker).all()
        workers |= set(trace.worker.tolist())
    if len(workers) == 1:
        pytest.skip("the machine is too busy for helpers to get a processor")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.usefixtures("_share_all")
def test_results_are_those_of_a_run_that_is_not_watched(count: int) -> None:
    threads.set_num_threads(count)
    low = lowering()
    y = given(low, (1237,))
    for _ in range(9):
        y = plus_one(low, y)
    low.plan.outputs.append(y)
    program = Program(low.plan)
    a = np.random.default_rng(0).standard_normal(1237)
    expected = program.run([a])[0]
    for _ in range(20):
        out = np.empty_like(a)
        program.trace([a], [out])
        assert out.tobytes() == expected.tobytes() == program.run([a])[0].tobytes()


def test_a_new_program_is_watched_when_it_is_known_how_it_runs() -> None:
    program = counting(100, 3)
    program.trace([np.zeros(100, np.int64)])
    assert program.is_settled


def test_a_program_without_steps() -> None:
    low = lowering()
    low.plan.outputs.append(given(low, (3,)))
    trace = Program(low.plan).trace([np.ones(3)])
    assert len(trace.step) == 0
    assert trace.lost == 0
    assert trace.gantt().splitlines()[-1].startswith("worker 0: 0% busy")


def test_a_step_without_units() -> None:
    low = lowering()
    low.plan.outputs.append(plus_one(low, given(low, (0,))))
    trace = Program(low.plan).trace([np.empty(0)])
    assert (trace.step.tolist(), trace.lo.tolist(), trace.hi.tolist()) == ([0], [0], [0])


@pytest.mark.usefixtures("_share_all")
def test_the_number_of_threads_changes() -> None:
    program = counting(64, 2)
    for count in (2, 1, 3) if driver.has_threads() else (1,):
        threads.set_num_threads(count)
        trace = program.trace([np.zeros(64, np.int64)])
        assert trace.workers == count
        could_have_happened(trace)
        assert covered(trace, program) == {0: 1, 1: 1}


# -- Python's steps, loops


def test_a_step_of_pythons_is_noted() -> None:
    def slow(x: Any, to: Any) -> None:
        time.sleep(0.01)
        to[:] = x

    program = with_host_call(slow)
    trace = program.trace([np.zeros(4)])
    could_have_happened(trace)
    assert trace.step.tolist() == [0, 1, 2]
    assert trace.worker.tolist() == [0, 0, 0]
    assert (trace.lo[1], trace.hi[1]) == (0, 1)
    assert trace.end[1] - trace.start[1] >= 0.01
    assert trace.labels[1] == "test"


def test_a_step_of_pythons_that_is_not_asked_for_is_not_noted() -> None:
    program = with_host_call(lambda x, to: None, when=True)
    assert program.trace([np.zeros(4), np.zeros(3, np.int64)]).step.tolist() == [0, 2]
    assert program.trace([np.zeros(4), np.eye(3, dtype=np.int64)[1]]).step.tolist() == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.usefixtures("_share_all")
def test_an_error_in_the_middle_ends_the_run_and_nothing_else(count: int) -> None:
    threads.set_num_threads(count)
    halt = True

    def perhaps(x: Any, to: Any) -> None:
        if halt:
            raise LookupError("asked for")
        to[:] = x

    program = with_host_call(perhaps)
    a = np.arange(4.0)
    for halt in (True, False, True, False):
        if halt:
            with pytest.raises(LookupError, match="asked for"):
                program.trace([a])
            continue
        assert program.run([a])[0].tolist() == [2, 3, 4, 5]
        trace = program.trace([a])
        could_have_happened(trace)
        assert covered(trace, program) == {0: 1, 1: 1, 2: 1}
    team = threads.team()
    assert team is None or team._memory.view(np.int64)[0] == 0  # nobody has it


def looping(turns: int) -> Program:
    graph = wg.graph(lambda x: wg.fori_loop(0, turns, lambda i, c: wg.sin(c) + 1, x))(wg.spec((300,)))
    return compile_graph(graph).program


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.usefixtures("_share_all")
def test_steps_of_a_loop_are_noted_in_every_turn(count: int) -> None:
    threads.set_num_threads(count)
    program, x = looping(37), np.ones(300, np.float32)
    (first, last), *_ = program.plan.loops
    trace = program.trace([x])
    could_have_happened(trace)
    times = covered(trace, program)
    jumps = {i for i, s in enumerate(program.plan.steps) if isinstance(s.kernel, Jump)}
    assert jumps
    assert not jumps & times.keys()
    assert {n for step, n in times.items() if first <= step <= last} <= {37, 38}  # the condition once more
    assert 37 in times.values()
    assert all(n == 1 for step, n in times.items() if not first <= step <= last)


def test_a_loop_that_python_looks_into_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "MOST_ITERATIONS", 5)
    program, x = looping(37), np.ones(300, np.float32)
    trace = program.trace([x])
    could_have_happened(trace)
    assert 37 in covered(trace, program).values()


def test_a_scan() -> None:
    def steps(c: Any, x: Any) -> Any:
        c = wg.tanh(c + x)
        return c, c * 2

    compiled = wg.jit(lambda c, xs: wg.scan(steps, c, xs))
    trace = compiled.trace(wg.zeros(3), wg.ones((21, 3)))
    could_have_happened(trace)
    assert 21 in Counter(trace.step.tolist()).values()


# -- more than there is room for


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.usefixtures("_share_all")
def test_what_does_not_fit_is_counted(count: int) -> None:
    threads.set_num_threads(count)
    program, x = counting(997, 20), np.zeros(997, np.int64)
    whole = len(program.trace([x]).step)
    for room in (0, 1, 7):
        trace = program.trace([x], room=room)
        each = Counter(trace.worker.tolist())
        assert all(n <= room for n in each.values())
        assert each[0] == room  # the calling thread has more than that to do
        # A step may be run by one alone, and is then one range.
        assert 20 <= len(trace.step) + trace.lost <= max(whole, 20 * runtime.CHUNKS_EACH * count)
        assert trace.gantt()


def test_what_does_not_fit_of_pythons_is_counted() -> None:
    low = lowering()
    x, y = given(low, (4,)), low.temp((4,), F)
    for _ in range(5):
        low.step(HostCall("copy", lambda a, to: np.copyto(to, a)), (x, y), reads=[x], writes=[y])
    low.plan.outputs.append(y)
    program = Program(low.plan)
    trace = program.trace([np.zeros(4)], room=3)
    assert (trace.step.tolist(), trace.lost) == ([0, 1, 2], 2)


def test_there_is_room_for_every_step_of_a_program_without_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "TRACE_ROOM", 2)
    program = counting(10, 50)
    trace = program.trace([np.zeros(10, np.int64)])
    assert (len(trace.step), trace.lost) == (50, 0)


# -- threads, systems


@with_helpers
@pytest.mark.usefixtures("_share_all")
def test_programs_are_watched_and_run_at_once() -> None:
    threads.set_num_threads(2)
    program = counting(301, 15)
    failures: list[BaseException] = []

    def use(watch: bool) -> None:
        x = np.zeros(301, np.int64)
        try:
            for call in range(150):
                if watch:
                    trace = program.trace([x])
                    could_have_happened(trace)
                    assert covered(trace, program) == dict.fromkeys(range(15), 1)
                else:
                    program.run([x])
                    assert (x == 15 * (call + 1)).all()
        except BaseException as e:
            failures.append(e)

    users = [threading.Thread(target=use, args=(i % 2 == 0,)) for i in range(4)]
    for u in users:
        u.start()
    threads.set_num_threads(3)  # in the midst of it
    for u in users:
        u.join()
    assert failures == []


@pytest.mark.parametrize("helpers", [True, False])
@pytest.mark.parametrize("level", ["avx2", "sse2", "aarch64"])
def test_the_driver_is_well_formed_for_all_processors(level: str, helpers: bool) -> None:
    target = machine.level(level)
    text = driver.ir(target, helpers)
    assert machine.compile_ir(text, target)  # which verifies it
    assert ("clock_gettime" in text) == helpers


def test_without_helpers_one_thread_is_watched() -> None:
    """As on systems that have none: the driver then takes the time from Python's clock."""
    script = """if True:
        import numpy as np, wengert as wg
        from wengert.core import system
        from wengert.execute.native.run import driver
        system.current = system.MacOS()
        assert not driver.has_threads()
        compiled = wg.jit(lambda x: wg.fori_loop(0, 9, lambda i, c: wg.tanh(c @ c), x))
        trace = compiled.trace(wg.ones((40, 40)))
        assert compiled(wg.ones((40, 40))).shape == (40, 40)
        assert trace.workers == 1 and trace.lost == 0
        assert 9 in np.bincount(trace.step)
        assert (trace.start < trace.end).all() and (trace.start[1:] >= trace.end[:-1]).all()
        assert 0 < trace.start[0] and trace.end[-1] < trace.seconds
        print("well")
    """
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout == "well\n", found.stderr


# -- compiled functions


def test_a_look_changes_nothing() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    opt = wg.optim.SGD([w], lr=0.1, momentum=0.9)

    @wg.jit
    def step(x: Any, y: Any) -> Any:
        loss = ((x @ w - y) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x, y = wg.ones((4, 2)), wg.zeros(4)
    expected = [float(step(x, y)) for _ in range(3)]
    with wg.no_grad():
        w.copy_(wg.tensor([1.0, 2.0]))
    opt = wg.optim.SGD([w], lr=0.1, momentum=0.9)
    found = []
    for _ in range(3):
        before = w.tolist()
        trace = step.trace(x, y)
        assert w.tolist() == before
        could_have_happened(trace)
        assert trace.step.tolist() == list(range(len(step.plan.steps)))
        found.append(float(step(x, y)))
        assert w.tolist() != before
    assert found == expected


def test_a_look_at_state_before_the_first_call() -> None:
    wg.manual_seed(3)
    draw = wg.jit(lambda: wg.randn((5,)))
    draw.trace()
    first = draw().tolist()
    draw.trace()
    wg.manual_seed(3)
    assert draw().tolist() == first


def test_donated_arguments_live_on() -> None:
    double = wg.jit(lambda x: x * 2, donate_argnums=0)
    x = wg.ones(1000)
    for _ in range(2):
        double.trace(x)
        assert x.sum().item() == 1000
    assert double(x).sum().item() == 2000


def test_the_path_that_the_arguments_take_is_watched() -> None:
    @wg.jit
    def f(x: Any) -> Any:
        return wg.exp(x) if x.sum() > 0 else wg.sin(wg.cumulative_sum(x, 0))

    def labels(x: Any) -> str:
        return " ".join(f.trace(x).labels)

    x = wg.ones(3)
    assert "exp" in labels(x)
    assert "sin" in labels(-x)
    assert "exp" in labels(x)
    assert f.cache_info().paths == 2


def test_a_look_makes_no_trace_where_the_program_is_known() -> None:
    f = wg.jit(lambda x: wg.exp(x))
    f.trace(wg.ones(3))
    f(wg.ones(3))
    f.trace(wg.ones(3))
    assert f.cache_info().traces == 1


def test_a_program_made_ahead_of_time() -> None:
    compiled = wg.jit(lambda x: wg.exp(x) + 1).lower(wg.spec((3,))).compile()
    assert compiled.trace(wg.ones(3)).labels == tuple(s.label for s in compiled.plan.steps)


def test_where_there_is_nothing_to_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    f = wg.jit(lambda x: wg.exp(x))
    with pytest.raises(wg.GraphError, match="without values"):
        f.trace(wg.spec((3,)))
    with pytest.raises(wg.GraphError, match="without values"):
        wg.graph(lambda x: f.trace(x))(wg.spec((3,)))
    monkeypatch.setattr("wengert.execute.jit.executor.has_native", lambda: False)
    with pytest.raises(wg.GraphError, match=r"no \.trace"):
        wg.jit(lambda x: wg.sin(x)).trace(wg.ones(3))


def test_an_error_of_the_function_is_its_own() -> None:
    f = wg.jit(lambda x, i: x[i])
    with pytest.raises(IndexError):
        f.trace(wg.ones(3), wg.tensor([7]))
    trace = f.trace(wg.ones(3), wg.tensor([1]))
    could_have_happened(trace)


# -- the chart


def test_the_chart() -> None:
    made = NativeTrace(
        step=np.array([0, 1, 1, 0, 2, 2]),
        worker=np.array([0, 0, 1, 0, 0, 1]),
        lo=np.array([0, 0, 4, 0, 0, 3]),
        hi=np.array([1, 4, 8, 1, 3, 6]),
        start=np.array([0.0, 0.1, 0.2, 0.4, 0.5, 0.65]),
        end=np.array([0.1, 0.4, 0.4, 0.5, 0.95, 1.0]),
        workers=2,
        seconds=1.0,
        lost=0,
        labels=("exp", "gemm", "sum", "never"),
    )
    assert str(made) == made.gantt()
    assert made.gantt(20).splitlines() == [
        "step   worker |0             1.00 s|",
        "0 exp       1 |11      11          |",
        "1 gemm      2 |  112222            |",
        "2 sum       2 |          1112222221|",
        "worker 0: 95% busy, 950.00 ms",
        "worker 1: 55% busy, 550.00 ms",
    ]


def test_a_chart_of_many_workers() -> None:
    n = 12
    zeros, ones = np.zeros(n), np.ones(n)
    whole = zeros.astype(np.int64)
    made = NativeTrace(whole, np.arange(n), whole, whole + 1, zeros, ones, n, 1.0, 0, ("sum",))
    assert made.gantt(10).splitlines()[1] == "0 sum     12 |++++++++++|"
