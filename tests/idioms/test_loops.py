"""The loop around a step: batches, accumulation, clipping, schedules, averages of weights, checkpoints, logging."""

from __future__ import annotations

import copy
import io
import math
import pickle
from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import Row, both, data, fresh, program


def line(n: int = 40) -> tuple[Any, Any]:
    x = data(n, 3)
    return x, x @ wg.tensor([[1.0], [-2.0], [0.5]]) + 0.3 + 0.1 * data(n, 1, seed=1)


def mlp(seed: int = 0) -> Any:
    return fresh(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), seed)


def least_squares(row: Row, x: np.ndarray, y: np.ndarray, name: str = "model") -> tuple[np.ndarray, np.ndarray]:
    """The gradient of a linear model's mean squared error in its weight and its bias."""
    error = x @ row[f"{name}.weight"].T + row[f"{name}.bias"] - y
    return 2 * error.T @ x / len(x), 2 * error.mean(0)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    with wg.set_default_dtype(wg.float64):
        x, y = line()
    return np.array(x), np.array(y)


@program
def regression(jit: Any) -> Any:
    x, y = line()
    model = fresh(nn.Linear(3, 1))
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5]), {"model": model, "opt": opt}


def test_regression() -> None:
    rows = both(regression)
    x, y = arrays()
    w, b = rows[0]["model.weight"], rows[0]["model.bias"]
    for i in range(8):
        r = slice(5 * i, 5 * i + 5)
        dw, db = least_squares({"model.weight": w, "model.bias": b}, x[r], y[r])
        w, b = w - 0.1 * dw, b - 0.1 * db
    np.testing.assert_allclose(rows[-1]["model.weight"], w, rtol=1e-10)
    np.testing.assert_allclose(rows[-1]["model.bias"], b, rtol=1e-10)


@program(peer=False, traces=3)
def shuffled_batches(jit: Any) -> Any:
    """The last batch of an epoch is shorter; PyTorch's DataLoader shuffles otherwise."""
    x, y = line(22)
    model = mlp()
    opt = optim.RMSprop(model.parameters(), lr=0.01)

    @jit
    def step(x, y):
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss

    batches = [b for epoch in range(3) for b in wg.data.batches(x, y, size=8, shuffle=True, seed=epoch)]
    return lambda i: step(*batches[i]), {"model": model, "opt": opt, "batches": batches}


def test_shuffled_batches() -> None:
    rows = both(shuffled_batches)
    x, _ = arrays()
    for epoch in range(3):
        seen = np.concatenate([rows[0][f"batches.{3 * epoch + k}.0"] for k in range(3)])
        assert len(seen) == 22
        assert {tuple(r) for r in seen} == {tuple(r) for r in x[:22]}


@program
def gradient_accumulation(jit: Any) -> Any:
    x, y = line()
    model = fresh(nn.Linear(3, 1))
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    accumulate = 4

    @jit
    def step(x, y):
        total = 0.0
        opt.zero_grad()
        for xs, ys in zip(x.chunk(accumulate), y.chunk(accumulate)):
            loss = F.mse_loss(model(xs), ys) / accumulate
            loss.backward()
            total += loss.detach()
        opt.step()
        return total

    return lambda i: step(x[4 * i : 4 * i + 8], y[4 * i : 4 * i + 8]), {"model": model, "opt": opt}


@program
def accumulation_across_calls(jit: Any) -> Any:
    """Gradients add up in four compiled calls, the optimiser steps outside of them."""
    x, y = line()
    model = fresh(nn.Linear(3, 1))
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @jit
    def accumulate(x, y):
        loss = F.mse_loss(model(x), y) / 4
        loss.backward()
        return loss

    def call(i):
        loss = accumulate(x[4 * i : 4 * i + 4], y[4 * i : 4 * i + 4])
        if (i + 1) % 4 == 0:
            opt.step()
            opt.zero_grad()
        return loss

    return call, {"model": model, "opt": opt}


