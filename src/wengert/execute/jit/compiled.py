"""Inspection of compiled functions: `compiled.graph`, `.plan`, `.ir`, and programs made ahead of time."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ..engines import XLA, Engine
from ..native.codegen.machine import OLDEST_LLVMLITE
from .program import Path

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..native.run.timeline import NativeTrace

    # From a call's arguments to the program that it would run, and what that would be given.
    Prepare = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Path, list[Any]]]


class UnpicklableError(GraphError, pickle.PicklingError):
    """An error: Python cannot pickle a compiled function, or a program."""


def is_found_by_name(value: Any, module: str | None, name: str) -> bool:
    """Return whether a module has this very value under a name, where pickle would look for it."""
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


class CacheInfo(NamedTuple):
    """The number of programs that a function has, of paths through decisions in all, and of its traces.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: x * 2.0)
    >>> _ = f(wg.ones(3)), f(wg.ones(3)), f(wg.ones(4))
    >>> f.cache_info()
    CacheInfo(programs=2, paths=2, traces=2)
    """

    programs: int
    paths: int
    traces: int


class Inspected:
    """A base of what shows a program: of a compiled function the last that ran, else that of `compile()`."""

    __slots__ = ()

    def _shown(self) -> Path:
        raise NotImplementedError

    @property
    def graph(self) -> Graph:
        """The graph that was traced: arguments and state in; results, new state and decisions out."""
        return self._shown().graph

    @property
    def engine(self) -> Engine:
        """The engine that runs it, and why it is that one."""
        return self._shown().engine

    @property
    def transfers(self) -> Any:
        """The arrays that the last call moved between the host and the device; of programs of XLA."""
        return self._of(self._shown(), "transfers")

    @property
    def plan(self) -> Any:
        """The steps that a run makes, in order, and the buffers between them."""
        return self._native("plan")

    @property
    def kernels(self) -> Any:
        """The kernels of the plan, each once."""
        return self._native("kernels")

    @property
    def ir(self) -> str:
        """The LLVM IR of the kernels."""
        return str(self._native("ir"))

    @property
    def asm(self) -> str:
        """The assembly of the kernels."""
        return str(self._native("asm"))

    @property
    def memory(self) -> Any:
        """The memory that a run needs, exact before anything runs."""
        return self._native("memory")

    @property
    def budget(self) -> Any:
        """The budget that `memory=` set, with what keeping to it took; None without one."""
        return self._native("budget")

    @property
    def cost(self) -> Any:
        """The work of a run."""
        return self._native("cost")

    def trace(self, *args: Any, **kwargs: Any) -> NativeTrace:
        """Run the program for these arguments, and return which thread ran which part of it, and when.

        It changes nothing: what the function writes to (parameters, generators, donated arguments) is written by
        calls alone. What prints or calls back does so here too. A program that is new runs a few times before it is
        watched, until it is known which of its steps are worth sharing out.

        `print(compiled.trace(x))` draws a chart; the columns say more (see NativeTrace).

        Raises GraphError where there is no native code, and what the function raises.

        >>> import wengert as wg
        >>> trace = wg.jit(lambda x: wg.exp(x) + 1).trace(wg.ones(3))
        >>> trace.worker.tolist(), trace.labels
        ([0], ('exp+add',))
        """
        path, feeds = self._prepared(args, kwargs)
        found: NativeTrace = self._of(path, "trace")(feeds)
        return found

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        """Return the program that a call with these arguments would run, and its feeds."""
        raise NotImplementedError

    @property
    def optimized(self) -> Any:
        """The graph that the plan was made from: `graph` after all rewrites."""
        return self._native("optimized")

    def why_not_fused(self, a: Any, b: Any) -> str | None:
        """Return why two nodes of `optimized` are not computed in one kernel; None where they are."""
        found: str | None = self._native("why_not_fused")(a, b)
        return found

    def _native(self, name: str) -> Any:
        return self._of(self._shown(), name)

    def _of(self, path: Path, name: str) -> Any:
        executor = path.executor
        if not hasattr(executor, name):
            if path.engine.name == XLA:
                fail(
                    GraphError, f"there is no .{name}: the program runs by XLA", 'Call it by engine="native" to see it.'
                )
            fail(
                GraphError,
                f"there is no .{name}: the program runs through the interpreter",
                f"Native code needs llvmlite {OLDEST_LLVMLITE} or newer and a processor that it knows.",
            )
        return getattr(executor, name)


class Compiled(Inspected):
    """A program made ahead of time: called like the function, with arguments like those it was made for.

    >>> import wengert as wg
    >>> compiled = wg.jit(lambda x: x + 1.0).lower(wg.spec((2,))).compile()
    >>> compiled(wg.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self, fn: Callable[..., Any], path: Path, prepare: Prepare) -> None:
        self._fn = fn
        self._path = path
        self._prepare = prepare

    def _shown(self) -> Path:
        return self._path

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        return self._prepare(args, kwargs)

    def __reduce__(self) -> Any:
        fail(
            UnpicklableError,
            "a program that was made ahead of time cannot be copied or pickled",
            "Copy or pickle the function that it was made of, and call lower(...).compile() of that.",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; its program is ready."""
        return self._fn(*args, **kwargs)


class Lowered:
    """A function traced for arguments of given specs: its `graph`; `compile()` makes the program.

    >>> import wengert as wg
    >>> lowered = wg.jit(lambda x: x + 1.0).lower(wg.spec((2,)))
    >>> lowered.graph.outputs[0].op.name
    'add'
    """

    def __init__(self, graph: Graph, compile: Callable[[], Compiled]) -> None:
        self.graph = graph
        self._compile = compile

    def compile(self) -> Compiled:
        """Make the program now."""
        return self._compile()
