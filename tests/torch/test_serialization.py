"""`torch.save` and `torch.load`: PyTorch's files read as they are, and written as PyTorch reads them."""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError, DTypeError
from wengert.storage import load_weights

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with np.load(DATA / "serialization.npz") as arrays:
        return dict(arrays)


def found_in(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, wg.Tensor):
        return {path: value}
    if not isinstance(value, (dict, list)):
        return {}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: v for key, one in items for k, v in found_in(one, f"{path}.{key}" if path else str(key)).items()}


def again(value: Any, **kwargs: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, **kwargs)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("name", ["values.pt", "values_legacy.pt", "values_protocol4.pt"])
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_of_pytorch(name: str, mmap: bool, weights_only: bool, expected: dict[str, Any]) -> None:
    found = torch.load(DATA / name, mmap=mmap, weights_only=weights_only)
    tensors = found_in(found)
    wanted = {k for k in expected if not k.startswith("network")}
    assert set(tensors) == wanted if name == "values.pt" else set(tensors) < wanted
    for path, tensor in tensors.items():
        assert type(tensor) in (torch.Tensor, torch.nn.Parameter)
        got = tensor.detach().numpy()
        if path.startswith("dtypes."):
            assert got.dtype.name == path.removeprefix("dtypes.")
        np.testing.assert_array_equal(got.astype(expected[path].dtype), expected[path])
    assert isinstance(found["parameter"], torch.nn.Parameter)
    assert found["tracked"].requires_grad
    assert not found["plain"].requires_grad
    size, place, dtype, array, number = found["others"]
    assert (size, str(place), dtype, number) == (torch.Size([2, 3]), "cuda:1", torch.float16, np.float32(2.5))
    assert isinstance(size, torch.Size)
    np.testing.assert_array_equal(array, np.arange(3.0))
    python = {"text": "é", "bytes": b"\xff\0", "set": {1, 2}, "large": 2**70, 7: (None, True, -1.5)}
    assert found["python"] == python
    assert list(found["python"]) == list(python)


