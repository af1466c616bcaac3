"""`jit`: a function that is traced once for every kind of call, and then runs as a compiled program."""

from __future__ import annotations

import copy
import functools
import os
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from ...core.dims import Dim
from ...core.elsewhere import CPU
from ...core.errors import DTypeError, GraphError, TraceError, fail, user_location, warn
from ...core.mode import Mode, get_mode
from ...core.spec import Spec
from ...core.state.capture import get_capture
from ...core.state.collector import seldom
from ...core.state.looking import after_look, looking
from ...core.state.observer import observer, observers
from ...core.state.refusals import OF_TRACES
from ...core.state.turns import holding, turns_of
from ...core.tensor import Tensor
from ...ops.random.generator import default_generator
from ...transforms.tracing.replay import replay
from ...transforms.tracing.trace import leaf_names
from ..engines import XLA, Engine, chosen, named, of_placed
from ..native.budget.within import Limit
from ..native.dispatch.entry import Native, calls_natively
from ..native.run.spilling import folder_of
from .capture.captured import Captures
from .capture.outside import Outside
from .capture.reading import Mentioned, Ran, Reads, recording
from .capture.search import explore
from .capture.ties import Tie, ties_of
from .compiled import CacheInfo, Compiled, Inspected, Lowered, UnpicklableError, is_found_by_name
from .dispatch import native, python
from .dispatch.program import MISS
from .dispatch.writer import dispatch_program
from .executor import CompileGraph, at_device, executor, on_xla
from .guests import Guest, Guests, Short, Way, origin
from .guests import Name as GuestName
from .history import DRAWS, History, Record, facts_of, is_plain_fact
from .options import Options, nbytes_of
from .program import Path, kept_here, place_of_program
from .signature import (
    Call,
    CallAgain,
    Fix,
    Numbers,
    Raised,
    Statics,
    argument_numbers,
    arrangement,
    as_tuple,
    run_as_written,
    take_apart,
)
from .tracing import TRACING, Argument, Traced, argument_of, run_trace
from .variants import Program, Programs
from .verify import verified

# Traces of so many paths through one program bring a warning.
_MANY_PATHS = 16
# Fast paths that a call tries, the newest first, paths that one of them knows, and calls of late among which one of
# its kind has to be for them to be made.
_SHORT = 8
_COURSES = 32
_LATE = 8
# The times that the known reads of traces may grow; after that all that can be reached counts.
_READS = 8
# Traces in a row that may meet tensors unknown to the search: one finds all that there are, some more where paths
# depend on them.
_MEETINGS = 4


# The path that a run took, the values of all outputs, and these as tensors where they carry gradients.
Taken = tuple[tuple[bytes, ...], list[Any], list[Tensor] | None]


class Found(NamedTuple):
    """The program of a call, found by the function's captured state."""

    program: Program
    captures: Captures
    guest: Guest


