"""The playground's numbers: against closed forms, against each other, and the same ones when time goes back."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.core.errors import DataError
from wengert.explorer.playground import EXPERIMENTS, Draws, Playground, Session, history, points
from wengert.explorer.playground.classify import SURFACE, Separate
from wengert.explorer.playground.controls import Control
from wengert.explorer.playground.controls import settings as options
from wengert.explorer.playground.curvature import sharpness
from wengert.explorer.playground.flow import Vanishing
from wengert.explorer.playground.history import History
from wengert.explorer.playground.line import FitLine, by_hand, by_optimizer
from wengert.explorer.playground.protocol import Command, as_bytes, command, packed
from wengert.explorer.playground.protocol import history as thinned
from wengert.explorer.playground.run import MOMENTUM, Run
from wengert.explorer.playground.script import ScriptFault, script_run
from wengert.explorer.playground.units import DeadUnits
from wengert.explorer.server import Message

SMALL: dict[str, dict[str, Any]] = {
    "line": {"batch": 8},
    "separate": {"layers": 2, "width": 4, "points": 60},
    "regress": {"layers": 2, "width": 4, "points": 60},
    "dead": {"layers": 2, "width": 6, "points": 60},
    "vanishing": {"depth": 3, "width": 4, "points": 60},
}


def run(name: str, **given: Any) -> Run:
    kind = EXPERIMENTS[name]
    return kind(options(kind.controls, {**SMALL[name], **given}))


def line(**given: Any) -> FitLine:
    return FitLine(options(FitLine.controls, given))


def after(past: History, steps: int) -> History:
    for _ in range(steps):
        past.advance()
    return past


def state(found: Run) -> list[Any]:
    """A run's state as plain values that compare bit by bit."""
    kept = found.save()
    buffers = [{k: v.tobytes() if isinstance(v, np.ndarray) else v for k, v in b.items()} for b in kept.buffers]
    return [kept.options, [p.tobytes() for p in kept.parameters], buffers, kept.generator]


# -- fit a line, against closed forms


def design(found: FitLine) -> tuple[np.ndarray, np.ndarray]:
    x, y = found.x.numpy(), found.y.numpy()
    return np.stack([x, np.ones_like(x)], axis=1), y


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.0, 0.8, 4.0])
def test_curvature_and_optimum_are_those_of_least_squares(seed: int, noise: float) -> None:
    found = line(seed=seed, noise=noise)
    columns, y = design(found)
    hessian = 2 * columns.T @ columns / len(y)
    assert found.curvature == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-7)
    best = np.linalg.solve(columns.T @ columns, columns.T @ y)
    assert found.best == pytest.approx(best)
    values = found.scene().values
    assert values["least"] == pytest.approx(np.mean((columns @ best - y) ** 2), rel=1e-9, abs=1e-20)


def test_sharpness_of_a_quadratic_with_known_eigenvalues() -> None:
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))
    matrix = wg.tensor(turn @ np.diag([0.1, 0.5, 1.0, 2.0, 3.0, 7.0]) @ turn.T)
    found = sharpness(lambda v: 0.5 * (v @ matrix @ v), [wg.tensor(np.ones(6))])
    assert found == pytest.approx(7.0, rel=1e-6)
    # Of largest size, whatever its sign.
    assert sharpness(lambda v: -0.5 * (v @ matrix @ v), [wg.tensor(np.ones(6))]) == pytest.approx(-7.0, rel=1e-6)


def test_sharpness_where_there_is_none() -> None:
    assert sharpness(lambda v: v.sum(), [wg.tensor(np.ones(3))]) == 0
    assert math.isnan(sharpness(lambda v: wg.log(v).sum(), [wg.tensor(np.zeros(2))]))


@pytest.mark.parametrize("how", ["plain", "momentum"])
@pytest.mark.parametrize("seed", [1, 5])
def test_the_limit_is_where_it_diverges(how: str, seed: int) -> None:
    limit = line(method=how, seed=seed).limit
    assert limit is not None
    factor = 2 * (1 + MOMENTUM) if how == "momentum" else 2
    assert limit == pytest.approx(factor / line(seed=seed).curvature)
    for share, settles in ((0.97, True), (1.03, False)):
        found = after(History(line(seed=seed)), 0).run
        assert isinstance(found, FitLine)
        found.set("method", how)
        found.options["rate"] = share * limit
        for group in found.optimizer.param_groups:
            group["lr"] = share * limit
        with np.errstate(all="ignore"):
            for _ in range(1500):
                found.step()
            loss = found.measure()[0]
        least = found.scene().values["least"]
        assert (loss == pytest.approx(least, rel=1e-3)) if settles else not loss < 1e3


