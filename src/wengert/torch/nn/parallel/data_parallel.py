"""`torch.nn.parallel.data_parallel`: one device holds everything."""

from __future__ import annotations

from ..layers.container import DataParallel

__all__ = ["DataParallel"]
