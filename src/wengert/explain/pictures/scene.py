"""The scene of a graph's picture: boxes with their words and sizes, arrows, what is folded.

SVG and DOT are two ways to write the same scene.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ...core.arrays import Array
from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, LEAVES, inputs_of, specs_of
from ...core.graph.values import encode
from ...core.node import Node
from ...core.ops.declare import PUBLIC
from ...core.ops.op import Op
from ...core.ops.record import OUTPUT

Kind = Literal["input", "parameter", "constant", "computation", "gradient", "root", "module", "more"]
Direction = Literal["TB", "LR"]

# A picture of more boxes than this one tells nothing; modules are folded, then the middle.
MAX_NODES = 400
# The number of boxes shown at each end of what is left out.
_END = 40
_TITLE_LENGTH = 30
# Larger constants are not looked through for one value.
_COMPARED = 1 << 16
_DOTS, _DOT = "\N{HORIZONTAL ELLIPSIS}", "\N{MIDDLE DOT}"
# Attributes that the result's shape and dtype show already.
_SHOWN_BY_SPEC = frozenset({"shape", "dtype", "keepdims"})


class Box(NamedTuple):
    """A node, or several folded into one.

    `title` stands in bold, `rest` (attributes, literals) after it, `note` (the spec) below. `tip`
    says all that is known. `stacked` boxes hold a graph; a `ring` marks an output. `nodes` counts
    the nodes within.
    """

    name: str
    kind: Kind
    title: str
    rest: str
    note: str
    tip: str
    path: str
    stacked: bool = False
    ring: bool = False
    nodes: int = 1

    @property
    def heading(self) -> str:
        """The title and the rest."""
        return f"{self.title} {self.rest}" if self.rest else self.title


class Link(NamedTuple):
    """An arrow between two boxes, by their positions; `operands` counts what it stands for."""

    source: int
    target: int
    operands: int = 1


class Scene(NamedTuple):
    """The boxes in an order in which arrows lead forward, and the arrows in operand order."""

    name: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    shown: str


def scene_of(graph: Graph, max_nodes: int | None = MAX_NODES) -> Scene:
    """Return the scene of a graph; with more than `max_nodes` nodes, modules and then the middle are folded.

    Raises GraphError for a `max_nodes` that is not a positive number.
    """
    if max_nodes is not None and (not isinstance(max_nodes, int) or isinstance(max_nodes, bool) or max_nodes < 1):
        fail(GraphError, f"max_nodes={max_nodes!r} of a picture", "Give a positive number, or None to show all.")
    if max_nodes is None or len(graph.nodes) <= max_nodes:
        groups = [[n] for n in graph.nodes]
    else:
        groups = _folded(graph, max_nodes)
    words = _Words(graph)
    boxes = tuple(words.node_box(g[0]) if len(g) == 1 else words.fold_box(g) for g in groups)
    nodes = len(graph.nodes)
    shown = _counted(nodes, "node") + (f", {len(boxes)} boxes shown" if len(boxes) != nodes else "")
    return Scene(graph.name, boxes, tuple(_links(groups)), shown)


def _links(groups: Sequence[Sequence[Node]]) -> list[Link]:
    """Return one arrow for every operand between single nodes, one for all of them where a side is folded."""
    where = {node: i for i, group in enumerate(groups) for node in group}
    out: list[Link] = []
    for target, group in enumerate(groups):
        bundled: dict[int, int] = {}
        for node in group:
            for source in inputs_of(node):
                i = where[source]
                if i == target:
                    continue
                if len(group) == 1 and len(groups[i]) == 1:
                    out.append(Link(i, target))
                else:
                    bundled[i] = bundled.get(i, 0) + 1
        out += [Link(i, target, count) for i, count in bundled.items()]
    return out


# -- folding


def _folded(graph: Graph, limit: int) -> list[list[Node]]:
    """Return at most about `limit` groups: modules as deep as fits, else the first and last nodes."""
    deepest = max((n.path.count(".") + 1 for n in graph.computations if n.path), default=0)
    units = [[n] for n in graph.computations]
    for depth in range(deepest, 0, -1):
        units = _runs(graph.computations, depth)
        groups = _with_leaves(graph, units)
        if len(groups) <= limit:
            return groups
    return _without_many_leaves(graph, _with_leaves(graph, _without_middle(units, limit)), limit)


def _runs(nodes: Iterable[Node], depth: int) -> list[list[Node]]:
    """Group neighbours of one module at most `depth` levels down.

    The nodes of a run follow each other in topological order, so no path leaves it and comes back.
    """
    out: list[list[Node]] = []
    last = ""
    for node in nodes:
        key = ".".join(node.path.split(".")[:depth])
        if out and key and key == last:
            out[-1].append(node)
        else:
            out.append([node])
        last = key
    return out


def _without_middle(units: list[list[Node]], limit: int) -> list[list[Node]]:
    """Return the first and last units by level, and the ones between them as one."""
    end = max(1, min(limit // 4, _END))
    if len(units) <= 2 * end + 1:
        return units
    where = {node: i for i, unit in enumerate(units) for node in unit}
    level = [0] * len(units)
    for i, unit in enumerate(units):
        sources = {where[e] for node in unit for e in inputs_of(node) if e in where}
        level[i] = 1 + max((level[j] for j in sources if j != i), default=-1)
    order = sorted(range(len(units)), key=lambda i: level[i])
    middle = sorted(order[end:-end])
    return [
        *(units[i] for i in order[:end]),
        [node for i in middle for node in units[i]],
        *(units[i] for i in order[-end:]),
    ]


def _with_leaves(graph: Graph, units: list[list[Node]]) -> list[list[Node]]:
    """Return the units after the leaves; a leaf that one folded unit alone takes is folded into it."""
    home = {node: i for i, unit in enumerate(units) for node in unit}
    roots = set(graph.outputs)
    absorbed: dict[int, list[Node]] = {}
    leaves = []
    for leaf in graph.nodes:
        if leaf.op not in LEAVES:
            continue
        users = {home[user] for user in graph.consumers(leaf)}
        only = users.pop() if len(users) == 1 and leaf not in roots else None
        if only is not None and len(units[only]) > 1:
            absorbed.setdefault(only, []).append(leaf)
        else:
            leaves.append([leaf])
    return [*leaves, *([*absorbed.get(i, ()), *unit] for i, unit in enumerate(units))]


def _without_many_leaves(graph: Graph, groups: list[list[Node]], limit: int) -> list[list[Node]]:
    """Return the groups with at most half of `limit` leaves of their own, the others as one."""
    leaves = [g for g in groups if len(g) == 1 and g[0].op in LEAVES]
    kept = max(1, limit // 2)
    if len(leaves) <= kept + 1:
        return groups
    rest = [node for g in leaves[kept:] for node in g]
    return [*leaves[:kept], rest, *(g for g in groups if len(g) > 1 or g[0].op not in LEAVES)]


def _common_path(paths: Iterable[str]) -> str:
    common: list[str] | None = None
    for path in paths:
        parts = path.split(".")
        if common is None:
            common = parts
        else:
            same = [a == b for a, b in zip(common, parts)]
            common = common[: same.index(False) if False in same else len(same)]
    return ".".join(common or [])


# -- words


class _Words:
    """A writer of the boxes of a graph's nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = graph.names
        self.outputs: dict[Node, list[int]] = {}
        for i, node in enumerate(graph.outputs):
            self.outputs.setdefault(node, []).append(i)

    def fold_box(self, group: Sequence[Node]) -> Box:
        """Return the box of several nodes: a module, or what is left out."""
        computed = [n for n in group if n.op not in LEAVES]
        path = _common_path(n.path for n in computed)
        count = f"{len(group):,} nodes"
        leaves = len(group) - len(computed)
        parts = [_counted(len(computed), "operation")] * bool(computed) + [_counted(leaves, "leaf")] * bool(leaves)
        return Box(
            name=f"{self.names[group[0]]}...{self.names[group[-1]]}",
            kind="module" if path else "more",
            title=_shortened(path, tail=True) if path else f"{_DOTS} {len(group):,} more nodes",
            rest="",
            note=", ".join(parts),
            tip=f"{path}: {count}, folded" if path else f"{count} left out of the picture",
            path=path,
            stacked=True,
            ring=any(n in self.outputs for n in group),
            nodes=len(group),
        )

    def node_box(self, node: Node) -> Box:
        """Return the box of one node."""
        name = self.names[node]
        title, rest = self._heading(node)
        return Box(
            name=name,
            kind=self._kind(node),
            title=title,
            rest=rest,
            note=_shortened(", ".join(str(s) for s in specs_of(node))),
            tip=self._tip(node),
            path=str(node.attrs.get("name", "")).rpartition(".")[0] if node.op in LEAVES else node.path,
            stacked=node.op.body is not None,
            ring=node in self.outputs,
        )

    def _kind(self, node: Node) -> Kind:
        kind = self.graph.kind(node)
        return "gradient" if kind == "computation" and _of_derivative(node) else kind

    def _heading(self, node: Node) -> tuple[str, str]:
        """Return the box's bold title, and the text after it."""
        if node.op is CONSTANT:
            return _shortened(_value(node.attrs["value"])), ""
        if node.op in LEAVES:
            return _shortened(self.names[node], tail=True), ""
        if node.op is OUTPUT:
            return f"result {node.attrs['index']}", ""
        literals = [e for e in node.inputs if not isinstance(e, Node)]
        symbol = _sign(node.op)
        if symbol and len(literals) == 1 and len(node.inputs) == 2:
            text = _short(literals[0])
            return (f"{symbol} {text}" if isinstance(node.inputs[0], Node) else f"{text} {symbol}"), ""
        title = _shortened(symbol or node.op.name)
        operands = [_DOT if isinstance(e, Node) else _short(e) for e in node.inputs] if literals else []
        if operands.count(_DOT) == 1 and operands[0] == _DOT:
            operands = operands[1:]
        return title, _fitting([*operands, *_short_attrs(node)], _TITLE_LENGTH + 4 - len(title))

    def _tip(self, node: Node) -> str:
        """Return everything about a node, on a few lines."""
        lines = [self._definition(node)]
        if node.op.body is not None:
            lines.append("composite: graph.expand() shows what is inside")
        positions = self.outputs.get(node)
        if positions:
            several = f"output {', '.join(map(str, positions))} of the graph"
            lines.append(several if len(self.graph.outputs) > 1 else "the output of the graph")
        if node.path:
            lines.append(f"in {node.path}")
        source = node.source
        if source is not None and not source.file.startswith("<"):
            # Pictures are passed on: where the file lies on this machine stays here.
            lines.append(f"{os.path.basename(source.file)}:{source.line}  {source.text}".rstrip())
        return "\n".join(lines)

    def _definition(self, node: Node) -> str:
        start = f"{self.names[node]}: {', '.join(str(s) for s in specs_of(node))}"
        if node.op in LEAVES:
            value = node.attrs["value"] if node.op is CONSTANT else None
            shown = f" {value.tolist()}" if value is not None and value.size <= 16 else ""
            return f"{start}, {self.graph.kind(node)}{shown}"
        attrs = ", ".join(f"{k}={encode(v)}" for k, v in node.attrs.items())
        operands = [self.names[e] if isinstance(e, Node) else encode(e) for e in node.inputs]
        return f"{start} = " + " ".join([f"{node.op.name}[{attrs}]" if attrs else node.op.name, *operands])


