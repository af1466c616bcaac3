"""The playground without Python: one file, offline; what it computes, a script goes on with in Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browserchecks import NARROW, PHONE, WIDE, opened, settle
from wengert.explorer.page import playground_page


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("playground") / "live.html"
    path.write_text(playground_page(), encoding="utf-8")
    return path


def steps(page: Page, count: int) -> None:
    for _ in range(count):
        page.keyboard.press("ArrowRight")


def chart(page: Page) -> str:
    return str(page.get_by_role("img", name="Loss at step").get_attribute("aria-label"))


@pytest.mark.parametrize(
    "settings",
    [
        "play=line&o.batch=7&o.method=Adam",
        "play=separate&o.layers=1&o.points=60&o.use+xy=true&o.l2=0.01",
        "play=vanishing&o.depth=3&o.residual=true&o.norm=true&o.method=Adam",
    ],
)
def test_a_script_goes_on_with_the_same_numbers(browser: Browser, file: Path, tmp_path: Path, settings: str) -> None:
    script = tmp_path / "continue.py"
    with opened(browser, file, settings) as (page, heard):
        page.get_by_role("img", name="Loss at step 0").wait_for()
        steps(page, 5)
        page.get_by_role("button", name="Continue in Python").click()
        script.write_text(page.get_by_label("The script").input_value(), encoding="utf-8")
        page.get_by_role("button", name="Close").click()
        steps(page, 10)
        shown = chart(page)
        assert heard.requests == [page.url.partition("#")[0]]
        assert heard.complaints == []
    ran = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True, cwd=tmp_path)
    line = next(line for line in ran.stdout.splitlines() if line.startswith("15 "))
    _, loss, *more = line.split()
    assert "at step 15" in shown
    words = shown.partition(": ")[2].rstrip(".").split(", ")
    said = [float(word.split()[-1].replace("−", "-")) for word in words]
    for told, computed in zip(said, [loss, *more]):
        assert told == pytest.approx(float(computed), rel=6e-3)


def test_a_weight_is_set_by_hand_and_keys_work_after_a_click(browser: Browser, file: Path) -> None:
    with opened(browser, file, "play=separate&o.layers=1&o.width=3") as (page, _):
        page.get_by_role("button", name="Layer 1, neuron 2").click()
        field = page.get_by_role("spinbutton", name="y")
        field.fill("1.5")
        field.press("Enter")
        page.get_by_role("button", name="Layer 1, neuron 2: bias").wait_for()
        assert "1.5" in str(page.get_by_role("button", name="Layer 1, neuron 2").get_attribute("aria-label"))
        step = page.get_by_role("slider", name="Step of the run")
        # What was set with the pointer keeps no key to itself.
        for act in (
            lambda: page.get_by_label("Discretise the output").click(),
            lambda: page.get_by_role("slider", name="L2 regularisation").click(),
            lambda: page.get_by_role("button", name="xy").click(),
        ):
            act()
            settle(page)
            before = int(step.input_value())
            page.keyboard.press("ArrowRight")
            settle(page)
            assert int(step.input_value()) == before + 1


def test_on_a_phone_the_buttons_stay_in_reach(browser: Browser, file: Path) -> None:
    with opened(browser, file, "play=line", PHONE) as (page, heard):
        expect(page.get_by_role("button", name="Reset")).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert heard.complaints == []


EXPERIMENTS = ("line", "separate", "surface", "dead", "vanishing")


@pytest.mark.parametrize("size", [WIDE, NARROW, PHONE], ids=str)
def test_every_experiment_is_seen(browser: Browser, file: Path, size: tuple[int, int]) -> None:
    """Pictures have their room, titles and words are whole, and the list to choose from comes before them."""
    wrong: dict[str, Any] = {}
    for theme in ("light", "dark"):
        with opened(browser, file, "", size, color_scheme=theme) as (page, heard):
            for at, name in enumerate(EXPERIMENTS):
                page.locator(".wg-play-try button").nth(at).click()
                cards = page.locator(".wg-play-center .wg-play-card")
                cards.first.wait_for()
                steps(page, 2)
                settle(page)
                least = min(box["height"] for box in (card.bounding_box() for card in cards.all()) if box is not None)
                found = page.evaluate(
                    """() => {
                      const { overflow, overlaps, canvasOverlaps, faint } = window.probe;
                      const picture = document.querySelector(".wg-play-center").getBoundingClientRect();
                      const list = document.querySelector(".wg-play-try").getBoundingClientRect();
                      const shortened = [...document.querySelectorAll(".wg-play-card h2 > *")].filter(
                        (e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0,
                      );
                      return {
                        wider: overflow() > 0,
                        overlaps: [...overlaps(), ...canvasOverlaps()],
                        faint: faint(4.5, 3.3),
                        listBelow: list.top >= picture.bottom,
                        shortened: shortened.map((e) => e.textContent),
                      };
                    }"""
                )
                found["low"] = least < 150
                if any(found.values()) or heard.complaints:
                    wrong[f"{name}, {theme}"] = {k: v for k, v in found.items() if v} or heard.complaints
    assert wrong == {}


def test_it_says_where_it_diverged(browser: Browser, file: Path) -> None:
    with opened(browser, file, "play=line&o.rate=2") as (page, _):
        page.get_by_role("img", name="Loss at step 0").wait_for()
        assert page.get_by_text("Diverged at step").count() == 0
        steps(page, 12)
        told: Any = page.get_by_text("Diverged at step").inner_text()
        assert int(told.split("step ")[1].split(".")[0]) <= 12
        area = page.get_by_label("The loss, seen from above").locator("circle.wg-play-here").bounding_box()
        card = page.get_by_label("The loss, seen from above").bounding_box()
        assert area is not None
        assert card is not None
        assert card["x"] <= area["x"] <= card["x"] + card["width"]
        assert card["y"] <= area["y"] <= card["y"] + card["height"]


def test_the_axis_keeps_up_with_a_loss_that_diverges(browser: Browser, file: Path) -> None:
    with opened(browser, file, "play=line&o.rate=3") as (page, _):
        page.get_by_role("img", name="Loss at step 0").wait_for()
        steps(page, 30)
        chart = page.get_by_role("img", name="Loss at step 30")
        assert chart.locator("circle").last.evaluate("(dot) => dot.cy.baseVal.value") > 0
        assert max(map(float, chart.locator(".wg-play-tick text").all_text_contents())) > 1e30


def test_escape_closes_the_script(browser: Browser, file: Path) -> None:
    with opened(browser, file) as (page, _):
        page.get_by_role("button", name="Continue in Python").click()
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")


def test_the_dot_is_dragged_and_the_run_goes_on_from_there(browser: Browser, file: Path) -> None:
    with opened(browser, file, "play=line&o.rate=0.1") as (page, _):
        grip = page.locator("circle.wg-play-grip")
        grip.wait_for()
        before = chart(page)
        box = grip.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y - 40)
        page.mouse.up()
        settle(page)
        assert chart(page) != before
        steps(page, 1)
        page.keyboard.press("ArrowLeft")
        settle(page)
        assert chart(page) != before
