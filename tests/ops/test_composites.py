"""Composites where formulas break: extreme logits, masks, half precision, running statistics, wrong targets."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wengert as wg

INF = float("inf")


def double(*values: float) -> wg.Tensor:
    return wg.tensor(list(values), dtype=wg.float64)


def test_softmax_of_extremes() -> None:
    assert wg.softmax(double(1e4, 1e4, -1e4)).tolist() == [0.5, 0.5, 0.0]
    assert wg.softmax(double(0.0, -INF)).tolist() == [1.0, 0.0]
    assert np.isnan(wg.softmax(double(-INF, -INF)).tolist()).all()
    assert wg.softmax(wg.zeros((0, 3))).shape == (0, 3)


def test_log_softmax_keeps_what_softmax_loses() -> None:
    assert wg.log_softmax(double(0.0, -5000.0)).tolist() == [0.0, -5000.0]


def test_softmax_in_half_precision_sums_in_single() -> None:
    x = wg.zeros(4096, dtype=wg.float16)
    out = wg.softmax(x)
    assert out.dtype == wg.float16
    assert float(np.asarray(out, np.float64).sum()) == pytest.approx(1.0, rel=1e-3)


def test_cross_entropy_of_extremes() -> None:
    logits = wg.tensor([[1e4, 0.0], [0.0, 1e4]], dtype=wg.float64, requires_grad=True)
    loss = wg.nn.functional.cross_entropy(logits, wg.tensor([0, 0]))
    assert loss.item() == 5000.0
    loss.backward()
    assert logits.grad.tolist() == [[0.0, 0.0], [-0.5, 0.5]]


def test_cross_entropy_by_hand() -> None:
    logits = np.array([[1.0, 2.0, 0.5], [0.1, -1.0, 3.0], [0.0, 0.0, 0.0]])
    target = np.array([1, 2, 0])
    weight = np.array([1.0, 2.0, 0.5])
    scores = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    terms = -scores[np.arange(3), target]
    got = wg.nn.functional.cross_entropy(wg.tensor(logits), wg.tensor(target), reduction="none")
    np.testing.assert_allclose(np.asarray(got), terms)
    got = wg.nn.functional.cross_entropy(wg.tensor(logits), wg.tensor(target), weight=wg.tensor(weight))
    assert got.item() == pytest.approx((terms * weight[target]).sum() / weight[target].sum())
    got = wg.nn.functional.cross_entropy(wg.tensor(logits), wg.tensor([1, -100, 0]))
    assert got.item() == pytest.approx((terms[0] + terms[2]) / 2)
    smooth = 0.9 * terms + 0.1 * -scores.mean(1)
    got = wg.nn.functional.cross_entropy(wg.tensor(logits), wg.tensor(target), label_smoothing=0.1)
    assert got.item() == pytest.approx(smooth.mean())
    onehot = np.eye(3)[target]
    got = wg.nn.functional.cross_entropy(wg.tensor(logits), wg.tensor(onehot))
    assert got.item() == pytest.approx(terms.mean())


def test_cross_entropy_of_images_has_classes_on_axis_1() -> None:
    rng = np.random.default_rng(0)
    logits, target = rng.normal(size=(2, 3, 4, 5)), rng.integers(0, 3, (2, 4, 5))
    flat = wg.nn.functional.cross_entropy(
        wg.tensor(np.moveaxis(logits, 1, -1).reshape(-1, 3)), wg.tensor(target.reshape(-1))
    )
    assert wg.nn.functional.cross_entropy(wg.tensor(logits), wg.tensor(target)).item() == pytest.approx(flat.item())


def test_mean_over_no_targets_is_nan() -> None:
    assert np.isnan(wg.nn.functional.cross_entropy(wg.zeros((0, 3)), wg.zeros((0,), dtype=wg.int64)).item())
    assert np.isnan(wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.tensor([-100, -100])).item())
    assert np.isnan(wg.nn.functional.mse_loss(wg.zeros((0,)), wg.zeros((0,))).item())


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.tensor([0, 3])),
            wg.RangeError,
            "target 3 at [1] is not one of 3",
        ),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.tensor([0, -1])), wg.RangeError, "target -1"),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.tensor([[0, 1]])), wg.ShapeError, "(1, 2)"),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.tensor([True, False])), wg.DTypeError, "bool"),
        (
            lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.tensor([0, 1]), reduction="avg"),
            wg.RangeError,
            "'avg'",
        ),
        (lambda: wg.nn.functional.mse_loss(wg.zeros(3), wg.zeros((3, 1))), wg.ShapeError, "(3, 1)"),
        (lambda: wg.nn.functional.dropout(wg.zeros(3), 1.5), wg.RangeError, "1.5"),
        (lambda: wg.nn.functional.linear(wg.zeros((2, 3)), wg.zeros((4, 5))), wg.ShapeError, "(4, 5)"),
        (lambda: wg.nn.functional.layer_norm(wg.zeros((2, 3)), 4), wg.ShapeError, "(4,)"),
        (
            lambda: wg.nn.functional.scaled_dot_product_attention(*[wg.zeros((2, 3))] * 2, wg.zeros((4, 3))),
            wg.ShapeError,
            "(4, 3)",
        ),
        (lambda: wg.nn.functional.gelu(wg.zeros(3), "erf"), wg.RangeError, "'erf'"),
        (lambda: wg.nn.functional.batch_norm(wg.zeros((1, 3)), None, None, training=True), wg.ShapeError, "one value"),
    ],
)
def test_what_is_refused(call, kind, words) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value).split("\n")[0]


def test_binary_cross_entropy_of_extremes() -> None:
    x = wg.tensor([1e4, -1e4, 0.0], dtype=wg.float64, requires_grad=True)
    loss = wg.nn.functional.binary_cross_entropy_with_logits(x, double(1.0, 1.0, 0.5), reduction="sum")
    assert loss.item() == pytest.approx(1e4 + math.log(2))
    loss.backward()
    assert x.grad.tolist() == [0.0, -1.0, 0.0]


def test_softplus_and_gelu_far_out() -> None:
    assert wg.nn.functional.softplus(double(800.0, -800.0)).tolist() == [800.0, 0.0]
    left = wg.nn.functional.gelu(double(-10.0)).item()
    assert left == pytest.approx(-10 * 0.5 * math.erfc(10 / math.sqrt(2)), rel=1e-12)
    assert wg.nn.functional.elu(double(1000.0, -1000.0)).tolist() == [1000.0, -1.0]
    x = wg.tensor([1000.0, -1000.0], requires_grad=True)
    wg.nn.functional.elu(x).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_layer_norm_of_a_large_mean() -> None:
    x = wg.tensor([[1e6, 1e6 + 1, 1e6 + 2]], dtype=wg.float64)
    np.testing.assert_allclose(
        np.asarray(wg.nn.functional.layer_norm(x, 3, eps=0.0)), [[-(1.5**0.5), 0.0, 1.5**0.5]], rtol=1e-9
    )


def test_batch_norm_moves_its_statistics_by_the_unbiased_variance() -> None:
    x = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, 20.0]])
    mean, var = wg.tensor(np.zeros(2)), wg.tensor(np.ones(2))
    out = wg.nn.functional.batch_norm(wg.tensor(x), mean, var, training=True, momentum=0.5, eps=0.0)
    np.testing.assert_allclose(np.asarray(out), (x - x.mean(0)) / x.std(0))
    np.testing.assert_allclose(np.asarray(mean), x.mean(0) / 2)
    np.testing.assert_allclose(np.asarray(var), 0.5 + x.var(0, ddof=1) / 2)
    fixed = wg.nn.functional.batch_norm(wg.tensor(x), mean, var, eps=0.0)
    np.testing.assert_allclose(np.asarray(fixed), (x - np.asarray(mean)) / np.sqrt(np.asarray(var)))


@pytest.mark.parametrize("dtype", [np.float16, wg.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_fixed_batch_norm_of_half_precision_is_rounded_once(dtype, compiled: bool) -> None:
    rng = np.random.default_rng(2)
    x, mean, var, w, b = (rng.normal(size=s).astype(dtype) for s in ((40, 3), 3, 3, 3, 3))
    var = np.abs(var)
    f = lambda *args: wg.nn.functional.batch_norm(*args, eps=1e-5)
    found = (wg.jit(f) if compiled else f)(*(wg.tensor(a) for a in (x, mean, var, w, b))).numpy().astype(np.float64)
    x, mean, var, w, b = (a.astype(np.float64) for a in (x, mean, var, w, b))
    want = (x - mean) / np.sqrt(var + 1e-5) * w + b
    np.testing.assert_allclose(found, want, rtol=2.0**-11 if dtype is np.float16 else 2.0**-8, atol=2e-6)


def test_batch_norm_gradients() -> None:
    rng = np.random.default_rng(1)
    args = [wg.tensor(rng.normal(size=s)) for s in ((4, 2, 3), (2,), (2,))]
    wg.check_grads(lambda x, w, b: wg.nn.functional.batch_norm(x, None, None, w, b, training=True), args, order=2)


def test_dropout_draws_its_mask_again_in_the_backward_pass() -> None:
    wg.manual_seed(3)
    x = wg.ones(10_000, requires_grad=True)
    out = wg.nn.functional.dropout(x, 0.25)
    kept = np.asarray(out.detach()) != 0
    assert 0.73 < kept.mean() < 0.77
    np.testing.assert_allclose(np.asarray(out.detach())[kept], 1 / 0.75, rtol=1e-6)
    out.sum().backward()
    np.testing.assert_array_equal(np.asarray(x.grad) != 0, kept)
    assert all(v is None for v in out.grad_fn.saved or ())
    wg.manual_seed(3)
    np.testing.assert_array_equal(np.asarray(wg.nn.functional.dropout(x, 0.25).detach()) != 0, kept)


def test_dropout_off() -> None:
    x = wg.ones(3)
    assert wg.nn.functional.dropout(x, 0.5, training=False) is x
    assert wg.nn.functional.dropout(x, 1.0).tolist() == [0.0] * 3


def test_attention_sees_no_future() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (wg.tensor(rng.normal(size=(1, 2, 5, 4))) for _ in range(3))
    causal = np.asarray(wg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    np.testing.assert_allclose(causal[..., 0, :], np.asarray(v)[..., 0, :])
    mask = wg.tensor(np.tril(np.ones((5, 5), bool)))
    np.testing.assert_allclose(
        causal, np.asarray(wg.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    )
    later = np.asarray(v).copy()
    later[..., 3:, :] = 99.0
    changed = np.asarray(wg.nn.functional.scaled_dot_product_attention(q, k, wg.tensor(later), is_causal=True))
    np.testing.assert_array_equal(changed[..., :3, :], causal[..., :3, :])


def test_composites_are_one_node_and_open_up() -> None:
    graph = wg.graph(lambda x, y: wg.nn.functional.cross_entropy(x, y))(wg.spec((2, 3)), wg.spec((2,), wg.int64))
    assert [n.op.name for n in graph.computations] == ["cross_entropy"]
    opened = graph.expand()
    assert len(opened.computations) > 5
    x, y = wg.tensor([[0.1, 2.0, 0.3], [1.0, 0.0, 0.0]]), wg.tensor([1, 2])
    assert opened(x, y).item() == pytest.approx(graph(x, y).item(), rel=1e-6)
