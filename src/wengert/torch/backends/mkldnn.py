"""A library that is not used, and its settings: `torch.backends.mkldnn`."""

from __future__ import annotations

from ..absent import names_of
from .flags import NOT_THERE, answer, flags_of

enabled = False
is_available = answer(False, NOT_THERE)
verbose = flags_of({})
flags = flags_of(globals())

__all__ = ["enabled", "flags", "is_available", "verbose"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
