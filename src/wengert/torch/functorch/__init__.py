"""`functorch`, PyTorch's older package of function transforms: those of :mod:`wengert.torch.func`.

Beside them there are modules as functions of their parameters.

>>> import wengert.torch as torch
>>> from wengert.torch.functorch import make_functional
>>> run, parameters = make_functional(torch.nn.Linear(2, 1))
>>> run(parameters, torch.ones(1, 2)).shape
torch.Size([1, 1])
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg

from ...core import tree
from ...core.errors import GradientError, GraphError, fail
from ...core.tensor import Tensor as Plain
from .. import func
from ..func import functional_call, stack_module_state
from ..namespace import as_torch


def _older(name: str) -> Any:
    """Return a transform of `torch.func` that warns: its name here is an older one."""
    new = getattr(func, name)

    @functools.wraps(new)
    def run(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"functorch.{name} is the older name of a transform. Please use `torch.func.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **kwargs)

    return run


functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap = map(
    _older,
    ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"),
)


class FunctionalModule:
    """A module as a function of its parameters, and of its buffers where it is made with them."""

    def __init__(self, module: Any, with_buffers: bool) -> None:
        self.stateless_model = module
        self.names = [name for name, _ in module.named_parameters()]
        self.buffer_names = [name for name, _ in module.named_buffers()]
        self.with_buffers = with_buffers

    def __call__(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these parameters; with buffers it is `f(params, buffers, *args)`."""
        given = dict(zip(self.names, params, strict=True))
        if self.with_buffers:
            buffers, *rest = args
            given.update(zip(self.buffer_names, buffers, strict=True))
            args = tuple(rest)
        return functional_call(self.stateless_model, given, tuple(args), kwargs)


def _made(module: Any, disable_autograd_tracking: bool, with_buffers: bool) -> tuple[Any, ...]:
    run = FunctionalModule(copy.deepcopy(module), with_buffers)
    parameters = tuple(
        t.detach().clone().requires_grad_(t.requires_grad and not disable_autograd_tracking)
        for t in module.parameters()
    )
    return (run, parameters, tuple(t.detach().clone() for t in module.buffers())) if with_buffers else (run, parameters)


def make_functional(model: Any, disable_autograd_tracking: bool = False) -> tuple[Any, tuple[Any, ...]]:
    """Return a module as a function `f(params, *args)`, and its parameters, which are copies.

    Raises GradientError for a module with buffers.
    """
    if next(iter(model.buffers()), None) is not None:
        fail(GradientError, "make_functional of a module with buffers", "Write make_functional_with_buffers(model).")
    return _made(model, disable_autograd_tracking, False)


def make_functional_with_buffers(
    model: Any, disable_autograd_tracking: bool = False
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return a module as a function `f(params, buffers, *args)`, its parameters and its buffers, which are copies."""
    return _made(model, disable_autograd_tracking, True)


def combine_state_for_ensemble(models: Sequence[Any]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Return modules of one kind as one function, their parameters and their buffers, each stacked.

    Raises GradientError for no modules, and for modules that differ in their class, or in what trains.
    """
    models = list(models)
    parameters, buffers = stack_module_state(models)
    run = FunctionalModule(copy.deepcopy(models[0]), True)
    return run, tuple(parameters[n] for n in run.names), tuple(buffers[n] for n in run.buffer_names)


class Traced:
    """A function as the graph that it was recorded as, in `graph`; it takes arguments like those of the recording."""

    def __init__(self, graph: Any, structure: Any, given: list[Any]) -> None:
        self.graph, self._structure, self._given = graph, structure, given

    def __call__(self, *args: Any) -> Any:
        """Compute the results. Raises GraphError for other arguments than those that were recorded, but for tensors."""
        leaves = tree.flatten(args)[0]
        tensors = [x for x in leaves if isinstance(x, Plain)]
        if [None if isinstance(x, Plain) else x for x in leaves] != self._given:
            fail(GraphError, "a function of make_fx, called with other arguments than it was recorded with")
        found = self.graph(*tensors)
        outs = found if isinstance(found, (tuple, list)) else [found]
        return tree.unflatten(self._structure, as_torch(list(outs)))


def make_fx(f: Callable[..., Any], **options: Any) -> Callable[..., Traced]:
    """Return the function that records `f` at arguments as a graph, and gives that as a function of its tensors.

    It is :func:`wengert.graph`; options of PyTorch's tracer are taken.

    >>> import wengert.torch as torch
    >>> from wengert.torch.functorch import make_fx
    >>> run = make_fx(torch.func.grad(lambda x: (x**2).sum()))(torch.ones(2))
    >>> run(torch.tensor([1.0, 3.0]))
    tensor([2., 6.])
    """

    def record(*args: Any) -> Traced:
        leaves, structure = tree.flatten(args)
        found: list[Any] = []

        def flat(*tensors: Any) -> tuple[Any, ...]:
            rest = iter(tensors)
            filled = [next(rest) if isinstance(x, Plain) else x for x in leaves]
            outs, made = tree.flatten(f(*tree.unflatten(structure, filled)))
            found[:] = [made]
            return tuple(outs)

        graph = wg.graph(flat)(*[x for x in leaves if isinstance(x, Plain)])
        return Traced(graph, found[0], [None if isinstance(x, Plain) else x for x in leaves])

    return record


__all__ = [
    "FunctionalModule",
    "combine_state_for_ensemble",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "make_functional",
    "make_functional_with_buffers",
    "make_fx",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    return sorted(__all__)
