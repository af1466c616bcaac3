"""Lowerings: the interface that they write plans with, and their table by op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....core.node import Node
from ..codegen.kernel import Build, Kernel, kernel
from ..codegen.types import Target
from .plan import Buffer, Exchange, HostCall, Jump, Plan, Step, View, dense

# So many packed matrices are kept for products that follow: the steps of a recurrent network read a few, again and
# again. More would stay in memory for less.
PACKED = 8

# op name to its lowering: a function of (lowering, node) that adds steps and gives the result's view
# (a tuple of views for several results), or None where it has no kernel for these dtypes or shapes.
Rule = Callable[["Lowering", Node], "View | tuple[View, ...] | None"]
RULES: dict[str, Rule] = {}
# The ops whose kernels take epilogues.
FOLLOWED: set[str] = set()
# The ops behind whose kernels Python may raise an error.
RAISING: set[str] = set()


def lowers(*names: str, followed: bool = False, raises: bool = False) -> Callable[[Rule], Rule]:
    """Declare the lowering of ops by their names.

    `followed` says that their kernels take epilogues. `raises` says that a step of Python's stands behind them, which
    may raise an error; not where it only would if another had raised before, as behind the transpose of an index.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        if followed:
            FOLLOWED.update(names)
        if raises:
            RAISING.update(names)
        return rule

    return register


class Epilogue:
    """An epilogue: what is computed on every element of a product before it is stored, within its kernel.

    The product's result has the shape (..., rows, columns). `operands` are the arrays besides the
    product itself, broadcast to that shape; `kinds` says how each is read: "scalar" (one number),
    "row" (a number for every row: column stride 0), "column" (a row of numbers, the same in every
    row: row stride 0, column stride 1), "full" (column stride 1). `outputs` are what is stored,
    column stride 1, each of the product's shape; there may be several, and the product itself is
    among them only where it is wanted. `key` names the computation.

    `emit(builder, product, operands)` writes it: vectors (or scalars) of the product's compute type
    in, of each operand's memory type; values of the outputs' memory types out, in order.
    """

    def __init__(
        self,
        key: str,
        operands: Sequence[View],
        kinds: Sequence[str],
        outputs: Sequence[View],
        emit: Callable[[Any, Any, Sequence[Any]], list[Any]],
        nodes: Sequence[Node] = (),
    ) -> None:
        self.key = key
        self.operands = tuple(operands)
        self.kinds = tuple(kinds)
        self.outputs = tuple(outputs)
        self.emit = emit
        self.nodes = tuple(nodes)


