"""Reports of what blocks of batching ran."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GroupOf:
    """Calls of one cell that ran together: how many, and for how many rows the kernel was made."""

    cell: str
    calls: int
    rows: int
    gathered: int
    sliced: int


@dataclass(frozen=True)
class Ran:
    """One run of deferred calls: its groups in order, and by which way they were found."""

    way: str
    groups: tuple[GroupOf, ...]

    @classmethod
    def of(cls, groups: Any, way: str) -> Ran:
        """Return the report of groups that have run."""
        found = []
        for g in groups:
            sliced = sum(isinstance(i, slice) for i in g.indices)
            found.append(GroupOf(g.use.template.name, g.count, g.rows, len(g.indices) - sliced, sliced))
        return cls(way, tuple(found))


@dataclass
class Report:
    """What a block did: its runs, and the calls that were not deferred, by cell and reason, with their numbers."""

    runs: list[Ran] = field(default_factory=list)
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
