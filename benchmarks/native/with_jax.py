"""The problems by JAX: one jitted function each, the state donated, images NHWC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from functional import train
from jax import lax
from library import Library, Program
from problem import Data, Problem


class Jax(Library):
    """Through `jax.jit`."""

    fns = jnp
    image_axes = (0, 1, 2)

    def array(self, value: np.ndarray) -> Any:
        return jnp.asarray(value.astype(np.int32) if value.dtype.kind == "i" else value)

    def host(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    def wait(self, value: Any) -> Any:
        return jax.block_until_ready(value)

    def images(self, value: np.ndarray) -> Any:
        return self.array(value.transpose(0, 2, 3, 1))

    def filters(self, value: np.ndarray) -> Any:
        return self.array(value.transpose(2, 3, 1, 0))

    def host_filters(self, value: Any) -> np.ndarray:
        return self.host(value).transpose(3, 2, 0, 1)

    def per_channel(self, value: Any) -> Any:
        return value

    def relu(self, x: Any) -> Any:
        return jax.nn.relu(x)

    def sigmoid(self, x: Any) -> Any:
        return jax.nn.sigmoid(x)

    def softplus(self, x: Any) -> Any:
        return jax.nn.softplus(x)

    def gelu(self, x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    def softmax(self, x: Any) -> Any:
        return jax.nn.softmax(x)

    def logsumexp(self, x: Any, axis: int) -> Any:
        return jax.nn.logsumexp(x, axis)

    def layer_norm(self, x: Any, gain: Any, bias: Any = None) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        out = (x - mean) * lax.rsqrt(variance + 1e-5) * gain
        return out if bias is None else out + bias

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1).mean()

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        q, k, v = (jnp.swapaxes(a, 1, 2) for a in (q, k, v))
        return jnp.swapaxes(jax.nn.dot_product_attention(q, k, v, is_causal=True), 1, 2)

    def self_attention(self, qkv: Any, heads: int) -> Any:
        n, length, width = qkv.shape
        q, k, v = (a.reshape(n, length, heads, -1) for a in jnp.split(qkv, 3, -1))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(n, length, width // 3)

    def conv(self, x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        pads = [(padding, padding)] * 2
        return lax.conv_general_dilated(x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def max_pool(self, x: Any) -> Any:
        n, rows, columns, channels = x.shape
        return x.reshape(n, rows // 2, 2, columns // 2, 2, channels).max((2, 4))

    def flatten(self, x: Any) -> Any:
        return x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)

    def lstm(self, x: Any, wi: Any, wh: Any, b: Any) -> Any:
        def cell(state: Any, inputs: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(inputs + h @ wh, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros((x.shape[1], wh.shape[0]), x.dtype)
        return lax.scan(cell, (start, start), x @ wi + b)[1]

    def concat(self, values: Sequence[Any], axis: int) -> Any:
        return jnp.concatenate(values, axis)

    def scan(self, fn: Callable[..., Any], carry: Any, xs: Any) -> Any:
        return lax.scan(fn, carry, xs)

    def grad(self, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return jax.grad(fn)

    def hvp(self, fn: Callable[[Any], Any], x: Any, v: Any) -> Any:
        return jax.jvp(jax.grad(fn), (x,), (v,))[1]

    def along(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any, Any]:
        (y, dy), (_, ddy) = jax.jvp(lambda x: jax.jvp(fn, (x,), (direction,)), (x,), (direction,))
        return y, dy, ddy

    def row_jacobian(self, fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        y, pull = jax.vjp(fn, x)
        basis = jnp.broadcast_to(jnp.eye(y.shape[1], dtype=y.dtype)[:, None], (y.shape[1], *y.shape))
        return y, jnp.swapaxes(jax.vmap(pull)(basis)[0], 0, 1)

    def compile(self, fn: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
        compiled: Callable[..., Any] = jax.jit(fn, donate_argnums=donate)
        return compiled

    def value_and_grad(self, fn: Callable[..., Any], which: tuple[int, ...]) -> Callable[..., Any]:
        return self.compile(jax.value_and_grad(fn, argnums=which))

    def trainer(self, problem: Problem, data: Data, loss: Callable[..., Any]) -> Program:
        step, results, now, reset = train(self, problem, data, loss, jax.value_and_grad, jax.tree_util.tree_map)
        return Program(step, results, lambda value: self.wait((value, now["state"])), reset=reset)
