"""A tensor and a Python number: 16-bit floats compute wide, integers wrap, booleans are refused, as in PyTorch."""

import pytest

import wengert as wg
import wengert.torch as torch

MODES = {"eager": lambda f: f, "compiled": lambda f: torch.compile(f, fullgraph=True)}
H = torch.tensor([100.0, 0.01, 3.3], dtype=torch.half)
WIDE = {  # what PyTorch 2.13 gives
    "h / 1e5": (lambda h: h / 1e5, [0.0010004043579101562, 1.1920928955078125e-07, 3.3020973205566406e-05]),
    "h * 1e5": (lambda h: h * 1e5, [float("inf"), 1000.0, float("inf")]),
    "1e5 * h": (lambda h: 1e5 * h, [float("inf"), 1000.0, float("inf")]),
    "h * 1e-9": (lambda h: h * 1e-9, [1.1920928955078125e-07, 0.0, 0.0]),
    "h / 0.1": (lambda h: h / 0.1, [1000.0, 0.10003662109375, 33.0]),
    "h // 0.1": (lambda h: h // 0.1, [999.0, 0.0, 33.0]),
    "h * 70000": (lambda h: h * 70000, [float("inf"), 700.0, float("inf")]),
    "h * s": (lambda h: h * torch.tensor(1e5), [float("inf"), 1000.0, float("inf")]),
    "div_": (lambda h: h.clone().div_(1e5), [0.0010004043579101562, 1.1920928955078125e-07, 3.3020973205566406e-05]),
    "h + 1e5": (lambda h: h + 1e5, [float("inf")] * 3),
    "s * h": (lambda h: torch.tensor(1e5) * h, [float("inf")] * 3),
    "h * 0.5": (lambda h: h * 0.5, [50.0, 0.005001068115234375, 1.650390625]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WIDE)
def test_half_numbers_compute_wide_with_a_number(name, mode):
    call, wanted = WIDE[name]
    out = MODES[mode](call)(H)
    assert out.dtype == torch.half
    assert out.tolist() == wanted


@pytest.mark.parametrize("mode", MODES)
def test_numbers_that_a_compiled_function_is_given_and_gradients(mode):
    run = MODES[mode](lambda h, n: h / n)
    assert run(H, 1e5).tolist() == WIDE["h / 1e5"][1]
    w = torch.tensor([100.0], dtype=torch.half, requires_grad=True)
    run(w, 1e5).sum().backward()
    assert (w.grad.dtype, w.grad.tolist()) == (torch.half, [1.0013580322265625e-05])


def test_bfloat16_and_wengert_itself():
    b = torch.tensor([100.0, 0.01, 3.3], dtype=torch.bfloat16)
    assert (0.3 / b).tolist() == [0.0030059814453125, 30.0, 0.0908203125]
    assert wg.tensor([100.0], dtype=wg.float16).dtype == (wg.tensor([100.0], dtype=wg.float16) / 1e5).dtype


WRAPS = {
    "u + 300": (lambda u, i: u + 300, [244, 51, 45]),
    "u * 300": (lambda u, i: u * 300, [96, 52, 44]),
    "u - 300": (lambda u, i: u - 300, [156, 219, 213]),
    "300 - u": (lambda u, i: 300 - u, [100, 37, 43]),
    "u // 300": (lambda u, i: u // 300, [4, 0, 0]),
    "300 // u": (lambda u, i: 300 // u, [0, 6, 44]),
    "u % 300": (lambda u, i: u % 300, [24, 7, 1]),
    "300 % u": (lambda u, i: 300 % u, [44, 2, 0]),
    "u & 300": (lambda u, i: u & 300, [8, 4, 0]),
    "u | 300": (lambda u, i: u | 300, [236, 47, 45]),
    "u ^ 300": (lambda u, i: u ^ 300, [228, 43, 45]),
    "u << 300": (lambda u, i: u << 300, [0, 0, 0]),
    "u * -1": (lambda u, i: u * -1, [56, 249, 255]),
    "u + 3000000000": (lambda u, i: u + 3000000000, [200, 7, 1]),
    "fmod": (lambda u, i: torch.fmod(u, 300), [24, 7, 1]),
    "trunc": (lambda u, i: torch.div(u, 300, rounding_mode="trunc"), [4, 0, 0]),
    "rsub": (lambda u, i: torch.rsub(u, 300), [100, 37, 43]),
    "add_": (lambda u, i: u.clone().add_(300), [244, 51, 45]),
    "mul_": (lambda u, i: u.clone().mul_(300), [96, 52, 44]),
    "i + 200": (lambda u, i: i + 200, [44, -63]),
    "i * -300": (lambda u, i: i * -300, [-48, 52]),
    "i / 200": (lambda u, i: torch.div(i, 200, rounding_mode="trunc"), [-1, 0]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WRAPS)
def test_integers_wrap(name, mode):
    call, wanted = WRAPS[name]
    u, i = torch.tensor([200, 7, 1], dtype=torch.uint8), torch.tensor([100, -7], dtype=torch.int8)
    out = MODES[mode](call)(u, i)
    assert out.dtype in (torch.uint8, torch.int8)
    assert out.tolist() == wanted


def test_wide_integers():
    assert (torch.tensor([1], dtype=torch.int32) + 2**40).tolist() == [1]
    assert (torch.tensor([1]) + 2**63).tolist() == [1 - 2**63]
    with pytest.raises((TypeError, OverflowError)):
        torch.tensor([1]) + 2**70
    u = torch.tensor([3], dtype=torch.uint8)
    for call in (
        lambda: torch.clamp(u, -1, 300),
        lambda: u.fill_(300),
        lambda: torch.full((1,), 300, dtype=torch.uint8),
        lambda: u**300,
        lambda: wg.tensor([3], dtype=wg.uint8) + 300,
    ):
        with pytest.raises(TypeError, match=r"300|-1"):
            call()


B, F = torch.tensor([True, False]), torch.tensor([1.5, 2.5])
REFUSED = {
    "b - b": lambda b, f: b - b,
    "f - b": lambda b, f: f - b,
    "b - f": lambda b, f: b - f,
    "1 - b": lambda b, f: 1 - b,
    "b - 1": lambda b, f: b - 1,
    "f - True": lambda b, f: f - True,
    "sub": lambda b, f: torch.sub(f, b),
    "rsub": lambda b, f: torch.rsub(b, 1),
    "sub_": lambda b, f: f.clone().sub_(b),
    "-b": lambda b, f: -b,
    "+b": lambda b, f: +b,
    "neg": lambda b, f: b.neg(),
    "abs": lambda b, f: abs(b),
    "b // True": lambda b, f: b // True,
    "b ** b": lambda b, f: b**b,
    "ceil": lambda b, f: b.ceil(),
    "floor": lambda b, f: b.floor(),
    "round": lambda b, f: b.round(),
    "trunc": lambda b, f: b.trunc(),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_booleans_that_are_no_numbers(name, mode):
    with pytest.raises(TypeError, match="boolean"):
        MODES[mode](REFUSED[name])(B, F)


def test_booleans_that_are_numbers():
    assert [(B + B).tolist(), (B * B).tolist()] == [[True, False]] * 2
    assert B.add(B, alpha=True).tolist() == [True, False]
    assert [(B + 1).tolist(), (B * 2).tolist(), (B * F).tolist(), (B**2).tolist()] == [[2, 1], [2, 0], [1.5, 0], [1, 0]]
    assert [(B / 2).tolist(), (B % 2).tolist(), (B // 1).tolist()] == [[0.5, 0.0], [1, 0], [1, 0]]
    assert (1 - wg.tensor([True, False])).tolist() == [0, 1]


@pytest.mark.parametrize("mode", MODES)
def test_fmod_of_unsigned_integers_and_booleans(mode):
    def fmod(x, y):
        return MODES[mode](lambda x: torch.fmod(x, y))(x)

    u, b = torch.tensor([7, 0, 3, 1], dtype=torch.uint8), torch.tensor([True, False])
    for y, wanted, dtype in (
        (-3, [7, 0, 3, 1], torch.uint8),
        (3, [1, 0, 0, 1], torch.uint8),
        (-2.5, [2.0, 0.0, 0.5, 1.0], torch.float32),
        (torch.tensor([True]), [0, 0, 0, 0], torch.uint8),
    ):
        out = fmod(u, y)
        assert (out.tolist(), out.dtype) == (wanted, dtype)
    for y, wanted, dtype in ((-3, [1, 0], torch.int64), (-2.5, [1.0, 0.0], torch.float32)):
        out = fmod(b, y)
        assert (out.tolist(), out.dtype) == (wanted, dtype)
    assert fmod(b, torch.tensor([-2, 3], dtype=torch.int8)).tolist() == [1, 0]


@pytest.mark.parametrize("mode", MODES)
def test_a_float_that_scales_integers_is_cut(mode):
    i = torch.tensor([1, 2])
    out = MODES[mode](lambda x: torch.addcmul(x, x, x, value=2.5))(i)
    assert (out.tolist(), out.dtype) == ([3, 10], torch.int64)


# A factor takes the dtype of the operands, in one that is wide enough for their sum.
FACTORS = {
    "b + 2 b": (lambda: torch.add(B, B, alpha=2), "bool", [True, False]),
    "b += 2 b": (lambda: B.clone().add_(B, alpha=2), "bool", [True, False]),
    "h - 2.5 i": (lambda: torch.sub(H[:1], torch.tensor([2]), alpha=2.5), "float16", [95.0]),
    "i8 + 300 u8": (
        lambda: torch.add(torch.tensor([1], dtype=torch.int32), torch.tensor([2], dtype=torch.uint8), alpha=300),
        "int32",
        [601],
    ),
    "h + 1e9 * 1e-9": (lambda: torch.add(H[:1], 1e-9, alpha=1e9), "float16", [101.0]),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_takes_the_dtype_of_the_operands(name):
    call, dtype, wanted = FACTORS[name]
    out = call()
    assert (str(out.dtype), out.tolist()) == (f"torch.{dtype}", wanted)


@pytest.mark.parametrize("factor", [1.5, 1j, True])
def test_a_factor_of_a_greater_kind_of_numbers_is_refused(factor):
    i = torch.tensor([1, 2])
    for call in (torch.add, torch.sub, torch.Tensor.add_, torch.Tensor.sub_):
        with pytest.raises(TypeError, match="a factor of"):
            call(i.clone(), i, alpha=factor)


X, M, S = torch.ones(2), torch.ones(2, 2), torch.ones(1, 2, 2)
OLD = {  # numbers before the tensors that they scale, as old programs write
    "add": (lambda x: (x.add(3, X), torch.add(x, 3, X), x.add_(3, X)), X.add(X, alpha=3)),
    "sub": (lambda x: (x.sub(3, X), torch.sub(x, 3, X), x.sub_(3, X)), X.sub(X, alpha=3)),
    "addcmul": (lambda x: (torch.addcmul(x, 3, X, X), x.addcmul_(3, X, X)), X.addcmul(X, X, value=3)),
    "addcdiv": (lambda x: (torch.addcdiv(x, 3, X, X), x.addcdiv_(3, X, X)), X.addcdiv(X, X, value=3)),
    "addmm": (lambda x: (torch.addmm(2, M, 3, M, M), M.clone().addmm_(2, 3, M, M)), M.addmm(M, M, beta=2, alpha=3)),
    "addmm, beta": (lambda x: (torch.addmm(2, M, M, M), M.addmm(2, M, M)), M.addmm(M, M, beta=2)),
    "baddbmm": (
        lambda x: (torch.baddbmm(2, S, 3, S, S), S.clone().baddbmm_(2, 3, S, S)),
        S.baddbmm(S, S, beta=2, alpha=3),
    ),
    "addmv": (lambda x: (torch.addmv(2, x, 3, M, X), x.addmv_(2, 3, M, X)), X.addmv(M, X, beta=2, alpha=3)),
    "addr": (lambda x: (torch.addr(2, M, 3, X, X), M.addr(2, 3, X, X)), M.addr(X, X, beta=2, alpha=3)),
}


@pytest.mark.parametrize("name", OLD)
def test_numbers_before_the_tensors_that_they_scale(name):
    call, wanted = OLD[name]
    for out in call(X.clone()):
        assert out.tolist() == wanted.tolist()
    with pytest.raises(TypeError, match="numbers stand before"):
        torch.add(X, X, 3)


FLOATS = (torch.atan2, torch.copysign, torch.ldexp, torch.logaddexp2, torch.xlogy, torch.div)
DTYPES = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize(
    "fn", [*FLOATS, torch.gcd, torch.lcm, torch.fmod, torch.remainder, torch.kron], ids=lambda f: f.__name__
)
def test_results_have_the_dtype_of_both_operands(fn):
    for first in DTYPES:
        for second in DTYPES:
            for y in (torch.tensor([1], dtype=second), torch.tensor(1, dtype=second)):
                x = torch.tensor([1], dtype=first)
                wanted = torch.result_type(x, y)
                if fn in (torch.gcd, torch.lcm) and wanted not in (torch.uint8, torch.int64):
                    continue
                if fn is torch.kron:
                    wanted = torch.promote_types(first, second)
                elif fn in FLOATS and not wanted.is_floating_point:
                    wanted = torch.float32
                if fn in (torch.fmod, torch.remainder) and wanted == torch.bool:
                    continue
                assert fn(x, y).dtype == wanted, (first, second, y.ndim)
