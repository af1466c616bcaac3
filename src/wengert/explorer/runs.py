"""Runs that are kept in a folder: histories of watched trainings, and what other programs wrote for TensorBoard.

A history is one JSON file, `NAME.watch.json`, of the points that a chart can show, however long the run; the oldest go
when there are more than `KEPT`. Event files are read without TensorBoard: records of TFRecord framing, whose checksums
are not looked at, with an `Event` in protocol buffers each (tensorflow/core/util/event.proto, field numbers below).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import DataError, fail

SUFFIX = ".watch.json"
SCHEMA = "wengert.watch/1"
# Histories that stay in a folder, and bytes of an event file that are read: the newest.
KEPT = 50
LARGEST = 256 << 20


@dataclass(frozen=True, slots=True)
class KeptRun:
    """The loss of a run over its steps."""

    title: str
    steps: Array
    loss: Array


def keep(file: Path, title: str, steps: Array, loss: Array, values: Mapping[str, Any]) -> None:
    """Write a history: under another name first, so that no reader finds half of one."""
    told = {"schema": SCHEMA, "title": title, "steps": _listed(steps), "loss": _listed(loss), "values": dict(values)}
    file.parent.mkdir(parents=True, exist_ok=True)
    made = file.with_suffix(".part")
    made.write_text(json.dumps(told, allow_nan=False), encoding="utf-8")
    made.replace(file)
    others = sorted(file.parent.glob(f"*{SUFFIX}"), key=lambda p: p.stat().st_mtime)
    for old in others[:-KEPT]:
        old.unlink(missing_ok=True)


def _listed(values: Array) -> list[float | str]:
    return [x if math.isfinite(x) else str(x) for x in values.tolist()]


def runs_in(folder: Path, but: Path | None = None) -> list[KeptRun]:
    """Return the runs that a folder holds, those of event files in folders below it too, the newest first.

    Raises DataError where there is no such folder. Files that are damaged are read as far as they are whole.
    """
    if not folder.is_dir():
        fail(DataError, f"there is no folder {folder}", "Name the folder in which histories or event files are.")
    files = [p for p in folder.glob(f"*{SUFFIX}") if p != but]
    files += [p for p in folder.rglob("*tfevents*") if p.is_file()]
    found: list[KeptRun] = []
    for file in sorted(files, key=lambda p: p.stat().st_mtime, reverse=True):
        found += _history(file) if file.name.endswith(SUFFIX) else _events(file, folder)
    return found


def _history(file: Path) -> list[KeptRun]:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if told["schema"] != SCHEMA:
            return []
        steps, loss = (np.array(told[name], np.float64) for name in ("steps", "loss"))
        title = str(told["title"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [KeptRun(title, steps, loss)] if steps.shape == loss.shape and steps.ndim == 1 else []


def _events(file: Path, folder: Path) -> list[KeptRun]:
    """Return a run for every scalar of an event file that is called a loss."""
    series: dict[str, list[tuple[int, float]]] = {}
    for step, tag, value in scalars(file):
        if "loss" in tag.lower():
            series.setdefault(tag, []).append((step, value))
    place = file.parent.relative_to(folder).as_posix()
    made = []
    for tag, points in series.items():
        table = np.array(sorted(points, key=lambda p: p[0]), np.float64)
        made.append(KeptRun(tag if place == "." else f"{place} · {tag}", table[:, 0], table[:, 1]))
    return made


# -- TensorBoard's files


def scalars(file: Path) -> Iterator[tuple[int, str, float]]:
    """Give step, name and value of every scalar in an event file, in order."""
    for record in _records(file):
        step, summaries = 0, []
        try:
            for number, value in _fields(record):
                if number == 2 and isinstance(value, int):
                    step = value
                elif number == 5 and isinstance(value, bytes):
                    summaries.append(value)
            for summary in summaries:
                for number, value in _fields(summary):
                    if number == 1 and isinstance(value, bytes) and (scalar := _scalar(value)) is not None:
                        yield step, *scalar
        except (ValueError, struct.error, IndexError):
            continue


def _records(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while len(head := stream.read(12)) == 12:
            (length,) = struct.unpack("<Q", head[:8])
            if length > LARGEST:
                return
            body = stream.read(length)
            if len(body) < length or len(stream.read(4)) < 4:
                return
            yield body


def _scalar(summary: bytes) -> tuple[str, float] | None:
    """Return the name and number of a `Summary.Value`: the number plain, or in a tensor of one element."""
    tag, number = "", None
    for field, value in _fields(summary):
        if field == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif field == 2 and isinstance(value, float):
            number = value
        elif field == 8 and isinstance(value, bytes):
            number = _element(value)
    return None if number is None else (tag, number)


def _element(tensor: bytes) -> float | None:
    """Return the number of a `TensorProto` of type float (1) or double (2) with one element."""
    fields = list(_fields(tensor))
    kind = next((v for n, v in fields if n == 1), None)
    for field, value in fields:
        if isinstance(value, float) and field in (5, 6):
            return value
        if isinstance(value, bytes) and field in (4, 5, 6):
            form = "<d" if kind == 2 else "<f"
            if len(value) == struct.calcsize(form) and kind in (1, 2):
                return float(struct.unpack(form, value)[0])
    return None


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Give the fields of a protocol buffers message. Raises ValueError, IndexError or struct.error for what is none."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
        elif wire == 1:
            yield number, float(struct.unpack_from("<d", message, at)[0])
            at += 8
        elif wire == 5:
            yield number, float(struct.unpack_from("<f", message, at)[0])
            at += 4
        elif wire == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError
            yield number, message[at : at + length]
            at += length
        else:
            raise ValueError


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError
