"""`wg.explain.nonfinite` finds the op, the line and the phase in a corpus of programs that go wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from nonfinite_corpus import Corpus, Program, f32

CORPUS = Corpus()
program = CORPUS.program


@program(f32(0.5, 0.0, 0.5), op="log", cause="logarithm of 0")
def entropy_by_hand(p):
    logs = wg.log(p)  # here
    return -(p * logs).sum()


@program(f32(1.0, -2.0), op="log", cause="negative")
def log_of_a_negative(x):
    y = x * 2.0
    return wg.log(y).mean()  # here


@program(f32(0.0, 1.0), f32(0.0, 2.0), op="divide", cause="0 / 0")
def zero_by_zero(x, y):
    return (x / y).sum()  # here


@program(f32(1.0), f32(0.0), op="divide", cause="division by 0")
def one_by_zero(x, y):
    ratio = x / y  # here
    return (ratio * 2.0 - 1.0).sum()


@program(f32(200.0, 1.0), op="exp", cause="overflow")
def zero_times_infinity(x):
    big = wg.exp(x)  # here
    gate = wg.relu(-x)
    return (big * gate).sum()


@program(f32(1000.0, 1.0), op="exp", cause="overflow")
def softmax_by_hand(x):
    e = wg.exp(x)  # here
    return (e / e.sum())[0]


@program(f32(0.0, 4.0), op="sqrt", phase="backward", cause="sqrt at 0")
def root_at_zero(x):
    return wg.sqrt(x).sum()  # here


@program(f32(0.0, 4.0), op="divide", phase="backward")
def masked_by_product(x):
    y = (x * 0.0) / x.detach().abs().clip(1e-40, None)  # here
    return (y * 1e30).sum()


@program(f32(0.0, 4.0), op="sqrt", phase="backward")
def mask_by_multiplication(x):
    keep = wg.asarray([0.0, 1.0])
    y = wg.sqrt(x)  # here
    return (keep * y).sum()


@program(f32(0.0, 0.0, 0.0), op="sqrt", phase="backward")
def norm_at_zero(x):
    squares = (x * x).sum()
    return wg.sqrt(squares)  # here


@program(f32(3.0), op="var", cause="too few")
def variance_of_one(x):
    spread = wg.var(x, correction=1)  # here
    return (x / (spread + 1.0)).sum()


@program(f32(2.0, 2.0, 2.0), op="sqrt", phase="backward")
def deviation_of_equals(x):
    spread = wg.var(x)
    return (x / (wg.sqrt(spread) + 1e-3)).sum()  # here


@program(f32(0.0), op="pow", phase="backward", order=2)
def second_order_of_a_power(x):
    slope = wg.grad(lambda v: (v**1.5).sum())(x)  # here
    return slope.sum()


@program(f32(60000.0, 1.0), op="add", cause="overflow")
def overflow_in_float16(x):
    h = x.astype(wg.float16)
    return (h + h).sum()  # here


@program(f32(70000.0), op="cast", cause="narrower")
def cast_to_float16(x):
    h = x.astype(wg.float16)  # here
    return h.sum() * 2.0


@program(f32(1e30), op="multiply", cause="overflow")
def overflow_in_float32(x):
    y = x * x  # here
    return (y - 1.0).sum()


@program(f32(1e30, 2.0), op="multiply", cause="overflow")
def infinity_minus_infinity(x):
    a = x * 1e20  # here
    b = x * 1e25
    return (b - a).sum()


@program(f32(0.3, 1.0000001), op="acos", cause="beyond 1")
def acos_beyond_one(x):
    return wg.acos(x).sum()  # here


@program(f32(1.0, float("nan"), 2.0), op="x", phase="input")
def bad_data(x):
    y = x * 3.0  # here
    return y.sum()


@program(f32(1.0), op="multiply", cause="overflow")
def diverging_steps(x):
    for _ in range(200):
        x = x - 1000.0 * (2.0 * x)  # here
    return x.sum()


class Head(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = wg.nn.Parameter(wg.zeros(2))

    def forward(self, x):
        return x / self.scale  # here


class Model(wg.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x):
        return self.head(x * 2.0).sum()


CORPUS.append(Program("inside_a_module", Model(), (f32(1.0, 2.0),), "divide", "forward"))


@program(f32(0.0, 1.0), op="log")
def in_a_detached_part(x):
    weight = wg.log(x.detach())  # here
    return (x * weight).sum()


@program(f32(0.0, 1.0), op="log")
def under_no_grad(x):
    with wg.no_grad():
        weight = wg.log(x)  # here
    return (x * weight).sum()


@program(f32(1.0, 0.5), op="update", phase="update", cause="beyond the range")
def training_that_diverges(start):
    w = wg.tensor([1.0, 0.5], requires_grad=True)
    opt = wg.optim.SGD([w], lr=1e12)
    for _ in range(8):
        opt.zero_grad()
        loss = (w * w).sum()  # here
        loss.backward()
        opt.step()
    return loss * start.sum()


@program(f32(1.0, 1.0), op="sqrt", phase="backward")
def training_with_a_bad_gradient(start):
    w = wg.tensor([0.0, 0.5], requires_grad=True)
    opt = wg.optim.SGD([w], lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        root = wg.sqrt(w)  # here
        loss = (root * start).sum()
        loss.backward()
        opt.step()
    return (w * w).sum()


@program(wg.tensor([1.5707963267948966], dtype=wg.float64), op="tan", phase="backward")
def tangent_at_its_pole(x):
    return wg.tan(x).sum() * 1e290  # here


@program(f32(0.0, 1.0), f32(0.0, 1.0), op="atan2", phase="backward")
def angle_of_the_origin(y, x):
    return wg.atan2(y, x).sum()  # here


@program(wg.tensor([[0.0, 1.0], [2.0, 3.0]]), op="subtract", cause="infinity minus an infinity")
def row_masked_whole(x):
    mask = wg.asarray([[False, False], [True, True]])
    scores = wg.where(mask, x, -float("inf"))
    shifted = scores - wg.max(scores, axis=-1, keepdims=True)  # here
    return wg.log(wg.exp(shifted).sum(axis=-1)).sum()


@program(wg.tensor([[0.0, 1.0], [2.0, 3.0]]), op="softmax", cause="row")
def attention_row_masked_whole(x):
    mask = wg.asarray([[-float("inf"), -float("inf")], [0.0, 0.0]])
    scores = x + mask
    return wg.softmax(scores, axis=-1).sum()  # here


@program(f32(-1.0, 2.0), f32(0.0, 1.0), op="divide", cause="division by 0")
def the_branch_that_was_chosen(x, y):
    other = wg.log(x)
    chosen = 1.0 / y  # here
    return wg.where(x < 0, chosen, other).sum()


@program(wg.ones((1, 2, 3, 4)), op="attention", cause="overflow")
def attention_that_overflows(x):
    q = x * 1e30
    return wg.nn.functional.scaled_dot_product_attention(q, q, q).sum()  # here


@program(f32(1.0), op="divide", cause="tiny")
def tiny_denominator(x):
    return (x / wg.asarray([1e-40])).sum()  # here


@program(f32(*[1e5] * 9), op="cumulative_prod", cause="product")
def cumulative_product(x):
    growth = wg.cumulative_prod(x)  # here
    return wg.log(growth).sum()


@program(f32(*[1e5] * 9), op="prod", cause="product")
def product(x):
    return wg.log(wg.prod(x))  # here


@program(f32(0.0, 1.0), op="divide", phase="backward", cause="division by 0")
def custom_function(x):
    class Inverse(wg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return wg.reciprocal(x + 1.0)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g / x  # here

    return Inverse.apply(x).sum()


@program(f32(-1000.0), op="exp", phase="backward")
def sigmoid_by_hand(x):
    e = wg.exp(-x)  # here
    return (1.0 / (1.0 + e)).sum()


@program(f32(0.0, 1.0), op="sqrt", phase="backward", order=1)
def second_order_of_a_norm(x):
    slope = wg.grad(lambda v: wg.sqrt((v * v).sum() * 1e-46))(x)  # here
    return slope.sum()


@program(f32(1.0, 2.0), f32(0.0, 1.0), op="log")
def where_does_not_help_the_value(x, y):
    logs = wg.log(y)  # here
    picked = wg.where(x > 0, logs, 0.0)
    return picked.sum()


def marked_line(fn: Callable[..., Any]) -> int:
    target: Any = Head.forward if isinstance(fn, wg.nn.Module) else fn
    lines, start = inspect.getsourcelines(target)
    return next(start + i for i, line in enumerate(lines) if "# here" in line)


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 30
    assert len({p.name for p in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("case", CORPUS, ids=lambda p: p.name)
def test_corpus(case: Program) -> None:
    born = wg.explain.nonfinite(case.fn, *case.args)
    assert born, "nothing was found"
    assert (born.op, born.phase, born.order, born.line) == (case.op, case.phase, case.order, marked_line(case.fn)), born
    assert case.cause in born.cause


def test_a_tensor_is_asked_by_its_recorded_graph() -> None:
    x = wg.tensor([0.5, 0.0, 0.5], requires_grad=True)
    loss = entropy_by_hand(x)
    line = marked_line(entropy_by_hand)
    born = wg.explain.nonfinite(loss)
    assert (born.op, born.phase, born.line, born.index, born.operands[0].number) == ("log", "forward", line, (1,), 0.0)
    assert [s.op for s in born.way] == ["multiply", "sum", "negative"]
    loss.backward()  # frees what was saved: it is computed again
    assert wg.explain.nonfinite(loss).line == line


def test_a_tensors_backward_pass() -> None:
    x = wg.tensor([0.0, 4.0], requires_grad=True)
    loss = root_at_zero(x)
    born = wg.explain.nonfinite(loss)
    assert (born.op, born.phase, born.index, born.line) == ("sqrt", "backward", (0,), marked_line(root_at_zero))
    assert x.grad is None
    loss.backward()
    assert wg.explain.nonfinite(loss).op == "sqrt"
    with pytest.raises(wg.GradientError, match="second time"):
        loss.backward()


def test_all_is_finite() -> None:
    good = wg.explain.nonfinite(lambda x: wg.sqrt(x).sum(), f32(1.0, 2.0))
    assert not good
    assert str(good) == "every value and every gradient is finite"
    x = wg.tensor([1.0], requires_grad=True)
    assert not wg.explain.nonfinite((x * 2.0).sum())
    assert not wg.explain.nonfinite(wg.tensor([1.0]))


def test_infinities_that_come_to_nothing_are_not_reported() -> None:
    def masked(x: Any) -> Any:
        scores = wg.where(wg.asarray([True, False]), x, -float("inf"))
        return (wg.softmax(scores) * wg.asarray([1.0, 2.0])).sum()

    assert not wg.explain.nonfinite(masked, f32(1.0, 2.0))
    assert not wg.explain.nonfinite(lambda x: wg.where(x > 0, wg.log(x), 0.0).sum(), f32(0.0, 1.0))


def test_only_what_is_picked_matters() -> None:
    def f(x: Any) -> Any:
        a = wg.log(x)
        b = a[2:] * 2.0
        return wg.reshape(b, (2, 1)).sum()

    assert not wg.explain.nonfinite(f, f32(0.0, 1.0, 2.0, 3.0))
    born = wg.explain.nonfinite(f, f32(0.0, 1.0, -2.0, 0.0))
    assert (born.op, born.index, born.operands[0].number) == ("log", (2,), -2.0)


@pytest.mark.parametrize("dtype", [wg.float16, wg.float32, wg.float64, wg.complex64])
def test_dtypes(dtype: Any) -> None:
    born = wg.explain.nonfinite(lambda x: wg.abs(wg.log(x)).sum(), wg.zeros((2, 3), dtype=dtype))
    assert (born.op, born.index, born.phase) == ("log", (0, 0), "forward")


def test_bfloat16_empty_and_scalar_tensors() -> None:
    born = wg.explain.nonfinite(lambda x: wg.log(x), wg.tensor(0.0))
    assert (born.op, born.index, born.operands[0].number) == ("log", (), 0.0)
    assert not wg.explain.nonfinite(lambda x: wg.log(x).sum(), wg.zeros((0, 3)))
    pytest.importorskip("ml_dtypes")
    assert wg.explain.nonfinite(lambda x: wg.log(x).sum(), wg.zeros(2, dtype=wg.bfloat16)).op == "log"


def test_observation_ends() -> None:
    forwards = {name: op.forward for name, op in wg.core.ops.op.TABLE.items()}
    methods = {name: method(name) for name in ("detach", "item", "__getitem__", "__setitem__", "data")}
    wg.explain.nonfinite(entropy_by_hand, f32(0.0))
    with pytest.raises(ZeroDivisionError):
        wg.explain.nonfinite(lambda x: 1 // 0, f32(0.0))
    assert {name: op.forward for name, op in wg.core.ops.op.TABLE.items()} == forwards
    assert {name: method(name) for name in methods} == methods
    assert wg.exp.__globals__["forward"] is np.exp


def method(name: str) -> Any:
    return wg.Tensor.__dict__[name]


def test_every_operation_is_seen() -> None:
    from wengert.explain.observing.events import observed

    with observed() as seen:
        x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
        results = [x @ x, wg.where(x > 1.0, x, 0.0), x[0], x[wg.asarray([1, 0])], x.sum(), wg.softmax(x), x * 2.0]
        y = x.clone()
        y[0] = 5.0
        results.append(y)
    made = {id(step.out) for step in seen.steps}
    assert all(id(t._array) in made for t in results)


def test_inside_a_graph_that_is_called() -> None:
    made = wg.graph(entropy_by_hand)(wg.spec((2,)))
    line = marked_line(entropy_by_hand)
    for fn in (made, lambda x: made(x) * 2.0):
        born = wg.explain.nonfinite(fn, f32(0.5, 0.0))
        assert (born.op, born.phase, born.line, born.operands[0].number) == ("log", "forward", line, 0.0)
    slope = wg.graph(root_at_zero)(wg.spec((2,)))
    born = wg.explain.nonfinite(slope, f32(0.0, 1.0))
    assert (born.op, born.phase, born.line) == ("sqrt", "backward", marked_line(root_at_zero))


def test_what_is_not_a_tensor_or_a_function() -> None:
    with pytest.raises(wg.DTypeError, match="nonfinite of a float"):
        wg.explain.nonfinite(3.0)


def test_the_text_says_it() -> None:
    text = str(wg.explain.nonfinite(entropy_by_hand, f32(0.5, 0.0)))
    assert "-inf was born in the forward pass: the logarithm of 0" in text
    assert f"log at {__file__}:{marked_line(entropy_by_hand)}: wg.log(p)" in text
    assert "x[1] = 0" in text
    assert "instead: " in text
    assert "then multiply" in text
