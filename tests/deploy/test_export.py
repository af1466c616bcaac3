"""Programs without Python: what C and Python get from an exported folder is what `wg.jit` gives, bit for bit."""

from __future__ import annotations

import errno
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from exported import build, needs, run
from wengert import nn
from wengert.deploy import exporting, targets
from wengert.deploy.captured import captured
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import Compiled
from wengert.nn import functional as F


@pytest.fixture(autouse=True)
def _seeded() -> None:
    wg.manual_seed(0)


def has(level: str) -> bool:
    """Return whether this machine's processor runs code of a level."""
    feature = {"avx512": "+avx512bw", "avx2": "+avx2"}.get(level, "")
    return feature in machine.host().features


@pytest.fixture
def one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Export for the best level of this machine's processor alone: making code takes most of the time."""
    here = targets.host()
    best = next(level for level in here.levels if has(level.name))
    monkeypatch.setitem(targets.PLATFORMS, here.name, here._replace(levels=(best,)))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, 5))


def normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("f4")


def loaded(made: wg.deploy.Exported) -> Any:
    """Return the program of a folder as its own `load.py` gives it."""
    return runpy.run_path(f"{made.folder}/load.py")["Model"](made.folder)


@pytest.mark.usefixtures("one_level")
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("freeze", [False, True])
def test_a_model_in_c_and_by_load(tmp_path: Path, rows: int, freeze: bool) -> None:
    needs("host")
    model, x = mlp(), normal(rows, 12)
    made = wg.export(model, wg.spec((rows, 12)), tmp_path / "m", name="mlp", freeze=freeze)
    build(made)
    with wg.no_grad():
        expected = wg.jit(model)(wg.tensor(x)).numpy()
    (found,) = run(made, [x], [expected])
    again = loaded(made)(x)
    np.testing.assert_array_equal(found, again)
    if freeze and rows == 1:  # another kernel, for constants that are packed once
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


def test_each_level_has_the_bits_of_its_plan(tmp_path: Path) -> None:
    """Of whatever level the processor is, the lesser ones run on it, called by their own names."""
    needs("host")
    model, x = mlp(), normal(7, 12)
    made = wg.export(model, wg.spec((7, 12)), tmp_path / "m", name="mlp")
    program = captured(model, wg.spec((7, 12)), False)
    feeds = {w.input: w.value for w in program.weights} | {k: x for _, k in program.inputs if k is not None}
    asked = [level for level in targets.host().levels if has(level.name)]
    assert asked
    for level in asked:
        plan = Compiled(program.graph, None, targets.host().target(level))
        (expected,) = plan.run([feeds[i] for i in range(len(feeds))])
        renamed = [f"-Dmlp_run=mlp_run_{level.name}"] if len(targets.host().levels) > 1 else []
        (found,) = run(made, [x], [expected], 1, *renamed)
        np.testing.assert_array_equal(found, expected)


