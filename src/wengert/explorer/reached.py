"""The tensors that a program can reach, and what it calls them: `w`, `model.layers.0.weight`, `net.layers[0].b`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.errors import WengertError
from ..core.tensor import Tensor
from ..execute.jit.surroundings import explore


def tensors(roots: Iterable[tuple[str, Any]]) -> list[tuple[str, Tensor]]:
    """The tensors that named roots lead to, each with the way there."""
    try:
        found = explore(roots)
    except WengertError:  # what cannot be compiled for what it reaches can be recorded all the same
        return []
    out = []
    for cell in found.cells:
        tensor = getattr(cell, "tensor", cell)
        if isinstance(tensor, Tensor) and tensor._data is not None:
            out.append((found.names.get((id(tensor),), ""), tensor))
    return out


def leaf_names(found: Iterable[tuple[str, Tensor]]) -> dict[int, str]:
    """Names by the identity of a leaf's node, or of its array where it has none."""
    return {key(t): name for name, t in found if name}


def parameters(found: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """Those of them that training changes."""
    return [(name, t) for name, t in found if t.is_leaf and t.requires_grad]


def key(tensor: Tensor) -> int:
    """What a leaf is known by in a recording."""
    return id(tensor.node) if tensor.node is not None else id(tensor._data)
