"""Calls of programs on XLA that native code dispatches: between them and in their midst, all that may happen."""

from __future__ import annotations

import copy
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.execute.native.dispatch.entry import lack

pytest.importorskip("jax", reason="the engine needs jax")

import jax

from wengert.execute.xla.memory import Held

CALLS = 12


def is_native(f: Any) -> bool:
    """Return whether calls of a compiled function begin with a native one."""
    return bool(lack()) or hasattr(f, "_called")


class Model:
    """Two layers with an optimiser, and the step that trains them."""

    def __init__(self, optimizer: str = "adam") -> None:
        wg.random.manual_seed(1)
        self.net = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.Tanh(), wg.nn.Linear(4, 2)).to("float64")
        made: Any = {"adam": wg.optim.Adam, "sgd": wg.optim.SGD}[optimizer]
        self.opt = made(self.net.parameters(), lr=0.05)
        self.scale = wg.tensor(1.0, dtype="float64")

    def step(self, x: Any, y: Any) -> Any:
        self.opt.zero_grad()
        loss = ((self.net(x) * self.scale - y) ** 2).mean()
        loss.backward()
        self.opt.step()
        return loss

    def state(self) -> dict[str, Any]:
        """Return all that a step changes, copied."""
        held = self.opt.state_dict()["state"]
        own = {k: np.array(v) for k, v in self.net.state_dict().items()}
        grads = {f"grad {i}": np.array(p.grad) for i, p in enumerate(self.net.parameters()) if p.grad is not None}
        return own | grads | {f"{i}.{k}": np.array(v) for i, s in held.items() for k, v in s.items()}


