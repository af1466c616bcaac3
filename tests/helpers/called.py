"""A plugin for pytest that writes down the modules of the package whose functions a run called (`-p called`)."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = str(Path(__file__).resolve().parents[2] / "src" / "wengert") + os.sep
_seen: set[CodeType] = set()


def _profile(frame: FrameType, event: str, arg: Any) -> None:
    if event == "call":
        _seen.add(frame.f_code)


def pytest_runtest_logstart() -> None:
    """Begin anew with each test: one may have used Python's profiler itself."""
    threading.setprofile(_profile)
    sys.setprofile(_profile)


def pytest_unconfigure() -> None:
    """Write the modules' paths, one a line, to the file that CALLED_MODULES names."""
    sys.setprofile(None)
    threading.setprofile(None)
    codes = [c for c in _seen if c.co_filename.startswith(PACKAGE) and c.co_name not in ("<module>", "__dir__")]
    paths = sorted({c.co_filename.removeprefix(PACKAGE) for c in codes})
    Path(os.environ["CALLED_MODULES"]).write_text("\n".join(paths))
