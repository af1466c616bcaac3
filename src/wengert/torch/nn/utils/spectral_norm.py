"""Weights divided by their greatest singular value, computed before each call: PyTorch's older `spectral_norm`."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ....core.errors import GraphError, fail
from ..parameter import Parameter, refuse_lazy
from .parametrizations import PowerMethod, rows_axis

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """A hook that computes a weight by `name_orig` and singular vectors, `name_u` and `name_v`, before a call."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        self.name, self.n_power_iterations = name, n_power_iterations
        self.method = PowerMethod(dim, eps)
        self.handle: Any = None

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """Return the weight divided by its greatest singular value, whose vectors may go on a step first."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.method.matrix(weight)
        if do_power_iteration:
            with wg.no_grad():
                fixed = matrix.detach()
                for _ in range(self.n_power_iterations):
                    v, u = self.method.iterated(fixed.mT, v, u, 1)
            getattr(module, f"{self.name}_u").assign_(u)
            getattr(module, f"{self.name}_v").assign_(v)
        return weight / (u.detach() * (matrix @ v.detach())).sum()

    def __call__(self, module: Any, inputs: Any) -> None:
        """Give the module its weight."""
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Let a weight be divided by its greatest singular value; return the module.

    Parameters
    ----------
    module, name: the module and its weight, which becomes the parameter `name_orig`.
    n_power_iterations: steps of the power method before each call in training.
    eps: added to norms.
    dim: the axis of the rows; None for that of the module's outputs.

    Source: Miyato et al., arXiv:1802.05957. Raises GraphError where a weight has it already.
    """
    refuse_lazy(module, "spectral_norm")
    held = module.__dict__.setdefault("_spectral_norms", {})
    if name in held:
        fail(GraphError, f"spectral_norm of {name!r} twice", "remove_spectral_norm takes the first away.")
    if n_power_iterations < 1:
        fail(GraphError, f"spectral_norm: n_power_iterations={n_power_iterations}", "It is at least 1.")
    made = held[name] = SpectralNorm(name, n_power_iterations, rows_axis(module, dim), eps)
    weight = getattr(module, name)
    rows, columns = made.method.matrix(weight.detach()).shape
    u, v = (made.method.begun(n, weight.dtype) for n in (rows, columns))
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    made.handle = module.register_forward_pre_hook(made)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Let a weight be a parameter again, as it is now; return the module. Raises GraphError where there is no norm."""
    held = module.__dict__.get("_spectral_norms", {})
    if name not in held:
        fail(GraphError, f"{type(module).__name__} has no spectral_norm of {name!r}")
    made = held.pop(name)
    weight = made.compute_weight(module, do_power_iteration=False).detach()
    made.handle.remove()
    for each in (name, f"{name}_u", f"{name}_v", f"{name}_orig"):
        delattr(module, each)
    module.register_parameter(name, Parameter(weight))
    return module


def __dir__() -> list[str]:
    return sorted(__all__)
