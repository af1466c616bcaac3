"""Graphs of middle size are seen whole at 1280x800, and what has not happened yet is not told."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import wengert as wg
from browserchecks import opened
from wengert import nn
from wengert.explorer import Exploration, explore

F = nn.functional
LAPTOP = (1280, 800)
SVG = "{http://www.w3.org/2000/svg}"


def mlp() -> Exploration:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = wg.optim.Adam(model.parameters())
    x, t = wg.randn(4, 8), wg.tensor([0, 1, 2, 0])

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), t).backward()
        optimizer.step()

    return explore(step, compiled=False)


class Cnn(nn.Module):
    def __init__(self) -> None:
        self.stem, self.bn = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        layers = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for _ in range(4)]
        self.blocks, self.head = nn.ModuleList(layers), nn.Linear(8 * 49, 10)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.bn(self.stem(x)))
        for block in self.blocks:
            x = x + block(x)
        return self.head(F.max_pool2d(x, 2).reshape(x.shape[0], -1))


def cnn() -> Exploration:
    model = Cnn()
    return explore(lambda x: F.cross_entropy(model(x), wg.tensor([1, 2])), wg.randn(2, 1, 14, 14), compiled=False)


class Cell(nn.Module):
    def __init__(self) -> None:
        self.ih, self.hh = nn.Linear(3, 20), nn.Linear(5, 20)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        z = self.ih(x) + self.hh(h)
        i, f, g, o = (z[:, 5 * k : 5 * k + 5] for k in range(4))
        c = wg.sigmoid(f) * c + wg.sigmoid(i) * wg.tanh(g)
        return wg.sigmoid(o) * wg.tanh(c), c


def lstm() -> Exploration:
    cell, head = Cell(), nn.Linear(5, 1)

    def run(x: Any) -> Any:
        h = c = wg.zeros((2, 5))
        for t in range(8):
            h, c = cell(x[:, t], h, c)
        return (head(h) ** 2).mean()

    return explore(run, wg.randn(2, 8, 3), compiled=False)


def block() -> Exploration:
    layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True, dropout=0.0, norm_first=True)
    emb, head = nn.Embedding(11, 8), nn.Linear(8, 11)
    ids = wg.tensor([[1, 2, 3, 4]])
    return explore(lambda: F.cross_entropy(head(layer(emb(ids))).reshape(-1, 11), ids.reshape(-1)), compiled=False)


def ode() -> Exploration:
    a = wg.tensor([[-0.1, 2.0], [-2.0, -0.1]], requires_grad=True)
    data = wg.randn(9, 2)

    def fit(a: Any) -> Any:
        y, h, loss = wg.tensor([2.0, 0.0]), 0.1, 0.0
        for n in range(8):
            k1 = (y**3) @ a
            k2 = ((y + h / 2 * k1) ** 3) @ a
            k3 = ((y + h / 2 * k2) ** 3) @ a
            k4 = ((y + h * k3) ** 3) @ a
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            loss = loss + ((y - data[n + 1]) ** 2).sum()
        return loss

    return explore(fit, a, compiled=False)


@pytest.mark.parametrize("made", [mlp, cnn, lstm, block, ode])
def test_a_graph_of_middle_size_is_read_at_once(
    made: Callable[[], Exploration], browser: Browser, tmp_path: Path
) -> None:
    wg.manual_seed(0)
    file = tmp_path / "page.html"
    made().save(file)
    with opened(browser, file, size=LAPTOP, accept_downloads=True) as (page, heard):
        page.locator(".wg-picture").first.wait_for()
        page.get_by_role("button", name="Save the picture").click()
        with page.expect_download() as found:
            page.get_by_role("button", name="What is shown as SVG").click()
        found.value.save_as(tmp_path / "shown.svg")
        assert heard.complaints == []
    root = ET.parse(tmp_path / "shown.svg").getroot()
    x, y, width, height = map(float, root.attrib["viewBox"].split())
    scale = float(root.attrib["width"]) / width
    boxes = [[float(n) for n in re.findall(r"-?[\d.]+", path.attrib["d"])[:2]] for path in root.iter(f"{SVG}path")]
    texts = list(root.iter(f"{SVG}text"))
    assert len(texts) > 4
    for left, top in boxes:
        assert x <= left <= x + width, "a line or box stands outside of what is shown"
        assert y <= top <= y + height
    for text in texts:
        assert x <= float(text.attrib["x"]) <= x + width
        assert y <= float(text.attrib["y"]) <= y + height
    assert scale * max(float(text.attrib["font-size"]) for text in texts) > 7


def test_a_gradient_that_has_not_arrived_is_not_told(browser: Browser, page_file: Callable[[str], Path]) -> None:
    with opened(browser, page_file("learner"), "t=2&sel=n0", size=LAPTOP) as (page, _):
        panel = page.get_by_role("complementary", name="Selected node")
        expect(panel).to_contain_text("not yet")
        expect(panel).to_contain_text("when the gradient is there")
        for told in ("sum of paths", "nudge test", "equals", "slope"):
            assert told not in panel.inner_text().lower()
        page.keyboard.press("End")
        expect(panel).to_contain_text("sum of paths")
        expect(panel).to_contain_text("nudge test")
        assert "not yet" not in panel.inner_text()


def test_a_laptops_window_shows_the_curve_and_the_patterns(browser: Browser, page_file: Callable[[str], Path]) -> None:
    with opened(browser, page_file("learner"), "sel=n0", size=LAPTOP) as (page, _):
        for told in ("If only", "How gradients move"):
            section = page.locator(".wg-section", has=page.get_by_role("heading", name=re.compile(told)))
            box = section.bounding_box()
            panel = section.locator("xpath=ancestor::aside").bounding_box()
            assert box is not None
            assert panel is not None
            assert box["y"] + box["height"] <= panel["y"] + panel["height"] + 16, told


def test_times_that_nobody_measured_are_unknown(browser: Browser, tmp_path: Path) -> None:
    model = nn.Linear(8, 3)
    explore(F.cross_entropy(model(wg.randn(4, 8)), wg.tensor([0, 1, 2, 0])), compiled=False).save(tmp_path / "x.html")
    with opened(browser, tmp_path / "x.html", size=LAPTOP) as (page, _):
        expect(page.locator(".wg-sums")).to_contain_text("unknown")
        assert "0 µs" not in page.locator(".wg-sums").inner_text()
