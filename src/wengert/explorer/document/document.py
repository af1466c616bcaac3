"""The document `wengert.trace/1` of a recording: columnar tables, as `trace.schema.json` describes them.

`document(recording)` gives what every page needs; sections that others can add (findings, kernels, parallel runs)
are written into the same dict by their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import raised_at
from ...core.ops.op import Op
from ...version import __version__
from ..findings import Finding, findings
from ..recording import spans
from ..recording.names import name_rows
from ..recording.recording import Recording, Row
from ..recording.scopes import UNTOLD, Place, Tree
from . import forms, slopes, stats
from .lives import Buffer, Lives, arrays, base, classes, lives
from .origins import Origins
from .stats import num

Document = dict[str, Any]

SCHEMA = "wengert.trace/1"
KINDS = ("input", "param", "const", "op", "root")
PHASES = ("forward", "backward", "optimizer", "recompute")
TRACKED, SEEN, NAN_FORWARD, NAN_BACKWARD, INF_FORWARD, INF_BACKWARD, VIEW, COMPOSITE = (1 << i for i in range(8))
# Up to so many rows everything is exact; beyond, only what is asked about first.
EXACT = 3000


def differences(column: Sequence[int]) -> dict[str, list[int]]:
    """Return whole numbers as large documents have them: each as the difference to the one before."""
    return {"delta": [b - a for a, b in zip([0, *column], column)]}


class Indexed:
    """A table of things that occur, each once: the row of each."""

    def __init__(self, first: Sequence[Any] = ()) -> None:
        self.items: list[Any] = list(first)
        self._rows: dict[Any, int] = {item: i for i, item in enumerate(first)}

    def __getitem__(self, item: Any) -> int:
        found = self._rows.get(item)
        if found is None:
            found = self._rows[item] = len(self.items)
            self.items.append(item)
        return found


def document(recording: Recording) -> Document:
    """Return the document of a recording."""
    return described(recording)[0]


def described(recording: Recording) -> tuple[Document, list[Finding]]:
    """Return the document of a recording, and the findings that it tells of."""
    writer = _Writer(recording)
    return writer.written(), writer.findings


class _Writer:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        spans.read_again()
        self.findings = findings(recording)
        # The rows of findings, and their operands: where a NaN leaves a step, an operand's gradient shows it.
        about = [finding.row for finding in self.findings if finding.row is not None]
        self.named = {r for row in about for r in (row, *row.operands) if r is not None}
        self._add_roots()
        self.rows = recording.rows
        for i, row in enumerate(self.rows):
            row.index = i
        self.strings = Indexed([""])
        self.shapes = Indexed()
        self.spans = Indexed()
        self.ops = Indexed()
        self.shown: list[forms.Shown] = []
        self.formulas: list[dict[str, Any] | None] = []
        self.attrs: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.tree = Tree(self.rows, recording.title)
        name_rows(recording, self.tree.of_row)
        self.exact = len(self.rows) <= EXACT
        self.values = stats.codes([row.value for row in self.rows])
        self.gradients = stats.codes([row.gradient for row in self.rows])
        self.chosen = self._chosen()
        self.lives = lives(recording)

    def _add_roots(self) -> None:
        """Add each result as a node of its own at the end, whose operand is the row that computed it."""
        ends = []
        for row in self.recording.roots:
            if row.kind == "root":
                return
            root = Row(None, "root", [row], value=row.value, spec=row.spec, node=row.node)
            root.gradient = row.gradient
            if row.gradient is not None:
                root.left = {0: row.gradient}
            ends.append(root)
        self.recording.rows += ends
        self.recording.roots = ends

    def written(self) -> Document:
        recording = self.recording
        out: Document = {"schema": SCHEMA, "meta": self._meta(), "strings": [], "shapes": []}
        nodes = self._nodes()
        out["ops"] = self._ops()
        out["scopes"] = self._scopes(self.tree.places)
        out["nodes"] = nodes
        out["edges"] = self._edges()
        out["saved"] = self._saved()
        out["stats"] = {
            "value": self._stats([row.value for row in self.rows], self.values),
            "gradient": self._stats([row.gradient for row in self.rows], self.gradients),
        }
        out["events"] = self._events()
        out["buffers"] = self._buffers(self.lives)
        if self.exact and recording.reads:
            out["reads"] = self._reads()
        out["findings"] = [self._finding(finding) for finding in self.findings]
        out["spans"], out["files"] = sources(self.spans.items)
        if (origins := Origins().entries(self.rows, self.tree)) is not None:
            out["origins"] = origins
        if recording.values and recording.events:
            out["memory"] = {
                "resident": self.lives.resident,
                "peak": self.lives.peak,
                "peakAt": self.lives.peak_at,
                "saved": self.lives.saved,
            }
            if recording.state_bytes:
                out["memory"]["optimizer"] = recording.state_bytes
        out["strings"], out["shapes"] = self.strings.items, [list(s) for s in self.shapes.items]
        return out

    def _meta(self) -> dict[str, Any]:
        recording = self.recording
        meta: dict[str, Any] = {
            "script": recording.script,
            "title": recording.title,
            "wengert": __version__,
            "roots": [row.index for row in recording.roots],
            "values": recording.values,
        }
        if recording.step is not None:
            meta["step"] = recording.step
        if recording.seconds is not None:
            meta["seconds"] = round(recording.seconds, 6)
        if recording.error is not None:
            meta["error"] = {"type": type(recording.error).__name__, "text": said(recording.error)}
            if at := raised_at(recording.error):
                meta["error"]["at"] = at
        if recording.stored:
            meta["stored"] = True
        if recording.inputs is not None:
            meta["inputs"] = dict(recording.inputs)
        if recording.notes:
            meta["notes"] = list(recording.notes)
        return meta

    # -- nodes and what they are

    def _nodes(self) -> dict[str, Any]:
        table: dict[str, Any] = {
            key: [] for key in ("op", "scope", "kind", "name", "dtype", "shape", "span", "flags", "flops")
        }
        flops: dict[Any, Any] = {}
        for row in self.rows:
            spec = row.specs[0] if row.specs else None
            table["op"].append(self._op(row))
            table["scope"].append(self.tree.of_row[row].index)
            table["kind"].append(KINDS.index(row.kind))
            table["name"].append(self.strings[row.name if self.exact or not _is_numbered(row.name) else ""])
            table["dtype"].append(self.strings["" if spec is None else str(spec.dtype)])
            table["shape"].append(self.shapes[() if spec is None else tuple(_size(n) for n in spec.shape)])
            where = spans.span(row.code, row.offset) if row.code is not None else None
            table["span"].append(-1 if where is None else self.spans[where])
            table["flags"].append(self._flags(row))
            table["flops"].append(self._flops(row, flops))
        table["scope"] = self._column(table["scope"])
        return table

    def _op(self, row: Row) -> int:
        if row.op is None:
            return -1
        literals = {i: v for i, v in row.literals.items() if isinstance(v, (bool, int, float))}
        key = (row.op.name, len(row.operands), repr(sorted(literals.items())), _told(row.attrs))
        index = self.ops[key]
        if index == len(self.shown):
            self.shown.append(forms.shown(row.op, len(row.operands), literals))
            self.formulas.append(formula(row.op))
            told = {name: _plain(value) for name, value in row.attrs.items() if name not in UNTOLD}
            self.attrs.append((told, {str(i): num(v) for i, v in literals.items()}))
        return index

    def _ops(self) -> dict[str, list[Any]]:
        return {
            "name": [key[0] for key in self.ops.items],
            "symbol": [s.symbol for s in self.shown],
            "pattern": [s.pattern for s in self.shown],
            "form": [s.form for s in self.shown],
            "precedence": [s.precedence for s in self.shown],
            "local": [list(s.local) for s in self.shown],
            "say": [s.say for s in self.shown],
            "attrs": [attrs for attrs, _ in self.attrs],
            "literals": [literals for _, literals in self.attrs],
            "formula": self.formulas,
        }

    def _flags(self, row: Row) -> int:
        flags = TRACKED if row.tracked else 0
        flags |= SEEN if row.gradient is not None else 0
        for code, nan, inf in (
            (self.values[row.index], NAN_FORWARD, INF_FORWARD),
            (self.gradients[row.index], NAN_BACKWARD, INF_BACKWARD),
        ):
            flags |= nan if code == stats.NAN else inf if code == stats.INFINITE else 0
        if _is_view(row):
            flags |= VIEW
        if row.op is not None and row.op.kind in ("composite", "control"):
            flags |= COMPOSITE
        return flags

    def _flops(self, row: Row, known: dict[Any, Any]) -> Any:
        if row.op is None or row.spec is None:
            return 0
        operands = tuple(o.specs if o is not None else type(row.literals.get(i)) for i, o in enumerate(row.operands))
        key = (row.op, _told(row.attrs), operands, row.spec)
        if key not in known:
            known[key] = slopes.operations(row)
        return known[key]

    # -- the tree, edges, what is saved

    def _scopes(self, places: Sequence[Place]) -> dict[str, Any]:
        return {
            "parent": self._column([-1 if p.parent is None else p.parent.index for p in places]),
            "name": [self.strings[p.name] for p in places],
            "kind": [p.kind for p in places],
            "hash": [self.strings[p.hash] for p in places],
        }

    def _edges(self) -> dict[str, Any]:
        table: dict[str, Any] = {"dst": [], "src": [], "slot": []}
        derivatives: list[Any] = []
        gradients: list[Any] = []
        last = 0
        for row in self.rows:
            shares = slopes.shares(row)
            local = slopes.local(row) if self.exact else {}
            for slot, operand in row.edges:
                table["dst"].append(row.index - last)
                table["src"].append(row.index - operand.index)
                table["slot"].append(slot)
                last = row.index
                derivatives.append(local.get(slot))
                gradients.append(shares.get(slot))
        if any(d is not None for d in derivatives):
            table["slope"] = derivatives
        if any(g is not None for g in gradients):
            table["gradient"] = stats.packed(stats.codes(gradients))
            if self.exact:
                table["amount"] = [stats.amount(g) for g in gradients]
        return table

    def _saved(self) -> dict[str, Any]:
        kept: list[tuple[int, int, int]] = []
        for row in self.rows:
            if not row.saved or row.kind == "root":
                continue
            # A value that stands twice among the operands is kept once.
            found: dict[int, int] = {}
            for slot, index in self._kept(row):
                found.setdefault(index, slot)
            kept += [(row.index, index, slot) for index, slot in found.items()]
        nodes = self._column([node for node, _, _ in kept])
        if self.exact:
            return {"node": nodes, "value": [value for _, value, _ in kept]}
        return {"node": nodes, "value": {"operand": [slot for _, _, slot in kept]}}

    def _kept(self, row: Row) -> list[tuple[int, int]]:
        """Return what a row keeps, as positions among its operands and their rows; the result last, at -1."""
        kept = []
        for i, value in enumerate(row.saved[:-1] if len(row.saved) == len(row.operands) + 1 else ()):
            operand = row.operands[i]
            if operand is not None and isinstance(value, (np.ndarray, np.generic)):
                kept.append((i, operand.index))
        if len(row.saved) == len(row.operands) + 1 and row.saved[-1] is not None:
            kept.append((-1, row.index))
        return kept

    def _finding(self, finding: Finding) -> dict[str, Any]:
        """Return a finding's entry, with the place that it names: not always that of the node where it shows."""
        where = spans.span(finding.source, 0) if finding.source is not None else None
        return finding.entry() if where is None else {**finding.entry(), "span": self.spans[where]}

    def _reads(self) -> list[dict[str, Any]]:
        """Return what the program took out as numbers: nodes, or values computed of nodes for that alone."""
        found = []
        for leak, row in self.recording.reads:
            op = ""
            operands: list[Row | None] = [row]
            if not self._stands(row):
                op, operands = (row.op.name if row.op is not None else ""), list(row.operands)
                if not all(o is None or self._stands(o) for o in operands):
                    op, operands = "?", self._standing_above(row)
            if not any(operands):
                continue
            code = leak.activation.code if leak.activation is not None else None
            where = spans.span(code, leak.offset) if code is not None else None
            single = np.size(leak.value) == 1
            found.append(
                {
                    "what": leak.what,
                    "op": op,
                    "nodes": [-1 if o is None else o.index for o in operands],
                    "literals": {str(i): num(v) for i, v in row.literals.items() if isinstance(v, (bool, int, float))},
                    "value": stats.exact(leak.value) if single else None,
                    "span": -1 if where is None else self.spans[where],
                }
            )
        return found

    def _stands(self, row: Row) -> bool:
        """Return whether a row is one of the document's."""
        return 0 <= row.index < len(self.rows) and self.rows[row.index] is row

    def _standing_above(self, row: Row) -> list[Row | None]:
        """Return the nearest rows of the document that a row was computed from."""
        found: dict[Row, None] = {}
        stack = [o for o in row.operands if o is not None]
        while stack:
            operand = stack.pop()
            if self._stands(operand):
                found[operand] = None
            else:
                stack += [o for o in operand.operands if o is not None]
        return list(found)

    # -- numbers

    def _chosen(self) -> set[int]:
        """Return the rows of which everything is told: all of a small document, else those asked about first."""
        if self.exact:
            return set(range(len(self.rows)))
        first: dict[str, int] = {}
        for place in self.tree.places:
            first.setdefault(place.hash, place.index)
        shown = set(first.values())
        asked = ("param", "root")
        return {r.index for r in self.rows if r.kind in asked or r in self.named or self.tree.of_row[r].index in shown}

    def _stats(self, values: Sequence[Any], codes: Sequence[int]) -> dict[str, Any]:
        scalar: list[Any] = []
        details: dict[str, Any] = {}
        for row, value in zip(self.rows, values, strict=True):
            single = value is not None and not isinstance(value, (tuple, list)) and np.size(value) == 1
            number = stats.exact(value) if single else None
            chosen = row.index in self.chosen
            scalar.append(number if chosen or number is None else stats.short_number(number))
            if value is not None and not single and chosen:
                told = stats.details(value)
                if told is not None:
                    details[str(row.index)] = told
        found = {"rms": stats.packed(codes), "scalar": scalar, "details": details}
        return {**found, "size": [stats.size(value) for value in values]} if self.exact else found

    # -- time and memory

    def _column(self, numbers: list[int]) -> Any:
        return numbers if self.exact else differences(numbers)

    def _times(self, micros: list[float]) -> Any:
        return [round(t, 1) for t in micros] if self.exact else differences([round(t) for t in micros])

    def _events(self) -> dict[str, Any]:
        events, began = self.recording.events, self.recording.started
        return {
            "phase": [PHASES.index(e.phase) for e in events],
            "node": self._column([e.row.index for e in events]),
            "t0": self._times([(e.start - began) * 1e6 for e in events]),
            "dur": [round((e.end - e.start) * 1e6, 1 if self.exact else None) for e in events],
            "thread": [e.thread for e in events],
        }

    def _buffers(self, found: Lives) -> dict[str, Any]:
        buffers = found.buffers
        return {
            "bytes": [b.bytes for b in buffers],
            "class": [classes().index(b.kind) for b in buffers],
            "node": [b.row.index for b in buffers] if self.exact else {"operand": [self._holder(b) for b in buffers]},
            "first": self._column([b.first for b in buffers]),
            "last": self._column([b.last for b in buffers]),
        }

    def _holder(self, buffer: Buffer) -> int:
        """Return the holder of a buffer by the event that made it: its row's (-1), an operand's, else -2 - the row."""
        row = self.recording.events[buffer.first].row if buffer.first >= 0 else None
        if row is buffer.row:
            return -1
        if row is not None and buffer.row in row.operands:
            return row.operands.index(buffer.row)
        return -2 - buffer.row.index


