"""Vertex elimination: a Jacobian from the local partials of single numbers.

A function that was recorded at a point is a graph of scalars whose edges carry partial derivatives.
Eliminating an intermediate scalar joins each of its predecessors to each of its successors by the
product of the two partials, added to what joins them already; what remains when all are gone is the
Jacobian (Griewank and Reese 1991, "On the calculation of Jacobian matrices by the Markowitz rule").
Forward and reverse mode are two of the orders; others may need fewer multiplications.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, GradientError, fail
from ...core.node import Freed, Hooked, Node
from ...core.ops.op import ALIAS, Linear, Vjp, spec_of_input
from ...core.ops.record import OUTPUT
from ...core.spec import Spec
from ...core.tensor import Tensor, asarray
from ...ops.structure.shapes import as_operand
from ..derivatives.arithmetic import Arrays
from ..derivatives.forward import push_node
from ..derivatives.functional import Argnums, argument_numbers
from ..derivatives.reverse import freed_error
from ..derivatives.tangents import Recording
from ..derivatives.variables import describe_leaf, differentiable
from .coloring import color_columns
from .dependence import apply, patterns, sparse
from .sparsity import Structure


@dataclass(frozen=True, slots=True)
class EliminationCost:
    """The cost of a Jacobian by elimination, in multiplications (each with an addition).

    `vertices` are the intermediate scalars, `edges` the partials between all scalars. Every edge
    counts as a factor, those that are 1 too.
    """

    inputs: int
    outputs: int
    vertices: int
    edges: int
    forward: int
    reverse: int
    markowitz: int
    relative: int

    @property
    def best(self) -> str:
        """The order with the fewest multiplications."""
        return min(("markowitz", "relative", "reverse", "forward"), key=lambda name: int(getattr(self, name)))

    def __str__(self) -> str:
        head = f"{self.inputs} inputs, {self.outputs} outputs, {self.vertices} intermediates, {self.edges} partials"
        rows = [f"{name:10} {getattr(self, name):>8}" for name in ("forward", "reverse", "markowitz", "relative")]
        return "\n".join([head, "order      multiplications", *rows])


def elimination_cost(fn: Callable[..., Any], *args: Any, argnums: Argnums = 0) -> EliminationCost:
    """Return the number of multiplications of the Jacobian of `fn` in different elimination orders.

    Parameters are those of :func:`wengert.jacobian`. "forward" and "reverse" eliminate the
    intermediate scalars from first to last and from last to first, "markowitz" greedily the one with
    the smallest product of numbers of predecessors and successors, "relative" the one where that is
    smallest in comparison with the numbers of inputs and outputs that it lies between (lowest
    relative Markowitz). Counts follow from the structure, not from the values. Needs SciPy.

    Raises GradientError, DTypeError. Source: Griewank and Reese 1991; Griewank and Walther 2008,
    Evaluating Derivatives, chapters 9 and 10.

    >>> import wengert as wg
    >>> cost = wg.elimination_cost(lambda x: wg.prod(x) * wg.stack([wg.sin(x[0]), x[1]]), wg.ones(3))
    >>> cost.forward, cost.reverse, cost.markowitz
    (7, 7, 7)
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    numbers = argument_numbers(argnums, len(args), name)
    leaves, structure = tree.flatten([args[i] for i in numbers])
    for leaf in leaves:
        if not differentiable(leaf):
            fail(DTypeError, f"elimination_cost of {name} in a {describe_leaf(leaf)}", "Give floating values.")
    inputs = [as_operand(leaf) for leaf in leaves]

    def inner(values: list[Tensor]) -> Any:
        replaced = list(args)
        for i, pytree in zip(numbers, tree.unflatten(structure, values), strict=True):
            replaced[i] = pytree
        return fn(*replaced)

    recording = Recording(inner, (inputs,), False, f"the elimination of {name}", ())
    if recording.abstract:
        fail(GradientError, f"elimination_cost of {name} inside a trace", "Elimination needs a point: call it outside.")
    graph = ScalarGraph(recording)
    return EliminationCost(
        graph.inputs,
        len(graph.outputs),
        len(graph.intermediates),
        sum(map(len, graph.partials)),
        *(eliminate(graph, order, numeric=False).multiplications for order in ORDERS),
    )


