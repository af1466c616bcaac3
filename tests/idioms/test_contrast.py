"""Objectives over pairs, teachers and perturbed inputs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import Row, both, data, fresh, program


def classes(n: int = 48, k: int = 3) -> tuple[Any, Any]:
    x = data(n, 4)
    return x, (x @ data(4, k, seed=9)).argmax(dim=1)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    with wg.set_default_dtype(wg.float64):
        x, y = classes()
        return np.array(x), np.array(y)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cross_entropy(p: np.ndarray, y: np.ndarray) -> float:
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def small() -> Any:
    return fresh(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))


def logits_of(row: Row, x: np.ndarray, name: str = "model") -> np.ndarray:
    h = np.tanh(x @ row[f"{name}.0.weight"].T + row[f"{name}.0.bias"])
    return h @ row[f"{name}.2.weight"].T + row[f"{name}.2.bias"]


@program
def fgsm(jit: Any) -> Any:
    """Training on the batch and on its adversarial copy (Goodfellow, Shlens and Szegedy 2015)."""
    x, y = classes()
    model = small()
    opt = optim.SGD(model.parameters(), lr=0.3)

    @jit
    def step(x, y, epsilon):
        x_adv = x.clone().detach()
        x_adv.requires_grad = True
        F.cross_entropy(model(x_adv), y).backward()
        x_adv = (x_adv + epsilon * x_adv.grad.sign()).detach()
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y) + F.cross_entropy(model(x_adv), y)
        loss.backward()
        opt.step()
        return loss, x_adv

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], 0.05 * (i + 1)), {"model": model}


@program
def pgd(jit: Any) -> Any:
    """Several signed steps inside a box around the batch (Madry et al. 2018)."""
    x, y = classes()
    model = small()
    opt = optim.SGD(model.parameters(), lr=0.3)

    @jit
    def step(x, y):
        delta = (0.1 * (2 * wg.rand_like(x) - 1)).requires_grad_(True)
        for _ in range(3):
            loss = F.cross_entropy(model(x + delta), y)
            (grad,) = wg.autograd.grad(loss, delta)
            with wg.no_grad():
                delta = (delta + 0.04 * grad.sign()).clamp(-0.1, 0.1)
            delta.requires_grad_(True)
        opt.zero_grad()
        loss = F.cross_entropy(model((x + delta).detach()), y)
        loss.backward()
        opt.step()
        return loss, delta.detach()

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model}


def input_gradient(row: Row, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    h = np.tanh(x @ row["model.0.weight"].T + row["model.0.bias"])
    d = (softmax(logits_of(row, x)) - np.eye(3)[y]) / len(y)
    return ((d @ row["model.2.weight"]) * (1 - h * h)) @ row["model.0.weight"]


def test_fgsm() -> None:
    rows = both(fgsm)
    x, y = arrays()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]
        attacked = xs + 0.05 * (i + 1) * np.sign(input_gradient(before, xs, ys))
        np.testing.assert_allclose(row["result.1"], attacked, rtol=1e-12)
        loss = sum(cross_entropy(softmax(logits_of(before, v)), ys) for v in (xs, attacked))
        np.testing.assert_allclose(row["result.0"], loss, rtol=1e-11)


def test_pgd() -> None:
    rows = both(pgd)
    x, y = arrays()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]
        assert np.abs(row["result.1"]).max() <= 0.1
        attacked = cross_entropy(softmax(logits_of(before, xs + row["result.1"])), ys)
        np.testing.assert_allclose(row["result.0"], attacked, rtol=1e-11)
        assert attacked > cross_entropy(softmax(logits_of(before, xs)), ys)


@program
def mixup(jit: Any) -> Any:
    x, y = classes()
    model = small()
    opt = optim.SGD(model.parameters(), lr=0.3)

    @jit
    def step(x, y, lam):
        order = wg.randperm(len(x))
        mixed = lam * x + (1 - lam) * x[order, :]
        out = model(mixed)
        loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[order])
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, order

    lams = np.random.default_rng(3).beta(0.4, 0.4, 8)
    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], float(lams[i])), {"model": model}


def test_mixup() -> None:
    rows = both(mixup)
    x, y = arrays()
    lams = np.random.default_rng(3).beta(0.4, 0.4, 8)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys, order, lam = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], row["result.1"], lams[i]
        assert sorted(order) == list(range(6))
        p = softmax(logits_of(before, lam * xs + (1 - lam) * xs[order]))
        loss = lam * cross_entropy(p, ys) + (1 - lam) * cross_entropy(p, ys[order])
        np.testing.assert_allclose(row["result.0"], loss, rtol=1e-11)


@program
def label_smoothing(jit: Any) -> Any:
    """By the loss's own option, and class weights beside it."""
    x, y = classes()
    model = small()
    opt = optim.SGD(model.parameters(), lr=0.3)
    criterion = nn.CrossEntropyLoss(weight=wg.tensor([1.0, 2.0, 0.5]), label_smoothing=0.1)

    @jit
    def step(x, y):
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model}


