"""Pictures of graphs as files: `graph.save("model.svg")`, PDF for papers, PNG, Graphviz's language.

A PDF has paths and text in the fonts that every reader of PDF has (PDF 1.4, ISO 32000): it scales, and its text can be
searched.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from .dot import to_dot
from .draw import (
    HINT_SIZE,
    LINE,
    MARGIN,
    MUTED,
    NOTE_SIZE,
    PAPER,
    SHADE,
    TITLE_SIZE,
    arranged,
    curve,
    head,
    hulls_of,
    rounded,
    shape,
    to_svg,
)
from .scene import MAX_NODES, Direction, scene_of
from .style import LIGHT

# Pixels of a PNG for each of the layout's units.
_DENSITY = 2
# A quarter of a circle as a curve of Bézier's: how far its middle points lie along the tangents.
_QUARTER = 0.5522847498


class Stroke(NamedTuple):
    """A path in the plane: `points` are those of lines and curves (`"M"`, `"L"`, `"C"`, `"Z"`)."""

    path: list[tuple[str, tuple[float, ...]]]
    fill: str = ""
    line: str = ""
    width: float = 1.0
    dash: tuple[float, ...] = ()


class Words(NamedTuple):
    """A line of text with its middle, or its beginning, at (x, y) on the base line."""

    text: str
    x: float
    y: float
    size: float
    font: str
    colour: str
    middle: bool = True


class Sheet(NamedTuple):
    """A picture: its size, and what is painted on it in that order."""

    width: float
    height: float
    parts: list[Stroke | Words]


def save(
    graph: Graph, path: str | os.PathLike[str], *, direction: Direction = "TB", max_nodes: int | None = MAX_NODES
) -> None:
    """Write the graph as a picture to a file.

    Parameters
    ----------
    path: its ending says the format: ".svg", ".pdf", ".png" (by the package Pillow), ".dot" or ".gv" (Graphviz).
    direction, max_nodes: as of :meth:`Graph.to_svg`.

    An SVG follows the reader's light or dark scheme; PDF and PNG are light. Raises GraphError for another ending, for
    a character that the fonts of PDF lack, and for a PNG without Pillow.

    >>> import tempfile, pathlib, wengert as wg
    >>> g = wg.graph(lambda x, y: wg.sin(x) * y)(wg.spec(()), wg.spec(()))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     g.save(folder + "/model.pdf")
    ...     pathlib.Path(folder, "model.pdf").read_bytes()[:8]
    b'%PDF-1.4'
    """
    file = Path(path)
    ending = file.suffix.lower()
    if ending == ".svg":
        file.write_text(to_svg(graph, direction=direction, max_nodes=max_nodes), encoding="utf-8")
    elif ending in (".dot", ".gv"):
        file.write_text(to_dot(graph, direction=direction, max_nodes=max_nodes), encoding="utf-8")
    elif ending == ".pdf":
        file.write_bytes(pdf(sheet_of(graph, direction, max_nodes), graph.name or "graph"))
    elif ending == ".png":
        image = _pillow()
        png(image, sheet_of(graph, direction, max_nodes)).save(file)
    else:
        fail(
            GraphError,
            f"a picture as {ending or 'a file without ending'!r}",
            "Endings are .svg, .pdf, .png, .dot, .gv.",
        )


def sheet_of(graph: Graph, direction: Direction, max_nodes: int | None) -> Sheet:
    """Return a graph's picture as paths and texts, in light colours. Raises GraphError as `to_svg` does."""
    scene = scene_of(graph, max_nodes)
    picture = arranged(scene, direction)
    width, height = max(picture.width, 56.0) + 2 * MARGIN, picture.height + 2 * MARGIN
    left, top = (width - picture.width) / 2, MARGIN
    parts: list[Stroke | Words] = [Stroke(_parsed(rounded(-left, -top, width, height, 0.1)), fill=PAPER)]
    hulls = hulls_of(scene, picture)
    for hull in hulls:
        frame = rounded(hull.left, hull.top, hull.right - hull.left, hull.bottom - hull.top, 10)
        parts.append(Stroke(_parsed(frame), fill=SHADE, line="#d3d2cd", width=1.0))
    parts += [Stroke(_parsed(curve(route, direction)), line=LINE, width=1.4) for route in picture.routes]
    parts += [Stroke(_parsed(head(route[-1], direction)), fill=LINE) for route in picture.routes]
    parts += [Words(h.path, h.left + 9, h.top + 13, HINT_SIZE, "regular", MUTED, middle=False) for h in hulls]
    for box, centre, size in zip(scene.boxes, picture.centres, picture.sizes):
        ink = LIGHT[box.kind]
        x, y = (c - 2 * box.stacked for c in centre)
        dash = (5.0, 4.0) if box.kind == "more" else ()
        if box.ring:
            halo = rounded(x - size[0] / 2 - 4, y - size[1] / 2 - 4, size[0] + 8, size[1] + 8, 12)
            parts.append(Stroke(_parsed(halo), line=LIGHT["root"].fill, width=1.5))
        for outline in re.findall(r' d="([^"]+)"', shape(box.kind, box.stacked, False, (x, y), size)):
            parts.append(Stroke(_parsed(outline), fill=ink.fill, line=ink.line, width=1.5, dash=dash))
        parts.append(Words(box.heading, x, y - 2.5, TITLE_SIZE, "bold", ink.text))
        parts.append(Words(box.note, x, y + 13, NOTE_SIZE, "mono", ink.text))
    if not scene.boxes:
        parts.append(Words("empty graph", 0.0, 4.0, HINT_SIZE, "regular", MUTED, middle=False))
    return Sheet(width, height, [_moved(part, left, top) for part in parts])


