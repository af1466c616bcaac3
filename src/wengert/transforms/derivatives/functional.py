"""Derivatives as functions of functions: `grad`, `value_and_grad`, `vjp`, over any pytree of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, GradientError, ShapeError, fail
from ...core.mode import get_mode
from ...core.ops.op import TABLE
from ...core.ops.record import filled, same_value
from ...core.spec import category
from ...core.state.capture import Writes
from ...core.tensor import Tensor, as_like, asarray, wrap
from .backward import seed
from .reverse import Reachable, backward_pass, reach
from .variables import Pytree, close, of_number, plain, reaches_others, recorded, split_aux

Argnums = int | Sequence[int]


def grad(
    fn: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the gradient function of a scalar function.

    Parameters
    ----------
    fn: returns a real scalar tensor (with `has_aux` a pair of it and anything else).
    argnums: which positional arguments to differentiate in; each may be a pytree (dict, list, tuple,
        dataclass, module) of floating tensors, arrays and Python floats.
    has_aux: also return the second element of what `fn` returns.
    holomorphic: promise that `fn`, of complex arguments and with a complex result, is complex
        differentiable.

    The gradient of a real function in a complex argument z = x + iy is df/dx + i df/dy, the direction
    of steepest ascent, as in PyTorch (JAX gives its conjugate). With `holomorphic` it is the complex
    derivative f'(z).

    Returns a function with `fn`'s arguments whose result has the pytree structure of the argument
    (a tuple over `argnums` if that is a sequence), zeros where `fn` does not depend on a leaf and
    None at leaves that are not floating. It nests to any order, and where the arguments themselves
    require gradients, as a module's parameters do, so do its results: a loss that is made of them is differentiated
    through them. Under `wg.no_grad()` they are plain values, which takes less time and memory.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.grad(lambda x: x ** 3)(2.0)
    tensor(12.)
    >>> wg.grad(wg.grad(lambda x: x ** 3))(2.0)
    tensor(12.)
    """
    both = value_and_grad(fn, argnums, has_aux, holomorphic)

    @functools.wraps(fn, updated=())
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def value_and_grad(
    fn: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """Return the function of value and gradient: `(value, gradient)`, or `((value, aux), gradient)`.

    Parameters and errors are those of :func:`grad`; DTypeError is raised for a result that has no derivative.

    >>> import wengert as wg
    >>> wg.value_and_grad(lambda p: (p["w"] * 3.0 + p["b"]) ** 2)({"w": 1.0, "b": -1.0})
    (tensor(4.), {'w': tensor(12.), 'b': tensor(4.)})
    """
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn, updated=())
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        numbers = argument_numbers(argnums, len(args), name)
        pytrees = [Pytree(args[i], f"argument {i} of {name}") for i in numbers]
        outer = get_mode()
        writes = Writes(is_trace=False)
        replaced = list(args)
        for i, pytree in zip(numbers, pytrees, strict=True):
            replaced[i] = pytree.tracked
        inputs = [t for pytree in pytrees for t in pytree.variables]
        result = recorded(fn, replaced, kwargs, writes, (args, kwargs), inputs)
        out, aux = split_aux(result, has_aux, name)
        if not isinstance(out, Tensor):
            out = asarray(out)
        if category(out.dtype) < 2:
            fail(
                DTypeError,
                f"the gradient of {name}, which returned {out.spec}",
                "Only floating results have derivatives: x.astype(wg.float32).",
            )
        if holomorphic:
            for t in (out, *inputs):
                if category(t.dtype) != 3:
                    fail(DTypeError, f"the holomorphic derivative of {name} with {t.spec}", "Make it complex first.")
        if out.size == 1 and (holomorphic or category(out.dtype) == 2) and not out.requires_grad:
            grads: list[Any] = [
                _zeros(t) if type(t) is Tensor else as_like(t, of_number(_zeros(t), t, [out])) for t in inputs
            ]
            connected = out.is_abstract
        else:
            ct = wrap(np.ones((), out.dtype)) if holomorphic else None
            ct = seed(out, ct, f"the gradient of {name}")
            assert out.node is not None
            known = reach([out.node])
            connected = out.is_abstract or (outer.grad and reaches_others(out.node, inputs, known))
            grads = pull_back([(out, ct)], inputs, connected, retain=False, known=known)
            if holomorphic:
                grads = [TABLE["conj"].front(g) for g in grads]
        close(inputs, writes)
        if not (connected and outer.grad):
            out, grads = plain(out), list(map(plain, grads))
            aux = tree.map(plain, aux) if has_aux else None
        found = iter(grads)
        per_arg = [pytree.like(found) for pytree in pytrees]
        value = (out, aux) if has_aux else out
        return value, per_arg[0] if isinstance(argnums, int) else tuple(per_arg)

    return value_and_gradient


