"""Functions on whole values as programs for the ranks of a mesh."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core import tree
from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.mode import get_mode
from ..core.spec import Spec, spec_of
from ..core.tensor import Tensor, asarray, like, wrap
from ..execute.engines import XLA, chosen, named
from ..execute.jit.compiled import is_found_by_name
from ..nn.module import Module, with_tensors
from ..nn.parameter import Parameter
from ..optim.optimizer import Optimizer
from ..passes.cse import cse
from ..transforms.tracing.trace import trace
from .arguments import Parameters, as_function
from .engines.engine import Engines, engine_for, one_thread, run_placed
from .mesh import Mesh, as_mesh, for_all_ranks
from .pipeline.program import Pipeline, Pipelined, as_pipeline, pipelined
from .placing.folding import check_blocks, check_cut, refuse_blocks_on_xla
from .placing.partition import Partitioned, partition_graph
from .placing.placement import PartitionSpec, partition_spec, placement_of
from .placing.sharded import Sharded, in_parts, of_tensor

# The kinds of calls that a program is kept for; of more, the oldest is forgotten.
_KEPT = 64


def is_leaf(x: Any) -> bool:
    """Return whether a part of a pytree of placements is one placement."""
    return x is None or isinstance(x, (str, PartitionSpec))


def spread_specs(entry: Any, pytree: Any, what: str) -> list[PartitionSpec]:
    """Return a placement for every leaf of a pytree, from a pytree of them that begins like it. Raises GraphError."""
    if is_leaf(entry):
        return [partition_spec(entry)] * len(tree.leaves(pytree))
    if isinstance(entry, dict) and isinstance(pytree, dict) and entry.keys() == pytree.keys():
        return [s for key in pytree for s in spread_specs(entry[key], pytree[key], what)]
    if isinstance(entry, (tuple, list)) and isinstance(pytree, (tuple, list)) and len(entry) == len(pytree):
        return [s for e, p in zip(entry, pytree, strict=True) for s in spread_specs(e, p, what)]
    fail(
        GraphError,
        f"{what}: {entry!r} does not begin like {tree.structure(pytree)}",
        "Give a PartitionSpec, the name of a mesh axis or None for all of it, or a pytree of them that begins like it.",
    )


def checked_in_specs(in_specs: Any, what: str) -> tuple[Any, ...]:
    """Return placements by argument as a tuple. Raises GraphError for what is one placement."""
    if is_leaf(in_specs) or not isinstance(in_specs, (tuple, list)):
        remedy = f"in_specs=({in_specs!r},)" if is_leaf(in_specs) else 'in_specs=("data", None)'
        fail(
            GraphError,
            f"{what} with in_specs={in_specs!r}",
            f"It is a tuple, an entry for each argument: {remedy}.",
        )
    return tuple(in_specs)


class Made(NamedTuple):
    """A program for one kind of call: what ranks run, the traced graph, the results' whole specs, engines by name."""

    program: Partitioned | Pipelined
    graph: Graph
    wholes: tuple[Spec, ...]
    engines: dict[str, Engines]


