"""A gradient path by path: the sum, over all paths from a loss to a variable, of products of local derivatives.

Bauer, "Computational graphs and rounding error" (1974); Griewank and Walther, "Evaluating Derivatives"
(2008), section 3.2. Paths are counted without being enumerated. Where every value on the way is one
real number, the k largest come from a k-best dynamic program over the products' magnitudes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from ...core.errors import DTypeError, GradientError, GraphError, fail
from ...core.graph.graph import Graph
from ...core.node import Freed, Node
from ...core.ops.op import ALIAS
from ...core.source import Source
from ...core.spec import category
from ...core.tensor import Tensor
from ...transforms.derivatives.reverse import backward_pass, freed_error, leading_to, reachable
from ..report import columns, html_table, latex_name, latex_number, latex_text, magnitude, number, place, value
from .edges import Cotangent, Puller, expression, graph_loss, graph_node, loss_seed, nothing, operand_name, run_recorded

# Without `k` so many paths are shown; more than this many tensor paths are not enumerated.
_EVERY = 10_000
_PULLS = 1_000_000
_SHOWN = 20
_WHAT = "the paths"
_THROUGH = "the paths through"


@dataclass(frozen=True)
class Place:
    """A name in the table: its node, its spec and the user's sub-expression."""

    name: str
    op: str
    spec: str
    text: str
    source: Source | None
    path: str

    def __str__(self) -> str:
        where = place(self.source)
        return f"{self.name} = {self.text}   ({self.op} {self.spec}{', ' + where if where else ''})"


@dataclass(frozen=True)
class Path:
    """A path from the variable to the loss.

    `nodes` are names, the variable's first; `operands` say as which operand each node takes the one
    before it. `factors` are the local derivatives along the way (None between tensors), `contribution`
    their product, a number or an array of the variable's shape, and `size` its magnitude (2-norm).
    `absent`: a selection (`where`, an index, a maximum) lets nothing through this way.
    """

    nodes: tuple[str, ...]
    operands: tuple[str, ...]
    factors: tuple[float | None, ...]
    contribution: Any
    size: float
    absent: bool = False

    def __str__(self) -> str:
        return " -> ".join(self.nodes)

    def to_latex(self) -> str:
        r"""Return the product of local derivatives as LaTeX: `\frac{\partial L}{\partial v_{1}} ...`."""
        names = [latex_name(n) for n in self.nodes]
        pairs = [rf"\frac{{\partial {b}}}{{\partial {a}}}" for a, b in zip(names, names[1:])]
        return r" \, ".join(reversed(pairs)) or "1"