def vjp(fn: Callable[..., Any], *args: Any, has_aux: bool = False) -> Any:
    """Return the value of `fn(*args)` and a function that multiplies by its Jacobian's transpose.

    Returns `(out, pull)` or `(out, pull, aux)`; `out` may be a pytree, `pull(ct)` takes cotangents in
    its structure and shapes and returns a tuple with one pytree of gradients for every argument. `pull`
    may be called any number of times.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> out, pull = wg.vjp(lambda x, y: x * y, wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0]))
    >>> pull(wg.tensor([1.0, 1.0]))
    (tensor([3., 4.]), tensor([1., 2.]))
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    pytrees = [Pytree(a, f"argument {i} of {name}") for i, a in enumerate(args)]
    outer = get_mode()
    writes = Writes(is_trace=False)
    inputs = [t for pytree in pytrees for t in pytree.variables]
    result, aux = split_aux(recorded(fn, [n.tracked for n in pytrees], {}, writes, args, inputs), has_aux, name)
    leaves, structure = tree.flatten(result)
    # Objects of its own: the caller may write to the result before it pulls back.
    outs = [same_value(leaf) if isinstance(leaf, Tensor) else asarray(leaf) for leaf in leaves]
    connected = any(
        o.is_abstract or (outer.grad and o.node is not None and o.requires_grad and reaches_others(o.node, inputs))
        for o in outs
    )
    close(inputs, writes)

    def pull(cotangents: Any) -> tuple[Any, ...]:
        leaves, found = tree.flatten(cotangents)
        cts = tree.arranged(leaves, found, structure)
        if cts is None:
            fail(GradientError, f"cotangents {found} for a result {structure}", "They must have one structure.")
        pairs = [(o, seed(o, ct, "the pullback")) for o, ct in zip(outs, cts, strict=True)]
        live = [(o, ct) for o, ct in pairs if o.requires_grad]
        record = get_mode().grad and (connected or any(ct.requires_grad for _, ct in live))
        record = record or any(t.is_abstract for pair in live for t in pair)
        pulled = pull_back(live, inputs, record, retain=True)
        grads = iter(pulled if get_mode().grad else map(plain, pulled))
        return tuple(pytree.like(grads) for pytree in pytrees)

    kept = connected and outer.grad
    out = tree.unflatten(structure, list(map(same_value if kept else plain, outs)))
    if has_aux:
        return out, pull, aux if kept else tree.map(plain, aux)
    return out, pull


def pull_back(
    pairs: Sequence[tuple[Tensor, Tensor]],
    inputs: Sequence[Tensor],
    record: bool,
    retain: bool,
    known: Reachable | None = None,
) -> list[Any]:
    """Return the cotangents of `inputs` for pairs of results and their cotangents."""
    roots = [(o.node, ct if record else ct._array) for o, ct in pairs]
    found = backward_pass(
        roots,  # type: ignore[arg-type]
        [t.node for t in inputs],  # type: ignore[misc]
        create_graph=record,
        retain_graph=retain or record,
        known=known,
    )
    out: list[Any] = []
    for t in inputs:
        ct = found.get(t.node)  # type: ignore[arg-type]
        g = _zeros(t) if ct is None else ct if isinstance(ct, Tensor) else wrap(ct)
        out.append(g if type(t) is Tensor else as_like(t, of_number(g, t, [o for o, _ in pairs])))
    return out


def _zeros(t: Tensor) -> Tensor:
    return filled(0, t.spec)


def argument_numbers(argnums: Argnums, count: int, name: str) -> list[int]:
    """Return the positions of the differentiated arguments. Raises ShapeError for one that does not exist."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for i in numbers:
        if not -count <= i < count:
            fail(ShapeError, f"argnums {i} for {name} called with {count} positional arguments")
    return [i % count for i in numbers]
