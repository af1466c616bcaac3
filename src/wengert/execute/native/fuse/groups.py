"""Fusion groups: the choice of the nodes that become one loop kernel.

A group is nodes over one *space*, a list of sizes. Every value in it spans some of the space's
dimensions: its axes are numbers of dimensions, or -1 where its size is 1. Elementwise nodes and
reductions join; permutations, broadcasts and added axes of size 1 between them are only other ways
to number the axes, so they never join and cost nothing.

A reduction whose result is used in its own group makes a *row*: the dimensions that it is over
(`over`). Everything over those dimensions is computed again in a later pass along the row. All such
reductions of a group are over the same dimensions; others may be over the same, over all
dimensions, or over the ones that are left.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ....core.graph.graph import Graph
from ....core.node import Node
from ..plan.lowering import FOLLOWED
from .early_totals import early_totals
from .loop_nest import cost
from .loop_nodes import Edge, edge, is_combining, is_elementwise, is_reduction, loop_shape
from .unit_order import UnitOrder, Way

# A kernel with more than these would be slow to compile, and its values would not fit the registers.
_NODES, _OPERANDS = 192, 28
# Spaces up to this many elements are one row where that lets a total be used in its own group.
_SMALL = 4096
# Rows whose elements lie apart are gone through side by side: a loop that needs their results has at least
# so many, or few elements in all, and no longer ones, whose second pass would find them in no cache.
_SIDE, _FEW, _LONG = 256, 1 << 16, 1 << 13
# So many nodes after a reduction are looked at for what may share its loop.
_NEAR = 64
# The most earlier readers of an array that a node is joined with.
_NEIGHBOURS = 4

# Single numbers that so many others read have a kernel of their own: joined with one of these, the others would wait
# for all that that one reads. So the numbers of an optimiser's step wait for no gradient, and no update for another's.
_WIDELY = 8

# A costly value of a loop that is so many times smaller is computed by itself, unless it is one of a row.
_SPREAD = 16
# From what cost on an operation is not done again in every row of a larger loop.
_COSTLY = 4


class Group:
    """A group of nodes over one space; see the module.

    `axes` numbers the axes that a member loops over (a reduction's are those of its operand).
    """

    __slots__ = ("nodes", "space", "axes", "over", "reductions", "anchor", "operands")

    def __init__(self, node: Node) -> None:
        self.nodes = [node]
        self.space: list[int] = []
        self.axes: dict[Node, tuple[int, ...]] = {}
        # The dimensions of a row, once a reduction's result is used inside.
        self.over: frozenset[int] | None = None
        self.reductions: dict[Node, frozenset[int]] = {}
        # The product in whose kernel the group is computed.
        self.anchor: Node | None = None
        # The values that members read of others, in an order that is the same in every process.
        self.operands: dict[Node, None] = {}
        shape = loop_shape(node)
        self.axes[node] = axes = _numbered(self.space, shape)
        if is_combining(node):
            taken = {axes[a] for a in node.attrs["axis"]}
            self.reductions[node] = frozenset(taken - {-1})

    def result_axes(self, node: Node) -> tuple[int, ...]:
        """Return the dimensions of a member's result, axis by axis."""
        axes = self.axes[node]
        if not is_combining(node):
            return axes
        taken = {a % len(axes) for a in node.attrs["axis"]}
        if node.attrs["keepdims"]:
            return tuple(-1 if i in taken else d for i, d in enumerate(axes))
        return tuple(d for i, d in enumerate(axes) if i not in taken)

    def seen(self, node: Node, e: Edge) -> tuple[int, ...]:
        """Return the dimension of every axis of the operand `e.base` as the member `node` takes it (-1: size 1)."""
        taken = self.axes[node][:-1] if node.op.name == "one_hot" else self.axes[node]
        found = [-1] * e.base.spec.ndim
        for axis, base_axis in enumerate(e.axes):
            if base_axis >= 0 and e.base.spec.shape[base_axis] != 1:
                found[base_axis] = taken[axis]
        return tuple(found)

    @property
    def size(self) -> int:
        return math.prod(self.space)


def _reads_of(a: Group, b: Group) -> int:
    """Return how many arrays one kernel for two groups would read."""
    return len((a.operands.keys() | b.operands.keys()) - a.axes.keys() - b.axes.keys())


def _numbered(space: list[int], shape: Iterable[int]) -> tuple[int, ...]:
    """Add new dimensions to a space for the axes of a shape, and return their numbers."""
    axes = []
    for n in shape:
        if n == 1:
            axes.append(-1)
        else:
            axes.append(len(space))
            space.append(n)
    return tuple(axes)


class Grouping:
    """The groups of a graph: `group` maps every node that a loop computes to its group.

    `following` has the groups that are computed in a product's kernel, by the product. The units of `order` are
    groups and single nodes; a product and what follows it are one.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.group: dict[Node, Group] = {}
        self.edges: dict[Node, tuple[Edge | None, ...]] = {}
        # Groups besides a value's own that compute it too.
        self._again: dict[Node, list[Group]] = {}
        self._readers: dict[Node, list[Node]] = {}
        self._scalars: list[Node] = []
        # The groups that the one of the node at hand was found not to join, as both are now.
        self._apart: set[Group] = set()
        self.following: dict[Node, Group] = {}
        self.order = UnitOrder(self.needs, self._readers_of, graph.nodes)
        self._outputs = frozenset(graph.outputs)
        self._early = early_totals(graph)
        for node in graph.nodes:
            if is_reduction(node) or is_elementwise(node):
                self._add(node)

    def unit(self, node: Node) -> Any:
        """Return the unit that computes a node: its group, the product that the group follows, or the node alone."""
        group = self.group.get(node)
        return node if group is None else group.anchor or group

    def needs(self, unit: Any) -> list[Any]:
        """Return the units that one reads from."""
        if isinstance(unit, Group):
            return [self.unit(n) for n in unit.operands]
        needed = [self.unit(e) for e in unit.inputs if isinstance(e, Node)]
        group = self.following.get(unit)
        if group is not None:
            needed += [self.unit(n) for n in group.operands]
        return [u for u in needed if u is not unit]

    def _readers_of(self, unit: Any) -> list[Any]:
        """Return the units that read from one."""
        nodes: list[Node] = unit.nodes if isinstance(unit, Group) else [unit]
        if unit in self.following:
            nodes = [*nodes, *self.following[unit].nodes]
        found: dict[Any, None] = {}
        for node in nodes:
            stack = list(self.graph.consumers(node))
            while stack:
                consumer = stack.pop()
                if consumer in self.group:
                    reading = (g for g in self.computing(consumer) if node in g.operands)
                    found.update((g.anchor or g, None) for g in reading)
                    continue
                # A view needs what it shows, and groups read that through it.
                if any(e is node for e in consumer.inputs):
                    found[consumer] = None
                if not isinstance(consumer.spec, tuple) and edge(consumer).base is not consumer:
                    stack += self.graph.consumers(consumer)
        found.pop(unit, None)
        return list(found)

    def follow(self, product: Node, group: Group) -> bool:
        """Put a group that reads a product into its kernel; return False where it needs something between them."""
        way = self.order.between(product, group)
        if way is None:
            return False
        group.anchor = product
        self.following[product] = group
        self.order.join(product, group, way, product)
        return True

    def all(self) -> list[Group]:
        """Return the groups, each once."""
        return list(dict.fromkeys(self.group.values()))

    def computing(self, node: Node) -> tuple[Group, ...]:
        """Return the groups that compute a value, beginning with the one that stores it, where it is stored."""
        return (self.group[node], *self._again.get(node, ()))

    def takers(self, node: Node) -> list[Group] | None:
        """Return the groups that read a value from memory; None where something else does, or it is a result."""
        found: dict[Group, None] = {}
        stack = [node]
        while stack:
            seen = stack.pop()
            if seen in self._outputs:
                return None
            for consumer in self.graph.consumers(seen):
                if consumer in self.group:
                    found.update((g, None) for g in self.computing(consumer) if node not in g.axes)
                elif isinstance(consumer.spec, tuple) or edge(consumer).base is consumer:
                    return None
                else:
                    stack.append(consumer)
        return list(found)

    def is_taken(self, node: Node) -> bool:
        """Return whether anything reads a value from memory, or it is a result."""
        stack = [node]
        while stack:
            seen = stack.pop()
            if seen in self._outputs:
                return True
            for consumer in self.graph.consumers(seen):
                if consumer in self.group:
                    if any(node not in g.axes for g in self.computing(consumer)):
                        return True
                elif isinstance(consumer.spec, tuple) or edge(consumer).base is consumer:
                    return True
                else:
                    stack.append(consumer)
        return False

    def compute_again(self, node: Node, taker: Group, axes: dict[Node, tuple[int, ...]], read: Iterable[Node]) -> None:
        """Let a group recompute a value that it takes: with the members that `axes` numbers, from the arrays `read`."""
        for member in axes:
            if member not in taker.axes:
                self._again.setdefault(member, []).append(taker)
        taker.axes.update(axes)
        taker.nodes = sorted(taker.axes, key=self.graph.index.__getitem__)
        taker.operands = {n: None for n in (*taker.operands, *read) if n not in taker.axes}
        # A value that only others need is no longer a member where it came from.
        home = self.group[node]
        unused = [node]
        while unused:
            member = unused.pop()
            if member not in home.axes or not self._again.get(member):
                continue
            if not any(e and e.base is member for n in home.nodes for e in self.edges[n]):
                home.nodes.remove(member)
                del home.axes[member]
                self.group[member], *self._again[member] = self._again[member]
                unused += [e.base for e in self.edges[member] if e is not None and e.base in home.axes]
        bases = (e.base for n in home.nodes for e in self.edges[n] if e is not None)
        home.operands = {base: None for base in bases if base not in home.axes}

    def _add(self, node: Node) -> None:
        """Make a group of a node, and join it with those of its operands where that is possible."""
        self.group[node] = group = Group(node)
        edges = self.edges[node] = tuple(edge(e) if isinstance(e, Node) else None for e in node.inputs)
        bases = list(dict.fromkeys(e.base for e in edges if e is not None))
        group.operands = dict.fromkeys(bases)
        self.order.replace(node, group)
        self._apart.clear()
        for base in bases:
            if base in self.group and not self._is_of_product(base, node):
                self._join(self.group[base], self.group[node])
        for base in bases:
            if base not in self.group and base.spec.size > 1:
                readers = self._readers.setdefault(base, [])
                for other in readers[-_NEIGHBOURS:]:
                    self._join(self.group[other], self.group[node])
                readers.append(node)
        if not self.group[node].space:
            # Scalars have nothing to loop over: one kernel for several saves their calls.
            for other in self._scalars[-_NEIGHBOURS:]:
                self._join(self.group[other], self.group[node])
            self._scalars.append(node)

    def _is_of_product(self, value: Node, node: Node) -> bool:
        """Return whether a value is better left to a product's epilogue than computed in the loop of a reduction.

        So it is where memory has to hold it anyway, for others that the reduction's loop does not compute: a gate of
        all of an image's channels, say, which comes of their means through products of its own.
        """
        group = self.group[value]
        if not is_reduction(node) or group.reductions:
            return False
        shape = sorted(group.space)
        products = [n for n in group.operands if n.op.name in FOLLOWED]
        follows = any(sorted(size for size in n.spec.shape if size > 1) == shape for n in products)
        return follows and not all(self._is_near(c, node) for c in self.graph.consumers(value) if c is not node)

    def _is_near(self, reader: Node, start: Node) -> bool:
        """Return whether one of a few nodes after `start`, which loops compute, is the reader."""
        level, seen = [start], {start}
        while level and len(seen) <= _NEAR:
            found = [c for n in level for c in self.graph.consumers(n) if c not in seen]
            if reader in found:
                return True
            level = [c for c in dict.fromkeys(found) if is_elementwise(c) or is_reduction(c) or edge(c).base is not c]
            seen.update(level)
        return False

    # -- joining two groups

    def _join(self, a: Group, b: Group) -> None:
        """Join `a` with `b`, which takes values from it or reads what it reads, where that is possible."""
        if a is b or a in self._apart:
            return
        found = self._together(a, b)
        if isinstance(found, str):
            self._apart.add(a)
        else:
            self._merge(a, b, *found)
            self._apart.clear()

    def why_not_fused(self, x: Node, y: Node) -> str | None:
        """Return why two nodes are not in one kernel; None where they are."""
        for node in (x, y):
            if node not in self.group:
                return f"{node.op.name} is not computed in a loop"
        a, b = self.group[x], self.group[y]
        if a is b:
            return None
        found = self._together(*sorted((a, b), key=lambda g: self.graph.index[g.nodes[0]]))
        return (
            found if isinstance(found, str) else "nothing passes between their groups, and they read nothing in common"
        )

    def _together(self, a: Group, b: Group) -> tuple[dict[int, int], frozenset[int] | bool, Way] | str:
        """Return how the groups are joined, or why they are not.

        That is the dimensions of `b` in `a`'s numbers, the row's dimensions, and how the order of units changes.
        """
        if (a.nodes[0] in self._early) != (b.nodes[0] in self._early):
            return "one makes a total that another loop waits for, and does not wait itself"
        if len(a.nodes) + len(b.nodes) > _NODES:
            return f"one kernel would have more than {_NODES} operations"
        if len(a.operands) + len(b.operands) > _OPERANDS and _reads_of(a, b) > _OPERANDS:
            return f"one kernel would read more than {_OPERANDS} arrays"
        pairs = self._pairs(a, b)
        if pairs is None:
            return "they go through a common value along different axes"
        new = len(b.space) - len(pairs)
        missing = len(a.space) - len(pairs)
        if new and missing:
            return f"they loop over different sizes, {a.space} and {b.space}"
        if (new and a.reductions) or (missing and b.reductions):
            return "a reduction would be computed again for every element of a larger loop"
        over = self._over(a, b, pairs)
        if over is None:
            return "reductions over different axes, or one whose result is needed before its loop is over"
        if new and not self._is_worth(a, frozenset(pairs.values()), b, {v: k for k, v in pairs.items()}):
            return "values of the smaller loop would be computed again in every row of the larger one"
        if missing and not self._is_worth(b, frozenset(pairs), a, pairs):
            return "values of the smaller loop would be computed again in every row of the larger one"
        way = self.order.between(a.anchor or a, b.anchor or b)
        if way is None:
            return "one needs something else that needs the other"
        return pairs, over, way

    def _pairs(self, a: Group, b: Group) -> dict[int, int] | None:
        """Match dimensions of `b` to those of `a`, by the values that pass between them or that both read."""
        if not a.space and not b.space:
            return {}
        small, large, swapped = (b, a, False) if len(b.nodes) <= len(a.nodes) else (a, b, True)
        pairs: dict[int, int] = {}

        def same(x: Sequence[int], y: Sequence[int]) -> bool:
            for i, j in zip(x, y, strict=True):
                if (i < 0) != (j < 0):
                    return False
                if i >= 0 and (pairs.setdefault(i, j) != j or small.space[i] != large.space[j]):
                    return False
            return True

        for node in small.nodes:
            for e in self.edges[node]:
                if e is not None and e.base in large.axes and not same(small.seen(node, e), large.result_axes(e.base)):
                    return None
        if small.axes.keys() & large.operands.keys():
            for node in large.nodes:
                for e in self.edges[node]:
                    if e and e.base in small.axes and not same(small.result_axes(e.base), large.seen(node, e)):
                        return None
        for base in small.operands:
            if base in large.operands and base.spec.size > 1:
                self._pair_readers(base, small, large, pairs)
        self._pair_sizes(small, large, pairs)
        if len(set(pairs.values())) != len(pairs):
            return None
        return {j: i for i, j in pairs.items()} if swapped else pairs

    def _pair_readers(self, base: Node, small: Group, large: Group, pairs: dict[int, int]) -> None:
        """Match the dimensions over which both groups read one array, unless that contradicts what is known."""
        x, y = (
            next(g.seen(n, e) for n in g.nodes for e in self.edges[n] if e is not None and e.base is base)
            for g in (small, large)
        )
        found = dict(pairs)
        for i, j in zip(x, y, strict=True):
            if (i < 0) != (j < 0) or (i >= 0 and (found.setdefault(i, j) != j or small.space[i] != large.space[j])):
                return
        pairs.update(found)

    @staticmethod
    def _pair_sizes(small: Group, large: Group, pairs: dict[int, int]) -> None:
        """Match dimensions of one size that nothing else determines: last with last."""
        free = [j for j in range(len(large.space)) if j not in pairs.values()]
        for i in reversed(range(len(small.space))):
            if i not in pairs:
                for j in reversed(free):
                    if large.space[j] == small.space[i]:
                        pairs[i] = j
                        free.remove(j)
                        break

    def _over(self, a: Group, b: Group, pairs: dict[int, int]) -> frozenset[int] | bool | None:
        """Return the row's dimensions of both together in `a`'s numbers (False: no row); None if they cannot be one."""
        if not a.reductions and not b.reductions:
            return False
        to_a = dict(pairs)
        for d in range(len(b.space)):
            to_a.setdefault(d, len(a.space) + d)
        total = len(a.space) + len(b.space) - len(pairs)
        rows = {
            o for o in (a.over, frozenset(to_a[d] for d in b.over) if b.over is not None else None) if o is not None
        }
        reductions = dict(a.reductions)
        reductions.update({n: frozenset(to_a[d] for d in dims) for n, dims in b.reductions.items()})
        for taker, giver in ((a, b), (b, a)):
            if giver.reductions:
                for node in taker.nodes:
                    rows.update(reductions[e.base] for e in self.edges[node] if e and e.base in giver.reductions)
        if len(rows) > 1:
            return None
        everything = frozenset(to_a[d] for d in range(len(b.space))) | frozenset(range(len(a.space)))
        if rows:
            (over,) = rows
            sizes = dict(enumerate(a.space)) | {i: b.space[d] for d, i in to_a.items()}
            length, size = math.prod(sizes[d] for d in over), math.prod(sizes.values())
            if len(over) == total and size > _SMALL:
                return None
            if (size > _FEW and size // length < _SIDE) or length > _LONG:
                along = [[d for d in a.axes[n] if d >= 0] for n in a.reductions if reductions[n] == over]
                along += [[to_a[d] for d in b.axes[n] if d >= 0] for n in b.reductions if reductions[n] == over]
                if any(not over.issuperset(axes[-len(over) :]) for axes in along):
                    return None
        else:
            partial = [dims for dims in reductions.values() if len(dims) != total]
            over = partial[0] if partial else frozenset()
        allowed = {over, everything, everything - over}
        if any(dims not in allowed for dims in reductions.values()):
            return None
        return over if rows else False

    def _is_worth(self, small: Group, dims: frozenset[int], large: Group, to_large: dict[int, int]) -> bool:
        """Return whether values of a smaller space may be computed inside the loops over a larger one.

        What spans no dimension of the rows is computed once a row. Anything else would be computed again
        in every row: only where it is little, and nobody else needs it.
        """
        if not small.space and any(self._is_read_widely(n, small, large) for n in small.nodes):
            return False
        # Without rows, loops go in the order of memory, which may have any dimension of the larger one inside.
        is_far_smaller = small.space and large.over is None and large.size >= max(_SMALL, _SPREAD * small.size)
        if is_far_smaller and any(cost(n) >= _COSTLY for n in small.nodes):
            return False
        spanned = {to_large[d] for d in dims}
        inner = large.over if large.over is not None else frozenset([len(large.space) - 1])
        if not spanned & inner:
            return True
        if len(small.nodes) > 4 or any(cost(n) >= _COSTLY for n in small.nodes):
            return False
        return all(
            n not in self._outputs and all(self._is_inside(c, small, large) for c in self.graph.consumers(n))
            for n in small.nodes
        )

    def _is_read_widely(self, node: Node, small: Group, large: Group) -> bool:
        """Return whether many others than the members of two groups read a single number."""
        left, stack = _WIDELY, [node]
        while stack:
            for c in self.graph.consumers(stack.pop()):
                if edge(c).base is not c:
                    stack.append(c)
                elif c not in small.axes and c not in large.axes:
                    left -= 1
                    if not left:
                        return True
        return False

    def _is_inside(self, consumer: Node, a: Group, b: Group) -> bool:
        if consumer in a.axes or consumer in b.axes:
            return True
        if consumer in self._outputs or edge(consumer).base is consumer:
            return False
        return all(self._is_inside(c, a, b) for c in self.graph.consumers(consumer))

    def _merge(self, a: Group, b: Group, pairs: dict[int, int], over: frozenset[int] | bool, way: Way) -> None:
        self.order.join(a, b, way, a)
        to_a = dict(pairs)
        # New dimensions follow `a`'s without gaps; `over` names them as `_over` does.
        renumber: dict[int, int] = {}
        first = len(a.space)
        for d, n in enumerate(b.space):
            if d not in to_a:
                renumber[first + d] = to_a[d] = len(a.space)
                a.space.append(n)
        for node in b.nodes:
            a.axes[node] = tuple(to_a[d] if d >= 0 else -1 for d in b.axes[node])
            self.group[node] = a
        for node, dims in b.reductions.items():
            a.reductions[node] = frozenset(to_a[d] for d in dims)
        index = self.graph.index
        is_sorted = index[a.nodes[-1]] < index[b.nodes[0]]
        a.nodes += b.nodes
        if not is_sorted:
            a.nodes.sort(key=index.__getitem__)
        a.operands = {n: None for n in (*a.operands, *b.operands) if n not in a.axes}
        if isinstance(over, frozenset):
            a.over = frozenset(renumber.get(d, d) for d in over)
