"""Random programs: native code and interpreter agree, whatever the processor, the threads and the transform."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from fuzz_programs import Program, target_of
from fuzz_steps import random_program
from fuzzing import check, compared, minimal, shrunk
from processors import on_processors
from wengert.core.graph.evaluate import run

COUNT, USUAL, AT_ONCE = 200, 80, 10


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.slow if n >= USUAL else ()) for n in range(0, COUNT, AT_ONCE)]
)
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
    "a bias of one number": program(
        {"v0": "np.ones((33, 18), 'float32')", "v1": "np.ones((33,), 'float32')", "v2": "np.ones((9, 18), 'float32')"},
        {"v3": "F.linear(v2, v0, v1)"},
        "v3",
        transform="jvp",
    ),
    "a bias with numbers between": program(
        {"v0": "np.ones((33, 18), 'float32')", "v1": "np.arange(99) * np.float32(1)", "v2": "np.ones((9, 18), 'f')"},
        {"v3": "F.linear(v2, v0, v1[::-3])"},
        "v3",
    ),
    "a sum with a short axis before the one that it is over": program(
        {"v3": "np.ones((9, 7, 9, 7))"},
        {"v4": "wg.torch.chunk(v3, 2, 3)[1]", "v5": "wg.nn.functional.cosine_similarity(v4, v4, 3)"},
        "v5",
        transform="grad",
    ),
    "an axis of size 1 added to nothing": program(
        {"v2": "np.ones((4, 0, 0), 'float32')"},
        {"v4": "F.scaled_dot_product_attention(v2, v2, v2)"},
        "v4",
        transform="jvp",
    ),
    "short axes that hold zeros of both signs": program(
        {"v0": "np.ones((20, 2), 'float32')"},
        {"v1": "1 / wg.stack([v0[:, 0] * wg.asarray(np.array([0.0, -0.0] * 10, 'float32')), v0[:, 1]], axis=-1)"},
        "v1",
    ),
    "an empty slice of a short axis": program(
        {"v0": "np.ones((20, 3), 'float32')"},
        {"v1": "wg.stack([v0[:, 0], v0[:, 1]], axis=-1)[:, 2:]", "v2": "v1 + 1"},
        "v2",
    ),
    "a donated input that a larger loop reads again and again": program(
        {"v0": "np.linspace(-1, 1, 48).reshape(48, 1)", "v1": "np.ones((1, 17))", "v2": "np.ones((17,))"},
        {"v3": "F.logsigmoid(v0)", "v4": "F.silu(v3)", "v5": "v3 @ v1 + v2", "v6": "v5 + v5"},
        "v6 v4",
        donated=frozenset({"v0"}),
    ),
    "a slice put back that a loop takes": program(
        {"v2": "np.ones((63,))"},
        {
            "v4": "wg.fori_loop(0, 7, lambda i, c: wg.tanh(c).sum(-1, keepdims=True) - c, v2)",
            "v5": "v4[::-1] * -0.25",
            "v6": "wg.logsumexp(v5, axis=0, keepdims=True)",
        },
        "v6",
        transform="grad",
    ),
    "small differences of large logarithms": program(
        {"v0": "(np.arange(1536) % 7 - 2).reshape((3, 16, 8, 4)).astype('float32')"},
        {"v1": "F.log_softmax(v0 * 3, -4)"},
        "v1",
    ),
    "bounds of a 16-bit type": program({"v5": "np.ones((8, 32), bfloat16)"}, {"v7": "wg.clip(v5, None, 3.0)"}, "v7"),
    "a product that overflows beside an infinite one": program(
        {"v0": "np.array([[inf, 7.0], [1.0, 2.0]], 'float32')", "v1": "np.full((2, 16), [[-1.0], [1e38]], 'float32')"},
        {"v2": "v0 @ v1"},
        "v2",
    ),
    "the logarithm of almost 1": program(
        {"v0": "np.linspace(0, 1, 1280).reshape(40, 32).astype('float32') + np.eye(32)[:1].astype('float32') * 12"},
        {"v1": "F.log_softmax(v0, 1)"},
        "v1",
    ),
    "a denormal number where the definition overflows": program(
        {"v0": "np.linspace(-104, -88, 40).astype('float32')"}, {"v1": "wg.sigmoid(v0)"}, "v1"
    ),
    "which are largest, of numbers an ulp apart": program(
        {"v0": "(0.7 - np.arange(126) % 4 * 1.2e-7).astype('float32')"},
        {"v1": "wg.max(wg.sigmoid(v0))"},
        "v1",
        transform="grad",
    ),
    "what is not finite as an integer": program(
        {"v0": "np.resize([nan, 1.0, -inf, -2.0, inf], 65).astype('float32')"}, {"v1": "wg.astype(v0, wg.uint32)"}, "v1"
    ),
    "a quotient of what may be nothing": program(
        {"v0": "np.asarray(np.random.default_rng(54819275).standard_normal((8, 100))).astype(bfloat16)"},
        {"v1": "wg.cos(v0 / wg.mean(v0, axis=0))", "v2": "v1 / (v1 * wg.mean(v1, axis=0))[:, ::-1]"},
        "v2",
    ),
    "the sign of what is not a number": program(
        {"v0": "np.full((17,), 2.0, 'float16')"}, {"v1": "wg.copysign(1.0, wg.atanh(v0))"}, "v1"
    ),
}


@pytest.mark.parametrize(("name", "target"), on_processors(FOUND))
def test_what_was_found_once(name: str, target: str) -> None:
    assert check(FOUND[name], target) is None


UNCERTAIN = (
    "small differences of large logarithms",
    "a product that overflows beside an infinite one",
    "the logarithm of almost 1",
    "a denormal number where the definition overflows",
)


@pytest.mark.parametrize("name", UNCERTAIN)
def test_what_is_wrong_is_found_where_something_is_uncertain(name: str) -> None:
    graph, arrays = FOUND[name].graph(), FOUND[name].arrays()
    expected = run(graph, arrays)
    assert compared(graph, arrays, expected, expected, "host") is None
    assert compared(graph, arrays, [0.5 * out for out in expected], expected, "host") is not None


def test_a_program_is_shrunk_to_what_makes_it_fail() -> None:
    def sums(p: Program) -> bool:
        return any("wg.sum" in text for _, text in p.steps)

    large = next(p for p in map(random_program, range(1000)) if sums(p) and len(p.steps) > 9)
    assert len(shrunk(large, sums).steps) == 1


def test_programs_are_runnable_python() -> None:
    exec(compile(str(random_program(4)), "program", "exec"), {"print": lambda *a, **k: None})
