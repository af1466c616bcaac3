"""Scalarisation: short last axes as separate values, so that arithmetic on small vectors becomes scalar.

Programs about points, rotations and cameras cut short axes into components, work on these and
stack them again. As arrays, every cut and every stack is memory; as components, one value for every
place along the axis, all of it is elementwise work over the other axes, and runs in one loop. The
derivatives of such programs, sums of zero-padded pieces, become what they mean: a component that is
zero is left out.

A *region* is nodes with a short last axis that pass values to each other; it is taken apart where
something in it stacks, pads or cuts along that axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT, constant_node, located
from ....core.node import Node
from ....core.ops.facets import Role
from ....passes.origins import note
from ....passes.rewrite import build, with_outputs

# The longest axis that is taken apart. Longer ones fill vectors themselves.
_LONGEST = 16
# Components of less than so many elements would not fill a vector.
_FEWEST = 8

# One component: a node, or None where it is zero because nothing was ever there.
Component = Node | None


def components(graph: Graph) -> Graph:
    """Return the graph with its regions of short last axes taken apart."""
    regions = _Regions(graph)
    if not regions.chosen:
        return graph
    return _TakenApart(graph, regions.chosen).graph


def _short(node: Any) -> bool:
    """Return whether a node has a last axis that could be taken apart."""
    return (
        isinstance(node, Node)
        and not isinstance(node.spec, tuple)
        and node.spec.ndim > 0
        and 1 <= node.spec.shape[-1] <= _LONGEST
        and node.spec.size > 0
    )


def _is_elementwise(node: Node) -> bool:
    if node.op.kind != "elementwise" and node.op.name != "cast":
        return False
    return all(e.spec.shape == node.spec.shape for e in node.inputs if isinstance(e, Node))


def _last_entry(entries: Sequence[Any]) -> Any:
    """Return the one entry, of the last axis; False where others do something too, or none does anything."""
    if not entries:
        return False
    *others, last = entries
    return last if all(e == (None, None, None) for e in others) else False


def _part(node: Node) -> str:
    """Classify a node in a region: "inner" passes components on, "seed" makes it worth it, "" is outside."""
    name = node.op.name
    if isinstance(node.spec, tuple) or node.spec.size == 0:
        return ""
    if node.op.role is Role.JOIN:
        return "seed" if node.attrs["axis"] == -1 and _short(node) else ""
    if name == "slice_transpose":
        if not _short(node) and node.attrs["entries"] != (None,):
            return ""
        entry = _last_entry(node.attrs["entries"])
        return "inner" if entry is None else "seed" if entry is not False else ""
    if name == "slice":
        if not _short(node.inputs[0]) and node.attrs["entries"] != (None,):
            return ""
        entry = _last_entry(node.attrs["entries"])
        return "cut" if entry is not False else ""
    if "reduction" in node.op.facets:
        x = node.inputs[0]
        alone = node.attrs["axis"] == (-1,) or -1 not in node.attrs["axis"]
        return "inner" if _short(x) and alone and x.spec.dtype == node.spec.dtype else ""
    if name == "broadcast":
        return "inner" if _short(node) and isinstance(node.inputs[0], Node) else ""
    if name == "reshape":
        return "inner" if _reshape_kind(node) else ""
    return "inner" if _short(node) and _is_elementwise(node) else ""


def _reshape_kind(node: Node) -> str:
    """Return how a reshape treats the last axis: "same", "added" or "dropped" (of size 1)."""
    x = node.inputs[0]
    if not isinstance(x, Node):
        return ""
    old, new = x.spec.shape, node.spec.shape
    if old and new and old[-1] == new[-1] and _short(x):
        return "same"
    if new == (*old, 1):
        return "added"
    return "dropped" if old == (*new, 1) else ""


def _drops(node: Node) -> bool:
    """Return whether the operand's last axis is not in the result: an element or a reduction of it is taken."""
    name = node.op.name
    if "reduction" in node.op.facets:
        return -1 in node.attrs["axis"] and not node.attrs["keepdims"]
    if name == "slice":
        return isinstance(_last_entry(node.attrs["entries"]), int)
    if name == "slice_transpose":
        return _last_entry(node.attrs["entries"]) is None
    return name == "reshape" and _reshape_kind(node) == "dropped"


def _opens(node: Node) -> bool:
    """Return whether the last axis is not one of the operands'."""
    name = node.op.name
    if name == "slice":
        return _last_entry(node.attrs["entries"]) is None
    if name == "slice_transpose":
        return isinstance(_last_entry(node.attrs["entries"]), int)
    return name == "stack" or (name == "reshape" and _reshape_kind(node) == "added")


