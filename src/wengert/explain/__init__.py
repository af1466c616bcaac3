"""Answers about graphs: pictures, and checks of gradients."""

from .nonfinite import Nonfinite, nonfinite
from .precision import Precision, precision

__all__ = ["Nonfinite", "Precision", "nonfinite", "precision"]
