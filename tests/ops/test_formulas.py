"""Ops declared by a formula: one declaration is all that derivatives, native code, cost, pictures and docs need."""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import GraphError
from wengert.core.ops.op import TABLE
from wengert.explorer.document.document import formula as documented

ROOT = Path(__file__).resolve().parent.parent.parent
X = np.linspace(-1.5, 1.7, 6)

DECLARATIONS = """
log_cosh = elementwise("log_cosh(x)", "logaddexp(x, -x) - log(2)", doc="log(cosh(x)), without overflow."{export})
sumsq = reduction("sumsq(x)", "x * x", doc="The sum of squares."{export})
sincos = elementwise("sincos(x)", ("sin(x)", "cos(x)"), doc="The sine and the cosine."{export})
smooth_clip = elementwise(
    "smooth_clip(x, lo, hi)", "lo + (hi - lo) * sigmoid(4 * (x - lo) / (hi - lo) - 2)",
    domain=((-2.0, 2.0), (-2.0, -1.0), (1.0, 2.0)), doc="x between bounds, smoothly."{export},
)
"""
OURS: dict[str, Callable[..., Any]] = {"elementwise": wg.ops.elementwise, "reduction": wg.ops.reduction}
exec(DECLARATIONS.format(export=""), OURS)


def _weighed(sine: Any, cosine: Any) -> Any:
    return sine + 10.0 * cosine


# By name: the op as a function of one array, and the same in NumPy.
FOUR: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "log_cosh": (OURS["log_cosh"], lambda x: np.log(np.cosh(x))),
    "sumsq": (lambda x: OURS["sumsq"](x, axis=-1), lambda x: (x * x).sum(-1)),
    "sincos": (lambda x: _weighed(*OURS["sincos"](x)), lambda x: _weighed(np.sin(x), np.cos(x))),
    "smooth_clip": (
        lambda x: OURS["smooth_clip"](x, -1.0, 1.5),
        lambda x: -1 + 2.5 / (1 + np.exp(2 - 4 * (x + 1) / 2.5)),
    ),
}


