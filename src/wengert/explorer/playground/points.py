"""Points in the plane in two classes: the sets that networks are tried on, and the reader's own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.errors import DataError, fail
from .draws import Draws

Sampler = Callable[[Draws, int], Array]
# Points of the reader's own set, and the size of the square that every set is scaled to, from -REACH to REACH.
MOST_POINTS = 2000
REACH = 3.0


def spirals(generator: Draws, count: int) -> Array:
    """Draw one arm of two spirals, which goes round one and a half times; the other is its mirror image."""
    along = (np.arange(count) + 0.5) / count
    angle = 1.5 * 2 * np.pi * along
    return np.asarray(0.95 * along[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1))


def disc(generator: Draws, count: int) -> Array:
    """Draw a disc about the middle."""
    angle, radius = generator.uniform(0, 2 * np.pi, count), 0.45 * np.sqrt(generator.uniform(0, 1, count))
    return np.asarray(radius[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1))


def ring(generator: Draws, count: int) -> Array:
    """Draw a ring around the disc."""
    angle, radius = generator.uniform(0, 2 * np.pi, count), generator.uniform(0.7, 1.0, count)
    return np.asarray(radius[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1))


def corners(sign: float) -> Sampler:
    """Return a sampler of two opposite quarters of a square: where the coordinates' product has this sign."""

    def sample(generator: Draws, count: int) -> Array:
        x = generator.uniform(0.08, 0.95, (count, 2))
        x *= np.where(generator.uniform(0.0, 1.0, (count, 1)) < 0.5, -1.0, 1.0)
        x[:, 1] *= sign
        return np.asarray(x)

    return sample


def moon(generator: Draws, count: int) -> Array:
    """Draw a half circle, opened downwards; the other is its mirror image, and each reaches into the other."""
    angle = generator.uniform(0, np.pi, count)
    return np.asarray(0.62 * np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25], axis=1))


def cloud(generator: Draws, count: int) -> Array:
    """Draw a bell-shaped cloud off the middle; the other is its mirror image."""
    return np.asarray(0.42 + 0.2 * generator.normal((count, 2)))


# The text in the field for the reader's own points, until they are there.
EXAMPLE = """x,y,class
1,1,inside
1,2,inside
2,1,inside
2,2,inside
1.5,1.5,inside
0,0,outside
0,3,outside
3,0,outside
3,3,outside
1.5,-0.3,outside
1.5,3.3,outside
-0.3,1.5,outside
3.3,1.5,outside
"""


def _mirrored(sample: Sampler) -> Sampler:
    return lambda generator, count: -sample(generator, count)


SETS: dict[str, tuple[Sampler, Sampler]] = {
    "spirals": (spirals, _mirrored(spirals)),
    "circles": (disc, ring),
    "xor": (corners(1.0), corners(-1.0)),
    "moons": (moon, _mirrored(moon)),
    "gaussians": (cloud, _mirrored(cloud)),
}


def _bump(x: Array, across: float, up: float) -> Array:
    return np.asarray(np.exp(-((x[:, 0] / REACH - across) ** 2 + (x[:, 1] / REACH - up) ** 2) / 0.08))


# Values from -1 to 1 over the square, to be fitted.
SURFACES: dict[str, Callable[[Array], Array]] = {
    "plane": lambda x: (x[:, 0] + x[:, 1]) / (2 * REACH),
    "saddle": lambda x: x[:, 0] * x[:, 1] / REACH**2,
    "bumps": lambda x: _bump(x, 0.5, 0.5) + _bump(x, -0.5, -0.5) - _bump(x, -0.5, 0.5) - _bump(x, 0.5, -0.5),
    "waves": lambda x: np.sin(2 * x[:, 0]) * np.cos(x[:, 1]),
}

# What a network may be given of a point.
FEATURES: dict[str, Callable[[Array], Array]] = {
    "x": lambda x: x[:, 0],
    "y": lambda x: x[:, 1],
    "x²": lambda x: x[:, 0] ** 2,
    "y²": lambda x: x[:, 1] ** 2,
    "xy": lambda x: x[:, 0] * x[:, 1],
    "sin x": lambda x: np.sin(x[:, 0]),
    "sin y": lambda x: np.sin(x[:, 1]),
}


def features(x: Array, names: Sequence[str]) -> Array:
    """Return the named features of points (n, 2), one column for each, in single precision."""
    points = np.asarray(x, np.float64)
    return np.stack([FEATURES[name](points) for name in names], axis=1).astype(np.float32)


def surface(name: str, count: int, noise: float, generator: Draws) -> tuple[Array, Array]:
    """Return points of the square, of shape (count, 2), and a surface's values there, with noise."""
    x = 0.95 * REACH * generator.uniform(-1.0, 1.0, (count, 2))
    return x, SURFACES[name](x) + noise * generator.normal(count)


def made(name: str, count: int, noise: float, generator: Draws) -> tuple[Array, Array]:
    """Return points of a set, of shape (count, 2), and their classes, 0 or 1; half of them in each, in mixed order."""
    first, second = SETS[name]
    ones = count // 2
    x = REACH * np.concatenate([second(generator, count - ones), first(generator, ones)])
    x += noise * generator.normal((count, 2))
    labels = np.repeat([0.0, 1.0], [count - ones, ones])
    order = generator.chosen(count, count)
    return x[order], labels[order]


def read(text: str) -> tuple[Array, Array]:
    """Return the reader's own points: lines of x, y, class, by commas, semicolons or tabs, after a line of names or
    none.

    They are moved and scaled to the square that the other sets are in. Raises DataError that names the line.
    """
    separator = next((s for s in (";", "\t") if s in text), ",")
    rows: list[list[float]] = []
    labels: dict[str, int] = {}
    for number, cells in enumerate(csv.reader(io.StringIO(text), delimiter=separator), 1):
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        numbers = _numbers(cells[:2])
        if numbers is None and not rows:
            continue
        if numbers is None or len(cells) != 3:
            fail(DataError, f"line {number} of the data is no x, y, class")
        label = labels.setdefault(cells[2], len(labels))
        if len(labels) > 2:
            fail(DataError, f"line {number} of the data has a third class: there are two")
        rows.append([*numbers, label])
        if len(rows) > MOST_POINTS:
            fail(DataError, f"there are more than {MOST_POINTS:,} points in the data")
    if len(labels) < 2 or len(rows) < 8:
        fail(DataError, "the data need 8 points or more, and two classes")
    table = np.array(rows)
    x = table[:, :2] - (table[:, :2].max(axis=0) + table[:, :2].min(axis=0)) / 2
    largest = np.abs(x).max(axis=0)
    return 0.95 * REACH * x / np.where(largest > 0, largest, 1.0), table[:, 2]


def _numbers(cells: list[str]) -> Any:
    try:
        found = [float(cell) for cell in cells]
    except ValueError:
        return None
    return found if len(found) == 2 and np.isfinite(found).all() else None
