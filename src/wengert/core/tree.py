"""Pytrees: dicts, lists, tuples, named tuples, dataclasses and modules with tensors at their leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .errors import GraphError, fail

__all__ = [
    "Structure",
    "arranged",
    "flatten",
    "flatten_whole",
    "leaves",
    "map",
    "pair",
    "register",
    "structure",
    "unflatten",
]

Flatten = Callable[[Any], tuple[Sequence[Any], Any]]
Unflatten = Callable[[Any, Sequence[Any]], Any]

_registered: dict[type, tuple[Flatten, Unflatten]] = {}
_registered_whole: dict[type, tuple[Flatten, Unflatten]] = {}
# Types whose values are leaves: the answer to the most frequent question, before any other is asked.
known_leaves: set[type] = {float, int, bool, complex, str, np.ndarray}


def register(cls: type, flatten: Flatten, unflatten: Unflatten, whole: tuple[Flatten, Unflatten] | None = None) -> None:
    """Register `cls` (and its subclasses) as pytrees.

    `flatten(x)` gives `(children, aux)` with hashable-or-comparable `aux`; `unflatten(aux,
    children)` the instance again. `whole` is another such pair for classes whose `aux` has tensors in it: with all
    of them among the children.
    """
    _registered[cls] = (flatten, unflatten)
    _registered_whole[cls] = whole or (flatten, unflatten)
    known_leaves.difference_update([known for known in known_leaves if issubclass(known, cls)])


class Structure:
    """The shape of a pytree without its leaves; comparable, and printable with `*` for leaves."""

    __slots__ = ("kind", "aux", "children", "unflatten", "count")

    count: int

    def __init__(self, kind: Any, aux: Any, children: tuple[Structure, ...], unflatten: Unflatten | None) -> None:
        self.kind = kind
        self.aux = aux
        self.children = children
        self.unflatten = unflatten
        self.count = 1 if kind is None else sum(c.count for c in children)

    def build(self, leaves: Iterator[Any]) -> Any:
        if self.unflatten is None:
            return next(leaves)
        return self.unflatten(self.aux, [c.build(leaves) for c in self.children])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Structure)
            and self.kind is other.kind
            and self.children == other.children
            and self.aux == other.aux
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inner = ", ".join(repr(c) for c in self.children)
        if self.kind is dict:
            inner = ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.aux, self.children, strict=True))
            return f"{{{inner}}}"
        return f"{self.kind.__name__}({inner})"


_LEAF = Structure(None, None, (), None)


def _expand(
    x: Any, registered: dict[type, tuple[Flatten, Unflatten]]
) -> tuple[Any, Sequence[Any], Any, Unflatten] | None:
    """Return (kind, children, aux, unflatten) of a pytree, or None for a leaf."""
    kind = type(x)
    if kind in known_leaves:
        return None
    if kind is dict:
        return dict, list(x.values()), tuple(x), lambda keys, c: dict(zip(keys, c, strict=True))
    if kind is list:
        return list, x, None, lambda _, c: list(c)
    if kind is tuple:
        return tuple, x, None, lambda _, c: tuple(c)
    if x is None:
        return type(None), (), None, lambda _, c: None
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind, x, None, lambda _, c: kind(*c)
    for cls in kind.__mro__:
        if cls in registered:
            flatten, unflatten = registered[cls]
            children, aux = flatten(x)
            return kind, children, aux, unflatten
    if dataclasses.is_dataclass(kind):
        names = tuple(f.name for f in dataclasses.fields(x))
        return kind, [getattr(x, n) for n in names], names, lambda n, c: _rebuild_dataclass(kind, n, c)
    if isinstance(x, dict):
        return kind, list(x.values()), tuple(x), lambda keys, c: kind(zip(keys, c, strict=True))
    return None


def _rebuild_dataclass(kind: type, names: Sequence[str], children: Sequence[Any]) -> Any:
    out: Any = object.__new__(kind)
    for name, child in zip(names, children, strict=True):
        object.__setattr__(out, name, child)
    return out


def flatten(pytree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """Return the leaves of a pytree, in order, and its structure.

    >>> import wengert as wg
    >>> wg.tree.flatten({"a": 1, "b": [2, 3]})
    ([1, 2, 3], {'a': *, 'b': list(*, *)})
    """
    leaves: list[Any] = []
    structure = _flatten_into(leaves, pytree, is_leaf, _registered)
    return leaves, structure


def flatten_whole(pytree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a pytree with all other tensors in it, and a structure that refers to none.

    Of a module those are its buffers, frozen parameters and tensors in plain containers. Such a structure may outlive
    the values that the pytree had: what it builds shares nothing with that pytree but plain objects.

    >>> import wengert as wg
    >>> norm = wg.nn.BatchNorm1d(3)  # two parameters and three buffers
    >>> len(wg.tree.flatten(norm)[0]), len(wg.tree.flatten_whole(norm)[0])
    (2, 5)
    """
    leaves: list[Any] = []
    structure = _flatten_into(leaves, pytree, None, _registered_whole)
    return leaves, structure


