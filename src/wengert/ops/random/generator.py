"""Generators: a key and a position in its stream of random bits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, MutableMapping, Sequence, Set
from math import prod
from typing import Any, ClassVar, TypeVar

import numpy as np

from ...core.arrays import Array
from ...core.errors import DTypeError, GraphError, ShapeError, fail
from ...core.node import Node
from ...core.ops.declare import public
from ...core.ops.op import TABLE
from ...core.ops.record import bind
from ...core.spec import Spec, spec_of, uint64
from ...core.state.at_once import Call, later
from ...core.state.capture import get_capture
from ...core.state.cells import Cell
from ...core.state.refusals import refuse
from ...core.state.turns import Turn, holding, is_held_here
from ...core.tensor import Tensor, asarray, wrap
from .draws import Position, as_counter, as_key
from .keys import RandomKey
from .philox import BLOCK, WORD, Key, words64

T = TypeVar("T")


class _Traced:
    """A generator's position in a trace: a key, and a position that is so many blocks past a tensor's.

    Only the thread that traces sees it: others go on drawing numbers.
    """

    __slots__ = ("thread", "state", "key", "counter", "offset")

    def __init__(self, state: Tensor) -> None:
        self.thread = threading.get_ident()
        self.state: Tensor | None = state
        # As state[:2] and state[2], which take longer to find out what they mean.
        self.key: Tensor = bind(TABLE["slice"], (state,), {"entries": ((0, 2, None),)})
        self.counter: Tensor = bind(TABLE["slice"], (state,), {"entries": (2,)})
        self.offset = 0

    def move(self, key: Tensor, counter: Tensor) -> None:
        self.state, self.key, self.counter, self.offset = None, key, counter, 0

    def draw(self, blocks: int) -> tuple[Tensor, Tensor]:
        position = self.position
        if blocks:
            self.state = None
            self.offset += blocks
        return self.key, position

    @property
    def position(self) -> Tensor:
        if not self.offset:
            return self.counter
        out: Tensor = TABLE["add"].front(self.counter, wrap(np.array(self.offset, np.uint64)))
        return out

    @property
    def now(self) -> Tensor:
        """The key and position as one tensor: the one that it began with where nothing was drawn."""
        if self.state is None:
            self.state = TABLE["concat"].front(self.key, self.position.reshape(1), axis=-1)
        return self.state


class Examples:
    """The examples that a function is being traced for, which draw numbers of their own or the same (`wg.vmap`).

    While it is entered, a draw of this thread reserves blocks for all of them: together they may then take the numbers
    that one draw for the whole batch gives. `blocks` has what a draw at each such position needs for one example,
    `mapped` the nodes of the arguments that differ from one example to the next.
    """

    __slots__ = ("size", "is_same", "mapped", "blocks", "outer")

    _of_thread: ClassVar[dict[int, Examples]] = {}

    def __init__(self, size: int, is_same: bool) -> None:
        self.size = 1 if is_same else size
        self.is_same = is_same
        self.mapped: set[Node] = set()
        self.blocks: dict[tuple[Any, Any], int] = {}
        self.outer: Examples | None = None

    @classmethod
    def here(cls) -> Examples | None:
        """Return the innermost ones that the calling thread has entered."""
        return cls._of_thread.get(threading.get_ident())

    @classmethod
    def share_draws(cls, values: Iterable[Any]) -> bool:
        """Return whether examples that draw the same numbers differ in these values."""
        examples = cls.here()
        while examples is not None:
            if examples.is_same and _reach(values, examples.mapped):
                return True
            examples = examples.outer
        return False

    def __enter__(self) -> Examples:
        self.outer = self.here()
        self._of_thread[threading.get_ident()] = self
        return self

    def __exit__(self, *_: object) -> None:
        if self.outer is None:
            del self._of_thread[threading.get_ident()]
        else:
            self._of_thread[threading.get_ident()] = self.outer

    def reserve(self, take: Callable[[int], Position], blocks: int) -> Position:
        """Take blocks for all examples, those of the transforms around included; return the position of the first."""
        held = [self]
        while (outer := held[-1].outer) is not None:
            held.append(outer)
        position = take(blocks * prod(e.size for e in held))
        for e in reversed(held):
            e.blocks[_name(position)] = blocks
            blocks *= e.size
        return position

    def blocks_of(self, position: Position) -> int | None:
        """Return how many blocks one example needs of a reserved position, None for another position."""
        return self.blocks.get(_name(position))


def _reach(values: Iterable[Any], nodes: Set[Node]) -> bool:
    """Return whether tensors among values were computed from these nodes."""
    left = [t.node for t in values if isinstance(t, Tensor) and t.node is not None]
    seen = set(left)
    while left:
        node = left.pop()
        if node in nodes:
            return True
        fresh = {e for e in node.inputs if isinstance(e, Node)} - seen
        seen |= fresh
        left.extend(fresh)
    return False


def _name(position: Position) -> tuple[Any, Any]:
    key, counter = position
    return key.node if isinstance(key, Tensor) else key, counter.node if isinstance(counter, Tensor) else counter


class Generator:
    """A stream of random numbers: a key, and a position in it that drawing moves on.

    Parameters
    ----------
    seed: any int; taken from the operating system where it is left out.

    Threads may share one, eager code and compiled functions too: no two draws ever overlap. A compiled function has
    the generator to itself until it is done, and others wait. Where each thread, worker or layer should draw the same
    whatever the others do, give each its own with :meth:`split`.

    >>> import wengert as wg
    >>> g = wg.random.Generator(7)
    >>> a = wg.rand(3, generator=g)
    >>> bool((wg.rand(3, generator=g.manual_seed(7)) == a).all())
    True
    """

    __slots__ = ("_turn", "_at", "_given", "_split", "_traced", "__weakref__")

    def __init__(self, seed: int | None = None) -> None:
        self._turn = Turn(is_written_in_place=False)
        # The two words of the key and the block to be drawn next, as the compiled entry finds them.
        self._at = {"low": 0, "high": 0, "counter": 0}
        # A key, and the seed that it was made of; a key, and how many children have been split off it.
        self._given: tuple[Key, int] = (0, 0), 0
        self._split: tuple[Key, int] = (0, 0), 0
        self._traced: _Traced | None = None
        if seed is None:
            self.seed()
        else:
            self.manual_seed(seed)

    @property
    def _key(self) -> Key:
        return self._at["low"], self._at["high"]

    def _alone(self, do: Callable[[], T]) -> T:
        """Return `do()`, which reads and writes the state while no compiled function is at work with it."""
        if is_held_here(self._turn):
            fail(
                GraphError,
                "a generator is used in the midst of a compiled function that draws from it",
                "The numbers would be the same as the function's own. Give what is called back a generator of its "
                "own, wg.random.Generator(seed).",
            )
        return holding((self._turn,), do)

    def _move(self, key: Key, counter: int, given: tuple[Key, int], split: tuple[Key, int]) -> None:
        def move() -> None:
            self._given, self._split = given, split
            self._at.update(low=key[0], high=key[1], counter=counter)

        self._alone(move)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning. Returns the generator. Raises DTypeError."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            fail(DTypeError, f"a seed must be an int, not {seed!r}")
        seed = int(seed)
        key = (seed & WORD, seed >> 64 & WORD)
        if traced := self._in_trace():
            traced.move(as_key(key), as_counter(0))
            return self
        self._move(key, 0, (key, seed), (key, 0))
        return self

    def seed(self) -> int:
        """Seed the generator from the operating system's entropy. Returns the seed."""
        self._not_in_a_trace("seed()")
        seed = int.from_bytes(os.urandom(8))
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """Return the last seed that was given; for a generator made by `split`, its key."""
        key, seed = self._given
        low, high = self._key
        return seed if key == (low, high) else low | high << 64

    def draw(self, words: int) -> Position:
        """Reserve `count` words of 64 bits: return the key and the block that they begin at."""
        blocks = -(-words // BLOCK)
        if Examples._of_thread and (examples := Examples.here()) is not None:
            return examples.reserve(self._take, blocks)
        return self._take(blocks)

    def _take(self, blocks: int) -> Position:
        if traced := self._in_trace():
            return traced.draw(blocks)
        turn, at = self._turn, self._at
        if get_capture() is not None:
            return self._alone(lambda: self._advanced(blocks))
        with turn.lock:
            holders = turn.words
            if not (holders[0] or holders[1]):
                holders[0] = -1  # until it is done, without a call: nothing comes between
                key, counter = (at["low"], at["high"]), at["counter"]
                at["counter"] = counter + blocks
                holders[0] = 0
                return key, counter
        return self._alone(lambda: self._advanced(blocks))

    def _advanced(self, blocks: int) -> Position:
        counter = self._at["counter"]
        self._at["counter"] = counter + blocks
        return self._key, counter

    def mark(self) -> object:
        """Return a mark of the present position: equal to another mark where nothing was drawn between."""
        if traced := self._in_trace():
            return id(traced.key), id(traced.counter), traced.offset
        return self._key, self._at["counter"], self._children

    @property
    def _children(self) -> int:
        """The number of generators that were split off under the present key."""
        key, count = self._split
        return count if key == self._key else 0

    def _in_trace(self) -> _Traced | None:
        """Return the traced position for the calling thread, where it is tracing a function with this cell."""
        traced = self._traced
        return traced if traced is not None and traced.thread == threading.get_ident() else None

    def _not_in_a_trace(self, what: str) -> None:
        if self._in_trace():
            refuse(
                f"{what} of a generator inside a compiled function",
                "It would run once, when the function is traced. Do it outside.",
            )

    def __jit_cells__(self) -> Iterable[Cell]:
        return (_StateCell(self),)

    __jit_static__: None = None

    def split(self, count: int = 2) -> tuple[Generator, ...]:
        """Return `count` generators, independent of this one, of each other and of any split before.

        Child i of a generator has for its key the first two words of the cipher of the counter
        (i, 0, 0, 1), which no draw uses. Splitting leaves the numbers that this one draws alone.

        Raises ShapeError for a number that is no int of at least 0.
        """
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
            fail(ShapeError, f"split({count!r}): the number of generators must be an int of at least 0")
        self._not_in_a_trace("split()")

        def take() -> tuple[Key, int]:
            key, first = self._key, self._children
            self._split = key, first + int(count)
            return key, first

        key, first = self._alone(take)
        children = []
        for i in range(first, first + int(count)):
            low, high = words64(key, i, 2, domain=1).tolist()
            children.append(Generator(low | high << 64))
        return tuple(children)

    def fork(self) -> Generator:
        """Return one independent generator: `split(1)[0]`."""
        return self.split(1)[0]

    def get_state(self) -> Tensor:
        """Return key, position and number of splits as a uint64 tensor of 4, for :meth:`set_state`."""
        at = self._at.copy()  # at once
        state = [*at.values(), self._children]
        if traced := self._in_trace():
            found: Tensor = TABLE["concat"].front(traced.now, as_counter(state[-1]).reshape(1), axis=-1)
            return found
        return asarray(np.array(state, np.uint64), copy=False)

    def set_state(self, state: Any) -> Generator:
        """Restore the state that :meth:`get_state` gave. Returns the generator. Raises ShapeError, DTypeError."""
        state = asarray(state)
        if state.shape != (4,) or state.dtype != uint64:
            fail(
                ShapeError if state.dtype == uint64 else DTypeError,
                f"{state.spec} is not the state of a generator",
                "Pass what get_state() returned: a uint64 tensor of 4 elements.",
            )
        if traced := self._in_trace():
            traced.move(state[:2], state[2])
            return self
        low, high, counter, children = np.asarray(state).tolist()
        key = low, high
        self._move(key, counter, (key, low | high << 64), (key, children))
        return self

    def snapshot(self) -> tuple[Any, ...]:
        """Return all of the state for :meth:`restore`, also the seed that :meth:`initial_seed` tells."""
        return self._given, self._split, self._at.copy()

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Return to a :meth:`snapshot`, also in the midst of a compiled function that draws from the generator.

        For who runs several programs by turns, each with a state of its own, and lets no other thread draw meanwhile.
        """
        self._given, self._split, at = snapshot
        self._at.update(at)

    def __reduce__(self) -> tuple[Any, ...]:
        return _generator_in_state, (np.asarray(self.get_state()).tolist(),)

    def __repr__(self) -> str:
        return f"Generator(seed={self.initial_seed()}, position={self._at['counter']})"


class _StateCell(Cell):
    """A cell of a generator's key and position, uint64 of 3."""

    __slots__ = ("generator",)

    def __init__(self, generator: Generator) -> None:
        self.generator = generator

    @property
    def key(self) -> tuple[Any, ...]:
        return (id(self.generator),)

    @property
    def spec(self) -> Spec:
        return spec_of((3,), uint64)

    @property
    def turn(self) -> Turn:
        return self.generator._turn

    @property
    def numbers(self) -> Sequence[tuple[MutableMapping[str, Any], str]]:
        return [(self.generator._at, name) for name in self.generator._at]

    def get(self) -> Array:
        return np.array([*self.generator._at.copy().values()], np.uint64)

    def writes(self, array: Array) -> Iterable[Call]:
        at = self.generator._at
        return zip((at.update,), map(dict, map(zip, (tuple(at),), later(array.tolist))))

    def undo(self) -> Sequence[Call]:
        return ((setattr, self.generator, "_traced", self.generator._traced),)

    def hold(self, tensor: Tensor) -> None:
        self.generator._traced = _Traced(tensor)

    def held(self) -> Tensor:
        traced = self.generator._traced
        assert traced is not None
        return traced.now


def _generator_in_state(state: list[int]) -> Generator:
    return Generator(0).set_state(np.array(state, np.uint64))


default_generator = Generator()


def draw(generator: Generator | RandomKey | None, words: int) -> Position:
    """Reserve 64-bit words of a generator (None: the default one): return key and position."""
    if generator is None:
        generator = default_generator
    elif isinstance(generator, RandomKey):
        key = generator.words
        return (key, as_counter(0)) if isinstance(key, Tensor) else (key, 0)
    elif not isinstance(generator, Generator):
        fail(
            DTypeError,
            f"generator={generator!r} is a {type(generator).__name__}",
            "Pass a wg.random.Generator(seed), or None for the default one.",
        )
    return generator.draw(words)


@public
def manual_seed(seed: int) -> Generator:
    """Seed the default generator. Returns it.

    >>> import wengert as wg
    >>> _ = wg.manual_seed(0)
    >>> a = wg.rand(2)
    >>> _ = wg.manual_seed(0)
    >>> bool((wg.rand(2) == a).all())
    True
    """
    return default_generator.manual_seed(seed)


@public(home="random")
def seed(seed: int | None = None) -> int:
    """Seed the default generator: from the operating system, or with a number, as NumPy's function of this name does.

    Returns the seed. Raises DTypeError for a seed that is not an int.

    >>> import wengert as wg
    >>> wg.random.seed() == wg.random.initial_seed()
    True
    >>> wg.random.seed(0)
    0
    """
    if seed is None:
        return default_generator.seed()
    return default_generator.manual_seed(seed).initial_seed()


@public(home="random")
def initial_seed() -> int:
    """Return the default generator's seed.

    >>> import wengert as wg
    >>> _ = wg.random.manual_seed(3)
    >>> wg.random.initial_seed()
    3
    """
    return default_generator.initial_seed()


@public(home="random")
def get_rng_state() -> Tensor:
    """Return the default generator's state, for :func:`set_rng_state`.

    >>> import wengert as wg
    >>> state = wg.random.get_rng_state()
    >>> a = wg.random.rand(2)
    >>> wg.random.set_rng_state(state)
    >>> bool((wg.random.rand(2) == a).all())
    True
    """
    return default_generator.get_state()


@public(home="random")
def set_rng_state(state: Any) -> None:
    """Set the default generator to the state that :func:`get_rng_state` gave.

    Raises ShapeError or DTypeError for a tensor that is no state.

    >>> import wengert as wg
    >>> state = wg.random.get_rng_state()
    >>> a = wg.random.rand(2)
    >>> wg.random.set_rng_state(state)
    >>> bool((wg.random.rand(2) == a).all())
    True
    """
    default_generator.set_state(state)
