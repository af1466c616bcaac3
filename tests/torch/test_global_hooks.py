"""Hooks of all modules, and what handles and modules say of their hooks."""

import copy

import pytest

import wengert.torch as torch
from wengert.core.errors import GradientError

nn, everywhere = torch.nn, torch.nn.modules.module


def net():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU())


def test_hooks_of_all_modules_come_before_a_modules_own():
    seen = []
    model, x = nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    model.register_forward_pre_hook(lambda m, args: seen.append("own before"))
    model.register_forward_hook(lambda m, args, out: seen.append("own after"))
    model.register_full_backward_hook(lambda m, gi, go: seen.append("own gradient"))
    handles = [
        everywhere.register_module_forward_pre_hook(lambda m, args: seen.append("before")),
        everywhere.register_module_forward_hook(lambda m, args, kwargs, out: seen.append("after"), with_kwargs=True),
        everywhere.register_module_full_backward_pre_hook(lambda m, go: seen.append("gradient of the output")),
        everywhere.register_module_full_backward_hook(lambda m, gi, go: seen.append("gradient")),
    ]
    model(x).sum().backward()
    assert seen == [
        *("before", "own before", "after", "own after"),
        *("gradient of the output", "gradient", "own gradient"),
    ]
    for handle in handles:
        handle.remove()
    seen.clear()
    model(x)
    assert seen == ["own before", "own after"]
    assert "__call__" not in nn.Module.__dict__  # calls cost what they cost before


def test_they_replace_arguments_results_and_gradients():
    model, x = net(), torch.tensor([[1.0, -2.0]], requires_grad=True)
    plain = model[1](model[0](x * 2) * 3) * 3
    with (
        everywhere.register_module_forward_pre_hook(lambda m, args: (args[0] * 2,) if m is model[0] else None),
        everywhere.register_module_forward_hook(lambda m, args, out: None if m is model else out * 3),
    ):
        assert torch.equal(model(x), plain)
    with everywhere.register_module_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi)):
        model[0](x).sum().backward()
    assert torch.allclose(x.grad, 2 * model[0].weight.sum(0))


def test_registrations():
    made = []
    with (
        everywhere.register_module_parameter_registration_hook(lambda m, name, p: made.append(name)),
        everywhere.register_module_module_registration_hook(lambda m, name, c: nn.Identity()),
        everywhere.register_module_buffer_registration_hook(lambda m, name, b: b * 0 + 7),
    ):
        model = nn.Sequential(nn.Linear(1, 1))
        model.register_buffer("held", torch.zeros(1))
    assert made == ["weight", "bias"]
    assert isinstance(model[0], nn.Identity)
    assert model.held.tolist() == [7.0]


def test_what_is_held_can_be_looked_up_and_put():
    handle = everywhere.register_module_forward_hook(lambda m, args, out: out * 0, always_call=True)
    assert list(everywhere._global_forward_hooks_always_called) == [handle.id]
    everywhere._global_forward_hooks = {}
    assert torch.equal(nn.Identity()(torch.ones(1)), torch.ones(1))
    model = nn.Identity()
    own = model.register_forward_hook(lambda m, args, kwargs, out: None, with_kwargs=True)
    assert own.hooks_dict_ref() is model._forward_hooks
    assert model._forward_hooks_with_kwargs == {own.id: True}
    assert not model._forward_hooks_always_called


def test_a_hook_that_fails_and_one_that_is_always_called():
    model, seen = nn.Identity(), []

    def broken(m, args):
        raise ValueError("broken")

    def also_broken(m, args, out):
        raise KeyError("too")

    model.register_forward_pre_hook(broken)
    model.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    model.register_forward_hook(also_broken, always_call=True)
    with pytest.warns(UserWarning, match="KeyError"), pytest.raises(ValueError, match="broken"):
        model(torch.ones(1))
    assert seen == [None]


def test_gradients_of_another_number_are_refused():
    model, x = nn.Identity(), torch.ones(1, requires_grad=True)
    model.register_full_backward_hook(lambda m, gi, go: (*gi, *gi))
    with pytest.raises(GradientError, match="got 2, but expected 1"):
        model(x * 2).backward()
    frozen = nn.Linear(1, 1)
    frozen.register_full_backward_hook(lambda m, gi, go: go)
    with pytest.raises(GradientError, match="None of them requires gradients"):
        frozen(torch.ones(1)).backward()


def test_a_state_dict_says_the_versions_of_modules():
    state = net().state_dict()
    assert list(state._metadata) == ["", "0", "1"]
    assert state._metadata[""] == {"version": 1}

    class Renamed(nn.Linear):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2:
                state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}old")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    model = nn.Sequential(Renamed(2, 2))
    own = copy.copy(model.state_dict())
    own._metadata = model.state_dict()._metadata
    model.load_state_dict(own)
    old = nn.Sequential(nn.Linear(2, 2)).state_dict()
    old["0.old"] = old.pop("0.weight")
    model.load_state_dict(old)
    assert torch.equal(model[0].weight, old["0.old"])
