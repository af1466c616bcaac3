"""Cells: the modules and functions whose calls a block defers."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...core.errors import DTypeError, fail
from ...core.mode import get_mode
from ...core.ops.op import Op
from ...core.ops.operands import run_elementwise
from ...core.ops.record import bind
from ...core.state.blocks import LEFT, blocks, current_block
from ..jit.capture.captured import exact
from .joining import Joining
from .kernels import Kernels
from .template import Template, Unfit

F = TypeVar("F", bound=Callable[..., Any])

# Programs of one cell for as many kinds of inputs: one that nobody has marked is ragged if it has more, and then it
# runs as it is written.
_RAGGED, _RAGGED_OP = 24, 256
# With so many kinds of inputs a cell waits for so many calls with the same ones; and as many kinds that wait are known
# at once.
_FEW, _WAITS, _KNOWN = 6, 4, 1024
# How often the kernel of an operation between cells runs through the interpreter before it is compiled.
_PATIENCE = 4
# What is known of a cell for one kind of inputs at once: a model that trains and is tested in turn has two.
_VARIANTS = 4
# The item of an object's dict that marks it as a cell.
MARK = "_is_cell"


class Cell:
    """A cell, with its templates by the kinds of its inputs."""

    __slots__ = ("fn", "is_marked", "joins", "known", "name", "patience", "seen", "why")

    def __init__(self, name: str, fn: Callable[..., Any], is_marked: bool, patience: int = 0) -> None:
        self.name = name
        self.patience = patience
        # Makes the kernels, if these are no graph's.
        self.joins: Callable[[Template, int], Kernels] | None = None
        self.fn = fn
        self.is_marked = is_marked
        # By the kinds of inputs: templates with their kernels; or the reason why there are none.
        self.known: dict[Any, list[tuple[Template, Kernels]] | Unfit] = {}
        self.why: str | None = None
        # How often it was called with kinds of inputs that there is no template for yet.
        self.seen: dict[Any, int] = {}

    def waits(self, key: Any) -> bool:
        """Return whether a call with new kinds of inputs is left to the caller, which calls other cells.

        One that nobody has marked waits for further calls with the same kinds once it has had many: it may be a model
        of sequences, whose kinds have no end. An operation waits for a second call.
        """
        if self.is_marked or self.joins is not None or len(self.known) < _FEW:
            return False
        if len(self.seen) >= _KNOWN:
            self.seen.clear()
        self.seen[key] = times = self.seen.get(key, 0) + 1
        return times <= (1 if self.is_op else _WAITS)

    @property
    def is_op(self) -> bool:
        """True for an operation between cells."""
        return self.patience > 0

    @property
    def is_ragged(self) -> bool:
        """True if the cell was called with too many kinds of inputs to make a program for each."""
        return not self.is_marked and len(self.known) > (_RAGGED_OP if self.is_op else _RAGGED)

    def add(self, key: Any, template: Template) -> tuple[Template, Kernels]:
        """Add a template for a kind of inputs; templates that are too many are forgotten."""
        found = self.known.get(key)
        if not isinstance(found, list):
            found = self.known[key] = []
        made = template, (self.joins or Kernels)(template, self.patience)
        found.insert(0, made)
        del found[_VARIANTS:]
        return made


class Kept:
    """The cells that an object keeps: its own, and those of its methods. Copies of the object have none of them."""

    __slots__ = ("methods", "own")

    def __init__(self) -> None:
        self.own: Cell | None = None
        self.methods: dict[Any, Cell] = {}

    def __reduce__(self) -> Any:
        return Kept, ()

    def __deepcopy__(self, memo: Any) -> Kept:
        return Kept()


def cell_of_module(module: Any) -> Cell:
    """Return the cell that a module is."""
    own = module.__dict__
    kept = own.get("_cells")
    if kept is None:
        kept = own["_cells"] = Kept()
    found = kept.own
    if found is None:
        cls = type(module)
        is_marked = MARK in own or getattr(cls, MARK, False)
        found = kept.own = Cell(cls.__name__, module, is_marked)
        if not is_marked:
            found.why = _why_not(cls)  # type: ignore[arg-type]
    return found  # type: ignore[no-any-return]


@functools.cache
def _why_not(cls: Any) -> str | None:
    """Return why modules of a class are no cells unless somebody marks them; None if they are."""
    forward: Any = cls.forward
    code = getattr(forward, "__code__", None)
    if cls.__module__.startswith("wengert.") or code is None:
        return None
    if any(i.opname.startswith("JUMP_BACKWARD") for i in dis.get_instructions(code)):
        return "its forward has a loop: what it calls is batched"
    return None


def exactly(attrs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return attributes as a hashable value, and their types and bits, by which equal ones may differ."""
    return tuple(sorted(attrs.items())), tuple(map(_bits, attrs.values()))