def batch(k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(k)
    return wg.tensor(rng.normal(size=(5, 3))), wg.tensor(rng.normal(size=(5, 2)))


def agree(a: Model, b: Model) -> None:
    found, wanted = a.state(), b.state()
    assert found.keys() == wanted.keys()
    for k, v in wanted.items():
        np.testing.assert_allclose(found[k], v, 1e-9, 1e-9, err_msg=k)


def written(m: Model, k: int) -> None:
    with wg.no_grad():
        m.net[0].weight[0, k % 3] = 0.5


def scaled(m: Model, k: int) -> None:
    with wg.no_grad():
        m.net[2].bias.mul_(0.5)


def loaded(m: Model, k: int) -> None:
    m.net.load_state_dict({name: v * 0.9 for name, v in m.net.state_dict().items()})


def reloaded(m: Model, k: int) -> None:
    if k in (3, 9):  # which brings a new trace
        m.opt.load_state_dict(copy.deepcopy(m.opt.state_dict()))


def scheduled(m: Model, k: int) -> None:
    for group in m.opt.param_groups:
        group["lr"] *= 0.9


def rescaled(m: Model, k: int) -> None:
    m.scale = wg.tensor(1.0 + k, dtype="float64")


def rewritten(m: Model, k: int) -> None:
    m.scale[...] = 2.0 + k


def ungraded(m: Model, k: int) -> None:
    for p in m.net.parameters():
        p.grad = None


def of_another_dtype(m: Model, k: int) -> None:
    m.net.to("float32" if k % 4 == 1 else "float64")


def other_weights(m: Model, k: int) -> None:
    m.net[0].weight.data = wg.tensor(np.full((4, 3), 0.1 * k))


def untouched(m: Model, k: int) -> None:
    """Do nothing."""


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize(
    "between",
    [
        untouched, written, scaled, loaded, reloaded, scheduled, rescaled, rewritten, ungraded,
        of_another_dtype, other_weights,
    ],
)  # fmt: skip
def test_what_happens_between_calls(between: Callable[[Model, int], None], optimizer: str) -> None:
    ours, eager = Model(optimizer), Model(optimizer)
    step = wg.jit(ours.step, engine="xla")
    loose = between is of_another_dtype
    for k in range(CALLS):
        x, y = batch(k)
        a, b = step(x, y), eager.step(x, y)
        np.testing.assert_allclose(float(a), float(b), 1e-5 if loose else 1e-9)
        if not loose:
            agree(ours, eager)
        if k % 2:
            between(ours, k)
            between(eager, k)
    assert is_native(step)


def test_what_was_read_between_calls_keeps_its_values() -> None:
    ours = Model()
    step = wg.jit(ours.step, engine="xla")
    kept = []
    for k in range(CALLS):
        loss = step(*batch(k))
        view = ours.net[0].weight.detach().numpy()
        kept.append((view, view.copy(), loss, float(loss), ours.net[2].weight.detach(), ours.state()))
        for view, then, loss, number, _, _ in kept:
            np.testing.assert_array_equal(view, then)
            assert float(loss) == number
    for _, _, _, _, tensor, state in kept:
        np.testing.assert_array_equal(tensor.numpy(), state["2.weight"])


def test_the_state_stays_in_its_memory() -> None:
    ours = Model()
    step = wg.jit(ours.step, engine="xla")
    for k in range(4):
        step(*batch(k))
    arrays = [p._array for p in ours.net.parameters()]
    places = [(a, a.ctypes.data) for a in arrays]
    del arrays
    names = [id(a) for a, _ in places]
    pointers = [at for _, at in places]
    del places
    for k in range(4):
        step(*batch(k))
    assert [id(p._array) for p in ours.net.parameters()] == names
    assert [p._array.ctypes.data for p in ours.net.parameters()] == pointers
    for p in ours.net.parameters():
        held = p._array.base
        assert type(held) is Held
        assert held.array.unsafe_buffer_pointer() == held.pointer == p._array.ctypes.data


def test_arguments_of_all_kinds() -> None:
    f = wg.jit(lambda x, s, n: ((x * s).sum() + n, x * 2), engine="xla")
    base = np.arange(24.0).reshape(4, 6)
    for k in range(CALLS):
        x: Any = [
            wg.tensor(base), wg.tensor(base.copy())[:], base + k, np.asfortranarray(base), base[::-1],
            wg.tensor(base.T).mT,
        ][k % 6]  # fmt: skip
        s: Any = [wg.tensor(2.0, dtype="float64"), np.float64(k), 0.5 * k][k % 3]
        n: Any = [k, 1.5, 2 + 0j][k % 3]
        total, twice = f(x, s, n)
        want = (np.asarray(x) * np.asarray(s)).sum() + n
        np.testing.assert_allclose(np.asarray(total), want)
        np.testing.assert_array_equal(twice.numpy(), np.asarray(x) * 2)


def test_python_numbers_of_each_call() -> None:
    f = wg.jit(lambda x, a, b, c: (x * a + b, x.astype("complex128") * c), engine="xla")
    x = wg.ones(3, dtype="float64")
    for k in range(CALLS):
        real, other = f(x, 0.5 * k, k, k * 1j)
        assert real.tolist() == [0.5 * k + k] * 3
        assert other.tolist() == [k * 1j] * 3
    assert is_native(f)


def test_results_that_are_given_back_are_not_copied() -> None:
    f = wg.jit(lambda x, n: (x * 1.5, n + 1), engine="xla")
    x, n = wg.ones(64), wg.tensor(0)
    for k in range(CALLS):
        x, n = f(x, n)
        assert int(n) == k + 1
        if k > 2:
            assert wg.explain.transfers(f).brought == 0
    np.testing.assert_allclose(x.numpy(), 1.5**CALLS)


def test_donated_arguments_are_taken_and_the_rest_stays() -> None:
    f = wg.jit(lambda state, x: ({k: v + x for k, v in state.items()}, x.sum()), engine="xla", donate_argnums=0)
    state: Any = {"a": wg.zeros(3), "b": wg.zeros(2, 3)}
    x = wg.tensor([1.0, 2.0, 3.0])
    for k in range(CALLS):
        old, (state, total) = state, f(state, x)
        assert state["b"].tolist() == [[k + 1.0, 2.0 * (k + 1), 3.0 * (k + 1)]] * 2
        assert float(total) == 6.0
        with pytest.raises(wg.GraphError, match="donated"):
            old["a"].tolist()
        if k == 6:
            kept = state["a"].numpy()
            before = kept.copy()
    np.testing.assert_array_equal(kept, before)
    assert is_native(f)


def test_a_call_that_is_refused_leaves_the_state() -> None:
    table = wg.tensor(np.zeros(4))
    seen = wg.tensor(0)

    def count(i: Any, j: Any) -> Any:
        with wg.no_grad():
            seen.add_(1)
            table.add_(1.0)
            return table[i] + table[(j * 2) % 7]

    f = wg.jit(count, engine="xla")
    good, bad = wg.tensor([0, 3]), wg.tensor([0, 4])
    calls = 0
    for k in range(CALLS):
        if k % 3 == 2:
            with pytest.raises(IndexError):
                f(*((good, wg.tensor([3, 2])) if k % 2 else (bad, good)))
        else:
            calls += 1
            assert f(good, wg.tensor([0, 4])).tolist() == [2.0 * calls] * 2
        assert table.tolist() == [float(calls)] * 4
        assert int(seen) == calls
    assert is_native(f)


def test_classes_that_are_ignored() -> None:
    loss = lambda x, t: wg.nn.functional.cross_entropy(x, t, ignore_index=-100)
    f = wg.jit(loss, engine="xla")
    x = wg.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    for k in range(CALLS):
        t = wg.tensor([0, 1, 2, -100 if k % 2 else 1])
        np.testing.assert_allclose(float(f(x, t)), float(loss(x, t)))
    with pytest.raises(wg.WengertError):
        f(x, wg.tensor([0, 1, 2, 3]))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_indices_of_every_dtype_are_checked(dtype: str) -> None:
    f = wg.jit(lambda x, i: x[i], engine="xla")
    x = wg.tensor(np.arange(5.0))
    for k in range(8):
        assert f(x, wg.tensor([k % 5, 4], dtype=dtype)).tolist() == [k % 5, 4]
    with pytest.raises(IndexError):
        f(x, wg.tensor([0, 5], dtype=dtype))
    if "u" not in dtype:
        assert f(x, wg.tensor([-5, -1], dtype=dtype)).tolist() == [0, 4]
        with pytest.raises(IndexError):
            f(x, wg.tensor([0, -6], dtype=dtype))
    elif dtype != "uint64":  # whose largest number is -1 to NumPy
        with pytest.raises(IndexError):
            f(x, wg.tensor(np.array([0, np.iinfo(dtype).max], dtype)))


def test_engines_take_turns_at_the_same_state() -> None:
    ours, eager = Model(), Model()
    on = {name: wg.jit(ours.step, engine=name) for name in ("xla", "native")}
    for k in range(2 * CALLS):
        x, y = batch(k)
        which = ("xla", "xla", "xla", "native", "native", "eager")[k % 6] if k > 8 else ("xla", "native")[k % 2]
        a = ours.step(x, y) if which == "eager" else on[which](x, y)
        np.testing.assert_allclose(float(a), float(eager.step(x, y)), 1e-9)
        agree(ours, eager)


def test_two_functions_share_their_state() -> None:
    ours, eager = Model(), Model()
    train, look = wg.jit(ours.step, engine="xla"), wg.jit(lambda x: ours.net(x), engine="xla")
    other = wg.jit(lambda x, y: ours.step(x * 2, y), engine="xla")
    for k in range(CALLS):
        x, y = batch(k)
        train(x, y), eager.step(x, y)
        if k % 3 == 0:
            other(x, y), eager.step(x * 2, y)
        with wg.no_grad():
            np.testing.assert_allclose(look(x).detach().numpy(), eager.net(x).numpy(), 1e-9)
        agree(ours, eager)


def test_threads_take_turns() -> None:
    count, total = wg.tensor(0), wg.tensor(np.zeros(1000))

    def add(x: Any) -> Any:
        with wg.no_grad():
            count.add_(1)
            total.add_(x)
        return x * 2

    f = wg.jit(add, engine="xla")
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for k in range(100):
                x = wg.tensor(np.full(1000, float(n)))
                assert f(x)[k].item() == 2.0 * n
        except BaseException as e:
            errors.append(e)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not errors
    assert int(count) == 300
    assert total.tolist() == [300.0] * 1000


def test_no_grad_and_modes_are_other_programs() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    f = wg.jit(lambda x: (w * x).sum(), engine="xla")
    for _ in range(CALLS):
        assert f(wg.ones(2)).requires_grad
        with wg.no_grad():
            assert not f(wg.ones(2)).requires_grad
    assert not jax.config.jax_enable_x64


def test_the_state_of_an_optimiser_is_saved_in_the_middle() -> None:
    ours, other = Model(), Model()
    step = wg.jit(ours.step, engine="xla")
    for k in range(8):
        step(*batch(k))
        if k == 5:
            saved = copy.deepcopy((ours.net.state_dict(), ours.opt.state_dict()))
    other.net.load_state_dict(saved[0])
    other.opt.load_state_dict(saved[1])
    again = wg.jit(other.step, engine="xla")
    for k in (6, 7):
        again(*batch(k))
    agree(other, ours)


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A process that a shell has started in the background ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_in_the_midst_of_a_call_leaves_it_done_or_not() -> None:
    count, table = wg.tensor(0), wg.tensor(np.zeros((300, 300)))

    def work() -> Any:
        with wg.no_grad():
            count.add_(1)
            table.add_(1.0)
            x = table / 1e3
            for _ in range(6):
                x = x @ x / 300.0
        return x.sum()

    f = wg.jit(work, engine="xla")
    for _ in range(4):
        f()
    assert is_native(f)
    main = threading.main_thread().ident

    def interrupt() -> None:
        time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    interrupted = 0
    for _ in range(4):
        before = int(count)
        worker = threading.Thread(target=interrupt)
        try:
            worker.start()
            for _ in range(50):
                f()
        except KeyboardInterrupt:
            interrupted += 1
        worker.join()
        assert int(count) > before
        assert table.tolist() == [[float(int(count))] * 300] * 300
        assert not jax.config.jax_enable_x64
        f()
    assert interrupted
    assert ctypes.c_double.from_address(table._array.ctypes.data).value == float(int(count))


def test_a_reader_beside_a_writer() -> None:
    """What one thread's program takes, another's may just have been given: it reads the values by itself."""
    w = wg.tensor(np.zeros(20_000))

    def add() -> None:
        with wg.no_grad():
            w.add_(1.0)

    write, read = wg.jit(add, engine="xla"), wg.jit(lambda x: (w * x).max(), engine="xla")
    x = wg.ones(1, dtype="float64")
    errors: list[BaseException] = []

    def work(f: Callable[[], Any]) -> None:
        try:
            for _ in range(500):
                f()
        except BaseException as e:
            errors.append(e)

    seen = []
    workers = [threading.Thread(target=work, args=(f,)) for f in (write, lambda: seen.append(float(read(x))))]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert not errors
    assert seen == sorted(seen)
    assert w.tolist() == [500.0] * 20_000


def test_a_program_that_fails_before_it_has_taken_anything() -> None:
    w = wg.tensor(np.zeros(3))

    def add(x: Any) -> Any:
        with wg.no_grad():
            w.add_(x)
        return w * 2

    f = wg.jit(add, engine="xla")
    x = wg.ones(3, dtype="float64")
    f(x)
    executor = f._last.executor
    made, calls = executor._made, []

    def flaky(*arrays: Any) -> Any:
        calls.append(len(calls))
        if len(calls) % 3 == 0:
            raise RuntimeError("no room")
        return made.call(*arrays)

    executor._made = made._replace(call=flaky)
    for k in range(CALLS):
        assert f(x).tolist() == [2.0 * (k + 2)] * 3
    assert is_native(f)
    assert len(calls) > CALLS


def test_a_program_that_fails_when_it_has_taken_the_state() -> None:
    w = wg.tensor(np.zeros(3))

    def add(x: Any) -> None:
        with wg.no_grad():
            w.add_(x)

    f = wg.jit(add, engine="xla")
    x = wg.ones(3, dtype="float64")
    f(x)
    executor = f._last.executor
    made, calls = executor._made, []

    def broken(*arrays: Any) -> Any:
        found = made.call(*arrays)
        calls.append(found)
        if len(calls) == 6:
            raise RuntimeError("the device is gone")
        return found

    executor._made = made._replace(call=broken)
    for k in range(5):
        f(x)
        assert w.tolist() == [k + 2.0] * 3
    assert is_native(f)
    with pytest.raises(RuntimeError, match="the device is gone"):
        f(x)
    assert not jax.config.jax_enable_x64
