"""Documents: what the schema says, and numbers that are the engine's."""

from __future__ import annotations

import base64
import gzip
import importlib
import importlib.util
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import numpy as np
import pytest

import wengert as wg
from recorded import recorded
from wengert import nn, optim
from wengert.core.ops.op import TABLE, Linear, Op, Partial
from wengert.explain.gradients.edges import Puller, is_start
from wengert.explain.gradients.flow import pattern_of
from wengert.explorer import Exploration
from wengert.explorer import explore as explore_and_compile
from wengert.explorer.document import forms
from wengert.explorer.document.document import KINDS, PHASES, SEEN, TRACKED, VIEW, document
from wengert.explorer.document.lives import classes
from wengert.explorer.document.stats import code, details
from wengert.explorer.recording.script import record_script

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "src/wengert/explorer/trace.schema.json").read_text())
TYPES = (ROOT / "explorer/src/trace/types.ts").read_text()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
POINTS = np.linspace(0.1, 1.0, 6).reshape(2, 3)


def explore(target: Any, *args: Any) -> Exploration:
    """The recording alone: what compilers make of it is another matter."""
    return explore_and_compile(target, *args, compiled=False)


def samples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("explorer_samples", ROOT / "scripts" / "explorer_samples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers(column: Any) -> list[int]:
    """A column, whichever way it is written."""
    return [int(n) for n in np.cumsum(column["delta"])] if isinstance(column, dict) else column


class Read:
    """A document as a reader has it."""

    def __init__(self, document: dict[str, Any], validate: bool = True) -> None:
        self.d = json.loads(json.dumps(document, allow_nan=False))
        if validate:
            VALIDATOR.validate(self.d)
        self.strings = self.d["strings"]
        self.nodes = self.d["nodes"]
        self.count = len(self.nodes["op"])
        edges = self.d["edges"]
        dst = np.cumsum(edges["dst"]).tolist() if edges["dst"] else []
        self.edges = [(d - s, d, slot) for d, s, slot in zip(dst, edges["src"], edges["slot"], strict=True)]
        kept = self.d["saved"]
        if isinstance(kept["value"], dict):  # slots of operands
            source = {(target, slot): row for row, target, slot in self.edges}
            pairs = zip(numbers(kept["node"]), kept["value"]["operand"], strict=True)
            kept["value"] = [node if slot < 0 else source[node, slot] for node, slot in pairs]
        held = self.d["buffers"]
        if isinstance(held["node"], dict):
            source = {(target, slot): row for row, target, slot in self.edges}
            made_by = numbers(self.d["events"]["node"])
            pairs = zip(numbers(held["first"]), held["node"]["operand"], strict=True)
            held["node"] = [
                -2 - slot if slot < -1 else made_by[k] if slot < 0 else source[made_by[k], slot] for k, slot in pairs
            ]
        self._operands: dict[int, list[int]] = {}
        for source, target, _ in self.edges:
            self._operands.setdefault(target, []).append(source)

    def name(self, row: int) -> str:
        return self.strings[self.nodes["name"][row]]

    def row(self, name: str) -> int:
        return [self.name(i) for i in range(self.count)].index(name)

    def op(self, row: int) -> str:
        index = self.nodes["op"][row]
        return "" if index < 0 else self.d["ops"]["name"][index]

    def rows(self, op: str) -> list[int]:
        return [i for i in range(self.count) if self.op(i) == op]

    def value(self, row: int) -> Any:
        return self.d["stats"]["value"]["scalar"][row]

    def gradient(self, row: int) -> Any:
        return self.d["stats"]["gradient"]["scalar"][row]

    def operands(self, row: int) -> list[int]:
        return self._operands.get(row, [])

    def text(self, row: int) -> str:
        """The source of a node, as its span has it."""
        spans, at = self.d["spans"], self.nodes["span"][row]
        assert spans["line0"][at] == spans["line1"][at]
        file = self.d["files"][spans["file"][at]]
        for piece in file["pieces"]:
            offset = spans["line0"][at] - piece["line"]
            if 0 <= offset < len(piece["text"]):
                return piece["text"][offset][spans["col0"][at] : spans["col1"][at]]
        raise AssertionError("the line of a span is in no piece")

    def scope(self, row: int) -> str:
        scopes = self.d["scopes"]
        parents, at, names = numbers(scopes["parent"]), numbers(self.nodes["scope"])[row], []
        while at > 0:
            names.append(self.strings[scopes["name"][at]])
            at = parents[at]
        return " > ".join(reversed(names))

    def hashes(self, kind: str | None = None, name: str | None = None) -> list[str]:
        scopes = self.d["scopes"]
        return [
            self.strings[scopes["hash"][i]]
            for i in range(len(scopes["kind"]))
            if kind in (None, scopes["kind"][i]) and name in (None, self.strings[scopes["name"][i]])
        ]


def check(read: Read) -> None:
    """What holds in every document."""
    d, count = read.d, read.count
    parts = (d["nodes"], d["ops"], d["scopes"], d["events"], d["buffers"], d["spans"], d["saved"])
    for table in parts:
        assert len({len(numbers(column)) for column in table.values()}) == 1
    assert len({len(d["edges"][key]) for key in ("dst", "src", "slot")}) == 1
    for name, table in (("shape", d["shapes"]), ("name", d["strings"]), ("dtype", d["strings"])):
        assert max(read.nodes[name], default=-1) < len(table)
    scopes, parents = numbers(read.nodes["scope"]), numbers(d["scopes"]["parent"])
    assert all(0 <= s < len(parents) for s in scopes)
    assert parents[0] == -1
    assert all(0 <= p < i for i, p in enumerate(parents) if i)
    assert read.edges == sorted(read.edges, key=lambda e: (e[1], e[2]))
    assert all(0 <= s < t < count for s, t, _ in read.edges)
    for which in ("value", "gradient"):
        stats = d["stats"][which]
        assert len(stats["scalar"]) == len(base64.b64decode(stats["rms"])) == count
    events = numbers(d["events"]["node"])
    assert all(0 <= row < count for row in events)
    buffers = d["buffers"]
    for first, last in zip(numbers(buffers["first"]), numbers(buffers["last"]), strict=True):
        assert -1 <= first <= last <= len(events)
    for node, value in zip(numbers(d["saved"]["node"]), numbers(d["saved"]["value"]), strict=True):
        assert value == node or value in read.operands(node)
    done: set[int] = set()
    for phase, row in zip(d["events"]["phase"], events, strict=True):
        if PHASES[phase] == "forward":
            assert row not in done
            assert all(o in done for o in read.operands(row) if read.op(o))
            done.add(row)


# -- the lesson

w = wg.tensor(2.0, dtype=wg.float64, requires_grad=True)
b = wg.tensor(1.0, dtype=wg.float64, requires_grad=True)


def lesson(x: Any, t: Any) -> Any:
    L = (w * x + b - t) ** 2
    return L  # noqa: RET504 (the name is looked for)


def test_the_lesson() -> None:
    read = Read(explore(lesson, 3.0, 5.0).document)
    check(read)
    assert [read.name(i) for i in range(9)] == ["x", "t", "w", "b", "v1", "v2", "v3", "v4", "L"]
    kinds = [KINDS[k] for k in read.nodes["kind"]]
    assert kinds == ["input", "input", "param", "param", "op", "op", "op", "op", "root"]
    assert [read.value(i) for i in range(9)] == [3, 5, 2, 1, 6, 7, 2, 4, 4]
    assert [read.gradient(i) for i in range(9)] == [8, -4, 12, 4, 4, 4, 4, 1, 1]
    assert read.d["edges"]["slope"] == [3, 2, 1, 1, 1, -1, 4, 1]
    assert read.d["meta"]["title"] == "lesson(x, t)"
    assert read.d["meta"]["roots"] == [8]
    assert [read.text(i) for i in range(4, 8)] == ["w * x", "w * x + b", "w * x + b - t", "(w * x + b - t) ** 2"]
    assert list(zip(read.d["saved"]["node"], read.d["saved"]["value"], strict=True)) == [(4, 2), (4, 0), (7, 6)]
    assert read.d["events"]["phase"] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert read.d["events"]["node"] == [4, 5, 6, 7, 7, 6, 5, 4]
    ops = read.d["ops"]
    assert ops["symbol"] == ["×", "+", "−", "v²"]
    assert ops["pattern"] == ["swap", "distribute", "distribute", "scale"]
    assert ops["form"] == ["{0} · {1}", "{0} + {1}", "{0} − {1}", "{0}²"]
    assert ops["literals"] == [{}, {}, {}, {"1": 2}]
    assert w.grad is None
    assert b.grad is None


def test_a_value_used_twice_has_an_edge_for_each_use() -> None:
    read = Read(explore(lambda x: x * x + x, 3.0).document)
    check(read)
    product = read.rows("multiply")[0]
    assert read.operands(product) == [0, 0]
    slopes = {(s, t, k): v for (s, t, k), v in zip(read.edges, read.d["edges"]["slope"], strict=True)}
    assert slopes[0, product, 0] == slopes[0, product, 1] == 3
    codes = base64.b64decode(read.d["edges"]["gradient"])
    apart = [c for c, (_, t, _) in zip(codes, read.edges, strict=True) if t == product]
    assert apart == [code(np.float64(3.0))] * 2
    assert read.gradient(0) == 7


# -- every kind of run


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


class Other(Block):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * 0.5


class Model(nn.Module):
    def __init__(self, kinds: list[type[Block]]) -> None:
        self.blocks = nn.ModuleList([kind(8) for kind in kinds])

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return x


def transformer_step() -> Any:
    model = Model([Block, Block])
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return explore(step, np.ones((2, 3, 8), np.float32)).document


def script_run(tmp_path: Path) -> Any:
    path = tmp_path / "run.py"
    path.write_text("import wengert as wg\nw = wg.tensor([1.0, 2.0], requires_grad=True)\n(w * w).sum().backward()\n")
    return document(record_script(path))


def failing_run() -> Any:
    def wrong(x: Any) -> Any:
        y = wg.exp(x)
        return y @ y

    return explore(wrong, POINTS).document


RUNS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: samples().mlp(),
    "transformer": transformer_step,
    "failing": failing_run,
    "structure": lambda: explore(wg.graph(lambda x: wg.softmax(x @ x).sum())(wg.spec((3, 3)))).document,
    "open sizes": lambda: explore(wg.graph(lambda x: wg.tanh(x).sum())(wg.spec((None, 3)))).document,
    "graph": lambda: explore(wg.graph(lambda x: wg.softmax(x).sum())(wg.spec((2, 3))), POINTS.astype("f4")).document,
    "empty": lambda: explore(lambda x: x.sum(), np.zeros((0, 3))).document,
    "0-d": lambda: explore(lambda x: wg.sin(x) * x, np.float32(3)).document,
    "nan": lambda: explore(lambda x: wg.log(x).sum(), np.array([-1.0, 0.0, 1.0, np.inf])).document,
    "complex": lambda: explore(lambda x: wg.abs(x * 1j).sum(), POINTS + 1j).document,
    "complex scalar": lambda: explore(lambda x: wg.abs(x * 2.0), 1 + 2j).document,
    "integer": lambda: explore(lambda x: x * 2 + 1, np.arange(5)).document,
    "bool": lambda: explore(lambda x: x > 0.5, POINTS).document,
    "big": lambda: explore(lambda x: (x @ x).mean(), np.random.default_rng(0).normal(size=(200, 200))).document,
    "half": lambda: explore(lambda x: (x * x).sum(), np.ones((4, 4), np.float16)).document,
    "several results": lambda: explore(lambda x: sum(p.sum() for p in wg.linalg.svd(x, False)), POINTS).document,
    "nothing": lambda: explore(lambda x: None, POINTS).document,
    "pytree": lambda: explore(lambda p: p["a"] @ p["b"][0], {"a": POINTS, "b": [POINTS[0]]}).document,
    "view": lambda: explore(lambda x: x.reshape((3, 2)).mT.sum(), POINTS).document,
    "checkpoint": lambda: explore(lambda x: wg.checkpoint(lambda v: wg.sin(wg.exp(v)))(x).sum(), POINTS).document,
    "recorded pass": lambda: explore(lambda x: (wg.grad(lambda v: (v**3).sum())(x) ** 2).sum(), POINTS).document,
}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_fits_the_schema(name: str) -> None:
    check(Read(RUNS[name]()))


