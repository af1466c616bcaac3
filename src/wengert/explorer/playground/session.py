"""The session of one page: a run on a thread of its own, so that the server answers while a step takes its time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.errors import DataError, WengertError, error, fail, first_line
from ..api import Exploration
from ..server import Message, Post, answer
from .controls import Value, settings
from .history import History
from .protocol import FURTHEST, PACES, VERSION, Command, command, history, packed
from .run import Run
from .script import ScriptFault

# Seconds between frames, and the part of them that steps may take.
FRAME = 1 / 30
BUSY = 0.8
# A trace is recorded along with every frame up to this many frames a second, else when the run pauses.
TRACED = 5.0
# Commands that wait. A page that sends more without listening is answered with an error.
WAITING = 256


class Session:
    """The session behind one page. Messages come from the server's thread, all else happens on the session's."""

    def __init__(self, experiments: Mapping[str, type[Run]], post: Post) -> None:
        self.experiments = experiments
        self.post = post
        self._commands: queue.Queue[Command | None] = queue.Queue(WAITING)
        self._closed = False
        self._runs = 0
        self._fault: dict[str, Any] | None = None
        self._playing = False
        self._due = 0.0
        self._recorded: tuple[int, int] | None = None
        self._exploration: Exploration | None = None
        post(Message({"type": "welcome", "protocol": VERSION, "experiments": listed(experiments)}))
        self._thread = threading.Thread(target=self._work, name="wengert-playground", daemon=True)
        self._thread.start()

    # -- the conversation, on the server's thread

    def receive(self, message: object) -> None:
        """Take a message of the page."""
        if isinstance(message, dict) and message.get("type") == "details":
            self._answer(message)
            return
        try:
            asked = command(message)
            self._commands.put_nowait(asked)
        except DataError as e:
            self._refuse(e)
        except queue.Full:
            self._refuse(error(DataError, "too many messages wait for the step at work"))

    def _answer(self, message: object) -> None:
        exploration = self._exploration
        found = answer(message, exploration) if exploration is not None else None
        if found is None:
            self._refuse(error(DataError, "details: there is no such value"))
        else:
            self.post(found)

    def _refuse(self, refused: WengertError) -> None:
        self.post(Message({"type": "error", "text": first_line(refused)}))

    def close(self) -> None:
        """End the session when its page has gone: the thread ends after the step at work."""
        self._closed = True
        try:
            self._commands.put_nowait(None)
        except queue.Full:
            # Then it has something to wake up for.
            return

    def join(self, seconds: float) -> bool:
        """Wait until the thread has ended, and return whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # -- on the session's thread

    def _work(self) -> None:
        first = next(iter(self.experiments.values()))
        self._begin(first, {})
        while not self._closed:
            waiting = self._next()
            if self._closed:
                return
            for asked in _gist(waiting):
                try:
                    self._follow(asked)
                except DataError as e:
                    self._refuse(e)
            if self._playing and time.monotonic() >= self._due:
                self._go_on()
            self._show()

    def _next(self) -> list[Command]:
        """Return the commands that are there; wait for one, or until it is time for a step."""
        timeout = max(0.0, self._due - time.monotonic()) if self._playing else None
        found: list[Command | None] = []
        try:
            found.append(self._commands.get(timeout=timeout))
            while True:
                found.append(self._commands.get_nowait())
        except queue.Empty:
            pass
        return [asked for asked in found if asked is not None]

    def _follow(self, asked: Command) -> None:
        if asked.kind == "open":
            if asked.name not in self.experiments:
                fail(DataError, "open: there is no such experiment")
            self._begin(self.experiments[asked.name], asked.value)
        elif asked.kind == "set":
            self._set(asked.name, asked.value)
        elif asked.kind == "reset":
            playing = self._playing
            self._begin(type(self._past.run), self._past.run.options)
            self._play(playing)
        elif asked.kind == "play":
            self._play(asked.value)
        elif asked.kind == "step":
            self._playing = False
            self._step(asked.value)
        elif asked.kind == "seek":
            self._playing = False
            self._guarded(lambda: self._past.seek(asked.value))
        elif asked.kind == "edit":
            if not self._past.run.keeps:
                fail(DataError, "edit: a script's parameters are its own")
            self._past.edit(*asked.value)
            self._recorded = None
        elif asked.kind == "state":
            if not self._past.run.keeps:
                fail(DataError, "state: the script is there already")
            self.post(Message({"type": "state", "run": self._runs, "step": self._past.at, **self._past.run.told()}))
        elif asked.kind == "pace":
            self._pace = asked.value
            self._due = 0.0
        elif self._past.run.keeps:
            self._record()
        else:
            self._make_room(self._past.at + 1)
            self._guarded(self._look)

    def _step(self, count: int) -> None:
        """Take steps from where the run stands, which the page may not have seen yet."""
        to = self._past.at + count
        if count < 0:
            self._guarded(lambda: self._past.seek(to))
            return
        self._make_room(to)
        self._advance(count)

    def _begin(self, experiment: type[Run], given: Mapping[str, object]) -> None:
        options = settings(experiment.controls, given)
        past = self._made(experiment, options)
        if past is None:
            return
        self._past = past
        self._runs += 1
        self._playing = False
        self._pace = experiment.pace
        self._horizon = experiment.horizon
        scene = past.run.scene()
        header = {"type": "scene", "run": self._runs, "experiment": experiment.name, "options": dict(past.run.options)}
        self.post(packed({**header, "values": scene.values}, scene.arrays))
        self._show()

    def _made(self, experiment: type[Run], options: dict[str, Value]) -> History | None:
        self._fault = None
        try:
            with np.errstate(all="ignore"):
                return History(experiment(options))
        except WengertError as e:
            self._refuse(e)
            return None

    def _set(self, name: str, value: object) -> None:
        run = self._past.run
        control = next((c for c in run.controls if c.name == name), None)
        if control is None:
            fail(DataError, "set: there is no such control here")
        checked = control.checked(value)
        if run.options[name] == checked:
            return
        if not control.restarts:
            self._past.set(name, checked)
            self._recorded = None
            return
        playing, pace = self._playing, self._pace
        self._begin(type(run), {**run.options, name: checked})
        self._pace = pace
        self._play(playing)

    def _play(self, on: bool) -> None:
        self._playing = on and self._fault is None
        self._due = 0.0
        if on and self._past.at >= self._horizon:
            self._make_room(self._horizon + 1)

    def _make_room(self, step: int) -> None:
        """Move the horizon on until a step is within it."""
        if step > FURTHEST:
            fail(DataError, f"a run ends at step {FURTHEST:,}")
        while self._horizon < step:
            self._horizon = min(FURTHEST, 2 * self._horizon)

    def _go_on(self) -> None:
        """Take the steps that are due; the run pauses at its horizon."""
        began = time.monotonic()
        period = max(FRAME, 1 / self._pace)
        for _ in range(max(1, round(self._pace * period))):
            self._advance(1)
            if self._past.at >= self._horizon:
                self._playing = False
            if not self._playing or time.monotonic() - began > BUSY * FRAME:
                break
        self._due = began + period

    def _advance(self, count: int) -> None:
        for _ in range(count):
            if not self._guarded(self._past.advance):
                return

    def _guarded(self, act: Any) -> bool:
        """Do something that runs a user's code, and return whether it went well."""
        try:
            with np.errstate(all="ignore"):
                act()
            self._fault = None
        except ScriptFault as e:
            self._fault, self._playing = e.told, False
            return False
        return True

    # -- what the page is shown

    def _show(self) -> None:
        past = self._past
        run = past.run
        with np.errstate(all="ignore"):
            shown = run.shown()
        header = {
            "type": "frame",
            "run": self._runs,
            "step": past.at,
            "last": past.last,
            "horizon": max(self._horizon, past.last),
            "playing": self._playing,
            "pace": self._pace,
            "options": dict(run.options),
            "history": history(dict(zip(run.series, past.series)), past.at),
            "diverged": past.diverged,
            "drifted": past.drifted,
            "fault": self._fault,
            "values": shown.values,
        }
        self.post(packed(header, shown.arrays, kind="frame"))
        if not self._playing or (run.records_always and self._pace <= TRACED):
            self._record()

    def _record(self) -> None:
        at = (self._runs, self._past.at)
        if self._recorded == at:
            return
        exploration = self._past.run.record()
        if exploration is not None:
            self._recorded = at
            self._tell(exploration)

    def _look(self) -> None:
        """Take a step of a script, recorded."""
        seen: list[Exploration] = []
        self._past.advance(lambda: seen.append(self._past.run.look()))
        self._tell(seen[0])

    def _tell(self, exploration: Exploration) -> None:
        self._exploration = exploration
        run, at = self._past.run, self._past.at
        # What a step began from is the step before it.
        title = f"step {at if run.keeps else at - 1}"
        document = {
            **exploration.document,
            "meta": {**exploration.document["meta"], "script": run.title, "title": title},
        }
        document["meta"].pop("step", None)
        self.post(Message({"type": "trace", "run": self._runs, "step": at, "document": document}, kind="trace"))


def listed(experiments: Mapping[str, type[Run]]) -> list[dict[str, Any]]:
    """Return the experiments as a page lists them."""
    return [
        {
            "name": name,
            "title": run.title,
            "aside": run.aside,
            "view": run.view,
            "series": list(run.series),
            "paces": list(PACES),
            "pace": run.pace,
            "horizon": run.horizon,
            "controls": [control.described() for control in run.controls],
        }
        for name, run in experiments.items()
    ]


def _gist(waiting: list[Command]) -> list[Command]:
    """Return commands without those that the next one makes pointless: a slider that is dragged says a lot."""
    kept: list[Command] = []
    for asked in waiting:
        if (
            kept
            and asked.kind in ("seek", "set", "pace")
            and (kept[-1].kind, kept[-1].name) == (asked.kind, asked.name)
        ):
            kept.pop()
        kept.append(asked)
    return kept
