"""`torch.profiler`: there for programs that mention it; see :mod:`wengert.torch.autograd.profiler`."""

from __future__ import annotations

import enum
from typing import Any

from ..absent import names_of
from ..autograd.profiler import profile as profile_of_functions
from ..autograd.profiler import record_function
from ..refusing import refused


class ProfilerActivity(enum.Enum):
    """The places at which a profiler looks."""

    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    HPU = 5


class ProfilerAction(enum.Enum):
    """The action of a profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def kineto_available() -> bool:
    """Return False: the library that PyTorch records with is not there."""
    return False


class profile(profile_of_functions):
    """Raises GraphError: there is no such profiler."""

    def __init__(self, **options: Any) -> None:
        super().__init__(True, **options)


_NOT_THERE = "PyTorch's profiler is not there", "Compile the function, f = torch.compile(f), and see f.trace(...)."
schedule = refused("torch.profiler.schedule", *_NOT_THERE)
tensorboard_trace_handler = refused("torch.profiler.tensorboard_trace_handler", *_NOT_THERE)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