def test_adam_has_no_such_limit() -> None:
    assert line(method="Adam").limit is None


@pytest.mark.parametrize("how", ["plain", "momentum", "Adam"])
@pytest.mark.parametrize("batch", [3, 24])
def test_what_is_shown_of_a_step_is_what_the_step_does(how: str, batch: int) -> None:
    found = line(method=how, batch=batch, rate=0.1)
    for _ in range(5):
        before = state(found)
        shown = found.shown().values
        assert state(found) == before
        now, way = np.array(shown["now"]), np.array(shown["direction"])
        np.testing.assert_allclose(now - 0.1 * way, shown["next"], rtol=1e-12)
        found.step()
        assert [p.item() for p in found.parameters] == shown["next"]
        if how == "plain":
            assert shown["direction"] == shown["gradient"]


def test_the_code_that_is_shown_is_what_runs() -> None:
    found = line()
    for how, loop in (("plain", by_hand), ("Adam", by_optimizer)):
        found.set("method", how)
        shown = found.shown().values
        w, b = (wg.tensor(p.item(), dtype="float64", requires_grad=True) for p in found.parameters)
        optimizer = wg.optim.Adam([w, b], lr=found.options["rate"])
        space = {
            "w": w,
            "b": b,
            "x": found.x,
            "y": found.y,
            "lr": found.options["rate"],
            "optimizer": optimizer,
            "no_grad": wg.no_grad,
        }
        exec("\n".join(shown["code"]), space)
        assert [space["w"].item(), space["b"].item()] == shown["next"], loop
        assert "-=" in shown["code"][shown["lit"]] or "step" in shown["code"][shown["lit"]]


def test_both_loops_are_gradient_descent() -> None:
    found = line()
    pairs = [[wg.tensor(v, dtype="float64", requires_grad=True) for v in (-1.5, 1.2)] for _ in range(2)]
    optimizer = wg.optim.SGD(pairs[1], lr=0.3)
    for _ in range(10):
        by_hand(*pairs[0], found.x, found.y, 0.3)
        by_optimizer(*pairs[1], found.x, found.y, optimizer)
        assert [p.item() for p in pairs[0]] == [p.item() for p in pairs[1]]


def test_the_recorded_step_has_the_numbers_of_the_step() -> None:
    found = line(batch=5)
    shown, before = found.shown().values, state(found)
    recording = found.record().recording
    assert state(found) == before
    gradients = [float(r.gradient) for r in recording.rows if r.kind == "param"]
    assert gradients == shown["gradient"]


# -- networks


def test_surface_and_neurons_are_what_the_network_gives() -> None:
    found = run("separate")
    assert isinstance(found, Separate)
    for _ in range(20):
        found.step()
    shown = found.shown()
    # Rows from the top, columns from the left.
    edge = found.scene().values["edge"]
    side = np.linspace(-edge, edge, SURFACE)
    x = np.array([(a, b) for b in side[::-1] for a in side])
    for w, b in zip(shown.values["weights"][:-1], shown.values["biases"]):
        x = np.tanh(x @ np.array(w).T + np.array(b))
    logits = x @ np.array(shown.values["weights"][-1][0]) + shown.values["biases"][-1]
    surface = 128 + 127 * np.tanh(logits / 2)
    # The weights that are told have three decimals.
    np.testing.assert_allclose(shown.arrays["surface"].ravel(), surface, atol=1.5)
    last = x[:, 0].reshape(SURFACE, SURFACE)[::2, ::2]
    told = shown.arrays["neurons"][-x.shape[1]]
    np.testing.assert_allclose(told, 128 + 127 * last / np.abs(last).max(), atol=1.5)


@pytest.mark.parametrize("name", ["separate", "dead", "vanishing"])
def test_measures_are_losses_and_shares(name: str) -> None:
    found = run(name)
    for _ in range(5):
        found.step()
    loss, test, right, test_right, *_ = found.measure()
    for x, labels, expected, share in (
        (found.x, found.labels, loss, right),
        (found.test_x, found.test_labels, test, test_right),
    ):
        with wg.no_grad():
            z = found.net(x).numpy().astype(np.float64)
        y = labels.numpy()
        assert expected == pytest.approx(np.mean(np.logaddexp(0, z) - y * z), rel=1e-5)
        assert share == pytest.approx(np.mean((z > 0) == (y > 0.5)))


