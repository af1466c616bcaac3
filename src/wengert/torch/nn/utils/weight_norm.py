"""Weights by length and direction, computed before each call: PyTorch's older `weight_norm`."""

from __future__ import annotations

from typing import Any

from ....core.errors import GraphError, fail
from ..parameter import Parameter, refuse_lazy
from .parametrizations import lengths

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """A hook that computes a weight by `name_g` and `name_v` before a module's call."""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim
        self.handle: Any = None

    def compute_weight(self, module: Any) -> Any:
        """Return the weight of the module's present lengths and directions."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / lengths(v, self.dim))

    def __call__(self, module: Any, inputs: Any) -> None:
        """Give the module its weight."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Let a weight be the product of its lengths along an axis and its directions; return the module.

    The two are the parameters `name_g` and `name_v`, from which the weight is computed before each call. With
    `dim=None` there is one length. Source: Salimans, Kingma, arXiv:1602.07868. Raises GraphError where a weight has it
    already.

    >>> import wengert.torch as torch
    >>> [name for name, _ in torch.nn.utils.weight_norm(torch.nn.Linear(2, 3)).named_parameters()]
    ['bias', 'weight_g', 'weight_v']
    """
    refuse_lazy(module, "weight_norm")
    held = module.__dict__.setdefault("_weight_norms", {})
    if name in held:
        fail(GraphError, f"weight_norm of {name!r} twice", "remove_weight_norm takes the first away.")
    made = held[name] = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(lengths(weight.detach(), made.dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    made(module, ())
    made.handle = module.register_forward_pre_hook(made)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Let a weight be a parameter again, as it is now; return the module. Raises GraphError where there is no norm."""
    held = module.__dict__.get("_weight_norms", {})
    if name not in held:
        fail(GraphError, f"{type(module).__name__} has no weight_norm of {name!r}")
    made = held.pop(name)
    weight = made.compute_weight(module).detach()
    made.handle.remove()
    for each in (name, f"{name}_g", f"{name}_v"):
        delattr(module, each)
    module.register_parameter(name, Parameter(weight))
    return module


def __dir__() -> list[str]:
    return sorted(__all__)
