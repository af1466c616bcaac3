"""The collectives: what each gives every rank for what every rank brings, its shape rule, and its transpose.

A value is, along each axis of a mesh, *replicated* (the same on all ranks, counted once) or *varying* (each rank has
its own). The types make the transposes right: the transpose of an all_reduce, whose result is replicated, moves
nothing (`pcast`), and the transpose of `pcast` is an all_reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.mode import get_mode
from ...core.ops.declare import op
from ...core.ops.facets import Form
from ...core.ops.op import TABLE, Call, Fact, Linear, Missing, Op, Vjp
from ...core.ops.record import bind_abstract
from ...core.spec import Spec, int64, show, spec_of
from ...core.tensor import Tensor, asarray
from .group import exchanged, index_along

Together = Callable[..., list[Any]]

_NO_ONNX = Missing("ONNX has no collectives")
_NAMES = "over: text, ranks: count"


def _collective(
    signature: str,
    together: Together,
    *,
    infer: Callable[..., Spec],
    fact: Fact,
    doc: str,
    say: str,
    attrs: dict[str, Any] | None = None,
    **declared: Any,
) -> Op:
    """Declare a collective: `together(values, **attrs)` gives all ranks' results for all ranks' operands, in order."""
    made: list[Op] = []

    def forward(x: Any, **given: Any) -> Any:
        return exchanged(made[0], np.asarray(x), given)

    alone = {"over": "data", "ranks": 1, **(attrs or {})}
    declaration = op(
        signature,
        forward,
        infer=infer,
        facts={"x": fact},
        kind="collective",
        doc=doc,
        samples=lambda rng: [Call((rng.normal(size=(2, 3)),), dict(alone))],
        reference=lambda x, **_: x,
        onnx=_NO_ONNX,
        cost=1,
        form=Form(signature.partition("(")[0].replace("_", " "), say=say),
        collective=together,
        **declared,
    )
    made.append(declaration)
    checked = declaration.front

    def front(x: Any, **given: Any) -> Any:
        x = x if isinstance(x, Tensor) else asarray(x)
        # An engine that moves bytes is not asked for what no rank may bring.
        declaration.infer(x.spec, **given)
        if get_mode().tracing and not x.is_abstract:
            return bind_abstract(declaration, [x], given)  # ranks meet when the program runs, not when it is traced
        return checked(x, **given)

    front.__name__ = front.__qualname__ = declaration.name
    declaration.front = front
    return declaration


def _same(x: Spec, over: str, ranks: int, **_: Any) -> Spec:
    return x


def _resized(x: Spec, axis: int, size: int) -> Spec:
    place = len(x.shape) + axis
    return spec_of((*x.shape[:place], size, *x.shape[place + 1 :]), x.dtype)


def _part(name: str, x: Spec, axis: int, ranks: int, over: str) -> int:
    """Return the size of one rank's part of an axis. Raises ShapeError where parts would not be equal."""
    size = x.shape[axis]
    if size % ranks:
        fail(
            ShapeError,
            f"{name} of {show(x.shape, x.dtype)} along axis {axis} over {over!r}: {size} is no multiple of "
            f"{ranks} ranks",
            "Every rank has a part of the same size: pad the axis, or choose another one.",
        )
    return size // ranks


def summed(values: Sequence[Any]) -> Any:
    """Return the sum of arrays, half precision in float32: the same bits on every engine.

    Neighbours are added, then their sums, and so on; one that is left over waits for the next round. So the sum of the
    sums of equal runs of them, where these are 2, 4, 8, ... long, is that of all, bit for bit.
    """
    first = values[0]
    narrow = first.dtype.itemsize == 2 and first.dtype.kind not in "iu"
    row = [np.asarray(v, np.float32) for v in values] if narrow else list(values)
    while len(row) > 1:
        pairs = [np.asarray(row[i] + row[i + 1]) for i in range(0, len(row) - 1, 2)]
        row = pairs + row[2 * len(pairs) :]
    return np.array(row[0], first.dtype)


