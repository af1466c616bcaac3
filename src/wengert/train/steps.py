"""The parts of a training step: what is computed, and so what is compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.errors import DTypeError, GradientError, GraphError, ShapeError, fail
from ..core.mode import no_grad
from ..core.ops.autocast import is_half
from ..core.spec import category, float32
from ..core.tensor import Tensor
from ..execute.jit import jit
from ..nn.utils import clip_grad_norm_
from ..optim.lbfgs import LBFGS
from .feed import inputs_and_target
from .metrics.base import Measured, Metric
from .precision import Precision

# The column of steps that were left out because their gradients overflowed: 1 for such a step, 0 for others.
SKIPPED = "skipped"

Forward = Callable[[Any, Any], tuple[Any, Any]]
Values = dict[str, Any]


def predict(model: Any, batch: Any) -> tuple[Any, Any]:
    """Return what a model makes of a batch's inputs, and the target, its last part."""
    inputs, target = inputs_and_target(batch)
    return model(*inputs), target


class Steps:
    """The computations of a training loop, compiled: gradients, update, both at once, and evaluation.

    One program does a whole step wherever nothing is to be done between the gradients and the update: then no gradient
    is stored.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[..., Any],
        metrics: Mapping[str, Metric],
        forward: Forward | None,
        clip_norm: float | None,
        compile: bool,
        precision: Precision | None = None,
    ) -> None:
        if isinstance(optimizer, LBFGS):
            fail(
                GraphError,
                "fit with LBFGS, whose step evaluates the loss as often as it likes",
                "Write the loop: optimizer.step(closure) for every batch.",
            )
        given = forward or predict
        # What is counted is no part of the programs: they measure with metrics that count nothing.
        measures = {name: _uncounting(metric) for name, metric in metrics.items()}
        compiled = jit if compile else _as_it_is
        precision = precision or Precision()
        scaler = precision.scaler

        @precision
        def computed(batch: Any) -> tuple[Any, Any, Tensor, Values]:
            output, target = _pair(given(model, batch))
            return output, target, *losses(loss(output, target))

        def objective(batch: Any) -> tuple[Tensor, Values, dict[str, Measured]]:
            output, target, total, values = computed(batch)
            with no_grad():
                measured = {name: metric.measure(detached(output), target) for name, metric in measures.items()}
            return total, {name: value.detach() for name, value in values.items()}, measured

        def gradients(batch: Any, share: Any, first: bool, last: bool) -> tuple[Values, dict[str, Measured]]:
            if first:
                optimizer.zero_grad()
            total, values, measured = objective(batch)
            total = total if share is None else total * share
            (total if scaler is None else scaler.scale(total)).backward()
            if last:
                check_reached(optimizer)
            if last and scaler is not None:
                scaler.unscale_(optimizer)
            return values, measured

        def update() -> Values:
            found: Values = {}
            if clip_norm is not None:
                held = [p for group in optimizer.param_groups for p in group["params"]]
                found["grad_norm"] = clip_grad_norm_(held, clip_norm)
            if scaler is None:
                optimizer.step()
            else:
                found[SKIPPED] = scaler.overflowed(optimizer)
                scaler.step(optimizer)
                scaler.update()
            return found

        def whole(batch: Any) -> tuple[Values, dict[str, Measured]]:
            values, measured = gradients(batch, None, True, True)
            values |= update()
            optimizer.zero_grad()
            return values, measured

        def evaluate(batch: Any) -> tuple[Values, dict[str, Measured]]:
            with no_grad():
                _, values, measured = objective(batch)
            return values, measured

        self.compiles = compile
        self.loss_of: Callable[[Any], Tensor] = lambda batch: objective(batch)[0]
        self.gradients = compiled(gradients)
        self.update = compiled(update)
        self.whole = compiled(whole)
        self.evaluate = compiled(evaluate)


def check_reached(optimizer: Any) -> None:
    """Raise GradientError where no parameter of an optimiser has got a gradient: a step would change nothing."""
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if all(p.grad is None for p in held):
        fail(
            GradientError,
            f"the loss depends on none of the {len(held)} parameters of the optimizer",
            f"Give it those of the model that is trained: {type(optimizer).__name__}(model.parameters()).",
        )


def _uncounting(metric: Metric) -> Metric:
    made = copy.copy(metric)
    made.reset()
    return made


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _pair(given: Any) -> tuple[Any, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        mend = "It returns what the loss and the metrics are given: (output, target)."
        fail(DTypeError, f"forward(model, batch) gave a {type(given).__name__}, not a pair", mend)
    return given[0], given[1]


def losses(given: Any) -> tuple[Tensor, Values]:
    """Return the loss to be minimised, and all that a loss function gave by name, "loss" first.

    It gives a scalar; a dict or a named tuple with a `loss` among its scalars; or a pair of the loss and a dict.
    """
    if isinstance(given, tuple) and hasattr(given, "_asdict"):
        given = given._asdict()
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
        given = {"loss": given[0], **{k: v for k, v in given[1].items() if k != "loss"}}
    if not isinstance(given, Mapping):
        given = {"loss": given}
    if "loss" not in given:
        mend = 'The one to be minimised is under "loss".'
        fail(DTypeError, f"the loss function gave a dict of {', '.join(map(repr, given)) or 'nothing'}", mend)
    total = given["loss"]
    if not isinstance(total, Tensor) or category(total.dtype) != 2:
        kind = f"of dtype {total.dtype}" if isinstance(total, Tensor) else f"that is a {type(total).__name__}"
        mend = "It returns a scalar floating tensor, a dict with one under 'loss', or a pair (loss, dict)."
        fail(DTypeError, f"a loss {kind}", mend)
    for name, value in given.items():
        if getattr(value, "shape", ()) != ():
            mend = "Reduce it: its mean over the batch."
            fail(ShapeError, f"the loss function gave {name!r} of shape {tuple(value.shape)}, no scalar", mend)
    values = {name: value if isinstance(value, Tensor) else total.detach() * 0 + value for name, value in given.items()}
    return total, {"loss": total, **values}


def detached(output: Any) -> Any:
    """Return a tensor without its graph, one of half precision in float32; anything else as it is."""
    if not isinstance(output, Tensor):
        return output
    return output.detach().astype(float32) if is_half(output.spec.dtype) else output.detach()


def training_modes(model: Any) -> list[tuple[Any, bool]]:
    """Return the modules of a model with whether each is training."""
    return [(m, m.training) for m in model.modules()] if hasattr(model, "modules") else []


def set_training_modes(modes: Iterable[tuple[Any, bool]]) -> None:
    """Set modules to training or not, each by itself."""
    for module, is_training in modes:
        module.training = is_training
