"""Packages that are no part of a plain install: who needs one says so before any work is done, and how to get it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import WengertError

ROOT = Path(__file__).parents[2]


class Counted:
    """A function that counts its calls: work that was done before the package was asked for."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any, *rest: Any) -> Any:
        self.calls += 1
        return x * x


def _fit(work: Counted, **options: Any) -> Any:
    model = wg.nn.Linear(2, 1)
    loss = lambda output, target: work(output - target).mean()
    optimizer = wg.optim.SGD(model.parameters())
    return wg.train.fit(model, optimizer, loss, (wg.ones((4, 2)), wg.ones((4, 1))), progress=False, **options)


def _images(work: Counted, folder: Path) -> Any:
    (folder / "a").mkdir()
    (folder / "a" / "x.png").write_bytes(b"")
    return wg.data.ImageFolder(folder)


ONNX = lambda work, folder: wg.interop.onnx.save(work, wg.spec((2,)), folder / "x.onnx")
# By the package that is missing: what needs it.
NEEDS: dict[str, list[Callable[[Counted, Path], Any]]] = {
    "tensorboard": [
        lambda work, folder: wg.train.TensorBoard(folder),
        lambda work, folder: wg.interop.tensorboard.SummaryWriter(folder),
    ],
    "PIL": [_images, lambda work, folder: wg.graph(lambda x: x * x)(wg.spec(())).save(folder / "x.png")],
    "pyarrow": [lambda work, folder: wg.data.Parquet(folder / "x.parquet")],
    "pandas": [lambda work, folder: wg.train.History().to_frame()],
    "matplotlib": [lambda work, folder: wg.train.History().plot()],
    "onnx": [ONNX, lambda work, folder: wg.interop.onnx.load(folder / "x.onnx")],
    "sympy": [lambda work, folder: wg.symbolic.to_sympy(wg.graph(lambda x: x * x)(wg.spec(())))],
    "scipy": [
        lambda work, folder: wg.solve.minimize(work, wg.tensor(1.0), method="BFGS"),
        lambda work, folder: wg.solve.root(work, wg.tensor(1.0), method="hybr"),
        lambda work, folder: wg.solve.root(work, wg.tensor(1.0), bracket=(0.0, 2.0), method="brentq"),
        lambda work, folder: wg.sparse.jacobian(work)(wg.ones(3)),
        lambda work, folder: wg.sparse.hessian(work)(wg.ones(3)),
        lambda work, folder: wg.sparse.jacobian_sparsity(work, wg.ones(3)),
    ],
    "ml_dtypes": [
        lambda work, folder: _fit(work, precision="bf16-mixed"),
        lambda work, folder: wg.autocast("bfloat16"),
        lambda work, folder: wg.nn.Linear(2, 1).to("bfloat16"),
    ],
    "anywidget": [lambda work, folder: wg.explore(lambda x: x * x, 1.0).show(live=True)],
}
CASES = [pytest.param(package, i, id=f"{package}-{i}") for package, uses in NEEDS.items() for i in range(len(uses))]
# What is read by a plain install too, or is only drawn nicer.
NOT_ASKED = {"rich", "safetensors"}


@pytest.mark.parametrize(("package", "number"), CASES)
def test_a_missing_package_is_named_before_work_is_done(
    package: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == package:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    work = Counted()
    with pytest.raises(WengertError, match="pip install") as caught:
        NEEDS[package][number](work, tmp_path)
    assert work.calls == 0, f"work was done before: {caught.value}"


def test_a_plain_install_trains_with_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All packages of extras are missing, and the whole loop runs, ends, and goes on from its checkpoint."""
    for package in (*NEEDS, *NOT_ASKED):
        for name in [*sys.modules]:
            if name.partition(".")[0] == package:
                monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, package, None)
    history = _fit(Counted(), epochs=1, checkpoint=tmp_path)
    history = _fit(Counted(), epochs=2, checkpoint=tmp_path, callbacks=[wg.train.CSVLogger(tmp_path / "log.csv")])
    assert history.epochs.rows == 2
    np.testing.assert_array_equal(history["epoch"], [1, 2])


def test_every_extra_has_a_case() -> None:
    """Extras whose packages are installed here stand in the table; others have tests that skip without them."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = {
        "docs",
        "test",
        "dev",
        "release",
        "bench",
        "peers",
        "xla",
        "mpi",
        "sklearn",
        "einops",
        "cffi",
        "arviz",
        "nutpie",
        "pymc",
    }
    modules = packages_distributions()
    for extra in extras.keys() - own:
        for requirement in extras[extra]:
            name = requirement.partition(">")[0].partition("[")[0]
            found = [m for m, dists in modules.items() if name in dists] or [name]
            assert any(m in NEEDS or m in NOT_ASKED for m in found), f"{extra}: no case for {name}"
