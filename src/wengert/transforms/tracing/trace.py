"""Tracing: from a function to its graph, by running it on abstract tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from ...core import tree
from ...core.arrays import refuse_subclass
from ...core.dims import Dim
from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph, is_parameter
from ...core.graph.snapshot import PARAMETER, Given
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node
from ...core.ops.op import LEAF
from ...core.ops.record import abstract_input, resumed
from ...core.spec import Spec, as_dtype, default_float, normalize_shape, spec_of
from ...core.standins import WeakTensor
from ...core.state.capture import FreshLeaves
from ...core.state.refusals import refuse
from ...core.tensor import Tensor, asarray, like
from ...core.tree import Structure
from ..derivatives.reverse import refuse_hooks
from ..derivatives.variables import outer_variables, own_object, run_once


def spec(shape: Any, dtype: Any = None) -> Spec:
    """Return a shape and a dtype, to trace a function with where there is no tensor yet.

    As in :func:`wengert.placeholder` a size may be None or a name, where it is not known.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.spec((3, 4), wg.float64)
    f64[3,4]
    >>> wg.spec((None, 4))
    f32[axis0,4]
    """
    return spec_of(normalize_shape(unknown_sizes(shape)), default_float() if dtype is None else as_dtype(dtype))


def unknown_sizes(shape: Any) -> Any:
    """Return a shape with the unknown sizes that None (after its axis) and strings name."""
    sizes = (shape,) if shape is None or isinstance(shape, str) else shape
    if not isinstance(sizes, (tuple, list)):
        return sizes
    return tuple(Dim.named(n or f"axis{i}") if n is None or isinstance(n, str) else n for i, n in enumerate(sizes))


def graph(fn: Callable[..., Any]) -> Callable[..., Graph]:
    """Return the tracer of a function: `wg.graph(f)(*args)` gives its graph.

    Parameters
    ----------
    fn: a function of pytrees of tensors that returns a pytree of tensors; a module too.

    Returns a function with `fn`'s arguments whose result is the :class:`Graph`. Tensors, arrays and
    specs among the arguments, however nested, become its inputs: only their shapes and dtypes
    matter. Python numbers, strings and other objects are passed on as they are and become part of the
    graph. Tensors that `fn` finds elsewhere become parameters where they require gradients, else
    constants.

    Raises GraphError when `fn` returns something else, TraceError when it needs the value of an input.

    >>> import wengert as wg
    >>> def f(x, params):
    ...     return x * params["w"]
    >>> print(wg.graph(f)(wg.spec((3,)), {"w": wg.spec(())}))
    graph f(x: f32[3], params.w: f32[]) -> f32[3]
      a: f32[3] = broadcast[shape=(3,)] params.w
      b: f32[3] = multiply x a
      return b
    """

    @functools.wraps(fn, updated=())
    def traced(*args: Any, **kwargs: Any) -> Graph:
        return trace(fn, args, kwargs)

    return traced


def trace(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, returns_all: bool = False) -> Graph:
    """Return `graph(fn)(*args, **kwargs)`.

    Raises GraphError where the function `returns_all` that comes of it, and yet writes to an argument or fills the
    gradient of a tensor from outside: nobody would see it.
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    pytree = (args, dict(sorted(kwargs.items())))
    leaves, structure = tree.flatten(pytree)
    given: list[Given] = []
    static: dict[int, Any] = {}
    for i, (leaf, path) in enumerate(zip(leaves, leaf_names(fn, structure), strict=True)):
        refuse_subclass(leaf, name)
        found = _spec_of_leaf(leaf)
        if found is None:
            static[i] = leaf
        else:
            leaves[i] = abstract_input(found, path)
            if isinstance(leaf, Tensor):
                like(leaf, leaves[i])
            given.append(Given(leaves[i], path, is_parameter(leaf)))
    # The function's own objects: a write to one leaves the graph's inputs.
    own = [own_object(leaf) for leaf in leaves]
    inner_args, inner_kwargs = tree.unflatten(structure, own)
    named = zip(own, leaf_names(fn, structure)) if returns_all else ()
    before = [(t, t.node, path) for t, path in named if isinstance(t, Tensor)]
    token = set_mode(get_mode().traced(None))
    try:
        with FreshLeaves():
            inputs = {g.tensor.node for g in given}
            result = run_once(fn, inner_args, inner_kwargs, inputs, _is_inside, fills=not returns_all)
            for t, node, path in before:
                if t.node is not node:
                    _refuse_write(name, path, t)
            made = _closed(fn, name, result, given, structure, static)
    finally:
        reset_mode(token)
    return made


def _refuse_write(name: str, path: str, t: Tensor) -> NoReturn:
    fail(
        GraphError,
        f"{name} writes to its argument {path}, {t.spec}: the caller's tensor would stay as it was",
        "Return the new value, or write to a copy: x.clone(). A step of wg.distribute.jit may write to its arguments.",
        None if t.node is None else str(t.node.source),
    )


