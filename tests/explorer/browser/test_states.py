"""What a reader sees, state by state: light and dark, wide and narrow, nothing runs over, overlaps or is cut off.

Pictures are compared with pictures of the same run, not with stored ones: fonts, and so every pixel of text, differ
between machines, and a stored picture says only that something changed. What may not change is stated instead.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browserchecks import NARROW, PHONE, WIDE, go_to, opened, scope_of, settle

LEARNER = ["tab=graph&t=0&sel=n0", "tab=graph&t=2&sel=n4", "tab=graph&t=4&sel=e4", "tab=graph&t=8&sel=n2"]
TABS = ["tape", "paths", "memory", "parallel", "kernels"]
STATES = {
    "learner": [*LEARNER, *(f"tab={tab}&t=8&sel=n2" for tab in TABS)],
    "perceptron": ["tab=graph&sel=n5", "tab=tape"],
    "transformer": ["tab=graph", "tab=graph&sel=s{head}", *(f"tab={tab}" for tab in TABS)],
    "diff": ["tab=diff"],
}


def states(name: str) -> list[str]:
    return [s.format(head=scope_of(name, "blocks.7.attn.heads.3") if "{head}" in s else "") for s in STATES[name]]


def faults(page: Page) -> dict[str, list[str]]:
    """What is wrong with what the page shows."""
    found: dict[str, list[str]] = page.evaluate(
        """() => {
          const { overflow, overlaps, canvasOverlaps, cut, faint } = window.probe;
          return {
            wider: overflow() > 0 ? [`by ${overflow()} px`] : [],
            overlaps: [...overlaps(), ...canvasOverlaps()],
            cut: cut(),
            faint: faint(4.5, 3.3),
          };
        }"""
    )
    return {fault: where for fault, where in found.items() if where}


@pytest.mark.parametrize("name", list(STATES))
def test_everything_has_its_place_and_can_be_read(
    browser: Browser, page_file: Callable[[str], Path], name: str
) -> None:
    wrong = {}
    themes = ["light", "dark"]
    with opened(browser, page_file(name), color_scheme="light") as (page, heard):
        if name == "transformer":
            page.keyboard.press("n")
        for size in (WIDE, NARROW, PHONE):
            page.set_viewport_size({"width": size[0], "height": size[1]})
            for state in states(name):
                go_to(page, state)
                # The first is the one that it is in; places are the same in both.
                for turn, theme in enumerate(themes if size == WIDE else themes[:1]):
                    if turn:
                        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                        settle(page)
                        themes = themes[::-1]
                    found = faults(page)
                    if found:
                        wrong[f"{size[0]} px, {theme}, {state}"] = found
        assert heard.complaints == []
    assert wrong == {}


PLANTED = {
    "wider": ".wg-app { overflow: visible } .wg-header { width: 3000px }",
    "overlaps": ".wg-path-sum { position: relative; top: 26px }",
    "cut": ".wg-narrator { transform: translateX(300px) }",
    "faint": ".wg-left h2 { color: #aaa }",
}


@pytest.mark.parametrize("fault", list(PLANTED))
def test_planted_faults_are_seen(browser: Browser, page_file: Callable[[str], Path], fault: str) -> None:
    with opened(browser, page_file("learner"), LEARNER[-1], color_scheme="light") as (page, _):
        assert faults(page) == {}
        # The page's policy lets no style sheet in from outside, the steering of the browser may.
        page.evaluate(
            """(rules) => {
              const sheet = new CSSStyleSheet();
              sheet.replaceSync(rules);
              document.adoptedStyleSheets.push(sheet);
            }""",
            PLANTED[fault],
        )
        assert list(faults(page)) == [fault]


def at_rest(page: Page) -> bytes:
    """The page's picture once what it works out in the background (a critical path, a what-if) is there."""
    before = b""
    for _ in range(20):
        shot = page.screenshot()
        if shot == before:
            break
        before = shot
        page.wait_for_timeout(120)
    return shot


@pytest.mark.parametrize("name", ["learner", "transformer"])
def test_a_link_shows_what_its_sender_saw(browser: Browser, page_file: Callable[[str], Path], name: str) -> None:
    """A state has one picture, byte by byte, and none looks like another."""
    shots: dict[str, bytes] = {}
    shown = states(name)[: 3 if name == "learner" else 2]
    for state in shown * 2:
        with opened(browser, page_file(name), state) as (page, _):
            shot = at_rest(page)
            assert shots.setdefault(state, shot) == shot, state
    assert len(set(shots.values())) == len(shown)
