"""A recorded run's gradients path by path, where tensors are on the way.

Between tensors the derivative along a path is no number. What a path contributes to a gradient is the result's
cotangent pulled back along this path alone, an array of the gradient's shape, and the contributions of all paths add
up to the gradient: the chain rule (Griewank and Walther, "Evaluating Derivatives", 2008, section 3.2).

Paths multiply; the work here does not. Going back from the result, every node hands on the largest few of the
contributions that arrive, each apart, and all others as one: pulling back is linear, so nothing is lost of their sum.
Where there are no more paths than that, they are all there; where there are more, those are listed that were among the
largest all the way, and the sum is still over every path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...explain.gradients.edges import Cotangent, added, nothing
from ...explain.gradients.paths import rank_of, rounding
from ...explain.report import magnitude
from ..recording.recording import Recording, Row
from .large import real
from .slopes import FromRow
from .stats import short

# Recordings of up to so many rows have their paths told.
ROWS = 60
# So many paths of a node are told apart, fewer where they would take more operations than WORK.
MOST, WORK = 8, 5e8
# Contributions of up to so many elements are given in numbers.
ELEMENTS = 64


@dataclass(slots=True, eq=False)
class _Path:
    """The cotangent that goes back along one path; `edge` -1: along all that are not told apart.

    `next` is the entry, in the table, of the path that this one goes on by; -1 where its first edge ends at the result.
    """

    ct: Cotangent
    edge: int
    next: int
    rank: float = 0.0
    entry: int = -1


@dataclass(slots=True, eq=False)
class _Arrivals:
    """The cotangents that arrive at a node: along every path that is told apart, and along all others.

    `mass` has the sizes of the numbers that were added up on the way, whether they cancel or not: what rounding is
    measured against. Each operation is asked for it with signs at random, under which summands do not cancel: the mean
    square of what leaves is the sum of their squares.
    """

    apart: list[_Path] = field(default_factory=list)
    others: Cotangent | None = None
    mass: Cotangent | None = None


def tensor_paths(recording: Recording, flops: Sequence[Any]) -> dict[str, Any] | None:
    """Return the `paths` table of a document (see the schema); `flops` are the operations of every row.

    None where paths are products of numbers, which say themselves what they contribute; where there are too many rows
    or too large ones; and where the gradients are not those of one result in one backward pass.
    """
    if len(recording.rows) > ROWS:
        return None
    walk = _walked(recording)
    if walk is None or all(spec.size == 1 for row in walk.counts for spec in row.specs):
        return None
    most = MOST
    while walk.work(most, flops) > WORK:
        most //= 2
        if most == 0:
            return None
    return walk.table(most)


def paths_from(recording: Recording, index: int) -> dict[str, Any] | None:
    """Return the same table for one row of a recording of any size; None where the row has no one gradient."""
    walk = _walked(recording)
    start = recording.rows[index]
    if walk is None or start not in walk.counts or start is walk.end:
        return None
    # What does not come from the row is on none of its paths.
    after = {start}
    for row in recording.rows:
        if any(operand in after for _, operand in row.edges):
            after.add(row)
    walk.order = [row for row in walk.order if row in after]
    return _pruned(walk.table(MOST, start))


def _pruned(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without the entries that none of its rows' paths goes on by."""
    nodes, listed = table["nodes"], table["list"]
    if not nodes:
        return table
    kept: set[int] = set()
    for first, shown in zip(nodes["first"], nodes["shown"], strict=True):
        for entry in range(first, min(first + shown + 1, len(listed["next"]))):
            while entry >= 0 and entry not in kept:
                kept.add(entry)
                entry = listed["next"][entry]
    place = {entry: i for i, entry in enumerate(sorted(kept))}
    columns = {name: [column[entry] for entry in place] for name, column in listed.items()}
    columns["next"] = [place.get(entry, -1) for entry in columns["next"]]
    first = [place[entry] for entry in nodes["first"]]
    return {**table, "nodes": {**nodes, "first": first}, "list": columns}


def _walked(recording: Recording) -> _Walk | None:
    ends = [row for row in recording.roots if row.kind == "root" and row.gradient is not None]
    return _Walk(recording.rows, ends[0]) if recording.passes == 1 and len(ends) == 1 else None


