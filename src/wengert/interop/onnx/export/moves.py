"""Forms of ops that move elements: shapes, slices, indices, order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.dims import Dim
from ....core.spec import broadcast_shapes, category
from ....ops.index.slices import length
from ..errors import refuse
from .writer import Call, Writer, form, is_whole, product

_LAST = 2**62


@form("reshape")
def _reshape(g: Writer, n: Call, x: str) -> str:
    if product(n.shape) != product(n.operand(0).shape):
        # Whether the elements fill the shape is seen when it is run: no size of it may be worked out.
        return str(g("Reshape", x, g.shape(n.shape)))
    return g.reshape(x, n.shape)


@form("broadcast")
def _broadcast(g: Writer, n: Call, x: str) -> str:
    return g.expand(x, n.shape)


@form("permute")
def _permute(g: Writer, n: Call, x: str) -> str:
    rank, axes = len(n.shape), n["axes"]
    if not axes:
        return x
    lead = rank - len(axes)
    return str(g("Transpose", x, perm=[*range(lead), *(a + rank for a in axes)]))


@form("expand_dims")
def _expand_dims(g: Writer, n: Call, x: str) -> str:
    return str(g("Unsqueeze", x, g.ints([n["axis"] + len(n.shape)])))


@form("squeeze")
def _squeeze(g: Writer, n: Call, x: str) -> str:
    return str(g("Squeeze", x, g.ints(n.axis))) if n["axis"] else x


@form("concat")
def _concat(g: Writer, n: Call, *xs: str) -> str:
    # Of an operand without elements nothing is left, and onnxruntime's optimiser passes over an `Expand` to one.
    kept = [x for i, x in enumerate(xs) if n.operand(i).shape[n["axis"]] != 0] or list(xs[:1])
    return kept[0] if len(kept) == 1 else str(g("Concat", *kept, axis=n["axis"] + len(n.shape)))


@form("stack")
def _stack(g: Writer, n: Call, *xs: str) -> str:
    axis = n["axis"] + len(n.shape)
    at = g.ints([axis])
    return str(g("Concat", *(g("Unsqueeze", x, at) for x in xs), axis=axis))


@form("split")
def _split(g: Writer, n: Call, x: str) -> Any:
    sizes = n["sizes"]
    if not sizes:
        refuse("a split into no parts")
    return g("Split", x, g.shape(sizes), results=len(sizes), axis=n["axis"] + len(n.specs[0].shape))


@form("unstack")
def _unstack(g: Writer, n: Call, x: str) -> tuple[str, ...]:
    axis = n["axis"]
    return tuple(
        str(g("Gather", x, g.const(i, np.int64), axis=axis + len(n.operand(0).shape))) for i in range(len(n.specs))
    )


@form("tile")
def _tile(g: Writer, n: Call, x: str) -> str:
    times = n["repetitions"]
    return str(g("Tile", x, g.shape([1] * (len(n.shape) - len(times)) + list(times)))) if n.shape else x


@form("repeat")
def _repeat(g: Writer, n: Call, x: str) -> str:
    shape, axis, times = n.operand(0).shape, n["axis"] + len(n.shape), n["repeats"]
    if not isinstance(times, tuple):
        wide = g("Unsqueeze", x, g.ints([axis + 1]))
        return g.reshape(g.expand(wide, (*shape[: axis + 1], times, *shape[axis + 1 :])), n.shape)
    size = _known(shape[axis], "a repetition")
    return _taken(g, x, np.repeat(np.arange(size), times), axis, len(n.shape))


@form("flip")
def _flip(g: Writer, n: Call, x: str) -> str:
    axes = n.axis
    if not axes:
        return x
    k = len(axes)
    return str(g("Slice", x, g.ints([-1] * k), g.ints([-_LAST] * k), g.ints(axes), g.ints([-1] * k)))


@form("roll")
def _roll(g: Writer, n: Call, x: str) -> str:
    for by, axis in zip(n["shift"], n.axis):
        size = n.shape[axis]
        if isinstance(size, Dim):
            # An axis without elements has no places, but runtimes refuse every remainder of a division by 0.
            most = g("Max", g.size(size), g.ints([1]))
            places = g("Mod", g("Sub", g.places(size), g.const(by, np.int64)), most)
            x = g("Gather", x, places, axis=axis)
            continue
        by = by % size if size else 0
        if not by:
            continue
        ahead = g("Slice", x, g.ints([-by]), g.ints([_LAST]), g.ints([axis]))
        behind = g("Slice", x, g.ints([0]), g.ints([-by]), g.ints([axis]))
        x = g("Concat", ahead, behind, axis=axis)
    return x


def _known(size: Any, what: str) -> int:
    if isinstance(size, Dim):
        refuse(f"{what} along an axis of the open size {size}", "Give the size in the spec.")
    return int(size)


def _taken(g: Writer, x: str, places: Any, axis: int, rank: int) -> str:
    return str(g("Gather", x, g.const(np.asarray(places, np.int64)), axis=axis + rank if axis < 0 else axis))


@form("pad")
def _pad(g: Writer, n: Call, x: str) -> str:
    widths = n["widths"]
    if not widths:
        return x
    lead = [0] * (len(n.shape) - len(widths))
    return padded(g, x, [*lead, *(w[0] for w in widths)], [*lead, *(w[1] for w in widths)], n.dtype)


def padded(g: Writer, x: str, before: list[Any], after: list[Any], dtype: Any, cuts: bool = True) -> str:
    """Return `x` with zeros around it, or less of it where a number is negative.

    A size that is open is taken for none that cuts; without `cuts` it is refused where it would.
    """
    cut = [i for i, pair in enumerate(zip(before, after)) if any(not isinstance(v, Dim) and v < 0 for v in pair)]
    if cut:
        starts = [0 if isinstance(before[i], Dim) else max(-before[i], 0) for i in cut]
        ends = [_LAST if isinstance(after[i], Dim) else min(after[i], 0) or _LAST for i in cut]
        x = g("Slice", x, g.ints(starts), g.ints(ends), g.ints(cut))
    widths = [v if isinstance(v, Dim) else max(v, 0) for v in (*before, *after)]
    nothing = is_whole(widths) and not any(widths)
    return x if nothing else str(g("Pad", x, g.shape(widths) if cuts else g.natural(*widths), g.like(0, dtype)))


@form("shift")
def _shift(g: Writer, n: Call, x: str) -> str:
    axis, by, rank = n["axis"], n["by"], len(n.shape)
    size = _known(n.shape[axis], "a shift")
    by = max(-size, min(size, by))
    before, after = [0] * rank, [0] * rank
    before[axis], after[axis] = by, -by
    return padded(g, x, before, after, n.dtype)


@form("tril", "triu")
def _triangle(g: Writer, n: Call, x: str) -> str:
    upper = n.node.op.name == "triu"
    if g.opset < 14:
        rows, columns = n.shape[-2:]
        below = g("Add", g("Unsqueeze", g.places(rows), g.ints([1])), g.const(n["k"], np.int64))
        places = g.places(columns)
        kept = g("Not", g("Less" if upper else "Greater", places, below))
        return str(g("And", kept, x) if n.dtype.kind == "b" else g("Where", kept, x, g.like(0, n.dtype)))
    if n.dtype.kind == "b":
        return g.cast(g("Trilu", g.cast(x, np.int64), g.const(n["k"], np.int64), upper=int(upper)), np.bool_)
    return str(g("Trilu", x, g.const(n["k"], np.int64), upper=int(upper)))


# -- slices


def _places(entries: Any, shape: Any) -> Any:
    """Return the flat places, among the last axes, of a slice's elements."""
    sizes = [_known(s, "a slice") for s in shape]
    index = tuple(slice(*e) if isinstance(e, tuple) else e for e in entries)
    return np.arange(math.prod(sizes)).reshape(sizes)[index]


