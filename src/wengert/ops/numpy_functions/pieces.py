"""`np.piecewise`: functions that are given the elements which a condition picks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.node import Node
from ...core.ops.op import Op
from ...core.state.capture import Capture, get_capture, reset_capture, set_capture
from ...core.state.refusals import refuse
from ...core.tensor import Tensor
from ..structure.shapes import as_operand, cast
from .register import own, xp

_MEND = "np.where and np.select compute every choice for every element, and choose then."


@own(np.piecewise)
def _piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    x = as_operand(x)
    if isinstance(condlist, (list, tuple)):
        are_many = not x.ndim or as_operand(condlist[0]).ndim > 0
    else:
        are_many = as_operand(condlist).ndim > x.ndim
    given = condlist if are_many else [condlist]
    masks = [as_operand(c) for c in given]
    if len(funclist) == len(masks) + 1:
        rest = masks[0]
        for mask in masks[1:]:
            rest = rest | mask
        masks.append(~rest)
    if len(funclist) != len(masks):
        fail(
            ShapeError,
            f"np.piecewise of {x.spec}: {len(funclist)} functions for {len(masks)} conditions",
            "They take one each, or one more for all other elements.",
        )
    flat = x.reshape(-1)
    found = xp.zeros_like(flat)
    for mask, piece in zip(masks, funclist, strict=True):
        here = xp.broadcast_to(mask, x.shape).reshape(-1)
        if not callable(piece):
            found = xp.where(here, as_operand(piece).astype(x.dtype), found)
        elif here.is_abstract:
            found = xp.where(here, as_operand(_everywhere(piece, flat, args, kw)).astype(x.dtype), found)
        else:
            # A function sees its own elements alone: where it is not meant it may have no value.
            places = xp.nonzero(here)[0]
            if places.size:
                values = as_operand(piece(xp.take(flat, places), *args, **kw)).astype(x.dtype)
                found = xp.scatter(found, 0, places, xp.broadcast_to(values, places.shape))
    return found.reshape(x.shape)


# -- while traced: which elements a condition picks is not known, so a function is given all of them


def _everywhere(piece: Callable[..., Any], flat: Tensor, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    """Return a function of all elements, if it is one of each element alone. Raises TraceError for another."""
    capture = get_capture()
    inner: Any = None if capture is None else _OfElements(capture)
    token = None if inner is None else set_capture(inner)
    try:
        found = piece(flat, *args, **kw)
    finally:
        if token is not None:
            reset_capture(token)
    op = _first_that_mixes(found, flat)
    if op is not None:
        refuse(
            f"np.piecewise of {flat.spec} while traced: {_name(piece)} computes {op.name} of its elements together",
            f"Which elements a condition picks is not known in a trace. {_MEND}",
            flat,
        )
    return found


def _name(piece: Callable[..., Any]) -> str:
    return str(getattr(piece, "__name__", piece))


class _OfElements:
    """A trace in which a function may not decide by values: it would decide by those of other elements too."""

    def __init__(self, trace: Capture) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trace, name)

    def decide(self, x: Any, what: str) -> Any:
        refuse(f"np.piecewise while traced: a function asks for {what}, of {x.spec}", _MEND, x)

    fix = decide


def _first_that_mixes(found: Any, flat: Tensor) -> Op | None:
    """Return an op on the way from the elements to a result that is not of each element alone; None: there is none."""
    start = flat.node
    if not isinstance(found, Tensor) or found.node is None or found.node is start:
        return None
    order: list[Node] = []
    seen, stack = {start}, [(found.node, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((n, False) for n in node.inputs if isinstance(n, Node))
    reached = {start}
    for node in order:
        if any(isinstance(n, Node) and n in reached for n in node.inputs):
            reached.add(node)
            op: Op = node.op
            if not (op.kind == "elementwise" or op is cast or (op.kind == "composite" and op.formulas)):
                return op
    return None
