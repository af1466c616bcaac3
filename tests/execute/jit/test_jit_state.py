"""`wg.jit`: what a function reads and writes outside its arguments."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import gc
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

OUTSIDE = wg.tensor([1.0, 2.0])
FACTOR = 2.0


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(wg.asarray(a).detach()), np.asarray(wg.asarray(b).detach()), rtol=1e-5)


def test_globals_are_seen_when_they_change() -> None:
    global OUTSIDE, FACTOR
    fn = wg.jit(lambda x: x * OUTSIDE * FACTOR)
    close(fn(wg.ones(2)), [2, 4])
    OUTSIDE = wg.tensor([3.0, 4.0])
    close(fn(wg.ones(2)), [6, 8])
    OUTSIDE[0] = 0.0
    close(fn(wg.ones(2)), [0, 8])
    FACTOR = 3.0
    close(fn(wg.ones(2)), [0, 12])
    OUTSIDE = wg.tensor([1.0, 2.0], dtype=wg.float64)
    assert fn(wg.ones(2)).dtype == wg.float64
    OUTSIDE, FACTOR = wg.tensor([1.0, 2.0]), 2.0


def test_closures_attributes_and_containers_are_seen_when_they_change() -> None:
    class Box:
        def __init__(self) -> None:
            self.w = wg.ones(2)
            self.k = 2.0
            self.other = 0

    box, table, items = Box(), {"a": wg.ones(2)}, [wg.ones(2)]
    local = wg.ones(2)
    fn = wg.jit(lambda x: (x * box.w * box.k, x * table["a"], x * items[0], x * local))
    for step in range(3):
        for got, want in zip(fn(wg.ones(2)), (box.w * box.k, table["a"], items[0], local), strict=True):
            close(got, want)
        if step == 0:
            box.w, box.k, table["a"], items[0], local = (wg.full((2,), v) for v in (2.0, 3.0, 4.0, 5.0, 6.0))
        else:
            box.w.mul_(2.0)
            local.add_(1.0)
            items[0] = items[0] + 1


def test_a_state_that_is_rebound_or_written_in_place() -> None:
    class Cell:
        def __init__(self) -> None:
            self.h = wg.zeros(2)
            self.total = wg.zeros(())

        def step(self, x: Any) -> Any:
            self.h = wg.tanh(self.h + x)
            self.total += self.h.sum()
            self.seen = self.h * 2
            return self.h

    plain, compiled = Cell(), Cell()
    step = wg.jit(compiled.step)
    for i in range(4):
        x = wg.full((2,), float(i))
        close(step(x), plain.step(x))
        for name in ("h", "total", "seen"):
            close(getattr(compiled, name), getattr(plain, name))
            assert not getattr(compiled, name).is_abstract


def test_arguments_are_written_to() -> None:
    @wg.jit
    def fn(x: Any, p: Any) -> Any:
        x.add_(1.0)
        (p * x).sum().backward()
        return x * 2

    x, p = wg.zeros(2), wg.tensor([1.0, 2.0], requires_grad=True)
    alias = x
    for i in range(1, 4):
        close(fn(x, p), [2 * i, 2 * i])
        close(alias, [i, i])
        close(p.grad, [i * (i + 1) / 2] * 2)
    assert p.is_leaf
    assert p.requires_grad


def test_what_was_computed_from_an_old_value_keeps_it() -> None:
    w = wg.tensor([1.0, 2.0])
    old, view = w.numpy(), w.reshape(2, 1)

    @wg.jit
    def fn() -> None:
        w.add_(1.0)

    for _ in range(3):
        fn()
    assert old.tolist() == [1, 2]
    assert view.tolist() == [[1], [2]]
    assert w.tolist() == [4, 5]


@pytest.mark.parametrize("zero", ["inside", "outside", "none", "to zeros"])
def test_gradients_accumulate_as_eager_ones_do(zero: str) -> None:
    def make() -> Any:
        w = wg.tensor([1.0, 2.0], requires_grad=True)

        def fn(x: Any) -> Any:
            if zero == "inside":
                w.grad = None
            if zero == "to zeros" and w.grad is not None:
                w.grad.zero_()
            loss = (w * x).sum() ** 2
            loss.backward()
            return loss

        return w, fn

    (w, eager), (v, fn) = make(), make()
    compiled = wg.jit(fn)
    for i in range(4):
        close(compiled(wg.full((2,), 1.0 + i)), eager(wg.full((2,), 1.0 + i)))
        close(v.grad, w.grad)
        assert not v.grad.is_abstract
        if zero == "outside" and i == 1:
            w.grad = v.grad = None


def test_a_training_step_by_hand() -> None:
    def make() -> Any:
        wg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

        def step(x: Any, y: Any) -> Any:
            for p in model.parameters():
                p.grad = None
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            with wg.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
            return loss

        return model, step

    (a, eager), (b, fn) = make(), make()
    compiled = wg.jit(fn)
    x, y = wg.randn(16, 3), wg.randn(16, 1)
    for _ in range(5):
        close(compiled(x, y), eager(x, y))
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.detach(), q.detach(), rtol=1e-4, atol=1e-6)
        assert q.is_leaf
        assert q.requires_grad


@pytest.mark.parametrize("calls", [1, 2, 6])
def test_a_loss_that_has_been_differentiated_says_so_as_eager(calls: int) -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def fn(x: Any) -> Any:
        w.grad = None
        h = wg.tanh(w * x)
        loss = (h * h).sum()
        loss.backward()
        return loss, wg.stack([h, h])[0], h.detach()

    def last(run: Any) -> Any:
        return [run(wg.ones(2)) for _ in range(calls)][-1]

    for loss, h, plain in (last(fn), last(wg.jit(fn))):
        assert (loss.requires_grad, h.requires_grad, plain.requires_grad) == (True, True, False)
        for result in (h.sum(), (3 * h).sum(), loss * 2):
            with pytest.raises(
                wg.GradientError, match=r"a second time, after its saved values were freed.*test_jit_state"
            ):
                result.backward()
        with pytest.raises(wg.GradientError, match="a second time, after its saved values were freed"):
            wg.autograd.grad(loss * 2, w, allow_unused=True)
        with pytest.raises(wg.GradientError, match="a second time, after its saved values were freed"):
            wg.autograd.grad(loss * 2 + w.sum(), w)
        loss += 1
        close(loss.detach(), float(np.tanh([1.0, 2.0]) @ np.tanh([1.0, 2.0])) + 1)


def test_a_differentiated_loss_of_a_compiled_step_says_what_to_explore() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.jit
    def fn() -> Any:
        loss = (w * w).sum()
        loss.backward()
        return loss

    loss = fn()
    for ask in (wg.explore, wg.explain.nonfinite):
        with pytest.raises(wg.GraphError, match=r"has no graph: a backward pass.*test_jit_state(.|\n)*f.__wrapped__"):
            ask(loss)


def test_a_differentiated_loss_is_read_without_detaching_it() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def fn() -> Any:
        loss = wg.exp(w)[0]
        loss = loss * loss
        loss.backward()
        return loss

    for run in (fn, wg.jit(fn)):
        close(np.asarray(run()), np.exp(2.0))
        close(run().numpy(), np.exp(2.0))


def test_a_state_that_is_fed_back_without_detaching_raises_as_eager() -> None:
    """PyTorch's programs forget it: a compiled step would train on a history that is cut off."""
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def fn(h: Any) -> Any:
        h = wg.tanh(h * w + 1)
        (h * h).sum().backward()
        return h

    for run in (fn, wg.jit(fn), wg.jit(lambda h: wg.stack([fn(h)] * 2)[0])):
        h = run(wg.zeros(2))
        with pytest.raises(wg.GradientError, match="a second time, after its saved values were freed"):
            run(h)
        assert np.isfinite(run(h.detach()).detach().numpy()).all()


