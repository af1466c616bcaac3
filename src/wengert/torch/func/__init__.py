"""Function transforms with PyTorch's names and keywords: `torch.func`.

They are Wengert's: :func:`wengert.grad`, :func:`wengert.vmap`, :func:`wengert.jacobian` and so on; nested in any order.

>>> import wengert.torch as torch
>>> torch.func.vmap(torch.func.grad(lambda x: x**3))(torch.tensor([1.0, 2.0]))
tensor([ 3., 12.])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import wengert as wg

from ...core import tree
from ...core.errors import GradientError, GraphError, ShapeError, StateError, fail
from ...core.tensor import Tensor as Plain
from ...ops.random.generator import default_generator
from ..absent import names_of
from ..autograd.levels import within
from ..namespace import as_torch
from ..nn.module import Module
from ..tensor import Tensor
from .checks import Argnums, axes_begin_like, fitting, giving_tensors
from .writes import Same, returned, tell, telling

# -- vmap


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return the function that maps `func` over an axis of its arguments; see :func:`wengert.vmap`.

    Parameters
    ----------
    in_dims, out_dims: the axis of each argument (None for one that all share) and of each result.
    randomness: "error", "same" or "different": what random numbers drawn inside do.
    chunk_size: so many examples at a time, to bound memory.

    An argument that is written to and returned is the caller's tensor outside, too, or a view of it. Raises ShapeError,
    GraphError.
    """
    inside = _results_checked(within(func, "vmap"))

    def axes_of(args: Any, kwargs: Any) -> list[Any]:
        entries = list(in_dims) if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args)
        axes = [a for entry, arg in zip(entries, args, strict=True) for a in _axes(entry, arg)]
        return axes + [0] * len(tree.flatten(kwargs)[0])

    @functools.wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes_begin_like(in_dims, args)
        same: Same = {}
        alone: list[bool] = []  # whether a result for which there is a tuple of axes came without one

        def run(*xs: Any, **named: Any) -> Any:
            out = inside(*xs, **named)
            alone[:] = [isinstance(out_dims, tuple) and isinstance(out, Plain)]
            return (out,) if alone[0] else out

        told = telling(functools.update_wrapper(run, func, updated=()), same)
        whole = wg.vmap(told, in_dims, (out_dims, 0), None, randomness)  # type: ignore[arg-type]
        out, written = whole(*args, **kwargs)
        if written or same:
            axes = axes_of(args, kwargs)
            tell(written, (args, kwargs), axes)
            out = returned(out, _axes(out_dims, out), same, (args, kwargs), axes)
        return out[0] if alone[0] else out

    if chunk_size is None:
        return mapped
    if chunk_size < 1:
        fail(ShapeError, f"vmap: chunk_size={chunk_size}", "At least one example is taken at a time.")

    @functools.wraps(func, updated=())
    def in_chunks(*args: Any, **kwargs: Any) -> Any:
        axes = axes_of(args, kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        size = next(leaf.shape[a] for leaf, a in zip(leaves, axes, strict=True) if a is not None)
        parts: list[Any] = []
        before = default_generator.get_state() if randomness == "same" else None
        for start in range(0, size, chunk_size):
            if before is not None and parts:
                default_generator.set_state(before)
            cut = [_cut(leaf, a, start, start + chunk_size) for leaf, a in zip(leaves, axes, strict=True)]
            some, named = tree.unflatten(structure, cut)
            parts.append(tree.flatten(mapped(*some, **named)))
        first = tree.unflatten(parts[0][1], parts[0][0])
        places = _axes(out_dims, (first,) if isinstance(out_dims, tuple) and isinstance(first, Plain) else first)
        joined = [
            column[0] if a is None else wg.concat(column, axis=a)
            for a, *column in zip(places, *(found for found, _ in parts), strict=True)
        ]
        return tree.unflatten(parts[0][1], joined)

    return in_chunks


def _results_checked(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        for leaf in tree.flatten(out)[0]:
            if not isinstance(leaf, Plain):
                fail(ShapeError, f"vmap of a function that gives a {type(leaf)!r} as a return", "Return tensors alone.")
        return out

    return run


def _axes(entry: Any, value: Any) -> list[Any]:
    """Return an axis for every leaf of a pytree, from one axis or a pytree of them that begins like it."""
    if entry is None or isinstance(entry, int):
        return [entry] * len(tree.flatten(value)[0])
    if isinstance(entry, Mapping):
        return [a for key in value for a in _axes(entry[key], value[key])]
    return [a for e, v in zip(entry, value, strict=True) for a in _axes(e, v)]


def _cut(leaf: Any, axis: int | None, start: int, stop: int) -> Any:
    return leaf if axis is None else leaf[(slice(None),) * (axis % leaf.ndim) + (slice(start, stop),)]


# -- derivatives


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the gradient function of a function with one number for a result; see :func:`wengert.grad`.

    >>> import wengert.torch as torch
    >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
    tensor(1.)
    """
    return fitting(argnums, wg.grad(giving_tensors(func, "grad", has_aux), argnums, has_aux))


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function of the gradient and the value: `(grad, value)`, or `(grad, (value, aux))`."""
    both = fitting(argnums, wg.value_and_grad(giving_tensors(func, "grad_and_value", has_aux), argnums, has_aux))

    @functools.wraps(func, updated=())
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return gradient_and_value


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of `func(*primals)` and the function that multiplies by its Jacobian's transpose.

    That function gives a tuple with one pytree of gradients for each argument, also where there is only one.

    >>> import wengert.torch as torch
    >>> out, pull = torch.func.vjp(torch.sin, torch.tensor([0.0, 0.0]))
    >>> pull(torch.tensor([1.0, 2.0]))
    (tensor([1., 2.]),)
    """
    out, pull, *aux = wg.vjp(giving_tensors(func, "vjp", has_aux), *primals, has_aux=has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return pull(cotangents)

    return out, vjp_fn, *aux


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return the value of `func(*primals)` and its derivative along `tangents`; see :func:`wengert.jvp`.

    Raises GraphError for `strict`: whether a result depends on the arguments is not looked at.
    """
    if strict:
        fail(GraphError, "jvp(strict=True)", "Leave it out: tangents of what does not depend on the arguments are 0.")
    if not isinstance(primals, tuple) or not primals:
        fail(GraphError, f"jvp: primals {primals!r}", "They are to be a tuple, with an entry for each argument.")
    if not isinstance(tangents, tuple) or tree.structure(primals) != tree.structure(tangents):
        given = f"{tree.structure(tangents)} for primals {tree.structure(primals)}"
        fail(GraphError, f"jvp: tangents {given}", "Both have the same python structure.")
    for leaf in tree.flatten((primals, tangents))[0]:
        if not isinstance(leaf, Plain):
            fail(GraphError, f"jvp: a {type(leaf).__name__}", "Primals and tangents are to only contain tensors.")
    value, tangent, (aux, written) = wg.jvp(_with_aux(func, "jvp", has_aux), primals, tangents, True)
    tell(written, (primals, {}))
    return (value, tangent, aux) if has_aux else (value, tangent)


def _with_aux(func: Callable[..., Any], name: str, has_aux: bool) -> Callable[..., Any]:
    """Return the function that gives beside its result what it gave beside it, and what it wrote to its arguments."""
    run = telling(giving_tensors(func, name, has_aux))

    @functools.wraps(func, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        found, written = run(*args, **kwargs)
        out, aux = found if has_aux else (found, None)
        return out, (aux, written)

    return both


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the value of `func(*primals)` and its derivative there, a function of tangents."""
    return wg.linearize(giving_tensors(func, "linearize", False), *primals)  # type: ignore[no-any-return]


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return the Jacobian function, by a pass backward for each number of the result.

    `chunk_size` is how many passes go at a time; the memory of the result is always one piece. Raises GraphError.

    >>> import wengert.torch as torch
    >>> torch.func.jacrev(lambda x: x**2)(torch.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    inside = giving_tensors(func, "jacrev", has_aux)
    return fitting(argnums, wg.jacobian(inside, argnums, "reverse", has_aux, chunk_size=chunk_size))


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return the Jacobian function, by a pass forward for each number of the arguments.

    All directions have the same random numbers. With `randomness="error"` a draw raises GraphError.
    """
    inside = _without_draws(func) if randomness == "error" else func
    whole = fitting(argnums, wg.jacobian(_with_aux(inside, "jacfwd", has_aux), argnums, "forward", True))

    @functools.wraps(func, updated=())
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        found, (aux, written) = whole(*args, **kwargs)
        tell(written, (args, kwargs))
        return (found, aux) if has_aux else found

    return jacobian


def _without_draws(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        before = default_generator.mark()
        out = func(*args, **kwargs)
        if default_generator.mark() != before:
            fail(
                GraphError,
                "jacfwd of a function that draws random numbers, in the mode randomness='error'",
                'Write jacfwd(f, randomness="same") where all directions may have the same ones.',
            )
        return out

    return run


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return the function of second derivatives, forward over backward."""
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return the function: its tensors are values, so that there is nothing to remove."""
    return within(func, "functionalize")


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """Return the tensor without history, for a look at it inside a transform."""
    return tensor.detach()


# -- modules


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Return what a module gives with other tensors for its parameters and buffers.

    Parameters
    ----------
    parameter_and_buffer_dicts: tensors by the paths of `named_parameters` and `named_buffers`; or several such dicts.
    args, kwargs: the arguments of the call; one that is no tuple is the only one.
    tie_weights: a parameter that the module has under several names is replaced under all of them.
    strict: every parameter and buffer has to be given.

    Raises StateError for names that do not fit, GraphError for one given twice.
    """
    given: dict[str, Any] = {}
    several = isinstance(parameter_and_buffer_dicts, (tuple, list))
    for found in parameter_and_buffer_dicts if several else (parameter_and_buffer_dicts,):
        if twice := given.keys() & found.keys():
            fail(StateError, f"functional_call: {', '.join(sorted(twice))} given twice")
        given.update(found)
    named = dict(module.named_parameters(remove_duplicate=False))
    named.update(module.named_buffers(remove_duplicate=False))
    surplus = [name for name in given if name not in named]
    missing = [name for name in named if name not in given]
    if surplus or (strict and missing):
        fail(StateError, f"functional_call of {type(module).__name__}: no place for {surplus}, nothing for {missing}")
    if tie_weights:
        tied = {id(named[name]): value for name, value in given.items()}
        given = {**{name: tied[id(t)] for name, t in named.items() if id(t) in tied}, **given}
    places = [(module.get_submodule(path), name, value) for path, name, value in map(_place, given.items())]
    before = [owner.__dict__[name] for owner, name, _ in places]
    try:
        for owner, name, value in places:
            owner.__dict__[name] = value
        return module(*(args if isinstance(args, tuple) else () if args is None else (args,)), **(kwargs or {}))
    finally:
        for (owner, name, _), old in zip(places, before, strict=True):
            owner.__dict__[name] = old


def _place(item: tuple[str, Any]) -> tuple[str, str, Any]:
    path, _, name = item[0].rpartition(".")
    return path, name, item[1]


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of modules of one kind, each stacked along a new first axis.

    With :func:`functional_call` and :func:`vmap` they run all at once. The stacked parameters are leaves. Raises
    GradientError for no modules, and for modules that differ in their class, or in what trains.
    """
    models = list(models)
    if not models or any(type(m) is not type(models[0]) for m in models):
        fail(GradientError, "stack_module_state: modules of one class are needed, at least one")
    if any(m.training != models[0].training for m in models):
        fail(GradientError, "stack_module_state: some modules train and others do not")

    def stacked(each: list[dict[str, Any]]) -> dict[str, Tensor]:
        out = {}
        for name, first in each[0].items():
            if any(d[name].requires_grad != first.requires_grad for d in each):
                fail(GradientError, f"stack_module_state: {name} is frozen in some of the modules")
            made = as_torch(wg.stack([d[name].detach() for d in each]))
            out[name] = made.requires_grad_() if first.requires_grad else made
        return out

    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make batch norms inside a module take their statistics from the batch alone. Returns the module."""
    for module in root.modules():
        if hasattr(module, "running_mean") and hasattr(module, "track_running_stats"):
            module.track_running_stats = False
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                if getattr(module, name, None) is not None:
                    setattr(module, name, None)
    return root


__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
