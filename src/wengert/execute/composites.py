"""The hook by which eager composites get native kernels, loaded when the first one pays.

Importing this module tells `core` so, and loads nothing.
"""

from __future__ import annotations

from ..core.ops.kernels import Kernels, register
from ..core.state.locks import imported


def _native(at_once: bool) -> Kernels:
    """Load native code and return what computes composites by it."""
    made: Kernels = imported(".native.eager", __package__).provider(at_once)
    return made


register(_native)
