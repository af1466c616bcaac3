"""`torch.utils.checkpoint`: PyTorch's parameters over :func:`wengert.checkpoint`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...core.errors import DTypeError, GradientError, ShapeError, fail
from ...transforms.checkpoint.checkpoint import checkpoint as plain_checkpoint
from ..absent import names_of

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


def noop_context_fn() -> tuple[Any, Any]:
    """Return two contexts that do nothing, the default of `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)`, whose inner values are computed again for the backward pass, not kept.

    See :func:`wengert.checkpoint`. What is computed again is what was recorded: random numbers are those of the first
    time, whatever `preserve_rng_state`. `use_reentrant` decides nothing but whether keywords for the function are
    taken; `determinism_check`, `debug` and `early_stop` are taken.

    Raises GradientError for a `context_fn`: what to keep is a policy of :func:`wengert.checkpoint`. Raises DTypeError
    for keywords with `use_reentrant=True`.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([0.5], requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint(lambda a: a.exp().sin(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([-0.1283])
    """
    kwargs.pop("preserve_rng_state", None)
    if kwargs and use_reentrant:
        fail(DTypeError, f"checkpoint() with use_reentrant=True has no keyword {', '.join(kwargs)}")
    if context_fn is not noop_context_fn:
        fail(
            GradientError,
            "checkpoint() with a context_fn",
            "Write wengert.checkpoint(f, policy=...), with a policy of wengert.checkpoint_policies.",
        )
    return plain_checkpoint(function)(*args, **kwargs)


def _in_turn(functions: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for function in functions:
        x = function(x)
    return x


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Return functions, or the layers of a `Sequential`, applied one after the other, in checkpointed segments.

    The last segment keeps its values: its backward pass comes first. Raises ShapeError for a number of segments that is
    none, DTypeError for other keywords than `preserve_rng_state`.
    """
    kwargs.pop("preserve_rng_state", None)
    if kwargs:
        fail(DTypeError, f"checkpoint_sequential() has no keyword {', '.join(kwargs)}")
    steps = list(functions)
    if segments < 1 or segments > max(len(steps), 1):
        fail(ShapeError, f"checkpoint_sequential() with {segments} segments of {len(steps)} functions")
    size = len(steps) // segments
    last = size * (segments - 1)
    for start in range(0, last, max(size, 1)):
        input = checkpoint(functools.partial(_in_turn, steps[start : start + size]), input, use_reentrant=use_reentrant)
    return _in_turn(steps[last:], input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Do nothing: what a derivative does not need is never computed again."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Do nothing: what is computed again is the recorded graph, which cannot be another one."""
    yield


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
