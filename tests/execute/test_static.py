"""The explicit static style: placeholders, functions, updates, sizes that are known when fed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

F64 = wg.float64


def rows(n: int, m: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + n).normal(size=(n, m))


# -- feeding


def test_in_order_and_by_name() -> None:
    x, y = wg.placeholder((2,), name="x"), wg.placeholder((), name="y")
    f = wg.function([x, y], x * y)
    assert f([1.0, 2.0], 3.0).tolist() == [3.0, 6.0]
    assert f([1.0, 2.0], y=3.0).tolist() == [3.0, 6.0]
    assert f(y=3, x=wg.ones(2)).tolist() == [3.0, 3.0]


def test_nests_of_outputs() -> None:
    x = wg.placeholder((), name="x")
    f = wg.function([x], {"a": [x, x * 2.0], "b": (x * 3.0, 5.0)})
    out = f(1.0)
    assert wg.tree.map(lambda t: t.item(), out) == {"a": [1.0, 2.0], "b": (3.0, 5.0)}


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        (([1.0, 2.0],), {}, r"step: no value for y f32\[\]"),
        ((), {}, r"no value for x f32\[2\], y f32\[\]"),
        (([1.0, 2.0], 1.0, 2.0), {}, r"step takes 2 inputs \(x: f32\[2\], y: f32\[\]\), not 3"),
        (([1.0, 2.0],), {"z": 1.0}, "step has no input 'z'"),
        (([1.0, 2.0], 1.0), {"y": 1.0}, "'y' is fed twice"),
        (([1.0, 2.0, 3.0], 1.0), {}, r"x is f32\[2\], fed shape \(3,\)"),
        (([1.0, 2.0], [1.0]), {}, r"y is f32\[\], fed shape \(1,\)"),
        ((wg.ones(2, dtype=wg.complex64), 1.0), {}, "x is .*fed c64"),
        ((wg.ones(2, dtype=F64), 1.0), {}, r"x is .*fed f64\[2\]"),
    ],
)
def test_wrong_feeds(args: Any, named: Any, text: str) -> None:
    x, y = wg.placeholder((2,), name="x"), wg.placeholder((), name="y")
    f = wg.function([x, y], x * y, name="step")
    with pytest.raises(wg.FeedError, match=text) as caught:
        f(*args, **named)
    assert isinstance(caught.value, TypeError)
    assert __file__ in str(caught.value).partition("\n")[0]


def test_feeds_that_are_no_data() -> None:
    x = wg.placeholder((2,), name="x")
    f = wg.function([x], x)
    with pytest.raises(wg.WengertError, match="x"):
        f("text")
    with pytest.raises(wg.FeedError, match="abstract"):
        f(wg.placeholder((2,)))


def test_data_widens_but_tensors_do_not() -> None:
    x = wg.placeholder((2,), F64, name="x")
    f = wg.function([x], x * 1.5)
    assert f(np.array([1, 2], np.int8)).tolist() == [1.5, 3.0]
    assert f(np.float32([1, 2])).dtype == F64
    with pytest.raises(wg.FeedError, match="astype"):
        f(wg.ones(2, dtype=wg.float32))
    n = wg.placeholder((), wg.int64, name="n")
    with pytest.raises(wg.FeedError):
        wg.function([n], n)(2.5)


def test_what_is_no_input() -> None:
    x = wg.placeholder((), name="x")
    with pytest.raises(wg.GraphError, match="depends on x, which is not among its inputs"):
        wg.function([], x * 2.0)
    with pytest.raises(wg.GraphError, match="input 0 of the function is an expression"):
        wg.function([x * 2.0], x)
    with pytest.raises(wg.GraphError, match="input 0 of the function is a int"):
        wg.function([3], x)  # type: ignore[list-item]
    with pytest.raises(wg.GraphError, match="given twice"):
        wg.function([x, x], x)


@pytest.mark.parametrize("size", [-1, 2.5, True])
def test_wrong_sizes(size: Any) -> None:
    with pytest.raises(wg.DTypeError, match="size"):
        wg.placeholder((size,))


def test_a_placeholder_has_no_value() -> None:
    x = wg.placeholder((2,), name="x")
    for use in (lambda: x.numpy(), lambda: bool(x[0] > 0), lambda: x.tolist(), lambda: float(x.sum())):
        with pytest.raises(wg.WengertError):
            use()


def test_tensors_are_read_anew() -> None:
    x = wg.placeholder((), F64, name="x")
    w = wg.tensor(2.0, dtype=F64, requires_grad=True)
    f = wg.function([x], w * x)
    assert f(3.0).item() == 6.0
    w.data = wg.tensor(10.0, dtype=F64)
    assert f(3.0).item() == 30.0


def test_leaf_tensors_as_inputs() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    f = wg.function([w], (w * w).sum())
    assert f().item() == 5.0
    assert f([3.0, 0.0]).item() == 9.0
    assert f().item() == 5.0
    assert w.tolist() == [1.0, 2.0]


# -- updates


def test_updates_happen_all_at_once() -> None:
    a, b = wg.placeholder((), name="a", value=1.0), wg.placeholder((), name="b", value=2.0)
    swap = wg.function([a, b], [a, b], updates=[(a, b), (b, a)])
    assert [t.item() for t in swap()] == [1.0, 2.0]
    assert [t.item() for t in swap()] == [2.0, 1.0]
    assert (a.value.item(), b.value.item()) == (1.0, 2.0)


def test_updates_of_leaves() -> None:
    w = wg.tensor([1.0, 2.0], dtype=F64, requires_grad=True)
    x = wg.placeholder((2,), F64, name="x")
    loss = (w * x).sum() ** 2
    (g,) = wg.autograd.grad(loss, [w])
    step = wg.function([x], loss, updates=[(w, w - 0.1 * g)])
    assert step([1.0, 1.0]).item() == 9.0
    np.testing.assert_allclose(w.detach().numpy(), [1 - 0.6, 2 - 0.6])
    assert w.requires_grad
    assert w.is_leaf
    assert step([1.0, 1.0]).item() == pytest.approx(1.8**2)


def test_wrong_updates() -> None:
    w, x = wg.tensor([1.0, 2.0], requires_grad=True), wg.placeholder((2,), name="x")
    with pytest.raises(wg.GraphError, match=r"an update of f32\[2\] with a value of f32\[\]"):
        wg.function([x], x, updates=[(w, x.sum())])
    with pytest.raises(wg.GraphError, match="Update a leaf"):
        wg.function([x], x, updates=[(w * 2.0, x)])
    with pytest.raises(wg.GraphError, match="target"):
        wg.function([x], x, updates=[(x * 2.0, x)])


def test_a_call_that_fails_updates_nothing() -> None:
    n = wg.placeholder((), wg.int64, name="n", value=0)
    x = wg.placeholder((3,), name="x")
    f = wg.function([x, n], wg.take(x, n, axis=0), updates=[(n, n + 1)])
    for i in range(3):
        assert f([1.0, 2.0, 3.0]).item() == i + 1.0
    with pytest.raises(wg.WengertError):
        f([1.0, 2.0, 3.0])
    assert n.value.item() == 3


def test_training_by_updates() -> None:
    rng = np.random.default_rng(0)
    x, y = wg.placeholder((None, 3), F64, name="x"), wg.placeholder((None,), F64, name="y")
    w = wg.tensor(np.zeros(3), requires_grad=True)
    loss = ((x @ w - y) ** 2).mean()
    (g,) = wg.autograd.grad(loss, [w])
    step = wg.function([x, y], loss, updates=[(w, w - 0.1 * g)])
    truth = np.array([1.0, -2.0, 0.5])
    for i in range(300):
        data = rng.normal(size=(4 + i % 3, 3))
        step(data, data @ truth)
    np.testing.assert_allclose(w.detach().numpy(), truth, atol=1e-6)


# -- gradients


def test_gradients_of_several_orders() -> None:
    x = wg.placeholder((), F64, name="x")
    y = wg.sin(x) * x
    (g,) = wg.autograd.grad(y, [x], create_graph=True)
    (h,) = wg.autograd.grad(g, [x])
    f = wg.function([x], [g, h])
    t = 0.7
    first, second = f(t)
    assert first.item() == pytest.approx(np.cos(t) * t + np.sin(t))
    assert second.item() == pytest.approx(-np.sin(t) * t + 2 * np.cos(t))


def test_integer_placeholders_have_no_gradient() -> None:
    n = wg.placeholder((), wg.int64, name="n")
    assert not n.requires_grad
    with pytest.raises(wg.GradientError):
        wg.autograd.grad(n * 2.0, [n])


# -- sizes that are known when fed

SIZES = (1, 2, 5, 7)

# From a batch of unknown size to a value, as tensors and by NumPy.
BATCHED: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "mean": (lambda x: x.mean(), lambda x: x.mean()),
    "mean over the batch": (lambda x: x.mean(axis=0), lambda x: x.mean(axis=0)),
    "var": (lambda x: wg.var(x, axis=0), lambda x: x.var(axis=0)),
    "sum": (lambda x: wg.exp(x).sum(axis=1), lambda x: np.exp(x).sum(axis=1)),
    "flatten": (lambda x: wg.reshape(x, (-1,)), lambda x: x.reshape(-1)),
    "reshape by shape": (lambda x: wg.reshape(x, (x.shape[0], 3, 1)), lambda x: x[:, :, None]),
    "reshape by product": (lambda x: x.reshape((x.shape[0] * x.shape[1],)), lambda x: x.reshape(-1)),
    "transpose": (lambda x: x.T @ x, lambda x: x.T @ x),
    "gram": (lambda x: x @ x.T, lambda x: x @ x.T),
    "outer difference": (
        lambda x: ((x[:, None] - x[None]) ** 2).sum(axis=-1),
        lambda x: ((x[:, None] - x) ** 2).sum(-1),
    ),
    "centred": (lambda x: x - x.mean(axis=0), lambda x: x - x.mean(axis=0)),
    "slices": (lambda x: x[1:] - x[:-1], lambda x: x[1:] - x[:-1]),
    "reversed": (lambda x: x[::-1, 1:], lambda x: x[::-1, 1:]),
    "every second": (lambda x: x[::2], lambda x: x[::2]),
    "last": (lambda x: x[-1], lambda x: x[-1]),
    "concat": (lambda x: wg.concat([x, x * 2.0], axis=0), lambda x: np.concatenate([x, x * 2])),
    "stack": (lambda x: wg.stack([x, x], axis=1), lambda x: np.stack([x, x], axis=1)),
    "max": (lambda x: wg.max(x, axis=0), lambda x: x.max(axis=0)),
    "argmax": (lambda x: wg.argmax(x, axis=1), lambda x: x.argmax(axis=1)),
    "logsumexp": (lambda x: wg.logsumexp(x, axis=0), lambda x: np.log(np.exp(x).sum(axis=0))),
    "cumulative": (lambda x: wg.cumulative_sum(x, axis=0), lambda x: x.cumsum(axis=0)),
    "sort": (lambda x: wg.sort(x, axis=0), lambda x: np.sort(x, axis=0)),
    "flip": (lambda x: wg.flip(x, axis=0), lambda x: x[::-1]),
    "roll": (lambda x: wg.roll(x, 1, axis=0), lambda x: np.roll(x, 1, axis=0)),
    "pad": (lambda x: wg.pad(x, [(1, 2), (0, 0)]), lambda x: np.pad(x, [(1, 2), (0, 0)])),
    "where": (lambda x: wg.where(x > 0.0, x, 0.0), lambda x: np.where(x > 0, x, 0)),
    "einsum": (lambda x: wg.einsum("ij,kj->ik", x, x), lambda x: x @ x.T),
    "tril": (lambda x: wg.tril(x @ x.T), lambda x: np.tril(x @ x.T)),
    "norm": (lambda x: wg.linalg.vector_norm(x, axis=1), lambda x: np.linalg.norm(x, axis=1)),
    "count": (lambda x: x.sum() / x.shape[0], lambda x: x.sum() / len(x)),
    "scaled by a size": (lambda x: x * x.shape[0], lambda x: x * len(x)),
    "one hot": (lambda x: wg.nn.functional.one_hot(wg.argmax(x, axis=1), 3), lambda x: np.eye(3)[x.argmax(axis=1)]),
    "zeros_like": (lambda x: x + wg.zeros_like(x), lambda x: x),
    "ones_like": (lambda x: x + wg.ones_like(x), lambda x: x + 1),
    "full_like": (lambda x: wg.full_like(x, 2.5) * x, lambda x: 2.5 * x),
    "broadcast_to": (lambda x: wg.broadcast_to(wg.asarray(np.arange(3.0)), x.shape) * x, lambda x: np.arange(3.0) * x),
    "zeros of a shape": (lambda x: wg.zeros(x.shape, dtype=F64) + x, lambda x: x),
    "tile": (lambda x: wg.tile(x, (2, 1)), lambda x: np.tile(x, (2, 1))),
    "repeat": (lambda x: wg.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, axis=0)),
    "expand": (lambda x: wg.expand_dims(x, axis=0), lambda x: x[None]),
    "diagonal": (lambda x: wg.diagonal(x @ x.T), lambda x: (x**2).sum(axis=1)),
    "moments": (
        lambda x: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True),
        lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True),
    ),
    "top": (lambda x: wg.top_k(x, 2, axis=1)[0], lambda x: np.sort(x, axis=1)[:, :0:-1]),
}

SMOOTH = [k for k in BATCHED if k not in ("argmax", "one hot")]


@pytest.mark.parametrize("name", BATCHED)
def test_values_for_several_sizes(name: str) -> None:
    ours, by_numpy = BATCHED[name]
    x = wg.placeholder((None, 3), F64, name="x")
    f = wg.function([x], ours(x))
    for n in SIZES:
        data = rows(n)
        np.testing.assert_allclose(f(data).numpy(), by_numpy(data), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_for_several_sizes(name: str) -> None:
    ours, _ = BATCHED[name]
    x = wg.placeholder((None, 3), F64, name="x")
    out = ours(x)
    (g,) = wg.autograd.grad((out * out).sum(), [x])
    f = wg.function([x], g)
    for n in SIZES:
        data = rows(n)
        expected = wg.grad(lambda t: (ours(t) ** 2).sum())(data)
        np.testing.assert_allclose(f(data).numpy(), expected.numpy(), rtol=1e-10, atol=1e-10)


def test_one_unknown_size_in_several_inputs() -> None:
    x, y = wg.placeholder((None, 2), name="x"), wg.placeholder((None, 2), name="y")
    f = wg.function([x, y], (x * y).sum(axis=1))
    for n in (1, 3, 0):
        assert f(wg.ones((n, 2)), wg.ones((n, 2))).tolist() == [2.0] * n
    with pytest.raises(wg.FeedError, match=r"y: axis 0 has size 3 where axis0 is already 2"):
        f(wg.ones((2, 2)), wg.ones((3, 2)))


def test_named_sizes() -> None:
    a, b = wg.placeholder(("n", "k"), F64, name="a"), wg.placeholder(("k", "m"), F64, name="b")
    f = wg.function([a, b], (a @ b, a.shape[0] * b))
    for n, k, m in ((1, 2, 3), (4, 1, 2), (2, 2, 2)):
        p, q = rows(n, k), rows(k, m)
        first, second = f(p, q)
        np.testing.assert_allclose(first.numpy(), p @ q)
        np.testing.assert_allclose(second.numpy(), n * q)
    with pytest.raises(wg.FeedError, match="k is already 2"):
        f(rows(2, 2), rows(3, 2))
    with pytest.raises(wg.ShapeError, match="matmul"):
        b @ b
    with pytest.raises(wg.ShapeError, match="do not broadcast"):
        a + b


def test_a_convolution_over_any_batch() -> None:
    rng = np.random.default_rng(0)
    x = wg.placeholder((None, 2, 6, 6), F64, name="x")
    w = wg.tensor(rng.normal(size=(4, 2, 3, 3)), requires_grad=True)
    h = wg.nn.functional.max_pool2d(wg.relu(wg.nn.functional.conv2d(x, w, padding=1)), 2)
    flat = wg.reshape(h, (h.shape[0], -1))
    loss = (flat**2).mean()
    (gw,) = wg.autograd.grad(loss, [w])
    f = wg.function([x], (flat, loss, gw))
    for n in (1, 3, 4):
        data = rng.normal(size=(n, 2, 6, 6))
        out = wg.nn.functional.max_pool2d(wg.relu(wg.nn.functional.conv2d(wg.asarray(data), w, padding=1)), 2).reshape(
            (n, -1)
        )
        expected = (out**2).mean()
        found = f(data)
        np.testing.assert_allclose(found[0].numpy(), out.detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(found[1].item(), expected.item(), rtol=1e-12)
        np.testing.assert_allclose(found[2].numpy(), wg.autograd.grad(expected, w)[0].numpy(), rtol=1e-10)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "gelu", "cross_entropy", "mse_loss"])
def test_composites_over_any_batch(name: str) -> None:
    fn = getattr(wg.nn.functional, name)
    labels = wg.placeholder((None,), wg.int64, name="labels")
    x = wg.placeholder((None, 3), F64, name="x")

    def apply(t: Any, of: Any) -> Any:
        if name == "cross_entropy":
            return fn(t, of)
        if name == "mse_loss":
            return fn(t, t * 0.5)
        if name.endswith("softmax"):
            return fn(t, -1)
        return fn(t, (3,)) if name == "layer_norm" else fn(t)

    out = apply(x, labels)
    (g,) = wg.autograd.grad((out * out).sum(), [x])
    f = wg.function([x, labels], (out, g))
    for n in SIZES:
        data, of = rows(n), np.arange(n) % 3
        value, grad = f(data, of)
        np.testing.assert_allclose(value.numpy(), apply(wg.asarray(data), wg.asarray(of)).numpy(), rtol=1e-10)
        expected = wg.grad(lambda t, of=of: (apply(t, wg.asarray(of)) ** 2).sum())(data)
        np.testing.assert_allclose(grad.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


def test_a_module_over_any_batch() -> None:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(3, 8), wg.nn.ReLU(), wg.nn.Linear(8, 2))
    x = wg.placeholder((None, 3), name="x")
    f = wg.function([x], model(x))
    for n in SIZES:
        data = rows(n).astype(np.float32)
        np.testing.assert_allclose(f(data).numpy(), model(wg.asarray(data)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_an_empty_batch() -> None:
    x = wg.placeholder((None, 3), F64, name="x")
    f = wg.function([x], (x.sum(axis=0), x * 2.0))
    first, second = f(np.zeros((0, 3)))
    assert first.tolist() == [0.0, 0.0, 0.0]
    assert second.shape == (0, 3)


def test_a_size_is_no_number() -> None:
    x = wg.placeholder((None, 3), name="x")
    for use in (
        lambda: int(x.shape[0]),
        lambda: range(x.shape[0]),
        lambda: np.zeros(x.shape),
        lambda: 1.0 / x.shape[0],
    ):
        with pytest.raises(wg.GraphError, match="not known until"):
            use()
    assert x.shape[0] != 3
    assert str(x.shape[0]) == "axis0"


def test_functions_with_unknown_sizes_on_threads() -> None:
    x = wg.placeholder((None, 3), F64, name="x")
    f = wg.function([x], (x @ x.T).sum())
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for n in range(1, 80):
            data = rows(n, seed=seed)
            if not np.isclose(f(data).item(), (data @ data.T).sum()):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_text_of_a_function() -> None:
    x = wg.placeholder((None, 3), name="x")
    f = wg.function([x], (x * x).sum(), name="squares")
    assert "f32[axis0, 3]" in repr(f) or "axis0" in repr(f)
    assert wg.Graph.parse(str(f.graph)) == f.graph


def test_slices_that_leave_the_axis_are_refused() -> None:
    x = wg.placeholder((None,), name="x")
    f = wg.function([x], (x[2:] * 2.0, x[:3]))
    assert [t.tolist() for t in f([1.0, 2.0, 3.0])] == [[6.0], [1.0, 2.0, 3.0]]
    with pytest.raises(wg.FeedError, match=r"axis0 = 2 do not suit slice") as caught:
        f([1.0, 2.0])
    assert __file__ in str(caught.value)
    with pytest.raises(wg.FeedError, match=r"axis0 = 1 do not suit slice"):
        f([1.0])


def test_writing_into_a_batch_of_any_size() -> None:
    x = wg.placeholder((None, 3), F64, name="x")
    h = x * 1.0
    h[:, 0] = 7.0
    h[1:] = h[1:] + x[:-1]
    (g,) = wg.autograd.grad((h * h).sum(), [x])
    f = wg.function([x], (h, g))

    def by_numpy(data: np.ndarray) -> np.ndarray:
        out = data.copy()
        out[:, 0] = 7.0
        out[1:] = out[1:] + data[:-1]
        return out

    for n in SIZES:
        data = rows(n)
        value, grad = f(data)
        np.testing.assert_allclose(value.numpy(), by_numpy(data))
        step = 1e-6
        moved = data.copy()
        moved[0, 1] += step
        slope = ((by_numpy(moved) ** 2).sum() - (by_numpy(data) ** 2).sum()) / step
        assert grad[0, 1].item() == pytest.approx(slope, abs=1e-4)
