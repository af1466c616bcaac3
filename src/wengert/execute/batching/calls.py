"""The arguments of calls: the numbers of their tensors, the key of what else they are, and how they are given again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.arrays import is_frozen
from ...core.spec import as_dtype, spec_of
from ...core.state.blocks import to_come
from ...core.tensor import Tensor
from ..jit.capture.captured import SCALARS, exact
from .batch import Batch
from .handles import batch_of, number_of
from .template import kind_of

# How deep containers among the arguments may be: a tree is no argument of a cell that nobody has marked.
FLAT, NESTED = 1, 64

_NUMBERS = "biufc"
_ARRAYS = (Tensor, np.ndarray, np.generic)
_INPUT: Any = object()


class Odd(Exception):
    """The reason why cells do not take an argument."""


def read(batch: Batch, grad: bool, values: Sequence[Any], numbers: list[int], key: list[Any], depth: int) -> None:
    """Add the numbers of the tensors among arguments, and the parts of the key. Raises Odd."""
    known = batch.values
    for x in values:
        cls = type(x)
        if cls in to_come and batch_of(x) is batch:
            number = number_of(x)
        elif cls is tuple or cls is list:
            if not depth:
                raise Odd("its arguments are nested: what it calls is batched")
            key += cls, len(x)
            read(batch, grad, x, numbers, key, depth - 1)
            continue
        elif isinstance(x, Tensor):
            value = x._array
            if type(value) is not np.ndarray or x.is_weak:
                raise Odd(f"an argument is a {cls.__name__}")
            node = x.node if grad else None
            tracked = node is not None and node.requires_grad
            number = batch.from_outside(kind_of(x.spec, tracked, x.result_class), value, node if tracked else None)
        elif isinstance(x, SCALARS) and not (isinstance(x, np.generic) and x.dtype.kind in _NUMBERS):
            key += cls, exact(x)
            continue
        elif isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in _NUMBERS:
            array: Any = x if isinstance(x, np.ndarray) and cls is np.ndarray and is_frozen(x) else np.array(x)
            number = batch.from_outside(kind_of(spec_of(array.shape, as_dtype(array.dtype)), False, Tensor), array)
        else:
            leaves, structure = tree.flatten(x)
            if structure.kind is None or not depth:
                raise Odd(f"an argument is a {cls.__name__}")
            key.append(_Structure.of(structure))
            read(batch, grad, leaves, numbers, key, depth - 1)
            continue
        key.append(known[number][0])
        numbers.append(number)


class _Structure:
    """A structure of an argument as a part of a key: equal ones are one object."""

    __slots__ = ("structure",)

    def __init__(self, structure: tree.Structure) -> None:
        self.structure = structure

    @classmethod
    def of(cls, structure: tree.Structure) -> _Structure:
        """Return the one object of a structure."""
        same = _structures.setdefault(repr(structure), [])
        for found in same:
            if found.structure == structure:
                return found
        same.append(cls(structure))
        return same[-1]


_structures: dict[str, list[_Structure]] = {}


def tensors_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the tensors and arrays among arguments, in the order of their numbers."""
    return [x for x in tree.flatten((args, dict(sorted(kwargs.items()))))[0] if isinstance(x, _ARRAYS)]


def arrangement(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Callable[[dict[int, Any]], tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return what gives the arguments with the tensors among them replaced; it does not keep the tensors."""
    leaves, structure = tree.flatten((args, dict(sorted(kwargs.items()))))
    kept = [_INPUT if isinstance(x, _ARRAYS) else x for x in leaves]

    def arrange(given: dict[int, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        numbers = iter(range(len(given)))
        filled = [given[next(numbers)] if x is _INPUT else x for x in kept]
        found: tuple[tuple[Any, ...], dict[str, Any]] = tree.unflatten(structure, filled)
        return found

    return arrange
