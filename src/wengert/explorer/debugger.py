"""Python's debugger at a line of the program, in the terminal that a live page was served from."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import GraphError, StateError, fail
from ..core.state import locks


@dataclass(eq=False)
class Debugger:
    """The ways to lines of one script: what runs it once more, up to a breakpoint.

    `function` is the one of its functions that was recorded, None where the script itself was; `arguments` are the
    script's. It is one debugger at a time, as there is one terminal.
    """

    script: Path
    function: str | None = None
    arguments: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = None
    _one: locks.RLock = field(default_factory=locks.lock)

    def command(self, file: str, line: int) -> list[str]:
        """Return the command that runs the script to the first time that it comes to a line."""
        to = [sys.executable, "-m", "pdb", "-c", f"break {file}:{line}", "-c", "continue"]
        if self.function is None:
            return [*to, str(self.script), *self.arguments]
        return [*to, "-m", "wengert", "explore", "--check", f"{self.script}:{self.function}", *self.arguments]

    @property
    def is_open(self) -> bool:
        """True while the debugger has the terminal: then what is typed there, Ctrl-C as well, is for it."""
        return self._process is not None and self._process.poll() is None

    def start(self, file: str, line: int) -> None:
        """Start the debugger, and return while it runs.

        Raises StateError where there is no terminal to type into, or a debugger has it; GraphError for a file that
        is not there.
        """
        if sys.stdin is None or not sys.stdin.isatty():
            fail(StateError, "the debugger has no terminal", "Run the command in one.")
        if not os.path.isfile(file):
            fail(GraphError, f"the file {file} is not there any more", "Run the command where it is.", file)
        with self._one:
            if self.is_open:
                fail(StateError, "the debugger is open already", "Leave it first: q in the terminal.")
            print(f"\nThe debugger, at {file}:{line}: c goes on, q leaves it.", flush=True)
            self._process = subprocess.Popen(self.command(file, line))
            threading.Thread(target=self._wait, args=(self._process,), name="debugger", daemon=True).start()

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        print("The debugger has ended; the page is still served. Ctrl-C ends it.", flush=True)
