"""The Kullback-Leibler divergence under PyTorch's path; see :func:`wengert.distributions.kl_divergence`."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ... import distributions as plain
from ...distributions import register_kl
from ...distributions.distribution import sum_last
from ..absent import names_of
from ..namespace import as_torch
from .distribution import ExponentialFamily


def kl_divergence(p: Any, q: Any) -> Any:
    """Return KL(p || q), of the batches' broadcast shape.

    Raises AbsentError (a NotImplementedError) for a pair without a closed form.

    >>> import wengert.torch as torch
    >>> d = torch.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5)
    """
    return as_torch(plain.kl_divergence(p, q))


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p: ExponentialFamily, q: ExponentialFamily) -> Any:
    """Return the Bregman divergence of the natural parameters, by the gradient of the normalizer.

    Source: Nielsen & Nock 2010, Entropies and cross-entropies of exponential families.
    """
    if type(p) is not type(q) or not p.has_natural_params:
        return NotImplemented
    normalizer, theta, slopes = p.normalized()
    others = q._natural_params
    found = q._log_normalizer(*others) - normalizer
    axes = len(q.event_shape)
    for mine, other, slope in zip(theta, others, slopes, strict=True):
        found = found - sum_last((other - mine) * slope, axes)
    return found


__all__ = ["kl_divergence", "register_kl"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
