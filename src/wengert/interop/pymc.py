"""PyMC's models compiled by Wengert, for nutpie's sampler.

    with pymc.Model() as model:
        ...
    trace = nutpie.sample(wengert.interop.pymc.compile(model))

    wengert.interop.pymc.register()
    with model:
        trace = pymc.sample(nuts_sampler="nutpie", nuts_sampler_kwargs={"backend": "wengert"})

PyMC's own functions, its sampler among them, run on Wengert's code in the mode "WENGERT": see
`wengert.interop.pytensor`. Needs PyMC and nutpie, an extra.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pymc
import pytensor
import pytensor.tensor as pt
from pymc.distributions.dist_math import i0e, i1e
from pymc.initial_point import make_initial_point_expression
from pytensor.compile.mode import Mode
from pytensor.compile.ops import ViewOp
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.rewriting.utils import rewrite_graph

import wengert as wg

from ..core.errors import DTypeError, GraphError, fail
from ..core.graph.graph import Graph
from ..core.spec import spec_of
from ..core.state import locks
from ..core.state.collector import seldom
from ..passes.rewrite import rewrite
from ..passes.safer import SAFER
from .nutpie import Variable, model_of
from .pytensor import MODE, Converted, NoRuleError, models, why_not  # noqa: F401 (models: rules of PyMC's ops)
from .pytensor.convert import tensor
from .pytensor.scalars import scalar_function

# PyMC's own scalar ops.
scalar_function.register(type(i0e.scalar_op), lambda op, node: lambda x: wg.special.i0e(tensor(x)))
scalar_function.register(type(i1e.scalar_op), lambda op, node: lambda x: wg.special.i1e(tensor(x)))


@seldom()  # PyTensor's rewrites allocate as much as made the collector walk all that is loaded
def compile(model: Any, *, var_names: Collection[str] | None = None, jitter: bool = True) -> Any:
    """Return a PyMC model as one that `nutpie.sample` draws from, its density and gradient as C functions.

    Data and the lengths of dimensions become constants. `var_names` are the variables that are kept beside the free
    ones (None: all). Chains start at PyMC's initial point; with `jitter`, up to 1 beside it, as PyMC has it.

    The gradient is Wengert's derivative of the density; where a user says otherwise, by `pytensor.gradient.grad_clip`
    and its like, by overrides or by an op of their own, it is PyTensor's.

    Raises GraphError where a part of the model has no native code (it is named) and where there is nothing to draw,
    ImportError without PyMC or nutpie.
    """
    if not isinstance(model, pymc.Model):
        fail(DTypeError, f"compile of a {type(model).__name__}, which is no PyMC model", "Pass a pymc.Model.")
    if not model.free_RVs:
        fail(GraphError, "a PyMC model without free variables", "There is nothing to draw: all of it is observed.")
    for rv in model.free_RVs:
        if model.rvs_to_values[rv].dtype not in ("float32", "float64"):
            fail(
                GraphError,
                f"a PyMC model with the variable {rv.name} of {model.rvs_to_values[rv].dtype}",
                "nutpie's sampler moves in real numbers: sum such a variable out, or sample it by PyMC's own steps.",
            )
    # PyTensor would note for every node where in its own code it was made.
    with model, pytensor.config.change_flags(traceback__limit=0, traceback__compile_limit=0):
        free = [model.rvs_to_values[rv] for rv in model.free_RVs]
        begin = _initial_point(model, jitter)
        shapes = [np.shape(v) for v in begin(0)]
        rest = [v for v in model.unobserved_value_vars if v not in free]
        if var_names is not None:
            rest = [v for v in rest if v.name in var_names]
        logp = model.logp()
        gradients = _gradients_of_pytensor(logp, free)
        kept = [pt.cast(v, "float64") for v in rest]
        function = pymc.pytensorf.compile(free, [logp, *gradients, *kept], mode=_MODE, on_unused_input="ignore")
    density, expanded = _graphs(function, free, shapes, bool(gradients), model)
    variables = [Variable(v.name, shape) for v, shape in zip(free, shapes, strict=True)]
    variables += [Variable(str(v.name), tuple(n.spec.shape)) for v, n in zip(rest, expanded.outputs[1:], strict=True)]
    lock = locks.lock()  # the function has memory of its own, and chains begin in threads

    def first(seed: Any) -> Any:
        with lock:
            found = begin(seed)
        return np.concatenate([np.ravel(v).astype(np.float64) for v in found])

    coords = {
        name: np.arange(int(model.dim_lengths[name].eval())) if labels is None else labels
        for name, labels in model.coords.items()
    }
    numbers = [f"{v.name}{list(i) if i else ''}" for v in variables[: len(free)] for i in np.ndindex(*v.shape)]
    dims = {name: axes for name, axes in model.named_vars_to_dims.items() if None not in axes}
    return model_of(density, expanded, variables, first, model.name or "a model", numbers, dims, coords)


def register() -> None:
    """Add the backend "wengert" to nutpie's, for `pymc.sample`.

        wengert.interop.pymc.register()
        with model:
            trace = pymc.sample(nuts_sampler="nutpie", nuts_sampler_kwargs={"backend": "wengert"})

    nutpie has no list of backends to add to: its function `compile_pymc_model`, which PyMC calls, becomes one that
    knows this backend too and leaves all others to nutpie. What is compiled takes the options of
    `wengert.interop.pymc.compile`. A second call changes nothing. Raises ImportError without nutpie.
    """
    import nutpie

    given = nutpie.compile_pymc_model
    if getattr(given, "has_wengert", False):
        return

    @functools.wraps(given)
    def compile_pymc_model(model: Any, **options: Any) -> Any:
        if str(options.get("backend")).lower() != "wengert":
            return given(model, **options)
        return compile(model, **{name: value for name, value in options.items() if name != "backend"})

    compile_pymc_model.has_wengert = True  # type: ignore[attr-defined]
    nutpie.compile_pymc_model = compile_pymc_model


def _gradients_of_pytensor(logp: Any, free: Sequence[Any]) -> list[Any]:
    """Return PyTensor's gradients of a log density, where they are a user's and not its derivative; else nothing.

    They are where something stops, bounds or scales gradients. Rewrites before them, PyMC's, leave that in its place.
    """
    if all(map(_has_its_derivative, FunctionGraph(outputs=[logp], clone=False).apply_nodes)):
        return []
    stable = rewrite_graph(logp, include=("canonicalize", "stabilize"), exclude=("local_view_op",))
    gradients: list[Any] = pytensor.grad(stable, free, disconnected_inputs="ignore")
    return gradients


def _has_its_derivative(node: Any) -> bool:
    op = node.op
    if isinstance(op, ViewOp) or not type(op).__module__.startswith(("pytensor.", "pymc.")):
        return False
    if any(getattr(op, f"{kind}_overrides", None) is not None for kind in ("lop", "grad")):
        return False
    inner = getattr(op, "fgraph", None)
    return not isinstance(inner, FunctionGraph) or all(map(_has_its_derivative, inner.apply_nodes))


def _initial_point(model: Any, jitter: bool) -> Callable[[Any], list[Any]]:
    """Return a function from a seed to the values of a model's free variables at which a chain begins.

    It is called once for each chain, so it is made without the rewrites that would cost more than its calls.
    """
    plain = Mode("py", RewriteDatabaseQuery(include=["minimum_compile"]))
    with pytensor.config.change_flags(mode=plain):
        values = make_initial_point_expression(
            free_rvs=model.free_RVs,
            rvs_to_transforms=model.rvs_to_transforms,
            initval_strategies=model.rvs_to_initial_values,
            jitter_rvs=set(model.free_RVs) if jitter else set(),
            return_transformed=True,
        )
        # With generators of its own, the model's are left alone.
        values = pymc.pytensorf.replace_rng_nodes(values)
        generators = pymc.pytensorf.find_rng_nodes(values)
        function = pytensor.function([], values)

    def at(seed: Any) -> list[Any]:
        pymc.pytensorf.reseed_rngs(generators, seed)
        # Ops that are graphs themselves compile these when they first run.
        with pytensor.config.change_flags(mode=plain):
            found: list[Any] = function()
        return found

    return at


def _graphs(
    function: Any, free: Sequence[Any], shapes: Sequence[tuple[int, ...]], has_gradients: bool, model: Any
) -> tuple[Graph, Graph]:
    """Return two graphs of a row of numbers, made of a PyTensor function of the free variables.

    The first gives the log density and its gradient as a row, which the function computes where it `has_gradients`. The
    other gives the row itself and what else the function returns. The function's other inputs are constants.
    """
    converted = getattr(function.vm, "jit_fn", None)
    if not isinstance(converted, Converted):
        found = why_not(function.maker.fgraph)
        fail(
            GraphError,
            f"a PyMC model with {found}, which has no rule",
            "Register one: see wg.interop.pytensor.funcify.",
        )
    count = len(free)
    rest = [np.asarray(function.vm.storage_map[v][0]) for v in converted.fgraph.inputs[count:]]
    specs = [spec_of(shape, np.dtype(v.type.dtype)) for v, shape in zip(free, shapes, strict=True)]
    try:
        traced = rewrite(converted.traced([*specs, *rest]).graph, SAFER)
    except NoRuleError as error:
        fail(GraphError, f"a PyMC model that cannot be compiled: {error}", "See wg.interop.pytensor.funcify.")
    ends = np.cumsum([spec.size for spec in specs]).tolist()
    parted = list(zip(ends, specs, strict=True))
    first = 1 + count * has_gradients

    def parts(row: Any) -> list[Any]:
        return [row[end - spec.size : end].reshape(spec.shape).astype(spec.dtype) for end, spec in parted]

    def density(row: Any) -> list[Any]:
        if has_gradients:
            logp, *gradients = traced(*parts(row))[:first]
        else:
            logp, gradients = wg.value_and_grad(lambda *xs: traced(*xs)[0], tuple(range(count)))(*parts(row))
        return [logp.astype(_FLOAT), wg.concat([g.reshape(-1).astype(_FLOAT) for g in gradients])]

    def expanded(row: Any) -> list[Any]:
        return [row, *traced(*parts(row))[first : len(function.maker.fgraph.outputs)]]

    of_row = spec_of((ends[-1],), _FLOAT)
    return wg.graph(density)(of_row), wg.graph(expanded)(of_row)


_FLOAT = np.dtype(np.float64)
# A sum of exponentials under a logarithm stays one operation, whose derivative is a softmax.
_MODE = MODE.excluding("local_log_sum_exp")

__all__ = ["compile", "register"]
