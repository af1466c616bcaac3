"""`torch.distributed.tensor`: how a tensor would lie on several devices can be said, and no such tensor is there."""

from __future__ import annotations

from dataclasses import dataclass

from ...absent import names_of


class Placement:
    """The layout of a tensor along one axis of devices."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is split, along an axis where one is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Return whether each device has the whole of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the devices have addends of it."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Split along an axis of the tensor."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each device."""


@dataclass(frozen=True)
class Partial(Placement):
    """Addends, or what another reduction is made of, on each device."""

    reduce_op: str = "sum"


__all__ = ["Partial", "Placement", "Replicate", "Shard"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