def training(optimizer: str = "Adam") -> tuple[Any, Any]:
    """Return a training step with dropout and classes, and its model."""
    model = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Dropout(0.5), nn.Linear(20, 5))
    opt = getattr(wg.optim, optimizer)(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    return step, model


@pytest.mark.usefixtures("one_level")
@pytest.mark.parametrize("optimizer", ["Adam", *(pytest.param(x, marks=pytest.mark.slow) for x in ("SGD", "AdamW"))])
def test_training_steps_with_their_state(tmp_path: Path, optimizer: str) -> None:
    needs("host")
    step, model = training(optimizer)
    x, y = normal(8, 12), np.arange(8) % 5
    made = wg.export(step, (wg.spec((8, 12)), wg.spec(8, "int64")), tmp_path / "m")
    assert {"m", "state.safetensors"} - {*made.files} == {"m"}
    again = loaded(made)
    compiled, losses = wg.jit(step), []
    for _ in range(4):
        losses.append(compiled(wg.tensor(x), wg.tensor(y)).item())
    (found,) = run(made, [x, y], [np.float32(0)], runs=4)
    assert found == np.float32(losses[-1])
    assert [float(again(x, y)) for _ in range(4)] == losses
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(again.state[f"model.{name}"], p.detach().numpy())
    before = {name: a.copy() for name, a in again.state.items()}
    y[3] = 5
    with pytest.raises(Exception, match=r"cross_entropy: a class is none of the 5 \(.*test_export.py:\d+\)"):
        again(x, y)
    for name, a in again.state.items():
        np.testing.assert_array_equal(a, before[name])
    with pytest.raises(RuntimeError, match="a class is none of the 5"):
        run(made, [x, y], [np.float32(0)])


@pytest.mark.usefixtures("one_level")
def test_state_is_saved_and_goes_on_in_other_processes(tmp_path: Path) -> None:
    needs("host")
    step, _ = training()
    x, y = normal(8, 12), np.arange(8) % 5
    made = wg.export(step, (wg.spec((8, 12)), wg.spec(8, "int64")), tmp_path / "m")
    first, second = loaded(made), loaded(made)
    losses = [float(first(x, y)) for _ in range(2)]
    first.save_state(str(tmp_path / "s.safetensors"))
    losses += [float(first(x, y)) for _ in range(2)]
    second.load_state(str(tmp_path / "s.safetensors"))
    assert [float(second(x, y)) for _ in range(2)] == losses[2:]
    assert {*wg.storage.load(tmp_path / "s.safetensors")} == {*first.state}
    first.state["model.3.bias"][:] = 100.0 * np.arange(5)  # arrays are the program's own
    assert float(first(x, np.zeros(8, "int64"))) > 100


@pytest.mark.usefixtures("one_level")
def test_state_that_changes_places(tmp_path: Path) -> None:
    """New state is read from old state: no value is lost on the way, whatever is written first."""
    needs("host")
    a, b, c = (wg.tensor(normal(3, 2) + i) for i in range(3))

    def turn(x: Any) -> Any:
        old = a.clone()
        a.copy_(b.mT.reshape(3, 2))
        b.copy_(c)
        c.copy_(old + x)
        return old, b.mT, a[1]

    made = wg.export(turn, wg.spec((3, 2)), tmp_path / "m")
    again, compiled = loaded(made), wg.jit(turn)
    for i in range(3):
        x = np.full((3, 2), i, "f4")
        for found, expected in zip(again(x), compiled(wg.tensor(x)), strict=True):
            np.testing.assert_array_equal(found, expected.numpy())
    for name, t in {"a": a, "b": b, "c": c}.items():
        np.testing.assert_array_equal(again.state[name], t.numpy())


def _rnn(xs: Any, h: Any) -> Any:
    return wg.scan(lambda h, x: (wg.tanh(h + x), h.sum()), h, xs)


def _newton(x: Any) -> Any:
    return wg.while_loop(lambda r: wg.abs(r * r - x).max() > 1e-3, lambda r: 0.5 * (r + x / r), x)


def _branch(x: Any, k: Any) -> Any:
    return wg.cond(k > 2, lambda: wg.exp(x), lambda: x * 2)


def _mixed(x: Any, y: Any) -> Any:
    return {"t": x.mT, "n": (x > 0).sum(), "b": x > y, "x": x, "again": x, "half": x.astype(wg.float16), "none": x[:0]}


def _table(x: Any) -> Any:
    return x @ wg.tensor(np.arange(16 * 40, dtype="f4").reshape(16, 40)) + wg.tensor(np.arange(40, dtype="f4"))


def _inner(x: Any) -> Any:
    return wg.grad(lambda v: (wg.sin(v) * v).sum())(x), wg.linalg.inv(x @ x.mT + wg.eye(4))


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "loop": (_rnn, (normal(5, 3), normal(3))),
    "loop that ends on a value": (_newton, (np.array([2.0, 9.0, 0.3]),)),
    "branch": (_branch, (normal(4), np.array(3))),
    "other branch": (_branch, (normal(4), np.array(1))),
    "results of many kinds": (_mixed, (normal(3, 4), normal(3, 4))),
    "constants": (_table, (normal(2, 16),)),
    "gradients and matrices": (_inner, (normal(4, 4),)),
    "picks": (lambda x, i: (x[i], F.embedding(i, x)), (normal(6, 3), np.array([[0, 5], [2, 2]]))),
    "images": (lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1), 2), (normal(2, 3, 8, 8), normal(4, 3, 3, 3))),
    "names that are not taken": (
        lambda state, ready: {"weights": state * ready, "float": ready},
        (normal(3), normal(3)),
    ),
    "nothing read": (lambda x, y: y + 1, (normal(3), normal(2))),
    "complex numbers": (lambda x: (wg.exp(1j * x), (x * 2j).mT), (normal(3, 4),)),
    "brain floats": (lambda x: (x.astype(wg.bfloat16) * 2).astype(wg.float32), (normal(9),)),
}


