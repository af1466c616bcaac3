"""`jit`: a function that is traced once for every kind of call, and then runs as a compiled program."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.capture import get_capture
from ...core.errors import DTypeError, GraphError, fail, user_location
from ...core.graph import Graph
from ...core.mode import get_mode
from ...core.spec import Spec, spec_of
from ...core.tensor import LEAF, Tensor
from ...core.turns import holding, turns_of
from ...ops.generator import default_generator
from ...transforms.replay import replay
from ...transforms.trace import leaf_names
from ..native.entry import Native, calls_natively
from .compiled import CacheInfo, Compiled, Inspected, Lowered
from .entry import compiled_call
from .executor import Executor, executor
from .fast import MISS, shortcut
from .history import History, Record, facts_of
from .program import Path
from .signature import (
    Call,
    CallAgain,
    Fix,
    Numbers,
    Statics,
    argument_numbers,
    arrangement,
    as_array,
    as_tuple,
    take_apart,
)
from .surroundings import Surroundings, explore
from .tracing import TRACING, Argument, Traced, run_trace
from .verify import Verified

# Programs that one function keeps, and courses through its decisions that one program keeps.
_PROGRAMS = 256
_PATHS = 128
_MANY_PATHS = 16
# Short ways that a call tries, the newest first, and courses that one of them knows.
_SHORT = 8
_COURSES = 32


# The course that a run took, the values of all outputs, and these as tensors where they carry gradients.
Taken = tuple[tuple[bytes, ...], list[Any], list[Tensor] | None]


class Program:
    """What a call of one kind runs: a path for every course that its decisions have taken so far."""

    __slots__ = ("call", "around", "paths", "warned")

    def __init__(self, call: Call, around: Surroundings) -> None:
        self.call = call
        self.around = around
        self.paths: list[Path] = []
        self.warned = False


class Short(NamedTuple):
    """The short ways for calls of one kind, and what they are made of."""

    ways: tuple[Callable[..., Any], ...]
    around: Surroundings
    program: Program
    paths: list[Path]


class Jit(Inspected, Native):
    """A compiled function: what :func:`jit` returns."""

    __slots__ = ("__dict__", "__weakref__")

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        self._fn = fn
        self._options = options
        self._name = options.name or str(getattr(fn, "__name__", type(fn).__name__))
        self._donated = frozenset(as_tuple(options.donate_argnums))
        self._statics = Statics(fn, options.static_argnums, options.static_argnames)
        self._numbers = Numbers()
        self._around: dict[tuple[Any, ...], Surroundings] = {}
        self._programs: dict[tuple[Any, ...], list[Program]] = {}
        self._history = History(self._name)
        self._last: Path | None = None
        self._short: tuple[Callable[..., Any], ...] = ()
        self._shortened: dict[tuple[Any, ...], Short] = {}
        self._hidden: list[Tensor] = []
        self._fixed: list[Tensor] = []
        functools.update_wrapper(self, fn, updated=())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, made first where there is none."""
        if not kwargs:
            for short in self._short:
                found = short(*args)
                if found is not MISS:
                    return found
        if get_capture() is not None or get_mode().tracing:
            return self._fn(*args, **kwargs)
        call = take_apart(args, kwargs, self._statics, self._numbers, self._name)
        if any(isinstance(leaf, Tensor) and leaf.is_abstract for leaf in call.leaves):
            return self._fn(*args, **kwargs)
        around = self._surroundings(call)
        try:
            program = self._program(call, around)
            return self._run(program, call, around)
        except CallAgain:
            return self(*args, **kwargs)

    # -- finding the program

    def _surroundings(self, call: Call) -> Surroundings:
        owners = tuple(id(x) for _, x in call.owners)
        found = self._around.get(owners)
        if found is not None and _holds(found):
            return found
        with TRACING:
            roots = [(self._name, self._fn), *((f"argument {i}", x) for i, x in call.owners)]
            found = explore(roots, [default_generator, *self._hidden], self._fixed)
            if len(self._around) >= _PROGRAMS:
                self._around.clear()
            self._around[owners] = found
        return found

    def _program(self, call: Call, around: Surroundings) -> Program:
        mode = get_mode()
        leaves = [call.leaves[i] for i in call.positions]
        shared = tuple(around.numbers.get((id(x),), -1) for x in leaves) if around.numbers else ()
        key = (call.key, around.key, shared, mode.grad, mode.floats)
        bucket = self._programs.get(key)
        if bucket is not None:
            for program in bucket:
                if program.call.structure == call.structure:
                    return program
        if self._numbers.notice(call, [p.call for ps in self._programs.values() for p in ps]):
            raise CallAgain
        program = Program(call.outline, around)
        if len(self._programs) >= _PROGRAMS:
            self._programs.pop(next(iter(self._programs)))
        self._programs.setdefault(key, []).append(program)
        return program

    # -- running

    def _run(self, program: Program, call: Call, around: Surroundings) -> Any:
        tried: set[int] = set()
        paths = [p for p in program.paths if p.grads_fit(call.leaves, call.positions, around)]
        path = paths[-1] if paths else None
        while path is not None:
            try:
                course, outputs, carried = self._take(path, call, around, program)
            except CallAgain:
                raise
            except Exception:
                if not path.decisions:
                    raise
                break  # perhaps on a course that this call does not take
            if course is path.decisions:
                if path is not program.paths[-1]:
                    program.paths.remove(path)
                    program.paths.append(path)
                self._last = path
                return path.results(outputs, carried)
            tried.add(id(path))
            # The longest of those that it may be shows where it ends.
            fits = [p for p in paths if id(p) not in tried and _starts(p, course)]
            path = max(fits, key=lambda p: len(p.decisions), default=None)
        return self._run_new(program, call, around)

    def _take(self, path: Path, call: Call, around: Surroundings, program: Program | None = None) -> Taken:
        """Run a course, in its turn, and give all that it writes to its new value if it is the one to be taken.

        Where it is, short ways are made for the next calls that come to `program`.
        """
        turns = path.turns(call.leaves, call.positions, around)
        old: list[Any] = []  # its end comes when the turns are given back
        if not turns:
            return self._taken(path, call, around, old, program)

        def alone() -> Taken:
            # What is looked at before may have been changed by who had the turn.
            if not (path.stands(around) and path.grads_fit(call.leaves, call.positions, around)):
                self._around.clear()
                raise CallAgain
            return self._taken(path, call, around, old, program)

        return holding(turns, alone)

    def _taken(
        self,
        path: Path,
        call: Call,
        around: Surroundings,
        old: list[Any],
        program: Program | None = None,
        is_known: bool = False,
    ) -> Taken:
        """The course that its decisions, where they are not known, turn out to take; all outputs, also as tensors.

        What stood where it writes to is put into `old`.
        """
        where = call.leaves, call.positions, around
        with TRACING:
            feeds = path.feeds(*where)
        course = path.decisions if is_known else path.found_first(feeds)
        if course is not path.decisions:
            return course, [], None

        def commit(outputs: list[Any], calls: Iterable[Any] = (), carried: list[Tensor] | None = None) -> None:
            if program is not None:
                self._shorten(program, call, around, path)
            if path.writes:
                path.commit(outputs, carried, *where, old, calls)

        if path.writes and not path.carries and not path.decisions:
            return course, path.executor.run_at_once(feeds, commit), None
        outputs, carried = self._outputs(path, feeds, call, around)
        course = path.decisions if is_known else path.found(outputs)
        if course is path.decisions:
            commit(outputs, carried=carried)
        return course, outputs, carried

    def _outputs(
        self, path: Path, feeds: list[Any], call: Call, around: Surroundings
    ) -> tuple[list[Any], list[Tensor] | None]:
        """The values of all outputs, and as tensors that carry gradients on where there are such."""
        if not path.carries:
            return path.executor.run(feeds), None
        inputs = path.tensors(feeds, call.leaves, call.positions, around)
        if path.traced.has_effects:  # which a backward pass is not to repeat
            outs = replay(path.graph, inputs)
        else:
            outs = path.recorded(self._compile, inputs)
        return [t._data for t in outs], outs

    def _run_new(self, program: Program, call: Call, around: Surroundings) -> Any:
        """Trace the course that this call takes, and run it."""
        self._last = path = self._new_path(program, call, around)
        course, outputs, carried = self._take(path, call, around)
        if course is path.decisions:
            return path.results(outputs, carried)

        # Another thread has written to what the decisions hang on, or native code rounds otherwise: the trace decides.
        old: list[Any] = []

        def alone() -> Any:
            self._last = path = self._new_path(program, call, around)
            _, outputs, carried = self._taken(path, call, around, old, is_known=True)
            return path.results(outputs, carried)

        return holding(turns_of((c.key, c.turn) for c in around.cells), alone)

    def _new_path(self, program: Program, call: Call, around: Surroundings) -> Path:
        """The course that this call takes, found by tracing it."""
        traced = self._trace(call, around)
        course = tuple(g.value for g in traced.guards)
        for path in program.paths:
            if path.decisions == course and path.grads_fit(call.leaves, call.positions, around):
                return path
        path = self._path(traced, call)
        self._add(program, path)
        return path

    def _shorten(self, program: Program, call: Call, around: Surroundings, path: Path) -> None:
        """Make the short ways for calls like this one, anew where there are more courses for them to know."""
        if not path.is_settled:
            return
        reads = path.traced.grads_read
        mark = (id(around), id(program), reads, *map(type, call.leaves))
        known = self._shortened.get(mark)
        if known is not None and (path in known.paths or len(known.paths) == _COURSES):
            return
        others = (p for p in reversed(program.paths) if p is not path and p.decisions and p.traced.grads_read == reads)
        paths = [path, *(p for p in others if p.is_settled)][:_COURSES]
        native = compiled_call(call, around, paths, MISS)
        if native is not None and calls_natively(type(self)):
            self.call_by(native)
        made = tuple(f for f in (native, shortcut(call, around, path)) if f is not None)
        if len(self._shortened) >= _PROGRAMS:
            self._shortened.clear()
        # Alive, so that no other object has the identity of one of them.
        self._shortened[mark] = Short(made, around, program, paths)
        old = known.ways if known is not None else ()
        self._short = (*made, *(f for f in self._short if f not in old))[:_SHORT]

    def _add(self, program: Program, path: Path) -> None:
        if len(program.paths) >= _PATHS:
            program.paths.pop(0)
        program.paths.append(path)
        if path.traced.guards and len(program.paths) > _MANY_PATHS and not program.warned:
            program.warned = True
            guard = path.traced.guards[-1]
            warnings.warn(
                f"{self._name} took {len(program.paths)} courses by {guard.what} of a tensor ({guard.where})\n"
                "It is traced anew for each. Write wg.while_loop for a loop that ends on a value, wg.where or "
                "wg.cond for a choice.",
                RuntimeWarning,
                stacklevel=5,
            )

    # -- looking inside

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for arguments of these kinds, without running: specs (`wg.spec`) stand for tensors to come.

        Decisions on values that hang on a spec are an error: there is nothing to take them by.

        >>> import wengert as wg
        >>> compiled = wg.jit(lambda x: x * 2 + 1).lower(wg.spec((3,))).compile()
        >>> compiled(wg.ones(3))
        tensor([3., 3., 3.])
        """
        try:
            call = take_apart(args, kwargs, self._statics, self._numbers, self._name)
            around = self._surroundings(call)
            program = self._program(call, around)
            traced = self._trace(call, around)
        except CallAgain:
            return self.lower(*args, **kwargs)

        def compile() -> Compiled:
            path = self._path(traced, call)
            self._add(program, path)
            return Compiled(self, path, self._prepared)

        return Lowered(traced.graph, compile)

    def _shown(self) -> Path:
        if self._last is None:
            fail(GraphError, f"{self._name} has no program yet", "Call it first, or use lower(...).compile().")
        return self._last

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        call = take_apart(args, kwargs, self._statics, self._numbers, self._name)
        if any(isinstance(leaf, Spec) or (isinstance(leaf, Tensor) and leaf.is_abstract) for leaf in call.leaves):
            fail(GraphError, f"a trace of {self._name} for arguments without values", "Give it what a call is given.")
        try:
            around = self._surroundings(call)
            program = self._program(call, around)
            # A program that takes decisions has several courses, of which only a trace says which one it is.
            fits = (p for p in program.paths if not p.decisions and p.grads_fit(call.leaves, call.positions, around))
            path = next(fits, None) or self._new_path(program, call, around)
        except CallAgain:
            return self._prepared(args, kwargs)
        with TRACING:
            return path, path.feeds(call.leaves, call.positions, around)

    def why_recompiled(self) -> str:
        """What every trace of the function was made for, and how it differs from the one most like it before."""
        return self._history.text()

    def cache_info(self) -> CacheInfo:
        """How many programs and courses are kept, and how often the function was traced."""
        programs = [p for bucket in self._programs.values() for p in bucket]
        return CacheInfo(len(programs), sum(len(p.paths) for p in programs), self._history.count)

    def clear_cache(self) -> None:
        """Forget all programs."""
        with TRACING:
            self._programs.clear()
            self._around.clear()
            self._short, self._shortened, self._last = (), {}, None
            self.call_by(None)

    # -- tracing

    def _trace(self, call: Call, around: Surroundings) -> Traced:
        with TRACING:
            try:
                names = list(leaf_names(self._fn, call.structure))
                traced = self._traced(call, around, names)
            except CallAgain:
                raise
            except Exception:
                # Perhaps only because a Python number was wanted where an abstract scalar stood.
                if self._numbers.failed(call):
                    raise CallAgain from None
                raise
            self._numbers.succeeded()
            facts = facts_of(names, call.key, around.facts, get_mode())
            self._history.add(
                Record(user_location(), facts, tuple(f"{g.what} at {g.where} is {g.answer}" for g in traced.guards))
            )
            return traced

    def _traced(self, call: Call, around: Surroundings, names: Sequence[str]) -> Traced:
        arguments = [_argument(i, names[i], call.leaves[i]) for i in call.positions]
        before = [t._data for t in self._fixed]
        try:
            traced, strangers = run_trace(self._fn, self._name, arrangement(call), arguments, around)
        except Fix as found:
            self._fixed += found.tensors
            self._around.clear()
            raise CallAgain from None
        for t, data in zip(self._fixed, before, strict=True):
            if t._data is not data or any(t is s for s in strangers):
                t._data = data
                fail(
                    GraphError,
                    f"{self._name} writes to a tensor from outside by whose value its shapes go, {t.spec}",
                    "A mask or a count is a constant of a compiled program: write to it outside of the function.",
                )
        if strangers:
            self._hidden += strangers
            self._around.clear()
            raise CallAgain
        return traced

    def _compile(self, graph: Graph, donated: Sequence[bool] | None) -> Executor:
        # What is computed twice needs its inputs twice.
        return Verified(graph) if self._options.verify else executor(graph, donated)

    def _path(self, traced: Traced, call: Call) -> Path:
        """The program for a trace of a call."""
        given = {}
        if self._donated:
            numbers = argument_numbers(call.structure, self._statics.parameters)
            written = {i for i, *_ in (*traced.argument_writes, *traced.argument_grads)}
            written |= {source.number for source, _ in traced.flag_writes if source.kind == "argument"}
            for kind, i in traced.sources:
                leaf = call.positions[i] if kind == "argument" else -1
                if kind != "argument" or i in written or numbers[leaf] not in self._donated:
                    continue
                if isinstance(call.leaves[leaf], (Tensor, Spec)) and not getattr(
                    call.leaves[leaf], "requires_grad", False
                ):
                    given[i] = f"as argument {numbers[leaf]} of {self._name}"
        return Path(traced, self._compile, given)


def _holds(around: Surroundings) -> bool:
    try:
        return around.holds()
    except AttributeError:  # another thread is tracing: abstract tensors stand there just now
        return False


def _starts(path: Path, course: tuple[bytes, ...]) -> bool:
    return path.decisions[: len(course)] == course


@dataclass(frozen=True)
class Options:
    """What `jit` was told."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    verify: bool
    reproducible: bool
    name: str | None


