"""Indexing against NumPy, its gradients against loops, and its errors as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg


def value(x: wg.Tensor) -> np.ndarray:
    return np.asarray(x.detach())


def variable(shape: tuple[int, ...], seed: int = 0) -> wg.Tensor:
    return wg.tensor(np.asarray(np.random.default_rng(seed).normal(size=shape)), requires_grad=True)


# -- any index that NumPy takes


@st.composite
def indexed(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    """A shape and an index expression for it: valid most of the time."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    used = draw(st.integers(0, len(shape)))
    dots = draw(st.integers(0, used)) if draw(st.booleans()) else None
    front = used if dots is None else dots
    axes = [*range(front), *range(len(shape) - (used - front), len(shape))]
    common = draw(st.sampled_from([(), (1,), (2,), (3, 2)]))
    bound = st.one_of(st.none(), st.integers(-5, 5))
    items: list[Any] = []
    for position in range(used + 1):
        if position == dots:
            items.append(Ellipsis)
        if draw(st.integers(0, 6)) == 0:
            items.append(None)
        if position == used:
            break
        n = shape[axes[position]]
        kind = draw(st.sampled_from(["int", "slice", "array", "array", "mask"]))
        if kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            items.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, -1, -3]))))
        elif kind == "array":
            size = int(np.prod(common))
            items.append(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))).reshape(common))
        else:
            items.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))))
    return shape, items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


def with_tensors(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(with_tensors, index))
    return wg.asarray(index) if isinstance(index, np.ndarray) else index


@settings(max_examples=160, deadline=None)
@given(indexed(), st.booleans())
def test_agrees_with_numpy(case: tuple[tuple[int, ...], Any], tensors: bool) -> None:
    shape, index = case
    x = variable(shape)
    plain = value(x)
    ours = with_tensors(index) if tensors else index
    try:
        want = plain[index]
    except IndexError:
        for t in (x, x.detach()):
            with pytest.raises(wg.RangeError):
                t[ours]
        return
    for t in (x, x.detach()):
        got = t[ours]
        assert got.shape == want.shape
        np.testing.assert_array_equal(value(got), want)
    ct = np.asarray(np.random.default_rng(1).normal(size=want.shape))
    x[ours].backward(wg.tensor(ct))
    expected = np.zeros(shape)
    np.add.at(expected, index, ct)
    assert x.grad is not None
    np.testing.assert_allclose(value(x.grad), expected)


@settings(max_examples=160, deadline=None)
@given(indexed(), st.booleans())
def test_writing_agrees_with_numpy(case: tuple[tuple[int, ...], Any], scalar: bool) -> None:
    shape, index = case
    leaf = variable(shape)
    plain = value(leaf)
    try:
        target = plain[index].shape
    except IndexError:
        with pytest.raises(wg.RangeError):
            (leaf * 1.0)[index] = 0.0
        return
    v = variable(() if scalar else target, seed=2)
    want = plain.copy()
    want[index] = value(v)
    untracked = wg.tensor(plain)
    untracked[index] = value(v)
    np.testing.assert_array_equal(value(untracked), want)
    x = leaf * 1.0
    x[index] = v
    np.testing.assert_array_equal(value(x), want)

    ct = np.asarray(np.random.default_rng(3).normal(size=shape))
    writer = np.full(shape, -1)
    writer[index] = np.broadcast_to(np.arange(v.size).reshape(v.shape), target)
    in_v = np.zeros(v.size)
    np.add.at(in_v, writer[writer >= 0], ct[writer >= 0])
    x.backward(wg.tensor(ct))
    assert leaf.grad is not None
    np.testing.assert_allclose(value(leaf.grad), np.where(writer < 0, ct, 0.0))
    found = np.zeros(v.shape) if v.grad is None else value(v.grad)
    np.testing.assert_allclose(found.ravel(), in_v)


@pytest.mark.parametrize("index", [True, False, (True, 1), (..., False), ([0, 1], True)])
def test_zero_dimensional_masks(index: Any) -> None:
    x = variable((3, 2))
    np.testing.assert_array_equal(value(x[index]), value(x)[index])


@pytest.mark.parametrize("dtype", [wg.bool, wg.int8, wg.uint64, wg.float16, wg.bfloat16, wg.complex64])
def test_every_dtype(dtype: Any) -> None:
    x = wg.asarray(np.arange(6).reshape(2, 3)).astype(dtype)
    assert x[1].dtype == dtype
    assert x[:, [0, 2]].dtype == dtype
    x[0, 1] = 1
    assert x.dtype == dtype
    assert value(x[0, 1].astype(wg.float64)) == 1.0 if dtype != wg.complex64 else value(x)[0, 1] == 1


