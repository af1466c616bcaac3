"""Graphs as ONNX models: every op with a form, models and their gradients, under other runtimes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
reference = pytest.importorskip("onnx.reference", reason="the package onnx is not installed")

from onnx import helper  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.core.ops.op import TABLE  # noqa: E402
from wengert.core.ops.record import bind  # noqa: E402
from wengert.interop.onnx import OnnxError, check, load, save  # noqa: E402
from wengert.interop.onnx import compare as comparing  # noqa: E402
from wengert.interop.onnx.export import writer  # noqa: E402
from wengert.interop.onnx.export.writer import has_form  # noqa: E402

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

nn = wg.nn
F = nn.functional

# Where the evaluator of the package onnx fails by itself: it stacks what a Loop's turns gave as NumPy's vstack does.
_REFERENCE_FAILS = {"convolve_transpose", "max_pool", "partial_scan", "softsign"}
# What an op refuses at one of its samples; where only at some, `_IS_REFUSED` says at which.
_REFUSES = {
    "arg_top_k": "the first 0 elements",
    "bitwise_left_shift": "unsigned integers only",
    "bitwise_right_shift": "unsigned integers only",
    "dropout": "draws random numbers",
    "dropout_at": "draws random numbers",
    "top_k": "the first 0 elements",
}
_IS_REFUSED: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "arg_top_k": lambda attrs: attrs["k"] == 0,
    "top_k": lambda attrs: attrs["k"] == 0,
}
_ = wg.scan  # control flow is declared where it is first asked for
FORMS = sorted(n for n, op in TABLE.items() if has_form(op, 20) and op.samples is not None)


def leaves(found: Any) -> list[Any]:
    return [np.asarray(v.detach().numpy()) for v in wg.tree.leaves(found)]


def agree(want: list[Any], got: Any, what: str) -> None:
    assert len(want) == len(got), what
    for a, b in zip(want, got):
        b = np.asarray(b.detach().numpy() if isinstance(b, wg.Tensor) else b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=2e-5, err_msg=what)


def compare(proto: Any, args: list[Any], want: list[Any], evaluated: bool = True) -> None:
    feeds = {i.name: a for i, a in zip(proto.graph.input, args)}
    back = load(proto)(*args)
    agree(want, back if isinstance(back, tuple) else (back,), "ours")
    if evaluated:
        agree(want, reference.ReferenceEvaluator(proto).run(None, feeds), "reference")
    if onnxruntime is not None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        agree(want, session.run(None, feeds), "onnxruntime")


@pytest.mark.parametrize("name", FORMS)
def test_every_op_with_a_form(name: str) -> None:
    calls = list(TABLE[name].samples(np.random.default_rng(0)))
    check_samples(name, calls[:2] if name in _REFUSES else [calls[0], *calls[1:][-1:]])


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_every_op_with_a_form_at_all_its_samples(name: str) -> None:
    check_samples(name, list(TABLE[name].samples(np.random.default_rng(0))))


def axes_of(proto: Any) -> list[tuple[str, list[int]]]:
    """The axes that a document's nodes say, in attributes or as constants, by the operator's name."""
    known = {t.name: t for t in proto.graph.initializer}
    known |= {n.output[0]: n.attribute[0].t for n in proto.graph.node if n.op_type == "Constant"}
    place = {"Slice": 3, "CumSum": 1, "CumProd": 1, "Squeeze": 1, "Unsqueeze": 1}
    found = []
    for node in proto.graph.node:
        said = [a.i for a in node.attribute if a.name == "axis"]
        said += [i for a in node.attribute if a.name == "axes" for i in a.ints]
        at = 1 if node.op_type.startswith("Reduce") else place.get(node.op_type, len(node.input))
        if at < len(node.input) and node.input[at] in known:
            said += onnx.numpy_helper.to_array(known[node.input[at]]).ravel().tolist()
        found.append((node.op_type, said))
    return found


def counted_from_the_right(proto: Any) -> list[tuple[str, list[int]]]:
    # A new last axis, and the first of a place that was counted from the left, are no axis of what may be empty.
    return [
        (op, said) for op, said in axes_of(proto) if op not in ("Squeeze", "Unsqueeze") and any(a < 0 for a in said)
    ]


def check_samples(name: str, calls: list[Any]) -> None:
    op = TABLE[name]
    ran = 0
    for call in calls:
        # The graphs that control flow runs are in float64.
        is_cast = not any(isinstance(v, wg.Graph) for v in wg.tree.leaves(dict(call.attrs)))
        args = [np.asarray(a, np.float32 if is_cast and np.asarray(a).dtype == float else None) for a in call.args]
        if any(a.dtype.kind == "c" for a in args):
            ran += 1  # that ONNX has no complex numbers another test says
            continue
        attrs = {k: np.dtype(np.float32) if v == np.dtype(float) and k == "dtype" else v for k, v in call.attrs.items()}
        if attrs.get("dtype") == np.complex128:
            continue

        def f(*xs: Any, attrs: Any = attrs) -> Any:
            return bind(op, list(xs), dict(attrs))

        want = leaves(f(*map(wg.asarray, args)))
        specs = [wg.spec(a.shape, a.dtype) for a in args]
        if name in _REFUSES and (name not in _IS_REFUSED or _IS_REFUSED[name](attrs)):
            with pytest.raises(OnnxError, match=_REFUSES[name]):
                save(f, specs, None)
            ran += 1
            continue
        proto = save(f, specs, None)
        assert not counted_from_the_right(proto)
        # The package's evaluator is slow: it runs the first sample.
        compare(proto, args, want, not ran and name not in _REFERENCE_FAILS)
        ran += 1
    assert ran


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Any) -> Any:
        return wg.relu(x + self.norm(self.first(x)))


class Tagger(nn.Module):
    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.cell = cell(8, 6, batch_first=True)
        self.out = nn.Linear(6, 4)

    def forward(self, x: Any) -> Any:
        return self.out(self.cell(self.words(x))[0])


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


IDS = np.random.default_rng(3).integers(0, 4, (2, 5))

MODELS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), [draw(5, 4)]),
    "gelu": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1)),
        [draw(5, 4)],
    ),
    "activations": (
        lambda: nn.Sequential(nn.Softplus(), nn.Hardswish(), nn.Mish(), nn.LeakyReLU(0.1), nn.ELU(), nn.SELU()),
        [draw(3, 4)],
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 10),
        ),
        [draw(2, 3, 8, 8)],
    ),
    "residual": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), Residual(4), nn.AvgPool2d(2)), [draw(2, 3, 6, 6)]),
    "conv1d": (
        lambda: nn.Sequential(nn.Conv1d(3, 8, 3, dilation=2), nn.SiLU(), nn.Conv1d(8, 4, 1, groups=2)),
        [draw(2, 3, 9)],
    ),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), nn.Tanh()),
        [draw(2, 3, 4, 4)],
    ),
    "group_norm": (lambda: nn.Sequential(nn.Conv2d(4, 8, 1), nn.GroupNorm(2, 8)), [draw(2, 4, 3, 3)]),
    "lstm": (lambda: Tagger(nn.LSTM), [IDS]),
    "gru": (lambda: Tagger(nn.GRU), [IDS]),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), [draw(2, 5, 8)]),
    "attention": (lambda: lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), [draw(2, 2, 5, 8)]),
    "rms_norm": (lambda: nn.Sequential(nn.Linear(4, 4), nn.RMSNorm(4)), [draw(3, 4)]),
    "cross_entropy": (lambda: lambda x, t: F.cross_entropy(x, t), [draw(2, 4), IDS[:, 0]]),
    "regression": (lambda: lambda x, y: F.mse_loss(x, y) + F.huber_loss(x, y), [draw(4, 5), draw(4, 5) + 1]),
    "binary": (lambda: lambda x, y: F.binary_cross_entropy_with_logits(x, y), [draw(4), np.float32([0, 1, 1, 0])]),
    "indexing": (
        lambda: lambda x: (x[:, 1:3], x[..., 0], x[wg.tensor([0, 2])], wg.flip(x, 0), wg.roll(x, 1, 0), x[::2, None]),
        [draw(4, 5)],
    ),
    "order": (
        lambda: lambda x: (wg.sort(x, -1), wg.top_k(x, 2).values, wg.cumulative_sum(x, axis=0), wg.max(x, 1)),
        [draw(4, 5)],
    ),
    "statistics": (lambda: lambda x: (wg.std(x, 0), wg.var(x, 1), wg.mean(x), wg.logsumexp(x, 1)), [draw(4, 5)]),
    "einsum": (lambda: lambda x, y: wg.einsum("bij,bjk->bik", x, y), [draw(2, 3, 4), draw(2, 4, 5)]),
    "scan": (
        lambda: lambda x: wg.scan(lambda s, r: (wg.tanh(s + r), s * r), wg.zeros((3,)), x, reverse=True),
        [draw(5, 3)],
    ),
    "fori": (lambda: lambda x: wg.fori_loop(0, 4, lambda i, s: s + wg.sin(x) * i, x), [draw(3)]),
    "cond": (
        lambda: lambda x: wg.cond(wg.sum(x) > 0, lambda: x * 2, lambda: wg.sin(x)),
        [draw(3)],
    ),
    "while": (
        lambda: (
            lambda x: wg.while_loop(
                lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 2 + x), (wg.zeros((), dtype=wg.int64), x), max_steps=8
            )[1]
        ),
        [draw(3)],
    ),
    "batched": (lambda: lambda x: wg.vmap(lambda r: wg.dot(r, r))(x), [draw(4, 3)]),
}


def model_of(name: str) -> tuple[Any, list[Any]]:
    wg.manual_seed(0)
    make, args = MODELS[name]
    f = make()
    return (f.eval() if isinstance(f, nn.Module) else f), args


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    f, args = model_of(name)
    with wg.no_grad():
        want = leaves(f(*map(wg.asarray, args)))
        proto = save(f, [wg.spec(a.shape, a.dtype) for a in args], None)
        compare(proto, args, want, False)


@pytest.mark.parametrize("name", MODELS)
def test_gradients(name: str) -> None:
    f, args = model_of(name)
    at = tuple(i for i, a in enumerate(args) if a.dtype.kind == "f")

    def total(out: Any) -> Any:
        return sum(wg.sum(wg.sin(v)) for v in wg.tree.leaves(out) if v.dtype.kind == "f")

    def gradient(*xs: Any) -> Any:
        if not at:
            return wg.grad(lambda m: total(m(*xs)))(f)

        def loss(*own: Any) -> Any:
            given = list(xs)
            for i, x in zip(at, own):
                given[i] = x
            return total(f(*given))

        return wg.grad(loss, at)(*[xs[i] for i in at])

    want = leaves(gradient(*map(wg.asarray, args)))
    proto = save(gradient, [wg.spec(a.shape, a.dtype) for a in args], None)
    compare(proto, args, want, False)


@pytest.mark.parametrize("opset", [13, 15, 17, 18, 20, 21])
@pytest.mark.parametrize("name", ["gelu", "cnn", "encoder", "lstm"])
def test_an_open_batch_in_versions_of_the_operators(name: str, opset: int) -> None:
    f, args = model_of(name)
    with wg.no_grad():
        proto = save(f, [wg.spec((None, *a.shape[1:]), a.dtype) for a in args], None, opset=opset)
        assert proto.opset_import[0].version == opset
        for times in (1, 3):
            given = [np.concatenate([a] * times) for a in args]
            compare(proto, given, leaves(f(*map(wg.asarray, given))), False)


# -- what is refused, and named


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: wg.linalg.eigvalsh(x @ x.mT), r"op 'eigvalsh' at .*test_export.py:\d+ cannot be said in ONNX"),
        (lambda x: wg.fft.fft(x), "complex numbers"),
        (lambda x: F.dropout(x), "dropout draws random numbers"),
        (lambda x: wg.special.i0(x), "cannot be said in ONNX: ONNX has no such operator"),
    ],
)
def test_what_onnx_cannot_say(f: Any, text: str) -> None:
    with pytest.raises(OnnxError, match=text):
        save(f, wg.spec((3, 3)), None)


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(OnnxError, match="opset is 9"):
        save(wg.exp, wg.spec((3,)), None, opset=9)
    with pytest.raises(OnnxError, match="2 names are given for 1 inputs"):
        save(wg.exp, wg.spec((3,)), None, names=["a", "b"])
    with pytest.raises(OnnxError, match="the specs are one"):
        save(wg.exp, [3], None)
    with pytest.raises(OnnxError, match="a int is no function"):
        save(3, wg.spec((3,)), None)


def test_names_and_parameters_are_those_given(tmp_path: Any) -> None:
    m = nn.Linear(3, 2)
    proto = save(m, wg.spec((None, 3)), tmp_path / "m.onnx", names=["rows"], outputs=["scores"])
    assert [i.name for i in proto.graph.input] == ["rows"]
    assert [o.name for o in proto.graph.output] == ["scores"]
    assert sorted(t.name for t in proto.graph.initializer) == ["bias", "weight"]
    back = load(tmp_path / "m.onnx")
    assert [n for n, _ in back.named_parameters()] == ["weight", "bias"]
    agree(leaves(m(wg.ones((2, 3)))), [back(rows=wg.ones((2, 3)))], "back")


def test_check_names_the_first_value_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return wg.tanh(wg.exp(x)) + 1

    x = wg.tensor([0.5, 1.0])
    assert check(f, [x], runtime="reference") is None
    op = TABLE["tanh"]
    monkeypatch.setattr(op, "forward", lambda x: np.tanh(x) + 0.1)
    found = check(f, [x], runtime="reference")
    assert found is not None
    assert found.op == "tanh"
    assert "test_export.py" in found.source
    assert abs(found.largest - 0.1) < 1e-3
    assert "tanh" in str(found)


def planted(operator: str, **attributes: Any) -> tuple[Any, int]:
    """Return a form that writes another operator than the op is."""
    return lambda g, n, x, *_: g(operator, x, **attributes), 0


@pytest.mark.parametrize(
    ("name", "form", "f", "shape", "op"),
    [
        ("rsqrt", planted("Sqrt"), lambda x: wg.exp(wg.rsqrt(x) + 1), (3,), "rsqrt"),
        ("softmax", planted("Softmax", axis=0), lambda x: wg.sum(wg.softmax(x * 2, -1) * x), (3, 4), "softmax"),
        ("negative", planted("Abs"), wg.grad(lambda x: wg.sum(wg.cos(x) * x)), (3,), "negative"),
        ("argmax", planted("ArgMin", axis=-1, keepdims=0), lambda x: wg.argmax(x * 1.5, -1), (3, 4), "argmax"),
        ("log", planted("Neg"), lambda x: wg.exp(wg.log(-x)), (3,), "log"),
        ("sin", planted("Cos"), lambda x: wg.scan(lambda c, r: (wg.sin(c) + r, c), x[0], x)[0] * 2, (3,), "scan"),
        ("sin", planted("Cos"), lambda x: wg.cond(wg.sum(x) > 0, lambda: wg.sin(x), lambda: x) + 1, (3,), "switch"),
        ("tanh", planted("Sinh"), lambda x: wg.tanh(x), (3,), "tanh"),
    ],
)  # fmt: skip
def test_check_names_planted_faults(
    monkeypatch: pytest.MonkeyPatch, name: str, form: Any, f: Any, shape: tuple[int, ...], op: str
) -> None:
    x = wg.asarray(np.linspace(0.5, 2.0, int(np.prod(shape)), dtype=np.float32).reshape(shape))
    assert check(f, [x], runtime="reference") is None
    monkeypatch.setitem(writer._FORMS, name, form)
    found = check(f, [x], runtime="reference")
    assert found is not None
    assert found.op == op
    assert "test_export.py" in found.source


def test_an_infinity_is_near_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(writer._FORMS, "exp", (lambda g, n, x: g("Mul", g("Exp", x), g.like(3e38, n.dtype)), 0))
    found = check(lambda x: wg.exp(x) + 1, [wg.tensor([5.0])], runtime="reference")
    assert found is not None
    assert found.largest == np.inf


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_signs_and_truncated_remainders_go_out(dtype: str) -> None:
    """The sign of a zero too, by which the remainder that is truncated gets its own."""
    x = np.array([-7, 7, 5, -5, 0, 9, -8, -0.0]).astype(dtype)
    y = np.array([3, -3, 2.5, -2.5, 3, -4, -3, 2]).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    infos = [helper.make_tensor_value_info(n, kind, [8]) for n in "xyz"]
    graph = helper.make_graph([helper.make_node("Mod", ["x", "y"], ["z"], fmod=1)], "g", infos[:2], infos[2:])
    whole = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    found = load(save(whole, (wg.spec((8,), dtype), wg.spec((8,), dtype)), None))(wg.asarray(x), wg.asarray(y)).numpy()
    np.testing.assert_array_equal(found, np.fmod(x, y))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.fmod(x, y)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_remainders_of_zero_have_the_divisors_sign(dtype: str) -> None:
    x = np.array([4, -4, 4, -4, 0, -0.0, 5, -5, 0.0, 1], dtype)
    y = np.array([2, 2, -2, -2, -3, 3, 3, 3, np.inf, 0], dtype)
    document = save(lambda x, y: x % y, [wg.spec((10,), dtype), wg.spec((10,), dtype)], None)
    names = [i.name for i in document.graph.input]
    with np.errstate(all="ignore"):
        (found,) = reference.ReferenceEvaluator(document).run(None, dict(zip(names, (x, y), strict=True)))
        want = np.remainder(x, y)
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(np.signbit(found)[:-1], np.signbit(want)[:-1])


def test_whole_quotients_by_zero() -> None:
    """As NumPy's: infinite, or no number."""
    x = np.array([3.0, -3.0, 0.0, 7.0, -7.0, np.inf], np.float32)
    y = np.array([0.0, 0.0, 0.0, 2.0, 2.0, 2.0], np.float32)
    document = save(lambda x, y: x // y, [wg.spec((6,)), wg.spec((6,))], None)
    names = [i.name for i in document.graph.input]
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y)
        (found,) = reference.ReferenceEvaluator(document).run(None, dict(zip(names, (x, y), strict=True)))
    np.testing.assert_array_equal(np.asarray(load(document)(wg.tensor(x), wg.tensor(y))), expected)
    np.testing.assert_array_equal(found, expected)


