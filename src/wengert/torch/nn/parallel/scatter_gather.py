"""`torch.nn.parallel.scatter_gather`: inputs cut up for devices and results put together, where there is one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wengert as wg

from ....core.errors import ShapeError, fail
from ...namespace import as_torch


def of_one_device(name: str, devices: Sequence[Any]) -> None:
    """Raise ShapeError for more devices, or fewer, than there are."""
    if len(devices) != 1:
        fail(ShapeError, f"torch.nn.parallel.{name}() over {len(devices)} devices", "There is one: the CPU.")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """Return the inputs for each device, all of them for the one there is. Raises ShapeError for more devices."""
    of_one_device("scatter", target_gpus)
    return [inputs]


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Return the replicas' results as one: tensors joined along `dim`, numbers in a vector, nests of such alike."""
    first = outputs[0]
    if isinstance(first, wg.Tensor):
        return as_torch(wg.stack(outputs) if first.ndim == 0 else wg.concat(outputs, axis=dim))
    if first is None:
        return None
    if isinstance(first, dict):
        return type(first)((key, gather([o[key] for o in outputs], target_device, dim)) for key in first)
    return type(first)(gather(parts, target_device, dim) for parts in zip(*outputs, strict=True))


__all__ = ["gather", "of_one_device", "scatter"]
