"""`wg.summary`: a model as a table, against figures computed by hand."""

from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import wengert as wg
from wengert import nn
from wengert.nn.summary import Figures, Row, Summary

N = 32


class Block(nn.Module):
    """Attention-free but residual: a norm, and two linear layers around a ReLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return x + self.down(wg.relu(self.up(self.norm(x))))


class GPT(nn.Module):
    """A small transformer for tokens, its head tied to its embedding."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0) for _ in range(depth)]
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any, scale: float = 1.0) -> Any:
        x = self.tokens(ids) + self.places(wg.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(self.norm(x)) * scale, "hidden": x}


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def linear(rows: int, inputs: int, outputs: int) -> int:
    """Operations of an affine map: a product, and the bias."""
    return 2 * rows * inputs * outputs + rows * outputs


def children(found: Summary, row: Row) -> list[Row]:
    out = []
    for other in found.rows[found.rows.index(row) + 1 :]:
        if other.depth <= row.depth:
            break
        if other.depth == row.depth + 1:
            out.append(other)
    return out


def check_sums(found: Summary, model: Any, *inputs: Any) -> None:
    """Every row is itself and what is inside it; the whole is what the graph and the model say."""
    for row in found:
        assert row.total == sum((c.total for c in children(found, row)), row.own)
    assert found.total == sum((r.own for r in found), Figures())
    graph = wg.graph(model)(*inputs)
    assert found.total.operations == wg.explain.cost(graph).flops
    assert found.total.saved == graph.saved_bytes(graph.parameters)
    if isinstance(model, nn.Module):
        assert found.total.parameters == sum(p.size for p in model.parameters())
        assert found.total.parameter_bytes == sum(p.nbytes for p in model.parameters())
        assert found.total.trainable == sum(p.size for p in model.parameters() if p.requires_grad)


# -- figures by hand


def test_mlp() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    x = wg.spec((N, 1, 28, 28))
    found = wg.summary(model, x)
    assert [(r.path, r.layer, r.total.parameters, r.total.operations, r.total.saved) for r in found] == [
        ("", "Sequential", 784 * 256 + 256 + 2570, linear(N, 784, 256) + N * 256 + linear(N, 256, 10), N * 256 * 4),
        ("0", "Flatten", 0, 0, 0),
        ("1", "Linear", 784 * 256 + 256, linear(N, 784, 256), 0),  # keeps a view of the input
        ("2", "ReLU", 0, N * 256, N * 256 * 4),
        ("3", "Linear", 2570, linear(N, 256, 10), 0),  # keeps what the ReLU keeps
    ]
    assert [r.outputs for r in found][:2] == [(wg.spec((N, 10)),), (wg.spec((N, 784)),)]
    assert found.input_bytes == N * 784 * 4
    check_sums(found, model, x)


def test_lenet() -> None:
    model, x = lenet(), wg.spec((N, 1, 28, 28))
    found = wg.summary(model, x)
    parameters = {"0": 6 * 25 + 6, "3": 16 * 6 * 25 + 16, "7": 48120, "9": 120 * 84 + 84, "11": 850}
    assert {r.path: r.total.parameters for r in found if r.total.parameters and r.path} == parameters
    assert found.total.parameters == 61_706
    assert found["0"].total.operations == N * 28 * 28 * 6 * (2 * 25 + 1)
    assert found["3"].total.operations == N * 10 * 10 * 16 * (2 * 150 + 1)
    assert found["2"].total.operations == N * 6 * 28 * 28
    assert found["9"].total.operations == linear(N, 120, 84)
    assert found["5"].outputs == (wg.spec((N, 16, 5, 5)),)
    check_sums(found, model, x)
    images = wg.randn(N, 1, 28, 28)
    memory = wg.explain.memory(model(images).sum())
    assert found.total.saved == pytest.approx(memory.saved, rel=0.01)


