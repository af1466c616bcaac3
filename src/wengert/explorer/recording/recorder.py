"""The recorder of runs: it writes down what every thread of a program does, as it happens.

Each thread has a `Tape`, to which it appends plain tuples and the nodes that came to be: everything
else (values in numbers, spans, scopes) is worked out afterwards (see :mod:`wengert.explorer.recording.recording`).
Values are kept by reference, which is safe since tensors are values and an optimiser writes in place only
into arrays that nobody else holds.

Of a training run one step is kept. A step ends with the optimiser's step; without one, where another backward pass
shares no node with the last and does not add to its gradients. What lies before the last whole step is let go. A step
whose update leaves parameters that are not finite is the last: later ones only carry on what was born there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from types import CodeType, FrameType
from typing import Any, NamedTuple

from ...core import tree
from ...core.errors import is_internal, user_frame
from ...core.mode import Mode, Scope, get_mode
from ...core.node import Node
from ...core.ops.op import Op
from ...core.state import locks
from ...core.state.observer import OVER, Observer, observing_all
from ...core.tensor import Tensor
from ...explain.finite import all_finite
from ...nn.module import Module
from ...optim.optimizer import Optimizer

# The call of a module: its variable `mode` has the scope.
_CALL = Module.__call__.__code__
# Code whose frames are entered again from other places: what calls them is looked up every time.
_RESUMED = 0x20 | 0x80 | 0x200  # generators, coroutines, asynchronous generators (inspect.CO_*)


# Ways, as leaks are called, in which a program updates parameters by hand.
ASSIGNMENTS = frozenset({"assign_", "x[...] = v"})
# Passes without an update between them whose gradients may add up in one step: a program has to end its steps.
MOST_PASSES = 64
# Makes a named tuple of a tuple, without the checks of its class.
_tuple: Any = tuple.__new__


class Activation:
    """One activation of a piece of the user's code: a call of a function.

    `parent` called it, at instruction `at`; None for what the recording began in. Two calls from the
    same place are two activations. `module` is the scope of the innermost module called in between, if any.
    """

    __slots__ = ("at", "code", "module", "parent")

    def __init__(self, parent: Activation | None, at: int, code: CodeType, module: Scope | None) -> None:
        self.parent = parent
        self.at = at
        self.code = code
        self.module = module


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


# A place in the user's program: code, and the instruction in it.
Called = tuple[CodeType, int]


class Updated(NamedTuple):
    """An optimiser gave a parameter a new value."""

    node: Node | None
    before: Any
    gradient: Any
    after: Any
    start: float
    end: float
    called: Called | None = None


class Optimizing(NamedTuple):
    """An optimiser of these parameters was made, or took a step."""

    parameters: Sequence[Node]
    steps: bool
    time: float


class Leaked(NamedTuple):
    """A value that left the graph: `what` is the way out (`item`, `detach`, ...), `node` the tensor's."""

    what: str
    value: Any
    node: Node | None
    activation: Activation | None
    offset: int
    time: float


class Pass(NamedTuple):
    """A backward pass begins, from these nodes with these cotangents; or ends (no roots).

    `standing` are the leaves that it comes to and that had a gradient other than 0 already, to which it adds.
    """

    roots: Sequence[tuple[Node, Any]]
    time: float
    standing: frozenset[Node] = frozenset()
    called: Called | None = None


Entry = Ran | Pulled | Updated | Optimizing | Leaked | Pass | Node


