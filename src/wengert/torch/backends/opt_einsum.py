"""The order of products in `einsum`, whose cheapest is always taken: `torch.backends.opt_einsum`."""

from __future__ import annotations

from .flags import answer

enabled = True
strategy = "auto"
is_available = answer(True, "Return True: the cheapest order is found.")

__all__ = ["enabled", "is_available", "strategy"]


def __dir__() -> list[str]:
    return sorted(__all__)
