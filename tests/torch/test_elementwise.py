"""Elementwise functions of `wengert.torch`, against values recorded from PyTorch 2.13."""

import math

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_calls import inputs, recorded
from torch_comparing import check, compiled

_OF_ONE = {
    "u": "acos arccos asin arcsin atanh arctanh erfinv logit",
    "x": "abs absolute angle asinh arcsinh atan arctan ceil cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac "
    "isfinite isinf isnan isneginf isposinf isreal neg negative positive rad2deg relu round sgn sigmoid sign signbit "
    "sin sinc sinh square tan tanh trunc conj real resolve_conj resolve_neg nan_to_num",
    "p": "digamma i0 lgamma log log10 log1p log2 reciprocal rsqrt sqrt",
    "(p + 1)": "acosh arccosh",
    "c": "abs angle conj conj_physical cos exp imag isreal log real sgn sin sqrt square tanh",
    "i": "abs exp erf floor isnan isreal logical_not bitwise_not neg sgn sign signbit sigmoid sqrt square trunc",
    "b": "bitwise_not exp logical_not sign isreal",
    "edges": "round frac sign signbit sgn isinf isneginf isposinf nan_to_num trunc angle",
}
_OF_TWO = {
    ("x", "y"): "add sub subtract mul multiply div divide true_divide fmax fmin fmod maximum minimum remainder atan2 "
    "arctan2 copysign eq ne not_equal lt less le less_equal gt greater ge greater_equal floor_divide hypot logaddexp "
    "logaddexp2 logical_and logical_or logical_xor rsub isclose",
    ("x", "row"): "add mul fmax maximum remainder",
    ("p", "q"): "pow float_power igamma igammac xlogy ldexp",
    ("p", "2.5"): "pow float_power remainder fmod add rsub mul div eq lt",
    ("x", "s"): "add mul fmod copysign heaviside",
    ("f", "s"): "add mul div",
    (
        "i",
        "j",
    ): "add sub mul div remainder fmod floor_divide gcd lcm bitwise_and bitwise_or bitwise_xor eq lt logical_and "
    "maximum bitwise_left_shift bitwise_right_shift pow true_divide",
    ("i", "2.5"): "add mul div remainder pow lt",
    ("i", "3"): "add mul div floor_divide remainder fmod bitwise_and pow",
    ("i", "f"): "add mul div fmod",
    ("w", "i"): "add mul sub",
    ("b", "a"): "add mul maximum minimum logical_xor bitwise_and bitwise_or eq lt",
    ("b", "i"): "add mul",
    ("c", "z"): "add mul div eq pow",
    ("edges", "1.0"): "fmax fmin maximum copysign heaviside remainder fmod logaddexp2",
}
CALLS = [
    *(f"torch.{name}({x})" for x, names in _OF_ONE.items() for name in names.split()),
    *(
        f"torch.{name}({x}, {y})"
        for (x, y), names in _OF_TWO.items()
        for name in names.split()
        if name not in ("fmax", "fmin", "maximum", "copysign", "heaviside", "logaddexp2", "hypot") or y != "1.0"
    ),
    "torch.fmax(edges, torch.ones(8, dtype=torch.float64))",
    "torch.fmin(edges, torch.ones(8, dtype=torch.float64))",
    "torch.heaviside(edges.detach(), torch.tensor(0.5, dtype=torch.float64))",
    "torch.maximum(edges, torch.ones(8, dtype=torch.float64))",
    "torch.add(x, y, alpha=2.5)",
    "torch.add(input=x, other=y)",
    "x.mul(other=y), x.eq(other=y), i.bitwise_and(other=j), x.maximum(other=row)",
    "b.clamp_min(a), b.clamp_max(a)",
    "x.clone().copy_(row, non_blocking=True)",
    "i.clone().copy_(f)",
    "torch.is_same_size(x, y), torch.is_signed(w), x.is_conj()",
    "torch.sub(x, 1, alpha=3)",
    "torch.rsub(x, y, alpha=2)",
    "torch.div(x, y, rounding_mode='trunc')",
    "torch.div(x, y, rounding_mode='floor')",
    "torch.div(i, j, rounding_mode='trunc')",
    "torch.div(i, 3, rounding_mode='floor')",
    "x.div(0.3, rounding_mode='trunc')",
    "torch.pow(2.0, x)",
    "torch.pow(2, i.abs())",
    "torch.exp(input=x)",
    "torch.exp(x.detach(), out=torch.empty(2, 3, 4, dtype=torch.float64))",
    "torch.clamp(x, -0.5, 0.5)",
    "torch.clamp(x, min=0)",
    "x.clamp(max=y)",
    "torch.clamp(x, y, y + 1)",
    "torch.clip(i, -1, 2)",
    "torch.clamp(i, 0.5, 2)",
    "torch.clamp(edges.detach(), -1, 1)",
    "x.clamp_min(0.25), x.clamp_max(y)",
    "torch.addcmul(x, y, row, value=0.5)",
    "torch.addcdiv(x, y, y.abs() + 1)",
    "torch.lerp(x, y, 0.3)",
    "torch.lerp(x, y, 0.8)",
    "torch.lerp(p, q, u)",
    "torch.round(x, decimals=1)",
    "torch.round(x * 100, decimals=-1)",
    "torch.frexp(edges.detach() * 3)",
    "torch.frexp(f)",
    "torch.nan_to_num(edges, nan=7.0, posinf=1.0, neginf=-1.0)",
    "torch.logit(x.sigmoid(), eps=0.2)",
    "torch.mvlgamma(p + 2, 3)",
    "torch.polygamma(1, p), p.polygamma(2)",
    "torch.xlogy(0.0, p)",
    "torch.xlogy(p, 2.0)",
    "torch.where(x > 0, x, y)",
    "torch.where(b, 1.0, 0.0)",
    "torch.where(b, 1, i)",
    "torch.where(b, f, 2.0)",
    "x.where(x > y, 0.0)",
    "torch.where(i)",
    "torch.where(x > 0.2)",
    "c.real, c.imag",
    "torch.is_complex(c), torch.is_floating_point(i), torch.is_tensor(x), torch.numel(x), torch.is_nonzero(s)",
    "b + b, b * b, b & True, i * 2.0, w + 1, s + f",
    # in place
    "x.clone().add_(y, alpha=2)",
    "x.clone().sub_(1.5).mul_(y)",
    "x.clone().div_(y, rounding_mode='floor')",
    "x.clone().pow_(2)",
    "p.clone().log10_()",
    "x.clone().sin_().cos_()",
    "x.clone().clamp_(-1, 1)",
    "x.clone().clip_(min=0)",
    "x.clone().lerp_(y, 0.25)",
    "x.clone().addcmul_(tensor1=x, tensor2=y, value=0.5)",
    "x.clone().addcdiv_(x, y)",
    "x.clone().eq_(y)",
    "x.clone().ge_(0)",
    "i.clone().bitwise_and_(j)",
    "i.clone().fmod_(3)",
    "b.clone().logical_not_()",
    "x.clone().round_(decimals=1)",
    "x.clone().nan_to_num_().sgn_()",
    "x.clone().sigmoid_().erfinv_()",
    "x.clone().relu_().exp2_()",
    "p.clone().true_divide_(q).xlogy_(q)",
    "x.clone().copysign_(y)",
    "i.clone().floor_divide_(2)",
]
RECORDED = recorded("elementwise")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[::12] if "clone" not in t])
def test_compiled_calls_give_the_same(text):
    compiled(text, RECORDED[text])


