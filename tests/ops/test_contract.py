"""Matrix products and einsum against NumPy, their gradients against differences, their errors as text."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import wengert as wg


def value(x: wg.Tensor) -> np.ndarray:
    return np.asarray(x.detach())


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    rng = np.random.default_rng((seed, *shape))
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return np.asarray(x).astype(dtype)


RANKS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 2)),
    ((2, 2, 3), (3,)),
    ((3,), (2, 3, 2)),
    ((2, 2, 3), (3, 2)),
    ((2, 3), (2, 3, 2)),
    ((2, 1, 2, 3), (2, 3, 1)),
    ((1, 2, 3), (2, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
    ((0, 2, 3), (3, 2)),
]


@pytest.mark.parametrize(("a", "b"), RANKS)
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: Any) -> None:
    x, y = normal(*a, dtype=dtype), normal(*b, seed=1, dtype=dtype)
    got = wg.tensor(x) @ wg.tensor(y)
    np.testing.assert_allclose(value(got), x @ y)
    assert got.shape == (x @ y).shape
    if np.size(x) and np.size(y):
        wg.check_grads(wg.matmul, (wg.tensor(x), wg.tensor(y)), order=2)


@pytest.mark.parametrize(("a", "b"), RANKS)
def test_gradients_have_the_arguments_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = (wg.tensor(normal(*s, dtype=np.float32), requires_grad=True) for s in (a, b))
    (x @ y).sum().backward()
    for t in (x, y):
        assert t.grad is not None
        assert (t.grad.shape, t.grad.dtype) == (t.shape, wg.float32)


@pytest.mark.parametrize(("a", "b"), RANKS)
def test_traced_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = wg.tensor(normal(*a)), wg.tensor(normal(*b))
    g = wg.graph(wg.matmul)(x, y)
    np.testing.assert_allclose(value(g(x, y)), value(x) @ value(y))


@pytest.mark.parametrize("dtype", [wg.int8, wg.int64, wg.uint8, wg.float16, wg.bfloat16, wg.float32, wg.complex64])
def test_matmul_keeps_the_dtype(dtype: Any) -> None:
    x = wg.asarray(np.arange(6).reshape(2, 3)).astype(dtype)
    for got in (x @ x.mT, x @ x[0], x[0] @ x[0], wg.einsum("ij,kj->ik", x, x), wg.einsum("ij->", x)):
        assert got.dtype == dtype
    np.testing.assert_array_equal((x @ x.mT).astype(wg.complex128).tolist(), [[5, 14], [14, 50]])


def test_operands_promote_and_reflect() -> None:
    x = wg.ones((2, 3))
    assert (x @ np.ones((3, 2))).dtype == wg.float64
    assert (np.ones((4, 2)) @ x).shape == (4, 3)
    assert (wg.ones((2, 3), dtype=wg.int64) @ x.mT).dtype == wg.float32


def test_strided_operands() -> None:
    x, w = normal(4, 2, 3), normal(5, 3)
    a, b = wg.tensor(x, requires_grad=True), wg.tensor(w, requires_grad=True)
    (a[::2, ::-1] @ b.mT).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    np.testing.assert_allclose(value(b.grad), np.broadcast_to(x[::2].sum((0, 1)), (5, 3)))
    np.testing.assert_allclose(value(a.grad)[::2], np.broadcast_to(w.sum(0), (2, 2, 3)))
    assert not value(a.grad)[1::2].any()


@pytest.mark.parametrize(
    ("a", "b", "text", "mend"),
    [
        ((2, 3), (4, 5), "matmul: inner sizes differ: (2, 3) float32 and (4, 5) float32 (", "last axis"),
        ((2, 3), (2, 3), "inner sizes differ: (2, 3) float32 and (2, 3) float32", "x @ y.mT"),
        ((3, 2), (3, 4), "inner sizes differ: (3, 2) float32 and (3, 4) float32", "x.mT @ y"),
        ((3, 2), (4, 3), "inner sizes differ", "y @ x"),
        ((2, 3), (2,), "inner sizes differ: (2, 3) float32 and (2,) float32", ""),
        ((2,), (3, 2), "inner sizes differ: (2,) float32 and (3, 2) float32", ""),
        ((2,), (3,), "inner sizes differ: (2,) float32 and (3,) float32", ""),
        ((2, 2, 3), (3, 3, 2), "leading axes (2,) and (3,) do not broadcast: (2, 2, 3) float32", ""),
        ((), (3,), "matmul of a 0-d tensor: () float32 and (3,) float32", "x * y"),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_matmul_errors(a: Any, b: Any, text: str, mend: str, traced: bool) -> None:
    x, y = wg.zeros(a), wg.zeros(b)
    with pytest.raises(wg.ShapeError) as e:
        wg.graph(lambda x, y: x @ y)(x, y) if traced else x @ y
    first, _, rest = str(e.value).partition("\n")
    assert text in first
    assert "test_contract.py:" in first
    assert mend in rest


def test_aliases() -> None:
    x, y, v = wg.tensor(normal(2, 3)), wg.tensor(normal(3, 2)), wg.tensor(normal(3))
    np.testing.assert_allclose(value(x.mm(y)), value(x) @ value(y))
    np.testing.assert_allclose(value(x.mv(v)), value(x) @ value(v))
    np.testing.assert_allclose(value(wg.matmul(x[None], y[None])), (value(x) @ value(y))[None])
    for call in (lambda: x.mm(v), lambda: x.bmm(y), lambda: v.mv(v)):
        with pytest.raises(wg.ShapeError, match="It takes tensors with"):
            call()


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((2, 2, 3), (2, 3, 4)), ((), (3,))]
)
def test_dot(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    np.testing.assert_allclose(value(wg.dot(wg.tensor(normal(*a)), normal(*b))), np.dot(normal(*a), normal(*b)))


@pytest.mark.parametrize("axis", [-1, 0, -2])
def test_vecdot(axis: int) -> None:
    x, y = normal(3, 3, dtype=np.complex128), normal(2, 3, 3, dtype=np.complex128)
    axis_in_both = axis if axis < 0 else axis - 2
    if axis >= 0:
        y = y[0]
    want = (np.conj(x) * y).sum(axis if axis >= 0 else axis_in_both)
    np.testing.assert_allclose(value(wg.vecdot(wg.tensor(x), wg.tensor(y), axis=axis)), want)
    with pytest.raises(wg.ShapeError, match="vecdot: sizes differ"):
        wg.vecdot(wg.zeros(2), wg.zeros(3))


# -- einsum

EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("ij,jk", (2, 3), (3, 2)),
    ("ba", (2, 3)),
    ("i,i", (3,), (3,)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iji->j", (2, 3, 2)),
    ("iii->i", (2, 2, 2)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("ij->", (2, 3)),
    ("ij,k->i", (2, 3), (2,)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
    ("...i,...i", (2, 3), (2, 1, 3)),
    ("i...->...", (3, 2)),
    ("...->...", (2, 3)),
    ("b...d,d...->b...", (2, 1, 3), (3, 2)),
    ("ij,ij->ij", (1, 3), (2, 1)),
    ("ab,bc,cd->ad", (2, 3), (3, 2), (2, 4)),
    ("a,b,c->cab", (2,), (3,), (2,)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 2), (2, 2, 2, 2)),
    ("i,i,i->i", (3,), (3,), (3,)),
    (" i j , j -> i ", (2, 3), (3,)),
    (",i->i", (), (3,)),
    ("ii,i->i", (3, 3), (3,)),
    ("Aa,aB->AB", (2, 3), (3, 2)),
]


@pytest.mark.parametrize(("subscripts", "shapes"), [(e[0], e[1:]) for e in EINSUMS], ids=[e[0] for e in EINSUMS])
def test_einsum(subscripts: str, shapes: Any) -> None:
    arrays = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    got = wg.einsum(subscripts, *map(wg.tensor, arrays))
    np.testing.assert_allclose(value(got), np.einsum(subscripts, *arrays), atol=1e-12)
    wg.check_grads(lambda *xs: wg.einsum(subscripts, *xs), tuple(map(wg.tensor, arrays)), order=2)


def test_every_way_to_contract_two_operands() -> None:
    """All results over subsets of letters that each stand in the first, the second or both operands."""
    sizes = {"a": 2, "b": 3, "c": 2, "d": 3}
    terms = ["".join(t) for n in range(4) for t in itertools.permutations("abcd", n) if n < 2 or t[0] < t[1]]
    count = 0
    for left, right in itertools.product(terms[::3], terms[::2]):
        letters = sorted(set(left + right))
        for out in {"".join(letters), "".join(letters[::-2]), "".join(letters[:1])}:
            x, y = (normal(*(sizes[c] for c in t)) for t in (left, right))
            subscripts = f"{left},{right}->{out}"
            got = wg.einsum(subscripts, wg.tensor(x), wg.tensor(y))
            np.testing.assert_allclose(value(got), np.einsum(subscripts, x, y), atol=1e-12, err_msg=subscripts)
            count += 1
    assert count > 100


def test_complex_einsum() -> None:
    x, y = (wg.tensor(normal(2, 3, seed=i, dtype=np.complex128)) for i in (1, 2))
    wg.check_grads(lambda x, y: wg.einsum("ij,kj->ik", x, y), (x, y), order=1)


def test_equal_einsums_are_one_op() -> None:
    x = wg.tensor(normal(2, 3), requires_grad=True)
    one, two = (wg.einsum(s, x, x).node for s in ("ij,kj->ik", "xy,zy->xz"))
    assert one is not None
    assert two is not None
    assert one.attrs == two.attrs


def test_an_infinity_off_the_diagonal_stays_out() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    wg.einsum("ii->i", x).backward(wg.tensor([np.inf, 1.0], dtype=wg.float32))
    assert x.grad is not None
    assert x.grad.tolist() == [[np.inf, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "text"),
    [
        ("ij,jk", [(2, 3)], "2 terms for 1 operands"),
        ("ij", [(2,)], "the term 'ij' names 2 axes of a tensor of (2,) float32"),
        ("i", [(2, 3)], "the term 'i' names 1 axes"),
        ("i,i", [(2,), (3,)], "letter 'i' has sizes 2 and 3"),
        ("...,...", [(2,), (3,)], "an axis in '...' has sizes 2 and 3"),
        ("ii", [(2, 3)], "the diagonal 'ii' of axes of sizes 2 and 3"),
        ("i->j", [(2,)], "the result names 'j', which no operand has"),
        ("i->ii", [(2,)], "the result names 'i' twice"),
        ("...i->i", [(2, 2)], "the result has no '...'"),
        ("i%", [(2, 2)], "the term 'i%' holds more than letters"),
    ],
)
def test_einsum_errors(subscripts: str, shapes: Any, text: str) -> None:
    with pytest.raises(wg.ShapeError) as e:
        wg.einsum(subscripts, *(wg.zeros(s) for s in shapes))
    first = str(e.value).splitlines()[0]
    assert text in first
    assert repr(subscripts) in first
    assert "test_contract.py:" in first


def test_einsum_without_subscripts() -> None:
    with pytest.raises(wg.DTypeError, match="The first argument is a string"):
        wg.einsum(wg.zeros(2), [0])  # type: ignore[arg-type]
    with pytest.raises(wg.ShapeError, match="without operands"):
        wg.einsum("i")


# -- written with einsum


@pytest.mark.parametrize("axes", [0, 1, 2, ([0], [1]), ([1, 0], [0, 1]), ((-1,), (-2,)), (1, 0)])
def test_tensordot(axes: Any) -> None:
    x, y = normal(3, 3), normal(3, 3, seed=1)
    got = wg.tensordot(wg.tensor(x), wg.tensor(y), axes=axes)
    np.testing.assert_allclose(value(got), np.tensordot(x, y, axes))


@pytest.mark.parametrize("axes", [3, -1, ([0], [0, 1]), ([0, 0], [0, 1]), ([1], [0])])
def test_tensordot_errors(axes: Any) -> None:
    with pytest.raises(wg.ShapeError, match="tensordot"):
        wg.tensordot(wg.zeros((3, 2)), wg.zeros((3, 2)), axes=axes)


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_trace_is_summed_as_a_sum_is(dtype: str, compiled: bool) -> None:
    """Booleans and small integers in 64 bits, as the Array API has it."""
    x = np.full((3, 300, 300), 101 if dtype not in "?f2" else 1, dtype)
    ways = {0: wg.linalg.trace, 1: lambda t: wg.trace(t, 1, 1, 2), -2: lambda t: t.trace(-2, axis1=1, axis2=2)}
    for offset, f in ways.items():
        found = (wg.jit(f) if compiled else f)(wg.tensor(x))
        assert found.dtype == wg.sum(wg.tensor(x), axis=0).dtype
        np.testing.assert_array_equal(found.numpy(), np.trace(x, offset, 1, 2, found.dtype))
    assert wg.linalg.trace(wg.tensor(x), dtype=wg.complex64).dtype == wg.complex64


def test_outer_kron_trace() -> None:
    x, y = normal(2, 3), normal(3, 2, seed=1)
    a, b = wg.tensor(x), wg.tensor(y)
    np.testing.assert_allclose(value(wg.outer(a, b)), np.outer(x, y))
    np.testing.assert_allclose(value(wg.kron(a, b)), np.kron(x, y))
    np.testing.assert_allclose(value(wg.kron(a[0], b)), np.kron(x[0], y))
    z = normal(3, 2, 3)
    for offset in (-1, 0, 1):
        np.testing.assert_allclose(value(wg.trace(a, offset)), np.trace(x, offset))
        np.testing.assert_allclose(value(wg.tensor(z).trace(offset, 2, 0)), np.trace(z, offset, 2, 0))
    wg.check_grads(lambda a, b: (wg.outer(a, b).sum(), wg.kron(a, b).sum(), wg.trace(a)), (a, b))
