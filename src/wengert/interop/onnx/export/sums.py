"""Forms of reductions, products, convolutions and pools, and of their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.spec import category, spec_of
from .moves import _known, _taken, added, padded
from .writer import Call, Writer, form, product


def _widened(g: Writer, x: str, dtype: Any, wanted: Any) -> str:
    return x if dtype == wanted else g.cast(x, wanted)


@form("sum")
def _sum(g: Writer, n: Call, x: str) -> str:
    return g.axes("ReduceSum", _widened(g, x, n.operand(0).dtype, n.dtype), n.axis, n["keepdims"])


@form("mean")
def _mean(g: Writer, n: Call, x: str) -> str:
    return g.axes("ReduceMean", _widened(g, x, n.operand(0).dtype, n.dtype), n.axis, n["keepdims"])


@form("prod")
def _prod(g: Writer, n: Call, x: str) -> str:
    return g.axes("ReduceProd", _widened(g, x, n.operand(0).dtype, n.dtype), n.axis, n["keepdims"])


@form("max", "min")
def _extreme(g: Writer, n: Call, x: str) -> str:
    op = "ReduceMax" if n.node.op.name == "max" else "ReduceMin"
    if n.dtype.kind == "b":
        return g.cast(g.axes(op, g.cast(x, np.int32), n.axis, n["keepdims"]), np.bool_)
    if n.dtype == np.uint64:
        # Less half of their range integers with a sign have the order of those without.
        half = g.like(np.iinfo(np.int64).min, np.int64)
        found = g.axes(op, g("Add", g.cast(x, np.int64), half), n.axis, n["keepdims"])
        return g.cast(g("Add", found, half), n.dtype)
    if category(n.dtype) == 1 and n.dtype not in (np.int32, np.int64, np.uint8, np.int8):
        return g.cast(g.axes(op, g.cast(x, np.int64), n.axis, n["keepdims"]), n.dtype)
    return g.axes(op, x, n.axis, n["keepdims"])


@form("all", "any")
def _truth(g: Writer, n: Call, x: str) -> str:
    source = n.operand(0).dtype
    true = x if source.kind == "b" else g("Not", g("Equal", x, g.like(0, source)))
    op = "ReduceMin" if n.node.op.name == "all" else "ReduceMax"
    # Of no elements the largest is the least integer, and the least the largest.
    return str(g("Greater", g.axes(op, g.cast(true, np.int32), n.axis, n["keepdims"]), g.like(0, np.int32)))


@form("count_nonzero")
def _count_nonzero(g: Writer, n: Call, x: str) -> str:
    source = n.operand(0).dtype
    true = x if source.kind == "b" else g("Not", g("Equal", x, g.like(0, source)))
    return g.axes("ReduceSum", g.cast(true, n.dtype), n.axis, n["keepdims"])


@form("logsumexp")
def _logsumexp(g: Writer, n: Call, x: str) -> str:
    return g.axes("ReduceLogSumExp", x, n.axis, n["keepdims"])


@form("l2_norm")
def _l2_norm(g: Writer, n: Call, x: str) -> str:
    return g.axes("ReduceL2", x, n.axis, n["keepdims"])


def _deviations(g: Writer, x: str, axes: Any) -> tuple[str, str]:
    centred = g("Sub", x, g.axes("ReduceMean", x, axes, True))
    return centred, g("Mul", centred, centred)


@form("var")
def _var(g: Writer, n: Call, x: str) -> str:
    count = product([n.operand(0).shape[a] for a in n.axis])
    _, squares = _deviations(g, x, n.axis)
    if not n["correction"]:
        return g.axes("ReduceMean", squares, n.axis, n["keepdims"])
    total = g.axes("ReduceSum", squares, n.axis, n["keepdims"])
    return str(g("Div", total, g.like(_known(count, "a corrected variance") - n["correction"], n.dtype)))


@form("standardize")
def _standardize(g: Writer, n: Call, x: str) -> tuple[str, ...]:
    mean = g.axes("ReduceMean", x, n.axis, True)
    centred = g("Sub", x, mean)
    spread = g.axes("ReduceMean", g("Mul", centred, centred), n.axis, True)
    inverse = g("Reciprocal", g("Sqrt", g("Add", spread, g.like(n["eps"], n.dtype))))
    results = [g("Mul", centred, inverse), mean, spread]
    return tuple(g.reshape(r, s.shape) if i else r for i, (r, s) in enumerate(zip(results, n.specs)))


@form("cumulative_sum")
def _cumulative_sum(g: Writer, n: Call, x: str) -> str:
    if n.dtype not in (np.float32, np.float64, np.int32, np.int64):
        wide = np.float32 if category(n.dtype) == 2 else np.int64
        return g.cast(g("CumSum", g.cast(x, wide), g.const(n.axis, np.int64), reverse=int(n["reverse"])), n.dtype)
    return str(g("CumSum", x, g.const(n.axis, np.int64), reverse=int(n["reverse"])))


@form("cumulative_prod")
def _cumulative_prod(g: Writer, n: Call, x: str) -> str:
    axis, before, reverse = n.axis, bool(n["exclusive"]), bool(n["reverse"])
    if g.opset >= 26:
        return str(g("CumProd", x, g.const(axis, np.int64), exclusive=int(before), reverse=int(reverse)))
    row = spec_of(tuple(s for i, s in enumerate(n.shape) if i != axis), n.dtype)
    inner = Writer(g.opset, g)
    names = [inner.name("state"), inner.name("row")]
    made = inner("Mul", *names)
    body = g.finished(inner, "body", names, [row, row], [made, names[0] if before else made], [row, row])
    ones = g.expand(g.like(1, n.dtype), row.shape)
    _, out = g(
        "Scan", ones, x, results=2, num_scan_inputs=1, body=body, scan_input_axes=[axis], scan_output_axes=[axis],
        scan_input_directions=[int(reverse)], scan_output_directions=[int(reverse)],
    )  # fmt: skip
    return str(out)


# -- products


def _multiplied(g: Writer, n: Call, x: str, y: str) -> str:
    if category(n.dtype) < 2 and n.dtype not in (np.int32, np.int64):
        return g.cast(g("MatMul", g.cast(x, np.int64), g.cast(y, np.int64)), n.dtype)
    return str(g("MatMul", _widened(g, x, n.operand(0).dtype, n.dtype), _widened(g, y, n.operand(1).dtype, n.dtype)))


@form("matmul")
def _matmul(g: Writer, n: Call, x: str, y: str) -> str:
    return _multiplied(g, n, x, y)


@form("matvec")
def _matvec(g: Writer, n: Call, x: str, y: str) -> str:
    column = g("Unsqueeze", y, g.ints([-1]))
    return str(g("Squeeze", _multiplied(g, n, x, column), g.ints([-1])))


@form("vecmat")
def _vecmat(g: Writer, n: Call, x: str, y: str) -> str:
    row = g("Unsqueeze", x, g.ints([-2]))
    return str(g("Squeeze", _multiplied(g, n, row, y), g.ints([-2])))


@form("dot")
def _dot(g: Writer, n: Call, x: str, y: str) -> str:
    row, column = g("Unsqueeze", x, g.ints([-2])), g("Unsqueeze", y, g.ints([-1]))
    return str(g("Squeeze", _multiplied(g, n, row, column), g.ints([-1, -2])))


@form("einsum")
def _einsum(g: Writer, n: Call, *xs: str) -> str:
    return str(g("Einsum", *xs, equation=n["subscripts"]))


@form("det")
def _det(g: Writer, n: Call, x: str) -> str:
    return str(g("Det", x))


# -- convolutions


def _as_batch(g: Writer, x: str, shape: Any, ndim: int) -> tuple[str, Any]:
    """Return an operand with one leading axis, and the axes that it stands for."""
    lead = shape[: -ndim - 1]
    return (x if len(lead) == 1 else g.reshape(x, (product(lead), *shape[-ndim - 1 :]))), lead


def _pads(padding: Any) -> list[int]:
    return [p[0] for p in padding] + [p[1] for p in padding]


def _cut(g: Writer, x: str, padding: Any, dtype: Any) -> tuple[str, list[int]]:
    """Return an operand without what negative padding takes away, and the padding that is left."""
    before, after = [min(p[0], 0) for p in padding], [min(p[1], 0) for p in padding]
    return padded(g, x, [0, 0, *before], [0, 0, *after], dtype), [max(v, 0) for v in _pads(padding)]


@form("convolve")
def _convolve(g: Writer, n: Call, x: str, w: str) -> str:
    ndim = len(n["stride"])
    wide, lead = _as_batch(g, x, n.operand(0).shape, ndim)
    wide, pads = _cut(g, wide, n["padding"], n.dtype)
    out = g(
        "Conv", wide, w, strides=list(n["stride"]), pads=pads, dilations=list(n["dilation"]), group=n["groups"],
        kernel_shape=[int(k) for k in n.operand(1).shape[2:]],
    )  # fmt: skip
    return out if len(lead) == 1 else g.reshape(out, n.shape)


@form("convolve_transpose")
def _convolve_transpose(g: Writer, n: Call, y: str, w: str) -> str:
    ndim = len(n["stride"])
    wide, lead = _as_batch(g, y, n.operand(0).shape, ndim)
    kernel = [int(k) for k in n.operand(1).shape[2:]]
    have = [int(v) for v in n.operand(0).shape[-ndim:]]
    # What the windows do not reach at the end is zeros.
    full = [s * (h - 1) + d * (k - 1) + 1 for s, h, d, k in zip(n["stride"], have, n["dilation"], kernel)]
    short = [z + b - f for z, (b, _), f in zip(n["size"], n["padding"], full)]
    out = g(
        "ConvTranspose",
        wide,
        w,
        strides=list(n["stride"]),
        dilations=list(n["dilation"]),
        group=n["groups"],
        kernel_shape=kernel,
    )
    before = [-p[0] for p in n["padding"]]
    if any(before) or any(short):
        out = padded(g, out, [0, 0, *before], [0, 0, *short], n.dtype)
    return out if len(lead) == 1 else g.reshape(out, n.shape)


@form("convolve_kernel")
def _convolve_kernel(g: Writer, n: Call, x: str, y: str) -> str:
    # The cotangent in a kernel is a correlation of the operand with the result's cotangent, in which batch and channels
    # change places, and so do strides and dilations.
    ndim, groups = len(n["stride"]), n["groups"]
    wide, _ = _as_batch(g, x, n.operand(0).shape, ndim)
    wide, pads = _cut(g, wide, n["padding"], n.dtype)
    high, _ = _as_batch(g, y, n.operand(1).shape, ndim)
    inner, outer = n.operand(0).shape[-ndim - 1] // groups, n.operand(1).shape[-ndim - 1] // groups
    rest = list(range(2, 2 + ndim))
    columns = []
    for i in range(groups):
        part = g("Slice", wide, g.ints([i * inner]), g.ints([(i + 1) * inner]), g.ints([1])) if groups > 1 else wide
        of = g("Slice", high, g.ints([i * outer]), g.ints([(i + 1) * outer]), g.ints([1])) if groups > 1 else high
        turned, kernel = g("Transpose", part, perm=[1, 0, *rest]), g("Transpose", of, perm=[1, 0, *rest])
        out = g("Conv", turned, kernel, strides=list(n["dilation"]), dilations=list(n["stride"]), pads=pads)
        keep = [int(k) for k in n["kernel"]]
        out = g("Slice", out, g.ints([0] * ndim), g.ints(keep), g.ints(rest))
        columns.append(g("Transpose", out, perm=[1, 0, *rest]))
    return columns[0] if groups == 1 else str(g("Concat", *columns, axis=0))


# -- pools


def _pooled(g: Writer, n: Call, x: str, op: str, **attributes: Any) -> str:
    kernel, shape = n["kernel"], n.operand(0).shape
    ndim = len(kernel)
    wide = g.reshape(x, (product(shape[:-ndim]), 1, *shape[-ndim:]))
    out = g(op, wide, kernel_shape=list(kernel), strides=list(n["stride"]), pads=_pads(n["padding"]), **attributes)
    return g.reshape(out, n.shape)


@form("max_pool")
def _max_pool(g: Writer, n: Call, x: str) -> str:
    return _pooled(g, n, x, "MaxPool", dilations=list(n["dilation"]))


@form("sum_pool")
def _sum_pool(g: Writer, n: Call, x: str) -> str:
    kernel, shape = n["kernel"], n.operand(0).shape
    ndim = len(kernel)
    channels = product(shape[:-ndim])
    wide = g.reshape(x, (channels, 1, *shape[-ndim:]))
    ones = g.const(np.ones((1, 1, *kernel), n.dtype))
    out = g("Conv", wide, ones, kernel_shape=list(kernel), strides=list(n["stride"]), pads=_pads(n["padding"]))
    return g.reshape(out, n.shape)


def _window_places(n: Call, size: Any, dilation: Any) -> tuple[Any, Any]:
    """Return, for each window and place in it, the flat place in the operand, -1 in the padding; (windows, kernel)."""
    kernel, stride, padding = n["kernel"], n["stride"], n["padding"]
    sizes = [_known(s, "a pool's derivative") for s in size]
    out = [
        (s + b + a - d * (k - 1) - 1) // t + 1 for s, (b, a), k, t, d in zip(sizes, padding, kernel, stride, dilation)
    ]
    total: Any = np.zeros((1, 1), np.int64)
    inside: Any = np.ones((1, 1), bool)
    for s, o, (b, _), k, t, d in zip(sizes, out, padding, kernel, stride, dilation):
        at = (np.arange(o) * t - b)[:, None] + np.arange(k) * d
        ok = (at >= 0) & (at < s)
        rows, columns = total.shape
        total = (total[:, None, :, None] * s + at[None, :, None, :]).reshape(rows * o, columns * k)
        inside = (inside[:, None, :, None] & ok[None, :, None, :]).reshape(rows * o, columns * k)
    return np.where(inside, total, -1), out


@form("argmax_pool")
def _argmax_pool(g: Writer, n: Call, x: str) -> str:
    ndim = len(n["kernel"])
    shape = n.operand(0).shape
    places, _ = _window_places(n, shape[-ndim:], n["dilation"])
    seen = _windows(g, x, shape, ndim, places, n.operand(0).dtype)
    out = g("ArgMax", seen, axis=len(shape) - ndim + 1, keepdims=0)
    return g.reshape(g.cast(out, n.dtype), n.shape)


def _windows(g: Writer, x: str, shape: Any, ndim: int, places: Any, dtype: Any) -> str:
    """Return each window's elements as (..., windows, kernel), with the lowest number in the padding."""
    lead = shape[:-ndim]
    flat = g.reshape(x, (*lead, math.prod(int(s) for s in shape[-ndim:])))
    seen = _taken(g, flat, np.maximum(places, 0), -1, len(lead) + 1)
    if (places < 0).any():
        lowest = -np.inf if category(dtype) == 2 else np.iinfo(dtype).min
        seen = g("Where", g.const(places >= 0), seen, g.like(lowest, dtype))
    return seen


