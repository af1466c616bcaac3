"""`torch._ops`, which programs import for operators of PyTorch's C++ libraries: they may be named, and not called."""

from __future__ import annotations

from typing import Any

from ..refusing import refused


class _Operators:
    """A library of operators, `ops.quantized`: each refuses when it is called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return refused(
            f"{self._name}.{name}",
            "operators of PyTorch's C++ libraries are not there",
            "Write it with functions of torch or torch.nn.functional.",
        )


class _Libraries:
    """All libraries of operators, by name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operators(f"torch.ops.{name}")


ops = _Libraries()

__all__ = ["ops"]
