"""Plans: a program as data, steps over one arena.

Lowering makes a `Plan` from a graph whose shapes are known: steps, each a kernel with its record,
and the buffers between them. `arrange` then gives every temporary its place in the arena, so the
peak is known before anything runs.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ....core.node import Node
from ..codegen.kernel import Kernel
from ..codegen.types import Type, storage_type

# Every buffer starts on its own cache line, and vectors of the widest registers are aligned.
ALIGN = 64
# The entries at the front of every table of addresses: see kernel.py.
ARENA, SCRATCH, SCRATCH_STRIDE, FIRST = 0, 1, 2, 3


class Buffer:
    """A piece of memory of the program.

    `input` and `output` buffers are given at every call (`index` counts them); a `constant` holds
    `array`, once it is known; a `temp` gets its place in the arena by `arrange`, a `spill` stands at its place in a
    file. A `window` is a piece of another buffer, `of`, that steps move while the program runs. `donated` inputs may be
    written to once nothing reads them any more.
    """

    __slots__ = ("kind", "nbytes", "index", "array", "place", "donated", "of")

    def __init__(
        self,
        kind: Literal["input", "output", "constant", "temp", "spill", "window"],
        nbytes: int,
        index: int = 0,
        array: Any = None,
        donated: bool = False,
        of: Buffer | None = None,
    ) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.index = index
        self.array = array
        self.place = -1
        self.donated = donated
        self.of = of

    @property
    def whole(self) -> Buffer:
        """The buffer that owns the memory: itself, or what a window is a piece of."""
        return self if self.of is None else self.of.whole

    def __repr__(self) -> str:
        return f"<{self.kind} {self.index if self.kind != 'temp' else self.place} of {self.nbytes} bytes>"


class View(NamedTuple):
    """An array in a buffer: strides and offset count elements."""

    buffer: Buffer
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def type(self) -> Type:
        """The type of the elements in memory."""
        found = storage_type(self.dtype)
        assert found is not None
        return found

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        return all(n == 1 or s == w for n, s, w in zip(self.shape, self.strides, dense(self.shape)))

    @property
    def memory_order(self) -> tuple[int, ...] | None:
        """The axes from the outermost in memory to the innermost, where the view is its buffer, whole and dense."""
        if self.offset or self.size * self.dtype.itemsize != self.buffer.nbytes:
            return None
        axes = tuple(sorted(range(len(self.shape)), key=lambda a: (-self.strides[a], self.shape[a] != 1)))
        return axes if self.size == 0 or self.permute(axes).is_contiguous else None

    def broadcast(self, shape: Sequence[int]) -> View:
        """Return the view repeated along new leading axes and along axes of size 1."""
        lead = len(shape) - len(self.shape)
        strides = [0] * lead + [
            0 if have == 1 and want != 1 else s
            for have, want, s in zip(self.shape, shape[lead:], self.strides, strict=True)
        ]
        return self._replace(shape=tuple(shape), strides=tuple(strides))

    def lies_as(self, other: View) -> bool:
        """Return whether another view is the same array: strides of axes of size 1 say nothing."""
        if self.buffer is not other.buffer or self.dtype != other.dtype:
            return False
        if self.offset != other.offset or self.shape != other.shape:
            return False
        return all(n <= 1 or s == t for n, s, t in zip(self.shape, self.strides, other.strides))

    def permute(self, axes: Sequence[int]) -> View:
        return self._replace(shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def reshape(self, shape: Sequence[int]) -> View | None:
        """Return the same elements in another shape; None where strides cannot express it."""
        strides = reshaped_strides(self.shape, self.strides, tuple(shape))
        return None if strides is None else self._replace(shape=tuple(shape), strides=strides)


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def reshaped_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """Return strides that read the same elements in the same order in shape `new`; None where there are none."""
    if math.prod(shape) == 0:
        return dense(new)
    # Runs of axes that continue each other, from the inside out: new axes are cut from one run each.
    runs: list[tuple[int, int]] = []
    for n, s in zip(reversed(shape), reversed(strides)):
        if runs and s == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * n, runs[-1][1])
        elif n != 1:
            runs.append((n, s))
    result: list[int] = []
    left, step = 1, 0
    for n in reversed(new):
        if n == 1:
            result.append(0)
            continue
        if left == 1:
            left, step = runs.pop(0)
        if left % n:
            return None
        result.append(step)
        left, step = left // n, step * n
    return tuple(reversed(result))


class Step:
    """A kernel call: its record, its units of work, the buffers that it touches, the nodes that it computes.

    In `words` a View stands for two words (see `Builder.buffer`). `units` pieces of work may be
    run in any order and by any thread, at least `grain` at a time; `scratch` bytes are each thread's
    own. `flops` and `nbytes` are the work of the whole step, from which its time is estimated; the bytes are those of
    what is read and written, unless others are given.
    """

    __slots__ = ("kernel", "words", "units", "grain", "scratch", "reads", "writes", "flops", "nbytes", "nodes", "label")

    def __init__(
        self,
        kernel: Kernel | HostCall | Jump | Exchange,
        words: Sequence[int | View],
        *,
        reads: Sequence[View],
        writes: Sequence[View],
        units: int = 1,
        grain: int = 1,
        scratch: int = 0,
        flops: float = 0.0,
        nbytes: int | None = None,
        nodes: Sequence[Node] = (),
        label: str = "",
    ) -> None:
        self.kernel = kernel
        self.words = tuple(words)
        self.units, self.grain, self.scratch = units, grain, scratch
        self.reads = tuple(dict.fromkeys(v.buffer for v in reads))
        self.writes = tuple(dict.fromkeys(v.buffer for v in writes))
        self.flops = flops
        self.nbytes = sum(v.size * v.dtype.itemsize for v in (*reads, *writes)) if nbytes is None else nbytes
        self.nodes = tuple(nodes)
        self.label = label or (kernel.key if isinstance(kernel, Kernel) else kernel.name)

    @classmethod
    def of_buffers(
        cls,
        kernel: Kernel | HostCall | Jump | Exchange,
        words: tuple[int | View, ...],
        reads: tuple[Buffer, ...],
        writes: tuple[Buffer, ...],
        numbers: tuple[int, int, int, float, int],
        label: str,
    ) -> Step:
        """Return a step from its stored form; `numbers` are its units, grain, scratch, flops and nbytes."""
        step = cls.__new__(cls)
        step.kernel, step.words, step.reads, step.writes, step.label = kernel, words, reads, writes, label
        step.units, step.grain, step.scratch, step.flops, step.nbytes = numbers
        step.nodes = ()
        return step

    def __repr__(self) -> str:
        return f"<step {self.label}>"


class HostCall:
    """A step that Python runs: `run(*arrays)` on the views of the record, results written into the last ones.

    `reads` are handed over as NumPy arrays over the program's memory, then `writes`, which `run`
    fills. One that is rarely needed (a check that raises, cases that a kernel leaves alone) may have a
    condition: it is called only where one of the 64-bit words `when`, which a step before it wrote,
    is not 0. `origin` says what `run` was made from, where other processes can make it too: see `host_calls`.
    """

    __slots__ = ("name", "run", "when", "origin")

    def __init__(
        self, name: str, run: Callable[..., None], when: View | None = None, origin: tuple[Any, ...] | None = None
    ) -> None:
        self.name = name
        self.run = run
        self.when = when
        self.origin = origin


class Jump:
    """A step that continues at step `target` where one of the 64-bit words `when` is not 0 (None: always).

    Steps before it write the words. A jump back makes a loop: see `Plan.loops`.
    """

    __slots__ = ("name", "when", "target")

    def __init__(self, name: str, when: View | None = None, target: int = -1) -> None:
        self.name = name
        self.when = when
        self.target = target


class Moved(NamedTuple):
    """A collective of a plan, as other processes can have it too: the op's name, its attributes, its operand."""

    op: str
    attrs: dict[str, Any]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Exchange:
    """A step of a collective that moves while other steps run; `number` says which of the plan's `moved` it is.

    Its phases: "start", on views of the operand, the result and scratch memory, all of which belong to it until the
    "wait", on the word of its state, operand and result; a "look" lets all move on that have started. The "end" is
    Python's: it comes after a wait, and raises the wait's error where the word `when` is not 0. Who moves the bytes is
    the program's to know.
    """

    __slots__ = ("name", "phase", "number", "when")

    def __init__(
        self, name: str, phase: Literal["start", "look", "wait", "end"], number: int, when: View | None = None
    ) -> None:
        self.name = name
        self.phase = phase
        self.number = number
        self.when = when