def _bits(value: Any) -> Any:
    return tuple(map(_bits, value)) if type(value) is tuple else (type(value), exact(value))


@functools.lru_cache(maxsize=4096)
def cell_of_op(op: Op, attrs: tuple[tuple[str, Any], ...], bits: Any) -> Cell:
    """Return the cell that an operation with attributes is, between the cells of a program."""

    def run(*args: Any) -> Any:
        if op.kind == "composite":
            return op.front(*args, **dict(attrs))
        return (run_elementwise if op.kind == "elementwise" else bind)(op, args, dict(attrs))

    made = Cell(op.name, run, False, _PATIENCE)
    if op.name == "stack":
        made.joins = Joining
    return made


class CellFunction:
    """A function that is a cell; see :func:`cell`."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self._cells = Kept()
        functools.update_wrapper(self, fn, updated=())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; inside a block the call is deferred."""
        if blocks and (block := current_block()) is not None and not get_mode().tracing:
            frame = sys._getframe(1)
            found, rest = self._cell(args)
            out = block.take(found, rest, kwargs, frame.f_code, frame.f_lasti)  # type: ignore[attr-defined]
            if out is not LEFT:
                return out
        return self._fn(*args, **kwargs)

    def _cell(self, args: tuple[Any, ...]) -> tuple[Cell, tuple[Any, ...]]:
        """Return the cell, and the arguments without the object that the function is a method of."""
        if args and hasattr(type(args[0]), "named_parameters"):
            instance = args[0]
            kept = instance.__dict__.get("_cells")
            if kept is None:
                kept = instance.__dict__["_cells"] = Kept()
            found = kept.methods.get(self._fn)
            if found is None:
                method = types.MethodType(self._fn, instance)
                name = f"{type(instance).__name__}.{self._fn.__name__}"
                found = kept.methods[self._fn] = Cell(name, method, True)
            return found, args[1:]
        found = self._cells.own
        if found is None:
            name = getattr(self._fn, "__name__", type(self._fn).__name__)
            found = self._cells.own = Cell(name, self._fn, True)
        return found, args

    def __repr__(self) -> str:
        return f"<cell {self._fn!r}>"


def cell(fn: F) -> F:
    """Mark a function, a method, a module or a class of modules as a cell, whose calls a block of batching defers.

    Outside of blocks nothing changes. A cell takes and returns pytrees of tensors; other arguments are part of it.
    What it computes may depend on the shapes of its inputs and not on their values. One that asks for a value runs as
    it is written.

    A module needs no mark if its `forward` has no loop: see :func:`wengert.batching`.

    Raises DTypeError for what cannot be called.

    >>> import wengert as wg
    >>> @wg.cell
    ... def add(a, b):
    ...     return wg.tanh(a + b)
    >>> with wg.batching():
    ...     x = add(wg.tensor([1.0]), wg.tensor([2.0]))
    ...     y = add(x, wg.tensor([3.0]))
    >>> y
    tensor([0.9993])
    """
    if isinstance(fn, type):
        setattr(fn, MARK, True)
        return fn
    if hasattr(type(fn), "named_parameters"):
        fn.__dict__.update({MARK: True, "_cells": None})
        return fn
    if not callable(fn):
        fail(DTypeError, f"cell({type(fn).__name__}): it cannot be called")
    return CellFunction(fn)  # type: ignore[return-value]
