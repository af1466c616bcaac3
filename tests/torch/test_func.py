"""Transforms of functions of `wengert.torch`, against values recorded from PyTorch 2.13."""

import copy

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
import wengert.torch.functorch.experimental as experimental
from torch_calls import inputs, recorded
from torch_comparing import check

_F = "lambda v, w: (v * w).sum() * v.exp().sum()"
_G = "lambda v, w: (v * w, v.sum() * w)"
CALLS = [
    "torch.vmap(lambda v: (v * row).sum())(p), torch.func.vmap(torch.dot, in_dims=(0, None))(p, row)",
    "torch.vmap(lambda v, w: v @ w, in_dims=(1, None), out_dims=1)(p, q[:, :2])",
    "torch.vmap(lambda v, w: v * w.sum(), chunk_size=2)(p, q), torch.vmap(torch.vmap(torch.dot))(x, y)",
    "torch.vmap(lambda d: d['a'] * d['b'].sum(), in_dims=({'a': 0, 'b': None},))({'a': p, 'b': row})",
    "torch.vmap(lambda v, w: (v + w, v), in_dims=(0, 1), out_dims=(0, 1), chunk_size=3)(p, q.mT)",
    "torch.func.grad(lambda v: (v ** 3).sum())(row), torch.func.grad(" + _F + ", argnums=(0, 1))(row, p[0])",
    "torch.func.grad_and_value(lambda v: ((v ** 3).sum(), v * 2), has_aux=True)(row)",
    "torch.func.grad_and_value(lambda v: (v ** 3).sum())(row)",
    "torch.vmap(torch.func.grad(lambda w, v: (w * v).sum() ** 2), in_dims=(None, 0))(row, p)",
    "(lambda r: (r[0], r[1]((row, row)), r[2]))(torch.func.vjp(lambda v, w: ((v * w, v.sum() * w), v), row, row * 2, has_aux=True))",  # noqa: E501
    "(lambda r: (r[0], r[1](row)))(torch.func.vjp(torch.sin, row))",
    "torch.func.jvp(torch.cos, (row,), (row,)), torch.func.jvp(lambda v: (v, v * 2), (row,), (row,), has_aux=True)",
    "torch.func.jacrev(lambda v: v.cos() * v.sum())(row), torch.func.jacfwd(lambda v: v.cos() * v.sum())(row)",
    "torch.func.jacrev("
    + _G
    + ", argnums=(0, 1))(row, p[0]), torch.func.jacfwd(lambda v: (v.sin(), v), has_aux=True)(row)",
    "torch.func.jacrev(lambda v: v.cos() * v.sum(), chunk_size=2)(row), torch.func.hessian(lambda v: (v ** 3).sum() * v[0])(row)",  # noqa: E501
    "(lambda r: (r[0], r[1](row)))(torch.func.linearize(torch.sin, row.detach()))",
    "torch.func.functionalize(torch.sin)(row)",
    "torch.autograd.functional.jacobian(torch.exp, row, create_graph=True), torch.autograd.functional.jacobian(torch.exp, (row,))",  # noqa: E501
    "torch.autograd.functional.jacobian("
    + _G
    + ", (row, p[0])), torch.autograd.functional.jacobian("
    + _G
    + ", (row.detach(), p[0].detach()), vectorize=True, strategy='forward-mode')",
    "torch.autograd.functional.hessian("
    + _F
    + ", (row, p[0]), create_graph=True), torch.autograd.functional.hessian(lambda v: v.exp().sum(), row)",
    "torch.autograd.functional.vjp("
    + _G
    + ", (row, p[0]), (row, row)), torch.autograd.functional.vjp(lambda v: v.sum(), row)",
    "torch.autograd.functional.jvp("
    + _G
    + ", (row, p[0]), (row, row)), torch.autograd.functional.jvp(torch.sin, row, row, create_graph=True)",
    "torch.autograd.functional.hvp("
    + _F
    + ", (row, p[0]), (row, row)), torch.autograd.functional.hvp(lambda v: v.exp().sum(), row, row)",
    "torch.autograd.functional.vhp("
    + _F
    + ", (row, p[0]), (row, row)), torch.autograd.functional.vhp(lambda v: v.exp().sum(), row, row)",
]
RECORDED = recorded("func")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


def _network(seed: int) -> torch.nn.Module:
    rng = np.random.default_rng(seed)
    made = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.tensor(rng.normal(size=tuple(p.shape)).astype(np.float32)))
    return made.eval()


