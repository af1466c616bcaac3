"""The No-U-Turn sampler's transition: a draw from the last one, as a single loop that compiles and batches.

Multinomial sampling over the trajectory with biased progressive sampling, and the generalised criterion of a U-turn
(Betancourt 2017, "A Conceptual Introduction to Hamiltonian Monte Carlo", A.3 and A.4.2; Hoffman & Gelman 2014).
The tree is grown without recursion: of a subtree under way only the momenta at the first leaves of its balanced parts
are kept, at most one for each level, and every leaf is checked against those whose parts it completes (Phan, Pradhan &
Jankowiak 2019; Lao et al. 2020). An iteration of the loop is one leapfrog step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

# The error of the energy from which on a trajectory counts as divergent.
DIVERGENT = 1000.0

# From a position, a vector, to the logarithm of its density and the gradient.
Density = Callable[[Any], tuple[Any, Any]]


class Metric(NamedTuple):
    """A mass matrix: `inverse`, a vector where it is diagonal, and `root`, of which it is the square."""

    inverse: Any
    root: Any

    def velocity(self, momentum: Any) -> Any:
        """Return the inverse mass times a momentum, or the rows of several."""
        return momentum * self.inverse if self.inverse.ndim == 1 else momentum @ self.inverse

    def momentum(self, normal: Any) -> Any:
        """Return a momentum of this mass, made of standard normal numbers."""
        return self.root * normal if self.root.ndim == 1 else self.root @ normal


class Point(NamedTuple):
    """A position with the logarithm of its density, and the gradient of that."""

    position: Any
    logp: Any
    gradient: Any


class Phase(NamedTuple):
    """A point with a momentum."""

    position: Any
    momentum: Any
    gradient: Any


class Info(NamedTuple):
    """The facts of a transition: the mean acceptance over its trajectory, its tree's depth, the leapfrog steps, ..."""

    acceptance: Any
    depth: Any
    steps: Any
    diverging: Any
    energy: Any


class _Tree(NamedTuple):
    """The state of the loop: the tree so far, and the subtree that is to double it."""

    left: Phase
    right: Phase
    proposal: Point
    energy: Any  # of the proposal
    weight: Any  # the logarithm of the sum of its leaves' weights
    rho: Any  # the sum of their momenta
    depth: Any
    leaves: Any  # of the tree, and of the subtree when it is whole
    now: Phase
    forward: Any
    leaf: Any
    sub_proposal: Point
    sub_energy: Any
    sub_weight: Any
    sub_rho: Any
    kept_momenta: Any
    kept_rhos: Any
    acceptance: Any
    steps: Any
    diverging: Any
    goes_on: Any


def leapfrog(density: Density, metric: Metric, at: Phase, step: Any) -> tuple[Phase, Any]:
    """Return the phase after one step of Hamilton's equations, and the logarithm of the density there."""
    half = at.momentum + 0.5 * step * at.gradient
    position = at.position + step * metric.velocity(half)
    logp, gradient = density(position)
    return Phase(position, half + 0.5 * step * gradient, gradient), logp


def energy_of(metric: Metric, momentum: Any, logp: Any) -> Any:
    """Return the Hamiltonian: kinetic energy minus the logarithm of the density."""
    return 0.5 * (momentum * metric.velocity(momentum)).sum() - logp


