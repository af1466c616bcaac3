"""Strategies: for an op, which parts of its operands give which parts of its results.

The parts are those of ranks along one axis of a mesh, or those that a loop takes one after the other. Each rule lists
*strategies*. What follows from an op's declaration alone (its kind, role, layout, the axes that it reduces) is a
default; an op that has no strategy runs on whole values, which is right for every op.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..core.node import Node
from ..core.ops.facets import Role
from ..core.ops.op import Linear, Partial, Route, spec_of_input
from ..core.ops.record import OUTPUT, SCALARS
from ..core.spec import Shape, Spec, category

# What each has of a value: None for all of it, the dimension (from the left) of which it has a part, PARTIAL for a
# summand.
Entry = int | None
PARTIAL = -1


class Strategy(NamedTuple):
    """Placements of the operands along one mesh axis, those of the results, and how the results are finished.

    `finish` is what the ranks' results become the whole's by, beyond their placement: "mean" of n partial sums, or the
    "max" or "min" of all. With `in_ring` operands go round the ranks (see :class:`Ring`).
    """

    operands: tuple[Entry, ...]
    results: tuple[Entry, ...]
    finish: str = ""
    in_ring: bool = False


Shapes = Sequence[Shape | None]  # None for a literal


def specs_of_results(node: Node) -> tuple[Spec, ...]:
    """Return the specs of a node's results."""
    spec: Any = node.spec
    return spec if isinstance(spec, tuple) else (spec,)


def operand_shapes(node: Node) -> list[Shape | None]:
    """Return the shapes of a node's operands; None for literals."""
    return [None if type(e) in SCALARS else spec_of_input(e).shape for e in node.inputs]


def strategies(node: Node) -> list[Strategy]:
    """Return the strategies of a node along any mesh axis, but for that of whole operands and results."""
    found = list(_strategies(node, operand_shapes(node), [s.shape for s in specs_of_results(node)]))
    return [s for s in dict.fromkeys(found) if any(e is not None for e in (*s.operands, *s.results))]


def _strategies(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    op = node.op
    if op is OUTPUT or op.draws or op.kind in ("leaf", "source", "control"):
        return
    if op.kind == "collective":
        yield from _beside(node, given, results)
        return
    yield from _partial(node, given)
    yield from _ring(node, given, results)
    rule = _rule(node)
    if rule is not None:
        yield from rule(node, given, results)


def _rule(node: Node) -> Callable[[Node, Shapes, Sequence[Shape]], Iterator[Strategy]] | None:
    op = node.op
    said = op.facets.get("dependence")
    if op.kinds.get("axes") == "last_axes":
        return _rows
    if op.kind == "composite" and not op.layout and all(isinstance(f, Partial | Route) for f in op.facts):
        return _elementwise
    if op.kind == "composite":
        return _by_layout if op.layout and node.attrs.get("axis", -1) == -1 else None
    if said == "convolution":
        return _convolution
    if said == "subscripts":
        return _subscripts
    if said == "indices":
        return _indexed
    if said == "windows" or "kernel" in op.attr_names:
        return _windows
    if "shape" in op.attr_names:
        return _reshaped if op.role is Role.RESHAPE else _broadcast if op.role is Role.STRIDE else None
    if "entries" in op.attr_names:
        return _sliced if len(op.params) == 1 else None
    if "widths" in op.attr_names:
        return _padded
    if op.kinds.get("axes") == "permutation":
        return _permuted
    if op.role is Role.PRODUCT and "->" in op.layout:
        return _product
    if op.kind == "elementwise" or op.role in (Role.PASS, Role.BY_ELEMENT):
        return _elementwise
    if "axis" in op.attr_names or "axes" in op.attr_names:
        return _along
    return _by_layout if "->" in op.layout else None


# -- partial sums


def _partial(node: Node, given: Shapes) -> Iterator[Strategy]:
    """Yield the strategies by which sums of partial operands are sums of partial results."""
    op, count = node.op, len(given)
    results = (PARTIAL,) * len(specs_of_results(node))
    if op.kind == "elementwise":
        if op.facets.get("over_parts") == "linear" and None not in given:
            yield Strategy((PARTIAL,) * count, results)
        return
    if op.kind == "composite" or op.facets.get("over_parts") in ("max", "min"):
        return
    if op.role is Role.JOIN:
        yield Strategy((PARTIAL,) * count, results)
        return
    if op.role is Role.BY_ELEMENT and not _keeps_digits(node):
        return
    linear = [i for i in range(count) if given[i] is not None and isinstance(op.fact(i), Linear)]
    if op.joint is None and (len(linear) == 1 or op.role is Role.PRODUCT):
        for i in linear:
            yield Strategy(tuple(PARTIAL if k == i else None for k in range(count)), results)


def _keeps_digits(node: Node) -> bool:
    """Return whether a cast is linear: between floating dtypes, to no fewer digits."""
    source, target = spec_of_input(node.inputs[0]).dtype, specs_of_results(node)[0].dtype
    return category(source) == category(target) == 2 and target.itemsize >= source.itemsize


def _ring(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield the strategy of an op on sequences of which every rank has a part: those that all operands have."""
    ring = node.op.facets.get("ring")
    if ring is None or len(ring.operands) != len(given) or None in given:
        return
    shapes: list[Any] = [*given, *results]
    sizes = {s[axis] for s, axis in zip(shapes, (*ring.operands, *ring.results), strict=True)}
    if len(sizes) == 1:
        operands = tuple(len(s) + axis for s, axis in zip(shapes, ring.operands, strict=False))
        places = tuple(len(s) + axis for s, axis in zip(results, ring.results, strict=True))
        yield Strategy(operands, places, in_ring=True)


# -- element by element, and along axes


def _dims(rank: int, shape: Shape, sizes: Shape) -> list[int | None]:
    """Return, for the dimensions of a result, those of an operand that is aligned with it from the right.

    None where the operand has none, or one element for all.
    """
    lack = rank - len(shape)
    return [d - lack if d >= lack and shape[d - lack] == sizes[d] else None for d in range(rank)]


def _elementwise(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    shape = results[0]
    aligned = [None if s is None else _dims(len(shape), s, shape) for s in given]
    for d in range(len(shape)):
        yield Strategy(tuple(None if a is None else a[d] for a in aligned), (d,) * len(results))


def _along(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies of an op that does the same for every place beside some axes of its operands."""
    op = node.op
    axes = node.attrs["axis"] if "axis" in op.attr_names else node.attrs["axes"]
    is_new = op.kinds.get("axis") == "new_axis"
    listed = tuple(axes) if isinstance(axes, tuple) else (axes,)
    ranks = {len(s) for s in given if s is not None}
    if len(ranks) != 1 or None in given or (is_new and len(listed) > 1):
        return
    (rank,) = ranks
    first: Any = given[0]
    outs = {len(s) for s in results}
    if is_new:
        place = rank + 1 + listed[0]
        kept = [(d, d if d < place else d + 1) for d in range(rank)]
        gone: list[int] = []
    else:
        gone = [rank + a for a in listed]
        left = [d for d in range(rank) if d not in gone]
        removed = outs == {rank - len(gone)} and outs != {rank}
        if not removed and outs != {rank}:
            return
        kept = [(d, left.index(d) if removed else d) for d in left]
    for d, out in kept:
        if all(s is not None and s[d] == first[d] for s in given) and all(s[out] == first[d] for s in results):
            yield Strategy((d,) * len(given), (out,) * len(results))
    how = op.facets.get("over_parts")
    if how in ("sum", "mean", "max", "min"):
        for d in gone:
            if how in ("sum", "mean"):
                yield Strategy((d,), (PARTIAL,), "mean" if how == "mean" else "")
            else:
                yield Strategy((d,), (None,), str(how))


def _rows(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies of an op on rows over the last axes: its other operands are as long as a row."""
    whole = len(given[0] or ()) - node.attrs["axes"]
    for d in range(whole):
        if all(len(s) > d and s[d] == results[0][d] for s in results):
            yield Strategy((d, *(None for _ in given[1:])), (d,) * len(results))


def _windows(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies over the dimensions before those that windows move along."""
    inner = len(node.attrs["kernel"])
    lead = {s[: len(s) - inner] for s in (*given, *results) if s is not None}
    if len(lead) == 1:
        for d in range(len(next(iter(lead)))):
            yield Strategy((d,) * len(given), (d,) * len(results))


# -- other shapes


def _groups(a: Shape, b: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the dimensions of two shapes of as many elements, in pairs of runs whose sizes multiply to the same."""
    i = j = 0
    while i < len(a) or j < len(b):
        left, right = [i] if i < len(a) else [], [j] if j < len(b) else []
        i, j = i + len(left), j + len(right)
        while (p := math.prod(a[k] for k in left)) != (q := math.prod(b[k] for k in right)):
            if (p < q and i < len(a)) or j >= len(b):
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        yield left, right


def _reshaped(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies over the outermost dimension of each run that is reshaped by itself."""
    source: Any = given[0]
    (target,) = results
    if 0 in source:
        return
    for left, right in _groups(source, target):
        outer = [next((d for d in run if s[d] != 1), None) for run, s in ((left, source), (right, target))]
        if outer[0] is not None and outer[1] is not None:
            yield Strategy((outer[0],), (outer[1],))


def _broadcast(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    (shape,) = results
    for d, own in enumerate(_dims(len(shape), given[0] or (), shape)):
        if own is not None:
            yield Strategy((own,), (d,))
    for d, own in enumerate(_dims(len(shape), given[0] or (), shape)):
        if own is None:
            yield Strategy((None,), (d,))


def _permuted(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    axes, rank = node.attrs["axes"], len(results[0])
    before = rank - len(axes)
    for d in range(rank):
        yield Strategy((d if d < before else rank + axes[d - before],), (d,))


def is_whole(entry: Any, size: int) -> bool:
    """Return whether an entry of a slice takes all of a dimension, in order."""
    if type(entry) is not tuple:
        return False
    start, stop, step = entry
    return start in (None, 0) and (stop is None or stop == size) and step in (None, 1)


def _sliced(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies over the dimensions that a slice, or its transpose, leaves whole."""
    is_transpose = "sizes" in node.op.attr_names
    big, small = (results[0], given[0]) if is_transpose else (given[0], results[0])
    assert big is not None
    assert small is not None
    lead = len(big) - sum(e is not None for e in node.attrs["entries"])
    pairs = [(d, d) for d in range(lead)]
    d = out = lead
    for entry in node.attrs["entries"]:
        if entry is not None and is_whole(entry, big[d]):
            pairs.append((d, out))
        d, out = d + (entry is not None), out + (entry is None or type(entry) is tuple)
    for a, b in pairs:
        yield Strategy((b,), (a,)) if is_transpose else Strategy((a,), (b,))


def _padded(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    for d, width in enumerate(node.attrs["widths"]):
        if width == (0, 0):
            yield Strategy((d,), (d,))


# -- products


def _product(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies of sums of products: over a dimension of the result, or over one that is summed."""
    operands, out = _labelled(node.op.layout)
    terms = [_full(core, shape) for core, shape in zip(operands, given, strict=True)]
    batch = max(len(t) - len(c) for t, c in zip(terms, operands, strict=True))
    named = [[f"{i - (len(t) - len(c)) + batch}" if i < len(t) - len(c) else t[i] for i in range(len(t))]
             for t, c in zip(terms, operands, strict=True)]  # fmt: skip
    result = [*(str(i) for i in range(batch)), *out[0]]
    yield from _labels(named, result, given, results)


def _labels(
    named: Sequence[Sequence[str]], result: Sequence[str], given: Shapes, results: Sequence[Shape]
) -> Iterator[Strategy]:
    for label in dict.fromkeys(x for term in named for x in term):
        places: list[Entry] = []
        for term, shape in zip(named, given, strict=True):
            place = term.index(label) if label in term else None
            if place is not None and label in result and shape is not None:
                size = results[0][result.index(label)]
                place = place if shape[place] == size else None  # one for all
            places.append(place)
        if any(list(term).count(label) > 1 for term in named):
            continue
        yield Strategy(tuple(places), (result.index(label) if label in result else PARTIAL,))


def _labelled(layout: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the names of the core dimensions of operands and of results that a layout says."""
    before, after = layout.split("->")
    return tuple(  # type: ignore[return-value]
        [[x.strip() for x in core.split(",") if x.strip()] for core in re.findall(r"\(([^)]*)\)", side)]
        for side in (before, after)
    )


def _full(core: Sequence[str], shape: Shape | None) -> list[str]:
    rank = len(shape or ())
    return [*("" for _ in range(rank - len(core))), *core]


def _subscripts(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    terms, out = node.attrs["subscripts"].split("->")
    yield from _labels(terms.split(","), out, given, results)


def _convolution(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies over examples, and over channels where there is one group of them."""
    inner = len(node.attrs["stride"])
    kernel = ["o", "c", *(f"k{i}" for i in range(inner))]
    named: list[list[str]] = []
    for name, shape in zip((*node.op.params, "out"), (*given, *results), strict=True):
        is_kernel = name == "w" or (name == "out" and "kernel" in node.op.attr_names)
        if is_kernel:
            named.append(kernel)
            continue
        is_small = name == "y" or (name == "out" and node.op.params == ("x", "w"))
        lead = len(shape or ()) - inner - 1
        places = [f"{'s' if is_small else 'l'}{i}" for i in range(inner)]
        named.append([*(str(i) for i in range(lead)), "o" if is_small else "c", *places])
    wanted = {"o", "c"} if node.attrs["groups"] == 1 else set()
    for found in _labels(named[:-1], named[-1], given, results):
        used = {t[e] for t, e in zip(named, (*found.operands, *found.results), strict=True) if e not in (None, PARTIAL)}
        if all(x.isdigit() or x in wanted for x in used):
            yield found


# -- indices


def _indexed(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies of picking by arrays of integers and its transpose; over the indices, or beside them."""
    op, axis = node.op, node.attrs["axis"]
    picks = op.params[0] == "x"
    if len(given) < 2 or "v" in op.params or None in given:
        return
    whole, picked = (given[0], results[0]) if picks else (results[0], given[0])
    assert whole is not None
    assert picked is not None
    count, shapes = len(given) - 1, given[1:]
    if any(s != shapes[0] for s in shapes):
        return
    inner = len(shapes[0] or ())
    lead = len(whole) + axis
    for d in range(inner):
        at = tuple(d for _ in range(count))
        if picks:
            yield Strategy((None, *at), (lead + d,))
        else:
            yield Strategy((lead + d, *at), (PARTIAL,))
    none = (None,) * count
    for d in [*range(lead), *range(lead + count, len(whole))]:
        out = d if d < lead else d - count + inner
        yield Strategy((d, *none), (out,)) if picks else Strategy((out, *none), (d,))


# -- rows of a layout


def _by_layout(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies over the leading dimensions, in each of which an op with core dimensions does the same."""
    operands, outs = _labelled(node.op.layout)
    operands += [operands[-1]] * (len(given) - len(operands)) if operands else []
    operands = operands[: len(given)]
    if len(outs) != len(results) or len(operands) != len(given):
        return
    leads = [None if s is None else len(s) - len(c) for s, c in zip(given, operands, strict=True)]
    rank = max((n for n in leads if n is not None), default=0)
    if any(len(s) - len(c) != rank for s, c in zip(results, outs, strict=True)):
        return
    sizes = results[0][:rank]
    for d in range(rank):
        places = tuple(
            None if n is None or s is None else _dims(rank, s[:n], sizes)[d] for n, s in zip(leads, given, strict=True)
        )
        yield Strategy(places, (d,) * len(results))


# -- collectives, along another axis than theirs


def _beside(node: Node, given: Shapes, results: Sequence[Shape]) -> Iterator[Strategy]:
    """Yield strategies of a collective along other mesh axes: over the dimensions that it does not cut or join."""
    (shape,), (out,) = given, results
    assert shape is not None
    used = {len(shape) + node.attrs[name] for name in ("axis", "split", "join") if name in node.attrs}
    for d in range(len(out)):
        if d not in used:
            yield Strategy((d,), (d,))


# -- attributes that name sizes


def local_attrs(node: Node, operands: Sequence[Shape | None], results: Sequence[Shape]) -> dict[str, Any]:
    """Return a node's attributes for operands and results of the shapes that one rank has."""
    attrs = dict(node.attrs)
    if "shape" in attrs and not node.op.draws:
        attrs["shape"] = results[0]
    if "entries" in attrs:
        big = specs_of_results(node)[0].shape if "sizes" in attrs else operand_shapes(node)[0]
        assert big is not None
        sizes = iter(big[len(big) - sum(e is not None for e in attrs["entries"]) :])
        attrs["entries"] = tuple(
            e if e is None or not is_whole(e, next(sizes)) else (None, None, None) for e in attrs["entries"]
        )
        if "sizes" in attrs:
            attrs["sizes"] = results[0][len(results[0]) - len(attrs["sizes"]) :]
    return attrs