def agrees(f: Any, specs: Any, *args: Any, opset: int = 20) -> Any:
    """Export `f`, and compare what onnxruntime (the evaluator of the package onnx, where it is absent) gives."""
    document = save(f, specs, None, opset=opset)
    want = leaves(f(*map(wg.tensor, args)))
    feeds = {i.name: np.asarray(a) for i, a in zip(document.graph.input, args)}
    if onnxruntime is not None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        agree(want, onnxruntime.InferenceSession(document.SerializeToString(), options).run(None, feeds), "onnxruntime")
    elif not any(n.op_type == "Scan" for n in document.graph.node):  # the evaluator scans forward alone
        with np.errstate(all="ignore"):
            agree(want, reference.ReferenceEvaluator(document).run(None, feeds), "the evaluator")
    agree(want, leaves(load(document)(*map(wg.tensor, args))), "read again")
    return document


OPEN: dict[str, tuple[Any, Any]] = {
    "embedding": (lambda w, i: wg.sum(F.embedding(i, w) ** 2), (wg.spec((5, 3)), wg.spec(("n",), "int64"))),
    "two indices": (lambda w, i: wg.sum(w[i, i % 3] ** 3), (wg.spec((5, 3)), wg.spec(("n",), "int64"))),
    "differences": (lambda x: wg.sum((x[1:] - x[:-1]) ** 2), wg.spec(("n", 3))),
    "inner part": (lambda x: wg.sum(x[1:-1, 1] ** 2), wg.spec(("n", 3))),
    "first row": (lambda x: wg.sum(wg.softmax(x, axis=0)[0]), wg.spec(("n", 3))),
    "last row": (lambda x: wg.sum(x[-1] ** 2), wg.spec(("n", 3))),
    "order": (lambda x: wg.sum(wg.sort(x, axis=0)[0] ** 2), wg.spec(("n", 3))),
    "products": (lambda x: wg.sum(wg.prod(x, axis=0)), wg.spec(("n", 3))),
}


