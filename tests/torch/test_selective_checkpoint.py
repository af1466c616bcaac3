"""Selective checkpointing with PyTorch's names: what a policy keeps is not computed again."""

import contextlib
import functools
from typing import Any

import pytest

import wengert.torch as torch
from wengert.core.ops.op import TABLE
from wengert.torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def _body(x: Any) -> Any:
    return ((x @ x + 1.0).exp().sin() * x).sum()


def _contexts(policy: Any) -> Any:
    return functools.partial(create_selective_checkpoint_contexts, policy)


def _slope(context_fn: Any) -> tuple[Any, int]:
    """Return a gradient, and how often the backward pass computes an exponential."""
    x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
    out = checkpoint(_body, x, use_reentrant=False, context_fn=context_fn)
    op = TABLE["exp"]
    calls, forward = 0, op.forward

    def counting(*args: Any, **attrs: Any) -> Any:
        nonlocal calls
        calls += 1
        return forward(*args, **attrs)

    op.forward = counting
    try:
        out.backward()
    finally:
        op.forward = forward
    return x.grad.tolist(), calls


def _plain() -> Any:
    x = torch.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
    _body(x).backward()
    return x.grad.tolist()


def test_what_a_list_of_operators_names_is_kept() -> None:
    aten, wanted = torch.ops.aten, _plain()
    for operators, calls in (([], 1), ([aten.exp.default], 0), ([aten.sin.default], 1), ([aten.sin, aten.exp], 0)):
        assert _slope(_contexts(operators)) == (wanted, calls)


@pytest.mark.parametrize(
    "said", [True, False, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_RECOMPUTE]
)
def test_a_function_says_of_each_operator_whether_it_is_kept(said: Any) -> None:
    asked: list[Any] = []

    def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append((op, [tuple(a.shape) for a in args]))
        assert not ctx.is_recompute
        return said if op is torch.ops.aten.exp.default else CheckpointPolicy.PREFER_RECOMPUTE

    _, again = _slope(_contexts(policy))
    assert again == (said in (False, CheckpointPolicy.MUST_RECOMPUTE))
    assert (torch.ops.aten.mm.default, [(2, 2), (2, 2)]) in asked
    assert torch.ops.aten.mul.Tensor in [op for op, _ in asked]


def test_operators_of_a_programs_own() -> None:
    @torch.library.custom_op("selective::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_autograd(lambda ctx, g: g * 2)
    asked: list[Any] = []

    def policy(ctx: Any, op: Any, *args: Any) -> bool:
        asked.append(op)
        return op is torch.ops.selective.doubled

    x = torch.ones(2, requires_grad=True)
    checkpoint(lambda v: doubled(v).exp().sum(), x, use_reentrant=False, context_fn=_contexts(policy)).backward()
    assert x.grad.tolist() == (2 * (2 * torch.ones(2)).exp()).tolist()
    assert torch.ops.selective.doubled in asked


def test_layers_are_what_pytorch_calls_them() -> None:
    asked: list[Any] = []

    def policy(ctx: Any, op: Any, *args: Any) -> bool:
        asked.append(op)
        return False

    net = torch.nn.Sequential(
        torch.nn.Conv1d(2, 2, 1), torch.nn.Flatten(), torch.nn.Linear(6, 2), torch.nn.LayerNorm(2)
    )
    checkpoint(net, torch.ones(1, 2, 3), use_reentrant=False, context_fn=_contexts(policy)).sum().backward()
    for name in ("convolution", "addmm", "native_layer_norm"):
        assert getattr(torch.ops.aten, name).default in asked


def test_a_context_around_the_function() -> None:
    entered: list[str] = []

    class Noted(contextlib.AbstractContextManager):  # type: ignore[type-arg]
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *exc: object) -> None:
            entered.append("out")

    slope, again = _slope(lambda: (Noted(), contextlib.nullcontext()))
    assert entered == ["in", "out"]
    assert (slope, again) == _slope(_contexts([]))


def test_what_is_refused() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="computed again"):
        checkpoint(torch.exp, x, use_reentrant=False, context_fn=lambda: (contextlib.nullcontext(), torch.no_grad()))
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        checkpoint(torch.exp, x, use_reentrant=True, context_fn=_contexts([]))
    with pytest.raises(ValueError, match="OpOverload"):
        create_selective_checkpoint_contexts([2])
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(2)
    with pytest.raises(RuntimeError, match="OFFLOAD"):
        _slope(_contexts(lambda ctx, op, *args: CheckpointPolicy.MUST_CPU_OFFLOAD))
