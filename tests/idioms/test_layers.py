"""Layers and what people do to their parameters: freeze, tie, adapt, mask, quantise, normalise, hook."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import both, data, fresh, program


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def classes(n: int = 48, k: int = 3) -> tuple[Any, Any]:
    x = data(n, 4)
    return x, (x @ data(4, k, seed=9)).argmax(dim=1)


@program(traces=3)
def freeze_and_unfreeze(jit: Any) -> Any:
    """The trunk is frozen for three steps, then learns, then is frozen again."""
    x, y = classes()
    trunk, head = fresh(nn.Linear(4, 5)), fresh(nn.Linear(5, 3), 1)
    opt = optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.2, momentum=0.5)

    @jit
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(head(wg.tanh(trunk(x))), y)
        loss.backward()
        opt.step()
        return loss

    def call(i):
        for p in trunk.parameters():
            p.requires_grad = 3 <= i < 6
        return step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6])

    return call, {"trunk": trunk, "head": head, "opt": opt}


def test_freeze_and_unfreeze() -> None:
    rows = both(freeze_and_unfreeze)
    moved = [(a["trunk.weight"] != b["trunk.weight"]).any() for a, b in zip(rows, rows[1:])]
    assert moved == [False] * 3 + [True] * 3 + [False] * 2


class LoRA(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.a = nn.Parameter(data(rank, base.in_features, seed=3) * 0.1)
        self.b = nn.Parameter(wg.zeros(base.out_features, rank))
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.a.T @ self.b.T) * self.scaling


@program
def lora(jit: Any) -> Any:
    x, y = classes()
    model = nn.Sequential(LoRA(fresh(nn.Linear(4, 5)), 2, 4.0), nn.ReLU(), LoRA(fresh(nn.Linear(5, 3), 1), 2, 4.0))
    opt = optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.05)

    @jit
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model, "opt": opt}


def test_lora() -> None:
    rows = both(lora)
    assert (rows[0]["model.0.base.weight"] == rows[-1]["model.0.base.weight"]).all()
    assert "model.0.base.weight.grad" not in rows[-1]
    # At b = 0 the gradient of a is 0 and that of b is the low-rank projection of the full one.
    assert not rows[1]["model.0.a.grad"].any()
    assert rows[1]["model.2.b.grad"].any()
    assert rows[2]["model.0.a.grad"].any()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.body = nn.Linear(4, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(wg.tanh(self.body(self.embed(tokens))))


@program
def weight_tying(jit: Any) -> Any:
    tokens = wg.tensor(np.random.default_rng(4).integers(0, 7, (16, 6)))
    model = fresh(Tied())
    opt = optim.Adam(model.parameters(), lr=0.02)

    @jit
    def step(tokens):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 7), tokens[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(tokens[2 * i : 2 * i + 2]), {"model": model, "opt": opt}


def test_weight_tying() -> None:
    rows = both(weight_tying)
    assert all((row["model.embed.weight"] == row["model.out.weight"]).all() for row in rows)
    assert sorted(k for k in rows[1] if k.startswith("opt.") and k.endswith("exp_avg")) == [
        f"opt.{i}.exp_avg" for i in range(3)
    ]
    # The tied weight moves every unit, so also the rows of tokens that do not occur.
    assert (rows[1]["model.embed.weight"] != rows[0]["model.embed.weight"]).any(1).all()


@program(traces=3)
def dropout_train_and_eval(jit: Any) -> Any:
    x, y = classes()
    model = fresh(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)))
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        model.train()
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    @jit
    @wg.no_grad()
    def evaluate(x, y):
        model.eval()
        logits = model(x)
        return F.cross_entropy(logits, y), (logits.argmax(dim=-1) == y).sum()

    def call(i):
        return step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), evaluate(x, y)

    return call, {"model": model}


def test_dropout() -> None:
    rows = both(dropout_train_and_eval)
    with wg.set_default_dtype(wg.float64):
        x, y = (np.array(a) for a in classes())
    for row in rows[1:]:
        h = np.maximum(x @ row["model.0.weight"].T + row["model.0.bias"], 0)
        p = softmax(h @ row["model.3.weight"].T + row["model.3.bias"])
        np.testing.assert_allclose(row["result.1.0"], -np.log(p[np.arange(48), y]).mean(), rtol=1e-12)
        assert row["result.1.1"] == (p.argmax(1) == y).sum()
    assert len({row["rng"].tobytes() for row in rows[1:]}) == 8


@program(traces=3)
def batch_norm_train_and_eval(jit: Any) -> Any:
    x, y = classes()
    model = fresh(nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)))
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def forward(x, y):
        loss = F.cross_entropy(model(x), y)
        if model.training:
            opt.zero_grad()
            loss.backward()
            opt.step()
        return loss

    def call(i):
        model.train()
        loss = forward(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6])
        model.eval()
        return loss, forward(x[:6], y[:6])

    return call, {"model": model}


def test_batch_norm() -> None:
    rows = both(batch_norm_train_and_eval)
    with wg.set_default_dtype(wg.float64):
        x = np.array(classes()[0])
    mean, var = np.zeros(6), np.ones(6)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        h = x[6 * i : 6 * i + 6] @ before["model.0.weight"].T
        mean, var = 0.9 * mean + 0.1 * h.mean(0), 0.9 * var + 0.1 * h.var(0, ddof=1)
        np.testing.assert_allclose(row["model.1.running_mean"], mean, rtol=1e-12)
        np.testing.assert_allclose(row["model.1.running_var"], var, rtol=1e-12)
        assert row["model.1.num_batches_tracked"] == i + 1


@program
def norms(jit: Any) -> Any:
    """Group norm in a small convolutional network, layer and RMS norm behind it."""
    images = data(16, 2, 5, 5)
    labels = wg.tensor([0, 1, 2, 1] * 4)
    model = fresh(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(16, 6), nn.LayerNorm(6), nn.GELU(), nn.RMSNorm(6), nn.Linear(6, 3),
        )
    )  # fmt: skip
    opt = optim.AdamW(model.parameters(), lr=0.01)

    @jit
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(images[2 * i : 2 * i + 2], labels[2 * i : 2 * i + 2]), {"model": model, "opt": opt}


def test_norms() -> None:
    rows = both(norms)
    # Group norm forgets its input's scale, so the loss is flat along the convolution's weights (and biases).
    row, before = rows[1], rows[0]
    along = (row["model.0.weight.grad"] * before["model.0.weight"]).sum() + (
        row["model.0.bias.grad"] * before["model.0.bias"]
    ).sum()
    assert abs(along) < 1e-5 * np.abs(row["model.0.weight.grad"]).max()


class Experts(nn.Module):
    def __init__(self, n, k):
        super().__init__()
        self.gate = nn.Linear(4, n, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 4)) for _ in range(n)])
        self.k = k

    def forward(self, x):
        scores, chosen = wg.topk(self.gate(x), self.k, dim=-1)
        weights = F.softmax(scores, dim=-1)
        out = wg.zeros_like(x)
        for e, expert in enumerate(self.experts):
            weight = (weights * (chosen == e)).sum(-1, keepdim=True)
            out = out + weight * expert(x)
        load = F.one_hot(chosen, len(self.experts)).sum((0, 1)) / chosen.numel()
        return out, len(self.experts) * (load * F.softmax(self.gate(x), dim=-1).mean(0)).sum()


@program
def mixture_of_experts(jit: Any) -> Any:
    x = data(48, 4)
    y = x.flip(1) * wg.where(x[:, :1] > 0, 1.0, -1.0)
    model = fresh(Experts(4, 2))
    opt = optim.Adam(model.parameters(), lr=0.02)

    @jit
    def step(x, y):
        out, balance = model(x)
        loss = F.mse_loss(out, y) + 0.01 * balance
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, balance

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model, "opt": opt}


def test_mixture_of_experts() -> None:
    rows = both(mixture_of_experts)
    with wg.set_default_dtype(wg.float64):
        x = np.array(data(48, 4))
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs = x[6 * i : 6 * i + 6]
        scores = xs @ before["model.gate.weight"].T
        chosen = np.argsort(-scores)[:, :2]
        weights = softmax(np.take_along_axis(scores, chosen, 1))
        target = xs[:, ::-1] * np.where(xs[:, :1] > 0, 1.0, -1.0)
        loss = 0.0
        for r in range(6):
            out = 0.0
            for e, w in zip(chosen[r], weights[r]):
                name = f"model.experts.{e}"
                h = np.tanh(before[f"{name}.0.weight"] @ xs[r] + before[f"{name}.0.bias"])
                out = out + w * (before[f"{name}.2.weight"] @ h + before[f"{name}.2.bias"])
            loss += ((out - target[r]) ** 2).sum() / 24
        load = np.bincount(chosen.ravel(), minlength=4) / 12
        balance = 4 * (load * softmax(scores).mean(0)).sum()
        np.testing.assert_allclose(row["result.1"], balance, rtol=1e-12)
        np.testing.assert_allclose(row["result.0"], loss + 0.01 * balance, rtol=1e-12)


class Round(wg.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return wg.clamp(wg.round(x / scale), -8, 7) * scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        return g * ((x / scale >= -8) & (x / scale <= 7)), None


@program
def quantisation_aware(jit: Any) -> Any:
    """Weights rounded by a Function of one's own, activations by the detach trick; the scale is a moving maximum."""
    x, y = classes()
    first, last = fresh(nn.Linear(4, 5)), fresh(nn.Linear(5, 3), 1)
    amax = wg.zeros(())
    opt = optim.SGD([*first.parameters(), *last.parameters()], lr=0.2)

    @jit
    def step(x, y):
        opt.zero_grad()
        scale = first.weight.detach().abs().max() / 7
        h = F.relu(F.linear(x, Round.apply(first.weight, scale), first.bias))
        with wg.no_grad():
            amax.copy_(wg.maximum(0.9 * amax, h.max()))
        q = wg.clamp(wg.round(h / amax * 15), 0, 15) / 15 * amax
        h = h + (q - h).detach()
        loss = F.cross_entropy(last(h), y)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"first": first, "last": last, "amax": amax}


