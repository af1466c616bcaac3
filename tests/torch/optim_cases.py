"""What optimisers and schedules are compared on, under PyTorch and under `wengert.torch`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

# Steps of a comparison. L-BFGS makes 20 iterations in each, which rounding soon leads apart.
STEPS, HALF = 20, 10
LBFGS_STEPS, LBFGS_HALF = 2, 1


def problem(lib: Any, number: int) -> tuple[list[Any], Callable[[], Any]]:
    """The parameters of a small problem in float64, and its loss."""
    rng = np.random.default_rng(number)

    def drawn(*shape: int) -> Any:
        return lib.tensor(np.asarray(rng.normal(size=shape)))

    def parameter(*shape: int) -> Any:
        return drawn(*shape).requires_grad_()

    if number == 0:
        params = [parameter(3, 2), parameter(2), parameter(2, 3), parameter()]
        x, y = drawn(6, 3), drawn(6, 3)
        return params, lambda: ((lib.tanh(x @ params[0] + params[1]) @ params[2] * params[3] - y) ** 2).mean()
    params = [parameter(2, 2), parameter(3, 2)]
    target = drawn(3, 2)

    def loss() -> Any:
        p, q = params
        valley = (100 * (p[:, 1] - p[:, 0] ** 2) ** 2 + (1 - p[:, 0]) ** 2).sum()
        return valley * 0.01 + ((q - target) ** 2).sum()

    return params, loss


def optimiser(lib: Any, name: str, params: list[Any], options: dict[str, Any]) -> Any:
    """An optimiser; `lr_tensor` among the options is a rate as a tensor, and Muon takes the matrices."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    if "lr_tensor" in options:
        options["lr"] = lib.tensor(options.pop("lr_tensor"))
    given = [p for p in params if p.ndim == 2] if name == "Muon" else params
    return getattr(lib.optim, name)(given, **options)


def closure(optimizer: Any, loss: Callable[[], Any]) -> Callable[[], Any]:
    """The closure that computes a loss and its gradients."""

    def run() -> Any:
        optimizer.zero_grad()
        found = loss()
        found.backward()
        return found

    return run


def train(optimizer: Any, loss: Callable[[], Any], steps: int, compiled: Any = None) -> None:
    """Make steps; `compiled` makes a function of a step a compiled one."""
    evaluate = closure(optimizer, loss)
    if type(optimizer).__name__ == "LBFGS":
        for _ in range(steps):
            optimizer.step(evaluate)
        return

    def step() -> Any:
        found = evaluate()
        optimizer.step()
        return found

    if compiled is not None:
        step = compiled(step)
    for _ in range(steps):
        step()


def scheduled(lib: Any) -> Any:
    """An optimiser with two groups of other rates."""
    groups = [{"params": [lib.ones(1)]}, {"params": [lib.ones(2)], "lr": 0.03}]
    return lib.optim.SGD(groups, lr=0.1, momentum=0.9)


class Decay:
    """A function of the epoch that is an object."""

    def __init__(self) -> None:
        self.base = 0.9

    def __call__(self, epoch: int) -> float:
        return self.base**epoch


def _of(name: str, *args: Any, **kwargs: Any) -> Callable[[Any, Any], Any]:
    def make(lib: Any, optimizer: Any) -> Any:
        return getattr(lib.optim.lr_scheduler, name)(optimizer, *args, **kwargs)

    return make


def _swa(*args: Any) -> Callable[[Any, Any], Any]:
    return lambda lib, optimizer: import_module(f"{lib.__name__}.optim.swa_utils").SWALR(optimizer, *args)


def _sequence(parts: list[Any], milestones: list[int]) -> Callable[[Any, Any], Any]:
    return lambda lib, o: lib.optim.lr_scheduler.SequentialLR(o, [make(lib, o) for make in parts], milestones)


