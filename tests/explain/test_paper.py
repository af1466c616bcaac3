"""Pictures of graphs as files: PDF that readers of PDF read, PNG, SVG, Graphviz's language."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from wengert.core.errors import GraphError
from wengert.core.ops.op import TABLE
from wengert.explain.pictures.paper import Sheet, Words, _parsed, pdf, sheet_of
from wengert.explain.pictures.scene import _sign


def graph() -> Any:
    model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.ReLU(), wg.nn.Linear(16, 3))
    return wg.graph(lambda x: (model(x) - 1.0).sum())(wg.spec((4, 8)))


def objects(data: bytes) -> dict[int, bytes]:
    """The objects of a PDF, by the places that its table says."""
    start = int(re.findall(rb"startxref\n(\d+)", data)[0])
    assert data[start : start + 5] == b"xref\n"
    count = int(re.findall(rb"xref\n0 (\d+)", data[start:])[0])
    table = data[start:].split(b"\n")[2 : 2 + count]
    assert all(len(line) == 19 for line in table), "with its end of line an entry has 20 bytes"
    found = {}
    for number, line in enumerate(table[1:], 1):
        at = int(line[:10])
        assert data[at:].startswith(b"%d 0 obj" % number)
        found[number] = data[at:].partition(b"endobj")[0]
    return found


def content(data: bytes) -> str:
    stream = objects(data)[4].partition(b"stream\n")[2].rpartition(b"\nendstream")[0]
    assert int(re.findall(rb"/Length (\d+)", objects(data)[4])[0]) == len(stream)
    return zlib.decompress(stream).decode("latin-1")


def texts(data: bytes) -> list[str]:
    blocks = re.findall(r"BT (.*?)ET", content(data), re.DOTALL)
    return ["".join(bytes.fromhex(h).decode("cp1252") for h in re.findall(r"<(\w*)> Tj", b)) for b in blocks]


def test_a_pdf_has_the_pictures_boxes_arrows_and_words(tmp_path: Path) -> None:
    made = graph()
    made.save(tmp_path / "model.pdf")
    data = (tmp_path / "model.pdf").read_bytes()
    sheet = sheet_of(made, "TB", 400)
    page = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", objects(data)[3])[0]
    assert [float(n) for n in page] == pytest.approx([sheet.width, sheet.height], abs=0.01)
    words = texts(data)
    for told in ("x", "f32[4,8]", "relu", "linear", "f32[3,16]"):
        assert told in words
    numbers = [float(n) for n in re.findall(r"([\d.-]+) [\d.-]+ [mlc]\n", content(data))]
    assert len(numbers) > 50
    assert 0 <= min(numbers) <= max(numbers) <= sheet.width + 0.1


def test_every_operations_sign_can_be_written() -> None:
    signs = [Words(_sign(op), 10.0, 10.0, 10.0, font, "#000000") for op in TABLE.values() for font in ("bold", "mono")]
    assert len(texts(pdf(Sheet(100.0, 100.0, [*signs]), "signs"))) == len(signs)


def test_a_character_that_the_fonts_lack_is_refused() -> None:
    with pytest.raises(GraphError, match=r"no '名'.*\s.*svg"):
        pdf(Sheet(100.0, 100.0, [Words("名", 10.0, 10.0, 10.0, "bold", "#000000")]), "x")


def test_arcs_are_quarters_of_circles() -> None:
    path = _parsed("M10 0a10 10 0 0 1 10 10a10 10 0 0 1 -10 10a10 10 0 0 1 -10 -10a10 10 0 0 1 10 -10z")
    for (_, before), (command, at) in zip(path, path[1:-1]):
        assert command == "C"
        x0, y0 = before[-2:]
        x1, y1, x2, y2, x3, y3 = at
        middle = (x0 + 3 * x1 + 3 * x2 + x3) / 8, (y0 + 3 * y1 + 3 * y2 + y3) / 8
        assert ((middle[0] - 10) ** 2 + (middle[1] - 10) ** 2) ** 0.5 == pytest.approx(10, abs=0.01)
    assert path[-1] == ("Z", ())


def test_a_png_is_the_picture_twice_as_large(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    made = graph()
    made.save(tmp_path / "model.png", direction="LR")
    sheet = sheet_of(made, "LR", 400)
    with image.open(tmp_path / "model.png") as found:
        assert found.size == pytest.approx((2 * sheet.width, 2 * sheet.height), abs=1)
        colours = {colour for _, colour in found.convert("RGB").getcolors(1 << 20)}
    for inked in ((0xFA, 0xF9, 0xF6), (0xE3, 0xF0, 0xFC), (0xFD, 0xE9, 0xD8), (0xFF, 0xF5, 0xD3)):
        assert inked in colours


def test_texts_are_those_of_the_methods(tmp_path: Path) -> None:
    made = graph()
    for name, text in (
        ("a.svg", made.to_svg()),
        ("a.dot", made.to_dot(max_nodes=400)),
        ("a.GV", made.to_dot(max_nodes=400)),
    ):
        made.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    with pytest.raises(GraphError, match=r"'\.jpg' .*\s+Endings are \.svg"):
        made.save(tmp_path / "a.jpg")


def test_an_empty_graph_is_a_picture(tmp_path: Path) -> None:
    made = wg.graph(lambda x: x)(wg.spec(()))
    for ending in ("pdf", "svg", "png"):
        made.save(tmp_path / f"x.{ending}")
        assert (tmp_path / f"x.{ending}").stat().st_size > 300
