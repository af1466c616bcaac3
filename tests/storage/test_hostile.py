"""Files that are damaged or made to do harm are refused with one class of error, in bounded time and memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import random
import struct
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError
from wengert.storage import load, load_weights
from wengert.storage.files import Reading
from wengert.storage.pickles import PLAIN, Machine
from wengert.storage.torch_files import MAGIC, VERSION

HERE = Path(__file__).parent
TORCH = HERE.parent / "torch" / "data"


def zipped(pickled: bytes, storages: dict[str, bytes] | None = None, **more: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, data in (storages or {}).items():
            archive.writestr(f"archive/data/{key}", data)
        for name, data in more.items():
            archive.writestr(name, data)
        archive.writestr("archive/version", b"3\n")
    file.seek(0)
    return file


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(
    offset: Any = 0,
    size: Any = (2,),
    stride: Any = (1,),
    count: Any = 2,
    key: str = "0",
    storage: str = "FloatStorage",
) -> bytes:
    """The instructions that make a tensor."""
    plain = [pickle.dumps(v, 2)[2:-1] for v in (count, offset, size, stride)]
    persistent = b"(" + text("storage") + f"ctorch\n{storage}\n".encode() + text(key) + text("cpu") + plain[0] + b"tQ"
    hooks = b"ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + persistent + plain[1] + plain[2] + plain[3] + b"\x89" + hooks + b"tR"
    )


def test_the_instructions_make_a_tensor() -> None:
    file = zipped(b"\x80\x02" + tensor() + b".", {"0": struct.pack("<2f", 1, 2)})
    assert torch.load(file).tolist() == [1.0, 2.0]


class Evil:
    """An object whose pickle runs a command."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_run(protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pickled = pickle.dumps({"w": Evil(str(mark))}, protocol)
    start = b"".join(pickle.dumps(part, 2) for part in (MAGIC, VERSION, {}))
    for make in (zipped, lambda p: io.BytesIO(start + p)):
        with pytest.raises(DataError, match=r"asks for (posix|nt)\.system, which is not among the names"):
            torch.load(make(pickled))
    path = tmp_path / "w.pt"
    path.write_bytes(zipped(pickled).getvalue())
    with pytest.raises(DataError, match="system"):
        load_weights(path)
    assert not mark.exists()


