"""Calls of compiled functions: memory that results take over, and the fast paths in."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import types
import weakref
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim
from wengert.core.ops.facets import VIEWS
from wengert.core.ops.op import TABLE, Op
from wengert.execute.jit.dispatch.program import MISS
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.dispatch import code as entry_code
from wengert.execute.native.dispatch import entry
from wengert.execute.native.run import runtime

pytest.importorskip("llvmlite")


def training(rule: Any = optim.Adam) -> Any:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = rule(model.parameters(), lr=0.1)

    @wg.jit
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    x = wg.tensor(np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4))
    return model, opt, step, x, wg.tensor(np.array([0, 1, 2, 1, 0]))


def gradient(x: wg.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.numpy()


def test_state_is_updated_where_it_stands() -> None:
    model, opt, step, x, y = training()
    for _ in range(8):
        step(x, y)
    w = model[0].weight
    arrays = [w._array, opt.state[w]["exp_avg"], opt.state[w]["exp_avg_sq"]]
    before = [id(a) for a in arrays]
    values = [a.copy() for a in arrays]
    del arrays
    for _ in range(3):
        step(x, y)
    after = [w._array, opt.state[w]["exp_avg"], opt.state[w]["exp_avg_sq"]]
    assert [id(a) for a in after] == before
    assert all((a != b).any() for a, b in zip(after, values, strict=True))


@pytest.mark.parametrize("hold", ["array", "view", "tensor", "graph", "slice", "state", "gradient", "its array"])
def test_what_others_hold_never_changes(hold: str) -> None:
    model, opt, step, x, y = training()
    w = model[0].weight
    for i in range(10):
        step(x, y)
        if i < 4:
            continue
        held = {
            "array": lambda: w._array,
            "view": lambda: w.detach().numpy(),
            "tensor": lambda: w.detach(),
            "graph": lambda: (w * w).sum(),
            "slice": lambda: w._array[1:, ::2],
            "state": lambda: opt.state[w]["exp_avg"],
            "gradient": lambda: w.grad,
            "its array": lambda: w.grad.numpy(),
        }[hold]()
        if hold == "graph":
            want = 2 * w.detach().numpy()
            step(x, y)
            w.grad = None
            held.backward()
            np.testing.assert_array_equal(w.grad.numpy(), want)
            continue
        value = np.array(held)
        step(x, y)
        step(x, y)
        np.testing.assert_array_equal(held, value)


def test_updates_in_place_are_those_of_eager_steps() -> None:
    (model, _, step, x, y), (other, rule, _, _, _) = training(), training()
    for _ in range(8):
        loss = nn.functional.cross_entropy(other(x), y)
        rule.zero_grad()
        loss.backward()
        rule.step()
        np.testing.assert_allclose(step(x, y), loss.detach(), rtol=1e-5)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-6)


def test_two_places_that_hold_one_array() -> None:
    a, b = wg.zeros(3), wg.zeros(3)

    @wg.jit
    def step() -> None:
        a.add_(1.0)
        b.add_(10.0)

    for i in range(8):
        if i % 3 == 0:
            b._data = a._array
        want = a.numpy() + 1, b.numpy() + 10
        step()
        np.testing.assert_array_equal(a.numpy(), want[0])
        np.testing.assert_array_equal(b.numpy(), want[1])


def test_a_failing_call_changes_nothing() -> None:
    total, table = wg.zeros(3), wg.ones((4, 3))

    @wg.jit
    def step(i: Any) -> Any:
        total.add_(table[i].sum(0))
        return total.sum()

    for _ in range(5):
        step(wg.tensor([0, 1]))
    before = total.numpy().copy()
    for _ in range(3):
        with pytest.raises(IndexError, match="index"):
            step(wg.tensor([0, 9]))
        np.testing.assert_array_equal(total.numpy(), before)
    step(wg.tensor([0, 1]))
    np.testing.assert_array_equal(total.numpy(), before + 2)


def test_one_tensor_given_twice_is_no_guide_to_two() -> None:
    fn = wg.jit(lambda a, b: a - 2 * b)
    for _ in range(4):
        x = wg.ones(3)
        np.testing.assert_array_equal(fn(x, x), [-1] * 3)
        np.testing.assert_array_equal(fn(x, wg.full((3,), 5.0)), [-9] * 3)


# -- donated arguments


@pytest.mark.parametrize("pytree", [tuple, list, lambda s: {"a": s[0], "b": s[1]}], ids=["tuple", "list", "dict"])
def test_donated_arguments(pytree: Any) -> None:
    def leaves(s: Any) -> list[Any]:
        return list(s.values()) if isinstance(s, dict) else list(s)

    def step(state: Any, x: Any) -> Any:
        q, p = leaves(state)
        return pytree([q + p * x, p - q * x])

    step = wg.jit(step, donate_argnums=0)
    state, x = pytree([wg.ones(5), wg.zeros(5)]), wg.full((5,), 0.5)
    q, p = np.ones(5, np.float32), np.zeros(5, np.float32)
    for _ in range(6):
        old = leaves(state)
        state = step(state, x)
        q, p = q + p * np.float32(0.5), p - q * np.float32(0.5)
        np.testing.assert_allclose(leaves(state)[0], q, rtol=1e-6)
        np.testing.assert_allclose(leaves(state)[1], p, rtol=1e-6)
        for t in old:
            for use in (lambda t: t + 1, lambda t: t.shape, lambda t: t.numpy(), wg.sin, lambda t: step((t, t), x)):
                with pytest.raises(wg.GraphError, match=r"\Aa tensor that was donated, as argument 0 of step, is used"):
                    use(t)
            assert "donated" in repr(t)
    assert x.shape == (5,)


def test_what_others_hold_of_donated_arguments_never_changes() -> None:
    step = wg.jit(lambda s: s * 2, donate_argnums=0)
    for _ in range(6):
        s = wg.ones(4)
        view, row = s.numpy(), wg.tensor(s)
        np.testing.assert_array_equal(step(s), [2] * 4)
        np.testing.assert_array_equal(view, [1] * 4)
        np.testing.assert_array_equal(row, [1] * 4)
        given = np.ones(4, np.float32)
        np.testing.assert_array_equal(step(given), [2] * 4)
        np.testing.assert_array_equal(given, [1] * 4)


@pytest.mark.parametrize(
    "op", [o for o in TABLE.values() if o.role in VIEWS and o.samples is not None], ids=lambda o: o.name
)
def test_what_is_a_view_of_a_donated_argument_keeps_its_numbers(op: Op) -> None:
    """Memory that a result takes is not read by a view any more."""
    call = max(op.samples(np.random.default_rng(0)), key=lambda c: np.size(c.args[0]))  # type: ignore[misc]
    x = np.asarray(call.args[0], np.complex128 if np.iscomplexobj(call.args[0]) else np.float64)

    def f(x: Any) -> Any:
        seen = op.front(x, *call.args[1:], **call.attrs)
        return x * 2.0, seen, wg.tree.map(lambda s: s + 1.0, seen)

    expected = wg.tree.map(lambda t: t.numpy().copy(), f(wg.tensor(x)))
    for order in (slice(None), slice(None, None, -1)):
        found = wg.jit(lambda x, order=order: f(x)[order], donate_argnums=0)(wg.tensor(x.copy()))
        for a, b in zip(wg.tree.leaves(found[order]), wg.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a.numpy(), b)


def test_a_tensor_donated_twice() -> None:
    step = wg.jit(lambda a, b: (a + b, a * b), donate_argnums=(0, 1))
    for _ in range(6):
        s = wg.full((4,), 3.0)
        total, product = step(s, s)
        np.testing.assert_array_equal(total, [6] * 4)
        np.testing.assert_array_equal(product, [9] * 4)
        total, product = step(wg.ones(4), wg.full((4,), 5.0))
        np.testing.assert_array_equal(total, [6] * 4)
        np.testing.assert_array_equal(product, [5] * 4)


# -- results that carry gradients


def test_results_that_carry_gradients_by_the_short_way() -> None:
    scale = wg.tensor([2.0, 3.0], requires_grad=True)
    fn = wg.jit(lambda a, b, k: ((a * b * scale).sum() * k, a.detach() + b.detach()))
    for i in range(8):
        a, b = wg.tensor([1.0, 2.0 + i], requires_grad=True), wg.tensor([3.0, 4.0])
        scale.grad = None
        hidden = a * 1.0 if i % 2 else a
        found, plain = fn(hidden, b, 0.5)
        assert not plain.requires_grad
        found.backward()
        np.testing.assert_allclose(gradient(a), b.numpy() * scale.detach().numpy() * 0.5)
        np.testing.assert_allclose(gradient(scale), a.detach().numpy() * b.numpy() * 0.5)
        with wg.no_grad():
            assert not fn(hidden, b, 0.5)[0].requires_grad
        assert not fn(b, b, 0.5)[1].requires_grad
        assert fn(hidden, a, 0.5)[0].requires_grad


# -- the compiled entry


def settled(fn: Any, *args: Any) -> Any:
    """The function after as many calls as it takes to have an entry made for calls like this one."""
    for _ in range(8):
        fn(*args)
    return fn


def is_native(fn: Any, *args: Any) -> bool:
    """Whether a call is taken by the compiled entry."""
    native = [f for f in fn._short if type(f) is types.BuiltinFunctionType]
    return any(f(*args) is not MISS for f in native)


NESTS: list[Any] = [
    lambda x: (x, [x, 2.5, None], {"a": x, "b": "text"}, 3, True),
    lambda x: ([], (), {}, x),
    lambda x: (x.numpy(), {"k": [x.numpy(), (x,)]}),
]


@pytest.mark.parametrize("pytree", NESTS)
def test_arguments_and_results_in_nests(pytree: Any) -> None:
    def double(args: Any) -> Any:
        return wg.tree.map(lambda v: v * 2 if isinstance(v, (wg.Tensor, np.ndarray, float)) else v, args)

    fn = wg.jit(lambda *args: double(args))
    x = wg.tensor([1.0, 2.0, 3.0])
    settled(fn, *pytree(x))
    assert is_native(fn, *pytree(x))
    for k in range(4):
        x = wg.tensor([1.0, 2.0, 3.0 + k])
        for got, want in zip(wg.tree.leaves(fn(*pytree(x))), wg.tree.leaves(double(pytree(x))), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    assert wg.tree.structure(fn(*pytree(x))) == wg.tree.structure(double(pytree(x)))


def test_what_the_entry_was_not_made_for_goes_another_way() -> None:
    class Odd(wg.Tensor):
        __slots__ = ()

    class Weird(np.ndarray[Any, Any]):
        pass

    fn = wg.jit(lambda x, k: x * 2 + k)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = wg.tensor(array)
    settled(fn, x, 1.0)
    settled(fn, array, 1.0)
    assert is_native(fn, x, 1.0)
    assert is_native(fn, array, 1.0)
    odd = Odd(array)
    others: list[Any] = [
        odd,
        array.astype(np.float64),
        array.astype(">f4"),
        array.T,
        np.asfortranarray(array),
        array[:, ::-1],
        np.broadcast_to(array[0], (2, 3)),
        array[:1],
        array[0],
        array.reshape(6),
        array.view(Weird),
        np.frombuffer(b"\0" + array.tobytes(), np.float32, offset=1).reshape(2, 3),
        wg.tensor(array, requires_grad=True),
        wg.tensor(array.astype(np.int32)),
        2.0,
        np.float32(3),
    ]
    for other in others:
        assert not is_native(fn, other, 1.0)
        for _ in range(3):
            want = np.asarray(other.detach() if isinstance(other, wg.Tensor) else other) * 2 + 1
            np.testing.assert_allclose(fn(other, 1.0).detach(), want)
        np.testing.assert_allclose(fn(array, 1.0), array * 2 + 1)
    np.testing.assert_allclose(fn(x, k=1.0), array * 2 + 1)
    np.testing.assert_allclose(fn(x, 2), array * 2 + 2)
    np.testing.assert_allclose(fn(x, float("nan")), np.full((2, 3), np.nan))
    with pytest.raises(TypeError):
        fn(x)
    with pytest.raises(TypeError):
        fn(x, 1.0, 2.0)


def test_what_is_around_is_looked_at() -> None:
    model, opt, step, x, y = training(lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9))
    plain, rule, _, _, _ = training(lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9))

    def eager(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(plain(x), y)
        rule.zero_grad()
        loss.backward()
        rule.step()
        return loss

    def both(change: Any = None) -> None:
        if change is not None:
            change(model, opt)
            change(plain, rule)
        for _ in range(7):
            np.testing.assert_allclose(step(x, y).detach(), eager(x, y).detach(), rtol=1e-4)

    def set_lr(model: Any, opt: Any) -> None:
        opt.param_groups[0]["lr"] *= 0.5

    def set_weight(model: Any, opt: Any) -> None:
        with wg.no_grad():
            model[0].weight.mul_(0.5)

    def set_layer(model: Any, opt: Any) -> None:
        model[1] = nn.ReLU()

    def set_loaded(model: Any, opt: Any) -> None:
        opt.load_state_dict(opt.state_dict())

    def freeze(model: Any, opt: Any) -> None:
        model[0].bias.requires_grad_(False)
        model[0].bias.grad = None

    both()
    for change in (set_lr, set_weight, set_loaded, set_lr, set_layer, freeze, set_lr):
        both(change)
    schedule = [wg.optim.lr_scheduler.StepLR(o, 2) for o in (opt, rule)]
    for _ in range(12):
        both(lambda model, opt: None)
        for s in schedule:
            s.step()


def test_gradients_may_be_there_or_not() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.jit
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss.detach()

    x = wg.tensor([3.0, 4.0])
    total = 0
    for i in range(24):
        if i % 5 == 4:
            w.grad, total = None, 0
        step(x)
        total += 1
        kept = w.grad if i % 3 == 0 else None
        np.testing.assert_array_equal(gradient(w), total * x.numpy())
        if kept is not None:
            step(x)
            np.testing.assert_array_equal(kept.numpy(), total * x.numpy())
            total += 1


def test_results_are_not_made_where_somebody_has_them() -> None:
    fn = settled(wg.jit(lambda x: (x + 1, x * 2)), wg.ones(3))
    kept, arrays = [], []
    for i in range(12):
        a, b = fn(wg.full((3,), float(i)))
        kept.append((i, a, b.numpy()))
        arrays.append(np.asarray(a).reshape(3, 1))
        a.sum().item()
    for (i, a, b), view in zip(kept, arrays, strict=True):
        np.testing.assert_array_equal(a, [i + 1] * 3)
        np.testing.assert_array_equal(b, [2 * i] * 3)
        np.testing.assert_array_equal(view, [[i + 1]] * 3)


def test_results_that_are_one_array() -> None:
    state = wg.zeros(3)

    def twice(x: Any) -> Any:
        state.assign_(x * 2)
        return x * 2, x * 2, x, state

    fn = settled(wg.jit(twice), wg.ones(3))
    for i in range(6):
        x = wg.full((3,), float(i))
        results = fn(x)
        results[0][0] = 100.0
        results[2][1] = 100.0
        with wg.no_grad():
            state.add_(1.0)
        assert results[1].tolist() == [2 * i] * 3
        assert results[0].tolist() == [100, 2 * i, 2 * i]
        assert results[2] is x
        assert x.tolist() == [i, 100, i]
        assert results[3] is state
        assert state.tolist() == [2 * i + 1] * 3


def test_no_call_leaves_anything_behind() -> None:
    _, _, step, x, y = training()
    update = wg.jit(lambda s, k: (s[0] + k, {"b": s[1] * s[0]}), donate_argnums=0)
    array, spec = np.ones(3, np.float32), wg.ones(3)

    def work(n: int) -> None:
        for _ in range(n):
            step(x, y)
            update((wg.ones(3), spec * 1), 2.0)
            infer(array)
            infer(spec)

    infer = wg.jit(lambda v: (v * 2, [v.sum()]))
    watched = (None, True, wg.Tensor, np.dtype(np.float32), np.ndarray, array, spec, spec._array, spec._spec, x, step)
    work(200)
    gc.collect()
    references, blocks = [sys.getrefcount(w) for w in watched], sys.getallocatedblocks()
    work(20_000)
    gc.collect()
    assert max(abs(sys.getrefcount(w) - r) for w, r in zip(watched, references, strict=True)) < 50
    assert sys.getallocatedblocks() - blocks < 2000


def test_threads_call_at_once() -> None:
    big = wg.tensor(np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32))
    fn = settled(wg.jit(lambda a, k: (a @ big).sum(1) * k), big, 1.0)
    want = (np.asarray(big) @ np.asarray(big)).sum(1)
    wrong: list[Any] = []

    def work(k: float) -> None:
        for _ in range(60):
            found = np.asarray(fn(big, k))
            if not np.allclose(found, want * np.float32(k), rtol=1e-3, atol=1e-2):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(float(k),)) for k in range(1, 5)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert not wrong


def test_a_call_in_the_midst_of_another() -> None:
    total = wg.zeros(2)
    seen = []

    @wg.jit
    def step(x: Any) -> Any:
        total.add_(x)
        (w * x).sum().backward()
        return total * 2

    w = wg.tensor([1.0, 1.0], requires_grad=True)
    settled(step, wg.ones(2))
    total.zero_()

    held = []
    for _ in range(3):
        w.grad = wg.ones(2)
        held.append(w.grad._array)  # so that the call makes another gradient, and this one dies meanwhile
        weakref.finalize(w.grad, lambda: seen.append(np.asarray(step(wg.ones(2)))))
        step(wg.ones(2))
    step(wg.ones(2))
    assert len(seen) == 3
    assert total.tolist() == [7.0, 7.0]


def test_the_number_of_threads_changes() -> None:
    before = wg.get_num_threads()
    fn = settled(wg.jit(lambda x: wg.tanh(x) @ x), wg.ones((300, 300)))
    want = np.asarray(fn(wg.ones((300, 300))))
    try:
        for n in (1, 2, 1, before):
            wg.set_num_threads(n)
            for _ in range(6):
                np.testing.assert_array_equal(fn(wg.ones((300, 300))), want)
    finally:
        wg.set_num_threads(before)


def test_decisions_by_the_entry() -> None:
    @wg.jit
    def fn(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2
        return x - 1

    up, down = wg.ones(3), -wg.ones(3)
    for _ in range(8):
        np.testing.assert_array_equal(fn(up), [2] * 3)
        np.testing.assert_array_equal(fn(down), [-2] * 3)
    assert is_native(fn, up)
    assert is_native(fn, down)


def test_a_loop_of_many_lengths_by_the_entry() -> None:
    def root(a: Any, k: float) -> Any:
        x, turns = a, 0
        while wg.abs(x * x - a) > 1e-5 * a:
            x = 0.5 * (x + a / x) * k
            turns += 1
        return x, turns

    fn = wg.jit(root)
    values = [wg.tensor(4.0**k) for k in range(-5, 6)]
    for _ in range(7):
        for v in values:
            (got, turns), (want, expected) = fn(v, 1.0), root(v, 1.0)
            np.testing.assert_allclose(got, want, rtol=1e-6)
            assert turns == expected
    assert all(is_native(fn, v, 1.0) for v in values)
    assert not is_native(fn, values[0], "1.0")


def test_gradients_that_are_there_in_turn() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.jit
    def step(x: Any) -> Any:
        (w * x).sum().backward()
        return w.detach() * 2

    x = wg.ones(2)
    for i in range(20):
        if i % 2:
            w.grad = None
        step(x)
    short = step._short
    for i in range(10):
        w.grad = None if i % 2 else wg.ones(2)
        step(x)
        np.testing.assert_array_equal(gradient(w), [1.0 + (i % 2 == 0)] * 2)
    assert step._short == short


def test_a_cleared_function_is_called_anew() -> None:
    factor = [2.0]
    fn = settled(wg.jit(lambda x: x * factor[0]), wg.ones(2))
    fn.clear_cache()
    factor[0] = 3.0
    assert fn(wg.ones(2)).tolist() == [3.0, 3.0]


def test_numbers_outside() -> None:
    class Box:
        def __init__(self) -> None:
            self.total = wg.zeros(())
            self.rate = 0.5

    box = Box()

    @wg.jit
    def step(x: Any) -> Any:
        box.total = box.total + x.sum() * box.rate
        return box.total

    def run() -> None:
        want = 0.0
        for i in range(30):
            if i % 7 == 6:
                box.rate *= 2
            want += 3 * box.rate
            assert step(wg.ones(3)).item() == want

    with pytest.warns(RuntimeWarning, match=r"step was traced 4 times because box\.rate changed"):
        run()


@pytest.mark.parametrize("name", ["aarch64", "sse2"])
def test_the_entry_is_written_for_other_processors(name: str) -> None:
    found = entry.entry()
    assert found is not None
    text = entry_code.ir(found.layout, 16, machine.level(name))
    assert "wengert_entry" in machine.assembly(text, machine.level(name))


def test_without_the_entry_calls_go_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "entry", lambda: None)
    test_updates_in_place_are_those_of_eager_steps()
    fn = wg.jit(lambda s, x: (s[0] + x, s[1] * x), donate_argnums=0)
    for _ in range(8):
        fn((wg.ones(2), wg.ones(2)), 2.0)
    assert fn._short
    assert not any(type(f) is types.BuiltinFunctionType for f in fn._short)
    state = wg.ones(2), wg.ones(2)
    for _ in range(4):
        state = fn(state, 2.0)
    assert (state[0].tolist(), state[1].tolist()) == ([9, 9], [16, 16])


# -- what is known before a run


@pytest.mark.parametrize("kind", ["training", "convolution", "attention"])
def test_the_memory_of_a_run_is_known(kind: str) -> None:
    if kind == "training":
        model = nn.Sequential(nn.Linear(200, 300), nn.Tanh(), nn.Linear(300, 10))
        opt = optim.Adam(model.parameters(), lr=1e-3)

        @wg.jit
        def fn(x: Any, y: Any) -> Any:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        given: tuple[Any, ...] = (wg.zeros((64, 200)), wg.zeros(64, dtype=wg.int64))
    elif kind == "convolution":
        layers = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        fn, given = wg.jit(layers), (wg.ones((32, 3, 16, 16)),)
    else:
        fn = wg.jit(lambda q: nn.functional.scaled_dot_product_attention(q, q, q))
        given = (wg.ones((4, 4, 128, 32)),)
    fn(*given)
    again = compile_graph(fn.graph, fn._last.donated)
    memory = again.memory
    runtime._blocks.clear()  # arenas of other programs, which this one might use
    gc.collect()
    tracemalloc.start()
    inputs = [np.zeros(n.spec.shape, n.spec.dtype) for n in again.graph.inputs]
    tracemalloc.reset_peak()
    again.run(inputs)
    measured = tracemalloc.get_traced_memory()[1] + memory.constants
    tracemalloc.stop()
    assert abs(memory.peak - measured) < 0.02 * measured
    assert "bytes" in str(memory)


def _held_result(hold: str, result: wg.Tensor) -> Any:
    """Something that a caller may keep of a result, from which its value is still to be had."""
    if hold == "in place":
        result.add_(0.0)
    if hold == "other values":
        result.data = wg.full_like(result, 7.0)
    keep = {
        "tensor": lambda: result,
        "array": lambda: result._array,
        "view": lambda: result.numpy()[::-1],
        "list": lambda: [(result,)],
        "weak reference": lambda: weakref.ref(result),
        "weak reference to its array": lambda: weakref.ref(result._array),
        "recorded": lambda: result.requires_grad_(),
        "nothing": lambda: None,
        "in place": lambda: result,
        "other values": lambda: result._array,
    }
    return keep[hold]()


@pytest.mark.parametrize(
    "hold",
    [
        "tensor",
        "array",
        "view",
        "list",
        "weak reference",
        "weak reference to its array",
        "recorded",
        "nothing",
        "in place",
        "other values",
    ],
)
@pytest.mark.parametrize("size", [2, 1 << 18])
def test_results_are_used_again_only_by_nobody(hold: str, size: int) -> None:
    """Whatever is kept of a result stays as it was, and a new result is as if it were the first: small and large."""
    f = wg.jit(lambda x: (x + 1, x * 2))
    kept = []
    for i in range(12):
        x = np.resize(np.array([i, -i], np.float32), size)
        one, two = f(wg.tensor(x))
        np.testing.assert_array_equal(one.numpy(), x + 1)
        np.testing.assert_array_equal(two.numpy(), x * 2)
        assert (one.requires_grad, one.grad, one.node) == (False, None, None)
        kept.append((_held_result(hold, one), np.array(one.detach().numpy())))
        del one, two
        if hold.startswith("weak") and i >= 6:
            assert kept[i - 3][0]() is None, "what nobody has is gone, some calls later"
    for held, value in kept:
        if hold in ("tensor", "recorded", "array", "in place", "other values"):
            np.testing.assert_array_equal(held if hold in ("array", "other values") else held.detach().numpy(), value)
        elif hold == "view":
            np.testing.assert_array_equal(held, value[::-1])
        elif hold == "list":
            np.testing.assert_array_equal(held[0][0].numpy(), value)


@pytest.mark.parametrize("size", [3, 1 << 18])
def test_results_that_nobody_has_are_used_again(size: int) -> None:
    f = wg.jit(lambda x: x + 1)
    x = wg.ones(size)
    for _ in range(10):
        f(x)
    seen = {id(f(x)) for _ in range(10)}
    assert len(seen) <= 2
    # What was donated, and is a tensor no more, is not one of them.
    g = wg.jit(lambda x: x * 2, donate_argnums=0)
    for i in range(10):
        y = f(x)
        assert (g(y).numpy() == 4).all(), i
        assert (f(x).numpy() == 2).all()


def test_a_result_that_is_given_back_is_not_what_is_written_to() -> None:
    f = wg.jit(lambda x: x * 0.5 + 1)
    y = wg.zeros(4)
    want = np.zeros(4, np.float32)
    for _ in range(20):
        y, want = f(y), want * np.float32(0.5) + np.float32(1)
        assert y.tolist() == want.tolist()


def test_a_result_in_another_order_of_axes_is_not_written_into_one_that_was_changed_since() -> None:
    """An operation in place gives a tensor an array of its own, in which axes may lie in another order."""
    f = wg.jit(lambda x: wg.permute_dims(wg.sort(x), (1, 0)))
    for i in range(12):
        x = np.arange(60.0).reshape(6, 10) + i
        y = f(wg.tensor(x))
        assert y.tolist() == x.T.tolist(), i
        y._data = np.ascontiguousarray(y._array)
        del y