def test_a_scripts_run_fits_the_schema(tmp_path: Path) -> None:
    read = Read(script_run(tmp_path))
    check(read)
    assert read.d["meta"]["script"] == "run.py"
    assert read.name(0) == "w"


def test_statistics_of_complex_numbers_say_that_they_are_of_sizes() -> None:
    read = Read(RUNS["complex"]())
    check(read)
    found, sizes = details(np.array([3 + 4j, 1j])), details(np.array([5.0, 1.0]))
    assert found is not None
    assert sizes is not None
    assert found.pop("modulus") is True
    del sizes["values"]
    assert found == sizes


def test_a_failing_run_shows_what_happened_until_then() -> None:
    read = Read(failing_run())
    assert read.d["meta"]["error"]["type"] == "ShapeError"
    assert "matmul" in read.d["meta"]["error"]["text"]
    assert re.fullmatch(r".*\.py:\d+", read.d["meta"]["error"]["at"])
    assert read.rows("exp")


def test_a_structure_has_no_values() -> None:
    read = Read(RUNS["structure"]())
    assert read.d["meta"]["values"] is False
    assert set(base64.b64decode(read.d["stats"]["value"]["rms"])) == {0}
    assert read.d["events"]["node"] == []
    assert "memory" not in read.d


def test_a_view_is_flagged() -> None:
    read = Read(RUNS["view"]())
    assert all(read.nodes["flags"][row] & VIEW for row in (*read.rows("reshape"), *read.rows("permute")))
    assert not read.nodes["flags"][read.rows("sum")[0]] & VIEW


