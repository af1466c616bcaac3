"""Answers about graphs: pictures, and checks of gradients."""

from .batching import Batching, batching
from .cost import Cost, cost
from .dead_units import DeadUnits, dead_units
from .diff import Diff, diff
from .gradients.flow import Flow, flow
from .gradients.missing import Missing, missing
from .gradients.paths import Paths, paths
from .memory import Memory, memory
from .nonfinite import Nonfinite, nonfinite
from .precision import Precision, precision
from .program_memory import ProgramMemory
from .transfers import Transfers, transfers

__all__ = [
    "Batching",
    "Cost",
    "DeadUnits",
    "Diff",
    "Flow",
    "Memory",
    "Missing",
    "Nonfinite",
    "Paths",
    "Precision",
    "ProgramMemory",
    "Transfers",
    "batching",
    "cost",
    "dead_units",
    "diff",
    "flow",
    "memory",
    "missing",
    "nonfinite",
    "paths",
    "precision",
    "transfers",
]


def __dir__() -> list[str]:
    return sorted(__all__)
