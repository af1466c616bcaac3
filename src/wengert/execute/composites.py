"""The hook by which eager composites get native kernels, loaded when the first one pays.

Importing this module tells `core` so, and loads nothing.
"""

from __future__ import annotations

from importlib import import_module

from ..core.ops.kernels import Kernels, register


def _native(at_once: bool) -> Kernels:
    """Load native code and return what computes composites by it."""
    made: Kernels = import_module(".native.eager", __package__).provider(at_once)
    return made


register(_native)
