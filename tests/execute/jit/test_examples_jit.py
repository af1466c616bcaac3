"""The examples with `--jit` reach the losses that they reach without; gradients are clipped in compiled steps."""

from __future__ import annotations

import gzip
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

pytest.importorskip("llvmlite")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(name: str, *args: object) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    found = [float(x) for x in re.findall(pattern, text)]
    assert found, text
    return found


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_mnist(tmp_path: Path, model: str) -> None:
    rng = np.random.default_rng(0)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", rng.integers(0, 256, (80, 28, 28)))
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", rng.integers(0, 10, 80))
    args = ("--data", tmp_path, "--model", model, "--epochs", 3, "--batch", 24, "--out", tmp_path / "loss.svg")
    plain, compiled = run("mnist", *args), run("mnist", *args, "--jit")
    assert numbers(r"last loss ([\d.]+)", compiled) == pytest.approx(numbers(r"last loss ([\d.]+)", plain), abs=1e-3)
    assert "without --jit" in compiled


def test_shakespeare(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 60)
    sizes = ("--steps", 8, "--batch", 3, "--length", 9, "--width", 8, "--heads", 2, "--depth", 1, "--sample", 2)
    args = ("--data", text, *sizes, "--out", tmp_path / "loss.svg")
    plain, compiled = run("shakespeare", *args), run("shakespeare", *args, "--jit")
    for pattern in (r"last loss ([\d.]+)", r"held-out loss ([\d.]+)"):
        assert numbers(pattern, compiled) == pytest.approx(numbers(pattern, plain), abs=1e-3)


@pytest.mark.parametrize("method", ["tsit5", pytest.param("rk4", marks=pytest.mark.slow)])
def test_neural_ode(method: str) -> None:
    args = ("--method", method, "--steps", 15, "--width", 16)
    plain, compiled = run("neural_ode", *args), run("neural_ode", *args, "--jit")
    pattern = r"step +\d+  loss ([\d.]+)"
    assert len(numbers(pattern, plain)) == 8
    assert numbers(pattern, compiled) == pytest.approx(numbers(pattern, plain), abs=2e-3)
    assert "without --jit" in compiled


def step_with(norm: float, order: float, check: bool = False) -> tuple[Any, Any]:
    """A parameter, and a function that clips the gradient of its product with what it is given."""
    p = nn.Parameter(np.array([3.0, -4.0], np.float32))

    def step(x: Any) -> Any:
        p.grad = None
        (p * x).sum().backward()
        return nn.clip_grad_norm_([p], norm, norm_type=order, error_if_nonfinite=check)

    return p, step


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("norm", [0.5, 100.0])
def test_clipping_in_a_compiled_step(norm: float, order: float) -> None:
    (p, plain), (q, step) = step_with(norm, order), step_with(norm, order)
    compiled = wg.jit(step)
    for x in ([6.0, 8.0], [1e30, 1e30], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]):
        want, got = plain(wg.tensor(x)), compiled(wg.tensor(x))
        assert want.dtype == got.dtype == wg.float32
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-6)


def test_a_norm_that_is_not_finite_is_an_error_in_a_compiled_step_too() -> None:
    _, step = step_with(1.0, 2.0, check=True)
    compiled = wg.jit(step)
    assert compiled(wg.tensor([3.0, 4.0])).item() == 5.0
    with pytest.raises(wg.GradientError, match="not finite"):
        compiled(wg.tensor([math.nan, 4.0]))
    assert compiled(wg.tensor([6.0, 8.0])).item() == 10.0
