"""Attention and transformers of `wengert.torch`: PyTorch's numbers and gradients, and every crossing."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_layers import compiled, same
from torch_records import read
from wengert.core.errors import DTypeError, GraphError, RangeError, ShapeError

F, nn = torch.nn.functional, torch.nn

CALLS = [
    "F.scaled_dot_product_attention(N(2, 3, 4), N(2, 5, 4), N(2, 5, 2)), F.scaled_dot_product_attention(N(3, 4), N(3, 4), N(3, 4), is_causal=True)",  # noqa: E501
    "F.scaled_dot_product_attention(N(2, 3, 4), N(2, 5, 4), N(2, 5, 2), N(3, 5), scale=0.3)",
    "F.scaled_dot_product_attention(N(2, 3, 4), N(2, 5, 4), N(2, 5, 2), attn_mask=B(2, 3, 5))",
    "F.scaled_dot_product_attention(N(1, 4, 3, 2), N(1, 2, 5, 2), N(1, 2, 5, 2), enable_gqa=True)",
    "(m := layer(nn.MultiheadAttention(4, 2)))(N(3, 2, 4), N(5, 2, 4), N(5, 2, 4)), list(m.state_dict()), repr(m)",
    "layer(nn.MultiheadAttention(4, 2, bias=False, batch_first=True))(x := N(2, 3, 4), x, x, average_attn_weights=False)",  # noqa: E501
    "layer(nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True))(N(3, 2, 4), N(5, 2, 4), N(5, 2, 4), B(2, 5))",  # noqa: E501
    "(m := layer(nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True)))(N(3, 4), N(2, 3), N(2, 5)), list(m.state_dict())",  # noqa: E501
    "layer(nn.MultiheadAttention(4, 2))(x := N(3, 2, 4), x, x, attn_mask=N(4, 3, 3), key_padding_mask=N(2, 3).detach())",  # noqa: E501
    "layer(nn.MultiheadAttention(4, 2))(x := N(3, 2, 4), x, x, need_weights=False, is_causal=True, attn_mask=torch.triu(torch.ones(3, 3), 1) > 0)[0]",  # noqa: E501
    "layer(nn.MultiheadAttention(4, 2))(x := N(3, 4), x, x, B(3), attn_mask=B(3, 3), need_weights=False)[0]",
    "F.multi_head_attention_forward(N(3, 2, 4), N(5, 2, 4), N(5, 2, 4), 4, 2, N(12, 4), N(12), None, None, False, 0.0, N(4, 4), N(4), static_k=N(4, 6, 2), static_v=N(4, 6, 2))",  # noqa: E501
    "(m := layer(nn.TransformerEncoderLayer(4, 2, 6, 0.0)))(N(3, 2, 4)), list(m.state_dict())",
    "layer(nn.TransformerEncoderLayer(4, 2, 6, 0.0, 'gelu', 1e-3, True, True))(N(2, 3, 4), N(3, 3), B(2, 3))",
    "layer(nn.TransformerEncoderLayer(4, 1, 6, 0.0, F.silu, bias=False))(N(3, 4))",
    "layer(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, 0.0), 2, nn.LayerNorm(4)))(N(3, 2, 4), torch.triu(torch.ones(3, 3), 1) > 0, is_causal=True)",  # noqa: E501
    "(m := layer(nn.TransformerDecoderLayer(4, 2, 6, 0.0)))(N(3, 2, 4), N(5, 2, 4)), list(m.state_dict())",
    "layer(nn.TransformerDecoderLayer(4, 2, 6, 0.0, 'gelu', batch_first=True, norm_first=True))(N(2, 3, 4), N(2, 5, 4), N(3, 3), N(3, 5), B(2, 3), B(2, 5))",  # noqa: E501
    "layer(nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6, 0.0), 2))(N(3, 2, 4), N(5, 2, 4))",
    "(m := layer(nn.Transformer(4, 2, 1, 1, 6, 0.0)))(N(3, 2, 4), N(5, 2, 4), tgt_mask=m.generate_square_subsequent_mask(5, dtype=torch.float64))",  # noqa: E501
    "nn.Transformer.generate_square_subsequent_mask(3), nn.Transformer.generate_square_subsequent_mask(2, dtype=torch.float64)",  # noqa: E501
    "repr(nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)), repr(nn.TransformerDecoderLayer(4, 2, 8))",  # noqa: E501
]
RECORDED = read("transformer")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_gradients_are_pytorchs(text: str) -> None:
    same(torch, text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS if t.startswith("F.")])
def test_compiled_calls_give_the_same(text: str) -> None:
    compiled(wg, torch, text, RECORDED[text])


def trained(module: Any, args: tuple[Any, ...], compile: bool) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> Any:
        optimizer.zero_grad()
        loss = (module(*args) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compile else step
    return [run().item() for _ in range(6)]


def test_training_compiled() -> None:
    model = nn.Transformer(4, 2, 1, 1, 8, 0.0, batch_first=True).double()
    args = (torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64))
    twin = copy.deepcopy(model)
    losses = trained(model, args, compile=False)
    np.testing.assert_allclose(trained(twin, args, compile=True), losses, rtol=1e-9)
    assert losses[-1] < losses[0]


def test_second_derivatives_and_batches() -> None:
    attend = nn.MultiheadAttention(4, 2).double()
    x = torch.tensor(np.random.RandomState(0).normal(size=(3, 1, 4)))
    wg.check_grads(lambda v: attend(v, v, v)[0], x, order=2)
    batch = torch.tensor(np.random.RandomState(0).normal(size=(2, 3, 4)))
    found = wg.vmap(lambda v: attend(v, v, v, need_weights=False)[0])(batch)
    np.testing.assert_allclose(found.detach().numpy(), [attend(v, v, v)[0].detach().numpy() for v in batch], rtol=1e-9)


def test_copies_of_a_layer_are_their_own() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
    first, second = (layer.self_attn.in_proj_weight for layer in encoder.layers)
    assert first is not second
    np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())
    assert not any(
        p.detach().numpy().any() for n, p in encoder.named_parameters() if "proj" in n and n.endswith("bias")
    )


def test_dropout_of_weights() -> None:
    attend, x = nn.MultiheadAttention(4, 2, dropout=0.5), torch.randn(6, 1, 4)
    assert any((attend(x, x, x)[1] == 0).any() for _ in range(4))
    attend.eval()
    assert not (attend(x, x, x)[1] == 0).any()


def test_layers_of_wengert_become_ours() -> None:
    inner = wg.nn.TransformerEncoder(wg.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2).eval()
    x = torch.randn(2, 3, 4)
    before = inner(x).detach().numpy()
    model = nn.Sequential(inner)
    assert type(model[0].layers[1].self_attn) is nn.MultiheadAttention
    np.testing.assert_allclose(model(x).detach().numpy(), before, rtol=1e-5, atol=1e-6)


def test_refusals() -> None:
    attend, x = nn.MultiheadAttention(4, 2), torch.ones(3, 1, 4)
    for wrong in (
        lambda: nn.MultiheadAttention(4, 3),
        lambda: attend(torch.ones(3, 1, 6), x, x),
        lambda: attend(x, x[:, 0], x),
        lambda: attend(x, x, x, attn_mask=torch.ones(2, 3)),
        lambda: attend(x, x, x, key_padding_mask=torch.ones(2, 3)),
        lambda: nn.Transformer(4, 2, 1, 1, 8)(x, torch.ones(3, 2, 4)),
        lambda: nn.Transformer(4, 2, 1, 1, 8)(x, torch.ones(3, 1, 6)),
        lambda: F.scaled_dot_product_attention(x, x, x, torch.ones(1, 1), is_causal=True),
        lambda: F.scaled_dot_product_attention(torch.ones(3, 2, 4), torch.ones(2, 2, 4), x, enable_gqa=True),
    ):
        with pytest.raises((ShapeError, RangeError)):
            wrong()
    with pytest.raises(GraphError):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")
    for wrong in (
        lambda: attend(x, x, x, attn_mask=torch.zeros(3, 3, dtype=torch.int64)),
        lambda: F.scaled_dot_product_attention(x, x.double(), x),
    ):
        with pytest.raises(DTypeError):
            wrong()


@pytest.mark.parametrize("need_weights", [True, False])
def test_causal_attention_needs_no_mask(need_weights: bool) -> None:
    attend, x = nn.MultiheadAttention(4, 2), torch.randn(3, 1, 4)
    mask = torch.triu(torch.ones(3, 3), 1) > 0
    found, _ = attend(x, x, x, is_causal=True, need_weights=need_weights)
    assert torch.allclose(found, attend(x, x, x, attn_mask=mask)[0], atol=1e-6)
