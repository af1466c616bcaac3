"""The explorer in a notebook: a frame that needs nothing, or a widget with the kernel behind it.

The frame holds the whole page (`srcdoc`, sandboxed: scripts run, the notebook is out of their reach), so a notebook
that was saved, or turned into HTML, still shows it. The widget is anywidget's, which JupyterLab, Notebook, VS Code,
Colab and marimo speak; it answers for whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from ..core.errors import StateError, fail
from .page import ANSWERED, asset, packed, page, parts

HEIGHT = 640


def frame(document: dict[str, Any], height: int = HEIGHT) -> str:
    """Return the page in an HTML frame, `height` pixels high."""
    text = escape(page(document), quote=True)
    return (
        f'<iframe srcdoc="{text}" sandbox="allow-scripts allow-downloads" width="100%" height="{height}" '
        'style="border: 1px solid #8886; border-radius: 8px" title="Wengert explorer"></iframe>'
    )


class Frame:
    """A page in a frame of a chosen height, for a notebook cell to show."""

    def __init__(self, document: dict[str, Any], height: int) -> None:
        self.document = document
        self.height = height

    def _repr_html_(self) -> str:
        return frame(self.document, self.height)


def widget(document: dict[str, Any], answer: Callable[[Any], Any], height: int = HEIGHT) -> Any:
    """Return a live widget for a document; `answer` gives what a message of its page is answered, None for nothing.

    Raises StateError where anywidget is not installed.
    """
    try:
        anywidget: Any = import_module("anywidget")
        traitlets: Any = import_module("traitlets")
    except ImportError:
        fail(
            StateError, "a live explorer without anywidget", "pip install 'wengert[notebook]', or leave live=True out."
        )
    text = traitlets.Unicode(packed(document)).tag(sync=True)
    space = {
        # A notebook gives the page no address from which it could ask for its parts: they stand behind it.
        "_esm": "\n".join(map(asset, ("explorer.js", *parts(*ANSWERED)))),
        "_css": asset("explorer.css"),
        "document": text,
        "height": traitlets.Int(height).tag(sync=True),
    }
    made = type("ExplorerWidget", (anywidget.AnyWidget,), space)()
    made.on_msg(_answering(answer))
    return made


def _answering(answer: Callable[[Any], Any]) -> Callable[[Any, Any, Any], None]:
    """Return the function that sends the answers to a page's questions."""

    def reply(view: Any, message: Any, buffers: Any) -> None:
        found = answer(message)
        if found is not None:
            view.send(found)

    return reply


def asked(message: Any, rows: int) -> tuple[int, int, bool] | None:
    """Return a page's question, `{id, node, gradient}`, checked; None where it is none."""
    if not isinstance(message, dict):
        return None
    number, node, gradient = (message.get(key) for key in ("id", "node", "gradient"))
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (number, node))
    if not whole or not isinstance(gradient, bool) or not 0 <= node < rows:  # type: ignore[operator]
        return None
    return number, node, gradient  # type: ignore[return-value]
