"""All lowerings: importing this module fills the table of :mod:`wengert.execute.native.lowering`."""

from __future__ import annotations

from . import contractions, conv, gather, moves, products

__all__ = ["contractions", "conv", "gather", "moves", "products"]
