"""Plans on disk: the same program as a plan made now, and never another one's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from fuzz_programs import Program
from fuzz_steps import random_program
from wengert.core.graph.evaluate import run
from wengert.core.graph.snapshot import input_node, located
from wengert.core.ops.op import TABLE, Op
from wengert.execute.native.codegen import kernel, machine
from wengert.execute.native.codegen import object_cache as cache
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan.fingerprint import fingerprint
from wengert.execute.native.plan.format import dump, load
from wengert.execute.native.plan.plan import HostCall


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("WENGERT_CACHE", raising=False)
    monkeypatch.delenv("WENGERT_CACHE_SIZE", raising=False)
    # Kernels that other tests have in memory would not be kept here.
    monkeypatch.setattr(kernel, "_kernels", {})


@pytest.fixture
def threads() -> Iterator[None]:
    before = wg.get_num_threads()
    yield
    wg.set_num_threads(before)


def plans() -> list[Path]:
    return sorted(Path(entry.path) for entry in cache.entries() if entry.is_plan)


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def bits(arrays: Any) -> list[tuple[bytes, tuple[int, ...]]]:
    return [(a.tobytes(), a.strides) for a in arrays]


def both(graph: Callable[[], wg.Graph], arrays: Any, donated: Any = None) -> tuple[Compiled, Compiled]:
    """The program made now, and the one from the cache, which are seen to do and to tell the same."""
    fresh = compile_graph(graph(), donated)
    first = fresh.run([a.copy() for a in arrays])
    assert not fresh.is_kept
    kept = compile_graph(graph(), donated)
    assert kept.is_kept
    given = [a.copy() for a in arrays]
    assert bits(kept.run(given)) == bits(first)
    for a, b, may_change in zip(arrays, given, fresh.donated, strict=True):
        assert may_change or bits([a]) == bits([b])
    assert str(kept.plan) == str(fresh.plan)
    assert kept.memory == fresh.memory
    assert kept.cost == fresh.cost
    return fresh, kept


def step(w: Any, x: Any, y: Any) -> Any:
    value, grad = wg.value_and_grad(lambda w: wg.nn.functional.cross_entropy(wg.relu(x @ w), y))(w)
    return value, w - 0.1 * grad


def training(donate: bool = True) -> tuple[Callable[[], wg.Graph], list[Any], list[bool]]:
    arrays = [normal(6, 3), normal(20, 6), np.arange(20) % 3]
    return lambda: wg.graph(step)(*arrays), arrays, [donate, False, False]


# -- the same program


def test_a_training_step_that_overwrites_its_weights() -> None:
    fresh, kept = both(*training())
    assert kept.program.plan.inputs[0].buffer.donated
    assert [[n.op.name for n in s.nodes] for s in kept.plan.steps] == [
        [n.op.name for n in s.nodes] for s in fresh.plan.steps
    ]
    assert kept.ir == fresh.ir
    assert kept.asm == fresh.asm
    assert str(kept.optimized) == str(fresh.optimized)
    a, b = kept.optimized.computations[-2:]
    same = fresh.optimized.computations[-2:]
    assert kept.why_not_fused(a, b) == fresh.why_not_fused(*same)
    assert [why for why, _ in kept.history(b)] == [why for why, _ in fresh.history(same[1])]


@pytest.mark.parametrize("seed", [*range(16), *(pytest.param(n, marks=pytest.mark.slow) for n in range(16, 40))])
def test_random_programs(seed: int) -> None:
    program: Program = random_program(70_000 + seed)
    try:
        arrays = program.arrays()
        run(program.graph(), [a.copy() for a in arrays])
    except Exception:  # what the interpreter refuses is no program
        return
    both(program.graph, arrays, [name in program.donated for name, _ in program.inputs])


def loops(x: Any, w: Any) -> Any:
    def turn(s: Any, row: Any) -> Any:
        s = wg.tanh(s @ w + row)
        return s, s.sum()

    last, sums = wg.scan(turn, x[0], x)
    halved = wg.while_loop(lambda s: s.sum() > 1.0, lambda s: s * 0.5, wg.abs(last) + 1.0)
    return sums, halved, wg.cond(sums[0] > 0, lambda: halved + 1.0, lambda: halved * 2.0)


def test_loops_and_branches() -> None:
    arrays = [normal(5, 4), normal(4, 4)]
    _, kept = both(lambda: wg.graph(loops)(*arrays), arrays)
    assert kept.program.plan.loops
    assert [w.of.kind if w.of else "" for w in kept.program.plan.windows] == ["input", "output"]


def test_steps_of_pythons() -> None:
    x = normal(5, 5)
    f = lambda x: wg.linalg.eigvals(x) * (1 + 2j)
    _, kept = both(lambda: wg.graph(f)(x), [x])
    assert any(isinstance(s.kernel, HostCall) for s in kept.program.plan.steps)


def test_errors_of_indices() -> None:
    x, index = normal(5, 4), np.array([0, 4, -5])
    fresh, kept = both(lambda: wg.graph(lambda x, i: x[i] * 2)(x, index), [x, index])
    messages = []
    for made in (fresh, kept):
        with pytest.raises(wg.RangeError) as error:
            made.run([x, np.array([0, 5, 1])])
        messages.append(str(error.value).splitlines()[0])
    assert messages[0] == messages[1]


def test_constants_of_any_size_and_layout() -> None:
    large, small = normal(700, 700), np.arange(6.0).reshape(2, 3)

    def graph(large: Any) -> wg.Graph:
        return wg.graph(lambda x: (x @ wg.asarray(large), x.sum() + wg.asarray(small), wg.asarray(small.T)))(x)

    x = normal(3, 700)
    both(lambda: graph(large), [x])
    assert sum(p.stat().st_size for p in plans()) < 20_000  # its own constants a graph brings along
    # The same numbers, in another order in memory.
    turned = compile_graph(graph(wg.asarray(large.T.copy()).mT))
    assert not turned.graph.constants[0].attrs["value"].flags.c_contiguous
    assert turned.is_kept
    assert bits(turned.run([x])) == bits(compile_graph(graph(large)).run([x]))


def test_the_number_of_threads_may_be_another(threads: None) -> None:
    x = normal(600, 500)
    graph = lambda: wg.graph(lambda x: (wg.softmax(x), (x * x).sum(), x @ x.mT))(x)
    wg.set_num_threads(1)
    first = compile_graph(graph()).run([x])
    for count in (2, 1):
        wg.set_num_threads(count)
        kept = compile_graph(graph())
        assert kept.is_kept
        for _ in range(5):  # in the later ones steps are shared out by their times
            assert bits(kept.run([x])) == bits(first)


def test_every_path_of_a_function_has_its_plan() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x * 2.0
        return x - 1.0 if x[0] > -5.0 else x * x

    inputs = [np.array(v, np.float32) for v in ([1.0, 2.0], [-1.0, -2.0], [-6.0, 0.0])]
    expected = [wg.jit(f)(x).numpy() for x in inputs]
    count = len(plans())
    assert count == 3
    again = wg.jit(f)
    for x, y in zip(inputs, expected, strict=True):
        assert bits([again(x).numpy()]) == bits([y])
        assert again._last.executor.is_kept
    assert len(plans()) == count


def test_state_outside_is_written() -> None:
    def trained() -> tuple[list[Any], Any]:
        wg.manual_seed(0)
        model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.Dropout(0.5), wg.nn.Linear(8, 2))
        opt = wg.optim.AdamW(model.parameters(), lr=0.1)

        @wg.jit
        def step(x: Any, y: Any) -> Any:
            loss = wg.nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        losses = [step(normal(16, 4), np.arange(16) % 2).item() for _ in range(5)]
        return [losses, *(p.detach().numpy().tobytes() for p in model.parameters())], step

    first, step = trained()
    assert not step._last.executor.is_kept
    second, step = trained()
    assert step._last.executor.is_kept
    assert second == first


# -- other programs have other names


def test_what_differs_has_another_name() -> None:
    x = normal(3, 4)
    ways: list[Callable[[Any], Any]] = [
        lambda x: x * 2.0,
        lambda x: x * 2,
        lambda x: x * 3.0,
        lambda x: x + 2.0,
        lambda x: 2.0 - x,
        lambda x: x - 2.0,
        lambda x: x * -0.0,
        lambda x: x * 0.0,
        lambda x: x.sum(0),
        lambda x: x.sum(1),
        lambda x: x * wg.asarray(np.arange(4.0)),
        lambda x: x * wg.asarray(np.arange(4.0)[::-1]),
        lambda x: (x, x + 1),
        lambda x: (x + 1, x),
        lambda x: wg.scan(lambda s, row: (s + row, s), x[0], x),
        lambda x: wg.scan(lambda s, row: (s - row, s), x[0], x),
    ]
    graphs = [wg.graph(f)(x) for f in ways]
    graphs += [wg.graph(ways[0])(normal(4, 3)), wg.graph(ways[0])(x.astype(np.float64))]
    host = machine.host()
    names = [found.name for g in graphs if (found := fingerprint(g, [False], host)) is not None]
    for donated, target in ((True, host), (False, machine.level("avx2"))):
        found = fingerprint(graphs[0], [donated], target)
        assert found is not None
        names.append(found.name)
    assert len(names) == len(graphs) + 2
    assert len(set(names)) == len(names) - 1  # 2 and 2.0 are the same to a float32
    assert fingerprint(wg.graph(ways[0])(x), [False], host) == fingerprint(graphs[0], [False], host)


def test_what_only_this_process_knows_has_no_plan() -> None:
    x = normal(3)

    def graph(f: Callable[[Any], Any]) -> wg.Graph:
        return wg.graph(f)(x)

    def made(scale: float) -> Callable[[Any], Any]:
        return lambda x: wg.callback(lambda a: a * scale, wg.spec((3,)), x)

    for scale in (2.0, 3.0):
        assert compile_graph(graph(made(scale))).run([x])[0].tolist() == (x * np.float32(scale)).tolist()
    assert plans() == []


def test_operations_and_attributes_of_others_have_no_name() -> None:
    x = input_node(wg.spec((3,)))

    def name(op: Op, **attrs: Any) -> Any:
        return fingerprint(wg.Graph([located(op, (x,), attrs, x.spec)], [x]), [False], machine.host())

    theirs = Op("twice(x)", "general", lambda x: x * 2, infer=lambda x: x, listed=False)
    assert name(theirs) is None
    assert name(TABLE["exp"]) is not None
    assert name(TABLE["flip"], axis=(-1,)) is not None
    assert name(TABLE["flip"], axis=object()) is None


def test_a_cache_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays, donated = training()
    monkeypatch.setenv("WENGERT_CACHE", "0")
    for _ in range(2):
        made = compile_graph(graph(), donated)
        made.run([a.copy() for a in arrays])
        assert not made.is_kept
    assert cache.entries() == []


def test_for_another_processor_nothing_is_kept() -> None:
    graph, _, donated = training()
    for _ in range(2):
        assert not compile_graph(graph(), donated, machine.level("aarch64")).is_kept
    assert cache.entries() == []


# -- files that are not as they should be


def test_damaged_plans_are_made_anew() -> None:
    graph, arrays, donated = training()
    expected = bits(compile_graph(graph(), donated).run([a.copy() for a in arrays]))
    (path,) = plans()
    whole = path.read_bytes()
    for at in [*range(64), *range(64, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        made = compile_graph(graph(), donated)
        assert not made.is_kept
        if at % 31 == 0:
            assert bits(made.run([a.copy() for a in arrays])) == expected
            assert path.read_bytes() == whole
    for part in (b"", whole[:20], whole[:-1], whole + b"\0"):
        path.write_bytes(part)
        assert not compile_graph(graph(), donated).is_kept


def test_contents_that_are_no_plan() -> None:
    made = compile_graph(training()[0]())
    contents = dump(made.program.plan, [])
    find = lambda keys: kernel.kept_kernels(keys, machine.host())
    assert load(contents, [], find) is not None
    for damaged in (b"", contents[:8], contents[:40], b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}"):
        assert load(damaged, [], find) is None


def test_a_plan_of_other_contents_under_its_name() -> None:
    """Whatever another program's plan says, it is not taken for this one's."""
    graph, arrays, donated = training()
    compile_graph(graph(), donated).run([a.copy() for a in arrays])
    (path,) = plans()
    compile_graph(wg.graph(lambda x: x * 2)(normal(3))).run([normal(3)])
    (other,) = [p for p in plans() if p != path]
    path.write_bytes(other.read_bytes())
    assert not compile_graph(graph(), donated).is_kept


def test_without_the_code_of_a_kernel_the_plan_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays, donated = training()
    expected = bits(compile_graph(graph(), donated).run([a.copy() for a in arrays]))
    victim = next(Path(e.path) for e in cache.entries() if not e.is_plan and Path(e.path).name.startswith("k"))
    victim.unlink()
    monkeypatch.setattr(kernel, "_kernels", {})
    made = compile_graph(graph(), donated)
    assert not made.is_kept
    assert bits(made.run([a.copy() for a in arrays])) == expected
    assert victim.exists()


def test_another_version_has_other_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays, donated = training()
    compile_graph(graph(), donated).run([a.copy() for a in arrays])
    before = cache.plan_edition()
    for name, value in (("__version__", "99"), ("_plan_sources", b"changed"), ("_sources", b"changed")):
        with monkeypatch.context() as changed:
            changed.setattr(cache, name, value)
            cache.plan_edition.cache_clear()
            cache.edition.cache_clear()
            assert cache.plan_edition() != before
            assert not compile_graph(graph(), donated).is_kept
    cache.plan_edition.cache_clear()
    cache.edition.cache_clear()
    assert compile_graph(graph(), donated).is_kept


def test_a_folder_that_nothing_can_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "file" / "folder"))
    graph, arrays, donated = training()
    for _ in range(2):
        made = compile_graph(graph(), donated)
        made.run([a.copy() for a in arrays])
        assert not made.is_kept


def test_plans_count_towards_the_size_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, arrays, donated = training()
    compile_graph(graph(), donated).run([a.copy() for a in arrays])
    os.utime(plans()[0], (0, 0))
    total = sum(entry.nbytes for entry in cache.entries())
    monkeypatch.setattr(cache, "size_limit", lambda: total - 1)
    cache.look_over()
    assert plans() == []


# -- several processes

RUN = """
import numpy as np
import wengert as wg

