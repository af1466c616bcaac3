"""Products, decompositions and statistics of matrices with PyTorch's names, parameters and meaning."""

from __future__ import annotations
