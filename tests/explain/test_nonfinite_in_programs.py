"""`wg.explain.nonfinite` on programs with loops, transforms, rules of the user's own and library functions inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from nonfinite_corpus import Corpus, Program, f32
from wengert import nn
from wengert.distributions import Bernoulli, Categorical, Gamma, Uniform

CORPUS = Corpus()
program = CORPUS.program


# -- loops and choices, as Python and as nodes


@program(f32(3.0, 1.0), op="exp", cause="overflow")
def scan_of_values(x):
    def body(c, v):
        c = wg.exp(c * v)  # here
        return c, c

    return wg.scan(body, wg.tensor(1.0), wg.tile(x, (6,)))[1].sum()


@program(f32(3.0, 1.0), op="exp", cause="overflow")
def scan_in_a_graph(x):
    def run(x):
        def body(c, v):
            c = wg.exp(c * v)  # here
            return c, c

        return wg.scan(body, wg.tensor(1.0), wg.tile(x, (6,)))[1].sum()

    return wg.graph(run)(wg.spec((2,)))(x)


@program(f32(3.0, 1.0), op="exp", cause="overflow")
def scan_in_a_graph_without_gradients(x):
    def run(x):
        def body(c, v):
            c = wg.exp(c * v)  # here
            return c, c

        return wg.scan(body, wg.tensor(1.0), wg.tile(x, (6,)))[1].sum()

    with wg.no_grad():
        return wg.graph(run)(wg.spec((2,)))(x)


@program(f32(1.0, 0.0), op="log", cause="logarithm of 0")
def graph_run_by_the_scheduler(x):
    def run(x):
        return wg.log(x).sum()  # here

    return wg.graph(run)(wg.spec((2,))).run([x.detach()])


@program(f32(1.0, 0.0), op="log", cause="logarithm of 0")
def static_function(x):
    fed = wg.placeholder((2,), name="fed")
    out = wg.log(fed).sum()  # here
    return wg.function([fed], out)(x.detach().numpy())


@program(f32(2.0), op="divide", cause="division by 0")
def while_in_a_graph(x):
    def run(x):
        def step(state):
            k, v = state
            return k - 1, v / (k * 1.0)  # here

        return wg.while_loop(lambda s: s[0] > -2, step, (wg.tensor(3), x))[1].sum()

    return wg.graph(run)(wg.spec((1,)))(x)


@program(f32(2.0), op="divide", cause="division by 0")
def while_in_a_graph_without_gradients(x):
    def run(x):
        def step(state):
            k, v = state
            return k - 1, v / (k * 1.0)  # here

        return wg.while_loop(lambda s: s[0] > -2, step, (wg.tensor(3), x))[1].sum()

    with wg.no_grad():
        return wg.graph(run)(wg.spec((1,)))(x)


@program(f32(0.0, 1.0), op="log", cause="logarithm of 0")
def branch_of_a_cond(x):
    def run(x):
        return wg.cond(
            x.sum() > 0.5,
            lambda v: wg.log(v).sum(),  # here
            lambda v: v.sum(),
            x,
        )

    return wg.graph(run)(wg.spec((2,)))(x)


@program(f32(0.0, 1.0), op="sqrt", phase="backward", cause="sqrt at 0")
def gradient_of_a_scan(x):
    def run(x):
        def body(c, v):
            return c + wg.sqrt(v), c  # here

        return wg.scan(body, wg.tensor(0.0), x)[0]

    return wg.graph(run)(wg.spec((2,)))(x)


@program(f32(0.0, 1.0), op="sqrt", phase="backward", cause="sqrt at 0")
def traced_gradient_of_a_scan(x):
    def run(x):
        def body(c, v):
            return c + wg.sqrt(v), c  # here

        return wg.scan(body, wg.tensor(0.0), x)[0]

    return wg.graph(wg.grad(run))(wg.spec((2,)))(x).sum()


@program(f32(1.0, 0.0), op="divide", cause="division by 0")
def mapped_over_rows(x):
    return wg.map(lambda v: 1.0 / v, x).sum()  # here


@program(f32(1.0), op="multiply", cause="overflow")
def state_that_grows(w):
    h = wg.ones(3)
    for _ in range(200):
        h = h * (w * 2.0)  # here
    return h.sum()


@program(f32(0.5), op="pow", cause="overflow of a power")
def newton_that_diverges(x):
    for _ in range(8):
        x = x - (x**3 - 2.0) * 1e6 * x  # here
    return x.sum()


@program(f32(1.0, 1.0), op="divide", cause="0 / 0")
def newton_at_a_double_root(x):
    def f(v):
        return (v - 1.0) ** 2

    for _ in range(2):
        x = x - f(x) / wg.grad(lambda v: f(v).sum())(x)  # here
    return x.sum()


# -- transforms


@program(f32(0.0, 4.0), op="sqrt", phase="backward", cause="sqrt at 0")
def tangent(x):
    return wg.jvp(wg.sqrt, (x,), (wg.ones(2),))[1].sum()  # here


@program(f32(0.0, 4.0), op="log", cause="logarithm of 0")
def inside_vmap(x):
    def one(v):
        return wg.log(v) * 2.0  # here

    return wg.vmap(one)(x).sum()


@program(f32(0.0, 4.0), op="sqrt", phase="backward", cause="sqrt at 0")
def gradient_inside_vmap(x):
    def one(v):
        return wg.sqrt(v) * 2.0  # here

    return wg.vmap(wg.grad(one))(x).sum()


@program(f32(1.0, 0.0), op="sqrt", phase="backward", cause="sqrt at 0")
def scan_inside_vmap(x):
    def run(x):
        def body(c, v):
            return c + wg.sqrt(v), c  # here

        return wg.scan(body, wg.tensor(0.0), x)[0]

    return wg.vmap(run)(wg.stack([x, x])).sum()


@program(f32(0.0, 1.0), op="pow", phase="backward", order=2)
def hessian_of_a_power(x):
    return wg.hessian(lambda v: (v**1.5).sum())(x).sum()  # here


@program(f32(1.0, 0.0), op="pow", phase="backward", order=2)
def tangent_of_a_gradient(x):
    def f(v):
        return (v**1.5).sum()  # here

    return wg.jvp(wg.grad(f), (x,), (wg.ones(2),))[1].sum()


@program(f32(0.0, 0.0), op="sqrt", phase="backward", order=2, cause="overflow")
def hessian_product_of_a_norm(x):
    def f(v):
        return wg.sqrt(v * v + 1e-40).sum() + (v**3).sum()  # here

    return wg.hvp(f, (x,), (wg.ones(2),))[1].sum()


@program(f32(0.0, 2.0), op="sqrt", phase="backward", cause="sqrt at 0")
def graph_of_a_gradient(x):
    def f(v):
        return wg.sqrt(v).sum()  # here

    return wg.graph(wg.grad(f))(wg.spec((2,)))(x).sum()


@program(f32(0.0, 1.0), op="sqrt", phase="backward", cause="sqrt at 0")
def checkpointed(x):
    @wg.checkpoint
    def layer(v):
        return wg.sqrt(v * 2.0) * 3.0  # here

    return layer(x).sum()


@program(f32(1.0, 0.0), op="sqrt", phase="backward", cause="sqrt at 0")
def checkpointed_module(x):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2, bias=False)

        def forward(self, v):
            return wg.sqrt(self.inner(v) * 0.0)  # here

    return wg.checkpoint(Block())(x).sum()


@program(f32(0.0, 1.0), op="divide", phase="backward", cause="division by 0")
def own_cotangent_rule(x):
    double = wg.custom_vjp(lambda x: x * 2.0)
    double.defvjp(
        lambda x: (x * 2.0, x),
        lambda x, ct: (ct / x,),  # here
    )
    return double(x).sum()


@program(f32(0.0, 1.0), op="divide", phase="backward", cause="slope of a quotient")
def own_tangent_rule(x):
    size = wg.custom_jvp(wg.abs)

    @size.defjvp
    def rule(primals, tangents):
        return wg.abs(primals[0]), tangents[0] * primals[0] / wg.abs(primals[0])  # here

    return size(x).sum()


# -- linear algebra, special functions, distributions, norms


@program(wg.eye(2), op="eigh", phase="backward", cause="eigenvalues that are equal")
def repeated_eigenvalues(a):
    found = wg.linalg.eigh(a)  # here
    return (found.eigenvectors * wg.asarray([[1.0, 2.0], [3.0, 4.0]])).sum()


@program(wg.eye(2), op="svd", phase="backward", cause="singular values that are equal")
def repeated_singular_values(a):
    found = wg.linalg.svd(a)  # here
    return (found.U * wg.asarray([[1.0, 2.0], [3.0, 4.0]])).sum()


@program(wg.tensor([[1.0, 0.0], [0.0, 1e-40]]), op="inv", cause="singular")
def nearly_singular(a):
    return wg.linalg.inv(a).sum()  # here


@program(f32(0.0, -1.0), op="lgamma", cause="pole")
def pole_of_the_gamma_function(x):
    return wg.special.lgamma(x).sum()  # here


@program(f32(1.0, 0.0), op="xlogx", phase="backward", cause="x log")
def slope_of_an_entropy(x):
    return wg.special.entr(x).sum()  # here


@program(f32(0.0, 0.5), op="xlogy", cause="times the logarithm of 0")
def bernoulli_that_is_certain(p):
    return Bernoulli(p).log_prob(wg.asarray([1.0, 0.0])).sum()  # here


@program(f32(1.0, 0.0), op="xlogy", cause="times the logarithm of 0")
def gamma_at_its_boundary(x):
    return Gamma(2.0, 1.0).log_prob(x).sum()  # here


@program(f32(1.0, 0.0), op="where", cause="an infinity that the program writes")
def uniform_outside_its_support(x):
    return Uniform(wg.zeros(2), wg.ones(2)).log_prob(x * 2).sum()  # here


@program(wg.tensor([[0.5, 0.5], [1.0, 0.0]]), op="log", cause="logarithm of 0")
def category_without_probability(p):
    return Categorical(probs=p).log_prob(wg.asarray([0, 1])).sum()  # here


@program(wg.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 3.0]]), op="layer_norm", cause="deviation of a row is 0")
def constant_row(x):
    return (wg.nn.functional.layer_norm(x, (3,), eps=0.0) ** 2).sum()  # here


@program(f32(1.0, 2.0), op="layer_norm", cause="deviation of a row is 0")
def constant_group(x):
    return (wg.nn.functional.group_norm(wg.ones((1, 2, 3)) * x.reshape(1, 2, 1), 2, eps=0.0) * 2.0).sum()  # here


@program(f32(1.0, 2.0), op="batch_norm", cause="deviation of a channel is 0")
def constant_channel(x):
    return nn.BatchNorm1d(2, eps=0.0)(wg.ones((4, 2)) * x).sum()  # here


@program(wg.tensor([[0.0, 0.0], [1.0, 2.0]]), op="divide", cause="0 / 0")
def cosine_of_a_zero_row(x):
    lengths = wg.sqrt((x * x).sum(axis=1, keepdims=True))
    return (x / lengths).sum()  # here


@program(f32(0.0, 0.0), op="atan2", phase="backward", cause="atan2 at (0, 0)")
def angle_of_the_origin(x):
    return wg.atan2(x[1:], x[1:] * 2.0).sum()  # here


# -- dtypes, results, updates


@program(f32(300.0, 1.0), op="var", cause="overflow of a square")
def variance_in_float16(x):
    return wg.var(x.astype(wg.float16) * 100.0)  # here


@program(f32(60000.0, 60000.0), op="sum", cause="overflow")
def sum_in_float16(x):
    return wg.sum(x.astype(wg.float16))  # here


@program(f32(1.0, 2.0), op="divide", cause="division by 0")
def quotient_of_integers(x):
    share = 4 / wg.asarray([0, 2])  # here
    return (x * share).sum()


@program(f32(1.0, 0.0), op="log", cause="logarithm of 0")
def complex_logarithm(x):
    return wg.real(wg.log(x + 0j)).sum()  # here


@program(f32(0.0, 0.0), op="sqrt", phase="backward", cause="sqrt at 0")
def complex_root(x):
    return wg.abs(wg.sqrt(x + 1j * x)).sum()  # here


@program(f32(2.0, 0.0), op="divide", cause="0 / 0")
def mean_over_an_empty_mask(x):
    mask = x > 10.0
    return (x * mask).sum() / mask.sum()  # here


@program({"a": wg.tensor([1.0, 0.0]), "b": (wg.tensor(2.0),)}, op="divide", cause="division by 0")
def pytrees(d):
    return {"out": [d["b"][0] / d["a"]]}  # here


@program(f32(1.0, 0.0), op="exp", cause="overflow")
def one_of_two_results(x):
    big = wg.exp(x * 100.0)  # here
    return x.sum(), big.sum()


@program(f32(0.0, 2.0), op="log", cause="logarithm of 0")
def nothing_returned(x):
    logs = wg.log(x)  # here
    logs.sum().backward()


@program(op="update", phase="update", cause="the step times a finite gradient")
def steps_too_long():
    w = nn.Parameter(wg.tensor([1.0, 2.0]))
    opt = wg.optim.SGD([w], lr=1e38)
    for _ in range(3):
        opt.zero_grad()
        loss = (w * w).sum()  # here
        loss.backward()
        opt.step()
    return loss


def marked_line(fn: Callable[..., Any]) -> int:
    lines, start = inspect.getsourcelines(fn)
    return next(start + i for i, line in enumerate(lines) if "# here" in line)


@pytest.mark.parametrize("case", CORPUS, ids=lambda p: p.name)
def test_corpus(case: Program) -> None:
    born = wg.explain.nonfinite(case.fn, *case.args)
    assert born, "nothing was found"
    assert (born.op, born.phase, born.order, born.line) == (case.op, case.phase, case.order, marked_line(case.fn)), born
    assert case.cause in born.cause
    assert "src/wengert" not in str(born)


def test_a_computed_loss_with_loops_choices_and_checkpoints() -> None:
    x = wg.tensor([0.0, 1.0], requires_grad=True)
    for fn in (gradient_of_a_scan, checkpointed, complex_root):
        loss = fn(x)
        born = wg.explain.nonfinite(loss)
        assert (born.op, born.phase) == ("sqrt", "backward"), fn.__name__
        loss.backward()
        assert wg.explain.nonfinite(loss).op == "sqrt"


def test_after_backward_what_cannot_be_computed_again_is_said() -> None:
    x = wg.tensor([0.0, 1.0], requires_grad=True)
    loss = own_cotangent_rule(x)
    assert wg.explain.nonfinite(loss).cause == "division by 0"
    loss.backward()
    with pytest.raises(wg.GradientError, match="saved values were freed"):
        wg.explain.nonfinite(loss)
    gone = (wg.tensor([-1.0], requires_grad=True) * 2.0).sum()
    gone = wg.sqrt(gone * gone)
    gone.backward()
    with pytest.raises(wg.GradientError, match="a leaf that they were computed from is gone"):
        wg.explain.nonfinite(gone)


def test_data_that_are_nan_and_a_model_that_is_gone() -> None:
    x = wg.tensor([[1.0, float("nan")], [0.0, 1.0]], requires_grad=True)
    assert wg.explain.nonfinite(nn.Linear(2, 2)(x).sum())
    born = wg.explain.nonfinite(lambda x: nn.Linear(2, 2)(x).sum(), x)
    assert (born.phase, born.op, born.index) == ("input", "x", (0, 1))


def test_an_operation_that_refuses_nan() -> None:
    def f(a: Any) -> Any:
        logs = wg.log(a)  # here
        return wg.linalg.eigh(logs - logs).eigenvalues.sum()

    born = wg.explain.nonfinite(f, wg.eye(2))
    assert (born.op, born.line) == ("log", marked_line(f))
    with pytest.raises(ZeroDivisionError):
        wg.explain.nonfinite(lambda x: x * (1 // 0), wg.ones(2))


def test_finite_programs_have_no_answer() -> None:
    def masked(q: Any) -> Any:
        rows = wg.asarray([[False, False], [True, True]])
        return (wg.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=rows) ** 2).sum()

    assert not wg.explain.nonfinite(masked, wg.ones((1, 1, 2, 2)))
    assert not wg.explain.nonfinite(lambda x: wg.linalg.vector_norm(x), wg.zeros(3))
    assert not wg.explain.nonfinite(lambda x: wg.mean(x.astype(wg.float16)), f32(60000.0, 60000.0))


def test_control_flow_is_the_same_while_it_is_observed() -> None:
    def run(x: Any) -> Any:
        c, ys = wg.scan(lambda c, v: (c * v, c + v), wg.tensor(1.0), x)
        return wg.cond(c > 0, lambda: ys.sum(), lambda: ys.sum() * 2.0)

    g, x = wg.graph(run)(wg.spec((3,))), f32(1.0, 2.0, -3.0)
    seen: list[Any] = []

    def kept(x: Any) -> Any:
        with wg.no_grad():
            seen.append(g(x).numpy())
        return g(x)

    wg.explain.nonfinite(kept, x)
    np.testing.assert_array_equal(seen[0], g(x).numpy())