def test_dead_units_are_those_that_the_library_finds() -> None:
    found = DeadUnits(options(DeadUnits.controls, {"layers": 3, "width": 12, "bias": -0.8, "points": 80}))
    for _ in range(10):
        found.step()
    expected = wg.explain.dead_units(found.net, found.x)
    assert found.dead() == [list(layer.dead) for layer in expected.layers]
    assert sum(map(len, found.dead())) > 0
    for share, layer in zip(found.shares()[0], expected.layers):
        np.testing.assert_allclose(share, layer.active, atol=1e-6)
    assert found.measure()[4] == pytest.approx(expected and sum(len(d) for d in found.dead()) / 36)


def test_a_leak_keeps_units_alive() -> None:
    assert run("dead", bias=-3.0, scale=0.1, leak=True).measure()[4] == 0
    assert run("dead", bias=-3.0, scale=0.1).measure()[4] == 1


def test_units_that_are_no_number_are_not_dead() -> None:
    found = run("dead")
    for p in found.parameters:
        p.data = wg.tensor(np.full(p.shape, np.nan), dtype="float32")
    assert found.dead() == [[], []]
    assert json.loads(json.dumps(found.shown().values, allow_nan=False))["active"][0][0] == "nan"


def test_gradients_by_layer_are_those_of_the_loss() -> None:
    found = run("vanishing")
    assert isinstance(found, Vanishing)
    before = state(found)
    told = found.shown().values["gradients"]
    assert state(found) == before
    for i, layer in enumerate(found.net.layers):
        weight, step = layer.weight, 1e-2
        ways = np.random.default_rng(0).normal(size=weight.shape).astype(np.float32)
        start = weight.detach().numpy().copy()
        losses = []
        for sign in (1, -1):
            weight.data = wg.tensor(start + sign * step * ways)
            losses.append(found.measure()[0])
        weight.data = wg.tensor(start)
        exact = found.gradients()[i]
        assert np.vdot(exact, ways) == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=0.05, abs=2e-4)
        assert told[i] == pytest.approx(np.linalg.norm(exact), rel=1e-5)


def test_gradients_by_layer_are_not_added_to_those_of_a_step() -> None:
    found = run("vanishing")
    found.step()
    told = found.shown().values["gradients"]
    assert found.shown().values["gradients"] == told


def test_depth_makes_sigmoid_gradients_vanish_and_residuals_keep_them() -> None:
    def ratio(**given: Any) -> float:
        told = Vanishing(options(Vanishing.controls, {"points": 60, **given})).shown().values["gradients"]
        return told[0] / told[-1]

    assert ratio(depth=12) < 1e-5
    assert ratio(depth=12, residual=True, activation="tanh") > 0.1
    assert ratio(depth=12, activation="relu", start="He") > 1e-2
    assert ratio(depth=12, norm=True, activation="tanh") > 0.05


@pytest.mark.parametrize("name", ["separate", "dead", "vanishing"])
def test_penalties_and_recordings_leave_the_state_alone(name: str) -> None:
    found = run(name)
    found.step()
    before = state(found)
    found.shown(), found.record(), found.measure()
    assert state(found) == before


def test_regularisation_pulls_weights_in() -> None:
    def size(**given: Any) -> float:
        found = run("separate", method="plain", rate=0.1, **given)
        for _ in range(150):
            found.step()
        return sum(float(np.abs(layer.weight.detach().numpy()).sum()) for layer in found.net.layers)

    free = size()
    assert size(l1=0.01) < 0.9 * free
    assert size(l2=0.05) < 0.9 * free


# -- points


@pytest.mark.parametrize("name", points.SETS)
def test_sets_have_two_halves_and_fit_the_square(name: str) -> None:
    x, labels = points.made(name, 101, 0.0, Draws(4))
    again, _ = points.made(name, 101, 0.0, Draws(4))
    assert x.shape == (101, 2)
    assert labels.sum() == 50
    assert np.array_equal(x, again)
    assert np.abs(x).max() <= points.REACH * 1.4


@pytest.mark.parametrize("name", points.SURFACES)
def test_surfaces_have_heights_that_colours_can_say(name: str) -> None:
    x, heights = points.surface(name, 500, 0.0, Draws(4))
    assert np.abs(x).max() <= points.REACH
    assert np.abs(heights).max() <= 1.001
    assert heights.std() > 0.1
    noisy = points.surface(name, 500, 0.3, Draws(4))[1]
    assert (noisy - heights).std() == pytest.approx(0.3, rel=0.1)


