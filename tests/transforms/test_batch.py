"""`vmap` over the whole table."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import batchchecks
import wengert as wg
from opchecks import OPS, calls


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind != "source"])
def test_vmap(name: str) -> None:
    for call in calls(OPS[name]):
        batchchecks.check_vmap(OPS[name], call)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.differentiable])
def test_vmap_of_vjp(name: str) -> None:
    for call in calls(OPS[name]):
        batchchecks.check_vmap_of_vjp(OPS[name], call)


def test_examples_of_their_own_random_numbers_are_drawn_again_in_the_backward_pass() -> None:
    def masked(x):
        return wg.nn.functional.dropout(x, 0.5).sum()

    wg.manual_seed(3)
    x = wg.ones(4, 50)
    out, pull = wg.vjp(wg.vmap(lambda x: wg.nn.functional.dropout(x, 0.5), randomness="different"), x)
    (g,) = pull(wg.ones(4, 50))
    np.testing.assert_array_equal(g.numpy(), out.numpy())
    rows = {tuple(row) for row in out.numpy().tolist()}
    assert len(rows) == 4
    same = wg.vmap(lambda x: wg.nn.functional.dropout(x, 0.5), randomness="same")(x).numpy()
    assert len({tuple(row) for row in same.tolist()}) == 1
    each = wg.vmap(wg.grad(masked), randomness="different")(x).numpy()
    assert set(np.unique(each)) == {0.0, 2.0}
    assert len({tuple(row) for row in each.tolist()}) == 4


DRAWS = {
    "rand": lambda *shape: wg.rand(*shape, 3),
    "randn": lambda *shape: wg.randn(*shape, 3, dtype="float32"),
    "randint": lambda *shape: wg.randint(0, 100, (*shape, 3)),
    "bernoulli": lambda *shape: wg.random.bernoulli(0.3, (*shape, 7)),
    "gamma": lambda *shape: wg.random.gamma(wg.full((*shape, 3), 0.7)),
    "multinomial": lambda *shape: wg.random.multinomial(wg.ones(prod(shape), 5), 4, True).reshape((*shape, 4)),
    "categorical": lambda *shape: wg.random.categorical(wg.ones(*shape, 5)),
    "dropout": lambda *shape: wg.nn.functional.dropout(wg.ones(*shape, 9), 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_different_random_numbers_are_those_of_one_draw_for_the_whole_batch(name: str) -> None:
    draw, x = DRAWS[name], wg.zeros(4)
    mapped = wg.vmap(lambda _: draw(), randomness="different")
    nested = wg.vmap(lambda _: wg.vmap(lambda _: draw(), randomness="different")(wg.zeros(3)), randomness="different")
    for f, want in ((mapped, lambda: draw(4)), (wg.jit(mapped), lambda: draw(4)), (nested, lambda: draw(4, 3))):
        wg.manual_seed(3)
        found = f(x)
        wg.manual_seed(3)
        np.testing.assert_allclose(found.numpy(), want().numpy(), rtol=1e-5)


def test_draws_of_examples_do_not_overlap() -> None:
    def draw(_: wg.Tensor) -> tuple[wg.Tensor, ...]:
        inner = wg.vmap(lambda _: wg.rand(5, dtype=wg.float64), randomness="different")(wg.zeros(3))
        same = wg.vmap(lambda _: wg.rand(5, dtype=wg.float64), randomness="same")(wg.zeros(3))[0]
        return *(wg.rand(n, dtype=wg.float64) for n in (4, 5, 3)), inner.reshape(-1), same

    for f in (wg.vmap(draw, randomness="different"), wg.jit(wg.vmap(draw, randomness="different"))):
        found = np.concatenate([t.numpy().ravel() for t in (*f(wg.zeros(50)), wg.rand(100, dtype=wg.float64))])
        assert len(np.unique(found)) == len(found) == 50 * (4 + 5 + 15 + 5 + 3) + 100


def test_different_permutations_are_those_of_as_many_draws() -> None:
    wg.manual_seed(3)
    found = wg.vmap(lambda _: wg.random.permutation(10), randomness="different")(wg.zeros(4))
    wg.manual_seed(3)
    assert found.tolist() == [wg.random.permutation(10).tolist() for _ in range(4)]


def test_axes_in_and_out() -> None:
    x = wg.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(
        wg.vmap(lambda a: a.sum(axis=0), in_axes=1, out_axes=-1)(x).numpy(), x.numpy().sum(axis=0).T
    )
    np.testing.assert_array_equal(wg.vmap(lambda a: a, in_axes=2, out_axes=1)(x).numpy(), x.numpy().transpose(0, 2, 1))
    torch_style = wg.vmap(lambda a: a.sum(axis=0), in_dims=1, out_dims=-1)(x)
    np.testing.assert_array_equal(torch_style.numpy(), x.numpy().sum(axis=0).T)
    pytree = {"a": wg.ones(3), "b": [wg.arange(3.0), wg.tensor(2.0)]}
    out = wg.vmap(lambda p: (p["a"] + p["b"][0]) * p["b"][1], in_axes=({"a": 0, "b": [0, None]},))(pytree)
    np.testing.assert_array_equal(out.numpy(), [2.0, 4.0, 6.0])
    shared = wg.vmap(lambda a, b: (a, b * 2), in_axes=(0, None), out_axes=(0, None))(wg.ones(3), wg.tensor(4.0))
    assert shared[0].shape == (3,)
    assert shared[1].shape == ()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wg.vmap(lambda a, b: a + b)(wg.ones(2), wg.ones(3)), "different sizes: 2 .* and 3"),
        (lambda: wg.vmap(lambda a: a, in_axes=2)(wg.ones(2)), "axis 2 of a tensor f32"),
        (lambda: wg.vmap(lambda a: a, in_axes=None)(wg.ones(2)), "no argument is mapped"),
        (lambda: wg.vmap(lambda a: a)(2.0), "the number 2.0 has no axis 0"),
        (lambda: wg.vmap(lambda a: a, out_axes=3)(wg.ones(2)), "out_axes 3"),
        (lambda: wg.vmap(lambda a: a, out_axes=None)(wg.ones(2)), "differs between examples"),
        (lambda: wg.vmap(lambda a, b: a, in_axes=(0,))(wg.ones(2), 1), "in_axes has 1 entries for 2"),
        (lambda: wg.vmap(lambda a: a + wg.rand(2))(wg.ones(2, 2)), "draws random numbers"),
        (lambda: wg.vmap(lambda a: a if a > 0 else -a)(wg.ones(2)), "a branch on its truth needs the value"),
        (lambda: wg.vmap(lambda a: "x")(wg.ones(2)), "returned a str"),
    ],
)
def test_errors_say_what_is_wrong(call, text: str) -> None:
    with pytest.raises(wg.WengertError, match=text) as caught:
        call()
    assert "test_batch.py" in str(caught.value).splitlines()[0]


def test_no_examples_at_all() -> None:
    assert wg.vmap(lambda a: wg.sin(a) @ wg.ones(2))(wg.zeros(0, 2)).shape == (0,)
    assert wg.vmap(wg.grad(lambda a: (a**2).sum()))(wg.zeros(0, 2)).shape == (0, 2)


def test_inside_and_around_other_transforms() -> None:
    w, xs = wg.tensor([0.5, -1.0]), wg.tensor([[1.0, 2.0], [3.0, 4.0], [-1.0, 0.5]])

    def loss(w, x):
        return wg.tanh(w @ x) ** 2

    per = wg.vmap(wg.grad(loss), in_axes=(None, 0))(w, xs)
    np.testing.assert_allclose(per.numpy(), np.stack([wg.grad(loss)(w, xs[i]).numpy() for i in range(3)]), rtol=1e-6)
    assert not per.requires_grad
    whole = wg.grad(lambda w: wg.vmap(loss, in_axes=(None, 0))(w, xs).sum())(w)
    np.testing.assert_allclose(whole.numpy(), per.numpy().sum(0), rtol=1e-5)
    twice = wg.grad(lambda w: (wg.vmap(wg.grad(loss), in_axes=(None, 0))(w, xs) ** 2).sum())(w)
    looped = wg.grad(lambda w: sum(((wg.grad(loss)(w, xs[i]) ** 2).sum() for i in range(3)), wg.tensor(0.0)))(w)
    np.testing.assert_allclose(twice.numpy(), looped.numpy(), rtol=1e-5)
    forward = wg.vmap(lambda x: wg.jvp(lambda w: loss(w, x), (w,), (wg.ones(2),))[1])(xs)
    np.testing.assert_allclose(forward.numpy(), per.numpy().sum(1), rtol=1e-5)
    nested = wg.vmap(lambda x: wg.vmap(lambda y: x * y)(wg.arange(3.0)))(wg.arange(2.0))
    np.testing.assert_array_equal(nested.numpy(), np.outer([0, 1], [0, 1, 2]))


def test_gradients_flow_to_tensors_used_from_outside() -> None:
    w = wg.tensor(2.0, requires_grad=True)
    wg.vmap(lambda x: wg.sin(w) * x)(wg.tensor([1.0, 3.0])).sum().backward()
    np.testing.assert_allclose(w.grad.item(), 4 * np.cos(2.0), rtol=1e-6)


def test_what_does_not_depend_on_the_example_runs_once() -> None:
    drawn = wg.graph(lambda x: wg.vmap(lambda a: a + wg.exp(wg.sin(x.sum())))(x))(wg.spec((5,)))
    assert [n.spec.shape for n in drawn.find("exp")] == [()]


def test_per_example_gradients_of_a_module() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.Tanh(), wg.nn.Linear(4, 1))
    xs = wg.randn(5, 3)
    grads = wg.vmap(wg.grad(lambda m, x: (m(x) ** 2).sum()), in_axes=(None, 0))(model, xs)
    for i in range(5):
        one = wg.grad(lambda m, i=i: (m(xs[i]) ** 2).sum())(model)
        for a, b in zip(wg.tree.leaves(grads), wg.tree.leaves(one), strict=True):
            np.testing.assert_allclose(a[i].detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)
