"""Documents of recorded runs, each made once for all processes of a test run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["WENGERT_TESTS_DOCUMENTS"])


def recorded(name: str, make: Callable[[], Any]) -> dict[str, Any]:
    """Return a document as a reader of its file has it; the first that asks for it makes it."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        # Two that begin at once write the same; neither reads half of it.
        own = path.with_suffix(f".{os.getpid()}")
        own.write_text(json.dumps(make(), allow_nan=False), encoding="utf-8")
        own.replace(path)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
