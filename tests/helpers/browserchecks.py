"""Helpers of the browser tests: pages of recorded runs in a Chromium, and queries to a page that is shown.

`PROBE` runs inside the page and answers about what is to be seen: which texts stand where, which overlap, which are
cut off, how well they can be told from their ground.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import explorer_samples
import numpy as np
from playwright.sync_api import Browser, Page

import wengert as wg
from recorded import recorded
from wengert import nn
from wengert.explorer import Exploration, explore
from wengert.explorer.page import page as page_of

AXE = Path(__file__).parents[2] / "explorer" / "node_modules" / "axe-core" / "axe.min.js"

# Without one rule of axe's that is an experiment: rows of the tree are named by more than the numbers they show.
RUN_AXE = """async () => {
  const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
  const rules = { "label-content-name-mismatch": { enabled: false } };
  return (await axe.run({ runOnly: tags, rules, resultTypes: ["violations"] })).violations;
}"""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FIREFOX = shutil.which("firefox") or shutil.which("firefox-esr")
# The same picture on every machine, and no sandbox, which containers lack the rights for.
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--font-render-hinting=none", "--force-color-profile=srgb")

# A test that reads a page too early passes on a quiet machine, and fails on a busy one: with WENGERT_SLOW_PAGES=300,
# all that a page puts off comes 300 ms late, so that such a test fails everywhere.
PROBE = (
    Path(__file__)
    .with_name("browser_probe.js")
    .read_text(encoding="utf-8")
    .replace("const slower = 0;", f"const slower = {int(os.environ.get('WENGERT_SLOW_PAGES', '0'))};")
)

WIDE, NARROW, PHONE = (1440, 900), (900, 900), (390, 844)


@dataclass
class Heard:
    """A log of the requests and complaints of a page."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.notes: dict[str, Callable[[Any], None]] = {
            "request": lambda request: self.requests.append(request.url),
            "console": lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None,
            "pageerror": lambda error: self.complaints.append(str(error)),
        }


def listen(page: Page) -> Heard:
    """Log every request and every complaint of a page, from now on."""
    heard = Heard()
    for event, note in heard.notes.items():
        page.on(event, note)  # type: ignore[call-overload]  # (names are literals to the checker)
    return heard


# The tabs of each browser, by the options that they were made with: to use one again costs a third of a new one.
_TABS: WeakKeyDictionary[Browser, dict[str, Page]] = WeakKeyDictionary()


@contextmanager
def opened(
    browser: Browser, file: Path, state: str = "", size: tuple[int, int] = WIDE, **options: Any
) -> Iterator[tuple[Page, Heard]]:
    """Open a page from a file, the network off, in the state of a URL hash; motion is reduced unless asked for."""
    settings = {"reduced_motion": "reduce", "offline": True, **options}
    tabs, kind = _TABS.setdefault(browser, {}), repr((size, sorted(settings.items())))
    # While it is used it belongs to this user alone, and it comes back only if nothing has failed in it.
    page = tabs.pop(kind, None)
    if page is None:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **settings)
        context.add_init_script(PROBE)
        page = context.new_page()
    try:
        heard = listen(page)
        page.goto(file.as_uri() + (f"#{state}" if state else ""))
        page.wait_for_selector(".wg-app")
        settle(page)
        yield page, heard
    except BaseException:
        page.context.close()
        raise
    for event, note in heard.notes.items():
        page.remove_listener(event, note)
    _cleared(page, size, settings)
    tabs[kind] = page


@contextmanager
def timed(browser: Browser, file: Path, state: str = "") -> Iterator[Page]:
    """Open a page that plays by itself, with the network off, once it has begun: its time passes only by
    `page.clock.run_for`."""
    context = browser.new_context(
        viewport={"width": WIDE[0], "height": WIDE[1]}, reduced_motion="no-preference", offline=True
    )
    try:
        page = context.new_page()
        page.clock.install(time=0)
        page.clock.pause_at(1000)
        page.goto(file.as_uri() + (f"#{state}" if state else ""))
        page.wait_for_selector(".wg-app")
        # What it reads is unpacked in the browser's own time.
        playing = page.get_by_role("button", name="Pause (space)")
        for _ in range(1000):
            if playing.is_visible():
                break
            page.clock.run_for(10)
        yield page
    finally:
        context.close()


