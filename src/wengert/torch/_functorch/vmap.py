"""`vmap` under the path `torch._functorch.vmap`."""

from ..func import vmap

__all__ = ["vmap"]


def __dir__() -> list[str]:
    return sorted(__all__)
