"""A mesh: the ranks of a job on a grid whose axes have names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from typing import Any

from ..core.errors import GraphError, fail
from ..core.ops.op import Op
from ..execute.native.overlap import Exchanges
from ..ops.collective.group import Group, current, entered
from .arguments import is_whole_number, whole_number

_current: ContextVar[Mesh | None] = ContextVar("wengert_mesh", default=None)
# The mesh whose ranks all run the program that is traced here, and whether it says what one rank does.
_written_for: ContextVar[tuple[Mesh, bool] | None] = ContextVar("wengert_written_for", default=None)


class Mesh:
    """The ranks of a job on a grid: each axis has a name and a size, and the last one varies fastest.

    Parameters
    ----------
    axes: names and sizes; they may be given by keyword too.

    As a block, `with mesh:`, it is the mesh that collectives by name are over.

    Raises GraphError for no axis, a size below 1, or a name that is no identifier.

    >>> import wengert as wg
    >>> mesh = wg.distribute.Mesh(data=2, model=2)
    >>> mesh.size, mesh.coordinates(2), mesh.along("model", 2)
    (4, {'data': 1, 'model': 0}, (2, 3))
    """

    __slots__ = ("axes", "names", "size", "_steps", "_tokens")

    def __init__(self, axes: Mapping[str, int] | None = None, **named: int) -> None:
        if not isinstance(axes, Mapping | None):
            fail(GraphError, f"a mesh of axes {axes!r}", "They have names: wg.distribute.Mesh(data=4).")
        self.axes: dict[str, int] = {**(axes or {}), **named}
        self.names = tuple(self.axes)
        if not self.axes:
            fail(GraphError, "a mesh without axes", "Name one: wg.distribute.Mesh(data=4).")
        for name, size in self.axes.items():
            if not isinstance(name, str) or not name.isidentifier():
                fail(GraphError, f"a mesh axis called {name!r}", "It is called by a Python name, such as 'data'.")
            self.axes[name] = whole_number(size, f"a mesh axis {name!r} of {size!r} ranks", "It has one rank or more.")
        self.size = 1
        self._steps: dict[str, int] = {}  # how far apart in rank neighbours along an axis are
        for name in reversed(self.names):
            self._steps[name] = self.size
            self.size *= self.axes[name]
        self._tokens: list[Any] = []

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return where a rank stands, by axis. Raises GraphError for a rank that is not in the mesh."""
        if not is_whole_number(rank) or not 0 <= rank < self.size:
            fail(GraphError, f"rank {rank!r} of {self}", f"Its ranks are 0 to {self.size - 1}.")
        return {name: self.place(name, rank) for name in self.names}

    def place(self, over: str, rank: int) -> int:
        """Return where along an axis one of the mesh's ranks stands."""
        return rank // self._steps[over] % self.axes[over]

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """Return the rank that stands at these coordinates. Raises GraphError for coordinates outside of the mesh."""
        is_there = isinstance(coordinates, Mapping) and coordinates.keys() == self.axes.keys()
        if not is_there or not all(is_whole_number(n) and 0 <= n < self.axes[k] for k, n in coordinates.items()):
            fail(GraphError, f"the rank at {coordinates!r} of {self}", f"Say where on all axes: {self.coordinates(0)}.")
        at = 0
        for name, size in self.axes.items():
            at = at * size + coordinates[name]
        return at

    def along(self, over: str, rank: int) -> tuple[int, ...]:
        """Return the ranks on the line through `rank` along an axis, in order."""
        here = self.coordinates(rank)
        return tuple(self.rank({**here, over: i}) for i in range(self.size_of(over)))

    def size_of(self, over: str) -> int:
        """Return how many ranks stand along an axis. Raises GraphError for an axis that is not there."""
        found = self.axes.get(over) if isinstance(over, str) else None
        if found is None:
            fail(GraphError, f"an axis {over!r} of {self}", f"Its axes are {', '.join(map(repr, self.names))}.")
        return found

    def __enter__(self) -> Mesh:
        group = current()
        block = entered(group.on(self) if isinstance(group, OnMesh) else group)
        block.__enter__()
        self._tokens.append((_current.set(self), block))
        return self

    def __exit__(self, *exc: object) -> None:
        token: Token[Mesh | None]
        token, block = self._tokens.pop()
        _current.reset(token)
        block.__exit__(None, None, None)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mesh) and list(self.axes.items()) == list(other.axes.items()))

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def __reduce__(self) -> Any:
        return Mesh, (self.axes,)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{n}={s}' for n, s in self.axes.items())})"


