"""Picking, placing and ordering elements with PyTorch's names, parameters and meaning."""

from __future__ import annotations