@pytest.mark.parametrize("dtype", [wg.int8, wg.uint8, wg.int32, wg.uint64])
def test_every_integer_dtype_indexes(dtype: Any) -> None:
    x = variable((4, 2))
    i = wg.tensor([3, 0, 3]).astype(dtype)
    y = x[i]
    np.testing.assert_array_equal(value(y), value(x)[[3, 0, 3]])
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(value(x.grad), [[1, 1], [0, 0], [0, 0], [2, 2]])


def test_slices_with_tensor_bounds_and_empty_results() -> None:
    x = variable((4, 2))
    n = wg.tensor(2)
    assert x[:n].shape == (2, 2)
    assert x[3:1].shape == (0, 2)
    assert x[[]].shape == (0, 2)
    x[3:1].sum().backward()
    assert x.grad is not None
    assert not value(x.grad).any()
    assert wg.zeros((0, 3))[:, 1].shape == (0,)


def test_a_slice_is_a_value() -> None:
    x = wg.tensor([1.0, 2.0, 3.0])
    y = x[1:]
    x[2] = 9.0
    with pytest.raises(wg.WriteError, match="would not reach that tensor"):
        y[0] = 7.0
    np.testing.assert_array_equal(value(y), [2.0, 3.0])
    y = y.clone()
    y[0] = 7.0
    np.testing.assert_array_equal(value(x), [1.0, 2.0, 9.0])
    np.testing.assert_array_equal(value(y), [7.0, 3.0])


def test_iteration_and_unpacking() -> None:
    a, b = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert a.tolist() == [1.0, 2.0]
    assert b.tolist() == [3.0, 4.0]


def test_equal_indices_make_equal_nodes() -> None:
    x = variable((4, 3))
    nodes = [x[i].node for i in (slice(0, 4, 3), slice(None, None, 3), slice(-4, 9, 3))]
    assert len({str(n.attrs) for n in nodes if n is not None}) == 1


# -- writes


def test_write_keeps_what_was_computed_before() -> None:
    x = variable((3,))
    y = x * 2.0
    z = y * y
    y[0] = 5.0
    (z.sum() + y.sum()).backward()
    assert x.grad is not None
    np.testing.assert_allclose(value(x.grad), 8 * value(x) + [0.0, 2.0, 2.0])


def test_write_into_a_constant_tracks_the_value() -> None:
    v = wg.tensor(3.0, requires_grad=True)
    buffer = wg.zeros(3)
    for i in range(3):
        buffer[i] = v * float(i)
    assert buffer.requires_grad
    (buffer * buffer).sum().backward()
    assert v.grad is not None
    assert v.grad.item() == pytest.approx(2 * 3.0 * (1 + 4))


def test_write_to_a_leaf() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(wg.GradientError, match=r"x\[...\] = v on a leaf that requires gradients, \(2,\) float32") as e:
        w[0] = 0.0
    assert "no_grad" in str(e.value)
    node = w.node
    with wg.no_grad():
        w[0] = 0.0
    assert w.is_leaf
    assert w.node is node
    assert w.tolist() == [0.0, 2.0]


def test_masked_write_is_a_choice() -> None:
    x = variable((2, 3))
    y = x * 1.0
    y[y > 0] = 0.0
    assert y.node is not None
    assert y.node.op.name == "where"
    np.testing.assert_array_equal(value(y), np.minimum(value(x), 0.0))


def test_values_take_the_tensors_dtype() -> None:
    x = wg.tensor([1, 2, 3])
    x[0] = 7.9
    assert x.tolist() == [7, 2, 3]
    y = wg.zeros(2)
    y[:] = wg.tensor([1.0, 2.0], dtype=wg.float64)
    assert y.dtype == wg.float32
    with pytest.raises(wg.DTypeError, match="imaginary"):
        y[0] = wg.tensor(1j)


def test_structural_zeros() -> None:
    x = wg.tensor([0.0, 4.0], requires_grad=True)
    wg.sqrt(x)[1].backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.25]
    x.grad = None
    wg.sqrt(x)[[1, 1]].sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]
    x.grad = None
    y = wg.sqrt(x)
    y[0] = 1.0
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_second_order_through_indices_and_writes() -> None:
    x = wg.tensor([1.0, 2.0, 3.0], dtype=wg.float64, requires_grad=True)

    def f(x: wg.Tensor) -> wg.Tensor:
        y = x * x
        y[0] = y[2] * x[1]
        return (y[[0, 1, 1]] * x[[2, 2, 0]]).sum()

    wg.check_grads(f, (x.detach(),), order=2)


