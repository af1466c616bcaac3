"""Gradients, hooks and kept gradients of views and of their bases after a write; numbers looked at in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest

import wengert.torch as torch


def _base() -> Any:
    return torch.tensor([1.0, 2.0], requires_grad=True).clone()


VIEWS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "part": (lambda b: b[:1], [3.0], [4.0, 1.0]),
    "all": (lambda b: b[:], [3.0, 3.0], [4.0, 4.0]),
    "another shape": (lambda b: b.view(2, 1), [[3.0], [3.0]], [4.0, 4.0]),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("writes", ["view", "base"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_of_a_base_has_those_of_its_views_in_it(name: str, writes: str, compiled: bool) -> None:
    view, of_view, of_base = VIEWS[name]

    def slopes(x: Any) -> Any:
        base = x.clone()
        v = view(base)
        (v if writes == "view" else base).mul_(2)
        return torch.autograd.grad(v.sum() * 3 + base.sum(), (v, base))

    run = torch.compile(slopes, fullgraph=True) if compiled else slopes
    found = run(torch.tensor([1.0, 2.0], requires_grad=True))
    assert [g.tolist() for g in found] == [of_view, of_base]


@pytest.mark.parametrize("name", VIEWS)
def test_hooks_and_kept_gradients_after_a_write(name: str) -> None:
    view, of_view, of_base = VIEWS[name]
    base = _base()
    v, seen = view(base), {}
    v.mul_(2)
    for key, t in (("view", v), ("base", base)):
        t.register_hook(lambda g, key=key: seen.update({key: g.tolist()}))
        t.retain_grad()
    (v.sum() * 3 + base.sum()).backward()
    assert seen == {"view": of_view, "base": of_base}
    assert (v.grad.tolist(), base.grad.tolist()) == (of_view, of_base)


def test_gradients_that_were_to_be_kept_before_the_write() -> None:
    base = _base()
    first, second = base.view(-1), base[:]
    first.retain_grad()
    second.retain_grad()
    first.mul_(3)
    (first * 2 + second * 5 + base).sum().backward()
    assert first.grad.tolist() == [2.0, 2.0]
    assert second.grad.tolist() == [5.0, 5.0]
