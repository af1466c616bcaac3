"""Programs: what they give back, threads, host calls, and what may go wrong in the midst of them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core import system

pytest.importorskip("llvmlite")

from programs import F, I, all_shared, counting, given, lowering, plus_one, send_for_helpers, with_host_call
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.builder import Builder
from wengert.execute.native.codegen.types import F64, I64
from wengert.execute.native.plan.plan import HostCall
from wengert.execute.native.run import driver, runtime, scheduler, threads
from wengert.execute.native.run.runtime import Program, chunk_of

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


# -- results


def test_steps_in_order() -> None:
    low = lowering()
    x = given(low, (5,))
    y = x
    for _ in range(4):
        y = plus_one(low, y)
    low.plan.outputs.append(y)
    program = Program(low.plan)
    a = np.arange(5.0)
    for _ in range(6):  # timed calls, then others
        (found,) = program.run([a])
        assert found.tolist() == [4, 5, 6, 7, 8]
    assert a.tolist() == [0, 1, 2, 3, 4]


def test_a_program_without_steps() -> None:
    low = lowering()
    x = given(low, (2, 3))
    constant = low.constant(np.arange(3))
    low.plan.outputs += [x, constant, x.permute((1, 0)), x.broadcast((4, 2, 3))]
    a = np.arange(6.0).reshape(2, 3)
    results = Program(low.plan).run([a])
    for found, expected in zip(results, [a, np.arange(3), a.T, np.broadcast_to(a, (4, 2, 3))]):
        np.testing.assert_array_equal(found, expected)
        assert not np.shares_memory(found, a)
        assert found.flags.writeable
    results[1][:] = 9
    assert Program(low.plan).run([a])[1].tolist() == [0, 1, 2]


def test_no_result_shares_memory_with_another() -> None:
    low = lowering()
    y = plus_one(low, given(low, (6,)))
    matrix = y.reshape((2, 3))
    assert matrix is not None
    part = y._replace(shape=(2,), offset=3)
    low.plan.outputs += [y, matrix, part, y]
    results = Program(low.plan).run([np.zeros(6)])
    assert [r.shape for r in results] == [(6,), (2, 3), (2,), (6,)]
    for i, r in enumerate(results):
        assert (r == 1).all()
        assert not any(np.shares_memory(r, other) for other in results[i + 1 :])


def test_a_donated_input_is_handed_back_and_only_then() -> None:
    for donated in (True, False):
        low = lowering()
        x = given(low, (3,), donated=donated)
        low.plan.outputs.append(x)
        a = np.arange(3.0)
        (found,) = Program(low.plan).run([a])
        assert (found is a) == donated


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1), (2, 0, 4), (1, 1, 1)])
def test_results_lie_in_memory_as_the_view_says(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    low = lowering()
    y = plus_one(low, given(low, shape)).permute(order)
    low.plan.outputs.append(y)
    a = np.arange(np.prod(shape), dtype=float).reshape(shape)
    program = Program(low.plan)
    (found,) = program.run([a])
    np.testing.assert_array_equal(found, (a + 1).transpose(order))
    assert low.plan.outputs[0].buffer.kind == "output"  # written where it is handed out, not copied
    if a.size > 0 and 1 not in shape:
        assert found.strides == a.transpose(order).strides


def test_results_in_arrays_of_the_caller() -> None:
    low = lowering()
    x = given(low, (2, 3))
    y = plus_one(low, x)
    low.plan.outputs += [y, y.permute((1, 0)), x]
    program = Program(low.plan)
    a = np.arange(6.0).reshape(2, 3)
    into = [np.zeros((2, 3)), np.zeros((3, 2)), None]
    results = program.run([a], into)
    assert results[0] is into[0]
    assert results[1] is into[1]
    np.testing.assert_array_equal(results[0], a + 1)
    np.testing.assert_array_equal(results[1], (a + 1).T)
    fortran, column = np.zeros((2, 3), order="F"), np.zeros((3, 4))[:, ::2]
    results = program.run([a], [fortran, column, None])
    assert results[0] is fortran
    np.testing.assert_array_equal(fortran, a + 1)
    np.testing.assert_array_equal(column, (a + 1).T)


def test_inputs_that_lie_backwards_and_empty_ones() -> None:
    low = lowering()
    x = given(low, (4,))._replace(strides=(-1,))
    low.plan.inputs[0] = x
    low.plan.outputs.append(x)
    a = np.arange(4.0)[::-1]
    assert Program(low.plan).run([a])[0].tolist() == [3, 2, 1, 0]
    low = lowering()
    low.plan.outputs.append(plus_one(low, given(low, (0,))))
    assert Program(low.plan).run([np.empty(0)])[0].shape == (0,)


# -- host calls


def test_host_call() -> None:
    def square(x: Any, to: Any) -> None:
        assert not x.flags.writeable
        to[:] = x**2

    program = with_host_call(square)
    for _ in range(5):
        assert program.run([np.arange(4.0)])[0].tolist() == [2, 5, 10, 17]


def test_host_call_sees_strided_memory() -> None:
    seen: list[Any] = []
    low = lowering()
    x = given(low, (2, 3))
    constant = low.constant(np.arange(5))
    backwards = constant._replace(shape=(3,), strides=(-2,), offset=4)
    run = lambda *arrays: seen.extend(a.copy() for a in arrays)
    low.step(HostCall("look", run), (x.permute((1, 0)), backwards), reads=[x, constant], writes=[])
    a = np.arange(6.0).reshape(2, 3)
    Program(low.plan).run([a])
    np.testing.assert_array_equal(seen[0], a.T)
    assert seen[1].tolist() == [4, 2, 0]


def test_a_conditional_host_call() -> None:
    def halt(x: Any, to: Any) -> None:
        raise RuntimeError("asked for")

    program = with_host_call(halt, when=True)
    program.run([np.zeros(4), np.zeros(3, np.int64)])
    for i in range(3):
        with pytest.raises(RuntimeError, match="asked for"):
            program.run([np.zeros(4), np.eye(3, dtype=np.int64)[i]])
    program.run([np.zeros(4), np.zeros(3, np.int64)])


def test_an_exception_in_a_host_call_ends_the_run_and_nothing_else() -> None:
    calls = 0

    def third_time_wrong(x: Any, to: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise LookupError("the third")
        to[:] = x

    program = with_host_call(third_time_wrong)
    for i in range(6):
        if i == 2:
            with pytest.raises(LookupError, match="the third"):
                program.run([np.arange(4.0)])
        else:
            assert program.run([np.arange(4.0)])[0].tolist() == [2, 3, 4, 5]
    assert len(program._idle) == 1


def test_a_program_called_in_the_midst_of_itself() -> None:
    depth = 0

    def again(x: Any, to: Any) -> None:
        nonlocal depth
        depth += 1
        to[:] = program.run([x])[0] if depth < 5 else x
        depth -= 1

    program = with_host_call(again)
    for _ in range(3):
        assert program.run([np.zeros(4)])[0].tolist() == [10, 10, 10, 10]


# -- threads


@with_helpers
@pytest.mark.usefixtures("_share_all")
@pytest.mark.parametrize("count", [2, 4, 7])
def test_every_unit_is_done_once(count: int) -> None:
    threads.set_num_threads(count)
    program = counting(997, 20)
    x = np.zeros(997, np.int64)
    workers = set()
    started = time.monotonic()
    calls = 0
    while time.monotonic() < started + 0.5 or (len(workers) == 1 and time.monotonic() < started + 4):
        send_for_helpers()
        found, who = program.run([x])
        calls += 1
        assert found is x
        assert (x == 20 * calls).all()
        workers |= set(who.tolist())
    assert workers <= set(range(count))
    if len(workers) == 1:
        pytest.skip("the machine is too busy for helpers to get a processor")


def once_settled(units: int = 400) -> tuple[Program, Any, Any]:
    """A program of one step whose way is chosen by what its words say; those, and the team's."""
    threads.set_num_threads(2)
    with all_shared():
        program = counting(units, 1)
        for _ in range(runtime.TIMED_CALLS):
            program.run([np.zeros(units, np.int64)])
    team = threads.team()
    assert team is not None
    return program, program._layout.steps[0], team._memory.view(np.int64)