def test_results_are_of_the_namespace_and_of_the_users_line():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.add(x, x, alpha=2)
    assert type(y) is torch.Tensor
    assert "test_elementwise.py" in str(y.source)
    assert type(torch.maximum(wg.ones(2), wg.ones(2))) is torch.Tensor
    assert torch.where(torch.tensor(True), 1.0, 0.0).dtype == torch.float32
    assert torch.result_type(torch.ones(2), torch.tensor(1.0, dtype=torch.float64)) == torch.float32
    assert torch.result_type(torch.arange(2), 1.0) == torch.result_type(1, 2.0) == torch.float32


def test_functions_are_mapped_over_examples():
    x = inputs(torch)["p"].detach()
    for fn in (lambda v: v.clamp(1, 2), lambda v: torch.fmod(v, 0.7), lambda v: torch.frexp(v).mantissa,
               lambda v: torch.lerp(v, v * 2, 0.25), lambda v: torch.gcd((v * 9).long(), (v * 7).long())):  # fmt: skip
        mapped = wg.vmap(fn)(x)
        np.testing.assert_allclose(mapped.numpy(), np.stack([fn(v).numpy() for v in x]), rtol=1e-14)


def test_frexp_is_exact_at_the_ends_of_the_range():
    x = torch.tensor([5e-324, 2.2e-308, 1.7e308, -3.0], dtype=torch.float64)
    mantissa, exponent = torch.frexp(x)
    expected = [math.frexp(v) for v in x.tolist()]
    assert list(zip(mantissa.tolist(), exponent.tolist(), strict=True)) == expected


