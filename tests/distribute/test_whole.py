"""Models in parts as whole ones, and as copies: what is joined, and what is shared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.placing.sharded import Sharded

ENGINES = ["native", pytest.param("xla", marks=pytest.mark.skipif(find_spec("jax") is None, reason="it needs jax"))]
PLANS = ["pipeline", "fsdp"]


class Net(nn.Module):
    """Layers with buffers, and a tensor that is no parameter, in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.scales = [wg.full(4, 0.5)]

    def forward(self, x: Any) -> Any:
        return self.layers(x) * self.scales[0]


def trained(plan: str) -> tuple[Net, Any, Callable[[Any], Any], Callable[[Any], Any]]:
    """A model after two steps, its optimiser, the step, and an evaluation on the mesh."""
    wg.manual_seed(0)
    model = Net()
    options: dict[str, Any] = {"mesh": dist.Mesh(pipe=2), "in_specs": (None,), "pipeline": dist.Pipeline("pipe", 2)}
    if plan == "fsdp":
        options = {"mesh": dist.Mesh(data=2), "in_specs": ("data",)}
        dist.shard(model, options["mesh"], fsdp="data")
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

    def evaluated(x: Any) -> Any:
        with wg.no_grad():
            return model(x)

    train = dist.jit(small_networks.training(model, optimizer), **options)
    for _ in range(2):
        train(wg.randn(8, 4))
    return model, optimizer, train, dist.jit(evaluated, **options)


def parts(x: Any) -> bool:
    return any(isinstance(t._array, Sharded) for t in wg.tree.leaves(x) if isinstance(t, wg.Tensor))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("plan", PLANS)
def test_a_trained_model_is_evaluated_on_the_mesh_and_whole(plan: str, engine: str) -> None:
    x = wg.randn(8, 4)
    with wg.engine(engine):
        model, _, train, evaluate = trained(plan)
        for _ in range(3):
            model.eval()
            np.testing.assert_allclose(evaluate(x).numpy(), dist.whole(model)(x).detach().numpy(), rtol=1e-5, atol=1e-6)
            model.train()
            train(x)


@pytest.mark.parametrize("plan", PLANS)
def test_what_is_joined_has_tensors_of_its_own(plan: str) -> None:
    """Parameters that are frozen, buffers that all ranks have, tensors in lists: writes to them reach nobody else."""
    model, _, _, _ = trained(plan)
    model.layers[2].weight.requires_grad_(False)
    before = {name: x.numpy().copy() for name, x in dist.whole(model.state_dict()).items()}
    joined = dist.whole(model)
    assert not parts([*joined.parameters(), *joined.buffers()])
    assert not joined.layers[2].weight.requires_grad
    assert joined.layers[0].weight.requires_grad
    assert all(p.grad is None for p in joined.parameters())
    joined.train()(wg.randn(8, 4))
    joined.scales[0].fill_(7.0)
    with wg.no_grad():
        for p in joined.parameters():
            p.fill_(3.0)
    assert model.scales[0].tolist() == [0.5] * 4
    for name, x in dist.whole(model.state_dict()).items():
        np.testing.assert_array_equal(x.numpy(), before[name], err_msg=name)


@pytest.mark.parametrize("plan", PLANS)
def test_models_inside_of_pytrees(plan: str) -> None:
    model, optimizer, _, _ = trained(plan)
    x = wg.randn(2, 4)
    expected = dist.whole(model).eval()(x).detach().numpy()
    for tree, of in (
        ([model], lambda t: t[0]),
        ({"net": model, "n": 1}, lambda t: t["net"]),
        ((model, optimizer.state_dict()), lambda t: t[0]),
    ):
        found = dist.whole(tree)
        np.testing.assert_allclose(of(found).eval()(x).detach().numpy(), expected, rtol=1e-6)
    one, other = dist.whole([model, model])
    assert one is other
    with pytest.raises(wg.GraphError, match=r"whole of Adam, an optimiser.*\n.*optimizer.state_dict\(\)"):
        dist.whole({"optimizer": optimizer})


@pytest.mark.parametrize("plan", PLANS)
def test_copies_stay_in_parts(plan: str) -> None:
    """The best weights, kept while training goes on, and put back."""
    model, optimizer, train, evaluate = trained(plan)
    model.eval()
    x = wg.randn(8, 4)
    kept, state = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    weights = copy.deepcopy(model.state_dict())
    before = evaluate(x).numpy()
    assert parts(list(kept.parameters()))
    following = [float(train(x)) for _ in range(3)]
    assert abs(evaluate(x).numpy() - before).max() > 1e-3
    np.testing.assert_allclose(dist.whole(kept)(x).detach().numpy(), before, rtol=1e-5, atol=1e-6)
    model.load_state_dict(weights)
    optimizer.load_state_dict(state)
    np.testing.assert_allclose(evaluate(x).numpy(), before, rtol=1e-6)
    np.testing.assert_allclose([float(train(x)) for _ in range(3)], following, rtol=1e-6)


def _averaged(e: Any, p: Any) -> None:
    e.mul_(0.9).add_(p * 0.1)


AVERAGES: dict[str, Callable[[Any, Any], Any]] = {
    "in place": _averaged,
    "with a factor": lambda e, p: e.mul_(0.9).add_(p, alpha=0.1),
    "between": lambda e, p: e.lerp_(p, 0.1),
    "from a result": lambda e, p: e.copy_(0.9 * e + np.float32(0.1) * p),
    "with a whole array": lambda e, p: e.sub_(wg.full(e.shape, 0.1) * (e - p)),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("average", AVERAGES)
def test_averages_of_weights_outside_of_steps(plan: str, average: str) -> None:
    """Every element is local: each rank computes with its parts, and steps go on with the results."""
    model, _, train, _ = trained(plan)
    x = wg.randn(8, 4)
    ema = copy.deepcopy(model)
    before = [p.detach().numpy() for p in dist.whole(ema).parameters()]
    train(x)
    with wg.no_grad():
        for e, p in zip(ema.parameters(), model.parameters(), strict=True):
            AVERAGES[average](e, p)
    assert [type(e._array) for e in ema.parameters()] == [type(p._array) for p in model.parameters()]
    for start, e, p in zip(before, dist.whole(ema).parameters(), dist.whole(model).parameters(), strict=True):
        np.testing.assert_allclose(e.detach().numpy(), 0.9 * start + 0.1 * p.detach().numpy(), rtol=1e-5, atol=1e-7)
