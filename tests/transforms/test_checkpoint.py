"""Checkpointing: the same derivatives, bit for bit, with less kept."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import Tensor
from wengert.core.node import Hooked, Recomputed
from wengert.transforms.derivatives.reverse import reachable

RNG = np.random.default_rng(0)
X = wg.tensor(RNG.normal(size=(4, 3)))
W = wg.tensor(RNG.normal(size=(3, 3)))
policies = wg.checkpoint_policies


def same(a: Any, b: Any) -> None:
    left, right = wg.tree.flatten(a), wg.tree.flatten(b)
    assert left[1] == right[1]
    for x, y in zip(left[0], right[0], strict=True):
        np.testing.assert_array_equal(np.asarray(x.detach()), np.asarray(y.detach()))


def block(x: Tensor, w: Tensor) -> Tensor:
    h = wg.tanh(x @ w + 1.0)
    h = wg.where(h > 0.2, wg.exp(h) * x, wg.softmax(h, axis=-1))
    return h / (1.0 + (h * h).sum(axis=-1, keepdims=True)) + x[::-1] * h.mean()


def chain(c: Callable[[Any], Any]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, w: (c(block)(wg.sin(c(block)(x, w)), w) ** 2).sum()


def saved_of(out: Tensor) -> list[Any]:
    return [n.saved.saved if type(n.saved) is Hooked else n.saved for n in reachable([out.node])]


def recomputed(out: Tensor) -> int:
    return sum(isinstance(s, Recomputed) for s in saved_of(out))


def hvp(f: Any) -> Any:
    return wg.jvp(lambda x: wg.grad(f)(x, W), (X,), (X * 0.5,))[1]


MODES: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f(X, W),
    "grad": lambda f: wg.grad(f, argnums=(0, 1))(X, W),
    "jvp": lambda f: wg.jvp(f, (X, W), (X * 0.5, W)),
    "vjp twice": lambda f: [wg.vjp(f, X, W)[1](wg.tensor(k, dtype=wg.float64)) for k in (1.0, 2.0)],
    "second": lambda f: wg.grad(lambda x: wg.grad(f)(x, W).sum())(X),
    "forward over reverse": hvp,
    "reverse over forward": lambda f: wg.grad(lambda x: wg.jvp(lambda z: f(z, W), (x,), (x,))[1])(X),
    "traced": lambda f: wg.graph(wg.grad(f))(X, W)(X, W),
    "vmap": lambda f: wg.vmap(wg.grad(lambda x: f(x, W)))(wg.stack([X, X * 2.0])),
    "of vmap": lambda f: wg.grad(lambda x: wg.vmap(lambda r: f(r, W))(x).sum())(wg.stack([X, X * 2.0])),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "nothing": wg.checkpoint,
    "everything": lambda f: wg.checkpoint(f, policy=policies.everything_saveable),
    "products": lambda f: wg.checkpoint(f, policy=policies.save_ops("matmul")),
    "several ops": lambda f: wg.checkpoint(f, policy=policies.save_ops("exp", "sum", "index", "add")),
    "bytes": lambda f: wg.checkpoint(f, policy=policies.save_bytes(200)),
    "all by rule": lambda f: wg.checkpoint(f, policy=lambda node: True),
    "nested": lambda f: wg.checkpoint(lambda x, w: wg.checkpoint(f)(wg.checkpoint(wg.cos)(x), w)),
    "nested thrice": lambda f: wg.checkpoint(lambda x, w: wg.checkpoint(lambda a: wg.checkpoint(f)(wg.cos(a), w))(x)),
}


def plain_way(name: str) -> Callable[[Any], Any]:
    if name.startswith("nested"):
        return lambda f: lambda x, w: f(wg.cos(x), w)
    return lambda f: f


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_every_mode_is_the_same_bit_for_bit(way: str, mode: str) -> None:
    run = MODES[mode]
    same(run(chain(WAYS[way])), run(chain(plain_way(way))))


def leaf(x: Tensor) -> Tensor:
    return x.detach().clone().requires_grad_()


def test_values_are_let_go_and_computed_again() -> None:
    x, w = leaf(X), leaf(W)
    out = wg.checkpoint(block)(x, w).sum()
    assert recomputed(out) > 5
    assert recomputed(block(x, w).sum()) == 0
    assert recomputed(wg.checkpoint(block, policy=policies.everything_saveable)(x, w)) == 0
    with wg.no_grad():
        assert not wg.checkpoint(block)(x, w).requires_grad


def test_passes_one_after_another() -> None:
    x, w = leaf(X), leaf(W)
    (expected,) = wg.autograd.grad(block(x, w).sum(), x)
    out = wg.checkpoint(block)(x, w).sum()
    same(wg.autograd.grad(out, x, retain_graph=True)[0], expected)
    same(wg.autograd.grad(out, x)[0], expected)
    with pytest.raises(wg.GradientError, match="second time"):
        wg.autograd.grad(out, x)


def counted(name: str, run: Callable[[], Any]) -> int:
    """How often an op's forward runs."""
    op = wg.core.ops.op.TABLE[name]
    calls, forward = 0, op.forward

    def counting(*args: Any, **attrs: Any) -> Any:
        nonlocal calls
        calls += 1
        return forward(*args, **attrs)

    op.forward = counting
    try:
        run()
    finally:
        op.forward = forward
    return calls


