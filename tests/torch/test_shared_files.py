"""Tensors that share memory go on sharing it in what is saved, pickled or copied."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError


def saved(value: Any, lib: Any = torch, **kwargs: Any) -> io.BytesIO:
    file = io.BytesIO()
    lib.save(value, file, **kwargs)
    file.seek(0)
    return file


LEGACY = {"_use_new_zipfile_serialization": False}
# Ways of another tensor with the same memory: of whole modules, files need trust.
WAYS: dict[str, Callable[[Any], Any]] = {
    "zip": lambda v: torch.load(saved(v), weights_only=False),
    "legacy": lambda v: torch.load(saved(v, **LEGACY), weights_only=False),
    "pickle": lambda v: pickle.loads(pickle.dumps(v)),
    "deepcopy": copy.deepcopy,
}
ways = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "part": lambda x: x[1:3, ::2],
    "transposed": lambda x: x.t(),
    "expanded": lambda x: x[0].expand(2, 4),
    "diagonal": lambda x: x.diagonal(),
    "windows": lambda x: x.view(-1).unfold(0, 4, 2),
    "detached": lambda x: x.detach(),
}
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.uint16)


@ways
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_share_afterwards(again: Any, view: Any) -> None:
    for dtype in DTYPES:
        x = (torch.arange(12) % 7).to(dtype).reshape(3, 4)
        first = view(x)
        y, second = again([x, first])
        for given, found in ((x, y), (first, second)):
            assert (found.dtype, found.tolist()) == (given.dtype, given.tolist())
        x.zero_()
        y.fill_(1)
        assert second.tolist() == torch.ones(second.shape, dtype=dtype).tolist()
        assert not x.any()


@ways
def test_two_parts_share_where_they_overlap(again: Any) -> None:
    x = torch.arange(6.0)
    low, high = again((x[:4], x[2:]))
    low.mul_(10)
    assert high.tolist() == [20, 30, 4, 5]
    x = torch.arange(6.0)
    parts = x[:4], x[2:]
    del x
    low, high = again(parts)
    high.mul_(10)
    assert low.tolist() == [0, 1, 20, 30]


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.outer.weight = self.inner.weight
        self.flat = self.inner.weight.detach().view(-1)
        table = torch.arange(6.0)
        self.register_buffer("table", table)
        self.register_buffer("head", table[:2])


@ways
def test_a_module_with_tied_weights_and_buffers_that_are_views(again: Any) -> None:
    model = again(Tied())
    assert model.outer.weight is model.inner.weight
    with torch.no_grad():
        model.inner.weight.fill_(3.0)
        model.table.fill_(4.0)
    assert model.head.tolist() == [4.0] * 2
    if again is copy.deepcopy:  # which clones parameters, as PyTorch's does
        assert model.flat.tolist() != [3.0] * 4
        return
    assert model.flat.tolist() == [3.0] * 4
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    (model.outer.weight.sum() * 2).backward()
    optimizer.step()
    assert model.flat.tolist() == [1.0] * 4


@pytest.mark.parametrize("kwargs", [{}, LEGACY])
def test_a_state_dict_shares_as_the_module_does(kwargs: Any) -> None:
    found = torch.load(saved(Tied().state_dict(), **kwargs))
    found["table"][0] = 9.0
    found["inner.weight"].zero_()
    assert found["head"][0] == 9.0
    assert not found["outer.weight"].any()


@ways
def test_values_that_do_not_share_memory_do_not_afterwards(again: Any) -> None:
    x = torch.zeros(3)
    alone, copied, given = again([x, x.clone(), x * 1])
    alone.fill_(1.0)
    assert not copied.any()
    assert not given.any()


def test_plain_tensors_that_share_a_value_share_no_memory() -> None:
    x = wg.zeros(3)
    first, second = torch.load(saved([x, x.detach()]))
    first.fill_(1.0)
    assert not second.any()


def test_a_memory_of_two_dtypes_is_refused() -> None:
    """As PyTorch refuses it: a storage in a file has one dtype."""
    x = torch.ones(2)
    with pytest.raises(DataError, match="float32 and int32 share memory"):
        torch.save([x, x.view(torch.int32)], io.BytesIO())
    bits = x.view(torch.int32)
    assert torch.load(saved(bits)).tolist() == bits.tolist()
    z = torch.tensor([1 + 2j, 3 + 4j])
    imaginary = z.imag
    assert torch.load(saved(imaginary)).tolist() == imaginary.tolist() == [2.0, 4.0]


def test_strides_are_kept() -> None:
    for x in (torch.ones(2, 3).t().clone(), torch.ones(2, 3, 4).permute(1, 2, 0), torch.ones(4, 4)[:, ::2]):
        found = torch.load(saved([x, x[0]]))[0]
        assert found.stride() == x.stride()
        assert found.tolist() == x.tolist()


@pytest.mark.parametrize("kwargs", [{}, LEGACY])
@pytest.mark.parametrize("writes", [True, False], ids=["ours", "pytorch's"])
def test_files_between_here_and_pytorch(writes: bool, kwargs: Any) -> None:
    real = pytest.importorskip("torch")
    source, goal = (torch, real) if writes else (real, torch)
    for name, view in VIEWS.items():
        x = source.arange(12.0).reshape(3, 4)
        y, second = goal.load(saved([x, view(x)], source, **kwargs))
        assert second.tolist() == view(x).tolist(), name
        assert second.stride() == view(x).stride(), name
        assert second.storage_offset() == view(x).storage_offset(), name
        y.zero_()
        assert not second.any(), name
    tied = {"w": source.nn.Parameter(source.ones(2, 2))}
    tied["row"] = tied["w"].detach()[1]
    found = goal.load(saved(tied, source, **kwargs))
    found["row"].zero_()
    assert found["w"].tolist() == [[1, 1], [0, 0]]


def test_repetition_without_end_is_refused() -> None:
    real = pytest.importorskip("torch")
    file = saved([real.zeros(1).expand(1 << 40), real.zeros(1).expand(1 << 39, 2)], real)
    with pytest.raises(DataError, match="may be hostile"):
        torch.load(file)


def test_a_mapped_file_is_not_written_to(tmp_path: Any) -> None:
    path = tmp_path / "x.pt"
    x = torch.arange(4.0)
    torch.save([x, x[:2]], path)
    y, part = torch.load(path, mmap=True)
    y.zero_()
    assert part.tolist() == [0, 0]
    np.testing.assert_array_equal(torch.load(path)[0], x)
