"""Shapes, rotations and registration."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import case


def quaternion_matrix(xp: Any, q: Any) -> Any:
    q = q / xp.sqrt(xp.sum(q**2))
    w, a, b, c = q[0], q[1], q[2], q[3]
    entries = [
        [1 - 2 * (b**2 + c**2), 2 * (a * b - w * c), 2 * (a * c + w * b)],
        [2 * (a * b + w * c), 1 - 2 * (a**2 + c**2), 2 * (b * c - w * a)],
        [2 * (a * c - w * b), 2 * (b * c + w * a), 1 - 2 * (a**2 + b**2)],
    ]
    return xp.stack([xp.stack(row) for row in entries])


@case(
    "Horn (1987), Closed-form solution of absolute orientation using unit quaternions",
    lambda d: d.normal(7),
    lambda d: {"source": d.normal(6, 3), "target": d.normal(6, 3)},
)
def quaternion_registration(xp: Any, x: Any, source: Any, target: Any) -> Any:
    return xp.sum((source @ quaternion_matrix(xp, x[:4]).T + x[4:] - target) ** 2)


@case(
    "Besl and McKay (1992), A method for registration of 3-D shapes: iterative closest point",
    lambda d: d.normal(7),
    lambda d: {"source": d.normal(6, 3), "target": d.normal(8, 3)},
)
def iterative_closest_point(xp: Any, x: Any, source: Any, target: Any) -> Any:
    moved = source @ quaternion_matrix(xp, x[:4]).T + x[4:]
    squared = xp.sum((moved[:, None, :] - target[None, :, :]) ** 2, axis=-1)
    return xp.mean(xp.min(squared, axis=1)) + xp.mean(xp.sqrt(xp.min(squared, axis=0)))


@case(
    "Gower (1975), Generalized Procrustes analysis: energy in similarity transforms of the plane",
    lambda d: d.normal(4),
    lambda d: {"shape": d.normal(5, 2), "target": d.normal(5, 2)},
)
def procrustes_energy(xp: Any, x: Any, shape: Any, target: Any) -> Any:
    """With complex numbers: z -> (a + ib) z + (c + id)."""
    z = shape[:, 0] + 1j * shape[:, 1]
    w = target[:, 0] + 1j * target[:, 1]
    moved = (x[0] + 1j * x[1]) * z + (x[2] + 1j * x[3])
    return xp.sum(xp.abs(moved - w) ** 2) + xp.sum(xp.abs(moved - w))


@case("Shoemake (1985), Animating rotation with quaternion curves: slerp", lambda d: d.normal(8))
def slerp(xp: Any, x: Any) -> Any:
    p = x[:4] / xp.sqrt(xp.sum(x[:4] ** 2))
    q = x[4:] / xp.sqrt(xp.sum(x[4:] ** 2))
    angle = xp.acos(xp.clip(xp.sum(p * q), -1.0, 1.0))
    t = xp.asarray(np.array([0.2, 0.5, 0.9]))
    path = (xp.sin((1 - t) * angle)[:, None] * p + xp.sin(t * angle)[:, None] * q) / xp.sin(angle)
    return xp.sum(path**2 * (xp.arange(4) + 1)) + xp.sum(quaternion_matrix(xp, path[1]) ** 3)


@case(
    "Denavit and Hartenberg (1955): inverse kinematics of an arm",
    lambda d: d.uniform(-1.5, 1.5, 5),
    lambda d: {"goal": d.normal(3)},
)
def robot_arm(xp: Any, x: Any, goal: Any) -> Any:
    frame, zero, one = xp.eye(4), xp.zeros(1)[0], xp.ones(1)[0]
    for i in range(5):
        c, s = xp.cos(x[i]), xp.sin(x[i])
        ca, sa = float(np.cos(0.5 * i)), float(np.sin(0.5 * i))
        link = xp.stack(
            [
                xp.stack([c, -s * ca, s * sa, 0.5 * c]),
                xp.stack([s, c * ca, -c * sa, 0.5 * s]),
                xp.stack([zero, one * sa, one * ca, one * 0.1]),
                xp.stack([zero, zero, zero, one]),
            ]
        )
        frame = frame @ link
    return xp.sum((frame[:3, 3] - goal) ** 2) + 0.1 * (frame[2, 2] - 1) ** 2


@case(
    "Willmore (1965), Meyer et al. (2003), Discrete differential geometry operators: area and angles of a mesh",
    lambda d: np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]]) + 0.2 * d.normal(5, 3),
)
def mesh_energy(xp: Any, x: Any) -> Any:
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 4], [2, 3, 4], [3, 1, 4]])
    a, b, c = (x[xp.asarray(faces[:, k])] for k in range(3))
    u, v = b - a, c - a
    normal = u[:, [1, 2, 0]] * v[:, [2, 0, 1]] - u[:, [2, 0, 1]] * v[:, [1, 2, 0]]
    area = xp.sqrt(xp.sum(normal**2, axis=1)) / 2
    angle = xp.atan2(2 * area, xp.sum(u * v, axis=1))
    volume = xp.sum(a * normal) / 6
    return xp.sum(area) + xp.sum(angle**2) + volume


@case(
    "Thomson (1904), points on the sphere; in spherical coordinates",
    lambda d: d.uniform(0.4, 2.6, 2, 6) * np.array([[1.0], [2.2]]),
)
def thomson(xp: Any, x: Any) -> Any:
    polar, captures = x[0], x[1]
    points = xp.stack([xp.sin(polar) * xp.cos(captures), xp.sin(polar) * xp.sin(captures), xp.cos(polar)], axis=1)
    total = 0.0
    for i in range(6):
        for j in range(i):
            total = total + 1 / xp.sqrt(xp.sum((points[i] - points[j]) ** 2))
    return total


@case(
    "Kruskal (1964), Multidimensional scaling by optimizing goodness of fit: raw stress",
    lambda d: d.normal(7, 2),
    lambda d: {"wanted": d.uniform(0.5, 3, 7, 7)},
)
def scaling_stress(xp: Any, x: Any, wanted: Any) -> Any:
    """The distance of a point to itself is where sqrt has an infinite slope."""
    squared = xp.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=-1)
    apart = xp.asarray(~np.eye(7, dtype=bool))
    distance = xp.where(apart, xp.sqrt(xp.where(apart, squared, 1.0)), 0.0)
    return xp.sum(xp.where(apart, (distance - (wanted + wanted.T) / 2) ** 2, 0.0)) / 2


@case("Catmull and Rom (1974), de Casteljau (1959): bending energy and length of splines", lambda d: d.normal(6, 2))
def spline_energy(xp: Any, x: Any) -> Any:
    t = xp.asarray(np.linspace(0.0, 1.0, 9))[:, None]
    layer = [x[i] for i in range(6)]
    while len(layer) > 1:
        layer = [(1 - t) * a + t * b for a, b in zip(layer[:-1], layer[1:], strict=True)]
    curve = layer[0]
    steps = curve[1:] - curve[:-1]
    bends = steps[1:] - steps[:-1]
    return xp.sum(xp.sqrt(xp.sum(steps**2, axis=1))) + 10 * xp.sum(bends**2)


@case(
    "Barrow et al. (1977), Parametric correspondence and chamfer matching; with a smooth minimum",
    lambda d: d.normal(3),
    lambda d: {"shape": d.normal(7, 2), "contour": d.normal(9, 2)},
)
def smooth_chamfer(xp: Any, x: Any, shape: Any, contour: Any) -> Any:
    c, s = xp.cos(x[0]), xp.sin(x[0])
    rotation = xp.stack([xp.stack([c, -s]), xp.stack([s, c])])
    moved = shape @ rotation.T + x[1:]
    squared = xp.sum((moved[:, None, :] - contour[None, :, :]) ** 2, axis=-1)
    return -xp.mean(xp.logsumexp(-squared / 0.3, axis=1)) * 0.3
