"""Wengert's functions inside programs of JAX's: `jax.jit`, `jax.vmap`, `jax.lax.scan`, samplers such as BlackJAX.

    density = wengert.interop.jax.function(logp)
    kernel = blackjax.nuts(density, ...)

Needs JAX, an extra.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import DTypeError, GradientError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.graph.snapshot import specs_of
from ..core.spec import spec_of
from ..execute.xla.api import jax, jnp
from ..execute.xla.lower import lower
from ..execute.xla.rules import Trace
from ..ops.random.generator import default_generator
from ..passes.freeze import freeze
from ..transforms.derivatives.functional import value_and_grad
from ..transforms.tracing.trace import trace


def function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that gives one real number as a function of JAX's arrays.

    JAX traces it: it becomes operations of the program that it is called in, on whatever device that runs. Its gradient
    is Wengert's (`jax.grad`, `jax.value_and_grad`). Arguments are pytrees of floating arrays; other arguments, and
    tensors and modules that `fn` finds outside, are constants, as they are while the program is traced. Where `fn`
    would raise an error for its values (an index out of range, a matrix that is singular) value and gradient are NaN.

    Raises, when it is called, GradientError for another result than a real number, DTypeError for float64 where JAX has
    no 64-bit numbers (`jax.config.update("jax_enable_x64", True)`) and for draws with a key, GraphError for what only
    Python computes and for draws from the default generator, and ImportError without JAX.
    """
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def called(graph: Graph, *leaves: Any) -> Any:
        return _lowered(graph, leaves, name)[0]

    def forward(graph: Graph, *leaves: Any) -> tuple[Any, list[Any]]:
        def both(*xs: Any) -> list[Any]:
            found, gradients = value_and_grad(lambda *ys: graph(*ys)[0], tuple(range(len(xs))))(*xs)
            return [found, *gradients]

        value, *gradients = _lowered(trace(both, tuple(n.spec for n in graph.inputs), {}), leaves, name)
        return value, gradients

    def backward(graph: Graph, gradients: list[Any], cotangent: Any) -> tuple[Any, ...]:
        return tuple((cotangent * g).astype(g.dtype) for g in gradients)

    called.defvjp(forward, backward)

    @functools.wraps(fn)
    def of_arrays(*args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        leaves = [jnp.asarray(x) for x in leaves]
        specs = tuple(spec_of(tuple(x.shape), np.dtype(x.dtype)) for x in leaves)
        # Here rather than inside of JAX, so that errors name the line that calls.
        drawn = default_generator.get_state()
        graph = freeze(trace(lambda *xs: [fn(*jax.tree.unflatten(structure, xs))], specs, {}))
        if default_generator.get_state().tolist() != drawn.tolist():
            default_generator.set_state(drawn)
            fail(
                GraphError,
                f"{name} as a function of JAX's draws random numbers from the default generator",
                "JAX's programs would draw the same ones in every run. Draw outside, and pass them as an argument, or "
                "with a key, wg.random.key(n), where they are to be the same.",
            )
        _check(graph, name)
        return called(graph, *leaves)

    return of_arrays


_LONG = frozenset(map(np.dtype, ("float64", "complex128", "int64", "uint64")))


def _check(graph: Graph, name: str) -> None:
    """Raise an error for a graph that is no real function of floating tensors, or has numbers that JAX would cut."""
    what = f"{name}({', '.join(str(n.spec) for n in graph.inputs)}) -> {graph.outputs[0].spec} as a function of JAX's"
    first = graph.outputs[0].spec
    if any(np.dtype(n.spec.dtype).kind != "f" for n in graph.inputs):
        fail(DTypeError, what, "Its arguments are floating: use other arrays inside the function, as constants.")
    if first.shape != () or np.dtype(first.dtype).kind != "f":
        fail(GradientError, what, "It has to return one real number.")
    nodes = graph.expand().nodes
    # What is drawn is made of 64-bit numbers, whatever its dtype.
    if not jax.config.jax_enable_x64 and any(n.op.draws or s.dtype in _LONG for n in nodes for s in specs_of(n)):
        fail(
            DTypeError,
            f"{what}, with numbers of 64 bits that JAX would cut",
            'Write jax.config.update("jax_enable_x64", True) first, or compute in float32.',
        )


def _lowered(graph: Graph, leaves: tuple[Any, ...], name: str) -> list[Any]:
    """Return a graph's outputs for JAX's arrays; NaN if a check fails."""
    lowering = Trace(lower)
    lowering.begin(())  # no input is known before a run, so that all checks are in it
    outputs = lower(graph.expand(), leaves, lowering)
    if lowering.on_host:
        found = ", ".join(lowering.on_host)
        fail(GraphError, f"{found} in {name}, which Python computes", "JAX's programs have no place for it.")
    if not lowering.wrong:
        return outputs
    wrong = lowering.is_wrong()
    return [jnp.where(wrong, jnp.nan, x) for x in outputs]


__all__ = ["function"]
