"""`wg.interop.tensorboard`: what TensorBoard's own reader finds in the files, and what its server says."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.interop.named_nodes import NamedNode, named_nodes

# -- graphs as named nodes: these need no TensorBoard


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.w = nn.Parameter(np.eye(4, dtype="f4"))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = wg.softmax(layer(x), -1)
        last, _ = wg.scan(lambda c, row: (wg.tanh(c @ self.w + row), c), wg.zeros(4), x)
        return last * 2.0


def check_names(nodes: list[NamedNode]) -> dict[str, NamedNode]:
    """Names are unique, no node is a folder, and every input is there before."""
    by_name: dict[str, NamedNode] = {}
    for node in nodes:
        assert node.name not in by_name
        assert all(name.partition(":")[0] in by_name for name in node.inputs), node
        by_name[node.name] = node
    folders = {"/".join(n.split("/")[:i]) for n in by_name for i in range(1, n.count("/") + 1)}
    assert not folders & set(by_name)
    return by_name


def test_modules_composites_and_loops_are_folders() -> None:
    graph = wg.graph(Recurrent())(wg.spec((5, 4)))
    nodes = check_names(named_nodes(graph))
    assert nodes["args.0"].op == "Placeholder"
    assert nodes["layers/0/weight"].op == "Parameter"
    assert nodes["layers/1/linear/matmul"].inputs[0].startswith("softmax/")
    assert {"softmax/exp", "softmax_1/exp", "scan/scan", "scan/body/tanh"} <= set(nodes)
    assert nodes["scan/body/vecmat"].inputs[1] in nodes
    body_inputs = [n for n in nodes.values() if n.name.startswith("scan/body/") and n.op == "Placeholder"]
    assert [n.inputs for n in body_inputs] == [(i,) for i in nodes["scan/scan"].inputs[: len(body_inputs)]]
    assert nodes["scan/scan"].attributes["length"] == "5"
    assert nodes["multiply"].inputs == ("scan/scan",)
    assert nodes["multiply"].attributes["operand 1"] == "2.0"
    assert nodes["multiply"].shapes == ((4,),)
    assert nodes["multiply"].attributes["line"].startswith("test_tensorboard.py:")


def test_branches_results_and_unknown_sizes() -> None:
    def f(p: Any, x: Any) -> Any:
        return wg.cond(p, lambda x: wg.sort(x), lambda x: x * 2, x), wg.split(x, 1, axis=-1)[1]

    nodes = check_names(named_nodes(wg.graph(f)(wg.spec((), wg.bool), wg.spec((None, 2)))))
    assert nodes["x"].shapes == ((None, 2),)
    branches = {n.split("/")[1] for n in nodes if n.startswith("switch/") and n.count("/") > 1}
    assert branches == {"branches", "branches_1"}
    assert [n.inputs for n in nodes.values() if n.name.startswith("switch/branches") and n.op == "Placeholder"] == [
        ("x",), ("x",)
    ]  # fmt: skip


def test_every_output_is_there_even_constants_and_names_are_clean() -> None:
    odd = wg.tensor([1.0, 2.0], requires_grad=True)
    graph = wg.Graph.of([wg.exp(odd), wg.ones(3)], inputs={"a b:c": odd})
    assert list(check_names(named_nodes(graph))) == ["a_b_c", "exp", "const"]


def test_derivatives_are_folders() -> None:
    nodes = check_names(named_nodes(wg.graph(wg.grad(lambda x: wg.sin(x) * x))(wg.spec(()))))
    assert any("_gradient" in name for name in nodes)


# -- event files, which do

tensorboard = pytest.importorskip("tensorboard", reason="needs the package tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from tensorboard.compat.proto import graph_pb2  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

from wengert.interop.tensorboard import SummaryWriter  # noqa: E402


def read(folder: Path) -> Any:
    found = EventAccumulator(str(folder), size_guidance={"tensors": 0, "histograms": 0, "images": 0})
    found.Reload()
    return found


def test_scalars(tmp_path: Path) -> None:
    values = [1.5, wg.tensor(2.5), np.float32(3.5), wg.tensor([4.5], requires_grad=True), 5, True]
    with SummaryWriter(tmp_path) as writer:
        for step, value in enumerate(values):
            writer.add_scalar("loss/train", value, step, walltime=100.0 + step)
        writer.add_scalar("odd", float("nan"))
    events = read(tmp_path).Scalars("loss/train")
    assert [(e.step, e.value, e.wall_time) for e in events] == [
        (i, v, 100.0 + i) for i, v in enumerate([1.5, 2.5, 3.5, 4.5, 5.0, 1.0])
    ]
    assert np.isnan(read(tmp_path).Scalars("odd")[0].value)


def test_several_scalars_are_runs_of_one_chart(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss/all", {"train": 1.0, "test": 2.0}, 3)
    for name, value in (("train", 1.0), ("test", 2.0)):
        (event,) = read(tmp_path / f"loss_all_{name}").Scalars("loss/all")
        assert (event.step, event.value) == (3, value)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=(30, 40)),
        np.arange(10),
        np.array([3.0]),
        np.array([2.0, 2.0]),
        np.array([1.0, np.nextafter(1.0, 2.0)]),
        np.array([-1e308, 1.7e308]),
        np.array([]),
        np.array([np.nan, np.inf, 1.0, 2.0]),
        np.array([np.nan]),
        np.array([True, False, True]),
    ],
    ids=["normal", "integers", "one", "equal", "adjacent", "wide", "empty", "not finite", "none finite", "booleans"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning:tensorboard")  # its reader's own, where widths overflow
def test_histograms_count_every_finite_element(values: Any, tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("w", wg.asarray(values), 7)
    (event,) = read(tmp_path).Histograms("w")
    found, kept = event.histogram_value, values[np.isfinite(values)].astype(float)
    assert event.step == 7
    assert found.num == sum(found.bucket) == kept.size
    assert len(found.bucket) == len(found.bucket_limit)
    if kept.size:
        assert (found.min, found.max, found.sum) == (kept.min(), kept.max(), pytest.approx(kept.sum()))
        limits, counts = np.array(found.bucket_limit), np.cumsum(found.bucket)
        assert (limits[1:] > limits[:-1]).all() or kept.min() == kept.max()
        for limit, count in zip(limits[:-1], counts):
            assert count == (kept < limit).sum()


@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 4, 5), "CHW"), ((4, 5, 1), "HWC"), ((4, 5), "HW"), ((4, 5, 4), "HWC")]
)
def test_images(shape: Any, axes: str, tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).random(shape)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("float", wg.tensor(pixels), 1, dataformats=axes)
        writer.add_image("bytes", np.round(pixels * 255).astype(np.uint8), 1, dataformats=axes)
    found = read(tmp_path)
    for tag in ("float", "bytes"):
        (event,) = found.Images(tag)
        assert (event.width, event.height) == (5, 4)
        shown = np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
        expected = np.moveaxis(pixels, 0, -1) if axes == "CHW" else pixels
        assert (shown.reshape(4, 5, -1) == np.round(expected * 255).reshape(4, 5, -1)).all()


def test_text_and_hyperparameters(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "some *text* \N{GREEK SMALL LETTER ALPHA}", 2)
        writer.add_hparams({"lr": 0.1, "layers": 3, "model": "mlp", "jit": True, "l2": wg.tensor(0.5)}, {"best": 2.0})
    found = read(tmp_path)
    (note,) = found.Tensors("note")
    assert tensor_util.make_ndarray(note.tensor_proto).item().decode() == "some *text* \N{GREEK SMALL LETTER ALPHA}"
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(found.Tags()["tensors"])
    assert found.Scalars("best")[0].value == 2.0


def test_graph(tmp_path: Path) -> None:
    model = Recurrent()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, wg.spec((5, 4)))
    found = read(tmp_path).Graph()
    expected = named_nodes(wg.graph(model)(wg.spec((5, 4))))
    assert [(n.name, n.op, tuple(n.input)) for n in found.node] == [(n.name, n.op, n.inputs) for n in expected]
    (body,) = [n for n in found.node if n.name == "scan/body/tanh"]
    assert [d.size for d in body.attr["_output_shapes"].list.shape[0].dim] == [4]
    assert isinstance(found, graph_pb2.GraphDef)
    with SummaryWriter(tmp_path / "other") as writer:
        writer.add_graph(wg.graph(wg.sin)(wg.spec((None,))))
        with pytest.raises(wg.GraphError, match="with inputs"):
            writer.add_graph(wg.graph(wg.sin)(wg.spec(())), 1.0)
    (_, sine) = read(tmp_path / "other").Graph().node
    assert sine.attr["_output_shapes"].list.shape[0].dim[0].size == -1


def test_wrong_values(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(wg.ShapeError, match=r"a scalar of shape \(2,\)"):
            writer.add_scalar("x", [1.0, 2.0])
        with pytest.raises(wg.DTypeError, match="complex"):
            writer.add_histogram("x", wg.tensor([1j]))
        with pytest.raises(wg.ShapeError, match="2 channels"):
            writer.add_image("x", np.zeros((2, 4, 4)))
        with pytest.raises(wg.ShapeError, match="whose axes are HW"):
            writer.add_image("x", np.zeros((2, 4, 4)), dataformats="HW")
        with pytest.raises(wg.ShapeError, match="dataformats"):
            writer.add_image("x", np.zeros((2, 4)), dataformats="WH")
        with pytest.raises(wg.DTypeError, match="hyperparameter 'a' is a list"):
            writer.add_hparams({"a": [1]}, {})
    writer.close()
    with pytest.raises(wg.StateError, match="is closed"):
        writer.add_scalar("x", 1.0)


def test_flush_and_a_writer_that_nobody_closes(tmp_path: Path) -> None:
    writer = SummaryWriter(tmp_path / "open")
    writer.add_scalar("x", 1.0)
    writer.flush()
    assert len(read(tmp_path / "open").Scalars("x")) == 1
    writer.close()
    code = (
        "from wengert.interop.tensorboard import SummaryWriter\n"
        f"SummaryWriter({str(tmp_path / 'a')!r}).add_scalar('x', 1.0)\n"
        f"kept = SummaryWriter({str(tmp_path / 'b')!r})\nkept.add_scalar('x', 1.0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [len(read(tmp_path / name).Scalars("x")) for name in "ab"] == [1, 1]


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(wg.GraphError, match=r"wengert\[tensorboard\]"):
        SummaryWriter(tmp_path)


def test_the_server_serves_them(tmp_path: Path) -> None:
    """TensorBoard's own server finds every page's data."""
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", 1.0, 1)
        writer.add_histogram("w", np.arange(5.0), 1)
        writer.add_graph(nn.Linear(3, 2), wg.spec((4, 3)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(tmp_path), "--port", str(port)]
    server = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/{path}", timeout=10) as answer:
            return str(answer.read().decode())

    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                if "run" in json.loads(ask("plugin/scalars/tags")):
                    break
            except (urllib.error.URLError, ConnectionError):
                pass
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert [row[1:] for row in json.loads(ask("plugin/scalars/scalars?run=run&tag=loss"))] == [[1, 1.0]]
        assert json.loads(ask("plugin/histograms/histograms?run=run&tag=w"))[0][1] == 1
        assert 'name: "linear/matmul"' in ask("plugin/graphs/graph?run=run&conceptual=false")
    finally:
        server.terminate()
        server.wait(20)
