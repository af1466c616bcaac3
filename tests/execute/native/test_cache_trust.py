"""What another user could have written is never read from the cache on disk, nor is anything written where he chose."""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")
if not hasattr(os, "geteuid"):
    pytest.skip("owners and modes are POSIX's", allow_module_level=True)

from wengert.cli import main
from wengert.execute.native.codegen import machine, private_folder
from wengert.execute.native.codegen import object_cache as cache

TARGET = machine.host()
SOMEBODY = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can play two users")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's folder, in which nothing is yet."""
    found = tmp_path / "cache"
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(found))
    monkeypatch.delenv("WENGERT_CACHE", raising=False)
    monkeypatch.delenv("WENGERT_CACHE_SIZE", raising=False)
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(cache, "_open", {})
    return found


def file_of(name: str) -> Path:
    return Path(cache._path(name))


def is_kept(name: str = "k9") -> bool:
    """Whether the cache takes something and gives it back."""
    cache.keep(name, TARGET, b"some code")
    return cache.load(name, TARGET) == b"some code"


def reopen() -> None:
    """What the next process does: it finds no folder open."""
    cache._open.clear()


def refuses(words: str) -> None:
    """The cache is not used, which one warning says, and nothing is an error."""
    reopen()
    with pytest.warns(UserWarning, match=words) as told:
        assert not is_kept()
    assert len(told) == 1
    assert "compiled code is not kept in" in str(told[0].message)
    assert "WENGERT_CACHE_DIR" in str(told[0].message)
    assert not is_kept()  # and says no more


def as_somebody(work: Callable[[], bool]) -> bool:
    """Whether something is so for another user, in a process of his."""
    child = os.fork()
    if child == 0:
        try:
            os.setegid(SOMEBODY)
            os.seteuid(SOMEBODY)
            os._exit(0 if work() else 1)
        except BaseException as e:
            print(repr(e), file=sys.stderr, flush=True)
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    return status == 0


# -- files


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _second_name(path: Path) -> None:
    os.link(path, path.with_name("second"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(path.parent)  # their names are short
        s.bind(path.name)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _device(path: Path) -> None:
    path.unlink()
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))  # zeros without end
    except PermissionError:
        pytest.skip("only root makes devices")


def _enormous(path: Path) -> None:
    os.truncate(path, 1 << 40)


