"""Compiled code on disk: kept, found again, and never trusted when anything about it is wrong."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")

from wengert.cli import main
from wengert.execute.native.codegen import kernel, machine, private_folder
from wengert.execute.native.codegen import object_cache as cache
from wengert.execute.native.codegen.types import F64

TARGET = machine.host()
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("WENGERT_CACHE", raising=False)
    monkeypatch.delenv("WENGERT_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "_written", 0)


def file_of(name: str) -> Path:
    return Path(cache._path(name))


def test_what_is_kept_is_found() -> None:
    assert cache.load("k1", TARGET) is None
    cache.keep("k1", TARGET, b"code")
    cache.keep("k2", TARGET, b"")
    assert cache.load("k1", TARGET) == b"code"
    assert cache.load("k2", TARGET) == b""
    assert cache.load("k3", TARGET) is None
    cache.keep("k1", TARGET, b"other code")
    assert cache.load("k1", TARGET) == b"other code"
    assert [entry.nbytes > 0 for entry in cache.entries()] == [True, True]


def test_nothing_is_kept_where_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep("k1", TARGET, b"code")
    monkeypatch.setenv("WENGERT_CACHE", "0")
    cache.keep("k2", TARGET, b"code")
    assert cache.load("k1", TARGET) is None
    monkeypatch.delenv("WENGERT_CACHE")
    assert cache.load("k1", TARGET) == b"code"
    assert cache.load("k2", TARGET) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b[:10],
        lambda b: b[:-1],
        lambda b: b + b"\0",
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
        lambda b: bytes([b[0] ^ 128]) + b[1:],
        lambda b: b[:30] + bytes([b[30] ^ 4]) + b[31:],
        lambda b: b"\x7fELF" + b,
        lambda b: bytes(len(b)),
    ],
)
def test_damaged_files_are_made_anew(damage: Callable[[bytes], bytes]) -> None:
    cache.keep("k1", TARGET, b"code" * 100)
    path = file_of("k1")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load("k1", TARGET) is None
    cache.keep("k1", TARGET, b"code" * 100)
    assert cache.load("k1", TARGET) == b"code" * 100


def test_a_file_under_the_name_of_another_is_not_loaded() -> None:
    cache.keep("k1", TARGET, b"code")
    os.replace(file_of("k1"), file_of("k2"))
    assert cache.load("k2", TARGET) is None


def test_a_folder_where_a_file_should_be() -> None:
    file_of("k1").mkdir(parents=True)
    assert cache.load("k1", TARGET) is None
    cache.keep("k1", TARGET, b"code")
    assert cache.load("k1", TARGET) is None


@posix
def test_files_that_others_may_write_to_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep("k1", TARGET, b"code")
    path = file_of("k1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for mode in (0o620, 0o602):
        path.chmod(mode)
        assert cache.load("k1", TARGET) is None
    path.chmod(0o644)
    assert cache.load("k1", TARGET) == b"code"
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert cache.load("k1", TARGET) is None


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_takes_nothing_is_no_error(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep("k1", TARGET, b"code")

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    for name in ("read", "write"):
        monkeypatch.setattr(private_folder.Folder, name, refuse)
    cache.keep("k2", TARGET, b"code")
    assert cache.load("k1", TARGET) is None
    monkeypatch.undo()


def test_a_cache_folder_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "file" / "folder"))
    cache.keep("k1", TARGET, b"code")
    assert cache.load("k1", TARGET) is None
    assert cache.entries() == []
    assert cache.clear() == []
    assert main(["cache", "info"]) == 0


def test_a_disk_that_fills_up_in_the_midst(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep("k1", TARGET, b"code")

    def fails(old: str, new: str, **folders: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fails)
        cache.keep("k2", TARGET, b"code")
    assert os.listdir(file_of("k1").parent) == ["k1.obj"]


# -- size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 512 << 20), ("3", 3 << 20), ("0.5", 1 << 19), ("0", 0), ("-1", 0), ("much", 512 << 20), ("inf", 512 << 20)],
)
def test_the_size_from_the_environment(text: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_SIZE", text)
    assert cache.size_limit() == expected


def test_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_SIZE", "0.1")
    for i in range(12):
        cache.keep(f"k{i:02}", TARGET, bytes(10_000))
        if file_of(f"k{i:02}").exists():
            os.utime(file_of(f"k{i:02}"), (0, time.time() - 1000 + i))
    there = sorted(Path(entry.path).stem for entry in cache.entries())
    assert sum(entry.nbytes for entry in cache.entries()) <= cache.size_limit()
    assert there[-1] == "k11"
    assert there == [f"k{i:02}" for i in range(12 - len(there), 12)]
    assert len(there) > 5


def test_what_is_used_is_young() -> None:
    cache.keep("k1", TARGET, b"code")
    path = file_of("k1")
    os.utime(path, (0, time.time() - 10 * cache.DAY))
    assert cache.load("k1", TARGET) == b"code"
    assert path.stat().st_mtime > time.time() - 100


def test_it_is_looked_over_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(cache, "look_over", lambda: looked.append(1))
    for i in range(20):
        cache.keep(f"k{i}", TARGET, b"code")
    assert len(looked) == 0
    os.utime(file_of("k1").parent.parent / cache.MARK, (0, time.time() - 2 * cache.DAY))
    for i in range(20):
        cache.keep(f"k{i}", TARGET, b"code")
    assert len(looked) == 1


def test_what_was_left_unfinished_goes(tmp_path: Path) -> None:
    cache.keep("k1", TARGET, b"code")
    for name, age in (("old", 2 * cache.ABANDONED_AFTER), ("new", 1.0)):
        path = file_of("k1").with_name(f".k2.obj.{name}")
        path.write_bytes(b"half")
        os.utime(path, (0, time.time() - age))
    cache.look_over()
    assert sorted(os.listdir(file_of("k1").parent)) == [".k2.obj.new", "k1.obj"]


def test_code_larger_than_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_SIZE", "0.001")
    cache.keep("k1", TARGET, bytes(2000))
    assert cache.entries() == []


# -- kernels, processes


def kernel_of(number: float) -> kernel.Kernel:
    def build(b: Any) -> None:
        b.store(b.const(F64, number), b.buffer(0))

    return kernel.Kernel(f"test store {number}", build, TARGET)


@pytest.fixture
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_load_kept", cache.load)
    monkeypatch.setattr(kernel, "_keep", cache.keep)


@pytest.mark.usefixtures("_kept")
def test_kernels_are_compiled_once() -> None:
    first = [kernel_of(i) for i in range(3)]
    kernel.prepare([*first, first[0]])
    assert all(k.was_compiled and k.address for k in first)
    again = [kernel_of(i) for i in range(4)]
    kernel.prepare(again)
    assert [k.was_compiled for k in again] == [False, False, False, True]
    file_of(first[1].name).write_bytes(b"not code")
    assert kernel_of(1).address
    assert cache.load(first[1].name, TARGET) is not None


RUN = """
import numpy as np
from wengert.execute.native.codegen import machine; from wengert.execute.native.run import runtime
from wengert.execute.native.plan.lowering import Lowering
from wengert.execute.native.codegen.types import F64
low = Lowering(machine.host())
for i in range(12):
    y = low.temp((1,), np.float64)
    kernel = low.kernel(f"test store {i}", lambda b, i=i: b.store(b.const(F64, float(i)), b.buffer(0)))
    low.step(kernel, (y,), reads=[], writes=[y])
    low.plan.outputs.append(y)
