"""Functions of lists of tensors are those of each tensor."""

import pytest

import wengert.torch as torch
from wengert.core.errors import ShapeError

A = [torch.tensor([0.5, 0.25]), torch.tensor([[0.75]])]
B = [torch.tensor([2.0, 3.0]), torch.tensor([[4.0]])]
ONE = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
TWO = ("add", "sub", "mul", "div", "pow", "maximum", "minimum")
CALLS = {
    **{name: ((A,), lambda t, name=name: getattr(torch, name)(t)) for name in ONE.split()},
    **{name: ((A, B), lambda t, o, name=name: getattr(torch, name)(t, o)) for name in TWO},
    "clamp_max": ((A, 0.5), lambda t: t.clamp_max(0.5)),
    "clamp_min": ((A, 0.5), lambda t: t.clamp_min(0.5)),
    "lerp": ((A, B, 0.25), lambda t, o: torch.lerp(t, o, 0.25)),
    "addcmul": ((A, B, B, 2.0), lambda t, o, p: torch.addcmul(t, o, p, value=2.0)),
    "addcdiv": ((A, B, B, [3.0, 3.0]), lambda t, o, p: torch.addcdiv(t, o, p, value=3.0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_of_each_tensor(name):
    args, one = CALLS[name]
    columns = [a for a in args if a is A or a is B]
    wanted = [one(*row) for row in zip(*columns, strict=True)]
    found = getattr(torch, f"_foreach_{name}")(*args)
    assert isinstance(found, tuple)
    assert all(torch.equal(f, w) for f, w in zip(found, wanted, strict=True))
    own = [t.clone() for t in A]
    out = getattr(torch, f"_foreach_{name}_")(own, *args[1:])
    assert out is own
    assert all(torch.equal(f, w) for f, w in zip(own, wanted, strict=True))


def test_other_operands():
    lists = torch._foreach_add(A, [1.0, 2.0])
    assert [t.tolist() for t in lists] == [[1.5, 1.25], [[2.75]]]
    assert [t.tolist() for t in torch._foreach_mul(A, torch.tensor(2.0))] == [[1.0, 0.5], [[1.5]]]
    assert [t.tolist() for t in torch._foreach_add(A, B, alpha=2)] == [[4.5, 6.25], [[8.75]]]
    assert [t.tolist() for t in torch._foreach_pow(2.0, B)] == [[4.0, 8.0], [[16.0]]]
    assert [t.tolist() for t in torch._foreach_addcmul(A, B, B, torch.tensor([1.0, 0.0]))] == [[4.5, 9.25], [[0.75]]]
    assert [t.item() for t in torch._foreach_norm(B)] == [pytest.approx(13**0.5), 4.0]
    assert [t.item() for t in torch._foreach_norm(B, float("inf"))] == [3.0, 4.0]
    assert [t.item() for t in torch._foreach_max(B)] == [3.0, 4.0]
    assert [t.item() for t in torch._foreach_powsum(B, 2)] == [13.0, 16.0]
    own = [t.clone() for t in A]
    assert torch.equal(torch._foreach_copy_(own, B)[0], B[0])
    assert not torch._foreach_zero_(own)[0].any()
    for call in (lambda: torch._foreach_add(A, [1.0]), lambda: torch._foreach_sin([])):
        with pytest.raises(ShapeError):
            call()


def test_an_optimiser_compiled_from_them():
    w = [torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)]

    @torch.compile(fullgraph=True)
    def step(gradients):
        with torch.no_grad():
            torch._foreach_add_(w, torch._foreach_mul(gradients, 2.0), alpha=-0.5)

    for i in range(4):
        step([torch.ones(3), torch.ones(2)])
        assert w[0].tolist() == [-float(i)] * 3
