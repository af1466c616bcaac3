"""The playground: live training with the real engine, seen from the outside and the inside, forward and back in time.

`Playground` is what the local server serves. Experiments are classes of runs, listed in `EXPERIMENTS`; `protocol` says
what pages and sessions tell each other, `script` how a script of the reader's own joins in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from ...core.errors import DataError, fail
from ..document.document import document
from ..recording.recording import Recording
from ..server import Conversation, Post
from .classify import Regress, Separate
from .controls import settings
from .draws import Draws
from .flow import Vanishing
from .line import FitLine
from .run import Run
from .script import script_run
from .session import Session
from .units import DeadUnits

EXPERIMENTS: dict[str, type[Run]] = {run.name: run for run in (FitLine, Separate, Regress, DeadUnits, Vanishing)}


class Playground:
    """The playground as an application of the local server; with a script, that comes first."""

    title = "playground"
    kind: Literal["playground"] = "playground"

    def __init__(self, script: Path | None = None) -> None:
        if script is not None and not script.is_file():
            fail(DataError, f"there is no script {script}", "Give a Python file: wengert playground play.py.")
        own = {} if script is None else {"script": script_run(script)}
        self.experiments: dict[str, type[Run]] = {**own, **EXPERIMENTS}
        # The page opens with a step that was recorded; sessions send their own, of a script when it is asked for.
        empty = Recording([], [], [], title="nothing recorded yet")
        first = document(empty) if own else FitLine(settings(FitLine.controls, {})).record().document
        self.document: Mapping[str, Any] = first

    def open(self, post: Post) -> Conversation:
        return Session(self.experiments, post)


__all__ = ["EXPERIMENTS", "Draws", "Playground", "Run", "Session"]
