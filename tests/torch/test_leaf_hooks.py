"""Hooks that are called once a leaf's `.grad` is there, and names around modules."""

from collections import OrderedDict

import pytest

import wengert.torch as torch


def test_a_hook_sees_the_sum_in_grad():
    w, seen = torch.ones(2, requires_grad=True), []
    handle = w.register_post_accumulate_grad_hook(lambda p: seen.append((p is w, p.grad.tolist())))
    (w * 3).sum().backward()
    (w * w).sum().backward()
    torch.autograd.grad((w * 3).sum(), w)
    assert seen == [(True, [3.0, 3.0]), (True, [5.0, 5.0])]
    handle.remove()
    w.sum().backward()
    assert len(seen) == 2


def test_other_hooks_come_before():
    w, order = torch.ones(1, requires_grad=True), []
    w.register_post_accumulate_grad_hook(lambda p: order.append(("after", p.grad.item())))
    w.register_hook(lambda g: order.append(("before", g.item())) or g * 2)
    (w * 3).sum().backward()
    assert order == [("before", 3.0), ("after", 6.0)]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_in_the_backward_pass(compiled):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    twin.load_state_dict(model.state_dict())
    optimizers = {p: torch.optim.Adam([p], 0.1) for p in model.parameters()}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)
    whole = torch.optim.Adam(twin.parameters(), 0.1)

    def step(x):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    run = torch.compile(step) if compiled else step
    x = torch.randn(5, 3)
    for _ in range(4):
        loss = twin(x).square().mean()
        whole.zero_grad()
        loss.backward()
        whole.step()
        assert run(x).item() == pytest.approx(loss.item(), rel=1e-5)
    assert all(p.grad is None for p in model.parameters())
    for p, q in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(p, q)


def test_a_hook_that_comes_after_compilation_is_called():
    w, seen = torch.nn.Parameter(torch.ones(1)), []

    @torch.compile
    def step(x):
        loss = (w * x).sum()
        loss.backward()
        return loss

    step(torch.ones(1))
    w.register_post_accumulate_grad_hook(lambda p: seen.append(1))
    step(torch.ones(1))
    assert seen


def test_only_leaves_have_a_gradient_to_wait_for():
    w = torch.ones(1, requires_grad=True)
    for wrong in (w * 2, torch.ones(1)):
        with pytest.raises(RuntimeError):
            wrong.register_post_accumulate_grad_hook(print)


def test_prefixes_of_state_dicts():
    state = torch.nn.DataParallel(torch.nn.Linear(2, 1)).state_dict()
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    other = OrderedDict(a=1)
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(other, "module.")
    assert other == {"a": 1}


def test_lazy_names_under_inner_paths():
    from wengert.torch.nn.modules.lazy import LazyLinear, LazyModuleMixin

    from wengert.torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

    assert issubclass(LazyLinear, LazyModuleMixin)
    for made in (UninitializedParameter(), UninitializedBuffer()):
        assert is_lazy(made)
        made.materialize(3)
        assert (tuple(made.shape), is_lazy(made)) == ((3,), False)
