"""Cells: the places outside a function that hold values which it may read and write.

A compiled function turns what it finds in cells into inputs, and what it leaves there into outputs.
While it is traced every cell holds an abstract tensor: what the function reads off it becomes part
of the graph, and what stands there at the end is what a run has to put there.

An object that keeps values of its own (an optimiser its buffers, a generator its position) says so
with two methods:

`__jit_cells__()` gives its cells, always in one order; it makes what the first use would make, so
that the first call and the second find the same cells.

`__jit_static__()` gives a hashable value of all that decides *which* operations run (options, never
numbers that only enter them): a function is traced again where it differs. None in place of the method:
nothing does.

`__jit_watched__()`, where there is one, names all that this value was made of, as triples that are quick to look
at: while every one of them is the same object, the value is. `("item", dict, key)`, `("entry", list, index)`,
`("length", container, None)`, `("slot", object, name)`; and `("equal", items, None)`: ints of dicts, (dict, key)
each, that have to be equal. None: ask for the value.

`__jit_open__`, where there is one, are the names of attributes with containers of its own that programs may read and
write too (an optimiser's groups and state): what no cell holds of them is looked at as that of any other object.

An object whose `__dict__` has an item `_compiled`, None at first, keeps there what compiled functions know of it when
it is among their arguments (see `execute/jit/guests`), so that they do not keep it alive. It is no part of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from operator import setitem
from typing import Any, Protocol

import numpy as np

from ..arrays import Array
from ..dtypes import DType
from ..elsewhere import as_data
from ..spec import Spec, spec_of
from ..standins import become, present, weak
from ..storage import alone, is_shared, lent_window, living, pin, storage_of, window_of
from ..tensor import Tensor, abstract_like, wrap
from .at_once import Call, at_once, later
from .turns import Turn


class Cell:
    """A place that holds one array's worth of value.

    `key` tells places apart: two cells of one key are the same place. A trace calls `undo`, `hold`,
    then `held`, and makes the calls of `undo` whatever happened; a run calls `get`, and makes the calls of
    `writes` where the function wrote to the place.
    """

    __slots__ = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """The hashable identity of the place."""
        raise NotImplementedError

    @property
    def spec(self) -> Spec:
        """The shape and dtype of the present value."""
        raise NotImplementedError

    def get(self) -> Array:
        """Return the present value; nobody writes into it."""
        raise NotImplementedError

    def writes(self, array: Array) -> Iterable[Call]:
        """Return the calls that store another value, an array of the cell's spec that is the place's own from then on.

        All writes of a program are made at once (see :mod:`wengert.core.state.at_once`), by calls that are iterated
        over then: what is in the array may be computed just before. No code of Python's runs in between.
        """
        raise NotImplementedError

    def put(self, array: Array) -> None:
        """Store another value: make the calls of `writes`."""
        at_once(self.writes(array))()

    @property
    def turn(self) -> Turn | None:
        """The turn to read and write the place, where its owner has a say in it; None: it goes by the key."""
        return None

    @property
    def numbers(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        """The items of dicts whose numbers make up the value, one for each element; empty where there are none."""
        return ()

    @property
    def items_held(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        """The items of dicts in which a trace's tensors stand for the value: those of `numbers`, unless said."""
        return self.numbers

    def undo(self) -> Sequence[Call]:
        """Return the calls that restore the present contents of the place, to be made at once with others."""
        raise NotImplementedError

    def hold(self, tensor: Tensor) -> None:
        """Put an abstract tensor in the place."""
        raise NotImplementedError

    def held(self) -> Tensor:
        """Return the value in the place during a trace: abstract, or concrete where one was put there."""
        raise NotImplementedError


class Stateful(Protocol):
    """An object with cells of its own."""

    def __jit_cells__(self) -> Iterable[Cell]: ...

    def __jit_static__(self) -> Any: ...


# The setters of tensors' slots, whatever their class says of attributes.
set_data: Callable[[Tensor, Any], None] = Tensor.__dict__["_data"].__set__
set_spec: Callable[[Tensor, Any], None] = Tensor.__dict__["_spec"].__set__
set_node: Callable[[Tensor, Any], None] = Tensor.__dict__["node"].__set__
set_grad: Callable[[Tensor, Any], None] = Tensor.__dict__["_grad"].__set__
set_share: Callable[[Tensor, Any], None] = Tensor.__dict__["_share"].__set__
set_window: Callable[[Tensor, Any], None] = Tensor.__dict__["_window"].__set__
del_data: Callable[[Tensor], None] = Tensor.__dict__["_data"].__delete__


