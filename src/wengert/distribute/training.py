"""Training steps on meshes as they are written for one process: modules, optimisers, `loss.backward()`."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any

from ..core import tree
from ..core.errors import DTypeError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.spec import Spec
from ..core.state.cells import ArrayCell, Cell, TensorCell
from ..core.tensor import Tensor
from ..execute.engines import XLA, named
from ..execute.engines import Engine as Chosen
from ..execute.jit.capture.captured import Captures
from ..execute.jit.capture.outside import Outside
from ..execute.jit.capture.results import Source, output_of
from ..execute.jit.compiled import Lowered
from ..execute.jit.executor import CompileGraph, Executor, executor
from ..execute.jit.executor import on_xla as on_one_device
from ..execute.jit.jit import Jit
from ..execute.jit.options import Options, nbytes_of
from ..execute.jit.program import Path
from ..execute.jit.signature import Call
from ..execute.jit.tracing import Argument, Traced
from ..execute.native.budget.within import Limit
from ..execute.native.run.runtime import Commit
from ..execute.native.run.spilling import folder_of
from ..passes.cse import cse
from .arguments import Parameters
from .engines.engine import Engines, engine_for, one_thread, run_placed
from .engines.xla import OnDevices
from .mesh import Mesh, as_mesh, for_all_ranks
from .pipeline.program import Pipeline, Pipelined, as_pipeline, pipelined
from .pipeline.tasks import NOTHING, Kept
from .placing.folding import check_blocks, check_cut, refuse_blocks_on_xla
from .placing.partition import Partitioned, partition_graph
from .placing.placement import PartitionSpec, Placement, placement_of, spec_of_placement
from .placing.sharded import Sharded
from .program import checked_in_specs, spread_specs
from .sharding import count, known, split_over

_NATIVE_ONLY = "A budget of memory is an option of native code: leave it out."


class CallTime:
    """The seconds that a step's calls took: `within` its programs, all together, and `outside` of them, the least.

    What a call takes outside, to find its program and to give state its new values, no other step could tell.
    """

    __slots__ = ("within", "outside")

    def __init__(self) -> None:
        self.within, self.outside = 0.0, math.inf


class OnMeshExecutor:
    """A traced step, partitioned: each rank computes its part of whole arrays and takes and gives its own of others."""

    def __init__(
        self,
        program: Partitioned | Pipelined,
        names: Sequence[str],
        wholes: Sequence[Spec],
        kept: Mapping[int, str],
        state: frozenset[int],
        engines: Engines,
        time: CallTime,
    ) -> None:
        self.program, self.engines, self.time = program, engines, time
        self.has_run = False
        self.names = names  # of the inputs, as errors call them
        self.wholes = wholes  # the whole outputs' specs
        self.kept = kept  # of outputs in parts, as errors call them
        self.state = state  # the numbers of inputs that follow the parameters' parts
        # What is told to those who ask for what native code has, and what they may ask for instead.
        self.how_it_runs = f"is run by the ranks of {program.mesh}", "What each of them runs: f.partitions[-1].graph."

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs' values, which share memory with nothing else."""
        start = perf_counter()
        with one_thread():
            engine = self.engines.here()
            engine.check(self.names, arrays)
            found = run_placed(engine, self.program, arrays, self.names, self.wholes, self.kept, self.state)
        # The call that a program is made for takes most of its time to trace and to compile: it tells of no other one.
        if self.has_run:
            self.time.within += perf_counter() - start
        self.has_run = True
        return found

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and give the values to `commit` when they are there."""
        outputs = self.run(arrays)
        commit(outputs, ())
        return outputs


class OnDevicesExecutor(OnMeshExecutor):
    """The same on XLA, where what JAX says of the program can be seen."""

    @property
    def compiled(self) -> Any:
        """The program as XLA has it."""
        engine = self.engines.here()
        assert isinstance(engine, OnDevices)
        return engine.compiled

    @property
    def ir(self) -> str:
        """The program as XLA is given it."""
        return str(self.compiled.ir)

    @property
    def memory(self) -> Any:
        """The memory that a run needs on each device, as XLA says."""
        return self.compiled.memory

    @property
    def transfers(self) -> Any:
        """The arrays that the last run moved between the host and the devices."""
        return self.compiled.transfers


class StepOnMesh(Jit):
    """A compiled training step on a mesh, as :func:`jit` returns it."""

    __slots__ = ()

    def __init__(
        self,
        fn: Callable[..., Any],
        mesh: Mesh,
        in_specs: Sequence[Any],
        zero: str | None,
        pipeline: Pipeline | None = None,
        sequence: str | None = None,
        limit: Limit | None = None,
        engine: str | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> None:
        named_engine = named(engine) if engine is not None else ""
        super().__init__(fn, Options(None, None, None, False, False, None, engine=named_engine))
        self._ranks = mesh.size
        self.mesh, self.in_specs, self.zero, self.pipeline = mesh, tuple(in_specs), zero, pipeline
        self._given = mesh, self.in_specs, zero, pipeline, sequence, limit, engine, blocks
        self.spread = frozenset(() if sequence is None else (sequence,))
        self.limit = limit
        self.blocks = dict(blocks or {})
        # The latest partitions, the last one last: what each rank runs, and where everything is.
        self.partitions: deque[Partitioned | Pipelined] = deque(maxlen=16)
        self.time = CallTime()
        self._parameters = Parameters(fn)
        self._splits = count()
        # Whether a call had arguments that the ranks divide: another one after that is a last batch.
        self._has_cut = False
        # Where a tensor of the step's surroundings is, and along which axis it is gathered.
        self.placed: Callable[[Tensor], tuple[PartitionSpec, str | None] | None] = known

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the step on the ranks of its mesh. Arguments by name have the entry of `in_specs` at their position."""
        before, start = self.time.within, perf_counter()
        found = super().__call__(*self._by_position(args, kwargs))
        within = self.time.within - before
        if within:  # else it ran as it is written, or for the first time
            self.time.outside = min(self.time.outside, perf_counter() - start - within)
        return found

    def _made_of(self) -> tuple[Any, ...]:
        return self._given

    def _by_position(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments by position, and forget programs that were made before a model was split."""
        if self._splits != count():
            self._splits = count()
            self.clear_cache()
        return self._parameters.by_position(args, kwargs, len(self.in_specs), f"a call on {self.mesh}")

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace for arguments like these, or specs of them, without running."""
        return super().lower(*self._by_position(args, kwargs))

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Path, list[Any]]:
        return super()._prepared(self._by_position(args, kwargs), {})

    def lowered(self, *args: Any, **kwargs: Any) -> Partitioned | Pipelined:
        """Return the program for arguments like these, or specs of them, without running it."""
        self.lower(*args, **kwargs).compile()
        return self.partitions[-1]

    def _traced(self, call: Call, arguments: Sequence[Argument], outside: Outside) -> Traced:
        with for_all_ranks(self.mesh):
            return super()._traced(call, arguments, outside)

    def _path_at(
        self, place: str, what: str, traced: Traced, call: Call, captures: Captures, given: Mapping[int, str]
    ) -> Path:
        fail(
            GraphError,
            f"{self._name} on {self.mesh} computes with {what}, which is on {place}",
            f"A mesh has devices of its own for its ranks: bring it back, {what}.to('cpu').",
        )

    def _compiler_of(self, traced: Traced, call: Call, captures: Captures, engine: Chosen) -> CompileGraph:
        if engine.name == XLA and self.limit is not None:
            fail(GraphError, f"{self._name} on {self.mesh} with memory= and the engine {engine}", _NATIVE_ONLY)
        if engine.name == XLA:
            refuse_blocks_on_xla(self._name, self.mesh, self.blocks)
        inputs, gathered, wanted = self._placements(traced, call, captures)
        of_trace = traced.graph.inputs
        kept = {w.output: captures.names[captures.cells[w.number].key] for w in traced.cell_writes}
        for i, g, _ in traced.cell_grads:
            if g is not None:
                kept[g] = f"the gradient of {captures.names[captures.cells[i].key]}"
        names = [
            _name(node, captures.cells[i] if kind == "cell" else None)
            for node, (kind, i) in zip(of_trace, traced.sources, strict=True)
        ]

        def compile(
            graph: Graph, donated: Sequence[bool] | None, *, replaced: Mapping[int, int] | None = None
        ) -> Executor:
            on_xla = engine.name == XLA
            if graph.inputs != of_trace:  # a derivative: whole, on every rank
                return (on_one_device if on_xla else executor)(graph, donated, replaced=replaced)
            # A graph of decisions alone has other outputs, which are whole.
            placed = wanted if graph is traced.graph else {}
            none = (None,) * len(self.mesh.names)
            goals: list[Placement | None] = [placed.get(i, none) for i in range(len(graph.outputs))]
            if self.pipeline is None:
                made: Partitioned | Pipelined = partition_graph(
                    cse(graph), self.mesh, inputs, goals, gathered, spread=self.spread, blocks=self.blocks
                )
            else:
                cuts = self._cuts(self.pipeline, traced, call)
                stays = _kept(traced, captures, placed) if self.pipeline.state == "stages" else NOTHING
                made = pipelined(
                    cse(graph), self.mesh, inputs, goals, gathered, cuts, self.pipeline, self.spread, stays
                )
            self.partitions.append(made)
            engines = Engines(functools.partial(engine_for, made, self.limit, on_xla, donated, replaced))
            of_engine = OnDevicesExecutor if isinstance(engines.here(), OnDevices) else OnMeshExecutor
            wholes = [n.spec for n in graph.outputs]
            state = frozenset(i for i, source in enumerate(traced.sources) if self._follows(source, captures))
            return of_engine(made, names, wholes, kept if placed else {}, state, engines, self.time)

        return compile

    def _placements(
        self, traced: Traced, call: Call, captures: Captures
    ) -> tuple[list[Placement], list[frozenset[int]], dict[int, Placement]]:
        """Return the placement of every input of a trace, along which axes it is gathered, and those of outputs.

        What a step leaves in parts between calls is an output by itself; what it returns is whole.
        """
        mesh, graph = self.mesh, traced.graph
        args, _ = tree.unflatten(call.structure, call.leaves)
        if len(args) != len(self.in_specs):
            fail(
                GraphError,
                f"{self._name} on {mesh}: in_specs has {len(self.in_specs)} entries for {len(args)} arguments",
                "Give a placement for each.",
            )
        given = [s for e, a in zip(self.in_specs, args, strict=True) for s in spread_specs(e, a, "in_specs")]
        specs: list[PartitionSpec | None] = []
        axes: list[str | None] = []
        is_even = True
        for (kind, i), node in zip(traced.sources, graph.inputs, strict=True):
            spec, gathered = None, None
            if kind == "argument":
                spec = given[call.positions[i]]
                even = self._even(spec, node.spec)
                if self._has_cut and self.pipeline is None and not self.blocks:
                    spec = even  # a last batch
                is_even = is_even and spec is even
            elif kind == "cell" and isinstance(cell := captures.cells[i], TensorCell):
                spec, gathered = self._split(cell)
            elif kind == "cell gradient":
                spec = self._split_of_gradient(captures.cells[i])
            specs.append(spec)
            axes.append(gathered)
        updates = {w.number: graph.outputs[w.output] for w in traced.cell_writes}
        self._follow(traced, updates, specs)
        placed = [
            placement_of(s, n.spec, mesh, f"{self._name}: {graph.names[n]}")
            for s, n in zip(specs, graph.inputs, strict=True)
        ]
        self._has_cut = self._has_cut or is_even
        for (kind, _), node, placement in zip(traced.sources, graph.inputs, placed, strict=True):
            if kind == "argument":
                check_cut(f"{self._name}: {graph.names[node]}", node.spec, placement, mesh, self.blocks)
        of_cell = {i: p for (kind, i), p in zip(traced.sources, placed, strict=True) if kind == "cell"}
        left: dict[int, set[Placement]] = {}
        for w in traced.cell_writes:
            cell = captures.cells[w.number]
            if w.number not in of_cell and isinstance(cell, TensorCell):
                of_cell[w.number] = placement_of(self._split(cell)[0], cell.spec, mesh, self._name)
            left.setdefault(w.output, set()).add(of_cell.get(w.number, (None,) * len(mesh.names)))
        for i, g, _ in traced.cell_grads:
            if g is not None:
                cell = captures.cells[i]
                placement = placement_of(self._split_of_gradient(cell), cell.spec, mesh, self._name)
                left.setdefault(g, set()).add(placement)
        shown = {output_of(r) for r in (*traced.results, *(r for w in traced.place_writes for r in w.leaves))}
        shown |= {w.output for w in traced.argument_writes} | {
            w.output for w in traced.argument_grads if w.output is not None
        }
        kept = {k: found.pop() for k, found in left.items() if len(found) == 1 and k not in shown}
        return placed, [frozenset() if a is None else frozenset({mesh.names.index(a)}) for a in axes], kept

    def _even(self, spec: PartitionSpec | None, of: Any) -> PartitionSpec | None:
        """Return where an argument is split, without the dimensions that the ranks do not divide."""
        if spec is None or len(spec.names) > len(of.shape):
            return spec
        axes = self.mesh.axes
        names = [None if isinstance(n, str) and of.shape[d] % axes.get(n, 1) else n for d, n in enumerate(spec.names)]
        return spec if names == [*spec.names] else PartitionSpec(*names)

    def _split(self, cell: TensorCell) -> tuple[PartitionSpec | None, str | None]:
        """Return where a tensor is split, and along which axis it is gathered where it is used."""
        data = cell.tensor._array
        if isinstance(data, Sharded) and data.mesh != self.mesh and data.at is None:
            name = data.name or "a tensor"
            fail(
                GraphError,
                f"{self._name} on {self.mesh}: {name}, {data.spec}, is in parts over the ranks of {data.mesh}",
                "wg.distribute.shard(model, new_mesh, {}) joins a model's parts, its gradients and optimiser state "
                "included in the next step; rules or fsdp= split it anew.",
            )
        found = self.placed(cell.tensor)
        if found is not None:
            return found
        if isinstance(data, Sharded):  # a value that was given to it in parts
            return spec_of_placement(data.placement, data.mesh), None
        return None, None

    def _follows(self, source: Source, captures: Captures) -> bool:
        """Return whether an input is a gradient, or state that has a parameter's parts: nobody says where it is."""
        cell = captures.cells[source.number] if source.kind == "cell" else None
        return source.kind == "cell gradient" or (
            cell is not None and not (isinstance(cell, TensorCell) and self.placed(cell.tensor) is not None)
        )

    def _split_of_gradient(self, cell: Cell) -> PartitionSpec | None:
        """Return where a tensor's gradient is split: as it is, and over `zero` where its update is."""
        spec = self._split(cell)[0] if isinstance(cell, TensorCell) else None
        if self.zero is None:
            return spec
        return split_over(self.zero, spec or PartitionSpec(), cell.spec.shape, self.mesh) or spec

    @staticmethod
    def _cuts(pipeline: Pipeline, traced: Traced, call: Call) -> list[int | None]:
        """Return for every input of a trace the dimension that is cut into microbatches."""
        args, _ = tree.unflatten(call.structure, call.leaves)
        given = pipeline.cuts(args)
        return [given[call.positions[i]] if kind == "argument" else None for kind, i in traced.sources]

    def _follow(self, traced: Traced, updates: Mapping[int, Node], specs: list[PartitionSpec | None]) -> None:
        """Give optimiser state the placement of the parameter whose update it is a part of, element by element."""
        graph = traced.graph
        inputs = {node: i for i, node in enumerate(graph.inputs)}
        for i, (kind, cell) in enumerate(traced.sources):
            update = updates.get(cell) if kind == "cell" else None
            if update is None or graph.inputs[i].op.name != "parameter":
                continue
            spec = specs[i]
            if self.zero is not None:
                spec = split_over(self.zero, spec or PartitionSpec(), graph.inputs[i].spec.shape, self.mesh) or spec
            if spec is None:
                continue
            for state in _by_element(update):
                k = inputs.get(state)
                if (
                    k is not None
                    and specs[k] is None
                    and traced.sources[k].kind == "cell"
                    and state.op.name != "parameter"
                ):
                    specs[k] = spec


