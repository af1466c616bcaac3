"""Devices: tensors live on the processor, and whoever asks for another one is told who computes there."""

from __future__ import annotations

from typing import Any

from .errors import GraphError, fail

# What others call a device: PyTorch, JAX.
_KINDS = frozenset({"cpu", "cuda", "gpu", "mps", "rocm", "tpu", "xla", "xpu"})


def names_device(x: Any) -> bool:
    """Return whether `x` is a device's name, "cuda:0" say: of one that there is, or of another."""
    return isinstance(x, str) and x.partition(":")[0] in _KINDS


def check_device(device: Any) -> None:
    """Raise GraphError (a ValueError) for any device but "cpu"."""
    if device is not None and str(device) != "cpu":
        fail(
            GraphError,
            f'device {str(device)!r} for a tensor: tensors live on the one device "cpu"',
            'Other devices run compiled functions, through XLA: wg.jit(f, engine="xla"), or with wg.engine("xla"): '
            "what they compute and update stays on the device from call to call.",
        )
