"""A file that is open on the local server: its inputs can be changed on the page, and the model is run again."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any

from ...core.errors import WengertError, first_line
from ...core.state.observer import aside
from ...interop.onnx.inputs import Wanted
from ..api import Exploration
from ..server import Answers, Exploring, Message, Post
from .files import recording_of

_MOST_TEXT = 1 << 16


class Opened(Exploring):
    """The explorer of a file, which runs a model again on what the page asks for.

    The page asks by `{id, ask: "inputs", seed, sizes, inputs}`: inputs are texts that say how they are made, or JSON.
    The answer comes when the server's document is that of the new run.
    """

    def __init__(self, path: str | os.PathLike[str], wanted: Wanted, structure: bool = False) -> None:
        self.path, self.structure = path, structure
        self.wanted = wanted
        super().__init__(self._explored(wanted))
        self.document["meta"]["live"] = True

    def _explored(self, wanted: Wanted) -> Exploration:
        with aside():
            return Exploration(recording_of(self.path, wanted, self.structure))

    def run_again(self, wanted: Wanted) -> None:
        """Run the model on other inputs. Raises OnnxError for those that it does not take."""
        found = self._explored(wanted)
        self.wanted, self.exploration, self.document = wanted, found, found.document
        self.document["meta"]["live"] = True

    def open(self, post: Post) -> _Conversation:
        return _Conversation(self, post)


class _Conversation(Answers):
    def __init__(self, opened: Opened, post: Post) -> None:
        super().__init__(opened.exploration, post)
        self.opened = opened

    def receive(self, message: object) -> None:
        found = asked(message)
        if found is None:
            super().receive(message)
        else:
            threading.Thread(target=self._run, args=found, daemon=True).start()

    def _run(self, number: int, changes: dict[str, Any]) -> None:
        before = self.opened.wanted
        texts = {n: v for n, v in changes["inputs"].items() if v}
        # What was given as arrays stays, unless the page says something else.
        arrays = {n: v for n, v in before.kwargs.items() if not isinstance(v, str) and n not in texts}
        wanted = replace(before, kwargs={**arrays, **texts}, sizes=changes["sizes"], seed=changes["seed"])
        with self._one:
            try:
                self.opened.run_again(wanted)
            except WengertError as e:
                said = f"{first_line(e)}\n{str(e).partition(chr(10))[2]}"
                self.post(Message({"type": "answer", "id": number, "answer": None, "error": said}))
                return
        self.post(Message({"type": "answer", "id": number, "answer": True}))


def asked(message: object) -> tuple[int, dict[str, Any]] | None:
    """Return a question's number and what it asks for; None where it is none of this kind."""
    if not isinstance(message, dict) or message.get("ask") != "inputs" or type(message.get("id")) is not int:
        return None
    seed, sizes, inputs = message.get("seed"), message.get("sizes"), message.get("inputs")
    if type(seed) is not int or not isinstance(sizes, dict) or not isinstance(inputs, dict):
        return None
    if any(type(n) is not int for n in sizes.values()) or any(
        not isinstance(v, str) or len(v) > _MOST_TEXT for v in inputs.values()
    ):
        return None
    return message["id"], {"seed": seed, "sizes": sizes, "inputs": inputs}
