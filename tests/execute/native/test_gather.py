"""Gathers and scatters of generated code against the ops' forwards, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import ml_dtypes

import wengert as wg
from processors import on_processors
from stepping import TARGETS, Bench, check, node_of, numbers, strided
from wengert.core.errors import RangeError
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.plan.lowering import RULES
from wengert.execute.native.plan.plan import View

# Shape, shapes of the index arrays, the first of their axes.
CASES: list[tuple[tuple[int, ...], tuple[tuple[int, ...], ...], int]] = [
    ((3, 4), ((4,),), -2),
    ((7,), ((2, 5),), -1),
    ((3, 4), ((2, 2),), -1),
    ((2, 3, 5, 2), ((3, 1), (4,)), -3),
    ((3,), ((),), -1),
    ((3, 2), ((0,),), -2),
    ((3, 0), ((2,),), -2),
    ((65, 128), ((6, 8),), -2),
    ((5, 9, 33), ((70,),), -2),
    ((2, 4, 5, 6), ((50,), (50,), (50,)), -3),
]
INDEX_DTYPES = ["i8", "i4", "u1", "i1"]


def indices_for(rng: Any, shape: tuple[int, ...], shapes: Any, axis: int, dtype: str) -> list[np.ndarray]:
    first = len(shape) + axis
    low = 0 if dtype[0] == "u" else -1
    sizes = shape[first : first + len(shapes)]
    return [np.asarray(rng.integers(low * n, n, s)).astype(dtype) for s, n in zip(shapes, sizes, strict=True)]


DTYPES = ["f4", "f8", "i1", "i8", "c8", "c16", "f2", "?", ml_dtypes.bfloat16]


@pytest.mark.parametrize(("dtype", "target"), on_processors(DTYPES, lambda d: np.dtype(d).name))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_index(case: Any, dtype: str, target: str) -> None:
    shape, shapes, axis = case
    rng = np.random.default_rng(1)
    for k, itype in enumerate(INDEX_DTYPES if max(shape) < 128 else ["i8", "u1"]):
        x, indices = numbers(rng, shape, dtype), indices_for(rng, shape, shapes, axis, itype)
        if k % 2:
            x, indices = strided(x, rng), [strided(i, rng) for i in indices]
        common = np.broadcast_shapes(*shapes)
        at = len(shape) + axis
        ct = numbers(rng, (*shape[:at], *common, *shape[at + len(shapes) :]), dtype)
        sizes = shape[at : at + len(shapes)]
        check("index", [x, *indices], {"axis": axis}, target)
        check("index_update", [x, ct, *indices], {"axis": axis}, target)
        check("index_is_last", indices, {"sizes": sizes}, target)
        if dtype != "?":
            check("index_transpose", [ct, *indices], {"axis": axis, "sizes": sizes}, target)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_places_of_constants_are_known(case: Any) -> None:
    """Of index arrays that are constants no call computes places; those out of range are errors of every call."""
    shape, shapes, axis = case
    rng = np.random.default_rng(7)
    x = numbers(rng, shape, "f4")
    for itype in ("i8", "u1", "u8"):
        indices = [strided(i, rng) for i in indices_for(rng, shape, shapes, axis, itype)]
        held = [wg.asarray(i) for i in indices]
        at = len(shape) + axis
        compiled = wg.jit(lambda x: x[(slice(None),) * at + tuple(held)])  # noqa: B023
        graph = wg.graph(lambda x: x[(slice(None),) * at + tuple(wg.asarray(i) for i in indices)])(wg.spec(x.shape))  # noqa: B023
        made = compile_graph(graph)
        assert not any(s.label.startswith(("places", "range")) for s in made.plan.steps)
        want = x[(slice(None),) * at + tuple(indices)]
        np.testing.assert_array_equal(compiled(wg.tensor(x)).numpy(), want)
        np.testing.assert_array_equal(made.program.run([x])[0], want)


@pytest.mark.parametrize("wrong", [3, -4])
def test_constants_out_of_range_are_errors_of_calls(wrong: int) -> None:
    x, index = np.ones((3, 4)), np.array([0, wrong])
    node = node_of("index", [x, index], {"axis": -2})
    low = Bench()
    low.views.update({node.inputs[0]: low.given(x), node.inputs[1]: low.constant(index)})
    result = RULES["index"](low, node)
    assert isinstance(result, View)
    with pytest.raises(RangeError, match="out of range"):
        low.run(result)


def test_index_update_of_a_broadcast_value() -> None:
    x, i = np.arange(12.0).reshape(3, 4), np.array([2, 0])
    check("index_update", [x, 7.0, i], {"axis": -2})
    check("index_update", [x, np.arange(4.0), i], {"axis": -2})
    check("index_update", [x, np.arange(2.0)[:, None], i], {"axis": -2})


ALIGNED: list[tuple[tuple[int, ...], int, int]] = [
    ((3, 4), -1, 2), ((3, 4), -2, 7), ((9,), -1, 100), ((2, 3, 4), -2, 1),
    ((2, 70, 3), -2, 70), ((4, 5), -1, 0), ((0, 4), -1, 3), ((300, 33), -1, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "target"),
    on_processors(["f4", "f8", "u2", "c8", "c16", "f2", ml_dtypes.bfloat16], lambda d: np.dtype(d).name),
)
@pytest.mark.parametrize("case", ALIGNED, ids=str)
def test_gather(case: Any, dtype: str, target: str) -> None:
    shape, axis, count = case
    rng = np.random.default_rng(2)
    for k, itype in enumerate(["i8", "i4", "u2"]):
        size = shape[axis]
        wanted = tuple(count if d - len(shape) == axis else n for d, n in enumerate(shape))
        index = rng.integers(0 if itype[0] == "u" else -size, size, wanted).astype(itype)
        x, ct = numbers(rng, shape, dtype), numbers(rng, wanted, dtype)
        if k:
            x, ct, index = strided(x, rng), strided(ct, rng), strided(index, rng)
        check("gather", [x, index], {"axis": axis}, target)
        check("gather_transpose", [ct, index], {"axis": axis, "size": size}, target)


def test_a_single_write_keeps_minus_zero() -> None:
    check("gather_transpose", [np.array([[-0.0]]), np.array([[1]])], {"axis": -1, "size": 3})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?", "i1", "c8"])
def test_one_hot(dtype: str, target: str) -> None:
    rng = np.random.default_rng(3)
    for shape, classes in [((), 3), ((5,), 1), ((2, 3), 17), ((0,), 4), ((3, 100), 70)]:
        index = np.asarray(rng.integers(0, classes, shape))
        check("one_hot", [index], {"num_classes": classes, "dtype": np.dtype(dtype)}, target)
        check("one_hot", [strided(index, rng)], {"num_classes": classes, "dtype": np.dtype(dtype)}, target)


OUTSIDE: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("index", [np.ones((3, 4)), np.array([0, 3])], {"axis": -2}),
    ("index", [np.ones((3, 4)), np.array([0, -4])], {"axis": -2}),
    ("index", [np.ones((3, 4)), np.array([0, 2], np.uint8), np.array([[4], [1]])], {"axis": -2}),
    ("index", [np.ones((0, 4)), np.array([0])], {"axis": -2}),
    ("index", [np.ones((3, 0)), np.array([5])], {"axis": -2}),
    ("index_update", [np.ones(3), 0.0, np.array([2**40])], {"axis": -1}),
    ("index_transpose", [np.ones(1), np.array([3])], {"axis": -1, "sizes": (3,)}),
    ("index_is_last", [np.array([0, 3])], {"sizes": (3,)}),
    ("gather", [np.ones((2, 3)), np.array([[0], [3]])], {"axis": -1}),
    ("gather", [np.ones((2, 0)), np.array([[0], [0]])], {"axis": -1}),
    ("gather_transpose", [np.ones((2, 1)), np.array([[0], [-4]])], {"axis": -1, "size": 3}),
]  # fmt: skip


@pytest.mark.parametrize("case", OUTSIDE, ids=lambda c: c[0])
def test_an_index_out_of_range_is_an_error(case: Any) -> None:
    name, args, attrs = case
    with pytest.raises(RangeError, match="out of range"):
        check(name, args, attrs)


@pytest.mark.parametrize(("index", "classes"), [([1, 3], 3), ([1, -1], 3), ([1], 0)])
def test_a_class_that_does_not_exist_is_an_error(index: list[int], classes: int) -> None:
    with pytest.raises(RangeError, match=f"one_hot: class {index[-1]} in {classes} classes"):
        check("one_hot", [np.array(index)], {"num_classes": classes, "dtype": np.dtype("f4")})


def test_an_index_is_checked_once_so_that_a_step_writes_where_its_state_stood() -> None:
    tables = [wg.nn.Embedding(50, 8), wg.nn.Embedding(3, 8)]
    opt = wg.optim.Adam([p for table in tables for p in table.parameters()], lr=0.1)

    @wg.jit
    def step(index: Any) -> Any:
        value = ((tables[0](index) + tables[1](wg.arange(3))) ** 2).sum()
        value.backward()
        opt.step()
        opt.zero_grad()
        return value

    index = wg.tensor([[3, 1, 3], [0, 7, 49]])
    found = [float(step(index)) for _ in range(6)]
    assert found == sorted(found, reverse=True)
    assert step.memory.outputs < 50  # the value and the count of steps: nothing of a table's size
    before = tables[0].weight.detach().numpy().copy()
    for wrong in ([[3, 1, 3], [0, -1, 49]], [[50, 1, 3], [0, 1, 49]]):
        with pytest.raises(RangeError, match="in a table of 50 rows"):
            step(wg.tensor(wrong))
    assert (tables[0].weight.detach().numpy() == before).all()


def test_an_index_is_checked_again_where_it_or_the_size_is_another() -> None:
    def moved(i: Any, x: Any) -> Any:
        first, i = x[i], i + 1
        return i, first + x[i]

    graph = wg.graph(moved)(wg.spec((2,), wg.int64), wg.spec((5,)))
    written = compile_graph(graph, (True, False))  # the second index lies where the first one lay
    x = np.arange(5, dtype=np.float32)
    found, total = written.run([np.array([3, 1]), x])
    assert (found.tolist(), total.tolist()) == ([4, 2], [7.0, 3.0])
    with pytest.raises(RangeError, match="out of range"):
        written.run([np.array([4, 1]), x])
    shorter = wg.jit(lambda i: wg.tensor(x)[i] + wg.tensor(x)[:3][i] + wg.tensor(x)[i.reshape(2, 1)][:, 0])
    assert shorter(wg.tensor([2, 1])).tolist() == [6.0, 3.0]
    with pytest.raises(RangeError, match="out of range"):
        shorter(wg.tensor([3, 1]))


def test_what_a_branch_or_a_loop_checks_is_checked_again_after_it() -> None:
    x = wg.arange(5.0)

    @wg.jit
    def branch(i: Any, c: Any) -> Any:
        return wg.cond(c, lambda i: x[i].sum(), lambda i: wg.tensor(0.0), i) + (x * 2)[i].sum()

    @wg.jit
    def loop(i: Any, n: Any) -> Any:
        start = wg.tensor(0), wg.tensor(0.0)
        return wg.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + x[i].sum()), start)[1] + (x * 2)[i].sum()

    assert float(branch(wg.tensor([1, 2]), wg.tensor(True))) == float(loop(wg.tensor([1, 2]), wg.tensor(1))) == 9.0
    for f, skipped in ((branch, wg.tensor(False)), (loop, wg.tensor(0))):
        with pytest.raises(RangeError, match="out of range"):
            f(wg.tensor([1, 7]), skipped)


def test_an_index_beside_one_without_elements_names_no_place() -> None:
    none, beyond = np.zeros((0, 1), np.int64), np.array([0, 9])
    for op, args, attrs in (
        ("index_is_last", [none, beyond], {"sizes": (2, 3)}),
        ("index", [np.zeros((2, 3)), none, beyond], {"axis": -2}),
        ("index_transpose", [np.zeros((0, 2)), none, beyond], {"axis": -2, "sizes": (2, 3)}),
    ):
        check(op, args, attrs)


def test_big_rows_and_many_rows() -> None:
    rng = np.random.default_rng(4)
    for rows, d, n in [(50, 20000, 7), (1000, 3, 5000), (40000, 1, 30000)]:
        x, i = rng.normal(size=(rows, d)).astype("f4"), rng.integers(0, rows, n)
        check("index", [x, i], {"axis": -2})
        check("index_transpose", [x[i % rows], i], {"axis": -2, "sizes": (rows,)})


def test_nodes_are_those_of_traced_programs() -> None:
    g = wg.graph(lambda w, i: wg.torch.embedding(w, i))(wg.spec((5, 4)), wg.spec((3,), wg.int64))
    assert node_of("index", [np.ones((5, 4), "f4"), np.arange(3)], {"axis": -2}).op is g.outputs[0].op


@pytest.mark.parametrize("run", ["jit", "vmap", "graph"])
@pytest.mark.parametrize("bad", [-1, -3, -4, 3])
def test_ids_of_a_table_do_not_count_from_the_end(run: str, bad: int) -> None:
    """The compiled check is that of eager execution, whose message it has; gradients go nowhere."""
    table = wg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    runs: dict[str, Any] = {"jit": wg.jit, "vmap": wg.vmap, "graph": lambda f: wg.graph(f)(wg.spec((2,), wg.int64))}
    lookup = runs[run](lambda i: wg.nn.functional.embedding(i, table))
    assert lookup(wg.tensor([2, 0])).tolist() == [[5.0, 6.0], [1.0, 2.0]]
    with pytest.raises(wg.RangeError, match=f"embedding: id {bad} in a table of 3 rows"):
        lookup(wg.tensor([0, bad]))
    gradient = wg.jit(wg.grad(lambda table, i: wg.nn.functional.embedding(i, table).sum()))
    with pytest.raises(wg.RangeError, match=f"embedding: id {bad} in a table of 3 rows"):
        gradient(table, wg.tensor([0, bad]))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_ids_of_any_integer_dtype(dtype: str) -> None:
    table = wg.arange(600.0).reshape(300, 2)
    lookup = wg.jit(lambda i, table: wg.nn.functional.embedding(i, table))
    ids = wg.tensor(np.array([100, 0], dtype))
    assert lookup(ids, table).tolist() == [[200.0, 201.0], [0.0, 1.0]]
    for bad in (100, *([-1] if dtype.startswith("int") else [])):
        with pytest.raises(wg.RangeError):
            lookup(wg.tensor(np.array([bad, 0], dtype)), table[:3])
