"""As a student, from the installed package: each demo is there after two commands or three clicks, and moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import wengert as wg
from browserchecks import AXE, NARROW, PHONE, RUN_AXE, WIDE, opened, settle, timed
from wengert.cli import main
from wengert.explorer import explore
from wengert.explorer.page import playground_page


@pytest.fixture(scope="module")
def lessons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of `wengert explore`."""
    path = tmp_path_factory.mktemp("lessons") / "lesson.html"
    assert main(["explore", "--save", str(path)]) == 0
    return path


@pytest.fixture
def page(browser: Browser, lessons: Path) -> Iterator[Page]:
    with opened(browser, lessons) as (shown, heard):
        yield shown
        assert heard.complaints == []


def test_the_stepper_tells_every_step(page: Page) -> None:
    page.get_by_role("button", name="To the start (Home)").click()
    page.get_by_role("button", name="One step on (→)").first.click()
    expect(page.get_by_role("region", name="This step")).to_contain_text("is computed")
    expect(page.locator(".wg-step-line")).to_contain_text("step 1 of 8")


def test_the_chain_rule_is_a_product_that_equals_the_gradient(page: Page) -> None:
    page.get_by_role("tab", name="Paths").click()
    expect(page.locator(".wg-paths")).to_contain_text("upstream")
    expect(page.locator(".wg-paths .wg-check")).to_contain_text("equals")


def test_the_tape_is_read_back(page: Page) -> None:
    page.get_by_role("tab", name="Tape").click()
    expect(page.locator(".wg-tape-row")).to_have_count(10)
    expect(page.locator(".wg-tape-view header")).to_contain_text("Read back")


def test_backpropagation_rests_complete(page: Page) -> None:
    expect(page.get_by_role("region", name="This step")).to_contain_text(
        "Multiplication hands each input the other one's value."
    )
    expect(page.locator(".wg-tape tbody tr").nth(2)).to_contain_text("12")


def test_parallel_nodes_light_up_together(page: Page) -> None:
    page.get_by_role("tab", name="Parallel").click()
    expect(page.locator(".wg-parallel-chain")).to_contain_text("more workers change nothing")
    page.get_by_role("button", name="See Three neurons, side by side").click()
    page.wait_for_function("() => location.hash.includes('recording=2')")
    settle(page)
    page.keyboard.press("Home")
    settle(page)
    together = 0
    for _ in range(40):
        page.keyboard.press("ArrowRight")
        settle(page)
        told = re.search(r"(\d) of 4 workers work", page.locator(".wg-parallel-status").inner_text())
        together = max(together, int(told[1]) if told else 0)
    assert together >= 3
    # The address led to this lesson, and the list leads back to the first one.
    page.get_by_label("Lesson", exact=True).select_option("0")
    expect(page.locator(".wg-title")).to_contain_text("loss(x, t)")
    expect(page.get_by_role("tab", name="Parallel")).to_have_attribute("aria-selected", "true")


def test_the_number_of_workers_outlasts_another_run(page: Page) -> None:
    page.get_by_role("tab", name="Parallel").click()
    page.get_by_label("Simulated workers").fill("7")
    page.get_by_role("button", name="as recorded").click()
    expect(page.get_by_label("Simulated workers")).to_have_value("7")
    page.get_by_role("tab", name="Tape").click()
    page.get_by_role("tab", name="Parallel").click()
    page.get_by_role("button", name="simulated").click()
    expect(page.locator(".wg-view-head")).to_contain_text("7 workers")


def test_all_of_a_picture_is_seen_beside_what_stands_above_it(browser: Browser, lessons: Path) -> None:
    with opened(browser, lessons, "recording=2") as (shown, _):
        shown.set_viewport_size({"width": 1280, "height": 800})
        shown.get_by_role("button", name="all", exact=True).click()
        shown.evaluate("window.probe.rest()")
        # What is painted ends before the frame does, below which the narrator stands.
        left = shown.evaluate(
            """() => {
              const canvas = document.querySelector(".wg-picture");
              const below = parseFloat(getComputedStyle(canvas.parentElement).getPropertyValue("--wg-below"));
              const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              let last = 0;
              for (let i = 3; i < data.length; i += 4) if (data[i] > 0) last = Math.floor(i / 4 / width);
              return canvas.clientHeight * (1 - (last + 1) / height) - below;
            }"""
        )
        assert left > 4