def storing(t: Tensor, array: Any) -> Sequence[Call]:
    """Return the calls that give a tensor another value, and all that shares memory with it.

    What is in the array may be computed just before they are made.
    """
    if not is_shared(t):
        return ((set_data, t, array),)
    if type(array) is np.ndarray and type(window_of(t)) is np.ndarray:
        return ((np.copyto, alone(t), array),)
    old = t._array
    return [(set_data, other, array) for other in living(t._share.storage) if other._array is old]


class TensorCell(Cell):
    """A cell of a tensor. One that collects gradients stays a leaf, whatever value it holds."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def key(self) -> tuple[Any, ...]:
        return (id(self.tensor),)

    @property
    def spec(self) -> Spec:
        return self.tensor.spec

    def get(self) -> Array:
        found: Array = self.tensor._array
        return found

    def writes(self, array: Array) -> Iterable[Call]:
        return storing(self.tensor, array)

    def undo(self) -> Sequence[Call]:
        t = self.tensor
        pin(t)
        found: list[Call] = [(set_data, t, t._array), (set_node, t, t.node), (set_share, t, t._share)]
        if (window := lent_window(t)) is not None:
            # The last of the calls comes first: the slot is emptied whatever is in it.
            found = [(set_window, t, window), (del_data, t), (set_data, t, None), *found[1:]]
        if t._array is not None and not t.is_weak:
            found.append((set_spec, t, spec_of(t._array.shape, t._array.dtype)))
        return found

    def hold(self, tensor: Tensor) -> None:
        t = self.tensor
        if storage_of(t) is not None:  # what shares its memory outside follows when a program has run
            t._share = None
            if t._window is not None:
                t._data = None
                del t._spec
        become(t, tensor)

    def held(self) -> Tensor:
        return present(self.tensor)


class ItemCell(Cell):
    """A cell of a Python number in a dict (an optimiser's option, an object's attribute by its `__dict__`).

    In a trace a weak scalar stands there: it takes the dtype of what it meets, as the number does.
    """

    __slots__ = ("items", "name", "dtype")

    def __init__(self, items: MutableMapping[str, Any], name: str, dtype: DType) -> None:
        self.items = items
        self.name = name
        self.dtype = np.dtype(dtype)

    @property
    def key(self) -> tuple[Any, ...]:
        return (id(self.items), self.name)

    @property
    def spec(self) -> Spec:
        return spec_of((), self.dtype)

    @property
    def numbers(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        return ((self.items, self.name),)

    def get(self) -> Array:
        return np.asarray(self.items[self.name], self.dtype)

    def writes(self, array: Array) -> Iterable[Call]:
        return zip((setitem,), (self.items,), (self.name,), later(array.item))

    def undo(self) -> Sequence[Call]:
        return ((setitem, self.items, self.name, self.items[self.name]),)

    def hold(self, tensor: Tensor) -> None:
        self.items[self.name] = weak(tensor)

    def held(self) -> Tensor:
        value = self.items[self.name]
        return value if isinstance(value, Tensor) else wrap(np.asarray(value, self.dtype))


class ArrayCell(Cell):
    """A cell of a NumPy array in a dict, which only its owner writes to (an optimiser's buffer).

    In a trace a tensor stands in its place.
    """

    __slots__ = ("items", "name")

    def __init__(self, items: MutableMapping[str, Any], name: str) -> None:
        self.items = items
        self.name = name

    @property
    def key(self) -> tuple[Any, ...]:
        return (id(self.items), self.name)

    @property
    def items_held(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        return ((self.items, self.name),)

    @property
    def spec(self) -> Spec:
        value = self.items[self.name]
        return spec_of(value.shape, value.dtype)

    def get(self) -> Array:
        found: Array = as_data(self.items[self.name])
        return found

    def writes(self, array: Array) -> Iterable[Call]:
        return ((setitem, self.items, self.name, array),)

    def undo(self) -> Sequence[Call]:
        return ((setitem, self.items, self.name, self.items[self.name]),)

    def hold(self, tensor: Tensor) -> None:
        # An object of the place's own, for the function may write to it.
        self.items[self.name] = abstract_like(tensor)

    def held(self) -> Tensor:
        value = self.items[self.name]
        return value if isinstance(value, Tensor) else wrap(value)
