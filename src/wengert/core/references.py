"""Weak references that nobody else holds, and counts of references of what one tensor alone holds."""

from __future__ import annotations

import sys
import weakref
from typing import Any


class Apart(weakref.ref[Any]):
    """A weak reference of its own.

    Python gives all who ask for a plain one the same object, and how many hold that tells what views of a tensor there
    are (`ops/index/views`). Whoever refers to a tensor for another reason does so apart, and is not taken for a view.
    """

    __slots__ = ()


class _Holder:
    """A holder of an entry, as a tensor is one."""

    __slots__ = ("_base",)


def _counted() -> tuple[int, int]:
    """Return the counts of an entry that one holder has, by a local name, and of what it begins with.

    Interpreters differ in whether they count a name that is given to a function.
    """
    x: Any = _Holder()
    x._base = (object(), None)
    base = x._base
    return sys.getrefcount(base), sys.getrefcount(base[0])


# What `sys.getrefcount(base)` and `sys.getrefcount(base[0])` are of an entry `base` that nothing else refers to.
ALONE, ALONE_WEAK = _counted()
