"""Layers: forward against NumPy, gradients against differences, PyTorch's names and shapes, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.nn import functional as F

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.normal(size=shape)


def randomised(module):
    """The module in float64 with every parameter normal, so that no default hides a mistake."""
    module.double()
    for p in module.parameters():
        p.assign_(normal(*p.shape) * 0.5)
    return module


def arrays(module):
    return {k: v.numpy() for k, v in module.state_dict().items()}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def check_gradients(module, *inputs):
    """Gradients in the inputs and in every parameter against finite differences."""
    names = [n for n, _ in module.named_parameters()]
    params = [p.detach() for p in module.parameters()]

    def run(*values):
        for name, value in zip(names, values[len(inputs) :], strict=True):
            owner, _, leaf = name.rpartition(".")
            module.get_submodule(owner).__dict__[leaf] = value
        out = module(*values[: len(inputs)])
        parts = [p for o in (out if isinstance(out, tuple) else (out,)) for p in (o if isinstance(o, tuple) else (o,))]
        return sum((p * wg.tensor(np.cos(np.arange(p.size)).reshape(p.shape))).sum() for p in parts if p is not None)

    wg.check_grads(run, (*(wg.tensor(x) for x in inputs), *params), order=1)


# -- names, shapes, first values


LAYOUTS = [
    (lambda: nn.Linear(3, 5), {"weight": (5, 3), "bias": (5,)}),
    (lambda: nn.Linear(3, 5, bias=False), {"weight": (5, 3)}),
    (lambda: nn.Bilinear(2, 3, 4), {"weight": (4, 2, 3), "bias": (4,)}),
    (lambda: nn.Conv1d(4, 6, 3, groups=2), {"weight": (6, 2, 3), "bias": (6,)}),
    (lambda: nn.Conv2d(4, 6, (3, 5)), {"weight": (6, 4, 3, 5), "bias": (6,)}),
    (lambda: nn.ConvTranspose1d(4, 6, 3, groups=2), {"weight": (4, 3, 3), "bias": (6,)}),
    (lambda: nn.ConvTranspose2d(4, 6, 3, bias=False), {"weight": (4, 6, 3, 3)}),
    (lambda: nn.Embedding(7, 2), {"weight": (7, 2)}),
    (lambda: nn.LayerNorm((2, 3)), {"weight": (2, 3), "bias": (2, 3)}),
    (lambda: nn.RMSNorm(3), {"weight": (3,)}),
    (lambda: nn.GroupNorm(2, 4), {"weight": (4,), "bias": (4,)}),
    (
        lambda: nn.BatchNorm1d(3),
        {"weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,), "num_batches_tracked": ()},
    ),
    (lambda: nn.BatchNorm2d(3, affine=False, track_running_stats=False), {}),
    (lambda: nn.PReLU(4), {"weight": (4,)}),
    (
        lambda: nn.LSTM(3, 5, num_layers=2, bidirectional=True),
        {
            f"{kind}_l{layer}{d}": (20, *(() if "bias" in kind else ({0: 3, 1: 10}[layer],) if "ih" in kind else (5,)))
            for layer in (0, 1)
            for d in ("", "_reverse")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        },
    ),
    (lambda: nn.GRU(3, 5, bias=False), {"weight_ih_l0": (15, 3), "weight_hh_l0": (15, 5)}),
    (lambda: nn.RNNCell(3, 5), {"weight_ih": (5, 3), "weight_hh": (5, 5), "bias_ih": (5,), "bias_hh": (5,)}),
    (
        lambda: nn.MultiheadAttention(8, 2),
        {"in_proj_weight": (24, 8), "in_proj_bias": (24,), "out_proj.weight": (8, 8), "out_proj.bias": (8,)},
    ),
    (
        lambda: nn.MultiheadAttention(8, 2, kdim=3, vdim=5, bias=False),
        {"q_proj_weight": (8, 8), "k_proj_weight": (8, 3), "v_proj_weight": (8, 5), "out_proj.weight": (8, 8)},
    ),
    (
        lambda: nn.TransformerEncoderLayer(8, 2, 16),
        {
            "self_attn.in_proj_weight": (24, 8),
            "self_attn.in_proj_bias": (24,),
            "self_attn.out_proj.weight": (8, 8),
            "self_attn.out_proj.bias": (8,),
            "linear1.weight": (16, 8),
            "linear1.bias": (16,),
            "linear2.weight": (8, 16),
            "linear2.bias": (8,),
            "norm1.weight": (8,),
            "norm1.bias": (8,),
            "norm2.weight": (8,),
            "norm2.bias": (8,),
        },
    ),
]


@pytest.mark.parametrize(("make", "expected"), LAYOUTS)
def test_state_dict_has_pytorchs_names_and_shapes(make, expected):
    state = make().state_dict()
    assert {k: v.shape for k, v in state.items()} == expected
    assert list(state) == list(expected)
    assert all(v.dtype == wg.float32 for k, v in state.items() if k != "num_batches_tracked")


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda: nn.Linear(400, 300), 1 / 20),
        (lambda: nn.Conv2d(16, 64, 5), 1 / 20),
        (lambda: nn.Conv1d(32, 64, 25, groups=2), 1 / 20),
        (lambda: nn.LSTM(40, 100), 1 / 10),
    ],
)
def test_default_initialisation_is_uniform_within_pytorchs_bound(make, bound):
    wg.manual_seed(1)
    layer = make()
    for p in layer.parameters():
        values = p.detach().numpy()
        assert np.abs(values).max() <= bound
        assert np.abs(values).max() > 0.9 * bound
        assert values.std() == pytest.approx(bound / math.sqrt(3), rel=0.15)
    wg.manual_seed(1)
    again = make()
    for p, q in zip(layer.parameters(), again.parameters(), strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_dtype_is_the_parameters():
    made = [nn.Linear(2, 3, dtype=wg.float64), nn.Conv1d(2, 3, 1, dtype="float64"), nn.GRU(2, 3, dtype=wg.float64)]
    assert all(p.dtype == wg.float64 for m in made for p in m.parameters())
    assert nn.BatchNorm1d(3, dtype=wg.float64).running_mean.dtype == wg.float64


# -- linear, embedding, shapes


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (0, 3)])
def test_linear(shape, bias):
    m = randomised(nn.Linear(3, 5, bias=bias))
    s, x = arrays(m), normal(*shape)
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), x @ s["weight"].T + s.get("bias", 0.0), rtol=1e-12)


def test_bilinear():
    m = randomised(nn.Bilinear(3, 4, 2))
    s, x, y = arrays(m), normal(5, 3), normal(5, 4)
    expected = np.stack([np.sum((x @ w) * y, -1) for w in s["weight"]], -1) + s["bias"]
    np.testing.assert_allclose(m(wg.tensor(x), wg.tensor(y)).detach().numpy(), expected, rtol=1e-12)
    check_gradients(m, x, y)


def test_embedding_and_its_padding():
    m = nn.Embedding(5, 3, padding_idx=-4)
    assert m.padding_idx == 1
    assert m.weight.detach().numpy()[1].tolist() == [0.0] * 3
    ids = wg.tensor([[1, 2], [2, 0]])
    m(ids).sum().backward()
    assert m.weight.grad.tolist() == [[1.0] * 3, [0.0] * 3, [2.0] * 3, [0.0] * 3, [0.0] * 3]
    with pytest.raises(IndexError):
        m(wg.tensor([5]))
    with pytest.raises(wg.RangeError, match="padding_idx 5"):
        nn.Embedding(5, 3, padding_idx=5)
    table = nn.Embedding.from_pretrained(np.eye(3))
    assert table(wg.tensor([2])).tolist() == [[0.0, 0.0, 1.0]]
    assert not table.weight.requires_grad
    assert nn.Embedding.from_pretrained(np.eye(3), freeze=False).weight.requires_grad


def test_embedding_bags_and_shares_of_gradients():
    table = wg.tensor(normal(5, 3), requires_grad=True)
    ids, rows = wg.tensor([1, 2, 1, 1]), table.detach().numpy()
    for mode, expected in (("sum", rows[1] * 3 + rows[2]), ("max", np.maximum(rows[1], rows[2]))):
        found = F.embedding_bag(ids, table, wg.tensor([0]), mode=mode)
        assert type(found) is wg.Tensor
        np.testing.assert_allclose(found.detach().numpy()[0], expected, rtol=1e-12)
    F.embedding(ids, table, scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(table.grad.numpy()[:, 0], [0.0, 1.0, 1.0, 0.0, 0.0], rtol=1e-12)
    bag = nn.EmbeddingBag(5, 3, mode="mean", dtype=wg.float64)
    np.testing.assert_allclose(
        bag(wg.tensor([[1, 3]])).detach().numpy()[0], bag.weight.detach().numpy()[[1, 3]].mean(0)
    )
    long = nn.Embedding(5, 3, max_norm=1.0)
    assert np.linalg.norm(long(wg.tensor([0, 4])).detach().numpy(), axis=1).max() <= 1.0 + 1e-6
    with pytest.raises(wg.ShapeError, match="without num_classes"):
        F.one_hot(wg.zeros(0, dtype=wg.int64))


def test_shapes_only():
    x = wg.zeros((2, 3, 4, 5))
    assert nn.Flatten()(x).shape == (2, 60)
    assert nn.Flatten(0, 1)(x).shape == (6, 4, 5)
    assert nn.Unflatten(1, (3, 1))(x).shape == (2, 3, 1, 4, 5)
    assert nn.Unflatten(-1, (5, 1))(x).shape == (2, 3, 4, 5, 1)
    assert nn.Identity(3, four=4)(x) is x


# -- activations


GRID = np.linspace(-4, 4, 23)
ACTIVATIONS = [
    (nn.ReLU(), np.maximum(GRID, 0)),
    (nn.ReLU(inplace=True), np.maximum(GRID, 0)),
    (nn.ReLU6(), np.clip(GRID * 1.0, 0, 6)),
    (nn.LeakyReLU(0.2), np.where(GRID > 0, GRID, 0.2 * GRID)),
    (nn.ELU(0.5), np.where(GRID > 0, GRID, 0.5 * np.expm1(GRID))),
    (nn.SELU(), 1.0507009873554805 * np.where(GRID > 0, GRID, 1.6732632423543772 * np.expm1(GRID))),
    (nn.GELU(), GRID * np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in GRID])),
    (nn.GELU("tanh"), GRID * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (GRID + 0.044715 * GRID**3)))),
    (nn.SiLU(), GRID * sigmoid(GRID)),
    (nn.Mish(), GRID * np.tanh(np.log1p(np.exp(GRID)))),
    (nn.Hardswish(), GRID * np.clip(GRID + 3, 0, 6) / 6),
    (nn.Tanh(), np.tanh(GRID)),
    (nn.Sigmoid(), sigmoid(GRID)),
    (nn.LogSigmoid(), np.log(sigmoid(GRID))),
    (nn.Softplus(), np.log1p(np.exp(GRID))),
    (nn.Softplus(2.0, 3.0), np.where(2 * GRID > 3, GRID, np.log1p(np.exp(2 * GRID)) / 2)),
    (nn.Softsign(), GRID / (1 + np.abs(GRID))),
    (nn.PReLU(), np.where(GRID > 0, GRID, 0.25 * GRID)),
    (nn.Softmax(dim=0), np.exp(GRID) / np.exp(GRID).sum()),
    (nn.LogSoftmax(dim=-1), GRID - np.log(np.exp(GRID).sum())),
]


@pytest.mark.parametrize(("module", "expected"), ACTIVATIONS, ids=[repr(m) for m, _ in ACTIVATIONS])
def test_activation(module, expected):
    got = module.double()(wg.tensor(GRID)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-14)


def test_prelu_per_channel():
    m = nn.PReLU(3).double()
    m.weight.assign_([0.1, 0.2, 0.3])
    x = normal(2, 3, 4)
    slopes = np.array([0.1, 0.2, 0.3], np.float32).astype(float)[:, None]
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), np.where(x > 0, x, x * slopes), rtol=1e-6)
    check_gradients(m, x)


# -- convolution and pooling


def test_convolutions_pass_their_options_on():
    x1, x2 = normal(2, 4, 9), normal(2, 4, 7, 8)
    for m, x in [
        (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), x1),
        (nn.Conv2d(4, 6, (3, 2), stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=2, bias=False), x2),
        (nn.ConvTranspose1d(4, 6, 3, stride=3, padding=1, output_padding=1, groups=2, dilation=2), x1),
        (nn.ConvTranspose2d(4, 6, (3, 2), stride=(1, 2), padding=(1, 0), output_padding=(0, 1)), x2),
    ]:
        randomised(m)
        name = "conv" + ("_transpose" if "Transpose" in type(m).__name__ else "") + type(m).__name__[-2:]
        options = {"stride": m.stride, "padding": m.padding, "dilation": m.dilation, "groups": m.groups}
        if "transpose" in name:
            options["output_padding"] = m.output_padding
        expected = getattr(wg.nn.functional, name)(wg.tensor(x), m.weight, m.bias, **options)
        np.testing.assert_array_equal(m(wg.tensor(x)).detach().numpy(), expected.detach().numpy())


def test_conv2d_against_a_loop():
    m = randomised(nn.Conv2d(2, 3, 3, padding=1))
    s, x = arrays(m), normal(1, 2, 4, 5)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((1, 3, 4, 5))
    for o in range(3):
        for i in range(4):
            for j in range(5):
                expected[0, o, i, j] = (padded[0, :, i : i + 3, j : j + 3] * s["weight"][o]).sum() + s["bias"][o]
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), expected, rtol=1e-12)


def test_pooling_modules():
    x = wg.tensor(np.arange(16.0).reshape(1, 1, 4, 4))
    assert nn.MaxPool2d(2)(x).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]
    assert nn.AvgPool2d(2)(x).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    assert nn.AdaptiveAvgPool2d(1)(x).tolist() == [[[[7.5]]]]
    row = wg.tensor([[[1.0, 3.0, 2.0, 5.0, 4.0]]])
    assert nn.MaxPool1d(2)(row).tolist() == [[[3.0, 5.0]]]
    assert nn.MaxPool1d(2, ceil_mode=True)(row).tolist() == [[[3.0, 5.0, 4.0]]]
    assert nn.AvgPool1d(3, stride=1)(row).tolist() == [[[2.0, pytest.approx(10 / 3), pytest.approx(11 / 3)]]]
    assert nn.AvgPool1d(2, padding=1, count_include_pad=False)(row).tolist() == [[[1.0, 2.5, 4.5]]]


# -- normalisation


def normalised(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_norm():
    m, x = randomised(nn.LayerNorm((4, 3))), normal(2, 4, 3)
    s = arrays(m)
    np.testing.assert_allclose(
        m(wg.tensor(x)).detach().numpy(), normalised(x, (1, 2)) * s["weight"] + s["bias"], rtol=1e-10
    )
    check_gradients(m, x)
    assert nn.LayerNorm(3, elementwise_affine=False).state_dict() == {}
    assert list(nn.LayerNorm(3, bias=False).state_dict()) == ["weight"]


def test_rms_norm():
    m, x = randomised(nn.RMSNorm(3, eps=1e-3)), normal(2, 4, 3)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * arrays(m)["weight"]
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), expected, rtol=1e-10)
    check_gradients(m, x)


def test_group_norm():
    m, x = randomised(nn.GroupNorm(2, 4)), normal(3, 4, 5)
    s = arrays(m)
    expected = normalised(x.reshape(3, 2, 10), 2).reshape(x.shape) * s["weight"][:, None] + s["bias"][:, None]
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), expected, rtol=1e-10)
    check_gradients(m, x)
    with pytest.raises(wg.RangeError, match="5 channels do not fall into 2"):
        nn.GroupNorm(2, 5)


@pytest.mark.parametrize(
    ("make", "shape"),
    [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm1d, (4, 3, 5)), (nn.BatchNorm2d, (2, 3, 4, 5))],
)
def test_batch_norm_in_training_and_evaluation(make, shape):
    m, x = randomised(make(3, momentum=0.25)), normal(*shape)
    s = arrays(m)
    axes = (0, *range(2, len(shape)))
    wide = (1, 3, *(1,) * (len(shape) - 2))
    weight, bias = s["weight"].reshape(wide), s["bias"].reshape(wide)
    out = m(wg.tensor(x)).detach().numpy()
    np.testing.assert_allclose(out, normalised(x, axes) * weight + bias, rtol=1e-9)
    np.testing.assert_allclose(m.running_mean.numpy(), 0.25 * x.mean(axes))
    np.testing.assert_allclose(m.running_var.numpy(), 0.75 + 0.25 * x.var(axes, ddof=1))
    assert m.num_batches_tracked.item() == 1
    m.eval()
    mean, var = m.running_mean.numpy().reshape(wide), m.running_var.numpy().reshape(wide)
    expected = (x - mean) / np.sqrt(var + 1e-5) * weight + bias
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), expected, rtol=1e-9)
    assert m.num_batches_tracked.item() == 1
    check_gradients(m, x)
    check_gradients(m.train(), x)


def test_batch_norm_averages_without_momentum():
    m = nn.BatchNorm1d(2, momentum=None).double()
    batches = [normal(4, 2) for _ in range(3)]
    for b in batches:
        m(wg.tensor(b))
    np.testing.assert_allclose(m.running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0), rtol=1e-12)
    m.reset_running_stats()
    assert m.running_mean.tolist() == [0.0, 0.0]
    assert m.num_batches_tracked.item() == 0


def test_batch_norm_without_running_statistics_uses_the_batch():
    m, x = nn.BatchNorm1d(2, track_running_stats=False, affine=False).double().eval(), normal(5, 2)
    np.testing.assert_allclose(m(wg.tensor(x)).numpy(), normalised(x, 0), rtol=1e-9)


def test_batch_norm_keeps_its_state_through_functional_gradients():
    m, x = nn.BatchNorm1d(2).double(), wg.tensor(normal(5, 2))
    g = wg.grad(lambda m: (m(x) ** 2 * wg.tensor([1.0, 2.0])).sum())(m)
    assert m.num_batches_tracked.item() == 1
    assert g.weight.shape == (2,)


def test_batch_norm_errors():
    m = nn.BatchNorm1d(3)
    with pytest.raises(wg.ShapeError, match=r"BatchNorm1d of f32\[4,2\] with num_features=3"):
        m(wg.zeros((4, 2)))
    with pytest.raises(wg.ShapeError, match="Expected more than 1 value per channel"):
        m(wg.zeros((1, 3)))
    with pytest.raises(wg.ShapeError, match="The input has 4 dimensions"):
        nn.BatchNorm2d(3)(wg.zeros((2, 3)))
    assert m.num_batches_tracked.item() == 0
    m.eval()
    assert m(wg.zeros((1, 3))).shape == (1, 3)


# -- dropout


def test_dropout():
    wg.manual_seed(0)
    m = nn.Dropout(0.25)
    y = m(wg.ones((200, 200))).numpy()
    np.testing.assert_allclose(np.unique(y), [0.0, 4 / 3], rtol=1e-6)
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.02)
    x = wg.ones(3)
    assert m.eval()(x).tolist() == [1.0] * 3
    assert nn.Dropout(0.0)(x).tolist() == [1.0] * 3
    assert nn.Dropout(1.0)(x).tolist() == [0.0] * 3
    with pytest.raises(wg.RangeError, match=r"must lie in \[0, 1\], not 1.5"):
        nn.Dropout(1.5)


def test_dropout2d_drops_whole_channels():
    wg.manual_seed(0)
    y = nn.Dropout2d(0.5)(wg.ones((20, 10, 3, 3))).numpy()
    assert set(np.unique(y.reshape(200, 9).sum(1))) == {0.0, 18.0}
    with (
        pytest.raises(wg.ShapeError, match="dropout of channels"),
        pytest.warns(UserWarning, match="1-D input"),
    ):
        F.dropout2d(wg.ones(3))


# -- recurrent


def rnn_step(x, h, s, k, relu=False):
    z = x @ s[f"weight_ih{k}"].T + s.get(f"bias_ih{k}", 0) + h @ s[f"weight_hh{k}"].T + s.get(f"bias_hh{k}", 0)
    return np.maximum(z, 0) if relu else np.tanh(z)


def lstm_step(x, state, s, k):
    h, c = state
    z = x @ s[f"weight_ih{k}"].T + s.get(f"bias_ih{k}", 0) + h @ s[f"weight_hh{k}"].T + s.get(f"bias_hh{k}", 0)
    i, f, g, o = np.split(z, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x, h, s, k):
    a = x @ s[f"weight_ih{k}"].T + s.get(f"bias_ih{k}", 0)
    b = h @ s[f"weight_hh{k}"].T + s.get(f"bias_hh{k}", 0)
    (ar, az, an), (br, bz, bn) = np.split(a, 3, -1), np.split(b, 3, -1)
    r, z = sigmoid(ar + br), sigmoid(az + bz)
    return (1 - z) * np.tanh(an + r * bn) + z * h


def first(state):
    return state[0] if isinstance(state, tuple) else state


def by_hand(m, step, x, states):
    """(T, N, I) through every layer and direction."""
    s, last = arrays(m), []
    for layer in range(m.num_layers):
        outs = []
        for d in range(2 if m.bidirectional else 1):
            state = states[layer * (2 if m.bidirectional else 1) + d]
            out = [None] * len(x)
            for t in range(len(x))[:: -1 if d else 1]:
                state = step(x[t], state, s, f"_l{layer}" + ("_reverse" if d else ""))
                out[t] = first(state)
            outs.append(np.stack(out))
            last.append(state)
        x = np.concatenate(outs, -1)
    return x, last


KINDS = [(nn.RNN, rnn_step), (nn.LSTM, lstm_step), (nn.GRU, gru_step)]


@pytest.mark.parametrize(("make", "step"), KINDS, ids=["rnn", "lstm", "gru"])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True, "bias": False}],
    ids=["plain", "deep", "both ways", "deep both ways"],
)
def test_recurrent_layers_against_loops(make, step, options):
    m = randomised(make(3, 4, **options))
    count = m.num_layers * (2 if m.bidirectional else 1)
    x, h0, c0 = normal(5, 2, 3), normal(count, 2, 4), normal(count, 2, 4)
    lstm = make is nn.LSTM
    states = list(zip(h0, c0, strict=True)) if lstm else list(h0)
    expected, last = by_hand(m, step, x, states)
    hx = (wg.tensor(h0), wg.tensor(c0)) if lstm else wg.tensor(h0)
    out, final = m(wg.tensor(x), hx)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-10)
    np.testing.assert_allclose(first(final).detach().numpy(), np.stack([first(v) for v in last]), rtol=1e-10)
    if lstm:
        np.testing.assert_allclose(final[1].detach().numpy(), np.stack([c for _, c in last]), rtol=1e-10)


@pytest.mark.parametrize(("make", "step"), KINDS, ids=["rnn", "lstm", "gru"])
def test_recurrent_layouts(make, step):
    m, x = randomised(make(3, 4)), normal(5, 2, 3)
    zero = np.zeros((2, 4))
    expected, _ = by_hand(m, step, x, [(zero, zero) if make is nn.LSTM else zero])
    m.batch_first = True
    out, state = m(wg.tensor(x.transpose(1, 0, 2)))
    np.testing.assert_allclose(out.detach().numpy(), expected.transpose(1, 0, 2), rtol=1e-10)
    assert first(state).shape == (1, 2, 4)
    out, state = m(wg.tensor(x[:, 1]))
    np.testing.assert_allclose(out.detach().numpy(), expected[:, 1], rtol=1e-10)
    assert first(state).shape == (1, 4)


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_gradients(make):
    check_gradients(randomised(make(2, 2, bidirectional=True)), normal(3, 2, 2))


def test_rnn_with_relu_and_cells():
    m, x = randomised(nn.RNN(3, 4, nonlinearity="relu")), normal(5, 2, 3)
    expected, _ = by_hand(m, lambda *a: rnn_step(*a, relu=True), x, [np.zeros((2, 4))])
    np.testing.assert_allclose(m(wg.tensor(x))[0].detach().numpy(), expected, rtol=1e-10)
    x, h, c = normal(2, 3), normal(2, 4), normal(2, 4)
    for cell, step in [(nn.RNNCell(3, 4), rnn_step), (nn.GRUCell(3, 4), gru_step)]:
        randomised(cell)
        got = cell(wg.tensor(x), wg.tensor(h)).detach().numpy()
        np.testing.assert_allclose(got, step(x, h, arrays(cell), ""), rtol=1e-10)
        assert cell(wg.tensor(x[0])).shape == (4,)
    cell = randomised(nn.LSTMCell(3, 4))
    got = cell(wg.tensor(x), (wg.tensor(h), wg.tensor(c)))
    for a, b in zip(got, lstm_step(x, (h, c), arrays(cell), ""), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-10)


def test_dropout_between_recurrent_layers_only_in_training():
    wg.manual_seed(0)
    m, x = nn.GRU(3, 4, num_layers=2, dropout=0.5), wg.tensor(normal(5, 2, 3).astype("f4"))
    assert m(x)[0].tolist() != m(x)[0].tolist()
    m.eval()
    assert m(x)[0].tolist() == m(x)[0].tolist()


def test_recurrent_errors():
    m = nn.LSTM(3, 4)
    with pytest.raises(wg.ShapeError, match=r"LSTM of f32\[5,2,2\] with input_size=3"):
        m(wg.zeros((5, 2, 2)))
    with pytest.raises(wg.ShapeError, match="sequence without steps"):
        m(wg.zeros((0, 2, 3)))
    with pytest.raises(wg.ShapeError, match="An LSTM takes a pair"):
        m(wg.zeros((5, 2, 3)), wg.zeros((1, 2, 4)))
    with pytest.raises(wg.ShapeError, match=r"initial state of shape \(2, 2, 4\), not \(1, 2, 4\)"):
        nn.GRU(3, 4)(wg.zeros((5, 2, 3)), wg.zeros((2, 2, 4)))
    with pytest.raises(wg.GraphError, match="nonlinearity='lstm'"):
        nn.RNN(3, 4, nonlinearity="lstm")
    with pytest.raises(wg.RangeError, match="hidden_size must be an int of at least 1"):
        nn.GRU(3, 0)
    with pytest.raises(wg.ShapeError, match="GRUCell of"):
        nn.GRUCell(3, 4)(wg.zeros((2, 2, 3)))


# -- attention


def attention_by_hand(m, q, k, v, mask=0.0):
    """(N, L, E) queries, keys and values; `mask` is added to the scores (N, H, L, S)."""
    s, e, h = arrays(m), m.embed_dim, m.num_heads
    wq, wk, wv = np.split(s["in_proj_weight"], 3) if "in_proj_weight" in s else (s[f"{n}_proj_weight"] for n in "qkv")
    bq, bk, bv = np.split(s["in_proj_bias"], 3) if "in_proj_bias" in s else (0.0,) * 3

    def heads(x):
        return x.reshape(*x.shape[:2], h, e // h).transpose(0, 2, 1, 3)

    q, k, v = heads(q @ wq.T + bq), heads(k @ wk.T + bk), heads(v @ wv.T + bv)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(e // h) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = (weights @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], -1, e)
    return out @ s["out_proj.weight"].T + s.get("out_proj.bias", 0.0), weights


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_with_masks(need_weights):
    m = randomised(nn.MultiheadAttention(6, 2, batch_first=True))
    q, k, v = normal(2, 4, 6), normal(2, 5, 6), normal(2, 5, 6)
    padding = np.array([[False, False, False, False, True], [False, False, True, True, True]])
    blocked = np.triu(np.ones((4, 5), bool), 2)
    mask = np.where(padding[:, None, None, :] | blocked, -np.inf, 0.0)
    expected, weights = attention_by_hand(m, q, k, v, mask)
    got, got_weights = m(
        *(wg.tensor(t) for t in (q, k, v)),
        key_padding_mask=wg.tensor(padding),
        attn_mask=wg.tensor(blocked),
        need_weights=need_weights,
    )
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-9)
    if need_weights:
        np.testing.assert_allclose(got_weights.detach().numpy(), weights.mean(1), rtol=1e-9)
    else:
        assert got_weights is None
    bias = normal(4, 4, 5)
    expected, _ = attention_by_hand(m, q, k, v, bias.reshape(2, 2, 4, 5))
    got, _ = m(*(wg.tensor(t) for t in (q, k, v)), attn_mask=wg.tensor(bias), need_weights=need_weights)
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("need_weights", [True, False])
def test_self_attention_causal_and_layouts(need_weights):
    m, x = randomised(nn.MultiheadAttention(6, 3, bias=False)), normal(2, 4, 6)
    causal = np.where(np.triu(np.ones((4, 4), bool), 1), -np.inf, 0.0)
    expected, _ = attention_by_hand(m, x, x, x, causal)
    t = wg.tensor(x.transpose(1, 0, 2))
    got, _ = m(t, t, t, need_weights=need_weights, is_causal=True)
    np.testing.assert_allclose(got.detach().numpy(), expected.transpose(1, 0, 2), rtol=1e-9)
    alone = wg.tensor(x[1])
    got, weights = m(alone, alone, alone, need_weights=need_weights, is_causal=True, average_attn_weights=False)
    np.testing.assert_allclose(got.detach().numpy(), expected[1], rtol=1e-9)
    assert weights is None or weights.shape == (3, 4, 4)


def test_attention_with_other_sizes_and_gradients():
    m = randomised(nn.MultiheadAttention(4, 2, kdim=3, vdim=2, batch_first=True))
    q, k, v = normal(2, 3, 4), normal(2, 5, 3), normal(2, 5, 2)
    expected, _ = attention_by_hand(m, q, k, v)
    np.testing.assert_allclose(m(*(wg.tensor(t) for t in (q, k, v)))[0].detach().numpy(), expected, rtol=1e-9)
    check_gradients(m, q, k, v)


def test_attention_drops_weights_in_training_only():
    wg.manual_seed(0)
    m, x = nn.MultiheadAttention(4, 2, dropout=0.5), wg.tensor(normal(6, 2, 4).astype("f4"))
    for need in (True, False):
        m.train()
        assert m(x, x, x, need_weights=need)[0].tolist() != m(x, x, x, need_weights=need)[0].tolist()
        m.eval()
        assert m(x, x, x, need_weights=need)[0].tolist() == m(x, x, x, need_weights=need)[0].tolist()


def test_attention_errors():
    with pytest.raises(wg.RangeError, match="embed_dim=5 does not fall into num_heads=2"):
        nn.MultiheadAttention(5, 2)
    m = nn.MultiheadAttention(4, 2)
    x = wg.zeros((3, 2, 4))
    with pytest.raises(wg.ShapeError, match=r"query, key and value of shapes \(3, 2, 4\), \(3, 2, 3\)"):
        m(x, wg.zeros((3, 2, 3)), x)
    with pytest.raises(wg.ShapeError, match="query, key and value"):
        m(x, wg.zeros((5, 2, 4)), x)
    with pytest.raises(wg.ShapeError, match=r"attn_mask of shape \(2, 2\), not \(3, 3\)"):
        m(x, x, x, attn_mask=wg.zeros((2, 2)))
    with pytest.raises(wg.ShapeError, match=r"mask of shape \(3, 2\), not \(2, 3\)"):
        m(x, x, x, key_padding_mask=wg.zeros((3, 2), dtype=bool))


@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder_layer(norm_first):
    m = randomised(nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, norm_first=norm_first, batch_first=True))
    s, x = arrays(m), normal(2, 3, 4)

    def norm(x, i):
        return normalised(x, -1) * s[f"norm{i}.weight"] + s[f"norm{i}.bias"]

    def attend(x):
        return attention_by_hand(m.self_attn, x, x, x)[0]

    def feed(x):
        hidden = np.maximum(x @ s["linear1.weight"].T + s["linear1.bias"], 0)
        return hidden @ s["linear2.weight"].T + s["linear2.bias"]

    if norm_first:
        middle = x + attend(norm(x, 1))
        expected = middle + feed(norm(middle, 2))
    else:
        middle = norm(x + attend(x), 1)
        expected = norm(middle + feed(middle), 2)
    np.testing.assert_allclose(m(wg.tensor(x)).detach().numpy(), expected, rtol=1e-8)


def test_transformer_encoder_copies_its_layer():
    layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, activation="gelu")
    m = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4))
    assert len(list(m.parameters())) == 26
    x = wg.tensor(normal(3, 2, 4).astype("f4"))
    y = m(x)
    expected = m.norm(m.layers[1](m.layers[0](x)))
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    y.sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    assert layer.linear1.weight.grad is None
    with pytest.raises(wg.GraphError, match="activation='swish'"):
        nn.TransformerEncoderLayer(4, 2, activation="swish")


# -- losses


def test_losses_reduce_as_they_are_told():
    x, y = normal(4, 3), normal(4, 3)
    p, t = sigmoid(x), RNG.uniform(size=(4, 3))
    d = np.abs(x - y)
    table = [
        (nn.MSELoss, {}, x, y, (x - y) ** 2),
        (nn.L1Loss, {}, x, y, d),
        (nn.HuberLoss, {"delta": 0.7}, x, y, np.where(d < 0.7, d**2 / 2, 0.7 * (d - 0.35))),
        (nn.SmoothL1Loss, {"beta": 0.7}, x, y, np.where(d < 0.7, d**2 / 1.4, d - 0.35)),
        (nn.BCELoss, {}, p, t, -t * np.log(p) - (1 - t) * np.log(1 - p)),
        (nn.BCEWithLogitsLoss, {}, x, t, -t * np.log(p) - (1 - t) * np.log(1 - p)),
        (nn.KLDivLoss, {}, x, t, t * (np.log(t) - x)),
        (nn.KLDivLoss, {"log_target": True}, x, y, np.exp(y) * (y - x)),
    ]
    for make, options, a, b, expected in table:
        for reduction, reduce in (("none", np.array), ("sum", np.sum), ("mean", np.mean)):
            got = make(reduction=reduction, **options)(wg.tensor(a), wg.tensor(b)).numpy()
            np.testing.assert_allclose(got, reduce(expected), rtol=1e-9, err_msg=f"{make.__name__} {reduction}")
    assert nn.KLDivLoss(reduction="batchmean")(wg.tensor(x), wg.tensor(t)).item() == pytest.approx(
        (t * (np.log(t) - x)).sum() / 4
    )


def test_class_losses():
    x, ids = normal(4, 3), np.array([0, 2, 1, 2])
    logp = x - np.log(np.exp(x).sum(1, keepdims=True))
    each = -logp[np.arange(4), ids]
    weight = np.array([0.5, 1.0, 2.0])
    assert nn.CrossEntropyLoss()(wg.tensor(x), wg.tensor(ids)).item() == pytest.approx(each.mean())
    assert nn.NLLLoss(reduction="sum")(wg.tensor(logp), wg.tensor(ids)).item() == pytest.approx(each.sum())
    weighted = (each * weight[ids]).sum() / weight[ids].sum()
    assert nn.CrossEntropyLoss(weight=weight)(wg.tensor(x), wg.tensor(ids)).item() == pytest.approx(weighted)
    ignored = each[ids != 2].mean()
    assert nn.CrossEntropyLoss(ignore_index=2)(wg.tensor(x), wg.tensor(ids)).item() == pytest.approx(ignored)
    smooth = (0.9 * each - 0.1 * logp.mean(1)).mean()
    assert nn.CrossEntropyLoss(label_smoothing=0.1)(wg.tensor(x), wg.tensor(ids)).item() == pytest.approx(smooth)
    assert [n for n, _ in nn.CrossEntropyLoss(weight=weight).named_buffers()] == ["weight"]
    with pytest.raises(wg.RangeError, match="reduction must be"):
        nn.MSELoss(reduction="avg")
    with pytest.raises(wg.DTypeError, match="Write reduction='sum'"):
        nn.MSELoss("sum")


def test_positive_weight():
    x, t, w = normal(4, 3), RNG.uniform(size=(4, 3)), np.array([0.5, 1.0, 2.0])
    p = sigmoid(x)
    expected = (-w * t * np.log(p) - (1 - t) * np.log(1 - p)).mean()
    got = nn.BCEWithLogitsLoss(pos_weight=w)(wg.tensor(x), wg.tensor(t))
    assert got.item() == pytest.approx(expected)


# -- layers in models


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.GELU())])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_every_node_of_a_layer_has_its_path_and_the_users_line():
    m = nn.Sequential(Block(), nn.LSTM(4, 3))
    out, _ = m(wg.zeros((2, 1, 4)))
    paths, pending, seen = set(), [out.node], set()
    while pending:
        node = pending.pop()
        if not isinstance(node, wg.Node) or node in seen:
            continue
        seen.add(node)
        pending += node.inputs
        if node.op.kind != "leaf":
            paths.add(node.path)
            assert node.source.file.endswith("test_layers.py"), node
    assert paths >= {"0.layers.0", "0.layers.1.0", "0.layers.1.1", "1"}


def test_a_layers_shape_error_names_the_users_line():
    with pytest.raises(wg.ShapeError) as caught:
        nn.Sequential(nn.Linear(3, 4), nn.ReLU())(wg.zeros((2, 5)))
    assert "test_layers.py" in str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: wg.optim.Adam(p, lr=0.05),
        lambda p: wg.optim.AdamW(p, lr=0.05),
        lambda p: wg.optim.RMSprop(p, lr=0.01),
    ],
)
def test_a_small_network_learns_xor(make):
    wg.manual_seed(3)
    x = wg.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = wg.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    opt, loss_fn = make(model.parameters()), nn.BCEWithLogitsLoss()
    for _ in range(300):
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
    assert loss.item() < 0.05
    assert (model(x).detach().numpy() > 0).ravel().tolist() == [False, True, True, False]


def test_functional_training_equals_the_optimisers():
    wg.manual_seed(5)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    other.load_state_dict(model.state_dict())
    x, y = wg.tensor(normal(6, 3)), wg.tensor(normal(6, 1))

    def loss(m):
        return F.mse_loss(m(x), y)

    opt = wg.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(3):
        g = wg.grad(loss)(model)
        with wg.no_grad():
            model = wg.tree.map(lambda p, d: p - 0.1 * d, model, g)
        opt.zero_grad()
        loss(other).backward()
        opt.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-12)


def test_bad_sizes():
    with pytest.raises(wg.RangeError, match="out_features must be an int of at least 0, not -1"):
        nn.Linear(3, -1)
    with pytest.raises(wg.RangeError, match=r"in_features must be an int of at least 0, not 2\.5"):
        nn.Linear(2.5, 1)
    with pytest.raises(wg.RangeError, match="groups=2 does not divide in_channels=3"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(wg.RangeError, match=r"kernel_size=\(3, 3, 3\) has 3 entries for 2"):
        nn.Conv2d(3, 4, (3, 3, 3))
    with pytest.raises(wg.RangeError, match=r"stride=.* must be at least 1"):
        nn.Conv1d(3, 4, 3, stride=0)(wg.zeros((1, 3, 9)))
    with pytest.raises(wg.RangeError, match="normalized_shape must name one axis"):
        nn.LayerNorm(())
