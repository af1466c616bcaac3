"""The walks of CONTRIBUTING.md are real: their diffs apply to a copy of the tree, and their commands pass there."""

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
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# By title: a section's text.
WALKS = {s.splitlines()[0]: s for s in re.split(r"^## ", TEXT, flags=re.MULTILINE) if s.startswith("Adding ")}
COPIED = ("src", "tests", "scripts", "pyproject.toml")


def fenced(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_there_are_four() -> None:
    assert list(WALKS) == ["Adding an op", "Adding a kernel", "Adding a transform", "Adding an answer"]


@pytest.mark.parametrize("title", WALKS)
def test_walk(title: str, tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("diffs are applied by git")
    tree = tmp_path / "tree"
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "static"))
        else:
            shutil.copy(ROOT / name, tree / name)
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path), "PYTHONPATH": str(tree / "src")}
    for diff in fenced("diff", WALKS[title]):
        # One file at a time: git counts the lines of hunks anew up to where the text ends. Of the lines around a change
        # one has to be there, so that a new neighbour needs no new diff.
        for change in re.split(r"^(?=--- )", diff, flags=re.MULTILINE)[1:]:
            applied = subprocess.run(
                [git, "apply", "--recount", "-C1", "-"], input=change, cwd=tree, env=env, capture_output=True, text=True
            )
            assert applied.returncode == 0, f"{applied.stderr}\n{change}"
    commands = [line for text in fenced("sh", WALKS[title]) for line in text.splitlines() if line.startswith("pytest ")]
    # The first one: those after it tell of other tests.
    words = shlex.split(commands[0], comments=True)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=tree,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
