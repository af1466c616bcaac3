"""Notebooks: the frame that a cell shows and a saved notebook keeps, and the widget's messages."""

from __future__ import annotations

import importlib.util
import json
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import GradientError, StateError
from wengert.explorer import Exploration, explore, notebook, page

BUILT = pytest.mark.skipif(
    importlib.util.find_spec("anywidget") is None, reason="anywidget is not installed: wengert[notebook]"
)


class Frames(HTMLParser):
    """The frames of a page, each as its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "iframe":
            self.found.append(dict(attrs))

    @classmethod
    def of(cls, text: str) -> list[dict[str, str | None]]:
        parser = cls()
        parser.feed(text)
        return parser.found


@pytest.fixture
def found() -> Exploration:
    return explore(lambda x: (wg.tanh(x) ** 2).sum(), np.linspace(-1, 1, 6).reshape(2, 3), compiled=False)


def test_a_cell_shows_a_sandboxed_frame(found: Exploration) -> None:
    (frame,) = Frames.of(found._repr_html_())
    # Scripts run, and nothing of the notebook is in their reach: no same origin, no navigation of what is around.
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["srcdoc"] == found.to_html()


def test_frames_have_the_height_that_was_asked_for(found: Exploration) -> None:
    assert 'height="480"' in found.show(height=480)._repr_html_()


def test_a_notebook_made_html_shows_the_frame(found: Exploration) -> None:
    """nbconvert keeps the frame, with the whole page inside: it opens offline."""
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    output = nbformat.v4.new_output("execute_result", {"text/html": found._repr_html_(), "text/plain": "x"})
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("found", outputs=[output])])
    body, _ = nbconvert.HTMLExporter().from_notebook_node(made)
    (frame,) = Frames.of(body)
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert frame["srcdoc"] == found.to_html()


@BUILT
def test_a_widget_answers_for_whole_tensors(found: Exploration) -> None:
    live = found.show(live=True, height=300)
    assert live.height == 300
    assert live.document == page.packed(found.document)
    sent: list[Any] = []
    live.send = sent.append
    live._handle_custom_msg({"id": 7, "node": 0, "gradient": False}, [])
    (answer,) = sent
    assert answer["id"] == 7
    assert answer["details"]["size"] == 6
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.parametrize(
    "message",
    [
        None,
        "details",
        {},
        {"id": 1, "node": 99, "gradient": False},
        {"id": 1, "node": -1, "gradient": False},
        {"id": 1, "node": True, "gradient": False},
        {"id": 1, "node": 0, "gradient": 0},
        {"id": "1", "node": 0, "gradient": False},
    ],
)
def test_a_message_that_asks_nothing_has_no_answer(message: object) -> None:
    assert notebook.asked(message, 3) is None


def test_a_widget_needs_anywidget(found: Exploration, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(notebook, "import_module", missing)
    with pytest.raises(StateError, match="anywidget"):
        found.show(live=True)


def test_a_tensor_shows_itself_as_a_cells_last_expression() -> None:
    w = wg.tensor(2.0, requires_grad=True)
    loss = (w * 3.0 - 5.0) ** 2
    found = loss.explore(compiled=False)
    (frame,) = Frames.of(found._repr_html_())
    assert "application/wengert-trace" in str(frame["srcdoc"])
    assert "w" in found.document["strings"]
    with pytest.raises(GradientError):
        wg.tensor(1.0).explore()
