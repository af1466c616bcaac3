"""`torch.distributed.nn`: collectives that give new tensors, through which gradients flow, in a group of one process.

>>> import wengert.torch as torch
>>> import wengert.torch.distributed as dist
>>> from wengert.torch.distributed import nn
>>> dist.init_process_group("gloo", rank=0, world_size=1)
>>> x = torch.tensor([1.0, 2.0], requires_grad=True)
>>> (nn.all_reduce(x) * 3).sum().backward()
>>> x.grad
tensor([3., 3.])
>>> dist.destroy_process_group()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...absent import names_of
from .. import ReduceOp, global_group, of_one


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction of a tensor over the ranks: of one rank, a copy."""
    global_group(group)
    return tensor.clone()


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return the tensor of rank `src`, which is this one's."""
    return all_reduce(tensor, group=group)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction of a tensor over the ranks on rank `dst`: of one rank, a copy."""
    return all_reduce(tensor, op, group)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return the ranks' tensors, one here."""
    return (all_reduce(tensor, group=group),)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """Return the ranks' tensors on rank `dst`, one here."""
    return all_gather(tensor, group)


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """Return this rank's tensor of those of rank `src`, one here. Raises ShapeError for a list of others."""
    return all_reduce(of_one("nn.scatter", tensors), group=group)


def reduce_scatter(output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction of this rank's tensor of a list, one here. Raises ShapeError for a list of others."""
    return all_reduce(of_one("nn.reduce_scatter", input_list), op, group)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None
) -> tuple[Any, ...]:
    """Return what the ranks have for this one, of one here its own. Raises ShapeError for a list of others."""
    return (all_reduce(of_one("nn.all_to_all", input_tensor_list), group=group),)


__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


__getattr__ = names_of(__name__)