def test_gradient_accumulation() -> None:
    x, y = arrays()
    rows = both(gradient_accumulation)
    dw, db = least_squares(rows[0], x[:8], y[:8])
    np.testing.assert_allclose(rows[1]["model.weight.grad"], dw, rtol=1e-10)
    np.testing.assert_allclose(rows[1]["model.bias"], rows[0]["model.bias"] - 0.1 * db, rtol=1e-10)
    rows = both(accumulation_across_calls)
    dw, db = least_squares(rows[0], x[:12], y[:12])
    np.testing.assert_allclose(rows[3]["model.weight.grad"], dw * 3 / 4, rtol=1e-10)
    assert "model.weight.grad" not in rows[4]


@program
def clip_by_norm(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y, max_norm):
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        opt.step()
        return loss, norm

    return lambda i: step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5], 0.5 * 1.3**i), {"model": model}


@program
def clip_by_value(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), clip_value=0.1)
        largest = max(p.grad.abs().max() for p in model.parameters())
        opt.step()
        return largest

    return lambda i: step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5]), {"model": model}


def test_clipping() -> None:
    clipped = 0
    for i, row in enumerate(both(clip_by_norm)[1:]):
        left = math.sqrt(sum((g**2).sum() for k, g in row.items() if k.endswith(".grad")))
        norm, bound = float(row["result.1"]), 0.5 * 1.3**i
        clipped += norm > bound
        np.testing.assert_allclose(left, min(norm, bound), rtol=1e-5)
    assert 0 < clipped < 8
    rows = both(clip_by_value)
    assert all(row["result"] == max(np.abs(g).max() for k, g in row.items() if k.endswith(".grad")) for row in rows[1:])
    assert rows[1]["result"] == 0.1


@program
def decay_groups(jit: Any) -> Any:
    """Weights decay, biases and norms do not, and the head learns faster."""
    x, y = line()
    model = fresh(nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 1)))
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and not n.startswith("3")]
    no_decay = [p for n, p in model.named_parameters() if p.ndim == 1 and not n.startswith("3")]
    opt = optim.AdamW(
        [
            {"params": decay, "weight_decay": 0.1},
            {"params": no_decay, "weight_decay": 0.0},
            {"params": model[3].parameters(), "lr": 0.05},
        ],
        lr=0.01,
    )

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5]), {"model": model, "opt": opt}


def test_decay_groups() -> None:
    rows = both(decay_groups)
    before, after = rows[0], rows[1]

    def update(name: str, lr: float, decay: float) -> None:
        """AdamW's first step: its two means agree with the gradient and its square."""
        g, p = after[f"model.{name}.grad"], before[f"model.{name}"]
        expected = p * (1 - lr * decay) - lr * g / (np.abs(g) + 1e-8)
        np.testing.assert_allclose(after[f"model.{name}"], expected, rtol=1e-9, err_msg=name)

    update("0.weight", 0.01, 0.1)
    update("0.bias", 0.01, 0.0)
    update("1.weight", 0.01, 0.0)
    update("3.weight", 0.05, 0.01)


@program
def warm_up_and_cosine(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    opt = optim.Adam(model.parameters(), lr=0.1)
    scheduler = optim.lr_scheduler.LambdaLR(
        opt, lambda t: (t + 1) / 3 if t < 3 else 0.5 * (1 + math.cos(math.pi * (t - 3) / 5))
    )

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def call(i):
        loss = step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5])
        scheduler.step()
        return loss, scheduler.get_last_lr()[0]

    return call, {"model": model, "opt": opt}


@program
def schedules_in_sequence(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    warm = optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=3)
    cosine = optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5, eta_min=1e-3)
    scheduler = optim.lr_scheduler.SequentialLR(opt, schedulers=[warm, cosine], milestones=[3])

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def call(i):
        loss = step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5])
        scheduler.step()
        return loss

    return call, {"model": model, "opt": opt}


@program(calls=12)
def plateau(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.5)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(opt, "min", factor=0.5, patience=1)

    @jit
    def step(x, y):
        opt.zero_grad()
        loss = F.l1_loss(model(x), y)
        loss.backward()
        opt.step()
        return loss

    def call(i):
        k = i % 8
        loss = step(x[5 * k : 5 * k + 5], y[5 * k : 5 * k + 5])
        scheduler.step(loss.item())
        return loss, opt.param_groups[0]["lr"]

    return call, {"model": model}


