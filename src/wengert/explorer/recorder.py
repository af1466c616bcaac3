"""Recording a run: what every thread of a program does, written down as it happens.

Each thread has a `Tape`, to which it appends plain tuples and the nodes that came to be: everything
else (values in numbers, spans, scopes) is worked out afterwards (see :mod:`wengert.explorer.recording`).
Values are kept by reference, which is safe since tensors are values and an optimiser writes in place only
into arrays that nobody else holds.

Of a training run one step is kept. A step ends with the optimiser's step, or where a backward pass ends
that shares no node with the one before; what lies before the last whole step is let go.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ..core.errors import is_internal
from ..core.mode import Mode, get_mode
from ..core.node import Node
from ..core.op import Op
from ..core.tensor import Tensor
from ..execute.jit.jit import Jit
from ..execute.native.entry import calls_natively
from ..explain import observe
from ..optim.optimizer import Optimizer
from ..transforms import reverse

# Code whose frames are entered again from other places: what calls them is looked up every time.
_RESUMED = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators (inspect.CO_*)


class Activation:
    """One run of a piece of the user's code: a call of a function.

    `parent` called it, at instruction `at`; None for what the recording began in. Two calls from the
    same place are two activations.
    """

    __slots__ = ("at", "code", "parent")

    def __init__(self, parent: Activation | None, at: int, code: CodeType) -> None:
        self.parent = parent
        self.at = at
        self.code = code


class Ran(NamedTuple):
    """An operation that ran: `inputs` gave `out`, in user code `activation` at instruction `offset`.

    `origin` is the node that was run again, in a graph or in a checkpoint; `node` what was recorded,
    where that is known at once (else the tape has it next).
    """

    op: Op
    inputs: Sequence[Any]
    out: Any
    attrs: Mapping[str, Any]
    activation: Activation | None
    offset: int
    mode: Mode
    start: float
    end: float
    origin: Node | None
    node: Node | None


class Pulled(NamedTuple):
    """A step of a backward pass: `ct` arrived at `node`, `own` went to its inputs; tensors where it was recorded."""

    node: Node
    ct: Any
    saved: Any
    own: dict[Node, Any]
    recorded: bool
    start: float
    end: float


class Updated(NamedTuple):
    """An optimiser gave a parameter a new value."""

    node: Node | None
    before: Any
    gradient: Any
    after: Any
    start: float
    end: float


class Leaked(NamedTuple):
    """A value that left the graph: `what` is the way out (`item`, `detach`, ...)."""

    what: str
    value: Any
    activation: Activation | None
    offset: int
    time: float


class Pass(NamedTuple):
    """A backward pass begins, from these nodes with these cotangents; or ends (no roots)."""

    roots: Sequence[tuple[Node, Any]]
    time: float


Entry = Ran | Pulled | Updated | Leaked | Pass | Node


class Tape:
    """What one thread did, in order."""

    __slots__ = ("activation", "append", "entries", "frame", "node", "places", "quiet", "recorder", "stack", "thread")

    def __init__(self, recorder: Recorder, thread: int) -> None:
        self.recorder = recorder
        self.thread = thread
        self.entries: list[Entry] = []
        self.append = self.entries.append
        self.quiet = 0
        self.node: Node | None = None
        # The call stack as it was: frames, the activation each is (in), and the innermost user frame there.
        self.stack: list[tuple[FrameType, Activation | None, FrameType | None]] = []
        self.places: dict[int, int] = {}
        self.frame: FrameType | None = None
        self.activation: Activation | None = None

    # -- what the engines tell

    def step(
        self, op: Op, inputs: Sequence[Any], out: Any, run: Callable[..., Any], attrs: Mapping[str, Any],
        start: float, node: Node | None = None,
    ) -> None:  # fmt: skip
        end = perf_counter()
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not self.frame:
            self._enter(frame)
        offset = -1 if frame is None else frame.f_lasti
        self.append(Ran(op, inputs, out, attrs, self.activation, offset, get_mode(), start, end, self.node, node))

    def made(self, node: Node) -> None:
        self.append(node)

    def pulled(self, node: Node, ct: Any, saved: Any, own: dict[Node, Any], recording: bool, start: float) -> None:
        self.append(Pulled(node, ct, saved, own, recording, start, perf_counter()))

    def leak(self, what: str, value: Any) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not self.frame:
            self._enter(frame)
        offset = -1 if frame is None else frame.f_lasti
        self.append(Leaked(what, value, self.activation, offset, perf_counter()))

    # -- the call stack

    def begin(self, frame: FrameType | None) -> None:
        """Take the frames that are there now for the world outside of the recording."""
        while frame is not None:
            self.stack.append((frame, None, None))
            frame = frame.f_back
        self.stack.reverse()
        self.places = {id(entry[0]): i for i, entry in enumerate(self.stack)}

    def close(self) -> None:
        """The recording is over: nothing more is written, no frame is held."""
        self.quiet = observe.OVER
        self.stack.clear()
        self.places.clear()
        self.frame = None

    def _enter(self, frame: FrameType | None) -> None:
        """Find the activation of a user frame: frames between it and one that is known are new calls."""
        if frame is None:
            self.frame = self.activation = None
            return
        fresh: list[FrameType] = []
        walked: FrameType | None = frame
        while walked is not None and id(walked) not in self.places:
            fresh.append(walked)
            walked = walked.f_back
        known = -1 if walked is None else self.places[id(walked)]
        # What was called from there has returned.
        for entry in self.stack[known + 1 :]:
            del self.places[id(entry[0])]
        del self.stack[known + 1 :]
        activation, user = self.stack[-1][1:] if self.stack else (None, None)
        resumed = False
        for new in reversed(fresh):
            if not is_internal(new.f_code.co_filename):
                activation = Activation(activation, -1 if user is None else user.f_lasti, new.f_code)
                user = new
                resumed = bool(new.f_code.co_flags & _RESUMED)
            if not resumed:  # what hangs on a generator is asked for again
                self.places[id(new)] = len(self.stack)
                self.stack.append((new, activation, user))
        self.activation = activation
        self.frame = None if resumed else frame


class Recorder:
    """All threads' tapes of one run. With `step` that step of a training run is kept, else the last whole one."""

    def __init__(self, step: int | None = None) -> None:
        self.wanted = step
        self.tapes: list[Tape] = []
        self.started = self.ended = 0.0
        self.steps = 0  # whole steps so far
        self.first = 0  # the number of the step that is kept first
        self.cut = 0.0  # when the step that is kept began
        self._lock = threading.Lock()
        self._after: float | None = None  # the end of an optimiser's step, after which another may begin
        self._passed: set[Node] | None = None  # the nodes of the last backward pass since
        self._pass_end = 0.0

    def join(self) -> Tape:
        """A tape for this thread."""
        with self._lock:
            tape = Tape(self, len(self.tapes))
            self.tapes.append(tape)
        return tape

    @property
    def has_passed(self) -> bool:
        """Whether a backward pass has been seen."""
        return self._passed is not None or self.steps > 0

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Record what the program does inside the block, in all its threads."""
        try:
            with observe.watch(self.join, _WATCHED):
                self.tapes[0].begin(sys._getframe())
                self.started = perf_counter()
                try:
                    yield self
                finally:
                    self.ended = perf_counter()
                    for tape in self.tapes:
                        tape.close()
        finally:
            # Having had another `__call__`, the class has to be told again.
            calls_natively(Jit)

    # -- steps

    def passed(self, tape: Tape, first: int) -> None:
        """A backward pass has ended, whose entries begin at `first` on this tape."""
        nodes = {e.node for e in tape.entries[first:] if type(e) is Pulled}
        if self._after is not None:
            self._step_ends(self._after)
        elif self._passed is not None and self._passed.isdisjoint(nodes):
            self._step_ends(self._pass_end)
        elif self._passed is not None:
            nodes |= self._passed
        self._after, self._passed, self._pass_end = None, nodes, perf_counter()

    def updated(self) -> None:
        """An optimiser's step has ended."""
        if self._passed is not None or self._after is not None:
            self._after = perf_counter()
        if self.wanted == self.steps and self._passed is not None:
            self._stop()

    def _step_ends(self, time: float) -> None:
        """Another step is whole, so that the one that ended at this time is not the last."""
        if self.wanted == self.steps:
            self._stop()
            return
        self.steps += 1
        self.cut = time
        for tape in self.tapes:
            kept = next((i for i, e in enumerate(tape.entries) if _time(e) >= time), len(tape.entries))
            # Nodes have no time: those of a step's last operation follow it.
            del tape.entries[:kept]

    def _stop(self) -> None:
        for tape in self.tapes:
            tape.quiet = observe.OVER