# -- the schema and its types say the same


def interface(name: str) -> dict[str, bool]:
    """The keys of a TypeScript interface, and whether each has to be there."""
    body = re.search(rf"export interface {name} {{\n(.*?)\n}}", TYPES, re.S)
    assert body is not None
    return {key: not optional for key, optional in re.findall(r"^  (\w+)(\??): ", body[1], re.M)}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("Trace", SCHEMA),
        *(
            (kind, SCHEMA["$defs"][key])
            for kind, key in (
                ("Meta", "meta"), ("Ops", "ops"), ("Scopes", "scopes"), ("Nodes", "nodes"), ("Edges", "edges"),
                ("PassStats", "passStats"), ("Details", "details"), ("Events", "events"), ("Buffers", "buffers"),
                ("Spans", "spans"), ("Finding", "finding"), ("Kernels", "kernels"), ("Parallel", "parallel"),
            )
        ),
        ("TensorPaths", SCHEMA["$defs"]["tensorPaths"]),
        ("NodePaths", SCHEMA["$defs"]["tensorPaths"]["properties"]["nodes"]),
        ("PathList", SCHEMA["$defs"]["tensorPaths"]["properties"]["list"]),
        ("KernelInfo", SCHEMA["$defs"]["kernels"]["properties"]["list"]["items"]),
        ("ValueRead", SCHEMA["properties"]["reads"]["items"]),
        ("MadeInputs", SCHEMA["$defs"]["meta"]["properties"]["inputs"]),
        ("Origins", SCHEMA["$defs"]["origins"]),
        ("Origin", SCHEMA["$defs"]["origins"]["properties"]["list"]["items"]),
        ("MemoryFacts", SCHEMA["properties"]["memory"]),
        ("CheckpointWhatIf", SCHEMA["properties"]["checkpoint"]),
        ("SourceFile", SCHEMA["properties"]["files"]["items"]),
    ],
)  # fmt: skip
def test_types_and_schema_agree(name: str, schema: Any) -> None:
    found = interface(name)
    assert set(found) == set(schema["properties"])
    assert {key for key, needed in found.items() if needed} == set(schema["required"])


