"""PyMC's models compiled by Wengert, for nutpie's sampler.

    with pymc.Model() as model:
        ...
    trace = nutpie.sample(wengert.interop.pymc.compile(model))

PyMC's own functions, its sampler among them, run on Wengert's code in the mode "WENGERT": see
`wengert.interop.pytensor`. Needs PyMC and nutpie, an extra.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pymc
import pytensor
import pytensor.tensor as pt
from pymc.initial_point import make_initial_point_fn
from pytensor.compile.mode import Mode

from ..core.errors import GraphError, fail
from ..core.graph.graph import Graph
from ..core.spec import spec_of
from ..core.state import locks
from .nutpie import Variable, model_of
from .pytensor import MODE, Converted, NoRuleError, why_not


def compile(model: Any, *, var_names: Collection[str] | None = None, jitter: bool = True) -> Any:
    """Return a PyMC model as one that `nutpie.sample` draws from, its density and gradient as C functions.

    Data and the lengths of dimensions become constants. `var_names` are the variables that are kept beside the free
    ones (None: all). Chains start at PyMC's initial point; with `jitter`, up to 1 beside it, as PyMC has it.

    Raises GraphError where a part of the model has no native code (it is named), ImportError without PyMC or nutpie.
    """
    with model:
        free = [model.rvs_to_values[rv] for rv in model.free_RVs]
        # Called once for each chain: Python code is the quickest to make.
        with pytensor.config.change_flags(mode=Mode("py", "fast_compile")):
            jittered = set(model.free_RVs) if jitter else set()
            begin = make_initial_point_fn(model=model, return_transformed=True, jitter_rvs=jittered)
        point = begin(0)
        rest = [v for v in model.unobserved_value_vars if v not in free]
        if var_names is not None:
            rest = [v for v in rest if v.name in var_names]
        outputs, row = pymc.pytensorf.join_nonshared_inputs(point, [model.logp(), *rest], free)
        logp, *kept = outputs
        size = sum(int(np.size(point[v.name])) for v in free)
        density = pymc.pytensorf.compile([row], [logp, pytensor.grad(logp, row)], mode=MODE)
        values = [pt.cast(v, "float64") for v in kept]
        expansion = pymc.pytensorf.compile([row], [row, *values], mode=MODE)
    expanded = _graph(expansion, size, model)
    variables = [Variable(v.name, tuple(np.shape(point[v.name]))) for v in free]
    shapes = [tuple(n.spec.shape) for n in expanded.outputs[1:]]
    variables += [Variable(str(v.name), shape) for v, shape in zip(rest, shapes, strict=True)]
    lock = locks.lock()  # the function has memory of its own, and chains begin in threads

    def first(seed: Any) -> Any:
        with lock:
            found = begin(seed)
        return np.concatenate([np.ravel(found[v.name]).astype(np.float64) for v in free])

    coords = {
        name: np.arange(int(model.dim_lengths[name].eval())) if labels is None else labels
        for name, labels in model.coords.items()
    }
    numbers = [f"{v.name}{list(i) if i else ''}" for v in variables[: len(free)] for i in np.ndindex(*v.shape)]
    dims = {name: axes for name, axes in model.named_vars_to_dims.items() if None not in axes}
    return model_of(
        _graph(density, size, model), expanded, variables, first, model.name or "a model", numbers, dims, coords
    )


def _graph(function: Any, size: int, model: Any) -> Graph:
    """Return the graph of a PyTensor function of a row of numbers, its other inputs as constants."""
    converted = getattr(function.vm, "jit_fn", None)
    if not isinstance(converted, Converted):
        found = why_not(function.maker.fgraph)
        fail(
            GraphError,
            f"a PyMC model with {found}, which has no rule",
            "Register one: see wg.interop.pytensor.funcify.",
        )
    rest = [function.vm.storage_map[v][0] for v in converted.fgraph.inputs[1:]]
    given = [spec_of((size,), np.dtype(np.float64)), *map(np.asarray, rest)]
    try:
        traced = converted.traced(given)
    except NoRuleError as error:
        fail(GraphError, f"a PyMC model that cannot be compiled: {error}", "See wg.interop.pytensor.funcify.")
    return Graph(traced.graph.outputs[: len(function.maker.fgraph.outputs)], traced.graph.inputs, model.name)


__all__ = ["compile"]