def test_quantisation_aware() -> None:
    rows = both(quantisation_aware)
    with wg.set_default_dtype(wg.float64):
        x, y = (np.array(a) for a in classes())
    amax = 0.0
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]
        scale = np.abs(before["first.weight"]).max() / 7
        w = np.clip(np.round(before["first.weight"] / scale), -8, 7) * scale
        h = np.maximum(xs @ w.T + before["first.bias"], 0)
        amax = max(0.9 * amax, h.max())
        q = np.round(h / amax * 15) / 15 * amax
        p = softmax(q @ before["last.weight"].T + before["last.bias"])
        np.testing.assert_allclose(row["result"], -np.log(p[np.arange(6), ys]).mean(), rtol=1e-12)
        d = (p - np.eye(3)[ys]) / 6
        np.testing.assert_allclose(row["first.weight.grad"], ((d @ before["last.weight"]) * (h > 0)).T @ xs, rtol=1e-10)


class SpectralLinear(nn.Module):
    """A linear layer of norm 1, by one power iteration a step on the buffer u."""

    def __init__(self, n, m):
        super().__init__()
        self.weight = nn.Parameter(data(m, n, seed=2))
        self.register_buffer("u", F.normalize(wg.ones(m), dim=0))

    def forward(self, x):
        with wg.no_grad():
            v = F.normalize(self.weight.t() @ self.u, dim=0)
            if self.training:
                self.u.copy_(F.normalize(self.weight @ v, dim=0))
        sigma = wg.dot(self.u, self.weight @ v)
        return x @ (self.weight / sigma).t()