def _moved(part: Stroke | Words, dx: float, dy: float) -> Stroke | Words:
    if isinstance(part, Words):
        return part._replace(x=part.x + dx, y=part.y + dy)
    shift = (dx, dy)
    return part._replace(path=[(c, tuple(v + shift[i % 2] for i, v in enumerate(at))) for c, at in part.path])


def _parsed(text: str) -> list[tuple[str, tuple[float, ...]]]:
    """Return a path as SVG writes it in absolute lines and curves; arcs in it are quarters of circles."""
    out: list[tuple[str, tuple[float, ...]]] = []
    x = y = 0.0
    for command, rest in re.findall(r"([MLClhvaz])([^MLClhvaz]*)", text):
        n = [float(v) for v in re.findall(r"-?[\d.]+", rest)]
        if command in "ML":
            x, y = n
            out.append((command, (x, y)))
        elif command == "C":
            x, y = n[4:]
            out.append(("C", tuple(n)))
        elif command in "lhv":
            dx, dy = n if command == "l" else (n[0], 0.0) if command == "h" else (0.0, n[0])
            x, y = x + dx, y + dy
            out.append(("L", (x, y)))
        elif command == "a":
            dx, dy = n[-2:]
            # Clockwise: it leaves along one axis and arrives along the other.
            first = (dx, 0.0) if dx * dy > 0 else (0.0, dy)
            last = (dx - first[0], dy - first[1])
            one = (x + first[0] * _QUARTER, y + first[1] * _QUARTER)
            two = (x + dx - last[0] * _QUARTER, y + dy - last[1] * _QUARTER)
            x, y = x + dx, y + dy
            out.append(("C", (*one, *two, x, y)))
        else:
            out.append(("Z", ()))
    return out


# -- PDF

_FONTS = {"regular": "Helvetica", "bold": "Helvetica-Bold", "mono": "Courier", "symbol": "Symbol"}
# Widths of the characters from the space to the tilde, in thousandths (Adobe's font metrics of the standard fonts).
_REGULAR = (
    "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278 "
    "584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500 "
    "278 556 500 722 500 500 500 334 260 334 584"
)
_BOLD = (
    "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333 "
    "584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944 "
    "667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556 "
    "333 611 556 778 556 556 500 389 280 389 584"
)
_WIDTHS = {"regular": [*map(int, _REGULAR.split())], "bold": [*map(int, _BOLD.split())]}
# What the font Symbol has, by its own codes; and what is written otherwise.
_SYMBOLS: Mapping[str, int] = dict(
    zip("−≠≤≥⊕→←∂√∑∏∞∇≈∈⊗·", b"\x2d\xb9\xa3\xb3\xc5\xae\xac\xb6\xd6\xe5\xd5\xa5\xd1\xbb\xce\xc4\xd7")
)
_GREEK = dict(zip("αβγδεζηθικλμνξοπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", b"abgdezhqiklmnxoprstufcywGDQLXPSFYW"))
_WRITTEN = {"≪": "<<", "≫": ">>", "ᵀ": "^T"}


