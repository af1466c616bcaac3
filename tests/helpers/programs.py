"""Programs made by hand, of kernels that count and add, for tests of the runtime."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.builder import Builder
from wengert.execute.native.codegen.types import F64, I64
from wengert.execute.native.plan.lowering import Lowering
from wengert.execute.native.plan.plan import Buffer, HostCall, View, dense
from wengert.execute.native.run import runtime, scheduler, threads
from wengert.execute.native.run.runtime import Program

F = np.dtype(np.float64)
I = np.dtype(np.int64)


def lowering() -> Lowering:
    return Lowering(machine.host())


def given(low: Lowering, shape: Sequence[int], dtype: Any = F, donated: bool = False) -> View:
    """Add another input."""
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    buffer = Buffer("input", nbytes, len(low.plan.inputs), donated=donated)
    view = View(buffer, dtype, tuple(shape), dense(shape))
    low.plan.inputs.append(view)
    return view


def add_one(b: Builder) -> None:
    x, y = b.buffer(0), b.buffer(2)
    with b.loop(b.lo, b.hi) as at:
        number = b.load(F64, b.offset(x, at.index, F64))
        b.store(b.fadd(number, b.const(F64, 1.0)), b.offset(y, at.index, F64))


def plus_one(low: Lowering, x: View, y: View | None = None) -> View:
    """Add a step that adds 1 to a dense array, unit by unit."""
    y = y if y is not None else low.temp(x.shape, F)
    low.step(low.kernel("test add one", add_one), (x, y), reads=[x], writes=[y], units=x.size)
    return y


def count_and_sign(b: Builder) -> None:
    """Write x[unit] += 1, who[unit] = thread: the result shows how often a unit was done, and by whom."""
    x, who = b.buffer(0), b.buffer(2)
    with b.loop(b.lo, b.hi) as at:
        p = b.offset(x, at.index, I64)
        b.store(b.add(b.load(I64, p), b.index(1)), p)
        b.store(b.thread, b.offset(who, at.index, I64))


def counting(units: int, steps: int, grain: int = 1) -> Program:
    low = lowering()
    x, who = given(low, (units,), I, donated=True), low.temp((units,), I)
    for _ in range(steps):
        kernel = low.kernel("test count and sign", count_and_sign)
        low.step(kernel, (x, who), reads=[x, who], writes=[x, who], units=units, grain=grain)
    low.plan.outputs += [x, who]
    return Program(low.plan)


@contextlib.contextmanager
def all_shared(chunks: int = runtime.CHUNKS_EACH) -> Iterator[None]:
    """Let programs made within share every step out, in many chunks, however short it is."""
    wanted = {
        "SHARED_FROM": 0,
        "ALL_SHARED_FROM": 0,
        "CHUNK_NS": 1e-3,
        "LEAST_CHUNK_NS": 1e-3,
        "CHUNKS_EACH": chunks,
        "first_guess": lambda time, count: (1 << 60, 0),
    }
    before = {name: getattr(runtime, name) for name in wanted}
    for name, value in wanted.items():
        setattr(runtime, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(runtime, name, value)


def send_for_helpers() -> None:
    """Let helpers come, whatever was lost by them."""
    team = threads.team()
    assert team is not None
    words = team._memory.view(np.int64)
    words[scheduler.TEAM_PENALTY // 8] = words[scheduler.TEAM_STREAK // 8] = 0


def with_host_call(run: Callable[..., None], when: bool = False) -> Program:
    """Return a program of x + 1, a step of Python's, and + 1."""
    low = lowering()
    x = given(low, (4,))
    flags = given(low, (3,), I) if when else None
    y, z = plus_one(low, x), low.temp((4,), F)
    low.step(HostCall("test", run, flags), (y, z), reads=[y, *([flags] if flags is not None else [])], writes=[z])
    low.plan.outputs.append(plus_one(low, z))
    return Program(low.plan)
