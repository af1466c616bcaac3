"""`torch.mtia`: a device that there is not. What asks, seeds or frees works; what needs one raises GraphError."""

from __future__ import annotations

from ..absent import names_of
from ..cuda import asked

_ASKED = asked(__name__)
globals().update(_ASKED)


def __dir__() -> list[str]:
    return sorted(_ASKED)


__getattr__ = names_of(__name__)
