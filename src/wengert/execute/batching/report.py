"""Reports of what blocks of batching ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType

from .arena import Group


@dataclass(frozen=True)
class GroupOf:
    """Calls of one cell that ran together: how many, and for how many rows the kernel was made.

    Of the kernel's inputs some were gathered from rows in different places; the rows of others lay side by side.
    """

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
    def of(cls, groups: Iterable[Group], way: str) -> Ran:
        """Return the report of groups that have run."""
        found = []
        for g in groups:
            sliced = sum(isinstance(i, slice) for i in g.indices)
            found.append(GroupOf(g.use.template.name, g.count, g.rows, len(g.indices) - sliced, sliced))
        return cls(way, tuple(found))


@dataclass
class Report:
    """The report of a block: its runs, and the calls that were not deferred, with their numbers.

    `left` counts these by cell, reason and place: code object, or None, and offset.
    """

    runs: list[Ran] = field(default_factory=list)
    left: Counter[tuple[str, str, CodeType | None, int]] = field(default_factory=Counter)


_watched: ContextVar[list[Report] | None] = ContextVar("wengert_batching_reports", default=None)


def new_report() -> Report:
    """Return the report of a new block; whoever watches this thread has it too."""
    made, found = Report(), _watched.get()
    if found is not None:
        found.append(made)
    return made


@contextmanager
def watched() -> Iterator[list[Report]]:
    """Yield a list that gets the reports of the blocks that this thread makes."""
    found: list[Report] = []
    token = _watched.set(found)
    try:
        yield found
    finally:
        _watched.reset(token)
