"""`torch.ops`: operators by library and name, those that programs make with `torch.library.custom_op`.

Those of PyTorch's C++ libraries may be named, and not called.
"""

from __future__ import annotations

from typing import Any

from ..refusing import refused

# By "library::name", the operators that programs have made.
OPERATORS: dict[str, Any] = {}


class _Operators:
    """A library of operators, `ops.quantized`: those that a program has not made refuse when they are called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = OPERATORS.get(f"{self._name.rpartition('.')[2]}::{name}")
        if made is not None:
            return made
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

__all__ = ["OPERATORS", "ops"]
