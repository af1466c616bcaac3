"""The parts of every backend of PyTorch's: settings that are taken, and contexts that set them for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any


def flags_of(names: dict[str, Any]) -> Callable[..., AbstractContextManager[None]]:
    """Return a context that gives settings of a module, its globals, other values until its end."""

    @contextmanager
    def flags(**given: Any) -> Iterator[None]:
        before = {name: names.get(name) for name in given}
        names.update(given)
        try:
            yield
        finally:
            names.update(before)

    flags.__doc__ = "Return a context in which the settings have other values. They change nothing."
    return flags


def answer(value: Any, doc: str) -> Callable[..., Any]:
    """Return a function that gives one value, whatever it is asked."""

    def ask(*args: Any, **kwargs: Any) -> Any:
        return value

    ask.__doc__ = doc
    return ask


def settings(**values: Any) -> SimpleNamespace:
    """Return settings as attributes, which can be assigned and change nothing."""
    return SimpleNamespace(**values)


NOT_THERE = "Return False: it is not there."
