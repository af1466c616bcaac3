"""`python -m wengert.torch program.py`: a program runs as it stands, with `torch` renamed in its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.modules.loss import _Loss
from torch.utils.data import DataLoader, TensorDataset
from helper import target

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.ones(4, 2), target(4)), batch_size=2)
    losses = []
    for _ in range(args.steps):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert issubclass(nn.MSELoss, _Loss)
    print(len(losses), losses[-1] < losses[0], torch.__name__, isinstance(model.weight, torch.nn.parameter.Parameter))
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wengert.torch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_a_program_runs_as_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    (folder / "helper.py").write_text("import torch\n\ndef target(n):\n    return torch.zeros(n, 1)\n")
    done = run("project/train.py", "--steps", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6 True torch True\n"


SPAWNING = """
import multiprocessing
import sys
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return F.relu(torch.tensor(float(i) ** 2))


def child(queue, again):
    import torch.nn as nn

    if again:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=child, args=(queue, False))
        process.start()
        process.join()
    queue.put((torch.__name__, nn.Linear(2, 1).weight.shape.numel()))


if __name__ == "__main__":
    method = sys.argv[1]
    loader = DataLoader(Squares(), batch_size=3, num_workers=1, multiprocessing_context=method)
    print([batch.sum().item() for batch in loader])
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=child, args=(queue, True))
    process.start()
    print(queue.get(timeout=100), queue.get(timeout=100))
    process.join()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the fork server is not there")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_begin_afresh(tmp_path: Path, method: str) -> None:
    """Workers of a loader and processes of the program's own import `torch` under its new name."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spawning.py").write_text(SPAWNING)
    done = run("project/spawning.py", method, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[5.0, 50.0]", "('torch', 2) ('torch', 2)"]


def test_what_is_no_program(tmp_path: Path) -> None:
    done = run("nothing.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "python -m wengert.torch: there is no file 'nothing.py'\n"
    assert run(cwd=tmp_path).returncode == 2


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import torch.nowhere\n")
    done = run("p.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "No module named 'torch.nowhere'" in done.stderr
