"""Facts about a recording that rules ask for, computed once: consumers, non-finite values, names and places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.dtypes import is_foreign, is_known
from ...core.ops.facets import VIEWS
from ...core.ops.op import Op
from ...core.source import Source, resolve
from ...core.state.cached import cached_property
from ...explain.finite import all_finite
from ..recording.recorder import Leaked
from ..recording.recording import Event, Recording, Row


def shows_elements(op: Op) -> bool:
    """Return whether an op shows its operand's elements as they are."""
    return op.role in VIEWS or op.name == "cast" or op.name == "copy"


class Facts:
    """A recording as rules see it."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.rows = recording.rows
        self._finite: dict[int, bool] = {}

    @cached_property
    def consumers(self) -> dict[Row, list[tuple[Row, int]]]:
        """The rows that take each row, with the position where."""
        found: dict[Row, list[tuple[Row, int]]] = {row: [] for row in self.rows}
        for row in self.rows:
            for i, operand in enumerate(row.operands):
                if operand is not None and operand in found:
                    found[operand].append((row, i))
        return found

    @cached_property
    def backward(self) -> list[Event]:
        """The steps of the backward passes."""
        return [e for e in self.recording.events if e.phase == "backward"]

    @cached_property
    def order(self) -> dict[Row, int]:
        """The position of each row."""
        return {row: i for i, row in enumerate(self.rows)}

    @cached_property
    def began(self) -> dict[Row, float]:
        """The time at which each operation ran."""
        return {event.row: event.start for event in self.recording.events if event.phase == "forward"}

    @cached_property
    def parameters(self) -> list[Row]:
        """The rows of leaves that gradients are wanted for."""
        return [row for row in self.rows if row.kind == "param"]

    @cached_property
    def updated(self) -> set[Row]:
        """The parameters that an optimiser gave a new value."""
        return {e.row for e in self.recording.events if e.phase == "optimizer"}

    def is_finite(self, value: Any) -> bool:
        """Return whether all elements are; kept by identity, since one array is the operand of many."""
        if value is None:
            return True
        key = id(value)
        if key not in self._finite:
            self._finite[key] = all_finite(value)
        return self._finite[key]

    def operands(self, row: Row) -> Iterator[Row]:
        """Yield the rows that an operation took."""
        return (o for o in row.operands if o is not None)

    def above(self, row: Row) -> set[Row]:
        """Return the row and all that it was computed from."""
        found = {row}
        stack = [row]
        while stack:
            for operand in self.operands(stack.pop()):
                if operand not in found:
                    found.add(operand)
                    stack.append(operand)
        return found

    @cached_property
    def behind_roots(self) -> set[Row]:
        """All that the results were computed from."""
        found: set[Row] = set()
        for root in self.recording.roots:
            found |= self.above(root)
        return found

    @cached_property
    def detached(self) -> set[Row]:
        """The rows computed for values that were then detached."""
        values = {id(leak.value) for leak in self.recording.leaks if leak.what in ("detach", "data")}
        found: set[Row] = set()
        for row in self.rows:
            if row.value is not None and id(row.value) in values and row not in found:
                found |= self.above(row)
        return found

    def source(self, row: Row) -> Source | None:
        """Return the user's line; of a leaf, where it is first used."""
        if row.op is None:
            users = self.consumers.get(row, [])
            return self.source(users[0][0]) if users else None
        if row.activation is not None and row.offset >= 0:
            return resolve(row.activation.code, row.offset)
        if isinstance(row.code, Source):
            return row.code
        return row.node.source if row.node is not None else None

    def place(self, leak: Leaked) -> Source | None:
        """Return the user's line at which a value left the graph."""
        return resolve(leak.activation.code, leak.offset) if leak.activation is not None else None

    def name(self, row: Row) -> str:
        """Return a row's name in a sentence."""
        if row.op is not None:
            return row.op.name
        if row.name:
            return row.name
        return {"param": "a parameter", "input": "an input"}.get(row.kind, "a constant")

    def where(self, row: Row) -> str:
        """Return the modules around a row, and its name: `blocks.7 › q_norm › sqrt`."""
        path = row.scope.path if row.scope is not None else ""
        return " › ".join([*path.split("."), self.name(row)] if path else [self.name(row)])


def floating(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a value as an array of real floating numbers; None for anything else, and for nothing."""
    if value is None or isinstance(value, (tuple, list)):
        return None
    array = np.asarray(value)
    if is_foreign(array.dtype) and is_known(array.dtype):
        array = array.astype(np.float32)
    return array if array.dtype.kind == "f" and array.size else None


def rms(value: Any) -> float | None:
    """Return the root mean square; None for what has none."""
    array = floating(value)
    if array is None:
        return None
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))


def summary(value: Any) -> list[Any]:
    """Return least, greatest and share of bad elements: a row of a finding's table."""
    array = floating(value)
    if array is None:
        return ["", "", ""]
    good = array[np.isfinite(array)]
    bad = 1 - good.size / array.size
    known = array[~np.isnan(array)]
    least, most = (known.min(), known.max()) if known.size else (np.nan, np.nan)
    return [float(least), float(most), f"{bad:.1%}" if 0 < bad < 1 else f"{bad:.0%}"]


def origin(row: Row) -> Row:
    """Return the row whose elements a row shows: itself, but for views."""
    while row.op is not None and shows_elements(row.op) and row.operands[0] is not None:
        row = row.operands[0]
    return row