def test_a_gradient_flows_on_into_a_graph_outside() -> None:
    x, w = wg.tensor([1.0, 2.0], requires_grad=True), wg.tensor([3.0, 5.0], requires_grad=True)

    def fn(h: Any) -> None:
        (h * w).sum().backward()

    compiled = wg.jit(fn)
    with pytest.warns(RuntimeWarning, match="a gradient inside fn flows on to what h"):
        compiled(wg.exp(x))
    first = x.grad.numpy().copy()
    close(first, np.exp([1.0, 2.0]) * [3, 5])
    x.grad = None
    compiled(wg.exp(x).detach())
    assert x.grad is None


def test_what_a_pass_has_not_freed_flows_on() -> None:
    """A pass frees what it kept: of a sum that is nothing."""
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def fn() -> Any:
        w.grad = None
        shifted = w + 1
        shifted.sum().backward()
        return shifted * shifted

    for run in (fn, wg.jit(fn)):
        run().sum().backward()
        close(w.grad, [5.0, 7.0])


def test_parameters_are_written_where_they_stand_beside_a_state_with_a_past() -> None:
    """A stack of freed values, an LSTM's last states, keeps nothing of the parameters alive."""
    w = wg.tensor(np.ones((64, 64)), requires_grad=True)

    @wg.jit
    def step(h: Any) -> Any:
        w.grad = None
        h = wg.tanh(h @ w)
        (h * h).sum().backward()
        with wg.no_grad():
            w.sub_(w.grad * 0.01)
        return wg.stack([h, h])

    step(wg.ones((2, 64)))
    memory = w._array.ctypes.data
    for _ in range(4):
        step(wg.ones((2, 64)))
        assert w._array.ctypes.data == memory