def test_schedules() -> None:
    rows = both(warm_up_and_cosine)
    lr = [float(row["opt.0"]) for row in rows]
    wave = [0.05 * (1 + math.cos(math.pi * k / 5)) for k in range(6)]
    np.testing.assert_allclose(lr, [0.1 / 3, 0.2 / 3, 0.1, *wave], atol=1e-15)
    lr = [float(row["opt.0"]) for row in both(schedules_in_sequence)]
    np.testing.assert_allclose(lr[:4], [0.01, 0.04, 0.07, 0.1])
    np.testing.assert_allclose(lr[8], 1e-3)
    best, bad, expected, found = math.inf, 0, 0.5, both(plateau)[1:]
    for row in found:
        loss = float(row["result.0"])
        best, bad = (loss, 0) if loss < best * (1 - 1e-4) else (best, bad + 1)
        if bad > 1:
            expected, bad = expected / 2, 0
        assert row["result.1"] == expected
    assert expected < 0.5


@program
def ema_in_place(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    ema = copy.deepcopy(model)
    for p in ema.parameters():
        p.requires_grad_(False)
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with wg.no_grad():
            for p, q in zip(model.parameters(), ema.parameters()):
                q.mul_(0.9).add_(p, alpha=0.1)
        return loss, F.mse_loss(ema(x), y)

    return lambda i: step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5]), {"model": model, "ema": ema}


@program
def ema_of_state_dict(jit: Any) -> Any:
    x, y = line()
    model = fresh(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)))
    ema = copy.deepcopy(model).eval()
    opt = optim.SGD(model.parameters(), lr=0.1)

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with wg.no_grad():
            source = model.state_dict()
            for k, v in ema.state_dict().items():
                if v.is_floating_point():
                    v.copy_(0.9 * v + 0.1 * source[k])
                else:
                    v.copy_(source[k])
        return loss

    return lambda i: step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5]), {"model": model, "ema": ema}


@program
def stochastic_weight_averaging(jit: Any) -> Any:
    x, y = line()
    model = mlp()
    swa = copy.deepcopy(model)
    n = wg.zeros(())
    opt = optim.SGD(model.parameters(), lr=0.2)

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    @jit
    def average():
        with wg.no_grad():
            for p, q in zip(model.parameters(), swa.parameters()):
                q.data = (q.data * n + p.data) / (n + 1)
            n.add_(1)

    def call(i):
        loss = step(x[5 * i : 5 * i + 5], y[5 * i : 5 * i + 5])
        if i >= 2:
            average()
        return loss

    return call, {"model": model, "swa": swa, "n": n}


def test_averages_of_weights() -> None:
    for idiom in (ema_in_place, ema_of_state_dict):
        rows = both(idiom)
        names = [k for k in rows[0] if k.startswith("ema.") and not k.endswith(("requires_grad", "tracked"))]
        assert len(names) >= 4
        for name in names:
            value = rows[0][name]
            for row in rows[1:]:
                value = 0.9 * value + 0.1 * row[name.replace("ema.", "model.", 1)]
            np.testing.assert_allclose(rows[-1][name], value, rtol=1e-10, err_msg=name)
    assert rows[-1]["ema.1.num_batches_tracked"] == 8
    rows = both(stochastic_weight_averaging)
    for name in ("0.weight", "2.bias"):
        mean = np.mean([row[f"model.{name}"] for row in rows[3:]], axis=0)
        np.testing.assert_allclose(rows[-1][f"swa.{name}"], mean, rtol=1e-10)