def greatest(values: Sequence[Any]) -> Any:
    """Return the greatest of arrays, element by element; NaN where one is."""
    found = np.array(values[0])
    for other in values[1:]:
        found = np.maximum(found, other)
    return np.asarray(found, values[0].dtype)


def parts(x: Any, axis: int, ranks: int) -> list[Any]:
    """Return an array in as many equal parts along an axis."""
    size = x.shape[axis] // ranks
    before: tuple[Any, ...] = (slice(None),) * (x.ndim + axis)
    return [x[(*before, slice(i * size, (i + 1) * size))] for i in range(ranks)]


# -- sums


all_reduce: Op = _collective(
    f"all_reduce(x; {_NAMES})",
    lambda values, over, ranks: [summed(values)] * ranks,
    infer=_same,
    fact=Linear(lambda ct, over, ranks: pcast(ct, over=over, ranks=ranks)),
    accepts="numeric",
    doc="The sum of what the ranks along a mesh axis have; all of them get it.",
    say="The sum is counted once: what arrives is every rank's already.",
)

pcast: Op = _collective(
    f"pcast(x; {_NAMES})",
    lambda values, over, ranks: list(values),
    infer=_same,
    fact=Linear(lambda ct, over, ranks: all_reduce(ct, over=over, ranks=ranks)),
    doc="A value that all ranks along a mesh axis share, as each rank's own: nothing moves.",
    say="Every rank uses the value: what arrives at each is added up.",
)


def _of_greatest(ct: Any, x: Any, out: Any, over: str, ranks: int) -> Any:
    holds = x == out
    count = all_reduce(TABLE["cast"](holds, dtype=ct.dtype), over=over, ranks=ranks)
    return TABLE["where"](holds, pcast(ct / count, over=over, ranks=ranks), 0.0)


all_reduce_max: Op = _collective(
    f"all_reduce_max(x; {_NAMES})",
    lambda values, over, ranks: [greatest(values)] * ranks,
    infer=_same,
    fact=Vjp(_of_greatest),
    accepts="real",
    doc="The greatest of what the ranks along a mesh axis have, element by element; all of them get it.",
    say="The gradient goes to the ranks that have the greatest element; several share it.",
)

reduce_scatter: Op = _collective(
    f"reduce_scatter(x; {_NAMES}, axis)",
    lambda values, over, ranks, axis: parts(summed(values), axis, ranks),
    infer=lambda x, over, ranks, axis: _resized(x, axis, _part("reduce_scatter", x, axis, ranks, over)),
    fact=Linear(lambda ct, over, ranks, axis: all_gather(ct, over=over, ranks=ranks, axis=axis, replicated=False)),
    accepts="numeric",
    doc="The sum of what the ranks along a mesh axis have; each gets its part of it along an axis.",
    say="Every rank's operand is in all parts: they are gathered.",
    attrs={"axis": -1},
)

# -- parts


def _gather_transpose(ct: Any, over: str, ranks: int, axis: int, replicated: bool) -> Any:
    return (own_part if replicated else reduce_scatter)(ct, over=over, ranks=ranks, axis=axis)


all_gather: Op = _collective(
    f"all_gather(x; {_NAMES}, axis, replicated: flag)",
    lambda values, over, ranks, axis, replicated: [np.concatenate(values, axis)] * ranks,
    infer=lambda x, over, ranks, axis, replicated: _resized(x, axis, x.shape[axis] * ranks),
    fact=Linear(_gather_transpose),
    doc="What the ranks along a mesh axis have, joined along an axis in their order; all of them get it.",
    say="Each rank gets the gradient of its part, from all who use it.",
    attrs={"axis": -2, "replicated": False},
)

own_part: Op = _collective(
    f"own_part(x; {_NAMES}, axis)",
    lambda values, over, ranks, axis: [parts(x, axis, ranks)[i] for i, x in enumerate(values)],
    infer=lambda x, over, ranks, axis: _resized(x, axis, _part("own_part", x, axis, ranks, over)),
    fact=Linear(lambda ct, over, ranks, axis: all_gather(ct, over=over, ranks=ranks, axis=axis, replicated=True)),
    doc="A rank's own part, along an axis, of a value that all ranks along a mesh axis share: nothing moves.",
    say="The parts' gradients are gathered.",
    attrs={"axis": -1},
)

