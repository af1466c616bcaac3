"""Functions whose forward and backward are written as classes, under PyTorch's path: `torch.autograd.function`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import wengert as wg

from ...core.errors import GradientError, fail
from ...core.mode import get_mode
from ...core.storage import join, window_of
from ...core.tensor import Tensor as Plain
from ...transforms.custom.function import Context
from ...transforms.custom.function import Function as PlainFunction
from ..absent import names_of
from ..namespace import as_torch
from .levels import refuse


class FunctionCtx(Context):
    """The context that `forward` leaves for `backward`, with PyTorch's further methods."""

    def mark_dirty(self, *args: Any) -> None:
        """Say that these arguments are written to and returned: outside they are the results from then on."""
        self._dirty = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing: tensors share no memory."""

    def set_materialize_grads(self, value: bool) -> None:
        """Say what `backward` is given for results that no gradient reaches: zeros, or with False None."""
        self.materializes = bool(value)


def _written(
    ctx: Context,
    arguments: Sequence[Plain],
    inside: Sequence[Plain],
    places: Collection[int],
    outs: Sequence[Any],
    given: Sequence[Any],
) -> list[Any]:
    """Give arguments that `forward` wrote to their values; see `Function.written`.

    One that is marked as dirty takes the result's history too, and is the result. Another is written as by `.data`, and
    shares its memory with the result.
    """
    given = list(given)
    for i, (x, w) in enumerate(zip(arguments, inside, strict=True)):
        dirty = any(w is marked for marked in ctx._dirty)
        if not dirty and i not in places:
            continue
        place = next((k for k, out in enumerate(outs) if out is w), None)
        if place is None and (dirty or w.is_abstract):
            what = "marks" if dirty else "writes in a compiled function to"
            fail(
                GradientError,
                f"the forward of a custom function {what} its argument {i}, {w.spec}, and does not return it",
                "Return what is written to among the results.",
            )
        new = w if place is None else given[place]
        target: Any = as_torch(x)
        if dirty and new.requires_grad:
            target.copy_(new)
        else:
            with wg.no_grad():
                target.data.copy_(new.detach())
        if place is None:
            continue
        if dirty or not new.requires_grad:
            given[place] = target
        elif target._array is not None:
            new._data, new._share = window_of(target), None
            join(new, target)
    return given


class Function(PlainFunction):
    """A differentiable function with a derivative of your own; see :class:`wengert.autograd.Function`.

    `forward` takes the context first, as `forward(ctx, *args)`, or there is a `setup_context(ctx, inputs, output)`
    beside a `forward(*args)`.

    >>> import wengert.torch as torch
    >>> class Cube(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         x, = ctx.saved_tensors
    ...         return 3 * x**2 * grad_output
    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    context_class: ClassVar[type[Context]] = FunctionCtx
    written: ClassVar[Any] = staticmethod(_written)
    returns_anything = True
    generate_vmap_rule = False
    # Whether a class has `backward` and its other name, `vjp`.
    _has_both = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in cls.__dict__ and cls.setup_context is not Function.setup_context:
            cls.forward = staticmethod(_with_setup(cls, cls.forward))  # type: ignore[method-assign]
        cls._has_both = {"vjp", "backward"} <= cls.__dict__.keys()
        if "vjp" in cls.__dict__ and not cls._has_both:
            cls.backward = cls.vjp  # type: ignore[method-assign]
        for name in ("backward", "jvp"):
            if name in cls.__dict__:
                setattr(cls, name, staticmethod(_rule(name, getattr(cls, name))))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Leave for `backward` what it needs of arguments and result; for a `forward` that takes no context."""

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradients; another name of `backward` that subclasses may define."""
        fail(GradientError, "a custom Function without backward()", "Define a static method backward(ctx, *grads).")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` on the arguments and record one node for it.

        A tensor that `forward` returns twice is one result, twice. Raises GradientError inside a transform of
        `torch.func` for a class without `setup_context`, and for one with both `backward` and `vjp`.
        """
        if cls._has_both:
            fail(GradientError, f"{cls.__name__}: Implementing both 'backward' and 'vjp'", "They are two names of one.")
        if cls.setup_context is Function.setup_context:
            refuse(
                f"{cls.__name__}, an autograd.Function without setup_context",
                "To be transformed it must override the setup_context staticmethod: forward(*args) computes, "
                "setup_context(ctx, inputs, output) saves what backward needs.",
            )
        return as_torch(super().apply(*args, **kwargs))


def _with_setup(cls: type[Function], forward: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def both(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()  # `setup_context` is given arguments that were left out, too
        args, kwargs = bound.args, bound.kwargs
        output = forward(*args, **kwargs)
        cls.setup_context(ctx, args, output)
        outs = output if isinstance(output, tuple) else (output,)
        for x in ctx._kept:
            is_given = isinstance(x, Plain) and any(x is a for a in args) and any(x is o for o in outs)
            if is_given and not any(x is marked for marked in ctx._dirty):
                fail(
                    GradientError,
                    f"{cls.__name__}: an input that has been returned as it is is saved for backward",
                    "With setup_context, return and save a view of it, x.view_as(x).",
                )
        return output

    return both


def _rule(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule that is given tensors of this namespace, in its arguments and in the context.

    A `backward` may return None for arguments that this call of the function left out.
    """

    @functools.wraps(rule)
    def given(ctx: Any, *grads: Any) -> Any:
        for value in vars(ctx).values():
            as_torch(value)
        found = rule(ctx, *as_torch(grads))
        count = len(ctx.needs_input_grad)
        if name == "backward" and isinstance(found, tuple) and all(g is None for g in found[count:]):
            return found[:count]
        return found

    return given


class _Once(PlainFunction):
    """Gradients that cannot be differentiated: values that depend on others, by a derivative that is an error."""

    @staticmethod
    def forward(ctx: Context, count: int, *tensors: Any) -> Any:
        return tuple(g.clone() for g in tensors[:count])

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        fail(
            GradientError,
            "a second derivative of a function whose backward is marked with once_differentiable",
            "Write its backward with differentiable operations, and leave the mark out.",
        )


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `backward` that runs without recording; to differentiate its result raises GradientError."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = get_mode().grad and any(isinstance(a, Plain) and a.requires_grad for a in args)
        with wg.no_grad():
            found = fn(ctx, *args)
        if not recording:
            return found
        several = found if isinstance(found, tuple) else (found,)
        there = [g.detach() for g in several if isinstance(g, Plain)]
        given = [a for a in args if isinstance(a, Plain)]
        marked = iter(as_torch(_Once.apply(len(there), *there, *given))) if there else iter(())
        out = tuple(next(marked) if isinstance(g, Plain) else g for g in several)
        return out if isinstance(found, tuple) else out[0]

    return wrapper


__all__ = ["Function", "FunctionCtx", "once_differentiable"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