@program(traces=4)
def checkpoint_and_resume(jit: Any) -> Any:
    """After four steps everything is saved, after the sixth it is loaded again, so steps 5 and 6 come twice."""
    x, y = line()
    model = fresh(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.25), nn.Linear(4, 1)))
    opt = optim.Adam(model.parameters(), lr=0.05)
    scheduler = optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.5)
    file = io.BytesIO()

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    def call(i):
        if i == 4:
            state = {"model": model.state_dict(), "opt": opt.state_dict(), "scheduler": scheduler.state_dict()}
            pickle.dump({**state, "rng": wg.get_rng_state()}, file)
        if i == 6:
            file.seek(0)
            state = pickle.load(file)
            model.load_state_dict(state["model"])
            opt.load_state_dict(state["opt"])
            scheduler.load_state_dict(state["scheduler"])
            wg.set_rng_state(state["rng"])
        k = i - 2 if i >= 6 else i
        loss = step(x[5 * k : 5 * k + 5], y[5 * k : 5 * k + 5])
        scheduler.step()
        return loss

    return call, {"model": model, "opt": opt}


def test_checkpoint_and_resume() -> None:
    rows = both(checkpoint_and_resume)
    for before, again in ((5, 7), (6, 8)):
        for name, value in rows[before].items():
            np.testing.assert_array_equal(rows[again][name], value, err_msg=name)
    assert (rows[5]["model.0.weight"] != rows[6]["model.0.weight"]).all()


@program(calls=14)
def early_stopping(jit: Any) -> Any:
    """Losses are logged outside of the step; the best weights come back when validation no longer improves."""
    x, y = line()
    model = mlp()
    opt = optim.SGD(model.parameters(), lr=0.35, momentum=0.8)
    best = {"loss": float("inf"), "state": None, "bad": 0, "stopped": False, "log": []}

    @jit
    def step(x, y):
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    @jit
    def validate(x, y):
        with wg.no_grad():
            return F.mse_loss(model(x), y)

    def call(i):
        if best["stopped"]:
            return None
        loss = step(x[:6], y[:6])
        best["log"].append(f"{loss.item():.6f}")
        seen = validate(x[20:], y[20:]).item()
        if seen < best["loss"]:
            best["loss"], best["bad"] = seen, 0
            best["state"] = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            best["bad"] += 1
            if best["bad"] == 2:
                best["stopped"] = True
                model.load_state_dict(best["state"])
        return seen

    return call, {"model": model, "best": best}


def test_early_stopping() -> None:
    rows = both(early_stopping)
    seen = [float(row["result"]) for row in rows[1:] if "result" in row]
    assert len(seen) < 14
    assert seen[-3] == min(seen) == rows[-1]["best.loss"]
    np.testing.assert_array_equal(rows[-1]["model.0.weight"], rows[len(seen) - 2]["model.0.weight"])


@program
def uncertainty_weighting(jit: Any) -> Any:
    """Two tasks, each loss weighed by a learned variance (Kendall, Gal and Cipolla 2018)."""
    x, y = line()
    labels = (data(40, seed=5) > 0).long()
    trunk, regress, classify = fresh(nn.Linear(3, 4)), fresh(nn.Linear(4, 1), 1), fresh(nn.Linear(4, 2), 2)
    log_var = nn.Parameter(wg.zeros(2))
    opt = optim.Adam([*trunk.parameters(), *regress.parameters(), *classify.parameters(), log_var], lr=0.05)

    @jit
    def step(x, y, labels):
        opt.zero_grad()
        h = F.relu(trunk(x))
        losses = wg.stack([F.mse_loss(regress(h), y), F.cross_entropy(classify(h), labels)])
        loss = (losses * wg.exp(-log_var) + log_var).sum()
        loss.backward()
        opt.step()
        return loss, losses.detach()

    def call(i):
        r = slice(5 * i, 5 * i + 5)
        return step(x[r], y[r], labels[r])

    return call, {"trunk": trunk, "regress": regress, "classify": classify, "log_var": log_var, "opt": opt}


def test_uncertainty_weighting() -> None:
    rows = both(uncertainty_weighting)
    for before, row in zip(rows, rows[1:]):
        s, losses = before["log_var"], row["result.1"]
        np.testing.assert_allclose(row["result.0"], (losses * np.exp(-s) + s).sum(), rtol=1e-12)
        np.testing.assert_allclose(row["log_var.grad"], 1 - losses * np.exp(-s), rtol=1e-10)
