"""Control flow with its derivatives: the functions of :mod:`.control`, once their rules are registered."""

from . import control_rules as _rules  # noqa: F401 (registers derivatives and batching)
from .control import cond, fori_loop, map, scan, switch, while_loop

__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]
