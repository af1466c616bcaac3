"""Mappings of names to what a module holds: `module._modules`, `module._parameters`, `module._buffers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any


class Registry(MutableMapping[str, Any]):
    """The modules, parameters or buffers of one module, which has what is set here and lacks what is deleted."""

    __slots__ = ("_kind", "_owner")

    def __init__(self, owner: Any, kind: str) -> None:
        self._owner = owner
        self._kind = kind

    def _names(self) -> dict[str, None]:
        return self._owner.__dict__[self._kind]  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return self._owner.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._owner._register(self._kind, name, value)

    def __delitem__(self, name: str) -> None:
        del self._names()[name]
        # Not by `delattr`: the class may have a property of the name.
        del self._owner.__dict__[name]
        self._owner._transient.discard(name)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names()))

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))

    def copy(self) -> dict[str, Any]:
        """Return a dict of names and values."""
        return dict(self)


def view(kind: str) -> property:
    """Return the property that shows what a module holds of a kind, and has it hold what it is set to instead."""

    def replace(self: Any, values: Mapping[str, Any]) -> None:
        held = Registry(self, kind)
        given = dict(values)
        for name in list(held):
            del held[name]
        held.update(given)

    return property(lambda self: Registry(self, kind), replace)