@pytest.mark.usefixtures("one_level")
@pytest.mark.parametrize("which", PROGRAMS)
def test_programs(tmp_path: Path, which: str) -> None:
    needs("host")
    fn, given = PROGRAMS[which]
    expected = wg.jit(fn)(*map(wg.tensor, given))
    expected = [np.asarray(v.detach()) for v in wg.tree.leaves(expected)]
    made = wg.export(fn, given, tmp_path / "m", name="program")
    found = loaded(made)(*given)
    build(made)
    for some in (found if isinstance(found, tuple) else (found,), run(made, given, expected)):
        for value, wanted in zip(some, expected, strict=True):
            assert value.dtype == wanted.dtype
            np.testing.assert_array_equal(value, wanted)


@pytest.mark.usefixtures("one_level")
def test_a_text_is_continued_in_caches(tmp_path: Path) -> None:
    """A step of a language model: rows of weights by number, a cache written at a place, a mask, the best word."""
    needs("host")
    words, keys = nn.Embedding(20, 8), wg.tensor(np.zeros((6, 8), "f4"))
    mix = nn.Linear(8, 8)

    def step(word: Any, place: Any) -> Any:
        x = words(word)
        keys[place] = mix(x)
        scores = wg.where(wg.arange(6) <= place, keys @ x, -1e9)
        return wg.argmax((F.softmax(scores, -1) @ keys) @ words.weight.mT)

    with wg.no_grad():
        made = wg.export(step, (wg.spec((), "int64"), wg.spec((), "int64")), tmp_path / "m")
        model, compiled = loaded(made), wg.jit(step)
        assert [*model.state] == ["keys"]
        ours = theirs = np.array(3)
        for place in range(6):
            ours = model(ours, np.array(place))
            theirs = compiled(wg.tensor(theirs), wg.tensor(place)).numpy()
            assert ours == theirs
    np.testing.assert_array_equal(model.state["keys"], keys.numpy())
    before = model.state["keys"].copy()
    for wrong in ((0, 6), (20, 0)):
        with pytest.raises(Exception, match=r"an index is out of range"):
            model(*map(np.array, wrong))
        np.testing.assert_array_equal(model.state["keys"], before)


