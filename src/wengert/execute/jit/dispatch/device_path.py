"""The native form of a path whose program is XLA's, on a device whose memory the host sees.

The call takes what the device has of its arrays, calls the program, and lets the arrays that show the state show the
new one, which stands where the old one stood: nothing is made for them. Where an array of the state is not there yet
(the first call, a parameter that was loaded), or something is wrong, code of Python's runs the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.spec import Spec
from ....core.state.cells import Cell
from ....core.tensor import Tensor
from ...native.dispatch.assembler import Label, Memory, Object, Word
from ...native.dispatch.elsewhere import INTEGERS
from ...native.run.runtime import Seat
from ...xla.memory import settled
from ...xla.seat import DeviceSeat
from .native_path import NativePath, Unsupported, kinds_of
from .program import Register
from .writer import numbers_of

# Bounds of integers are compared as numbers of 64 bits.
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class DevicePath(NativePath):
    """A path of a program of XLA's."""

    device: DeviceSeat
    state: Mapping[int, int]

    def prepare(self) -> None:
        """Take a seat at the program."""
        found = getattr(self.path.executor, "device_seat", lambda: None)()
        if found is None or self.path.decisions:
            raise Unsupported
        self.device = found
        self.input_specs = [n.spec for n in self.path.graph.inputs]
        self.output_specs = [n.spec for n in self.path.graph.outputs]
        self.out.kept[id(found)] = found
        # The words of the inputs' arrays stand side by side, and those of what the device has of them.
        self.held = self.out.hold(max(1, len(self.input_specs)))
        self.there = self.out.value(*[0] * max(1, len(self.input_specs)))
        self.error, self.answer = self.out.hold(3), self.out.hold()
        self.found = self.out.value()
        # By the number of an input: the copies of Python's numbers that it is.
        self.copies: dict[int, np.ndarray[Any, Any]] = {}

    @property
    def seats(self) -> Sequence[Seat]:
        """None: no program of native code runs."""
        return ()

    def borrow(self) -> None:
        """Do nothing: no memory is shared."""

    def give_back(self) -> None:
        """Raise what came in the midst of the call, now that all of it is done."""
        self.do("raise_kept", self.error)

    @property
    def is_disturbed(self) -> bool:
        """True: arrays may be moved to the device before all inputs are fed."""
        return True

    # -- feed

    def spec_of(self, i: Register) -> Spec:
        found = self.input_specs[i.number]
        assert isinstance(found, Spec)
        return found

    def word(self, i: Register) -> Word:
        """Return the word that is to hold an input's array."""
        self.fed[i.number] = Word("held", self.held.number + i.number)
        return self.fed[i.number]

    def hold_array(self, i: Register, array: Word) -> None:
        spec = self.spec_of(i)
        self.do("hold_array", array, self.word(i), *kinds_of(spec.dtype, spec.shape))

    def own_array(self, i: Register, array: Word, of: Word | None = None) -> None:
        spec = self.spec_of(i)
        operands = array, self.word(i), *kinds_of(spec.dtype, spec.shape), spec.nbytes
        if of is None:
            self.do("own_array", *operands)
        else:
            self.do("own_array_of", *operands, of)

    def array_of(self, tensor: Word) -> Word:
        array = self.out.value()
        self.do("array_of", tensor, array)
        return array

    def item(self, items: Any, key: str) -> Word:
        array = self.out.value()
        self.do("value", self.out.value(Object(items)), Object(key), array)
        return array

    def on_feed_tensor(self, i: Register, owner: Tensor | Register, dtype: Any, shape: Any) -> None:
        tensor = self.owner(owner)
        self.do("settle_there", tensor, Object(settled))
        self.hold_array(i, self.array_of(tensor))

    def on_take_tensor(self, i: Register, owner: Tensor | Register, dtype: Any, shape: Any) -> None:
        self.own_array(i, self.array_of(self.owner(owner)))

    def on_feed_array(self, i: Register, a: Register) -> None:
        self.hold_array(i, self.words[a])

    def on_take_array(self, i: Register, a: Register) -> None:
        self.do("convert", Object(np.array), self.words[a], self.word(i))

    def on_feed_number(self, i: Register, a: Register) -> None:
        spec, known = self.spec_of(i), self.copied[a]
        if spec.dtype.name not in ("float64", "int64", "complex128") or spec.dtype.itemsize != known.nbytes:
            raise Unsupported
        self.hold_numbers(i, known)

    def hold_numbers(self, i: Register, numbers: np.ndarray[Any, Any]) -> None:
        """Hold an array over the copies of Python's numbers that are an input."""
        spec = self.spec_of(i)
        self.do("constant", Object(numbers.view(spec.dtype).reshape(spec.shape)), self.word(i))
        self.copies[i.number] = numbers

    def on_feed_gradient(self, i: Register, tensor: Tensor, spec: Spec) -> None:
        self.hold_array(i, self.array_of(self.gradient(tensor, spec)))

    def on_take_gradient(self, i: Register, tensor: Tensor, spec: Spec) -> None:
        gradient = self.gradient(tensor, spec)
        self.own_array(i, self.array_of(gradient), gradient)

    def on_feed_item(self, i: Register, items: Any, key: str, dtype: Any, shape: Any) -> None:
        self.hold_array(i, self.item(items, key))

    def on_take_item(self, i: Register, items: Any, key: str, dtype: Any, shape: Any) -> None:
        self.own_array(i, self.item(items, key))

    def on_feed_numbers(self, i: Register, cell: Cell) -> None:
        spec, numbers = self.spec_of(i), numbers_of(cell)
        if spec.dtype.itemsize != 8:
            raise Unsupported
        memory = np.zeros(len(numbers), np.int64)
        for n, (items, key) in enumerate(numbers):
            word = self.out.value()
            self.do("value", self.out.value(Object(items)), Object(key), word)
            self.do({"f": "float", "i": "int", "u": "uint"}[spec.dtype.kind], word, Memory(memory[n:]))
        self.hold_numbers(i, memory)

    def on_feed_cell(self, i: Register, cell: Cell, dtype: Any, shape: Any) -> None:
        spec = self.spec_of(i)
        self.do("feed_call", Object(cell.get), self.out.value(), self.word(i), *kinds_of(spec.dtype, spec.shape))
        if spec.dtype.itemsize == 8 and not spec.shape:  # a number that Python works out, mostly the same
            self.copies[i.number] = np.zeros(1, np.int64)
            self.do("copy_numbers", self.fed[i.number], Memory(self.copies[i.number]), 8)

    def on_take_cell(self, i: Register, cell: Cell, dtype: Any, shape: Any) -> None:
        raise Unsupported

    # -- run

    def on_run(self, inputs: Sequence[Register]) -> None:
        seat, given = self.device, len(self.input_specs)
        # Python's numbers are no state of the device's, which is replaced there.
        self.state = {k: i for k, i in seat.replaced.items() if i not in self.copies}
        for k in range(len(self.output_specs)):
            self.results[k] = self.fed[self.state[k]] if k in self.state else self.out.hold()
        numbers = self.numbers_written()
        by_python, wrong, failed, end = Label(), Label(), Label(), Label()
        for known in seat.known:
            self.check(known, by_python)
        for i in range(given):
            self.give(i, by_python)
        block = Object(seat.block())
        self.do("call_there", block, Object(seat.program), self.there, given, self.answer, self.error, otherwise=failed)
        items = self.out.entry.layout.tuple_items
        self.do("part", self.answer, items, self.found)
        for at, k in enumerate(seat.order):
            if k in self.state:
                self.do("renew_there", self.found, at, self.results[k], self.out.hold())
        self.do("end_there", self.found, len(seat.order) - 1, block, self.error, otherwise=failed)
        if seat.is_checked:
            flag = self.out.value()
            self.do("part", self.answer, items + 8, flag)
            self.do("is_right", flag, otherwise=wrong)
        for at, k in enumerate(seat.order):
            if k in numbers:
                self.do("copy_there", self.found, at, Memory(self.numbers[k]), numbers[k])
            elif k not in self.state:
                spec = self.output_specs[k]
                assert isinstance(spec, Spec)
                kinds = kinds_of(spec.dtype, spec.shape)
                self.do("show_there", self.found, at, self.results[k], *kinds, Object(seat.where))
        self.do("jump", otherwise=end)
        self.out.place(failed)
        lost, again = self.out.hold(), Label()
        self.do("call_with", Object(seat.lost), self.held, given, lost)
        self.do("is", lost, Object(True), otherwise=again)
        self.do("raise_kept", self.error)
        self.out.place(again)
        self.do("drop_kept", self.error)
        self.out.place(by_python)
        self.run_with(seat.run, numbers)
        self.do("jump", otherwise=end)
        self.out.place(wrong)
        self.run_with(seat.decide, numbers)
        self.out.place(end)

    def give(self, i: int, otherwise: Label) -> None:
        """Load what the program is called with for an input."""
        seat, there = self.device, Word("values", self.there.number + i)
        moved = Memory(seat.moved[i:])
        if i in self.copies:
            numbers = self.copies[i]
            same = Memory(numbers), Memory(numbers.copy()), len(numbers)
            self.do("give_number", self.fed[i], there, *same, Object([None]), moved, Object(seat.bring))
        elif i in self.state.values():
            self.do("decided", Memory(seat.in_place[i:]), 1, otherwise=otherwise)
            self.do("is_there", self.fed[i], there, Object(seat.where), otherwise=otherwise)
        else:
            self.do("give_there", self.fed[i], there, Object(seat.where), moved)

    def check(self, known: Any, otherwise: Label) -> None:
        """Check the integers of an input; elements that are ignored are Python's to tell."""
        spec = self.input_specs[known.number]
        assert isinstance(spec, Spec)
        if spec.dtype.name not in INTEGERS:
            raise Unsupported
        bounds = max(known.low, _LEAST), min(known.high, _MOST)
        self.do(f"between_{spec.dtype.name}", self.fed[known.number], spec.size, *bounds, otherwise=otherwise)

    def run_with(self, run: Any, numbers: Mapping[int, int]) -> None:
        """Call a function of Python's for all inputs' arrays, and hold the outputs that it gives."""
        answer, found = self.out.hold(), self.out.value()
        self.do("call_with", Object(run), self.held, len(self.input_specs), answer)
        self.do("part", answer, self.out.entry.layout.tuple_items, found)
        for k, word in self.results.items():
            self.do("hold_entry", found, k, word)
        for k, nbytes in numbers.items():
            self.do("copy_numbers", self.results[k], Memory(self.numbers[k]), nbytes)

    def numbers_written(self) -> dict[int, int]:
        """Return the outputs that become Python's numbers, with their bytes, and make room for these."""
        found: dict[int, int] = {}
        made = {i.operands[-1].number for i in self.code.code if i.name.startswith(("make", "write_"))
                and i.name not in ("write_numbers", "write_no_gradient")}  # fmt: skip
        for name, operands in self.code.code:
            if name == "write_numbers":
                k = operands[-1].number
                spec = self.output_specs[k]
                assert isinstance(spec, Spec)
                if spec.dtype.itemsize != 8 or k in made or k in self.state:
                    raise Unsupported
                found[k] = 8 * spec.size
                self.numbers[k] = np.zeros(max(1, spec.size), np.int64)
        return found

    def on_write_item(self, items: Any, key: str, o: Register) -> None:
        self.do("write_item", Object(items), Object(key), self.results[o.number], self.out.hold())
