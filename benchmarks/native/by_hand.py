"""The simple problems in NumPy, derivatives written by hand: what a compiler is to beat, or to come near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from library import Program
from problem import STEPS, Arrays, Data, Problem, Sizes

Maker = Callable[[Problem, Data, Sizes], Program]


def product(problem: Problem, data: Data, sizes: Sizes) -> Program:
    a, b = data["arguments"].values()
    return Program(lambda: a @ b, lambda: {"out": a @ b})


def infer(problem: Problem, data: Data, sizes: Sizes) -> Program:
    w1, b1, w2, b2, x = data["arguments"].values()

    def step() -> np.ndarray:
        return np.maximum(x @ w1 + b1, 0) @ w2 + b2

    return Program(step, lambda: {"out": step()})


def hvp(problem: Problem, data: Data, sizes: Sizes) -> Program:
    w, v, x, y = data["arguments"].values()

    def step() -> np.ndarray:
        right = 1 / (1 + np.exp(-y * (x @ w)))
        return (right * (1 - right) * (x @ v)) @ x / len(x) + 0.01 * v

    return Program(step, lambda: {"hvp": step()})


def line(params: Arrays, x: np.ndarray, y: np.ndarray) -> tuple[Any, Arrays]:
    """Loss and gradients."""
    left = x * params["w"] + params["b"] - y
    return (left * left).mean(), {"w": 2 * (left * x).mean(), "b": 2 * left.mean()}


def perceptron(params: Arrays, x: np.ndarray, y: np.ndarray) -> tuple[Any, Arrays]:
    """Loss and gradients."""
    hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
    logits = hidden @ params["w2"] + params["b2"]
    rows = np.arange(len(y))
    logits -= logits.max(1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    back = np.exp(logs)
    back[rows, y] -= 1
    back /= len(y)
    inner = (back @ params["w2"].T) * (hidden > 0)
    grads = {"w1": x.T @ inner, "b1": inner.sum(0), "w2": hidden.T @ back, "b2": back.sum(0)}
    return -logs[rows, y].mean(), grads


def training(gradient: Callable[..., tuple[Any, Arrays]]) -> Maker:
    """SGD with momentum, in place."""

    def make(problem: Problem, data: Data, sizes: Sizes) -> Program:
        rule = problem.rule
        assert rule is not None
        now: dict[str, Any] = {}

        def reset() -> None:
            now["params"] = {k: v.copy() for k, v in data["params"].items()}
            now["moments"] = {k: np.zeros_like(v) for k, v in data["params"].items()}
            now["steps"] = 0

        def step() -> Any:
            params, batches = now["params"], data["batches"]
            loss, grads = gradient(params, *batches[now["steps"] % len(batches)])
            now["steps"] += 1
            for k, grad in grads.items():
                moment = now["moments"][k]
                moment *= rule.momentum
                moment += grad
                params[k] -= rule.lr * moment
            return loss

        def results() -> Arrays:
            reset()
            losses = np.array([float(step()) for _ in range(STEPS)])
            return {"losses": losses, **now["params"]}

        reset()
        return Program(step, results, reset=reset)

    return make


PROGRAMS: dict[str, Maker] = {
    "gemm_f32": product,
    "gemm_f64": product,
    "linreg": training(line),
    "mlp_tiny": training(perceptron),
    "mlp_small": training(perceptron),
    "mlp_mnist": training(perceptron),
    "mlp_wide": training(perceptron),
    "infer_mlp_tiny": infer,
    "infer_mlp_mnist": infer,
    "logistic_hvp": hvp,
}
