"""`wengert launch`: what it says where there is nothing to run. Jobs are tested in distribute/test_mpi.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from wengert.cli import main
from wengert.distribute.engines import job


def test_a_script_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["launch", "-n", "2", str(tmp_path / "train.py"), "--epochs", "3"])
    assert caught.value.code == 2
    assert "train.py: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize("ranks", ["0", "-1", "two"])
def test_a_number_of_ranks_that_is_none(ranks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    with pytest.raises(SystemExit) as caught:
        main(["launch", "-n", ranks, str(script)])
    assert caught.value.code == 2
    assert "argument -n/--ranks: " in capsys.readouterr().err


def test_without_mpi(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    monkeypatch.setattr(job, "lack", lambda engine: "mpi4py")
    assert main(["launch", str(script)]) == 1
    assert "pip install 'wengert[mpi]'" in capsys.readouterr().err
