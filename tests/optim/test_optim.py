"""Optimisers and schedules: trajectories against PyTorch 2's numbers, formulas, state, errors."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import wengert as wg
from wengert.optim import lr_scheduler

START = [1.0, -2.0, 0.5]
GRADIENTS = [[0.5, -1.0, 2.0], [0.25, 0.0, -1.5], [-0.75, 0.3, 0.1], [1.0, 1.0, 1.0], [0.0, -0.2, 0.4]]

# Where PyTorch 2.13 stands after these gradients in float64.
TRAJECTORIES = [
    ("SGD", {"lr": 0.1}, [0.8999999999999999, -2.01, 0.3]),
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.05},
        [0.6845059506739198, -1.6854684107878397, -0.1302760879078401],
    ),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, [0.650268, -1.867611, -0.204243]),
    (
        "SGD",
        {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.1, "maximize": True},
        [1.0791084954, -1.8467315408, 0.76386373695],
    ),
    ("Adam", {"lr": 0.1}, [0.7450997395682156, -1.8342592574248295, 0.3207441904560757]),
    (
        "Adam",
        {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1},
        [0.715832431465804, -1.772634801757224, 0.316207410817341],
    ),
    (
        "Adam",
        {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.6)},
        [0.7894912455362053, -1.9551249141512343, 0.36002411902833764],
    ),
    ("Adam", {"lr": 0.1, "maximize": True}, [1.2549002604317843, -2.1657407425751707, 0.6792558095439244]),
    ("AdamW", {"lr": 0.1}, [0.7408099877751602, -1.8249201284974128, 0.31872303882650443]),
    (
        "AdamW",
        {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True},
        [0.6241125741992579, -1.5702730807974081, 0.26378421290652065],
    ),
    ("RMSprop", {"lr": 0.1}, [-0.3777476494703564, -1.8481271982929934, -0.4629822968985459]),
    (
        "RMSprop",
        {"lr": 0.1, "alpha": 0.9, "momentum": 0.5, "centered": True, "weight_decay": 0.1},
        [0.08074277685260056, -1.5604112040934504, -0.07305668347222206],
    ),
    ("Adagrad", {"lr": 0.1}, [0.8624273387144714, -1.9842024607500932, 0.40420525325424184]),
    (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
        [0.8938843746501554, -1.9293984488182032, 0.41199550822754805],
    ),
]

RULES = [
    lambda p: wg.optim.SGD(p, lr=0.1),
    lambda p: wg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    lambda p: wg.optim.Adam(p, lr=0.1, amsgrad=True),
    lambda p: wg.optim.AdamW(p, lr=0.1),
    lambda p: wg.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    lambda p: wg.optim.Adagrad(p, lr=0.1),
    lambda p: wg.optim.Adadelta(p, weight_decay=0.1),
    lambda p: wg.optim.Adamax(p, lr=0.1),
    lambda p: wg.optim.NAdam(p, lr=0.1, decoupled_weight_decay=True, weight_decay=0.1),
    lambda p: wg.optim.RAdam(p, lr=0.1, betas=(0.9, 0.99)),
    lambda p: wg.optim.ASGD(p, lr=0.1, t0=2),
    lambda p: wg.optim.Rprop(p, lr=0.1),
]
RULE_NAMES = ["sgd", "nesterov", "adam", "adamw", "rmsprop", "adagrad"]
RULE_NAMES += ["adadelta", "adamax", "nadam", "radam", "asgd", "rprop"]
every_rule = pytest.mark.parametrize("make", RULES, ids=RULE_NAMES)


def leaf(value, dtype=np.float64):
    return wg.tensor(np.asarray(value, dtype), requires_grad=True)


def run(opt, w, gradients):
    for g in gradients:
        w.grad = wg.tensor(np.asarray(g, w.dtype))
        opt.step()
    return w.detach().numpy()


@pytest.mark.parametrize(("name", "options", "expected"), TRAJECTORIES)
def test_trajectory_is_pytorchs(name, options, expected):
    w = leaf(START)
    got = run(getattr(wg.optim, name)([w], **options), w, GRADIENTS)
    np.testing.assert_allclose(got, expected, rtol=1e-13)


@every_rule
@pytest.mark.parametrize("dtype", ["float16", "float32", "bfloat16"])
def test_low_precision_follows_float64_and_keeps_its_dtype(make, dtype):
    exact, low = leaf(START), wg.tensor(START, dtype=dtype, requires_grad=True)
    a = run(make([exact]), exact, GRADIENTS)
    b = run(make([low]), low, GRADIENTS)
    assert low.dtype == wg.tensor(START, dtype=dtype).dtype
    tolerance = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
    np.testing.assert_allclose(b.astype(np.float64), a, atol=tolerance)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [3, 70000])
def test_small_gradients_in_16_bits_make_finite_steps(name, dtype, size):
    # Their squares, and eps, are 0 in float16: the update would be 0/0.
    w = wg.tensor(np.ones(size), dtype=dtype, requires_grad=True)
    opt = getattr(wg.optim, name)([w], lr=0.01)
    for g in (0.0, 1e-4, 1e-4):
        w.grad = wg.tensor(np.full(size, g), dtype=dtype)
        opt.step()
    got = w.detach().numpy().astype(np.float64)
    assert w.detach().numpy().dtype == w.dtype
    assert ((got > 0.5) & (got < 1.0)).all()


@every_rule
def test_blocks_do_not_show(make):
    # More elements than a block holds: the same as the elements one by one.
    rng = np.random.default_rng(0)
    start, grads = rng.normal(size=(3, 40000)), rng.normal(size=(4, 3, 40000))
    big, small = leaf(start), leaf(start[1, 25534:25538])
    a = run(make([big]), big, grads)
    b = run(make([small]), small, grads[:, 1, 25534:25538])
    np.testing.assert_allclose(a[1, 25534:25538], b, rtol=1e-14)


@every_rule
def test_strided_values_and_gradients(make):
    rng = np.random.default_rng(1)
    start, grads = rng.normal(size=(300, 300)), rng.normal(size=(3, 300, 300))
    w, v = leaf(start), leaf(start)
    v.assign_(np.asfortranarray(start))
    a = run(make([w]), w, grads)
    opt = make([v])
    for g in grads:
        v.grad = wg.asarray(np.asfortranarray(g), copy=False)
        opt.step()
    np.testing.assert_allclose(v.detach().numpy(), a, rtol=1e-14)


@every_rule
def test_complex_parameters_are_pairs_of_real_ones(make):
    z = leaf([1 + 2j, -0.5j], np.complex128)
    pair = leaf([[1.0, 2.0], [0.0, -0.5]])
    gradients = [np.array([0.3 - 1j, 2 + 0.1j]), np.array([-1 + 0.5j, 1j])]
    a = run(make([z]), z, gradients)
    b = run(make([pair]), pair, [np.stack([g.real, g.imag], -1) for g in gradients])
    np.testing.assert_allclose(np.stack([a.real, a.imag], -1), b, rtol=1e-14)


@every_rule
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_odd_shapes(make, shape):
    w = leaf(np.ones(shape))
    got = run(make([w]), w, [np.ones(shape)] * 2)
    assert got.shape == shape
    assert (got < 1).all()


HOLDERS = {
    "tensor": lambda w: w.detach(),
    "array": lambda w: w.detach().numpy(),
    "view": lambda w: w.detach().numpy()[::2],
    "reshaped": lambda w: w.detach().numpy().reshape(-1, 2),
    "memoryview": lambda w: memoryview(w.detach().numpy()),
    "state dict": lambda w: wg.nn.ParameterList([w]).state_dict()["0"].detach(),
    "other leaf": lambda w: leaf([0.0] * w.size).assign_(w.detach()),
}


def values(held):
    return np.array(held.detach().numpy() if isinstance(held, wg.Tensor) else held)


@every_rule
@pytest.mark.parametrize("size", [2, 70000])
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS.keys())
def test_a_step_does_not_write_into_what_others_hold(make, size, hold):
    w = wg.nn.Parameter(np.ones(size))
    w.grad = gradient = wg.tensor(np.full(size, 0.5))
    opt = make([w])
    opt.step()
    held = hold(w)
    before = values(held)
    opt.step()
    opt.step()
    np.testing.assert_array_equal(values(held), before)
    assert (gradient.numpy() == 0.5).all()
    assert w.detach().numpy()[0] < before.ravel()[0]


def test_a_large_buffer_that_nothing_else_holds_is_reused():
    w = wg.nn.Parameter(np.ones(70000))
    w.grad = wg.tensor(np.ones(70000))
    opt = wg.optim.SGD([w], lr=0.5)
    opt.step()
    address = w.detach().numpy().ctypes.data
    opt.step()
    assert w.detach().numpy().ctypes.data == address
    assert (w.detach().numpy() == 0).all()


@pytest.mark.parametrize("size", [1, 70000])
def test_a_step_leaves_a_live_graph_its_values(size):
    w = leaf([3.0] * size)
    y = w * w
    opt = wg.optim.SGD([w], lr=1.0)
    y.backward(wg.ones(size, dtype=wg.float64), retain_graph=True)
    opt.step()
    assert (w.detach().numpy() == -3.0).all()
    w.grad = None
    y.backward(wg.ones(size, dtype=wg.float64))
    assert (w.grad.numpy() == 6.0).all()  # from the value that y was computed with


@every_rule
def test_parameters_without_gradient_stay(make):
    a, b = leaf([1.0]), leaf([1.0])
    opt = make([a, b])
    a.grad = wg.tensor(np.array([1.0]))
    opt.step()
    assert b.item() == 1.0
    assert b not in opt.state
    opt.zero_grad(set_to_none=False)
    assert a.grad.tolist() == [0.0]
    opt.zero_grad()
    assert a.grad is None


@every_rule
def test_nan_is_not_hidden(make):
    w = leaf([1.0, 1.0])
    got = run(make([w]), w, [[math.nan, 1.0]])
    assert math.isnan(got[0])
    assert got[1] < 1


def test_overflow_is_a_value_not_a_warning():
    w = leaf([1.0], np.float32)
    got = run(wg.optim.SGD([w], lr=1e30), w, [[1e30]])
    assert got[0] == -math.inf


def test_closure_is_called_with_gradients_recorded():
    w = leaf(2.0)
    opt = wg.optim.SGD([w], lr=0.25)

    def closure():
        opt.zero_grad()
        loss = w * w
        loss.backward()
        return loss

    with wg.no_grad():
        assert opt.step(closure).item() == 4.0
    assert w.item() == 1.0


def test_groups_have_their_own_options():
    a, b, c = leaf(1.0), leaf(1.0), leaf(1.0)
    opt = wg.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.25)
    opt.add_param_group({"params": [c], "lr": 1.0, "maximize": True})
    for p in (a, b, c):
        p.grad = wg.tensor(np.array(1.0))
    opt.step()
    assert [p.item() for p in (a, b, c)] == [0.75, 0.5, 2.0]
    opt.param_groups[0]["lr"] = 0.0
    opt.step()
    assert a.item() == 0.75


def test_numpy_options_do_not_change_the_dtype():
    w = leaf([1.0], np.float32)
    run(wg.optim.Adam([w], lr=np.float64(0.1), betas=(np.float64(0.9), np.float64(0.99))), w, [[1.0]])
    assert w.detach().numpy().dtype == np.float32


def test_it_minimises():
    w = leaf([3.0, -2.0])
    opt = wg.optim.Adam([w], lr=0.1)
    for _ in range(300):
        opt.zero_grad()
        (w * w).sum().backward()
        opt.step()
    assert max(abs(w.detach().numpy())) < 1e-3


# -- state


@every_rule
@pytest.mark.parametrize("through", [lambda s: s, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_state_goes_on_where_it_stood(make, through):
    w = leaf(START)
    opt = make([w])
    run(opt, w, GRADIENTS[:3])
    saved, value = through(opt.state_dict()), w.detach().numpy().copy()
    expected = run(opt, w, GRADIENTS[3:])
    other = leaf(value)
    resumed = make([other])
    resumed.load_state_dict(saved)
    np.testing.assert_array_equal(run(resumed, other, GRADIENTS[3:]), expected)


def test_state_dict_is_laid_out_like_pytorchs():
    w = leaf(START)
    opt = wg.optim.Adam([w], lr=0.1)
    run(opt, w, GRADIENTS)
    state = opt.state_dict()
    assert set(state) == {"state", "param_groups"}
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    assert state["state"][0]["step"] == 5
    assert state["param_groups"][0]["params"] == [0]
    before = state["state"][0]["exp_avg"].tolist()
    run(opt, w, GRADIENTS)
    assert state["state"][0]["exp_avg"].tolist() == before


def test_state_that_does_not_fit_is_refused_whole():
    w, v = leaf(START), leaf([1.0])
    opt = wg.optim.Adam([w])
    run(opt, w, GRADIENTS[:1])
    good = opt.state_dict()
    other = wg.optim.Adam([v], lr=0.5)
    with pytest.raises(wg.StateError, match=r"exp_avg has shape \(3,\), the parameter \(1,\)"):
        other.load_state_dict(good)
    assert other.param_groups[0]["lr"] == 0.5
    assert not other.state
    with pytest.raises(wg.StateError, match="has 1 parameters in the state dict, 2 in the optimiser"):
        wg.optim.Adam([w, v]).load_state_dict(good)
    with pytest.raises(wg.StateError, match="unexpected option 'amsgrad'"):
        wg.optim.SGD([w]).load_state_dict(good)
    with pytest.raises(wg.StateError, match="'state' and 'param_groups'"):
        other.load_state_dict({})
    with pytest.raises(wg.StateError, match="1 parameter groups in the state dict, 2 in the optimiser"):
        wg.optim.Adam([{"params": [w]}, {"params": [v]}]).load_state_dict(good)


# -- errors


def test_bad_parameters():
    w = leaf([1.0])
    with pytest.raises(wg.GradientError, match="without parameters"):
        wg.optim.SGD([])
    with pytest.raises(TypeError, match="takes a list of tensors, not Tensor"):
        wg.optim.SGD(w)
    with pytest.raises(TypeError, match="takes tensors, not float"):
        wg.optim.SGD([1.0])
    with pytest.raises(wg.GradientError, match="computed by <Mul"):
        wg.optim.SGD([w * 2])
    with pytest.raises(wg.GradientError, match="twice"):
        wg.optim.SGD([w, w])
    with pytest.raises(wg.GradientError, match="twice"):
        wg.optim.SGD([{"params": [w]}, {"params": [w]}])
    with pytest.raises(TypeError, match="dtype int64"):
        wg.optim.SGD([wg.tensor([1])])
    with pytest.raises(wg.StateError, match="no option 'momentun'"):
        wg.optim.SGD([{"params": [w], "momentun": 0.9}])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("SGD", {"lr": -1.0}, "lr must be at least 0, not -1.0"),
        ("SGD", {"lr": math.nan}, "lr must be at least 0, not nan"),
        ("SGD", {"lr": "fast"}, "lr='fast' is a text, not a number"),
        ("SGD", {"nesterov": True}, "nesterov=True needs momentum"),
        ("SGD", {"momentum": -0.1}, "momentum must be at least 0"),
        ("Adam", {"betas": (0.9, 1.0)}, r"betas must lie in \[0, 1\)"),
        ("Adam", {"betas": 0.9}, "betas must be a pair"),
        ("Adam", {"eps": -1e-8}, "eps must be at least 0"),
        ("AdamW", {"weight_decay": -1.0}, "weight_decay must be at least 0"),
        ("RMSprop", {"alpha": 2.0}, "alpha must be in"),
        ("Adagrad", {"lr_decay": -1.0}, "lr_decay must be at least 0"),
    ],
)
def test_bad_options(name, options, words):
    with pytest.raises((wg.RangeError, wg.DTypeError), match=words):
        getattr(wg.optim, name)([leaf([1.0])], **options)


def test_a_complex_gradient_for_a_real_parameter():
    w = leaf([1.0])
    w.grad = wg.tensor([1j])
    with pytest.raises(TypeError, match="gradient of dtype complex64 for a parameter of dtype float64"):
        wg.optim.SGD([w]).step()


def test_repr_names_the_options():
    text = repr(wg.optim.SGD([leaf([1.0])], lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n")
    assert "    lr: 0.1\n" in text


def test_rmsprop_has_both_names():
    assert wg.optim.RMSProp is wg.optim.RMSprop


# -- schedules; that the rates are PyTorch's is tested in tests/torch/test_lr_scheduler.py


def test_plateau_looks_at_a_loss_that_is_being_differentiated():
    schedule = lr_scheduler.ReduceLROnPlateau(wg.optim.SGD([leaf([0.0])], lr=1.0), factor=0.5, patience=0)

    def loss(x):
        value = x * x
        schedule.step(value)
        return value

    assert [wg.grad(loss)(3.0).item() for _ in range(2)] == [6.0, 6.0]
    assert schedule.get_last_lr() == [0.5]


def test_schedule_state_goes_on_where_it_stood():
    def make(opt):
        parts = [lr_scheduler.LinearLR(opt, 0.1, total_iters=3), lr_scheduler.CosineAnnealingLR(opt, 5)]
        return lr_scheduler.SequentialLR(opt, parts, [3])

    opt = wg.optim.SGD([leaf([0.0])], lr=1.0)
    schedule = make(opt)
    for _ in range(5):
        schedule.step()
    saved = pickle.loads(pickle.dumps((opt.state_dict(), schedule.state_dict())))
    schedule.step()
    other = wg.optim.SGD([leaf([0.0])], lr=7.0)
    resumed = make(other)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    resumed.step()
    assert resumed.get_last_lr() == schedule.get_last_lr()


def test_bad_schedules():
    opt = wg.optim.SGD([leaf([0.0])], lr=1.0)
    with pytest.raises(wg.RangeError, match="step_size must not be 0"):
        lr_scheduler.StepLR(opt, 0)
    with pytest.raises(wg.RangeError, match="T_max must not be 0"):
        lr_scheduler.CosineAnnealingLR(opt, 0)
    with pytest.raises(wg.RangeError, match="one milestone between"):
        lr_scheduler.SequentialLR(opt, [lr_scheduler.ExponentialLR(opt, 1.0)], [1])
    with pytest.raises(wg.RangeError, match="milestones must not fall"):
        lr_scheduler.SequentialLR(opt, [lr_scheduler.ExponentialLR(opt, 1.0)] * 3, [4, 1])
    with pytest.raises(wg.GraphError, match="keeps no initial rates"):
        lr_scheduler.ReduceLROnPlateau(opt).restart()


def test_what_schedules_add_to_groups_is_no_part_of_the_optimiser():
    plain, scheduled = (wg.optim.SGD([leaf([0.0])], lr=1.0, momentum=0.9) for _ in range(2))
    lr_scheduler.OneCycleLR(scheduled, 2.0, total_steps=10)
    state = scheduled.state_dict()
    assert {"initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum"} <= set(state["param_groups"][0])
    scheduled.load_state_dict(plain.state_dict())
    plain.load_state_dict(state)
    assert plain.param_groups[0]["max_lr"] == 2.0
    with pytest.raises(wg.StateError, match="unexpected option 'rate'"):
        plain.load_state_dict({"state": {}, "param_groups": [{**state["param_groups"][0], "rate": 1.0}]})


def rosenbrock(w):
    return 100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2


@pytest.mark.parametrize("compiled", [False, True])
def test_lbfgs_finds_the_end_of_a_valley_and_is_continued(compiled):
    found = []
    for interrupted in (False, True):
        w = leaf([-1.2, 1.0])
        opt = wg.optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=5)

        def loss(w=w, zero_grad=opt.zero_grad):
            zero_grad()
            value = rosenbrock(w)
            value.backward()
            return value

        closure = wg.jit(loss) if compiled else loss
        for _ in range(12):
            opt.step(closure)
            if interrupted:
                saved = pickle.loads(pickle.dumps(opt.state_dict()))
                opt = wg.optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=5)
                opt.load_state_dict(saved)
        found.append(w.detach().numpy())
    np.testing.assert_allclose(found[0], [1.0, 1.0], atol=1e-3)
    np.testing.assert_array_equal(*found)


def test_lbfgs_errors():
    w = leaf([1.0, 2.0])
    opt = wg.optim.LBFGS([w])
    with pytest.raises(wg.GraphError, match="without a closure"):
        opt.step()
    with pytest.raises(wg.ShapeError, match="several parameter groups"):
        opt.add_param_group({"params": [leaf([1.0])]})
    with pytest.raises(wg.RangeError, match="line_search_fn"):
        wg.optim.LBFGS([w], line_search_fn="weak")
    opt.step(lambda: (setattr(w, "grad", wg.tensor([1.0, 1.0], dtype="float64")), 1.0)[1])
    with pytest.raises(wg.StateError, match="3 elements"):
        wg.optim.LBFGS([leaf([1.0, 2.0, 3.0])]).load_state_dict(opt.state_dict())


@pytest.mark.parametrize("name", ["Adafactor", "Muon"])
def test_matrices_in_a_compiled_step_and_continued(name):
    start, target = np.linspace(-1, 1, 12).reshape(4, 3), np.eye(4, 3)
    found = []
    for compiled in (False, True):
        w = leaf(start)
        opt = getattr(wg.optim, name)([w], lr=0.05)

        def step(w=w, opt=opt):
            opt.zero_grad()
            ((w - wg.tensor(target)) ** 2).sum().backward()
            opt.step()

        step = wg.jit(step) if compiled else step
        for _ in range(3):
            step()
        other = getattr(wg.optim, name)([w], lr=0.05)
        other.load_state_dict(opt.state_dict())
        for _ in range(3):
            w.grad = wg.tensor(2 * (w.detach().numpy() - target))
            other.step()
        found.append(w.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert ((found[0] - target) ** 2).sum() < ((start - target) ** 2).sum()
    with pytest.raises((wg.DTypeError, wg.ShapeError)):
        getattr(wg.optim, name)([wg.tensor([[1j]], requires_grad=True)])
