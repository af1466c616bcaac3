"""Gradients of expectations over draws that are not reparameterised."""

from __future__ import annotations

from typing import Any

import wengert as wg

from ..core.errors import GraphError, ShapeError, fail
from ..core.tensor import Tensor
from ..ops.structure.shapes import as_operand


def score_function(log_prob: Any, reward: Any, baseline: Any = None, *, axis: int = 0) -> Tensor:
    """Return a surrogate whose value is `reward` and whose gradient estimates that of the expected reward.

    Parameters
    ----------
    log_prob: of each draw, tracked; shape (..., draws, ...).
    reward: what each draw earned, of a shape that broadcasts with it. Gradients that reach parameters
        through the reward itself are added.
    baseline: what is subtracted from the reward to lower the variance: a number or tensor that does
        not depend on the draw, or "leave_one_out", the mean reward of the other draws along `axis`.
    axis: of the draws, for "leave_one_out".

    Average it over the draws, then differentiate, to any order. The gradient is unbiased.

    Raises ShapeError for "leave_one_out" with fewer than two draws, GraphError for another word.

    Source: Williams 1992, REINFORCE; Schulman et al. 2015, Gradient estimation using stochastic
    computation graphs; Foerster et al. 2018, DiCE, for the higher orders; Kool, van Hoof & Welling 2019,
    Buy 4 REINFORCE samples, get a baseline for free.

    >>> import wengert as wg
    >>> logit = wg.tensor(0.0, requires_grad=True)
    >>> p = wg.distributions.Bernoulli(logits=logit)
    >>> x = p.sample((10_000,), key=wg.random.key(0))
    >>> wg.distributions.score_function(p.log_prob(x), 3.0 * x, "leave_one_out").mean().backward()
    >>> abs(float(logit.grad) - 0.75) < 0.02  # 3 p (1 - p)
    True
    """
    log_prob, reward = as_operand(log_prob), as_operand(reward)
    # 1 in value; its derivative is that of log_prob, at every order.
    box = wg.exp(log_prob - log_prob.detach())
    surrogate: Tensor = reward * box
    if baseline is None:
        return surrogate
    if not isinstance(baseline, str):
        level = wg.asarray(baseline, dtype=None if isinstance(baseline, Tensor) else reward.dtype)
    elif baseline == "leave_one_out":
        level = _others_mean(wg.broadcast_to(reward, surrogate.shape), axis)
    else:
        fail(GraphError, f"score_function: baseline {baseline!r}", 'It is "leave_one_out", a tensor or None.')
    return surrogate - level.detach() * (box - 1.0)


def _others_mean(reward: Tensor, axis: int) -> Tensor:
    """Return, for each draw, the mean reward of the others."""
    if not -reward.ndim <= axis < reward.ndim or reward.shape[axis] < 2:
        fail(
            ShapeError,
            f"score_function: a leave-one-out baseline of rewards {reward.spec} along axis {axis}",
            "It needs two draws or more along that axis.",
        )
    reward = reward.detach()
    total = wg.sum(reward, axis=axis, keepdims=True)
    return (total - reward) / float(reward.shape[axis] - 1)
