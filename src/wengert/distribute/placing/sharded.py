"""Values in parts: each rank has its own, and a process has those of the ranks that run in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ...core.dtypes import DType
from ...core.elsewhere import SAVING, Elsewhere, refuse_here
from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.spec import Spec, broadcast_shapes, spec_of
from ...core.tensor import Tensor, wrap
from ...ops.collective.definitions import all_gather, broadcast_from
from ...ops.collective.group import current, entered
from ..mesh import Mesh, OnMesh
from .placement import At, Placement, is_whole, local_part, local_shape, spec_of_placement


class Sharded(Elsewhere):
    """A value in parts: those of the ranks that run in this process.

    `spec` is the whole's shape and dtype, `placement` says which dimension each mesh axis splits. Partitioned programs
    take it, and give it where their `out_specs` say so; it is never whole in one place, unless `whole()` is asked for.
    A tensor whose value it is computes in steps on the mesh only; `name` is what errors call it. `at` names a mesh axis
    and a place along it where the ranks of that place alone have the value, or their parts of it: the state of a stage.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(data=2)
    >>> x = wg.distribute.place(wg.arange(4.0), mesh, "data")
    >>> x, [part.tolist() for part in x.parts.values()]
    (Sharded(f32[4], PartitionSpec('data')), [[0.0, 1.0], [2.0, 3.0]])
    >>> x.whole()
    tensor([0., 1., 2., 3.])
    """

    __slots__ = ("placement", "mesh", "parts", "name", "at")

    def __init__(
        self,
        spec: Spec,
        placement: Placement,
        mesh: Mesh,
        parts: Mapping[int, Any],
        name: str = "",
        at: At | None = None,
    ) -> None:
        self.spec = spec
        self.at = at
        self.placement = placement
        self.mesh = mesh
        self.parts = parts
        self.name = name

    @property
    def local(self) -> Tensor:
        """The part of the rank that runs here; of the first one, where all do."""
        if not self.parts:
            self.refuse("the local part")
        return wrap(next(iter(self.parts.values())))

    @property
    def nbytes(self) -> int:
        """The bytes of the parts that are in this process."""
        return sum(part.nbytes for part in self.parts.values())

    def refuse(self, what: str) -> NoReturn:
        """Raise DTypeError: what is asked for needs the whole value."""
        of = f"{self.name}, {self.spec}, which is" if self.name else f"{self!r},"
        where = "in parts over the ranks" if self.at is None else f"at place {self.at[1]} along {self.at[0]!r} alone"
        saves = "wg.distribute.save_checkpoint saves parts, too. " if what == SAVING else ""
        refuse_here(
            DTypeError,
            f"{what} of {of} {where} of {self.mesh}",
            f"{saves}Steps of wg.distribute.jit and functions of wg.distribute.partition compute with parts. All ranks "
            "join them by wg.distribute.whole(x), of a value, a tensor, a module or a state dict.",
        )

    def full(self, number: Any, dtype: DType) -> Sharded:
        """Return a value in the same parts that is everywhere one number."""
        parts = {rank: np.full(part.shape, number, dtype) for rank, part in self.parts.items()}
        return Sharded(spec_of(self.spec.shape, dtype), self.placement, self.mesh, parts, at=self.at)

    def cast(self, dtype: DType) -> Sharded:
        """Return the value in another dtype, in the same parts."""
        parts = {rank: part.astype(dtype) for rank, part in self.parts.items()}
        return Sharded(spec_of(self.spec.shape, dtype), self.placement, self.mesh, parts, self.name, self.at)

    def taken(self, array: Any) -> Sharded:
        """Return another whole value, which all ranks have, in the same parts: each keeps its own."""
        parts = {rank: np.array(local_part(array, self.placement, self.mesh, rank)) for rank in self.parts}
        return Sharded(spec_of(array.shape, array.dtype), self.placement, self.mesh, parts, self.name, self.at)

    def copy(self) -> Sharded:
        """Return the same value in memory of its own."""
        parts = {rank: part.copy() for rank, part in self.parts.items()}
        return Sharded(self.spec, self.placement, self.mesh, parts, self.name, self.at)

    def of_elements(self, op: Any, values: Sequence[Any], attrs: Mapping[str, Any]) -> Sharded | None:
        """Return an elementwise op of values in the same parts, part by part, as averages of weights need.

        The others are numbers, or whole arrays that all ranks have. None for values in other parts.
        """
        for v in values:
            if isinstance(v, Elsewhere):
                if not isinstance(v, Sharded) or v._lies() != self._lies():
                    return None
            elif broadcast_shapes(np.shape(v), self.spec.shape) != self.spec.shape:
                return None

        def mine(v: Any, rank: int) -> Any:
            if isinstance(v, Sharded):
                return v.parts[rank]
            return local_part(np.broadcast_to(v, self.spec.shape), self.placement, self.mesh, rank) if np.ndim(v) else v

        parts = {}
        for rank in self.parts:
            given = [mine(v, rank) for v in values]
            found = np.asarray(op.forward(*given, **attrs))
            parts[rank] = found.copy() if any(found is g for g in given) else found
        # A rank without a part knows the dtype by that of nothing.
        nothing = [np.zeros(0, v.dtype) if isinstance(v, Sharded) or np.ndim(v) else v for v in values]
        dtype = op.forward(*nothing, **attrs).dtype
        return Sharded(spec_of(self.spec.shape, dtype), self.placement, self.mesh, parts, self.name, self.at)

    def _lies(self) -> tuple[Any, ...]:
        return self.spec.shape, self.placement, self.mesh, self.at, [*self.parts]

    def joined(self, what: str) -> Any:
        """Return the whole value as an array: a collective, which all ranks call.

        Raises DTypeError where ranks are simulated: of these one traces at a time, and the others would not come.
        """
        group = current()
        if isinstance(group, OnMesh) and group.transport.shares_process:
            self.refuse(what)
        return self.whole()._array

    def whole(self) -> Tensor:
        """Return the whole value: a collective, which all ranks call."""
        split = [(name, d) for name, d in zip(self.mesh.names, self.placement, strict=True) if d is not None]
        group = current()
        if isinstance(group, OnMesh) and len(self.parts) < self.mesh.size:
            with entered(group.on(self.mesh)):
                if self.at is None:
                    (x,) = self.parts.values()
                else:
                    shape = local_shape(self.spec.shape, self.placement, self.mesh)
                    x = self.parts.get(group.transport.rank, np.zeros(shape, self.spec.dtype))
                    over, root = self.at
                    x = broadcast_from.forward(x, over=over, ranks=self.mesh.axes[over], root=root)
                for name, d in split:
                    attrs = {"over": name, "ranks": self.mesh.axes[name], "axis": d - x.ndim, "replicated": True}
                    x = all_gather.forward(x, **attrs)
            return wrap(x)
        out = np.empty(self.spec.shape, self.spec.dtype)
        for rank, part in self.parts.items():
            local_part(out, self.placement, self.mesh, rank)[...] = part
        return wrap(out)

    def __repr__(self) -> str:
        at = "" if self.at is None else f", at {self.at[0]}={self.at[1]}"
        return f"Sharded({self.spec}, {spec_of_placement(self.placement, self.mesh)}{at})"


def here(mesh: Mesh) -> Sequence[int]:
    """Return the ranks of a mesh that run in this process."""
    group = current()
    return [group.transport.rank] if isinstance(group, OnMesh) else range(mesh.size)


def in_parts(x: Any, placement: Placement, mesh: Mesh, name: str = "") -> Sharded:
    """Return a whole array as a value in parts, of which this process has copies."""
    parts = {rank: np.array(local_part(x, placement, mesh, rank)) for rank in here(mesh)}
    return Sharded(spec_of(x.shape, x.dtype), placement, mesh, parts, name)


def of_tensor(x: Any) -> Any:
    """Return the value in parts that a tensor stands for; anything else as it is."""
    return x._array if isinstance(x, Tensor) and isinstance(x._array, Sharded) else x


def is_at(at: At | None, mesh: Mesh, rank: int) -> bool:
    """Return whether a rank has its part of a value that is at one place, or everywhere."""
    return at is None or mesh.place(at[0], rank) == at[1]


def fits(x: Sharded, placement: Placement, mesh: Mesh) -> bool:
    """Return whether a value's parts are those of a placement, or are cut once more for it."""
    if x.mesh != mesh:
        return False
    return all(now in (None, wanted) for now, wanted in zip(x.placement, placement, strict=True))


