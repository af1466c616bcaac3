"""Modules in parts: what each process keeps, what computes with it, and what is refused."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.placing.sharded import Sharded

MESH = dist.Mesh(data=2)


def network() -> nn.Module:
    wg.manual_seed(0)
    return small_networks.chain(4, 8, 4)


def trainer(model: nn.Module, mesh: Any = MESH, **options: Any) -> tuple[Any, Any]:
    """A step and its optimiser; without a mesh, of one process."""
    optimizer = wg.optim.Adam(model.parameters(), lr=0.05)

    step = small_networks.training(model, optimizer)

    made = wg.jit(step) if mesh is None else dist.jit(step, mesh=mesh, in_specs=("data",), **options)
    return made, optimizer


def batch(i: int) -> Any:
    return wg.tensor(np.random.default_rng(i).normal(size=(8, 4)).astype(np.float32))


def arrays(model: nn.Module) -> dict[str, Any]:
    return {name: p.detach().numpy() for name, p in model.named_parameters()}


def test_parameters_gradients_and_state_stay_in_parts() -> None:
    model = dist.shard(network(), MESH, fsdp="data")
    step, optimizer = trainer(model)
    alone = network()
    step_alone, optimizer_alone = trainer(alone, None)
    for i in range(6):
        np.testing.assert_allclose(float(step(batch(i))), float(step_alone(batch(i))), rtol=1e-5)
        for p in model.parameters():
            state = optimizer.state[p]
            for value in (p._array, p.grad._array, *(state[k] for k in state if k != "step")):
                assert isinstance(value, Sharded)
                assert value.spec.shape == p.shape
                assert value.parts[0].size * 2 == p.size
    whole = dist.whole(model)
    assert whole is not model
    for name, value in arrays(alone).items():
        np.testing.assert_allclose(arrays(whole)[name], value, rtol=1e-4, atol=1e-6)
    own, other = (dist.whole(o.state_dict())["state"] for o in (optimizer, optimizer_alone))
    for number, state in other.items():
        for key, value in state.items():
            np.testing.assert_allclose(own[number][key], value, rtol=1e-3, atol=1e-7)
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(dist.whole(p.grad).numpy(), q.grad.numpy(), rtol=1e-3, atol=1e-6)


def test_zero_keeps_gradients_and_state_in_parts() -> None:
    model = network()
    step, optimizer = trainer(model, zero="data")
    for i in range(6):
        step(batch(i))
    for p in model.parameters():
        assert type(p._array) is np.ndarray
        state = optimizer.state[p]
        assert all(isinstance(v, Sharded) for v in (p.grad._array, state["exp_avg"], state["exp_avg_sq"]))
    moved = {n.op.name for n in step.partitions[-1].graph.nodes if "over" in n.attrs}
    assert moved == {"reduce_scatter", "all_gather", "all_reduce", "own_part"}  # the loss alone is all_reduced
    assert np.isfinite(model(batch(0)).detach().numpy()).all()
    model.zero_grad()
    (model(batch(0)) ** 2).mean().backward()
    with pytest.raises(wg.DTypeError, match="in parts over the ranks"):
        optimizer.step()  # eager: it would need the state whole


def parted() -> Any:
    return dist.shard(network(), MESH, fsdp="data")[0].weight


USES: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda p: wg.ones(3, 4) @ p.T,
    "sum": lambda p: p.sum(),
    "slice": lambda p: p[0],
    "reshape": lambda p: p.reshape(-1),
    "concat": lambda p: wg.concat([p, wg.ones(8, 4)]),
    "einsum": lambda p: wg.einsum("ij->j", p),
    "softmax": lambda p: wg.softmax(p),
    "where": lambda p: wg.where(p > 0, p, 0.0),
    "numpy": lambda p: p.detach().numpy(),
    "data": lambda p: p.data.tolist(),
    "asarray": lambda p: np.asarray(p.detach()),
    "numpy reduction": lambda p: np.mean(p.detach()),
    "item": lambda p: p[0, 0].item(),
    "bool": lambda p: bool(p.any()),
    "iteration": lambda p: list(p),
    "cast": lambda p: p.astype(wg.float64),
    "write": lambda p: p.requires_grad_(False).__setitem__(0, 1.0),
    "pickle": pickle.dumps,
    "grad": lambda p: wg.grad(lambda q: (q**2).sum())(p),
    "jit": lambda p: wg.jit(lambda q: q * 2)(p),
    "captured": lambda p: wg.jit(lambda: p * 2)(),
    "recorded": lambda p: wg.graph(lambda q: q @ q.T)(p)(p),
}


@pytest.mark.parametrize("use", USES)
def test_a_value_in_parts_is_no_value(use: str) -> None:
    with pytest.raises(wg.DTypeError, match=r"in parts over the ranks of Mesh\(data=2\)") as caught:
        USES[use](parted())
    first = str(caught.value).splitlines()[0]
    assert "0.weight" in first
    assert os.path.basename(__file__) in first
    assert "whole" in str(caught.value)


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "add": lambda p: p + 1,
    "radd": lambda p: 1.0 + p,
    "between": lambda p: p * p,
    "of a whole row": lambda p: p * wg.arange(4, dtype=wg.float32),
    "numpy function": lambda p: np.sin(p),
    "equality": lambda p: p == p,
    "comparison": lambda p: p > 0,
    "in place": lambda p: p.detach().clone().add_(1.0),
    "positive": lambda p: +p,
    "vmap": lambda p: wg.vmap(lambda q: q * 2)(p),
}


@pytest.mark.parametrize("use", ELEMENTWISE)
def test_elements_of_values_in_parts_are_computed_where_they_are(use: str) -> None:
    p = parted().detach()
    whole = dist.whole(p)
    found, expected = ELEMENTWISE[use](p), ELEMENTWISE[use](whole)
    assert isinstance(found._array, Sharded)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found._array.placement == p._array.placement
    assert not any(a is b for a, b in zip(found._array.parts.values(), p._array.parts.values(), strict=True))
    np.testing.assert_array_equal(dist.whole(found).numpy(), expected.numpy())
    np.testing.assert_array_equal(dist.whole(p).numpy(), whole.numpy())


def test_averages_of_weights_begin_as_clones_in_the_same_parts() -> None:
    model = dist.shard(network(), MESH, fsdp="data")
    average = {name: p.detach().clone() for name, p in model.named_parameters()}
    before = {name: dist.whole(p).detach().tolist() for name, p in model.named_parameters()}

    @dist.jit(mesh=MESH, in_specs=("data",))
    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        model.zero_grad()
        loss.backward()
        with wg.no_grad():
            for name, p in model.named_parameters():
                p -= 0.1 * p.grad
                average[name].mul_(0.9).add_(p, alpha=0.1)
        return loss

    assert not any(kept.requires_grad for kept in average.values())
    step(batch(0))
    for name, p in model.named_parameters():
        expected = 0.9 * np.array(before[name]) + 0.1 * np.array(dist.whole(p).detach().tolist())
        np.testing.assert_allclose(dist.whole(average[name]).numpy(), expected, rtol=1e-5, atol=1e-7)
        assert dist.whole(p).detach().tolist() != before[name]


def test_what_it_answers() -> None:
    p = parted()
    assert (p.shape, p.dtype, p.size, p.requires_grad) == ((8, 4), wg.float32, 32, True)
    assert "Sharded(f32[8,4], PartitionSpec('data'))" in repr(p)
    assert "Sharded" in str(p)
    assert "in_features=4" in str(dist.shard(network(), MESH, fsdp="data"))
    assert dist.whole(p).requires_grad
    assert type(dist.whole(p)) is type(p)


def test_a_module_in_parts_is_refused_where_it_is_called() -> None:
    model = dist.shard(network(), MESH, fsdp="data")
    with pytest.raises(wg.DTypeError, match=r"of 0.weight, f32\[8,4\], which is in parts"):
        model(batch(0))
    with pytest.raises(wg.DTypeError, match="in parts"):
        wg.jit(model)(batch(0))
    expected = network()(batch(0)).detach().numpy()
    np.testing.assert_array_equal(dist.whole(model)(batch(0)).detach().numpy(), expected)


def test_a_function_that_was_compiled_before() -> None:
    model = network()
    forward = wg.jit(lambda x: model(x))
    for _ in range(6):
        expected = forward(batch(0)).detach().numpy()
    dist.shard(model, MESH, fsdp="data")
    for _ in range(2):
        with pytest.raises(wg.DTypeError, match="in parts"):
            forward(batch(0))
    dist.shard(model, MESH)  # whole again
    np.testing.assert_array_equal(forward(batch(0)).detach().numpy(), expected)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_decision_on_a_parameter_in_parts(sign: float) -> None:
    """While it is traced a step decides by whole values, afterwards by what its program computes of the parts."""
    model = dist.shard(network(), MESH, fsdp="data")

    def step(x: Any) -> Any:
        scale = 2.0 if sign * model[0].weight.sum() > 0 else 1.0
        return (model(x) * scale).sum()

    on_mesh, whole = dist.jit(step, mesh=MESH, in_specs=("data",)), dist.whole(model)
    scale = 2.0 if sign * float(whole[0].weight.sum()) > 0 else 1.0
    for i in range(3):
        np.testing.assert_allclose(float(on_mesh(batch(i))), scale * float(whole(batch(i)).sum()), rtol=1e-6)


def test_what_is_assigned_is_cut() -> None:
    model = dist.shard(network(), MESH, fsdp="data")
    step, optimizer = trainer(model)
    step(batch(0))
    saved = {k: dist.whole(v) for k, v in model.state_dict().items()}
    saved_state = dist.whole(optimizer.state_dict())
    losses = [float(step(batch(i))) for i in range(1, 4)]
    model.load_state_dict(saved)
    optimizer.load_state_dict(saved_state)
    assert isinstance(model[0].weight._array, Sharded)
    assert isinstance(optimizer.state[model[0].weight]["exp_avg"], Sharded)
    assert [float(step(batch(i))) for i in range(1, 4)] == losses
    with wg.no_grad():
        model[0].weight.copy_(wg.ones(8, 4))
    assert isinstance(model[0].weight._array, Sharded)
    np.testing.assert_array_equal(dist.whole(model[0].weight.detach()).numpy(), np.ones((8, 4)))
    # In parts it is taken too, as it is.
    model.load_state_dict(model.state_dict())
    optimizer.load_state_dict(optimizer.state_dict())
    assert np.isfinite(float(step(batch(4))))


def test_what_a_step_returns_is_whole() -> None:
    """But for a parameter: it is that very one, as in one process, and stays in parts."""
    model = dist.shard(network(), MESH, fsdp="data")
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, model[0].weight, model[0].weight.grad, model[2].weight * 1.0

    made = dist.jit(step, mesh=MESH, in_specs=("data",))
    for i in range(6):
        _, weight, gradient, other = made(batch(i))
        assert weight is model[0].weight
        assert isinstance(weight._array, Sharded)
        assert np.isfinite(dist.whole(weight).detach().numpy()).all()
        assert np.abs(gradient.numpy()).sum() > 0
        np.testing.assert_array_equal(other.detach().numpy(), dist.whole(model[2].weight).detach().numpy())


def test_other_steps_on_the_mesh_compute_with_parts() -> None:
    model = dist.shard(network(), MESH, fsdp="data")
    step, _ = trainer(model)
    evaluate = dist.jit(lambda x: model(x).sum(), mesh=MESH, in_specs=("data",))
    for i in range(6):
        step(batch(i))
        expected = dist.whole(model)(batch(i)).sum()
        np.testing.assert_allclose(float(evaluate(batch(i))), float(expected), rtol=1e-4)
    f = dist.partition(lambda w, x: (x @ w.T).sum(), MESH, ("data", "data"), gather="data")
    expected = (batch(0) @ dist.whole(model[0].weight).T).sum()
    np.testing.assert_allclose(float(f(model[0].weight.detach(), batch(0))), float(expected), rtol=1e-4)


def test_another_mesh_is_told() -> None:
    model = dist.shard(network(), MESH, fsdp="data")
    other = dist.Mesh(data=4)
    step, optimizer = trainer(model, other)
    with pytest.raises(wg.GraphError, match=r"0.weight, f32.*, is in parts over the ranks of Mesh\(data=2\)"):
        step(batch(0))
    dist.shard(model, other, fsdp="data")
    optimizer.load_state_dict(dist.whole(optimizer.state_dict()))
    assert np.isfinite(float(step(batch(0))))
    assert model[0].weight._array.parts[3].shape == (2, 4)


def test_gradients_that_accumulate_stay_in_parts() -> None:
    def accumulate(model: nn.Module, mesh: Any) -> list[float]:
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

        def add(x: Any) -> Any:
            loss = (model(x) ** 2).mean()
            loss.backward()
            return loss

        def update() -> None:
            optimizer.step()
            optimizer.zero_grad()

        if mesh is None:
            add, update = wg.jit(add), wg.jit(update)
        else:
            add = dist.jit(add, mesh=mesh, in_specs=("data",))
            update = dist.jit(update, mesh=mesh, in_specs=())
        found = []
        for i in range(6):
            found.append(float(add(batch(i))))
            if mesh is not None:
                assert isinstance(model[0].weight.grad._array, Sharded)
            if i % 2:
                update()
        return found

    alone = accumulate(network(), None)
    np.testing.assert_allclose(accumulate(dist.shard(network(), MESH, fsdp="data"), MESH), alone, rtol=1e-5)


def test_each_rank_of_a_job_keeps_its_part_alone() -> None:
    """Ranks as simulated threads have processes' view: one part each."""

    def work() -> Any:
        model = dist.shard(network(), MESH, fsdp="data")
        return {name: p._array.parts for name, p in model.named_parameters()}

    for rank, found in enumerate(dist.simulate(MESH).run(work)):
        for name, value in arrays(network()).items():
            assert list(found[name]) == [rank]
            n = len(value) // 2
            np.testing.assert_array_equal(found[name][rank], value[rank * n : (rank + 1) * n])
