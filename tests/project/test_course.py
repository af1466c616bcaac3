"""The course: every program runs, every exercise's answer is what its check gives, pages become what they should."""

from __future__ import annotations

import html.parser
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wengert as wg

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "course").glob("*.md"))
LESSONS = [page for page in PAGES if page.stem != "index"]


@pytest.fixture(scope="module")
def live() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_live", ROOT / "scripts" / "docs_live.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page(live: ModuleType, page: Path) -> None:
    """Its programs run and give explorations; its exercises' checks, evaluated after them, give the answers."""
    wg.manual_seed(0)
    text = page.read_text(encoding="utf-8")
    program = live.Program(page.stem)
    explored = 0
    for block in live.blocks(text):
        if block.language != "python":
            continue
        value = program.run(block)
        if "explore" in block.options:
            explored += 1
            assert isinstance(value.document, dict)
            assert value.recording.error is None
    assert 1 <= explored <= 2
    for asked in live.exercises(text):
        got = eval(asked.check, program.names)
        if asked.choices:
            assert got == asked.answer, asked.question
        else:
            assert float(got) == pytest.approx(float(asked.answer), rel=1e-5), asked.question


@pytest.mark.parametrize("page", LESSONS, ids=lambda p: p.stem)
def test_every_page_has_exercises(live: ModuleType, page: Path) -> None:
    assert 2 <= len(live.exercises(page.read_text(encoding="utf-8"))) <= 4


class _Outline(html.parser.HTMLParser):
    """Elements that are opened and closed, and attributes of frames and forms."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Outline()
    parser.feed(text)
    assert parser.open == []
    return parser.found


PAGE = """
Take $x_1^2$, not `$x$`.

```python title="a.py" explore="500" at="tab=tape&t=1"
import wengert as wg

wg.explore(lambda x: x * x, 3.0)
```

```exercise
Is $a < b$?
choices: yes | no
answer: no
check: "no"
because: It is not.
```
"""


def test_rendering(live: ModuleType) -> None:
    text, made = live.rendered(PAGE, "course/a/", "a")
    assert list(made) == ["course/live/a-1.html"]
    assert made["course/live/a-1.html"].startswith("<!doctype html>")
    assert '```python title="a.py"\nimport wengert as wg' in text
    assert "`$x$`" in text
    assert '<span class="wg-math"><i>x</i><sub>1</sub><sup>2</sup></span>' in text
    assert "<i>a</i> &lt; <i>b</i>" in text
    found = outline(re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL))
    (frame,) = [a for tag, a in found if tag == "iframe"]
    assert frame["src"] == "../live/a-1.html#tab=tape&t=1"
    assert frame["height"] == "500"
    assert frame["title"]
    (asked,) = [a for tag, a in found if tag == "form"]
    assert asked["data-answer"] == "no"
    assert [a["value"] for tag, a in found if tag == "input"] == ["yes", "no"]


def test_a_page_is_the_same_each_time_but_for_times(live: ModuleType) -> None:
    assert live.rendered(PAGE, "course/a/", "a")[0] == live.rendered(PAGE, "course/a/", "a")[0]


def test_explorers_addresses_follow_the_page(live: ModuleType) -> None:
    assert 'src="live/a-1.html' in live.rendered(PAGE, "course/", "a")[0]


def test_the_hook_writes_explorers_into_the_site(live: ModuleType, tmp_path: Path) -> None:
    class File:
        src_uri = "course/a.md"

    class Page:
        file = File
        url = "course/a/"

    live.on_page_markdown(PAGE, Page, {"site_dir": str(tmp_path)}, None)
    assert (tmp_path / "course" / "live" / "a-1.html").exists()
    File.src_uri = "training.md"
    assert live.on_page_markdown(PAGE, Page, {"site_dir": str(tmp_path)}, None) == PAGE


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("Why?\nanswer: 1\n", "without check"),
        ("Why?\ncheck: 1\n", "without answer"),
        ("answer: 1\ncheck: 1\n", "without a question"),
        ("Why?\nanswer: c\nchoices: a | b\ncheck: 1\n", "not among the choices"),
        ("Why?\nanswer: one\ncheck: 1\n", "could not convert"),
    ],
)
def test_a_wrong_exercise_is_refused(live: ModuleType, body: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        live.exercise(body)


def test_pieces_are_the_whole_file(live: ModuleType) -> None:
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert "".join(live.pieces(text).values()) == text


def test_methods_without_their_class_stand_at_the_margin(live: ModuleType) -> None:
    text = live.included("examples/mini_autograd.py", "Array.__neg__\nArray.__sub__\narray\n")
    assert [line for line in text.splitlines() if line.startswith("def ")] == [
        "def __neg__(self) -> Array:",
        "def __sub__(self, other: Any) -> Array:",
        "def array(value: Any) -> Array:",
    ]
    whole = live.included("examples/mini_autograd.py", "Array\nArray.__init__\n")
    assert "\n    def __init__" in whole


def test_the_last_page_shows_its_file_whole(live: ModuleType) -> None:
    """Every piece of the autograd once."""
    page = (ROOT / "docs" / "course" / "autograd.md").read_text(encoding="utf-8")
    shown: list[Any] = [
        "" if name == "head" else name
        for block in live.blocks(page)
        if block.language == "include"
        for name in block.body.split()
    ]
    known = live.pieces((ROOT / "examples" / "mini_autograd.py").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(known)
