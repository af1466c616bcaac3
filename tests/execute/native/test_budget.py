"""Budgets of memory: `wg.jit(f, memory=...)` keeps to them, with the same bits, or says what would do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn
from wengert.execute.native.budget.blocks import Blocks
from wengert.execute.native.budget.evict import Full, within
from wengert.execute.native.budget.order import dependencies, frugal, peak
from wengert.execute.native.budget.place import most_in_use
from wengert.execute.native.budget.within import BudgetError, Limit
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.run import runtime

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="values go to files on Linux only")
pytestmark = pytest.mark.skipif(bool(machine.lack()), reason="no native code here")


def chain(x: Any) -> Any:
    # Each product needs its operand for the derivative, and is not fused with the next one.
    for _ in range(12):
        x = wg.tanh(x @ x)
    return x.sum()


def layers(count: int = 3, dropout: float = 0.1) -> nn.Sequential:
    made = (nn.TransformerEncoderLayer(32, 2, 64, dropout, "gelu", batch_first=True) for _ in range(count))
    return nn.Sequential(*made)


def training(
    decides: bool = False, count: int = 3, dropout: float = 0.1, **options: Any
) -> tuple[Any, Callable[[], list[bytes]]]:
    wg.manual_seed(3)
    model = layers(count, dropout)
    opt = wg.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(1)
    x, y = (wg.tensor(rng.standard_normal((4, 24, 32)).astype(np.float32)) for _ in range(2))

    @wg.jit(**options)
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        if not decides or loss > 0:
            opt.step()
        return loss

    def run() -> list[bytes]:
        losses = [step(x, y).numpy().tobytes() for _ in range(6)]
        state = [a.detach().numpy().tobytes() for p in model.parameters() for a in (p, p.grad)]
        return [*losses, *state, wg.random.get_rng_state().numpy().tobytes()]

    return step, run


def least_of(error: pytest.ExceptionInfo[Any]) -> int:
    found = re.search(r"at least ([\d,]+)", str(error.value))
    assert found is not None
    return int(found[1].replace(",", ""))


# -- the promise


def test_a_chain_keeps_to_its_budget_with_the_same_bits() -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) * 0.1
    free = wg.jit(wg.grad(chain))
    expected = free(x)
    whole = free.memory.growth
    for part in (0.9, 0.7, 0.5):
        limit = int(whole * part)
        tight = wg.jit(wg.grad(chain), memory=limit)
        for _ in range(6):
            assert tight(x).numpy().tobytes() == expected.numpy().tobytes()
        assert tight.memory.growth <= limit
        assert len(tight.plan.steps) > len(free.plan.steps)
        assert sum(s.label.endswith(" again") for s in tight.plan.steps) == len(tight.plan.steps) - len(free.plan.steps)


def test_the_figure_is_what_a_call_allocates() -> None:
    import gc
    import tracemalloc

    free = wg.jit(wg.grad(chain)).lower(wg.spec((64, 64))).compile()
    limit = int(free.memory.growth * 0.6)
    program = compile_graph(free.graph, None, None, Limit(limit, wg.get_num_threads()))
    given = [np.zeros((64, 64), np.float32)]
    program.run(given)
    runtime._blocks.clear()
    program.program._idle.clear()
    gc.collect()
    tracemalloc.start()
    program.run(given)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert program.memory.growth <= limit
    assert program.program.nbytes == program.memory.arena + program.memory.scratch
    assert abs(measured - program.memory.growth) < 0.02 * measured + 4096


def test_a_training_step_keeps_to_it_with_the_same_bits_and_random_numbers() -> None:
    free, run = training()
    expected = run()
    for part in (0.8, 0.55):
        limit = int(free.memory.growth * part)
        step, run = training(memory=limit)
        assert run() == expected
        assert step.memory.growth <= limit


def test_a_program_that_decides_keeps_to_it() -> None:
    free, run = training(decides=True)
    expected = run()
    limit = int(free.memory.growth * 0.75)
    step, run = training(decides=True, memory=limit)
    assert run() == expected
    assert step.memory.growth <= limit


def test_a_budget_that_is_enough_changes_nothing() -> None:
    free = wg.jit(wg.grad(chain)).lower(wg.spec((16, 16))).compile()
    same = wg.jit(wg.grad(chain), memory="1GiB").lower(wg.spec((16, 16))).compile()
    assert str(same.plan) == str(free.plan)


def test_loops_stay_whole() -> None:
    w = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32) * 0.1

    def f(x: Any) -> Any:
        for _ in range(4):
            x = wg.tanh(x @ w)
            _, x = wg.scan(lambda c, row: (c + row, wg.sin(c) * row), wg.zeros(48), x)
        return (x**2).sum()

    x = np.random.default_rng(1).standard_normal((48, 48)).astype(np.float32)
    free = wg.jit(wg.grad(f))
    expected = free(x)
    with pytest.raises(BudgetError) as error:
        wg.jit(wg.grad(f), memory=1)(x)
    least = least_of(error)
    assert least < free.memory.growth
    tight = wg.jit(wg.grad(f), memory=least)
    for _ in range(6):
        assert tight(x).numpy().tobytes() == expected.numpy().tobytes()


def test_results_that_carry_gradients_on() -> None:
    x = wg.tensor(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) * 0.1, requires_grad=True)
    wg.jit(chain)(x).backward()
    assert x.grad is not None
    expected, x.grad = x.grad.numpy().tobytes(), None
    # The backward pass is a program of its own, within the budget too.
    wg.jit(chain, memory=12 * 64 * 64 * 4)(x).backward()
    assert x.grad.numpy().tobytes() == expected


def test_explain_shows_what_a_budget_took() -> None:
    free, run = training(count=2)
    run()
    limit = int(free.memory.growth * 0.6)
    step, run = training(count=2, memory=limit)
    run()
    found = wg.explain.memory(step)
    assert (found.limit, found.free, found.growth) == (limit, free.memory.growth, step.memory.growth)
    assert max(found.during) == found.during[found.peak_at] == sum(-(-h.bytes // 64) * 64 for h in found.holders)
    assert found.growth == found.results + found.arena + found.scratch
    assert sum(a.times for a in found.again) == sum(label.endswith(" again") for label in found.steps)
    assert 0 < found.slower < 1
    text = str(found)
    assert "without it" in text
    assert "computed again:" in text
    assert "test_budget.py:" in text
    assert "0.linear1" in text
    assert found._repr_html_().startswith("<svg")
    whole = wg.explain.memory(free)
    assert (whole.limit, whole.free, whole.again) == (None, whole.growth, ())


def test_updates_do_not_wait_for_one_another() -> None:
    step, run = training(count=3, dropout=0.0)
    run()
    plan = compile_graph(step.graph, step._last.donated)._made.plan
    blocks = Blocks(plan)
    order = frugal(blocks)
    changes = [i for i, b in enumerate(order) if blocks.blocks[b].changes]
    # The first update, of the last layer, runs long before the last gradient is there.
    assert changes[0] < 0.6 * len(order)


def test_effects_happen_once(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        for i in range(8):
            x = wg.tanh(x @ x)
            wg.debug.print(f"{i}: {{}}", x.sum())
        return x.sum()

    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) * 0.1
    free = wg.jit(wg.grad(f))
    free(x)
    printed = capsys.readouterr().out
    tight = wg.jit(wg.grad(f), memory=int(free.memory.growth * 0.6))
    tight(x)
    capsys.readouterr()
    tight(x)
    assert capsys.readouterr().out == printed


def test_threads_share_a_program() -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) * 0.1
    free = wg.jit(wg.grad(chain))
    expected = free(x).numpy().tobytes()
    tight = wg.jit(wg.grad(chain), memory=int(free.memory.growth * 0.5))
    found: list[bytes] = []
    workers = [threading.Thread(target=lambda: found.extend(tight(x).numpy().tobytes() for _ in range(8)))] * 1
    workers += [threading.Thread(target=lambda: found.extend(tight(x).numpy().tobytes() for _ in range(8)))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert set(found) == {expected}
    assert len(found) == 16


def test_a_plan_on_disk_is_of_its_budget() -> None:
    graph = wg.jit(wg.grad(chain)).lower(wg.spec((40, 40))).graph
    free = compile_graph(graph)
    assert free.program.plan.is_arranged
    limits = [Limit(int(free.memory.growth * part), 2) for part in (0.6, 0.8)]
    made = [compile_graph(graph, None, None, limit) for limit in limits]
    assert [m.program.plan.arena for m in made] == sorted({m.program.plan.arena for m in made})
    for limit, fresh in zip(limits, made, strict=True):
        kept = compile_graph(graph, None, None, limit)
        assert kept.is_kept
        assert str(kept.plan) == str(fresh.plan)
        assert kept.budget == fresh.budget
    assert not compile_graph(graph, None, None, limits[0]._replace(threads=3)).is_kept


def test_the_process_grows_by_no_more(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    code = """
    import resource, sys
    import numpy as np
    import wengert as wg

    def chain(x, w):
        for _ in range(20):
            x = wg.tanh(x @ w)
        return x.sum()

    def rss():
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

    w = np.eye(8, dtype=np.float32)
    x = np.zeros((1 << 17, 8), np.float32)
    f = wg.jit(wg.grad(chain), memory=int(sys.argv[1]) or None, spill=sys.argv[2] or False)
    f.lower(wg.spec(x.shape), wg.spec(w.shape)).compile().plan
    before = rss()
    f(x, w)
    print(f.memory.growth, rss() - before)
    """
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")

    def grown(limit: int, folder: str = "") -> tuple[int, int]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(limit), folder],
            capture_output=True,
            text=True,
            check=True,
        )
        known, measured = map(int, done.stdout.split())
        return known, measured

    x_nbytes = (1 << 17) * 8 * 4
    whole, measured = grown(0)
    assert abs(whole - measured) < 0.1 * whole
    half, measured = grown(whole // 2)
    assert half <= whole // 2
    assert measured < half + 0.05 * whole
    # What goes to the file is in memory twice while it is copied.
    third, measured = grown(whole // 3, str(tmp_path))
    assert measured < third + 4 * x_nbytes


# -- files


def spilling(part: float, **options: Any) -> tuple[Any, Callable[[], list[bytes]], list[bytes]]:
    free, run = training()
    expected = run()
    step, run = training(memory=int(free.memory.growth * part), **options)
    return step, run, expected


@linux
def test_values_in_a_file_have_the_same_bits(tmp_path: Path) -> None:
    step, run, expected = spilling(0.45, spill=tmp_path)
    assert run() == expected
    found = wg.explain.memory(step)
    assert found.spilled
    assert found.growth <= (found.limit or 0)
    assert found.file >= sum(s.bytes for s in found.spilled)
    assert "in the file:" in str(found)
    assert "in the file" in found._repr_html_()
    # It has no name, so nothing has to be removed.
    assert list(tmp_path.iterdir()) == []


@linux
def test_what_loops_leave_behind_goes_to_a_file(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32) * 0.1

    def f(x: Any) -> Any:
        for _ in range(6):
            _, x = wg.scan(lambda c, row: (c + row, wg.sin(c) * row), wg.zeros(48), wg.tanh(x @ w))
        return (x**2).sum()

    x = np.random.default_rng(1).standard_normal((48, 48)).astype(np.float32)
    expected = wg.jit(wg.grad(f))(x).numpy().tobytes()
    least = []
    for spill in (False, tmp_path):
        with pytest.raises(BudgetError) as error:
            wg.jit(wg.grad(f), memory=1, spill=spill)(x)
        least.append(least_of(error))
    assert least[1] < 0.8 * least[0]
    tight = wg.jit(wg.grad(f), memory=least[1], spill=tmp_path)
    for _ in range(6):
        assert tight(x).numpy().tobytes() == expected


@linux
def test_a_plan_with_a_file_is_kept(tmp_path: Path) -> None:
    graph = wg.jit(wg.grad(chain)).lower(wg.spec((48, 48))).graph
    limit = Limit(10 * 48 * 48 * 4, 1, str(tmp_path))
    x = np.full((48, 48), 0.01, np.float32)
    fresh = compile_graph(graph, None, None, limit)
    expected = fresh.run([x])[0].tobytes()
    kept = compile_graph(graph, None, None, limit)
    assert kept.is_kept
    assert kept.run([x])[0].tobytes() == expected
    assert kept.program.plan.spill == fresh.plan.spill > 0
    assert not compile_graph(graph, None, None, limit._replace(folder="")).is_kept


@linux
def test_calls_at_once_have_files_of_their_own(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) * 0.1
    expected = wg.jit(wg.grad(chain))(x).numpy().tobytes()
    tight = wg.jit(wg.grad(chain), memory=10 * 64 * 64 * 4, spill=tmp_path)
    found: list[bytes] = []

    def work() -> None:
        found.extend(tight(x).numpy().tobytes() for _ in range(12))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == [expected] * 36
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"y" if tight(x).numpy().tobytes() == expected else b"n")
        os._exit(0)
    again = [tight(x).numpy().tobytes() for _ in range(4)]
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b"y"
    assert set(again) == {expected}


@linux
def test_a_full_disk_is_an_error_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _, run, expected = spilling(0.45, spill=tmp_path)
    spilling_files = sys.modules["wengert.execute.native.run.spilling"]
    monkeypatch.setattr(spilling_files, "_idle", [])
    with monkeypatch.context() as here:
        here.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match=r"(?s)spilling needs a file of [\d,]+ bytes in .*: No space.*spill="):
            run()
    assert run() == expected


@linux
def test_folders_that_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(wg.DTypeError, match="spill without memory="):
        wg.jit(chain, spill=True)
    with pytest.raises(wg.GraphError, match="there is no such folder"):
        wg.jit(chain, memory="1MB", spill=tmp_path / "none")
    if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK):
        with pytest.raises(wg.GraphError, match="are memory themselves"):
            wg.jit(chain, memory="1MB", spill="/dev/shm")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(wg.GraphError, match="on Linux only"):
        wg.jit(chain, memory="1MB", spill=True)


# -- activations in 8 bits


def gradients(**options: Any) -> tuple[Any, list[Any], Any]:
    wg.manual_seed(3)
    model = layers(2, 0.0)
    rng = np.random.default_rng(1)
    x, y = (wg.tensor(rng.standard_normal((4, 32, 32)).astype(np.float32)) for _ in range(2))

    @wg.jit(**options)
    def step(x: Any, y: Any) -> Any:
        for p in model.parameters():
            p.grad = None
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    loss = [step(x, y) for _ in range(6)][-1]
    return loss.item(), [p.grad.numpy().copy() for p in model.parameters()], step


def test_activations_in_8_bits_take_less_and_change_gradients_little() -> None:
    loss, full, free = gradients()
    found, small, step = gradients(activations="int8")
    # The forward pass reads the values themselves; what is fused with what may show in last bits.
    assert found == pytest.approx(loss, rel=1e-6)
    errors = [np.linalg.norm(a - b) / np.linalg.norm(a) for a, b in zip(full, small, strict=True)]
    assert 0 < max(errors) < 0.02
    assert step.memory.arena < 0.95 * free.memory.arena
    assert wg.explain.memory(step).limit is None
    assert any(b.dtype == np.int8 for s in step.plan.steps for b in s.words if not isinstance(b, int))
    # A budget on top computes the same values.
    tight = gradients(activations="int8", memory=int(step.memory.growth * 0.8))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(small, tight[1], strict=True))


def test_only_what_a_gradient_is_linear_in_is_rounded() -> None:
    # A number that was rounded to 0 would make this derivative infinite.
    def f(x: Any, w: Any) -> Any:
        y = wg.exp(x)
        return wg.log(y).sum() + (wg.sqrt(y) @ w).sum()

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) * 8 for shape in ((128, 64), (64, 64)))
    expected = wg.grad(f, argnums=(0, 1))(x, w)
    found = wg.jit(wg.grad(f, argnums=(0, 1)), activations="int8")(x, w)
    for a, b in zip(found, expected, strict=True):
        assert np.isfinite(a.numpy()).all()
        assert np.linalg.norm(a - b) < 0.01 * np.linalg.norm(b)


def test_zeros_and_what_is_not_finite_in_8_bits() -> None:
    def f(w: Any, x: Any) -> Any:
        return (wg.relu(x) @ w).sum()

    x = np.zeros((128, 64), np.float32)
    w = np.ones((64, 8), np.float32)
    step = wg.jit(wg.grad(f), activations="int8")
    assert (step(w, x).numpy() == 0).all()
    x[3, 5] = np.nan
    assert np.isnan(step(w, x).numpy()).any()


def test_other_kinds_of_activations() -> None:
    with pytest.raises(wg.DTypeError, match="activations='int4'"):
        wg.jit(chain, activations="int4")  # type: ignore[call-overload]


# -- refusal


def test_too_small_a_budget_names_the_least_and_the_line() -> None:
    def f(x: Any) -> Any:
        y = wg.tanh(x @ x)
        return (y @ y).sum()

    line = f.__code__.co_firstlineno
    with pytest.raises(BudgetError, match=r"cannot run within 1,000 bytes: it needs at least") as error:
        wg.jit(wg.grad(f), memory=1000)(wg.ones((64, 64)))
    first = str(error.value).splitlines()[0]
    assert f"{__file__}:{line + 1}" in first or f"{__file__}:{line + 2}" in first
    least = least_of(error)
    assert f"memory={least}" in str(error.value)
    again = wg.jit(wg.grad(f), memory=least)
    again(wg.ones((64, 64)))
    assert again.memory.growth == least
    for kind in (wg.GraphError, MemoryError):
        with pytest.raises(kind):
            wg.jit(wg.grad(f), memory=int(least * 0.95))(wg.ones((64, 64)))


@pytest.mark.parametrize(
    ("amount", "nbytes"),
    [(200, 200), ("200", 200), ("200MB", 200_000_000), ("1.5GiB", 3 << 29), (" 2 kib ", 2048), (".5 kB", 500)],
)
def test_amounts(amount: Any, nbytes: int) -> None:
    assert wg.jit(chain, memory=amount)._options.memory == nbytes


@pytest.mark.parametrize(
    ("amount", "kind"),
    [
        ("much", TypeError),
        ("3 bits", TypeError),
        (1.5, TypeError),
        (True, TypeError),
        (0, IndexError),
        ("-3MB", TypeError),
    ],
)
def test_what_is_no_amount(amount: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"memory=.*test_budget.py:\d+\)\nWrite a number of bytes"):
        wg.jit(chain, memory=amount)


def test_without_native_code_there_is_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wengert.execute.jit.executor.has_native", lambda: False)
    with pytest.raises(wg.GraphError, match="it runs through the interpreter"):
        wg.jit(chain, memory="1GB")(wg.ones((2, 2)))


def test_torch_compile_takes_a_budget() -> None:
    import wengert.torch as torch

    def f(x: Any) -> Any:
        for _ in range(6):
            x = torch.tanh(x @ x)
        return x.sum()

    x = torch.full((32, 32), 0.1)
    compiled = torch.compile(memory="1MB")(f)
    assert compiled(x).item() == torch.compile(f)(x).item()
    assert compiled.compiled._options.memory == 1_000_000
    for given in (f, torch.nn.Linear(32, 32)):
        # It is not run without being compiled, in more memory.
        with pytest.raises(wg.GraphError, match="cannot run within 100 bytes"):
            torch.compile(given, memory=100)(x)


# -- the parts


def blocks_of(f: Callable[..., Any], *shape: int) -> Blocks:
    made = compile_graph(wg.jit(f).lower(wg.spec(shape)).graph)
    plan = made._made.plan
    if not plan.is_arranged:
        plan.claim_outputs()
    return Blocks(plan)


def test_a_run_has_all_that_it_reads_and_no_more_than_there_is_room_for() -> None:
    blocks = blocks_of(wg.grad(chain), 32, 32)
    own = list(range(len(blocks.blocks)))
    whole = peak(blocks, own)
    for order in (own, frugal(blocks)):
        for part in (1.0, 0.7, 0.5):
            for haste in (0.0, 1.0):
                here: dict[int, None] = {}
                events = within(blocks, order, int(whole * part), haste)
                assert [e.block for e in events if not e.is_again] == order
                for event in events:
                    block = blocks.blocks[event.block]
                    assert all(v in here or v in block.writes for v in block.reads)
                    here.update(dict.fromkeys(block.writes if not event.is_again else event.fresh))
    with pytest.raises(Full):
        within(blocks, own, whole // 20, 1.0)


def test_an_order_keeps_what_comes_before_what() -> None:
    def f(x: Any) -> Any:
        return wg.value_and_grad(chain)(x)

    blocks = blocks_of(f, 32, 32)
    needs = dependencies(blocks)
    order = frugal(blocks)
    place = {b: i for i, b in enumerate(order)}
    assert sorted(order) == list(range(len(needs)))
    assert all(place[n] < place[b] for b, before in enumerate(needs) for n in before)
    assert peak(blocks, order) <= peak(blocks, sorted(order))


def test_buffers_that_live_together_do_not_overlap() -> None:
    free = wg.jit(wg.grad(chain)).lower(wg.spec((64, 64))).compile()
    made = compile_graph(free.graph, None, None, Limit(int(free.memory.growth * 0.5), 1))
    plan = made.plan
    born, dies = plan.lives()
    for a in born:
        for b in born:
            if a is not b and born[a] <= dies[b] and born[b] <= dies[a]:
                assert a.place + a.nbytes <= b.place or b.place + b.nbytes <= a.place
    assert most_in_use(born, dies) <= plan.arena
