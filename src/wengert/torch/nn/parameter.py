"""`Parameter`: a tensor that a module trains, with PyTorch's methods; a module's buffers; both without a shape yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import GraphError, fail
from ...core.tensor import Tensor as PlainTensor
from ...core.tensor import refuse_cut, wrap
from ...nn.parameter import Parameter as PlainParameter
from ...ops.structure.shapes import int_args
from ..absent import names_of
from ..tensor import Size, Tensor, dtype_of, hold, is_made, on_cpu


class Parameter(Tensor, PlainParameter):
    """A leaf tensor that becomes one of a module's parameters when assigned to an attribute.

    >>> import wengert.torch as torch
    >>> torch.nn.Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = True, **options: Any) -> None:
        if is_made(self):
            return
        if options:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {next(iter(options))!r}")
        if isinstance(data, PlainTensor):
            refuse_cut(data, "a parameter, nn.Parameter(x),")
        hold(self, data, "a parameter")
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
        hold(self, data, "a buffer")
        self.persistent = persistent


class UninitializedTensorMixin:
    """The base of parameters and buffers without a shape."""

    __slots__ = ()

    def _begin(self, requires_grad: bool, device: Any, dtype: Any) -> None:
        on_cpu(device)
        x: Any = self
        made = Tensor(0) if dtype is None else Tensor(0).to(dtype_of(dtype))
        x._data, x._spec, x.node, x._share = made._array, made.spec, None, None
        if requires_grad:
            x.requires_grad_()

    @property
    def shape(self) -> Size:
        """Raise GraphError: there is none yet."""
        fail(
            GraphError,
            f"the shape of an {type(self).__name__}",
            "A layer's parameters get one when it is first called: run it once on an input.",
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give the tensor a shape and, where given, another dtype; its values are left to be set."""
        on_cpu(device)
        x: Any = self
        tracked = x.requires_grad
        x.requires_grad_(False)
        made = wrap(np.zeros(int_args((shape,)), x.spec.dtype if dtype is None else dtype_of(dtype)))
        x._data, x._spec, x._share = made._array, made.spec, None
        x.__class__ = Parameter if isinstance(self, Parameter) else Tensor
        if tracked:
            x.requires_grad_()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape, which `materialize` gives it.

    >>> import wengert.torch as torch
    >>> weight = torch.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    torch.Size([2, 3])
    """

    __slots__ = ()

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        self._begin(requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape, which `materialize` gives it."""

    __slots__ = ()

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        self._begin(requires_grad, device, dtype)


def is_lazy(tensor: Any) -> bool:
    """Return whether a parameter or buffer has no shape yet."""
    return isinstance(tensor, UninitializedTensorMixin)


def refuse_lazy(module: Any, what: str) -> None:
    """Raise GraphError for a module of which a parameter or buffer has no shape yet."""
    held = [*getattr(module, "parameters", list)(), *getattr(module, "buffers", list)()]
    if any(map(is_lazy, held)):
        fail(
            GraphError,
            f"{what} of {type(module).__name__}, modules in which have uninitialized parameters.",
            "They get a shape when it is first called: run a forward pass, on an input like those to come.",
        )


__getattr__ = names_of(__name__)
