"""Rules for PyTensor's indexing: subtensors, and writes and additions to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedIncSubtensor1,
    AdvancedSubtensor,
    AdvancedSubtensor1,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)
from pytensor.tensor.type_other import MakeSlice

import wengert as wg

from .convert import NoRuleError, Walk, dtype_of, funcify, tensor

Run = Callable[..., Any]


def _index(op: Any, given: Sequence[Any]) -> tuple[Any, ...]:
    """Return the index, of integers and slices that are known, and of tensors and arrays."""
    entries = getattr(op, "idx_list", None)
    found = indices_from_subtensor(list(given), entries) if entries is not None else tuple(given)
    return tuple(map(_entry, found))


def _entry(entry: Any) -> Any:
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        if any(isinstance(p, wg.Tensor) for p in parts):
            raise NoRuleError("no rule for a slice whose ends depend on values")
        return slice(*(None if p is None else int(p) for p in parts))
    if isinstance(entry, wg.Tensor) or entry is None:
        return entry
    array = np.asarray(entry)
    return int(array) if array.ndim == 0 and array.dtype != np.bool_ else wg.asarray(array)


@funcify.register(Subtensor)
@funcify.register(AdvancedSubtensor)
@funcify.register(AdvancedSubtensor1)
def _taken(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, *given: tensor(x)[_index(op, given)]


@funcify.register(IncSubtensor)
@funcify.register(AdvancedIncSubtensor)
@funcify.register(AdvancedIncSubtensor1)
def _written(op: Any, node: Any, walk: Walk) -> Run:
    dtype = dtype_of(node)

    def run(x: Any, y: Any, *given: Any) -> Any:
        x, y, index = tensor(x, dtype), tensor(y, dtype), _index(op, given)
        if op.set_instead_of_inc:
            written = x + wg.zeros_like(x)  # a value of its own, which is then written to
            written[index] = y
            return written
        # The transpose of taking: what is named twice is added twice.
        taken, back = wg.vjp(lambda z: z[index], wg.zeros(x.shape, dtype=dtype))
        (added,) = back(wg.broadcast_to(y, taken.shape))
        return x + added

    return run


@funcify.register(MakeSlice)
def _slice(op: Any, node: Any, walk: Walk) -> Run:
    return lambda *parts: slice(*parts)
