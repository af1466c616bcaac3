"""`Parameter`: a tensor that a module trains, with PyTorch's methods; and tensors that are a module's state."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor as PlainTensor
from ...core.tensor import asarray, refuse_cut
from ...nn.parameter import Parameter as PlainParameter
from ..tensor import Tensor


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
            data = data.detach()
        made = asarray([] if data is None else data, copy=True)
        held = made._value("a parameter") if made._data is None else made._data
        self._data, self._spec, self.node, self._base = held, made.spec, None, None
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
        made = asarray([] if data is None else data, copy=True)
        held = made._value("a buffer") if made._data is None else made._data
        self._data, self._spec, self.node, self._base = held, made.spec, None, None
        self.persistent = persistent
