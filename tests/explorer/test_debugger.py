"""The debugger at a line of the program, asked for by a live page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from wengert.explorer import Exploration
from wengert.explorer.debugger import Debugger
from wengert.explorer.questions import answer
from wengert.explorer.recording.script import record_script

SCRIPT = """import sys
import wengert as wg

w = wg.tensor(float(sys.argv[1]), requires_grad=True)


def loss():
    y = w * 3.0
    return (y - 4.0) ** 2


loss().backward()
"""
LINE = 8


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "lesson.py"
    path.write_text(SCRIPT)
    return path


def span_of(found: Exploration, line: int) -> int:
    lines: list[int] = found.document["spans"]["line0"]
    return lines.index(line)


def asked(found: Exploration, line: int) -> dict[str, Any]:
    told = answer({"id": 1, "ask": "break", "node": span_of(found, line)}, found)
    assert told is not None
    return told


def explored(script: Path, function: str | None = None) -> Exploration:
    recording = record_script(script, function, ["2"])
    return Exploration(recording, compiled=False, debugger=Debugger(script, function, ["2"]))


def test_without_a_terminal_it_is_refused(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        told = asked(explored(script), LINE)
    assert told["answer"] is None
    assert "no terminal" in told["error"]
    alone = Exploration(record_script(script, None, ["2"]), compiled=False)
    assert "not served by a terminal" in asked(alone, LINE)["error"]


def test_places_that_were_not_recorded_are_no_question(script: Path) -> None:
    found = explored(script)
    for at in (-1, len(found.document["spans"]["line0"]), True, "lesson.py:8", None):
        assert answer({"id": 1, "ask": "break", "node": at}, found) is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize("function", [None, "loss"])
def test_it_stands_at_the_line_in_the_terminal(script: Path, function: str | None) -> None:
    import pty

    terminal, end = pty.openpty()
    where = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {where!r}); import test_debugger; test_debugger.serve(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(script), *([] if function is None else [function])]
    serving = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, cwd=script.parent)
    os.close(end)
    shown = until(terminal, "(Pdb)")
    assert "y = w * 3.0" in shown
    os.write(terminal, b"p sys.argv[1]\n")
    assert "'2'" in until(terminal, "(Pdb)")
    os.write(terminal, b"q\n")
    until(terminal, "has ended")
    assert serving.wait(60) == 0
    os.close(terminal)


def serve(script: str, function: str | None = None) -> None:
    """Do what the process behind a page does when it is asked; runs in a terminal."""
    found = explored(Path(script), function)
    debugger = found.debugger
    assert debugger is not None
    assert asked(found, LINE)["answer"]["at"] == f"lesson.py:{LINE}"
    assert debugger.is_open
    assert "open already" in asked(found, LINE)["error"]
    while any(thread.name == "debugger" for thread in threading.enumerate()):
        time.sleep(0.02)
    assert not debugger.is_open


def until(terminal: int, text: str) -> str:
    """Return what a terminal shows, until it shows a text."""
    shown = ""
    deadline = time.monotonic() + 60
    while text not in shown:
        assert time.monotonic() < deadline, shown
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError as e:  # the other end has gone
            raise AssertionError(shown) from e
    return shown


def test_ctrl_c_is_the_debuggers_while_it_is_open(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wengert.explorer import server

    found = explored(script)
    heard: list[int] = []
    monkeypatch.setattr(Debugger, "is_open", True)
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        server._leave_to_debugger(server.Exploring(found))
        signal.raise_signal(signal.SIGINT)
        assert heard == []
        monkeypatch.setattr(Debugger, "is_open", False)
        signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)
