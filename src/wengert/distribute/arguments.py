"""Checks of arguments where they come in: an error names what a user gave, and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import DTypeError, GraphError, fail


def is_whole_number(given: Any) -> bool:
    """Return whether a value is a whole number, of Python's or NumPy's; True and False are none."""
    return isinstance(given, (int, np.integer)) and not isinstance(given, bool)


def whole_number(given: Any, what: str, mend: str, least: int = 1) -> int:
    """Return a whole number that a user gave. Raises GraphError, `what`, for a lesser one and for anything else."""
    if not is_whole_number(given) or given < least:
        fail(GraphError, what, mend)
    return int(given)


def as_function(given: Any, what: str) -> Callable[..., Any]:
    """Return a function that a user gave to `what`. Raises DTypeError for what cannot be called."""
    if not callable(given):
        fail(DTypeError, f"{what} of a {type(given).__name__}, which is no function", "It takes a function.")
    return given  # type: ignore[no-any-return]


def check_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], what: str) -> None:
    """Raise GraphError where a function does not take these arguments; one that tells no signature may."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as e:
        name = getattr(fn, "__name__", None) or repr(fn)
        fail(GraphError, f"{what} of {name}: {e}", f"It is {name}{signature}.")
