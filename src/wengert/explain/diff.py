"""The difference of two graphs: the nodes added, removed, changed and rewired, with the users' lines.

Nodes are matched as trees are by Chawathe et al. ("Change detection in hierarchically structured
information", 1996) and Falleri et al. ("Fine-grained and accurate source code differencing", 2014):
equal structure first, seen from the inputs and from the outputs, then what depends on matched nodes, and
the longest common subsequence (Myers, "An O(ND) difference algorithm and its variations", 1986) of what
is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ..core.errors import DTypeError, fail
from ..core.graph.compare import same_values
from ..core.graph.graph import Graph
from ..core.graph.snapshot import CONSTANT, LEAVES, PARAMETER, specs_of
from ..core.graph.values import digest, encode
from ..core.node import Node
from ..core.ops.op import INPUT
from ..core.source import Source
from .report import html_table, place

EditKind = Literal["added", "removed", "changed", "rewired", "output"]
_MARKS: dict[EditKind, str] = {"added": "+", "removed": "-", "changed": "~", "rewired": ">", "output": "="}
# More differences than this within one stretch are not worth the time of a minimal script.
_EFFORT = 300


@dataclass(frozen=True)
class Edit:
    """One edit. `before` and `after` are the node's lines in the two graphs, None where it has none.

    `source` is the user's place in the second graph (in the first, of what was removed) and `path` the
    module. `note` says what changed of a node that is in both.
    """

    kind: EditKind
    before: str | None
    after: str | None
    note: str
    source: Source | None
    path: str

    def __str__(self) -> str:
        line = self.after if self.after is not None else self.before
        where = f"   {place(self.source)}  ({self.source.text})" if self.source is not None else ""
        return f"{_MARKS[self.kind]} {line}{f'   {self.note}' if self.note else ''}{where}"


@dataclass(frozen=True)
class Diff:
    """The edits that make the second graph of the first. False where the graphs are equal.

    `matched` maps node positions of the first graph to those of the second.

    >>> import wengert as wg
    >>> a = wg.graph(lambda x: wg.exp(x) * 2.0)(wg.spec(()))
    >>> b = wg.graph(lambda x: wg.exp(x) * 3.0)(wg.spec(()))
    >>> found = wg.explain.diff(a, b)
    >>> len(found.edits), found.edits[0].kind, bool(found)
    (1, 'changed', True)
    """

    edits: tuple[Edit, ...]
    matched: Mapping[int, int] = field(repr=False)

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __len__(self) -> int:
        return len(self.edits)

    def __iter__(self) -> Iterator[Edit]:
        return iter(self.edits)

    def __str__(self) -> str:
        if not self.edits:
            return "the graphs are equal"
        return "\n".join([self._title, *map(str, self.edits)])

    @property
    def _title(self) -> str:
        counts = Counter(e.kind for e in self.edits)
        noun = "edit" if len(self.edits) == 1 else "edits"
        return f"{len(self.edits)} {noun}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items())

    def _repr_html_(self) -> str:
        rows = [[e.kind, e.before or "", e.after or "", e.note, place(e.source)] for e in self.edits]
        return html_table(self._title if self.edits else str(self), rows, ("edit", "before", "after", "what", "line"))


def diff(a: Graph, b: Graph) -> Diff:
    """Return a short list of edits from graph `a` to graph `b`, with the users' lines.

    Nodes may be renumbered and inputs renamed: equal graphs have no edits, and only they. A spec that
    changed because an input's did is no edit of its own, and neither is an operand that changed because
    a node was put before or taken from before it. The list is minimal for edits that are apart from
    each other; in general (a smallest edit script of graphs is hard to find) it is short and right.

    Raises DTypeError for anything but graphs.

    >>> import wengert as wg
    >>> a = wg.graph(lambda x: wg.sin(x) * 2.0)(wg.spec(()))
    >>> b = wg.graph(lambda x: wg.cos(x) * 2.0)(wg.spec(()))
    >>> [(e.kind, e.note) for e in wg.explain.diff(a, b)]
    [('changed', 'sin -> cos')]
    >>> bool(wg.explain.diff(a, a))
    False
    """
    for graph in (a, b):
        if not isinstance(graph, Graph):
            fail(
                DTypeError, f"the difference of a {type(graph).__name__}", "Give graphs: wg.graph(f)(...), Graph.of(y)."
            )
    if a == b:
        return Diff((), {i: i for i in range(len(a.nodes))})
    intern: dict[Any, int] = {}
    left, right = _Side(a, intern), _Side(b, intern)
    match = _Matching(left, right).run()
    edits = tuple(_edits(left, right, match))
    return Diff(edits, {a.index[n]: b.index[m] for n, m in match.items()})


class _Side:
    """One graph, with the numbers by which its nodes are compared, which both graphs share."""

    def __init__(self, graph: Graph, intern: dict[Any, int]) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self._intern = intern
        self.label = {n: self._number(self._label(n)) for n in graph.nodes}
        self.users: dict[Node, list[tuple[Node, int]]] = {n: [] for n in graph.nodes}
        for node in graph.nodes:
            for i, e in enumerate(node.inputs):
                if isinstance(e, Node):
                    self.users[e].append((node, i))
        self.results: dict[Node, list[int]] = {}
        for i, node in enumerate(graph.outputs):
            self.results.setdefault(node, []).append(i)

    def _number(self, key: Any) -> int:
        return self._intern.setdefault(key, len(self._intern))

    def _label(self, node: Node) -> Any:
        """Return what a node is, apart from its operands and the spec that follows from them."""
        if node.op is CONSTANT:
            return "constant", digest(node.attrs["value"])
        if node.op in LEAVES:
            return ("input",)
        attrs = tuple((k, encode(v)) for k, v in sorted(node.attrs.items()))
        literals = tuple(None if isinstance(e, Node) else encode(e) for e in node.inputs)
        return node.op.name, attrs, literals

    def from_inputs(self, token: Mapping[Node, int]) -> dict[Node, int]:
        """Return a hash of everything that a node is computed by; `token` names the inputs."""
        out: dict[Node, int] = {}
        for node in self.nodes:
            if node in token:
                out[node] = self._number(("given", token[node]))
            else:
                operands = tuple(out[e] for e in node.inputs if isinstance(e, Node))
                out[node] = self._number((self.label[node], operands))
        return out

    def from_outputs(self) -> dict[Node, int]:
        """Return a hash of everything that a node's value goes into."""
        out: dict[Node, int] = {}
        for node in reversed(self.nodes):
            users = tuple(sorted((out[u], i) for u, i in self.users[node]))
            out[node] = self._number(("up", self.label[node], users, tuple(self.results.get(node, ()))))
        return out

    def line(self, node: Node) -> str:
        """Return a node's line, as `print(graph)` shows it."""
        name = self.graph.names[node]
        spec = ", ".join(map(repr, specs_of(node)))
        if node.op in LEAVES:
            return f"{name}: {spec} {self.graph.kind(node)}"
        return f"{name}: {spec} = {self.operation(node)}"

    def operation(self, node: Node) -> str:
        if node.op in LEAVES:
            return self.graph.kind(node)
        attrs = ", ".join(f"{k}={encode(v)}" for k, v in node.attrs.items())
        operands = [self.graph.names[e] if isinstance(e, Node) else encode(e) for e in node.inputs]
        return " ".join([f"{node.op.name}[{attrs}]" if attrs else node.op.name, *operands])


