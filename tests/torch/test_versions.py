"""`x._base`, `x._is_view()` and `x._version`; what is wanted was looked at in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

import wengert.torch as torch


@pytest.mark.parametrize("tracked", [False, True])
def test_what_is_a_view_of_what(tracked: bool) -> None:
    x = torch.ones(4, requires_grad=tracked)
    for view in (x[1:], x[1:][1:], x.view(2, 2), x.expand(3, 4), x.unsqueeze(0).mT, x.narrow(0, 1, 2)):
        assert view._is_view()
        assert view._base is x
    for own in (x, x.clone(), x * 2, x.detach(), x.data):
        assert not own._is_view()
        assert own._base is None
    with torch.no_grad():
        assert x[1:]._base is x
    d = x.detach()
    assert d[1:]._base is d


def test_a_view_of_what_is_gone() -> None:
    view = torch.arange(4.0)[1:]
    assert view._is_view()
    assert view._base.tolist() == [0.0, 1.0, 2.0, 3.0]
    view._base[2] = 7.0
    assert view.tolist() == [1.0, 7.0, 3.0]


WRITES: dict[str, Callable[[Any], Any]] = {
    "add_": lambda x: x.add_(1),
    "item": lambda x: x.__setitem__(0, 2.0),
    "slice": lambda x: x[1:].mul_(2),
    "copy_": lambda x: x.copy_(torch.ones(3)),
    "zero_": lambda x: x.zero_(),
    "out": torch.no_grad()(lambda x: torch.add(x, 1, out=x)),
    "detach": lambda x: x.detach().add_(1),
    "mask": lambda x: x.masked_fill_(x > 0, 3.0),
    "counted": lambda x: torch.autograd.graph.increment_version(x),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("tracked", [False, True])
def test_a_write_gives_another_version(write: str, shared: bool, tracked: bool) -> None:
    x = torch.ones(3, requires_grad=tracked) * 1.0
    view = x[:2] if shared else None
    seen = [x._version]
    assert seen == [0]
    for _ in range(3):
        assert x._version == seen[-1]  # a look is no write, nor is a view
        assert x[1:]._version == seen[-1]
        assert x._version == seen[-1]
        WRITES[write](x)
        seen.append(x._version)
        assert view is None or view._version == x._version
    assert seen == sorted(set(seen))


def test_versions_of_several() -> None:
    x, y = torch.ones(2), torch.ones(2, dtype=torch.int64)
    torch.autograd.graph.increment_version((x, y))
    assert (x._version, y._version) == (1, 1)
    view = x[:1]
    view.add_(1)
    assert x._version == view._version > 1


def test_a_compiled_step_that_writes_counts() -> None:
    x = torch.ones(3)

    @torch.compile
    def step() -> None:
        x.add_(1)

    before = x._version
    for _ in range(3):
        step()
        assert x._version > before
        before = x._version
    assert x.tolist() == [4.0] * 3
