"""The end of a product's tile: its epilogue, computed on vectors and stored.

The arrays of an epilogue are addressed alike, whatever their kind: a pointer to the batch's first
row, a stride from row to row, and columns one after the other (none, for what is the same in every
column).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...codegen.builder import Builder, Value
from ...codegen.types import Target, Type
from ...plan.lowering import Epilogue
from ...plan.plan import View
from ...scalar.fp16 import convert

# An epilogue of more instructions than this is written once, in a loop over the rows of a tile kept
# in memory, and not once for every register of every tile.
INLINE = 6
# Arrays of more bytes together than the second-level caches of two threads hold are asked for ahead: elsewhere
# asking costs more than it saves (5 % of a product with an inner axis of 64).
FAR = 1 << 21


def plain_store(view: View) -> Epilogue:
    """Return the epilogue of a product that is only wanted itself."""

    def emit(b: Builder, product: Value, operands: Sequence[Value]) -> list[Value]:
        return [convert(b, product, view.type)]

    return Epilogue(f"store {view.type.text}", (), (), (view,), emit)


class Place(NamedTuple):
    """A place where an array of the epilogue is read or written: its first row, and the stride of rows.

    What is `ahead`, so many elements on, is wanted soon.
    """

    pointer: Value
    stride: Value
    ahead: Value | None = None


class Finish:
    """An epilogue as kernels hold it: words in the record, and code that computes and stores."""

    def __init__(self, epilogue: Epilogue, batch_axes: int) -> None:
        self.epilogue = epilogue
        self.batch_axes = batch_axes
        self.arrays = (*epilogue.operands, *epilogue.outputs)
        self.kinds = (*epilogue.kinds, *("full" for _ in epilogue.outputs))
        # The arrays of which every tile has a part of its own, each once, where they are worth asking for ahead.
        own = {v: self.arrays.index(v) for v, kind in zip(self.arrays, self.kinds) if kind == "full"}
        far = sum(v.size * v.dtype.itemsize for v in own) > FAR
        self.ahead = tuple(own.values()) if far else ()

    @property
    def key(self) -> str:
        """The key of all that its code depends on, except what is prefetched where that is told (see `heralded`)."""
        arrays = ",".join(f"{kind} {v.type.text}" for kind, v in zip(self.kinds, self.arrays))
        return f"{self.epilogue.key}({arrays})x{len(self.epilogue.outputs)}"

    # -- the record

    @property
    def size(self) -> int:
        """The number of words of the record that it takes."""
        return len(self.arrays) * (3 + self.batch_axes)

    def words(self) -> list[int | View]:
        """Return for every array where it is, the strides of the batch's axes, the stride of rows."""
        made: list[int | View] = []
        for kind, view in zip(self.kinds, self.arrays):
            strides = (0,) * len(view.strides) if kind == "scalar" else view.strides
            made += [view, *strides[: self.batch_axes], 0 if kind == "column" else strides[-2]]
        return made

    # -- the code

    def places(self, b: Builder, at: int, batch: Sequence[Value]) -> list[Place]:
        """Return the arrays of one batch; its words begin at `at` of the record."""
        found = []
        for view in self.arrays:
            pointer = b.buffer(at)
            for axis, index in enumerate(batch):
                pointer = b.offset(pointer, b.mul(index, b.word(at + 2 + axis)), view.type)
            stride = b.word(at + 2 + self.batch_axes)
            at += 3 + self.batch_axes
            found.append(Place(pointer, stride))
        return found

    def moved(self, b: Builder, places: Sequence[Place], row: Value, column: Value) -> list[Place]:
        """Return the places of a tile's first element."""
        made = []
        for kind, view, place in zip(self.kinds, self.arrays, places):
            pointer = b.offset(place.pointer, b.mul(row, place.stride), view.type)
            if kind in ("full", "column"):
                pointer = b.offset(pointer, column, view.type)
            made.append(Place(pointer, place.stride))
        return made

    def heralded(self, b: Builder, places: Sequence[Place], rows: Value, columns: Value) -> list[Place]:
        """Return the places, with those so many rows and columns on as wanted next, if they may be far."""
        return [
            p._replace(ahead=b.add(b.mul(rows, p.stride), columns)) if i in self.ahead else p
            for i, p in enumerate(places)
        ]

    def next_row(self, b: Builder, places: Sequence[Place]) -> list[Place]:
        """Return the places one row on."""
        return [
            p._replace(pointer=b.offset(p.pointer, p.stride, v.type)) if kind in ("full", "row") else p
            for kind, v, p in zip(self.kinds, self.arrays, places)
        ]

    def held(
        self, b: Builder, places: Sequence[Place], count: int, lanes: int, masks: Sequence[Value] | None
    ) -> list[dict[int, Value]]:
        """Load what is the same in every row, once for all of them: for each of `count` vectors, by operand."""
        scalars = {
            i: b.splat(b.load(view.type, places[i].pointer), lanes)
            for i, (kind, view) in enumerate(zip(self.kinds, self.epilogue.operands))
            if kind == "scalar"
        }
        found = []
        for c in range(count):
            rows = {
                i: self._vector(b, view, places[i], c, lanes, masks)
                for i, (kind, view) in enumerate(zip(self.kinds, self.epilogue.operands))
                if kind == "column"
            }
            found.append(scalars | rows)
        return found

    def _vector(
        self, b: Builder, view: View, place: Place, number: int, lanes: int, masks: Sequence[Value] | None
    ) -> Value:
        pointer = b.offset(place.pointer, number * max(lanes, 1), view.type)
        type = view.type.vector(lanes)
        return b.masked_load(type, pointer, masks[number]) if masks else b.load(type, pointer)

    def row(
        self,
        b: Builder,
        places: Sequence[Place],
        product: Sequence[Value],
        masks: Sequence[Value] | None,
        held: Sequence[dict[int, Value]] | None = None,
    ) -> None:
        """Compute and store one row of a tile, given as vectors; `masks` say which columns there are.

        `held` are the operands that are the same in every row, where they are loaded already.
        """
        lanes = product[0].type.lanes
        given = len(self.epilogue.operands)
        held = held if held is not None else self.held(b, places, len(product), lanes, masks)
        for c, x in enumerate(product):
            operands = []
            for i, (kind, view, place) in enumerate(zip(self.kinds, self.epilogue.operands, places)):
                if i in held[c]:
                    operands.append(held[c][i])
                elif kind == "row":
                    operands.append(b.splat(b.load(view.type, place.pointer), lanes))
                else:
                    operands.append(self._vector(b, view, place, c, lanes, masks))
            for view, place in zip(self.arrays, places):
                if place.ahead is not None:
                    # A vector's last element lies in a line that no vector before it touches.
                    last = b.offset(place.pointer, (c + 1) * max(lanes, 1) - 1, view.type)
                    b.prefetch(b.offset(last, place.ahead, view.type), level=2)
            results = self.epilogue.emit(b, x, operands)
            for view, result, place in zip(self.epilogue.outputs, results, places[given:]):
                pointer = b.offset(place.pointer, c * max(lanes, 1), view.type)
                if masks:
                    b.masked_store(result, pointer, masks[c])
                else:
                    b.store(result, pointer)

    def is_short(self, target: Target, type: Type) -> bool:
        """Return whether its code is short enough to stand once for every register."""
        probe = Builder("probe", target)
        stride = probe.index(0)
        places = [Place(probe.ptrs, stride) for _ in self.arrays]
        lanes = target.lanes(type)
        held = self.held(probe, places, 1, lanes, None)
        before = probe.length
        self.row(probe, places, [Value("zeroinitializer", type.vector(lanes))], None, held)
        return probe.length - before <= INLINE
