"""Lowerings of ops whose results are views of their arguments: no step computes them."""

from __future__ import annotations

import numpy as np

from ....core.node import Node
from ..plan.lowering import Lowering, lowers
from ..plan.plan import View
from .copies import as_parts, operand


@lowers("view_as_real")
def _pairs(low: Lowering, node: Node) -> View:
    return as_parts(low.view(node.inputs[0]))


@lowers("real", "imag")
def _part(low: Lowering, node: Node) -> View | None:
    x = operand(low, node.inputs[0], node.spec.dtype)
    if x.dtype.kind != "c":
        return x if node.op.name == "real" else None
    parts = as_parts(x)
    offset = parts.offset + (node.op.name == "imag")
    return parts._replace(shape=x.shape, strides=parts.strides[:-1], offset=offset)


@lowers("view_as_complex")
def _complex(low: Lowering, node: Node) -> View | None:
    x = low.view(node.inputs[0])
    if x.dtype.itemsize * 2 != node.spec.dtype.itemsize:
        return None
    if x.strides[-1] != 1 or x.offset % 2 or any(s % 2 for s in x.strides[:-1]):
        x = low.copy(x)
    return View(x.buffer, node.spec.dtype, x.shape[:-1], tuple(s // 2 for s in x.strides[:-1]), x.offset // 2)


@lowers("size")
def _size(low: Lowering, node: Node) -> View | None:
    size = node.attrs["dim"]
    return low.constant(np.asarray(size, node.spec.dtype)) if isinstance(size, int) else None
