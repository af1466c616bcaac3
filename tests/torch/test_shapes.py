"""Shapes, indices and writes to views: what PyTorch gave for the same calls and programs (`record_shapes.py`)."""

from __future__ import annotations

import enum
import gc
import gzip
import json
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

sys.path.insert(0, str(Path(__file__).parent))
from shapes import calls, views

FOLDER = Path(__file__).parent

RECORDED = json.loads(gzip.decompress((FOLDER / "data" / "shapes.json.gz").read_bytes()))
FAMILIES = [(family, line) for family, lines in calls.CALLS.items() for line in lines]


def tensors(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)) and not isinstance(out, torch.Size):
        return [e for o in out for e in tensors(o)]
    return [out]


def assert_same(out: Any, expected: list[dict[str, Any]], line: str) -> None:
    found = tensors(out)
    assert len(found) == len(expected), line
    for x, e in zip(found, expected, strict=True):
        if "shape" not in e:
            assert (list(x) if isinstance(x, tuple) else x) == e["value"], line
            continue
        assert isinstance(x, torch.Tensor), line
        assert (list(x.shape), x.dtype.name) == (e["shape"], e["dtype"]), line
        value = x.detach().numpy()
        pairs = np.stack([value.real, value.imag], -1) if value.dtype.kind == "c" else value
        tolerance = 1e-12 if value.dtype.itemsize > 4 else 1e-6
        want = np.array(e["value"], pairs.dtype).reshape(pairs.shape)
        np.testing.assert_allclose(pairs, want, rtol=tolerance, atol=tolerance, err_msg=line)


@pytest.mark.parametrize("family", list(calls.CALLS))
def test_calls(family: str) -> None:
    for line in calls.CALLS[family]:
        entry = RECORDED["calls"][line]
        inputs = calls.inputs(torch)
        out = eval(line, {"torch": torch, **inputs})
        assert_same(out, entry["out"], line)
        if "grad" in entry:
            found = calls.derivatives(torch, out, inputs["x"])
            for g, key in zip(found, ("grad", "second"), strict=True):
                np.testing.assert_allclose(
                    g.detach().numpy(), np.array(entry[key]), rtol=1e-9, atol=1e-12, err_msg=line
                )


# What decides shapes by values, or is no computation with x.
UNTRACED = (
    "[b]",
    "masked_select",
    "nonzero",
    "argwhere",
    ".view(torch",
    "resize",
    "as_strided",
    "tolist",
    "item()",
    "[n > 3]",
    "Size",
)


@pytest.mark.parametrize("family", [f for f in calls.CALLS if f != "dtypes"])
def test_compiled(family: str) -> None:
    inputs = calls.inputs(torch)
    given = inputs.pop("x").detach()
    lines = [s for s in calls.CALLS[family] if "x" in s and "x[b" not in s and not any(word in s for word in UNTRACED)]
    run = wg.jit(lambda x: [eval(line, {"torch": torch, "x": x, **inputs}) for line in lines])
    for _ in range(3):
        outs = run(given)
    for line, out in zip(lines, outs, strict=True):
        assert_same(out, RECORDED["calls"][line]["out"], line)


def test_vmap() -> None:
    x = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)
    at = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])

    def one(x: Any) -> Any:
        parts = x.chunk(2, 1)
        return torch.scatter_reduce(torch.cat(parts[::-1], 1).t().reshape(3, 4), 0, at, x[:2], "amax")

    np.testing.assert_array_equal(wg.vmap(one)(x).numpy(), torch.stack([one(x[0]), one(x[1])]).numpy())


@pytest.mark.parametrize("name", list(views.EAGER))
def test_views(name: str) -> None:
    assert_close(views.EAGER[name](torch), RECORDED["views"][name])