class Network(torch.nn.Module):
    """The network of the recorded file."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.rnn = torch.nn.LSTM(16, 5, batch_first=True)
        self.out = torch.nn.Linear(5, 3)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm(self.conv(x))).flatten(2)
        return self.out(self.rnn(y)[0][:, -1])


def test_a_model_of_pytorch_gives_its_numbers(expected: dict[str, Any]) -> None:
    saved = torch.load(DATA / "network.pt", map_location="cpu")
    assert saved["epoch"] == 3
    assert isinstance(saved["model"], OrderedDict)
    model = Network().eval()
    assert model.load_state_dict(saved["model"]) == ([], [])
    np.testing.assert_allclose(model(torch.tensor(expected["network_x"])).detach(), expected["network_y"], rtol=1e-5)
    assert {k: v.shape for k, v in load_weights(DATA / "network.pt", "model").items()} == {
        k: v.shape for k, v in model.state_dict().items()
    }
    # Wengert's own layers have the same names.
    plain = wg.nn.Linear(5, 3)
    plain.load_state_dict(load_weights(DATA / "network.pt", "model.out"))
    np.testing.assert_array_equal(plain.weight.detach(), model.out.weight.detach())
    moments = saved["optimizer"]["state"]
    assert moments[0]["exp_avg"].shape == model.conv.weight.shape


def test_whole_modules_of_pytorch_are_refused() -> None:
    with pytest.raises(DataError, match=r"(?s)asks for __main__\.Network.*weights_only=False"):
        torch.load(DATA / "whole_network.pt")


# -- what is written


def ours() -> dict[str, Any]:
    shared = torch.arange(6.0)
    return {
        "t": torch.arange(6.0).reshape(2, 3).T,
        "same": [shared, shared],
        "p": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "g": torch.ones(2, requires_grad=True),
        "dtypes": [torch.ones(2, dtype=d) for d in (torch.bfloat16, torch.float16, torch.complex64, torch.bool)],
        "small": torch.asarray(np.array([1, 65535], np.uint16)),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(3),
        "plain": wg.ones(2),
        "more": [torch.float16, torch.Size([1, 2]), torch.device("cpu"), {1, 2}, b"\xff", 2**70, (None, True)],
        "numpy": [np.arange(3), np.float32(2), np.arange(4.0).reshape(2, 2).T],
    }


@pytest.mark.parametrize("kwargs", [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 5}])
def test_what_is_written_comes_back(kwargs: Any) -> None:
    given = ours()
    found = again(given, **kwargs)
    assert list(found) == list(given)
    for path, tensor in found_in(given).items():
        got = found_in(found)[path]
        assert (got.dtype, got.shape, got.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
        np.testing.assert_array_equal(got.detach().numpy(), tensor.detach().numpy())
    assert type(found["p"]) is torch.nn.Parameter
    assert found["same"][0] is found["same"][1]
    assert found["more"] == given["more"]
    assert [a.tolist() for a in found["numpy"]] == [a.tolist() for a in given["numpy"]]


def test_the_pickle_names_what_pytorch_knows() -> None:
    """What PyTorch's own reader of weights accepts, instruction by instruction and name by name."""
    file = io.BytesIO()
    given = ours()
    del given["numpy"]  # PyTorch wants to be told that NumPy's names are safe
    torch.save({**given, "state": torch.optim.Adam([torch.ones(1, requires_grad=True)]).state_dict()}, file)
    with zipfile.ZipFile(file) as archive:
        pickled = archive.read("archive/data.pkl")
        assert archive.read("archive/version") == b"3\n"
        assert archive.read("archive/byteorder") == b"little"
        for info in archive.infolist():
            assert (info.header_offset + 30 + len(info.filename) + len(info.extra)) % 64 == 0, info.filename
    names = {arg for op, arg, _ in pickletools.genops(pickled) if op.name == "GLOBAL"}
    assert names == {
        "torch._utils _rebuild_tensor_v2",
        "torch._utils _rebuild_tensor_v3",
        "torch._utils _rebuild_parameter",
        "torch.storage UntypedStorage",
        "torch float16",
        "torch uint16",
        "torch Size",
        "torch device",
        "collections OrderedDict",
        "_codecs encode",
        "__builtin__ set",
        *(f"torch {s}Storage" for s in ("Float", "BFloat16", "Half", "ComplexFloat", "Bool", "Long")),
    }
    known = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "MARK", "BINUNICODE", "GLOBAL", "BINPERSID", "REDUCE"}
    known |= {"BININT", "BININT1", "BININT2", "BINFLOAT", "LONG1", "NONE", "NEWTRUE", "NEWFALSE", "STOP", "SETITEM"}
    known |= {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "SETITEMS", "APPEND", "APPENDS", "BINPUT", "LONG_BINPUT"}
    known |= {"BINGET", "LONG_BINGET", "BUILD"}
    assert {op.name for op, _, _ in pickletools.genops(pickled)} <= known


def same_as_pytorch(given: Any, found: Any) -> None:
    if isinstance(given, wg.Tensor):
        values = found.detach().float() if given.dtype.name == "bfloat16" else found.detach()
        np.testing.assert_array_equal(values.numpy(), given.detach().numpy().astype(values.numpy().dtype))
        assert str(found.dtype) == f"torch.{given.dtype.name}"
        assert found.requires_grad == given.requires_grad
    elif isinstance(given, dict):
        assert list(found) == list(given)
        for key, value in given.items():
            same_as_pytorch(value, found[key])
    elif isinstance(given, list):
        for a, b in zip(given, found, strict=True):
            same_as_pytorch(a, b)


