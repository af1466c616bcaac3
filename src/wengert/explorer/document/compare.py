"""Comparison of two recorded runs: the rows that are the same, and the edits between them.

Rows are matched in the order of the tape: first those of equal structure (the operation and, by hashes, all that it
was computed from), then, in the stretches between, those of the same operation or name. The
matching is Ratcliff and Obershelp's ("Pattern matching: the gestalt approach", 1988, in `difflib`): monotone and short,
not always the shortest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ...core.arrays import Array
from ..findings.facts import rms
from ..recording.recording import Row
from ..recording.scopes import UNTOLD
from .large import real
from .stats import short

Edit = dict[str, Any]
# A parameter that moved by less than this part of its size has not moved.
MOVED = 1e-6


def compared(a: Sequence[Row], b: Sequence[Row]) -> dict[str, Any]:
    """Return the edits that turn the first run into the second, and the rows that stand for each other.

    Rows without an edit are the same, in order. With each pair is how far its values and its gradients are apart: as a
    part of the first's size, None where they do not compare.
    """
    pairs = _aligned(a, b)
    places = [{id(r): i for i, r in enumerate(rows)} for rows in (a, b)]
    return {
        "edits": _edits(a, b, pairs),
        "pairs": {
            "a": [places[0][id(x)] for x, _ in pairs],
            "b": [places[1][id(y)] for _, y in pairs],
            "value": [_apart(x.value, y.value) for x, y in pairs],
            "gradient": [_apart(x.gradient, y.gradient) for x, y in pairs],
        },
    }


def _apart(a: Any, b: Any) -> Any:
    """Return how far two arrays are apart, as a part of the first's size."""
    if a is None or b is None or isinstance(a, tuple) or isinstance(b, tuple) or np.shape(a) != np.shape(b):
        return None
    x, y = _comparable(a), _comparable(b)
    if x is None or y is None:
        return None
    with np.errstate(all="ignore"):
        # What is not finite in the same way on both sides is no difference.
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        distance = rms(np.abs(np.where(same, 0, np.subtract(y, x, dtype=np.result_type(x, y, np.float32)))))
        size = rms(np.abs(np.where(np.isfinite(x), x, 0)))
    if distance is None or size is None:
        return None
    return short(distance / size) if size else short(distance)


def _comparable(value: Any) -> Array | None:
    """Return an array whose differences are numbers: truth values and integers as float64, bfloat16 as float32."""
    array = np.asarray(value)
    if not array.size or array.dtype.kind not in "biufcV":
        return None
    return array if array.dtype.kind == "c" else real(array)


def _edits(a: Sequence[Row], b: Sequence[Row], pairs: Sequence[tuple[Row, Row]]) -> list[Edit]:
    partner = {id(x): y for x, y in pairs}
    found = [
        (i, {"kind": "removed", "a": i, "b": -1, "text": _text(x)}) for i, x in enumerate(a) if id(x) not in partner
    ]
    matched = {id(y) for _, y in pairs}
    found += [
        (j, {"kind": "added", "a": -1, "b": j, "text": _text(y)}) for j, y in enumerate(b) if id(y) not in matched
    ]
    place_a, place_b = ({id(r): i for i, r in enumerate(rows)} for rows in (a, b))
    for x, y in pairs:
        what = _changed(x, y)
        if what:
            i, j = place_a[id(x)], place_b[id(y)]
            found.append((i, {"kind": "changed", "a": i, "b": j, "text": f"{_text(y)}: {what}"}))
    return [edit for _, edit in sorted(found, key=lambda pair: pair[0])]


