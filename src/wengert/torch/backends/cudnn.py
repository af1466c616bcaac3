"""Settings of a library for GPUs, taken and not used: `torch.backends.cudnn`."""

from __future__ import annotations

from ..absent import names_of
from .flags import NOT_THERE, answer, flags_of

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"
is_available = answer(False, NOT_THERE)
is_acceptable = answer(False, NOT_THERE)
version = answer(None, "Return None: it is not there.")
flags = flags_of(globals())

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "fp32_precision",
    "is_acceptable",
    "is_available",
    "version",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
