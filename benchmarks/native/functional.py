"""Training in the functional style, as Wengert and JAX share it: a compiled function from state to state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from problem import STEPS, Arrays, Data, Problem, Rule

if TYPE_CHECKING:
    from library import Library

Map = Callable[..., Any]


def train(
    library: Library, problem: Problem, data: Data, loss: Callable[..., Any], value_and_grad: Any, tree_map: Map
) -> Any:
    """(step, results, state, reset) of training with the library's transforms; the state is donated."""
    rule = problem.rule
    assert rule is not None
    batches = library.batches(data)
    now: dict[str, Any] = {}

    def update(state: Any, *batch: Any) -> Any:
        params, moments, stats = state
        (value, stats), grads = value_and_grad(loss, has_aux=True)(params, stats, *batch)
        params, moments = follow(library, rule, tree_map, params, moments, grads)
        return (params, moments, stats), value

    run = library.compile(update, donate=(0,))

    def reset() -> None:
        params = library.placed(data["params"])
        now["state"] = params, moments_of(library, rule, data), library.placed(data["stats"])
        now["steps"] = 0
        library.wait(now["state"])

    def step() -> Any:
        batch = batches[now["steps"] % len(batches)]
        now["steps"] += 1
        now["state"], value = run(now["state"], *batch)
        return value

    def results() -> Arrays:
        reset()
        losses = np.array([float(step()) for _ in range(STEPS)])
        params, _, stats = now["state"]
        return {"losses": losses, **library.fetched({**params, **stats})}

    reset()
    return step, results, now, reset


def moments_of(library: Library, rule: Rule, data: Data) -> Any:
    """What a rule keeps beside the parameters, at the start."""
    zeros = {k: np.zeros_like(v) for k, v in data["params"].items()}
    if rule.betas:
        count = np.zeros((), next(iter(zeros.values())).dtype)
        return library.placed(zeros), library.placed(zeros), library.array(count)
    return (library.placed(zeros),) if rule.momentum else ()


def follow(library: Library, rule: Rule, tree_map: Map, params: Any, moments: Any, grads: Any) -> tuple[Any, Any]:
    """Parameters and moments after one update."""
    if rule.betas:
        b1, b2 = rule.betas
        mean, square, count = moments
        count = count + 1
        mean = tree_map(lambda m, g: b1 * m + (1 - b1) * g, mean, grads)
        square = tree_map(lambda v, g: b2 * v + (1 - b2) * g * g, square, grads)
        scale, scale2 = 1 / (1 - b1**count), 1 / (1 - b2**count)

        def moved(p: Any, m: Any, v: Any) -> Any:
            kept = p * (1 - rule.lr * rule.decay) if rule.decay and p.ndim == 2 else p
            return kept - rule.lr * (m * scale) / (library.fns.sqrt(v * scale2) + rule.eps)

        return tree_map(moved, params, mean, square), (mean, square, count)
    if rule.momentum:
        (grads,) = moments = (tree_map(lambda m, g: rule.momentum * m + g, moments[0], grads),)
    return tree_map(lambda p, g: p - rule.lr * g, params, grads), moments
