"""The style of pictures: colours that stay apart for colour-blind readers, and widths of text."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import NamedTuple


class Ink(NamedTuple):
    """The colours of a kind of box: fill, line and text."""

    fill: str
    line: str
    text: str


# Hues after Okabe and Ito (2008): blue, vermilion, yellow, reddish purple, bluish green. Shape says
# the kind as well. Text keeps a contrast of at least 7 on its fill.
LIGHT: Mapping[str, Ink] = {
    "input": Ink("#e3f0fc", "#2f7fd1", "#14395f"),
    "parameter": Ink("#fde9d8", "#c96a12", "#5e3005"),
    "constant": Ink("#efeeea", "#85888f", "#3c4048"),
    "computation": Ink("#fff5d3", "#a67c00", "#40310a"),
    "gradient": Ink("#f4e6f9", "#8a3fa8", "#451b57"),
    "root": Ink("#1b1d24", "#676c78", "#ffffff"),
    "module": Ink("#e0f3ec", "#12805c", "#0b3f2e"),
    "more": Ink("#faf9f6", "#85888f", "#3c4048"),
}
DARK: Mapping[str, Ink] = {
    "input": Ink("#14283d", "#62abf5", "#dcecfd"),
    "parameter": Ink("#3a2412", "#f0944a", "#fde6d3"),
    "constant": Ink("#22252d", "#8f96a5", "#d5d8df"),
    "computation": Ink("#332c14", "#e3b931", "#fbf0cc"),
    "gradient": Ink("#331f3d", "#c48ae2", "#f2e2fa"),
    "root": Ink("#eceae4", "#8f96a5", "#14161c"),
    "module": Ink("#112f26", "#35c6a8", "#d5f5ec"),
    "more": Ink("#0f1117", "#8f96a5", "#d5d8df"),
}

# In units of the font size, after the wider of the common sans-serif faces.
_MONO = 0.61
_TYPICAL = 0.66
_WIDE = {
    char: width
    for chars, width in (("mwMW%@", 1.0), ("ABCDEGHKNOPQRSTUVXYZ&+<>=", 0.8), ("fijltrIJ|!.,:;'()[]/- ", 0.44))
    for char in chars
}


def text_width(text: str, size: float, mono: bool = False) -> float:
    """Return an upper estimate of the width of a line of text."""
    return size * sum(_char_width(char, mono) for char in text)


def _char_width(char: str, mono: bool) -> float:
    if not char.isascii():
        return 1.1 if unicodedata.east_asian_width(char) in "WF" else _MONO if mono else 0.85
    return _MONO if mono else _WIDE.get(char, _TYPICAL)
