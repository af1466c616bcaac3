"""Pages of odd runs, walked through with keys and pointer: nothing breaks, nothing is taken for what it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

import wengert as wg
from browserchecks import opened
from wengert import nn
from wengert.explorer import Exploration, explore

MARKUP = "</script><img src=x onerror='intruder = true'>"
KEYS = ("Home", "ArrowRight", "ArrowRight", "]", "[", "ArrowDown", "Enter", "Backspace", "n", "p", "T", "End")


def nothing() -> None:
    return None


def chain(x: Any) -> Any:
    for _ in range(5000):
        x = x * 1.0001
    return x


def wide(x: Any) -> Any:
    return wg.stack([x * float(i) for i in range(2000)]).sum()


def fails(x: Any) -> Any:
    raise ValueError(wg.sin(x) * 2.0, MARKUP)


def gone() -> Exploration:
    def made() -> wg.Tensor:
        x = wg.tensor(2.0, requires_grad=True)
        return (x + 1.5) * 2.0

    return explore(made())


def named() -> Exploration:
    model = nn.Sequential()
    for name in (MARKUP, "日本語" * 9, "a" * 3000, " ", "$1{0}{out}", "__proto__", "constructor"):
        model.add_module(name, nn.Sequential(nn.Linear(2, 2), nn.Tanh()))
    return explore(model, np.ones((3, 2), np.float32))


RUNS: dict[str, Callable[[], Exploration]] = {
    "nothing": lambda: explore(nothing),
    "only an input": lambda: explore(lambda x: x, 3.0),
    "no elements": lambda: explore(lambda x: (x * 2.0).sum(), np.zeros((0, 3))),
    "whole numbers": lambda: explore(lambda x: x + 1, np.array([1, 2])),
    "complex": lambda: explore(lambda x: x * x, 1 + 2j),
    "NaN": lambda: explore(lambda x: wg.log(x) * 2.0, -1.0),
    "infinity": lambda: explore(lambda x: wg.exp(x) * 2.0, 1000.0),
    "the largest": lambda: explore(lambda x: x * 1.5, 1e308),
    "large": lambda: explore(lambda x: x * x, 1e17),
    "the smallest": lambda: explore(lambda x: x * 2.0, 5e-324),
    "32 axes": lambda: explore(lambda x: x * 2.0, np.ones((1,) * 32)),
    "a failure": lambda: explore(fails, 2.0),
    "values gone": gone,
    "names": named,
    "a long chain": lambda: explore(chain, 1.0),
    "a wide sum": lambda: explore(wide, 1.0),
    "nothing against something": lambda: explore(nothing).diff(explore(lambda x: x * x, 2.0)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_page_takes_what_comes(browser: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / "page.html"
    RUNS[name]().save(file)
    with opened(browser, file) as (page, heard):
        # A third of the keys in each tab, another third in the next, and for the next run.
        for turn, tab in enumerate(page.get_by_role("tab").all(), start=[*RUNS].index(name)):
            tab.click()
            for key in KEYS[turn % 3 :: 3]:
                page.keyboard.press(key)
        page.keyboard.press("1")
        for key in ("Home", *["ArrowRight"] * 4):
            page.keyboard.press(key)
        page.keyboard.press("/")
        page.keyboard.type("a(*[</")
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        for x, y in ((600, 300), (450, 370), (100, 200), (1200, 300)):
            page.mouse.click(x, y)
        page.mouse.wheel(0, -500)
        shown = page.locator("body").inner_text()
        assert heard.complaints == []
        assert heard.requests == [file.as_uri()]
        assert page.evaluate("window.intruder") is None
        assert not [word for word in ("undefined", "[object", "NaN%") if word in shown]


def test_statistics_of_complex_numbers_are_of_their_sizes(browser: Browser, tmp_path: Path) -> None:
    page_file = tmp_path / "page.html"
    explore(lambda x: wg.abs(x * 2.0).sum(), np.array([3 + 4j, 1j])).save(page_file)
    with opened(browser, page_file, "tab=graph&sel=n0") as (shown, _):
        stats = shown.locator(".wg-stats").first
        assert stats.locator("dt").all_inner_texts()[:4] == ["min |x|", "max |x|", "mean |x|", "std |x|"]


def test_a_run_without_a_result_has_no_derivatives_of_one(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    RUNS["a failure"]().save(file)
    with opened(browser, file) as (page, _):
        panel = page.locator("aside.wg-right")
        assert "gradient" in panel.inner_text()
        assert "∂" not in panel.inner_text()
