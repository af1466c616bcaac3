"""`torch.nn.parallel.replicate`: copies of a module for devices, of which there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .scatter_gather import of_one_device


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """Return the module for each device: itself, for the one there is. Raises ShapeError for more devices."""
    of_one_device("replicate", devices)
    return [network]


__all__ = ["replicate"]
