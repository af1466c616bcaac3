"""Errors of who takes a value in parts, or at a stage, for one that is here: what was done, where, what to write."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_networks
import wengert as wg
import wengert.torch as torch
from wengert import distribute as dist
from wengert import nn

MESH = dist.Mesh(pipe=2)


def at_a_stage() -> Any:
    wg.manual_seed(0)
    model = nn.Sequential(*(small_networks.chain(4, 1, 4) for _ in range(2)))

    def step(x: Any) -> Any:
        model.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        with wg.no_grad():
            for p in model.parameters():
                p.sub_(0.1 * p.grad)
        return loss

    dist.jit(step, mesh=MESH, in_specs=(None,), pipeline=dist.Pipeline("pipe", 2, state="stages"))(wg.ones(4, 4))
    return model


def in_parts() -> Any:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
    return dist.shard(model, MESH, fsdp="pipe")


def in_other_parts(rows: int) -> Any:
    return dist.shard(nn.Linear(4, rows), dist.Mesh(other=2), fsdp="other").weight.detach()


AT = r"f32\[1,4\], which is at place 0 along 'pipe' alone of Mesh\(pipe=2\)"
PARTS = r"f32\[4,4\], which is in parts over the ranks of Mesh\(pipe=2\)"
VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "parameter": (lambda: at_a_stage()[0][0].weight.detach(), rf"model.0.0.weight, {AT}"),
    "gradient": (lambda: at_a_stage()[0][0].weight.grad, rf"the gradient of model.0.0.weight, {AT}"),
    "parts": (lambda: in_parts()[0][0].weight.detach(), rf"0.0.weight, {PARTS}"),
}
ACTS: dict[str, tuple[Callable[[Any, Path], Any], str]] = {
    "numpy": (lambda x, _: x.numpy(), r"numpy\(\)"),
    "np.asarray": (lambda x, _: np.asarray(x), "conversion to a NumPy array"),
    "np.save": (lambda x, at: np.save(at / "a.npy", x), "conversion to a NumPy array"),
    "tolist": (lambda x, _: x.tolist(), r"tolist\(\)"),
    "an element": (lambda x, _: x[0, 0], "an element"),
    "a slice": (lambda x, _: x[:, 1:], "an element"),
    "a loop": (lambda x, _: list(x), "an element"),
    "other parts": (lambda x, _: x + in_other_parts(x.shape[0]), "add"),
    "sum": (lambda x, _: x.sum(), "sum"),
    "sum over an axis": (lambda x, _: x.sum(axis=0), "sum"),
    "mean": (lambda x, _: x.mean(), "mean"),
    "max": (lambda x, _: x.max(), "max"),
    "norm": (lambda x, _: wg.linalg.norm(x), "l2_norm"),
    "matmul": (lambda x, _: wg.ones(2, x.shape[0]) @ x, "matmul"),
    "vmap": (lambda x, _: wg.vmap(lambda y: y.sum())(x), "sum"),
    "cast": (lambda x, _: x.to("float64"), "cast"),
    "pickle": (lambda x, _: pickle.dumps(x), "pickling"),
    "in": (lambda x, _: 1.0 in x, "`in`"),
    "a compiled function": (lambda x, _: wg.jit(lambda y: y * 2)(x), "a compiled function"),
    "a captured value": (lambda x, _: wg.jit(lambda: x * 2)(), "a compiled function"),
    "save": (lambda x, at: wg.storage.save(at / "a.safetensors", {"w": x}), "saving"),
    "torch.save": (lambda x, at: torch.save({"w": x}, at / "a.pt"), "saving"),
    "a checkpoint": (lambda x, at: wg.train.save_checkpoint(at, step=1, w=x), "saving"),
    "a device": (lambda x, _: x.to("xla:0"), r"to\('xla:0'\)"),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("act", ACTS)
def test_what_needs_a_value_says_what_where_and_how(value: str, act: str, tmp_path: Path) -> None:
    if act == "a device":
        pytest.importorskip("jax")
    make, whose = VALUES[value]
    do, what = ACTS[act]
    x = make()
    with pytest.raises(wg.WengertError, match=rf"^{what} of {whose} \(") as caught:
        do(x, tmp_path)
    first, mend = str(caught.value).split("\n")
    assert first.endswith(")")
    assert os.path.basename(__file__) in first
    assert "wg.distribute.whole(x)" in mend
    assert not list(tmp_path.rglob("*.pt")) or act != "torch.save"


@pytest.mark.parametrize("kind", ["stage", "parts"])
def test_one_element(kind: str) -> None:
    """Numbers of a value of one element, asked for as Python does."""
    if kind == "stage":
        x = at_a_stage()[0][0].bias.detach()
    else:
        x = dist.place(wg.ones(1, 1), dist.Mesh(data=1), "data")
    acts: list[Callable[[Any], Any]] = [float, int, bool, lambda x: x.item(), lambda x: f"{x:.3f}", lambda x: x.sum()]
    for act in acts:
        with pytest.raises(wg.WengertError, match=r"which is at place|in parts over the ranks") as caught:
            act(x)
        assert "wg.distribute.whole(x)" in str(caught.value)


def test_what_is_shown_or_known_without_the_value() -> None:
    for make, _ in VALUES.values():
        x = make()
        assert "Sharded(f32[" in str(x)
        assert "Sharded(f32[" in f"{x}"
        assert (x.ndim, len(x), x.dtype, x.size) == (2, x.shape[0], np.float32, 4 * x.shape[0])


def test_models_and_gradients_as_they_are_used() -> None:
    model = at_a_stage()
    for act, what in (
        (lambda: pickle.dumps(model), "pickling of model.0.0.weight"),
        (lambda: nn.utils.clip_grad_norm_(model.parameters(), 1.0), "of the gradient of model.0.0.weight"),
        (lambda: model(wg.ones(2, 4)), "of model.0.0.weight"),
        (lambda: wg.optim.SGD(model.parameters(), lr=0.1).step(), "step of the gradient of model.0.0.weight"),
    ):
        with pytest.raises(wg.DTypeError, match=what) as caught:
            act()
        assert os.path.basename(__file__) in str(caught.value)