@pytest.mark.parametrize("name", OPEN)
def test_gradients_with_open_sizes(name: str) -> None:
    f, specs = OPEN[name]
    rng = np.random.default_rng(0)
    for n in (2, 5):
        if isinstance(specs, tuple):
            args = [rng.standard_normal((5, 3)).astype(np.float32), np.arange(n) * 3 % 5]
        else:
            args = [rng.standard_normal((n, 3)).astype(np.float32)]
        agrees(wg.grad(f), specs, *args)


def test_angles_of_all_quadrants() -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 2.5], np.float32)
    y, x = (v.ravel() for v in np.meshgrid(values, values))
    document = agrees(wg.atan2, (wg.spec((49,)), wg.spec((49,))), y, x)
    found = load(document)(y, x).numpy()
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.arctan2(y, x)))


@pytest.mark.parametrize("opset", [16, 20, 26])
def test_running_products(opset: int) -> None:
    x = np.array([[1.0, 2.0, 0.0], [3.0, 0.5, 2.0]], np.float32)
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip("the package does not know the version")

    def f(x: Any) -> Any:
        return wg.cumulative_prod(x, axis=1), wg.cumulative_prod(x, axis=0)

    document = save(f, wg.spec(("n", 3)), None, opset=opset)
    assert ("Scan" in {n.op_type for n in document.graph.node}) == (opset < 26)
    agree(leaves(f(wg.tensor(x))), leaves(load(document)(x)), "read again")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_integers_are_negated(dtype: str) -> None:
    agrees(lambda x: -x, wg.spec((3,), dtype), np.array([0, 1, 200], dtype))


