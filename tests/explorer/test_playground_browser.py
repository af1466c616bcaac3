"""One journey through the playground in a real browser: by keyboard and pointer, forward, back and on from there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.skipif(
        not resources.files("wengert.explorer").joinpath("static", "playground.js").is_file(),
        reason="needs the built page: npm run build in explorer/",
    ),
]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none", "--force-color-profile=srgb"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The opening address of a playground in a process of its own."""
    command = [sys.executable, "-m", "wengert", "playground", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield next(line.strip() for line in process.stdout if line.startswith("http"))
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    """What knows the playground's cookie: its address works once. Each page has a run of its own there."""
    made = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def page(context: Any, address: str) -> Iterator[Any]:
    opened = context.new_page()
    wrong: list[str] = []
    asked: list[str] = []
    opened.on("pageerror", lambda e: wrong.append(str(e)))
    opened.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    opened.on("request", lambda r: asked.append(r.url))
    opened.goto(address)
    opened.get_by_text("The data and the line").wait_for()
    yield opened
    opened.close()
    assert wrong == []
    host = re.match(r"http://[^/]+", address)
    assert host is not None
    assert [url for url in asked if not url.startswith((host.group(), "data:", "blob:"))] == []


def step(page: Any) -> Any:
    return page.get_by_role("slider", name="Step of the run")


def at(page: Any, number: int) -> None:
    sync_api.expect(step(page)).to_have_value(str(number))


def sums(page: Any) -> list[str]:
    """The arithmetic of the step, as it is read."""
    return [" ".join(text.split()) for text in page.locator(".wg-play-sum").all_inner_texts()]


def test_a_run_forward_back_and_on_from_there(page: Any) -> None:
    # The address that worked once is not kept.
    assert "token" not in page.url
    before = sums(page)
    for number in (1, 2, 3, 4):
        following = [line.rpartition("=")[2] for line in sums(page)]
        page.keyboard.press("ArrowRight")
        at(page, number)
        # What was next is now.
        assert [line.split()[1] for line in sums(page)] == [text.strip() for text in following]
    fourth = sums(page)
    page.keyboard.press("Home")
    at(page, 0)
    assert sums(page) == before
    page.keyboard.press("End")
    at(page, 4)
    assert sums(page) == fourth

    # On from step 2 with another method: what was known after it is gone.
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    at(page, 2)
    page.get_by_role("radio", name="Adam").check(force=True)
    sync_api.expect(page.get_by_text(re.compile("s direction$|s direction "))).to_be_visible()
    sync_api.expect(step(page)).to_have_attribute("aria-valuetext", "step 2 of 2 that are known")
    page.keyboard.press("Escape")

    # A step size in the red zone diverges.
    page.get_by_role("radio", name="plain").check(force=True)
    rate = page.get_by_role("slider", name=re.compile("Step size"))
    rate.press("End")
    sync_api.expect(rate).to_have_attribute("aria-valuetext", re.compile("diverges"))


def test_play_and_pause(page: Any) -> None:
    page.locator("body").click(position={"x": 700, "y": 20})
    page.keyboard.press(" ")
    page.get_by_role("button", name="Pause (space)").wait_for()
    sync_api.expect(step(page)).not_to_have_value("0")
    page.keyboard.press(" ")
    page.get_by_role("button", name="Play (space)").wait_for()


@pytest.mark.parametrize(
    ("title", "shows"),
    [
        ("Separate two spirals", "Neuron by neuron"),
        ("Dead ReLUs", "How often each unit is above zero"),
        ("Vanishing gradients", "The gradient of each layer"),
    ],
)
def test_every_experiment_runs(page: Any, title: str, shows: str) -> None:
    page.get_by_role("button", name=title).click()
    page.get_by_text(shows).wait_for()
    page.get_by_role("button", name="One step on").click()
    at(page, 1)
    # The step was recorded: the other tabs show it.
    page.get_by_role("tab", name="Graph").click()
    page.locator(".wg-picture, .wg-survey").first.wait_for()
    page.get_by_role("tab", name="Play").click()
    at(page, 1)


def test_the_graph_says_whose_step_it_is(page: Any) -> None:
    page.get_by_role("button", name="One step on").click()
    at(page, 1)
    note = page.get_by_text("same two lanes")
    note.wait_for()
    # Faster than steps are recorded: the graph says whose it is.
    page.get_by_role("combobox", name="Speed").select_option("15")
    page.get_by_role("button", name="Play (space)").click()
    sync_api.expect(page.get_by_text(re.compile("as it was at step 1:"))).to_be_visible()
    page.keyboard.press(" ")
    page.get_by_role("button", name="Play (space)").wait_for()
    note.wait_for()


def test_another_experiment_has_another_graph(page: Any) -> None:
    title = page.locator(".wg-title, header").first
    before = title.inner_text()
    page.get_by_role("button", name="Dead ReLUs").click()
    page.get_by_text("How often each unit is above zero").wait_for()
    page.get_by_role("tab", name="Graph").click()
    sync_api.expect(title).not_to_have_text(before)
    page.get_by_role("tab", name="Play").click()


def test_a_script_is_explained(page: Any) -> None:
    page.get_by_role("button", name="Your own script").click()
    sync_api.expect(page.get_by_text("wengert playground play.py")).to_be_visible()
    page.get_by_role("button", name="Fit a line").click()
    page.get_by_text("The data and the line").wait_for()


def test_it_says_when_the_process_has_gone(browser: Any) -> None:
    command = [sys.executable, "-m", "wengert", "playground", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if line.startswith("http"))
        opened = browser.new_page()
        opened.goto(address)
        opened.get_by_text("The data and the line").wait_for()
        process.kill()
        sync_api.expect(opened.get_by_role("alert")).to_contain_text("has ended")
        opened.close()
    finally:
        process.kill()
        process.communicate()