NAMES = [
    "builtins.eval",
    "builtins.exec",
    "builtins.getattr",
    "builtins.__import__",
    "subprocess.Popen",
    "torch.load",
    "torch.storage._load_from_bytes",
    "torch._utils._rebuild_sparse_tensor",
    "numpy.load",
    "functools.partial",
    "collections.OrderedDict.update",
    "wengert.torch.nn.Linear",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_not_known_are_told(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    for code in (
        f"c{module}\n{attribute}\n".encode() + text("1") + b"\x85R.",
        text(module) + text(attribute) + b"\x93" + text("1") + b"\x85R.",
    ):
        with pytest.raises(DataError, match=f"asks for {name.replace('.', '[.]')}, which"):
            torch.load(zipped(b"\x80\x04" + code))


# A pair of what is on the stack, twice.
TWICE = b"q\x000h\0h\0\x86"

BOMBS: dict[str, bytes] = {
    "a text of 2**40 bytes": b"\x8d" + struct.pack("<Q", 2**40) + b"a.",
    "bytes of 2**62": b"\x8e" + struct.pack("<Q", 2**62) + b"a.",
    "a bytearray of 2**40": b"\x96" + struct.pack("<Q", 2**40) + b"a.",
    "a bytearray made of a number": b"cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\x10\x85R.",
    "a number of many digits": b"L" + b"9" * 100_000 + b"L\n.",
    "an integer of many bytes": b"\x8b" + struct.pack("<I", 100_000) + b"\x01" * 100_000 + b".",
    "deep tuples": b"]" + b"\x85" * 5000 + b".",
    "deep lists": b"]" * 5000 + b"a" * 4999 + b".",
    "a list in itself": b"]q\0h\0a.",
    "a key that takes long to hash": b"})" + TWICE * 60 + b"K\x01s.",
    "keys that collide": b"}("
    + b"".join(b"\x8a\x0a" + (k * (2**61 - 1)).to_bytes(10, "little") + b"N" for k in range(9))
    + b"u.",
    "long bytes, many times": text("a" * 100_000) + b"q\x010" + b"c_codecs\nencode\nh\x01\x85R0" * 20_000 + b"N.",
    "a shape of too many elements": tensor(size=(2**40, 2**40), stride=(0, 0)) + b".",
    "one number repeated": tensor(size=(2**36,), stride=(0,)) + b".",
    "one number repeated again and again": b"(" + tensor(size=(2**24,), stride=(0,)) * 40 + b"t.",
    "a tensor beyond its storage": tensor(size=(3,)) + b".",
    "an offset beyond its storage": tensor(offset=1) + b".",
    "an offset before its storage": tensor(offset=-1) + b".",
    "strides beyond the storage": tensor(size=(2, 2), stride=(1, 1)) + b".",
    "a stride backwards": tensor(stride=(-1,)) + b".",
    "overlapping strides beyond the end": tensor(size=(2, 2), stride=(1, 2)) + b".",
    "a storage that is shorter than it says": tensor(count=1000, size=(1000,)) + b".",
    "a storage of 2**60 elements": tensor(count=2**60, size=(1,)) + b".",
    "a storage that is not there": tensor(key="9") + b".",
    "a path as a storage": tensor(key="../../etc/passwd") + b".",
    "sizes that are no numbers": tensor(size=("a",)) + b".",
    "sizes of True": tensor(size=(True,)) + b".",
    "a tensor without a storage": b"ctorch._utils\n_rebuild_tensor_v2\n(K\x01K\0)))NtR.",
    "a call of a number": b"K\x01)R.",
    "no arguments": b"ctorch._utils\n_rebuild_tensor_v2\nNR.",
    "a name as a value": b"ctorch._utils\n_rebuild_tensor_v2\n.",
    "an empty stack": b"R.",
    "no end": b"]",
    "an unknown instruction": b"\xff.",
    "a value that was never stored": b"h\x05.",
    "an extension": b"\x82\x01.",
    "a huge number in the memo": b"]r\xff\xff\xff\x7f0K\x01\x85",
    "an instance of a class": b"(ios\nsystem\n.",
    "a protocol of the future": b"\x80\x09].",
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_pickles(name: str) -> None:
    code = BOMBS[name]
    file = zipped(b"\x80\x02" + code, {"0": struct.pack("<2f", 1, 2)})
    size = len(file.getvalue())
    tracemalloc.start()
    before = time.process_time()
    try:
        with pytest.raises(DataError) as found:
            torch.load(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(found.value).partition(" (")[0]
    assert len(str(found.value)) < 1000
    assert peak < 300_000_000 + 100 * size
    assert time.process_time() - before < 30  # a bomb would not end


def test_shared_values_are_seen_once(tmp_path: Path) -> None:
    """Two to the power of sixty lists in a few hundred bytes do no harm as they are; taken apart they would."""
    code = b"](K\x01K\x02e" + TWICE * 60 + b"."
    found = torch.load(zipped(b"\x80\x02" + code))
    assert found[0] is found[1]
    path = tmp_path / "x.pt"
    path.write_bytes(zipped(b"\x80\x02" + code).getvalue())
    with pytest.raises(DataError, match="more in its containers"):
        load_weights(path)


def test_hostile_zips(tmp_path: Path) -> None:
    good = b"\x80\x02" + tensor() + b"."
    data = {"0": struct.pack("<2f", 1, 2)}
    cases: dict[str, Any] = {
        "has a member with the name": zipped(good, data, **{"../../evil": b""}),
        "data.pkl": zipped(good, data, **{"other/data.pkl": good}),
        "TorchScript": zipped(good, data, **{"archive/constants.pkl": b""}),
    }
    for name in ("/abs", "a\\..\\b", "C:/x"):
        cases[f"member with the name.*{name[0]}"] = zipped(good, data, **{name: b""})
    twice = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(twice, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("archive/data.pkl", good)
        archive.writestr("archive/data.pkl", good)
    cases["two members"] = twice
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", good)
        archive.writestr("archive/data/0", b"\0" * 1_000_000)
    cases["compressed"] = packed
    for pattern, file in cases.items():
        path = tmp_path / "x.pt"
        path.write_bytes(file.getvalue())
        for mmap in (False, True):
            with pytest.raises(DataError, match=pattern):
                torch.load(path, mmap=mmap)
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_a_compressed_archive_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, w=np.zeros(2_000_000, np.float32), v=np.zeros(2_000_000, np.float32))
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"(?s)v.npy in .* asks for 8,000,128 bytes of memory.*limit=bytes"):
        load_weights(path, limit=10_000_000)
    assert list(load_weights(path)) == ["w", "v"]


def test_objects_in_numpy_files_are_not_made(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = tmp_path / "x.npz"
    np.savez(path, a=np.array([Evil(str(mark))], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="system"):
        load_weights(path)
    assert not mark.exists()


def header_of(**entries: Any) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


SAFETENSORS: dict[str, bytes] = {
    "a header longer than the file": struct.pack("<Q", 1 << 40) + b"{}",
    "no JSON": struct.pack("<Q", 4) + b"{{{{",
    "deep JSON": struct.pack("<Q", 200_000) + b'{"a":' + b"[" * 199_995,
    "data beyond the end": header_of(a={"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}) + b"\0" * 8,
    "a shape of another size": header_of(a={"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 8]}) + b"\0" * 8,
    "a shape that overflows": header_of(a={"dtype": "F32", "shape": [1 << 62, 8], "data_offsets": [0, 8]}) + b"\0" * 8,
    "an unknown dtype": header_of(a={"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}) + b"\0" * 8,
    "overlapping data": header_of(
        a={"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        b={"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
    )
    + b"\0" * 12,
    "a gap": header_of(a={"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}) + b"\0" * 8,
    "data after the last tensor": header_of(a={"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}) + b"\0" * 8,
    "a place that ends before it begins": header_of(
        a={"dtype": "F99", "shape": [2], "data_offsets": [8, 0]},
        b={"dtype": "F99", "shape": [2], "data_offsets": [0, 8]},
    )
    + b"\0" * 8,
    "a negative size": header_of(a={"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}) + b"\0" * 8,
    "a size that is no number": header_of(a={"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]}) + b"\0" * 8,
    "a size of a half": header_of(a={"dtype": "F32", "shape": [0.5, 4], "data_offsets": [0, 8]}) + b"\0" * 8,
    "three places": header_of(a={"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}) + b"\0" * 8,
    "no place": header_of(a={"dtype": "F32", "shape": [2]}) + b"\0" * 8,
    "an entry that is a text": header_of(a="F32"),
    "a header that is a list": struct.pack("<Q", 2) + b"[]",
    "a header that is no text": struct.pack("<Q", 2) + b"\xff\xff",
    "no header": b"\2\0\0",
    "a name twice": struct.pack("<Q", 14) + b'{"a":1, "a":1}',
    "metadata that are no texts": header_of(__metadata__={"a": 1}),
    "a structure that makes no sense": header_of(__metadata__={"wengert": '{"eval": "1"}'}),
    "a structure of what is not there": header_of(__metadata__={"wengert": '{"tensor": "x"}'}),
    "a structure that is too deep": header_of(__metadata__={"wengert": '{"list":[' * 20_000 + "]}" * 20_000}),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_hostile_safetensors(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(SAFETENSORS[name])
    with pytest.raises(DataError):
        load(path)


GGUF = b"GGUF" + struct.pack("<I", 3)
GGUFS: dict[str, bytes] = {
    "2**60 tensors": GGUF + struct.pack("<QQ", 2**60, 0),
    "2**60 entries": GGUF + struct.pack("<QQ", 0, 2**60),
    "a text of 2**60 bytes": GGUF + struct.pack("<QQQ", 0, 1, 2**60),
    "a list of 2**60 numbers": GGUF + struct.pack("<QQQ", 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 4, 2**60),
    "a list of 2**60 lists": GGUF + struct.pack("<QQQ", 0, 1, 1) + b"a" + struct.pack("<IIQ", 9, 9, 2**60),
    "a tensor beyond the end": GGUF + struct.pack("<QQQ", 1, 0, 1) + b"a" + struct.pack("<IQIQ", 1, 2**40, 0, 0),
    "a tensor at 2**62": GGUF + struct.pack("<QQQ", 1, 0, 1) + b"a" + struct.pack("<IQIQ", 1, 1, 0, 2**62),
    "a hundred axes": GGUF + struct.pack("<QQQ", 1, 0, 1) + b"a" + struct.pack("<I", 100),
    "no whole blocks": GGUF + struct.pack("<QQQ", 1, 0, 1) + b"a" + struct.pack("<IQIQ", 1, 33, 8, 0) + b"\0" * 100,
    "an unknown type": GGUF + struct.pack("<QQQ", 1, 0, 1) + b"a" + struct.pack("<IQIQ", 1, 32, 99, 0) + b"\0" * 100,
    "of the future": b"GGUF" + struct.pack("<I", 99),
}


@pytest.mark.parametrize("name", GGUFS)
def test_hostile_gguf(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(GGUFS[name])
    with pytest.raises(DataError):
        load_weights(path)


# -- files in which bytes are changed, left out and put in


def seeds(folder: Path) -> dict[str, bytes]:
    found = {name: (TORCH / name).read_bytes() for name in ("values.pt", "values_legacy.pt", "values_protocol4.pt")}
    found["blocks.gguf"] = (HERE / "data" / "blocks.gguf").read_bytes()
    wg.storage.save(folder / "s", {"a": wg.ones(3), "b": [1, 2.5, "x", None, {"c": (wg.zeros(2, dtype=wg.int8),)}]})
    found["state.safetensors"] = (folder / "s").read_bytes()
    archive = io.BytesIO()
    np.savez_compressed(archive, a=np.ones((3, 4)), b=np.arange(5), c=np.array({"k": np.ones(2)}, dtype=object))
    found["arrays.npz"] = archive.getvalue()
    return found


def mutated(data: bytes, others: list[bytes], r: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 8))):
        at = r.randrange(len(out)) if out else 0
        kind = r.randrange(7)
        if kind == 0 and out:
            out[at] ^= 1 << r.randrange(8)
        elif kind == 1 and out:
            out[at] = r.choice((0, 1, 0x7F, 0x80, 0xFF, r.randrange(256)))
        elif kind == 2:
            del out[at : at + r.choice((1, 4, 64))]
        elif kind == 3:
            out[at:at] = r.randbytes(r.choice((1, 4, 9)))
        elif kind == 4:
            out[at : at + 8] = struct.pack("<q", r.choice((-1, 2**31, 2**32, 2**62, 2**63 - 1)))
        elif kind == 5:
            out = out[:at]
        else:
            other = r.choice(others)
            start = r.randrange(len(other))
            out[at : at + 20] = other[start : start + 20]
    return bytes(out)


def loaders(path: Path) -> list[Callable[[], Any]]:
    return [
        lambda: torch.load(path),
        lambda: load_weights(path),
        lambda: load(path),
        lambda: load_weights(path, mmap=True),
    ]


def fuzz(count: int, seed: int, folder: Path) -> int:
    """Read mutated files. Return how many could be read all the same."""
    r = random.Random(seed)
    given = seeds(folder)
    read = 0
    for i in range(count):
        name = r.choice(list(given))
        data = given[name]
        # Inside a zip too: its checksums would find what is changed from outside.
        if name in ("values.pt", "values_protocol4.pt") and r.random() < 0.7:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                parts = {n: archive.read(n) for n in archive.namelist()}
            inner = next(n for n in parts if n.endswith("data.pkl"))
            parts[inner] = mutated(parts[inner], list(given.values()), r)
            file = io.BytesIO()
            with zipfile.ZipFile(file, "w") as archive:
                for n, part in parts.items():
                    archive.writestr(n, part)
            data = file.getvalue()
        else:
            data = mutated(data, list(given.values()), r)
        path = folder / f"f{i % 8}"
        path.write_bytes(data)
        load_one = r.choice(loaders(path))
        try:
            load_one()
            read += 1
        except wg.WengertError:
            pass
    return read


def test_changed_files(tmp_path: Path) -> None:
    assert 0 < fuzz(150, 0, tmp_path) < 130


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_changed_files_at_length(seed: int, tmp_path: Path) -> None:
    assert 0 < fuzz(2000, seed, tmp_path) < 1700


def test_random_instructions() -> None:
    """Rows of instructions that mean nothing."""
    r = random.Random(0)
    codes = b"(.01FNIJKMLBCTUVX]}te)lqhjgrspabdu\x85\x86\x87\x88\x89\x8f\x90\x91\x94\x93RQ"
    for _ in range(1000):
        data = bytes(r.choice(codes) if r.random() < 0.8 else r.randrange(256) for _ in range(r.randrange(40)))
        with contextlib.suppress(DataError), Reading("x"):
            Machine(data + b".", PLAIN, "x").load()
