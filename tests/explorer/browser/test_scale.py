"""Fifty thousand nodes: the page is small, its first picture costs little, and it stays fluid.

Costs are processor time of scripts on the page's main thread, as the browser counts it: they do not depend on what else
the machine does. The budgets are the design's; several times as much is let pass, as processors differ: these tests are
to notice when something that was linear is not any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browserchecks import Costs, column, document, go_to, settle

MEGABYTE = 1_000_000
# Milliseconds.
FIRST_PICTURE, OPEN_MODULE, FRAME, TAB, FIND, STEP = 150, 16, 8, 300, 50, 100
SLACK = 8
FRAMES = 20


@pytest.fixture(scope="module")
def shown(browser: Browser, page_file: Callable[[str], Path]) -> Iterator[tuple[Page, Costs, float]]:
    """The page, its costs from now on, and what its first picture cost."""
    file = page_file("large")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, reduced_motion="reduce")
    page = context.new_page()
    costs = Costs(page)
    page.goto(file.as_uri())
    page.wait_for_selector(".wg-loupe canvas")
    first = costs.spent().script
    settle(page)
    costs.spent()
    yield page, costs, first
    context.close()


def test_the_page_is_small(page_file: Callable[[str], Path]) -> None:
    assert len(column(document("large")["nodes"]["op"])) > 50_000
    assert page_file("large").stat().st_size < MEGABYTE


def test_the_first_picture_costs_little(shown: tuple[Page, Costs, float]) -> None:
    assert shown[2] < SLACK * FIRST_PICTURE


FRAME_BY_FRAME = """async ([frames, act]) => {
  const canvas = document.querySelector(".wg-loupe canvas");
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const at = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true, cancelable: true };
  const acts = {
    zoom: (i) => canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: i % 2 ? 60 : -60 })),
    step: () => document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true })),
  };
  for (let i = 0; i < frames; i++) {
    acts[act](i);
    await new Promise((done) => requestAnimationFrame(done));
  }
}"""


@pytest.mark.parametrize("act", ["zoom", "step"])
def test_frames_cost_little(shown: tuple[Page, Costs, float], act: str) -> None:
    page, costs, _ = shown
    page.evaluate(FRAME_BY_FRAME, [FRAMES, act])
    assert costs.spent().script / FRAMES < SLACK * FRAME


def test_a_module_opens_at_once(shown: tuple[Page, Costs, float]) -> None:
    """What is found is shown with all that is around it opened."""
    page, costs, _ = shown
    page.keyboard.press("/")
    page.keyboard.type("Neuron")
    settle(page)
    costs.spent()
    page.keyboard.press("Enter")
    settle(page)
    assert page.locator("dialog").count() == 0
    # Several modules, one in another, are opened, and the panels tell of another node.
    assert costs.spent().script < SLACK * OPEN_MODULE


@pytest.mark.parametrize("tab", ["tape", "paths", "memory", "parallel", "kernels"])
def test_tabs_open_and_are_stepped_through(shown: tuple[Page, Costs, float], tab: str) -> None:
    page, costs, _ = shown
    go_to(page, f"tab={tab}")
    assert costs.spent().script < SLACK * TAB
    for key in ("ArrowLeft", "[", "p"):
        page.keyboard.press(key)
        settle(page)
        assert costs.spent().script < SLACK * STEP
    go_to(page, "tab=graph")


def test_what_is_typed_is_found_at_once(shown: tuple[Page, Costs, float]) -> None:
    page, costs, _ = shown
    page.keyboard.press("/")
    settle(page)
    costs.spent()
    for letter in "add nan":
        page.keyboard.type(letter)
        settle(page)
        assert costs.spent().script < SLACK * FIND
    page.keyboard.press("Escape")
    settle(page)
