"""Training watched in the browser: what the page is told, what it shows, and that nothing else is asked for."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from importlib import resources
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import DTypeError, ShapeError
from wengert.explorer.inside import Checkpoints, distribution
from wengert.explorer.server import Message
from wengert.explorer.watch import Pace, Series, Watched, Watcher, resident
from wengert.train import Callback, Run, Watch, fit

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
mse = wg.nn.functional.mse_loss
X = np.random.default_rng(0).standard_normal((64, 4)).astype(np.float32)


def told(message: Message) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a message, read as the page does."""
    data = message.encoded()
    length = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + length])
    arrays = {}
    for name, at in header.pop("arrays", {}).items():
        assert at["dtype"] == "f4"
        arrays[name] = np.frombuffer(data, "<f4", int(np.prod(at["shape"])), 4 + length + at["offset"])
    return header, arrays


def trained(*looking: Callback, epochs: int = 2, loss: Any = mse, **options: Any) -> wg.train.History:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.Tanh(), wg.nn.Linear(8, 1))
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)
    return fit(
        model,
        optimizer,
        loss,
        (X, X[:, :1]),
        batch_size=16,
        epochs=epochs,
        callbacks=looking,
        **{"progress": False, "compile": False, **options},
    )


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch(open=False, every=3, title="a <title>")
    yield made
    made.close()


def test_a_long_series_stays_short() -> None:
    series = Series(100)
    values = np.random.default_rng(0).standard_normal(5000)
    for step, value in enumerate(values, 1):
        series.add(step, value)
    steps, mean, low, high = series.arrays()
    assert 100 <= len(steps) <= 200
    assert steps[0] == 1
    assert (low.min(), high.max()) == (np.float32(values.min()), np.float32(values.max()))
    width = int(steps[1] - steps[0])
    np.testing.assert_allclose(mean[:-1], values[: (len(steps) - 1) * width].reshape(-1, width).mean(1), rtol=1e-5)
    assert all(len(x) == 0 for x in Series().arrays())


def test_looks_come_as_seldom_as_they_must() -> None:
    """Steps of 1 ms, looks of 80 ms that may take 1 % of the time: one in 8000 steps; a slow first one is forgotten."""
    now = 0.0
    pace = Pace(200, 0.01)
    looked = []
    for step in range(1, 40_001):
        now += 0.001
        if step >= pace.next:
            took = 3.0 if step == 1 else 0.0799
            now += took
            looked.append(step)
            pace.done(step, took, now)
    assert looked[:2] == [1, 2]
    assert 7990 < looked[2] < 8000
    assert set(np.diff(looked[3:])) == {8000}


def test_slow_trainings_are_looked_at_early() -> None:
    pace = Pace(200, 0.01)
    looked = []
    for step in range(1, 801):
        if step >= pace.next:
            looked.append(step)
            pace.done(step, 0.0, float(step))
    assert looked == [1, 2, 4, 8, 16, 32, 64, 128, 256, 400, 600, 800]


def test_looks_come_as_often_as_was_said() -> None:
    pace = Pace(3, None)
    looked = []
    for step in range(1, 11):
        if step >= pace.next:
            looked.append(step)
            pace.done(step, 1e6, 0.0)
    assert looked == [1, 3, 6, 9]


def test_what_the_page_is_told(watch: Watch) -> None:
    changes: list[list[float]] = []

    class Changes(Callback):
        """The same by other means."""

        def on_step_start(self, run: Run) -> None:
            self.before = [np.array(p.detach().numpy()) for p in run.parameters]

        def on_step_end(self, run: Run) -> None:
            pairs = [(b, p.detach().numpy()) for b, p in zip(self.before, run.parameters)]
            changes.append([float(np.linalg.norm(p - b) / np.linalg.norm(b)) for b, p in pairs])

    history = trained(watch, Changes(), validation=(X, X[:, :1]))
    watched = watch.watcher.watched
    watch.close()
    header, arrays = told(watched.frame())
    assert (header["state"], header["step"], header["epoch"], header["epochs"]) == ("finished", 8, 2, 2)
    np.testing.assert_allclose(arrays["mean"], history.steps["loss"], rtol=1e-6)
    assert arrays["steps"].tolist() == list(range(1, 9))
    assert [row["val_loss"] for row in header["rows"]] == history["val_loss"].tolist()
    # The first step, and every third.
    assert header["sampled"] == 6
    assert arrays["norm_steps"].tolist() == [1, 3, 6]
    np.testing.assert_allclose(arrays["ratio"], changes[5], rtol=1e-4)
    np.testing.assert_allclose(arrays["norm"][-1], np.sqrt((arrays["gradient"] ** 2).sum()), rtol=1e-5)
    assert (arrays["ratio"] > 0).all()
    assert header["memory"] == 0 or header["memory"] > 1e7
    assert resident() >= 0