def _aligned(a: Sequence[Row], b: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return pairs of rows, ascending on both sides."""
    pairs: list[tuple[Row, Row]] = []
    # A leaf whose name only one of the runs has may have another name in the other: then its place tells it.
    known = {r.name for r in a if r.op is None} & {r.name for r in b if r.op is None}
    for tag, i, i_end, j, j_end in _blocks(_structure(a, known), _structure(b, known)):
        if tag == "equal":
            pairs += zip(a[i:i_end], b[j:j_end])
            continue
        left, right = a[i:i_end], b[j:j_end]
        for inner, k, k_end, m, m_end in _blocks([_weak(r) for r in left], [_weak(r) for r in right]):
            if inner == "equal":
                pairs += zip(left[k:k_end], right[m:m_end])
            elif inner == "replace" and k_end - k == m_end - m:
                # As many as before at the same place: each became another.
                pairs += [(x, y) for x, y in zip(left[k:k_end], right[m:m_end]) if (x.op is None) == (y.op is None)]
    return pairs


def _blocks(a: list[str], b: list[str]) -> list[tuple[str, int, int, int, int]]:
    return [*SequenceMatcher(None, a, b, autojunk=False).get_opcodes()]


def _structure(rows: Sequence[Row], known: Collection[str]) -> list[str]:
    """Return for every row a hash of its operation and of all that it was computed from.

    Leaves whose names are not `known` are told by what takes them.
    """
    users: dict[int, list[tuple[str, int]]] = {}
    for row in rows:
        for i, o in enumerate(row.operands):
            if o is not None and o.op is None and o.name not in known:
                users.setdefault(id(o), []).append((_weak(row), i))
    found: dict[int, str] = {}
    for row in rows:
        operands = [found.get(id(o), "") if o is not None else "" for o in row.operands]
        own = _weak(row) if row.op is not None or row.name in known else repr((row.kind, users.get(id(row), [])))
        text = repr((own, _told(row), sorted(row.literals.items(), key=str), operands, _shape(row)))
        found[id(row)] = hashlib.sha256(text.encode()).hexdigest()
    return [found[id(row)] for row in rows]


def _weak(row: Row) -> str:
    return row.op.name if row.op is not None else f"{row.kind} {row.name}"


def _told(row: Row) -> str:
    return repr(sorted((name, str(value)) for name, value in row.attrs.items() if name not in UNTOLD))


def _shape(row: Row) -> str:
    return " ".join(map(str, row.specs))


def _changed(a: Row, b: Row) -> str:
    """Return what is different about two rows at the same place, in words; "" for nothing."""
    if _weak(a) != _weak(b):
        if a.op is None and b.op is None and a.kind == b.kind and _shape(a) == _shape(b):
            return ", ".join(filter(None, [f"was called {a.name}", _moved(a, b) if a.kind == "param" else ""]))
        return f"{_weak(a)} became {_weak(b)}"
    if _told(a) != _told(b):
        return ", ".join(
            f"{name} {a.attrs.get(name)!r} became {b.attrs.get(name)!r}"
            for name in sorted({*a.attrs, *b.attrs} - UNTOLD)
            if str(a.attrs.get(name)) != str(b.attrs.get(name))
        )
    if {k: str(v) for k, v in a.literals.items()} != {k: str(v) for k, v in b.literals.items()}:
        return f"numbers {list(a.literals.values())} became {list(b.literals.values())}"
    if a.op is None and _shape(a) != _shape(b):
        return f"{_shape(a)} became {_shape(b)}"
    return _moved(a, b) if a.kind == "param" else ""


def _moved(a: Row, b: Row) -> str:
    """Return how far a parameter is from what it was: two checkpoints of one model."""
    if a.value is None or b.value is None or np.shape(a.value) != np.shape(b.value):
        return ""
    with np.errstate(all="ignore"):
        distance = rms(np.subtract(b.value, a.value))
    size = rms(a.value)
    if distance is None or size is None or not distance > MOVED * size:
        return ""
    return f"moved by {distance / size:.2%} of its size" if size else f"moved by {distance:.3g}"


def _text(row: Row) -> str:
    name = row.name or row.kind
    return f"{name} = {row.op.name}" if row.op is not None else name