class _Walk:
    """A walk from the result back, each row after all that consume it. `counts` has the paths from every row."""

    def __init__(self, rows: Sequence[Row], end: Row) -> None:
        self.end = end
        self.edges: dict[tuple[Row, int], int] = {}
        for row in rows:
            for slot, _ in row.edges:
                self.edges[row, slot] = len(self.edges)
        self.counts: dict[Row, int] = {end: 1}
        for row in reversed(rows):
            if row in self.counts:
                for _, operand in _flows(row):
                    self.counts[operand] = self.counts.get(operand, 0) + self.counts[row]
        self.order = [row for row in reversed(rows) if row in self.counts]

    def work(self, most: int, flops: Sequence[Any]) -> float:
        """Return about how many operations it takes to tell so many paths of every node apart."""
        total = 0.0
        for row in self.order:
            own = flops[row.index]
            sizes = sum(spec.size for r in (row, *(o for _, o in row.edges)) for spec in r.specs)
            total += (1 + min(self.counts[row], most + 1)) * ((own if isinstance(own, (int, float)) else 0) + sizes)
        return total

    def table(self, most: int, only: Row | None = None) -> dict[str, Any]:
        """Return the paths of every row that has a gradient, or of one."""
        told = _Told(most, [row.spec for row in self.order], only)
        arrivals: defaultdict[Row, _Arrivals] = defaultdict(_Arrivals)
        seed = Cotangent(self.end.gradient)
        arrivals[self.end] = _Arrivals([_Path(seed, -1, -1)], mass=_mapped(seed, np.abs))
        unknown: set[Row] = set()
        for row in self.order:
            if row not in unknown:
                arrived = _ranked(row, arrivals.pop(row), most)
                if row is not self.end:
                    told.add(row, arrived, self.counts[row])
                if self._hand_on(row, arrived, arrivals):
                    continue
            unknown.update(operand for _, operand in _flows(row))
        return told.table()

    def _hand_on(self, row: Row, arrived: _Arrivals, arrivals: defaultdict[Row, _Arrivals]) -> bool:
        """Give every operand its cotangent, and return whether that is known."""
        pull = _Pull(row)
        chance = np.random.default_rng(row.index)
        assert arrived.mass is not None
        masses = pull(_mapped(arrived.mass, lambda a: a * _weights(chance, a)))
        others = () if arrived.others is None else pull(arrived.others)
        apart = [pull(path.ct) for path in arrived.apart]
        if masses is None or others is None:
            return False
        for _, operand, ct in masses:
            at = arrivals[operand]
            at.mass = _joined(operand, at.mass, _mapped(ct, np.abs))
        for _, operand, ct in others:
            at = arrivals[operand]
            at.others = _joined(operand, at.others, ct)
        for path, found in zip(arrived.apart, apart, strict=True):
            for slot, operand, ct in found or ():
                arrivals[operand].apart.append(_Path(ct, self.edges[row, slot], path.entry))
        return True


class _Pull:
    """A pull of a row's cotangents back to its operands; None where the row does not keep what that takes."""

    def __init__(self, row: Row) -> None:
        self.row, self.flows = row, _flows(row)
        self.puller = FromRow(row)

    def __call__(self, ct: Cotangent) -> list[tuple[int, Row, Cotangent]] | None:
        if not self.flows:
            return []
        left = {0: ct} if self.row.kind == "root" else self.puller.operands(ct)
        if left is None:
            return None
        return [(slot, o, left.get(slot) or nothing(o.node)) for slot, o in self.flows if o.node is not None]


def _mapped(ct: Cotangent, f: Callable[[Any], Any]) -> Cotangent:
    """Return a cotangent with a function of its arrays, where gradient flows in it being as it was."""
    if type(ct.value) is list:
        return Cotangent([None if part is None else f(part) for part in ct.value], ct.mask)
    return Cotangent(f(ct.value), ct.mask)


def _flows(row: Row) -> list[tuple[int, Row]]:
    """Return the operands that gradients flow to, by position."""
    if row.kind == "root":
        return [(slot, operand) for slot, operand in row.edges if operand.tracked]
    if row.node is None or not row.tracked or row.node.op.kind == "leaf":
        return []
    followed = {slot for slot, _ in FromRow(row).edges(row.node)}
    return [(slot, operand) for slot, operand in row.edges if slot in followed and operand.tracked]


def _ranked(row: Row, arrived: _Arrivals, most: int) -> _Arrivals:
    """Return the largest told apart, the largest first, and the others as one."""
    for path in arrived.apart:
        path.rank = -1.0 if path.ct.absent else rank_of(_size(path.ct))
    arrived.apart.sort(key=lambda path: -path.rank)
    for path in arrived.apart[most:]:
        arrived.others = _joined(row, arrived.others, path.ct)
    del arrived.apart[most:]
    return arrived