def is_shared_out(program: Program, words: Any, units: int = 400) -> bool:
    """Whether the step of the next call is."""
    before = int(words[scheduler.TEAM_EPOCH // 8])
    program.run([np.zeros(units, np.int64)])
    return int(words[scheduler.TEAM_EPOCH // 8]) != before


@with_helpers
def test_only_steps_shorter_than_a_debt_pay_it() -> None:
    program, step, words = once_settled()
    step[driver.STEP_ALONE], step[driver.STEP_TOGETHER] = 10**9, 0
    words[scheduler.TEAM_PENALTY // 8] = 10**8
    assert is_shared_out(program, words)
    words[scheduler.TEAM_PENALTY // 8] = debt = 10**10
    assert not is_shared_out(program, words)
    assert 0 < words[scheduler.TEAM_PENALTY // 8] < debt


@with_helpers
def test_a_step_goes_the_way_that_is_shorter_and_tries_the_other() -> None:
    program, step, words = once_settled()
    interval = int(step[driver.STEP_INTERVAL])
    assert interval == scheduler.INTERVAL
    step[driver.STEP_RUNS] = 0
    ways = []
    for _ in range(interval + 2 * scheduler.PROBE):
        # However it turns out: the one thread is taken to be faster.
        step[driver.STEP_ALONE], step[driver.STEP_TOGETHER] = 1000, 10**12
        words[scheduler.TEAM_PENALTY // 8] = 0
        ways.append(is_shared_out(program, words))
    assert ways == [False] * interval + [True] * scheduler.PROBE + [False] * scheduler.PROBE
    assert step[driver.STEP_INTERVAL] == 2 * interval


@with_helpers
@pytest.mark.skipif(len(system.current.processors()) < 2, reason="this takes two processors")
def test_a_helper_keeps_off_the_processor_of_the_thread_that_calls() -> None:
    everywhere = os.sched_getaffinity(0)
    threads.set_num_threads(1)
    before = set(os.listdir("/proc/self/task"))
    program, step, words = once_settled()
    (helper,) = (int(t) for t in set(os.listdir("/proc/self/task")) - before)
    time.sleep(0.1)  # it has looked where it may run by then
    here = min(everywhere)
    try:
        os.sched_setaffinity(0, {here})
        os.sched_setaffinity(helper, {here})
        end = time.monotonic() + 10
        while here in os.sched_getaffinity(helper) and time.monotonic() < end:
            step[driver.STEP_ALONE], step[driver.STEP_TOGETHER] = 10**9, 0
            words[scheduler.TEAM_PENALTY // 8] = 0
            program.run([np.zeros(400, np.int64)])
            time.sleep(0.002)  # so that it sleeps
        assert os.sched_getaffinity(helper) == everywhere - {here}
        assert os.sched_getaffinity(0) == {here}
    finally:
        os.sched_setaffinity(0, everywhere)


@with_helpers
def test_a_step_learns_its_times() -> None:
    program, step, words = once_settled()
    step[driver.STEP_ALONE], step[driver.STEP_TOGETHER], step[driver.STEP_RUNS] = 10**8, 10**9, 0
    words[scheduler.TEAM_PENALTY // 8] = 0
    assert not is_shared_out(program, words)
    # What is usual counts for an eighth, what is tried for a half.
    assert 0.875 * 10**8 <= step[driver.STEP_ALONE] < 0.9 * 10**8
    step[driver.STEP_RUNS] = step[driver.STEP_INTERVAL]
    words[scheduler.TEAM_PENALTY // 8] = 0
    assert is_shared_out(program, words)
    assert 0.5 * 10**9 <= step[driver.STEP_TOGETHER] < 0.6 * 10**9
    # And nothing for more than twice the mean.
    step[driver.STEP_ALONE], step[driver.STEP_TOGETHER], step[driver.STEP_RUNS] = 8, 10**9, 0
    words[scheduler.TEAM_PENALTY // 8] = 0
    assert not is_shared_out(program, words)
    assert step[driver.STEP_ALONE] == 9


@with_helpers
@pytest.mark.usefixtures("_share_all")
def test_python_threads_run_one_program_at_once() -> None:
    threads.set_num_threads(2)
    program = counting(301, 15)
    failures: list[str] = []

    def use() -> None:
        x = np.zeros(301, np.int64)
        for call in range(400):
            program.run([x])
            if not (x == 15 * (call + 1)).all():
                failures.append(f"call {call}")

    users = [threading.Thread(target=use) for _ in range(4)]
    for u in users:
        u.start()
    threads.set_num_threads(3)  # in the midst of it
    for u in users:
        u.join()
    assert failures == []
    assert len(program._idle) <= runtime.IDLE


@with_helpers
@pytest.mark.usefixtures("_share_all")
def test_beside_busy_processes() -> None:
    """Right, and not absurdly slow, when helpers get a processor now and then."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        threads.set_num_threads(4)
        program = counting(500, 20)
        x = np.zeros(500, np.int64)
        end = time.monotonic() + 2.0
        calls = 0
        while time.monotonic() < end:
            program.run([x])
            calls += 1
        assert (x == 20 * calls).all()
        assert calls > 100
    finally:
        for process in busy:
            process.kill()
            process.wait()


@with_helpers
@pytest.mark.usefixtures("_share_all")
def test_helpers_sleep_and_wake() -> None:
    threads.set_num_threads(2)
    program = counting(200, 10)
    x = np.zeros(200, np.int64)
    for call in range(40):
        program.run([x])
        assert (x == 10 * (call + 1)).all()
        time.sleep(0.002)


@with_helpers
@pytest.mark.usefixtures("_share_all")
def test_memory_of_threads_is_their_own() -> None:
    """Each unit is summed by way of scratch memory."""

    def through_scratch(b: Builder) -> None:
        y, scratch = b.buffer(0), b.scratch()
        with b.loop(b.lo, b.hi) as unit:
            with b.loop(0, 100) as at:
                b.store(b.add(unit.index, at.index), b.offset(scratch, at.index, I64))
            with b.loop(0, 100, carried=(b.index(0),)) as at:
                at.carry(b.add(at.values[0], b.load(I64, b.offset(scratch, at.index, I64))))
            b.store(at.results[0], b.offset(y, unit.index, I64))

    threads.set_num_threads(3)
    low = lowering()
    y = low.temp((300,), I)
    low.step(low.kernel("test scratch", through_scratch), (y,), reads=[], writes=[y], units=300, scratch=800)
    low.plan.outputs.append(y)
    program = Program(low.plan)
    for _ in range(200):
        assert (program.run([])[0] == np.arange(300) * 100 + 4950).all()


def test_the_number_of_threads() -> None:
    wg.set_num_threads(3)
    assert wg.get_num_threads() == 3
    for wrong in (0, -1, 10**6, "many", None):
        with pytest.raises(wg.WengertError, match="whole number"):
            wg.set_num_threads(wrong)  # type: ignore[arg-type]
    assert wg.get_num_threads() == 3


@pytest.mark.parametrize(("text", "expected"), [("5", "5"), ("1", "1"), ("none", "WENGERT_NUM_THREADS")])
def test_the_number_of_threads_from_the_environment(text: str, expected: str) -> None:
    code = "import wengert as wg; print(wg.get_num_threads())"
    environment = {**os.environ, "WENGERT_NUM_THREADS": text}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert expected in out.stdout + out.stderr


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/a/b", {"cpu.max": "max 100000", "a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "200000 100000"}, 2.0),
        ("0::/elsewhere", {"cpu.max": "50000 100000"}, 0.5),
        ("3:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "400000", "cpu/a/cpu.cfs_period_us": "100000"}, 4.0),
        ("3:cpu,cpuacct:/a\n0::/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("", {}, None),
    ],
)
def test_the_share_of_a_control_group(
    groups: str, files: dict[str, str], quota: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(threads, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(threads, "GROUP_FILES", tmp_path)
    assert threads.cpu_quota() == quota


@pytest.mark.parametrize("units", [1, 2, 3, 5, 64, 1000, 10**6, 10**12])
@pytest.mark.parametrize("grain", [1, 3, 64])
@pytest.mark.parametrize("time", [1e3, 1e4, 1e6, 1e12])
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_chunks(units: int, grain: int, time: float, count: int) -> None:
    chunk = chunk_of(units, grain, time, count)
    assert chunk % grain == 0
    if chunk:
        assert 1 < -(-units // chunk) <= scheduler.MOST_CHUNKS
    else:
        assert count == 1 or units <= grain or time < runtime.SHARED_FROM


SET_MODES = """
declare void @llvm.x86.sse.ldmxcsr(ptr)
define void @set_modes(i32 %x) {
  %p = alloca i32
  store i32 %x, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void
}
"""


def half_more(b: Builder) -> None:
    x, y = b.buffer(0), b.buffer(2)
    with b.loop(b.lo, b.hi) as at:
        number = b.load(F64, b.offset(x, at.index, F64))
        b.store(b.fmul(number, b.const(F64, 1.5)), b.offset(y, at.index, F64))


@pytest.mark.usefixtures("_share_all")
@pytest.mark.parametrize("flags", [0x8040, 0x6000])
def test_the_modes_of_arithmetic_are_the_default_ones(flags: int) -> None:
    """Flushing of denormals and other rounding, as some libraries leave them set, do not reach kernels."""
    if not machine.host().triple.startswith("x86_64"):
        pytest.skip("the modes are set as on x86-64")
    set_modes = ctypes.CFUNCTYPE(None, ctypes.c_int)(
        machine.load(machine.compile_ir(SET_MODES, machine.host()), "set_modes")
    )
    low = lowering()
    x, y = given(low, (500,)), low.temp((500,), F)
    low.step(low.kernel("test half more", half_more), (x, y), reads=[x], writes=[y], units=500)
    low.plan.outputs.append(y)
    a = np.tile([4 * 5e-324, 1 + 2.0**-52], 250)
    expected = np.tile([6 * 5e-324, 1.5 + 2.0**-51], 250)
    set_modes(0x1F80 | flags)
    try:
        # The helpers are made by a thread in these modes, and so is what runs them.
        threads.set_num_threads(1)
        threads.set_num_threads(2)
        program = Program(low.plan)
        found = [program.run([a])[0].tobytes() for _ in range(200)]
        eager = (np.float64(a[0]) * np.float64(1.5), np.float64(a[1]) * np.float64(1.5))
        kept = (eager[0] == 0) == (flags == 0x8040) and (eager[1] < expected[1]) == (flags == 0x6000)
    finally:
        set_modes(0x1F80)
    assert kept, "the caller's own modes stay"
    assert set(found) == {expected.tobytes()}


# -- processes, signals, memory


@with_helpers
@pytest.mark.usefixtures("_share_all")
def test_a_child_process_has_helpers_of_its_own() -> None:
    threads.set_num_threads(3)
    program = counting(300, 10)

    def works() -> bool:
        x = np.zeros(300, np.int64)
        for _ in range(50):
            program.run([x])
        return bool((x == 500).all())

    assert works()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(0 if works() else 1)
        assert works()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@with_helpers
def test_helpers_do_not_keep_a_process_from_ending() -> None:
    text = """
    import numpy as np
    import programs
    from wengert.execute.native.run import threads
    threads.set_num_threads(4)
    with programs.all_shared():
        program = programs.counting(300, 10)
    x = np.zeros(300, np.int64)
    for _ in range(100):
        program.run([x])
    assert threads.team() is not None
    print(x.sum())
    """
    text = "\n".join(line.removeprefix("    ") for line in text.splitlines())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert (out.returncode, out.stdout.strip(), out.stderr) == (0, str(300 * 1000), "")


def spin_long(b: Builder) -> None:
    x = b.buffer(0)
    with b.loop(b.lo, b.hi) as unit:
        with b.loop(0, b.word(2), carried=(b.const(F64, 1.0),)) as turn:
            turn.carry(b.fadd(b.fmul(turn.values[0], b.const(F64, 0.5)), b.const(F64, 1.0)))
        b.store(turn.results[0], b.offset(x, unit.index, F64))


def long_program() -> Program:
    """Some tenths of a second of work."""
    low = lowering()
    x = low.temp((64,), F)
    low.step(low.kernel("test spin", spin_long), (x, 3_000_000), reads=[], writes=[x], units=64, flops=1e9)
    low.plan.outputs.append(x)
    return Program(low.plan)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals are POSIX's")
def test_an_interrupt_is_seen_after_the_native_part() -> None:
    program = long_program()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            program.run([])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    small = counting(100, 5)
    assert small.run([np.zeros(100, np.int64)])[0].tolist() == [5] * 100
    assert len(program._idle) == 1


def test_other_python_threads_go_on_in_the_meantime() -> None:
    program = long_program()
    turns = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    program.run([])
    stop.set()
    other.join()
    assert turns > 20


def test_memory_does_not_grow() -> None:
    low = lowering()
    x = given(low, (50_000,))
    y = x
    for _ in range(3):
        y = plus_one(low, y)
    z = low.temp(y.shape, F)
    low.step(HostCall("copy", lambda a, to: np.copyto(to, a)), (y, z), reads=[y], writes=[z])
    low.plan.outputs.append(plus_one(low, z))
    program = Program(low.plan)
    a = np.zeros(50_000)

    def peak(calls: int) -> int:
        for _ in range(calls):
            program.run([a])
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first = peak(100)
    assert peak(1500) - first < 4096  # kilobytes; each call leaves an array of 400


def test_programs_share_their_arenas() -> None:
    runtime._blocks.clear()
    programs = []
    for n in (100_000, 50_000, 200_000):
        low = lowering()
        y = plus_one(low, plus_one(low, given(low, (n,))))
        low.plan.outputs.append(plus_one(low, y))
        programs.append((Program(low.plan), np.zeros(n)))
    for _ in range(3):
        for program, a in programs:
            assert (program.run([a])[0] == 3).all()
    assert len(runtime._blocks) == 1
    assert runtime._blocks[0].memory.nbytes == max(p.nbytes for p, _ in programs)
    low = lowering()
    low.plan.outputs.append(plus_one(low, plus_one(low, given(low, (10_000,)))))
    small, a = Program(low.plan), np.zeros(10_000)
    for _ in range(2 * runtime.SPARED_CALLS):
        small.run([a])
    assert [b.memory.nbytes for b in runtime._blocks] == [small.nbytes]


def test_without_the_layout_of_objects_known(monkeypatch: pytest.MonkeyPatch) -> None:
    made = driver.driver()
    slow = driver._slow_start(made.run)
    monkeypatch.setattr(runtime, "driver", lambda: made._replace(start=slow, held_start=slow))
    low = lowering()
    low.plan.outputs.append(plus_one(low, given(low, (3,))))
    program = Program(low.plan)
    for _ in range(5):
        assert program.run([np.arange(3.0)])[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("helpers", [True, False])
@pytest.mark.parametrize("level", ["avx2", "sse2", "aarch64"])
def test_the_driver_is_written_for_all_processors(level: str, helpers: bool) -> None:
    target = machine.level(level)
    assembly = machine.assembly(driver.ir(target, helpers), target)
    assert "wengert_run" in assembly
    assert ("syscall" in assembly) == helpers


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.usefixtures("_share_all")
def test_results_do_not_depend_on_the_number_of_threads(count: int) -> None:
    threads.set_num_threads(count)
    low = lowering()
    y = given(low, (1237,))
    for _ in range(9):
        y = plus_one(low, y)
    low.plan.outputs.append(y)
    program = Program(low.plan)
    a = np.random.default_rng(0).standard_normal(1237)
    expected = a
    for _ in range(9):
        expected = expected + 1
    for _ in range(50):
        assert program.run([a])[0].tobytes() == expected.tobytes()
