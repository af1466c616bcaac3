"""Layers and their functions are one set: those of `wengert.torch.nn` are made of those of `wengert.nn`."""

from __future__ import annotations

import inspect

import pytest

import wengert as wg
import wengert.torch as torch
from wengert.torch.nn.module import COUNTERPARTS

nn = wg.nn
LAYERS = [
    name
    for name in nn.__all__
    if inspect.isclass(getattr(nn, name)) and issubclass(getattr(nn, name), nn.Module) and name != "Module"
]
# Those that are written twice.
TWICE = {"LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"}
TWICE |= {"ModuleDict", "ModuleList", "ParameterList", "Sequential"}
TWICE |= {"MultiHeadAttention", "MultiheadAttention", "TransformerEncoder", "TransformerEncoderLayer"}
TWICE |= {"LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d"}
TWICE |= {"Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"}
FUNCTIONS = nn.functional.__all__
FUNCTIONS_TWICE = {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "batch_norm", "layer_norm"}
FUNCTIONS_TWICE |= {"rms_norm", "group_norm", "normalize", "scaled_dot_product_attention", "one_hot"}


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in TWICE])
def test_a_layer_has_its_methods_from_one_class(name: str) -> None:
    plain, made = getattr(nn, name), getattr(torch.nn, name)
    assert COUNTERPARTS[plain] is made
    assert issubclass(made, torch.nn.Module)
    assert issubclass(made, plain)
    assert inspect.signature(made.__init__) == inspect.signature(plain.__init__)
    own = {key for key, value in vars(made).items() if vars(plain).get(key, made) is not value}
    assert own <= {"__init__", "__doc__", "__module__", "__dict__", "__weakref__"}


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in FUNCTIONS_TWICE])
def test_a_function_is_the_same_one(name: str) -> None:
    assert getattr(torch.nn.functional, name) is getattr(nn.functional, name)