def test_parameters_are_written_where_they_stand_after_every_index_was_looked_at() -> None:
    """Counts of the optimiser and of a generator are computed before the last index is known to be right."""
    wg.manual_seed(0)
    table, layer, drop = nn.Embedding(40, 32), nn.Linear(32, 32), nn.Dropout(0.5)
    opt = wg.optim.Adam([*table.parameters(), *layer.parameters()], lr=0.01)

    @wg.jit
    def step(words: Any) -> Any:
        opt.zero_grad()
        h = wg.zeros((words.shape[0], 32))
        for i in range(4):
            h = wg.tanh(layer(drop(table(words[:, i])) + h))
        loss = (h * h).mean()
        loss.backward()
        opt.step()
        return loss

    words = np.random.default_rng(0).integers(0, 40, (8, 4))
    for _ in range(3):
        step(wg.asarray(words))
    where = [p._array.ctypes.data for p in (table.weight, layer.weight)]
    assert float(step(wg.asarray(words))) > float(step(wg.asarray(words)))
    assert [p._array.ctypes.data for p in (table.weight, layer.weight)] == where
    before = [*map(np.array, (table.weight._array, layer.weight._array)), str(opt.state_dict())]
    for wrong in (40, -1):
        for place in range(4):
            bad = words.copy()
            bad[5, place] = wrong
            with pytest.raises(wg.RangeError, match=f"embedding: id {wrong} in a table of 40 rows"):
                step(wg.asarray(bad))
            np.testing.assert_array_equal(before[0], table.weight._array)
            np.testing.assert_array_equal(before[1], layer.weight._array)
            assert before[2] == str(opt.state_dict())


def test_train_and_eval_are_different_programs() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    fn = wg.jit(lambda x: model(x))
    x = wg.ones(4, 3)
    model.eval()
    close(fn(x), model(x))
    model.train()
    wg.manual_seed(3)
    got = [fn(x), fn(x)]
    wg.manual_seed(3)
    want = [model(x), model(x)]
    for a, b in zip(got, want, strict=True):
        close(a, b)
    assert np.any(np.asarray(got[0].detach()) != np.asarray(got[1].detach()))
    model.eval()
    close(fn(x), model(x))


def test_random_numbers_are_those_of_eager_execution() -> None:
    g = wg.random.Generator(5)

    def draw() -> Any:
        return wg.rand(3), wg.randn(2, generator=g), wg.random.randperm(4)

    fn = wg.jit(draw)

    def run(f: Any) -> list[Any]:
        wg.manual_seed(1)
        g.manual_seed(2)
        return [t for _ in range(3) for t in f()]

    for a, b in zip(run(fn), run(draw), strict=True):
        close(a, b)


