"""Programs of XLA: a graph compiled by `jax.jit`, its runs on arrays, its checks, its donated state, its transfers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import c_bool
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from ...core.graph.evaluate import run as interpret
from ...core.graph.graph import Graph
from ...core.state.cached import cached_property
from .api import jax, jnp, lax
from .layout import channels_last
from .lower import lower
from .memory import Held, brought, held_by, shower
from .rules import Known, Trace
from .seat import DeviceSeat
from .transfers import Transfers

# What is to be called at once with a program's results: see `execute/native/run/runtime`.
Commit = Callable[[list[Any], Iterable[Any]], None]
# Half precision is rounded after every operation, as eager execution and native code do: XLA's default is to keep
# float32 inside a fused kernel.
_OPTIONS = {"xla_allow_excess_precision": False}


class _Made(NamedTuple):
    """A compiled program: the call, and what its trace found out."""

    call: Any
    compiled: Any
    donated: tuple[bool, ...]
    is_checked: bool
    known: tuple[Known, ...]
    on_host: dict[str, str]
    stopped: list[BaseException]
    results: list[Any]  # the shapes and dtypes of what a call gives


class Compiled:
    """A graph compiled by XLA. `replaced` says of donated inputs by their numbers which output takes their place."""

    def __init__(
        self, graph: Graph, donated: Sequence[bool] | None = None, replaced: Mapping[int, int] | None = None
    ) -> None:
        self.graph = graph
        self.expanded = channels_last(graph.expand())
        self.replaced = {i: k for i, k in (replaced or {}).items() if donated is not None and donated[i]}
        self._moved = np.zeros(len(graph.inputs), np.int64)  # of the last run, which inputs were copied
        # The outputs that take an input's place come first, in the order of those inputs, by which XLA pairs them.
        first = [self.replaced[i] for i in sorted(self.replaced)]
        self._order = [*first, *(k for k in range(len(graph.outputs)) if k not in {*first})]
        self._made = self._compile()
        # The outputs as a run gives them, each with the input whose memory it may have taken, or -1.
        inputs = {k: i for i, k in self.replaced.items() if self._made.donated[i]}
        self._slots = [(k, inputs.get(k, -1)) for k in self._order]
        # By input, one where the last run that was given it by JAX's array has put its new value where that stood.
        self._in_place = np.zeros(len(graph.inputs), np.int64)

    # -- compiling

    def _compile(self) -> _Made:
        trace = self._trace()
        order, replaced = self._order, self.replaced

        def program(*args: Any) -> tuple[list[Any], Any]:
            trace.begin(self.expanded.inputs)
            found = lower(self.expanded, self._entered(args), trace)
            outputs = [self._left(k, jnp.asarray(x)) for k, x in enumerate(found)]
            wrong = self._joined(trace.is_wrong())
            if trace.wrong:  # what is refused leaves the state as it was
                for i, k in replaced.items():
                    outputs[k] = lax.select(jnp.broadcast_to(wrong, outputs[k].shape), args[i], outputs[k])
            seen = {id(a) for a in args}
            for k, x in enumerate(outputs):  # no output is an input, or another output
                outputs[k] = jnp.copy(x) if id(x) in seen else x
                seen.add(id(x))
            return [outputs[k] for k in order], wrong if trace.wrong else None

        given = tuple(sorted(replaced))
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*donated")
            call, specs = self._jitted(program, given, _OPTIONS)
            lowered = call.lower(*specs)
            compiled = lowered.compile()  # which calls find
        flags = tuple(i in given for i in range(len(specs)))
        return _Made(
            call, compiled, flags, bool(trace.wrong), tuple(dict.fromkeys(trace.known)), trace.on_host, trace.stopped,
            lowered.out_info[0],
        )  # fmt: skip

    def _trace(self) -> Trace:
        return Trace(lower)

    def _jitted(self, program: Callable[..., Any], given: tuple[int, ...], options: Any) -> tuple[Any, list[Any]]:
        """Return the program as JAX calls it, and the specs of what it is called with."""
        specs = [jax.ShapeDtypeStruct(n.spec.shape, n.spec.dtype) for n in self.graph.inputs]
        return jax.jit(program, donate_argnums=given, keep_unused=True, compiler_options=options), specs

    def _entered(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the graph's inputs for what the program is called with."""
        return args

    def _left(self, k: int, x: Any) -> Any:
        """Return an output of the program for one of the graph."""
        return x

    def _joined(self, wrong: Any) -> Any:
        """Return whether a check has found something wrong."""
        return wrong

    # -- running

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs, as ndarrays over XLA's memory where the host sees that."""
        is_checked, known, stopped = self._made.is_checked, self._made.known, self._made.stopped
        if not all(k.holds(arrays[k.number]) for k in known):
            return self._interpreted(arrays)
        holders, args = self._fed(arrays)
        try:
            found, wrong = self._called(holders, args)
        except Exception:
            if self._loses(holders):
                raise
            # The interpreter raises what Python has raised, or an op refuses. It has values where another thread's
            # program has just taken what the device had of them.
            return self._interpreted(arrays)
        outputs = self._placed(arrays, holders, found)
        self._moved[:] = [h is None for h in holders]
        if is_checked and self._is_set(wrong):
            if stopped:
                raise stopped.pop()
            return self._refused(arrays, outputs)
        return outputs

    def _fed(self, arrays: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return for each ndarray what holds it on the device, if it is there, and what the program is called with."""
        holders: list[Any] = []
        args: list[Any] = []
        where = self._where
        for a in arrays:
            base: Any = a.base
            h = base if type(base) is Held or base is None else held_by(a)
            if h is not None and h.where is where:
                holders.append(h)
                args.append(h.array)
            else:
                holders.append(None)
                args.append(a)
        return holders, args

    def _called(self, holders: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
        """Return the program's results, when they are there.

        Where a signal's handler raises meanwhile, what was taken has its new values.
        """
        results: list[Any] = []
        try:
            with jax.enable_x64(True):
                results.extend(starmap(self._program, (args,)))  # no handler runs before they are kept
            self._wait_for(results[0][0])
        except BaseException:
            for found, _ in results:
                self._give_back(holders, found)
            raise
        found, wrong = results[0]
        return found, wrong

    @property
    def _program(self) -> Callable[..., Any]:
        return self._made.call  # type: ignore[no-any-return]

    def _wait_for(self, found: Sequence[Any]) -> None:
        """Wait until a run's results are there: on one device, all are there when one is."""
        for x in found[-1:]:
            x.block_until_ready()

    def _give_back(self, holders: Sequence[Any], found: Sequence[Any]) -> None:
        """Let state whose memory a run has taken be what the run gives for it."""
        for (_, i), x in zip(self._slots, found, strict=True):
            if i >= 0 and holders[i] is not None:
                holders[i].array = x

    def _is_set(self, flag: Any) -> bool:
        """Return the value of a boolean on the device."""
        return bool(c_bool.from_address(flag.unsafe_buffer_pointer()).value) if self._shares else bool(flag)

    def _loses(self, holders: Sequence[Any]) -> bool:
        """Forget what the device had of inputs that a failed run has taken; return whether there are such."""
        given = [h for h, taken in zip(holders, self._made.donated, strict=True) if taken and h is not None]
        lost = [h for h in given if h.array.is_deleted()]
        for holder in lost:
            holder.where = None
        return bool(lost)

    def _placed(self, arrays: Sequence[Any], holders: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Return the outputs as ndarrays: where memory was given and taken, the ndarray that was there before."""
        outputs: list[Any] = [None] * len(found)
        for (k, i), show, x in zip(self._slots, self._shown, found, strict=True):
            holder = holders[i] if i >= 0 else None
            if type(holder) is not Held:
                outputs[k] = show(x)
                continue
            self._in_place[i] = stays = x.unsafe_buffer_pointer() == holder.pointer
            if stays:
                holder.array = x
                outputs[k] = arrays[i]
            else:
                outputs[k] = show(x)
        return outputs

    def _refused(self, arrays: Sequence[Any], outputs: list[Any]) -> list[Any]:
        """Let the interpreter decide about a call: its error, or its results. State is what it was."""
        feeds = list(arrays)
        for i, k in self.replaced.items():
            if self._made.donated[i]:
                feeds[i] = outputs[k]
        return self._interpreted(feeds)

    def _interpreted(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs by the interpreter, in memory of their own. Raises what the ops raise."""
        return [np.array(v) for v in interpret(self.graph, arrays)]

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and give the outputs to `commit` when they are there."""
        outputs = self.run(arrays)
        commit(outputs, ())
        return outputs

    def device_seat(self) -> DeviceSeat | None:
        """Return what a call has to know that takes and gives the arrays itself; None where that is for Python alone.

        So it is where the host does not see the device's memory, and where the program calls Python.
        """
        made, outputs = self._made, [n.spec for n in self.graph.outputs]
        if not self._shares or made.on_host or not outputs or any(s.size == 0 for s in outputs):
            return None
        # What it takes is not Python's to give to others, so that state once in place stays there.
        return DeviceSeat(
            self._program, lambda: jax.enable_x64(True), self._where, tuple(self._order),
            {k: i for k, i in self._slots if i >= 0}, self._in_place, made.known, made.is_checked, self._moved,
            lambda *arrays: (self.run(arrays),), lambda *arrays: (self._interpreted(arrays),), brought, self._lost,
        )  # fmt: skip

    def _lost(self, *arrays: Any) -> bool:
        return self._loses([held_by(a) for a in arrays])

    # -- looking inside

    @property
    def ir(self) -> str:
        """The program as XLA is given it, in StableHLO's text."""
        return str(self._made.compiled.as_text())

    @property
    def memory(self) -> Any:
        """The memory that a run needs, as XLA says."""
        return self._made.compiled.memory_analysis()

    @property
    def on_host(self) -> dict[str, str]:
        """The ops for which the program calls Python, and why."""
        return dict(self._made.on_host)

    @property
    def transfers(self) -> Transfers:
        """The arrays that the last run moved between the host and the device."""
        names = [self.graph.names[n] for n in self.graph.inputs]
        moved = [n for n, copied in zip(names, self._moved, strict=False) if copied]
        kept = [n for n, copied in zip(names, self._moved, strict=False) if not copied]
        brought = sum(n.spec.nbytes for n, copied in zip(self.graph.inputs, self._moved, strict=False) if copied)
        return Transfers(self._device, tuple(moved), tuple(kept), brought, self._returned, tuple(self._made.on_host))

    @property
    def _returned(self) -> int:
        """The bytes of results that a call copies to the host."""
        return 0 if self._shares else sum(n.spec.nbytes for n in self.graph.outputs)

    @cached_property
    def _device(self) -> str:
        return f"{self._where.platform}:{self._where.id}"

    @cached_property
    def _shown(self) -> list[Callable[[Any], Any]]:
        """The functions that show the results, on one device, in the order in which a call gives them."""
        return [shower(r.shape, np.dtype(r.dtype), self._where, self._shares) for r in self._made.results]

    @cached_property
    def _where(self) -> Any:
        """The device that the program runs on."""
        return jax.local_devices()[0]

    @cached_property
    def _shares(self) -> bool:
        """True where the host sees the device's memory."""
        return bool(self._where.platform == "cpu")


def compile_graph(
    graph: Graph, donated: Sequence[bool] | None = None, replaced: Mapping[int, int] | None = None
) -> Compiled:
    """Compile a graph by XLA: `compile_graph(g).run(arrays)`."""
    return Compiled(graph, donated, replaced)
