"""Pictures of images and of tables: what they hold, read back, and what they refuse."""

from __future__ import annotations

import base64
import re
import struct
import xml.etree.ElementTree as ET
import zlib

import numpy as np
import pytest

import wengert as wg


def read_back(svg: str) -> list[np.ndarray]:
    """The pixels of the pictures in an SVG, decoded by the standard's rules."""
    found = []
    for text in re.findall(r"data:image/png;base64,([^\"]+)", svg):
        data = base64.b64decode(text)
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        chunks, at = {}, 8
        while at < len(data):
            (size,) = struct.unpack_from(">I", data, at)
            kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
            assert struct.unpack_from(">I", data, at + 8 + size) == (zlib.crc32(kind + body),)
            chunks[kind] = body
            at += 12 + size
        assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
        width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
        assert (depth, colours) == (8, 2)
        rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
        assert not rows[:, 0].any()
        found.append(rows[:, 1:].reshape(height, width, 3))
    return found


@pytest.mark.parametrize("as_given", [np.asarray, wg.asarray], ids=["array", "tensor"])
@pytest.mark.parametrize("shape", [(3, 2, 4), (3, 2, 4, 3), (1, 1, 1)])
def test_pixels(shape: tuple[int, ...], as_given: object) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape)
    assert callable(as_given)
    found = read_back(wg.train.image_grid(as_given(images / 255)))
    assert len(found) == shape[0]
    for got, want in zip(found, images, strict=True):
        np.testing.assert_array_equal(got, want if want.ndim == 3 else np.repeat(want[..., None], 3, -1))


def test_values_outside_are_clipped() -> None:
    (found,) = read_back(wg.train.image_grid([[[-1.0, 0.0, 0.5, 1.0, 7.0, np.nan, np.inf]]]))
    assert found[0, :, 0].tolist() == [0, 0, 128, 255, 255, 0, 255]


def test_rows_and_titles() -> None:
    svg = wg.train.image_grid(np.zeros((5, 2, 2)), columns=2, titles=["a<b", *"cdef"], title="T & Co")
    root = ET.fromstring(svg)
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["T & Co", "a<b", "c", "d", "e", "f"]
    places = [(float(e.get("x", 0)), float(e.get("y", 0))) for e in root.iter("{http://www.w3.org/2000/svg}image")]
    assert len({x for x, _ in places}) == 2
    assert len({y for _, y in places}) == 3
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert all(0 <= x <= width - 8 and 0 <= y <= height - 8 for x, y in places)


def test_a_table() -> None:
    table = np.array([[0.0, 1.0], [3.0, np.nan]])
    svg = wg.train.heat_map(table, rows=["<", "le"], columns=["chat", "noir"])
    (found,) = read_back(svg)
    assert found[0, 0].tolist() == [255, 255, 255]
    assert found[1, 0].tolist() == [0, 68, 136]
    assert found[1, 1].tolist() == [0, 0, 0]
    assert [e.text for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")] == ["<", "le", "chat", "noir"]


def test_a_table_of_one_number() -> None:
    (found,) = read_back(wg.train.heat_map(wg.ones((2, 3)) * 4))
    assert (found == 255).all()


def test_refusals() -> None:
    with pytest.raises(wg.ShapeError, match=r"image_grid: images of shape \(2, 3, 8, 8\)"):
        wg.train.image_grid(np.zeros((2, 3, 8, 8)))
    with pytest.raises(wg.ShapeError, match="image_grid: images of shape"):
        wg.train.image_grid(np.zeros((0, 8, 8)))
    with pytest.raises(wg.ShapeError, match="image_grid: 1 titles for 2 images"):
        wg.train.image_grid(np.zeros((2, 8, 8)), titles=["a"])
    with pytest.raises(wg.RangeError, match="image_grid: 2 images in 0 columns"):
        wg.train.image_grid(np.zeros((2, 8, 8)), columns=0)
    with pytest.raises(wg.ShapeError, match=r"heat_map: values of shape \(3,\)"):
        wg.train.heat_map(np.zeros(3))
    with pytest.raises(wg.ShapeError, match="heat_map: 1 labels for 2 columns"):
        wg.train.heat_map(np.zeros((2, 2)), columns=["a"])
