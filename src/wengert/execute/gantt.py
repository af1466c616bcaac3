"""Text charts of runs, shared by the scheduler's traces and those of native code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Scale(NamedTuple):
    """A time scale: so many seconds in so many columns."""

    seconds: float
    width: int

    def column(self, time: float) -> int:
        """Return the column of a moment."""
        return min(self.width - 1, int(time / max(self.seconds, 1e-9) * self.width))

    def columns(self, start: float, end: float) -> slice:
        """Return the columns between two moments: one at least, however short the time."""
        first = self.column(start)
        after = min(self.width, int(end / max(self.seconds, 1e-9) * self.width))
        return slice(first, max(after, first + 1))


class Row(NamedTuple):
    """A line of a chart, drawn to its scale."""

    label: str
    worker: str
    line: str


def chart(what: str, rows: Sequence[Row], scale: Scale, busy: Sequence[float]) -> str:
    """Return the rows under a scale of time, then how many seconds every worker was busy; `what` names the rows."""
    label = max((len(row.label) for row in rows), default=4)
    left = scale.width // 2
    lines = [f"{what:<{label}} worker |{'0':<{left}}{_time(scale.seconds):>{scale.width - left}}|"]
    lines += [f"{row.label:<{label}} {row.worker:>6} |{row.line}|" for row in rows]
    total = max(scale.seconds, 1e-9)
    lines += [f"worker {worker}: {time / total:.0%} busy, {_time(time)}" for worker, time in enumerate(busy)]
    return "\n".join(lines)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"
