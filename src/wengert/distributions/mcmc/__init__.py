"""Markov chain Monte Carlo: the No-U-Turn sampler, and what says whether its chains have converged.

>>> import wengert as wg
>>> mcmc = wg.distributions.mcmc
>>> found = mcmc.sample(lambda x: -0.5 * (x**2).sum(), wg.zeros(2), draws=200, tune=200, key=wg.random.key(0))
>>> found.draws.shape
(4, 200, 2)
"""

from __future__ import annotations

from .diagnostics import ess_bulk, ess_mean, ess_tail, mcse_mean, rhat
from .sample import SampleError, Samples, Summary, sample

__all__ = [
    "SampleError",
    "Samples",
    "Summary",
    "ess_bulk",
    "ess_mean",
    "ess_tail",
    "mcse_mean",
    "rhat",
    "sample",
]
