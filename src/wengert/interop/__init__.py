"""Other programs: ONNX, TensorBoard, scikit-learn, SciPy, einops. What a module needs is imported when it is used."""

from typing import Any as _Any

from ..core.state.locks import imported as _imported
from . import tensorboard

__all__ = ["einops", "onnx", "scipy", "sklearn", "tensorboard"]


def __getattr__(name: str) -> _Any:
    # They import what they are made for, which takes a while.
    if name in __all__:
        return _imported(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