def test_samples_change_nothing_but_last_bits(watch: Watch) -> None:
    one, other = trained(watch, compile=True), trained(compile=True)
    np.testing.assert_allclose(one.steps["loss"], other.steps["loss"], rtol=1e-5)


def test_how_it_ended(watch: Watch) -> None:
    class Failing(Callback):
        def on_step_end(self, run: Run) -> None:
            raise ZeroDivisionError("at step 1")

    class Stopping(Callback):
        def on_step_end(self, run: Run) -> None:
            run.stop("enough")

    with pytest.raises(ZeroDivisionError):
        trained(watch, Failing())
    assert watch.watcher is not None
    watched = watch.watcher.watched
    watch.close()
    assert told(watched.frame())[0]["note"] == "ZeroDivisionError: at step 1"
    trained(watch, Stopping())
    watched = watch.watcher.watched
    watch.close()
    header, _ = told(watched.frame())
    assert (header["state"], header["note"]) == ("stopped", "enough")
    watch.close()


def test_numbers_that_are_none() -> None:
    watched = Watched("x", [], 1)
    for step, loss in enumerate((1.0, math.inf, math.nan, 2.0), 1):
        watched.step(step, {"loss": loss})
    watched.step(5, {"loss": -math.inf})
    watched.tick()
    header, arrays = told(watched.frame())
    assert header["values"] == {"loss": "-inf"}
    assert np.isfinite(arrays["smooth"]).all()
    np.testing.assert_array_equal(arrays["mean"], np.float32([1, np.inf, np.nan, 2, -np.inf]))


def test_a_step_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    model = wg.nn.Linear(4, 1)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    @wg.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = mse(model(x), x[:, :1])
        loss.backward()
        optimizer.step()
        return loss

    watched = wg.explore.watch(step, model, every=2, open=False, title="mine")
    x = wg.asarray(X)
    losses = [watched(x).item() for _ in range(4)]
    assert re.fullmatch(r"watch mine: http://127\.0\.0\.1:\d+/\?token=\S+\n", capsys.readouterr().err)
    watched.watcher.close()
    header, arrays = told(watched.watcher.watched.frame())
    np.testing.assert_allclose(arrays["mean"], losses, rtol=1e-6)
    assert header["sampled"] == 4
    assert len(arrays["ratio"]) == len(arrays["gradient"]) == 2
    assert np.isfinite(arrays["gradient"]).all()
    for returned in ({"loss": 1.0, "text": "x"}, (wg.asarray(2.0), "aux"), np.float32(3)):
        one = wg.explore.watch(lambda returned=returned: returned, open=False)
        assert one() is returned
        one.watcher.close()
    none = wg.explore.watch(lambda: None, open=False)
    with pytest.raises(DTypeError, match="a watched step that returns a NoneType, no loss"):
        none()
    none.watcher.close()
    failing = wg.explore.watch(lambda: 1 / 0, open=False)
    with pytest.raises(ZeroDivisionError):
        failing()
    failing.watcher.close()
    assert told(failing.watcher.watched.frame())[0]["state"] == "failed"


def test_most_of_many_fast_steps_are_the_bare_call() -> None:
    """Steps that take no time are told of now and then; what the page wants, and how it ends, is seen at once."""
    made = 0

    def step(x: float, *, scale: float = 1.0) -> float:
        nonlocal made
        made += 1
        if x < 0:
            raise ZeroDivisionError(f"at step {made}")
        return x * scale

    watched = wg.explore.watch(step, {"w": wg.ones(2)}, open=False)
    state = watched.watcher.watched
    assert [watched(float(i), scale=2.0) for i in range(5000)] == [2.0 * i for i in range(5000)]
    state.tick()
    header, arrays = told(state.frame())
    assert 50 <= len(arrays["steps"]) < 2500
    assert arrays["steps"][:50].tolist() == list(range(1, 51))
    # A loss stands at its own step.
    assert arrays["mean"].tolist() == (2 * (arrays["steps"] - 1)).tolist()
    # All steps count, and the average is over those that were made.
    assert header["step"] == 5000
    np.testing.assert_allclose(arrays["smooth"][-1], arrays["mean"][-1], rtol=0.05)
    talk = state.open(lambda message: None)
    talk.receive({"type": "look"})
    for step in (5001, 5002):
        # Asked for in the first, recorded in the second.
        assert state.due == 0
        watched(7.0)
        state.tick()
        assert told(state.frame())[0]["step"] == step
    assert state.due > 5002
    assert watched(1.0) == 1.0
    with pytest.raises(ZeroDivisionError):
        watched(-1.0)
    watched.watcher.close()
    header, _ = told(state.frame())
    assert (header["state"], header["note"]) == ("failed", "ZeroDivisionError: at step 5004")


