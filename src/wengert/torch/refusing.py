"""Names that a program may mention and not call: functions that say what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core.errors import GraphError, WengertError, fail


def refused(path: str, what: str, advice: str, kind: type[WengertError] = GraphError) -> Callable[..., NoReturn]:
    """Return a function in place of PyTorch's at `path`, that raises an error with `what` is missing and the advice."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        fail(kind, f"{path}(): {what}", advice)

    refuse.__name__ = refuse.__qualname__ = path.rpartition(".")[2]
    refuse.__doc__ = f"Raise {kind.__name__}: {what}."
    return refuse


__all__ = ["refused"]