@program
def spectral_norm(jit: Any) -> Any:
    x, y = classes()
    model = nn.Sequential(SpectralLinear(4, 5), nn.LeakyReLU(0.1), SpectralLinear(5, 3))
    opt = optim.Adam(model.parameters(), lr=0.01, betas=(0.0, 0.9))

    @jit
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model, "opt": opt}


def test_spectral_norm() -> None:
    rows = both(spectral_norm)
    for before, row in zip(rows, rows[1:]):
        w, u = before["model.0.weight"], before["model.0.u"]
        v = w.T @ u / np.linalg.norm(w.T @ u)
        np.testing.assert_allclose(row["model.0.u"], w @ v / np.linalg.norm(w @ v), rtol=1e-12)
        # The normalised weight does not depend on the weight's scale.
        assert abs((w * row["model.0.weight.grad"]).sum()) < 1e-12


@program
def gumbel_softmax(jit: Any) -> Any:
    """A categorical bottleneck, straight through, at a falling temperature."""
    x = data(48, 4)
    encoder, decoder = fresh(nn.Linear(4, 6)), fresh(nn.Linear(6, 4), 1)
    opt = optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)

    @jit
    def step(x, tau):
        logits = encoder(x).view(-1, 2, 3)
        gumbels = -wg.log(-wg.log(wg.rand(6, 2, 3)))
        soft = F.softmax((logits + gumbels) / tau, dim=-1)
        hard = F.one_hot(soft.argmax(dim=-1), 3).to(soft.dtype)
        z = hard - soft.detach() + soft
        loss = F.mse_loss(decoder(z.flatten(1)), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, z.detach()

    return lambda i: step(x[6 * i : 6 * i + 6], 1.0 * 0.8**i), {"encoder": encoder, "decoder": decoder, "opt": opt}


def test_gumbel_softmax() -> None:
    rows = both(gumbel_softmax)
    codes = np.stack([row["result.1"] for row in rows[1:]])
    np.testing.assert_allclose(np.sort(codes, -1), np.broadcast_to([0.0, 0.0, 1.0], codes.shape), atol=1e-12)
    assert len({c.tobytes() for c in codes.round()}) == 8


@program
def pruning_by_masks(jit: Any) -> Any:
    """The smallest weights are cut after every other step and stay zero."""
    x, y = classes()
    model = fresh(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)))
    weights = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    masks = [wg.ones_like(w) for w in weights]
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @jit
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        for w, m in zip(weights, masks):
            w.grad.mul_(m)
        opt.step()
        with wg.no_grad():
            for w, m in zip(weights, masks):
                w *= m
        return loss

    @jit
    def prune(share):
        with wg.no_grad():
            for w, m in zip(weights, masks):
                m[w.abs() < w.abs().mean() * share] = 0.0
                w.mul_(m)

    def call(i):
        loss = step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6])
        if i % 2:
            prune(0.3 * i)
        return loss

    return call, {"model": model, "masks": masks, "opt": opt}


