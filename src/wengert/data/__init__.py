"""Data sets: one embedded, and readers for files that users bring."""

from .files import load_digits, read_idx
from .loader import batches
from .readers import Csv, ImageFolder, NumpyFiles, Parquet

__all__ = ["Csv", "ImageFolder", "NumpyFiles", "Parquet", "batches", "load_digits", "read_idx"]


def __dir__() -> list[str]:
    return sorted(__all__)
