"""TorchScript under PyTorch's path: `torch.jit`. Functions and modules stay Python, and run as they are.

What a script computes is what its Python computes; to compile it, see :func:`wengert.torch.compile`.

>>> import wengert.torch as torch
>>> @torch.jit.script
... def double(x):
...     return x * 2
>>> double(torch.tensor(1.5))
tensor(3.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...core.mode import get_mode
from ..absent import names_of
from ..nn.module import Module
from ..nn.parameter import refuse_lazy
from ..refusing import refused


def script(obj: Any, optimize: Any = None, **options: Any) -> Any:
    """Return the function or module: its Python is what runs. Raises GraphError for one without shapes yet."""
    refuse_lazy(obj, "torch.jit.script")
    return obj


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """Return the function or module, which is not tied to the path that the example takes. It is called once."""
    if example_inputs is not None:
        func(*(example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    return func


def trace_module(mod: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """Return the module, whose methods are called once on their examples."""
    for name, example in inputs.items():
        getattr(mod, name)(*(example if isinstance(example, (tuple, list)) else (example,)))
    return mod


def _same(name: str, doc: str) -> Callable[..., Any]:
    def same(fn: Any = None, **options: Any) -> Any:
        return (lambda f: f) if fn is None else fn

    same.__name__ = same.__qualname__ = name
    same.__doc__ = doc
    return same


export = _same("export", "Return the method: all methods can be called.")
unused = _same("unused", "Return the method: it can be called.")
interface = _same("interface", "Return the class.")
script_method = _same("script_method", "Return the method: its Python is what runs.")
script_if_tracing = _same("script_if_tracing", "Return the function: its Python is what runs.")
freeze = _same("freeze", "Return the module: nothing is made constant.")
optimize_for_inference = _same("optimize_for_inference", "Return the module.")
# Overloads tell TorchScript of types; what Python calls is the definition that comes last.
_overload = _same("_overload", "Return the function.")
_overload_method = _same("_overload_method", "Return the method.")


def ignore(drop: Any = False, **options: Any) -> Any:
    """Return the method, or a decorator that does: it can be called."""
    return drop if callable(drop) else lambda fn: fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


def is_scripting() -> bool:
    """Return False: there are no scripts."""
    return False


def is_tracing() -> bool:
    """Return whether a function is being traced."""
    return get_mode().tracing


def set_fusion_strategy(strategy: Any) -> None:
    """Do nothing: `torch.compile` decides what is computed together."""


class Future:
    """A value that is there already, as :func:`fork` gives it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """Return the value."""
        return self._value


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function, at once, and return a future of its value."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """Return the value of a future."""
    return future.wait()


_FILES = (
    "files of scripts are not there",
    "Keep the module's class in Python, and its state with torch.save(model.state_dict(), path).",
)
save, load = (refused(f"torch.jit.{name}", *_FILES) for name in ("save", "load"))
_script_if_tracing = script_if_tracing


class ScriptModule(Module):
    """A module that its class declares for TorchScript: it is an ordinary one. What `script` gives is none."""


__all__ = [
    "Final",
    "Future",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
