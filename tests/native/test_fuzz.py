"""Random programs: native code and interpreter agree, whatever the processor, the threads and the transform."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from fuzz_programs import Program
from fuzz_steps import random_program
from fuzzing import TARGETS, check, minimal, shrunk

COUNT, AT_ONCE = 200, 10


def target_of(seed: int) -> str:
    """The processor that a seed's program is compiled for: mostly the one that is there."""
    return {3: "avx2", 7: "sse2"}.get(seed % 10, "host")


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
def test_native_code_and_interpreter_agree(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        found = minimal(random_program(seed), target_of(seed))
        assert found is None, f"seed {seed}: {found[1]}\n{found[0]}"


def program(inputs: dict[str, str], steps: dict[str, str], outputs: str, **options: Any) -> Program:
    return Program(tuple(inputs.items()), tuple(steps.items()), tuple(outputs.split()), **options)


# The smallest programs that went wrong once.
FOUND = {
    "a row's values are kept of kept values": program(
        {"v0": "np.ones((48, 1, 48), 'float32')"},
        {"v1": "wg.where(wg.not_equal(v0, v0), v0, v0)", "v3": "wg.max(v1, axis=None, keepdims=True)", "v4": "v1 * v3"},
        "v4",
    ),
    "a kept value is spread along the row": program(
        {"v5": "np.ones((4,), 'float16')"},
        {
            "v9": "wg.reshape(v5, (4, 1))",
            "v12": "wg.cos(v9)",
            "v15": "wg.min(v5, axis=None, keepdims=True)",
            "v16": "v12 / v15",
        },
        "v16",
    ),
    "a slice without entries": program({"v1": "np.ones((1,), 'float32')"}, {"v2": "wg.median(v1, axis=-1)"}, "v2"),
    "a permutation of the last axes only": program(
        {"v0": "np.ones((), 'float32')", "v5": "np.ones((1, 15, 7), 'float32')"}, {"v7": "wg.atan2(v5, v0).mT"}, "v7"
    ),
    "an empty loop": program(
        {"v6": "np.ones((2, 31, 1, 0), 'float64')", "v4": "np.ones((31, 1, 1), 'float64')"},
        {"v7": "wg.add(v6, v4)", "v8": "wg.exp(v4)"},
        "v7 v8",
    ),
    "a sum of 16-bit floats over everything": program(
        {"v2": "np.ones((9, 48), 'float16')"}, {"v4": "wg.sum(v2, axis=None, keepdims=True)"}, "v4"
    ),
    "16-bit floats from one block of the code in another": program(
        {"v0": "np.ones((33, 1), bfloat16)", "v2": "np.ones((1,), bfloat16)"},
        {"v3": "v0 @ v2", "v4": "v3 + v3", "v13": "wg.broadcast_to(v4, (3, *v4.shape))"},
        "v13 v3",
    ),
    "a donated input is a result twice": program(
        {"v1": "np.ones((12, 48), 'float32')"}, {}, "v1 v1", donated=frozenset({"v1"})
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once(name: str, target: str) -> None:
    assert check(FOUND[name], target) is None


def test_a_program_is_shrunk_to_what_makes_it_fail() -> None:
    def sums(p: Program) -> bool:
        return any("wg.sum" in text for _, text in p.steps)

    large = next(p for p in map(random_program, range(1000)) if sums(p) and len(p.steps) > 9)
    assert len(shrunk(large, sums).steps) == 1


def test_programs_are_runnable_python() -> None:
    exec(compile(str(random_program(4)), "program", "exec"), {"print": lambda *a, **k: None})
