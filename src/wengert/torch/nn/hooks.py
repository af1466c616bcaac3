"""Hooks of modules: those called around `forward`, those that see gradients, those around state dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor as PlainTensor
from ...nn.module import HookHandle
from ..autograd.function import Function

Hook = Callable[..., Any]


class RemovableHandle(HookHandle):
    """A handle that ends a hook: by `remove()`, or at the end of a `with` block."""

    __slots__ = ("id",)

    def __init__(self, hooks: dict[int, Any]) -> None:
        super().__init__(hooks)
        self._number = self.id = max(hooks, default=-1) + 1

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


class Keyed:
    """A hook that takes keyword arguments too, or that is called although `forward` fails."""

    __slots__ = ("always", "hook", "with_kwargs")

    def __init__(self, hook: Hook, with_kwargs: bool, always: bool) -> None:
        self.hook = hook
        self.with_kwargs = with_kwargs
        self.always = always


def add(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Add a hook as the last, or the first, and return its handle."""
    handle = RemovableHandle(hooks)
    before = dict(hooks) if prepend else {}
    if prepend:
        hooks.clear()
    hooks[handle.id] = hook
    hooks.update(before)
    return handle


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a module's `forward` among its hooks."""
    for hook in tuple(module._pre_hooks.values()):
        if isinstance(hook, Keyed):
            replaced = hook.hook(module, args, kwargs)
            if replaced is not None:
                args, kwargs = replaced
            continue
        replaced = hook(module, args)
        if replaced is not None:
            args = replaced if isinstance(replaced, tuple) else (replaced,)
    after = tuple(module._hooks.values())
    watched = module.__dict__.get("_gradient_hooks")
    called: list[Any] = []
    try:
        out = _watched(module, watched, args, kwargs) if watched else module.forward(*args, **kwargs)
        for hook in after:
            called.append(hook)
            replaced = _after(module, hook, args, kwargs, out)
            if replaced is not None:
                out = replaced
    except Exception:
        for hook in after:
            if isinstance(hook, Keyed) and hook.always and hook not in called:
                _after(module, hook, args, kwargs, None)
        raise
    return out


def _after(module: Any, hook: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    if not isinstance(hook, Keyed):
        return hook(module, args, out)
    return hook.hook(module, args, kwargs, out) if hook.with_kwargs else hook.hook(module, args, out)


# -- gradients


class _Gate(Function):
    """The identity of several tensors; what `see` gives for their gradients goes on."""

    @staticmethod
    def forward(ctx: Any, see: Any, *tensors: Any) -> Any:
        """Return the tensors."""
        ctx.see = see
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the gradients as `see` leaves them."""
        return (None, *ctx.see(gradients))


class GradientHooks:
    """The hooks of a module that see gradients: before its backward pass, and after it."""

    def __init__(self) -> None:
        self.before: dict[int, Hook] = {}
        self.after: dict[int, Hook] = {}

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


class _Pass:
    """One call of a module, whose gradients the hooks see."""

    def __init__(self, module: Any, hooks: GradientHooks, inputs: int) -> None:
        self.module, self.hooks, self.inputs = module, hooks, inputs
        self.at: list[int] = []
        self.outputs = 1
        self.places: list[int] = []
        self.seen: tuple[Any, ...] = ()

    def at_outputs(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Take the gradients of the results, which hooks may replace."""
        found = _spread(gradients, self.places, self.outputs)
        for hook in tuple(self.hooks.before.values()):
            replaced = hook(self.module, found)
            if replaced is not None:
                found = replaced if isinstance(replaced, tuple) else (replaced,)
        self.seen = found
        if not self.at:
            for hook in tuple(self.hooks.after.values()):
                hook(self.module, (None,) * self.inputs, found)
        return tuple(found[i] for i in self.places)

    def at_inputs(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Take the gradients of the arguments, which hooks may replace."""
        found = _spread(gradients, self.at, self.inputs)
        for hook in tuple(self.hooks.after.values()):
            replaced = hook(self.module, found, self.seen)
            if replaced is not None:
                found = replaced if isinstance(replaced, tuple) else (replaced,)
        return tuple(found[i] for i in self.at)


def _spread(values: tuple[Any, ...], places: list[int], size: int) -> tuple[Any, ...]:
    found: list[Any] = [None] * size
    for i, v in zip(places, values, strict=True):
        found[i] = v
    return tuple(found)


def _watched(module: Any, hooks: GradientHooks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `forward` between gates that show the gradients to the hooks."""
    one = _Pass(module, hooks, len(args))
    one.at = [i for i, a in enumerate(args) if isinstance(a, PlainTensor) and a.requires_grad]
    if one.at:
        gated = _Gate.apply(one.at_inputs, *(args[i] for i in one.at))
        given = list(args)
        for i, g in zip(one.at, gated, strict=True):
            given[i] = g
        args = tuple(given)
    out = module.forward(*args, **kwargs)
    results = list(out) if isinstance(out, tuple) else [out]
    one.outputs = len(results)
    one.places = [i for i, r in enumerate(results) if isinstance(r, PlainTensor) and r.requires_grad]
    if not one.places:
        return out
    for i, g in zip(one.places, _Gate.apply(one.at_outputs, *(results[i] for i in one.places)), strict=True):
        results[i] = g
    if not isinstance(out, tuple):
        return results[0]
    return type(out)(*results) if hasattr(out, "_fields") else tuple(results)