def f(w, x):
    def loss(w):
        if w.sum() > 100:
            return w.sum()
        return (wg.softmax(x @ w) * wg.tanh(x @ w)).sum()
    return wg.value_and_grad(loss)(w)

x = np.linspace(-1, 1, 60, dtype=np.float32).reshape(10, 6)
fn = wg.jit(f)
found = fn(x.T[:, :4].copy(), x)
print(fn._last.executor.is_kept, *(np.asarray(v.numpy()).tobytes().hex() for v in found))
"""


def start(**environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def result(process: subprocess.Popen[str]) -> tuple[bool, list[str]]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    kept, *values = out.split()
    return kept == "True", values


def test_later_processes_and_processes_at_once() -> None:
    at_once = [result(p) for p in (start(PYTHONHASHSEED="1"), start(PYTHONHASHSEED="2"))]
    files = {path: path.read_bytes() for path in plans()}
    later = [result(start(WENGERT_NUM_THREADS=n)) for n in ("1", "2")]
    assert [kept for kept, _ in later] == [True, True]
    assert len({tuple(values) for _, values in (*at_once, *later)}) == 1
    assert {path: path.read_bytes() for path in plans()} == files
    # What was made without a cache is the same to the byte.
    cache.clear()
    result(start(PYTHONHASHSEED="3"))
    assert {path: path.read_bytes() for path in plans()} == files
