"""`torch.fx`: there for programs that mention it. What it is for, `wengert.graph` does: tracing, transforms, code."""

from __future__ import annotations

from typing import Any

from ..absent import names_of
from ..refusing import refused

_NO_GRAPHS = (
    "PyTorch's graphs of Python calls are not there",
    "wengert.graph(f)(*args) records the graph of what a function or module computes, with shapes and derivatives.",
)


def wrap(fn_or_name: Any) -> Any:
    """Return the function, or its name: functions that are traced here are never looked into."""
    return fn_or_name


symbolic_trace = refused("torch.fx.symbolic_trace", *_NO_GRAPHS)
replace_pattern = refused("torch.fx.replace_pattern", *_NO_GRAPHS)

__all__ = ["replace_pattern", "symbolic_trace", "wrap"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
