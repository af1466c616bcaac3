"""einops on tensors against einops on arrays: eager, compiled, batched, and its gradients; and its layers."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg

HAS_EINOPS = importlib.util.find_spec("einops") is not None
needs_einops = pytest.mark.skipif(not HAS_EINOPS, reason="einops is not installed")

DATA = np.random.default_rng(0).normal(size=(2, 3, 4, 6))


def calls(x: Any) -> dict[str, Any]:
    """What each function gives."""
    import einops

    packed, sizes = einops.pack([x, x[:, 0]], "b * w")
    found = {
        "rearrange": einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3),
        "list": einops.rearrange([x, 2 * x], "n b ... -> b ... n"),
        "ellipsis": einops.rearrange(x, "b ... w -> ... (b w)"),
        "repeat": einops.repeat(x, "b c h w -> (b n) c (h 2) m w", n=3, m=2),
        "repeat first": einops.repeat(x, "b c h w -> n b c h w m", n=3, m=2),
        "einsum": einops.einsum(x, x, "b c h w, b d h w -> b c d"),
        "pack": packed,
        "reduced in part": einops.reduce(x, "b c (h 2) (w 2) -> b c h w", "max"),
        **{op: einops.reduce(x, "b c h w -> c 1 h", op) for op in ("sum", "mean", "min", "max", "prod")},
    }
    return found | {f"unpack {i}": part for i, part in enumerate(einops.unpack(packed, sizes, "b * w"))}


@pytest.fixture
def registered() -> None:
    assert wg.interop.einops.WengertBackend.framework_name == "wengert"


def test_without_einops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are there, and making a layer says what to install."""
    monkeypatch.setitem(sys.modules, "einops", None)
    monkeypatch.setitem(sys.modules, "einops._backends", None)
    file = Path(wg.interop.__file__).with_name("einops.py")
    spec = importlib.util.spec_from_file_location("wengert.interop.without_einops", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(wg.DataError, match=r"Rearrange needs the package einops(.|\n)*wengert\[einops\]"):
        module.Rearrange("a b -> b a")


@needs_einops
@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("make", [wg.tensor, wg.torch.tensor], ids=["wengert", "wengert.torch"])
def test_as_on_arrays(make: Any) -> None:
    x = make(DATA)
    expected = calls(DATA)
    compiled = wg.jit(calls)
    for found in (calls(x), [compiled(x) for _ in range(6)][-1]):
        assert found.keys() == expected.keys()
        for name, value in found.items():
            assert type(value) is type(x), name
            np.testing.assert_allclose(np.asarray(value), expected[name], rtol=1e-12, err_msg=name)


@needs_einops
@pytest.mark.usefixtures("registered")
def test_truth_and_integers() -> None:
    from einops import EinopsError, asnumpy, parse_shape, reduce

    mask = wg.asarray(DATA > 0.5)
    for op in ("any", "all"):
        np.testing.assert_array_equal(reduce(mask, "b c h w -> b w", op), reduce(DATA > 0.5, "b c h w -> b w", op))
    with pytest.raises(NotImplementedError, match="non-floating"):
        reduce(wg.arange(6), "(a b) -> a", "mean", a=2)
    with pytest.raises(EinopsError):
        reduce(wg.asarray(DATA), "a b -> a", "sum")
    assert reduce(wg.arange(6), "(a b) -> a", lambda x, axes: x.sum(axis=axes), a=2).tolist() == [3, 12]
    assert parse_shape(mask, "b c _ w") == {"b": 2, "c": 3, "w": 6}
    assert asnumpy(wg.tensor([1.0], requires_grad=True)).tolist() == [1.0]


@needs_einops
@pytest.mark.usefixtures("registered")
def test_gradients_and_batches() -> None:
    from einops import einsum, rearrange, reduce, repeat

    def f(x: Any) -> Any:
        y = rearrange(repeat(x, "a b -> a b k", k=2), "a b k -> (k a) b")
        return reduce(einsum(y, y, "i j, l j -> i l"), "(a 2) b -> a", "max")

    wg.check_grads(f, wg.asarray(DATA[0, 0]), order=2)
    batch = wg.asarray(DATA[0])
    expected = [f(x).tolist() for x in batch]
    np.testing.assert_allclose(wg.vmap(f)(batch), expected, rtol=1e-12)


@needs_einops
@pytest.mark.usefixtures("registered")
def test_layers() -> None:
    import einops

    layers = wg.interop.einops
    net = wg.nn.Sequential(
        layers.Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2),
        layers.EinMix("b t c -> b (t d)", weight_shape="t c d", bias_shape="d", t=6, c=12, d=3),
        layers.Reduce("b (t d) -> b d", "mean", d=3),
    )
    assert [p.shape for p in net.parameters()] == [(6, 12, 3), (1, 1, 3)]
    assert "Rearrange('b c (h p) (w q) -> b (h w) (c p q)', p=2, q=2)" in repr(net)
    x = wg.asarray(DATA.astype("float32"))
    out = net(x)
    weight, bias = (np.array(p.detach()) for p in net.parameters())
    patches = einops.rearrange(DATA, "b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2)
    np.testing.assert_allclose(
        out.detach(), (np.einsum("btc,tcd->btd", patches, weight) + bias).mean(axis=1), rtol=1e-4, atol=1e-5
    )
    out.sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), wg.jit(net)):
        for _ in range(6):
            again = other(x)
        np.testing.assert_allclose(again.detach(), out.detach(), rtol=1e-5, atol=1e-6)


PROGRAM = """
import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import EinMix, Rearrange, Reduce

x = torch.arange(24.0).reshape(2, 3, 4).requires_grad_()
mix = EinMix("b t c -> b t d", "c d", "d", c=3, d=5)
layer = torch.nn.Sequential(Rearrange("b c t -> b t c"), mix, Reduce("b t d -> b", "sum"))
layer(x).sum().backward()
print(type(rearrange(x, "b c t -> (b c) t")) is torch.Tensor, repeat(x, "b c t -> b k c t", k=2).ndim, x.grad.shape)
"""


@needs_einops
def test_programs_without_an_edit(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "wengert.torch", str(program)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True 4 torch.Size([2, 3, 4])", done.stderr
