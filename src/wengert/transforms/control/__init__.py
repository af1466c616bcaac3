"""Structured control flow: the functions, once their derivatives and batching are registered."""

from . import rules as _rules  # noqa: F401 (registers derivatives and batching)
from .functions import cond, fori_loop, map, scan, switch, while_loop

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]
