"""A process that forks while other threads hold locks, trace, record and compute: the child computes all the same."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import wengert

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes fork on POSIX systems")

_START = """
import contextlib, importlib, os, pkgutil, signal, sys, threading, time, warnings
import numpy as np
import wengert as wg
from wengert import nn, optim
from wengert.explain.observing.events import observed

warnings.simplefilter("error")
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
generator = wg.random.Generator(7)
model = nn.Linear(3, 2)
opt = optim.Adam(model.parameters(), lr=0.1)
x = wg.ones((4, 3))

def step(x):
    opt.zero_grad()
    loss = ((model(x) + wg.randn(4, 2, generator=generator)) ** 2).mean()
    loss.backward()
    opt.step()
    return loss

compiled = wg.jit(step)
for _ in range(3):
    compiled(x)

def start():
    "What a call depends on, to begin from it again."
    return opt.state_dict(), {k: v.clone() for k, v in model.state_dict().items()}, generator.get_state()

def begin(state):
    opt.load_state_dict(state[0]); model.load_state_dict(state[1]); generator.set_state(state[2])

def everything():
    found = [float(step(x)), float(compiled(x)), float(compiled(x))]
    new = wg.jit(lambda a: (a * 3 + wg.rand(4, 1, generator=generator)).sum())
    found += [float(new(x)), float(new(x)), *wg.rand(3, generator=generator).tolist()]
    graph = wg.graph(lambda a: wg.exp(a) @ a.T)(wg.spec((4, 3)))
    found += np.asarray(graph.run([np.ones((4, 3), np.float32)], workers=2)).ravel().tolist()
    found += wg.softmax(wg.ones((300, 300)) @ wg.ones((300, 300)), -1)[0, :2].tolist()
    with observed():
        float(step(x))
    g = wg.random.Generator(1).split(2)[1]
    return [*found, *wg.rand(2, generator=g).tolist()]

def in_child(do, seconds=30):
    "What a child process finds to be so; it has ended by then."
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(seconds)
            status = 0 if do() else 2
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]

before = start()
expected = everything()
begin(before)

def child_is_right():
    begin(before)
    found = everything()
    if found != expected:
        print(found, expected, file=sys.stderr)
    return found == expected
"""


def apart(code: str, timeout: float = 120) -> None:
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WENGERT_NUM_THREADS": "2"}
    text = _START + textwrap.dedent(code)
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=settings, timeout=timeout)
    assert out.returncode == 0, out.stderr


def test_all_locks_are_made_in_one_place() -> None:
    """Nobody else makes what a child process would find held for ever, or asks to be told of forks."""
    names = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier", "allocate_lock"}
    package = Path(wengert.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package) == Path("core/state/locks.py"):
            continue
        text = path.read_text(encoding="utf-8")
        if "thread" not in text and "register_at_fork" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module in ("threading", "_thread"):
                found += [(path, node.lineno, a.name) for a in node.names if a.name in names]
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            # A condition may be made of one of the locks there.
            if ast.unparse(node.func.value) not in ("threading", "_thread", "os"):
                continue
            own = bool(node.args) and ast.unparse(node.args[0]).startswith("locks.lock(")
            # Forks are asked of the system's module, of which the locks' is the only one to hear.
            asks = node.func.attr == "register_at_fork" and path.relative_to(package) != Path("core/system.py")
            if asks or (node.func.attr in names and not own):
                found.append((path, node.lineno, node.func.attr))
    assert not found


@posix
def test_a_fork_while_another_thread_holds_any_lock() -> None:
    apart(
        """
        from wengert.core.state import locks, turns

        turns._FORK_WAIT = 1.0  # for the lock by which it is known who is at work: nobody holds that for long
        for module in pkgutil.walk_packages(wg.__path__, "wengert."):
            if not module.name.endswith("__main__"):
                # Where another library is not installed, what is for it cannot be used either.
                is_for_another = module.name.startswith("wengert.interop.")
                with contextlib.suppress(ModuleNotFoundError) if is_for_another else contextlib.nullcontext():
                    importlib.import_module(module.name)
        free, awaited = list(locks._locks), list(locks._awaited)
        assert len(free) >= 5 and len(awaited) >= 3

        # All at once those that a child makes anew; a fork waits for the others, which are let go while it does.
        for together in [free, *([lock] for lock in awaited)]:
            held, done = threading.Event(), threading.Event()

            def hold():
                with contextlib.ExitStack() as stack:
                    for lock in together:
                        stack.enter_context(lock)
                    held.set()
                    done.wait(60 if together is free else 0.05)

            thread = threading.Thread(target=hold)
            thread.start()
            assert held.wait(60)
            status = in_child(child_is_right)
            done.set()
            thread.join()
            assert status == 0, (status, together)
        assert everything() == expected
        """
    )


def test_no_property_has_a_lock_of_pythons() -> None:
    """`functools.cached_property` of Python 3.11 has one for all objects of a class."""
    package = Path(wengert.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package) == Path("core/state/cached.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "functools":
                found += [(path, node.lineno) for a in node.names if a.name == "cached_property"]
            found += [
                (path, d.lineno) for d in getattr(node, "decorator_list", ()) if "functools.cached" in ast.unparse(d)
            ]
    assert not found


@posix
def test_a_fork_while_another_thread_computes_a_property() -> None:
    apart(
        """
        from wengert.core.state.cached import cached_property

        inside, go_on = threading.Event(), threading.Event()

        class Thing:
            def __init__(self, slow):
                self.slow = slow

            @cached_property
            def value(self):
                if self.slow:
                    inside.set()
                    go_on.wait(60)
                return 3

        thread = threading.Thread(target=lambda: Thing(True).value)
        thread.start()
        assert inside.wait(60)
        status = in_child(lambda: Thing(False).value == 3, 10)
        go_on.set()
        thread.join()
        assert status == 0, status
        other = Thing(False)
        assert other.value == 3 and vars(other)["value"] == 3 and Thing.value.attrname == "value"
        """
    )


@posix
def test_a_fork_while_another_thread_imports() -> None:
    """Python's lock of a module that is loaded when it is first used would be held in the child for ever."""
    apart(
        """
        from wengert.core.state import locks

        name, module = next((n, m) for n, m in wg._LAZY_NAMES.items() if f"wengert{m}" not in sys.modules)
        module = f"wengert{module}"
        inside = threading.Event()

        class Slow:
            @staticmethod
            def find_spec(wanted, path=None, target=None):
                if wanted == module and not inside.is_set():
                    inside.set()
                    time.sleep(0.5)

        sys.meta_path.insert(0, Slow)
        thread = threading.Thread(target=lambda: getattr(wg, name))
        thread.start()
        assert inside.wait(60)
        status = in_child(lambda: getattr(wg, name) is not None)
        thread.join()
        assert status == 0, status

        # An import that waits for what the forking thread holds does not stop it for ever.
        locks._IMPORT_WAIT, go_on, inside = 0.1, threading.Event(), threading.Event()

        def hold():
            with locks.importing():
                inside.set()
                go_on.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        assert inside.wait(60)
        status = in_child(child_is_right)
        go_on.set()
        thread.join()
        assert status == 0, status
        assert not locks._imports
        """
    )


