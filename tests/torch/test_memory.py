"""Memory has an owner: tensors that share it are known to each other, a write costs what it writes, nothing is lost."""

from __future__ import annotations

import copy
import gc
import pickle
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
import wengert.torch as torch
from wengert.core import storage
from wengert.core.storage import window_of

CALLS = 6
MILLION = 10**6


# -- nobody is looked for, so nothing hides a view


def test_rows_follow_with_the_collector_frozen() -> None:
    for make in (lambda: torch.zeros(3, 3), lambda: wnp.zeros((3, 3))):
        w = make()
        rows = [w[i] for i in range(3)]
        gc.freeze()
        try:
            w += 1
            w[1] = 7
        finally:
            gc.unfreeze()
        assert [row.tolist() for row in rows] == [[1.0] * 3, [7.0] * 3, [1.0] * 3]


def test_views_of_a_parameter_follow_a_step_with_the_collector_frozen() -> None:
    p = torch.nn.Parameter(torch.ones(4))
    named, detached = p.data[:2], p.detach()[2:]
    p.grad = torch.ones(4)
    optimizer = torch.optim.SGD([p], lr=1.0)
    gc.freeze()
    try:
        optimizer.step()
    finally:
        gc.unfreeze()
    assert named.tolist() == detached.tolist() == [0.0, 0.0]


def test_weak_references_of_a_program_hide_no_view() -> None:
    x = torch.zeros(4)
    a = x[:2]
    held = [weakref.ref(x), weakref.ref(x)]
    x[0] = 1.0
    held.pop()
    b = x[1:3]
    gc.collect()
    x[1] = 5.0
    assert (a.tolist(), b.tolist()) == ([1.0, 5.0], [5.0, 0.0])


# -- a write costs what it writes


def allocated(write: Callable[[], Any]) -> int:
    """Return the bytes that the second of two writes takes at most."""
    write()
    tracemalloc.start()
    try:
        write()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("views", [0, 50])
@pytest.mark.parametrize("namespace", [torch, wnp, wg], ids=["torch", "numpy", "wengert"])
def test_an_element_is_written_where_it_is(namespace: Any, views: int) -> None:
    x = namespace.zeros(MILLION)
    if namespace is not wg:
        held = [x[i : i + 5] for i in range(views)]

    def write() -> None:
        x[7] = 1.0

    assert allocated(write) < 20_000
    assert namespace is wg or all(part.tolist() == x[i : i + 5].tolist() for i, part in enumerate(held))


@pytest.mark.parametrize("name", ["fill_", "add_", "mul_", "zero_", "copy_", "+="])
def test_a_small_view_is_written_where_it_is(name: str) -> None:
    x = torch.ones(MILLION)
    view = x[10:15]

    def write() -> None:
        nonlocal view
        if name == "+=":
            view += 1.0
        elif name == "zero_":
            view.zero_()
        elif name == "copy_":
            view.copy_(torch.arange(5.0))
        else:
            getattr(view, name)(2.0)

    assert allocated(write) < 20_000
    assert x[10:15].tolist() == view.tolist()


def test_a_recurrence_in_place_costs_what_it_reads_and_writes() -> None:
    x = torch.zeros(MILLION)
    x[0] = 1.0

    def step() -> None:
        for i in range(1, 10):
            x[i] = x[i - 1] * 0.5

    assert allocated(step) < 40_000
    assert x[9].item() == 0.5**9


def test_what_was_kept_stays_as_it_was() -> None:
    x = torch.zeros(6)
    x[0] = 1.0
    w = torch.ones(6, requires_grad=True)
    kept = [(x * w).sum(), x.clone(), np.asarray(x), x.tolist()]
    product = x * w
    view = x[:3]
    for i in range(4):
        x[i] = 5.0
        view.add_(1.0)
    assert np.asarray(kept[2]).tolist() == kept[1].tolist() == kept[3] == [1.0, 0, 0, 0, 0, 0]
    product.sum().backward()
    assert w.grad.tolist() == [1.0, 0, 0, 0, 0, 0]


# -- compiled steps