def test_a_part_that_is_replaced() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    fn = wg.jit(lambda x: model(x))
    x = wg.randn(2, 3)
    close(fn(x), model(x))
    model[0].weight = nn.Parameter(wg.ones(3, 3))
    close(fn(x), model(x))
    model[0].bias = None
    close(fn(x), model(x))
    model.append(nn.Linear(3, 1))
    close(fn(x), model(x))


def test_frozen_and_unfrozen() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    fn = wg.jit(lambda x: (w * x).sum())
    assert fn(wg.ones(2)).requires_grad
    w.requires_grad_(False)
    assert not fn(wg.ones(2)).requires_grad
    w.requires_grad_()
    fn(wg.ones(2)).backward()
    close(w.grad, [1, 1])


def test_shared_tensors_stay_shared() -> None:
    w = wg.ones(2)
    table = {"a": w, "b": w}

    @wg.jit
    def fn() -> Any:
        table["a"].add_(1.0)
        return table["b"] * 1

    close(fn(), [2, 2])
    table["b"] = wg.zeros(2)
    close(fn(), [0, 0])


def test_a_growing_list_outside_is_refused() -> None:
    seen: list[Any] = []

    @wg.jit
    def fn(x: Any) -> Any:
        seen.append(x * 2)
        return x

    with pytest.raises(wg.GraphError, match=r"(?s)length of the list seen.*append"):
        fn(wg.ones(2))
    assert not seen


def test_a_gradient_of_a_tensor_from_outside_of_a_transform() -> None:
    def outer(x: Any) -> Any:
        y = x * 2
        return wg.jit(lambda z: (y * z).sum())(wg.ones(2))

    close(wg.grad(outer)(wg.ones(2)), [2, 2])
    close(wg.jit(wg.grad(outer))(wg.ones(2)), [2, 2])


def test_values_of_a_transform_do_not_stay_behind() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    fn = wg.jit(lambda x: (w * x).sum())
    for _ in range(2):
        close(wg.grad(lambda x: fn(x))(wg.ones(2)).detach(), [1, 2])
        assert w.grad is None
        assert not w.is_abstract


def test_threads_trace_and_run_side_by_side() -> None:
    w = wg.tensor([1.0, 2.0])
    fn = wg.jit(lambda x: (x * w).sum(axis=0))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(1, 30):
            x = np.full((1 + (seed * 7 + i) % 5, 2), float(i), np.float32)
            if not np.allclose(np.asarray(fn(x)), x.sum(0) * [1, 2]):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_is_kept_alive_by_calls() -> None:
    fn = wg.jit(lambda x: x * 2)
    for _ in range(10):  # the last two results, small as they are, may be used again
        fn(wg.ones(1000))
    gc.collect()
    before = sum(issubclass(type(o), wg.Tensor) for o in gc.get_objects())
    for _ in range(20):
        fn(wg.ones(1000))
    gc.collect()
    assert sum(issubclass(type(o), wg.Tensor) for o in gc.get_objects()) <= before


def test_one_tensor_under_several_names() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.jit
    def fn(x: Any, y: Any) -> Any:
        x.add_(1.0)
        return y * 1

    @wg.jit
    def loss(v: Any) -> Any:
        (v * w).sum().backward()

    for _ in range(2):
        a, b = wg.ones(2), wg.ones(2)
        close(fn(a, a), [2, 2])
        close(fn(a, b), [1, 1])
        close(a, [3, 3])
    for i in (1, 2):
        loss(w)
        close(w.grad, [2 * i, 4 * i])
    v = wg.tensor([3.0, 4.0], requires_grad=True)
    loss(v)
    close(v.grad, [1, 2])
    close(w.grad, [7, 12])


def test_a_tensor_that_no_search_finds() -> None:
    w, total = wg.tensor([1.0, 2.0]), wg.zeros(2)
    sources = iter([lambda: (w, total)])
    hidden = functools.reduce(lambda _, f: f, sources)
    holder = {"deep": hidden}
    get = operator.attrgetter("__call__")  # no Python code, and no attribute of the tensors' owner

    class Opaque:
        __slots__ = ("_OTHER",)

    opaque = Opaque()
    opaque._OTHER = holder

    def fn(x: Any) -> Any:
        a, b = get(next(iter(getattr(opaque, "_OT" + "HER").values())))()
        b.add_(x)
        return a * x

    compiled = wg.jit(fn)
    close(compiled(wg.ones(2)), [1, 2])
    close(total, [1, 1])
    w.mul_(2.0)
    close(compiled(wg.ones(2)), [2, 4])
    close(total, [2, 2])
    assert not total.is_abstract


