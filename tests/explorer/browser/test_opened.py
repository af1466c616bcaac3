"""Files in the explorer's page: a table of weights, and what a document says of its nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

pytest.importorskip("onnx", reason="the package onnx is not installed")

import wengert as wg
from browserchecks import AXE, RUN_AXE, opened, settle
from wengert.explorer import open_file
from wengert.storage import safetensors_files


def weights(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {
        f"blocks.{i}.{n}": rng.standard_normal(s).astype(np.float32)
        for i in range(40)
        for n, s in (("w", (24, 8)), ("b", (24,)))
    }
    found["blocks.39.w"][2, 3] = np.nan
    safetensors_files.write(str(tmp_path / "model.safetensors"), found)
    page = tmp_path / "weights.html"
    open_file(tmp_path / "model.safetensors").save(page)
    return page


@pytest.mark.parametrize("width", [1440, 390])
def test_weights_are_a_table(browser: Browser, tmp_path: Path, width: int) -> None:
    with opened(browser, weights(tmp_path)) as (page, _):
        page.set_viewport_size({"width": width, "height": 800})
        expect(page.get_by_role("tab")).to_have_text(["Weights"])
        rows = page.get_by_role("list", name="Weights").get_by_role("button")
        expect(rows.first).to_be_visible()
        # The page begins at the NaN, whose row is in sight.
        chosen = page.locator("button.wg-weights-row[aria-pressed=true]")
        expect(chosen).to_contain_text("blocks.39.w")
        expect(chosen).to_be_in_viewport()
        page.get_by_label("Filter by name").fill("39")
        expect(rows).to_have_count(2)
        rows.first.click()
        expect(page.get_by_label("Selection").get_by_role("heading").first).to_have_text("b")
        page.get_by_label("Filter by name").fill("")
        page.get_by_label("Order").select_option("bytes")
        expect(rows.first).to_contain_text("blocks.0.w")
        if AXE.exists():
            page.evaluate(AXE.read_text(encoding="utf-8"))
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                settle(page)
                broken = [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in page.evaluate(RUN_AXE)]
                assert broken == []


def test_find_takes_what_is_typed_before_it_is_there(browser: Browser, page_file: Callable[[str], Path]) -> None:
    with opened(browser, page_file("learner")) as (page, _):
        page.evaluate(
            """() => {
              const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
              ["/", "s", "u", "x", "Backspace", "b", "t", "Enter"].forEach(press);
            }"""
        )
        expect(page.get_by_text("scalar · subtract")).to_be_visible()
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_find_takes_every_key_while_it_appears(browser: Browser, page_file: Callable[[str], Path]) -> None:
    """Keys that come one by one, as fast as the page is rendered: some before its field is there, some after."""
    with opened(browser, page_file("learner")) as (page, _):
        for _ in range(5):
            page.evaluate(
                """async () => {
                  const press = (key) => {
                    const at = document.activeElement ?? document.body;
                    at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
                  };
                  press("/");
                  for (const key of "subtract") {
                    const field = document.activeElement instanceof HTMLInputElement ? document.activeElement : null;
                    press(key);
                    if (field !== null) {
                      field.value += key;
                      field.dispatchEvent(new InputEvent("input", { bubbles: true }));
                    }
                    await Promise.resolve();
                    await new Promise((done) => setTimeout(done));
                  }
                }"""
            )
            expect(page.get_by_role("combobox")).to_have_value("subtract")
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_node_says_what_its_document_says(browser: Browser, tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return wg.nn.functional.leaky_relu(x, 0.25) + 1

    wg.interop.onnx.save(f, wg.spec((None, 3)), tmp_path / "f.onnx", names=["x"])
    page_file = tmp_path / "f.html"
    open_file(tmp_path / "f.onnx", seed=4, compiled=False).save(page_file)
    with opened(browser, page_file) as (page, _):
        inputs = page.get_by_label("Inputs")
        expect(inputs).to_contain_text("seed 4")
        expect(inputs).to_contain_text("float32 [1, 3] normal")
        page.keyboard.press("/")
        page.keyboard.type("LeakyRelu")
        page.keyboard.press("Enter")
        origin = page.get_by_label("In the document")
        expect(origin).to_contain_text("LeakyRelu")
        expect(origin).to_contain_text("0.25")
        expect(origin).to_contain_text("test_opened.py:")
