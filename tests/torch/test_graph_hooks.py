"""Hooks of the backward pass's steps, places in the graph, and what is kept for the pass."""

import io

import pytest

import wengert.torch as torch
from wengert.core.errors import GradientError

nn = torch.nn

# -- hooks of steps of the backward pass


def test_hooks_of_a_step_come_after_those_of_its_tensor():
    log = []
    a = torch.tensor(2.0, requires_grad=True)
    b = a.exp()
    b.grad_fn.register_prehook(lambda gs: log.append("step") or tuple(g * 2 for g in gs))
    b.register_hook(lambda g: log.append("tensor") or g * 3)
    b.grad_fn.register_hook(lambda gi, go: log.append("after") or tuple(g + go[0] for g in gi))
    leaf = b.grad_fn.next_functions[0][0]
    leaf.register_prehook(lambda gs: log.append("leaf") or (gs[0] + 1,))
    leaf.register_hook(lambda gi, go: log.append(("after leaf", len(gi))))
    a.register_post_accumulate_grad_hook(lambda t: log.append("grad"))
    (b * 5).backward(retain_graph=True)
    assert log == ["tensor", "step", "after", "leaf", "grad", ("after leaf", 0)]
    assert a.grad.item() == pytest.approx(5 * 6 * b.item() + 5 * 6 + 1)
    log.clear()
    torch.autograd.grad(b * 5, b)  # the step itself is not done
    assert log == ["tensor"]


def test_a_hook_of_a_step_ends_and_other_counts_are_refused():
    a = torch.ones(2, requires_grad=True)
    b = a * 2
    handle = b.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    handle.remove()
    b.sum().backward(retain_graph=True)
    assert a.grad.tolist() == [2.0, 2.0]
    b.grad_fn.register_prehook(lambda gs: (gs[0], gs[0]))
    with pytest.raises(GradientError, match="2 gradients for 1"):
        b.sum().backward()


def test_hooks_of_a_step_with_several_results():
    x = torch.arange(6.0).requires_grad_()
    values, _ = x.reshape(2, 3).sort(dim=1)
    seen = []
    values.grad_fn.register_prehook(lambda gs: seen.append([g is not None for g in gs]))
    (values * torch.arange(3.0)).sum().backward()
    assert seen
    assert x.grad.tolist() == [0.0, 1.0, 2.0] * 2


def test_a_step_is_one_object_with_a_dict():
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    y.grad_fn.metadata["mine"] = 3
    assert y.grad_fn is y.grad_fn
    assert y.clone().grad_fn.next_functions[0][0].metadata == {"mine": 3}
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    assert type(y.grad_fn).__name__ == "MultiplyBackward"
    assert y.grad_fn.next_functions[0][0].variable is x


def test_gradients_at_edges():
    x = torch.tensor([1.0, 2.0], requires_grad=True).clone()
    edge = torch.autograd.graph.get_gradient_edge(x)
    x *= 3
    old, new = torch.autograd.grad(x.sum(), (edge, x))
    assert [old.tolist(), new.tolist()] == [[3.0, 3.0], [1.0, 1.0]]
    a, b = torch.ones(4, requires_grad=True).chunk(2)
    made = torch.autograd.graph.GradientEdge(b.grad_fn, b.output_nr)
    assert torch.autograd.grad((a * 2 + b * 5).sum(), made)[0].tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="does not require"):
        torch.autograd.graph.get_gradient_edge(torch.ones(1))


def test_a_hook_of_several_gradients_waits_for_those_of_this_pass():
    a, b, c = (torch.ones(1, requires_grad=True) for _ in range(3))
    seen = []
    handle = torch.autograd.graph.register_multi_grad_hook(
        (a, b, c), lambda gs: seen.append([None if g is None else g.item() for g in gs])
    )
    (a * 2 + b * 3).backward()
    (a * 2 + b * 3 + c * 4).backward()
    assert seen == [[2.0, 3.0, None], [2.0, 3.0, 4.0]]
    handle.remove()
    (a * 2).backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="'all' or 'any'"):
        torch.autograd.graph.register_multi_grad_hook((a,), print, mode="some")


