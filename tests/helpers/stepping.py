"""Running the steps of a plan by hand: units in pieces, in any order, on any of several threads' scratch.

What the runtime may do to a step, this does on purpose: a kernel whose result depended on how its
units are shared out, on what its memory held before, or that wrote outside it, fails here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.graph.snapshot import input_node
from wengert.core.node import Node, make_node
from wengert.core.ops.op import TABLE
from wengert.core.spec import spec_of
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.codegen.types import Target
from wengert.execute.native.kernels import copies, gather
from wengert.execute.native.kernels import random as random_numbers
from wengert.execute.native.kernels.along_axis import cumulative, positions, sorting
from wengert.execute.native.plan.lowering import RULES, Lowering
from wengert.execute.native.plan.plan import ALIGN, FIRST, Buffer, Step, View

THREADS = 3
GUARD = 64
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)

# The modules whose lowerings are tested by this.
LOWERINGS = (copies, cumulative, gather, positions, random_numbers, sorting)

TARGETS = ("host", "avx2", "sse2")


def target_of(name: str) -> Target:
    if name == "no pairs":
        return machine.without("avx512bf16")
    return machine.host() if name == "host" else machine.level(name)


class Bench(Lowering):
    """A lowering whose arrays are given, and which runs its steps."""

    def __init__(self, target: str = "host", seed: int = 0) -> None:
        super().__init__(target_of(target))
        self.rng = np.random.default_rng(seed)
        self.arrays: list[np.ndarray] = []

    def given(self, array: Any) -> View:
        """Add an array from outside, with the strides that it has."""
        array = np.asarray(array)
        self.arrays.append(array)
        buffer = Buffer("input", array.nbytes, len(self.arrays) - 1)
        return View(buffer, array.dtype, array.shape, tuple(s // array.itemsize for s in array.strides))

    def copy(self, x: View) -> View:
        out = self.temp(x.shape, x.dtype)
        copies.copy_step(self, x, out)
        return out

    def run(self, *views: View) -> list[np.ndarray]:
        """Run the plan, and return the arrays that the views are."""
        plan = self.plan
        plan.outputs = list(views)
        plan.arrange()
        arena = np.full(plan.arena + 2 * ALIGN + 2 * GUARD, 0xA5, np.uint8)
        start = arena.ctypes.data + GUARD
        start += -start % ALIGN
        stride = max([-(-s.scratch // ALIGN) * ALIGN for s in plan.steps], default=0) + GUARD
        scratch = np.full(THREADS * stride + ALIGN, 0x5A, np.uint8)
        places: dict[Buffer, int] = {}
        first = -scratch.ctypes.data % ALIGN
        shares = scratch[first : first + THREADS * stride].reshape(THREADS, stride)
        table = [start, shares.ctypes.data, stride]

        def where(view: View) -> tuple[int, int]:
            buffer = view.buffer
            at = view.offset * view.dtype.itemsize
            if buffer.kind == "temp":
                return 0, buffer.place + at
            if buffer not in places:
                places[buffer] = len(table)
                array = buffer.array if buffer.kind == "constant" else self.arrays[buffer.index]
                table.append(array.ctypes.data)
            return places[buffer], at

        def array_of(view: View) -> np.ndarray:
            entry, at = where(view)
            strides = tuple(s * view.dtype.itemsize for s in view.strides)
            if view.size == 0:
                return np.empty(view.shape, view.dtype)
            first = (ctypes.c_uint8 * view.dtype.itemsize).from_address(table[entry] + at)
            base = np.ndarray((), view.dtype, buffer=first)
            return np.lib.stride_tricks.as_strided(base, view.shape, strides)

        assert len(table) == FIRST
        for step in plan.steps:
            words = [w for word in step.words for w in (where(word) if isinstance(word, View) else (word,))]
            if not isinstance(step.kernel, Kernel):
                self._host(step, array_of)
                continue
            record = np.array([*words, 0], np.int64)
            pointers = np.array(table, np.int64)
            run = _KERNEL(step.kernel.address)
            # Beyond what the step asked for, each thread's scratch memory is nobody's.
            beyond = shares[:, -(-step.scratch // ALIGN) * ALIGN :]
            before = beyond.copy()
            for lo, hi in self._pieces(step.units, step.grain):
                thread = int(self.rng.integers(THREADS))
                run(pointers.ctypes.data, record.ctypes.data, lo, hi, thread)
            assert (beyond == before).all(), f"{step.label}: written outside its scratch memory"
        used = start - arena.ctypes.data
        for outside in (arena[:used], arena[used + plan.arena :]):
            assert (outside == 0xA5).all(), "written outside the arena"
        return [array_of(v).copy() for v in views]

    def _host(self, step: Step, array_of: Any) -> None:
        when = getattr(step.kernel, "when", None)
        if when is None or array_of(when).any():
            arrays = [array_of(w) for w in step.words if isinstance(w, View)]
            step.kernel.run(*arrays)  # type: ignore[union-attr]

    def _pieces(self, units: int, grain: int) -> list[tuple[int, int]]:
        """Return the units cut at random places, in random order."""
        assert min(units, grain) >= 1
        cuts = sorted({0, units, *self.rng.integers(0, units + 1, min(units - 1, 4)).tolist()})
        pieces = list(zip(cuts, cuts[1:]))
        self.rng.shuffle(pieces)
        return [(int(a), int(b)) for a, b in pieces]


def node_of(name: str, args: Sequence[Any], attrs: dict[str, Any]) -> Node:
    """Return a node of an op for arguments; Python numbers stay literals."""
    inputs = [input_node(spec_of(a.shape, a.dtype)) if isinstance(a, np.ndarray) else a for a in args]
    specs = [n.spec if isinstance(n, Node) else n for n in inputs]
    spec = TABLE[name].infer(*specs, **attrs)
    return make_node(TABLE[name], tuple(inputs), attrs, (), spec, None, 0, None)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return small whole numbers of any dtype, whose sums are exact in every order; complex ones have two parts."""
    x = rng.integers(-50, 50, (*shape, 2))
    x = x[..., 0] + 1j * x[..., 1] if np.dtype(dtype).kind == "c" else x[..., 0]
    return np.asarray(x.astype("i1") if np.dtype(dtype).kind in "iu" else x).astype(dtype)


