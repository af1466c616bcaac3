"""Inputs of a model, made from what its document says of them."""

from __future__ import annotations

import ast
import json
import operator
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import refuse, shown
from .model import Value

# Sizes of axes that nothing says: of the first axis of an input, and of the others, tried in turn until the model runs.
FIRST = 1
OTHERS = (8, 16, 32, 64, 128, 224)
# Bytes that an input which is made may take.
_LARGEST = 1 << 30
# Operators that hand indices on as they are.
_PASSING = frozenset({"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Transpose", "Slice", "Expand"})
_FILLS = ("normal", "uniform", "zeros", "ones", "range")
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_LONGEST_EXPRESSION = 200


@dataclass(frozen=True)
class Wanted:
    """The wishes of whoever opens a model: inputs, sizes of axes by name, the seed of what is made."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True)
class Made:
    """The inputs of a run, and what is told of them: name, dtype, shape and how each was made; sizes by name.

    `guessed` are the names of sizes that are neither first axes nor were given.
    """

    values: dict[str, Any]
    told: list[dict[str, Any]]
    sizes: dict[str, int]
    guessed: frozenset[str]
    seed: int

    def entry(self) -> dict[str, Any]:
        """Return the document's entry for the inputs: see `meta.inputs` in the schema."""
        return {"seed": self.seed, "sizes": self.sizes, "list": self.told}


def make(inputs: Sequence[Value], bounds: Mapping[str, int], wanted: Wanted, other: int = OTHERS[0]) -> Made:
    """Return inputs for a model.

    Parameters
    ----------
    inputs: what the document says of them.
    bounds: how many rows there are in what an input of indices picks from, by the input's name.
    wanted: inputs that are given, sizes, the seed.
    other: the size of axes that nothing says and that are not the first.

    Raises OnnxError for sizes and inputs that the model does not have, and for what cannot be made.
    """
    given = _given(inputs, wanted)
    sizes = _Sizes(inputs, given, wanted.sizes, other)
    values: dict[str, Any] = {}
    told = []
    for value in inputs:
        how = given.get(value.name, "")
        if isinstance(how, str):
            how = how.strip()
            if value.kind == "optional" and not how:
                continue
            made, how = _made(value, how, sizes, bounds, wanted.seed)
        else:
            made, how = how, "given"
        values[value.name] = made
        dtype = "" if value.dtype is None else "text" if value.dtype.kind == "O" else value.dtype.name
        told.append({"name": value.name, "dtype": dtype, "shape": list(_shape(made)), "how": how})
    return Made(values, told, dict(sizes.known), frozenset(sizes.guessed), wanted.seed)


def _given(inputs: Sequence[Value], wanted: Wanted) -> dict[str, Any]:
    names = [v.name for v in inputs]
    if len(wanted.args) > len(names):
        refuse(f"the model takes {len(names)} inputs and is given {len(wanted.args)}")
    given = dict(zip(names, wanted.args))
    for name, value in wanted.kwargs.items():
        if name not in names:
            refuse(f"the model has no input {shown(name)!r}", f"They are: {', '.join(map(shown, names))}.")
        given[name] = value
    return given


class _Sizes:
    """The sizes of axes by name: given, those of inputs that are given, and guesses."""

    def __init__(
        self, inputs: Sequence[Value], given: Mapping[str, Any], wanted: Mapping[str, int], other: int
    ) -> None:
        self.known: dict[str, int] = {}
        self.guessed: set[str] = set()
        self.other = other
        self.wanted = dict(wanted)
        for value in inputs:
            array = given.get(value.name)
            if array is None or isinstance(array, str):
                continue
            for name, n in zip(axis_names(value), _shape(array)):
                if isinstance(name, str):
                    self.wanted.setdefault(name, int(n))
        known = {n for v in inputs for n in axis_names(v) if isinstance(n, str)}
        for name, n in wanted.items():
            if name not in known and not any(name in _names(k) for k in known):
                told = f"They are: {', '.join(sorted(map(shown, known)))}." if known else "All sizes are known."
                refuse(f"the model has no size {shown(name)!r}", told)
            if n < 0:
                refuse(f"the size {shown(name)!r} is {n}", "Give a size from 0.")
        self.names = known

    def of(self, value: Value) -> tuple[int, ...]:
        """Return the shape of an input."""
        return tuple(n if isinstance(n, int) else self._size(n, axis == 0) for axis, n in enumerate(axis_names(value)))

    def _size(self, name: str, first: bool) -> int:
        if name in self.wanted:
            self.known[name] = self.wanted[name]
        if name not in self.known:
            parts = _names(name)
            if parts and name not in parts:
                found = _evaluated(name, {part: self._size(part, False) for part in parts})
                if found is not None and found >= 0:
                    return found
            self.known[name] = FIRST if first else self.other
            if not first:
                self.guessed.add(name)
        return self.known[name]


