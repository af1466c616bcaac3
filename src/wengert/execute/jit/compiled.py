"""Inspection of compiled functions: `compiled.graph`, `.plan`, `.ir`, and programs made ahead of time."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.spec import Spec, spec_of
from ...core.tensor import Tensor, wrap
from ...transforms.tracing.replay import replay
from ..engines import XLA, Engine
from ..native.callers.functions import CFunctions
from ..native.codegen.machine import OLDEST_LLVMLITE
from .capture.captured import Captures
from .capture.results import output_of
from .program import Path
from .signature import Call, as_array
from .tracing import Traced

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
            interpreted = (
                "runs through the interpreter",
                f"Native code needs llvmlite {OLDEST_LLVMLITE} or newer and a processor that it knows.",
            )
            how, mend = getattr(executor, "how_it_runs", interpreted)
            fail(GraphError, f"there is no .{name}: the program {how}", mend)
        return getattr(executor, name)


class Compiled(Inspected):
    """A program made ahead of time: called like the function, with arguments like those it was made for.

    >>> import wengert as wg
    >>> compiled = wg.jit(lambda x: x + 1.0).lower(wg.spec((2,))).compile()
    >>> compiled(wg.zeros(2))
    tensor([1., 1.])
    """

    def __init__(self, fn: Callable[..., Any], path: Path, prepare: Prepare, call: Call, captures: Captures) -> None:
        self._fn = fn
        self._path = path
        self._prepare = prepare
        # The kinds of the arguments that become inputs, and what the function found outside.
        self._arguments = tuple(_spec_of(call.leaves[i]) for i in call.positions)
        self._captures = captures

    def _shown(self) -> Path:
        return self._path

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        return self._prepare(args, kwargs)

    def address(self, form: Literal["arrays", "vector", "number"] | None = None) -> CFunctions:
        """Return C function pointers: to the value, to value and gradient, to products of the Hessian with vectors.

        `form` says how they are called; None is "vector" where that is possible, else "arrays".

        - "vector": of float64 tensors, which follow each other in `x`, to one float64. `value` is
          `double f(int n, const double *x, void *user)`, `value_and_grad` is
          `double f(unsigned n, const double *x, double *grad, void *user)`, and `hvp` is
          `int f(int n, const double *x, const double *v, double *product, void *user)`.
        - "number": of one float64 to one. `value` is `double f(double x, void *user)`, `value_and_grad` is
          `double f(double x, double *derivative, void *user)`, and `hvp` is
          `double f(double x, double v, void *user)`.
        - "arrays": of any tensors to any. All are
          `int f(const void *const *inputs, void *const *outputs, void *user)`.

        `user` is not looked at. What the arrays are, and what tells of errors, is said at :class:`CFunctions`; what
        callers may rely on at :class:`CFunction`. Tensors that the function finds outside are taken as they are now.

        Raises GraphError for a program that needs Python (a callback, an operation without native code: it is named),
        that writes to anything outside, draws random numbers, or decides by a tensor's value; DTypeError for a form
        that does not fit.

        >>> import wengert as wg
        >>> compiled = wg.jit(lambda x: (x**2).sum()).lower(wg.spec((2,), "float64")).compile()
        >>> functions = compiled.address()
        >>> functions.value_and_grad.signature
        'double value_and_grad(unsigned n, const double *x, double *grad, void *user)'
        """
        traced = self._path.traced
        name = traced.graph.name or getattr(self._fn, "__name__", "the function")
        if not hasattr(self._path.executor, "plan"):
            fail(GraphError, f"C functions of {name}: it runs through the interpreter", "They are native code.")
        for what, found in (
            ("decides by a tensor's value", traced.guards),
            ("writes to what is outside, or draws random numbers", self._path.writes),
            ("prints or calls back", traced.has_effects),
            ("reads gradients of its arguments", [s for s in traced.sources if s.kind.endswith("gradient")]),
            ("returns what is no tensor", [r for r in traced.results if output_of(r) is None]),
        ):
            if found:
                where = traced.guards[0].where if traced.guards else None
                fail(
                    GraphError,
                    f"a C function of {name}, which {what}",
                    "A C function computes, and that is all.",
                    where,
                )
        outside = {
            k: wrap(np.array(as_array(self._captures.cells[s.number].get())))
            for k, s in enumerate(traced.sources)
            if s.kind == "cell"
        }
        outputs = [k for r in traced.results if (k := output_of(r)) is not None]

        def fn(*xs: Any) -> list[Any]:
            feeds = [outside[k] if k in outside else xs[s.number] for k, s in enumerate(traced.sources)]
            found = replay(traced.graph, feeds)
            return [found[k] for k in outputs]

        names = [f"argument {i}" for i in range(len(self._arguments))]
        return CFunctions(fn, self._arguments, names, name, form)

    def __reduce__(self) -> Any:
        fail(
            UnpicklableError,
            "a program that was made ahead of time cannot be copied or pickled",
            "Copy or pickle the function that it was made of, and call lower(...).compile() of that.",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; its program is ready."""
        return self._fn(*args, **kwargs)


def _spec_of(leaf: Any) -> Spec:
    """Return the kind of an argument: a spec, a tensor, an array or a number."""
    if isinstance(leaf, Spec):
        return leaf
    if isinstance(leaf, Tensor):
        return leaf.spec
    value = as_array(leaf)
    return spec_of(value.shape, value.dtype)


class Lowered:
    """A function traced for arguments of given specs: its `graph`; `compile()` makes the program.

    >>> import wengert as wg
    >>> lowered = wg.jit(lambda x: x + 1.0).lower(wg.spec((2,)))
    >>> lowered.graph.outputs[0].op.name
    'add'
    """

    def __init__(
        self,
        traced: Traced,
        captures: Captures,
        call: Call,
        compile: Callable[[], Compiled],
        look: Callable[[Callable[[], Any]], Any],
    ) -> None:
        self.graph = traced.graph
        # What was traced, what the function found outside, and the call.
        self.traced, self.captures, self.call = traced, captures, call
        self._compile, self._look = compile, look

    def compile(self) -> Compiled:
        """Make the program now."""
        return self._compile()

    def look(self, use: Callable[[], Any]) -> Any:
        """Return what `use()` gives while everything that the function found outside is there.

        An optimiser that has made no step has its buffers then.
        """
        return self._look(use)
