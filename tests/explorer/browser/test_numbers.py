"""The numbers that the page shows are the product: they are the engine's, on programs drawn at random.

A program is a few operations on a few numbers. The engine runs it, the page of that run is read as a reader would, and
what stands there (values, gradients, sums over paths, difference quotients, slopes of curves, what becomes of them when
a leaf is moved) is compared with the engine's derivatives and with differences of the program itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

import wengert as wg
from browserchecks import settle
from wengert.explorer import explore
from wengert.explorer.page import ANSWERED, asset, packed, parts

LEAVES = ("a", "b", "c")
UNARY = {
    "exp": lambda x: wg.exp(0.3 * x),
    "tanh": wg.tanh,
    "sin": wg.sin,
    "square": lambda x: x * x,
    "root": lambda x: wg.sqrt(x * x + 1.0),
    "log": lambda x: wg.log(x * x + 0.5),
    "relu": wg.relu,
    "minus": lambda x: -x,
}
BINARY = {
    "plus": lambda x, y: x + y,
    "minus": lambda x, y: x - y,
    "times": lambda x, y: x * y,
    "over": lambda x, y: x / (y * y + 1.0),
    "maximum": wg.maximum,
}


class Program(NamedTuple):
    """Steps, each an operation on numbers that are there already, by their place from the end."""

    steps: tuple[tuple[str, int, int], ...]

    def __call__(self, a: Any, b: Any, c: Any) -> Any:
        numbers = [a, b, c]
        for name, i, k in self.steps:
            x, y = numbers[-1 - i % len(numbers)], numbers[-1 - k % len(numbers)]
            numbers.append(UNARY[name](x) if name in UNARY and k % 2 else BINARY.get(name, BINARY["plus"])(x, y))
        return numbers[-1] + 0.25 * a * b - c


PLACES = st.integers(0, 7)
PROGRAMS = st.lists(st.tuples(st.sampled_from([*UNARY, *BINARY]), PLACES, PLACES), min_size=1, max_size=5).map(
    lambda steps: Program(tuple(steps))
)
NUMBERS = st.integers(-30, 30).map(lambda n: n / 10)


@pytest.fixture(scope="module")
def shown(browser: Browser) -> Iterator[Page]:
    """An empty page in which the bundle shows one document after another, by the door that notebooks use."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, reduced_motion="reduce")
    page = context.new_page()
    page.set_content('<style></style><div id="here" style="height: 860px"></div>')
    page.evaluate(
        """async ([script, style]) => {
          document.querySelector("style").textContent = style;
          const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
          const bundle = await import(address);
          let end = () => {};
          window.show = async (text) => {
            end();
            const model = { get: (key) => ({ document: text, height: 860 })[key], send() {}, on() {}, off() {} };
            end = await bundle.default.render({ model, el: document.getElementById("here") });
          };
        }""",
        ["\n".join(map(asset, ("explorer.js", *parts(*ANSWERED)))), asset("explorer.css")],
    )
    yield page
    context.close()


# What a reader reads of a leaf, once it is selected: moved first where a number is given.
READ = """async ([name, to]) => {
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const find = (selector) => document.querySelector(selector);
  const nodes = [...document.querySelectorAll(".wg-hidden ul[aria-label=Nodes] button")];
  nodes.find((node) => node.textContent.startsWith(`input ${name},`)).click();
  await frames();
  if (to !== null) {
    const field = find(".wg-leaf-value input");
    field.value = String(to);
    field.dispatchEvent(new InputEvent("input", { bubbles: true }));
    await frames();
  }
  const text = (selector) => find(selector)?.textContent ?? null;
  return {
    value: find(".wg-leaf-value input")?.value ?? null,
    gradient: text(".wg-facts dd.wg-grad"),
    sum: text(".wg-path-sum b"),
    check: text(".wg-check"),
    wrong: find(".wg-check.is-wrong") !== null,
    nudge: text(".wg-nudge b"),
    slope: text(".wg-curve-slope"),
    loss: [...document.querySelectorAll(".wg-hidden ul[aria-label=Nodes] button")].at(-1).textContent,
  };
}"""


def number(text: str) -> float:
    """A number as the page writes it."""
    plain = text.replace("−", "-").replace("∞", "inf").replace("slope ", "").strip()
    return float(plain)


def near(text: str | None, expected: float, relative: float = 6e-4) -> bool:
    """Whether a number that is shown, in four digits, is the expected one."""
    return text is not None and math.isclose(number(text), expected, rel_tol=relative, abs_tol=1e-9)


