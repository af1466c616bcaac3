"""Decorators that mark functions for TorchScript, under PyTorch's inner path. The functions stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..absent import names_of
from ..jit import _overload, _overload_method, export, ignore, is_scripting, unused


def _copy_to_script_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function."""
    return fn


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str, func_name: str
) -> Callable[..., Any]:
    """Return a function that calls one of two, by a flag among its arguments."""

    def fn(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    fn.__name__ = fn.__qualname__ = func_name
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    return fn


__all__ = ["_overload", "_overload_method", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]
__getattr__ = names_of(__name__)
