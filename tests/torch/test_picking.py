"""Indices that count from the end: where PyTorch takes them, and where it refuses them, eager and compiled."""

import pytest

import wengert.torch as torch

REFUSED = {
    "gather": lambda x, i, v: torch.gather(x, 0, i),
    "take_along_dim": lambda x, i, v: torch.take_along_dim(x, i),
    "index_select": lambda x, i, v: x.index_select(0, i),
    "scatter": lambda x, i, v: x.scatter(0, i, v),
    "scatter of a number": lambda x, i, v: x.scatter(0, i, 1.0),
    "scatter with add": lambda x, i, v: x.scatter(0, i, v, reduce="add"),
    "scatter_add": lambda x, i, v: x.scatter_add(0, i, v),
    "scatter_reduce, sum": lambda x, i, v: x.scatter_reduce(0, i, v, "sum"),
    "scatter_reduce, amax": lambda x, i, v: x.scatter_reduce(0, i, v, "amax"),
    "scatter_reduce, prod": lambda x, i, v: x.scatter_reduce(0, i, v, "prod"),
    "index_add": lambda x, i, v: x.index_add(0, i, v),
    "index_copy": lambda x, i, v: x.index_copy(0, i, v),
    "index_reduce": lambda x, i, v: x.index_reduce(0, i, v, "mean"),
    "scatter_": lambda x, i, v: x.clone().scatter_(0, i, v),
    "index_add_": lambda x, i, v: x.clone().index_add_(0, i, v),
}
TAKEN = {
    "index_fill": (lambda x, i, v: x.index_fill(0, i, 1.0), [1.0, 0.0, 0.0, 1.0]),
    "take": (lambda x, i, v: (x + 2.0).take(i), [2.0, 2.0]),
    "put": (lambda x, i, v: x.put(i, v), [5.0, 0.0, 0.0, 6.0]),
    "take_along_dim": (lambda x, i, v: torch.take_along_dim(x + 2.0, i, 0), [2.0, 2.0]),
    "index": (lambda x, i, v: (x + 2.0)[i], [2.0, 2.0]),
    "index_put": (lambda x, i, v: x.index_put((i,), v), [5.0, 0.0, 0.0, 6.0]),
}
X, V = torch.zeros(4), torch.tensor([5.0, 6.0])
MODES = {"eager": lambda f: f, "compiled": lambda f: torch.compile(f, fullgraph=True)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_places_below_0_are_refused(name, mode):
    run = MODES[mode](REFUSED[name])
    right = run(X, torch.tensor([0, 3]), V)
    assert torch.equal(run(X, torch.tensor([0, 3]), V), right)
    for wrong in ([0, -1], [-4, 0], [0, 4]):
        with pytest.raises(IndexError):
            run(X, torch.tensor(wrong), V)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TAKEN)
def test_places_from_the_end(name, mode):
    call, wanted = TAKEN[name]
    assert MODES[mode](call)(X, torch.tensor([0, -1]), V).tolist() == wanted


def test_the_error_says_what_to_write():
    with pytest.raises(IndexError, match="gather: index -1 is out of range for axis 1 of size 2"):
        torch.gather(torch.zeros(2, 2), 1, torch.tensor([[0, -1]]))


def test_maxima_have_places_from_the_start():
    x = torch.tensor([[[1.0, 2.0]]])
    with pytest.raises(IndexError):
        torch.nn.functional.max_unpool1d(x, torch.tensor([[[0, -1]]]), 2)
