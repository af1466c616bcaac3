"""`cached_property`: an attribute that is computed when it is first read."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """A property that is computed once, as Python 3.12 has it: without a lock, so two threads may both compute it.

        The one of Python 3.11 has a lock for all objects of a class. A child process that is forked while another
        thread computes any of their values finds it held for ever.
        """

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            kept = instance.__dict__
            if self.attrname not in kept:
                kept[self.attrname] = self.func(instance)
            return kept[self.attrname]


__all__ = ["cached_property"]