def test_what_has_no_elements_is_left_out() -> None:
    """Of a concatenation: onnxruntime's optimiser drops an `Expand` to a size of 0."""
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    document = agrees(lambda x: F.pad(x, (0, 1), mode="replicate"), wg.spec((1, 2, 4)), x)
    assert len(next(n for n in document.graph.node if n.op_type == "Concat").input) == 2
    assert check(lambda x: F.pad(x, (0, 1), mode="replicate"), [x], runtime="reference") is None


@pytest.mark.parametrize(
    ("f", "spec", "op"),
    [
        (lambda x: x >> 1, wg.spec((3,), "int32"), "bitwise_right_shift"),
        (lambda x: wg.var(x, axis=0, correction=1), wg.spec(("n", 3)), "var"),
        (lambda x: wg.diagonal(x), wg.spec(("n", 3)), "diagonal"),
        (lambda x: wg.sort(x), wg.spec(3, "bool"), "sort"),
        (lambda x: wg.sin(x), wg.spec(3, "bfloat16"), "sin"),
        (lambda x: wg.scan(lambda c, r: (c, wg.sin(r)), x[0], x)[1], wg.spec(3, "bfloat16"), "sin"),
        (lambda x: wg.while_loop(lambda s: s[0] < 1, lambda s: s + wg.sin(s), x), wg.spec(3, "bfloat16"), "sin"),
    ],
)
def test_refusals_name_the_op_and_its_line(f: Any, spec: Any, op: str) -> None:
    with pytest.raises(OnnxError, match=rf"^op '{op}' at .*test_export.py:{f.__code__.co_firstlineno} cannot be said"):
        save(f, spec, None)