def test_label_smoothing() -> None:
    rows = both(label_smoothing)
    x, y = arrays()
    weight = np.array([1.0, 2.0, 0.5])
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        ys = y[6 * i : 6 * i + 6]
        logs = np.log(softmax(logits_of(before, x[6 * i : 6 * i + 6])))
        target = (0.9 * np.eye(3)[ys] + 0.1 / 3) * weight
        np.testing.assert_allclose(row["result"], -(target * logs).sum() / weight[ys].sum(), rtol=1e-11)


@program
def distillation(jit: Any) -> Any:
    x, y = classes()
    teacher, model = small().eval(), fresh(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3)), 5)
    opt = optim.Adam(model.parameters(), lr=0.02)

    @jit
    def step(x, y, temperature):
        with wg.no_grad():
            targets = teacher(x)
        out = model(x)
        soft = F.kl_div(
            F.log_softmax(out / temperature, dim=1), F.softmax(targets / temperature, dim=1), reduction="batchmean"
        )
        loss = 0.7 * temperature**2 * soft + 0.3 * F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], 4.0 - 0.4 * i), {"model": model, "t": teacher}


def test_distillation() -> None:
    rows = both(distillation)
    x, y = arrays()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys, t = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], 4.0 - 0.4 * i
        p, q = softmax(logits_of(before, xs, "t") / t), softmax(logits_of(before, xs) / t)
        kl = (p * np.log(p / q)).sum(1).mean()
        loss = 0.7 * t * t * kl + 0.3 * cross_entropy(softmax(logits_of(before, xs)), ys)
        np.testing.assert_allclose(row["result"], loss, rtol=1e-10)
        assert "t.0.weight.grad" not in row


@program
def moco(jit: Any) -> Any:
    """A momentum encoder, and a queue of keys that is written in place (He et al. 2020)."""
    x = data(48, 4)
    query = fresh(nn.Linear(4, 3))
    key = copy.deepcopy(query)
    for p in key.parameters():
        p.requires_grad = False
    queue = F.normalize(data(12, 3, seed=3), dim=1)
    pointer = wg.zeros(1, dtype=wg.long)
    opt = optim.SGD(query.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)

    @jit
    def step(a, b):
        q = F.normalize(query(a), dim=1)
        with wg.no_grad():
            for pq, pk in zip(query.parameters(), key.parameters()):
                pk.data = pk.data * 0.99 + pq.data * 0.01
            k = F.normalize(key(b), dim=1)
        positive = wg.einsum("nc,nc->n", q, k).unsqueeze(-1)
        negative = wg.einsum("nc,kc->nk", q, queue.clone().detach())
        logits = wg.cat([positive, negative], dim=1) / 0.2
        loss = F.cross_entropy(logits, wg.zeros(logits.shape[0], dtype=wg.long))
        opt.zero_grad()
        loss.backward()
        opt.step()
        with wg.no_grad():
            places = (pointer + wg.arange(6)) % 12
            queue[places] = k
            pointer.copy_((pointer + 6) % 12)
        return loss

    def call(i):
        xs = x[6 * i : 6 * i + 6]
        return step(xs + 0.1 * wg.randn_like(xs), xs + 0.1 * wg.randn_like(xs))

    return call, {"query": query, "key": key, "queue": queue, "pointer": pointer, "opt": opt}


