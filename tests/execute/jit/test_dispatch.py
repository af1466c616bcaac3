"""The dispatch program of a call: its two interpreters do the same, and where neither is right the call goes on."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from ways import WAYS
from wengert import optim
from wengert.core.standins import weak_number
from wengert.execute.jit import guests
from wengert.execute.jit.dispatch import native, native_path, python
from wengert.execute.jit.dispatch.program import INSTRUCTIONS, MISS, Dispatch
from wengert.execute.native.dispatch import entry

pytest.importorskip("llvmlite")

CALLS = 10


def settled(fn: Any, *args: Any) -> Any:
    """The function after as many calls as it takes for calls like this one to have a dispatch program."""
    for _ in range(CALLS):
        fn(*args)
    return fn


def dispatch_of(fn: Any) -> Dispatch:
    """The dispatch program that calls try first."""
    found: Dispatch = next(w for w in map(guests.origin, fn._short) if hasattr(w, "dispatch")).dispatch  # type: ignore[union-attr]
    return found


class Static:
    """An argument that is equal to another one, as its class says."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and other.factor == self.factor

    def __hash__(self) -> int:
        return hash(self.factor)


# -- the instructions


def test_both_interpreters_know_every_instruction() -> None:
    assert python.PYTHON.keys() == INSTRUCTIONS.keys()
    parts = (native._NativeCall, native_path.NativePath)
    known = [name.removeprefix("on_") for part in parts for name in vars(part) if name.startswith("on_")]
    assert sorted(known) == sorted(INSTRUCTIONS)


def test_a_dispatch_program_can_be_read() -> None:
    w = wg.ones(2)
    fn = settled(wg.jit(lambda x, s: {"y": x * s + w}), wg.ones(2), 2.0)
    names = [line.split()[0] for line in str(dispatch_of(fn)).splitlines()]
    checks = ["check", "mode", "tensor", "number", "captured"]
    feeds = ["path", "feed_tensor", "feed_tensor", "feed_number"]
    assert names == [*checks, *feeds, "run", "make", "pack_dict", "return"]


