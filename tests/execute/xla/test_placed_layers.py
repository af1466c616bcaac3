"""Layers made on a device: all of them, with the draws that they have on the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg

pytest.importorskip("jax", reason="the devices are JAX's")

import jax

import wengert.torch as torch

pytestmark = pytest.mark.skipif("len(jax.local_devices()) < 3", reason="the tests need three devices")

FIRST = "xla:1"
LAYERS: dict[str, tuple[Any, ...]] = {
    "Linear": (3, 2), "Bilinear": (3, 2, 4), "Embedding": (5, 3), "EmbeddingBag": (5, 3), "LayerNorm": (4,),
    "RMSNorm": (4,), "GroupNorm": (2, 4), "BatchNorm1d": (4,), "BatchNorm2d": (4,), "InstanceNorm1d": (4,),
    "Conv1d": (2, 3, 3), "Conv2d": (2, 4, 3), "ConvTranspose2d": (2, 4, 3), "RNN": (3, 4), "LSTM": (3, 4),
    "GRU": (3, 4), "RNNCell": (3, 4), "LSTMCell": (3, 4), "GRUCell": (3, 4), "PReLU": (),
    "MultiheadAttention": (8, 2), "TransformerEncoderLayer": (8, 2), "TransformerDecoderLayer": (8, 2),
    "Transformer": (8, 2), "SyncBatchNorm": (4,), "AdaptiveLogSoftmaxWithLoss": (8, 10, [2, 4]),
}  # fmt: skip
CASES = [(ns, name) for ns in (wg, torch) for name in LAYERS if hasattr(ns.nn, name)]


@pytest.mark.parametrize(("ns", "name"), CASES, ids=[f"{ns.__name__}.{name}" for ns, name in CASES])
def test_layers_take_a_device(ns: Any, name: str) -> None:
    made = []
    for device in (None, FIRST):
        wg.random.manual_seed(1)
        made.append(getattr(ns.nn, name)(*LAYERS[name], device=device))
    for plain, there in zip(made[0].state_dict().values(), made[1].state_dict().values(), strict=True):
        np.testing.assert_array_equal(there.detach().to("cpu").numpy(), plain.detach().numpy())
    for _ in range(2):
        assert {str(t.device) for t in (*made[1].parameters(), *made[1].buffers())} <= {FIRST}
        if hasattr(made[1], "reset_parameters"):
            made[1].reset_parameters()


@pytest.mark.parametrize("name", ["LazyLinear", "LazyConv2d", "LazyBatchNorm1d"])
def test_what_has_no_shape_yet_is_not_placed(name: str) -> None:
    arguments = {"LazyLinear": (3,), "LazyConv2d": (3, 3)}.get(name, ())
    with pytest.raises(wg.DTypeError, match=FIRST):
        getattr(torch.nn, name)(*arguments, device=FIRST)


def test_a_device_that_there_is_not() -> None:
    with pytest.raises(wg.GraphError, match="jax has no cuda here"):
        wg.nn.Linear(3, 2, device="cuda:3")
    with pytest.raises(wg.DTypeError, match="cuda:3"):
        torch.nn.Linear(3, 2, device="cuda:3")
    assert len(jax.local_devices()) > 2
