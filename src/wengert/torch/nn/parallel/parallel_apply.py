"""`torch.nn.parallel.parallel_apply`: replicas of a module, each on inputs of its own, of which there is one here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[Mapping[str, Any]] | None = None,
    devices: Any = None,
) -> list[Any]:
    """Return what each module gives for its inputs (a tuple of arguments, or the only one) and keywords, in order."""
    keywords = kwargs_tup if kwargs_tup is not None else [{}] * len(modules)
    return [
        module(*(given if isinstance(given, (tuple, list)) else (given,)), **more)
        for module, given, more in zip(modules, inputs, keywords, strict=True)
    ]


__all__ = ["parallel_apply"]
