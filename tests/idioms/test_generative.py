"""Models that make data: autoencoders, adversarial nets, flows, mixtures, diffusion, energies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import Row, both, data, fresh, program


def points(n: int = 48) -> Any:
    """Two bent clouds in the plane."""
    z = data(n, 2)
    return wg.stack([z[:, 0], 0.3 * z[:, 1] + 0.5 * z[:, 0] ** 2], dim=1)


def plane(n: int = 48) -> np.ndarray:
    with wg.set_default_dtype(wg.float64):
        return np.array(points(n))


def dense(row: Row, name: str, x: np.ndarray) -> np.ndarray:
    return x @ row[f"{name}.weight"].T + row[f"{name}.bias"]


@program
def autoencoder(jit: Any) -> Any:
    """A denoising autoencoder whose sparse code is paid for."""
    x = data(48, 5)
    model = fresh(nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 5)))
    opt = optim.Adam(model.parameters(), lr=1e-2)

    @jit
    def step(x):
        code = model[1](model[0](x + 0.1 * wg.randn_like(x)))
        loss = F.mse_loss(model[2](code), x) + 1e-3 * code.abs().sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6]), {"model": model, "opt": opt}


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(5, 4)
        self.mu, self.logvar = nn.Linear(4, 2), nn.Linear(4, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 5))

    def reparameterize(self, mu, logvar):
        std = wg.exp(0.5 * logvar)
        eps = wg.randn_like(std)
        return mu + eps * std

    def forward(self, x):
        h = F.relu(self.encoder(x))
        mu, logvar = self.mu(h), self.logvar(h)
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


@program
def vae(jit: Any) -> Any:
    x = wg.sigmoid(data(48, 5))
    model = fresh(VAE())
    opt = optim.Adam(model.parameters(), lr=1e-2)

    @jit
    def step(x):
        opt.zero_grad()
        logits, mu, logvar = model(x)
        reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * wg.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = (reconstruction + divergence) / len(x)
        loss.backward()
        opt.step()
        return loss, reconstruction, divergence, mu, logvar

    return lambda i: step(x[6 * i : 6 * i + 6]), {"model": model, "opt": opt}


@program
def beta_vae(jit: Any) -> Any:
    """The divergence counts more with every step, and has a capacity."""
    x = data(48, 5)
    model = fresh(VAE())
    opt = optim.Adam(model.parameters(), lr=1e-2)

    @jit
    def step(x, beta, capacity):
        logits, mu, logvar = model(x)
        divergence = (-0.5 * (1 + logvar - mu**2 - logvar.exp())).sum(dim=1).mean()
        loss = F.mse_loss(logits, x) + beta * (divergence - capacity).abs()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        return loss, divergence

    return lambda i: step(x[6 * i : 6 * i + 6], min(1.0, 0.25 * i), 0.1 * i), {"model": model, "opt": opt}


def test_autoencoders() -> None:
    rows = both(autoencoder)
    assert rows[-1]["rng"].tobytes() != rows[0].get("rng", rows[1]["rng"]).tobytes()
    for before, row in zip(rows := both(vae), rows[1:]):
        _, reconstruction, divergence, mu, logvar = (row[f"result.{i}"] for i in range(5))
        var = np.exp(logvar)
        closed = sum((v + m * m - 1) / 2 - math.log(math.sqrt(v)) for m, v in zip(mu.ravel(), var.ravel()))
        np.testing.assert_allclose(divergence, closed, rtol=1e-10)
        np.testing.assert_allclose(row["result.0"], (reconstruction + closed) / 6, rtol=1e-12)
        # What moves the decoder's last bias is the mean error, and the divergence does not.
        assert np.abs(row["model.decoder.2.bias.grad"]).max() < 1
        assert before["model.mu.weight"].shape == (2, 4)
    losses = [float(row["result.0"]) for row in both(beta_vae)[1:]]
    assert np.isfinite(losses).all()


@program(traces=3)
def gan(jit: Any) -> Any:
    """Each half is frozen while the other learns."""
    real = points()
    generator = fresh(nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2)))
    critic = fresh(nn.Sequential(nn.Linear(2, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)), 1)
    opt_g = optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999))
    opt_d = optim.Adam(critic.parameters(), lr=0.02, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()

    @jit
    def step(x):
        n = x.shape[0]
        ones, zeros = wg.ones(n, 1), wg.zeros(n, 1)
        for p in critic.parameters():
            p.requires_grad = True
        opt_d.zero_grad()
        fake = generator(wg.randn(n, 2))
        loss_d = criterion(critic(x), ones) + criterion(critic(fake.detach()), zeros)
        loss_d.backward()
        opt_d.step()
        for p in critic.parameters():
            p.requires_grad = False
        opt_g.zero_grad()
        loss_g = criterion(critic(fake), ones)
        loss_g.backward()
        opt_g.step()
        return loss_d, loss_g

    return lambda i: step(real[6 * i : 6 * i + 6]), {"g": generator, "d": critic, "opt_g": opt_g, "opt_d": opt_d}


@program
def gan_without_freezing(jit: Any) -> Any:
    """The critic's gradients of the generator's loss are thrown away by zero_grad."""
    real = points()
    generator = fresh(nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 2)))
    critic = fresh(nn.Sequential(nn.Linear(2, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)), 1)
    opt_g = optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999))
    opt_d = optim.Adam(critic.parameters(), lr=0.02, betas=(0.5, 0.999))

    @jit
    def train_critic(x, z):
        opt_d.zero_grad()
        loss = F.softplus(-critic(x)).mean() + F.softplus(critic(generator(z).detach())).mean()
        loss.backward()
        opt_d.step()
        return loss

    @jit
    def train_generator(z):
        opt_g.zero_grad()
        loss = F.softplus(-critic(generator(z))).mean()
        loss.backward()
        opt_g.step()
        return loss

    def call(i):
        z = wg.randn(6, 2)
        return train_critic(real[6 * i : 6 * i + 6], z), train_generator(z)

    return call, {"g": generator, "d": critic}


@program
def gradient_penalty(jit: Any) -> Any:
    """WGAN-GP: the critic's gradient between real and made points has norm 1 (Gulrajani et al. 2017)."""
    real = points()
    generator = fresh(nn.Linear(2, 2))
    critic = fresh(nn.Sequential(nn.Linear(2, 6), nn.Softplus(), nn.Linear(6, 1)), 1)
    opt_d = optim.Adam(critic.parameters(), lr=0.02, betas=(0.0, 0.9))

    @jit
    def step(x, z, alpha):
        with wg.no_grad():
            fake = generator(z)
        between = (alpha * x + (1 - alpha) * fake).requires_grad_(True)
        scores = critic(between)
        (gradients,) = wg.autograd.grad(
            outputs=scores, inputs=between, grad_outputs=wg.ones_like(scores), create_graph=True, retain_graph=True
        )
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(x).mean() + 10.0 * penalty
        opt_d.zero_grad()
        loss.backward()
        opt_d.step()
        return loss, penalty

    return lambda i: step(real[6 * i : 6 * i + 6], wg.randn(6, 2), wg.rand(6, 1)), {"critic": critic, "opt": opt_d}


