"""Numbers with nilpotent parts: derivatives of any mixed order, exact, with nothing recorded.

A `Jet` is NumPy arrays with coefficients of nilpotent numbers e_1, e_2, ... (e_i^2 = 0; hyper-dual
numbers, Fike and Alonso 2011), one for each derivative in progress. A derivative is a coefficient,
read off element by element; `vmap` is a Python loop. `Oracle` has the functions of `wg` that
`transform_programs` uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


class Jet:
    """A number with nilpotent parts: `parts[s]` is the coefficient of the product of the e_i with bits set in `s`."""

    __array_ufunc__ = None

    def __init__(self, parts: dict[int, Any]) -> None:
        self.parts = {s: np.asarray(p) for s, p in parts.items()}

    @property
    def value(self) -> Any:
        return self.parts[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def each(self, fn: Callable[[Any], Any]) -> Jet:
        return Jet({s: fn(p) for s, p in self.parts.items()})

    def __add__(self, other: Any) -> Jet:
        a, b = self.parts, jet(other).parts
        shape = np.broadcast_shapes(a[0].shape, b[0].shape)
        parts = {s: np.broadcast_to(p, shape) for s, p in a.items()}
        for s, p in b.items():
            parts[s] = parts[s] + p if s in parts else np.broadcast_to(p, shape)
        return Jet(parts)

    def __mul__(self, other: Any) -> Jet:
        return product(np.multiply, self, jet(other))

    def __neg__(self) -> Jet:
        return self.each(np.negative)

    def __sub__(self, other: Any) -> Jet:
        return self + -jet(other)

    def __rsub__(self, other: Any) -> Jet:
        return jet(other) - self

    def __truediv__(self, other: Any) -> Jet:
        return self * series(jet(other), lambda x, n: (-1) ** n * math.factorial(n) / x ** (n + 1))

    def __rtruediv__(self, other: Any) -> Jet:
        return jet(other) / self

    def __pow__(self, n: int) -> Jet:
        out = self
        for _ in range(n - 1):
            out = out * self
        return out

    def __getitem__(self, key: Any) -> Jet:
        return self.each(lambda p: p[key])

    __radd__, __rmul__ = __add__, __mul__


def jet(x: Any) -> Jet:
    return x if isinstance(x, Jet) else Jet({0: np.asarray(x, np.float64)})


def product(fn: Callable[[Any, Any], Any], a: Jet, b: Jet) -> Jet:
    parts: dict[int, Any] = {}
    for s, p in a.parts.items():
        for t, q in b.parts.items():
            if not s & t:
                term = fn(p, q)
                parts[s | t] = parts[s | t] + term if s | t in parts else term
    return Jet(parts)


def series(x: Jet, derivative: Callable[[Any, int], Any]) -> Jet:
    """Return a function of each element, by its Taylor series in the nilpotent part, which ends."""
    rest = Jet({0: np.zeros(x.shape), **{s: p for s, p in x.parts.items() if s}})
    out, power, n = jet(derivative(x.value, 0)), None, 0
    bits = 0
    for s in x.parts:
        bits |= s
    for n in range(1, bits.bit_count() + 1):
        power = rest if power is None else power * rest
        nilpotent = Jet({s: p for s, p in power.parts.items() if s} | {0: np.zeros(x.shape)})
        term = nilpotent.each(lambda p, n=n: p * derivative(x.value, n) / math.factorial(n))
        out = out + Jet({0: np.zeros(x.shape), **{s: p for s, p in term.parts.items() if s}})
    return out


def _tanh(x: Any, n: int) -> Any:
    coefficients = np.array([0.0, 1.0])  # of powers of tanh; d tanh = 1 - tanh^2
    for _ in range(n):
        coefficients = np.polynomial.polynomial.polymul(np.polynomial.polynomial.polyder(coefficients), [1, 0, -1])
    return np.polynomial.polynomial.polyval(np.tanh(x), coefficients)


def _log(x: Any, n: int) -> Any:
    return np.log(x) if n == 0 else (-1) ** (n - 1) * math.factorial(n - 1) / x**n


def _sqrt(x: Any, n: int) -> Any:
    return math.prod(0.5 - k for k in range(n)) * x ** (0.5 - n)


class Oracle:
    """The functions of `wg` that programs use, on `Jet`s."""

    def __init__(self) -> None:
        self.depth = 0

    @contextmanager
    def _bit(self) -> Iterator[int]:
        self.depth += 1
        try:
            yield 1 << (self.depth - 1)
        finally:
            self.depth -= 1

    def sin(self, x: Jet) -> Jet:
        return series(x, lambda v, n: np.sin(v + n * math.pi / 2))

    def cos(self, x: Jet) -> Jet:
        return series(x, lambda v, n: np.cos(v + n * math.pi / 2))

    def exp(self, x: Jet) -> Jet:
        return series(x, lambda v, n: np.exp(v))

    def log(self, x: Jet) -> Jet:
        return series(x, _log)

    def sqrt(self, x: Jet) -> Jet:
        return series(x, _sqrt)

    def tanh(self, x: Jet) -> Jet:
        return series(x, _tanh)

    def sigmoid(self, x: Jet) -> Jet:
        return self.tanh(x * 0.5) * 0.5 + 0.5

    def square(self, x: Jet) -> Jet:
        return x * x

    def sum(self, x: Jet, axis: Any = None) -> Jet:
        return x.each(lambda p: p.sum(axis=axis))

    def mean(self, x: Jet, axis: Any = None) -> Jet:
        return x.each(lambda p: p.mean(axis=axis))

    def cumulative_sum(self, x: Jet, axis: int) -> Jet:
        return x.each(lambda p: p.cumsum(axis))

    def max(self, x: Jet, axis: int) -> Jet:
        largest = x.value == x.value.max(axis=axis, keepdims=True)  # ties share
        return self.sum(x * jet(largest / largest.sum(axis=axis, keepdims=True)), axis)

    def prod(self, x: Jet, axis: int) -> Jet:
        rows = x.each(lambda p: np.moveaxis(p, axis, 0))
        out = rows[0]
        for i in range(1, rows.shape[0]):
            out = out * rows[i]
        return out

    def logsumexp(self, x: Jet, axis: int) -> Jet:
        return self.log(self.sum(self.exp(x), axis))

    def softmax(self, x: Jet, axis: int) -> Jet:
        e = self.exp(x)
        return e / self.sum(e, axis).each(lambda p: np.expand_dims(p, axis))

    def norm(self, x: Jet) -> Jet:
        return self.sqrt(self.sum(x * x))

    def matmul(self, a: Jet, b: Jet) -> Jet:
        return product(np.matmul, a, b)

    def einsum(self, subscripts: str, a: Jet, b: Jet) -> Jet:
        return product(lambda p, q: np.einsum(subscripts, p, q), a, b)

    def reshape(self, x: Jet, shape: tuple[int, ...]) -> Jet:
        return x.each(lambda p: p.reshape(shape))

    def permute_dims(self, x: Jet, axes: tuple[int, ...]) -> Jet:
        return x.each(lambda p: p.transpose(axes))

    def broadcast_to(self, x: Jet, shape: tuple[int, ...]) -> Jet:
        return x.each(lambda p: np.broadcast_to(p, shape))

    def _joined(self, fn: Callable[[list[Any]], Any], xs: Sequence[Jet]) -> Jet:
        keys = {s for x in xs for s in x.parts}
        return Jet({s: fn([np.broadcast_to(x.parts.get(s, 0.0), x.shape) for x in xs]) for s in keys})

    def stack(self, xs: Sequence[Jet]) -> Jet:
        return self._joined(np.stack, xs)

    def concat(self, xs: Sequence[Jet]) -> Jet:
        return self._joined(np.concatenate, xs)

    def where(self, mask: Any, a: Any, b: Any) -> Jet:
        return self._joined(lambda p: np.where(mask, *p), [jet(a), jet(b)])

    def minimum(self, a: Jet, b: Jet) -> Jet:
        return self.where(a.value == b.value, (a + b) * 0.5, self.where(a.value < b.value, a, b))

    def less(self, a: Any, b: Any) -> Any:
        return np.less(jet(a).value, jet(b).value)

    def argmax(self, x: Jet) -> Any:
        return x.value.argmax()

    def count(self, x: Jet) -> Any:
        return np.int64((x.value > 0).sum())

    def number(self, n: Any) -> Jet:
        return jet(np.asarray(n, np.float64))

    def update(self, x: Jet, key: Any, v: Jet) -> Jet:
        def put(pair: list[Any]) -> Any:
            out = np.array(pair[0])
            out[key] = pair[1]
            return out

        return self._joined(put, [x, v])

    def stop_gradient(self, x: Jet) -> Jet:
        return Jet({0: x.value})

    def constant(self, x: Any) -> Jet:
        return jet(x)

    def own_rule(self, x: Jet, kind: int) -> Jet:
        return self.sin(x) * x

    # Transforms.

    def no_grad(self, fn: Any, *args: Jet) -> Jet:
        return self.stop_gradient(fn(*args))

    def checkpoint(self, fn: Any) -> Any:
        return fn

    def traced(self, fn: Any, *args: Jet) -> Jet:
        return fn(*args)

    def along(self, fn: Any, args: Sequence[Jet], i: int, tangent: Jet) -> tuple[Jet, Jet]:
        with self._bit() as bit:
            moved = Jet({bit | s: p for s, p in tangent.parts.items()} | {0: np.zeros(args[i].shape)})
            out = fn(*args[:i], args[i] + moved, *args[i + 1 :])
            value = Jet({s: p for s, p in out.parts.items() if not s & bit})
            slope = {s ^ bit: p for s, p in out.parts.items() if s & bit}
            return value, Jet({0: np.zeros(out.shape)} | slope)

    def jvp(self, fn: Any, args: Sequence[Jet], i: int, tangent: Jet) -> tuple[Jet, Jet]:
        return self.along(fn, args, i, tangent)

    linearize = jvp

    def jacobian(self, fn: Any, args: Sequence[Jet], i: int, mode: str) -> Jet:
        units = np.eye(args[i].value.size).reshape(-1, *args[i].shape)
        columns = self.stack([self.along(fn, args, i, jet(u))[1] for u in units])
        out = columns.shape[1:]
        return columns.each(lambda p: np.moveaxis(p, 0, -1).reshape(out + args[i].shape))

    def grad(self, fn: Any, args: Sequence[Jet], i: int) -> Jet:
        return self.jacobian(fn, args, i, "")

    def value_and_grad(self, fn: Any, args: Sequence[Jet], i: int) -> tuple[Jet, Jet]:
        return fn(*args), self.grad(fn, args, i)

    def autograd(self, fn: Any, args: Sequence[Jet], i: int) -> Jet:
        return self.grad(fn, args, i)

    def vjp(self, fn: Any, args: Sequence[Jet], i: int, ct: Jet) -> Jet:
        return self.grad(lambda *a: self.sum(fn(*a) * ct), args, i)

    def hessian(self, fn: Any, args: Sequence[Jet], i: int) -> Jet:
        def gradient(*inner: Jet) -> Jet:
            return self.grad(fn, inner, i)

        return self.jacobian(gradient, args, i, "")

    def hvp(self, fn: Any, args: Sequence[Jet], i: int, tangent: Jet) -> Jet:
        return self.along(lambda *inner: self.grad(fn, inner, i), args, i, tangent)[1]

    def vmap(self, fn: Any, in_axes: Sequence[int | None], out_axis: int, args: Sequence[Jet]) -> Jet:
        size = next(a.shape[axis] for a, axis in zip(args, in_axes, strict=True) if axis is not None)
        rows = [
            fn(
                *(
                    a if axis is None else a.each(lambda p, j=j, axis=axis: p.take(j, axis))
                    for a, axis in zip(args, in_axes)
                )
            )
            for j in range(size)
        ]
        return self.stack(rows).each(lambda p: np.moveaxis(p, 0, out_axis))

    def cond(self, pred: Any, yes: Any, no: Any, *args: Jet) -> Jet:
        return yes(*args) if pred else no(*args)

    branch = cond

    def switch(self, index: Any, fns: Sequence[Any], *args: Jet) -> Jet:
        return fns[min(max(int(index), 0), len(fns) - 1)](*args)

    def scan(self, fn: Any, init: Jet, xs: Jet, reverse: bool) -> tuple[Jet, Jet]:
        ys = []
        for j in reversed(range(xs.shape[0])) if reverse else range(xs.shape[0]):
            init = fn(init, xs[j])
            ys.append(init * 0.5)
        return init, self.stack(ys[::-1] if reverse else ys)

    def repeat(self, fn: Any, init: Jet, limit: Any) -> Jet:
        for _ in range(min(int(limit), 3)):
            init = fn(init)
        return init

    def fori(self, fn: Any, init: Jet) -> Jet:
        for j in range(2):
            init = fn(init * (1.0 + j))
        return init
