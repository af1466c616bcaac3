"""The tables of transforms by constraints, under PyTorch's path."""

from ...distributions import ConstraintRegistry, biject_to, transform_to

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


def __dir__() -> list[str]:
    return sorted(__all__)
