"""The problems by PyTorch: eager with leaf tensors and fused optimisers, and compiled as whole functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from library import Library, Program
from problem import STEPS, Arrays, Data, Problem, Rule
from torch.nn import functional as F


class Torch(Library):
    """Eager."""

    fns = torch

    def array(self, value: np.ndarray) -> Any:
        return torch.tensor(value)

    def host(self, value: Any) -> np.ndarray:
        return value.detach().numpy().copy()

    def images(self, value: np.ndarray) -> Any:
        return torch.tensor(value).contiguous(memory_format=torch.channels_last)

    filters = images

    def relu(self, x: Any) -> Any:
        return torch.relu(x)

    def sigmoid(self, x: Any) -> Any:
        return torch.sigmoid(x)

    def softplus(self, x: Any) -> Any:
        return F.softplus(x)

    def gelu(self, x: Any) -> Any:
        return F.gelu(x)

    def softmax(self, x: Any) -> Any:
        return torch.softmax(x, -1)

    def logsumexp(self, x: Any, axis: int) -> Any:
        return torch.logsumexp(x, axis)

    def layer_norm(self, x: Any, gain: Any, bias: Any = None) -> Any:
        return F.layer_norm(x, gain.shape, gain, bias)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def self_attention(self, qkv: Any, heads: int) -> Any:
        n, length, width = qkv.shape
        q, k, v = (a.reshape(n, length, heads, -1).transpose(1, 2) for a in qkv.split(width // 3, -1))
        return self.attention(q, k, v).transpose(1, 2).reshape(n, length, width // 3)

    def conv(self, x: Any, w: Any, stride: int = 1, padding: int = 0) -> Any:
        return F.conv2d(x, w, stride=stride, padding=padding)

    def max_pool(self, x: Any) -> Any:
        return F.max_pool2d(x, 2)

    def lstm(self, x: Any, wi: Any, wh: Any, b: Any) -> Any:
        zeros = x.new_zeros(1, x.shape[1], wh.shape[0])
        weights = [wi.T, wh.T, b, torch.zeros_like(b)]
        return torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, True, False, False)[0]

    def scan(self, fn: Callable[..., Any], carry: Any, xs: Any) -> Any:
        rows = []
        for x in xs:
            carry, y = fn(carry, x)
            rows.append(y)
        return carry, torch.stack(rows)

    def grad(self, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def gradient(x: Any) -> Any:
            x = x.detach().requires_grad_()
            return torch.autograd.grad(fn(x), x)[0]

        return gradient

    def hvp(self, fn: Callable[[Any], Any], x: Any, v: Any) -> Any:
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(fn(x), x, create_graph=True)
        return torch.autograd.grad(g, x, v)[0]

    def along(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any, Any]:
        x = x.detach().requires_grad_()
        y = fn(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        dy = (g * direction).sum(-1, keepdim=True)
        (h,) = torch.autograd.grad(dy.sum(), x, create_graph=True)
        return y, dy, (h * direction).sum(-1, keepdim=True)

    def row_jacobian(self, fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        x = x.detach().requires_grad_()
        y = fn(x)
        rows = [torch.autograd.grad(y[:, i].sum(), x, retain_graph=True)[0] for i in range(y.shape[1])]
        return y.detach(), torch.stack(rows, 1)

    def compile(self, fn: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
        return fn

    def value_and_grad(self, fn: Callable[..., Any], which: tuple[int, ...]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            leaves = [a.detach().requires_grad_() if i in which else a for i, a in enumerate(args)]
            value = fn(*leaves)
            return value.detach(), torch.autograd.grad(value, [leaves[i] for i in which])

        return run

    def trainer(self, problem: Problem, data: Data, loss: Callable[..., Any]) -> Program:
        rule = problem.rule
        assert rule is not None
        batches = self.batches(data)
        params = {k: v.requires_grad_() for k, v in self.placed(data["params"]).items()}
        now: dict[str, Any] = {}

        def reset() -> None:
            with torch.no_grad():
                for k, v in self.placed(data["params"]).items():
                    params[k].copy_(v)
            now.update(stats=self.placed(data["stats"]), steps=0, optimizer=_optimizer(rule, params))

        def step() -> Any:
            batch = batches[now["steps"] % len(batches)]
            now["steps"] += 1
            value, stats = loss(params, now["stats"], *batch)
            now["stats"] = {k: v.detach() for k, v in stats.items()}
            now["optimizer"].zero_grad()
            value.backward()
            now["optimizer"].step()
            return value.detach()

        def results() -> Arrays:
            reset()
            losses = np.array([float(step()) for _ in range(STEPS)])
            return {"losses": losses, **self.fetched({**params, **now["stats"]})}

        reset()
        return Program(step, results, reset=reset)


def _optimizer(rule: Rule, params: dict[str, Any]) -> Any:
    if rule.betas is None:
        return torch.optim.SGD(params.values(), lr=rule.lr, momentum=rule.momentum, fused=True)
    groups = [
        {"params": [p for p in params.values() if p.ndim == 2], "weight_decay": rule.decay},
        {"params": [p for p in params.values() if p.ndim != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=rule.lr, betas=rule.betas, eps=rule.eps, fused=True)


class CompiledTorch(Torch):
    """Through `torch.compile`: the whole step in one graph, derivatives by `torch.func`, updates in place."""

    def lstm(self, x: Any, wi: Any, wh: Any, b: Any) -> Any:
        width = wh.shape[0]
        h = c = x.new_zeros(x.shape[1], width)
        rows = []
        for inputs in (x @ wi + b).unbind(0):
            i, f, g, o = (inputs + h @ wh).split(width, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            rows.append(h)
        return torch.stack(rows)

    def grad(self, fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return torch.func.grad(fn)

    def hvp(self, fn: Callable[[Any], Any], x: Any, v: Any) -> Any:
        return torch.func.jvp(torch.func.grad(fn), (x,), (v,))[1]

    def along(self, fn: Callable[[Any], Any], x: Any, direction: Any) -> tuple[Any, Any, Any]:
        jvp = torch.func.jvp
        (y, dy), (_, ddy) = jvp(lambda x: jvp(fn, (x,), (direction,)), (x,), (direction,))
        return y, dy, ddy

    def row_jacobian(self, fn: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        y, pull = torch.func.vjp(fn, x)
        columns = torch.eye(y.shape[1], dtype=y.dtype)
        rows = [pull(column.expand(y.shape))[0] for column in columns]
        return y, torch.stack(rows, 1)

    def compile(self, fn: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
        return torch.compile(fn, dynamic=False, fullgraph=True)

    def value_and_grad(self, fn: Callable[..., Any], which: tuple[int, ...]) -> Callable[..., Any]:
        run = self.compile(torch.func.grad_and_value(fn, which))

        def swapped(*args: Any) -> Any:
            grads, value = run(*args)
            return value, grads

        return swapped

    def trainer(self, problem: Problem, data: Data, loss: Callable[..., Any]) -> Program:
        rule = problem.rule
        assert rule is not None
        batches = self.batches(data)
        gradient = torch.func.grad_and_value(loss, has_aux=True)
        params, stats = self.placed(data["params"]), self.placed(data["stats"])
        first = {k: torch.zeros_like(v) for k, v in params.items()}
        second = {k: torch.zeros_like(v) for k, v in params.items()}
        count = torch.zeros(())
        now = {"steps": 0}

        def update(params: Any, stats: Any, first: Any, second: Any, count: Any, *batch: Any) -> Any:
            grads, (value, fresh) = gradient(params, stats, *batch)
            for k, v in fresh.items():
                stats[k].copy_(v)
            count.add_(1)
            for k, p in params.items():
                follow(rule, p, grads[k], first[k], second[k], count)
            return value

        run = self.compile(update)

        def reset() -> None:
            for kept, start in ((params, data["params"]), (stats, data["stats"])):
                for k, v in self.placed(start).items():
                    kept[k].copy_(v)
            for tensor in (*first.values(), *second.values(), count):
                tensor.zero_()
            now["steps"] = 0

        def step() -> Any:
            batch = batches[now["steps"] % len(batches)]
            now["steps"] += 1
            return run(params, stats, first, second, count, *batch)

        def results() -> Arrays:
            reset()
            losses = np.array([float(step()) for _ in range(STEPS)])
            return {"losses": losses, **self.fetched({**params, **stats})}

        return Program(step, results, reset=reset)


def follow(rule: Rule, p: Any, grad: Any, first: Any, second: Any, count: Any) -> None:
    """One parameter's update, in place."""
    if rule.betas:
        b1, b2 = rule.betas
        if rule.decay and p.ndim == 2:
            p.mul_(1 - rule.lr * rule.decay)
        first.lerp_(grad, 1 - b1)
        second.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        p.sub_(rule.lr / (1 - b1**count) * first / ((second / (1 - b2**count)).sqrt() + rule.eps))
    elif rule.momentum:
        first.mul_(rule.momentum).add_(grad)
        p.sub_(rule.lr * first)
    else:
        p.sub_(rule.lr * grad)
