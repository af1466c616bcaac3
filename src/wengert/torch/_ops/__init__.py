"""`torch.ops`: operators by library and name, those that programs make with `torch.library`.

Those of PyTorch's C++ libraries may be named, and not called. torchvision's that train and detect are there.
"""

from __future__ import annotations

import functools
import os
from typing import Any, NoReturn

from ...core.errors import GraphError, fail
from ...core.state.locks import imported

# By "library::name", the operators that programs have made.
OPERATORS: dict[str, Any] = {}
# The libraries of operators that are written here, by the package whose C++ they stand for.
_WRITTEN = {"torchvision": ".torchvision"}


class Unmade:
    """An operator that nobody has made: it can be named, with its overloads, and refuses when it is called."""

    def __init__(self, name: str) -> None:
        self.name, self.__name__ = name, name.rpartition("::")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise GraphError."""
        fail(
            GraphError,
            f"torch.ops.{self.name.replace('::', '.')}(): operators of PyTorch's C++ libraries are not there",
            "Write it with functions of torch or torch.nn.functional.",
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self  # an overload: `ops.aten.add.Tensor`

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


@functools.cache
def unmade(name: str) -> Unmade:
    """Return what stands for an operator that nobody has made, always the same one."""
    return Unmade(name)


class Operators:
    """A library of operators, `ops.quantized`: those that a program has not made refuse when they are called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return OPERATORS.get(f"{self._name}::{name}") or unmade(f"{self._name}::{name}")


class Libraries:
    """All libraries of operators, by name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Operators(name)

    def load_library(self, path: Any) -> None:
        """Have the operators of a C++ library, where they are written here. Raises OSError for any other library."""
        folder, file = os.path.split(os.path.abspath(path))
        package = os.path.basename(folder)
        if package not in _WRITTEN or not file.startswith("_C"):
            raise OSError(f"{file} of {package}: C++ libraries of PyTorch's operators are not loaded")
        imported(_WRITTEN[package], __name__)


ops = Libraries()

__all__ = ["OPERATORS", "ops"]
