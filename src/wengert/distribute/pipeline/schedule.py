"""Schedules: the order in which the places of a pipeline do their tasks.

The order is found by playing the step through: each place takes, of the tasks that are ready, the one that the schedule
prefers, or waits. So what a schedule's name promises of bubbles and memory holds where stages are equal, and the order
stays a possible one where they are not, or where microbatches wait for each other.

Sources: GPipe, Huang et al. 2019; 1F1B, Narayanan et al. 2019 (PipeDream) and 2021 (interleaved stages).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .stages import Phase
from .tasks import Task, Tasks

SCHEDULES = ("1f1b", "gpipe")


class Span(NamedTuple):
    """A task on a place of the pipeline, from when to when."""

    task: int
    place: int
    start: float
    end: float


Seconds = Callable[[Task], float]
Delay = Callable[[int, int, int], float]


def played(
    tasks: Tasks, places: int, schedule: str, seconds: Seconds, delay: Delay = lambda value, source, target: 0.0
) -> list[Span]:
    """Return when each task runs, in the order of their beginnings: an order in which all places can go on.

    Parameters
    ----------
    tasks: the tasks of a step.
    places: the number of places.
    schedule: "1f1b" or "gpipe".
    seconds: how long a task takes.
    delay: how long a value takes from a place to another one, by its number and both places.
    """
    return _Play(tasks, places, schedule, seconds, delay).run()


class _Play:
    def __init__(self, tasks: Tasks, places: int, schedule: str, seconds: Seconds, delay: Delay) -> None:
        self.tasks, self.places, self.schedule = tasks.tasks, places, schedule
        self.seconds, self.delay, self.makers = seconds, delay, tasks.makers
        self.chunks = 1 + max((t.stage for t in self.tasks if t.stage is not None), default=0)
        # The parts of a microbatch's backward pass that a stage has left, and its forward passes, begun or not.
        self.left: dict[tuple[int, int], int] = {}
        self.forward: list[int] = [0] * places
        for t in self.tasks:
            if t.phase is Phase.BACKWARD and t.micro is not None and t.stage is not None:
                self.left[t.stage, t.micro] = self.left.get((t.stage, t.micro), 0) + 1
            if t.phase is Phase.FORWARD and t.place is not None:
                self.forward[t.place] += 1
        self.kept: list[set[tuple[int, int]]] = [set() for _ in range(places)]

    def run(self) -> list[Span]:
        # A task that all places do has a part on each.
        parts = [(i, p) for i, t in enumerate(self.tasks) for p in self._places(t)]
        needs = {part: self._needs(*part) for part in parts}
        users: dict[tuple[int, int], list[tuple[int, int]]] = {part: [] for part in parts}
        for part, row in needs.items():
            for maker in row:
                users[maker].append(part)
        waits = {part: len(row) for part, row in needs.items()}
        ready: list[dict[tuple[int, int], float]] = [{} for _ in range(self.places)]
        for part in parts:
            if not waits[part]:
                ready[part[1]][part] = 0.0
        free = [0.0] * self.places
        events = [0.0]
        spans: list[Span] = []
        ended: dict[tuple[int, int], float] = {}
        now = 0.0
        while len(spans) < len(parts):
            is_stuck = not events  # nothing will come: each place holds back what it may not begin yet
            if events:
                now = heapq.heappop(events)
                while events and events[0] <= now:
                    heapq.heappop(events)
            for place in range(self.places):
                if free[place] > now:
                    continue
                part = self._choice(place, [q for q, at in ready[place].items() if at <= now], is_stuck)
                if part is None:
                    continue
                is_stuck = False
                del ready[place][part]
                task = self.tasks[part[0]]
                end = now + self.seconds(task)
                free[place] = ended[part] = end
                spans.append(Span(part[0], place, now, end))
                self._begun(task, place)
                heapq.heappush(events, end)
                for user in users[part]:
                    waits[user] -= 1
                    if not waits[user]:
                        at = max(ended[m] + self._late(m, user) for m in needs[user])
                        ready[user[1]][user] = at
                        heapq.heappush(events, at)
        return spans

    def _places(self, task: Task) -> Sequence[int]:
        return range(self.places) if task.place is None else (task.place,)

    def _needs(self, i: int, place: int) -> list[tuple[int, int]]:
        found = {}
        for value in self.tasks[i].inputs:
            maker = self.makers.get(value)
            if maker is not None:
                at = self.tasks[maker].place
                # Results are sent by a task that all places do together.
                found[maker, place if at is None else at] = None
        return list(found)

    def _late(self, maker: tuple[int, int], user: tuple[int, int]) -> float:
        if maker[1] == user[1] or self.tasks[user[0]].place is None:
            return 0.0
        values = set(self.tasks[maker[0]].outputs) & set(self.tasks[user[0]].inputs)
        return sum(self.delay(v, maker[1], user[1]) for v in values)

    def _choice(self, place: int, ready: Sequence[tuple[int, int]], is_stuck: bool) -> tuple[int, int] | None:
        allowed = [q for q in ready if is_stuck or self._may(self.tasks[q[0]], place)]
        return min(allowed, key=lambda q: (self._wish(self.tasks[q[0]]), q[0]), default=None)

    def _wish(self, task: Task) -> Any:
        """Return what the tasks that are ready are ordered by."""
        if task.phase is None or task.micro is None or task.stage is None:
            return (0,)
        group, at = divmod(task.micro, self.places)
        lap = task.stage // self.places
        if task.phase is Phase.BACKWARD:
            return (1 if self.schedule == "1f1b" else 3, group, -lap, at)
        return (2, group, lap, at)

    def _may(self, task: Task, place: int) -> bool:
        if task.micro is None or task.stage is None:
            return True
        if self.schedule == "gpipe":
            return task.phase is not Phase.BACKWARD or not self.forward[place]
        if task.phase is not Phase.FORWARD or (task.stage, task.micro) in self.kept[place]:
            return True
        return len(self.kept[place]) < self._limit(place) or (task.stage, task.micro) not in self.left

    def _limit(self, place: int) -> int:
        """Return how many microbatches a place may have between their forward and their backward pass."""
        laps = self.chunks // self.places
        if laps <= 1:
            return self.places - place
        return (self.places - place - 1) * 2 + (laps - 1) * self.places + 1

    def _begun(self, task: Task, place: int) -> None:
        if task.micro is None or task.stage is None:
            return
        key = task.stage, task.micro
        if task.phase is Phase.FORWARD:
            self.forward[place] -= 1
            if key in self.left:
                self.kept[place].add(key)
        elif task.phase is Phase.BACKWARD:
            self.left[key] -= 1
            if not self.left[key]:
                self.kept[place].discard(key)