def _sign(op: Op) -> str:
    """Return the sign of what Python writes with an operator, where it is one character; "" of others."""
    sign = op.facets["form"].symbol if "infix" in op.facets and "form" in op.facets else ""
    return sign if len(sign) == 1 else ""


def _of_derivative(node: Node) -> bool:
    """Return whether the node belongs to a backward pass."""
    scope = node.scope
    while scope is not None and scope.kind != "gradient":
        scope = scope.parent
    return scope is not None


def _short_attrs(node: Node) -> list[str]:
    """Return the attributes that say something, as short as can be."""
    usual = _defaults(node.op.name)
    out = []
    for key, value in node.attrs.items():
        if key in _SHOWN_BY_SPEC or value is None or value is False or (key in usual and usual[key] == value):
            continue
        index = _index(value, len(specs_of(next(inputs_of(node)))[0].shape)) if key == "entries" else ""
        out.append(index or (key if value is True else f"{key}={_short(value)}"))
    return out


def _defaults(name: str) -> dict[str, Any]:
    """Return the defaults of the public function of this name, without axes, which are always worth showing."""
    code = getattr(PUBLIC.get(name), "__code__", None)
    if code is None:
        return {}
    function = PUBLIC[name]
    positional, last = function.__defaults__ or (), code.co_argcount
    found = dict(zip(code.co_varnames[last - len(positional) : last], positional))
    found |= function.__kwdefaults__ or {}
    return {key: value for key, value in found.items() if key not in ("axis", "axes")}


