"""Initial values of `wengert.torch.nn.init`: what they are where they are not by chance, else how they are spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert.torch as torch
from wengert.core.errors import RangeError, ShapeError

init = torch.nn.init


def spread(x: Any) -> tuple[float, float]:
    values = x.detach().numpy()
    return float(values.std()), float(np.abs(values).max())


@pytest.mark.parametrize(
    ("name", "options", "deviation", "bound"),
    [
        ("uniform_", {"a": -2.0, "b": 2.0}, 4 / math.sqrt(12), 2.0),
        ("normal_", {"mean": 0.0, "std": 0.3}, 0.3, math.inf),
        ("trunc_normal_", {"std": 1.0, "a": -1.0, "b": 1.0}, 0.5396, 1.0),
        ("xavier_uniform_", {"gain": 2.0}, 2 * math.sqrt(2 / 500), 2 * math.sqrt(6 / 500)),
        ("xavier_normal_", {}, math.sqrt(2 / 500), math.inf),
        ("kaiming_uniform_", {"a": math.sqrt(5)}, math.sqrt(1 / (3 * 200)), math.sqrt(1 / 200)),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}, math.sqrt(2 / 300), math.inf),
        ("orthogonal_", {"gain": 3.0}, 3 / math.sqrt(300), math.inf),
        ("sparse_", {"sparsity": 0.25, "std": 1.0}, math.sqrt(0.75), math.inf),
    ],
)
def test_how_values_are_spread(name: str, options: dict[str, Any], deviation: float, bound: float) -> None:
    torch.manual_seed(0)
    x = torch.nn.Parameter(torch.empty(300, 200, dtype=torch.float64))
    assert getattr(init, name)(x, **options) is x
    found, most = spread(x)
    assert found == pytest.approx(deviation, rel=0.02)
    assert 0.99 * min(bound, most) <= most <= bound
    if name not in ("trunc_normal_",):
        with pytest.warns(FutureWarning, match="old name"):
            getattr(init, name[:-1])(x, **options)
    again = torch.Generator().manual_seed(7)
    first = getattr(init, name)(x, **options, generator=again).detach().numpy().copy()
    again.manual_seed(7)
    np.testing.assert_array_equal(getattr(init, name)(x, **options, generator=again).detach().numpy(), first)


def test_values_without_chance() -> None:
    x = torch.empty(2, 3)
    assert init.ones_(x).tolist() == [[1.0] * 3] * 2
    assert init.zeros_(x).tolist() == [[0.0] * 3] * 2
    assert init.constant_(x, 2.5).tolist() == [[2.5] * 3] * 2
    assert init.eye_(x).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    weight = init.dirac_(torch.empty(4, 2, 3, 3), groups=2)
    image = torch.randn(1, 4, 5, 5)
    passed = torch.nn.functional.conv2d(image, weight, padding=1, groups=2)
    np.testing.assert_array_equal(passed.numpy(), image.numpy())
    q = init.orthogonal_(torch.empty(3, 2, 2, dtype=torch.float64)).reshape(3, 4)
    np.testing.assert_allclose((q @ q.T).numpy(), np.eye(3), atol=1e-12)
    counts = (init.sparse_(torch.empty(10, 4), 0.25) == 0).sum(dim=0)
    assert counts.tolist() == [3] * 4


def test_fans_and_gains() -> None:
    assert init._calculate_fan_in_and_fan_out(torch.empty(8, 3, 5, 5)) == (75, 200)
    assert init._calculate_correct_fan(torch.empty(8, 3), "fan_out") == 8
    assert init.calculate_gain("leaky_relu", 0.2) == pytest.approx(math.sqrt(2 / 1.04))
    assert init.calculate_gain("tanh") == pytest.approx(5 / 3)


def test_refusals() -> None:
    for wrong in (
        lambda: init.dirac_(torch.empty(2, 2)),
        lambda: init.dirac_(torch.empty(3, 2, 1), groups=2),
        lambda: init.sparse_(torch.empty(2), 0.5),
        lambda: init.eye_(torch.empty(2)),
        lambda: init.xavier_uniform_(torch.empty(2)),
        lambda: init.calculate_gain("gelu"),
    ):
        with pytest.raises((ShapeError, RangeError)):
            wrong()


def test_complex_parameters_are_drawn_in_both_parts():
    x = torch.nn.init.normal_(torch.empty(100, 100, dtype=torch.cdouble), 1.0, 2.0)
    assert (x - 1).abs().square().mean().item() == pytest.approx(4.0, rel=0.1)
    assert x.imag.std().item() == pytest.approx(2 * 0.5**0.5, rel=0.1)
    y = torch.nn.init.uniform_(torch.empty(100, 100, dtype=torch.cfloat), 1.0, 2.0)
    for part in (y.real, y.imag):
        assert part.min() >= 1
        assert part.max() <= 2
        assert part.mean().item() == pytest.approx(1.5, abs=0.05)
    layer = torch.nn.Conv2d(2, 3, 2, dtype=torch.cfloat)
    assert layer(torch.ones(1, 2, 3, 3, dtype=torch.cfloat)).dtype is torch.cfloat
    assert layer.weight.imag.abs().max() > 0