class Lowering:
    """A graph on its way to a plan: the views of what is already computed, and how to add steps.

    A graph inside another, the body of a loop say, adds its steps to the plan of the one around it, `outer`.
    """

    def __init__(self, target: Target, outer: Lowering | None = None, prepares: bool = False) -> None:
        self.target = target
        # True where what depends on constants alone is computed once: see `once`.
        self.prepares: bool = outer.prepares if outer is not None else prepares
        # The panels of constants, which are packed before all steps.
        self._once: dict[tuple[View, Any], Any] = outer._once if outer is not None else {}
        self.outer = outer
        self.plan: Plan = outer.plan if outer is not None else Plan()
        self.views: dict[Node, View | tuple[View, ...]] = {}
        self._dense: dict[Node, View] = {}
        self._packed: dict[tuple[View, Any], Any] = {}
        self._in_range: set[tuple[View, int]] = set()
        self._numbers: dict[Any, View] = outer._numbers if outer is not None else {}
        # Steps that wait for the reader of what they fill.
        self._put_off: dict[Buffer, tuple[Any, Callable[[], None]]] = {}

    def view(self, entry: Any) -> View:
        """Return the array of a node that is already computed, as it lies in memory (any strides)."""
        found = self.views[entry]
        assert isinstance(found, View)
        return found

    def temp(self, shape: Sequence[int], dtype: Any) -> View:
        """Return a new contiguous array in the arena."""
        dtype = np.dtype(dtype)
        shape = tuple(shape)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return View(Buffer("temp", nbytes), dtype, shape, dense(shape))

    def place(self, node: Node, shape: Sequence[int]) -> View:
        """Return memory for the result of a node, seen in another shape, whose rows are each side by side."""
        return self.temp(shape, node.spec.dtype)

    def constant(self, value: Any) -> View:
        """Return an array that is part of the program."""
        array = np.asarray(value, order="C")
        buffer = Buffer("constant", array.nbytes, len(self.plan.constants), array)
        self.plan.constants.append(buffer)
        return View(buffer, array.dtype, array.shape, dense(array.shape))

    def number(self, value: Any, dtype: Any) -> View:
        """Return a 0-d array of a number."""
        with np.errstate(over="ignore"):  # what 16 bits do not hold is infinite
            return self.made((repr(value), np.dtype(dtype)), lambda: np.asarray(value, dtype))

    def made(self, key: Any, make: Callable[[], Any]) -> View:
        """Return the array that `make` gives, which is part of the program once; the key names it."""
        if key not in self._numbers:
            self._numbers[key] = self.constant(make())
        return self._numbers[key]

    def kernel(self, key: str, build: Build) -> Kernel:
        """Return the kernel of this key for the lowering's target."""
        return kernel(key, build, self.target)

    def step(self, kernel: Kernel | HostCall | Jump | Exchange, words: Sequence[int | View], **rest: Any) -> None:
        """Add a step; the arguments are those of :class:`Step`."""
        step = Step(kernel, words, **rest)
        for buffer in step.reads:
            _, fill = self._put_off.pop(buffer, (None, None))
            if fill is not None:
                fill()
        self.plan.steps.append(step)
        lowering: Lowering | None = self
        while lowering is not None:
            lowering._forget(step.writes)
            lowering = lowering.outer

    def contiguous(self, x: View) -> View:
        """Return the array with its elements in order, copied where they are not."""
        return x if x.is_contiguous else self.copy(x)

    def copy(self, x: View) -> View:
        """Return a contiguous copy."""
        raise NotImplementedError

    def forward(self, node: Node, writes: Sequence[View], when: View | None = None) -> None:
        """Add a step that runs the op's own forward in Python, only where one of the 64-bit words `when` is not 0."""
        raise NotImplementedError

    def side_by_side(self, node: Node, x: View) -> View:
        """Return a contiguous copy of the array of a node, made once."""
        if node not in self._dense:
            self._dense[node] = self.copy(x)
        return self._dense[node]

    def packed(self, x: View, layout: Any, pack: Callable[[], Any]) -> Any:
        """Return what `pack` gives for an array in a layout, filled lately or by the steps that it adds."""
        key = (x, layout)
        if self.is_free_to_pack(x):
            if key not in self._once:
                now, self.plan.steps = self.plan.steps, self.plan.first
                self._once[key] = pack()
                self.plan.steps = now
            return self._once[key]
        found = self._packed.pop(key, None) or pack()
        self._packed[key] = found
        if len(self._packed) > PACKED:
            del self._packed[next(iter(self._packed))]
        return found

    def put_off(self, made: View, what: Any, steps: Callable[[], None]) -> None:
        """Put off the steps that fill an array until another step reads it, or whoever reads it takes over `what`."""
        self._put_off[made.buffer] = what, steps

    def taken_over(self, x: View) -> Any:
        """Return `what` of the steps that fill an array, if they were put off, and are now the caller's; else None."""
        what, _ = self._put_off.pop(x.buffer, (None, None))
        return what

    def only_reader(self, node: Node, epilogue: Epilogue) -> Node | None:
        """Return the one node that reads what the kernel of a product stores, as it is; None where there are others."""
        return None

    def is_free_to_pack(self, x: View) -> bool:
        """Return whether an array is packed once for all calls: a constant, also where a loop reads it."""
        return x.buffer.kind == "constant" and self.prepares

    def is_in_range(self, index: View, size: int) -> bool:
        """Return whether a step has checked an index array against a size.

        A gradient goes back to the places that its value came from: its own check could only repeat that.
        """
        return (_flat(index), size) in self._in_range

    def note_joined(self, pieces: Sequence[View], whole: View) -> None:
        """Note that an array was filled with others, which steps may have checked as indices."""
        sizes = [{size for index, size in self._in_range if index == _flat(piece)} for piece in pieces]
        self.note_in_range((whole, size) for size in set.intersection(*sizes))

    def note_in_range(self, checked: Iterable[tuple[View, int]]) -> None:
        """Note that from here on index arrays have been checked against sizes."""
        self._in_range |= {(_flat(index), size) for index, size in checked}

    def _forget(self, writes: Sequence[Buffer]) -> None:
        """Forget what is known of memory that is written to: a result may lie where an argument lay."""
        if self._packed or self._in_range:
            written = {b.whole for b in writes}
            for key in [k for k in self._packed if k[0].buffer.whole in written]:
                del self._packed[key]
            self._in_range = {k for k in self._in_range if k[0].buffer.whole not in written}

    def is_better_turned(self, node: Node, rows: int) -> bool:
        """Return whether those who read the product `node`, of so many rows, prefer columns in memory to rows."""
        return False

    def twin(self, node: Node, name: str) -> Node | None:
        """Return a node of another op with the same operands and attributes, so that one kernel may compute both."""
        return None

    def epilogue(self, node: Node, shape: Sequence[int], order: Sequence[int] | None = None) -> Epilogue | None:
        """Return the epilogue to compute in the kernel of the product `node`; None: store the product.

        `shape` is the product's (..., rows, columns) as the kernel sees it: the node's axes, taken in
        `order` where that is another than their own, reshaped.
        """
        return None


def _flat(x: View) -> View:
    """Return an array's elements in order as one axis, where they lie so."""
    return x.reshape((x.size,)) or x
