"""A library that is not used, and its settings: `torch.backends.mkl`."""

from __future__ import annotations

from .flags import NOT_THERE, answer, flags_of

enabled = False
is_available = answer(False, NOT_THERE)
verbose = flags_of({})
flags = flags_of(globals())

__all__ = ["enabled", "flags", "is_available", "verbose"]


def __dir__() -> list[str]:
    return sorted(__all__)
