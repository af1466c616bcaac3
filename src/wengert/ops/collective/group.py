"""The group of ranks that a collective's forward finds: who else there is, and how their arrays meet.

An op of this package names a mesh axis and how many ranks stand along it. Who moves the bytes is not its concern: its
forward asks the group that is *entered* where it runs. Where none is, a collective of one rank is known all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...core.errors import GraphError, fail


class Group:
    """The ranks of a mesh, as one of them sees them; an engine gives both methods."""

    __slots__ = ("__weakref__",)

    def index(self, over: str, ranks: int) -> int:
        """Return the position of this rank along a mesh axis. Raises GraphError for an axis that is not there."""
        raise NotImplementedError

    def exchange(self, op: Any, x: Any, attrs: Mapping[str, Any]) -> Any:
        """Return this rank's result of a collective whose operand here is `x`; all ranks along the axis take part."""
        raise NotImplementedError


_entered: ContextVar[Group | None] = ContextVar("wengert_group", default=None)
# The group of a process that is one rank. Threads that compiled code starts have no context of their own.
_of_process: list[Group] = []


def current() -> Group | None:
    """Return the group that was entered here, else the one that this process belongs to, else None."""
    found = _entered.get()
    return found if found is not None else _of_process[-1] if _of_process else None


@contextmanager
def entered(group: Group | None, process: bool = False) -> Iterator[None]:
    """Enter a group: collectives inside run in it. With `process`, those of other threads do too."""
    token = _entered.set(group)
    if process and group is not None:
        _of_process.append(group)
    try:
        yield
    finally:
        _entered.reset(token)
        if process and group is not None:
            _of_process.remove(group)


def index_along(over: str, ranks: int) -> int:
    """Return the position of the rank that this runs on along a mesh axis."""
    group = current()
    if group is not None:
        return group.index(over, ranks)
    if ranks != 1:
        _nobody("axis_index", over, ranks)
    return 0


def exchanged(op: Any, x: Any, attrs: Mapping[str, Any]) -> Any:
    """Return this rank's result of a collective."""
    group = current()
    if group is not None:
        return group.exchange(op, x, attrs)
    if attrs["ranks"] != 1:
        _nobody(op.name, attrs["over"], attrs["ranks"])
    return op.facets["collective"]([x], **attrs)[0]


def _nobody(name: str, over: str, ranks: int) -> None:
    fail(
        GraphError,
        f"{name} over {over!r}, an axis of {ranks} ranks, runs where there are no ranks",
        "Run the program on a mesh: wg.distribute.shard_map(f, mesh, ...), wg.distribute.run(f, n), or "
        "`wengert launch -n N script.py`.",
    )
