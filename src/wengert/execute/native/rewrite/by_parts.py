"""A batch taken part by part: what lies between the layers of a network then stays in the cache.

Layer by layer, a network's images are written to memory by one layer and read from there by the next: those of a large
batch are in no cache meanwhile. Where a stretch of the graph, from an input on, does the same for every example (see
:mod:`wengert.passes.strategies`), it may take some examples all the way and then the next ones, in a loop. The price
is that every part reads the weights again, so that late layers, of small images and large weights, are better off with
all examples at once. How far the stretch goes, and how many examples make a part, follows from the bytes that are moved
and from the caches that they fit in.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT, LEAVES, input_node, located, with_inputs
from ....core.node import Node
from ....core.ops.facets import VIEWS, Role
from ....core.ops.record import OUTPUT
from ....core.spec import Spec
from ....passes.origins import note
from ....passes.rewrite import build, with_outputs
from ....passes.strategies import local_attrs, strategies
from ....transforms.control.ops import SCAN

# Bytes of a value that stay in the second-level cache until they are read, and in a program's part of the last one.
NEAR, FAR = 1 << 19, 1 << 23
# Bytes in a second from the last cache, and from memory. Weights come at twice the rate: they are asked for ahead.
FROM_CACHE, FROM_MEMORY = 60e9, 12e9
# Seconds that a layer costs beside its work, in every turn of the loop.
LAYER = 2e-6
# What has to be saved: seconds, and of the time that values are moved.
LEAST_SAVED, LEAST_SHARE = 1e-4, 0.1
# Bytes of all that parts share and that is no constant: it is laid out for its readers in every turn.
SHARED = 1 << 16


class _Choice(NamedTuple):
    """A stretch of so many of the nodes that do the same for every example, by so many parts; what it saves."""

    saved: float
    length: int
    parts: int


def by_parts(graph: Graph) -> Graph:
    """Return the graph with its first stretch in a loop over parts of the batch, where that saves time."""
    if not any(_is_layer(n) and n.spec.nbytes > NEAR and any(map(_is_known, n.inputs)) for n in graph.nodes):
        return graph
    inputs = [n for n in graph.inputs if isinstance(n.spec, Spec) and n.spec.ndim > 1]
    seed = max(inputs, key=lambda n: n.spec.nbytes, default=None)
    if seed is None or seed.spec.shape[0] < 2:
        return graph
    stretch = _same_for_all(graph, seed)
    choice = _best(graph, seed, stretch)
    return graph if choice is None else _looped(graph, seed, stretch[: choice.length], choice.parts)


# -- what does the same for every example


def _same_for_all(graph: Graph, seed: Node) -> list[Node]:
    """Return the nodes, in order, each part of whose results comes of the same part of the input."""
    count = seed.spec.shape[0]
    found, reached = {seed: None}, {seed}
    for node in graph.nodes:
        if reached.isdisjoint(e for e in node.inputs if isinstance(e, Node)):
            continue
        reached.add(node)
        if not _may_be_looped(node) or node.spec.ndim == 0 or node.spec.shape[0] % count or not node.spec.size:
            continue
        others = [e for e in node.inputs if isinstance(e, Node) and e not in found]
        if reached.isdisjoint(others) and all(map(_is_shared, others)) and _by_part(node, found, count) is not None:
            found[node] = None
    del found[seed]
    return list(found)


def _by_part(node: Node, found: Container[Node], count: int) -> tuple[int | None, ...] | None:
    """Return for each operand 0 where a part of the result takes a part of it, None where it takes all of it.

    None at all where no part of the result comes of parts of what is `found`.
    """
    given = tuple(0 if e in found else None for e in node.inputs)
    # What is the same for all examples may be had by parts, too.
    spread = tuple(0 if g == 0 or _is_spread(e, count) else None for g, e in zip(given, node.inputs))
    possible = [s.operands for s in strategies(node) if s.results == (0,) and not s.finish]
    return next((operands for operands in (given, spread) if 0 in operands and operands in possible), None)


def _may_be_looped(node: Node) -> bool:
    """Return whether a node is of a kind that loops take: loops, layers, and views of what these make."""
    if node.op in LEAVES or isinstance(node.spec, tuple) or node.op is OUTPUT or node.op.draws:
        return False
    op = node.op
    is_simple = op.kind == "elementwise" or op.role in VIEWS or op.role is Role.JOIN or "reduction" in op.facets
    return is_simple or _is_layer(node)


def _is_layer(node: Node) -> bool:
    """Return whether a node's operands and results are arrays in memory, between which other nodes are computed."""
    return node.op.role is Role.PRODUCT or node.op.facets.get("dependence") in ("convolution", "windows")


