"""`torch.nn.utils.prune`: masks by PyTorch's rules, with values that PyTorch 2.13 gives, and masked training."""

import pickle

import pytest

import wengert.torch as torch
from wengert.torch.nn.utils import prune

W = torch.tensor([[0.1, -0.5, 0.3, 0.9], [-0.7, 0.2, -0.4, 0.6], [0.8, -0.05, 0.15, -0.25]])


def layer():
    made = torch.nn.Linear(4, 3)
    made.weight.data.copy_(W)
    return made


MASKS = {
    "identity": (lambda m: prune.identity(m, "weight"), [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]),
    "l1, a share": (lambda m: prune.l1_unstructured(m, "weight", 0.5), [[0, 1, 0, 1], [1, 0, 1, 1], [1, 0, 0, 0]]),
    "l1, a count": (lambda m: prune.l1_unstructured(m, "weight", 3), [[0, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 1]]),
    "l1 by scores": (
        lambda m: prune.l1_unstructured(m, "weight", 4, importance_scores=W.flip(1)),
        [[1, 1, 1, 0], [1, 1, 0, 1], [1, 0, 0, 1]],
    ),
    "ln of rows": (lambda m: prune.ln_structured(m, "weight", 1, 2, 0), [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]),
    "ln of columns": (
        lambda m: prune.ln_structured(m, "weight", 0.5, 1, -1),
        [[1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]],
    ),
    "a mask": (lambda m: prune.custom_from_mask(m, "weight", W > 0), [[1, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 0]]),
    "twice": (
        lambda m: prune.l1_unstructured(prune.ln_structured(m, "weight", 1, 2, 0), "weight", 0.25),
        [[0, 1, 1, 1], [1, 0, 1, 1], [0, 0, 0, 0]],
    ),
    "slices of what is left": (
        lambda m: prune.ln_structured(prune.ln_structured(m, "weight", 1, 2, 0), "weight", 0.5, 2, 0),
        [[1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    call, wanted = MASKS[name]
    model = call(layer())
    assert model.weight_mask.tolist() == wanted
    assert torch.equal(model.weight, W * torch.tensor(wanted))
    assert sorted(k for k, _ in model.named_parameters()) == ["bias", "weight_orig"]
    assert prune.is_pruned(torch.nn.Sequential(model))
    prune.remove(model, "weight")
    assert not prune.is_pruned(model)
    assert isinstance(model.weight, torch.nn.Parameter)
    assert torch.equal(model.weight, W * torch.tensor(wanted))


@pytest.mark.parametrize("structured", [False, True])
def test_by_chance(structured):
    model = layer()
    if structured:
        prune.random_structured(model, "weight", 2, dim=1)
        assert sorted(model.weight_mask.sum(0).tolist()) == [0, 0, 3, 3]
    else:
        prune.random_unstructured(model, "weight", 5)
        assert model.weight_mask.sum() == 7


def test_weights_of_several_modules_as_one():
    first, second = layer(), layer()
    second.weight.data.mul_(10)
    prune.global_unstructured([(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=0.5)
    assert first.weight_mask.sum().item() + second.weight_mask.sum().item() == 12
    assert first.weight_mask.tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_pruned_stays_0_while_the_rest_is_trained(compiled):
    model = prune.l1_unstructured(layer(), "weight", 0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step) if compiled else step
    losses = [run(torch.ones(1, 4)).item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    mask = model.weight_mask == 0
    assert torch.equal(model.weight_orig[mask], W[mask])
    model(torch.ones(1, 4))
    assert not model.weight[mask].any()
    assert not torch.equal(model.weight_orig, W)


def test_state_dicts_and_methods():
    model = prune.l1_unstructured(layer(), "weight", 0.5)
    again = prune.identity(layer(), "weight")
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(torch.ones(1, 4)), model(torch.ones(1, 4)))
    assert type(pickle.loads(pickle.dumps(prune.L1Unstructured(0.3)))) is prune.L1Unstructured
    assert prune.L1Unstructured(2).prune(torch.tensor([3.0, 1.0, 2.0])).tolist() == [3.0, 0.0, 0.0]


def test_errors():
    for message, call in (
        ("a share is", lambda: prune.L1Unstructured(1.5)),
        ("a share is", lambda: prune.L1Unstructured(-1)),
        ("13 to prune of 12", lambda: prune.l1_unstructured(layer(), "weight", 13)),
        ("structured", lambda: prune.ln_structured(layer(), "bias", 1, 2, 0)),
        ("not pruned", lambda: prune.remove(layer(), "weight")),
        ("importance_scores", lambda: prune.l1_unstructured(layer(), "weight", 1, importance_scores=torch.ones(2))),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(IndexError):
        prune.ln_structured(layer(), "weight", 1, 2, 3)
    with pytest.raises(TypeError):
        prune.L1Unstructured("some")
    with pytest.raises(TypeError):
        prune.global_unstructured([(layer(), "weight")], prune.LnStructured, amount=1, n=2)


def test_weights_that_are_pruned_in_another_way_are_pruned_together() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        second.weight.copy_(torch.tensor([[9.0, 0.5], [8.0, 7.0]]))
    prune.ln_structured(first, "weight", amount=1, n=2, dim=0)
    pairs = [(first, "weight"), (second, "weight")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=2)
    assert first.weight.tolist() == [[0.0, 0.0], [0.0, 4.0]]
    assert second.weight.tolist() == [[9.0, 0.0], [8.0, 7.0]]
    prune.random_unstructured(first, "weight", amount=1)
    assert not first.weight.any()