def test_pytorch_reads_what_is_written() -> None:
    real = pytest.importorskip("torch")
    for kwargs in ({}, {"_use_new_zipfile_serialization": False}):
        file = io.BytesIO()
        model = Network()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(2, 1, 4, 4)).sum().backward()
        optimizer.step()
        given = {**ours(), "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        for key in ("numpy", *(["small"] if kwargs else [])):  # PyTorch does not read its own older files of uint16
            del given[key]
        torch.save(given, file, **kwargs)
        file.seek(0)
        found = real.load(file, weights_only=True)
        same_as_pytorch(given, found)
        assert isinstance(found["p"], real.nn.Parameter)
        assert found["g"].requires_grad
        assert found["more"][:3] == [real.float16, real.Size([1, 2]), real.device("cpu")]
        their = real.nn.Linear(5, 3)
        their.load_state_dict({k[4:]: v for k, v in found["model"].items() if k.startswith("out.")})


def test_tied_values_are_written_once() -> None:
    model = torch.nn.Linear(64, 64, bias=False)
    file = io.BytesIO()
    torch.save({"a": model.state_dict(), "b": model.state_dict()}, file)
    assert len(file.getvalue()) < 1.2 * 64 * 64 * 4


def test_whole_modules_need_trust() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    x = torch.ones(2)
    for kwargs in ({}, {"_use_new_zipfile_serialization": False}):
        file = io.BytesIO()
        torch.save(model, file, **kwargs)
        file.seek(0)
        with pytest.raises(DataError, match=r"asks for wengert\.torch\.nn"):
            torch.load(file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        np.testing.assert_array_equal(loaded(x).detach(), model(x).detach())
        assert isinstance(loaded[0].weight, torch.nn.Parameter)


class Config:
    """A class of a program's own."""

    def __init__(self, width: int) -> None:
        self.width = width


def test_classes_that_are_told_to_be_safe() -> None:
    for kwargs in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}):
        file = io.BytesIO()
        torch.save({"config": Config(3), "w": torch.ones(1)}, file, **kwargs)
        file.seek(0)
        with pytest.raises(DataError, match="Config, which is not among the names"):
            torch.load(file)
        file.seek(0)
        with torch.serialization.safe_globals([Config]):
            assert torch.load(file)["config"].width == 3
        assert torch.serialization.get_safe_globals() == []


def doubled(x: torch.Tensor) -> torch.Tensor:
    """A function of a program's own."""
    return 2.0 * x


class Choice:
    """An object whose state holds a function and a class."""

    def __init__(self) -> None:
        self.function, self.kind, self.table = doubled, Config, {"inside": [doubled]}


def test_functions_and_classes_that_are_told_to_be_safe_are_values() -> None:
    for kwargs in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}):
        file = io.BytesIO()
        torch.save({"choice": Choice(), "alone": doubled}, file, **kwargs)
        file.seek(0)
        with torch.serialization.safe_globals([Choice, Config]), pytest.raises(DataError, match="doubled, which is"):
            torch.load(file)
        file.seek(0)
        with torch.serialization.safe_globals([Choice, Config, doubled]):
            found = torch.load(file)
        choice = found["choice"]
        assert found["alone"] is choice.function is choice.table["inside"][0] is doubled
        assert choice.kind is Config


def test_a_transformer_that_is_told_to_be_safe_runs() -> None:
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    kinds = {type(module) for module in model.modules()}
    with torch.serialization.safe_globals([*kinds, torch.nn.functional.relu]):
        loaded = torch.load(file)
    x = torch.ones(3, 1, 4)
    np.testing.assert_array_equal(loaded(x).detach(), model(x).detach())


def test_several_objects_in_one_file() -> None:
    """The older format can be written to a file again and again."""
    file = io.BytesIO()
    for i in range(3):
        torch.save({"i": torch.tensor(i)}, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [torch.load(file)["i"].item() for _ in range(3)] == [0, 1, 2]


def test_places_and_paths(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(2)}, path)
    for place in ("cpu", torch.device("cpu"), lambda storage, location: storage, {"cuda:0": "cpu"}, None):
        assert torch.load(str(path), map_location=place)["w"].tolist() == [1.0, 1.0]
    with pytest.raises(DTypeError, match="cuda"):
        torch.load(path, map_location="cuda:0")
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(DataError, match="was not written"):
        torch.save({}, tmp_path / "none" / "x.pt")
    before = path.read_bytes()
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save({"w": lambda: 0}, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]


def test_training_goes_on_from_what_was_read(tmp_path: Path) -> None:
    """What is read can be trained: values that share a file's memory are not written to."""
    model = torch.nn.Linear(2, 1)
    torch.save(model.state_dict(), tmp_path / "m.pt")
    loaded = torch.load(tmp_path / "m.pt", mmap=True)
    other = torch.nn.Linear(2, 1)
    other.load_state_dict(loaded)
    steps = []
    for m in (model, other):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            m(torch.ones(2)).sum().backward()
            optimizer.step()
        steps.append(m.weight.detach().numpy())
    np.testing.assert_array_equal(*steps)
    x = loaded["weight"]
    x.add_(1.0)
    np.testing.assert_array_equal(torch.load(tmp_path / "m.pt")["weight"] + 1.0, x)
