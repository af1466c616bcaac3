"""The programs of one function: found by the signature of a call, kept as long as they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .capture.captured import Captures
from .capture.reading import Reads
from .program import Path
from .signature import Call

# The memory of programs is counted in nodes of their graphs, about 2 kB each (as are constants), and so much for
# each program besides.
NODE = 2048
EACH = 256
# Programs have room for so many at first; for more, up to `MOST`, once they were seen to be needed again.
ROOM = 1 << 18
MOST = 1 << 20
# The number of forgotten programs that are remembered by name, to see whether they come again.
_REMEMBERED = 1 << 14

# The key of a program's calls: the reads of traces (None: all that could be reached), the call's key, that of its
# captured state, ...
Key = tuple[Any, ...]


class _Fork:
    """A fork of a program's paths: by the value of the next decision. `path` is the longest from here on."""

    __slots__ = ("after", "path")

    def __init__(self) -> None:
        self.after: dict[bytes, _Fork] = {}
        self.path: Path | None = None

    def add(self, path: Path) -> None:
        fork = self
        for value in (*path.decisions, None):
            if fork.path is None or len(fork.path.decisions) <= len(path.decisions):
                fork.path = path
            if value is not None:
                fork = fork.after.setdefault(value, _Fork())


class Program:
    """The program of calls of one kind: a path for every sequence of decisions that they have taken so far."""

    __slots__ = ("key", "call", "paths", "_forks", "warned")

    def __init__(self, key: Key, call: Call) -> None:
        self.key = key
        self.call = call
        self.paths: dict[Path, None] = {}  # the one that was taken last comes last
        self._forks: dict[tuple[Any, ...], _Fork] = {}
        self.warned = False

    @property
    def reads(self) -> Reads | None:
        """The reads of the traces that it is made of, where they are known."""
        found: Reads | None = self.key[0]
        return found

    def add(self, path: Path) -> None:
        self.paths[path] = None
        self._forks.setdefault(path.traced.grads_read, _Fork()).add(path)

    def use(self, path: Path) -> None:
        del self.paths[path]
        self.paths[path] = None

    def remove(self, path: Path) -> None:
        del self.paths[path]
        self._forks.clear()
        for other in self.paths:
            self._forks.setdefault(other.traced.grads_read, _Fork()).add(other)

    def fitting(self, call: Call, captures: Captures) -> list[_Fork]:
        """Return the paths that find gradients where, and only where, there are some now."""
        return [f for f in self._forks.values() if f.path and f.path.grads_fit(call.leaves, call.positions, captures)]

    def latest(self, forks: Sequence[_Fork]) -> Path | None:
        """Return the path of these that was taken last."""
        kinds = [f.path.traced.grads_read for f in forks if f.path]
        return next((p for p in reversed(self.paths) if p.traced.grads_read in kinds), None)

    def along(self, forks: Iterable[_Fork], decisions: Sequence[bytes]) -> Path | None:
        """Return the longest path of these whose decisions begin so; its decisions show where it ends."""
        found = []
        for start in forks:
            fork: _Fork | None = start
            for value in decisions:
                fork = fork.after.get(value) if fork is not None else None
            if fork is not None and fork.path is not None:
                found.append(fork.path)
        return max(found, key=lambda p: len(p.decisions), default=None)


class Programs:
    """All programs of a function, the paths that were taken last.

    Those that have not been for long are forgotten where there is no more room. A function that calls for what was
    forgotten gets more room, so that calls that come round again, however many kinds of them there are, soon find
    their programs; one whose calls never do keeps little.
    """

    def __init__(self) -> None:
        self._by_key: dict[Key, list[Program]] = {}
        self._order: dict[Path, Program] = {}  # the one that was used last comes last
        self._taken = 0
        self._room = ROOM
        self._forgotten: dict[int, None] = {}

    def __iter__(self) -> Iterator[Program]:
        return (p for programs in self._by_key.values() for p in programs)

    def find(self, key: Key, call: Call) -> Program | None:
        for program in self._by_key.get(key, ()):
            if program.call.structure == call.structure:
                return program
        return None

    def use(self, program: Program, path: Path) -> None:
        """Record that a path was taken, if it is still kept."""
        program = self._order.get(path, program)
        if path in self._order and next(reversed(self._order)) is not path:
            self._order[path] = self._order.pop(path)
            program.use(path)

    def add(self, program: Program, path: Path, in_use: Callable[[], Iterable[Path]] = tuple) -> set[Path]:
        """Keep a path, and return those that are forgotten for it. What is `in_use` counts as just used."""
        known = self.find(program.key, program.call)
        if known is None:
            self._by_key.setdefault(program.key, []).append(program)
        else:  # perhaps one that another thread was quicker with
            program = known
        name = _name(program, path)
        if name in self._forgotten:
            del self._forgotten[name]
            self._room = min(2 * self._room, MOST)
        program.add(path)
        self._order[path] = program
        self._taken += _size(path)
        if self._taken <= self._room:
            return set()
        for other in in_use():
            if other in self._order:
                self._order[other] = self._order.pop(other)
        self._order[path] = self._order.pop(path)
        # More than has to be, so that not every new one finds the room full.
        gone = set()
        while self._taken > self._room * 7 // 8 and len(self._order) > 1:
            oldest = next(iter(self._order))
            self._forgotten[_name(self._order[oldest], oldest)] = None
            self.forget(oldest)
            gone.add(oldest)
        while len(self._forgotten) > _REMEMBERED:
            del self._forgotten[next(iter(self._forgotten))]
        return gone

    def forget(self, path: Path) -> None:
        program = self._order.pop(path)
        self._taken -= _size(path)
        program.remove(path)
        if not program.paths:
            same = self._by_key[program.key]
            same.remove(program)
            if not same:
                del self._by_key[program.key]

    def keep_reads(self, kept: Sequence[Reads | None]) -> None:
        """Forget all programs that are not of these reads."""
        for path in [p for p, program in self._order.items() if program.reads not in kept]:
            self.forget(path)

    def count(self) -> tuple[int, int]:
        """Return how many programs and paths there are."""
        return sum(map(len, self._by_key.values())), len(self._order)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]


def _size(path: Path) -> int:
    constants = sum(int(n.attrs["value"].nbytes) for n in path.graph.constants)
    return len(path.graph.nodes) + constants // NODE + EACH


def _name(program: Program, path: Path) -> int:
    return hash((program.key[1:], path.decisions))