@program
def r1_penalty(jit: Any) -> Any:
    """The gradient at the data, of a detached copy that requires gradients."""
    real = points()
    critic = fresh(nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)), 1)
    opt = optim.SGD(critic.parameters(), lr=0.05)

    @jit
    def step(x):
        x = x.detach().requires_grad_()
        score = critic(x)
        grad = wg.autograd.grad(score.sum(), x, create_graph=True)[0]
        penalty = grad.pow(2).reshape(len(x), -1).sum(1).mean()
        loss = F.softplus(-score).mean() + 5.0 * penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, penalty

    return lambda i: step(real[6 * i : 6 * i + 6]), {"critic": critic}


def softplus(z: np.ndarray) -> np.ndarray:
    return np.logaddexp(z, 0)


def test_gan() -> None:
    rows = both(gan)
    x = plane()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        # The update of the generator is by the critic of after its own step.
        assert all((row[f"d.{k}.weight"] != before[f"d.{k}.weight"]).any() for k in (0, 2))
        assert not row["d.0.weight.requires_grad"]
        d = dense(before, "d.2", np.where((h := dense(before, "d.0", x[6 * i : 6 * i + 6])) > 0, h, 0.2 * h))
        assert softplus(-d).mean() < row["result.0"]


def test_gan_without_freezing() -> None:
    rows = both(gan_without_freezing)
    assert all(float(row[f"result.{k}"]) > 0 for row in rows[1:] for k in (0, 1))


def penalty_of(w0: np.ndarray, b0: np.ndarray, w1: np.ndarray, x: np.ndarray) -> float:
    slope = 1 - np.tanh(x @ w0.T + b0) ** 2
    return float((((slope * w1) @ w0) ** 2).sum(1).mean())


def test_gradient_penalty() -> None:
    rows = both(gradient_penalty)
    assert all(float(row["result.1"]) > 0 for row in rows[1:])


