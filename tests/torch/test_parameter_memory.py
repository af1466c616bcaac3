"""Parameters and buffers made of tensors share their memory. The numbers are PyTorch's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert.torch as torch

either = pytest.mark.parametrize("compiled", [lambda f: f, torch.compile], ids=["eager", "compiled"])
Compile = Callable[[Any], Any]


def equal(tensor: Any, expected: Any) -> None:
    np.testing.assert_allclose(tensor.detach(), np.asarray(expected, np.float64), rtol=1e-6)


@pytest.mark.parametrize("kind", [torch.nn.Parameter, torch.nn.Buffer])
def test_a_write_to_either_reaches_both(kind: Any) -> None:
    t = torch.ones(3)
    p = kind(t)
    p.data.mul_(5)
    equal(t, [5, 5, 5])
    t.add_(1)
    equal(p, [6, 6, 6])
    with torch.no_grad():
        p[1:].zero_()
    equal(t, [6, 0, 0])


def test_parameters_of_parts_of_a_tensor() -> None:
    t = torch.ones(4)
    a, b = torch.nn.Parameter(t[:2]), torch.nn.Parameter(t[2:])
    optimizer = torch.optim.Adam([a, b], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        (((a - 3) ** 2).sum() + (b**2).sum()).backward()
        optimizer.step()
    np.testing.assert_allclose(t, [2.463, 2.463, -0.3359, -0.3359], rtol=1e-4)
    turned = torch.arange(6.0).reshape(2, 3)
    with torch.no_grad():
        torch.nn.Parameter(turned.t())[0] = 9
    equal(turned, [[9, 1, 2], [9, 4, 5]])


@either
def test_a_tensor_follows_the_optimiser(compiled: Compile) -> None:
    t = torch.ones(2)
    p = torch.nn.Parameter(t)
    optimizer = torch.optim.SGD([p], lr=0.1)

    @compiled
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        (x * p).sum().backward()
        optimizer.step()

    for _ in range(4):
        step(torch.tensor([1.0, 2.0]))
    equal(t, [0.6, 0.2])
    equal(p, [0.6, 0.2])
    t.fill_(1.0)
    step(torch.tensor([1.0, 2.0]))
    equal(p, [0.9, 0.8])


def test_gradients_of_a_parameter_are_its_own() -> None:
    w = torch.ones(3, requires_grad=True)
    t = w * 2
    p = torch.nn.Parameter(t)
    t.mul_(3)
    (t.sum() + (p * 2).sum()).backward()
    assert p.is_leaf
    equal(w.grad, [6, 6, 6])
    equal(p.grad, [2, 2, 2])
    equal(p, [6, 6, 6])
    leaf = torch.ones(3, requires_grad=True)
    shared = torch.nn.Parameter(leaf)
    shared.data.mul_(5)
    equal(leaf, [5, 5, 5])


def test_what_takes_a_parameter_apart() -> None:
    t = torch.ones(2, 2)
    layer = torch.nn.Linear(2, 2, bias=False)
    layer.weight = torch.nn.Parameter(t)
    layer.load_state_dict({"weight": torch.full((2, 2), 7.0)})
    equal(t, [[7, 7], [7, 7]])
    twin = copy.deepcopy(layer)
    twin.weight.data.add_(1)
    equal(t, [[7, 7], [7, 7]])
    layer.double()
    layer.weight.data.add_(1)
    t.add_(5)
    equal(t, [[12, 12], [12, 12]])
    equal(layer.weight, [[8, 8], [8, 8]])
    p = torch.nn.Parameter(t)
    p.data = torch.zeros(2, 2)
    t.add_(1)
    equal(p, [[0, 0], [0, 0]])
    q = torch.nn.Parameter(t)
    torch.nn.utils.vector_to_parameters(torch.zeros(4), [q])
    equal(t, [[13, 13], [13, 13]])


def test_what_overlaps_itself_is_copied() -> None:
    p = torch.nn.Parameter(torch.ones(3).expand(2, 3))
    p.data.add_(1)
    equal(p, [[2, 2, 2], [2, 2, 2]])
