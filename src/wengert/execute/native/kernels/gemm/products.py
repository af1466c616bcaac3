"""Lowerings of the ops that multiply matrices and vectors: each is a stack of products of views."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .....core.node import Node
from .....core.spec import broadcast_shapes
from ...codegen.builder import Builder, Value
from ...plan.lowering import Epilogue, Lowering, lowers
from ...plan.plan import View
from ...rewrite.small_products import TINY
from ...scalar.fp16 import convert
from .finish import plain_store
from .plan import REUSE, compute_type, product

Result = View | tuple[View, ...] | None


@lowers("matmul", followed=True)
def _matmul(low: Lowering, node: Node) -> Result:
    x, y = (low.view(n) for n in node.inputs)
    return _multiply(low, node, x, y)


@lowers("matvec", followed=True)
def _matvec(low: Lowering, node: Node) -> Result:
    x, y = (low.view(n) for n in node.inputs)
    return _multiply(low, node, x, _with_axis(y, len(y.shape)))


@lowers("vecmat", followed=True)
def _vecmat(low: Lowering, node: Node) -> Result:
    x, y = (low.view(n) for n in node.inputs)
    return _multiply(low, node, _with_axis(x, len(x.shape) - 1), y)


@lowers("dot")
def _dot(low: Lowering, node: Node) -> Result:
    x, y = (low.view(n) for n in node.inputs)
    return _multiply(low, node, _with_axis(x, len(x.shape) - 1), _with_axis(y, len(y.shape)))


@lowers("linear")
def _linear(low: Lowering, node: Node) -> Result:
    x, weight, *bias = (low.view(n) for n in node.inputs)
    # A kernel reads its numbers side by side, or one number.
    bias = [v if v.strides[0] in (0, 1) else low.contiguous(v) for v in bias]
    x = x if len(x.shape) > 1 else _with_axis(x, 0)
    return _multiply(low, node, x, weight.permute((1, 0)), *bias)


def _with_axis(x: View, at: int) -> View:
    """Return `x` with an axis of size 1 before axis `at`."""
    return x._replace(shape=(*x.shape[:at], 1, *x.shape[at:]), strides=(*x.strides[:at], 0, *x.strides[at:]))


def _multiply(low: Lowering, node: Node, x: View, y: View, *bias: View) -> Result:
    """Return the node's result: the stack of products x @ y, reshaped to what the node gives."""
    if compute_type(x.dtype) is None:
        return None
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    assert batch is not None
    rows = x.reshape((math.prod(x.shape[:-1]), x.shape[-1])) if len(y.shape) == 2 else None
    if rows is None and len(y.shape) == 2 and y.shape[-1] >= REUSE:
        # Laying the rows one after the other takes little beside so many columns; matrix by matrix, all of y would be
        # read again for a few rows.
        rows = low.contiguous(x).reshape((math.prod(x.shape[:-1]), x.shape[-1]))
    if rows is not None:
        x = rows
    else:
        x, y = merged_stacks(x.broadcast((*batch, *x.shape[-2:])), y.broadcast((*batch, *y.shape[-2:])))
    shape = (*x.shape[:-1], y.shape[-1])
    is_plain = not bias and shape == node.spec.shape and len(shape) == 2
    if is_plain and (_is_upright(x, y) or low.is_better_turned(node, shape[0])):
        return _turned(low, node, x, y)
    follows = None if bias else low.epilogue(node, shape)
    if follows is not None:
        product(low, x, y, follows, [node])
        return follows.outputs
    out = low.place(node, shape)
    product(low, x, y, plus_bias(out, *bias) if bias else plain_store(out), [node])
    return out.reshape(node.spec.shape)


def _is_upright(x: View, y: View) -> bool:
    """Return whether the product has few columns, and those of x lie in memory: its transpose has long rows."""
    return 1 < y.shape[-1] <= TINY < x.shape[-2] and x.strides[-2] == 1


def _turned(low: Lowering, node: Node, x: View, y: View) -> Result:
    """Return the transpose of y^T @ x^T: a tile of few rows and long columns is less padded than one of few columns."""
    x, y = y.permute((1, 0)), x.permute((1, 0))
    shape = (x.shape[0], y.shape[1])
    follows = low.epilogue(node, shape, (1, 0))
    if follows is not None:
        product(low, x, y, follows, [node])
        return follows.outputs
    out = low.temp(shape, x.dtype)
    product(low, x, y, plain_store(out), [node])
    return out.permute((1, 0))


def plus_bias(out: View, bias: View) -> Epilogue:
    """Return the epilogue of the product plus a row of numbers."""

    def emit(b: Builder, product: Value, operands: Sequence[Value]) -> list[Value]:
        add = b.fadd if product.type.is_float else b.add
        return [convert(b, add(product, convert(b, operands[0], product.type)), out.type)]

    (stride,) = bias.strides
    kind = "scalar" if stride == 0 else "column"
    return Epilogue("bias", [bias.broadcast(out.shape)], [kind], [out], emit)


def merged_stacks(x: View, y: View) -> tuple[View, View]:
    """Return stacks of matrices with as few leading axes as strides allow, the same for both."""
    kept: list[tuple[int, int, int]] = []
    for n, s, t in zip(x.shape[:-2], x.strides, y.strides):
        if kept and n != 1 and kept[-1][1:] == (s * n, t * n):
            kept[-1] = (kept[-1][0] * n, s, t)
        elif n != 1:
            kept.append((n, s, t))
    return _stacked(x, [(n, s) for n, s, _ in kept]), _stacked(y, [(n, t) for n, _, t in kept])


def _stacked(x: View, axes: Sequence[tuple[int, int]]) -> View:
    shape, strides = ([a[i] for a in axes] for i in (0, 1))
    return x._replace(shape=(*shape, *x.shape[-2:]), strides=(*strides, *x.strides[-2:]))
