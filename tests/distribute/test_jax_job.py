"""Ranks as processes that JAX knows of: the numbers of the simulation and of one process; errors that end the job."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diverging
import meshes
import staged
import wengert as wg
from wengert import distribute as dist

pytest.importorskip("jax", reason="the engine needs jax")


@pytest.fixture(autouse=True)
def _helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path]))


def test_the_same_as_simulated_and_as_one_process() -> None:
    found = dist.run(meshes.on_devices, 2, engine="xla")
    expected = dist.run(meshes.everything, 2, engine="simulate")
    for (values, *_), simulated in zip(found, expected, strict=True):
        assert values.keys() == simulated.keys()
        for name, value in values.items():
            if name == "parts":  # of a program, which XLA sums
                np.testing.assert_allclose(value, simulated[name], 1e-12)
            else:
                np.testing.assert_array_equal(value, simulated[name], err_msg=name)  # every bit
    alone = [meshes.losses(kind, steps=3) for kind, *_ in meshes.ON_DEVICES]
    for _, losses, engine in found:
        np.testing.assert_allclose(losses, alone, rtol=1e-12)
        assert engine == "xla"


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
if kind == "killed":
    if rank:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x, "ranks")
if kind == "index":
    table = wg.tensor([[1.0, 2.0]] * 5)
    f = dist.jit(lambda i: (table[i] ** 2).sum(), mesh=dist.Mesh(data=2), in_specs=("data",))
    f(wg.tensor([0, 1, 2, 4]))
    f(wg.tensor([0, 1, 2, 5]))
if kind == "caught":
    table = wg.tensor([[1.0, 2.0]] * 5)
    f = dist.jit(lambda i: (table[i] ** 2).sum(), mesh=dist.Mesh(data=2), in_specs=("data",))
    try:
        f(wg.tensor([0, 1, 2, 5]))
    except wg.RangeError:
        f(wg.tensor([0, 1, 2, 4]))
if kind == "exits":
    sys.exit(7 if rank else 0)
"""


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("shape", ["ranks 0 and 1 differ: rank 0 calls all_reduce((3,) float32", "rank 1 calls all_reduce((4,)"]),
        slow("ends", ["rank 0 calls its end, rank 1 calls all_reduce((4,) float32, over='ranks') at"]),
        ("raises", ["rank 1 of 2:", "ZeroDivisionError: on one"]),
        slow("index", ["rank 1 of 2:", "index 5 is out of range", "raised on rank 1 of Mesh(data=2)"]),
        slow("caught", ["rank 0 calls all_reduce(() float32, over='data') at", "rank 1 calls the program"]),
        slow("program", ["rank 0 has a: f32[2] = sin[] x", "rank 1 has a: f32[2] = cos[] x", "script.py:"]),
        slow("stops", ["rank 0 has waited 4 s in all_reduce((4,) float32"]),
        slow("killed", []),
        slow("exits", []),
        slow("well", []),
    ],
)
def test_ranks_that_do_not_meet_end_the_job(kind: str, words: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "WENGERT_WATCHDOG": "4" if kind == "stops" else "60"}
    command = [sys.executable, "-m", "wengert", "launch", "--engine", "xla", "-n", "2", str(script), kind]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) is (kind == "well"), done.stderr
    for word in words:
        assert done.stderr.count(word) >= 1, done.stderr
    assert done.stdout.replace("started", "").split() == []
    assert done.stdout.count("started") == 2
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(script) not in left


@pytest.mark.parametrize("kind", ["known size", slow("parameter")])
@pytest.mark.slow
def test_ranks_that_begin_to_differ_are_told(kind: str) -> None:
    with pytest.raises(wg.GraphError, match=rf"raised GraphError: .*{diverging.WORDS[kind]}"):
        dist.run(diverging.diverge, 2, kind, engine="xla")


def test_what_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("")
    with pytest.raises(wg.GraphError, match="engine='tcp'"):
        dist.launch(2, str(script), engine="tcp")
    with pytest.raises(wg.GraphError, match="a job of 0 ranks"):
        dist.launch(0, str(script), engine="xla")


@pytest.mark.parametrize("goes_on", [True, slow(False)])
def test_an_error_that_is_caught_in_a_pipeline_ends_the_job(goes_on: bool, tmp_path: Path) -> None:
    """The other rank waits in a program for what does not come: who left it cannot go on, or end."""
    script = tmp_path / "script.py"
    script.write_text(staged.CAUGHT if goes_on else staged.CAUGHT.removesuffix("run(x, good)\n"))
    command = [sys.executable, "-m", "wengert", "launch", "--engine", "xla", "-n", "2", str(script)]
    env = {**os.environ, "WENGERT_WATCHDOG": "600"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode
    assert "caught" in done.stderr
    assert "rank 1 has left a step that other ranks are still in" in done.stderr
    assert done.stderr.count("Traceback") == 1


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc which processes live")
def test_ranks_end_with_the_process_that_has_started_them(tmp_path: Path) -> None:
    """A killed one ends nobody: they see for themselves that it has gone."""
    script = tmp_path / "endless.py"
    script.write_text(
        "import os, pathlib, time\n"
        "from wengert import distribute as dist\n"
        f"part = pathlib.Path({str(tmp_path)!r}, f'part-{{dist.rank()}}')\n"
        "part.write_text(str(os.getpid()))\n"
        "part.rename(part.with_name(f'pid-{dist.rank()}'))\n"
        "while True: time.sleep(0.1)\n"
    )
    command = [sys.executable, "-m", "wengert", "launch", "-n", "2", "--engine", "xla", str(script)]
    with subprocess.Popen(command) as job:
        found = until(lambda: [int(path.read_text()) for path in tmp_path.glob("pid-*")], lambda pids: len(pids) == 2)
        assert all(map(lives, found))
        job.kill()
    assert not any(until(lambda: [*map(lives, found)], lambda each: not any(each)))


def until(look: Any, holds: Any, seconds: float = 60.0) -> Any:
    """Return what is seen once it holds, or after so many seconds."""
    end = time.monotonic() + seconds
    while not holds(seen := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return seen


def lives(pid: int) -> bool:
    """Return whether a process is there, and no zombie that nobody has asked for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
