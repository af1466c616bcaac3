"""Tensors in groups of one device and dtype, as PyTorch's optimisers take them, under its inner path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """Return columns of tensors by the device and the dtype of those in the first column, with their places."""
    found: dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        columns, places = found.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for column, given in zip(columns, tensorlistlist, strict=True):
            if given:  # a column may be empty: what an optimiser does not keep
                column.append(given[i])
        if with_indices:
            places.append(i)
    return found


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the names of other devices on which many tensors are updated at once: there are none."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the names of the devices on which an update is one kernel, where the step is compiled."""
    return ["cpu"]


def _device_has_foreach_support(device: Any) -> bool:
    """Return True: functions of lists of tensors are there."""
    return True


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """Return True: functions of lists of tensors are there."""
    return True
