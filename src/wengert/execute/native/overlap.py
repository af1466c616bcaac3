"""Overlap: collectives start as soon as their operands are there, and are waited for where results are read.

The order of a plan's steps decides what moves behind what. Sums of gradients come in the order in which the backward
pass has them, so each is on its way while the next ones are computed; what is made of them comes at the end. What is
gathered from the program's inputs, which could start at once, starts when what was gathered before it is there and is
about to be used, and what came from another rank is passed on so: one is on its way, one in use. The order is a
function of the graph alone: all ranks have the same.

Where a rank stands is known when its program is compiled: its own part of a value is a slice then (:func:`at_place`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...core.graph.graph import Graph
from ...core.graph.snapshot import LEAVES, located
from ...core.node import Node
from ...core.ops.facets import VIEWS, Role
from ...core.ops.record import OUTPUT
from ...ops.index.slices import ALL, slice_op
from ...passes.rewrite import Rule, RuleSet, rewrite
from .fuse.groups import Grouping
from .plan.plan import Moved

# So many sums are on their way at a time, so that memory need not hold the operands of all; fewer of those of which a
# rank keeps a part, to save memory.
IN_FLIGHT, IN_FLIGHT_OF_PARTS = 3, 2
# What is used so many operations later, one after the other, than it could start waits until then.
LONG = 16
# What has started is looked after by the time that a fast core needs for so much, in nanoseconds.
LOOK_NS = 20_000
# What inputs go through on their way to be gathered.
_PLAIN = VIEWS | {Role.JOIN, Role.BY_ELEMENT}
_FLOPS_PER_NS, _BYTES_PER_NS = 50.0, 10.0


class Bound(Protocol):
    """A collective's native functions, each called as a kernel is, and the word that their records begin with."""

    @property
    def start(self) -> int: ...
    @property
    def look(self) -> int: ...
    @property
    def wait(self) -> int: ...
    @property
    def env(self) -> int: ...


class Exchanges(Protocol):
    """The engine that moves what a program's ranks send each other while its steps run."""

    # What decides the plan beside the graph: plans by other engines have other names.
    identity: str
    # Where the rank stands along the axes of its mesh.
    places: Mapping[str, int]

    def scratch(self, moved: Moved) -> int | None:
        """Return the bytes of memory that a collective needs besides operand and result; None where it is Python's."""
        ...

    def bind(self, moved: Moved) -> Bound:
        """Return the native functions of a collective, for one program that runs once at a time."""
        ...

    def stopped(self, moved: Moved) -> BaseException:
        """Return the error that ended a wait."""
        ...

    def drain(self) -> bool:
        """Let all that has started come to its end; return False where it does not: its memory is others' still."""
        ...


class Begin:
    """The start of a collective, as a unit of the order of steps."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def moved_by(node: Node) -> Moved | None:
    """Return what a collective moves; None for another node, and for operands that are no nodes."""
    if "collective" not in node.op.facets or len(node.inputs) != 1 or not isinstance(node.inputs[0], Node):
        return None
    spec = node.inputs[0].spec
    return Moved(node.op.name, dict(node.attrs), spec.shape, spec.dtype)


def name_of(graph: Graph, exchanges: Exchanges) -> str:
    """Return what decides a graph's plan beside it: plans of ranks whose own parts are in them are their own."""
    return f"{exchanges.identity} {dict(exchanges.places) if any(map(_is_part, graph.nodes)) else ''}"


def _is_part(node: Node) -> bool:
    return node.op.name == "own_part"


def at_place(graph: Graph, places: Mapping[str, int]) -> Graph:
    """Return the graph of the rank that stands there, in which its own parts of values are slices.

    What says how the ranks' programs differ comes last: nothing that looks at where a slice begins may leave out, on
    one rank alone, what all of them move.
    """

    def part(node: Node) -> Node | None:
        x, over, axis = node.inputs[0], node.attrs["over"], node.attrs["axis"]
        if over not in places or not isinstance(x, Node):
            return None
        size = node.spec.shape[axis]
        begin = places[over] * size
        entry = ALL if size == x.spec.shape[axis] else (begin, begin + size, None)
        entries = (entry, *(ALL,) * (-axis - 1))
        return located(slice_op, (x,), {"entries": entries}, node.spec, node.code, node.offset, node.scope)

    return rewrite(graph, RuleSet([Rule("a rank's own part", frozenset({"own_part"}), part)]))


