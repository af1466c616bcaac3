"""Schedules: the order in which the places of a pipeline do their tasks.

The order is found by playing the step through: each place turns to microbatches in the order of its schedule, and waits
where one is not there yet. What microbatches wait for all together is done as soon as it can be. Where nobody could go
on, a place does what comes later in its order: so there is an order for every program. What all places do together is
last: a place that waits for all others in the midst of its tasks might be waited for.

Sources: GPipe, Huang et al. 2019; 1F1B, Narayanan et al. 2019 (PipeDream) and 2021 (interleaved stages).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .stages import Phase
from .tasks import Task, Tasks, Turn

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
        # What each place does with which microbatch, in order, and how many tasks of it have not begun.
        self.left = Counter(t.turn for t in self.tasks if t.turn is not None)
        self.turns = [_turns(tasks, place, places, schedule) for place in range(places)]

    def run(self) -> list[Span]:
        parts = [(i, t.place) for i, t in enumerate(self.tasks) if t.place is not None]
        needs = {part: self._needs(part[0]) for part in parts}
        users: dict[tuple[int, int], list[tuple[int, int]]] = {part: [] for part in parts}
        for user, row in needs.items():
            for maker in row:
                users[maker].append(user)
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
                chosen = self._choice(place, [q for q, at in ready[place].items() if at <= now], is_stuck)
                if chosen is None:
                    continue
                is_stuck = False
                del ready[place][chosen]
                task = self.tasks[chosen[0]]
                end = now + self.seconds(task)
                free[place] = ended[chosen] = end
                spans.append(Span(chosen[0], place, now, end))
                self._begun(task)
                heapq.heappush(events, end)
                for user in users[chosen]:
                    waits[user] -= 1
                    if not waits[user]:
                        at = max(ended[m] + self._late(m, user) for m in needs[user])
                        ready[user[1]][user] = at
                        heapq.heappush(events, at)
        return spans + self._together(max(free))

    def _together(self, start: float) -> list[Span]:
        """Return the tasks that all places do together, once the last place has arrived."""
        spans = []
        for i, task in enumerate(self.tasks):
            if task.place is None:
                end = start + self.seconds(task)
                spans += [Span(i, place, start, end) for place in range(self.places)]
                start = end
        return spans

    def _needs(self, i: int) -> list[tuple[int, int]]:
        found: dict[tuple[int, int], None] = {}
        for maker in (self.makers[v] for v in self.tasks[i].inputs if v in self.makers):
            place = self.tasks[maker].place
            assert place is not None  # what all places do together makes results alone
            found[maker, place] = None
        return list(found)

    def _late(self, maker: tuple[int, int], user: tuple[int, int]) -> float:
        if maker[1] == user[1]:
            return 0.0
        values = set(self.tasks[maker[0]].outputs) & set(self.tasks[user[0]].inputs)
        return sum(self.delay(v, maker[1], user[1]) for v in values)

    def _choice(self, place: int, ready: Sequence[tuple[int, int]], is_stuck: bool) -> tuple[int, int] | None:
        allowed = [q for q in ready if is_stuck or self._may(self.tasks[q[0]], place)]
        return min(allowed, key=lambda q: (self._wish(self.tasks[q[0]]), q[0]), default=None)

    def _wish(self, task: Task) -> Any:
        """Return the key by which ready tasks are ordered: tasks that others wait for come first."""
        return (task.turn is not None, task.micro is not None, task.phase or 0, task.micro or 0)

    def _may(self, task: Task, place: int) -> bool:
        turns = self.turns[place]
        while turns and not self.left[turns[0]]:
            turns.popleft()
        return task.turn is None or (bool(turns) and task.turn == turns[0])

    def _begun(self, task: Task) -> None:
        if task.turn is not None:
            self.left[task.turn] -= 1


def _turns(tasks: Tasks, place: int, places: int, schedule: str) -> deque[Turn]:
    """Return the order in which a place turns to microbatches."""
    there = {t.turn for t in tasks.tasks if t.turn is not None and t.place == place}

    def order(phase: Phase) -> deque[Turn]:
        # In groups of as many microbatches as there are places, which go through a place once for each of its stages.
        def key(turn: Turn) -> Any:
            group, at = divmod(turn.micro, places)
            return group, turn.stage if phase is Phase.FORWARD else -turn.stage, at

        return deque(sorted((t for t in there if t.phase is phase), key=key))

    forward, backward = order(Phase.FORWARD), order(Phase.BACKWARD)
    if schedule == "gpipe":
        return forward + backward
    laps = 1 + max((t.stage for t in there), default=0) // places
    first = places - place - 1 if laps == 1 else (places - place - 1) * 2 + (laps - 1) * places
    found = deque(forward.popleft() for _ in range(min(first, len(forward))))
    while forward or backward:
        found.extend(row.popleft() for row in (forward, backward) if row)
    return found
