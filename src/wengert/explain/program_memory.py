"""Memory of compiled programs: what their plans hold at the peak, and what a budget made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.source import Source
from ..execute.jit.compiled import Inspected
from ..execute.native.budget.places import place_of
from ..execute.native.plan.plan import Plan, rounded
from .pictures.timeline import timeline
from .report import columns, html_table, place, size

_SHOWN = 10


@dataclass(frozen=True)
class Held:
    """An array of a program that is there at the peak: its bytes, the step that makes it, and where that is from.

    It is there from step `first` to step `last`.
    """

    bytes: int
    step: str
    source: Source | None
    path: str
    first: int
    last: int


@dataclass(frozen=True)
class Again:
    """A step that runs again because of a budget, `times` besides the first: the bytes that it makes, and its time.

    `share` is the part of the estimated time of all steps, run once, that this takes.
    """

    step: str
    times: int
    bytes: int
    share: float
    source: Source | None
    path: str


@dataclass(frozen=True)
class Spilled:
    """A value that a file keeps while memory has no room for it: the step that makes it, its bytes."""

    step: str
    bytes: int
    source: Source | None
    path: str


@dataclass(frozen=True)
class ProgramMemory:
    """The memory of a compiled program's call, in bytes, known before it.

    `growth` is what the call takes beside `inputs` and `constants`: `results`, the `arena` of everything in between,
    and `scratch` memory of threads. `limit` is the budget that it was made for (None: none), `free` what it would take
    without. `holders` is what the arena has at the step that needs most, `peak_at`; `again` what is computed more than
    once, `spilled` what goes to a file of `file` bytes, and `slower` the part that these add to the estimated time.
    `during` has the bytes in use at every step.

    >>> import wengert as wg
    >>> step = wg.jit(lambda x: wg.exp(x @ x).sum())
    >>> _ = step(wg.zeros((64, 64)))
    >>> found = wg.explain.memory(step)
    >>> found.growth == step.memory.growth, found.again
    (True, ())
    """

    limit: int | None
    free: int
    growth: int
    inputs: int
    constants: int
    results: int
    arena: int
    scratch: int
    is_reordered: bool
    slower: float
    peak_at: int
    during: tuple[int, ...]
    steps: tuple[str, ...]
    holders: tuple[Held, ...]
    again: tuple[Again, ...]
    spilled: tuple[Spilled, ...] = ()
    file: int = 0

    @property
    def _title(self) -> str:
        text = (
            f"{size(self.growth)} beside {size(self.inputs + self.constants)} of inputs and constants: "
            f"{size(self.results)} of results, {size(self.arena)} in between, {size(self.scratch)} scratch"
        )
        if self.limit is None:
            return text
        text += f"\nbudget {size(self.limit)}; without it {size(self.free)}"
        if self.is_reordered:
            text += "; in another order"
        if self.again:
            count = sum(a.times for a in self.again)
            text += f"; {count:,} steps run again"
        if self.spilled:
            text += f"; {len(self.spilled):,} values in a file of {size(self.file)}"
        return text + (f"; an estimated {self.slower:.1%} more time" if self.slower else "")

    def _rows(self) -> list[list[str]]:
        return [[size(h.bytes), h.step, h.path, place(h.source), f"{h.first}-{h.last}"] for h in self.holders]

    def _again_rows(self) -> list[list[str]]:
        return [[a.step, str(a.times), size(a.bytes), f"{a.share:.1%}", a.path, place(a.source)] for a in self.again]

    def _spilled_rows(self) -> list[list[str]]:
        return [[size(s.bytes), s.step, s.path, place(s.source)] for s in self.spilled]

    def __str__(self) -> str:
        parts = [self._title]
        if self.holders:
            parts.append(f"at the peak, step {self.peak_at} ({self.steps[self.peak_at]}):")
            parts.append(columns(self._rows()[:_SHOWN], _HELD, (0,)))
            parts += _more(self.holders, "arrays")
        if self.again:
            parts.append("computed again:")
            parts.append(columns(self._again_rows()[:_SHOWN], _AGAIN, (1, 2, 3)))
            parts += _more(self.again, "steps")
        if self.spilled:
            parts.append("in the file:")
            parts.append(columns(self._spilled_rows()[:_SHOWN], _SPILLED, (0,)))
            parts += _more(self.spilled, "values")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        tables = self.to_svg() + html_table(self._title, self._rows(), _HELD, (0,))
        if self.again:
            tables += html_table("computed again", self._again_rows(), _AGAIN, (1, 2, 3))
        return tables + (html_table("in the file", self._spilled_rows(), _SPILLED, (0,)) if self.spilled else "")

    def to_svg(self) -> str:
        """Return the bytes in use over the steps as an SVG picture, the peak marked."""
        names = [f"{name} holds {size(n)}" for name, n in zip(self.steps, self.during, strict=True)]
        nothing = [0] * len(names)
        return timeline(list(self.during), nothing, len(names), self.peak_at, names, self._title.replace("\n", "; "))


_HELD = ("bytes", "made by", "module", "line", "steps")
_SPILLED = ("bytes", "made by", "module", "line")
_AGAIN = ("step", "times", "bytes", "of time", "module", "line")


def _more(rows: Sequence[Any], what: str) -> list[str]:
    return [f"... and {len(rows) - _SHOWN:,} more {what}"] if len(rows) > _SHOWN else []


def program_memory(compiled: Inspected) -> ProgramMemory:
    """Return the memory of a compiled function's last program. Raises GraphError where there is none."""
    known, budget, plan = compiled.memory, compiled.budget, compiled.plan
    during, holders = _held(plan)
    peak_at = max(range(len(during)), key=during.__getitem__, default=0)
    return ProgramMemory(
        limit=None if budget is None else budget.limit,
        free=known.growth if budget is None else budget.free,
        growth=known.growth,
        inputs=known.inputs,
        constants=known.constants,
        results=known.outputs,
        arena=known.arena,
        scratch=known.scratch,
        is_reordered=budget is not None and budget.is_reordered,
        slower=0.0 if budget is None else budget.time,
        peak_at=peak_at,
        during=tuple(during),
        steps=tuple(step.label for step in plan.steps),
        holders=tuple(h for h in holders if h.first <= peak_at <= h.last),
        again=() if budget is None else tuple(Again(*a) for a in budget.again),
        spilled=() if budget is None else tuple(Spilled(*s) for s in budget.spilled),
        file=0 if budget is None else budget.file,
    )


def _held(plan: Plan) -> tuple[list[int], list[Held]]:
    """Return the bytes of the arena that are in use at each step, and its arrays, the largest first."""
    born, dies = plan.lives()
    change = [0] * (len(plan.steps) + 2)
    holders = []
    for buffer, first in born.items():
        last = min(dies[buffer], len(plan.steps) - 1)
        change[first] += rounded(buffer.nbytes)
        change[last + 1] -= rounded(buffer.nbytes)
        step = plan.steps[min(first, len(plan.steps) - 1)]
        source, _, path = place_of([step])
        holders.append(Held(buffer.nbytes, step.label, source, path, first, last))
    during, used = [], 0
    for n in change[: len(plan.steps)]:
        used += n
        during.append(used)
    return during, sorted(holders, key=lambda h: -h.bytes)