def eliminated(recording: Recording) -> Any:
    """Return the Jacobian of a recorded function as one matrix, by the cheapest of the orders."""
    graph = ScalarGraph(recording)
    best = min(ORDERS, key=lambda order: eliminate(graph, order, numeric=False).multiplications)
    return eliminate(graph, best, numeric=True).matrix(graph)


# -- the graph of scalars

NOTHING = -1  # stands for a scalar that depends on no input


class ScalarGraph:
    """The scalars of a recorded function, numbered in order, inputs first.

    `partials[v]` maps the predecessors of v to the partial derivatives in them. What only selects
    (reshape, indexing, broadcasting) makes no scalars of its own. `outputs` has the vertex of every
    element of the results, each a vertex without successors, or NOTHING.
    """

    def __init__(self, recording: Recording) -> None:
        self.partials: list[dict[int, Any]] = []
        numbers: dict[Node, Any] = {}
        for v in recording.variables:
            numbers[v.node] = self._fresh(v.size)  # type: ignore[index]
        self.inputs = len(self.partials)
        for node in recording.track.nodes:
            self._visit(node, numbers)
        found: list[int] = []
        for o in recording.outs:
            own = numbers.get(o.node) if o.node is not None else None
            found += [NOTHING] * o.size if own is None else own.tolist()
        self.outputs = self._as_last(found)
        self._drop_dead()

    def _fresh(self, count: int) -> Any:
        start = len(self.partials)
        self.partials += [{} for _ in range(count)]
        return np.arange(start, start + count)

    def _visit(self, node: Node, numbers: dict[Node, Any]) -> None:
        source = numbers.get(node.inputs[0]) if node.op in (OUTPUT, ALIAS) else None
        if node.op is ALIAS:
            numbers[node] = source
            return
        if node.op is OUTPUT:
            if source is not None and source[node.attrs["index"]] is not None:
                numbers[node] = source[node.attrs["index"]]
            return
        specs: Any = node.spec if isinstance(node.spec, tuple) else (node.spec,)
        rows: list[list[dict[int, Any]]] = [[{} for _ in range(s.size)] for s in specs]
        for entry in dict.fromkeys(e for e in node.inputs if type(e) is Node and e in numbers):
            for k, row, column, value in local_partials(node, entry):
                own = rows[k]
                for r, c, v in zip(row.tolist(), numbers[entry][column].tolist(), value.tolist(), strict=True):
                    if c != NOTHING:
                        own[r][c] = _joined(own[r].get(c), v)
        placed = [np.array([self._vertex(node, r) for r in result], int) for result in rows]
        numbers[node] = placed if isinstance(node.spec, tuple) else placed[0]

    def _vertex(self, node: Node, partials: dict[int, Any]) -> int:
        if not partials:
            return NOTHING
        if len(partials) == 1 and _selects(node):
            ((source, value),) = partials.items()
            if value == 1:
                return source
        self.partials.append(partials)
        return len(self.partials) - 1

    def _as_last(self, found: list[int]) -> list[int]:
        """Return vertices for the results: results that are inputs, are used further or stand twice get their own."""
        used = {p for partials in self.partials for p in partials}
        taken: set[int] = set()
        outputs = []
        for v in found:
            if v != NOTHING and (v < self.inputs or v in used or v in taken):
                self.partials.append({v: 1.0})
                v = len(self.partials) - 1
            taken.add(v)
            outputs.append(v)
        return outputs

    def _drop_dead(self) -> None:
        live = set(self.outputs)
        for v in range(len(self.partials) - 1, -1, -1):
            if v in live:
                live.update(self.partials[v])
            else:
                self.partials[v] = {}
        last = set(self.outputs)
        self.intermediates = [v for v in range(self.inputs, len(self.partials)) if v in live and v not in last]

    def between(self) -> dict[int, int]:
        """Return, for every intermediate, the number of inputs before it times that of outputs after it."""
        before = [1 << v if v < self.inputs else 0 for v in range(len(self.partials))]
        for v, partials in enumerate(self.partials):
            for p in partials:
                before[v] |= before[p]
        after = [0] * len(self.partials)
        for i, v in enumerate(self.outputs):
            if v != NOTHING:
                after[v] |= 1 << i
        for v in range(len(self.partials) - 1, -1, -1):
            for p in self.partials[v]:
                after[p] |= after[v]
        return {v: before[v].bit_count() * after[v].bit_count() for v in self.intermediates}