def test_features_are_what_their_names_say() -> None:
    x = np.array([[0.5, -2.0], [3.0, 1.0]])
    found = points.features(x, list(points.FEATURES))
    expected = [[a, b, a * a, b * b, a * b, math.sin(a), math.sin(b)] for a, b in x]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    made = run("separate", **{"use xy": True, "use x": False})
    assert made.scene().values["features"] == ["y", "xy"]
    with pytest.raises(DataError, match="at least one feature"):
        run("separate", **{"use x": False, "use y": False})


def test_draws_are_spread_as_they_should_be() -> None:
    even, bell = Draws(7).uniform(-1.0, 3.0, 20000), Draws(8).normal((10000, 2))
    assert bell.shape == (10000, 2)
    assert (even.min() >= -1, even.max() < 3) == (True, True)
    assert even.mean() == pytest.approx(1.0, abs=0.03)
    assert (bell.mean(), bell.std()) == (pytest.approx(0.0, abs=0.03), pytest.approx(1.0, abs=0.03))
    assert sorted(Draws(9).chosen(50, 50)) == list(range(50))
    assert len(set(Draws(9).chosen(20, 50))) == 20
    going = Draws(3)
    going.uniform(0.0, 1.0, 5)
    assert np.array_equal(Draws.at(going.state).normal(4), going.normal(4))


def test_own_points_are_read_and_scaled() -> None:
    x, labels = points.read("a;b;kind\n" + "\n".join(f"{i};{i * i};{'odd' if i % 2 else 'even'}" for i in range(10)))
    assert x.shape == (10, 2)
    np.testing.assert_allclose(x.max(axis=0), 0.95 * points.REACH)
    np.testing.assert_allclose(x.min(axis=0), -0.95 * points.REACH)
    assert labels.tolist() == [0, 1] * 5
    points.read(points.EXAMPLE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "8 points"),
        ("1,2,a\n" * 9, "two classes"),
        ("1,2,a\n3,x,b\n", "line 2"),
        ("1,2,a\n3,4\n", "line 2"),
        ("1,2,a\n3,nan,b\n", "line 2"),
        ("1,2,a\n1,2,b\n1,2,c\n", "line 3"),
        ("x,y,class\n1,2,a,4\n", "line 2"),
        ("1,2,a\n" * 2500, "2,000"),
    ],
)
def test_own_points_that_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        points.read(text)


def test_points_in_one_place_are_no_division_by_zero() -> None:
    x, _ = points.read("\n".join(f"5,{i},{i % 2}" for i in range(9)))
    assert np.isfinite(x).all()


# -- time


