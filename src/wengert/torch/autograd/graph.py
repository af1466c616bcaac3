"""Hooks and contexts around the recorded graph, under PyTorch's path: `torch.autograd.graph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.errors import GradientError, fail
from ...core.node import Node


class saved_tensors_hooks:
    """Raises GradientError: what the graph keeps for the backward pass is not handed out; `checkpoint` keeps less."""

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        fail(
            GradientError,
            "saved_tensors_hooks()",
            "What a node keeps is not handed out. torch.utils.checkpoint.checkpoint keeps less and computes it again.",
        )


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Return a context without effect: what the graph keeps is in the processor's memory."""
    yield


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Return a context without effect: there are no such hooks."""
    yield


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Return a context without effect: writes to a tensor never change what the graph keeps of it."""
    yield


class _Handles:
    """The handles of several hooks as one."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hooks."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn` with the gradients of several tensors when all of them are there.

    With `mode="any"` call it with the first one that is. Returns a handle, whose `remove()` ends it.
    """
    seen: dict[int, Any] = {}

    def arrived(i: int, gradient: Any) -> None:
        seen[i] = gradient
        if mode == "any" and len(seen) == 1:
            fn(gradient)
        elif mode == "all" and len(seen) == len(tensors):
            grads = [seen[k] for k in range(len(tensors))]
            seen.clear()
            fn(grads)

    return _Handles([t.register_hook(lambda g, i=i: arrived(i, g)) for i, t in enumerate(tensors)])


__all__ = [
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def __dir__() -> list[str]:
    return sorted(__all__)
