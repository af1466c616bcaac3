"""`Variable`, PyTorch's older name of a tensor."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor as Plain
from ...core.tensor import of_class
from ..tensor import Tensor
from .engine import Engine


class _VariableMeta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Plain)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        made = Tensor(0) if data is None else of_class(Tensor, data.detach().clone())
        return made.requires_grad_() if requires_grad else made


class Variable(metaclass=_VariableMeta):
    """A tensor: `Variable(x, requires_grad=True)` gives one with the value of `x`; `volatile` is not read.

    Tensors are instances of it.

    >>> import wengert.torch as torch
    >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    >>> x.requires_grad, isinstance(x, torch.autograd.Variable)
    (True, True)
    """

    _execution_engine = Engine()


__all__ = ["Variable"]


def __dir__() -> list[str]:
    return sorted(__all__)