def as_mesh(given: Any, what: str) -> Mesh:
    """Return a mesh that a user gave to `what`. Raises GraphError for anything else."""
    if isinstance(given, Mesh):
        return given
    axes = f"data={given}" if isinstance(given, int) and not isinstance(given, bool) else "data=2"
    fail(GraphError, f"{what} with mesh={given!r}", f"A mesh names its axes: mesh=wg.distribute.Mesh({axes}).")


@contextmanager
def for_all_ranks(mesh: Mesh, of_one: bool = False) -> Iterator[None]:
    """Trace a program once that all ranks of a mesh run: inside, no rank's number is known.

    It is one on whole values, or what one rank does.
    """
    token = _written_for.set((mesh, of_one))
    try:
        yield
    finally:
        _written_for.reset(token)


def written_for() -> tuple[Mesh, bool] | None:
    """Return the mesh whose ranks all run what is traced here, and whether that says what one rank does.

    None where each rank runs code of its own.
    """
    return _written_for.get()


class Transport:
    """A way for the ranks of a job to exchange arrays, as one of them has it: what an engine gives."""

    __slots__ = ("rank", "size")

    rank: int
    size: int
    # True where other ranks live in this process too, and may run what was compiled for this one.
    shares_process = False

    def meet(self, members: tuple[int, ...], op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        """Return this rank's result of a collective among these ranks, to which it brings `x`."""
        raise NotImplementedError

    def compare(self, digest: bytes, what: Callable[[], str]) -> bool:
        """Return whether any rank of the job brings another digest. Raises GraphError where one does something else.

        `what` says what this rank is about to do, and is asked only where that is told.
        """
        raise NotImplementedError

    def exchanges(self, mesh: Mesh) -> Exchanges | None:
        """Return the exchanges that move collectives on a mesh while other steps run; None if there are none.

        All ranks ask for it at the same time.
        """
        return None

    def leave(self) -> None:
        """Note that this rank has left a step in its middle, in which others wait for what it does not send."""

    def one_thread(self) -> AbstractContextManager[Any]:
        """Return a block for one thread of this process at a time: a program's run, or a collective."""
        return nullcontext()

    def trusting(self, trusts: bool = True) -> AbstractContextManager[Any]:
        """Return a block in which a program runs that all ranks have agreed on: what they call is known to be equal.

        Where it is not any more, since one of them may have raised, they ask.
        """
        return nullcontext()


class OnMesh(Group):
    """A rank of a job on a mesh."""

    __slots__ = ("mesh", "transport", "_lines")

    def __init__(self, mesh: Mesh, transport: Transport) -> None:
        if mesh.size != transport.size:
            fail(
                GraphError,
                f"{mesh}, of {mesh.size} ranks, in a job of {transport.size}",
                "The sizes of a mesh's axes multiply to the number of ranks.",
            )
        self.mesh = mesh
        self.transport = transport
        self._lines: dict[str, tuple[int, ...]] = {}

    def on(self, mesh: Mesh) -> OnMesh:
        """Return the same rank on another mesh."""
        return self if mesh is self.mesh else OnMesh(mesh, self.transport)

    def index(self, over: str, ranks: int) -> int:
        """Return the position of this rank along an axis."""
        self._check(over, ranks)
        return self.mesh.coordinates(self.transport.rank)[over]

    def exchange(self, op: Op, x: Any, attrs: Mapping[str, Any]) -> Any:
        """Return this rank's result of a collective."""
        over = attrs["over"]
        self._check(over, attrs["ranks"])
        members = self._lines.get(over)
        if members is None:
            members = self._lines[over] = self.mesh.along(over, self.transport.rank)
        return self.transport.meet(members, op, x, attrs)

    def _check(self, over: str, ranks: int) -> None:
        if self.mesh.size_of(over) != ranks:
            fail(GraphError, f"a collective over {over!r}, an axis of {ranks} ranks, on {self.mesh}")


def current_mesh() -> Mesh:
    """Return the mesh of the innermost `with mesh:`, else the one that this rank is on. Raises GraphError for none."""
    found = _current.get()
    if found is not None:
        return found
    group = current()
    if isinstance(group, OnMesh):
        return group.mesh
    fail(
        GraphError,
        "a collective where there is no mesh",
        "Write it in a function for wg.distribute.shard_map or wg.distribute.run, or inside `with mesh:`.",
    )