def test_moco() -> None:
    rows = both(moco)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        np.testing.assert_allclose(
            row["key.weight"], 0.99 * before["key.weight"] + 0.01 * before["query.weight"], rtol=1e-12
        )
        assert row["pointer"] == 6 * (i + 1) % 12
        changed = (row["queue"] != before["queue"]).any(1)
        assert changed.tolist() == ([True] * 6 + [False] * 6 if i % 2 == 0 else [False] * 6 + [True] * 6)
        np.testing.assert_allclose(np.linalg.norm(row["queue"], axis=1), 1.0, rtol=1e-12)


@program
def byol(jit: Any) -> Any:
    """Two views, a predictor, and a target network that follows (Grill et al. 2020)."""
    x = data(48, 4)
    online = fresh(nn.Sequential(nn.Linear(4, 5, bias=False), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)))
    target = copy.deepcopy(online)
    predictor = fresh(nn.Linear(3, 3), 1)
    opt = optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.1)

    def regression(p, z):
        return (2 - 2 * F.cosine_similarity(p, z.detach(), dim=-1)).mean()

    @jit
    def step(a, b, tau):
        with wg.no_grad():
            ta, tb = target(a), target(b)
        loss = regression(predictor(online(a)), tb) + regression(predictor(online(b)), ta)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with wg.no_grad():
            for p, q in zip(online.parameters(), target.parameters()):
                q.lerp_(p, 1 - tau)
        return loss

    def call(i):
        xs = x[6 * i : 6 * i + 6]
        return step(xs + 0.1 * wg.randn_like(xs), xs + 0.1 * wg.randn_like(xs), 0.9 + 0.01 * i)

    return call, {"online": online, "target": target, "predictor": predictor}


def test_byol() -> None:
    rows = both(byol)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        tau = 0.9 + 0.01 * i
        expected = tau * before["target.3.weight"] + (1 - tau) * row["online.3.weight"]
        np.testing.assert_allclose(row["target.3.weight"], expected, rtol=1e-10)
        assert 0 < row["result"] < 8