# -- while tracing


def test_traced_reads_and_writes() -> None:
    def f(x: wg.Tensor, i: wg.Tensor, m: wg.Tensor) -> wg.Tensor:
        y = x * 1.0
        y[m] = 0.0
        y[i] = x[0] + 1.0
        return y[:, ::-1][[1, 0]]

    x, i, m = wg.tensor([[1.0, 2.0], [3.0, 4.0]]), wg.tensor([1]), wg.tensor([[True, False], [False, False]])
    g = wg.graph(f)(x, i, m)
    np.testing.assert_array_equal(value(g(x, i, m)), value(f(x, i, m)))


def test_abstract_masks_say_what_to_write() -> None:
    with pytest.raises(wg.TraceError, match="abstract mask") as e:
        wg.graph(lambda x, m: x[m])(wg.ones(3), wg.tensor([True, False, True]))
    assert "wg.where" in str(e.value)


def test_constant_indices_are_checked_while_tracing() -> None:
    with pytest.raises(wg.RangeError, match="index 7 is out of range for axis 0 of size 3"):
        wg.graph(lambda x: x[[0, 7]])(wg.ones(3))


# -- errors


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        (5, wg.RangeError, "index 5 is out of range for axis 0 of size 3, tensor (3, 4) float32"),
        ((0, -5), wg.RangeError, "index -5 is out of range for axis 1 of size 4"),
        ((slice(None), [0, 9]), wg.RangeError, "index 9 is out of range for axis 1 of size 4"),
        ((0, 0, 0), wg.RangeError, "too many indices: 3 for a tensor with 2 dimensions"),
        (([0, 1], [0, 1, 2]), wg.RangeError, "index arrays of shapes (2,) and (3,)"),
        (np.ones(4, bool), wg.RangeError, "a mask of shape (4,) over axes of shape (3,)"),
        ((..., 0, ...), wg.RangeError, "2 ellipses"),
        (slice(None, None, 0), wg.RangeError, "step"),
        (1.0, wg.DTypeError, "an index of type float"),
        ([0.5], wg.DTypeError, "an index of dtype float32, shape (1,)"),
        (slice(0.5, None), wg.DTypeError, "slice"),
        ("a", wg.DTypeError, "an index of type str"),
    ],
)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_bad_indices(index: Any, kind: type[Exception], text: str, requires_grad: bool) -> None:
    x = wg.tensor(np.zeros((3, 4), np.float32), requires_grad=requires_grad)
    with pytest.raises(kind) as e:
        x[index]
    first = str(e.value).splitlines()[0]
    assert text in first
    assert "test_index.py:" in first
    with pytest.raises(kind):
        (x * 1.0)[index] = 0.0


def test_bad_values() -> None:
    x = wg.zeros((3, 4))
    for v in (np.zeros(3), np.zeros((2, 3, 4))):
        with pytest.raises(wg.ShapeError, match="written to"):
            x[...] = v
    y = variable((3, 4)) * 1.0
    with pytest.raises(wg.ShapeError, match="written where a mask of shape"):
        y[y[:, 0] > 0] = wg.zeros(5)


# -- functions along one axis


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_take(axis: int | None, shape: tuple[int, ...]) -> None:
    x = variable((3, 4))
    i = np.random.default_rng(5).integers(-3, 3, shape)
    y = wg.take(x, i, axis=axis)
    np.testing.assert_array_equal(value(y), np.take(value(x), i, axis))
    wg.check_grads(lambda t: wg.take(t, i, axis=axis), (x.detach(),))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis: int) -> None:
    x = variable((3, 4))
    i = np.argsort(value(x), axis)
    np.testing.assert_array_equal(value(wg.take_along_axis(x, i, axis=axis)), np.sort(value(x), axis))
    first = np.take(i, [0], axis)
    np.testing.assert_array_equal(value(x.take_along_axis(first, dim=axis)), np.min(value(x), axis, keepdims=True))
    broadcast = wg.take_along_axis(x, np.zeros((1, 1), int), axis=axis)
    np.testing.assert_array_equal(value(broadcast), np.take(value(x), [0], axis))