class Program:
    """A function on whole values, as :func:`partition` returns it: called like it, and run by the ranks of a mesh."""

    def __init__(
        self,
        fn: Callable[..., Any],
        mesh: Mesh,
        in_specs: Sequence[Any],
        out_specs: Any,
        gather: frozenset[str],
        pipeline: Pipeline | None = None,
        engine: str | None = None,
        blocks: Mapping[str, int] | None = None,
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._given = fn, mesh, in_specs, out_specs, gather, pipeline, engine, blocks
        self._engine = None if engine is None else named(engine)
        self._fn, self.mesh, self._pipeline = fn, mesh, pipeline
        self._parameters = Parameters(fn)
        self._in_specs, self._out_specs, self._gather = in_specs, out_specs, gather
        self._blocks = dict(blocks or {})
        self._name = str(getattr(fn, "__name__", type(fn).__name__))
        self._made: dict[Any, Made] = {}

    def __reduce__(self) -> Any:
        """Pickle by name where it is found under that, else by what it is made of; programs are made anew."""
        named = self.__dict__.get("__qualname__", "")
        return named if is_found_by_name(self, self.__dict__.get("__module__"), named) else self.parts()

    def parts(self) -> tuple[Any, tuple[Any, ...]]:
        """Return the (callable, args) pair that rebuilds this function when it is unpickled."""
        return type(self), self._given

    def _by_position(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._parameters.by_position(args, kwargs, len(self._in_specs), f"a call on {self.mesh}")

    def lower(self, *args: Any, **kwargs: Any) -> Partitioned | Pipelined:
        """Return the program for arguments of these shapes: the graph that each rank runs, and all placements.

        With a pipeline it has the tasks of every place.
        """
        return self._lowered(self._by_position(args, kwargs)).program

    def _lowered(self, args: tuple[Any, ...]) -> Made:
        leaves, structure = tree.flatten(args)
        stand_ins = [x.spec if isinstance(of_tensor(x), Sharded) else x for x in leaves]
        specs = [_spec_of(x) for x in stand_ins]
        key = (
            _key(structure),
            tuple(x if s is None else s for x, s in zip(stand_ins, specs, strict=True)),
            get_mode().floats,
        )
        found = self._made.get(key)
        if found is None:
            if len(self._made) >= _KEPT:
                del self._made[next(iter(self._made))]
            found = self._made[key] = self._partitioned(tree.unflatten(structure, stand_ins), args)
        return found

    def _specs(self, args: tuple[Any, ...]) -> list[PartitionSpec]:
        """Return a placement for each leaf of the arguments."""
        if len(self._in_specs) != len(args):
            fail(
                GraphError,
                f"{self._name} on {self.mesh}: in_specs has {len(self._in_specs)} entries for {len(args)} arguments",
                "Give one for each.",
            )
        return [s for e, a in zip(self._in_specs, args, strict=True) for s in spread_specs(e, a, "in_specs")]

    def _refuse_bound(self, graph: Graph) -> None:
        if graph.bound:
            names = ", ".join(graph.names[n] for n in graph.bound)
            fail(
                GraphError,
                f"{self._name} on {self.mesh} uses tensors that are no arguments: {names}",
                "Pass them as arguments, so that in_specs says where they are; for modules and optimisers there is "
                "wg.distribute.jit.",
            )

    def _partitioned(self, shapes: tuple[Any, ...], args: tuple[Any, ...]) -> Made:
        given = self._specs(args)
        with for_all_ranks(self.mesh):
            graph = trace(self._fn, shapes, {}, returns_all=True)
        self._refuse_bound(graph)
        kept = [s for i, s in enumerate(given) if i not in graph.static]
        inputs = [
            placement_of(s, n.spec, self.mesh, f"{self._name}: {graph.names[n]}")
            for n, s in zip(graph.inputs, kept, strict=True)
        ]
        assert graph.out_structure is not None
        results = tree.unflatten(graph.out_structure, [n.spec for n in graph.outputs])
        wanted = [
            placement_of(s, n.spec, self.mesh, f"result {i} of {self._name}")
            for i, (s, n) in enumerate(
                zip(spread_specs(self._out_specs, results, "out_specs"), graph.outputs, strict=True)
            )
        ]
        axes = frozenset(i for i, name in enumerate(self.mesh.names) if name in self._gather)
        gathered = [
            frozenset(i for i in axes if p[i] is not None and n.spec.inexact) for n, p in zip(graph.inputs, inputs)
        ]
        made: Partitioned | Pipelined
        if self._pipeline is None:
            for node, placement in zip(graph.inputs, inputs, strict=True):
                check_cut(f"{self._name}: {graph.names[node]}", node.spec, placement, self.mesh, self._blocks)
            made = partition_graph(cse(graph), self.mesh, inputs, wanted, gathered, blocks=self._blocks)
        else:
            cuts = [d for i, d in enumerate(self._pipeline.cuts(shapes)) if i not in graph.static]
            made = pipelined(cse(graph), self.mesh, inputs, wanted, gathered, cuts, self._pipeline)
        return Made(made, graph, tuple(n.spec for n in graph.outputs), {})

    def _inside(self, args: tuple[Any, ...]) -> Any:
        """Return the results inside another transform: the function itself is run."""
        with for_all_ranks(self.mesh):
            return self._fn(*whole(args))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program: whole values are cut, parts (`Sharded`) are taken as they are.

        Arguments by name have the entry of `in_specs` at their position.
        """
        args = self._by_position(args, kwargs)
        tensors = [x for x in tree.leaves(args) if isinstance(x, Tensor)]
        if any(t.is_abstract or (t.requires_grad and get_mode().grad) for t in tensors):
            return self._inside(args)
        made, graph, wholes, engines = self._lowered(args)
        name = self._engine or get_mode().engine
        if name not in engines:
            on_xla = chosen(graph, name, "", self.mesh.size).name == XLA
            if on_xla:
                refuse_blocks_on_xla(self._name, self.mesh, self._blocks)
            engines[name] = Engines(functools.partial(engine_for, made, None, on_xla))
        engine = engines[name].here()
        names = [graph.names[n] for n in graph.inputs]
        leaves = [of_tensor(x) for i, x in enumerate(tree.leaves(args)) if i not in graph.static]
        leaves = [x._array if isinstance(x, Tensor) else x if isinstance(x, Sharded) else np.asarray(x) for x in leaves]
        given = [(n, x) for n, x in zip(names, leaves, strict=True) if not isinstance(x, Sharded)]
        with one_thread():
            engine.check([name for name, _ in given], [x for _, x in given])
            found = run_placed(engine, made, leaves, names, wholes)
        out = [x if isinstance(x, Sharded) else wrap(x) for x in found]
        assert graph.out_structure is not None
        return tree.unflatten(graph.out_structure, out)


def _key(structure: tree.Structure) -> Any:
    """Return a pytree's structure as a part of a key; structures that differ have different ones."""
    return structure.kind, repr(structure.aux), tuple(map(_key, structure.children))


def _spec_of(x: Any) -> Spec | None:
    if isinstance(x, Spec):
        return x
    if isinstance(x, Tensor):
        return x.spec
    return spec_of(x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) else None


def partition(
    fn: Callable[..., Any],
    mesh: Mesh,
    in_specs: Sequence[Any],
    out_specs: Any = None,
    *,
    gather: str | Sequence[str] = (),
    pipeline: Pipeline | None = None,
    engine: str | None = None,
    blocks: Mapping[str, int] | None = None,
) -> Program:
    """Return a function of whole values as a program for the ranks of a mesh.

    Parameters
    ----------
    fn: a function of pytrees of tensors, written for one process: gradients, optimiser and all.
    mesh: the ranks.
    in_specs: for each argument a placement, or a pytree of placements that begins like the argument: a
        :class:`PartitionSpec`, the name of the mesh axis that its first dimension is split over, or None where every
        rank has all of it.
    out_specs: the same of the result; None gives whole values.
    gather: mesh axes along which split floating arguments are gathered where they are used, and again for the backward
        pass, instead of being used in parts: sharded data parallelism (FSDP, ZeRO stage 3).
    pipeline: how the function is cut into stages and microbatches along a mesh axis: a :class:`Pipeline` whose `batch`
        says which arguments are cut.
    engine: "native" or "xla", where each rank is a device of JAX's; "auto"; None for that of :class:`wengert.engine`,
        or native code.
    blocks: the number of blocks by mesh axis, for numbers that do not depend on that of ranks: see :func:`jit`.

    What each rank runs follows: batches that are split over an axis make data parallelism (gradients are all_reduced),
    weights that are split make tensor parallelism, parameters and optimiser state that are split and gathered make
    sharded data parallelism. The result is that of `fn`, but for the order of sums; random numbers are the same. In a
    job (:func:`run`, `wengert launch`) each rank runs its part; elsewhere all ranks run in this process. Inside another
    transform, and where gradients flow through it, the function itself is run: take gradients inside of it.

    Raises ShapeError for a split that has no equal parts, GraphError.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(data=2)
    >>> f = wg.distribute.partition(lambda w, x: wg.tanh(x @ w).mean(), mesh, in_specs=(None, "data"))
    >>> f(wg.ones(3, 2), wg.ones(4, 3))
    tensor(0.9951)
    >>> print(f.lower(wg.ones(3, 2), wg.ones(4, 3)).graph.find("all_reduce")[0].spec)
    f32[]
    """
    mesh = as_mesh(mesh, "partition")
    as_function(fn, "partition")
    axes = gather if isinstance(gather, (tuple, list)) else (gather,)
    for name in axes:
        mesh.size_of(name)
    pipeline = as_pipeline(pipeline, mesh, "partition")
    if pipeline is not None and pipeline.batch is None:
        fail(
            GraphError,
            f"a partition of {getattr(fn, '__name__', fn)} with {pipeline}, which does not say what the batch is",
            "Give batch=, an entry for each argument: the dimension that is cut into microbatches, or None.",
        )
    check_blocks("partition", mesh, blocks, pipeline is not None, engine)
    specs = checked_in_specs(in_specs, "partition")
    return Program(fn, mesh, specs, out_specs, frozenset(axes), pipeline, engine, blocks)


def place(x: Any, mesh: Mesh, spec: Any) -> Any:
    """Return a pytree of tensors in parts on a mesh: each rank keeps its own.

    `spec` is a placement, or a pytree of placements that begins like `x`. All ranks call it with equal values.
    """
    leaves, structure = tree.flatten(x)
    mesh, out = as_mesh(mesh, "place"), []
    for leaf, given in zip(leaves, spread_specs(spec, x, "place"), strict=True):
        t = asarray(leaf)
        out.append(in_parts(t._value("place"), placement_of(given, t.spec, mesh, "a tensor"), mesh))
    return tree.unflatten(structure, out)


def whole(x: Any) -> Any:
    """Return a pytree with its values in parts joined; a collective, for all ranks to call.

    Tensors that are in parts (of a model that :func:`shard` has split, of its state dict) become whole ones of the same
    kind. Of a module it is another module, with tensors of its own that have no gradients: the one that is trained
    keeps its parts. Raises GraphError for an optimiser, whose parameters a module has.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(data=2)
    >>> model = wg.distribute.shard(wg.nn.Linear(2, 4), mesh, fsdp="data")
    >>> model.weight.shape, wg.distribute.whole(model)(wg.ones(2)).shape
    ((4, 2), (4,))
    """
    leaves, structure = tree.flatten(x, lambda leaf: isinstance(leaf, Module))
    for leaf in leaves:
        if isinstance(leaf, Optimizer):
            fail(
                GraphError,
                f"whole of {type(leaf).__name__}, an optimiser",
                "Join its state, wg.distribute.whole(optimizer.state_dict()), and the model, whose parameters another "
                "optimiser takes with that state.",
            )
    known: dict[int, Any] = {}  # what stands in several places is joined once
    return tree.unflatten(structure, [_joined_once(leaf, known) for leaf in leaves])


def _joined_once(x: Any, known: dict[int, Any]) -> Any:
    """Return a leaf of a pytree as a whole one, a module by its tensors; what was joined before as it was then."""
    if id(x) not in known:
        known[id(x)] = with_tensors(x, lambda t: _own(t, known)) if isinstance(x, Module) else _joined(x)
    return known[id(x)]


def _own(x: Tensor, known: dict[int, Any]) -> Tensor:
    """Return a joined module's tensor: without a gradient, in memory of its own, unless it was computed."""
    if isinstance(of_tensor(x), Sharded):
        joined: Tensor = _joined_once(x, known)
        return joined
    if not x.is_leaf:
        return x
    found = copy.deepcopy(x)
    found.grad = None
    return found


def _joined(x: Any) -> Any:
    """Return a value in parts as a whole tensor, one that is a leaf as another leaf; anything else as it is."""
    found = of_tensor(x)
    if not isinstance(found, Sharded):
        return x
    joined = found.whole()
    if not isinstance(x, Tensor):
        return joined
    if isinstance(x, Parameter):
        return type(x)(joined, x.requires_grad)
    joined = like(x, joined)
    return joined.requires_grad_() if x.requires_grad else joined
