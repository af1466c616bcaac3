"""Live training in the browser: the page `watch` of the local server, and what is told to it.

The training thread only appends to a queue. The server's thread empties it four times a second, thins it to as many
points as a chart can show, and sends the open pages the newest state. Messages are those of :mod:`.server`, in the
protocol `wengert.watch/1`:

| type | and |
| --- | --- |
| `welcome` | `protocol`, `title`, `parameters`: name, shape and size of each; `every`: null where the cost decides |
| `frame` | `frame`, `state`, `note`, `step`, `epoch`, `epochs`, `seconds`, `rate` (steps a second), `memory` (bytes), |
| | `idle`: seconds without a step; `values` and `valued`: of the last step that was told of, and which it is; |
| | `rows`: the table of epochs; `sampled`: the step of the last sample; `paused`; |
| | `checkpoints`: steps to go back to, `returns`: pairs of steps, at which and to which it went back; arrays |
| `modules` | `names`; arrays `steps`, and for each `norm0`, `ratio0`, ...: gradient norms, updates by weights |
| `activations` | `step`, `names`; arrays `counts` (histograms), `low`, `high`, `mean`, `std`, `zeros`, `bad` |
| `inside` | `step`, `document`: one step as a recording, packed as pages carry them |
| `error` | `text` |

From the page: `pause` (`on`), `step` (make one and pause again), `look` (record the next step), `back` (`step`: put the
state of a checkpoint back). Where nobody looks on any more, a paused training goes on.

The arrays: `steps`, `mean`, `low`, `high`, `smooth` of the loss; `norm_steps`, `norm` of all gradients; and of the
parameters, in their order, `gradient` and `weight` (norms) and `ratio` of the last sample. Where runs are kept in a
folder there is `runs`: `titles` of the others there, and arrays `steps0`, `loss0`, `steps1`, ... of each.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import sys
import threading
import time
import webbrowser
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Literal

import numpy as np

from ..core.arrays import Array
from ..core.errors import DTypeError, ShapeError, fail
from ..core.tensor import Tensor
from .inside import Activation, Activations, Checkpoints, Look
from .page import packed as packed_document
from .playground.protocol import packed
from .runs import SUFFIX, keep, runs_in
from .server import Conversation, Message, Post, Server

VERSION = "wengert.watch/1"
# Seconds between two frames, more where they would take more than a share of the time, and between looks at what was
# told where no page is open; points of a curve; rows of the table; parameters that are told of.
FRAME, FRAMES = 0.25, 0.004
UNSEEN = 1.0
POINTS = 600
ROWS = 200
PARAMETERS = 300
# Seconds without a step after which the last one is told of, where steps are told of now and then.
IDLE = 1.0
# Seconds between two writings of a history; other runs that are shown.
KEEPING = 5.0
OTHERS = 12
# Steps between two samples where nobody says so, and the shares of the time that may then be taken: by telling of
# single steps, by samples, by looks at activations with the states that are kept. Where they would take more they come
# more seldom. What the server's thread does with them counts, for it keeps the training from Python. What cannot be
# measured, such as code and data that a look drives out of the caches, has the rest of 2 %.
# The first steps are all told of: a few are no training, and are looked at one by one.
EVERY = 200
FIRST = 50
TELLING, SAMPLING, KEEPING_STATES = 0.002, 0.003, 0.002
# Modules whose norms are drawn, and points of each; samples between two looks at activations and states that are kept;
# seconds that a paused training waits for a page to come back.
MODULES = 24
MODULE_POINTS = 120
RARELY = 10
ALONE = 20.0

State = Literal["training", "validating", "finished", "stopped", "failed"]


class Series:
    """A series of unknown length in at most so many points: neighbours are merged as it grows.

    A point has the first of its steps, and the mean, least and largest of its values. NaN stays.
    """

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        self._width = 1
        # Columns that NumPy reads in place.
        self._steps, self._sums, self._counts, self._low, self._high = (array("d") for _ in range(5))

    def add(self, step: int, value: float) -> None:
        """Add the value of a step."""
        self.extend([step], [value])

    def extend(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Add the values of steps."""
        firsts, sums, counts, lows, highs = self._steps, self._sums, self._counts, self._low, self._high
        width, full = self._width, 2 * self._points
        for step, value in zip(steps, values):
            if counts and counts[-1] < width:
                sums[-1] += value
                counts[-1] += 1
                # As `min` and `max` have it where one of them is NaN.
                if value < lows[-1]:
                    lows[-1] = value
                if value > highs[-1]:
                    highs[-1] = value
                continue
            if len(firsts) >= full:
                self._merge()
                firsts, sums, counts, lows, highs = self._steps, self._sums, self._counts, self._low, self._high
                width = self._width
            firsts.append(step)
            sums.append(value)
            counts.append(1)
            lows.append(value)
            highs.append(value)

    def _merge(self) -> None:
        """Make one point of every two."""
        steps, sums, counts, low, high = (
            np.array(column).reshape(-1, 2) for column in (self._steps, self._sums, self._counts, self._low, self._high)
        )
        self._steps, self._sums = array("d", steps[:, 0]), array("d", sums.sum(1))
        self._counts = array("d", counts.sum(1))
        self._low, self._high = array("d", low.min(1)), array("d", high.max(1))
        self._width *= 2

    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Return the points' steps, means, least and largest values, float32."""
        mean = np.array(self._sums) / np.array(self._counts)
        steps, low, high = (np.array(column, np.float32) for column in (self._steps, self._low, self._high))
        return steps, mean.astype(np.float32), low, high


