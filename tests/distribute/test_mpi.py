"""Ranks as processes: the numbers of the simulation, and errors instead of hangs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diverging
import meshes
import staged
import wengert as wg
from wengert import distribute as dist
from wengert.distribute.engines.job import lack

pytestmark = pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")


@pytest.fixture(autouse=True)
def _helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path]))


def test_the_same_as_simulated() -> None:
    found = dist.run(meshes.both, 2, engine="mpi")
    expected = dist.run(meshes.everything, 2, engine="simulate")
    for (values, _), simulated in zip(found, expected, strict=True):
        assert values.keys() == simulated.keys()
        for name, value in values.items():
            np.testing.assert_array_equal(value, simulated[name], err_msg=name)  # every bit
    runs = [meshes.losses(*case, steps=meshes.STEPS) for case in meshes.TRAINED]
    assert found[0][1] == found[1][1]
    np.testing.assert_allclose(found[0][1], runs, rtol=1e-12)
    np.testing.assert_allclose(
        runs, [meshes.losses(kind, steps=meshes.STEPS) for kind, *_ in meshes.TRAINED], rtol=1e-12
    )


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize("ranks", [2, slow(3), slow(4)])
def test_sums_have_the_bits_of_the_simulation(ranks: int) -> None:
    """Native code adds up pieces as they come, in one order of the ranks."""
    found = dist.run(meshes.sums, ranks, engine="mpi")
    for values, simulated in zip(found, dist.run(meshes.sums, ranks, engine="simulate"), strict=True):
        for name, value in values.items():
            assert value.tobytes() == simulated[name].tobytes(), name


def test_an_environment_that_is_not_active_has_its_mpiexec(monkeypatch: pytest.MonkeyPatch) -> None:
    """`venv/bin/python train.py`: what came with mpi4py is there, though no path says so."""
    if shutil.which("mpiexec", path=str(Path(sys.executable).parent)) is None:
        pytest.skip("mpiexec is not of this environment")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert dist.run(dist.rank, 2, engine="mpi") == [0, 1]


SCRIPT = """
import os, signal, sys
import wengert as wg
from wengert import distribute as dist
kind, rank = sys.argv[1], dist.rank()
x = wg.ones(4)
dist.all_reduce(x, "ranks")
print("started", flush=True)
if kind == "shape":
    dist.all_reduce(wg.ones(3 + rank), "ranks")
if kind == "ends" and rank:
    dist.all_reduce(x, "ranks")
if kind == "raises":
    if rank:
        raise ZeroDivisionError("on one")
    dist.all_reduce(x, "ranks")
if kind == "program":
    own = [wg.sin, wg.cos][rank]
    dist.partition(lambda x: own(x).sum(), dist.Mesh(data=2), ("data",))(x)
if kind == "stops":
    if rank:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(x, "ranks")
if kind == "exits":
    sys.exit(7 if rank else 0)
if kind == "says why":
    sys.exit("there is no data")
"""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            "shape",
            ["ranks 0 and 1 differ: rank 0 calls all_reduce((3,) float32", "rank 1 calls all_reduce((4,) float32"],
        ),
        slow("ends", ["rank 1 waits in all_reduce((4,) float32, over='ranks') at", "and rank 0 has ended"]),
        ("raises", ["rank 1 of 2:", "ZeroDivisionError: on one"]),
        slow("program", ["rank 0 has a: f32[2] = sin[] x", "rank 1 has a: f32[2] = cos[] x", "script.py:"]),
        slow("stops", ["rank 0 has waited 2 s in all_reduce((4,) float32", ", for rank 1 (", "It neither waits"]),
        ("exits", ["rank 1 ended by sys.exit(7), of 2 ranks"]),
        ("says why", ["there is no data"]),
        slow("well", []),
    ],
)
def test_ranks_that_do_not_meet_end_the_job(kind: str, words: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # Without its watchdog, a job that does not end would still be there when the test's time is over.
    env = {**os.environ, "WENGERT_WATCHDOG": "2" if kind == "stops" else "600"}
    done = subprocess.run(
        [sys.executable, "-m", "wengert", "launch", "-n", "2", str(script), kind],
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode == 0) is (kind == "well"), done.stderr
    for word in words:
        assert done.stderr.count(word) >= 1, done.stderr
    assert "MPI_ABORT" not in done.stderr  # MPI adds nothing to what is said
    assert done.returncode == (7 if kind == "exits" else int(bool(words)))
    # The first error alone, once.
    assert done.stderr.count("Traceback") == (bool(words) and kind not in ("says why", "exits"))
    assert kind not in ("says why", "exits") or done.stderr.count(words[0]) == 1
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(script) not in left


@pytest.mark.parametrize(
    "kind", [k if k in ("known size", "parameter") else slow(k) for k in diverging.KINDS], ids=diverging.KINDS
)
def test_ranks_that_begin_to_differ_are_told(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(wg.GraphError, match=rf"raised GraphError: .*{diverging.WORDS[kind]}"):
        dist.run(diverging.diverge, 2, kind, engine="mpi")
    assert "TRUNCATE" not in capfd.readouterr().err


def test_a_run_that_breaks_off_leaves_nothing_on_its_way() -> None:
    """An index out of range while a sum moves: the rank lets it end, so the next run begins as on all others."""
    first, second = dist.run(meshes.broken_off, 2, engine="mpi")
    sums = [f"{4.0 * i} {4.0 * i}" for i in range(7)]
    bad = {0: (3, 5), 1: (1, 3)}
    for rank, told in enumerate((first, second)):
        assert told == ["out of range" if i in bad[rank] else total for i, total in enumerate(sums)]


def test_an_exception_comes_back() -> None:
    with pytest.raises(wg.GraphError, match=r"run of fails on Mesh\(ranks=2\): rank \d raised ValueError: of 3"):
        dist.run(meshes.fails, 2, 3, engine="mpi")


SESSION = """
import functools
import wengert as wg
from wengert import distribute as dist
scale = 3.0
def work(x, by=1.0):
    return dist.all_reduce(x * scale * by, "ranks").tolist()
