"""Fifty thousand nodes: the page is small, its first picture costs little, and it stays fluid.

Costs are processor time of the page's main thread, as the browser counts it: they do not depend on what else the
machine does. The budgets are the design's, the limits several times as much: processors differ, and these tests are to
notice when something that was linear is not any more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browserchecks import Costs, document

MEGABYTE = 1_000_000
# Milliseconds, and how many times as much is let pass.
FIRST_PICTURE, OPEN_MODULE, FRAME = 150, 16, 8
SLACK = 8


@pytest.fixture(scope="module")
def file(page_file: Callable[[str], Path]) -> Path:
    return page_file("large")


def test_the_page_is_small(file: Path) -> None:
    assert len(document("large")["nodes"]["op"]) >= 50_000 or isinstance(document("large")["nodes"]["op"], dict)
    assert file.stat().st_size < MEGABYTE


def test_the_first_picture(browser: Browser, file: Path, record_property: Callable[[str, object], None]) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, reduced_motion="reduce")
    try:
        page = context.new_page()
        costs = Costs(page)
        page.goto(file.as_uri())
        page.wait_for_selector(".wg-loupe canvas")
        spent = costs.spent()
        record_property("first_picture_cpu_ms", spent)
        record_property(
            "first_picture_wall_ms",
            page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
        )
        assert spent.script < FIRST_PICTURE * SLACK
    finally:
        context.close()