class _Matching:
    """A matching of the first graph's nodes with those of the second."""

    def __init__(self, left: _Side, right: _Side) -> None:
        self.left, self.right = left, right
        self.to: dict[Node, Node] = {}
        self.back: dict[Node, Node] = {}

    def run(self) -> dict[Node, Node]:
        left, right = self.left, self.right
        self._inputs()
        tokens = {n: i for i, n in enumerate(self.to)}
        down_a = left.from_inputs(tokens)
        down_b = right.from_inputs({self.to[n]: i for n, i in tokens.items()})
        up_a, up_b = left.from_outputs(), right.from_outputs()
        self._equal(lambda n: (down_a[n], up_a[n]), lambda n: (down_b[n], up_b[n]))
        self._equal(down_a.__getitem__, down_b.__getitem__)
        self._equal(up_a.__getitem__, up_b.__getitem__, unique=True)
        self._spread(left.label.__getitem__, right.label.__getitem__)
        self._common_subsequence()
        self._spread(left.label.__getitem__, right.label.__getitem__)
        self._replaced()
        self._spread(_op_name, _op_name)
        return self.to

    def _pair(self, a: Node, b: Node) -> None:
        self.to[a] = b
        self.back[b] = a

    def _inputs(self) -> None:
        """Match inputs by position; where some were added or removed, by name and then by spec."""
        a, b = self.left.graph.inputs, self.right.graph.inputs
        if len(a) == len(b):
            for n, m in zip(a, b):
                self._pair(n, m)
            return
        for key in (lambda n: (n.attrs["name"], n.spec), lambda n: n.attrs["name"] or n, lambda n: n.spec):
            rest_a, rest_b = [n for n in a if n not in self.to], [m for m in b if m not in self.back]
            for i, j in _longest_common(list(map(key, rest_a)), list(map(key, rest_b))):
                self._pair(rest_a[i], rest_b[j])

    def _equal(self, key_a: Callable[[Node], Any], key_b: Callable[[Node], Any], unique: bool = False) -> None:
        """Match nodes of equal key, in order; with `unique` only where each side has one."""
        found_a, found_b = (
            self._grouped(self.left.nodes, self.to, key_a),
            self._grouped(self.right.nodes, self.back, key_b),
        )
        for key, group in found_a.items():
            others = found_b.get(key, ())
            if not unique or len(group) == len(others) == 1:
                for n, m in zip(group, others):
                    self._pair(n, m)

    @staticmethod
    def _grouped(
        nodes: Iterable[Node], taken: Mapping[Node, Node], key: Callable[[Node], Any]
    ) -> dict[Any, list[Node]]:
        groups: dict[Any, list[Node]] = {}
        for node in nodes:
            if node not in taken and node.op is not INPUT and node.op is not PARAMETER:
                groups.setdefault(key(node), []).append(node)
        return groups

    def _spread(self, key_a: Callable[[Node], Any], key_b: Callable[[Node], Any]) -> None:
        """Extend matched pairs to their operands and to users that are alike."""
        work = list(self.to.items())
        while work:
            a, b = work.pop()
            found = [(x, y) for x, y in zip(a.inputs, b.inputs) if isinstance(x, Node) and isinstance(y, Node)]
            free_a = self._by_use(self.left, a, self.to, key_a)
            if free_a:
                free_b = self._by_use(self.right, b, self.back, key_b)
                found += [
                    (us[0], free_b[key][0]) for key, us in free_a.items() if len(us) == len(free_b.get(key, ())) == 1
                ]
            for x, y in found:
                leaf = x.op in (INPUT, PARAMETER) or y.op in (INPUT, PARAMETER)
                if x not in self.to and y not in self.back and not leaf and key_a(x) == key_b(y):
                    self._pair(x, y)
                    work.append((x, y))

    @staticmethod
    def _by_use(
        side: _Side, node: Node, taken: Mapping[Node, Node], key: Callable[[Node], Any]
    ) -> dict[Any, list[Node]]:
        out: dict[Any, list[Node]] = {}
        for user, i in side.users[node]:
            if user not in taken:
                out.setdefault((key(user), i), []).append(user)
        return out

    def _common_subsequence(self) -> None:
        """Match what is left, stretch by stretch between matched nodes that stand in the same order in both."""
        index_a, index_b = self.left.graph.index, self.right.graph.index
        anchors = _increasing(
            [(index_a[n], index_b[m]) for n, m in sorted(self.to.items(), key=lambda p: index_a[p[0]])]
        )
        before = (-1, -1)
        for after in [*anchors, (len(self.left.nodes), len(self.right.nodes))]:
            rest_a = [n for n in self.left.nodes[before[0] + 1 : after[0]] if self._is_free(n, self.to)]
            rest_b = [m for m in self.right.nodes[before[1] + 1 : after[1]] if self._is_free(m, self.back)]
            before = after
            if rest_a and rest_b:
                labels_a, labels_b = [self.left.label[n] for n in rest_a], [self.right.label[m] for m in rest_b]
                for i, j in _longest_common(labels_a, labels_b):
                    self._pair(rest_a[i], rest_b[j])

    @staticmethod
    def _is_free(node: Node, taken: Mapping[Node, Node]) -> bool:
        return node not in taken and node.op is not INPUT and node.op is not PARAMETER

    def _replaced(self) -> None:
        """Match a node with one that took its place: with the operands, or else the users, of one that is gone."""
        by_operands: dict[Any, Node] = {}
        by_users: dict[Any, Node] = {}
        free_a = [n for n in self.left.nodes if self._is_free(n, self.to)]
        free_b = [m for m in self.right.nodes if self._is_free(m, self.back)]
        for m in free_b:
            by_users.setdefault((self._uses(self.right, m, None), m.op is CONSTANT), m)
        for n in reversed(free_a):
            users = self._uses(self.left, n, self.to)
            same = by_users.get((users, n.op is CONSTANT)) if users else None
            if same is not None and same not in self.back:
                self._pair(n, same)
        for m in free_b:
            if m not in self.back and m.op is not CONSTANT:
                by_operands.setdefault(tuple(id(e) for e in m.inputs if isinstance(e, Node)), m)
        for n in free_a:
            if n in self.to or n.op is CONSTANT:
                continue
            operands = tuple(id(self.to.get(e)) for e in n.inputs if isinstance(e, Node))
            same = by_operands.get(operands) if operands else None
            if same is not None and same not in self.back:
                self._pair(n, same)

    def _uses(self, side: _Side, node: Node, to: Mapping[Node, Node] | None) -> Any:
        """Return the uses of a node's value, in terms of the second graph; () where they are not all matched."""
        users = [(u if to is None else to.get(u), i) for u, i in side.users[node]]
        if any(u is None for u, _ in users):
            return ()
        results = [("result", i) for i in side.results.get(node, ())]
        return tuple(sorted([(id(u), i) for u, i in users])), tuple(results)


