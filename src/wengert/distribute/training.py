"""Training steps on meshes as they are written for one process: modules, optimisers, `loss.backward()`."""

from __future__ import annotations

import fnmatch
import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import DTypeError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.node import Node
from ..core.references import Apart
from ..core.spec import Spec
from ..core.state.cells import Cell, TensorCell
from ..core.tensor import Tensor
from ..execute.engines import XLA, named
from ..execute.engines import Engine as Chosen
from ..execute.jit.capture.captured import Captures
from ..execute.jit.capture.outside import Outside
from ..execute.jit.executor import CompileGraph, Executor, executor
from ..execute.jit.executor import on_xla as on_one_device
from ..execute.jit.jit import Jit
from ..execute.jit.options import Options
from ..execute.jit.signature import Call
from ..execute.jit.tracing import Argument, Traced
from ..execute.native.run.runtime import Commit
from ..nn.module import Module
from ..passes.cse import cse
from .engines.engine import Engine, Lockstep, OnXLA, engine_for, run_placed
from .engines.stages import LockstepStages
from .engines.xla import OnDevices
from .mesh import Mesh, as_mesh, for_all_ranks
from .pipeline.program import Pipeline, Pipelined, pipelined
from .placing.partition import Partitioned, partition_graph
from .placing.placement import PartitionSpec, Placement, partition_spec, placement_of
from .program import checked_in_specs, spread_specs

# By the identity of a parameter: the parameter, where it is split, and the axis along which it is gathered for use.
_placed: dict[int, tuple[weakref.ref[Tensor], PartitionSpec, str | None]] = {}


def shard(module: Module, mesh: Mesh, rules: Mapping[str, Any] | None = None, *, fsdp: str | None = None) -> Module:
    """Say where a module's parameters are split on a mesh. Returns the module.

    Parameters
    ----------
    module: any module; nothing about it changes but where :func:`jit` computes with it.
    mesh: the ranks.
    rules: by pattern of parameter names (`"*.0.weight"`, as in :mod:`fnmatch`) a placement: a :class:`PartitionSpec`,
        the name of the mesh axis that splits the first dimension, or None. The first pattern that fits counts; one
        weight split by columns and the next by rows is tensor parallelism.
    fsdp: a mesh axis over which every parameter is split along a dimension that is free and has equal parts, and is
        gathered where it is used (sharded data parallelism).

    Optimiser state has the parts of its parameter. Raises GraphError for a pattern that fits no parameter, ShapeError
    for a split without equal parts.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(model=2)
    >>> model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 2))
    >>> rules = {"0.*": "model", "2.weight": wg.distribute.PartitionSpec(None, "model")}
    >>> _ = wg.distribute.shard(model, mesh, rules)
    """
    if not isinstance(module, Module):
        fail(DTypeError, f"shard of a {type(module).__name__}", "It takes a module; functions have in_specs.")
    mesh = as_mesh(mesh, "shard")
    if fsdp is not None:
        mesh.size_of(fsdp)
    for gone in [key for key, (parameter, *_) in _placed.items() if parameter() is None]:
        del _placed[gone]
    given, used = dict(rules or {}), set()
    for name, parameter in module.named_parameters():
        pattern = next((p for p in given if fnmatch.fnmatchcase(name, p)), None)
        spec = partition_spec(given[pattern]) if pattern is not None else PartitionSpec()
        used.add(pattern)
        placement_of(spec, parameter.spec, mesh, f"parameter {name}")
        gathered = None
        if fsdp is not None:
            found = split_over(fsdp, spec, parameter.shape, mesh)
            spec, gathered = (spec, None) if found is None else (found, fsdp)
        _placed[id(parameter)] = Apart(parameter), spec, gathered
    unused = [p for p in given if p not in used]
    if unused:
        names = ", ".join(n for n, _ in module.named_parameters())
        fail(GraphError, f"shard: {unused[0]!r} fits no parameter", f"The parameters are {names}.")
    return module