def same(a: Any, b: Any) -> bool:
    """Return whether dtypes, shapes and bits are equal, but for which NaN a NaN is."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = np.ascontiguousarray(a).ravel(), np.ascontiguousarray(b).ravel()
    if a.dtype.name == "bfloat16":
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind == "c":
        a, b = a.view(a.real.dtype), b.view(b.real.dtype)
    signs = a.dtype.kind != "f" or np.all((np.signbit(a) == np.signbit(b)) | np.isnan(a))
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and signs)


def check(name: str, args: Sequence[Any], attrs: dict[str, Any], target: str = "host", equal: Any = same) -> None:
    """Check that the op's lowering gives what its forward gives."""
    node = node_of(name, args, attrs)
    found = lowered(node, args, target)
    assert found is not None, f"{name} has no lowering for these"
    with np.errstate(all="ignore"):
        wanted = node.op.forward(*args, **attrs)
    many = type(wanted) is tuple
    for a, w in zip(found if many else [found], wanted if many else [wanted], strict=True):
        assert equal(a, w), f"{name} {attrs} on {target}:\n{a}\n{w}"


def lowered(node: Node, args: Sequence[Any], target: str = "host", seed: int = 0) -> Any:
    """Return the value of one node by its lowering, for arrays of its inputs; None where it has none."""
    bench = Bench(target, seed)
    for entry, value in zip(node.inputs, args, strict=True):
        if isinstance(entry, Node):
            bench.views[entry] = bench.given(value)
    found = RULES[node.op.name](bench, node)
    if found is None:
        return None
    views = found if type(found) is tuple else (found,)
    out = bench.run(*views)
    return tuple(out) if type(found) is tuple else out[0]


def strided(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the same values under other strides: permuted, reversed, with gaps."""
    if not array.ndim:
        return array
    order = rng.permutation(array.ndim)
    shape = tuple(2 * array.shape[a] + 1 for a in order)
    signs = [int(s) for s in rng.choice([-2, -1, 1, 2], array.ndim)]
    room = np.zeros(shape, array.dtype)
    parts = []
    for a, s in zip(order, signs):
        n = array.shape[a]
        parts.append(slice(0, n * abs(s), abs(s)) if s > 0 else slice(n * abs(s) - 1, None, s))
    part = room[tuple(parts)][tuple(slice(array.shape[a]) for a in order)]
    out = part.transpose(np.argsort(order))
    out[...] = array
    return out


def laid_out(x: np.ndarray, how: str) -> np.ndarray:
    """The same matrices with other strides."""
    if how == "transposed":
        return np.ascontiguousarray(x.mT).mT
    if how == "gaps":
        wide = np.zeros((*x.shape[:-2], x.shape[-2], x.shape[-1] + 5), x.dtype)[..., : x.shape[-1]]
        wide[...] = x
        return wide
    if how == "spread":
        wide = np.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), x.dtype)[..., ::2, ::3]
        wide[...] = x
        return wide
    if how == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    return np.ascontiguousarray(x)