def _op_name(node: Node) -> str:
    return node.op.name


# -- what the matching means


def _edits(left: _Side, right: _Side, to: Mapping[Node, Node]) -> Iterator[Edit]:
    back = {m: n for n, m in to.items()}
    for n in left.nodes:
        if n not in to:
            yield Edit("removed", left.line(n), None, "", n.source, n.path)
    for m in right.nodes:
        old = back.get(m)
        if old is None:
            yield Edit("added", None, right.line(m), "", m.source, m.path)
        elif note := _change(left, right, old, m):
            yield Edit("changed", left.line(old), right.line(m), note, m.source, m.path)
        elif note := _rewiring(left, right, old, m, to, back):
            yield Edit("rewired", left.line(old), right.line(m), note, m.source, m.path)
    yield from _outputs(left, right, to, back)


def _change(left: _Side, right: _Side, n: Node, m: Node) -> str:
    """Return what a node is now and was not; "" where only its operands, or their specs, differ."""
    if n.op in (INPUT, PARAMETER):
        return "" if n.spec == m.spec else f"{n.spec!r} -> {m.spec!r}"
    if left.label[n] == right.label[m]:
        return "" if n.op is CONSTANT or same_values(n, m) else f"another {n.op.name}"
    if n.op is CONSTANT:
        return "another value" if n.spec == m.spec else f"{n.spec!r} -> {m.spec!r}"
    if n.op is not m.op:
        return f"{n.op.name} -> {m.op.name}"
    parts = [
        f"{k}={encode(n.attrs[k])} -> {encode(m.attrs[k])}"
        for k in m.attrs
        if k in n.attrs and encode(n.attrs[k]) != encode(m.attrs[k])
    ]
    for i, (x, y) in enumerate(zip(n.inputs, m.inputs)):
        nodes = isinstance(x, Node), isinstance(y, Node)
        if any(nodes) != all(nodes) or (not any(nodes) and encode(x) != encode(y)):
            parts.append(f"operand {i}: {_entry(left, x)} -> {_entry(right, y)}")
    if len(n.inputs) != len(m.inputs):
        parts.append(f"{len(n.inputs)} operands -> {len(m.inputs)}")
    return ", ".join(parts)


