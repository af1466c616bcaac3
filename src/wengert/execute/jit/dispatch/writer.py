"""The writer of dispatch programs, for calls like one that was made: checks of its arguments, and each path."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....core.elsewhere import CPU, place_of, spec_at
from ....core.mode import get_mode
from ....core.node import Hooked
from ....core.ops.op import LEAF
from ....core.spec import Spec
from ....core.standins import DataView, WeakTensor
from ....core.state.capture import open_variables
from ....core.state.cells import ArrayCell, Cell, TensorCell
from ....core.storage import is_shared, strides_of, window_of
from ....core.tensor import Tensor
from ....core.tree import Structure
from ...native.compile import Compiled
from ..capture.captured import Captures
from ..capture.results import Constant, Itself, Taken, class_of, is_of_argument, node_of, output_of
from ..program import Path
from ..signature import Call
from .program import Dispatch, PathProgram, Register


class _Rare(Exception):
    """An error: no dispatch program does this, such calls go the general way."""


def dispatch_program(call: Call, captures: Captures, paths: Sequence[Path]) -> Dispatch | None:
    """Return the dispatch program for calls like this one; None where such calls go the general way.

    It takes the first of the paths for the likeliest, and goes over to the others as decisions fall.
    """
    try:
        return _Writer(call, captures, paths).program
    except _Rare:
        return None


class _Writer:
    """A writer of one program."""

    def __init__(self, call: Call, captures: Captures, paths: Sequence[Path]) -> None:
        positional, keywords = call.structure.children
        if keywords.children:
            raise _Rare
        self.call, self.captures = call, captures
        self.program = Dispatch(len(positional.children))
        self.do = self.program.do
        mode = get_mode()
        self.do("mode", mode.grad, mode.floats, mode.autocast, mode.engine)
        self.written = _written(captures, paths)
        for t, *_ in self.written:
            if is_shared(t):
                raise _Rare
            self.do("alone", t, False)
        for t in dict.fromkeys(t for path in paths for t, stays in _gradients(captures, path) if stays):
            self.do("alone", t, True)
        for i, child in enumerate(positional.children):
            self.argument(child, Register("a", i))
        self.do("captured", captures)
        # From one path only to a later one, so that no call goes round in circles.
        likeliest, *others = paths
        _PathWriter(call, captures, self.program, likeliest).write()
        for path in sorted(others, key=lambda p: -len(p.decisions)):
            try:
                _PathWriter(call, captures, self.program, path).write()
            except _Rare:
                continue
        _lead_on(self.program)

    def argument(self, structure: Structure, a: Register) -> None:
        """Check one argument, and name its leaves."""
        if structure.kind is None:
            self.leaf(a)
        elif structure.kind is type(None):
            self.do("is", a, None)
        elif structure.kind in (tuple, list):
            parts = tuple(self.program.value() for _ in structure.children)
            self.do(structure.kind.__name__, a, parts)
            for part, child in zip(parts, structure.children, strict=True):
                self.argument(child, part)
        elif structure.kind is dict:
            self.do("dict", a, len(structure.children))
            for key, child in zip(structure.aux, structure.children, strict=True):
                part = self.program.value()
                self.do("item", a, key, part)
                self.argument(child, part)
        else:
            raise _Rare

    def leaf(self, a: Register) -> None:
        index = len(self.program.leaves)
        leaf = self.call.leaves[index]
        self.program.leaves.append(a)
        kind = type(leaf)
        if isinstance(leaf, Tensor):
            first = next(i for i, other in enumerate(self.call.leaves) if other is leaf)
            if first < index:  # one input for both
                self.do("same", a, self.program.leaves[first])
            else:
                self.tensor(leaf, a)
        elif kind is np.ndarray:
            if not leaf.dtype.isnative:
                raise _Rare
            self.do("array", a, leaf.dtype, leaf.shape)
        elif index in self.call.positions:
            if kind not in (int, float, complex):
                raise _Rare
            self.do("number", a, kind)
        elif kind is types.MethodType:  # made anew whenever it is asked for
            self.do("method", a, id(leaf.__self__), id(leaf.__func__))
        elif any(i == index for i, _ in self.call.owners):
            self.do("identity", a, id(leaf))  # the program is dropped before it is gone (`guests`)
        else:
            self.do("equal", a, leaf)

    def tensor(self, leaf: Tensor, a: Register) -> None:
        if (
            leaf._array is None
            or (id(leaf),) in self.captures.numbers
            or isinstance(leaf, DataView)
            or strides_of(leaf)
        ):
            raise _Rare
        node = leaf.node
        tracked = node is not None and node.requires_grad
        if isinstance(leaf, WeakTensor):
            self.do("weak", a, type(leaf), leaf.dtype, leaf.shape, tracked)
        else:
            self.do("tensor", a, type(leaf), leaf._spec, tracked)
        if leaf.writes_through is not None and type(window_of(leaf)) is np.ndarray:
            self.do("row_major", a)
        if node is not None and tracked:
            collects = node.op is LEAF
            if type(node.saved) is Hooked or (not collects and open_variables):
                raise _Rare
            self.do("tracked", a, collects)
            if not collects:
                self.do("unobserved")
        own = None if isinstance(leaf, WeakTensor) else leaf._spec
        alike = tuple(
            t for t, spec, has_node in self.written if has_node is tracked and (spec is own or None in (spec, own))
        )
        if alike:  # what reads its argument while it writes to it is another program
            self.do("not_written", a, alike)


def _written(captures: Captures, paths: Sequence[Path]) -> list[tuple[Tensor, Spec | None, bool]]:
    """Return the tensors that paths write to, each with the spec it is known to have, and whether it has a node."""
    known = {id(c.holder): c.value for c in captures.checks if c.kind == "tensor"}
    cells = {i: captures.cells[i] for path in paths for i, *_ in path.traced.cell_writes}
    tensors = [cell.tensor for cell in cells.values() if isinstance(cell, TensorCell)]
    return [(t, known[id(t)][0] if id(t) in known else None, t.requires_grad) for t in tensors]


def _gradients(captures: Captures, path: Path) -> Iterator[tuple[Tensor, bool]]:
    """Yield the tensors whose gradients a path writes, each with whether the gradient's tensor stays."""
    for i, _, stays in path.traced.cell_grads:
        yield captures.cells[i].tensor, stays  # type: ignore[attr-defined]