def cost(flops: float, nbytes: int) -> float:
    """Return about how many nanoseconds so much work takes."""
    return max(flops / _FLOPS_PER_NS, nbytes / _BYTES_PER_NS)


def roots(grouping: Grouping, begins: dict[Node, Begin], results: Iterable[Node]) -> list[Any]:
    """Return the units in whose order steps are to come, each after what it needs: starts first, then results.

    `begins` are the collectives that move while other steps run.
    """
    graph, unit = grouping.graph, grouping.unit
    if not begins:
        return [unit(n) for n in results]
    depth: dict[Node, int] = {}
    given: set[Node] = set()
    for node in graph.nodes:
        depth[node] = 1 + max((depth[e] for e in node.inputs if isinstance(e, Node)), default=0)
        is_plain = node.op in LEAVES or node.op.kind == "elementwise" or node.op.role in _PLAIN
        if is_plain and all(e in given for e in node.inputs if isinstance(e, Node)):
            given.add(node)
    index = {n: i for i, n in enumerate(graph.nodes)}
    first = {n: min(_users(grouping, n, begins), key=lambda u: (depth[u], index[u]), default=None) for n in begins}
    used = {n: depth[u] if u is not None else depth[n] for n, u in first.items()}
    # By collective that does not start when its operand is there: what is about to be used when it does.
    before: dict[Node, Node | None] = {}
    passed_on: set[Node] = set()
    for n in begins:
        if (source := _seen_through(n.inputs[0])) in begins:
            before[n] = source
            passed_on.add(n)
    ahead = [n for n in begins if n not in before and (n.inputs[0] in given or used[n] - depth[n] > LONG)]
    ahead.sort(key=lambda n: (used[n], index[n]))
    for i, n in enumerate(ahead):  # those that are used together start together
        one = ahead[i - 1] if i else None
        before[n] = before[one] if one is not None and used[one] == used[n] else one
    late = [n for n in sorted(begins, key=lambda n: (depth[n], index[n])) if n not in before]
    # What follows from sums that came early comes early: so their memory is free again, and the last ones, which are
    # still on their way, have something to be hidden by.
    place = {**dict.fromkeys(before, 0), **{n: i for i, n in enumerate(late, 1)}}
    latest: dict[Node, int] = {}
    for node in graph.nodes:
        latest[node] = max([place.get(node, -1), *(latest[e] for e in node.inputs if isinstance(e, Node))])
    rest = sorted(results, key=latest.__getitem__)
    planned: list[tuple[int, int, list[Any]]] = []
    for n, one in before.items():
        if one is None:
            planned.append((-1, 0, [begins[n]]))
        elif n in passed_on:  # what was here before it is used by then
            users = _users(grouping, _seen_through(one.inputs[0]), begins)
            units = [unit(min(users, key=lambda u: (depth[u], index[u])))] if users else []
            planned.append((used[one], 0, [*units, one, begins[n]]))
        else:
            user = first[one]
            needs = [] if user is None else [u for u in grouping.needs(unit(user)) if _seen_through(u) not in begins]
            planned.append((used[one], 0, [*needs, one, begins[n]]))
    for i, n in enumerate(late):
        is_part = n.spec.nbytes < n.inputs[0].spec.nbytes
        done = i - (IN_FLIGHT_OF_PARTS if is_part else IN_FLIGHT)
        units = [*grouping.needs(n)]
        if done >= 0:
            units.append(late[done])
            while rest and latest[rest[0]] <= done + 1:
                units.append(unit(rest.pop(0)))
        planned.append((depth[n], 1, [*units, begins[n]]))
    planned.sort(key=lambda row: row[:2])
    return [*(u for *_, units in planned for u in units), *map(unit, rest)]


def _users(grouping: Grouping, node: Node, begins: Mapping[Node, Begin]) -> list[Node]:
    """Return the nodes that compute with a value, seen through views of it and results of several; no collectives."""
    found: list[Node] = []
    waiting = list(grouping.graph.consumers(node))
    while waiting:
        user = waiting.pop()
        if user.op is OUTPUT or user.op.role in VIEWS:
            waiting += grouping.graph.consumers(user)
        elif user not in begins:
            found.append(user)
    return found


def _seen_through(x: Any) -> Any:
    """Return what a value is a view of."""
    while isinstance(x, Node) and x.op.role in VIEWS:
        x = x.inputs[0]
    return x
