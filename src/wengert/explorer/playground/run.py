"""Training runs for the playground: they step, they are measured, their states can be kept and restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.arrays import Array
from ...core.errors import DataError, fail
from ...core.tensor import Tensor, wrap
from ...optim import SGD, Adam, Optimizer
from ..api import Exploration
from ..document.stats import num
from .controls import Control, Value
from .draws import Draws

# The share of the last step that momentum keeps.
MOMENTUM = 0.9


@dataclass(frozen=True, slots=True)
class State:
    """The state that the steps after it follow from: settings, parameters, the optimiser's buffers, the generator."""

    options: dict[str, Value]
    parameters: list[Array]
    buffers: list[dict[str, Any]]
    generator: Any

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        arrays = [*self.parameters, *(v for b in self.buffers for v in b.values() if isinstance(v, np.ndarray))]
        return sum(a.nbytes for a in arrays)


@dataclass(frozen=True, slots=True)
class Shown:
    """The data that a page draws: JSON values, and arrays of bytes or half-precision numbers beside them."""

    values: Mapping[str, Any]
    arrays: Mapping[str, Array]


class Run:
    """A training run. An experiment is a class of these: it says what can be set, and what is to be seen.

    A run is a function of its options alone: the same ones give the same numbers, step by step. Between steps all that
    it goes on from is in `parameters`, `optimizer`, `generator` and `options`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    # A few words or a formula beside the title.
    aside: ClassVar[str] = ""
    # The page's view of it: "line", "network", "units", "flow", "script".
    view: ClassVar[str]
    controls: ClassVar[tuple[Control, ...]]
    # The names of the numbers that `measure` gives, in order; the first is the loss.
    series: ClassVar[tuple[str, ...]] = ("loss",)
    # Steps that a run goes for before it pauses, and steps a second to begin with.
    horizon: ClassVar[int] = 40
    pace: ClassVar[float] = 4.0
    # True where states can be kept. Else a step is taken up again by beginning anew.
    keeps: ClassVar[bool] = True

    # True where the graph of every shown step is wanted; else it is recorded when the page asks.
    records_always: ClassVar[bool] = False

    parameters: list[Tensor]
    optimizer: Optimizer

    def __init__(self, options: dict[str, Value]) -> None:
        self.options = options
        self.generator = Draws(int(options["seed"]))

    # -- what an experiment defines

    def step(self) -> None:
        """Train one step."""
        raise NotImplementedError

    def measure(self) -> tuple[float, ...]:
        """Return the present numbers of `series`. Changes nothing."""
        raise NotImplementedError

    def scene(self) -> Shown:
        """Return what stays the same throughout the run."""
        return Shown({}, {})

    def shown(self) -> Shown:
        """Return what is to be seen at present. Changes nothing."""
        return Shown({}, {})

    def restart(self) -> None:
        """Begin anew, where states cannot be kept."""
        raise NotImplementedError

    def record(self) -> Exploration | None:
        """Record one step, forward and backward, for the graph views. Changes nothing; None where it would."""
        return None

    def look(self) -> Exploration:
        """Take the next step and record it, where a step cannot be recorded without being taken."""
        raise NotImplementedError

    # -- the same for all

    def begin(self, parameters: list[Tensor]) -> None:
        """Take the parameters, and an optimiser for them as the options say."""
        self.parameters = parameters
        self.optimizer = self._optimizer()

    def _optimizer(self) -> Optimizer:
        rate = float(self.options["rate"])
        if self.options["method"] == "Adam":
            return Adam(self.parameters, lr=rate)
        return SGD(self.parameters, lr=rate, momentum=MOMENTUM if self.options["method"] == "momentum" else 0.0)

    def set(self, name: str, value: Value) -> None:
        """Change a control that does not restart the run."""
        self.options[name] = value
        if name == "rate":
            for group in self.optimizer.param_groups:
                group["lr"] = float(value)
        elif name == "method":
            self.optimizer = self._optimizer()

    def edit(self, parameter: int, index: int, value: float) -> None:
        """Set one number of a parameter by hand. Raises DataError where there is none."""
        if not 0 <= parameter < len(self.parameters) or not 0 <= index < self.parameters[parameter].size:
            fail(DataError, "edit: there is no such number")
        changed = np.array(self.parameters[parameter].detach().numpy())
        changed.flat[index] = value
        self.parameters[parameter].data = wrap(changed)

    def told(self) -> dict[str, Any]:
        """Return what a script of its own needs to go on from here, as JSON has it."""
        state = self.save()
        return {
            "parameters": [exact(p) for p in state.parameters],
            "buffers": [{name: exact(v) for name, v in buffers.items()} for buffers in state.buffers],
            "generator": list(state.generator),
        }

    def save(self) -> State:
        """Return the state, apart from everything that goes on."""
        return State(
            dict(self.options),
            [np.array(p.detach().numpy()) for p in self.parameters],
            [_copied(self.optimizer.state.get(p, {})) for p in self.parameters],
            self.generator.state,
        )

    def load(self, state: State) -> None:
        """Go on from a state of this run."""
        method = self.options.get("method")
        self.options = dict(state.options)
        for p, value in zip(self.parameters, state.parameters, strict=True):
            p.data = wrap(value.copy())
            p.grad = None
        if self.options.get("method") != method or not all(state.buffers):
            self.optimizer = self._optimizer()
        self.set("rate", self.options["rate"])
        for p, buffers in zip(self.parameters, state.buffers, strict=True):
            if buffers:
                self.optimizer.state.setdefault(p, {}).update(_copied(buffers))
        self.generator.state = state.generator


def exact(values: Any) -> Any:
    """Return numbers, as JSON has them, from which the same values are read: those of single precision are short."""
    if not isinstance(values, np.ndarray):
        return values
    flat = [num(float(f"{v:.9g}") if values.dtype == np.float32 else float(v)) for v in values.reshape(-1)]
    found: Any = np.array(flat, object).reshape(values.shape).tolist()
    return found


def _copied(buffers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in buffers.items()}