def test_enumerations_agree() -> None:
    def listed(name: str) -> list[str]:
        found = re.search(rf"export const {name}: .*? = \[(.*?)\];", TYPES)
        assert found is not None
        return re.findall(r'"(\w+)"', found[1])

    assert tuple(listed("NODE_KINDS")) == KINDS
    assert tuple(listed("PHASES")) == PHASES
    assert tuple(listed("BUFFER_CLASSES")) == classes()


def test_a_broken_document_does_not_fit() -> None:
    good = explore(lesson, 3.0, 5.0).document
    for breaking in (
        lambda d: d.pop("nodes"),
        lambda d: d["ops"]["pattern"].__setitem__(0, "sideways"),
        lambda d: d["stats"]["value"]["scalar"].__setitem__(0, "many"),
        lambda d: d["edges"]["src"].__setitem__(0, 0),
    ):
        document = json.loads(json.dumps(good))
        breaking(document)
        assert not VALIDATOR.is_valid(document)


# -- numbers


def test_gradients_are_the_engines() -> None:
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    x = wg.tensor(rng.normal(size=(5, 3)).astype(np.float32))

    def loss(x: Any) -> Any:
        return (model(x) ** 2).mean()

    found = explore(loss, x)
    loss(x).backward()
    rows = {row.name: row for row in found.recording.rows}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        np.testing.assert_array_equal(rows[f"model.{name}"].gradient, parameter.grad.numpy())
        np.testing.assert_array_equal(rows[f"model.{name}"].value, parameter.detach().numpy())


def test_details_are_numpys() -> None:
    values = np.random.default_rng(0).normal(size=(40, 100))
    values[3, 7], values[5, 2], values[0, 0] = np.nan, np.inf, 0
    found = details(values)
    assert found is not None
    finite = values[np.isfinite(values)]
    assert (found["nan"], found["inf"], found["zero"], found["size"]) == (1, 1, 1, 4000)
    assert found["min"] == finite.min()
    assert found["max"] == finite.max()
    assert found["mean"] == pytest.approx(finite.mean(), rel=1e-5)
    assert found["std"] == pytest.approx(finite.std(), rel=1e-5)
    np.testing.assert_array_equal(found["hist"], np.histogram(finite, 16)[0])
    cells = found["cells"]
    assert (cells["rows"], cells["cols"]) == (16, 64)
    assert cells["values"].count("nan") == cells["values"].count("inf") == 1
    plain = [v for v in cells["values"] if not isinstance(v, str)]
    assert np.mean(plain) == pytest.approx(np.abs(finite).mean(), rel=0.05)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 7.5, 1e8])
