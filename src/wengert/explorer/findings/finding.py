"""What a finding is, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ...core.source import Source
from ..recording import Phase, Row

Severity = Literal["error", "warning", "note"]


class Spread(NamedTuple):
    """How far something went: forward values and parameters' gradients, of how many."""

    values: int
    values_of: int
    gradients: int
    gradients_of: int


@dataclass(frozen=True)
class Finding:
    """Something about a run that its author would want to know.

    `rule` names what was looked for, `row` is where it shows, in `phase`. `text` says what is the matter and why, `fix`
    what to write instead. `evidence` holds numbers beside the title, `table` (column names, rows) the step's own
    numbers, `formula` what was computed and with which numbers.
    """

    rule: str
    severity: Severity
    title: str
    where: str
    row: Row
    phase: Phase
    source: Source | None
    text: str
    fix: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    table: tuple[list[str], list[list[Any]]] | None = None
    formula: tuple[str, str] | None = None
    spread: Spread | None = None

    def __str__(self) -> str:
        """As compilers write: `file:line: severity: title (rule)`, and what to do."""
        at = f"{self.source.file}:{self.source.line}: " if self.source is not None else ""
        lines = [f"{at}{self.severity}: {self.title} ({self.rule}), {self.where}", f"    {self.text}"]
        if self.formula is not None:
            lines.append(f"    {self.formula[0]}: {self.formula[1]}")
        if self.fix:
            lines.append(f"    instead: {self.fix}")
        return "\n".join(lines)