def _argument(index: int, name: str, leaf: Any) -> Argument:
    if isinstance(leaf, Spec):
        return Argument(index, name, None, leaf, Tensor)
    if isinstance(leaf, Tensor):
        collects = leaf.node is not None and leaf.node.op is LEAF
        tracked = leaf.requires_grad and not collects
        value = leaf._data
        return Argument(index, name, value, leaf.spec, type(leaf), collects, tracked, False, leaf.grad, leaf)
    value = as_array(leaf)
    weakly = not isinstance(leaf, (np.ndarray, np.generic))
    return Argument(index, name, value, spec_of(value.shape, value.dtype), Tensor, weakly=weakly)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    verify: bool = False,
    reproducible: bool = False,
    name: str | None = None,
) -> Any:
    """The function, compiled: traced once for every kind of call, then run as native code.

    Parameters
    ----------
    fn: any function of nests of tensors, arrays, numbers, modules and optimisers; a gradient; a
        whole training step (`loss.backward(); opt.step()`). Left out, `jit` is a decorator with options.
    static_argnums, static_argnames: arguments that are part of the program, by value: hashable,
        and traced anew for each value.
    donate_argnums: arguments that the caller needs no more, whose memory results may take. Their tensors
        are then an error to use. What anything else refers to is copied first, as is state outside.
    verify: compute everything by the interpreter too, and raise where native code differs,
        naming the first operation that does. What prints or calls back does so twice.
    reproducible: the same bits whatever the number of threads. It is always so: how work is divided never shows
        in a result.
    name: what errors and graphs call it.

    Tensors that the function finds outside (globals, closures, attributes, optimiser state, generators) are
    read anew in every call, and what it writes to them is written. Python numbers among the arguments
    may change without a new trace. An `if` or `while` on a tensor's value is decided by the value in
    each call; every course that the program takes is traced once. Anything else that Python does
    (print, append to a list) happens only while tracing; `wg.debug.print` and `wg.callback` are for that.
    NumPy arrays outside are constants of the program: pass what changes as a tensor or an argument.

    Inside `grad`, `vmap`, `scan` and so on, and inside another compiled function, it is traced with the
    rest; gradients flow through it as through the function.

    The result shows what was made: `graph`, `plan`, `kernels`, `ir`, `asm`, `memory`, `trace(...)`,
    `why_recompiled()`, `cache_info()`, `clear_cache()`, and `lower(*specs).compile()` makes a
    program before the first call.

    Raises GraphError where the function needs a value as Python has it (`item()`, `numpy()`, print).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 2.0], requires_grad=True)
    >>> @wg.jit
    ... def step(x, lr):
    ...     loss = ((w * x).sum() - 1) ** 2
    ...     w.grad = None
    ...     loss.backward()
    ...     with wg.no_grad():
    ...         w.sub_(lr * w.grad)
    ...     return loss
    >>> [round(float(step(wg.ones(2), 0.1)), 3) for _ in range(3)]
    [4.0, 1.44, 0.518]
    """
    options = Options(static_argnums, static_argnames, donate_argnums, verify, reproducible, name)
    if fn is None:
        return lambda inner: Jit(inner, options)
    if not callable(fn):
        fail(DTypeError, f"jit of a {type(fn).__name__}, which is not a function")
    return Jit(fn, options)
