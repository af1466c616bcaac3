"""Reverse-mode automatic differentiation of NumPy programs, whole, in 100 lines.

python examples/mini_autograd.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Pull = Callable[[np.ndarray], np.ndarray]


class Array:
    """A value, and how it came about: its operands, each with what pulls a gradient back to it."""

    def __init__(self, value: Any, came_from: tuple[tuple[Array, Pull], ...] = ()) -> None:
        self.value = np.asarray(value, dtype=np.float64)
        self.came_from = came_from
        self.grad = np.zeros_like(self.value)

    def backward(self) -> None:
        """Add to every array's `grad` the derivative of this one (the sum of its elements) in it."""
        arriving = {id(self): np.ones_like(self.value)}
        for node in reversed(tape(self)):  # everything that used a node is done before it
            g = arriving.pop(id(node))
            node.grad = node.grad + g
            for operand, pull in node.came_from:
                arriving[id(operand)] = arriving.get(id(operand), 0.0) + pull(g)

    def __add__(self, other: Any) -> Array:
        return broadcasting(np.add, self, other, lambda g, a, b: g, lambda g, a, b: g)

    def __mul__(self, other: Any) -> Array:
        return broadcasting(np.multiply, self, other, lambda g, a, b: g * b, lambda g, a, b: g * a)

    def __truediv__(self, other: Any) -> Array:
        return broadcasting(np.divide, self, other, lambda g, a, b: g / b, lambda g, a, b: -g * a / b**2)

    def __pow__(self, n: float) -> Array:
        return elementwise(self.value**n, self, n * self.value ** (n - 1))

    def __matmul__(self, other: Array) -> Array:
        a, b = self.value, other.value
        return Array(a @ b, ((self, lambda g: g @ b.T), (other, lambda g: a.T @ g)))

    def __neg__(self) -> Array:
        return self * -1.0

    def __sub__(self, other: Any) -> Array:
        return self + -array(other)

    __radd__, __rmul__ = __add__, __mul__

    def sum(self) -> Array:
        return Array(self.value.sum(), ((self, lambda g: np.broadcast_to(g, self.value.shape)),))


def array(value: Any) -> Array:
    return value if isinstance(value, Array) else Array(value)


def tape(result: Array) -> list[Array]:
    """All that the result was made of, each after its operands; the walk keeps its own stack."""
    done: dict[int, Array] = {}
    stack = [(result, False)]
    while stack:
        node, operands_done = stack.pop()
        if operands_done:
            done[id(node)] = node
        elif id(node) not in done:
            stack.append((node, True))
            stack += [(operand, False) for operand, _ in node.came_from if id(operand) not in done]
    return list(done.values())


def elementwise(value: np.ndarray, x: Array, slope: np.ndarray) -> Array:
    return Array(value, ((x, lambda g: g * slope),))


def broadcasting(op: Any, a: Any, b: Any, pull_a: Any, pull_b: Any) -> Array:
    """An operation on two arrays that may be of different shapes: what was repeated is summed on the way back."""
    a, b = array(a), array(b)

    def summed(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        g = g.sum(axis=tuple(range(g.ndim - len(shape))))
        g = g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
        return g.reshape(shape)

    return Array(
        op(a.value, b.value),
        (
            (a, lambda g: summed(pull_a(g, a.value, b.value), a.value.shape)),
            (b, lambda g: summed(pull_b(g, a.value, b.value), b.value.shape)),
        ),
    )


def exp(x: Array) -> Array:
    return elementwise(np.exp(x.value), x, np.exp(x.value))


def log(x: Array) -> Array:
    return elementwise(np.log(x.value), x, 1 / x.value)


def tanh(x: Array) -> Array:
    return elementwise(np.tanh(x.value), x, 1 - np.tanh(x.value) ** 2)


def relu(x: Array) -> Array:
    return elementwise(np.maximum(x.value, 0), x, (x.value > 0).astype(float))


def main() -> None:
    w, b = Array(2.0), Array(1.0)
    loss = (w * 3.0 + b - 5.0) ** 2
    loss.backward()
    print(f"L = {loss.value}, dL/dw = {w.grad}, dL/db = {b.grad}")


if __name__ == "__main__":
    main()
