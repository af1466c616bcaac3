"""Functions of one rank: written with collectives, traced once, and typed so that their gradients are right.

Along each mesh axis a value is replicated or varying. Where a replicated value meets a varying one it is made varying
by a `pcast`, whose derivative is the sum over the ranks; so the gradient in a parameter that all ranks share is the
whole one, and the same on all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core import tree
from ..core.errors import GradientError, GraphError, error, fail, user_location
from ..core.graph.graph import Graph
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.node import Node
from ..core.ops.autocast import Detour
from ..core.ops.op import INPUT, Op
from ..core.ops.record import OUTPUT
from ..core.spec import spec_of
from ..core.tensor import Tensor
from ..ops.collective import definitions as c
from ..transforms.tracing.trace import trace
from .arguments import as_function
from .mesh import Mesh, as_mesh, for_all_ranks
from .placing.partition import Partitioned
from .placing.placement import PartitionSpec, Placement, local_spec, placement_of
from .program import Made, Program, checked_in_specs, spread_specs

Axes = frozenset[str]  # the mesh axes along which a value varies
NOWHERE: Axes = frozenset()
# An input of a loop's or a branch's inside: what the loop gives is taken to vary where anything does that it takes.
UNKNOWN: Axes = frozenset({"?"})
# What each needs its operand to be along its axis, and what its result is.
_TAKES_VARYING = frozenset(
    {c.all_reduce, c.all_reduce_max, c.all_gather, c.reduce_scatter, c.ppermute, c.all_to_all, c.broadcast_from}
)
_GIVES_REPLICATED = frozenset({c.all_reduce, c.all_reduce_max, c.broadcast_from})


def result_axes(node: Node, operands: Sequence[Axes]) -> Axes:
    """Return along which axes a node's result varies. Raises GraphError for a collective of what it is not for."""
    op, attrs = node.op, node.attrs
    joined = NOWHERE.union(*operands)
    if "collective" not in op.facets:
        return joined
    over = attrs["over"]
    if op is c.axis_index:
        return frozenset({over})
    if joined >= UNKNOWN:
        return joined
    varies = over in joined
    if op in _TAKES_VARYING and not varies:
        raise error(
            GraphError,
            f"{op.name} over {over!r} of a value that is the same on all of its ranks",
            "A sum of it would be as many times the value as there are ranks. Leave it out; or say that each rank's "
            f"counts, wg.distribute.pcast(x, {over!r}).",
            str(node.source),
        )
    if op in (c.pcast, c.own_part) and varies:
        raise error(
            GraphError,
            f"{op.name} over {over!r} of a value that each of its ranks has its own of",
            "It is for a value that all share: leave it out, or join the parts by all_gather or all_reduce first.",
            str(node.source),
        )
    if op in _GIVES_REPLICATED or (op is c.all_gather and attrs["replicated"]):
        return joined - {over}
    return joined | {over}


class Typed:
    """The mode of a trace in which operands that are replicated are made varying where they meet what varies."""

    def __init__(self, mesh: Mesh, known: dict[Node, Axes], outer: Any = None) -> None:
        self.mesh = mesh
        self.known = known
        self.outer = outer

    def axes(self, node: Node) -> Axes:
        """Return along which axes a recorded value varies."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            if at in self.known:
                waiting.pop()
                continue
            needed = [e for e in at.inputs if isinstance(e, Node) and e not in self.known]
            if needed:
                waiting += needed
                continue
            waiting.pop()
            if at.op is INPUT:
                self.known[at] = UNKNOWN
                continue
            of = [self.known[e] for e in at.inputs if isinstance(e, Node)]
            self.known[at] = result_axes(at, of)
        return self.known[node]

    def operands(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        """Return an op's operands, all varying along the axes along which one does."""
        if self.outer is not None:
            args = self.outer.operands(op, args)
        if "collective" in op.facets or op is OUTPUT:
            return args
        found = [self.axes(a.node) if isinstance(a, Tensor) and a.node is not None else NOWHERE for a in args]
        joined = NOWHERE.union(*found)
        if not joined or joined >= UNKNOWN or all(f == joined for f in found):
            return args
        return [self._cast(a, joined - f) for a, f in zip(args, found, strict=True)]

    def _cast(self, a: Any, missing: Axes) -> Any:
        # A constant has no gradient, and an integer neither: they need no words.
        if not (isinstance(a, Tensor) and a.node is not None and a.spec.inexact):
            return a
        for over in sorted(missing):
            a = c.pcast.front(a, over=over, ranks=self.mesh.axes[over])
        return a


