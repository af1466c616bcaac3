"""Losses and models of machine learning that are not networks of layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack


@case("van den Oord, Li and Vinyals (2018), InfoNCE; Chen et al. (2020), SimCLR", lambda d: d.normal(2, 5, 3))
def contrastive_loss(xp: Any, x: Any) -> Any:
    unit = x / xp.sqrt(xp.sum(x**2, axis=-1, keepdims=True))
    similar = xp.einsum("id,jd->ij", unit[0], unit[1]) / 0.2
    down, across = xp.log_softmax(similar, axis=0), xp.log_softmax(similar, axis=1)
    return -(xp.mean(xp.diagonal(down)) + xp.mean(xp.diagonal(across))) / 2


@case("Schroff, Kalenichenko and Philbin (2015), FaceNet: the triplet loss", lambda d: d.normal(3, 6, 3))
def triplet_loss(xp: Any, x: Any) -> Any:
    near = xp.sum((x[0] - x[1]) ** 2, axis=1)
    far = xp.sum((x[0] - x[2]) ** 2, axis=1)
    return xp.mean(xp.relu(near - far + 0.2))


@case(
    "Lin et al. (2017), Focal loss for dense object detection",
    lambda d: d.normal(9),
    lambda d: {"y": (d.uniform(0, 1, 9) < 0.4).astype(np.float64)},
)
def focal_loss(xp: Any, x: Any, y: Any) -> Any:
    p = xp.sigmoid(x)
    right = xp.where(y > 0.5, p, 1 - p)
    return -xp.mean((1 - right) ** 2.5 * xp.log(right))


@case(
    "Broomhead and Lowe (1988), Radial basis functions",
    lambda d: d.normal(4 * 2 + 4 + 4) * 0.7,
    lambda d: {"inputs": d.normal(9, 2), "y": d.normal(9)},
)
def radial_basis_network(xp: Any, x: Any, inputs: Any, y: Any) -> Any:
    centres, log_width, weights = unpack(x, (4, 2), (4,), (4,))
    squared = xp.sum((inputs[:, None, :] - centres) ** 2, axis=-1)
    return xp.mean((xp.exp(-squared * xp.exp(log_width)) @ weights - y) ** 2)


@case(
    "van der Maaten and Hinton (2008), Visualizing data using t-SNE",
    lambda d: d.normal(6, 2),
    lambda d: {"affinity": d.uniform(0.1, 1, 6, 6)},
)
def tsne(xp: Any, x: Any, affinity: Any) -> Any:
    off = 1 - xp.eye(6)
    p = (affinity + affinity.T) * off
    p = p / xp.sum(p)
    inverse = off / (1 + xp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1))
    q = inverse / xp.sum(inverse)
    safe = xp.where(off > 0, p / xp.where(off > 0, q, 1.0), 1.0)
    return xp.sum(p * xp.log(safe))


@case(
    "Lee and Seung (2001), Algorithms for non-negative matrix factorization: the divergence",
    lambda d: d.uniform(0.2, 1.5, 5 * 2 + 2 * 4),
    lambda d: {"matrix": d.uniform(0.5, 3, 5, 4)},
)
def nonnegative_factorization(xp: Any, x: Any, matrix: Any) -> Any:
    w, h = unpack(x, (5, 2), (2, 4))
    product = w @ h
    return xp.sum(matrix * xp.log(matrix / product) - matrix + product)


@case(
    "Koren, Bell and Volinsky (2009), Matrix factorization techniques for recommender systems",
    lambda d: d.normal(5 * 2 + 4 * 2 + 5 + 4),
    lambda d: {"users": d.integers(5, 12), "items": d.integers(4, 12), "ratings": d.uniform(1, 5, 12)},
)
def matrix_completion(xp: Any, x: Any, users: Any, items: Any, ratings: Any) -> Any:
    p, q, user_bias, item_bias = unpack(x, (5, 2), (4, 2), (5,), (4,))
    rows, columns = xp.take(p, users, axis=0), xp.take(q, items, axis=0)
    predicted = 3 + user_bias[users] + item_bias[items] + xp.sum(rows * columns, axis=1)
    return xp.sum((predicted - ratings) ** 2) + 0.1 * xp.sum(x**2)


@case(
    "Cortes and Vapnik (1995), Support-vector networks: squared hinge on a random feature map, Rahimi and Recht (2007)",
    lambda d: d.normal(6),
    lambda d: {
        "inputs": d.normal(10, 2),
        "y": np.sign(d.normal(10)),
        "omega": d.normal(2, 6),
        "phase": d.uniform(0, 6, 6),
    },
)
def random_features_svm(xp: Any, x: Any, inputs: Any, y: Any, omega: Any, phase: Any) -> Any:
    margins = y * (np.sqrt(2.0 / 6) * xp.cos(inputs @ omega + phase) @ x)
    return xp.sum(x**2) / 2 + 2 * xp.sum(xp.maximum(1 - margins, 0.0) ** 2)


@case("Cuturi (2013), Sinkhorn distances", lambda d: d.normal(2, 5, 2) * 0.7)
def sinkhorn(xp: Any, x: Any) -> Any:
    cost = xp.sum((x[0][:, None, :] - x[1][None, :, :]) ** 2, axis=-1)
    f, g, eps = xp.zeros(5), xp.zeros(5), 0.5
    for _ in range(6):
        f = -eps * xp.logsumexp((g[None, :] - cost) / eps, axis=1)
        g = -eps * xp.logsumexp((f[:, None] - cost) / eps, axis=0)
    plan = xp.exp((f[:, None] + g[None, :] - cost) / eps)
    return xp.sum(plan * cost)


@case(
    "Burges et al. (2005), RankNet; Qin, Liu and Li (2010), ApproxNDCG",
    lambda d: d.normal(6),
    lambda d: {"gain": d.integers(4, 6).astype(np.float64)},
)
def approximate_ndcg(xp: Any, x: Any, gain: Any) -> Any:
    ranks = 0.5 + xp.sum(xp.sigmoid((x[None, :] - x[:, None]) / 0.3), axis=1)
    return -xp.sum((2**gain - 1) / xp.log(1 + ranks))


@case(
    "Rousseeuw (1984), Least median of squares regression: trimmed squares, by sorting",
    lambda d: d.normal(5),
    lambda d: {"design": d.normal(12, 5), "y": d.normal(12)},
)
def trimmed_squares(xp: Any, x: Any, design: Any, y: Any) -> Any:
    """The smaller squares, the mean of the worst four, and the worst."""
    ordered = xp.sort((y - design @ x) ** 2)
    return xp.sum(ordered[:8]) + xp.mean(ordered[-4:]) + xp.max(ordered)


@case(
    "Blahut (1972), Arimoto (1972): channel capacity by fixed-point steps",
    lambda d: d.normal(3, 4),
)
def channel_capacity(xp: Any, x: Any) -> Any:
    channel = xp.softmax(x, axis=1)
    p = xp.ones(3) / 3
    for _ in range(5):
        out = p @ channel
        divergence = xp.sum(channel * xp.log(channel / out), axis=1)
        p = p * xp.exp(divergence)
        p = p / xp.sum(p)
    return xp.sum(p * xp.sum(channel * xp.log(channel / (p @ channel)), axis=1))


@case(
    "Haarnoja et al. (2017), Reinforcement learning with deep energy-based policies: soft value iteration",
    lambda d: d.normal(4, 3),
    lambda d: {"moves": d.uniform(0.1, 1, 4, 3, 4)},
)
def soft_value_iteration(xp: Any, x: Any, moves: Any) -> Any:
    p = moves / xp.sum(moves, axis=-1, keepdims=True)
    value = xp.zeros(4)
    for _ in range(6):
        q = x + 0.9 * xp.tensordot(p, value, axes=1)
        value = xp.logsumexp(q, axis=1)
    return value[0] + xp.sum(xp.softmax(q, axis=1)[:, 0])


@case(
    "Hinton (2002), Training products of experts: free energy of a restricted Boltzmann machine",
    lambda d: d.normal(4 * 3 + 4 + 3) * 0.7,
    lambda d: {
        "data": (d.uniform(0, 1, 6, 4) < 0.5).astype(np.float64),
        "model": (d.uniform(0, 1, 6, 4) < 0.5).astype(np.float64),
    },
)
def boltzmann_machine(xp: Any, x: Any, data: Any, model: Any) -> Any:
    w, visible, hidden = unpack(x, (4, 3), (4,), (3,))
    energy = lambda v: -(v @ visible) - xp.sum(xp.softplus(v @ w + hidden), axis=1)
    return xp.mean(energy(data)) - xp.mean(energy(model))


@case(
    "Hyvarinen (2005), Estimation by score matching, with inner derivatives",
    lambda d: d.normal(9) * 0.5,
    lambda d: {"samples": d.normal(6, 2)},
)
def score_matching(xp: Any, x: Any, samples: Any) -> Any:
    w, b = x[:6].reshape(2, 3), x[6:]
    log_density = lambda s: xp.sum(-xp.softplus(s @ w + b)) - xp.sum(s**2) / 2
    score = xp.grad(log_density)
    total = xp.sum(score(samples) ** 2) / 2
    for k in range(2):
        total = total + xp.sum(xp.grad(lambda s, k=k: xp.sum(score(s)[:, k]))(samples)[:, k])
    return total / 6


@case(
    "Mikolov et al. (2013), Distributed representations of words: negative sampling",
    lambda d: d.normal(2, 5, 3) * 0.7,
    lambda d: {"words": d.integers(5, 6), "contexts": d.integers(5, 6), "negatives": d.integers(5, 6, 4)},
)
def negative_sampling(xp: Any, x: Any, words: Any, contexts: Any, negatives: Any) -> Any:
    centre, positive, negative = x[0][words], x[1][contexts], x[1][negatives]
    good = -xp.softplus(-xp.sum(centre * positive, axis=1))
    bad = -xp.softplus(xp.einsum("nd,nkd->nk", centre, negative))
    return -xp.mean(good + xp.sum(bad, axis=1))