def _is_inside(node: Node) -> bool:
    """Return whether a node is the trace's own, or of an enclosing trace, which sees to writes itself."""
    return node.op is not LEAF or bool(node.inputs)


def _closed(
    fn: Callable[..., Any], name: str, result: Any, given: list[Given], structure: Structure, static: dict[int, Any]
) -> Graph:
    """Return the graph from the given inputs to the leaves of a result."""
    out_leaves, out_structure = tree.flatten(result)
    outputs = [resumed(strong(as_result(name, leaf))) for leaf in out_leaves]
    refuse_hooks([o.node for o in outputs if o.node is not None and o.requires_grad], name)
    # A variable that an enclosing transform differentiates in is a parameter, bound to it.
    enclosing = outer_variables(outputs)
    made = Graph.closed(
        outputs,
        [*given, *(Given(v, "", True, bound=True) for v in enclosing)],
        name=name if name.isidentifier() else "",
        names=_outside_names(fn),
        in_structure=structure,
        out_structure=out_structure,
        static=static,
    )
    _refuse_untracked(made, len(given), name)
    return made


def _spec_of_leaf(leaf: Any) -> Spec | None:
    """Return the spec of a leaf that becomes an input; None for one that is passed on."""
    if isinstance(leaf, Spec):
        return leaf
    if isinstance(leaf, Tensor):
        return leaf.spec
    if isinstance(leaf, (np.ndarray, np.generic)):
        return spec_of(leaf.shape, as_dtype(leaf.dtype))
    return None


def as_result(name: str, leaf: Any) -> Tensor:
    """Return a leaf of a traced function's result as a tensor."""
    if isinstance(leaf, Tensor):
        return leaf
    if not isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
        fail(
            GraphError,
            f"{name} returned a {type(leaf).__name__}, which is not a pytree of tensors",
            "Return tensors, arrays or numbers, in any pytree.",
        )
    return asarray(leaf)


def strong(x: Tensor) -> Tensor:
    """Return a result as a graph has it: numbers in the default dtype."""
    return x.strong() if type(x) is WeakTensor else x


def _refuse_untracked(made: Graph, count: int, name: str) -> None:
    for node in made.inputs[count:]:
        if node.op is not PARAMETER:
            refuse(
                f"{name} uses an abstract tensor of another trace, {made.names[node]}: {node.spec}",
                "Pass it as an argument.",
            )


# -- readable names


def leaf_names(fn: Callable[..., Any], structure: Structure) -> Iterator[str]:
    """Yield names for the leaves of `(args, kwargs)`: `x`, `params.w`, `layers.0.bias`."""
    positional, keywords = structure.children
    names = _argument_names(fn, len(positional.children))
    for name, child in zip(names, positional.children, strict=True):
        yield from leaf_paths(child, name)
    for key, child in zip(keywords.aux, keywords.children, strict=True):
        yield from leaf_paths(child, key)


def _argument_names(fn: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return [f"x{i}" for i in range(count)]
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}.{i}" for i in range(count - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return (names + [f"x{i}" for i in range(len(names), count)])[:count]


def leaf_paths(structure: Structure, name: str) -> Iterator[str]:
    """Yield names for the leaves of a pytree that is called `name`, or is itself not named: `params.w`, `w`."""
    if structure.kind is None:
        yield name
        return
    for key, child in zip(_keys(structure), structure.children, strict=True):
        yield from leaf_paths(child, f"{name}.{key}" if name else key)


def _keys(structure: Structure) -> list[str]:
    """Return the names of a pytree's children: keys, fields, or positions."""
    count = len(structure.children)
    fields = getattr(structure.kind, "_fields", structure.aux)
    if isinstance(fields, tuple) and len(fields) == count:
        return [str(f) for f in fields]
    return [str(i) for i in range(count)]


def _outside_names(fn: Callable[..., Any]) -> Mapping[int, str]:
    """Return names for tensors that a function reaches without arguments, by identity."""
    names: dict[int, str] = {}
    for owner in (fn, getattr(fn, "__self__", None)):
        names |= _tensor_names(owner, "")
    inner = inspect.unwrap(fn)
    for name, value in free_variables(inner):
        for key, found in _tensor_names(value, name).items():
            names.setdefault(key, found)
    return names


def free_variables(fn: Any) -> Iterator[tuple[str, Any]]:
    """Yield a function's captured values, closures and globals, with their names."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, fn.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in code.co_names:
        if name in fn.__globals__:
            yield name, fn.__globals__[name]


def _tensor_names(value: Any, prefix: str) -> dict[int, str]:
    if isinstance(value, Tensor):
        return {id(value): prefix}
    if not hasattr(type(value), "named_parameters"):
        return {}
    return {id(t): f"{prefix}.{name}" if prefix else name for name, t in value.named_parameters()}