def _entry(side: _Side, entry: Any) -> str:
    return side.graph.names[entry] if isinstance(entry, Node) else encode(entry)


def _rewiring(left: _Side, right: _Side, n: Node, m: Node, to: Mapping[Node, Node], back: Mapping[Node, Node]) -> str:
    """Describe operands that are other nodes now, where both are in both graphs: else another edit says it."""
    parts = []
    for i, (x, y) in enumerate(zip(n.inputs, m.inputs)):
        if isinstance(x, Node) and isinstance(y, Node) and to.get(x) is not y and x in to and y in back:
            parts.append(f"operand {i}: {left.graph.names[x]} -> {right.graph.names[y]}")
    return ", ".join(parts)


def _outputs(left: _Side, right: _Side, to: Mapping[Node, Node], back: Mapping[Node, Node]) -> Iterator[Edit]:
    a, b = left.graph.outputs, right.graph.outputs
    for i in range(max(len(a), len(b))):
        x, y = a[i] if i < len(a) else None, b[i] if i < len(b) else None
        if x is not None and y is not None and (to.get(x) is y or x not in to or y not in back):
            continue
        before = None if x is None else f"output {i}: {left.graph.names[x]}"
        after = None if y is None else f"output {i}: {right.graph.names[y]}"
        note = "no longer" if y is None else "new" if x is None else f"was {left.graph.names[x]}"
        at = y if y is not None else x
        assert at is not None
        yield Edit("output", before, after, note, at.source, at.path)