def test_codes_tell_sizes_to_a_tenth(scale: float) -> None:
    values = scale * np.random.default_rng(0).normal(size=50)
    rms = float(np.sqrt(np.mean(values**2)))
    assert 2 ** ((code(values) - 128) / 4) == pytest.approx(rms, rel=0.1)


def test_codes_of_what_has_no_size() -> None:
    assert [code(v) for v in (None, np.zeros(3), np.array([1.0, np.inf]), np.array([np.inf, np.nan]))] == [
        0,
        1,
        254,
        255,
    ]
    assert code(np.zeros((0, 2))) == 1
    assert code(np.full(4, 300, np.float32) * np.float32(1e36)) == 253  # squares overflow, the values do not


def test_flags_say_where_gradients_came_by() -> None:
    read = Read(explore(lambda x: wg.where(x > 0.5, x, x * 2.0).sum(), POINTS).document)
    flags = read.nodes["flags"]
    assert flags[read.rows("greater")[0]] & (TRACKED | SEEN) == 0
    assert flags[read.rows("multiply")[0]] & (TRACKED | SEEN) == TRACKED | SEEN


def test_operations_are_counted_as_explain_counts() -> None:
    def f(x: Any, y: Any) -> Any:
        return nn.functional.softmax(wg.tanh(x @ y), -1).sum()

    read = Read(explore(f, POINTS, POINTS.T.copy()).document)
    wanted = wg.explain.cost(wg.graph(f)(wg.spec((2, 3), wg.float64), wg.spec((3, 2), wg.float64)))
    assert sum(read.nodes["flops"]) == wanted.flops


# -- memory


def deep(x: Any) -> Any:
    for _ in range(4):
        x = wg.tanh(x) * wg.exp(-x)
    return x.sum()


def wide(x: Any) -> Any:
    y = x * 2.0
    return (wg.sin(y) + wg.cos(y) * y).sum()


def views(x: Any) -> Any:
    return (x.reshape((-1,)).reshape((100, 100)).mT * x).sum()


@pytest.mark.parametrize("fn", [deep, wide, views], ids=lambda f: f.__name__)
def test_the_peak_is_that_of_explain(fn: Callable[[Any], Any]) -> None:
    values = np.random.default_rng(0).normal(size=(100, 100))
    facts = explore(fn, values).document["memory"]
    x = wg.tensor(values, requires_grad=True)
    wanted = wg.explain.memory(fn(x))
    assert facts["saved"] == pytest.approx(wanted.saved, rel=0.01)
    assert facts["resident"] == wanted.resident
    # What an operation needs for itself while it runs is not in the document.
    assert wanted.peak - wanted.scratch <= facts["peak"] * 1.01
    assert facts["peak"] <= wanted.peak * 1.01


def test_a_checkpoint_keeps_only_what_comes_from_outside() -> None:
    def inner(v: Any) -> Any:
        return wg.sin(wg.exp(v) * v)

    plain = explore(lambda x: inner(x).sum(), np.ones((100, 100))).document
    saving = explore(lambda x: wg.checkpoint(inner)(x).sum(), np.ones((100, 100))).document
    assert saving["memory"]["saved"] < plain["memory"]["saved"]
    assert PHASES.index("recompute") in saving["events"]["phase"]


def test_a_checkpoint_after_another_keeps_what_lies_between_them() -> None:
    def inner(v: Any) -> Any:
        return wg.sin(wg.exp(v) * v)

    def outer(x: Any) -> Any:
        for _ in range(3):
            x = wg.checkpoint(inner)(x)
        return (x * x).sum()

    saved = explore(outer, np.ones((100, 100))).document["memory"]["saved"]
    assert saved == wg.explain.memory(outer(wg.tensor(np.ones((100, 100)), requires_grad=True))).saved


# -- structure


def test_equal_blocks_have_equal_hashes_and_unlike_ones_not() -> None:
    x = np.ones((2, 3, 8), np.float32)
    read = Read(explore(Model([Block, Block, Other, Block]), x).document)
    scopes = read.d["scopes"]
    blocks = [read.strings[n] for n in scopes["name"]].index("blocks")
    members = [i for i, parent in enumerate(scopes["parent"]) if parent == blocks]
    assert [read.strings[scopes["name"][i]] for i in members] == ["0", "1", "2", "3"]
    first, second, other, last = (read.strings[scopes["hash"][i]] for i in members)
    assert first == second == last
    assert other != first


