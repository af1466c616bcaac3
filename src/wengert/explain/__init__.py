"""Answers about graphs: pictures, and checks of gradients."""

from .nonfinite import Nonfinite, nonfinite

__all__ = ["Nonfinite", "nonfinite"]
