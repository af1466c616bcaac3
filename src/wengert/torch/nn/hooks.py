"""Hooks of modules: those called around `forward`, those that see gradients, those around state dicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...core.errors import GradientError, fail
from ...core.tensor import Tensor as PlainTensor
from ...nn.module import HookHandle
from ..autograd.function import Function

Hook = Callable[..., Any]


class RemovableHandle(HookHandle):
    """A handle that ends a hook: by `remove()`, or at the end of a `with` block."""

    __slots__ = ("_among", "id")

    def __init__(self, hooks: dict[int, Any]) -> None:
        super().__init__(hooks)
        self._among = hooks
        self._number = self.id = max(hooks, default=-1) + 1

    def hooks_dict_ref(self) -> dict[int, Any]:
        """Return the hooks among which this one is, or was."""
        return self._among

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


def keyed(hooks: dict[int, Any], kind: str) -> dict[int, bool]:
    """Return, for each hook of a kind, `with_kwargs` or `always`, True."""
    return {n: True for n, hook in hooks.items() if isinstance(hook, Keyed) and getattr(hook, kind)}


def add(hooks: dict[int, Any], hook: Any, prepend: bool = False) -> RemovableHandle:
    """Add a hook as the last, or the first, and return its handle."""
    handle = RemovableHandle(hooks)
    before = dict(hooks) if prepend else {}
    if prepend:
        hooks.clear()
    hooks[handle.id] = hook
    hooks.update(before)
    return handle


class Everywhere:
    """The hooks of all modules, which come before a module's own."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.after: dict[int, Any] = {}
        self.gradients = GradientHooks()
        # By a module's registry: called with what is put there.
        self.registration: dict[str, dict[int, Hook]] = {"_parameters": {}, "_buffers": {}, "_modules": {}}

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.gradients)

    def registered(self, module: Any, registry: str, name: str, value: Any) -> Any:
        """Return what is put into a registry of a module: the value, or what a hook gives in its place."""
        for hook in tuple(self.registration[registry].values()):
            replaced = hook(module, name, value)
            value = value if replaced is None else replaced
        return value


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a module's `forward` among the hooks of all modules and its own."""
    after = (*everywhere.after.values(), *module._hooks.values())
    watched = module.__dict__.get("_gradient_hooks")
    if everywhere.gradients:
        watched = everywhere.gradients.beside(watched)
    called: list[Any] = []
    try:
        args, kwargs = _before(module, args, kwargs)
        out = _watched(module, watched, args, kwargs) if watched else module.forward(*args, **kwargs)
        for hook in after:
            called.append(hook)
            replaced = _after(module, hook, args, kwargs, out)
            if replaced is not None:
                out = replaced
    except Exception:
        for hook in after:
            if isinstance(hook, Keyed) and hook.always and hook not in called:
                _after_failure(module, hook, args, kwargs)
        raise
    return out


def _before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what comes before `forward`. Returns its arguments."""
    for hook in (*everywhere.before.values(), *module._pre_hooks.values()):
        if isinstance(hook, Keyed):
            replaced = hook.hook(module, args, kwargs)
            if replaced is not None:
                args, kwargs = replaced
            continue
        replaced = hook(module, args)
        if replaced is not None:
            args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


def _after_failure(module: Any, hook: Keyed, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call a hook of a call that fails. What the hook raises is a warning: the failure itself goes on."""
    try:
        _after(module, hook, args, kwargs, None)
    except Exception as e:
        warnings.warn(f"a forward hook with always_call=True raised {type(e).__name__}: {e}", stacklevel=3)


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

    def beside(self, others: GradientHooks | None) -> GradientHooks:
        """Return these hooks, then others."""
        both = GradientHooks()
        for one in (self, others):
            if one is not None:
                for mine, theirs in ((both.before, one.before), (both.after, one.after)):
                    mine.update(enumerate(theirs.values(), len(mine)))
        return both


everywhere = Everywhere()


class _Pass:
    """One call of a module, whose gradients the hooks see."""

    def __init__(self, module: Any, hooks: GradientHooks, inputs: int) -> None:
        self.module, self.hooks, self.inputs = module, hooks, inputs
        self.at: list[int] = []
        self.outputs = 1
        self.places: list[int] = []
        self.seen: tuple[Any, ...] | None = None

    def at_outputs(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Take the gradients of the results, which hooks may replace."""
        found = _spread(gradients, self.places, self.outputs)
        for hook in tuple(self.hooks.before.values()):
            replaced = hook(self.module, found)
            if replaced is not None:
                found = _replaced(replaced, found, "grad_output")
        self.seen = found
        if not self.at:
            for hook in tuple(self.hooks.after.values()):
                replaced = hook(self.module, (None,) * self.inputs, found)
                if replaced is not None and any(r is not None for r in replaced):
                    fail(
                        GradientError,
                        f"a backward hook of {type(self.module).__name__} gives gradients of its arguments",
                        "None of them requires gradients: the hook returns None.",
                    )
        return tuple(found[i] for i in self.places)

    def at_inputs(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        """Take the gradients of the arguments, which hooks may replace."""
        # A second derivative comes to the arguments by another way than the results.
        if self.seen is None:
            return gradients
        found = _spread(gradients, self.at, self.inputs)
        for hook in tuple(self.hooks.after.values()):
            replaced = hook(self.module, found, self.seen)
            if replaced is not None:
                found = _replaced(replaced, found, "grad_input")
        self.seen = None
        return tuple(found[i] for i in self.at)


def _replaced(given: Any, found: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """Return what a hook gives for gradients. Raises GradientError for another number of them."""
    new = given if isinstance(given, tuple) else (given,)
    if len(new) != len(found):
        fail(GradientError, f"a backward hook's {what}: got {len(new)}, but expected {len(found)}")
    return new


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