def _time(entry: Entry) -> float:
    if type(entry) is Pass or type(entry) is Leaked:
        return entry.time
    return entry.start if isinstance(entry, (Ran, Pulled, Updated)) else -1.0


# -- what is watched beside operations


def _tape() -> Tape | None:
    seen = observe.watching()
    return seen if isinstance(seen, Tape) else None


def _watch_passes(name: str, original: Any) -> Any:
    def walk(roots: Any, *more: Any) -> Any:
        tape = _tape()
        if tape is None:
            return original(roots, *more)
        first = len(tape.entries)
        tape.append(Pass(tuple(roots), perf_counter()))
        try:
            found = original(roots, *more)
        finally:
            tape.append(Pass((), perf_counter()))
        tape.recorder.passed(tape, first)
        return found

    return walk


def _watch_steps(name: str, original: Any) -> Any:
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        tape = _tape()
        if tape is not None:
            tape.recorder.updated()
        return found

    return step


def _watch_updates(name: str, original: Any) -> Any:
    def update(self: Optimizer, parameter: Tensor, gradient: Any, group: Any) -> None:
        tape = _tape()
        if tape is None:
            original(self, parameter, gradient, group)
            return
        before, start = parameter._data, perf_counter()
        tape.quiet += 1
        try:
            original(self, parameter, gradient, group)
        finally:
            tape.quiet -= 1
        tape.append(Updated(parameter.node, before, gradient, parameter._data, start, perf_counter()))

    return update


def _watch_compiled(name: str, original: Any) -> Any:
    """A compiled function runs as the user wrote it, operation by operation."""

    def call(self: Jit, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if _tape() is None else self._fn(*args, **kwargs)

    return call


_WATCHED: tuple[observe.Replacement, ...] = (
    (reverse, "_walk", _watch_passes),
    (Optimizer, "step", _watch_steps),
    (Optimizer, "_step_one", _watch_updates),
    (Jit, "__call__", _watch_compiled),
)
