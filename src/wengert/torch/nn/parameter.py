"""`Parameter`: a tensor that a module trains, with PyTorch's methods; and tensors that are a module's state."""

from __future__ import annotations

from typing import Any

from ...core.storage import join, overlaps_itself, window_of
from ...core.tensor import Tensor as PlainTensor
from ...core.tensor import asarray, refuse_cut
from ...nn.parameter import Parameter as PlainParameter
from ..tensor import Tensor


def _hold(x: Tensor, data: Any, what: str) -> None:
    """Give a new tensor the memory of another one, so that a write to either reaches both; other data is copied."""
    given = data.detach() if isinstance(data, PlainTensor) else data
    if isinstance(given, Tensor) and (window := window_of(given)) is not None and not overlaps_itself(window):
        x._data, x._spec, x.node, x._base = window, given.spec, None, None
        join(x, given, keeps_gradients=False)
        return
    made = asarray([] if given is None else given, copy=True)
    held = made._value(what) if made._array is None else made._array
    x._data, x._spec, x.node, x._base = held, made.spec, None, None


class Parameter(Tensor, PlainParameter):
    """A leaf tensor that becomes one of a module's parameters when assigned to an attribute.

    >>> import wengert.torch as torch
    >>> torch.nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if isinstance(data, PlainTensor):
            refuse_cut(data, "a parameter, nn.Parameter(x),")
        _hold(self, data, "a parameter")
        if requires_grad:
            self.requires_grad_()


class Buffer(Tensor):
    """A tensor that becomes one of a module's buffers when assigned to an attribute.

    With `persistent=False` it is no part of the module's state dict.

    >>> import wengert.torch as torch
    >>> module = torch.nn.Module()
    >>> module.scale = torch.nn.Buffer(torch.ones(2))
    >>> list(module.state_dict())
    ['scale']
    """

    __slots__ = ("persistent",)
    persistent: bool

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        _hold(self, data, "a buffer")
        self.persistent = persistent
