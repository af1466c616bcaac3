"""The dispatch program of a call: the work of a call that is like an earlier one, as a list of instructions.

Whoever calls a compiled function for the hundredth time wants its result, not a search for the program that fits.
For calls like one that was made, a `Dispatch` is written (`writer`) that knows where every leaf stands: it *checks*
that the call is like that one and that nothing outside has changed, *feeds* the program's inputs, *runs* it, *writes*
what it changes outside, and *builds* what the function returns. What it does not know is a miss, and the call
goes the general way.

Two interpreters follow it: `python`, which compiles it to a function of Python's, and `native` with
`execute/native/dispatch`, whose function looks at objects where CPython keeps their parts. Each says for every name in
`INSTRUCTIONS` what it means; a test holds them to that, and others to the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..program import Path

# The result of a function for a call that is not like the one that its program was written for.
MISS: Any = object()


class Register(NamedTuple):
    """A name for a value of one call: `a` for arguments and their leaves, `i` inputs, `o` outputs, `r` results."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}{self.number}"


class Instruction(NamedTuple):
    """One step of a dispatch program: registers and constants, in the order that `INSTRUCTIONS` names."""

    name: str
    operands: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name:<14} {' '.join(map(_shown, self.operands))}".rstrip()


# The instructions, with their operands. Where a check does not hold, the call is a miss; where a decision falls
# otherwise, it goes on with the other path.
INSTRUCTIONS: dict[str, str] = {
    # check: is the call like the one that the program was written for?
    "mode": "grad floats autocast engine: nothing is traced here; the thread's mode is as it was then",
    "tuple": "a parts: a tuple; its items become the parts",
    "list": "a parts: a list; its entries become the parts",
    "dict": "a count: a dict of so many items",
    "item": "a key part: the dict has the key; its value becomes the part",
    "same": "a b: both are one object",
    "is": "a object: it is the object",
    "equal": "a value: of the value's type and equal to it; zeros by their signs too",
    "identity": "a id: the object of that identity, which lives longer than the program",
    "method": "a self function: a method, of the objects of these identities",
    "tensor": "a type spec tracked: a tensor; it requires gradients only where it is tracked",
    "row_major": "a: a tensor of a namespace with views; its elements lie in C order",
    "weak": "a type dtype shape tracked: a tensor that stands for a Python number",
    "tracked": "a collects: a tensor that requires gradients, as a leaf or not; nobody's hooks wait for them",
    "not_written": "a tensors: none of these, which the program writes to",
    "array": "a dtype shape: a NumPy array, contiguous and aligned",
    "number": "a type: a Python number that is an input",
    "alone": "tensor gradient: no view of it, or of its gradient, lives, which a write would have to reach",
    "unobserved": ": no transform differentiates with respect to values of its own",
    "captured": "captures: the captured state is what it was",
    # feed: where do the inputs' values come from?
    "turns": "turns: hold the turns of all that the path writes, until it is written",
    "has_gradient": "tensor: there is a gradient",
    "no_gradient": "tensor: there is none",
    "feed_tensor": "i owner dtype shape: the array of an argument or of a tensor outside",
    "feed_array": "i a: an argument that is an array",
    "feed_number": "i a: an argument that is a Python number",
    "feed_gradient": "i tensor spec: the array of a gradient, which requires none itself",
    "feed_item": "i items key dtype shape: an array in a dict",
    "feed_numbers": "i cell: Python numbers in dicts",
    "feed_cell": "i cell dtype shape: what a cell gives",
    "take_tensor": "i owner dtype shape: as feed_tensor, to be written into: a copy if anything else refers to it",
    "take_array": "i a: a copy of an argument that is an array",
    "take_gradient": "i tensor spec: as feed_gradient, to be written into",
    "take_item": "i items key dtype shape: as feed_item, to be written into",
    "take_cell": "i cell dtype shape: a copy of what a cell gives",
    "keep": "a: hold an argument that is consumed, or a result",
    "feed_tracked": "i owner: a tensor that gradients flow back to, as it is",
    "wrap": "i copied: a tensor of what was fed, which the record may keep",
    # run
    "run": "inputs: run the path's program",
    "record": "inputs recorded: run it as one node of a graph",
    "decide": "o value path: the output has these bytes, or the call goes on with the other path, if there is one",
    # write: all of it at once, where no trace and no handler of a signal comes between
    "commit": ": writes follow",
    "write_tensor": "tensor o: the output is the tensor's array",
    "write_item": "items key o: it is an item of a dict",
    "write_numbers": "cell o: its elements are Python numbers in dicts",
    "write_cell": "cell o: it is what the cell holds",
    "write_gradient": "tensor spec o: it is the gradient",
    "write_into_gradient": "tensor spec o: it is the value of the tensor that is the gradient",
    "write_no_gradient": "tensor: there is no gradient any more",
    "consume": "a where: a donated argument says from now on where it was donated",
    "committed": ": the writes are done, and the turns given back",
    # build: what does the function return?
    "make": "r type spec o: a tensor of an output",
    "make_of": "r type spec node o: the same, with that node",
    "make_weak": "r o: a tensor that stands for a Python number",
    "carried": "r type o: an output as it was recorded, with its history",
    "carried_weak": "r o: the same, standing for a Python number",
    "argument": "r a: an argument, as it is",
    "again": "r other: the same object as an earlier result",
    "taken": "r owner view taken: the view, a result, in the memory of its owner, an earlier one",
    "constant": "r object: the same object in every call",
    "copy": "r array: a copy of an array",
    "pack_tuple": "r parts: a tuple",
    "pack_list": "r parts: a list",
    "pack_dict": "r keys parts: a dict",
    "convert": "r structure parts: a pytree of another class",
    "return": "r: the answer",
}  # fmt: skip


class PathProgram:
    """The instructions of one path, from its turns to its answer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.code: list[Instruction] = []

    def do(self, name: str, *operands: Any) -> None:
        """Add an instruction."""
        self.code.append(Instruction(name, operands))


class Dispatch:
    """The dispatch program for calls of one kind: `checks` for all, then the likeliest of the `paths`.

    A decision that falls otherwise leads from one path to a later one only, so no call goes round in circles.
    """

    def __init__(self, arguments: int) -> None:
        self.arguments = arguments
        self.leaves: list[Register] = []
        self.checks: list[Instruction] = []
        self.paths: list[PathProgram] = []
        self._count = arguments

    def do(self, name: str, *operands: Any) -> None:
        """Add a check."""
        self.checks.append(Instruction(name, operands))

    def value(self) -> Register:
        """Return a new register for a part of an argument."""
        self._count += 1
        return Register("a", self._count - 1)

    def __iter__(self) -> Iterator[Instruction]:
        yield from self.checks
        for path in self.paths:
            yield from path.code

    def __str__(self) -> str:
        parts = [("check", self.checks), *((f"path {n}", path.code) for n, path in enumerate(self.paths))]
        return "\n".join(line for title, code in parts for line in (title, *(f"  {i}" for i in code)))


def _shown(operand: Any) -> str:
    """Return an operand in a listing: objects by their types, for their contents may be large."""
    if type(operand) is tuple and operand and all(type(x) is Register for x in operand):
        return f"({', '.join(map(str, operand))})"
    if isinstance(operand, type):
        return operand.__name__
    if isinstance(operand, (int, float, str, bytes, tuple, type(None))) and not isinstance(operand, Register):
        return repr(operand)
    text = str(operand)
    return text if len(text) <= _SHOWN and "\n" not in text else f"<{type(operand).__name__}>"


# Objects whose text is longer are shown by their class.
_SHOWN = 40
