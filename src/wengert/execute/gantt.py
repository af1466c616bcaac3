"""Text charts of who did what, when: what the scheduler's runs and those of native code have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Scale(NamedTuple):
    """So many seconds in so many columns."""

    seconds: float
    width: int

    def column(self, time: float) -> int:
        """Where a moment stands."""
        return min(self.width - 1, int(time / max(self.seconds, 1e-9) * self.width))

    def columns(self, start: float, end: float) -> slice:
        """Where what happens between two moments stands: in a column at least, however short it is."""
        first = self.column(start)
        after = min(self.width, int(end / max(self.seconds, 1e-9) * self.width))
        return slice(first, max(after, first + 1))


class Row(NamedTuple):
    """A line of a chart, drawn to its scale."""

    label: str
    worker: str
    line: str


def chart(what: str, rows: Sequence[Row], scale: Scale, busy: Sequence[float]) -> str:
    """The rows, under a scale of time, then how many seconds every worker was busy; `what` the rows are."""
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
