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

An object whose `__dict__` has an item `_compiled`, None at first, keeps there what compiled functions know of it when
it is among their arguments (see `execute/jit/guests`), so that they do not keep it alive. It is no part of copies.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, Protocol

import numpy as np

from .arrays import Array
from .spec import DType, Spec, spec_of
from .standins import become, present, weak
from .tensor import Tensor, abstract_like, wrap


class Cell:
    """A place that holds one array's worth of value.

    `key` tells places apart: two cells of one key are the same place. A trace calls `save`, `hold`,
    then `held`, and `restore` whatever happened; a run calls `get`, and `put` where the function
    wrote to the place.
    """

    __slots__ = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells this place from others, hashable."""
        raise NotImplementedError

    @property
    def spec(self) -> Spec:
        """Shape and dtype of the present value."""
        raise NotImplementedError

    def get(self) -> Array:
        """The present value; nobody writes into it."""
        raise NotImplementedError

    def put(self, array: Array) -> None:
        """Give the place another value, an array of its spec that is the place's own from now on."""
        raise NotImplementedError

    @property
    def numbers(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        """The items of dicts whose numbers make up the value, one for each element; empty where it is not made so."""
        return ()

    def save(self) -> Any:
        """All that stands in the place, for `restore`."""
        raise NotImplementedError

    def restore(self, saved: Any) -> None:
        """What stood in the place before, again."""
        raise NotImplementedError

    def hold(self, tensor: Tensor) -> None:
        """Let an abstract tensor stand in the place."""
        raise NotImplementedError

    def held(self) -> Tensor:
        """The value that stands in the place in a trace: abstract, or concrete where one was put there."""
        raise NotImplementedError


class Stateful(Protocol):
    """An object with cells of its own."""

    def __jit_cells__(self) -> Iterable[Cell]: ...

    def __jit_static__(self) -> Any: ...


class TensorCell(Cell):
    """A tensor. One that collects gradients stays a leaf, whatever value it holds."""

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
        found: Array = self.tensor._data
        return found

    def put(self, array: Array) -> None:
        self.tensor._data = array

    def save(self) -> Any:
        return self.tensor._data, self.tensor.node

    def restore(self, saved: Any) -> None:
        t = self.tensor
        t._data, t.node = saved
        if t._data is not None and not t.is_weak:
            t._spec = spec_of(t._data.shape, t._data.dtype)

    def hold(self, tensor: Tensor) -> None:
        become(self.tensor, tensor)

    def held(self) -> Tensor:
        return present(self.tensor)


class ItemCell(Cell):
    """A Python number in a dict (an optimiser's option, an object's attribute by its `__dict__`).

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

    def put(self, array: Array) -> None:
        self.items[self.name] = array.item()

    def save(self) -> Any:
        return self.items[self.name]

    def restore(self, saved: Any) -> None:
        self.items[self.name] = saved

    def hold(self, tensor: Tensor) -> None:
        self.items[self.name] = weak(tensor)

    def held(self) -> Tensor:
        value = self.items[self.name]
        return value if isinstance(value, Tensor) else wrap(np.asarray(value, self.dtype))


class ArrayCell(Cell):
    """A NumPy array in a dict, which only its owner writes to (an optimiser's buffer).

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
    def spec(self) -> Spec:
        value = self.items[self.name]
        return spec_of(value.shape, value.dtype)

    def get(self) -> Array:
        return np.asarray(self.items[self.name])

    def put(self, array: Array) -> None:
        self.items[self.name] = array

    def save(self) -> Any:
        return self.items[self.name]

    def restore(self, saved: Any) -> None:
        self.items[self.name] = saved

    def hold(self, tensor: Tensor) -> None:
        # An object of the place's own, for the function may write to it.
        self.items[self.name] = abstract_like(tensor)

    def held(self) -> Tensor:
        value = self.items[self.name]
        return value if isinstance(value, Tensor) else wrap(np.asarray(value))
