"""Optimisers, running statistics and generators in a trace: the graph, run by the interpreter, does what eager does.

A trace is made here by hand as a compiler makes it: abstract tensors in all cells, the code run once,
what then stands in the cells for the outputs.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph import evaluate
from wengert.core.graph.graph import Graph
from wengert.core.graph.snapshot import Given
from wengert.core.mode import get_mode, reset_mode, set_mode
from wengert.core.ops.record import abstract_input
from wengert.core.state.at_once import undoing
from wengert.core.state.capture import Capture, reset_capture, set_capture
from wengert.core.state.cells import Cell, TensorCell
from wengert.core.tensor import Tensor, asarray
from wengert.nn import BatchNorm1d, BatchNorm2d
from wengert.optim import lr_scheduler
from wengert.optim.cells import CountCell


class Looker(Capture):
    """What a trace here may not need: values of abstract tensors."""

    def decide(self, x: Tensor, what: str) -> Any:
        raise AssertionError(f"{what} of an abstract {x.spec}")

    def refuse(self, x: Tensor, what: str) -> None:
        raise AssertionError(f"{what} of an abstract {x.spec}")

    def meet(self, operands: Sequence[Any]) -> None:
        pass

    def consume(self, roots: Sequence[Any]) -> None:
        pass

    def __init__(self) -> None:
        self.written: list[weakref.ref[Tensor]] = []

    def write(self, x: Tensor) -> None:
        self.written.append(weakref.ref(x))


class Program:
    """`fn` of abstract tensors like `examples`, with abstract tensors in the cells, traced once."""

    def __init__(self, fn: Callable[..., Any], cells: Iterable[Cell], examples: Sequence[Any]) -> None:
        self.cells = list(cells)
        assert len({c.key for c in self.cells}) == len(self.cells)
        inputs = [abstract_input(c.spec, f"c{i}") for i, c in enumerate(self.cells)]
        given = [abstract_input(asarray(x).spec, f"x{i}") for i, x in enumerate(examples)]
        undo: list[Any] = []
        mode = set_mode(get_mode().traced(None, get_mode().grad))
        looker = Looker()
        token = set_capture(looker)
        try:
            for cell, tensor in zip(self.cells, inputs, strict=True):
                undo += cell.undo()
                cell.hold(tensor)
            out = fn(*given)
            results = [] if out is None else [out]
            held = [c.held() for c in self.cells]
        finally:
            reset_capture(token)
            reset_mode(mode)
            undoing(undo)()
        # What is written to and is no cell does not outlive the step.
        assert [t() for t in looker.written if t() is not None] == []
        self.written = [i for i, (h, t) in enumerate(zip(held, inputs, strict=True)) if h.node is not t.node]
        outputs = [*results, *(held[i] for i in self.written)]
        self.graph = Graph.closed(outputs, [Given(t, "", False) for t in (*inputs, *given)])
        self.results = len(results)

    def __call__(self, *args: Any) -> Any:
        feeds = [*(c.get() for c in self.cells), *(np.asarray(a) for a in args)]
        for cell, feed in zip(self.cells, feeds):
            assert (feed.shape, feed.dtype) == (cell.spec.shape, cell.spec.dtype)
        found = evaluate.run(self.graph, feeds)
        for i, value in zip(self.written, found[self.results :], strict=True):
            cell = self.cells[i]
            assert (value.shape, value.dtype) == (cell.spec.shape, cell.spec.dtype)
            cell.put(np.array(value))
        return found[0] if self.results else None


def step_program(opt: wg.optim.Optimizer, gradients: Sequence[Any]) -> Program:
    """One step with gradients as inputs; None for a parameter without one."""
    params = [p for g in opt.param_groups for p in g["params"]]

    def step(*grads: Tensor) -> None:
        rest = iter(grads)
        before = [p.grad for p in params]
        try:
            for p, g in zip(params, gradients, strict=True):
                p._grad = None if g is None else next(rest)
            opt.step()
        finally:
            for p, g in zip(params, before, strict=True):
                p._grad = g

    return Program(step, opt.__jit_cells__(), [g for g in gradients if g is not None])


def eager_step(opt: wg.optim.Optimizer, gradients: Sequence[Any]) -> None:
    params = [p for g in opt.param_groups for p in g["params"]]
    for p, g in zip(params, gradients, strict=True):
        p.grad = None if g is None else wg.tensor(np.asarray(g))
    opt.step()


RULES = {
    "sgd": lambda p: wg.optim.SGD(p, lr=0.1),
    "sgd decay maximize": lambda p: wg.optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "momentum": lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9),
    "dampening": lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.01),
    "nesterov": lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: wg.optim.Adam(p, lr=0.1),
    "adam decay amsgrad": lambda p: wg.optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: wg.optim.AdamW(p, lr=0.1),
    "adamw amsgrad maximize": lambda p: wg.optim.AdamW(p, lr=0.1, amsgrad=True, maximize=True),
    "rmsprop": lambda p: wg.optim.RMSprop(p, lr=0.01),
    "rmsprop all": lambda p: wg.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True, weight_decay=0.1),
    "adagrad": lambda p: wg.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5),
    "adagrad plain": lambda p: wg.optim.Adagrad(p, lr=0.1),
}
every_rule = pytest.mark.parametrize("make", RULES.values(), ids=RULES)
# The same arithmetic in the same dtype: what differs is the last place of NumPy's and Python's powers.
TOLERANCE = {
    "float16": 1e-3,
    "bfloat16": 1e-2,
    "float32": 1e-6,
    "float64": 1e-14,
    "complex64": 1e-6,
    "complex128": 1e-14,
}


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    made = rng.normal(size=shape)
    if dtype.startswith("complex"):
        made = made + 1j * rng.normal(size=shape)
    return wg.asarray(made).astype(dtype).numpy()


def parameters(rng: np.random.Generator, dtype: str) -> list[Tensor]:
    return [wg.tensor(draw(rng, shape, dtype), requires_grad=True) for shape in ((3, 4), (), (0, 2))]


def assert_same(a: Any, b: Any, dtype: str) -> None:
    """Trees of state, to the dtype's rounding."""
    assert type(a) is type(b) or isinstance(a, dict)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key], dtype)
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y, dtype)
    elif isinstance(a, Tensor):
        assert a.spec == b.spec
        wide = np.complex128 if a.is_complex() else np.float64
        x, y = a.detach().numpy().astype(wide), b.detach().numpy().astype(wide)
        np.testing.assert_allclose(x, y, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    else:
        assert a == b


@every_rule
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_a_traced_step_is_the_eager_step(make: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = parameters(rng, dtype)
    b = copy.deepcopy(a)
    eager, traced = make(a), make(b)
    program = None
    for _ in range(5):
        gradients = [draw(rng, p.shape, dtype) for p in a]
        eager_step(eager, gradients)
        if program is None:
            program = step_program(traced, gradients)
        program(*gradients)
    assert_same(a, b, dtype)
    assert_same(eager.state_dict(), traced.state_dict(), dtype)


@every_rule
def test_options_change_without_another_trace(make: Any) -> None:
    rng = np.random.default_rng(1)
    a = parameters(rng, "float64")
    b = copy.deepcopy(a)
    eager, traced = make(a), make(b)
    gradients = [draw(rng, p.shape, "float64") for p in a]
    program = step_program(traced, gradients)
    for k in range(4):
        for opt in (eager, traced):
            group = opt.param_groups[0]
            for name in opt.numbers:
                if name == "betas":
                    group[name] = (0.5 + 0.1 * k, 0.9 - 0.1 * k)
                elif group[name]:
                    group[name] *= 0.7
            group["lr"] = 0.1 / (k + 1)
        gradients = [draw(rng, p.shape, "float64") for p in a]
        eager_step(eager, gradients)
        program(*gradients)
    assert_same(a, b, "float64")
    assert_same(eager.state_dict(), traced.state_dict(), "float64")


def test_a_schedule_steps_outside_and_not_inside() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    opt = wg.optim.SGD([w], lr=1.0)
    schedule = lr_scheduler.ExponentialLR(opt, 0.5)
    program = step_program(opt, [np.ones(2, np.float32)])
    for expected in ([0.0, 1.0], [-0.5, 0.5], [-0.75, 0.25]):
        program(np.ones(2, np.float32))
        schedule.step()
        assert w.tolist() == expected
    with pytest.raises(wg.TraceError, match=r"ExponentialLR.step\(\) inside a compiled function"):
        Program(lambda: schedule.step(), opt.__jit_cells__(), [])
    assert schedule.last_epoch == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_groups_and_dtypes(dtype: str) -> None:
    rng = np.random.default_rng(2)
    a = parameters(rng, dtype)[:1] + parameters(rng, "float32")[:1]
    b = copy.deepcopy(a)

    def make(p: list[Tensor]) -> wg.optim.Optimizer:
        return wg.optim.Adam(
            [{"params": p[:1], "lr": 0.3, "betas": (0.5, 0.9)}, {"params": p[1:], "weight_decay": 0.1}]
        )

    eager, traced = make(a), make(b)
    program = None
    for _ in range(3):
        gradients = [draw(rng, p.shape, p.dtype.name) for p in a]
        eager_step(eager, gradients)
        program = step_program(traced, gradients) if program is None else program
        program(*gradients)
    assert_same(eager.state_dict(), traced.state_dict(), "float32")
    assert_same(a, b, "float32")


def test_parameters_without_a_gradient_stay_and_count_for_themselves() -> None:
    rng = np.random.default_rng(3)
    a = [wg.tensor(draw(rng, (4,), "float64"), requires_grad=True) for _ in range(3)]
    b = copy.deepcopy(a)
    eager, traced = wg.optim.Adam(a, lr=0.1), wg.optim.Adam(b, lr=0.1)
    programs: dict[Any, Program] = {}
    for k in range(8):
        which = (True, k % 2 == 0, k in (3, 4))
        gradients = [draw(rng, (4,), "float64") if w else None for w in which]
        eager_step(eager, gradients)
        list(traced.__jit_cells__())
        signature = which, traced.__jit_static__()
        if signature not in programs:
            programs[signature] = step_program(traced, gradients)
        programs[signature](*[g for g in gradients if g is not None])
        assert_same(a, b, "float64")
        assert [traced.state[p]["step"] for p in b] == [eager.state.get(p, {"step": 0})["step"] for p in a]


def test_two_steps_in_one_trace() -> None:
    def run(w: Tensor, opt: wg.optim.Optimizer) -> Any:
        for _ in range(2):
            opt.zero_grad()
            loss = ((w - 3.0) ** 2).sum()
            loss.backward()
            opt.step()
        return loss.detach()

    a, b = (wg.tensor([1.0, 5.0], requires_grad=True) for _ in range(2))
    eager, traced = wg.optim.Adam([a], lr=0.5), wg.optim.Adam([b], lr=0.5)
    program = Program(lambda: run(b, traced), traced.__jit_cells__(), [])
    b.grad = None
    for _ in range(3):
        loss = run(a, eager)
        np.testing.assert_allclose(program(), loss.numpy(), rtol=1e-6)
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-6)
    assert traced.state[b]["step"] == eager.state[a]["step"] == 6


def test_not_a_number_reaches_the_parameter() -> None:
    w = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = copy.deepcopy(w)
    g = np.array([np.nan, np.inf, -0.0], np.float32)
    opt = wg.optim.Adam([w])
    step_program(opt, [g])(g)
    eager_step(wg.optim.Adam([v]), [g])
    np.testing.assert_array_equal(w.detach().numpy(), v.detach().numpy())


def test_infinities_stay_in_their_part_of_a_complex_parameter() -> None:
    w = wg.tensor([1 + 2j, 1 + 2j], requires_grad=True)
    g = np.array([complex(np.inf, 1.0), complex(1.0, np.nan)], np.complex64)
    step_program(wg.optim.SGD([w], lr=0.5), [g])(g)
    np.testing.assert_array_equal(w.detach().numpy(), np.array([complex(-np.inf, 1.5), complex(0.5, np.nan)]))


# -- what a trace takes for granted


def test_what_decides_the_operations_shows_in_the_static_part() -> None:
    w, v = (wg.tensor([1.0], requires_grad=True) for _ in range(2))
    opt = wg.optim.SGD([w], lr=0.1, momentum=0.5)
    list(opt.__jit_cells__())
    seen = opt.__jit_static__()
    hash(seen)
    for name, value in (("lr", 0.5), ("momentum", 0.9), ("lr", 0.0)):
        opt.param_groups[0][name] = value
        assert opt.__jit_static__() == seen
    eager_step(opt, [np.ones(1, np.float32)])
    assert opt.__jit_static__() == seen

    def differs() -> bool:
        nonlocal seen
        before, seen = seen, opt.__jit_static__()
        return seen != before

    opt.param_groups[0]["weight_decay"] = 0.1
    assert differs()
    opt.param_groups[0]["momentum"] = 0.0
    assert differs()
    opt.param_groups[0].update(maximize=True)
    assert differs()
    opt.add_param_group({"params": [v]})
    assert differs()
    opt.load_state_dict(opt.state_dict())
    assert differs()
    opt.param_groups[0] = dict(opt.param_groups[0])
    assert differs()
    opt.param_groups[0]["nesterov"] = True
    assert differs()
    assert not differs()


def test_who_has_made_as_many_steps_as_whom_shows_in_the_static_part() -> None:
    opt = wg.optim.Adam([wg.tensor([1.0], requires_grad=True) for _ in range(2)])
    g = np.ones(1, np.float32)
    assert len([c for c in opt.__jit_cells__() if isinstance(c, CountCell)]) == 1
    seen = opt.__jit_static__()
    eager_step(opt, [g, g])
    assert opt.__jit_static__() == seen
    eager_step(opt, [g, None])
    assert opt.__jit_static__() != seen
    assert len([c for c in opt.__jit_cells__() if isinstance(c, CountCell)]) == 2
    eager_step(opt, [None, g])
    assert len([c for c in opt.__jit_cells__() if isinstance(c, CountCell)]) == 1
    assert opt.__jit_static__() == seen
    eager_step(opt, [g, None])
    assert opt.__jit_static__() != seen


def test_cells_of_an_earlier_trace_serve_another_one() -> None:
    params = [wg.tensor([1.0], requires_grad=True) for _ in range(2)]
    opt = wg.optim.Adam(params, lr=0.5)
    cells = list(opt.__jit_cells__())
    list(opt.__jit_cells__())

    def step(grad: Tensor) -> None:
        params[0]._grad, params[1]._grad = grad, None
        opt.step()
        params[0]._grad = None

    Program(step, cells, [np.ones(1, np.float32)])(np.ones(1, np.float32))
    assert [p.tolist() for p in params] == [[0.5], [1.0]]
    assert [opt.state[p]["step"] for p in params] == [1, 0]


def test_the_first_use_and_the_second_find_the_same_cells() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    opt = wg.optim.Adam([w], amsgrad=True)
    first = [c.key for c in opt.__jit_cells__()]
    eager_step(opt, [np.ones(1, np.float32)])
    assert [c.key for c in opt.__jit_cells__()] == first


def test_cells_do_not_hinder_copies() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    opt = wg.optim.Adam([w])
    list(opt.__jit_cells__())
    opt.__jit_static__()
    other = copy.deepcopy(opt)
    assert other.__jit_static__() != opt.__jit_static__()
    (p,) = other.param_groups[0]["params"]
    eager_step(other, [np.ones(1, np.float32)])
    assert [other.state[p]["step"], opt.state[w]["step"]] == [1, 0]


def test_an_error_in_a_trace_leaves_everything() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    opt = wg.optim.Adam([w], lr=0.25)
    before = repr(opt), repr(opt.state_dict())

    def step() -> None:
        opt.step()
        raise KeyError

    list(opt.__jit_cells__())
    before = repr(opt), repr(opt.state_dict())
    w.grad = wg.ones(1)
    with pytest.raises(KeyError):
        Program(step, opt.__jit_cells__(), [])
    assert (repr(opt), repr(opt.state_dict())) == before
    assert w.tolist() == [1.0]


# -- running statistics


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(
    ("kind", "shape"), [(BatchNorm1d, (6, 3)), (BatchNorm1d, (4, 3, 5)), (BatchNorm2d, (2, 3, 4, 4))]
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_running_statistics_move_in_a_trace(kind: Any, shape: tuple[int, ...], momentum: Any, dtype: str) -> None:
    rng = np.random.default_rng(4)
    eager = kind(3, momentum=momentum, dtype=dtype)
    traced = copy.deepcopy(eager)
    cells = [TensorCell(t) for t in (*traced.parameters(), *traced.buffers())]
    program = None
    for _ in range(4):
        x = (2 + 3 * rng.normal(size=shape)).astype(dtype)
        out = eager(wg.tensor(x))
        program = Program(lambda t: traced(t), cells, [x]) if program is None else program
        got = program(x)
        tolerance = {"float16": 5e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
        np.testing.assert_allclose(got, out.detach().numpy(), rtol=tolerance, atol=tolerance)
        for a, b in zip(eager.buffers(), traced.buffers(), strict=True):
            assert a.spec == b.spec
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=tolerance, atol=tolerance)
    assert int(traced.num_batches_tracked) == 4
    assert traced.running_mean.requires_grad is False


def test_a_plain_trace_leaves_running_statistics_alone() -> None:
    layer = BatchNorm1d(2)
    wg.graph(layer)(wg.spec((4, 2)))
    assert [t.tolist() for t in layer.buffers()] == [[0.0, 0.0], [1.0, 1.0], 0]


def test_a_module_that_was_traced_from_a_line_computes_when_it_is_called_from_there() -> None:
    class Noisy(wg.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + wg.rand(2, key=wg.random.key(0))

    layer = Noisy()

    def call(x: Tensor) -> Tensor:
        out: Tensor = layer(x)
        return out

    wg.graph(call)(wg.spec((2,)))
    assert not call(wg.ones(2)).is_abstract


# -- random numbers

DRAWS: dict[str, Callable[[Any], Tensor]] = {
    "rand": lambda g: wg.rand(5, generator=g),
    "randn": lambda g: wg.randn(2, 3, dtype=wg.float64, generator=g),
    "randint": lambda g: wg.randint(-3, 9, (7,), generator=g),
    "randperm": lambda g: wg.random.randperm(9, generator=g),
    "bernoulli": lambda g: wg.random.bernoulli(0.3, (6,), generator=g),
    "bernoulli of a tensor": lambda g: wg.random.bernoulli(wg.tensor([0.2, 0.8]), generator=g),
    "categorical": lambda g: wg.random.categorical(wg.tensor([0.1, 0.5, 0.2]), (4,), generator=g),
    "uniform": lambda g: wg.random.uniform((3,), -1.0, 1.0, generator=g),
    "gamma": lambda g: wg.random.gamma(wg.tensor([0.5, 2.0]), generator=g),
    "poisson": lambda g: wg.random.poisson(wg.tensor([3.0, 40.0]), generator=g),
    "dropout": lambda g: wg.nn.functional.dropout(wg.ones(11), 0.5, generator=g),
    "several": lambda g: wg.concat([wg.rand(3, generator=g), wg.randn(5, generator=g), wg.rand(1, generator=g)]),
    "permutation": lambda g: wg.random.permutation(wg.arange(6), generator=g),
    "of a seed": lambda g: wg.rand(3, generator=g.manual_seed(5)),
    "vmap": lambda g: wg.vmap(lambda x: x + wg.rand(2, generator=g), randomness="different")(wg.zeros(3, 2)),
    "vmap same": lambda g: wg.vmap(lambda x: x + wg.rand(2, generator=g), randomness="same")(wg.zeros(3, 2)),
    "vmap dropout": lambda g: wg.vmap(lambda x: wg.nn.functional.dropout(x, generator=g), randomness="different")(
        wg.ones(3, 4)
    ),
}


@pytest.mark.parametrize("draws", DRAWS.values(), ids=DRAWS)
def test_calls_go_on_in_the_stream_as_eager_ones_do(draws: Any) -> None:
    eager, traced = wg.random.Generator(7), wg.random.Generator(7)
    program = Program(lambda: draws(traced), traced.__jit_cells__(), [])
    assert traced.get_state().tolist() == eager.get_state().tolist()
    for _ in range(3):
        expected = draws(eager)
        got = program()
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected.numpy())
        assert traced.get_state().tolist() == eager.get_state().tolist()
    for g in (eager, traced):
        g.manual_seed(11)
    np.testing.assert_array_equal(program(), draws(eager).numpy())


def test_the_backward_pass_draws_the_mask_again() -> None:
    eager, traced = wg.random.Generator(3), wg.random.Generator(3)

    def gradient(x: Tensor, g: Any) -> Any:
        return wg.grad(lambda x: (wg.nn.functional.dropout(x, 0.4, generator=g) ** 2).sum())(x)

    x = np.linspace(1, 2, 20)
    program = Program(lambda t: gradient(t, traced), traced.__jit_cells__(), [x])
    seen = []
    for _ in range(3):
        seen.append(program(x))
        np.testing.assert_allclose(seen[-1], gradient(wg.tensor(x), eager).numpy(), rtol=1e-14)
    assert not np.array_equal(seen[0], seen[1])


def test_seeding_inside_a_trace_starts_every_call_anew() -> None:
    g = wg.random.Generator(1)

    def draws() -> Tensor:
        g.manual_seed(9)
        return wg.rand(4, generator=g)

    program = Program(draws, g.__jit_cells__(), [])
    first = program()
    np.testing.assert_array_equal(program(), first)
    np.testing.assert_array_equal(first, wg.rand(4, generator=wg.random.Generator(9)).numpy())
    assert g.initial_seed() == 9


def test_state_is_read_and_set_inside_a_trace() -> None:
    g = wg.random.Generator(1)

    def twice() -> Tensor:
        state = g.get_state()
        a = wg.rand(4, generator=g)
        g.set_state(state)
        return wg.stack([a, wg.rand(4, generator=g)])

    program = Program(twice, g.__jit_cells__(), [])
    a, b = program()
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(program()[0], a)
    assert wg.rand(4, generator=wg.random.Generator(1).set_state(g.get_state())).tolist() == twice()[0].tolist()


@pytest.mark.parametrize("what", [lambda g: g.split(), lambda g: g.seed()])
def test_what_would_happen_once_is_refused(what: Any) -> None:
    g = wg.random.Generator(1)
    with pytest.raises(wg.TraceError, match="compiled function"):
        Program(lambda: what(g), g.__jit_cells__(), [])
    assert g.get_state().tolist() == [1, 0, 0, 0]


def test_another_thread_draws_numbers_during_a_trace() -> None:
    import threading

    g = wg.random.Generator(2)
    seen: list[Any] = []

    def draws() -> Tensor:
        thread = threading.Thread(target=lambda: seen.append(wg.rand(3, generator=g).numpy()))
        thread.start()
        thread.join()
        return wg.rand(3, generator=g)

    Program(draws, g.__jit_cells__(), [])
    np.testing.assert_array_equal(seen[0], wg.rand(3, generator=wg.random.Generator(2)).numpy())


def test_a_loop_draws_by_what_its_state_says() -> None:
    def draws(words: Tensor) -> Any:
        key = wg.random.RandomKey(words)
        steps = wg.arange(4)
        return wg.scan(lambda c, i: (c, wg.rand(2, key=wg.random.fold_in(key, i))), wg.tensor(0.0), steps)[1]

    words = np.array([7, 0], np.uint64)
    got = Program(draws, [], [words])(words)
    key = wg.random.key(7)
    np.testing.assert_array_equal(got, [wg.rand(2, key=wg.random.fold_in(key, i)).numpy() for i in range(4)])


def test_a_key_is_a_nest_of_its_words() -> None:
    key = wg.random.key(3)
    (words,), structure = wg.tree.flatten(key)
    assert words.tolist() == [3, 0]
    assert wg.tree.unflatten(structure, [words]) == key
    graph = wg.graph(lambda x, key: x + wg.rand(2, key=key))(wg.spec((2,)), key)
    assert [n.op.name for n in graph.inputs] == ["input", "input"]
    np.testing.assert_array_equal(graph(wg.zeros(2), wg.tensor(words.numpy())).numpy(), wg.rand(2, key=key).numpy())


def test_a_loop_carries_a_key() -> None:
    def step(key: Any, _: Any) -> Any:
        key, own = wg.random.split(key)
        return key, wg.rand((), key=own)

    last, drawn = wg.scan(step, wg.random.key(3), length=3)
    key = wg.random.key(3)
    for x in drawn.tolist():
        key, own = wg.random.split(key)
        assert float(wg.rand((), key=own)) == x
    assert last == key

    def in_a_trace(words: Tensor) -> Any:
        return wg.scan(step, wg.random.RandomKey(words), length=3)[1]

    words = np.array([3, 0], np.uint64)
    np.testing.assert_array_equal(Program(in_a_trace, [], [words])(words), drawn.numpy())


def test_examples_that_bring_keys_draw_with_them() -> None:
    def draws(words: Tensor) -> Any:
        return wg.vmap(lambda w: wg.rand(2, key=wg.random.RandomKey(w)))(words)

    words = np.array([[3, 0], [4, 1]], np.uint64)
    expected = [wg.rand(2, key=wg.random.RandomKey((int(a), int(b)))).numpy() for a, b in words]
    np.testing.assert_array_equal(Program(draws, [], [words])(words), expected)


def test_a_loop_that_would_draw_the_same_in_every_step_is_refused() -> None:
    g = wg.random.Generator(1)
    with pytest.raises(wg.TraceError, match="the same in every step"):
        Program(
            lambda: wg.scan(lambda c, _: (c + wg.rand((), generator=g), None), wg.tensor(0.0), length=3)[0],
            g.__jit_cells__(),
            [],
        )