@program
def simclr(jit: Any) -> Any:
    """NT-Xent over 2n views, each pair's own similarity struck out by -inf (Chen et al. 2020)."""
    x = data(48, 4)
    model = fresh(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)))
    opt = optim.Adam(model.parameters(), lr=0.01)

    @jit
    def step(a, b):
        z = F.normalize(model(wg.cat([a, b])), dim=1)
        n = z.shape[0]
        similarity = z @ z.T / 0.5
        similarity = similarity.masked_fill(wg.eye(n, dtype=wg.bool), float("-inf"))
        targets = (wg.arange(n) + n // 2) % n
        loss = F.cross_entropy(similarity, targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, z.detach()

    def call(i):
        xs = x[6 * i : 6 * i + 6]
        return step(xs + 0.1 * wg.randn_like(xs), xs + 0.1 * wg.randn_like(xs))

    return call, {"model": model}


def test_simclr() -> None:
    for row in both(simclr)[1:]:
        z, total = row["result.1"], 0.0
        for i in range(12):
            others = [j for j in range(12) if j != i]
            e = np.exp(z[others] @ z[i] / 0.5)
            total -= np.log(np.exp(z[(i + 6) % 12] @ z[i] / 0.5) / e.sum())
        np.testing.assert_allclose(row["result.0"], total / 12, rtol=1e-11)


@program
def triplet(jit: Any) -> Any:
    """Batch-hard triplets: the farthest of one's own class, the nearest of another (Hermans et al. 2017)."""
    x, y = classes()
    model = fresh(nn.Linear(4, 3))
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        z = model(x)
        square = ((z[:, None] - z[None, :]) ** 2).sum(-1)
        distance = wg.sqrt(square + 1e-12)
        same = y[:, None] == y[None, :]
        farthest = distance.masked_fill(~same, 0.0).amax(dim=1)
        nearest = wg.where(same, float("inf"), distance).amin(dim=1)
        loss = F.relu(farthest - nearest + 0.5).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"model": model}


def test_triplet() -> None:
    rows = both(triplet)
    x, y = arrays()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        z, ys, total = x[6 * i : 6 * i + 6] @ before["model.weight"].T, y[6 * i : 6 * i + 6], 0.0
        for k in range(6):
            d = np.linalg.norm(z - z[k], axis=1)
            nearest = min((d[j] for j in range(6) if ys[j] != ys[k]), default=np.inf)
            total += max(0.0, max(d[j] for j in range(6) if ys[j] == ys[k]) - nearest + 0.5)
        np.testing.assert_allclose(row["result"], total / 6, rtol=1e-5)


@program
def focal(jit: Any) -> Any:
    """The focal loss over those boxes that are not ignored (Lin et al. 2017)."""
    x = data(48, 4)
    target = (data(48, 2, seed=4) > 0.8).double()
    valid = data(48, 2, seed=5) > -1.0
    model = fresh(nn.Linear(4, 2))
    opt = optim.SGD(model.parameters(), lr=0.5)

    @jit
    def step(x, target, valid, gamma):
        logits = model(x)
        p = wg.sigmoid(logits)
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p_t = p * target + (1 - p) * (1 - target)
        alpha_t = 0.25 * target + 0.75 * (1 - target)
        loss = (alpha_t * (1 - p_t) ** gamma * ce * valid).sum() / valid.sum().clamp(min=1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def call(i):
        r = slice(6 * i, 6 * i + 6)
        return step(x[r], target[r], valid[r], 1.0 + 0.25 * i)

    return call, {"model": model, "target": target, "valid": valid}


def test_focal() -> None:
    rows = both(focal)
    x, _ = arrays()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        r = slice(6 * i, 6 * i + 6)
        p = 1 / (1 + np.exp(-(x[r] @ before["model.weight"].T + before["model.bias"])))
        t, valid = before["target"][r] == 1, before["valid"][r]
        p_t = np.where(t, p, 1 - p)[valid]
        loss = -(np.where(t, 0.25, 0.75)[valid] * (1 - p_t) ** (1 + 0.25 * i) * np.log(p_t)).mean()
        np.testing.assert_allclose(row["result"], loss, rtol=1e-11)


@program
def sharpness_aware(jit: Any) -> Any:
    """SAM: up the gradient in place, the gradient there, back, and down (Foret et al. 2021)."""
    x, y = classes()
    model = small()
    opt = optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    @jit
    def step(x, y, rho):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with wg.no_grad():
            norm = wg.norm(wg.stack([p.grad.norm(2) for p in model.parameters()]), 2)
            moved = []
            for p in model.parameters():
                e = p.grad * (rho / (norm + 1e-12))
                p.add_(e)
                moved.append(e)
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with wg.no_grad():
            for p, e in zip(model.parameters(), moved):
                p.sub_(e)
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6], 0.1 / (i + 1)), {"model": model, "opt": opt}


def gradients(row: Row, x: np.ndarray, y: np.ndarray) -> Row:
    h = np.tanh(x @ row["model.0.weight"].T + row["model.0.bias"])
    d = (softmax(logits_of(row, x)) - np.eye(3)[y]) / len(y)
    dh = (d @ row["model.2.weight"]) * (1 - h * h)
    return {"model.0.weight": dh.T @ x, "model.0.bias": dh.sum(0), "model.2.weight": d.T @ h, "model.2.bias": d.sum(0)}


def test_sharpness_aware() -> None:
    rows = both(sharpness_aware)
    x, y = arrays()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, ys = x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]
        first = gradients(before, xs, ys)
        norm = np.sqrt(sum((g**2).sum() for g in first.values()))
        second = gradients({k: before[k] + 0.1 / (i + 1) / norm * g for k, g in first.items()}, xs, ys)
        for name, g in second.items():
            np.testing.assert_allclose(row[f"{name}.grad"], g, rtol=1e-8, atol=1e-11, err_msg=name)
