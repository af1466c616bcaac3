"""Settings for all tests."""

import os

# Some tests compare bits between calls, which kernels that take over in between would change by a rounding.
# What kernels compute outside `wg.jit` is tested in native/test_eager_kernels.py.
os.environ.setdefault("WENGERT_EAGER_KERNELS", "0")
