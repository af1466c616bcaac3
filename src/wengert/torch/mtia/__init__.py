"""`torch.mtia`: a device that there is not. What asks, seeds or frees works; what needs one raises GraphError."""

from __future__ import annotations

from ..absent import names_of
from ..cuda import asked

globals().update(asked(__name__))
__getattr__ = names_of(__name__)
