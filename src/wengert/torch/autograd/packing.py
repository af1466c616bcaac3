"""`saved_tensors_hooks`: functions of a program's own that are given what the graph keeps for the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import DTypeError, GradientError, fail
from ...core.node import Node, Recomputed
from ...core.state.observer import Observer, observing
from ...core.tensor import of_class, wrap
from ..tensor import Tensor


class _Packed(Recomputed):
    """A node's saved values as `pack` has left them; those that are no tensors stay."""

    __slots__ = ("found", "unpack")

    def __init__(self, found: tuple[Any, ...], unpack: Callable[[Any], Any]) -> None:
        self.found, self.unpack = found, unpack

    def take(self, node: Node) -> tuple[Any, ...]:
        """Return the values, unpacked."""
        return tuple(_unpacked(v, self.unpack) if type(v) is _Held else v for v in self.found)

    def kept(self) -> tuple[Any, ...]:
        """Return the values that are kept as arrays: what was packed is the program's."""
        return tuple(v for v in self.found if isinstance(v, np.ndarray))

    def close(self) -> None:
        """Do nothing: nothing is unpacked before it is taken."""


class _Held:
    """A stand-in for a value: what `pack` gave for it, and the value's shape and dtype."""

    __slots__ = ("given", "spec")

    def __init__(self, given: Any, spec: Any) -> None:
        self.given, self.spec = given, spec


def _unpacked(held: _Held, unpack: Callable[[Any], Any]) -> Any:
    with wg.no_grad():
        found = unpack(held.given)
    if not isinstance(found, Tensor):
        fail(DTypeError, f"unpack_hook gave a {type(found).__name__}", "It gives the tensor that pack_hook was given.")
    if found.spec is not held.spec:
        fail(GradientError, f"unpack_hook gave {found.spec} for {held.spec}", "It gives the tensor that was packed.")
    return found.detach()._array


class _Packer(Observer):
    """An observer that packs what each new node saves."""

    __slots__ = ("pack", "unpack")

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        super().__init__()
        self.pack, self.unpack = pack, unpack

    def made(self, node: Any) -> None:
        """Pack the arrays that a node saves. A node inside another block has been packed there."""
        saved = node.saved
        if type(saved) is not tuple or not any(type(v) is np.ndarray for v in saved):
            return
        self.quiet += 1
        try:
            node.saved = _Packed(tuple(self._packed(v) if type(v) is np.ndarray else v for v in saved), self.unpack)
        finally:
            self.quiet -= 1

    def _packed(self, value: Any) -> _Held:
        with wg.no_grad():
            tensor = of_class(Tensor, wrap(value.view()))
            return _Held(self.pack(tensor), tensor.spec)


_disabled: ContextVar[str | None] = ContextVar("wengert_saved_tensors_hooks", default=None)
_open: ContextVar[int] = ContextVar("wengert_saved_tensors_open", default=0)


class saved_tensors_hooks:
    """A context in which what operations keep for the backward pass goes through two functions.

    Parameters
    ----------
    pack_hook: is given each tensor that is kept, and returns what is kept in its place: a file's name, fewer digits.
    unpack_hook: is given that when the backward pass needs it, and returns the tensor, of the same shape and dtype.

    A block inside of another takes its place. What a custom function saves by itself does not go through them. Compiled
    functions run as they are written inside. Raises GradientError under `disable_saved_tensors_hooks`.

    >>> import wengert.torch as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
    ...     y = x.exp()
    >>> y.backward()
    >>> bool(x.grad == y)
    True
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._blocks: list[tuple[AbstractContextManager[None], Any]] = []

    def __enter__(self) -> None:
        if (message := _disabled.get()) is not None:
            fail(GradientError, message)
        block = observing(_Packer(self.pack_hook, self.unpack_hook))
        block.__enter__()
        self._blocks.append((block, _open.set(_open.get() + 1)))

    def __exit__(self, *exc: Any) -> None:
        block, token = self._blocks.pop()
        _open.reset(token)
        block.__exit__(*exc)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Return a context in which :class:`saved_tensors_hooks` raises GradientError with a message.

    Raises GradientError inside of such hooks.
    """
    if _open.get():
        fail(GradientError, error_message)
    token = _disabled.set(error_message)
    try:
        yield
    finally:
        _disabled.reset(token)


def is_enabled() -> bool:
    """Return whether :class:`saved_tensors_hooks` may be used."""
    return _disabled.get() is None


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Return a context without effect: what the graph keeps is in the processor's memory.

    Raises GradientError under `disable_saved_tensors_hooks`.
    """
    if (message := _disabled.get()) is not None:
        fail(GradientError, message)
    token = _open.set(_open.get() + 1)
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Return a context without effect: writes to a tensor never change what the graph keeps of it."""
    yield