def _digamma(x: Any) -> Any:
    return wg.sum(wg.special.digamma(x) ** 2)


def _unbounded(x: Any) -> Any:
    return wg.sum(wg.while_loop(lambda s: wg.sum(s) < 10, lambda s: s * 2, x))


def _rows(x: Any) -> Any:
    return wg.scan(lambda c, r: (c + r, c), 0.0, x)[0]


@pytest.mark.parametrize(
    ("f", "transform", "spec"),
    [
        (_digamma, wg.grad, (3,)),
        (_digamma, wg.hessian, (3,)),
        (_digamma, lambda f: lambda x: wg.jvp(f, (x,), (x,))[1], (3,)),
        (_unbounded, wg.grad, (3,)),
        (_rows, wg.grad, ("n",)),
    ],
)
def test_refusals_of_derivatives_name_the_line_that_is_differentiated(f: Any, transform: Any, spec: Any) -> None:
    with pytest.raises(wg.WengertError) as found:
        save(transform(f), wg.spec(spec), None)
    assert f"test_export.py:{f.__code__.co_firstlineno + 1}" in str(found.value).partition("\n")[0]


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("rows", [2, "rows"])
def test_gradients_of_loops_by_as_many_turns_as_they_took(opset: int, rows: Any) -> None:
    def until(x: Any, w: Any, most: Any) -> Any:
        start = (wg.zeros((), dtype=wg.int64), x, wg.zeros_like(x, dtype=wg.float64))
        step = lambda s: (s[0] + 1, wg.sin(s[1] * w) + x, s[2] + s[1] * s[0])
        _, last, sums = wg.while_loop(lambda s: s[0] < most, step, start, max_steps=6)
        return wg.sum(last * last) + wg.sum(sums.astype("float32"))

    gradient = wg.grad(until, argnums=(0, 1))
    specs = [wg.spec((rows, 3)), wg.spec((3,)), wg.spec((), wg.int64)]
    proto = save(gradient, specs, None, opset=opset)
    onnx.checker.check_model(proto, full_check=True)
    x, w = draw(2, 3), draw(3)
    for most in (4, 0, 1, 6, 9):
        args = [x, w, np.array(most)]
        compare(proto, args, leaves(gradient(*map(wg.asarray, args))), False)