def test_the_last_loss_is_read_where_no_step_follows() -> None:
    losses = iter(range(1, 10_000))
    watched = wg.explore.watch(lambda: float(next(losses)), open=False)
    state = watched.watcher.watched
    while state.due <= state.made() + 1 or state.made() < 60:
        watched()
    watched()
    last = state.made()
    state.tick()
    header = told(state.frame())[0]
    # A loss is said with the step that it is of.
    assert header["values"]["loss"] == header["valued"]
    assert header["valued"] < header["step"] == last
    deadline = time.monotonic() + 20
    while header["valued"] < last:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        header = told(state.frame())[0]
    assert header["values"]["loss"] == last
    assert header["state"] == "training"
    time.sleep(0.3)
    state.tick()
    assert told(state.frame())[0]["idle"] > 1
    while state.due <= state.made() + 1:
        watched()
    watched()
    watched.watcher.close()
    header = told(state.frame())[0]
    assert header["values"]["loss"] == header["valued"] == header["step"] > last


def test_a_slow_step_is_told_of_whenever_it_is_made() -> None:
    watched = wg.explore.watch(lambda: time.sleep(0.1) or 1.0, open=False)
    for _ in range(9):
        watched()
    watched.watcher.close()
    assert told(watched.watcher.watched.frame())[1]["steps"].tolist() == list(range(1, 10))


def test_activations_are_those_of_the_step(watch: Watch) -> None:
    """For a loop of one's own they are of the step itself; in `fit` of one more pass, which changes nothing."""
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Dropout(0.5), wg.nn.Linear(8, 1))

    @wg.jit
    def step(x: Any) -> Any:
        return mse(model(x), x[:, :1])

    x = wg.asarray(X)
    watched = wg.explore.watch(step, model, every=1, open=False)
    for _ in range(11):
        watched(x)
    watched.watcher.close()
    header, arrays = told(watched.watcher.watched._activations)
    assert (header["step"], header["names"]) == (10, ["0", "1", "2", "3"])
    first = model[0](x).detach().numpy()
    counts = arrays["counts"].reshape(4, 32)
    np.testing.assert_array_equal(counts[0], np.histogram(first, 32, (first.min(), first.max()))[0])
    np.testing.assert_allclose([arrays["mean"][0], arrays["std"][0]], [first.mean(), first.std()], rtol=1e-4)
    np.testing.assert_allclose(arrays["zeros"][1], (first <= 0).mean())
    one = trained(watch, epochs=3)
    assert watch.watcher is not None
    state = watch.watcher.watched
    watch.close()
    assert told(state._activations)[0]["names"] == ["0", "1", "2"]
    assert one.steps["loss"].tolist() == trained(epochs=3).steps["loss"].tolist()


def test_histograms_count_what_is_finite() -> None:
    found = distribution(np.float32([0, 0, 1, 2, math.nan, math.inf]))
    assert (found.low, found.high, found.zeros, found.bad) == (0.0, 2.0, 0.5, 2)
    assert found.counts[[0, 16, 31]].tolist() == [2, 1, 1]
    for none in (np.float32([]), np.float32([math.nan])):
        assert distribution(none).counts.sum() == 0
    assert distribution(np.float32(3.0)).counts.sum() == 1
    assert distribution(np.ones((300, 300), np.float16)[::2, ::-3]).counts[0] > 4000


def test_norms_of_modules() -> None:
    """A module's gradient is as long as those of its parameters; many modules are told of by what holds them."""
    watched = Watched("x", [(name, wg.ones(2)) for name in ("a.0.weight", "a.0.bias", "b.weight", "scale")], 1)
    watched._queue.append(("sample", 5, [3.0, 4.0, math.nan, 1.0], [1.0, 1.0, 2.0, 0.0], [0.1, 0.1, 0.2, 0.0]))
    watched.tick()
    header, arrays = told(watched._modules_message())
    assert header["names"] == ["a.0", "b", "scale"]
    assert [arrays[f"norm{i}"].item() for i in (0, 2)] == [5.0, 1.0]
    np.testing.assert_allclose([arrays["ratio0"].item(), arrays["ratio1"].item()], [0.1, 0.1])
    assert np.isnan(arrays["norm1"]).all()
    assert np.isnan(arrays["ratio2"]).all()
    many = Watched("x", [(f"layer.{i}.weight", wg.ones(1)) for i in range(30)], 1)
    assert told(many._modules_message())[0]["names"] == ["layer"]


