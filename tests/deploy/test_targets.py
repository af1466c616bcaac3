"""Other processors, systems and browsers: their programs run here, emulated, and give the numbers of `wg.jit`.

What is needed for that (compilers and emulators of the targets, Node, Chromium) skips where it is not installed.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from exported import build, needs, run
from wengert import nn
from wengert.deploy import targets
from wengert.deploy.captured import captured
from wengert.execute.native.compile import Compiled
from wengert.nn import functional as F

# The first has addresses of 32 bits.
CROSS = [
    "armv7-linux",
    *(pytest.param(t, marks=pytest.mark.slow) for t in ("aarch64-linux", "riscv64-linux", "x86_64-windows")),
]


def program() -> tuple[Any, tuple[Any, ...]]:
    """Return a training step with all that targets may differ in, and its arguments."""
    wg.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 5))
    opt = wg.optim.Adam(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any, i: Any) -> Any:
        opt.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        rows = x.reshape(6, 36).detach()
        carry, _ = wg.scan(lambda h, row: (wg.tanh(h * 0.5 + row), h.sum()), rows[0], rows)
        scores = F.scaled_dot_product_attention(rows[None], rows[None], rows[None])
        return loss, logits.detach(), carry, scores, rows[i], wg.cond(i[0] > 0, lambda: rows * 2, lambda: rows)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 1, 6, 6)).astype("f4")
    return step, (x, np.arange(6) % 5, np.array([1, -1, 0]))


def expected(runs: int) -> tuple[Any, ...]:
    step, given = program()
    compiled = wg.jit(step)
    for _ in range(runs):
        results = compiled(*map(wg.tensor, given))
    return tuple(r.detach().numpy() for r in results)


def check(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert np.abs(one - other).max() <= 2e-6 * max(1.0, np.abs(other).max())


@pytest.mark.parametrize("target", CROSS)
def test_other_processors_and_systems(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(target)
    platform = targets.PLATFORMS[target]
    monkeypatch.setitem(targets.PLATFORMS, target, platform._replace(levels=platform.levels[-1:]))
    step, given = program()
    made = wg.export(step, given, tmp_path / "m", target=target)
    wanted = expected(3)
    check(run(made, given, wanted, runs=3), wanted)
    wrong = (*given[:2], np.array([0, 6, 0]))
    with pytest.raises(RuntimeError, match=r"an index is out of range for axis -?\d of size 6"):
        run(made, wrong, wanted)


def test_the_level_of_a_processor_is_found_on_windows_too(tmp_path: Path) -> None:
    needs("x86_64-windows")
    made = wg.export(lambda x: wg.exp(x), wg.spec(40), tmp_path / "m", target="x86_64-windows", name="e")
    x = np.linspace(-3, 3, 40).astype("f4")
    (found,) = run(made, [x], [x])
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos"])
def test_objects_for_macos_are_made(tmp_path: Path, target: str) -> None:
    made = wg.export(lambda x: wg.exp(x), wg.spec(4), tmp_path / "m", target=target, name="e")
    magic = {Path(made.folder, f).read_bytes()[:4] for f in made.files if f.endswith(".o")}
    assert magic == {b"\xcf\xfa\xed\xfe"}


# -- WebAssembly


def test_pages_and_modules_hold_all_that_they_need(tmp_path: Path) -> None:
    """No browser is needed to see that nothing is loaded from elsewhere, and that a module imports nothing."""
    weights = wg.tensor(np.arange(512, dtype="f4").reshape(8, 64))
    fn = lambda image: weights @ image.reshape(64)
    page = wg.export(fn, np.ones((8, 8), "f4"), tmp_path / "page", target="web", name="web")
    text = (tmp_path / "page" / "web.html").read_text()
    assert page.files == {"web.html": len(text.encode())}
    files = json.loads(re.search(r"^const FILES = (.*);$", text, re.MULTILINE)[1])  # type: ignore[index]
    examples = json.loads(re.search(r"^const EXAMPLES = (.*);$", text, re.MULTILINE)[1])  # type: ignore[index]
    assert np.frombuffer(base64.b64decode(examples["image"]), "f4").tolist() == [1.0] * 64
    assert not re.search(r"https?:|import\b[^.]*from", text)
    wg.export(fn, wg.spec((8, 8)), tmp_path / "js", target="js", name="web")
    module = (tmp_path / "js" / "web.wasm").read_bytes()
    assert module == base64.b64decode(files["wasm"])
    assert (tmp_path / "js" / "weights.safetensors").read_bytes() == base64.b64decode(files["weights"])
    kinds, at = [], 8
    while at < len(module):
        kinds.append(module[at])
        size = shift = 0
        while True:
            at += 1
            size |= (module[at] & 127) << shift
            shift += 7
            if module[at] < 128:
                break
        at += 1 + size
    assert (at, module[:8]) == (len(module), b"\0asm\1\0\0\0")
    # Types, functions, memory, globals, exports, the number of pieces of data, code, data; and no imports.
    assert kinds in ([1, 3, 5, 6, 7, 12, 10, 11], [1, 3, 5, 6, 7, 10, 11])


RUN = """
import { load, ProgramError } from "./step.mjs";
import { readFileSync, writeFileSync } from "node:fs";
const given = JSON.parse(readFileSync("given.json"));
const model = await load();
let found;
for (let i = 0; i < 3; i++) found = model.run(given);
writeFileSync("found.json", JSON.stringify(Object.fromEntries(Object.entries(found).map(([k, v]) => [k, [...v]]))));
const saved = model.saveState();
const before = model.run(given).result_0[0];
model.loadState(saved);
if (model.run(given).result_0[0] !== before) throw new Error("the state was not that of before");
const errors = [];
const tried = (f) => {
  try {
    f();
    errors.push("none");
  } catch (e) {
    if (!(e instanceof ProgramError)) throw e;
    errors.push(e.message);
  }
};
tried(() => model.run({ ...given, i: [0, 6, 0] }));
tried(() => model.run({ x: given.x, y: given.y }));
tried(() => model.run({ ...given, y: given.y.slice(1) }));
tried(() => model.run({ ...given, x: new Float64Array(given.x) }));
tried(() => model.loadState(saved.subarray(0, 100)));
console.log(JSON.stringify(errors));
"""


def test_a_module_for_javascript(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    step, given = program()
    folder = tmp_path / "m"
    made = wg.export(step, given, folder, target="js")
    assert {*made.files} == {"step.wasm", "step.mjs", "manifest.json", "weights.safetensors", "state.safetensors"}
    (folder / "run.mjs").write_text(RUN)
    (folder / "given.json").write_text(json.dumps({k: v.ravel().tolist() for k, v in zip("xyi", given)}))
    done = subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "found.json").read_text())
    wanted = expected(3)
    check([np.array(found[f"result_{k}"], w.dtype).reshape(w.shape) for k, w in enumerate(wanted)], wanted)
    index, missing, short, other, cut = json.loads(done.stdout)
    assert "an index is out of range" in index
    assert missing == "the input i is missing"
    assert short == "y has 5 elements, and the program takes 6"
    assert other == "x has to be a Float32Array"
    assert "this file of arrays is not the program's" in cut


def test_weights_that_are_prepared_in_javascript(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    model, x = nn.Linear(300, 40), np.linspace(-1, 1, 300).astype("f4")[None]
    wg.export(model, wg.spec((1, 300)), tmp_path / "m", target="js", name="linear", freeze=True)
    script = (
        'const { load, INTERFACE } = await import("./linear.mjs");'
        "const model = await load();"
        f"const found = model.run({{ input: {x.ravel().tolist()} }}).result;"
        "console.log(JSON.stringify([INTERFACE.ready, [...found]]));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], cwd=tmp_path / "m", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    ready, found = json.loads(done.stdout)
    assert ready > 0
    with wg.no_grad():
        check([np.array([found], "f4")], [model(wg.tensor(x)).numpy()])


def test_a_page_runs_by_itself(tmp_path: Path) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("chromium is not installed")
    image = np.linspace(0, 1, 64).astype("f4").reshape(8, 8)
    weights = wg.tensor(np.random.default_rng(0).normal(size=(64, 10)).astype("f4"))
    made = wg.export(
        lambda image: F.softmax(image.reshape(1, 64) @ weights, -1)[0],
        image,
        tmp_path / "m",
        target="web",
        name="digits",
    )
    assert [*made.files] == ["digits.html"]
    page = tmp_path / "m" / "digits.html"
    assert "http" not in page.read_text().replace("http-equiv", "")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run([*command, str(page)], capture_output=True, text=True, check=False, timeout=120)
    shown = done.stdout.split("<main")[1]
    best = int(np.argmax(image.reshape(64) @ weights.numpy()))
    assert f'<div class="best"><b>{best}</b>' in shown
    assert '<p id="trouble" role="alert"></p>' in shown
    assert "nothing is sent anywhere" in done.stdout


@pytest.mark.parametrize(("cpu", "level"), [("Nehalem", "baseline"), ("Haswell", "avx2")])
def test_the_best_level_that_a_processor_has_is_chosen(tmp_path: Path, cpu: str, level: str) -> None:
    """Emulated processors have no instructions beyond their level: those of a better one would end the program."""
    needs("host")
    if shutil.which("qemu-x86_64") is None or targets.host().name != "x86_64-linux":
        pytest.skip("qemu-x86_64 is not installed, or there is no need of it")
    model, x = nn.Linear(12, 40), np.random.default_rng(0).normal(size=(7, 12)).astype("f4")
    made = wg.export(model, wg.spec((7, 12)), tmp_path / "m", name="linear")
    captures = captured(model, wg.spec((7, 12)), False)
    feeds = {w.input: w.value for w in captures.weights} | {k: x for _, k in captures.inputs if k is not None}
    known = {one.name: one for one in targets.host().levels}
    plan = Compiled(captures.graph, None, targets.host().target(known[level]))
    (wanted,) = plan.run([feeds[i] for i in range(len(feeds))])
    build(made, "-static")
    (tmp_path / "m" / "in.bin").write_bytes(x.tobytes())
    command = ["qemu-x86_64", "-cpu", cpu, "./linear.exe", "in.bin", "out.bin"]
    done = subprocess.run(command, cwd=tmp_path / "m", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.fromfile(tmp_path / "m" / "out.bin", "f4").reshape(7, 40), wanted)
