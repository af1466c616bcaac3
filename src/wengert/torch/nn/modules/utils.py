"""Sizes that are given once for all axes or one for each, and names in state dicts, under PyTorch's inner path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...absent import names_of


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats what is no sequence `n` times."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    return parse


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as "module." from the names in a state dict that begin with it, in place.

    >>> import wengert.torch as torch
    >>> state = {"module.weight": 1, "bias": 2}
    >>> torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for name in list(state_dict):
        if name.startswith(prefix):
            state_dict[name.removeprefix(prefix)] = state_dict.pop(name)
    metadata = getattr(state_dict, "_metadata", None)
    for name in list(metadata or ()):
        # A dict's own entries have names without the dot, the whole the empty one.
        if name and (name == prefix.removesuffix(".") or name.startswith(prefix)):
            metadata[name[len(prefix) :]] = metadata.pop(name)  # type: ignore[index, union-attr]


__getattr__ = names_of(__name__)
