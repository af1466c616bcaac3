"""The questions that a live page asks of the recording behind it, and their answers as JSON has them."""

from __future__ import annotations

import os
from contextlib import suppress
from types import CodeType
from typing import Any, Protocol

import numpy as np

from ..core.errors import StateError, WengertError, fail
from .debugger import Debugger
from .document.stats import details, num
from .document.tensor_paths import paths_from
from .notebook import asked
from .recording.recording import Recording
from .recording.replayed import replayed
from .recording.spans import short_path

# What takes longer than a summary of a recorded array does.
SLOW = ("float64", "paths", "kernels", "break")


class Explored(Protocol):
    """An exploration, as far as questions go."""

    recording: Recording
    document: dict[str, Any]
    debugger: Debugger | None

    def run_again(self) -> None: ...


def is_slow(message: object) -> bool:
    """Return whether the answer may take seconds."""
    return isinstance(message, dict) and str(message.get("ask")) in SLOW


def answer(message: object, exploration: Explored) -> dict[str, Any] | None:
    """Return the answer to a page's question; None where it was none.

    `{id, node, gradient}` asks for the details of a recorded array, `{id, ask, node}` for a node's value and gradient
    in float64 ("float64") or the paths from it to the result ("paths"), `{id, ask: "kernels"}` for what the compiler
    makes of the run, `{id, ask: "break", node}` for the debugger at the line of a row of the document's spans.
    """
    rows = exploration.recording.rows
    if (question := asked(message, len(rows))) is not None:
        row, gradient = rows[question[1]], question[2]
        return {"id": question[0], "details": details(row.gradient if gradient else row.value)}
    if not isinstance(message, dict) or str(message.get("ask")) not in SLOW:
        return None
    number, at = message.get("id"), message.get("node", 0)
    count = len(exploration.document["spans"]["line0"]) if message["ask"] == "break" else len(rows)
    if any(not isinstance(n, int) or isinstance(n, bool) for n in (number, at)) or not 0 <= at < count:
        return None
    try:
        return {"id": number, "answer": _ANSWERS[message["ask"]](exploration, at)}
    except WengertError as e:
        return {"id": number, "answer": None, "error": str(e)}


# Places whose numbers in float64 a page by itself carries: those of its first errors.
CARRIED = 4


def carried(exploration: Explored) -> dict[str, Any]:
    """Return by rows, as words, what float64 makes of the places that the errors of a run name.

    A page without the program behind it can then show the difference there. Empty where the run cannot be repeated.
    """
    errors = [f["node"] for f in exploration.document["findings"] if f["severity"] == "error" and f["node"] >= 0]
    found: dict[str, Any] = {}
    for node in list(dict.fromkeys(errors))[:CARRIED]:
        with suppress(WengertError):
            if (told := _float64(exploration, node)) is not None:
                found[str(node)] = told
    return found


def _float64(exploration: Explored, node: int) -> dict[str, Any] | None:
    found = replayed(exploration.recording, node)
    if found is None:
        return None
    row = exploration.recording.rows[node]
    return {
        "value": details(found.value),
        "gradient": None if found.gradient is None else details(found.gradient),
        "valueError": _error(row.value, found.value),
        "gradientError": _error(row.gradient, found.gradient),
    }


def _error(recorded: Any, exact: Any) -> Any:
    """Return how far a recorded array is from the exact one, as a part of its size; None where they do not compare."""
    if (
        recorded is None
        or exact is None
        or isinstance(recorded, (tuple, list))
        or np.shape(recorded) != np.shape(exact)
    ):
        return None
    a, b = np.asarray(recorded).astype(np.complex128), np.asarray(exact).astype(np.complex128)
    good = np.isfinite(a) & np.isfinite(b)
    if not good.any():
        return None
    with np.errstate(all="ignore"):
        size = float(np.linalg.norm(b[good]))
        error = float(np.linalg.norm(a[good] - b[good]))
    return num(error / size if size else error)


def _paths(exploration: Explored, node: int) -> dict[str, Any] | None:
    return paths_from(exploration.recording, node)


def _kernels(exploration: Explored, _: int) -> dict[str, Any]:
    exploration.run_again()
    return {
        name: exploration.document[name] for name in ("parallel", "kernels", "native") if name in exploration.document
    }


def _break(exploration: Explored, span: int) -> dict[str, Any]:
    if exploration.debugger is None:
        fail(StateError, "this page was not served by a terminal", "wengert explore --live script.py is.")
    spans, files = exploration.document["spans"], exploration.document["files"]
    # Only a place that was recorded, of a program that the user has run.
    path, line = files[spans["file"][span]]["path"], spans["line0"][span]
    codes = [row.code for row in exploration.recording.rows if row.code is not None]
    names = {code.co_filename if isinstance(code, CodeType) else code.file for code in codes}
    whole = {short_path(name): name for name in names}
    exploration.debugger.start(os.path.abspath(whole.get(path, path)), line)
    return {"at": f"{path}:{line}"}


_ANSWERS = {"float64": _float64, "paths": _paths, "kernels": _kernels, "break": _break}
