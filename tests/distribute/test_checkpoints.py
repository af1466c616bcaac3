"""Checkpoints of all ranks: written together, read by any other number of ranks, and never half of one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from killed_ranks import SIGNALS, job, left, main, trained
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines.job import lack
from wengert.train import load_checkpoint, pieces, save_checkpoint
from wengert.train.checkpoints import survey

P = dist.PartitionSpec
RNG = np.random.default_rng(0)
WHOLE: dict[str, Any] = {
    "w": RNG.normal(size=(12, 8)).astype(np.float32),
    "b": RNG.normal(size=12),
    "half": RNG.normal(size=(4, 12)).astype(np.float16),
    "z": (RNG.normal(size=(12, 2)) + 1j).astype(np.complex64),
}
FIRST = {"w": P("data", "model"), "b": "data", "half": P(None, "data"), "z": None}
MESHES = [({"data": 2}, FIRST | {"w": "data"}), ({"data": 2, "model": 2}, FIRST), ({"data": 4}, FIRST | {"w": "data"})]


def placed(axes: dict[str, int], specs: Any) -> Any:
    return dist.place({k: wg.tensor(v) for k, v in WHOLE.items()}, dist.Mesh(axes), specs)


def save(folder: str, axes: dict[str, int], specs: Any, **given: Any) -> str:
    """What each rank of a job does."""
    state = {"params": placed(axes, specs), "note": "x", "count": np.arange(3), "one": np.float32(2), "rate": 0.1}
    wg.manual_seed(3)
    return dist.save_checkpoint(folder, step=5, state=state, big=wg.tensor(np.arange(1 << 18)), **given)


def check(values: Any) -> None:
    assert values["state"]["note"] == "x"
    assert values["state"]["rate"] == 0.1
    assert values["state"]["one"] == np.float32(2)
    assert values["state"]["count"].tolist() == [0, 1, 2]
    for name, expected in WHOLE.items():
        found = dist.whole(values["state"]["params"][name]).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("marker", [False, True])
@pytest.mark.parametrize(("axes", "specs"), MESHES, ids=str)
def test_saved_by_some_ranks_read_by_others(axes: Any, specs: Any, marker: bool, tmp_path: Path) -> None:
    folder = str(tmp_path)
    ranks = int(np.prod(list(axes.values())))
    paths = dist.simulate(dist.Mesh(axes)).run(save, folder, axes, specs, marker=marker)
    assert len(set(paths)) == 1
    assert sorted(os.listdir(folder)) == ["checkpoint-000001", "latest"]
    assert len([f for f in os.listdir(paths[0]) if f.endswith(".safetensors")]) == ranks
    for others, target in MESHES:

        def load(others: Any = others, target: Any = target) -> Any:
            placement = {"params": target, "note": None, "count": None, "one": None, "rate": None}
            found = dist.load_checkpoint(folder, mesh=dist.Mesh(others), specs={"state": placement})
            assert found is not None
            part = found["state"]["params"]["b"].local
            values = {"state": found["state"] | {"params": dist.whole(found["state"]["params"])}}
            check(values)
            return part.shape, found.step, found["big"].shape

        for mesh in (dist.Mesh(others), None):
            found = [load()] if mesh is None else dist.simulate(mesh).run(load)
            assert {f[0] for f in found} == {(12 // dist.Mesh(others).size_of("data"),)}
            assert {f[1:] for f in found} == {(5, (1 << 18,))}
    alone = load_checkpoint(folder)
    assert alone is not None
    assert alone.step == 5
    check(alone.values)
    assert [(s.name, s.step, s.problem) for s in survey(folder)] == [("checkpoint-000001", 5, None)]


def test_all_ranks_write_a_share_of_what_all_have(tmp_path: Path) -> None:
    path = dist.simulate(4).run(save, str(tmp_path), {"data": 4}, FIRST | {"w": "data"})[0]
    sizes = [os.path.getsize(os.path.join(path, f)) for f in os.listdir(path) if f.endswith(".safetensors")]
    assert min(sizes) > pieces.SPLIT / 4


@pytest.mark.parametrize("plan", ["", "zero", "fsdp"])
def test_training_goes_on_bit_for_bit(plan: str, tmp_path: Path) -> None:
    pair = dist.simulate(2)
    expected = pair.run(trained, str(tmp_path / "a"), 6, plan)[0]
    assert pair.run(trained, str(tmp_path / "b"), 3, plan)[0] == expected[:3]
    assert pair.run(trained, str(tmp_path / "b"), 6, plan)[0] == expected
    assert len(os.listdir(tmp_path / "b")) == 4  # three checkpoints, and which is the latest
    # By other ranks it goes on too, but for the order of sums.
    dist.simulate(2).run(trained, str(tmp_path / "c"), 3, plan)
    rest = dist.simulate(4).run(trained, str(tmp_path / "c"), 6, "")[0]
    np.testing.assert_allclose(rest, expected, rtol=1e-5)


def test_a_rank_that_cannot_write_ends_all_and_the_last_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path)
    pair = dist.simulate(2)
    pair.run(save, folder, *MESHES[0])
    before = pieces.write

    def full(path: Any, *rest: Any) -> None:
        if "rank-00001" in str(path):
            raise OSError(28, "No space left on device")
        before(path, *rest)

    monkeypatch.setattr(pieces, "write", full)
    with pytest.raises(wg.DataError, match=r"has no new checkpoint: rank 1: OSError: .*No space left"):
        pair.run(save, folder, *MESHES[0])
    monkeypatch.undo()
    assert sorted(os.listdir(folder)) == ["checkpoint-000001", "latest"]
    found = load_checkpoint(folder)
    assert found is not None
    check(found.values)


def test_what_is_damaged_is_passed_over(tmp_path: Path) -> None:
    folder = str(tmp_path)
    pair = dist.simulate(2)
    pair.run(save, folder, *MESHES[0])
    path = pair.run(save, folder, *MESHES[0])[0]
    file = os.path.join(path, "rank-00001-of-00002.safetensors")
    data = bytearray(Path(file).read_bytes())
    data[-5] ^= 1
    Path(file).write_bytes(data)
    with pytest.warns(RuntimeWarning, match="another checksum"):
        found = pair.run(lambda: dist.load_checkpoint(folder))[0]
    assert found.path.endswith("checkpoint-000001")
    os.unlink(file)
    with pytest.warns(RuntimeWarning, match="is missing"):
        assert load_checkpoint(folder).path.endswith("checkpoint-000001")  # type: ignore[union-attr]
    # A folder in its place whose manifest was never written.
    os.unlink(os.path.join(path, "manifest.json"))
    with pytest.warns(RuntimeWarning, match="passed over"):
        assert load_checkpoint(folder).path.endswith("checkpoint-000001")  # type: ignore[union-attr]


def test_what_is_refused(tmp_path: Path) -> None:
    folder = str(tmp_path)
    mesh = dist.Mesh(data=2)
    assert dist.simulate(2).run(lambda: dist.load_checkpoint(folder)) == [None, None]
    with pytest.raises(wg.DataError, match="keep=0"):
        dist.save_checkpoint(folder, keep=0)
    with pytest.raises(wg.DataError, match=r"x has another shape or dtype on rank 1|another structure on rank 1"):
        dist.simulate(2).run(lambda: dist.save_checkpoint(folder, state={"x": wg.ones(2 + dist.rank())}))
    with pytest.raises(wg.DataError, match="another structure on rank 1"):
        dist.simulate(2).run(lambda: dist.save_checkpoint(folder, state={f"x{dist.rank()}": 1}))
    dist.save_checkpoint(folder, x=wg.ones(3))
    with pytest.raises(wg.DataError, match="has no part 'y'"):
        dist.load_checkpoint(folder, mesh=mesh, specs={"y": "data"})
    with pytest.raises(wg.ShapeError, match="3 is no multiple of 2 ranks"):
        dist.load_checkpoint(folder, mesh=mesh, specs={"x": "data"})
    with pytest.raises(wg.GraphError, match="load_checkpoint with mesh=None"):
        dist.load_checkpoint(folder, specs={"x": "data"})
    with pytest.raises(wg.DataError, match="which is an object"):
        dist.load_checkpoint(folder, mesh=mesh, specs={"m": None}, m=nn.Linear(2, 2))


def test_checkpoints_of_one_process_are_read_in_parts(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, step=2, state={"w": wg.tensor(WHOLE["w"])})
    found = dist.load_checkpoint(tmp_path, mesh=dist.Mesh(data=4), specs={"state": "data"})
    assert found is not None
    assert found["state"]["w"].local.shape == (3, 8)
    manifest = json.loads((tmp_path / "checkpoint-000001" / "manifest.json").read_text())
    assert manifest["version"] == 1


@pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
def test_written_by_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = str(Path(__file__).parents[1] / "helpers")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([helpers, *sys.path]))
    losses = dist.run(trained, 2, str(tmp_path / "a"), 3, "fsdp", engine="mpi")
    assert losses[0] == losses[1]
    rest = dist.simulate(2).run(trained, str(tmp_path / "a"), 5, "fsdp")[0]
    np.testing.assert_allclose(rest, dist.simulate(2).run(trained, str(tmp_path / "b"), 5, "")[0], 1e-5)


@pytest.mark.slow
@pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
def test_ranks_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    """A few; `python tests/helpers/killed_ranks.py FOLDER 100 0` kills more."""
    counts = main(str(tmp_path), 3, 1)
    assert sum(n for name, n in counts.items() if name.split()[0] in SIGNALS) == 3


@pytest.mark.slow
@pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.15])
def test_a_rank_that_freezes_while_it_ends(delay: float, tmp_path: Path) -> None:
    """The others wait for it in a barrier, in MPI's own end, or are gone: the job ends all the same."""
    status, _ = job(tmp_path / "run", "", f"0:exit:0:STOP:{delay}")
    assert status
    assert not left(tmp_path / "run")


def test_what_does_not_fit_is_told_in_full(tmp_path: Path) -> None:
    dist.save_checkpoint(tmp_path, model=nn.Linear(2, 3))
    with pytest.raises(wg.DataError) as caught:
        dist.load_checkpoint(tmp_path, model=nn.Linear(2, 4))
    text = str(caught.value)
    assert "rank 0: state dict does not fit Linear" in text
    assert "weight: (3, 2) in the state dict, (4, 2) in the module" in text
    assert "What was saved" not in text
