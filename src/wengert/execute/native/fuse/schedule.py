"""Loop schedules: from a group and the arrays that it reads to loop kernels, with their rows, order and pieces.

Sizes are known here and nowhere in the kernels: dimensions that every array runs through in one go
are collapsed, and what is left decides the structure of the nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....core.graph.snapshot import CONSTANT
from ....core.node import Node
from ..codegen.types import BF16, F16, storage_type
from ..plan.lowering import Lowering
from ..plan.plan import View, dense
from ..scalar import emitters
from . import loops
from .groups import Group
from .loop_nest import INNER, ROW, UNIFORM, Array, Instr, LoopNest, Passes, cost
from .loop_nodes import Edge, is_combining

# A piece of a row that is cut, in elements.
_PIECE = 4096
# The work of a unit, in simple operations on elements, and the most units that leave partial results.
_UNIT, _PARTIALS = 32768, 64
# A sum that adds more numbers one after the other is made of blocks.
_LONGEST = 512
# The most pieces that rows are cut into, and the fewest units that are worth sharing out.
_CUTS, _SHARED = 256, 16
# Rows that lie side by side in memory, up to this many elements, are reduced in registers: all of them are in one page.
_NARROW = 96
# So many rows are computed together where they have at most so many vectors, and the code so many operations: more
# of them where rows are summed along, and waited for.
_TOGETHER, _SUMMED, _CODE = ((4, 4),), ((4, 4), (2, 16)), 640
# Numbers that lie apart, from so many on, are laid side by side for so many rows that read all of them.
_REREAD = 8


@dataclass
class _Operand:
    """An array of the loop nest: its view, its stride along every dimension of the space, and its window.

    Of a windowed array only the elements from `start` to `stop` of a dimension exist; elsewhere it is zero.
    """

    view: View
    strides: list[int]
    windows: tuple[tuple[int, int, int], ...] = ()  # (dimension, start, stop)


@dataclass
class _Axis:
    """A dimension after collapsing: its size, the stride of every array, the group's dimensions in it."""

    size: int
    strides: list[int]
    dims: list[int] = field(default_factory=list)


