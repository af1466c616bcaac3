"""Agents and graphs: policy gradients, Q-learning, message passing."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import wengert.nn.functional as F
from both_namespaces import wg
from wengert import nn, optim

from .driver import Row, both, data, fresh, program


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def ids(*shape: int, high: int, seed: int = 4) -> Any:
    return wg.tensor(np.random.default_rng(seed).integers(0, high, shape))


@program
def reinforce(jit: Any) -> Any:
    """A corridor of five cells; the episode runs inside of the step, the log-probabilities of its actions are kept."""
    policy = fresh(nn.Linear(5, 2))
    opt = optim.Adam(policy.parameters(), lr=0.05)

    @jit
    def episode(start, gamma):
        place, log_probs, rewards = start, [], []
        for _ in range(4):
            logits = policy(F.one_hot(place, 5).to(wg.get_default_dtype()))
            log_p = F.log_softmax(logits, dim=-1)
            action = (wg.rand(3) < log_p[:, 1].exp()).long()
            log_probs.append(log_p.gather(1, action[:, None]).squeeze(1))
            place = (place + 2 * action - 1).clamp(0, 4)
            rewards.append((place == 4).double() - 0.1)
        returns, total = [], wg.zeros(3)
        for r in rewards[::-1]:
            total = r + gamma * total
            returns.insert(0, total)
        returns = wg.stack(returns)
        returns = (returns - returns.mean()) / (returns.std(correction=1) + 1e-8)
        loss = -(wg.stack(log_probs) * returns.detach()).sum(0).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, wg.stack(rewards)

    return lambda i: episode(wg.tensor([1, 2, 3]) + i % 2, 0.9), {"policy": policy, "opt": opt}


def test_reinforce() -> None:
    rows = both(reinforce)
    for before, row in zip(rows, rows[1:]):
        returns, total = [], 0.0
        for r in row["result.1"][::-1]:
            total = r + 0.9 * total
            returns.insert(0, total)
        assert np.isin(row["result.1"].round(6), [-0.1, 0.9]).all()
        scaled = (np.array(returns) - np.mean(returns)) / (np.std(returns, ddof=1) + 1e-8)
        # The score's two columns cancel: raising both logits changes nothing.
        np.testing.assert_allclose(row["policy.weight.grad"].sum(0), 0, atol=1e-14)
        assert abs(scaled.sum()) < 1e-6
        assert (before["policy.weight"] != row["policy.weight"]).any()


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, x):
        h = wg.tanh(self.body(x))
        return self.actor(h), self.critic(h).squeeze(-1)


@program
def actor_critic(jit: Any) -> Any:
    """Advantages from a learned value, an entropy bonus (Mnih et al. 2016)."""
    states, following = data(48, 3), data(48, 3, seed=1)
    actions, rewards, done = ids(48, high=2), data(48, seed=2), ids(48, high=4, seed=3) == 0
    model = fresh(ActorCritic())
    opt = optim.RMSprop(model.parameters(), lr=0.01, alpha=0.99, eps=1e-5)

    @jit
    def step(s, a, r, s2, done, gamma):
        logits, value = model(s)
        with wg.no_grad():
            target = r + gamma * model(s2)[1] * (~done)
        advantage = target - value
        log_p = F.log_softmax(logits, dim=-1)
        chosen = log_p[wg.arange(len(a)), a]
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        loss = -(chosen * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        return loss, entropy

    def call(i):
        r = slice(6 * i, 6 * i + 6)
        return step(states[r], actions[r], rewards[r], following[r], done[r], 0.9)

    return call, {"model": model, "opt": opt, "batch": [states, actions, rewards, following, done]}


def heads(row: Row, x: np.ndarray, name: str = "model") -> tuple[np.ndarray, np.ndarray]:
    h = np.tanh(x @ row[f"{name}.body.weight"].T + row[f"{name}.body.bias"])
    logits = h @ row[f"{name}.actor.weight"].T + row[f"{name}.actor.bias"]
    return logits, (h @ row[f"{name}.critic.weight"].T + row[f"{name}.critic.bias"])[:, 0]


def test_actor_critic() -> None:
    rows = both(actor_critic)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        s, a, r, s2, done = (row[f"batch.{k}"][6 * i : 6 * i + 6] for k in range(5))
        logits, value = heads(before, s)
        p = softmax(logits)
        advantage = r + 0.9 * heads(before, s2)[1] * ~done - value
        entropy = -(p * np.log(p)).sum(1).mean()
        loss = -(np.log(p[np.arange(6), a]) * advantage).mean() + 0.5 * (advantage**2).mean() - 0.01 * entropy
        np.testing.assert_allclose([row["result.0"], row["result.1"]], [loss, entropy], rtol=1e-11)


@program
def deep_q(jit: Any) -> Any:
    """Double Q-learning from a replay buffer that the loop writes, the target net copied every third step."""
    online = fresh(nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)))
    target = copy.deepcopy(online)
    target.load_state_dict(online.state_dict())
    buffer = {"s": data(20, 3), "a": ids(20, high=2), "r": data(20, seed=2), "t": data(20, 3, seed=3)}
    opt = optim.Adam(online.parameters(), lr=0.02)

    @jit
    def step(s, a, r, s2, gamma):
        q = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        with wg.no_grad():
            best = online(s2).argmax(dim=1, keepdim=True)
            expected = r + gamma * target(s2).gather(1, best).squeeze(1)
        loss = F.huber_loss(q, expected)
        opt.zero_grad()
        loss.backward()
        for p in online.parameters():
            p.grad.data.clamp_(-0.1, 0.1)
        opt.step()
        return loss, q

    def call(i):
        new = data(3, seed=100 + i)
        buffer["s"][i] = new
        buffer["r"][i] = new.sum()
        chosen = wg.randint(0, 20, (6,))
        found = step(*(buffer[k][chosen] for k in "sart"), 0.9)
        if i % 3 == 2:
            target.load_state_dict(online.state_dict())
        return found, chosen

    return call, {"online": online, "target": target, "opt": opt, "buffer": buffer}


def test_deep_q() -> None:
    rows = both(deep_q)
    values = lambda row, name, x: (
        np.maximum(x @ row[f"{name}.0.weight"].T + row[f"{name}.0.bias"], 0) @ row[f"{name}.2.weight"].T
        + row[f"{name}.2.bias"]
    )
    for before, row in zip(rows, rows[1:]):
        s, a, r, s2 = (row[f"buffer.{k}"][row["result.1"]] for k in "sart")
        q = values(before, "online", s)[np.arange(6), a]
        best = values(before, "online", s2).argmax(1)
        error = q - r - 0.9 * values(before, "target", s2)[np.arange(6), best]
        loss = np.where(np.abs(error) < 1, 0.5 * error**2, np.abs(error) - 0.5).mean()
        np.testing.assert_allclose(row["result.0.0"], loss, rtol=1e-11)
        assert np.abs(row["online.0.weight.grad"]).max() <= 0.1
    assert (rows[6]["target.0.weight"] == rows[6]["online.0.weight"]).all()
    assert (rows[8]["target.0.weight"] == rows[6]["online.0.weight"]).all()


@program
def proximal_policy(jit: Any) -> Any:
    """Several epochs over one batch, the ratio clipped, generalised advantages from a loop (Schulman et al. 2017)."""
    states, actions, rewards = data(12, 3), ids(12, high=2), data(12, seed=2)
    model = fresh(ActorCritic())
    opt = optim.Adam(model.parameters(), lr=0.05)
    with wg.no_grad():
        old = F.log_softmax(model(states)[0], dim=-1).gather(1, actions[:, None])[:, 0]

    @jit
    def advantages(lam):
        with wg.no_grad():
            value = model(states)[1]
            out, last = wg.zeros(12), 0.0
            for t in reversed(range(12)):
                following = value[t + 1] if t < 11 else 0.0
                last = rewards[t] + 0.9 * following - value[t] + 0.9 * lam * last
                out[t] = last
            return out, out + value

    @jit
    def step(s, a, old, advantage, returns, epsilon):
        logits, value = model(s)
        new = F.log_softmax(logits, dim=-1).gather(1, a[:, None])[:, 0]
        ratio = (new - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        clipped = wg.clamp(ratio, 1 - epsilon, 1 + epsilon)
        loss = -wg.minimum(ratio * advantage, clipped * advantage).mean() + 0.5 * F.mse_loss(value, returns)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, ((ratio - 1).abs() > epsilon).double().mean()

    def call(i):
        advantage, returns = advantages(0.95)
        r = slice(6 * (i % 2), 6 * (i % 2) + 6)
        return advantage, step(states[r], actions[r], old[r], advantage[r], returns[r], 0.2)

    return call, {"model": model, "opt": opt, "batch": [states, actions, rewards]}


def test_proximal_policy() -> None:
    rows = both(proximal_policy)
    assert any(row["result.1.1"] > 0 for row in rows[1:])
    for before, row in zip(rows, rows[1:]):
        s, _, r = (row[f"batch.{k}"] for k in range(3))
        v = np.append(heads(before, s)[1], 0.0)
        delta = r + 0.9 * v[1:] - v[:-1]
        expected = [sum((0.9 * 0.95) ** (k - t) * delta[k] for k in range(t, 12)) for t in range(12)]
        np.testing.assert_allclose(row["result.0"], expected, rtol=1e-9, atol=1e-12)


EDGES = np.array([[0, 1, 2, 3, 4, 0, 2, 5, 1], [1, 2, 3, 4, 5, 3, 0, 1, 4]])


@program
def graph_convolution(jit: Any) -> Any:
    """Two layers over a graph of six nodes, normalised by degrees, a few labels (Kipf and Welling 2017)."""
    x, labels = data(6, 3), wg.tensor([0, 1, 0, 1, 0, 1])
    source, target = wg.tensor(EDGES[0]), wg.tensor(EDGES[1])
    first, second = fresh(nn.Linear(3, 4)), fresh(nn.Linear(4, 2), 1)
    opt = optim.Adam([*first.parameters(), *second.parameters()], lr=0.05, weight_decay=5e-4)

    def propagate(h):
        degree = wg.ones(6).index_add(0, target, wg.ones(len(target)))
        norm = degree.rsqrt()
        messages = h[source] * (norm[source] * norm[target]).unsqueeze(1)
        out = h * (norm * norm).unsqueeze(1)
        out.index_add_(0, target, messages)
        return out

    @jit
    def step(x, mask):
        logits = propagate(second(F.relu(propagate(first(x)))))
        loss = (F.cross_entropy(logits, labels, reduction="none") * mask).sum() / mask.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, logits

    def call(i):
        return step(x + 0.01 * i, (wg.arange(6) % 4 != i % 4).double())

    return call, {"first": first, "second": second, "opt": opt, "x": x}


def test_graph_convolution() -> None:
    rows = both(graph_convolution)
    a = np.eye(6)
    np.add.at(a, (EDGES[1], EDGES[0]), 1.0)
    degree = 1 + np.bincount(EDGES[1], minlength=6)
    a = a / np.sqrt(np.outer(degree, degree))
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        h = np.maximum(a @ ((row["x"] + 0.01 * i) @ before["first.weight"].T + before["first.bias"]), 0)
        logits = a @ (h @ before["second.weight"].T + before["second.bias"])
        np.testing.assert_allclose(row["result.1"], logits, rtol=1e-11)


class Attention(nn.Module):
    """One layer of a graph attention network: a softmax over the edges that end in a node."""

    def __init__(self, n, m, heads):
        super().__init__()
        self.lin = nn.Linear(n, heads * m, bias=False)
        self.source, self.target = nn.Parameter(wg.zeros(heads, m)), nn.Parameter(wg.zeros(heads, m))
        self.heads = heads

    def forward(self, x, source, target):
        h = self.lin(x).view(-1, self.heads, self.lin.out_features // self.heads)
        score = (h * self.source).sum(-1)[source] + (h * self.target).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        index = target.unsqueeze(1).expand(-1, self.heads)
        weight = (score - score.max().detach()).exp()
        total = wg.zeros(len(x), self.heads).scatter_add(0, index, weight)
        alpha = weight / total[target]
        return wg.zeros_like(h).index_add(0, target, alpha.unsqueeze(-1) * h[source]).flatten(1), alpha


@program
def graph_attention(jit: Any) -> Any:
    loops = np.concatenate([EDGES, np.tile(np.arange(6), (2, 1))], axis=1)
    x, labels = data(6, 3), wg.tensor([0, 1, 2, 1, 0, 2])
    source, target = wg.tensor(loops[0]), wg.tensor(loops[1])
    layer, out = fresh(Attention(3, 2, 2)), fresh(nn.Linear(4, 3), 1)
    opt = optim.Adam([*layer.parameters(), *out.parameters()], lr=0.05)

    @jit
    def step(x):
        h, alpha = layer(x, source, target)
        loss = F.cross_entropy(out(F.elu(h)), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, alpha

    return lambda i: step(x * (1 + 0.1 * i)), {"layer": layer, "out": out, "opt": opt, "x": x}


def test_graph_attention() -> None:
    rows = both(graph_attention)
    loops = np.concatenate([EDGES, np.tile(np.arange(6), (2, 1))], axis=1)
    for i, (before, row) in enumerate(zip(rows, rows[1:])):
        h = (row["x"] * (1 + 0.1 * i) @ before["layer.lin.weight"].T).reshape(6, 2, 2)
        for node in range(6):
            edges = np.flatnonzero(loops[1] == node)
            score = (h[loops[0, edges]] * before["layer.source"]).sum(-1) + (h[node] * before["layer.target"]).sum(-1)
            alpha = softmax(np.where(score > 0, score, 0.2 * score).T).T
            np.testing.assert_allclose(row["result.1"][edges], alpha, rtol=1e-10)
