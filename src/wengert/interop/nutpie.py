"""nutpie's sampler on compiled log densities: it calls C functions, without Python and on as many threads as it likes.

    model = wengert.interop.nutpie.compile(logp, 10)
    trace = nutpie.sample(model)

Needs nutpie, an extra.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ..core import tree
from ..core.errors import DTypeError, fail
from ..core.graph.graph import Graph
from ..distributions.mcmc.layout import Layout
from ..execute.native.callers.entry import Form, Kind
from ..execute.native.callers.functions import CFunction, c_function
from ..passes.freeze import freeze

_FLOAT = np.dtype(np.float64)


class Variable(NamedTuple):
    """A variable that is kept of each draw: its name, its shape."""

    name: str
    shape: tuple[int, ...]


def compile(
    logp: Callable[[Any], Any],
    initial: Any,
    *,
    expand: Callable[[Any], Mapping[str, Any]] | None = None,
    jitter: float = 1.0,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> Any:
    """Return a density as a model that `nutpie.sample` draws from.

    Parameters
    ----------
    logp: the logarithm of the density, up to a constant: a function of one position, a pytree of float64 tensors that
        may be any numbers. It returns a scalar. Tensors and modules that it finds outside are taken as they are now.
    initial: a position, with values; or a number n, for a vector of as many zeros.
    expand: what is kept of a draw: a function from a position to a dictionary of tensors. None keeps the position,
        under the names of its dictionary, `x` where it is a single tensor.
    jitter: how far from `initial` chains start: uniform, so much to both sides.
    dims, coords: names of the variables' axes, and their labels, for ArviZ.

    Raises DTypeError, GraphError for a function that needs Python, and ImportError without nutpie.
    """
    start = wg.zeros((initial,), dtype=_FLOAT) if type(initial) is int else initial
    layout = Layout(start)
    if layout.dtype != _FLOAT:
        fail(DTypeError, f"nutpie.compile at a position of {layout.dtype}", "nutpie's numbers are float64.")
    row = wg.spec((layout.size,), _FLOAT)
    density = layout.density(logp)
    graph = freeze(wg.graph(lambda x: list(density(x)))(row))

    def kept(x: Any) -> list[Any]:
        found = layout.tree(x)
        values = (
            dict(zip(layout.leaf_names, tree.leaves(found), strict=True)) if expand is None else dict(expand(found))
        )
        variables[:] = [Variable(name, tuple(wg.asarray(v).shape)) for name, v in values.items()]
        return [wg.asarray(v).astype(_FLOAT) for v in values.values()]

    variables: list[Variable] = []
    expansion = freeze(wg.graph(kept)(row))
    first = layout.first.numpy()

    def begin(seed: Any) -> Any:
        return first + np.random.default_rng(seed).uniform(-jitter, jitter, layout.size)

    name = getattr(logp, "__name__", type(logp).__name__)
    return model_of(graph, expansion, variables, begin, name, layout.names, dims or {}, coords or {})


def model_of(
    graph: Graph,
    expansion: Graph,
    variables: Sequence[Variable],
    begin: Callable[[Any], Any],
    name: str,
    numbers: Sequence[str],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Any],
) -> Any:
    """Return a nutpie model of a log density with its gradient, and of the graph of what is kept of a draw.

    `begin` gives a first position for a seed, `numbers` has the names of the density's arguments.
    """
    import pandas as pd
    from nutpie.compile_pymc import CompiledPyMCModel

    functions = _functions(graph, expansion, name)
    ends = np.cumsum([int(np.prod(v.shape)) for v in variables]).tolist()
    slices = [slice(end - int(np.prod(v.shape)), end) for v, end in zip(variables, ends, strict=True)]
    info = ([v.name for v in variables], slices, [v.shape for v in variables])
    # Newer versions keep a table of shared variables, of which there are none.
    tables = {"shared_data", "shared_var_keys"} & {field.name for field in dataclasses.fields(CompiledPyMCModel)}
    return CompiledPyMCModel(
        **{table: {} for table in tables},
        dims={k: tuple(v) for k, v in dims.items()},
        _n_dim=graph.inputs[0].spec.size,
        _shapes={v.name: v.shape for v in variables},
        _coords={**{k: pd.Index(v) for k, v in coords.items()}, "unconstrained_parameter": pd.Index(list(numbers))},
        compiled_logp_func=functions[0],
        compiled_expand_func=functions[1],
        initial_point_func=begin,
        user_data=np.zeros((), np.uint8),
        n_expanded=ends[-1] if ends else 0,
        shape_info=info,
        logp_func=functions[0],
        expand_func=functions[1],
    )


def _functions(graph: Graph, expansion: Graph, name: str) -> tuple[CFunction, CFunction]:
    return (
        c_function(graph, Kind.LOGP_AND_GRAD, Form.VECTOR, name),
        c_function(expansion, Kind.EXPAND, Form.VECTOR, f"what is kept of {name}"),
    )


__all__ = ["Variable", "compile"]
