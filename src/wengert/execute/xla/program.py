"""Programs of XLA: a graph compiled by `jax.jit`, its runs on arrays, its checks, its donated state, its transfers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...core.graph.evaluate import run as interpret
from ...core.graph.graph import Graph
from .api import jax, jnp, lax
from .lower import lower
from .memory import Held, held_by, shown
from .rules import Known, Trace
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


class Compiled:
    """A graph compiled by XLA. `replaced` says of donated inputs by their numbers which output takes their place."""

    def __init__(
        self, graph: Graph, donated: Sequence[bool] | None = None, replaced: Mapping[int, int] | None = None
    ) -> None:
        self.graph = graph
        self.expanded = graph.expand()
        self.replaced = {i: k for i, k in (replaced or {}).items() if donated is not None and donated[i]}
        self._moved: list[bool] = []  # of the last run, which inputs were copied
        # The outputs that take an input's place come first, in the order of those inputs, by which XLA pairs them.
        first = [self.replaced[i] for i in sorted(self.replaced)]
        self._order = [*first, *(k for k in range(len(graph.outputs)) if k not in {*first})]
        self._made = self._compile(bool(first))
        # The outputs as a run gives them, each with the input whose memory it may have taken, or -1.
        inputs = {k: i for i, k in self.replaced.items() if self._made.donated[i]}
        self._slots = [(k, inputs.get(k, -1)) for k in self._order]

    def _compile(self, donates: bool) -> _Made:
        trace = Trace(lower)
        order, replaced = self._order, self.replaced

        def program(*args: Any) -> tuple[list[Any], Any]:
            trace.begin(self.expanded.inputs)
            outputs = [jnp.asarray(x) for x in lower(self.expanded, args, trace)]
            wrong = trace.is_wrong()
            if donates and trace.wrong:  # what is refused leaves the state as it was
                for i, k in replaced.items():
                    outputs[k] = lax.select(jnp.broadcast_to(wrong, outputs[k].shape), args[i], outputs[k])
            seen = {id(a) for a in args}
            for k, x in enumerate(outputs):  # no output is an input, or another output
                outputs[k] = jnp.copy(x) if id(x) in seen else x
                seen.add(id(x))
            return [outputs[k] for k in order], wrong if trace.wrong else None

        specs = [jax.ShapeDtypeStruct(n.spec.shape, n.spec.dtype) for n in self.graph.inputs]
        given = tuple(sorted(replaced)) if donates else ()
        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*donated")
            call = jax.jit(program, donate_argnums=given, keep_unused=True, compiler_options=_OPTIONS)
            lowered = call.lower(*specs)
            if donates and trace.on_host:  # what Python raises comes after state was overwritten
                return self._compile(False)
            compiled = lowered.compile()  # which calls find
        flags = tuple(i in given for i in range(len(specs)))
        return _Made(call, compiled, flags, bool(trace.wrong), tuple(dict.fromkeys(trace.known)), trace.on_host)

    # -- running

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs, as ndarrays over XLA's memory where the host sees that."""
        call, _, donated, is_checked, known, _ = self._made
        if not all(k.holds(arrays[k.number]) for k in known):
            return interpreted(self.graph, arrays)
        holders = [held_by(a) for a in arrays]
        args = [a if h is None else h.array for a, h in zip(arrays, holders, strict=True)]
        try:
            with jax.enable_x64(True):
                found, wrong = call(*args)
            for x in found:
                x.block_until_ready()
        except Exception:
            if any(donated):
                raise
            return interpreted(self.graph, arrays)  # which raises what Python has raised, or what an op refuses
        outputs = self._placed(arrays, holders, found)
        self._moved = [h is None for h in holders]
        if is_checked and bool(wrong):
            return self._refused(arrays, outputs)
        return outputs

    def _placed(self, arrays: Sequence[Any], holders: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Return the outputs as ndarrays: where memory was given and taken, the ndarray that was there before."""
        outputs: list[Any] = [None] * len(found)
        shares = self._shares
        for (k, i), x in zip(self._slots, found, strict=True):
            holder = holders[i] if i >= 0 else None
            if type(holder) is Held and x.unsafe_buffer_pointer() == holder.pointer:
                holder.array = x
                outputs[k] = arrays[i]
            else:
                outputs[k] = shown(x, shares)
        return outputs

    def _refused(self, arrays: Sequence[Any], outputs: list[Any]) -> list[Any]:
        """Let the interpreter decide about a call: its error, or its results. State is what it was."""
        feeds = list(arrays)
        for i, k in self.replaced.items():
            if self._made.donated[i]:
                feeds[i] = outputs[k]
        return interpreted(self.graph, feeds)

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and give the outputs to `commit` when they are there."""
        outputs = self.run(arrays)
        commit(outputs, ())
        return outputs

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
        returned = 0 if self._shares else sum(n.spec.nbytes for n in self.graph.outputs)
        return Transfers(self._device, tuple(moved), tuple(kept), brought, returned, tuple(self._made.on_host))

    @cached_property
    def _device(self) -> str:
        device = jax.devices()[0]
        return f"{device.platform}:{device.id}"

    @cached_property
    def _shares(self) -> bool:
        return bool(jax.devices()[0].platform == "cpu")


def interpreted(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs by the interpreter, in memory of their own. Raises what the ops raise."""
    return [np.array(v) for v in interpret(graph, arrays)]


def compile_graph(
    graph: Graph, donated: Sequence[bool] | None = None, replaced: Mapping[int, int] | None = None
) -> Compiled:
    """Compile a graph by XLA: `compile_graph(g).run(arrays)`."""
    return Compiled(graph, donated, replaced)