def _kept(traced: Traced, captures: Captures, placed: Collection[int]) -> Kept:
    """Return the state that stays at a pipeline's stages: the arrays among the outputs that are `placed`."""
    if not placed:  # a graph of decisions
        return NOTHING
    tensors = {i for i, cell in enumerate(captures.cells) if isinstance(cell, (TensorCell, ArrayCell))}
    after: dict[tuple[str, int], int | None] = {("cell", w.number): w.output for w in traced.cell_writes}
    after |= {("cell gradient", i): g for i, g, _ in traced.cell_grads}
    of_tensors = {o for (_, i), o in after.items() if i in tensors and o is not None}
    others = {o for (_, i), o in after.items() if i not in tensors}
    inputs = {n: after.get((kind, i)) for n, (kind, i) in enumerate(traced.sources) if "cell" in kind and i in tensors}
    return Kept(frozenset(of_tensors - others).intersection(placed), inputs)


def _name(node: Node, cell: Cell | None) -> str:
    """Return an input's name; a number that an object keeps (a rate) has its name there."""
    name = str(node.attrs["name"]) or "a value"
    key = getattr(cell, "name", None)
    return f"{key!r} of {name}" if isinstance(key, str) and not isinstance(cell, TensorCell) else name


def _by_element(node: Node) -> Iterable[Node]:
    """Yield the nodes of one shape that a value is made of, element by element."""
    shape, seen, waiting = node.spec.shape, {node}, [node]
    while waiting:
        at = waiting.pop()
        yield at
        if at.op.kind == "elementwise":
            for e in at.inputs:
                if isinstance(e, Node) and e not in seen and isinstance(e.spec, Spec) and e.spec.shape == shape:
                    seen.add(e)
                    waiting.append(e)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    mesh: Mesh,
    in_specs: Sequence[Any] = (),
    zero: str | None = None,
    sequence: str | None = None,
    pipeline: Pipeline | None = None,
    memory: Any = None,
    spill: bool | str = False,
    engine: str | None = None,
    blocks: Mapping[str, int] | None = None,
) -> Any:
    """Compile a training step for the ranks of a mesh.

    Parameters
    ----------
    fn: a step as :func:`wengert.jit` takes it, written for one process: modules, an optimiser, `loss.backward()`.
    mesh: the ranks.
    in_specs: a placement for each argument, as for :func:`partition`; the batch is split over "data", say. Arguments
        may be given by name: the entry is that of their position in the function's signature.
    zero: a mesh axis over which gradients and optimiser state are split, each rank updating its part of the parameters
        (ZeRO, stage 2). What has the parts of a parameter that :func:`shard` splits over it stays as it is.
    sequence: a mesh axis of tensor parallelism along which what blocks hand on is in parts too, of examples or
        positions: norms, residuals and dropout compute a part, and sums are scattered and gathered instead of
        all_reduced (sequence parallelism).
    pipeline: how the step is cut into stages and microbatches along a mesh axis: :class:`Pipeline`.
    memory, spill: a budget of memory for each rank beside what it is given, kept to as :func:`wengert.jit` does: values
        are computed again, or spilled to a file. Collectives are then waited for where they stand. A task of a pipeline
        has what is left beside the values that its place keeps between tasks. Native code has it.
    engine: "native" or "xla", where each rank is a device of JAX's; "auto"; None for that of :class:`wengert.engine`,
        or native code.
    blocks: the number of blocks, by mesh axis, that what is split over it is cut into, whatever the number of ranks: 1,
        2, 4, 8, ... for each rank. Each rank computes its blocks one by one, and all sums over them are made in one
        order: the numbers are, bit for bit, those of any other number of ranks that has the same blocks, and as many
        threads each. Left out, sums are of one part for each rank.

    Parameters are where :func:`shard` says, and whole on every rank where it says nothing; so they are between steps.
    Batch norm sees the whole batch, dropout draws as one process would, and losses are those of one process but for the
    order of sums. In a job (:func:`run`, `wengert launch`) each rank computes its part, and every process gives the
    step the whole batch; elsewhere all ranks run in this process.

    Raises what :func:`wengert.jit` and :func:`partition` raise. Left out, `fn` is decorated.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(3, 1)
    >>> opt = wg.optim.SGD(model.parameters(), lr=0.1)
    >>> @wg.distribute.jit(mesh=wg.distribute.Mesh(data=2), in_specs=("data",))
    ... def step(x):
    ...     loss = (model(x) ** 2).mean()
    ...     opt.zero_grad()
    ...     loss.backward()
    ...     opt.step()
    ...     return loss
    >>> bool(step(wg.ones(4, 3)) > step(wg.ones(4, 3)))
    True
    """
    if fn is None:
        return functools.partial(
            jit,
            mesh=mesh,
            in_specs=in_specs,
            zero=zero,
            sequence=sequence,
            pipeline=pipeline,
            memory=memory,
            spill=spill,
            engine=engine,
            blocks=blocks,
        )
    if not callable(fn):
        fail(DTypeError, f"jit of a {type(fn).__name__}, which is not a function")
    mesh = as_mesh(mesh, "jit")
    if engine == XLA and memory is not None:
        fail(GraphError, f"jit on {mesh} with memory={memory!r} and engine={engine!r}", _NATIVE_ONLY)
    for axis in (zero, sequence):
        if axis is not None:
            mesh.size_of(axis)
    pipeline = as_pipeline(pipeline, mesh, "jit")
    check_blocks("jit", mesh, blocks, pipeline is not None, engine)
    if spill and memory is None:
        fail(GraphError, f"jit on {mesh} with spill={spill!r} and no memory", 'Say how much: memory="2GB".')
    limit = None
    if memory is not None:
        limit = Limit(nbytes_of(memory, "memory"), 0, folder_of(spill) if spill else "", False)
    return StepOnMesh(fn, mesh, checked_in_specs(in_specs, "jit"), zero, pipeline, sequence, limit, engine, blocks)