def _writable(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("become", [_link, _second_name, _pipe, _socket, _folder, _device, _enormous, _writable])
def test_only_plain_files_are_opened(become: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(os.getcwd())
    assert is_kept("k1")
    become(file_of("k1"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            assert cache.load("k1", TARGET) is None
            reopen()
    assert told == []
    if become is not _folder:  # made anew, in its place
        assert is_kept("k1")
        assert stat.S_ISREG(file_of("k1").lstat().st_mode)


@needs_root
def test_a_file_of_another_user_is_not_read() -> None:
    assert is_kept("k1")
    os.chown(file_of("k1"), SOMEBODY, 0)
    assert cache.load("k1", TARGET) is None
    assert is_kept("k1")


def test_damaged_files_are_never_code(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    cache.keep("k1", TARGET, bytes(range(256)) * 2)
    whole, status = file_of("k1").read_bytes(), file_of("k1").stat()
    read = private_folder.Folder.read
    for i in range(10_000):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at, kind = rng.randrange(len(damaged) + 1), rng.randrange(4)
            if kind == 0 and at < len(damaged):
                damaged[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del damaged[at : at + rng.choice((1, 4, 1000))]
            elif kind == 2:
                damaged[at:at] = rng.randbytes(rng.choice((1, 4, 100)))
            else:
                damaged[at : at + 8] = bytes(8)
        if i % 50:  # most without a disk
            monkeypatch.setattr(private_folder.Folder, "read", lambda *_, d=bytes(damaged): (d, status))
        else:
            monkeypatch.setattr(private_folder.Folder, "read", read)
            file_of("k1").write_bytes(damaged)
        found = cache.load("k1", TARGET)
        assert found is None or bytes(damaged) == whole


# -- folders


def test_modes_do_not_depend_on_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        assert is_kept("k1")
        cache.keep_plan("p1", b"plan")
    finally:
        os.umask(before)
    found = list(place.rglob("*"))
    assert len(found) >= 5
    for path in (place, *found):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_missing_folders_on_the_way_are_private_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(place / "a" / "b"))
    before = os.umask(0)
    try:
        assert is_kept()
    finally:
        os.umask(before)
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o700 for p in (place, place / "a", place / "a" / "b"))


@pytest.mark.parametrize("which", ["", "code", "edition"])
@pytest.mark.parametrize("mode", [0o777, 0o702, 0o770])
def test_a_folder_that_others_may_write_to(which: str, mode: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_kept("k1")
    folder = {"": place, "code": place / "code", "edition": file_of("k1").parent}[which]
    if mode == 0o770:  # by a group of which nobody knows who is in it
        monkeypatch.setattr(private_folder, "_is_own_group", lambda group: False)
    folder.chmod(mode)
    refuses("others may write to .*chmod go-w")
    folder.chmod(0o700)
    assert is_kept()


def test_a_group_of_ones_own_may_write(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_kept("k1")
    monkeypatch.setattr(private_folder, "_is_own_group", lambda group: True)
    place.chmod(0o775)
    reopen()
    assert is_kept()


def test_a_folder_whose_mode_changes_while_it_is_open(place: Path) -> None:
    assert is_kept("k1")
    file_of("k1").parent.chmod(0o777)
    with pytest.warns(UserWarning, match="others may write to"):
        assert cache.load("k1", TARGET) is None


def test_parents_that_others_may_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(parent / "cache"))
    assert is_kept()
    parent.chmod(0o777)
    refuses("others may write to .*parent")
    parent.chmod(0o1777)  # there everybody keeps what is his
    reopen()
    assert is_kept()


@needs_root
@pytest.mark.parametrize("which", ["parent", "cache", "code", "edition"])
def test_folders_of_another_user(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "parent" / "cache"
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(place))
    assert is_kept("k1")
    folder = {"parent": place.parent, "cache": place, "code": place / "code", "edition": file_of("k1").parent}[which]
    os.chown(folder, SOMEBODY, 0)
    refuses(f"belongs to user {SOMEBODY}")


# -- links


def test_links_of_ones_own_lead_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "up").symlink_to(tmp_path / "link" / ".." / "real" / "deep")
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "link" / "up"))
    assert is_kept()
    assert (tmp_path / "real" / "deep" / "code").is_dir()
    assert cache.place() == (str(tmp_path / "link" / "up"), "")


def test_links_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "a" / "c"))
    assert not is_kept()


@needs_root
@pytest.mark.parametrize("name", ["link", "link/cache"])
def test_a_link_of_another_user_is_not_followed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / name))
    assert is_kept()
    os.lchown(tmp_path / "link", SOMEBODY, SOMEBODY)
    refuses("a link that another user made")


@pytest.mark.parametrize("which", ["code", "edition"])
def test_no_link_is_followed_inside(which: str, place: Path, tmp_path: Path, capsys: Any) -> None:
    assert is_kept("k1")
    folder = {"code": place / "code", "edition": file_of("k1").parent}[which]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    reopen()
    before = sorted(str(p) for p in (tmp_path / "elsewhere").rglob("*"))
    assert cache.load("k1", TARGET) is None
    cache.keep("k2", TARGET, b"code")
    assert cache.entries() == []
    main(["cache", "clear"])
    assert "0 kernels" in capsys.readouterr().out
    assert sorted(str(p) for p in (tmp_path / "elsewhere").rglob("*")) == before


# -- a folder for several users


