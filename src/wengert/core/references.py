"""Weak references that nobody else holds."""

from __future__ import annotations

import weakref
from typing import Any


class Apart(weakref.ref[Any]):
    """A weak reference of its own.

    Python gives all who ask for a plain one the same object, and how many hold that tells what views of a tensor there
    are (`torch/views`). Whoever refers to a tensor for another reason does so apart, and is not taken for a view.
    """

    __slots__ = ()
