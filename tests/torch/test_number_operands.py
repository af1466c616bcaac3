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