def _index(entries: Any, rank: int) -> str:
    """Return the entries of a basic index of the last axes as in Python; "" for other entries."""
    out = []
    for entry in entries:
        if isinstance(entry, tuple) and len(entry) == 3:
            start, stop, step = ("" if part is None else str(part) for part in entry)
            out.append(f"{start}:{stop}:{step}" if step not in ("", "1") else f"{start}:{stop}")
        elif entry is None or isinstance(entry, int):
            out.append(str(entry))
        else:
            return ""
    if sum(entry is not None for entry in entries) < rank:
        out.insert(0, "...")
    else:
        while out and out[-1] == ":":
            out.pop()
    return f"[{','.join(out)}]"


def _short(value: Any) -> str:
    """Return a literal or an attribute, with few digits."""
    if isinstance(value, float):
        text = repr(value)
        return text if len(text) <= 7 else f"{value:.4g}{_DOTS}"
    if isinstance(value, tuple) and len(value) == 1:
        return _short(value[0])
    return value if isinstance(value, str) else encode(value).replace(", ", ",")


def _value(value: Array) -> str:
    """Return a constant in a few characters where it is small or all the same."""
    if 0 < value.size <= _COMPARED and (value == value.flat[0]).all():
        return _short(value.flat[0].item())
    return str(value.tolist()) if value.size <= 3 else "constant"


def _counted(count: int, noun: str) -> str:
    plural = {"leaf": "leaves"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"


def _fitting(words: Sequence[str], length: int) -> str:
    """Return as many of the first words as `length` characters hold."""
    out = ""
    for word in words:
        if len(out) + len(word) > length:
            return f"{out}{_DOTS}"
        out += f"{word} "
    return out.rstrip()


def _shortened(text: str, length: int = _TITLE_LENGTH, tail: bool = False) -> str:
    """Return at most `length` characters, from the front or from the tail."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    return _DOTS + text[1 - length :] if tail else text[: length - 1] + _DOTS


def count_by_kind(scene: Scene) -> Mapping[str, int]:
    """Return how many boxes of each kind there are, in a fixed order."""
    order: tuple[Kind, ...] = ("input", "parameter", "constant", "computation", "gradient", "root", "module", "more")
    counts = {kind: sum(b.kind == kind for b in scene.boxes) for kind in order}
    return {kind: count for kind, count in counts.items() if count}