class _Regions:
    """The nodes that are to be taken apart, found region by region."""

    def __init__(self, graph: Graph) -> None:
        self._parent: dict[Node, Node] = {}
        parts = {n: _part(n) for n in graph.nodes if n.op.kind != "leaf"}
        seeds: set[Node] = set()
        for node, part in parts.items():
            if not part:
                continue
            self._parent.setdefault(node, node)
            if _opens(node):
                continue
            for e in node.inputs:
                if isinstance(e, Node) and parts.get(e) and _short(e) and not _drops(e):
                    self._join(node, e)
        for node, part in parts.items():
            made = isinstance(node.inputs[0], Node) and parts.get(node.inputs[0]) if node.inputs else ""
            if part == "seed" or (part == "cut" and made and _last_entry(node.attrs["entries"]) is not None):
                seeds.add(self._root(node))
        sizes: dict[Node, int] = {}
        for node in self._parent:
            root = self._root(node)
            short = node if _short(node) else node.inputs[0]
            sizes[root] = max(sizes.get(root, 0), short.spec.size // (short.spec.shape or (1,))[-1])
        self.chosen = {n for n in self._parent if self._root(n) in seeds and sizes[self._root(n)] >= _FEWEST}

    def _root(self, node: Node) -> Node:
        while self._parent[node] is not node:
            self._parent[node] = node = self._parent[self._parent[node]]
        return node

    def _join(self, a: Node, b: Node) -> None:
        self._parent.setdefault(b, b)
        self._parent[self._root(a)] = self._root(b)


class _TakenApart:
    """A graph rebuilt with the chosen nodes as components."""

    def __init__(self, graph: Graph, chosen: set[Node]) -> None:
        self._chosen = chosen
        self._whole: dict[Node, Node] = {}
        self._parts: dict[Node, list[Component]] = {}
        for node in graph.nodes:
            if node not in chosen:
                self._whole[node] = self._rebuilt(node)
            elif not _drops(node):
                self._parts[node] = self._components(node)
            else:
                self._whole[node] = self._without_axis(node)
            for made in self._parts.get(node) or (self._whole[node],):
                if made is not None:
                    note(made, "component of a short axis" if node in chosen else "", node)
        self.graph = with_outputs(graph, [self._of(n) for n in graph.outputs])

    def _rebuilt(self, node: Node) -> Node:
        inputs = tuple(self._of(e) if isinstance(e, Node) else e for e in node.inputs)
        if all(a is b for a, b in zip(inputs, node.inputs)):
            return node
        return located(node.op, inputs, node.attrs, node.spec, node.code, node.offset, node.scope)

    def _of(self, node: Node) -> Node:
        """Return a node in one piece, put together where it was taken apart."""
        found = self._whole.get(node)
        if found is None:
            parts = [self._filled(c, node) for c in self._parts[node]]
            if len(parts) == 1:
                found = build("reshape", (parts[0],), node, shape=node.spec.shape)
            else:
                found = build("stack", tuple(parts), node, axis=-1)
            self._whole[node] = found
        return found

    def _filled(self, c: Component, like: Node) -> Node:
        return c if c is not None else _full(0, like)

    def _of_components(self, node: Node) -> list[Component]:
        """Return a node's components: those that it was made of, or views of it."""
        found = self._parts.get(node)
        if found is None:
            whole = self._of(node)
            if whole.op is CONSTANT:
                value = np.asarray(whole.attrs["value"])
                found = [_constant(np.array(value[..., i], order="C"), node) for i in range(value.shape[-1])]
            elif whole.spec.shape[-1] == 1:
                found = [build("reshape", (whole,), node, shape=whole.spec.shape[:-1])]
            else:
                found = [build("slice", (whole,), node, entries=(i,)) for i in range(whole.spec.shape[-1])]
            self._parts[node] = found
        return found

    def _without_axis(self, node: Node) -> Node:
        """Return a chosen node that drops the axis: an element, or a reduction, of what was taken apart."""
        if "reduction" in node.op.facets:
            found = self._reduced(node)
        else:
            # Otherwise it is the only element that is taken.
            entry = node.attrs["entries"][-1] if node.op.name == "slice" else 0
            found = self._of_components(node.inputs[0])[entry]
        return found if found is not None else _number(0, node, node.spec.shape)

    def _reduced(self, node: Node) -> Component:
        x = node.inputs[0]
        parts = self._of_components(x)
        how = node.op.facets["reduction"].combine
        if how == "add":
            parts = [c for c in parts if c is not None]
            if not parts:
                return None
        total, *rest = (self._filled(c, x) for c in parts)
        for c in rest:
            total = build(how, (total, c), node)
        return total

    def _reduced_beside(self, node: Node) -> list[Component]:
        """Return the components of a reduction over other axes: those of its operand, reduced."""
        attrs = {**node.attrs, "axis": tuple(a + 1 for a in node.attrs["axis"])}
        is_sum = node.op.facets["reduction"].combine == "add"
        made: list[Component] = []
        for c in self._of_components(node.inputs[0]):
            if c is None and is_sum:
                made.append(None)
                continue
            whole = self._filled(c, node.inputs[0])
            spec = node.op.infer(whole.spec, **attrs)
            made.append(located(node.op, (whole,), attrs, spec, node.code, node.offset, node.scope))
        return made

    def _components(self, node: Node) -> list[Component]:
        name, count = node.op.name, node.spec.shape[-1]
        if name == "stack":
            return [self._of(e) for e in node.inputs]
        if name == "concat":
            return [c for e in node.inputs for c in self._of_components(e)]
        if name == "slice":
            return self._cut(node)
        if name == "slice_transpose":
            return self._padded(node)
        if "reduction" in node.op.facets:
            return [self._reduced(node)] if -1 in node.attrs["axis"] else self._reduced_beside(node)
        if name == "broadcast":
            return self._spread(node)
        if name == "reshape":
            return self._reshaped(node)
        made = []
        for i in range(count):
            args = [self._of_components(e)[i] if isinstance(e, Node) else e for e in node.inputs]
            made.append(self._applied(node, args, [isinstance(e, Node) for e in node.inputs]))
        return made

    def _applied(self, node: Node, args: list[Any], is_array: list[bool]) -> Component:
        """Apply an elementwise node to one component of each operand; sums leave out absent components."""
        is_sum = node.op.name == "add"
        if (is_sum or node.op.name == "subtract") and all(is_array):
            x, y = args
            if y is None:
                return x  # type: ignore[no-any-return]
            if x is None:
                return y if is_sum else build("negative", (y,), node)
        if args == [None] and _is_zero_at_zero(node):
            return None
        shape = node.spec.shape[:-1]
        inputs = tuple(_full(0, e) if a is None and isinstance(e, Node) else a for a, e in zip(args, node.inputs))
        if node.op.name == "where":
            chosen = _known(inputs[0])
            if chosen is not None:
                picked = inputs[1] if chosen else inputs[2]
                return picked if isinstance(picked, Node) else _number(picked, node, shape)
        return located(node.op, inputs, node.attrs, node.spec.with_shape(shape), node.code, node.offset, node.scope)

    def _cut(self, node: Node) -> list[Component]:
        entry = _last_entry(node.attrs["entries"])
        if entry is None:
            return [self._of(node.inputs[0])]
        return self._of_components(node.inputs[0])[slice(*entry)]

    def _padded(self, node: Node) -> list[Component]:
        entry, ct = _last_entry(node.attrs["entries"]), node.inputs[0]
        made: list[Component] = [None] * node.spec.shape[-1]
        if isinstance(entry, tuple):
            for place, c in zip(range(*slice(*entry).indices(len(made))), self._of_components(ct)):
                made[place] = c
        else:
            made[entry] = self._of(ct)
        return made

    def _spread(self, node: Node) -> list[Component]:
        x, shape, count = node.inputs[0], node.spec.shape[:-1], node.spec.shape[-1]

        def spread(c: Component) -> Component:
            return c if c is None or c.spec.shape == shape else build("broadcast", (c,), node, shape=shape)

        if x.spec.ndim == 0:
            return [spread(self._of(x))] * count
        parts = [spread(c) for c in self._of_components(x)]
        return parts if len(parts) == count else parts * count

    def _reshaped(self, node: Node) -> list[Component]:
        x, shape = node.inputs[0], node.spec.shape[:-1]
        if _reshape_kind(node) == "added":
            return [self._of(x)]
        return [c if c is None else build("reshape", (c,), node, shape=shape) for c in self._of_components(x)]


def _is_zero_at_zero(node: Node) -> bool:
    """Return whether an op of one operand is 0 where that is: asked of the op itself."""
    with np.errstate(all="ignore"):
        return not np.any(node.op.forward(np.zeros((), node.inputs[0].spec.dtype), **node.attrs))


def _number(value: Any, like: Node, shape: tuple[int, ...]) -> Node:
    number = constant_node(np.asarray(value, like.spec.dtype))
    return build("broadcast", (number,), like, shape=shape) if shape else number


def _full(value: Any, like: Node) -> Node:
    """Return a component of one number, in the place of a component of `like`."""
    shape = like.spec.shape[:-1] if _short(like) else like.spec.shape
    return _number(value, like, shape)


def _constant(value: Any, like: Node) -> Node:
    if value.size > 1 and value.tobytes() == value.flat[0].tobytes() * value.size:
        return _number(value.flat[0], like, value.shape)
    return constant_node(value)


def _known(condition: Any) -> bool | None:
    """Return the value of a condition that is the same everywhere; None where that is not known."""
    while isinstance(condition, Node) and condition.op.name == "broadcast":
        condition = condition.inputs[0]
    if isinstance(condition, Node):
        if condition.op is not CONSTANT or condition.spec.size != 1:
            return None
        return bool(condition.attrs["value"])
    return bool(condition)
