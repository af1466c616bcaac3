"""The tables of transforms by constraints, under PyTorch's path."""

from ...distributions import ConstraintRegistry, biject_to, transform_to
from ..absent import names_of

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
