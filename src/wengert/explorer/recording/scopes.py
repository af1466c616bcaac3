"""The tree that nodes fold into: modules, functions, loops and their iterations, lines.

Modules are what the engine knows of; functions, loops and lines come from the call stack of every operation, so
that flat code folds too. A scope's hash is equal for parts of the same structure: operations, attributes, dtypes,
shapes, how they are wired inside, and how they fold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from ...core.errors import is_internal
from ...core.mode import Scope
from ...core.source import Source
from . import spans
from .recorder import Activation
from .recording import Row
from .repeats import repeats

ScopeKind = Literal["root", "module", "function", "loop", "iteration", "line", "checkpoint"]
# Groups of more children are split.
MOST_CHILDREN = 60
# Random draws have their place in the stream among their attributes: it is no part of a structure.
UNTOLD = frozenset({"key", "counter"})
_COMPREHENSIONS = frozenset({"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})
_ENTRIES = frozenset({"forward", "__call__"})
_LONGEST = 48
# What a part is called that comes again and again, and up to how many items between such parts stand by themselves.
_BLOCK, _FEW = "block", 8
# A loop over a variable; one that counts from 0 has the numbers of its iterations in it.
_TURNS = re.compile(r"(?:async )?for (?P<variable>\w+) in (?P<counted>range\([^,()]*\)$)?")
_FOR = re.compile(r"\b(?:async )?for\b")
# Whole numbers up to here, among operands, tell structures apart.
_SMALL = 16


@dataclass(slots=True, eq=False)
class Place:
    """A scope of the document: `line` is the one that its parent has it at."""

    name: str
    kind: ScopeKind
    parent: Place | None
    line: int = 0
    children: dict[Any, Place] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    index: int = -1
    hash: str = ""
    owner: str = ""  # of a part of a module that is no part itself: what the program calls that
    node: Any = None  # the node of a document that it is


@dataclass(slots=True)
class _Visits:
    """An activation's progress: the last instruction, what ran there first, the iterations of its loops."""

    last: int = -1
    child: Activation | None = None
    first: Any = None
    iterations: dict[tuple[int, int], int] = field(default_factory=dict)


