"""Names that programs look for in PyTorch's inner module."""

from __future__ import annotations

from ..absent import names_of
from ..compiler import OptimizedModule
from . import is_dynamo_supported

__all__ = ["OptimizedModule", "is_dynamo_supported"]
__getattr__ = names_of(__name__)