@dataclass(frozen=True)
class Paths:
    """The derivative of `loss` in `variable`, path by path.

    `count` is the exact number of paths, `paths` the shown ones, largest first. `sum` adds up the
    contributions of all of them, shown or not; `gradient` is what a backward pass gives. `places` say
    what the names are.

    >>> import wengert as wg
    >>> x = wg.tensor(3.0, requires_grad=True)
    >>> found = wg.explain.paths(x * x, x)
    >>> found.count, found.sum, found.gradient
    (2, 6.0, 6.0)
    """

    variable: str
    loss: str
    count: int
    paths: tuple[Path, ...]
    places: Mapping[str, Place]
    sum: Any
    gradient: Any
    tolerance: float = field(repr=False)

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    @property
    def difference(self) -> float:
        """The largest absolute difference between an element of `sum` and of `gradient`, where both are finite."""
        a, b = np.asarray(self.sum), np.asarray(self.gradient)
        both = np.isfinite(a) & np.isfinite(b)
        return float(np.max(np.abs(a - b), where=both, initial=0.0))

    def check(self) -> float:
        """Return the difference between the sum over paths and the gradient.

        Raises GradientError when it is more than rounding explains.

        >>> import wengert as wg
        >>> x = wg.tensor(3.0, requires_grad=True)
        >>> wg.explain.paths(wg.exp(x) * x, x).check() < 1e-5
        True
        """
        finite = np.isfinite(np.asarray(self.sum)) == np.isfinite(np.asarray(self.gradient))
        if self.difference > self.tolerance or not np.all(finite):
            fail(
                GradientError,
                f"the sum over {self.count} paths, {value(self.sum)}, is not the gradient, {value(self.gradient)}",
                f"They differ by {self.difference:.3g}, where rounding explains {self.tolerance:.3g}. "
                "A hook that changes a gradient on its way belongs to no path.",
            )
        return self.difference

    def _share(self, path: Path) -> str:
        total = magnitude(self.sum)
        if not (total and np.isfinite(total) and np.isfinite(path.size)):
            return "-"
        share = path.size / total
        own, whole = np.asarray(path.contribution), np.asarray(self.sum)
        if own.size == 1 and not np.iscomplexobj(own):
            share *= float(np.sign(own.item()) * np.sign(whole.item()))  # of numbers, one may take away
        return f"{share:.1%}"

    def _rows(self) -> list[list[str]]:
        return [[str(p), _product(p), value(p.contribution), self._share(p)] for p in self.paths]

    @property
    def _title(self) -> str:
        shown = "" if len(self.paths) == self.count else f" ({len(self.paths)} largest shown)"
        noun = "path" if self.count == 1 else "paths"
        return f"d {self.loss} / d {self.variable} = {value(self.sum)}, the sum of {self.count:,} {noun}{shown}"

    def __str__(self) -> str:
        if not self.paths:
            return f"no path leads from {self.variable} to {self.loss}: the derivative is 0"
        used = [str(p) for name, p in self.places.items() if any(name in path.nodes for path in self.paths)]
        table = columns(self._rows(), _HEADINGS, right=(2, 3))
        return "\n".join([self._title, _indent(table), "where", _indent("\n".join(used))])

    def _repr_html_(self) -> str:
        rows = [[p.name, p.text, f"{p.op} {p.spec}", place(p.source)] for p in self.places.values()]
        places = html_table("where", rows, ("name", "expression", "operation", "line"))
        return html_table(self._title, self._rows(), _HEADINGS, right=(2, 3)) + places

    def to_latex(self) -> str:
        """Return the sum over paths as an aligned equation, with a table of the names below it (LaTeX, amsmath).

        >>> import wengert as wg
        >>> x = wg.tensor(3.0, requires_grad=True)
        >>> wg.explain.paths(x * x, x).to_latex().count("frac")
        3
        """
        left = rf"\frac{{\partial {latex_name(self.loss)}}}{{\partial {latex_name(self.variable)}}}"
        lines = [rf"{left} &= {_terms([p.to_latex() for p in self.paths], len(self.paths) < self.count)}"]
        if all(np.ndim(p.contribution) == 0 for p in self.paths):
            lines.append(rf"&= {_terms([_numbers(p) for p in self.paths], len(self.paths) < self.count)}")
            lines.append(rf"&= {latex_number(self.sum)}")
        where = " \\\\\n".join(
            rf"${latex_name(p.name)}$ & \texttt{{{latex_text(p.text)}}}" for p in self.places.values()
        )
        body = " \\\\\n".join(lines)
        return f"\\begin{{align*}}\n{body}\n\\end{{align*}}\n\\begin{{tabular}}{{ll}}\n{where}\n\\end{{tabular}}"


_HEADINGS = ("path", "local derivatives", "contribution", "of the sum")


def _terms(parts: Sequence[str], more: bool) -> str:
    return " + ".join([*parts, r"\cdots"] if more else parts) or "0"


def _numbers(path: Path) -> str:
    if path.absent:
        return "0"
    known = [latex_number(f) for f in reversed(path.factors) if f is not None]
    if len(known) < len(path.factors):
        return latex_number(path.contribution)
    return r" \cdot ".join(f"({n})" if n.startswith("-") else n for n in known) or "1"