def test_arguments_of_check_that_are_none() -> None:
    net = nn.Linear(3, 2)
    with pytest.raises(OnnxError, match="argument 0 is a Linear, and an ONNX model takes tensors"):
        check(wg.grad(lambda m: wg.sum(m(wg.ones((1, 3))))), [net], runtime="reference")
    with pytest.raises(OnnxError, match="the arguments are a int"):
        check(save(net, wg.spec((1, 3)), None), 3, runtime="reference")
    with pytest.raises(OnnxError, match="are given by position"):
        check(net, 3, runtime="reference")


def test_check_runs_the_model_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the runtime may rewrite it, the outputs may differ, though every node's value is what it should be."""
    real = comparing.run_by

    def optimised(proto: Any, feeds: Any, names: Any, runtime: str) -> Any:
        found = real(proto, feeds, names, runtime)
        return found if len(proto.graph.output) > 1 else {n: v + 1 for n, v in found.items()}

    monkeypatch.setattr(comparing, "run_by", optimised)
    f, x = (lambda x: wg.exp(wg.sin(x))), wg.ones((2,))
    for found in (check(f, [x], runtime="reference"), check(save(f, x.spec, None), [x], runtime="reference")):
        assert found is not None
        assert found.whole
        assert str(found).endswith("differs by 1, where the model runs as a whole, though no node does")