def own_training() -> tuple[Any, Any, Any]:
    wg.manual_seed(1)
    model = wg.nn.Linear(4, 1)
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

    @wg.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = mse(model(x), x[:, :1])
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def test_going_back_is_exact() -> None:
    """What follows a return is what followed that step before, the optimiser's averages included."""
    step, model, optimizer = own_training()
    watched = wg.explore.watch(step, model, every=1, open=False, optimizer=optimizer)
    state, x = watched.watcher.watched, wg.asarray(X)
    losses = [watched(x).item() for _ in range(25)]
    assert state._checkpoints.steps == [1, 10, 20]
    state.open(lambda message: None).receive({"type": "back", "step": 10})
    watched(x)
    header, _ = told(state.frame())
    assert (header["returns"], header["checkpoints"]) == ([[26, 10]], [1, 10])
    again = [watched(x).item() for _ in range(10)]
    watched.watcher.close()
    np.testing.assert_allclose(again, losses[10:20], rtol=1e-6)


def test_as_many_states_are_kept_as_fit() -> None:
    model = wg.nn.Linear(2, 2)
    kept = Checkpoints(model, None)
    for at in range(100):
        kept.keep(at)
        assert kept.steps[0] == 0
        assert kept.steps[-1] == at
        assert len(kept.steps) <= 12
    assert not kept.back(1)
    large = Checkpoints(wg.nn.Linear(1, 1), None)
    large._bytes = 1 << 28
    large.keep(1)
    assert large.steps == []
    assert not Checkpoints(None, None).can_keep


@pytest.mark.parametrize("fits", [True, False])
def test_pause_look_and_go_on(fits: bool, watch: Watch) -> None:
    """A paused training waits, makes single steps, shows one, and goes on; nothing of it changes what is computed."""
    heard: list[Message] = []
    order: list[str] = []
    made: list[float] = []
    threads: list[threading.Thread] = []

    def page(state: Watched) -> None:
        """What a reader does, in a thread of its own."""
        talk = state.open(heard.append)

        def reading() -> None:
            try:
                until(lambda: told(state.frame())[0]["paused"])
                at = len(made)
                talk.receive({"type": "step"})
                until(lambda: len(made) == at + 1)
                order.append("paused")
                talk.receive({"type": "look"})
                until(lambda: any(m.header["type"] == "inside" for m in heard))
                order.append("seen")
            finally:
                talk.receive({"type": "pause", "on": False})

        talk.receive({"type": "pause", "on": True})
        threads.append(threading.Thread(target=reading))
        threads[0].start()

    def until(there: Any) -> None:
        end = time.monotonic() + 20
        while not there():
            assert time.monotonic() < end
            time.sleep(0.005)

    if fits:

        class Opening(Callback):
            def on_step_start(self, run: Run) -> None:
                if run.step == 2:
                    page(watch.watcher.watched)

            def on_step_end(self, run: Run) -> None:
                made.append(run.values["loss"])

        losses = trained(watch, Opening(), compile=True).steps["loss"]
        expected = trained(compile=True).steps["loss"]
    else:
        step, model, optimizer = own_training()
        watched = wg.explore.watch(step, model, open=False, optimizer=optimizer)
        x = wg.asarray(X)
        made.append(watched(x).item())
        page(watched.watcher.watched)
        for _ in range(7):
            made.append(watched(x).item())
        watched.watcher.close()
        losses = made
        step, *_ = own_training()
        expected = [step(x).item() for _ in range(8)]
    threads[0].join()
    assert order == ["paused", "seen"]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    (shown,) = [m for m in heard if m.header["type"] == "inside"]
    document = json.loads(gzip.decompress(base64.b64decode(shown.header["document"])))
    assert document["meta"]["step"] == shown.header["step"]
    names = [document["strings"][n] for n in document["nodes"]["name"]]
    assert any("weight" in name for name in names)
    assert {1} <= set(document["events"]["phase"])


