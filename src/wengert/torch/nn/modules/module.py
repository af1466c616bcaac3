"""`Module` under PyTorch's inner path, and hooks of all modules; see :mod:`wengert.torch.nn`.

Hooks of all modules are called before a module's own. A function that is compiled already keeps those of its day.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ...absent import names_of
from ..hooks import Keyed, RemovableHandle, add, everywhere, keyed
from ..module import IncompatibleKeys as _IncompatibleKeys
from ..module import Module, follow_everywhere, hook_everywhere

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, args)` before every module's `forward`; what it returns, unless None, replaces `args`.

    >>> import wengert.torch as torch
    >>> seen = []
    >>> with torch.nn.modules.module.register_module_forward_pre_hook(lambda m, args: seen.append(type(m).__name__)):
    ...     _ = torch.nn.Sequential(torch.nn.Linear(1, 1))(torch.ones(1))
    >>> seen
    ['Sequential', 'Linear']
    """
    return hook_everywhere(everywhere.before, hook)


def register_module_forward_hook(hook: Any, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Call `hook(module, args, output)` after every module's `forward`; what it returns replaces the output.

    `with_kwargs` and `always_call` are those of `Module.register_forward_hook`.
    """
    made = Keyed(hook, with_kwargs, always_call) if with_kwargs or always_call else hook
    return hook_everywhere(everywhere.after, made)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` in every module's backward pass; see `Module`'s method."""
    return hook_everywhere(everywhere.gradients.after, hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, grad_output)` before every module's backward pass; see `Module`'s method."""
    return hook_everywhere(everywhere.gradients.before, hook)


def register_module_parameter_registration_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, name, parameter)` when a parameter is registered; what it returns takes its place."""
    return add(everywhere.registration["_parameters"], hook)


def register_module_buffer_registration_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, name, buffer)` when a buffer is registered; what it returns takes its place."""
    return add(everywhere.registration["_buffers"], hook)


def register_module_module_registration_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, name, submodule)` when a submodule is registered; what it returns takes its place."""
    return add(everywhere.registration["_modules"], hook)


__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


class _WithHooks(ModuleType):
    """This module, at which programs look the hooks of all modules up, and put other ones in their place."""

    _global_forward_hooks_always_called = property(lambda self: keyed(everywhere.after, "always"))


def _held(found: dict[int, Any]) -> property:
    def assign(self: Any, hooks: Any) -> None:
        found.clear()
        found.update(hooks)
        follow_everywhere()

    return property(lambda self: found, assign)


for _name, _found in {
    "_global_forward_pre_hooks": everywhere.before,
    "_global_forward_hooks": everywhere.after,
    "_global_backward_pre_hooks": everywhere.gradients.before,
    "_global_backward_hooks": everywhere.gradients.after,
    "_global_parameter_registration_hooks": everywhere.registration["_parameters"],
    "_global_buffer_registration_hooks": everywhere.registration["_buffers"],
    "_global_module_registration_hooks": everywhere.registration["_modules"],
}.items():
    setattr(_WithHooks, _name, _held(_found))
sys.modules[__name__].__class__ = _WithHooks


__getattr__ = names_of(__name__)
