"""One Chromium for a file of tests; where there is none, or no playwright to steer it, these tests are skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("playwright", reason="playwright is not installed")

from browserchecks import ARGUMENTS, CHROMIUM, html


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the session: while it is steered, the thread has an event loop, and tests with one of their own fail."""
    from playwright.sync_api import expect, sync_playwright

    # What is expected of a page comes sooner or later; on a busy machine later.
    expect.set_options(timeout=30_000)
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The page of a sample, as a file."""
    folder = tmp_path_factory.mktemp("pages")

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(html(name), encoding="utf-8")
        return path

    return file
