"""Answers about graphs: pictures, and checks of gradients."""

from .cost import Cost, cost
from .dead_units import DeadUnits, dead_units
from .diff import Diff, diff
from .flow import Flow, flow
from .memory import Memory, memory
from .missing import Missing, missing
from .nonfinite import Nonfinite, nonfinite
from .paths import Paths, paths
from .precision import Precision, precision

__all__ = [
    "Cost",
    "DeadUnits",
    "Diff",
    "Flow",
    "Memory",
    "Missing",
    "Nonfinite",
    "Paths",
    "Precision",
    "cost",
    "dead_units",
    "diff",
    "flow",
    "memory",
    "missing",
    "nonfinite",
    "paths",
    "precision",
]
