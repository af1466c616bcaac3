"""Autocast means the same in eager execution, traces, gradients, batches and compiled programs."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.core.state.observer import detours

LOWER = ("bfloat16", "float16")


def rand(*shape: int, seed: int = 0) -> Any:
    return wg.tensor(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def model(w: Any, x: Any) -> Any:
    h = wg.tanh(x @ w)
    return h.softmax(-1).log().mean() + (h * h).sum()


@pytest.mark.parametrize("dtype", LOWER)
def test_each_op_in_its_precision(dtype: str) -> None:
    x, w = rand(4, 3), rand(3, 2, seed=1)
    with wg.autocast(dtype):
        h = x @ w
        names = {
            dtype: [h, h * 2.0, h + h, h.max(), wg.tanh(h), h[0], h.T, wg.einsum("ij,jk", x, w), w.T @ x[0],
                    x[0] @ x[1], wg.nn.functional.linear(x, w.T), wg.concat([h, h]), wg.where(h > 0, h, 0.0)],
            "float32": [wg.exp(h), h.sum(), h.mean(0), h**2.5, 2.0**h, 1.0 / wg.exp(h), h.softmax(-1), h.cumsum(0),
                        h.std(), wg.linalg.norm(h), wg.linalg.norm(h[0], 3), wg.log(h.abs()), h + w[0],
                        wg.concat([h, w]), wg.where(h > 0, h, w[0]), wg.nn.functional.l1_loss(h, h, reduction="none")],
            "float64": [x.double() @ w, wg.exp(h).double()],
            "int64": [wg.arange(3) @ wg.arange(3), wg.arange(3).sum()],
            "complex64": [wg.exp(x + 1j), (x + 1j) @ w],
        }  # fmt: skip
    found = {name: [str(t.dtype) for t in tensors] for name, tensors in names.items()}
    assert found == {name: [name] * len(tensors) for name, tensors in names.items()}
    assert (x @ w).dtype == wg.float32


def test_numbers_meet_float32() -> None:
    """A number that meets an op of float32 is not rounded to the tensor's dtype first."""
    x = rand(5).abs()
    with wg.autocast("bfloat16"):
        half = (x[None] @ wg.ones(5, 5))[0]
        np.testing.assert_array_equal((half**2.3).numpy(), (half.float() ** 2.3).numpy())
        np.testing.assert_array_equal((2.3**half).numpy(), (2.3 ** half.float()).numpy())


