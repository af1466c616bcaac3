"""Programs on XLA: control flow, transforms, arguments of all kinds, errors, donation, and what stays on the device."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wengert as wg

pytest.importorskip("jax", reason="the engine needs jax")

import jax

from wengert.execute import engines
from wengert.execute.xla.memory import held_by


def on_xla(fn: Any, **options: Any) -> Any:
    return wg.jit(fn, engine="xla", **options)


def close(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), tolerance, tolerance)


def draw(*shape: int, seed: int = 0) -> Any:
    return wg.tensor(np.random.default_rng(seed).normal(size=shape))


def is_of_xla(t: Any) -> bool:
    """Whether a tensor's value stands in XLA's memory."""
    return held_by(t._array) is not None


# -- engines


def test_the_engine_is_named_by_the_call_or_by_the_block() -> None:
    f = wg.jit(lambda x: x * 2.0)
    x = wg.ones(3)
    assert f(x).tolist() == [2.0] * 3
    assert f.engine.name == "native"
    for _ in range(6):
        with wg.engine("xla"):
            assert is_of_xla(f(x))
        assert not is_of_xla(f(x))
    assert f.cache_info().programs == 2
    with wg.engine("native"):
        g = on_xla(lambda x: x + 1.0)
        g(x)
        assert g.engine.name == "xla"


def test_what_the_engine_of_auto_is_and_why() -> None:
    f = wg.jit(lambda x: x * 2.0, engine="auto")
    f(wg.ones(3))
    if jax.default_backend() == "cpu":
        assert f.engine.name == "native"
        assert "processor" in f.engine.why


def test_what_auto_says_of_accelerators(monkeypatch: pytest.MonkeyPatch) -> None:
    f, g = wg.jit(lambda x: x * 2.0), wg.jit(lambda x: x @ x)
    f(wg.ones(3)), g(wg.ones(400, 400))
    monkeypatch.setattr(engines, "_may_have_accelerators", lambda: False)
    assert "only the processor" in engines.chosen(f.graph, "auto", "").why
    monkeypatch.setattr(engines, "_may_have_accelerators", lambda: True)
    monkeypatch.setattr(engines, "jax", SimpleNamespace(default_backend=lambda: "gpu", devices=lambda: [None]))
    small, large = engines.chosen(f.graph, "auto", ""), engines.chosen(g.graph, "auto", "")
    assert str(small) == "native: its 6 numbers are computed here before a GPU has begun"
    assert str(large) == "xla: jax has a GPU, and the program computes 320,000 numbers"
    assert "1 GPU device for 8 ranks" in engines.chosen(g.graph, "auto", "", 8).why
    assert engines.chosen(g.graph, "auto", "memory=").name == "native"
    monkeypatch.setattr(engines, "is_installed", lambda: False)
    assert "pip install" in engines.chosen(g.graph, "auto", "").why


def test_an_engine_that_does_not_exist_and_options_of_native_code() -> None:
    with pytest.raises(wg.GraphError, match="engine='tpu'"):
        wg.jit(lambda x: x, engine="tpu")
    with pytest.raises(wg.GraphError, match="engine='cuda'") as caught:
        wg.engine("cuda")
    assert "x.to('cuda')" in str(caught.value)
    with pytest.raises(wg.GraphError, match='verify=True with engine="xla"'):
        on_xla(lambda x: x * 2, verify=True)(wg.ones(2))
    f = on_xla(lambda x: x * 2)
    f(wg.ones(2))
    with pytest.raises(wg.GraphError, match="runs by XLA"):
        f.plan
    assert "HloModule" in f.ir


def test_nothing_global_is_set() -> None:
    before = jax.config.jax_enable_x64
    assert on_xla(lambda x: x * 2)(draw(3)).dtype == wg.float64
    assert jax.config.jax_enable_x64 == before
    assert jax.numpy.ones(2).dtype == np.float32


# -- values


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int8", "uint16", "int64", "bool", "complex64"]
)
def test_dtypes_are_kept(dtype: str) -> None:
    x = wg.tensor([0, 1, 1, 0, 1]).astype(getattr(wg, dtype))
    f = on_xla(lambda x: (x, x.reshape(5, 1), wg.where(x == x, x, x)))
    for _ in range(6):
        for got in f(x):
            assert got.dtype == x.dtype
            assert got.reshape(5).tolist() == x.tolist()


def test_arguments_of_all_kinds_at_the_sixth_call() -> None:
    f = on_xla(lambda x, n, s: (x * n + s).sum(axis=0))
    x = draw(4, 3)
    for k in range(7):
        given = (x, x * 2, x[::-1], x.mT.reshape(4, 3), wg.tensor(np.asfortranarray(x.numpy())), x[1:2], x * 0)[k]
        n, s = k + 0.5, wg.tensor(float(k), dtype="float64")
        close(f(given, n, s), (given * n + s).sum(axis=0))
    empty = wg.zeros((0, 3), dtype="float64")
    close(f(empty, 2.0, 1.0), [0.0] * 3)


def test_arrays_and_numbers_among_results() -> None:
    f = on_xla(lambda x: {"a": x + 1, "b": (x.sum(), [x]), "c": 3})
    x = draw(2)
    for _ in range(6):
        found = f(x)
        close(found["a"], x + 1)
        assert found["c"] == 3
        assert found["b"][1][0] is x


def test_what_is_computed_has_memory_of_its_own_and_an_argument_is_itself() -> None:
    f = on_xla(lambda x: (x, x + 0, x + 0))
    x = draw(3)
    before = x.tolist()
    for _ in range(6):
        a, b, c = f(x)
        assert a is x
        b[0] = 5.0
        assert x.tolist() == before == c.tolist()
    held = f(x)[2]
    for _ in range(6):
        f(x * 2)
    assert held.tolist() == before


def test_infinities_and_nans() -> None:
    x = wg.tensor([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308], dtype="float64")
    f = lambda x: (wg.exp(x), x / x, wg.maximum(x, 0.0), x.max(), wg.softmax(x), x.argmax(), wg.sort(x))
    for got, want in zip(on_xla(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_half_precision_is_rounded_after_every_operation() -> None:
    wide = wg.tensor(np.float16([1000.0, 1.0, 60000.0]))
    narrow = wg.tensor([1.1, 2.3, 3.7]).astype("bfloat16")
    for f, x in (
        (lambda x: wg.isfinite(x * 300), wide),
        (lambda x: (x * 300).astype("float32"), wide),
        (lambda x: (x * x * x - x).astype("float32"), narrow),
        (lambda x: wg.nn.functional.silu(x) * x - x, narrow),
    ):
        np.testing.assert_array_equal(on_xla(f)(x).numpy(), f(x).numpy())


def test_powers() -> None:
    x = wg.tensor([0.12, -3.0, 1e-3, 50.0])
    for k in (0, 1, 2, 3, 0.5, 2.5, -1, -2, -0.5, -20):
        got, want = on_xla(lambda x, k=k: x**k)(x).numpy(), (x**k).numpy()
        np.testing.assert_allclose(got, want, 1e-5, err_msg=str(k))
    with pytest.raises(wg.DTypeError, match="negative integer power"):
        on_xla(lambda x, n: x**n)(wg.tensor([2]), wg.tensor([-1]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integer_powers_wrap(dtype: str) -> None:
    top = int(np.iinfo(dtype).max)
    base = np.array([0, 1, 2, 3, 5, 7, top, top - 1], dtype)[:, None]
    exponent = np.array([0, 1, 2, 63, 64, 65, 100, 127, top], dtype)
    want = base**exponent
    np.testing.assert_array_equal(on_xla(lambda x, n: x**n)(wg.tensor(base), wg.tensor(exponent)).numpy(), want)
    np.testing.assert_array_equal(on_xla(lambda x: x**64)(wg.tensor(base)).numpy(), base ** np.array(64, dtype))
    np.testing.assert_array_equal(on_xla(lambda n: 3**n)(wg.tensor(exponent)).numpy(), np.array(3, dtype) ** exponent)


def test_a_branch_that_is_not_taken_computes_nothing() -> None:
    g = on_xla(wg.grad(lambda x: wg.cond(x > 0, lambda: wg.sqrt(x), lambda: 3 * x)))
    assert [g(wg.tensor(x)).item() for x in (-1.0, 0.0, 0.25)] == [3.0, 3.0, 1.0]
    picked = on_xla(lambda x, i: wg.cond(i < 3, lambda: x[i], lambda: x[0] * 0 - 1))
    assert [picked(wg.ones(3), wg.asarray(i)).item() for i in (1, 5)] == [1.0, -1.0]
    with pytest.raises(wg.RangeError):
        picked(wg.ones(3), wg.asarray(-9))


def test_ids_of_a_table_do_not_count_from_the_end() -> None:
    lookup = on_xla(lambda i, table: wg.nn.functional.embedding(i, table))
    computed = on_xla(lambda i, table: wg.nn.functional.embedding(i - 1, table))
    table = wg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert lookup(wg.tensor([2, 0]), table).tolist() == [[5.0, 6.0], [1.0, 2.0]]
    for f, bad in ((lookup, -2), (lookup, 3), (computed, 0), (computed, 4)):
        with pytest.raises(wg.RangeError, match="in a table of 3 rows"):
            f(wg.tensor([1, bad]), table)


# -- what is found again by being equal


def test_the_gradient_of_a_maximum_goes_to_its_element() -> None:
    """XLA computes the argument twice, rounded in two ways: no element need equal the maximum."""

    def f(x: Any, a: Any, b: Any) -> Any:
        return ((wg.tanh(x * a) * x + b).max(0) ** 2).sum()

    for seed in range(3):
        given = draw(33, 7, seed=seed), draw(7, seed=seed + 10), draw(7, seed=seed + 20)
        gradient = wg.grad(f, argnums=(0, 1, 2))
        for got, want in zip(on_xla(gradient)(*given), gradient(*given), strict=True):
            close(got, want)


def test_the_gradient_of_a_pool_goes_to_its_elements() -> None:
    model = wg.nn.Sequential(
        wg.nn.Conv2d(1, 2, 3, padding=1),
        wg.nn.BatchNorm2d(2),
        wg.nn.ReLU(),
        wg.nn.MaxPool2d(2),
        wg.nn.Conv2d(2, 8, 3, padding=1),
    ).to("float64")
    parameters, x = list(model.parameters()), draw(8, 1, 6, 6)

    def loss() -> None:
        for p in parameters:
            p.grad = None
        (model(x) ** 2).sum().backward()

    loss()
    want = [p.grad.numpy().copy() for p in parameters]
    on_xla(loss)()
    for p, gradient in zip(parameters, want, strict=True):
        close(p.grad, gradient, 1e-10)


# -- control flow and transforms


def test_loops_and_choices() -> None:
    def f(x: Any, n: Any) -> Any:
        total, rows = wg.scan(lambda c, row: (c * 0.5 + row.sum(), c), x[0, 0], x)
        steps = wg.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, total))[1]
        return wg.cond(total > 0, lambda v: v.sin(), lambda v: v.cos(), steps) + rows.sum()

    compiled, grad = on_xla(f), on_xla(wg.grad(f))
    for k in range(6):
        x, n = draw(4, 3, seed=k), wg.tensor(k)
        close(compiled(x, n), f(x, n))
    g = lambda x: wg.scan(lambda c, row: (wg.tanh(c + row).sum(), c), x[0, 0], x)[0]
    x = draw(4, 3)
    close(on_xla(wg.grad(g))(x), wg.grad(g)(x))
    assert grad is not None


def test_a_while_of_python_and_an_if() -> None:
    def f(x: Any) -> Any:
        while x.sum() < 100:
            x = x * 2
        return x if x[0] > 3 else -x

    compiled = on_xla(f)
    for k in range(8):
        x = wg.tensor([1.0 + k, 2.0])
        assert compiled(x).tolist() == f(x).tolist()


def test_transforms_inside_and_outside() -> None:
    def f(w: Any, x: Any) -> Any:
        return wg.tanh(x @ w).sum() ** 2

    w, x = draw(3, 2), draw(4, 3, seed=1)
    for transform in (
        wg.grad(f),
        wg.value_and_grad(f),
        wg.vmap(f, (None, 0)),
        wg.hessian(f),
        wg.jacobian(lambda w, x: wg.tanh(x @ w)),
        wg.vmap(wg.grad(f), (None, 0)),
        lambda w, x: wg.jvp(wg.grad(lambda w: f(w, x)), (w,), (w,)),
    ):
        got, want = on_xla(transform)(w, x), transform(w, x)
        for a, b in zip(wg.tree.leaves(got), wg.tree.leaves(want), strict=True):
            close(a, b, 1e-11)
    inner = on_xla(f)
    close(wg.grad(inner)(w, x), wg.grad(f)(w, x))


def test_gradients_flow_out_of_a_program() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    f = on_xla(lambda x: (w * x).sin())
    for k in range(6):
        x = wg.tensor([0.5 + k, 1.0], requires_grad=True)
        w.grad = None
        f(x).sum().backward()
        close(w.grad, ((w * x).cos() * x).detach(), 1e-6)
        close(x.grad, ((w * x).cos() * w).detach(), 1e-6)


# -- random numbers


def test_random_numbers_are_those_of_eager_execution() -> None:
    def f(n: Any) -> Any:
        return (
            wg.rand(7), wg.rand(3, 5, dtype="float64"), wg.randint(0, 1000, (9,)), wg.random.randperm(11),
            wg.torch.bernoulli(wg.full((9,), 0.3)),
            wg.nn.functional.dropout(n, 0.4), wg.randn(4) * 0,
        )  # fmt: skip

    compiled, n = on_xla(f), wg.ones(20)
    wg.random.manual_seed(5)
    want = [f(n) for _ in range(6)]
    wg.random.manual_seed(5)
    for row in want:
        for a, b in zip(compiled(n), row, strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
    after = wg.rand(3)
    wg.random.manual_seed(5)
    for _ in range(6):
        f(n)
    assert wg.rand(3).tolist() == after.tolist()


def test_normal_numbers_to_the_last_bits() -> None:
    key = wg.random.key(3)
    for dtype, tolerance in (("float64", 1e-14), ("float32", 1e-6)):
        f = lambda: wg.randn(1001, key=key, dtype=dtype)  # noqa: B023
        close(on_xla(f)(), f(), tolerance)


# -- errors


def test_an_index_out_of_range() -> None:
    f = on_xla(lambda x, i: x[i])
    x = wg.arange(5.0)
    for i in ([0, -1], [-5, 4], [2, 2], [1, 0], [0, 3], [4, 4]):
        assert f(x, wg.tensor(i)).tolist() == x[wg.tensor(i)].tolist()
    for bad in (5, -6):
        with pytest.raises(wg.WengertError, match=f"index {bad} is out of range for axis 0 of size 5"):
            f(x, wg.tensor([0, bad]))
    computed = on_xla(lambda x, i: x[i * 2])
    assert computed(x, wg.tensor([1, 2])).tolist() == [2.0, 4.0]
    with pytest.raises(wg.WengertError, match="index 6 is out of range"):
        computed(x, wg.tensor([1, 3]))


def test_an_error_leaves_the_state_as_it_was() -> None:
    w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    opt = wg.optim.SGD([w], lr=0.5, momentum=0.9)

    @on_xla
    def step(i: Any) -> Any:
        opt.zero_grad()
        loss = (w[i * 1] ** 2).sum()
        loss.backward()
        opt.step()
        return loss

    for _ in range(6):
        step(wg.tensor([0, 2]))
    before, buffer = w.tolist(), np.array(opt.state[w]["momentum_buffer"]).tolist()
    for _ in range(3):
        with pytest.raises(wg.WengertError, match="out of range"):
            step(wg.tensor([0, 3]))
        assert w.tolist() == before
        assert np.array(opt.state[w]["momentum_buffer"]).tolist() == buffer
    step(wg.tensor([0, 2]))
    assert w.tolist() != before


def test_classes_that_do_not_exist_and_those_that_are_ignored() -> None:
    f = on_xla(lambda x, y: wg.nn.functional.cross_entropy(x, y))
    x = draw(3, 4)
    for y in ([0, 1, 3], [0, -100, 2]):
        close(f(x, wg.tensor(y)), wg.nn.functional.cross_entropy(x, wg.tensor(y)))
    with pytest.raises(wg.WengertError, match="target 4 at"):
        f(x, wg.tensor([0, 4, 1]))


def test_matrices_that_have_no_inverse() -> None:
    f = on_xla(lambda a: wg.linalg.inv(a))
    close(f(wg.tensor([[2.0, 0.0], [0.0, 4.0]])), [[0.5, 0.0], [0.0, 0.25]])
    with pytest.raises(wg.linalg.LinAlgError, match="is singular"):
        f(wg.tensor([[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(wg.linalg.LinAlgError, match="not positive definite"):
        on_xla(lambda a: wg.linalg.cholesky(a))(wg.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_errors_in_loops() -> None:
    f = on_xla(lambda x, i: wg.scan(lambda c, k: (c + x[k], c), 0.0, i)[0])
    x = wg.arange(4.0)
    assert float(f(x, wg.tensor([0, 3]))) == 3.0
    with pytest.raises(wg.WengertError, match="out of range"):
        f(x, wg.tensor([0, 4]))


def test_python_in_the_midst(capsys: pytest.CaptureFixture[str]) -> None:
    w = wg.tensor([1.0, 2.0])

    def seen(a: Any) -> Any:
        if a.sum() > 100:
            raise ValueError("too large")
        return a[::-1]

    @on_xla
    def f(x: Any) -> Any:
        w.mul_(2.0)
        x = wg.debug.print("x is {}", x)
        return wg.callback(seen, wg.spec((2,)), x) + w

    assert f(wg.tensor([1.0, 5.0])).tolist() == [7.0, 5.0]
    assert capsys.readouterr().out == "x is tensor([1., 5.])\n"
    with pytest.raises(ValueError, match="too large"):
        f(wg.tensor([1.0, 500.0]))
    assert w.tolist() == [2.0, 4.0]


def test_python_in_the_midst_has_the_whole_number() -> None:
    seen: list[Any] = []

    def keep(a: Any) -> Any:
        seen.append(np.array(a))
        return np.asarray(a)

    for dtype in ("float64", "complex128", "int64", "uint64", "float32", "bool"):
        x = wg.tensor([0, 1, 3]).astype(dtype) / 3 if dtype[0] in "fc" else wg.tensor([0, 1, 2**31]).astype(dtype)
        f = on_xla(lambda x: wg.callback(keep, wg.spec(x.shape, x.dtype), x))
        for given in (x, x[1]):
            assert f(given).numpy().tobytes() == given.numpy().tobytes() == seen[-1].tobytes()
            assert seen[-1].shape == given.shape


def test_ctrl_c_in_the_midst_leaves_the_state_as_it_was() -> None:
    w, stops = wg.zeros(3), [False]

    def stop(a: Any) -> Any:
        if stops[0]:
            raise KeyboardInterrupt
        return np.asarray(a)

    @on_xla
    def step(x: Any) -> Any:
        w.add_(x)
        return wg.callback(stop, wg.spec((3,)), w)

    for _ in range(6):
        step(wg.ones(3))
    stops[0] = True
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            step(wg.ones(3))
        assert w.tolist() == [6.0] * 3
    stops[0] = False
    assert step(wg.ones(3)).tolist() == w.tolist() == [7.0] * 3


# -- memory


def test_state_is_updated_where_it_stands() -> None:
    w = wg.zeros(1000, requires_grad=False)

    @on_xla
    def step(x: Any) -> None:
        w.add_(x)

    x = wg.ones(1000)
    step(x)
    step(x)
    places = set()
    for _ in range(6):
        step(x)
        places.add(w.numpy().ctypes.data)
    if jax.default_backend() == "cpu":
        assert len(places) == 1
        assert "w" in step.transfers.kept
        assert step.transfers.returned == 0
    assert w.tolist() == [8.0] * 1000


def test_a_value_that_was_taken_stays() -> None:
    w = wg.zeros(4)

    @on_xla
    def step() -> None:
        w.add_(1.0)

    taken = []
    for _ in range(8):
        step()
        taken.append((w.detach(), w[1:], w.numpy()))
    assert [t[0].tolist() for t in taken] == [[k] * 4 for k in range((1.0).__int__(), 9)]
    assert [t[1].tolist() for t in taken] == [[k] * 3 for k in range(1, 9)]


def test_an_argument_that_is_the_last_result_is_not_moved() -> None:
    f = on_xla(lambda x: x * 1.01)
    x = wg.ones(64, 64)
    for _ in range(6):
        x = f(x)
        kept = f.transfers.kept
    assert kept == ("x",)
    assert "1 input was there, 0 were copied (0 bytes)" in str(wg.explain.transfers(f))
    with pytest.raises(wg.GraphError, match="transfers of a function"):
        wg.explain.transfers(lambda x: x)


def test_donated_arguments() -> None:
    f = on_xla(lambda x, y: (x + y, (x * y).sum()), donate_argnums=0)
    y = draw(50)
    x = draw(50, seed=1)
    want = x.numpy().copy()
    for _ in range(6):
        given = x
        x, _ = f(given, y)
        want = want + y.numpy()
        close(x, want)
        with pytest.raises(wg.GraphError, match="was donated, as argument 0"):
            given.sum()


def test_threads() -> None:
    f = on_xla(lambda x: wg.tanh(x).sum())
    total = wg.zeros(())

    @on_xla
    def count(x: Any) -> None:
        total.add_(x.sum())

    found: list[float] = []

    def work(k: int) -> None:
        for _ in range(20):
            found.append(float(f(wg.full((8,), float(k)))) - 8 * float(np.tanh(np.float32(k))))
            count(wg.ones(2))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 80
    assert max(map(abs, found)) < 1e-5
    assert float(total) == 160.0


def test_ahead_of_time() -> None:
    compiled = on_xla(lambda x: x * 2 + 1).lower(wg.spec((3,))).compile()
    assert compiled(wg.ones(3)).tolist() == [3.0] * 3