def test_names_of_inputs_and_outputs() -> None:
    """Outputs go by a dict's keys, a module's inputs by its arguments; names that are given are kept or refused."""

    def named(document: Any) -> tuple[list[str], list[str]]:
        return [v.name for v in document.graph.input], [v.name for v in document.graph.output]

    spec = wg.spec((2, 3))
    assert named(save(nn.Linear(3, 2), spec, None)) == (["input"], ["output"])
    found = named(save(lambda x: {"u": x + 1, "v": (x * 2, x * 3)}, spec, None))
    assert found == (["x"], ["u", "v.0", "v.1"])
    assert named(save(lambda x: (x, x + 1), spec, None)) == (["x"], ["output_0", "output_1"])
    assert named(save(lambda x: wg.exp(wg.exp(x)), spec, None, names=["a"], outputs=["exp"])) == (["a"], ["exp"])
    for how, text in (
        ({"names": ["a", "a"]}, "the name 'a' is given to two inputs"),
        ({"names": ["a"]}, "1 names are given for 2 inputs"),
        ({"outputs": ["x"]}, "the name 'x', given to one of the outputs, is that of an input or a parameter"),
        ({"outputs": [""]}, "the name of output 0 is ''"),
        ({"outputs": "y"}, "the name 'y' is given for 1 outputs"),
    ):
        with pytest.raises(OnnxError, match=text):
            save(lambda x, y: x + y, (spec, spec), None, **how)
    with pytest.raises(OnnxError, match="the name 'weight', given to one of the inputs, is that of a parameter"):
        save(nn.Linear(3, 2), spec, None, names=["weight"])
    with pytest.raises(OnnxError, match="returns no tensor"):
        save(lambda x: None, spec, None)


