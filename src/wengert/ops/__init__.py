"""The op table's entries, by family. Importing this package declares them all."""

from . import fourier, numpy_functions, numpy_protocol  # noqa: F401
from .contract import einsum, products  # noqa: F401
from .formulas import elementwise as elementwise
from .formulas import reduction as reduction
from .index import gather, indexing, inplace, sort  # noqa: F401
from .linalg import determinants, factor, lu, solve, spectral  # noqa: F401
from .linalg import functions as _functions_of_matrices  # noqa: F401
from .neural import activations, attention, composites, convolve, gates, losses, normalization, pool  # noqa: F401
from .pointwise import arithmetic, complex_views, gradient_helpers, logic, selection, trigonometry, xlogy  # noqa: F401
from .random import functions as _random_functions  # noqa: F401
from .random import rejection  # noqa: F401
from .reduce import cumulative, extremes, moments, norms, sums, truth  # noqa: F401
from .special import bessel, gamma, incomplete_beta, incomplete_gamma, normal, quotients, zeta  # noqa: F401
from .structure import assemble, axes, creation, diagonals, dtypes, extend, shapes  # noqa: F401

__all__ = ["elementwise", "reduction"]


def __dir__() -> list[str]:
    return sorted(__all__)
