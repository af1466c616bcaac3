"""`torch.jit.annotations`: the types that programs import from there; see :mod:`typing`."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

from ..absent import names_of

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
__getattr__ = names_of(__name__)
