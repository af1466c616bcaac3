"""Modules as functions under the path `torch._functorch.make_functional`, and ensembles of new ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ...core.errors import ShapeError, fail
from ..func import stack_module_state
from ..functorch import (
    FunctionalModule,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)


def functional_init_with_buffers(
    model_class: Callable[..., Any], ensemble_shape: Any = (), device: Any = "cpu"
) -> Callable[..., tuple[Any, ...]]:
    """Return the function that makes modules by a class's arguments and gives them as one function of their state.

    It gives `(parameters, buffers, run, parameter_names, buffer_names)`: of one module, or with `ensemble_shape=(n,)`
    of `n` modules, whose state is stacked. Raises ShapeError for an ensemble with more axes.
    """
    shape = tuple(ensemble_shape)
    if len(shape) > 1:
        fail(ShapeError, f"functional_init of an ensemble {shape}", "It has one axis, or none.")

    def made(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        models = [model_class(*args, **kwargs).to(device) for _ in range(shape[0] if shape else 1)]
        run = FunctionalModule(copy.deepcopy(models[0]), True)
        parameters, buffers = stack_module_state(models)
        state = ((parameters, run.names), (buffers, run.buffer_names))
        weights, rest = (tuple(held[n] if shape else held[n][0] for n in names) for held, names in state)
        return weights, rest, _with_arguments(run), tuple(run.names), tuple(run.buffer_names)

    return made


def _with_arguments(run: FunctionalModule) -> Callable[..., Any]:
    """Return a function of state that takes the module's arguments in a tuple, or its only one."""

    def call(parameters: Any, buffers: Any, args: Any) -> Any:
        return run(parameters, buffers, *(args if isinstance(args, tuple) else (args,)))

    return call


def functional_init(
    model_class: Callable[..., Any], ensemble_shape: Any = (), device: Any = "cpu"
) -> Callable[..., tuple[Any, ...]]:
    """Return what :func:`functional_init_with_buffers` does, for modules without buffers."""
    whole = functional_init_with_buffers(model_class, ensemble_shape, device)

    def made(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        parameters, _, run, names, _ = whole(*args, **kwargs)
        return parameters, lambda given, args: run(given, (), args), names

    return made


__all__ = [
    "FunctionalModule",
    "combine_state_for_ensemble",
    "functional_init",
    "functional_init_with_buffers",
    "make_functional",
    "make_functional_with_buffers",
]


def __dir__() -> list[str]:
    return sorted(__all__)
