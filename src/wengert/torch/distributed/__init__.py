"""`torch.distributed` for a group of one process: what a program does that may also run on many, on one.

In a group of one every collective is known: a sum over the ranks is the tensor itself, what is gathered is one tensor.
A group of more processes is refused when it is asked for.

>>> import wengert.torch as torch
>>> import wengert.torch.distributed as dist
>>> dist.is_initialized()
False
>>> dist.init_process_group("gloo", rank=0, world_size=1)
>>> x = torch.tensor([1.0, 2.0])
>>> dist.all_reduce(x)
>>> x, dist.get_world_size()
(tensor([1., 2.]), 1)
>>> dist.destroy_process_group()
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from typing import Any

from ...core.errors import GraphError, ShapeError, fail
from ..absent import names_of
from ..refusing import refused


class ReduceOp(enum.Enum):
    """The kinds of reduction over the ranks; of one rank, all are the value itself."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Backend(str):
    """The name of a library that moves the bytes, in small letters; one process needs none of them."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    def __new__(cls, name: str) -> Backend:
        """Return the name in small letters. Raises ValueError for what is no text."""
        if not isinstance(name, str):
            raise ValueError(f"torch.distributed.Backend of a {type(name).__name__}: it takes a name, such as 'gloo'")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """A group of this process alone."""

    def rank(self) -> int:
        """Return 0."""
        return 0

    def size(self) -> int:
        """Return 1."""
        return 1


class group:
    """The group of all processes, `group.WORLD`: None until there is one."""

    WORLD: ProcessGroup | None = None


class GroupMember:
    """The value that stands for a group in a rank that is not in it."""

    NON_GROUP_MEMBER = -100


class Work:
    """A collective that has been done, as `async_op=True` asks for."""

    def wait(self, timeout: Any = None) -> bool:
        """Return True."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True


_backend: list[str] = []


def is_available() -> bool:
    """Return True: a group of one process can be made."""
    return True


def is_initialized() -> bool:
    """Return whether there is a group."""
    return bool(_backend)


def is_nccl_available() -> bool:
    """Return False: there are no devices of that kind."""
    return False


is_mpi_available = is_gloo_available = is_ucc_available = is_torchelastic_launched = is_nccl_available


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    **options: Any,
) -> None:
    """Make the group of this process alone.

    Parameters
    ----------
    backend: its name is kept for `get_backend`; with one process none is needed.
    world_size, rank: 1 and 0, else from the environment's `WORLD_SIZE` and `RANK`, else 1 and 0.
    init_method, timeout, store, group_name: taken; there is nobody to meet.

    Raises GraphError for more processes, or where there is a group already.
    """
    if is_initialized():
        fail(GraphError, "init_process_group(): there is a group already", "Call destroy_process_group() before.")
    # Launched by `torchrun`, or by the mpiexec of Open MPI or of MPICH, as `wengert launch` does.
    told = [int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")]
    size = max(told) if world_size < 0 else max(world_size, *told[1:])
    if size != 1:
        fail(
            GraphError,
            f"init_process_group() of {size} processes",
            "Processes do not exchange gradients here: run one, whose compiled functions use all cores, or train on "
            "several by wg.distribute.",
        )
    at = int(os.environ.get("RANK", "0")) if rank < 0 else rank
    if at != 0:
        fail(GraphError, f"init_process_group(): rank {at} of 1 process", "It is 0.")
    _backend.append((backend or "gloo").lower())
    group.WORLD = ProcessGroup()


def destroy_process_group(group: Any = None) -> None:
    """Leave the group; it can be made again. Raises GraphError where there is none."""
    global_group(group)
    _backend.clear()
    globals()["group"].WORLD = None


def global_group(asked: Any = None) -> ProcessGroup:
    """Return a group, the one of all processes for None. Raises GraphError where there is none."""
    if group.WORLD is None:
        fail(
            GraphError,
            "there is no process group",
            'Call torch.distributed.init_process_group("gloo", rank=0, world_size=1), or ask is_initialized() first.',
        )
    return asked if isinstance(asked, ProcessGroup) else group.WORLD


def get_rank(group: Any = None) -> int:
    """Return 0, the rank of the only process. Raises GraphError where there is no group."""
    return global_group(group).rank()


def get_world_size(group: Any = None) -> int:
    """Return 1, the number of processes. Raises GraphError where there is no group."""
    return global_group(group).size()


def get_backend(group: Any = None) -> str:
    """Return the name that the group was made with. Raises GraphError where there is none."""
    global_group(group)
    return _backend[-1]


def new_group(ranks: Any = None, *args: Any, **options: Any) -> ProcessGroup:
    """Return a group of rank 0, which is all there is. Raises GraphError for others, or where there is no group."""
    found = global_group()
    if ranks is not None and list(ranks) not in ([], [0]):
        fail(GraphError, f"new_group() of ranks {list(ranks)} among 1 process", "There is rank 0.")
    return found


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait for nobody."""
    return _done(group, async_op)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce a tensor over the ranks, in place: of one rank it stays what it is."""
    return _done(group, async_op)


def reduce(
    tensor: Any, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce a tensor over the ranks on rank `dst`, in place: of one rank it stays what it is."""
    return _done(group, async_op)


def broadcast(tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False) -> Work | None:
    """Give the tensor of rank `src` to all, which is this one."""
    return _done(group, async_op)


def all_gather(tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Write the ranks' tensors into those of a list, of one here. Raises ShapeError for a list of others."""
    of_one("all_gather", tensor_list).copy_(tensor)
    return _done(group, async_op)


def gather(
    tensor: Any,
    gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the ranks' tensors into those of a list on rank `dst`, of one here."""
    of_one("gather", gather_list).copy_(tensor)
    return _done(group, async_op)


def scatter(
    tensor: Any,
    scatter_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write this rank's tensor of a list, of one here, into `tensor`."""
    tensor.copy_(of_one("scatter", scatter_list))
    return _done(group, async_op)


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the reduction of this rank's tensor of a list, of one here, into `output`."""
    output.copy_(of_one("reduce_scatter", input_list))
    return _done(group, async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the ranks' tensors into one, joined or stacked: of one rank, its tensor."""
    output_tensor.copy_(input_tensor.reshape(output_tensor.shape))
    return _done(group, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write this rank's part of the reduction into `output`: of one rank, the whole."""
    output.copy_(input.reshape(output.shape))
    return _done(group, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Put the ranks' objects into a list, of one here."""
    of_one("all_gather_object", object_list)
    object_list[0] = obj
    global_group(group)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None
) -> None:
    """Put the ranks' objects into a list on rank `dst`, of one here."""
    if object_gather_list is not None:
        all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None
) -> None:
    """Give the objects of rank `src` to all, which is this one."""
    global_group(group)


def of_one(name: str, held: Sequence[Any] | None) -> Any:
    """Return the one element of a list of as many as there are ranks. Raises ShapeError for a list of others."""
    if held is None or len(held) != 1:
        count = "none" if held is None else len(held)
        fail(ShapeError, f"torch.distributed.{name}() with a list of {count} for 1 process", "It takes a list of one.")
    return held[0]


def _done(group: Any, async_op: bool) -> Work | None:
    global_group(group)
    return Work() if async_op else None


_ALONE = ("there is no other process", "A group has one process here.")
send, recv, isend, irecv = (refused(f"torch.distributed.{n}", *_ALONE) for n in ("send", "recv", "isend", "irecv"))

__all__ = [
    "Backend",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_object",
    "get_backend",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "isend",
    "new_group",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