def test_functional_call_leaves_the_module_alone():
    first, second = _network(0), _network(1)
    x = torch.ones(2, 3)
    before, wanted = first(x), second(x)
    given = {**dict(second.named_parameters()), **dict(second.named_buffers())}
    assert torch.equal(torch.func.functional_call(first, given, (x,)), wanted)
    assert torch.equal(torch.func.functional_call(first, (dict(second.named_parameters()),), x), wanted)
    assert torch.equal(first(x), before)
    with pytest.raises(KeyError):
        torch.func.functional_call(first, {"nothing": x}, x)
    with pytest.raises(KeyError):
        torch.func.functional_call(first, {"0.bias": torch.ones(4)}, x, strict=True)
    with pytest.raises(ValueError, match="boom"):
        torch.func.functional_call(Raises(), {}, x)
    assert torch.equal(first(x), before)


class Raises(torch.nn.Module):
    """A module that does not work."""

    def forward(self, x):
        raise ValueError("boom")


def test_a_shared_parameter_is_replaced_under_all_its_names():
    class Tied(torch.nn.Module):
        def forward(self, x):
            return self.b(self.a(x))

    tied = Tied()
    tied.a = torch.nn.Linear(2, 2, bias=False)
    tied.b = torch.nn.Linear(2, 2, bias=False)
    tied.b.weight = tied.a.weight
    out = torch.func.functional_call(tied, {"a.weight": torch.eye(2) * 3}, torch.ones(1, 2))
    assert out.tolist() == [[9.0, 9.0]]


def test_gradients_for_each_example_and_an_ensemble():
    model, x = _network(0), torch.tensor(np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32))
    parameters = dict(model.named_parameters())

    def loss(given, v):
        return torch.func.functional_call(model, given, (v,)).pow(2).mean()

    each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x[:, None])
    for i in range(5):
        model.zero_grad()
        model(x[i : i + 1]).pow(2).mean().backward()
        np.testing.assert_allclose(
            each["0.weight"][i].detach().numpy(), parameters["0.weight"].grad.numpy(), rtol=1e-4, atol=1e-5
        )
    models = [_network(i) for i in range(3)]
    stacked, buffers = torch.func.stack_module_state(models)
    assert stacked["0.weight"].is_leaf
    assert stacked["0.weight"].requires_grad
    base = copy.deepcopy(models[0])
    call = torch.vmap(lambda p, b, v: torch.func.functional_call(base, (p, b), (v,)), in_dims=(0, 0, None))
    found = call(stacked, buffers, x)
    np.testing.assert_allclose(found.detach().numpy(), torch.stack([m(x) for m in models]).detach().numpy(), rtol=1e-5)


def test_random_numbers_inside_vmap():
    def noisy(v):
        return v + torch.rand(2)

    x = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="random"):
        torch.vmap(noisy)(x)
    same = torch.vmap(noisy, randomness="same")(x)
    assert bool((same == same[0]).all())
    different = torch.vmap(noisy, randomness="different")(x)
    assert not bool((different == different[0]).all())


@pytest.mark.parametrize("compiled", [False, True])
def test_the_same_numbers_are_drawn_for_each_chunk_of_examples(compiled: bool) -> None:
    f = torch.vmap(lambda v: v + torch.rand(2), randomness="same", chunk_size=2)
    found = (torch.compile(f) if compiled else f)(torch.zeros(5, 2))
    assert bool((found == found[0]).all())
    assert not bool((f(torch.zeros(5, 2)) == found).any())


