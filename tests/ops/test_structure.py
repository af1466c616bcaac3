"""Structure: what shape functions compute, refuse, and let gradients through."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.ops.aliases import alias, dim_alias

FLOATS = (wg.float16, wg.bfloat16, wg.float32, wg.float64)


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float64).reshape(shape) + 1


def same(found: object, expected: np.ndarray) -> None:
    assert isinstance(found, wg.Tensor)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


X = numbers(2, 3, 4)
T = wg.tensor(X)


# -- against NumPy

MATCHES = {
    "reshape": (lambda: wg.reshape(T, (4, -1)), lambda: X.reshape(4, -1)),
    "reshape method": (lambda: T.reshape(4, 6), lambda: X.reshape(4, 6)),
    "view": (lambda: T.view((-1,)), lambda: X.reshape(-1)),
    "view_as": (lambda: T.view_as(np.zeros((6, 4))), lambda: X.reshape(6, 4)),
    "contiguous": (lambda: T.mT.contiguous().view(-1), lambda: np.swapaxes(X, -1, -2).ravel()),
    "cpu": (lambda: T.cpu(), lambda: X),
    "reshape_as": (lambda: T.reshape_as(np.zeros((6, 4))), lambda: X.reshape(6, 4)),
    "flatten": (lambda: T.flatten(1), lambda: X.reshape(2, 12)),
    "flatten middle": (lambda: wg.flatten(T, 0, 1), lambda: X.reshape(6, 4)),
    "flatten 0-d": (lambda: wg.flatten(np.float64(3)), lambda: np.array([3.0])),
    "ravel of a transpose": (lambda: wg.ravel(T.permute(2, 1, 0)), lambda: X.T.ravel()),
    "unflatten": (lambda: T.unflatten(-1, (2, -1)), lambda: X.reshape(2, 3, 2, 2)),
    "permute_dims": (lambda: wg.permute_dims(T, (2, 0, 1)), lambda: X.transpose(2, 0, 1)),
    "permute": (lambda: T.permute(-1, 0, 1), lambda: X.transpose(2, 0, 1)),
    "swapaxes": (lambda: wg.swapaxes(T, 0, -1), lambda: X.swapaxes(0, 2)),
    "transpose": (lambda: T.transpose(0, 2), lambda: X.swapaxes(0, 2)),
    "moveaxis": (lambda: wg.moveaxis(T, 0, -1), lambda: np.moveaxis(X, 0, -1)),
    "moveaxis two": (lambda: T.moveaxis((0, 1), (-1, 0)), lambda: np.moveaxis(X, (0, 1), (-1, 0))),
    "mT": (lambda: T.mT, lambda: X.swapaxes(-1, -2)),
    "T": (lambda: wg.tensor(X[0]).T, lambda: X[0].T),
    "T of a vector": (lambda: wg.tensor(X[0, 0]).T, lambda: X[0, 0]),
    "broadcast_to": (lambda: wg.broadcast_to(T, (5, 2, 3, 4)), lambda: np.broadcast_to(X, (5, 2, 3, 4))),
    "broadcast of a view": (lambda: wg.broadcast_to(T.mT, (2, 2, 4, 3)), lambda: np.broadcast_to(X.mT, (2, 2, 4, 3))),
    "broadcast to nothing": (lambda: wg.broadcast_to(np.ones((1, 2)), (0, 2)), lambda: np.ones((0, 2))),
    "expand": (lambda: wg.tensor(X[:1]).expand(2, 5, -1, -1)[0:0], lambda: np.zeros((0, 5, 3, 4))),
    "expand_as": (lambda: wg.tensor(X[:1]).expand_as(T), lambda: np.broadcast_to(X[:1], X.shape)),
    "squeeze all": (lambda: wg.squeeze(X[:1, :, :1]), lambda: X[0, :, 0]),
    "squeeze one": (lambda: wg.tensor(X[:1, :, :1]).squeeze(dim=-1), lambda: X[:1, :, 0]),
    "expand_dims": (lambda: wg.expand_dims(T, axis=-1), lambda: X[..., None]),
    "unsqueeze": (lambda: T.unsqueeze(1), lambda: X[:, None]),
    "atleast_2d": (lambda: wg.atleast_2d(X[0, 0]), lambda: X[0, :1]),
    "flip": (lambda: wg.flip(T), lambda: np.flip(X)),
    "flip dims": (lambda: T.flip(dims=(0, 2)), lambda: np.flip(X, (0, 2))),
    "roll": (lambda: wg.roll(T, 5), lambda: np.roll(X, 5)),
    "roll axes": (lambda: T.roll(shifts=(1, -1), dims=(0, 2)), lambda: np.roll(X, (1, -1), (0, 2))),
    "concat": (lambda: wg.concat([T, T[:, :1]], axis=1), lambda: np.concatenate([X, X[:, :1]], 1)),
    "cat": (lambda: wg.concat((T, T), dim=-1), lambda: np.concatenate([X, X], -1)),
    "concat flat": (lambda: wg.concat([T, [1.0]], axis=None), lambda: np.append(X.ravel(), 1.0)),
    "stack": (lambda: wg.stack([T, T], dim=1), lambda: np.stack([X, X], 1)),
    "stack scalars": (lambda: wg.stack([wg.tensor(1.0), wg.tensor(2.0)]), lambda: np.array([1, 2], np.float32)),
    "pad": (lambda: wg.pad(T, ((1, 0), (0, 2), (1, 1))), lambda: np.pad(X, ((1, 0), (0, 2), (1, 1)))),
    "pad value": (lambda: wg.pad(T, 1, value=-np.inf), lambda: np.pad(X, 1, constant_values=-np.inf)),
    "pad reflect": (lambda: wg.pad(X[0], (2, 1), "reflect"), lambda: np.pad(X[0], (2, 1), "reflect")),
    "pad edge": (lambda: wg.pad(T, (2, 3), mode="edge"), lambda: np.pad(X, (2, 3), "edge")),
    "pad wrap": (lambda: wg.pad(X[0], (3, 2), mode="wrap"), lambda: np.pad(X[0], (3, 2), "wrap")),
    "tile": (lambda: wg.tile(T, (2, 1, 3)), lambda: np.tile(X, (2, 1, 3))),
    "tile short": (lambda: wg.tile(T, 2), lambda: np.tile(X, 2)),
    "tile long": (lambda: wg.tile(T, (2, 1, 1, 1)), lambda: np.tile(X, (2, 1, 1, 1))),
    "tile to nothing": (lambda: wg.tile(T, (1, 0, 1)), lambda: np.tile(X, (1, 0, 1))),
    "repeat function": (lambda: wg.repeat(T, 2, axis=1), lambda: np.repeat(X, 2, 1)),
    "repeat flat": (lambda: wg.repeat(T, 2), lambda: np.repeat(X, 2)),
    "repeat counts": (lambda: wg.repeat(T, [2, 0, 1], axis=1), lambda: np.repeat(X, [2, 0, 1], 1)),
    "repeat tensor": (lambda: wg.repeat(T, wg.tensor([2, 1]), 0), lambda: np.repeat(X, [2, 1], 0)),
    "repeat not at all": (lambda: wg.repeat(T, 0, axis=1), lambda: np.repeat(X, 0, 1)),
    "repeat method": (lambda: T.repeat(2, 1, 1), lambda: np.tile(X, (2, 1, 1))),
    "repeat_interleave": (lambda: T.repeat_interleave(2, dim=0), lambda: np.repeat(X, 2, 0)),
    "tril": (lambda: wg.tril(T, k=1), lambda: np.tril(X, 1)),
    "triu": (lambda: T.triu(diagonal=-1), lambda: np.triu(X, -1)),
    "diagonal": (lambda: wg.diagonal(T), lambda: np.diagonal(X)),
    "diagonal offset": (lambda: T.diagonal(1, -2, -1), lambda: np.diagonal(X, 1, -2, -1)),
    "diag of a vector": (lambda: wg.diag(X[0, 0], -1), lambda: np.diag(X[0, 0], -1)),
    "diag of a matrix": (lambda: wg.diag(X[0], 2), lambda: np.diag(X[0], 2)),
}


@pytest.mark.parametrize("name", MATCHES)
def test_agrees_with_numpy(name: str) -> None:
    ours, numpys = MATCHES[name]
    same(ours(), numpys())


def test_lists_of_tensors() -> None:
    assert [a.shape for a in wg.broadcast_arrays(np.ones((3, 1)), np.ones(4))] == [(3, 4), (3, 4)]
    for indexing in ("xy", "ij"):
        args = (np.arange(2), np.arange(3), np.arange(4))
        for ours, numpys in zip(wg.meshgrid(*args, indexing=indexing), np.meshgrid(*args, indexing=indexing)):
            same(ours, numpys)
    for ours, numpys in zip(wg.unstack(T, axis=1), np.moveaxis(X, 1, 0)):
        same(ours, numpys)
    assert len(T.unbind(dim=2)) == 4
    assert [a.shape for a in wg.atleast_1d(1.0, [1.0])] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("call", "sizes"),
    [
        (lambda x: wg.split(x, 4), [4, 4, 2]),
        (lambda x: x.split(5), [5, 5]),
        (lambda x: x.split([1, 0, 9], dim=0), [1, 0, 9]),
        (lambda x: wg.torch.chunk(x, 4), [3, 3, 3, 1]),
        (lambda x: x.chunk(7), [2, 2, 2, 2, 2]),
        (lambda x: wg.array_split(x, 4), [3, 3, 2, 2]),
        (lambda x: x.tensor_split((2, -1)), [2, 7, 1]),
        (lambda x: wg.array_split(x, [8, 3, 20]), [8, 0, 7, 0]),
        (lambda x: wg.split(x[:0], 3), [0]),
        (lambda x: wg.torch.chunk(x[:0], 2), [0, 0]),
    ],
)
def test_parts(call: object, sizes: list[int]) -> None:
    parts = call(wg.arange(10))  # type: ignore[operator]
    assert [p.size for p in parts] == sizes


# -- dtypes


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_half_and_single_precision_keep_their_dtype(dtype: object) -> None:
    x = wg.ones(2, 3, dtype=dtype, requires_grad=True)
    for y in (x.reshape(3, 2), x.T, x.expand(4, 2, 3), wg.pad(x, 1), wg.tile(x, 2), wg.repeat(x, 2), wg.tril(x)):
        (g,) = wg.autograd.grad(y, x, wg.ones(*y.shape, dtype=dtype))
        assert y.dtype == g.dtype == x.dtype
        assert g.shape == x.shape


@pytest.mark.parametrize("dtype", [wg.float16, wg.bfloat16], ids=str)
def test_bias_gradient_in_half_precision_does_not_stall(dtype: object) -> None:
    b = wg.zeros(2, dtype=dtype, requires_grad=True)
    y = b.expand(10_000, 2)
    (g,) = wg.autograd.grad(y, b, wg.ones(10_000, 2, dtype=dtype))
    np.testing.assert_allclose(np.asarray(g.float()), 10_000, rtol=1e-2)


def test_cast_methods() -> None:
    x = wg.tensor([0.0, 1.7, -1.7])
    assert [f().dtype for f in (x.half, x.float, x.double)] == [wg.float16, wg.float32, wg.float64]
    assert [f().dtype for f in (x.short, x.int, x.long, x.bool)] == [wg.int16, wg.int32, wg.int64, wg.bool]
    assert x.bfloat16().dtype == wg.bfloat16
    assert x.long().tolist() == [0, 1, -1]
    assert x.bool().tolist() == [False, True, True]
    assert x.float() is x
    assert x.to("cpu") is x.cpu() is x
    assert x.to(x.double()).dtype == wg.float64
    assert x.to("cpu", wg.float64).dtype == x.type_as(x.double()).dtype == wg.float64


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "tpu:0", "cpu:1", "xla:99"])
def test_devices_that_are_not_there_are_named(device: str) -> None:
    x, named = wg.ones(2), device if ":" in device else f"{device}:0"
    for place in (
        lambda: x.to(device),
        lambda: x.to(wg.float64, device=device),
        lambda: x.to_device(device),
        lambda: wg.zeros(2, device=device),
        lambda: wg.asarray([1.0], device=device),
        lambda: wg.nn.Linear(2, 2).to(device),
    ):
        with pytest.raises(ValueError, match=rf"device '{named}': .*test_structure.py:") as caught:
            place()
        assert isinstance(caught.value, wg.WengertError)
        assert 'Devices are "cpu"' in str(caught.value)
    with pytest.raises(wg.GraphError, match="stream=1"):
        x.to_device("cpu", stream=1)


def test_casts_that_do_not_fit_are_values() -> None:
    assert wg.astype(wg.tensor([1e30]), wg.float16).tolist() == [np.inf]
    assert wg.astype(wg.tensor([np.nan]), wg.int32).shape == (1,)


def test_cast_gradients() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    (g,) = wg.autograd.grad(x.double() * 3.0, x, wg.ones(2, dtype=wg.float64))
    assert g.dtype == wg.float32
    assert g.tolist() == [3.0, 3.0]
    (g,) = wg.autograd.grad(x.to(wg.complex64), x, wg.tensor([1 + 2j, 3 - 1j]))
    assert g.dtype == wg.float32
    assert g.tolist() == [1.0, 3.0]
    assert not x.long().requires_grad
    with pytest.raises(wg.DTypeError, match="imaginary part"):
        wg.tensor([1j]).float()


# -- gradients


@given(st.data())
def test_broadcast_transposes_to_a_sum_in_all_ranks(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    keep = data.draw(st.integers(0, len(shape)))
    source = tuple(1 if data.draw(st.booleans()) else n for n in shape[keep:])
    x = wg.zeros(source, dtype=wg.float64, requires_grad=True)
    ct = np.random.default_rng(0).normal(size=shape)
    y = wg.broadcast_to(x, shape)
    if y is x:
        return
    expected = np.zeros(source)
    for i in np.ndindex(*shape):
        expected[tuple(0 if n == 1 else j for n, j in zip(source, i[len(shape) - len(source) :]))] += ct[i]
    for create_graph in (False, True):
        (g,) = wg.autograd.grad(y, x, wg.tensor(ct), retain_graph=True, create_graph=create_graph)
        assert g.shape == source
        np.testing.assert_allclose(np.asarray(g), expected, atol=1e-12)


@pytest.mark.parametrize(
    "pick",
    [
        lambda y: wg.split(y, [1, 2])[1],
        lambda y: wg.split(y, [1, 2])[1].unbind()[1],
        lambda y: wg.unstack(y)[2],
        lambda y: wg.repeat(y, [0, 1, 2]),
        lambda y: wg.tril(y.reshape(1, 3).flip(1).expand(3, 3), -1).flip(0)[0],
        lambda y: wg.diagonal(wg.diag(y))[1:],
        lambda y: wg.pad(y[1:], 1, "reflect"),
        lambda y: wg.pad(y[1:], 2, "edge"),
        lambda y: wg.roll(wg.concat([y, y]), 1)[2:4],
        lambda y: wg.tile(y, 2)[1:3],
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_what_is_not_used_is_absent(pick: object, create_graph: bool) -> None:
    # The first element's derivative is infinite and it is left out: its gradient is 0, not NaN.
    x = wg.tensor([0.0, 1.0, 4.0], dtype=wg.float64, requires_grad=True)
    y = pick(wg.sqrt(x))  # type: ignore[operator]
    (g,) = wg.autograd.grad(y, x, wg.ones(*y.shape, dtype=wg.float64), create_graph=create_graph)
    assert g.tolist()[0] == 0.0
    assert np.isfinite(np.asarray(g.detach())).all()


def test_a_mask_survives_split() -> None:
    x = wg.tensor([0.0, 1.0, 4.0], dtype=wg.float64, requires_grad=True)
    a, b = wg.split(wg.sqrt(x), [2, 1])
    y = wg.where(wg.tensor([False, True]), a, 0.0)
    for outputs in ([y], [y, b]):
        seeds = [wg.ones(*o.shape, dtype=wg.float64) for o in outputs]
        (g,) = wg.autograd.grad(outputs, x, seeds, retain_graph=True)
        assert g.tolist() == [0.0, 0.5, 0.25 if len(outputs) == 2 else 0.0]


def test_split_hands_every_part_its_gradient_once() -> None:
    x = wg.arange(6, dtype=wg.float64, requires_grad=True)
    parts = x.split(2)
    (g,) = wg.autograd.grad(
        [parts[0] * 2.0, parts[2] * 5.0], x, [wg.ones(2, dtype=wg.float64), wg.ones(2, dtype=wg.float64)]
    )
    assert g.tolist() == [2, 2, 0, 0, 5, 5]


def test_results_do_not_alias() -> None:
    source = numbers(2, 2)
    x = wg.tensor(source)
    y = x.reshape(4)
    source[:] = 0
    x.assign_(wg.zeros(2, 2, dtype=wg.float64))
    assert y.tolist() == [1, 2, 3, 4]


# -- tracing


def test_shapes_are_inferred_without_values() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        a, b = x.reshape(4, -1).T.split([2, 4])
        return wg.concat([wg.pad(a, 1), wg.tile(wg.expand_dims(b[0], 0), (2, 1)).repeat(1, 2)[:, :6]], axis=0)

    assert wg.graph(f)(T).outputs[0].spec.shape == f(T).shape


def test_unknown_sizes_stay_symbolic() -> None:
    x = wg.placeholder((None, 3), wg.float32)
    n = x.shape[0]
    y = wg.concat([x.reshape(n, -1, 1).squeeze(-1), x.view(n, 3)]).unsqueeze(0).expand(2, -1, 3)
    assert y.shape == (2, 2 * n, 3)
    f = wg.function([x], [y.flatten(1)])
    assert [o.shape for o in f(wg.ones(4, 3))] == [(2, 24)]


# -- refusals

REFUSED = {
    "reshape": (lambda: T.reshape(5, 5), wg.ShapeError, r"reshape of \(2, 3, 4\) float64 to \(5, 5\): 24 elements"),
    "reshape -1": (lambda: T.reshape(5, -1), wg.ShapeError, "not a multiple of 5"),
    "reshape two -1": (lambda: T.reshape(-1, -1), wg.ShapeError, "only one size can be -1"),
    "reshape of nothing": (lambda: wg.zeros(0).reshape(0, -1), wg.ShapeError, "any size would fit"),
    "reshape negative": (lambda: T.reshape(-2, 12), wg.ShapeError, "negative"),
    "reshape float": (lambda: T.reshape(2.0, 12), wg.DTypeError, "ints"),
    "permute": (lambda: T.permute(0, 1), wg.ShapeError, "each of its 3 axes once"),
    "permute twice": (lambda: T.permute(0, 1, 1), wg.ShapeError, "permute_dims"),
    "swapaxes": (lambda: T.swapaxes(0, 3), wg.ShapeError, "axis 3 does not exist"),
    "transpose": (lambda: wg.torch.transpose(T, (0, 2, 1), 0), wg.DTypeError, "axis must be an int"),
    "T": (lambda: T.T, wg.ShapeError, "mT"),
    "mT": (lambda: wg.ones(3).mT, wg.ShapeError, "two dimensions"),
    "broadcast_to": (lambda: wg.broadcast_to(T, (2, 3, 5)), wg.ShapeError, "broadcast of"),
    "broadcast_to fewer": (lambda: wg.broadcast_to(T, (3, 4)), wg.ShapeError, "broadcast of"),
    "expand": (lambda: T.expand(-1, 2, 3, 4), wg.ShapeError, "expand of"),
    "broadcast_arrays": (lambda: wg.broadcast_arrays([1, 2], [1, 2, 3]), wg.ShapeError, "do not broadcast"),
    "squeeze": (lambda: T.squeeze(1), wg.ShapeError, "its size is 3"),
    "flip": (lambda: T.flip((0, 0)), wg.ShapeError, "twice"),
    "roll": (lambda: T.roll((1, 2), 0), wg.ShapeError, "2 shifts for 1 axes"),
    "concat": (lambda: wg.concat([T, T[0]]), wg.ShapeError, "number 1"),
    "concat nothing": (lambda: wg.concat([]), wg.ShapeError, "no tensors"),
    "concat scalars": (lambda: wg.concat([wg.tensor(1.0)]), wg.ShapeError, "0-d"),
    "concat of a number": (lambda: wg.concat(3), wg.DTypeError, "sequence"),
    "stack": (lambda: wg.stack([T, T[0]]), wg.ShapeError, "must be equal"),
    "split": (lambda: T.split([1, 2], 2), wg.ShapeError, "sum"),
    "split 0": (lambda: T.split(0), wg.ShapeError, "positive"),
    "pad": (lambda: wg.pad(T, ((1, 1),)), wg.ShapeError, "3 pairs"),
    "pad negative": (lambda: wg.pad(T, -1), wg.ShapeError, "none negative"),
    "pad reflect": (lambda: wg.pad(T, 2, "reflect"), wg.ShapeError, "only 2 elements"),
    "pad mode": (lambda: wg.pad(T, 1, "mirror"), wg.WengertError, "no mode 'mirror'"),
    "pad value": (lambda: wg.pad([1, 2], 1, value=0.5), wg.DTypeError, "this dtype"),
    "tile": (lambda: wg.tile(T, -1), wg.ShapeError, "not negative"),
    "repeat": (lambda: wg.repeat(T, [1, 2], 1), wg.ShapeError, "axis of size 3"),
    "repeat method": (lambda: T.repeat(2), wg.ShapeError, "repeat_interleave"),
    "tril": (lambda: wg.tril([1.0]), wg.ShapeError, "two dimensions"),
    "diagonal": (lambda: wg.diagonal(T, 0, 1, 1), wg.ShapeError, "one axis"),
    "diag": (lambda: wg.diag(T), wg.ShapeError, "a vector or a matrix"),
    "meshgrid": (lambda: wg.meshgrid(T), wg.ShapeError, "vectors"),
    "both names": (lambda: T.squeeze(axis=0, dim=0), wg.DTypeError, "axis= and dim="),
    "astype": (lambda: T.astype("string"), wg.DTypeError, "not a dtype"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    call, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert "test_structure.py:" in str(caught.value).splitlines()[0]


# -- aliases


def test_aliased_functions_keep_signature_and_documentation() -> None:
    assert list(inspect.signature(wg.squeeze).parameters) == ["x", "axis"]
    assert wg.squeeze.__doc__.startswith("Return `x` without the given axes")
    assert wg.squeeze.__module__ == "wengert.ops.structure.axes"


def test_aliases_of_every_kind_of_parameter() -> None:
    @dim_alias
    def f(x: object, axis: int, index: int, *rest: int, keepdims: bool = False, **more: int) -> object:
        return x, axis, index, rest, keepdims, more

    assert f(1, 2, 3) == (1, 2, 3, (), False, {})
    assert f(1, dim=2, index=3, keepdim=True, z=4) == (1, 2, 3, (), True, {"z": 4})
    assert f(1, 2, 3, 4) == (1, 2, 3, (4,), False, {})
    with pytest.raises(wg.DTypeError, match="'index' is missing"):
        f(1, dim=2)
    with pytest.raises(wg.DTypeError, match="keepdims= and keepdim="):
        f(1, 2, 3, keepdims=False, keepdim=True)
    assert alias(dim="axis")(len) is len


def test_every_structure_op_declares_its_checks() -> None:
    for name in ("reshape", "permute", "broadcast", "cast", "concat", "split", "stack", "pad", "tile", "diagonal"):
        op = TABLE[name]
        assert op.samples is not None
        assert op.reference is not None
        assert op.onnx is not None


@pytest.mark.parametrize(
    ("pad", "mode", "value", "want"),
    [
        ((1, 2), "constant", None, lambda x: np.pad(x, ((0, 0), (0, 0), (1, 2)))),
        ((1, 0, 0, 2), "constant", 7.0, lambda x: np.pad(x, ((0, 0), (0, 2), (1, 0)), constant_values=7)),
        ((-1, 1), "constant", None, lambda x: np.pad(x[..., 1:], ((0, 0), (0, 0), (0, 1)))),
        ((0, -3), "constant", None, lambda x: x[..., :-3]),
        ((), "constant", None, lambda x: x),
        ((2, 1), "reflect", None, lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1)), "reflect")),
        ((1, 1, 2, 0), "replicate", None, lambda x: np.pad(x, ((0, 0), (2, 0), (1, 1)), "edge")),
        ((0, 2, 1, 0), "circular", None, lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)), "wrap")),
    ],
)
def test_functional_pad_counts_from_the_last_axis(pad: Any, mode: str, value: Any, want: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)

    def fn(x: wg.Tensor) -> wg.Tensor:
        return wg.nn.functional.pad(x, pad, mode, value)

    for run in (fn, wg.jit(fn), wg.graph(fn)(wg.tensor(x))):
        np.testing.assert_array_equal(np.asarray(run(wg.tensor(x))), want(x))


@pytest.mark.parametrize(
    ("pad", "mode", "value", "text"),
    [
        ((1,), "constant", None, "a pair for each axis"),
        ((1, 1) * 4, "constant", None, "at most 6 ints"),
        (((1, 1), (0, 0)), "constant", None, "pad"),
        (1, "constant", None, "the last axis first"),
        ((-5, 0), "constant", None, "not so many to take away"),
        ((1, 1), "edge", None, "no mode 'edge'"),
        ((1, 1), "reflect", 2.0, "a value in mode"),
        ((4, 0), "reflect", None, "only 4 elements"),
        ((0, 5), "circular", None, "only 4 elements"),
    ],
)
def test_functional_pad_refuses(pad: Any, mode: str, value: Any, text: str) -> None:
    with pytest.raises(wg.WengertError, match=text):
        wg.nn.functional.pad(wg.zeros(2, 3, 4), pad, mode, value)


def test_functional_pad_of_integers_and_booleans() -> None:
    assert wg.nn.functional.pad(wg.tensor([True]), (1, 1)).tolist() == [False, True, False]
    assert wg.nn.functional.pad([1, 2], (1, 0), value=3).tolist() == [3, 1, 2]
    with pytest.raises(wg.DTypeError):
        wg.nn.functional.pad(wg.tensor([1, 2]), (1, 0), value=0.5)
    x = wg.tensor([1.0, 2.0])
    y = wg.nn.functional.pad(x, (0, 0), "circular")
    y += 1
    assert x.tolist() == [1.0, 2.0]
