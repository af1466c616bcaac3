"""The tensor that a view is taken from, and how often one was written to: `x._base`, `x._is_view()`, `x._version`."""

from __future__ import annotations

import weakref
from typing import Any

from ...core.storage import Storage, join, living, root_of, storage_of, window_of
from ...core.tensor import Tensor as Plain
from ...core.tensor import wrap
from ..namespace import as_torch
from ..tensor import Tensor


def _first(x: Plain) -> Any:
    """Return the tensor that a view is taken from; the tensor itself if it is none, None if that one is gone."""
    x = x.owner if x.is_name else x  # type: ignore[attr-defined]
    s = storage_of(x)
    if s is None:
        return x
    if isinstance(x._share, Storage):
        return root_of(s)
    # What `detach` gives is no view, and its views are views of it.
    return next((t for t in living(s) if t._share is x._share), x)


def _is_view(self: Any) -> bool:
    """Return whether the tensor is a view of another one, as slices, transposes and reshapes are."""
    return _first(self) is not (self.owner if self.is_name else self)


def _base_of(self: Any) -> Any:
    first = _first(self)
    s = storage_of(self)
    if first is None and s is not None:
        whole = as_torch(wrap(s.whole.view()))
        join(whole, self)
        return whole
    return first if _is_view(self) else None


# By the identity of a tensor whose version was asked for: a reference to it, its version, and what it was then.
_seen: dict[int, tuple[weakref.ref[Any], int, tuple[Any, ...]]] = {}


def _version_of(self: Any) -> int:
    """Return the version: another number after each write, to the tensor or to what shares its memory."""
    return _counted(self, 0)


def increment_version(tensor: Any) -> None:
    """Count a write to a tensor, or to each of several, that was made behind the library's back."""
    for x in (tensor,) if isinstance(tensor, Plain) else tensor:
        _counted(x, 1)


def _counted(x: Plain, more: int) -> int:
    """Return the version of a tensor, `more` than it was when nothing was written since."""
    first = _first(x)
    key = x if first is None else first
    s = storage_of(key)
    # The array is held: what is written to it in place would be seen by nobody else.
    now = (s.version, s, None) if s is not None else (0, None, window_of(key) if key.node is None else key.node)
    known = _seen.get(id(key))
    version = 0 if known is None else known[1]
    if known is not None:
        written, memory, value = known[2]
        if memory is not None and memory is s:
            version += now[0] - written
        elif memory is None and s is None:
            version += value is not now[2]
        elif memory is None:
            version += now[0]
        else:
            version += 1
    version += more
    number = id(key)
    held = known[0] if known is not None else weakref.ref(key, lambda _: _seen.pop(number, None))
    _seen[number] = held, version, now
    return version


Tensor._is_view = _is_view  # type: ignore[attr-defined]
Tensor._base = property(_base_of)  # type: ignore[attr-defined]
Tensor._version = property(_version_of)  # type: ignore[attr-defined]
