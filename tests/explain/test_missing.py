"""`wg.explain.missing` names the cause and the line in programs whose gradient is None or 0; `dead_units` counts."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.explain.gradients.missing import CAUSES


class Program(NamedTuple):
    """A function of the parameter; the line that is to be found carries the comment `# here`."""

    fn: Callable[..., Any]
    cause: str
    zero: bool
    values: tuple[float, ...]
    dtype: Any


CORPUS: list[Program] = []


def program(cause: str, zero: bool = False, values: tuple[float, ...] = (1.0, 2.0, 3.0), dtype: Any = None) -> Any:
    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        CORPUS.append(Program(fn, cause, zero, values, dtype))
        return fn

    return register


@program("unused")
def not_used(w):
    return (wg.tensor([1.0], requires_grad=True) * 2.0).sum()


@program("unused_result")
def used_for_something_else(w):
    (w * w).sum()  # here
    return (wg.tensor([1.0], requires_grad=True) * 2.0).sum()


@program("copy")
def a_copy_is_used(w):
    other = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    return (other * 2.0).sum()  # here


@program("detached")
def detached(w):
    frozen = w.detach()  # here
    return (frozen * 2.0).sum()


@program("detached")
def detached_in_the_middle(w):
    y = w * 2.0
    z = y.detach()  # here
    return (z * wg.tensor([1.0, 1.0, 1.0], requires_grad=True)).sum()


@program("detached")
def data(w):
    return (w.data * 2.0).sum()  # here


@program("stop_gradient")
def stopped(w):
    return (wg.stop_gradient(w) * 2.0).sum()  # here


@program("left_graph")
def through_numpy(w):
    array = np.exp(w.detach().numpy())  # here
    return wg.asarray(array).sum()


@program("left_graph")
def through_item(w):
    total = w.sum().item()  # here
    return wg.tensor([1.0], requires_grad=True) * total


@program("left_graph")
def through_tolist(w):
    numbers = w.tolist()  # here
    return wg.tensor(numbers).sum()


@program("left_graph")
def through_float(w):
    first = float(w[0])  # here
    return wg.tensor(first) * 2.0


@program("no_grad")
def under_no_grad(w):
    with wg.no_grad():
        y = w * 2.0  # here
    return y.sum()


@program("not_differentiable")
def cast_to_integers(w):
    counts = w.astype(wg.int64)  # here
    return counts.astype(wg.float32).sum()


@program("not_differentiable")
def argmax(w):
    best = wg.argmax(w)  # here
    return best.astype(wg.float32) * 2.0


@program("not_differentiable")
def comparison(w):
    hits = w > 1.5  # here
    return wg.where(hits, 1.0, 0.0).sum()


@program("step_function", zero=True)
def rounded(w):
    return wg.round(w).sum()  # here


@program("step_function", zero=True)
def floored(w):
    y = w * 3.0
    return (wg.floor(y) * 2.0).sum()  # here


@program("dead_relu", zero=True)
def dead_relu(w):
    return wg.relu(-w).sum()  # here


@program("saturated", zero=True, values=(200.0, 300.0))
def saturated_sigmoid(w):
    return wg.sigmoid(w).sum()  # here


@program("saturated", zero=True, values=(200.0, -300.0))
def saturated_tanh(w):
    return wg.tanh(w).sum()  # here


@program("clipped", zero=True)
def clipped(w):
    return wg.clip(w * 10.0, -1.0, 1.0).sum()  # here


@program("zero_factor", zero=True)
def multiplied_by_zero(w):
    coefficient = wg.zeros(3)
    return (w * coefficient).sum()  # here


@program("zero_factor", zero=True)
def zero_weights(w):
    return wg.matmul(w, wg.zeros((3, 2))).sum()  # here


@program("masked", zero=True)
def masked(w):
    return wg.where(w > 100.0, w, 0.0).sum()  # here


@program("overwritten", zero=True)
def overwritten(w):
    y = w * 2.0
    z = y.clone()
    z[:] = wg.tensor([1.0, 1.0, 1.0], requires_grad=True)  # here
    return z.sum()


@program("not_extreme", zero=True)
def never_the_largest(w):
    both = wg.concat([w, wg.asarray([99.0])])
    return wg.max(both)  # here


@program("not_selected", zero=True)
def not_picked(w):
    both = wg.concat([w, wg.asarray([99.0])]) * 2.0
    return both[3:].sum()  # here


@program("cancelled", zero=True)
def cancels(w):
    return (w * 2.0 - w * 2.0).sum()


@program("underflow", zero=True, dtype=wg.float16)
def underflows(w):
    small = w * 1e-5
    return (small * 1e-4).sum()  # underflows in the product of both


@program("zero_slope", zero=True, values=(0.0, 0.0))
def flat(w):
    return (w**2).sum()  # here


@program("no_cotangent")
def rule_that_gives_none(w):
    class Plain(wg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2.0

        @staticmethod
        def backward(ctx, g):
            return None

    return Plain.apply(w).sum()  # here


# Causes that tests of their own plant, below.
STATES = {
    "not_required",
    "required_too_late",
    "integer",
    "non_leaf",
    "no_backward",
    "cleared",
    "not_in_optimizer",
    "hook",
}


def marked_line(fn: Callable[..., Any]) -> int | None:
    lines, start = inspect.getsourcelines(fn)
    return next((start + i for i, line in enumerate(lines) if "# here" in line), None)


def test_the_corpus_is_large_enough() -> None:
    assert len({p.cause for p in CORPUS}) + len(STATES) >= 24
    assert {p.cause for p in CORPUS} | STATES == set(CAUSES) - {"present", "no_seed"}


@pytest.mark.parametrize("case", CORPUS, ids=lambda p: p.fn.__name__)
def test_corpus(case: Program) -> None:
    w = wg.tensor(list(case.values), dtype=case.dtype, requires_grad=True)
    why = wg.explain.missing(w, case.fn, w)
    assert (why.cause, why.zero) == (case.cause, case.zero), why
    line = marked_line(case.fn)
    if line is not None:
        assert why.line == line, why
    assert w.grad is None


@pytest.mark.parametrize(
    "case",
    [p for p in CORPUS if p.zero and p.cause != "overwritten"],
    ids=lambda p: p.fn.__name__,
)
def test_a_zero_is_found_in_a_computed_loss_too(case: Program) -> None:
    w = wg.tensor(list(case.values), dtype=case.dtype, requires_grad=True)
    loss = case.fn(w)
    for _ in range(2):  # before and after backward() has freed the graph
        why = wg.explain.missing(w, loss)
        assert (why.cause, why.zero) == (case.cause, True)
        if marked_line(case.fn) is not None:
            assert why.line == marked_line(case.fn)
        if w.grad is None:
            loss.backward()


def leaf() -> Any:
    return wg.tensor([1.0, 2.0], requires_grad=True)


def test_not_required() -> None:
    w = wg.tensor([1.0, 2.0])
    assert wg.explain.missing(w, lambda: (w * 2.0).sum()).cause == "not_required"
    assert wg.explain.missing(w).cause == "not_required"
    assert wg.explain.missing(w, (w * leaf()).sum()).cause == "not_required"


def test_required_too_late() -> None:
    w = wg.tensor([1.0, 2.0])

    def late() -> Any:
        y = w * 2.0
        w.requires_grad_()  # here
        return y.sum()

    why = wg.explain.missing(w, late)
    assert (why.cause, why.line) == ("required_too_late", marked_line(late))


def test_integer_parameter() -> None:
    assert wg.explain.missing(wg.tensor([1, 2])).cause == "integer"


def test_non_leaf() -> None:
    w = leaf()
    y = w * 2.0
    loss = y.sum()
    loss.backward()
    why = wg.explain.missing(y, loss)
    assert why.cause == "non_leaf"
    assert why.source is not None
    assert why.source.text == "w * 2.0"
    assert wg.explain.missing(y).cause == "non_leaf"
    kept = w * 3.0
    kept.retain_grad()
    kept.sum().backward()
    assert not wg.explain.missing(kept)


def test_backward_has_not_run_and_gradient_cleared() -> None:
    w = leaf()
    loss = (w * 2.0).sum()
    assert wg.explain.missing(w, loss).cause == "no_backward"
    assert wg.explain.missing(w).cause == "no_backward"
    loss.backward()
    assert wg.explain.missing(w, loss).cause == "present"
    assert not wg.explain.missing(w, loss)
    w.grad = None
    assert wg.explain.missing(w, loss).cause == "cleared"


def test_in_a_computed_loss() -> None:
    w, v = leaf(), wg.tensor([5.0, 5.0], requires_grad=True)
    assert wg.explain.missing(w, (v * 2.0).sum()).cause == "unused"
    frozen = w.detach() * v
    why = wg.explain.missing(w, frozen.sum())
    assert why.cause == "detached"
    assert why.source is not None
    assert why.source.text == "w.detach() * v"
    assert wg.explain.missing(w, wg.asarray(3.0)).cause == "unused"
    twin = copy.deepcopy(w)
    assert wg.explain.missing(w, (twin * 2.0).sum()).cause == "copy"


def test_not_in_the_optimizer() -> None:
    w, v = leaf(), leaf()
    opt = wg.optim.SGD([v], lr=0.1)
    assert wg.explain.missing(w, (w * 2.0).sum(), optimizer=opt).cause == "not_in_optimizer"
    assert wg.explain.missing(v, (v * 2.0).sum(), optimizer=opt).cause == "no_backward"


def test_a_hook_that_returns_zero() -> None:
    w = leaf()
    w.register_hook(lambda g: g * 0.0)
    loss = (w * 2.0).sum()
    loss.backward()
    assert wg.explain.missing(w, loss).cause == "hook"


def test_a_training_step_that_calls_backward_itself() -> None:
    w, v = leaf(), leaf()

    def step() -> None:
        loss = (wg.relu(-w) + v).sum()  # here
        loss.backward()

    why = wg.explain.missing(w, step)
    assert (why.cause, why.zero, why.line) == ("dead_relu", True, marked_line(step))
    assert not wg.explain.missing(v, step)


def test_a_module_whose_branch_is_off() -> None:
    class Net(wg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = wg.nn.Linear(2, 2)
            self.unused = wg.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.used(x)

    net = Net()
    x = wg.ones((3, 2))
    assert wg.explain.missing(net.unused.weight, lambda: net(x).sum()).cause == "unused"
    assert not wg.explain.missing(net.used.weight, lambda: net(x).sum())


def test_the_text() -> None:
    w = leaf()
    text = str(wg.explain.missing(w, lambda: wg.relu(-w).sum()))
    assert text.startswith("the gradient is 0: a dead ReLU")
    assert "wg.relu(-w)" in text
    with pytest.raises(wg.DTypeError, match="missing of a list"):
        wg.explain.missing([1.0])  # type: ignore[arg-type]


# -- dead units


class Net(wg.nn.Module):
    def __init__(self, activation: Any) -> None:
        super().__init__()
        self.hidden = wg.nn.Linear(3, 4)
        self.act = activation
        self.head = wg.nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.act(self.hidden(x)))


def net_with_bias(activation: Any, bias: list[float]) -> Net:
    wg.manual_seed(0)
    net = Net(activation)
    net.hidden.bias.data = wg.asarray(bias)
    return net


SAMPLES = np.random.default_rng(0).uniform(-1, 1, (32, 3)).astype(np.float32)


def test_dead_relus_by_module_path() -> None:
    net = net_with_bias(wg.nn.ReLU(), [0.0, -100.0, 0.0, -100.0])
    found = wg.explain.dead_units(net, SAMPLES)
    assert found
    assert found.samples == 32
    layer = found["act"]
    assert (layer.op, layer.kind, layer.dead, layer.fraction) == ("relu", "dead", (1, 3), 0.5)
    before = np.asarray((wg.asarray(SAMPLES) @ net.hidden.weight.T + net.hidden.bias).detach())
    np.testing.assert_allclose(layer.active, (before > 0).mean(axis=0))
    head = np.abs(np.asarray(net.head.weight.detach()).sum(axis=0))
    np.testing.assert_allclose(layer.gradient, (before > 0).mean(axis=0) * head, rtol=1e-5)
    assert all(p.grad is None for p in net.parameters())
    assert "2 of 4 dead" in str(found)
    assert "units 1, 3" in str(found)


@pytest.mark.parametrize(
    ("activation", "op", "kind"),
    [
        (wg.nn.Sigmoid(), "sigmoid", "saturated"),
        (wg.nn.Tanh(), "tanh", "saturated"),
        (wg.nn.ELU(), "elu", "saturated"),
        (wg.nn.SiLU(), "silu", "dead"),
        (wg.nn.LeakyReLU(1e-4), "leaky_relu", "saturated"),
    ],
)
def test_saturated_activations(activation: Any, op: str, kind: str) -> None:
    found = wg.explain.dead_units(net_with_bias(activation, [0.0, -100.0, 0.0, 0.0]), SAMPLES)
    layer = found["act"]
    assert (layer.op, layer.kind, layer.dead) == (op, kind, (1,))


def test_a_leaky_unit_is_not_dead() -> None:
    assert not wg.explain.dead_units(net_with_bias(wg.nn.LeakyReLU(0.1), [0.0, -100.0, 0.0, 0.0]), SAMPLES)


def test_batches_with_targets_and_a_loss() -> None:
    net = net_with_bias(wg.nn.ReLU(), [0.0, -100.0, 0.0, 0.0])
    target = np.zeros((32, 2), np.float32)
    pieces = wg.data.batches(SAMPLES, target, size=10)
    found = wg.explain.dead_units(net, pieces, loss=lambda out, y: ((out - y) ** 2).sum())
    assert found.samples == 32
    whole = wg.explain.dead_units(net, (SAMPLES, target), loss=lambda out, y: ((out - y) ** 2).sum())
    np.testing.assert_allclose(found["act"].active, whole["act"].active)
    np.testing.assert_allclose(found["act"].gradient, whole["act"].gradient, rtol=1e-4)


def test_a_unit_that_fires_once_is_alive() -> None:
    w = wg.tensor([[1.0, 1.0]], requires_grad=True)
    b = wg.tensor([-0.95, -2.0])
    x = np.linspace(0, 1, 50, dtype=np.float32)[:, None]
    found = wg.explain.dead_units(lambda v: wg.relu(v @ w + b), [x[:25], x[25:]])
    assert found.layers[0].dead == (1,)


def test_channels_of_images() -> None:
    conv = wg.nn.Conv2d(1, 3, 3)
    conv.bias.data = wg.asarray([0.0, -100.0, 0.0])
    found = wg.explain.dead_units(lambda x: wg.relu(conv(x)), np.ones((2, 1, 5, 5), np.float32))
    assert found.layers[0].units == 3
    assert 1 in found.layers[0].dead


def test_no_data_and_nothing_to_count() -> None:
    with pytest.raises(wg.ShapeError, match="no data"):
        wg.explain.dead_units(wg.relu, [])
    assert str(wg.explain.dead_units(lambda x: x * 2.0, SAMPLES)) == "no activation functions ran"


def test_the_advice_names_what_exists() -> None:
    from wengert.explain import causes

    texts = [t for pair in CAUSES.values() for t in pair]
    texts += [causes.INPUT.rewrite, causes.UPDATE.rewrite]
    for known in (op.facets["nonfinite"] for op in TABLE.values() if "nonfinite" in op.facets):
        texts += [c.rewrite for c in (*(c for _, c in known.forward), known.backward, known.infinite) if c is not None]
    names = {name.rstrip(".") for text in texts for name in re.findall(r"\bwg\.([a-zA-Z_.0-9]+)", text)}
    assert len(names) > 20
    for name in names:
        found: Any = wg
        for part in name.split("."):
            found = getattr(found, part)