def gradients(program: Program, at: Sequence[float]) -> tuple[float, list[float]]:
    """The engine's loss and gradients."""
    leaves = [wg.tensor(x, dtype=wg.float64, requires_grad=True) for x in at]
    loss = program(*leaves)
    loss.backward()
    return float(loss), [0.0 if leaf.grad is None else float(leaf.grad) for leaf in leaves]


def quotient(program: Program, at: Sequence[float], leaf: int, h: float = 1e-4) -> float:
    """The derivative by differences, of the program itself (Richardson's fourth order)."""

    def along(by: float) -> float:
        moved = [x + by * (i == leaf) for i, x in enumerate(at)]
        return float(program(*(wg.tensor(x, dtype=wg.float64) for x in moved)))

    def central(step: float) -> float:
        return (along(step) - along(-step)) / (2 * step)

    return (4 * central(h / 2) - central(h)) / 3


def smooth(program: Program, at: Sequence[float], exact: Sequence[float]) -> bool:
    """Away from the kinks of maximum and relu, where a derivative is a choice."""
    return all(
        math.isfinite(g) and abs(quotient(program, at, i) - g) <= 1e-6 * max(1.0, abs(g)) for i, g in enumerate(exact)
    )


def compare(read: Mapping[str, Any], loss: float, gradient: float) -> None:
    assert near(read["gradient"], gradient), read
    assert near(loss_of(read["loss"]), loss), read
    if read["sum"] is not None:
        assert near(read["sum"], gradient), read
        assert not read["wrong"], read
    if read["nudge"] is not None:
        assert math.isclose(number(read["nudge"]), gradient, rel_tol=2e-5, abs_tol=2e-6), read
    if read["slope"] is not None:
        assert near(read["slope"], gradient), read


def loss_of(said: str) -> str:
    """The value of what the mirror says about the loss: "root L, value 4, gradient 1"."""
    return said.partition("value ")[2].partition(",")[0]


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(program=PROGRAMS, at=st.tuples(NUMBERS, NUMBERS, NUMBERS), to=NUMBERS, leaf=st.integers(0, 2))
def test_what_is_shown_is_what_the_engine_computes(
    shown: Page, program: Program, at: tuple[float, ...], to: float, leaf: int
) -> None:
    loss, exact = gradients(program, at)
    assume(abs(loss) < 1e5 and smooth(program, at, exact))
    moved = [to if i == leaf else x for i, x in enumerate(at)]
    moved_loss, moved_exact = gradients(program, moved)
    assume(abs(moved_loss) < 1e5 and smooth(program, moved, moved_exact))
    document = explore(program, *at, compiled=False).document
    assume(len(document["nodes"]["op"]) <= 40)
    shown.evaluate("(text) => window.show(text)", packed(document))
    settle(shown)
    for name, x, gradient in zip(LEAVES, at, exact, strict=True):
        read = shown.evaluate(READ, [name, None])
        assert near(read["value"], x, 1e-12)
        compare(read, loss, gradient)
    compare(shown.evaluate(READ, [LEAVES[leaf], to]), moved_loss, moved_exact[leaf])


def test_the_narration_has_the_engines_numbers(shown: Page) -> None:
    """Each sentence of the way back: what arrives, times the local slope, is what is handed on."""

    def loss(a: Any, b: Any) -> Any:
        return wg.tanh(a * b) * b + wg.exp(a)

    document = explore(loss, 0.5, -1.5, compiled=False).document
    shown.evaluate("(text) => window.show(text)", packed(document))
    told = shown.evaluate(
        """async () => {
          const said = [];
          const app = document.querySelector(".wg-app");
          const press = (key) => app.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
          press("Home");
          for (let i = 0; i < 60; i++) {
            press("ArrowRight");
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const numbers = [...document.querySelectorAll(".wg-told .wg-phrase")].map((p) => p.textContent);
            said.push([document.querySelector(".wg-narrator-step span").textContent, numbers]);
            if (/back (\\d+) of \\1$/.test(said.at(-1)[0])) break;
          }
          return said;
        }"""
    )
    products = 0
    for place, phrases in told:
        for phrase in phrases:
            if not place.startswith("back") or "×" not in phrase:
                continue
            factors, _, result = phrase.rpartition("=")
            parts = factors.rpartition("=")[2].split("×")
            try:
                product = math.prod(number(part.strip("() ")) for part in parts)
                handed = number(result)
            except ValueError:
                continue
            products += 1
            assert math.isclose(product, handed, rel_tol=3e-3, abs_tol=1e-6), (place, phrase)
    assert products >= 3, told