def test_inputs_that_share_an_open_size() -> None:
    m = load(save(lambda a, b: wg.concat([a, b]), (wg.spec((None, 3)), wg.spec((None, 3))), None))
    with pytest.raises(OnnxError, match="its open size 'axis0' is 2 in input 'a': inputs share a size of one name"):
        m(wg.ones((2, 3)), wg.ones((4, 3)))
    specs = wg.spec(("n", 3)), wg.spec(("m", 3))
    assert load(save(lambda a, b: wg.concat([a, b]), specs, None))(wg.ones((2, 3)), wg.ones((4, 3))).shape == (6, 3)


@pytest.mark.parametrize("f", [wg.copysign, wg.atan2])
def test_signs_of_zeros_under_onnxruntime(f: Any) -> None:
    if onnxruntime is None:
        pytest.skip("onnxruntime is not installed")
    x, y = np.array([0.0, -0.0, 0.0, 2.0], np.float32), np.array([-1.0, 2.0, -0.0, -3.0], np.float32)
    document = save(f, (wg.spec((4,)), wg.spec((4,))), None)
    session = onnxruntime.InferenceSession(document.SerializeToString())
    (found,) = session.run(None, dict(zip([i.name for i in document.graph.input], (x, y))))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(f(wg.tensor(x), wg.tensor(y)).numpy()))


_INF, _NAN = float("inf"), float("nan")
_WIDE = np.array([0, 1, 2**63, 2**64 - 1, 2**63 - 1], np.uint64)
EDGES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "any of nothing": (lambda x: (wg.any(x, 0), wg.all(x, 0), wg.any(x), wg.any(x, 1)), [np.zeros((0, 3), bool)]),
    "any number of nothing": (lambda x: wg.any(x, 0), [np.zeros((0, 3), np.float32)]),
    "extremes of wide integers": (lambda x: (wg.max(x), wg.min(x), wg.max(x[:2]), wg.min(x[2:4])), [_WIDE]),
    "hypot of infinities": (
        wg.hypot,
        [
            np.array([_INF, -_INF, _INF, _NAN, _NAN, 0, 3], np.float32),
            np.array([_INF, 1, _NAN, -_INF, 1, 0, 4], np.float32),
        ],
    ),
    "places of NaNs": (
        lambda s, v: (wg.searchsorted(s, v), wg.searchsorted(s, v, side="right")),
        [np.array([0, 1, 2, _INF, _NAN, _NAN]), np.array([_NAN, 1.0, _INF, -_INF, 5])],
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_of_values(name: str) -> None:
    f, args = EDGES[name]
    given = [wg.tensor(a) for a in args]
    for opset in (18, 20):
        document = save(f, tuple(v.spec for v in given), None, opset=opset)
        compare(document, args, leaves(f(*given)))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int64"])
def test_triangles_in_versions_without_an_operator(dtype: str) -> None:
    x = np.arange(1, 25).reshape(2, 3, 4).astype(dtype)
    for k in (-4, -1, 0, 2, 5):
        for f in (lambda x, k=k: wg.tril(x, k), lambda x, k=k: wg.triu(x, k)):
            for shape in ((2, 3, 4), (None, "n", "m")):
                compare(save(f, wg.spec(shape, dtype), None, opset=13), [x], leaves(f(wg.tensor(x))))
