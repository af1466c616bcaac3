"""The inside of a watched training: activations, one step recorded, checkpoints to go back to.

All of it happens in the training thread, between steps or around one. What is kept has a bound, however long the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Array
from ..core.state.observer import Observer, observing
from ..core.tensor import Tensor
from ..train.snapshot import Snapshot
from .api import Exploration
from .recording import reached
from .recording.names import name_leaves
from .recording.recorder import Recorder
from .recording.recording import recorded

# Bars of a histogram; elements that are counted, spread over the tensor; modules that are told of.
BARS = 32
COUNTED = 4096
MODULES = 48
# Checkpoints that are kept, and their bytes together.
CHECKPOINTS = 12
BYTES = 256 << 20


class Activation(NamedTuple):
    """The distribution of what a module gave: counts of equally wide bars from `low` to `high`."""

    counts: Array
    low: float
    high: float
    mean: float
    std: float
    zeros: float
    bad: int


def distribution(values: Array) -> Activation:
    """Return how a tensor's elements are distributed, by some thousand of them; NaN and infinities apart."""
    flat = np.asarray(values).reshape(-1)
    flat = flat[:: max(1, flat.size // COUNTED)].astype(np.float32)
    good = flat[np.isfinite(flat)]
    if not good.size:
        return Activation(np.zeros(BARS, np.float32), 0.0, 0.0, np.nan, np.nan, 0.0, flat.size)
    low, high = float(good.min()), float(good.max())
    wide = (high - low) or 1.0
    places = np.minimum(((good - low) * (BARS / wide)).astype(np.int64), BARS - 1)
    counts = np.bincount(places, minlength=BARS).astype(np.float32)
    zeros = 1.0 - np.count_nonzero(good) / good.size
    return Activation(counts, low, high, float(good.mean()), float(good.std()), zeros, flat.size - good.size)


class _Inlined(Observer):
    """An observer that wants compiled functions to run as they are written, so that hooks see values."""

    __slots__ = ()


class Activations:
    """The modules of a model whose results are looked at: those without modules of their own."""

    def __init__(self, model: Any) -> None:
        found = list(model.named_modules()) if hasattr(model, "named_modules") else []
        self.modules = [(name, m) for name, m in found if name and not any(True for _ in m.children())][:MODULES]

    @contextmanager
    def seen(self) -> Iterator[dict[str, Activation]]:
        """Run a block as it is written, and give what its modules gave, by their names, the last call's."""
        found: dict[str, Activation] = {}
        with ExitStack() as stack:
            for name, module in self.modules:

                def hook(_: Any, args: Any, out: Any, name: str = name) -> None:
                    if isinstance(out, Tensor) and out._array is not None and out.dtype.kind == "f":
                        found[name] = distribution(out._array)

                handle = module.register_forward_hook(hook)
                stack.callback(handle.remove)
            stack.enter_context(observing(_Inlined()))
            yield found


class Look:
    """The recording of one step, from :meth:`begin` to :meth:`end`."""

    def __init__(self, title: str, model: Any) -> None:
        self._title, self._model = title, model
        self._recorder = Recorder(None)
        self._stack = ExitStack()

    def begin(self) -> None:
        """Begin to record what this thread and others do."""
        self._stack.enter_context(self._recorder.recording())

    def end(self, failed: bool = False) -> Exploration:
        """Return what was recorded."""
        self._stack.close()
        self._recorder.settle(failed)
        recording = recorded(self._recorder)
        inside = reached.tensors([("model", self._model), *self._recorder.variables.items()])
        name_leaves(recording.rows, reached.leaf_names(inside), reached.arrays(self._recorder.variables.items()))
        recording.title, recording.notes = self._title, self._recorder.notes()
        recording.parameters = reached.parameters(inside)
        return Exploration(recording, compiled=False)


class Checkpoints:
    """States of a training to go back to: as many as fit, spread over its steps, the first and the newest."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._model, self._optimizer = model, optimizer
        self._kept: dict[int, Snapshot] = {}
        self._bytes = 0
        # The steps that are kept, in a new list after every change: other threads read it.
        self.steps: list[int] = []

    @property
    def can_keep(self) -> bool:
        """True where there is something to keep, and three states are not too large."""
        if not hasattr(self._model, "parameters"):
            return False
        if not self._bytes:
            states = self._optimizer.state_dict() if self._optimizer is not None else {}
            self._bytes = sum(p.nbytes for p in self._model.parameters()) + _bytes(states) + 1
        return 3 * self._bytes <= BYTES

    def keep(self, step: int) -> None:
        """Keep the present state. Every second of the kept ones goes where there are too many."""
        if not self.can_keep:
            return
        if len(self._kept) >= max(3, min(CHECKPOINTS, BYTES // self._bytes)):
            # The first stays, and of the others those at every second place.
            for at in self.steps[1::2]:
                del self._kept[at]
        self._kept[step] = Snapshot(self._model, self._optimizer)
        self.steps = sorted(self._kept)

    def back(self, step: int) -> bool:
        """Put the state of a step back; later ones are forgotten. False where it is not kept."""
        if step not in self._kept:
            return False
        self._kept[step].restore()
        for at in self.steps:
            if at > step:
                del self._kept[at]
        self.steps = sorted(self._kept)
        return True


def _bytes(state: Any) -> int:
    """Return the bytes of the tensors in dicts and lists."""
    if isinstance(state, Tensor):
        return int(state.nbytes)
    if isinstance(state, Mapping):
        return sum(map(_bytes, state.values()))
    return sum(map(_bytes, state)) if isinstance(state, (list, tuple)) else 0
