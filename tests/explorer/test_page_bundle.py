"""The built page, and what the guides say of it.

A lesson is a small script, and the rest comes when it is asked for. The guides to explorer and playground say what is
there: rules and their severity, keys, tabs, experiments.
"""

from __future__ import annotations

import ast
import gzip
import re
from pathlib import Path

from wengert.explorer.page import EXPLORING, PLAYING, asset, parts
from wengert.explorer.playground import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explorer.md").read_text(encoding="utf-8")
SOURCE = ROOT / "explorer" / "src"
FINDINGS = ROOT / "src" / "wengert" / "explorer" / "findings"
SEVERITIES = ("error", "warning", "note")


def table(heading: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the first table with such a head."""
    found = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[- |]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines()]


def strings(node: ast.AST) -> set[str]:
    return {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_every_rule_is_told() -> None:
    """Rules are the strings with hyphens; severities are those of the calls that make them."""
    known: dict[str, set[str]] = {}
    names: set[str] = set()
    for path in sorted(FINDINGS.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names |= {s for s in strings(tree) if re.fullmatch(r"[a-z]+(-[a-z]+)+", s)}
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Finding":
                for rule in strings(call.args[0]) & names:
                    known.setdefault(rule, set()).update(strings(call.args[1]) & set(SEVERITIES))
    told = {rule.strip("`"): set(severity.split(", ")) for rule, severity, _ in table("rule")}
    assert set(told) == names
    assert {rule: told[rule] for rule in known} == known


def test_keys_are_the_pages() -> None:
    text = (SOURCE / "keys.ts").read_text(encoding="utf-8")
    assert table("key") == [list(pair) for pair in re.findall(r'shown: "([^"]+)", does: "([^"]+)"', text)]


def test_tabs_are_the_pages() -> None:
    text = (SOURCE / "panels" / "header.tsx").read_text(encoding="utf-8")
    labels = re.search(r"LABELS: Record<Tab, string> = \{(.*?)\}", text, re.DOTALL)
    assert labels is not None
    assert [row[0] for row in table("tab")] == [n for n in re.findall(r'"(\w+)"', labels[1]) if n != "Play"]


def test_experiments_are_those_of_the_playground() -> None:
    page = (ROOT / "docs" / "playground.md").read_text(encoding="utf-8")
    assert [row[0] for row in table("experiment", page)] == [run.title for run in EXPERIMENTS.values()]


def compressed(*names: str) -> int:
    return sum(len(gzip.compress(asset(name).encode(), 9)) for name in names)


def test_a_lesson_is_small() -> None:
    """Bytes, compressed, of what is read before a small graph is drawn: script and style together."""
    assert compressed("explorer.js", "explorer.css") < 60_000


def test_a_page_carries_what_it_can_ask_for() -> None:
    """Parts that the bundle and other parts name are there, and no file is in the package for nothing."""
    folder = ROOT / "src" / "wengert" / "explorer" / "static"
    assert {p.name for p in folder.iterdir()} == {"explorer.js", "explorer.css", "parts.json", *parts()}
    named = {
        name for file in ("explorer.js", *parts()) for name in re.findall(r'"(\w+\.js)","[0-9a-f]{12}"', asset(file))
    }
    assert named == {"about.js", "alone.js", "help.js", "later.js", "playground.js", "server.js", "watch.js"}
    assert not set(PLAYING) & set(parts(*EXPLORING)) - {"help.js"}
    assert not {"server.js", "watch.js"} & {*parts(*EXPLORING), *parts(*PLAYING)}
