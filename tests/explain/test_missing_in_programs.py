"""`wg.explain.missing` in loops, graphs, transforms, rules of the user's own, modules and training loops."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

Made = Callable[[Any, Any], Any]
CORPUS: list[tuple[Made, str, bool]] = []


def program(cause: str, zero: bool = False) -> Callable[[Made], Made]:
    """A loss of `w`, whose gradient is missing, and of `u`; the line that is to be found carries `# here`."""

    def register(fn: Made) -> Made:
        CORPUS.append((fn, cause, zero))
        return fn

    return register


@program("detached")
def scan_over_a_detached_sequence(w, u):
    return wg.scan(lambda c, v: (c + v, c), u.sum(), w.detach() * 2.0)[0]  # here


@program("left_graph")
def numbers_in_a_loop(w, u):
    total = 0.0
    for i in range(3):
        total = total + float(w[i])  # here
    return (u * total).sum()


@program("step_function", zero=True)
def rounding_in_a_graph(w, u):
    def run(a):
        return (wg.round(a) * 2.0).sum()  # here

    return wg.graph(run)(wg.spec((3,)))(w)


@program("dead_relu", zero=True)
def dead_in_a_scan_of_a_graph(w, u):
    def run(a):
        return wg.scan(lambda c, v: (wg.relu(c - v * 10.0), c), wg.tensor(0.0), a)[0]  # here

    return wg.graph(run)(wg.spec((3,)))(w)


@program("dead_relu", zero=True)
def dead_in_a_checkpoint(w, u):
    layer = wg.checkpoint(lambda v: wg.relu(v - 10.0) * 2.0)  # here
    return layer(w).sum()


@program("stop_gradient")
def closure_of_a_vmap(w, u):
    return wg.vmap(lambda v: v * wg.stop_gradient(w).sum())(u).sum()  # here


@program("no_grad")
def vmap_without_recording(w, u):
    with wg.no_grad():
        scale = wg.vmap(lambda v: v * w.sum())(wg.ones(3))  # here
    return (scale * u).sum()


@program("detached")
def branch_of_a_cond(w, u):
    return wg.cond(u.sum() > 100, lambda v: v.sum(), lambda v: (v.detach() * u).sum(), w)  # here


@program("detached")
def written_into_data(w, u):
    buffer = wg.zeros(3)
    buffer.data[0] = w.data[0]  # here
    return (buffer * u).sum()


@program("no_cotangent")
def own_rule_without_a_cotangent(w, u):
    product = wg.custom_vjp(lambda a, b: a * b)
    product.defvjp(lambda a, b: (a * b, b), lambda b, ct: (ct * b, None))
    return product(u, w * 3.0).sum()  # here


@program("zero_slope", zero=True)
def own_rule_that_gives_zero(w, u):
    class Nothing(wg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2.0

        @staticmethod
        def backward(ctx, g):
            return g * 0.0

    return Nothing.apply(w).sum() + u.sum()  # here


@program("detached")
def computed_value_made_a_parameter(w, u):
    made = nn.Parameter(w * 2.0)  # here
    return (made * u).sum()


@program("not_differentiable")
def index_by_argmax(w, u):
    k = w.argmax()  # here
    return u[k]


@program("cancelled", zero=True)
def difference_with_itself(w, u):
    y = (w * 2.0).sum()
    return y - y  # here


@program("cancelled", zero=True)
def imaginary_part_of_a_modulus(w, u):
    z = w + 1j * w  # here
    return wg.imag(wg.conj(z) * z).sum()


@program("not_selected", zero=True)
def nothing_of_it(w, u):
    return w[:0].sum()  # here


@program("saturated", zero=True)
def attention_that_is_certain(w, u):
    return (wg.softmax(w * 1000.0) * u).sum()  # here


@program("underflow", zero=True)
def many_small_slopes(w, u):
    h = w
    for _ in range(60):
        h = wg.sigmoid(h) * 0.01
    return h.sum()


@pytest.mark.parametrize(("fn", "cause", "zero"), CORPUS, ids=lambda p: getattr(p, "__name__", ""))
def test_corpus(fn: Made, cause: str, zero: bool) -> None:
    w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    u = wg.tensor([4.0, 5.0, 6.5], requires_grad=True)
    why = wg.explain.missing(w, fn, w, u)
    assert (why.cause, why.zero) == (cause, zero), why
    lines, start = inspect.getsourcelines(fn)
    marked = [start + i for i, line in enumerate(lines) if "# here" in line]
    assert not marked or why.line == marked[0], why
    assert not wg.explain.missing(u, lambda: (u * 2.0).sum())


def _data() -> Any:
    return wg.asarray(np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32))


def _model() -> Any:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


def test_frozen_shared_replaced_and_copied_parameters() -> None:
    model, x = _model(), _data()
    for p in model[0].parameters():
        p.requires_grad_(False)
    assert wg.explain.missing(model[0].weight, lambda: model(x).sum()).cause == "not_required"
    opt = wg.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(3, 1)
    found = wg.explain.missing(model[2].weight, lambda: model(x).sum(), optimizer=opt)
    assert found.cause == "not_in_optimizer"
    other = copy.deepcopy(model)
    assert wg.explain.missing(model[2].weight, lambda: other(x).sum()).cause == "copy"
    tied = nn.Linear(2, 3)
    tied.weight = model[0].weight
    model[0].weight.requires_grad_()
    assert not wg.explain.missing(model[0].weight, lambda: tied(x).sum())


def test_batch_norm_in_evaluation_has_gradients_and_embeddings_too() -> None:
    norm, rows = nn.BatchNorm1d(2), nn.Embedding(5, 3)
    norm.eval()
    assert not wg.explain.missing(norm.weight, lambda: norm(_data()).sum())
    assert not wg.explain.missing(rows.weight, lambda: rows(wg.asarray([0, 1])).sum())


def test_a_training_step_that_clears_the_gradient() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    opt = wg.optim.SGD([w], lr=0.1)

    def step() -> Any:
        opt.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    assert wg.explain.missing(w, step).cause == "cleared"
    assert wg.explain.missing(w, step()).cause == "cleared"


def test_a_rule_of_ones_own_after_backward() -> None:
    w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = own_rule_that_gives_zero(w, w.detach())
    assert wg.explain.missing(w, loss).cause == "zero_slope"
    loss.backward()
    with pytest.raises(wg.GradientError, match="missing of a result whose saved values were freed"):
        wg.explain.missing(w, loss)
