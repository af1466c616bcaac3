"""Write the files of PyTorch's, and of gguf's, that tests read: run once where both are installed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent / "data"


def values() -> dict[str, Any]:
    """Tensors of every dtype and layout."""
    base = torch.arange(24.0).reshape(4, 6)
    shared = torch.arange(6, dtype=torch.int64)
    return {
        "plain": base,
        "transposed": base.t(),
        "steps": base[1:3, ::2],
        "expanded": torch.tensor([2.5]).expand(3, 4),
        "shared": [shared, shared[2:5]],
        "parameter": torch.nn.Parameter(torch.tensor([1.0, -2.0])),
        "tracked": torch.tensor([0.5], requires_grad=True),
        "scalar": torch.tensor(3, dtype=torch.int32),
        "empty": torch.zeros(0, 3),
        "conjugated": torch.tensor([1 + 2j, 3 - 1j]).conj(),
        "dtypes": {
            str(d).removeprefix("torch."): torch.tensor([0, 1, 2]).to(d)
            for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
            + (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
            + (torch.uint16, torch.uint32, torch.uint64)
        },
        "others": [torch.Size([2, 3]), torch.device("cuda:1"), torch.float16, np.arange(3.0), np.float32(2.5)],
        "python": {"text": "é", "bytes": b"\xff\0", "set": {1, 2}, "large": 2**70, 7: (None, True, -1.5)},
    }


def arrays(value: Any, path: str, found: dict[str, Any]) -> dict[str, Any]:
    """The tensors in containers by path."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj()
        found[path] = plain.float().numpy() if plain.dtype == torch.bfloat16 else plain.numpy()
    elif isinstance(value, (dict, list)):
        for k, v in value.items() if isinstance(value, dict) else enumerate(value):
            arrays(v, f"{path}.{k}" if path else str(k), found)
    return found


class Network(torch.nn.Module):
    """A small network of several kinds of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.rnn = torch.nn.LSTM(16, 5, batch_first=True)
        self.out = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.conv(x))).flatten(2)
        return self.out(self.rnn(y)[0][:, -1])


def main() -> None:
    HERE.mkdir(exist_ok=True)
    torch.manual_seed(0)
    given = values()
    torch.save(given, HERE / "values.pt")
    given["dtypes"] = {k: v for k, v in given["dtypes"].items() if k not in ("uint16", "uint32", "uint64")}
    torch.save(given, HERE / "values_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(given, HERE / "values_protocol4.pt", pickle_protocol=4)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(8, 1, 4, 4)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    model.eval()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, HERE / "network.pt")
    torch.save(model, HERE / "whole_network.pt")
    expected = arrays(values(), "", {})
    found = io.BytesIO()
    np.savez_compressed(found, network_x=x.numpy(), network_y=model(x).detach().numpy(), **expected)
    (HERE / "serialization.npz").write_bytes(found.getvalue())
    blocks()


def blocks() -> None:
    """A file of every block that is decoded, by the package that defines the format."""
    import gguf
    from gguf import quants

    folder = HERE.parents[1] / "storage" / "data"
    folder.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(folder / "blocks.gguf", "test")
    generator = np.random.default_rng(0)
    expected = {}
    for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0"):
        kind = gguf.GGMLQuantizationType[name]
        values = generator.standard_normal((3, 64)).astype(np.float32)
        plain = {"F32": np.float32, "F16": np.float16}.get(name)
        data = quants.quantize(values, kind) if plain is None else values.astype(plain)
        writer.add_tensor(name, data, raw_dtype=kind if plain is None else None)
        expected[name] = quants.dequantize(data, kind) if plain is None else data.astype(np.float32)
    writer.add_array("tokens", ["a", "b"] * 50)
    writer.add_float32("epsilon", 0.5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.savez_compressed(folder / "blocks.npz", **expected)


if __name__ == "__main__":
    main()
