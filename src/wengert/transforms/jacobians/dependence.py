"""The sparsity of single ops: which elements of a result can depend on which elements of an argument.

The answer is a pattern: a chain of sparse boolean matrices whose product has a row for every element
of the result and a column for every element of the argument (the empty chain is the identity). Most
patterns follow from what the op table says already: elementwise ops are the identity where their
partial is not known to be zero; ops that only select or add up are asked where numbers go, by
running them (or their transposes) on numbered elements; products follow from their labels, and from
the zeros of operands that are known. The rest mixes some axes, and says how (`dependence` in
:class:`wengert.core.ops.facets.Facets`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import GraphError, fail
from ...core.node import Node
from ...core.ops.facets import Dependence, Role
from ...core.ops.op import Linear, Op, Partial, Route, Vjp, spec_of_input
from ...core.ops.record import SCALARS
from ...core.spec import Shape

Pattern = tuple[Any, ...]  # sparse matrices, applied from the last to the first
Patterns = tuple[Pattern | None, ...]  # one for every result of an op; None where nothing depends


def patterns(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return, for every result of a node, the pattern of its dependence on argument `index`.

    `values` has the arguments' values where they are known, None elsewhere.
    """
    op = node.op
    if op.joint is None and not op.fact(index).differentiable:
        return (None,) * _results(node)
    said = op.facets.get("dependence")
    if said is not None:
        return _SAID[said](node, index, values)
    if op.kind != "elementwise" and op.role in (Role.PASS, Role.BY_ELEMENT):
        return ((),)
    if op.kind == "elementwise":
        return (_elementwise(node, index, values),)
    if op.kind == "linear" and len(node.inputs) > 1 and "->" in op.layout:
        return (_product(node, index, values),)
    fact = op.fact(index) if op.joint is None else None
    if isinstance(fact, Linear) and fact.selects:
        probed = _probed(node, index, values, fact)
        if probed is not None:
            return probed
    if "->" in op.layout:
        return _by_layout(node, index)
    if "axis" in op.attr_names:
        return (_along(node, index),)
    return tuple(_whole(node, index, s) for s in _specs(node))


def apply(pattern: Pattern, rows: Any) -> Any:
    """Return the product of a pattern and a sparse boolean matrix."""
    for factor in reversed(pattern):
        _check_size(factor, rows)
        rows = factor @ rows
    return rows


LIMIT = 2**28


def _check_size(factor: Any, rows: Any) -> None:
    """Refuse a product with more entries than fit in memory, before it is formed."""
    counts = np.diff(rows.indptr).astype(float)
    running = np.concatenate(([0.0], np.cumsum(counts[factor.indices])))
    most = running[factor.indptr[1:]] - running[factor.indptr[:-1]]
    total = float(np.minimum(most, rows.shape[1]).sum())
    if total > LIMIT:
        fail(
            GraphError,
            f"sparsity: a value of {factor.shape[0]} elements has up to {total:.3g} dependences on "
            f"{rows.shape[1]} elements",
            "The function is not sparse: use wg.jacobian, wg.hvp or wg.vjp.",
        )


# -- matrices


def sparse() -> Any:
    """Return the module scipy.sparse, which only sparsity needs."""
    try:
        import scipy.sparse
    except ImportError:
        fail(GraphError, "sparsity needs SciPy, which is not installed", "pip install scipy")
    return scipy.sparse


def matrix(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """Return a boolean matrix with these entries."""
    made = sparse().csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)
    made.sum_duplicates()
    return made


