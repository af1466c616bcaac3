"""Lists on a terminal: tables, shapes, and texts of files that may be printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows in columns; the last column is of numbers."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    for row in (head, *rows):
        cells = [cell.rjust(w) if i == len(head) - 1 else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def shape_text(shape: Sequence[Any]) -> str:
    """Return a shape in words: 2 x 3, or scalar."""
    return " x ".join(map(str, shape)) if shape else "scalar"


def plain(text: str, length: int) -> str:
    """Return a text of a file as one that a terminal can be given."""
    shown = "".join(c if c.isprintable() else "?" for c in text[: length + 1])
    return shown if len(shown) <= length else shown[: length - 3] + "..."