def axis_names(value: Value) -> list[int | str]:
    """Return the axes of an input: sizes, or names of sizes; an axis without either is called after the input."""
    shape = value.shape or ()
    return [n if isinstance(n, int) and n >= 0 else str(n or f"{value.name}_{i}") for i, n in enumerate(shape)]


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _names(text: str) -> set[str]:
    """Return the names in an expression of sizes such as `past + length`; none in anything else."""
    try:
        tree = ast.parse(text[:_LONGEST_EXPRESSION], mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _evaluated(text: str, sizes: Mapping[str, int]) -> int | None:
    """Return the value of sums, differences and products of sizes; None of anything else."""

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Name):
            return sizes[node.id]
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError

    try:
        return value(ast.parse(text[:_LONGEST_EXPRESSION], mode="eval").body)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, MemoryError, RecursionError):
        return None


def _made(value: Value, how: str, sizes: _Sizes, bounds: Mapping[str, int], seed: int) -> tuple[Any, str]:
    """Return the value of an input and how it was made; `how` may be a fill, or JSON."""
    what = f"input {shown(value.name)!r}"
    if how and how not in _FILLS:
        return _literal(value, how, what), how
    if value.kind != "tensor" or value.dtype is None:
        refuse(f"{what} is a {value.kind}, which is not made", "Give it: wg.explore(path, **inputs).")
    if value.shape is None:
        refuse(f"{what} has no shape in the document", "Give it: wg.explore(path, **inputs).")
    shape = sizes.of(value)
    count = int(np.prod(shape, dtype=object))
    if count * max(1, value.dtype.itemsize) > _LARGEST:
        refuse(f"{what} of shape {shape} asks for more than {_LARGEST:,} bytes", "Give smaller sizes.")
    rng = np.random.default_rng([seed % 2**32, zlib.crc32(value.name.encode())])
    how = how or _usual(value, bounds)
    if value.dtype.kind == "O":
        return np.full(shape, "text", dtype=object).tolist(), "text"
    return _filled(how, shape, value.dtype, bounds.get(value.name), rng), how


def _usual(value: Value, bounds: Mapping[str, int]) -> str:
    """Return how an input is made that nothing is said of."""
    assert value.dtype is not None
    name = value.name.lower()
    if "mask" in name:
        return "ones"
    if value.dtype.kind in "iu" and "position" in name:
        return "range"
    return "normal" if value.dtype.kind in "fcV" else "uniform"


def _filled(how: str, shape: tuple[int, ...], dtype: np.dtype[Any], bound: int | None, rng: np.random.Generator) -> Any:
    if how in ("zeros", "ones"):
        return np.full(shape, how == "ones").astype(dtype)
    if how == "range":
        return np.broadcast_to(np.arange(shape[-1] if shape else 1), shape or (1,)).reshape(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, max(1, bound if bound is not None else 2), shape).astype(dtype)
    numbers = rng.standard_normal(shape) if how == "normal" else rng.uniform(0, 1, shape)
    if dtype.kind == "c":
        numbers = numbers + 1j * rng.standard_normal(shape)
    return np.asarray(numbers).astype(dtype)


def _literal(value: Value, text: str, what: str) -> Any:
    try:
        found = json.loads(text)
        if value.dtype is None or value.dtype.kind == "O":
            return found
        return np.asarray(found).astype(value.dtype)
    except (ValueError, TypeError, RecursionError, OverflowError) as e:
        refuse(
            f"{what} is given as {shown(text, 40)!r}, which is none: {shown(str(e), 80)}",
            f"Give JSON such as [1, 2], or one of: {', '.join(_FILLS)}.",
        )


def bounds_of(graph: Any) -> dict[str, int]:
    """Return, of inputs that are indices of rows of initializers, how many rows there are."""
    rows = {t.name: t.dims[0] for t in graph.initializer if len(t.dims)}
    source = {v.name: v.name for v in graph.input if v.name not in rows}
    found: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in _PASSING and node.input and node.input[0] in source and node.output:
            source[node.output[0]] = source[node.input[0]]
        elif node.op_type == "Gather" and len(node.input) == 2:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            if axis == 0 and node.input[0] in rows and node.input[1] in source:
                name = source[node.input[1]]
                found[name] = min(found.get(name, rows[node.input[0]]), rows[node.input[0]])
    return found
