"""Tensors in a compiler's trace: abstract ones that stand for Python numbers, and tensors that change their value.

A compiled function may write to what it finds outside. While it is traced the same object then stands
for one abstract value after the other; a leaf that collects gradients goes on being a leaf, whose node
names the node of its value.
"""

from __future__ import annotations

from .capture import note_write
from .errors import GraphError, fail
from .op import TABLE
from .spec import bool_, category, default_complex, default_float, default_int
from .tensor import LEAF, Tensor, abstract, abstract_like, bind_detach, leaf_node, new, wrap

_PYTHON_DTYPES = (bool_, default_int, default_float, default_complex)


class WeakScalar(Tensor):
    """An abstract scalar that stands for a Python number: like one, it takes the dtype of what it meets.

    Its own dtype is what Python computes in: float64, int64, complex128.
    """

    __slots__ = ()
    is_weak = True

    def strong(self) -> Tensor:
        """The tensor that the Python number would be made into."""
        out: Tensor = TABLE["cast"].front(abstract_like(self), dtype=_PYTHON_DTYPES[category(self.dtype)])
        return out


def weak(x: Tensor) -> WeakScalar:
    """An abstract scalar that stands for a Python number."""
    out = new(WeakScalar)
    out._data = None
    out.node = x.node
    return out


# -- values that change while a function is traced


def replace(t: Tensor, value: Tensor) -> None:
    """Give `t` another value of its spec, where one of the two is abstract. A leaf stays a leaf.

    Raises GraphError where an abstract value would outlive its trace.
    """
    if value._data is None:
        if t._data is not None:
            if not note_write(t, True):
                leaf = " that requires gradients" if t.requires_grad else ""
                fail(
                    GraphError,
                    f"an abstract value written to a leaf{leaf}, {t.spec}",
                    "While a function is traced, return the new value and assign it outside.",
                )
        else:
            note_write(t, True)
        become(t, bind_detach(value))
        return
    note_write(t, False)
    node = leaf_node(t) if t.node is not None and t.node.op is LEAF else None
    t._data, t._spec, t.node = value._data, value._spec, node


def become(t: Tensor, value: Tensor) -> None:
    """Let `t` stand for an abstract value, outside any graph; a leaf that collects gradients stays one."""
    assert value.node is not None
    node = value.node
    if t.node is not None and t.node.op is LEAF:
        node = leaf_node(t)
        node.inputs = (value.node,)
    if t._data is not None:
        t._data = None
        del t._spec
    t.node = node


def present(t: Tensor) -> Tensor:
    """The value of a tensor as another tensor, without its history as a leaf."""
    if t._data is not None:
        return wrap(t._data, t._spec)
    node = t.node
    assert node is not None
    return abstract(node.inputs[0] if node.op is LEAF else node)