def test_small_gpt() -> None:
    v, t, d, heads, depth, b = 50, 8, 16, 2, 3, 4
    model, ids = GPT(v, t, d, heads, depth), wg.spec((b, t), wg.int64)
    found = wg.summary(model, ids, scale=2.0)
    block = 4 * d * d + 4 * d + 8 * d * d + 5 * d + 4 * d
    assert found["blocks.1"].total.parameters == block
    assert found.total.parameters == v * d + t * d + depth * block + 2 * d  # the head is the embedding
    assert (found["head"].total.parameters, found["head"].shared) == (0, v * d)
    assert found["head"].total.operations == 2 * b * t * d * v
    rows = b * t
    assert found["blocks.0.linear1"].total.operations == linear(rows, d, 4 * d)
    scores = 2 * (2 * b * heads * t * t * (d // heads))  # queries by keys, weights by values
    attention = found["blocks.0.self_attn"]
    assert attention.total.operations > linear(rows, d, 3 * d) + scores + linear(rows, d, d)
    assert found["blocks.0.self_attn.out_proj"].total.operations == linear(rows, d, d)
    assert found.rows[0].outputs == ({"logits": wg.spec((b, t, v)), "hidden": wg.spec((b, t, d))},)
    check_sums(found, lambda i: list(model(i, 2.0).values()), ids)
    assert "blocks.0-2  x 3" in str(found)
    assert str(found).count("TransformerEncoderLayer") == 1


def test_saved_is_what_a_run_keeps() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.TransformerEncoderLayer(8, 2, 16), nn.BatchNorm1d(6), nn.GELU())
    x = wg.randn(5, 6, 8)
    assert wg.summary(model, x).total.saved == pytest.approx(wg.explain.memory(model(x).sum()).saved, rel=0.01)


@st.composite
def models(draw: Any, depth: int = 3) -> nn.Module:
    """Nested layers from 4 features to 4, some of them taken twice."""
    pool: list[nn.Module] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["linear", "relu", "norm", "block", "again", "pytree"]))
        if kind == "again" and pool:
            pool.append(draw(st.sampled_from(pool)))
        elif kind == "pytree" and depth:
            pool.append(draw(models(depth=depth - 1)))
        else:
            makers: Any = {
                "linear": lambda: nn.Linear(4, 4),
                "norm": lambda: nn.LayerNorm(4),
                "block": lambda: Block(4),
            }
            pool.append(makers.get(kind, nn.ReLU)())
    return nn.Sequential(*pool)


@given(models(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_totals_are_sums(model: nn.Module, frozen: bool) -> None:
    if frozen:
        next(model.parameters(), nn.Parameter([0.0])).requires_grad_(False)
    x = wg.spec((3, 4))
    found = wg.summary(model, x)
    check_sums(found, model, x)
    assert len(str(found).splitlines()) <= len(found) + 7


# -- what calls what


def test_a_module_called_twice_is_one_row() -> None:
    layer = nn.Linear(4, 4)
    found = wg.summary(lambda x: layer(layer(x)).sum(), wg.spec((3, 4)))
    assert [(r.path, r.layer, r.calls) for r in found] == [("", "function", 1), ("layer", "Linear", 2)]
    assert found["layer"].total.operations == 2 * linear(3, 4, 4)
    assert found.total.parameters == 20
    assert "Linear, 2 calls" in str(found)


def test_outputs_that_differ_between_calls() -> None:
    act = nn.ReLU()
    found = wg.summary(lambda x: act(x).sum() + act(x[0]).sum(), wg.spec((3, 4)))
    assert found["act"].outputs == (wg.spec((3, 4)), wg.spec((4,)))
    assert "f32[3,4] and 1 more" in str(found)


def test_a_shared_module_counts_once() -> None:
    shared = nn.Linear(4, 4)
    model = nn.Sequential(nn.Sequential(shared), nn.Sequential(shared, nn.ReLU()))
    found = wg.summary(model, wg.spec((3, 4)))
    assert [(r.depth, r.layer, r.total.parameters, r.shared) for r in found] == [
        (0, "Sequential", 20, 0),
        (1, "Sequential", 20, 0),
        (2, "Linear", 20, 0),
        (1, "Sequential", 0, 0),
        (2, "Linear", 0, 20),
        (2, "ReLU", 0, 0),
    ]
    assert found.total.operations == 2 * linear(3, 4, 4) + 12


def test_modules_that_are_not_called_and_parameters_of_no_module() -> None:
    scale = nn.Parameter([2.0])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 2))
            self.extra = nn.ParameterList([nn.Parameter([1.0, 2.0])])

        def forward(self, x: Any) -> Any:
            return self.used(x) * scale + x @ self.used.weight.mT * self.extra[0]

    found = wg.summary(Model(), wg.spec((3, 4)))
    assert {r.path: (r.calls, r.own.parameters) for r in found} == {
        "": (1, 1), "used": (1, 10), "unused.0": (0, 6), "extra": (0, 2)
    }  # fmt: skip
    text = str(found)
    assert "not called" in text
    assert text.count("not called") == 1
    assert found.total.parameters == 19


