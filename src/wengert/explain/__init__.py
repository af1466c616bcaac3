"""Answers about graphs: pictures, and checks of gradients."""

from .missing import Missing, missing
from .nonfinite import Nonfinite, nonfinite
from .precision import Precision, precision

__all__ = ["Missing", "Nonfinite", "Precision", "missing", "nonfinite", "precision"]