def test_r1_penalty() -> None:
    rows = both(r1_penalty)
    x = plane()

    def loss(row: Row, x: np.ndarray, w0: np.ndarray) -> float:
        h = np.tanh(x @ w0.T + row["critic.0.bias"])
        return softplus(-dense(row, "critic.2", h)).mean() + 5.0 * penalty_of(
            w0, row["critic.0.bias"], row["critic.2.weight"], x
        )

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs, w0 = x[6 * i : 6 * i + 6], before["critic.0.weight"]
        np.testing.assert_allclose(row["result.0"], loss(before, xs, w0), rtol=1e-10)
        numeric = np.zeros_like(w0)
        for at in np.ndindex(w0.shape):
            e = np.zeros_like(w0)
            e[at] = 1e-6
            numeric[at] = (loss(before, xs, w0 + e) - loss(before, xs, w0 - e)) / 2e-6
        np.testing.assert_allclose(row["critic.0.weight.grad"], numeric, rtol=1e-6, atol=1e-7)


@program
def denoising_diffusion(jit: Any) -> Any:
    """A step of DDPM: one time for each example, the noise is what the network is asked for (Ho et al. 2020)."""
    x = points()
    betas = wg.linspace(1e-4, 0.2, 10)
    bars = wg.cumprod(1 - betas, dim=0)
    net = fresh(nn.Sequential(nn.Linear(2 + 4, 8), nn.SiLU(), nn.Linear(8, 2)))
    opt = optim.AdamW(net.parameters(), lr=1e-2)

    @jit
    def step(x):
        t = wg.randint(0, 10, (len(x),))
        noise = wg.randn_like(x)
        bar = bars[t][:, None]
        noisy = bar.sqrt() * x + (1 - bar).sqrt() * noise
        angles = t[:, None] * wg.tensor([1.0, 0.1])
        embedding = wg.cat([wg.sin(angles), wg.cos(angles)], dim=-1)
        loss = F.mse_loss(net(wg.cat([noisy, embedding], dim=1)), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, t, noisy

    return lambda i: step(x[6 * i : 6 * i + 6]), {"net": net, "opt": opt}


@program
def diffusion_sampling(jit: Any) -> Any:
    """The way back from noise, one compiled step for all times."""
    betas = wg.linspace(1e-4, 0.2, 8)
    alphas = 1 - betas
    bars = wg.cumprod(alphas, dim=0)
    net = fresh(nn.Linear(3, 2))
    state = {"x": data(5, 2)}

    @jit
    @wg.no_grad()
    def step(x, t):
        predicted = net(wg.cat([x, wg.full((5, 1), 1.0) * t], dim=1))
        mean = (x - betas[t] / (1 - bars[t]).sqrt() * predicted) / alphas[t].sqrt()
        return mean + wg.where(t > 0, betas[t].sqrt(), 0.0) * wg.randn_like(x)

    def call(i):
        state["x"] = step(state["x"], wg.tensor(7 - i))
        return state["x"]

    return call, {"net": net}


def test_diffusion() -> None:
    rows = both(denoising_diffusion)
    times = np.concatenate([row["result.1"] for row in rows[1:]])
    assert len(set(times.tolist())) > 5
    bars = np.cumprod(1 - np.linspace(1e-4, 0.2, 10))
    x = plane()
    for i, row in enumerate(rows[1:]):
        bar = bars[row["result.1"]][:, None]
        noise = (row["result.2"] - np.sqrt(bar) * x[6 * i : 6 * i + 6]) / np.sqrt(1 - bar)
        assert np.abs(noise).max() < 4.5
    rows = both(diffusion_sampling)
    before, last, beta = rows[7]["result"], rows[8]["result"], 1e-4
    predicted = dense(rows[0], "net", np.concatenate([before, np.zeros((5, 1))], 1))
    np.testing.assert_allclose(last, (before - np.sqrt(beta) * predicted) / np.sqrt(1 - beta), rtol=1e-9)


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 2))
        self.flip = flip

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = wg.tanh(s)
        b = b * wg.exp(s) + t
        return wg.cat([b, a] if self.flip else [a, b], dim=1), s.sum(dim=1)

    def inverse(self, y):
        a, b = y.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        b = (b - t) * wg.exp(-wg.tanh(s))
        return wg.cat([b, a] if self.flip else [a, b], dim=1)


@program
def realnvp(jit: Any) -> Any:
    x = points()
    layers = fresh(nn.ModuleList([Coupling(bool(k % 2)) for k in range(3)]))
    opt = optim.Adam(layers.parameters(), lr=0.02)

    @jit
    def step(x):
        z, logdet = x, 0.0
        for layer in layers:
            z, change = layer(z)
            logdet = logdet + change
        log_prob = -0.5 * (z**2).sum(1) - math.log(2 * math.pi) + logdet
        loss = -log_prob.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, logdet

    @jit
    def round_trip(x):
        z = x
        for layer in layers:
            z, _ = layer(z)
        for layer in reversed(layers):
            z = layer.inverse(z)
        return z

    def call(i):
        r = slice(6 * i, 6 * i + 6)
        return step(x[r]), round_trip(x[r])

    return call, {"layers": layers, "opt": opt}


