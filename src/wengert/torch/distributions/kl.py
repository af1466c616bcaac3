"""The Kullback-Leibler divergence under PyTorch's path; see :func:`wengert.distributions.kl_divergence`."""

from __future__ import annotations

from typing import Any

from ... import distributions as plain
from ...distributions import register_kl
from ..namespace import as_torch


def kl_divergence(p: Any, q: Any) -> Any:
    """Return KL(p || q), of the batches' broadcast shape.

    Raises AbsentError (a NotImplementedError) for a pair without a closed form.

    >>> import wengert.torch as torch
    >>> d = torch.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5)
    """
    return as_torch(plain.kl_divergence(p, q))


__all__ = ["kl_divergence", "register_kl"]


def __dir__() -> list[str]:
    return sorted(__all__)