class NestBuilder:
    """A group on its way to steps.

    `view` gives the array of an operand, `place` the array to store a result in, given its shape and
    strides' order: a function of (node, order of the axes from the outermost in memory).
    """

    def __init__(
        self,
        low: Lowering,
        group: Group,
        edges: dict[Node, tuple[Edge | None, ...]],
        results: Sequence[Node],
        view: Callable[[Node], View],
        place: Callable[[Node, Sequence[int]], View],
        windows: Mapping[Node, Sequence[tuple[int, int, int]]] | None = None,
    ) -> None:
        self.low, self.group, self.edges = low, group, edges
        self.results = list(results)
        self.view, self.place = view, place
        # Operands of which only a part exists: for each (axis, start, stop), zero elsewhere.
        self.windows = windows if windows is not None else {}
        # The dimensions of a row.
        self.over: frozenset[int] = frozenset()
        self.arrays: list[_Operand] = []
        self._known_arrays: dict[Any, int] = {}
        self._taken: dict[tuple[Node, int], int] = {}
        self.instrs: list[Instr] = []
        self.value: dict[Node, int] = {}
        self._shared: dict[Any, int] = {}
        self._indexed: set[int] = set()

    def steps(self) -> dict[Node, View]:
        """Add the steps, and return the results' views."""
        group = self.group
        self._take_operands()
        order = self._order_by_memory()
        self._choose_roles(order)
        self.out: dict[Node, View] = {}
        stored = [n for n in self.results if not self._is_apart(n)]
        places = []
        for node in stored:
            axes = group.result_axes(node)
            ranked = sorted(range(len(axes)), key=lambda i: order.index(axes[i]) if axes[i] >= 0 else -1)
            self.out[node] = view = self.place(node, ranked)
            places.append(self._add_array(view, _along(axes, view.strides, len(group.space))))
        rows, inner = self._collapsed(order)
        pieces = self._pieces(rows, inner)
        if not pieces:
            # What is kept of the reductions is a row.
            self.over = frozenset(range(len(group.space))) - self.over
            rows, inner = self._collapsed(order)
        elif pieces > 1:
            rows, inner = _cut(rows, inner, pieces)
        in_rows = self._is_vector_of_rows(rows, inner)
        self._write_instrs(rows, inner)
        stores = [(self._spread(self.value[n], self._span_level(n)), k) for n, k in zip(stored, places, strict=True)]
        parts = {n: self._add_part(n, rows, inner) for n in self.results if self._is_apart(n) and self._is_of_rows(n)}
        stores += [(self._spread(self.value[n], ROW), k) for n, k in parts.items()]
        self._emit(rows, inner, in_rows, stores)
        kept = [d for a in rows for d in a.dims]
        for node, k in parts.items():
            self.out[node] = self._combined(node, self.arrays[k].view, kept)
        return self.out

    # -- operands and roles

    def _take_operands(self) -> None:
        for node in self.group.nodes:
            if node.op.name == "one_hot":
                self._indexed.add(self.group.axes[node][-1])
            for i, e in enumerate(self.edges[node]):
                if e is None:
                    number = node.inputs[i]
                    if not is_structure(node, number):
                        self._number(number, literal_dtype(node))
                elif e.base not in self.group.axes:
                    self._taken[node, i] = self._operand(node, e)

    def _operand(self, node: Node, e: Edge) -> int:
        view, seen = self.view(e.base), self.group.seen(node, e)
        if self._is_read_apart(seen, view) and e.base not in self.windows:
            view = self.low.side_by_side(e.base, view)
        windows = tuple((seen[axis], start, stop) for axis, start, stop in self.windows.get(e.base, ()))
        self._indexed.update(d for d, _, _ in windows)
        return self._add_array(view, _along(seen, view.strides, len(self.group.space)), windows)

    def _is_read_apart(self, seen: Sequence[int], view: View) -> bool:
        """Return whether an array lies apart along reduced rows, and is all read again in each of many."""
        group = self.group
        along = [(d, s) for d, s in zip(seen, view.strides, strict=True) if d >= 0 and s]
        if len(along) != 1 or along[0][1] == 1:
            return False
        size = group.space[along[0][0]]
        is_row = any(along[0][0] in dims and len(dims) < len(group.space) for dims in group.reductions.values())
        return is_row and size >= _REREAD and group.size >= _REREAD * size

    def _add_array(self, view: View, strides: list[int], windows: tuple[tuple[int, int, int], ...] = ()) -> int:
        key = (view.buffer, view.offset, view.dtype, tuple(strides), windows)
        found = self._known_arrays.get(key)
        if found is None:
            found = self._known_arrays[key] = len(self.arrays)
            self.arrays.append(_Operand(view, strides, windows))
        return found

    def _is_of_rows(self, node: Node) -> bool:
        """Return whether it is a reduction along the rows."""
        return self.group.reductions.get(node) == self.over

    def _is_partial(self, node: Node) -> bool:
        """Return whether it is a reduction over the rows: every unit has a part of the result."""
        return bool(self.group.reductions.get(node)) and not self._is_of_rows(node)

    def _is_apart(self, node: Node) -> bool:
        """Return whether it is a reduction whose result nothing in the group takes: it may be computed in parts."""
        dims = self.group.reductions.get(node)
        return bool(dims) and dims != self.group.over

    def _choose_roles(self, order: Sequence[int]) -> None:
        """Set `over`, the dimensions of a row; empty where nothing is reduced along one."""
        group = self.group
        everything = frozenset(range(len(group.space)))
        if group.over is not None:
            self.over = group.over
            return
        partial = [d for d in group.reductions.values() if d and d != everything]
        if not partial:
            self.over = frozenset()
            return
        reduced = partial[0]
        side = 1
        for d in reversed(order):
            if d in reduced:
                break
            side *= group.space[d]
        # Along memory where that is possible: a row if the innermost dimension is reduced, or narrow rows
        # side by side; else what is kept is a row, to which others are added.
        narrow = side <= _NARROW and all(d in (reduced, everything) for d in group.reductions.values() if d)
        self.over = reduced if order[-1] in reduced or narrow else everything - reduced
        if any(d not in (self.over, everything, everything - self.over) for d in group.reductions.values()):
            self.over = reduced

    def _order_by_memory(self) -> list[int]:
        """Return the dimensions from the outermost in memory, as the largest operand lies."""
        space = self.group.space
        natural = self._natural()

        def weight(x: _Operand) -> int:
            return math.prod(n for n, s in zip(space, x.strides) if s)

        if not self.arrays:
            return natural
        largest = max(self.arrays, key=weight)
        return sorted(
            natural, key=lambda d: (-abs(largest.strides[d]) if largest.strides[d] else -math.inf, natural.index(d))
        )

    def _natural(self) -> list[int]:
        """Return the dimensions in the order of the axes of the member that loops over most of them."""
        group = self.group
        widest = max(group.nodes, key=lambda n: sum(d >= 0 for d in group.axes[n]))
        seen = [d for d in group.axes[widest] if d >= 0]
        return [d for d in range(len(group.space)) if d not in seen] + seen

    def _collapsed(self, order: Sequence[int]) -> tuple[list[_Axis], list[_Axis]]:
        """Return rows and inner dimensions in the order of memory, joining those that all arrays run through as one."""
        space = self.group.space
        axes: list[_Axis] = []
        for d in sorted(order, key=lambda d: d in self.over):
            strides = [a.strides[d] for a in self.arrays]
            n = space[d]
            if axes and d not in self._indexed and not self._indexed & set(axes[-1].dims):
                last = axes[-1]
                same = (last.dims[-1] in self.over) == (d in self.over)
                if same and all(s == t * n for s, t in zip(last.strides, strides)):
                    last.size *= n
                    last.strides = strides
                    last.dims.append(d)
                    continue
            axes.append(_Axis(n, strides, [d]))
        if self.over:
            rows = [a for a in axes if a.dims[0] not in self.over]
            return rows, [a for a in axes if a.dims[0] in self.over]
        return axes[:-1], axes[-1:]

    def _pieces(self, rows: list[_Axis], inner: list[_Axis]) -> int:
        """Return the number of pieces of a row, for enough units; 0 where rows should be cut and cannot be."""
        reductions = self.group.reductions
        if not self.over or not any(self._is_apart(n) and self._is_of_rows(n) for n in reductions):
            return 1
        if any(self._is_partial(n) and len(d) < len(self.group.space) for n, d in reductions.items()):
            return 1
        sideways = self._is_vector_of_rows(rows, inner)
        units = math.prod(a.size for a in (rows[:-1] if sideways else rows))
        wanted = min(_CUTS, self.group.size * len(self.group.nodes) // _UNIT) // units
        if units >= _SHARED or wanted <= 1:
            return 1
        first = inner[0]
        whole = not self._indexed & set(first.dims)
        found = max(d for d in range(1, min(wanted, first.size) + 1) if first.size % d == 0) if whole else 1
        return found if not sideways or units * found >= min(_SHARED, units * wanted) else 0

    def _add_part(self, node: Node, rows: list[_Axis], inner: list[_Axis]) -> int:
        """Add an array for a reduction along rows, (pieces, the rows' dimensions in their order); return its number."""
        kept = [self.group.space[d] for a in rows for d in a.dims]
        pieces = math.prod(a.size for a in rows) // math.prod(kept)
        self.arrays.append(_Operand(self.low.temp((pieces, *kept), _part_dtype(node)), []))
        for axis, stride in zip(rows, dense([a.size for a in rows]), strict=True):
            axis.strides = [*axis.strides, stride]
        for axis in inner:
            axis.strides = [*axis.strides, 0]
        return len(self.arrays) - 1

    def _is_vector_of_rows(self, rows: list[_Axis], inner: list[_Axis]) -> bool:
        """Return whether rows side by side fill vectors better than the elements of one row."""
        if not rows or not inner:
            return bool(rows) and not inner
        columns = any(
            self._is_partial(n) and self.group.reductions[n] != frozenset(range(len(self.group.space)))
            for n in self.group.reductions
        )
        lanes = self.low.target.width // 4
        has_rows = any(d == self.over for d in self.group.reductions.values())

        def score(axis: _Axis, sideways: bool) -> float:
            fill = axis.size / (-(-axis.size // lanes) * lanes)
            # What does not vary along a row is read once a row.
            speed = [
                1.0 if s in (0, 1) else 0.15 for k, s in enumerate(axis.strides) if any(a.strides[k] for a in inner)
            ]
            total = fill * sum(speed) / max(1, len(speed))
            # The lanes of a sum are added up once a row.
            return total * axis.size / (axis.size + 2 * lanes) if has_rows and not sideways else total

        # Sums over the rows add up the lanes of every vector.
        return score(rows[-1], True) > (2.4 if columns else 1.2) * score(inner[-1], False)

    # -- instructions

    def _add(self, instr: Instr) -> int:
        key = (instr.kind, repr(instr.args), instr.dtype, instr.level, instr.how) if instr.node is None else None
        if key is not None and key in self._shared:
            return self._shared[key]
        self.instrs.append(instr)
        if key is not None:
            self._shared[key] = len(self.instrs) - 1
        return len(self.instrs) - 1

    def _level(self, dims: Sequence[int]) -> int:
        if any(d in self._inner_dims for d in dims):
            return INNER
        return ROW if dims else UNIFORM

    def _span_level(self, node: Node) -> int:
        return self._level([d for d in self.group.result_axes(node) if d >= 0])

    def _spread(self, v: int, level: int) -> int:
        """Return the value at a level that is not below `level`."""
        i = self.instrs[v]
        return v if i.level >= level else self._add(Instr("spread", (v,), i.dtype, level))

    def _write_instrs(self, rows: list[_Axis], inner: list[_Axis]) -> None:
        group = self.group
        self._inner_dims = {d for a in inner for d in a.dims}
        position = {d: i for i, a in enumerate([*rows, *inner]) for d in a.dims}
        for node in group.nodes:
            if is_combining(node):
                self.value[node] = self._reduction(node)
                continue
            args = [self._argument(node, i, e) for i, e in enumerate(self.edges[node])]
            if node.op.name == "one_hot":
                d = group.axes[node][-1]
                dtype = self.instrs[args[0]].dtype
                if d < 0:
                    args.append(self._add(Instr("literal", (0,), dtype, UNIFORM)))
                else:
                    args.append(self._add(Instr("index", (position[d],), dtype, self._level([d]))))
            level = max((self.instrs[a].level for a in args), default=UNIFORM)
            self.value[node] = self._add(Instr("op", tuple(args), node.spec.dtype, level, node))

    def _argument(self, node: Node, i: int, e: Edge | None) -> int:
        if e is None:
            number, dtype = node.inputs[i], literal_dtype(node)
            if is_structure(node, number):
                return self._add(Instr("literal", (number,), dtype, UNIFORM))
            return self._add(Instr("load", (self._number(number, dtype),), dtype, UNIFORM))
        if e.base in self.value:
            return self.value[e.base]
        if e.base.op is CONSTANT and e.base.spec.size == 1:
            number = e.base.attrs["value"].item()
            if is_structure(node, number):
                return self._add(Instr("literal", (number,), e.base.spec.dtype, UNIFORM))
        k = self._taken[node, i]
        array = self.arrays[k]
        dims = [d for d, s in enumerate(array.strides) if s] + [d for d, _, _ in array.windows]
        return self._add(Instr("load", (k,), array.view.dtype, self._level(dims)))

    def _number(self, number: Any, dtype: Any) -> int:
        """Return the array of a number that is not part of the code."""
        return self._add_array(self.low.number(number, dtype), [0] * len(self.group.space))

    def _reduction(self, node: Node) -> int:
        (e,) = self.edges[node]
        v = self._argument(node, 0, e)
        dims = self.group.reductions[node]
        if not dims:
            return v
        over = "row" if dims == self.over else "all" if len(dims) == len(self.group.space) else "columns"
        level = {"row": ROW, "all": UNIFORM, "columns": INNER}[over]
        v = self._spread(v, INNER)
        dtype = _part_dtype(node) if self._is_apart(node) else node.spec.dtype
        return self._add(Instr("reduce", (v,), dtype, level, None, node.op.name, over))  # type: ignore[arg-type]

    # -- steps

    def _emit(self, rows: list[_Axis], inner: list[_Axis], in_rows: bool, stores: list[tuple[int, int]]) -> None:
        partials = [n for n in self.results if self._is_partial(n)]
        # Rows side by side may be cut anywhere; a row only where nothing is reduced along it.
        split = in_rows or not any(i.over in ("columns", "row") for i in self.instrs)
        vector = rows[-1] if in_rows else inner[-1] if inner else _Axis(1, [])
        position = {d: i for i, a in enumerate([*rows, *inner]) for d in a.dims}
        arrays = [
            Array(
                a.view.dtype,
                tuple(axis.strides[k] != 0 for axis in rows),
                tuple(axis.strides[k] != 0 for axis in inner),
                bool(vector.strides) and vector.strides[k] == 1,
                tuple(position[d] for d, _, _ in a.windows),
            )
            for k, a in enumerate(self.arrays)
        ]
        nest = LoopNest(
            "rows" if in_rows else "inner",
            len(rows),
            len(inner),
            tuple(arrays),
            tuple(self.instrs),
            tuple(stores),
            tuple(self.value[n] for n in partials),
            split,
        )
        lanes = loops.lanes_of(nest, self.low.target.width)
        if not split:
            vectors = math.prod(a.size for a in inner) / lanes
            nest = nest._replace(together=self._together(math.prod(a.size for a in rows), vectors))
        outer = math.prod(a.size for a in (rows[:-1] if in_rows else rows))
        row = math.prod(a.size for a in inner)
        work = sum(cost(i.node) if i.node is not None else 1 for i in self.instrs if i.level == INNER) or 1
        # A piece of a vector is no longer than a page, and no more work than a unit.
        longest = max(1, min(_PIECE, _UNIT // work) // (row if in_rows else 1))
        length = -(-longest // lanes) * lanes
        splits = max(1, -(-vector.size // length)) if split else 1
        items = outer * splits
        per_item = max(1, row * work * (vector.size if in_rows else 1) // splits)
        per = max(1, min(items, -(-_UNIT // per_item)))
        blocked, chain = _blocked(nest, [a.size for a in inner], lanes)
        if partials:
            per = max(per, -(-items // _PARTIALS))
            if any(_loses_digits(i) and i.over in ("columns", "all") for i in self.instrs):
                # How many vectors an item adds to a sum over the rows, one after the other.
                vectors = -(-min(length, vector.size) // lanes) if in_rows else 1
                per = min(per, max(1, _LONGEST // vectors))
                anew = any(i.over == "all" for i in self.instrs) and chain > 1 and per * vectors * chain > _LONGEST
                nest = nest._replace(anew=anew)
        nest = nest._replace(blocked=tuple(blocked))
        per = -(-per // nest.together) * nest.together
        units = -(-items // per)
        # Where no pass waits for another one, nothing is kept.
        passes = Passes(nest) if any(i.over == "row" for i in self.instrs) else None
        kept = 0
        if passes is not None and passes.saved:
            widest = max(8, *(emitters.compute_type(self.instrs[v].dtype).size for v in passes.saved))
            kept = -(-(row * (lanes if in_rows else 1) + 2 * lanes) * widest // 64) * 64
        words: list[int | View] = [per, items, splits, length, kept]
        words += [a.size for a in rows]
        words += [a.size for a in inner]
        words += blocked.values()
        for k, a in enumerate(self.arrays):
            words.append(a.view)
            words += [axis.strides[k] for axis in rows if axis.strides[k]]
            words += [axis.strides[k] for axis in inner if axis.strides[k]]
            words += [bound for _, *bounds in a.windows for bound in bounds]
        parts = [self._partial(n, inner, units) for n in partials]
        words += parts
        written = {k for _, k in stores}
        self.low.step(
            self.low.kernel(nest.key, loops.build(nest)),
            words,
            reads=[a.view for k, a in enumerate(self.arrays) if k not in written],
            writes=[*(self.arrays[k].view for k in written), *parts],
            units=units,
            scratch=kept * passes.rows_kept * nest.together if passes is not None else 0,
            flops=float(math.prod(self.group.space) * work),
            nodes=self.group.nodes,
            label=_label(self.group),
        )
        dims = [d for a in inner for d in a.dims]
        for node, part in zip(partials, parts, strict=True):
            self.out[node] = self._combined(node, part, dims)

    def _together(self, rows: int, vectors: float) -> int:
        """Return how many rows are computed together: of short ones as many as divide their number."""
        kinds = _SUMMED if any(i.over == "row" for i in self.instrs) else _TOGETHER
        fitting = (n for n, most in kinds if vectors <= most and rows % n == 0 and n * len(self.instrs) <= _CODE)
        return next(fitting, 1)

    def _partial(self, node: Node, inner: list[_Axis], units: int) -> View:
        """Return the array of a reduction's partial results: (units, kept elements by inner dimensions)."""
        whole = self.group.reductions[node] == frozenset(range(len(self.group.space)))
        kept = [1] if whole else [self.group.space[d] for a in inner for d in a.dims]
        return self.low.temp((units, *kept), _part_dtype(node))

    def _combined(self, node: Node, part: View, kept: Sequence[int]) -> View:
        """Return the result of a reduction from its partial results, an axis of parts before the dimensions `kept`."""
        group = self.group
        shape = node.spec.shape
        flat = part
        if part.shape[0] > 1 or part.dtype != node.spec.dtype:
            flat = self.low.temp((1, *part.shape[1:]), node.spec.dtype)
            combine_step(self.low, part, flat, node)
        axes = group.result_axes(node)
        if math.prod(shape) == 1:
            return flat._replace(shape=shape, strides=dense(shape))
        place = dict(zip(kept, flat.strides[1:], strict=True))
        return flat._replace(shape=shape, strides=tuple(place[d] if d >= 0 else 0 for d in axes))


def _part_dtype(node: Node) -> Any:
    """Return the dtype of a reduction's parts: 16-bit floats are not rounded before the end."""
    return np.dtype(np.float32) if storage_type(node.spec.dtype) in (F16, BF16) else node.spec.dtype


def _cut(rows: list[_Axis], inner: list[_Axis], pieces: int) -> tuple[list[_Axis], list[_Axis]]:
    """Cut rows into so many pieces, which are rows themselves: the outermost inner axis is split."""
    first = inner[0]
    size = first.size // pieces
    cut = _Axis(pieces, [s * size for s in first.strides])
    return [cut, *rows], [_Axis(size, first.strides, first.dims), *inner[1:]]


def combine_step(low: Lowering, part: View, out: View, node: Node) -> None:
    """Add the step that combines the partial results along the first axis."""
    units, count = part.shape[0], math.prod(part.shape[1:])
    many = count > 1
    load = Instr("load", (0,), part.dtype, INNER)
    reduce = Instr("reduce", (0,), part.dtype, ROW, None, node.op.name, "row")
    arrays = (
        Array(part.dtype, (True,) if many else (), (True,), True),
        Array(out.dtype, (True,) if many else (), (False,), many),
    )
    nest = LoopNest("rows" if many else "inner", int(many), 1, arrays, (load, reduce), ((1, 1),), (), many)
    lanes = loops.lanes_of(nest, low.target.width)
    items = -(-count // (4 * lanes)) if many else 1
    blocked, _ = _blocked(nest, [units], lanes)
    nest = nest._replace(blocked=tuple(blocked))
    words: list[int | View] = [1, items, items, 4 * lanes, 0]
    words += [count, units] if many else [units]
    words += blocked.values()
    words += [part, 1, count, out, 1] if many else [part, 1, out]
    low.step(
        low.kernel(nest.key, loops.build(nest)),
        words,
        reads=[part],
        writes=[out],
        units=items,
        flops=float(units * count),
        nodes=[node],
        label=f"{node.op.name} of parts",
    )


def _loses_digits(i: Instr) -> bool:
    """Return whether an instruction is a sum whose error grows with the numbers that it adds one after the other."""
    return i.kind == "reduce" and i.how == "sum" and np.dtype(i.dtype).kind in "fVc"


def _blocked(nest: LoopNest, sizes: Sequence[int], lanes: int) -> tuple[dict[int, int], int]:
    """Return the inner dimensions along which a row's sums are made of blocks, with the blocks' lengths in steps.

    With them comes how many numbers are added one after the other then.
    """
    chain, blocks = 1, {}
    if not any(_loses_digits(i) and i.over in ("row", "all") for i in nest.instrs):
        return {}, 1
    for d in reversed(range(nest.inner)):
        steps = -(-sizes[d] // lanes) if nest.vector == "inner" and d == nest.inner - 1 else sizes[d]
        if chain * steps <= _LONGEST:
            chain *= steps
            continue
        blocks[d] = max(1, math.isqrt(steps // chain))
        chain = chain * blocks[d] + steps // blocks[d]
    return dict(sorted(blocks.items())), chain


def _along(axes: Sequence[int], strides: Sequence[int], count: int) -> list[int]:
    """Return strides by the dimensions of the space, given by an array's axes."""
    found = [0] * count
    for d, s in zip(axes, strides, strict=True):
        if d >= 0:
            found[d] += s
    return found


def literal_dtype(node: Node) -> Any:
    """Return the dtype that a Python number among a node's operands takes part with."""
    operands = [e for e in node.inputs if isinstance(e, Node)]
    if node.op.name == "place":
        return np.dtype(np.int64)
    if node.op.name == "where":
        operands = [e for e in node.inputs[1:] if isinstance(e, Node)]
    return operands[0].spec.dtype if operands else node.spec.dtype


# Numbers that stand in code: what programs are written with, rather than what sizes and data give.
_STRUCTURE = frozenset({0, 1, -1, 2, -2, 3, 0.5, -0.5})


def is_structure(node: Node, number: Any) -> bool:
    """Return whether a number is part of a kernel's code; numbers that sizes may decide are read from memory."""
    if number in _STRUCTURE or number - number != 0 or isinstance(number, bool) or node.op.name == "pow":
        return True
    dtype = literal_dtype(node)
    # One that a comparison's dtype does not hold decides it.
    return dtype.kind in "iu" and not np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


def _label(group: Group) -> str:
    names = [n.op.name for n in group.nodes]
    return "+".join(names) if len(names) <= 6 else "+".join([*names[:5], f"{len(names) - 5} more"])