def _is_known(entry: Any) -> bool:
    """Return whether an entry is a constant, or a view of one."""
    while isinstance(entry, Node) and entry.op.role in VIEWS and isinstance(entry.inputs[0], Node):
        entry = entry.inputs[0]
    return not isinstance(entry, Node) or entry.op is CONSTANT


def _is_shared(entry: Any) -> bool:
    """Return whether all parts may read a value: a constant, or a small one."""
    return _is_known(entry) or (isinstance(entry.spec, Spec) and entry.spec.nbytes <= SHARED) or _is_spread(entry, 1)


def _is_spread(entry: Any, count: int) -> bool:
    """Return whether a value is another one, repeated for all examples."""
    if not isinstance(entry, Node) or entry.op.name != "broadcast" or not isinstance(entry.inputs[0], Node):
        return False
    source, shape = entry.inputs[0].spec.shape, entry.spec.shape
    is_small = _is_known(entry) or entry.inputs[0].spec.nbytes <= SHARED
    is_new = len(source) < len(shape) or (bool(source) and source[0] == 1 != shape[0])
    return is_small and is_new and shape[0] % count == 0


# -- how far, and in how many parts


def _best(graph: Graph, seed: Node, stretch: Sequence[Node]) -> _Choice | None:
    """Return the stretch and the number of parts that save most time."""
    count = seed.spec.shape[0]
    place = {seed: -1, **{n: i for i, n in enumerate(stretch)}}
    whole = sum(_moving(n, place, count, count) for n in stretch)
    if whole < LEAST_SAVED:
        return None
    outputs = set(graph.outputs)
    ends: dict[int, list[Node]] = {}
    for node in stretch:
        readers = [place.get(c, len(stretch)) for c in graph.consumers(node)]
        ends.setdefault(len(stretch) if node in outputs else max(readers, default=0), []).append(node)
    best = _Choice(0.0, 0, 1)
    for parts in _divisors(count):
        saved, copied, weights = 0.0, 0.0, 0
        for i, node in enumerate(stretch):
            # What nodes after the stretch read is copied to where all parts of it are.
            copied += _copying(node) - sum(_copying(n) for n in ends.get(i, ()))
            if _is_layer(node):
                weights += sum(e.spec.nbytes for e in node.inputs if isinstance(e, Node) and e not in place)
                saved += _moving(node, place, count, count)
                saved -= parts * (_moving(node, place, count, count // parts) + LAYER)
            total = saved - copied - parts * _seconds(weights, weights) / 2
            # What follows a layer is computed in its kernel.
            if total > best.saved or (total == best.saved and best.parts == parts):
                best = _Choice(total, i + 1, parts)
    return best if best.saved >= max(LEAST_SAVED, LEAST_SHARE * whole) else None


def _divisors(count: int) -> list[int]:
    """Return the numbers of equal parts that there may be."""
    small = [n for n in range(1, math.isqrt(count) + 1) if count % n == 0]
    return sorted({*small, *(count // n for n in small)} - {1})


def _seconds(nbytes: float, held: float) -> float:
    """Return the time to move bytes to or from a value of which so many bytes are held at once."""
    return 0.0 if held <= NEAR else nbytes / (FROM_CACHE if held <= FAR else FROM_MEMORY)


def _copying(node: Node) -> float:
    """Return the time to copy a value, read and written."""
    return 2 * _seconds(node.spec.nbytes, node.spec.nbytes)


def _moving(node: Node, place: Container[Node], count: int, size: int) -> float:
    """Return the time in which a layer writes its results, and reads others' of the stretch, for `size` examples.

    Beside a part of a value another one of about that size is held.
    """
    if not _is_layer(node):
        return 0.0
    values = [node, *(e for e in node.inputs if isinstance(e, Node) and e in place)]
    others = 1 if size == count else 2
    return sum(_seconds(n, n * others) for n in (v.spec.nbytes * size / count for v in values))


# -- the loop


def _looped(graph: Graph, seed: Node, stretch: Sequence[Node], parts: int) -> Graph:
    """Return the graph with a stretch as a scan over so many parts of the input."""
    inside = set(stretch)
    outputs = set(graph.outputs)
    results = [n for n in stretch if n in outputs or any(c not in inside for c in graph.consumers(n))]
    part = input_node(seed.spec.with_shape((seed.spec.shape[0] // parts, *seed.spec.shape[1:])))
    there: dict[Node, Node] = {seed: part}
    shared: dict[Node, Node] = {}

    def local(entry: Any, is_by_part: bool) -> Any:
        """Return what stands for an operand in the body."""
        if not isinstance(entry, Node) or entry in there:
            return there[entry] if isinstance(entry, Node) else entry
        if is_by_part:
            shape = (entry.spec.shape[0] // parts, *entry.spec.shape[1:])
            return build("broadcast", (local(entry.inputs[0], False),), entry, shape=shape)
        if not _is_known(entry):
            return shared.setdefault(entry, input_node(entry.spec))
        return entry

    for node in stretch:
        taken = _by_part(node, there, seed.spec.shape[0])
        assert taken is not None
        inputs = tuple(local(e, t == 0) for e, t in zip(node.inputs, taken))
        shape = (node.spec.shape[0] // parts, *node.spec.shape[1:])
        shapes = [e.spec.shape if isinstance(e, Node) else None for e in inputs]
        spec = node.spec.with_shape(shape)
        there[node] = located(
            node.op, inputs, local_attrs(node, shapes, [shape]), spec, node.code, node.offset, node.scope
        )
        note(there[node], "", node)
    return _with_loop(graph, seed, part, results, there, shared, parts)


def _with_loop(
    graph: Graph,
    seed: Node,
    part: Node,
    results: Sequence[Node],
    there: Mapping[Node, Node],
    shared: Mapping[Node, Node],
    parts: int,
) -> Graph:
    like = results[0]
    laid = [_laid(n) for n in results]
    made = [_permuted(there[n], order) for n, order in zip(results, laid)]
    rows = build("reshape", (seed,), like, shape=(parts, *part.spec.shape))
    body = Graph(made, [part, *shared.values()])
    attrs = {"body": body, "carries": 0, "sequences": 1, "length": parts, "reverse": False, "keeps": False}
    scan = build(SCAN.name, (rows, *shared), like, **attrs)
    note(scan, "a batch taken part by part", like)
    replace: dict[Node, Node] = {}
    specs: Any = scan.spec if isinstance(scan.spec, tuple) else (scan.spec,)
    for i, (node, order, one) in enumerate(zip(results, laid, made)):
        result = located(OUTPUT, (scan,), {"index": i}, specs[i], node.code, node.offset, node.scope)
        shape = (node.spec.shape[0], *one.spec.shape[1:])
        back = sorted(range(len(order)), key=order.__getitem__)
        replace[node] = _permuted(build("reshape", (result,), node, shape=shape), back)
        note(replace[node], "all parts of it", node)
    for node in graph.nodes:
        if node in there or node.op in LEAVES or node in replace:
            continue
        inputs = tuple(replace.get(e, e) if isinstance(e, Node) else e for e in node.inputs)
        if any(a is not b for a, b in zip(inputs, node.inputs)):
            replace[node] = with_inputs(node, inputs)
            note(replace[node], "", node)
    return with_outputs(graph, [replace.get(n, n) for n in graph.outputs])


def _permuted(node: Node, order: Sequence[int]) -> Node:
    """Return a value with its axes in another order."""
    rank = node.spec.ndim
    if list(order) == list(range(rank)):
        return node
    return build("permute", (node,), node, axes=tuple(a - rank for a in order))


def _laid(node: Node) -> list[int]:
    """Return the order in which a value's axes lie in memory: images have their channels last."""
    rank = node.spec.ndim
    for source in _sources(node):
        spatial = len(source.attrs["stride"]) if source.op.facets.get("dependence") in ("convolution", "windows") else 0
        if 0 < spatial <= rank - 2:
            channel = rank - spatial - 1
            return [*range(channel), *range(channel + 1, rank), channel]
    return list(range(rank))


def _sources(node: Node) -> Iterator[Node]:
    """Yield the layers of whose results of this shape a value is computed element by element."""
    stack, seen = [node], {node}
    while stack:
        at = stack.pop()
        if _is_layer(at):
            yield at
            continue
        if at.op.kind == "elementwise" or at.op.role is Role.JOIN:
            more = [e for e in at.inputs if isinstance(e, Node) and e not in seen and e.spec.ndim == node.spec.ndim]
            seen.update(more)
            stack += more
