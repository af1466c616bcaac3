"""Checkpoints that all ranks of a job write together, and that any other number of ranks reads."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core import tree
from ..core.errors import DataError, WengertError, fail, first_line
from ..core.spec import from_name, spec_of
from ..core.tensor import Tensor, wrap
from ..ops.collective.definitions import all_gather
from ..ops.collective.group import current, entered
from ..storage.files import Path, folder_path
from ..train import checkpoints as single
from ..train.checkpoints import Checkpoint
from ..train.pieces import Pieces, Reader, Writing, merged
from .mesh import Mesh, OnMesh, as_mesh
from .placing.placement import local_shape, placement_of
from .placing.sharded import Sharded, of_tensor
from .program import place, spread_specs

_LEFT = "What was saved before is there still."


def _told(value: Any) -> list[Any]:
    """Return the JSON values that the ranks report, in order."""
    group = current()
    if not isinstance(group, OnMesh):
        return [value]
    size = group.transport.size
    attrs: dict[str, Any] = {"over": "ranks", "ranks": size, "axis": -1, "replicated": True}
    text = json.dumps(value).encode()
    with entered(OnMesh(Mesh(ranks=size), group.transport)):
        longest = int(all_gather.forward(np.array([len(text)]), **attrs).max())
        rows = all_gather.forward(np.frombuffer(text.ljust(longest), np.uint8), **attrs).reshape(size, longest)
    return [json.loads(bytes(row)) for row in rows]


def _attempt(what: str, work: Any, left: str = "") -> Any:
    """Do a rank's work. Raises DataError on all ranks where it fails on one; `left` says what is there then."""
    found, problem = None, ("", "")
    try:
        found = work()
    except WengertError as e:
        problem = first_line(e), str(e).partition("\n")[2]
    except OSError as e:
        problem = f"{type(e).__name__}: {e}", ""
    for rank, (told, more) in enumerate(_told(problem)):
        if told:
            fail(DataError, f"{what}: rank {rank}: {told}", "\n".join(filter(None, (more, left))))
    return found


def save_checkpoint(
    folder: Path,
    *,
    step: int | None = None,
    keep: int = 3,
    random: Iterable[str] = ("wengert",),
    marker: bool = False,
    **parts: Any,
) -> str:
    """Write a checkpoint of a training state by all ranks of a job, and return its folder: a collective.

    Parameters
    ----------
    folder: where checkpoints are kept, which all ranks see.
    step, keep, random: as for :func:`wengert.train.save_checkpoint`.
    marker: for folders in which renaming is no single act (object stores): files are written in their place, and the
        manifest, without which they are no checkpoint, last.
    parts: what is saved, by name, as there; with values in parts (:class:`Sharded`) among pytrees.

    Each rank writes what it alone has, and its share of what all have; one rename makes them a checkpoint. It is read
    by any number of ranks, by :func:`load_checkpoint`, and by :func:`wengert.train.load_checkpoint` in one process.
    Outside of a job this process writes all parts. Raises DataError on all ranks where one cannot write.

    >>> import tempfile, wengert as wg
    >>> dist, mesh = wg.distribute, wg.distribute.Mesh(data=2)
    >>> state = {"w": dist.place(wg.arange(4.0), mesh, "data")}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dist.save_checkpoint(folder, step=3, state=state)
    ...     found = dist.load_checkpoint(folder, mesh=dist.Mesh(data=4), specs={"state": "data"})
    >>> found["state"]["w"]
    Sharded(f32[4], PartitionSpec('data'))
    """
    where = folder_path(folder, "save_checkpoint")
    step, keep = single.checked_numbers(step, keep)
    group = current()
    rank, size = (group.transport.rank, group.transport.size) if isinstance(group, OnMesh) else (0, 1)
    staged = _attempt(f"{where} has no new checkpoint", lambda: single.stage(where, marker) if rank == 0 else None)
    staged = _told(staged)[0]
    try:
        in_pieces: dict[int, Pieces] = {}
        kept: list[Any] = []  # what stands for values in parts, whose addresses tell them apart

        def written() -> Any:
            writing = Writing(rank, size, in_pieces)
            for name, part in parts.items():
                writing.add(name, tree.map(lambda x: _stand_in(x, in_pieces, kept), single.state_of(name, part)))
            for name, state in single.random_states(random).items():
                writing.add(single.RANDOM + name, state)
            path = writing.write(staged)
            nbytes, crc = single.checksum(path)
            return {**writing.index, "files": {writing.file: {"bytes": nbytes, "crc32": f"{crc:08x}"}}}

        index = _attempt(f"{where} has no new checkpoint", written, _LEFT)
        indices = _told(index)

        def committed() -> str | None:
            files = {name: told for i in indices for name, told in i["files"].items()}
            whole = merged(indices)
            if rank:
                return None
            return single.commit(where, staged, {"step": step, "files": files, **whole}, keep, marker)

        path: str = _told(_attempt(f"{where} has no new checkpoint", committed, _LEFT))[0]
    except BaseException:
        if rank == 0:
            shutil.rmtree(staged, ignore_errors=True)
        raise
    return path


