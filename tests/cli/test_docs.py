"""`wengert docs`: pages by name, sections by words."""

from __future__ import annotations

from pathlib import Path

import pytest

from wengert.cli import docs, main

ROOT = Path(__file__).parents[2]


def test_every_page_is_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    names = {p.relative_to(ROOT / "docs").with_suffix("").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert main(["docs"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.partition("\n\n")[0].splitlines()}
    assert listed == names
    assert main(["docs", "training"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "training.md").read_text(encoding="utf-8") + "\n"
    assert main(["docs", "command", "line"]) == 0
    assert capsys.readouterr().out.startswith("# ")


@pytest.mark.parametrize(
    ("words", "page"),
    [("dataframe", "training"), ("pandas", "training"), ("plot", "training"), ("checkpoint folder", "checkpoints")],
)
def test_words_that_people_use_are_found(words: str, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", *words.split()]) == 0
    assert f"{page}" in capsys.readouterr().out


def test_what_is_nowhere_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "zzzz", "graph"]) == 1
    assert capsys.readouterr().err == "no section of the documentation has 'zzzz' and 'graph'\n"


def test_comments_in_code_are_no_headings() -> None:
    text = "# Page\n\nfirst\n\n```sh\n# a comment\n```\n\n## Next\n\nsecond\n"
    assert [(s.title, "comment" in s.text) for s in docs.sections("p", text)] == [("Page", True), ("Next", False)]
    found = docs.find({"p": text, "q": "# Second\n\nsecond second\n"}, ["second"])
    assert [s.page for s in found] == ["q", "p"]


def test_pages_are_part_of_the_package() -> None:
    """The wheel has them where the command looks first."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"docs" = "wengert/pages"' in text
    assert docs._PLACES[0].name == "pages"