def pdf(sheet: Sheet, title: str) -> bytes:
    """Return a sheet as a PDF document of one page. Raises GraphError for a character that its fonts lack."""
    content = "\n".join(_operators(sheet)).encode("latin-1")
    fonts = " ".join(f"/{key} {6 + i} 0 R" for i, key in enumerate(_FONTS))
    page = f"/MediaBox [0 0 {_n(sheet.width)} {_n(sheet.height)}] /Resources << /Font << {fonts} >> >>"
    packed = zlib.compress(content, 9)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< /Type /Page /Parent 2 0 R {page} /Contents 4 0 R >>".encode(),
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(packed), packed),
        b"<< /Title <feff%b> >>" % title.encode("utf-16-be").hex().encode(),
    ]
    for key, name in _FONTS.items():
        encoding = "" if key == "symbol" else " /Encoding /WinAnsiEncoding"
        objects.append(f"<< /Type /Font /Subtype /Type1 /BaseFont /{name}{encoding} >>".encode())
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info 5 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def _operators(sheet: Sheet) -> Iterator[str]:
    """Yield the operators of a page's content; the page's y goes up, the sheet's down."""
    yield "1 j 1 J"
    for part in sheet.parts:
        if isinstance(part, Words):
            yield from _text(part, sheet.height)
            continue
        if part.fill:
            yield f"{_colour(part.fill)} rg"
        if part.line:
            yield f"{_colour(part.line)} RG {_n(part.width)} w [{' '.join(map(_n, part.dash))}] 0 d"
        for command, at in part.path:
            flipped = " ".join(_n(sheet.height - v if i % 2 else v) for i, v in enumerate(at))
            yield "h" if command == "Z" else f"{flipped} {({'M': 'm', 'L': 'l', 'C': 'c'})[command]}"
        yield "B" if part.fill and part.line else "f" if part.fill else "S"


def _text(words: Words, height: float) -> Iterator[str]:
    runs = list(_runs(words.text, words.font))
    length = sum(width for _, _, width in runs) * words.size / 1000
    x = words.x - length / 2 if words.middle else words.x
    yield f"BT {_colour(words.colour)} rg {_n(x)} {_n(height - words.y)} Td"
    for font, text, _ in runs:
        yield f"/{font} {_n(words.size)} Tf <{text.hex()}> Tj"
    yield "ET"


def _runs(text: str, font: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield the parts of a text that have one font: its name, the bytes in its encoding, and its width."""
    for char in text:
        for one in _WRITTEN.get(char, char):
            code = _SYMBOLS.get(one, _GREEK.get(one))
            if code is not None:
                yield "symbol", bytes([code]), 549
                continue
            try:
                made = one.encode("cp1252")
            except UnicodeEncodeError:
                fail(GraphError, f"the fonts of a PDF have no {one!r}, which stands in the picture", "Save it as .svg.")
            at = made[0] - 32
            width = 600 if font == "mono" else _WIDTHS[font][at] if 0 <= at < 95 else 584
            yield font, made, width


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def _colour(code: str) -> str:
    return " ".join(_n(int(code[i : i + 2], 16) / 255) for i in (1, 3, 5))


# -- PNG


def _pillow() -> Any:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        fail(
            GraphError,
            "a picture as .png needs the package Pillow",
            "Install it with: pip install pillow, or save .svg.",
        )
    return Image, ImageDraw, ImageFont


def png(pillow: Any, sheet: Sheet) -> Any:
    """Return a sheet as an image of Pillow's, drawn twice as large and made smaller, so that lines are smooth."""
    image, draw, font = pillow
    scale = 2 * _DENSITY
    made = image.new("RGB", (round(sheet.width * scale), round(sheet.height * scale)), PAPER)
    pen = draw.Draw(made)
    for part in sheet.parts:
        if isinstance(part, Words):
            mark = {"mono": "DejaVuSansMono.ttf", "bold": "DejaVuSans-Bold.ttf", "regular": "DejaVuSans.ttf"}[part.font]
            try:
                face = font.truetype(mark, part.size * scale * 0.92)
            except OSError:
                face = font.load_default(part.size * scale)
            pen.text(
                (part.x * scale, part.y * scale), part.text, part.colour, face, anchor="ms" if part.middle else "ls"
            )
            continue
        points = [(x * scale, y * scale) for x, y in _flat(part.path)]
        if part.fill:
            pen.polygon(points, fill=part.fill)
        if part.line:
            closed = [*points, points[0]] if part.path[-1][0] == "Z" else points
            pen.line(closed, fill=part.line, width=max(1, round(part.width * scale)), joint="curve")
    return made.resize((made.width // 2, made.height // 2), image.Resampling.LANCZOS)


def _flat(path: list[tuple[str, tuple[float, ...]]]) -> Iterator[tuple[float, float]]:
    """Yield points along a path, so close to each other that lines between them look like its curves."""
    x = y = 0.0
    for command, at in path:
        if command == "C":
            (x1, y1, x2, y2, x3, y3), steps = at, 16
            for i in range(1, steps + 1):
                t = i / steps
                a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
                yield a * x + b * x1 + c * x2 + d * x3, a * y + b * y1 + c * y2 + d * y3
            x, y = x3, y3
        elif command != "Z":
            x, y = at
            yield x, y


Graph.save = save  # type: ignore[method-assign, assignment]
