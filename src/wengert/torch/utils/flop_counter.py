"""`torch.utils.flop_counter`: a counter that may be made and asked, and that counts no calls."""

from __future__ import annotations

from typing import Any, NoReturn

from ...core.errors import GraphError, fail
from ..absent import names_of, reason


class FlopCounterMode:
    """A counter of operations, 0 until a block is entered, which raises GraphError: calls are not counted."""

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        self.depth, self.display = depth, display

    def get_total_flops(self) -> int:
        """Return 0: nothing has been counted."""
        return 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return an empty dict: nothing has been counted."""
        return {}

    def __enter__(self) -> NoReturn:
        """Raise GraphError."""
        fail(GraphError, f"FlopCounterMode: {reason('utils.flop_counter')[0]}", reason("utils.flop_counter")[1])

    def __exit__(self, *exc: object) -> None:
        pass


__all__ = ["FlopCounterMode"]
__getattr__ = names_of(__name__)
