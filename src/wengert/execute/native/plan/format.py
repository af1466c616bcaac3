"""Plans as bytes, for the cache on disk: a JSON document, then the contents of constants.

The document, compressed, is an object of

- `dtypes`, `keys` (of kernels): names that the rest refers to by number;
- `buffers`: `[kind, bytes, index, place, donated, of, constant]`, where `of` is the number of the buffer
  that a window is a piece of, and `constant` (-1 for none) counts the graph's own constants first, in order, and
  then those that stand after the document;
- `views`: `[buffer, dtype, shape, strides, offset]`;
- `steps`: `[kind, what, words, views, reads, writes, numbers, label]`. What a "kernel" does is a number among
  `keys`; a "jump" has `[name, when, target]`, a "call" `[name, when, origin]`, an "exchange"
  `[name, when, [phase, number]]`, where `when` is a view or -1. Of the words, those at the places in `views` are
  numbers of views;
- `inputs`, `outputs`: views; `constants`, `windows`, `prepared`: buffers; `loops`, `arena`, `spill`;
- `moved`: `[op, attributes, shape, dtype]` of each collective that moves while others run;
- `preparation`: an object of those parts of another plan, or null;
- `made`: `[dtype, shape, bytes]` of each constant after the document.

There is nothing in it that is run: kernels are named by their structure, steps of Python's by a maker and
plain values (see `host_calls`). Reading checks no more than it needs to: who may write the file may write code.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ....core.errors import WengertError
from ....core.spec import as_dtype
from ..codegen.kernel import Kernel
from .host_calls import made
from .plan import Buffer, Exchange, HostCall, Jump, Moved, Plan, Step, View

Array = np.ndarray[Any, np.dtype[Any]]

# Constants that passes made are kept with the plan up to so many bytes in all.
MOST_BYTES = 1 << 20
# Most of the time goes into compressing; the lowest level halves the bytes already.
_LEVEL = 1


class Unwritable(Exception):
    """An error: some part of a plan exists in this process only."""


def dump(plan: Plan, constants: Sequence[Array]) -> bytes:
    """Return the bytes of an arranged plan, made of a graph with these constants. Raises Unwritable."""
    return _Writer(plan, constants).contents()


def load(
    contents: bytes, constants: Sequence[Array], kernels: Callable[[list[str]], list[Kernel] | None]
) -> Plan | None:
    """Return the plan, where `kernels` finds those of its keys; None where it does not, or where it is no plan."""
    try:
        size = int.from_bytes(contents[:8], "little")
        document = json.loads(zlib.decompress(contents[8 : 8 + size]))
        return _read(document, contents[8 + size :], constants, kernels)
    except (zlib.error, WengertError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


# -- writing


class _Numbers(dict[Any, int]):
    """A numbering: each thing gets its number when it is first asked for."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class _Writer:
    def __init__(self, plan: Plan, constants: Sequence[Array]) -> None:
        self.plan = plan
        self.dtypes, self.keys = _Numbers(), _Numbers()
        self.buffers: dict[Buffer, int] = {}
        self.rows: list[Any] = []
        # What a run fills is no part of the document.
        self.prepared: set[Buffer] = set()
        self.views = _Numbers()
        self.given = {id(array): i for i, array in enumerate(constants)}
        self.count = len(constants)
        self.made: list[Any] = []
        self.tail: list[bytes] = []
        self.nbytes = 0

    def contents(self) -> bytes:
        document = {
            **self.parts(self.plan),
            "views": [[self.buffer(b), self.dtypes[_name_of(d)], *rest] for b, d, *rest in self.views],
            "buffers": self.rows,
            "keys": list(self.keys),
            "dtypes": list(self.dtypes),
            "made": self.made,
        }
        text = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), _LEVEL)
        return b"".join([len(text).to_bytes(8, "little"), text, *self.tail])

    def parts(self, plan: Plan) -> dict[str, Any]:
        self.prepared.update(plan.prepared)
        return {
            "steps": [self.step(step) for step in plan.steps],
            "inputs": [self.view(v) for v in plan.inputs],
            "outputs": [self.view(v) for v in plan.outputs],
            "constants": [self.buffer(b) for b in plan.constants],
            "windows": [self.buffer(b) for b in plan.windows],
            "prepared": [self.buffer(b) for b in plan.prepared],
            "moved": [[m.op, _packed(m.attrs), list(m.shape), self.dtypes[_name_of(m.dtype)]] for m in plan.moved],
            "loops": plan.loops,
            "arena": plan.arena,
            "spill": plan.spill,
            "preparation": None if plan.preparation is None else self.parts(plan.preparation),
        }

    def step(self, step: Step) -> list[Any]:
        kernel = step.kernel
        what: Any
        if isinstance(kernel, Kernel):
            kind, what = "kernel", self.keys[kernel.key]
        elif isinstance(kernel, Jump):
            kind, what = "jump", [kernel.name, self.maybe(kernel.when), kernel.target]
        elif isinstance(kernel, Exchange):
            kind, what = "exchange", [kernel.name, self.maybe(kernel.when), [kernel.phase, kernel.number]]
        elif kernel.origin is not None:
            kind, what = "call", [kernel.name, self.maybe(kernel.when), [_packed(v) for v in kernel.origin]]
        else:
            raise Unwritable
        places = [i for i, word in enumerate(step.words) if isinstance(word, View)]
        words = [self.view(w) if isinstance(w, View) else int(w) for w in step.words]
        reads, writes = ([self.buffer(b) for b in side] for side in (step.reads, step.writes))
        numbers = [int(step.units), int(step.grain), int(step.scratch), float(step.flops), int(step.nbytes)]
        return [kind, what, words, places, reads, writes, numbers, step.label]

    def maybe(self, view: View | None) -> int:
        return -1 if view is None else self.view(view)

    def view(self, view: View) -> int:
        _name_of(view.dtype)
        self.buffer(view.buffer)
        shape, strides = tuple(map(int, view.shape)), tuple(map(int, view.strides))
        return self.views[view.buffer, view.dtype, shape, strides, int(view.offset)]

    def buffer(self, buffer: Buffer) -> int:
        found = self.buffers.get(buffer)
        if found is None:
            of = -1 if buffer.of is None else self.buffer(buffer.of)
            known = buffer.array is not None and buffer not in self.prepared
            constant = self.constant(buffer.array) if known else -1
            found = self.buffers[buffer] = len(self.rows)
            numbers = [int(buffer.nbytes), int(buffer.index), int(buffer.place), int(buffer.donated)]
            self.rows.append([buffer.kind, *numbers, of, constant])
        return found

    def constant(self, array: Array) -> int:
        found = self.given.get(id(array))
        if found is None:
            self.nbytes += array.nbytes
            if self.nbytes > MOST_BYTES:
                raise Unwritable
            found = self.given[id(array)] = self.count + len(self.made)
            self.made.append([self.dtypes[_name_of(array.dtype)], list(array.shape), array.nbytes])
            self.tail.append(array.tobytes())
        return found