def test_a_pass_computes_a_part_once_more() -> None:
    x, w = leaf(X), leaf(W)
    out = wg.checkpoint(lambda x, w: (x @ w).exp().sin().cos())(x, w).sum()
    backward = counted("matmul", lambda: wg.autograd.grad(out, x, retain_graph=True))
    assert backward == 2  # itself again, and its transpose
    assert counted("matmul", lambda: wg.autograd.grad(out, x)) == 2


def test_policies_keep_what_they_say() -> None:
    x, w = leaf(X), leaf(W)

    def f(x: Tensor, w: Tensor) -> Tensor:
        return ((x @ w) + 1.0).exp().sin()

    def again(policy: Any, name: str) -> int:
        out = wg.checkpoint(f, policy=policy)(x, w).sum()
        return counted(name, lambda: wg.autograd.grad(out, x))

    # The sum with 1 follows from the product, and exp's result from that; nobody saved the product itself.
    assert again(policies.save_ops("matmul"), "matmul") == again(None, "matmul") - 1
    assert again(policies.save_ops("exp"), "exp") == again(None, "exp") - 1
    assert again(policies.save_bytes(1e9), "exp") == again(None, "exp") - 1
    assert again(policies.save_bytes(10), "exp") == again(None, "exp")
    assert again(lambda node: node.op.name == "exp", "exp") == again(None, "exp") - 1


def test_named_values_are_kept() -> None:
    def f(x: Tensor) -> Tensor:
        return wg.sin(wg.checkpoint_name(wg.exp(x), "a")).cos()

    x = leaf(X)
    for policy, calls in ((policies.save_names("a"), 0), (policies.save_names("b"), 1), (None, 1)):
        out = wg.checkpoint(f, policy=policy)(x).sum()
        assert counted("exp", lambda out=out: wg.autograd.grad(out, x)) == calls


def test_what_save_bytes_keeps_stays_below_its_limit() -> None:
    x, w = leaf(X), leaf(W)
    out = block(x, w)
    nodes = [n for n in reachable([out.node]) if n.op.kind != "leaf"]
    for limit in (0, 100, 300, 1000):
        chosen = policies.save_bytes(limit).select(nodes)
        assert sum(int(np.prod(n.spec.shape)) * 8 for n in chosen) <= limit
    assert "matmul" in {n.op.name for n in policies.save_bytes(400).select(nodes)}


# -- memory


