"""The results of functions that give several tensors: tuples whose parts have PyTorch's names.

>>> import wengert.torch as torch
>>> torch.tensor([3.0, 1.0]).min(dim=0)
torch.return_types.min(
values=tensor(1.),
indices=tensor(1))
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _shown(self: Any) -> str:
    parts = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"torch.return_types.{type(self).__name__}(\n{parts})"


def _declare(fields: str, names: str) -> None:
    for name in names.split():
        made: Any = namedtuple(name, fields, module=__name__)  # type: ignore[misc]
        made.__repr__ = _shown  # type: ignore[method-assign]
        made.__doc__ = f"The result of `{name}`: {fields.replace(' ', ', ')}."
        globals()[name] = made


_declare("values indices", "max min median nanmedian mode kthvalue sort topk cummax cummin")
_declare("min max", "aminmax")
_declare("mantissa exponent", "frexp")
_declare("hist bin_edges", "histogram histogramdd")
_declare("eigenvalues eigenvectors", "linalg_eig linalg_eigh")
_declare("U S Vh", "linalg_svd")
_declare("U S V", "svd")
_declare("Q R", "linalg_qr qr")
_declare("sign logabsdet", "linalg_slogdet slogdet")
_declare("L info", "linalg_cholesky_ex")
_declare("inverse info", "linalg_inv_ex")
_declare("result info", "linalg_solve_ex")
_declare("P L U", "linalg_lu lu_unpack")
_declare("LU pivots", "linalg_lu_factor")
_declare("LU pivots info", "linalg_lu_factor_ex")
_declare("solution residuals rank singular_values", "linalg_lstsq")
_declare("solution cloned_coefficient", "triangular_solve")
_declare("a tau", "geqrf")
__all__ = sorted(
    name for name in globals() if not name.startswith("_") and name not in ("namedtuple", "annotations", "Any")
)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"no function of wengert.torch gives a {name!r}")