class RankProgram(Program):
    """A function of one rank, as :func:`shard_map` returns it: it takes and gives whole values, or parts."""

    def _partitioned(self, shapes: tuple[Any, ...], args: tuple[Any, ...]) -> Made:
        given = self._specs(args)
        leaves, structure = tree.flatten(shapes)
        specs = [x.spec if isinstance(x, Tensor) else x for x in leaves]
        placed: list[Placement] = []
        for i, (x, s) in enumerate(zip(specs, given, strict=True)):
            if hasattr(x, "shape") and hasattr(x, "dtype"):
                spec = spec_of(tuple(x.shape), x.dtype)
                placement = placement_of(s, spec, self.mesh, f"{self._name}: argument leaf {i}")
                leaves[i] = local_spec(spec, placement, self.mesh)
                placed.append(placement)
        local_args = tree.unflatten(structure, leaves)
        graph = self._traced(local_args, placed)
        self._refuse_bound(graph)
        known = {n: self._axes(p) for n, p in zip(graph.inputs, placed, strict=True)}
        typed = Typed(self.mesh, known)
        assert graph.out_structure is not None
        results = tree.unflatten(graph.out_structure, [n.spec for n in graph.outputs])
        wanted = spread_specs(self._out_specs, results, "out_specs")
        outputs, wholes = [], []
        for i, (node, s) in enumerate(zip(graph.outputs, wanted, strict=True)):
            outputs.append(self._checked(node, s, typed.axes(node), i))
            sizes = list(node.spec.shape)
            for name, d in zip(self.mesh.names, outputs[-1], strict=True):
                if d is not None:
                    sizes[d] *= self.mesh.axes[name]
            wholes.append(spec_of(tuple(sizes), node.spec.dtype))
        made = Partitioned(
            graph, self.mesh, tuple(placed), tuple(outputs), dict(zip(graph.inputs, placed, strict=True))
        )
        return Made(made, graph, tuple(wholes), {})

    def _axes(self, placement: Placement) -> Axes:
        return frozenset(n for n, d in zip(self.mesh.names, placement, strict=True) if d is not None)

    def _traced(self, args: tuple[Any, ...], placed: Sequence[Placement]) -> Graph:
        fn, mesh = self._fn, self.mesh

        @functools.wraps(fn, updated=())
        def on_a_rank(*inner: Any) -> Any:
            tensors = [x for x in tree.leaves(inner) if isinstance(x, Tensor) and x.is_abstract]
            known = {t.node: self._axes(p) for t, p in zip(tensors, placed, strict=True) if t.node is not None}
            mode = get_mode()
            typed = Typed(mesh, known, mode.autocast)
            token = set_mode(mode.with_autocast(typed, Detour()))
            try:
                with mesh, for_all_ranks(mesh, of_one=True):
                    return fn(*inner)
            finally:
                reset_mode(token)

        return trace(on_a_rank, args, {}, returns_all=True)

    def _checked(self, node: Node, s: PartitionSpec, varies: Axes, i: int) -> Placement:
        """Return a result's placement. Raises GraphError where it varies along an axis that its spec leaves out."""
        unsaid = sorted(varies - set(s.names))
        if unsaid:
            where = str(node.source) if node.source is not None else user_location()
            raise error(
                GraphError,
                f"result {i} of {self._name}, {node.spec}, differs between the ranks along {unsaid[0]!r}, and "
                f"out_specs says {s!r}",
                f"Join what the ranks have, wg.distribute.all_reduce(x, {unsaid[0]!r}) or all_gather; or name the axis "
                "in out_specs: parts side by side.",
                where,
            )
        if len(s.names) > len(node.spec.shape):
            fail(GraphError, f"result {i} of {self._name}, {node.spec}, has fewer dimensions than {s!r}")
        for name in s.names:
            if name is not None:
                self.mesh.size_of(name)
        found = {name: d for d, name in enumerate(s.names) if name is not None}
        return tuple(found.get(name) for name in self.mesh.names)

    def _inside(self, args: tuple[Any, ...]) -> Any:
        fail(
            GradientError,
            f"{self._name} on {self.mesh} inside another transform",
            "Take gradients inside of the function that shard_map is given, and compile nothing around it: each rank "
            "runs code of its own.",
        )


def shard_map(
    fn: Callable[..., Any], mesh: Mesh, in_specs: Sequence[Any], out_specs: Any, *, engine: str | None = None
) -> RankProgram:
    """Return a function of one rank as a program for all ranks of a mesh.

    Parameters
    ----------
    fn: what each rank does with its parts; it may call collectives over the mesh's axes, and take gradients.
    mesh: the ranks.
    in_specs: for each argument the mesh axes that split its dimensions, as for :func:`partition`: `fn` is given a part.
    out_specs: the same of the result: parts side by side. A dimension that is not named must be equal on all ranks.
    engine: as for :func:`partition`.

    A value is the same along a mesh axis, or differs; what an `all_reduce` gives is the same, what an argument that is
    split is made into differs. Where both meet, the shared one is used by every rank (:func:`pcast`), so that its
    gradient is the sum over them: the gradient in a shared parameter is complete, and the same on all ranks.

    Raises GraphError, with the line, for a result that differs where `out_specs` has it equal, for a sum over ranks of
    what they share, and for the part of what is in parts already.

    >>> import wengert as wg
    >>> dist, mesh = wg.distribute, wg.distribute.Mesh(data=2)
    >>> def gradient(w, x):
    ...     def loss(w):
    ...         return dist.all_reduce((x * w).sum(), "data")
    ...     return wg.grad(loss)(w)
    >>> dist.shard_map(gradient, mesh, (None, "data"), None)(wg.tensor(1.0), wg.arange(4.0))
    tensor(6.)
    """
    mesh = as_mesh(mesh, "shard_map")
    as_function(fn, "shard_map")
    return RankProgram(fn, mesh, checked_in_specs(in_specs, "shard_map"), out_specs, frozenset(), engine=engine)
