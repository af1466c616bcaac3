"""The problems by Wengert: compiled, or operation by operation (which is also the reference, in float64)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from functional import train
from library import Library, Program
from problem import Data, Problem

import wengert as wg
from wengert.nn import functional as F


class Wengert(Library):
    """`compiled`: through `wg.jit`, on an engine."""

    fns = wg

    def __init__(self, compiled: bool, engine: str = "native") -> None:
        self.compiled, self.engine = compiled, engine

    def array(self, value: np.ndarray) -> wg.Tensor:
        return wg.tensor(value)

    def host(self, value: Any) -> np.ndarray:
        return np.asarray(value.detach())

    def relu(self, x: Any) -> Any:
        return wg.relu(x)

    def sigmoid(self, x: Any) -> Any:
        return wg.sigmoid(x)

    def softplus(self, x: Any) -> Any:
        return F.softplus(x)

    def gelu(self, x: Any) -> Any:
        return F.gelu(x)

    def softmax(self, x: Any) -> Any:
        return F.softmax(x, -1)

    def logsumexp(self, x: Any, axis: int) -> Any:
        return wg.logsumexp(x, axis)

    def layer_norm(self, x: Any, gain: Any, bias: Any = None) -> Any:
        return F.layer_norm(x, gain.shape, gain, bias)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def self_attention(self, qkv: Any, heads: int) -> Any:
        n, length, width = qkv.shape
        q, k, v = qkv.reshape(n, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
        return self.attention(q, k, v).permute(0, 2, 1, 3).reshape(n, length, width // 3)

    def conv(self, x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        return F.conv2d(x, w, stride=stride, padding=padding)

    def max_pool(self, x: Any) -> Any:
        return F.max_pool2d(x, 2)

    def lstm(self, x: Any, wi: Any, wh: Any, b: Any) -> Any:
        width = wh.shape[0]

        def cell(state: Any, inputs: Any) -> Any:
            h, c = state
            i, f, g, o = wg.split(inputs + h @ wh, width, -1)
            c = wg.sigmoid(f) * c + wg.sigmoid(i) * wg.tanh(g)
            h = wg.sigmoid(o) * wg.tanh(c)
            return (h, c), h

        start = wg.zeros((x.shape[1], width), dtype=x.dtype)
        return wg.scan(cell, (start, start), x @ wi + b)[1]

    def scan(self, fn: Callable[..., Any], carry: Any, xs: Any) -> Any:
        return wg.scan(fn, carry, xs)

    def grad(self, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return wg.grad(fn)

    def hvp(self, fn: Callable[[Any], Any], x: Any, v: Any) -> Any:
        return wg.jvp(wg.grad(fn), (x,), (v,))[1]

    def along(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any, Any]:
        (y, dy), (_, ddy) = wg.jvp(lambda x: wg.jvp(fn, (x,), (direction,)), (x,), (direction,))
        return y, dy, ddy

    def row_jacobian(self, fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        y, pull = wg.vjp(fn, x)
        one, zero = wg.ones_like(y[:, 0]), wg.zeros_like(y[:, 0])
        rows = [pull(wg.stack([one if i == j else zero for j in range(y.shape[1])], 1))[0] for i in range(y.shape[1])]
        return y, wg.stack(rows, 1)

    def compile(self, fn: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
        if not self.compiled:
            return fn
        compiled: Callable[..., Any] = wg.jit(fn, donate_argnums=donate, engine=self.engine)
        return compiled

    def value_and_grad(self, fn: Callable[..., Any], which: tuple[int, ...]) -> Callable[..., Any]:
        return self.compile(wg.value_and_grad(fn, argnums=which))

    def trainer(self, problem: Problem, data: Data, loss: Callable[..., Any]) -> Program:
        step, results, _, reset = train(self, problem, data, loss, wg.value_and_grad, wg.tree.map)
        return Program(step, results, reset=reset)