def sources(found: Sequence[spans.Span]) -> tuple[dict[str, list[int]], list[dict[str, Any]]]:
    """Return the tables `spans` and `files` of places in programs."""
    files = Indexed()
    lines: dict[str, set[int]] = {}
    for where in found:
        files[where.file]
        lines.setdefault(where.file, set()).update((where.line0, where.line1))
    table = {
        "file": [files[w.file] for w in found],
        "line0": [w.line0 for w in found],
        "col0": [w.col0 for w in found],
        "line1": [w.line1 for w in found],
        "col1": [w.col1 for w in found],
    }
    shown = [
        {"path": spans.short_path(f), "pieces": [{"line": n, "text": t} for n, t in spans.pieces(f, lines[f])]}
        for f in files.items
    ]
    return table, shown


def _is_numbered(name: str) -> bool:
    """Return whether a name says no more than the row's number would."""
    return name[:1] == "v" and name[1:].isdigit()


def _is_view(row: Row) -> bool:
    """Return whether a result shares memory with an operand."""
    owners = {id(base(a)) for o in row.operands if o is not None for a in arrays(o.value)}
    own = (a for a in arrays(row.value) if isinstance(a, np.ndarray))
    return row.op is not None and any(id(base(a)) in owners for a in own)


def _size(n: Any) -> int:
    """Return a size; -1 for one that is not known until the graph is fed."""
    return n if isinstance(n, int) else -1


