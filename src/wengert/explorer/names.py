"""What rows are called: the program's own names where it has some, else v1, v2, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import spans
from .recorder import Activation
from .recording import Recording, Row
from .scopes import Place

_MOST_RETURNS = 8


def name_leaves(rows: Sequence[Row], given: Mapping[int, str]) -> None:
    """Name leaves: by `given`, with names by the identity of node or array, else as operations call them."""
    users: dict[Row, tuple[Row, int]] = {}
    for row in rows:
        for i, operand in enumerate(row.operands):
            if operand is not None:
                users.setdefault(operand, (row, i))
    for row in rows:
        if row.op is None:
            called = given.get(id(row.node), "") or given.get(id(row.value), "")
            if called and row.kind == "const":
                row.kind = "input"  # a variable of the program, which gives it data
            row.name = called or _as_operand(row, users)


def name_rows(recording: Recording, places: Mapping[Row, Place]) -> None:
    """Name all rows that have no name yet."""
    for row in recording.rows:
        if row.op is not None:
            row.name = _assigned(row) or ""
    _results(recording)
    _rest(recording, places)


def _assigned(row: Row) -> str | None:
    """The variable that a row's whole expression is assigned to, perhaps after functions returned it."""
    code, offset, activation = row.code, row.offset, row.activation
    for _ in range(_MOST_RETURNS):
        where = spans.span(code, offset) if code is not None else None
        name = spans.target(where) if where is not None else None
        if name != "":
            return name
        caller: Activation | None = activation.parent if activation is not None else None
        if activation is None or caller is None:
            return None
        code, offset, activation = caller.code, activation.at, caller
    return None


def _as_operand(leaf: Row, users: Mapping[Row, tuple[Row, int]]) -> str:
    """The variable by which an operation takes a leaf."""
    user = users.get(leaf)
    while user is not None:
        row, index = user
        if row.scope is not None and row.scope.within("gradient"):
            return ""
        where = spans.span(row.code, row.offset) if row.code is not None else None
        name = spans.operand(where, index) if where is not None else ""
        if name or (row.op is not None and row.op.name not in ("broadcast", "cast", "alias")):
            return name
        user = users.get(row)
    return ""


def _results(recording: Recording) -> None:
    """A result has the name, what computes it has a number."""
    for root in recording.roots:
        if root.kind == "root" and root.operands and (made := root.operands[0]) is not None:
            root.name = made.name or "result"
            if made.op is not None:
                made.name = ""


def _rest(recording: Recording, places: Mapping[Row, Place]) -> None:
    """Numbers for what has no name, and for names that come again in one scope."""
    taken: dict[tuple[Any, str], int] = {}
    used = {row.name for row in recording.rows if row.name}
    counters = {"v": 0, "p": 0, "c": 0, "x": 0}
    letters = {"op": "v", "param": "p", "const": "c", "input": "x", "root": "v"}
    for row in recording.rows:
        if row.name:
            key = (places.get(row), row.name)
            taken[key] = times = taken.get(key, 0) + 1
            if times > 1:
                row.name = f"{row.name}_{times}"
            continue
        letter = letters[row.kind]
        while True:
            counters[letter] += 1
            name = f"{letter}{counters[letter]}"
            if name not in used:
                break
        row.name = name