found = runtime.Program(low.plan).run([])
assert [float(x[0]) for x in found] == list(range(12)), found
print(sum(step.kernel.was_compiled for step in low.plan.steps))
"""


def run_all() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", RUN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> int:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return int(out)


def test_a_later_process_compiles_nothing() -> None:
    assert result(run_all()) == 12
    victim = sorted(entry.path for entry in cache.entries() if "/k" in entry.path)[7]
    Path(victim).write_bytes(Path(victim).read_bytes()[:-100])
    assert result(run_all()) == 1
    assert result(run_all()) == 0


def test_processes_that_write_and_clear_at_once() -> None:
    processes = [run_all() for _ in range(2)]
    while any(p.poll() is None for p in processes):
        cache.clear()
        time.sleep(0.01)
    assert [0 <= result(p) <= 12 for p in processes] == [True] * 2


def test_another_generator_makes_another_edition(tmp_path: Path) -> None:
    assert re.fullmatch("[0-9a-f]{16}", cache.edition())
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("two")
    (tmp_path / "c.txt").write_text("three")
    digests = [cache.digest_of_sources(str(tmp_path))]
    (tmp_path / "c.txt").write_text("four")
    assert cache.digest_of_sources(str(tmp_path)) == digests[0]
    (tmp_path / "b.py").write_text("too")
    digests.append(cache.digest_of_sources(str(tmp_path)))
    (tmp_path / "b.py").rename(tmp_path / "d.py")
    digests.append(cache.digest_of_sources(str(tmp_path)))
    assert len(set(digests)) == 3
    assert cache.digest_of_sources(str(tmp_path / "nowhere")) not in digests


def test_an_edition_covers_all_that_generators_take_formulas_from() -> None:
    """A formula of `ops/special` that changed is other code, too."""
    formulas = {
        module.__name__
        for name in ("incomplete", "special", "bessel", "gamma")
        for value in vars(importlib.import_module(f"wengert.execute.native.scalar.math.{name}")).values()
        if (module := inspect.getmodule(value)) is not None and module.__name__.startswith("wengert.ops")
    }
    assert formulas
    for module in formulas:
        file = sys.modules[module].__file__
        assert any(os.path.commonpath([file, place]) == place for place in cache.GENERATORS)


# -- the command line


def test_info_and_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache.keep("k1", TARGET, b"code")
    cache.keep("k2", TARGET, b"code")
    cache.keep_plan("p1", b"plan")
    mine = tmp_path / "cache" / "mine.txt"
    mine.write_text("not the cache's")
    other = tmp_path / "cache" / "code" / "note"
    other.write_text("nor this")
    assert main(["cache", "info"]) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path / "cache") in shown
    assert re.search(r"kernels +2\nplans +1\n", shown)
    assert main(["cache", "clear"]) == 0
    assert "2 kernels and 1 plan" in capsys.readouterr().out
    assert cache.entries() == []
    assert mine.exists()
    assert other.exists()
    assert main(["cache", "clear"]) == 0
    assert "0 kernels and 0 plans" in capsys.readouterr().out
    cache.keep("k1", TARGET, b"code")
    assert cache.load("k1", TARGET) == b"code"


def test_clear_leaves_no_folder(tmp_path: Path) -> None:
    cache.keep("k1", TARGET, b"code")
    cache.clear()
    assert os.listdir(tmp_path / "cache") == []


def test_info_where_it_is_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("WENGERT_CACHE", "0")
    assert main(["cache", "info"]) == 0
    assert "off" in capsys.readouterr().out