def test_numbers_are_drawn_in_place():
    torch.manual_seed(0)
    x = torch.empty(20000, dtype=torch.float64)
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02
    assert abs(x.geometric_(0.25).mean().item() - 4.0) < 0.15
    assert x.min().item() == 1.0
    assert abs(x.cauchy_(1.0, 2.0).median().item() - 1.0) < 0.15
    assert abs(x.log_normal_(0.0, 0.5).log().std().item() - 0.5) < 0.02
    assert abs(x.uniform_(-1, 3).mean().item() - 1.0) < 0.05
    assert -1.0 <= x.min().item() < x.max().item() < 3.0
    drawn = torch.empty(5000, dtype=torch.int64).random_(3, 7)
    assert sorted(set(drawn.tolist())) == [3, 4, 5, 6]
    assert torch.zeros(9, dtype=torch.int64).random_(2).max().item() <= 1
    assert x.random_().max().item() > 2**50


def test_what_cannot_be_right_is_refused():
    i = torch.arange(3)
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        torch.div(i, 0, rounding_mode="floor")
    with pytest.raises(ValueError, match="rounding_mode"):
        torch.div(i, 2, rounding_mode="up")
    with pytest.raises(TypeError):
        torch.clamp(i)
    with pytest.raises(TypeError):
        torch.imag(torch.ones(2))
    with pytest.raises(TypeError):
        torch.gcd(torch.ones(2), torch.ones(2))
    with pytest.raises(TypeError):
        i.add_(0.5)
    with pytest.raises(RuntimeError):
        torch.ones(2, requires_grad=True).mul_(2)


def test_operators_refuse_integers_by_zero() -> None:
    i, zero = torch.tensor([5, 7]), torch.tensor([1, 0])
    for divide in (
        *(lambda: i // 0, lambda: i // zero, lambda: i % 0, lambda: i % zero, lambda: 5 // zero, lambda: 5 % zero),
        *(lambda: i.clone().__ifloordiv__(0), lambda: i.clone().__imod__(zero)),
    ):
        with pytest.raises(RuntimeError, match="ZeroDivisionError: integers divided by 0"):
            divide()
    assert (i // 2).tolist() == [2, 3]
    assert (17 % i).tolist() == [2, 3]
    assert (torch.tensor([1.0, -1.0]) // 0).tolist() == [math.inf, -math.inf]
    i //= 2
    assert i.tolist() == [2, 3]
    run = wg.jit(lambda x: (x // 2, x % 2))
    assert [run(i)[0].tolist() for _ in range(6)] == [[1, 1]] * 6
    with pytest.raises(TypeError):
        i // "a"


def test_floating_numbers_become_small_integers_modulo_their_size() -> None:
    """Numbers recorded from PyTorch 2.13 on x86."""
    x = torch.tensor([-1.0, -1.5, -300.7, 300.2, 255.9, -129.0])
    assert x.byte().tolist() == [255, 255, 212, 44, 255, 127]
    assert x.to(torch.int8).tolist() == [-1, -1, -44, 44, -1, 127]
    assert (1000 * x.double()).to(torch.int16).tolist() == [-1000, -1500, 26980, -27480, -6245, 2072]
    run = wg.jit(lambda x: x.byte())
    assert [run(x).tolist() for _ in range(6)] == [[255, 255, 212, 44, 255, 127]] * 6