@form("slice")
def _slice(g: Writer, n: Call, x: str) -> str:
    entries, shape = n["entries"], n.operand(0).shape
    axis = len(shape) - sum(e is not None for e in entries)
    cuts, inner, single, supposed = [], list(shape), [], False
    for e in entries:
        if e is None:
            continue
        if not isinstance(e, tuple):
            inner[axis] = 1
            cuts.append((_bound(g, e, shape[axis]), _bound(g, e + 1, shape[axis]), axis, 1))
            single.append(axis)
        elif e != (None, None, None):
            start, stop, step = e
            by = 1 if step is None else step
            inner[axis] = length(shape[axis], e)
            first, last = (0, _LAST) if by > 0 else (_LAST, -_LAST)
            cuts.append(
                (
                    g.ints([first]) if start is None else _bound(g, start, shape[axis]),
                    g.ints([last]) if stop is None else _bound(g, stop, shape[axis]),
                    axis,
                    by,
                )
            )
            supposed = supposed or not _lies_inside(e, shape[axis])
        axis += 1
    if cuts:
        starts, ends, axes, steps = zip(*cuts)
        x = g("Slice", x, g.joined(starts), g.joined(ends), g.ints(axes), g.ints(steps))
    if supposed:
        # A shorter axis has fewer elements than the trace supposes: a shape that they do not fill is refused.
        x = g.filled(x, inner)
    if single:
        x = g("Squeeze", x, g.ints(single))
    kept = [e for e in entries if e is None or isinstance(e, tuple)]
    new = [len(n.shape) - len(kept) + i for i, e in enumerate(kept) if e is None]
    return str(g("Unsqueeze", x, g.ints(new))) if new else x