def split_over(axis: str, spec: PartitionSpec, shape: Sequence[int], mesh: Mesh) -> PartitionSpec | None:
    """Return a placement that also splits the first dimension that is free.

    None where there is none, and where the axis splits a dimension already.
    """
    ranks = mesh.size_of(axis)
    if axis in spec.names:
        return None
    names = [*spec.names, *(None for _ in range(len(shape) - len(spec.names)))]
    for dim, n in enumerate(shape):
        if names[dim] is None and n and n % ranks == 0:
            return PartitionSpec(*names[:dim], axis, *names[dim + 1 :])
    return None


def _known(x: Any) -> tuple[PartitionSpec, str | None] | None:
    found = _placed.get(id(x))
    return found[1:] if found is not None and found[0]() is x else None


class OnMeshExecutor:
    """A traced step, partitioned: it takes whole arrays and gives whole arrays, and each rank computes its part."""

    def __init__(self, program: Partitioned | Pipelined, names: Sequence[str], engine: Engine | OnXLA) -> None:
        self.program, self.engine = program, engine
        self.names = names  # of the inputs, as errors call them
        self.wholes = [n.spec for n in program.graph.outputs]

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs' values, which share memory with nothing else."""
        self.engine.check(self.names, arrays)
        outputs = run_placed(self.engine, self.program, arrays, self.wholes)
        if type(self.engine) not in (Lockstep, LockstepStages):
            return outputs  # of an executor, which gives new arrays
        seen: list[Any] = list(arrays)
        for i, v in enumerate(outputs):
            if any(np.may_share_memory(v, a) for a in seen):
                outputs[i] = v.copy()
            seen.append(outputs[i])
        return outputs

    def run_at_once(self, arrays: Sequence[Any], commit: Commit) -> list[Any]:
        """Run, and give the values to `commit` when they are there."""
        outputs = self.run(arrays)
        commit(outputs, ())
        return outputs


