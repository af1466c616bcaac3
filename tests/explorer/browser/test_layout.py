"""Graphs of many programs drawn as lessons: no text lies on another, in the whole of the picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browserchecks import opened
from wengert.explorer import Exploration, record_script
from wengert.explorer.page import packed, page

SCRIPTS = sorted((Path(__file__).parent.parent / "scripts").glob("*/*.py"))
SMALL = 150


def lessons(every: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for script in SCRIPTS[::every]:
        found = Exploration(record_script(script), compiled=False)
        if 0 < len(found.recording.rows) <= SMALL:
            yield script.stem, dict(found.document)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_chips_cover_neither_nodes_nor_one_another(browser: Browser, tmp_path: Path, every: int) -> None:
    wrong: dict[str, list[str]] = {}
    told = list(lessons(every))
    assert len(told) >= 30 // every
    file = tmp_path / "lesson.html"
    file.write_text(page(told[0][1]), encoding="utf-8")
    script = file.read_text(encoding="utf-8")
    before, rest = script.split('<script type="application/wengert-trace">')
    carried, after = rest.split("</script>", 1)
    for name, document in told:
        file.write_text(
            f'{before}<script type="application/wengert-trace">{packed(document)}</script>{after}', encoding="utf-8"
        )
        with opened(browser, file, "tab=graph") as (shown, _):
            found = shown.evaluate("() => window.probe.canvasOverlaps()")
            if found:
                wrong[name] = found
    assert carried
    assert wrong == {}