def _told(attrs: Mapping[str, Any]) -> str:
    return repr(sorted((name, value) for name, value in attrs.items() if name not in UNTOLD)) if attrs else ""


def said(error: BaseException) -> str:
    """Return the text of an exception, also where its class cannot say it."""
    try:
        return str(error)
    except Exception as e:
        return f"(its text cannot be shown: {type(e).__name__})"


def stopped_by(told: Mapping[str, str]) -> str:
    """Return what ended a run, as `meta.error` tells it, with the place that its text may lack."""
    first, newline, rest = told["text"].partition("\n")
    at = told.get("at", "")
    place = "" if not at or at in first else f" ({at})"
    return f"stopped by {told['type']}: {first}{place}{newline}{rest}"


def formula(op: Op) -> dict[str, Any] | None:
    """Return an op's formula on single numbers, for the page to compute, where it has one: see `trace.schema.json`."""
    if len(op.formulas) != 1:
        return None
    made = op.formulas[0].described()
    steps = [[name, *map(_operand, operands)] for name, *operands in made["parts"]]
    return {"parts": steps, "result": _operand(made["result"])}


def _operand(operand: Any) -> Any:
    return [num(operand[0])] if isinstance(operand, list) else operand


def _plain(value: Any) -> Any:
    """Return an attribute as JSON has it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float, np.number)):
        return num(value)
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return str(value)