@pytest.mark.usefixtures("one_level")
def test_the_programs_of_the_documentation_are_c(tmp_path: Path) -> None:
    needs("host")
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
    (code,) = re.findall(r"```c\n(.*?)```", page, re.DOTALL)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    wg.export(model, wg.spec((1, 64)), tmp_path / "m", name="digits")
    (tmp_path / "m" / "page.c").write_text(code)
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-c", "page.c"]
    done = subprocess.run(command, cwd=tmp_path / "m", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("one_level")
def test_indices_out_of_range_are_numbers(tmp_path: Path) -> None:
    needs("host")
    made = wg.export(lambda x, i: x[i], (wg.spec((6, 3)), wg.spec(2, "int64")), tmp_path / "m", name="pick")
    model = loaded(made)
    np.testing.assert_array_equal(model(normal(6, 3), np.array([-1, 0])), normal(6, 3)[[-1, 0]])
    with pytest.raises(Exception, match=r"an index is out of range for axis . of size 6 \(.*test_export.py"):
        model(normal(6, 3), np.array([0, 6]))
    with pytest.raises(Exception, match=r"x is float64\[6, 3\], and the program takes float32\[6, 3\]"):
        model(normal(6, 3).astype("f8"), np.array([0, 1]))
    with pytest.raises(Exception, match="the input i is missing"):
        model(normal(6, 3))


# -- what is refused


def _decides(x: Any) -> Any:
    return x if COUNT > 0 else -x


COUNT = wg.tensor(1.0)
STATE = wg.tensor([1.0, 2.0], requires_grad=True)
KEPT: list[Any] = [None]


def _keeps(x: Any) -> Any:
    KEPT[0] = [x]
    return x + 1


def _accumulates(x: Any) -> Any:
    loss = (STATE * x).sum()
    loss.backward()
    return STATE.grad * 1


def _overwrites_nothing(x: Any) -> Any:
    return x + 1


def _overwrites(x: Any) -> Any:
    x += 1
    return x


NUMBERS = np.random.default_rng(0)


def _draws(x: Any) -> Any:
    return x + float(NUMBERS.normal())


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a decision": (_decides, wg.spec(2), "decides by a tensor's value"),
    "a print": (lambda x: (wg.debug.print("{}", x), x)[1], wg.spec(2), "prints or calls back"),
    "a factorisation": (lambda x: wg.linalg.eigvalsh(x), wg.spec((3, 3)), r"whose operation eigvalsh? is computed by"),
    "an argument written": (_overwrites, wg.spec(2), "writes to its arguments"),
    "a result that is a number": (lambda x: (x, 3), wg.spec(2), r"returns what is no tensor: result.1 = 3"),
    "an open size": (lambda x: x + 1, wg.spec((None, 2)), "for an open size"),
    "a place of Python's": (_keeps, wg.spec(2), "puts objects into places"),
    "numbers that Python draws": (_draws, wg.spec(2), "draws numbers or changes objects in Python code"),
    "no spec": (lambda x: wg.exp(x), "abc", "an operand of type str is not a tensor"),
    "gradients that add up": (_accumulates, wg.spec(2), "does another thing the second time: the gradient"),
    "no function": (3, wg.spec(2), "of 3, which is no function"),
    "an unknown target": (mlp(), wg.spec((2, 12)), "for the target 'vax'"),
    "a name that is none": (mlp(), wg.spec((2, 12)), "with the name 'a b'"),
}


@pytest.mark.usefixtures("one_level")
@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused_is_named_and_nothing_is_written(tmp_path: Path, which: str) -> None:
    fn, specs, what = REFUSED[which]
    more = {"an unknown target": {"target": "vax"}, "a name that is none": {"name": "a b"}}.get(which, {})
    with pytest.raises(wg.WengertError, match=what) as caught:
        wg.export(fn, specs, tmp_path / "m", **more)
    assert "test_export.py:" in str(caught.value).splitlines()[0]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("one_level")
def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(wg.DataError, match="full is not empty"):
        wg.export(_overwrites_nothing, wg.spec(2), tmp_path / "full")
    with pytest.raises(wg.DataError, match="mine is no folder"):
        wg.export(_overwrites_nothing, wg.spec(2), tmp_path / "full" / "mine")
    with pytest.raises(wg.DTypeError, match="of 3, which is no path"):
        wg.export(_overwrites_nothing, wg.spec(2), 3)  # type: ignore[arg-type]
    (tmp_path / "empty").mkdir()
    made = wg.export(_overwrites_nothing, wg.spec(2), tmp_path / "empty", target="riscv64-linux")
    assert "load.py" in made.files

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(exporting.os, "fsync", full)
    with pytest.raises(wg.DataError, match="was not written: No space left on device"):
        wg.export(_overwrites_nothing, wg.spec(2), tmp_path / "new", target="riscv64-linux")
    assert {p.name for p in tmp_path.iterdir()} == {"full", "empty"}


