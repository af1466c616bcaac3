"""Kinds of arguments that several commands take."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """Return an argument as an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def existing_file(text: str) -> str:
    """Return an argument that names a file which is there."""
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"{text}: there is no such file")
    return text
