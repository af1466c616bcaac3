"""Composites against numbers that PyTorch 2.13 gave, in half precision, to third order, and refusing what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wengert as wg

INF = math.inf


def grid(*shape: int) -> np.ndarray:
    n = math.prod(shape)
    return (np.sin(np.arange(n) * 1.7 + len(shape)) * 2).reshape(shape)


def double(value) -> wg.Tensor:
    return wg.tensor(np.asarray(value, np.float64))


W = double([0.5, 2.0, 1.0, 0.25])
P = double([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.0, 0.5, 0.5, 0.0]])
M = wg.tensor([[True, False, True], [False, False, False]])
IMAGE = wg.tensor([[0, 1, 2], [3, 3, 0]])

# The result weighted by cos(0), cos(1), ..., and its gradient by cos(0), cos(0.5), ...
PEERS = [
    (
        (3, 4),
        lambda x: wg.nn.functional.cross_entropy(x, [0, 3, 1], weight=W, label_smoothing=0.1),
        3.23678356203,
        0.404485915766,
    ),
    (
        (3, 4),
        lambda x: wg.nn.functional.cross_entropy(x, [0, -100, 1], reduction="sum", label_smoothing=0.2),
        4.74682123314,
        0.321651917556,
    ),
    (
        (3, 4),
        lambda x: wg.nn.functional.cross_entropy(x, P, weight=W, label_smoothing=0.1),
        3.14320090759,
        0.19919011862,
    ),
    ((2, 4, 3), lambda x: wg.nn.functional.cross_entropy(x, IMAGE, weight=W), 2.36158259348, 0.180690965875),
    (
        (3, 4),
        lambda x: wg.nn.functional.nll_loss(x, [2, 0, 1], weight=W, ignore_index=0),
        1.8482088998,
        -0.0395702356689,
    ),
    ((3, 4), lambda x: wg.nn.functional.kl_div(x, P, reduction="batchmean"), -0.972898101364, 0.0205755959017),
    ((3, 4), lambda x: wg.nn.functional.kl_div(x, wg.log(P + 0.1), log_target=True), -0.316152875057, 0.00953744086791),
    (
        (3, 4),
        lambda x: wg.nn.functional.binary_cross_entropy_with_logits(x, P, weight=W, pos_weight=W),
        0.968383823232,
        0.0106216195162,
    ),
    (
        (3, 4),
        lambda x: wg.nn.functional.binary_cross_entropy(x / 5 + 0.5, P, weight=W),
        0.738559306041,
        0.0465623404202,
    ),
    ((3, 4), lambda x: wg.nn.functional.huber_loss(x, P, delta=0.7), 0.69375504441, 0.0504759137877),
    ((3, 4), lambda x: wg.nn.functional.smooth_l1_loss(x, P, beta=0.7, reduction="sum"), 11.8929436185, 0.865301379218),
    ((3, 4), lambda x: wg.nn.functional.layer_norm(x, 4, W, W + 1), 0.417034918052, -0.146409371667),
    ((3, 4), lambda x: wg.nn.functional.rms_norm(x, 4, W, 1e-3), 1.29531679288, -0.589377403238),
    ((2, 4, 2), lambda x: wg.nn.functional.group_norm(x, 2, W, W + 1), -7.36634009677, 0.91652698219),
    ((3, 4), lambda x: wg.nn.functional.batch_norm(x, None, None, W, W + 1, True), 2.67913013833, -4.34844008783),
    ((3, 4), lambda x: wg.nn.functional.batch_norm(x, W, W + 1, W, W + 1), 0.62313462396, -0.107261404555),
    (
        (2, 3),
        lambda x: wg.nn.functional.scaled_dot_product_attention(x, double(grid(3, 3)), double(grid(3, 2)), M),
        1.24368562023,
        -0.00143422032297,
    ),
    (
        (3, 3),
        lambda x: wg.nn.functional.scaled_dot_product_attention(x, x * 0.5, x, is_causal=True, scale=0.3),
        1.0315491055,
        0.0769235120986,
    ),
    ((3, 4), wg.nn.functional.gelu, 0.822515232828, 0.427023285989),
    ((3, 4), lambda x: wg.nn.functional.gelu(x, "tanh"), 0.822680307529, 0.427071308932),
    ((3, 4), wg.nn.functional.selu, 0.906058983796, -0.260494113837),
    ((3, 4), wg.nn.functional.mish, 0.803647584374, 0.291932766407),
    ((3, 4), lambda x: wg.nn.functional.celu(x, 0.6), 0.728242256572, 0.126937306372),
    ((3, 4), lambda x: wg.nn.functional.softplus(x, 1.5), 0.614505043311, 0.162919311388),
    ((3, 4), wg.nn.functional.hardswish, 0.825740617368, 0.196319791993),
    ((3, 4), lambda x: wg.nn.functional.glu(x, 1), 0.643338011278, 1.51348774717),
    ((3, 4), lambda x: wg.nn.functional.cosine_similarity(x, P, 1), 0.42723288857, 0.0977007120498),
    ((3, 4), lambda x: wg.nn.functional.normalize(x, dim=0), 0.570940528325, -0.433685046358),
]


@pytest.mark.parametrize(("shape", "fn", "value", "slope"), PEERS)
def test_value_and_gradient_are_pytorchs(shape, fn, value: float, slope: float) -> None:
    x = wg.tensor(grid(*shape), requires_grad=True)
    y = fn(x)
    total = (y * double(np.cos(np.arange(y.size))).reshape(y.shape)).sum()
    assert total.item() == pytest.approx(value, rel=1e-9)
    total.backward()
    found = float((np.asarray(x.grad) * np.cos(np.arange(x.size) * 0.5).reshape(shape)).sum())
    assert found == pytest.approx(slope, rel=1e-8, abs=1e-11)


# -- to third order


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (wg.softmax, [(4,)]),
        (wg.log_softmax, [(4,)]),
        (wg.nn.functional.gelu, [(3,)]),
        (lambda x: wg.nn.functional.gelu(x, "tanh"), [(3,)]),
        (wg.nn.functional.silu, [(3,)]),
        (wg.nn.functional.softplus, [(3,)]),
        (wg.nn.functional.elu, [(4,)]),
        (wg.nn.functional.linear, [(2, 3), (2, 3), (2,)]),
        (lambda x, w, b: wg.nn.functional.layer_norm(x, 3, w, b), [(2, 3), (3,), (3,)]),
        (lambda x, w: wg.nn.functional.rms_norm(x, 3, w), [(2, 3), (3,)]),
        (lambda x, w, b: wg.nn.functional.batch_norm(x, None, None, w, b, True), [(3, 2), (2,), (2,)]),
        (lambda x: wg.nn.functional.cross_entropy(x, [0, 2], label_smoothing=0.1), [(2, 3)]),
        (wg.nn.functional.mse_loss, [(3,), (3,)]),
        (wg.nn.functional.binary_cross_entropy_with_logits, [(3,), (3,)]),
        (
            lambda q, k, v: wg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
            [(2, 2), (2, 2), (2, 2)],
        ),
    ],
)
def test_third_order(fn, shapes) -> None:
    rng = np.random.default_rng(5)
    wg.check_grads(fn, [double(rng.normal(size=s)) for s in shapes], order=3, max_elements=4)


# -- narrow dtypes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "fn",
    [
        wg.softmax,
        wg.log_softmax,
        wg.nn.functional.gelu,
        wg.nn.functional.silu,
        wg.nn.functional.elu,
        wg.nn.functional.leaky_relu,
        wg.nn.functional.hardtanh,
        lambda x: wg.nn.functional.linear(x, x),
        lambda x: wg.nn.functional.layer_norm(x, 4),
        lambda x: wg.nn.functional.rms_norm(x, 4),
        lambda x: wg.nn.functional.batch_norm(x, None, None, training=True),
        lambda x: wg.nn.functional.group_norm(x, 2),
        lambda x: wg.nn.functional.cross_entropy(x, [0, 1, 2]),
        lambda x: wg.nn.functional.mse_loss(x, x * 0.5),
        lambda x: wg.nn.functional.huber_loss(x, x * 0.25),
        lambda x: wg.nn.functional.binary_cross_entropy_with_logits(x, x * 0),
        lambda x: wg.nn.functional.scaled_dot_product_attention(x, x, x),
        lambda x: wg.nn.functional.dropout(x, 0.5),
    ],
)
def test_half_precision_keeps_its_dtype(fn, dtype: str) -> None:
    exact = grid(3, 4)
    x = wg.tensor(exact).astype(dtype).requires_grad_()
    wg.manual_seed(0)
    y = fn(x)
    assert y.dtype.name == dtype
    y.sum().backward()
    assert x.grad.dtype.name == dtype
    wide = wg.tensor(np.asarray(x.detach().astype(wg.float64)), requires_grad=True)
    wg.manual_seed(0)
    fn(wide).sum().backward()
    tolerance = 1e-2 if dtype == "float16" else 8e-2
    np.testing.assert_allclose(
        np.asarray(x.grad.astype(wg.float64)), np.asarray(wide.grad), rtol=tolerance, atol=tolerance
    )


def test_norms_of_numbers_whose_squares_overflow_half_precision() -> None:
    x = wg.tensor([[1000.0, -1000.0, 3000.0, 500.0]]).astype(wg.float16)
    for norm in (wg.nn.functional.layer_norm, wg.nn.functional.rms_norm):
        exact = norm(x.astype(wg.float64), 4)
        np.testing.assert_allclose(np.asarray(norm(x, 4), float), np.asarray(exact), rtol=2e-3)


def test_gelu_in_float32_is_right_far_to_the_left() -> None:
    x = np.linspace(-5, 5, 20001).astype(np.float32)  # more than one block
    exact = [v * 0.5 * math.erfc(-v / math.sqrt(2)) for v in x.tolist()]
    np.testing.assert_allclose(np.asarray(wg.nn.functional.gelu(wg.tensor(x))), exact, rtol=2e-6, atol=1e-30)
    assert wg.nn.functional.gelu(wg.tensor([INF, -INF])).tolist() == [INF, 0.0]


def test_fused_kernels_run_the_same_in_blocks() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(700, 130)), rng.normal(size=130)
    scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    t, u = wg.tensor(x, requires_grad=True), wg.tensor(w, requires_grad=True)
    y = wg.nn.functional.layer_norm(t, 130, u)
    np.testing.assert_allclose(np.asarray(y.detach()), scaled * w, rtol=1e-10, atol=1e-12)
    (y * wg.tensor(x)).sum().backward()
    np.testing.assert_allclose(np.asarray(u.grad), (x * scaled).sum(0), rtol=1e-9)
    back = wg.nn.functional.batch_norm(wg.tensor(x.reshape(700, 13, 10)), None, None, training=True)
    cube = x.reshape(700, 13, 10)
    expected = (cube - cube.mean((0, 2), keepdims=True)) / np.sqrt(cube.var((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(np.asarray(back), expected, rtol=1e-9, atol=1e-11)


# -- where nothing flows


def test_no_gradient_flows_back_through_what_was_not_chosen() -> None:
    for fn in (
        wg.nn.functional.elu,
        wg.nn.functional.gelu,
        wg.nn.functional.silu,
        wg.nn.functional.leaky_relu,
        wg.nn.functional.hardtanh,
        wg.nn.functional.softplus,
    ):
        x = wg.tensor([0.0, 1.5], requires_grad=True)
        wg.where(x > 0, fn(wg.log(x)), 0.0).sum().backward()
        assert x.grad[0].item() == 0.0, fn
        assert math.isfinite(x.grad[1].item())


def test_ramps_are_flat_at_their_corners() -> None:
    x = wg.tensor([-1.0, 1.0, 0.5], requires_grad=True)
    wg.nn.functional.hardtanh(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]
    x = wg.tensor([0.0, 6.0, 3.0], requires_grad=True)
    wg.nn.functional.relu6(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 1.0]


def test_a_query_without_keys_gets_zeros_and_passes_nothing_on() -> None:
    q, k, v = (wg.tensor(grid(2, 3), requires_grad=True) for _ in range(3))
    mask = wg.tensor([[True, True], [False, False]])
    out = wg.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    assert out[1].tolist() == [0.0, 0.0, 0.0]
    out.sum().backward()
    assert q.grad[1].tolist() == [0.0, 0.0, 0.0]
    for t in (q, k, v):
        assert np.isfinite(np.asarray(t.grad)).all()


def test_targets_that_do_not_count_get_no_gradient() -> None:
    x = wg.tensor([[INF, 0.0], [1.0, 2.0]], requires_grad=True)
    loss = wg.nn.functional.cross_entropy(x, [-100, 1])
    assert loss.item() == pytest.approx(math.log1p(math.exp(-1.0)))
    loss.backward()
    assert x.grad[0].tolist() == [0.0, 0.0]


# -- values at the edges


def test_empty_batches() -> None:
    x = wg.zeros((0, 4), requires_grad=True)
    w = wg.ones((3, 4), requires_grad=True)
    for y in (
        wg.softmax(x),
        wg.nn.functional.layer_norm(x, 4),
        wg.nn.functional.rms_norm(x, 4),
        wg.nn.functional.gelu(x),
        wg.nn.functional.linear(x, w),
        wg.nn.functional.dropout(x),
        wg.nn.functional.batch_norm(x, None, None),
        wg.nn.functional.group_norm(x, 2),
        wg.nn.functional.scaled_dot_product_attention(x, w, w),
    ):
        assert y.shape[0] == 0
        y.sum().backward()
    assert w.grad.tolist() == np.zeros((3, 4)).tolist()
    keyless = wg.nn.functional.scaled_dot_product_attention(wg.ones((2, 4)), wg.zeros((0, 4)), wg.zeros((0, 3)))
    assert keyless.tolist() == np.zeros((2, 3)).tolist()
    for loss in (
        wg.nn.functional.mse_loss,
        wg.nn.functional.l1_loss,
        wg.nn.functional.huber_loss,
        wg.nn.functional.binary_cross_entropy_with_logits,
    ):
        assert math.isnan(loss(x, x).item())
        assert loss(x, x, reduction="sum").item() == 0.0


def test_probabilities_of_zero_and_one() -> None:
    p = wg.tensor([0.0, 1.0, 0.0], dtype=wg.float64, requires_grad=True)
    loss = wg.nn.functional.binary_cross_entropy(p, double([0.0, 1.0, 1.0]), reduction="sum")
    assert loss.item() == 100.0
    loss.backward()
    assert p.grad.tolist() == [0.0, 0.0, -1e12]


def test_one_hot_targets_equal_class_indices() -> None:
    x = double(grid(3, 4))
    for options in ({}, {"label_smoothing": 0.3}, {"reduction": "sum"}, {"reduction": "none"}):
        by_class = wg.nn.functional.cross_entropy(x, [1, 0, 3], **options)
        by_share = wg.nn.functional.cross_entropy(x, double(np.eye(4)[[1, 0, 3]]), **options)
        np.testing.assert_allclose(np.asarray(by_class), np.asarray(by_share), rtol=1e-12)


def test_reductions_agree() -> None:
    x, y = double(grid(3, 4)), double(grid(4, 3).reshape(3, 4) * 0.3)
    for loss in (
        wg.nn.functional.mse_loss,
        wg.nn.functional.l1_loss,
        wg.nn.functional.huber_loss,
        wg.nn.functional.smooth_l1_loss,
        wg.nn.functional.binary_cross_entropy_with_logits,
    ):
        each = np.asarray(loss(x, y, reduction="none"))
        assert each.shape == (3, 4)
        assert loss(x, y).item() == pytest.approx(each.mean(), rel=1e-12)
        assert loss(x, y, reduction="sum").item() == pytest.approx(each.sum(), rel=1e-12)


def test_non_contiguous_arguments() -> None:
    x = grid(4, 6)
    for fn in (
        wg.softmax,
        wg.nn.functional.gelu,
        lambda t: wg.nn.functional.layer_norm(t, 4),
        lambda t: wg.nn.functional.rms_norm(t, 4),
        lambda t: wg.nn.functional.linear(t, t),
    ):
        strided = fn(wg.tensor(x).T[::2])
        np.testing.assert_allclose(np.asarray(strided), np.asarray(fn(wg.tensor(x.T[::2].copy()))), rtol=1e-13)


def test_only_the_argument_is_kept_for_the_norms() -> None:
    x = wg.tensor(grid(3, 4), requires_grad=True)
    for y in (wg.nn.functional.layer_norm(x, 4), wg.nn.functional.rms_norm(x, 4)):
        assert [v is not None for v in y.grad_fn.saved] == [True, False]


# -- graphs


def test_norms_and_attention_are_one_node() -> None:
    spec = wg.spec((3, 4))
    for name, fn in (
        ("layer_norm", lambda x: wg.nn.functional.layer_norm(x, 4)),
        ("batch_norm_fixed", lambda x: wg.nn.functional.batch_norm(x, wg.zeros(4), wg.ones(4))),
        ("group_norm", lambda x: wg.nn.functional.group_norm(x, 2)),
        ("gelu", wg.nn.functional.gelu),
        ("softmax", wg.softmax),
    ):
        graph = wg.graph(fn)(spec)
        assert [n.op.name for n in graph.computations] == [name]
        x = wg.tensor(grid(3, 4).astype(np.float32))
        np.testing.assert_allclose(np.asarray(graph.expand()(x)), np.asarray(fn(x)), rtol=2e-5, atol=2e-6)


def test_a_class_that_does_not_exist_is_found_when_a_graph_runs() -> None:
    graph = wg.graph(lambda x, y: wg.nn.functional.cross_entropy(x, y))(wg.spec((2, 3)), wg.spec((2,), wg.int64))
    for wrong in (3, -1):
        with pytest.raises(wg.RangeError, match=f"target {wrong} at \\[1\\] is not one of 3 classes"):
            graph(wg.zeros((2, 3)), wg.tensor([0, wrong]))


# -- what is refused


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: wg.softmax(wg.zeros(3), 1), wg.ShapeError, "axis 1"),
        (lambda: wg.softmax(wg.zeros(3, dtype=wg.complex64)), wg.DTypeError, "c64[3]"),
        (lambda: wg.nn.functional.dropout(wg.zeros(3), math.nan), wg.RangeError, "nan"),
        (lambda: wg.nn.functional.dropout(wg.zeros(3), "half"), wg.DTypeError, "'half'"),
        (
            lambda: wg.nn.functional.linear(wg.zeros(3), wg.zeros((2, 3)), wg.zeros(3)),
            wg.ShapeError,
            "f32[3] for 2 outputs",
        ),
        (lambda: wg.nn.functional.layer_norm(wg.zeros((2, 3)), 3, wg.ones(2)), wg.ShapeError, "weight of shape (2,)"),
        (lambda: wg.nn.functional.layer_norm(wg.zeros((2, 3)), ()), wg.ShapeError, "layer_norm over ()"),
        (lambda: wg.nn.functional.batch_norm(wg.zeros(3), None, None), wg.ShapeError, "f32[3]"),
        (
            lambda: wg.nn.functional.batch_norm(wg.zeros((2, 3)), wg.zeros(2), wg.ones(2)),
            wg.ShapeError,
            "f32[2] for 3 channels",
        ),
        (lambda: wg.nn.functional.group_norm(wg.zeros((2, 3)), 2), wg.ShapeError, "3 channels"),
        (lambda: wg.nn.functional.cosine_similarity(wg.zeros(3), wg.zeros(2), 0), wg.ShapeError, "f32[3] and f32[2]"),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros(()), wg.tensor(0)), wg.ShapeError, "f32[]"),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), [0, 1], wg.ones(2)), wg.ShapeError, "for 3 classes"),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), [0, 1], label_smoothing=2.0), wg.RangeError, "2.0"),
        (lambda: wg.nn.functional.cross_entropy(wg.zeros((2, 3)), wg.zeros((2, 2))), wg.ShapeError, "(2, 2) float32"),
        (lambda: wg.nn.functional.nll_loss(wg.zeros((2, 3)), [0, 7]), wg.RangeError, "target 7 at [1] is not one of 3"),
        (lambda: wg.nn.functional.huber_loss(wg.zeros(2), wg.zeros(2), delta=0.0), wg.RangeError, "delta=0.0"),
        (lambda: wg.nn.functional.smooth_l1_loss(wg.zeros(2), wg.zeros(2), beta=-1.0), wg.RangeError, "beta=-1.0"),
        (lambda: wg.nn.functional.binary_cross_entropy(wg.tensor([1.5]), wg.zeros(1)), wg.ShapeError, "outside 0..1"),
        (lambda: wg.nn.functional.kl_div(wg.zeros(2), wg.zeros(2), reduction="average"), wg.RangeError, "'average'"),
        (lambda: wg.nn.functional.glu(wg.zeros(3)), wg.ShapeError, "odd size 3"),
        (lambda: wg.nn.functional.prelu(wg.zeros((2, 3)), wg.zeros(2)), wg.ShapeError, "f32[2]"),
        (lambda: wg.nn.functional.hardtanh(wg.zeros(2), 1.0, -1.0), wg.RangeError, "above"),
        (
            lambda: wg.nn.functional.scaled_dot_product_attention(wg.zeros((2, 3)), wg.zeros((2, 4)), wg.zeros((2, 4))),
            wg.ShapeError,
            "query (2, 3) float32",
        ),
        (
            lambda: wg.nn.functional.scaled_dot_product_attention(
                *[wg.zeros((2, 3))] * 3, wg.ones((2, 2), dtype=wg.int64)
            ),
            wg.DTypeError,
            "int64",
        ),
        (
            lambda: wg.nn.functional.scaled_dot_product_attention(*[wg.zeros((2, 3))] * 3, wg.zeros((3, 3))),
            wg.ShapeError,
            "(3, 3) for scores of shape (2, 2)",
        ),
    ],
)
def test_what_is_refused(call, kind, words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    first = str(caught.value).split("\n")[0]
    assert words in first
    assert "test_composites_peers.py" in first
