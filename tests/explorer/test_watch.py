"""Training watched in the browser: what the page is told, what it shows, and that nothing else is asked for."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from importlib import resources
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import DTypeError, ShapeError
from wengert.explorer.server import Message
from wengert.explorer.watch import Series, Watched, Watcher, resident
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
