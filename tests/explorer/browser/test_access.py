"""The explorer without a pointer and without eyes: keys, focus, names and roles, and less motion."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browserchecks import AXE, RUN_AXE, document, opened, settle, timed


def chosen_tab(page: Page) -> str:
    return page.locator("[role=tab][aria-selected=true]").inner_text()


def focus_is_seen(page: Page) -> bool:
    """Whether what has the focus shows it: an outline of two pixels, inside of the window."""
    seen: bool = page.evaluate(
        """() => {
          const at = document.activeElement;
          if (at === document.body || at === null) return true;
          at.scrollIntoViewIfNeeded();
          const { outlineStyle, outlineWidth } = getComputedStyle(at);
          const { left, top, right, bottom } = at.getBoundingClientRect();
          const inside = right > Math.max(0, left) && bottom > 0 && left < innerWidth && top < innerHeight;
          const line = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
          return at.matches(".wg-app") || (inside && (line || at.matches(".wg-find")));
        }"""
    )
    return seen


def test_a_journey_by_keyboard(browser: Browser, page_file: Callable[[str], Path]) -> None:
    """From the load to the finding, its node, find, help, every tab, and play: no pointer."""
    with opened(browser, page_file("transformer")) as (page, heard):
        # To the finding with its key: the panel on the right tells it.
        page.keyboard.press("n")
        expect(page.get_by_role("heading", name=re.compile("NaN is born at"))).to_be_visible()
        node = document("transformer")["findings"][0]["node"]
        page.wait_for_function("(node) => location.hash.includes(`sel=n${node}`)", arg=node)
        # Along an edge, and back.
        page.keyboard.press("ArrowUp")
        page.wait_for_function("(node) => !location.hash.includes(`sel=n${node}`)", arg=node)
        page.keyboard.press("Escape")
        # Find takes the focus, narrows, goes there and gives the focus back.
        page.keyboard.press("/")
        field = page.get_by_role("combobox", name=re.compile("Find"))
        expect(field).to_be_focused()
        page.keyboard.type("q_norm")
        expect(page.get_by_role("listbox", name="Found").get_by_role("option").first).to_contain_text("q_norm")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(field).to_have_count(0)
        assert page.evaluate("document.activeElement.closest('dialog')") is None
        page.keyboard.press("/")
        expect(field).to_be_focused()
        page.keyboard.press("Escape")
        expect(field).to_have_count(0)
        # Help opens and closes with its key and with Escape.
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Help")).to_be_visible()
        assert focus_is_seen(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        # Every tab has its number.
        for number, tab in enumerate(page.get_by_role("tab").all_inner_texts(), start=1):
            page.keyboard.press(str(number))
            assert chosen_tab(page) == tab
        page.keyboard.press("1")
        # The clock: start, on, play, pause.
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        expect(page.locator(".wg-app [aria-live=polite]")).not_to_have_text("Nothing has happened yet.")
        page.keyboard.press(" ")
        expect(page.get_by_role("button", name="Pause (space)")).to_be_visible()
        page.keyboard.press(" ")
        expect(page.get_by_role("button", name="Play (space)")).to_be_visible()
        assert heard.complaints == []


@pytest.mark.parametrize(
    ("name", "pressed"),
    [
        ("learner", "[role=tab][aria-selected=true]"),
        ("learner", ".wg-tape tbody button"),
        ("learner", ".wg-picture"),
        ("learner", "button[title^='One step back'], button[aria-label^='One step back']"),
        ("transformer", "[role=treeitem] >> nth=1"),
        ("transformer", ".wg-strip [role=option] >> nth=3"),
        ("transformer", ".wg-loupe canvas"),
    ],
)
def test_space_plays_after_a_click(browser: Browser, page_file: Callable[[str], Path], name: str, pressed: str) -> None:
    """What the pointer has pressed has the focus; space is not for pressing it again."""
    playing = re.compile(r"^(Play|Pause) \(space\)$")
    with opened(browser, page_file(name), "step=2") as (page, heard):
        page.locator(pressed).first.click()
        state = page.get_by_role("button", name=playing).get_attribute("aria-label")
        page.keyboard.press(" ")
        expect(page.get_by_role("button", name="Pause (space)")).to_be_visible()
        page.keyboard.press(" ")
        expect(page.get_by_role("button", name="Play (space)")).to_be_visible()
        assert state in (None, "Play (space)")
        assert heard.complaints == []


def test_space_presses_what_the_keyboard_has_come_to(browser: Browser, page_file: Callable[[str], Path]) -> None:
    with opened(browser, page_file("learner")) as (page, _):
        page.get_by_role("tab", name="Graph").click()
        page.keyboard.press("Tab")
        page.keyboard.press("Shift+Tab")
        page.get_by_role("button", name=re.compile("Find")).focus()
        page.keyboard.press(" ")
        expect(page.get_by_role("combobox", name=re.compile("Find"))).to_be_focused()


@pytest.mark.parametrize("name", ["learner", "transformer"])
def test_the_focus_goes_round_and_is_always_seen(browser: Browser, page_file: Callable[[str], Path], name: str) -> None:
    """Tab comes to everything that can be pressed, shows where it is, and leaves it again."""
    with opened(browser, page_file(name), "tab=graph&sel=n2") as (page, _):
        seen: list[str] = []
        for _ in range(120):
            page.keyboard.press("Tab")
            where = page.evaluate(
                """() => {
                  const at = document.activeElement;
                  if (at === document.body) return "";
                  at.dataset.stop ??= String(document.querySelectorAll("[data-stop]").length);
                  return at.dataset.stop;
                }"""
            )
            assert focus_is_seen(page), page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
            if where in seen:
                break
            seen.append(where)
        assert where == seen[0], "the focus is trapped"
        missed = page.evaluate(
            """() => [...document.querySelectorAll(".wg-app :is(button, input, select, [role=slider])")]
              .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility() && e.dataset.stop === undefined)
              .map((e) => e.outerHTML.slice(0, 120))"""
        )
        assert missed == []


@pytest.mark.parametrize("name", ["learner", "transformer", "diff"])
def test_roles_and_names_are_valid(browser: Browser, page_file: Callable[[str], Path], name: str) -> None:
    """By axe's rules for WCAG 2.2 A and AA, in every tab and both themes."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run npm ci in explorer/")
    wrong: dict[str, Any] = {}
    with opened(browser, page_file(name)) as (page, _):
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for number, tab in enumerate(page.get_by_role("tab").all_inner_texts(), start=1):
            page.keyboard.press(str(number))
            for theme in ("light", "dark") if number == 1 else ("light",):
                page.emulate_media(color_scheme=theme, reduced_motion="reduce")
                settle(page)
                for broken in page.evaluate(RUN_AXE):
                    wrong[f"{tab}, {theme}: {broken['id']}"] = [n["html"][:160] for n in broken["nodes"]][:4]
    assert wrong == {}