def test_realnvp() -> None:
    rows = both(realnvp)
    x = plane()

    def through(row: Row, z: np.ndarray) -> np.ndarray:
        for k in range(3):
            a, b = (z[1], z[0]) if k % 2 else (z[0], z[1])
            h = np.tanh(row[f"layers.{k}.net.0.weight"][:, 0] * a + row[f"layers.{k}.net.0.bias"])
            s, t = row[f"layers.{k}.net.2.weight"] @ h + row[f"layers.{k}.net.2.bias"]
            b = b * np.exp(np.tanh(s)) + t
            z = np.array([b, a] if k % 2 else [a, b])
        return z

    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        xs = x[6 * i : 6 * i + 6]
        np.testing.assert_allclose(row["result.1"], xs, rtol=1e-12, atol=1e-12)
        logdets, total = [], 0.0
        for point in xs:
            columns = [(through(before, point + e) - through(before, point - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
            logdets.append(np.log(np.abs(np.linalg.det(columns))))
            total += 0.5 * (through(before, point) ** 2).sum() + math.log(2 * math.pi) - logdets[-1]
        np.testing.assert_allclose(row["result.0.1"], logdets, atol=1e-8)
        np.testing.assert_allclose(row["result.0.0"], total / 6, atol=1e-8)


@program
def mixture_density(jit: Any) -> Any:
    y = data(48, 1)
    x = y + 0.3 * wg.sin(6 * y) + 0.1 * data(48, 1, seed=1)
    trunk, head = fresh(nn.Linear(1, 5)), fresh(nn.Linear(5, 9), 1)
    opt = optim.Adam([*trunk.parameters(), *head.parameters()], lr=0.01)

    @jit
    def step(x, y):
        logits, mu, log_sigma = head(wg.tanh(trunk(x))).split(3, dim=-1)
        log_prob = -0.5 * ((y - mu) / log_sigma.exp()) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
        loss = -wg.logsumexp(F.log_softmax(logits, dim=-1) + log_prob, dim=-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda i: step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6]), {"trunk": trunk, "head": head, "opt": opt}


def test_mixture_density() -> None:
    rows = both(mixture_density)
    with wg.set_default_dtype(wg.float64):
        y, noise = np.array(data(48, 1)), np.array(data(48, 1, seed=1))
    x = y + 0.3 * np.sin(6 * y) + 0.1 * noise
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        r = slice(6 * i, 6 * i + 6)
        out = dense(before, "head", np.tanh(dense(before, "trunk", x[r])))
        weight = np.exp(out[:, :3]) / np.exp(out[:, :3]).sum(1, keepdims=True)
        sigma = np.exp(out[:, 6:])
        density = weight * np.exp(-0.5 * ((y[r] - out[:, 3:6]) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
        np.testing.assert_allclose(row["result"], -np.log(density.sum(1)).mean(), rtol=1e-11)


@program
def energy_based(jit: Any) -> Any:
    """Contrastive divergence: negatives by Langevin steps down the energy, inside the training step."""
    x = points()
    energy = fresh(nn.Sequential(nn.Linear(2, 6), nn.SiLU(), nn.Linear(6, 1)))
    opt = optim.Adam(energy.parameters(), lr=0.01)
    buffer = {"x": data(6, 2, seed=3)}

    @jit
    def step(x, start):
        for p in energy.parameters():
            p.requires_grad_(False)
        negative = start.detach()
        for _ in range(3):
            negative.requires_grad_(True)
            (grad,) = wg.autograd.grad(energy(negative).sum(), negative)
            negative = (negative - 0.1 * grad + 0.05 * wg.randn_like(negative)).detach()
        for p in energy.parameters():
            p.requires_grad_(True)
        loss = energy(x).mean() - energy(negative).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, negative

    def call(i):
        loss, buffer["x"] = step(x[6 * i : 6 * i + 6], buffer["x"])
        return loss, buffer["x"]

    return call, {"energy": energy, "opt": opt, "buffer": buffer}


def test_energy_based() -> None:
    rows = both(energy_based)
    x = plane()
    for i, (before, row) in enumerate(zip(rows, rows[1:])):

        def energy(z: np.ndarray, row: Row = before) -> np.ndarray:
            h = dense(row, "energy.0", z)
            return dense(row, "energy.2", h / (1 + np.exp(-h)))

        contrast = energy(x[6 * i : 6 * i + 6]).mean() - energy(row["result.1"]).mean()
        np.testing.assert_allclose(row["result.0"], contrast, rtol=1e-10)
        np.testing.assert_allclose(row["energy.2.bias.grad"], 0.0, atol=1e-12)
