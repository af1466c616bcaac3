"""Shapes, axes, joining and splitting with PyTorch's names, parameters and meaning."""

from __future__ import annotations
