"""Nested lists, tuples and dicts taken apart, under PyTorch's inner path `torch.utils._pytree`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...core import tree
from ..absent import names_of


def _is_none(x: Any) -> bool:
    return x is None


def tree_flatten(tree_: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], tree.Structure]:
    """Return the leaves and the structure that they stand in; None is a leaf."""
    return tree.flatten(tree_, _is_none if is_leaf is None else lambda x: x is None or is_leaf(x))


def tree_unflatten(leaves: Iterable[Any], treespec: tree.Structure) -> Any:
    """Return leaves in a structure."""
    return tree.unflatten(treespec, list(leaves))


def tree_leaves(tree_: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves."""
    return tree_flatten(tree_, is_leaf)[0]


def tree_map(fn: Callable[..., Any], tree_: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return the structure with a function of the leaves, and of those of further trees at their places."""
    leaves, found = tree_flatten(tree_, is_leaf)
    others = [tree_flatten(t, is_leaf)[0] for t in rest]
    return tree_unflatten([fn(*each) for each in zip(leaves, *others, strict=True)], found)


__all__ = ["tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]


__getattr__ = names_of(__name__)
