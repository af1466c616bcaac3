"""Optimisers of a program's own, compiled: groups, state and losses are what eager steps leave there."""

from __future__ import annotations

import copy
import math
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg
import wengert.torch as torch

STEPS = 7


class Counts(torch.optim.Optimizer):
    """Counts its steps in the group, and makes its state at the first one."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["m"] = torch.zeros_like(p)
                state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.add_(state["m"], alpha=-group["lr"] / (1 - 0.9 ** group["step"]))


class CountsItself(torch.optim.Optimizer):
    """Counts its steps in an attribute that the first one makes."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.made = getattr(self, "made", 0) + 1
        for p in self.param_groups[0]["params"]:
            p.sub_(p.grad, alpha=self.param_groups[0]["lr"] / self.made)


class Measures(torch.optim.Optimizer):
    """Reads a norm, which native code rounds otherwise than the trace did."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "gamma": 1.0, "step": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["step"] += 1
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"] * group["gamma"] / (1 + group["step"]))
                group["gamma"] = math.sqrt(p.norm(-2))


class Replaces(torch.optim.Optimizer):
    """Puts a new tensor into its state at each step."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})
        for p in self.param_groups[0]["params"]:
            self.state[p]["m"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            self.state[p]["m"] = 0.9 * self.state[p]["m"] + p.grad
            p.sub_(self.state[p]["m"], alpha=0.1)


class Averages(torch.optim.SGD):
    """Extends a rule of the library by averages of the parameters."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, lr=0.1, momentum=0.9)
        for p in self.param_groups[0]["params"]:
            self.state[p]["average"] = p.detach().clone()

    def step(self, closure: Any = None) -> None:
        super().step()
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                self.state[p]["average"] = 0.5 * self.state[p]["average"] + 0.5 * p


class Holds(torch.optim.Optimizer):
    """Has options and state that are containers."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "weights": {"m": 0.9, "g": [0.5, 1.0]}, "last": deque([1.0], 3)})
        for p in self.param_groups[0]["params"]:
            self.state[p]["kept"] = {"m": torch.zeros_like(p), "scales": (1.0, 0.5)}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        group = self.param_groups[0]
        for p in group["params"]:
            kept = self.state[p]["kept"]
            kept["m"].mul_(group["weights"]["m"]).add_(p.grad, alpha=group["weights"]["g"][1] * kept["scales"][1])
            p.sub_(kept["m"], alpha=group["lr"] * group["last"][-1])


class Wraps(torch.optim.Optimizer):
    """Hands on to another optimiser, as public wrappers do: without the base's `__init__`."""

    def __init__(self, params: Any) -> None:
        self.inner = torch.optim.SGD(params, lr=0.1, momentum=0.9)
        self.param_groups, self.state, self.defaults = self.inner.param_groups, {}, self.inner.defaults
        self.slow = [p.detach().clone() for p in self.param_groups[0]["params"]]
        self.steps = 0

    def step(self, closure: Any = None) -> Any:
        found = self.inner.step(closure)
        self.steps += 1
        with torch.no_grad():
            for slow, p in zip(self.slow, self.param_groups[0]["params"], strict=True):
                slow.add_(p - slow, alpha=0.5)
                if self.steps % 3 == 0:
                    p.copy_(slow)
        return found

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.inner.zero_grad(set_to_none)


class Turns(torch.optim.Optimizer):
    """Takes turns and slices by a whole number that changes."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1, "turns": 1, "large": 2**70})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        group = self.param_groups[0]
        for p in group["params"]:
            for i in range(group["turns"]):
                p.sub_(p.grad, alpha=group["lr"] / (i + 1))
            p[: group["turns"] % 2 + 1] *= 0.9
        group["turns"] = 1 + group["turns"] % 3
        group["large"] += 1


KINDS = [Counts, CountsItself, Measures, Replaces, Averages, Holds, Wraps, Turns]
WAYS: dict[str, Callable[[Any], Any]] = {
    "wg.jit": wg.jit,
    "torch.compile": torch.compile,
    "within a budget": lambda f: wg.jit(f, memory=1 << 20),
    "on a mesh": lambda f: wg.distribute.jit(f, mesh=wg.distribute.Mesh(data=2), in_specs=(None,)),
    "xla": lambda f: wg.jit(f, engine="xla"),
}


def plain(value: Any) -> Any:
    """Return what an optimiser holds, in numbers."""
    if isinstance(value, wg.Tensor):
        return value.detach().tolist()
    if isinstance(value, dict):
        return {k if isinstance(k, str) else i: plain(v) for i, (k, v) in enumerate(value.items())}
    return [plain(v) for v in value] if isinstance(value, (list, tuple, deque)) else value


def training_step(w: Any, optimizer: Any) -> Callable[[Any], Any]:
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (w * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def trained(kind: Any, way: Callable[[Any], Any], before: int) -> tuple[Any, ...]:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    optimizer = kind([w])
    step = training_step(w, optimizer)
    compiled = way(step)
    x = torch.ones(2, dtype=torch.float64)
    losses = [(step if i < before else compiled)(x).item() for i in range(STEPS)]
    counts = [getattr(optimizer, name, None) for name in ("made", "steps")]
    return (
        losses,
        plain(optimizer.param_groups),
        plain(optimizer.state),
        counts,
        plain(getattr(optimizer, "slow", None)),
    )


@pytest.mark.parametrize("before", [0, 1], ids=["at once", "after a step"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_steps_leave_what_eager_ones_do(kind: Any, way: str, before: int) -> None:
    if way == "xla":
        pytest.importorskip("jax", reason="the engine needs jax")
    expected = trained(kind, lambda f: f, 0)
    if kind is Counts and way != "torch.compile" and not before:
        with pytest.raises(
            wg.GraphError, match="the first step of Counts in a compiled function, which makes its state"
        ):
            trained(kind, WAYS[way], 0)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of programs that are made anew in every call
        found = trained(kind, WAYS[way], before)
    for got, want in zip(found, expected, strict=True):
        assert_close(got, want)


def assert_close(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert list(got) == list(want)
        for name in want:
            assert_close(got[name], want[name])
    elif isinstance(want, list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert_close(a, b)
    else:
        assert got == (pytest.approx(want, rel=1e-12, abs=1e-14) if isinstance(want, float) else want)


def test_a_step_that_makes_its_state_is_compiled_from_the_second_on() -> None:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    class Makes(Replaces):
        def step(self, closure: Any = None) -> None:
            for p in self.param_groups[0]["params"]:
                self.state[p].setdefault("m", torch.zeros_like(p))
            super().step()

    optimizer = Makes([w])
    optimizer.state.clear()
    steps = training_step(w, optimizer)

    compiled = torch.compile(steps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            compiled(torch.ones(2))
    assert not compiled.eager
    assert compiled.cache_info().programs == 1
    eager = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    step = training_step(eager, Replaces([eager]))
    for _ in range(4):
        step(torch.ones(2))
    assert w.tolist() == pytest.approx(eager.tolist())


USES: dict[str, Callable[[int], float]] = {
    "turns": lambda k: sum(range(k)),
    "a key": lambda k: {1: 0.5, 2: 0.25, 3: 2.0}[k],
    "a set": lambda k: len({k, 1}),
    "its class": lambda k: 1.0 if isinstance(k, int) else 5.0,
    "a text": lambda k: len(f"{k:0{k}d}"),
    "a size": lambda k: torch.zeros(k).shape[0],
}


@pytest.mark.parametrize("way", ["wg.jit", "torch.compile"])
@pytest.mark.parametrize("use", USES)
def test_a_whole_number_in_a_group_is_one_whatever_is_done_with_it(use: str, way: str) -> None:
    class Uses(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1, "k": 1})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            group = self.param_groups[0]
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"] * USES[use](group["k"]))
            group["k"] = group["k"] % 3 + 1

    expected = trained(Uses, lambda f: f, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trained(Uses, WAYS[way], 0)
    for got, want in zip(found, expected, strict=True):
        assert_close(got, want)


def test_what_is_traced_in_each_call_goes_on_eagerly() -> None:
    count = [0]

    def grows(x: Any) -> Any:
        count[0] += 1
        return x * sum(range(count[0]))

    compiled = torch.compile(grows)
    with pytest.warns(UserWarning, match="traced in each of 8 calls"), pytest.warns(RuntimeWarning, match="4 times"):
        found = [compiled(torch.ones(2))[0].item() for _ in range(14)]
    assert found == [sum(range(n)) for n in range(1, 15)]
    assert count == [14]
    assert compiled.eager
    sizes = torch.compile(lambda x: x * 2)
    for n in range(1, 15):
        assert sizes(torch.ones(n)).tolist() == [2.0] * n
    assert not sizes.eager


def test_state_that_is_made_in_every_step_is_not_traced_for_ever() -> None:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    class Grows(Replaces):
        def step(self, closure: Any = None) -> None:
            super().step()
            self.state[w][f"kept {len(self.state[w])}"] = w.detach().clone()

    compiled = torch.compile(training_step(w, Grows([w])))
    with pytest.warns(UserWarning, match="runs eagerly: the first step of Grows"):
        losses = [compiled(torch.ones(2)).item() for _ in range(10)]
    assert compiled.eager
    eager = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    step = training_step(eager, Replaces([eager]))
    assert losses == pytest.approx([step(torch.ones(2)).item() for _ in range(10)])


def test_a_step_that_is_refused_leaves_everything_as_it_was() -> None:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = Counts([w])
    step = training_step(w, optimizer)

    with pytest.raises(wg.GraphError):
        wg.jit(step)(torch.ones(2))
    assert "step" not in optimizer.param_groups[0]
    assert w not in optimizer.state
    assert w.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("needs", ["item", "numpy", "tolist", "copy", "mask"])
def test_what_a_compiled_module_has_counted_is_counted_once(needs: str) -> None:
    """`torch.compile` goes on eagerly where a value is needed: the call that showed it begins anew."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.log, self.mean = 0, [], torch.zeros(2)

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.log.append(self.calls)
            self.mean = 0.5 * self.mean + x
            uses = {
                "item": lambda: x.sum().item(),
                "numpy": lambda: x.numpy().sum(),
                "tolist": lambda: sum(x.tolist()),
                "copy": lambda: copy.deepcopy(x).sum().item(),
                "mask": lambda: x[x > 0].sum().item(),
            }
            return x * uses[needs]() * self.calls

    net = Net()
    compiled = torch.compile(net)
    with pytest.warns(UserWarning, match="runs eagerly"):
        found = [compiled(torch.ones(2))[0].item() for _ in range(3)]
    assert found == [2.0, 4.0, 6.0]
    assert (net.calls, net.log, net.mean.tolist()) == (3, [1, 2, 3], [1.75, 1.75])


def test_a_number_gives_way_to_no_tensor_with_a_history() -> None:
    class Scales(torch.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1, "scale": 1.0})

        def step(self, closure: Any = None) -> None:
            group = self.param_groups[0]
            for p in group["params"]:
                group["scale"] = (p * 0.1).norm() * group["scale"]
                p.data.sub_(p.grad, alpha=0.1)

    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = Scales([w])

    def step() -> None:
        (w * w).sum().backward()
        optimizer.step()

    with pytest.raises(wg.GraphError, match="which carries gradients, in the place of a number"):
        wg.jit(step)()
    assert optimizer.param_groups[0]["scale"] == 1.0


def test_state_that_belongs_to_no_parameter_is_saved() -> None:
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = Replaces([w])
    optimizer.state["calls"] = torch.tensor([3])
    saved = copy.deepcopy(optimizer.state_dict())
    assert saved["state"]["calls"].tolist() == [3]
    other = Replaces([w])
    other.load_state_dict(saved)
    assert other.state["calls"].tolist() == [3]
