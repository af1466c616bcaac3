"""Truth of some or all elements along axes, and the count of true ones; the functions shadow Python's builtins."""

from __future__ import annotations

from typing import Any

from ...core.ops.declare import op, public
from ...core.ops.facets import Reduction
from ...core.ops.op import Call, Missing, Op
from ...core.spec import bool_, int64
from ...core.tensor import Tensor
from ..aliases import dim_alias
from ..long_sums import add_up
from ..structure.shapes import as_operand
from .common import (
    Axis,
    every,
    infer_as,
    reduced,
    reductions,
    row_by_row,
    some,
)


def _truth_samples(rng: Any) -> list[Call]:
    return [Call((rng.integers(0, 2, size=c.args[0].shape) == 1,), c.attrs) for c in reductions()(rng)]


any_op: Op = op(
    "any(x; axis: axes, keepdims)",
    lambda x, axis, keepdims: some(x, axis, None, None, keepdims),
    infer=infer_as(lambda _: bool_),
    doc="Whether some element along axes is true (not 0).",
    samples=_truth_samples,
    reference=row_by_row(lambda row: True in row),
    onnx=Missing("no reduction of booleans; ReduceMax of integers says the same"),
    reduction=Reduction("logical_or", False),
    cost=1,
)


all_op: Op = op(
    "all(x; axis: axes, keepdims)",
    lambda x, axis, keepdims: every(x, axis, None, None, keepdims),
    infer=infer_as(lambda _: bool_),
    doc="Whether every element along axes is true (not 0).",
    samples=_truth_samples,
    reference=row_by_row(lambda row: False not in row),
    onnx=Missing("no reduction of booleans; ReduceMin of integers says the same"),
    reduction=Reduction("logical_and", True),
    cost=1,
)


count_nonzero_op: Op = op(
    "count_nonzero(x; axis: axes, keepdims)",
    lambda x, axis, keepdims: add_up(x != 0, axis, int64, None, keepdims),
    infer=infer_as(lambda _: int64),
    doc="How many elements along axes are not 0.",
    samples=_truth_samples,
    reference=row_by_row(lambda row: row.count(True)),
    onnx=Missing("ONNX writes it as ReduceSum of Cast(Not(Equal(x, 0)))"),
    cost=1,
)


@public(method=True)
@dim_alias
def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether any element along axes is true, or not 0 (Array API). False for none.

    >>> import wengert as wg
    >>> wg.any(wg.tensor([[True, False], [False, False]]), axis=1)
    tensor([ True, False])
    """
    return reduced(any_op, as_operand(x), axis, keepdims)


@public(method=True)
@dim_alias
def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements along axes are true, or not 0 (Array API). True for none.

    >>> import wengert as wg
    >>> wg.all(wg.tensor([[True, False], [True, True]]), axis=1)
    tensor([False,  True])
    """
    return reduced(all_op, as_operand(x), axis, keepdims)


@public(method=True)
@dim_alias
def count_nonzero(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the number of elements along axes that are not 0, as int64 (Array API).

    >>> import wengert as wg
    >>> wg.count_nonzero(wg.tensor([0.0, 2.0, 3.0]))
    tensor(2)
    """
    return reduced(count_nonzero_op, as_operand(x), axis, keepdims)