def _bound(g: Writer, place: Any, size: Any) -> str:
    """Return a bound of a slice of an axis, as a list of one. ONNX counts negative ones from the end."""
    if not isinstance(place, Dim):
        return g.ints([place])
    back = place - size
    if isinstance(back, Dim):
        return g.natural(place)
    return g.ints([back if back < 0 else _LAST])


def _lies_inside(entry: Any, size: Any) -> bool:
    """Return whether a slice picks as many elements as the trace supposes, of however many there are."""
    if is_whole((size, *(e for e in entry if e is not None))):
        return True
    start, stop, step = entry
    if step is not None and step < 0:
        return bool(start == size - 1) and stop is None
    return start in (0, None) and (stop is None or stop == size)


def added(g: Writer, shape: Any, axis: int, index: str, rows: str, dtype: Any) -> str:
    """Return zeros with rows added at indices along an axis; of booleans, whether any is true."""
    if dtype.kind == "b":
        sums = added(g, shape, axis, index, g.cast(rows, np.int32), np.dtype(np.int32))
        return g.cast(sums, np.bool_)
    zeros = g.expand(g.like(0, dtype), shape)
    return str(g("ScatterElements", zeros, index, rows, axis=axis, reduction="add"))


def _put(g: Writer, base: str, shape: Any, lead: int, places: Any, values: str) -> str:
    """Return a tensor whose last axes have values put at flat places; the axes before are a stack."""
    rest = _known(product(shape[lead:]), "an update")
    flat = g.reshape(base, (*shape[:lead], rest))
    spread = np.asarray(places).reshape(-1)
    rows = g.reshape(values, (*shape[:lead], spread.size))
    index = g.const(spread.reshape((1,) * lead + (-1,)).astype(np.int64))
    index = g.expand(index, (*shape[:lead], spread.size)) if lead else index
    out = g("ScatterElements", flat, index, rows, axis=lead)
    return g.reshape(out, shape)