@posix
def test_a_fork_while_another_thread_traces() -> None:
    apart(
        """
        inside, go_on = threading.Event(), threading.Event()
        seen = wg.zeros(2)
        table = {"t": wg.ones(2)}

        def slow(x):
            opt.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            opt.step()
            seen.add_(1.0)
            table["t"] = table["t"] * 2
            wg.rand(2, generator=generator)
            inside.set()
            assert go_on.wait(60)
            return loss

        def child():
            assert not any(p.is_abstract for p in model.parameters()) and seen.tolist() == [0.0, 0.0]
            assert table["t"].tolist() == [1.0, 1.0]
            return child_is_right()

        thread = threading.Thread(target=lambda: wg.jit(slow)(x))
        thread.start()
        assert inside.wait(60)
        status = in_child(child)
        go_on.set()
        thread.join()
        assert status == 0, status
        assert seen.tolist() == [1.0, 1.0] and table["t"].tolist() == [2.0, 2.0]
        begin(before)
        assert everything() == expected
        """
    )


@posix
def test_a_fork_in_the_midst_of_a_trace_goes_on_with_it() -> None:
    apart(
        """
        def f(x):
            global status
            y = x * 2
            child = os.fork()
            if child == 0:
                mine.append(True)
            else:
                status = os.waitpid(child, 0)[1]
            seen.add_(1.0)
            return y + 1

        mine, seen = [], wg.zeros(2)
        signal.alarm(60)
        got = wg.jit(f)(wg.ones(2))
        assert got.tolist() == [3.0, 3.0] and seen.tolist() == [1.0, 1.0]
        if mine:
            os._exit(0 if child_is_right() else 1)
        assert status == 0, status
        """
    )


@posix
def test_a_fork_while_another_thread_is_recorded() -> None:
    apart(
        """
        from wengert.explorer.recording.recorder import Recorder

        for block in (observed, lambda: Recorder().recording()):
            inside, go_on = threading.Event(), threading.Event()

            def record():
                with block():
                    inside.set()
                    go_on.wait(60)

            thread = threading.Thread(target=record)
            thread.start()
            assert inside.wait(60)
            status = in_child(child_is_right)
            go_on.set()
            thread.join()
            assert status == 0, status
        """
    )


@posix
def test_a_fork_while_other_threads_run_programs_that_write_to_state() -> None:
    """The child finds what they write to as it is between two runs, and can run them itself."""
    apart(
        """
        cells = [wg.zeros(n, dtype=wg.float64) for n in (3, 300_000)]
        runs = [wg.jit(lambda c=c: c.add_(1.0)) for c in cells]
        draw = wg.jit(lambda: wg.rand(100_000, generator=generator))
        for run in (*runs, draw):
            for _ in range(3):
                run()
        stop = threading.Event()

        def work(run):
            while not stop.is_set():
                run()

        def child():
            for c, run in zip(cells, runs):
                now = set(c.tolist())
                assert len(now) == 1, now
                run()
                assert set(c.tolist()) == {now.pop() + 1}
            return len({draw()[0].item() for _ in range(4)}) == 4 and child_is_right()

        threads = [threading.Thread(target=work, args=(run,)) for run in (*runs, draw)]
        for t in threads:
            t.start()
        try:
            for _ in range(8):
                status = in_child(child)
                assert status == 0, status
        finally:
            stop.set()
            for t in threads:
                t.join()
        """
    )


@posix
def test_a_fork_while_another_thread_runs_a_program_without_state() -> None:
    """The memory of the call in progress is its thread's: the child finds another way, or does without."""
    apart(
        """
        inside, go_on = threading.Event(), threading.Event()

        def wait(a):
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                assert go_on.wait(60)
            return a

        f = wg.jit(lambda x: wg.callback(wait, wg.spec((4, 3)), x * 2) + 1)
        for _ in range(4):
            f(x)
        thread = threading.Thread(target=lambda: f(x))
        thread.start()
        assert inside.wait(60)
        status = in_child(lambda: bool((f(x) == 3).all()) and child_is_right())
        go_on.set()
        thread.join()
        assert status == 0, status
        """
    )
