"""Derivatives of `wengert.torch` where a function has none: PyTorch's choices, as PyTorch 2.13 gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

F = torch.nn.functional

# A function, where, and PyTorch's gradient of its sum.
KINKS: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "hardswish": (F.hardswish, [3.0, -3.0, 0.0, 4.0, -4.0], [1.0, 0.0, 0.5, 1.0, 0.0]),
    "hardsigmoid": (F.hardsigmoid, [3.0, -3.0, 0.0], [0.0, 0.0, 1 / 6]),
    "hardtanh": (F.hardtanh, [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]),
    "relu6": (F.relu6, [0.0, 6.0, 3.0], [0.0, 0.0, 1.0]),
    "clamp": (lambda x: torch.clamp(x, -1.0, 1.0), [1.0, -1.0, 0.0], [1.0, 1.0, 1.0]),
    "atan2": (lambda x: torch.atan2(x, x), [0.0, -0.0, 1.0], [0.0, 0.0, 0.0]),
    "atan2 of one": (lambda x: torch.atan2(x, torch.zeros(3)), [0.0, 2.0, -2.0], [0.0, 0.0, 0.0]),
    "hinge_embedding": (lambda x: F.hinge_embedding_loss(x, -torch.ones(2), reduction="sum"), [1.0, 2.0], [-1.0, 0.0]),
    "margin_ranking": (
        lambda x: F.margin_ranking_loss(x, torch.ones(3), torch.ones(3), reduction="sum"),
        [1.0, 2.0, 0.0],
        [-1.0, 0.0, -1.0],
    ),
    "cosine_embedding": (
        lambda x: F.cosine_embedding_loss(x.reshape(1, 2), torch.tensor([[0.0, 1.0]]), -torch.ones(1)),
        [1.0, 0.0],
        [0.0, 1.0],
    ),
    "triplet_margin": (
        lambda x: F.triplet_margin_loss(x.reshape(1, 1), torch.zeros(1, 1), torch.ones(1, 1), eps=0.0),
        [0.0],
        [1.0],
    ),
    "multi_margin": (lambda x: F.multi_margin_loss(x.reshape(1, 2), torch.tensor([0])), [1.0, 0.0], [0.0, 0.0]),
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_have_pytorchs_derivatives(name: str) -> None:
    fn, at, wanted = KINKS[name]
    x = torch.tensor(at, requires_grad=True)
    fn(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6, err_msg="eager")
    compiled = wg.jit(wg.grad(lambda x: fn(x).sum()))
    for _ in range(6):
        found = compiled(torch.tensor(at))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6, err_msg="compiled")


def test_atan2_at_the_origin_keeps_the_signs_of_zeros() -> None:
    y, x = torch.tensor([0.0, -0.0, 0.0, -0.0]), torch.tensor([0.0, 0.0, -0.0, -0.0])
    np.testing.assert_array_equal(torch.atan2(y, x).numpy(), np.arctan2(y.numpy(), x.numpy()))


def test_a_tensor_expanded_to_its_own_shape_has_no_history_without_gradients() -> None:
    x = torch.ones(3, requires_grad=True) * 2
    with torch.no_grad():
        for found in (x.expand(3), x.expand(-1), x.broadcast_to((3,)), x.expand_as(x), *torch.broadcast_tensors(x, x)):
            assert not found.requires_grad
    assert x.expand(3).requires_grad
