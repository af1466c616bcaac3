"""The collectives as functions of tensors: each over an axis of the mesh that is entered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..core.errors import DTypeError, GraphError, fail
from ..core.spec import normalize_axis
from ..core.tensor import Tensor
from ..ops.collective import definitions
from ..ops.structure.shapes import as_operand
from .arguments import is_whole_number, whole_number
from .mesh import current_mesh


def _over(over: str) -> dict[str, Any]:
    return {"over": over, "ranks": current_mesh().size_of(over)}


def all_reduce(x: Any, over: str, op: str = "sum") -> Tensor:
    """Return the sum of what the ranks along a mesh axis have; the same tensor on all of them.

    Parameters
    ----------
    x: a tensor of one shape and dtype on all ranks.
    over: the mesh axis.
    op: "sum", "mean", "max" or "min", element by element.

    Sums are those of pairs of neighbours, of pairs of these and so on, in float32 for half precision: all engines but
    XLA give the same bits.
    The result is counted once: its derivative moves nothing. Raises GraphError where there is no such axis.

    >>> import wengert as wg
    >>> job = wg.distribute.simulate(3)
    >>> job.run(lambda: float(wg.distribute.all_reduce(wg.distribute.axis_index("ranks"), "ranks")))
    [3.0, 3.0, 3.0]
    """
    x, attrs = as_operand(x), _over(over)
    if op == "max":
        return definitions.all_reduce_max.front(x, **attrs)  # type: ignore[no-any-return]
    if op == "min":
        return -definitions.all_reduce_max.front(-x, **attrs)  # type: ignore[no-any-return]
    if op not in ("sum", "mean"):
        fail(GraphError, f"all_reduce with op={op!r}", 'It is "sum", "mean", "max" or "min".')
    total: Tensor = definitions.all_reduce.front(x, **attrs)
    return total if op == "sum" else total / attrs["ranks"]


def all_gather(x: Any, over: str, axis: int = 0, replicated: bool = True) -> Tensor:
    """Return the values of the ranks along a mesh axis, joined along `axis` in order, on all of them.

    With `replicated` the result is one value that all share, whose derivative is a rank's own part of what arrives;
    without, each rank's result is its own, and the derivative is a `reduce_scatter`.
    """
    x = as_operand(x)
    if not isinstance(replicated, bool):
        fail(DTypeError, f"all_gather with replicated={replicated!r}", "It is True or False.")
    found: Tensor = definitions.all_gather.front(
        x, **_over(over), axis=normalize_axis(axis, x.ndim), replicated=replicated
    )
    return found


def reduce_scatter(x: Any, over: str, axis: int = 0) -> Tensor:
    """Return this rank's part, along `axis`, of the sum of what the ranks along a mesh axis have.

    Raises ShapeError where the axis has no equal parts.
    """
    x = as_operand(x)
    return definitions.reduce_scatter.front(x, **_over(over), axis=normalize_axis(axis, x.ndim))  # type: ignore[no-any-return]


def own_part(x: Any, over: str, axis: int = 0) -> Tensor:
    """Return this rank's part, along `axis`, of a value that the ranks along a mesh axis share. Nothing moves.

    Raises ShapeError where the axis has no equal parts.
    """
    x = as_operand(x)
    return definitions.own_part.front(x, **_over(over), axis=normalize_axis(axis, x.ndim))  # type: ignore[no-any-return]


def broadcast(x: Any, over: str, root: int = 0) -> Tensor:
    """Return the value of the rank at position `root` along a mesh axis, on all ranks along it.

    Raises GraphError for a root that is not there.
    """
    x, attrs = as_operand(x), _over(over)
    what = f"broadcast over {over!r}, an axis of {attrs['ranks']} ranks, from root={root!r}"
    root = whole_number(root, what, f"Its ranks are 0 to {attrs['ranks'] - 1}.", least=0)
    return definitions.broadcast_from.front(x, **attrs, root=root)  # type: ignore[no-any-return]


def permute(x: Any, over: str, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return the value that another rank sends, by `pairs` of (source, target) along a mesh axis; zeros if nobody does.

    A pair alone is a send and its receive; a ring is `[(i, (i + 1) % n) for i in range(n)]`. Raises ShapeError where
    a rank is named twice.
    """
    x, attrs = as_operand(x), _over(over)
    given = list(pairs) if isinstance(pairs, Iterable) else [None]
    if not all(isinstance(p, (tuple, list)) and len(p) == 2 and all(map(is_whole_number, p)) for p in given):
        fail(
            GraphError,
            f"permute over {over!r} with pairs={pairs!r}",
            "They are pairs of ranks, (source, target): [(0, 1), (1, 0)].",
        )
    order = tuple((int(a), int(b)) for a, b in given)
    return definitions.ppermute.front(x, **attrs, pairs=order)  # type: ignore[no-any-return]


def all_to_all(x: Any, over: str, split: int, join: int) -> Tensor:
    """Return the parts that the ranks along a mesh axis have for this one.

    Each cuts its tensor along the axis `split` into as many parts as there are ranks, and joins those that it gets
    along the axis `join`. Raises ShapeError where there are no equal parts.
    """
    x = as_operand(x)
    attrs = {"split": normalize_axis(split, x.ndim), "join": normalize_axis(join, x.ndim)}
    return definitions.all_to_all.front(x, **_over(over), **attrs)  # type: ignore[no-any-return]


def axis_index(over: str) -> Tensor:
    """Return the position of this rank along a mesh axis, from 0, as a 0-d int64 tensor."""
    return definitions.axis_index.front(**_over(over))  # type: ignore[no-any-return]


def pcast(x: Any, over: str) -> Tensor:
    """Return a value that all ranks along a mesh axis share as each rank's own. Nothing moves; its derivative sums."""
    return definitions.pcast.front(as_operand(x), **_over(over))  # type: ignore[no-any-return]
