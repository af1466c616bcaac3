"""Other programs' formats: TensorBoard's event files. What a module needs is imported when it is used."""

from . import tensorboard

__all__ = ["tensorboard"]


def __dir__() -> list[str]:
    return sorted(__all__)