def test_an_error_of_llvm_ends_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bpf = targets.Platform("bpf", "bpf", (targets.Level("only", "generic", ""),), "elf")
    monkeypatch.setitem(targets.PLATFORMS, "bpf", bpf)
    with pytest.raises(wg.GraphError, match="for bpf: LLVM ended with status"):
        wg.export(mlp(), wg.spec((2, 12)), tmp_path / "m", target="bpf")
    assert [*tmp_path.iterdir()] == []


def test_without_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "llvm", lambda: None)
    with pytest.raises(wg.GraphError, match="makes native code: llvmlite"):
        wg.export(_overwrites_nothing, wg.spec(2), tmp_path / "m")
    assert [*tmp_path.iterdir()] == []


# -- files


def test_an_mlps_training_step_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linux = targets.PLATFORMS["x86_64-linux"]
    monkeypatch.setitem(targets.PLATFORMS, linux.name, linux._replace(levels=linux.levels[:1]))
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    opt = wg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    made = wg.export(step, (wg.spec((32, 64)), wg.spec(32, "int64")), tmp_path / "m", target="x86_64-linux")
    assert made.files["step.o"] < 70_000


@pytest.mark.usefixtures("one_level")
def test_weights_are_those_of_the_module_and_may_be_others(tmp_path: Path) -> None:
    needs("host")
    model, other, x = mlp(), mlp(), normal(3, 12)
    made = wg.export(model, wg.spec((3, 12)), tmp_path / "m", name="mlp")
    found = wg.storage.load(tmp_path / "m" / "weights.safetensors")
    assert {*found} == {*model.state_dict()}
    again = loaded(made)
    for name, p in other.named_parameters():
        again.weights[name][...] = p.detach().numpy()
    with wg.no_grad():
        np.testing.assert_array_equal(again(x), wg.jit(other)(wg.tensor(x)).numpy())


@pytest.mark.usefixtures("one_level")
def test_the_same_function_gives_the_same_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        wg.manual_seed(0)
        wg.export(training()[0], (wg.spec((8, 12)), wg.spec(8, "int64")), tmp_path / folder)
    for file in (tmp_path / "a").iterdir():
        if file.suffix != ".so":
            assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
            assert str(tmp_path.parents[-2]).encode() not in file.read_bytes()


_BOTH = """
#include <stdio.h>
#include "one.h"
#include "six.h"
static _Alignas(64) unsigned char weights[ONE_WEIGHTS_BYTES], memory[ONE_BYTES + SIX_BYTES];
int main(void) {
    static float x[SIX_X_SIZE], a[ONE_RESULT_SIZE], b[SIX_RESULT_SIZE];
    one_call one = {.weights = weights, .memory = memory, .x = x, .result = a};
    six_call six = {.weights = weights, .memory = memory, .x = x, .result = b};
    if (fread(weights, 1, sizeof weights, stdin) != sizeof weights) return 1;
    if (fread(x, 4, SIX_X_SIZE, stdin) != SIX_X_SIZE) return 1;
    if (one_run(&one) || six_run(&six)) return 2;
    return fwrite(a, 4, ONE_RESULT_SIZE, stdout) + fwrite(b, 4, SIX_RESULT_SIZE, stdout) != 35;
}
"""


def test_several_sizes_in_one_program_share_weights(tmp_path: Path) -> None:
    needs("host")
    model, x = mlp(), normal(6, 12)
    for rows, name in ((1, "one"), (6, "six")):
        made = wg.export(model, wg.spec((rows, 12)), tmp_path / name, name=name)
        for file in made.files:
            (tmp_path / file).write_bytes((tmp_path / name / file).read_bytes())
    assert len({(tmp_path / name / "weights.safetensors").read_bytes() for name in ("one", "six")}) == 1
    (tmp_path / "both.c").write_text(_BOTH)
    objects = [p.name for p in tmp_path.glob("*.o")]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-o", "both", "both.c", *objects], cwd=tmp_path, check=True)
    file = (tmp_path / "weights.safetensors").read_bytes()
    data = file[8 + int.from_bytes(file[:8], "little") :]
    done = subprocess.run(["./both"], cwd=tmp_path, input=data + x.tobytes(), capture_output=True, check=True)
    found = np.frombuffer(done.stdout, "f4").reshape(7, 5)
    with wg.no_grad():
        np.testing.assert_array_equal(found[:1], wg.jit(model)(wg.tensor(x[:1])).numpy())
        np.testing.assert_array_equal(found[1:], wg.jit(model)(wg.tensor(x)).numpy())