class Jit(Inspected, Native):
    """A compiled function, as :func:`jit` returns it.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: wg.exp(x).sum())
    >>> f(wg.zeros(3))
    tensor(3.)
    >>> len(f.kernels), len(f.plan.steps)
    (1, 1)
    """

    __slots__ = ("__dict__", "__weakref__")

    # The number of ranks that run a program together.
    _ranks = 1

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        self._fn = fn
        self._options = options
        self._name = options.name or str(getattr(fn, "__name__", type(fn).__name__))
        self._donated = frozenset(as_tuple(options.donate_argnums))
        self._statics = Statics(fn, options.static_argnums, options.static_argnames)
        self._numbers = Numbers()
        # The reads of traces, the newest first, and last None, for all that can be reached.
        self._reads: list[Reads | None] = [None]
        self._watches = True
        # True where programs depend on which tensors are views of one another.
        self._ties = False
        self._mentioned: Mentioned | None = None
        self._compile = _compiler(options)
        self._home = Guest()
        self._guests = Guests(self._left)
        self._programs = Programs()
        self.history = History(self._name)
        self._warning: str | None = None
        self._last: Path | None = None
        self._short: tuple[Way, ...] = ()
        self._called_for: GuestName = ()
        self._made = 0
        self._late: deque[tuple[Any, ...]] = deque(maxlen=_LATE)
        self._hidden: list[weakref.ref[Tensor]] = []
        self._met = 0  # how many traces in a row met tensors that no search had found
        # Masks and counts from outside, which are constants by their values.
        self._fixed: list[weakref.ref[Tensor]] = []
        # Whether modules among its results have attributes of those that it is given or finds.
        self._copies = False
        self._forms: dict[Any, Callable[..., Any]] = {}
        functools.update_wrapper(self, fn, updated=())

    def _form(self, key: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a transform of this function, `fn`, as a program that is kept under a key; as it is if there is none."""
        if type(self) is not Jit or get_capture() is not None or get_mode().tracing:
            return fn(*args, **kwargs)
        made = self._forms.get(key)
        if made is None:
            made = self._forms[key] = Jit(fn, replace(self._options, donate_argnums=None))
        try:
            return made(*args, **kwargs)
        except (GraphError, TraceError):
            if made is fn:
                raise
        self._forms[key] = fn  # what it does outside has no program, or the error comes again
        return fn(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _made_of(self) -> tuple[Any, ...]:
        """Return what this was made of beside the function, in the order in which `__init__` takes it."""
        return (self._options,)

    def __copy__(self) -> Jit:
        return type(self)(self._fn, *self._made_of())

    def __deepcopy__(self, memo: dict[int, Any]) -> Jit:
        """Return a compiled function of a copy of what it is bound to; programs are made anew."""
        made: Jit = type(self).__new__(type(self))
        memo[id(self)] = made  # which the function may lead to
        made.__init__(copy.deepcopy(self._fn, memo), *self._made_of())  # type: ignore[misc]
        return made

    def __reduce__(self) -> Any:
        """Pickle by name where it is found under that, else by its parts; programs are made anew."""
        named = self.__dict__.get("__qualname__", "")
        if is_found_by_name(self, self.__dict__.get("__module__"), named):
            return named
        fn = self._fn
        if isinstance(fn, types.FunctionType) and not is_found_by_name(fn, fn.__module__, fn.__qualname__):
            fail(
                UnpicklableError,
                f"{self._name}, a compiled function, cannot be pickled: it is not found as {fn.__qualname__} in "
                f"{fn.__module__}",
                "Python pickles functions by their names. Define the function at the top of a module, or pickle what "
                "it is made of, and compile it where that is loaded.",
            )
        return self.parts()

    def parts(self) -> tuple[Callable[..., Jit], tuple[Any, ...]]:
        """Return what makes another of it, and what that is given: how it is pickled where no name leads to it."""
        return type(self), (self._fn, *self._made_of())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program for these arguments, made first where there is none."""
        if observers:
            seen = observer()
            if seen is not None and seen.inlines:
                return self._fn(*args, **kwargs)
        elif not kwargs:
            for short in self._short:
                found = short(*args)
                if found is not MISS:
                    return found
        if get_capture() is not None or get_mode().tracing:
            return self._fn(*args, **kwargs)
        call = take_apart(args, kwargs, self._statics, self._numbers, self._name)
        if any(isinstance(leaf, Tensor) and leaf.is_abstract for leaf in call.leaves):
            return self._fn(*args, **kwargs)
        try:
            with TRACING:
                found = self._find(call)
            return self._run(call, found)
        except Raised as raised:
            error = raised.error
        except CallAgain:
            return self(*args, **kwargs)
        return run_as_written(self._fn, self._name, error, args, kwargs)

    # -- finding the program (while no other thread traces)

    def _find(self, call: Call) -> Found:
        """Return the program for a call; a new one, which is not kept yet, where there is none."""
        guest = self._guests.of([x for _, x in call.owners]) if call.owners else self._home
        first = None
        for reads in self._reads:
            captures = self._captures(call, guest, reads)
            key = self._key(call, captures, reads)
            program = self._programs.find(key, call)
            if program is not None:
                if not self._ties and any(p.shares for p in program.paths) and _ties_of(call, captures):
                    self._ties = True
                    raise CallAgain
                return Found(program, captures, guest)
            first = first or (key, captures)
        if self._numbers.notice(call, [p.call for p in self._programs]):
            raise CallAgain
        assert first is not None
        return Found(Program(first[0], call.outline), first[1], guest)

    def _captures(self, call: Call, guest: Guest, reads: Reads | None) -> Captures:
        found = guest.captures(reads)
        if found is not None:
            return found
        roots = [(self._name, self._fn), *((f"argument {i}", x) for i, x in call.owners)]
        always = [default_generator, *_alive(self._hidden)]
        found = explore(roots, always, reads, self._mentioned, _alive(self._fixed), self._copies)
        self._mentioned = found.mentioned if reads is None else self._mentioned
        self._drop(guest.learn(reads, found))
        return found

    def _key(self, call: Call, captures: Captures, reads: Reads | None) -> tuple[Any, ...]:
        leaves = [call.leaves[i] for i in call.positions]
        shared = tuple(captures.numbers.get((id(x),), -1) for x in leaves) if captures.numbers else ()
        ties = _ties_of(call, captures) if self._ties else ()
        return reads, call.key, captures.key, (shared, ties), _key_of(get_mode())

    # -- running

    def _run(self, call: Call, found: Found) -> Any:
        program, captures, _ = found
        tried: set[Path] = set()
        with TRACING:
            forks = program.fitting(call, captures)
            path = program.latest(forks)
        while path is not None and path not in tried:
            try:
                decisions, outputs, carried = self._take(call, found, path)
            except CallAgain:
                raise
            except Exception:
                if not path.decisions:
                    raise
                break  # perhaps on a path that this call does not take
            if decisions is path.decisions:
                return path.results(outputs, carried, call.leaves, call.positions, captures)
            tried.add(path)
            path = program.along(forks, decisions)
        return self._run_new(call, found)

    def _take(
        self,
        call: Call,
        found: Found,
        path: Path,
        stood: Mapping[tuple[int, Any], Any] | None = None,
        done: list[bool] | None = None,
    ) -> Taken:
        """Run a path while holding its turns, and write all that it writes if it is the path to be taken.

        Raises CallAgain where others have put something else where it reads: `stood` says what it was, by holder and
        name, for a path that was just traced. See `_taken` for `done`.
        """
        captures = found.captures
        turns = path.turns(call.leaves, call.positions, captures)
        old: list[Any] = []  # its end comes when the turns are given back
        if not turns:
            return self._taken(call, found, path, old, done)

        def alone() -> Taken:
            # The holder of the turn may have changed what was checked before.
            if not (
                path.stands(captures, captures.stood if stood is None else stood)
                and path.grads_fit(call.leaves, call.positions, captures)
            ):
                raise CallAgain
            return self._taken(call, found, path, old, done)

        return holding(turns, alone)

    def _taken(
        self,
        call: Call,
        found: Found,
        path: Path,
        old: list[Any],
        done: list[bool] | None = None,
        is_known: bool = False,
    ) -> Taken:
        """Return the path that its decisions, where not known, turn out to take; all outputs, also as tensors.

        What stood where it writes to is put into `old`. `done` is for the run of a new path: it is filled when
        everything is written. Others have fast paths made for the next calls.
        """
        where = call.leaves, call.positions, found.captures
        with TRACING:
            feeds = path.feeds(*where)
        decisions = path.decisions if is_known else path.found_first(feeds)
        if decisions is not path.decisions:
            return decisions, [], None

        def commit(outputs: list[Any], calls: Iterable[Any] = (), carried: list[Tensor] | None = None) -> None:
            if done is None:
                with TRACING:
                    self._programs.use(found.program, path)
                    self._last = path
                    self._shorten(call, found, path)
            else:
                calls = [*calls, (done.append, True)]
            if path.writes:
                path.commit(outputs, carried, *where, old, calls)

        if path.writes and not path.carries and not path.decisions:
            return decisions, path.executor.run_at_once(feeds, commit), None
        outputs, carried = self._outputs(path, feeds, call, found.captures)
        decisions = path.decisions if is_known else path.found(outputs)
        if decisions is path.decisions:
            commit(outputs, carried=carried)
        return decisions, outputs, carried

    def _outputs(
        self, path: Path, feeds: list[Any], call: Call, captures: Captures
    ) -> tuple[list[Any], list[Tensor] | None]:
        """Return the values of all outputs, and as tensors that carry gradients on where there are such."""
        if not path.carries:
            return path.executor.run(feeds), None
        inputs = path.tensors(feeds, call.leaves, call.positions, captures)
        if path.traced.has_effects:  # which a backward pass is not to repeat
            outs = replay(path.graph, inputs)
        else:
            outs = path.recorded(inputs)
        return [t._array for t in outs], outs

    def _run_new(self, call: Call, found: Found) -> Any:
        """Trace the path that this call takes, and run it."""
        path, (decisions, outputs, carried) = self._trace_and_run(
            call, found, lambda path, stood, done: self._take(call, found, path, stood, done)
        )
        if decisions is not path.decisions:
            # Others have written to what the decisions depend on, or native code rounds otherwise: the trace decides.
            old: list[Any] = []
            taken = lambda path, _, done: self._taken(call, found, path, old, done, is_known=True)
            path, (_, outputs, carried) = holding(
                turns_of((c.key, c.turn) for c in found.captures.cells), lambda: self._trace_and_run(call, found, taken)
            )
        text, self._warning = self._warning, None
        if text is not None:
            warn(text)
        return path.results(outputs, carried, call.leaves, call.positions, found.captures)

    def _trace_and_run(
        self, call: Call, found: Found, run: Callable[[Path, Mapping[tuple[int, Any], Any], list[bool]], Taken]
    ) -> tuple[Path, Taken]:
        """Trace, and run the path that was traced.

        Where it is interrupted, or comes to nothing, what Python's code has changed outside is undone.
        """
        path, outside = self._new_path(call, found)
        self._last = path
        done: list[bool] = []
        try:
            taken = run(path, outside.left, done)
        except CallAgain:
            outside.undo()
            raise
        except Exception:
            raise
        except BaseException:
            if not done:
                outside.undo()
            raise
        if taken[0] is not path.decisions:
            outside.undo()
        return path, taken

    def _new_path(self, call: Call, found: Found) -> tuple[Path, Outside]:
        """Trace the path that this call takes; return it, and the values outside before."""
        with seldom():
            return self._new_path_of(call, found)

    def _new_path_of(self, call: Call, found: Found) -> tuple[Path, Outside]:
        program, captures, _ = found
        traced, outside = self._trace(call, found)
        decisions = tuple(g.value for g in traced.guards)
        with TRACING:
            for path in program.paths:
                if path.decisions == decisions and path.grads_fit(call.leaves, call.positions, captures):
                    return path, outside
        try:
            path = self._path(traced, call, captures)
        except Exception:
            raise
        except BaseException:
            outside.undo()
            raise
        if traced.is_repeatable:
            self._add(program, path)
        return path, outside

    def _shorten(self, call: Call, found: Found, path: Path) -> None:
        """Make the fast paths for calls like this one, anew where there are more paths for them to know."""
        if not path.is_settled:
            return
        program, captures, guest = found
        reads = path.traced.grads_read
        mark = (id(captures), id(program), reads, *map(type, call.leaves))
        known = guest.shorts.get(mark)
        if known is None or (path not in known.paths and len(known.paths) < _COURSES):
            # Where there are many kinds of calls, one that seldom comes again would pay more for its fast path than
            # that could save.
            is_usual = self._made < _SHORT or mark in self._late
            self._late.append(mark)
            if not is_usual:
                return
            self._made += 1
            others = (p for p in reversed(program.paths) if p is not path and p.decisions and p.is_settled)
            paths = [path, *(p for p in others if p.traced.grads_read == reads)][:_COURSES]
            known = Short(_fast_paths(call, captures, paths), captures, program, paths)
            # The mark's objects stay alive with it, so that no other object can take on their identity.
            self._drop(guest.keep(mark, known))
        self._prefer(known, guest)

    def _prefer(self, short: Short, guest: Guest) -> None:
        """Try these fast paths first from now on."""
        if tuple(map(origin, self._short[: len(short.ways)])) == short.ways:
            return
        rest = (w for w in self._short if origin(w) not in short.ways)
        self._short = (*guest.offered(short), *rest)[:_SHORT]
        called = next((w for w in short.ways if isinstance(w, types.BuiltinFunctionType)), None)
        if called is not None and calls_natively(type(self)):
            self.call_by(called)
            self._called_for = guest.name

    def _drop(self, ways: Collection[Way]) -> None:
        """Try fast paths no more."""
        if ways:
            self._short = tuple(w for w in self._short if origin(w) not in ways)
            now = getattr(self, "_called", None)
            if any(isinstance(w, types.BuiltinFunctionType) and w.__self__ is now for w in ways):
                self.call_by(None)

    def _left(self, name: GuestName) -> None:
        """Drop the fast paths of calls whose objects are gone."""
        self._short = tuple(w for w in self._short if getattr(w, "guest", ()) != name)
        if self._called_for == name:
            self.call_by(None)
            self._called_for = ()

    def _add(self, program: Program, path: Path) -> None:
        with TRACING:
            gone = self._programs.add(program, path, self._in_use)
            for guest in (self._home, *self._guests) if gone else ():
                self._drop(guest.forget(lambda short: any(p in gone for p in short.paths)))
        if path.traced.guards and len(program.paths) > _MANY_PATHS and not program.warned:
            program.warned = True
            guard = path.traced.guards[-1]
            self._warning = (
                f"{self._name} took {len(program.paths)} paths by {guard.what} of a tensor ({guard.where})\n"
                "It is traced anew for each. Write wg.while_loop for a loop that ends on a value, wg.where or "
                "wg.cond for a choice."
            )

    def _in_use(self) -> list[Path]:
        """Return the paths of the fast paths that calls try."""
        ways = set(map(origin, self._short))
        shorts = (s for guest in (self._home, *self._guests) for s in guest.shorts.values())
        return [p for s in shorts if not ways.isdisjoint(s.ways) for p in s.paths]

    # -- looking inside

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for arguments of these kinds, without running: specs (`wg.spec`) stand for tensors to come.

        Decisions on values that depend on a spec are an error: there is nothing to take them by. What the function's
        Python code changes outside is as it was before, and so are modules and optimisers.

        >>> import wengert as wg
        >>> compiled = wg.jit(lambda x: x * 2 + 1).lower(wg.spec((3,))).compile()
        >>> compiled(wg.ones(3))
        tensor([3., 3., 3.])
        """
        try:
            with looking():
                call = take_apart(args, kwargs, self._statics, self._numbers, self._name)
                with TRACING:
                    found = self._find(call)
                traced, _ = self._trace(call, found)
        except Raised as raised:
            raise raised.error from None
        except CallAgain:
            return self.lower(*args, **kwargs)

        def compile() -> Compiled:
            unknown = [d for n in traced.graph.inputs for d in n.spec.shape if isinstance(d, Dim)]
            if unknown:
                fail(
                    GraphError,
                    f"{self._name} was lowered for an open size, {unknown[0]}, and is compiled for known ones",
                    "Give lower() specs with sizes; a call compiles for those that it brings.",
                )
            path = look(lambda: self._path(traced, call, found.captures))
            if traced.is_repeatable:
                self._add(found.program, path)
            return Compiled(self, path, self._prepared, call, found.captures)

        def look(use: Callable[[], Any]) -> Any:
            with looking():
                self._captures(call, found.guest, found.program.reads)
                return use()

        return Lowered(traced, found.captures, call, compile, look)

    def _shown(self) -> Path:
        if self._last is None:
            fail(GraphError, f"{self._name} has no program yet", "Call it first, or use lower(...).compile().")
        return self._last

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        with looking():
            return self._looked_up(args, kwargs)

    def _looked_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        call = take_apart(args, kwargs, self._statics, self._numbers, self._name)
        if any(isinstance(leaf, Spec) or (isinstance(leaf, Tensor) and leaf.is_abstract) for leaf in call.leaves):
            fail(GraphError, f"a trace of {self._name} for arguments without values", "Give it what a call is given.")
        try:
            with TRACING:
                program, captures, _ = found = self._find(call)
            # A program that takes decisions has several paths, of which only a trace says which one it is.
            fits = (p for p in program.paths if not p.decisions and p.grads_fit(call.leaves, call.positions, captures))
            path = next(fits, None) or self._new_path(call, found)[0]
        except Raised as raised:
            raise raised.error from None
        except CallAgain:
            return self._looked_up(args, kwargs)
        with TRACING:
            return path, path.feeds(call.leaves, call.positions, captures)

    def why_recompiled(self) -> str:
        """Return what every trace of the function was made for, and how it differs from the one most like it before.

        >>> import wengert as wg
        >>> f = wg.jit(lambda x: x * 2.0, name="double")
        >>> _ = f(wg.ones(3)), f(wg.ones(3, dtype="float64"))
        >>> f.why_recompiled().splitlines()[-1].strip()
        'x: (3,) float64 where it was (3,) float32'
        """
        return self.history.text()

    def cache_info(self) -> CacheInfo:
        """Return how many programs and paths are kept, and how often the function was traced."""
        return CacheInfo(*self._programs.count(), self.history.count)

    def clear_cache(self) -> None:
        """Forget all programs."""
        with TRACING:
            self._programs.clear()
            self._home.clear()
            self._guests.clear()
            self._reads, self._watches = [None], True
            self._short, self._last = (), None
            self._forms = {}
            self.call_by(None)

    # -- tracing

    def _trace(self, call: Call, found: Found) -> tuple[Traced, Outside]:
        """Trace a call; return the trace, and the values outside before.

        Raises CallAgain where that showed what a search had missed, or what need not be looked at.
        """
        program, captures, _ = found
        with TRACING:
            outside = Outside(captures)
            after_look(outside.undo)
            names = list(leaf_names(self._fn, call.structure))
            arguments = [argument_of(i, names[i], call.leaves[i]) for i in call.positions]
            is_watched = self._watches and (program.reads is not None or self._may_be_idle(call, captures))
            try:
                with recording() if is_watched else nullcontext() as ran:
                    traced = self._traced(call, arguments, outside)
                if is_watched:
                    self._learn(program.reads, ran)
            except CallAgain:
                outside.undo()
                raise
            except Exception as error:
                if isinstance(error, OF_TRACES) and self._is_to_be_tied(call, captures):
                    outside.undo()
                    raise CallAgain from None
                # Perhaps only because a Python number was wanted where an abstract scalar stood.
                if self._numbers.failed(call):
                    outside.undo()
                    raise CallAgain from None
                # NumPy puts an error of its own before one that it met.
                outside.undo()
                if isinstance(error, OF_TRACES) or isinstance(error.__cause__, OF_TRACES):
                    raise
                raise Raised(error) from None
            except BaseException:
                outside.undo()
                raise
            if _shares(traced, call, captures) and self._is_to_be_tied(call, captures):
                outside.undo()
                raise CallAgain
            outside.leave(traced.place_writes)
            self._numbers.succeeded()
            inputs = facts_of(names, call.key)
            now = get_mode()
            mode = {
                "gradients are recorded": now.grad,
                "the default dtype": now.floats,
                "the autocast": now.autocast,
                "the engine": now.engine,
            }
            draws = {f"{DRAWS}{path}": self.history.count for path in outside.drawn.changed()}
            facts = {**inputs, **dict(captures.facts), **mode, **draws}
            decisions = tuple(f"{g.what} at {g.where} is {g.answer}" for g in traced.guards)
            record = Record(user_location(), facts, decisions, program.reads, frozenset(inputs))
            self._warning = self.history.add(record) or self._warning
            return traced, outside

    def _is_to_be_tied(self, call: Call, captures: Captures) -> bool:
        """Return whether a trace has to know of ties, which it did not; from now on all do."""
        if self._ties or not _ties_of(call, captures):
            return False
        self._ties = True
        return True

    def _traced(self, call: Call, arguments: Sequence[Argument], outside: Outside) -> Traced:
        """Trace. Raises CallAgain where the trace met tensors from outside that it has to know of beforehand."""
        fixed = _alive(self._fixed)
        before = [t._array for t in fixed]
        ties = _ties_of(call, outside.captures) if self._ties else ()
        try:
            traced, untracked = run_trace(self._fn, self._name, arrangement(call), arguments, outside, ties)
        except Fix as found:
            self._fixed += map(weakref.ref, found.tensors)
            self._forget_captures()
            raise CallAgain from None
        for t, data in zip(fixed, before, strict=True):
            if t._array is not data or any(t is s for s in untracked):
                t._data = data
                fail(
                    GraphError,
                    f"{self._name} writes to a tensor from outside by whose value its shapes go, {t.spec}",
                    "A mask or a count is a constant of a compiled program: write to it outside of the function.",
                )
        if not untracked:
            self._met = 0
            if traced.copies and not self._copies:
                self._copies = True
                self._forget_captures()
                raise CallAgain
            return traced
        self._forget_captures()
        self._met += 1
        if self._met > _MEETINGS:
            self._met = 0
            self._hidden.clear()
            fail(
                GraphError,
                f"{self._name} makes a tensor, {untracked[0].spec}, in every trace and keeps it where the compiled "
                "function does not find it",
                "It would be kept once, not in every call: return it and keep it outside, or make it outside.",
            )
        self._hidden += map(weakref.ref, untracked)
        raise CallAgain

    def _forget_captures(self) -> None:
        self._home.captures_of.clear()
        self._guests.clear()

    def _may_be_idle(self, call: Call, captures: Captures) -> bool:
        """Return whether such a call has a program but for captured plain values, which it perhaps does not read."""
        mode = get_mode()
        for program in self._programs:
            known, in_mode = program.key[1], program.key[-1] == _key_of(mode)
            if known == call.key and in_mode and program.call.structure == call.structure:
                return any(is_plain_fact(fact) for fact in {*program.key[2]} ^ {*captures.key})
        return False

    def _learn(self, reads: Reads | None, ran: Ran | None) -> None:
        """Let the code that ran in a trace decide what counts. Raises CallAgain where that was not known."""
        if ran is not None and reads is not None and reads.cover(ran):
            return
        if ran is not None and len(self._reads) <= _READS:
            self._reads.insert(0, Reads(ran) if reads is None else reads.joined(ran))
        elif ran is not None or reads is not None:
            # Other code runs in every trace, or none can be seen: all that can be reached counts.
            self._reads, self._watches = [None], False
            self._programs.keep_reads([None])
        else:
            return
        raise CallAgain

    def _path(self, traced: Traced, call: Call, captures: Captures) -> Path:
        """Return the program for a trace of a call."""
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
        place, what = place_of_program(self._name, traced, call, captures)
        if place != CPU:
            path = self._path_at(place, what, traced, call, captures, given)
        else:
            name = self._options.engine or get_mode().engine
            engine = chosen(traced.graph, name, self._options.native_only, self._ranks)
            path = Path(traced, self._compiler_of(traced, call, captures, engine), given, engine)
        path.shares = _shares(traced, call, captures)
        return path

    def _path_at(
        self, place: str, what: str, traced: Traced, call: Call, captures: Captures, given: Mapping[int, str]
    ) -> Path:
        """Return the program for a trace of a call with tensors on a device, `what` among them."""
        engine = of_placed(place, what, self._options.engine, self._options.native_only)
        here = kept_here(traced, call, captures)
        return Path(traced, at_device(place, traced.graph, here), given, engine, place, here)

    def _compiler_of(self, traced: Traced, call: Call, captures: Captures, engine: Engine) -> CompileGraph:
        """Return what makes the graph of a trace ready to run on an engine."""
        return on_xla if engine.name == XLA else self._compile


def _ties_of(call: Call, captures: Captures) -> tuple[Tie, ...]:
    return ties_of([call.leaves[i] for i in call.positions], captures.cells)


def _shares(traced: Traced, call: Call, captures: Captures) -> bool:
    """Return whether a program writes to tensors of a namespace with views."""
    cells = (getattr(captures.cells[w.number], "tensor", None) for w in traced.cell_writes)
    leaves = (call.leaves[call.positions[w.number]] for w in traced.argument_writes)
    return any(isinstance(t, Tensor) and t.writes_through is not None for t in (*cells, *leaves))


def _key_of(mode: Mode) -> tuple[Any, ...]:
    """Return what programs depend on of the mode that they are called in."""
    return mode.grad, mode.floats, mode.autocast, mode.engine


def _compiler(options: Options) -> CompileGraph:
    compile: Callable[..., Any] = verified if options.verify else executor
    if options.memory is None and not options.activations:
        return compile
    return functools.partial(compile, limit=Limit(options.memory, 0, options.spill, bool(options.activations)))


def _fast_paths(call: Call, captures: Captures, paths: Sequence[Path]) -> tuple[Way, ...]:
    """Return the functions that take calls like this one: native code where that can, Python for what it gives up."""
    dispatch = dispatch_program(call, captures, paths)
    if dispatch is None:
        return ()
    called = native.function(dispatch) if paths[0].place == CPU else None
    by_python = python.function(dispatch, is_awaited=called is None)
    return (by_python,) if called is None else (called, by_python)


def _alive(refs: Sequence[weakref.ref[Tensor]]) -> list[Tensor]:
    return [t for ref in refs if (t := ref()) is not None]


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    verify: bool = False,
    reproducible: bool = False,
    name: str | None = None,
    memory: int | str | None = None,
    spill: bool | str | os.PathLike[str] = False,
    activations: Literal["int8"] | None = None,
    engine: Literal["native", "xla", "auto"] | None = None,
) -> Any:
    """Compile a function: it is traced once for every kind of call, then runs as native code.

    Parameters
    ----------
    fn: any function of pytrees of tensors, arrays, numbers, modules and optimisers; a gradient; a
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
    memory: a budget, in bytes (`200_000_000`) or with a unit (`"200MB"`, `"1.5GiB"`), for what a call takes beside its
        arguments and the state: results, everything in between, scratch memory. Values are computed again, the same bit
        for bit, where that is needed to stay below it: see docs/checkpointing.md.
    spill: keep values in a file where that costs less than computing them again: a folder, or True for that of
        temporary files. The file has no name, and is gone with the process. Linux only.
    activations: "int8": keep float32 values that a gradient is linear in as 8-bit integers for the backward pass, by
        blocks that share a scale. Gradients are then approximate; results of the forward pass are not.
    engine: what runs the programs: "native" code for this processor; "xla", through JAX, on the device that JAX
        prefers; "auto", of which `f.engine` says what it chose and why. None: that of :class:`wengert.engine`, or
        native code.

    Tensors that the function finds outside (globals, closures, attributes, optimiser state, generators) are
    read anew in every call, and what it writes to them is written. Python numbers among the arguments
    may change without a new trace. An `if` or `while` on a tensor's value is decided by the value in
    each call; every path that the program takes is traced once. Other values outside that its Python code reads
    (attributes, options, the length of a list) are part of the program, which is traced anew where they change: a
    fourth trace for one reason warns. What the code puts into attributes and variables outside, every call puts there.
    Anything else that Python does (print) happens only while tracing; `wg.debug.print` and `wg.callback` are for that.
    The elements of NumPy arrays outside are part of the program too: pass what changes often as a tensor or an
    argument. NumPy arrays among the arguments are written to, where the function does that, as tensors are.

    Programs are kept by use, in bounded room. Copies and pickles of a compiled function make theirs anew.

    Inside `grad`, `vmap`, `scan` and so on, and inside another compiled function, it is traced with the
    rest; gradients flow through it as through the function. `wg.vmap(f)` of a compiled function is compiled too.

    The result shows what was made: `graph`, `plan`, `kernels`, `ir`, `asm`, `memory`, `trace(...)`,
    `why_recompiled()`, `cache_info()`, `clear_cache()`, and `lower(*specs).compile()` makes a
    program before the first call.

    Raises TraceError where the function needs a value as Python has it (`item()`, `numpy()`, print), also where its
    code takes that error; GraphError where no program stays within `memory`, with the least number of bytes for which
    there is one; SpillError (an OSError) for a folder that has no room for the file.

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
    budget = None if memory is None else nbytes_of(memory, "memory")
    if spill is not False and budget is None:
        fail(DTypeError, "spill without memory=", "Values go to a file to stay within a budget: give one.")
    if activations not in (None, "int8"):
        fail(DTypeError, f"activations={activations!r}", "Write 'int8', or leave it out.")
    folder = "" if spill is False else folder_of(spill)
    options = Options(
        static_argnums,
        static_argnames,
        donate_argnums,
        verify,
        reproducible,
        name,
        budget,
        folder,
        activations or "",
        named(engine) if engine is not None else "",
    )
    if fn is None:
        return lambda inner: Jit(inner, options)
    if not callable(fn):
        fail(DTypeError, f"jit of a {type(fn).__name__}, which is not a function")
    return Jit(fn, options)
