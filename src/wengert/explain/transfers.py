"""The transfers of a compiled function: arrays moved between the host and the device that it runs on."""

from __future__ import annotations

from typing import Any

from ..core.errors import GraphError, fail
from ..execute.jit.compiled import Inspected
from ..execute.xla.transfers import Transfers

__all__ = ["Transfers", "transfers"]


def transfers(f: Any) -> Transfers:
    """Return what the last call of a compiled function moved between the host and the device.

    Parameters
    ----------
    f: a function of :func:`wengert.jit` that has run on XLA.

    Raises GraphError for anything else.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: x * 2.0)
    >>> _ = f(wg.ones(3))
    >>> f.engine.name  # native code, which computes where the tensors are
    'native'
    """
    if not isinstance(f, Inspected):
        fail(GraphError, f"transfers of a {type(f).__name__}", "Give it a function of wg.jit.")
    found: Transfers = f.transfers
    return found
