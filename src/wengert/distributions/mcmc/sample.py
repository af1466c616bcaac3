"""Sampling: chains of the No-U-Turn sampler from a log density, and what they drew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

import wengert as wg

from ...core import tree
from ...core.errors import DTypeError, RangeError, WengertError, fail, warn
from ...core.state.cached import cached_property
from . import diagnostics
from .adaptation import Warm, collecting, first_step, metric_of, no_moments, started, warming, windows
from .layout import Layout, leaf_names
from .nuts import Metric, Point

# About so many draws are made by one call of the compiled program.
CHUNK = 100
# How often a chain's first position is drawn again where the density is zero or not known there.
MOST_STARTS = 100
_WORD = 2**64 - 1

Array = np.ndarray[Any, np.dtype[Any]]


class SampleError(WengertError, ValueError):
    """An error: there is no position from which a chain can start."""


class Summary(NamedTuple):
    """A table of each number drawn: by column, in the order of `names`."""

    names: tuple[str, ...]
    mean: Array
    sd: Array
    q5: Array
    q95: Array
    mcse_mean: Array
    ess_bulk: Array
    ess_tail: Array
    rhat: Array

    def __str__(self) -> str:
        width = max((len(n) for n in self.names), default=0)
        columns = ("mean", "sd", "q5", "q95", "mcse_mean", "ess_bulk", "ess_tail", "rhat")
        lines = [" " * width + "".join(f"{c:>11}" for c in columns)]
        for i, name in enumerate(self.names):
            shown = (f"{getattr(self, c)[i]:>11.{0 if c.startswith('ess') else 3}f}" for c in columns)
            lines.append(f"{name:<{width}}{''.join(shown)}")
        return "\n".join(lines)


class Samples:
    """The draws of several chains, as :func:`sample` returns them.

    `draws` is a pytree like the initial position, of NumPy arrays with axes (chain, draw) before those of each tensor.
    `stats` has arrays (chain, draw) of each draw: `logp`, the logarithm of the density; `acceptance`, the mean
    acceptance probability over its trajectory; `depth`, of its tree; `steps`, leapfrog steps; `diverging`; `energy`.
    `step_size` (chain) and `inverse_mass` (chain, number[, number]) are what warming up arrived at.
    """

    def __init__(
        self, draws: Any, names: tuple[str, ...], flat: Array, stats: dict[str, Array], step: Array, inverse: Array
    ) -> None:
        self.draws, self.stats, self.step_size, self.inverse_mass = draws, stats, step, inverse
        self._names, self._flat = names, flat

    def __repr__(self) -> str:
        chains, draws, numbers = self._flat.shape
        return (
            f"<{chains} chains of {draws} draws of {numbers} numbers, {int(self.stats['diverging'].sum())} divergent>"
        )

    @cached_property
    def summary(self) -> Summary:
        """Mean, standard deviation, quantiles, effective sample sizes and R-hat of each number."""
        x = self._flat
        low, high = np.quantile(x, [0.05, 0.95], axis=(0, 1))
        return Summary(
            self._names,
            x.mean((0, 1)),
            x.std((0, 1), ddof=1),
            low,
            high,
            diagnostics.mcse_mean(x),
            diagnostics.ess_bulk(x),
            diagnostics.ess_tail(x),
            diagnostics.rhat(x),
        )

    def to_arviz(self, **groups: Any) -> Any:
        """Return the draws as ArviZ's `InferenceData`; `groups` are more arguments of `arviz.from_dict`.

        Variables have the names of the initial position's dictionary, `x` for a single tensor, `x.0`, ... for others.
        Raises ImportError without ArviZ.
        """
        import arviz

        leaves, structure = tree.flatten(self.draws)
        names = {"acceptance": "acceptance_rate", "depth": "tree_depth", "steps": "n_steps", "logp": "lp"}
        return arviz.from_dict(
            posterior=dict(zip(leaf_names(structure), leaves, strict=True)),
            sample_stats={
                **{names.get(k, k): v for k, v in self.stats.items()},
                "step_size": np.broadcast_to(self.step_size[:, None], self._flat.shape[:2]),
            },
            **groups,
        )


def sample(
    logp: Callable[[Any], Any],
    initial: Any,
    *,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    key: Any = None,
    mass: Literal["diagonal", "dense"] = "diagonal",
    target: float = 0.8,
    max_depth: int = 10,
    jitter: float = 1.0,
) -> Samples:
    """Draw from a density by the No-U-Turn sampler: multinomial NUTS, whose chains are compiled together.

    Parameters
    ----------
    logp: the logarithm of the density, up to a constant: a function of one position, a pytree of floating tensors of
        one dtype, that may be any numbers. It returns a scalar. Put `wg.distributions.biject_to(...)` and its
        `log_abs_det_jacobian` in where the density is one of constrained numbers.
    initial: a position, with values.
    draws, tune: the number of draws that are kept, and of those before, in which step size and mass are learned (by
        dual averaging, in Stan's windows).
    chains: the number of chains. They go together, as one batch.
    key: a random key, `wg.random.key(seed)`; None takes one from the default generator. A key always gives the same
        draws.
    mass: "diagonal", or "dense" for densities with strong correlations.
    target: the mean acceptance probability that the step size is to bring about. Nearer to 1 means smaller steps.
    max_depth: at most `2**max_depth - 1` leapfrog steps make a draw.
    jitter: how far from `initial` chains start: uniform, so much to both sides.

    Warns of draws whose trajectories diverged, and of those that the depth cut short.

    Raises SampleError where the density or its gradient is not finite at any of the first positions that were tried,
    DTypeError, ShapeError. Source: Hoffman & Gelman 2014; Betancourt 2017.

    >>> import wengert as wg
    >>> mcmc = wg.distributions.mcmc
    >>> found = mcmc.sample(lambda x: -0.5 * (x**2).sum(), wg.zeros(2, dtype=wg.float64), key=wg.random.key(0))
    >>> found
    <4 chains of 1000 draws of 2 numbers, 0 divergent>
    >>> bool((found.summary.rhat < 1.01).all())
    True
    """
    for name, value, least in (
        ("draws", draws, 1),
        ("tune", tune, 0),
        ("chains", chains, 1),
        ("max_depth", max_depth, 1),
    ):
        if not isinstance(value, int) or value < least:
            fail(RangeError, f"sample({name}={value!r})", f"Give it a whole number, {least} or more.")
    if mass not in ("diagonal", "dense"):
        fail(DTypeError, f"sample(mass={mass!r})", "Write 'diagonal' or 'dense'.")
    if not 0.0 < target < 1.0:
        fail(RangeError, f"sample(target={target!r})", "An acceptance probability lies between 0 and 1.")
    with wg.no_grad():  # what the density finds outside is constant
        layout = Layout(initial)
        density = layout.density(logp)
        root = wg.random.key(int(wg.random.randint(0, 2**62, ()))) if key is None else key
        starts, warm_keys, draw_keys = (wg.random.split(k, chains) for k in wg.random.split(root, 3))
        point = _started(density, layout, starts, jitter)
        size, dtype = layout.size, layout.dtype

        def batched(fn: Callable[..., Any]) -> Any:
            return wg.jit(lambda words, *rest: wg.vmap(lambda w, *r: fn(wg.random.RandomKey(w), *r))(words, *rest))

        search, warm = batched(first_step(density)), batched(warming(density, max_depth, target))
        metric = Metric(wg.ones((chains, size), dtype=dtype), wg.ones((chains, size), dtype=dtype))
        if mass == "dense":
            metric = Metric(*(wg.stack([wg.eye(size, dtype=dtype)] * chains) for _ in range(2)))
        step, begin = wg.ones(chains, dtype=dtype), 0
        moments = tree.map(lambda m: wg.stack([m] * chains), no_moments(size, mass == "dense", dtype))
        averages = None
        for length, learns in windows(tune):
            if averages is None:
                step = search(_words(wg.random.fold_in(k, ~begin & _WORD) for k in warm_keys), point, step, metric)
                averages = started(step)
            numbers = [wg.full((chains,), n, dtype=wg.int64) for n in (begin, length)]
            state = warm(_words(warm_keys), numbers[0], Warm(point, averages, moments), metric, numbers[1])
            point, averages, begin = state.point, state.averages, begin + length
            step = wg.exp(averages.log_average)
            if learns:
                metric = _learned(state.moments)
                averages = None
        return _collected(density, layout, draw_keys, point, step, metric, draws, max_depth, batched)


def _learned(moments: Any) -> Metric:
    arrays = [m.numpy() for m in moments]
    found = [metric_of(type(moments)(*(a[i] for a in arrays))) for i in range(len(arrays[0]))]
    return Metric(*(wg.asarray(np.stack(column)) for column in zip(*found)))


def _collected(
    density: Any,
    layout: Layout,
    keys: Sequence[Any],
    point: Point,
    step: Any,
    metric: Metric,
    draws: int,
    max_depth: int,
    batched: Callable[..., Any],
) -> Samples:
    pieces = -(-draws // CHUNK)
    length = -(-draws // pieces)
    collect = batched(collecting(density, max_depth, length))
    found = []
    for i in range(pieces):
        begin = wg.full((len(step),), i * length, dtype=wg.int64)
        point, made = collect(_words(keys), begin, point, step, metric)
        found.append([leaf.numpy() for leaf in tree.leaves(made)])
    flat, logp, acceptance, depth, steps, diverging, energy = (
        np.concatenate(column, axis=1)[:, :draws] for column in zip(*found)
    )
    stats = {
        "logp": logp, "acceptance": acceptance, "depth": depth, "steps": steps, "diverging": diverging, "energy": energy
    }  # fmt: skip
    if diverging.any():
        warn(
            f"{int(diverging.sum())} of {diverging.size} draws diverged: they may leave parts of the density out\n"
            "Raise target=, or give the model another parametrisation."
        )
    full = (depth >= max_depth) & ~diverging
    if full.any():
        warn(
            f"{int(full.sum())} of {full.size} draws reached max_depth={max_depth}\n"
            'They are right, but few for their cost. Raise max_depth=, or write mass="dense".'
        )
    return Samples(layout.tree(flat), layout.names, flat, stats, step.numpy(), metric.inverse.numpy())


def _started(density: Any, layout: Layout, keys: Sequence[Any], jitter: float) -> Point:
    """Return the first points of chains."""
    found = []
    for key in keys:
        for trial in range(MOST_STARTS):
            shift = wg.random.uniform((layout.size,), -1.0, 1.0, dtype=layout.dtype, key=wg.random.fold_in(key, trial))
            position = layout.first + jitter * shift
            logp, gradient = density(position)
            if bool(wg.isfinite(logp)) and bool(wg.isfinite(gradient).all()):
                found.append(Point(position, logp, gradient))
                break
        else:
            fail(
                SampleError,
                f"the density has no finite logarithm with a finite gradient near the initial position: {logp}, "
                f"after {MOST_STARTS} trials",
                "Begin elsewhere, or with another jitter=.",
            )
    return Point(*(wg.stack(column) for column in zip(*found)))


def _words(keys: Iterable[Any]) -> Any:
    """Return keys as rows of numbers, which a batch of chains takes."""
    return wg.asarray(np.array([key.words for key in keys], np.uint64))
