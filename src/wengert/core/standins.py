"""Tensors that stand for other values: weak tensors of Python numbers, and changing values in a trace.

A function of Python numbers gives a number: a tensor in Python's own precision that is *weak*, that is, takes the
dtype of what it meets, as the number does.

A compiled function may write to what it finds outside. While it is traced the same object then stands
for one abstract value after the other; a leaf that collects gradients goes on being a leaf, whose node
names the node of its value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .ops.op import LEAF, TABLE
from .spec import (
    DType,
    Spec,
    bool_,
    category,
    complex128,
    default_complex,
    default_float,
    default_int,
    float64,
    spec_of,
)
from .state.capture import note_write
from .state.refusals import refuse
from .tensor import Tensor, abstract, bind_detach, leaf_node, like, new, wrap

# The dtype of Python's own arithmetic, by category.
PYTHON_DTYPES: tuple[DType, ...] = (bool_, default_int, float64, complex128)


class WeakTensor(Tensor):
    """A function of Python numbers alone: float64, int64 or complex128, until it meets another dtype.

    Its slot for the spec is empty: so the fast paths of operations, which look there first, leave it to the
    general ones.
    """

    __slots__ = ()
    is_weak = True

    @property
    def spec(self) -> Spec:
        """The shape and dtype that the value has been computed in."""
        if self._data is None:
            assert self.node is not None
            return self.node.spec
        return spec_of(self._data.shape, self._data.dtype)

    def wide(self) -> Tensor:
        """Return the same value as a tensor of the dtype that it has been computed in."""
        if self._data is None:
            assert self.node is not None
            return abstract(self.node)
        out = wrap(self._data)
        out.node = self.node
        return out

    def strong(self) -> Tensor:
        """Return the tensor that the numbers would be made into, in the default dtype of their category."""
        dtype = (bool_, default_int, default_float(), default_complex())[category(self.dtype)]
        out: Tensor = TABLE["cast"].front(self.wide(), dtype=dtype)
        return out

    def detach(self) -> Tensor:
        """Return the same value without history: gradients do not flow through it."""
        return weak(super().detach() if self._data is None else wrap(self._data))

    def __copy__(self) -> Tensor:
        return weak(self.wide())

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        memo[id(self)] = out = weak(self.wide().__deepcopy__(memo))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _weak_of, (super().__reduce__()[1][1],)


def weak(x: Tensor) -> WeakTensor:
    """Return a tensor of Python numbers' dtype as one that takes the dtype of its other operand."""
    out = new(WeakTensor)
    out._data, out.node = x._data, x.node
    out._base = None if x._base is None else (*x._base,)  # an entry of its own: these are counted
    return out


def weak_number(number: Any) -> WeakTensor:
    """Return a Python number (float, int, complex) as a tensor."""
    kind = PYTHON_DTYPES[1 if type(number) is int else 3 if type(number) is complex else 2]
    return _weak_of(np.asarray(number, kind))


def _weak_of(value: Any) -> WeakTensor:
    return weak(wrap(value))


# -- values that change while a function is traced


def replace(t: Tensor, value: Tensor) -> None:
    """Give `t` another value of its spec, where one of the two is abstract. A leaf stays a leaf.

    Raises TraceError where an abstract value would outlive its trace.
    """
    if value._data is None:
        if t._data is not None:
            if not note_write(t, True):
                leaf = " that requires gradients" if t.requires_grad else ""
                refuse(
                    f"an abstract value written to a leaf{leaf}, {t.spec}",
                    "While a function is traced, return the new value and assign it outside.",
                    value,
                )
        else:
            note_write(t, True)
        become(t, bind_detach(value))
        return
    note_write(t, False)
    node = leaf_node(t, value._data) if t.node is not None and t.node.op is LEAF else None
    t._data, t.node = value._data, node
    if not t.is_weak:
        t._spec = value.spec


def become(t: Tensor, value: Tensor) -> None:
    """Let `t` stand for an abstract value, outside any graph; a leaf that collects gradients stays one."""
    assert value.node is not None
    node = value.node
    if t.node is not None and t.node.op is LEAF:
        node = leaf_node(t, value.node)
    if t._data is not None:
        t._data = None
        if not t.is_weak:
            del t._spec
    t.node = node


def present(t: Tensor) -> Tensor:
    """Return the value of a tensor as another tensor, without its history as a leaf."""
    if t._data is not None:
        return like(t, wrap(t._data, t.spec))
    node = t.node
    assert node is not None
    return like(t, abstract(node.inputs[0] if node.op is LEAF else node))
