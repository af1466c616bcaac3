"""PyTorch's profiler, which is not there; see `wg.explain` and `wg.jit(...).trace` for what takes time."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from ...core.errors import GraphError, fail
from ..absent import names_of


class record_function(ContextDecorator):
    """A context, or a decorator, without effect: it names a part of a program for a profiler."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class profile:
    """Raises GraphError: there is no such profiler. `enabled=False` gives a context without effect."""

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        if enabled:
            fail(
                GraphError,
                "PyTorch's profiler is not there",
                "Compile the function, f = torch.compile(f), and see f.trace(...); or use Python's cProfile.",
            )

    def __enter__(self) -> profile:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


__all__ = ["profile", "record_function"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
