"""Checks that PyTorch's transforms make of their arguments and of the functions that they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...core import tree
from ...core.errors import GraphError, ShapeError, fail
from ...core.tensor import Tensor as Plain
from ..autograd.levels import within

Argnums = int | tuple[int, ...]


def slice_argnums(args: Sequence[Any], argnums: Any, as_tuple: bool = True) -> Any:
    """Return the arguments that `argnums` names, in a tuple unless it is an int and `as_tuple` is False.

    Raises GraphError for what is no int or tuple of such, is out of bounds, or names an argument twice.
    """
    if not isinstance(argnums, int) and not isinstance(argnums, tuple):
        fail(GraphError, f"argnums={argnums!r}", "It is an int or a tuple of ints.")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        fail(GraphError, "argnums=(): it must be non-empty", "Name an argument at least.")
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        fail(GraphError, f"argnums={argnums!r}: each must be int", "It is an int or a tuple of ints.")
    if not all(-len(args) <= n < len(args) for n in numbers):
        fail(GraphError, f"argnums={argnums!r} of a function that is given {len(args)} positional inputs")
    if len({n % len(args) for n in numbers}) < len(numbers):
        fail(GraphError, f"argnums={argnums!r}: they must be unique", "Each argument is named once.")
    return tuple(args[n] for n in numbers) if isinstance(argnums, tuple) or as_tuple else args[argnums]


def fitting(argnums: Any, transformed: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transformed function that looks at `argnums` beside its arguments; see :func:`slice_argnums`."""

    @functools.wraps(transformed, updated=())
    def checked(*args: Any, **kwargs: Any) -> Any:
        slice_argnums(args, argnums)
        return transformed(*args, **kwargs)

    return checked


def giving_tensors(func: Callable[..., Any], name: str, has_aux: bool) -> Callable[..., Any]:
    """Return a function inside the transform `name`, whose results have to be tensors, those beside them too.

    Raises GraphError for results of another kind, and for none at all.
    """
    run = within(func, name)

    @functools.wraps(func, updated=())
    def checked(*args: Any, **kwargs: Any) -> Any:
        found = run(*args, **kwargs)
        if has_aux and not (isinstance(found, tuple) and len(found) == 2):
            fail(GraphError, f"{name}(has_aux=True): the result should be a tuple (output, aux)")
        out, aux = found if has_aux else (found, None)
        leaves = tree.flatten(out)[0]
        if not leaves:
            fail(GraphError, f"{name}: expected a function that has a non-empty output")
        for leaf in leaves:
            if not isinstance(leaf, Plain):
                fail(GraphError, f"{name}: expected a function that returns only tensors, not a {type(leaf).__name__}")
        for leaf in tree.flatten(aux)[0]:
            if not isinstance(leaf, Plain):
                fail(GraphError, f"{name}: expected tensors beside the result, not a {type(leaf).__name__}")
        return found

    return checked


def axes_begin_like(in_dims: Any, args: Any) -> None:
    """Raise ShapeError unless `in_dims` is an int, or a tuple that begins like the arguments of `vmap`."""
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        fail(ShapeError, f"vmap: in_dims={in_dims!r}", "It is an int, or a tuple with an entry for each argument.")
    if isinstance(in_dims, tuple) and not _begins_like(in_dims, args):
        fail(
            ShapeError,
            f"vmap: in_dims={in_dims!r} for arguments {tree.structure(args)}",
            "Give an axis or None for each, or a pytree that begins like the argument: a list for a list.",
        )


def _begins_like(entry: Any, value: Any) -> bool:
    if entry is None or isinstance(entry, int):
        return True
    if isinstance(entry, dict):
        return (
            isinstance(value, dict)
            and entry.keys() == value.keys()
            and all(_begins_like(entry[k], value[k]) for k in entry)
        )
    if isinstance(entry, (tuple, list)):
        kind = tuple if isinstance(entry, tuple) else list
        return isinstance(value, kind) and len(entry) == len(value) and all(map(_begins_like, entry, value))
    return tree.structure(entry) == tree.structure(value)
