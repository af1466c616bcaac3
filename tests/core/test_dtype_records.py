"""One record for a dtype: its names and codes agree with the packages', and float8 is held and not computed with."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.dtypes import RECORDS, is_known, made, record_of
from wengert.core.ops.op import TABLE
from wengert.core.spec import as_dtype, category, short_name

ml_dtypes = pytest.importorskip("ml_dtypes")

STORED = [name for name, record in RECORDS.items() if record.stored]
NUMBERS = np.array([[1.5, -2.0, 300.0, 0.01], [0.0, -0.0, 0.3, 4.0]], np.float32)


@pytest.mark.parametrize("name", RECORDS)
def test_a_dtype_is_found_by_each_of_its_names(name: str) -> None:
    record = RECORDS[name]
    dtype = made(name)
    assert record_of(dtype) is record
    assert (dtype.name, dtype.itemsize) == (name, record.itemsize)
    assert as_dtype(name) is as_dtype(record.short) is as_dtype(dtype) is dtype
    assert (category(dtype), short_name(dtype)) == (record.category, record.short)
    assert getattr(wg, name) is dtype
    assert name in wg.__all__
    x = wg.zeros((2,), dtype=name)
    assert x.spec.dtype is dtype
    assert copy.deepcopy(x).dtype is dtype
    assert pickle.loads(pickle.dumps(x)).dtype is dtype
    if record.storage is not None:
        assert torch.zeros(2, dtype=getattr(torch, name)).dtype is getattr(torch, name)


@pytest.mark.parametrize("name", RECORDS)
def test_digits_and_sizes_are_those_of_the_package(name: str) -> None:
    dtype, record = made(name), RECORDS[name]
    if record.category >= 2:
        part = wg.finfo(dtype)
        assert part.eps == 2.0 ** (1 - record.digits)
        assert part.bits * (2 if record.category == 3 else 1) == 8 * record.itemsize
    with np.errstate(over="ignore"):
        beyond = float(wg.full((), 1e30, dtype=wg.float32).astype(dtype)) if record.category == 2 else None
    if record.largest is not None:
        assert beyond == record.largest == wg.finfo(dtype).max
        assert wg.tensor([np.inf, -1e9], dtype=dtype).tolist() == [record.largest, -record.largest]
        assert np.isnan(float(wg.tensor(np.nan, dtype=dtype)))
    elif record.stored:
        assert not np.isfinite(beyond)


def test_codes_are_those_of_onnx() -> None:
    onnx = pytest.importorskip("onnx")
    for name, record in RECORDS.items():
        if record.onnx:
            assert onnx.helper.np_dtype_to_tensor_dtype(made(name)) == record.onnx


@pytest.mark.parametrize("name", RECORDS)
def test_files_keep_a_dtype(name: str, tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    x = wg.tensor(np.array([[0, 1, 2], [3, 1, 0]])).astype(name)
    for file in ("a.safetensors", "a.npz"):
        if file.endswith("npz") and RECORDS[name].package != "numpy":
            continue
        if file.endswith("safetensors") and not (RECORDS[name].safetensors or RECORDS[name].category == 3):
            continue
        wg.storage.save(os.fspath(tmp_path / file), {"x": x})
        back = wg.storage.load(os.fspath(tmp_path / file))["x"]
        assert back.dtype == x.dtype
        assert back.astype(wg.complex128).tolist() == x.astype(wg.complex128).tolist()
    if RECORDS[name].storage is None:
        with pytest.raises(wg.DataError, match=f"PyTorch has no dtype {name}"):
            torch.save({"x": torch.asarray(x)}, tmp_path / "a.pt")
        return
    torch.save({"x": torch.asarray(x)}, tmp_path / "a.pt")
    back = torch.load(tmp_path / "a.pt")["x"]
    assert back.dtype == x.dtype
    assert back.to(torch.complex128).tolist() == x.astype(wg.complex128).tolist()


def test_a_dtype_that_is_no_record_is_refused() -> None:
    for dtype in ("float128", "object", "datetime64[s]", np.dtype("S3"), ml_dtypes.int4):
        with pytest.raises(wg.DTypeError, match=r"float8_e5m2|is not a dtype"):
            as_dtype(dtype)
    assert not is_known(np.dtype(object))


# -- what is for storage


@pytest.mark.parametrize("name", STORED)
def test_values_are_the_nearest_and_move_exactly(name: str) -> None:
    x = wg.tensor(NUMBERS).astype(name)
    held = x.astype(wg.float32).numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(held, NUMBERS.astype(made(name)).astype(np.float32))
    moved: dict[str, Any] = {
        "slice": lambda a: a[:, ::2],
        "transpose": lambda a: a.T,
        "reshape": lambda a: a.reshape(-1),
        "concat": lambda a: wg.concat([a, a]),
        "take": lambda a: wg.take(a, wg.tensor([1, 0, 1]), axis=0),
        "where": lambda a: wg.where(wg.tensor([True, False, True, False]), a, a[:1]),
        "pad": lambda a: wg.pad(a, ((1, 0), (0, 2))),
        "roll": lambda a: wg.roll(a, 1),
        "clone": lambda a: a.clone(),
    }
    for op, move in moved.items():
        out = move(x)
        assert out.dtype == made(name), op
        wanted = move(wg.tensor(held)).numpy()
        for found in (out, wg.jit(move)(x)):
            np.testing.assert_array_equal(found.astype(wg.float32).numpy(), wanted, op)
    rows = wg.vmap(lambda row: row[::-1])(x)
    np.testing.assert_array_equal(rows.astype(wg.float32).numpy(), held[:, ::-1])
    x[0, 1] = 2.0
    assert float(x[0, 1]) == 2.0
    assert (x[1] == x[1]).all()


@pytest.mark.parametrize("name", STORED[:2])
def test_every_op_holds_moves_or_refuses_it(name: str) -> None:
    """Nothing computes with so few digits in silence: what is no move of elements names the dtype and the cast."""
    computed, rng = [], np.random.default_rng(0)
    for op in TABLE.values():
        samples = list(op.samples(rng)) if op.samples is not None else []
        for call in samples[:1]:
            floats = [isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in call.args]
            if not any(floats) or not hasattr(op, "front"):
                continue
            args = [wg.tensor(a).astype(name) if f else a for a, f in zip(call.args, floats, strict=True)]
            if op.view or "moves" in op.facets or op.accepts == "anything":
                continue
            try:
                op(*args, **call.attrs)
            except (wg.WengertError, TypeError, ValueError):
                continue
            computed.append(op.name)
    assert computed == []


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("product", ["@", "einsum", "dot", "tensordot", "beside float32"])
def test_products_are_those_of_float32(name: str, product: str) -> None:
    x = wg.tensor(NUMBERS[:, [0, 1, 3]]).astype(name)
    compute: dict[str, Any] = {
        "@": lambda a, b: a @ b.T,
        "einsum": lambda a, b: wg.einsum("ij,kj->ik", a, b),
        "dot": lambda a, b: wg.dot(a[0], b[1]),
        "tensordot": lambda a, b: wg.tensordot(a, b, axes=([1], [1])),
        "beside float32": lambda a, b: a @ b.astype(wg.float32).T,
    }
    run = compute[product]
    wide = x.astype(wg.float32)
    for found in (run(x, x), wg.jit(run)(x, x)):
        assert found.dtype == wg.float32
        np.testing.assert_allclose(found.numpy(), run(wide, wide).numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", STORED)
def test_gradients_pass_casts_unrounded(name: str) -> None:
    w = wg.tensor([0.3, -1.7, 2.2])
    weights = wg.tensor([1.001, 0.123, -3.3])

    def loss(w: Any) -> Any:
        return (w.astype(name).reshape(3, 1)[:, 0].astype(wg.float32) * weights).sum()

    for gradient in (wg.grad(loss), wg.jit(wg.grad(loss)), wg.grad(wg.jit(loss))):
        assert gradient(w).dtype == wg.float32
        assert gradient(w).tolist() == weights.tolist()
    with pytest.raises(wg.DTypeError, match="cannot require gradients"):
        w.astype(name).requires_grad_()


@pytest.mark.parametrize("name", STORED)
def test_arithmetic_names_the_cast(name: str) -> None:
    x = wg.tensor(NUMBERS).astype(name)
    for refused in (
        lambda: x + x,
        lambda: 2 * x,
        lambda: x < 1.0,
        lambda: x.sum(),
        lambda: wg.exp(x),
        lambda: x + wg.ones(4),
        lambda: wg.nn.Linear(4, 2)(x),
        lambda: wg.sort(x),
    ):
        with pytest.raises(wg.DTypeError, match=rf"{name}.*storage \(.*test_dtype_records\.py:\d+\)") as caught:
            refused()
        assert "x.astype(wg.float32)" in str(caught.value)
    with pytest.raises(wg.DTypeError, match="a default dtype of"):
        wg.set_default_dtype(name)


@pytest.mark.parametrize("name", STORED)
def test_compiled_calls_hold_it(name: str) -> None:
    weight = wg.tensor(NUMBERS).astype(name)

    @wg.jit
    def layer(x: Any) -> Any:
        return wg.tanh(x @ weight.astype(wg.float32).T), (x * 0.5).astype(name)

    x = wg.tensor(NUMBERS)
    for _ in range(7):
        found, small = layer(x)
    np.testing.assert_allclose(found.numpy(), np.tanh(NUMBERS @ weight.astype(wg.float32).numpy().T), rtol=1e-5)
    assert small.dtype == made(name)
    np.testing.assert_array_equal(small.astype(wg.float32).numpy(), (x * 0.5).astype(name).astype(wg.float32).numpy())
