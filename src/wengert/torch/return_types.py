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
__all__ = sorted(
    name for name in globals() if not name.startswith("_") and name not in ("namedtuple", "annotations", "Any")
)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"no function of wengert.torch gives a {name!r}")
