"""The tensors that a program can reach, by its own names: `w`, `model.layers.0.weight`, `net.layers[0].b`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.errors import WengertError
from ...core.tensor import Tensor
from ...execute.jit.capture.search import explore


def tensors(roots: Iterable[tuple[str, Any]]) -> list[tuple[str, Tensor]]:
    """Return the tensors that named roots lead to, each with the way there: the most direct of several."""
    try:
        found = explore(sorted([*_opened(roots)], key=lambda root: _distance(root[1])))
    except WengertError:  # what cannot be compiled for what it reaches can be recorded all the same
        return []
    out = []
    for cell in found.cells:
        tensor = getattr(cell, "tensor", cell)
        if isinstance(tensor, Tensor) and tensor._array is not None:
            out.append((found.names.get((id(tensor),), ""), tensor))
    return out


def arrays(roots: Iterable[tuple[str, Any]]) -> list[tuple[str, Array]]:
    """Return the NumPy arrays among named roots, and among the variables from outside that functions among them use."""
    return [(name, found) for name, found in _opened(roots) if name and isinstance(found, np.ndarray)]


def _opened(roots: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the roots, and the variables from outside that functions among them use."""
    for name, root in roots:
        inner = getattr(inspect.unwrap(root), "__func__", inspect.unwrap(root)) if callable(root) else None
        if inspect.isfunction(inner) and not name:
            variables = inspect.getclosurevars(inner)
            yield from {**variables.globals, **variables.nonlocals}.items()
        yield name, root


def _distance(root: Any) -> int:
    """Return how directly a root has tensors: it is one, it is a model, it is something else, as an optimiser is."""
    return 0 if isinstance(root, Tensor) else 1 if hasattr(type(root), "named_parameters") else 2


def leaf_names(found: Iterable[tuple[str, Tensor]]) -> dict[int, str]:
    """Return names by the identity of a leaf's node, or of its array where it has none."""
    return {key(t): name for name, t in found if name}


def parameters(found: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """Return those of them that training changes."""
    return [(name, t) for name, t in found if t.is_leaf and t.requires_grad]


def key(tensor: Tensor) -> int:
    """Return the key of a leaf in a recording."""
    return id(tensor.node) if tensor.node is not None else id(tensor._array)
