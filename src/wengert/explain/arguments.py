"""The arguments of a function that is asked about: what is tracked, and what it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import tree
from ..core.spec import category
from ..core.tensor import Tensor, asarray
from ..transforms.variables import variable


@dataclass
class Arguments:
    """A function's arguments with floating leaves tracked, and what they are called."""

    args: tuple[Any, ...]
    tensors: list[tuple[str, Tensor]]

    def name_of(self, array: Any) -> str:
        """The name of the argument with this buffer; "" for another."""
        return next((name for name, t in self.tensors if t._data is array), "")


def arguments(fn: Callable[..., Any], args: Sequence[Any]) -> Arguments:
    """Track the floating leaves of nests; modules and tensors that require gradients stay what they are."""
    names = parameter_names(fn, len(args))
    given: list[tuple[str, Tensor]] = []
    for owner, prefix in [(fn, ""), *zip(args, names, strict=True)]:
        if hasattr(type(owner), "named_parameters"):
            given += [(f"{prefix}.{n}" if prefix else n, t) for n, t in owner.named_parameters()]
    made = []
    for arg, name in zip(args, names, strict=True):
        if hasattr(type(arg), "named_parameters"):
            made.append(arg)
            continue
        leaves, structure = tree.flatten(arg)
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor) and (leaf.requires_grad or category(leaf.dtype) < 2):
                fresh: Any = leaf
            elif isinstance(leaf, (Tensor, np.ndarray, np.generic)) or type(leaf) in (float, complex):
                whole = asarray(leaf)
                fresh = variable(whole) if category(whole.dtype) >= 2 else whole
            else:
                continue
            leaves[i] = fresh
            given.append((name if len(leaves) == 1 else f"{name}.{i}", fresh))
        made.append(tree.unflatten(structure, leaves))
    return Arguments(tuple(made), given)


def parameter_names(fn: Callable[..., Any], count: int) -> list[str]:
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):
        names = []
    return (names + [f"x{i}" for i in range(len(names), count)])[:count]


def tensors_of(result: Any) -> list[Tensor]:
    """The tensors that a function returned, however nested."""
    if result is None:
        return []
    return [leaf for leaf in tree.flatten(result)[0] if isinstance(leaf, Tensor) and leaf._data is not None]