def test_a_hook_after_accumulation_may_write_to_its_tensor():
    w = torch.ones(2, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda t: print(t.sub_(t.grad, alpha=0.5), file=io.StringIO()))
    (w * 2).sum().backward()
    assert w.tolist() == [0.0, 0.0]
    w.register_post_accumulate_grad_hook(lambda t: t)
    with pytest.raises(RuntimeError, match="return None"):
        w.sum().backward()


def test_hooks_of_a_module_see_the_first_derivative_alone():
    x, loss, seen = torch.ones(1, requires_grad=True), nn.MSELoss(), []
    loss.register_full_backward_hook(lambda m, gi, go: seen.append(1))
    (gradient,) = torch.autograd.grad(loss(x, torch.zeros(1)), x, create_graph=True)
    assert torch.autograd.grad(gradient, x)[0].tolist() == [2.0]
    assert seen == [1]


# -- what is kept for the backward pass


def test_what_is_kept_goes_through_the_programs_functions():
    graph = torch.autograd.graph
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    packed = []
    with graph.saved_tensors_hooks(lambda t: packed.append(t) or t * 2, lambda t: t):
        y = x * x
        z = y.exp()
        with graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
            w = z.sin()
    assert len(packed) == 3
    assert all(not t.requires_grad for t in packed)
    assert torch.equal(y.grad_fn._saved_self, 2 * x)
    assert torch.allclose(torch.autograd.grad(w.sum(), z, retain_graph=True)[0], z.cos())
    (g,) = torch.autograd.grad(z.sum(), x)
    assert torch.allclose(g, 2 * z * 4 * x)
    v = (x * x).sum()
    assert torch.equal(torch.autograd.grad(v, x)[0], 2 * x)


def test_second_derivatives_of_what_is_packed():
    x = torch.tensor(2.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x**3
        (g,) = torch.autograd.grad(y, x, create_graph=True)
    assert torch.autograd.grad(g, x)[0].item() == 12.0


def test_errors_of_packing():
    graph = torch.autograd.graph
    x = torch.ones(2, requires_grad=True)

    def broken(t):
        raise KeyError("mine")

    with graph.saved_tensors_hooks(broken, lambda t: t), pytest.raises(KeyError, match="mine"):
        x.sin()
    for unpack, what in ((broken, "mine"), (lambda t: 3, "an? int|tensor"), (lambda t: t[:1], "unpack_hook gave")):
        with graph.saved_tensors_hooks(lambda t: t, unpack):
            y = x.sin()
        with pytest.raises(Exception, match=what):
            y.sum().backward()
    hooks, disabled = graph.saved_tensors_hooks(lambda t: t, lambda t: t), graph.disable_saved_tensors_hooks("not here")
    with disabled, pytest.raises(RuntimeError, match="not here"):
        hooks.__enter__()
    with hooks, pytest.raises(RuntimeError, match="nor here"):
        graph.disable_saved_tensors_hooks("nor here").__enter__()


def test_functions_are_called_at_the_end_of_a_pass():
    engine, seen = torch.autograd.Variable._execution_engine, []
    x = torch.ones(2, requires_grad=True)

    def last():
        seen.append(("last", x.grad.tolist()))

    def first():
        seen.append("first")
        engine.queue_callback(last)

    y = x * 2
    y.register_hook(lambda g: engine.queue_callback(first))
    y.sum().backward()
    assert seen == ["first", ("last", [2.0, 2.0])]
    z = x * 2
    z.register_hook(lambda g: engine.queue_callback(lambda: seen.append("grad")))
    torch.autograd.grad(z.sum(), x)
    assert seen[-1] == "grad"
    with pytest.raises(RuntimeError, match="outside of a backward pass"):
        engine.queue_callback(last)
