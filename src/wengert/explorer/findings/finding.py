"""The data type of a finding, and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ...core.source import Source
from ..document.stats import num
from ..recording.recording import Phase, Row

Severity = Literal["error", "warning", "note"]


class Spread(NamedTuple):
    """The reach of a fault: forward values and parameters' gradients, of how many."""

    values: int
    values_of: int
    gradients: int
    gradients_of: int


@dataclass(frozen=True)
class Finding:
    """A fact about a run that its author would want to know.

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
        """Return the text as compilers write it: `file:line: severity: title (rule)`, and what to do."""
        at = f"{self.source.file}:{self.source.line}: " if self.source is not None else ""
        lines = [f"{at}{self.severity}: {self.title} ({self.rule}), {self.where}", f"    {self.text}"]
        if self.formula is not None:
            lines.append(f"    {self.formula[0]}: {self.formula[1]}")
        if self.fix:
            lines.append(f"    instead: {self.fix}")
        return "\n".join(lines)

    def entry(self) -> dict[str, Any]:
        """Return the entry of a document: see the schema."""
        made: dict[str, Any] = {
            "rule": self.rule,
            "severity": self.severity,
            "title": self.title,
            "where": self.where,
            "node": self.row.index,
            "phase": self.phase,
            "text": self.text,
            "fix": self.fix,
            "evidence": {key: _plain(value) for key, value in self.evidence.items()},
        }
        if self.table is not None:
            columns, rows = self.table
            made["table"] = {"columns": columns, "rows": [[_plain(cell) for cell in row] for row in rows]}
        if self.formula is not None:
            made["formula"] = {"tex": self.formula[0], "numbers": self.formula[1]}
        if self.spread is not None:
            values, values_of, gradients, gradients_of = self.spread
            made["spread"] = {
                "values": values, "valuesOf": values_of, "gradients": gradients, "gradientsOf": gradients_of,
            }  # fmt: skip
        return made


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, list)) else num(value)
