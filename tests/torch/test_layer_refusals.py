"""What PyTorch's layers, containers and state dicts refuse, where silence would hide a mistake."""

from typing import Any

import numpy as np
import pytest

import wengert.torch as torch

nn, F = torch.nn, torch.nn.functional


@pytest.mark.parametrize("value", [np.ones((2, 2)), ((1.0, 1.0), (2.0, 2.0)), "nonsense"])
def test_state_dicts_hold_tensors(value: Any) -> None:
    model = nn.Linear(2, 2, bias=False)
    before = model.weight.tolist()
    with pytest.raises(RuntimeError, match=r"expected torch\.Tensor"):
        model.load_state_dict({"weight": value})
    assert model.weight.tolist() == before


def test_extra_state_that_nobody_takes_is_unexpected() -> None:
    class Gives(nn.Module):
        def get_extra_state(self) -> Any:
            return {"seen": 5}

    class Takes(Gives):
        def set_extra_state(self, state: Any) -> None:
            self.seen = state["seen"]

    with pytest.raises(RuntimeError, match="Unexpected"):
        Gives().load_state_dict(Gives().state_dict())
    taking = Takes()
    taking.load_state_dict(Gives().state_dict())
    assert taking.seen == 5


CPU, LONG = torch.device("cpu"), torch.tensor(3)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((CPU, True), {}),
        ((torch.long,), {}),
        ((None, True), {}),
        ((CPU, torch.long, True), {}),
        ((CPU,), {"dtype": torch.long}),
        (([],), {}),
        (({},), {"non_blocking": True}),
        ((LONG,), {}),
        ((CPU, LONG), {}),
    ],
)
def test_what_a_module_is_not_converted_to(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        nn.Linear(1, 1).to(*args, **kwargs)


def test_modules_are_converted() -> None:
    for args in ((CPU, torch.float64, True), (torch.float64, True), ("cpu", torch.float64), (torch.zeros(1).double(),)):
        assert nn.Linear(1, 1).to(*args).weight.dtype == torch.float64


def test_pairs_of_a_dict_of_modules() -> None:
    held = nn.ModuleDict([("a1", nn.ReLU())])
    held.update(nn.ModuleDict({"ab": nn.Tanh(), "cd": nn.ReLU()}))
    assert list(held) == ["a1", "ab", "cd"]
    for wrong, error in ((nn.ReLU(), TypeError), ([nn.ReLU()], TypeError), ([[nn.ReLU()]], ValueError), (3, TypeError)):
        with pytest.raises(error):
            held.update(wrong)
    assert list(held) == ["a1", "ab", "cd"]


def test_insertions_beyond_the_ends() -> None:
    chain = nn.Sequential(nn.ReLU(), nn.Tanh())
    for index in (-3, 3):
        with pytest.raises(IndexError):
            chain.insert(index, nn.ReLU())
    with pytest.raises(TypeError):
        chain.insert(1, [nn.ReLU()])
    chain.insert(-1, nn.Sigmoid())
    assert [type(m).__name__ for m in chain] == ["ReLU", "Sigmoid", "Tanh"]


def test_groups_of_one_value() -> None:
    for shape, groups in (((1, 10, 1), 10), ((1, 2), 2)):
        with pytest.raises(ValueError, match="more than one value"):
            F.group_norm(torch.ones(shape), groups)
    for shape, groups in (((1, 10, 1), 5), ((2, 2), 2), ((1, 2, 2), 2), ((0, 2), 2)):
        assert F.group_norm(torch.ones(shape), groups).shape == shape


def test_lengths_of_ctc_are_integers() -> None:
    scores = torch.randn(5, 2, 4).log_softmax(2)
    targets = torch.ones(2, 3, dtype=torch.int64)
    whole = [torch.tensor([5, 5]), torch.tensor([3, 2])]
    F.ctc_loss(scores, targets, *whole)
    for i in (0, 1):
        with pytest.raises(TypeError, match="integers"):
            F.ctc_loss(scores, targets, *[n.float() if k == i else n for k, n in enumerate(whole)])


@pytest.mark.parametrize("slope", [True, [1], {"a": "b"}, "1"])
def test_slopes_are_numbers(slope: Any) -> None:
    with pytest.raises(ValueError, match="not a valid number"):
        nn.init.calculate_gain("leaky_relu", slope)


@pytest.mark.parametrize("sizes", [(2, 5, 5.0), (2, True)])
def test_sizes_are_ints(sizes: Any) -> None:
    with pytest.raises(TypeError, match="must be ints"):
        nn.Unflatten(1, sizes)


@pytest.mark.parametrize("wrap", [nn.utils.weight_norm, nn.utils.spectral_norm, torch.jit.script])
def test_layers_without_a_shape_yet(wrap: Any) -> None:
    with pytest.raises(ValueError, match="run a forward pass"):
        wrap(nn.LazyLinear(7))
    wrap(nn.Linear(2, 2))


@pytest.mark.parametrize("wrong", [lambda x: (x, x), lambda x: x.bool(), lambda x: x[:-1], lambda x: None])
def test_the_inverse_of_a_second_parametrization_gives_such_a_tensor(wrong: Any) -> None:
    class Same(nn.Module):
        def forward(self, x: Any) -> Any:
            return x

    class Wrong(Same):
        def right_inverse(self, x: Any) -> Any:
            return wrong(x)

    parametrize = nn.utils.parametrize
    model = parametrize.register_parametrization(nn.Linear(3, 4), "weight", Same())
    with pytest.raises(ValueError, match="right_inverse"):
        parametrize.register_parametrization(model, "weight", Wrong())
    assert len(model.parametrizations.weight) == 1