def test_objects_call_nothing(tmp_path: Path) -> None:
    needs("host")
    made = wg.export(lambda x: F.softmax(x, 1), wg.spec((8, 12)), tmp_path / "m", target="x86_64-linux", name="m")
    command = ["ld", "-r", "-o", "all.o", *sorted(f for f in made.files if f.endswith(".o"))]
    subprocess.run(command, cwd=made.folder, check=True)
    told = subprocess.run(["nm", "-u", "all.o"], cwd=made.folder, capture_output=True, text=True, check=True)
    assert told.stdout == ""


_MUTATED = """
import json, random, runpy, sys
folder, count = sys.argv[1], int(sys.argv[2])
load = runpy.run_path(folder + "/load.py")
text = open(folder + "/manifest.json").read()
rng = random.Random(0)
numbers = [0, -1, 1, 2**31, 2**63, 1.5, None, "", [], {}, "float64", True]

def changed(value):
    kind = rng.random()
    if isinstance(value, dict) and value and kind < 0.9:
        key = rng.choice([*value])
        if kind < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: changed(value[key])}
    if isinstance(value, list) and value and kind < 0.9:
        at = rng.randrange(len(value))
        if kind < 0.1:
            return value[:at] + value[at + 1 :]
        return [changed(v) if i == at else v for i, v in enumerate(value)]
    return rng.choice(numbers)

def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)

wanted, errors = json.loads(text), 0
for i in range(count):
    if i % 4:
        new = json.dumps(changed(json.loads(text)))
    else:
        raw = bytearray(text.encode())
        for _ in range(rng.randrange(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        new = raw[: rng.randrange(len(raw))] if i % 8 else raw
        new = bytes(new).decode(errors="replace")
    with open(folder + "/manifest.json", "w") as file:
        file.write(new)
    try:
        made = json.loads(new)
        good = all(same(made[key], wanted[key]) for key in ("format", "interface"))
    except Exception:
        good = False
    try:
        model = load["Model"](folder)
        model(*(load["np"].zeros(shape, dtype) for _, dtype, shape in model.inputs))
    except load["Error"] as e:
        errors += 1
        assert not good, (e, new)
    else:
        assert good, new
print(errors)
"""


def mutate(made: wg.deploy.Exported, count: int) -> int:
    """Return how many of so many mutated manifests are refused; other outcomes than results and errors fail."""
    command = [sys.executable, "-c", _MUTATED, made.folder, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return int(done.stdout)


@pytest.mark.usefixtures("one_level")
@pytest.mark.parametrize("count", [100, pytest.param(100_000, marks=pytest.mark.slow)])
def test_mutated_manifests_are_errors(tmp_path: Path, count: int) -> None:
    needs("host")
    step, _ = training("SGD")
    made = wg.export(step, (wg.spec((8, 12)), wg.spec(8, "int64")), tmp_path / "m")
    assert mutate(made, count) > 0.3 * count


@pytest.mark.usefixtures("one_level")
def test_a_damaged_file_of_weights(tmp_path: Path) -> None:
    needs("host")
    made = wg.export(mlp(), wg.spec((3, 12)), tmp_path / "m", name="mlp")
    path = tmp_path / "m" / "weights.safetensors"
    whole = path.read_bytes()
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    assert header["0.weight"]["dtype"] == "F32"
    for damaged in (
        b"",
        whole[:40],
        whole[:-4],
        whole + b"0",
        b"\xff" * 8 + whole[8:],
        whole.replace(b"0.bias", b"0.bius"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(Exception, match=r"holds weights that cannot be read|is no safetensors|other arrays"):
            loaded(made)
