"""ADBench: Srajer, Kukelova and Fitzgibbon (2018), A benchmark of selected algorithmic differentiation tools."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case, unpack

ADBENCH = "Srajer, Kukelova and Fitzgibbon (2018), A benchmark of selected AD tools"


@case(
    f"Gaussian mixture, log-likelihood with a Wishart prior; {ADBENCH}",
    lambda d: d.normal(3 + 3 * 2 + 3 * 2 + 3 * 1) * 0.5,
    lambda d: {"points": d.normal(12, 2)},
)
def gaussian_mixture(xp: Any, x: Any, points: Any) -> Any:
    alphas, means, log_diagonals, lower = unpack(x, (3,), (3, 2), (3, 2), (3, 1))
    diagonals = xp.exp(log_diagonals)
    first = diagonals[:, 0] * (points[:, None, 0] - means[None, :, 0])
    second = lower[:, 0] * (points[:, None, 0] - means[None, :, 0]) + diagonals[:, 1] * (
        points[:, None, 1] - means[None, :, 1]
    )
    inner = alphas + xp.sum(log_diagonals, axis=1) - (first**2 + second**2) / 2
    likelihood = xp.sum(xp.logsumexp(inner, axis=1)) - 12 * xp.logsumexp(alphas, axis=0)
    gamma, m = 1.0, 0
    wishart = gamma**2 / 2 * (xp.sum(diagonals**2) + xp.sum(lower**2)) - m * xp.sum(log_diagonals)
    return likelihood - 12 * np.log(2 * np.pi) - wishart


def _rodrigues(xp: Any, rotation: Any, point: Any) -> Any:
    squared = xp.sum(rotation**2)
    angle = xp.sqrt(squared)
    axis = rotation / angle
    cosine = xp.cos(angle)
    crossed = xp.stack(
        [
            axis[1] * point[2] - axis[2] * point[1],
            axis[2] * point[0] - axis[0] * point[2],
            axis[0] * point[1] - axis[1] * point[0],
        ]
    )
    return point * cosine + crossed * xp.sin(angle) + axis * xp.sum(axis * point) * (1 - cosine)


@case(
    f"Bundle adjustment, one camera and four points; {ADBENCH}",
    lambda d: np.concatenate(
        [
            d.uniform(0.1, 0.5, 3),
            d.normal(3) * 0.2,
            d.uniform(1, 2, 1),
            d.uniform(-0.1, 0.1, 4),
            d.normal(12),
            d.uniform(0.5, 1, 4),
        ]
    ),
    lambda d: {"observed": d.normal(4, 2), "depth": np.array([0.0, 0.0, 6.0])},
)
def bundle_adjustment(xp: Any, x: Any, observed: Any, depth: Any) -> Any:
    rotation, centre, focal, principal, radial, points, weights = unpack(x, (3,), (3,), (1,), (2,), (2,), (4, 3), (4,))
    total = 0.0
    for i in range(4):
        camera = _rodrigues(xp, rotation, points[i] + depth - centre)
        flat = camera[:2] / camera[2]
        squared = xp.sum(flat**2)
        flat = flat * (1 + radial[0] * squared + radial[1] * squared**2)
        error = weights[i] * (flat * focal + principal - observed[i])
        total = total + xp.sum(error**2) + (1 - weights[i] ** 2) ** 2
    return total


@case(
    f"Hand tracking, three bones of a skinned hand; {ADBENCH}",
    lambda d: d.normal(3 + 3 + 3) * 0.4 + 0.2,
    lambda d: {
        "vertices": d.normal(5, 3),
        "weights": d.uniform(0.1, 1, 5, 3),
        "offsets": d.normal(3, 3) * 0.3,
        "targets": d.normal(5, 3),
    },
)
def hand_tracking(xp: Any, x: Any, vertices: Any, weights: Any, offsets: Any, targets: Any) -> Any:
    pose, bends, shift = unpack(x, (3,), (3,), (3,))
    transform = xp.eye(4)
    skinned = xp.zeros(5, 3)
    homogeneous = xp.concat([vertices, xp.ones(5, 1)], axis=1)
    parts = weights / xp.sum(weights, axis=1, keepdims=True)
    for bone in range(3):
        c, s = xp.cos(bends[bone]), xp.sin(bends[bone])
        local = xp.eye(4)
        local = xp.put(local, (0, 0), c)
        local = xp.put(local, (0, 1), -s)
        local = xp.put(local, (1, 0), s)
        local = xp.put(local, (1, 1), c)
        local = xp.put(local, (slice(0, 3), 3), offsets[bone])
        transform = transform @ local
        skinned = skinned + parts[:, bone, None] * (homogeneous @ transform.T)[:, :3]
    rotated = xp.stack([_rodrigues(xp, pose, skinned[i]) for i in range(5)])
    return xp.sum((rotated + shift - targets) ** 2)


@case(
    f"LSTM, diagonal weights, two steps; {ADBENCH}",
    lambda d: d.normal(8 * 3 + 5 * 3) * 0.6,
    lambda d: {"sequence": d.uniform(0, 1, 4, 3), "state": d.normal(2, 3)},
)
def lstm_adbench(xp: Any, x: Any, sequence: Any, state: Any) -> Any:
    weight, extra = unpack(x, (8, 3), (5, 3))
    hidden, cell = state[0], state[1]
    loss = 0.0
    for t in range(3):
        inputs = sequence[t] * extra[0]
        forget = xp.sigmoid(inputs * weight[0] + weight[4])
        ingate = xp.sigmoid(hidden * weight[1] + weight[5])
        outgate = xp.sigmoid(inputs * weight[2] + weight[6])
        change = xp.tanh(hidden * weight[3] + weight[7])
        cell = cell * forget + ingate * change
        hidden = outgate * xp.tanh(cell)
        predicted = hidden * extra[1] + extra[2] + extra[3] * extra[4]
        normal = xp.log(xp.sum(xp.exp(predicted)) + 2)
        loss = loss + xp.sum(sequence[t + 1] * (predicted - normal))
    return -loss / 9


@case(
    "Baydin et al. (2018), Automatic differentiation in machine learning: a survey, sec. 3.2",
    lambda d: d.uniform(0.1, 0.9, 1),
)
def logistic_map(xp: Any, x: Any) -> Any:
    for _ in range(5):
        x = 4 * x * (1 - x)
    return xp.sum(x)
