"""What leaves, and turns of loops, are called: what the program calls them, or nothing of the program's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from wengert.explorer.document.document import document
from wengert.explorer.recording.script import record_script

HEAD = """
import numpy as np
import wengert as wg
from wengert import nn
from wengert.nn import functional as F

wg.manual_seed(0)
rng = np.random.default_rng(0)
X, y = rng.normal(size=(8, 4)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")
labels = rng.integers(0, 3, 8)


class Cell(nn.Module):
    def __init__(self, n, h):
        self.into, self.back = nn.Linear(n, h), nn.Linear(h, h)

    def forward(self, x, h):
        return wg.tanh(self.into(x) + self.back(h))


class Trainer:
    def __init__(self):
        self.net = nn.Linear(4, 1)


"""

# Each program, and what its leaves with values of their own are called, by shape.
PROGRAMS = {
    "arrays_by_the_way": (
        "model = nn.Linear(4, 3)\nloss = F.cross_entropy(model(wg.asarray(X)), wg.asarray(labels))\nloss.backward()",
        {(8, 4): "X", (8,): "labels"},
    ),
    "copies": (
        "model = nn.Linear(4, 1)\nloss = F.mse_loss(model(wg.tensor(X)), wg.tensor(y))\nloss.backward()",
        {(8, 4): "X", (8, 1): "y"},
    ),
    "a_module_of_an_object": (
        "trainer = Trainer()\nloss = ((trainer.net(wg.tensor(X * 2.0)) - wg.tensor(y * 2.0)) ** 2).mean()\n"
        "loss.backward()",
        {(8, 4): "c", (8, 1): "c"},
    ),
    "a_module_of_self": (
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        self.a = nn.Linear(4, 1)\n"
        "    def forward(self, data):\n        return self.a(data)\n"
        "net = Net()\nloss = (net(wg.tensor(X * 2.0)) ** 2).mean()\nloss.backward()",
        {(8, 4): "data"},
    ),
    "a_number_on_the_right": (
        "w = wg.tensor(2.0, requires_grad=True)\ndef f(data):\n    return (data * w).sum()\n"
        "f(wg.tensor(X * 2.0)).backward()",
        {(8, 4): "data", (): "w"},
    ),
    "a_string_before_the_operands": (
        "w = wg.ones((4,), requires_grad=True)\ndef f(data):\n    return wg.einsum('ij,j->i', data, w).sum()\n"
        "f(wg.tensor(X * 2.0)).backward()",
        {(8, 4): "data"},
    ),
    "arguments_in_another_order": (
        "net = nn.Linear(4, 1)\ndef loss_of(target, data):\n    return F.mse_loss(net(data), target)\n"
        "loss_of(wg.tensor(y * 2.0), wg.tensor(X * 2.0)).backward()",
        {(8, 4): "data", (8, 1): "target"},
    ),
    "a_state_that_starts_as_zeros": (
        "cell = Cell(4, 6)\nh = wg.zeros((8, 6))\nfor _ in range(3):\n    h = cell(wg.tensor(X), h)\n"
        "h.sum().backward()",
        {(8, 4): "X", (8, 6): "h"},
    ),
    "zeros_are_no_copy_of_other_zeros": (
        "target = np.zeros((8, 6), 'float32')\ncell = Cell(4, 6)\n"
        "loss = ((cell(wg.tensor(X), wg.zeros((8, 6))) - wg.asarray(target)) ** 2).mean()\nloss.backward()",
        {(8, 4): "X"},
    ),
}


def recorded(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "program.py"
    path.write_text(HEAD + text + "\n", encoding="utf-8")
    recording = record_script(str(path))
    assert recording.error is None
    return document(recording)


@pytest.mark.parametrize(("text", "wanted"), PROGRAMS.values(), ids=PROGRAMS)
def test_leaves_are_called_what_the_program_calls_them(tmp_path: Path, text: str, wanted: dict[Any, str]) -> None:
    found = recorded(tmp_path, text)
    nodes, strings = found["nodes"], found["strings"]
    for row, (op, kind) in enumerate(zip(nodes["op"], nodes["kind"], strict=True)):
        name, shape = strings[nodes["name"][row]], tuple(found["shapes"][nodes["shape"][row]])
        if op >= 0 or kind == 4 or "." in name or shape not in wanted:
            continue
        # Without a name of the program's it has a letter and a number.
        assert name == wanted[shape] or (wanted[shape] == "c" and name[0] == "c" and name[1:].isdigit()), (name, shape)
        if wanted[shape] != "c" and shape != ():
            assert kind == 0, name


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "cell, h = Cell(4, 6), wg.zeros((8, 6))\nxs = wg.tensor(rng.normal(size=(8, 3, 4)).astype('float32'))\n"
            "for t in range(3):\n    h = cell(xs[:, t], h)\nh.sum().backward()",
            ["t = 0", "t = 1", "t = 2"],
        ),
        (
            "class Net(nn.Module):\n    def __init__(self):\n        self.cell = Cell(4, 6)\n"
            "    def forward(self, xs, h):\n        for t in range(3):\n            h = self.cell(xs[:, t], h)\n"
            "        return h.sum()\n"
            "Net()(wg.tensor(rng.normal(size=(8, 3, 4)).astype('float32')), wg.zeros((8, 6))).backward()",
            ["cell 0", "cell 1", "cell 2"],
        ),
        (
            "layers = [nn.Linear(4, 4) for _ in range(3)]\nh = wg.tensor(X)\n"
            "for layer in layers:\n    h = wg.relu(layer(h)) * 2.0\nh.sum().backward()",
            ["layer 0", "layer 1", "layer 2"],
        ),
        (
            "w = wg.tensor(1.5, requires_grad=True)\nh = w\nfor t in range(3):\n    h = wg.sin(h) * w\nh.backward()",
            ["t = 0", "t = 1", "t = 2"],
        ),
        (
            "w = wg.tensor(1.5, requires_grad=True)\nh = w\nfor t in range(2, 5):\n    h = wg.sin(h) * w\nh.backward()",
            ["t 0", "t 1", "t 2"],
        ),
        (
            "w = wg.tensor(1.5, requires_grad=True)\nh = w\nfor _ in range(3):\n    h = wg.sin(h) * w\nh.backward()",
            ["0", "1", "2"],
        ),
    ],
)
def test_turns_are_called_by_what_they_do(tmp_path: Path, text: str, wanted: list[str]) -> None:
    scopes = (found := recorded(tmp_path, text))["scopes"]
    names = [found["strings"][n] for n, kind in zip(scopes["name"], scopes["kind"], strict=True) if kind == "iteration"]
    assert names == wanted


def test_parts_of_two_modules_are_told_apart(tmp_path: Path) -> None:
    text = (
        "G = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))\n"
        "D = nn.Sequential(nn.Linear(2, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1))\n"
        "og, od = (wg.optim.Adam(m.parameters(), lr=1e-3) for m in (G, D))\n"
        "for _ in range(3):\n"
        "    fake = G(wg.tensor(X))\n"
        "    ld = F.softplus(-D(wg.tensor(X[:, :2]))).mean() + F.softplus(D(fake.detach())).mean()\n"
        "    od.zero_grad()\n    ld.backward()\n    od.step()\n"
        "    lg = F.softplus(-D(fake)).mean()\n"
        "    og.zero_grad()\n    lg.backward()\n    og.step()"
    )
    scopes = (found := recorded(tmp_path, text))["scopes"]
    names = [found["strings"][n] for n, kind in zip(scopes["name"], scopes["kind"], strict=True) if kind == "module"]
    assert names == ["G.0", "G.1", "G.2", "D.0", "D.1", "D.2"]
