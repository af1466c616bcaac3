"""Modules on meshes: which parameters are in parts, and along which axis they are gathered where they are used."""

from __future__ import annotations

import fnmatch
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import DTypeError, GraphError, fail
from ..core.spec import spec_of
from ..core.storage import leave
from ..core.tensor import Tensor
from ..nn.module import Module
from .mesh import Mesh, as_mesh
from .placing.placement import PartitionSpec, partition_spec, placement_of
from .placing.sharded import Sharded, in_parts

# By the identity of a parameter: the parameter, where it is split, and the axis along which it is gathered for use.
_placed: dict[int, tuple[weakref.ref[Tensor], PartitionSpec, str | None]] = {}
_count = 0


def shard(module: Module, mesh: Mesh, rules: Mapping[str, Any] | None = None, *, fsdp: str | None = None) -> Module:
    """Split a module's parameters over the ranks of a mesh. Returns the module.

    Parameters
    ----------
    module: any module. Its parameters that are split have their parts from then on, in steps of :func:`jit` and between
        them: each process keeps those of its ranks alone.
    mesh: the ranks.
    rules: by pattern of parameter names (`"*.0.weight"`, as in :mod:`fnmatch`) a placement: a :class:`PartitionSpec`,
        the name of the mesh axis that splits the first dimension, or None. The first pattern that fits counts; one
        weight split by columns and the next by rows is tensor parallelism.
    fsdp: a mesh axis over which every parameter is split along a dimension that is free and has equal parts, and is
        gathered where it is used (sharded data parallelism).

    Optimiser state and gradients have the parts of their parameter. Steps on the mesh compute with them; anything else
    that needs a value is refused, and :func:`whole` makes a module of whole ones. What is assigned to a parameter
    (`load_state_dict`) is cut. What a pipeline has left at its stages, or another call in other parts, is joined first.
    All ranks call it with equal values. Raises GraphError for a pattern that fits no parameter, ShapeError for a split
    without equal parts; then nothing is split.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(model=2)
    >>> model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 2))
    >>> rules = {"0.*": "model", "2.weight": wg.distribute.PartitionSpec(None, "model")}
    >>> _ = wg.distribute.shard(model, mesh, rules)
    >>> model[0].weight
    Parameter containing:
    tensor(Sharded(f32[8,4], PartitionSpec('model')), requires_grad=True)
    """
    if not isinstance(module, Module):
        fail(DTypeError, f"shard of a {type(module).__name__}", "It takes a module; functions have in_specs.")
    mesh = as_mesh(mesh, "shard")
    if fsdp is not None:
        mesh.size_of(fsdp)
    for gone in [key for key, (parameter, *_) in _placed.items() if parameter() is None]:
        del _placed[gone]
    if not isinstance(rules, Mapping | None):
        fail(
            GraphError,
            f"shard with rules={rules!r}",
            'It names parameters by patterns, and says where each is: {"0.*": "model", "2.weight": PartitionSpec(None, '
            '"model")}.',
        )
    given, used = dict(rules or {}), set()
    chosen: list[tuple[Tensor, str, PartitionSpec, str | None]] = []
    for name, parameter in module.named_parameters():
        pattern = next((p for p in given if isinstance(p, str) and fnmatch.fnmatchcase(name, p)), None)
        spec = partition_spec(given[pattern]) if pattern is not None else PartitionSpec()
        used.add(pattern)
        placement_of(spec, parameter.spec, mesh, f"parameter {name}")
        gathered = None
        if fsdp is not None:
            found = split_over(fsdp, spec, parameter.shape, mesh)
            spec, gathered = (spec, None) if found is None else (found, fsdp)
        chosen.append((parameter, name, spec, gathered))
    unused = [p for p in given if p not in used]
    if unused:
        names = ", ".join(n for n, _ in module.named_parameters())
        fail(GraphError, f"shard: {unused[0]!r} fits no parameter", f"The parameters are {names}.")
    # What may raise comes before anything changes.
    made = [
        (held, _split(held._array, spec, mesh, name if held is tensor else f"the gradient of {name}"))
        for tensor, name, spec, _ in chosen
        for held in (tensor, tensor.grad)
        if held is not None
    ]
    for tensor, _, spec, gathered in chosen:
        _placed[id(tensor)] = weakref.ref(tensor), spec, gathered
    for held, data in made:
        leave(held)
        held._data = data
    global _count
    _count += 1
    return module


def _split(data: Any, spec: PartitionSpec, mesh: Mesh, name: str) -> Any:
    """Return a value in the parts of a placement; whole where there is nothing to split."""
    value = data.whole()._array if isinstance(data, Sharded) else data
    if not spec.names:
        return value
    return in_parts(value, placement_of(spec, spec_of(value.shape, value.dtype), mesh, name), mesh, name)


def count() -> int:
    """Return how often models were split: what was compiled before knows their parts of then."""
    return _count


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


def known(x: Any) -> tuple[PartitionSpec, str | None] | None:
    """Return where a parameter that :func:`shard` was given is split, and along which axis it is gathered."""
    found = _placed.get(id(x))
    return found[1:] if found is not None and found[0]() is x else None
