"""Wengert: computational graphs that you can see, question and differentiate.

>>> import wengert as wg
>>> x = wg.tensor(2.0, requires_grad=True)
>>> y = wg.sin(x) * x
>>> y.backward()
>>> x.grad
tensor(0.077)
"""

from __future__ import annotations

from importlib.machinery import PathFinder as _PathFinder
from typing import Any as _Any

from . import ops
from .core import dtypes as _dtypes
from .core import tree
from .core.errors import (
    DataError,
    DTypeError,
    FeedError,
    GradientError,
    GraphError,
    RangeError,
    ShapeError,
    StateError,
    TraceError,
    WengertError,
    WriteError,
)
from .core.errors import install_warning_filter as _install_warning_filter
from .core.graph.graph import Graph
from .core.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .core.node import Node
from .core.ops import declare as _declare
from .core.ops.autocast import autocast
from .core.ops.op import DEFERRED as _DEFERRED
from .core.ops.op import Op
from .core.spec import (
    Spec,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.state import locks as _locks
from .core.tensor import Tensor, asarray, tensor
from .execute import composites as _composites  # noqa: F401 (registers what compiles them)
from .execute import interpreter as _interpreter  # noqa: F401 (makes graphs callable)
from .execute import placement as _placement  # noqa: F401 (registers other devices)
from .ops.structure.dtypes import CONSTANTS as _CONSTANTS
from .transforms.derivatives.backward import backward as _backward
from .transforms.derivatives.functional import grad, value_and_grad, vjp
from .transforms.tracing.trace import graph, spec
from .version import __version__

# The op modules declare their public functions and tensor methods; here they get their places.
for _name, _method in _declare.METHODS.items():
    setattr(Tensor, _name, _method)
Tensor.backward = _backward
_FUNCTIONS = {name: function for name, function in _declare.PUBLIC.items() if name not in _declare.HOMES}
globals().update(_FUNCTIONS)
globals().update(_CONSTANTS)
# The Array API's name for the dtype; it shadows the builtin only as an attribute of the module.
globals()["bool"] = _dtypes.made("bool")

_install_warning_filter()

# Submodules that are loaded when they are first used.
_LAZY_MODULES = frozenset(
    {
        "autograd",
        "data",
        "debug",
        "deploy",
        "distribute",
        "distributions",
        "explain",
        "fft",
        "interop",
        "linalg",
        "nn",
        "numpy",
        "optim",
        "passes",
        "random",
        "solve",
        "sparse",
        "special",
        "storage",
        "symbolic",
        "torch",
        "train",
        "typing",
    }
)
# Names that are loaded when they are first used, with the modules that have them.
_LAZY_NAMES = {
    "Placeholder": ".execute.static",
    "autobatch": ".execute.batching.block",
    "batching": ".execute.batching.block",
    "callback": ".transforms.tracing.host",
    "cell": ".execute.batching.cells",
    "check_grads": ".explain.gradients.gradcheck",
    "checkpoint": ".transforms.checkpoint.checkpoint",
    "checkpoint_policies": ".transforms.checkpoint.checkpoint",
    "checkpoint_sequential": ".transforms.checkpoint.checkpoint",
    "cond": ".transforms.control",
    "custom_jvp": ".transforms.custom.rules",
    "custom_vjp": ".transforms.custom.rules",
    "elimination_cost": ".transforms.jacobians.elimination",
    "engine": ".execute.engines",
    "explore": ".explorer",
    "export": ".deploy",
    "fori_loop": ".transforms.control",
    "function": ".execute.static",
    "gauss_newton_product": ".transforms.jacobians.jacobian",
    "get_num_threads": ".execute.native.run.threads",
    "hessian": ".transforms.jacobians.jacobian",
    "hvp": ".transforms.jacobians.jacobian",
    "jacobian": ".transforms.jacobians.jacobian",
    "jit": ".execute.jit",
    "jvp": ".transforms.derivatives.tangents",
    "laplacian": ".transforms.jacobians.jacobian",
    "linear_transpose": ".transforms.derivatives.tangents",
    "linearize": ".transforms.derivatives.tangents",
    "map": ".transforms.control",
    "placeholder": ".execute.static",
    "scan": ".transforms.control",
    "set_eager_kernels": ".core.ops.kernels",
    "set_num_threads": ".execute.native.run.threads",
    "summary": ".nn.summary",
    "switch": ".transforms.control",
    "taylor": ".transforms.taylor",
    "vmap": ".transforms.batch.vmap",
    "while_loop": ".transforms.control",
}


# Ops whose modules are loaded when they are first used.
_DEFERRED.update(dict.fromkeys(("partial_scan", "scan", "switch", "while_loop"), "wengert.transforms.control"))
_DEFERRED.update(
    dict.fromkeys(
        (
            "all_gather",
            "all_reduce",
            "all_reduce_max",
            "all_to_all",
            "axis_index",
            "broadcast_from",
            "own_part",
            "pcast",
            "ppermute",
            "reduce_scatter",
        ),
        "wengert.ops.collective.definitions",
    )
)

# Methods of Graph by modules that are loaded when first asked for; each gives Graph the method.
_LAZY_METHODS = {
    "run": ".execute.scheduler",
    "save": ".explain.pictures.paper",
    "to_dot": ".explain.pictures.dot",
    "to_svg": ".explain.pictures.draw",
    "_repr_svg_": ".explain.pictures.draw",
}


def _lazy_method(name: str, module: str) -> _Any:
    def method(self: Graph, *args: _Any, **kwargs: _Any) -> _Any:
        _locks.imported(module, __name__)
        return getattr(self, name)(*args, **kwargs)

    return method


def _explore(tensor: Tensor, compiled: _Any = None) -> _Any:
    """Return the recording of what computed this tensor, and of its backward pass: see :func:`wengert.explore`.

    `compiled` says whether it is run again compiled, for the view of kernels. As the last expression of a notebook's
    cell it shows itself.

    Raises GradientError for a tensor that nothing was recorded for.

    >>> import wengert as wg
    >>> x = wg.tensor(3.0, requires_grad=True)
    >>> print((x * x).explore())
    result: 3 nodes, 1 operations, 1 steps back
    """
    return _locks.imported(".explorer", __name__).explore(tensor, compiled=compiled)


Tensor.explore = _explore

for _name, _module in _LAZY_METHODS.items():
    setattr(Graph, _name, _lazy_method(_name, _module))


def __getattr__(name: str) -> _Any:
    """Submodules and names that are loaded when first used."""
    if name in _FOREIGN:
        value: _Any = _dtypes.made(name)
    elif name in _LAZY_MODULES:
        value = _locks.imported(f".{name}", __name__)
    elif name in _LAZY_NAMES:
        value = getattr(_locks.imported(_LAZY_NAMES[name], __name__), name)
    else:
        # A name that PyTorch or an older text has here may stand in a submodule: the error says which.
        home = _declare.HOMES.get(name)
        where = f"; it is wengert.{home}.{name}" if home else ""
        raise AttributeError(f"module 'wengert' has no attribute {name!r}{where}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "DTypeError",
    "DataError",
    "FeedError",
    "GradientError",
    "Graph",
    "GraphError",
    "Node",
    "Op",
    "RangeError",
    "ShapeError",
    "Spec",
    "StateError",
    "Tensor",
    "TraceError",
    "WengertError",
    "WriteError",
    "__version__",
    "asarray",
    "autocast",
    "bool",
    "complex64",
    "complex128",
    "enable_grad",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "grad",
    "graph",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "no_grad",
    "ops",
    "set_default_dtype",
    "set_grad_enabled",
    "spec",
    "tensor",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    *_CONSTANTS,
    *_FUNCTIONS,
    *_LAZY_MODULES,
    *_LAZY_NAMES,
]
# The dtypes of packages that are imported when they are asked for.
_FOREIGN = frozenset(name for name, record in _dtypes.RECORDS.items() if record.package != "numpy")
__all__ += [name for name in sorted(_FOREIGN) if _PathFinder.find_spec(_dtypes.RECORDS[name].package) is not None]
