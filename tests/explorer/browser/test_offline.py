"""A saved page, opened from a file with the network off: it asks for nothing, complains of nothing, and works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browserchecks import opened


@pytest.mark.parametrize("name", ["learner", "perceptron", "transformer", "diff"])
def test_a_saved_page_needs_nothing_else(browser: Browser, page_file: Callable[[str], Path], name: str) -> None:
    file = page_file(name)
    with opened(browser, file) as (page, heard):
        for tab in page.get_by_role("tab").all():
            tab.click()
            # What a tab needs is unpacked when it is first opened.
            drawn = page.locator(".wg-center canvas").or_(
                page.get_by_role("tabpanel").filter(has_text=re.compile(r"\S"))
            )
            expect(drawn.first).to_be_attached()
        page.keyboard.press("1")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        assert page.locator(".wg-app [aria-live]").first.inner_text() != ""
        assert heard.requests == [file.as_uri()]
        assert heard.complaints == []


def test_the_policy_lets_nothing_in(browser: Browser, page_file: Callable[[str], Path]) -> None:
    """What the page holds is all that it runs: its policy stops a script, a picture, a message to elsewhere."""
    with opened(browser, page_file("learner"), offline=False) as (page, _):
        stopped = page.evaluate(
            """async () => {
              const stopped = [];
              addEventListener("securitypolicyviolation", (event) => stopped.push(event.effectiveDirective));
              const script = document.createElement("script");
              script.textContent = "window.intruder = true";
              document.head.append(script);
              document.body.append(Object.assign(new Image(), { src: "http://127.0.0.1:9/x.png" }));
              await fetch("http://127.0.0.1:9/").catch(() => null);
              await new Promise((done) => setTimeout(done, 50));
              return stopped.sort();
            }"""
        )
        assert stopped == ["connect-src", "img-src", "script-src-elem"]
        assert page.evaluate("window.intruder") is None
