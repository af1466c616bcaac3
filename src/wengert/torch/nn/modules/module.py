"""`Module` under PyTorch's inner path; see :mod:`wengert.torch.nn`."""

from ..module import Module

__all__ = ["Module"]
