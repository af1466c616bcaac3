"""PyTorch's Python API: `import wengert.torch as torch` lets a program written for PyTorch run on Wengert.

Names mean what they mean in PyTorch: `x.max(dim)` gives values and indices, `var` divides by n - 1, `x.size()` is the
shape. Tensors of this namespace stay of it through every operation; they are Wengert's in all else, so graphs,
transforms, `torch.compile` (which is :func:`wengert.jit`) and explanations work on them, and both namespaces mix. The
page on PyTorch's names says of each whether it works, differs or is refused.

>>> import wengert.torch as torch
>>> x = torch.tensor([[1.0, 4.0], [3.0, 2.0]], requires_grad=True)
>>> values, indices = x.max(dim=1)
>>> values.sum().backward()
>>> x.grad
tensor([[0., 1.],
        [1., 0.]])
"""

from __future__ import annotations

from types import ModuleType as _ModuleType
from typing import Any as _Any

import wengert as _wengert

from ..core.dtypes import RECORDS as _RECORDS
from ..core.ops.declare import HOMES as _HOMES
from ..core.ops.declare import PUBLIC as _PUBLIC
from ..core.state.locks import imported as _imported
from . import absent as _absent
from . import functions as _functions
from . import indices as _indices
from . import serialization as _serialization
from . import sparse as _sparse
from .compat import NAMES as _NAMES
from .dtypes import by_name as _by_name
from .namespace import FUNCTIONS as _FUNCTIONS
from .tensor import Size, Tensor, device

# What is declared with the ops under PyTorch's names alone: `permute`, `clone`, `index_select` and the like.
globals().update({name: _PUBLIC[name] for name, home in _HOMES.items() if home == "torch"})
globals().update(_FUNCTIONS)
globals().update(_NAMES)
_MODULES = frozenset(
    {
        "accelerator",
        "amp",
        "autograd",
        "backends",
        "compiler",
        "cpu",
        "cuda",
        "distributed",
        "distributions",
        "fft",
        "func",
        "functional",
        "fx",
        "hub",
        "jit",
        "library",
        "linalg",
        "multiprocessing",
        "nested",
        "nn",
        "onnx",
        "optim",
        "profiler",
        "random",
        "serialization",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "types",
        "utils",
        "version",
    }
)


# Modules that programs name and that no list of names shows.
_INNER = frozenset({"_C", "_functorch", "_ops", "_utils", "functorch"})
# What `wengert` has as PyTorch means it.
_SHARED = frozenset(_wengert.__all__) & _absent.recorded("").keys()
_absent.install()


def __getattr__(name: str) -> _Any:
    """Return a submodule, a name that `wengert` shares with PyTorch, or one that nothing stands for."""
    if name in _MODULES or name in _INNER:
        try:
            return _imported(f".{name}", __package__)
        except ModuleNotFoundError as e:
            if e.name != f"{__package__}.{name}":
                raise
    if name == "ops":  # and not the operations of Wengert
        return _imported("._ops", __package__).ops
    if name in _RECORDS and _RECORDS[name].storage is not None:  # its package is imported when it is asked for
        return _by_name(name)
    if name in _SHARED:
        return getattr(_wengert, name)
    if name.endswith("_") and name in _absent.recorded("") and hasattr(Tensor, name):  # torch.relu_(x)
        return getattr(Tensor, name)
    return _absent.found("", name)


def __dir__() -> list[str]:
    return sorted(__all__)


_OWN = {name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)}
_OWN -= {"annotations"}
__all__ = sorted(_OWN | _SHARED | _MODULES)