@form("slice_transpose", since=13)
def _slice_transpose(g: Writer, n: Call, ct: str) -> str:
    shape, sizes = n.shape, n["sizes"]
    simple = _as_pads(n["entries"], sizes, n.operand(0).shape)
    if simple is not None:
        lead = [0] * (len(shape) - len(sizes))
        inside = (*shape[: len(lead)], *simple[2])
        wide = g.reshape(ct, inside) if is_whole(simple[2]) else g.filled(ct, inside)
        return padded(g, wide, [*lead, *simple[0]], [*lead, *simple[1]], n.dtype, cuts=False)
    zeros = g.expand(g.like(0, n.dtype), shape)
    return _put(g, zeros, shape, len(shape) - len(sizes), _places(n["entries"], sizes), ct)


def _as_pads(entries: Any, sizes: Any, given: Any) -> Any:
    """Return the padding before and after, and the shape inside, of a slice without steps; None for another.

    `given` is the shape of the slice, which says how much of an open size it took.
    """
    before, after, inner = [], [], []
    i, kept = 0, len(given) - sum(e is None or isinstance(e, tuple) for e in entries)
    for e in entries:
        if e is None:
            kept += 1
            continue
        n = sizes[i]
        i += 1
        if e == (None, None, None):
            b, a, k = 0, 0, n
        elif isinstance(e, tuple):
            if isinstance(n, Dim) or isinstance(given[kept], Dim):
                start, _, step = e
                if step not in (None, 1):
                    return None
                k = given[kept]
                b = 0 if start is None else start if isinstance(start, Dim) or start >= 0 else n + start
                a = n - b - k
            else:
                start, stop, step = slice(*e).indices(n)
                if step != 1:
                    return None
                k = max(stop - start, 0)
                b, a = start, n - start - k
        else:
            b = e if isinstance(e, Dim) or e >= 0 else e + n
            a, k = n - b - 1, 1
        kept += isinstance(e, tuple)
        before.append(b)
        after.append(a)
        inner.append(k)
    return before, after, inner


@form("slice_update", since=13)
def _slice_update(g: Writer, n: Call, x: str, v: str) -> str:
    entries, shape = n["entries"], n.shape
    consumed = sum(e is not None for e in entries)
    lead = len(shape) - consumed
    places = _places(entries, shape[lead:])
    return _put(g, x, shape, lead, places, g.expand(v, (*shape[:lead], *places.shape)))


# -- indices


def _positive(g: Writer, index: str, size: Any) -> str:
    dtype = np.int64
    zero = g.like(0, dtype)
    up = g("Add", index, g.size(size) if isinstance(size, Dim) else g.like(size, dtype))
    if isinstance(size, Dim):
        up = g("Add", index, g("Squeeze", g.size(size), g.ints([0])))
    return str(g("Where", g("Less", index, zero), up, index))


def _flat(g: Writer, indices: list[str], sizes: Any) -> str:
    """Return indices over neighbouring axes as one over all of them together."""
    total = ""
    for index, size in zip(indices, sizes):
        at = _positive(g, g.cast(index, np.int64), size)
        total = g("Add", g("Mul", total, g.const(_known(size, "an index"), np.int64)), at) if total else at
    return total


@form("row_index")
def _row_index(g: Writer, n: Call, ids: str) -> str:
    # That they are rows is not checked: where one is read, a runtime refuses most of what lies outside.
    return ids


@form("index")
def _index(g: Writer, n: Call, x: str, *indices: str) -> str:
    shape = n.operand(0).shape
    axis = n["axis"] + len(shape)
    count = len(indices)
    if count == 1:
        return str(g("Gather", x, g.cast(indices[0], np.int64), axis=axis))
    lead, sizes, tail = shape[:axis], shape[axis : axis + count], shape[axis + count :]
    wide = g.reshape(x, (*lead, product(sizes), *tail))
    return str(g("Gather", wide, _flat(g, list(indices), sizes), axis=axis))


def _rows(g: Writer, n: Call, indices: tuple[str, ...], axis: int, values: str) -> tuple[Any, str, str]:
    """Return the shape with neighbouring axes as one, and indices and rows as they go with it."""
    shape, count = n.shape, len(indices)
    lead, sizes, tail = shape[:axis], shape[axis : axis + count], shape[axis + count :]
    together = _together(n, count)
    k = product(together)
    flat = g.reshape(g.expand(_flat(g, list(indices), sizes), together), (k,))
    spread = g.expand(g.reshape(flat, (*(1,) * axis, k, *(1,) * len(tail))), (*lead, k, *tail))
    return (*lead, product(sizes), *tail), spread, g.reshape(values, (*lead, k, *tail))