@pytest.mark.parametrize("dtype", LOWER)
def test_gradients_have_the_parameters_dtype(dtype: str) -> None:
    w, x = rand(3, 2).requires_grad_(), rand(4, 3, seed=1)
    with wg.autocast(dtype):
        loss = model(w, x)
    loss.backward()
    outside = w.grad
    w.grad = None
    with wg.autocast(dtype):
        model(w, x).backward()
        functional = wg.grad(model)(w, x)
        (recorded,) = wg.autograd.grad(model(w, x), w, create_graph=True)
    assert outside.dtype == wg.float32
    for g in (w.grad, functional, recorded):
        assert g.dtype == wg.float32
        np.testing.assert_allclose(g.detach().numpy(), outside.numpy(), rtol=0.05, atol=0.02)
    np.testing.assert_array_equal(w.grad.numpy(), outside.numpy())
    w.grad = None
    model(w, x).backward()
    np.testing.assert_allclose(outside.numpy(), w.grad.numpy(), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("dtype", LOWER)
def test_one_graph_however_it_is_traced(dtype: str) -> None:
    w, x = rand(3, 2), rand(4, 3, seed=1)
    cast = wg.autocast(dtype)
    inside = str(wg.graph(cast(model))(w, x))
    with wg.autocast(dtype):
        assert str(wg.graph(model)(w, x)).split("\n")[1:] == inside.split("\n")[1:]
        eager = str(wg.Graph.of(model(w.clone().requires_grad_(), x)))
    assert eager.count("cast") == inside.count("cast") - 1  # that of x carries no gradient
    assert "bf16" in inside or "f16" in inside
    # What is closed casts nothing more, and what was traced outside stays as it was.
    plain, closed = wg.graph(model)(w, x), wg.graph(cast(model))(w, x)
    with wg.autocast(dtype):
        np.testing.assert_array_equal(plain(w, x).numpy(), model_without(w, x))
        tracked = plain(w.clone().requires_grad_(), x)
        assert "cast" not in str(wg.Graph.of(tracked))
    np.testing.assert_array_equal(closed(w, x).numpy(), cast(model)(w, x).numpy())


def model_without(w: Any, x: Any) -> Any:
    with wg.autocast(enabled=False):
        return model(w, x).numpy()


@pytest.mark.parametrize("dtype", LOWER[:1])
def test_compiled_programs_know_their_mode(dtype: str) -> None:
    w, x = rand(3, 2), rand(4, 3, seed=1)
    compiled, inside = (
        wg.jit(lambda w, x: wg.tanh(x @ w) * 2.0),
        wg.jit(wg.autocast(dtype)(lambda w, x: wg.tanh(x @ w) * 2.0)),
    )
    plain = compiled(w, x).numpy()
    for _ in range(3):
        for _ in range(6):
            assert compiled(w, x).dtype == wg.float32
        np.testing.assert_array_equal(compiled(w, x).numpy(), plain)
        with wg.autocast(dtype):
            for _ in range(6):
                found = compiled(w, x)
                assert str(found.dtype) == dtype
            with wg.autocast(enabled=False):
                assert all(compiled(w, x).dtype == wg.float32 for _ in range(6))
            with wg.autocast("float16"):
                assert all(compiled(w, x).dtype == wg.float16 for _ in range(6))
        for _ in range(6):
            assert str(inside(w, x).dtype) == dtype
        np.testing.assert_array_equal(inside(w, x).astype("float32").numpy(), found.astype("float32").numpy())


def step_of(net: Any, autocast: Any) -> Any:
    optimizer = wg.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with autocast:
            loss = wg.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("dtype", LOWER[:1])
def test_a_compiled_training_step(dtype: str) -> None:
    x, y = rand(32, 4), wg.tensor(np.arange(32) % 3)
    curves = []
    for autocast in (wg.autocast("float16", enabled=False), wg.autocast(dtype)):
        wg.manual_seed(0)
        net = wg.nn.Sequential(wg.nn.Linear(4, 16), wg.nn.Tanh(), wg.nn.Linear(16, 3))
        compiled = wg.jit(step_of(net, autocast))
        curves.append([compiled(x, y).item() for _ in range(10)])
        assert all(p.dtype == wg.float32 for p in net.parameters())
    np.testing.assert_allclose(curves[0], curves[1], rtol=0.02)
    assert curves[0] != curves[1]


def test_a_parameter_is_cast_once_in_a_compiled_step() -> None:
    """Forward and backward pass read one copy: a parameter is read where it is cast, and where it is updated."""
    model = wg.nn.Sequential(
        wg.nn.Conv2d(2, 4, 3, padding=1), wg.nn.ReLU(), wg.nn.Flatten(), wg.nn.Linear(64, 64), wg.nn.Tanh()
    )
    shared = wg.nn.Linear(64, 64)
    optimizer = wg.optim.SGD([*model.parameters(), *shared.parameters()], lr=0.1)

    @wg.jit
    def step(x: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        with wg.autocast("bfloat16"):
            loss = (shared(wg.tanh(shared(model(x)))) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(wg.ones(3, 2, 4, 4))
    weights = [v.buffer for v in step.plan.inputs if v.shape in ((4, 2, 3, 3), (64, 64))]
    assert len(weights) == 3
    for buffer in weights:
        assert [s.label for s in step.plan.steps if buffer in s.reads and buffer not in s.writes] == ["cast"]


@pytest.mark.parametrize("dtype", LOWER[:1])
def test_batches(dtype: str) -> None:
    w, xs = rand(3, 2), rand(5, 4, 3, seed=1)
    with wg.autocast(dtype):
        mapped = wg.vmap(lambda x: wg.tanh(x @ w), 0)(xs)
        per_example = wg.vmap(wg.grad(model), (None, 0))(w, xs)
        kept = wg.vmap(lambda x: without(x, w), 0)(xs)
        assert kept.dtype == wg.float32 == per_example.dtype
        each = [wg.tanh(x @ w).astype("float32").numpy() for x in xs]
    assert str(mapped.dtype) == dtype
    np.testing.assert_allclose(mapped.astype("float32").numpy(), each, rtol=0.02, atol=0.01)
    np.testing.assert_array_equal(kept.numpy(), (xs @ w).numpy())


@wg.autocast(enabled=False)
def without(x: Any, w: Any) -> Any:
    return x @ w


@pytest.mark.parametrize("dtype", LOWER[:1])
def test_forward_mode_and_checkpoints(dtype: str) -> None:
    w, x = rand(3, 2), rand(4, 3, seed=1)
    with wg.autocast(dtype):
        _, tangent = wg.jvp(lambda w: model(w, x), (w,), (wg.ones(3, 2),))
        slope = (wg.grad(model)(w, x) * 1.0).float().sum()
    np.testing.assert_allclose(tangent.numpy(), slope.numpy(), rtol=0.05, atol=0.05)
    leaf = w.clone().requires_grad_()
    with wg.autocast(dtype):
        kept = wg.checkpoint(model)(leaf, x)
    kept.backward()  # computes again what it needs, in the precision that it had
    again = w.clone().requires_grad_()
    with wg.autocast(dtype):
        model(again, x).backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), again.grad.numpy())


def test_loops() -> None:
    w, x = rand(3, 3), rand(5, 3, seed=1)

    def carried(w: Any, x: Any) -> Any:
        return wg.scan(lambda c, row: (wg.tanh(row @ w + c), c), wg.zeros(3), x)[0]

    with wg.autocast("bfloat16"):
        eager, compiled = carried(w, x), wg.jit(carried)
        for _ in range(6):
            found = compiled(w, x)
    assert found.dtype == eager.dtype == wg.float32
    np.testing.assert_allclose(found.numpy(), eager.numpy(), atol=0.02)


def test_blocks_nest_and_end() -> None:
    x = rand(2, 2)
    auto = wg.autocast("float16")
    with auto:
        with wg.autocast("bfloat16"):
            assert (x @ x).dtype == wg.bfloat16
            with wg.no_grad(), wg.set_default_dtype(wg.float64):
                assert (x @ x).dtype == wg.bfloat16
            with wg.autocast(enabled=False):
                assert (x @ x).dtype == wg.float32
                with auto:
                    assert (x @ x).dtype == wg.float16
        assert (x @ x).dtype == wg.float16
        with pytest.raises(wg.ShapeError), wg.autocast("bfloat16"):
            x @ wg.ones(3, 3)
        assert (x @ x).dtype == wg.float16
    assert (x @ x).dtype == wg.float32
    assert not detours


def test_a_generator_casts_its_own_steps_only() -> None:
    x = rand(2, 2)

    @wg.autocast("float16")
    def steps() -> Any:
        while True:
            yield (x @ x).dtype

    made = steps()
    for _ in range(2):
        assert next(made) == wg.float16
        assert (x @ x).dtype == wg.float32


def test_threads_have_their_own() -> None:
    x = rand(2, 2)
    found: list[Any] = []
    with wg.autocast("float16"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert (x @ x).dtype == wg.float16
    assert found == [wg.float32]


def test_contexts_outlive_the_block() -> None:
    """A copy of the context made inside casts after the block has ended, whoever runs it."""
    x = rand(2, 2)

    async def main() -> Any:
        async def later() -> Any:
            await asyncio.sleep(0)
            return (x @ x).dtype

        with wg.autocast("float16"):
            task = asyncio.create_task(later())
        return (x @ x).dtype, await task

    assert asyncio.run(main()) == (wg.float32, wg.float16)
    with wg.autocast("float16"):
        context = contextvars.copy_context()
    assert context.run(lambda: (x @ x).dtype) == wg.float16
    assert (x @ x).dtype == wg.float32
    del context
    assert not detours


def test_modules_keep_no_mode() -> None:
    layer, x = wg.nn.Linear(2, 2), rand(1, 2)
    for _ in range(3):
        with wg.autocast("float16"):
            assert layer(x).dtype == wg.float16
        assert layer(x).dtype == wg.float32
        assert not detours


def test_nothing_stale_after_a_write() -> None:
    w, x = rand(2, 2), rand(2, 2, seed=1)
    with wg.autocast("float16"):
        before = (x @ w).numpy()
        w[0] = 0.0
        after = (x @ w).numpy()
        np.testing.assert_array_equal(after, (x @ w.clone()).numpy())
    assert not np.array_equal(before, after)


def test_other_dtypes_are_refused() -> None:
    for dtype in ("float32", "int8", "complex64"):
        with pytest.raises(wg.DTypeError, match=f"autocast to {dtype}"):
            wg.autocast(dtype)


def test_composites_are_one_op() -> None:
    """Whether its kernel, its NumPy forward or its body runs, a composite computes in one precision."""
    x = rand(3, 4).astype("float16")
    for requires in (False, True):
        given = x.clone().requires_grad_(requires)
        with wg.autocast("float16"):
            assert wg.nn.functional.gelu(given).dtype == wg.float16
            assert wg.nn.functional.layer_norm(given, (4,)).dtype == wg.float32
            assert wg.nn.functional.mse_loss(given, given * 0.5).dtype == wg.float32
    assert {op.facets.get("autocast") for op in TABLE.values()} == {None, "lower", "float32"}