class Tree:
    """The tree of the scopes of rows, which come in the order in which they ran."""

    def __init__(self, rows: Sequence[Row], title: str) -> None:
        self.root = Place(title, "root", None)
        self.of_row: dict[Row, Place] = {}
        self._visits: dict[Activation, _Visits] = {}
        # Of rows whose calls are not known: how often a function was called in a place, those that the last row is in,
        # and where instructions stand.
        self._calls: dict[tuple[Place, str, str], int] = {}
        self._last: list[Place] = []
        self._positions: dict[tuple[Any, int], tuple[str, str, int]] = {}
        for row in rows:
            if row.op is not None:
                self._put(row, self._place(row))
        self._merge_root()
        self._join_lists()
        self._dissolve()
        self._join_parts()
        self._name_iterations()
        self._name_owners()
        self._put_leaves(rows)
        self._split()
        self.places = self._numbered()
        _hash(self.places, rows, self.of_row)

    def _put(self, row: Row, place: Place) -> None:
        place.rows.append(row)
        self.of_row[row] = place

    # -- where a row belongs

    def _place(self, row: Row) -> Place:
        stack: list[tuple[Activation, int]] = []
        activation, offset = row.activation, row.offset
        while activation is not None:
            stack.append((activation, offset))
            offset, activation = activation.at, activation.parent
        stack.reverse()
        entered = _entered(row.scope)
        place, done, absorbed = self.root, 0, False
        if not stack:
            return self._place_without_calls(row, entered)
        for level, (activation, offset) in enumerate(stack):
            # Library code, as of a Sequential, called modules before it called this.
            reached = entered.index(activation.module, done) + 1 if activation.module in entered[done:] else done
            for scope in entered[done:reached]:
                place = self._scope(place, scope, 0)
                absorbed = scope.kind == "module"
            done = reached
            if not absorbed or activation.code.co_name not in _ENTRIES:
                place = self._function(place, activation, activation.code)
            child = stack[level + 1][0] if level + 1 < len(stack) else None
            place = self._loops(place, activation, offset, child, row)
            absorbed = False
            line = _line(activation.code, offset)
            here = [j for j in range(done, len(entered)) if _is_entered_at(entered[j], activation, offset)]
            for scope in entered[done : here[-1] + 1 if here else done]:
                place = self._scope(place, scope, line)
                absorbed = scope.kind == "module"
                done += 1
        for scope in entered[done:]:
            place = self._scope(place, scope, 0)
        return place

    def _place_without_calls(self, row: Row, entered: Sequence[Scope]) -> Place:
        """Return the place of a row whose calls are not known, from where its modules were called and where it ran.

        A function between two modules, or between a module and the row, is inside the outer one. Its rows follow each
        other: what comes after others is another call.
        """
        place, absorbed = self.root, False
        at: tuple[str, str, int] | None = None
        path: list[Place] = []
        for scope in (*entered, None):
            code, offset = (row.code, row.offset) if scope is None else (scope.code, scope.offset)
            here = None if code is None or is_internal(_file(code)) else self._position(code, offset)
            if here is not None and here != at:
                if not absorbed or here[1] not in _ENTRIES:
                    number = self._calls.setdefault((place, *here[:2]), 0)
                    last = place.children.get((*here[:2], number))
                    if last is not None and last not in self._last:
                        number = self._calls[(place, *here[:2])] = number + 1
                    place = self._function(place, (*here[:2], number), code)
                    path.append(place)
                at, absorbed = here, False
            if scope is not None:
                place = self._scope(place, scope, 0 if at is None else at[2])
                absorbed = scope.kind == "module"
        self._last = path
        return place

    def _position(self, code: Any, offset: int) -> tuple[str, str, int]:
        """Return the file, the function and the line of an instruction."""
        found = self._positions.get((code, offset))
        if found is None:
            found = self._positions[code, offset] = _file(code), _function_name(code), _line(code, offset)
        return found

    def _child(self, parent: Place, key: Any, name: str, kind: ScopeKind, line: int = 0) -> Place:
        found = parent.children.get(key)
        if found is None:
            found = parent.children[key] = Place(name, kind, parent, line)
        return found

    def _function(self, place: Place, key: Any, code: Any) -> Place:
        name = _function_name(code)
        if name in _ENTRIES and not isinstance(code, Source):
            name = code.co_qualname.rpartition(".")[0].rpartition(".")[2] or name  # an object's class
        if name == "<module>" or name in _COMPREHENSIONS or is_internal(_file(code)):
            return place
        line = 0
        if isinstance(key, Activation) and key.parent is not None:
            line = _line(key.parent.code, key.at)
        return self._child(place, key, "lambda" if name == "<lambda>" else name, "function", line)

    def _loops(self, place: Place, at: Activation, offset: int, child: Activation | None, row: Row) -> Place:
        around = spans.loops_around(at.code, offset)
        if not around:
            return place
        seen = self._visits.setdefault(at, _Visits())
        ran = (row.op.name if row.op is not None else "", *(s.name for s in _entered(row.scope)))
        if child is None or child is not seen.child:
            again = offset < seen.last or (offset == seen.last and (child is not None or ran == seen.first))
            if again:
                inner = [r for r in around if r[0] <= seen.last <= r[1]]
                if inner:
                    seen.iterations[inner[-1]] = seen.iterations.get(inner[-1], 0) + 1
                    for deeper in [r for r in seen.iterations if inner[-1][0] < r[0] and r[1] < inner[-1][1]]:
                        del seen.iterations[deeper]
            if again or offset != seen.last:
                seen.first = ran
            seen.last, seen.child = offset, child
        for bounds in around:
            loop = place.children.get((at, bounds))
            if loop is None:
                line = _line(at.code, bounds[0])
                loop = self._child(place, (at, bounds), _header(at.code.co_filename, line), "loop", line)
            iteration = seen.iterations.get(bounds, 0)
            place = self._child(loop, iteration, str(iteration), "iteration", loop.line)
        return place

    def _scope(self, place: Place, scope: Scope, line: int) -> Place:
        if scope.kind == "module":
            owner = _owner(scope)
            for part in scope.name.split(".") if scope.name else ():
                key = ("module", owner, part) if owner else ("module", part)
                place = self._child(place, key, part, "module", line)
                place.owner, owner = owner, ""
            return place
        if scope.kind == "checkpoint":
            return self._child(place, ("checkpoint", id(scope)), scope.name, "checkpoint", line)
        name = f"gradient of {scope.name}" if scope.kind == "gradient" else scope.name
        place = self._child(place, (scope.kind, id(scope)), name, "function", line)
        place.node = scope.attrs.get("node") if scope.kind == "node" else None
        return place

    # -- the tree made handy

    def _merge_root(self) -> None:
        """Make a run that is one call that call."""
        root = self.root
        while not root.rows and len(root.children) == 1:
            (only,) = root.children.values()
            if only.kind not in ("function", "module"):
                return
            self._take(root, only)

    def _take(self, place: Place, other: Place) -> None:
        """Put what another place has directly into this one."""
        place.rows += other.rows
        place.node = place.node or (other.node if len(place.children) == 1 else None)
        for row in other.rows:
            self.of_row[row] = place
        place.children = {key: child for key, child in place.children.items() if child is not other}
        for key, child in other.children.items():
            child.parent = place
            place.children[(other, key)] = child

    def _join_lists(self) -> None:
        """Make a loop over a list of modules the list."""
        for place in reversed(self._walk()):
            for key, child in list(place.children.items()):
                container = _container(child)
                if container is not None:
                    place.children[key] = container

    def _dissolve(self) -> None:
        """Remove scopes that say nothing: functions of one operation or one call, loops of one iteration."""
        for place in reversed(self._walk()):
            if place.kind in ("module", "checkpoint", "function") and not place.rows and len(place.children) == 1:
                (only,) = place.children.values()
                if place.kind == "function":
                    place.name, place.kind = only.name, only.kind
                    self._take(place, only)
                elif only.kind == "function":
                    self._take(place, only)
            for child in list(place.children.values()):
                alone = len(child.rows) == 1 and not child.children
                if (alone and child.kind in ("function", "iteration")) or (
                    child.kind == "iteration" and len(place.children) == 1
                ):
                    self._take(place, child)
                elif child.kind == "iteration" and not child.rows and len(child.children) == 1:
                    (only,) = child.children.values()  # each iteration is one call
                    child.name, child.kind = f"{only.name} {child.name}", only.kind
                    self._take(child, only)
                elif child.kind == "loop" and len(child.rows) + len(child.children) <= 1:
                    self._take(place, child)

    def _join_parts(self) -> None:
        """Make one list of what several functions called of it: each `lambda h: block(h)` has a part of `blocks`."""
        for place in self._walk():
            lists: dict[tuple[str, str], Place] = {}
            for key, child in list(place.children.items()):
                members = child.children.values()
                if child.kind != "module" or child.rows or any(member.kind != "module" for member in members):
                    continue
                first = lists.setdefault((child.owner, child.name), child)
                if first is child or {m.name for m in first.children.values()} & {m.name for m in members}:
                    continue
                del place.children[key]
                for name, member in child.children.items():
                    member.parent = first
                    first.children[child, name] = member

    def _name_iterations(self) -> None:
        """Name the iterations of a loop by what they do, or by its variable: `cell 3`, `t = 3`, `layer 3`."""
        for loop in self._walk():
            header = _TURNS.match(loop.name) if loop.kind == "loop" else None
            for iteration in loop.children.values():
                if iteration.kind != "iteration" or not iteration.name.isdigit():
                    continue
                parts = [c for c in iteration.children.values() if c.kind in ("module", "function", "checkpoint")]
                if len(parts) == len(iteration.children) == 1 and not parts[0].name.isdigit():
                    iteration.name = f"{parts[0].name} {iteration.name}"
                elif header is not None and header["variable"] != "_":
                    iteration.name = f"{header['variable']} {'= ' if header['counted'] else ''}{iteration.name}"

    def _name_owners(self) -> None:
        """Name parts of several modules that have the same names by both: `G.0` and `D.0`."""
        for place in self._walk():
            parts: dict[str, list[Place]] = {}
            for child in place.children.values():
                if child.owner:
                    parts.setdefault(child.name, []).append(child)
            if any(len({part.owner for part in same}) > 1 for same in parts.values()):
                for part in (part for same in parts.values() for part in same):
                    part.name = f"{part.owner}.{part.name}"

    def _walk(self) -> list[Place]:
        out, stack = [], [self.root]
        while stack:
            place = stack.pop()
            out.append(place)
            stack += reversed(place.children.values())
        return out

    def _put_leaves(self, rows: Sequence[Row]) -> None:
        """Put each leaf into the innermost scope that has all its uses; what the program gives, outside of modules."""
        users: dict[Row, Place] = {}
        for row in rows:
            place = self.of_row.get(row)
            for operand in row.operands:
                if operand is not None and operand.op is None and place is not None:
                    known = users.get(operand)
                    users[operand] = place if known is None else _common(known, place)
        for row in rows:
            if row.op is None:
                place = self._place(row) if row.scope is not None else users.get(row, self.root)
                self._put(row, _outside(place) if row.given else place)

    def _split(self) -> None:
        for place in self._walk():
            if place.kind == "loop" or len(place.rows) + len(place.children) <= MOST_CHILDREN:
                continue
            items = sorted(
                [(_first(c), c) for c in place.children.values()] + [(row.index, row) for row in place.rows if row.op],
                key=lambda item: item[0],
            )
            groups = _by_line([item for _, item in items])
            if not any(name for name, _ in groups):
                groups = _by_repeats([item for _, item in items])
            self._group(place, groups)

    def _group(self, place: Place, groups: list[tuple[str, list[Any]]]) -> None:
        """Give a place a scope for every group of its items; groups of too many are cut, too many groups joined."""
        leaves = [row for row in place.rows if row.op is None]
        keys = {child: key for key, child in place.children.items()}
        place.children, place.rows = {}, leaves
        made: list[Any] = []
        for name, items in groups:
            if not name and len(items) <= _FEW:
                made += items
                continue
            parts = []
            for start in range(0, len(items), MOST_CHILDREN):
                part = items[start : start + MOST_CHILDREN]
                label = name if len(items) <= MOST_CHILDREN else f"{name} {start + 1}–{start + len(part)}".strip()
                parts.append(self._bundle(place, part, _span_of(part) or label, keys) if len(part) > 1 else part[0])
            # What comes again and again stays one thing, however many it has.
            whole = len(parts) > 1 and name.startswith(_BLOCK)
            made += [self._bundle(place, parts, name, keys)] if whole else parts
        while len(made) > MOST_CHILDREN:
            made = [
                self._bundle(place, part, _span_of(part) or f"part {number}", keys)
                for number, part in enumerate(_batched(made), 1)
            ]
        for item in made:
            self._adopt(place, item, keys)

    def _bundle(self, place: Place, items: list[Any], name: str, keys: dict[Place, Any]) -> Place:
        bundle = Place(name, "line", place)
        for item in items:
            self._adopt(bundle, item, keys)
        return bundle

    def _adopt(self, place: Place, item: Any, keys: dict[Place, Any]) -> None:
        if isinstance(item, Row):
            self._put(item, place)
        else:
            item.parent = place
            place.children[keys.get(item, item)] = item

    def _numbered(self) -> list[Place]:
        found = [p for p in self._walk() if p.rows or p.children or p is self.root]
        for i, place in enumerate(found):
            place.index = i
        return found