@pytest.fixture(params=FOUR)
def pair(request: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return FOUR[request.param]


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    """What a test declares is gone after it."""
    before = dict(TABLE)
    yield
    # Not ops of modules that were loaded meanwhile.
    for name in [n for n, op in TABLE.items() if "declaration" in op.facets]:
        del TABLE[name]
    TABLE.update(before)


def close(got: Any, want: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(wg.asarray(got).detach()), want, rtol=rtol, atol=1e-14)


def test_eager(pair: Any) -> None:
    f, numpy = pair
    close(f(wg.tensor(X)), numpy(X))
    close(f(X.reshape(2, 3).T), numpy(X.reshape(2, 3).T))  # an array, in another order
    assert f(wg.tensor(X.astype(np.float32))).dtype == wg.float32
    assert f(wg.zeros((0, 3))).shape == numpy(np.zeros((0, 3))).shape


def test_derivatives_of_any_order(pair: Any) -> None:
    wg.check_grads(pair[0], wg.tensor(X), order=3)


def test_batched(pair: Any) -> None:
    f, numpy = pair
    rows = np.stack([X, 2 * X])
    close(wg.vmap(f)(wg.tensor(rows)), np.stack([numpy(r) for r in rows]))
    loss = lambda x: f(x).sum()
    close(wg.vmap(wg.grad(loss))(wg.tensor(rows)), np.stack([np.asarray(wg.grad(loss)(wg.tensor(r))) for r in rows]))


def test_sparse(pair: Any) -> None:
    f, _ = pair
    dense = np.asarray(wg.jacobian(f)(wg.tensor(X))).reshape(-1, X.size)
    sparse = wg.sparse.jacobian(lambda x: f(x).reshape(-1))(wg.tensor(X))
    close(sparse.todense() if hasattr(sparse, "todense") else sparse, dense)
    assert (dense != 0).sum() == sparse.nnz


def test_native_and_fused(pair: Any) -> None:
    f, numpy = pair
    pytest.importorskip("llvmlite", reason="native code needs llvmlite")
    compiled = wg.jit(lambda x: f(3.0 * x) * 2.0 + 1.0)
    x = wg.tensor(X)
    for _ in range(6):
        close(compiled(x), numpy(3 * X) * 2 + 1)
    kernels = compiled.kernels
    assert len(kernels) == 1, [k.key for k in kernels]  # with what stands before and after it
    training = wg.jit(wg.value_and_grad(lambda x: f(x).sum()))
    for _ in range(6):
        value, gradient = training(x)
    close(value, numpy(X).sum())
    close(gradient, np.asarray(wg.grad(lambda x: f(x).sum())(x)))


def test_counted_as_its_parts_are(pair: Any) -> None:
    graph = wg.graph(pair[0])(wg.spec(X.shape, wg.float64))
    assert wg.explain.cost(graph).flops == wg.explain.cost(graph.expand()).flops > 0
    assert "no rule" not in str(wg.explain.cost(graph))


def test_symbolic() -> None:
    sympy = pytest.importorskip("sympy")
    x = sympy.Symbol("x", real=True)
    graph = wg.graph(OURS["log_cosh"])(wg.spec(()))
    assert sympy.simplify(wg.symbolic.to_sympy(graph, {"x": x}) - sympy.log(sympy.cosh(x))).equals(0)


def test_one_node_in_graphs_that_opens(pair: Any) -> None:
    f, numpy = pair
    graph = wg.graph(f)(wg.spec(X.shape, wg.float64))
    assert len([n for n in graph.nodes if n.op.name in FOUR]) == 1
    close(wg.Graph.parse(graph.text())(X), numpy(X))
    close(graph.expand()(X), numpy(X))


def test_numbers_arrays_and_promotion() -> None:
    log_cosh, smooth_clip = OURS["log_cosh"], OURS["smooth_clip"]
    close(wg.tensor(1.0, dtype=wg.float64) * log_cosh(2.0), np.log(np.cosh(2.0)))
    assert log_cosh(wg.tensor([1, 2])).dtype == wg.float32
    assert (log_cosh(0.5) * wg.tensor([1.0], dtype=wg.float64)).dtype == wg.float64
    close(
        smooth_clip(wg.tensor([[0.0], [1.0]], dtype=wg.float64), np.array([-1.0, -2.0]), 1.5).detach(),
        -np.array([1.0, 2.0])
        + np.array([2.5, 3.5]) / (1 + np.exp(2 - 4 * (np.array([[0.0], [1.0]]) + [1.0, 2.0]) / [2.5, 3.5])),
    )
    with pytest.raises(TypeError, match="smooth_clip"):
        smooth_clip(1.0)


def test_a_fused_eager_path_and_its_check() -> None:
    f = wg.ops.elementwise(
        "fused_log_cosh(x)",
        "logaddexp(x, -x) - log(2)",
        forward=lambda x: np.logaddexp(x, -x) - x.dtype.type(np.log(2)),
        partials={"x": lambda x: wg.tanh(x) if isinstance(x, wg.Tensor) else np.tanh(x)},
    )
    close(f(wg.tensor(X)), np.log(np.cosh(X)))
    wg.check_grads(f, wg.tensor(X), order=3)
    compiled = wg.jit(wg.grad(lambda x: f(x).sum()))
    for _ in range(6):
        close(compiled(wg.tensor(X)), np.tanh(X))
    with pytest.raises(GraphError, match=r"forward of wrong_cosh is not logaddexp"):
        wg.ops.elementwise("wrong_cosh(x)", "logaddexp(x, -x)", forward=np.cosh, partials={"x": lambda x: np.sinh(x)})
    with pytest.raises(GraphError, match="the partial derivative of wrong_slope in x"):
        wg.ops.elementwise("wrong_slope(x)", "cosh(x)", forward=np.cosh, partials={"x": lambda x: np.cosh(x)})
    assert "wrong_cosh" not in TABLE
    assert "wrong_slope" not in TABLE


REFUSED = {
    "is no formula: there is no op foo": ("f(x)", "foo(x)"),
    "y is neither an argument": ("f(x)", "x + y"),
    "sum(x; axis, keepdims) is not elementwise": ("f(x)", "sum(x)"),
    "takes 2 operands, not 1": ("f(x)", "logaddexp(x)"),
    "invalid syntax": ("f(x)", "x +"),
    "is none of numbers": ("f(x)", "[x]"),
    "is no signature": ("f(x; a)", "x * a"),
    "'lambda(x)' is no signature": ("lambda(x)", "x"),
    "'f(x, x)' is no signature": ("f(x, x)", "x"),
    "'3' depends on none of x": ("f(x)", "3"),
    "() is no formula": ("f(x)", ()),
    "3 is no formula": ("f(x)", 3),
    "exp is an op of the library": ("exp(x)", "x"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_refusals(said: str) -> None:
    with pytest.raises(GraphError) as caught:
        wg.ops.elementwise(*REFUSED[said])
    first = str(caught.value).splitlines()[0]
    assert said in first
    assert os.path.basename(__file__) in first  # the user's own line
    with pytest.raises(GraphError, match="combines by 'median'"):
        wg.ops.reduction("g(x)", "x", "median")  # type: ignore[arg-type]


# What a forward, its partials or their domain can be wrong in: keyword arguments, and what the error says.
WRONG: dict[str, dict[str, Any]] = {
    r"gives \(2, 3\) float64, not \(2, 3\) float32": {"forward": lambda x: np.log2(x) - np.log1p(-x) / np.log(2)},
    "raises ValueError: output array is read-only": {"forward": lambda x: np.log2(x, out=x)},
    "gives list, not": {"forward": lambda x: x.tolist()},
    r"gives \(6,\) float32, not \(2, 3\) float32": {"forward": lambda x: np.ravel(x)},
    "is not finite at numbers that were drawn for x": {"domain": "real"},
    "domain='pos'": {"domain": "pos"},
    "partials of wrong in y: its arguments are x": {"partials": {"y": lambda x: x}},
    "partials of wrong in nothing: its arguments are x": {"partials": {}},
    "partials of wrong in x: its arguments are x": {"partials": {"x": 2.0}},
    "a fact asks for 'z'": {"partials": {"x": lambda z: z}},
}


@pytest.mark.filterwarnings("ignore:(divide|invalid):RuntimeWarning")
@pytest.mark.parametrize("said", WRONG)
def test_wrong_fused_paths_are_refused(said: str) -> None:
    right: dict[str, Any] = {
        "forward": lambda x: np.log2(x) - np.log2(1 - x),
        "partials": {"x": lambda x: 1 / (math.log(2) * x * (1 - x))},
        "domain": "unit",
    }
    with pytest.raises(GraphError, match=said):
        wg.ops.elementwise("wrong(x)", "log2(x / (1 - x))", **right | WRONG[said])
    assert "wrong" not in TABLE
    close(wg.ops.elementwise("right(x)", "log2(x / (1 - x))", **right)(wg.tensor([0.25])), [np.log2(1 / 3)], rtol=1e-6)


def test_complex_numbers_where_a_forward_takes_none() -> None:
    f = wg.ops.elementwise(
        "real_only(x)", "logaddexp(x, 0)", forward=lambda x: np.logaddexp(x, x.dtype.type(0)),
        partials={"x": lambda x: wg.sigmoid(x)},
    )  # fmt: skip
    for g in (f, wg.jit(f)):
        with pytest.raises(wg.DTypeError, match="real_only"):
            g(wg.tensor([1 + 2j]))


def test_operands_that_do_not_meet() -> None:
    for f in (OURS["smooth_clip"], wg.ops.reduction("distance_of(a, b, c)", "(a - b) ** 2 + c")):
        with pytest.raises(wg.ShapeError, match=r"^(smooth_clip|distance_of): shapes .* do not broadcast"):
            f(wg.ones(3), wg.ones(4), wg.ones(3))


def test_arguments_that_a_formula_does_not_use_broadcast() -> None:
    first = wg.ops.elementwise("first_of(a, b)", "a")
    total = wg.ops.reduction("total_of(a, b)", "a")
    a, b = wg.ones((4, 3)), wg.ones((5, 4, 3))
    assert first(a, b).shape == (5, 4, 3)
    assert first(wg.ones(3, dtype=wg.float32), wg.ones(3, dtype=wg.float64)).dtype == wg.float64
    for axis in (None, 0, 1, -1, (0, 2)):
        close(total(a, b, axis=axis), np.ones((5, 4, 3)).sum(axis), rtol=1e-6)
    close(wg.grad(lambda a: total(a, b))(a), 5 * np.ones((4, 3)))


def test_reductions_are_of_what_the_library_s_take() -> None:
    assert wg.ops.reduction("mean_of(x)", "x", "mean")(wg.tensor([1, 2])).dtype == wg.float32
    with pytest.raises(wg.DTypeError, match="complex"):
        wg.ops.reduction("max_of(x)", "x", "max")(wg.tensor([1 + 5j, 2 - 1j]))
    for wrong in ({"formula": "1"}, {"formula": ("x", "x")}, {"formula": "x", "finish": "3"}):
        with pytest.raises(GraphError, match=r"wrong_of|depends on none of"):
            wg.ops.reduction("wrong_of(x)", **wrong)
    with pytest.raises(GraphError, match="axis is an argument of every reduction"):
        wg.ops.reduction("wrong_of(axis)", "axis")


def test_text_is_not_read_as_another_formula() -> None:
    old = wg.ops.elementwise("read_again(x)", "2 * x")
    graph = wg.graph(lambda x: old(x))(wg.spec(()))
    assert float(wg.Graph.parse(graph.text())(3.0)) == 6
    wg.ops.elementwise("read_again(x)", "5 * x")
    assert float(graph(3.0)) == 6
    with pytest.raises(GraphError):
        wg.Graph.parse(graph.text())


def documents(graph: wg.Graph) -> list[tuple[Any, str]]:
    """A graph's documents, each with what reads it."""
    return [(wg.Graph.parse, graph.text()), (wg.Graph.from_json, graph.to_json()), (pickle.loads, pickle.dumps(graph))]


def test_documents_say_how_users_ops_are_declared() -> None:
    inner = wg.ops.elementwise("inner_part(x)", "x  *  2")
    two = wg.ops.elementwise("two_parts(x, y)", ("inner_part(x) if x > 0 else y", "y"))
    size = wg.ops.reduction("size_part(x)", "inner_part(x)", "mean", "sqrt(out) + 1 / out")

    def f(x: Any) -> Any:
        a, b = two(x, 3.0)
        return size(a + b) + wg.fori_loop(0, 3, lambda i, c: inner(c), x).sum()

    graph = wg.graph(f)(wg.spec((3,)))
    said = [
        "inner_part(x) = x * 2",
        "two_parts(x, y) = inner_part(x) if x > 0 else y, +y",
        "size_part(x) = sqrt(mean(inner_part(x))) + 1 / mean(inner_part(x))",
    ]
    assert graph.text().splitlines()[:3] == [f'op "{s}"' for s in said]
    assert json.loads(graph.to_json())["ops"] == said
    x = wg.tensor([1.0, -2.0, 3.0])
    for read, document in documents(graph):
        again = read(document)
        assert again == graph
        assert float(again(x)) == float(graph(x)) == float(f(x))
    assert "op " not in wg.graph(lambda x: wg.exp(x))(wg.spec((3,))).text()


@pytest.mark.parametrize(
    ("here", "error"),
    [
        ("", r"other_part\(x\) = x \* 2 in the document; other_part is not declared here"),
        (
            "x * 3",
            r"other_part\(x\) = x \* 2 in the document; other_part is another function: other_part\(x\) = x \* 3",
        ),
    ],
)
def test_documents_are_not_read_as_other_functions(here: str, error: str) -> None:
    inner = wg.ops.elementwise("other_part(x)", "x * 2")
    outer = wg.ops.elementwise("other_whole(x)", "exp(other_part(x))")
    made = documents(wg.graph(lambda x: inner(x))(wg.spec((3,)))) + documents(
        wg.graph(lambda x: outer(x))(wg.spec((3,)))
    )
    del TABLE["other_part"]
    if here:
        wg.ops.elementwise("other_part(x)", here)
    for read, document in made:
        with pytest.raises(GraphError, match=error):
            read(document)


@pytest.mark.parametrize("said", ["", 'op "left_out(x) = whole_of(x)"\n'])
def test_documents_that_leave_a_declaration_out(said: str) -> None:
    wg.ops.elementwise("whole_of(x)", "x * 2")
    wg.ops.elementwise("left_out(x)", "whole_of(x)")
    with pytest.raises(GraphError, match=r"(left_out|left_out, made of whole_of,) is declared here as .*not at all"):
        wg.Graph.parse(f"{said}graph(x: f32[2]) -> f32[2]\n  a: f32[2] = left_out x\n  return a")


@pytest.mark.parametrize("said", ["op 3", 'op "exp(x) = x"', 'op "', "op", 'op "nothing"'])
def test_wrong_declarations(said: str) -> None:
    with pytest.raises(GraphError, match=r"line [12]"):
        wg.Graph.parse(f"{said}\ngraph(x: f32[2]) -> f32[2]\n  return x")
    with pytest.raises(GraphError, match="ops"):
        wg.Graph.from_json(json.dumps(json.loads(wg.graph(wg.exp)(wg.spec(())).to_json()) | {"ops": [said, 3]}))


IDENTITY = wg.ops.elementwise("identity_of(x)", "x")
SWAPPED = wg.ops.elementwise("swapped_of(x, y)", ("y", "2 * x"))


@pytest.mark.parametrize(
    ("f", "slopes"),
    [
        (lambda x: [IDENTITY(x)], [1.0]),
        (lambda x: list(SWAPPED(3.0, x)), [1.0, 0.0]),
        (lambda x: list(SWAPPED(x, 3.0)), [0.0, 2.0]),
    ],
    ids=["argument", "number first", "number last"],
)
def test_arguments_that_are_results(f: Any, slopes: list[float]) -> None:
    """A result is a tensor of its own, of the shape and dtype that all operands have together, in every mode."""
    x = wg.tensor([1.0, -2.0, 3.0])
    eager = f(x)
    want = [np.asarray(r).tolist() for r in eager]
    assert all(isinstance(r, wg.Tensor) and (r.shape, r.dtype) == ((3,), wg.float32) for r in eager)
    compiled = wg.jit(f)
    for _ in range(6):
        for mode in (compiled, wg.graph(f)(x), wg.vmap(f)):
            assert [np.asarray(r).tolist() for r in mode(x)] == want
    for got, slope in zip(wg.jacobian(f)(x), slopes, strict=True):
        assert np.asarray(got).tolist() == (np.eye(3) * slope).tolist()
    for r in eager:
        r += 1
    assert x.tolist() == [1.0, -2.0, 3.0]


def test_numbers_that_are_results() -> None:
    assert [float(r) for r in SWAPPED(1.0, 3.0)] == [3.0, 2.0]
    assert all(isinstance(r, wg.Tensor) for r in (*SWAPPED(1.0, 3.0), IDENTITY(2.0)))


def test_reductions_keep_the_parts_that_they_were_declared_with() -> None:
    wg.ops.elementwise("part_of_sum(x)", "x * x")
    total = wg.ops.reduction("sum_of_parts(x)", "part_of_sum(x)")
    wg.ops.elementwise("part_of_sum(x)", "x * x * x")
    x = wg.tensor([1.0, 2.0, 3.0])
    compiled = wg.jit(total)
    assert [float(compiled(x)) for _ in range(6)] == [float(total(x))] * 6 == [14.0] * 6
    graphs = (wg.graph(f)(x) for f in (total, lambda x: (x * x).sum()))
    assert len({wg.explain.cost(g).flops for g in graphs}) == 1


def test_the_same_again_is_the_same(tmp_path: Path) -> None:
    old = wg.ops.elementwise("same_again(x)", "2 * x")
    graph = wg.graph(lambda x: old(x))(wg.spec(()))
    wg.ops.elementwise("same_again(x)", "2 * x")
    assert float(wg.Graph.parse(graph.text())(3.0)) == 6
    with pytest.raises(GraphError, match="forward of same_again"):
        wg.ops.elementwise("same_again(x)", "2 * x", forward=np.abs, partials={"x": lambda x: x})
    assert float(wg.Graph.parse(graph.text())(3.0)) == 6  # a refused declaration leaves the one before


NESTED = """
import sys, wengert as wg
inner = wg.ops.elementwise("inner_of(x)", sys.argv[1])
outer = wg.ops.elementwise("outer_of(x)", "2 * inner_of(x)")
f = wg.jit(lambda x: outer(x) + 1)
print([float(f(wg.tensor(3.0))) for _ in range(3)])
"""


def test_processes_with_other_inner_formulas_share_a_cache(tmp_path: Path) -> None:
    env = {**os.environ, "WENGERT_CACHE_DIR": str(tmp_path)}
    for inner, want in (("x", 7.0), ("x * x", 19.0), ("x", 7.0)):
        said = subprocess.run([sys.executable, "-c", NESTED, inner], env=env, capture_output=True, text=True)
        assert said.stdout.strip() == str([want] * 3), said.stderr


def test_functions_are_pickled_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_ops")
    monkeypatch.setitem(sys.modules, "own_ops", module)
    text = """
import wengert as wg
softest = wg.ops.elementwise("softest(x)", "log1p(exp(x))")
quick = wg.ops.elementwise("quick(x)", "x * x", forward=lambda x: x * x, partials={"x": lambda x: 2 * x})
length = wg.ops.reduction("length(x)", "x * x", "sum", "sqrt(out)")
"""
    exec(text, vars(module))
    for f in (module.softest, module.quick, module.length):
        assert pickle.loads(pickle.dumps(f)) is f
    model = wg.jit(module.softest)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again(wg.tensor([0.5, 1.0])).numpy(), model(wg.tensor([0.5, 1.0])).numpy())


def test_declared_again() -> None:
    """A notebook's cell runs again, with another formula: programs made before keep theirs."""
    first = wg.ops.elementwise("again(x)", "x + 1")
    compiled = wg.jit(lambda x: first(x))
    second = wg.ops.elementwise("again(x)", "x + 2")
    other = wg.jit(lambda x: second(x))
    for _ in range(6):
        assert float(compiled(wg.tensor(1.0))) == 2.0
        assert float(other(wg.tensor(1.0))) == 3.0


@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.formulas and not op.combine])
def test_formulas_are_what_is_computed(name: str) -> None:
    op = TABLE[name]
    assert op.samples is not None
    for call in op.samples(np.random.default_rng(0)):
        args = [wg.tensor(a) for a in call.args]
        got = op.front(*args, **call.attrs)
        for formula, result in zip(op.formulas, got if isinstance(got, tuple) else (got,), strict=True):
            close(formula(*args, **call.attrs), np.asarray(result), rtol=1e-12)