class Tape(Observer):
    """The record of one thread's operations, in order."""

    __slots__ = (
        "activation", "append", "entries", "first", "frame", "known", "recorder", "stack", "thread",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, thread: int) -> None:
        super().__init__()
        self.recorder = recorder
        self.thread = thread
        self.entries: list[Entry] = []
        self.append = self.entries.append
        # The call stack as it was: frames, the activation each is (in), the innermost user frame there, and the scope
        # of the innermost module called since.
        self.stack: list[tuple[FrameType, Activation | None, FrameType | None, Scope | None]] = []
        self.known: dict[int, int] = {}
        self.frame: FrameType | None = None
        self.activation: Activation | None = None
        self.first: list[int] = []  # where the entries of the backward passes in progress begin

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
        entry = op, inputs, out, attrs, self.activation, offset, get_mode(), start, end, self.node, node
        self.append(_tuple(Ran, entry))

    def made(self, node: Node) -> None:
        self.append(node)

    def pulled(self, node: Node, ct: Any, saved: Any, own: dict[Node, Any], recording: bool, start: float) -> None:
        self.append(_tuple(Pulled, (node, ct, saved, own, recording, start, perf_counter())))

    def leak(self, what: str, value: Any, node: Node | None) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and is_internal(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not self.frame:
            self._enter(frame)
        offset = -1 if frame is None else frame.f_lasti
        if what in ASSIGNMENTS:
            self.recorder.assigned = True
        self.append(Leaked(what, value, node, self.activation, offset, perf_counter()))

    def pass_begins(self, roots: Sequence[tuple[Node, Any]]) -> None:
        self.recorder.variables = _variables(self)
        self.first.append(len(self.entries))
        self.append(Pass(tuple(roots), perf_counter(), called=_called()))

    def pass_ends(self, found: Mapping[Node, Any] | None) -> None:
        first = self.first.pop()
        self.append(Pass((), perf_counter(), _standing(found or ())))
        if found is not None:
            self.recorder.passed(self, first)

    def optimizing(self, optimizer: Optimizer, stepped: bool) -> None:
        parameters = [p.node for group in optimizer.param_groups for p in group["params"] if p.node is not None]
        self.recorder.optimized.update(parameters)
        self.append(Optimizing(parameters, stepped, perf_counter()))
        if stepped:
            self.recorder.states[id(optimizer)] = _state_bytes(optimizer)
            self.recorder.updated()
        else:
            self.recorder.optimizer_at = _called()

    def updated(self, parameter: Tensor, before: Any, gradient: Any, after: Any, start: float, end: float) -> None:
        self.append(Updated(parameter.node, before, gradient, after, start, end, _called()))

    # -- the call stack

    def begin(self, frame: FrameType | None) -> None:
        """Take the frames that are there now for the world outside of the recording."""
        while frame is not None:
            self.stack.append((frame, None, None, None))
            frame = frame.f_back
        self.stack.reverse()
        self.known = {id(entry[0]): i for i, entry in enumerate(self.stack)}

    def close(self) -> None:
        """End the recording: nothing more is written, no frame is held."""
        self.quiet = OVER
        self.stack.clear()
        self.known.clear()
        self.frame = None

    def _enter(self, frame: FrameType | None) -> None:
        """Find the activation of a user frame: frames between it and one that is known are new calls."""
        if frame is None:
            self.frame = self.activation = None
            return
        fresh: list[FrameType] = []
        walked: FrameType | None = frame
        while walked is not None and id(walked) not in self.known:
            fresh.append(walked)
            walked = walked.f_back
        known = -1 if walked is None else self.known[id(walked)]
        # The functions called from there have returned.
        for entry in self.stack[known + 1 :]:
            del self.known[id(entry[0])]
        del self.stack[known + 1 :]
        activation, user, module = self.stack[-1][1:] if self.stack else (None, None, None)
        resumed = False
        for new in reversed(fresh):
            if not is_internal(new.f_code.co_filename):
                activation = Activation(activation, -1 if user is None else user.f_lasti, new.f_code, module)
                user, module = new, None
                resumed = bool(new.f_code.co_flags & _RESUMED)
            elif new.f_code is _CALL and (mode := new.f_locals.get("mode")) is not None:
                module = mode.scope
            if not resumed:  # what depends on a generator is asked for again
                self.known[id(new)] = len(self.stack)
                self.stack.append((new, activation, user, module))
        self.activation = activation
        self.frame = None if resumed else frame


class Moment(NamedTuple):
    """A time, and how long the tapes were then."""

    time: float
    lengths: list[int]


def _state_bytes(optimizer: Optimizer) -> int:
    """Return the bytes of all arrays that an optimiser keeps from step to step."""
    return sum(int(getattr(leaf, "nbytes", 0)) for state in optimizer.state.values() for leaf in tree.leaves(state))


class Recorder:
    """The tapes of all threads of one run. With `step` that step of a training run is kept, else the last whole one."""

    def __init__(self, step: int | None = None) -> None:
        self.wanted = step
        self.tapes: list[Tape] = []
        self.began = self.ended = 0.0  # of what is kept
        self.steps = 0  # how many whole steps were let go before it
        self._lock = locks.lock()
        self.assigned = False  # whether a tensor was given another value since the last pass
        self.optimizer_at: Called | None = None  # where the last optimiser was made
        self.optimized: set[Node] = set()  # the parameters of all optimisers that were seen, in steps let go too
        self.states: dict[int, int] = {}  # the bytes of the state of every optimiser that took a step
        self.learned: set[Node] = set()  # the leaves that gradients came to, in steps let go too
        self.variables: dict[str, Any] = {}  # what functions' variables held at the last backward pass
        self._stopped = False
        self._is_broken = False  # whether an update left parameters that are not finite
        self._passed: set[Node] | None = None  # the nodes of the backward passes of this step
        self._passes = 1  # how many, where several add up
        self._pass_end: Moment | None = None
        self._updated: Moment | None = None  # the end of an optimiser's step, after which another step begins

    def join(self) -> Tape:
        """Return a tape for this thread; one that nobody reads, where what was wanted is there."""
        with self._lock:
            tape = Tape(self, len(self.tapes))
            if self._stopped:
                tape.quiet = OVER
            else:
                self.tapes.append(tape)
        return tape

    @property
    def number(self) -> int | None:
        """The number of the step that is kept, where the run has steps."""
        return self.steps if self.steps or self.wanted is not None or self._updated is not None else None

    def notes(self) -> list[str]:
        """Return what a reader of the recording should know of the step that was kept."""
        if self._is_broken and self.steps:
            return [
                f"Shown is step {self.steps}: it leaves parameters that are not finite, and later ones carry them on."
            ]
        if self.wanted is None or self._stopped or self.steps == self.wanted:
            return []
        return [f"There is no step {self.wanted}: shown is the last one, step {self.steps}."]

    @property
    def has_passed(self) -> bool:
        """True where a backward pass has been seen that was not itself recorded."""
        return self._passed is not None or self.steps > 0

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Record what the program does inside the block, in all its threads."""
        with observing_all(self.join):
            self.tapes[0].begin(sys._getframe())
            self.began = perf_counter()
            try:
                yield self
            finally:
                self.ended = self.ended or perf_counter()
                for tape in self.tapes:
                    tape.close()

    # -- steps

    def passed(self, tape: Tape, first: int) -> None:
        """Record that a backward pass has ended, whose entries begin at `first` on this tape."""
        pulled = [e for e in tape.entries[first:] if type(e) is Pulled]
        if any(p.recorded for p in pulled):
            return  # an intermediate value: what is computed from it goes on
        nodes = {e.node for e in pulled}
        self.learned.update(entry for p in pulled for entry in p.own if entry.op.kind == "leaf")
        if self._updated is not None:
            self._step_ends(self._updated, nodes)
        elif self._passed is not None and self._pass_end is not None:
            adds_up = self._passes < MOST_PASSES and not self.assigned and _adds_up(pulled)
            if self._passed.isdisjoint(nodes) and not adds_up:
                self._step_ends(self._pass_end, nodes)
            else:
                nodes |= self._passed
                self._passes += 1
        self._updated, self._passed, self._pass_end, self.assigned = None, nodes, self._here(), False

    def updated(self) -> None:
        """Record that an optimiser's step has ended."""
        if self._passed is not None:
            self._updated = self._here()
            if self._is_wanted():
                self._stop()

    def settle(self, failed: bool) -> None:
        """End the program: what it did after its last whole step is left out, unless it failed there."""
        if self._updated is None or self._stopped:
            return
        if failed:
            self._step_ends(self._updated)
        else:
            self._keep_until(self._updated)

    def _here(self) -> Moment:
        return Moment(perf_counter(), [len(tape.entries) for tape in self.tapes])

    def _is_wanted(self) -> bool:
        """Return whether the step that ends now is the one to keep."""
        self._is_broken = self.wanted is None and not _are_finite(self.learned)
        return self._is_broken or self.wanted == self.steps

    def _step_ends(self, moment: Moment, needed: Collection[Node] = ()) -> None:
        """End a step, at this moment; if it is not the one to keep it is let go.

        What made the nodes that are `needed` stays: a generator's forward pass may be older than the critic's step.
        """
        if self._is_wanted():
            self._keep_until(moment)
            self._stop()
            return
        self.steps += 1
        self._passes = 1
        kept = [_makers(tape.entries[:length], needed) for tape, length in zip(self.tapes, moment.lengths)]
        starts = [entry.start for entries in kept for entry in entries if isinstance(entry, Ran)]
        self.began = min(starts, default=moment.time)
        for tape, length, entries in zip(self.tapes, moment.lengths, kept):
            tape.entries[:length] = entries

    def _keep_until(self, moment: Moment) -> None:
        self.ended = moment.time
        for i, tape in enumerate(self.tapes):
            del tape.entries[moment.lengths[i] if i < len(moment.lengths) else 0 :]

    def _stop(self) -> None:
        self._stopped = True
        self.ended = self.ended or perf_counter()
        for tape in self.tapes:
            tape.quiet = OVER


def _makers(entries: Sequence[Entry], nodes: Collection[Node]) -> list[Entry]:
    """Return the operations that made these nodes, each with the node that follows it."""
    found: list[Entry] = []
    if not nodes:
        return found
    for i, entry in enumerate(entries):
        if type(entry) is Ran and (made := made_by(entries, i)) is not None and made in nodes:
            found += [entry, made] if entry.node is None else [entry]
    return found


def made_by(entries: Sequence[Entry], at: int) -> Node | None:
    """Return the node that an operation made: it knows, or the tape has it next."""
    entry = entries[at]
    assert isinstance(entry, Ran)
    node = entry.node
    at += 1
    while node is None and at < len(entries) and isinstance(entries[at], Node):
        follower = entries[at]
        node = follower if isinstance(follower, Node) and follower.op is entry.op else None
        at += 1
    return node


def _adds_up(pulled: Sequence[Pulled]) -> bool:
    """Return whether a backward pass came to a leaf that has a gradient already: several passes make one update."""
    leaves = {entry for p in pulled for entry in p.own if entry.op.kind == "leaf"}
    return any((owner := leaf.variable) is not None and owner.grad is not None for leaf in leaves)


def _called() -> Called | None:
    """Return the place in the user's program from which the recorder was reached."""
    frame = user_frame(2)
    return None if frame is None else (frame.f_code, frame.f_lasti)


def _standing(leaves: Iterable[Node]) -> frozenset[Node]:
    """Return those of the leaves that have a gradient other than 0, before what came to them now is added."""
    grads = ((leaf, owner.grad) for leaf in leaves if leaf.op.name == "leaf" and (owner := leaf.variable) is not None)
    return frozenset(leaf for leaf, grad in grads if grad is not None and grad._array is not None and grad._array.any())


def _are_finite(leaves: Iterable[Node]) -> bool:
    """Return whether no parameter among the leaves holds a NaN or an infinity."""
    owners = (leaf.variable for leaf in leaves if leaf.op.name == "leaf")
    return all(owner is None or owner._array is None or all_finite(owner._array) for owner in owners)


def _variables(tape: Tape) -> dict[str, Any]:
    """Return the variables of the program's functions that are being called; inner calls hide outer ones."""
    outside = {id(frame) for frame, activation, *_ in tape.stack if activation is None}
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and id(frame) not in outside:
        if not is_internal(frame.f_code.co_filename) and frame.f_locals is not frame.f_globals:
            frames.append(frame)
        frame = frame.f_back
    return {name: value for frame in reversed(frames) for name, value in frame.f_locals.items()}
