"""The writing of answers: numbers with few digits, aligned columns, tables for notebooks and LaTeX."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..core.source import Source

# Arrays up to this many elements are shown with their numbers, larger ones as a summary.
SHOWN_ELEMENTS = 6
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def number(value: Any, digits: int = 4) -> str:
    """Return a number with few digits; a size that is not known as its formula."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        return f"{value:.{digits}g}"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def size(count: Any) -> str:
    """Return a number of bytes, in steps of 1000: `1.23 MB`."""
    if not isinstance(count, int):
        return f"{count} bytes"
    if count < 1000:
        return f"{count} bytes"
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount /= 1000
        unit += 1
    return f"{amount:.3g} {_UNITS[unit]}" if amount < 999.5 else f"{amount:.0f} {_UNITS[unit]}"


def magnitude(value: Any) -> float:
    """Return the 2-norm of all elements, in float64."""
    flat = np.asarray(value).ravel()
    if flat.dtype.kind not in "fc":
        flat = flat.astype(np.float64)
    wide = flat.astype(np.complex128 if flat.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(wide)) if wide.size else 0.0


def value(array: Any) -> str:
    """Return an array's numbers where they are few, else its shape, norm and range."""
    if array is None:
        return "-"
    array = np.asarray(array)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    if array.ndim == 0:
        return number(array.item())
    if 0 < array.size <= SHOWN_ELEMENTS:
        return _nested(array.tolist())
    shape = ",".join(map(str, array.shape))
    if array.size == 0:
        return f"[{shape}] empty"
    if array.dtype.kind == "c":
        return f"[{shape}] norm {number(magnitude(array))}"
    low, high = number(array.min().item()), number(array.max().item())
    return f"[{shape}] norm {number(magnitude(array))}, {low} to {high}"


def _nested(numbers: Any) -> str:
    return f"[{', '.join(map(_nested, numbers))}]" if isinstance(numbers, list) else number(numbers)


def place(source: Source | None) -> str:
    """Return file name and line, without the folder; "" where no line of a program made it."""
    return "" if source is None else f"{os.path.basename(source.file)}:{source.line}"


def columns(rows: Sequence[Sequence[str]], headings: Sequence[str], right: Sequence[int] = ()) -> str:
    """Return aligned columns under their headings; the positions in `right` are aligned to the right."""
    lines = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def html_table(caption: str, rows: Sequence[Sequence[str]], headings: Sequence[str], right: Sequence[int] = ()) -> str:
    """Return a table for notebooks."""

    def line(cells: Sequence[str], tag: str) -> str:
        shown = (
            f'<{tag} style="text-align:{"right" if i in right else "left"}">{escape(cell)}</{tag}>'
            for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    caption = f'<caption style="text-align:left">{escape(caption)}</caption>'
    return f"<table>{caption}<thead>{line(headings, 'th')}</thead><tbody>{body}</tbody></table>"


_LATEX = {c: f"\\{c}" for c in "{}_&%#$"} | {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
}


def latex_text(text: str) -> str:
    """Return text as LaTeX."""
    return "".join(_LATEX.get(char, char) for char in text)


def latex_number(x: Any) -> str:
    r"""Return a number as LaTeX writes it: `1.5 \cdot 10^{-7}`."""
    text = number(x)
    if "e" in text:
        mantissa, exponent = text.split("e")
        if "j" not in text:
            return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return {"inf": r"\infty", "-inf": r"-\infty", "nan": r"\mathrm{NaN}"}.get(text, text)


def latex_name(name: str) -> str:
    """Return a variable's name in a formula: `v_{3}`, or upright."""
    if name[0] == "v" and name[1:].isdigit():
        return f"v_{{{name[1:]}}}"
    return name if len(name) == 1 else rf"\mathrm{{{latex_text(name)}}}"