class _PathWriter:
    """A writer of one path, which becomes part of the program only when it is done."""

    def __init__(self, call: Call, captures: Captures, program: Dispatch, path: Path) -> None:
        self.call, self.captures, self.program, self.path = call, captures, program, path
        self.traced = path.traced
        self.code = PathProgram(path)
        self.do = self.code.do
        self.results = 0
        # By the number of a result: its register.
        self.built: dict[int, Register] = {}
        if not self.traced.is_plain or path.first is not None or (path.carries and self.traced.has_effects):
            raise _Rare

    def write(self) -> None:
        turns = self.path.turns(self.call.leaves, self.call.positions, self.captures)
        if turns:
            self.do("turns", turns)
        for (kind, i), there in self.traced.grads_read:
            if kind != "cell gradient":
                raise _Rare
            self.do("has_gradient" if there else "no_gradient", self.captures.cells[i].tensor)  # type: ignore[attr-defined]
        self.feeds()
        self.run()
        if self.path.writes:
            self.do("commit")
            self.writes()
            self.do("committed")
        self.do("return", self.build(self.traced.structure, iter(self.traced.results)))
        self.program.paths.append(self.code)

    # -- feed

    def feeds(self) -> None:
        """Feed the values that Python gives, then those read, then those taken, so that reads are held first."""
        sources = list(enumerate(zip(self.traced.sources, self.path.donated, strict=True)))
        into = self.written_into()
        for k, ((kind, i), donated) in sorted(
            sources, key=lambda s: (s[1][1], s[0] in into, not self.is_asked(*s[1][0]))
        ):
            self.feed(Register("i", k), kind, i, "take" if donated else "feed")
        for i in self.path.given:
            if isinstance(self.call.leaves[self.call.positions[i]], Tensor):
                self.do("keep", self.leaf(i))
        for i in sorted({r.source.number for r in self.traced.results if is_of_argument(r)}):
            if i not in self.path.given and isinstance(self.call.leaves[self.call.positions[i]], Tensor):
                self.do("keep", self.leaf(i))

    def written_into(self) -> set[int]:
        """Return the inputs that native code writes into."""
        if not isinstance(self.path.executor, Compiled):
            return set()
        plan = self.path.executor.program.plan
        written = {b for step in plan.steps for b in step.writes}
        return {k for k, view in enumerate(plan.inputs) if view.buffer in written}

    def is_asked(self, kind: str, i: int) -> bool:
        """Return whether code of Python's gives the value."""
        cell = self.captures.cells[i] if kind == "cell" else None
        return cell is not None and not isinstance(cell, (TensorCell, ArrayCell)) and not numbers_of(cell)

    def leaf(self, i: int) -> Register:
        """Return the register of an argument that is an input, by its number."""
        return self.program.leaves[self.call.positions[i]]

    def feed(self, k: Register, kind: str, i: int, how: str) -> None:
        if kind == "argument":
            self.feed_argument(k, i, how)
            return
        cell = self.captures.cells[i]
        spec = self.traced.graph.inputs[k.number].spec
        assert isinstance(spec, Spec)
        if kind == "cell gradient":
            owner: Tensor = cell.tensor  # type: ignore[attr-defined]
            self.do(f"{how}_gradient", k, owner, spec if place_of(owner) == CPU else self.there(spec))
        elif kind != "cell":
            raise _Rare
        elif isinstance(cell, TensorCell):
            if self.path.carries and cell.tensor.requires_grad:
                self.do("feed_tracked", k, cell.tensor)
                return
            self.do(f"{how}_tensor", k, cell.tensor, spec.dtype, spec.shape)
        elif isinstance(cell, ArrayCell) and type(cell.items) is dict:
            self.do(f"{how}_item", k, cell.items, cell.name, spec.dtype, spec.shape)
        elif numbers_of(cell):
            self.do("feed_numbers", k, cell)
        else:
            self.do(f"{how}_cell", k, cell, spec.dtype, spec.shape)
        if self.path.carries:
            self.do("wrap", k, False)

    def feed_argument(self, k: Register, i: int, how: str) -> None:
        leaf, a = self.call.leaves[self.call.positions[i]], self.leaf(i)
        if isinstance(leaf, Tensor):
            if self.path.carries and leaf.requires_grad:
                self.do("feed_tracked", k, a)
                return
            self.do(f"{how}_tensor", k, a, leaf.dtype, leaf.shape)
        elif isinstance(leaf, np.ndarray):
            self.do(f"{how}_array", k, a)
        else:
            self.do("feed_number", k, a)
        if self.path.carries:  # the record keeps values, which a caller's array might not stay
            self.do("wrap", k, isinstance(leaf, np.ndarray))

    # -- run

    def run(self) -> None:
        inputs = tuple(Register("i", k) for k in range(len(self.traced.sources)))
        if self.path.carries:
            owners = [self.owner(*source) for source in self.traced.sources]
            tracked = tuple(k for k, x in enumerate(owners) if isinstance(x, Tensor) and x.requires_grad)
            self.do("record", inputs, self.path.records[tracked])
        else:
            self.do("run", inputs)
        for g in self.traced.guards:
            self.do("decide", Register("o", g.output), g.value, None)

    def owner(self, kind: str, i: int) -> Any:
        """Return the owner of an input's value: a leaf of the arguments, a cell's tensor."""
        if kind == "argument":
            return self.call.leaves[self.call.positions[i]]
        return getattr(self.captures.cells[i], "tensor", None) if kind == "cell" else None

    # -- write

    def writes(self) -> None:
        for i, k, *_ in self.traced.cell_writes:
            cell, output = self.captures.cells[i], Register("o", k)
            if isinstance(cell, TensorCell):
                self.do("write_tensor", cell.tensor, output)
            elif isinstance(cell, ArrayCell) and type(cell.items) is dict:
                self.do("write_item", cell.items, cell.name, output)
            elif numbers_of(cell) and all(type(items) is dict for items, _ in cell.numbers):
                self.do("write_numbers", cell, output)
            else:
                self.do("write_cell", cell, output)
        for i, g, stays in self.traced.cell_grads:
            owner = self.captures.cells[i].tensor  # type: ignore[attr-defined]
            if g is None:
                self.do("write_no_gradient", owner)
            else:
                name = "write_into_gradient" if stays else "write_gradient"
                self.do(name, owner, self.spec(g), Register("o", g))
        for i, where in self.path.given.items():
            if isinstance(self.call.leaves[self.call.positions[i]], Tensor):
                self.do("consume", self.leaf(i), where)

    def spec(self, k: int) -> Spec:
        found = self.traced.graph.outputs[k].spec
        assert isinstance(found, Spec)
        return found if k in self.path.here else self.there(found)

    def there(self, spec: Spec) -> Spec:
        """Return the spec of a value that is where the path runs."""
        return spec if self.path.place == CPU else spec_at(spec.shape, spec.dtype, self.path.place)

    # -- build

    def build(self, structure: Structure, results: Iterator[Any]) -> Register:
        """Make a pytree of results, and return its register."""
        if structure.kind is None:
            return self.next(results)
        if structure.kind is type(None):
            return self.made("constant", None)
        if structure.kind in (tuple, list, dict):
            parts = tuple(self.build(child, results) for child in structure.children)
            if structure.kind is dict:
                return self.made("pack_dict", tuple(structure.aux), parts)
            return self.made(f"pack_{structure.kind.__name__}", parts)
        parts = tuple(self.next(results) for _ in range(structure.count))
        return self.made("convert", structure, parts)

    def next(self, results: Iterator[Any]) -> Register:
        found = self.built[len(self.built)] = self.result(next(results))
        return found

    def result(self, r: Any) -> Register:
        if type(r) is Constant:
            # The caller may write into an array.
            return self.made("copy" if isinstance(r.value, np.ndarray) else "constant", r.value)
        if type(r) is Itself:
            kind, i = r.source
            if kind == "result" and i in self.built:
                return self.made("again", self.built[i])
            same = self.path.itself(r.source, self.call.leaves, self.call.positions, self.captures)
            if same is not None:
                return self.made("constant", same) if kind == "cell" else self.made("argument", self.leaf(i))
            r = r.value
        if type(r) is Taken:
            return self.taken(r)
        k = output_of(r)
        assert k is not None
        cls, output = class_of(r), Register("o", k)
        weakly = cls is WeakTensor
        if self.path.carries and k in self.traced.tracked:
            return self.made("carried_weak", output) if weakly else self.made("carried", cls, output)
        if weakly:
            return self.made("make_weak", output)
        node = node_of(r)
        if node is not None:
            return self.made("make_of", cls, self.spec(k), node, output)
        return self.made("make", cls, self.spec(k), output)

    def taken(self, r: Taken) -> Register:
        view, (kind, i) = self.result(r.value), r.source
        if kind == "result":
            if i not in self.built:
                raise _Rare  # the view comes first
            return self.made("taken", self.built[i], view, r.taken)
        owner = self.path.itself(r.source, self.call.leaves, self.call.positions, self.captures)
        if owner is None:
            return view
        held = self.made("constant", owner) if kind == "cell" else self.made("argument", self.leaf(i))
        return self.made("taken", held, view, r.taken)

    def made(self, name: str, *operands: Any) -> Register:
        result = Register("r", self.results)
        self.results += 1
        self.do(name, result, *operands)
        return result


def _lead_on(program: Dispatch) -> None:
    """Name for each decision of each path the path to go on with if it falls otherwise: the longest that fits.

    From a longer one it shows where it ends.
    """
    paths = [code.path.decisions for code in program.paths]
    for n, code in enumerate(program.paths):
        taken = 0
        for at, instruction in enumerate(code.code):
            if instruction.name != "decide":
                continue
            output, value, _ = instruction.operands
            i, taken = taken, taken + 1
            fits = (
                k
                for k in range(n + 1, len(paths))
                if paths[k][:i] == paths[n][:i] and len(paths[k]) > i and paths[k][i] != value
            )
            code.code[at] = instruction._replace(operands=(output, value, next(fits, None)))


def numbers_of(cell: Cell) -> Sequence[tuple[Any, str]]:
    """Return the items of dicts that make up a cell's value, where all are Python numbers of its dtype's type."""
    kind = {"float64": float, "int64": int, "uint64": int}.get(cell.spec.dtype.name)
    numbers = cell.numbers
    if any(type(items.get(name)) is not kind for items, name in numbers):
        return ()
    return numbers if all(isinstance(items, dict) for items, _ in numbers) else ()
