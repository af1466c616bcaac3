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

from .dtypes import NATIVE, DType
from .errors import GradientError, fail
from .ops.op import LEAF, TABLE
from .spec import Spec, bool_, category, complex128, default_complex, default_float, default_int, float64, spec_of
from .state.capture import note_write
from .state.refusals import refuse
from .storage import borrow, leave
from .tensor import Tensor, abstract, asarray, bind_detach, leaf_node, like, new, of_class, wrap

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
        if self._array is None:
            assert self.node is not None
            return self.node.spec
        return spec_of(self._array.shape, self._array.dtype)

    def wide(self) -> Tensor:
        """Return the same value as a tensor of the dtype that it has been computed in."""
        if self._array is None:
            assert self.node is not None
            return abstract(self.node)
        out = wrap(self._array)
        out.node = self.node
        return out

    def strong(self) -> Tensor:
        """Return the tensor that the numbers would be made into, in the default dtype of their category."""
        dtype = (bool_, default_int, default_float(), default_complex())[category(self.dtype)]
        out: Tensor = TABLE["cast"].front(self.wide(), dtype=dtype)
        return out

    def detach(self) -> Tensor:
        """Return the same value without history: gradients do not flow through it."""
        return weak(super().detach() if self._array is None else wrap(self._array))

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
    out._data, out.node = x._array, x.node
    out._share = x._share if type(x._share) is tuple else None
    return out


def weak_number(number: Any) -> WeakTensor:
    """Return a Python number (float, int, complex) as a tensor."""
    kind = PYTHON_DTYPES[1 if type(number) is int else 3 if type(number) is complex else 2]
    return _weak_of(np.asarray(number, kind))


def _weak_of(value: Any) -> WeakTensor:
    return weak(wrap(value))


# -- tensors in memory of NumPy's


def over_array(array: Any, cls: type[Tensor]) -> Tensor:
    """Return a tensor of a namespace with views in the memory of a NumPy array, where both can be written to.

    An array that is read-only, or not of a dtype of ours as it is in memory, is copied where it has to be.
    """
    if array.dtype not in NATIVE or not array.flags.writeable or isinstance(array, np.ma.MaskedArray):
        return of_class(cls, asarray(array))  # type: ignore[no-any-return]
    array, own = np.asarray(array), NATIVE[array.dtype]
    out: Tensor = of_class(cls, wrap(array if array.dtype is own else array.view(own)))
    borrow(out, out._array)
    return out


# -- other names of a tensor


class DataView(Tensor, names=Tensor):
    """A detached tensor with the present value of its owner: `x.data`, an entry of a state dict.

    It stands for the owner in reading and in writing; its slot for a gradient holds it.
    """

    __slots__ = ()

    is_name = True

    @property
    def owner(self) -> Tensor:
        """The tensor whose value this is."""
        found: Tensor = self._grad
        return found

    @owner.setter
    def owner(self, owner: Tensor) -> None:
        self._grad = owner

    @classmethod
    def of(cls, owner: Tensor) -> DataView:
        """Return a tensor's value under another name."""
        out = new(cls)
        out.owner = owner.owner if isinstance(owner, DataView) else owner
        return out

    @property
    def grad(self) -> None:
        """None: gradients are the owner's."""
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            fail(GradientError, f"a gradient given to x.data, another name of {self.owner.spec}", "Write x.grad = v.")

    # No slots of its own: a value is always read off the owner. (Properties in the place of slots.)
    _data = property(lambda self: self.owner._data)
    _spec = property(lambda self: self.owner._spec)
    _share = property(lambda self: self.owner._share)
    _window = property(lambda self: self.owner._window)
    node = property(lambda self: None if self.owner._array is not None else bind_detach(self.owner).node)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Make this a leaf, with the owner's present value."""
        if requires_grad:
            fail(
                GradientError,
                f"requires_grad_() of .data or of a state dict's entry, {self.spec}",
                "It is another name of its tensor. For a leaf of its own with that value, write x.detach().clone().",
            )
        return self

    def _reduced(self, value: Any) -> tuple[Any, ...]:
        return self.detach()._reduced(value)


# -- values that change while a function is traced


def replace(t: Tensor, value: Tensor) -> None:
    """Give `t` another value of its spec, where one of the two is abstract. A leaf stays a leaf.

    Raises TraceError where an abstract value would outlive its trace.
    """
    if value._array is None:
        if t._array is not None:
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
    leave(t)
    node = leaf_node(t, value._array) if t.node is not None and t.node.op is LEAF else None
    t._data, t.node = value._array, node
    if not t.is_weak:
        t._spec = value.spec


def become(t: Tensor, value: Tensor) -> None:
    """Let `t` stand for an abstract value, outside any graph; a leaf that collects gradients stays one."""
    assert value.node is not None
    node = value.node
    if t.node is not None and t.node.op is LEAF:
        node = leaf_node(t, value.node)
    if t._array is not None:
        t._data = None
        if not t.is_weak:
            del t._spec
    t.node = node


def present(t: Tensor) -> Tensor:
    """Return the value of a tensor as another tensor, without its history as a leaf."""
    if t._array is not None:
        return like(t, wrap(t._array, t.spec))
    node = t.node
    assert node is not None
    return like(t, abstract(node.inputs[0] if node.op is LEAF else node))
