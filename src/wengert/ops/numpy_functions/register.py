"""The table of NumPy's functions that are written anew for tensors, by NumPy's own arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import RangeError, fail
from ..structure.shapes import as_operand

Adapter = Callable[..., Any]

# By NumPy's function: what runs in its place where tensors are among the arguments.
OWN: dict[Any, Adapter] = {}
# By NumPy's ufunc, for those that are no op and no function of Wengert's by another name.
UFUNCS: dict[Any, Adapter] = {}


class Unlike(Exception):
    """An error for a call that Wengert's function does not take; its text ends the sentence "does not take ..."."""


def own(*functions: Any) -> Callable[[Adapter], Adapter]:
    """Run a function in the place of these of NumPy's."""

    def register(f: Adapter) -> Adapter:
        for function in functions:
            OWN[function] = f
        return f

    return register


def ufunc(*ufuncs: Any) -> Callable[[Adapter], Adapter]:
    """Run a function in the place of these ufuncs of NumPy's."""

    def register(f: Adapter) -> Adapter:
        for function in ufuncs:
            UFUNCS[function] = f
        return f

    return register


def in_numpys_dtype(value: Any) -> Any:
    """Return an argument with its lists of numbers with fractions as arrays: NumPy's are of float64.

    Lists of integers stay: they may be axes, sizes and places.
    """
    if type(value) not in (list, tuple):
        return value
    kinds = _kinds(value)
    if kinds <= {bool, int, float, complex} and kinds & {float, complex}:
        return np.asarray(value)
    return type(value)([in_numpys_dtype(part) for part in value])


def _kinds(value: Any) -> set[type]:
    """Return the types that stand in nested lists."""
    if type(value) not in (list, tuple):
        return {type(value)}
    return {kind for part in value for kind in _kinds(part)}


class _Namespace:
    """Wengert's public functions by name, as they are when one is asked for: all op modules have been read by then."""

    def __getattr__(self, name: str) -> Any:
        return getattr(as_operand(0.0).__array_namespace__(), name)


xp: Any = _Namespace()


def inexact(x: Any) -> Any:
    """Return an operand as NumPy's functions of fractions take it: integers and booleans in float64."""
    x = as_operand(x)
    return x if x.spec.inexact else x.astype("float64")


def axis_of(x: Any, axis: int) -> int:
    """Return an axis counted from the front. Raises what NumPy does for one that is not there."""
    if not -x.ndim <= axis < x.ndim:
        fail(RangeError, f"axis {axis} of a tensor of {x.ndim} axes, {x.spec}")
    return axis % int(x.ndim)
