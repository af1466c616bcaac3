"""The devices that tensors are placed on: those of JAX, which is loaded when the first one is named.

Importing this module tells `core` so, and loads nothing.
"""

from __future__ import annotations

from ..core.elsewhere import Placing, register
from ..core.state.locks import imported


def _jax() -> Placing:
    """Load what puts arrays on JAX's devices."""
    made: Placing = imported(".xla.placed", __package__).PLACING
    return made


register(_jax)
