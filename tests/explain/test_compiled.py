"""Explanations of compiled functions: the answers are those of the function as it is written."""

from __future__ import annotations

import copy

import pytest

import wengert as wg
from wengert.execute.jit.jit import Jit


def entropy(p):
    logs = wg.log(p)  # here
    return (p * logs).sum()


def steep(x):
    return wg.sqrt(x * 0.0).sum()


def line_of(found) -> str:
    return found.source.text


@pytest.mark.parametrize("calls", [0, 6])
def test_a_birth_inside_a_compiled_function_is_found(calls: int) -> None:
    f = wg.jit(entropy)
    x = wg.tensor([0.5, 0.0])
    for _ in range(calls):
        f(x)
    born, plain = wg.explain.nonfinite(f, x), wg.explain.nonfinite(entropy, x)
    assert (born.op, born.phase, born.index, line_of(born)) == ("log", "forward", (1,), "wg.log(p)")
    assert str(born) == str(plain)


def test_a_birth_in_a_compiled_call_inside_another_function() -> None:
    f = wg.jit(entropy)
    born = wg.explain.nonfinite(lambda x: f(x) * 2.0, wg.tensor([0.5, 0.0]))
    assert (born.op, born.cause) == ("log", "the logarithm of 0")


@pytest.mark.parametrize("compiled", [lambda f: wg.jit(wg.grad(f)), lambda f: wg.grad(wg.jit(f))])
def test_a_birth_in_a_compiled_derivative(compiled) -> None:
    born = wg.explain.nonfinite(compiled(steep), wg.tensor([1.0, 4.0]))
    assert (born.op, born.phase) == ("sqrt", "backward")


def test_a_birth_in_a_compiled_training_step() -> None:
    wg.manual_seed(0)
    model = wg.nn.Linear(3, 1)
    opt = wg.optim.SGD(model.parameters(), lr=0.1)

    @wg.jit
    def step(x):
        opt.zero_grad()
        loss = wg.log(model(x)[:, 0] - 100.0).mean()
        loss.backward()
        opt.step()
        return loss

    born = wg.explain.nonfinite(step, wg.ones((4, 3)))
    assert (born.op, born.phase, born.cause) == ("log", "forward", "the logarithm of a negative number")


@pytest.mark.parametrize("freed", [False, True])
def test_a_result_of_compiled_code_is_taken_apart(freed: bool) -> None:
    f = wg.jit(entropy)
    w = wg.tensor([0.5, 0.0], requires_grad=True)
    loss = f(w * 1.0) * 2.0
    if freed:
        loss.backward()
    born = wg.explain.nonfinite(loss)
    assert (born.op, born.index, line_of(born)) == ("log", (1,), "wg.log(p)")
    assert [stop.op for stop in born.way] == ["multiply", "sum", "multiply"]


def test_a_gradient_of_compiled_code_is_taken_apart() -> None:
    f = wg.jit(steep)
    born = wg.explain.nonfinite(f(wg.tensor([1.0, 4.0], requires_grad=True)))
    assert (born.op, born.phase, line_of(born)) == ("sqrt", "backward", "wg.sqrt(x * 0.0)")


def test_several_results_of_compiled_code_are_taken_apart() -> None:
    f = wg.jit(lambda x: (x + 1.0, wg.log(x), x * 2.0))
    w = wg.tensor([1.0, 0.0], requires_grad=True)
    a, b, c = f(w)
    born = wg.explain.nonfinite((a * c + wg.exp(b) * b).sum())
    assert (born.op, born.index) == ("log", (1,))


def test_where_inputs_of_compiled_code_are_gone_it_is_said() -> None:
    f = wg.jit(lambda x: wg.log(x).sum())
    loss = f(wg.tensor([1.0, 0.0], requires_grad=True))
    loss.backward()
    with pytest.raises(wg.GradientError, match="inputs are gone"):
        wg.explain.nonfinite(loss)


