"""Random programs of views and writes: what they leave behind, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "torch" / "data" / "aliases.json.gz"


def names_of(names: Mapping[str, Any]) -> list[str]:
    """The tensors of a program."""
    return [n for n, t in names.items() if re.fullmatch(r"t\d+", n) and hasattr(t, "detach")]


def seen(names: Mapping[str, Any]) -> dict[str, Any]:
    """By name: dtype, shape, numbers, whether there is a history, and the gradient of a leaf."""
    found = {}
    for n in names_of(names):
        t = names[n]
        gradient = t.grad if t.is_leaf else None
        found[n] = [
            str(t.dtype).removeprefix("torch."),
            list(t.shape),
            t.detach().tolist(),
            t.grad_fn is not None,
            None if gradient is None else gradient.tolist(),
        ]
    return found
