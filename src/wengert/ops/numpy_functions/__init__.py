"""NumPy's functions for tensors, by NumPy's arguments, where Wengert has none of the same meaning by another name."""

from . import arrays, elementwise, factorizations, pieces, series, statistics  # noqa: F401 (they note what they have)