def test_functions_without_modules() -> None:
    found = wg.summary(lambda x, y: {"sum": (x @ y).sum(), "parts": [x, 3]}, wg.spec((2, 3)), y=np.ones((3, 4), "f4"))
    assert len(found) == 1
    assert found.total == Figures(operations=2 * 2 * 3 * 4 + 8)
    assert found.rows[0].outputs == ({"sum": wg.spec(()), "parts": [wg.spec((2, 3)), 3]},)


def test_methods_modules_as_arguments_and_in_lists() -> None:
    model = GPT(20, 4, 8, 2, 2)
    layers = [nn.Linear(4, 4), nn.ReLU()]

    def run(x: Any, head: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return head(x)

    found = wg.summary(run, wg.spec((3, 4)), nn.Linear(4, 1))
    assert [(r.path, r.layer) for r in found] == [
        ("", "function"), ("layers.0", "Linear"), ("layers.1", "ReLU"), ("head", "Linear")
    ]  # fmt: skip
    assert found.total.parameters == 25
    assert wg.summary(model.forward, wg.spec((1, 4), wg.int64))["blocks.1.linear1"].calls == 1


def test_modules_that_cannot_be_found_go_by_their_names() -> None:
    class Holder:
        def __init__(self) -> None:
            self.model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def __call__(self, x: Any) -> Any:
            return self.model(x)

    found = wg.summary(Holder(), wg.spec((3, 4)))
    assert [(r.path, r.layer) for r in found] == [("", "function"), ("0", "module"), ("1", "module")]
    assert found.total.parameters == 20
    assert found["0"].total.operations == linear(3, 4, 4)


def test_transforms_and_compiled_functions_around_a_model() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = wg.spec((3, 4))

    def loss(m: Any, x: Any) -> Any:
        return m(x).sum()

    found = wg.summary(wg.value_and_grad(loss), model, x)  # of a copy of the model
    assert [(r.layer, r.calls) for r in found] == [("function", 1), ("Sequential", 1), ("Linear", 1), ("ReLU", 1)]
    assert found.total.parameters == 20
    assert found.rows[0].outputs == ((wg.spec(()), "Sequential"),)
    for fn in (wg.jit(model), wg.jit(lambda x: model(x))):
        found = wg.summary(fn, x)
        assert [r.layer for r in found] == ["function", "Sequential", "Linear", "ReLU"]
        assert found.total.operations == linear(3, 4, 4) + 12
        assert found.total.parameters == 20


def test_a_method_that_calls_its_own_module() -> None:
    class Model(Block):
        def twice(self, x: Any) -> Any:
            return self(self(x))

    found = wg.summary(Model(4).twice, wg.spec((2, 4)))
    assert [(r.name, r.layer, r.calls) for r in found][:3] == [
        ("twice", "function", 1), ("Model", "Model", 2), ("norm", "LayerNorm", 2)
    ]  # fmt: skip


def test_parts_that_only_look_alike_are_told_apart() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Block(4), Block(4)

        def forward(self, x: Any) -> Any:
            for layer in (self.a.up, self.b.up):  # two modules with one name, called from one place
                y = layer(x)
            return y + self.a.up(x)

    found = wg.summary(Model(), wg.spec((2, 4)))
    assert {r.path: (r.calls, r.own.operations) for r in found if r.calls and r.path} == {
        "a.up": (2, linear(2, 4, 16)), "b.up": (1, linear(2, 4, 16))
    }  # fmt: skip


# -- sizes, and values


def test_unknown_sizes_are_formulas() -> None:
    found = wg.summary(lenet(), wg.spec((None, 1, 28, 28)))
    known = wg.summary(lenet(), wg.spec((7, 1, 28, 28)))
    for a, b in zip(found, known, strict=True):
        for name in ("operations", "saved"):
            formula = getattr(a.total, name)
            assert (formula.bind({"axis0": 7}) if not isinstance(formula, int) else formula) == getattr(b.total, name)
    assert "f32[axis0,10]" in str(found)
    assert wg.summary(lenet(), wg.placeholder((None, 1, 28, 28))).total == found.total


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.seen = 0

    def forward(self, x: Any) -> Any:
        self.seen += 1
        self.kept = x
        x = self.norm(x)
        for _ in range(int(wg.abs(x).sum().item()) // 100 + 2):
            x = self.layer(x)
        return x


def test_a_model_that_decides_by_values_is_run() -> None:
    model, x = Decides(), np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
    before = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    found = wg.summary(model, x)
    assert found.computed
    assert found["layer"].calls == 2
    assert found["layer"].total.operations == 2 * linear(3, 4, 4)
    assert found.total.saved == wg.explain.memory(model(wg.tensor(x)).sum()).saved
    assert model.seen == 1  # by the line above
    model = Decides()
    wg.summary(model, x)
    after = model.state_dict()
    assert model.seen == 0
    assert not hasattr(model, "kept")
    assert all((after[k].detach().numpy() == before[k]).all() for k in before if k.startswith("norm"))
    with pytest.raises(wg.TraceError, match=r"item\(\) needs the value") as caught:
        wg.summary(model, wg.spec((3, 4)))
    assert "test_summary.py" in str(caught.value)
    assert "every input is a tensor" in caught.value.__notes__[0]


def test_nothing_is_changed() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Sequential(nn.ReLU()))
    model[3].eval()
    calls: list[str] = []
    model[0].register_forward_pre_hook(lambda m, args: calls.append("before"))
    model[0].register_forward_hook(lambda m, args, out: calls.append("after"))
    state = {k: v.detach().numpy().copy() for k, v in model.state_dict().items()}
    attributes = [dict(m.__dict__) for m in model.modules()]
    wg.manual_seed(3)
    expected = wg.rand(3).tolist()
    wg.manual_seed(3)
    wg.summary(model, wg.spec((5, 4)))
    wg.summary(model, wg.randn(5, 4, generator=wg.random.Generator(0)))
    assert wg.rand(3).tolist() == expected
    assert calls == ["before", "after"] * 2
    assert [m.training for m in model.modules()] == [True, True, True, True, False, False]
    assert all((v.detach().numpy() == state[k]).all() for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert [m.__dict__ for m in model.modules()] == attributes
    assert all(len(m._pre_hooks) == (m is model[0]) for m in model.modules())


def test_a_failing_model_names_the_users_line_and_is_put_back() -> None:
    model = nn.Sequential(nn.Linear(4, 4), Block(3))
    with pytest.raises(wg.ShapeError, match=r"test_summary\.py:\d+"):
        wg.summary(model, wg.spec((2, 4)))
    assert not any(m._pre_hooks or m._hooks for m in model.modules())


def test_other_threads_are_not_counted() -> None:
    layer = nn.Linear(4, 4)

    def run(x: Any) -> Any:
        other = threading.Thread(target=lambda: layer(wg.ones((2, 4))))
        other.start()
        other.join()
        return layer(x)

    assert wg.summary(run, wg.spec((3, 4)))["layer"].calls == 1


def test_wrong_arguments() -> None:
    model = nn.Linear(4, 4)
    with pytest.raises(wg.DTypeError, match=r"Write wg\.spec\(\(2, 4\)\)"):
        wg.summary(model, (2, 4))
    with pytest.raises(wg.DTypeError, match="the summary of a int"):
        wg.summary(3)  # type: ignore[arg-type]
    with pytest.raises(wg.DTypeError, match="depth=-1"):
        wg.summary(model, wg.spec((2, 4)), depth=-1)
    with pytest.raises(wg.StateError, match="'nowhere'"):
        wg.summary(model, wg.spec((2, 4)))["nowhere"]


# -- showing


def test_depth_limits_what_is_shown() -> None:
    model = nn.Sequential(Block(4), nn.ReLU())
    found = wg.summary(model, wg.spec((2, 4)), depth=1)
    assert len(found) == 6
    assert [line.split()[0] for line in str(found).splitlines()[1:4]] == ["Sequential", "0", "1"]
    assert len(str(wg.summary(model, wg.spec((2, 4)), depth=0)).splitlines()) == 6


def test_runs_of_equal_modules_are_one_row() -> None:
    model = nn.Sequential(nn.Linear(3, 4), *(Block(4) for _ in range(3)), nn.Linear(4, 4), Block(4), Block(4))
    text = str(wg.summary(model, wg.spec((2, 3))))
    names = [line.split("  ")[1] for line in text.splitlines() if line.startswith("  ") and line[2] != " "]
    assert names == ["0", "1-3", "4", "5-6"]
    assert "x n: n equal modules" in text
    model[2].up.weight.requires_grad_(False)
    text = str(wg.summary(model, wg.spec((2, 3))))
    assert "1-3" not in text
    assert "64 frozen" in text
    assert "trainable" in text.splitlines()[0]


def test_equal_modules_with_names_of_their_own_are_shown_apart() -> None:
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    text = str(wg.summary(lambda x: b(a(wg.exp(x))), wg.spec((2, 4))))
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["<lambda>", "a", "b"]


def test_notebooks_get_a_table() -> None:
    html = wg.summary(nn.Sequential(Block(4)), wg.spec((2, 4)))._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") == 6
    assert "\N{NO-BREAK SPACE}up" in html