def _batched(items: list[Any]) -> Iterator[list[Any]]:
    """Yield as many items as a group may have, one group after the other."""
    for start in range(0, len(items), MOST_CHILDREN):
        yield items[start : start + MOST_CHILDREN]


def _span_of(items: list[Any]) -> str:
    """Return the names of the first and the last module of a group, "60–119"; "" unless most of it are modules."""
    modules = [item for item in items if isinstance(item, Place) and item.kind == "module"]
    return f"{modules[0].name}–{modules[-1].name}" if 2 * len(modules) > max(2, len(items)) else ""


def _container(loop: Place) -> Place | None:
    """Return the list of modules that a loop goes through, where it does nothing else: `for block in self.blocks`."""
    if loop.kind != "loop" or loop.rows or len(loop.children) < 2:
        return None
    lists: list[Place] = []
    for iteration in loop.children.values():
        if iteration.rows or len(iteration.children) != 1:
            return None
        lists += iteration.children.values()
    first = lists[0]
    members = [member for each in lists for member in each.children.values()]
    names = {member.name for member in members}
    plain = all(each.kind == "module" and each.name == first.name and not each.rows for each in lists)
    if not plain or len(names) != len(members) or any(member.kind != "module" for member in members):
        return None
    whole = Place(first.name, "module", loop.parent, loop.line)
    for member in members:
        member.parent = whole
        whole.children[("module", member.name)] = member
    return whole


