"""Positions as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from ...core import tree
from ...core.errors import DTypeError, ShapeError, fail
from ...core.spec import category


class Layout:
    """The numbers of a pytree in a row."""

    def __init__(self, initial: Any) -> None:
        leaves, self.structure = tree.flatten(initial)
        tensors = [wg.asarray(leaf) for leaf in leaves]
        kinds = {t.dtype for t in tensors}
        if len(kinds) != 1 or category(tensors[0].dtype) != 2:
            shown = ", ".join(str(t.spec) for t in tensors) or "no tensor"
            fail(DTypeError, f"an initial position of {shown}", "Give floating tensors of one dtype, float64 say.")
        self.shapes = [t.shape for t in tensors]
        self.first = wg.concat([wg.reshape(t, (-1,)) for t in tensors]).detach()
        self.size, self.dtype = self.first.size, tensors[0].dtype
        self.leaf_names = leaf_names(self.structure)
        self.names = tuple(
            f"{name}[{', '.join(map(str, i))}]" if shape else name
            for name, shape in zip(self.leaf_names, self.shapes, strict=True)
            for i in np.ndindex(*shape)
        )

    def tree(self, flat: Any) -> Any:
        """Return the pytree of numbers that lie along the last axis."""
        found, at = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            found.append(flat[..., at : at + size].reshape((*flat.shape[:-1], *shape)))
            at += size
        return tree.unflatten(self.structure, found)

    def density(self, logp: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
        """Return the function from a row of numbers to the logarithm of the density, and its gradient."""
        name = getattr(logp, "__name__", type(logp).__name__)

        def scalar(row: Any) -> Any:
            found = wg.asarray(logp(self.tree(row)))
            if found.shape != ():
                fail(ShapeError, f"the log density {name} returned {found.spec}", "It has to be one number: sum it.")
            if found.dtype.kind != "f":
                fail(DTypeError, f"the log density {name} returned {found.spec}", "It has to be a floating number.")
            return found.astype(self.dtype)

        both = wg.value_and_grad(scalar)

        def density(row: Any) -> tuple[Any, Any]:
            found: tuple[Any, Any] = both(row)
            return found

        return density


def leaf_names(structure: Any) -> list[str]:
    """Return names of the leaves: keys and positions, joined by dots; `x` for what has none."""
    found: list[str] = []
    waiting = [(structure, "")]
    while waiting:
        at, name = waiting.pop()
        if at.kind is None:
            found.append(name or "x")
            continue
        keys = at.aux if at.kind is dict else getattr(at.kind, "_fields", range(len(at.children)))
        waiting += [(c, f"{name}.{k}" if name else str(k)) for k, c in zip(keys, at.children, strict=True)][::-1]
    return [f"x.{n}" if n.isdigit() else n for n in found]
