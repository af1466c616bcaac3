"""Handles: tensors whose values are still to be computed.

A handle is a tensor in everything. Who asks for its value, or for its node, has all deferred calls run first; then it
is an ordinary tensor, of the class that it stands for. Its shape and its dtype are known before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...core import tree
from ...core.ops.op import Op
from ...core.ops.record import bind
from ...core.spec import Spec
from ...core.state.blocks import to_come
from ...core.storage import join
from ...core.tensor import Tensor, new

_DATA, _SHARE, _NODE, _WINDOW = (Tensor.__dict__[name] for name in ("_data", "_share", "node", "_window"))
batch_of = _DATA.__get__
number_of = _SHARE.__get__
set_data, set_share, set_node, set_spec, set_window = (
    Tensor.__dict__[name].__set__ for name in ("_data", "_share", "node", "_spec", "_window")
)


class Source(Protocol):
    """A source of the values of handles."""

    def fill(self, handle: Any, number: int) -> None:
        """Compute the value of a handle, and make an ordinary tensor of it."""
        ...

    def is_tracked(self, number: int) -> bool:
        """Return whether gradients flow from a value."""
        ...


class Handle:
    """The part of a handle's class that comes before the class it stands for."""

    __slots__ = ()

    _data = property(lambda self: _empty(self), lambda self, value: set_data(_ready(self), value))
    _array = property(lambda self: _ready(self)._array)
    node = property(lambda self: _ready(self).node, lambda self, value: set_node(_ready(self), value))
    _share = property(lambda self: _ready(self)._share, lambda self, value: set_share(_ready(self), value))
    # Who finds the slot of the value empty looks here.
    _window = property(lambda self: _ready(self)._array, lambda self, value: _WINDOW.__set__(_ready(self), value))

    is_abstract = False

    # The slot has the shape and dtype: the class that it stands for looks at other slots first.
    spec = property(Tensor.__dict__["_spec"].__get__)

    @property
    def requires_grad(self) -> bool:
        """True if gradients flow from the value."""
        source: Source = batch_of(self)
        return source.is_tracked(number_of(self))

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        _ready(self).requires_grad_(value)


def _empty(handle: Any) -> Any:
    # As for a member of a storage: who reads the slot goes on by another way, on which a block may take the operation.
    raise AttributeError("_data")


def _ready(handle: Any) -> Any:
    try:
        view = _WINDOW.__get__(handle)
    except AttributeError:
        source: Source = batch_of(handle)
        source.fill(handle, number_of(handle))
        return handle
    # A view of a value that is there now: it shares its memory.
    op, args, attrs, number = view
    settle(args[0])
    made = bind(op, args, attrs)
    made = made[number] if isinstance(made, tuple) else made
    become(handle, made._array, made.spec, made.node)
    join(handle, args[0])
    return handle


def mark_views(handles: Any, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> None:
    """Note that handles are views of the first operand, in a namespace in which views share memory."""
    for i, made in enumerate(handles if isinstance(handles, tuple) else (handles,)):
        _WINDOW.__set__(made, (op, args, attrs, i))


_classes: dict[type[Tensor], type[Any]] = {}


def handle_class(cls: type[Tensor]) -> type[Any]:
    """Return the class of handles for tensors of a class."""
    if cls in _classes:
        return _classes[cls]
    made = type("Handle", (Handle, cls), {"__slots__": (), "__module__": __name__, "stands_for": cls})
    made.result_class = cls.result_class  # type: ignore[attr-defined]
    tree.known_leaves.add(made)
    to_come.add(made)
    _classes[cls] = made
    return made


def handle(cls: type[Any], source: Source, number: int, spec: Spec) -> Any:
    """Return a handle, of a class made by :func:`handle_class`, of a value by its number."""
    made = new(cls)
    set_spec(made, spec)
    set_data(made, source)
    set_share(made, number)
    return made


def settle(made: Any) -> None:
    """Make an ordinary tensor of a handle, whatever that takes."""
    if type(made) in to_come:
        _ready(made)


def become(made: Any, array: Any, spec: Spec, node: Any) -> None:
    """Make an ordinary tensor of a handle."""
    cls = type(made).stands_for
    set_data(made, array)
    set_spec(made, spec)
    set_share(made, None)
    set_window(made, None)
    set_node(made, node)
    made.__class__ = cls
