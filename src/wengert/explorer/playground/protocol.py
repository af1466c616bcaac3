"""The protocol `wengert.play/1` between the playground's page and the process behind it.

Messages are JSON objects with a `type`. From the page:

| type | and | does |
| --- | --- | --- |
| `open` | `experiment`, `options` | begin a run of an experiment; options that are left out are at their defaults |
| `set` | `name`, `value` | change a control: at the next step, or with a new run where it restarts |
| `play` | `on` | go on by itself, or pause |
| `step` | `count` (1) | take steps, or go back by them where it is negative |
| `seek` | `step` | go to a step that is known; what is known of later ones stays until something is changed |
| `edit` | `parameter`, `index`, `value` | set one number of a parameter by hand, at this step |
| `state` | | tell what a script needs to go on from here |
| `reset` | | begin the same run anew |
| `pace` | `value` | steps a second |
| `record` | | record one step, for the graph views |
| `seen` | `frame` | the message with this number is painted (read by the server: see `server.py`) |
| `details` | `id`, `node`, `gradient` | a whole tensor of the recording, as in `wengert.trace/1` |

From the process:

| type | and |
| --- | --- |
| `welcome` | `protocol`, `experiments`: name, title, aside, view, controls and series of each |
| `scene` | `run`, `experiment`, `options`, `values`: what stays the same in a run; arrays |
| `frame` | `frame`, `run`, `step`, `last`, `horizon`, `playing`, `pace`, `options`: how things stand; |
| | `history`: the series over the steps; `diverged` (the step, or null), `drifted`, `fault`, `values`; arrays |
| `state` | `run`, `step`, `parameters`, `buffers`, `generator`, `points`: see `Run.told` |
| `trace` | `frame`, `run`, `step`, `document` (`wengert.trace/1`) |
| `details` | `id`, `details` |
| `error` | `text`: a message that could not be followed, and why; nothing has changed |

A message with arrays is binary: 4 bytes (little-endian) that say how long the header is, the header, and the arrays'
bytes. The header's `arrays` says where each is: `{name: {offset, dtype, shape}}`, offsets from the end of the header,
dtypes `u1` and `f4`, little-endian. Numbers that JSON lacks travel as the words "nan", "inf", "-inf".

Every message is checked: types, names, bounds. What is wrong gets an `error` and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...core.arrays import Array
from ...core.errors import DataError, fail
from ..server import Message

VERSION = "wengert.play/1"
# Steps in one `step` message; the furthest step of a run; steps a second.
MOST_STEPS = 1000
FURTHEST = 200_000
PACES = (0.5, 2000.0)
# The largest number that may be set by hand.
LARGEST = 1e6

Kind = Literal["open", "set", "play", "step", "seek", "reset", "pace", "record", "edit", "state"]


@dataclass(frozen=True, slots=True)
class Command:
    """A checked message of the page."""

    kind: Kind
    name: str = ""
    value: Any = None


def command(message: object) -> Command:
    """Return what a message asks for. Raises DataError for what cannot be followed."""
    if not isinstance(message, dict):
        fail(DataError, "a message is a JSON object")
    kind = message.get("type")
    if kind == "open":
        options = message.get("options", {})
        if not isinstance(options, dict) or len(options) > 64:
            fail(DataError, "open: options is an object")
        return Command("open", _text(message, "experiment"), options)
    if kind == "set":
        if "value" not in message:
            fail(DataError, "set: there is no value")
        return Command("set", _text(message, "name"), message["value"])
    if kind == "play":
        on = message.get("on")
        if not isinstance(on, bool):
            fail(DataError, "play: on is true or false")
        return Command("play", value=on)
    if kind == "step":
        return Command("step", value=_whole(message, "count", -MOST_STEPS, MOST_STEPS, 1))
    if kind == "seek":
        return Command("seek", value=_whole(message, "step", 0, FURTHEST))
    if kind == "pace":
        value = message.get("value")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not PACES[0] <= value <= PACES[1]:
            fail(DataError, f"pace: value is {PACES[0]:g} to {PACES[1]:g} steps a second")
        return Command("pace", value=float(value))
    if kind == "reset":
        return Command("reset")
    if kind in ("record", "state"):
        return Command(kind)
    if kind == "edit":
        parameter, index = (_whole(message, key, 0, 1 << 30) for key in ("parameter", "index"))
        value = message.get("value")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
            fail(DataError, f"edit: value is a number from -{LARGEST:g} to {LARGEST:g}")
        return Command("edit", value=(parameter, index, float(value)))
    fail(DataError, "a message's type is one of open, set, play, step, seek, pace, reset, record, edit, state")


def _text(message: Mapping[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str) or len(value) > 64:
        fail(DataError, f"{message['type']}: {key} is a short text")
    return value


def _whole(message: Mapping[str, Any], key: str, low: int, high: int, default: int | None = None) -> int:
    value = message.get(key, default)
    if type(value) is not int or not low <= value <= high:
        fail(DataError, f"{message['type']}: {key} is a whole number from {low} to {high}")
    return value


def packed(header: Mapping[str, Any], arrays: Mapping[str, Array], *, kind: str = "") -> Message:
    """Return a message with arrays behind its header."""
    table: dict[str, Any] = {}
    parts: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        data = little.tobytes()
        # Each array begins where its numbers may be read in place.
        padding = -len(data) % 4
        table[name] = {"offset": offset, "dtype": f"{array.dtype.kind}{array.itemsize}", "shape": list(array.shape)}
        parts += [data, b"\0" * padding]
        offset += len(data) + padding
    return Message({**header, "arrays": table} if table else header, b"".join(parts), kind)


def as_bytes(values: Array, reach: float = 1.0) -> Array:
    """Return numbers from -reach to reach as bytes: 128 is 0, 1 and 255 are the ends; 0 says that it is no number."""
    with np.errstate(all="ignore"):
        scaled = np.clip(np.asarray(values, np.float64) / reach, -1.0, 1.0)
        codes = np.where(np.isnan(scaled), 0, np.rint(128 + 127 * scaled))
    return codes.astype(np.uint8)


def history(series: Mapping[str, Any], at: int, points: int = 400) -> dict[str, Any]:
    """Return series over the steps, thinned to about `points`; the first, the last and the present step are kept."""
    length = len(next(iter(series.values())))
    steps = sorted({0, at, length - 1, *range(0, length, max(1, math.ceil(length / points)))})
    found: dict[str, Any] = {"steps": steps}
    for name, values in series.items():
        found[name] = [_short(values[k]) for k in steps]
    return found


def _short(value: float) -> float | str:
    """Return a number to six digits, which are more than a chart can show."""
    if math.isfinite(value):
        return float(f"{value:.6g}")
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
