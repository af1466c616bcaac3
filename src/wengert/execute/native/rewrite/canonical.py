"""The canonical form of a graph, from which lowering starts.

Composites without a kernel of their own are opened; reductions are written with the four that loops
have; reshapes move up to where they are views. Every rule keeps the values that the op's own
forward gives, up to rounding.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT, constant_node, located
from ....core.node import Node
from ....core.ops.facets import Role
from ....core.ops.op import TABLE
from ....core.ops.record import OUTPUT
from ....core.spec import bool_, category, complex64, complex128, float64
from ....ops.long_sums import MANY
from ....passes.cse import cse
from ....passes.fold import fold
from ....passes.origins import note
from ....passes.rewrite import Rule, RuleSet, build, is_op, moved_onto, number, rewrite, with_outputs
from ....passes.rules import VALUE_SAFE
from ....passes.safer import SAFER
from ....passes.simplify import simplify
from ..plan.lowering import RULES
from .extremes import extremes
from .half import HALF
from .loops.invariants import scans
from .loops.rolled import rolled
from .pairs import paired
from .picks import PICKS, hits_seen_as
from .row_cse import REPEATED_ROWS
from .scalarize import components
from .small_products import SMALL_PRODUCTS
from .sums import sums_of_scatters
from .sums_of_products import sums_of_products
from .views import VIEWS


def canonical(graph: Graph, is_thrifty: bool = False) -> Graph:
    """Return the graph in the form that :mod:`wengert.execute.native.fuse.groups` takes.

    Where it is to be thrifty, nothing is done that keeps values in memory for longer.
    """
    graph = graph if is_thrifty else rolled(graph)
    graph = scans(rewrite(rewrite(rewrite(graph, HALF), SAFER), _SOFTMAX))
    while True:
        opened = graph.expand_where(lambda n: n.op.name not in RULES)
        if opened is graph:
            break
        graph = opened
    graph = paired(graph)
    graph = cse(rewrite(rewrite(fold(graph, _FOLDED), _UNIFORM), _SIMPLER))
    graph = rewrite(rewrite(graph, SMALL_PRODUCTS), _RULES)
    graph = graph if is_thrifty else sums_of_products(graph)
    graph = rewrite(cse(graph), REPEATED_ROWS)
    whole = cse(rewrite(graph if is_thrifty else sums_of_scatters(graph), _SIMPLER))
    parted = simplify(components(whole))
    graph = parted = whole if parted is whole else cse(parted)
    for _ in range(_ROUNDS):
        before, graph = graph, _reshapes_first(graph)
        if graph is before:
            break
    return graph if graph is parted else cse(graph)


# Constants made while compiling are kept with the program: small ones only.
_FOLDED = 1 << 16
# The most elementwise nodes in a row that a reshape moves over.
_ROUNDS = 8


def _float32_or_64(node: Node) -> bool:
    return bool(node.spec.dtype.kind == "f" and node.spec.dtype.itemsize >= 4)


# Ops whose value is their first operand's, and reductions that loops have.
_SAME = frozenset(op.name for op in TABLE.values() if op.role is Role.PASS)
_REDUCTIONS = frozenset(op.name for op in TABLE.values() if "reduction" in op.facets)


def _same(node: Node) -> Node | None:
    x = node.inputs[0]
    return x if isinstance(x, Node) and x.spec == node.spec else None


def _of_nothing(node: Node) -> Node | None:
    """Rewrite a sum or product over an axis of size 0 as 0 or 1 everywhere."""
    (x,), empty = node.inputs, node.op.facets["reduction"].empty
    if not isinstance(x, Node) or x.spec.size or not node.spec.size or empty is None:
        return None
    value = constant_node(np.asarray(empty, node.spec.dtype))
    return build("broadcast", (value,), node, shape=node.spec.shape) if node.spec.shape else value


def _like(value: Node, x: Node) -> Node:
    return build("broadcast", (value,), x, shape=x.spec.shape) if value.spec.shape != x.spec.shape else value


def _count(x: Node, axis: tuple[int, ...]) -> int:
    return math.prod(x.spec.shape[a] for a in axis)


def _mean(node: Node) -> Node | None:
    (x,), axis = node.inputs, node.attrs["axis"]
    if not isinstance(x, Node) or not _float32_or_64(x) or _count(x, axis) == 0:
        return None
    total = build("sum", (x,), node, axis=axis, keepdims=node.attrs["keepdims"])
    return build("divide", (_over_single_axes(total) or total, float(_count(x, axis))), node)


def _logsumexp(node: Node) -> Node | None:
    (x,), axis = node.inputs, node.attrs["axis"]
    if not isinstance(x, Node) or not _float32_or_64(x) or _count(x, axis) == 0:
        return None
    top = build("max", (x,), node, axis=axis, keepdims=True)
    shifted = build("exp", (build("subtract", (x, _like(top, x)), node),), node)
    total = build("sum", (shifted,), node, axis=axis, keepdims=True)
    level = build("add", (build("log", (total,), node), top), node)
    # An infinite maximum is the result itself (and a NaN is neither less nor more than it).
    whole = build("where", (build("isinf", (top,), node), top, level), node)
    return build("reshape", (whole,), node, shape=node.spec.shape) if whole.spec.shape != node.spec.shape else whole


def _softmax(node: Node) -> Node | None:
    """Rewrite softmax with one division a row: the sum is at least 1, so its reciprocal is a normal number."""
    (x,), axis = node.inputs, (node.attrs["axis"],)
    if not isinstance(x, Node) or not _float32_or_64(x) or x.spec.size == 0:
        return None
    top = build("max", (x,), node, axis=axis, keepdims=True)
    shifted = build("exp", (build("subtract", (x, _like(top, x)), node),), node)
    total = build("sum", (shifted,), node, axis=axis, keepdims=True)
    return build("multiply", (shifted, _like(build("reciprocal", (total,), node), x)), node)


def _moments(x: Node, axis: tuple[int, ...], like: Node) -> tuple[Node, Node, Node]:
    """Return the mean, the deviation from it, and the sum of its squares, along axes that are kept."""
    total = build("sum", (x,), like, axis=axis, keepdims=True)
    mean = build("divide", (total, float(_count(x, axis))), like)
    return mean, *_squared_deviations(x, mean, axis, like)


def _squared_deviations(x: Node, mean: Node, axis: tuple[int, ...], like: Node) -> tuple[Node, Node]:
    """Return the deviation from a mean, and the sum of its squares."""
    deviation = build("subtract", (x, _like(mean, x)), like)
    squares = build("sum", (build("multiply", (deviation, deviation), like),), like, axis=axis, keepdims=True)
    return deviation, squares


def _var(node: Node) -> Node | None:
    (x,), axis = node.inputs, node.attrs["axis"]
    if not isinstance(x, Node) or not _float32_or_64(x):
        return None
    freedom = _count(x, axis) - node.attrs["correction"]
    if _count(x, axis) == 0 or freedom <= 0:
        return None
    total = build("sum", (x,), node, axis=axis, keepdims=True)
    mean = build("divide", (total, float(_count(x, axis))), node)
    # Of equal elements the mean may be another number, by a rounding: between the extremes it is theirs.
    squares = _squared_deviations(x, build("clip", (mean, *extremes(x, axis, node)), node), axis, node)[1]
    found = build("divide", (squares, float(freedom)), node)
    return build("reshape", (found,), node, shape=node.spec.shape) if found.spec.shape != node.spec.shape else found


def _standardize(node: Node) -> Node | None:
    """Rewrite the `output` nodes of standardize, each by which of the three results it is."""
    source = node.inputs[0]
    if not isinstance(source, Node) or source.op.name != "standardize":
        return None
    (x,), axis = source.inputs, source.attrs["axis"]
    if not isinstance(x, Node) or not _float32_or_64(x) or _count(x, axis) == 0:
        return None
    mean, deviation, squares = _moments(x, axis, node)
    variance = build("divide", (squares, float(_count(x, axis))), node)
    if node.attrs["index"] == 1:
        return mean
    if node.attrs["index"] == 2:
        return variance
    inverse = build("rsqrt", (build("add", (variance, source.attrs["eps"]), node),), node)
    return build("multiply", (deviation, _like(inverse, x)), node)


def _sum_of_wider(node: Node) -> Node | None:
    """Rewrite a sum or product so that it is computed in the dtype of its result."""
    (x,) = node.inputs
    if not isinstance(x, Node) or node.spec.dtype in (x.spec.dtype, bool_):
        return None
    return build(node.op.name, (build("cast", (x,), node, dtype=node.spec.dtype),), node, **node.attrs)


def _long_product(node: Node) -> Node | None:
    """Rewrite a product of many numbers in a wider dtype: in any order each factor adds a rounding."""
    (x,), dtype = node.inputs, node.spec.dtype
    if not isinstance(x, Node) or x.spec.dtype != dtype or _count(x, node.attrs["axis"]) <= MANY:
        return None
    wider = complex128 if dtype == complex64 else float64 if category(dtype) == 2 and dtype.itemsize < 8 else None
    if wider is None:
        return None
    wide = build("prod", (build("cast", (x,), node, dtype=wider),), node, **node.attrs)
    return build("cast", (wide,), node, dtype=dtype)


def _truth(x: Node, node: Node) -> Node:
    return x if x.spec.dtype.kind == "b" else build("not_equal", (x, 0), node)


def _any_or_all(node: Node) -> Node | None:
    (x,) = node.inputs
    if not isinstance(x, Node) or x.spec.dtype.kind == "b" or node.spec.dtype.kind != "b":
        return None
    return build(node.op.name, (_truth(x, node),), node, **node.attrs)


def _count_nonzero(node: Node) -> Node | None:
    (x,) = node.inputs
    if not isinstance(x, Node):
        return None
    counted = build("cast", (_truth(x, node),), node, dtype=node.spec.dtype)
    return build("sum", (counted,), node, **node.attrs)


def _over_single_axes(node: Node) -> Node | None:
    """Rewrite a reduction over axes of size 1 as a reshape; sums begin at 0.0, and 0.0 plus -0.0 is 0.0."""
    (x,) = node.inputs
    if not isinstance(x, Node) or _count(x, node.attrs["axis"]) != 1 or x.spec.dtype != node.spec.dtype:
        return None
    if node.op.name == "sum" and x.spec.inexact:
        x = build("add", (x, 0.0), node)
    return build("reshape", (x,), node, shape=node.spec.shape)


def _of_broadcast_axes(node: Node) -> Node | None:
    """Rewrite a sum over axes along which a broadcast repeats as a product with their length."""
    (x,) = node.inputs
    if not is_op(x, "broadcast") or not isinstance(x.inputs[0], Node) or not _float32_or_64(x) or not node.spec.size:
        return None
    source, ndim = x.inputs[0], x.spec.ndim
    padded = (1,) * (ndim - source.spec.ndim) + source.spec.shape
    repeated = [a for a in node.attrs["axis"] if padded[a] == 1 and x.spec.shape[a] != 1]
    if not repeated or x.spec.dtype != node.spec.dtype or not x.spec.size:
        return None
    once = tuple(1 if a - ndim in repeated else n for a, n in enumerate(x.spec.shape))
    full = build("broadcast", (source,), node, shape=once) if source.spec.shape != once else source
    total = build("sum", (full,), node, **node.attrs)
    return build("multiply", (_over_single_axes(total) or total, float(_count(x, tuple(repeated)))), node)


def _chosen_last(node: Node) -> Node | None:
    """Rewrite where(c, f(where(c, x, y)), z) as where(c, f(x), z), for functions of floats, which cannot fail.

    Gradients are masked at every step, so that what was not chosen never meets an infinite derivative.
    """
    condition, made, other = node.inputs
    if not isinstance(made, Node) or made.op.kind != "elementwise" or made.op.draws or made.spec != node.spec:
        return None
    if any(isinstance(e, Node) and e.spec.dtype.kind not in "fb" for e in (made, *made.inputs)):
        return None
    inputs = tuple([_chosen(e, condition, node) for e in made.inputs])
    if all(a is b for a, b in zip(inputs, made.inputs, strict=True)):
        return None
    found = located(made.op, inputs, made.attrs, made.spec, made.code, made.offset, made.scope)
    return build("where", (condition, found, other), node)


def _chosen(entry: Any, condition: Any, node: Node) -> Any:
    if not is_op(entry, "where") or entry.inputs[0] is not condition:
        return entry
    x = entry.inputs[1]
    return x if isinstance(x, Node) and x.spec == entry.spec and x.spec.shape == node.spec.shape else entry


def _numbers_together(node: Node) -> Node | None:
    """Rewrite c (d x) as (c d) x, and (c x) (d y) as x y where c d is 1 or -1.

    The numbers are small, so that this is rounding but for what lies within a factor of 16 of the largest or the
    smallest numbers.
    """
    if not _float32_or_64(node):
        return None
    factors = [_factor(e) for e in node.inputs]
    known = [c for c in (*map(number, node.inputs), *(f[0] for f in factors if f)) if c is not None]
    if len(known) != 2 or not any(factors) or not all(1 / 16 <= abs(c) <= 16 for c in known):
        return None
    c = float(known[0]) * float(known[1])
    rest = [f[1] if f else e for f, e in zip(factors, node.inputs, strict=True) if f or number(e) is None]
    if not all(isinstance(r, Node) and r.spec == node.spec for r in rest):
        return None
    if len(rest) == 1:
        return build("multiply", (rest[0], c), node)
    if abs(c) != 1:
        return None
    x, y = rest
    return build("multiply", (x if c == 1 else build("negative", (x,), node), y), node)


def _factor(entry: Any) -> tuple[Any, Any] | None:
    """Return the number and the other factor of a product with a number."""
    if not is_op(entry, "multiply"):
        return None
    x, y = entry.inputs
    c, d = number(x), number(y)
    if (c is None) == (d is None):
        return None
    return (c, y) if c is not None else (d, x)


def _bound(node: Node) -> Node | None:
    """Rewrite a bound that is an array of one number as that number: less code does for what is known to be no NaN."""
    x, bound = node.inputs
    source = bound.inputs[0] if isinstance(bound, Node) and bound.op.name == "broadcast" else bound
    if not isinstance(source, Node) or source.op is not CONSTANT or source.spec.size != 1:
        return None
    value = source.attrs["value"]
    if not isinstance(x, Node) or x.spec != node.spec or value.dtype != x.spec.dtype or not _float32_or_64(x):
        return None
    number = float(value.item())
    return build(node.op.name, (x, number), node) if number == number else None


def _square(node: Node) -> Node | None:
    """Rewrite the second power as a product, to which it rounds alike."""
    x, exponent = node.inputs
    if not isinstance(x, Node) or isinstance(exponent, Node) or exponent != 2 or x.spec != node.spec:
        return None
    return build("multiply", (x, x), node) if _float32_or_64(x) else None


def _repeated(node: Node) -> Node | None:
    """Rewrite an array that is the same all along some axes as one that lacks them, broadcast.

    Less memory is read, none where it is one number, about which there are rules of their own; and what is a row of
    numbers for every pixel of an image, say, is seen to be one.
    """
    value = node.attrs["value"]
    if value.size < 2 or value.dtype.kind == "V" or value.dtype.kind == "c":
        return None
    # As bits, so that NaNs are equal and zeros of different signs are not.
    bits = np.ascontiguousarray(value).view(f"u{value.itemsize}")
    kept = bits
    for axis in range(bits.ndim):
        first = kept.take([0], axis)
        if (first == kept.take([-1], axis)).all() and (first == kept).all():
            kept = first
    if kept.shape == bits.shape:
        return None
    lead = next((axis for axis, size in enumerate(kept.shape) if size > 1), kept.ndim)
    smaller = constant_node(kept.reshape(kept.shape[lead:]).view(value.dtype))
    return build("broadcast", (smaller,), node, shape=node.spec.shape)


_SIMPLER = VALUE_SAFE + VIEWS

_UNIFORM = RuleSet([Rule("repeated numbers", frozenset({"constant"}), _repeated)])

_SOFTMAX = RuleSet([Rule("softmax in the open", frozenset({"softmax"}), _softmax)])

_RULES = RuleSet(
    [
        Rule("value for derivatives", _SAME, _same),
        Rule("reduction of nothing", _REDUCTIONS, _of_nothing),
        Rule("reduction over single axes", _REDUCTIONS, _over_single_axes),
        Rule("sum in the result's dtype", _REDUCTIONS, _sum_of_wider),
        Rule("product of many numbers in float64", frozenset({"prod"}), _long_product),
        Rule("sum of what a broadcast repeats", frozenset({"sum"}), _of_broadcast_axes),
        Rule("chosen last", frozenset({"where"}), _chosen_last),
        Rule("numbers of a product together", frozenset({"multiply"}), _numbers_together),
        Rule("truth before any and all", _REDUCTIONS, _any_or_all),
        Rule("count as sum", frozenset({"count_nonzero"}), _count_nonzero),
        *PICKS,
        Rule("square as product", frozenset({"pow"}), _square),
        Rule("bound as number", frozenset({"maximum", "minimum"}), _bound),
        Rule("mean as sum", frozenset({"mean"}), _mean),
        Rule("logsumexp in the open", frozenset({"logsumexp"}), _logsumexp),
        Rule("variance in the open", frozenset({"var"}), _var),
        Rule("standardize in the open", frozenset({"output"}), _standardize),
    ]
)


def _reshapes_first(graph: Graph) -> Graph:
    """Turn reshapes of elementwise results into results of reshaped operands, where nothing else uses those.

    A reshape of what is in memory is a view and costs nothing; one of a value that is computed in
    a loop would make that value be stored.
    """
    outputs = Counter(graph.outputs)
    replace: dict[Node, Node] = {}
    for node in graph.nodes:
        made = moved_onto(node, replace)
        if made is not node:
            note(made, "", node)
        source = node.inputs[0] if node.op.name in _MOVED else None
        if isinstance(source, Node) and len(graph.consumers(source)) + outputs[source] == 1:
            moved = _moved(made, made.inputs[0])
            if moved is not None:
                note(moved, "a view before elementwise work", made)
                made = moved
        if made is not node:
            replace[node] = made
    return with_outputs(graph, [replace.get(n, n) for n in graph.outputs])


_MOVED = frozenset({"reshape", "permute"})


def _moved(view: Node, source: Node) -> Node | None:
    """Return the view of an elementwise node as that node of views; None where it does not apply."""
    if source.op.kind != "elementwise" and source.op.name != "cast":
        return None
    if any(isinstance(e, Node) and e.spec.shape != source.spec.shape for e in source.inputs):
        return None
    inputs = []
    for entry in source.inputs:
        if not isinstance(entry, Node):
            inputs.append(entry)
            continue
        if entry.op.name == "broadcast" and isinstance(entry.inputs[0], Node):
            through = _of_broadcast(view, entry)
            if through is None:
                return None
            inputs.append(through)
            continue
        hits = hits_seen_as(view, entry)
        inputs.append(hits if hits is not None else build(view.op.name, (entry,), view, **view.attrs))
    spec = source.spec.with_shape(view.spec.shape)
    return located(source.op, tuple(inputs), source.attrs, spec, source.code, source.offset, source.scope)


def _of_broadcast(view: Node, spread: Node) -> Node | None:
    """Return a view of a broadcast as a broadcast of a view; None where the axes do not part cleanly."""
    source = spread.inputs[0]
    shape = view.spec.shape
    if not source.spec.size:  # the sizes of the axes before others do not follow from how many elements there are
        return None
    if source.spec.size == 1:
        flat = build("reshape", (source,), view, shape=()) if source.spec.shape != () else source
        return build("broadcast", (flat,), view, shape=shape)
    if view.op.name == "permute":
        lead = spread.spec.ndim - source.spec.ndim
        full = build("reshape", (source,), view, shape=(1,) * lead + source.spec.shape) if lead else source
        return build("broadcast", (build("permute", (full,), view, axes=view.attrs["axes"]),), view, shape=shape)
    # The last axes that both shapes have stay; those before them are all there, or none is.
    full = spread.spec.shape
    padded = (1,) * (len(full) - source.spec.ndim) + source.spec.shape
    same = next((k for k, (m, n) in enumerate(zip(full[::-1], shape[::-1])) if m != n), min(len(full), len(shape)))
    for kept in range(same, -1, -1):
        lead, tail = padded[: len(full) - kept], padded[len(full) - kept :]
        if lead == full[: len(lead)]:
            seen = (*shape[: len(shape) - kept], *tail)
        elif all(n == 1 for n in lead):
            seen = tail
        else:
            continue
        plain = build("reshape", (source,), view, shape=seen) if source.spec.shape != seen else source
        return build("broadcast", (plain,), view, shape=shape)
    return None


def result_of(node: Node) -> tuple[Node, int]:
    """Return the node that computes a value, and which of its results the value is."""
    if node.op is OUTPUT:
        return node.inputs[0], node.attrs["index"]
    return node, 0