def _product(path: Path) -> str:
    if path.absent:
        return "nothing flows here"
    return " * ".join("J" if f is None else number(f) for f in path.factors) or "1"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def paths(loss: Tensor | Graph, w: Any, k: int | None = None, *, inputs: Sequence[Any] = ()) -> Paths:
    """Return every path from `w` to `loss`, with its product of local derivatives; their sum is the gradient.

    Parameters
    ----------
    loss: a real scalar tensor whose saved values are still there (before `backward()`, or after
        `backward(retain_graph=True)`), or a graph with one such output.
    w: a tensor that `loss` was computed from, a leaf or an intermediate one that requires gradients; of
        a graph a node or its name.
    k: show only the k largest. Without it all are shown, of more than 10,000 the 20 largest.
    inputs: values for a graph's inputs, in order.

    Between single real numbers each edge has a number, its local derivative, and the k largest products
    are found without enumerating the paths, however many there are. Between tensors a path's
    contribution is the cotangent pulled along this path alone, an array of `w`'s shape, and its size
    the 2-norm; there all paths are walked, and more than a million steps are refused.

    Returns a :class:`Paths`: print it for a table; `to_latex()`, `.paths`, `.sum`, `.gradient`, `.check()`.

    Raises GradientError for a loss that is no real scalar, that needs no gradient, or whose values were
    freed; GraphError for abstract tensors, too many tensor paths, or a wrong `k`; FeedError for inputs.

    >>> import wengert as wg
    >>> x = wg.tensor(3.0, requires_grad=True)
    >>> found = wg.explain.paths(x * x + 2.0 * x, x)
    >>> [p.contribution for p in found], found.count, found.check()
    ([3.0, 3.0, 2.0], 3, 0.0)
    """
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
        fail(GraphError, f"the k={k!r} largest paths", "Give a positive number, or None for all of them.")
    if isinstance(loss, Graph):
        found = _of_graph(loss, w, inputs)
    else:
        found = _of_tensor(loss, w)
    with found.puller:
        return found.report(k)


def _of_tensor(loss: Any, w: Any) -> _Finder:
    for t, what in ((loss, "to"), (w, "from")):
        if not isinstance(t, Tensor):
            fail(DTypeError, f"the paths {what} a {type(t).__name__}", "Give tensors: paths(loss, w).")
    seed = loss_seed(loss, _WHAT)
    if w.node is None or not w.requires_grad:
        fail(GradientError, f"the paths from a tensor that does not require gradients, {w.spec}")
    assert loss.node is not None
    return _Finder(loss.node, w.node, seed, {}, {})


def _of_graph(graph: Graph, w: Any, inputs: Sequence[Any]) -> _Finder:
    which = graph_node(graph, w, _WHAT)
    values = run_recorded(graph, inputs, _WHAT)
    start, out = values[which], values[graph_loss(graph, _WHAT)]
    if isinstance(start, tuple) or start.node is None:
        fail(GradientError, f"the paths from {graph.names[which]}, which no gradient flows to")
    seed = loss_seed(out, _WHAT)
    origin = {t.node: n for n, t in values.items() if isinstance(t, Tensor) and t.node is not None}
    return _Finder(out.node, start.node, seed, {n: graph.names[g] for n, g in origin.items()}, origin)


@dataclass(slots=True, eq=False)
class _Edge:
    """An edge from a node to one that takes it as operand `index`; `local` is None where nothing flows."""

    source: Node
    user: Node
    index: int
    local: Any = None
    absent: bool = False


@dataclass(slots=True, eq=False)
class _Best:
    """One of the largest products from the loss to a node, with the step by which it goes on towards the loss."""

    rank: float
    product: Any
    absent: bool
    edge: _Edge | None
    rest: _Best | None


