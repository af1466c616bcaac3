"""Hooks that are called once a leaf's `.grad` is there, names around modules, and further names of PyTorch's."""

from collections import OrderedDict

import pytest

import wengert as wg
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


class Several(torch.autograd.Function):
    arrived = []  # noqa: RUF012

    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return 7, x * n, None, "text", x + 1

    @staticmethod
    def backward(ctx, *grads):
        Several.arrived.append([type(g).__name__ for g in grads])
        return grads[1] * ctx.n + grads[4], None

    @staticmethod
    def jvp(ctx, t, _):
        return None, t * ctx.n, None, None, t


def test_functions_that_return_more_than_tensors():
    x = torch.ones(2, requires_grad=True)
    out = Several.apply(x, 3)
    assert (out[0], out[2], out[3], out[1].tolist(), out[4].tolist()) == (7, None, "text", [3.0, 3.0], [2.0, 2.0])
    Several.arrived.clear()
    (out[1] * 2 + out[4]).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    assert Several.arrived == [["NoneType", "Tensor", "NoneType", "NoneType", "Tensor"]]
    gradient = torch.compile(lambda x: torch.autograd.grad(Several.apply(x, 3)[1].sum(), x)[0], fullgraph=True)
    assert gradient(x).tolist() == [3.0, 3.0]
    assert wg.vmap(lambda v: Several.apply(v, 3)[1])(torch.ones(3, 2)).tolist() == [[3.0, 3.0]] * 3
    assert wg.jvp(lambda v: Several.apply(v, 3)[1], (x.detach(),), (x.detach(),))[1].tolist() == [3.0, 3.0]
    with torch.no_grad():
        assert Several.apply(x, 3)[0] == 7


def test_functions_of_numbers_alone():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(n):
            return n * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.seen = inputs, output

        @staticmethod
        def backward(ctx, g):
            return None

    assert Doubled.apply(4) == 8


def test_levels_of_forward_mode():
    from wengert.torch.autograd import forward_ad

    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0
        with forward_ad.dual_level():
            assert forward_ad._current_level == 1
    assert forward_ad._current_level == -1


def test_made_tensors():
    make = torch.testing.make_tensor
    for dtype, low, high in ((torch.uint8, 0, 9), (torch.int64, -9, 9), (torch.float32, -9, 9), (torch.bool, 0, 1)):
        x = make((200,), dtype=dtype, device="cpu")
        assert x.dtype == dtype
        assert low <= x.double().min() < x.double().max() <= high
    z = make(2, 50, dtype=torch.complex64, device="cpu", low=0, high=1, requires_grad=True)
    assert z.requires_grad
    assert 0 <= z.real.min() < z.imag.max() < 1
    assert make(500, dtype=torch.int8, device="cpu", exclude_zero=True).abs().min() == 1
    assert make(2, 3, dtype=torch.float64, device="cpu", noncontiguous=True).shape == (2, 3)
    for wrong in ({"low": 2, "high": 1}, {"requires_grad": True}):
        with pytest.raises(ValueError, match=r"make_tensor|integral"):
            make(2, dtype=torch.int32, device="cpu", **wrong)


def test_counts_of_successes_and_numbers_around():
    generators = (torch.Generator().manual_seed(3) for _ in range(2))
    first, second = (torch.binomial(torch.full((20,), 9.0), torch.full((20,), 0.5), g) for g in generators)
    assert torch.equal(first, second)
    assert 0 <= first.min() < first.max() <= 9
    assert torch.binomial(torch.tensor([5.0, 5.0]), torch.tensor([0.0, 1.0])).tolist() == [0.0, 5.0]
    assert torch.constant_pad_nd(torch.ones(2), (1, 1), 2.0).tolist() == [2.0, 1.0, 1.0, 2.0]
