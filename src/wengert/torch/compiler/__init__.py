"""`torch.compile`, which is :func:`wengert.jit`, and what PyTorch offers around it: `torch.compiler`."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

import wengert as wg

from ...core.mode import get_mode
from ...core.state.refusals import OF_TRACES
from ..absent import names_of
from ..nn.module import Module

# As many as PyTorch's compiler makes of one function (`torch._dynamo.config.recompile_limit`).
_MOST_TRACES = 8


class Compiled:
    """A compiled function that goes on without compiling where it needs what only Python has.

    PyTorch's compiler breaks the graph at `print`, `item()` and the like; here the whole function then runs eagerly,
    with a warning, unless `fullgraph=True` or there is a budget of memory, which it would not keep. So it does where
    eight calls in a row were traced anew, for arguments of the same shapes. The rest is :func:`wengert.jit`'s: `graph`,
    `kernels`, `trace(...)`.
    """

    def __init__(
        self, fn: Callable[..., Any], fullgraph: bool, name: str | None = None, memory: Any = None, spill: Any = False
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn, self.fullgraph, self.eager = fn, fullgraph or memory is not None, False
        self._traces_in_a_row = 0
        self.compiled = wg.jit(fn, name=name, memory=memory, spill=spill)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.eager:
            return self.fn(*args, **kwargs)
        history = self.compiled.history
        count = history.count
        try:
            found = self.compiled(*args, **kwargs)
            self._traces_in_a_row = 0 if history.count == count else self._traces_in_a_row + history.is_for_the_same
            if self._traces_in_a_row >= _MOST_TRACES and not self.fullgraph:
                self._give_up(f"it was traced in each of {_MOST_TRACES} calls with like arguments (why_recompiled)")
            return found
        except OF_TRACES as e:  # nothing outside has changed
            if self.fullgraph:
                raise
            found = self.fn(*args, **kwargs)  # what is wrong with it in any case, it says itself
            self._traces_in_a_row += 1
            if e.is_of_first_call and self._traces_in_a_row < _MOST_TRACES:
                return found
            self._give_up(str(e).partition("\n")[0])
            return found

    def _give_up(self, why: str) -> None:
        self.eager = True
        text = f"torch.compile: {getattr(self.fn, '__name__', self.fn)} runs eagerly: {why}"
        warnings.warn(text, stacklevel=3)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("compiled", "fn"):
            raise AttributeError(name)
        return getattr(self.compiled, name)


class OptimizedModule(Module):
    """A module whose calls are compiled; everything else is the module's own, `_orig_mod`.

    Its parameters are the module's, under paths that begin with `_orig_mod`, as in PyTorch.
    """

    def __init__(self, module: Any, fullgraph: bool = False, memory: Any = None, spill: Any = False) -> None:
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "compiled_call", Compiled(module, fullgraph, type(module).__name__, memory, spill))
        self.training = module.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, compiled."""
        return self.compiled_call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_orig_mod", "_modules", "_parameters", "_buffers"):
            raise AttributeError(name)
        return getattr(self._orig_mod, name)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __getitem__(self, index: Any) -> Any:
        return self._orig_mod[index]


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    name: str | None = None,
    disable: bool = False,
    memory: int | str | None = None,
    spill: bool | str | os.PathLike[str] = False,
    **_: Any,
) -> Any:
    """Return a function or a module compiled by :func:`wengert.jit`; without one, a decorator.

    Parameters
    ----------
    model: a function, or a module, whose calls are compiled and which stays a module.
    fullgraph: raise TraceError where the function needs what only Python has, such as `item()`; else it then runs
        eagerly, with a warning.
    backend: "eager" and False-like ones compile nothing. The others, `mode`, `dynamic` and `options`, are not read.
    disable: compile nothing.
    memory, spill: a budget of bytes, and whether values may go to a file, as :func:`wengert.jit` has them. Then
        GraphError is raised as with `fullgraph`.

    >>> import wengert.torch as torch
    >>> @torch.compile
    ... def f(x):
    ...     return torch.sin(x) ** 2 + torch.cos(x) ** 2
    >>> f(torch.tensor([0.5, 1.0]))
    tensor([1., 1.])
    """
    if model is None:
        given = {"fullgraph": fullgraph, "backend": backend, "name": name, "disable": disable}
        return functools.partial(compile, **given, memory=memory, spill=spill)
    if disable or backend == "eager" or getattr(model, "_compile_disabled", False):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph, memory, spill)
    return Compiled(model, fullgraph, name, memory, spill)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function, to be left as it is where `compile` is asked for it; a decorator without one.

    Inside of another compiled function it is compiled with it.
    """
    if fn is None:
        return disable
    fn._compile_disabled = True
    return fn


def is_compiling() -> bool:
    """Return whether a function is being traced."""
    return get_mode().tracing


def is_dynamo_compiling() -> bool:
    """Return whether a function is being traced."""
    return get_mode().tracing


def is_exporting() -> bool:
    """Return False: graphs are not exported under this name."""
    return False


def reset() -> None:
    """Do nothing: programs belong to their functions, whose `clear_cache()` forgets them."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: there is no GPU."""


def allow_in_graph(fn: Any) -> Any:
    """Return the function: whatever it does is part of the graph."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return the function."""
    return fn


__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "reset",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
