"""The native form of a dispatch program's path: its inputs, its run, what it writes and builds.

A call that has begun goes along one path after the other. What the others did before they turned out not to be the
one is of no consequence: nothing outside is written before the last decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ....core.node import Node
from ....core.spec import Spec, as_dtype
from ....core.standins import WeakTensor
from ....core.state.cells import Cell
from ....core.state.turns import Turn
from ....core.tensor import Tensor
from ....core.tree import Structure, unflatten
from ...native.codegen.kernel import Kernel
from ...native.compile import Compiled
from ...native.dispatch.assembler import Assembler, Label, Memory, Object, Operand, Word
from ...native.dispatch.code import ENTERED, TURNS
from ...native.plan.plan import HostCall, View
from ...native.run.runtime import Seat
from .. import donation
from ..tracing import epoch
from .program import PathProgram, Register
from .writer import numbers_of

# Arrays of at most so many bytes are used again when nobody has them any more: making one takes longer than
# computing what is in it. So are large ones, up to a limit: the system gives memory of that size anew each time, and
# clears it page by page. As many are kept as were needed at once.
_POOLED = 1 << 12
_LARGE = range(1 << 20, 1 << 28)


class Unsupported(Exception):
    """An error: native code cannot do something, which Python's interpreter does."""


class NativePath:
    """A path; `words` and `numbers` say where the arguments' leaves are, and copies of Python numbers among them."""

    def __init__(
        self,
        out: Assembler,
        words: Mapping[Register, Word],
        numbers: Mapping[Register, np.ndarray[Any, Any]],
        code: PathProgram,
    ) -> None:
        path = code.path
        if path.carries:
            raise Unsupported
        # Seen before anything is written: what such an instruction reads may have no place here, as a view's owner.
        if any(getattr(type(self), f"on_{i.name}") is NativePath.by_python for i in code.code):
            raise Unsupported
        self.out, self.words, self.copied, self.code, self.path = out, words, numbers, code, path
        self.do = out.do
        self.labels: Sequence[Label] = ()
        # By the number of an input: the word that holds its array.
        self.fed: dict[int, Word] = {}
        # By the number of an input or output: the memory of its numbers.
        self.given: dict[int, np.ndarray[Any, Any]] = {}
        self.numbers: dict[int, np.ndarray[Any, Any]] = {}
        # By the number of a decision's output: the check and the memory, where it has none of its own.
        self.decided: dict[int, tuple[str, Memory]] = {}
        # By the number of an output: the word that holds its array.
        self.results: dict[int, Word] = {}
        # By the number of an output: tensors of earlier calls, and the word that holds the one to be used again.
        self.again: dict[int, tuple[Object, Word]] = {}
        # By the register of a donated argument: the word that holds its tensor.
        self.kept: dict[Register, Word] = {}
        # By the register of a result: the word that is to hold it.
        self.to: dict[Register, Word] = {}
        self.prepare()

    def prepare(self) -> None:
        """Take a seat at the program."""
        executor = self.path.executor
        if not isinstance(executor, Compiled):
            raise Unsupported
        self.plan = executor.program.plan
        if self.path.writes and any(isinstance(s.kernel, HostCall) and s.kernel.when is None for s in self.plan.steps):
            raise Unsupported  # what is called back may want a turn too, which Python's way to hold them can tell
        self.seat = executor.program.seat()
        self.may_fail = not all(isinstance(s.kernel, Kernel) for s in self.plan.steps)
        self.written = {b for step in self.plan.steps for b in step.writes}
        self.out.kept[id(self.seat)] = self.seat

    @property
    def seats(self) -> Sequence[Seat]:
        """The seats at programs of native code."""
        return (self.seat,)

    def write(self, labels: Sequence[Label]) -> None:
        """Write the path; a decision that falls otherwise goes on at another path's label, or gives the call up."""
        self.labels = labels
        self.borrow()
        if any(name == "enter" for name, *_ in self.out.code):  # by a path that was begun before
            self.do("leave", Word("header", 0))
        self.place_results()
        for i in self.code.code:
            getattr(self, f"on_{i.name}")(*i.operands)

    def borrow(self) -> None:
        """Borrow memory that is shared, if there is such."""
        if self.seat.lends is not None:
            self.do("call", Object(self.seat.lends[0]))

    def give_back(self) -> None:
        """Give back what was borrowed."""
        if self.seat.lends is not None:
            self.do("call", Object(self.seat.lends[1]))

    @property
    def is_disturbed(self) -> bool:
        """Return whether code of Python's runs, and other threads with it, before all inputs are fed."""
        return self.seat.lends is not None or any(i.name in ("feed_cell", "take_cell") for i in self.code.code)

    def place_results(self) -> None:
        """Place the results in words: those of a tuple, list or converted pytree stand side by side."""
        for name, operands in reversed(self.code.code):
            if name == "return":
                self.to[operands[0]] = Word("held", 0)
            elif name in ("pack_tuple", "pack_list", "pack_dict", "convert"):
                parts = operands[-1]
                first = self.out.hold(max(1, len(parts)))
                self.to |= {part: Word("held", first.number + n) for n, part in enumerate(parts)}
                if not parts:
                    self.to[Register("none", operands[0].number)] = first

    # -- turns

    def on_turns(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            self.out.kept[id(turn)] = turn
            self.do("enter", turn.address, Word("header", ENTERED), Word("header", TURNS))

    # -- feed

    def on_has_gradient(self, tensor: Tensor) -> None:
        self.do("has_gradient", self.out.value(Object(tensor)))

    def on_no_gradient(self, tensor: Tensor) -> None:
        none = Label()
        self.do("has_gradient", self.out.value(Object(tensor)), otherwise=none)
        self.do("jump")
        self.out.place(none)

    def hold(self, i: Register) -> Word:
        """Return the word that holds an input's array."""
        self.fed[i.number] = self.out.hold()
        return self.fed[i.number]

    def feed(self, name: str, i: Register, *owner: Operand, taken: bool = False, is_known: bool = False) -> None:
        """Feed an input; an array's dtype and shape are checked unless they are known."""
        view = self.plan.inputs[i.number]
        place = Memory(self.seat.table[self.seat.inputs[i.number] :])
        kinds = () if is_known else kinds_of(view.dtype, view.shape)
        self.do(name, *owner, place, self.hold(i), *kinds, *((view.buffer.nbytes,) if taken else ()))

    def is_taken(self, i: Register) -> bool:
        """Return whether the program writes into an input."""
        return self.plan.inputs[i.number].buffer in self.written

    def owner(self, owner: Tensor | Register) -> Word:
        return self.words[owner] if isinstance(owner, Register) else self.out.value(Object(owner))

    def on_feed_tensor(self, i: Register, owner: Tensor | Register, dtype: Any, shape: Any) -> None:
        self.feed("feed_tensor", i, self.owner(owner))

    def on_take_tensor(self, i: Register, owner: Tensor | Register, dtype: Any, shape: Any) -> None:
        taken = self.is_taken(i)
        self.feed("take_tensor" if taken else "feed_tensor", i, self.owner(owner), taken=taken)

    def on_feed_array(self, i: Register, a: Register) -> None:
        self.feed("feed_array", i, self.words[a], is_known=True)

    def on_take_array(self, i: Register, a: Register) -> None:
        taken = self.is_taken(i)
        self.feed("take_array" if taken else "feed_array", i, self.words[a], taken=taken, is_known=True)

    def on_feed_number(self, i: Register, a: Register) -> None:
        self.seat.table[self.seat.inputs[i.number]] = self.copied[a].ctypes.data

    def gradient(self, owner: Tensor, spec: Spec, otherwise: Label | None = None) -> Word:
        word = self.out.value()
        leaf = self.out.value(Object(owner))
        self.do("gradient", leaf, Object(owner.result_class), Object(spec), word, otherwise=otherwise)
        return word

    def on_feed_gradient(self, i: Register, tensor: Tensor, spec: Spec) -> None:
        self.feed("feed_tensor", i, self.gradient(tensor, spec))

    def on_take_gradient(self, i: Register, tensor: Tensor, spec: Spec) -> None:
        taken = self.is_taken(i)
        self.feed("take_gradient" if taken else "feed_tensor", i, self.gradient(tensor, spec), taken=taken)

    def on_feed_item(self, i: Register, items: Any, key: str, dtype: Any, shape: Any) -> None:
        self.feed("feed_item", i, Object(items), Object(key))

    def on_take_item(self, i: Register, items: Any, key: str, dtype: Any, shape: Any) -> None:
        taken = self.is_taken(i)
        self.feed("take_item" if taken else "feed_item", i, Object(items), Object(key), taken=taken)

    def on_feed_numbers(self, i: Register, cell: Cell) -> None:
        numbers = numbers_of(cell)
        memory = self.given[i.number] = self.memory(self.seat.inputs[i.number], len(numbers))
        for n, (items, key) in enumerate(numbers):
            word = self.out.value()
            self.do("value", self.out.value(Object(items)), Object(key), word)
            self.do(_python_type(cell), word, Memory(memory[n:]))

    def memory(self, entry: int, count: int) -> np.ndarray[Any, Any]:
        """Return memory of the function's own, at an entry of the table."""
        made = np.zeros(count, np.int64)
        self.seat.table[entry] = made.ctypes.data
        return made

    def on_feed_cell(self, i: Register, cell: Cell, dtype: Any, shape: Any) -> None:
        self.feed("feed_call", i, Object(cell.get))

    def on_take_cell(self, i: Register, cell: Cell, dtype: Any, shape: Any) -> None:
        if self.is_taken(i):
            raise Unsupported
        self.on_feed_cell(i, cell, dtype, shape)

    def on_keep(self, a: Register) -> None:
        self.kept[a] = self.out.hold()
        self.do("keep", self.words[a], self.kept[a])

    # -- run

    def on_run(self, inputs: Sequence[Register]) -> None:
        self.outputs()
        host = _told(self.seat.host) if self.path.decisions else self.seat.host
        self.do(
            "run" if self.seat.is_held else "run_free", self.seat.run, self.seat.call, self.seat.steps, Object(host)
        )

    def outputs(self) -> None:
        """Give each output its place: the memory of an input, that of an old gradient, a new array."""
        traced, cells = (
            self.path.traced,
            {i.operands[-1].number: i for i in self.code.code if i.name == "write_numbers"},
        )
        made = [i for i in self.code.code if i.name in ("make", "make_of", "make_weak")]
        arrays = {i.operands[-1].number for i in made}
        # Of several results that are one output the first is made first.
        classes = {i.operands[-1].number: i.operands[1] for i in reversed(made) if i.name == "make"}
        special = {i.operands[-1].number for i in made if i.name != "make"}
        gradients = {
            i.operands[2].number: i.operands[0]
            for i in self.code.code
            if i.name in ("write_gradient", "write_into_gradient")
        }
        own = {i.operands[-1].number for i in self.code.code if i.name in ("write_item", "write_numbers", "write_cell")}
        decisions = {g.output for g in traced.guards}
        for k, view in enumerate(self.plan.outputs):
            entry = self.seat.outputs[k]
            if entry is None:
                shared = self.shared(k, own)
                if k in decisions and (place := self.decided_at(k)) is not None:
                    self.decided[k] = place
                elif shared is not None:
                    self.results[k] = shared
                elif k in cells and k not in arrays and view.buffer.index in self.given:
                    self.numbers[k] = self.given[view.buffer.index]
                else:
                    raise Unsupported
            elif k in decisions or k in cells:
                if k in arrays or view.size * view.dtype.itemsize > 8 * view.size:
                    raise Unsupported
                self.numbers[k] = self.memory(entry, max(1, view.size))
            else:
                # Results of a call that is given its arguments are mostly given back to the next one: then they are
                # tensors no more, but their arrays are free. And what a tensor has come to since may lie otherwise.
                is_whole = view.is_contiguous and k in arrays and k not in special and not self.path.given
                old = gradients.get(k) if k not in arrays and not self.may_fail and view.is_contiguous else None
                self.output(k, view, Memory(self.seat.table[entry:]), classes[k] if is_whole else None, old)

    def output(self, k: int, view: View, place: Memory, cls: type[Tensor] | None, old: Tensor | None) -> None:
        """Add a new array for an output, or one of an earlier call's, or that one's whole tensor of class `cls`.

        `old` is the leaf whose gradient it replaces.
        """
        word, end, kinds = self.out.hold(), Label(), kinds_of(view.dtype, view.shape)
        self.results[k] = word
        if old is not None:
            fresh = Label()
            gradient = self.gradient(old, self.spec(k), fresh)
            self.do("reuse", gradient, place, word, *kinds, otherwise=fresh)
            self.do("jump", otherwise=end)
            self.out.place(fresh)
        strides = np.array([s * view.dtype.itemsize for s in view.strides], np.int64)
        by = 0 if view.is_contiguous else Memory(strides)
        if view.buffer.nbytes > _POOLED and view.buffer.nbytes not in _LARGE:
            self.do("fresh", *kinds, by, place, word)
        elif cls is not None:
            pool, again = Object([None, None]), self.out.hold()
            self.again[k] = pool, again
            self.do("pooled_tensor", *kinds, by, place, word, pool, Object(cls), Object(self.spec(k)), again)
        else:
            self.do("pooled", *kinds, by, place, word, Object([None, None]))
        self.out.place(end)

    def spec(self, k: int) -> Spec:
        found = self.path.traced.graph.outputs[k].spec
        assert isinstance(found, Spec)
        return found

    def shared(self, k: int, own: set[int]) -> Word | None:
        """Return the word of the array that an output without one of its own is: an input's, or another output's.

        Tensors never write to arrays that anything else refers to, so they may share them; those in `own`, which
        whoever owns the place writes to, may not.
        """
        view, earlier = self.plan.outputs[k], self.plan.outputs[:k]
        source = view.buffer
        if source.kind == "input" and view.lies_as(self.plan.inputs[source.index]):
            if not source.donated and (k in own or not self.is_tensors(source.index)):
                return None
            return self.fed.get(source.index)
        same = next((j for j, other in enumerate(earlier) if other.lies_as(view) and j in self.results), None)
        return None if same is None or k in own or same in own else self.results[same]

    def decided_at(self, k: int) -> tuple[str, Memory] | None:
        """Return how a decision without memory of its own is checked, and where its value stands.

        It is that of an earlier decision, or a boolean that is a result or an input, too.
        """
        view = self.plan.outputs[k]
        for j, other in enumerate(self.plan.outputs[:k]):
            if other.lies_as(view) and j in self.numbers:
                return "decided", Memory(self.numbers[j])
            if other.lies_as(view) and view.buffer.nbytes == 1 and self.seat.outputs[j] is not None:
                return "decided_byte", Memory(self.seat.table[self.seat.outputs[j] :])
        if view.buffer.kind == "input" and view.buffer.nbytes == 1 and not view.buffer.donated:
            return "decided_byte", Memory(self.seat.table[self.seat.inputs[view.buffer.index] :])
        return None

    def is_tensors(self, k: int) -> bool:
        """Return whether an input's array is a tensor's."""
        names = ("feed_tensor", "take_tensor", "feed_gradient", "take_gradient")
        return any(i.name in names and i.operands[0].number == k for i in self.code.code)

    def on_decide(self, o: Register, value: bytes, other: int | None) -> None:
        bits = int.from_bytes(value, "little")
        found = self.decided.get(o.number)
        if found is None and o.number in self.numbers:
            found = "decided", Memory(self.numbers[o.number])
        if len(value) > 8 or bits >= 1 << 63 or found is None:
            raise Unsupported
        self.do(*found, bits, otherwise=None if other is None else self.labels[other])

    # -- write

    def on_commit(self) -> None:
        """Wait until no trace could undo what is written; no handler of a signal comes in between."""
        self.do("settle", Object(epoch))

    def on_committed(self) -> None:
        self.do("leave", Word("header", 0))

    def on_write_tensor(self, tensor: Tensor, o: Register) -> None:
        self.do("write_tensor", Object(tensor), self.results[o.number], self.out.hold())

    def on_write_item(self, items: Any, key: str, o: Register) -> None:
        array = self.results[o.number]
        if any(self.fed.get(n) == array for n in self.taken_from(items, key)):
            self.do("write_copied", Object(items), Object(key), array)
        else:
            self.do("write_item", Object(items), Object(key), array, self.out.hold())

    def taken_from(self, items: Any, key: str) -> list[int]:
        """Return the inputs that are taken from an item of a dict."""
        found = (i.operands for i in self.code.code if i.name in ("feed_item", "take_item"))
        return [i.number for i, owner, name, *_ in found if owner is items and name == key]

    def on_write_numbers(self, cell: Cell, o: Register) -> None:
        if o.number not in self.numbers:
            raise Unsupported
        for n, (items, key) in enumerate(cell.numbers):
            memory = Memory(self.numbers[o.number][n:])
            self.do(f"write_{_python_type(cell)}", Object(items), Object(key), memory)

    def on_write_gradient(self, tensor: Tensor, spec: Spec, o: Register) -> None:
        made = Object(tensor.result_class), Object(spec), self.results[o.number]
        self.do("write_gradient", Object(tensor), *made, self.out.hold())

    def on_write_into_gradient(self, tensor: Tensor, spec: Spec, o: Register) -> None:
        self.do("write_into_gradient", Object(tensor), self.results[o.number], self.out.hold())

    def on_write_no_gradient(self, tensor: Tensor) -> None:
        self.do("write_none", Object(tensor), self.out.hold())

    def on_consume(self, a: Register, where: str) -> None:
        self.do("kill", self.kept[a], Object(donation.Donated), Object(where), self.out.hold(), self.out.hold())

    # -- build

    def on_make_of(self, r: Register, cls: type[Tensor], spec: Spec, node: Node, o: Register) -> None:
        self.do("made_of", Object(cls), Object(spec), self.results[o.number], self.to[r], Object(node))

    def on_make(self, r: Register, cls: type[Tensor], spec: Spec, o: Register) -> None:
        array, to = self.results[o.number], self.to[r]
        if o.number in self.again:
            pool, again = self.again.pop(o.number)
            self.do("made_again", Object(cls), Object(spec), array, to, again, pool)
        else:
            self.do("made", Object(cls), Object(spec), array, to)

    def on_make_weak(self, r: Register, o: Register) -> None:
        self.do("made_number", Object(WeakTensor), self.results[o.number], self.to[r])

    def on_argument(self, r: Register, a: Register) -> None:
        self.do("keep", self.kept[a], self.to[r])

    def on_again(self, r: Register, other: Register) -> None:
        self.do("keep", self.to[other], self.to[r])

    def on_constant(self, r: Register, value: Any) -> None:
        self.do("constant", Object(value), self.to[r])

    def on_copy(self, r: Register, array: Any) -> None:
        self.do("convert", Object(np.ndarray.copy), self.out.value(Object(array)), self.to[r])

    def on_pack_tuple(self, r: Register, parts: Sequence[Register]) -> None:
        self.do("pack_tuple", len(parts), self.first(r, parts), self.to[r])

    def on_pack_list(self, r: Register, parts: Sequence[Register]) -> None:
        self.do("pack_list", len(parts), self.first(r, parts), self.to[r])

    def first(self, r: Register, parts: Sequence[Register]) -> Word:
        """Return the first of the words that hold the parts of a result."""
        return self.to[parts[0] if parts else Register("none", r.number)]

    def on_pack_dict(self, r: Register, keys: Sequence[Any], parts: Sequence[Register]) -> None:
        self.do("pack_dict", self.to[r])
        for key, part in zip(keys, parts, strict=True):
            self.do("add_item", self.to[r], Object(plain_key(key)), self.to[part])

    def on_convert(self, r: Register, structure: Structure, parts: Sequence[Register]) -> None:
        together = self.out.hold()
        self.do("pack_list", len(parts), self.first(r, parts), together)
        self.do("convert", Object(lambda leaves: unflatten(structure, leaves)), together, self.to[r])

    def on_return(self, r: Register) -> None:
        self.give_back()
        self.do("return")

    # -- what Python's interpreter alone does: results with a history, and views, are made by code of Python's

    def by_python(self, *operands: Any) -> NoReturn:
        raise Unsupported

    on_feed_tracked = on_wrap = on_record = on_carried = on_carried_weak = on_taken = on_write_cell = by_python


def _told(host: Callable[[int], None]) -> Callable[[int], bool]:
    """Return a function that does a step of Python's, and returns False where it fails."""

    def do(at: int) -> bool:
        try:
            host(at)
        except Exception:
            return False
        return True

    return do


def kinds_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Operand, Operand, Operand]:
    """Return a dtype and a shape as three operands."""
    return Object(as_dtype(dtype)), len(shape), Memory(np.array(shape, np.int64))


def plain_key(key: Any) -> Any:
    """Return a key whose hash and equality run no code of users'."""
    if type(key) not in (str, int, bytes, bool, type(None)):
        raise Unsupported
    return key


def _python_type(cell: Cell) -> str:
    return {"f": "float", "i": "int", "u": "uint"}[cell.spec.dtype.kind]