def _weights(chance: np.random.Generator, array: Any) -> Any:
    """Return random signs; not all of one size, for which a difference of neighbours could still be none."""
    sizes = chance.uniform(0.9, 1.1, np.shape(array))
    return (sizes * chance.choice([-1, 1], np.shape(array))).astype(array.dtype)


def _joined(row: Row, before: Cotangent | None, ct: Cotangent) -> Cotangent:
    if before is None:
        return ct
    assert row.node is not None
    return added(row.node, before, ct)


def _size(ct: Cotangent) -> float:
    if type(ct.value) is list:
        return float(np.hypot.reduce([magnitude(part) for part in ct.value if part is not None] or [0.0]))
    return magnitude(ct.value)


class _Told:
    """The table as it grows, from the result back."""

    def __init__(self, most: int, specs: Sequence[Any], only: Row | None = None) -> None:
        self.most, self.specs, self.only = most, specs, only
        self.nodes: list[dict[str, Any]] = []
        self.list: list[dict[str, Any]] = []

    def add(self, row: Row, arrived: _Arrivals, count: int) -> None:
        """Write down the paths of a row. Those of several results have no one gradient to be part of."""
        first = len(self.list)
        others = [] if arrived.others is None else [_Path(arrived.others, -1, -1)]
        # Of rows that nobody asks about only the way is told.
        asked = self.only is None or row is self.only
        whole = row.gradient if asked and not isinstance(row.spec, tuple) else None
        equal, difference, measure = True, 0.0, whole
        if whole is not None:
            assert arrived.mass is not None
            values = [p.ct.value for p in [*arrived.apart, *others]]
            equal, difference = self._checked(values, whole, arrived.mass.value)
            if equal and not difference <= _EXACT * magnitude(whole):
                measure = None
        for path in [*arrived.apart, *others]:
            path.entry = len(self.list)
            entry = {"edge": path.edge, "next": path.next}
            self.list.append(entry | _contribution(path.ct, whole, measure))
        if whole is None:
            return
        self.nodes.append(
            {
                "row": row.index,
                "count": count,
                "first": first,
                "shown": len(arrived.apart),
                "equal": equal,
                "difference": short(difference),
            }
        )

    def _checked(self, contributions: Sequence[Any], whole: Any, mass: Any) -> tuple[bool, float]:
        """Return whether all paths add up to the recorded gradient, and the largest difference where both are finite.

        A hook that changes a gradient on its way belongs to no path.
        """
        with np.errstate(all="ignore"):
            a, b, largest = _wide(sum(contributions)), _wide(whole), np.abs(_wide(mass))
            largest = np.maximum(largest, sum(np.abs(_wide(c)) for c in contributions))
            finite = np.isfinite(a) & np.isfinite(b)
            difference = float(np.max(np.abs(a - b), where=finite, initial=0.0))
            allowed = rounding(self.specs, float(np.max(largest, where=finite & np.isfinite(largest), initial=0.0)))
        return bool(np.all(np.isfinite(a) == np.isfinite(b)) and difference <= allowed), difference

    def table(self) -> dict[str, Any]:
        def columns(entries: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
            return {name: [entry[name] for entry in entries] for name in (entries[0] if entries else ())}

        return {"most": self.most, "nodes": columns(self.nodes[::-1]), "list": columns(self.list)}


# The part of a gradient's size up to which rounding may be. Of one that is little but rounding nothing is a share.
_EXACT = 1e-4


def _contribution(ct: Cotangent, whole: Any, measure: Any) -> dict[str, Any]:
    """Return what is told of a contribution: nothing of one that several results share.

    `measure` is the gradient of which it is a share, None where there is none.
    """
    if whole is None:
        return {"rms": None, "share": None, "absent": 0, "values": None}
    array = np.asarray(ct.value)
    size = magnitude(array) / max(1, array.size) ** 0.5
    told = array.size <= ELEMENTS and array.dtype.kind != "c"
    return {
        "rms": short(size),
        "share": None if measure is None else _share(array, measure),
        "absent": int(ct.absent),
        "values": [short(v) for v in real(array).ravel()] if told else None,
    }


def _share(array: Any, whole: Any) -> Any:
    """Return a contribution's part of a gradient, along the gradient's own direction: all paths add up to 1."""
    with np.errstate(all="ignore"):
        a, b = _wide(array).ravel(), _wide(whole).ravel()
        share = np.vdot(b, a).real / np.vdot(b, b).real
    return float(f"{share:.4g}") if np.isfinite(share) else None


def _wide(array: Any) -> Any:
    found = np.asarray(array)
    return found.astype(np.complex128) if found.dtype.kind == "c" else real(found).astype(np.float64)