def test_wiring_tells_structures_apart() -> None:
    def chain(x: Any) -> Any:
        y = x * 2.0
        return wg.sin(y) + wg.sin(y)

    def fan(x: Any) -> Any:
        y = x * 2.0
        return wg.sin(y) + wg.sin(x)

    def run(x: Any) -> Any:
        return chain(x) + fan(x) + chain(x)

    read = Read(explore(run, POINTS).document)
    (first, last), (between,) = read.hashes("function", "chain"), read.hashes("function", "fan")
    assert first == last != between


def test_loops_fold_by_their_turns() -> None:
    def run(x: Any) -> Any:
        for _ in range(3):
            y = x * 2.0
            for _ in range(2):
                y = wg.sin(y) + x
            x = y
        return x

    read = Read(explore(run, POINTS).document)
    kinds = [k for k in read.d["scopes"]["kind"] if k != "root"]
    assert kinds.count("loop") == 4
    assert kinds.count("iteration") == 3 + 6
    assert len(set(read.hashes("loop"))) == 2
    assert read.scope(read.rows("sin")[3]) == "for _ in range(3) > 1 > for _ in range(2) > 1"


def test_turns_that_take_one_element_each_are_alike() -> None:
    def run(x: Any) -> Any:
        h = wg.zeros(2, dtype=wg.float64)
        for t in range(3):
            h = wg.tanh(x[:, t] + h)
        for t in range(1, 3):
            h = h + x[:, :t].sum()
        return h.sum()

    read = Read(explore(run, POINTS.reshape(2, -1)).document)
    recurrence, *windows = read.hashes("iteration")[2:]
    assert read.hashes("iteration")[:2] == [recurrence] * 2
    # What is as large as the turn's number is another structure each time.
    assert len({recurrence, *windows}) == 3


def test_flat_code_is_split_by_line_and_length() -> None:
    lines = "\n".join(f"    x = wg.sin(x) * wg.cos(x) + {i}.0" for i in range(40))
    space: dict[str, Any] = {"wg": wg}
    exec(compile(f"def flat(x):\n{lines}\n    return x", "<flat>", "exec"), space)
    read = Read(explore(space["flat"], POINTS).document)
    parents, scopes = numbers(read.d["scopes"]["parent"]), numbers(read.nodes["scope"])
    children = [parents.count(i) + scopes.count(i) for i in range(len(parents))]
    assert max(children) <= 62  # the input and the result stand beside
    assert read.d["scopes"]["kind"].count("line") == 40


def test_modules_are_scopes() -> None:
    read = Read(transformer_step())
    assert any(read.scope(i).startswith("blocks > 1 > mlp > 2") for i in read.rows("linear"))
    assert PHASES.index("optimizer") in read.d["events"]["phase"]
    assert "model.blocks.0.mlp.0.weight" in [read.name(i) for i in range(read.count)]


def test_what_the_program_gives_stands_outside_of_modules() -> None:
    """An argument that only the first layer takes is no part of that layer; its weights and tables are."""

    class Turned(nn.Module):
        def __init__(self) -> None:
            self.table, self.out = wg.ones(4), nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            return self.out(x * self.table)

    model, data = nn.Sequential(nn.Linear(3, 4), Turned()), wg.ones((2, 3))
    for name, found in (("x", explore(lambda x: model(x).sum(), data)), ("data", explore(lambda: model(data).sum()))):
        read = Read(found.document)
        assert read.scope(read.row(name)) == ""
        assert read.scope(read.row("model.0.weight")).endswith("0")
        assert read.scope(read.row("model.1.table")).endswith("1")


# -- ops


def dummy(op: Op) -> list[wg.Node]:
    """Recorded nodes of an op's samples, its floating arguments tracked."""
    made = []
    for call in op.samples(np.random.default_rng(0)) if op.samples is not None else ():
        args = [
            wg.tensor(a, requires_grad=True) if np.asarray(a).dtype.kind in "fc" else wg.asarray(a)
            for a in call.args
            if a is not None
        ]
        if len(args) == len(call.args) and op.results == 1:
            out = op.front(*args, **call.attrs)
            if out.node is not None and out.node.op is op and not is_start(out.node):
                made.append(out.node)
    return made