def test_the_workers_clock_stands_while_it_is_paused(browser: Browser, lessons: Path) -> None:
    with timed(browser, lessons, "recording=2&tab=parallel") as shown:
        clock, play = shown.get_by_label("Clock of the workers"), shown.locator(".wg-play-button")
        moments = set()
        for press in (play.click, lambda: shown.keyboard.press("Space")):
            expect(play).to_have_accessible_name("Pause (space)")
            shown.clock.run_for(500)
            press()
            expect(play).to_have_accessible_name("Play (space)")
            at = clock.get_attribute("aria-valuetext")
            shown.clock.run_for(500)
            assert clock.get_attribute("aria-valuetext") == at
            moments.add(at)
            play.click()
        assert len(moments) == 2


def test_signs_in_the_strip_are_set_in_fonts_that_hold_them(browser: Browser, tmp_path: Path) -> None:
    """A root of a font for mathematics hangs below its line, at the edge of its box."""
    page_file = tmp_path / "root.html"
    explore(lambda x: wg.sqrt(x) * x, 2.0, compiled=False).save(page_file)
    with opened(browser, page_file) as (shown, _):
        fonts = shown.locator(".wg-keep-tick text").evaluate_all(
            "(all) => Object.fromEntries(all.map((text) => [text.textContent, getComputedStyle(text).fontFamily]))"
        )
        assert "Math" not in fonts["√"]
        assert "Math" in fonts["×"]


def test_names_in_the_strip_fit_into_their_boxes(browser: Browser, tmp_path: Path) -> None:
    model = wg.nn.Sequential(wg.nn.Linear(4, 3), wg.nn.Softplus())
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) + wg.random.normal((2, 3))).mean()
        loss.backward()
        optimizer.step()
        return loss

    page_file = tmp_path / "names.html"
    explore(step, wg.ones((2, 4)), compiled=False).save(page_file)
    with opened(browser, page_file) as (shown, _):
        found = shown.locator(".wg-keep-tick text").evaluate_all(
            "(all) => all.map((text) => [text.textContent, text.getBBox().width])"
        )
        assert {"wei…", "bias"} <= {name for name, _ in found}
        assert {name: width for name, width in found if width > 26} == {}


def test_on_a_phone_the_pages_alone_scroll(browser: Browser, lessons: Path) -> None:
    """The chain of a path is seen whole, and the lesson can be chosen by its name."""
    with opened(browser, lessons, "tab=paths", PHONE) as (shown, _):
        settle(shown)
        hidden = shown.evaluate(
            """() => [".wg-center", ".wg-paths"].map((name) => document.querySelector(name))
              .map((frame) => frame.scrollHeight - frame.clientHeight)"""
        )
        assert max(hidden) <= 1
        name = shown.get_by_label("Lesson", exact=True)
        assert name.evaluate("(field) => field.clientWidth") > 180


def test_a_line_is_trained_on_the_surface_of_its_loss(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "play.html"
    file.write_text(playground_page(), encoding="utf-8")
    with opened(browser, file) as (shown, _):
        expect(shown.get_by_label("The loss, seen from above")).to_be_visible()
        shown.get_by_role("button", name="Play (space)").click()
        expect(shown.locator("circle.wg-play-stop").nth(2)).to_be_attached()


@pytest.mark.parametrize("size", [WIDE, NARROW, PHONE], ids=str)
def test_lessons_can_be_read_at_every_size(browser: Browser, lessons: Path, size: tuple[int, int]) -> None:
    """No text runs over, is cut or faint, in both themes; letters in the pictures are not too small; axe is content."""
    wrong = {}
    for theme in ("light", "dark"):
        for recording in (1, 2):
            with opened(browser, lessons, f"recording={recording}", size, color_scheme=theme) as (shown, _):
                if AXE.exists():
                    shown.evaluate(AXE.read_text(encoding="utf-8"))
                for tab in ("Graph", "Parallel", "Paths"):
                    shown.get_by_role("tab", name=tab).click()
                    settle(shown)
                    found = shown.evaluate(
                        """() => {
                          const { overflow, overlaps, canvasOverlaps, faint, smallest } = window.probe;
                          return {
                            wider: overflow() > 0, overlaps: [...overlaps(), ...canvasOverlaps()],
                            faint: faint(4.5, 3.3), small: smallest(6.5),
                          };
                        }"""
                    )
                    broken = shown.evaluate(RUN_AXE) if AXE.exists() else []
                    found["axe"] = [(rule["id"], n["html"][:90]) for rule in broken for n in rule["nodes"]]
                    if any(found.values()):
                        wrong[f"{theme}, {recording}, {tab}"] = {k: v for k, v in found.items() if v}
    assert wrong == {}
