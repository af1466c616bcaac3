"""Answers about blocks of batching: what ran together, in how many kernels, what did not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.source import Source, resolve
from ..execute.batching.block import Batching as Block
from ..execute.batching.report import Ran, Report, watched
from .report import columns, html_table

# Reasons that are shown.
_SHOWN = 12


@dataclass(frozen=True)
class CellOf:
    """A cell: its calls, the kernels that these ran in, and the most calls of one kernel."""

    name: str
    calls: int
    kernels: int
    most: int


@dataclass(frozen=True)
class LeftOut:
    """Calls that were not deferred: of which module, function or operation, why, how many, and the places of these."""

    name: str
    why: str
    calls: int
    places: tuple[Source, ...] = ()


@dataclass(frozen=True)
class Batching:
    """An answer of :func:`batching`.

    `runs` has the groups of every run in their order. `gathered` counts inputs of kernels that were gathered from rows
    in different places, `sliced` inputs whose rows lay side by side already. `wg.explore(answer)` shows it.
    """

    runs: tuple[Ran, ...]
    cells: tuple[CellOf, ...]
    left: tuple[LeftOut, ...]
    gathered: int
    sliced: int

    @property
    def calls(self) -> int:
        """The number of calls that were deferred."""
        return sum(c.calls for c in self.cells)

    @property
    def kernels(self) -> int:
        """The number of kernels that they ran in."""
        return sum(c.kernels for c in self.cells)

    def __str__(self) -> str:
        ways = ", ".join(sorted({r.way for r in self.runs}))
        lines = [
            f"{self.calls:,} calls in {self.kernels:,} kernels, in {len(self.runs):,} "
            + ("run" if len(self.runs) == 1 else "runs")
            + (f" (by {ways})" if ways else "")
        ]
        if self.cells:
            rows = [[c.name, f"{c.calls:,}", f"{c.kernels:,}", f"{c.most:,}"] for c in self.cells]
            lines.append(columns(rows, _HEADINGS, right=(1, 2, 3)))
            lines.append(f"inputs of kernels: {self.gathered:,} gathered, {self.sliced:,} in place")
        if self.left:
            lines.append("not batched")
            lines += [f"  {e.name}, {_times(e.calls)}: {e.why}" for e in self.left[:_SHOWN]]
            if len(self.left) > _SHOWN:
                lines.append(f"  and {len(self.left) - _SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [[c.name, f"{c.calls:,}", f"{c.kernels:,}", f"{c.most:,}"] for c in self.cells]
        return html_table(str(self).partition("\n")[0], rows, _HEADINGS, right=(1, 2, 3))


_HEADINGS = ("cell", "calls", "kernels", "most together")


def _times(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def batching(fn: Callable[..., Any] | Block, *args: Any, **kwargs: Any) -> Batching:
    """Return what ran together in blocks of batching, in how many kernels, and what was left out and why.

    Parameters
    ----------
    fn: a function that is called with the other arguments, in a block unless it has blocks of its own
        (:func:`wengert.batching`, :func:`wengert.autobatch`); or a block that has ended.

    >>> import wengert as wg
    >>> cell = wg.cell(lambda x: wg.tanh(x))
    >>> print(wg.explain.batching(lambda: [cell(cell(wg.ones(2))) for _ in range(3)]))
    6 calls in 2 kernels, in 1 run (by depth)
    cell      calls  kernels  most together
    <lambda>      6        2              3
    inputs of kernels: 0 gathered, 2 in place
    """
    if isinstance(fn, Block):
        return _answer([fn.report])
    with watched() as reports:
        outer = Block()
        with outer:
            fn(*args, **kwargs)
    return _answer(reports)


def _answer(reports: list[Report]) -> Batching:
    runs = tuple(run for report in reports for run in report.runs)
    groups = [g for run in runs for g in run.groups]
    found: dict[str, list[int]] = {}
    for g in groups:
        found.setdefault(g.cell, []).append(g.calls)
    cells = [CellOf(name, sum(calls), len(calls), max(calls)) for name, calls in found.items()]
    counts: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], dict[Source, None]] = {}
    for report in reports:
        for (name, why, code, offset), n in report.left.items():
            counts[name, why] += n
            seen = places.setdefault((name, why), {})
            if code is not None:
                seen[resolve(code, offset)] = None
    left = [LeftOut(name, why, n, tuple(places[name, why])) for (name, why), n in counts.most_common()]
    cells.sort(key=lambda c: -c.calls)
    return Batching(runs, tuple(cells), tuple(left), sum(g.gathered for g in groups), sum(g.sliced for g in groups))
