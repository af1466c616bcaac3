"""`torch.distributed.constants`: how long processes wait for each other, unless they are told otherwise."""

from __future__ import annotations

from datetime import timedelta

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = timedelta(minutes=10)

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]