def _selects(node: Node) -> bool:
    fact = node.op.fact(0) if node.op.joint is None and node.inputs else None
    return node.op.kind == "linear" and isinstance(fact, Linear) and fact.selects


def _joined(a: Any, b: Any) -> Any:
    """Return the sum of two partials; None stands for one along which nothing flows at this point."""
    if a is None:
        return b
    return a if b is None else a + b


def _times(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a * b


def local_partials(node: Node, entry: Node) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield (result, rows, columns, values): the partials of a recorded node's results in one of its inputs.

    Its own pattern is coloured, so that an elementwise op takes one tangent and not one per element.
    A value is None where the op selects something else: nothing flows there, be it infinite.
    """
    saved = node.saved.saved if type(node.saved) is Hooked else node.saved
    if type(saved) is Freed:
        freed_error("the elimination of", node, saved)
    found = [None if p is None else p.tocoo() for p in local_pattern(node, entry)]
    there = [p for p in found if p is not None]
    if not there:
        return
    colors = color_columns(sparse().vstack(there, format="csc"))
    pushed = [_pushed(node, saved, entry, colors == c) for c in range(int(colors.max(initial=-1)) + 1)]
    reached = _present(node, saved, entry)
    for k, p in enumerate(found):
        if p is None or not p.nnz:
            continue
        rows, columns = p.coords
        values = np.stack([_result(t, node, k) for t, _ in pushed])[colors[columns], rows].astype(object)
        mask = pushed[0][1]
        if mask is not None:
            mask = np.asarray(mask[k] if isinstance(mask, tuple) else mask)
            values[~np.broadcast_to(mask, _spec(node, k).shape).ravel()[rows]] = None
        if reached is not None:
            values[~reached[columns]] = None
        yield k, rows, columns, values


def _pushed(node: Node, saved: Any, entry: Node, chosen: Any) -> tuple[Any, Any]:
    """Return the tangent of a node for ones at the chosen elements of an input, and its mask (None: everywhere)."""
    tangents: dict[Node, Any] = {entry: chosen.astype(entry.spec.dtype).reshape(entry.spec.shape)}
    masks: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        push_node(Arrays, node, saved, tangents, masks)
    return tangents.get(node), masks[node]() if node in masks else None


def _present(node: Node, saved: Any, entry: Node) -> Any:
    """Return the elements of an input that reach the result of an op that picks some of them, if it says so."""
    places = [i for i, e in enumerate(node.inputs) if e is entry]
    if node.op.joint is not None or len(places) > 1:
        return None
    index = places[0]
    fact = node.op.fact(index)
    if not isinstance(fact, Vjp) or fact.present is None:
        return None
    mask = np.asarray(fact.present(None, saved, node, index)) != 0
    return np.broadcast_to(mask, entry.spec.shape).ravel()


def _spec(node: Node, k: int) -> Spec:
    return node.spec[k] if isinstance(node.spec, tuple) else node.spec


def _result(tangent: Any, node: Node, k: int) -> Any:
    spec = _spec(node, k)
    part = tangent[k] if isinstance(tangent, tuple) else tangent
    return np.zeros(spec.size, spec.dtype) if part is None else np.asarray(part).ravel()


def local_pattern(node: Node, entry: Node) -> list[Any]:
    """Return, for every result of a recorded node, the pattern in one of its inputs; None where there is none.

    Zeros of constants count as factors here: 0 times an infinite partial is NaN in every mode.
    """
    specs: Any = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    if node.op.kind in ("composite", "control"):
        return _traced_pattern(node, entry, specs)
    values = [None if _moves(e) or isinstance(e, (float, complex)) else e for e in node.inputs]
    unit = sparse().eye_array(entry.spec.size, dtype=bool, format="csr")
    found: list[Any] = [None] * len(specs)
    for i, e in enumerate(node.inputs):
        if e is not entry:
            continue
        for k, (pattern, s) in enumerate(zip(patterns(node, i, values), specs, strict=True)):
            if pattern is not None and s.inexact:
                part = apply(pattern, unit)
                found[k] = part if found[k] is None else found[k] + part
    return found


def _traced_pattern(node: Node, entry: Node, specs: Sequence[Any]) -> list[Any]:
    """Return the pattern of a composite from the nodes inside it."""

    def fn(x: Tensor, rest: list[Tensor]) -> Any:
        others = iter(rest)
        args = [x if e is entry else next(others) if _moves(e) else e for e in node.inputs]
        out = node.op.front(*(asarray(a) if isinstance(a, np.ndarray) else a for a in args), **node.attrs)
        return [o for o in (out if isinstance(out, tuple) else (out,)) if o.spec.inexact]

    rest = [spec_of_input(e) for e in node.inputs if e is not entry and _moves(e)]
    whole = Structure(fn, 0, (entry.spec, rest)).pattern.tocsr()
    found: list[Any] = []
    start = 0
    for s in specs:
        found.append(whole[start : start + s.size] if s.inexact else None)
        start += s.size if s.inexact else 0
    return found


def _moves(entry: Any) -> bool:
    """Return whether an input of a node is a node or floating numbers, not an index or a mask."""
    return isinstance(entry, Node) or (isinstance(entry, np.ndarray) and spec_of_input(entry).inexact)


# -- elimination

ORDERS = ("forward", "reverse", "markowitz", "relative")


class Eliminated:
    """A graph of scalars under elimination, with the number of multiplications so far."""

    def __init__(self, graph: ScalarGraph) -> None:
        self.partials = [dict(p) for p in graph.partials]
        self.successors: list[set[int]] = [set() for _ in self.partials]
        for v, partials in enumerate(self.partials):
            for p in partials:
                self.successors[p].add(v)
        self.multiplications = 0

    def degree(self, v: int) -> int:
        """Return the number of multiplications that eliminating v takes now (Markowitz)."""
        return len(self.partials[v]) * len(self.successors[v])

    def remove(self, v: int, numeric: bool) -> None:
        before, after = self.partials[v], self.successors[v]
        self.multiplications += len(before) * len(after)
        for p in before:
            self.successors[p].discard(v)
            self.successors[p] |= after
        for s in after:
            own = self.partials[s]
            outer = own.pop(v)
            for p, inner in before.items():
                own[p] = _joined(own.get(p), _times(outer, inner)) if numeric else 1
        self.partials[v], self.successors[v] = {}, set()

    def matrix(self, graph: ScalarGraph) -> Any:
        """Return the Jacobian: outputs by inputs."""
        rows = [{} if u == NOTHING else self.partials[u] for u in graph.outputs]
        kinds = {type(v) for row in rows for v in row.values() if v is not None}
        out = np.zeros((len(rows), graph.inputs), complex if complex in kinds else float)
        for i, row in enumerate(rows):
            for p, value in row.items():
                if value is not None:
                    out[i, p] = value
        return out


def eliminate(graph: ScalarGraph, order: str, numeric: bool) -> Eliminated:
    """Eliminate all intermediates in an order of `ORDERS`; without `numeric` only the structure."""
    state = Eliminated(graph)
    if order in ("forward", "reverse"):
        for v in graph.intermediates[:: 1 if order == "forward" else -1]:
            state.remove(v, numeric)
        return state
    offset = graph.between() if order == "relative" else dict.fromkeys(graph.intermediates, 0)
    current = {v: state.degree(v) - offset[v] for v in graph.intermediates}
    heap = [(key, -v) for v, key in current.items()]
    heapq.heapify(heap)
    while heap:
        key, v = heapq.heappop(heap)
        v = -v
        if current.get(v) != key:
            continue
        del current[v]
        near = [*state.partials[v], *state.successors[v]]
        state.remove(v, numeric)
        for u in near:
            if u in current:
                fresh = state.degree(u) - offset[u]
                if fresh != current[u]:
                    current[u] = fresh
                    heapq.heappush(heap, (fresh, -u))
    return state
