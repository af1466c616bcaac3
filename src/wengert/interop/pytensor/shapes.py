"""Rules for PyTensor's ops of shapes: what reshapes, joins, splits, fills and copies, for checks and inner graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.ifelse import IfElse
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    ExtractDiag,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.extra_ops import CumOp, FillDiagonal, Repeat
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp

import wengert as wg

from .convert import Check, NoRuleError, Walk, dtype_of, funcify, known, sizes, tensor

Run = Callable[..., Any]


def _same(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, *_: tensor(x)


for _kind in (DeepCopyOp, TypeCastingOp, ScalarFromTensor, TensorFromScalar):
    funcify.register(_kind, _same)


@funcify.register(Shape)
def _shape(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: np.array(x.shape, np.int64)


@funcify.register(Shape_i)
def _size(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x: np.array(x.shape[op.i], np.int64)


@funcify.register(SpecifyShape)
def _specified(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, *wanted: Any) -> Any:
        for axis, size in enumerate(wanted):
            if size is not None and x.shape[axis] != int(known(size, "a specified size")):
                raise AssertionError(f"SpecifyShape: axis {axis} has size {x.shape[axis]}, not {int(size)}")
        return x

    return run


@funcify.register(Reshape)
def _reshaped(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, shape: wg.reshape(tensor(x), tuple(int(n) for n in known(shape, "a shape")))


@funcify.register(Alloc)
def _filled(op: Any, node: Any, walk: Walk) -> Run:
    def run(value: Any, *shape: Any) -> Any:
        wanted = sizes(shape, "a shape")
        value = tensor(value)
        Alloc._check_runtime_broadcast(node, value, wanted)
        return wg.broadcast_to(value, wanted)

    return run


@funcify.register(AllocEmpty)
def _empty(op: Any, node: Any, walk: Walk) -> Run:
    return lambda *shape: wg.zeros(sizes(shape, "a shape"), dtype=op.dtype)


@funcify.register(MakeVector)
def _vector(op: Any, node: Any, walk: Walk) -> Run:
    return lambda *xs: wg.stack([tensor(x, op.dtype) for x in xs])


@funcify.register(Join)
def _joined(op: Any, node: Any, walk: Walk) -> Run:
    def run(axis: Any, *xs: Any) -> Any:
        return wg.concat([tensor(x, dtype_of(node)) for x in xs], axis=int(known(axis, "an axis")))

    return run


@funcify.register(Split)
def _split(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, axis: Any, parts: Any) -> Any:
        at = int(known(axis, "an axis"))
        lengths = [int(n) for n in known(parts, "the sizes of parts")]
        if sum(lengths) != x.shape[at] or min(lengths, default=0) < 0:
            raise ValueError(f"Split sizes {lengths} do not sum up to the size {x.shape[at]} of axis {at}")
        ends = np.cumsum(lengths)
        at %= x.ndim
        return [x[(slice(None),) * at + (slice(int(e) - n, int(e)),)] for e, n in zip(ends, lengths, strict=True)]

    return run


@funcify.register(ExtractDiag)
def _diagonal(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any) -> Any:
        moved = wg.moveaxis(tensor(x), (op.axis1, op.axis2), (-2, -1))
        return wg.linalg.diagonal(moved, offset=op.offset)

    return run


@funcify.register(FillDiagonal)
def _diagonal_filled(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, value: Any) -> Any:
        x = tensor(x)
        if x.ndim != 2:
            raise NoRuleError("no rule for FillDiagonal of more than two axes")
        return wg.where(wg.eye(*x.shape, dtype=np.bool_), tensor(value, x.dtype), x)

    return run


@funcify.register(CumOp)
def _cumulative(op: Any, node: Any, walk: Walk) -> Run:
    fn = wg.cumulative_sum if op.mode == "add" else wg.cumulative_prod

    def run(x: Any) -> Any:
        x = tensor(x, dtype_of(node))
        return fn(wg.reshape(x, (-1,)), axis=0) if op.axis is None else fn(x, axis=op.axis)

    return run


@funcify.register(Repeat)
def _repeated(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, repeats: Any) -> Any:
        count = known(repeats, "a number of repeats")
        x = tensor(x)
        x, axis = (wg.reshape(x, (-1,)), 0) if op.axis is None else (x, op.axis)
        where = np.repeat(np.arange(x.shape[axis]), count)
        return wg.take(x, wg.asarray(where), axis=axis)

    return run


@funcify.register(Dot)
def _dot(op: Any, node: Any, walk: Walk) -> Run:
    dtype = dtype_of(node)
    return lambda x, y: wg.matmul(tensor(x, dtype), tensor(y, dtype))


@funcify.register(SortOp)
def _sorted(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, axis: wg.sort(tensor(x), axis=int(known(axis, "an axis")))


@funcify.register(ArgSortOp)
def _sorting(op: Any, node: Any, walk: Walk) -> Run:
    return lambda x, axis: tensor(wg.argsort(tensor(x), axis=int(known(axis, "an axis"))), dtype_of(node))


@funcify.register(OpFromGraph)
def _inner(op: Any, node: Any, walk: Walk) -> Run:
    return lambda *xs: walk.run(op.fgraph, xs)


@funcify.register(CheckAndRaise)
def _checked(op: Any, node: Any, walk: Walk) -> Run:
    def run(x: Any, *conditions: Any) -> Any:
        found = [c for c in conditions if isinstance(c, wg.Tensor)]
        if any(not np.all(c) for c in conditions if not isinstance(c, wg.Tensor)):
            raise op.exc_type(op.msg)
        if found:
            walk.checks.append(Check(op, [wg.all(tensor(c, np.bool_)) for c in found]))
        return tensor(x)

    return run


@funcify.register(IfElse)
def _chosen(op: Any, node: Any, walk: Walk) -> Run:
    def run(condition: Any, *branches: Any) -> Any:
        yes, no = branches[: op.n_outs], branches[op.n_outs :]
        if not isinstance(condition, wg.Tensor):
            return list(yes if np.all(condition) else no)
        if any(np.shape(a) != tuple(b.shape) for a, b in zip(map(tensor, yes), map(tensor, no), strict=True)):
            raise NoRuleError("no rule for IfElse between values of several shapes")
        which = tensor(condition, np.bool_)
        return [wg.where(which, tensor(a), tensor(b)) for a, b in zip(yes, no, strict=True)]

    return run