class OnDevicesExecutor(OnMeshExecutor):
    """The same on XLA, where what JAX says of the program can be seen."""

    engine: OnDevices

    @property
    def ir(self) -> str:
        """The program as XLA is given it."""
        return self.engine.compiled.ir

    @property
    def memory(self) -> Any:
        """The memory that a run needs on each device, as XLA says."""
        return self.engine.compiled.memory

    @property
    def transfers(self) -> Any:
        """The arrays that the last run moved between the host and the devices."""
        return self.engine.compiled.transfers


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
        engine: str | None = None,
    ) -> None:
        named_engine = named(engine) if engine is not None else ""
        super().__init__(fn, Options(None, None, None, False, False, None, engine=named_engine))
        self._ranks = mesh.size
        self.mesh, self.in_specs, self.zero, self.pipeline = mesh, tuple(in_specs), zero, pipeline
        # The latest partitions, the last one last: what each rank runs, and where everything is.
        self.partitions: deque[Partitioned | Pipelined] = deque(maxlen=16)
        # Where a tensor of the step's surroundings is, and along which axis it is gathered.
        self.placed: Callable[[Tensor], tuple[PartitionSpec, str | None] | None] = _known

    def lowered(self, *args: Any) -> Partitioned | Pipelined:
        """Return the program for arguments like these, or specs of them, without running it."""
        self.lower(*args).compile()
        return self.partitions[-1]

    def _traced(self, call: Call, arguments: Sequence[Argument], outside: Outside) -> Traced:
        with for_all_ranks(self.mesh):
            return super()._traced(call, arguments, outside)

    def _compiler_of(self, traced: Traced, call: Call, captures: Captures, engine: Chosen) -> CompileGraph:
        inputs, gathered = self._inputs(traced, call, captures)
        of_trace = traced.graph.inputs
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
            whole: list[Placement | None] = [(None,) * len(self.mesh.names)] * len(graph.outputs)
            if self.pipeline is None:
                made: Partitioned | Pipelined = partition_graph(cse(graph), self.mesh, inputs, whole, gathered)
            else:
                cuts = self._cuts(self.pipeline, traced, call)
                made = pipelined(cse(graph), self.mesh, inputs, whole, gathered, cuts, self.pipeline)
            self.partitions.append(made)
            ready = engine_for(made, on_xla, donated, replaced)
            return (OnDevicesExecutor if isinstance(ready, OnDevices) else OnMeshExecutor)(made, names, ready)

        return compile

    def _inputs(self, traced: Traced, call: Call, captures: Captures) -> tuple[list[Placement], list[frozenset[int]]]:
        """Return the placement of every input of a trace, and along which axes it is gathered."""
        mesh, graph = self.mesh, traced.graph
        args, kwargs = tree.unflatten(call.structure, call.leaves)
        if kwargs or len(args) != len(self.in_specs):
            fail(
                GraphError,
                f"{self._name} on {mesh}: in_specs has {len(self.in_specs)} entries for {len(args)} positional and "
                f"{len(kwargs)} keyword arguments",
                "Pass all arguments by position, and give a placement for each.",
            )
        given = [s for e, a in zip(self.in_specs, args, strict=True) for s in spread_specs(e, a, "in_specs")]
        specs: list[PartitionSpec | None] = []
        axes: list[str | None] = []
        for kind, i in traced.sources:
            spec, gathered = None, None
            if kind == "argument":
                spec = given[call.positions[i]]
            elif kind == "cell" and isinstance(captures.cells[i], TensorCell):
                found = self.placed(captures.cells[i].tensor)  # type: ignore[attr-defined]
                spec, gathered = found if found is not None else (None, None)
            specs.append(spec)
            axes.append(gathered)
        updates = {w.number: graph.outputs[w.output] for w in traced.cell_writes}
        self._follow(traced, updates, specs)
        placed = [
            placement_of(s, n.spec, mesh, f"{self._name}: {graph.names[n]}")
            for s, n in zip(specs, graph.inputs, strict=True)
        ]
        return placed, [frozenset() if a is None else frozenset({mesh.names.index(a)}) for a in axes]

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


def _name(node: Node, cell: Cell | None) -> str:
    """Return what an input is called: a number that an object keeps (a rate) by its name there."""
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
    pipeline: Pipeline | None = None,
    engine: str | None = None,
) -> Any:
    """Compile a training step for the ranks of a mesh.

    Parameters
    ----------
    fn: a step as :func:`wengert.jit` takes it, written for one process: modules, an optimiser, `loss.backward()`.
    mesh: the ranks.
    in_specs: a placement for each argument, as for :func:`partition`; the batch is split over "data", say.
    zero: a mesh axis over which optimiser state is split, each rank updating its part of the parameters (ZeRO). State
        that has the parts of a parameter which :func:`shard` splits over it stays as it is.
    pipeline: how the step is cut into stages and microbatches along a mesh axis: :class:`Pipeline`.
    engine: "native" or "xla", where each rank is a device of JAX's; "auto"; None for that of :class:`wengert.engine`,
        or native code.

    Parameters are where :func:`shard` says, and whole on every rank where it says nothing. Between steps all tensors
    are whole: inside, each rank has its parts. Batch norm sees the whole batch, dropout draws as one process would, and
    losses are those of one process but for the order of sums. In a job (:func:`run`, `wengert launch`) each rank
    computes its part, and every process gives the step the whole batch; elsewhere all ranks run in this process.

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
        return functools.partial(jit, mesh=mesh, in_specs=in_specs, zero=zero, pipeline=pipeline, engine=engine)
    if not callable(fn):
        fail(DTypeError, f"jit of a {type(fn).__name__}, which is not a function")
    mesh = as_mesh(mesh, "jit")
    if zero is not None:
        mesh.size_of(zero)
    if pipeline is not None:
        pipeline.count(mesh)
    return StepOnMesh(fn, mesh, checked_in_specs(in_specs, "jit"), zero, pipeline, engine)
