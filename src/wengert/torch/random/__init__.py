"""Random state with PyTorch's names: `torch.random`; see :mod:`wengert.random`.

The streams are Wengert's: a seed gives the same numbers in every run, other ones than PyTorch's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...core.tensor import asarray, of_class
from ...ops.random.generator import Generator as PlainGenerator
from ...ops.random.generator import default_generator
from ..absent import names_of
from ..tensor import CPU, Tensor, on_cpu
from ..tensor import device as device_class

# The seed that PyTorch's generators begin with, before they are given one.
_FIRST = 67280421310721


def _bytes_of(generator: PlainGenerator) -> Tensor:
    """Return a generator's state as bytes, as PyTorch has it; in a trace as it is."""
    state = generator.get_state()
    if not state.is_abstract:
        state = asarray(np.ascontiguousarray(state.detach().numpy()).view(np.uint8), copy=True)
    return of_class(Tensor, state)  # type: ignore[no-any-return]


def _state_of(given: Any) -> Any:
    if given.is_abstract or given.dtype != np.uint8:
        return given
    return asarray(np.ascontiguousarray(given.detach().numpy()).view(np.uint64), copy=True)


class Generator(PlainGenerator):
    """A stream of random numbers, which functions take as `generator=`.

    >>> import wengert.torch as torch
    >>> g = torch.Generator().manual_seed(0)
    >>> a = torch.rand(2, generator=g)
    >>> bool((torch.rand(2, generator=g.manual_seed(0)) == a).all())
    True
    """

    __slots__ = ()

    def __init__(self, device: Any = "cpu") -> None:
        on_cpu(device)
        super().__init__(_FIRST)

    @property
    def device(self) -> device_class:
        """The device, always the processor."""
        return CPU

    def get_state(self) -> Any:
        """Return the state, a tensor."""
        return of_class(Tensor, super().get_state())

    def set_state(self, new_state: Any) -> Any:
        """Set the state to what :meth:`get_state` or :func:`get_rng_state` returned. Returns the generator."""
        return super().set_state(_state_of(new_state))


def manual_seed(seed: Any) -> Any:
    """Seed the default generator, and return it.

    >>> import wengert.torch as torch
    >>> _ = torch.manual_seed(0)
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator by the operating system's entropy. Returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the last seed that the default generator was given."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator: bytes in a tensor."""
    return _bytes_of(default_generator)


def set_rng_state(new_state: Any) -> None:
    """Set the state of the default generator to what :func:`get_rng_state` returned."""
    default_generator.set_state(_state_of(new_state))


@contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:
    """Return a context after which the default generator is where it was before."""
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)


__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