class _Finder:
    """The part of the recorded graph between a variable and a loss."""

    def __init__(
        self, root: Node, start: Node, seed: Any, names: Mapping[Node, str], origin: Mapping[Node, Node]
    ) -> None:
        self.root, self.start, self.seed, self.origin = root, start, seed, origin
        pending = reachable([root])
        self.needed = leading_to([start], pending) if start in pending else set()
        for node in () if self.needed else pending:
            if isinstance(node.saved, Freed):  # of which nobody knows any more what it was computed from
                freed_error(_THROUGH, node, node.saved)
        self.puller = Puller(_THROUGH, self.needed)
        self.order = self._ordered()
        self.onto: dict[Node, list[_Edge]] = {}
        for node in self.order:
            if node is not start:
                for index, entry in self.puller.edges(node):
                    self.onto.setdefault(entry, []).append(_Edge(entry, node, index))
        self.names = self._named(names)

    def _ordered(self) -> list[Node]:
        """Return the nodes between, those near the loss first."""
        if not self.needed:
            return []
        count = dict.fromkeys(self.needed, 0)
        for node in self.needed:
            for _, entry in self.puller.edges(node):
                count[entry] += 1
        ready, order = [self.root], []
        while ready:
            node = ready.pop()
            order.append(node)
            for _, entry in self.puller.edges(node):
                count[entry] -= 1
                if count[entry] == 0 and node is not self.start:
                    ready.append(entry)
        return order

    def _named(self, given: Mapping[Node, str]) -> dict[Node, str]:
        names = {self.start: given.get(self.start, "w")}
        taken = set(given.values()) | {"w", "loss"}
        if self.root is not self.start:
            names[self.root] = given.get(self.root, "loss")
        numbers = (f"v{i}" for i in range(1, len(self.order) + len(taken) + 1) if f"v{i}" not in taken)
        for node in reversed(self.order):
            if node not in names and node.op is not ALIAS:
                names[node] = given.get(node) or next(numbers)
        return names

    # -- the answer

    def report(self, k: int | None) -> Paths:
        count = self._count()
        wanted = k if k is not None else count if count <= _EVERY else _SHOWN
        found: list[Path] = []
        if not count:
            total, tolerance = np.zeros(self.start.spec.shape, self.start.spec.dtype), 0.0
        elif all(_is_number(n) for n in self.order):
            found, total, tolerance = self._largest_products(min(wanted, count))
        else:
            found, total, tolerance = self._walked(min(wanted, count), count)
        return Paths(
            self.names[self.start], self.names.get(self.root, "loss"), count, tuple(found), self._places(),
            _plain(total), _plain(self._gradient()), tolerance,
        )  # fmt: skip

    def _count(self) -> int:
        counts: dict[Node, int] = {self.root: 1} if self.needed else {}
        for node in self.order[1:]:
            counts[node] = sum(counts[e.user] for e in self.onto[node])
        return counts.get(self.start, 0)

    def _gradient(self) -> Any:
        found = backward_pass([(self.root, self.seed)], [self.start], create_graph=False, retain_graph=True)
        ct = found.get(self.start)
        return np.zeros(self.start.spec.shape, self.start.spec.dtype) if ct is None else ct

    def _places(self) -> dict[str, Place]:
        found: dict[str, Place] = {}
        for node in reversed(self.order):
            if node in self.names:
                name, n = self.names[node], self.origin.get(node, node)
                found[name] = Place(name, n.op.name, repr(n.spec), expression(n), n.source, n.path)
        return found

    def _path(self, edges: Sequence[_Edge], contribution: Any, absent: bool, numbers: bool) -> Path:
        """Return the path of `edges` from the variable to the loss; second names for a value are left out."""
        shown = [e for e in edges if e.user.op is not ALIAS]
        return Path(
            (self.names[self.start], *(self.names[e.user] for e in shown)),
            tuple(operand_name(e.user, e.index) for e in shown),
            tuple(e.local if numbers else None for e in shown),
            _plain(contribution),
            magnitude(contribution),
            absent,
        )

    def _tolerance(self, largest: float) -> float:
        return rounding([n.spec for n in self.order], largest)

    # -- numbers: a dynamic program

    def _largest_products(self, k: int) -> tuple[list[Path], Any, float]:
        best: dict[Node, list[_Best]] = {self.root: [_Best(1.0, 1.0, False, None, None)]}
        total: dict[Node, float] = {self.root: 1.0}
        mass: dict[Node, float] = {self.root: 1.0}
        for node in self.order:
            if node is not self.root:
                edges = self.onto[node]
                live = [e for e in edges if not e.absent and e.user in total]
                if live:
                    total[node] = sum(e.local * total[e.user] for e in live)
                    mass[node] = sum(abs(e.local) * mass[e.user] for e in live)
                merged = heapq.merge(*(_extended(best[e.user], e) for e in edges), key=lambda b: -b.rank)
                best[node] = list(islice(merged, k))
            if node is not self.start:
                self._local_derivatives(node)
        found = [self._path(_trail(b), b.product, b.absent, True) for b in best[self.start]]
        return found, total.get(self.start, 0.0), self._tolerance(mass.get(self.start, 0.0))

    def _local_derivatives(self, node: Node) -> None:
        """Put the derivative of a node's value in each of its operands on the edges."""
        pulled = self.puller.pull(node, Cotangent(np.ones(node.spec.shape, node.spec.dtype)))
        for index, entry in self.puller.edges(node):
            edge = next(e for e in self.onto[entry] if e.user is node and e.index == index)
            ct = pulled.get(index)
            edge.absent = ct is None or ct.absent
            edge.local = 0.0 if ct is None or edge.absent else float(ct.value.reshape(()))

    # -- tensors: every path is walked

    def _walked(self, k: int, count: int) -> tuple[list[Path], Any, float]:
        steps = self._steps()
        if steps > _PULLS:
            fail(
                GraphError,
                f"{count:,} paths between tensors, {steps:,} steps to walk",
                "Tensor paths are walked one by one. Ask from a value nearer to the loss, or for a graph whose "
                "composites are closed.",
            )
        largest: list[tuple[float, int, Path]] = []
        total: Any = 0.0
        mass: Any = 0.0
        with np.errstate(all="ignore"):
            for i, (edges, ct) in enumerate(self._walk()):
                absent = ct.absent
                contribution = ct.value if not absent else np.zeros_like(ct.value)
                total, mass = total + contribution, mass + np.abs(contribution)
                path = self._path(edges, contribution, absent, False)
                rank = -1.0 if absent else rank_of(path.size)
                (heapq.heappush if len(largest) < k else heapq.heappushpop)(largest, (rank, -i, path))
        found = [path for _, _, path in sorted(largest, key=lambda item: (-item[0], -item[1]))]
        return found, total, self._tolerance(float(np.max(mass, initial=0.0)))

    def _steps(self) -> int:
        """Return the edges that a walk over all paths goes along: one for every beginning of a path at the loss."""
        counts = {self.root: 1}
        for node in self.order[1:]:
            counts[node] = sum(counts[e.user] for e in self.onto[node])
        return sum(counts.values())

    def _walk(self) -> Iterator[tuple[list[_Edge], Cotangent]]:
        """Yield the edges of every path from the variable on, and the cotangent that is pulled along it."""
        trail: list[_Edge] = []
        stack: list[Iterator[tuple[_Edge, Cotangent]]] = []
        node, ct = self.root, Cotangent(self.seed)
        while True:
            if node is self.start:
                yield trail[::-1], ct
                stack.append(iter(()))
            else:
                stack.append(self._followed(node, ct))
            while (step := next(stack[-1], None)) is None:
                stack.pop()
                if not stack:
                    return
                trail.pop()
            edge, ct = step
            trail.append(edge)
            node = edge.source

    def _followed(self, node: Node, ct: Cotangent) -> Iterator[tuple[_Edge, Cotangent]]:
        pulled = self.puller.pull(node, ct)
        for index, entry in self.puller.edges(node):
            yield _Edge(entry, node, index), pulled.get(index) or nothing(entry)


