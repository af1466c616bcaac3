"""The timelines of ranks in the explorer's page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import wengert as wg
from browserchecks import AXE, RUN_AXE, opened, settle
from wengert import distribute as dist
from wengert import nn

pytest.importorskip("llvmlite", reason="kernels are measured")


def page_of(tmp_path: Path, options: dict[str, Any], axes: dict[str, int]) -> tuple[Path, Any]:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    made = dist.jit(step, mesh=dist.Mesh(axes), in_specs=("data" if "data" in axes else None,), **options)
    found = wg.explore(dist.predict(made, args=(wg.spec((32, 64)),), cluster=dist.Cluster(1e-4, 1e9)))
    found.save(tmp_path / "ranks.html")
    return tmp_path / "ranks.html", found.document["ranks"]


@pytest.mark.parametrize("width", [1440, 390])
def test_parts_are_chosen_by_pointer_and_keys(browser: Browser, tmp_path: Path, width: int) -> None:
    path, ranks = page_of(tmp_path, {}, {"data": 4})
    with opened(browser, path) as (page, _):
        page.set_viewport_size({"width": width, "height": 800})
        expect(page.get_by_role("tab", name="Ranks")).to_have_attribute("aria-selected", "true")
        chart = page.get_by_role("slider", name="Parts of a step")
        expect(chart).to_have_attribute("aria-valuetext", "none")
        chart.focus()
        page.keyboard.press("ArrowRight")
        expect(chart).to_have_attribute("aria-valuenow", "0")
        page.keyboard.press("ArrowRight")
        expect(chart).to_have_attribute("aria-valuetext", re.compile("gemm|pack"))
        move = ranks["kind"].index(1)
        page.locator(".wg-ranks-longest").get_by_role("button", name=ranks["label"][move], exact=True).first.click()
        part = page.locator(".wg-ranks-part")
        expect(part.get_by_role("heading").first).to_have_text(ranks["label"][move])
        expect(part).to_contain_text("a rank sends")
        part.get_by_role("button").first.click()
        expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
        page.get_by_role("tab", name="Ranks").click()
        if AXE.exists():
            page.evaluate(AXE.read_text(encoding="utf-8"))
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                settle(page)
                broken = [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in page.evaluate(RUN_AXE)]
                assert broken == []


def test_a_pipeline_has_a_lane_for_each_place(browser: Browser, tmp_path: Path) -> None:
    path, ranks = page_of(tmp_path, {"pipeline": dist.Pipeline("pipe", 4)}, {"pipe": 2})
    with opened(browser, path) as (page, _):
        rows = page.locator(".wg-ranks-part tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(1)).to_contain_text("1")
        assert [lane["ranks"] for lane in ranks["lanes"]] == ["0", "1"]