def _together(n: Call, count: int) -> tuple[Any, ...]:
    """Return the common shape of the last operands, which are indices."""
    found = broadcast_shapes(*(tuple(n.operand(len(n.node.inputs) - 1 - i).shape) for i in range(count)))
    assert found is not None
    return found


@form("index_transpose", since=16)
def _index_transpose(g: Writer, n: Call, ct: str, *indices: str) -> str:
    axis = n["axis"] + len(n.shape)
    wide, spread, rows = _rows(g, n, indices, axis, ct)
    return g.reshape(added(g, wide, axis, spread, rows, n.dtype), n.shape)


@form("index_update", since=13)
def _index_update(g: Writer, n: Call, x: str, v: str, *indices: str) -> str:
    shape, count = n.shape, len(indices)
    axis = n["axis"] + len(shape)
    values = g.expand(v, (*shape[:axis], *_together(n, count), *shape[axis + count :]))
    wide, spread, rows = _rows(g, n, indices, axis, values)
    return g.reshape(g("ScatterElements", g.reshape(x, wide), spread, rows, axis=axis), shape)


@form("gather")
def _gather(g: Writer, n: Call, x: str, indices: str) -> str:
    index = g.cast(indices, np.int64)
    have, want = n.operand(0).shape, n.operand(1).shape
    # ONNX broadcasts neither of them.
    axis = n["axis"]
    rank = max(len(have), len(want))
    lead = [n.shape[i] for i in range(rank)]
    index = g.expand(index, n.shape) if tuple(want) != tuple(n.shape) else index
    whole = [*lead]
    whole[axis] = have[axis]
    x = g.expand(x, whole) if tuple(have) != tuple(whole) else x
    return str(g("GatherElements", x, _positive(g, index, have[axis]), axis=axis + rank))


@form("gather_transpose", since=16)
def _gather_transpose(g: Writer, n: Call, ct: str, indices: str) -> str:
    shape, axis = n.shape, n["axis"]
    want = n.operand(0).shape
    index = g.cast(indices, np.int64)
    index = g.expand(index, want) if tuple(n.operand(1).shape) != tuple(want) else index
    return added(g, shape, axis + len(shape), _positive(g, index, n["size"]), ct, n.dtype)


@form("diagonal")
def _diagonal(g: Writer, n: Call, x: str) -> str:
    shape = n.operand(0).shape
    lead, (rows, columns) = shape[:-2], shape[-2:]
    at = _on_diagonal(g, rows, columns, n["offset"])
    return str(g("Gather", g.reshape(x, (*lead, rows * columns)), at, axis=len(lead)))


@form("embed_diagonal", since=13)
def _embed_diagonal(g: Writer, n: Call, x: str) -> str:
    shape = n.shape
    lead, (rows, columns) = shape[:-2], shape[-2:]
    at = g.expand(_on_diagonal(g, rows, columns, n["offset"]), n.operand(0).shape)
    flat = g.expand(g.like(0, n.dtype), (*lead, rows * columns))
    return g.reshape(g("ScatterElements", flat, at, x, axis=len(lead)), shape)


def _on_diagonal(g: Writer, rows: Any, columns: Any, offset: int) -> str:
    """Return the flat places of a diagonal of matrices; those of an open size are square."""
    if is_whole((rows, columns)):
        places = np.arange(rows * columns).reshape(rows, columns).diagonal(offset)
        return g.const(np.asarray(places, np.int64))
    if rows != columns:
        refuse(f"a diagonal of matrices of {rows} rows and {columns} columns", "Give the sizes in the spec.")
    first = g.size(columns * -offset if offset < 0 else offset)
    return str(g("Add", g("Mul", g.places(rows - abs(offset)), g.size(columns + 1)), first))


