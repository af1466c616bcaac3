"""Reductions and running reductions with PyTorch's names, parameters and meaning."""

from __future__ import annotations
