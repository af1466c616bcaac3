"""Errors for NaN in gradients, under PyTorch's path: `torch.autograd.anomaly_mode`."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...core.errors import GradientError, fail
from ...core.node import Node
from ...core.tensor import Tensor as Plain

_mode: ContextVar[tuple[bool, bool]] = ContextVar("wengert_torch_anomaly", default=(False, True))


class set_detect_anomaly:
    """A switch of the search for NaN in gradients that takes effect when it is made; as a context, until its end.

    Backward passes then raise GradientError where a gradient is NaN; :func:`wengert.explain.nonfinite` says which
    operation made the first one.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _mode.get()
        _mode.set((bool(mode), bool(check_nan)))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _mode.set(self.before)


class detect_anomaly(set_detect_anomaly):
    """A context in which backward passes raise GradientError where a gradient is NaN.

    >>> import wengert.torch as torch
    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     try:
    ...         (torch.sqrt(x) * 0.0).backward()
    ...     except RuntimeError as e:
    ...         print(str(e).partition(",")[0])
    a gradient is NaN
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.before = _mode.get()
        self.check_nan = check_nan

    def __enter__(self) -> None:
        _mode.set((True, self.check_nan))


def is_anomaly_enabled() -> bool:
    """Return whether backward passes look for NaN."""
    return _mode.get()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether, where backward passes look, NaN is an error."""
    return _mode.get()[1]


def leaves_of(tensors: Iterable[Any]) -> list[Any]:
    """Return the leaves that tensors were computed from, where backward passes look for NaN; none elsewhere."""
    if _mode.get() != (True, True):
        return []
    found, seen = [], set()
    todo = [t.node for t in tensors if isinstance(t, Plain) and t.node is not None]
    while todo:
        node = todo.pop()
        if id(node) in seen or not node.requires_grad:
            continue
        seen.add(id(node))
        if node.op.kind == "leaf" and node.variable is not None:
            found.append(node.variable)
        todo += [n for n in node.inputs if isinstance(n, Node)]
    return found


def check(grads: Iterable[Any]) -> None:
    """Raise GradientError where one of these gradients is NaN, in a block that looks for it."""
    if _mode.get() != (True, True):
        return
    for g in grads:
        if g is not None and not g.is_abstract and g.dtype.kind in "fc" and bool(np.isnan(g.detach().numpy()).any()):
            fail(
                GradientError,
                f"a gradient is NaN, {g.spec}",
                "wg.explain.nonfinite(loss) says which operation made the first one.",
            )


__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]


def __dir__() -> list[str]:
    return sorted(__all__)