def test_pruning() -> None:
    rows = both(pruning_by_masks)
    zeros = [(row["model.0.weight"] == 0).sum() for row in rows]
    assert zeros == sorted(zeros)
    assert zeros[-1] > 4
    assert all(((row["model.0.weight"] == 0) == (row["masks.0"] == 0)).all() for row in rows)


@program
def gradient_hooks(jit: Any) -> Any:
    """One hook scales a parameter's gradient, one clips an activation's, one logs by returning nothing."""
    x, y = classes()
    first, last = fresh(nn.Linear(4, 5)), fresh(nn.Linear(5, 3), 1)
    first.weight.register_hook(lambda g: g * 0.1)
    last.bias.register_hook(lambda g: g - g.mean())
    last.weight.register_hook(lambda g: None)
    opt = optim.SGD([*first.parameters(), *last.parameters()], lr=0.5)

    @jit
    def step(x, y):
        opt.zero_grad()
        h = wg.tanh(first(x))
        h.register_hook(lambda g: g.clamp(-0.05, 0.05))
        loss = F.cross_entropy(last(h), y)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"first": first, "last": last}


def test_gradient_hooks() -> None:
    rows = both(gradient_hooks)
    with wg.set_default_dtype(wg.float64):
        x, y = (np.array(a) for a in classes())
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]
        h = np.tanh(xs @ before["first.weight"].T + before["first.bias"])
        d = (softmax(h @ before["last.weight"].T + before["last.bias"]) - np.eye(3)[ys]) / 6
        np.testing.assert_allclose(row["last.bias.grad"], d.sum(0) - d.sum(0).mean(), rtol=1e-9, atol=1e-15)
        dh = np.clip(d @ before["last.weight"], -0.05, 0.05) * (1 - h * h)
        np.testing.assert_allclose(row["first.weight.grad"], 0.1 * dh.T @ xs, rtol=1e-9, atol=1e-15)


@program(peer=False)
def checkpointed_blocks(jit: Any) -> Any:
    """`wg.checkpoint` takes the function alone, PyTorch's the arguments as well."""
    x, y = classes()
    blocks = nn.ModuleList([fresh(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh()), s) for s in range(3)])
    head = fresh(nn.Linear(4, 3), 7)
    opt = optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.2)

    @jit
    def step(x, y):
        opt.zero_grad()
        for block in blocks:
            x = x + wg.checkpoint(block)(x)
        loss = F.cross_entropy(head(x), y)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"blocks": blocks, "head": head}


