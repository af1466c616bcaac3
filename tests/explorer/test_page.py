"""The page as a file: whole, strict in what it lets happen, the same every time."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import wengert as wg
from wengert.explorer import Exploration, explore
from wengert.explorer.document.stats import num
from wengert.explorer.page import EXPLORING, asset, packed, parts


@pytest.fixture
def found() -> Exploration:
    return explore(lambda x: wg.tanh(x) * x, 0.5, compiled=False)


def policy(text: str) -> dict[str, list[str]]:
    given = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert given is not None
    return {rule.split()[0]: rule.split()[1:] for rule in unescape(given[1]).split(";")}


def test_the_page_is_saved_whole(found: Exploration, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    found.save(file)
    text = file.read_text(encoding="utf-8")
    assert text == found.to_html()
    carried = re.search(r'<script type="application/wengert-trace">([^<]*)</script>', text)
    assert carried is not None
    assert json.loads(gzip.decompress(base64.b64decode(carried[1]))) == found.document


def test_nothing_is_asked_of_elsewhere(found: Exploration) -> None:
    text = found.to_html()
    outside = asset("explorer.js") + asset("explorer.css")
    markup = text.replace(asset("explorer.js").replace("</script", "<\\/script"), "").replace(asset("explorer.css"), "")
    assert re.search(r"""(?:src|href)\s*=|url\(|@import""", markup) is None
    assert not re.search(r"@import|url\(\s*['\"]?(?:https?:)?//", outside)


def test_the_policy_names_the_script_and_its_parts(found: Exploration) -> None:
    text = found.to_html()
    rules = policy(text)
    script = re.search(r'<script type="module">(.*)</script>', text, re.S)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert rules["default-src"] == ["'none'"]
    later = [base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode() for name in parts(*EXPLORING)]
    assert rules["script-src"] == [f"'sha256-{known}'" for known in (digest, *later)]
    assert "connect-src" not in rules


def test_a_page_is_the_same_every_time(found: Exploration) -> None:
    assert found.to_html() == found.to_html()
    assert packed(found.document) == packed(dict(found.document))


def test_names_cannot_leave_their_place() -> None:
    """What a program calls things is text: no title and no name ends an element."""

    def sneaky(x: Any) -> Any:
        return x * x

    sneaky.__name__ = "</title><script>alert(1)</script>"
    text = explore(sneaky, 1.0, compiled=False).to_html()
    assert "<script>alert" not in text
    assert text.count("</title>") == 1


@pytest.mark.parametrize(
    ("value", "written"), [(1.5, 1.5), (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")]
)
def test_numbers_that_json_lacks_travel_as_words(value: float, written: float | str) -> None:
    assert num(value) == written
