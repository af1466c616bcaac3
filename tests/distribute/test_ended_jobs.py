"""Jobs end with what has started them, whatever ends that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from wengert.distribute.engines.job import _stopped_by_signals, lack

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="signals and pipes with names are of POSIX systems")
SIGNALS = ["SIGTERM", "SIGHUP", "SIGKILL"]

# A job of two processes that are no ranks: one that the launcher stops, as mpiexec is, and one that only it knows.
LAUNCHER = """
import subprocess, sys
from wengert.distribute.engines import job

RANK = '''
import os, sys, time
from wengert.distribute.engines.job import end_with_launcher
end_with_launcher()
open(sys.argv[1] + str(os.getpid()), "w").close()
time.sleep(60)
'''
STARTER = '''
import subprocess, sys
sys.exit(subprocess.Popen([sys.executable, "-c", *sys.argv[1:]]).wait())
'''

def start(ranks, arguments, variables, engine):
    command = [sys.executable, "-c", STARTER, RANK, sys.argv[1]]
    return subprocess.Popen(command, env={**__import__("os").environ, **variables})

job.start = start
job.launch(1, __file__)
"""
SCRIPT = """
import os, sys, wengert as wg
open(sys.argv[1] + str(os.getpid()), "w").close()
while True:
    wg.distribute.all_reduce(wg.ones(100), "ranks")
"""


def lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return Path("/proc/self").exists() is False


def within(seconds: float, found: Any) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found():
            return True
        time.sleep(0.02)
    return False


def ended_by(name: str, command: list[str], ranks: int, folder: Path) -> None:
    """Start a job, end what has started it, and see its ranks end, and what they had in shared memory go."""
    shared = Path("/dev/shm")
    before = set(os.listdir(shared)) if shared.exists() else set()
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
    job = subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    numbers: list[int] = []
    try:
        assert within(60, lambda: len(list(folder.glob("rank-*"))) == ranks)
        numbers += [int(path.name[5:]) for path in folder.glob("rank-*")]
        assert all(map(lives, numbers))
        job.send_signal(getattr(signal, name))
        assert job.wait(30) == -getattr(signal, name)
        assert within(20, lambda: not any(map(lives, numbers)))
        if shared.exists():
            assert within(20, lambda: not [n for n in set(os.listdir(shared)) - before if "segment" in n])
        assert within(10, lambda: not list(folder.glob("wengert-ending-*")))
    finally:
        for number in [job.pid, *filter(lives, numbers)]:
            if lives(number):
                os.kill(number, signal.SIGKILL)
        job.wait(30)


@posix
@pytest.mark.parametrize("name", SIGNALS)
def test_a_job_ends_with_its_launcher(name: str, tmp_path: Path) -> None:
    launcher = tmp_path / "launcher.py"
    launcher.write_text(LAUNCHER)
    ended_by(name, [sys.executable, str(launcher), str(tmp_path / "rank-")], 1, tmp_path)


@posix
@pytest.mark.skipif(bool(lack()), reason="ranks as processes need mpi4py and mpiexec")
@pytest.mark.parametrize("name", SIGNALS)
def test_ranks_of_mpi_end_with_their_launcher(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "wengert.cli", "launch", "-n", "2", str(script), str(tmp_path / "rank-")]
    ended_by(name, command, 2, tmp_path)


def test_handlers_of_the_users_stay() -> None:
    """A program that handles a signal itself goes on to, and gets its default back otherwise."""
    before = signal.getsignal(signal.SIGTERM)
    seen: list[int] = []
    try:
        signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
        mine = signal.getsignal(signal.SIGTERM)
        with _stopped_by_signals():
            assert signal.getsignal(signal.SIGTERM) is mine
            signal.raise_signal(signal.SIGTERM)
        assert (seen, signal.getsignal(signal.SIGTERM)) == ([signal.SIGTERM], mine)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with _stopped_by_signals():
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
