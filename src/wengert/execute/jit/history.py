"""Why a function was traced again: what is different from the trace before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.mode import Mode
from ...core.spec import show

_MOST = 64


class Record(NamedTuple):
    """One trace: where the call stands, and what its program depends on, each fact by a name."""

    where: str
    facts: dict[str, Any]
    course: tuple[str, ...]


class History:
    """The traces of one function, the last ones."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[Record] = []
        self.count = 0

    def add(self, record: Record) -> None:
        self.count += 1
        self.records.append(record)
        del self.records[:-_MOST]

    def text(self) -> str:
        """A sentence for every trace, with what differs from the most alike one before it."""
        if not self.records:
            return f"{self.name} has not been traced yet"
        times = "once" if self.count == 1 else f"{self.count} times"
        lines = [f"{self.name} was traced {times}"]
        first = self.count - len(self.records)
        for i, record in enumerate(self.records):
            lines.append(f"{first + i + 1}. at {record.where}")
            before = self.records[:i]
            if not before:
                lines.append("   the first trace" if first == 0 else "   (what came before is forgotten)")
                continue
            nearest = min(reversed(before), key=lambda r: len(differences(r, record)))
            lines += [f"   {d}" for d in differences(nearest, record)] or ["   an object that it uses is another one"]
        return "\n".join(lines)


def differences(old: Record, new: Record) -> list[str]:
    """What differs between two traces, a line each."""
    found = []
    for name in [*new.facts, *(n for n in old.facts if n not in new.facts)]:
        a, b = old.facts.get(name), new.facts.get(name)
        if name not in old.facts:
            found.append(f"{name}: {_shown(b)} is new")
        elif name not in new.facts:
            found.append(f"{name}: {_shown(a)} is gone")
        elif type(a) is not type(b) or a != b:
            found.append(f"{name}: {_shown(b)} where it was {_shown(a)}")
    if not found and old.course != new.course:
        same = next((i for i, (a, b) in enumerate(zip(old.course, new.course)) if a != b), None)
        step = new.course[same] if same is not None else "the course ended elsewhere"
        found.append(f"another course: {step}")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple):
        return show(*value)
    return value.__name__ if isinstance(value, type) else repr(value)


def facts_of(
    names: Sequence[str], call_key: Sequence[Any], around: Sequence[tuple[str, Any]], mode: Mode
) -> dict[str, Any]:
    """The facts that a program depends on, by name: of the arguments' leaves, then of what is around."""
    facts: dict[str, Any] = {"the structure of the arguments": call_key[0]}
    for name, entry in zip(names, call_key[1:], strict=True):
        if isinstance(entry, tuple) and len(entry) == 5:
            kind, shape, dtype, tracked, first = entry
            facts[name] = (shape, dtype)
            facts[f"{name} (requires gradients)"] = tracked > 0
            facts[f"{name} (the same tensor as)"] = names[first] if first >= 0 else None
            facts[f"{name} (type)"] = kind
        else:
            facts[name] = entry[1] if isinstance(entry, tuple) else entry
    facts.update(around)
    facts["gradients are recorded"] = mode.grad
    facts["the default dtype"] = mode.floats
    return facts
