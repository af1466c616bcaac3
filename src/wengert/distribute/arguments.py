"""Checks of arguments where they come in: an error names what a user gave, and what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.errors import DTypeError, GraphError, fail
from ..core.state.cached import cached_property


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


class Parameters:
    """The parameters of a function: the places of its arguments, where it tells them."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._name = getattr(fn, "__name__", None) or repr(fn)

    @cached_property
    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(self._fn)
        except (TypeError, ValueError):
            return None

    def takes(self, name: str) -> bool:
        """Return whether the function has a parameter of this name."""
        return self._signature is not None and name in self._signature.parameters

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any], what: str, more: str = "") -> None:
        """Raise GraphError where the function does not take these arguments; one that tells no signature may."""
        if self._signature is None:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as e:
            fail(GraphError, f"{what} of {self._name}: {e}", f"It is {self._name}{self._signature}.{more}")

    def by_position(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], count: int, what: str) -> tuple[Any, ...]:
        """Return the arguments of a call by their positions: those by name too, and defaults before them.

        Where there are fewer than `count`, defaults come after them. Raises GraphError for what has no position.
        """
        if not kwargs and len(args) == count:
            return args
        if self._signature is None:
            if kwargs:
                self._refuse(kwargs, what, f"{self._name} does not tell its parameters: pass all by position.")
            return args
        self.check(args, kwargs, what)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        places = [p for p in self._signature.parameters.values() if p.kind in kinds]
        names = [p.name for p in places if p.kind is not inspect.Parameter.POSITIONAL_ONLY]
        if apart := [name for name in kwargs if name not in names]:
            self._refuse(apart, what, f"It is {self._name}{self._signature}.")
        count = max(count, *(i + 1 for i, p in enumerate(places) if p.name in kwargs), 0)
        found = list(args)
        for p in places[len(args) : count]:
            value = kwargs.get(p.name, p.default)
            if value is inspect.Parameter.empty:
                break
            found.append(value)
        return tuple(found)

    @staticmethod
    def _refuse(names: Collection[str], what: str, mend: str) -> NoReturn:
        fail(
            GraphError,
            f"{what} with {', '.join(names)} by name, which {'has' if len(names) == 1 else 'have'} no position",
            f"in_specs has an entry for each argument, by position. {mend}",
        )


def check_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], what: str) -> None:
    """Raise GraphError where a function does not take these arguments; one that tells no signature may."""
    Parameters(fn).check(args, kwargs, what)
