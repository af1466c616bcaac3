"""Wengert: computational graphs that you can see, question and differentiate.

>>> import wengert as wg
>>> x = wg.tensor(2.0, requires_grad=True)
>>> y = wg.sin(x) * x
>>> y.backward()
>>> x.grad
tensor(0.077)
"""

from __future__ import annotations

import importlib
from typing import Any

from . import ops
from .core import spec as _spec
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
    WengertError,
    WriteError,
    install_traceback_filter,
    install_warning_filter,
)
from .core.graph.graph import Graph
from .core.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .core.node import Node
from .core.ops.declare import METHODS, PUBLIC
from .core.ops.op import DEFERRED, Op
from .core.spec import (
    Spec,
    bool_,
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
from .core.tensor import Tensor, asarray, tensor
from .execute import interpreter as _interpreter  # noqa: F401 (makes graphs callable)
from .ops.structure.dtypes import CONSTANTS
from .transforms.derivatives.backward import backward
from .transforms.derivatives.functional import grad, value_and_grad, vjp
from .transforms.tracing.trace import graph, spec
from .version import __version__

# The op modules declare their public functions and tensor methods; here they get their places.
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
Tensor.backward = backward
globals().update(PUBLIC)
globals().update(CONSTANTS)
# The Array API's name for the dtype; it shadows the builtin only as an attribute of the module.
globals()["bool"] = bool_
# PyTorch's names, likewise.
globals().update(half=float16, float=float32, double=float64, short=int16, int=int32, long=int64)

install_traceback_filter()
install_warning_filter()

_LAZY_MODULES = frozenset(
    {
        "autograd",
        "nn",
        "optim",
        "data",
        "train",
        "linalg",
        "random",
        "explain",
        "interop",
        "special",
        "distributions",
        "fft",
        "passes",
        "symbolic",
        "solve",
        "debug",
    }
)
_LAZY_NAMES = {
    "Placeholder": ".execute.static",
    "explore": ".explorer",
    "checkpoint": ".transforms.checkpoint.checkpoint",
    "checkpoint_policies": ".transforms.checkpoint.checkpoint",
    "checkpoint_sequential": ".transforms.checkpoint.checkpoint",
    "custom_jvp": ".transforms.custom.rules",
    "custom_vjp": ".transforms.custom.rules",
    "function": ".execute.static",
    "get_num_threads": ".execute.native.run.threads",
    "callback": ".transforms.tracing.host",
    "jit": ".execute.jit",
    "jvp": ".transforms.derivatives.tangents",
    "linear_transpose": ".transforms.derivatives.tangents",
    "linearize": ".transforms.derivatives.tangents",
    "cond": ".transforms.control",
    "fori_loop": ".transforms.control",
    "map": ".transforms.control",
    "scan": ".transforms.control",
    "switch": ".transforms.control",
    "while_loop": ".transforms.control",
    "gauss_newton_product": ".transforms.jacobians.jacobian",
    "hessian": ".transforms.jacobians.jacobian",
    "hvp": ".transforms.jacobians.jacobian",
    "jacobian": ".transforms.jacobians.jacobian",
    "laplacian": ".transforms.jacobians.jacobian",
    "elimination_cost": ".transforms.jacobians.elimination",
    "hessian_sparsity": ".transforms.jacobians.sparsity",
    "sparse_hessian": ".transforms.jacobians.sparse",
    "sparse_jacobian": ".transforms.jacobians.sparse",
    "sparsity": ".transforms.jacobians.sparsity",
    "summary": ".nn.summary",
    "vmap": ".transforms.batch.vmap",
    "placeholder": ".execute.static",
    "set_eager_kernels": ".core.ops.kernels",
    "set_num_threads": ".execute.native.run.threads",
    "taylor": ".transforms.taylor",
    "check_grads": ".explain.gradients.gradcheck",
}


# Ops whose modules are loaded when they are first used.
DEFERRED.update(dict.fromkeys(("partial_scan", "scan", "switch", "while_loop"), "wengert.transforms.control"))

# What graphs can do by modules that are loaded when it is first asked for; each gives Graph the method.
_LAZY_METHODS = {
    "run": ".execute.scheduler",
    "to_dot": ".explain.pictures.dot",
    "to_svg": ".explain.pictures.draw",
    "_repr_svg_": ".explain.pictures.draw",
}


def _lazy_method(name: str, module: str) -> Any:
    def method(self: Graph, *args: Any, **kwargs: Any) -> Any:
        importlib.import_module(module, __name__)
        return getattr(self, name)(*args, **kwargs)

    return method


for _name, _module in _LAZY_METHODS.items():
    setattr(Graph, _name, _lazy_method(_name, _module))


def __getattr__(name: str) -> Any:
    """Submodules and names that are loaded when first used."""
    if name == "bfloat16":
        value: Any = _spec.bfloat16()
    elif name in _LAZY_MODULES:
        value = importlib.import_module(f".{name}", __name__)
    elif name in _LAZY_NAMES:
        value = getattr(importlib.import_module(_LAZY_NAMES[name], __name__), name)
    else:
        raise AttributeError(f"module 'wengert' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({n for n in globals() if not n.startswith("_")} | _LAZY_MODULES | set(_LAZY_NAMES) | {"bfloat16"})


__all__ = [
    "DTypeError",
    "DataError",
    "FeedError",
    "GradientError",
    "Graph",
    "GraphError",
    "Node",
    "Op",
    "Placeholder",
    "RangeError",
    "ShapeError",
    "Spec",
    "StateError",
    "Tensor",
    "WengertError",
    "WriteError",
    "__version__",
    "asarray",
    "autograd",
    "backward",
    "bool_",
    "checkpoint",
    "checkpoint_policies",
    "checkpoint_sequential",
    "complex64",
    "complex128",
    "custom_jvp",
    "custom_vjp",
    "enable_grad",
    "explore",
    "float16",
    "float32",
    "float64",
    "function",
    "get_num_threads",
    "grad",
    "graph",
    "int8",
    "int16",
    "int32",
    "int64",
    "get_default_dtype",
    "is_grad_enabled",
    "callback",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "no_grad",
    "ops",
    "placeholder",
    "set_eager_kernels",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "spec",
    "taylor",
    "tensor",
    "tree",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    "cond",
    "fori_loop",
    "map",
    "scan",
    "switch",
    "while_loop",
    "gauss_newton_product",
    "hessian",
    "hvp",
    "jacobian",
    "laplacian",
    "elimination_cost",
    "hessian_sparsity",
    "sparse_hessian",
    "sparse_jacobian",
    "sparsity",
    "summary",
    "vmap",
    *CONSTANTS,
    *PUBLIC,
]
