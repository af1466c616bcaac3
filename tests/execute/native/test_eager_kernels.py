"""Composites and windows outside `wg.jit`, by kernels: the same results, gradients, errors, graphs as by NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import WengertError
from wengert.core.ops import kernels
from wengert.core.ops.op import TABLE, Call, Op
from wengert.execute.native import eager

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.filterwarnings("error")

OPS = [op for op in TABLE.values() if (op.kind == "composite" or op.by_kernel) and op.samples is not None]
BITS = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = kernels.kernels
    yield
    kernels.kernels = before


def calls(op: Op) -> list[Call]:
    assert op.samples is not None
    return list(op.samples(np.random.default_rng(0)))


def switched(on: bool, fn: Callable[[], Any]) -> Any:
    wg.set_eager_kernels(on)
    return fn()


def known() -> list[Any]:
    """The combinations of op and shapes that were met."""
    assert isinstance(kernels.kernels, eager.Programs)
    return list(kernels.kernels._known.values())


def programs() -> int:
    """How many programs there are."""
    return sum(entry.program is not None for entry in known())


def cast(value: Any, dtype: Any) -> Any:
    a = np.asarray(value)
    return a.astype(dtype) if a.dtype.kind == "f" else a


def results(op: Op, args: list[Any], attrs: Any, backward: bool) -> list[np.ndarray]:
    """The results of an op, and the gradients of a weighted sum of them in all that can have one."""
    floats = [np.asarray(a).dtype.kind == "f" for a in args]
    tensors = [wg.tensor(a, requires_grad=f and backward) for a, f in zip(args, floats)]
    outs = op.front(*tensors, **attrs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    found = [np.asarray(o.detach()) for o in outs]
    if backward:
        rng = np.random.default_rng(1)
        weights = [wg.asarray(rng.normal(size=o.shape), dtype=o.dtype) for o in outs]
        tracked = [(o, w) for o, w in zip(outs, weights) if o.requires_grad]
        if tracked:
            wg.autograd.backward([o for o, _ in tracked], [w for _, w in tracked])
        found += [np.asarray(t.grad) for t in tensors if t.grad is not None]
    return found


def of_both_precisions() -> Iterator[Any]:
    """The ops in one precision and the other, in turn; in both of them for the slow tests."""
    for turn, op in enumerate(OPS):
        for k, dtype in enumerate((np.float32, np.float64)):
            marks = pytest.mark.slow if (turn + k) % 2 else ()
            yield pytest.param(op, dtype, marks=marks, id=f"{op.name}-{np.dtype(dtype)}")


@pytest.mark.parametrize(("op", "dtype"), list(of_both_precisions()))
def test_results_and_gradients_are_those_of_numpy(op: Op, dtype: Any) -> None:
    for call in calls(op):
        args = [cast(a, dtype) for a in call.args]
        backward = op.differentiable and call.order > 0
        run = partial(results, op, args, call.attrs, backward)
        want, have = switched(False, run), switched(True, run)
        assert len(want) == len(have)
        for w, h in zip(want, have):
            assert (w.shape, w.dtype) == (h.shape, h.dtype)
            tolerance = BITS.get(w.dtype, 0)
            np.testing.assert_allclose(h, w, rtol=tolerance, atol=tolerance * (1 + np.abs(w).max(initial=0)))


FUSED = ["softmax", "log_softmax", "gelu", "silu", "softplus", "layer_norm", "rms_norm", "batch_norm", "cross_entropy",
         "attention", "linear", "mse", "huber", "binary_cross_entropy_logits", "elu", "convolve", "max_pool",
         "sum_pool"]  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_forward_and_backward_are_a_program_each(name: str) -> None:
    op = TABLE[name]
    call = calls(op)[0]
    args = [cast(a, np.float32) for a in call.args]
    wg.set_eager_kernels(True)
    results(op, args, call.attrs, True)
    assert programs() == 2
    results(op, args, call.attrs, True)
    assert programs() == 2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 1, 17)])
def test_shapes_without_many_elements(shape: tuple[int, ...]) -> None:
    def run() -> list[np.ndarray]:
        x = wg.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)
        y = wg.nn.functional.gelu(x) if not shape else wg.softmax(x)
        y.backward(wg.ones(shape, dtype=wg.float64))
        return [np.asarray(y.detach()), np.asarray(x.grad)]

    want = switched(False, run)
    for w, h in zip(want, switched(True, run)):
        np.testing.assert_allclose(h, w, rtol=1e-12, atol=1e-14)
    assert (programs() > 0) == (np.prod(shape) > 0)


SPECIAL = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-310, -1e300, 88.0, -746.0]


@pytest.mark.parametrize(
    "fn",
    [
        wg.nn.functional.gelu,
        wg.nn.functional.silu,
        wg.nn.functional.softplus,
        wg.nn.functional.elu,
        wg.nn.functional.selu,
        wg.nn.functional.leaky_relu,
        wg.nn.functional.mish,
        wg.softmax,
    ],
)
def test_special_values(fn: Callable[[wg.Tensor], wg.Tensor]) -> None:
    def run() -> list[np.ndarray]:
        x = wg.tensor(np.array(SPECIAL), requires_grad=True)
        y = fn(x)
        y.backward(wg.ones(len(SPECIAL), dtype=wg.float64))
        return [np.asarray(y.detach()), np.asarray(x.grad)]

    for want, have in zip(switched(False, run), switched(True, run)):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-14)


def strided(a: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "transposed": np.ascontiguousarray(a.T).T,
        "swapped": np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1),
        "repeated": np.broadcast_to(a[:1], a.shape),
        "one": np.broadcast_to(a[:1, :1, :1], a.shape),
        "every other": np.repeat(a, 2, axis=1)[:, ::2],
        "backwards": a[::-1],
        "misaligned": np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
    }


@pytest.mark.parametrize("how", list(strided(np.zeros((1, 1, 1)))))
def test_arrays_lie_in_any_order(how: str) -> None:
    x = strided(np.random.default_rng(0).normal(size=(4, 3, 5)))[how]
    op = TABLE["softmax"]
    wg.set_eager_kernels(True)
    have = kernels.kernels.forward(op, [x], {"axis": -2})
    np.testing.assert_allclose(have, op.forward(x, axis=-2), rtol=1e-14)
    assert not np.shares_memory(have, x)


def test_gradients_that_a_sum_repeats() -> None:
    def run() -> np.ndarray:
        x = wg.tensor(np.linspace(-3, 3, 35).reshape(5, 7), requires_grad=True)
        (wg.nn.functional.gelu(x).sum() * 3.0).backward()
        return np.asarray(x.grad)

    np.testing.assert_allclose(switched(True, run), switched(False, run), rtol=1e-13)


def test_attributes_that_are_equal_are_not_the_same() -> None:
    wg.set_eager_kernels(True)
    for slope in (0.0, -0.0):
        wg.nn.functional.leaky_relu(wg.tensor([-1.0]), slope)
    assert programs() == 2


def test_errors_say_what_they_say_without_kernels() -> None:
    x, bad = wg.ones(3, 5), wg.tensor([0, 7, 1])

    def run() -> str:
        with pytest.raises(wg.RangeError) as e:
            wg.nn.functional.cross_entropy(x, bad)
        return str(e.value)

    assert switched(True, run) == switched(False, run)
    assert "target 7 at [1]" in run()
    assert __file__ in run()


def test_graphs_saved_values_and_further_derivatives_stay() -> None:
    def run() -> tuple[str, np.ndarray, np.ndarray]:
        x = wg.tensor(np.linspace(-1, 1, 6).reshape(2, 3), requires_grad=True)
        y = wg.nn.functional.layer_norm(wg.nn.functional.gelu(x), 3)
        (g,) = wg.autograd.grad((y * y * y).sum(), (x,), create_graph=True)
        (h,) = wg.autograd.grad((g * g).sum(), (x,), retain_graph=True)
        (again,) = wg.autograd.grad((g * g).sum(), (x,))
        assert np.array_equal(np.asarray(h), np.asarray(again))
        return str(wg.Graph.of(y)), np.asarray(g.detach()), np.asarray(h)

    want, have = switched(False, run), switched(True, run)
    assert want[0] == have[0]
    np.testing.assert_allclose(have[1], want[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(have[2], want[2], rtol=1e-9, atol=1e-9)


def test_a_checkpoint_computes_the_same_bits_again() -> None:
    wg.set_eager_kernels(True)
    x = wg.tensor(np.random.default_rng(0).normal(size=(7, 33)), requires_grad=True)

    def f(v: wg.Tensor) -> wg.Tensor:
        return wg.nn.functional.layer_norm(wg.softmax(wg.nn.functional.gelu(v)), 33).exp().sum()

    (want,) = wg.autograd.grad(f(x), (x,))
    (have,) = wg.autograd.grad(wg.checkpoint(f)(x), (x,))
    np.testing.assert_array_equal(np.asarray(have), np.asarray(want))


def test_rules_of_users_run_as_python() -> None:
    wg.set_eager_kernels(True)
    seen = []

    class Double(wg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: wg.Tensor) -> wg.Tensor:
            ctx.save_for_backward(x)
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: wg.Tensor) -> wg.Tensor:
            seen.append(float(g.sum()))
            return g * 2.0

    x = wg.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        Double.apply(x).sum().backward()
    assert seen == [2.0, 2.0]
    assert known() == []


def test_a_second_backward_pass_is_refused_as_before() -> None:
    wg.set_eager_kernels(True)
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    y = wg.softmax(x).sum()
    y.backward()
    with pytest.raises(wg.GradientError, match="a second time"):
        y.backward()


def test_hooks_see_gradients_and_masks_hide_what_does_not_flow() -> None:
    wg.set_eager_kernels(True)
    seen = []
    x = wg.tensor([-np.inf, 1.0, 2.0], requires_grad=True)
    y = wg.nn.functional.gelu(x)
    y.register_hook(lambda g: seen.append(np.asarray(g).tolist()))
    wg.where(wg.tensor([False, True, True]), y, 0.0).sum().backward()
    assert seen == [[0.0, 1.0, 1.0]]
    assert np.isfinite(np.asarray(x.grad)).all()


def test_transforms_inside_and_around() -> None:
    x = np.random.default_rng(0).normal(size=(4, 5))

    def run() -> list[np.ndarray]:
        def loss(v: Any) -> Any:
            return (wg.softmax(v) * v).sum()

        found = [
            wg.vmap(wg.grad(loss))(wg.tensor(x)),
            wg.jvp(loss, (wg.tensor(x),), (wg.tensor(x),))[1],
            wg.hessian(loss)(wg.tensor(x[0])),
            wg.grad(lambda v: wg.checkpoint(loss)(v))(wg.tensor(x)),
            wg.jit(wg.grad(loss))(wg.tensor(x)),
        ]
        return [np.asarray(f) for f in found]

    for want, have in zip(switched(False, run), switched(True, run)):
        np.testing.assert_allclose(have, want, rtol=1e-11, atol=1e-13)


def test_what_watches_the_engines_sees_composites() -> None:
    wg.set_eager_kernels(True)
    x = wg.tensor([1.0, np.inf], requires_grad=True)
    wg.softmax(x)

    assert "softmax" in str(wg.explain.nonfinite(lambda: wg.softmax(x)))
    assert programs() == 1


def test_half_precision_and_integers_stay_with_numpy() -> None:
    wg.set_eager_kernels(True)
    wg.softmax(wg.ones(3, dtype=wg.float16))
    wg.softmax(wg.ones(3, dtype=wg.bfloat16))
    assert programs() == 0


def test_a_kernel_that_cannot_be_made_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: wg.Graph) -> Any:
        raise RuntimeError("no such instruction")

    wg.set_eager_kernels(True)
    monkeypatch.setattr(eager, "compile_graph", broken)
    with pytest.warns(RuntimeWarning, match="no such instruction"):
        assert np.asarray(wg.softmax(wg.zeros(2))).tolist() == [0.5, 0.5]
    assert np.asarray(wg.softmax(wg.zeros(2))).tolist() == [0.5, 0.5]


def test_what_draws_stays_with_numpy() -> None:
    wg.set_eager_kernels(True)
    wg.nn.functional.dropout(wg.ones(100), 0.5)
    assert known() == []


def test_a_program_is_bought_when_as_much_was_spent() -> None:
    x = wg.ones(100)
    kernels.kernels = rented = eager.Programs(3 * kernels.price([x._array]))
    counts = []
    for _ in range(4):
        wg.softmax(x)
        counts.append(programs())
    assert counts == [0, 0, 1, 1]
    assert kernels.kernels is rented


def test_known_combinations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "MOST_KNOWN", 4)
    wg.set_eager_kernels(True)
    for n in range(1, 12):
        np.testing.assert_allclose(np.asarray(wg.softmax(wg.ones(n))), np.full(n, 1 / n), rtol=1e-6)
    assert len(known()) == 4


def test_threads_compute_at_once() -> None:
    wg.set_eager_kernels(True)
    data = [np.random.default_rng(i).normal(size=(8, 64)) for i in range(4)]
    want = [TABLE["softmax"].forward(d, axis=-1) for d in data]
    wrong = []

    def work(i: int) -> None:
        for _ in range(50):
            if not np.allclose(np.asarray(wg.softmax(wg.tensor(data[i]))), want[i], rtol=1e-12):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_the_switch_takes_three_settings() -> None:
    wg.set_eager_kernels(False)
    assert isinstance(kernels.kernels, kernels.Off)
    wg.set_eager_kernels(None)
    assert isinstance(kernels.kernels, kernels.Rented)
    with pytest.raises(WengertError, match="set_eager_kernels"):
        wg.set_eager_kernels("yes")  # type: ignore[arg-type]


def run_python(code: str, setting: str = "") -> str:
    env = {**os.environ, "WENGERT_EAGER_KERNELS": setting}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


SCRIPT = """
import sys, wengert as wg
from wengert.core.ops import kernels
x = wg.ones(1000, 1000)
for _ in range({n}):
    wg.softmax(x)
