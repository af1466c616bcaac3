"""What goes to ranks that are processes, and what comes back: values without names, and errors of the user's lines."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from wengert import distribute as dist
from wengert.distribute import carrying
from wengert.distribute.engines.job import lack

pytest.importorskip("cloudpickle", reason="it takes along what has no name")
processes = pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    monkeypatch.setenv("WENGERT_WATCHDOG", "60")


def made_of_local_things(by: float) -> Any:
    """Return a function whose results have no names: a class of its own, closures, compiled functions and programs."""

    class Found:
        def __init__(self, total: Any) -> None:
            self.total = total

    def work(x: Any) -> Any:
        total = dist.all_reduce(x * by, "ranks")
        program = dist.partition(lambda x: (x * by).sum(), dist.Mesh(data=2), (None,))
        return Found(total), lambda y: y * by, wg.jit(lambda y: y + by), program

    return work


def checked(found: Any) -> None:
    for first, times, plus, program in found:
        assert type(first).__name__ == "Found"
        assert first.total.tolist() == [6.0, 6.0]
        assert times(2.0) == 6
        assert plus(wg.ones(1)).tolist() == [4.0]
        assert float(program(wg.ones(2))) == 6


@processes
def test_results_without_names() -> None:
    checked(dist.run(made_of_local_things(3.0), 2, wg.ones(2), engine="mpi"))


def test_results_are_what_they_are_without_processes() -> None:
    work = carrying.read(carrying.carried(made_of_local_things(3.0)))
    checked([carrying.read(carrying.result_of(work, work_on_one(work), 0))])


def work_on_one(work: Any) -> Any:
    (found,) = dist.simulate(1).run(lambda: work(wg.ones(2) * 2))
    found[0].total = found[0].total * wg.ones(2)
    return found


def give(kind: str) -> Any:
    if kind == "generator" and dist.rank() == 1:
        return (i for i in range(3))
    if kind == "a lock inside":
        return {"loss": 1.0, "lock": threading.Lock()}
    if kind == "unreadable":
        return Unreadable()
    if kind == "mute":
        raise Mute
    return dist.rank()


class Unreadable:
    def __reduce__(self) -> Any:
        return int, ("no number",)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@processes
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("generator", ["the result of give on rank 1 is a generator, which cannot be sent back", "test_carrying.py:"]),
        ("a lock inside", [" is a dict with a lock, which cannot be sent back: ", "\nReturn what it holds: tensors, "]),
        ("unreadable", ["the result of give on rank 0 cannot be read here: ValueError: invalid literal for int()"]),
        ("mute", [" raised Mute: its text cannot be made"]),
    ],
)
def test_results_that_cannot_come_back(kind: str, told: list[str]) -> None:
    with pytest.raises(wg.GraphError) as caught:
        dist.run(give, 2, kind, engine="mpi")
    for words in told:
        assert words in str(caught.value)


@processes
def test_arguments_that_cannot_go() -> None:
    with pytest.raises(wg.GraphError, match=r"run of give: argument 0, a lock, cannot be sent to the ranks: "):
        dist.run(give, 2, threading.Lock(), engine="mpi")
    with pytest.raises(wg.GraphError, match=r"(?s)run of give: kind=, a dict, cannot be sent to.*simulate"):
        dist.run(give, 2, kind={"a": threading.Lock()}, engine="mpi")
    with pytest.raises(wg.GraphError, match=r"raised GraphError: run of what rank \d cannot read: ValueError: invalid"):
        dist.run(give, 2, Unreadable(), engine="mpi")
    lock = threading.Lock()
    with pytest.raises(wg.GraphError, match="a function that cannot be pickled"):
        dist.run(lambda: lock, 2, engine="mpi")


SCRIPT = """
import sys
from dataclasses import dataclass
import wengert as wg
from wengert import distribute as dist
@dataclass
class Found:
    rank: int
def named():
    return Found(dist.rank())
def closure():
    n = 0
    def inner():
        return Found(dist.rank() // n)
    return inner
program = dist.partition(lambda x: x.sum(), dist.Mesh(data=2), ("data",))
step = dist.jit(lambda x: x.sum(), mesh=dist.Mesh(data=2), in_specs=("data",))
if __name__ == "__main__":
    found = dist.run(named, 2, engine="mpi")
    assert found == [Found(0), Found(1)] and all(type(x) is Found for x in found), found
    more = lambda: (Found(dist.rank()), float(program(wg.ones(2)) + step(wg.ones(2))))
    found = dist.run(more, 2, engine="mpi")
    assert found == [(Found(0), 4.0), (Found(1), 4.0)] and type(found[0][0]) is Found, found
    print("well", flush=True)
    dist.run(closure(), 2, engine="mpi")
"""


@processes
@pytest.mark.parametrize("kind", ["script", "session"])
def test_classes_of_a_script_and_of_a_session(kind: str, tmp_path: Path) -> None:
    """Results of such a class are of the very class; an error of a closure names its file and line."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)] if kind == "script" else [sys.executable, "-"]
    text = None if kind == "script" else SCRIPT
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.stdout == "well\n", done.stderr
    file = str(script) if kind == "script" else "<stdin>"
    assert f'File "{file}", line 14, in inner' in done.stderr
    assert "raised ZeroDivisionError" in done.stderr
    assert "dynamic-code" not in done.stderr


def test_code_keeps_its_file_and_lines() -> None:
    def outer() -> Any:
        return lambda x: wg.ones(3) @ wg.ones(x)

    inner = carrying.read(carrying.with_all(outer()))
    assert inner.__code__.co_filename == __file__
    assert list(inner.__code__.co_lines()) == list(outer().__code__.co_lines())
    with pytest.raises(wg.ShapeError, match=r"test_carrying.py:\d+"):
        inner(2)
    nested = carrying.read(carrying.with_all(outer)).__code__.co_consts
    assert [c.co_filename for c in nested if hasattr(c, "co_filename")] == [__file__]
