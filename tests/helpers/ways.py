"""The ways by which a call of a compiled function can go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def only_python(step: Any) -> None:
    """Let calls go by generated Python."""
    step.call_by(None)
    step._short = tuple(f for f in step._short if hasattr(f, "__code__"))


def only_general(step: Any) -> None:
    """Let calls go the general way."""
    step.call_by(None)
    step._short = ()


WAYS: dict[str, Callable[[Any], None]] = {"native": lambda step: None, "python": only_python, "general": only_general}