def _stand_in(x: Any, in_pieces: dict[int, Pieces], kept: list[Any]) -> Any:
    """Return an array of one element that stands for a value in parts; anything else as it is."""
    x = of_tensor(x)
    if not isinstance(x, Sharded):
        return x
    parts = []
    for rank, part in x.parts.items():
        at = x.mesh.coordinates(rank)
        # Of ranks that have the same part the first one writes it.
        first = at if x.at is None else {**at, x.at[0]: 0}
        if all(d is not None or not first[name] for name, d in zip(x.mesh.names, x.placement, strict=True)):
            begin = [0] * len(x.spec.shape)
            for name, d in zip(x.mesh.names, x.placement, strict=True):
                if d is not None:
                    begin[d] += at[name] * part.shape[d]
            parts.append((tuple(begin), np.asarray(part)))
    kept.append(wrap(np.zeros(1)))
    address = np.asarray(kept[-1].numpy()).__array_interface__["data"][0]
    in_pieces[address] = Pieces(x.spec.shape, np.dtype(x.spec.dtype), tuple(parts))
    return kept[-1]


def load_checkpoint(
    folder: Path, *, mesh: Mesh | None = None, specs: Mapping[str, Any] | None = None, **parts: Any
) -> Checkpoint | None:
    """Give objects the states of the last good checkpoint in a folder, on all ranks the same one: a collective.

    Parameters
    ----------
    folder, parts: as for :func:`wengert.train.load_checkpoint`, and the result is as there.
    mesh: the ranks that values are split over, where `specs` says how.
    specs: by the name of a part a placement, or a pytree of placements that begins like it: in `values` of the result
        its tensors are in parts (:class:`Sharded`), of which each rank reads its own. They may have been written by
        another number of ranks, split another way.

    Raises DataError, StateError, and ShapeError for a split without equal parts.
    """
    where = folder_path(folder, "load_checkpoint")
    group = current()
    is_first = not isinstance(group, OnMesh) or group.transport.rank == 0
    if not isinstance(specs, Mapping | None):
        fail(
            DataError,
            f"load_checkpoint with specs={specs!r}",
            'It has placements by the names of parts: {"params": "data"}.',
        )
    wanted = dict(specs or {})
    if wanted:
        mesh = as_mesh(mesh, "load_checkpoint")
    unknown = [name for name in wanted if name in parts]
    if unknown:
        fail(
            DataError,
            f"a placement for {unknown[0]!r}, which is an object",
            "Objects take whole values: leave one out.",
        )

    def load() -> Any:
        return single.restore(where, parts, wanted)

    # The first rank says which one is good: others may find another, while a new one is written.
    first = _attempt(where, load if is_first else lambda: None)
    path = _told(first.path if first is not None else None)[0]
    if path is None:
        return None
    where = path
    found = _attempt(path, (lambda: first) if is_first else load)
    values = dict(found.values)
    for name, given in wanted.items():
        if name not in values:
            fail(DataError, f"{path} has no part {name!r}", f"It has: {', '.join(values)}.")
        assert mesh is not None
        part = values[name]
        values[name] = _placed(part, name, mesh, given) if isinstance(part, Reader) else place(part, mesh, given)
    return Checkpoint(found.step, found.path, values, found.skipped)


def _placed(reader: Reader, name: str, mesh: Mesh, given: Any) -> Any:
    """Return a part whose tensors are in parts."""
    stand_ins, entries = reader.stand_ins(name)
    group = current()
    ranks = [group.transport.rank] if isinstance(group, OnMesh) else list(range(mesh.size))
    leaves, structure = tree.flatten(stand_ins)
    out = []
    for leaf, spec in zip(leaves, spread_specs(given, stand_ins, "specs"), strict=True):
        if not isinstance(leaf, (Tensor, np.ndarray, np.generic)):
            out.append(leaf)
            continue
        entry = entries[int(leaf)]
        shape = tuple(entry["shape"])
        if not isinstance(leaf, Tensor):
            array = reader.region(entry, [0] * len(shape), shape)
            out.append(array if isinstance(leaf, np.ndarray) else array[()])
            continue
        whole = spec_of(shape, from_name(entry["dtype"]))
        placement = placement_of(spec, whole, mesh, name)
        size = local_shape(shape, placement, mesh)
        parts = {}
        for rank in ranks:
            begin, at = [0] * len(shape), mesh.coordinates(rank)
            for axis, d in zip(mesh.names, placement, strict=True):
                if d is not None:
                    begin[d] = at[axis] * size[d]
            parts[rank] = reader.region(entry, begin, [b + n for b, n in zip(begin, size, strict=True)])
        out.append(Sharded(whole, placement, mesh, parts))
    return tree.unflatten(structure, out)
