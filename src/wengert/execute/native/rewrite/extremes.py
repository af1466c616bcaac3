"""Minima and maxima of rows by one instruction an element, where NaNs are handled elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.graph.snapshot import located
from ....core.node import Node
from ....core.ops.facets import Reduction
from ....core.ops.op import Op
from ....core.spec import spec_of
from ....ops.reduce.common import reduced_shape


def _extreme(name: str, reduce: Any, combine: str, doc: str) -> Op:
    return Op(
        f"{name}(x; axis, keepdims)",
        "general",
        lambda x, axis, keepdims: reduce(x, axis, None, None, keepdims),
        infer=lambda x, axis, keepdims: spec_of(reduced_shape(x.shape, axis, keepdims), x.dtype),
        doc=doc,
        listed=False,
        reduction=Reduction(combine, None),
    )


_LEAST = _extreme("least", np.fmin.reduce, "minimum", "The smallest element along axes; any where one of them is NaN.")
_GREATEST = _extreme(
    "greatest", np.fmax.reduce, "maximum", "The largest element along axes; any where one of them is NaN."
)


def extremes(x: Node, axis: tuple[int, ...], like: Node) -> tuple[Node, Node]:
    """Return the smallest and the largest element along axes, which are kept; any number where one of them is NaN."""
    spec = spec_of(reduced_shape(x.spec.shape, axis, True), x.spec.dtype)
    attrs = {"axis": axis, "keepdims": True}
    least, greatest = (located(op, (x,), attrs, spec, like.code, like.offset, like.scope) for op in (_LEAST, _GREATEST))
    return least, greatest
