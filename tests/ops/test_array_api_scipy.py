"""Code that knows nothing of Wengert runs on tensors through the Array API: SciPy's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]


def test_scipy_takes_tensors() -> None:
    scipy = pytest.importorskip("scipy")
    if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 16):
        pytest.skip("scipy.stats.quantile is newer")
    # SciPy reads the switch when it is imported: in a process of its own.
    path = os.pathsep.join([str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(HERE / "helpers" / "array_api_scipy.py")],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "functions agree" in done.stdout