def _extended(ranked: Sequence[_Best], edge: _Edge) -> Iterator[_Best]:
    # A product that is NaN ranks with the infinite ones: only so does a larger rest never give less.
    for rest in ranked:
        if edge.absent or rest.absent:
            yield _Best(-1.0, 0.0, True, edge, rest)
        else:
            product = rest.product * edge.local
            yield _Best(rank_of(abs(product)), product, False, edge, rest)


def rank_of(size: float) -> float:
    """Return the rank of a contribution among others: one that is NaN is as large as an infinite one."""
    return float("inf") if size != size else size


def _trail(best: _Best) -> list[_Edge]:
    out = []
    while best.edge is not None and best.rest is not None:
        out.append(best.edge)
        best = best.rest
    return out


def _is_number(node: Node) -> bool:
    return not isinstance(node.spec, tuple) and node.spec.size == 1 and category(node.spec.dtype) == 2


def rounding(specs: Sequence[Any], largest: float) -> float:
    """Return how far a sum over paths may be from the gradient.

    `specs` are those of the values on the way, `largest` is the largest sum of sizes of contributions to an element.
    """
    epsilon = max((_epsilon(s.dtype) for s in specs if not isinstance(s, tuple) and s.inexact), default=0.0)
    return epsilon * (16 + 4 * len(specs)) * largest if np.isfinite(largest) else np.inf


def _epsilon(dtype: Any) -> float:
    return 2.0**-7 if dtype.kind == "V" else float(np.finfo(dtype).eps)


def _plain(x: Any) -> Any:
    return x.item() if np.ndim(x) == 0 and hasattr(x, "item") else x
