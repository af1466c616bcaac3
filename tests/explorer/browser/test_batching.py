"""What ran together in blocks of batching, in the explorer's page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import wengert as wg
from browserchecks import AXE, RUN_AXE, opened, settle

pytest.importorskip("llvmlite", reason="groups run as compiled kernels")


class ACellWithANameThatIsFarTooLongForAPhone(wg.nn.Module):
    def forward(self, x: Any) -> Any:
        return wg.tanh(x)


def page_of(tmp_path: Path) -> Path:
    layer, cell = wg.nn.Linear(2, 2), ACellWithANameThatIsFarTooLongForAPhone()
    branch = wg.cell(lambda x: x if x > 0 else -x)

    def run(length: int) -> Any:
        x = layer(wg.ones(2))
        for _ in range(length):
            x = cell(x)
        branch(wg.tensor(1.0))
        return x

    answer = wg.explain.batching(wg.autobatch(run), [210, 3, 2])
    wg.explore(answer).save(tmp_path / "batching.html")
    return tmp_path / "batching.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_kernels_cells_and_reasons(browser: Browser, tmp_path: Path, width: int) -> None:
    with opened(browser, page_of(tmp_path), "tab=graph", size=(width, 800)) as (page, heard):
        expect(page.get_by_role("tab")).to_have_count(1)
        expect(page.get_by_role("tab", name="Parallel")).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("heading", level=2)).to_have_text("218 calls in 211 kernels")
        kernels = page.locator(".wg-batched-body > section tbody tr")
        expect(kernels).to_have_count(200)
        expect(kernels.first.locator("td")).to_have_text(["1", "Linear", "3", "4", ""])
        bars = [kernels.nth(k).locator("i").first.bounding_box() for k in (0, 4)]
        assert bars[0] is not None
        assert bars[1] is not None
        assert bars[0]["width"] == pytest.approx(3 * bars[1]["width"], rel=0.02)
        page.get_by_role("button", name="11 more").press("Enter")
        expect(kernels).to_have_count(211)
        cell = page.get_by_role("button", name="Linear")
        cell.press("Enter")
        expect(cell).to_have_attribute("aria-pressed", "true")
        expect(kernels).to_have_count(1)
        expect(page.get_by_role("heading", name="Kernels of Linear")).to_be_visible()
        reason = page.locator(".wg-batched-left li")
        expect(reason).to_contain_text("3 calls, test_batching.py:")
        expect(reason.locator("mark")).to_have_text("branch(wg.tensor(1.0))")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator(".wg-view").evaluate("view => view.scrollWidth - view.clientWidth") <= 0
        if AXE.exists():
            page.evaluate(AXE.read_text(encoding="utf-8"))
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                settle(page)
                broken = [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in page.evaluate(RUN_AXE)]
                assert broken == []
        page.get_by_role("button", name="all kernels").press("Enter")
        expect(kernels).to_have_count(211)
        assert heard.complaints == []