def _entered(scope: Scope | None) -> list[Scope]:
    """Return the scopes that an operation ran in, outer ones first, without those that say nothing."""
    found = []
    while scope is not None:
        if scope.kind not in ("output", "trace"):
            found.append(scope)
        scope = scope.parent
    return found[::-1]


def node_of(scope: Scope | None, outermost: bool = False) -> Any:
    """Return the node of a document that an operation ran in, the innermost or the outermost one; None for none."""
    found = None
    while scope is not None:
        if scope.kind == "node" and (node := scope.attrs.get("node")) is not None:
            found = node
            if not outermost:
                break
        scope = scope.parent
    return found


def _owner(scope: Scope) -> str:
    """Return the name of the module that a part was called in, where that is no part of another one."""
    above = scope.parent
    if not scope.name or above is None or above.kind != "module" or above.name or above.code is None:
        return ""
    return spans.called(above.code, above.offset)


def _is_entered_at(scope: Scope, activation: Activation, offset: int) -> bool:
    return scope.code is activation.code and scope.offset == offset


def _function_name(code: Any) -> str:
    name: str = code.function if isinstance(code, Source) else code.co_name
    return name


def _file(code: Any) -> str:
    file: str = code.file if isinstance(code, Source) else code.co_filename
    return file


def _line(code: Any, offset: int) -> int:
    where = spans.span(code, offset)
    return 0 if where is None else where.line0