def test_documents_have_formulas_of_what_the_page_knows() -> None:
    wg.ops.elementwise("twice_log_cosh(x)", "2 * log_cosh(x)")
    declared = documented(TABLE["twice_log_cosh"])
    assert declared is not None
    assert [name for name, *_ in declared["parts"]] == ["negative", "logaddexp", "subtract", "multiply"]
    assert documented(TABLE["exp"]) is None
    x = wg.tensor(0.7, requires_grad=True)
    fused = wg.ops.elementwise(
        "page_log_cosh(x)",
        "logaddexp(x, -x) - log(2)",
        forward=lambda x: np.log(np.cosh(x)),
        partials={"x": lambda x: wg.tanh(x)},
    )
    s, c = OURS["sincos"](fused(x))
    table = wg.explore(s * c + OURS["sumsq"](x)).document["ops"]
    by_name = dict(zip(table["name"], zip(table["formula"], table["say"], strict=True), strict=True))
    formula, said = by_name["page_log_cosh"]
    assert [name for name, *_ in formula["parts"]] == ["negative", "logaddexp", "subtract"]
    assert "logaddexp(x, -x) - log(2)" in said
    assert by_name["sin"][0] is None


@pytest.mark.slow
def test_one_declaration_in_the_library(tmp_path: Path) -> None:
    """In a copy of the tree four declarations in one file are exported, and in stubs, docs and generated tests."""
    for part in ("src", "scripts", "tests", "docs", "explorer/src/engine"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "static"))
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    family = tmp_path / "src/wengert/ops/pointwise/xlogy.py"
    declared = DECLARATIONS.format(export=', export=""')
    family.write_text(f"{family.read_text()}\nfrom ..formulas import elementwise, reduction  # noqa: E402\n{declared}")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}

    def run(*command: str) -> str:
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    said = run("-c", "import wengert as wg; x = wg.tensor([3.0, 4.0]); print(wg.sumsq(x), x.log_cosh().shape, wg.exp)")
    assert said.startswith("tensor(25.) (2,)")
    run("scripts/generate.py")
    stubs = (tmp_path / "src/wengert/__init__.pyi").read_text()
    page = (tmp_path / "docs/operations.md").read_text()
    for name in FOUR:
        assert f"def {name}(x: " in stubs
        assert f"`{name}" in page
    chosen = " or ".join(f"{name}]" for name in FOUR)
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/ops/test_op_table.py", "-k", chosen)
    assert int(out.split(" passed")[0].split()[-1]) >= 24, out
