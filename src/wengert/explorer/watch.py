"""Live training in the browser: the page `watch` of the local server, and what is told to it.

The training thread only appends to a queue. The server's thread empties it four times a second, thins it to as many
points as a chart can show, and sends the open pages the newest state. Messages are those of :mod:`.server`, in the
protocol `wengert.watch/1`:

| type | and |
| --- | --- |
| `welcome` | `protocol`, `title`, `parameters`: name, shape and size of each, `every` |
| `frame` | `frame`, `state`, `note`, `step`, `epoch`, `epochs`, `seconds`, `rate` (steps a second), `memory` (bytes), |
| | `values`: of the last step, `rows`: the table of epochs; `sampled`: the step of the last sample; arrays |

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
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import numpy as np

from ..core.arrays import Array
from ..core.errors import DTypeError, ShapeError, fail
from ..core.tensor import Tensor
from .playground.protocol import packed
from .runs import SUFFIX, keep, runs_in
from .server import Conversation, Message, Post, Server

VERSION = "wengert.watch/1"
# Seconds between two frames; points of a curve; rows of the table; parameters that are told of.
FRAME = 0.25
POINTS = 600
ROWS = 200
PARAMETERS = 300
# Seconds between two writings of a history; other runs that are shown.
KEEPING = 5.0
OTHERS = 12

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
        if self._counts and self._counts[-1] < self._width:
            self._sums[-1] += value
            self._counts[-1] += 1
            self._low[-1] = min(self._low[-1], value)
            self._high[-1] = max(self._high[-1], value)
            return
        if len(self._steps) >= 2 * self._points:
            self._merge()
        for column, x in zip(
            (self._steps, self._sums, self._counts, self._low, self._high), (step, value, 1, value, value)
        ):
            column.append(x)

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


class Watched:
    """The state of a training that is watched, and its conversations: the application that the server shows."""

    kind: Literal["watch"] = "watch"

    def __init__(
        self,
        title: str,
        parameters: Sequence[tuple[str, Tensor]],
        every: int,
        history: str | os.PathLike[str] | None = None,
    ) -> None:
        if every < 1:
            fail(ShapeError, f"every={every}", "Gradients are sampled every so many steps, at least 1.")
        self.title = title
        self.document: Mapping[str, Any] = {}
        self.every = every
        self._parameters = list(parameters)[:PARAMETERS]
        self._queue: deque[tuple[Any, ...]] = deque()
        self._posts: list[Post] = []
        self._loss, self._smooth, self._norm = Series(), Series(), Series()
        self._average, self._weight = 0.0, 0.0
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
            "step": self._take_step,
            "row": self._rows.append,
            "state": self._take_state,
            "sample": self._take_sample,
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
        return step == 1 or step % self.every == 0

    def before(self, gradients: bool) -> None:
        """Take the gradients' norms, where they are there, and copies of the weights, before an update."""
        if gradients:
            self._take_gradients()
        self._before = [_values(p).copy() for _, p in self._parameters]

    def _take_gradients(self) -> None:
        self._gradients = [math.nan if p.grad is None else _norm(_values(p.grad)) for _, p in self._parameters]

    def after(self, step: int, gradients: bool = False) -> None:
        """Work out what an update has changed, and tell it."""
        before, self._before = self._before, None
        if before is None:
            return
        if gradients:
            self._take_gradients()
        weights, changes = [], []
        for (_, p), old in zip(self._parameters, before):
            weights.append(_norm(old))
            changes.append(_norm(np.subtract(_values(p), old, out=old)))
        self._queue.append(("sample", step, self._gradients, weights, changes))
        self._gradients = []

    # -- on the server's thread

    def open(self, post: Post) -> Conversation:
        """Begin the conversation with a page."""
        listed = [{"name": name, "shape": list(p.shape), "size": p.size} for name, p in self._parameters]
        header = {"type": "welcome", "protocol": VERSION, "title": self.title, "parameters": listed}
        post(Message({**header, "every": self.every}))
        if self._folder is not None:
            post(self._others(self._folder))
        post(self.frame())
        self._posts.append(post)
        return _Listening(self._posts, post)

    def tick(self) -> None:
        """Take what was told, and show it to the open pages."""
        while self._queue:
            kind, *told = self._queue.popleft()
            self._takes[kind](*told)
        now = time.monotonic()
        if self._state in ("training", "validating"):
            self._ended = now
        self._rates.append((now, self._last["step"]))
        if now - self._kept >= KEEPING:
            self.keep()
        if self._posts:
            frame = self.frame()
            for post in tuple(self._posts):
                post(frame)

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

    def _take_step(self, step: int, values: Mapping[str, float], epoch: int, epochs: int) -> None:
        self._last = {"step": step, "epoch": epoch, "epochs": epochs, "values": dict(values)}
        self._state = "training"
        loss = values["loss"]
        self._loss.add(step, loss)
        if math.isfinite(loss):
            # An exponential average over about fifty steps, without the pull of its beginning.
            self._average += 0.04 * (loss - self._average)
            self._weight += 0.04 * (1 - self._weight)
        self._smooth.add(step, self._average / self._weight if self._weight else math.nan)

    def _take_state(self, state: State, note: str) -> None:
        self._state, self._note = state, note

    def _take_sample(
        self, step: int, gradients: Sequence[float], weights: Sequence[float], changes: Sequence[float]
    ) -> None:
        gradient, weight, change = (np.array(x, np.float64) for x in (gradients, weights, changes))
        if not gradient.size:
            gradient = np.full(weight.shape, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._sample = {"gradient": gradient, "weight": weight, "ratio": change / weight}
        self._sampled = step
        if not np.isnan(gradient).all():
            self._norm.add(step, math.sqrt(float(np.nansum(gradient * gradient))))

    def frame(self) -> Message:
        """Return the newest state as a message; an older one that waits is dropped for it."""
        (first, at_first), (last, at_last) = (self._rates[0], self._rates[-1]) if self._rates else ((0.0, 0), (0.0, 0))
        rate = (at_last - at_first) / (last - first) if last > first else 0.0
        header = {
            "type": "frame",
            "state": self._state,
            "note": self._note,
            "step": self._last["step"],
            "epoch": self._last["epoch"],
            "epochs": self._last["epochs"],
            "values": _told(self._last["values"]),
            "rows": [_told(row) for row in self._rows[-ROWS:]],
            "sampled": self._sampled,
            "seconds": round(self._ended - self._begun, 2),
            "rate": round(rate, 3),
            "memory": resident(),
        }
        steps, mean, low, high = self._loss.arrays()
        norm_steps, norm, _, _ = self._norm.arrays()
        curves = {"steps": steps, "mean": mean, "low": low, "high": high, "smooth": self._smooth.arrays()[1]}
        sample = {name: values.astype(np.float32) for name, values in self._sample.items()}
        with np.errstate(over="ignore"):
            return packed(header, {**curves, "norm_steps": norm_steps, "norm": norm, **sample}, kind="frame")


class _Listening:
    """The conversation with a page that only listens."""

    def __init__(self, posts: list[Post], post: Post) -> None:
        self._posts, self._post = posts, post

    def receive(self, message: object) -> None:
        self._post(Message({"type": "error", "text": "this page has nothing to ask"}))

    def close(self) -> None:
        self._posts.remove(self._post)


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
                try:
                    await asyncio.wait_for(self._over.wait(), FRAME)
                except TimeoutError:
                    continue
            # The last word, and a moment to send it.
            self.watched.tick()
            self.watched.keep()
            await asyncio.sleep(0.05)

    def close(self) -> None:
        """End the server. A second call does nothing."""
        if self._thread.is_alive() and self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(2)
        atexit.unregister(self.close)


def watch(
    step: Callable[..., Any],
    parameters: Any = (),
    *,
    every: int = 100,
    port: int = 0,
    open: bool = True,
    title: str = "training",
    history: str | os.PathLike[str] | None = None,
) -> Any:
    """Return a step function that shows in the browser what comes of it: `step = wg.explore.watch(step, model)`.

    Parameters
    ----------
    step: a function that makes one step of a training, compiled or not, and returns its loss; or a dict of numbers with
        `loss` among them, or a tuple that begins with the loss.
    parameters: a module or named tensors, whose updates are looked at.
    every: the parameters are looked at in every so many steps: copies of them are made and compared.
    port: of this machine; 0 takes a free one.
    open: whether to open the browser. The address, which works once, is printed on standard error in either case.
    title: what the page is called.
    history: a folder in which the loss is kept, in a file whose size does not grow with the run. The page shows the
        other runs there beside this one, also those that TensorBoard's event files hold.

    The page shows the loss, gradient norms where the step leaves `.grad`, how large updates are beside weights, steps
    per second and memory. Only this machine's browser can see it. `step.watcher.close()` or the process's
    end ends it.

    Raises OSError where the port is taken, DTypeError for a step that returns no loss.
    """
    watched = Watched(title, named_parameters(parameters), every, history)
    watcher = Watcher(watched, port, open)
    count = 0

    @wraps(step)
    def watching(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        is_due = watched.is_due(count + 1)
        if is_due:
            watched.before(gradients=False)
        try:
            found = step(*args, **kwargs)
        except BaseException as e:
            watched.state("failed", f"{type(e).__name__}: {e}")
            raise
        count += 1
        if is_due:
            watched.after(count, gradients=True)
        watched.step(count, _numbers(found))
        return found

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
