"""Images and tables of numbers as SVG: what a network draws, and where it looks."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import RangeError, ShapeError, fail

Array = npt.NDArray[Any]

_GAP = 6  # between images, in pixels of the picture
_MARGIN = 14
_LETTER = 7.5  # the width of a letter of 12 pixels, amply
_LOW, _HIGH = np.array([255.0, 255.0, 255.0]), np.array([0.0, 68.0, 136.0])  # a heat map's least and greatest number


def image_grid(
    images: Any, *, columns: int | None = None, titles: Sequence[str] = (), title: str = "", scale: int = 4
) -> str:
    """Return an SVG picture of images in rows.

    Parameters
    ----------
    images: an array or tensor (n, height, width) of greys or (n, height, width, 3) of red, green and blue, with
        values from 0 (black) to 1; what lies outside of that is clipped, and what is no number is black.
    columns: so many images in a row; by default the grid is nearly square.
    titles: what stands above each image, one for each or none.
    title: what stands above the picture.
    scale: the side of an image's pixel, in the picture's.

    Raises `wg.ShapeError` where the images have another shape, or the titles another number.

    >>> import wengert as wg
    >>> digits, labels = wg.data.load_digits()
    >>> wg.train.image_grid(digits[:10], columns=5, titles=[str(d) for d in labels[:10]])[:4]
    '<svg'
    """
    pixels = _pixels(images)
    count, height, width = pixels.shape[:3]
    if len(titles) not in (0, count):
        fail(ShapeError, f"image_grid: {len(titles)} titles for {count} images", "Give one for each image, or none.")
    columns = min(count, max(1, round((count * height / width) ** 0.5)) if columns is None else columns)
    if columns < 1:
        fail(RangeError, f"image_grid: {count} images in {columns} columns", "Give at least one image and one column.")
    wide = max(width * scale, max((len(t) for t in titles), default=0) * _LETTER)
    above = 17 if titles else 0
    high = height * scale + above
    top = _MARGIN + (24 if title else 0)
    out = []
    for i, image in enumerate(pixels):
        x = _MARGIN + i % columns * (wide + _GAP)
        y = top + i // columns * (high + _GAP)
        if titles:
            out.append(
                f'<text x="{x + wide / 2:.1f}" y="{y + 12}" text-anchor="middle" fill="#444">{escape(titles[i])}</text>'
            )
        out.append(_image(image, x + (wide - width * scale) / 2, y + above, scale))
    rows = -(-count // columns)
    size = (2 * _MARGIN + columns * (wide + _GAP) - _GAP, top + rows * (high + _GAP) - _GAP + _MARGIN)
    return _picture(out, *size, title)


def heat_map(
    values: Any, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None, title: str = ""
) -> str:
    """Return an SVG picture of a table of numbers: the least is white, the greatest blue.

    Parameters
    ----------
    values: an array or tensor (rows, columns); a number that is not finite is black.
    rows, columns: what stands beside each row and above each column.

    Raises `wg.ShapeError` where the values are no table, or the labels do not fit.

    >>> import wengert as wg
    >>> weights = wg.nn.functional.softmax(wg.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), axis=-1)
    >>> wg.train.heat_map(weights, rows=["le", "chat"], columns=["the", "black", "cat"])[:4]
    '<svg'
    """
    table = np.asarray(values, np.float64)
    if table.ndim != 2 or not table.size:
        fail(ShapeError, f"heat_map: values of shape {table.shape}", "Give a table, (rows, columns), of some numbers.")
    for name, labels, count in (("rows", rows, table.shape[0]), ("columns", columns, table.shape[1])):
        if labels is not None and len(labels) != count:
            fail(ShapeError, f"heat_map: {len(labels)} labels for {count} {name}", "Give one for each, or none.")
    finite = np.isfinite(table)
    low, high = (table[finite].min(), table[finite].max()) if finite.any() else (0.0, 1.0)
    share = np.where(finite, table - low, 0.0) / ((high - low) or 1.0)
    colours = np.where(finite[..., None], _LOW + share[..., None] * (_HIGH - _LOW), 0.0) / 255
    cell = 22
    left = _MARGIN + (max(len(r) for r in rows) * _LETTER + 6 if rows else 0)
    slanted = columns is not None and max(len(c) for c in columns) > 2
    over = 0.0 if columns is None else max(len(c) for c in columns) * _LETTER * 0.7 + 8 if slanted else 18.0
    top = _MARGIN + over + (24 if title else 0)
    out = [_image(colours, left, top, cell)]
    for i, label in enumerate(rows or ()):
        y = top + (i + 0.5) * cell + 4
        out.append(f'<text x="{left - 6:.1f}" y="{y:.1f}" text-anchor="end" fill="#444">{escape(label)}</text>')
    for i, label in enumerate(columns or ()):
        x = left + (i + 0.5) * cell
        place = (
            f'transform="translate({x + 2:.1f} {top - 6:.1f}) rotate(-45)"'
            if slanted
            else f'x="{x:.1f}" y="{top - 6:.1f}" text-anchor="middle"'
        )
        out.append(f'<text {place} fill="#444">{escape(label)}</text>')
    width = left + table.shape[1] * cell + _MARGIN + (over if slanted else 0)
    return _picture(out, width, top + table.shape[0] * cell + _MARGIN, title)


def _pixels(images: Any) -> Array:
    """Return images as bytes of red, green and blue, (n, height, width, 3)."""
    found = np.asarray(images)
    if found.ndim == 3:
        found = np.repeat(found[..., None], 3, axis=-1)
    if found.ndim != 4 or found.shape[-1] != 3 or not found.size:
        advice = "Give (n, height, width) or (n, height, width, 3); `x.transpose(0, 2, 3, 1)` puts channels last."
        fail(ShapeError, f"image_grid: images of shape {np.shape(images)}", advice)
    return _as_bytes(found)


def _as_bytes(shares: Array) -> Array:
    return np.rint(np.clip(np.nan_to_num(shares.astype(np.float64), nan=0.0), 0, 1) * 255).astype(np.uint8)


def _image(pixels: Array, x: float, y: float, scale: int) -> str:
    """Return the element for an image whose upper left corner is at x and y."""
    pixels = pixels if pixels.dtype == np.uint8 else _as_bytes(pixels)
    height, width = pixels.shape[:2]
    data = base64.b64encode(_png(pixels)).decode()
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width * scale}" height="{height * scale}" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )


def _png(pixels: Array) -> bytes:
    """Return an image (height, width, 3) of bytes as a file (Portable Network Graphics, W3C 2003)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    # Every row begins with the number of its filter: 0, none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 3)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _picture(elements: Sequence[str], width: float, height: float, title: str) -> str:
    """Return the elements in an SVG document of a size, under a title."""
    width = max(width, 2 * _MARGIN + len(title) * 9)
    head = f'<text x="{_MARGIN}" y="24" font-size="15" font-weight="600" fill="#222">{escape(title)}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>{escape(title or 'images')}</title>",
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
            *([head] if title else []),
            *elements,
            "</svg>",
        ]
    )