@pytest.mark.parametrize("through", [lambda f: f, wg.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", list(views.TRACED))
def test_views_traced(name: str, through: Any) -> None:
    assert_close(views.traced(torch, views.TRACED[name], through), RECORDED["views"][name])


def assert_close(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            np.array(f, object).tolist() if f == "refused" else f, e, rtol=1e-6
        ) if f != e else None


def test_what_is_refused() -> None:
    x, leaf = torch.zeros(2, 3), torch.ones(2, requires_grad=True)
    with pytest.raises(wg.WriteError):  # one element of memory in three places
        x[:, :1].expand(2, 3).add_(1)
    with pytest.raises(wg.WriteError):
        x.unfold(1, 2, 1).zero_()
    h = leaf.expand(2, 2) * torch.ones(2, 2)
    for part, offset in ((h[1:], 0), (h.t(), None), (h[:, 1], None)):  # whose strides are those of the memory of h
        with pytest.raises(wg.ShapeError):
            part.as_strided((2,), (1,), offset)
    assert x.view(6).as_strided((2,), (3,)).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="greater than zero"):
        x[::-1]
    with pytest.raises(wg.GradientError):
        leaf[0].zero_()


def test_elements_at_steps_in_a_part_of_memory() -> None:
    x = torch.arange(6.0)
    assert x[2:].as_strided((2,), (2,)).tolist() == [2.0, 4.0]
    assert x[4:].view(2, 1).as_strided((), ()).item() == 4.0
    with pytest.raises(wg.RangeError):
        x[4:].as_strided((2,), (2,))


class _Place(enum.IntEnum):
    SECOND = 1


def test_integers_of_every_kind_are_indices() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    for i in (np.int64(1), np.uint8(1), _Place.SECOND, torch.tensor(1), np.array(1)):
        assert x[i, 0].tolist() == x[1, 0].tolist()
        assert x[0, :, i].tolist() == x[0, :, 1].tolist()
        assert x[i, ..., i].tolist() == x[1, ..., 1].tolist()
        assert x[i, [0, 2], i].tolist() == [13.0, 21.0]
        assert x[i].tolist() == x[1].tolist()
        y = x.clone()
        y[0, i, i] = -1.0
        assert y[0, 1, 1].item() == -1.0
    compiled = torch.compile(lambda x: x[np.int64(1), 0, _Place.SECOND], fullgraph=True)
    for k in range(7):
        assert compiled(x + k).item() == 13.0 + k


def test_values_of_wengert_stay_values() -> None:
    x = wg.zeros(2, 3)
    with pytest.raises(wg.WriteError):
        x[0].zero_()
    np.testing.assert_array_equal(wg.arange(3)[::-1].numpy(), [2, 1, 0])


def test_compiled_programs_write_to_tensors_outside() -> None:
    buffer = torch.zeros(2, 3)

    @wg.jit
    def step(x: Any) -> Any:
        buffer[0].add_(x[0])
        row = buffer[1]
        buffer[1] = x[1]
        return row * 1

    for _ in range(6):
        row = step(torch.ones(2, 3))
    assert (buffer.tolist(), row.tolist()) == ([[6.0] * 3, [1.0] * 3], [1.0] * 3)


def test_no_view_is_looked_for_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look through all objects for views, parameter by parameter, is what tracing an optimiser's step cost most."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    looked: list[Any] = []
    monkeypatch.setattr(gc, "get_objects", lambda *generation: looked.append(generation) or [])

    @torch.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(torch.ones(4, 3))
    assert looked == []


def test_views_are_found_among_old_objects() -> None:
    x = torch.zeros(3)
    old = x[1:]
    gc.collect()
    x.add_(1)
    young = x[:1]
    x.add_(1)
    assert (old.tolist(), young.tolist()) == ([2.0, 2.0], [2.0])
    del young
    x.add_(1)
    assert old.tolist() == [3.0, 3.0]


def test_views_of_one_owner_by_way_of_others() -> None:
    x = torch.zeros(2, 2)
    held = weakref.ref(x)
    x.add_(1)
    del held
    middle = x.view(4)
    first = middle[0]
    x.add_(1)
    last = middle[3:]
    del middle
    x.add_(1)
    inner = last[0]
    x.add_(1)
    assert (first.item(), last.tolist(), inner.item()) == (4.0, [4.0], 4.0)
    inner.zero_()
    assert (x.tolist(), last.tolist()) == ([[4.0, 4.0], [4.0, 0.0]], [0.0])


def test_views_are_found_beside_tensors_that_are_being_made() -> None:
    """Another thread may be about to make one: its slots are empty when the living tensors are looked through."""
    half = [object.__new__(kind) for kind in (wg.Tensor, wg.torch.Tensor, type(wg.torch.ones(1).data))]
    x = wg.torch.zeros(2, 3)
    row, kept = x[0], x[1]
    row.add_(1.0)
    kept.mul_(2.0).add_(3.0)
    assert x.tolist() == [[1.0] * 3, [3.0] * 3]
    assert len(half) == 3
