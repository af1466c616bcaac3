"""The arithmetic that the derivative engines run in: NumPy arrays, or tensors that record.

In a first-order pass over eager values the derivative rules run on arrays. Where the derivative is
itself to be differentiated, or the graph is abstract, the same rules run on tensors.

Structural zeros: an element to which no gradient flows (masked by `where`, not picked by an index)
is absent, not a 0 that flows: times an infinite partial it stays absent. Cotangents and tangents
therefore carry a mask where something selects; it is a thunk, evaluated only where a partial meets
it and, on plain arrays, only where the product is not finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import where_or_zero
from ...core.dtypes import is_foreign
from ...core.node import Mixed, Node
from ...core.ops.op import TABLE
from ...core.ops.record import SCALARS, filled, pick
from ...core.spec import Spec
from ...core.tensor import Tensor, abstract, wrap

Mask = Callable[[], Any]  # a thunk of a boolean array (or tensor) in the cotangent's shape


class Arrays:
    """The engine's arithmetic on NumPy arrays: first order, nothing recorded."""

    recording = False

    @staticmethod
    def ones(spec: Spec) -> Any:
        return np.ones(spec.shape, spec.dtype)

    @staticmethod
    def zeros(spec: Spec) -> Any:
        return np.zeros(spec.shape, spec.dtype)

    @staticmethod
    def scale(ct: Any, partial: Any) -> Any:
        """Return a cotangent through a partial derivative: times its conjugate."""
        if getattr(partial, "dtype", None) is not None:
            if partial.dtype.kind == "c":
                partial = np.conj(partial)
        elif type(partial) is complex:
            partial = partial.conjugate()
        return Arrays.times(ct, partial)

    @staticmethod
    def times(tangent: Any, partial: Any) -> Any:
        """Return a tangent through a partial derivative."""
        if is_foreign(tangent.dtype):  # times a Python number it is float32 to NumPy
            return (tangent * partial).astype(tangent.dtype)
        return tangent * partial

    @staticmethod
    def select(value: Any, mask: Mask) -> Any:
        # Where the product is finite everywhere, absent elements already are the 0 that they
        # should be, and the mask need not be computed.
        if np.isfinite(value).all():
            return value
        return where_or_zero(mask(), value)

    @staticmethod
    def where(mask: Any, value: Any) -> Any:
        return where_or_zero(mask, value)

    @staticmethod
    def as_mask(value: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(value, shape)

    @staticmethod
    def mask_like(mask: Any, ct: Any) -> Any:
        return np.asarray(mask, ct.dtype)

    @staticmethod
    def ones_like(ct: Any) -> Any:
        return np.ones_like(ct)

    @staticmethod
    def nonzero(value: Any) -> Any:
        return value != 0

    @staticmethod
    def either(a: Any, b: Any) -> Any:
        return a | b

    @staticmethod
    def both(a: Any, b: Any) -> Any:
        return a & b

    @staticmethod
    def saved(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        return saved

    @staticmethod
    def value(x: Any) -> Any:
        """Return the value of a tensor that rules run on."""
        return x._array


class Tensors:
    """The engine's arithmetic on tensors, recorded in the graph."""

    recording = True

    @staticmethod
    def ones(spec: Spec) -> Any:
        return filled(1, spec)

    @staticmethod
    def zeros(spec: Spec) -> Any:
        return filled(0, spec)

    @staticmethod
    def scale(ct: Any, partial: Any) -> Any:
        if isinstance(partial, Tensor):
            if partial.dtype.kind == "c":
                partial = TABLE["conj"].front(partial)
        elif isinstance(partial, complex):
            partial = partial.conjugate()
        return ct * partial

    @staticmethod
    def times(tangent: Any, partial: Any) -> Any:
        return tangent * partial

    @staticmethod
    def value(x: Any) -> Any:
        return x

    @staticmethod
    def select(value: Any, mask: Mask) -> Any:
        return TABLE["where"].front(mask(), value, 0.0)

    @staticmethod
    def where(mask: Any, value: Any) -> Any:
        return TABLE["where"].front(mask, value, 0.0)

    @staticmethod
    def as_mask(value: Any, shape: tuple[int, ...]) -> Any:
        return value if value.shape == shape else TABLE["broadcast"].front(value, shape=shape)

    @staticmethod
    def mask_like(mask: Any, ct: Any) -> Any:
        return TABLE["cast"].front(mask, dtype=ct.dtype)

    @staticmethod
    def ones_like(ct: Any) -> Any:
        return filled(1, ct.spec)

    @staticmethod
    def nonzero(value: Any) -> Any:
        return TABLE["not_equal"].front(value, 0.0)

    @staticmethod
    def either(a: Any, b: Any) -> Any:
        return TABLE["logical_or"].front(a, b)

    @staticmethod
    def both(a: Any, b: Any) -> Any:
        return TABLE["logical_and"].front(a, b)

    @staticmethod
    def saved(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the saved values as tensors with their nodes in the forward graph."""
        joint = node.op.joint
        if joint is not None and not joint.needs and not joint.needs_out:
            return saved
        if type(saved) is Mixed:
            return (*saved, _result_tensor(node))
        if saved == ():
            return (*(_input_tensor(n) for n in node.inputs), _result_tensor(node))
        kept = [_saved_tensor(v, n) for v, n in zip(saved[:-1], node.inputs, strict=True)]
        out = saved[-1]
        if isinstance(out, tuple):
            kept.append(tuple(pick(node, i, o) for i, o in enumerate(out)))
        elif out is not None:
            result = wrap(out)
            result.node = node
            kept.append(result)
        else:
            kept.append(None)
        return tuple(kept)


def _input_tensor(entry: Any) -> Any:
    if isinstance(entry, Node):
        return abstract(entry)
    return wrap(entry) if isinstance(entry, (np.ndarray, np.generic)) else entry


def _result_tensor(node: Node) -> Any:
    if node.op.results == 1:
        return abstract(node)
    return tuple(pick(node, i, None) for i in range(len(node.spec)))  # type: ignore[arg-type]


def _saved_tensor(value: Any, entry: Any) -> Any:
    if value is None or type(value) in SCALARS:
        return value
    out = wrap(value)
    if not isinstance(entry, Node):
        return out
    if entry.op is TABLE["broadcast"] and entry.spec.shape != value.shape:
        # The value was kept as it was before its broadcast.
        entry = entry.inputs[0]
    if isinstance(entry, Node) and entry.requires_grad:
        out.node = entry
    return out


def fitted(g: Any, spec: Spec) -> Any:
    """Return a cotangent in its argument's dtype.

    A real argument of a complex result takes the real part. NumPy computes bfloat16 with anything
    else in float32: that is narrowed.
    """
    if spec.real_inexact and g.dtype.kind == "c":
        g = TABLE["real"](g)
    if spec.dtype.kind == "V" and g.dtype != spec.dtype:
        g = TABLE["cast"](g, dtype=spec.dtype)
    return g


def once(thunk: Mask) -> Mask:
    """Return a mask that is evaluated when first asked for, and then kept."""
    value: list[Any] = []

    def evaluated() -> Any:
        if not value:
            value.append(thunk())
        return value[0]

    return evaluated


def routed(lib: Any, passes: Any, shape: tuple[int, ...], mask: Mask | None) -> Mask:
    """Return the mask of elements that a route lets pass, among those of `mask`."""

    def evaluated() -> Any:
        here = lib.as_mask(passes, shape)
        return here if mask is None else lib.both(here, mask())

    return once(evaluated)
