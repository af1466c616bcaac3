"""A recorded run again in float64: what of a value or a gradient is rounding, and what is the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.mode import get_mode, set_mode
from ...core.node import Node
from ...core.spec import category
from ...core.tensor import Tensor, wrap
from ...transforms.derivatives.reverse import backward_pass
from ...transforms.tracing.replay import record_again
from .recording import Recording
from .rerun import of_recording


class Replayed(NamedTuple):
    """A row's value and gradient in float64; None for what it has not, or where it cannot be known."""

    value: Any
    gradient: Any


def replayed(recording: Recording, index: int) -> Replayed | None:
    """Return a row's value and gradient, with every floating leaf and constant taken as float64.

    Conversions to narrower floating types on the way are left out. The gradients are those of the results' sum. None
    where the run cannot be repeated, as without gradients or values.
    """
    run = of_recording(recording)
    node = recording.rows[index].node
    if run is None or node is None or node not in set(run.order):
        return None
    made: dict[Node, Tensor] = {}
    for leaf, array in zip(run.leaves, run.arrays, strict=True):
        made[leaf] = wrap(_wide(array))
        if category(made[leaf].dtype) >= 2 and leaf.requires_grad:
            made[leaf] = made[leaf].requires_grad_()
    outer = get_mode()
    try:
        set_mode(outer.as_recorded(True))
        for at in run.order:
            if at not in made:
                made[at] = _again(at, [_argument(e, made) for e in at.inputs])
    finally:
        set_mode(outer)
    value = made[node]
    return Replayed(np.asarray(value._array), _gradient(run.roots, made, value))


def _gradient(roots: Sequence[Node], made: dict[Node, Tensor], value: Tensor) -> Any:
    ends = [made[root] for root in roots if made[root].requires_grad]
    if not ends or not value.requires_grad:
        return None
    seeds = [(end.node, np.ones(end.shape, end.dtype)) for end in ends if end.node is not None]
    if value.node is None:
        return None
    return backward_pass(seeds, [value.node], create_graph=False, retain_graph=True).get(value.node)


def _again(node: Node, args: list[Any]) -> Any:
    narrow = node.op.name == "cast" and category(node.spec.dtype) == 2 and args[0].dtype == np.float64
    return args[0] if narrow else record_again(node, args)


def _argument(entry: Any, made: dict[Node, Tensor]) -> Any:
    if isinstance(entry, Node):
        return made[entry]
    return wrap(_wide(entry)) if isinstance(entry, np.ndarray) else entry


def _wide(array: Any) -> Any:
    kind = array.dtype.kind
    if kind == "f" or (kind == "V" and array.dtype.itemsize == 2):
        return array.astype(np.float64)
    return array.astype(np.complex128) if kind == "c" else array
