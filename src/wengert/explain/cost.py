"""The cost of a graph: operations, bytes moved and arithmetic intensity, by node and by module.

The roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model
for multicore architectures" (2009).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import DTypeError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import inputs_of, specs_of
from ..core.graph.work import Flops, flops
from ..core.node import Node
from ..core.ops.facets import VIEWS
from ..core.ops.record import OUTPUT
from ..core.source import Source
from ..core.tensor import Tensor
from ..transforms.derivatives.whole import ProgramOp
from .report import columns, html_table, number, place, size

_SHOWN = 12


@dataclass(frozen=True)
class NodeCost:
    """The cost of one node.

    `flops` is None where it cannot be said, which `rule` explains. `read` and `written` are bytes; a view
    moves none, a broadcast operand is read as what it is a broadcast of, and a composite (one fused
    operation) reads its operands and writes its results.
    """

    name: str
    op: str
    spec: str
    flops: Any
    read: Any
    written: Any
    rule: str
    source: Source | None
    path: str

    @property
    def bytes(self) -> Any:
        """The bytes read and written."""
        return self.read + self.written

    @property
    def intensity(self) -> float | None:
        """The operations for each byte moved; None where nothing is moved or a size is not known."""
        return _intensity(self.flops, self.bytes)


@dataclass(frozen=True)
class PathCost:
    """The cost of everything that ran inside a module, its submodules included."""

    path: str
    nodes: int
    flops: Any
    bytes: Any

    @property
    def intensity(self) -> float | None:
        return _intensity(self.flops, self.bytes)


@dataclass(frozen=True)
class Cost:
    """The cost of a graph: `nodes` in order, `paths` by module, and the totals.

    `flops` adds up the nodes whose count is known; `unknown` are the others.

    >>> import wengert as wg
    >>> found = wg.explain.cost(wg.graph(lambda x: wg.exp(x) + 1.0)(wg.spec((1000,))))
    >>> found.flops, found.bytes, round(found.intensity, 3)
    (16000, 16000, 1.0)
    """

    nodes: tuple[NodeCost, ...]
    paths: Mapping[str, PathCost]
    flops: Any
    bytes: Any
    unknown: tuple[NodeCost, ...]

    def __iter__(self) -> Iterator[NodeCost]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> NodeCost:
        for node in self.nodes:
            if node.name == name:
                return node
        fail(GraphError, f"no computation is called {name!r}", "print(graph) shows the names.")

    @property
    def intensity(self) -> float | None:
        """The operations for each byte moved."""
        return _intensity(self.flops, self.bytes)

    def seconds(self, flops_per_second: float, bytes_per_second: float) -> float:
        """Return a lower bound on the run time by the roofline model: every node computes or moves, the slower counts.

        Raises GraphError where a size is not known.

        >>> import wengert as wg
        >>> g = wg.graph(lambda x, y: x @ y)(wg.spec((256, 256)), wg.spec((256, 256)))
        >>> f"{wg.explain.cost(g).seconds(1e11, 2e10):.6f}"
        '0.000336'
        """
        return sum(_seconds(n, flops_per_second, bytes_per_second) for n in self.nodes)

    def bound_by_memory(self, flops_per_second: float, bytes_per_second: float) -> tuple[NodeCost, ...]:
        """Return the nodes that would wait for memory: intensity below `flops_per_second / bytes_per_second`.

        >>> import wengert as wg
        >>> g = wg.graph(lambda x, y: wg.tanh(x @ y))(wg.spec((256, 256)), wg.spec((256, 256)))
        >>> [n.op for n in wg.explain.cost(g).bound_by_memory(1e11, 2e10)]
        ['tanh']
        """
        ridge = flops_per_second / bytes_per_second
        return tuple(n for n in self.nodes if n.intensity is not None and n.intensity < ridge)

    def _largest(self) -> list[NodeCost]:
        def key(node: NodeCost) -> Any:
            known = isinstance(node.flops, int) and isinstance(node.bytes, int)
            return (0, -node.flops, -node.bytes) if known else (-1, 0, 0)

        return sorted(self.nodes, key=key)

    def _rows(self, nodes: Sequence[NodeCost]) -> list[list[str]]:
        return [
            [n.name, n.op, n.spec, _count(n.flops), _share(n.flops, self.flops), size(n.bytes), _ratio(n.intensity),
             n.rule, n.path, place(n.source)]
            for n in nodes
        ]  # fmt: skip

    def _path_rows(self) -> list[list[str]]:
        return [
            [p.path, number(p.nodes), _count(p.flops), _share(p.flops, self.flops), size(p.bytes), _ratio(p.intensity)]
            for p in self.paths.values()
            if p.path
        ]

    @property
    def _title(self) -> str:
        more = f"; {len(self.unknown)} nodes not counted" if self.unknown else ""
        return (
            f"{_count(self.flops)} operations, {size(self.bytes)} moved, "
            f"{_ratio(self.intensity)} operations for each byte{more}"
        )

    def __str__(self) -> str:
        shown = self._largest()[:_SHOWN]
        parts = [self._title, columns(self._rows(shown), _HEADINGS, _RIGHT)]
        if len(shown) < len(self.nodes):
            parts.append(f"... and {len(self.nodes) - len(shown):,} smaller ones")
        if rows := self._path_rows():
            parts.append(columns(rows, _PATH_HEADINGS, (1, 2, 3, 4, 5)))
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        tables = html_table(self._title, self._rows(self._largest()), _HEADINGS, _RIGHT)
        rows = self._path_rows()
        return tables + (html_table("by module", rows, _PATH_HEADINGS, (1, 2, 3, 4, 5)) if rows else "")


_HEADINGS = ("node", "op", "result", "operations", "share", "moved", "per byte", "rule", "module", "line")
_RIGHT = (3, 4, 5, 6)
_PATH_HEADINGS = ("module", "nodes", "operations", "share", "moved", "per byte")


def cost(graph: Graph | Tensor) -> Cost:
    """Return operations, bytes moved and arithmetic intensity of every node of a graph, and by module.

    Parameters
    ----------
    graph: a graph, or a tensor, for the graph that it was computed by. For the backward pass too, trace
        it: `wg.graph(wg.value_and_grad(f))(...)`.

    One addition, multiplication or comparison counts 1, a product of matrices 2 m n k; of other functions
    each node's `rule` says what is counted, as the op's declaration has it. Bytes are
    those of operands and results, each once. Of sizes that are not known yet, counts are formulas.

    Raises DTypeError for anything else.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, w: wg.tanh(x @ w))(wg.spec((32, 64)), wg.spec((64, 16)))
    >>> found = wg.explain.cost(g)
    >>> [(n.op, n.flops, n.bytes) for n in found]
    [('matmul', 65536, 14336), ('tanh', 7680, 4096)]
    """
    if isinstance(graph, Tensor):
        graph = Graph.of(graph)
    if not isinstance(graph, Graph):
        fail(DTypeError, f"the cost of a {type(graph).__name__}", "Give a graph: wg.graph(f)(...), or a tensor.")
    nodes = tuple(_node_cost(graph, n) for n in graph.computations if n.op is not OUTPUT)
    known = [n for n in nodes if n.flops is not None]
    return Cost(
        nodes,
        _by_path(nodes),
        sum(n.flops for n in known),
        sum(n.bytes for n in nodes),
        tuple(n for n in nodes if n.flops is None),
    )


def _node_cost(graph: Graph, node: Node) -> NodeCost:
    if node.op.body is not None:
        count, rule = _composite(graph, node)
    elif isinstance(node.op, ProgramOp):
        count, rule = _compiled(node.op.graph)
    elif node.op.kind == "control":
        count, rule = _control(node)
    else:
        count, rule = flops(node)
    view = node.op.role in VIEWS
    operands = dict.fromkeys(_buffer(e) for e in inputs_of(node))
    read: Any = 0 if view else sum(_nbytes(e) for e in operands)
    written: Any = 0 if view else _nbytes(node)
    spec = ", ".join(map(repr, specs_of(node)))
    return NodeCost(graph.names[node], node.op.name, spec, count, read, written, rule, node.source, node.path)


def _composite(graph: Graph, node: Node) -> Flops:
    """Return the operations inside a composite."""
    inside = [flops(n) for n in graph.inner(node).expand().computations if n.op is not OUTPUT]
    total: Any = 0
    for part in inside:
        if part.operations is None:
            return part
        total = total + part.operations
    return Flops(total, f"the sum of the {len(inside)} operations inside")


def _compiled(graph: Graph) -> Flops:
    """Return the operations of a compiled program, as they were traced."""
    inside = cost(graph)
    if inside.unknown:
        return Flops(None, inside.unknown[0].rule)
    return Flops(inside.flops, f"the sum of the {len(inside)} operations inside")


def _control(node: Node) -> Flops:
    """Return the operations of a loop, in all its iterations, or of the branch that has most."""
    if "length" in node.attrs:
        one, count = cost(node.attrs["body"]), node.attrs["length"]
        if not one.unknown:
            return Flops(one.flops * count, f"{count} iterations of the {len(one)} operations inside")
        return Flops(None, one.unknown[0].rule)
    if "branches" in node.attrs:
        branches = [cost(branch) for branch in node.attrs["branches"]]
        unknown = [n for branch in branches for n in branch.unknown]
        if unknown:
            return Flops(None, unknown[0].rule)
        return Flops(max(branch.flops for branch in branches), "the branch with most operations")
    return Flops(None, "iterates as often as its values ask for")


def _buffer(node: Node) -> Node:
    """Return the node that is read for an operand: a broadcast one as it was before."""
    while node.op.name == "broadcast":
        (node,) = inputs_of(node)
    return node


def _nbytes(node: Node) -> Any:
    return sum(s.nbytes for s in specs_of(node))


def _by_path(nodes: Sequence[NodeCost]) -> dict[str, PathCost]:
    """Return the totals of every module with its submodules; "" has everything."""
    totals: dict[str, list[Any]] = {"": [0, 0, 0]}
    for node in nodes:
        parts = node.path.split(".") if node.path else []
        for path in ("", *(".".join(parts[: i + 1]) for i in range(len(parts)))):
            total = totals.setdefault(path, [0, 0, 0])
            total[0] += 1
            total[1] = total[1] + (node.flops if node.flops is not None else 0)
            total[2] = total[2] + node.bytes
    return {path: PathCost(path, *total) for path, total in totals.items()}


def _intensity(flops: Any, moved: Any) -> float | None:
    return flops / moved if isinstance(flops, int) and isinstance(moved, int) and moved else None


def _seconds(node: NodeCost, flops_per_second: float, bytes_per_second: float) -> float:
    if not isinstance(node.bytes, int) or not isinstance(node.flops or 0, int):
        fail(GraphError, f"the time of {node.name}, {node.op} {node.spec}: a size is not known until the graph is fed")
    return max((node.flops or 0) / flops_per_second, node.bytes / bytes_per_second)


def _count(count: Any) -> str:
    return "?" if count is None else number(count)


def _share(part: Any, whole: Any) -> str:
    return f"{part / whole:.1%}" if isinstance(part, int) and isinstance(whole, int) and whole else ""


def _ratio(x: float | None) -> str:
    return "-" if x is None else number(x, 3)
