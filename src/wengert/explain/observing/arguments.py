"""The arguments of an observed function: its tracked leaves, and their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import tree
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.ops.record import another
from ...core.spec import category
from ...core.standins import WeakTensor, weak
from ...core.tensor import Tensor, asarray, wrap
from ...ops.structure.shapes import as_operand
from ...transforms.derivatives.variables import differentiable


@dataclass
class Arguments:
    """A function's arguments with floating leaves tracked, and their names."""

    args: tuple[Any, ...]
    tensors: list[tuple[str, Tensor]]

    def name_of(self, array: Any) -> str:
        """Return the name of the argument with this buffer; "" for another."""
        return next((name for name, t in self.tensors if t._array is array), "")


def arguments(fn: Callable[..., Any], args: Sequence[Any]) -> Arguments:
    """Track the floating leaves of pytrees; modules and tensors that require gradients stay what they are."""
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
                known = leaf
            elif isinstance(leaf, (Tensor, np.ndarray, np.generic)) or type(leaf) in (float, complex):
                known, leaves[i] = tracked(leaf) if differentiable(leaf) else (asarray(leaf),) * 2
            else:
                continue
            given.append((name if len(leaves) == 1 else f"{name}.{i}", known))
        made.append(tree.unflatten(structure, leaves))
    return Arguments(tuple(made), given)


def tracked(x: Any) -> tuple[Tensor, Tensor]:
    """Return a leaf with the value of a floating `x`, and a tensor of that value that is computed from it.

    The latter is for what is asked about, which runs as it would by itself: it may write to its argument, read it as
    a number, and take gradients inside.
    """
    value = as_operand(x)
    leaf = wrap(value._array, value.spec).requires_grad_()
    token = set_mode(get_mode().with_grad(True))
    try:
        given = another(leaf)
    finally:
        reset_mode(token)
    return leaf, weak(given) if type(value) is WeakTensor else given


def parameter_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a function's first `count` parameters, `x0`, `x1`, ... where it has none."""
    try:
        names = [p.name for p in inspect.signature(fn).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    except (TypeError, ValueError):
        names = []
    return (names + [f"x{i}" for i in range(len(names), count)])[:count]


def tensors_of(result: Any) -> list[Tensor]:
    """Return the tensors that a function returned, however nested."""
    if result is None:
        return []
    return [leaf for leaf in tree.flatten(result)[0] if isinstance(leaf, Tensor) and leaf._array is not None]
