"""Placements: what the ranks along each axis of a mesh have of a value that is one value in the program.

Along an axis every rank has all of it (*replicated*, R), its part along one dimension (*varying*, V), or a summand of
it (*partial*, P).
"""

from __future__ import annotations

from typing import Any

from ...core.errors import GraphError, ShapeError, fail
from ...core.spec import Shape, Spec, show, spec_of
from ...passes.strategies import PARTIAL, Entry
from ..mesh import Mesh

Placement = tuple[Entry, ...]  # an entry for each axis of the mesh: None for R, the dimension for V, PARTIAL for P
At = tuple[str, int]  # a mesh axis, and the place along it whose ranks alone have a value


class PartitionSpec:
    """The mesh axes that the dimensions of a value are split over: a name, or None, for each dimension in order.

    Dimensions that are not named stay whole; `PartitionSpec()` is a value that every rank has.

    >>> import wengert as wg
    >>> wg.distribute.PartitionSpec(None, "model")
    PartitionSpec(None, 'model')
    """

    __slots__ = ("names",)

    def __init__(self, *names: str | None) -> None:
        for name in names:
            if name is not None and not isinstance(name, str):
                fail(
                    GraphError,
                    f"a PartitionSpec with {name!r}",
                    "It has the name of a mesh axis, or None, for each dimension; a dimension is split over one axis.",
                )
        while names and names[-1] is None:
            names = names[:-1]
        self.names = names
        split = [n for n in names if n is not None]
        if len(set(split)) != len(split):
            fail(GraphError, f"{self!r} splits two dimensions over one mesh axis")

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self.names))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)


def partition_spec(given: Any) -> PartitionSpec:
    """Return the user's argument as a PartitionSpec: None keeps the value whole, a name splits the first dimension."""
    if isinstance(given, PartitionSpec):
        return given
    if given is None or isinstance(given, str):
        return PartitionSpec(given)
    fail(GraphError, f"{given!r} says no placement", "Give a PartitionSpec, the name of a mesh axis, or None.")


def placement_of(given: Any, spec: Spec, mesh: Mesh, what: str) -> Placement:
    """Return the placement that a PartitionSpec says of a value.

    Raises ShapeError for a dimension that is not there or has no equal parts, GraphError for an unknown axis.
    """
    names = partition_spec(given).names
    if len(names) > len(spec.shape):
        fail(ShapeError, f"{what}, {show(spec.shape, spec.dtype)}, has {len(spec.shape)} dimensions, {given!r} more")
    found: dict[str, int] = {}
    for dim, name in enumerate(names):
        if name is None:
            continue
        ranks = mesh.size_of(name)
        if spec.shape[dim] % ranks:
            fail(
                ShapeError,
                f"{what}, {show(spec.shape, spec.dtype)}, split along dimension {dim} over {name!r}: {spec.shape[dim]} "
                f"is no multiple of {ranks} ranks",
                "Every rank has a part of the same size: choose another size, or leave the dimension whole.",
            )
        found[name] = dim
    return tuple(found.get(name) for name in mesh.names)


def spec_of_placement(placement: Placement, mesh: Mesh) -> PartitionSpec:
    """Return a placement without partial sums as a PartitionSpec."""
    dims = {d: name for name, d in zip(mesh.names, placement, strict=True) if d is not None}
    return PartitionSpec(*(dims.get(d) for d in range(max(dims, default=-1) + 1)))


def is_whole(placement: Placement) -> bool:
    """Return whether every rank has all of a value."""
    return placement.count(None) == len(placement)


def local_shape(shape: Shape, placement: Placement, mesh: Mesh) -> Shape:
    """Return the shape of what one rank has of a value of this shape."""
    sizes = list(shape)
    for name, entry in zip(mesh.names, placement, strict=True):
        if entry is not None and entry != PARTIAL:
            sizes[entry] //= mesh.axes[name]
    return tuple(sizes)


def local_spec(spec: Spec, placement: Placement, mesh: Mesh) -> Spec:
    """Return the spec of what one rank has of a value."""
    return spec_of(local_shape(spec.shape, placement, mesh), spec.dtype)


def local_part(x: Any, placement: Placement, mesh: Mesh, rank: int) -> Any:
    """Return one rank's part of a whole array: a view."""
    at = mesh.coordinates(rank)
    index = [slice(None)] * x.ndim
    for name, entry in zip(mesh.names, placement, strict=True):
        if entry is not None:
            size = x.shape[entry] // mesh.axes[name]
            index[entry] = slice(at[name] * size, (at[name] + 1) * size)
    return x[tuple(index)]


def span(local: Shape, placement: Placement, mesh: Mesh, rank: int) -> str:
    """Return where in a whole value a rank's part of this shape stands, as an index: `[4:8,:]`."""
    at = mesh.coordinates(rank)
    found = [":"] * len(local)
    for name, entry in zip(mesh.names, placement, strict=True):
        if entry is not None and entry != PARTIAL:
            size = local[entry]
            found[entry] = f"{at[name] * size}:{(at[name] + 1) * size}"
    return f"[{','.join(found)}]"


def shown(placement: Placement, mesh: Mesh) -> str:
    """Return a placement as errors and tables show it: `data: V0, model: R`."""

    def letter(entry: Entry) -> str:
        return "R" if entry is None else "P" if entry == PARTIAL else f"V{entry}"

    return ", ".join(f"{name}: {letter(e)}" for name, e in zip(mesh.names, placement, strict=True))