@pytest.mark.parametrize("widths", [(8, 1), (8, 8, 1), (1, 1, 1), (8, 3)])
@pytest.mark.parametrize("batch", [1, 8])
def test_steps_of_small_networks_are_dispatched_natively(widths: tuple[int, ...], batch: int) -> None:
    """Whatever the strides of axes of size 1 are, an updated parameter is the parameter's array."""
    if entry.entry() is None:
        pytest.skip("native dispatch is off here")
    layers = [wg.nn.Linear(m, n) for m, n in zip(widths, widths[1:])]
    model = wg.nn.Sequential(*layers)
    opt = wg.optim.Adam(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    fn = settled(wg.jit(step), wg.ones(batch, widths[0]))
    assert native.function(dispatch_of(fn)) is not None


# -- what one of the ways once did otherwise


@pytest.mark.parametrize("way", WAYS)
def test_state_among_the_arguments_is_not_read_before_it_is_written(way: str) -> None:
    total = wg.zeros(3)

    @wg.jit
    def add(x: Any) -> Any:
        total.add_(1)
        return x * 2

    settled(add, wg.ones(3))
    WAYS[way](add)
    before = total.tolist()[0]
    assert add(total).tolist() == [2 * (before + 1)] * 3
    assert total.tolist() == [before + 1] * 3


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_on_a_path_that_is_not_taken_is_none(way: str) -> None:
    @wg.jit
    def root(x: Any) -> Any:
        return wg.linalg.cholesky(x) if x.sum() > 0 else x

    one = wg.tensor(np.eye(3, dtype=np.float32))
    for x in (one, -one, one):
        settled(root, x)
    WAYS[way](root)
    assert root(-one).tolist() == (-one).tolist()
    assert root(one).tolist() == one.tolist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("zero", [0.0, 0j])
def test_zeros_that_are_part_of_the_program_are_told_apart_by_sign(zero: complex, way: str) -> None:
    fn = wg.jit(lambda x, s: x * (-1 if str(s) in ("-0.0", "(-0-0j)") else 1))
    if isinstance(zero, float):
        fn = wg.jit(lambda x, s: x * (-1 if s.hex().startswith("-") else 1))
    settled(fn, wg.ones(2), zero)
    WAYS[way](fn)
    assert fn(wg.ones(2), zero).tolist() == [1, 1]
    assert fn(wg.ones(2), -zero).tolist() == [-1, -1]


@pytest.mark.parametrize("way", WAYS)
def test_arguments_that_code_of_users_compares(way: str) -> None:
    compared: list[Any] = []

    class Options(Static):
        def __eq__(self, other: object) -> bool:
            compared.append(other)
            held.clear()
            return super().__eq__(other)

        __hash__ = Static.__hash__

    held: list[Any] = []
    fn = wg.jit(lambda x, rest: x * rest[1]["options"].factor + rest[0])
    arguments = lambda factor: (wg.ones(2), [wg.ones(2), {"options": Options(factor)}])
    settled(fn, *arguments(3))
    WAYS[way](fn)
    assert all(f(*arguments(3)) is not MISS for f in fn._short)
    assert fn(*arguments(3)).tolist() == [4, 4]
    assert fn(*arguments(4)).tolist() == [5, 5]
    # What was found on the way to it may be gone when the comparison is over.
    for f in fn._short:
        held[:] = arguments(3)[1]
        compared.clear()
        result = f(wg.ones(2), held)
        assert result is MISS or result.tolist() == [4, 4]
        assert compared


def test_arguments_in_lists_stay_until_the_last_path_has_read_them() -> None:
    """Another thread may clear a list while a path runs that turns out not to be the one."""

    def waiting(a: Any) -> Any:
        if gate.locked():
            gate.release()
            time.sleep(0.2)
        return np.asarray(a)

    @wg.jit
    def choose(xs: Any) -> Any:
        seen = wg.callback(waiting, wg.spec((4,)), xs[0])
        return xs[2] * 2 if seen.sum() > 0 else xs[1] + 1

    def arguments(sign: int) -> list[Any]:
        return [sign * wg.ones(4), wg.ones(64) * 3, wg.ones(64) * 3]

    def clear(xs: list[Any]) -> None:
        gate.acquire()
        xs.clear()
        gate.release()
        others.append([wg.ones(64) * 9 for _ in range(200)])

    gate, others = threading.Lock(), list[Any]()
    for sign in (1, -1, 1, -1):
        settled(choose, arguments(sign))
    for sign, want in ((1, 6), (-1, 4)):
        xs = arguments(sign)
        gate.acquire()
        thread = threading.Thread(target=clear, args=(xs,))
        thread.start()
        result = choose._short[0](xs)
        thread.join()
        # Python's interpreter looks into the list again, and leaves what it does not know to the general way.
        assert result is not MISS or entry.lack()
        assert result is MISS or result.tolist() == [want] * 64


@pytest.mark.parametrize("way", WAYS)
def test_methods_and_complex_numbers_among_the_arguments(way: str) -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def up(self, x: Any) -> Any:
            return x * self.factor

        def down(self, x: Any) -> Any:
            return x / self.factor

    two, four = Scale(2.0), Scale(4.0)
    fn = wg.jit(lambda f, x, z: f(x) * z)
    settled(fn, two.up, wg.ones(2), 1j)
    WAYS[way](fn)
    for _ in range(2):
        assert fn(two.up, wg.ones(2), 2 - 1j).tolist() == [4 - 2j] * 2
        assert fn(two.down, wg.ones(2), 1j).tolist() == [0.5j] * 2
        assert fn(four.up, wg.ones(2), 1j).tolist() == [4j] * 2


@pytest.mark.parametrize("way", WAYS)
def test_results_that_are_arrays_of_the_program_are_the_callers(way: str) -> None:
    fn = wg.jit(lambda x: (x + 1, np.arange(3.0)))
    settled(fn, wg.ones(2))
    WAYS[way](fn)
    for _ in range(3):
        _, array = fn(wg.ones(2))
        assert array.tolist() == [0, 1, 2]
        array[:] = 7


def is_positive(x: Any) -> Any:
    return x.sum() > 0


def decided_twice(x: Any) -> Any:
    y = x * 2 if x.sum() > 0 else x
    return y + 1 if x.sum() > 0 else y - 1


def decided_by_helpers(x: Any) -> Any:
    y = x * 2 if is_positive(x) else x
    for _ in range(2):
        y = y + 1 if is_positive(x) else y - 1
    return y


def decided_and_denied(x: Any) -> Any:
    y = x * 2 if x.sum() > 0 else x
    return y - 1 if not (x.sum() > 0) else y


def decided_by_numbers(x: Any) -> Any:
    y = x * 2 if float(x.sum()) > 0 else x
    return y + float(x.sum())


def decided_and_returned(x: Any) -> Any:
    c = is_positive(x)
    return wg.stack([x * 2 if c else x, x + c]), c, is_positive(x)


DECIDED = [decided_twice, decided_by_helpers, decided_and_denied, decided_by_numbers]


@pytest.mark.parametrize("way", WAYS)
def test_a_decision_by_an_argument_and_by_a_result(way: str) -> None:
    def by_argument(x: Any, flag: Any) -> Any:
        y = x * 2 if flag else x
        return y + 1 if flag else y - 1

    run, other = wg.jit(by_argument), wg.jit(decided_and_returned)
    x, flags = wg.ones(3), (wg.tensor(True), wg.tensor(False))
    for flag in flags * 2:
        settled(run, x, flag)
        settled(other, x if flag else -x)
    WAYS[way](run)
    WAYS[way](other)
    for flag in (*flags, *flags):
        assert run(x, flag).tolist() == by_argument(x, flag).tolist()
        given = x if flag else -x
        for a, b in zip(other(given), decided_and_returned(given), strict=True):
            assert a.tolist() == b.tolist()
        if not entry.lack():
            assert any(f(x, flag) is not MISS for f in run._short)
            assert any(f(given) is not MISS for f in other._short)
            for fn in (run, other):
                assert way == "python" or any(not hasattr(f, "__code__") for f in fn._short)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fn", DECIDED)
def test_a_decision_that_is_taken_twice(fn: Callable[[Any], Any], way: str) -> None:
    run = wg.jit(fn)
    one, other = wg.ones(3), -wg.ones(3)
    for x in (one, other, one, other):
        settled(run, x)
    WAYS[way](run)
    for x in (one, other, one):
        assert run(x).tolist() == fn(x).tolist()
        if not entry.lack():
            # Native code takes it, where it is asked at all.
            assert any(f(x) is not MISS for f in run._short)
            assert way == "python" or any(not hasattr(f, "__code__") for f in run._short)


# -- where native dispatch is off


def test_native_dispatch_is_off_where_it_was_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    entry.entry.cache_clear()
    try:
        monkeypatch.setattr(entry, "TESTED", entry.TESTED - {sys.version_info[:2]})
        assert "not tested with this Python" in entry.lack()
        fn = settled(wg.jit(lambda x: x + 1), wg.ones(2))
        assert [hasattr(f, "__code__") for f in fn._short] == [True]
        assert fn(wg.ones(2)).tolist() == [2, 2]
    finally:
        entry.entry.cache_clear()


# -- both interpreters, and Python itself


class Pair(NamedTuple):
    """A result of a class of its own."""

    first: Any
    second: Any


class Odd(wg.Tensor):
    __slots__ = ()


DEEDS = ("write", "gradient", "decide", "outside", "history", "step", "draw", "filled")
DTYPES = ("float32", "float64", "int32", "int64", "bool", "complex64", "uint8", "float16")
SHAPES = ((), (3,), (2, 3), (0, 2), (1,))


class World:
    """A function and its state; every world of one seed has the same."""

    def __init__(self, seed: int, is_compiled: bool) -> None:
        r = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.box = {"rate": 0.5, "names": ["a"]}
        self.total = wg.zeros(3)
        self.weight = wg.tensor([1.0, -2.0, 3.0], requires_grad=True)
        self.kinds = [r.choice(USUAL if r.random() < 0.4 else LEAVES) for _ in range(r.randint(1, 4))]
        self.form = r.randrange(5)
        self.does = {name for name in DEEDS if r.random() < 0.3}
        if "history" in self.does:
            self.does -= {"gradient", "step"}
        rule = r.choice([optim.Adam, lambda p, lr: optim.SGD(p, lr=lr, momentum=0.5)])
        self.rule = rule([self.weight], lr=0.5)
        self.draws = wg.random.Generator(seed)
        self.answer = r.randrange(6)
        self.views: tuple[Any, ...] = ()
        self.tensor: Any = wg.tensor
        donated = 0 if r.random() < 0.3 else None
        self.does |= {name for name, share in (("freed", 0.2), ("itself", 0.3)) if r.random() < share}
        if r.random() < 0.3:  # state with views, which writes reach
            self.total, self.weight = wg.torch.zeros(3), wg.torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
            self.rule = rule([self.weight], lr=0.5)
            self.does |= {name for name in ("views", "kept gradient") if r.random() < 0.5}
            self.tensor = wg.torch.tensor if r.random() < 0.7 else wg.tensor
        self.call: Any = wg.jit(self.function, donate_argnums=donated) if is_compiled else self.function

    def function(self, *args: Any) -> Any:
        leaves = [
            x for x in wg.tree.leaves(args) if isinstance(x, (wg.Tensor, np.ndarray, np.generic, float, int, complex))
        ]
        leaves = [
            wg.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves if not isinstance(x, bool)
        ]
        factor = sum(x.factor for x in wg.tree.leaves(args) if isinstance(x, Static))
        out = wg.zeros(3) + factor
        if "write" in self.does:
            self.total.add_(1)
        parts = [(x * 2).sum() if isinstance(x, wg.Tensor) else x * 2 for x in leaves]
        for part in parts:
            out = out + part
        if "outside" in self.does:
            out = out * self.box["rate"] + len(self.box["names"])
        if "gradient" in self.does:
            (self.weight * wg.asarray(out).real.detach()).sum().backward()
        if "history" in self.does:
            out = out * self.weight
        if "freed" in self.does:
            loss = (self.weight * 3).sum()
            loss.backward()
            out = out + loss
        if "step" in self.does:
            (self.weight * 2).sum().backward()
            self.rule.step()
            self.rule.zero_grad(set_to_none="kept gradient" not in self.does)
        if "draw" in self.does:
            out = out + wg.rand(3, generator=self.draws)
        if "decide" in self.does and wg.abs(out).sum() > 40:
            out = out - 1
        out = out + self.total
        twice = [x + x for x in leaves[:2]]
        answers: list[Callable[[], Any]] = [
            lambda: out,
            lambda: (out, twice),
            lambda: {"out": out, "rest": [*twice, "text"]},
            lambda: [out, out],
            lambda: (out, None, np.arange(2)),
            lambda: Pair(out, twice),
        ]
        if "itself" in self.does:
            values = wg.Tensor, np.ndarray, np.generic, int, float, complex
            first = next((x for x in wg.tree.leaves(args) if isinstance(x, values) and type(x) is not bool), None)
            return answers[self.answer](), first, self.total, self.total[1:]
        return answers[self.answer]()

    def leaf(self, kind: str, value: int) -> Any:
        """An argument of a kind; all that is made of one value is equal."""
        name, _, rest = kind.partition(" ")
        if name in ("tensor", "array"):
            dtype, _, shape = rest.partition(" ")
            array = np.asarray(np.full(eval(shape), value), dtype)
            return self.tensor(array) if name == "tensor" else array
        if kind == "strided array":
            return np.full((3, 2), value, np.float32)[:, 0]
        if name == "strided":
            return wg.tensor(np.full((3, 2), value, np.float32).T)
        return {
            "float": lambda: float(value),
            "int": lambda: 3,
            "varying": lambda: value,
            "complex": lambda: complex(value, 1),
            "zero": lambda: -0.0 if value % 2 else 0.0,
            "text": lambda: "text",
            "none": lambda: None,
            "true": lambda: True,
            "static": lambda: Static(2.0),
            "other": lambda: Static(3.0),
            "function": lambda: len,
            "tracked": lambda: wg.tensor(np.full(3, value, np.float32), requires_grad=True),
            "computed": lambda: wg.tensor(np.full(3, value, np.float32), requires_grad=True) * 2,
            "odd": lambda: Odd(np.full(3, value, np.float32)),
            "state": lambda: self.total[:] if "views" in self.does and value % 2 else self.total,
            "scalar": lambda: np.float32(value),
            "swapped": lambda: np.full(3, value, ">f4"),
            "weak": lambda: weak_number(float(value)),
            "method": lambda: self.method,
        }[name]()

    def arguments(self, kinds: list[str], value: int, form: int, is_same: bool) -> Any:
        leaves = [self.leaf(kind, value + (0 if is_same else i)) for i, kind in enumerate(kinds)]
        if is_same:
            first = leaves[0]
            leaves = [first if kind == kinds[0] else leaf for kind, leaf in zip(kinds, leaves)]
        forms: list[Callable[[], tuple[Any, ...]]] = [
            lambda: tuple(leaves),
            lambda: ([*leaves],),
            lambda: (tuple(leaves), {"first": leaves[0], 3: ()}),
            lambda: ({str(i): x for i, x in enumerate(leaves)}, None),
            lambda: (leaves[0], [(x,) for x in leaves[1:]]),
        ]
        return forms[form]()

    def method(self) -> None:
        """An argument that is made anew whenever it is asked for."""

    def outside(self, change: str) -> None:
        """Something that changes between two calls."""
        if "filled" in self.does:
            self.weight.grad = wg.ones(3)
        if change == "rate":
            self.box["rate"] += 0.25
        elif change == "names":
            self.box["names"].append("b")
        elif change == "gradient":
            self.weight.grad = None if self.weight.grad is not None else wg.ones(3)
        elif change == "total":
            self.total.data = wg.tensor([5.0, 6.0, 7.0])
        elif change == "rule":
            self.rule.param_groups[0]["lr"] *= 0.5
        elif change == "held":
            self.held = self.total._array, self.weight.grad
            if "views" in self.does:
                self.views = self.total[1:], self.weight.detach()[:2], self.weight.grad

    def state(self) -> list[Any]:
        return [self.total, self.weight, self.weight.grad, np.asarray(self.draws.get_state()), *self.views]


USUAL = ["tensor float32 (3,)", "array float32 (3,)", "float"]
LEAVES = [f"{kind} {dtype} {shape}" for kind in ("tensor", "array") for dtype in DTYPES for shape in SHAPES]
OTHERS = [
    "float",
    "int",
    "varying",
    "complex",
    "zero",
    "text",
    "none",
    "true",
    "static",
    "function",
    "tracked",
    "computed",
    "weak",
]
LEAVES += OTHERS * 3
# What stands in for an argument: for the usual ones mostly what is nearly right.
NEARLY = ["strided", "strided array", "odd", "scalar", "swapped", "other"]
WRONG = [*NEARLY, *LEAVES], [*NEARLY, *["state"] * 8, *USUAL, "tensor float64 (3,)", "tensor float32 (1,)", "tracked"]
CHANGES = ["rate", "names", "gradient", "total", "held", "rule"]


def plain(x: Any) -> Any:
    """A result for a comparison: values, dtypes, classes. Of state that a call was given to keep, that it is gone."""
    if isinstance(x, wg.Tensor):
        return (type(x), "donated") if is_donated(x) else (type(x), x.requires_grad, plain(x._array))
    return (np.ndarray, x.dtype, x.shape, x.tolist()) if isinstance(x, np.ndarray) else (type(x), x)


def is_donated(x: Any) -> bool:
    """Whether a tensor was given to a compiled call to keep, as state may be that is an argument too."""
    return isinstance(x, wg.Tensor) and repr(x).startswith("<a tensor that was donated")


def flat(x: Any) -> tuple[Any, list[Any]]:
    leaves, structure = wg.tree.flatten(x)
    return structure, [plain(leaf) for leaf in leaves]


def ways_of(fn: Any, which: int) -> list[Any]:
    """What calls try, each program by one of its interpreters: the first (native where that can), or Python's."""
    shorts = [s for guest in (fn._home, *fn._guests) for s in guest.shorts.values()]
    tried = list(dict.fromkeys(i for w in map(guests.origin, fn._short) for i, s in enumerate(shorts) if w in s.ways))
    return [shorts[i].ways[which] for i in tried]


def called(world: World, args: Any, which: int) -> tuple[Any, bool]:
    """A call by one interpreter, else the general way; whether that was asked."""
    for way in ways_of(world.call, which):
        found = way(*args)
        if found is not MISS:
            return found, False
    world.call.call_by(None)
    short, world.call._short = world.call._short, ()
    try:
        return world.call(*args), True
    finally:
        world.call.call_by(None)
        new = [w for w in world.call._short if w not in short]
        world.call._short = (*new, *short)[:8]


def close(a: Any, b: Any) -> None:
    """Both are alike; compiled functions give tensors where Python has numbers."""
    for x, y in zip(wg.tree.leaves(a), wg.tree.leaves(b), strict=True):
        if isinstance(x, str) or x is None:
            assert x == y
            continue
        one, two = (np.asarray(v.detach() if isinstance(v, wg.Tensor) else v) for v in (x, y))
        assert one.shape == two.shape
        if isinstance(x, wg.Tensor) and isinstance(y, wg.Tensor):
            assert x.dtype == y.dtype
        np.testing.assert_allclose(one, two, rtol=2e-3 if one.dtype == np.float16 else 1e-5)


def agree(seed: int, count: int) -> set[str]:
    """Calls of one function by native code, by Python and uncompiled; the first two miss the same calls.

    What comes back are the instructions that were there to be followed.
    """
    r = random.Random(seed + 1)
    by_native, by_python, eager = (World(seed, is_compiled) for is_compiled in (True, True, False))
    for step in range(count):
        kinds, form, value, is_same = by_native.kinds, by_native.form, r.randrange(1, 6), r.random() < 0.1
        change = r.choice(CHANGES) if step > CALLS and r.random() < 0.4 else ""
        if step > CALLS and r.random() < 0.3:
            kinds = [r.choice(WRONG[kind in USUAL]) if r.random() < 0.5 else kind for kind in kinds]
            form = r.randrange(5) if r.random() < 0.1 else form
        results = []
        grad = not (step > CALLS and r.random() < 0.05) or not {"gradient", "step", "freed"}.isdisjoint(by_native.does)
        for world, which in ((by_native, 0), (by_python, -1), (eager, None)):
            world.outside(change)
            args = world.arguments(kinds, value, form, is_same)
            with wg.set_grad_enabled(grad):
                try:
                    result = (world.call(*args), True) if which is None else called(world, args, which)
                except (wg.WengertError, TypeError, ValueError) as e:
                    result = e, True
            results.append(result)
        (a, missed_a), (b, missed_b), (c, _) = results
        where = f"seed {seed} call {step}: {kinds} as {form}, {change}"
        if isinstance(a, Exception) or isinstance(b, Exception):
            assert type(a) is type(b), (where, a, b)
            break
        assert flat(a) == flat(b), where
        assert flat(by_native.state()) == flat(by_python.state()), where
        if any(map(is_donated, wg.tree.leaves(by_native.state()))):  # an argument that was state: it has no next call
            break
        is_ordered = not {"strided", "strided array", "swapped"} & set(kinds)
        assert missed_a == missed_b or (missed_a and not is_ordered), where
        if not isinstance(c, Exception):
            try:
                close(a, c)
                close(by_native.state(), eager.state())
            except AssertionError as e:
                raise AssertionError(where) from e
    shorts = [short for guest in (by_native.call._home, *by_native.call._guests) for short in guest.shorts.values()]
    return {i.name for short in shorts for way in short.ways for i in getattr(way, "dispatch", ())}


# What few calls have, or none of these.
SELDOM = {"method", "unobserved", "take_array", "take_cell", "write_cell", "carried_weak"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_interpreters_agree() -> None:
    seen: set[str] = set()
    for seed in (*range(9), 15, 16, 27, 41, 53, 63, 64):  # which come to every instruction, most by several
        seen |= agree(seed, 24)
    assert seen >= INSTRUCTIONS.keys() - SELDOM


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(10))
def test_the_interpreters_agree_on_more(part: int) -> None:
    for seed in range(100 * part, 100 * part + 100):
        agree(seed, 30)
