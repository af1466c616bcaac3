"""Parameters that no gradient reaches: the cuts between the loss and them, each cut told once.

A program may cut many ways on purpose: a scale that is detached, a target, a state between two chunks. What keeps a
gradient from a parameter is the cut nearest the loss: all that lies behind it is cut off with it, further cuts and all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.node import Node
from ...core.source import Source
from ..recording.recorder import ASSIGNMENTS, Leaked
from ..recording.recording import Row
from .facts import Facts, origin
from .finding import Finding, Severity

# Ways out of the graph that give an array, with which operations can go on.
_ARRAYS = frozenset({"detach", "data", "numpy", "__array__"})


@dataclass(eq=False)
class Cut:
    """A cut where `user` takes the value of `before`, which carries gradients, without them.

    `entry` is where the part of the computation begins that gradients do not go through, seen from the loss, and
    `taker` what takes it there. `rows` are the parameters that are cut off here.
    """

    before: Row
    user: Row
    entry: Row
    taker: Row
    rows: list[Row] = field(default_factory=list)


def missing(facts: Facts) -> Iterator[Finding]:
    """Find parameters that the program uses and no gradient reaches; those cut off at one place together."""
    if not facts.backward:
        return
    wanted = [row for row in _wanted(facts) if row.gradient is None and facts.consumers.get(row)]
    reaching = [row for row in wanted if row in facts.behind_roots]
    places: dict[Any, list[Cut]] = {}
    for cut in cuts(facts, reaching):
        places.setdefault(_place(facts, cut), []).append(cut)
    for together in places.values():
        yield _cut_off(facts, together)
    found = {row for together in places.values() for cut in together for row in cut.rows}
    if lost := [row for row in reaching if row not in found]:
        yield _lost(facts, lost)
    idle = [row for row in wanted if row not in facts.behind_roots]
    if idle and facts.recording.roots:
        yield _idle(facts, idle)


def _wanted(facts: Facts) -> list[Row]:
    """Return the parameters that this step of the training is about.

    Where optimisers took steps those that they hold, also where operations took them without recording it. Others
    belong to another part of the training, or are fixed: a discriminator's step takes what the generator made, and a
    student's what the teacher said. What had a gradient in another step of the program has its turn then, and what the
    program itself gives new values to without one is moved otherwise, as an average is.
    """
    recording = facts.recording
    rows = [row for row in facts.parameters if row.node not in recording.learned and row.node not in _by_hand(facts)]
    if not recording.stepped:
        return rows
    held = {id(t._array): (name, t.node) for name, t in recording.parameters if t.node in recording.stepped}
    unseen = {node for _, node in held.values()} - {row.node for row in facts.rows} - recording.learned
    for row in facts.rows:
        name, node = held.get(id(row.value), ("", None))
        if row.op is None and row.node is None and node in unseen:
            row.name = name or row.name
            rows.append(row)
    return [row for row in rows if row.node is None or row.node in recording.stepped]


def _by_hand(facts: Facts) -> set[Node]:
    """Return the nodes to which the program gave new values itself, after the last backward pass."""
    passed = max((event.end for event in facts.backward), default=float("inf"))
    leaks = facts.recording.leaks
    return {k.node for k in leaks if k.what in ASSIGNMENTS and k.time > passed and k.node is not None}


def cuts(facts: Facts, rows: Sequence[Row]) -> list[Cut]:
    """Return the cuts that keep gradients from these rows, the one nearest the loss first.

    From the results back along all that carries gradients, and through what never could; where something that could is
    taken without them, on behind that cut, for as long as there are rows to be found. A row belongs to the cut that was
    met first on the way to it.
    """
    left = set(rows)
    found: list[Cut] = []
    seen: set[Row] = set(facts.recording.roots)
    # A row, the cut that it lies behind, and where gradients ended on the way to it: at what, taken by what.
    level: list[tuple[Row, Cut | None, tuple[Row, Row] | None]] = [(root, None, None) for root in seen]
    while level and left:
        behind: list[tuple[Row, Cut]] = []
        for row, cut, end in level:  # which grows meanwhile
            for slot, operand in enumerate(row.operands):
                if operand is None or operand in seen:
                    continue
                could = operand.tracked or operand in left
                carried = _carries(row, slot)
                here = end or (None if carried else (operand, row))
                if could and not carried:
                    behind.append((operand, cut or Cut(operand, row, *(here or (operand, row)))))
                    continue
                seen.add(operand)
                level.append((operand, cut, here))
                if operand in left and cut is not None:
                    left.discard(operand)
                    cut.rows.append(operand)
        level = []
        for operand, cut in behind:
            if operand in seen:
                continue
            seen.add(operand)
            level.append((operand, cut, None))
            if cut not in found:
                found.append(cut)
            if operand in left:
                left.discard(operand)
                cut.rows.append(operand)
    return [cut for cut in found if cut.rows]


def _carries(row: Row, slot: int) -> bool:
    """Return whether gradients go from a row to its operand at a slot."""
    if row.kind == "root":
        return True
    if row.node is None or not row.node.requires_grad:
        return False
    if len(row.node.inputs) != len(row.operands):
        return True
    entry = row.node.inputs[slot]
    return isinstance(entry, Node) and entry.requires_grad


# -- what is said


def _place(facts: Facts, cut: Cut) -> Any:
    """Return what tells one cut from another for the reader: its line; of unrecorded parts, where they begin."""
    leak = _leak(facts, cut)
    if leak is not None:
        return facts.place(leak)
    return facts.source(cut.user) if _own(cut.user) else _unrecorded(facts, cut)


def _leak(facts: Facts, cut: Cut) -> Leaked | None:
    """Return how the value left the graph before it was taken: of several times the last that was no mere look."""
    began = facts.began.get(cut.user, float("inf"))
    value = cut.before.value
    if value is None:
        return None
    ways = [k for k in facts.recording.leaks if k.value is value or getattr(k.value, "base", None) is value]
    looks = {_line(facts, k) for k in ways if k.what not in ("detach", "data")}
    found = [k for k in ways if k.what in _ARRAYS and k.time <= began]
    return next((k for k in reversed(found) if _line(facts, k) not in looks), found[-1] if found else None)


def _line(facts: Facts, leak: Leaked) -> tuple[str, int] | None:
    place = facts.place(leak)
    return None if place is None else (place.file, place.line)


def _unrecorded(facts: Facts, cut: Cut) -> Row:
    """Return, of what ran without recording on the way behind a cut, the operation nearest the loss."""
    seen = {cut.entry}
    queue = [cut.entry]
    for row in queue:  # which grows meanwhile
        if row.unrecorded:
            return row
        more = [o for o in facts.operands(row) if o not in seen and not o.tracked]
        seen.update(more)
        queue += more
    return cut.user


def _own(user: Row) -> bool:
    """Return whether it is the operation itself that no gradient goes through."""
    if user.op is None:
        return False
    return not user.op.differentiable or any(spec.dtype.kind in "iub" for spec in user.specs)


def _cut_off(facts: Facts, together: Sequence[Cut]) -> Finding:
    """Return the finding of cuts at one place."""
    cut, rows = together[0], [row for cut in together for row in cut.rows]
    names, leak = listed(facts, rows), _leak(facts, together[0])
    where, taker = cut.user, cut.taker
    source: Source | None
    if leak is not None:
        source = facts.place(leak)
        how = f"{leak.what}() at {source} cuts the way before {facts.name(taker)} at {facts.source(taker)}"
    elif _own(cut.user):
        source = facts.source(cut.user)
        how = f"no gradient goes through {facts.name(cut.user)} at {source}"
    else:
        where = _unrecorded(facts, cut)
        source = facts.source(where)
        how = f"{facts.name(where)} at {source} ran where nothing is recorded, under no_grad()"
    severity, more = _severity(facts, cut)
    return Finding(
        "missing-gradient", severity, f"no gradient reaches {names}", facts.where(where), where, "backward", source,
        f"The loss is computed from {names}, but {how}.{more}",
        "leave out detach(), item(), numpy() and no_grad() on that way; wg.explain.missing(w, f) tells more",
        {"count": len(rows), "names": ", ".join(_all(facts, rows))},
    )  # fmt: skip


def _severity(facts: Facts, cut: Cut) -> tuple[Severity, str]:
    """Return how bad it is that no gradient comes there, and what more is to be said.

    An optimiser that holds a parameter wants its gradient. Where there is none the program may mean what it says: where
    it moves others by hand, and where the value is a target, compared with what is learned.
    """
    if facts.recording.stepped:
        return "error", ""
    if _by_hand(facts):
        return "note", " The program moves others than these."
    if _is_target(facts, cut.taker, cut.entry):
        return "note", " Where it is a target that is as it should be."
    return "error", ""


def _is_target(facts: Facts, taker: Row, entry: Row) -> bool:
    """Return whether a value without gradients meets what was computed with them, and no parameter itself."""
    others = [o for o in facts.operands(taker) if o is not entry]
    return taker.tracked and bool(others) and not any(origin(o).kind == "param" for o in others)


def _lost(facts: Facts, rows: list[Row]) -> Finding:
    names = listed(facts, rows)
    return Finding(
        "missing-gradient", "error", f"no gradient reaches {names}", facts.where(rows[0]), rows[0], "backward",
        facts.source(rows[0]),
        f"The loss is computed from {names}, and no step of the backward pass handed a gradient on to there.",
        "let the derivative rule on the way give one; wg.explain.missing(w, f) tells more", {"count": len(rows)},
    )  # fmt: skip


def _idle(facts: Facts, rows: list[Row]) -> Finding:
    """Return the finding of parameters computed with, but not for the loss, or by a number that left the graph."""
    names = listed(facts, rows)
    leak = _left(facts, rows)
    how = "the loss does not depend on what comes out"
    if leak is not None:
        how = f"what comes out leaves the graph by {leak.what}() at {facts.place(leak)}, and no gradient comes back"
    wanted = leak is None or bool(facts.recording.stepped)
    return Finding(
        "missing-gradient", "warning" if wanted else "note", f"no gradient for {names}", facts.where(rows[0]), rows[0],
        "backward", (facts.place(leak) if leak is not None else None) or facts.source(rows[0]),
        f"The program computes with {names}, but {how}.",
        "leave the computation out, run it under no_grad(), or let the loss depend on it", {"count": len(rows)},
    )  # fmt: skip


def _left(facts: Facts, rows: Sequence[Row]) -> Leaked | None:
    """Return how a value that was computed from these left the graph."""
    below = set(rows)
    stack = list(rows)
    while stack:
        for user, _ in facts.consumers.get(stack.pop(), ()):
            if user not in below:
                below.add(user)
                stack.append(user)
    values = {id(row.value) for row in below if row.value is not None}
    ways = (k for k in facts.recording.leaks if k.what not in ASSIGNMENTS and k.what != "requires_grad_")
    return next((k for k in ways if id(k.value) in values or id(getattr(k.value, "base", None)) in values), None)


def listed(facts: Facts, rows: Sequence[Row]) -> str:
    """Return the names of rows, the first three of many."""
    names = _all(facts, rows)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _all(facts: Facts, rows: Sequence[Row]) -> list[str]:
    return [facts.name(row) for row in sorted(rows, key=facts.order.__getitem__)]