@pytest.mark.parametrize("op", [o for o in TABLE.values() if o.kind != "leaf"], ids=lambda o: o.name)
def test_every_op_has_a_pattern_and_a_sentence(op: Op) -> None:
    shown = forms.shown(op, len(op.params))
    assert shown.symbol
    assert shown.say.strip()
    assert shown.say.endswith(".")
    assert len(shown.local) == len(op.params)
    assert shown.pattern in ("distribute", "swap", "route", "accumulate", "scale", "none")
    holes = {str(i) for i in range(len(op.params))} | {"out"}
    for template in (shown.form, *shown.local):
        assert forms.holes(template) <= holes


@pytest.mark.parametrize("name", sorted(n for n, o in TABLE.items() if o.samples is not None))
def test_patterns_are_those_of_explain(name: str) -> None:
    op = TABLE[name]
    found = []
    for node in dummy(op):
        with Puller("a test") as puller:
            found.append((pattern_of(node, puller), forms.pattern(op, len(node.inputs))))
    moves = all(isinstance(f, Linear) and f.selects for f in op.facts if f.differentiable)
    if moves and op.joint is None:  # which of them depends on shapes and on what is picked
        assert not found or any(wanted == shown for wanted, shown in found)
    else:
        assert all(wanted == shown for wanted, shown in found)


_CODE = (
    ("−", "-"), ("·", "*"), ("²", "**2"), ("³", "**3"), ("√π", "sqrt(pi)"), ("√(", "sqrt("), ("√{0}", "sqrt({0})"),
    ("e^(", "exp("), ("ln(", "log("), ("ln {0}", "log({0})"), ("ln {1}", "log({1})"), ("ln 2", "log(2)"),
    ("ln 10", "log(10)"), ("^(", "**("), ("ψ_1(", "trigamma("), ("ψ(", "digamma("),
)  # fmt: skip
ELEMENTWISE = sorted(
    name
    for name, op in TABLE.items()
    if forms.form_of(op).local and op.kind == "elementwise" and all(isinstance(f, Partial) for f in op.facts)
)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_local_derivatives_are_the_facts(name: str) -> None:
    op = TABLE[name]
    start = 1.3 if name == "acosh" else 0.3
    args = [wg.tensor(np.array([start, start + 0.25]) + 0.2 * i, requires_grad=True) for i in range(len(op.params))]
    out = op.front(*args)
    out.sum().backward()
    space = {n: getattr(np, n) for n in ("sqrt", "exp", "log", "sin", "cos", "sinh", "cosh", "sign", "pi", "floor")}
    space["digamma"] = lambda x: wg.special.digamma(wg.tensor(x)).numpy()
    space["trigamma"] = lambda x: wg.special.polygamma(1, wg.tensor(x)).numpy()
    for arg, template in zip(args, forms.form_of(op).local.split("|"), strict=True):
        text = template
        for sign, code_ in _CODE:
            text = text.replace(sign, code_)
        text = re.sub(r"⌊(.*?)⌋", r"floor(\1)", text)
        values = {"out": out.detach().numpy()} | {str(i): a.detach().numpy() for i, a in enumerate(args)}
        text = re.sub(r"\{(\w+)\}", lambda m: f"a{m[1]}", text)
        found = eval(text, space | {f"a{k}": v for k, v in values.items()})
        assert arg.grad is not None
        np.testing.assert_allclose(np.broadcast_to(found, (2,)), arg.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("exponent", "form", "slope"),
    [
        (2, "{0}²", "2 · {0}"),
        (3, "{0}³", "3 · {0}²"),
        (-1, "{0}⁻¹", "−1 · {0}⁻²"),
        (0.5, "{0}^(0.5)", "0.5 · {0}^(−0.5)"),
    ],
)
def test_powers_of_numbers(exponent: float, form: str, slope: str) -> None:
    shown = forms.shown(TABLE["pow"], 2, {1: exponent})
    assert (shown.form, shown.local[0]) == (form, slope)


def test_numbers_among_operands_are_written_in() -> None:
    assert forms.shown(TABLE["multiply"], 2, {0: 2.0}).form == "2 · {1}"
    assert forms.shown(TABLE["subtract"], 2, {1: -0.5}).form == "{0} − (−0.5)"
    assert forms.shown(TABLE["multiply"], 2, {0: 2.0}).pattern == "scale"


# -- sizes and what was taken out


def test_sizes_are_told_exactly_and_drawn_roughly() -> None:
    x = np.array([0.5, -1.0, 2.0])
    read = Read(explore(lambda w, b, x: ((w * x + b - 2.0) ** 2).sum(), 1.5, -0.638, x).document)
    error = 1.5 * x - 2.638
    stats, edges = read.d["stats"]["gradient"], read.d["edges"]
    assert read.gradient(read.row("b")) == pytest.approx(2 * error.sum())
    assert stats["size"][read.row("b")] is None
    assert stats["size"][read.row("x")] == pytest.approx(np.sqrt(np.mean((3.0 * error) ** 2)), rel=1e-5)
    sent = {source: amount for (source, _, _), amount in zip(read.edges, edges["amount"], strict=True)}
    assert sent[read.row("b")] == pytest.approx(2 * error.sum())
    assert sent[read.row("x")] == stats["size"][read.row("x")]