def _size(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _numbers(shape: Shape) -> Any:
    return np.arange(_size(shape)).reshape(shape)


def _specs(node: Node) -> tuple[Any, ...]:
    spec: Any = node.spec
    return spec if isinstance(spec, tuple) else (spec,)


def _results(node: Node) -> int:
    return len(_specs(node))


def _shape(node: Node, index: int) -> Shape:
    return spec_of_input(node.inputs[index]).shape


def _whole(node: Node, index: int, spec: Any) -> Pattern:
    """Return the pattern of a result that depends everywhere on every element of the argument."""
    return _blocks(_shape(node, index), None, spec.shape, None)


def _blocks(shape: Shape, axes: Sequence[int] | None, out_shape: Shape, out_axes: Sequence[int] | None) -> Pattern:
    """Return the pattern of dependence on all along `axes`; the other axes are aligned from the right.

    None stands for all axes. Axes count from the right; the result has `out_axes` instead.
    """
    kept = _without(shape, axes)
    out_kept = _without(out_shape, out_axes)
    groups = _numbers(kept)
    of_in = np.broadcast_to(_expanded(groups, shape, axes), shape).ravel()
    spread = np.broadcast_to(groups, out_kept)
    of_out = np.broadcast_to(_expanded(spread, out_shape, out_axes), out_shape).ravel()
    gather = matrix(of_in, np.arange(of_in.size), (groups.size, of_in.size))
    return matrix(np.arange(of_out.size), of_out, (of_out.size, groups.size)), gather


def _without(shape: Shape, axes: Sequence[int] | None) -> Shape:
    if axes is None:
        return ()
    gone = {a % len(shape) for a in axes}
    return tuple(n for i, n in enumerate(shape) if i not in gone)


def _expanded(groups: Any, shape: Shape, axes: Sequence[int] | None) -> Any:
    if axes is None:
        return groups.reshape((1,) * len(shape))
    gone = {a % len(shape) for a in axes}
    return groups.reshape(tuple(1 if i in gone else n for i, n in enumerate(shape)))


# -- elementwise


def _elementwise(node: Node, index: int, values: Sequence[Any]) -> Pattern | None:
    out = _specs(node)[0].shape
    weight = _weight(node, index, values)
    if weight is not None:
        weight = np.broadcast_to(weight, out).ravel()
        if not weight.any():
            return None
    if _shape(node, index) != out:
        return _spread(_shape(node, index), out)
    if weight is None or weight.all():
        return ()
    there = np.flatnonzero(weight)
    return (matrix(there, there, (weight.size, weight.size)),)


def _spread(shape: Shape, out: Shape) -> Pattern:
    found = np.broadcast_to(_numbers(shape), out).ravel()
    return (matrix(np.arange(found.size), found, (found.size, _size(shape))),)


def _weight(node: Node, index: int, values: Sequence[Any]) -> Any:
    """Return the mask of nonzero elementwise partials, if their inputs are known; else None."""
    fact = node.op.fact(index)
    if isinstance(fact, Vjp):
        return _present(node, index, fact, values)
    if not isinstance(fact, (Partial, Route)) or fact.needs_out or not _known(fact.needs, values):
        return None
    saved = (*values, None)
    with np.errstate(all="ignore"):
        found = np.asarray(fact.pull(None, saved, node, index))
        if isinstance(fact, Route) and fact.weight is not None:
            found = found & (np.asarray(fact.weight(None, saved, node, index)) != 0)
    return found != 0


def _present(node: Node, index: int, fact: Vjp, values: Sequence[Any]) -> Any:
    """Return the mask that a general elementwise rule gives for these values, with ones for unknown floating values."""
    if fact.present is None or fact.needs_out:
        return None
    given = [
        np.ones(e.spec.shape, e.spec.dtype) if v is None and isinstance(e, Node) else v
        for e, v in zip(node.inputs, values, strict=True)
    ]
    return np.asarray(fact.present(None, (*given, None), node, index)) != 0


def _known(needs: frozenset[int], values: Sequence[Any]) -> bool:
    return all(values[i] is not None for i in needs)


# -- what selects or adds up


def _probed(node: Node, index: int, values: Sequence[Any], fact: Linear) -> Patterns | None:
    """Return the pattern found by running the op or its transpose on numbered elements.

    None where an element of the result takes several of the argument and one of the argument goes to
    several of the result, or where other arguments that must be known are not.
    """
    op = node.op
    fixed = len(op.params) - op.variadic
    for i, v in enumerate(values):
        if v is None and not op.fact(min(i, len(op.params) - 1)).differentiable:
            return None
    shape, specs = _shape(node, index), _specs(node)

    def forward(x: Any) -> Any:
        args = [_still(op, e, v) for e, v in zip(node.inputs, values, strict=True)]
        args[index] = x
        out = op.forward(*args, **node.attrs)
        several = out if isinstance(node.spec, tuple) else (out,)
        return np.concatenate([np.asarray(o, float).ravel() for o in several]) if several else np.zeros(0)

    def backward(flat: Any) -> Any:
        parts = np.split(flat, np.cumsum([_size(s.shape) for s in specs])[:-1])
        cts = tuple(p.reshape(s.shape) for p, s in zip(parts, specs, strict=True))
        saved = tuple(values[i] if i >= fixed or values[i] is not None else None for i in range(len(values)))
        found = fact.pull(cts if isinstance(node.spec, tuple) else cts[0], (*saved, None), node, index)
        return np.asarray(found, float).ravel()

    total = sum(_size(s.shape) for s in specs)
    found = _single(forward, shape, total)
    if found is not None:
        whole = matrix(*found, (total, _size(shape)))
    else:
        found = _single(backward, (total,), _size(shape))
        if found is None:
            return None
        whole = matrix(found[1], found[0], (total, _size(shape)))
    starts = np.cumsum([0, *(_size(s.shape) for s in specs)])
    if len(specs) == 1:
        return ((whole,),)
    return tuple((whole[a:b],) for a, b in zip(starts[:-1], starts[1:], strict=True))


def _still(op: Op, entry: Any, value: Any) -> Any:
    """Return the value to put in another argument's place: one of which a linear op passes on nothing."""
    spec = spec_of_input(entry)
    if value is not None and not spec.inexact:
        return value
    return 0 if type(entry) in SCALARS else np.zeros(spec.shape)


def _single(fn: Callable[[Any], Any], shape: Shape, count: int) -> tuple[Any, Any] | None:
    """Return (row, column) of every element, if a nonnegative linear function takes at most one for each.

    Two numberings, one of them random, must agree on which element it is.
    """
    size = _size(shape)
    if not size or not count:
        return np.zeros(0, int), np.zeros(0, int)
    weight = fn(np.ones(shape))
    rows = np.flatnonzero(weight)
    weight = weight[rows]
    columns = fn(_numbers(shape).astype(float))[rows] / weight
    guess = np.rint(columns).astype(int)
    random = 1 + np.random.default_rng(1964).random(size)
    seen = fn(random.reshape(shape))[rows] / weight
    if np.any(guess < 0) or np.any(guess >= size) or not np.allclose(seen, random[guess], rtol=1e-12, atol=0):
        return None
    return rows, guess


# -- products


def _product(node: Node, index: int, values: Sequence[Any]) -> Pattern | None:
    """Return the pattern of an op whose layout is a sum of products, over axes counted from the right."""
    terms, out = node.op.layout.split("->")
    cores = [[*filter(None, t.split(","))] for t in re.findall(r"\(([^)]*)\)", terms)]
    out_core = [*filter(None, out.strip("()").split(","))]
    shapes = [_shape(node, i) for i in range(len(cores))]
    labels = []
    for core, shape in zip(cores, shapes, strict=True):
        lead = len(shape) - len(core)
        labels.append([*range(-lead, 0), *core])
    lead = len(_specs(node)[0].shape) - len(out_core)
    return contraction(labels, [*range(-lead, 0), *out_core], shapes, index, values)


def _einsum(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    terms, out = node.attrs["subscripts"].split("->")
    shapes = [_shape(node, i) for i in range(len(node.inputs))]
    return (contraction([list(t) for t in terms.split(",")], list(out), shapes, index, values),)


def contraction(
    terms: Sequence[Sequence[Any]], out: Sequence[Any], shapes: Sequence[Shape], index: int, values: Sequence[Any]
) -> Pattern | None:
    """Return the pattern of a sum of products (an einsum) in one operand; zeros of the known others count."""
    sizes: dict[Any, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    own, shape = terms[index], shapes[index]
    wanted = set(own) | set(out)
    known = [(t, np.asarray(values[i]) != 0) for i, t in enumerate(terms) if i != index and values[i] is not None]
    mask, labels = _joint_mask(known, wanted, sizes)
    if mask is None or mask.all():
        shared = [c for c in dict.fromkeys(own) if c in out]
        coordinates = dict(zip(shared, map(np.ravel, np.indices([sizes[c] for c in shared])), strict=True))
        return _factors(own, shape, out, sizes, shared, coordinates)
    if not mask.any():
        return None
    coordinates = dict(zip(labels, np.nonzero(mask), strict=True))
    free = [c for c in dict.fromkeys([*own, *out]) if c not in coordinates]
    at = _outer(coordinates, free, sizes)
    return (
        matrix(
            _place(out, tuple(sizes[c] for c in out), at, sizes),
            _place(own, shape, at, sizes),
            (_size(tuple(sizes[c] for c in out)), _size(shape)),
        ),
    )


def _factors(
    own: Sequence[Any], shape: Shape, out: Sequence[Any], sizes: dict[Any, int], shared: list[Any], at: dict[Any, Any]
) -> Pattern:
    """Return the pattern where all operands but one are full: sums over its labels, then the result's labels."""
    groups = _size(tuple(sizes[c] for c in shared))
    number = np.arange(groups)
    out_shape = tuple(sizes[c] for c in out)
    inner = _outer({**at, _GROUP: number}, [c for c in dict.fromkeys(own) if c not in shared], sizes)
    outer = _outer({**at, _GROUP: number}, [c for c in dict.fromkeys(out) if c not in shared], sizes)
    gather = matrix(inner[_GROUP], _place(own, shape, inner, sizes), (groups, _size(shape)))
    return matrix(_place(out, out_shape, outer, sizes), outer[_GROUP], (_size(out_shape), groups)), gather


_GROUP = object()


def _outer(coordinates: dict[Any, Any], free: Sequence[Any], sizes: dict[Any, int]) -> dict[Any, Any]:
    """Return coordinates for every combination of those given with the positions along free labels."""
    at = dict(coordinates)
    count = len(next(iter(at.values()))) if at else 1
    for label in free:
        n = sizes[label]
        at = {k: np.repeat(v, n) for k, v in at.items()}
        at[label] = np.tile(np.arange(n), count)
        count *= n
    return at


def _place(term: Sequence[Any], shape: Shape, at: dict[Any, Any], sizes: dict[Any, int]) -> Any:
    """Return flat positions in an operand; an axis of size 1 is the same for every position of its label."""
    count = len(next(iter(at.values()))) if at else 1
    flat = np.zeros(count, int)
    for label, n in zip(term, shape, strict=True):
        flat = flat * n + (at[label] if n == sizes[label] else 0)
    return flat


def _joint_mask(known: Sequence[tuple[Sequence[Any], Any]], wanted: set[Any], sizes: dict[Any, int]) -> tuple[Any, Any]:
    """Return the mask of nonzero products of known operands, over those of their labels that are wanted."""
    if not known:
        return None, ()
    numbers = {c: i for i, c in enumerate(dict.fromkeys(c for t, _ in known for c in t))}
    operands: list[Any] = []
    for term, mask in known:
        full = np.broadcast_to(mask, tuple(sizes[c] for c in term))
        operands += [full.astype(np.int64), [numbers[c] for c in term]]
    labels = [c for c in numbers if c in wanted]
    return np.einsum(*operands, [numbers[c] for c in labels], optimize=len(known) > 2) != 0, labels


def _windows(size: Shape, out: Shape, attrs: Any, kernel: Shape) -> tuple[Any, Any, Any]:
    """Return flat positions in the output, the kernel and the input of all that meet, over all dimensions."""
    o = k = s = np.zeros(1, int)
    dilation = attrs.get("dilation", (1,) * len(kernel))
    for n, m, w, step, (low, _), gap in zip(size, out, kernel, attrs["stride"], attrs["padding"], dilation):
        window, offset = np.indices((m, w)).reshape(2, -1)
        place = window * step + offset * gap - low
        inside = (place >= 0) & (place < n)
        o = (o[:, None] * m + window[inside]).ravel()
        k = (k[:, None] * w + offset[inside]).ravel()
        s = (s[:, None] * n + place[inside]).ravel()
    return o, k, s


def _convolution(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return the patterns of a convolution: x (*batch, C, *S), w (O, C / groups, *K), y (*batch, O, *out)."""
    attrs, dims = node.attrs, len(node.attrs["stride"])
    first, second = node.op.params
    (result,) = {"x", "w", "y"} - {first, second}
    shapes = {first: _shape(node, 0), second: _shape(node, 1), result: _specs(node)[0].shape}
    x, w, y = shapes["x"], shapes["w"], shapes["y"]
    groups, batch = attrs["groups"], _size(x[: -dims - 1])
    channels, outs = x[-dims - 1], w[0]
    o, k, s = _windows(x[len(x) - dims :], y[len(y) - dims :], attrs, w[2:])
    sizes = batch, groups, outs // groups, channels // groups
    b, g, p, c = np.indices(sizes).reshape(4, -1, 1)
    flat = {
        "x": ((b * groups + g) * sizes[3] + c) * _size(x[len(x) - dims :]) + s,
        "w": ((g * sizes[2] + p) * sizes[3] + c) * _size(w[2:]) + k,
        "y": ((b * groups + g) * sizes[2] + p) * _size(y[len(y) - dims :]) + o,
    }
    at = {name: np.broadcast_to(f, (b.shape[0], o.size)).ravel() for name, f in flat.items()}
    own, other = (first, second) if index == 0 else (second, first)
    value = values[1 - index]
    if value is not None:
        there = np.asarray(value).ravel()[at[other]] != 0
        at = {name: f[there] for name, f in at.items()}
    return ((matrix(at[result], at[own], (_size(shapes[result]), _size(shapes[own]))),),)


def _pool(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return the patterns of pooling: each element of the smaller array and its window in the larger one."""
    kernel = node.attrs["kernel"]
    if "winners" in node.op.params and values[1] is not None:
        probed = _probed(node, index, values, node.op.fact(index))  # type: ignore[arg-type]
        if probed is not None:
            return probed
    shapes = _shape(node, 0), _specs(node)[0].shape
    back = "size" in node.op.attr_names
    large, small = shapes[::-1] if back else shapes
    lead = len(large) - len(kernel)
    out, _, at = _windows(large[lead:], small[lead:], node.attrs, kernel)
    own = np.arange(_size(large[:lead]))[:, None]
    in_large = (own * _size(large[lead:]) + at).ravel()
    in_small = (own * _size(small[lead:]) + out).ravel()
    pairs = (in_large, in_small) if back else (in_small, in_large)
    return ((matrix(*pairs, (_size(shapes[1]), _size(shapes[0]))),),)


# -- what mixes some axes


def _axes(node: Node) -> tuple[int, ...]:
    axes = node.attrs["axes"] if "axes" in node.attrs else node.attrs["axis"]
    return axes if isinstance(axes, tuple) else (axes,)


def _along(node: Node, index: int) -> Pattern:
    """Return the pattern of dependence on all along the axes: of reductions and of ops on whole rows."""
    shape, out = _shape(node, index), _specs(node)[0].shape
    axes = _axes(node)
    lost = node.attrs.get("keepdims") is False
    return _blocks(shape, axes, out, () if lost else axes)


def _rows(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    shape, axes = _shape(node, index), _axes(node)
    return tuple(_blocks(shape, axes, s.shape, axes) for s in _specs(node))


def _running(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return the patterns of running ops: on elements before (after, reversed), and on itself unless exclusive."""
    shape, axis = _shape(node, index), _axes(node)[0] % len(_shape(node, index))
    n = shape[axis]
    offset = -1 if node.attrs.get("exclusive") else 0
    later, earlier = np.nonzero(np.tri(n, n, offset, dtype=bool))
    if node.op.name == "linear_recurrence" and index == 0:
        later, earlier = later[earlier > 0], earlier[earlier > 0]  # the first factor meets nothing
    if node.attrs.get("reverse"):
        later, earlier = n - 1 - later, n - 1 - earlier
    before, after = np.indices((_size(shape[:axis]), _size(shape[axis + 1 :]))).reshape(2, -1, 1)
    after_size = _size(shape[axis + 1 :])
    rows = ((before * n + later) * after_size + after).ravel()
    columns = ((before * n + earlier) * after_size + after).ravel()
    return ((matrix(rows, columns, (_size(shape), _size(shape))),),)


def _by_layout(node: Node, index: int) -> Patterns:
    """Return the patterns of dependence on all of the core axes, each of the leading ones on its own."""
    terms, outs = node.op.layout.split("->")
    cores = [len([*filter(None, t.split(","))]) for t in re.findall(r"\(([^)]*)\)", terms)]
    out_cores = [len([*filter(None, t.split(","))]) for t in re.findall(r"\(([^)]*)\)", outs)]
    core = cores[min(index, len(cores) - 1)]
    return tuple(
        _blocks(_shape(node, index), range(-core, 0), s.shape, range(-c, 0))
        for s, c in zip(_specs(node), out_cores, strict=True)
    )


def _solved(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return the patterns of a solver: each column of the right-hand side is solved for on its own."""
    if index == 0:
        return _by_layout(node, index)
    return (_blocks(_shape(node, 1), (-2,), _specs(node)[0].shape, (-2,)),)


def _solved_by_substitution(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return the patterns of a triangular solver: each row depends on the rows before it and their triangle."""
    upper, unit = node.attrs["upper"], node.attrs["unit"]
    shape, out = _shape(node, index), _specs(node)[0].shape
    if shape[:-2] != out[:-2]:
        return _by_layout(node, index)
    n, columns = out[-2:]
    before = np.tri(n, dtype=bool)
    batch = sparse().eye_array(_size(out[:-2]), dtype=bool)
    own = sparse().csr_array(before.T if upper else before)
    if index == 1:
        rows = sparse().kron(own, sparse().eye_array(columns, dtype=bool))
        return ((_boolean(sparse().kron(batch, rows)),),)
    read = np.tri(n, k=-1 if unit else 0, dtype=bool)
    row, column = np.nonzero(read.T if upper else read)
    taken = matrix(row, row * n + column, (n, n * n))
    rows = sparse().kron(own, np.ones((columns, 1), bool))
    return ((_boolean(sparse().kron(batch, rows)), _boolean(sparse().kron(batch, taken))),)


def _boolean(a: Any) -> Any:
    return sparse().csr_array(a).astype(bool)


def _indexed(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    """Return the patterns of integer arrays over neighbouring axes, which may pick anything there if unknown."""
    op = node.op
    probed = _probed(node, index, values, op.fact(index))  # type: ignore[arg-type]
    if probed is not None:
        return probed
    shape, out = _shape(node, index), _specs(node)[0].shape
    if op.name == "index_update" and index == 0:
        return ((),)
    first = len(op.params) - 1
    many = [_shape(node, i) for i in range(first, len(node.inputs))]
    common = len(np.broadcast_shapes(*many))
    axis, axes = node.attrs["axis"], len(many)
    tail = -axis - axes
    whole, picked = range(axis, axis + axes), range(-tail - common, -tail)
    if op.name == "index":
        return (_blocks(shape, whole, out, picked),)
    lead = len(out) + axis
    there = shape[lead : lead + common]
    if op.name == "index_update" and there != np.broadcast_shapes(*many):
        return (_whole(node, index, _specs(node)[0]),)
    return (_blocks(shape, picked, out, whole),)


def _imaginary(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    return ((),) if spec_of_input(node.inputs[0]).dtype.kind == "c" else (None,)


def _mean(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    return (_along(node, index),)


def _drawn(node: Node, index: int, values: Sequence[Any]) -> Patterns:
    return (_spread(_shape(node, index), _specs(node)[0].shape),)


_Rule = Callable[[Node, int, Sequence[Any]], Patterns]
_SAID: dict[Dependence, _Rule] = {
    "axes": _mean,
    "broadcast": _drawn,
    "columns": _solved,
    "convolution": _convolution,
    "imaginary": _imaginary,
    "indices": _indexed,
    "rows": _rows,
    "running": _running,
    "subscripts": _einsum,
    "substitution": _solved_by_substitution,
    "windows": _pool,
}
