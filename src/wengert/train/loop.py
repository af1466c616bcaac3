"""The training loop."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from ..core import tree
from ..core.errors import DataError, DTypeError, RangeError, fail, warn
from ..core.spec import float32, float64
from ..core.tensor import Tensor
from ..optim.grad_scaler import GradScaler
from .callbacks.checkpointing import ModelCheckpoint
from .callbacks.showing import ProgressBar
from .feed import Feed, rows_of
from .history import History
from .metrics.base import named
from .precision import Precision
from .run import Callback, Run, UnderWay, evaluated
from .steps import Forward, Steps

Path = str | os.PathLike[str]
F = TypeVar("F", bound=Callable[..., Any])

# Keywords of other libraries' training loops, and what says the same here.
_MEANT = {
    "validation_data": "validation=",
    "val_data": "validation=",
    "val_dataloaders": "validation=",
    "eval_dataset": "validation=",
    "eval_set": "validation=",
    "validation_split": "validation=, with the part of the data that you hold out",
    "max_epochs": "epochs=",
    "num_epochs": "epochs=",
    "n_epochs": "epochs=",
    "num_train_epochs": "epochs=",
    "verbose": "progress=",
    "progress_bar": "progress=",
    "scheduler": "schedule=",
    "lr_scheduler": "schedule=",
    "lr": "the optimizer's lr=",
    "learning_rate": "the optimizer's lr=",
    "device": 'model.to("cuda") before the optimizer is made',
    "max_norm": "clip_norm=",
    "gradient_clip_val": "clip_norm=",
    "accumulate_grad_batches": "accumulate=",
    "gradient_accumulation_steps": "accumulate=",
    "early_stopping": "callbacks=[wg.train.EarlyStopping()]",
    "checkpoint_dir": "checkpoint=",
    "output_dir": "checkpoint=",
    "jit": "compile=",
}


def checks_keywords(function: F) -> F:
    """Return a function that refuses a keyword which it does not have with the one that says the same."""
    known = [p.name for p in inspect.signature(function).parameters.values()]

    @functools.wraps(function)
    def checked(*args: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in known:
                meant = _MEANT.get(name, "")
                near = difflib.get_close_matches(name, known, 1)
                mend = f"Use {meant or near[0] + '='}." if meant or near else f"It takes {', '.join(known)}."
                fail(DTypeError, f"{function.__name__}() has no argument {name!r}", mend)
        return function(*args, **keywords)

    return checked  # type: ignore[return-value]


@checks_keywords
def fit(
    model: Any,
    optimizer: Any,
    loss: Callable[..., Any],
    data: Any,
    *,
    epochs: int = 1,
    validation: Any = None,
    metrics: Any = None,
    callbacks: Sequence[Callback] = (),
    schedule: Any = None,
    schedule_by: Literal["epoch", "step"] = "epoch",
    clip_norm: float | None = None,
    accumulate: int = 1,
    forward: Forward | None = None,
    batch_size: int | None = None,
    shuffle: bool = True,
    precision: Any = None,
    scaler: GradScaler | None = None,
    compile: bool = True,
    progress: bool = True,
    checkpoint: Path | None = None,
    resume: bool = True,
) -> History:
    """Train a model, and return the course of it.

    Parameters
    ----------
    model: a module of `wengert.nn` or `wengert.torch.nn`, or a function that reads the optimiser's parameters.
    optimizer: of `wengert.optim` or `wengert.torch.optim`.
    loss: a function of (output, target) that returns a scalar, averaged over the batch's rows; or a dict of scalars
        or a named tuple with a `loss` among them, or a pair of the loss and a dict. The others are columns of the
        history.
    data: batches, whose last part is the target and the others are the model's inputs: a DataLoader, another
        iterable that can be gone through every epoch, a function of the epoch (from 0) that returns one; or a tuple
        of arrays of equal length.
    epochs: how often the data are gone through.
    validation: data of the same kinds, on which the model is evaluated after every epoch (columns `val_...`).
    metrics: a list of metrics, or a dict of them, or of functions of (output, target) that are averaged over rows.
    callbacks: what looks on, see :class:`Callback`.
    schedule: an object whose `step()` sets learning rates (one that takes a number is given the validation loss, the
        loss where there is none); or a function of the number of steps so far that returns the rate.
    schedule_by: whether the schedule's `step()` is called after every "epoch" or every "step".
    clip_norm: the largest norm of all gradients together; their norm is the column `grad_norm`.
    accumulate: the number of batches whose gradients make one step: their mean over all rows.
    forward: a function of (model, batch) that returns the output and the target, for batches of another structure.
    batch_size, shuffle: of a tuple of arrays: the rows of a batch (32), and whether they come in a new order every
        epoch, drawn from a seed that the default generator gives.
    precision: "bf16-mixed" or "16-mixed" (also "bf16", "fp16", the dtypes' names): outputs and losses, also of
        validation, are computed under :class:`wengert.autocast`; or an autocast, such as `torch.autocast("cpu")` for
        PyTorch's list. None, "32-true", "no": in the precision of the operands.
    scaler: of the loss, :class:`GradScaler`; float16 gets one where none is given. A step whose gradients overflow is
        left out, and has 1 in the column `skipped`, of which an epoch has the mean. It is part of checkpoints.
    compile: whether steps are compiled by `wg.jit`.
    progress: whether a bar is shown on standard error.
    checkpoint: a folder for a checkpoint after every epoch; for more choice see :class:`ModelCheckpoint`.
    resume: whether to go on from the last checkpoint in that folder, bit for bit, where there is one.

    The model trains in training mode (a submodule that was set to evaluation stays), is evaluated in evaluation mode,
    and has its own modes afterwards. Ctrl-C ends the run after the step that it meets, with a checkpoint where there
    is a folder for them, and `history.stopped` is "interrupted"; a second one raises KeyboardInterrupt at once.

    Raises DataError for data without batches, RangeError for options out of range, GradientError where the loss depends
    on none of the optimiser's parameters, DTypeError, ShapeError for a loss that is no scalar and for batches
    that are no pairs, DTypeError for an optimiser or a loss that is none, and what the model, the loss or a callback
    raises.

    >>> import wengert as wg
    >>> images, labels = wg.data.load_digits()
    >>> x = images.reshape(len(images), 64)
    >>> _ = wg.manual_seed(0)
    >>> model = wg.nn.Sequential(wg.nn.Linear(64, 32), wg.nn.ReLU(), wg.nn.Linear(32, 10))
    >>> history = wg.train.fit(
    ...     model,
    ...     wg.optim.Adam(model.parameters(), lr=0.01),
    ...     wg.nn.functional.cross_entropy,
    ...     (x[:1500], labels[:1500]),
    ...     epochs=3,
    ...     validation=(x[1500:], labels[1500:]),
    ...     metrics=[wg.train.metrics.Accuracy()],
    ...     progress=False,
    ... )
    >>> bool(history["val_accuracy"][-1] > 0.8)
    True
    """
    for name, number, least in (("epochs", epochs, 0), ("accumulate", accumulate, 1)):
        if not isinstance(number, int) or number < least:
            fail(RangeError, f"{name}={number!r}", f"It is an integer, at least {least}.")
    if clip_norm is not None and not clip_norm > 0:
        fail(
            RangeError,
            f"clip_norm={clip_norm!r}",
            "It is a number above 0, or None.",
        )
    order = "The order is fit(model, optimizer, loss, data)."
    if not hasattr(optimizer, "param_groups"):
        fail(DTypeError, f"an optimizer that is a {type(optimizer).__name__}", order)
    if not callable(loss):
        fail(DTypeError, f"a loss that is a {type(loss).__name__}, no function", order)
    measures = named(metrics)
    meant = Precision(precision, scaler)
    steps = Steps(model, optimizer, loss, measures, forward, clip_norm, compile, meant)
    example = optimizer.param_groups[0]["params"][0]
    feed = Feed(data, batch_size, shuffle, example)
    held_out = None if validation is None else Feed(validation, _size(validation, batch_size), False, example)
    own = [*([ProgressBar()] if progress else []), *([ModelCheckpoint(checkpoint)] if checkpoint is not None else [])]
    looking = [*callbacks, *own]
    run = Run(model, optimizer, steps, feed, held_out, measures, looking, schedule, epochs, accumulate, meant)
    pace = Pace(schedule, schedule_by)

    if resume:
        run.resume()
    with UnderWay(run):
        while run.epoch < epochs and not run.stopped:
            run.begin_epoch()
            run.tell("on_epoch_start")
            for batches in feed.groups(run.epoch, accumulate):
                if not run.step:
                    note_widened(model, batches[0])
                run.batches = batches
                run.tell("on_step_start")
                pace.before_step(run)
                if not train_step(run):
                    break
                pace.after_step(run)
                run.tell("on_step_end")
                if run.stopped:
                    break
            else:
                if run.end_epoch():
                    pace.after_epoch(run)
                    run.tell("on_epoch_end")
    return run.history


def note_widened(model: Any, batch: Any) -> None:
    """Warn where data in float64 have a model in float32 compute in float64."""
    given = batch[:-1] if isinstance(batch, (tuple, list)) else ()
    wide = [x for x in tree.leaves(tuple(given)) if isinstance(x, Tensor) and x.dtype == float64]
    held = list(model.parameters()) if wide and hasattr(model, "parameters") else []
    if held and all(p.dtype == float32 for p in held):
        warn(
            "fit: the data are float64 and the model's parameters float32, so every step computes in float64, which "
            "takes about twice as long. Give x.astype(wg.float32), or convert the model first: "
            'model.to("float64").'
        )


def train_step(run: Run) -> bool:
    """Make the step of the run's batches, and record it. Return False where a callback had the update left out."""
    steps, batches = run.steps, run.batches
    looking = [callback for callback in run.callbacks if callback.needs_gradients(run)]
    rows = [rows_of(batch) for batch in batches]
    in_one = len(batches) == 1 and not looking
    # Each batch's mean counts by its rows, so that the sum is the mean over all rows of the step.
    shares = [n / sum(rows) for n in rows] if len(batches) > 1 else [1.0]
    if in_one:
        found = [steps.whole(batches[0])]
    else:
        scales = shares if len(batches) > 1 else [None]
        last = len(batches) - 1
        found = [steps.gradients(b, scale, i == 0, i == last) for i, (b, scale) in enumerate(zip(batches, scales))]
    names = found[0][0]
    run.values = {name: sum(float(v[name]) * share for (v, _), share in zip(found, shares)) for name in names}
    if not in_one:
        if not run.look_at_gradients(looking):
            run.precision.left_out()
            return False
        run.values |= {name: float(value) for name, value in steps.update().items()}
    run.record([measured for _, measured in found], sum(rows))
    return True


class Pace:
    """A schedule of the learning rate, stepped when it is its time."""

    def __init__(self, schedule: Any, by: str) -> None:
        if by not in ("epoch", "step"):
            fail(DataError, f"schedule_by={by!r}", 'It is "epoch" or "step".')
        self._has_step = hasattr(schedule, "step")
        if schedule is not None and not self._has_step and not callable(schedule):
            mend = "Give one of wg.optim.lr_scheduler, or a function of the number of steps that returns the rate."
            fail(DTypeError, f"a schedule that is a {type(schedule).__name__}", mend)
        self._schedule, self._by = schedule, by
        # As that of ReduceLROnPlateau does.
        self._takes_loss = self._has_step and any(
            p.name in ("metric", "metrics") or (p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD)
            for p in inspect.signature(schedule.step).parameters.values()
        )

    def before_step(self, run: Run) -> None:
        """Set the rate that a function gives for the step."""
        if self._schedule is not None and not self._has_step:
            rate = float(self._schedule(run.step))
            for group in run.optimizer.param_groups:
                group["lr"] = rate

    def after_step(self, run: Run) -> None:
        """Step the schedule where it goes by steps."""
        if self._has_step and self._by == "step":
            self._schedule.step(*([run.values["loss"]] if self._takes_loss else []))

    def after_epoch(self, run: Run) -> None:
        """Step the schedule where it goes by epochs."""
        if self._has_step and self._by == "epoch":
            self._schedule.step(*([run.row.get("val_loss", run.row["loss"])] if self._takes_loss else []))


@checks_keywords
def evaluate(
    model: Any,
    loss: Callable[..., Any],
    data: Any,
    *,
    metrics: Any = None,
    forward: Forward | None = None,
    batch_size: int | None = None,
    precision: Any = None,
    compile: bool = True,
) -> dict[str, Any]:
    """Return the loss and the metrics of a model over data, in evaluation mode, without gradients.

    Parameters are those of :func:`fit`. The loss, and what else the loss function gives, is the mean over all rows. The
    model has its own modes afterwards, and the metrics what they had before.

    Raises DataError for data without batches.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(2, 1)
    >>> _ = wg.nn.init.zeros_(model.weight), wg.nn.init.ones_(model.bias)
    >>> error = wg.train.metrics.MeanAbsoluteError()
    >>> wg.train.evaluate(model, wg.nn.functional.mse_loss, (wg.ones((3, 2)), wg.zeros((3, 1))), metrics=[error])
    {'loss': 1.0, 'mean_absolute_error': 1.0}
    """
    measures = named(metrics)
    steps = Steps(model, None, loss, measures, forward, None, compile, Precision(precision))
    example = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    found = evaluated(model, steps, Feed(data, batch_size, False, example), measures)
    assert found is not None
    return found


def _size(data: Any, batch_size: int | None) -> int | None:
    """Return the size of batches that are made here; None for data that has its own."""
    return batch_size if isinstance(data, tuple) else None