def test_a_compiled_step_meets_a_view_whose_owner_is_gone() -> None:
    p = torch.nn.Parameter(torch.ones(4))
    v = p.detach()[:2]

    @wg.jit
    def step() -> Any:
        v.mul_(2.0)
        return v.sum()

    assert [step().item() for _ in range(CALLS)] == [2.0 * 2 ** (i + 1) for i in range(CALLS)]
    assert p.tolist() == [64.0, 64.0, 1.0, 1.0]


@pytest.mark.parametrize("compiled", [wg.jit, torch.compile], ids=["jit", "compile"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_place_known_at_run_time_is_an_ordinary_update(compiled: Any, kept: bool) -> None:
    def f(b: Any, k: Any, x: float) -> Any:
        old = b[k]
        b[k] = old * 0.5 + x
        return old * 2 if kept else b.sum()

    eager, fast = torch.arange(5.0), torch.arange(5.0)
    step = compiled(f)
    for i in range(CALLS):
        k = torch.tensor(i % 5)
        assert f(eager, k, 1.0).item() == step(fast, k, 1.0).item()
        assert eager.tolist() == fast.tolist()


def test_a_view_at_a_place_known_at_run_time_is_written() -> None:
    @wg.jit
    def f(b: Any, k: Any) -> Any:
        row = b[k]
        row.mul_(10.0)
        return b.sum()

    b = torch.ones(3, 2)
    for i in range(CALLS):
        f(b, torch.tensor(i % 3))
    assert b.tolist() == [[100.0, 100.0]] * 3


@pytest.mark.parametrize("how", ["reshape", "flatten", "ravel", "contiguous"])
@pytest.mark.parametrize("kind", ["whole", "turned", "rows"])
def test_the_layout_of_an_argument_decides_what_is_a_copy(how: str, kind: str) -> None:
    make = {
        "whole": lambda: torch.arange(6.0).reshape(2, 3),
        "turned": lambda: torch.arange(6.0).reshape(2, 3).T,
        "rows": lambda: torch.arange(12.0).reshape(6, 2)[::2],
    }
    for order in (list(make), list(make)[::-1]):  # one program meets all layouts, in two orders
        step = torch.compile(lambda c: (c.reshape(-1) if how == "reshape" else getattr(c, how)()).mul_(2))
        for name in order:
            x, y = make[name](), make[name]()
            (y.reshape(-1) if how == "reshape" else getattr(y, how)()).mul_(2)
            step(x)
            if name == kind:
                assert x.tolist() == y.tolist()


def test_a_result_given_twice_is_one_tensor() -> None:
    @wg.jit
    def f(a: Any) -> Any:
        v = a * 2
        return v, [v, a + 1]

    for _ in range(CALLS):
        first, (second, _) = f(torch.arange(3.0))
        assert first is second
        first.add_(10)
        assert second.tolist() == [10.0, 12.0, 14.0]


def test_parts_of_one_result_share_its_memory() -> None:
    f = torch.compile(lambda a: ((a * 2)[1:], (a * 3).unbind(0), (lambda v: (v[1:], v[:2]))(a * 4)))
    for _ in range(CALLS):
        _, rows, (p, q) = f(torch.arange(3.0))
        p.add_(10)
        assert (p.tolist(), q.tolist()) == ([14.0, 18.0], [0.0, 14.0])
        assert [row.item() for row in rows] == [0.0, 3.0, 6.0]


@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_parts_of_complex_numbers_are_written(part: str, shape: tuple[int, ...]) -> None:
    def f(z: Any) -> Any:
        getattr(z, part).mul_(2.0)
        torch.view_as_real(z)[..., 0].add_(1.0)
        return z * 1

    fast = torch.compile(f)
    z = torch.full(shape, 1 + 2j)
    w = torch.full(shape, 1 + 2j)
    for _ in range(CALLS):
        assert f(z).tolist() == fast(w).tolist()
        assert z.tolist() == w.tolist()


# -- gradients


def test_a_kept_gradient_is_that_of_the_newest_value() -> None:
    for write in (
        lambda y: y.mul_(3),
        lambda y: y.copy_(y * 3),
        lambda y: y[:].mul_(3),
        lambda y: y.clamp_(0, 1e3).mul_(3),
    ):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.retain_grad()
        write(y)
        (y**2).sum().backward()
        assert y.grad.tolist() == [12.0, 24.0]
        assert x.grad.tolist() == [72.0, 144.0]


def test_what_carries_gradients_is_written_to_a_view_whose_owner_is_gone() -> None:
    w = torch.tensor(3.0, requires_grad=True)
    a, b = torch.zeros(4).split(2)
    a.add_(w)
    b.mul_(w)
    ((a**2).sum() + b.sum()).backward()
    assert a.tolist() == [3.0, 3.0]
    assert w.grad.item() == 12.0


def test_state_loads_into_itself() -> None:
    class Held(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.rand(10))

    module = Held()
    before = module.w.tolist()
    module.load_state_dict(module.state_dict())
    assert module.w.tolist() == before


# -- copies and NumPy's arrays


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("namespace", [torch, wnp], ids=["torch", "numpy"])
def test_copies_share_memory_as_the_originals_do(namespace: Any, again: Callable[[Any], Any]) -> None:
    base = namespace.zeros((2, 3))
    pair = again([base, base[1], base.T])
    pair[1][0] = 5.0
    assert pair[0].tolist() == [[0, 0, 0], [5, 0, 0]]
    assert pair[2].tolist() == [[0, 5], [0, 0], [0, 0]]
    assert base.tolist() == [[0, 0, 0]] * 2
    lone = again(base[1])
    lone[0] = 9.0
    assert base.tolist() == [[0, 0, 0]] * 2


def test_a_copied_parameter_has_memory_of_its_own() -> None:
    """PyTorch clones a parameter alone, and copies other tensors with all that they share memory with."""
    p, base = torch.nn.Parameter(torch.ones(3)), torch.ones(2, 3)
    q, view, rows, row, buffer = copy.deepcopy(
        (p, p.detach()[1:], base, torch.nn.Parameter(base[0]), torch.nn.Buffer(base[1]))
    )
    with torch.no_grad():
        q.mul_(2.0)
        rows.mul_(3.0)
    assert isinstance(q, torch.nn.Parameter)
    assert q.requires_grad
    assert view.tolist() == [1.0, 1.0]
    assert row.tolist() == [1.0] * 3
    assert buffer.tolist() == [3.0] * 3


def test_an_array_is_the_memory_of_a_tensor() -> None:
    a = np.zeros((2, 3), np.float32)
    x = torch.from_numpy(a)
    x[0] = 1.0
    a[1] = 2.0
    view = x[:, 1]
    view.add_(10.0)
    assert a.tolist() == x.tolist() == [[1, 11, 1], [2, 12, 2]]
    assert view.tolist() == [11.0, 12.0]
    kept, w = x.clone(), torch.ones(2, 3, requires_grad=True)
    product = x * w
    a[...] = 0.0
    product.sum().backward()
    assert w.grad.tolist() == kept.tolist()
    assert torch.frombuffer(bytearray(b"\x01\x02"), dtype=torch.uint8).tolist() == [1, 2]


def test_numpy_gives_the_memory() -> None:
    x = torch.zeros(3)
    shown, again = x.numpy(), x.numpy()
    shown[0] = 3.0
    x[1] = 4.0
    x.add_(1.0)
    assert shown.tolist() == again.tolist() == x.tolist() == [4.0, 5.0, 1.0]
    part = shown[1:]
    del shown, again
    x[2] = 7.0
    assert part.tolist() == [5.0, 7.0]
    del part
    before = x.tolist()
    kept = x * 1.0
    x.zero_()
    assert kept.tolist() == before


def test_a_compiled_step_reads_and_writes_memory_of_numpys() -> None:
    a = np.ones(4, np.float32)
    x = torch.from_numpy(a)

    @torch.compile
    def step(x: Any) -> Any:
        total = (x * 2).sum()
        x.add_(1.0)
        return total

    for i in range(CALLS):
        assert step(x).item() == 8.0 * (i + 1)
        assert a.tolist() == [float(i + 2)] * 4


def test_the_bits_of_a_tensor_follow_it() -> None:
    x = torch.tensor([1.0, 2.0])
    bits = x.view(torch.int32)
    x.mul_(2)
    assert bits.tolist() == np.array([2.0, 4.0], np.float32).view(np.int32).tolist()
    bits[0] = 0
    assert x.tolist() == [0.0, 4.0]


# -- transforms of functions that write to their arguments


@pytest.mark.parametrize("compiled", [False, True])
def test_vmap_writes_to_its_arguments(compiled: bool) -> None:
    def write(a: Any) -> Any:
        a[:1].mul_(3.0)
        return a.sum()

    for options, shape in (({}, (3, 2)), ({"in_dims": 1}, (2, 3)), ({"chunk_size": 2}, (3, 2))):
        run: Any = torch.func.vmap(write, **options)
        run = torch.compile(run) if compiled else run
        x = torch.ones(*shape)
        for i in range(CALLS):
            assert run(x).tolist() == [3.0 ** (i + 1) + 1] * 3
        written = [[3.0**CALLS, 1.0]] * 3
        assert x.tolist() == (np.array(written).T.tolist() if "in_dims" in options else written)
    with pytest.raises(wg.WriteError, match="an argument that all examples share"):
        torch.func.vmap(lambda a, b: b.add_(a), in_dims=(0, None))(torch.ones(3), torch.ones(()))


def test_derivatives_forward_write_to_their_arguments() -> None:
    x = torch.ones(3)
    value, tangent = torch.func.jvp(lambda a: a.mul_(2), (x,), (torch.ones(3),))
    assert x.tolist() == value.tolist() == tangent.tolist() == [2.0, 2.0, 2.0]
    y = torch.ones(2)
    assert torch.func.jacfwd(lambda a: a.mul_(2))(y).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert y.tolist() == [2.0, 2.0]


def test_a_value_of_an_expanded_tensor_is_its_own() -> None:
    wide = wnp.broadcast_to(wnp.array(1.0), (2, 2))
    for made in (wide.astype(np.float64), wide.clone(), wnp.asarray(wide).astype("f8"), torch.ones(1).expand(2, 2) * 1):
        view = made[0]
        made[0, 0] = 5.0
        view[1] = 7.0
        assert made.tolist() == [[5.0, 7.0], [1.0, 1.0]]
    with pytest.raises(wg.WriteError, match="in which elements share memory"):
        wide[0, 0] = 5.0


@pytest.mark.parametrize("name", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_every_dtype_is_shared_and_copied(name: str) -> None:
    x = torch.ones(2, 3, dtype=getattr(torch, name))
    view = x.T[1:]
    array = x.numpy()
    assert array.dtype == np.asarray(x).dtype
    array[0, 1] = 0
    assert view[0, 0].item() == 0
    y, part = pickle.loads(pickle.dumps([x, view]))
    part[0, 0] = 1
    assert y.tolist() == torch.ones_like(x).tolist()
    assert torch.from_numpy(array).dtype == x.dtype


def test_data_lies_in_the_memory_of_what_it_is_given():
    flat, array = torch.zeros(6), np.ones((2, 2), "float32")
    p, b = torch.nn.Parameter(torch.ones(2, 2)), torch.ones(2)
    old = p.data
    p.data, b.data = flat[:4].view(2, 2), flat[4:]
    with torch.no_grad():
        p.add_(1)
    b[1] = 7
    assert flat.tolist() == [1, 1, 1, 1, 0, 7]
    flat.fill_(5)
    assert p.tolist() == [[5, 5], [5, 5]]
    assert b.tolist() == [5, 5]
    assert old.tolist() == [[1, 1], [1, 1]]
    (p * p).sum().backward()
    torch.optim.SGD([p], lr=0.1).step()
    assert flat.tolist() == [4, 4, 4, 4, 5, 5]
    step = torch.compile(lambda: p.data.mul_(2))
    for n in range(1, 7):
        step()
        assert flat.tolist() == [4 * 2.0**n] * 4 + [5, 5]
    p.data = torch.from_numpy(array)
    array[0, 1] = 3
    with torch.no_grad():
        p[1, 1] = 9
    assert p.tolist() == array.tolist() == [[1, 3], [1, 9]]
    assert flat.tolist() == [256] * 4 + [5, 5]
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    second.weight.data = first.weight.data
    with torch.no_grad():
        first.weight.fill_(3)
    assert second.weight.tolist() == [[3, 3], [3, 3]]
    values = torch.arange(6.0)
    torch.nn.utils.vector_to_parameters(values, first.parameters())
    values.zero_()
    assert first.weight.tolist() == [[0, 0], [0, 0]]
    assert second.weight.tolist() == [[3, 3], [3, 3]]
    p.data = torch.ones(1).expand(2, 2)  # elements that share bytes: values of its own
    with torch.no_grad():
        p[0, 0] = 2
    assert p.tolist() == [[2, 1], [1, 1]]


def test_memory_that_is_kept_for_too_long_is_poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `WENGERT_POISON=1` is for: an array that was lent for one read holds no number after a write."""
    x = torch.zeros(4)
    view = x[1:]
    x[0] = 1.0
    kept = window_of(x)
    x[1] = 2.0
    assert kept.tolist() == [1.0, 2.0, 0.0, 0.0]
    monkeypatch.setattr(storage, "_POISONS", True)
    x[2] = 3.0
    assert np.isnan(kept).all()
    assert x.tolist() == [1.0, 2.0, 3.0, 0.0]
    assert view.tolist() == [2.0, 3.0, 0.0]


def _data_of_a_given_one(x: Any, w: Any) -> Any:
    w.data = x
    return w.sum()


def _data_of_a_computed_one(x: Any, w: Any) -> Any:
    y = x * 2
    w.data = y
    y.add_(1)
    return w.sum()


def _data_of_a_part(x: Any, w: Any) -> Any:
    y = x * 2
    w.data = y[:]
    y.mul_(3)
    return w.sum()


def _data_written_through(x: Any, w: Any) -> Any:
    y = x * 2
    w.data = y
    w.data.add_(1)
    return y


@pytest.mark.filterwarnings("ignore:torch.compile")
@pytest.mark.parametrize(
    "step", [_data_of_a_given_one, _data_of_a_computed_one, _data_of_a_part, _data_written_through]
)
def test_data_shares_memory_in_compiled_functions_too(step: Any) -> None:
    left = []
    for run in (step, torch.compile(step)):
        w = torch.nn.Parameter(torch.zeros(3))
        for call in range(CALLS):
            x = torch.full((3,), float(call))
            out = run(x, w)
            x.add_(10.0)
        left.append((out.tolist(), w.tolist()))
    assert left[0] == left[1]


def test_data_of_what_is_given_is_refused_by_jit() -> None:
    w = torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(wg.TraceError, match=r"x\.data = v for \(3,\) float32, where v is given.*test_memory\.py:\d+"):
        wg.jit(_data_of_a_given_one)(torch.ones(3), w)
    assert w.tolist() == [0.0] * 3


@pytest.mark.parametrize(
    "flat",
    [
        lambda a: a.T.ravel(),
        lambda a: a.T.reshape(-1),
        lambda a: a[::-1].reshape(-1),
        lambda a: a[:, ::2].ravel(),
        lambda a: np.reshape(a.T, (6,)) if type(a) is np.ndarray else wnp.reshape(a.T, (6,)),
        lambda a: a.reshape(-1, order="F"),
        lambda a: a[:1].reshape(-1),  # a view
        lambda a: a.T[:, :1].T.ravel(),  # another
    ],
)
def test_a_reshape_that_has_to_copy_does_so_when_compiled(flat: Any) -> None:
    """Not a view that writes go through: NumPy copies a transposed array's elements."""

    def write(x: Any) -> Any:
        y = x * 1.0
        part = flat(y)
        part += 100.0
        return y.sum() + 2.0 * part.sum()

    a = np.arange(6.0).reshape(2, 3)
    expected = write(a)
    x = wnp.array(a)
    compiled = wg.jit(write)
    for _ in range(CALLS):
        assert float(compiled(x)) == expected
    assert float(write(x)) == expected
    slope = wg.grad(write)(x)
    np.testing.assert_array_equal(np.asarray(wg.jit(wg.grad(write))(x)), np.asarray(slope))
