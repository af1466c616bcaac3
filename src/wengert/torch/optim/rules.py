"""The optimisers: the rules of :mod:`wengert.optim` with PyTorch's parameters, defaults, state and groups."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import optim as plain
from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.tensor import Tensor as Plain
from ...core.tensor import asarray, of_class
from ...optim.lbfgs import arrays_of
from ...optim.optimizer import Array, is_on
from ..tensor import Tensor
from .optimizer import Group, Optimizer, State

# Parameters that choose among PyTorch's implementations of one rule: what is computed is the same.
_WAYS = "foreach", "fused", "capturable"


def _rule(rule: type[plain.Optimizer], parameters: str, **attributes: Any) -> Any:
    """Return the optimiser of a rule, whose constructor has these parameters after `params`."""
    name = rule.__name__
    namespace: dict[str, Any] = {}
    exec(f"def __init__(self, params, {parameters}): pass", namespace)
    signature = inspect.signature(namespace["__init__"])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        options = dict(given.arguments)
        params = options.pop("params")
        del options["self"]
        for key, value in options.items():
            if isinstance(value, Plain) and value.size != 1:
                fail(ShapeError, f"Tensor {key} must be 1-element, not {value.spec}")
        if options.get("foreach") and options.get("fused"):
            fail(GraphError, "`fused` and `foreach` cannot be `True` together.")
        if options.get("differentiable"):
            fail(
                GraphError,
                f"{name}(differentiable=True)",
                "For gradients through steps write the step as a function: new = w - lr * grad.",
            )
        _COMPLETED.get(name, _as_given)(options)
        Optimizer.__init__(self, params, options)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{name}.__init__"
    shown = str(signature).removeprefix("(self, params, ").removesuffix(")")
    # Examples stand with the rule, and are run there.
    doc = re.split(r"\n\nParameters\n|\n\n>{3} ", inspect.cleandoc(rule.__doc__ or ""))[0]
    doc = f"""{doc}

    Parameters, with PyTorch's meaning: {shown}. Those named {", ".join(_WAYS)} choose among ways to compute the same
    and are taken; see :class:`wengert.optim.{name}`. Raises ValueError for numbers out of range.
    """
    made = type(name, (Optimizer, rule), {"__init__": __init__, "__doc__": doc, "is_rule": True, **attributes})
    made.__module__, made.__qualname__ = __name__, name
    return made


def _as_given(options: Group) -> None:
    pass


def _decoupled(options: Group) -> None:
    options["decoupled_weight_decay"] = True


def _evaluations(options: Group) -> None:
    if options["max_eval"] is None:
        options["max_eval"] = options["max_iter"] * 5 // 4


# What a constructor adds to what it was given.
_COMPLETED: dict[str, Callable[[Group], None]] = {"AdamW": _decoupled, "LBFGS": _evaluations}


def _has_dampening(self: Optimizer, group: Group) -> bool:
    # The first gradient enters the momentum whole.
    return is_on(group["dampening"]) and is_on(group["momentum"])


SGD = _rule(
    plain.SGD,
    "lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None, "
    "differentiable=False, fused=None",
    counts=False,
    _ticking=_has_dampening,
)
Adam = _rule(
    plain.Adam,
    "lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None, maximize=False, "
    "capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False",
)
AdamW = _rule(
    plain.AdamW,
    "lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False, foreach=None, "
    "capturable=False, differentiable=False, fused=None",
)
Adamax = _rule(
    plain.Adamax,
    "lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, differentiable=False, "
    "capturable=False",
)
NAdam = _rule(
    plain.NAdam,
    "lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *, "
    "foreach=None, maximize=False, capturable=False, differentiable=False",
)
RAdam = _rule(
    plain.RAdam,
    "lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, foreach=None, "
    "maximize=False, capturable=False, differentiable=False",
)
RMSprop = _rule(
    plain.RMSprop,
    "lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, foreach=None, "
    "maximize=False, differentiable=False",
)
Adadelta = _rule(
    plain.Adadelta,
    "lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, "
    "differentiable=False",
)
ASGD = _rule(
    plain.ASGD,
    "lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False, differentiable=False, "
    "capturable=False",
)
Rprop = _rule(
    plain.Rprop,
    "lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, maximize=False, "
    "differentiable=False",
)
Adafactor = _rule(
    plain.Adafactor,
    "lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None, maximize=False",
)
Muon = _rule(
    plain.Muon,
    "lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, "
    "ns_steps=5, adjust_lr_fn=None",
    counts=False,
)


def _only_group(self: Any, param_group: Group) -> None:
    if self.param_groups:
        fail(ShapeError, "LBFGS doesn't support per-parameter options (parameter groups)")
    Optimizer.add_param_group(self, param_group)


def _start_sums(self: Any, param_group: Group) -> None:
    Optimizer.add_param_group(self, param_group)
    # The sums are there before the first step.
    group = self._resolved(self.param_groups[-1])
    for p in group["params"]:
        self._state_of(p, group)


Adagrad = _rule(
    plain.Adagrad,
    "lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False, "
    "differentiable=False, fused=None",
    add_param_group=_start_sums,
)


def _tensors(name: str, value: Any, dtype: Any) -> Any:
    """Return arrays as tensors, and numbers where PyTorch's state has tensors of them."""
    if isinstance(value, list):
        return [_tensors(name, v, dtype) for v in value]
    if isinstance(value, float) and name in ("ro", "al", "H_diag"):
        value = np.asarray(value, dtype)
    return of_class(Tensor, asarray(value)) if isinstance(value, np.ndarray) else value


def _iterate(self: Any, evaluate: Callable[[], tuple[float, Array]], state: State) -> None:
    # The history is computed with as arrays, and kept as tensors.
    known = {name: arrays_of(value) for name, value in state.items()}
    try:
        plain.LBFGS._iterate(self, evaluate, known)
    finally:
        dtype = self._gradient().dtype
        state.update({name: _tensors(name, value, dtype) for name, value in known.items()})


LBFGS = _rule(
    plain.LBFGS,
    "lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, "
    "line_search_fn=None",
    counts=False,
    add_param_group=_only_group,
    _iterate=_iterate,
)


class SparseAdam(Optimizer):
    """Adam for sparse gradients, which there are none of here: making one raises DTypeError."""

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        fail(
            DTypeError,
            "SparseAdam does not support dense gradients, and gradients are dense here, also of Embedding(sparse=True)",
            "Use Adam, whose moments go on in rows that a batch did not look up; SparseAdam's stay.",
        )
