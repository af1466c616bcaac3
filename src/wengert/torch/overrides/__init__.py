"""`torch.overrides`: functions of torch are not replaced by a class or for a block; what asks says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..absent import names_of
from ..tensor import Tensor


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return False: no function of torch is replaced."""
    return False


def has_torch_function_unary(x: Any) -> bool:
    """Return False: no function of torch is replaced."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """Return False: no function of torch is replaced."""
    return False


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Return what the function gives for the arguments."""
    return public_api(*args, **kwargs)


def is_tensor_like(inp: Any) -> bool:
    """Return whether something is a tensor, or says that it stands for one by `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


__all__ = [
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
