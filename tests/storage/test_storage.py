"""Files of weights: what is written comes back, and what other programs wrote is read as they do."""

from __future__ import annotations

import collections
import dataclasses
import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError
from wengert.storage import load, load_weights, safetensors_files, save
from wengert.storage.weights import open_weights

HERE = Path(__file__).parent

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, wg.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.numpy().tobytes() == b.numpy().tobytes()
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert repr(a) == repr(b)


VALUES: dict[str, Any] = {
    "tensors of all dtypes": {d: wg.asarray(np.array([[0, 1], [1, 0]])).astype(d) for d in DTYPES},
    "no axes, no elements": [wg.tensor(1.5), wg.zeros(0, 3), wg.zeros(2, 0, dtype=wg.complex64)],
    "nested": {"a": [1, 2.5, {"b": (wg.ones(2), None, True)}], "c.d": wg.zeros(1), "c": {"d": wg.ones(1)}},
    "a tensor": wg.arange(3),
    "numbers": [2**70, -(2**53), 1e300, float("inf"), float("-inf"), float("nan"), -0.0, 1 + 2j, complex("nan")],
    "texts": ["", "é\n\0", "a" * 1000, b"\xff\0", ""],
    "arrays": [np.arange(6.0).reshape(2, 3).T, np.float32(2.5), np.int8(-1), np.array(True)],
    "keys": {1: 2, "1": 3, None: 4, 2.5: 5, False: 6, (1, "a"): 7},
    "containers": [{3}, frozenset({1}), collections.OrderedDict(a=1), collections.Counter("aab"), (), [], {}],
    "dtypes": [np.dtype("float32"), np.dtype("int8")],
    "odd names": {"__metadata__": wg.ones(1), "": wg.ones(2), "a#1": wg.ones(3)},
    "nothing": None,
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("mmap", [False, True])
def test_what_is_saved_comes_back(name: str, mmap: bool, tmp_path: Path) -> None:
    value = VALUES[name]
    save(tmp_path / "x", value)
    same(load(tmp_path / "x", mmap=mmap), value)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Config:
    x: Any
    y: int = 3


def test_classes_of_ones_own(tmp_path: Path) -> None:
    value = {"pair": Pair(wg.ones(2), [1, 2]), "config": Config(wg.zeros(1))}
    save(tmp_path / "x", value)
    with pytest.raises(DataError, match="a Pair was saved"):
        load(tmp_path / "x")
    found = load(tmp_path / "x", like={"pair": Pair(0, [0, 0]), "config": Config(0)})
    assert type(found["pair"]) is Pair
    assert type(found["config"]) is Config
    same(found["pair"].a, value["pair"].a)
    assert (found["pair"].b, found["config"].y) == ([1, 2], 3)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (object(), "the value to save is a object"),
        ({"a": [lambda: 0]}, "a.0 is a function"),
        (wg.nn.Linear(1, 1), "x.state_dict"),
        ({"a": np.array(["x"])}, "a is an array of dtype <U1"),
        ({frozenset({1}): 2}, "has a key of type frozenset"),
        ({2**61: 2}, "a key of 62 bits"),
    ],
)
def test_what_cannot_be_saved(value: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        save(tmp_path / "x", value)
    assert list(tmp_path.iterdir()) == []


def test_files_are_replaced_when_they_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    save(path, wg.ones(2))
    os.chmod(path, 0o640)
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    for where, name in ((safetensors_files, "open"), (os, "fsync"), (os, "replace")):
        with monkeypatch.context() as patched:
            patched.setattr(where, name, full, raising=False)
            with pytest.raises(DataError, match="was not written: No space left on device"):
                save(path, wg.zeros(100))
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["x"]
    link = tmp_path / "link"
    link.symlink_to(path)
    save(link, wg.zeros(3))
    assert link.is_symlink()
    assert load(path).shape == (3,)
    assert path.stat().st_mode & 0o777 == 0o640


def test_other_programs_read_and_write_the_same(tmp_path: Path) -> None:
    model = wg.nn.Sequential(wg.nn.Linear(2, 3), wg.nn.BatchNorm1d(3))
    save(tmp_path / "x", model.state_dict(), {"note": "é"})
    theirs = safetensors.numpy.load_file(tmp_path / "x")
    assert set(theirs) == set(model.state_dict())
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(theirs[name], value.numpy())
    arrays = {"b": np.arange(3), "a": np.ones((2, 2), np.float16), "c": np.array([1, 2], ml_dtypes.bfloat16)}
    safetensors.numpy.save_file(arrays, tmp_path / "y")
    for found in (load(tmp_path / "y"), load_weights(tmp_path / "y")):
        assert {k: (v.dtype, v.tolist()) for k, v in found.items()} == {
            k: (v.dtype, v.tolist()) for k, v in arrays.items()
        }


# -- weights in whatever format


def test_blocks_of_gguf() -> None:
    """Against the package of the format's authors, bit for bit."""
    found = load_weights(HERE / "data" / "blocks.gguf")
    with np.load(HERE / "data" / "blocks.npz") as expected:
        assert set(found) == set(expected)
        for name in expected:
            np.testing.assert_array_equal(found[name].numpy().astype(np.float32), expected[name])
    assert {k: v.dtype.name for k, v in found.items()} == {
        "F32": "float32",
        "F16": "float16",
        "BF16": "bfloat16",
        "Q8_0": "float32",
        "Q4_0": "float32",
    }
    opened = open_weights(HERE / "data" / "blocks.gguf")
    assert opened.metadata["epsilon"] == 0.5
    assert opened.arrays["Q4_0"].nbytes == 3 * 64 // 32 * 18


def test_blocks_that_are_not_decoded(tmp_path: Path) -> None:
    file = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"k" + struct.pack("<IQIQ", 1, 256, 14, 0)
    (tmp_path / "x").write_bytes(file + bytes(1000))
    assert open_weights(tmp_path / "x").arrays["k"].dtype == "Q6_K"
    with pytest.raises(DataError, match=r"'k' in .* is of Q6_K, which is not decoded"):
        load_weights(tmp_path / "x")


def test_numpy_and_keras(tmp_path: Path) -> None:
    arrays = {"a": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b/c": np.arange(3, dtype=">i4"), "e": np.zeros(0)}
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "x.npz", **arrays)
        for mmap in (False, True):
            found = load_weights(tmp_path / "x.npz", mmap=mmap)
            assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in arrays.items()}
    np.save(tmp_path / "x.npy", arrays["a"])
    np.testing.assert_array_equal(load_weights(tmp_path / "x.npy")["array"], arrays["a"])
    # Keras has a dict of variables for each layer.
    layer = {"0": np.ones((2, 2), np.float32), "1": np.zeros(2, np.float32)}
    np.savez(tmp_path / "k.npz", **{"layers/dense/vars": layer})  # type: ignore[arg-type]
    found = load_weights(tmp_path / "k.npz")
    assert {k: v.shape for k, v in found.items()} == {"layers/dense/vars/0": (2, 2), "layers/dense/vars/1": (2,)}