def test_compiled_functions_are_compiled_again_afterwards() -> None:
    f = wg.jit(lambda x: wg.exp(x) * 2.0)
    x = wg.ones(3)
    for _ in range(4):
        f(x)
    traces, call = f.cache_info().traces, Jit.__dict__["__call__"]
    wg.explain.nonfinite(f, x)
    assert Jit.__dict__["__call__"] is call
    f(x)
    assert f.cache_info().traces == traces


def cosine(x):
    c = wg.cos(x)
    return (1.0 - c) / x**2


@pytest.mark.parametrize("inside", [False, True])
def test_the_precision_of_a_compiled_function_is_that_of_its_operations(inside: bool) -> None:
    compiled = wg.jit(cosine)
    f = (lambda x: compiled(x)) if inside else compiled
    found, plain = wg.explain.precision(f, 1e-3), wg.explain.precision(cosine, 1e-3)
    assert found.worst is not None
    assert (found.worst.op, line_of(found.worst)) == ("cos", "wg.cos(x)")
    assert found.digits == plain.digits
    assert found.exact == pytest.approx(0.5, rel=1e-6)


def test_the_precision_behind_a_result_of_compiled_code() -> None:
    y = wg.jit(cosine)(wg.tensor(1e-3, requires_grad=True))
    found = wg.explain.precision(lambda y: y * 3.0, y)
    assert found.worst is not None
    assert found.worst.op == "cos"
    assert found.exact == pytest.approx(1.5, rel=1e-6)


def test_the_cost_of_a_result_of_compiled_code_is_that_of_what_is_inside() -> None:
    def f(x, w):
        return wg.tanh(x @ w)

    x, w = wg.ones((8, 4)), wg.ones((4, 2), requires_grad=True)
    (found,) = wg.explain.cost(wg.jit(f)(x, w))
    assert (found.op, found.flops) == ("compiled", wg.explain.cost(wg.graph(f)(x, w)).flops)
    assert found.rule == "the sum of the 2 operations inside"


# -- why a gradient is missing


def test_a_cut_inside_a_compiled_function_is_found() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    why = wg.explain.missing(w, wg.jit(lambda: (w.detach() * 3.0).sum()))
    assert (why.cause, line_of(why)) == ("detached", "w.detach()")


def test_a_dead_relu_inside_compiled_code_is_found() -> None:
    w = wg.tensor([-1.0, -2.0], requires_grad=True)
    why = wg.explain.missing(w, wg.jit(lambda w: wg.relu(w * 1.0).sum())(w))
    assert (why.cause, why.op) == ("dead_relu", "relu")


COPIES = {
    "detach": lambda w: w.detach(),
    "detach_clone": lambda w: w.detach().clone(),
    "detach_leaf": lambda w: w.detach().requires_grad_(),
    "data": lambda w: w.data,
    "numpy": lambda w: wg.asarray(w.detach().numpy().copy()),
}


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
def test_a_detached_copy_is_no_other_tensor(make) -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    taken = make(w)
    why = wg.explain.missing(w, lambda: (taken * 3.0).sum())
    assert (why.cause, why.op, line_of(why)) == ("detached", "multiply", "taken * 3.0")
    assert "another tensor" not in str(why)


def test_a_detached_copy_in_a_graph_is_no_other_tensor() -> None:
    w, v = (wg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    for taken in (w.detach(), w.detach().clone()):
        why = wg.explain.missing(w, (taken * (v * v)).sum())
        assert (why.cause, why.op) == ("detached", "multiply")
    leaf = w.detach().requires_grad_()
    why = wg.explain.missing(w, (leaf * 3.0).sum())
    assert (why.cause, why.op) == ("detached", "multiply")


def test_a_tensor_of_its_own_with_the_same_values_is_another_one() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    other = copy.deepcopy(w)
    for loss in (lambda: (other * 3.0).sum(), (other * 3.0).sum()):
        assert wg.explain.missing(w, loss).cause == "copy"


def test_the_same_number_throughout_is_no_copy() -> None:
    bias = wg.zeros(4, requires_grad=True)
    start, w = wg.zeros(4), wg.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    assert wg.explain.missing(bias, lambda: (w * w + start).sum()).cause == "unused"