def test_sizes_at_the_ends_of_their_range() -> None:
    for scale in (1e-300, 1e300):
        read = Read(explore(lambda x: x.sum(), np.array([3.0, 4.0]) * scale).document)
        assert read.d["stats"]["value"]["size"][0] == pytest.approx(scale * math.sqrt(12.5), rel=1e-5)
    read = Read(explore(lambda x: x.sum(), np.array([3.0, np.nan])).document)
    assert read.d["stats"]["value"]["size"][0] is None


def reads(f: Callable[..., Any], *args: float) -> list[tuple[Any, ...]]:
    read = Read(explore(f, *args).document)
    return [
        (r["what"], r["op"], [read.name(n) if n >= 0 else "" for n in r["nodes"]], r["literals"], r["value"])
        for r in read.d.get("reads", [])
    ]


def test_what_a_program_takes_out_of_its_graph_is_told() -> None:
    def decides(a: Any) -> Any:
        return a * 3.0 if a > 0 else -a

    def goes_on(a: Any, b: Any) -> Any:
        s = (a * a).item()
        return b * s

    def loops(a: Any) -> Any:
        total = a * 1.0
        while total < 10:
            total = total + a
        return total

    assert reads(decides, 2.0) == [("__bool__", "greater", ["a", ""], {"1": 0}, 1)]
    assert reads(goes_on, 2.0, 3.0) == [("item", "", ["v1"], {}, 4)]
    assert [(what, op, value) for what, op, _, _, value in reads(loops, 4.0)] == [
        ("__bool__", "less", 1), ("__bool__", "less", 1), ("__bool__", "less", 0),
    ]  # fmt: skip
    # Of each turn another total.
    assert len({tuple(r["nodes"]) for r in explore(loops, 4.0).document["reads"]}) == 3


def test_what_is_only_printed_at_the_end_decides_nothing() -> None:
    def logged(a: Any) -> Any:
        loss = a * a
        loss.item()
        return loss

    assert reads(logged, 2.0) == []


# -- many nodes


def test_a_large_document_is_written_in_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Read(samples().mlp())
    monkeypatch.setattr(importlib.import_module("wengert.explorer.document.document"), "EXACT", 5)
    packed = Read(samples().mlp())
    check(packed)
    assert isinstance(packed.d["events"]["node"], dict)
    for table, column in (
        ("events", "node"),
        ("nodes", "scope"),
        ("scopes", "parent"),
        ("saved", "node"),
        ("saved", "value"),
        ("buffers", "node"),
        ("buffers", "bytes"),
        ("buffers", "first"),
        ("buffers", "last"),
    ):
        assert numbers(packed.d[table][column]) == plain.d[table][column]
    # Single numbers take memory however many there are.
    assert packed.d["memory"] == plain.d["memory"]
    assert packed.d["memory"]["peak"] > packed.d["memory"]["saved"] > 0
    for row in range(plain.count):
        assert packed.value(row) == pytest.approx(plain.value(row), rel=1e-3)
    assert "slope" not in packed.d["edges"]
    assert "size" not in packed.d["stats"]["value"]


def test_the_transformers_nan_is_found_where_it_was_planted() -> None:
    read = Read(recorded("transformer", samples().transformer), validate=False)
    check(read)
    assert 8_000 < read.count < 12_000
    (finding,) = [f for f in read.d["findings"] if f["rule"] == "nan-backward"]
    assert finding["where"].startswith("blocks › 7 › attn")
    assert read.op(finding["node"]) == "sqrt"
    scopes = read.d["scopes"]
    names = [read.strings[n] for n in scopes["name"]]
    parents = numbers(scopes["parent"])
    blocks = [i for i, parent in enumerate(parents) if parent == names.index("blocks")]
    hashes = {names[i]: read.strings[scopes["hash"][i]] for i in blocks}
    assert len(hashes) == 12
    assert len(set(hashes.values()) - {hashes.pop("7")}) == len(set(hashes.values())) == 1


@pytest.mark.slow
def test_fifty_thousand_nodes_pack_small() -> None:
    document = samples().large()
    read = Read(document, validate=False)
    check(read)
    assert read.count > 50_000
    assert len(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9)) < 600_000
