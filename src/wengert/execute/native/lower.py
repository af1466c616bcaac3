"""Lowering of a canonical graph to a plan: groups and single nodes in order, with epilogues in their products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.graph.graph import Graph
from ...core.graph.snapshot import CONSTANT, specs_of
from ...core.node import Node
from ...core.ops.facets import VIEWS, Role
from ...core.ops.record import OUTPUT
from .codegen.types import Target
from .fuse.epilogues import emitter, epilogue_key, follow, operand_kind
from .fuse.groups import Group, Grouping
from .fuse.loop_nodes import edge, permutation
from .fuse.recompute import recompute
from .fuse.schedule import NestBuilder, is_structure, literal_dtype
from .kernels.copies import copy_step, sliced
from .overlap import LOOK_NS, Begin, Exchanges, cost, moved_by, roots
from .plan.host_calls import forward_call
from .plan.lowering import FOLLOWED, RAISING, RULES, Epilogue, Lowering
from .plan.plan import Buffer, Exchange, Plan, View, dense
from .rewrite.checks import Check

# A vector is not filled by less than twice its lanes, and rows side by side fill some from here on.
_SHORT, _LONG = 16, 64


def _is_view(node: Node) -> bool:
    """Return whether a node's array may be a view of its first operand's."""
    op = node.inputs[0].op if node.op is OUTPUT else node.op
    # A slice put back among zeros may be seen in a window, and what an einsum does to one operand by strides.
    other = op.name == "slice_transpose" or (op.name == "einsum" and len(node.inputs) == 1)
    return other or op.role in VIEWS


class GraphLowering(Lowering):
    """The lowering of one graph; `donated` says which inputs' memory may be written to.

    A graph inside another is `given` the arrays of its inputs, and may be told where results should
    be written (`places`, by position among its outputs): that is a wish. Collectives that `exchanges` moves are under
    way while other steps run.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        donated: Sequence[bool],
        outer: Lowering | None = None,
        given: Sequence[View] = (),
        places: Sequence[View | None] = (),
        checks: Sequence[Check] = (),
        prepares: bool = False,
        exchanges: Exchanges | None = None,
    ) -> None:
        super().__init__(target, outer, prepares)
        self.graph = graph
        self._exchanges = exchanges
        self._begins: dict[Node, Begin] = {}
        # What is on its way: its number, operand, result, and scratch memory.
        self._moving: dict[Node, tuple[int, View, View, View]] = {}
        if exchanges is not None:
            for node in graph.nodes:
                moved = moved_by(node)
                if moved is not None and exchanges.scratch(moved) is not None:
                    self._begins[node] = Begin(node)
        self._checks = list(checks)
        # The last outputs are what checks need.
        self._results = graph.outputs[: len(graph.outputs) - 2 * len(checks)]
        self._places = {n: place for n, place in zip(graph.outputs, places) if place is not None}
        self.grouping = Grouping(graph)
        recompute(self.grouping, FOLLOWED)
        follow(graph, self.grouping)
        self._outputs = frozenset(graph.outputs)
        self._pieces: dict[Node, tuple[Node, int]] = {}
        self._containers: dict[Node, View] = {}
        self._windows: dict[Node, tuple[tuple[int, int, int], ...]] = {}
        self._find_pieces()
        self.donated = tuple(donated)
        self._given = {n for n, gives in zip(graph.inputs, donated) if gives}
        self._taken: set[Node] = set()
        self._now = 0
        if outer is not None:
            self.views.update(zip(graph.inputs, given, strict=True))
            return
        for i, (node, gives) in enumerate(zip(graph.inputs, donated, strict=True)):
            (spec,) = specs_of(node)
            buffer = Buffer("input", spec.size * spec.dtype.itemsize, i, donated=gives)
            self.views[node] = View(buffer, spec.dtype, spec.shape, dense(spec.shape))
            self.plan.inputs.append(self.view(node))

    def lower(self) -> Plan:
        """Return the plan, whose buffers have no places yet."""
        self.plan.outputs = self.results()
        return self.plan

    def results(self) -> list[View]:
        """Add all steps, and return the arrays of the graph's outputs."""
        order = self._order()
        self._last_readers(order)
        self._last_raising = max((i for i, unit in enumerate(order) if self._may_raise(unit)), default=-1)
        unlooked = 0.0
        for self._now, node in enumerate(order):
            before = len(self.plan.steps)
            if isinstance(node, Begin):
                self._begin(node.node)
            elif isinstance(node, Group):
                if node.anchor is None:
                    self._group(node)
            else:
                self._node(node)
            for check in [c for c in self._checks if c.wrong in self.views and c.given in self.views]:
                self._checks.remove(check)
                index, wrong = self.view(check.given), self.view(check.wrong)
                self.step(check.call(wrong), [index], reads=[index, wrong], writes=[], nodes=[check.of])
            unlooked += sum(cost(s.flops, s.nbytes) for s in self.plan.steps[before:]) if self._moving else 0.0
            if unlooked > LOOK_NS:
                self.step(Exchange("look", "look", -1), [], reads=[], writes=[])
                unlooked = 0.0
        return [self.view(n) for n in self._results]

    # -- the order of steps

    def _order(self) -> list[Any]:
        """Return groups and single nodes, each after what it needs; a product's group stands with the product.

        What may overwrite a donated input comes, where that is possible, after everything else that reads it.
        """
        readers: dict[Node, list[Any]] = {n: [] for n, given in zip(self.graph.inputs, self.donated) if given}
        if readers:
            for unit in dict.fromkeys(self.grouping.unit(n) for n in self.graph.nodes):
                for base in self._reads(unit):
                    if base in readers:
                        readers[base].append(unit)
        order: list[Any] = []
        done: set[int] = set()
        # Checks first: nothing is to be overwritten before an error.
        checks = [self.grouping.unit(n) for n in self.graph.outputs[len(self._results) :]]
        for root in (*checks, *roots(self.grouping, self._begins, self._results)):
            stack: list[Any] = [root]
            entered: set[int] = set()
            while stack:
                unit = stack[-1]
                if id(unit) in done:
                    stack.pop()
                    continue
                waiting = [u for u in self._needs(unit) if id(u) not in done]
                if id(unit) not in entered:
                    entered.add(id(unit))
                    for base in self._overwrites(unit, readers):
                        # A reader that is being waited for already needs this unit itself.
                        waiting += [u for u in readers[base] if id(u) not in done and id(u) not in entered]
                if waiting:
                    stack.extend(waiting)
                    continue
                stack.pop()
                done.add(id(unit))
                order.append(unit)
        return order

    def _may_raise(self, unit: Any) -> bool:
        """Return whether a unit is a node behind whose kernel, or instead of which, Python runs."""
        if isinstance(unit, Begin):
            return False  # it comes to its end later
        if isinstance(unit, Group) or unit in self.views or unit.op is CONSTANT or unit.op is OUTPUT or _is_view(unit):
            return False
        return (
            unit in self._begins
            or unit.op.name in RAISING
            or (unit.op.name not in RULES and unit.op.role is not Role.JOIN)
        )

    def _needs(self, unit: Any) -> list[Any]:
        """Return the units that come before one."""
        if isinstance(unit, Begin):
            return self.grouping.needs(unit.node)
        begin = self._begins.get(unit)
        return self.grouping.needs(unit) if begin is None else [begin]

    def _reads(self, unit: Any) -> set[Node]:
        """Return the nodes whose arrays a unit reads, seen through views."""
        if isinstance(unit, Begin):
            unit = unit.node
        if isinstance(unit, Group):
            return {self._source(n) for n in unit.operands}
        read = {self._source(e) for e in unit.inputs if isinstance(e, Node)}
        group = self.grouping.following.get(unit)
        return read | {self._source(n) for n in group.operands} if group is not None else read

    def _source(self, node: Node) -> Node:
        while _is_view(node) and isinstance(node.inputs[0], Node):
            node = node.inputs[0]
        return node

    def _overwrites(self, unit: Any, donated: dict[Node, list[Any]]) -> list[Node]:
        """Return the donated inputs that a group, or an epilogue, could write its results to."""
        if isinstance(unit, Begin):
            return []
        group = unit if isinstance(unit, Group) else self.grouping.following.get(unit)
        if group is None or not donated:
            return []
        shapes = {(n.spec.shape, n.spec.dtype) for n in group.nodes if n in self._outputs}
        return [n for n in group.operands if n in donated and (n.spec.shape, n.spec.dtype) in shapes]

    def _last_readers(self, order: Sequence[Any]) -> None:
        """Find when each donated input is read for the last time."""
        self._last: dict[Node, int] = {}
        for i, unit in enumerate(order):
            for base in self._reads(unit):
                self._last[base] = i
        for node in self.graph.outputs:
            # What is itself a result must stay.
            self._last[self._source(node)] = len(order)

    def _nearest(self, node: Node, group: Group) -> list[Node]:
        """Return a group's operands that a member is made of, the nearest first: `p - lr * g` takes the memory of p."""
        found: dict[Node, None] = {}
        level, seen = [node], {node}
        while level:
            following: list[Node] = []
            for member in level:
                for e in self.grouping.edges[member]:
                    if e is not None and e.base not in seen:
                        seen.add(e.base)
                        if e.base in group.axes:
                            following.append(e.base)
                        else:
                            found[e.base] = None
            level = following
        return list(found)

    def _in_place(self, node: Node, group: Group) -> View | None:
        """Return the donated input whose memory the result of a group's member may take, or None."""
        if node not in self._outputs or node in group.reductions:
            return None
        # Nothing is overwritten while an error may still come.
        if self._checks or self._now < self._last_raising:
            return None
        wanted = group.result_axes(node)
        if len({d for d in wanted if d >= 0}) < len(group.space):
            return None  # it is computed several times over, after it was stored too
        for base in self._nearest(node, group):
            if base in self._taken or self._last.get(base) != self._now or base not in self._given:
                continue
            if base.spec.shape != node.spec.shape or base.spec.dtype != node.spec.dtype:
                continue
            others = [n for n in group.operands if n is not base]
            others += [e for e in group.anchor.inputs if isinstance(e, Node)] if group.anchor is not None else []
            if any(self._source(n) is base for n in others):
                continue
            seen = {group.seen(n, e) for n in group.nodes for e in self.grouping.edges[n] if e and e.base is base}
            if seen == {wanted} and (not group.reductions or self._is_read_only_for(base, node, group)):
                self._taken.add(base)
                return self.view(base)
        return None

    def _is_read_only_for(self, base: Node, node: Node, group: Group) -> bool:
        """Return whether an array is read for one result of a group alone, and by no later pass along a row."""
        edges = self.grouping.edges
        readers = {n for n in group.nodes for e in edges[n] if e is not None and e.base is base}
        return readers == {node} and not any(e is not None and e.base is node for n in group.nodes for e in edges[n])

    # -- results that are pieces of another array

    def _find_pieces(self) -> None:
        """Find results that are only to be laid side by side: they are stored where they belong at once."""
        for node in self.graph.nodes:
            if node.op.role is not Role.JOIN:
                continue
            for i, piece in enumerate(node.inputs):
                while isinstance(piece, Node) and piece.op.role is Role.RESHAPE and piece not in self._outputs:
                    piece = piece.inputs[0]
                if isinstance(piece, Node) and piece not in self._pieces and piece not in self._outputs:
                    self._pieces[piece] = (node, i)

    def _container(self, node: Node, order: Sequence[int] | None) -> View:
        """Return the array that a stack or a concatenation fills.

        It lies in memory as the piece that is made first would, with its axes in `order` (None: in their own), so that
        images with channels last stay so.
        """
        found = self._containers.get(node)
        if found is None:
            order = order if order is not None and len(order) == node.spec.ndim else None
            found = self._destination(node, order)
            if found is None:
                found = self._places.get(node)
            if found is None:
                order = None if node in self._outputs else order
                found = self._laid(node.spec.shape, node.spec.dtype, order or range(node.spec.ndim))
            self._containers[node] = found
        return found

    def _laid(self, shape: Sequence[int], dtype: Any, order: Sequence[int]) -> View:
        """Return new memory, its axes in `order` there."""
        back = sorted(range(len(shape)), key=order.__getitem__)
        return self.temp([shape[i] for i in order], dtype).permute(back)

    def place(self, node: Node, shape: Sequence[int]) -> View:
        found = self._destination(node)
        seen = found.reshape(shape) if found is not None else None
        is_in_rows = seen is not None and (seen.strides[-1] == 1 or seen.shape[-1] == 1)
        return seen if seen is not None and is_in_rows else self.temp(shape, node.spec.dtype)

    def _destination(self, node: Node, order: Sequence[int] | None = None) -> View | None:
        """Return the place of a result that is a piece of another array, made as `order` says where it is not there
        yet; None for other results.
        """
        place = self._pieces.get(node)
        return None if place is None else self._piece(*place, order).reshape(node.spec.shape)

    def _piece(self, node: Node, index: int, order: Sequence[int] | None = None) -> View:
        """Return the part of a stack's or concatenation's array that its operand `index` fills."""
        whole, axis = self._container(node, order), node.attrs["axis"] % node.spec.ndim
        if node.op.name == "stack":
            keep = [a for a in range(node.spec.ndim) if a != axis]
            part = whole._replace(offset=whole.offset + index * whole.strides[axis])
            return part._replace(
                shape=tuple(whole.shape[a] for a in keep), strides=tuple(whole.strides[a] for a in keep)
            )
        before = sum(e.spec.shape[axis] for e in node.inputs[:index])
        part = whole._replace(offset=whole.offset + before * whole.strides[axis])
        return part._replace(shape=node.inputs[index].spec.shape)

    def _side_by_side(self, node: Node) -> View:
        """Lower a stack or a concatenation: pieces that are not stored in place yet are copied."""
        sources = [self.base_view(piece) for piece in node.inputs]
        order = next((found for found in (x.memory_order for x in sources) if found is not None), None)
        for i, source in enumerate(sources):
            target = self._piece(node, i, order)
            if not source.lies_as(target):
                copy_step(self, source, target)
        self.note_joined(sources, self._container(node, order))
        return self._container(node, order)

    def twin(self, node: Node, name: str) -> Node | None:
        for other in self.graph.consumers(node.inputs[0]):
            if other.op.name == name and other.inputs == node.inputs and other.attrs == node.attrs:
                return other
        return None

    # -- epilogues

    def epilogue(self, node: Node, shape: Sequence[int], order: Sequence[int] | None = None) -> Epilogue | None:
        group = self.grouping.following.get(node)
        if group is None:
            return None
        found = self._epilogue(node, group, tuple(shape), order)
        if found is None:
            # The group's loop follows the product as a step of its own.
            del self.grouping.following[node]
            group.anchor = None
            self._late = group
        return found

    _late: Group | None = None

    def _epilogue(
        self, product: Node, group: Group, shape: tuple[int, ...], memory_order: Sequence[int] | None
    ) -> Epilogue | None:
        own = next(
            group.seen(n, e) for n in group.nodes for e in self.grouping.edges[n] if e is not None and e.base is product
        )
        # The product's axes as they follow one another in its kernel's rows and columns.
        laid = range(len(own)) if memory_order is None else memory_order
        axes = tuple(own[i] for i in laid)
        full = tuple(product.spec.shape[i] for i in laid)
        operands: list[View] = []
        kinds: list[str] = []
        numbers: dict[Any, int] = {}
        refs: dict[tuple[Node, int], Any] = {}
        for node in group.nodes:
            for i, e in enumerate(self.grouping.edges[node]):
                if e is None:
                    if is_structure(node, node.inputs[i]):
                        continue
                    view, taken = self.number(node.inputs[i], literal_dtype(node)), {}
                elif e.base in group.axes or e.base is product:
                    continue
                else:
                    view = self.base_view(e.base)
                    taken = dict(zip(group.seen(node, e), view.strides, strict=True))
                spread = view._replace(shape=full, strides=tuple(taken.get(d, 0) if d >= 0 else 0 for d in axes))
                seen = spread.reshape(shape)
                kind = operand_kind(seen) if seen is not None else None
                if seen is None or kind is None:
                    return None
                array = (seen.buffer, seen.offset, seen.dtype, seen.strides)
                if array not in numbers:
                    numbers[array] = len(operands)
                    operands.append(seen)
                    kinds.append(kind)
                refs[node, i] = numbers[array]
        results = self._stored(group)
        wanted = [product] if self._is_needed_besides(product, group) else []
        outputs = []
        for n in (*wanted, *results):
            given = self._in_place(n, group) if n is not product and memory_order is None else None
            named = group.result_axes(n) if n is not product else own
            out = given.reshape(shape) if given is not None else self._as_piece(n, named, axes, full, shape)
            out = out if out is not None else self.temp(shape, n.spec.dtype)
            outputs.append(out)
            flat = out.reshape(full)
            assert flat is not None
            place = dict(zip(axes, flat.strides, strict=True))
            self.views[n] = flat._replace(shape=n.spec.shape, strides=tuple(place[d] if d >= 0 else 0 for d in named))
        nodes, edges = list(group.nodes), self.grouping.edges
        order = [product, *nodes]
        stored = [order.index(n) for n in (*wanted, *results)]
        key = epilogue_key(product, nodes, edges, refs, stored, operands)

        emit = emitter(product, nodes, edges, refs, stored, operands)
        return Epilogue(key, operands, kinds, outputs, emit, nodes)

    def only_reader(self, node: Node, epilogue: Epilogue) -> Node | None:
        if self._given:  # whose memory others may take meanwhile
            return None
        stored = [n for n in epilogue.nodes if n in self.views and self.view(n).buffer in (epilogue.outputs[0].buffer,)]
        result = stored[0] if stored else node
        readers = self.graph.consumers(result)
        alone = len(epilogue.outputs) == 1 and len(readers) == 1 and result not in self._outputs
        return readers[0] if alone and readers[0].inputs.count(result) == 1 else None

    def _as_piece(
        self, node: Node, named: Sequence[int], axes: Sequence[int], full: Sequence[int], shape: Sequence[int]
    ) -> View | None:
        """Return the place where a result of an epilogue is wanted, in the product's `shape`.

        None where it is no piece of another array, and wanted nowhere, or where columns do not lie side by side there.
        `named` are the dimensions of its axes, `axes` those of the product's, of the sizes `full`.
        """
        place = {d: i for i, d in enumerate(axes) if d >= 0}
        order = sorted(range(len(named)), key=lambda a: place.get(named[a], -1))
        given = self._places.get(node) if node in self._outputs else self._destination(node, order)
        if given is None:
            return None
        strides = dict(zip(named, given.strides, strict=True))
        seen = given._replace(shape=tuple(full), strides=tuple(strides[d] if d >= 0 else 0 for d in axes))
        out = seen.reshape(shape)
        return out if out is not None and (out.strides[-1] == 1 or out.shape[-1] == 1) else None

    def is_better_turned(self, node: Node, rows: int) -> bool:
        """Return whether loops reduce along a short last axis: by vectors, where columns lie side by side."""
        if rows < _LONG:
            return False
        pieces = [c for c in self.graph.consumers(node) if c.op.name == "reshape"]
        found = False
        for base in (node, *pieces):
            if base in self._outputs or base.spec.shape[: node.spec.ndim - 1] != node.spec.shape[:-1]:
                return False
            for consumer in self._consumers_through_views(base):
                if consumer in pieces:
                    continue
                if consumer not in self.grouping.group:
                    return False
                for group in self.grouping.computing(consumer):
                    found |= self._reduces_pieces(group, consumer, base)
        return found

    def _reduces_pieces(self, group: Group, reader: Node, base: Node) -> bool:
        """Return whether a group reduces along the short last axis of what a member reads, but not along all others."""
        for e in self.grouping.edges[reader]:
            if e is not None and e.base is base:
                d = group.seen(reader, e)[-1]
                over = [dims for dims in group.reductions.values() if d in dims and len(dims) < len(group.space)]
                if over and group.space[d] <= _SHORT:
                    return True
        return False

    def _is_needed_besides(self, product: Node, group: Group) -> bool:
        takers = self.grouping.takers(product)
        return takers is None or any(t is not group for t in takers)

    # -- what must be in memory

    def _stored(self, group: Group) -> list[Node]:
        """Return the members that something outside reads from memory, where this is the group that stores them."""
        return [n for n in group.nodes if self.grouping.computing(n)[0] is group and self.grouping.is_taken(n)]

    def base_view(self, base: Node) -> View:
        """Return the view of what an edge leads to: a node that is computed, or a view of one."""
        if base not in self.views:
            self._node(base)
        return self.view(base)

    # -- steps

    def _group(self, group: Group) -> None:
        results = self._stored(group)
        builder = NestBuilder(self, group, self.grouping.edges, results, self.base_view, self._place, self._windows)
        self.views.update(builder.steps())

    def _place(self, node: Node, order: Sequence[int]) -> View:
        """Return new memory for a result, its axes in memory in `order`; results of the graph have their own."""
        shape = node.spec.shape
        given = self._in_place(node, self.grouping.group[node])
        if given is None:
            given = self._destination(node, order)
        if given is not None:
            return given
        if node in self._places:
            return self._places[node]
        if node in self._outputs:
            return self.temp(shape, node.spec.dtype)
        return self._laid(shape, node.spec.dtype, order)

    def _node(self, node: Node) -> None:
        if node in self.views:
            return
        if node.op is CONSTANT:
            self.views[node] = self._constant(node)
            return
        for e in node.inputs:
            if isinstance(e, Node) and e not in self.views:
                self.base_view(e)
        if node.op is OUTPUT:
            several = self.views[node.inputs[0]]
            self.views[node] = several if isinstance(several, View) else several[node.attrs["index"]]
            return
        if node in self._begins:
            self.views[node] = self._end(node)
            return
        rule = RULES.get(node.op.name)
        if rule is None and node.op.role in VIEWS:
            self.views[node] = self._as_view(node)
            return
        if node.op.role is Role.JOIN and all(isinstance(e, Node) for e in node.inputs):
            self.views[node] = self._side_by_side(node)
            return
        if node.op.name == "slice_transpose" and self._as_window(node):
            return
        if node.op.kind == "elementwise" and not isinstance(node.spec, tuple) and node.spec.size == 0:
            found: Any = self.temp(node.spec.shape, node.spec.dtype)
        else:
            found = rule(self, node) if rule is not None else None
        if found is None:
            group = self.grouping.following.pop(node, None)
            if group is not None:
                group.anchor, self._late = None, group
            found = self._host(node)
        if node not in self.views:
            self.views[node] = found
        if self._late is not None:
            late, self._late = self._late, None
            self._group(late)

    def _begin(self, node: Node) -> None:
        """Add the step that starts a collective."""
        moved = moved_by(node)
        assert moved is not None
        assert self._exchanges is not None
        x, number = self.contiguous(self.base_view(node.inputs[0])), len(self.plan.moved)
        self.plan.moved.append(moved)
        out = self.temp(node.spec.shape, node.spec.dtype)
        scratch = self.temp((self._exchanges.scratch(moved) or 0,), np.uint8)
        self._moving[node] = number, x, out, scratch
        name = f"start {node.op.name}"
        self.step(
            Exchange(name, "start", number), self._moving[node][1:], reads=[x], writes=[out, scratch], nodes=[node]
        )

    def _end(self, node: Node) -> View:
        """Add the steps that wait for a collective, and return its result."""
        if node not in self._moving:
            self._begin(node)
        number, x, out, scratch = self._moving.pop(node)
        state = self.temp((1,), np.int64)
        wait = Exchange(f"wait {node.op.name}", "wait", number)
        self.step(wait, [state, x, out], reads=[x, scratch], writes=[out, state], nodes=[node])
        end = Exchange(f"end {node.op.name}", "end", number, state)
        self.step(end, [], reads=[state], writes=[], nodes=[node])
        return out

    def _as_window(self, node: Node) -> bool:
        """Return whether a slice put back among zeros, read by loops alone, was made a window instead of an array."""
        entries, ct = node.attrs["entries"], node.inputs[0]
        first = node.spec.ndim - len(entries)
        if node in self._outputs or None in entries or not isinstance(ct, Node) or node.spec.size == 0:
            return False
        for consumer in self._consumers_through_views(node):
            if consumer not in self.grouping.group:
                return False
            if any(group.anchor is not None for group in self.grouping.computing(consumer)):
                return False
        x = self.base_view(ct)
        strides, offset, windows = list(x.strides[:first]), x.offset, []
        taken = first
        for axis, entry in enumerate(entries, first):
            size = node.spec.shape[axis]
            if isinstance(entry, tuple):
                places = range(*slice(*entry).indices(size))
                if places.step != 1 or len(places) == 0:
                    return False
                stride, span = x.strides[taken], (places.start, places.stop)
                taken += 1
            else:
                stride, span = 0, (entry % size, entry % size + 1)
            strides.append(stride)
            offset -= span[0] * stride
            if span != (0, size):
                windows.append((axis, *span))
        if any(node.spec.shape[axis] == 1 for axis, _, _ in windows):
            return False
        self.views[node] = View(x.buffer, x.dtype, node.spec.shape, tuple(strides), offset)
        self._windows[node] = tuple(windows)
        return True

    def _consumers_through_views(self, node: Node) -> list[Node]:
        found: list[Node] = []
        stack = list(self.graph.consumers(node))
        while stack:
            consumer = stack.pop()
            several = isinstance(consumer.spec, tuple)
            if not several and consumer not in self._outputs and edge(consumer).base is not consumer:
                stack.extend(self.graph.consumers(consumer))
            else:
                found.append(consumer)
        return found

    def _constant(self, node: Node) -> View:
        return self.constant(node.attrs["value"])

    def _as_view(self, node: Node) -> View:
        x = self.view(node.inputs[0])
        name, shape = node.op.name, node.spec.shape
        if name == "permute":
            return x.permute(permutation(node))
        if name == "broadcast":
            return x.broadcast(shape)
        if name == "flip":
            strides, offset = list(x.strides), x.offset
            axes = node.attrs["axis"]
            for a in axes if isinstance(axes, tuple) else (axes,):
                offset += strides[a] * max(0, shape[a] - 1)
                strides[a] = -strides[a]
            return x._replace(strides=tuple(strides), offset=offset)
        if node.op.role is Role.PASS:
            return x
        if name == "slice":
            return sliced(x, node.attrs["entries"])
        seen = x.reshape(shape)
        if seen is None:
            seen = self.copy(x).reshape(shape)
        assert seen is not None
        return seen

    def copy(self, x: View) -> View:
        out = self.temp(x.shape, x.dtype)
        copy_step(self, x, out)
        return out

    def _host(self, node: Node) -> Any:
        """Add a step in Python, and return its results."""
        writes = [self.temp(s.shape, s.dtype) for s in specs_of(node)]
        self.forward(node, writes)
        return tuple(writes) if isinstance(node.spec, tuple) else writes[0]

    def forward(self, node: Node, writes: Sequence[View], when: View | None = None) -> None:
        reads = [self.base_view(e) for e in node.inputs if isinstance(e, Node)]
        asked = [] if when is None else [when]
        host = forward_call(node, when)
        self.step(host, [*reads, *writes], reads=[*reads, *asked], writes=writes, nodes=[node])
