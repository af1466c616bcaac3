"""The flow of a gradient: what arrives at every node, what leaves to each operand, and by which pattern.

The patterns are those of Johnson and Li's course notes (CS231n, "Backpropagation, intuitions"): addition
distributes, multiplication swaps, a maximum routes; here they follow from the declared facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...core.errors import DTypeError, GraphError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.ops.op import ALIAS, Linear, Partial, Route, Vjp, spec_of_input
from ...core.ops.record import OUTPUT, SCALARS
from ...core.source import Source
from ...core.tensor import Tensor
from ..pictures.draw import draw
from ..pictures.scene import MAX_NODES, Box, Direction, Kind, Link, Scene
from ..report import columns, html_table, magnitude, number, place, value
from .edges import (
    Cotangent,
    Puller,
    Visit,
    backward_walk,
    expression,
    graph_loss,
    is_start,
    loss_seed,
    operand_name,
    run_recorded,
)

Pattern = Literal["distribute", "swap", "route", "accumulate", "scale"]
_WHAT = "the flow of gradients"
# Gradients up to this many elements are kept with their numbers.
_KEPT = 64


@dataclass(frozen=True)
class Amount:
    """A gradient in numbers: its spec, 2-norm and range, and its elements where they are few (else None).

    `flows` is False where a selection lets nothing through: that is not a gradient of 0.
    """

    spec: str
    norm: float
    low: float
    high: float
    numbers: Any
    flows: bool
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Share:
    """The flow along one edge: the names of the nodes at its ends, the operand's name, the gradient."""

    user: str
    operand: str
    source: str
    gradient: Amount


@dataclass(frozen=True)
class FlowNode:
    """One node in a gradient's flow.

    `arrived` has what came along every edge, `gradient` their sum (None where nothing arrived), `left`
    what goes to each operand. `sentence` says it in words, with the numbers.
    """

    name: str
    op: str
    spec: str
    text: str
    source: Source | None
    path: str
    pattern: Pattern
    uses: int
    arrived: tuple[Share, ...]
    gradient: Amount | None
    left: tuple[Share, ...]
    sentence: str

    def __str__(self) -> str:
        return f"{self.name} = {self.text}: {self.sentence}"


