"""Gradients of a batch in parts, which take the memory of one part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.errors import DTypeError, GradientError, GraphError, RangeError, ShapeError, fail
from ..core.graph.graph import Graph
from ..core.mode import enable_grad, no_grad
from ..core.node import Node
from ..core.ops.record import OUTPUT
from ..core.tensor import Tensor, asarray
from ..ops.index.inplace import set_gradient
from ..ops.neural.normalization import batch_norm_op
from ..ops.structure.creation import zeros
from ..transforms.control.functions import scan
from ..transforms.derivatives.backward import gradients


def accumulate(
    fn: Callable[..., Tensor],
    params: Iterable[Tensor],
    *batch: Any,
    microbatches: int,
    unroll: bool = False,
) -> Tensor:
    """Add the gradient of a batch's mean loss to the parameters' `grad`, part of the batch after part; return the loss.

    Parameters
    ----------
    fn: from a part of each tensor of `batch`, in order, to the mean loss of that part, a scalar.
    params: the leaf tensors whose gradients are wanted, such as `model.parameters()`. Those that the loss does not
        depend on keep theirs.
    batch: tensors or arrays whose first axes have one size, of which `microbatches` is a divisor.
    microbatches: the number of parts, of equal sizes; so the mean of their losses is that of the whole batch, and the
        gradient is the same up to rounding.
    unroll: in a compiled function, write the parts out one after the other. Otherwise they are one loop, whose code and
        memory are those of one part.

    What is not the same by nature: statistics of a batch, and random numbers, of which every part draws its own.
    Outside of compiled functions the parts run one by one. The loop of a compiled function draws no random numbers and
    moves no running statistics: `unroll=True` does.

    Raises ShapeError for parts that are not equal and for a loss that is no scalar, GradientError where no parameter is
    given or has a gradient, GraphError for random numbers or batch norm in a loop.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(3, 1)
    >>> x, y = wg.ones((8, 3)), wg.zeros((8, 1))
    >>> def loss(x, y):
    ...     return ((model(x) - y) ** 2).mean()
    >>> opt = wg.optim.SGD(model.parameters(), lr=0.1)
    >>> @wg.jit
    ... def step(x, y):
    ...     opt.zero_grad()
    ...     value = wg.train.accumulate(loss, model.parameters(), x, y, microbatches=4)
    ...     opt.step()
    ...     return value
    >>> bool(step(x, y) > step(x, y))
    True
    """
    leaves = [p for p in params if p.requires_grad]
    if not leaves:
        fail(GradientError, "accumulate without parameters that require gradients", "Write model.parameters().")
    parts = _parts([asarray(b) for b in batch], microbatches)
    if unroll or not any(t.is_abstract for t in (*parts, *leaves)):
        return _one_by_one(fn, parts, microbatches)
    return _as_loop(fn, leaves, parts, microbatches)


def _parts(batch: Sequence[Tensor], count: Any) -> list[Tensor]:
    """Return tensors with the parts along a new first axis."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        fail(RangeError, f"microbatches must be a whole number of at least 1, not {count!r}")
    if not batch:
        fail(ShapeError, "accumulate without a batch", "Give the batch's tensors after the parameters.")
    sizes = [t.shape[0] if t.ndim else None for t in batch]
    if len(set(sizes)) > 1 or sizes[0] is None:
        shapes = ", ".join(str(tuple(t.shape)) for t in batch)
        fail(ShapeError, f"accumulate of a batch whose tensors have no first axis in common: {shapes}")
    size = sizes[0]
    if size % count or size == 0:
        fail(
            ShapeError,
            f"a batch of {size} in {count} parts, which are not equal",
            "The mean of the parts' losses would not be that of the batch: drop the rest, or choose a divisor.",
        )
    return [t.reshape(count, size // count, *t.shape[1:]) for t in batch]


def _loss(fn: Callable[..., Tensor], part: Sequence[Tensor]) -> Tensor:
    found = fn(*part)
    if not isinstance(found, Tensor):
        fail(DTypeError, f"accumulate of a loss that is a {type(found).__name__}", "Return a scalar tensor.")
    if found.shape != ():
        fail(ShapeError, f"accumulate of a loss of shape {tuple(found.shape)}, no scalar", "Return the mean.")
    return found


def _one_by_one(fn: Callable[..., Tensor], parts: Sequence[Tensor], count: int) -> Tensor:
    total: Any = 0.0
    for i in range(count):
        with enable_grad():
            loss = _loss(fn, [t[i] for t in parts])
            (loss / count).backward()
        total = total + loss.detach()
    return total / count  # type: ignore[no-any-return]


def _as_loop(fn: Callable[..., Tensor], leaves: list[Tensor], parts: Sequence[Tensor], count: int) -> Tensor:
    used: set[int] = set()

    def body(sums: Any, part: Any) -> Any:
        with enable_grad():
            loss = _loss(fn, part)
            found = gradients(loss, leaves, allow_unused=True)
        used.update(i for i, g in enumerate(found) if g is not None)
        return [s if g is None else s + g.detach() for s, g in zip(sums, found, strict=True)], loss.detach()

    with no_grad():
        sums, losses = scan(body, [zeros(p.shape, dtype=p.dtype) for p in leaves], tuple(parts))
        _refuse_batch_norm(losses)
        for i in sorted(used):
            p, g = leaves[i], sums[i] / count
            set_gradient(p, g if p.grad is None else p.grad + g)
        return losses.sum() / count  # type: ignore[no-any-return]


def _refuse_batch_norm(losses: Tensor) -> None:
    """Raise GraphError where a loop has statistics of batches, which it would not move."""
    loop = losses.node
    if loop is not None and loop.op is OUTPUT and isinstance(loop.inputs[0], Node):
        loop = loop.inputs[0]
    body = loop.attrs.get("body") if loop is not None else None
    if isinstance(body, Graph) and any(n.op is batch_norm_op for n in body.nodes):
        fail(
            GraphError,
            "accumulate of a model with batch norm, in a loop, which moves no running statistics",
            "Write accumulate(..., unroll=True), or model.eval() before it.",
        )
