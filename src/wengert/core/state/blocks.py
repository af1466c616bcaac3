"""The block of automatic batching that a thread is in.

Modules look at `blocks` when they are called. It is empty while no thread of the process is in a block, so that a call
costs one test more. `current_block()` says which block this thread, or context, is in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

# One entry for each block that is open in the process.
blocks: list[Any] = []

# The classes of tensors whose values are still to be computed: a block has deferred that.
to_come: set[type] = set()

# What a block returns for a call that it leaves to the caller.
LEFT: Any = object()


class Block:
    """A block that takes calls of modules and gives results that stand for values to come."""

    __slots__ = ()

    def take_module(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], code: Any, offset: int) -> Any:
        """Return the results of a module's call, to be computed later; `LEFT` if the caller is to make the call."""
        raise NotImplementedError

    def module_changes(self) -> None:
        """Note that an attribute of a module is about to be set: cells may be others afterwards."""
        raise NotImplementedError

    def take_op(self, op: Any, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return the results of an operation of values to come; `LEFT` if the caller is to compute them."""
        raise NotImplementedError


_block: ContextVar[Block | None] = ContextVar("wengert_block", default=None)
current_block = _block.get
set_block = _block.set
reset_block = _block.reset


def take_op(op: Any, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the results of an operation that a block takes; `LEFT` if the caller is to compute them."""
    block = current_block() if blocks else None
    return LEFT if block is None else block.take_op(op, args, attrs)


def note_change() -> None:
    """Tell this thread's block that an attribute of a module is about to be set."""
    block = current_block()
    if block is not None:
        block.module_changes()
