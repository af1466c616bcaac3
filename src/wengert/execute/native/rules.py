"""All lowerings: importing this module fills the table of :mod:`wengert.execute.native.lowering`."""

from __future__ import annotations

from . import (  # noqa: F401
    attention,
    contractions,
    control,
    conv,
    cumulative,
    gather,
    linear_algebra,
    moves,
    pooling,
    positions,
    products,
    random_numbers,
    sorting,
    views,
)