# -- sequences


def _increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest subsequence increasing in the second numbers, of pairs sorted by the first (Fredman 1975)."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for k, (_, value) in enumerate(pairs):
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            if ends[middle] < value:
                low = middle + 1
            else:
                high = middle
        before.append(last[low - 1] if low else -1)
        if low == len(ends):
            ends.append(value)
            last.append(k)
        else:
            ends[low], last[low] = value, k
    out = []
    k = last[-1] if last else -1
    while k >= 0:
        out.append(pairs[k])
        k = before[k]
    return out[::-1]


def _longest_common(a: Sequence[Any], b: Sequence[Any]) -> list[tuple[int, int]]:
    """Return positions of a longest common subsequence (Myers 1986); of very different sequences only a beginning."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for d in range(min(len(a) + len(b), _EFFORT) + 1):
        trace.append(dict(furthest) if d else {1: 0})
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and furthest.get(k - 1, -1) < furthest.get(k + 1, -1))
            x = furthest[k + 1] if down else furthest[k - 1] + 1
            while x < len(a) and 0 <= x - k < len(b) and a[x] == b[x - k]:
                x += 1
            furthest[k] = x
            if x >= len(a) and x - k >= len(b):
                return _traced(a, b, trace, d, k)
    return _common_greedily(a, b)


def _traced(
    a: Sequence[Any], b: Sequence[Any], trace: Sequence[Mapping[int, int]], d: int, k: int
) -> list[tuple[int, int]]:
    out = []
    x, y = len(a), len(b)
    for step in range(d, -1, -1):
        known = trace[step]
        k = x - y
        down = k == -step or (k != step and known.get(k - 1, -1) < known.get(k + 1, -1))
        x0 = known.get(k + 1, 0) if down else known.get(k - 1, -1) + 1
        if step == 0:
            x0 = 0
        while x > x0 and y > x0 - k:
            x, y = x - 1, y - 1
            out.append((x, y))
        x, y = (x, y - 1) if down else (x - 1, y)
    return out[::-1]


def _common_greedily(a: Sequence[Any], b: Sequence[Any]) -> list[tuple[int, int]]:
    """Match very different sequences by what occurs once in both, as far as the order agrees."""
    once_a, once_b = ({x: i for i, x in enumerate(s) if n[x] == 1} for s, n in ((a, Counter(a)), (b, Counter(b))))
    return _increasing([(i, once_b[x]) for x, i in once_a.items() if x in once_b])