def test_a_state_that_is_kept_carries_gradients_on() -> None:
    def make() -> Any:
        w = wg.tensor([0.5, 0.25], requires_grad=True)
        kept: dict[str, Any] = {"h": wg.ones(2)}

        def step(x: Any) -> Any:
            kept["h"] = wg.tanh(kept["h"] * w + x)
            return kept["h"].sum()

        return w, kept, step

    (w, _kept, eager), (v, _, fn) = make(), make()
    compiled = wg.jit(fn)
    for f in (eager, compiled):
        for _ in range(3):
            loss = f(wg.ones(2))
        loss.backward()
    close(v.grad, w.grad)


def hidden(x: Any) -> Any:
    """Something that leads to `x` on a way that no search goes."""

    class Opaque:
        __slots__ = ("_OTHER",)

    opaque = Opaque()
    opaque._OTHER = [x]
    get = operator.attrgetter("__getitem__")
    return lambda: get(getattr(opaque, "_OT" + "HER"))(0)


@pytest.mark.parametrize("where", ["attribute", "item", "element", "thread"])
def test_a_tensor_that_is_made_anew_and_kept_outside(where: str) -> None:
    class Kept:
        last: Any = None

    def make() -> Any:
        kept, items, local = Kept(), {"row": [None, None]}, threading.local()

        def read() -> Any:
            found = {"attribute": kept.__dict__, "item": items, "element": items, "thread": local.__dict__}[where]
            return found["row"][1] if where == "element" else found.get("last")

        def step(x: Any) -> Any:
            c = wg.tensor([0.5, 0.25])
            if where == "attribute":
                kept.last = c
            elif where == "item":
                items["last"] = c
            elif where == "element":
                items["row"][1] = c
            else:
                local.last = c
            return x * c

        return read, step

    read, step = make()
    compiled = wg.jit(step)
    for i in range(6):
        close(compiled(wg.ones(2) * i), [0.5 * i, 0.25 * i])
        close(read(), [0.5, 0.25])
        read().add_(1.0)  # what is written to it outside is gone after the next step
    assert compiled.cache_info().traces <= 2


def test_a_tensor_from_nowhere_is_read_anew_where_it_is_only_returned_or_kept() -> None:
    class Kept:
        last: Any = None

    kept, w = Kept(), wg.tensor([1.0, 2.0])
    get = hidden(w)

    def step(x: Any) -> Any:
        kept.last = get()
        return x * 2, get()

    compiled = wg.jit(step)
    for _ in range(4):
        close(compiled(wg.ones(2))[1], w)
        close(kept.last, w)
        w.add_(1.0)


def test_what_a_trace_leaves_to_the_garbage_collector_is_no_state() -> None:
    class Node:
        pass

    def step(x: Any) -> Any:
        node = Node()
        node.me, node.factor = node, wg.tensor([2.0, 3.0])
        return x * node.factor

    compiled = wg.jit(step)
    gc.disable()
    try:
        close(compiled(wg.ones(2)), [2, 3])
    finally:
        gc.enable()
    assert compiled.cache_info() == (1, 1, 1)


def test_constants_of_a_second_backward_pass_are_no_state() -> None:
    v, w = wg.tensor([[0.3, -0.2]], requires_grad=True), wg.tensor([[0.3], [0.1]], requires_grad=True)

    def step(x: Any, y: Any) -> Any:
        loss = wg.nn.functional.mse_loss(wg.tanh(x @ v) @ w, y)
        grads = wg.autograd.grad(loss, (v, w), create_graph=True)
        return wg.autograd.grad(sum((g * g.detach()).sum() for g in grads), (v, w))

    compiled = wg.jit(step)
    x, y = wg.ones((4, 1)), wg.zeros((4, 1))
    for a, b in zip(compiled(x, y), step(x, y), strict=True):
        close(a, b)
    assert compiled.cache_info() == (1, 1, 1)


