"""Runs plans step by step, each step's units split as asked: what tests of single lowerings need."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from wengert.core.node import Node, make_node
from wengert.core.op import TABLE
from wengert.core.spec import spec_of
from wengert.core.tensor import LEAF
from wengert.execute.native.kernel import Kernel
from wengert.execute.native.lowering import RULES, Lowering
from wengert.execute.native.plan import ARENA, FIRST, SCRATCH, SCRATCH_STRIDE, Buffer, Step, View
from wengert.execute.native.types import Target

Array = np.ndarray[Any, Any]
_CALL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)


def _aligned(nbytes: int) -> Array:
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def _bytes_of(x: Array) -> tuple[int, int, int]:
    """(address of the first byte, bytes, offset of element 0 in them)."""
    low = sum(min(0, (n - 1) * s) for n, s in zip(x.shape, x.strides)) if x.size else 0
    high = sum(max(0, (n - 1) * s) for n, s in zip(x.shape, x.strides)) + x.itemsize if x.size else 0
    return x.ctypes.data + low, high - low, -low


class Lowered:
    """One op's steps on given arrays, ready to run."""

    def __init__(self, op: str, arrays: list[Array], target: Target, low: Lowering | None = None, **attrs: Any) -> None:
        self.low = low if low is not None else Lowering(target)
        self.arrays = arrays
        entry = TABLE[op]
        nodes = [make_node(LEAF, (), {}, None, None, None, 0, None) for _ in arrays]
        for i, (node, x) in enumerate(zip(nodes, arrays)):
            self.low.views[node] = self.view(x, i)
        specs = [spec_of(x.shape, x.dtype) for x in arrays]
        self.node: Node = make_node(entry, tuple(nodes), attrs, None, entry.infer(*specs, **attrs), None, 0, None)
        self.result = RULES[op](self.low, self.node)
        self.steps: list[Step] = self.low.plan.steps
        self.low.plan.outputs = _views(self.result)
        self.low.plan.arrange()
        self.arena = _aligned(self.low.plan.arena)
        self.arena[:] = 0xA5
        self.table = np.zeros(FIRST + len(arrays) + len(self.low.plan.constants), np.uint64)
        self.table[ARENA] = self.arena.ctypes.data
        for i, x in enumerate(arrays):
            self.table[FIRST + i] = _bytes_of(x)[0]
        for i, c in enumerate(self.low.plan.constants):
            self.table[FIRST + len(arrays) + i] = c.array.ctypes.data
        self.records = [self._record(s) for s in self.steps]

    def view(self, x: Array, index: int) -> View:
        """An array as an input of the program."""
        _, nbytes, offset = _bytes_of(x)
        strides = tuple(s // x.itemsize for s in x.strides)
        return View(Buffer("input", nbytes, index), x.dtype, x.shape, strides, offset // x.itemsize)

    def _entry(self, buffer: Buffer) -> tuple[int, int]:
        if buffer.kind == "temp":
            return ARENA, buffer.place
        if buffer.kind == "constant":
            return FIRST + len(self.arrays) + buffer.index, 0
        return FIRST + buffer.index, 0

    def _record(self, step: Step) -> Array:
        words: list[int] = []
        for w in step.words:
            if isinstance(w, View):
                entry, start = self._entry(w.buffer)
                words += [entry, start + w.offset * w.dtype.itemsize]
            else:
                words.append(int(w))
        return np.array(words, np.int64)

    def array(self, view: View) -> Array:
        """A view's elements, over the arena."""
        start = view.buffer.place + view.offset * view.dtype.itemsize
        strides = tuple(s * view.dtype.itemsize for s in view.strides)
        return np.ndarray(view.shape, view.dtype, self.arena, start, strides)

    def calls(self) -> list[tuple[Any, int, int]]:
        """(function, address of the record, units) of the steps, in order."""
        found = []
        for step, record in zip(self.steps, self.records):
            assert isinstance(step.kernel, Kernel)
            found.append((_CALL(step.kernel.address), record.ctypes.data, step.units))
        return found

    def scratch(self, threads: int = 1) -> None:
        """Fresh scratch memory for so many threads, full of NaN."""
        stride = -(-max((s.scratch for s in self.steps), default=0) // 64) * 64
        self._scratch = _aligned(max(stride * threads, 64))
        self._scratch[:] = 0xFF
        self.table[SCRATCH], self.table[SCRATCH_STRIDE] = self._scratch.ctypes.data, stride

    def run(self, pieces: int = 1) -> Array:
        """Run all steps, each in so many ranges of units, the last first; the result."""
        self.scratch(2)
        for call, record, units in self.calls():
            cuts = [units * i // pieces for i in range(pieces + 1)]
            for i in reversed(range(pieces)):
                if cuts[i] < cuts[i + 1]:
                    call(self.table.ctypes.data, record, cuts[i], cuts[i + 1], i % 2)
        assert isinstance(self.result, View)
        return self.array(self.result)


def _views(result: Any) -> list[View]:
    return [] if result is None else list(result) if not isinstance(result, View) else [result]