@needs_root
def test_users_of_one_folder_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in reversed((tmp_path, *tmp_path.parents)):
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & stat.S_IXOTH:
            monkeypatch.undo()
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(shared))
    reopen()
    assert is_kept("k1")
    reopen()
    assert as_somebody(lambda: is_kept("k1"))
    assert sorted(os.listdir(shared)) == ["wengert-0", f"wengert-{SOMEBODY}"]
    assert {p.stat().st_uid for p in (shared / f"wengert-{SOMEBODY}").rglob("*")} == {SOMEBODY}
    assert stat.S_IMODE((shared / f"wengert-{SOMEBODY}").stat().st_mode) == 0o700
    assert cache.place() == (str(shared / "wengert-0"), "")

    # What somebody else prepares under our name is not used.
    own = shared / "wengert-0"
    own.rename(shared / "away")
    own.mkdir(mode=0o700)
    os.chown(own, SOMEBODY, SOMEBODY)
    refuses(f"belongs to user {SOMEBODY}")
    own.rmdir()
    own.symlink_to(shared / "away")
    monkeypatch.setattr(cache, "_warned", set())
    reopen()
    assert not is_kept()


# -- a program goes on

PROGRAM = """
import sys, warnings
import numpy as np
import wengert as wg
from wengert.execute.native.codegen import object_cache as cache
f = wg.jit(lambda x: wg.exp(x) * 2 + wg.sin(x))
for _ in range(3):
    assert np.allclose(f(wg.tensor([0.5, 1.0])).numpy(), np.exp([0.5, 1.0]) * 2 + np.sin([0.5, 1.0]))
print(len(cache.entries()))
"""


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *options, "-c", PROGRAM], capture_output=True, text=True, timeout=120)


def test_a_program_goes_on_without_the_cache(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    found = run()
    assert found.returncode == 0, found.stderr
    assert found.stdout == "0\n"
    assert found.stderr.count("compiled code is not kept in") == 1
    assert "<string>:" in found.stderr
    strict = run("-W", "error")
    assert strict.returncode == 0, strict.stderr


def test_a_pipe_in_the_place_of_code_stops_nothing(place: Path) -> None:
    assert int(run().stdout) > 0
    for entry in cache.entries():
        os.unlink(entry.path)
        os.mkfifo(entry.path)
    assert int(run().stdout) > 0  # renamed over them


def test_killed_between_writing_and_renaming(place: Path) -> None:
    script = (
        "import os, signal\n"
        "os.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from wengert.execute.native.codegen import object_cache as cache, machine\n"
        "cache.keep('k1', machine.host(), b'code')\n"
    )
    found = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    assert found.returncode == -signal.SIGKILL
    assert cache.load("k1", TARGET) is None
    assert cache.entries() == []
    (left,) = file_of("k1").parent.iterdir()
    assert left.name.startswith(".k1.obj.")
    os.utime(left, (0, time.time() - 2 * cache.ABANDONED_AFTER))
    cache.look_over()
    assert is_kept("k1")
    assert not left.exists()


def test_info_and_clear_say_why_not(place: Path, capsys: Any) -> None:
    assert is_kept()
    place.chmod(0o777)
    reopen()
    assert main(["cache", "info"]) == 0
    assert "on, but not used: others may write to" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 1
    assert "nothing was deleted" in capsys.readouterr().out
    place.chmod(0o700)
    assert len(cache.entries()) == 1


def test_open_folders_are_looked_at_again(place: Path) -> None:
    assert is_kept("k1")
    cache.clear()
    assert not (place / "code").exists()
    assert is_kept("k1")
    held = cache._open[str(file_of("k1").parent)]
    assert held.file is not None
    os.close(held.file)  # as a program that becomes a daemon does
    held.file = os.open("/dev/null", os.O_RDONLY)
    assert is_kept("k1")


def test_no_folder_is_left_open() -> None:
    assert is_kept()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        cache.clear()
        assert is_kept()
        cache.entries()
        cache.look_over()
    after = len(os.listdir("/proc/self/fd")) if before else 0
    assert after <= before + 2
