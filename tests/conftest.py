"""Settings for all tests."""

import os
import shutil
import tempfile

import pytest

# Some tests compare bits between calls, which kernels that take over in between would change by a rounding.
# What kernels compute outside `wg.jit` is tested in native/test_eager_kernels.py.
os.environ.setdefault("WENGERT_EAGER_KERNELS", "0")

# Compiled code is kept where only this run's processes look (workers inherit the variable): nothing of the user's is
# read, nothing is left behind.
_OWN = "WENGERT_CACHE_DIR" not in os.environ
os.environ.setdefault("WENGERT_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"wengert-tests-{os.getpid()}"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _OWN and not hasattr(session.config, "workerinput"):
        shutil.rmtree(os.environ["WENGERT_CACHE_DIR"], ignore_errors=True)