def _chain(*parts: Any) -> Callable[[Any, Any], Any]:
    return lambda lib, o: lib.optim.lr_scheduler.ChainedScheduler([make(lib, o) for make in parts])


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "lambda": _of("LambdaLR", [lambda epoch: 0.95**epoch, Decay()]),
    "multiplicative": _of("MultiplicativeLR", lambda epoch: 1 - 0.1 / (1 + epoch)),
    "step": _of("StepLR", 7, 0.3),
    "milestones": _of("MultiStepLR", [3, 3, 10, 25]),
    "constant": _of("ConstantLR", 0.25, 6),
    "linear": _of("LinearLR", 0.2, 0.7, 11),
    "linear by default": _of("LinearLR"),
    "exponential": _of("ExponentialLR", 0.93),
    "polynomial": _of("PolynomialLR", 12, 2.0),
    "cosine": _of("CosineAnnealingLR", 9, 0.001),
    "warm restarts": _of("CosineAnnealingWarmRestarts", 5, 2, 0.002),
    "equal restarts": _of("CosineAnnealingWarmRestarts", 4),
    "triangles": _of("CyclicLR", 0.01, 0.3, 5, 8),
    "falling triangles": _of("CyclicLR", [0.01, 0.02], [0.3, 0.4], 4, mode="triangular2"),
    "falling range": _of("CyclicLR", 0.01, 0.3, 5, mode="exp_range", gamma=0.97, cycle_momentum=False),
    "own scale": _of("CyclicLR", 0.01, 0.3, 5, scale_fn=lambda x: 0.99**x, scale_mode="iterations"),
    "one cycle": _of("OneCycleLR", 0.5, total_steps=50),
    "three phases": _of(
        "OneCycleLR",
        [0.5, 0.2],
        epochs=5,
        steps_per_epoch=11,
        anneal_strategy="linear",
        three_phase=True,
        pct_start=0.4,
    ),
    "sequence": _sequence(
        [_of("LinearLR", 0.1, total_iters=5), _of("CosineAnnealingLR", 20), _of("ExponentialLR", 0.9)], [5, 25]
    ),
    "sequence without closed forms": _sequence(
        [_of("ConstantLR", 0.1, 3), _of("MultiplicativeLR", Decay()), _of("CosineAnnealingWarmRestarts", 4)], [4, 15]
    ),
    "sequence of sequences": _sequence(
        [_sequence([_of("LinearLR"), _of("StepLR", 2)], [4]), _of("PolynomialLR", 20)], [10]
    ),
    "chain": _chain(_of("ConstantLR", 0.1, 3), _of("ExponentialLR", 0.9)),
    "swa": _swa(0.05, 7),
    "linear swa": _swa([0.05, 0.5], 7, "linear"),
    "swa at once": _swa(0.05, 0),
}
# Those that a step to an epoch makes sense for.
BY_EPOCH = [n for n in SCHEDULES if not n.startswith(("seq", "chain"))]
EPOCHS = [3, 7, 2, 11, 30]
RESUMED: dict[str, Callable[[Any, Any], Any]] = {
    "StepLR": _of("StepLR", 7, 0.3, last_epoch=9),
    "ExponentialLR": _of("ExponentialLR", 0.9, last_epoch=9),
    "LinearLR": _of("LinearLR", 0.2, 0.7, 11, last_epoch=9),
    "CosineAnnealingLR": _of("CosineAnnealingLR", 9, last_epoch=9),
    "PolynomialLR": _of("PolynomialLR", 12, last_epoch=9),
    "MultiStepLR": _of("MultiStepLR", [3, 12], last_epoch=9),
    "ConstantLR": _of("ConstantLR", 0.5, 14, last_epoch=9),
    "CosineAnnealingWarmRestarts": _of("CosineAnnealingWarmRestarts", 5, 2, last_epoch=9),
}
PLATEAUS: dict[str, dict[str, Any]] = {
    "default": {},
    "max": {"mode": "max", "factor": 0.5, "patience": 2, "threshold": 0.01, "cooldown": 3},
    "absolute": {"threshold_mode": "abs", "patience": 1, "min_lr": [0.02, 0.001]},
    "absolute max": {"mode": "max", "threshold_mode": "abs", "patience": 0, "factor": 0.7},
}


def metrics() -> list[float]:
    """Losses of which one is NaN."""
    found = np.random.default_rng(1).normal(size=40)
    found[7] = np.nan
    return [float(v) for v in found]


def rates(optimizer: Any) -> list[float]:
    """The rate and the momentum of every group."""
    return [float(group[name]) for group in optimizer.param_groups for name in ("lr", "momentum")]


def follow(lib: Any, make: Callable[[Any, Any], Any], steps: int) -> list[list[float]]:
    """The rates at each step under a schedule."""
    optimizer = scheduled(lib)
    schedule = make(lib, optimizer)
    found = [rates(optimizer)]
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        found.append(rates(optimizer))
    return found


def by_epoch(lib: Any, make: Callable[[Any, Any], Any]) -> list[list[float]]:
    """The rates after steps to epochs, and a few more."""
    optimizer = scheduled(lib)
    schedule = make(lib, optimizer)
    optimizer.step()
    found = []
    for epoch in (*EPOCHS, None, None, None):
        schedule.step() if epoch is None else schedule.step(epoch)
        found.append(rates(optimizer))
    return found


def resumed(lib: Any, make: Callable[[Any, Any], Any]) -> list[list[float]]:
    """The rates under a schedule that is taken up at an epoch."""
    optimizer = scheduled(lib)
    for group in optimizer.param_groups:
        group["initial_lr"] = 0.2
    schedule = make(lib, optimizer)
    found = [rates(optimizer)]
    for _ in range(8):
        schedule.step()
        found.append(rates(optimizer))
    return found


def plateau(lib: Any, options: dict[str, Any]) -> list[list[float]]:
    """The rates under a schedule of a metric."""
    optimizer = scheduled(lib)
    schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    found = []
    for value in metrics():
        schedule.step(lib.tensor(value))
        found.append(rates(optimizer))
    return found