print(type(kernels.kernels).__name__, "llvmlite.binding" in sys.modules)
"""


def test_a_short_script_does_not_load_llvm() -> None:
    assert run_python(SCRIPT.format(n=3)) == "Rented False"


def test_a_longer_script_does() -> None:
    assert run_python(SCRIPT.format(n=120)) == "Programs True"


def test_the_environment_switches_it_off() -> None:
    assert run_python(SCRIPT.format(n=120), "0") == "Off False"


CONVOLVED = {
    "plain": ((4, 3, 8, 8), (5, 3, 3, 3), {}),
    "strided": ((4, 3, 9, 8), (6, 3, 3, 2), {"stride": 2, "padding": (1, 0)}),
    "grouped": ((2, 4, 7, 7), (4, 2, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}),
    "depthwise": ((2, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "padding": "same"}),
    "one image": ((3, 8, 8), (5, 3, 1, 1), {}),
    "channels last": ((4, 8, 8, 3), (5, 3, 3, 3), {}),
    "every other": ((4, 3, 16, 8), (5, 3, 3, 3), {}),
}


@pytest.mark.parametrize("how", list(CONVOLVED))
def test_convolutions_and_their_gradients_are_a_program_each(how: str) -> None:
    shape, kernel, options = CONVOLVED[how]
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape), rng.normal(size=kernel)
    x = x.transpose(0, 3, 1, 2) if how == "channels last" else x[:, :, ::2] if how == "every other" else x

    def run() -> list[np.ndarray]:
        tensors = [wg.asarray(x, copy=False).requires_grad_(), wg.tensor(w, requires_grad=True)]
        y = wg.nn.functional.conv2d(*tensors, **options)
        (y * y).sum().backward()
        return [y.detach().numpy(), *(np.asarray(t.grad) for t in tensors)]

    want = switched(False, run)
    for w_, h in zip(want, switched(True, run), strict=True):
        np.testing.assert_allclose(h, w_, rtol=1e-11, atol=1e-11)
    assert programs() == 2  # forward, and both gradients at once


def test_pools_pass_on_nan_and_what_ties() -> None:
    x = np.array([[[0.0, np.nan, 2.0, 2.0], [1.0, 1.0, -np.inf, 2.0]]])

    def run() -> list[np.ndarray]:
        t = wg.tensor(x, requires_grad=True)
        y = wg.nn.functional.max_pool2d(t, 2, 1)
        y.backward(wg.ones(y.shape, dtype=y.dtype))
        return [y.detach().numpy(), np.asarray(t.grad)]

    want = switched(False, run)
    for w, h in zip(want, switched(True, run), strict=True):
        np.testing.assert_array_equal(h, w)
    assert programs() == 2


def test_shapes_that_do_not_fit_are_errors_and_no_warnings() -> None:
    wg.set_eager_kernels(True)
    with pytest.raises(wg.ShapeError, match="channels"):
        wg.nn.functional.conv2d(wg.ones(1, 2, 4, 4), wg.ones(1, 3, 2, 2))
    with pytest.raises(wg.ShapeError, match="max_pool2d"):
        wg.nn.functional.max_pool2d(wg.ones(1, 2, 2), 4)


def test_second_derivatives_of_convolutions_are_recorded() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 2, 5, 5)), rng.normal(size=(3, 2, 3, 3))

    def run() -> np.ndarray:
        a, b = wg.tensor(x, requires_grad=True), wg.tensor(w, requires_grad=True)
        (g,) = wg.autograd.grad((wg.nn.functional.conv2d(a, b) ** 3).sum(), [a], create_graph=True)
        (g * g).sum().backward()
        return np.asarray(b.grad)

    np.testing.assert_allclose(switched(True, run), switched(False, run), rtol=1e-10)


def test_derivatives_of_large_products_are_numpys() -> None:
    wg.set_eager_kernels(True)
    x, w = wg.ones((300, 200), requires_grad=True), wg.ones((100, 200), requires_grad=True)
    wg.nn.functional.linear(x, w).sum().backward()
    assert programs() == 1  # the forward pass: the derivative has as many multiplications as pay for BLAS
    assert x.grad is not None
    assert w.grad is not None
    assert (np.asarray(x.grad) == 100).all()
    assert (np.asarray(w.grad) == 300).all()


@pytest.mark.parametrize("name", ["lstm_gates", "gru_gates"])
def test_gates_that_do_not_fit_are_refused(name: str) -> None:
    with pytest.raises(wg.ShapeError, match="of the state's size"):
        TABLE[name].front(wg.ones((2, 12)), wg.ones((2, 12)), wg.ones((2, 5)))
    with pytest.raises(wg.ShapeError, match="of the state's size"):
        wg.graph(TABLE[name].front)(wg.ones((2, 12)), wg.ones((1, 12)), wg.ones((2, 3)))