PARAMETRIC = {
    "normal": lambda v: torch.normal(v, 1.0),
    "normal std": lambda v: torch.normal(0.0, v),
    "bernoulli": lambda v: torch.bernoulli(v),
    "bernoulli_": lambda v: torch.zeros_like(v).bernoulli_(v),
    "poisson": lambda v: torch.poisson(v * 4),
    "binomial": lambda v: torch.binomial(torch.full_like(v, 9.0), v),
    "multinomial": lambda v: torch.multinomial(v, 3, True),
    "gamma": lambda v: torch._standard_gamma(v + 1),
    "dirichlet": lambda v: torch._sample_dirichlet(v + 1),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_examples_that_draw_the_same_have_the_same_parameters(name: str) -> None:
    draw, x = PARAMETRIC[name], torch.tensor([[0.25, 0.5], [0.75, 0.5], [0.5, 0.5]])
    for varied in (lambda v: draw(v), lambda v: torch.vmap(lambda _: draw(v), randomness="different")(x)):
        with pytest.raises(ValueError, match="parameters that differ"):
            torch.vmap(varied, randomness="same")(x)
    for f in (lambda v: v[:1] + draw(x[0]), lambda v: v[:1] + torch.vmap(draw, randomness="different")(x)[0]):
        found = torch.vmap(f, randomness="same")(x) - x[:, :1]
        assert bool(torch.isclose(found, found[0]).all())
    torch.manual_seed(0)
    found = torch.vmap(draw, randomness="different")(x)
    torch.manual_seed(0)
    assert found.tolist() == draw(x).tolist()


def test_functional_results_have_no_history_unless_asked():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not torch.autograd.functional.jacobian(torch.exp, x).requires_grad
    assert torch.autograd.functional.jacobian(torch.exp, x, create_graph=True).requires_grad
    with torch.no_grad():
        assert torch.autograd.functional.jacobian(torch.exp, x).diagonal().tolist() == x.exp().tolist()
    with pytest.raises(RuntimeError, match="does not depend"):
        torch.autograd.functional.jacobian(lambda v: torch.ones(2), x, strict=True)
    with pytest.raises(RuntimeError):
        torch.autograd.functional.hessian(torch.exp, x)


def test_transforms_compile():
    p = inputs(torch, grad=False)["p"]
    compiled = wg.jit(torch.vmap(torch.func.grad(lambda v: (v**3).sum())))
    for _ in range(6):
        out = compiled(p)
    assert type(out) is torch.Tensor
    np.testing.assert_allclose(out.numpy(), 3 * p.numpy() ** 2, rtol=1e-12)


def test_the_function_of_vjp_gives_a_tuple_for_every_number_of_arguments() -> None:
    v = torch.tensor([1.0, 2.0])
    _, pull = torch.func.vjp(lambda p: (p * p).sum(), v)
    (found,) = pull(torch.tensor(2.0))
    assert found.tolist() == [4.0, 8.0]
    _, pull = torch.func.vjp(lambda p: (p["a"] * p["b"]).sum(), {"a": v, "b": 3 * v})
    (nest,) = pull(torch.tensor(1.0))
    assert (nest["a"].tolist(), nest["b"].tolist()) == ([3.0, 6.0], [1.0, 2.0])
    _, pull, aux = torch.func.vjp(lambda p, q: ((p * q).sum(), q), v, v, has_aux=True)
    assert [g.tolist() for g in pull(torch.tensor(1.0))] == [[1.0, 2.0], [1.0, 2.0]]
    assert aux.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_what_is_only_drawn_in_vmap_is_of_the_namespace(randomness: str) -> None:
    draw = lambda v: (torch.randn(3), {"n": torch.randint(0, 5, (2,))}, torch.rand(2) + 1, torch.zeros(2), v)
    for f in (lambda x: torch.vmap(draw, randomness=randomness)(x),):
        first, nest, more, zeros, same = f(torch.zeros(4, 2))
        for found in (first, nest["n"], more, zeros, same):
            assert type(found) is torch.Tensor
            assert found.shape[0] == 4
        assert first.max(1).values.shape == (4,)
        assert float(first.std()) == pytest.approx(float(np.std(first.numpy(), ddof=1)), rel=1e-5)


def test_functional_call_carries_gradients_of_gradients() -> None:
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.copy_(torch.tensor([0.5]))
    x = torch.tensor([[1.0, 3.0]])
    loss = lambda p: (torch.func.functional_call(model, p, (x,)) ** 3).sum()
    params = dict(model.named_parameters())
    grads = torch.func.grad(loss)(params)
    assert all(g.requires_grad for g in grads.values())
    loss({k: p - 0.01 * grads[k] for k, p in params.items()}).backward()
    # y = w x + b = 7.5; the inner step moves it by -0.03 y**2 (1 + 1 + 9).
    y, reach = 7.5, 11.0
    slope = 3 * (y - 0.03 * reach * y**2) ** 2 * (1 - 0.06 * reach * y)
    assert float(model.bias.grad) == pytest.approx(slope, rel=1e-5)
    assert model.weight.grad.tolist() == [pytest.approx([slope, 3 * slope], rel=1e-5)]


DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


@pytest.mark.parametrize("name", DROPOUTS)
@pytest.mark.parametrize("constant", [True, False])
def test_dropout_of_examples(name, constant):
    def drop(x):
        axes = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5}.get(name, 3)
        given = torch.ones((3, 8, *(2,) * (axes - 2))) if constant else x.reshape((3, 8, *(2,) * (axes - 2)))
        return getattr(torch.nn.functional, name)(given, training=True).flatten()

    sizes = {"dropout2d": 96, "dropout3d": 192}
    x = torch.ones(4, sizes.get(name, 48))
    same = torch.func.vmap(drop, randomness="same")(x)
    assert (same == same[0]).all()
    other = torch.func.vmap(drop, randomness="different")(x)
    assert not any((other[0] == row).all() for row in other[1:])
    with pytest.raises(Exception, match="random numbers"):
        torch.func.vmap(drop)(x)
    compiled = torch.compile(drop, fullgraph=True)
    assert not (compiled(x[0]) == compiled(x[0])).all()


