"""PyTorch's compiler under its inner path: settings are taken, and `torch.compile` is :func:`wengert.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..absent import names_of
from ..compiler import OptimizedModule, allow_in_graph, assume_constant_result, compile, disable, is_compiling, reset
from . import config


def optimize(backend: Any = "inductor", **options: Any) -> Callable[..., Any]:
    """Return a decorator that compiles."""
    return lambda fn: compile(fn, backend=backend)


def run(fn: Any = None) -> Any:
    """Return the function."""
    return fn


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Do nothing: sizes are symbols from the second one on."""


maybe_mark_dynamic = mark_static = mark_unbacked = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Do nothing: where a tensor lies is found out in each call."""


def graph_break(msg: str = "") -> None:
    """Do nothing: a function is compiled whole, or runs eagerly."""


def is_dynamo_supported() -> bool:
    """Return True: functions are compiled."""
    return True


__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "reset",
    "run",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