# -- reading


def _read(
    document: dict[str, Any],
    tail: bytes,
    constants: Sequence[Array],
    kernels: Callable[[list[str]], list[Kernel] | None],
) -> Plan | None:
    dtypes = [as_dtype(name) for name in document["dtypes"]]
    arrays = [np.asarray(array, order="C") for array in constants]
    at = 0
    for dtype, shape, nbytes in document["made"]:
        # A copy, which is aligned.
        arrays.append(np.frombuffer(tail[at : at + nbytes], dtypes[dtype]).reshape(shape).copy())
        at += nbytes
    buffers: list[Buffer] = []
    for kind, nbytes, index, place, donated, of, constant in document["buffers"]:
        array = arrays[constant] if constant >= 0 else None
        buffer = Buffer(kind, nbytes, index, array, bool(donated), buffers[of] if of >= 0 else None)
        buffer.place = place
        buffers.append(buffer)
    views = [
        View(buffers[buffer], dtypes[dtype], tuple(shape), tuple(strides), offset)
        for buffer, dtype, shape, strides, offset in document["views"]
    ]
    found = kernels(document["keys"])
    if found is None:
        return None
    return _parts(document, found, buffers, views, dtypes)


def _parts(
    document: dict[str, Any], found: list[Kernel], buffers: list[Buffer], views: list[View], dtypes: list[Any]
) -> Plan:
    plan = Plan()
    for kind, what, words, places, reads, writes, numbers, label in document["steps"]:
        kernel: Any
        if kind == "kernel":
            kernel = found[what]
        else:
            name, word, rest = what
            when = views[word] if word >= 0 else None
            if kind == "jump":
                kernel = Jump(name, when, rest)
            elif kind == "exchange":
                phase, number = rest
                kernel = Exchange(name, phase, number, when)
            else:
                origin = tuple(_unpacked(v) for v in rest)
                kernel = HostCall(name, made(origin), when, origin)
        for i in places:
            words[i] = views[words[i]]
        step = Step.of_buffers(
            kernel, tuple(words), tuple(buffers[b] for b in reads), tuple(buffers[b] for b in writes), numbers, label
        )
        plan.steps.append(step)
    plan.inputs = [views[v] for v in document["inputs"]]
    plan.outputs = [views[v] for v in document["outputs"]]
    plan.constants = [buffers[b] for b in document["constants"]]
    plan.windows = [buffers[b] for b in document["windows"]]
    plan.prepared = [buffers[b] for b in document["prepared"]]
    plan.moved = [Moved(op, _unpacked(attrs), tuple(shape), dtypes[d]) for op, attrs, shape, d in document["moved"]]
    plan.loops = [(first, last) for first, last in document["loops"]]
    plan.arena, plan.spill = document["arena"], document["spill"]
    if document["preparation"] is not None:
        plan.preparation = _parts(document["preparation"], found, buffers, views, dtypes)
    plan.is_arranged = True
    return plan


# -- plain values, which JSON has only some of


def _packed(value: Any) -> Any:
    """Return a value as JSON has it: None, booleans, integers and text as they are, the others as [kind, ...]."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return ["float", value.hex()]
    if kind is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if kind is tuple or kind is list:
        return [kind.__name__, *map(_packed, value)]
    if kind is dict and all(type(k) is str for k in value):
        return ["dict", *([k, _packed(v)] for k, v in value.items())]
    if isinstance(value, np.dtype):
        return ["dtype", _name_of(value)]
    if isinstance(value, np.generic):
        return ["number", _name_of(value.dtype), value.tobytes().hex()]
    raise Unwritable


@cache
def _name_of(dtype: np.dtype[Any]) -> str:
    """Return the name that stands for a dtype. Raises Unwritable where none does."""
    try:
        if as_dtype(dtype.name) == dtype:
            return dtype.name
    except WengertError:
        pass
    raise Unwritable


def _unpacked(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *rest = value
    return _READERS[kind](*rest)


_READERS: dict[str, Callable[..., Any]] = {
    "float": float.fromhex,
    "complex": lambda real, imag: complex(float.fromhex(real), float.fromhex(imag)),
    "tuple": lambda *values: tuple(map(_unpacked, values)),
    "list": lambda *values: [*map(_unpacked, values)],
    "dict": lambda *items: {k: _unpacked(v) for k, v in items},
    "dtype": as_dtype,
    "number": lambda dtype, text: np.frombuffer(bytes.fromhex(text), as_dtype(dtype))[0],
}