class Pace:
    """The steps in which something is done now and then.

    With a `share` of the time, it comes in steps 1, 2, 4, 8 ... until these are `every` apart, so that slow trainings
    are seen early, and more seldom where it takes more. Without one it comes in the first step and in every so many.
    """

    def __init__(self, every: int, share: float | None) -> None:
        self._every, self._share = every, share
        # The next step in which it is done, counted from 1.
        self.next = 1
        # One that a busy machine held up, or that loaded something, tells nothing.
        self._took: deque[float] = deque(maxlen=3)
        self._steps: deque[float] = deque(maxlen=3)
        self._last: tuple[int, float] | None = None

    def done(self, step: int, seconds: float, now: float) -> None:
        """Take note of how long it took in this step, and what the clock of the training says."""
        least = gap = self._every if self._share is None else min(self._every, step)
        if self._share is not None:
            self._took.append(seconds)
            if self._last is not None and step > self._last[0]:
                self._steps.append(max(1e-9, (now - self._last[1] - seconds) / (step - self._last[0])))
                took = sorted(self._took)[(len(self._took) - 1) // 2]
                gap = max(gap, math.ceil(took / (self._share * min(self._steps))))
            self._last = step, now
        self.next = (step // least + -(-gap // least)) * least


class Watched:
    """The state of a training that is watched, and its conversations: the application that the server shows."""

    kind: Literal["watch"] = "watch"

    def __init__(
        self,
        title: str,
        parameters: Sequence[tuple[str, Tensor]],
        every: int | None,
        history: str | os.PathLike[str] | None = None,
        model: Any = None,
        optimizer: Any = None,
    ) -> None:
        if every is not None and every < 1:
            fail(ShapeError, f"every={every}", "Gradients are sampled every so many steps, at least 1.")
        self.title = title
        self._model = model
        self.activations = Activations(model)
        self._checkpoints = Checkpoints(model, optimizer)
        self._groups = _modules([name for name, _ in list(parameters)[:PARAMETERS]])
        self._module_series = [(Series(MODULE_POINTS), Series(MODULE_POINTS)) for _ in self._groups]
        self._activations: Message | None = None
        # What the page has asked for, and what of it holds.
        self._wishes: deque[tuple[str, Any]] = deque()
        self._wished: SimpleQueue[None] = SimpleQueue()  # as many as wishes: who waits is woken
        self._paused = self._looks = False
        self._look: Look | None = None
        self._returns: list[tuple[int, int]] = []
        self.document: Mapping[str, Any] = {}
        self.every = every
        self._tells = Pace(1, TELLING if every is None else None)
        self._samples = Pace(every or EVERY, SAMPLING if every is None else None)
        self._states = Pace(RARELY * (every or EVERY), KEEPING_STATES if every is None else None)
        # The next step, counted from 1, in which there is anything to do; 0 as soon as the page wants something.
        self.due = 1
        # Seconds that parts of a look have taken; of what stands behind telling those of the time before.
        self._sampling = self._observing = self._telling = 0.0
        # Seconds that the server's thread takes for a step that it is told of, and for a sample.
        self._taking_step = self._taking_sample = 0.0
        # Seconds that it took to make the last frame.
        self.making = 0.0
        self._parameters = list(parameters)[:PARAMETERS]
        self._queue: deque[tuple[Any, ...]] = deque()
        self._posts: list[Post] = []
        self._loss, self._smooth, self._norm = Series(), Series(), Series()
        self._average, self._weight, self._averaged = 0.0, 0.0, 0
        # How many steps were made, also those that were not told of, where the training says so.
        self.made: Callable[[], int] = lambda: 0
        # The last of them, and what it returned.
        self.latest: Callable[[], tuple[int, Any]] = lambda: (0, None)
        self._moved = (0, time.monotonic())
        self._rows: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {"step": 0, "epoch": 0, "epochs": 0, "values": {}}
        self._sample: dict[str, Array] = {}
        self._sampled = 0
        self._state: State = "training"
        self._note = ""
        self._begun = self._ended = time.monotonic()
        self._rates: deque[tuple[float, int]] = deque(maxlen=round(3 / FRAME))
        self._folder = None if history is None else Path(history)
        self._file = None if self._folder is None else self._folder / (_file_name(title) + SUFFIX)
        self._kept = time.monotonic()
        self._before: list[Array] | None = None
        self._gradients: list[float] = []
        self._takes: dict[str, Callable[..., None]] = {
            "row": self._rows.append,
            "state": self._take_state,
            "sample": self._take_sample,
            "activations": self._take_activations,
            "inside": self._take_inside,
        }

    # -- from the training thread

    def step(self, step: int, values: Mapping[str, float], epoch: int = 0, epochs: int = 0) -> None:
        """Tell of a step that was made."""
        self._queue.append(("step", step, values, epoch, epochs))

    def row(self, row: Mapping[str, Any]) -> None:
        """Tell of an epoch that has ended."""
        self._queue.append(("row", {name: float(value) for name, value in row.items() if not np.ndim(value)}))

    def state(self, state: State, note: str = "") -> None:
        """Tell how things stand."""
        self._queue.append(("state", state, note))

    def is_due(self, step: int) -> bool:
        """Return whether the parameters are sampled in this step, counted from 1."""
        return step >= self._samples.next

    def is_rare(self, step: int) -> bool:
        """Return whether this step, counted from 1, is one whose activations are looked at and whose state is kept."""
        return step >= self._states.next

    def told(self, step: int, began: float, seconds: float = 0.0) -> None:
        """Say when there is something to do again, where telling of a step began at a time, and took so much before."""
        entered = time.perf_counter()
        self._tells.done(step, seconds + entered - began + self._telling + self._taking_step, began)
        tells = self._tells.next if step >= FIRST else step + 1
        self.due = min(tells, self._samples.next, self._states.next)
        # Asked last: a wish that comes meanwhile is not overlooked.
        if self.is_asked:
            self.due = 0
        self._telling = time.perf_counter() - entered

    @property
    def is_watched(self) -> bool:
        """True while a page is open."""
        return bool(self._posts)

    @property
    def is_asked(self) -> bool:
        """True where the page wants something of the next step, or between this one and that."""
        return bool(self._wishes or self._paused or self._looks)

    def begin_step(self) -> None:
        """Begin to record a step, where the page has asked for one."""
        if self._looks:
            self._looks = False
            self._look = Look(self.title, self._model)
            self._look.begin()

    def end_step(self, step: int, stopped: Callable[[], bool] = lambda: False, failed: bool = False) -> None:
        """End a step: tell what was recorded of it, keep its state now and then, and do what the page has asked for.

        Returns when the training is to go on. `stopped` says whether it is to end.
        """
        look, self._look = self._look, None
        if look is not None:
            document = {**look.end(failed).document}
            document["meta"] = {**document["meta"], "step": step}
            self._queue.append(("inside", step, packed_document(document)))
        if failed:
            return
        if self.is_rare(step):
            began = time.process_time()
            self._checkpoints.keep(step)
            now = time.process_time()
            self._states.done(step, self._observing + now - began, now)
            self._observing = 0.0
        if self._wishes or self._paused:
            self._attend(step, stopped)

    @contextmanager
    def observing(self, step: int) -> Iterator[None]:
        """Run a block as it is written, and tell of the activations in it."""
        began = time.process_time()
        with self.activations.seen() as found:
            yield
        self._queue.append(("activations", step, found))
        self._observing = time.process_time() - began

    def release(self) -> None:
        """Let a training that was paused go on, for nobody will ask for it."""
        self._wish("pause", False)

    def _attend(self, step: int, stopped: Callable[[], bool]) -> None:
        alone = time.monotonic()
        while True:
            while self._wishes:
                kind, value = self._wishes.popleft()
                if kind == "pause":
                    self._paused = value
                elif kind == "back":
                    if self._checkpoints.back(value):
                        self._returns.append((step, value))
                else:
                    self._looks = kind == "look"
                    if self._paused:
                        return  # one step is made, and then it is asked again
            if self._posts:
                alone = time.monotonic()
            if not self._paused or stopped() or time.monotonic() - alone > ALONE:
                self._paused = self._paused and not stopped() and time.monotonic() - alone <= ALONE
                return
            with suppress(Empty):
                self._wished.get(timeout=0.1)

    def before(self, gradients: bool) -> None:
        """Take the gradients' norms, where they are there, and copies of the weights, before an update."""
        began = time.process_time()
        if gradients:
            self._take_gradients()
        self._before = [_values(p).copy() for _, p in self._parameters]
        self._sampling = time.process_time() - began

    def _take_gradients(self) -> None:
        self._gradients = [math.nan if p.grad is None else _norm(_values(p.grad)) for _, p in self._parameters]

    def after(self, step: int, gradients: bool = False) -> None:
        """Work out what an update has changed, and tell it."""
        before, self._before = self._before, None
        if before is None:
            return
        began = time.process_time()
        if gradients:
            self._take_gradients()
        weights, changes = [], []
        for (_, p), old in zip(self._parameters, before):
            weights.append(_norm(old))
            changes.append(_norm(np.subtract(_values(p), old, out=old)))
        self._queue.append(("sample", step, self._gradients, weights, changes))
        self._gradients = []
        now = time.process_time()
        self._samples.done(step, self._sampling + now - began + self._taking_sample, now)

    # -- on the server's thread

    def open(self, post: Post) -> Conversation:
        """Begin the conversation with a page."""
        listed = [{"name": name, "shape": list(p.shape), "size": p.size} for name, p in self._parameters]
        header = {"type": "welcome", "protocol": VERSION, "title": self.title, "parameters": listed}
        post(Message({**header, "every": self.every}))
        if self._folder is not None:
            post(self._others(self._folder))
        post(self._modules_message())
        if self._activations is not None:
            post(self._activations)
        post(self.frame())
        self._posts.append(post)
        return _Listening(self._posts, post, self._wish)

    def _wish(self, kind: str, value: Any) -> None:
        self._wishes.append((kind, value))
        self.due = 0
        self._wished.put(None)

    def tick(self, is_last: bool = False) -> None:
        """Take what was told, and show it to the open pages; of a training that stands still, or is over, all of it."""
        steps: list[tuple[Any, ...]] = []
        sampled = self._sampled
        while self._queue:
            told = self._queue.popleft()
            if told[0] == "step":
                steps.append(told)
                continue
            self._take_steps(steps)
            steps = []
            self._takes[told[0]](*told[1:])
        self._take_steps(steps)
        now = time.monotonic()
        if self._state in ("training", "validating"):
            self._ended = now
        step = self._step()
        if step != self._moved[0]:
            self._moved = step, now
        if is_last or now - self._moved[1] >= IDLE:
            self._catch_up()
        self._rates.append((now, step))
        if now - self._kept >= KEEPING:
            self.keep()
        if self._posts:
            if self._sampled != sampled:
                self._tell(self._modules_message())
            began = time.thread_time()
            self._tell(self.frame())
            self.making = time.thread_time() - began

    def keep(self) -> None:
        """Write the history, where one is kept and there is something to write."""
        self._kept = time.monotonic()
        steps, mean, _, _ = self._loss.arrays()
        if self._file is not None and steps.size:
            keep(self._file, self.title, steps, mean, _told(self._last["values"]))

    def _others(self, folder: Path) -> Message:
        """Return the other runs in the folder as a message."""
        runs = runs_in(folder, self._file)[:OTHERS] if folder.is_dir() else []
        arrays: dict[str, Array] = {}
        for i, run in enumerate(runs):
            thin = Series()
            for step, loss in zip(run.steps.tolist(), run.loss.tolist()):
                thin.add(step, loss)
            arrays[f"steps{i}"], arrays[f"loss{i}"] = thin.arrays()[:2]
        with np.errstate(over="ignore"):
            return packed({"type": "runs", "titles": [run.title for run in runs]}, arrays)

    def _take_steps(self, told: Sequence[tuple[Any, ...]]) -> None:
        """Take steps as they were told: a hundred at a time where they are fast, and so in one loop."""
        if not told:
            return
        began = time.thread_time()
        steps, losses, smooth = [], [], []
        average, weight = self._average, self._weight
        for _, step, values, _, _ in told:
            loss = values["loss"]
            if math.isfinite(loss):
                # An exponential average over about fifty steps, told of or not, without the pull of its beginning.
                share = 1 - 0.96 ** max(1, step - self._averaged)
                average += share * (loss - average)
                weight += share * (1 - weight)
                self._averaged = step
            steps.append(step)
            losses.append(loss)
            smooth.append(average / weight if weight else math.nan)
        self._average, self._weight = average, weight
        self._loss.extend(steps, losses)
        self._smooth.extend(steps, smooth)
        _, step, values, epoch, epochs = told[-1]
        self._last = {"step": step, "epoch": epoch, "epochs": epochs, "values": dict(values)}
        self._state = "training"
        self._taking_step = (time.thread_time() - began) / len(told)

    def _catch_up(self) -> None:
        """Take the last step that was made, where it was not told of. How things stand is as before."""
        step, found = self.latest()
        if step > self._last["step"]:
            state = self._state
            # What is no loss is the training's to complain of, when the next step is told of.
            with suppress(Exception):
                self._take_steps([("step", step, _numbers(found), 0, 0)])
            self._state = state

    def _take_state(self, state: State, note: str) -> None:
        self._state, self._note = state, note

    def _take_sample(
        self, step: int, gradients: Sequence[float], weights: Sequence[float], changes: Sequence[float]
    ) -> None:
        began = time.thread_time()
        gradient, weight, change = (np.array(x, np.float64) for x in (gradients, weights, changes))
        if not gradient.size:
            gradient = np.full(weight.shape, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._sample = {"gradient": gradient, "weight": weight, "ratio": change / weight}
        self._sampled = step
        if not np.isnan(gradient).all():
            self._norm.add(step, math.sqrt(float(np.nansum(gradient * gradient))))
        with np.errstate(all="ignore"):
            for (_, rows), (norms, ratios) in zip(self._groups, self._module_series):
                sizes = [float(np.sqrt(np.square(x[rows]).sum())) for x in (gradient, change, weight)]
                norms.add(step, sizes[0])
                ratios.add(step, float(np.float64(sizes[1]) / sizes[2]))
        self._taking_sample = time.thread_time() - began

    def _tell(self, message: Message) -> None:
        for post in tuple(self._posts):
            post(message)

    def _modules_message(self) -> Message:
        """Return the norms and updates of modules over the steps as a message."""
        arrays: dict[str, Array] = {}
        for i, (norms, ratios) in enumerate(self._module_series):
            steps, arrays[f"norm{i}"] = norms.arrays()[:2]
            arrays["steps"], arrays[f"ratio{i}"] = steps, ratios.arrays()[1]
        return packed({"type": "modules", "names": [name for name, _ in self._groups]}, arrays, kind="modules")

    def _take_activations(self, step: int, found: Mapping[str, Activation]) -> None:
        if not found:
            return
        columns = ("low", "high", "mean", "std", "zeros", "bad")
        with np.errstate(over="ignore"):
            arrays = {name: np.array([getattr(a, name) for a in found.values()], np.float32) for name in columns}
        arrays["counts"] = np.stack([a.counts for a in found.values()])
        header = {"type": "activations", "step": step, "names": list(found)}
        self._activations = packed(header, arrays, kind="activations")
        self._tell(self._activations)

    def _take_inside(self, step: int, document: str) -> None:
        self._tell(Message({"type": "inside", "step": step, "document": document}))

    def _step(self) -> int:
        told: int = self._last["step"]
        return max(told, self.made())

    def frame(self) -> Message:
        """Return the newest state as a message; an older one that waits is dropped for it."""
        (first, at_first), (last, at_last) = (self._rates[0], self._rates[-1]) if self._rates else ((0.0, 0), (0.0, 0))
        rate = (at_last - at_first) / (last - first) if last > first else 0.0
        header = {
            "type": "frame",
            "state": self._state,
            "note": self._note,
            "step": self._step(),
            "epoch": self._last["epoch"],
            "epochs": self._last["epochs"],
            "values": _told(self._last["values"]),
            "valued": self._last["step"],
            "rows": [_told(row) for row in self._rows[-ROWS:]],
            "sampled": self._sampled,
            "seconds": round(self._ended - self._begun, 2),
            "rate": round(rate, 3),
            "idle": round(max(0.0, self._ended - self._moved[1]), 2),
            "memory": resident(),
            "paused": self._paused,
            "checkpoints": self._checkpoints.steps,
            "returns": self._returns[-20:],
        }
        steps, mean, low, high = self._loss.arrays()
        norm_steps, norm, _, _ = self._norm.arrays()
        curves = {"steps": steps, "mean": mean, "low": low, "high": high, "smooth": self._smooth.arrays()[1]}
        sample = {name: values.astype(np.float32) for name, values in self._sample.items()}
        with np.errstate(over="ignore"):
            return packed(header, {**curves, "norm_steps": norm_steps, "norm": norm, **sample}, kind="frame")


class _Listening:
    """The conversation with a page: it listens, and may ask the training to pause, to be looked into, to go back."""

    def __init__(self, posts: list[Post], post: Post, wish: Callable[[str, Any], None]) -> None:
        self._posts, self._post, self._wish = posts, post, wish

    def receive(self, message: object) -> None:
        asked = message if isinstance(message, dict) else {}
        kind, on, step = (asked.get(key) for key in ("type", "on", "step"))
        if kind == "pause" and isinstance(on, bool):
            self._wish("pause", on)
        elif kind in ("step", "look"):
            self._wish(kind, None)
        elif kind == "back" and type(step) is int:
            self._wish("back", step)
        else:
            text = "a message is one of pause (on), step, look, back (step)"
            self._post(Message({"type": "error", "text": text}))

    def close(self) -> None:
        self._posts.remove(self._post)


def _modules(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return the modules that parameters belong to, each with their places: as deep as few enough go."""
    paths = [name.split(".")[:-1] or [name] for name in names]
    for depth in range(max(map(len, paths), default=1), 0, -1):
        found: dict[str, list[int]] = {}
        for i, path in enumerate(paths):
            found.setdefault(".".join(path[:depth]), []).append(i)
        if len(found) <= MODULES:
            break
    return list(found.items())[:MODULES] if names else []


class Watcher:
    """A server of one watched training on a thread of its own. It ends with the process, or with :meth:`close`."""

    def __init__(self, watched: Watched, port: int = 0, open: bool = True) -> None:
        self.watched = watched
        self.url = ""
        self._server = Server(watched, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._error: BaseException | None = None
        ready: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(ready,), name="wengert-watch", daemon=True)
        self._thread.start()
        ready.get()
        if self._error is not None:
            raise self._error
        atexit.register(self.close)
        print(f"watch {watched.title}: {self.url}", file=sys.stderr, flush=True)
        if open:
            # A browser may take its time to start.
            threading.Thread(target=webbrowser.open, args=(self.url,), daemon=True).start()

    def _serve(self, ready: SimpleQueue[None]) -> None:
        try:
            asyncio.run(self._until_closed(ready))
        except OSError as e:
            self._error = e
            ready.put(None)

    async def _until_closed(self, ready: SimpleQueue[None]) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with self._server:
            self.url = self._server.url
            ready.put(None)
            while not self._over.is_set():
                self.watched.tick()
                pause = max(FRAME, self.watched.making / FRAMES) if self.watched.is_watched else UNSEEN
                try:
                    await asyncio.wait_for(self._over.wait(), pause)
                except TimeoutError:
                    continue
            # The last word, and a moment to send it.
            self.watched.tick(is_last=True)
            self.watched.keep()
            await asyncio.sleep(0.05)

    def close(self) -> None:
        """End the server. A second call does nothing."""
        self.watched.release()
        if self._thread.is_alive() and self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(2)
        atexit.unregister(self.close)


def watch(
    step: Callable[..., Any],
    parameters: Any = (),
    *,
    every: int | None = None,
    port: int = 0,
    open: bool = True,
    title: str = "training",
    history: str | os.PathLike[str] | None = None,
    optimizer: Any = None,
) -> Any:
    """Return a step function that shows in the browser what comes of it: `step = wg.explore.watch(step, model)`.

    Parameters
    ----------
    step: a function that makes one step of a training, compiled or not, and returns its loss; or a dict of numbers with
        `loss` among them, or a tuple that begins with the loss.
    parameters: a module or named tensors, whose updates are looked at.
    every: the parameters are looked at in every so many steps: copies of them are made and compared. By default in
        steps 1, 2, 4, 8 ... and at last in every 200th, or as seldom as watching takes less than 2 % of the time; then
        of steps that take less than about half a millisecond the loss, too, is read now and then only.
    port: of this machine; 0 takes a free one.
    open: whether to open the browser. The address, which works once, is printed on standard error in either case.
    title: what the page is called.
    history: a folder in which the loss is kept, in a file whose size does not grow with the run. The page shows the
        other runs there beside this one, also those that TensorBoard's event files hold.
    optimizer: whose state is put back with the weights, when the page goes back to an earlier step.

    The page shows the loss, gradient norms where the step leaves `.grad`, by module too, how large updates are beside
    weights, histograms of what the modules of a model give, steps per second and memory. It can pause the training,
    record one step to be looked into, and put back the state of an earlier one, of which up to a dozen are kept where
    three fit into 256 MB. In every tenth sample, and where a step is recorded, a compiled step runs as it is written,
    whose last bits may be others. Only this machine's browser can see it. `step.watcher.close()` or the process's end
    ends it.

    Raises OSError where the port is taken, DTypeError for a step that returns no loss.
    """
    model = parameters if hasattr(parameters, "named_modules") else None
    watched = Watched(title, named_parameters(parameters), every, history, model, optimizer)
    watcher = Watcher(watched, port, open)
    count = 0
    # The last step, and what it returned: its loss is read where no other comes.
    latest: tuple[int, Any] = (0, None)

    def made_step(args: Any, kwargs: Any) -> Any:
        if not watched.activations.modules or not watched.is_rare(count):
            return step(*args, **kwargs)
        with watched.observing(count):
            return step(*args, **kwargs)

    def told_of(args: Any, kwargs: Any) -> Any:
        """Make a step that is told of, and may be more than that."""
        entered = time.perf_counter()
        if watched.is_due(count) or watched.is_rare(count) or watched.is_asked:
            return looked_at(args, kwargs)
        seconds = time.perf_counter() - entered
        found = step(*args, **kwargs)
        began = time.perf_counter()
        watched.step(count, _numbers(found))
        watched.told(count, began, seconds)
        return found

    def looked_at(args: Any, kwargs: Any) -> Any:
        """Make a step that is sampled, or kept, or of which the page wants something."""
        is_due = watched.is_due(count)
        if is_due:
            watched.before(gradients=False)
        watched.begin_step()
        try:
            found = made_step(args, kwargs)
        except BaseException:
            watched.end_step(count, failed=True)
            raise
        if is_due:
            watched.after(count, gradients=True)
        watched.step(count, _numbers(found))
        watched.end_step(count)
        watched.told(count, time.perf_counter())
        return found

    @wraps(step)
    def watching(*args: Any, **kwargs: Any) -> Any:
        nonlocal count, latest
        count += 1
        try:
            if count >= watched.due:
                return told_of(args, kwargs)
            # Keyword arguments that are none would cost a dict in every step.
            found = step(*args, **kwargs) if kwargs else step(*args)
            latest = count, found
            return found
        except BaseException as e:
            count -= 1
            watched.state("failed", f"{type(e).__name__}: {e}")
            raise

    watched.made = lambda: count
    watched.latest = lambda: latest
    made: Any = watching
    made.watcher = watcher
    return made


def named_parameters(given: Any) -> list[tuple[str, Tensor]]:
    """Return a module's parameters, or tensors, with names. Raises DTypeError for what is none."""
    if hasattr(given, "named_parameters"):
        given = dict(given.named_parameters())
    if not isinstance(given, Mapping):
        given = {str(i): p for i, p in enumerate(given)}
    for name, p in given.items():
        if not isinstance(p, Tensor):
            fail(DTypeError, f"a parameter {name!r} that is a {type(p).__name__}", "Give a module, or tensors.")
    return list(given.items())


def _numbers(found: Any) -> dict[str, float]:
    """Return what a step function gave as numbers by name."""
    if isinstance(found, Tensor) and found.shape == () and found.dtype.kind != "c":
        return {"loss": found.item()}
    if isinstance(found, tuple) and found:
        found = found[0]
    if not isinstance(found, Mapping):
        found = {"loss": found}
    numbers = {name: float(x) for name, x in found.items() if getattr(x, "shape", ()) == () and _is_number(x)}
    if "loss" not in numbers:
        mend = "It returns the loss, a dict with 'loss', or a tuple that begins with the loss."
        fail(DTypeError, f"a watched step that returns a {type(found.get('loss', found)).__name__}, no loss", mend)
    return numbers


def _is_number(x: Any) -> bool:
    # NumPy's own question about complex numbers would first make an array of a tensor.
    return isinstance(x, (int, float)) or (isinstance(x, (np.generic, np.ndarray, Tensor)) and x.dtype.kind != "c")


def _values(p: Tensor) -> Array:
    return np.asarray(p.detach().numpy())


def _norm(x: Array) -> float:
    flat = x.reshape(-1)
    if flat.dtype.kind not in "fc" or flat.dtype.itemsize < 4:
        flat = flat.astype(np.float32)
    with np.errstate(all="ignore"):
        return math.sqrt(abs(np.vdot(flat, flat)))


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers as JSON has them; those that it lacks as words."""
    return {name: x if math.isfinite(x) else str(x) for name, x in values.items()}


def _file_name(title: str) -> str:
    """Return a name for a run's file: what it is called, and when it began."""
    plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in title)[:60] or "run"
    return f"{plain}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


class Recorded(Watched):
    """The runs of a folder, none of them under way."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder.name or str(folder), [], 1, folder)
        self._state = "finished"


def resident() -> int:
    """Return the bytes of memory that the process has; 0 where the system does not say."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