def test_the_content_decides_not_the_name(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "x.npz")
    np.savez(tmp_path / "y", w=np.ones(2))
    os.rename(tmp_path / "y.npz", tmp_path / "y.pt")
    save(tmp_path / "z.gguf", {"w": wg.ones(2)})
    for name in ("x.npz", "y.pt", "z.gguf"):
        assert load_weights(tmp_path / name)["w"].tolist() == [1.0, 1.0]


def test_parts_of_checkpoints(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    torch.save({"a": {"model": model.state_dict()}, "list": [torch.ones(1), 3, "x"]}, tmp_path / "x")
    assert list(load_weights(tmp_path / "x")) == ["a.model.weight", "a.model.bias", "list.0"]
    assert list(load_weights(tmp_path / "x", "a.model")) == ["weight", "bias"]
    with pytest.raises(DataError, match=r"(?s)has no part 'b'.*It has: a, list"):
        load_weights(tmp_path / "x", "b")


def test_what_is_no_file_of_weights(tmp_path: Path) -> None:
    for content, told in (
        (b"", "it begins with nothing"),
        (b"hello", "of no format of weights that is known: it begins with 68 65"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "an HDF5 file, which is not read"),
        (b"PK\x03\x04", "is damaged"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(DataError, match=told):
            load_weights(tmp_path / "x")
    with pytest.raises(DataError, match="no such file"):
        load_weights(tmp_path / "none")
    with pytest.raises(DataError, match="is a folder"):
        load_weights(tmp_path)
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("readme.txt", b"")
    with pytest.raises(DataError, match=r"it has no data\.pkl"):
        load_weights(tmp_path / "z")


def test_values_in_other_orders_and_places(tmp_path: Path) -> None:
    """Big-endian files, elements at odd places, and a machine without ml_dtypes."""
    file = io.BytesIO()
    torch.save({"w": torch.tensor([1.0, 2.0]), "i": torch.tensor([3])}, file)
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if "data/" in name and ".data" not in name:
                data = data[::1] if len(data) % 4 else np.frombuffer(data, f">{'f4' if name.endswith('0') else 'i8'}")
                data = data.byteswap().tobytes() if not isinstance(data, bytes) else data
            new.writestr(name, b"big" if name.endswith("byteorder") else data)
    out.seek(0)
    swapped = torch.load(out)
    assert (swapped["w"].tolist(), swapped["i"].tolist()) == ([1.0, 2.0], [3])
    for pad in range(4):
        legacy = io.BytesIO()
        torch.save(["x" * pad, torch.tensor([1.0, 2.0])], legacy, _use_new_zipfile_serialization=False)
        legacy.seek(0)
        found = torch.load(legacy)[1]
        assert found.numpy().flags.aligned
        assert found.tolist() == [1.0, 2.0]


def test_files_are_those_of_the_package(tmp_path: Path) -> None:
    """Names, alignment, metadata and dtypes are what the package of the format writes and reads."""
    arrays = {d: np.arange(3).astype(d) for d in DTYPES if not d.startswith("complex")}
    arrays |= {"é": np.ones((2, 0)), "scalar": np.array(2.5), "turned": np.arange(6.0).reshape(2, 3).T}
    safetensors_files.write(tmp_path / "x", arrays, {"note": "text"})
    theirs = safetensors.numpy.load_file(tmp_path / "x")
    with safetensors.safe_open(tmp_path / "x", framework="np") as opened:
        assert opened.metadata() == {"format": "pt", "note": "text"}
    assert {k: (v.dtype, v.shape, v.tobytes()) for k, v in theirs.items()} == {
        k: (v.dtype, v.shape, v.tobytes()) for k, v in arrays.items()
    }
    start = 8 + struct.unpack("<Q", (tmp_path / "x").read_bytes()[:8])[0]
    assert start % 8 == 0
    with pytest.raises(DataError, match="__metadata__"):
        safetensors_files.write(tmp_path / "y", {"__metadata__": np.ones(1)})


def test_without_ml_dtypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save({"w": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "x")
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(DataError, match="bfloat16 needs the package ml_dtypes"):
        load_weights(tmp_path / "x")
