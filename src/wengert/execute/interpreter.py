"""The interpreter: runs a graph node by node, as `graph(*inputs)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..core import tree
from ..core.errors import DTypeError, FeedError, ShapeError, fail, first_line
from ..core.graph.evaluate import run
from ..core.graph.graph import Graph
from ..core.graph.snapshot import specs_of
from ..core.mode import get_mode
from ..core.node import Node
from ..core.spec import show
from ..core.tensor import Tensor, asarray, wrap
from ..transforms.tracing.replay import replay


def call(graph: Graph, /, *args: Any, **kwargs: Any) -> Any:
    """Run a graph: `graph(*inputs)`.

    Parameters
    ----------
    args, kwargs: the inputs, in the pytree that the graph was traced with or one after the other.
        Tensors, arrays and numbers of each input's shape and dtype. Parameters whose tensors the
        graph knows may be left out: they have their present value.

    Returns tensors in the pytree that the traced function returned. The run is recorded where an
    input requires gradients or is abstract, so that graphs are functions like any other.

    Raises FeedError for inputs that are missing, surplus, or of another shape or dtype.

    >>> import wengert as wg
    >>> g = wg.graph(lambda p: p["x"] * p["y"])({"x": wg.spec(()), "y": wg.spec(())})
    >>> g({"x": 2.0, "y": 3.0})
    tensor(6.)
    """
    feeds = feed(graph, args, kwargs)
    if any(t.is_abstract or (t.requires_grad and get_mode().grad) for t in feeds):
        outputs = replay(graph, feeds)
    else:
        outputs = [wrap(v) for v in run(graph, [t._array for t in feeds])]
    return nest_outputs(graph, outputs)


# -- feeding


def feed(graph: Graph, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return tensors for all of the graph's inputs, in order, checked. Raises FeedError."""
    given = _given(graph, args, kwargs)
    needed = [n for n in graph.inputs if n not in graph.bound]
    if len(given) == len(graph.inputs):
        needed = list(graph.inputs)
    elif len(given) != len(needed):
        _wrong_count(graph, len(given), needed)
    found = {n: _checked(graph, n, v) for n, v in zip(needed, given)}
    return [found[n] if n in found else _checked(graph, n, graph.bound[n]) for n in graph.inputs]


def _given(graph: Graph, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return the values given for inputs, in order, from a pytree or a flat call."""
    if graph.in_structure is not None:
        leaves, structure = tree.flatten((tuple(args), dict(sorted(kwargs.items()))))
        if structure == graph.in_structure:
            for i, value in graph.static.items():
                if type(leaves[i]) is not type(value) or leaves[i] != value:
                    fail(
                        FeedError,
                        f"{graph!r} was traced with {value!r} where it is given {leaves[i]!r}",
                        "Python values are part of the graph; pass a tensor or an array for what changes.",
                    )
            return [leaf for i, leaf in enumerate(leaves) if i not in graph.static]
    flat = graph.in_structure is None or all(
        isinstance(a, (Tensor, np.ndarray, np.generic, bool, int, float, complex)) for a in args
    )
    if kwargs or not flat:
        _wrong_nest(graph, args, kwargs)
    return list(args)


def _wrong_nest(graph: Graph, args: Sequence[Any], kwargs: dict[str, Any]) -> NoReturn:
    found = tree.structure((tuple(args), dict(sorted(kwargs.items()))))
    wanted = graph.in_structure
    fail(
        FeedError,
        f"{graph!r} is given the pytree {found}" + (f", not {wanted}" if wanted is not None else ""),
        f"It takes {_signature(graph, graph.inputs)}, or one tensor for each in this order.",
    )


def _wrong_count(graph: Graph, count: int, needed: Sequence[Node]) -> NoReturn:
    missing = [graph.names[n] for n in needed[count:]]
    fail(
        FeedError,
        f"{graph!r} takes {len(needed)} inputs, not {count}" + (f": {', '.join(missing)} missing" if missing else ""),
        f"It takes {_signature(graph, needed)}.",
    )


def _signature(graph: Graph, nodes: Sequence[Node]) -> str:
    return "(" + ", ".join(f"{graph.names[n]}: {n.spec}" for n in nodes) + ")"


def _checked(graph: Graph, node: Node, value: Any) -> Tensor:
    (spec,) = specs_of(node)
    # A function of Python numbers takes the dtype of what it meets, as they do.
    typed = isinstance(value, (Tensor, np.ndarray, np.generic)) and not getattr(value, "is_weak", False)
    try:
        found = asarray(value) if typed else asarray(value, dtype=spec.dtype)
    except (ShapeError, DTypeError) as e:
        fail(FeedError, f"input {graph.names[node]} of {graph!r}: {first_line(e)}")
    if found.spec != spec:
        fail(
            FeedError,
            f"input {graph.names[node]} of {graph!r} takes {show(spec.shape, spec.dtype)}, "
            f"not {show(found.shape, found.dtype)}",
            f"Convert it: x.astype({spec.dtype.name!r})."
            if found.shape == spec.shape
            else "A graph is for the shapes that it was made with; make another one for other shapes.",
        )
    return found


def nest_outputs(graph: Graph, outputs: Sequence[Tensor]) -> Any:
    """Return the results in the pytree of the traced function; else one tensor, or a tuple."""
    if graph.out_structure is not None:
        return tree.unflatten(graph.out_structure, outputs)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


Graph.__call__ = call  # type: ignore[method-assign, assignment]