def transition(density: Density, max_depth: int) -> Callable[[Any, Point, Any, Metric], tuple[Point, Info]]:
    """Return the function from a random key, a point, a step size and a metric to the next point, and facts."""
    keeps, completes = _levels(max_depth)

    def draw(key: Any, point: Point, step: Any, metric: Metric) -> tuple[Point, Info]:
        dtype = point.position.dtype
        of_momentum, of_direction, of_leaves = wg.random.split(key, 3)
        momentum = metric.momentum(wg.random.normal(point.position.shape, dtype=dtype, key=of_momentum))
        energy = energy_of(metric, momentum, point.logp)
        begin = Phase(point.position, momentum, point.gradient)
        rows = wg.zeros((max_depth, *momentum.shape), dtype=dtype)
        zero, count = wg.zeros_like(energy), wg.zeros((), dtype=wg.int64)
        no = wg.zeros((), dtype=wg.bool)
        forward = wg.random.uniform((), dtype=dtype, key=of_direction) < 0.5
        tree = _Tree(
            begin, begin, point, energy, zero, momentum, count, count + 1,
            begin, forward, count, point, energy, zero, wg.zeros_like(momentum), rows, rows,
            zero, count, no, ~no,
        )  # fmt: skip

        def grown(tree: _Tree) -> _Tree:
            u = wg.random.uniform((3,), dtype=dtype, key=wg.random.fold_in(of_leaves, tree.steps))
            now, logp = leapfrog(density, metric, tree.now, wg.where(tree.forward, step, -step))
            here = energy_of(metric, now.momentum, logp)
            error = here - energy
            error = wg.where(wg.isnan(error), wg.full_like(error, np.inf), error)
            diverging = error > DIVERGENT
            is_first = tree.leaf == 0
            # The subtree with this leaf.
            sub_weight = wg.where(is_first, -error, wg.logaddexp(tree.sub_weight, -error))
            takes = is_first | (wg.log(u[0]) < -error - sub_weight)
            sub_proposal = _chosen(takes, Point(now.position, logp, now.gradient), tree.sub_proposal)
            sub_energy = wg.where(takes, here, tree.sub_energy)
            sub_rho = wg.where(is_first, now.momentum, tree.sub_rho + now.momentum)
            keep, complete = keeps[tree.leaf], completes[tree.leaf]
            kept_momenta = wg.where(keep[:, None], now.momentum, tree.kept_momenta)
            kept_rhos = wg.where(keep[:, None], sub_rho, tree.kept_rhos)
            within = sub_rho - kept_rhos + kept_momenta
            turns = complete & _turns(metric, kept_momenta, now.momentum, within)
            is_bad = diverging | turns.any()
            is_whole = ~is_bad & (tree.leaf + 1 == tree.leaves)
            # The tree with the subtree, where that is whole.
            accepts = is_whole & (wg.log(u[1]) < sub_weight - tree.weight)
            left = _chosen(is_whole & ~tree.forward, now, tree.left)
            right = _chosen(is_whole & tree.forward, now, tree.right)
            rho = wg.where(is_whole, tree.rho + sub_rho, tree.rho)
            depth = tree.depth + is_whole.astype(wg.int64)
            is_turned = is_whole & _turns(metric, left.momentum, right.momentum, rho)
            forward = wg.where(is_whole, u[2] < 0.5, tree.forward)
            return _Tree(
                left,
                right,
                _chosen(accepts, sub_proposal, tree.proposal),
                wg.where(accepts, sub_energy, tree.energy),
                wg.where(is_whole, wg.logaddexp(tree.weight, sub_weight), tree.weight),
                rho,
                depth,
                wg.where(is_whole, 2 * tree.leaves, tree.leaves),
                _chosen(is_whole, _chosen(forward, right, left), now),
                forward,
                wg.where(is_whole, 0, tree.leaf + 1),
                sub_proposal,
                sub_energy,
                sub_weight,
                sub_rho,
                kept_momenta,
                kept_rhos,
                tree.acceptance + wg.exp(wg.minimum(-error, wg.zeros_like(error))),
                tree.steps + 1,
                diverging,
                ~(is_bad | is_turned) & (depth < max_depth),
            )

        tree = wg.while_loop(lambda tree: tree.goes_on, grown, tree)
        acceptance = tree.acceptance / tree.steps.astype(dtype)
        return tree.proposal, Info(acceptance, tree.depth, tree.steps, tree.diverging, tree.energy)

    return draw


def _turns(metric: Metric, first: Any, last: Any, rho: Any) -> Any:
    """Return whether trajectories between two momenta turn back; `rho` is the sum of the momenta on them.

    Half of each end is left out, so that the sum is the trapezoidal rule of the integral that it stands for.
    """
    middle = rho - 0.5 * (first + last)
    return ((metric.velocity(first) * middle).sum(-1) <= 0) | ((metric.velocity(last) * middle).sum(-1) <= 0)


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    return type(yes)(*(wg.where(condition, a, b) for a, b in zip(yes, no, strict=True)))


@cache
def _levels(max_depth: int) -> tuple[Any, Any]:
    """Return, for each leaf of a subtree, the level at which it is kept, and the levels that it completes, as rows.

    An even leaf begins parts of the subtree; it is kept at the level that counts the bits above its last one. An odd
    leaf ends as many parts as it has ones at its end; the first leaves of these are kept at that level and those below.
    """
    leaves = 2 ** max(0, max_depth - 1)
    keeps, completes = np.zeros((leaves, max_depth), bool), np.zeros((leaves, max_depth), bool)
    for leaf in range(leaves):
        level = (leaf >> 1).bit_count()
        if leaf % 2 == 0:
            keeps[leaf, level] = True
        else:
            ones = (~leaf & (leaf + 1)).bit_length() - 1
            completes[leaf, level - ones + 1 : level + 1] = True
    return wg.asarray(keeps), wg.asarray(completes)
