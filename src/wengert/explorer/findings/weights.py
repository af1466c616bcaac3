"""Rules about parameters that a file holds: numbers that are not finite, units that are dead, copies."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from ...explain.finite import all_finite
from ..recording.recording import Row
from .facts import Facts
from .finding import Finding

_NAMED = 5
# Arrays of fewer elements are equal by accident, and are 0 by design.
_FEW = 64


def stored_nonfinite(facts: Facts) -> Iterator[Finding]:
    """Find stored parameters with NaNs; infinities are often meant, as in masks."""
    for row in _stored(facts):
        value = np.asarray(row.value)
        if value.dtype.kind not in "fcV" or all_finite(value):
            continue
        nans = int((value != value).sum())
        infinite = value.size - nans - int(np.isfinite(_wide(value)).sum())
        what = _counted(nans, "NaN", "NaNs") if nans else _counted(infinite, "infinity", "infinities")
        yield _finding(
            facts, row, "stored-nan" if nans else "stored-infinity", "error" if nans else "note",
            f"{what} in {_path(facts, row)}",
            f"{nans:,} of its {value.size:,} elements are NaN and {infinite:,} are infinite.",
            "Look for the step of training that made them." if nans else "",
            {"nan": nans, "infinite": infinite},
        )  # fmt: skip


def stored_dead(facts: Facts) -> Iterator[Finding]:
    """Find matrices and kernels that are 0, or that have rows of zeros: units that give the same for every input."""
    for row in _stored(facts):
        value = np.asarray(row.value)
        if value.ndim < 2 or value.size < _FEW or value.dtype.kind not in "fcV":
            continue
        dead = int((~value.reshape(len(value), -1).astype(bool).any(axis=1)).sum())
        if dead == len(value):
            yield _finding(
                facts, row, "stored-zero", "warning", f"{_path(facts, row)} is all zeros",
                f"All of its {value.size:,} elements are 0.", "It was pruned away, or never initialised.", {},
            )  # fmt: skip
        elif dead:
            yield _finding(
                facts, row, "stored-dead-rows", "note",
                f"{_counted(dead, 'dead row', 'dead rows')} in {_path(facts, row)}",
                f"{dead:,} of its {len(value):,} rows are 0 throughout.", "", {"rows": dead},
            )  # fmt: skip


def stored_copies(facts: Facts) -> Iterator[Finding]:
    """Find arrays that stand in the file several times."""
    alike: dict[Any, list[Row]] = {}
    for row in _stored(facts):
        value = np.asarray(row.value)
        if value.size >= _FEW and (value != value.flat[0]).any():
            # Most arrays differ in their first elements; only those that do not are read whole.
            alike.setdefault((value.shape, value.dtype.str, value.reshape(-1)[:_FEW].tobytes()), []).append(row)
    for rows in alike.values():
        equal: dict[bytes, list[Row]] = {}
        for row in rows if len(rows) > 1 else ():
            equal.setdefault(blake2b(np.ascontiguousarray(row.value).tobytes()).digest(), []).append(row)
        for same in equal.values():
            if len(same) > 1:
                yield _copies(facts, same)


def _counted(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _copies(facts: Facts, same: list[Row]) -> Finding:
    names = [_path(facts, row) for row in same]
    others = ", ".join(names[1 : _NAMED + 1]) + (f" and {len(names) - _NAMED - 1:,} more" if len(names) > 6 else "")
    nbytes = (len(same) - 1) * int(np.asarray(same[0].value).nbytes)
    return _finding(
        facts, same[0], "stored-copies", "note", f"stands in the file {len(same)} times",
        f"Equal element for element: {others}. That takes {nbytes:,} bytes more than one of them.",
        "Where they are tied, one is enough.", {"copies": len(same), "bytes": nbytes},
    )  # fmt: skip


def _stored(facts: Facts) -> Iterator[Row]:
    if facts.recording.stored:
        for row in facts.rows:
            if row.op is None and row.kind in ("param", "const") and isinstance(row.value, np.ndarray):
                yield row


def _wide(value: Any) -> Any:
    return value.astype(np.float32) if value.dtype.kind == "V" else value


def _path(facts: Facts, row: Row) -> str:
    path = row.scope.path if row.scope is not None else ""
    return f"{path}.{facts.name(row)}" if path else facts.name(row)


def _finding(
    facts: Facts, row: Row, rule: str, severity: Any, title: str, text: str, fix: str, evidence: dict[str, Any]
) -> Finding:
    return Finding(rule, severity, title, _path(facts, row), row, "forward", None, text, fix, evidence)
