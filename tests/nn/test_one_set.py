"""Layers and their functions are one set: those of `wengert.torch.nn` are made of those of `wengert.nn`."""

from __future__ import annotations

import inspect
import pickle

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
TWICE: set[str] = set()
TWICE |= {"ModuleDict", "ModuleList", "ParameterList", "Sequential"}


FUNCTIONS = nn.functional.__all__
FUNCTIONS_TWICE = {"normalize", "one_hot"}


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


def test_a_norm_of_half_numbers_keeps_their_dtype() -> None:
    x = wg.ones((2, 4), dtype="float16")
    for layer in (nn.LayerNorm(4), nn.RMSNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm1d(4)):
        assert layer(x).dtype == wg.float16


def test_convolutions_of_two_dtypes() -> None:
    x, w = [wg.ones((1, 1, 3), dtype=d) for d in ("float64", "float32")]
    assert nn.functional.conv1d(x, w).dtype == wg.float64
    with pytest.raises(wg.DTypeError, match=r"an input .* and weights"):
        torch.nn.functional.conv1d(torch.ones(1, 1, 3, dtype=torch.float64), torch.ones(1, 1, 3))


def test_old_state_dicts_lack_counts_of_batches() -> None:
    for ns in (wg, torch):
        model = ns.nn.Sequential(ns.nn.BatchNorm1d(2))
        state = {k: v for k, v in model.state_dict().items() if not k.endswith("tracked")}
        assert not model.load_state_dict(state).missing_keys


def test_root_mean_square_of_complex_numbers() -> None:
    x = wg.tensor([3.0 + 4.0j, 1.0j])
    square = (x * x).mean()
    assert wg.allclose(nn.functional.rms_norm(x, 2, eps=0.0), x / square**0.5)


def test_packed_sequences_are_those_of_both_namespaces() -> None:
    rnn = nn.utils.rnn
    assert torch.nn.utils.rnn.PackedSequence is rnn.PackedSequence
    x = wg.rand((2, 3, 4))
    layer = nn.LSTM(4, 5, proj_size=2, batch_first=True)
    packed, (h, _) = layer(rnn.pack_padded_sequence(x, [3, 2], batch_first=True))
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
    first, (last, _) = layer(x[1:, :2])
    assert lengths.tolist() == [3, 2]
    assert wg.allclose(padded[1, :2], first[0])
    assert wg.allclose(h[0, 1], last[0, 0])


def test_layers_of_pytorchs_namespace_take_sequences_of_open_lengths() -> None:
    layer = torch.nn.GRU(2, 3)
    x = wg.placeholder(("t", 1, 2), name="x")
    run = wg.function([x], layer(x)[0])
    for n in (3, 5):
        given = torch.randn(n, 1, 2)
        assert wg.allclose(run(given), layer(given)[0], atol=1e-6)


def test_layers_inside_of_layers_are_found_by_pickle() -> None:
    for ns in (wg, torch):
        for kind in {type(module) for module in ns.nn.Transformer(4, 2, 1, 1, 8).modules()}:
            assert pickle.loads(pickle.dumps(kind)) is kind