def test_what_transforms_refuse():
    f, x = (lambda a, b: (a * b).sum()), torch.ones(2)
    for name in ("grad", "grad_and_value", "jacrev", "jacfwd"):
        for argnums in ((0, 0), (1, -1), 2, -3, (), [0], 1.0, "0", (True,)):
            with pytest.raises(ValueError, match="argnums"):
                getattr(torch.func, name)(f, argnums)(x, x)
    with pytest.raises(ValueError, match="same python structure"):
        torch.func.jvp(lambda a: a["x"], ({"x": x},), ([x],))
    models = [torch.nn.Linear(1, 1) for _ in range(2)]
    models[0].bias.requires_grad_(False)
    with pytest.raises(RuntimeError, match="bias is frozen"):
        torch.func.stack_module_state(models)
    models[0].bias.requires_grad_()
    models[1].eval()
    with pytest.raises(RuntimeError, match="train"):
        torch.func.stack_module_state(models)


def test_gradients_in_parameters_that_come_one_by_one():
    model = torch.nn.Linear(2, 1)
    found = torch.autograd.grad(model(torch.ones(1, 2)).sum(), model.parameters())
    assert [g.tolist() for g in found] == [[[1.0, 1.0]], [1.0]]
    with pytest.raises(RuntimeError, match="in no tensors"):
        torch.autograd.grad(model(torch.ones(1, 2)).sum(), [])


def test_modules_as_functions_of_their_parameters():
    functorch = torch.functorch
    layer = torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(layer, layer, torch.nn.BatchNorm1d(2))  # a layer that stands twice has one weight
    run, parameters, buffers = functorch.make_functional_with_buffers(model)
    assert [len(parameters), len(buffers)] == [4, 3]
    x = torch.randn(3, 2)
    assert torch.allclose(run(parameters, buffers, x), copy.deepcopy(model)(x))
    zeros = tuple(torch.zeros_like(p) for p in parameters)
    assert not run(zeros, buffers, x).any()
    alone, weights = functorch.make_functional(layer, disable_autograd_tracking=True)
    assert not any(w.requires_grad for w in weights)
    assert torch.equal(alone(weights, x), layer(x))
    with pytest.raises(RuntimeError, match="with_buffers"):
        functorch.make_functional(model)
    layers = [torch.nn.Linear(2, 1) for _ in range(3)]
    together, stacked, none = functorch.combine_state_for_ensemble(layers)
    with pytest.warns(FutureWarning, match=r"torch\.func\.vmap"):
        found = functorch.vmap(together, in_dims=(0, 0, None))(stacked, none, x)
    assert torch.allclose(found, torch.stack([m(x) for m in layers]))


@pytest.mark.parametrize("chunks", [1, 2, 5, 9])
def test_a_map_in_parts(chunks):
    x = torch.arange(5.0)
    assert experimental.chunk_vmap(lambda v: v * 2, chunks=chunks)(x).tolist() == (x * 2).tolist()


def test_functions_are_recorded_as_graphs():
    from wengert.torch.functorch import make_fx

    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    run = make_fx(torch.func.grad(lambda v: (v**3).sum()))(x)
    assert run(y).tolist() == (3 * y**2).tolist()
    assert "f32[2]" in str(run.graph)
    run = make_fx(lambda v, scale, flag: {"a": v * scale if flag else v, "b": [v]})(x, 2.0, True)
    assert {k: type(v) for k, v in run(y, 2.0, True).items()} == {"a": torch.Tensor, "b": list}
    assert run(y, 2.0, True)["a"].tolist() == [6.0, 10.0]
    with pytest.raises(ValueError, match="other arguments"):
        run(y, 3.0, True)
    _, pull = torch.func.vjp(torch.sin, x)
    assert make_fx(pull)(y, True, True)(x, True, True)[0].tolist() == pull(x)[0].tolist()


def test_paths_of_transforms_that_programs_import_from():
    from wengert.torch._functorch import apis, eager_transforms, make_functional, vmap

    assert apis.vmap is vmap.vmap is torch.func.vmap
    assert eager_transforms.jacrev is torch.func.jacrev
    assert eager_transforms._slice_argnums((1, [2], 3), (0, -2)) == (1, [2])
    x = torch.ones(5, 7, 2)
    weights, buffers, run, names, _ = make_functional.functional_init_with_buffers(_Normed, (5,))(4)
    assert [w.shape[0] for w in weights] == [5] * len(names)
    assert torch.vmap(run)(weights, buffers, (x,)).shape == (5, 7, 4)
    weights, run, _ = make_functional.functional_init(torch.nn.Linear)(2, 3)
    assert run(weights, x).shape == (5, 7, 3)


class _Normed(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.line, self.norm = torch.nn.Linear(2, width), torch.nn.BatchNorm1d(width)
        self.eval()

    def forward(self, x):
        return self.norm(self.line(x))