# -- from one to another


def _permuted(values: Sequence[Any], over: str, ranks: int, pairs: tuple[tuple[int, int], ...]) -> list[Any]:
    sources = {target: source for source, target in pairs}
    return [values[sources[i]] if i in sources else np.zeros_like(values[i]) for i in range(ranks)]


def _infer_permuted(x: Spec, over: str, ranks: int, pairs: tuple[tuple[int, int], ...]) -> Spec:
    for what, named in (("source", [a for a, _ in pairs]), ("target", [b for _, b in pairs])):
        if len(set(named)) != len(named) or any(not 0 <= i < ranks for i in named):
            fail(
                ShapeError,
                f"ppermute over {over!r} by {pairs}: each of the {ranks} ranks may be {what} at most once",
                "Pairs are (source, target), numbers from 0: a ring is [(i, (i + 1) % n) for i in range(n)].",
            )
    return x


ppermute: Op = _collective(
    f"ppermute(x; {_NAMES}, pairs: widths)",
    _permuted,
    infer=_infer_permuted,
    fact=Linear(
        lambda ct, over, ranks, pairs: ppermute(ct, over=over, ranks=ranks, pairs=tuple((b, a) for a, b in pairs))
    ),
    doc="What another rank sends, by (source, target) along a mesh axis; zeros where nobody does.",
    say="The gradient goes back the way that the value came.",
    attrs={"pairs": ((0, 0),)},
)


def _exchanged(values: Sequence[Any], over: str, ranks: int, split: int, join: int) -> list[Any]:
    sent = [parts(x, split, ranks) for x in values]
    return [np.concatenate([row[i] for row in sent], join) for i in range(ranks)]


def _infer_all_to_all(x: Spec, over: str, ranks: int, split: int, join: int) -> Spec:
    smaller = _resized(x, split, _part("all_to_all", x, split, ranks, over))
    return _resized(smaller, join, smaller.shape[join] * ranks)


all_to_all: Op = _collective(
    f"all_to_all(x; {_NAMES}, split: axis, join: axis)",
    _exchanged,
    infer=_infer_all_to_all,
    fact=Linear(lambda ct, over, ranks, split, join: all_to_all(ct, over=over, ranks=ranks, split=join, join=split)),
    doc="Each rank's parts along one axis go to the ranks along a mesh axis, who join what they get along another.",
    say="The gradient goes back the way that the parts came.",
    attrs={"split": -1, "join": -2},
)


def _at_root(ct: Any, over: str, ranks: int, root: int) -> Any:
    here = axis_index(over=over, ranks=ranks) == root
    return TABLE["where"](here, pcast(ct, over=over, ranks=ranks), 0.0)


def _infer_broadcast(x: Spec, over: str, ranks: int, root: int) -> Spec:
    if root >= ranks:
        fail(ShapeError, f"broadcast over {over!r} from rank {root} of {ranks}", "Ranks are numbered from 0.")
    return x


broadcast_from: Op = _collective(
    f"broadcast_from(x; {_NAMES}, root: size)",
    lambda values, over, ranks, root: [values[root]] * ranks,
    infer=_infer_broadcast,
    fact=Linear(_at_root),
    doc="What the rank `root` along a mesh axis has; all ranks along it get it.",
    say="The gradient goes back to the root alone.",
    attrs={"root": 0},
)

axis_index: Op = op(
    f"axis_index(; {_NAMES})",
    lambda over, ranks: np.asarray(index_along(over, ranks), int64),
    infer=lambda over, ranks: spec_of((), int64),
    kind="source",
    doc="The position of a rank along a mesh axis, from 0.",
    samples=lambda rng: [Call((), {"over": "data", "ranks": 1})],
    reference=lambda over, ranks: np.asarray(0),
    onnx=_NO_ONNX,
    cost=0,
    collective=lambda ranks, over: [np.asarray(i) for i in range(ranks)],
)
