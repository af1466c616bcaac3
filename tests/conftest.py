"""Settings for all tests."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

# Before the package is imported. Some tests compare bits between calls, which kernels that take over in between would
# change by a rounding.
# What kernels compute outside `wg.jit` is tested in execute/native/test_eager_kernels.py.
os.environ.setdefault("WENGERT_EAGER_KERNELS", "0")

# Compiled code is kept where only this run's processes look (workers inherit the variable): nothing of the user's is
# read, nothing is left behind.
_OWN = "WENGERT_CACHE_DIR" not in os.environ
os.environ.setdefault("WENGERT_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"wengert-tests-{os.getpid()}"))

import wengert as wg  # noqa: E402
from wengert.core.ops import kernels  # noqa: E402

# What a program can set for the whole process, as it is at first.
SETTINGS = kernels.kernels, wg.get_num_threads(), wg.get_default_dtype()


# What to run where all of it would take too long, and the question is whether it works there at all: with other
# versions of what Wengert needs, on another machine. `pytest -m fast` takes a quarter of a minute.
FAST = (
    "execute/native/test_beside_numba",
    "execute/native/test_cache",
    "execute/jit/test_jit",
    "execute/jit/test_jit_state",
    "execute/native/test_linear_algebra",
    "execute/native/test_runtime",
    "execute/native/test_small_models",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = os.path.dirname(__file__)
    files = {os.path.join(here, *name.split("/")) + ".py" for name in FAST}
    for item in items:
        if str(item.path) in files:
            item.add_marker("fast")


def pytest_collection_finish() -> None:
    """Tens of thousands of collected tests live to the end: no collection of garbage has to look through them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Settings of the process end with the test that made them: examples in the docs make some, without a word."""
    yield
    kernels.kernels, threads, dtype = SETTINGS
    if wg.get_num_threads() != threads:
        wg.set_num_threads(threads)
    if wg.get_default_dtype() != dtype:
        wg.set_default_dtype(dtype)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _OWN and not hasattr(session.config, "workerinput"):
        shutil.rmtree(os.environ["WENGERT_CACHE_DIR"], ignore_errors=True)