def test_the_mirror_has_the_numbers_that_are_drawn(browser: Browser, page_file: Callable[[str], Path]) -> None:
    with opened(browser, page_file("learner")) as (page, _):
        mirror = page.get_by_role("list", name="Nodes").get_by_role("button").all_inner_texts()
        assert mirror == [
            "input x, value 3, gradient 8",
            "input t, value 5, gradient −4",
            "param w, value 2, gradient 12",
            "param b, value 1, gradient 4",
            "multiply, value 6, gradient 4, swap",
            "add, value 7, gradient 4, distribute",
            "subtract, value 2, gradient 4, distribute",
            "pow, value 4, gradient 1, scale",
            "root L, value 4, gradient 1",
        ]
        # The tape on the left shows the same numbers, in as many digits as its columns have room for.
        cells = page.locator(".wg-tape tbody tr").evaluate_all(
            "(rows) => rows.map((row) => [...row.querySelectorAll('.wg-num')].map((cell) => cell.textContent))"
        )
        said = [re.findall(r"(?:value|gradient) (\S+?)(?:,|$)", line) for line in mirror]
        assert cells == said
        # Each is a button: it selects, and the panel tells the same.
        page.get_by_role("list", name="Nodes").get_by_role("button").nth(2).evaluate("(button) => button.click()")
        expect(page.get_by_role("heading", name="Parameter w")).to_be_visible()
        expect(page.get_by_role("spinbutton", name="Value of w")).to_have_value("2")


def test_a_screen_reader_hears_each_step(browser: Browser, page_file: Callable[[str], Path]) -> None:
    with opened(browser, page_file("learner"), "t=0") as (page, _):
        live = page.locator(".wg-app [aria-live=polite]")
        assert live.inner_text() == "Nothing has happened yet."
        page.keyboard.press("ArrowRight")
        expect(live).to_contain_text("multiply, value 6")
        page.keyboard.press("End")
        expect(live).to_contain_text("multiply, value 6, gradient 4, swap")


def test_the_page_as_a_tree(browser: Browser, page_file: Callable[[str], Path]) -> None:
    """Landmarks, tabs, the tape and the clock, as assistive technology finds them."""
    with opened(browser, page_file("learner"), "t=8&sel=n2") as (page, _):
        expect(page.locator(".wg-app")).to_match_aria_snapshot(
            """
            - banner:
              - tablist "Views":
                - tab "Graph" [selected]
                - tab "Tape"
                - tab "Paths"
            - complementary "Tape and key":
              - heading "Tape read back up ↑" [level=2]
              - table:
                - rowgroup:
                  - row /record value ↓ grad ↑/
                - rowgroup:
                  - row /x 3 8/
            - tabpanel "Graph":
              - region "This step"
            - complementary "Selected node":
              - heading "Parameter w" [level=1]
              - definition:
                - spinbutton "Value of w": "2"
              - slider "L as a function of w"
            - region "Transport":
              - group "Clock":
                - button "To the start (Home)"
                - button "One step back (←)"
                - button /Play/
            - region "Clock":
              - slider "Clock"
            """
        )


def test_less_motion_stops_what_moves(browser: Browser, page_file: Callable[[str], Path]) -> None:
    """By itself the learner's page plays once; for those who asked for less it rests, and nothing is animated."""
    with opened(browser, page_file("learner"), reduced_motion="reduce") as (page, _):
        expect(page.get_by_role("button", name="Play (space)")).to_be_visible()
        page.keyboard.press("Home")
        page.keyboard.press(" ")
        settle(page)
        assert page.evaluate("document.getAnimations().length") == 0
        moving = page.evaluate(
            """() => [...document.querySelectorAll(".wg-app *")].filter((e) => {
              const { animationName, transitionDuration } = getComputedStyle(e);
              return animationName !== "none" || transitionDuration.split(",").some((t) => parseFloat(t) > 0);
            }).length"""
        )
        assert moving == 0
    with timed(browser, page_file("learner")) as page:
        expect(page.get_by_role("button", name="Pause (space)")).to_be_visible()
