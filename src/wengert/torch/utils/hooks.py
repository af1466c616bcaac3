"""The handle of a hook, and what hooks are asked for, under PyTorch's path."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..absent import names_of
from ..nn.hooks import RemovableHandle


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that is left out, with a warning, where its tensor is pickled."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warn where a tensor has hooks, which no file keeps."""
    hooks: Any = getattr(tensor, "_backward_hooks", None)
    for hook in (hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(f"backward hook {hook!r} on tensor will not be serialized", stacklevel=2)


__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
