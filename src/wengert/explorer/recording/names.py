"""Names of rows: the program's own where it has some, else v1, v2, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from . import spans
from .recorder import Activation
from .recording import Recording, Row
from .scopes import Place, node_of

_MOST_RETURNS = 8


def name_leaves(rows: Sequence[Row], given: Mapping[int, str], arrays: Sequence[tuple[str, Array]] = ()) -> None:
    """Name leaves: by `given`, with names by the identity of node or array, by the NumPy `arrays` of the program that
    hold the same numbers, else as operations call them. Arrays that have a name are the program's data.
    """
    leaves = _Leaves(rows)
    for row in rows:
        if row.op is None:
            called = given.get(id(row.node), "") or given.get(id(row.value), "") or _as_array(row, arrays)
            known = bool(called)
            # What stands in a module is called by the way there.
            row.given = known and row.kind != "param" and "." not in called
            row.name = called or leaves.called(row)
            if row.kind == "const" and (known or (row.name and np.size(row.value) > 1)):
                row.kind = "input"


def _as_array(row: Row, arrays: Sequence[tuple[str, Array]]) -> str:
    """Return the name of the one NumPy array of the program that a leaf was made of."""
    value = row.value
    if row.kind == "param" or not isinstance(value, np.ndarray) or not 1 < value.size <= _COMPARED:
        return ""
    found = {name for name, array in arrays if array.shape == value.shape and _is_made_of(value, array)}
    return found.pop() if len(found) == 1 else ""


def _is_made_of(value: Array, array: Array) -> bool:
    if value is array or (np.may_share_memory(value, array) and np.shares_memory(value, array)):
        return True
    if array.dtype.kind not in "biufc" or value.dtype.kind == "V" or (value == value.flat[0]).all():
        return False  # one number throughout is equal by accident
    return np.array_equal(array.astype(value.dtype), value)


class _Leaves:
    """The names by which operations call the leaves that they take."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.users: dict[Row, tuple[Row, int]] = {}
        self.first: dict[tuple[Any, int], Row] = {}
        for row in rows:
            for i, operand in enumerate(row.operands):
                if operand is not None:
                    self.users.setdefault(operand, (row, i))
            if row.op is not None and "inserted" not in row.op.facets and row.activation is not None:
                self.first.setdefault((row.activation, row.offset), row)

    def called(self, leaf: Row) -> str:
        """Return the variable by which an operation takes a leaf."""
        user = self.users.get(leaf)
        # What is broadcast or cast is the operand of the operation that wants it so.
        while user is not None and user[0].op is not None and "inserted" in user[0].op.facets:
            user = self.users.get(user[0])
        if user is None:
            return ""
        row, index = user
        where = spans.span(row.code, row.offset) if row.code is not None else None
        if where is None or row.op is None or (row.scope is not None and row.scope.within("gradient")):
            return ""
        return spans.operand(where, index, row.op) or self._argument(leaf, row, where)

    def _argument(self, leaf: Row, row: Row, where: spans.Span) -> str:
        """Return the only argument of a call, as of a module, which its first operation takes."""
        first = self.first.get((row.activation, row.offset))
        own = [o for o in row.operands if o is not None and o.op is None and not o.name and o.kind != "param"]
        return spans.argument(where) if row is first and own == [leaf] else ""


# Elements of an array that are compared at most.
_COMPARED = 1 << 22


def name_rows(recording: Recording, places: Mapping[Row, Place]) -> None:
    """Name all rows that have no name yet."""
    for row in recording.rows:
        if row.op is not None:
            row.name = _assigned(row) or ""
    _of_document(recording.rows)
    _results(recording)
    _rest(recording, places)


def _assigned(row: Row) -> str | None:
    """Return the variable that a row's whole expression is assigned to, perhaps after functions returned it."""
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


def _of_document(rows: Sequence[Row]) -> None:
    """Name what comes out of a document's nodes as the document does."""
    last: dict[int, tuple[Any, Row]] = {}
    for row in rows:
        if row.op is not None and (node := node_of(row.scope)) is not None:
            last[id(node)] = node, row
    for node, row in last.values():
        outputs = [name for name in node.told().outputs if name]
        if len(outputs) == 1:
            row.name = outputs[0]


def _results(recording: Recording) -> None:
    """Name results: a result keeps the name, and what computes it gets a number."""
    for root in recording.roots:
        if root.kind == "root" and root.operands and (made := root.operands[0]) is not None:
            root.name = made.name or "result"
            if made.op is not None:
                made.name = ""


def _rest(recording: Recording, places: Mapping[Row, Place]) -> None:
    """Number what has no name, and names that come again in one scope."""
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
