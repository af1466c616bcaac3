"""Forward mode for eager code, under PyTorch's path: `torch.autograd.forward_ad`."""

from __future__ import annotations

from typing import Any

from ...core.errors import DTypeError, GradientError, fail
from ...core.spec import category
from ...core.tensor import Tensor as Plain
from ...transforms.derivatives.tangents import UnpackedDual, dual_level, open_level
from ...transforms.derivatives.tangents import make_dual as _make_dual
from ...transforms.derivatives.tangents import unpack_dual as _unpack_dual
from ..namespace import as_torch

UnpackedDualTensor = UnpackedDual
_entered: list[dual_level] = []


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Return a tensor that carries a tangent along; see :func:`wengert.autograd.make_dual`.

    Raises GradientError for a tangent that carries one itself, DTypeError for one of integers.
    """
    if isinstance(tangent, Plain):
        if category(tangent.spec.dtype) < 2:
            fail(DTypeError, f"make_dual(): Expected tangent to be floating point or complex, not {tangent.spec}")
        if open_level() >= 0 and tangent.requires_grad and _unpack_dual(tangent).tangent is not None:
            fail(GradientError, "make_dual(): the tangent has a forward gradient at the same level", "Unpack it first.")
    return as_torch(_make_dual(tensor, tangent))


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDual:
    """Return the value and the tangent of a tensor, None where it has none, and outside of a level."""
    if open_level() < 0:
        return UnpackedDual(tensor, None)
    return as_torch(_unpack_dual(tensor))  # type: ignore[no-any-return]


def enter_dual_level() -> int:
    """Begin a block of dual tensors, as `with dual_level():` does. Returns its number."""
    level = dual_level()
    level.__enter__()
    _entered.append(level)
    return len(_entered) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End the block that :func:`enter_dual_level` began last. Raises GradientError where there is none."""
    if not _entered or (level is not None and level != len(_entered) - 1):
        fail(GradientError, f"exit_dual_level(level={level}) of {len(_entered)} open ones")
    _entered.pop().__exit__()


def __getattr__(name: str) -> int:
    """Return the number of the innermost block that is open, `_current_level`; -1 outside of one."""
    if name == "_current_level":
        return open_level()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def __dir__() -> list[str]:
    return sorted(__all__)