def parts_of(
    x: Any, placement: Placement, mesh: Mesh, ranks: Sequence[int], name: str, at: At | None = None
) -> list[Any]:
    """Return the parts of a value that ranks of this process take by a placement, None for those not `at` its place.

    Raises ShapeError for a value in parts by another placement, unless what a rank has is cut once more, and GraphError
    for one that other ranks have.
    """
    x = of_tensor(x)
    if isinstance(x, Sharded) and x.at == at and x.placement == placement and x.mesh == mesh:
        parts = [x.parts.get(rank) for rank in ranks]
        for part, rank in zip(parts, ranks, strict=True):
            if part is None and is_at(at, mesh, rank):
                break
        else:
            return parts
    if at is not None:
        found = dict.fromkeys(ranks)
        there = [rank for rank in ranks if is_at(at, mesh, rank)]
        if not isinstance(x, Sharded) or x.at in (None, at):
            mine = x if not isinstance(x, Sharded) else Sharded(x.spec, x.placement, x.mesh, x.parts)
            found |= dict(zip(there, parts_of(mine, placement, mesh, there, name), strict=True))
            return list(found.values())
    if not isinstance(x, Sharded):
        whole = x._array if isinstance(x, Tensor) else np.asarray(x)
        if is_whole(placement):
            return [whole] * len(ranks)
        return [local_part(whole, placement, mesh, rank) for rank in ranks]
    if not fits(x, placement, mesh):
        fail(
            ShapeError,
            f"{name} is split as {spec_of_placement(x.placement, x.mesh)} on {x.mesh} where the program takes "
            f"{spec_of_placement(placement, mesh)} on {mesh}",
            "Give it placed as in_specs says, or whole: wg.distribute.whole(x).",
        )
    more = tuple(None if now is not None else wanted for now, wanted in zip(x.placement, placement, strict=True))
    missing = [rank for rank in ranks if rank not in x.parts]
    if missing:
        fail(GraphError, f"{name} on rank {missing[0]}: its part is in another process", "Place it on this job's mesh.")
    return [local_part(x.parts[rank], more, mesh, rank) for rank in ranks]