@dataclass(frozen=True)
class Flow:
    """The gradient's flow from a loss to the leaves: `nodes` in the order in which a backward pass visits them.

    >>> import wengert as wg
    >>> w = wg.tensor(2.0, requires_grad=True)
    >>> found = wg.explain.flow(w * 3.0)
    >>> [n.name for n in found], found["w1"].gradient.norm
    (['loss', 'w1'], 3.0)
    """

    loss: str
    nodes: tuple[FlowNode, ...]

    def __iter__(self) -> Iterator[FlowNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> FlowNode:
        for node in self.nodes:
            if node.name == name:
                return node
        fail(GraphError, f"no node is called {name!r} in this flow", "print(flow) shows the names.")

    def _rows(self) -> list[list[str]]:
        return [[n.name, n.pattern, f"{n.text}", place(n.source), n.sentence] for n in self.nodes]

    def __str__(self) -> str:
        return columns(self._rows(), _HEADINGS)

    def _repr_html_(self) -> str:
        return html_table(f"the gradient of {self.loss}", self._rows(), _HEADINGS)

    def to_svg(self, *, direction: Direction = "TB") -> str:
        """Return the graph as an SVG picture with pattern and gradient on every node; pointing at one tells its
        sentence.

        Raises GraphError for more than 400 nodes.

        >>> import wengert as wg
        >>> w = wg.tensor(2.0, requires_grad=True)
        >>> wg.explain.flow(w * w).to_svg().startswith("<svg")
        True
        """
        if len(self.nodes) > MAX_NODES:
            fail(GraphError, f"a picture of {len(self.nodes)} nodes", f"Up to {MAX_NODES} can be read.")
        forward = self.nodes[::-1]
        where = {n.name: i for i, n in enumerate(forward)}
        boxes = tuple(_box(n, n.name == self.loss) for n in forward)
        links = tuple(Link(where[s.source], where[s.user]) for n in forward for s in n.left)
        return draw(Scene(f"gradient of {self.loss}", boxes, links, f"{len(boxes)} nodes"), direction, False)

    def _repr_svg_(self) -> str:
        return self.to_svg()


_HEADINGS = ("node", "pattern", "expression", "line", "what happens")


def _box(node: FlowNode, is_loss: bool) -> Box:
    leaf = not node.left and node.op in _LEAVES
    kind: Kind = "root" if is_loss else "parameter" if leaf else "computation"
    if node.gradient is None or not node.gradient.flows:
        note = "nothing flows"
    elif len(node.gradient.text) <= 28:
        note = f"grad {node.gradient.text}"
    else:
        note = f"grad norm {number(node.gradient.norm)}"
    title = node.name if leaf else f"{node.name} = {node.op}"
    return Box(node.name, kind, title, "" if leaf else node.pattern, note, str(node), node.path)


_LEAVES = ("leaf", "parameter", "input")


def flow(loss: Tensor | Graph, *, inputs: Sequence[Any] = ()) -> Flow:
    """Return what the backward pass of `loss` does at every node: pattern, gradients in and out, and a sentence.

    Parameters
    ----------
    loss: a real scalar tensor whose saved values are still there (before `backward()`, or after
        `backward(retain_graph=True)`), or a graph with one such output.
    inputs: values for a graph's inputs, in order.

    The patterns follow from the ops' facts:

    - *distribute*: linear in several operands with nothing to multiply by (add, subtract), or one result
      element made of many (sum, mean): each gets the arriving gradient.
    - *swap*: linear in each of several operands (multiply, matmul, convolve): each gets the gradient
      times the others.
    - *route*: the gradient goes where a selection took the value from (maximum, relu, where, max), or
      elements go back to their places (reshape, slice, concat).
    - *accumulate*: one value used in several places: their gradients are added (broadcast, tile; every
      node with several users; a leaf's `.grad`).
    - *scale*: anything else: times the local derivative.

    Raises GradientError for a loss that is no real scalar, that needs no gradient, or whose values were
    freed; GraphError for abstract tensors; FeedError for inputs.

    >>> import wengert as wg
    >>> x, y = (wg.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    >>> found = wg.explain.flow(x * y + x)
    >>> [(n.op, n.pattern) for n in found]
    [('add', 'distribute'), ('multiply', 'swap'), ('leaf', 'accumulate'), ('leaf', 'accumulate')]
    >>> found["w1"].sentence
    'used 2 times: 1 + 3 = 4 is its gradient'
    """
    names: dict[Node, str] = {}
    origin: dict[Node, Node] = {}
    if isinstance(loss, Graph):
        values = run_recorded(loss, inputs, _WHAT)
        origin = {t.node: n for n, t in values.items() if isinstance(t, Tensor) and t.node is not None}
        names = {node: loss.names[n] for node, n in origin.items()}
        loss = values[graph_loss(loss, _WHAT)]
    if not isinstance(loss, Tensor):
        fail(DTypeError, f"{_WHAT} of a {type(loss).__name__}", "Give a tensor, or a graph and its inputs.")
    seed = loss_seed(loss, _WHAT)
    assert loss.node is not None
    with Puller("the flow through") as puller:
        visits = list(backward_walk(loss.node, seed, puller))
        writer = _Writer(visits, loss.node, names, origin, puller)
        shown = [v for v in visits if v.node.op is not ALIAS or is_start(v.node)]
        return Flow(writer.names[loss.node], tuple(map(writer.node, shown)))


# -- patterns


def pattern_of(node: Node, puller: Puller | None = None) -> Pattern:
    """Return the pattern of a node's backward step, from its op's facts."""
    puller = puller or Puller(_WHAT)
    if is_start(node):
        return "accumulate"
    op = node.op
    if op.joint is not None:
        return "scale"
    facts = {i: op.fact(i) for i in range(len(node.inputs)) if op.fact(i).differentiable}
    followed = [facts[i] for i, e in enumerate(node.inputs) if type(e) is Node and i in facts]
    if any(isinstance(f, Route) for f in followed) or _keeps_all(node, followed, puller):
        return "route"
    if all(isinstance(f, Linear) and f.selects for f in followed):
        return _selection(node, followed, puller)
    if len(facts) < 2 or not all(isinstance(f, (Linear, Partial)) and not f.needs_out for f in facts.values()):
        return "scale"
    if not any(f.needs for f in facts.values()):
        return "distribute"
    others = all(i not in f.needs or op.variadic for i, f in facts.items())
    return "swap" if others and sum(type(e) not in SCALARS for e in node.inputs) > 1 else "scale"


def _selection(node: Node, facts: Sequence[Any], puller: Puller) -> Pattern:
    """Return, for an op that moves elements by coefficients 0 and 1, whether it merges, copies or moves them."""
    if len(facts) > 1 or isinstance(node.spec, tuple) or node.op is OUTPUT:
        return "route"
    pulled = puller.pull(node, Cotangent(np.ones(node.spec.shape, node.spec.dtype)))
    counts = [g.value for g in pulled.values() if np.size(g.value)]
    if any(np.max(np.abs(c)) > 1 for c in counts):
        return "accumulate"
    return "distribute" if facts[0].covers and node.spec.size < spec_of_input(node.inputs[0]).size else "route"


def _keeps_all(node: Node, facts: Sequence[Any], puller: Puller) -> bool:
    """Return whether a general rule picks elements (a maximum): everything that arrives is handed on, only to them."""
    if len(facts) != 1 or not isinstance(facts[0], Vjp) or facts[0].present is None or isinstance(node.spec, tuple):
        return False
    ones = np.ones(node.spec.shape, node.spec.dtype)
    pulled = puller.pull(node, Cotangent(ones))
    return all(abs(np.sum(g.value) - ones.size) < 1e-3 * ones.size for g in pulled.values())


# -- words


class _Writer:
    def __init__(
        self,
        visits: Sequence[Visit],
        root: Node,
        given: dict[Node, str],
        origin: dict[Node, Node],
        puller: Puller,
    ) -> None:
        self.origin, self.puller = origin, puller
        self.names = dict(given)
        leaves = computed = 0
        for visit in reversed(visits):
            node = visit.node
            if node in self.names:
                continue
            if is_start(node):
                leaves += 1
                self.names[node] = f"w{leaves}"
            elif node is root:
                self.names[node] = "loss"
            elif node.op is not ALIAS:
                computed += 1
                self.names[node] = f"v{computed}"

    def name(self, node: Node) -> str:
        while node not in self.names:
            node = node.inputs[0]  # a second name for a value
        return self.names[node]

    def node(self, visit: Visit) -> FlowNode:
        node = visit.node
        shown = self.origin.get(node, node)
        pattern = pattern_of(node, self.puller)
        arrived = tuple(self._share(user, i, ct) for user, i, ct in visit.arrived)
        left = tuple(self._share(node, i, ct) for i, ct in visit.left.items())
        gradient = None if visit.ct is None else amount(visit.ct)
        return FlowNode(
            self.name(node), shown.op.name, _spec(node), expression(shown), shown.source, shown.path, pattern,
            len(arrived), arrived, gradient, left, self._sentence(visit, pattern, gradient, arrived, left),
        )  # fmt: skip

    def _share(self, user: Node, index: int, ct: Cotangent) -> Share:
        return Share(self.name(user), operand_name(user, index), self.name(user.inputs[index]), amount(ct))

    def _sentence(
        self, visit: Visit, pattern: Pattern, gradient: Amount | None, arrived: Sequence[Share], left: Sequence[Share]
    ) -> str:
        if gradient is None or not gradient.flows:
            return "nothing flows here"
        start = ""
        if len(arrived) > 1 and visit.node.op.results == 1:
            start = f"used {len(arrived)} times: {' + '.join(str(s.gradient) for s in arrived)} = "
        if is_start(visit.node):
            return f"{start}{gradient} is its gradient"
        words = {
            "distribute": self._distributes,
            "swap": self._swaps,
            "route": self._routes,
            "accumulate": self._adds_up,
            "scale": self._scales,
        }[pattern]
        return f"{start}{gradient} arrives; {words(visit, left)}"

    def _distributes(self, visit: Visit, left: Sequence[Share]) -> str:
        if len(left) == 1 and len(visit.node.inputs) == 1:
            return f"every element of {left[0].source} gets its part: {left[0].gradient}"
        return ", ".join(f"{s.source} gets {s.gradient}" for s in left)

    def _swaps(self, visit: Visit, left: Sequence[Share]) -> str:
        node = visit.node
        saved = visit.saved
        parts = []
        for i, share in zip(visit.left, left, strict=True):
            others = [j for j in node.op.fact(i).needs if j != i and j < len(saved) - 1 and saved[j] is not None]
            times = " and ".join(f"{self._operand(node, j)} = {value(saved[j])}" for j in others)
            factor = f"it times {times}: " if times else ""
            parts.append(f"{share.source} gets {factor}{share.gradient}")
        return ", ".join(parts)

    def _operand(self, node: Node, index: int) -> str:
        entry = node.inputs[index]
        return self.name(entry) if type(entry) is Node else operand_name(node, index)

    def _routes(self, visit: Visit, left: Sequence[Share]) -> str:
        parts = []
        for ct, share in zip(visit.left.values(), left, strict=True):
            if type(ct.value) is list:
                parts.append(f"it belongs to one result of {share.source}")
                continue
            passed = np.size(ct.value) if ct.mask is None else int(np.count_nonzero(ct.mask()))
            if not share.gradient.flows:
                parts.append(f"nothing goes to {share.source}")
            elif np.size(ct.value) == 1:
                parts.append(f"{share.source} gets {share.gradient}")
            else:
                parts.append(f"{passed} of {np.size(ct.value)} elements of {share.source} get {share.gradient}")
        return ", ".join(parts)

    def _adds_up(self, visit: Visit, left: Sequence[Share]) -> str:
        return ", ".join(f"the copies of {s.source} add up to {s.gradient}" for s in left)

    def _scales(self, visit: Visit, left: Sequence[Share]) -> str:
        slopes = self._slopes(visit.node)
        parts = []
        for i, share in zip(visit.left, left, strict=True):
            slope = f" times the slope {slopes[i]}" if i in slopes else ""
            parts.append(f"{share.source} gets it{slope}: {share.gradient}")
        return ", ".join(parts)

    def _slopes(self, node: Node) -> dict[int, str]:
        """Return the local derivatives of a node whose value is a single number."""
        if isinstance(node.spec, tuple) or node.spec.size != 1:
            return {}
        pulled = self.puller.pull(node, Cotangent(np.ones(node.spec.shape, node.spec.dtype)))
        return {i: value(ct.value) for i, ct in pulled.items() if np.size(ct.value) == 1}


def _spec(node: Node) -> str:
    return ", ".join(map(repr, node.spec)) if isinstance(node.spec, tuple) else repr(node.spec)


def amount(ct: Cotangent) -> Amount:
    """Return a cotangent in numbers; of a node with several results, all of them together."""
    if type(ct.value) is list:
        parts = [np.asarray(p) for p in ct.value if p is not None]
        text = "; ".join("-" if p is None else value(p) for p in ct.value)
        flat = np.concatenate([p.ravel() for p in parts]) if parts else np.zeros(0)
        return Amount("several results", magnitude(flat), *_range(flat), None, bool(parts), text)
    array = np.asarray(ct.value)
    kept = array.copy() if array.size <= _KEPT else None
    flows = not ct.absent
    text = value(array) if flows else "nothing"
    shape = ",".join(map(str, array.shape))
    return Amount(f"{array.dtype.name}[{shape}]", magnitude(array), *_range(array), kept, flows, text)


def _range(array: Any) -> tuple[float, float]:
    if array.size == 0:
        return 0.0, 0.0
    shown = np.abs(array) if array.dtype.kind == "c" else array
    return float(shown.min()), float(shown.max())
