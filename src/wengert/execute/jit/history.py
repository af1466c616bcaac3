"""The history of traces: why a function was traced again, and what to do where that goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.elsewhere import CPU
from ...core.spec import show
from .capture.reading import Reads

_MOST = 64
# Among so many traces of late the one is looked for that a new one is most like.
_LATE = 8
# So many traces for one reason bring a warning; new shapes are usual, and cheaper than they look.
_PATIENCE = 4
_PATIENCE_WITH_SHAPES = 32
_CONTAINERS = {"list", "dict", "set", "deque", "contents", "bytearray", "array", "tuple", "frozenset", "defaultdict"}
_CONTAINERS |= {"Counter", "OrderedDict", "mappingproxy"}
_PLAIN = {"bool", "int", "float", "complex", "str", "bytes", "NoneType", *_CONTAINERS}


# The prefix of facts that say that a generator of Python's or NumPy's was drawn from.
DRAWS = "draws of "


class Record(NamedTuple):
    """One trace: the place of the call, and the facts that its program depends on, each by a name.

    `reads` is what was known of what traces read: facts are only of that. `inputs` are the names of facts that are
    about arguments.
    """

    where: str
    facts: dict[str, Any]
    decisions: tuple[str, ...]
    reads: Reads | None
    inputs: frozenset[str]


class History:
    """The last traces of one function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: list[Record] = []
        self.count = 0
        # Whether the last trace was for arguments like those of the one before.
        self.is_for_the_same = False
        self._reasons: dict[str, int] = {}

    def add(self, record: Record) -> str | None:
        """Record a trace; return a warning where it was one more for a reason that there were too many traces for."""
        found = self._reason(record) if self.records else None
        before = self.records[-1] if self.records else None
        self.is_for_the_same = before is not None and _arguments(before) == _arguments(record)
        self.count += 1
        self.records.append(record)
        del self.records[:-_MOST]
        return found

    def _reason(self, record: Record) -> str | None:
        late = reversed(self.records[-_LATE:])
        nearest = min(late, key=lambda r: (r.reads is not record.reads, len(r.facts.items() ^ record.facts.items())))
        changed = {name.partition(":")[0].partition("[")[0]: name for name in reversed(changes(nearest, record))}
        warned = None
        for reason, name in changed.items():
            times = self._reasons[reason] = self._reasons.get(reason, 0) + 1
            value = record.facts.get(name)
            is_shape = name in record.inputs and _is_spec(value)
            if times == (_PATIENCE_WITH_SHAPES if is_shape else _PATIENCE):
                kind = name.rpartition(": ")[2]
                if is_shape:
                    advice = _FOR_SHAPES
                elif name in record.inputs:
                    advice = _FOR_ARGUMENTS
                elif reason.startswith(DRAWS):
                    advice = _FOR_DRAWS
                elif kind in _CONTAINERS or "[" in name:
                    advice = _FOR_CONTAINERS
                else:
                    advice = _FOR_VALUES if kind in _PLAIN else _FOR_OBJECTS
                warned = (
                    f"{self.name} was traced {times} times because {reason} changed, the last time: "
                    f"{difference(nearest, record, name)} ({record.where})\n{advice}"
                )
        return warned

    def text(self) -> str:
        """Return a sentence for every trace, with what differs from the most alike one before it."""
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
            back, nearest = min(enumerate(reversed(before), 1), key=lambda pair: len(changes(pair[1], record)))
            found = differences(nearest, record)
            if nearest.reads is not record.reads:
                found.append("only what its traces read counts from here on")
            # A trace that was only shown has no program, and programs are forgotten.
            gone = f"for what trace {first + i + 1 - back} was for, whose program is gone"
            lines += [f"   {d}" for d in found or [gone]]
        return "\n".join(lines)


# The second line of warnings, by what changed.
_FOR_SHAPES = (
    "Every shape has a plan of its own, which takes a trace. Where there are many, pad to a few sizes (a power of two, "
    "the longest of a batch), and mask what was added."
)
_FOR_ARGUMENTS = (
    "A value that is neither a tensor, an array nor a number that is only computed with is a part of the program. Pass "
    "a tensor, or few different values; where it decides nothing, leave it out."
)
_FOR_VALUES = (
    "What the function reads outside of tensors is a part of its program. Pass it as an argument, or keep it in a "
    "tensor, which is read anew in every call; what only counts or logs belongs outside of the compiled function."
)
_FOR_DRAWS = (
    "Numbers that Python draws are constants of a program, so it is made anew in every call. Draw with wg.random, "
    "which compiled code does, or draw outside, and pass what was drawn."
)
_FOR_CONTAINERS = (
    "What the function reads outside of tensors is a part of its program. Pass what it needs of this as an argument; "
    "a log or a cache that grows belongs outside of the compiled function."
)
_FOR_OBJECTS = (
    "What the function uses is a part of its program. Make it once, outside, instead of anew for every call, or pass "
    "what differs in it as an argument."
)


def _arguments(record: Record) -> dict[str, Any]:
    return {name: record.facts[name] for name in record.inputs}


def changes(old: Record, new: Record) -> list[str]:
    """Return the names of the facts that differ between two traces."""
    found = []
    for name in [*new.facts, *(n for n in old.facts if n not in new.facts)]:
        if name not in old.facts or name not in new.facts:
            if old.reads is new.reads:
                found.append(name)
        elif type(old.facts[name]) is not type(new.facts[name]) or old.facts[name] != new.facts[name]:
            found.append(name)
    return found


def difference(old: Record, new: Record, name: str) -> str:
    """Return how a fact differs between two traces."""
    a, b = old.facts.get(name), new.facts.get(name)
    if name not in old.facts:
        return f"{name}: {_shown(b)} is new"
    if name not in new.facts:
        return f"{name}: {_shown(a)} is gone"
    return f"{name}: {_shown(b)} where it was {_shown(a)}"


def differences(old: Record, new: Record) -> list[str]:
    """Return the differences between two traces, a line each."""
    found = [difference(old, new, name) for name in changes(old, new)]
    if not found and old.decisions != new.decisions:
        same = next((i for i, (a, b) in enumerate(zip(old.decisions, new.decisions)) if a != b), None)
        step = new.decisions[same] if same is not None else "the path ended elsewhere"
        found.append(f"another path: {step}")
    return found


def is_plain_fact(fact: tuple[str, str, Any]) -> bool:
    """Return whether an entry of the captured state's key is about a plain value or a container of such.

    Modes of modules are not: every module reads its own.
    """
    path, kind, _ = fact
    return kind in _PLAIN and not path.endswith(".training")


def _is_spec(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], np.dtype)


def _shown(value: Any) -> str:
    if _is_spec(value):
        return show(*value)
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def facts_of(names: Sequence[str], call_key: Sequence[Any]) -> dict[str, Any]:
    """Return the facts that a program depends on of the arguments' leaves, by name."""
    facts: dict[str, Any] = {"the structure of the arguments": call_key[0]}
    for name, entry in zip(names, call_key[1:], strict=True):
        if isinstance(entry, tuple) and len(entry) == 7:
            kind, shape, dtype, tracked, first, place, lies = entry
            facts[name] = (shape, dtype)
            facts[f"{name} (device)"] = place or CPU
            facts[f"{name} (requires gradients)"] = tracked > 0
            facts[f"{name} (the same tensor as)"] = names[first] if first >= 0 else None
            facts[f"{name} (type)"] = kind
            facts[f"{name} (strides)"] = lies
        else:
            facts[name] = entry[1] if isinstance(entry, tuple) else entry
    return facts