def memory(run: Callable[[], Tensor]) -> tuple[int, int]:
    """What lives between forward and backward, and the most that lives in the backward pass."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        loss = run()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        loss.backward()
        return held, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


def test_a_deep_chain_in_segments_holds_far_less() -> None:
    weights = [wg.tensor(RNG.normal(size=(8, 8)) * 0.3, requires_grad=True) for _ in range(100)]
    x = wg.tensor(RNG.normal(size=(2000, 8)))
    layers = [lambda h, w=w: wg.tanh(wg.nn.functional.gelu(h @ w)) for w in weights]

    def loss(segments: int) -> Tensor:
        return (wg.checkpoint_sequential(layers, segments, x) ** 2).sum()

    def gradients(segments: int) -> list[Any]:
        return list(wg.autograd.grad(loss(segments), weights))

    expected = gradients(1)
    for segments in (2, 10, 100):
        same(gradients(segments), expected)
    held, peak = memory(lambda: loss(1))
    held_10, peak_10 = memory(lambda: loss(10))
    one = x.nbytes
    assert held > 190 * one
    assert held_10 < 40 * one
    assert peak_10 < 50 * one < peak


def test_nested_checkpoints_hold_less_still() -> None:
    x = wg.tensor(RNG.normal(size=(20000,)), requires_grad=True)

    def steps(n: int) -> Callable[[Tensor], Tensor]:
        def run(h: Tensor) -> Tensor:
            for _ in range(n):
                h = wg.sin(h * 1.01)
            return h

        return run

    def flat(h: Tensor) -> Tensor:
        for _ in range(4):
            h = wg.checkpoint(steps(32))(h)
        return h.sum()

    def nested(h: Tensor) -> Tensor:
        def inner(v: Tensor) -> Tensor:
            for _ in range(4):
                v = wg.checkpoint(steps(8))(v)
            return v

        for _ in range(4):
            h = wg.checkpoint(inner)(h)
        return h.sum()

    same(wg.grad(nested)(x), wg.grad(flat)(x))
    one = x.nbytes
    held, peak = memory(lambda: nested(x))
    assert memory(lambda: flat(x))[1] > 36 * one
    assert held < 5 * one  # the outer ones' arguments
    assert peak < 20 * one


def test_nothing_stays_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf(X)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            wg.checkpoint(lambda v: wg.sin(wg.exp(v + wg.zeros(2000, 4, 3))))(x)  # no backward pass
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()
        gc.enable()


# -- what programs do


def test_random_numbers_are_the_same() -> None:
    def f(x: Tensor) -> Tensor:
        return wg.exp(wg.nn.functional.dropout(wg.sin(x), 0.5, training=True)) * wg.randn(4, 3, dtype=wg.float64)

    x = leaf(X)
    found = []
    for c in (lambda f: f, wg.checkpoint):
        wg.manual_seed(3)
        out = c(f)(x).sum()
        state = wg.random.get_rng_state().tolist()
        found.append((out, wg.autograd.grad(out, x)[0]))
        assert wg.random.get_rng_state().tolist() == state
    same(found[0], found[1])


def test_modules_and_training() -> None:
    def train(c: Callable[[Any], Any]) -> list[Any]:
        wg.manual_seed(1)
        model = wg.nn.Sequential(
            wg.nn.Linear(3, 8), wg.nn.LayerNorm(8), wg.nn.GELU(), wg.nn.Dropout(0.3), wg.nn.Linear(8, 2)
        )
        optimizer = wg.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            (c(model)(X.astype(wg.float32)) ** 2).sum().backward()
            optimizer.step()
        return list(model.parameters())

    same(train(wg.checkpoint), train(lambda m: m))


def test_a_parameter_that_is_changed_before_the_pass() -> None:
    w = leaf(W)
    x = leaf(X)
    out = wg.checkpoint(lambda v: wg.exp(v @ w))(x).sum()
    (expected,) = wg.autograd.grad(wg.exp(x @ w).sum(), x)
    with wg.no_grad():
        w.assign_(w * 5.0)
    same(wg.autograd.grad(out, x)[0], expected)


def test_nests_keywords_and_several_results() -> None:
    @wg.checkpoint(policy=policies.save_ops("matmul"))
    def f(p: dict[str, Tensor], *, x: Tensor, n: int = 2) -> Any:
        return {"a": wg.exp(p["w"] @ x.mT) ** n, "rest": [wg.sin(x), 3, None, wg.argmax(x)]}

    p = {"w": leaf(W)}
    out = f(p, x=leaf(X))
    assert out["rest"][1:3] == [3, None]
    same(wg.autograd.grad(out["a"].sum(), p["w"])[0], wg.grad(lambda w: (wg.exp(w @ X.mT) ** 2).sum())(W))


def test_one_result_used_and_the_other_gone() -> None:
    x = leaf(X)
    a, b = wg.checkpoint(lambda v: (wg.exp(wg.sin(v)), wg.exp(wg.cos(v))))(x)
    del a
    (g,) = wg.autograd.grad(b.sum(), x)
    same(g, wg.grad(lambda v: wg.exp(wg.cos(v)).sum())(X))


def test_ops_of_several_results() -> None:
    f = lambda v: wg.sin(wg.sort(v, axis=-1)).sum() + wg.stack(list(wg.unstack(wg.exp(v)))).prod()
    same(wg.grad(wg.checkpoint(f))(X), wg.grad(f)(X))


def test_values_from_around() -> None:
    for c in (lambda f: f, wg.checkpoint, lambda f: wg.checkpoint(lambda v, g=f: g(v))):
        x = leaf(X)
        middle = wg.sin(x)
        holder = {"m": wg.cos(x)}

        def f(v: Tensor, middle: Tensor = middle, get: Any = holder.get) -> Tensor:
            return wg.exp(wg.exp(v + middle) + get("m"))

        (found,) = wg.autograd.grad(c(f)(wg.tan(x)).sum(), x)
        same(found, wg.grad(lambda x: wg.exp(wg.exp(wg.tan(x) + wg.sin(x)) + wg.cos(x)).sum())(X))


def test_hooks_run_once() -> None:
    seen: list[Any] = []

    def f(v: Tensor) -> Tensor:
        h = wg.exp(v)
        h.register_hook(seen.append)
        return wg.sin(h)

    (found,) = wg.autograd.grad(wg.checkpoint(f)(leaf(X)).sum(), [x := leaf(X)], allow_unused=True)
    assert found is None
    seen.clear()
    x = leaf(X)
    wg.checkpoint(f)(x).sum().backward()
    assert len(seen) == 1
    same(seen[0], wg.cos(wg.exp(X)))


@wg.custom_vjp
def own(x: Tensor) -> Tensor:
    return wg.sin(x) * 1.0


own.defvjp(lambda x: (own(x), wg.cos(x)), lambda c, ct: (ct * c * 2.0,))


class Own(wg.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, k: float) -> Tensor:
        ctx.k = k
        noise = wg.randn(*x.shape, dtype=x.dtype)
        ctx.save_for_backward(x, noise)
        return wg.sin(x) * noise * k

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, noise = ctx.saved_tensors
        return g * wg.cos(x) * noise * ctx.k, None


@wg.custom_jvp
def tangled(x: Tensor) -> Tensor:
    return wg.sin(x)


tangled.defjvps(lambda t, out, x: t * out)


@pytest.mark.parametrize("f", [own, lambda x: Own.apply(x, 3.0), tangled], ids=["vjp", "class", "jvp"])
def test_custom_rules_inside(f: Any) -> None:
    program = lambda v: (wg.exp(f(wg.exp(v * 0.1)))).sum()

    def gradients(c: Callable[[Any], Any]) -> Any:
        wg.manual_seed(5)
        x = leaf(X)
        out = c(program)(x)
        first = wg.autograd.grad(out, x, create_graph=True)[0]
        return first, wg.autograd.grad(first.sum(), x)[0]

    same(gradients(wg.checkpoint), gradients(lambda g: g))
    out = wg.checkpoint(program)(leaf(X))
    assert not any(type(s) is tuple and s for s in saved_of(out))


def test_gradients_inside() -> None:
    f = lambda v: wg.grad(lambda u: (wg.exp(u) * wg.sin(u)).sum())(v * 2.0)
    same(wg.grad(lambda v: wg.checkpoint(f)(v).sum())(X), wg.grad(lambda v: f(v).sum())(X))


def test_a_long_chain() -> None:
    def f(v: Tensor) -> Tensor:
        for _ in range(20_000):
            v = v * 1.00001
        return v

    assert wg.grad(wg.checkpoint(lambda v: wg.checkpoint(f)(v)))(1.0).item() == pytest.approx(1.00001**20_000, rel=1e-2)


@pytest.mark.parametrize("dtype", [wg.float32, wg.float16, wg.bfloat16, wg.complex64])
def test_dtypes(dtype: Any) -> None:
    x = X.astype(dtype)
    f = lambda v: wg.abs(wg.exp(v) * v).sum()
    same(wg.grad(wg.checkpoint(f))(x), wg.grad(f)(x))


def test_empty_and_untracked() -> None:
    f = lambda v: wg.exp(wg.sin(v)).sum()
    assert wg.grad(wg.checkpoint(f))(wg.zeros(0, 3)).shape == (0, 3)
    assert not wg.checkpoint(f)(X).requires_grad
    x = leaf(X)
    assert wg.checkpoint(lambda v: v)(x) is x
    assert wg.checkpoint(lambda v: 3)(x) == 3


def test_traced_graphs_know_what_was_marked() -> None:
    def layer(x: Tensor) -> Tensor:
        return wg.exp(x)

    g = wg.graph(lambda x: wg.sin(wg.checkpoint(layer)(x)))(X)
    exp, sin = g.computations
    assert (exp.scope.kind, exp.scope.name) == ("checkpoint", "layer")
    assert sin.scope is None
    assert wg.Graph.parse(g.text()) == g == wg.Graph.from_json(g.to_json())


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: wg.checkpoint(3), wg.DTypeError, "checkpoint of a int"),
        (lambda: wg.checkpoint(wg.sin, policy=3), wg.DTypeError, "policy of type int"),
        (lambda: policies.save_ops("matmull"), wg.DTypeError, "no such op"),
        (lambda: policies.save_ops(3), wg.DTypeError, "int"),
        (lambda: policies.save_bytes(-1), wg.DTypeError, "save_bytes"),
        (lambda: wg.checkpoint_name(X, 3), wg.DTypeError, "int"),
        (lambda: wg.checkpoint_sequential([wg.sin], 2, X), wg.ShapeError, "2 segments of 1"),
        (lambda: wg.checkpoint_sequential([wg.sin], 0, X), wg.ShapeError, "0 segments"),
    ],
)
def test_errors(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        call()