def _header(file: str, line: int) -> str:
    text = spans.line_of(file, line).strip().rstrip(":")
    inside = _FOR.search(text)
    if inside is not None and not text.startswith(("for ", "while ")):
        text = _balanced(text[inside.start() :]).partition(" if ")[0]
    if text.startswith(("for ", "while ", "async for ")):
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return f"loop at line {line}"


def _balanced(text: str) -> str:
    """Return a text up to the bracket that closes what was opened before it."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return text[:i]
    return text


def _common(a: Place, b: Place) -> Place:
    above = set()
    walked: Place | None = a
    while walked is not None:
        above.add(walked)
        walked = walked.parent
    walked = b
    while walked is not None and walked not in above:
        walked = walked.parent
    assert walked is not None
    return walked


def _outside(place: Place) -> Place:
    """Return the scope that holds the outermost module around a place; the place itself where there is none."""
    found: Place = place
    walked: Place | None = place
    while walked is not None:
        if walked.kind == "module" and walked.parent is not None:
            found = walked.parent
        walked = walked.parent
    return found


def _first(place: Place) -> int:
    """Return the number of the first row in a scope."""
    stack, found = [place], []
    while stack:
        current = stack.pop()
        found += [row.index for row in current.rows if row.op is not None]
        stack += current.children.values()
    return min(found, default=0)


def _by_line(items: list[Any]) -> list[tuple[str, list[Any]]]:
    """Return items in runs of the same source line."""
    groups: list[tuple[str, list[Any]]] = []
    last: Any = None
    for item in items:
        if isinstance(item, Row):
            line = _line(item.code, item.offset) if item.code is not None else 0
        else:
            line = item.line
        if line and line == last:
            groups[-1][1].append(item)
        else:
            groups.append((f"line {line}" if line else "", [item]))
        last = line
    return groups


def _by_repeats(items: list[Any]) -> list[tuple[str, list[Any]]]:
    """Return items of which no line is known in the parts that come again and again, and what is between them."""
    groups: list[tuple[str, list[Any]]] = []
    done = 0
    for number, repeat in enumerate(repeats([_told_apart(item) for item in items])):
        groups.append(("", items[done : repeat.start]))
        name = _BLOCK if number == 0 else f"{_BLOCK} {chr(ord('a') + number % 26)}"
        for i in range(repeat.times):
            first = repeat.start + i * repeat.period
            groups.append((f"{name} {i}", items[first : first + repeat.period]))
        done = repeat.end
    groups.append(("", items[done:]))
    return [group for group in groups if group[1]]


def _told_apart(item: Any) -> Any:
    """Return what an item is, whatever the sizes of its operands are."""
    if isinstance(item, Row):
        return item.op.name if item.op is not None else item.kind
    return (item.name, *(row.op.name for row in item.rows if row.op is not None))


# -- structure


def _hash(places: Sequence[Place], rows: Sequence[Row], of_row: dict[Row, Place]) -> None:
    """Give every scope its hash: what it has in order, and from where in it the operands come."""
    turning = {place for place in places if _turns(place)}
    labels = np.array([_label(row, of_row[row] in turning) for row in rows], dtype=np.int64)
    edges = [
        (row.index, slot, operand.index)
        for row in rows
        for slot, operand in enumerate(row.operands)
        if operand is not None
    ]
    table = np.array(edges, dtype=np.int64).reshape(-1, 3)
    starts = np.searchsorted(table[:, 0], np.arange(len(rows) + 1))
    inside: dict[Place, list[int]] = {}
    for place in reversed(places):
        own = [row.index for row in place.rows if row.op is not None or row.scope is not None]
        shape = [len(own)]
        for child in place.children.values():
            if child.index >= 0:
                own += inside[child]
                shape.append(len(inside[child]))
        inside[place] = own
        members = np.sort(np.array(own, dtype=np.int64))
        wires = table[_ranges(starts[members], starts[members + 1])]
        if len(members):
            local = np.searchsorted(members, wires[:, 2]).clip(max=len(members) - 1)
            source = np.where(members[local] == wires[:, 2], local, -1)
            target = np.searchsorted(members, wires[:, 0])
        else:
            source = target = wires[:, 0]
        digest = blake2b(digest_size=8)
        for part in (np.array(shape), labels[members] if len(members) else members, source, target, wires[:, 1]):
            digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes() + b"|")
        place.hash = digest.hexdigest()


def _is_structure(number: Any) -> bool:
    """Return whether a number is part of what is computed, as exponents and factors are, and not data."""
    return not isinstance(number, (int, float)) or (abs(number) <= _SMALL and number == int(number))


def _ranges(starts: Any, ends: Any) -> Any:
    """Return the numbers from each start up to its end, one range after the other."""
    counts = ends - starts
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(counts.sum())


def _without_numbers(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index without the elements that it picks: x[:, t] is the same for every t."""
    return tuple("one" if type(entry) is int else entry for entry in entries)


def _turns(place: Place) -> bool:
    """Return whether a scope stands in a turn of a loop."""
    walked: Place | None = place
    while walked is not None:
        if walked.kind == "iteration":
            return True
        walked = walked.parent
    return False


def _label(row: Row, turning: bool) -> int:
    """Return a number for what a row is by itself; which element it picks is no part of it in a turn of a loop."""
    name = row.op.name if row.op is not None else row.kind
    specs = tuple((s.shape, str(s.dtype)) for s in row.specs)
    attrs = sorted(
        (k, _without_numbers(v) if turning and k == "entries" else v) for k, v in row.attrs.items() if k not in UNTOLD
    )
    numbers = [(i, v if _is_structure(v) else "number") for i, v in sorted(row.literals.items())]
    text = repr((name, specs, numbers, attrs))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
