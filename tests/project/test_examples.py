"""The examples run, learn, and refuse bad data in words."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from wengert.distribute.engines.job import lack

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"


def as_users_run_it() -> dict[str, str]:
    """Return an environment in which kernels take over from NumPy, which the other tests leave out."""
    return {name: value for name, value in os.environ.items() if name != "WENGERT_EAGER_KERNELS"}


def run(name: str, *args: object, status: int = 0) -> str:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *map(str, args)]
    out = subprocess.run(command, capture_output=True, text=True, env=as_users_run_it())
    assert out.returncode == status, out.stdout + out.stderr
    assert "Traceback" not in out.stderr
    return out.stdout if status == 0 else out.stderr


def percentage(text: str) -> float:
    found = re.search(r"([\d.]+)% of \d+ held-out images right", text)
    assert found, text
    return float(found[1])


@pytest.mark.parametrize("name", ["linear", "digits", "mnist", "shakespeare", "neural_ode", "pendulum", "hmc"])
def test_help(name: str) -> None:
    text = run(name, "--help")
    assert "usage:" in text
    assert "--seed" in text


def test_molecules(tmp_path: Path) -> None:
    text = run("molecules", "--smoke", "--out", tmp_path / "errors.svg")
    found = re.search(r"mean error ([\d.]+) of the standard deviation", text)
    assert found
    assert float(found[1]) < 0.7  # the mean energy is off by 0.8
    assert "Message" in text
    assert (tmp_path / "errors.svg").read_text().startswith("<svg")


def test_linear(tmp_path: Path) -> None:
    text = run("linear", "--noise", 0, "--out", tmp_path / "loss.svg")
    found = re.search(r"y = ([\d.]+) x \+ ([\d.]+)", text)
    assert found
    assert float(found[1]) == pytest.approx(3, abs=1e-2)
    assert float(found[2]) == pytest.approx(7, abs=1e-2)
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")


def test_digits(tmp_path: Path) -> None:
    assert percentage(run("digits", "--epochs", 20, "--out", tmp_path / "loss.svg")) > 95


def write_idx(path: Path, array: np.ndarray) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes()))


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_mnist_on_drawn_bars(tmp_path: Path, model: str) -> None:
    # Ten classes that are easy to tell apart: a bright bar in one of ten rows.
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 400)
    images = rng.integers(0, 40, (400, 28, 28))
    images[np.arange(400), 4 + 2 * labels] = 255
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", labels)
    args = ("--model", model, "--epochs", 6, "--shift", 0, "--out", tmp_path / "loss.svg")
    assert percentage(run("mnist", "--data", tmp_path, *args)) > 90


def test_mnist_goes_on_from_where_it_was(tmp_path: Path) -> None:
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", np.random.default_rng(0).integers(0, 255, (200, 28, 28)))
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.arange(200) % 10)
    args = ("--data", tmp_path, "--epochs", 3, "--out", tmp_path / "loss.svg")
    expected = last_loss(run("mnist", *args))
    kept = tmp_path / "run"
    assert last_loss(run("mnist", *args, "--resume", kept)) == expected
    # As if it had been ended in the last epoch.
    shutil.rmtree(kept / (kept / "latest").read_text().strip())
    assert [p.name for p in kept.glob("checkpoint-*")]
    assert last_loss(run("mnist", *args, "--resume", kept)) == expected


def test_mnist_for_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the package tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", np.zeros((200, 28, 28)))
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.arange(200) % 10)
    run("mnist", "--data", tmp_path, "--epochs", 2, "--tensorboard", tmp_path / "runs", "--out", tmp_path / "loss.svg")
    found = EventAccumulator(str(tmp_path / "runs"), {"histograms": 0}).Reload()
    assert [e.step for e in found.Scalars("loss")] == list(range(1, 7))
    assert [e.step for e in found.Histograms("1/weight")] == [3, 6]
    assert "1/linear/matmul" in [n.name for n in found.Graph().node]


def test_mnist_without_data(tmp_path: Path) -> None:
    assert "no such file" in run("mnist", "--data", tmp_path, status=1)


@pytest.mark.skipif(not (SHARED / "mnist10k").exists(), reason="the shared MNIST images are not here")
def test_mnist_on_real_images(tmp_path: Path) -> None:
    args = ("--epochs", 2, "--shift", 0, "--out", tmp_path / "loss.svg")
    assert percentage(run("mnist", "--data", SHARED / "mnist10k", *args)) > 90


def test_shakespeare(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 200)
    args = ("--steps", 60, "--batch", 8, "--length", 32, "--width", 32, "--depth", 1, "--sample", 40)
    out = run("shakespeare", "--data", text, *args, "--out", tmp_path / "loss.svg")
    found = re.search(r"held-out loss ([\d.]+) nats", out)
    assert found
    assert float(found[1]) < 1.5  # 27 characters by chance: 3.3


def last_loss(text: str) -> str:
    found = re.search(r"last loss ([\d.]+)(; held-out loss ([\d.]+))?", text)
    assert found, text
    return found[0]


def test_shakespeare_goes_on_from_where_it_was(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 100)
    args = ("--data", text, "--batch", 4, "--length", 16, "--width", 16, "--depth", 1, "--sample", 5)
    args = (*args, "--steps", 110, "--out", tmp_path / "loss.svg")
    expected = last_loss(run("shakespeare", *args))
    kept = tmp_path / "run"
    assert last_loss(run("shakespeare", *args, "--resume", kept)) == expected
    # As if it had been ended after the last but one checkpoint.
    shutil.rmtree(kept / (kept / "latest").read_text().strip())
    assert [p.name for p in kept.glob("checkpoint-*")]
    assert last_loss(run("shakespeare", *args, "--resume", kept)) == expected


@pytest.mark.slow
def test_runs_that_are_resumed_otherwise(tmp_path: Path) -> None:
    """More steps go on; another model, another text or other images are told."""
    text, kept = tmp_path / "text.txt", tmp_path / "run"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 100)
    args = ("--batch", 4, "--depth", 1, "--sample", 5, "--out", tmp_path / "loss.svg", "--resume", kept)
    small = ("--data", text, *args, "--length", 16, "--width", 16)
    run("shakespeare", *small, "--steps", 20)
    more = last_loss(run("shakespeare", *small, "--steps", 40))
    found = wg.train.load_checkpoint(kept)
    assert found is not None
    assert found.step == 40
    assert last_loss(run("shakespeare", *small, "--steps", 30)) == more  # nothing is left to do
    told = run("shakespeare", *small, "--width", 32, "--heads", 2, "--steps", 50, status=1)
    assert f"{kept} has a run with --width 16, --heads 4: name another folder" in told
    text.write_text("THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG.\n" * 100)
    assert "has a run with another text" in run("shakespeare", *small, "--steps", 50, status=1)

    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", np.random.default_rng(0).integers(0, 255, (200, 28, 28)))
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.arange(200) % 10)
    digits = ("--data", tmp_path, "--out", tmp_path / "loss.svg", "--resume", tmp_path / "digits")
    run("mnist", *digits, "--epochs", 1)
    more = last_loss(run("mnist", *digits, "--epochs", 2))
    assert last_loss(run("mnist", *digits, "--epochs", 1)) == more
    told = run("mnist", *digits, "--model", "cnn", "--batch", 32, status=1)
    assert "has a run with --model mlp, --batch 64: name another folder" in told


@pytest.mark.slow
@pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
@pytest.mark.parametrize("shard", ["fsdp", "pipeline"])
def test_shakespeare_on_ranks(tmp_path: Path, shard: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog.\n" * 100)
    args = ("--data", text, "--batch", 8, "--length", 16, "--width", 16, "--depth", 2, "--sample", 5, "--steps", 8)
    args = (*args, "--out", tmp_path / "loss.svg")
    expected = last_loss(run("shakespeare", *args))
    kept = tmp_path / "run"
    for _ in range(2):  # to the end, and from there on
        found = run("shakespeare", *args, "--ranks", 2, "--shard", shard, "--resume", kept)
        assert last_loss(found) == expected
    assert last_loss(run("shakespeare", *args, "--resume", kept)) == expected  # on one rank


def test_shakespeare_with_too_little_text(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("short")
    assert "too few" in run("shakespeare", "--data", text, status=1)
    assert "cannot be read" in run("shakespeare", "--data", tmp_path / "none.txt", status=1)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_callers_in_c() -> None:
    text = run("from_c")
    assert "at t = 20: 10.214111 hares, 1.333808 lynxes" in text  # SciPy's DOP853 gives 10.2141107, 1.3338083
    if importlib.util.find_spec("nlopt") is None:
        assert "NLopt is not installed" in text
    else:
        least = re.search(r"least value of Rosenbrock's function: ([\d.e+-]+), at \[1", text)
        assert least
        assert float(least[1]) < 1e-12


@pytest.mark.parametrize("adjoint", ["discretise", "continuous"])
def test_neural_ode(adjoint: str) -> None:
    out = run("neural_ode", "--steps", 40, "--lr", 0.02, "--adjoint", adjoint)
    first, last = (float(x) for x in re.findall(r"mean distance to the spiral ([\d.]+)", out))
    assert last < 0.5 * first


def test_neural_ode_says_where_a_fit_fails() -> None:
    assert "the fit failed" in run("neural_ode", "--steps", 1, "--lr", 0, status=1)


@pytest.mark.slow
def test_pendulum() -> None:
    out = run("pendulum", "--quick", "--length", 1.6, "--damping", 0.2)
    found = dict(re.findall(r"^(length|damping) *([\d.]+) \+-", out, re.M))
    assert float(found["length"]) == pytest.approx(1.6, rel=0.01)
    assert float(found["damping"]) == pytest.approx(0.2, rel=0.03)


@pytest.mark.slow
def test_hmc() -> None:
    out = run("hmc", "--quick", "--seed", 3)
    found = re.search(r"largest deviation: ([\d.]+) standard errors", out)
    assert found
    assert float(found[1]) < 4.5
    sizes = [float(x) for x in re.findall(r"effective draws +(\d+)", out)]
    assert len(sizes) == 6
    assert min(sizes) > 200


def test_the_demo_reaches_97_percent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wengert", "demo", "--out", str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=as_users_run_it()).stdout
    assert percentage(out) >= 97
    assert "parameters" in out
    assert "saved for backward" in out
    for picture in ("curve.svg", "graph.svg"):
        assert (tmp_path / picture).read_text().startswith("<svg")


@pytest.mark.slow
def test_without_python(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    text = run("without_python", "--epochs", 12, "--out", tmp_path / "built")
    assert percentage(text) > 90
    assert (tmp_path / "built" / "page" / "digits.html").exists()
