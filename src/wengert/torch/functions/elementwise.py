"""Elementwise functions with PyTorch's names, parameters and meaning."""

from __future__ import annotations
