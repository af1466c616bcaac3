"""The walks of docs/extending.md are real: their diffs apply to a copy of the tree, and their commands pass there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
# By title: a section's text.
WALKS = {s.splitlines()[0]: s for s in re.split(r"^## ", TEXT, flags=re.MULTILINE) if s.startswith("Adding ")}
COPIED = ("src", "tests", "scripts", "pyproject.toml")


def fenced(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def apply(diff: str, tree: Path) -> None:
    """Apply a unified diff: what a hunk takes away has to be there once, its neighbours as far as they still are."""
    for change in re.split(r"^(?=--- )", diff, flags=re.MULTILINE)[1:]:
        first, second, *rest = change.splitlines(keepends=True)
        file = tree / second.removeprefix("+++ b/").strip()
        hunks = re.split(r"^@@ .*\n", "".join(rest), flags=re.MULTILINE)[1:]
        if first.startswith("--- /dev/null"):
            assert not file.exists(), f"{file.name} is there already"
            file.write_text("".join(line[1:] for line in hunks[0].splitlines(keepends=True)))
            continue
        text = file.read_text()
        for hunk in hunks:
            found = place(hunk.splitlines(keepends=True), text)
            assert found is not None, f"{file.relative_to(tree)} has changed where the walk says\n{hunk}"
            text = text.replace(*found)
        file.write_text(text)


def place(lines: list[str], text: str) -> tuple[str, str] | None:
    """A hunk's old and new text, with the most lines around the change by which the old one stands in the text once."""
    changed = [i for i, line in enumerate(lines) if line[0] in "+-"]
    before, after = changed[0], len(lines) - 1 - changed[-1]
    fewer = sorted(((a, b) for a in range(before + 1) for b in range(after + 1)), key=sum)
    for a, b in fewer:
        kept = lines[a : len(lines) - b]
        old, new = ("".join(line[1:] or "\n" for line in kept if line[0] != sign) for sign in "+-")
        if old and text.count(old) == 1:
            return old, new
    return None


def test_a_hunk_is_found_by_what_is_left_around_it() -> None:
    hunk = [" a\n", " b\n", "-c\n", "+C\n", " d\n"]
    assert place(hunk, "a\nb\nc\nd\n") == ("a\nb\nc\nd\n", "a\nb\nC\nd\n")
    assert place(hunk, "x\nc\nd\n") == ("c\nd\n", "C\nd\n")
    assert place(hunk, "a\nb\nd\n") is None
    assert place([" a\n", "+b\n"], "x\n") is None


def test_there_are_five() -> None:
    assert list(WALKS) == [
        "Adding an op",
        "Adding a kernel",
        "Adding a dtype",
        "Adding a transform",
        "Adding an answer",
    ]


@pytest.mark.parametrize("title", WALKS)
def test_walk(title: str, tmp_path: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "static"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    for diff in fenced("diff", WALKS[title]):
        apply(diff, tmp_path)
    commands = [line for text in fenced("sh", WALKS[title]) for line in text.splitlines() if line.startswith("pytest ")]
    # The first one: those after it tell of other tests.
    words = shlex.split(commands[0], comments=True)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