@form("sum_runs")
def _sum_runs(g: Writer, n: Call, x: str) -> str:
    shape, axis, times = n.operand(0).shape, n["axis"], n["repeats"]
    size = n.shape[axis]
    if not isinstance(times, tuple) and n.dtype.kind != "b":
        at = axis + len(shape)
        return g.axes("ReduceSum", g.reshape(x, (*shape[:at], size, times, *shape[at + 1 :])), (at + 1,), False)
    places = np.repeat(np.arange(_known(size, "a sum of runs")), times)
    index = g.expand(g.const(places.reshape((-1, *(1,) * (-axis - 1)))), shape)
    return added(g, n.shape, axis + len(shape), index, x, n.dtype)


@form("one_hot")
def _one_hot(g: Writer, n: Call, x: str) -> str:
    classes = n["num_classes"]
    at = g("Unsqueeze", g.cast(x, np.int64), g.ints([-1]))
    return g.cast(g("Equal", at, g.places(classes)), n.dtype)


# -- order


def _sorted(g: Writer, x: str, k: Any, axis: int, largest: bool) -> Any:
    return g("TopK", x, g.size(k) if isinstance(k, Dim) else g.ints([k]), results=2, axis=axis, largest=int(largest))


@form("arg_top_k", "top_k")
def _top_k(g: Writer, n: Call, x: str) -> Any:
    if not n["k"]:
        refuse("the first 0 elements")
    values, places = _sorted(g, x, n["k"], n.axis, n["largest"])
    return places if n.node.op.name == "arg_top_k" else (values, places)


@form("argsort", "sort")
def _argsort(g: Writer, n: Call, x: str) -> str:
    values, places = _sorted(g, x, n.shape[n.axis], n.axis, n["descending"])
    return str(places if n.node.op.name == "argsort" else values)


@form("argmax", "argmin")
def _argmax(g: Writer, n: Call, x: str) -> str:
    op = "ArgMax" if n.node.op.name == "argmax" else "ArgMin"
    if n.operand(0).dtype.kind == "b":
        x = g.cast(x, np.int32)
    return str(g(op, x, axis=n.axis, keepdims=int(n["keepdims"])))


@form("size")
def _size(g: Writer, n: Call) -> str:
    out = g("Squeeze", g.size(n["dim"]), g.ints([0]))
    return out if n.dtype == np.int64 else g.cast(out, n.dtype)


@form("searchsorted")
def _searchsorted(g: Writer, n: Call, ordered: str, values: str) -> str:
    # As many of the sorted ones as lie before. Behind all numbers there are NaNs.
    rows = g("Unsqueeze", values, g.ints([-1]))
    if len(n.operand(0).shape) > 1:
        ordered = g("Unsqueeze", ordered, g.ints([-2]))
    before = g("LessOrEqual" if n["right"] else "Less", ordered, rows)
    if category(n.operand(1).dtype) == 2:
        last = g("IsNaN", rows)
        before = g("Or", before, last if n["right"] else g("And", last, g("Not", g("IsNaN", ordered))))
    return g.axes("ReduceSum", g.cast(before, np.int64), (len(n.shape),), False)


@form("index_is_last")
def _index_is_last(g: Writer, n: Call, *indices: str) -> str:
    sizes = n["sizes"]
    shape = n.shape
    if not is_whole(shape):
        refuse("repeated indices of unknown number")
    k = math.prod(shape)
    flat = g.reshape(g.expand(_flat(g, list(indices), sizes), shape), (k,))
    same = g("Equal", g("Unsqueeze", flat, g.ints([1])), g("Unsqueeze", flat, g.ints([0])))
    later = g("And", same, g.const(np.triu(np.ones((k, k), bool), 1)))
    some = g.axes("ReduceMax", g.cast(later, np.int32), (1,), False) if k else g.const(np.zeros(0, np.int32))
    return g.reshape(g("Equal", some, g.like(0, np.int32)), shape)
