"""Tensors in memory of NumPy's arrays that compiled functions and transforms find outside: closures, state, data."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
import wengert.torch as torch
from wengert.torch import nn

CALLS = 6


def lent(shape, dtype="float32"):
    array = np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)
    return array, torch.from_numpy(array)


def shown():
    w = torch.ones(2, 2)
    return w.numpy(), w


@pytest.mark.parametrize("make", [lambda: lent((2, 2)), shown], ids=["from_numpy", "numpy()"])
@pytest.mark.parametrize("compiled", [torch.compile, wg.jit], ids=["compile", "jit"])
def test_what_is_captured_is_read_anew(make, compiled):
    array, w = make()
    f = compiled(lambda x: x * w + w.t())
    for n in range(CALLS):
        array[0, 1] = n
        assert f(torch.ones(2, 2)).tolist() == (array + array.T).tolist()
        assert w.tolist() == array.tolist()
        w[1, 0] = -n
        assert array[1, 0] == -n


@pytest.mark.parametrize("compiled", [torch.compile, wg.jit], ids=["compile", "jit"])
def test_what_is_captured_is_written_to(compiled):
    array, w = lent((3,))
    half = w[1:]

    def step(x):
        half.mul_(2)
        w.add_(x)
        return w * 1

    f = compiled(step)
    wanted = array.copy()
    for _ in range(CALLS):
        wanted[1:] *= 2
        wanted += 1
        assert f(torch.ones(3)).tolist() == wanted.tolist()
        assert array.tolist() == w.tolist() == wanted.tolist()
        assert half.tolist() == wanted[1:].tolist()


def test_buffers_parameters_and_data():
    table, weight, labels = np.ones((4, 3), "float32"), np.full((2, 3), 0.5, "float32"), np.array([0, 1, 1, 0])
    model = nn.Linear(3, 2, bias=False)
    model.weight = nn.Parameter(torch.from_numpy(weight))
    model.register_buffer("table", torch.from_numpy(table))
    y = torch.from_numpy(labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    reference = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        reference.weight.fill_(0.5)
    other = torch.optim.SGD(reference.parameters(), lr=0.5)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x * model.table), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = torch.randn(4, 3)
    for n in range(CALLS):
        table[0, 0] = n
        other.zero_grad()
        loss = nn.functional.cross_entropy(reference(x * torch.tensor(table)), torch.tensor(labels))
        loss.backward()
        other.step()
        assert torch.allclose(step(x), loss.detach())
        assert torch.allclose(model.weight, reference.weight)
        assert np.allclose(weight, reference.weight.detach().numpy())


def test_a_view_of_a_name_whose_tensor_is_shown():
    w = torch.ones(2)
    rows = list(w)
    shown = w.numpy()

    def f(x):
        rows[0].mul_(2)
        return x + w

    g = torch.compile(f)
    for n in range(1, CALLS + 1):
        assert g(torch.ones(2)).tolist() == [1 + 2.0**n, 2]
        assert shown.tolist() == [2.0**n, 1]


def test_numpys_namespace():
    array = np.zeros(5)
    s = wnp.asarray(array)
    f = wg.jit(lambda x: x + s)
    gradient = wg.jit(wg.grad(lambda x: (x * s).sum()))
    for n in range(CALLS):
        array[2] = n
        assert f(wnp.ones(5)).tolist() == (array + 1).tolist()
        assert gradient(wnp.ones(5)).tolist() == array.tolist()


def test_a_call_that_fails_leaves_it_as_it_is():
    array, w = lent((3,))
    cache = torch.zeros(3)

    def f(x):
        w.mul_(x)
        cache[0] = w.sum()
        raise KeyError("the program's own")

    for compiled in (torch.compile(f), wg.jit(f)):
        with pytest.raises(KeyError):
            compiled(torch.ones(3))
        assert w.tolist() == array.tolist() == [1, 2, 3]
        array[0] = w[0] = 1
        w.add_(1)
        assert array.tolist() == w.tolist() == [2, 3, 4]
        w.sub_(1)


TRACES = {
    "vmap": lambda f: wg.vmap(f)(torch.ones(2, 3)),
    "torch.func.vmap": lambda f: torch.func.vmap(f)(torch.ones(2, 3)),
    "graph": lambda f: wg.graph(f)(torch.ones(3)),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_that_is_refused_leaves_it_as_it_is(name):
    array, w = lent((3,))

    def f(x):
        w.copy_(x)
        return w * 1

    with pytest.raises(wg.WengertError):
        TRACES[name](f)
    assert w.tolist() == array.tolist() == [1, 2, 3]
    array[0] = 7
    assert w[0].item() == 7


def test_what_the_search_does_not_find():
    array, w = lent((3,))
    held = {"w": w}
    f = torch.compile(lambda x: held.get("w").add_(x) * 1)
    for n in range(1, CALLS + 1):
        assert f(torch.ones(3)).tolist() == [n + 1, n + 2, n + 3]
        assert array.tolist() == w.tolist() == [n + 1, n + 2, n + 3]
