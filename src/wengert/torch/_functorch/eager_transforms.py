"""The transforms under the path `torch._functorch.eager_transforms`, with what they ask of arguments."""

from ..func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from ..func.checks import slice_argnums

_slice_argnums = slice_argnums

__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]


def __dir__() -> list[str]:
    return sorted(__all__)
