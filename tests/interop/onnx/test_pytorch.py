"""Documents of PyTorch's two exporters: what the modules give, eager and compiled, with gradients and other sizes."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import wengert as wg  # noqa: E402
from wengert.interop.onnx import load  # noqa: E402


class Of(nn.Module):
    """A module of a function of its inputs and of other modules."""

    def __init__(self, function: Callable[..., Any], *modules: Any) -> None:
        super().__init__()
        self.function, self.inner = function, nn.ModuleList(modules)

    def forward(self, *xs: Any) -> Any:
        return self.function(*xs, *self.inner)


def attention(x: Any, inner: Any) -> Any:
    q, k, v = inner(x).reshape(x.shape[0], x.shape[1], 3, 4, 4).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rotated(x: Any) -> Any:
    a, b = x.chunk(2, -1)
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(half) / half)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def picked(x: Any, places: Any, table: Any) -> Any:
    y = table(places)
    y = y.scatter_add(1, torch.zeros_like(places)[..., None].expand(-1, -1, 6), x)
    return y.gather(2, places[..., None]), y[:, 1:, ::2], torch.topk(y, 2, dim=-1)[0], y.flip(1).cumsum(1)


def pooled(x: Any) -> Any:
    narrow = F.max_pool2d(F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), 2, ceil_mode=True)
    return F.adaptive_avg_pool2d(narrow, (2, 2)), F.lp_pool2d(x, 2, 3)


def activated(x: Any) -> Any:
    smooth = F.gelu(x) + F.silu(x) * F.mish(x) + F.softplus(x) + F.selu(x) - F.elu(x) + torch.erf(x)
    return smooth + F.hardswish(x) + F.leaky_relu(x, 0.1) + F.log_softmax(x, -1) + F.glu(torch.cat([x, x], -1))


def padded(x: Any) -> Any:
    kinds = F.pad(x, (1, 2, 2, 1), mode="reflect"), F.pad(x, (1, 1, 0, 2), mode="replicate"), F.pad(x, (1, -1, 2, 0))
    return (*kinds, F.pixel_shuffle(x, 2), F.unfold(x, 3))


def sampled(x: Any, at: Any) -> Any:
    return F.grid_sample(x, at.tanh(), align_corners=False)


def statistics(x: Any) -> Any:
    return torch.norm(x, dim=-1), x.std(-1), torch.logsumexp(x, 0), x.var((0, 1)), torch.tril(x), x.clamp(-1.0, 0.5)


def opened(x: Any, line: Any, conv: Any) -> Any:
    y = line(x)
    return conv(y.transpose(1, 2)).mean(-1), y.reshape(x.shape[0], -1).sum(1), y / x.shape[1]


def interpolated(**how: Any) -> Callable[[], Any]:
    return lambda: Of(lambda x, conv: F.interpolate(conv(x), **how), nn.Conv2d(3, 4, 3))


def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def norms() -> Any:
    made = nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True), nn.BatchNorm2d(8), nn.LayerNorm([6, 6])
    return nn.Sequential(*made)


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.yes, self.no = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: self.yes(x), lambda x: self.no(x).tanh(), (x,))


class Scanned(nn.Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(carry: Any, x: Any) -> Any:
            after = carry * 0.5 + x
            return after, after.sin()

        return scan(step, torch.zeros(4), x)


Made = Callable[[], Any]
# The modules by name: what makes one, the shapes of its inputs.
MODULES: dict[str, tuple[Made, tuple[tuple[int, ...], ...]]] = {
    "multi-head attention": (
        lambda: Of(lambda x, a: a(x, x, x)[0], nn.MultiheadAttention(16, 4, batch_first=True)),
        ((2, 5, 16),),
    ),
    "causal attention": (lambda: Of(attention, nn.Linear(16, 48)), ((2, 5, 16),)),
    "encoder": (encoder, ((2, 5, 16),)),
    "rotary places": (lambda: Of(rotated), ((2, 5, 8),)),
    "gru": (lambda: nn.GRU(8, 12, 2, bidirectional=True, batch_first=True), ((2, 5, 8),)),
    "lstm": (lambda: Of(lambda x, m: (m(x)[0], *m(x)[1]), nn.LSTM(8, 12)), ((5, 2, 8),)),
    "rnn": (lambda: nn.RNN(8, 12, nonlinearity="relu"), ((5, 2, 8),)),
    "transposed convolution": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        ((2, 4, 5, 6),),
    ),
    "bilinear": (interpolated(scale_factor=2, mode="bilinear", align_corners=False), ((1, 3, 8, 8),)),
    "bicubic": (interpolated(size=(9, 13), mode="bicubic", align_corners=True), ((1, 3, 8, 8),)),
    "nearest": (interpolated(scale_factor=1.5, mode="nearest"), ((1, 3, 8, 8),)),
    "antialiased": (interpolated(size=(4, 3), mode="bilinear", antialias=True), ((1, 3, 8, 8),)),
    "einsum": (lambda: Of(lambda x, m: torch.einsum("bi,ji,bj->bj", x, m.weight, m(x)), nn.Linear(3, 4)), ((2, 3),)),
    "norms": (norms, ((2, 8, 6, 6),)),
    "pools": (lambda: Of(pooled), ((2, 3, 13, 13),)),
    "picks": (lambda: Of(picked, nn.Embedding(10, 6)), ((2, 4, 6), (2, 4))),
    "activations": (lambda: Of(activated), ((3, 5),)),
    "paddings": (lambda: Of(padded), ((1, 4, 6, 6),)),
    "samples": (
        lambda: Of(lambda x, at: F.grid_sample(x, at.tanh(), align_corners=False)),
        ((1, 2, 5, 5), (1, 4, 4, 2)),
    ),
    "statistics": (lambda: Of(statistics), ((2, 4, 4),)),
    "branches": (Branches, ((3, 4),)),
    "scan": (Scanned, ((6, 4),)),
}
# What the exporter by tracing has no form for.
BY_GRAPH_ALONE = {"antialiased", "branches", "scan"}


def exported(module: Any, inputs: tuple[Any, ...], by_graph: bool, sizes: Any = None) -> Any:
    """Return the document that an exporter makes; `sizes` are those that stay open, of the first input."""
    # The exporter asks for torchvision's operators, where that can be imported: none of them is in these modules.
    sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if by_graph:
            open_sizes = None if sizes is None else ((dict.fromkeys(sizes, torch.export.Dim.AUTO),),)
            program = torch.onnx.export(module, inputs, dynamo=True, verbose=False, dynamic_shapes=open_sizes)
            program.save(out)
        else:
            axes = {} if sizes is None else {"input_names": ["x"], "dynamic_axes": {"x": sizes}}
            torch.onnx.export(module, inputs, out, dynamo=False, **axes)
    return load(out.getvalue())


def tensors(found: Any) -> list[Any]:
    return [t for part in found for t in tensors(part)] if isinstance(found, (tuple, list)) else [found]


def assert_close(found: Any, wanted: list[Any], within: float = 2e-5) -> None:
    for a, b in zip(tensors(found), wanted, strict=True):
        b = b.detach().numpy()
        assert tuple(a.shape) == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=0, atol=within * (np.abs(b).max(initial=0) + 1e-6))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", ["graph", "trace"])
@pytest.mark.parametrize("name", MODULES)
def test_exports(name: str, exporter: str) -> None:
    if exporter == "trace" and name in BY_GRAPH_ALONE:
        pytest.skip("it exports by graph alone")
    make, shapes = MODULES[name]
    torch.manual_seed(0)
    module = make().eval()
    inputs = tuple(torch.randn(s) if len(s) > 2 or name != "picks" else torch.randint(0, 6, s) for s in shapes)
    wanted = tensors(module(*inputs))
    model = exported(module, inputs, exporter == "graph")
    args = [wg.tensor(x.numpy()) for x in inputs]
    assert_close(model(*args), wanted)
    assert_close(wg.jit(lambda *xs: model(*xs))(*args), wanted)

    def loss(*xs: Any) -> Any:
        weights = [np.cos(np.arange(1, w.numel() + 1, dtype=np.float32)).reshape(w.shape) for w in wanted]
        return sum(wg.sum(y * wg.asarray(v)) for y, v in zip(tensors(model(*xs)), weights))

    start = inputs[0].clone().requires_grad_()
    parts = tensors(module(start, *inputs[1:]))
    whole = sum((y * torch.arange(1, y.numel() + 1).reshape(y.shape).float().cos()).sum() for y in parts)
    (slope,) = torch.autograd.grad(whole, start)
    for gradient in (wg.grad(loss), wg.jit(wg.grad(loss))):
        assert_close(gradient(*args), [slope], 1e-4)
    frozen = model.freeze()
    assert_close(wg.jit(lambda *xs: frozen(*xs))(*args), wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", ["graph", "trace"])
def test_open_sizes(exporter: str) -> None:
    torch.manual_seed(0)
    module = Of(opened, nn.Linear(6, 6), nn.Conv1d(6, 4, 3, padding=1)).eval()
    model = exported(module, (torch.randn(2, 7, 6),), exporter == "graph", {0: "batch", 1: "time"})
    compiled = wg.jit(lambda x: model(x))
    for size in ((2, 7, 6), (3, 9, 6), (1, 4, 6)):
        x = torch.randn(size)
        for run in (model, compiled):
            assert_close(run(wg.tensor(x.numpy())), tensors(module(x)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", ["graph", "trace"])
@pytest.mark.parametrize("name", ["causal attention", "gru", "lstm", "group norm"])
def test_an_import_trains_as_the_module_does(name: str, exporter: str) -> None:
    """Masks, states and ones that the exporter writes stay what they are; what it computed of weights is trained."""
    groups = (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), ((2, 3, 5, 5),))
    make, shapes = {**MODULES, "group norm": groups}[name]
    torch.manual_seed(0)
    module = make().eval()
    inputs = tuple(torch.randn(s) for s in shapes)
    model = exported(module, inputs, exporter == "graph")
    args = [wg.tensor(x.numpy()) for x in inputs]
    theirs = torch.optim.AdamW(module.parameters(), lr=0.01)
    ours = wg.optim.AdamW(model.parameters(), lr=0.01)
    goals = [torch.randn_like(y) for y in tensors(module(*inputs))]

    @wg.jit
    def step(*xs: Any) -> Any:
        ours.zero_grad()
        parts = zip(tensors(model(*xs)), goals)
        loss = sum(wg.mean((y - wg.asarray(g.numpy())) ** 2) for y, g in parts)
        loss.backward()
        ours.step()
        return loss

    module.train()
    for _ in range(40):
        theirs.zero_grad()
        wanted = sum(((y - g) ** 2).mean() for y, g in zip(tensors(module(*inputs)), goals))
        wanted.backward()
        theirs.step()
        np.testing.assert_allclose(step(*args).item(), wanted.item(), rtol=1e-3)