@program(peer=False)
def unchecked_blocks(jit: Any) -> Any:
    """The same without checkpoints."""
    x, y = classes()
    blocks = nn.ModuleList([fresh(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh()), s) for s in range(3)])
    head = fresh(nn.Linear(4, 3), 7)
    opt = optim.SGD([*blocks.parameters(), *head.parameters()], lr=0.2)

    @jit
    def step(x, y):
        opt.zero_grad()
        for block in blocks:
            x = x + block(x)
        loss = F.cross_entropy(head(x), y)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"blocks": blocks, "head": head}


def test_checkpointed_blocks() -> None:
    for a, b in zip(both(checkpointed_blocks), both(unchecked_blocks)):
        for name, value in a.items():
            np.testing.assert_allclose(b[name], value, rtol=1e-12, atol=1e-15, err_msg=name)


class HyperLinear(nn.Module):
    """A layer whose weights another network makes from a code."""

    def __init__(self):
        super().__init__()
        self.make = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4 * 3 + 3))

    def forward(self, x, code):
        made = self.make(code)
        weight, bias = made[:12].view(3, 4), made[12:]
        return F.linear(x, weight, bias)


@program
def hypernetwork(jit: Any) -> Any:
    x, y = classes()
    codes = nn.Parameter(data(2, 2, seed=6))
    model = fresh(HyperLinear())
    opt = optim.Adam([*model.parameters(), codes], lr=0.05)

    @jit
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x, codes[0]), y) + F.cross_entropy(model(-x, codes[1]), y)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model, "codes": codes, "opt": opt}


def test_hypernetwork() -> None:
    rows = both(hypernetwork)
    with wg.set_default_dtype(wg.float64):
        x, y = (np.array(a) for a in classes())
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys, loss = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], 0.0
        for sign, code in zip((1, -1), before["codes"]):
            h = np.maximum(before["model.make.0.weight"] @ code + before["model.make.0.bias"], 0)
            made = before["model.make.2.weight"] @ h + before["model.make.2.bias"]
            p = softmax(sign * xs @ made[:12].reshape(3, 4).T + made[12:])
            loss -= np.log(p[np.arange(6), ys]).mean()
        np.testing.assert_allclose(row["result"], loss, rtol=1e-12)


@program(rtol=2e-3)
def loss_scaling(jit: Any) -> Any:
    """Half precision inside, float32 weights outside, the gradient scaled up on its way; an overflow skips the step."""
    x, y = classes()
    model = fresh(nn.Linear(4, 3)).float()
    scale, good = wg.tensor(1024.0), wg.tensor(0)
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        opt.zero_grad()
        half = F.linear(x.half(), model.weight.half(), model.bias.half())
        loss = F.cross_entropy(half.float(), y)
        (loss * scale.float()).backward()
        finite = wg.stack([wg.isfinite(p.grad).all() for p in model.parameters()]).all()
        with wg.no_grad():
            for p in model.parameters():
                p.grad.div_(scale.float())
                p.grad = wg.where(finite, p.grad, wg.zeros_like(p.grad))
            good.copy_(wg.where(finite, good + 1, 0))
            scale.copy_(wg.where(finite, wg.where(good % 3 == 0, scale * 2, scale), scale / 2))
        opt.step()
        return loss

    def call(i):
        xs = x[6 * i : 6 * i + 6].float()
        return step(xs * (1e4 if i == 4 else 1.0), y[6 * i : 6 * i + 6])

    return call, {"model": model, "scale": scale, "good": good}


@program(rtol=2e-2)
def bfloat16_activations(jit: Any) -> Any:
    x, y = classes()
    model = fresh(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))).float()
    opt = optim.SGD(model.parameters(), lr=0.2)

    @jit
    def step(x, y):
        opt.zero_grad()
        h = x.to(wg.bfloat16)
        for layer in model:
            if isinstance(layer, nn.Linear):
                h = F.linear(h, layer.weight.to(wg.bfloat16), layer.bias.to(wg.bfloat16))
            else:
                h = layer(h)
        loss = F.cross_entropy(h.float(), y)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model}


def test_half_precision() -> None:
    rows = both(loss_scaling)
    assert [int(row["good"]) for row in rows] == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert (rows[5]["model.weight"] == rows[4]["model.weight"]).all()
    both(bfloat16_activations)
