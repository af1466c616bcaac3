"""One path of a program in a recipe for the compiled entry: its inputs, its run, what it writes and answers.

A call that has begun (`entry`) goes along one path after the other. What the others did before they
turned out not to be the one is of no consequence: nothing outside is written before the last decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....core.spec import Spec, as_dtype, spec_of
from ....core.standins import WeakTensor
from ....core.state.cells import ArrayCell, Cell, TensorCell
from ....core.tensor import Tensor
from ....core.tree import Structure, unflatten
from ...native.codegen.kernel import Kernel
from ...native.compile import Compiled
from ...native.dispatch.code import ENTERED, TURNS
from ...native.dispatch.entry import Label, Memory, Object, Operand, Recipe, Word
from ...native.plan.plan import HostCall
from .. import donation
from ..capture.captured import Captures
from ..program import Path
from ..signature import Call
from ..tracing import Constant, Number, epoch, output_of

# Arrays of at most so many bytes are used again when nobody has them any more: making one takes longer than
# computing what is in it.
_POOLED = 1 << 12


class Rare(Exception):
    """Something that no fast path knows."""


class PathWriter:
    """Writes one path."""

    def __init__(
        self,
        recipe: Recipe,
        call: Call,
        captures: Captures,
        leaves: Sequence[Word],
        scalars: dict[int, np.ndarray[Any, Any]],
        path: Path,
    ) -> None:
        traced = path.traced
        if path.carries or path.first is not None or not isinstance(path.executor, Compiled):
            raise Rare
        if not traced.is_plain:
            raise Rare
        self.recipe, self.call, self.captures, self.leaves, self.scalars = recipe, call, captures, leaves, scalars
        self.path, self.traced, self.plan = path, traced, path.executor.program.plan
        self.do = recipe.do
        if path.writes and any(isinstance(s.kernel, HostCall) and s.kernel.when is None for s in self.plan.steps):
            raise Rare  # what is called back may want a turn too, which Python's way to hold them can tell
        self.seat = path.executor.program.seat()
        self.may_fail = not all(isinstance(s.kernel, Kernel) for s in self.plan.steps)
        recipe.kept[id(self.seat)] = self.seat
        # By the number of an output: the word that holds its array, or the memory of its numbers.
        self.results: dict[int, Word] = {}
        self.numbers: dict[int, np.ndarray[Any, Any]] = {}
        # By the number of an output: tensors of earlier calls, and the word that holds the one to be used again.
        self.again: dict[int, tuple[Object, Word]] = {}
        # By the number of an input: the word that holds its array.
        self.fed: dict[int, Word] = {}
        # By the number of a donated argument: the word that holds its tensor.
        self.kept: dict[int, Word] = {}
        # By the number of an input: the memory that its Python numbers are copied to.
        self.copied: dict[int, np.ndarray[Any, Any]] = {}

    def write(self, others: Sequence[Label | None]) -> None:
        """All of it; where decision i is another one the call goes on at label i, or is given up."""
        if self.seat.lends is not None:
            self.do("call", Object(self.seat.lends[0]))
        self.enter()
        self.feeds()
        self.outputs()
        self.run(others)
        if self.path.writes:
            # Nobody's trace undoes what is written, and no handler of a signal comes in between.
            self.do("settle", Object(epoch))
            self.writes()
            self.do("leave", Word("header", 0))
        if self.seat.lends is not None:
            self.do("call", Object(self.seat.lends[1]))
        self.answer()

    # -- turns

    def enter(self) -> None:
        """Hold the turns of what is written; those of a path that was begun before are given back first."""
        if any(name == "enter" for name, *_ in self.recipe.code):
            self.do("leave", Word("header", 0))
        for turn in self.path.turns(self.call.leaves, self.call.positions, self.captures):
            self.recipe.kept[id(turn)] = turn
            self.do("enter", turn.address, Word("header", ENTERED), Word("header", TURNS))

    # -- inputs

    def feeds(self) -> None:
        """Reads before takes: what this call reads is held, and is copied where it is also to be written into."""
        for (kind, i), there in self.traced.grads_read:
            if kind != "cell gradient":
                raise Rare
            owner = self.recipe.value(Object(self.captures.cells[i].tensor))  # type: ignore[attr-defined]
            if there:
                self.do("has_gradient", owner)
            else:
                none = Label()
                self.do("has_gradient", owner, otherwise=none)
                self.do("jump")
                self.recipe.place(none)
        written = {b for step in self.plan.steps for b in step.writes}
        inputs = list(enumerate(zip(self.traced.sources, self.path.donated, strict=True)))
        taken = [d and self.plan.inputs[k].buffer in written for k, (_, d) in inputs]
        # What Python gives first of all.
        order = sorted(inputs, key=lambda x: (taken[x[0]], not self.is_called(*x[1][0])))
        for k, ((kind, i), _) in order:
            self.feed(k, kind, i, taken[k])
        for i in self.path.given:
            self.kept[i] = self.recipe.hold()
            self.do("keep", self.leaves[self.call.positions[i]], self.kept[i])

    def is_called(self, kind: str, i: int) -> bool:
        cell = self.captures.cells[i] if kind == "cell" else None
        return cell is not None and not isinstance(cell, (TensorCell, ArrayCell)) and not _numbers(cell)

    def feed(self, k: int, kind: str, i: int, taken: bool) -> None:
        place, view = Memory(self.seat.table[self.seat.inputs[k] :]), self.plan.inputs[k]
        # What is looked at before an address is read off an array.
        kinds = kinds_of(view.dtype, view.shape)
        size = (view.buffer.nbytes,) if taken else ()
        how = "take" if taken else "feed"
        if kind == "argument":
            leaf, word = self.call.leaves[self.call.positions[i]], self.leaves[self.call.positions[i]]
            if isinstance(leaf, Tensor):
                self.do(f"{how}_tensor", word, place, self.hold(k), *kinds, *size)
            elif isinstance(leaf, np.ndarray):
                if taken:
                    raise Rare
                self.do("feed_array", word, place, self.hold(k))
            else:
                self.seat.table[self.seat.inputs[k]] = self.scalars[self.call.positions[i]].ctypes.data
            return
        cell = self.captures.cells[i]
        if kind == "cell gradient":
            assert isinstance(cell, TensorCell)
            word = self.recipe.value()
            self.gradient(cell.tensor, view.dtype, view.shape, word)
            self.do("take_gradient" if taken else "feed_tensor", word, place, self.hold(k), *kinds, *size)
        elif kind != "cell":
            raise Rare
        elif isinstance(cell, TensorCell):
            self.do(f"{how}_tensor", self.recipe.value(Object(cell.tensor)), place, self.hold(k), *kinds, *size)
        elif isinstance(cell, ArrayCell) and type(cell.items) is dict:
            self.do(f"{how}_item", Object(cell.items), Object(cell.name), place, self.hold(k), *kinds, *size)
        elif numbers := _numbers(cell):
            memory = self.copied[k] = self.memory(self.seat.inputs[k], len(numbers))
            for n, (items, key) in enumerate(numbers):
                word = self.recipe.value()
                self.do("value", self.recipe.value(Object(items)), Object(key), word)
                self.do(_python_type(cell), word, Memory(memory[n:]))
        elif taken:
            raise Rare
        else:
            self.do("feed_call", Object(cell.get), place, self.hold(k), *kinds)

    def hold(self, k: int) -> Word:
        """The word that holds an input's array."""
        self.fed[k] = self.recipe.hold()
        return self.fed[k]

    def memory(self, entry: int, count: int) -> np.ndarray[Any, Any]:
        """Memory of the recipe's own, at an entry of the table."""
        made = np.zeros(count, np.int64)
        self.seat.table[entry] = made.ctypes.data
        return made

    def gradient(self, owner: Tensor, dtype: Any, shape: Any, word: Word, otherwise: Label | None = None) -> None:
        spec = spec_of(shape, dtype)
        self.do("gradient", self.recipe.value(Object(owner)), Object(Tensor), Object(spec), word, otherwise=otherwise)

    # -- outputs

    def outputs(self) -> None:
        """Where each output goes: into the memory of an input, the place of an old gradient, a new array."""
        arrays = {output_of(r) for r in self.traced.results}
        weakly = {r.output for r in self.traced.results if type(r) is Number}
        numbers = {
            k: cell
            for i, k, _ in self.traced.cell_writes
            if not isinstance(cell := self.captures.cells[i], (TensorCell, ArrayCell)) and _numbers(cell)
        }
        gradients = {g: i for i, g in self.traced.cell_grads if g is not None}
        decisions = {g.output: g for g in self.traced.guards}
        for k, view in enumerate(self.plan.outputs):
            entry_number = self.seat.outputs[k]
            if entry_number is None:
                shared = self.shared(k, {k for i, k, _ in self.traced.cell_writes if self.is_buffer(i)})
                if shared is not None:
                    self.results[k] = shared
                elif k in numbers and k not in arrays and view.buffer.index in self.copied:
                    self.numbers[k] = self.copied[view.buffer.index]
                else:
                    raise Rare
            elif k in decisions or k in numbers:
                if k in arrays or view.size * view.dtype.itemsize > 8 * view.size:
                    raise Rare
                self.numbers[k] = self.memory(entry_number, max(1, view.size))
            else:
                place = Memory(self.seat.table[entry_number:])
                word = self.results[k] = self.recipe.hold()
                item, end = view.dtype.itemsize, Label()
                if k in gradients and k not in arrays and not self.may_fail and view.is_contiguous:
                    old, fresh = self.recipe.value(), Label()
                    owner = self.captures.cells[gradients[k]].tensor  # type: ignore[attr-defined]
                    self.gradient(owner, view.dtype, view.shape, old, fresh)
                    self.do("reuse", old, place, word, *kinds_of(view.dtype, view.shape), otherwise=fresh)
                    self.do("jump", otherwise=end)
                    self.recipe.place(fresh)
                dtype, axes, sizes = kinds_of(view.dtype, view.shape)
                strides = np.array([s * item for s in view.strides], np.int64)
                by = 0 if view.is_contiguous else Memory(strides)
                # Results of a call that is given its arguments are mostly given back to the next one: then they are
                # tensors no more, but their arrays are free. And what a tensor has come to since may lie otherwise.
                whole = view.is_contiguous and k in arrays and k not in weakly
                if view.buffer.nbytes <= _POOLED and whole and not self.path.given:
                    pool, again = Object([None, None]), self.recipe.hold()
                    self.again[k] = pool, again
                    spec = Object(self.spec(k))
                    self.do("pooled_tensor", dtype, axes, sizes, by, place, word, pool, Object(Tensor), spec, again)
                elif view.buffer.nbytes <= _POOLED:
                    self.do("pooled", dtype, axes, sizes, by, place, word, Object([None, None]))
                else:
                    self.do("fresh", dtype, axes, sizes, by, place, word)
                self.recipe.place(end)

    def is_buffer(self, i: int) -> bool:
        """Whether a cell's array is written to by whoever owns it, so that nothing else may share it."""
        return not isinstance(self.captures.cells[i], TensorCell)

    def shared(self, k: int, own: set[int]) -> Word | None:
        """The word of the array that an output without one of its own is: an input's, or another output's.

        Tensors never write to arrays that anything else refers to, so they may share them; those in `own` may not.
        """
        view, earlier = self.plan.outputs[k], self.plan.outputs[:k]
        source = view.buffer
        if source.kind == "input" and view == self.plan.inputs[source.index]:
            kind, i = self.traced.sources[source.index]
            if not source.donated:
                owner = self.call.leaves[self.call.positions[i]] if kind == "argument" else self.captures.cells[i]
                if k in own or not isinstance(owner, (Tensor, TensorCell)):
                    return None
            return self.fed.get(source.index)
        same = next((j for j, other in enumerate(earlier) if other == view and j in self.results), None)
        return None if same is None or k in own or same in own else self.results[same]

    def run(self, others: Sequence[Label | None]) -> None:
        how = "run" if self.seat.is_held else "run_free"
        self.do(how, self.seat.run, self.seat.call, self.seat.steps, Object(self.seat.host))
        for g, other in zip(self.traced.guards, others, strict=True):
            bits = int.from_bytes(g.value, "little")
            if len(g.value) > 8 or bits >= 1 << 63 or g.output not in self.numbers:
                raise Rare
            self.do("decided", Memory(self.numbers[g.output]), bits, otherwise=other)

    def writes(self) -> None:
        for i, k, _ in self.traced.cell_writes:
            cell = self.captures.cells[i]
            if isinstance(cell, TensorCell):
                self.do("write_tensor", Object(cell.tensor), self.results[k], self.recipe.hold())
            elif isinstance(cell, ArrayCell) and type(cell.items) is dict:
                kept = any(s == ("cell", i) and self.fed.get(n) == self.results[k] for n, s in self.sources())
                place = Object(cell.items), Object(cell.name), self.results[k]
                if kept:
                    self.do("write_copied", *place)
                else:
                    self.do("write_item", *place, self.recipe.hold())
            elif k in self.numbers and all(type(items) is dict for items, _ in cell.numbers):
                for n, (items, key) in enumerate(cell.numbers):
                    self.do(f"write_{_python_type(cell)}", Object(items), Object(key), Memory(self.numbers[k][n:]))
            else:
                raise Rare
        for i, g in self.traced.cell_grads:
            owner = Object(self.captures.cells[i].tensor)  # type: ignore[attr-defined]
            if g is None:
                self.do("write_none", owner, self.recipe.hold())
            else:
                made = Object(Tensor), Object(self.spec(g)), self.results[g]
                self.do("write_gradient", owner, *made, self.recipe.hold())

    def sources(self) -> Iterator[tuple[int, tuple[str, int]]]:
        return ((n, (s.kind, s.number)) for n, s in enumerate(self.traced.sources))

    def spec(self, k: int) -> Spec:
        found = self.traced.graph.outputs[k].spec
        assert isinstance(found, Spec)
        return found

    # -- the answer

    def answer(self) -> None:
        made = Word("held", 0)
        self.build(self.traced.structure, iter(self.traced.results), made)
        # Last, for a result may be the very array of an argument.
        for i, where in self.path.given.items():
            if isinstance(self.call.leaves[self.call.positions[i]], Tensor):
                olds = self.recipe.hold(), self.recipe.hold()
                self.do("kill", self.kept[i], Object(donation.Donated), Object(where), *olds)
        self.do("return")

    def build(self, structure: Structure, results: Iterator[Any], to: Word) -> None:
        """Make a pytree of results, held by a word."""
        if structure.kind is None:
            r = next(results)
            if type(r) is Number:
                self.do("made_number", Object(WeakTensor), self.results[r.output], to)
            elif type(r) is not Constant and r in self.again:
                pool, again = self.again.pop(r)
                self.do("made_again", Object(Tensor), Object(self.spec(r)), self.results[r], to, again, pool)
            elif type(r) is not Constant:
                self.do("made", Object(Tensor), Object(self.spec(r)), self.results[r], to)
            elif isinstance(r.value, np.ndarray):
                raise Rare
            else:
                self.do("constant", Object(r.value), to)
        elif structure.kind is type(None):
            self.do("constant", Object(None), to)
        elif structure.kind in (tuple, list):
            count = len(structure.children)
            parts = self.recipe.hold(max(1, count))
            for n, child in enumerate(structure.children):
                self.build(child, results, Word("held", parts.number + n))
            self.do(f"pack_{structure.kind.__name__}", count, parts, to)
        elif structure.kind is dict:
            self.do("pack_dict", to)
            for key, child in zip(structure.aux, structure.children, strict=True):
                part = self.recipe.hold()
                self.build(child, results, part)
                self.do("add_item", to, Object(plain_key(key)), part)
        else:
            count = structure.count
            parts, together = self.recipe.hold(max(1, count)), self.recipe.hold()
            for n in range(count):
                self.build(_LEAF, results, Word("held", parts.number + n))
            self.do("pack_list", count, parts, together)
            self.do("convert", Object(lambda leaves: unflatten(structure, leaves)), together, to)


_LEAF = Structure(None, None, (), None)


def kinds_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Operand, Operand, Operand]:
    """A dtype and a shape as three operands."""
    return Object(as_dtype(dtype)), len(shape), Memory(np.array(shape, np.int64))


def plain_key(key: Any) -> Any:
    """A key whose hash and equality run no code of users'."""
    if type(key) not in (str, int, bytes, bool, type(None)):
        raise Rare
    return key


def _python_type(cell: Cell) -> str:
    return {"f": "float", "i": "int", "u": "uint"}[cell.spec.dtype.kind]


def _numbers(cell: Cell) -> Sequence[tuple[Any, str]]:
    """The Python numbers that make up a cell's value, where they are of the type that goes with its dtype."""
    kind = {"float64": float, "int64": int, "uint64": int}.get(cell.spec.dtype.name)
    numbers = cell.numbers
    if any(type(items.get(name)) is not kind for items, name in numbers):
        return ()
    return numbers if all(isinstance(items, dict) for items, _ in numbers) else ()