@form("pool_select")
def _pool_select(g: Writer, n: Call, x: str, winners: str) -> str:
    ndim = len(n["kernel"])
    shape = n.operand(0).shape
    places, out = _window_places(n, shape[-ndim:], n["dilation"])
    seen = _windows(g, x, shape, ndim, places, n.dtype)
    lead = shape[:-ndim]
    index = g("Unsqueeze", g.reshape(g.cast(winners, np.int64), (*lead, math.prod(out))), g.ints([-1]))
    return g.reshape(g("GatherElements", seen, index, axis=len(lead) + 1), n.shape)


@form("pool_scatter", since=16)
def _pool_scatter(g: Writer, n: Call, y: str, winners: str) -> str:
    ndim = len(n["kernel"])
    lead = n.shape[:-ndim]
    places, out = _window_places(n, n["size"], n["dilation"])
    windows = math.prod(out)
    table = g.const(np.maximum(places, 0).reshape(-1))
    first = g.const(np.arange(windows) * places.shape[1])
    at = g("Add", g.reshape(g.cast(winners, np.int64), (*lead, windows)), first)
    index = g("Gather", table, at, axis=0)
    rows = g.reshape(y, (*lead, windows))
    return g.reshape(added(g, (*lead, math.prod(n["size"])), len(lead), index, rows, n.dtype), n.shape)


@form("spread_pool", since=16)
def _spread_pool(g: Writer, n: Call, y: str) -> str:
    ndim = len(n["kernel"])
    lead = n.shape[:-ndim]
    places, out = _window_places(n, n["size"], (1,) * ndim)
    windows, size = math.prod(out), math.prod(n["size"])
    # Places in the padding go to an element behind the last one, which is left out.
    index = g.const(np.where(places < 0, size, places).reshape(-1))
    index = g.expand(g.reshape(index, (*(1,) * len(lead), places.size)), (*lead, places.size))
    rows = g("Unsqueeze", g.reshape(y, (*lead, windows)), g.ints([-1]))
    rows = g.reshape(g.expand(rows, (*lead, windows, places.shape[1])), (*lead, places.size))
    sums = added(g, (*lead, size + 1), len(lead), index, rows, n.dtype)
    return g.reshape(g("Slice", sums, g.ints([0]), g.ints([size]), g.ints([len(lead)])), n.shape)
