"""`pad` and the padding layers of `wengert.torch`: PyTorch's numbers on its own samples, and NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torch_records as records
import wengert as wg
import wengert.torch as torch
from wengert.core.errors import GraphError, ShapeError

F = torch.nn.functional
RECORDED = records.read("padding")


@pytest.mark.parametrize("label", RECORDED)
def test_padding_is_pytorchs(label: str) -> None:
    records.replay(torch, label, *RECORDED[label])


LAYERS = {"Reflection": "reflect", "Replication": "edge", "Circular": "wrap", "Zero": "constant"}


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_pad_as_numpy_does(kind: str, axes: int) -> None:
    x = np.random.RandomState(axes).normal(size=(2, 2, *(3, 4, 5)[:axes]))
    widths = (1, 2, 2, 0, 0, 1)[: 2 * axes]
    pairs = [(0, 0), (0, 0), *[*zip(widths[::2], widths[1::2])][::-1]]
    mode: Any = LAYERS[kind]
    layer = getattr(torch.nn, f"{kind}Pad{axes}d")
    np.testing.assert_array_equal(layer(widths)(torch.tensor(x)).numpy(), np.pad(x, pairs, mode=mode))
    same = layer(1)(torch.tensor(x)).numpy()
    np.testing.assert_array_equal(same, np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * axes], mode=mode))
    wg.check_grads(layer(widths), torch.tensor(x[:1, :1]))


def test_constants_of_every_dtype() -> None:
    assert torch.nn.ConstantPad1d((1, 0), 2.5)(torch.ones(1, 1)).tolist() == [[2.5, 1.0]]
    assert F.pad(torch.tensor([1, 2]), (1, 0), value=3.0).tolist() == [3, 1, 2]
    assert F.pad(torch.tensor([True]), (1, 1)).tolist() == [False, True, False]
    assert F.pad(torch.tensor([True]), (0, 1), value=True).tolist() == [True, True]
    assert F.pad(torch.zeros(0, 2), (0, 0, 1, 0), value=4.0).tolist() == [[4.0, 4.0]]


def test_widths_that_take_away() -> None:
    x = torch.arange(4.0)
    assert F.pad(x, (-1, 2)).tolist() == [1.0, 2.0, 3.0, 0.0, 0.0]
    assert F.pad(x.reshape(1, 4), (-4, 5), mode="replicate").tolist() == [[3.0] * 5]
    assert F.pad(x.reshape(1, 4), (-1, 2), mode="reflect").tolist() == [[1.0, 2.0, 3.0, 2.0, 1.0]]


def test_refusals() -> None:
    x = torch.ones(1, 3)
    for mode, width in (("reflect", 3), ("circular", 4)):
        with pytest.raises(ShapeError):
            F.pad(x, (width, 0), mode=mode)
    with pytest.raises(ShapeError):
        F.pad(x, (1, 1, 1))
    with pytest.raises(GraphError):
        F.pad(x, (1, 1), mode="mirror")


def test_compiled_calls() -> None:
    x = torch.arange(6.0).reshape(1, 2, 3)
    for mode in ("constant", "reflect", "replicate", "circular"):
        compiled = wg.jit(lambda v, mode=mode: F.pad(v, (1, 1), mode=mode))
        for _ in range(6):
            np.testing.assert_array_equal(compiled(x).numpy(), F.pad(x, (1, 1), mode=mode).numpy())