CHANGES = {
    "line": [("rate", 0.2), ("method", "momentum"), ("batch", 5), ("method", "Adam"), ("rate", 0.05)],
    "separate": [("rate", 0.05), ("method", "plain"), ("l2", 0.01), ("method", "momentum"), ("batch", "8")],
    "regress": [("method", "momentum"), ("rate", 0.05), ("l1", 0.001), ("batch", "4"), ("method", "plain")],
    "dead": [("rate", 0.05), ("method", "Adam"), ("method", "plain"), ("rate", 0.5)],
    "vanishing": [("rate", 0.5), ("method", "momentum"), ("batch", "all"), ("rate", 0.01)],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_that_went_back_goes_on_as_one_that_never_left(name: str) -> None:
    """Seeks all over a run with changed settings, and steps on from there: bit by bit what they were."""
    past = History(run(name))
    states = [state(past.run)]
    for k in range(40):
        if k % 7 == 3 and k // 7 < len(CHANGES[name]):
            past.set(*CHANGES[name][k // 7])
            states[-1] = state(past.run)
        past.advance()
        states.append(state(past.run))
    series = [list(s) for s in past.series]
    for step in (39, 0, 11, 10, 25, 3, 4, 40, 17, 24):
        past.seek(step)
        assert past.at == step
        assert state(past.run) == states[step]
    while past.at < 40:
        past.advance()
        assert state(past.run) == states[past.at]
    assert [list(s) for s in past.series] == series
    assert not past.drifted


@pytest.mark.parametrize("name", ["line", "separate"])
def test_a_new_course_from_an_old_step(name: str) -> None:
    direct = after(History(run(name)), 12)
    direct.set("rate", 0.011)
    after(direct, 9)
    back = after(History(run(name)), 30)
    back.seek(12)
    assert back.last == 30
    back.set("rate", 0.011)
    assert back.last == 12
    after(back, 9)
    assert state(back.run) == state(direct.run)
    # What was kept of the old course is gone too.
    for past in (back, direct):
        past.seek(14)
    assert state(back.run) == state(direct.run)
    assert [list(s) for s in back.series] == [list(s) for s in direct.series]


def test_memory_is_bounded_and_the_past_still_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST", 8)
    past = after(History(run("line")), 300)
    assert past.kept <= 8
    assert past.stride >= 32
    for step in (299, 5, 150):
        past.seek(step)
        assert [p.item() for p in past.run.parameters] == [past.series[1][step], past.series[2][step]]
    monkeypatch.setattr(history, "MOST", 512)
    monkeypatch.setattr(history, "ROOM", 1)
    assert after(History(run("line")), 100).kept <= 8


def test_a_run_that_is_no_function_of_its_state_is_noticed() -> None:
    class Restless(FitLine):
        clock = 0

        def step(self) -> None:
            Restless.clock += 1
            self.w.data = wg.tensor(float(self.clock), dtype="float64")

    past = after(History(Restless(options(FitLine.controls, {}))), 6)
    past.seek(2)
    assert not past.drifted
    past.advance()
    assert past.drifted
    # What was known of later steps no longer holds.
    assert past.last == 3


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_seeds_decide(name: str) -> None:
    one, same, other = (after(History(run(name, seed=s)), 6) for s in (3, 3, 4))
    assert [list(s) for s in one.series] == [list(s) for s in same.series]
    assert list(one.series[0]) != list(other.series[0])


def test_divergence_is_shown_and_not_raised() -> None:
    past = History(line(rate=3.0))
    with np.errstate(all="ignore"):
        after(past, 800)
        shown = past.run.shown()
    assert not math.isfinite(past.series[0][-1])
    text = packed(
        {"values": shown.values, "history": thinned({"loss": past.series[0]}, past.at)}, shown.arrays
    ).encoded()
    assert "nan" in str(text)
    past.seek(3)
    assert math.isfinite(past.run.measure()[0])


# -- what comes in


@pytest.mark.parametrize("kind", EXPERIMENTS.values(), ids=lambda k: k.name)
def test_controls_refuse_what_is_out_of_bounds(kind: type[Run]) -> None:
    for control in kind.controls:
        assert control.checked(control.default) == control.default
        for wrong in (None, [], {}, float("nan"), float("inf"), "x" * 200_000, 10**400, -1e300, b"", object()):
            with pytest.raises(DataError):
                control.checked(wrong)
        if control.kind == "number":
            for wrong in (control.low - 1, control.high + 1, True, str(control.default)):
                with pytest.raises(DataError):
                    control.checked(wrong)
            assert control.checked(control.low) == control.low
            assert control.checked(control.high) == control.high
    with pytest.raises(DataError):
        options(kind.controls, {"nothing": 1})
    names = [control.name for control in kind.controls]
    assert len(names) == len(set(names))
    json.dumps([control.described() for control in kind.controls])


def test_whole_numbers_are_whole() -> None:
    control = Control("n", "N", 3, low=1, high=9, whole=True)
    assert control.checked(4.0) == 4
    assert isinstance(control.checked(4.0), int)
    with pytest.raises(DataError):
        control.checked(4.5)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
TYPES = ["open", "set", "play", "step", "seek", "reset", "pace", "record", "seen", "details", "x"]
MESSAGES = JSON | st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional={
        "experiment": JSON | st.sampled_from([*EXPERIMENTS, ""]),
        "options": JSON | st.dictionaries(st.sampled_from(["rate", "seed", "method"]), JSON),
        "name": JSON | st.sampled_from(["rate", "method", "seed", "noise"]),
        "value": JSON,
        "on": JSON,
        "count": JSON | st.integers(-2, 4),
        "step": JSON | st.integers(-2, 10),
        "id": JSON,
        "node": JSON,
        "gradient": JSON,
    },
)


@given(MESSAGES)
@settings(max_examples=120, deadline=None)
def test_messages_are_commands_or_refused(message: Any) -> None:
    try:
        found = command(message)
    except DataError:
        return
    assert isinstance(found, Command)
    assert found.kind in TYPES


class Page:
    """A page that remembers what it is told."""

    def __init__(self, experiments: Any = EXPERIMENTS) -> None:
        self.told: list[Message] = []
        self.session = Session(experiments, self.told.append)

    def send(self, **message: Any) -> None:
        self.session.receive(message)

    def wait(self, condition: Any, what: str = "") -> dict[str, Any]:
        """The first message, from the newest back, that is as it should be; waits for it."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for message in reversed(self.told):
                if condition(message.header):
                    return dict(message.header)
            time.sleep(0.005)
        raise AssertionError(f"never told: {what}; last {[m.header.get('type') for m in self.told[-5:]]}")

    def frame(self, condition: Any = lambda f: True) -> dict[str, Any]:
        return self.wait(lambda m: m["type"] == "frame" and condition(m), "frame")

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *error: object) -> None:
        self.session.close()
        assert self.session.join(20)


def test_a_session_begins_with_what_there_is() -> None:
    with Page() as page:
        page.frame()
        page.wait(lambda m: m["type"] == "trace")
        kinds = [m.header["type"] for m in page.told[:4]]
        assert kinds == ["welcome", "scene", "frame", "trace"]
        listed = page.told[0].header["experiments"]
        assert [e["name"] for e in listed] == list(EXPERIMENTS)
        assert {e["view"] for e in listed} <= {"line", "network", "units", "flow", "script"}


def test_a_session_plays_to_its_horizon_and_on() -> None:
    with Page() as page:
        page.send(type="pace", value=2000)
        page.send(type="play", on=True)
        end = page.frame(lambda f: f["step"] == 40 and not f["playing"])
        assert end["history"]["steps"][-1] == 40
        page.send(type="seek", step=10)
        back = page.frame(lambda f: f["step"] == 10)
        assert back["last"] == 40
        page.send(type="seek", step=40)
        page.frame(lambda f: f["step"] == 40 and f is not end)
        page.send(type="play", on=True)
        assert page.frame(lambda f: f["step"] > 40)["horizon"] == 80
        page.send(type="reset")
        page.frame(lambda f: f["run"] == 2)


def test_steps_are_counted_from_where_the_run_stands() -> None:
    """A page that asks quickly has not seen what came of its last step."""
    with Page() as page:
        for count in (5, -1, -1, 1, -2):
            page.send(type="step", count=count)
        page.frame(lambda f: (f["step"], f["last"]) == (2, 5))
        page.send(type="step", count=-100)
        page.frame(lambda f: f["step"] == 0)


def test_settings_that_restart_and_settings_that_do_not() -> None:
    with Page() as page:
        page.send(type="step", count=3)
        page.send(type="set", name="rate", value=0.25)
        assert page.frame(lambda f: f["options"]["rate"] == 0.25)["step"] == 3
        page.send(type="set", name="noise", value=2.0)
        fresh = page.frame(lambda f: f["options"]["noise"] == 2.0)
        assert (fresh["run"], fresh["step"], fresh["options"]["rate"]) == (2, 0, 0.25)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_in_a_session(name: str) -> None:
    with Page() as page:
        page.send(type="open", experiment=name, options=SMALL[name])
        page.send(type="step", count=2)
        found = page.frame(lambda f: f["run"] == 2 and f["step"] == 2)
        page.wait(lambda m: m["type"] == "trace" and (m["run"], m["step"]) == (2, 2))
        assert set(EXPERIMENTS[name].series) < set(found["history"])
        page.send(type="details", id=9, node=0, gradient=False)
        assert page.wait(lambda m: m["type"] == "details")["id"] == 9


@pytest.mark.parametrize(
    "message",
    [
        {"type": "open", "experiment": "nothing"},
        {"type": "open", "experiment": "line", "options": {"rate": 99}},
        {"type": "open", "experiment": "separate", "options": {"data": "own", "csv": "1,2,3"}},
        {"type": "set", "name": "layers", "value": 4},
        {"type": "set", "name": "rate", "value": "much"},
        {"type": "step", "count": 10**9},
        {"type": "seek", "step": -1},
        {"type": "pace", "value": 1e9},
        {"type": "details", "id": 1, "node": 10**6, "gradient": False},
        {"type": "nothing"},
        [],
        None,
    ],
)
def test_what_cannot_be_followed_changes_nothing(message: Any) -> None:
    with Page() as page:
        page.send(type="step", count=2)
        page.frame(lambda f: f["step"] == 2)
        page.session.receive(message)
        told = page.wait(lambda m: m["type"] == "error")
        # No place in this process is told to the page.
        assert told["text"]
        assert "(" not in told["text"] or ".py" not in told["text"]
        page.send(type="step")
        assert page.frame(lambda f: f["step"] == 3)["run"] == 1


@given(st.lists(MESSAGES, max_size=12))
@settings(max_examples=15, deadline=None)
def test_a_session_outlives_any_messages(messages: list[Any]) -> None:
    with Page({"line": FitLine}) as page:
        for message in messages:
            page.session.receive(message)
        page.send(type="open", experiment="line", options={"seed": 77})
        page.frame(lambda f: f["options"]["seed"] == 77)


def test_frames_are_json_with_their_arrays_behind_them() -> None:
    arrays = {"a": np.arange(5, dtype=np.uint8), "b": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)}
    sent = packed({"type": "scene"}, arrays).encoded()
    assert isinstance(sent, bytes)
    start = 4 + int.from_bytes(sent[:4], "little")
    table = json.loads(sent[4:start])["arrays"]
    for name, array in arrays.items():
        place = table[name]
        dtype = np.dtype(f"<{place['dtype']}")
        found = np.frombuffer(sent, dtype, int(np.prod(place["shape"])), start + place["offset"])
        assert (start + place["offset"]) % dtype.itemsize == 0
        assert np.array_equal(found.reshape(place["shape"]), array)


def test_numbers_as_bytes() -> None:
    assert as_bytes(np.array([-1.0, 0.0, 1.0, 5.0, -np.inf, np.nan])).tolist() == [1, 128, 255, 255, 1, 0]
    assert as_bytes(np.array([-2.0, 1.0]), reach=2.0).tolist() == [1, 192]


@given(st.integers(1, 3000), st.data())
@settings(max_examples=25, deadline=None)
def test_thinned_series_keep_their_ends_and_the_present(length: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, length - 1))
    found = thinned({"loss": [float(k) for k in range(length)]}, at)
    assert {0, at, length - 1} <= set(found["steps"])
    assert found["steps"] == sorted(set(found["steps"]))
    assert len(found["steps"]) <= 404
    assert [float(f"{k:.6g}") for k in found["steps"]] == found["loss"]


# -- the reader's own script


def script(tmp_path: Path, text: str, **given: Any) -> Run:
    file = tmp_path / "own.py"
    file.write_text(text)
    kind = script_run(file)
    return kind(options(kind.controls, given))


STEPS = """
import random
import numpy as np
import wengert as wg

model = wg.nn.Linear(2, 1)
count = 0

def step():
    global count
    count += 1
    x = wg.randn(8, 2)
    loss = (model(x) ** 2).mean() + random.random() + np.random.random() + count
    loss.backward()
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad
        p.grad = None
    return loss
"""


def test_a_script_goes_back_by_running_again(tmp_path: Path) -> None:
    past = after(History(script(tmp_path, STEPS)), 12)
    before = [list(s) for s in past.series]
    past.seek(4)
    assert past.run.module.count == 4
    after(past, 8)
    assert [list(s)[1:] for s in past.series] == [list(s)[1:] for s in before]
    assert not past.drifted
    assert list(after(History(script(tmp_path, STEPS, seed=2)), 3).series[0])[1:] != before[0][1:4]


def test_a_script_with_a_generator(tmp_path: Path) -> None:
    past = History(script(tmp_path, "def run():\n    for k in range(3):\n        yield 1 / (k + 1)\n"))
    after(past, 3)
    assert list(past.series[0])[1:] == [1, 1 / 2, 1 / 3]
    with pytest.raises(ScriptFault) as ended:
        past.advance()
    assert "end" in ended.value.told["text"]
    past.seek(1)
    assert past.at == 1


def test_parameters_of_a_script(tmp_path: Path) -> None:
    shown = script(tmp_path, STEPS).shown().values
    assert [(p["name"], p["shape"], p["gradient"]) for p in shown["parameters"]] == [
        ("weight", [1, 2], None),
        ("bias", [1], None),
    ]
    text = "import wengert as wg\nw = wg.tensor([3.0, 4.0], requires_grad=True)\nstep = lambda: 0.0\n"
    (row,) = script(tmp_path, text).shown().values["parameters"]
    assert (row["name"], row["size"]) == ("w", pytest.approx(math.sqrt(12.5)))


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("def step():\n    return missing\n", "NameError", 2),
        ("def helper():\n    raise ValueError('so')\ndef step():\n    return helper()\n", "ValueError: so", 2),
        ("def step():\n    raise SystemExit(3)\n", "SystemExit", 2),
        ("def step():\n    return 'much'\n", "a number, and not str", 0),
        ("import wengert as wg\ndef step():\n    return wg.zeros(3)\n", "a number", 0),
        ("import wengert as wg\ndef step():\n    return (wg.zeros(3) @ wg.zeros(4)).sum()\n", "ShapeError", 3),
        ("x = 1\n", "neither step() nor run()", 0),
        ("def run():\n    return 3\n", "generator", 0),
        ("def step(:\n", "SyntaxError", 1),
        ("1 / 0\n", "ZeroDivisionError", 1),
    ],
)
def test_errors_of_a_script_say_where(tmp_path: Path, text: str, says: str, line: int) -> None:
    found = script(tmp_path, text)
    with pytest.raises(ScriptFault) as fault:
        found.step()
    told = fault.value.told
    assert says in told["text"]
    assert told["line"] == line
    if line:
        assert told["file"] == "own.py"
        assert told["code"] in text


def test_a_broken_script_in_a_session_can_be_mended(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("def step():\n    return 1 / 0\n")
    with Page({"script": script_run(file)}) as page:
        page.send(type="play", on=True)
        told = page.frame(lambda f: f["fault"] is not None)
        assert (told["fault"]["line"], told["playing"], told["step"]) == (2, False, 0)
        file.write_text("def step():\n    return 0.5\n")
        page.send(type="reset")
        page.send(type="step")
        assert page.frame(lambda f: f["run"] == 2 and f["step"] == 1)["fault"] is None


def test_a_step_of_a_script_can_be_looked_into(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(STEPS)
    with Page({"script": script_run(file)}) as page:
        page.send(type="step")
        page.frame(lambda f: f["step"] == 1)
        page.send(type="record")
        document = page.wait(lambda m: m["type"] == "trace")["document"]
        assert len(document["nodes"]["op"]) > 5
        assert page.frame(lambda f: f["step"] == 2)["fault"] is None


def test_the_playground_refuses_scripts_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no script"):
        Playground(tmp_path / "none.py")
    (tmp_path / "own.py").write_text(STEPS)
    assert next(iter(Playground(tmp_path / "own.py").experiments)) == "script"


# -- by hand, and away


@pytest.mark.parametrize("name", ["line", "separate"])
def test_a_number_that_was_set_by_hand_is_part_of_the_past(name: str) -> None:
    past = after(History(run(name)), 4)
    before = list(past.series[0])
    past.edit(0, 0, 1.25)
    assert past.run.parameters[0].detach().numpy().flat[0] == 1.25
    assert list(past.series[0][:4]) == before[:4]
    assert past.series[0][4] == past.run.measure()[0] != before[4]
    after(past, 3)
    there = state(past.run)
    past.seek(1)
    past.seek(7)
    assert state(past.run) == there
    assert not past.drifted
    for parameter, index in ((99, 0), (0, 10**6), (-1, 0)):
        with pytest.raises(DataError, match="no such number"):
            past.edit(parameter, index, 0.0)


def test_the_step_at_which_a_run_diverges() -> None:
    past = after(History(line(rate=2.0)), 12)
    losses = list(past.series[0])
    expected = next(k for k, x in enumerate(losses) if x > 1e4 * losses[0])
    assert past.diverged == expected
    past.seek(expected - 1)
    assert past.diverged == expected
    past.set("rate", 0.01)
    assert past.diverged is None
    assert after(History(line(rate=0.1)), 30).diverged is None


@pytest.mark.parametrize("name", ["line", "separate", "regress", "dead", "vanishing"])
def test_what_is_told_for_a_script_is_the_state(name: str) -> None:
    found = run(name, method="Adam", batch=8 if name == "line" else "8")
    for _ in range(3):
        found.step()
    told = json.loads(json.dumps(found.told(), allow_nan=False))
    kept = found.save()
    for values, p in zip(told["parameters"], kept.parameters, strict=True):
        assert np.array_equal(np.array(values, p.dtype), p)
    for buffers, b in zip(told["buffers"], kept.buffers, strict=True):
        for key, value in buffers.items():
            assert np.array_equal(np.array(value, np.asarray(b[key]).dtype), b[key])
    assert tuple(told["generator"]) == kept.generator