# A function of its own: one nested in `flatten` that called itself would be a reference cycle, and
# keep every leaf alive until the collector comes by.
def _flatten_into(
    leaves: list[Any],
    x: Any,
    is_leaf: Callable[[Any], bool] | None,
    registered: dict[type, tuple[Flatten, Unflatten]],
) -> Structure:
    found = None if is_leaf is not None and is_leaf(x) else _expand(x, registered)
    if found is None:
        leaves.append(x)
        return _LEAF
    kind, children, aux, unflatten = found
    inside = tuple(_flatten_into(leaves, c, is_leaf, registered) for c in children)
    return Structure(kind, aux, inside, unflatten)


def leaves(pytree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a pytree, in order; a value of which `is_leaf` holds is one whatever is in it."""
    return flatten(pytree, is_leaf)[0]


def structure(pytree: Any) -> Structure:
    """Return the structure of a pytree."""
    return flatten(pytree)[1]


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """Return a pytree with this structure and these leaves. Raises GraphError when their number differs."""
    if len(leaves) != structure.count:
        fail(GraphError, f"{len(leaves)} leaves for a structure with {structure.count}: {structure}")
    return structure.build(iter(leaves))


def pair(first: Structure, second: Structure) -> Structure:
    """Return the structure of a tuple of two pytrees."""
    return Structure(tuple, None, (first, second), lambda _, c: tuple(c))


def arranged(leaves: Sequence[Any], found: Structure, wanted: Structure) -> list[Any] | None:
    """Return the leaves of a pytree of structure `found` in the order of `wanted`; None where the two differ.

    Dicts with the same keys in another order are the same pytree.
    """
    order = _order(found, wanted, 0)
    return None if order is None else [leaves[i] for i in order]


def _order(found: Structure, wanted: Structure, start: int) -> list[int] | None:
    """Return the positions of the leaves of `wanted` among those of `found`, which begin at `start`."""
    if found.kind is not wanted.kind or len(found.children) != len(wanted.children):
        return None
    if found.kind is None:
        return [start]
    starts = []
    for child in found.children:
        starts.append(start)
        start += child.count
    places: Sequence[int] = range(len(starts))
    if found.aux != wanted.aux:
        if not isinstance(found.kind, type) or not issubclass(found.kind, dict) or set(found.aux) != set(wanted.aux):
            return None
        by_key = {key: i for i, key in enumerate(found.aux)}
        places = [by_key[key] for key in wanted.aux]
    order: list[int] = []
    for place, child in zip(places, wanted.children, strict=True):
        part = _order(found.children[place], child, starts[place])
        if part is None:
            return None
        order += part
    return order


def map(fn: Callable[..., Any], pytree: Any, *rest: Any) -> Any:
    """Apply `fn` to the leaves of one pytree, or of several with the same structure (dict keys in any order).

    Raises GraphError when structures differ.

    >>> import wengert as wg
    >>> wg.tree.map(lambda p, g: p - g, {"w": 3}, {"w": 1})
    {'w': 2}
    """
    first, shape = flatten(pytree)
    columns = [first]
    for i, other in enumerate(rest, 1):
        more, found = flatten(other)
        column = arranged(more, found, shape)
        if column is None:
            fail(GraphError, f"pytree {i} has another structure than pytree 0: {found} and {shape}")
        columns.append(column)
    return unflatten(shape, [fn(*row) for row in zip(*columns, strict=True)])


def __dir__() -> list[str]:
    return sorted(__all__)
