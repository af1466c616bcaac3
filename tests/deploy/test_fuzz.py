"""Random programs, exported: they give the bits of their plans, on other processors the numbers."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from exported import needs, run
from fuzz_steps import random_program
from wengert.deploy import targets
from wengert.deploy.captured import captured
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import Compiled

COUNT, USUAL = 60, 2


def exported(seed: int, folder: Path, target: str) -> tuple[Any, Any, Any]:
    """Return a drawn program, exported, with its inputs and what its plan gives; skip one that needs Python."""
    drawn = random_program(seed)
    arrays, fn = drawn.arrays(), drawn.function()
    platform = targets.PLATFORMS[target]
    try:
        made = wg.export(fn, arrays, folder, target=target, name="drawn")
    except wg.GraphError as e:
        pytest.skip(str(e).splitlines()[0])
    program = captured(fn, arrays, False)
    feeds = {k: a for (_, k), a in zip(program.inputs, arrays, strict=True) if k is not None}
    level = platform.levels[0] if target == targets.host().name else targets.host().levels[-1]
    plan = Compiled(program.graph, None, targets.host().target(level))
    with np.errstate(all="ignore"):
        return made, arrays, plan.run([feeds[i] for i in range(len(feeds))])


def one_level(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    platform = targets.PLATFORMS[target]
    features = machine.host().features
    asked = {"avx512": "+avx512bw", "avx2": "+avx2"}
    best = next(x for x in platform.levels if asked.get(x.name, "") in features)
    monkeypatch.setitem(targets.PLATFORMS, target, platform._replace(levels=(best,)))


def usual(seed: int) -> Any:
    return pytest.param(seed, marks=pytest.mark.slow if seed >= USUAL else ())


@pytest.mark.parametrize("seed", [*map(usual, range(COUNT))])
def test_drawn_programs_have_the_bits_of_their_plans(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("host")
    one_level(monkeypatch, targets.host().name)
    made, arrays, wanted = exported(seed, tmp_path / "m", targets.host().name)
    model = runpy.run_path(f"{made.folder}/load.py")["Model"](made.folder)
    given = [a.view(dtype) for a, (_, dtype, _) in zip(arrays, model.inputs, strict=True)]
    found = model(*given)
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_array_equal(one, np.ascontiguousarray(other).view(one.dtype).reshape(one.shape))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["armv7-linux", "riscv64-linux", "aarch64-linux"])
@pytest.mark.parametrize("seed", range(100, 120))
def test_drawn_programs_on_other_processors(seed: int, target: str, tmp_path: Path) -> None:
    needs(target)
    made, arrays, wanted = exported(seed, tmp_path / "m", target)
    for one, other in zip(run(made, arrays, wanted), wanted, strict=True):
        one, other = (np.asarray(x).astype("f8") for x in (one, other))
        finite = np.isfinite(other) & np.isfinite(one)
        largest = max(1.0, np.abs(other[finite]).max(initial=0))
        close = np.abs(one - other)[finite] <= 2e-2 * largest
        assert close.mean() > 0.9 if close.size else True


@pytest.mark.skipif(sys.platform != "linux", reason="pages without rights are asked of Linux")
@pytest.mark.parametrize("seed", [227, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(200, 227))])
def test_no_memory_is_touched_beyond_what_the_header_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("host")
    one_level(monkeypatch, targets.host().name)
    drawn = random_program(seed)
    arrays = drawn.arrays()
    try:
        made = wg.export(drawn.function(), arrays, tmp_path / "m", name="drawn", freeze=seed % 2 == 1)
    except wg.GraphError as e:
        pytest.skip(str(e).splitlines()[0])
    for i, array in enumerate(arrays):
        np.save(f"{made.folder}/in{i}.npy", array.view("u2") if array.dtype.name == "bfloat16" else array)
    script = Path(__file__).parents[1] / "helpers" / "guarded_export.py"
    done = subprocess.run([sys.executable, str(script), made.folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-1000:])
