"""The playground: live training with the real engine, seen from the outside and the inside, forward and back in time.

`Playground` is what the local server serves. Experiments are classes of runs, listed in `EXPERIMENTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..server import Conversation, Post
from .controls import settings
from .line import FitLine
from .run import Run
from .session import Session

EXPERIMENTS: dict[str, type[Run]] = {run.name: run for run in (FitLine,)}


class Playground:
    """The playground as an application of the local server."""

    title = "playground"
    kind: Literal["playground"] = "playground"

    def __init__(self) -> None:
        self.experiments: dict[str, type[Run]] = dict(EXPERIMENTS)
        # The page opens with a step that was recorded; sessions send their own.
        self.document: Mapping[str, Any] = FitLine(settings(FitLine.controls, {})).record().document

    def open(self, post: Post) -> Conversation:
        return Session(self.experiments, post)


__all__ = ["EXPERIMENTS", "Playground", "Run", "Session"]