class Plan:
    """A list of steps in order, over buffers; `lower` makes it of a graph.

    `inputs` and `outputs` are the arrays that calls pass. An output may be an input's buffer
    (written in place, where the input was donated) or a view of one (`aliases` says which), which
    the caller then copies or hands over. The `preparation` is a plan without inputs that runs once, when the program is
    made, and whose outputs are the contents of the constants `prepared`.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        # Steps on constants alone that are for the preparation, wherever their results are read.
        self.first: list[Step] = []
        self.inputs: list[View] = []
        self.outputs: list[View] = []
        self.constants: list[Buffer] = []
        self.windows: list[Buffer] = []
        self.moved: list[Moved] = []
        # The first and last steps of loops, inner ones before those around them.
        self.loops: list[tuple[int, int]] = []
        self.arena = 0
        # The bytes of the file for values that memory has no room for.
        self.spill = 0
        self.preparation: Plan | None = None
        self.prepared: list[Buffer] = []
        # True once every buffer has its place.
        self.is_arranged = False

    def __str__(self) -> str:
        """Return the plan as a table: every step, its work, the arrays that it reads and (marked =) writes."""
        lines = [] if self.preparation is None else [f"once:\n{self.preparation}\nevery call:"]
        lines.append(f"{'step':>4}  {'kernel':<44}{'units':>7}{'Mflop':>10}{'MB':>9}  arrays")
        for i, step in enumerate(self.steps):
            arrays = " ".join(_shown(w, step) for w in step.words if isinstance(w, View))
            name = f"{step.label} (Python)" if isinstance(step.kernel, HostCall) else step.label
            name = name if len(name) <= 43 else name[:42] + "…"
            numbers = f"{step.units:>7}{step.flops / 1e6:>10.3f}{step.nbytes / 1e6:>9.3f}"
            lines.append(f"{i:>4}  {name:<44}{numbers}  {arrays}")
        return "\n".join([*lines, f"arena: {self.arena:,} bytes"])

    def claim_outputs(self, wanted: Sequence[bool] | None = None) -> None:
        """Let results be written straight into the arrays that are handed out: those that are `wanted` so, or all.

        A temporary becomes an output where an output is the whole of it, in any order of the axes. What
        is part of a larger buffer, or an output twice, is copied after the run.
        """
        for i, view in enumerate(self.outputs):
            if wanted is not None and not wanted[i]:
                continue
            if view.buffer.kind == "temp" and view.memory_order is not None:
                view.buffer.kind, view.buffer.index = "output", i

    def arrange(self) -> None:
        """Give every temporary its place: greedy by size among those that live at the same time."""
        self.arena = _place(*self.lives())
        self.is_arranged = True

    def lives(self) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
        """Return the first and the last step of each temporary; what is a result lives beyond the last."""
        born: dict[Buffer, int] = {}
        dies: dict[Buffer, int] = {}
        for i, step in enumerate(self.steps):
            for buffer in (b.whole for b in (*step.reads, *step.writes)):
                if buffer.kind == "temp":
                    born.setdefault(buffer, i)
                    dies[buffer] = i
        for view in self.outputs:
            if view.buffer.kind == "temp":
                born.setdefault(view.buffer, len(self.steps))
                dies[view.buffer] = len(self.steps)
        self._keep_through_loops(born, dies)
        return born, dies

    def _keep_through_loops(self, born: dict[Buffer, int], dies: dict[Buffer, int]) -> None:
        """Let buffers used both inside a loop and outside of it live through all of its iterations."""
        for first, last in self.loops:
            used = {b.whole for step in self.steps[first : last + 1] for b in (*step.reads, *step.writes)}
            for buffer in used:
                if buffer.kind == "temp" and (born[buffer] < first or dies[buffer] > last):
                    born[buffer] = min(born[buffer], first)
                    dies[buffer] = max(dies[buffer], last)


def _shown(view: View, step: Step) -> str:
    buffer = view.buffer
    place = buffer.kind[0] + str(buffer.place if buffer.kind in ("temp", "spill") else buffer.index)
    return f"{'=' if buffer in step.writes else ''}{place}:{view.dtype.name}{list(view.shape)}"


def _place(born: dict[Buffer, int], dies: dict[Buffer, int]) -> int:
    """Place buffers that live from step to step, and return the arena's bytes.

    In order of time, the largest of a step first, each takes the smallest gap that it fits in (best
    fit: Wilson et al., "Dynamic Storage Allocation", 1995), or grows the arena. The gaps are few.
    """
    arriving: dict[int, list[Buffer]] = {}
    leaving: dict[int, list[Buffer]] = {}
    for buffer, first in born.items():
        arriving.setdefault(first, []).append(buffer)
        leaving.setdefault(dies[buffer] + 1, []).append(buffer)
    gaps: list[tuple[int, int]] = []  # (place, bytes), by place, no two of them touching
    top = 0
    for step in sorted({*arriving, *leaving}):
        for buffer in leaving.get(step, ()):
            top = _free(gaps, buffer.place, rounded(buffer.nbytes), top)
        for buffer in sorted(arriving.get(step, ()), key=lambda b: -b.nbytes):
            nbytes = rounded(buffer.nbytes)
            fitting = [(size, i) for i, (_, size) in enumerate(gaps) if size >= nbytes]
            if fitting:
                size, i = min(fitting)
                buffer.place = gaps[i][0]
                gaps[i : i + 1] = [(buffer.place + nbytes, size - nbytes)] if size > nbytes else []
                continue
            buffer.place = top
            top += nbytes
    return max((b.place + rounded(b.nbytes) for b in born), default=0)


def rounded(nbytes: int) -> int:
    """Return the bytes that a buffer takes in the arena."""
    return -(-nbytes // ALIGN) * ALIGN


def scratch_stride(scratch: int) -> int:
    """Return the bytes between two threads' scratch memories: no pair of cache lines is in both."""
    return -(-scratch // (2 * ALIGN)) * (2 * ALIGN)


def _free(gaps: list[tuple[int, int]], place: int, nbytes: int, top: int) -> int:
    """Make `nbytes` at `place` free again, and return the end of what is in use."""
    i = bisect.bisect(gaps, (place, 0))
    if i < len(gaps) and gaps[i][0] == place + nbytes:
        nbytes += gaps.pop(i)[1]
    if i and sum(gaps[i - 1]) == place:
        i -= 1
        place, before = gaps.pop(i)
        nbytes += before
    if place + nbytes == top:
        return place
    gaps.insert(i, (place, nbytes))
    return top