def _cleared(page: Page, size: tuple[int, int], settings: dict[str, Any]) -> None:
    """Leave a tab as a new one is: nothing shown, no pointer over it, its size and media as they began."""
    page.goto("about:blank")
    page.mouse.move(-10, -10)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=settings.get("color_scheme", "light"), reduced_motion=settings["reduced_motion"])


def settle(page: Page) -> None:
    """Wait until what was asked for is drawn, and what the page puts off until it has time: until a frame, and what
    follows it, leave the page as it is."""
    page.evaluate(
        """async () => {
          let changed = true;
          const watch = new MutationObserver(() => (changed = true));
          watch.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
          for (let quiet = 0, i = 0; quiet < 2 && i < 60; i++) {
            changed = false;
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            quiet = changed ? 0 : quiet + 1;
          }
          watch.disconnect();
        }"""
    )


def go_to(page: Page, state: str) -> None:
    """Show the state of a URL hash; what a hash leaves out stays as it was."""
    page.evaluate("(state) => { location.hash = state; }", state)
    settle(page)


# -- what is shown


class Perceptron(nn.Module):
    """Two layers of tensors: a computation whose values are no single numbers, and still a small one."""

    def __init__(self) -> None:
        self.hidden, self.out = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        return self.out(wg.relu(self.hidden(x)))


def perceptron() -> dict[str, Any]:
    wg.manual_seed(0)
    model = Perceptron()
    rng = np.random.default_rng(0)
    targets = wg.tensor(rng.integers(0, 3, 8))

    def loss(x: Any) -> Any:
        return nn.functional.cross_entropy(model(x), targets)

    return explore(loss, rng.normal(size=(8, 6)).astype(np.float32)).document


def before_and_after() -> dict[str, Any]:
    """Return the same sum with its root taken in two ways."""

    def before(x: Any) -> Any:
        return wg.sqrt(x * x + 1.0) - 1.0

    def after(x: Any) -> Any:
        return x * x / (wg.sqrt(x * x + 1.0) + 1.0)

    made: Exploration = explore(before, 0.5).diff(explore(after, 0.5))
    return made.document


DOCUMENTS: dict[str, Callable[[], Any]] = {
    **explorer_samples.SAMPLES,
    "perceptron": perceptron,
    "diff": before_and_after,
}


@cache
def document(name: str) -> dict[str, Any]:
    """Return a recorded run, made when first asked for."""
    return recorded(name, DOCUMENTS[name])


def column(values: Any) -> list[Any]:
    """Return a column of a document: large ones are written as differences."""
    return list(np.cumsum(values["delta"]).tolist()) if isinstance(values, dict) else list(values)


def scope_of(name: str, path: str) -> int:
    """Return the row of a module in a document, by its path from the root: "blocks.7"."""
    made = document(name)
    parents, names = column(made["scopes"]["parent"]), column(made["scopes"]["name"])
    at = 0
    for part in path.split("."):
        at = next(
            row
            for row, (parent, called) in enumerate(zip(parents, names, strict=True))
            if row and parent == at and made["strings"][called] == part
        )
    return at


@cache
def html(name: str) -> str:
    """Return the page of a document."""
    return page_of(document(name))


# -- what it costs


@dataclass(frozen=True)
class Spent:
    """The milliseconds of the main thread's processor time: on scripts, and on everything."""

    script: float
    all: float


class Costs:
    """A meter of a page's main thread: the processor time since it was last asked."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._last = self._now()

    def spent(self) -> Spent:
        before, self._last = self._last, self._now()
        return Spent(self._last.script - before.script, self._last.all - before.all)

    def _now(self) -> Spent:
        found = {m["name"]: 1000 * m["value"] for m in self._session.send("Performance.getMetrics")["metrics"]}
        return Spent(found["ScriptDuration"], found["TaskDuration"])
