"""`wengert docs`: the pages of the documentation, in a terminal."""

from __future__ import annotations

import argparse
import pydoc
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import DataError, fail

_PACKAGE = Path(__file__).parents[1]
# In an installed package, and in a checkout.
_PLACES = (_PACKAGE / "pages", _PACKAGE.parents[1] / "docs")
# So many places are listed.
_SHOWN = 20
_HEADING = re.compile(r"(#{1,6}) (.+)")


class Section(NamedTuple):
    """A part of a page under one heading; `title` is the heading's text, that of the page for its beginning."""

    page: str
    title: str
    text: str


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    p = commands.add_parser(
        "docs",
        help="read the documentation",
        description="List the pages of the documentation, show one by its name, or find the sections that have all of "
        "some words. A single section that has them is shown.",
    )
    p.add_argument("words", nargs="*", metavar="WORD", help="the name of a page, or words to find")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List, show or find pages. The exit status is 1 where nothing was found."""
    pages = _pages()
    if not args.words:
        width = max(map(len, pages))
        lines = [f"{name:{width}}  {next(sections(name, text)).title}" for name, text in pages.items()]
        _show("\n".join([*lines, "", "wengert docs NAME shows a page, wengert docs WORD finds sections."]))
        return 0
    name = "-".join(args.words).removesuffix(".md").lower()
    if name in pages:
        _show(pages[name])
        return 0
    found = find(pages, args.words)
    if not found:
        print(f"no section of the documentation has {' and '.join(map(repr, args.words))}", file=sys.stderr)
        return 1
    if len(found) == 1:
        _show(f"{found[0].page}\n\n{found[0].text}")
        return 0
    lines = [f"{s.page}: {s.title}\n    {_line(s, args.words)}" for s in found[:_SHOWN]]
    more = len(found) - _SHOWN
    _show("\n".join([*lines, *([f"and {more} more: give another word"] if more > 0 else [])]))
    return 0


def _pages() -> dict[str, str]:
    """Return the text of each page by its name. Raises DataError where there are none."""
    for place in _PLACES:
        files = sorted(place.rglob("*.md"))
        if files:
            names = [file.relative_to(place).with_suffix("").as_posix() for file in files]
            return {name: file.read_text(encoding="utf-8") for name, file in zip(names, files)}
    return fail(DataError, "the pages of the documentation are not installed", "Install Wengert from its wheel.")


def sections(page: str, text: str) -> Iterator[Section]:
    """Yield the sections of a page; what looks like a heading in a block of code is none."""
    title, lines, is_code = page, list[str](), False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading is not None:
            if any(map(str.strip, lines)):
                yield Section(page, title, "\n".join(lines))
            title, lines = heading[2], []
        lines.append(line)
    yield Section(page, title, "\n".join(lines))


def find(pages: dict[str, str], words: list[str]) -> list[Section]:
    """Return the sections that have all words, those first that have them in their headings, then by how often."""
    ranked = []
    for page, text in pages.items():
        for section in sections(page, text):
            counts = [len(re.findall(rf"(?<![a-z]){re.escape(w.lower())}", section.text.lower())) for w in words]
            if all(counts):
                titled = sum(w.lower() in f"{section.title} {page}".lower() for w in words)
                ranked.append((-titled, -min(counts), section))
    return [section for _, _, section in sorted(ranked, key=lambda entry: entry[:2])]


def _line(section: Section, words: list[str]) -> str:
    """Return the first line of a section that has one of the words, or what stands first in it."""
    lines = [line.strip() for line in section.text.splitlines() if line.strip() and not line.startswith(("#", "```"))]
    having = [line for line in lines if any(word.lower() in line.lower() for word in words)]
    return (having or lines or [section.title])[0][:100]


def _show(text: str) -> None:
    if sys.stdout.isatty():
        pydoc.pager(text)
    else:
        print(text)
