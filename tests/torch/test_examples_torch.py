"""The examples that are written for both libraries: their first losses are those that PyTorch gave."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from running_examples import FOLDER, OURS, SMALL, curve, load, start, text_file

RECORDED = json.loads((Path(__file__).parent / "data" / "examples.json").read_text())


def test_every_example_was_recorded() -> None:
    written = {p.stem for p in FOLDER.glob("*.py") if f"\n{OURS}\n" in p.read_text(encoding="utf-8")}
    assert {case.split()[0] for case in SMALL} == written
    assert sorted(RECORDED) == sorted(SMALL)


@pytest.mark.parametrize("case", sorted(SMALL))
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "compiled"])
def test_losses_are_pytorchs(case: str, compiled: bool, tmp_path: Path) -> None:
    if compiled and case == "vae":
        pytest.skip("it draws random numbers within its step")
    np.testing.assert_allclose(curve(case, compiled, True, tmp_path), RECORDED[case], rtol=1e-9, atol=1e-12)


def smoke(name: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """What an example's short run prints, once its picture is there."""
    picture = folder / "picture.svg"
    start(load(name, True), ["--smoke", *more, "--out", str(picture)])
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    return capsys.readouterr().out


def numbers(pattern: str, text: str) -> list[float]:
    found = re.search(pattern, text)
    assert found, text
    return [float(x) for x in found.groups()]


def test_vae(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = r"([\d.]+) nats a held-out image; the mean image gives ([\d.]+)"
    bound, mean = numbers(pattern, smoke("vae", tmp_path, capsys, "--eager"))
    # Without a latent number that says something, no bound is below what the mean image gives.
    assert bound < mean - 0.5


def test_dcgan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = smoke("dcgan", tmp_path, capsys, "--eager")
    away, _ = numbers(r"a drawing is ([\d.]+) from the nearest digit, the mean digit ([\d.]+)", out)
    drawn, _ = numbers(r"between drawings by ([\d.]+), between digits by ([\d.]+)", out)
    # The even grey that an untrained generator draws is further off, and all its drawings are alike.
    assert away < 0.33
    assert drawn > 0.05


def test_ddpm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (error,) = numbers(r"mean squared error of the noise ([\d.]+)", smoke("ddpm", tmp_path, capsys, "--eager"))
    assert error < 0.8  # the noise's variance is 1


def test_gcn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = smoke("gcn", tmp_path, capsys)
    ((cited,), (alone,)) = (numbers(rf"{way}: ([\d.]+)% of", out) for way in ("with citations", "words alone"))
    assert alone > 25  # one of seven by chance
    assert cited > alone + 15


def test_dates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (right,) = numbers(r"([\d.]+)% of the letters of", smoke("dates", tmp_path, capsys, "--eager"))
    assert right > 15  # one of 38 letters by chance


def test_tree_lstm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = smoke("tree_lstm", tmp_path, capsys)
    right = {int(n): float(r) for r, n in re.findall(r"([\d.]+)% of 200 new expressions of (\d) levels", out)}
    assert sorted(right) == [1, 2, 3, 4, 5]
    assert right[2] > 75
    assert right[5] > 50  # three levels more than it was trained on; one of ten by chance


@pytest.mark.parametrize("method", ["reinforce", "actor-critic"])
def test_cartpole(method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = r"the last 50 poles stood (\d+) steps, the first (\d+)"
    last, first = numbers(pattern, smoke("cartpole", tmp_path, capsys, "--method", method))
    assert last > 1.5 * first


def test_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = smoke("words", tmp_path, capsys, "--eager", "--data", str(text_file(tmp_path)))
    (loss,), (alone,) = numbers(r"held-out loss ([\d.]+) nats", out), numbers(r"alone: ([\d.]+) nats", out)
    assert loss < alone - 0.5


def test_words_with_too_little_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text.txt"
    file.write_text("short")
    for path, message in ((file, "too few"), (tmp_path / "none.txt", "cannot be read")):
        with pytest.raises(SystemExit) as exit_status:
            start(load("words", True), ["--data", str(path)])
        assert exit_status.value.code == 1
        assert message in capsys.readouterr().err


def test_resnet_draws_every_class() -> None:
    module = load("resnet", True)
    images, labels = module.draw(200, np.random.default_rng(0))
    assert (images.shape, images.dtype) == ((200, 3, 32, 32), np.uint8)
    assert set(labels.tolist()) == set(range(len(module.NAMES)))
    again, _ = module.draw(200, np.random.default_rng(0))
    np.testing.assert_array_equal(again, images)
    # A shape is seen against what is around it: more than the noise, whatever the class.
    spread = images.std((2, 3)).max(1)
    assert (np.bincount(labels, spread > 35, 10) > 0.5 * np.bincount(labels)).all()


def test_resnet_reads_cifar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Images whose class is the brightest of their colours, in the files' layout.
    rng = np.random.default_rng(0)
    for name, count in (("data_batch_1", 60), ("data_batch_2", 60), ("test_batch", 40)):
        labels = rng.integers(0, 3, count)
        pixels = (labels[:, None, None] == np.arange(3)[:, None]) * 100 + rng.integers(0, 100, (count, 3, 1024))
        rows = np.concatenate([labels[:, None], pixels.reshape(count, 3072)], axis=1).astype(np.uint8)
        (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
    out = smoke("resnet", tmp_path, capsys, "--data", str(tmp_path), "--eager")
    assert numbers(r"([\d.]+)% of 40 held-out", out)[0] > 80  # one of three by chance


@pytest.mark.slow
def test_resnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--images", "1000", "--epochs", "5", "--width", "6", "--plain", "--out", str(tmp_path / "p.svg")]
    start(load("resnet", True), arguments)
    assert numbers(r"([\d.]+)% of 500 held-out", capsys.readouterr().out)[0] > 20  # by chance 10, give or take 1.4


def test_gcn_reads_cora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Two subjects, a word for each; who cites whom follows them.
    rows = [f"{100 + i} {int(i % 2 == 0)} {int(i % 2)} 0 {'Theory' if i % 2 else 'Practice'}" for i in range(80)]
    (tmp_path / "cora.content").write_text("\n".join(rows))
    (tmp_path / "cora.cites").write_text("\n".join(f"{100 + i} {102 + i}" for i in range(79)))
    out = smoke("gcn", tmp_path, capsys, "--data", str(tmp_path), "--eager")
    assert "80 papers, 78 citations, 3 words; 40 are labelled" in out
    assert numbers(r"with citations: ([\d.]+)%", out)[0] > 90


def test_dates_reads_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(f"{word}\t{word.upper()}" for word in ["ab", "ba", "aa", "bb", "b"] * 30))
    out = smoke("dates", tmp_path, capsys, "--data", str(file), "--write", "ab", "--eager")
    assert numbers(r"([\d.]+)% of the letters of 15", out)[0] > 40
