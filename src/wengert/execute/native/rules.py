"""All lowerings: importing this module fills the table of :mod:`wengert.execute.native.plan.lowering`."""

from __future__ import annotations

from . import control  # noqa: F401
from .kernels import copies, gather, linalg, random, scatter, views  # noqa: F401
from .kernels.along_axis import cumulative, positions, sorting  # noqa: F401
from .kernels.attention import lowerings as attention  # noqa: F401
from .kernels.conv import lowerings as convolutions  # noqa: F401
from .kernels.conv import pooling  # noqa: F401
from .kernels.gemm import contractions, products  # noqa: F401