def closure(by):
    return lambda x: work(x, by)
@wg.jit
def compiled(x):
    return x * 10.0
"""
CALLS = """
if __name__ == "__main__":
    for fn in (work, functools.partial(work, by=2.0), closure(4.0), lambda x: work(x) + [dist.rank()],
               lambda x: work(compiled(x))):
        print(dist.run(fn, 2, wg.ones(1), engine="mpi"))
    print(dist.run(work, 2, by=3.0, x=wg.ones(1), engine="mpi"))
"""


@pytest.mark.parametrize("kind", ["script", "session"])
def test_functions_of_a_script_and_of_a_session(kind: str, tmp_path: Path) -> None:
    """What has a name in a script is found by it; closures and what a session has defined are taken along."""
    pytest.importorskip("cloudpickle")
    script = tmp_path / "script.py"
    script.write_text(SESSION + CALLS)
    command = [sys.executable, str(script)] if kind == "script" else [sys.executable, "-"]
    text = None if kind == "script" else SESSION + CALLS
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = [
        [[6.0], [6.0]],
        [[12.0], [12.0]],
        [[24.0], [24.0]],
        [[6.0, 0], [6.0, 1]],
        [[60.0], [60.0]],
        [[18.0], [18.0]],
    ]
    assert done.stdout.splitlines() == [str(row) for row in expected]


def test_a_script_that_starts_ranks_which_import_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SESSION + 'dist.run(work, 2, wg.ones(1), engine="mpi")\n')
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert done.returncode
    assert "run of work on Mesh(ranks=2) inside of a job, whose ranks would each start another one" in done.stderr
    assert "script.py:13" in done.stderr


def test_what_stands_under_the_guard_is_not_found(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        SESSION + 'if __name__ == "__main__":\n    def late(): pass\n    dist.run(late, 2, engine="mpi")\n'
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert done.returncode
    assert "run of a function that a rank does not find" in done.stderr


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(wg.GraphError, match=r"cannot be pickled.*\n.*pip install cloudpickle"):
        dist.run(lambda: None, 2, engine="mpi")
    with pytest.raises(wg.GraphError, match="no such file"):
        dist.launch(2, str(tmp_path / "missing.py"))
    with pytest.raises(wg.GraphError, match="engine='tcp'"):
        dist.run(meshes.train, 2, engine="tcp")


THREADS = """
import threading
import wengert as wg
from wengert import distribute as dist
step = dist.jit(lambda x, s: (x * s).sum(), mesh=dist.Mesh(data=2), in_specs=("data", None))
x, found = wg.arange(4096.0), []
run = lambda: found.extend(float(step(x, 1.0)) for _ in range(20))
threads = [threading.Thread(target=run) for _ in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert set(found) == {4096 * 4095 / 2} and len(found) == 60, found
"""


def test_threads_of_a_rank_take_turns(tmp_path: Path) -> None:
    """A program has one run at a time, and ranks meet in one order."""
    script = tmp_path / "threads.py"
    script.write_text(THREADS)
    command = [sys.executable, "-m", "wengert", "launch", "-n", "2", str(script)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


def test_an_error_that_is_caught_in_a_pipeline_ends_the_job(tmp_path: Path) -> None:
    """The other rank waits for messages that do not come: who left the step cannot go on."""
    script = tmp_path / "script.py"
    script.write_text(staged.CAUGHT)
    done = subprocess.run(
        [sys.executable, "-m", "wengert", "launch", "-n", "2", str(script)],
        env={**os.environ, "WENGERT_WATCHDOG": "600"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode
    assert "caught" in done.stderr
    assert "rank 1 has left a step that other ranks are still in (" in done.stderr
    assert done.stderr.count("Traceback") == 1
