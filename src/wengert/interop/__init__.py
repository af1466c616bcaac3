"""Other programs: ONNX, TensorBoard, scikit-learn, SciPy, einops. What a module needs is imported when it is used."""

from importlib import import_module as _import_module
from typing import Any as _Any

from . import tensorboard

__all__ = ["einops", "onnx", "scipy", "sklearn", "tensorboard"]


def __getattr__(name: str) -> _Any:
    # They import what they are made for, which takes a while.
    if name in __all__:
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
