"""`torch.autocast("cpu")`, scalers and custom functions under it, against what PyTorch gave."""

from __future__ import annotations

import gzip
import json
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

sys.path.insert(0, str(Path(__file__).parent))

from record_amp import FILE, results, values

RECORDED: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
# Signs of singular and eigenvectors, and what stands below the diagonal, are a library's own.
FREE = ("svd(", "eig", "qr(", "geqrf", "householder", "orgqr", "ormqr", "lstsq")
# PyTorch gives NaN for it in bfloat16.
FREE += ("matrix_exp",)


@pytest.mark.parametrize("call", RECORDED)
def test_dtypes_and_values(call: str) -> None:
    for name, entry in RECORDED[call].items():
        lower, given = name.split(" of ")
        out = results(torch, call, lower, given)
        assert [t.dtype.name for t in out] == entry["dtypes"], name
        if "values" in entry and not any(part in call for part in FREE):
            for found, expected in zip(values(torch, out), entry["values"], strict=True):
                scale = max(map(abs, expected), default=0.0)
                tolerance = 2.0**-7 if lower == "bfloat16" else 2.0**-10
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=2 * tolerance * scale, err_msg=name)


def test_in_a_compiled_step() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.amp.autocast("cpu", dtype=torch.float16):
            out = net(x)
            assert out.dtype == torch.float16
            loss = torch.nn.functional.cross_entropy(out, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    compiled = torch.compile(step)
    x, y = torch.ones(3, 4), torch.tensor([0, 1, 1])
    losses = [compiled(x, y).item() for _ in range(6)]
    assert losses == sorted(losses, reverse=True)
    assert all(p.dtype == torch.float32 == p.grad.dtype for p in net.parameters())


def test_methods_operators_and_layers() -> None:
    x = torch.ones(3, 3)
    with torch.cpu.amp.autocast():
        assert (x @ x).dtype == x.mm(x).dtype == x.matmul(x).dtype == torch.bfloat16
        assert x.mv(x[0]).dtype == torch.float32
        assert torch.nn.MSELoss()(x @ x, x).dtype == torch.float32
        assert torch.nn.Conv1d(3, 2, 1)(x[None]).dtype == torch.bfloat16
        assert torch.mm(x, x, out=torch.zeros(3, 3)).dtype == torch.float32
        assert (x @ x).exp().dtype == torch.bfloat16


def test_blocks_and_switches() -> None:
    x = torch.ones(2, 2)
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.float16):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cpu") == torch.float16
        with torch.autocast(device_type="cpu", enabled=False):
            assert (x @ x).dtype == torch.float32
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        found: list[Any] = []
        thread.start()
        thread.join()
        assert found == [torch.float32]

    @torch.autocast("cpu")
    def decorated() -> Any:
        return (x @ x).dtype

    assert decorated() == torch.bfloat16
    torch.set_autocast_enabled("cpu", True)
    try:
        assert (x @ x).dtype == torch.bfloat16
    finally:
        torch.set_autocast_enabled("cpu", False)
    assert (x @ x).dtype == torch.float32
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        with torch.autocast("cpu"):
            assert (x @ x).dtype == torch.float16
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def test_gpus_are_not_there() -> None:
    with pytest.warns(UserWarning, match="cuda"), torch.autocast("cuda"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    with pytest.warns(UserWarning, match="CUDA"):
        assert not torch.amp.GradScaler("cuda").is_enabled()
    with pytest.warns(UserWarning, match="CPU Autocast only supports"):
        torch.autocast("cpu", dtype=torch.float32)
    assert torch.amp.is_autocast_available("cpu")


def test_custom_functions() -> None:
    dtypes: list[Any] = []

    class Cast(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx: Any, x: Any) -> Any:
            dtypes.append((x.dtype, (x @ x).dtype))
            return x * 2.0

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            dtypes.append(((g @ g).dtype,))
            return g * 2.0

    class Follow(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Any) -> Any:
            dtypes.append((x.dtype, (x @ x).dtype))
            return x * 2.0

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            dtypes.append(((g @ g).dtype,))
            return g * 2.0

    x = torch.ones(2, 2, requires_grad=True)
    for function in (Cast, Follow):
        with torch.autocast("cpu"):
            out = function.apply(x)
        out.sum().backward()
    f, b = torch.float32, torch.bfloat16
    assert dtypes == [(f, f), (f,), (f, b), (b,)]


def test_scalers_under_pytorchs_names() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = torch.cpu.amp.GradScaler(init_scale=8.0)
    assert scaler.get_scale() == 8.0
    scaler.set_growth_interval(5)
    assert scaler.state_dict()["growth_interval"] == scaler.get_growth_interval() == 5
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="unscale_"):
        scaler.unscale_(optimizer)
    with pytest.raises(wg.GradientError, match="closure"):
        scaler.step(optimizer, lambda: None)