def test_tensors_made_anew_where_no_search_finds_them_are_refused() -> None:
    kept = [None]
    address = id(kept)

    def step(x: Any) -> Any:
        found = ctypes.cast(address, ctypes.py_object).value
        found[0] = wg.tensor([2.0, 3.0])
        return x * found[0]

    with pytest.raises(wg.GraphError, match=r"makes a tensor, f32\[2\], in every trace and keeps it (.|\n)*return"):
        wg.jit(step)(wg.ones(2))


def _by_grad(w: Any, x: Any) -> Any:
    return wg.autograd.grad(((x * w) ** 2).sum(), w)[0]


def _by_backward(w: Any, x: Any) -> Any:
    ((x * w) ** 2).sum().backward()
    g, w.grad = w.grad, None
    return g


def _by_hook(w: Any, x: Any) -> Any:
    seen = []
    y = x * w
    y.register_hook(lambda g: seen.append(g) or g)
    (y**2).sum().backward()
    w.grad = None
    return seen[0]


def _by_retain_grad(w: Any, x: Any) -> Any:
    y = x * w
    y.retain_grad()
    (y**2).sum().backward()
    w.grad = None
    return y.grad


class _Cube(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3.0 * x * x


def _by_rule(w: Any, x: Any) -> Any:
    return wg.autograd.grad(_Cube.apply(w * x).sum(), w)[0]


@pytest.mark.parametrize("first", [_by_grad, _by_backward, _by_hook, _by_retain_grad, _by_rule])
def test_no_gradient_flows_through_a_first_order_pass(first: Any) -> None:
    """A gradient that was taken without create_graph is a plain number to what follows, compiled as eager."""

    def step(w: Any, x: Any) -> Any:
        w.grad = None
        g = first(w, x)
        v = w - 0.1 * g
        (v**2).sum().backward()
        return g, w.grad, g.requires_grad

    x = wg.ones(2)
    w = wg.tensor([0.3, 0.1], requires_grad=True)
    expected = step(w, x)
    compiled = wg.jit(step)
    for _ in range(3):
        g, total, flows = compiled(w, x)
        close(g, expected[0])
        close(total, expected[1])
        close(w.grad, expected[1])
        assert not any((flows, g.requires_grad, total.requires_grad, w.grad.requires_grad))


@dataclasses.dataclass
class Carried:
    h: Any


CHANGES: dict[str, Callable[[Any], Any]] = {
    "entry": lambda s: s.update(h=s["h"] * 2),
    "new entry": lambda s: s.update(other=s["h"]),
    "number": lambda s: s.update(n=s["n"] + 1),
    "deleted": lambda s: s.pop("n"),
    "appended": lambda s: s["rows"].append(s["h"]),
    "cleared": lambda s: s["rows"].clear(),
    "element": lambda s: s["rows"].__setitem__(0, s["h"]),
    "attribute": lambda s: setattr(s["at"], "h", s["h"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_containers_among_the_arguments_are_not_changed_in_vain(change: str) -> None:
    def step(state: Any) -> Any:
        CHANGES[change](state)
        return wg.ones(2)

    state = {"h": wg.ones(2), "n": 1, "rows": [wg.zeros(2)], "at": Carried(wg.zeros(2))}
    compiled = wg.jit(step)
    for _ in range(2):
        with pytest.raises(wg.WriteError, match=r"step changes what is in a dict, list or dataclass.*test_jit_state"):
            compiled(state)
    assert state["h"].tolist() == [1, 1]
    assert len(state["rows"]) == 1


def test_tensors_in_containers_among_the_arguments_are_written_to() -> None:
    def step(state: Any) -> Any:
        state["h"] += 1.0
        state["rows"][0].mul_(2.0)
        return state["h"].sum()

    state = {"h": wg.zeros(2), "rows": [wg.ones(2)]}
    compiled = wg.jit(step)
    for i in range(1, 7):
        assert float(compiled(state)) == 2 * i
    assert state["rows"][0].tolist() == [64, 64]
