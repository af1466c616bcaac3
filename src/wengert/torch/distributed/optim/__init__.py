"""`torch.distributed.optim`: optimisers whose state is spread over processes, which a program may mention."""

from __future__ import annotations

from typing import Any

from ....core.errors import GraphError, fail
from ...absent import names_of
from ...optim import Optimizer


class ZeroRedundancyOptimizer(Optimizer):
    """An optimiser of a part of the parameters for each process: refused, as there is one process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fail(
            GraphError,
            "torch.distributed.optim.ZeroRedundancyOptimizer() in a group of one process",
            "Call its optimizer_class with the parameters: there is nobody to share its state with.",
        )


__all__ = ["ZeroRedundancyOptimizer"]


__getattr__ = names_of(__name__)
