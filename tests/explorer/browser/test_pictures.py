"""Pictures that a reader saves: SVG and PNG, of what is shown and of the whole graph."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browserchecks import AXE, RUN_AXE, document, opened

SVG = "{http://www.w3.org/2000/svg}"


def saved(page: Page, button: str, folder: Path) -> Path:
    page.get_by_role("button", name="Save the picture").click()
    with page.expect_download() as found:
        page.get_by_role("button", name=button).click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    expect(page.get_by_role("dialog")).to_have_count(0)
    return path


def texts(path: Path) -> list[str]:
    return [node.text or "" for node in ET.parse(path).getroot().iter(f"{SVG}text")]


def size(path: Path) -> tuple[float, float]:
    root = ET.parse(path).getroot()
    return float(root.attrib["width"]), float(root.attrib["height"])


@pytest.mark.parametrize("sample", ["learner", "transformer"])
def test_a_picture_is_saved_as_svg_and_png(
    sample: str, browser: Browser, page_file: Callable[[str], Path], tmp_path: Path
) -> None:
    with opened(browser, page_file(sample), size=(1280, 800), accept_downloads=True) as (page, heard):
        page.locator(".wg-picture").first.wait_for()
        seen = page.evaluate(
            "(() => { const c = document.querySelector('.wg-picture'); return [c.clientWidth, c.clientHeight]; })()"
        )
        shown = saved(page, "What is shown as SVG", tmp_path)
        assert size(shown) == pytest.approx(seen, abs=1)
        whole = saved(page, "The whole graph as SVG", tmp_path)
        names = texts(whole)
        if sample == "learner":
            assert {"x", "w", "b", "t", "L"} <= set(names)
            assert "×" in names
        else:
            strings = document(sample)["strings"]
            assert {"blocks", "head"} & {*names} & {*strings}
        png = saved(page, "The whole graph as PNG", tmp_path).read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", png[16:24])
        assert (width, height) == pytest.approx([2 * n for n in size(whole)], abs=2)
        assert heard.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_question_is_accessible(theme: str, browser: Browser, page_file: Callable[[str], Path]) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core here: npm ci in explorer/ installs it")
    with opened(browser, page_file("learner"), color_scheme=theme, bypass_csp=True) as (page, _):
        page.keyboard.press("s")
        page.get_by_role("dialog", name="Save the picture").wait_for()
        page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
        assert page.evaluate(RUN_AXE) == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        # Only a graph is a picture.
        page.keyboard.press("2")
        page.keyboard.press("s")
        expect(page.get_by_role("dialog")).to_have_count(0)