def test_a_paused_training_goes_on_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Watched.__module__], "ALONE", 0.2)
    watched = wg.explore.watch(lambda: 1.0, open=False)
    talk = watched.watcher.watched.open(lambda message: None)
    talk.receive({"type": "pause", "on": True})
    talk.close()
    watched()
    assert not told(watched.watcher.watched.frame())[0]["paused"]
    watched.watcher.close()


@pytest.mark.parametrize(
    "message", [None, [], {"type": "pause"}, {"type": "pause", "on": 1}, {"type": "back"}, {"type": "x"}]
)
def test_messages_that_mean_nothing(message: object) -> None:
    heard: list[Message] = []
    Watched("x", [], 1).open(heard.append).receive(message)
    assert heard[-1].header["type"] == "error"


def test_errors() -> None:
    with pytest.raises(ShapeError, match="every=0"):
        wg.explore.watch(len, every=0, open=False)
    with pytest.raises(DTypeError, match="a parameter 'w' that is a int"):
        wg.explore.watch(len, {"w": 1}, open=False)
    first = Watcher(Watched("x", [], 1), open=False)
    port = int(first.url.split(":")[2].split("/")[0])
    with pytest.raises(OSError, match=str(port)):
        Watcher(Watched("y", [], 1), port, open=False)
    first.close()
    first.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_loop_without_epochs_has_no_table_of_them() -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    watched = wg.explore.watch(lambda: 1.0, {"w": wg.ones(2)}, open=False)
    watched()
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(watched.watcher.url)
        sync_api.expect(page.get_by_role("heading", name="Parameters as they")).to_be_visible()
        assert page.get_by_role("heading", name="Epochs").count() == 0
        # The tile of the loss says of which step it is, and standing still is no speed.
        loss, speed = (page.locator(f".wg-watch-facts > :has(dt:text-is('{name}'))") for name in ("loss", "steps / s"))
        sync_api.expect(loss).to_contain_text("of the last step")
        sync_api.expect(speed).to_contain_text("none for 0:0")
        state = watched.watcher.watched
        state.latest = lambda: (0, None)
        while state.due <= state.made() + 1:
            watched()
        watched()
        sync_api.expect(loss).to_contain_text(re.compile(r"of step [\d,]+"))
        tables = page.locator(".wg-watch-tables")
        inner = tables.locator("> *").evaluate("(card) => card.clientWidth")
        assert inner > 0.95 * tables.evaluate("(tables) => tables.clientWidth")
        browser.close()
    watched.watcher.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.skipif(
    not resources.files("wengert.explorer").joinpath("static", "watch.js").is_file(), reason="needs the built page"
)
def test_the_page(watch: Watch) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    wrong: list[str] = []
    asked: list[str] = []
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        page = browser.new_page()
        page.on("pageerror", lambda e: wrong.append(str(e)))
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: asked.append(r.url))
        seen: list[str] = []

        class Looking(Callback):
            """The browser looks on while the training waits."""

            def on_step_end(self, run: Run) -> None:
                if run.step == 3:
                    page.goto(watch.watcher.url)
                if run.step == 6:
                    sync_api.expect(page.locator(".wg-watch-facts")).to_contain_text("epoch 2 of 2")
                    seen.append(page.get_by_role("status").inner_text())

        trained(watch, Looking(), validation=(X, X[:, :1]))
        sync_api.expect(page.get_by_role("status")).to_have_text("finished")
        assert seen == ["training"]
        assert "a <title>" in page.locator(".wg-title").inner_text()
        rows = page.locator(".wg-watch-card", has_text="Parameters").locator("tbody tr")
        assert [row.split("\t")[0] for row in rows.all_inner_texts()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
        sync_api.expect(page.locator(".wg-watch-card", has_text="Epochs").locator("tbody tr")).to_have_count(2)
        chart = page.get_by_role("img", name=re.compile("^Loss: loss .*, smoothed .*, validation "))
        before = chart.locator(".is-ink").get_attribute("d")
        page.get_by_label("logarithmic").check()
        assert chart.locator(".is-ink").get_attribute("d") != before
        page.get_by_label(re.compile("Dark colours")).click()
        assert page.locator("[data-wg-theme=dark].wg-watch").count() == 1
        assert "token" not in page.url
        address = watch.watcher.url.partition("?")[0]
        browser.close()
    assert wrong == []
    assert {url.split("?")[0] for url in asked if not url.startswith("data:")} == {
        address,
        *(address + name for name in ("explorer.js", "explorer.css", "server.js", "watch.js", "common.js")),
        address + "stream",
        address + "messages",
    }
