"""The user's own training script, run step by step."""

from __future__ import annotations

from typing import Any


class ScriptFault(Exception):
    """The user's script raised. `told` is what the page shows: the error, the line, and its text."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["text"])
        self.told = told