def test_gather_and_scatter_are_smaller_in_other_axes() -> None:
    x = variable((3, 4))
    i = wg.tensor([[3, 0, 1], [2, 2, 2]])
    want = np.take_along_axis(value(x)[:2], value(i), 1)
    np.testing.assert_array_equal(value(x.gather(1, i)), want)
    np.testing.assert_array_equal(value(wg.gather(x, dim=1, index=i)), want)
    src = variable((2, 3), seed=4)
    out = wg.scatter_add(x, 1, i, src)
    expected = value(x).copy()
    np.add.at(expected, (np.arange(2)[:, None], value(i)), value(src))
    np.testing.assert_allclose(value(out), expected)
    wg.check_grads(lambda a, b: wg.scatter_add(a, 1, i, b), (x.detach(), src.detach()))
    wg.check_grads(lambda a, b: wg.scatter(a, 1, i, b), (x.detach(), src.detach()))


def test_index_add_and_select() -> None:
    x, source = variable((3, 2)), variable((4, 2), seed=1)
    i = [2, 0, 2, -3]
    expected = value(x).copy()
    np.add.at(expected, i, value(source))
    np.testing.assert_allclose(value(wg.index_add(x, 0, i, source)), expected)
    np.testing.assert_array_equal(value(wg.torch.index_select(x, 0, [2, 2])), value(x)[[2, 2]])
    with pytest.raises(wg.WriteError, match="would not reach that tensor"):
        x.detach().index_add_(0, i, source.detach())
    y = x.detach().clone()
    y.index_add_(0, i, source.detach())
    np.testing.assert_allclose(value(y), expected)


def test_one_hot() -> None:
    assert wg.nn.functional.one_hot([0, 2]).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert wg.nn.functional.one_hot(wg.tensor([[1], [0]]), 2, dtype=wg.float32).dtype == wg.float32
    assert wg.nn.functional.one_hot([], 3).shape == (0, 3)
    scattered = wg.zeros((2, 3)).scatter_(1, wg.tensor([[0], [2]]), 1.0)
    assert scattered.tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_embedding_gradient_adds_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    table = variable((50, 8))
    ids = rng.integers(0, 50, (40, 20))
    ct = rng.normal(size=(40, 20, 8))
    wg.torch.embedding(table, ids).backward(wg.tensor(ct))
    expected = np.zeros((50, 8))
    np.add.at(expected, ids, ct)
    assert table.grad is not None
    np.testing.assert_allclose(value(table.grad), expected)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: wg.torch.embedding(wg.zeros((3, 2)), [1, 5]),
            wg.RangeError,
            "id 5 in a table of 3 rows, (3, 2) float32",
        ),
        (lambda: wg.torch.embedding(wg.zeros((3, 2)), [-1]), wg.RangeError, "id -1 in a table of 3 rows"),
        (lambda: wg.torch.embedding(wg.zeros((3, 2)), [0.5]), wg.DTypeError, "embedding: indices of dtype float32"),
        (lambda: wg.torch.embedding(wg.zeros(3), [0]), wg.ShapeError, "a table of shape (3,)"),
        (lambda: wg.nn.functional.one_hot([3], 3), wg.RangeError, "class 3 in 3 classes"),
        (lambda: wg.take(wg.zeros((2, 2)), [2], axis=1), wg.RangeError, "take: index 2 is out of range for axis 1"),
        (lambda: wg.take(wg.zeros(2), [0], axis=1), wg.ShapeError, "axis 1 does not exist"),
        (lambda: wg.gather(wg.zeros((2, 2)), 1, [[9]]), wg.RangeError, "gather: index 9 is out of range for axis 1"),
        (lambda: wg.gather(wg.zeros((2, 2)), 1, [0]), wg.ShapeError, "indices of shape (1,)"),
        (lambda: wg.gather(wg.zeros((1, 2)), 1, [[0], [0]]), wg.ShapeError, "larger than shape (1, 2)"),
        (lambda: wg.scatter_add(wg.zeros(2), 0, [2], [1.0]), wg.RangeError, "scatter_add: index 2"),
        (lambda: wg.scatter(wg.zeros(2), 0, [2], 1.0), wg.RangeError, "scatter: index 2"),
        (lambda: wg.index_add(wg.zeros(2), 0, [0], [1.0, 2.0]), wg.ShapeError, "a source of shape (2,)"),
        (lambda: wg.torch.masked_fill(wg.zeros(2), wg.zeros(2), 0.0), wg.DTypeError, "a mask of (2,) float32"),
    ],
)
def test_bad_calls(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as e:
        call()
    assert text in str(e.value).splitlines()[0]


def test_narrow_indices_do_not_wrap_around_in_gradients() -> None:
    for dtype in (wg.uint8, wg.int8):
        x = wg.zeros((100, 3), requires_grad=True)
        x[wg.tensor([90, 90], dtype=dtype)].sum().backward()
        assert x.grad is not None
        assert x.grad[90].tolist() == [2.0, 2.0, 2.0]
        assert float(x.grad.sum()) == 6.0
