"""`torch.nn.parallel.distributed`: a module whose gradients are those of all processes, of which there is one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...absent import names_of
from ...distributed import global_group
from ..module import Module


class DistributedDataParallel(Module):
    """A module as `module`, which it calls. In a group of one process its gradients are those of all.

    Its state dict's names begin with `module.`. Raises GraphError where there is no process group, as made by
    `torch.distributed.init_process_group`.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self.process_group = global_group(process_group)
        self.module = module
        self.dim = dim
        self.device_ids = None
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients as this process has them, which they are in any case."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


__all__ = ["DistributedDataParallel"]


__getattr__ = names_of(__name__)
