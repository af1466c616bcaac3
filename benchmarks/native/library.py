"""What formulas and runners need of a library; the base of with_wengert, with_torch and with_jax."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from problem import STEPS, Arrays, Data, Problem, Sizes


@dataclass
class Program:
    """A problem made ready by a contender.

    step: does it once: a call, or one step of training, whose state is kept.
    wait: returns when what `step` returned is computed.
    reset: back to the first state and batch.
    results: from the first state, as NumPy arrays in the layouts of the problem's data.
    """

    step: Callable[[], Any]
    results: Callable[[], Arrays]
    wait: Callable[[Any], Any] = lambda handle: handle
    reset: Callable[[], None] = lambda: None


class Library(ABC):
    """A library as a formula sees it.

    `fns` holds the functions that go by one name in all of them: exp, log, sin, cos, tanh, sqrt,
    einsum, stack, where, zeros_like.
    """

    fns: Any
    # Axes of an image batch over which batch norm takes statistics.
    image_axes: tuple[int, ...] = (0, 2, 3)

    # -- arrays

    @abstractmethod
    def array(self, value: np.ndarray) -> Any: ...

    @abstractmethod
    def host(self, value: Any) -> np.ndarray: ...

    def wait(self, value: Any) -> Any:
        """Return when the value is computed."""
        return value

    def images(self, value: np.ndarray) -> Any:
        """A batch (n, channels, rows, columns) in the library's preferred layout."""
        return self.array(value)

    def filters(self, value: np.ndarray) -> Any:
        """A filter bank (out, in, rows, columns) likewise."""
        return self.array(value)

    def host_filters(self, value: Any) -> np.ndarray:
        return self.host(value)

    def per_channel(self, value: Any) -> Any:
        """A vector shaped to go with a batch of images."""
        return value[:, None, None]

    # -- functions with a version of each library's own

    @abstractmethod
    def relu(self, x: Any) -> Any: ...

    @abstractmethod
    def sigmoid(self, x: Any) -> Any: ...

    @abstractmethod
    def softplus(self, x: Any) -> Any: ...

    @abstractmethod
    def gelu(self, x: Any) -> Any: ...

    @abstractmethod
    def softmax(self, x: Any) -> Any: ...

    @abstractmethod
    def logsumexp(self, x: Any, axis: int) -> Any: ...

    @abstractmethod
    def layer_norm(self, x: Any, gain: Any, bias: Any = None) -> Any: ...

    @abstractmethod
    def cross_entropy(self, logits: Any, labels: Any) -> Any: ...

    @abstractmethod
    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """Causal, for (batch, heads, length, width)."""

    @abstractmethod
    def self_attention(self, qkv: Any, heads: int) -> Any:
        """Causal, for (batch, length, 3 * width) to (batch, length, width)."""

    @abstractmethod
    def conv(self, x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any: ...

    @abstractmethod
    def max_pool(self, x: Any) -> Any:
        """Over squares of 2 by 2."""

    def flatten(self, x: Any) -> Any:
        """Images to rows, channels outermost."""
        return x.reshape(x.shape[0], -1)

    @abstractmethod
    def lstm(self, x: Any, wi: Any, wh: Any, b: Any) -> Any:
        """Hidden states (time, batch, width) for inputs (time, batch, n); gates i, f, g, o."""

    def concat(self, values: Sequence[Any], axis: int) -> Any:
        return self.fns.concat(values, axis)

    @abstractmethod
    def scan(self, fn: Callable[..., Any], carry: Any, xs: Any) -> Any: ...

    # -- derivatives

    @abstractmethod
    def grad(self, fn: Callable[[Any], Any]) -> Callable[[Any], Any]: ...

    @abstractmethod
    def hvp(self, fn: Callable[[Any], Any], x: Any, v: Any) -> Any: ...

    @abstractmethod
    def along(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any, Any]:
        """Value and two derivatives along a direction, of a function with one result for each row of x."""

    @abstractmethod
    def row_jacobian(self, fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        """`fn(x)`, (n, m), and the Jacobian (n, m, k) of each row with respect to its row of x, (n, k)."""

    # -- running

    @abstractmethod
    def compile(self, fn: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]: ...

    @abstractmethod
    def value_and_grad(self, fn: Callable[..., Any], which: tuple[int, ...]) -> Callable[..., Any]:
        """Ready to be called: the value and a sequence of gradients."""

    @abstractmethod
    def trainer(self, problem: Problem, data: Data, loss: Callable[..., Any]) -> Program: ...

    def program(self, problem: Problem, data: Data, sizes: Sizes) -> Program:
        """The problem, made ready."""
        if problem.loss is not None:
            return self.trainer(problem, data, problem.loss(self, sizes))
        if problem.step is not None:
            return self.iteration(data, problem.step(self, sizes))
        assert problem.call is not None
        return self.caller(problem, data, problem.call(self, sizes))

    def caller(self, problem: Problem, data: Data, fn: Callable[..., Any]) -> Program:
        arguments = data["arguments"]
        args = [getattr(self, problem.layouts.get(k, "array"))(a) for k, a in arguments.items()]
        if problem.gradients:
            order = list(arguments)
            run = self.value_and_grad(fn, tuple(order.index(g) for g in problem.gradients))
        else:
            run = self.compile(fn)

        def results() -> Arrays:
            out = run(*args)
            flat = [out[0], *out[1]] if problem.gradients else list(out)
            return {name: self.host(v) for name, v in zip(problem.names, flat, strict=True)}

        return Program(lambda: run(*args), results, self.wait)

    def iteration(self, data: Data, fn: Callable[..., Any]) -> Program:
        given = {k: self.array(v) for k, v in data["given"].items()}
        run = self.compile(fn, donate=(0,))
        state: dict[str, Any] = {}

        def reset() -> None:
            state.update({k: self.array(v) for k, v in data["state"].items()})

        def step() -> Any:
            state.update(run(dict(state), given))
            return state

        def results() -> Arrays:
            reset()
            for _ in range(STEPS):
                step()
            return {k: self.host(v) for k, v in state.items()}

        reset()
        return Program(step, results, lambda s: self.wait(list(s.values())), reset)

    # -- parameters and batches in the library's layouts

    def placed(self, arrays: Arrays) -> dict[str, Any]:
        return {k: self.filters(v) if v.ndim == 4 else self.array(v) for k, v in arrays.items()}

    def fetched(self, values: dict[str, Any]) -> Arrays:
        return {k: self.host_filters(v) if v.ndim == 4 else self.host(v) for k, v in values.items()}

    def batches(self, data: Data) -> list[Sequence[Any]]:
        return [[self.images(a) if a.ndim == 4 else self.array(a) for a in b] for b in data["batches"]]
